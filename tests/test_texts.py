"""Texts: BOS first, exact lengths, the passages of the book as labelled, and many at once."""

import gzip
import json
import lzma
import re
import tracemalloc
import warnings
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
import zstandard

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


@pytest.mark.parametrize("length", [2, 3, 7, 17, 32])
def test_windows_are_bos_and_the_next_tokens_and_a_text_is_the_first(tiny_weights, body, length):
    windows = torch.stack(texts.windows(tiny_weights, SOURCE, length))
    assert windows.shape == (len(body) // (length - 1), length)
    assert not windows[:, 0].any()
    covered = windows[:, 1:].flatten()
    assert torch.equal(covered, body[: len(covered)])
    encoded = texts.encode(tiny_weights, SOURCE, length)
    assert encoded.dtype == torch.int64 and torch.equal(encoded, windows[0])


def test_only_a_text_that_is_too_long_is_cut_and_the_warning_counts_what_is_dropped(
    tiny_weights, body
):
    decode = tiny_weights.tokenizer.decode
    for fits in ("the moon", decode(body[:31])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tokens = texts.encode(tiny_weights, fits)
        assert (tokens[0], decode(tokens[1:])) == (0, fits)
    dropped = 1 + len(body) - 32
    with pytest.warns(UserWarning, match=rf"my\.txt has {32 + dropped} tokens.*{dropped} dropped"):
        tokens = texts.encode(tiny_weights, SOURCE, name="my.txt")
    assert tokens.tolist() == [0, *body[:31].tolist()]


@pytest.mark.parametrize("cut", [texts.encode, texts.windows])
@pytest.mark.parametrize(
    ("source", "length", "says"),
    [
        ("", 7, "the text is empty"),
        (" \n\t\n", 7, "the text is empty"),
        ("the moon", 30, "fewer than the 30"),
        *((SOURCE, length, f"length={length}: choose 2 to 32") for length in (33, 1, 0)),
    ],
)
def test_a_text_that_cannot_be_had_is_refused(tiny_weights, cut, source, length, says):
    with pytest.raises(ValueError, match=says):
        cut(tiny_weights, source, length)


def test_text_needs_a_tokenizer(tiny_weights, folder):
    bare = replace(tiny_weights, tokenizer=None)
    for ask in (
        lambda: texts.encode(bare, SOURCE, 7),
        lambda: texts.windows(bare, SOURCE, 7),
        lambda: texts.collection(bare, 1, folder),
    ):
        with pytest.raises(ValueError, match="without a tokenizer"):
            ask()


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
    with pytest.raises(
        ValueError, match="no passages for alchemy, chess; there are american, astronomy"
    ):
        texts.passages(tiny_weights, domains=["war", "alchemy", "chess"])


@pytest.mark.parametrize(
    "head",
    [
        "domain: x\nsubject: y\n\n",
        "domain: x\ndialect: en-GB\nsubject: y\n",
        "domain: x\ndialect: en-GB\nsubject: y\nmood: calm\n\n",
        "",
    ],
    ids=["no dialect", "no blank line", "a fourth line", "none"],
)
def test_a_passage_with_another_head_is_refused(tiny_weights, tmp_path, head):
    (tmp_path / "x-1.txt").write_text(f"{head}One paragraph.\n\nAnother.\n")
    with pytest.raises(ValueError, match=r"x-1\.txt: the head is three lines, .* blank line"):
        texts.read_passage(tiny_weights, tmp_path / "x-1.txt", None)


@pytest.fixture(scope="module")
def passages(mini_weights):
    """Every passage, as much of it as `mini` reads."""
    return {text.name: text for text in texts.passages(mini_weights)}


def test_there_are_enough_domains_and_passages():
    counts = Counter(file.stem.rpartition("-")[0] for file in FILES)
    assert len(counts) >= 14
    assert {d: count for d, count in counts.items() if count < 4} == {}, "a domain has at least 4"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_passage_is_labelled_long_enough_and_fills_the_context(file, passages, mini_weights):
    assert re.fullmatch(r"[a-z]+-[1-9]\d*", file.stem), "it is called <domain>-<number>.txt"
    text, domain = passages[file.stem], file.stem.rpartition("-")[0]
    assert text.domain == domain, "the domain in the head is the one in the file name"
    assert text.dialect == DIALECTS.get(domain, text.dialect)
    assert text.dialect in DIALECTS.values()
    assert text.subject == text.subject.strip()
    assert len(text.source.split()) >= 350, "words"
    assert len(text.tokens) == 512, "tokens: the text is too short to fill mini's context"
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
    (source,) = texts.stream(weights, 1, file).sources
    return [text for text, _ in source(texts.START)]


def equal(found, expected):
    assert [text.tokens.tolist() for text in found] == [tokens.tolist() for tokens in expected]


def same_texts(found, expected):
    """Tokens, names and words."""
    assert [vars(t) | {"tokens": t.tokens.tolist()} for t in found] == [
        vars(t) | {"tokens": t.tokens.tolist()} for t in expected
    ]


@pytest.fixture
def folder(tmp_path):
    """harbour.en.txt: two documents and one too short in between; sky.txt.xz: one document."""
    harbour = MARK.join([WATER * 7, "the moon", NURSE * 5])
    (tmp_path / "harbour.en.txt").write_text(harbour, encoding="utf-8")
    (tmp_path / "sky.txt.xz").write_bytes(lzma.compress((MOON * 6).encode()))
    (tmp_path / "notes.md").write_text(WATER * 99)
    return tmp_path


@pytest.fixture
def filled(tiny_weights, folder):
    """What the two files of the folder hold, in order, by domain."""
    return {
        "harbour.en": whole_texts(tiny_weights, WATER * 7, NURSE * 5),
        "sky": whole_texts(tiny_weights, MOON * 6),
    }


def test_the_files_of_a_folder_take_turns_and_no_text_mixes_two_documents(
    tiny_weights, folder, filled
):
    many, few = (len(expected) for expected in filled.values())
    found = texts.collection(tiny_weights, few + many, folder)
    turns = ["harbour.en", "sky"] * few + ["harbour.en"] * (many - few)
    assert [text.domain for text in found] == turns
    assert len({text.name for text in found}) == len(found)
    assert {text.tokens.dtype for text in found} == {torch.int64}
    for domain, expected in filled.items():
        equal([text for text in found if text.domain == domain], expected)


def test_a_source_is_a_folder_or_a_file_given_or_named_by_the_variable(
    tiny_weights, folder, filled, monkeypatch
):
    files = {domain: next(folder.glob(f"{domain}.txt*")) for domain in filled}
    for domain, file in files.items():
        equal(all_of(tiny_weights, file), filled[domain])
    for source in (folder, *files.values()):
        expected = texts.collection(tiny_weights, 3, source)
        same_texts(texts.collection(tiny_weights, 3, str(source)), expected)
        monkeypatch.setenv("CTX_TEXTS", str(source))
        same_texts(texts.collection(tiny_weights, 3), expected)
    monkeypatch.setenv("CTX_TEXTS", str(folder / "gone"))
    assert len(texts.collection(tiny_weights, 5, folder)) == 5, "what is given comes first"


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
    """The two fill the context to the last token, so that one more would show."""
    expected = [texts.encode(tiny_weights, document * 3, 32) for document in (WATER, NURSE)]
    one, two = (tiny_weights.tokenizer.decode(tokens[1:]) for tokens in expected)
    (tmp_path / "a.txt").write_bytes((before + one + between + two + behind).encode())
    equal(all_of(tiny_weights, tmp_path / "a.txt"), whole_texts(tiny_weights, one, two))


def test_a_mark_on_the_last_line_belongs_to_no_text(tiny_weights, tmp_path):
    almost = tiny_weights.tokenizer.decode(texts.encode(tiny_weights, WATER * 3, 30)[1:])
    (tmp_path / "a.txt").write_text(almost + "\n<|endoftext|>", encoding="utf-8")
    assert not all_of(tiny_weights, tmp_path / "a.txt")


def test_a_mark_within_a_line_separates_nothing(tiny_weights, tmp_path):
    (tmp_path / "a.txt").write_text("say <|endoftext|> to end; " * 9)
    found = all_of(tiny_weights, tmp_path / "a.txt")
    equal(found, whole_texts(tiny_weights, "say <|endoftext|> to end; " * 9))


DOCUMENTS = [WATER * 7, "the moon", "", NURSE * 5, MOON * 6]
FILLED = [DOCUMENTS[0], *DOCUMENTS[3:]]  # those long enough for a text
LINES = MARK.join(DOCUMENTS).encode()
ROWS = "".join(json.dumps({"id": i, "text": d}) + "\n" for i, d in enumerate(DOCUMENTS)).encode()
PACKED = {
    "txt": LINES,
    "txt.xz": lzma.compress(LINES),
    "jsonl": ROWS,
    "json.gz": gzip.compress(ROWS),
    "jsonl.zst": zstandard.compress(ROWS),
}

ONE = lzma.compress(b"some text " * 500)


def many(file):
    """The same documents in a file of any kind."""
    if file.suffix == ".parquet":
        from datasets import Dataset

        Dataset.from_list([{"text": d, "id": 1} for d in DOCUMENTS]).to_parquet(file)
    else:
        file.write_bytes(PACKED[file.name.partition(".")[2]])
    return file


@pytest.mark.parametrize(
    ("files", "asked", "says"),
    [
        *(({}, {"count": count}, f"count={count}") for count in (0, -1)),
        ({}, {"source": "notes.md"}, r"notes\.md is not a \.txt or \.txt\.xz file"),
        ({"empty/notes.md": b"words"}, {"source": "empty"}, r"holds no \.txt or \.txt\.xz file"),
        ({"a.txt": b""}, {}, r"a\.txt is empty"),
        ({"a.txt": b" \n\n"}, {}, r"a\.txt is empty"),
        ({"a.txt": "façade".encode("latin-1")}, {}, r"a\.txt is not UTF-8 \(byte 2\)"),
        *(
            ({"a.txt.xz": ONE[:kept]}, {}, r"a\.txt\.xz is not a whole \.xz file")
            for kept in (-1, 40, 3)
        ),
        (
            {"rows/a.jsonl": ROWS, "rows/a.parquet": b""},
            {"source": "rows"},
            r"holds \.json and \.parquet files: name one kind",
        ),
        (
            {"a.jsonl": ROWS + b'{"text": oops}\n'},
            {"source": "a.jsonl"},
            r"data set a\.jsonl: no row after 0 more: JSON parse",
        ),
    ],
)
def test_files_that_cannot_be_read_are_refused_and_named(tiny_weights, folder, files, asked, says):
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=says):
        texts.collection(tiny_weights, asked.get("count", 3), folder / asked.get("source", ""))


# ---------------------------------------------------------------- many texts: as a stream


@pytest.fixture
def tokenised(monkeypatch):
    """The documents that were tokenised, in order."""
    seen, all_tokens = [], texts.all_tokens

    def noting(reader, source):
        seen.append(source)
        return all_tokens(reader, source)

    monkeypatch.setattr(texts, "all_tokens", noting)
    return seen


def test_a_stream_gives_what_a_collection_holds_every_time_anew(tiny_weights, folder):
    stream = texts.stream(tiny_weights, 12, folder)
    assert len(stream) == 12
    for _ in range(2):
        same_texts(stream, texts.collection(tiny_weights, 12, folder))
    one, other = iter(stream), iter(stream)
    next(one), next(one)
    assert next(other).name == "harbour.en-0000"


def test_nothing_is_read_before_it_is_asked_for(tiny_weights, folder, tokenised):
    (folder / "zebra.txt").write_bytes("façade".encode("latin-1"))
    reading = iter(texts.stream(tiny_weights, 12, folder))
    assert tokenised == []
    next(reading)
    assert tokenised == [WATER * 7]
    next(reading)
    assert tokenised == [WATER * 7, MOON * 6]
    with pytest.raises(ValueError, match=r"zebra\.txt is not UTF-8"):
        next(reading)
    assert len(texts.collection(tiny_weights, 2, folder)) == 2, "it does not come to the third"


@pytest.mark.parametrize("kind", [*PACKED, "parquet"])
def test_a_stream_goes_on_at_any_text(tiny_weights, tmp_path, tokenised, kind):
    """Wherever a reading stands, what it says of that survives JSON and leads back there; and of
    the documents before, none is tokenised again.
    """
    expected = whole_texts(tiny_weights, *FILLED)
    stream = texts.stream(tiny_weights, len(expected), many(tmp_path / f"many.{kind}"))
    everything = list(stream)
    equal(everything, expected)
    assert {text.domain for text in everything} == {"many"}
    reading = iter(stream)
    for k in range(0, len(expected), 3):
        list(islice(reading, 1 if k == 0 else 3))
        place = json.loads(json.dumps(reading.place))
        again = stream.reading(place)
        tokenised.clear()
        same_texts([next(again)], [everything[k]])
        assert len(tokenised) == 1 and everything[k].source in tokenised[0]
        same_texts(again, everything[k + 1 :])


def test_a_place_holds_for_more_texts_and_for_no_other_source(tiny_weights, folder):
    few, more = (texts.stream(tiny_weights, count, folder) for count in (3, 9))
    reading = iter(few)
    list(reading)
    same_texts(more.reading(reading.place), list(more)[2:])
    with pytest.raises(ValueError, match="a place behind 2 texts: these are 2"):
        texts.stream(tiny_weights, 2, folder).reading(reading.place)
    for other in (
        texts.stream(tiny_weights, 9, folder / "sky.txt.xz"),
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


def test_a_document_longer_than_is_held_at_once_is_cut_at_the_end_of_a_line(
    tiny_weights, tmp_path, monkeypatch
):
    lines = [f"{WATER * 3}\n", f"{NURSE * 3}\n", f"{MOON * 3}\n", f"{WATER * 4}\n"]
    (tmp_path / "a.txt").write_text("".join(lines))
    monkeypatch.setattr(texts, "LONGEST", len(lines[0] + lines[1]))
    expected = whole_texts(tiny_weights, (lines[0] + lines[1])[:-1], (lines[2] + lines[3])[:-1])
    equal(texts.collection(tiny_weights, len(expected), tmp_path), expected)


def test_the_texts_before_a_damaged_place_are_given(tmp_path):
    source = np.random.default_rng(0).choice([WATER, NURSE, MOON], 30000)
    whole = lzma.compress(MARK.join(map("".join, source.reshape(-1, 10))).encode(), preset=0)
    (tmp_path / "a.txt.xz").write_bytes(whole[: len(whole) // 2])
    found = []
    with pytest.raises(ValueError, match=r"a\.txt\.xz is not a whole \.xz file"):
        for _, begin in texts.file_documents(tmp_path / "a.txt.xz"):
            found.append(begin)
    assert len(found) > 500


def test_a_byte_that_is_not_utf_8_is_counted_from_the_beginning_of_the_file(tiny_weights, tmp_path):
    before = (WATER * 7 + MARK).encode()
    (tmp_path / "a.txt").write_bytes(before + b"\n\nfa\xe7ade")
    reading = iter(texts.stream(tiny_weights, 99, tmp_path))
    last = next(reading)
    with pytest.raises(ValueError, match=rf"a\.txt is not UTF-8 \(byte {len(before) + 4}\)"):
        for text in reading:
            last = text
    same_texts([next(reading.texts.reading(reading.place))], [last])


def test_what_there_is_comes_before_the_error_that_it_is_not_enough(tiny_weights, folder, filled):
    there, found = sum(map(len, filled.values())), []
    says = rf"sky\.txt\.xz .* holds {there} texts of 32 tokens, fewer than the 99"
    with pytest.raises(ValueError, match=says):
        for text in texts.stream(tiny_weights, 99, folder):
            found.append(text)
    assert len(found) == there


# ---------------------------------------------------------------- many texts: from rows


@pytest.mark.parametrize("kind", ["jsonl", "json.gz", "jsonl.zst", "parquet"])
def test_files_of_rows_in_a_folder_are_one_data_set(tiny_weights, tmp_path, kind, capfd):
    (tmp_path / "pile").mkdir()
    for number in ("01", "02"):
        many(tmp_path / f"many.{kind}").rename(tmp_path / "pile" / f"{number}.{kind}")
    expected = whole_texts(tiny_weights, *FILLED * 2)
    capfd.readouterr()
    found = texts.collection(tiny_weights, len(expected), tmp_path / "pile")
    equal(found, expected)
    assert {text.domain for text in found} == {"pile"}
    assert len({text.name for text in found}) == len(found)
    assert capfd.readouterr() == ("", ""), "no network, and no word of the library's"


def test_where_there_are_texts_files_of_rows_are_not_read(tiny_weights, folder):
    before = texts.collection(tiny_weights, 9, folder)
    (folder / "about.json").write_text("{}")
    same_texts(texts.collection(tiny_weights, 9, folder), before)


# ---------------------------------------------------------------- many texts: from a data set


@pytest.fixture
def data_set(monkeypatch):
    """A function that puts rows in the place of a data set on the hub, and returns the list of how
    it was asked for.
    """
    import datasets

    def put(*rows):
        asked, found = [], datasets.Dataset.from_list(list(rows)).to_iterable_dataset()
        monkeypatch.setattr(datasets, "load_dataset", lambda **how: asked.append(how) or found)
        return asked

    return put


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("some-texts", ("some-texts", None, "train")),
        ("someone/some-texts", ("someone/some-texts", None, "train")),
        ("a/b:2024-en", ("a/b", "2024-en", "train")),
        ("a/b:2024-en:validation", ("a/b", "2024-en", "validation")),
        ("a/b::test", ("a/b", None, "test")),
        ("a/b:data/en/x:test", ("a/b", "data/en/x", "test")),
    ],
)
def test_rows_of_a_data_set_are_documents_in_the_configuration_and_the_split_named(
    tiny_weights, data_set, name, asked, monkeypatch, capsys
):
    calls = data_set({"text": WATER * 5, "id": 1}, {"text": "short"}, {"text": MOON * 5})
    expected = whole_texts(tiny_weights, WATER * 5, MOON * 5)
    found = texts.collection(tiny_weights, len(expected), name)
    equal(found, expected)
    path, configuration, split = asked
    assert {text.domain for text in found} == {path.rpartition("/")[2]}
    assert f"no file or folder {name}: streaming the" in capsys.readouterr().out
    monkeypatch.setenv("CTX_TEXTS", name)
    same_texts(texts.collection(tiny_weights, 1), found[:1])
    named = {"path": path, "name": configuration, "split": split}
    assert calls == [named | {"streaming": True}] * 2


@pytest.mark.parametrize("column", ["content", "document"])
def test_the_texts_may_be_in_another_column_if_it_is_the_only_one(tiny_weights, data_set, column):
    for row, used in (({"id": 1}, WATER), ({"text": MOON * 5}, MOON)):
        data_set(row | {column: WATER * 5})
        equal(texts.collection(tiny_weights, 1, "a/b"), whole_texts(tiny_weights, used * 5)[:1])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": 1, "sentence": WATER}, "no column 'text', nor 'content' .* it has id, sentence"),
        ({"content": MOON, "document": WATER}, "or 'document' alone; it has content, document"),
        ({"text": [WATER, MOON]}, "data set a/b: text is not a column of texts"),
        ({"text": WATER * 5}, "fewer than the 99"),
    ],
)
def test_a_data_set_without_enough_texts_is_refused(tiny_weights, data_set, row, says):
    data_set(row)
    with pytest.raises(ValueError, match=says):
        texts.collection(tiny_weights, 99, "a/b")


