"""Encoders, whose destinations have sources on both sides, against transformers. Against loops they
are held wherever decoders are: half of the cases of `by_hand` are encoders.
"""

from types import SimpleNamespace

import pytest
import torch
from by_hand import draw_texts
from kinds import SIZES
from transformers import BertConfig, BertModel
from transformers.activations import ACT2FN

import ctxlib as cx
from ctxlib.weights import centre

N, LENGTH, THE = 9, 18, 262
TEXTS = draw_texts(9, 32, 300, seed=8)


@pytest.fixture(scope="module")
def folder(make_folder):
    """Every parameter at random."""
    return make_folder(BertModel(BertConfig(**SIZES, layer_norm_eps=1e-3)), seed=2)


@pytest.fixture(scope="module")
def encoder(folder):
    return cx.load(folder)


@pytest.fixture(scope="module")
def weights(encoder):
    """Read in float32, as everything is; compared in float64."""
    return cx.LayerWeights.of(encoder).to(torch.float64)


@pytest.fixture(scope="module")
def at(weights):
    """In the middle of eighteen tokens."""
    return cx.destination(weights, n=N, token=THE, C=3.0)


@pytest.fixture(scope="module")
def run(folder):
    """What transformers computes of these texts, in float64: the first layer's attentions, and what
    its heads and its MLP read.
    """
    held = {}
    bert = BertModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    bert = bert.eval().requires_grad_(False)
    first = bert.encoder.layer[0]
    places = {"heads": first.attention.output.dense, "mlp": first.intermediate.dense}
    hooks = [
        place.register_forward_pre_hook(lambda _, given, name=name: held.update({name: given[0]}))
        for name, place in places.items()
    ]
    held["attentions"] = bert(TEXTS[:, :LENGTH], output_attentions=True).attentions[0]
    for hook in hooks:
        hook.remove()
    return SimpleNamespace(**held, first=first)


# ---------------------------------------------------------------- as transformers runs it


def near(found, expected, rtol=1e-4):
    """To so much of the largest number."""
    found = torch.as_tensor(found, dtype=torch.float64)
    apart = (found - expected).abs().max() / expected.abs().max()
    assert apart < rtol, float(apart)


@pytest.mark.parametrize("n", [0, 5, N, 17])
def test_rows_at_a_destination_in_the_middle_are_those_of_transformers(weights, run, n):
    x = TEXTS[:, :LENGTH]
    torch.testing.assert_close(
        cx.attention_rows(weights, x, n), run.attentions[:, :, n], atol=1e-5, rtol=0
    )
    pattern = cx.split.attention_pattern(weights, x[1])
    torch.testing.assert_close(pattern, run.attentions[1], atol=1e-5, rtol=0)


def test_what_heads_write_and_the_mlp_makes_is_what_transformers_computes(at, weights, run):
    x, first = TEXTS[:, :LENGTH], run.first
    norm, mlp = first.attention.output.LayerNorm, first.intermediate
    out = first.attention.output.dense.weight.unflatten(1, (3, 8))
    written = torch.einsum("bhe,dhe->bhd", run.heads[:, N].unflatten(1, (3, 8)), out)
    near(at.outputs(x), centre(written))
    pre = torch.nn.functional.linear(run.mlp[:, N], mlp.dense.weight, mlp.dense.bias)
    said = at.mlp(x)
    near(said["pre"], pre)
    near(said["post"], ACT2FN["gelu"](pre))
    stream = at.resid_mid(x, at.outputs(x))
    near(cx.layer_norm(stream, weights.eps) * norm.weight + norm.bias, run.mlp[:, N])


# ---------------------------------------------------------------- what is read


def test_without_n_it_is_the_middle_of_the_context_or_of_the_shortest_text(encoder, weights):
    assert cx.destination(encoder, token=THE).n == 16
    assert cx.destination(weights, [TEXTS[0], TEXTS[1, :20]], token=THE).n == 10
    assert cx.destination(weights, TEXTS, token=THE).n == 16
