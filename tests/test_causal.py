"""The causal forms: the circuits at every destination of a text, and the model running on them."""

from dataclasses import replace
from functools import partial

import by_hand
import pytest
import torch
from by_hand import as_encoder, calibrated, cases, draw, same
from hypothesis import given
from transformers import AutoModelForCausalLM

import ctxbook as cb
import ctxlib as cx
from ctxlib.lookups import causal

near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # float32


# ---------------------------------------------------------------- the same by loops


@given(cases(encoders=False))
def test_what_is_at_every_destination_is_a_loop_over_them(make_weights, case):
    """Denominators, and what either circuit puts inside its heads, in a text of any length: one
    destination after the other, each of which is held against `by_hand` elsewhere.
    """
    circuit, text = calibrated(make_weights, case), case.texts[1, : case.n + 1]
    w, heads = circuit.fixed.decomposition.weights, case.heads
    along = causal.denominators_along(circuit.fixed, text)
    given_too = draw(w.n_heads, len(text) + 1).exp()  # any will do, more than needed too
    paper = causal.circuit_z(circuit, text, given_too)
    better = causal.self_normalized_z(circuit, text)
    assert along.shape == (w.n_heads, len(text))
    assert paper.shape == better.shape == (len(text), len(heads), w.d_head)
    for n in range(len(text)):
        fixed, x = cx.fix_query(w, n=n, token=case.token, C=case.C), text[: n + 1]
        one = cx.ContextualCircuit.calibrate(fixed, text, heads)
        same(along[:, n], fixed.denominators(one.calibration))
        inside = torch.einsum("i,ihe->he", one.kernel, one.weighted_values[x])
        same(paper[n] * given_too[heads, n, None], inside * one.denominators[:, None])
        same(better[n], fixed.decomposition.z(x, fixed.decomposition.rows(x))[heads])


@given(cases(encoders=False))
def test_a_repaired_circuit_adds_what_positions_add_and_the_calibration_texts_constant(
    make_weights, case
):
    """Both by the circuit of each destination. A constant is the mean of the values that the head
    gathers, and makes up for weights that do not add up to one.
    """
    circuit, text = calibrated(make_weights, case), case.texts[1, : case.n + 1]
    w, heads = circuit.fixed.decomposition.weights, case.heads
    given_too = draw(w.n_heads, len(text)).exp()
    paper = causal.circuit_z(circuit, text, given_too)
    plain, centered = (cb.repaired_z(circuit, text, given_too, centered=v) for v in (False, True))
    for n in range(len(text)):
        fixed = cx.fix_query(w, n=n, token=case.token, C=case.C)
        split, kernel = fixed.decomposition, cx.shared_kernel(fixed.decomposition.kernels[heads])
        moved = torch.einsum("hi,hid->hd", split.kernels[heads], split.moved[heads])
        same(plain[n], paper[n] + moved)
        both = text[: n + 1], circuit.calibration[: n + 1]
        own, page = (kernel * split.content[heads][:, x] for x in both)
        values = split.values(heads)[both[1]]
        constant = torch.einsum("hi,ihd->hd", page / page.sum(-1, keepdim=True), values)
        short = 1 - own.sum(-1) / given_too[heads, n]
        same(centered[n], plain[n] + short[:, None] * constant)


@pytest.mark.parametrize("value", [True, False])
def test_the_first_token_may_be_read_exactly(circuit, drawn, value):
    """Its key, and its value too, if that is asked for."""
    split, text = circuit.fixed.decomposition, drawn[0][:7].tolist()
    w, found = split.weights, cb.exact_bos_z(circuit, drawn[0][:7], value)
    exact = by_hand.content_component(w, text[0], 0)
    for n in range(len(text)):
        first, *rest = by_hand.approx_resid(w, text[: n + 1], n, split.C)
        for k, h in enumerate(circuit.heads):
            q = by_hand.query(w, h, by_hand.content_component(w, text[n], n))
            row = by_hand.softmax([by_hand.score(w, h, q, x) for x in (exact, *rest)])
            values = [by_hand.value(w, h, x) for x in (exact if value else first, *rest)]
            same(found[n, k], sum(r * v for r, v in zip(row, values, strict=True)))


def test_a_text_at_every_destination_is_one_that_a_decoder_reads(circuit, precise, drawn):
    encoder = replace(circuit, fixed=cx.fix_query(as_encoder(precise), n=9))
    with pytest.raises(ValueError, match="needs a decoder with learned positions"):
        causal.self_normalized_z(encoder, drawn[0])
    with pytest.raises(ValueError, match="there are token ids 0 to 299"):
        causal.denominators_along(circuit.fixed, drawn[0] - 300)
    with pytest.raises(ValueError, match="denominators at 31 positions for a text of 32"):
        causal.circuit_z(circuit, drawn[0], torch.ones(3, 31))


# ---------------------------------------------------------------- in the model


@pytest.mark.parametrize("of", [(32, 1, 8), (32, 2, 1), (1, 2, 8), (32, 2), (3, 32, 2, 8)], ids=str)
def test_what_replaces_heads_is_not_stretched(tiny, drawn, of):
    with pytest.raises(ValueError, match=r"^z has shape .*need \(32, 2, 8\)$"):
        causal.token_losses(tiny, drawn, [causal.replace_z(0, [0, 1], torch.zeros(of))])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 24), (1, 1, 24)], ids=str)
def test_a_direction_is_not_stretched(tiny, drawn, shape):
    with pytest.raises(ValueError, match=r"^the direction has .*need \(24,\)$"):
        causal.token_losses(tiny, drawn, [causal.add_direction(0, torch.ones(shape))])


def test_the_mean_inside_the_heads_is_that_over_texts(tiny, drawn):
    _, held = tiny.run_with_cache(drawn)
    z = held["blocks.0.attn.hook_z"]
    near(causal.mean_z(tiny, drawn, 32), z.mean(0))
    near(causal.mean_z(tiny, iter(drawn), 9), z[:, :9].mean(0))
    labeled = [cx.texts.Text("a", "war", "en-GB", "", "", x) for x in drawn[:2]]
    near(causal.mean_z(tiny, labeled, 32), z[:2].mean(0))
    for texts, length, message in (
        ([], 9, "no texts"),
        (drawn, 0, "1 to 32"),
        (drawn, 40, "1 to 32"),
    ):
        with pytest.raises(ValueError, match=message):
            causal.mean_z(tiny, texts, length)


@pytest.mark.parametrize("layer", [0, 1])
def test_losses_are_those_of_the_model_as_it_was_saved_where_a_direction_is_added_too(
    tiny, tiny_folder, drawn, layer
):
    """At every position and for good, one for all texts or one for each. Through transformers
    alone, without folding, centring, hooks. (Replaced heads are held against it in `test_lookups`.)
    """
    saved = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    written, found = saved.transformer.h[layer].attn.c_proj, []
    # in float64, the model keeps its own precision; and no hook stays behind
    for direction in (torch.zeros(24), draw(24), draw(5, 24, seed=1), torch.zeros(24)):
        added = direction.float().expand(5, 24)[:, None]
        hook = written.register_forward_hook(lambda module, given, out, v=added: out + v)
        with torch.inference_mode():
            log_p = saved(drawn).logits[:, :-1].log_softmax(-1)
        hook.remove()
        hooks = [causal.add_direction(layer, direction)] if direction.any() else []
        found.append(causal.token_losses(tiny, drawn, hooks))
        near(found[-1], -log_p.gather(-1, drawn[:, 1:, None])[..., 0], atol=1e-4)
    assert not any(torch.allclose(found[0], other, atol=1e-2) for other in found[1:3])