@pytest.mark.parametrize(
    "name",
    [
        *("/no/such/folder", "./gone", "~/gone", "gone/", "a/b/c", "my texts", r"C:\texts"),
        *("gone.txt.xz", "a/gone.jsonl", "a/gone.parquet", "a:b:c:d"),
    ],
)
def test_what_can_be_no_name_on_the_hub_is_not_asked_for_there(tiny_weights, data_set, name):
    calls = data_set({"text": WATER * 5})
    says = f"there is no file or folder {name}"
    if name == "a:b:c:d":
        says = "data set a:b:c:d: write name:configuration:split"
    with pytest.raises(ValueError, match=re.escape(says)):
        texts.collection(tiny_weights, 1, name)
    assert not calls


@pytest.mark.parametrize("name", ["nobody/no-such-texts", "gone"])
def test_a_source_that_is_neither_a_folder_nor_within_reach_is_refused(tiny_weights, name):
    with pytest.raises(ValueError, match=f"{name} is neither a file, nor a folder, nor a data set"):
        texts.collection(tiny_weights, 1, name)


def test_a_row_that_cannot_be_had_is_an_error_behind_those_before_it(monkeypatch):
    def rows():
        yield {"text": WATER}
        yield {"text": MOON}
        raise ConnectionError("gone")

    class Streamed:
        state_dict = dict

        def __iter__(self):
            return rows()

    monkeypatch.setattr("datasets.load_dataset", lambda **_: Streamed())
    documents = texts.row_documents("a/b", path="a/b")
    assert [next(documents)[0], next(documents)[0]] == [WATER, MOON]
    with pytest.raises(ValueError, match="data set a/b: no row after 2 more: gone"):
        next(documents)


