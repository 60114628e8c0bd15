"""The held-out texts: what they are, that they are whose they say, and the tool that chose them."""

import json
import lzma
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import held_out_texts as tool
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from train_mini import encode_stream

import ctxlib as cx
from ctxlib import texts

WORDS = Tokenizer.from_file(str(cx.models.MINI / "tokenizer.json"))
CREDITS = (texts.HELD_OUT / "CREDITS.md").read_text(encoding="utf-8")
LICENCES = (texts.HELD_OUT / "LICENCES.md").read_text(encoding="utf-8")
INDEX = texts.held_out_index()


@pytest.fixture(autouse=True)
def own_texts(monkeypatch):
    monkeypatch.delenv("CTX_TEXTS", raising=False)


@pytest.fixture(scope="module")
def reader():
    return cx.texts.Reader.of(cx.load("mini"))


@pytest.fixture(scope="module")
def held(reader):
    domains = INDEX["domains"].items()
    return [text for item in domains for text, _ in texts.held_out(reader, *item)]


# ---------------------------------------------------------------- what they are


def test_there_are_a_thousand_of_512_tokens_and_none_twice(held):
    stacked = torch.stack([text.tokens for text in held])
    assert stacked.shape == (INDEX["texts"], INDEX["tokens of a text"]) == (1000, 512)
    assert (stacked[:, 0] == 0).all()
    assert (stacked[:, 1:] != 0).all(), "one document each"
    assert len(stacked.unique(dim=0)) == 1000
    assert len({text.name for text in held}) == len({text.source for text in held}) == 1000


def test_22_domains_have_as_nearly_as_many_as_can_be_and_about_half_of_them_in_each_half(held):
    halves, where = defaultdict(Counter), defaultdict(set)
    for text in held:
        halves[text.domain][text.half] += 1
        where[text.document].add((text.domain, text.half))
    assert len(halves) == 22
    assert {counts.total() for counts in halves.values()} == {45, 46}
    for domain, counts in halves.items():
        assert set(counts) == {"A", "B"}, domain
        assert abs(counts["A"] - counts["B"]) <= 0.2 * counts.total(), domain
    assert {len(found) for found in where.values()} == {1}, "a document has one domain, one half"


def test_the_index_says_of_each_document_what_its_texts_say(held):
    counts = Counter(text.document for text in held)
    for domain, facts in INDEX["domains"].items():
        assert facts["dialect"] in {"en", "en-GB", "en-US", "es", "fr", "de", "python"}
        assert facts["sources"]
        numbers = [d["number"] for d in facts["documents"]]
        assert numbers == list(range(1, len(numbers) + 1))
        assert [d["half"] for d in facts["documents"]] == ["BA"[i % 2] for i in numbers]
        for document in facts["documents"]:
            assert re.fullmatch(r"[0-9a-f]{16}", document["sha256"])
            assert document["title"], domain
            assert counts[document["sha256"]] == document["texts"]
    assert sum(counts.values()) == 1000


def test_a_name_says_domain_document_and_window(held):
    for text in held:
        found = re.fullmatch(r"(.+)-(\d{2,})\.([1-9]\d*)", text.name)
        domain, number, window = found.groups()
        document = INDEX["domains"][domain]["documents"][int(number) - 1]
        assert (text.domain, text.document) == (domain, document["sha256"])
        assert (text.subject, text.half) == (document["title"], document["half"])
        if int(window) == 1 and domain != "python":
            assert text.source.lstrip().startswith(document["title"].removesuffix("…"))


def test_no_run_of_64_tokens_is_in_two_documents_and_no_window_begins_in_another(held):
    where, begins = defaultdict(set), {}
    for text in held:
        ids = text.tokens[1:].numpy().astype(np.uint16)
        runs = [ids[i : i + 64].tobytes() for i in range(len(ids) - 63)]
        for run in runs:
            where[run].add(text.document)
        begins.setdefault(runs[0], []).append(text.name)
    assert {len(documents) for documents in where.values()} == {1}
    assert len(begins) == 1000


def test_they_are_small():
    sizes = {f.name: f.stat().st_size for f in texts.HELD_OUT.iterdir() if f.is_file()}
    assert sum(sizes.values()) <= 1_500_000
    stored = {f"{domain}.jsonl.xz" for domain in INDEX["domains"]}
    assert set(sizes) == stored | {"CREDITS.md", "LICENCES.md", "index.json"}


