"""The causal forms: the circuits at every destination of a text, and the model running on them."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import by_hand
import numpy as np
import pytest
import torch
from beartype import beartype
from by_hand import calibrated, cases, draw
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped
from scipy import stats
from transformers import AutoModelForCausalLM

import ctxlib as cx
from ctxlib.decoders import causal

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # float32


@pytest.fixture(scope="module")
def along(precise, drawn):
    return causal.denominators_along(precise, drawn[0])


# ---------------------------------------------------------------- the same by loops


@given(cases())
def test_what_is_at_every_destination_is_the_loops(make_weights, case):
    """Denominators, and what either circuit puts inside its heads, in a text of any length."""
    circuit, text = calibrated(make_weights, case), case.texts[1, : case.n + 1]
    w, tokens, heads = circuit.weights, text.tolist(), case.heads
    along = causal.denominators_along(w, text, case.token, case.C)
    given_too = draw(w.n_heads, len(text) + 1).exp()  # any will do, more than needed too
    paper = causal.circuit_z(circuit, text, given_too)
    better = causal.self_normalised_z(circuit, text)
    assert along.shape == (w.n_heads, len(text))
    assert paper.shape == better.shape == (len(text), len(heads), w.d_head)
    for n in range(len(text)):
        whats, kernels, contents = [by_hand.what(w, t, n) for t in tokens[: n + 1]], [], []
        for h in range(w.n_heads):
            q = by_hand.query(w, h, by_hand.what(w, case.token, n))
            kernels.append(by_hand.kernel(w, h, q, n, case.C))
            contents.append([by_hand.content(w, h, q, n, t) for t in tokens[: n + 1]])
            with_token = [*contents[h][:n], by_hand.content(w, h, q, n, case.token)]
            denominator = by_hand.weighted(kernels[h], with_token)
            assert along[h, n].item() == pytest.approx(denominator, rel=1e-9)
        shared = by_hand.shared([kernels[h] for h in heads])
        sources = [x + by_hand.where(w, i, n, case.C) for i, x in enumerate(whats)]
        for number, h in enumerate(heads):
            row = [a * c for a, c in zip(shared, contents[h], strict=True)]
            inside = by_hand.weighted(row, [by_hand.value(w, h, x) for x in whats])
            same(paper[n, number], inside / given_too[h, n])
            row = by_hand.rebuilt_row(w, h, tokens, n, case.C)
            values = [by_hand.value(w, h, x) for x in sources]
            same(better[n, number], by_hand.weighted(row, values))


# ---------------------------------------------------------------- the same one by one


def test_at_each_destination_it_is_what_one_destination_gives(precise, circuit, drawn, along):
    labelled = cx.texts.Text("a", "war", "en-GB", "war", "", drawn[0])
    assert torch.equal(causal.denominators_along(precise, labelled), along)
    other = causal.denominators_along(precise, drawn[1], 7, 2.0)
    paper = causal.circuit_z(circuit, drawn[1], along)
    better = causal.self_normalised_z(circuit, drawn[1])
    for n in range(32):
        same(along[:, n], cx.softmax_denominators(precise, drawn[:1], n)[0])
        same(other[:, n], cx.softmax_denominators(precise, drawn[1:2], n, 7, 2.0)[0])
        there = cx.ContextualCircuit.calibrate(precise, drawn[0], [2, 0], n)
        inside = torch.einsum("i,ihd->hd", there.kernel, there.weighted_values[drawn[1][: n + 1]])
        same(paper[n], inside)
        written = torch.einsum("hd,hdm->hm", better[n], precise.W_O[[2, 0]])
        same(written, there.at.rebuilt_outputs(drawn[1])[[2, 0]])
    same(along[list(circuit.heads), 20], circuit.denominators)
    same(torch.einsum("hd,hdj->j", paper[20], circuit.readout), circuit.summary(drawn[1]))


@pytest.mark.parametrize(
    ("inside", "same_up_to"),
    [
        (lambda c, x: causal.denominators_along(c.weights, x).T, 10),
        (lambda c, x: causal.circuit_z(c, x, causal.denominators_along(c.weights, x)), 9),
        (causal.self_normalised_z, 9),
    ],
    ids=["denominators", "the paper's", "self-normalised"],
)
def test_what_comes_later_changes_nothing_inside(circuit, drawn, inside, same_up_to):
    """Nor, in denominators, does what stands at a destination itself."""
    whole, changed = inside(circuit, drawn[1]), torch.cat([drawn[1][:9], drawn[2][9:]])
    same(inside(circuit, drawn[1][:9]), whole[:9])
    same(inside(circuit, changed)[:same_up_to], whole[:same_up_to])


# ---------------------------------------------------------------- what is refused


def test_denominators_of_a_shorter_text_are_refused(circuit, drawn, along):
    causal.circuit_z(circuit, drawn[1][:20], along[:, :20])
    with pytest.raises(ValueError, match=r"at 19 positions for a text of 20.*longer"):
        causal.circuit_z(circuit, drawn[1][:20], along[:, :19])


READERS = {
    "denominators": lambda c, x: causal.denominators_along(c.weights, x),
    "the paper's": lambda c, x: causal.circuit_z(c, x, torch.ones(3, 40, dtype=torch.float64)),
    "self-normalised": causal.self_normalised_z,
}
every = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@every
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (torch.tensor([1, 2, -1]), "ids 0 to 299"),
        (torch.tensor([1, 2, 300]), "ids 0 to 299"),
        (torch.tensor([], dtype=torch.long), r"1 to 32 tokens|positions 0 to 31"),
        (torch.ones(33, dtype=torch.long), r"1 to 32 tokens|positions 0 to 31"),
    ],
)
def test_a_text_that_the_model_cannot_read_is_refused(circuit, read, text, said):
    with pytest.raises(ValueError, match=said):
        read(circuit, text)


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        *(({}, {"token": token}, "exactly one|ids 0 to 299") for token in (" bagpipes", 300, -1)),
        *(({}, {"C": C}, "positive") for C in (0.0, -2.0, float("nan"))),
        ({"W_E": None}, {}, "without token embeddings"),
        ({"layer": 1}, {}, "layer 1"),
    ],
    ids=str,
)
def test_denominators_that_mean_nothing_are_refused(precise, drawn, changed, options, said):
    with pytest.raises(ValueError, match=said):
        causal.denominators_along(replace(precise, **changed), drawn[0], **options)


# ---------------------------------------------------------------- in the model


def recorded(model, tokens, hooks=()):
    """Logits, and what every hook point of both layers held, with these hooks in place."""
    held = {}

    def keep(value, hook, name):  # some points go by two names, so not by the hook's own
        held[name] = value.clone()

    points = ["attn.hook_z", "hook_attn_out", "hook_resid_mid", "mlp.hook_pre"]
    points += ["hook_mlp_out", "hook_resid_post"]
    names = [f"blocks.{layer}.{point}" for layer in (0, 1) for point in points]
    with torch.inference_mode():
        logits = model.run_with_hooks(
            tokens, fwd_hooks=[*hooks, *((n, partial(keep, name=n)) for n in names)]
        )
    return SimpleNamespace(logits=logits, of=held)


@pytest.fixture(scope="module")
def untouched(tiny, drawn):
    return recorded(tiny, drawn)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("heads", [[1], [2, 0], (0, 1, 2), torch.tensor([1, 2])])
def test_only_the_chosen_heads_are_replaced_in_every_text(tiny, drawn, untouched, layer, heads):
    z = draw(32, len(heads), 8)  # in float64: the model keeps its own precision
    changed = recorded(tiny, drawn, [causal.replace_z(layer, heads, z)])
    name = f"blocks.{layer}.attn.hook_z"
    expected = untouched.of[name].clone()
    expected[:, :, list(heads)] = z.float()
    assert torch.equal(changed.of[name], expected)
    assert changed.of[name].dtype == torch.float32
    # and the layer writes what these heads give
    out = torch.einsum("bphd,hdm->bpm", changed.of[name], tiny.W_O[layer]) + tiny.b_O[layer]
    near(changed.of[f"blocks.{layer}.hook_attn_out"], out)
    assert not torch.allclose(changed.logits, untouched.logits, atol=1e-2)
    # a shorter text takes the beginning, and a text's own heads change nothing
    short = recorded(tiny, drawn[:, :9], [causal.replace_z(layer, heads, z)])
    near(short.logits, changed.logits[:, :9])
    own = untouched.of[name][0][:, list(heads)]
    near(
        recorded(tiny, drawn[:1], [causal.replace_z(layer, heads, own)]).logits,
        untouched.logits[:1],
    )


def test_replacing_leaves_what_it_was_given_alone(tiny, drawn):
    name, hook = causal.replace_z(0, [1], torch.zeros(32, 1, 8))
    own = torch.ones(4, 32, 3, 8)
    changed = hook(own, hook=None)
    assert name == "blocks.0.attn.hook_z"
    assert (own == 1).all() and not changed[:, :, 1].any()


def test_a_circuit_in_place_of_its_heads_gives_the_neurons_what_it_says(tiny, tiny_weights, drawn):
    """With the shared scale of the changed stream, the pre-activations move by the difference."""
    circuit = cx.ContextualCircuit.calibrate(tiny_weights, drawn[0], [2, 0], 20)
    along = causal.denominators_along(tiny_weights, drawn[0])
    z = causal.circuit_z(circuit, drawn[1], along)
    changed = recorded(tiny, drawn[1:2], [causal.replace_z(0, [2, 0], z)])
    plain = recorded(tiny, drawn[1:2])
    moved = (
        changed.of["blocks.0.hook_resid_mid"][0, 20] - plain.of["blocks.0.hook_resid_mid"][0, 20]
    )
    truth = cx.destination.true_outputs(tiny_weights, drawn[1], 20)[[2, 0]].sum(0)
    said = circuit.extended_embedding(drawn[1][:21])
    near(moved, torch.einsum("i,im->m", circuit.kernel, said) - truth)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_direction_is_added_at_every_position_and_the_stream_goes_on_with_it(
    tiny, drawn, untouched, layer
):
    def of(made, point):
        return made.of[f"blocks.{layer}.{point}"]

    again = recorded(tiny, drawn, [causal.add_direction(layer, torch.zeros(24))])
    assert torch.equal(again.logits, untouched.logits)
    weights = cx.LayerWeights.of(tiny, layer)
    # one for all texts or one for each; in float64, the model keeps its own precision
    for direction in (draw(24), draw(5, 24, seed=1)):
        direction = direction - direction.mean(-1, keepdim=True)  # LayerNorm would not see the mean
        changed = recorded(tiny, drawn, [causal.add_direction(layer, direction)])
        rough = recorded(tiny, drawn, [causal.add_direction(layer, direction.float())])
        assert torch.equal(changed.logits, rough.logits)
        assert not torch.allclose(changed.logits, untouched.logits, atol=1e-2)
        added = direction.float().expand(5, 24)[:, None]
        v = of(untouched, "hook_resid_mid") + added
        near(of(changed, "hook_resid_mid"), v)
        scale = (v.pow(2).mean(-1, keepdim=True) + weights.eps).sqrt()
        near(of(changed, "mlp.hook_pre"), v / scale @ weights.W_in + weights.b_in, atol=1e-4)
        mlp = of(changed, "hook_mlp_out") - of(untouched, "hook_mlp_out")
        stream = of(changed, "hook_resid_post") - of(untouched, "hook_resid_post")
        near(stream, mlp + added, atol=1e-4)


def test_the_mean_inside_the_heads_is_that_over_texts(tiny, drawn, untouched):
    for layer in (0, 1):
        z = untouched.of[f"blocks.{layer}.attn.hook_z"]
        near(causal.mean_z(tiny, drawn, 32, layer), z.mean(0))
        near(causal.mean_z(tiny, iter(drawn), 9, layer), z[:, :9].mean(0))
    labelled = [cx.texts.Text("a", "war", "en-GB", "", "", x) for x in drawn[:2]]
    near(causal.mean_z(tiny, labelled, 32), untouched.of["blocks.0.attn.hook_z"][:2].mean(0))


@pytest.mark.parametrize(
    ("texts", "length", "said"),
    [
        ([], 9, "no texts"),
        ([torch.arange(1, 20), torch.arange(8)], 9, "a text of 8 tokens is shorter than 9"),
        (torch.arange(1, 20), 9, "one text where a list"),
        ([torch.arange(1, 60)], 40, "length=40: choose 1 to 32"),
        ([torch.arange(1, 20)], 0, "length=0: choose 1 to 32"),
        ([torch.arange(-5, 20)], 9, "the vocabulary has ids 0 to 299"),
    ],
)
def test_what_cannot_be_averaged_is_refused(tiny, texts, length, said):
    with pytest.raises(ValueError, match=said):
        causal.mean_z(tiny, texts, length)


def test_losses_are_those_of_the_model_as_it_was_saved(tiny, tiny_folder, drawn):
    """Through transformers alone: no folding, no centring, no hooks."""
    plain = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = plain(drawn).logits[:, :-1]
        losses = causal.token_losses(tiny, drawn)
    assert losses.shape == (5, 31)
    by_hand = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), drawn[:, 1:].flatten(), reduction="none"
    )
    near(losses.flatten(), by_hand, atol=1e-4)


def test_losses_are_measured_with_the_hooks_in_place(tiny, drawn):
    hooks = [
        causal.replace_z(0, [1], torch.zeros(32, 1, 8)),
        causal.add_direction(1, draw(24).float()),
    ]
    with torch.inference_mode():
        plain, losses = (causal.token_losses(tiny, drawn, those) for those in ((), hooks))
        log_p = tiny.run_with_hooks(drawn, fwd_hooks=hooks).log_softmax(-1)
        assert torch.equal(causal.token_losses(tiny, drawn), plain), "no hook stays behind"
    near(losses, -log_p[:, :-1].gather(-1, drawn[:, 1:, None])[..., 0])
    assert not torch.allclose(losses, plain, atol=1e-2)


# ---------------------------------------------------------------- with an interval


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=30), st.sampled_from([0.5, 0.9, 0.95, 0.99])
)
def test_the_interval_is_students(values, confidence):
    mean, low, high = causal.interval(values, confidence)
    assert mean == pytest.approx(np.mean(values))
    if len(set(values)) == 1:  # scipy has no interval for these
        assert (low, high) == pytest.approx((mean, mean))
    else:
        error = stats.sem(values)
        by_scipy = stats.t.interval(confidence, len(values) - 1, np.mean(values), error)
        assert (low, high) == pytest.approx(by_scipy, abs=1e-9)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_values_may_come_as_any_kind_of_list(kind):
    assert causal.interval(kind([1.0, 2.0, 4.0])) == causal.interval([1.0, 2.0, 4.0])


@pytest.mark.parametrize("values", [[], [3.0]])
def test_fewer_than_two_values_have_no_interval(values):
    with pytest.raises(ValueError, match=f"{len(values)} values have no spread"):
        causal.interval(values)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(tiny, precise, circuit, drawn, along):
    calls = [
        (causal.denominators_along, (precise, drawn[0])),
        (causal.circuit_z, (circuit, drawn[1], along)),
        (causal.self_normalised_z, (circuit, drawn[1])),
        (causal.queries_of, (precise, 5, 9)),
        (causal.values_seen, (precise, drawn[1], draw(2, 32, 32), [0, 2])),
        (causal.replace_z, (0, [0, 2], draw(32, 2, 8))),
        (causal.add_direction, (0, draw(24))),
        (causal.mean_z, (tiny, list(drawn), 9)),
        (causal.token_losses, (tiny, drawn)),
        (causal.interval, ([1.0, 2.0],)),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
