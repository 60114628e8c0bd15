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


REFUSED = {
    "empty": (lambda w, cut: cut(w, "", 7), "the text is empty"),
    "blank": (lambda w, cut: cut(w, " \n\t\n", 7), "the text is empty"),
    "shorter": (lambda w, cut: cut(w, "the moon", 30), "fewer than the 30"),
    "too long": (lambda w, cut: cut(w, SOURCE, 33), "length=33: choose 2 to 32"),
    "BOS alone": (lambda w, cut: cut(w, SOURCE, 1), "length=1: choose 2 to 32"),
    "nothing": (lambda w, cut: cut(w, SOURCE, 0), "length=0: choose 2 to 32"),
    "no words": (lambda w, cut: cut(replace(w, tokenizer=None), SOURCE, 7), "without a tokenizer"),
}


@pytest.mark.parametrize("cut", [texts.encode, texts.windows])
@pytest.mark.parametrize(("ask", "says"), REFUSED.values(), ids=REFUSED)
def test_a_text_that_cannot_be_had_is_refused(tiny_weights, cut, ask, says):
    with pytest.raises(ValueError, match=says):
        ask(tiny_weights, cut)


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


def test_there_are_enough_domains_and_passages():
    counts = Counter(file.stem.rpartition("-")[0] for file in FILES)
    assert len(counts) >= 14
    assert {d: count for d, count in counts.items() if count < 4} == {}, "a domain has at least 4"