def test_it_is_recorded_that_they_are_not_in_the_training_documents():
    checked = INDEX["checked"]
    assert checked["what"] == "no run of 64 tokens of any text is in a training document"
    assert set(checked["training streams"]) == set(INDEX["domains"])
    for stream in checked["training streams"].values():
        assert stream["tokens"] > 100_000
        assert re.fullmatch(r"[0-9a-f]{64}", stream["sha256"])
    total = sum(stream["tokens"] for stream in checked["training streams"].values())
    assert checked["training tokens"] == total
    assert checked["skipped"] == sum(checked["skipped by domain"].values())
    assert checked["windows"] - checked["skipped"] >= 1000


# ---------------------------------------------------------------- whose they are


def test_the_credits_name_every_source_of_every_domain():
    parts = dict(re.findall(r"(?ms)^## (\S+)\n(.*?)(?=^## |\Z)", CREDITS))
    assert set(parts) == set(INDEX["domains"])
    for domain, facts in INDEX["domains"].items():
        rows = re.findall(r"(?m)^\| (\S+) \| (.+) \| (.+) \| (.+) \|$", parts[domain])
        rows = [row for row in rows if row[0] not in ("source", "---")]
        assert [row[0] for row in rows] == facts["sources"]
        for source, titles, origin, licence in rows:
            assert origin.startswith("https://github.com/")
            assert licence
            assert ("OpenStax, Rice University" in titles) == ("OpenStax" in licence), source


def test_what_the_licences_ask_for_is_carried():
    for said in (
        "https://creativecommons.org/licenses/by/4.0/",
        "OpenStax, Rice University",
        "Contains public sector information licensed under the Open Government Licence v3.0",
        "The above copyright notice and this permission notice shall be included",
        "Python Software Foundation; All Rights Reserved",
        "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2",
        "creativecommons.org/publicdomain/zero/1.0/",
    ):
        assert said in LICENCES
    for licence in set(re.findall(r"(?m)^\|.*\| (.+) \|$", CREDITS)) - {"licence", "---"}:
        known = "CC BY 4.0|CC0|OGL 3.0|MIT|PSF-2.0|public domain"
        assert re.search(known, licence), licence


@pytest.mark.parametrize("file", ["NOTICE", "README.md", "CITATION.cff", "_config.yml"])
def test_where_licences_are_spoken_of_the_credits_are_named(file):
    root = Path(cx.__file__).parent.parent
    assert "ctxlib/data/texts/CREDITS.md" in (root / file).read_text(encoding="utf-8")


# ---------------------------------------------------------------- how they are read


@pytest.mark.parametrize(("count", "many"), [(None, 1000), (1, 1), (44, 44)])
def test_a_collection_mixes_the_domains_evenly(reader, count, many):
    found = texts.collection(reader, count)
    domains, each = sorted(INDEX["domains"]), Counter(text.domain for text in found)
    assert len(found) == many and len(each) == min(many, 22)
    assert max(each.values()) - min(each.values()) <= (many % 22 > 0)
    assert [text.domain for text in found[:3]] == domains[: min(3, many)]


def test_the_halves_share_no_document_and_are_all_together(reader, held):
    a, b = (texts.collection(reader, half=half) for half in "AB")
    assert not {text.document for text in a} & {text.document for text in b}
    assert {text.name for text in [*a, *b]} == {text.name for text in held}
    for half, found in (("A", a), ("B", b)):
        assert {text.half for text in found} == {half}
        with pytest.raises(
            ValueError, match=f"there are {len(found)} held-out texts of half {half}"
        ):
            texts.collection(reader, len(found) + 1, half=half)
        few = texts.collection(reader, 66, half=half)
        assert [text.name for text in few] == [text.name for text in found[:66]]
        assert set(Counter(text.domain for text in few).values()) == {3}


def test_a_stream_of_a_half_goes_on_where_it_stood(reader):
    whole = texts.stream(reader, 60, half="B")
    names = [text.name for text in whole]
    reading = whole.reading()
    for _ in range(31):
        next(reading)
    place = json.loads(json.dumps(reading.place))
    assert [text.name for text in whole.reading(place)] == names[30:]
    with pytest.raises(ValueError, match="half B"):
        texts.stream(reader, 60).reading(place)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        *(({"count": c}, f"^count={c}: there are 1000 held-out texts$") for c in (0, -1, 1001)),
        *(({"half": half}, f"half='{half}': choose 'A', 'B', or None") for half in ("C", "a", "")),
    ],
)
def test_what_there_is_not_is_refused(reader, asked, says):
    with pytest.raises(ValueError, match=says):
        texts.collection(reader, **asked)


