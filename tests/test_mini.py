"""What the embedded model must show, and that what ships is what its card says."""

import hashlib
import json
import math
import re
from pathlib import Path
from statistics import fmean

import pytest
from safetensors import safe_open
from scipy.stats import spearmanr

import ctxlib as cx
from ctxlib.models import MINI

ROOT = Path(__file__).resolve().parent.parent
CARD = (MINI / "README.md").read_text()


def test_it_is_small_and_half_precision():
    file = MINI / "model.safetensors"
    assert file.stat().st_size < 12_000_000
    with safe_open(file, framework="pt") as tensors:
        assert {tensors.get_slice(k).get_dtype() for k in tensors.keys()} == {"F16"}  # noqa: SIM118
    assert not list(MINI.glob("*.bin"))


def test_it_has_the_shape_that_the_book_says():
    config = json.loads((MINI / "config.json").read_text())
    sizes = {k: config[k] for k in ("n_layer", "n_embd", "n_head", "n_positions", "vocab_size")}
    assert sizes == {
        "n_layer": 4,
        "n_embd": 256,
        "n_head": 8,
        "n_positions": 512,
        "vocab_size": 8192,
    }
    assert config["tie_word_embeddings"]


def test_the_separator_is_token_zero_and_bos(mini):
    assert mini.tokenizer.bos_token == "<|endoftext|>"
    assert mini.tokenizer.bos_token_id == 0


@pytest.mark.parametrize(
    "text",
    ["The colour of the sea.", "def f(x):\n    return x**2\n", "¿Dónde está el niño?", "日本 🙂"],
)
def test_any_text_survives_the_tokenizer(mini, text):
    assert mini.tokenizer.decode(mini.tokenizer.encode(text, add_special_tokens=False)) == text


def test_the_card_names_this_file():
    digest = hashlib.sha256((MINI / "model.safetensors").read_bytes()).hexdigest()
    assert digest in CARD


def card_table(heading: str) -> dict[str, list[str]]:
    """The rows of the first table under a heading of the card, by their first cell."""
    section = CARD.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [re.split(r" \| ", line.strip("| ")) for line in section.splitlines() if "|" in line]
    return {cells[0]: cells[1:] for cells in rows[2:]}


def test_the_card_gives_data_choice_and_recipe():
    assert len(card_table("Held-out text")) == 22 + 1, "the domains, and their mean"
    assert card_table("Held-out text").keys() - {"**mean**"} <= card_table("Data").keys()
    assert len(card_table("How the recipe was chosen")) == 4, "trials"
    for heading in ("## What had been looked at before", "## Twins", "## Checksum"):
        assert heading in CARD


def test_the_card_says_what_the_record_of_the_runs_says():
    runs = {run["run"]: run for run in json.loads((ROOT / "twins" / "runs.json").read_text())}
    tokens, bits = card_table("The run")["mini"][:2]
    assert int(tokens.replace(",", "")) == runs["mini"]["tokens"] >= 50_000_000
    assert float(bits) == pytest.approx(fmean(runs["mini"]["bits"].values()), abs=5e-5)
    told = {k: float(row[0]) for k, row in card_table("Held-out text").items() if "*" not in k}
    assert told == pytest.approx(runs["mini"]["bits"], abs=5e-5)


def test_the_recipe_was_the_trial_of_the_fewest_bits():
    runs = {run["run"]: run for run in json.loads((ROOT / "twins" / "runs.json").read_text())}
    trials = {k: fmean(runs[k]["bits"].values()) for k in card_table("How the recipe was chosen")}
    best = runs[min(trials, key=trials.get)]["recipe"]
    assert runs["mini"]["recipe"] == best | {"tokens": runs["mini"]["recipe"]["tokens"]}


def test_the_model_reads_its_held_out_text_as_the_card_says(mini):
    """Bits per byte of two windows a domain: near those of all windows, and in their order."""
    told = {k: float(row[0]) for k, row in card_table("Held-out text").items() if "*" not in k}
    seen: dict[str, list[float]] = {}
    for text in cx.texts.collection(cx.texts.Reader.of(mini)):
        mine = seen.setdefault(text.domain, [])
        if len(mine) < 2:
            nats = mini(text.tokens[None], return_type="loss").item() * (len(text.tokens) - 1)
            content = mini.tokenizer.decode(text.tokens[1:]).encode()
            mine.append(nats / math.log(2) / len(content))
    assert spearmanr([fmean(seen[k]) for k in told], list(told.values())).statistic > 0.6
    assert fmean(map(fmean, seen.values())) == pytest.approx(fmean(told.values()), rel=0.1)
