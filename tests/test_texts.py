"""Texts: BOS first, exact lengths, and the passages of the book as labelled."""

import lzma
import warnings
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

import ctxlib as cx
from ctxlib import texts

SOURCE = "the doctor gave the patient the tablets; the telescope on the hill saw the moon. " * 3
FILES = sorted(texts.PASSAGES.glob("*.txt"))
LANGUAGES = {"spanish": "es", "french": "fr", "german": "de", "python": "python"}
DIALECTS = {"british": "en-GB", "american": "en-US", **LANGUAGES}


@pytest.fixture
def body(tiny_weights):
    """The tokens of SOURCE without BOS: more than `tiny` reads."""
    ids = tiny_weights.tokenizer.encode(SOURCE, add_special_tokens=False)
    assert len(ids) > 64
    return torch.tensor(ids)


# ---------------------------------------------------------------- one text


@pytest.mark.parametrize("length", [2, 3, 17, 32])
def test_a_text_is_bos_and_then_its_first_tokens(tiny_weights, body, length):
    tokens = texts.encode(tiny_weights, SOURCE, length)
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == [0, *body[: length - 1].tolist()]


def test_a_short_text_is_kept_whole_and_without_a_warning(tiny_weights):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens = texts.encode(tiny_weights, "the moon")
    assert tokens[0] == 0
    assert tiny_weights.tokenizer.decode(tokens[1:]) == "the moon"


def test_a_text_that_fills_the_context_to_the_last_token_gets_no_warning(tiny_weights, body):
    fitting = tiny_weights.tokenizer.decode(body[:31])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(texts.encode(tiny_weights, fitting)) == 32


def test_a_text_that_is_too_long_is_cut_and_the_warning_counts_what_is_dropped(tiny_weights, body):
    with pytest.warns(
        UserWarning, match=rf"my\.txt has {1 + len(body)} tokens.*{1 + len(body) - 32} dropped"
    ):
        tokens = texts.encode(tiny_weights, SOURCE, name="my.txt")
    assert tokens.tolist() == [0, *body[:31].tolist()]


@pytest.mark.parametrize("source", ["", " ", "\n\t\n"])
def test_an_empty_text_is_refused(tiny_weights, source):
    with pytest.raises(ValueError, match="the text is empty"):
        texts.encode(tiny_weights, source)


def test_a_text_shorter_than_asked_for_is_refused(tiny_weights):
    with pytest.raises(ValueError, match="fewer than the 30"):
        texts.encode(tiny_weights, "the moon", length=30)


@pytest.mark.parametrize("length", [33, 1, 0, -5])
def test_a_length_out_of_range_is_refused(tiny_weights, length):
    with pytest.raises(ValueError, match=f"length={length}: choose 2 to 32"):
        texts.encode(tiny_weights, SOURCE, length)


def test_a_text_needs_a_tokenizer(tiny_weights):
    with pytest.raises(ValueError, match="without a tokenizer"):
        texts.encode(replace(tiny_weights, tokenizer=None), SOURCE)


# ---------------------------------------------------------------- a long text in pieces


@pytest.mark.parametrize("length", [2, 7, 32])
def test_windows_cover_a_text_in_order(tiny_weights, body, length):
    pieces = texts.windows(tiny_weights, SOURCE, length)
    assert len(pieces) == len(body) // (length - 1)
    assert {len(piece) for piece in pieces} == {length}
    assert {piece[0].item() for piece in pieces} == {0}
    covered = torch.cat([piece[1:] for piece in pieces])
    assert torch.equal(covered, body[: len(covered)])


def test_windows_begin_with_the_text_that_encode_gives(tiny_weights):
    assert torch.equal(
        texts.windows(tiny_weights, SOURCE, 20)[0], texts.encode(tiny_weights, SOURCE, 20)
    )


def test_windows_of_a_text_that_fills_none_are_refused(tiny_weights):
    with pytest.raises(ValueError, match="fewer than the 30"):
        texts.windows(tiny_weights, "the moon", 30)


@pytest.mark.parametrize("length", [33, 1])
def test_windows_of_a_length_out_of_range_are_refused(tiny_weights, length):
    with pytest.raises(ValueError, match="choose 2 to 32"):
        texts.windows(tiny_weights, SOURCE, length)


# ---------------------------------------------------------------- files


def test_a_file_is_read_plain_or_compressed(tmp_path):
    (tmp_path / "a.txt").write_text("façade\n", encoding="utf-8")
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress("façade\n".encode()))
    assert texts.read(tmp_path / "a.txt") == texts.read(str(tmp_path / "a.txt.xz")) == "façade\n"