def test_they_are_encoded_anew_for_another_vocabulary_and_cut_for_fewer_tokens(
    reader, held, tiny_weights
):
    for text in texts.collection(tiny_weights, 30):
        assert torch.equal(text.tokens, texts.encode(tiny_weights, text.source, 32))
    by_name = {text.name: text for text in held}
    for text in texts.collection(replace(reader, n_ctx=40), 30):
        assert torch.equal(text.tokens, by_name[text.name].tokens[:40])


def test_an_empty_variable_names_no_source(reader, monkeypatch):
    monkeypatch.setenv("CTX_TEXTS", "")
    assert texts.collection(reader, 1)[0].domain == "astronomy"


# ---------------------------------------------------------------- the tool: windows

SPOKEN = st.lists(
    st.sampled_from(
        ["the moon ", "a  colour\n\n", "naïve ", "x=1;\t", "  ", "\n", "über", "'ll ", "№ 7 "]
    ),
    max_size=60,
).map("".join)


@given(SPOKEN, st.integers(2, 9))
def test_windows_are_stretches_that_give_their_own_tokens(document, length):
    whole = WORDS.encode(document, add_special_tokens=False).ids
    found = list(tool.windows(WORDS, document, length))
    begin, used = 0, 0
    for number, window in enumerate(found, 1):
        assert window.number == number
        own = WORDS.encode(window.text, add_special_tokens=False).ids
        assert own == whole[used : used + len(own)], "one behind the other"
        assert window.ids.tolist() == own[:length]
        assert document.startswith(window.text, begin)
        begin, used = begin + len(window.text), used + len(own)
    assert len(whole) - used < length, "none is left"


@given(st.lists(st.lists(st.integers(1, 9), max_size=5), min_size=1, max_size=6))
def test_documents_take_turns(documents):
    found = list(tool.in_turns(documents))
    assert Counter(found) == Counter((i, w) for i, d in enumerate(documents) for w in d)
    rank = [sum(place == before for before, _ in found[:k]) for k, (place, _) in enumerate(found)]
    assert rank == sorted(rank)


@given(st.integers(1, 2000), st.integers(1, 30))
def test_shares_are_as_equal_as_can_be(total, parts):
    found = tool.shares(total, parts)
    assert sum(found) == total and len(found) == parts
    assert max(found) - min(found) <= 1


# ---------------------------------------------------------------- the tool: the check

TOKENS = st.lists(st.integers(0, 3), min_size=8, max_size=60).map(
    lambda ids: np.array(ids, dtype=np.uint16)
)


@given(TOKENS, st.lists(TOKENS, min_size=1, max_size=3))
def test_a_window_is_seen_exactly_if_a_run_of_it_is_in_a_stream(ids, streams):
    window = tool.Window(1, "", ids)
    runs = tool.runs_in(streams, np.unique(tool.run_hashes(ids, 8)), 8)
    by_hand = any(
        (ids[i : i + 8] == stream[j : j + 8]).all()
        for stream in streams
        for i in range(len(ids) - 7)
        for j in range(len(stream) - 7)
    )
    assert tool.seen(window, runs, 8) == by_hand


def test_a_hash_that_two_runs_share_deceives_nobody(monkeypatch):
    monkeypatch.setattr(tool, "run_hashes", lambda ids, run: np.zeros(len(ids) - run + 1))
    ids, other = np.arange(9, dtype=np.uint16), np.arange(20, 40, dtype=np.uint16)
    runs = tool.runs_in([other], np.zeros(1), 8)
    assert not tool.seen(tool.Window(1, "", ids), runs, 8)
    assert tool.seen(tool.Window(1, "", other[3:12]), runs, 8)


# ---------------------------------------------------------------- the tool: the choice

NOUNS = ["moon", "harbour", "nurse", "colour", "telescope", "planet", "doctor", "tablet", "hill"]


