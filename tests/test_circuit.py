"""The contextual circuit: what goes into it, what it says about a text, and when it is exact."""

from dataclasses import FrozenInstanceError, replace
from functools import partial
from types import SimpleNamespace

import by_hand
import numpy as np
import pytest
import torch
from beartype import beartype
from by_hand import calibrated, cases, draw, draw_texts, seeds
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped

import ctxlib as cx

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # float32


def circuit_by_hand(weights, text, heads, n, token, C):
    """The steps of the method, section 4, one number at a time."""
    tokens = [*text[:n], token]
    q = {h: by_hand.query(weights, h, by_hand.what(weights, token, n)) for h in heads}
    kernels = [by_hand.kernel(weights, h, q[h], n, C) for h in heads]
    denominators = [
        by_hand.weighted(kernel, [by_hand.content(weights, h, q[h], n, t) for t in tokens])
        for h, kernel in zip(heads, kernels, strict=True)
    ]
    outputs = by_hand.outputs(weights, tokens, n)
    scale = float(by_hand.scale(weights, by_hand.between(weights, tokens, n, outputs)))
    values, extended = [], []
    for t in range(len(weights.W_E)):
        inside = [
            by_hand.content(weights, h, q[h], n, t)
            / denominator
            * by_hand.value(weights, h, by_hand.what(weights, t, n))
            for h, denominator in zip(heads, denominators, strict=True)
        ]
        extended.append(sum(v @ weights.W_O[h] for v, h in zip(inside, heads, strict=True)))
        values.append(torch.stack(inside))
    return SimpleNamespace(
        calibration=torch.tensor(tokens),
        kernel=torch.tensor(by_hand.shared(kernels), dtype=torch.float64),
        denominators=torch.tensor(denominators, dtype=torch.float64),
        scale=scale,
        weighted_values=torch.stack(values),
        extended=torch.stack(extended),
        contribution=torch.stack(extended) @ weights.W_in / scale,
    )


def by_hand_too(circuit, case):
    text = case.texts[0].tolist()
    return circuit_by_hand(circuit.weights, text, case.heads, case.n, case.token, case.C)


# ---------------------------------------------------------------- the truth


@pytest.mark.parametrize(
    ("name", "n", "atol"), [*(("tiny", n, 1e-5) for n in (0, 7, 31)), ("mini", 90, 1e-4)]
)
def test_the_truth_is_the_models(request, drawn, mini_tokens, name, n, atol):
    """Taking heads out of the stream, at the scale that the model measured, leaves the rest."""
    model, weights = map(request.getfixturevalue, (name, f"{name}_weights"))
    texts = {"tiny": drawn, "mini": mini_tokens[None]}[name]
    close = partial(near, atol=atol)
    with torch.inference_mode():
        _, cache = model.run_with_cache(texts)
    z, stream = cache["blocks.0.attn.hook_z"][:, n], cache["blocks.0.hook_resid_mid"][:, n]
    outputs = cx.destination.true_outputs(weights, texts, n)
    for h in range(weights.n_heads):
        close(outputs[:, h], z[:, h] @ model.W_O[0, h])
    close(outputs.sum(1) + weights.b_O, cache["blocks.0.hook_attn_out"][:, n])
    close(cx.destination.resid_mid(weights, texts, n, outputs), stream)
    scale = cache["blocks.0.ln2.hook_scale"][:, n]
    for heads in ([0], [2, 0], [0, 1, 2]):
        contribution = cx.true_contribution(weights, texts, heads, n)
        part = sum(z[:, h] @ model.W_O[0, h] for h in heads)
        close(contribution, part @ model.W_in[0] / scale)
        rest = (stream - part) / scale @ model.W_in[0] + model.b_in[0]
        close(contribution + rest, cache["blocks.0.mlp.hook_pre"][:, n])


@given(cases())
def test_the_truth_is_the_loops(make_weights, case):
    weights, n = replace(make_weights(**case.sizes), attn_scale=case.divisor), case.n
    texts = case.texts.tolist()
    outputs = torch.stack([by_hand.outputs(weights, x, n) for x in texts])
    same(cx.destination.true_outputs(weights, case.texts, n), outputs)
    same(cx.destination.true_outputs(weights, case.texts[1], n), outputs[1])
    changed = outputs + draw(*outputs.shape)  # any will do
    streams = [by_hand.between(weights, x, n, o) for x, o in zip(texts, changed, strict=True)]
    same(cx.destination.resid_mid(weights, case.texts, n, changed), torch.stack(streams))
    same(cx.destination.resid_mid(weights, case.texts[0], n, changed[0]), streams[0])
    truth = [by_hand.truth(weights, x, case.heads, n) for x in texts]
    same(cx.true_contribution(weights, case.texts, case.heads, n), torch.stack(truth))
    same(cx.true_contribution(weights, case.texts[0], case.heads, n), truth[0])


