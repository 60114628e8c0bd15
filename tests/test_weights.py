"""Folding and centring change the numbers in the matrices and nothing that the model computes."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from kinds import WINDOWS, drawn
from safetensors.torch import load_file

import ctxlib as cx
from ctxlib.models import MINI

agree = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)  # float32
TENSORS = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "W_in", "b_in")

# ---------------------------------------------------------------- against the model's own hooks

SHAPES = {
    "three heads": {},
    "one head": {"n_head": 1, "n_embd": 8, "n_inner": 5, "n_positions": 48},
    "wide": {"n_head": 4, "n_embd": 48, "n_inner": None},
    "large epsilon": {"layer_norm_epsilon": 1e-2},
    "scores divided by the layer's number": {"scale_attn_by_inverse_layer_idx": True},
}
OTHERS = {  # whose first layer has the same parts
    "scores not divided": partial(drawn, "gpt_neo", **WINDOWS),
    "keys and values shared": partial(drawn, "gpt_bigcode"),
}


@pytest.fixture(scope="module", params=[*SHAPES, "mini"])
def run(request, make_folder, tiny_tokens):
    """One forward pass with every hook recorded, for several shapes and for `mini`."""
    shape = request.param
    made = OTHERS[shape]() if shape in OTHERS else None
    folder = MINI if shape == "mini" else make_folder(made, seed=7, **SHAPES.get(shape, {}))
    model = cx.load(folder)
    with torch.inference_mode():
        _, cache = model.run_with_cache(tiny_tokens[None])
    hooks = {name: cache[name][0] for name in cache}
    return SimpleNamespace(shape=shape, folder=folder, model=model, tokens=tiny_tokens, hooks=hooks)


@pytest.mark.parametrize("run", [*SHAPES, "mini", *OTHERS], indirect=True)
def test_the_first_layer_is_computed_from_the_tokens(run):
    weights, hooks, tokens = cx.LayerWeights.of(run.model), run.hooks, run.tokens
    near = partial(agree, rtol=1e-4, atol=1e-4 if run.shape == "mini" else 1e-5)
    stream = weights.embeddings()[tokens] + weights.W_pos[: len(tokens)]
    agree(stream, hooks["blocks.0.hook_resid_pre"])
    agree(weights.normalised(tokens), cx.layer_norm(stream, weights.eps))
    agree(cx.split.attention_pattern(weights, tokens), hooks["blocks.0.attn.hook_pattern"])
    for n in (0, 1, 17, 31):
        heads = torch.einsum("hd,hdm->hm", hooks["blocks.0.attn.hook_z"][n], weights.W_O)
        rows = cx.attention_rows(weights, tokens, n)
        agree(weights.head_outputs(rows, tokens[: n + 1]), heads)
        agree(heads.sum(0) + weights.b_O, hooks["blocks.0.hook_attn_out"][n])
        here = cx.destination(weights, n=n, token=0)
        near(here.outputs(tokens), heads)
        stream, scale = (hooks[f"blocks.0.{of}"][n] for of in ("hook_resid_mid", "ln2.hook_scale"))
        near(here.resid_mid(tokens, heads), stream)
        agree(weights.pre_activations(stream), hooks["blocks.0.mlp.hook_pre"][n])
        near(here.truth(tokens, [0]), heads[0] @ weights.W_in / scale)


@pytest.mark.parametrize("layer", [0, 1])
def test_both_ways_in_give_the_same_tensors(run, layer):
    """From the model, folded by TransformerLens, and from its state dict, folded here."""
    loaded = cx.LayerWeights.of(run.model, layer)
    state = load_file(run.folder / "model.safetensors")  # float16 on disk in `mini`
    folded = cx.LayerWeights.from_state_dict(state, loaded.n_heads, layer, loaded.eps)
    for name in TENSORS:
        agree(getattr(folded, name), getattr(loaded, name), msg=lambda said, t=name: f"{t}: {said}")
    divided = layer + 1 if "divided" in run.shape else 1
    assert (folded.attn_scale * divided, folded.layer) == (loaded.attn_scale, layer)


# ---------------------------------------------------------------- models that are refused


@pytest.mark.parametrize("part", ["W_Q", "W_K", "W_V", "W_in"])
def test_one_part_that_reads_something_else_is_enough(tiny, tiny_weights, part):
    tiny_weights.check(tiny)
    wrong = replace(tiny_weights, **{part: 2 * getattr(tiny_weights, part)})
    with pytest.raises(ValueError, match="read something else than the normalised residual stream"):
        wrong.check(tiny)


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_refused(tiny_weights, name, broken):
    damaged = getattr(tiny_weights, name).clone()
    damaged.view(-1)[3] = broken
    with pytest.raises(ValueError, match=f"{name} of layer 0: values that are not finite"):
        replace(tiny_weights, **{name: damaged})


# ---------------------------------------------------------------- parts that a checkpoint may lack


def without(state, *absent):
    return {name: tensor for name, tensor in state.items() if name not in absent}


def test_weights_without_embeddings_have_their_positional_half(make_state):
    half, whole = (
        cx.LayerWeights.from_state_dict(state, n_heads=2)
        for state in (without(make_state(), "wte.weight"), make_state())
    )
    keys = cx.split.positional_keys
    assert torch.equal(keys(half, 5, C=2.0), keys(whole, 5, C=2.0))
    at = cx.destination(half, n=5, token=None, C=2.0)
    copies = cx.families(at)["nats for a copy"]
    assert copies.isna().all(), "nothing is known of them"
    with pytest.raises(ValueError, match="without token embeddings"):
        _ = at.split.untrained


@pytest.mark.parametrize("absent", ["mlp.c_fc.weight", "mlp.c_fc.bias", "ln_2.weight", "ln_2.bias"])
def test_weights_without_the_mlp_say_so_where_it_is_needed(make_state, absent):
    weights = cx.LayerWeights.from_state_dict(without(make_state(), f"h.0.{absent}"), 2)
    cx.attention_rows(weights, torch.tensor([0, 1, 2]), 2)
    at = cx.destination(weights, n=2, token=1)
    for ask in (
        lambda: weights.pre_activations(torch.zeros(3, weights.d_model)),
        lambda: at.truth(torch.tensor([0, 1, 2]), [0]),
        lambda: cx.ContextualCircuit.calibrate(at, torch.tensor([0, 1, 2]), [0]),
    ):
        with pytest.raises(ValueError, match="without the MLP"):
            ask()