def prose(seed, words):
    return " ".join(np.random.default_rng(seed).choice(NOUNS, words)).capitalize()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two domains; a window of sky's first document in hash order is in harbour's training."""
    folder = tmp_path_factory.mktemp("corpus")
    valid = {d: [prose((k, i), 500) for i in range(6)] for k, d in enumerate(["harbour", "sky"])}
    planted = min(valid["sky"], key=texts.document_hash)
    stolen = WORDS.encode(planted)
    begin, end = stolen.offsets[130][0], stolen.offsets[130 + 90][1]
    train = {
        "harbour": [prose(90, 900), "Something. " + planted[begin:end] + " More."],
        "sky": [prose(91, 900), prose(92, 900)],
    }
    for split, documents in (("train", train), ("valid", valid)):
        (folder / split).mkdir()
        for domain, found in documents.items():
            text = "\n<|endoftext|>\n".join(found)
            (folder / split / f"{domain}.txt.xz").write_bytes(lzma.compress(text.encode()))
    source = {"titles": ["Invented"], "origin": "github:a/b", "licence": "CC0", "source": "made"}
    manifest = {"domains": {domain: {"sources": [source]} for domain in valid}}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    return folder, train, valid, planted


@pytest.fixture(scope="module")
def domains(corpus):
    _, train, valid, _ = corpus
    return {d: {"train": train[d], "valid": valid[d]} for d in train}


def test_a_window_that_shares_a_run_with_training_is_skipped(corpus, domains):
    planted = corpus[-1]
    index, _ = tool.choose(domains, WORDS, 12, 120)
    assert index["checked"]["skipped by domain"] == {"sky": 1}
    assert index["checked"]["skipped"] == 1
    for domain, stream in index["checked"]["training streams"].items():
        assert stream["tokens"] == len(encode_stream(WORDS, domains[domain]["train"]))
    assert len({s["sha256"] for s in index["checked"]["training streams"].values()}) == 2
    documents = {d["sha256"]: d["number"] for d in index["domains"]["sky"]}
    cut = list(tool.windows(WORDS, planted, 120))
    assert len(cut) >= 4
    _, found = tool.choose(domains, WORDS, 2 * 18, 120)
    number = documents[texts.document_hash(planted)]
    of_it = [(r["window"], r["text"]) for r in found["sky"] if r["document"] == number]
    assert of_it == [(k + 1, cut[k].text) for k in (0, 2, 3)], "the second shares it"


def test_documents_take_turns_and_halves_alternate_in_the_order_of_hashes(domains):
    index, found = tool.choose(domains, WORDS, 20, 120)
    for domain, documents in domains.items():
        facts = index["domains"][domain]
        assert [d["sha256"] for d in facts] == sorted(map(texts.document_hash, documents["valid"]))
        assert [d["half"] for d in facts] == list("ABABAB")
        assert [r["document"] for r in found[domain]] == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4]


def test_a_domain_without_enough_windows_is_refused(domains):
    with pytest.raises(ValueError, match=r"harbour: \d+ windows of 120 tokens in 6 documents"):
        tool.choose(domains, WORDS, 200, 120)


def test_the_tool_writes_what_the_package_reads(
    corpus, domains, tmp_path, monkeypatch, reader, capsys
):
    monkeypatch.setattr(tool, "read_corpus", lambda _: domains)
    out, again = tmp_path / "texts", tmp_path / "again"
    for to in (out, again):
        assert tool.main(["--corpus", str(corpus[0]), "--out", str(to), "--count", "5"]) == 0
        assert "5 texts of 2 domains" in capsys.readouterr().out
    for file in out.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes(), "the same every time"
    monkeypatch.setattr(texts, "HELD_OUT", out)
    found = texts.collection(reader)
    names = "harbour-01.1 sky-01.1 harbour-02.1 sky-02.1 harbour-03.1"
    assert [text.name for text in found] == names.split()
    for text in found:
        assert any(text.source in document for document in domains[text.domain]["valid"])
        assert text.dialect == "en" and len(text.tokens) == 512
    assert "| made | Invented | https://github.com/a/b | CC0 |" in (out / "CREDITS.md").read_text()


def test_a_source_that_nobody_is_credited_for_is_one_clear_line(corpus, tmp_path, capsys):
    folder, *_ = corpus
    for split in ("train", "valid"):
        (tmp_path / split).symlink_to(folder / split)
    (tmp_path / "MANIFEST.json").write_text('{"domains": {}}')
    arguments = ["--corpus", str(tmp_path), "--out", str(tmp_path / "texts")]
    assert tool.main(arguments) == 2
    errors = capsys.readouterr().err
    assert errors.strip() == (
        "held_out_texts: MANIFEST.json has no sources for harbour, so nobody can be credited"
    )
    assert not (tmp_path / "texts").exists()
