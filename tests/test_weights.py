"""Folding and centring change the numbers in the matrices and nothing that the model computes."""

from dataclasses import FrozenInstanceError, fields, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPTBigCodeConfig,
    GPTBigCodeForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    XGLMConfig,
    XGLMForCausalLM,
)

import ctxlib as cx
from ctxlib.models import MINI
from ctxlib.split import causal_softmax
from ctxlib.weights import centre, layer_norm, layer_norm_scale, project

# In float32 against the model's own hooks; in float64 against an independent calculation.
agree = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
same = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-10)
TENSORS = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "W_in", "b_in")

# ---------------------------------------------------------------- against the model's own hooks

SHAPES = {
    "three heads": {},
    "one head": {"n_head": 1, "n_embd": 8, "n_inner": 5, "n_positions": 48},
    "wide": {"n_head": 4, "n_embd": 48, "n_inner": None},
    "large epsilon": {"layer_norm_epsilon": 1e-2},
    "scores divided by the layer's number": {"scale_attn_by_inverse_layer_idx": True},
}


@pytest.fixture(scope="module", params=[*SHAPES, "mini"])
def run(request, make_folder):
    """One forward pass with every hook recorded, for several shapes and for `mini`."""
    if request.param == "mini":
        model, tokens = request.getfixturevalue("mini"), request.getfixturevalue("mini_tokens")
    else:
        model = cx.load(make_folder(seed=7, **SHAPES[request.param]))
        tokens = request.getfixturevalue("tiny_tokens")
    return recorded(model, tokens)


def recorded(model, tokens):
    with torch.inference_mode():
        _, cache = model.run_with_cache(tokens[None])
    hooks = {name: cache[name][0] for name in cache}
    return SimpleNamespace(model=model, tokens=tokens, hooks=hooks)


def by_head(hooked):
    return hooked.transpose(0, 1)


def test_the_first_layer_is_computed_from_the_tokens(run):
    weights = cx.LayerWeights.of(run.model)
    agree(weights.residual(run.tokens), run.hooks["blocks.0.hook_resid_pre"])
    for name, of in zip("qkv", (weights.queries, weights.keys, weights.values), strict=True):
        agree(of(run.tokens), by_head(run.hooks[f"blocks.0.attn.hook_{name}"]))
    for n in (0, 1, 17, 31):
        heads = weights.head_outputs(cx.attention_rows(weights, run.tokens, n), run.tokens[: n + 1])
        agree(heads, torch.einsum("hd,hdm->hm", run.hooks["blocks.0.attn.hook_z"][n], weights.W_O))
        agree(heads.sum(0) + weights.b_O, run.hooks["blocks.0.hook_attn_out"][n])


@pytest.mark.parametrize("layer", [0, 1])
def test_every_step_of_a_layer_follows_from_the_one_before(run, layer):
    weights = cx.LayerWeights.of(run.model, layer)
    hooks = {name.removeprefix(f"blocks.{layer}."): value for name, value in run.hooks.items()}
    x = layer_norm(hooks["hook_resid_pre"], weights.eps)
    q, k, v = (by_head(hooks[f"attn.hook_{name}"]) for name in "qkv")
    agree(project(x, weights.W_Q, weights.b_Q), q)
    agree(project(x, weights.W_K, weights.b_K), k)
    agree(project(x, weights.W_V, weights.b_V), v)
    pattern = causal_softmax(q @ k.transpose(1, 2) / weights.attn_scale)
    agree(pattern, hooks["attn.hook_pattern"])
    heads = torch.einsum("phd,hdm->phm", hooks["attn.hook_z"], weights.W_O)
    agree(heads.sum(1) + weights.b_O, hooks["hook_attn_out"])
    agree(layer_norm_scale(hooks["hook_resid_mid"], weights.eps), hooks["ln2.hook_scale"])
    agree(weights.pre_activations(hooks["hook_resid_mid"]), hooks["mlp.hook_pre"])


def test_scores_are_not_divided_in_a_model_that_does_not_divide_them(of_kind, tiny_tokens):
    neo = recorded(of_kind("GPT-Neo").model, tiny_tokens)
    pattern = cx.attention_pattern(cx.LayerWeights.of(neo.model), neo.tokens)
    agree(pattern, neo.hooks["blocks.0.attn.hook_pattern"])


