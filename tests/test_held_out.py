"""The held-out texts: what they are, that they are whose they say, and the tool that chose them."""

import json
import re
from collections import Counter, defaultdict
from itertools import islice

import held_out_texts as tool
import numpy as np
import pytest
import torch
from command import ROOT
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from train_mini import encode_stream

import ctxlib as cx
from ctxlib import texts
from ctxlib.texts.sources import HELD_OUT, held_out_index

WORDS = Tokenizer.from_file(str(cx.models.MINI / "tokenizer.json"))
CREDITS = (HELD_OUT / "CREDITS.md").read_text(encoding="utf-8")
INDEX = held_out_index()


@pytest.fixture(scope="module")
def held(mini_weights):
    return texts.collection(mini_weights)


# ---------------------------------------------------------------- what they are


def test_there_are_a_thousand_of_512_tokens_and_no_run_of_64_is_in_two_documents(held):
    stacked = torch.stack([text.tokens for text in held])
    assert stacked.shape == (INDEX["texts"], INDEX["tokens of a text"]) == (1000, 512)
    assert (stacked[:, 0] == 0).all()
    assert (stacked[:, 1:] != 0).all(), "one document each"
    assert len({text.name for text in held}) == len({text.source for text in held}) == 1000
    where, begins = defaultdict(set), set()
    for text in held:
        ids = text.tokens[1:].numpy().astype(np.uint16)
        runs = [ids[i : i + 64].tobytes() for i in range(len(ids) - 63)]
        for run in runs:
            where[run].add(text.document)
        begins.add(runs[0])
    assert {len(documents) for documents in where.values()} == {1}
    assert len(begins) == 1000, "no window begins in another"


def test_22_domains_have_as_nearly_as_many_as_can_be_and_about_half_of_them_in_each_half(held):
    halves = defaultdict(Counter)
    for text in held:
        halves[text.domain][text.half] += 1
    assert {counts.total() for counts in halves.values()} == {45, 46}  # so there are 22
    for domain, counts in halves.items():
        assert abs(counts["A"] - counts["B"]) <= 0.2 * counts.total(), domain


def test_the_index_says_of_each_document_what_its_texts_and_their_names_say(held):
    counts = Counter(text.document for text in held)
    for domain, facts in INDEX["domains"].items():
        assert facts["dialect"] in {"en", "en-GB", "en-US", "es", "fr", "de", "python"}
        assert facts["sources"]
        for number, document in enumerate(facts["documents"], 1):
            assert document["number"] == number and document["half"] == "BA"[number % 2]
            assert re.fullmatch(r"[0-9a-f]{16}", document["sha256"])
            assert document["title"], domain
            assert counts.pop(document["sha256"]) == document["texts"]
    assert not counts
    for text in held:
        domain, number, window = re.fullmatch(r"(.+)-(\d{2,})\.([1-9]\d*)", text.name).groups()
        document = INDEX["domains"][domain]["documents"][int(number) - 1]
        assert (text.domain, text.document) == (domain, document["sha256"])
        assert (text.subject, text.half) == (document["title"], document["half"])
        if int(window) == 1 and domain != "python":
            assert text.source.lstrip().startswith(document["title"].removesuffix("…"))


# ---------------------------------------------------------------- whose they are


def test_the_credits_name_every_source_of_every_domain():
    parts = dict(re.findall(r"(?ms)^## (\S+)\n(.*?)(?=^## |\Z)", CREDITS))
    assert set(parts) == set(INDEX["domains"])
    for domain, facts in INDEX["domains"].items():
        _, _, *rows = re.findall(r"(?m)^\| (\S+) \| (.+) \| (.+) \| (.+) \|$", parts[domain])
        assert [row[0] for row in rows] == facts["sources"]
        for source, titles, origin, licence in rows:
            assert origin.startswith("https://github.com/")
            assert ("OpenStax, Rice University" in titles) == ("OpenStax" in licence), source
            licences = "CC BY 4.0|CC0|OGL 3.0|MIT|PSF-2.0|public domain"
            assert re.search(licences, licence), licence


@pytest.mark.parametrize("file", ["NOTICE", "README.md", "CITATION.cff", "_config.yml"])
def test_files_that_name_licences_name_the_credits(file):
    assert "ctxlib/data/texts/CREDITS.md" in (ROOT / file).read_text(encoding="utf-8")