# ---------------------------------------------------------------- many texts: in two halves


@pytest.fixture
def divided(tmp_path, tiny_weights):
    """A folder of two files of twenty documents, and its texts by half."""
    for domain, words in (("harbour", WATER), ("ward", NURSE)):
        documents = [words * 4 + str(i) for i in range(20)]
        (tmp_path / f"{domain}.txt").write_text(MARK.join(documents))
    all_of_them = [t for f in tmp_path.iterdir() for t in all_of(tiny_weights, f)]
    return tmp_path, {h: [t for t in all_of_them if t.half == h] for h in "AB"}


@pytest.mark.parametrize("half", ["A", "B"])
def test_a_half_holds_the_whole_of_its_documents_and_nothing_else(tiny_weights, divided, half):
    folder, halves = divided
    mine, others = halves[half], halves["AB".replace(half, "")]
    found = texts.collection(tiny_weights, len(mine), folder, half)
    assert sorted(text.name for text in found) == sorted(text.name for text in mine)
    assert len(mine) > 20 < len(others)
    assert not {text.document for text in mine} & {text.document for text in others}
    with pytest.raises(ValueError, match=f"holds {len(mine)} texts"):
        texts.collection(tiny_weights, len(mine) + 1, folder, half)


@pytest.mark.parametrize("half", [None, "A"])
def test_a_folder_goes_on_taking_turns_where_it_stood(tiny_weights, divided, half):
    folder, halves = divided
    count = len(halves["A"]) + (0 if half else len(halves["B"]))
    whole = texts.stream(tiny_weights, count, folder, half)
    everything, reading = list(whole), whole.reading()
    for k in range(count):
        assert next(reading).name == everything[k].name
        place = json.loads(json.dumps(reading.place))
        same_texts(whole.reading(place), everything[k:])
    assert whole.reading(place).given == count - 1