def test_heads_that_share_keys_and_values_have_them_each(make_folder, tiny_tokens):
    config = GPTBigCodeConfig(
        vocab_size=300, n_positions=32, n_embd=24, n_head=3, n_layer=1, multi_query=True,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    shared = recorded(cx.load(make_folder(GPTBigCodeForCausalLM(config))), tiny_tokens)
    weights = cx.LayerWeights.of(shared.model)
    assert weights.W_K.shape == weights.W_V.shape == (3, 24, 8)
    assert weights.b_K.shape == weights.b_V.shape == (3, 8)
    pattern = cx.attention_pattern(weights, shared.tokens)
    agree(pattern, shared.hooks["blocks.0.attn.hook_pattern"])
    circuit = cx.ContextualCircuit.calibrate(weights, shared.tokens, [1, 2], n=20)
    truth = cx.true_contribution(weights, shared.tokens[None], [1, 2], 20)
    assert circuit.summary(shared.tokens[None]).shape == truth.shape


OpenAI = partial(OpenAIGPTConfig, vocab_size=300, n_positions=32, n_embd=24, n_head=3, n_layer=2)
XGLM = partial(
    XGLMConfig, vocab_size=300, max_position_embeddings=32, d_model=24, attention_heads=3,
    num_layers=1, ffn_dim=40, bos_token_id=0, eos_token_id=0, pad_token_id=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("made", "layer", "says"),
    [
        (lambda: OpenAIGPTLMHeadModel(OpenAI()), 0, "than the normalised residual stream"),
        (lambda: OpenAIGPTLMHeadModel(OpenAI()), 1, "than the normalised residual stream"),
        (lambda: XGLMForCausalLM(XGLM()), 0, "computes its positions"),
    ],
)
def test_a_model_whose_weights_would_say_something_else_is_refused(make_folder, made, layer, says):
    with pytest.raises(ValueError, match=says):
        cx.LayerWeights.of(cx.load(make_folder(made())), layer)


# ---------------------------------------------------------------- against the state dict


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", ["tiny", "mini"])
def test_both_ways_in_give_the_same_tensors(request, name, layer):
    model = request.getfixturevalue(name)
    folder = request.getfixturevalue("tiny_folder") if name == "tiny" else MINI
    state = load_file(folder / "model.safetensors")  # float16 on disk in `mini`
    loaded = cx.LayerWeights.of(model, layer)
    folded = cx.LayerWeights.from_state_dict(state, loaded.n_heads, layer, loaded.eps)
    for tensor in TENSORS:
        agree(
            getattr(folded, tensor),
            getattr(loaded, tensor),
            msg=lambda text, t=tensor: f"{t}: {text}",
        )
    assert (folded.attn_scale, folded.layer) == (loaded.attn_scale, layer)


def test_value_biases_stay_with_their_heads(tiny_folder, tiny_weights):
    state = load_file(tiny_folder / "model.safetensors")
    h = "transformer.h.0."
    W_V, b_V = state[h + "attn.c_attn.weight"][:, 48:], state[h + "attn.c_attn.bias"][48:]
    agree(tiny_weights.b_V.flatten(), state[h + "ln_1.bias"] @ W_V + b_V)
    agree(tiny_weights.b_O, centre(state[h + "attn.c_proj.bias"]))


def test_what_writes_to_the_residual_stream_has_mean_zero(tiny_weights):
    for tensor in (tiny_weights.W_E, tiny_weights.W_pos, tiny_weights.W_O, tiny_weights.b_O):
        agree(tensor.mean(-1), torch.zeros(tensor.shape[:-1]))


def block_by_hand(state, tokens, n_heads, eps=1e-5):
    """GPT-2's first block up to the pre-activations: nothing folded, nothing centred, loops."""

    def norm(x, which):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        gain, bias = state[f"h.0.{which}.weight"], state[f"h.0.{which}.bias"]
        return (x - mean) / (variance + eps).sqrt() * gain + bias

    residual = torch.stack(
        [state["wte.weight"][t] + state["wpe.weight"][i] for i, t in enumerate(tokens)]
    )
    qkv = norm(residual, "ln_1") @ state["h.0.attn.c_attn.weight"] + state["h.0.attn.c_attn.bias"]
    d_model = residual.shape[1]
    d_head = d_model // n_heads
    rows, z = {}, torch.zeros_like(residual)
    for h in range(n_heads):
        mine = slice(h * d_head, (h + 1) * d_head)
        q, k, v = (part[:, mine] for part in qkv.split(d_model, dim=-1))
        for n in range(len(tokens)):
            exps = [torch.exp(q[n] @ k[i] / d_head**0.5) for i in range(n + 1)]
            rows[h, n] = torch.stack(exps) / sum(exps)
            z[n, mine] = sum(a * v[i] for i, a in enumerate(rows[h, n]))
    attention = z @ state["h.0.attn.c_proj.weight"] + state["h.0.attn.c_proj.bias"]
    pre = (
        norm(residual + attention, "ln_2") @ state["h.0.mlp.c_fc.weight"]
        + state["h.0.mlp.c_fc.bias"]
    )
    return rows, attention, pre


shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 999),
        "n_heads": st.integers(1, 4),
        "d_head": st.integers(2, 5),
        "n_ctx": st.integers(6, 9),
        "vocab": st.integers(2, 20),
        "d_mlp": st.integers(1, 12),
    }
)