@pytest.fixture(scope="module")
def passages(mini_weights):
    """Every passage, as much of it as `mini` reads."""
    return {text.name: text for text in texts.passages(mini_weights)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_passage_is_labelled_long_enough_and_fills_the_context(file, mini_weights):
    head, _, _ = file.read_text("utf-8").partition("\n\n")
    assert re.fullmatch(r"domain: \S+\ndialect: \S+\nsubject: \S.*", head), (
        "it begins with `domain: `, `dialect: ` and `subject: `, a line each, then an empty line"
    )
    assert re.fullmatch(r"[a-z]+-[1-9]\d*", file.stem), "it is called <domain>-<number>.txt"
    text = texts.read_passage(mini_weights, file, None)
    domain = file.stem.rpartition("-")[0]
    assert text.domain == domain, "the domain in the head is the one in the file name"
    assert text.dialect == DIALECTS.get(domain, text.dialect)
    assert text.dialect in DIALECTS.values()
    assert len(text.source.split()) >= 350, "words"
    assert len(text.tokens) == 512, "tokens: the text is too short to fill mini's context"


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
    (source,) = texts.stream(weights, 1, file).sources
    return [text for text, _ in source(texts.START)]


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


PACKED = lzma.compress(b"some text " * 500)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", r"a\.txt is empty"),
        ("a.txt", b" \n\n", r"a\.txt is empty"),
        ("a.txt", "façade".encode("latin-1"), r"a\.txt is not UTF-8 \(byte 2\)"),
        *(
            ("a.txt.xz", PACKED[:kept], r"a\.txt\.xz is not a whole \.xz file")
            for kept in (-1, 40, 3)
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_named(tiny_weights, folder, name, content, says):
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=says):
        texts.collection(tiny_weights, 3, folder)


def test_a_collection_needs_a_tokenizer(tiny_weights, folder):
    with pytest.raises(ValueError, match="without a tokenizer"):
        texts.collection(replace(tiny_weights, tokenizer=None), 1, folder)


def test_the_tokens_of_a_text_are_found_with_and_without_a_label():
    tokens = torch.tensor([0, 5])
    assert texts.token_ids(tokens) is tokens
    assert texts.token_ids(texts.Text("", "", "", "", "", tokens)) is tokens


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


def same_texts(found, expected):
    """Tokens, names and words."""
    assert [vars(t) | {"tokens": t.tokens.tolist()} for t in found] == [
        vars(t) | {"tokens": t.tokens.tolist()} for t in expected
    ]


def test_a_stream_gives_what_a_collection_holds_every_time_anew(tiny_weights, folder):
    stream = texts.stream(tiny_weights, 12, folder)
    assert len(stream) == 12
    for _ in range(2):
        same_texts(stream, texts.collection(tiny_weights, 12, folder))
    one, other = iter(stream), iter(stream)
    next(one), next(one)
    assert next(other).name == "harbour-0000"


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


def test_a_collection_reads_no_more_than_it_holds(tiny_weights, folder, tokenised):
    texts.collection(tiny_weights, 1, folder)
    assert tokenised == [WATER * 7]


def rows_of(*documents):
    return "".join(json.dumps({"id": i, "text": d}) + "\n" for i, d in enumerate(documents))


DOCUMENTS = [WATER * 7, "the moon", "", NURSE * 5, MOON * 6]
FILLED = [DOCUMENTS[0], *DOCUMENTS[3:]]  # those long enough for a text


def many(place, kind):
    """The same documents in a file of some kind."""
    if kind == "parquet":
        datasets = pytest.importorskip("datasets")
        table = datasets.Dataset.from_list([{"text": d, "id": 1} for d in DOCUMENTS])
        table.to_parquet(place / "many.parquet")
    elif kind == "jsonl":
        (place / "many.jsonl").write_text(rows_of(*DOCUMENTS))
    elif kind == "json.gz":
        (place / "many.json.gz").write_bytes(gzip.compress(rows_of(*DOCUMENTS).encode()))
    elif kind == "jsonl.zst":
        zstandard = pytest.importorskip("zstandard")
        (place / "many.jsonl.zst").write_bytes(zstandard.compress(rows_of(*DOCUMENTS).encode()))
    elif kind == "txt.xz":
        (place / "many.txt.xz").write_bytes(lzma.compress(MARK.join(DOCUMENTS).encode()))
    elif kind == "txt":
        (place / "many.txt").write_text(MARK.join(DOCUMENTS))
    return place / f"many.{kind}"


ROWS = ["jsonl", "json.gz", "jsonl.zst", "parquet"]


@pytest.mark.parametrize("kind", ["txt", "txt.xz", *ROWS])
def test_a_stream_goes_on_at_any_text(tiny_weights, tmp_path, tokenised, kind):
    """Wherever a reading stands, what it says of that survives JSON and leads back there; and of
    the documents before, none is tokenised again.
    """
    expected = whole_texts(tiny_weights, *FILLED)
    stream = texts.stream(tiny_weights, len(expected), many(tmp_path, kind))
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


def test_the_files_of_a_folder_go_on_taking_turns(tiny_weights, folder, filled):
    count = sum(map(len, filled.values()))
    stream = texts.stream(tiny_weights, count, folder)
    everything, reading = list(stream), iter(stream)
    assert reading.place == stream.reading().place
    for k in range(count):
        next(reading)
        same_texts(stream.reading(reading.place), everything[k:])
    assert stream.reading(reading.place).given == count - 1


def test_a_place_holds_for_more_texts_and_for_no_other_source(tiny_weights, folder):
    few, more = (texts.stream(tiny_weights, count, folder) for count in (3, 9))
    reading = iter(few)
    list(reading)
    same_texts(more.reading(reading.place), list(more)[2:])
    with pytest.raises(ValueError, match="a place behind 2 texts: these are 2"):
        texts.stream(tiny_weights, 2, folder).reading(reading.place)
    for other in (
        texts.stream(tiny_weights, 9, folder / "sky.txt.xz"),
        texts.stream(cx.texts.Reader(tiny_weights.tokenizer, 16, 300), 9, folder),
    ):
        with pytest.raises(ValueError, match=r"a place in harbour\.txt"):
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


def test_the_texts_before_a_damaged_place_are_given(tiny_weights, tmp_path):
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
    with pytest.raises(ValueError, match=rf"sky\.txt\.xz .* holds {there} texts"):
        for text in texts.stream(tiny_weights, 99, folder):
            found.append(text)
    assert len(found) == there


# ---------------------------------------------------------------- many texts: from rows


@pytest.mark.parametrize("kind", ROWS)
def test_files_of_rows_in_a_folder_are_one_data_set(tiny_weights, tmp_path, kind, capfd):
    pytest.importorskip("datasets")
    (tmp_path / "pile").mkdir()
    many(tmp_path / "pile", kind).rename(tmp_path / "pile" / f"01.{kind}")
    many(tmp_path / "pile", kind).rename(tmp_path / "pile" / f"02.{kind}")
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


def test_files_of_two_kinds_of_rows_are_refused(tiny_weights, tmp_path):
    many(tmp_path, "jsonl"), many(tmp_path, "parquet")
    with pytest.raises(ValueError, match=r"holds \.json and \.parquet files: name one kind"):
        texts.collection(tiny_weights, 1, tmp_path)


def test_a_damaged_row_is_an_error_that_names_the_file(tiny_weights, tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "a.jsonl").write_text(rows_of(*DOCUMENTS) + '{"text": oops}\n')
    with pytest.raises(ValueError, match=r"data set a\.jsonl: no row after 0 more: JSON parse"):
        texts.collection(tiny_weights, 1, tmp_path / "a.jsonl")


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


# ---------------------------------------------------------------- many texts: from a data set


@pytest.fixture
def data_set(monkeypatch):
    """A data set of two rows in the place of the hub; how it was asked for comes back."""
    datasets, asked = pytest.importorskip("datasets"), []

    def load_dataset(**options):
        asked.append(options)
        rows = [{"text": WATER * 5, "id": 1}, {"text": "short", "id": 2}, {"text": MOON * 5}]
        return datasets.Dataset.from_list(rows).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_rows_of_a_data_set_are_documents(tiny_weights, data_set, capsys):
    expected = whole_texts(tiny_weights, WATER * 5, MOON * 5)
    found = texts.collection(tiny_weights, len(expected), "someone/some-texts")
    equal(found, expected)
    assert {text.domain for text in found} == {"some-texts"}
    assert "no file or folder someone/some-texts: streaming the" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("some-texts", ("some-texts", None, "train")),
        ("a/b:2024-en", ("a/b", "2024-en", "train")),
        ("a/b:2024-en:validation", ("a/b", "2024-en", "validation")),
        ("a/b::test", ("a/b", None, "test")),
        ("a/b:data/en/x:test", ("a/b", "data/en/x", "test")),
    ],
)
def test_a_data_set_is_streamed_in_the_configuration_and_the_split_named(
    tiny_weights, data_set, name, asked
):
    texts.collection(tiny_weights, 1, name)
    path, configuration, split = asked
    named = {"path": path, "name": configuration, "split": split}
    assert data_set == [named | {"streaming": True}]


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
    monkeypatch.setattr("datasets.load_dataset", lambda **_: found)


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


