"""The causal forms: the circuits at every destination of a text, and the model running on them."""

import math
import statistics
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped
from scipy import stats
from transformers import AutoModelForCausalLM

import ctxlib as cx
from ctxlib.decoders import causal

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # float32

seeds = st.integers(0, 999)


@st.composite
def cases(draw_from):
    """Sizes of a block, heads in any order, a token, C, and texts of which one may be short."""
    n_heads, n_ctx, vocab = (draw_from(st.integers(*r)) for r in ((1, 4), (2, 6), (2, 9)))
    sizes = {
        "seed": draw_from(seeds),
        "n_heads": n_heads,
        "d_head": draw_from(st.integers(2, 4)),
        "n_ctx": n_ctx,
        "vocab": vocab,
    }
    heads = draw_from(st.permutations(range(n_heads)))[: draw_from(st.integers(1, n_heads))]
    words = st.integers(0, vocab - 1)
    text = draw_from(st.lists(words, min_size=1, max_size=n_ctx))
    return SimpleNamespace(
        sizes=sizes,
        heads=heads,
        token=draw_from(words),
        C=draw_from(st.floats(0.3, 20)),
        text=text,
        calibration=draw_from(st.lists(words, min_size=n_ctx, max_size=n_ctx)),
        n=draw_from(st.integers(0, n_ctx - 1)),
    )


