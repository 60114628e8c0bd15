"""The causal forms: the circuits at every destination of a text, and the model running on them."""

from functools import partial

import pytest
import torch
from by_hand import calibrated, cases, draw, same
from hypothesis import given
from transformers import AutoModelForCausalLM

import ctxlib as cx
from ctxlib.decoders import causal

near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # float32


# ---------------------------------------------------------------- the same by loops


@given(cases(encoders=False))
def test_what_is_at_every_destination_is_a_loop_over_them(make_weights, case):
    """Denominators, and what either circuit puts inside its heads, in a text of any length: one
    destination after the other, each of which is held against `by_hand` elsewhere.
    """
    circuit, text = calibrated(make_weights, case), case.texts[1, : case.n + 1]
    w, heads = circuit.at.split.weights, case.heads
    along = causal.denominators_along(circuit.at, text)
    given_too = draw(w.n_heads, len(text) + 1).exp()  # any will do, more than needed too
    paper = causal.circuit_z(circuit, text, given_too)
    better = causal.self_normalised_z(circuit, text)
    assert along.shape == (w.n_heads, len(text))
    assert paper.shape == better.shape == (len(text), len(heads), w.d_head)
    for n in range(len(text)):
        at, x = cx.destination(w, n=n, token=case.token, C=case.C), text[: n + 1]
        one = cx.ContextualCircuit.calibrate(at, text, heads)
        same(along[:, n], at.denominators(one.calibration))
        inside = torch.einsum("i,ihe->he", one.kernel, one.weighted_values[x])
        same(paper[n] * given_too[heads, n, None], inside * one.denominators[:, None])
        same(better[n], at.split.inside(x, at.split.rows(x))[heads])


# ---------------------------------------------------------------- in the model


def recorded(model, tokens, hooks=()):
    """Logits, and what every hook point held, with these hooks in place."""
    with torch.inference_mode(), model.hooks(fwd_hooks=list(hooks)):
        return model.run_with_cache(tokens)


@pytest.fixture(scope="module")
def untouched(tiny, drawn):
    return recorded(tiny, drawn)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_direction_is_added_at_every_position_for_good(tiny, drawn, untouched, layer):
    weights = cx.LayerWeights.of(tiny, layer)
    mid, pre, mlp, post = (
        f"blocks.{layer}.{point}"
        for point in ("hook_resid_mid", "mlp.hook_pre", "hook_mlp_out", "hook_resid_post")
    )
    logits, before = untouched
    # one for all texts or one for each; in float64, the model keeps its own precision
    for direction in (draw(24), draw(5, 24, seed=1)):
        direction = direction - direction.mean(-1, keepdim=True)  # LayerNorm would not see the mean
        changed, after = recorded(tiny, drawn, [causal.add_direction(layer, direction)])
        assert not torch.allclose(changed, logits, atol=1e-2)
        added = direction.float().expand(5, 24)[:, None]
        v = before[mid] + added
        near(after[mid], v)
        scale = (v.pow(2).mean(-1, keepdim=True) + weights.eps).sqrt()
        near(after[pre], v / scale @ weights.W_in + weights.b_in, atol=1e-4)
        near(after[post] - before[post], after[mlp] - before[mlp] + added, atol=1e-4)


def test_the_mean_inside_the_heads_is_that_over_texts(tiny, drawn, untouched):
    for layer in (0, 1):
        z = untouched[1][f"blocks.{layer}.attn.hook_z"]
        near(causal.mean_z(tiny, drawn, 32, layer), z.mean(0))
        near(causal.mean_z(tiny, iter(drawn), 9, layer), z[:, :9].mean(0))
    labelled = [cx.texts.Text("a", "war", "en-GB", "", "", x) for x in drawn[:2]]
    near(causal.mean_z(tiny, labelled, 32), untouched[1]["blocks.0.attn.hook_z"][:2].mean(0))


def test_losses_are_those_of_the_model_as_it_was_saved_or_with_hooks(tiny, tiny_folder, drawn):
    """Through transformers alone, without folding, centring, hooks; and with hooks in place."""
    saved = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    hooks = [causal.replace_z(0, [1], torch.zeros(32, 1, 8)), causal.add_direction(1, draw(24))]
    with torch.inference_mode():
        for those, logits in (
            ((), saved(drawn).logits),
            (hooks, tiny.run_with_hooks(drawn, fwd_hooks=hooks)),
            ((), saved(drawn).logits),  # no hook stays behind
        ):
            log_p = logits[:, :-1].log_softmax(-1)
            expected = -log_p.gather(-1, drawn[:, 1:, None])[..., 0]
            near(causal.token_losses(tiny, drawn, those), expected, atol=1e-4)
        assert not torch.allclose(saved(drawn).logits, tiny.run_with_hooks(drawn, fwd_hooks=hooks))