@pytest.mark.parametrize(
    "name",
    [
        *("/no/such/folder", "./gone", "~/gone", "gone/", "a/b/c", "my texts", r"C:\texts"),
        *("gone.txt.xz", "a/gone.jsonl", "a/gone.parquet"),
    ],
)
def test_a_path_that_leads_nowhere_does_not_become_a_name_on_the_hub(tiny_weights, data_set, name):
    with pytest.raises(ValueError, match=re.escape(f"there is no file or folder {name}")):
        texts.collection(tiny_weights, 1, name)
    assert not data_set


@pytest.mark.parametrize("name", ["nobody/no-such-texts", "gone"])
def test_a_source_that_is_neither_a_folder_nor_within_reach_is_refused(tiny_weights, name):
    pytest.importorskip("datasets")
    with pytest.raises(ValueError, match=f"{name} is neither a file, nor a folder, nor a data set"):
        texts.collection(tiny_weights, 1, name)


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


def test_a_half_of_a_folder_goes_on_where_it_stood(tiny_weights, divided):
    folder, halves = divided
    whole = texts.stream(tiny_weights, len(halves["A"]), folder, "A")
    names, reading = [text.name for text in whole], whole.reading()
    for k in range(len(names)):
        assert next(reading).name == names[k]
        place = json.loads(json.dumps(reading.place))
        assert [text.name for text in whole.reading(place)] == names[k:]


def test_a_document_is_the_hash_of_all_of_it(tiny_weights, divided):
    folder, halves = divided
    sources = (folder / "ward.txt").read_text().split(MARK)
    of_it = {t.document for h in halves.values() for t in h if t.domain == "ward"}
    assert of_it == {texts.document_hash(source) for source in sources}
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in of_it)


# ---------------------------------------------------------------- the door for texts

SAID = "The moon is far away, and nobody has been there for a long time. " * 4


def test_a_plain_string_is_a_text_everywhere(mini, mini_weights):
    ids = cx.texts.encode(mini_weights, SAID)
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
        lambda text: cx.decoders.top_prompts(mini, [text], [(1, 62)], count=1)[0].tokens[0],
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


def test_one_string_where_a_list_is_expected_is_refused(mini_weights):
    for wrong, says in ((SAID, "put it in brackets"), (None, "a list of texts is expected")):
        with pytest.raises(ValueError, match=says):
            cx.softmax_denominators(mini_weights, wrong, n=40)


def test_a_string_needs_a_tokenizer():
    with pytest.raises(ValueError, match="no tokenizer to read it with"):
        cx.decoders.random_prompts([SAID], 1)