# ---------------------------------------------------------------- calibration


@given(cases())
def test_calibration_and_what_a_token_puts_in_are_the_loops(make_weights, case):
    circuit = calibrated(make_weights, case)
    hand = by_hand_too(circuit, case)
    asked = tuple(case.heads), case.n, case.token, case.C
    assert (circuit.heads, circuit.n, circuit.token, circuit.C) == asked
    assert torch.equal(circuit.calibration, hand.calibration)
    assert circuit.scale == pytest.approx(hand.scale, rel=1e-9)
    for name in ("kernel", "denominators", "weighted_values", "contribution"):
        same(getattr(circuit, name), getattr(hand, name))
    same(circuit.extended_embedding(), hand.extended)
    some = torch.arange(5) * 3 % case.sizes["vocab"]
    same(circuit.extended_embedding(some), hand.extended[some])
    w = circuit.weights
    same(circuit.readout, torch.stack([w.W_O[h] @ w.W_in / hand.scale for h in case.heads]))


def test_the_destination_the_token_and_C_have_defaults(precise, drawn):
    the, C = precise.token_id(" the"), precise.W_E.norm(dim=1).median().item()
    asked = cx.ContextualCircuit.calibrate(precise, drawn[0], [0], 16, the, C)
    left = cx.ContextualCircuit.calibrate(precise, drawn[0], [0])
    assert left.weights is precise
    assert (left.n, left.token, left.C) == (16, the, C)
    assert torch.equal(left.contribution, asked.contribution)
    assert precise.tokenizer.decode([left.token]) == " the"


def test_a_circuit_is_made_of_the_first_n_tokens_and_of_heads_of_any_kind(precise, drawn, circuit):
    labelled = cx.texts.Text("a", "war", "en-GB", "war", "", drawn[0])
    kinds = [2, 0], (2, 0), torch.tensor([2, 0]), np.array([2, 0])
    for text in (drawn[0][:20], labelled):
        for heads in kinds:
            other = cx.ContextualCircuit.calibrate(precise, text, heads, 20)
            assert torch.equal(other.calibration, circuit.calibration)
            assert torch.equal(other.denominators, circuit.denominators)
            assert other.scale == circuit.scale
            assert other.heads == (2, 0)
            assert {type(h) for h in other.heads} == {int}


def test_a_circuit_cannot_be_changed_but_made_anew_with_other_parts(circuit, drawn):
    with pytest.raises(FrozenInstanceError):
        circuit.scale = 2.0
    twice = torch.tensor([2.0, 1.0], dtype=torch.float64)
    changed = replace(circuit, denominators=circuit.denominators * twice, scale=2 * circuit.scale)
    same(changed.weighted_values * twice[:, None], circuit.weighted_values)
    same(2 * changed.readout, circuit.readout)
    kernel = circuit.kernel.flip(0)
    by_token = changed.contribution[drawn[:, :21]]
    same(
        replace(changed, kernel=kernel).summary(drawn), torch.einsum("i,tij->tj", kernel, by_token)
    )


@given(seeds, st.integers(1, 6), st.integers(1, 9))
def test_the_shared_kernel_is_the_renormalised_median(seed, n_heads, sources):
    """Of one destination, or of many one by one."""
    kernels = draw(n_heads, 3, sources, seed=seed).softmax(-1)
    hand = [by_hand.shared(kernels[:, d].tolist()) for d in range(3)]
    together = torch.tensor(hand, dtype=torch.float64)
    same(cx.shared_kernel(kernels), together)
    same(cx.shared_kernel(kernels[:, 0]), together[0])


# ---------------------------------------------------------------- the summary of a text


@given(cases())
def test_what_is_said_of_texts_is_the_loops(make_weights, case):
    circuit = calibrated(make_weights, case)
    hand, w, n = by_hand_too(circuit, case), circuit.weights, case.n
    neurons, summaries, whole = [case.sizes["d_mlp"] - 1, 0], [], []
    for text in case.texts.tolist():
        terms = [k * hand.contribution[t] for k, t in zip(hand.kernel, text, strict=False)]
        same(circuit.by_source(torch.tensor(text), neurons), torch.stack(terms)[:, neurons])
        summaries.append(sum(terms))
        rest = w.W_E[text[n]] + w.W_pos[n] + w.b_O
        for h in set(range(w.n_heads)) - set(case.heads):
            rest = rest + by_hand.value(w, h, by_hand.what(w, text[n], n)) @ w.W_O[h]
        whole.append(summaries[-1] + rest @ w.W_in / hand.scale + w.b_in)
    same(circuit.summary(case.texts), torch.stack(summaries))
    same(circuit.summary(case.texts[1]), summaries[1])
    same(circuit.pre_activations(case.texts), torch.stack(whole))
    same(circuit.pre_activations(case.texts[1]), whole[1])