@given(shapes)
def test_folded_weights_compute_what_the_block_computes_in_any_shape(make_state, sizes):
    state, n_heads = make_state(**sizes), sizes["n_heads"]
    tokens = torch.arange(6) * 7 % sizes["vocab"]
    weights = cx.LayerWeights.from_state_dict(state, n_heads)
    rows, attention, pre = block_by_hand(state, tokens, n_heads)
    for n in range(len(tokens)):
        mine = cx.attention_rows(weights, tokens, n)
        same(mine, torch.stack([rows[h, n] for h in range(n_heads)]))
        written = weights.head_outputs(mine, tokens[: n + 1]).sum(0) + weights.b_O
        same(written, centre(attention[n]))
        same(weights.pre_activations(weights.residual(tokens)[n] + written), pre[n])


# ---------------------------------------------------------------- parts that a checkpoint may lack


def without(state, *absent):
    return {name: tensor for name, tensor in state.items() if name not in absent}


def test_weights_without_embeddings_have_their_positional_half_and_say_so_beyond_it(make_state):
    state, tokens = make_state(), torch.tensor([0, 1, 2])
    weights = cx.LayerWeights.from_state_dict(without(state, "wte.weight"), n_heads=2)
    for needs_them in (
        lambda: weights.residual(tokens),
        weights.typical_norm,
        lambda: cx.content_keys(weights, 2),
        lambda: cx.attention_rows(weights, tokens, 2),
        lambda: cx.rebuilt_pattern(weights, tokens, C=1.0),
        lambda: cx.positional_keys(weights, 2),
        lambda: cx.positional_kernels(weights, 2, token=1, C=1.0),
    ):
        with pytest.raises(ValueError, match="without token embeddings"):
            needs_them()
    whole = cx.LayerWeights.from_state_dict(state, n_heads=2)
    assert torch.equal(cx.positional_keys(weights, 5, C=2.0), cx.positional_keys(whole, 5, C=2.0))


@pytest.mark.parametrize("absent", ["mlp.c_fc.weight", "mlp.c_fc.bias", "ln_2.weight", "ln_2.bias"])
def test_weights_without_the_mlp_say_so_where_it_is_needed(make_state, absent):
    weights = cx.LayerWeights.from_state_dict(without(make_state(), f"h.0.{absent}"), 2)
    cx.attention_rows(weights, torch.tensor([0, 1, 2]), 2)
    with pytest.raises(ValueError, match="without the MLP"):
        weights.pre_activations(torch.zeros(3, weights.d_model))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("absent", "asked", "says"),
    [
        *((name, {}, name) for name in ("wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias")),
        *((name, {}, name) for name in ("h.0.attn.c_attn.weight", "h.0.attn.c_proj.bias")),
        *(("", {"layer": layer}, f"layer {layer}") for layer in (1, -1)),
        *(("", {"n_heads": count}, f"n_heads={count}") for count in (3, 16, 0, -2)),
    ],
)
def test_a_state_dict_that_does_not_fit_is_refused(make_state, absent, asked, says):
    with pytest.raises(ValueError, match=says):
        cx.LayerWeights.from_state_dict(without(make_state(), absent), **{"n_heads": 2} | asked)