def draw(*shape, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def draw_texts(count, length, vocab, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (count, length), generator=source)


@pytest.fixture(scope="module")
def precise(tiny_weights):
    return tiny_weights.to(torch.float64)


@pytest.fixture(scope="module")
def drawn():
    """Four texts that fill the context of `tiny`."""
    return draw_texts(4, 32, 300)


@pytest.fixture(scope="module")
def circuit(precise, drawn):
    return cx.ContextualCircuit.calibrate(precise, drawn[0], [2, 0], 20)


@pytest.fixture(scope="module")
def along(precise, drawn):
    return causal.denominators_along(precise, drawn[0])


# ---------------------------------------------------------------- the same by loops


def norm(weights, v):
    return v / ((v @ v) / weights.d_model + weights.eps).sqrt()


def pieces(weights, text, n, token, C, h):
    """For each source: the kernel of a head, the content, the value as if it stood at n, and what
    the position adds to a value.
    """
    there = weights.W_pos[n]
    q = norm(weights, weights.W_E[token] + there) @ weights.W_Q[h] + weights.b_Q[h]
    exps, contents, values, moved = [], [], [], []
    for i, t in enumerate(text[: n + 1]):
        here = weights.W_pos[i]
        where = weights.d_model**0.5 * (here - there) / math.hypot(here.norm(), C)
        what = norm(weights, weights.W_E[t] + there)
        exps.append(math.exp(q @ (where @ weights.W_K[h]) / weights.attn_scale))
        contents.append(math.exp(q @ (what @ weights.W_K[h]) / weights.attn_scale))
        values.append(what @ weights.W_V[h] + weights.b_V[h])
        moved.append(where @ weights.W_V[h])
    return [e / sum(exps) for e in exps], contents, values, moved


@given(cases())
def test_denominators_along_a_text_are_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    along = causal.denominators_along(weights, torch.tensor(case.text), case.token, case.C)
    assert along.shape == (weights.n_heads, len(case.text))
    for n in range(len(case.text)):
        with_token = [*case.text[:n], case.token]
        for h in range(weights.n_heads):
            kernel, contents, _, _ = pieces(weights, with_token, n, case.token, case.C, h)
            denominator = sum(a * c for a, c in zip(kernel, contents, strict=True))
            assert along[h, n].item() == pytest.approx(denominator, rel=1e-9)


@given(cases())
def test_what_is_put_inside_the_heads_is_the_loops(make_weights, case):
    weights, text = make_weights(**case.sizes), torch.tensor(case.text)
    circuit = cx.ContextualCircuit.calibrate(
        weights, torch.tensor(case.calibration), case.heads, case.n, case.token, case.C
    )
    denominators = draw(weights.n_heads, len(text) + 1).exp()  # any will do, more than needed too
    z = causal.circuit_z(circuit, text, denominators)
    assert z.shape == (len(text), len(case.heads), weights.d_head)
    for n in range(len(text)):
        of = [pieces(weights, case.text, n, case.token, case.C, h) for h in case.heads]
        medians = [statistics.median(k[i] for k, *_ in of) for i in range(n + 1)]
        shared = [m / sum(medians) for m in medians]
        for number, (h, (_, contents, values, _)) in enumerate(zip(case.heads, of, strict=True)):
            terms = zip(shared, contents, values, strict=True)
            by_hand = sum(a * c * v for a, c, v in terms) / denominators[h, n]
            same(z[n, number], by_hand)


@given(cases())
def test_what_the_self_normalised_circuit_puts_inside_is_the_loops(make_weights, case):
    weights, text = make_weights(**case.sizes), torch.tensor(case.text)
    circuit = cx.ContextualCircuit.calibrate(
        weights, torch.tensor(case.calibration), case.heads, case.n, case.token, case.C
    )
    z = causal.self_normalised_z(circuit, text)
    assert z.shape == (len(text), len(case.heads), weights.d_head)
    for n in range(len(text)):
        for number, h in enumerate(case.heads):
            of = pieces(weights, case.text, n, case.text[n], case.C, h)
            kernel, contents, values, moved = of
            row = [a * c for a, c in zip(kernel, contents, strict=True)]
            terms = zip(row, values, moved, strict=True)
            same(z[n, number], sum(a * (v + m) for a, v, m in terms) / sum(row))


# ---------------------------------------------------------------- the same one by one


def test_denominators_along_a_text_are_those_at_each_destination(precise, drawn, along):
    for n in range(32):
        same(along[:, n], cx.softmax_denominators(precise, drawn[:1], n)[0])
    text = cx.texts.Text("a", "war", "en-GB", "war", "", drawn[0])
    assert torch.equal(causal.denominators_along(precise, text), along)
    other = causal.denominators_along(precise, drawn[1], 7, 2.0)
    for n in (0, 5, 31):
        same(other[:, n], cx.softmax_denominators(precise, drawn[1:2], n, 7, 2.0)[0])


def test_what_stands_at_a_destination_or_behind_changes_no_denominator(precise, drawn, along):
    other = torch.cat([drawn[0][:20], drawn[1][20:]])
    same(causal.denominators_along(precise, other)[:, :21], along[:, :21])


def test_at_its_own_destination_the_circuit_says_what_its_summary_says(circuit, drawn, along):
    same(along[list(circuit.heads), 20], circuit.denominators)
    for text in drawn:
        z = causal.circuit_z(circuit, text, along)[20]
        same(torch.einsum("hd,hdj->j", z, circuit.readout), circuit.summary(text))


def test_elsewhere_it_says_what_a_circuit_calibrated_there_says(circuit, precise, drawn, along):
    z = causal.circuit_z(circuit, drawn[1], along)
    for n in range(32):
        there = cx.ContextualCircuit.calibrate(precise, drawn[0], [2, 0], n)
        inside = there.weighted_values[drawn[1][: n + 1]]
        same(z[n], sum(a * v for a, v in zip(there.kernel, inside, strict=True)))


def test_at_every_destination_the_self_normalised_circuit_writes_its_outputs(
    circuit, precise, drawn
):
    z = causal.self_normalised_z(circuit, drawn[1])
    for n in range(32):
        by_head = cx.destination.FromWeights.of(precise, n).rebuilt_outputs(drawn[1])[[2, 0]]
        same(torch.stack([z[n, k] @ precise.W_O[h] for k, h in enumerate((2, 0))]), by_head)


def test_without_positions_it_writes_what_the_heads_write(precise, drawn):
    flat = replace(precise, W_pos=precise.W_pos[:1].expand_as(precise.W_pos))
    circuit = cx.ContextualCircuit.calibrate(flat, drawn[0], [2, 0], 20)
    z = causal.self_normalised_z(circuit, drawn[1])
    for n in range(32):
        outputs = cx.destination.true_outputs(flat, drawn[1], n)
        for number, h in enumerate((2, 0)):
            same(z[n, number] @ flat.W_O[h], outputs[h])


@pytest.mark.parametrize("kind", ["the paper's", "self-normalised"])
def test_what_comes_later_changes_nothing_inside(circuit, drawn, along, kind):
    def inside(text):
        if kind == "self-normalised":
            return causal.self_normalised_z(circuit, text)
        return causal.circuit_z(circuit, text, along)

    whole = inside(drawn[1])
    same(inside(drawn[1][:9]), whole[:9])
    same(inside(torch.cat([drawn[1][:9], drawn[2][9:]]))[:9], whole[:9])


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
@pytest.mark.parametrize("stranger", [-1, 300])
def test_ids_outside_the_vocabulary_are_refused(circuit, drawn, read, stranger):
    text = drawn[0].clone()
    text[3] = stranger
    with pytest.raises(ValueError, match="ids 0 to 299"):
        read(circuit, text)


@every
@pytest.mark.parametrize("length", [0, 33])
def test_a_text_that_the_model_cannot_read_is_refused(circuit, read, length):
    with pytest.raises(ValueError, match=r"1 to 32 tokens|positions 0 to 31"):
        read(circuit, torch.ones(length, dtype=torch.long))


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
def test_a_models_own_heads_in_their_place_change_nothing(tiny, drawn, untouched, layer):
    for number in range(4):
        z = untouched.of[f"blocks.{layer}.attn.hook_z"][number]
        hook = causal.replace_z(layer, [2, 0], z[:, [2, 0]])
        again = recorded(tiny, drawn[number : number + 1], [hook])
        near(again.logits[0], untouched.logits[number])


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("heads", [[1], [2, 0], (0, 1, 2), torch.tensor([1, 2])])
def test_only_the_chosen_heads_are_replaced_in_every_text(tiny, drawn, untouched, layer, heads):
    z = draw(32, len(heads), 8)  # in float64: the model keeps its own precision
    changed = recorded(tiny, drawn, [causal.replace_z(layer, heads, z)])
    name = f"blocks.{layer}.attn.hook_z"
    for h in range(3):
        if h in [int(k) for k in heads]:
            put = z[:, [int(k) for k in heads].index(h)].float()
            assert torch.equal(changed.of[name][:, :, h], put.expand(4, -1, -1))
        else:
            assert torch.equal(changed.of[name][:, :, h], untouched.of[name][:, :, h])
    assert changed.of[name].dtype == torch.float32
    # and the layer writes what these heads give
    out = torch.einsum("bphd,hdm->bpm", changed.of[name], tiny.W_O[layer]) + tiny.b_O[layer]
    near(changed.of[f"blocks.{layer}.hook_attn_out"], out)
    assert not torch.allclose(changed.logits, untouched.logits, atol=1e-2)


def test_a_shorter_text_takes_the_beginning(tiny, drawn):
    z = draw(32, 2, 8)
    whole = recorded(tiny, drawn, [causal.replace_z(0, [2, 0], z)])
    short = recorded(tiny, drawn[:, :9], [causal.replace_z(0, [2, 0], z)])
    near(short.logits, whole.logits[:, :9])


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
def test_a_direction_is_added_at_every_position_of_every_text(tiny, drawn, untouched, layer):
    name = f"blocks.{layer}.hook_resid_mid"
    again = recorded(tiny, drawn, [causal.add_direction(layer, torch.zeros(24))])
    assert torch.equal(again.logits, untouched.logits)
    one, each = draw(24).float(), draw(4, 24, seed=1).float()
    for direction in (one, each):
        changed = recorded(tiny, drawn, [causal.add_direction(layer, direction)])
        near(changed.of[name], untouched.of[name] + direction.expand(4, 24)[:, None])
        assert not torch.allclose(changed.logits, untouched.logits, atol=1e-2)


def test_the_stream_goes_on_with_the_direction(tiny, drawn, untouched):
    direction = draw(24).float()
    changed = recorded(tiny, drawn, [causal.add_direction(0, direction)])
    mlp = changed.of["blocks.0.hook_mlp_out"] - untouched.of["blocks.0.hook_mlp_out"]
    stream = changed.of["blocks.0.hook_resid_post"] - untouched.of["blocks.0.hook_resid_post"]
    near(stream, mlp + direction, atol=1e-4)


def test_the_neurons_read_what_was_added(tiny, tiny_weights, drawn, untouched):
    direction = draw(24).float()
    direction = direction - direction.mean()  # LayerNorm would not see the mean
    changed = recorded(tiny, drawn, [causal.add_direction(0, direction)])
    v = untouched.of["blocks.0.hook_resid_mid"] + direction
    scale = (v.pow(2).mean(-1, keepdim=True) + tiny_weights.eps).sqrt()
    near(
        changed.of["blocks.0.mlp.hook_pre"],
        v / scale @ tiny_weights.W_in + tiny_weights.b_in,
        atol=1e-4,
    )


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


def test_a_direction_may_be_more_precise_than_the_model(tiny, drawn):
    direction = draw(24)
    precise, rough = (
        causal.token_losses(tiny, drawn, [causal.add_direction(0, d)])
        for d in (direction.double(), direction.float())
    )
    assert torch.equal(precise, rough)


def test_losses_are_those_of_the_model_as_it_was_saved(tiny, tiny_folder, drawn):
    """Through transformers alone: no folding, no centring, no hooks."""
    plain = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = plain(drawn).logits[:, :-1]
        losses = causal.token_losses(tiny, drawn)
    assert losses.shape == (4, 31)
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
        losses = causal.token_losses(tiny, drawn, hooks)
        log_p = tiny.run_with_hooks(drawn, fwd_hooks=hooks).log_softmax(-1)
        plain = causal.token_losses(tiny, drawn)
    for text in range(4):
        for position in range(31):
            by_hand = -log_p[text, position, drawn[text, position + 1]]
            near(losses[text, position], by_hand)
    assert not torch.allclose(losses, plain, atol=1e-2)
    with torch.inference_mode():
        assert torch.equal(causal.token_losses(tiny, drawn), plain), "no hook stays behind"


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


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_holds_the_mean_as_often_as_it_says(confidence):
    random = np.random.default_rng(0)
    intervals = [causal.interval(7 + random.normal(size=6), confidence) for _ in range(4000)]
    held = np.mean([low <= 7 <= high for _, low, high in intervals])
    assert abs(held - confidence) < 4 * (confidence * (1 - confidence) / 4000) ** 0.5


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
