"""What the embedded model must show, and that what ships is what its card states."""

import hashlib
import math
from statistics import fmean

import pytest
import train_mini as tm
from scipy.stats import spearmanr
from ship_mini import results_of

import ctxlib as cx
from ctxlib.models import MINI

CARD = (MINI / "README.md").read_text()


def test_its_tokens_are_any_text(mini):
    assert (mini.tokenizer.bos_token, mini.tokenizer.bos_token_id) == ("<|endoftext|>", 0)
    text = "The colour of the sea.\ndef f(x):\n    return x**2\n¿Dónde está el niño? 日本 🙂"
    assert mini.tokenizer.decode(mini.tokenizer.encode(text, add_special_tokens=False)) == text


def test_the_card_states_what_the_record_of_the_runs_has(tmp_path):
    for runs in (tm.TRIALS, ["mini"]):
        assert len(results_of(tmp_path, runs)) == len(runs), "of the recipes as they stand here"
        assert tm.table(results_of(tmp_path, runs)) in CARD
    (mini,) = results_of(tmp_path, ["mini"])
    assert mini["tokens"] >= 50_000_000
    for domain, bits in mini["bits"].items():
        assert f"| {domain} | {bits:.4f} | {mini['nats'][domain]:.3f} |\n" in CARD
        assert CARD.count(f"\n| {domain} | ") == 2, "its sources as well"
    assert hashlib.sha256((MINI / "model.safetensors").read_bytes()).hexdigest() in CARD


def test_the_recipe_was_the_trial_of_the_fewest_bits(tmp_path):
    best, *_ = sorted(results_of(tmp_path, tm.TRIALS), key=lambda run: tm.mean(run["bits"]))
    assert tm.TRIALS[best["run"]] == tm.CHOSEN == tm.replace(tm.RUNS["mini"], tokens=10_000_000)


def test_the_model_reads_its_held_out_text_as_the_card_states(mini, tmp_path):
    """Bits per byte of one window, in every other domain: near those of all windows, and in their
    order.
    """
    seen, (record,) = {}, results_of(tmp_path, ["mini"])
    for text in cx.texts.collection(cx.texts.Reader.of(mini), len(record["bits"]))[::2]:
        nats = mini(text.tokens[None], return_type="loss").item() * (len(text.tokens) - 1)
        content = mini.tokenizer.decode(text.tokens[1:]).encode()
        seen[text.domain] = nats / math.log(2) / len(content)
    recorded = [record["bits"][domain] for domain in seen]
    assert len(recorded) == len(record["bits"]) / 2
    assert spearmanr([*seen.values()], recorded).statistic > 0.6
    assert fmean(seen.values()) == pytest.approx(fmean(recorded), rel=0.1)