# ---------------------------------------------------------------- how they are read


@pytest.mark.parametrize("half", [None, "B"])
def test_the_domains_take_turns_and_a_half_is_all_of_its_documents(mini_weights, held, half):
    there = [text.name for text in held if half in (None, text.half)]
    found = held if half is None else texts.collection(mini_weights, half=half)
    assert sorted(text.name for text in found) == sorted(there)
    of_half = f" of half {half}" if half else ""
    for count in (0, -1, len(there) + 1):
        message = f"^count={count}: there are {len(there)} held-out texts{of_half}$"
        with pytest.raises(ValueError, match=message):
            texts.collection(mini_weights, count, half=half)
    assert [text.domain for text in found[:66]] == sorted(INDEX["domains"]) * 3
    stream = texts.stream(mini_weights, 60, half=half)
    reading = stream.reading()
    few = [text.name for text in islice(reading, 31)]
    again = stream.reading(json.loads(json.dumps(reading.place)))
    assert [*few[:30], *(text.name for text in again)] == [text.name for text in found[:60]]
    for wrong in ("C", "a", ""):
        with pytest.raises(ValueError, match=f"half='{wrong}': choose 'A', 'B', or None"):
            texts.collection(mini_weights, half=wrong)


def test_another_vocabulary_encodes_them_anew_and_cuts_them(mini_weights, held, tiny_weights):
    for text in texts.collection(tiny_weights, 30):
        assert text.tokens.tolist() == texts.all_tokens(tiny_weights, text.source)[:32]
    shorter = texts.collection(texts.Reader.of(mini_weights, 40), 30)
    for text, whole in zip(shorter, held, strict=False):
        assert text.name == whole.name and torch.equal(text.tokens, whole.tokens[:40])


# ---------------------------------------------------------------- the tool: windows

DOCUMENTS = st.lists(
    st.sampled_from(
        ["the moon ", "a  colour\n\n", "naïve ", "x=1;\t", "  ", "\n", "über", "'ll ", "№ 7 "]
    ),
    max_size=60,
).map("".join)


@given(DOCUMENTS, st.integers(2, 9))
def test_windows_are_stretches_that_give_their_own_tokens(document, length):
    whole = WORDS.encode(document, add_special_tokens=False).ids
    begin, used = 0, 0
    for number, window in enumerate(tool.windows(WORDS, document, length), 1):
        assert window.number == number
        own = WORDS.encode(window.text, add_special_tokens=False).ids
        assert own == whole[used : used + len(own)], "one behind the other"
        assert window.ids.tolist() == own[:length]
        assert document.startswith(window.text, begin)
        begin, used = begin + len(window.text), used + len(own)
    assert len(whole) - used < length, "none is left"


# ---------------------------------------------------------------- the tool: the check

TOKENS = st.lists(st.integers(0, 3), min_size=8, max_size=60).map(
    lambda ids: np.array(ids, dtype=np.uint16)
)


@given(st.lists(TOKENS, min_size=1, max_size=3), st.lists(TOKENS, min_size=1, max_size=3))
def test_a_text_is_seen_exactly_if_a_run_of_it_is_in_a_stream(several, streams):
    runs = {tuple(s[j : j + 8]) for s in streams for j in range(len(s) - 7)}
    by_hand = [any(tuple(t[i : i + 8]) in runs for i in range(len(t) - 7)) for t in several]
    assert list(tool.seen(several, streams, 8)) == by_hand


def test_the_last_token_of_a_run_counts():
    run = np.arange(tool.RUN, dtype=np.uint16)
    other = np.append(run[:-1], tool.RUN)
    assert tool.run_hashes(run) != tool.run_hashes(other)


# ---------------------------------------------------------------- the tool: the choice

NOUNS = ["moon", "harbour", "nurse", "colour", "telescope", "planet", "doctor", "tablet", "hill"]


def prose(seed, words):
    return " ".join(np.random.default_rng(seed).choice(NOUNS, words)).capitalize()