# ---------------------------------------------------------------- when it is exact


@given(seeds, st.integers(1, 4), st.data())
def test_without_positions_circuits_are_exact(make_weights, seed, n_heads, data):
    """Equation 1 is exact there and every kernel even. The paper's circuit has the rest from its
    calibration text and is exact for that; the self-normalised one for any text and token.
    """
    w = make_weights(seed, n_heads)
    w = replace(w, W_pos=w.W_pos[:1].expand_as(w.W_pos))
    heads = sorted(data.draw(st.sets(st.integers(0, n_heads - 1), min_size=1)))
    n, token = data.draw(st.integers(0, 11)), data.draw(st.integers(0, 19))
    texts = draw_texts(4, 12, 20, seed)
    circuit = cx.ContextualCircuit.calibrate(w, texts[0], heads, n, token)
    same(circuit.kernel, torch.full((n + 1,), 1 / (n + 1), dtype=torch.float64))
    own, better = circuit.calibration, circuit.self_normalised()
    same(circuit.summary(own), by_hand.truth(w, own.tolist(), heads, n))
    for text in (own, *texts[1:]):
        outputs = by_hand.outputs(w, text.tolist(), n)
        stream = by_hand.between(w, text.tolist(), n, outputs)
        whole = stream / by_hand.scale(w, stream) @ w.W_in + w.b_in
        same(better.at.rebuilt_outputs(text), outputs)
        same(better.summary(text), by_hand.truth(w, text.tolist(), heads, n))
        same(better.pre_activations(text), whole)
        if text is own and len(heads) == n_heads:
            same(circuit.pre_activations(own), whole)


# ---------------------------------------------------------------- the self-normalised circuit


def self_normalised_by_hand(w, text, heads, n, C):
    """Rows, outputs of all heads, summary and pre-activations, one source at a time."""
    rows = [by_hand.rebuilt_row(w, h, text, n, C) for h in range(w.n_heads)]
    sources = [
        by_hand.what(w, t, n) + by_hand.where(w, i, n, C) for i, t in enumerate(text[: n + 1])
    ]
    outputs = [
        by_hand.weighted(row, [by_hand.value(w, h, x) for x in sources]) @ w.W_O[h]
        for h, row in enumerate(rows)
    ]
    stream = by_hand.between(w, text, n, outputs)
    s = by_hand.scale(w, stream)
    summary = sum(outputs[h] for h in heads) @ w.W_in / s
    rows = torch.tensor(rows, dtype=torch.float64)
    return rows, torch.stack(outputs), summary, stream / s @ w.W_in + w.b_in


@given(cases())
def test_the_self_normalised_circuit_is_the_loops(make_weights, case):
    better = calibrated(make_weights, case).self_normalised()
    asked = case.heads, case.n, case.C
    hand = [self_normalised_by_hand(better.at.weights, x.tolist(), *asked) for x in case.texts]
    readers = (
        better.at.rebuilt_rows,
        better.at.rebuilt_outputs,
        better.summary,
        better.pre_activations,
    )
    for read, by_text in zip(readers, zip(*hand, strict=True), strict=True):
        same(read(case.texts), torch.stack(by_text))
        same(read(case.texts[1]), by_text[1])


def test_rows_of_scores_beyond_the_range_of_an_exponential_are_rows(tiny_weights, drawn):
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q, b_Q=3000 * tiny_weights.b_Q)
    here = cx.destination.FromWeights.of(loud, 20)
    assert here.likes.isinf().any()
    rows = here.rebuilt_rows(cx.texts.at(loud, drawn, 20))
    torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1]))


def test_offsets_take_the_mean_error_off_every_neuron(circuit, drawn, monkeypatch):
    """Texts may come from a generator, in any batches; without them there are no offsets."""
    plain, better = circuit.self_normalised(), circuit.self_normalised(list(drawn))
    assert plain.offsets.shape == (40,) and not plain.offsets.any()
    truth = torch.stack([by_hand.truth(circuit.weights, x.tolist(), [2, 0], 20) for x in drawn])
    same(better.offsets, (truth - plain.summary(drawn)).mean(0))
    same(better.summary(drawn).mean(0), truth.mean(0))
    same(better.pre_activations(drawn), plain.pre_activations(drawn) + better.offsets)
    monkeypatch.setattr(cx.texts, "BATCH", 2)
    same(circuit.self_normalised(text for text in drawn).offsets, better.offsets)


