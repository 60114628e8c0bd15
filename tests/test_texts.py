"""Texts: BOS first, exact lengths, the passages of the book as labelled, and many at once."""

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


# ---------------------------------------------------------------- many texts: from a folder

WATER = "the colour of the water at the harbour is the colour of the sky; "
NURSE = "the nurse took the temperature of the patient and the doctor gave the tablets; "
MOON = "the telescope on the hill saw the moon of the planet; "
MARK = "\n<|endoftext|>\n"


def whole_texts(weights, *documents):
    """Every window of every document, one document after the other."""
    return [piece for d in documents for piece in texts.windows(weights, d, weights.n_ctx)]


def all_of(weights, file):
    """Every text of one file."""
    return [text for text, _ in texts.file_texts(weights, file)]


def equal(found, expected):
    assert [text.tokens.tolist() for text in found] == [tokens.tolist() for tokens in expected]


@pytest.fixture
def folder(tmp_path):
    """harbour.txt: two documents and one too short in between; sky.txt.xz: one document."""
    harbour = MARK.join([WATER * 7, "the moon", NURSE * 5])
    (tmp_path / "harbour.txt").write_text(harbour, encoding="utf-8")
    (tmp_path / "sky.txt.xz").write_bytes(lzma.compress((MOON * 6).encode()))
    (tmp_path / "notes.md").write_text(WATER * 99)
    return tmp_path


@pytest.fixture
def filled(tiny_weights, folder):
    """What the two files of the folder hold, in order."""
    return {
        "harbour": whole_texts(tiny_weights, WATER * 7, NURSE * 5),
        "sky": whole_texts(tiny_weights, MOON * 6),
    }


def test_no_window_mixes_two_documents(tiny_weights, folder, filled):
    found = texts.collection(tiny_weights, sum(map(len, filled.values())), folder)
    for domain, expected in filled.items():
        equal([text for text in found if text.domain == domain], expected)


def test_a_document_too_short_for_a_text_gives_none(tiny_weights, folder, filled):
    equal(all_of(tiny_weights, folder / "harbour.txt"), filled["harbour"])


def test_every_text_of_a_collection_fills_the_context_and_starts_with_bos(
    tiny_weights, folder, filled
):
    for text in texts.collection(tiny_weights, sum(map(len, filled.values())), folder):
        assert text.tokens.dtype == torch.int64
        assert text.tokens.shape == (32,)
        assert text.tokens[0] == 0
        assert text.tokens[1:].all()


def test_the_files_of_a_folder_take_turns_until_they_are_empty(tiny_weights, folder, filled):
    few, many = len(filled["sky"]), len(filled["harbour"])
    found = texts.collection(tiny_weights, few + many, folder)
    turns = ["harbour", "sky"] * few + ["harbour"] * (many - few)
    assert [text.domain for text in found] == turns


def test_no_two_texts_of_a_collection_share_a_name(tiny_weights, folder, filled):
    count = sum(map(len, filled.values()))
    names = [text.name for text in texts.collection(tiny_weights, count, folder)]
    assert len(set(names)) == len(names)


def test_a_domain_is_the_name_of_its_file_without_the_ending(tiny_weights, tmp_path):
    for name in ("news.en.txt", "news.fr.txt.xz"):
        raw = (WATER * 3).encode()
        (tmp_path / name).write_bytes(lzma.compress(raw) if name.endswith(".xz") else raw)
    found = texts.collection(tiny_weights, 2, tmp_path)
    assert [text.domain for text in found] == ["news.en", "news.fr"]


