"""Folding and centring change the numbers in the matrices and nothing that the model computes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from by_hand import draw_texts
from kinds import VARIANTS
from safetensors.torch import load_file
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM, AutoTokenizer

import ctxlib as cx
from ctxlib.models import MINI
from ctxlib.models.loading import ENCODERS

TENSORS = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "W_in", "b_in")


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("kind", ["GPT-2", "GPT-2, one head", "GPT-2, scores by layer", "mini"])
def test_both_ways_in_give_the_same_tensors(of_kind, kind, layer):
    """From the model, folded by TransformerLens, and from its state dict, folded here."""
    folder = MINI if kind == "mini" else of_kind(kind).folder
    loaded = cx.LayerWeights.of(cx.load(folder), layer)
    state = load_file(folder / "model.safetensors")  # float16 on disk in `mini`
    folded = cx.LayerWeights.from_state_dict(state, loaded.n_heads, layer)
    for name in TENSORS:
        ours, theirs = getattr(folded, name), getattr(loaded, name)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, msg=name)
    divided = layer + 1 if "by layer" in kind else 1
    found = folded.attn_scale * divided, folded.layer, folded.eps
    assert found == (loaded.attn_scale, layer, 1e-5), "GPT-2 small's, where none is given"


# ---------------------------------------------------------------- models that are refused


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_refused(tiny_weights, name, broken):
    damaged = getattr(tiny_weights, name).clone()
    damaged.view(-1)[3] = broken
    with pytest.raises(ValueError, match=f"{name} of layer 0: values that are not finite"):
        replace(tiny_weights, **{name: damaged})


@pytest.mark.parametrize(("kind", "layer"), [("GPT-2", -1), ("BERT", 1), ("GPT-Neo", 1)])
def test_a_layer_that_is_not_there_or_sees_a_window_is_refused(of_kind, kind, layer):
    with pytest.raises(ValueError, match=f"layer {layer}(: there are layers 0| .* a window only)"):
        cx.LayerWeights.of(of_kind(kind).model, layer)


@pytest.mark.parametrize("part", ["W_E", "W_pos", "W_Q", "W_K", "W_V", "W_in"])
def test_weights_that_the_model_does_not_compute_with_are_refused(tiny, tiny_weights, part):
    with pytest.raises(ValueError, match="layer 0 read something else than the normalised"):
        replace(tiny_weights, **{part: 2 * getattr(tiny_weights, part)}).check(tiny)


@pytest.mark.parametrize("kind", ["RoBERTa", "DistilBERT", "MPNet"])
def test_an_encoder_that_computes_something_else_is_refused(make_folder, kind):
    """Here a block reads something beside the embeddings."""
    encoder = cx.load(make_folder(VARIANTS[kind].make(), seed=4))
    block = ENCODERS[encoder.original_model.config.model_type].split()[0]
    encoder.original_model.get_submodule(block).register_forward_pre_hook(
        lambda _, given: (given[0] + 1, *given[1:])
    )
    with pytest.raises(ValueError, match="does not compute what follows from its weights"):
        cx.LayerWeights.of(encoder)


@pytest.mark.parametrize("kind", ["GPT-2", "Qwen2", "Bloom"])
def test_value_biases_that_were_folded_away_are_noticed(of_kind, kind):
    """A model in memory, as TransformerLens folds it if it is asked to, and by default."""
    case, texts = of_kind(kind), draw_texts(6, 32, 300)

    def exact(model):
        fixed = cx.fix_query(model, texts, n=20, token=262)
        return fixed.exact_summary(fixed.prepare(texts), [0])

    asked, default = (TransformerBridge.boot_transformers(str(case.folder)) for _ in range(2))
    asked.enable_compatibility_mode(disable_warnings=True, fold_value_biases=False)
    torch.testing.assert_close(exact(asked), exact(case.model))
    default.enable_compatibility_mode(disable_warnings=True)
    for ask in (exact, cx.lookups.next_token_neurons):
        with pytest.raises(ValueError, match=r"folded into b_O: .*biases=False\)$"):
            ask(default)


def test_value_biases_of_zero_are_not_mistaken_for_folded_ones(of_kind, tmp_path):
    own = AutoModelForCausalLM.from_pretrained(of_kind("GPT-2").folder)
    attn = own.transformer.h[0].attn
    for bias in (attn.c_attn.bias.data[-24:], own.transformer.h[0].ln_1.bias.data):
        bias.zero_()
    own.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(own.config.name_or_path).save_pretrained(tmp_path)
    assert attn.c_proj.bias.any() and not cx.LayerWeights.of(cx.load(tmp_path)).b_V.any()


@pytest.mark.parametrize("kind", ["RoBERTa", "MPNet"])
def test_padding_in_a_text_is_refused_where_it_has_no_position(of_kind, kind):
    """Transformers gives what stands behind it the positions that it would have without it."""
    case = of_kind(kind)
    weights, padding = cx.LayerWeights.of(case.model), case.plain.config.pad_token_id
    text = torch.tensor([0, 7, 262, padding, 9, 5])
    embed, without = case.plain.embeddings, text[text != padding]
    assert torch.equal(embed(text[None])[:, 4:], embed(without[None])[:, 3:])
    fixed = cx.fix_query(weights, n=3, token=262)
    fixed.exact.rows(without := torch.cat([without, without]))
    text = torch.cat([text, without])
    for call in (weights.keys, fixed.exact.rows, fixed.decomposition.rows, fixed.head_outputs):
        with pytest.raises(ValueError, match=f"a text holds token {padding}, the padding"):
            call(text)
    assert fixed.decomposition.untrained[padding]


# ---------------------------------------------------------------- numbers that are refused

NO_NUMBERS = [[True], np.array([True]), torch.tensor([True]), 0.5, [2.0], "2", [None]]


@pytest.mark.parametrize("heads", [*NO_NUMBERS, [], [0, 4], [-1], torch.tensor(9), [1, 1]], ids=str)
def test_heads_are_whole_numbers_there_and_once(heads):
    with pytest.raises(
        ValueError, match=r"^head .*( a whole number|heads 0 to 3)\Z|^no |contain duplicates$"
    ):
        cx.checks.check_chosen("head", heads, 4)


def test_a_precision_below_single_is_refused(tiny_weights):
    with pytest.raises(ValueError, match=r"choose torch\.float32 or torch\.float64"):
        tiny_weights.to(torch.float16)


# ---------------------------------------------------------------- parts that a checkpoint may lack


def without(state, *absent):
    return {name: tensor for name, tensor in state.items() if name not in absent}


@pytest.mark.parametrize(("name", "value"), [("state", {}), ("layer", 1), ("n_heads", 3)])
def test_a_state_dict_has_the_layer_and_heads_that_divide_it(make_state, name, value):
    with pytest.raises(ValueError, match=r"weight.* missing|n_heads=3 does not divide d_mod"):
        cx.LayerWeights.from_state_dict(**{"state": make_state(), "n_heads": 2, name: value})


def test_weights_without_embeddings_have_their_positional_half(make_state):
    half, whole = (
        cx.LayerWeights.from_state_dict(state, n_heads=2)
        for state in (without(make_state(), "wte.weight"), make_state())
    )
    keys = cx.decompose.positional_keys
    assert torch.equal(keys(half, 5, C=2.0), keys(whole, 5, C=2.0))
    fixed = cx.fix_query(half, n=5, token=None, C=2.0)
    copies = cx.families(fixed)["nats for a copy"]
    assert copies.isna().all(), "nothing is known of them"
    with pytest.raises(ValueError, match="without token embeddings"):
        _ = fixed.decomposition.untrained


@pytest.mark.parametrize("absent", ["mlp.c_fc.weight", "mlp.c_fc.bias", "ln_2.weight", "ln_2.bias"])
def test_weights_without_the_mlp_say_so_where_it_is_needed(make_state, absent):
    weights = cx.LayerWeights.from_state_dict(without(make_state(), f"h.0.{absent}"), 2)
    cx.attention_rows(weights, torch.tensor([0, 1, 2]), 2)
    fixed = cx.fix_query(weights, n=2, token=1)
    for call in (
        lambda: weights.pre_activations(torch.zeros(3, weights.d_model)),
        lambda: fixed.exact_summary(torch.tensor([0, 1, 2]), [0]),
        lambda: cx.ContextualCircuit.calibrate(fixed, torch.tensor([0, 1, 2]), [0]),
    ):
        with pytest.raises(ValueError, match="without the MLP"):
            call()