def test_it_says_what_it_was_made_from_and_needs_no_constants_of_it(circuit, drawn):
    better = circuit.self_normalised()
    assert (better.circuit, better.at, better.heads) == (circuit, circuit.at, (2, 0))
    other = replace(circuit, denominators=circuit.denominators * 7, scale=circuit.scale * 3)
    assert torch.equal(other.self_normalised().summary(drawn), better.summary(drawn))


# ---------------------------------------------------------------- what a text is


READERS = {
    "true outputs": lambda c, x: cx.destination.true_outputs(c.weights, x, c.n),
    "true contribution": lambda c, x: cx.true_contribution(c.weights, x, c.heads, c.n),
    "summary": lambda c, x: c.summary(x),
    "pre-activations": lambda c, x: c.pre_activations(x),
    "rows": lambda c, x: c.at.rebuilt_rows(x),
    "outputs": lambda c, x: c.at.rebuilt_outputs(x),
    "self-normalised summary": lambda c, x: c.self_normalised().summary(x),
    "self-normalised pre-activations": lambda c, x: c.self_normalised().pre_activations(x),
}
every = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@every
def test_a_text_is_what_stands_up_to_n(circuit, drawn, read):
    behind, there = drawn.clone(), drawn.clone()
    behind[:, 21:] = drawn[:, 21:].flip(0)
    assert torch.equal(read(circuit, behind), read(circuit, drawn))
    assert torch.equal(read(circuit, drawn[:, :21]), read(circuit, drawn))
    there[:, 20] = (drawn[:, 20] + 1) % 300
    assert not torch.allclose(read(circuit, there), read(circuit, drawn))


@every
def test_a_stack_of_texts_is_read_one_by_one(circuit, drawn, read):
    together = read(circuit, drawn)
    same(together, torch.stack([read(circuit, text) for text in drawn]))
    same(read(circuit, drawn[:4].view(2, 2, 32)), together[:4].unflatten(0, (2, 2)))


@every
def test_reading_changes_neither_the_weights_nor_the_circuit(precise, drawn, read):
    """Steps that save memory work in place: on what they made themselves."""
    circuit = cx.ContextualCircuit.calibrate(precise, drawn[0], [2, 0], 20)
    held = [v for o in (precise, circuit) for v in vars(o).values() if isinstance(v, torch.Tensor)]
    before = [v.clone() for v in held]
    once = read(circuit, drawn)
    assert all(map(torch.equal, held, before))
    assert torch.equal(read(circuit, drawn), once)


# ---------------------------------------------------------------- what is refused


def with_stranger(text, stranger):
    return torch.cat([text[:3], torch.tensor([stranger]), text[4:]])


@every
def test_a_text_that_is_too_short_or_has_strange_ids_is_refused(circuit, drawn, read):
    with pytest.raises(ValueError, match=r"destination 20 lies outside the text.*0 to 19"):
        read(circuit, drawn[:, :20])
    for stranger in (-1, 300):
        with pytest.raises(ValueError, match="ids 0 to 299"):
            read(circuit, with_stranger(drawn[0], stranger))


TEXT = draw_texts(1, 32, 300)[0]
LABELLED = cx.texts.Text("a", "war", "en-GB", "war", "", TEXT)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda c: c.by_source(TEXT[:20], [0]), "destination 20 lies outside the text"),
        (lambda c: c.by_source(TEXT.expand(2, -1), [0]), "expected one text"),
        (lambda c: c.by_source(TEXT, [40]), "neurons 0 to 39"),
        (lambda c: c.by_source(TEXT, [-1]), "neurons 0 to 39"),
        (lambda c: c.by_source(TEXT, [3, 40, 5]), "neurons 0 to 39"),
        (lambda c: c.by_source(TEXT, []), "no neurons"),
        (lambda c: c.extended_embedding(torch.tensor([1, -1])), "ids 0 to 299"),
        (lambda c: c.extended_embedding(torch.tensor([1, 300])), "ids 0 to 299"),
        (lambda c: c.self_normalised(TEXT), "put it in brackets"),
        (lambda c: c.self_normalised(LABELLED), "put it in brackets"),
        (
            lambda c: c.self_normalised([TEXT, TEXT[:20]]),
            r"a text of 20 tokens is too short.*at least 21",
        ),
    ],
)
def test_what_a_circuit_cannot_say_is_refused(circuit, ask, said):
    with pytest.raises(ValueError, match=said):
        ask(circuit)


