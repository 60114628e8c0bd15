"""The causal forms: the circuits at every destination of a text, and the model running on them."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import by_hand
import pytest
import torch
from beartype import beartype
from by_hand import calibrated, cases, draw
from hypothesis import given
from jaxtyping import jaxtyped
from transformers import AutoModelForCausalLM

import ctxlib as cx
from ctxlib.decoders import causal, hold_neuron

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


# ---------------------------------------------------------------- what is refused


def refused_by(said, ask, *arguments, **options):
    with pytest.raises(ValueError, match=said):
        ask(*arguments, **options)


def test_a_text_that_cannot_be_read_is_refused(circuit, drawn):
    denominators = torch.ones(3, 40, dtype=torch.float64)
    beyond = ([1, 2, -1], "ids 0 to 299"), ([1, 2, 300], "ids 0 to 299")
    length = "1 to 32 tokens|positions 0 to 31"
    for ids, said in (*beyond, ([], length), ([1] * 33, length)):
        text = torch.tensor(ids, dtype=torch.long)
        refused_by(said, causal.denominators_along, circuit.weights, text)
        refused_by(said, causal.circuit_z, circuit, text, denominators)
        refused_by(said, causal.self_normalised_z, circuit, text)
    shorter = r"at 31 positions for a text of 32.*longer"
    refused_by(shorter, causal.circuit_z, circuit, drawn[1], denominators[:, :31])


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
    refused_by(said, causal.denominators_along, replace(precise, **changed), drawn[0], **options)


# ---------------------------------------------------------------- in the model


def recorded(model, tokens, hooks=()):
    """Logits, and what every hook point of both layers held, with these hooks in place."""
    held = {}

    def keep(value, hook, name):  # some points go by two names, so not by the hook's own
        held[name] = value.clone()

    points = ["attn.hook_z", "hook_resid_mid", "mlp.hook_pre", "hook_mlp_out", "hook_resid_post"]
    names = [f"blocks.{layer}.{point}" for layer in (0, 1) for point in points]
    with torch.inference_mode():
        logits = model.run_with_hooks(
            tokens, fwd_hooks=[*hooks, *((n, partial(keep, name=n)) for n in names)]
        )
    return SimpleNamespace(logits=logits, of=held)


@pytest.fixture(scope="module")
def untouched(tiny, drawn):
    return recorded(tiny, drawn)


def test_hooks_leave_what_they_are_given_alone():
    name, hook = causal.replace_z(0, [1], torch.zeros(32, 1, 8))
    changed = hook(own := torch.ones(4, 32, 3, 8), hook=None)
    assert name == "blocks.0.attn.hook_z"
    assert (own == 1).all() and not changed[:, :, 1].any()
    name, hook = hold_neuron(1, 4, 2.5)
    changed = hook(own := torch.zeros(2, 5, 7), hook=None)
    assert name == "blocks.1.mlp.hook_post"
    assert (own == 0).all() and changed.nonzero().tolist() == [[0, 4, 4], [1, 4, 4]]
    assert (changed[:, -1, 4] == 2.5).all()


@pytest.mark.parametrize("layer", [0, 1])
def test_a_direction_is_added_at_every_position_and_the_stream_goes_on_with_it(
    tiny, drawn, untouched, layer
):
    def of(made, point):
        return made.of[f"blocks.{layer}.{point}"]

    weights = cx.LayerWeights.of(tiny, layer)
    # one for all texts or one for each; in float64, the model keeps its own precision
    for direction in (draw(24), draw(5, 24, seed=1)):
        direction = direction - direction.mean(-1, keepdim=True)  # LayerNorm would not see the mean
        changed = recorded(tiny, drawn, [causal.add_direction(layer, direction)])
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
        *(([torch.arange(1, 60)], n, f"length={n}: choose 1 to 32") for n in (0, 40)),
        ([torch.arange(-5, 20)], 9, "there are token ids 0 to 299"),
    ],
)
def test_what_cannot_be_averaged_is_refused(tiny, texts, length, said):
    refused_by(said, causal.mean_z, tiny, texts, length)


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
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
