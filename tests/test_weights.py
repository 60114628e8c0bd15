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
    GPTNeoConfig,
    GPTNeoForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    XGLMConfig,
    XGLMForCausalLM,
)

import ctxlib as cx
from ctxlib.models import MINI
from ctxlib.split import causal_softmax
from ctxlib.weights import centre, fold, layer_norm, layer_norm_scale, project

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


def test_the_residual_stream_that_enters_is_the_sum_of_two_embeddings(run):
    weights = cx.LayerWeights.of(run.model)
    agree(weights.residual(run.tokens), run.hooks["blocks.0.hook_resid_pre"])


def test_queries_keys_and_values_of_the_first_layer_are_the_models(run):
    weights = cx.LayerWeights.of(run.model)
    agree(weights.queries(run.tokens), by_head(run.hooks["blocks.0.attn.hook_q"]))
    agree(weights.keys(run.tokens), by_head(run.hooks["blocks.0.attn.hook_k"]))
    agree(weights.values(run.tokens), by_head(run.hooks["blocks.0.attn.hook_v"]))


@pytest.mark.parametrize("layer", [0, 1])
def test_queries_keys_and_values_come_from_the_normalised_residual_of_any_layer(run, layer):
    weights = cx.LayerWeights.of(run.model, layer)
    x = layer_norm(run.hooks[f"blocks.{layer}.hook_resid_pre"], weights.eps)
    agree(project(x, weights.W_Q, weights.b_Q), by_head(run.hooks[f"blocks.{layer}.attn.hook_q"]))
    agree(project(x, weights.W_K, weights.b_K), by_head(run.hooks[f"blocks.{layer}.attn.hook_k"]))
    agree(project(x, weights.W_V, weights.b_V), by_head(run.hooks[f"blocks.{layer}.attn.hook_v"]))


@pytest.mark.parametrize("layer", [0, 1])
def test_the_pattern_is_the_softmax_of_queries_on_keys_over_the_scale(run, layer):
    weights = cx.LayerWeights.of(run.model, layer)
    q, k = (by_head(run.hooks[f"blocks.{layer}.attn.hook_{x}"]) for x in "qk")
    pattern = causal_softmax(q @ k.transpose(1, 2) / weights.attn_scale)
    agree(pattern, run.hooks[f"blocks.{layer}.attn.hook_pattern"])


@pytest.mark.parametrize("layer", [0, 1])
def test_what_attention_adds_is_the_sum_of_the_heads_and_one_bias(run, layer):
    weights = cx.LayerWeights.of(run.model, layer)
    heads = torch.einsum("phd,hdm->phm", run.hooks[f"blocks.{layer}.attn.hook_z"], weights.W_O)
    agree(heads.sum(1) + weights.b_O, run.hooks[f"blocks.{layer}.hook_attn_out"])


@pytest.mark.parametrize("n", [0, 1, 17, 31])
def test_head_outputs_rebuild_what_attention_adds_at_a_destination(run, n):
    weights = cx.LayerWeights.of(run.model)
    heads = weights.head_outputs(cx.attention_rows(weights, run.tokens, n), run.tokens[: n + 1])
    agree(heads, torch.einsum("hd,hdm->hm", run.hooks["blocks.0.attn.hook_z"][n], weights.W_O))
    agree(heads.sum(0) + weights.b_O, run.hooks["blocks.0.hook_attn_out"][n])


@pytest.mark.parametrize("layer", [0, 1])
def test_the_second_layer_norm_divides_by_the_models_scale(run, layer):
    weights = cx.LayerWeights.of(run.model, layer)
    scale = layer_norm_scale(run.hooks[f"blocks.{layer}.hook_resid_mid"], weights.eps)
    agree(scale, run.hooks[f"blocks.{layer}.ln2.hook_scale"])


@pytest.mark.parametrize("layer", [0, 1])
def test_pre_activations_follow_from_the_residual_behind_attention(run, layer):
    weights = cx.LayerWeights.of(run.model, layer)
    pre = weights.pre_activations(run.hooks[f"blocks.{layer}.hook_resid_mid"])
    agree(pre, run.hooks[f"blocks.{layer}.mlp.hook_pre"])