def true_outputs(w, text, heads, n, *_):
    return cx.destination.true_outputs(w, text, n)


def true_contribution(w, text, heads, n, *_):
    return cx.true_contribution(w, text, heads, n)


CALIBRATE = cx.ContextualCircuit.calibrate
ASKED = {"text": TEXT, "heads": [0], "n": 20, "token": " the", "C": None}
HEADS = {(): "no heads", (0, 3): "heads 0 to 2", (-1,): "heads 0 to 2", (1, 1): "there twice"}


@pytest.mark.parametrize(
    ("ask", "wrong", "said"),
    [
        (CALIBRATE, {"text": TEXT[:19]}, "a text of 19 tokens is too short for the destination 20"),
        *((CALIBRATE, {"token": token}, "exactly one") for token in (" bagpipes", "")),
        *((CALIBRATE, {"token": token}, "ids 0 to 299") for token in (300, -1)),
        (CALIBRATE, {"tokenizer": None}, "without a tokenizer"),
        *((CALIBRATE, {"C": C}, "positive") for C in (0.0, -2.0, float("nan"))),
        *(
            (ask, {"n": n}, "positions 0 to 31")
            for ask in (CALIBRATE, true_outputs)
            for n in (-1, 32)
        ),
        *(
            (ask, {"heads": heads}, said)
            for ask in (CALIBRATE, true_contribution)
            for heads, said in HEADS.items()
        ),
        *(
            (ask, {"W_in": None, "b_in": None}, "without the MLP")
            for ask in (CALIBRATE, true_contribution)
        ),
        *(
            (ask, {"W_E": None}, "without token embeddings")
            for ask in (CALIBRATE, true_contribution)
        ),
        (CALIBRATE, {"W_E": None, "token": 5, "C": 1.0}, "without token embeddings"),
        *((ask, {"layer": 1}, "layer 1") for ask in (CALIBRATE, true_outputs)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_cannot_be_calibrated_or_compared_is_refused(precise, ask, wrong, said):
    CALIBRATE(precise, **ASKED | {"text": TEXT[:20]})  # long enough: n has a token of its own
    true_outputs(replace(precise, W_in=None, b_in=None), *ASKED.values())  # needs no MLP
    changed = {name: value for name, value in wrong.items() if name not in ASKED}
    asked = ASKED | {name: value for name, value in wrong.items() if name in ASKED}
    with pytest.raises(ValueError, match=said):
        ask(replace(precise, **changed), *asked.values())


@pytest.mark.parametrize("name", ["W_E", "W_pos", "W_V", "W_O", "b_V", "b_O", "W_in", "b_in"])
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_never_reach_a_circuit(precise, name, broken):
    damaged = getattr(precise, name).clone()
    damaged.view(-1)[3] = broken
    with pytest.raises(ValueError, match=f"{name} of layer 0: values that are not finite"):
        replace(precise, **{name: damaged})


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(precise, drawn, circuit):
    better = circuit.self_normalised(drawn)
    Circuit, Better, At = type(circuit), type(better), type(circuit.at)
    outputs = cx.destination.true_outputs(precise, drawn, 20)
    calls = [
        (cx.destination.true_outputs, (precise, drawn, 20)),
        (cx.destination.resid_mid, (precise, drawn, 20, outputs)),
        (cx.true_contribution, (precise, drawn, [0, 1], 20)),
        (cx.shared_kernel, (cx.positional_kernels(precise, 20),)),
        (Circuit.weighted_values.func, (circuit,)),
        (Circuit.readout.func, (circuit,)),
        (Circuit.contribution.func, (circuit,)),
        (Circuit.extended_embedding, (circuit, drawn[0])),
        (Circuit.summary, (circuit, drawn)),
        (Circuit.by_source, (circuit, drawn[0], [0, 1])),
        (Circuit.pre_activations, (circuit, drawn)),
        (Circuit.self_normalised, (circuit, list(drawn))),
        (At.kernels.func, (circuit.at,)),
        (At.content.func, (circuit.at,)),
        (At.values, (circuit.at, [2, 0])),
        (At.all_values.func, (circuit.at,)),
        (At.rebuilt_rows, (circuit.at, drawn)),
        (At.rebuilt_outputs, (circuit.at, drawn)),
        (At.denominators, (circuit.at, drawn[:, :21])),
        (At.to_neurons, (circuit.at, drawn, outputs, [0, 1])),
        (Better.summary, (better, drawn)),
        (Better.pre_activations, (better, drawn)),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
