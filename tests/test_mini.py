"""What the embedded model must show, and that what ships is what its card says."""

import hashlib
import json
import math
import re
from statistics import fmean

import pytest
from command import ROOT
from scipy.stats import spearmanr

import ctxlib as cx
from ctxlib.models import MINI

CARD = (MINI / "README.md").read_text()
RUNS = {run["run"]: run for run in json.loads((ROOT / "twins" / "runs.json").read_text())}


def test_its_tokens_are_any_text(mini):
    assert (mini.tokenizer.bos_token, mini.tokenizer.bos_token_id) == ("<|endoftext|>", 0)
    text = "The colour of the sea.\ndef f(x):\n    return x**2\n¿Dónde está el niño? 日本 🙂"
    assert mini.tokenizer.decode(mini.tokenizer.encode(text, add_special_tokens=False)) == text


def card_table(heading: str) -> dict[str, list[str]]:
    """The rows of the first table under a heading of the card, by their first cell."""
    section = CARD.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [re.split(r" \| ", line.strip("| ")) for line in section.splitlines() if "|" in line]
    return {cells[0]: cells[1:] for cells in rows[2:]}


# of each domain of held-out text
BITS_TOLD = {k: float(row[0]) for k, row in card_table("Held-out text").items() if "*" not in k}


def test_the_card_gives_the_data_and_names_this_file():
    assert BITS_TOLD.keys() <= card_table("Data").keys()
    assert hashlib.sha256((MINI / "model.safetensors").read_bytes()).hexdigest() in CARD


def test_the_card_says_what_the_record_of_the_runs_says():
    tokens, bits = card_table("The run")["mini"][:2]
    assert int(tokens.replace(",", "")) == RUNS["mini"]["tokens"] >= 50_000_000
    assert float(bits) == pytest.approx(fmean(RUNS["mini"]["bits"].values()), abs=5e-5)
    assert pytest.approx(RUNS["mini"]["bits"], abs=5e-5) == BITS_TOLD


def test_the_recipe_was_the_trial_of_the_fewest_bits():
    trials = {k: fmean(RUNS[k]["bits"].values()) for k in card_table("How the recipe was chosen")}
    assert len(trials) == 4
    best = RUNS[min(trials, key=trials.get)]["recipe"]
    assert RUNS["mini"]["recipe"] == best | {"tokens": RUNS["mini"]["recipe"]["tokens"]}


def test_the_model_reads_its_held_out_text_as_the_card_says(mini):
    """Bits per byte of one window, in every other domain: near those of all windows, and in their
    order.
    """
    seen = {}
    for text in cx.texts.collection(cx.texts.Reader.of(mini), len(BITS_TOLD))[::2]:
        nats = mini(text.tokens[None], return_type="loss").item() * (len(text.tokens) - 1)
        content = mini.tokenizer.decode(text.tokens[1:]).encode()
        seen[text.domain] = nats / math.log(2) / len(content)
    told = [BITS_TOLD[domain] for domain in seen]
    assert len(told) == len(BITS_TOLD) / 2
    assert spearmanr([*seen.values()], told).statistic > 0.6
    assert fmean(seen.values()) == pytest.approx(fmean(told), rel=0.1)