@pytest.mark.parametrize(
    ("before", "between", "behind"),
    [
        ("", MARK, ""),
        ("", MARK, MARK),
        ("", MARK, "\n<|endoftext|>"),
        ("<|endoftext|>\n", MARK, "\n"),
        ("", "\n<|endoftext|>\n<|endoftext|>\n", ""),
        ("", "\r\n<|endoftext|>\r\n", ""),
    ],
    ids=["between", "behind", "last line", "first line", "twice", "windows line ends"],
)
def test_a_line_that_holds_only_the_mark_separates_documents(
    tiny_weights, tmp_path, before, between, behind
):
    one, two = (tiny_weights.tokenizer.decode(t[1:]) for t in fitting(tiny_weights))
    raw = (before + one + between + two + behind).encode()
    (tmp_path / "a.txt").write_bytes(raw)
    equal(all_of(tiny_weights, tmp_path / "a.txt"), whole_texts(tiny_weights, one, two))


def fitting(weights):
    """Two texts that fill the context to the last token."""
    return [texts.encode(weights, document * 3, 32) for document in (WATER, NURSE)]


def test_a_mark_on_the_last_line_belongs_to_no_text(tiny_weights, tmp_path):
    almost = tiny_weights.tokenizer.decode(fitting(tiny_weights)[0][1:30])
    (tmp_path / "a.txt").write_text(almost + "\n<|endoftext|>", encoding="utf-8")
    assert not all_of(tiny_weights, tmp_path / "a.txt")


def test_a_mark_within_a_line_separates_nothing(tiny_weights, tmp_path):
    (tmp_path / "a.txt").write_text("say <|endoftext|> to end; " * 9)
    found = all_of(tiny_weights, tmp_path / "a.txt")
    equal(found, whole_texts(tiny_weights, "say <|endoftext|> to end; " * 9))


def test_a_folder_may_be_named_as_text_or_as_a_path(tiny_weights, folder):
    by_path = texts.collection(tiny_weights, 3, folder)
    equal(texts.collection(tiny_weights, 3, str(folder)), [text.tokens for text in by_path])


@pytest.mark.parametrize(("name", "domain"), [("harbour.txt", "harbour"), ("sky.txt.xz", "sky")])
def test_one_file_is_a_source_too(tiny_weights, folder, filled, name, domain, monkeypatch):
    found = texts.collection(tiny_weights, len(filled[domain]), folder / name)
    equal(found, filled[domain])
    monkeypatch.setenv("CTX_TEXTS", str(folder / name))
    equal(texts.collection(tiny_weights, 1), filled[domain][:1])


def test_a_file_of_another_kind_is_refused(tiny_weights, folder):
    with pytest.raises(ValueError, match=r"notes\.md is not a \.txt or \.txt\.xz file"):
        texts.collection(tiny_weights, 1, folder / "notes.md")


def test_the_variable_names_the_folder(tiny_weights, folder, monkeypatch):
    monkeypatch.setenv("CTX_TEXTS", str(folder))
    equal(
        texts.collection(tiny_weights, 5),
        [text.tokens for text in texts.collection(tiny_weights, 5, folder)],
    )


def test_a_source_that_is_given_beats_the_variable(tiny_weights, folder, monkeypatch):
    monkeypatch.setenv("CTX_TEXTS", str(folder / "gone"))
    assert len(texts.collection(tiny_weights, 5, folder)) == 5


def test_more_texts_than_a_folder_holds_are_refused(tiny_weights, folder, filled):
    there = sum(map(len, filled.values()))
    with pytest.raises(ValueError, match=f"holds {there} texts of 32 tokens, fewer than the 99"):
        texts.collection(tiny_weights, 99, folder)


@pytest.mark.parametrize("count", [0, -1])
def test_a_collection_of_no_text_is_refused(tiny_weights, folder, count):
    with pytest.raises(ValueError, match=f"count={count}"):
        texts.collection(tiny_weights, count, folder)


def test_a_folder_without_texts_is_refused(tiny_weights, tmp_path):
    (tmp_path / "notes.md").write_text(WATER)
    with pytest.raises(ValueError, match=r"holds no \.txt or \.txt\.xz file"):
        texts.collection(tiny_weights, 1, tmp_path)