def test_a_document_is_the_hash_of_all_of_it(divided):
    folder, halves = divided
    sources = (folder / "ward.txt").read_text().split(MARK)
    of_it = {t.document for h in halves.values() for t in h if t.domain == "ward"}
    assert of_it == {texts.document_hash(source) for source in sources}
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in of_it)


# ---------------------------------------------------------------- the door for texts

SAID = "The moon is far away, and nobody has been there for a long time. " * 4


def test_a_plain_string_is_a_text_everywhere(mini, mini_weights):
    ids = texts.encode(mini_weights, SAID)
    one, other = (
        cx.ContextualCircuit.calibrate(mini_weights, text, [3, 4], n=40) for text in (SAID, ids)
    )
    assert torch.equal(one.calibration, other.calibration)
    assert torch.equal(one.denominators, other.denominators)
    assert torch.equal(one.summary(ids[:41]), other.summary(ids[:41]))
    for ask in (
        lambda text: cx.softmax_denominators(mini_weights, [text], n=40),
        lambda text: cx.decoders.denominators_along(mini_weights, text),
        lambda text: cx.decoders.mean_z(mini, [text], length=20),
        lambda text: cx.FirstLayer.of(mini, [text, text], n=30).kernels,
        lambda text: cx.decoders.attribution(mini, 1, 3, [text]).of(0, 0),
    ):
        assert torch.equal(ask(SAID), ask(ids))