def test_scores_are_not_divided_in_a_model_that_does_not_divide_them(make_folder, tiny_tokens):
    config = GPTNeoConfig(
        vocab_size=300, max_position_embeddings=32, hidden_size=24, num_heads=3, num_layers=1,
        intermediate_size=40, attention_types=[[["global"], 1]], bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    neo = recorded(cx.load(make_folder(GPTNeoForCausalLM(config))), tiny_tokens)
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


@pytest.mark.parametrize("layer", [0, 1])
def test_a_model_that_norms_behind_its_heads_is_refused(make_folder, layer):
    config = OpenAIGPTConfig(vocab_size=300, n_positions=32, n_embd=24, n_head=3, n_layer=2)
    model = cx.load(make_folder(OpenAIGPTLMHeadModel(config)))
    with pytest.raises(ValueError, match="something else than the normalised residual stream"):
        cx.LayerWeights.of(model, layer)


def test_a_model_that_computes_its_positions_has_no_W_pos(make_folder):
    config = XGLMConfig(
        vocab_size=300, max_position_embeddings=32, d_model=24, attention_heads=3, num_layers=1,
        ffn_dim=40, bos_token_id=0, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    model = cx.load(make_folder(XGLMForCausalLM(config)))
    with pytest.raises(cx.weights.NoPositionEmbeddings, match="computes its positions"):
        cx.LayerWeights.of(model)


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


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_names_are_understood_with_and_without_their_prefix(make_state, prefix):
    state = make_state()
    weights = cx.LayerWeights.from_state_dict(
        {prefix + name: t for name, t in state.items()}, n_heads=2
    )
    assert torch.equal(weights.W_Q, cx.LayerWeights.from_state_dict(state, n_heads=2).W_Q)


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


def folded_equals_by_hand(state, tokens, n_heads):
    weights = cx.LayerWeights.from_state_dict(state, n_heads)
    rows, attention, pre = block_by_hand(state, tokens, n_heads)
    for n in range(len(tokens)):
        mine = cx.attention_rows(weights, tokens, n)
        same(mine, torch.stack([rows[h, n] for h in range(n_heads)]))
        written = weights.head_outputs(mine, tokens[: n + 1]).sum(0) + weights.b_O
        same(written, centre(attention[n]))
        same(weights.pre_activations(weights.residual(tokens)[n] + written), pre[n])


@given(shapes)
def test_folded_weights_compute_what_the_block_computes_in_any_shape(make_state, sizes):
    state = make_state(**sizes)
    tokens = torch.arange(6) * 7 % sizes["vocab"]
    folded_equals_by_hand(state, tokens, sizes["n_heads"])


def test_a_saved_model_computes_what_its_first_block_computes_by_hand(tiny_folder, tiny_tokens):
    raw = load_file(tiny_folder / "model.safetensors")
    state = {name.removeprefix("transformer."): tensor.double() for name, tensor in raw.items()}
    folded_equals_by_hand(state, tiny_tokens[:12], n_heads=3)


@given(seed=st.integers(0, 999), d=st.integers(2, 9), out=st.integers(1, 5))
def test_fold_is_gain_bias_and_map_in_one(seed, d, out):
    source = torch.Generator().manual_seed(seed)
    gain, bias, b, x, W = (
        torch.randn(s, generator=source, dtype=torch.float64)
        for s in ((d,), (d,), (out,), (3, d), (d, out))
    )
    x = centre(x)
    folded, folded_b = fold(gain, bias, W, b)
    same(x @ folded + folded_b, (x * gain + bias) @ W + b)


@given(seed=st.integers(0, 999), d=st.integers(2, 9), factor=st.floats(0.01, 100))
def test_layer_norm_puts_any_vector_on_one_sphere(seed, d, factor):
    v = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    same(layer_norm(v, eps=0.0).norm(), torch.tensor(d**0.5, dtype=torch.float64))
    same(layer_norm(factor * v, eps=0.0), layer_norm(v, eps=0.0))


# ---------------------------------------------------------------- parts that a checkpoint may lack


def test_weights_without_embeddings_say_so_where_they_are_needed(make_state):
    weights = cx.LayerWeights.from_state_dict(
        {k: v for k, v in make_state().items() if k != "wte.weight"}, n_heads=2
    )
    tokens = torch.tensor([0, 1, 2])
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


def test_weights_without_embeddings_still_have_their_positional_half(make_state):
    state = make_state()
    whole = cx.LayerWeights.from_state_dict(state, n_heads=2)
    half = cx.LayerWeights.from_state_dict(
        {k: v for k, v in state.items() if k != "wte.weight"}, n_heads=2
    )
    assert torch.equal(cx.positional_keys(half, 5, C=2.0), cx.positional_keys(whole, 5, C=2.0))


@pytest.mark.parametrize("absent", ["mlp.c_fc.weight", "mlp.c_fc.bias", "ln_2.weight", "ln_2.bias"])
def test_weights_without_the_mlp_say_so_where_it_is_needed(make_state, absent):
    weights = cx.LayerWeights.from_state_dict(
        {k: v for k, v in make_state().items() if not k.endswith(absent)}, 2
    )
    cx.attention_rows(weights, torch.tensor([0, 1, 2]), 2)
    with pytest.raises(ValueError, match="without the MLP"):
        weights.pre_activations(torch.zeros(3, weights.d_model))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "absent",
    [
        "wpe.weight",
        "h.0.ln_1.weight",
        "h.0.ln_1.bias",
        "h.0.attn.c_attn.weight",
        "h.0.attn.c_proj.bias",
    ],
)
def test_a_missing_tensor_is_named(make_state, absent):
    with pytest.raises(ValueError, match=absent):
        cx.LayerWeights.from_state_dict(
            {k: v for k, v in make_state().items() if k != absent}, n_heads=2
        )


@pytest.mark.parametrize("layer", [1, -1])
def test_a_state_dict_without_the_layer_is_refused(make_state, layer):
    with pytest.raises(ValueError, match=f"layer {layer}"):
        cx.LayerWeights.from_state_dict(make_state(), n_heads=2, layer=layer)


@pytest.mark.parametrize("layer", [2, -1])
def test_a_layer_that_the_model_lacks_is_refused(tiny, layer):
    with pytest.raises(ValueError, match="layers 0 to 1"):
        cx.LayerWeights.of(tiny, layer)


@pytest.mark.parametrize("n_heads", [3, 16, 0, -2])
def test_a_number_of_heads_that_does_not_fit_is_refused(make_state, n_heads):
    with pytest.raises(ValueError, match=f"n_heads={n_heads}"):
        cx.LayerWeights.from_state_dict(make_state(), n_heads)


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


def test_a_model_with_rotary_positions_is_refused(make_folder):
    config = GPTNeoXConfig(
        vocab_size=300, max_position_embeddings=32, hidden_size=24, num_attention_heads=3,
        num_hidden_layers=1, intermediate_size=40, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="rotary positions"):
        cx.LayerWeights.of(cx.load(make_folder(GPTNeoXForCausalLM(config))))


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
    assert tiny_weights.token_id(the) == the
    assert tiny_weights.token_id(np.int64(the)) == the
    assert tiny_weights.token_id(torch.tensor(the)) == the


def test_less_than_single_precision_is_refused(tiny_weights):
    with pytest.raises(ValueError, match=r"float16: choose torch.float32 or torch.float64"):
        tiny_weights.to(torch.float16)


@pytest.mark.parametrize("token", [300, -1])
def test_an_id_outside_the_vocabulary_is_refused(tiny_weights, token):
    with pytest.raises(ValueError, match="ids 0 to 299"):
        tiny_weights.token_id(token)


@pytest.mark.parametrize("token", [" bagpipes", "the the", ""])
def test_a_text_that_is_not_one_token_is_refused(tiny_weights, token):
    with pytest.raises(ValueError, match="exactly one"):
        tiny_weights.token_id(token)


def test_a_text_needs_a_tokenizer_and_an_id_does_not(tiny_weights):
    bare = replace(tiny_weights, tokenizer=None)
    assert bare.token_id(7) == 7
    with pytest.raises(ValueError, match="without a tokenizer"):
        bare.token_id(" the")


def test_to_changes_every_tensor_and_leaves_the_original(tiny_weights):
    double = tiny_weights.to(torch.float64)
    for field in fields(double):
        old, new = getattr(tiny_weights, field.name), getattr(double, field.name)
        if isinstance(new, Tensor):
            assert (old.dtype, new.dtype) == (torch.float32, torch.float64)
            assert torch.equal(new.float(), old)
        else:
            assert new is old


def test_weights_cannot_be_changed_in_place(tiny_weights):
    with pytest.raises(FrozenInstanceError):
        tiny_weights.W_E = None


def test_sizes_are_those_of_the_model(tiny_weights):
    sizes = (tiny_weights.n_heads, tiny_weights.d_model, tiny_weights.d_head, tiny_weights.n_ctx)
    assert sizes == (3, 24, 8, 32)


def test_the_typical_norm_is_the_median_norm_of_an_embedding(tiny_weights):
    norms = sorted(e.norm().item() for e in tiny_weights.W_E)
    assert norms[149] <= tiny_weights.typical_norm() <= norms[150]