@pytest.fixture(scope="module")
def domains():
    """Two; a window of sky's first document in hash order is in harbour's training."""
    valid = {d: [prose((k, i), 500) for i in range(6)] for k, d in enumerate(["harbour", "sky"])}
    planted = min(valid["sky"], key=texts.document_hash)
    stolen = WORDS.encode(planted)
    begin, end = stolen.offsets[130][0], stolen.offsets[130 + 90][1]
    train = {
        "harbour": [prose(90, 900), "Something. " + planted[begin:end] + " More."],
        "sky": [prose(91, 900), prose(92, 900)],
    }
    return {d: {"train": train[d], "valid": valid[d]} for d in train}


def test_what_shares_a_run_with_training_is_skipped_and_the_rest_taken_in_turns(domains):
    index, found = tool.choose(domains, WORDS, 2 * 18, 120)
    checked = index["checked"]
    assert (checked["skipped"], checked["skipped by domain"]) == (1, {"sky": 1})
    for domain, stream in checked["training streams"].items():
        assert stream["tokens"] == len(encode_stream(WORDS, domains[domain]["train"]))
    assert len({s["sha256"] for s in checked["training streams"].values()}) == 2
    for domain, pair in domains.items():
        facts, rows = index["domains"][domain], found[domain]
        ordered = sorted(pair["valid"], key=texts.document_hash)
        assert [d["sha256"] for d in facts] == [*map(texts.document_hash, ordered)]
        assert [d["half"] for d in facts] == list("ABABAB")
        assert [r["document"] for r in rows[:10]] == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4]
        for number, document in enumerate(ordered, 1):
            cut = [(w.number, w.text) for w in tool.windows(WORDS, document, 120)]
            if (domain, number) == ("sky", 1):
                assert len(cut) >= 4
                del cut[1]  # shares it
            taken = [(r["window"], r["text"]) for r in rows if r["document"] == number]
            assert taken == cut[: facts[number - 1]["texts"]]
    with pytest.raises(ValueError, match=r"harbour: \d+ windows of 120 tokens in 6 documents"):
        tool.choose(domains, WORDS, 200, 120)
    alone = {domain: pair | {"valid": pair["valid"][:1]} for domain, pair in domains.items()}
    with pytest.raises(ValueError, match="harbour: 1 windows of 120 tokens in 1 documents"):
        tool.choose(alone, WORDS, 2, 120)


def test_the_tool_writes_what_the_package_reads(
    domains, tmp_path, monkeypatch, mini_weights, refused, capsys
):
    monkeypatch.setattr(tool, "read_corpus", lambda _: domains)
    monkeypatch.setattr(tool, "python_files", dict)
    source = {"titles": ["Invented"], "origin": "github:a/b", "licence": "CC0", "source": "made"}
    manifest, out = tmp_path / "MANIFEST.json", tmp_path / "texts"
    arguments = ["--corpus", str(tmp_path), "--count", "5", "--out"]
    manifest.write_text(json.dumps({"domains": {}}))
    line = "held_out_texts: MANIFEST.json has no sources for harbour, so nobody can be credited"
    assert refused(tool.main, *arguments, out) == line and not out.exists()
    manifest.write_text(json.dumps({"domains": {d: {"sources": [source]} for d in domains}}))
    out.mkdir()
    (out / "gone.jsonl.xz").touch()  # of a domain that there was
    for to in (out, tmp_path / "again"):
        assert tool.main([*arguments, str(to)]) == 0
        assert "5 texts of 2 domains" in capsys.readouterr().out
    for file in out.iterdir():
        again = tmp_path / "again" / file.name
        assert file.read_bytes() == again.read_bytes(), "the same every time"
    monkeypatch.setattr("ctxlib.texts.sources.HELD_OUT", out)
    found = texts.collection(mini_weights)
    names = "harbour-01.1 sky-01.1 harbour-02.1 sky-02.1 harbour-03.1"
    assert [text.name for text in found] == names.split()
    for text in found:
        assert any(text.source in document for document in domains[text.domain]["valid"])
        assert text.dialect == "en" and len(text.tokens) == 512
    page = (out / "CREDITS.md").read_text()
    assert page.startswith(CREDITS.partition("\n## ")[0])
    assert "\n## sky\n" in page and "| made | Invented | https://github.com/a/b | CC0 |" in page
