"""What the embedded model must show, and that what ships is what its card says."""

import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

import ctxlib as cx
from ctxlib.models import MINI
from ctxlib.texts import SAMPLES

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
sys.path.insert(0, str(ROOT / "tools"))
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


@pytest.mark.skipif(not CORPUS.exists(), reason="the training corpus is not at hand")
def test_the_losses_on_the_card_can_be_measured_again():
    import train_mini as tm
    from tokenizers import Tokenizer
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(MINI, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(MINI / "tokenizer.json"))
    names = ("cooking", "law", "spanish")
    files = {n: CORPUS / "valid" / f"{n}.txt.xz" for n in names}
    streams = {
        n: {"valid": tm.encode_stream(tokenizer, tm.read_documents(f))} for n, f in files.items()
    }
    measured = tm.validation_losses(model, streams, tm.Recipe(), "cpu")
    for name, loss in measured.items():
        assert loss == pytest.approx(card_losses()[name], abs=0.02)  # bf16 then, float32 now


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


# ---------------------------------------------------------------- the texts sampled from it


def test_there_are_a_thousand_texts_of_512_tokens(mini_weights):
    texts = cx.texts.samples(mini_weights)
    assert len(texts) == 1000
    stacked = torch.stack(texts)
    assert stacked.shape == (1000, 512)
    assert (stacked[:, 0] == 0).all()
    assert (stacked[:, 1:] != 0).all(), "one document each"
    assert len({tuple(t[:32].tolist()) for t in texts}) > 990, "all different"
    assert np.load(SAMPLES, allow_pickle=False)["tokens"].dtype == np.uint16
    assert SAMPLES.stat().st_size < 2_000_000


def test_another_seed_samples_other_texts(tiny_folder):
    import sample_texts
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(tiny_folder).eval()
    first, again, other = (sample_texts.sample(model, 2, 16, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert first.shape == (2, 16)
    assert (first == sample_texts.BOS).tolist() == [[True] + 15 * [False]] * 2


def test_the_texts_are_as_surprising_as_the_model_is_uncertain(mini, mini_weights):
    """At temperature 1 the expected surprise of a token is the entropy it was drawn with."""
    tokens = torch.stack(cx.texts.samples(mini_weights, 16))
    with torch.inference_mode():
        logits = mini(tokens)[:, :-1]
    logits = logits.index_fill(-1, torch.tensor([0]), float("-inf"))  # it was not to be drawn
    log_p = logits.log_softmax(-1)
    entropy = -(log_p.exp() * log_p.masked_fill(log_p.isinf(), 0)).sum(-1)
    surprise = -log_p.gather(-1, tokens[:, 1:, None])[..., 0]
    excess = surprise - entropy
    assert excess.mean().abs() < 4 * excess.std() / excess.numel() ** 0.5


def test_another_vocabulary_refuses_the_texts(tiny_weights):
    with pytest.raises(ValueError, match="tokens of mini"):
        cx.texts.samples(tiny_weights)
