"""Texts: BOS first, exact lengths, the passages of the book as labelled, and many at once."""

import gzip
import hashlib
import json
import lzma
import re
import tracemalloc
import warnings
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import islice, product, zip_longest
from unittest.mock import MagicMock, Mock

import datasets
import numpy as np
import pytest
import torch
import zstandard
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

import ctxlib as cx
from ctxlib import texts
from ctxlib.texts import sources
from ctxlib.texts.vocabulary import vocab_fingerprint
from ctxviews import labels

WATER = "the colour of the water at the harbour is the colour of the sky; "
NURSE = "the nurse took the temperature of the patient and the doctor gave the tablets; "
MOON = "the telescope on the hill saw the moon of the planet; "
MARK = "\n<|endoftext|>\n"
SOURCE = NURSE * 4
FILES = sorted(texts.PASSAGES.glob("*.txt"))
DIALECTS = {"british": "en-GB", "american": "en-US", "spanish": "es", "french": "fr"}
DIALECTS |= {"german": "de", "python": "python"}


# ---------------------------------------------------------------- one text


@pytest.mark.parametrize("length", [2, 3, 7, 17, 32])
def test_windows_are_bos_and_the_next_tokens_and_a_text_is_the_first(tiny_weights, length):
    body = torch.tensor(tiny_weights.tokenizer.encode(SOURCE, add_special_tokens=False))
    reader = texts.Reader.of(tiny_weights, length)
    windows = torch.stack(texts.windows(reader, SOURCE))
    assert windows.shape == (len(body) // (length - 1), length) and len(body) > 64
    assert not windows[:, 0].any()
    covered = windows[:, 1:].flatten()
    assert torch.equal(covered, body[: len(covered)])
    count = len(body) + 1
    message = f"the text has {count} tokens.*: cut to the first {length}, {count - length} dropped"
    with pytest.warns(UserWarning, match=message):
        encoded = texts.encode(reader, SOURCE)
    assert encoded.dtype == torch.int64 and torch.equal(encoded, windows[0])
    with warnings.catch_warnings(action="error"):  # it fits
        assert torch.equal(texts.encode(reader, reader.tokenizer.decode(encoded[1:])), encoded)
    assert texts.windows(reader, "") == []
    with pytest.raises(ValueError, match="the text is empty"):
        texts.encode(reader, " \n\t\n")
    for n_ctx in (33, 1, 0):
        with pytest.raises(ValueError, match=f"n_ctx={n_ctx}: choose 2 to 32"):
            texts.Reader.of(tiny_weights, n_ctx)


@pytest.mark.parametrize("marks", [(0, 5, 7), (None, 5, 7), (None, None, 7), (None, None, None)])
def test_where_there_is_no_bos_a_text_starts_with_cls_or_eos(marks):
    names = ("bos_token_id", "cls_token_id", "eos_token_id")
    words = {"encode.return_value": [1, 2], "get_vocab.return_value": {}}
    reader = texts.Reader(Mock(**dict(zip(names, marks, strict=True)), **words), 32, 300)
    if any(marks):
        first = next(mark for mark in marks if mark is not None)
        assert texts.encode(reader, "a hill").tolist() == [first, 1, 2]
    else:
        with pytest.raises(ValueError, match="no BOS, CLS or EOS token"):
            texts.encode(reader, "a hill")


@pytest.mark.parametrize("read", [texts.encode, texts.windows, cx.LayerWeights.token_id])
def test_words_need_a_tokenizer(tiny_weights, read):
    with pytest.raises(ValueError, match=r"no tokenizer to read|without a tokenizer: give the id"):
        read(replace(tiny_weights, tokenizer=None), "hill")


def test_vocabularies_of_one_size_are_distinguished():
    vocabularies = (
        {"__len__.return_value": 9, "encode.return_value": ids} for ids in ([1, 2], [2, 1])
    )
    assert len({vocab_fingerprint(MagicMock(**words)) for words in vocabularies}) == 2


def test_words_with_and_without_a_space_are_spelled_apart():
    """In a vocabulary of SentencePiece's kind, as Llama 2 has it, and of WordPiece's."""
    words = {"[unk]": 0, "\u2581the": 1, "the": 2, "\u2581": 3, "ing": 4, "##ing": 5}
    kinds = {
        1: (decoders.Metaspace(), [" the", "the", " "]),
        4: (decoders.WordPiece(), ["ing", "##ing"]),
    }
    for first, (decoder, spelled) in kinds.items():
        raw = Tokenizer(models.WordLevel(words, unk_token="[unk]"))
        raw.decoder = decoder
        reader = texts.Reader(PreTrainedTokenizerFast(tokenizer_object=raw), 32, len(words))
        assert texts.decode_tokens(reader, range(first, first + len(spelled))) == spelled


def test_half_a_character_is_refused(tiny_weights):
    with pytest.raises(ValueError, match=r"half a character at 4 \(a lone surrogate\)"):
        texts.encode(tiny_weights, "the \ud800 mark")


@pytest.mark.parametrize("length", [3, 8, 31])
def test_no_window_begins_or_ends_inside_a_character(tiny_weights, length):
    """Each of these is two to four tokens in a vocabulary that does not know it."""
    source = "l’été 北京 \U0001f600 " * 40
    found = texts.windows(texts.Reader.of(tiny_weights, length), source)
    words = [tiny_weights.tokenizer.decode(window[1:]) for window in found]
    assert len(words) > 3 and not any("\ufffd" in text or text not in source for text in words)


# ---------------------------------------------------------------- the door for texts


DOORS = {
    "calibrate": lambda m, fixed, x: cx.ContextualCircuit.calibrate(fixed, x, [3, 4]).calibration,
    "denominators": lambda m, fixed, x: cx.softmax_denominators(fixed, [x, x]),
    "along": lambda m, fixed, x: cx.lookups.denominators_along(fixed, x),
    "mean z": lambda m, fixed, x: cx.lookups.mean_z(m, [x], length=20),
    "first layer": lambda m, fixed, x: cx.fit_additive(m, [x, x], n=30).decomposition.kernels,
    "attribution": lambda m, fixed, x: cx.lookups.attribution(m, 1, 3, [x]).heads,
}
SQUARE = torch.ones(2, 300, dtype=torch.int64)
NO_TEXTS = [None, 7, [0, 5, 6], torch.ones(300), SQUARE, torch.ones(9) > 0]


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_plain_string_is_a_text_and_what_is_none_is_one_clear_line(mini, mini_weights, door):
    ids, fixed = texts.encode(mini_weights, SOURCE), cx.fix_query(mini_weights, n=40)
    assert torch.equal(door(mini, fixed, SOURCE), door(mini, fixed, ids))
    for wrong in NO_TEXTS:
        with pytest.raises(ValueError, match=r"is no text: give a string, one of .*BOS$") as caught:
            door(mini, fixed, wrong)
        assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- the passages


@pytest.fixture(scope="module")
def passages(mini_weights):
    """Every passage, as much of it as `mini` reads."""
    return {text.name: text for text in texts.passages(mini_weights)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_passage_is_labelled_long_enough_and_fills_the_context(file, passages, mini_weights):
    assert re.fullmatch(r"[a-z]+-[1-9]\d*", file.stem), "it is called <domain>-<number>.txt"
    text, domain = passages[file.stem], file.stem.rpartition("-")[0]
    assert text.domain == domain, "the domain in the head is the one in the file name"
    assert text.dialect in ([DIALECTS[domain]] if domain in DIALECTS else DIALECTS.values())
    assert text.subject == text.subject.strip()
    assert len(text.source.split()) >= 350, "words"
    assert len(text.tokens) == 512, "tokens: the text is too short to fill mini's context"
    assert text.source.startswith(mini_weights.tokenizer.decode(text.tokens[1:-3]))


def test_there_are_enough_domains_and_passages_and_british_and_american_ones_are_pairs(passages):
    subjects = defaultdict(dict)
    for name, text in passages.items():
        domain, _, number = name.rpartition("-")
        subjects[domain][number] = text.subject
    assert len(subjects) >= 14 and min(map(len, subjects.values())) >= 4
    assert subjects["british"] == subjects["american"]
    assert len(set(subjects["british"].values())) == len(subjects["british"])


def test_passages_of_no_domain_or_of_another_model_are_refused(passages, tiny_weights):
    with pytest.raises(ValueError, match="no passages for chess; there are "):
        texts.passages(tiny_weights, ["war", "chess"])
    with pytest.raises(ValueError, match="law-1 is in the tokens of another model"):
        texts.token_ids(passages["law-1"], tiny_weights)


def test_no_two_passages_share_a_run_of_12_words(passages):
    where = {}
    for name, text in passages.items():
        words = text.source.split()
        for run in zip(*(words[i:] for i in range(12)), strict=False):
            assert where.setdefault(run, name) == name


# ---------------------------------------------------------------- many texts: from files


def facts(found):
    """The facts of texts, and their tokens."""
    return [(t.name, t.domain, t.document, t.half, t.source, t.tokens.tolist()) for t in found]


def by_hand(weights, half=None, **sources):
    """The same of every window of every document, by domain; one of each domain in turn."""
    by_domain = defaultdict(list)
    for domain, documents in sources.items():
        windows = [(d, window) for d in documents for window in texts.windows(weights, d)]
        for number, (document, window) in enumerate(windows):
            digest = hashlib.sha256(document.encode()).hexdigest()[:16]
            own = "AB"[int(digest, 16) % 2]
            if half in (None, own):
                rest = digest, own, weights.tokenizer.decode(window[1:]), window.tolist()
                by_domain[domain].append((f"{domain}-{number:04d}", domain, *rest))
    return [text for turn in zip_longest(*by_domain.values()) for text in turn if text]


def everything(weights, source, half=None):
    """All texts there are: they come before the error that they are not enough."""
    found = []
    with pytest.raises(
        ValueError, match=r"holds (\d+) texts of 32 .* fewer than the 999"
    ) as caught:
        for text in texts.stream(weights, 999, source, half):
            found.append(text)
    assert f"holds {len(found)} texts" in str(caught.value)
    assert {text.tokens.dtype for text in found} <= {torch.int64}
    return found


DOCUMENTS = [WATER * 7, "the moon", "", NURSE * 5, *(f"{i} {MOON * 6}" for i in range(3))]
LINES = MARK.join(DOCUMENTS).encode()


@pytest.fixture
def folder(tmp_path):
    """Two files of texts; where there are any, files of rows are not read."""
    (tmp_path / "harbour.en.txt").write_bytes(LINES)
    (tmp_path / "sky.txt.xz").write_bytes(lzma.compress((MOON * 6).encode()))
    for name in ("notes.md", "about.json"):
        (tmp_path / name).write_text(WATER * 99)
    return tmp_path


@pytest.mark.parametrize("between", [MARK, f"{MARK}<|endoftext|>\n", MARK.replace("\n", "\r\n")])
@pytest.mark.parametrize("begin", ["", "<|endoftext|>\n"])
@pytest.mark.parametrize("end", ["", "\n", MARK[:-1], MARK])
def test_a_line_that_holds_only_the_mark_separates_documents(
    tiny_weights, tmp_path, begin, between, end
):
    words = WATER * 3, NURSE * 3
    (tmp_path / "a.txt").write_bytes(f"{begin}{between.join(words)}{end}".encode())
    found = facts(everything(tiny_weights, tmp_path / "a.txt"))
    assert found == by_hand(tiny_weights, a=words)


def test_a_long_document_is_cut_at_the_end_of_a_line(tiny_weights, tmp_path, monkeypatch):
    """And a mark within a line separates nothing."""
    line = "say <|endoftext|> to end; "
    pieces = [f"{line * 3}\n{NURSE * 3}", f"{MOON * 3}\n{line * 4}"]
    (tmp_path / "a.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    monkeypatch.setattr("ctxlib.texts.documents.LONGEST", len(pieces[0]) + 1)
    assert facts(everything(tiny_weights, tmp_path)) == by_hand(tiny_weights, a=pieces)


def row(**held):
    return f"{json.dumps(held)}\n".encode()


ROWS = b"".join(row(id=i, text=d) for i, d in enumerate(DOCUMENTS))
PACKED = {
    "txt": LINES,
    "txt.xz": lzma.compress(LINES),
    "jsonl": ROWS,
    "json.gz": gzip.compress(ROWS),
    "jsonl.zst": zstandard.compress(ROWS),
}


def many(place):
    """The same documents in a file of any kind, or the rows of two files in a folder."""
    place.parent.mkdir(exist_ok=True)
    if place.suffix == ".rows":
        for name in ("1.parquet", "2.parquet"):
            many(place / name)
    elif place.suffix == ".parquet":
        rows = [{"text": d, "id": 1} for d in DOCUMENTS]
        datasets.Dataset.from_list(rows).to_parquet(place)
    else:
        place.write_bytes(PACKED[place.name.partition(".")[2]])
    return place


ONE = lzma.compress(b"some text " * 500)
NOWHERE = ("/no/such/folder", "./gone", "~/gone", "gone/", "a/b/c", "my texts", r"C:\texts")
NOWHERE += ("a/gone.txt.xz", "a/gone.jsonl", "a/gone.parquet")
REFUSED = [
    ("notes.md", b"words", "notes.md is not a .txt or .txt.xz file, nor a .jsonl"),
    ("folder/notes.md", b"words", "folder holds no .txt or .txt.xz file, nor a .jsonl"),
    ("a.txt", b"", "a.txt is empty"),
    ("a.txt", b" \n\n", "a.txt is empty"),
    ("a.txt", "façade".encode("latin-1"), "a.txt is not UTF-8 (byte 2)"),
    *(("a.txt.xz", ONE[:kept], "a.txt.xz is not a whole .xz file") for kept in (-1, 40, 3)),
    ("rows/b.parquet", b"", "holds .json and .parquet files: name one kind"),
    ("a.jsonl", ROWS + b'{"text": oops}\n', "data set a.jsonl: no row after 0 more: JSON parse"),
    ("a.jsonl", row(id=1), "no column 'text', nor 'content' or 'document' alone; it has id"),
    ("a.jsonl", row(content=MOON, document=WATER), "' alone; it has content, document"),
    ("a.jsonl", row(text=[WATER, MOON]), "data set a.jsonl: text is not a column of texts"),
    *((name, None, f"there is no file or folder {name}") for name in NOWHERE),
    ("a:b:c:d", None, "data set a:b:c:d: write name:configuration:split"),
    *((n, None, f"{n} is neither a file, nor a folder, nor a data") for n in ("gone", "a/gone")),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_a_source_that_cannot_be_read_is_refused_and_named(
    tiny_weights, tmp_path, monkeypatch, name, content, message
):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        for file, held in (("rows/a.jsonl", ROWS), (name, content)):
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_bytes(held)
        name = name.partition("/")[0]
    with pytest.raises(ValueError, match=re.escape(message)):
        texts.collection(tiny_weights, 3, name)


@pytest.mark.parametrize("column", ["content", "document"])
def test_the_texts_may_be_in_another_column_if_it_is_the_only_one(tiny_weights, tmp_path, column):
    for other, used in (({"id": 1}, WATER), ({"text": MOON * 5}, MOON)):
        (tmp_path / "a.jsonl").write_bytes(row(**other, **{column: WATER * 5}))
        assert facts(everything(tiny_weights, tmp_path)) == by_hand(tiny_weights, a=[used * 5])


def test_a_mark_of_byte_order_is_no_part_of_a_text(tiny_weights, tmp_path):
    (tmp_path / "a.txt").write_text(WATER * 5, encoding="utf-8-sig")
    assert facts(everything(tiny_weights, tmp_path)) == by_hand(tiny_weights, a=[WATER * 5])


def test_a_label_is_the_folder_that_a_file_lies_in(tiny_weights, tmp_path):
    for place in ("sea/near.txt", "land/far/a.txt", "land/far/b.txt", "far/a.txt", "alone.txt"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(WATER * 5)
    found = texts.labeled(tiny_weights, tmp_path)
    assert {text.domain for text in found} == {"sea", "far", "land/far", "alone"}
    assert len({text.name for text in found}) == len(found), "one name for each"
    (tmp_path / "sea" / "near.txt").write_text("the moon")
    with pytest.raises(ValueError, match=r"no file in .*sea has the 32 tokens of a text"):
        texts.labeled(tiny_weights, tmp_path / "sea")


def labelled(**documents):
    """A text for each window of each document of each label: sea=[3, 1] are two documents."""
    said = [
        (d, f"{d}{k}", w) for d, of in documents.items() for k, n in enumerate(of) for w in range(n)
    ]
    return [
        texts.Text(f"{doc}.{w}", domain, "", "", "", torch.tensor([0]), doc)
        for domain, doc, w in said
    ]


@pytest.mark.parametrize("seed", range(8))
def test_every_label_is_in_both_halves(tmp_path, tiny_weights, seed):
    """Whatever its documents are: their hashes choose nothing. A document is in one half."""
    draw = np.random.default_rng(seed)
    for label, count in (("one", 1), ("two", 2), ("five", 5)):
        (tmp_path / label).mkdir()
        for k in range(count):
            words = draw.permutation(WATER.split() * int(draw.integers(5, 20)))
            (tmp_path / label / f"{k}.txt").write_text(" ".join(words))
    found = texts.labeled(tiny_weights, tmp_path)
    halves = {half: {text.domain for text in found if text.half == half} for half in "AB"}
    assert halves == {half: {"one", "two", "five"} for half in "AB"}
    of = defaultdict(set)
    for text in found:
        of[text.domain, text.document].add(text.half)
    assert {domain for (domain, _), halves in of.items() if len(halves) > 1} == {"one"}


def test_the_halves_of_a_label_are_about_equal():
    halved = sources.halved(labelled(a=[1, 2, 9, 3, 3, 1], b=[5], c=[1], d=[1, 1, 1]))
    count = Counter((text.domain, text.half) for text in halved)
    assert count == {
        ("a", "A"): 10,
        ("a", "B"): 9,
        ("b", "A"): 3,
        ("b", "B"): 2,
        ("c", "A"): 1,
        ("d", "A"): 2,
        ("d", "B"): 1,
    }
    assert [t.half for t in halved if t.domain == "b"] == [*"AAABB"], "in one piece each"
    assert [t.name for t in halved] == [
        t.name for t in labelled(a=[1, 2, 9, 3, 3, 1], b=[5], c=[1], d=[1] * 3)
    ]


def test_a_document_with_two_labels_is_in_one_half():
    same = [replace(text, domain=label) for label in "ab" for text in labelled(sea=[2, 2, 1])]
    halves = defaultdict(set)
    for text in sources.halved(same):
        halves[text.document].add(text.half)
    assert {len(of) for of in halves.values()} == {1} and len(halves) == 3


def test_labels_and_their_documents_take_turns():
    given = labelled(sea=[9, 2], land=[1], sky=[3, 1])
    assert [text.name for text in labels.in_turn(given)][:7] == [
        *("sea0.0", "land0.0", "sky0.0", "sea1.0", "sky1.0", "sea0.1", "sky0.1")
    ]
    assert sorted(t.name for t in labels.in_turn(given)) == sorted(t.name for t in given)
    assert [t.domain for t in labels.some(given, 2)] == ["sea", "land", "sky"], "one of each"
    assert Counter(t.domain for t in labels.some(given, 9)) == {"sea": 4, "land": 1, "sky": 4}


def test_labels_that_are_not_learned_or_not_judged_are_named(tmp_path):
    (tmp_path / "short").mkdir()
    (tmp_path / "short" / "a.txt").write_text("too short")
    found = sources.halved(labelled(good=[3, 3], split=[4], lone=[1], pair=[1, 1]))
    notes = labels.label_notes(found, tmp_path)
    assert [note.partition(":")[0] for note in notes] == ["short", "lone, pair", "split"]
    assert "shorter than a text" in notes[0] and "half A has fewer than two" in notes[1]
    only_A = [replace(text, half="A") for text in labelled(sea=[2])]
    (note,) = labels.label_notes(only_A + [t for t in found if t.domain == "good"])
    assert note.startswith("sea: learned but not judged")
    (note,) = labels.label_notes(only_A)
    assert "on the same texts" in note
    assert labels.label_notes([t for t in found if t.domain == "good"]) == []


def test_a_text_is_that_of_a_file_or_the_words_themselves(tiny_weights, tmp_path):
    reader = texts.Reader.of(tiny_weights, 20)
    (tmp_path / "sea.txt").write_text(WATER * 5)
    ours, same = (labels.one_text(reader, str(of)) for of in (tmp_path / "sea.txt", WATER * 5))
    assert (
        ours.tokens.tolist() == same.tokens.tolist() == texts.windows(reader, WATER * 5)[0].tolist()
    )
    assert (ours.name, same.name) == (str(tmp_path / "sea.txt"), "your text")
    for given, says in (("nowhere.txt", "no file 'nowhere.txt'"), ("the sea", "20 are needed")):
        with pytest.raises(ValueError, match=says):
            labels.one_text(reader, given)


# ---------------------------------------------------------------- many texts: as a stream


SOURCES = {kind: {"many": DOCUMENTS} for kind in (*PACKED, "parquet")}
SOURCES["rows"] = {"many.rows": DOCUMENTS * 2}
SOURCES["folder"] = {"harbour.en": DOCUMENTS, "sky": [MOON * 6]}


@pytest.mark.parametrize(
    ("kind", "half"), [*product(SOURCES, [None]), *product(("folder", "rows"), "AB")]
)
def test_a_stream_goes_on_at_any_text(
    tiny_weights, folder, tokenised, capfd, monkeypatch, kind, half
):
    """The files of a folder take turns, its files of rows are one data set, no text mixes two
    documents, and a half is all of its documents. Wherever a reading stands, what it reports
    survives JSON and leads back there; and of the documents before, none is tokenised again. A
    source is given, or else named by the variable.
    """
    source = folder if kind == "folder" else many(folder / "in" / f"many.{kind}")
    monkeypatch.setenv("CTX_TEXTS", str(folder / "gone"))
    capfd.readouterr()
    found = everything(tiny_weights, source, half)
    expected = facts(found)
    assert expected == by_hand(tiny_weights, half, **SOURCES[kind])
    assert capfd.readouterr() == ("", ""), "no network, and no word of the library's"
    monkeypatch.setenv("CTX_TEXTS", str(source))
    tokenised.reset_mock()
    stream = texts.stream(tiny_weights, len(found), half=half)
    reading = iter(stream)
    assert (len(stream), tokenised.call_count) == (len(found), 0)
    for k, text in enumerate(found):
        next(reading)
        again = stream.reading(json.loads(json.dumps(reading.place)))
        tokenised.reset_mock()
        assert (facts([next(again)]), again.given) == (facts([text]), k + 1)
        tokenised.assert_called_once()
        assert text.source in tokenised.call_args.args[1]
        assert facts(again) == expected[k + 1 :]


def test_a_place_holds_for_more_texts_and_for_no_other_source(tiny_weights, folder):
    few, more = (texts.stream(tiny_weights, count, folder) for count in (3, 9))
    assert len(texts.stream(tiny_weights, source=folder)) == 1000, "where no number is given"
    with pytest.raises(ValueError, match="count=0: ask for at least one"):
        texts.stream(tiny_weights, 0, folder)
    reading = iter(few)
    list(reading)
    assert facts(more.reading(reading.place)) == facts(more)[2:]
    with pytest.raises(ValueError, match="a place after 2 texts: these are 2"):
        texts.stream(tiny_weights, 2, folder).reading(reading.place)
    for other in (
        texts.stream(tiny_weights, 9, folder / "sky.txt.xz"),
        texts.stream(tiny_weights, 9, folder, "A"),
        texts.stream(texts.Reader(tiny_weights.tokenizer, 16, 300), 9, folder),
    ):
        with pytest.raises(ValueError, match=r"a place in harbour\.en\.txt"):
            other.reading(reading.place)


def test_a_large_file_is_not_held_in_memory(tiny_weights, tmp_path):
    """20 MB of documents, of which no more is held than the one that is read."""
    with lzma.open(tmp_path / "large.txt.xz", "wb", preset=0) as file:
        for _ in range(2000):
            file.write((WATER * 150 + MARK).encode())
    texts.collection(tiny_weights, 1, tmp_path)
    tracemalloc.start()
    for _ in texts.stream(tiny_weights, 500, tmp_path):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3e6


def test_the_texts_before_a_damaged_place_are_given(tiny_weights, tmp_path):
    source = np.random.default_rng(0).choice([WATER, NURSE, MOON], 3000)
    whole = lzma.compress(MARK.join(map("".join, source.reshape(-1, 10))).encode(), preset=0)
    (tmp_path / "a.txt.xz").write_bytes(whole[: len(whole) // 2])
    found, reading = [], iter(texts.stream(tiny_weights, 99999, tmp_path))
    with pytest.raises(ValueError, match=r"a\.txt\.xz is not a whole \.xz file"):
        for text in reading:
            found.append(text)
    assert len({text.document for text in found}) >= 100
    assert facts([next(reading.texts.reading(reading.place))]) == facts(found[-1:])


# ---------------------------------------------------------------- many texts: from a data set


@pytest.mark.parametrize(
    ("name", "path", "configuration", "split"),
    [
        ("some-texts", "some-texts", None, "train"),
        ("someone/some-texts", "someone/some-texts", None, "train"),
        ("a/b:2024-en", "a/b", "2024-en", "train"),
        ("a/b:2024-en:validation", "a/b", "2024-en", "validation"),
        ("a/b::test", "a/b", None, "test"),
        ("a/b:data/en/x:test", "a/b", "data/en/x", "test"),
    ],
)
def test_rows_of_a_data_set_are_documents_in_the_configuration_and_the_split_named(
    tiny_weights, name, path, configuration, split, monkeypatch, capsys
):
    rows = [{"text": WATER * 5, "id": 1}, {"text": "short"}, {"text": MOON * 5}]
    load = Mock(return_value=datasets.Dataset.from_list(rows).to_iterable_dataset())
    monkeypatch.setattr(datasets, "load_dataset", load)
    documents = {path.rpartition("/")[2]: [WATER * 5, MOON * 5]}
    assert facts(everything(tiny_weights, name)) == by_hand(tiny_weights, **documents)
    assert f"no file or folder {name}: streaming the" in capsys.readouterr().out
    load.assert_called_once_with(path=path, name=configuration, split=split, streaming=True)


def test_a_row_that_cannot_be_had_is_an_error_behind_those_before_it(tiny_weights, monkeypatch):
    class Streamed:
        state_dict = dict

        def __iter__(self):
            yield from ({"text": WATER * 3}, {"text": MOON * 3})
            raise ConnectionError("gone")

    monkeypatch.setattr("datasets.load_dataset", lambda **_: Streamed())
    reading = iter(texts.stream(tiny_weights, 99, "a/b"))
    expected = by_hand(tiny_weights, b=[WATER * 3, MOON * 3])
    assert facts(islice(reading, len(expected))) == expected
    with pytest.raises(ValueError, match="data set a/b: no row after 2 more: gone"):
        next(reading)