@pytest.mark.parametrize(
    "wrong",
    [None, 7, [0, 5, 6], torch.ones(300), torch.ones(2, 300, dtype=torch.int64), torch.ones(9) > 0],
    ids=["None", "a number", "a list", "floats", "two texts", "a mask"],
)
def test_what_is_no_text_is_one_clear_line(mini, mini_weights, wrong):
    for ask in (
        lambda: cx.ContextualCircuit.calibrate(mini_weights, wrong, [3, 4]),
        lambda: cx.stable_heads(mini_weights, [wrong, wrong]),
        lambda: cx.decoders.mean_z(mini, [wrong], length=8),
        lambda: cx.FirstLayer.of(mini, [wrong, wrong]),
        lambda: cx.decoders.attribution(mini, 1, 3, [wrong]),
    ):
        with pytest.raises(ValueError, match=r"is no text: give a string, one of .*BOS$") as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_a_string_is_no_list_of_texts_and_needs_a_tokenizer(mini_weights):
    for wrong, says in ((SAID, "put it in brackets"), (None, "a list of texts is expected")):
        with pytest.raises(ValueError, match=says):
            cx.softmax_denominators(mini_weights, wrong, n=40)
    with pytest.raises(ValueError, match="no tokenizer to read it with"):
        cx.texts.token_ids(SAID)