@pytest.mark.parametrize("layer", [2, -1])
def test_a_layer_that_the_model_lacks_is_refused(tiny, layer):
    with pytest.raises(ValueError, match="layers 0 to 1"):
        cx.LayerWeights.of(tiny, layer)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name", ["wte.weight", "wpe.weight", "h.0.attn.c_attn.bias", "h.0.mlp.c_fc.weight"]
)
def test_a_state_dict_that_is_not_finite_is_refused(make_state, name, value):
    state = make_state()
    state[name].view(-1)[3] = value
    with pytest.raises(ValueError, match="not finite"):
        cx.LayerWeights.from_state_dict(state, n_heads=2)


def test_a_model_that_is_not_finite_is_refused(make_folder):
    model = cx.load(make_folder(n_layer=1))
    with torch.no_grad():
        model.W_pos[3, 0] = float("nan")
    with pytest.raises(ValueError, match=r"W_pos.*not finite"):
        cx.LayerWeights.of(model)


def test_a_model_that_is_not_folded_is_refused(tiny_folder):
    hf_model, tokenizer = (
        cls.from_pretrained(tiny_folder) for cls in (AutoModelForCausalLM, AutoTokenizer)
    )
    raw = TransformerBridge.boot_transformers(
        str(tiny_folder), hf_model=hf_model, tokenizer=tokenizer, device="cpu"
    )
    with pytest.raises(ValueError, match="not folded"):
        cx.LayerWeights.of(raw)


def test_a_model_with_rotary_positions_is_refused(of_kind):
    with pytest.raises(ValueError, match="rotary positions"):
        cx.LayerWeights.of(of_kind("NeoX, parallel").model)


def test_the_residual_stream_of_a_later_layer_is_refused(tiny, tiny_tokens):
    with pytest.raises(ValueError, match="layer 1"):
        cx.LayerWeights.of(tiny, 1).residual(tiny_tokens)


@pytest.mark.parametrize(
    "tokens",
    [
        torch.tensor([0, 300]),
        torch.tensor([0, -1]),
        torch.zeros(33, dtype=torch.long),
        torch.zeros(1, 4, dtype=torch.long),
        torch.zeros(0, dtype=torch.long),
    ],
    ids=["id too large", "id negative", "too many", "two texts", "none"],
)
def test_tokens_that_do_not_fit_the_model_are_refused(tiny_weights, tokens):
    with pytest.raises(ValueError, match=r"expected one text of 1 to 32|ids 0 to 299"):
        tiny_weights.residual(tokens)


# ---------------------------------------------------------------- small things


def test_a_token_is_given_as_text_or_as_its_id(tiny_weights):
    the = tiny_weights.token_id(" the")
    assert tiny_weights.tokenizer.decode([the]) == " the"
    bare = replace(tiny_weights, tokenizer=None)
    for given_as in (the, np.int64(the), torch.tensor(the)):
        assert tiny_weights.token_id(given_as) == bare.token_id(given_as) == the
    with pytest.raises(ValueError, match="without a tokenizer"):
        bare.token_id(" the")


@pytest.mark.parametrize(
    ("token", "says"),
    [
        *((id, "ids 0 to 299") for id in (300, -1)),
        *((text, "exactly one") for text in (" bagpipes", "the the", "")),
    ],
)
def test_what_is_not_one_token_is_refused(tiny_weights, token, says):
    with pytest.raises(ValueError, match=says):
        tiny_weights.token_id(token)


def test_to_changes_every_tensor_and_leaves_the_original(tiny_weights):
    double = tiny_weights.to(torch.float64)
    for field in fields(double):
        old, new = getattr(tiny_weights, field.name), getattr(double, field.name)
        if isinstance(new, Tensor):
            assert (old.dtype, new.dtype) == (torch.float32, torch.float64)
            assert torch.equal(new.float(), old)
        else:
            assert new is old


def test_less_than_single_precision_is_refused(tiny_weights):
    with pytest.raises(ValueError, match=r"float16: choose torch.float32 or torch.float64"):
        tiny_weights.to(torch.float16)


def test_weights_cannot_be_changed_in_place(tiny_weights):
    with pytest.raises(FrozenInstanceError):
        tiny_weights.W_E = None


def test_the_typical_norm_is_the_median_norm_of_an_embedding(tiny_weights):
    norms = sorted(e.norm().item() for e in tiny_weights.W_E)
    assert norms[149] <= tiny_weights.typical_norm() <= norms[150]