def test_a_damaged_file_in_a_folder_is_named(tiny_weights, folder):
    (folder / "bad.txt").write_bytes("façade".encode("latin-1"))
    with pytest.raises(ValueError, match=r"bad\.txt is not UTF-8"):
        texts.collection(tiny_weights, 3, folder)


def test_a_collection_needs_a_tokenizer(tiny_weights, folder):
    with pytest.raises(ValueError, match="without a tokenizer"):
        texts.collection(replace(tiny_weights, tokenizer=None), 1, folder)


def test_the_tokens_of_a_text_are_found_with_and_without_a_label():
    tokens = torch.tensor([0, 5])
    assert texts.token_ids(tokens) is tokens
    assert texts.token_ids(texts.Text("", "", "", "", "", tokens)) is tokens


# ---------------------------------------------------------------- many texts: from a data set


@pytest.fixture
def data_set(monkeypatch):
    """A data set of two rows in the place of the hub; how it was asked for comes back."""
    datasets, asked = pytest.importorskip("datasets"), []

    def load_dataset(*arguments, **options):
        asked.append((arguments, options))
        rows = [{"text": WATER * 5, "id": 1}, {"text": "short", "id": 2}, {"text": MOON * 5}]
        return datasets.Dataset.from_list(rows).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_rows_of_a_data_set_are_documents(tiny_weights, data_set, capsys):
    expected = whole_texts(tiny_weights, WATER * 5, MOON * 5)
    found = texts.collection(tiny_weights, len(expected), "someone/some-texts")
    equal(found, expected)
    assert {text.domain for text in found} == {"some-texts"}
    assert "data set someone/some-texts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("some-texts", ("some-texts", None, "train")),
        ("a/b:2024-en", ("a/b", "2024-en", "train")),
        ("a/b:2024-en:validation", ("a/b", "2024-en", "validation")),
        ("a/b::test", ("a/b", None, "test")),
    ],
)
def test_a_data_set_is_streamed_in_the_configuration_and_the_split_named(
    tiny_weights, data_set, name, asked
):
    texts.collection(tiny_weights, 1, name)
    *named, split = asked
    assert data_set == [(tuple(named), {"split": split, "streaming": True})]


def test_a_data_set_has_no_fourth_part(tiny_weights, data_set):
    with pytest.raises(ValueError, match="data set a:b:c:d: write name:configuration:split"):
        texts.collection(tiny_weights, 1, "a:b:c:d")
    assert not data_set


def test_the_variable_names_the_data_set(tiny_weights, data_set, monkeypatch):
    monkeypatch.setenv("CTX_TEXTS", "someone/some-texts")
    assert texts.collection(tiny_weights, 1)[0].domain == "some-texts"


def test_a_data_set_without_text_is_refused_with_the_columns_there_are(
    tiny_weights, data_set, monkeypatch
):
    stands_in(monkeypatch, {"id": 1, "sentence": WATER})
    with pytest.raises(
        ValueError, match="no column 'text', nor 'content' or 'document' alone; it has id, sentence"
    ):
        texts.collection(tiny_weights, 1, "someone/some-texts")


def stands_in(monkeypatch, *rows):
    """These rows in the place of a data set on the hub."""
    import datasets

    found = datasets.Dataset.from_list(list(rows)).to_iterable_dataset()
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: found)


@pytest.mark.parametrize("column", ["content", "document"])
def test_the_texts_may_be_in_another_column_if_it_is_the_only_one(
    tiny_weights, data_set, monkeypatch, column
):
    stands_in(monkeypatch, {"id": 1, column: WATER * 5})
    equal(texts.collection(tiny_weights, 1, "a/b"), whole_texts(tiny_weights, WATER * 5)[:1])
    stands_in(monkeypatch, {"text": MOON * 5, column: WATER * 5})
    equal(texts.collection(tiny_weights, 1, "a/b"), whole_texts(tiny_weights, MOON * 5)[:1])
    stands_in(monkeypatch, {"content": MOON, "document": WATER})
    with pytest.raises(ValueError, match="alone; it has content, document"):
        texts.collection(tiny_weights, 1, "a/b")


