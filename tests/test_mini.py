"""What the embedded model must show, and that what ships is what its card says."""

import hashlib
import json
import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

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


def card_losses() -> dict[str, float]:
    section = CARD.split("## Held-out loss")[1].split("## ")[0]
    return {
        k: float(v)
        for k, v in re.findall(r"^\| ([\w-]+) \| ([\d.]+) \|$", section, flags=re.MULTILINE)
    }


def test_the_card_gives_data_recipe_and_loss():
    losses = card_losses()
    assert len(losses) == 22
    for heading in ("## Recipe", "## Data", "## Checksum"):
        assert heading in CARD
    for domain in losses:
        assert re.search(rf"^\| {domain} \| .* \| .* \|$", CARD, flags=re.MULTILINE), "its licence"


def test_the_card_and_the_phases_agree_on_the_tokens():
    told = re.search(r"^([\d,]+) tokens in", CARD, flags=re.MULTILINE)[1]
    history = json.loads((MINI / "phases.json").read_text())
    assert int(told.replace(",", "")) == sum(p["tokens"] for p in history)


def test_the_loss_is_low():
    assert sum(card_losses().values()) / len(card_losses()) <= 4.1


def test_it_was_trained_on_fifty_million_tokens():
    history = json.loads((MINI / "phases.json").read_text())
    assert sum(p["tokens"] for p in history) >= 50_000_000


@pytest.fixture(scope="module")
def spread(mini_weights):
    return cx.effective_tokens(cx.positional_kernels(mini_weights, 486, " the"))


@pytest.fixture(scope="module")
def median_distance(mini_weights):
    """Median TV of every head over all positions of every sixth passage."""
    texts = [p.tokens for p in cx.texts.passages(mini_weights)[::6]]
    both = [
        (cx.attention_pattern(mini_weights, x), cx.rebuilt_pattern(mini_weights, x)) for x in texts
    ]
    return torch.cat([cx.total_variation(*pair) for pair in both], dim=1).median(dim=1).values


def test_broad_heads_have_formed(spread):
    assert (spread > 40).sum() >= 3


def test_a_local_head_has_formed(mini_weights, spread):
    kernels = cx.positional_kernels(mini_weights, 486, " the")
    near = kernels[:, -16:].sum(-1)
    assert ((spread < 15) & (near > 0.8)).any(), "narrow, and close to the destination"


def test_equation_1_rebuilds_every_broad_head(spread, median_distance):
    assert (median_distance[spread > 40] <= 0.06).all(), median_distance


def test_its_tokens_have_mean_zero_as_the_card_says(mini_weights):
    """Of the passages, which it was not trained on: the mean is small beside a token."""
    used = torch.cat([p.tokens[1:] for p in cx.texts.passages(mini_weights)])
    assert mini_weights.W_E[used].mean(0).norm() < 0.25 * mini_weights.typical_norm()