def test_a_file_that_is_not_utf_8_is_refused_with_the_place(tmp_path):
    (tmp_path / "latin.txt").write_bytes("façade".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt is not UTF-8 \(byte 2\)"):
        texts.read(tmp_path / "latin.txt")


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_an_empty_file_is_refused(tmp_path, content):
    (tmp_path / "nothing.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"nothing\.txt is empty"):
        texts.read(tmp_path / "nothing.txt")


@pytest.mark.parametrize("kept", [-1, 40, 3])
def test_a_compressed_file_that_is_damaged_is_refused(tmp_path, kept):
    (tmp_path / "bad.txt.xz").write_bytes(lzma.compress(b"some text " * 500)[:kept])
    with pytest.raises(ValueError, match=r"bad\.txt\.xz"):
        texts.read(tmp_path / "bad.txt.xz")


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match=r"gone\.txt"):
        texts.read(tmp_path / "gone.txt")


# ---------------------------------------------------------------- the passages


@pytest.mark.parametrize("length", [None, 20])
def test_passages_come_labelled_and_in_the_length_asked_for(tiny_weights, length):
    all_of_them = texts.passages(tiny_weights, length)
    assert [text.name for text in all_of_them] == [file.stem for file in FILES]
    assert {len(text.tokens) for text in all_of_them} == {length or 32}
    assert {text.tokens[0].item() for text in all_of_them} == {0}


def test_domains_choose_and_order_the_passages(tiny_weights):
    chosen = texts.passages(tiny_weights, 20, domains=["war", "astronomy"])
    assert [text.domain for text in chosen] == ["war"] * 4 + ["astronomy"] * 4


def test_an_unknown_domain_is_refused_with_those_there_are(tiny_weights):
    with pytest.raises(
        ValueError, match="no passages for alchemy, chess; there are american, astronomy"
    ):
        texts.passages(tiny_weights, domains=["war", "alchemy", "chess"])


def test_a_passage_without_its_head_is_refused(tiny_weights, tmp_path):
    (tmp_path / "x-1.txt").write_text("domain: x\nsubject: y\n\nthe text\n")
    with pytest.raises(ValueError, match=r"x-1\.txt: the head lacks dialect"):
        texts.read_passage(tiny_weights, tmp_path / "x-1.txt", None)


def test_there_are_enough_domains_and_passages():
    counts = Counter(file.stem.rpartition("-")[0] for file in FILES)
    assert len(counts) >= 14
    assert min(counts.values()) >= 4


@pytest.fixture(scope="module")
def passages(mini_weights):
    """Every passage, as much of it as `mini` reads."""
    return {text.name: text for text in texts.passages(mini_weights)}


@pytest.mark.parametrize("name", [file.stem for file in FILES])
def test_a_passage_is_labelled_long_enough_and_fills_the_context(passages, name):
    text = passages[name]
    assert text.domain == name.rpartition("-")[0]
    assert text.dialect == DIALECTS.get(text.domain, text.dialect)
    assert text.dialect in DIALECTS.values()
    assert text.subject.strip()
    assert len(text.source.split()) >= 350
    assert len(text.tokens) == 512


def test_a_passage_is_read_back_from_its_tokens(passages, mini_weights):
    for text in passages.values():
        assert text.source.startswith(mini_weights.tokenizer.decode(text.tokens[1:-3]))


def test_british_and_american_passages_come_in_pairs_on_one_subject(passages):
    subjects = defaultdict(dict)
    for name, text in passages.items():
        domain, _, number = name.rpartition("-")
        subjects[domain][number] = text.subject
    assert subjects["british"] == subjects["american"]
    assert len(set(subjects["british"].values())) == len(subjects["british"])


def test_no_two_passages_share_a_run_of_12_words(passages):
    where = defaultdict(set)
    for name, text in passages.items():
        words = text.source.split()
        for i in range(len(words) - 11):
            where[" ".join(words[i : i + 12])].add(name)
    assert {run: names for run, names in where.items() if len(names) > 1} == {}


# ---------------------------------------------------------------- the sampled texts


@pytest.fixture
def stored(tmp_path, monkeypatch, tiny_weights):
    """Five sampled texts in a file, as if they were the package's own."""
    tokens = np.arange(5 * 32).reshape(5, 32).astype(np.uint16)
    np.savez(tmp_path / "samples.npz", tokens=tokens, vocab=len(tiny_weights.W_E))
    monkeypatch.setattr(texts, "SAMPLES", tmp_path / "samples.npz")
    return torch.from_numpy(tokens.astype(np.int64))


@pytest.mark.parametrize("count", [None, 1, 5])
def test_samples_are_the_first_of_those_stored(tiny_weights, stored, count):
    samples = texts.samples(tiny_weights, count)
    assert torch.equal(torch.stack(samples), stored[:count])


@pytest.mark.parametrize("count", [0, -1, 6])
def test_a_count_of_samples_out_of_range_is_refused(tiny_weights, stored, count):
    with pytest.raises(ValueError, match=f"count={count}: there are 5"):
        texts.samples(tiny_weights, count)


def test_samples_are_refused_for_another_vocabulary(tiny_weights, stored):
    other = replace(tiny_weights, W_E=tiny_weights.W_E[:200])
    with pytest.raises(ValueError, match="another vocabulary"):
        texts.samples(other)


def test_a_text_drawn_from_the_passages_can_be_attended_to(mini_weights, passages):
    rows = cx.attention_rows(mini_weights, passages["war-1"].tokens, 511)
    torch.testing.assert_close(rows.sum(-1), torch.ones(8))