def test_a_column_of_something_else_is_refused(tiny_weights, data_set, monkeypatch):
    stands_in(monkeypatch, {"text": [WATER, MOON]})
    with pytest.raises(ValueError, match="data set a/b: text is not a column of texts"):
        texts.collection(tiny_weights, 1, "a/b")


def test_a_data_set_with_too_few_texts_is_refused(tiny_weights, data_set):
    with pytest.raises(ValueError, match="fewer than the 99"):
        texts.collection(tiny_weights, 99, "someone/some-texts")


@pytest.mark.parametrize("name", ["nobody/no-such-texts", "/no/such/folder", "gone"])
def test_a_source_that_is_neither_a_folder_nor_within_reach_is_refused(tiny_weights, name):
    pytest.importorskip("datasets")
    with pytest.raises(ValueError, match=f"{name} is neither a file, nor a folder, nor a data set"):
        texts.collection(tiny_weights, 1, name)


# ---------------------------------------------------------------- many texts: the sampled ones


@pytest.fixture
def from_mini(tmp_path, monkeypatch, mini_weights, passages):
    """Three texts in the vocabulary of `mini`, as if they had been sampled."""
    rows = torch.stack([passages[name].tokens for name in ("war-1", "law-1", "python-1")])
    tokens = rows.numpy().astype(np.uint16)
    np.savez(tmp_path / "samples.npz", tokens=tokens, vocab=len(mini_weights.W_E))
    monkeypatch.setattr(texts, "SAMPLES", tmp_path / "samples.npz")
    monkeypatch.delenv("CTX_TEXTS", raising=False)
    return rows


@pytest.mark.parametrize("count", [1, 3])
def test_without_a_source_the_texts_are_the_sampled_ones(mini_weights, from_mini, count):
    found = texts.collection(mini_weights, count)
    equal(found, from_mini[:count])
    assert {text.domain for text in found} == {"sampled"}
    assert [text.name for text in found] == [f"sample-{i:04d}" for i in range(count)]
    assert found[0].tokens.dtype == torch.int64


def test_an_empty_variable_names_no_source(mini_weights, from_mini, monkeypatch):
    monkeypatch.setenv("CTX_TEXTS", "")
    equal(texts.collection(mini_weights, 2), from_mini[:2])


def test_sampled_texts_carry_what_they_say(mini_weights, from_mini):
    for text, row in zip(texts.collection(mini_weights, 3), from_mini, strict=True):
        assert text.source == mini_weights.tokenizer.decode(row[1:])


def test_sampled_texts_are_encoded_anew_for_another_vocabulary(
    tiny_weights, mini_weights, from_mini
):
    found = texts.collection(tiny_weights, 3)
    decoded = [mini_weights.tokenizer.decode(row[1:]) for row in from_mini]
    equal(found, [texts.encode(tiny_weights, source, 32) for source in decoded])
    assert [text.source for text in found] == decoded


def test_a_short_sampled_text_stays_short_in_another_vocabulary(
    tiny_weights, mini_weights, tmp_path, monkeypatch
):
    ids = mini_weights.tokenizer.encode("the moon", add_special_tokens=False)
    tokens = np.array([[0, *ids]], dtype=np.uint16)
    np.savez(tmp_path / "samples.npz", tokens=tokens, vocab=len(mini_weights.W_E))
    monkeypatch.setattr(texts, "SAMPLES", tmp_path / "samples.npz")
    monkeypatch.delenv("CTX_TEXTS", raising=False)
    (text,) = texts.collection(tiny_weights, 1)
    assert torch.equal(text.tokens, texts.encode(tiny_weights, "the moon"))


@pytest.mark.parametrize("count", [0, -1, 4])
def test_a_count_out_of_range_of_the_sampled_texts_is_refused(tiny_weights, from_mini, count):
    with pytest.raises(ValueError, match=f"count={count}: there are 3 sampled"):
        texts.collection(tiny_weights, count)
