"""The contextual circuit: what goes into it, what it says about a text, and when it is exact."""

from dataclasses import replace
from types import SimpleNamespace

import by_hand
import numpy as np
import pytest
import torch
from by_hand import block_of, calibrated, cases, draw_texts, same
from hypothesis import given

import ctxlib as cx


def circuit_by_hand(circuit, case):
    """The steps of the method, section 4, one number at a time."""
    w, n, heads, text = circuit.at.split.weights, case.n, case.heads, case.texts[0].tolist()
    tokens = by_hand.placed(w, text, n, case.token)
    kernels, denominators, values, extended = [], [], [], 0
    for h in heads:
        q = by_hand.query(w, h, by_hand.what(w, case.token, n))
        kernels.append(by_hand.kernel(w, h, q, n, case.C))
        denominators.append(by_hand.denominator(w, h, text, n, case.token, case.C))
        inside = [
            by_hand.content(w, h, q, n, t) * by_hand.value(w, h, by_hand.what(w, t, n))
            for t in range(len(w.W_E))
        ]
        values.append(torch.stack(inside) / denominators[-1])
        extended += values[-1] @ w.W_O[h]
    scale = by_hand.scale(w, by_hand.between(w, tokens, n, by_hand.outputs(w, tokens, n)))
    return SimpleNamespace(
        kernel=by_hand.shared(kernels),
        denominators=denominators,
        scale=float(scale),
        weighted_values=torch.stack(values, dim=1),
        readout=torch.stack([w.W_O[h] @ w.W_in / scale for h in heads]),
        extended=extended,
        contribution=extended @ w.W_in / scale,
    )


# ---------------------------------------------------------------- calibration


@given(cases())
def test_a_circuit_and_what_it_says_of_texts_are_the_loops(make_weights, case):
    circuit = calibrated(make_weights, case)
    hand, w, n = circuit_by_hand(circuit, case), circuit.at.split.weights, case.n
    asked = tuple(case.heads), n, case.token, case.C
    assert (circuit.heads, circuit.at.n, circuit.at.token, circuit.at.split.C) == asked
    placed = by_hand.placed(w, case.texts[0].tolist(), n, case.token)
    assert circuit.calibration.tolist() == placed
    assert circuit.scale == pytest.approx(hand.scale, rel=1e-9)
    for name in ("kernel", "denominators", "weighted_values", "readout", "contribution"):
        same(getattr(circuit, name), getattr(hand, name))
    same(circuit.extended_embedding(), hand.extended)
    summaries, whole = [], []
    for text in case.texts.tolist():
        terms = [k * hand.contribution[t] for k, t in zip(hand.kernel, text, strict=False)]
        summaries.append(sum(terms))
        own = [by_hand.value(w, h, by_hand.what(w, text[n], n)) for h in range(w.n_heads)]
        others = [own[h] @ w.W_O[h] for h in range(w.n_heads) if h not in case.heads]
        rest = by_hand.between(w, text, n, others)
        whole.append(summaries[-1] + rest @ w.W_in / hand.scale + w.b_in)
    same(circuit.summary(case.texts), torch.stack(summaries))
    same(circuit.pre_activations(case.texts), torch.stack(whole))


def test_a_circuit_is_made_of_the_first_n_tokens_and_of_heads_of_any_kind(here, drawn, circuit):
    labelled = cx.texts.Text("a", "war", "en-GB", "war", "", drawn[0])
    for text, heads in ((drawn[0][:20], torch.tensor([2, 0])), (labelled, np.array([2, 0]))):
        other = cx.ContextualCircuit.calibrate(here, text, heads)
        assert torch.equal(other.calibration, circuit.calibration)
        assert torch.equal(other.denominators, circuit.denominators)
        assert repr(other.heads) == "(2, 0)"


# ---------------------------------------------------------------- when it is exact


@given(cases())
def test_without_positions_circuits_are_exact(make_weights, case):
    """Equation 1 is exact there. The paper's circuit has the rest from its calibration text and is
    exact for that; the self-normalised one for any text and token.
    """
    w, n, heads = block_of(make_weights, case), case.n, case.heads
    w = replace(w, W_pos=w.W_pos[:1].expand_as(w.W_pos))
    at = cx.destination(w, n=n, token=case.token)
    circuit = cx.ContextualCircuit.calibrate(at, case.texts[0], heads)
    own, better = circuit.calibration, circuit.self_normalised()
    same(circuit.summary(own), by_hand.truth(w, own.tolist(), heads, n))
    for text in (own, *case.texts[1:]):
        outputs = by_hand.outputs(w, text.tolist(), n)
        truth, whole = by_hand.neurons(w, text.tolist(), heads, n, outputs)
        same(better.summary(text), truth)
        same(better.pre_activations(text), whole)


# ---------------------------------------------------------------- the self-normalised circuit


def self_normalised_by_hand(w, text, heads, n, C):
    """Rows, outputs of all heads, summary and pre-activations, one source at a time."""
    rows = [by_hand.rebuilt_row(w, h, text, n, C) for h in range(w.n_heads)]
    seen = by_hand.rebuilt(w, text, n, C)
    inside = [[by_hand.value(w, h, x) for x in seen] for h in range(w.n_heads)]
    outputs = [
        by_hand.weighted(row, v) @ W_O for row, v, W_O in zip(rows, inside, w.W_O, strict=True)
    ]
    rows = torch.tensor(rows, dtype=torch.float64)
    return rows, torch.stack(outputs), *by_hand.neurons(w, text, heads, n, outputs)


@given(cases())
def test_the_self_normalised_circuit_is_the_loops(make_weights, case):
    better = calibrated(make_weights, case).self_normalised()
    asked = case.heads, case.n, case.C
    hand = [
        self_normalised_by_hand(better.at.split.weights, x.tolist(), *asked) for x in case.texts
    ]
    of = better.at
    readers = of.split.rows, of.rebuilt_outputs, better.summary, better.pre_activations
    for read, by_text in zip(readers, zip(*hand, strict=True), strict=True):
        same(read(case.texts), torch.stack(by_text))
    weights = of.split.weights
    truth = [by_hand.truth(weights, x, case.heads, case.n) for x in case.texts.tolist()]
    offsets = better.circuit.self_normalised(case.texts).offsets
    same(offsets, (torch.stack(truth) - better.summary(case.texts)).mean(0))


def test_rows_of_scores_beyond_the_range_of_an_exponential_are_rows(tiny_weights, drawn):
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q, b_Q=3000 * tiny_weights.b_Q)
    at = cx.destination(loud, n=20)
    assert at.split.likes.isinf().any()
    rows = at.split.rows(at.placed(drawn))
    torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1]))


def test_offsets_take_the_mean_error_off_every_neuron(circuit, drawn, monkeypatch):
    """Texts may come from a generator, in any batches; without them there are no offsets."""
    plain, better = circuit.self_normalised(), circuit.self_normalised(list(drawn))
    assert plain.offsets.shape == (40,) and not plain.offsets.any()
    same(better.pre_activations(drawn), plain.pre_activations(drawn) + better.offsets)
    monkeypatch.setattr("ctxlib.texts.batching.BATCH", 2)
    same(circuit.self_normalised(text for text in drawn).offsets, better.offsets)


# ---------------------------------------------------------------- what a text is


READERS = {
    "true outputs": lambda c, x: c.at.outputs(x),
    "true contribution": lambda c, x: c.at.truth(x, c.heads),
    "summary": lambda c, x: c.summary(x),
    "pre-activations": lambda c, x: c.pre_activations(x),
    "rows": lambda c, x: c.at.split.rows(x),
    "outputs": lambda c, x: c.at.rebuilt_outputs(x),
    "self-normalised summary": lambda c, x: c.self_normalised().summary(x),
    "self-normalised pre-activations": lambda c, x: c.self_normalised().pre_activations(x),
}
every = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@every
def test_a_text_stands_alone_or_in_a_stack(circuit, drawn, read):
    together = read(circuit, drawn)
    same(torch.stack([read(circuit, text) for text in drawn]), together)
    same(read(circuit, drawn[:4].view(2, 2, 32)), together[:4].unflatten(0, (2, 2)))


@every
def test_reading_changes_neither_the_weights_nor_the_circuit(precise, here, drawn, read):
    """Steps that save memory work in place: on what they made themselves."""
    circuit = cx.ContextualCircuit.calibrate(here, drawn[0], [2, 0])
    held = [v for o in (precise, circuit) for v in vars(o).values() if isinstance(v, torch.Tensor)]
    before = [v.clone() for v in held]
    once = read(circuit, drawn)
    assert all(map(torch.equal, held, before))
    assert torch.equal(read(circuit, drawn), once)


# ---------------------------------------------------------------- what is refused


@every
def test_a_text_that_is_too_short_or_has_strange_ids_is_refused(circuit, drawn, read):
    with pytest.raises(ValueError, match=r"destination 20 lies outside the text.*0 to 19"):
        read(circuit, drawn[:, :20])
    for stranger in (-1, 300):
        with pytest.raises(ValueError, match="ids 0 to 299"):
            read(circuit, torch.tensor([*range(9), stranger, *range(20)]))


TEXT = draw_texts(1, 32, 300)[0]
LABELLED = cx.texts.Text("a", "war", "en-GB", "war", "", TEXT)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda c: c.summary(TEXT[:20]), "destination 20 lies outside the text"),
        *((lambda c, x=x: c.self_normalised(x), "put it in brackets") for x in (TEXT, LABELLED)),
        (
            lambda c: c.self_normalised([TEXT, TEXT[:20]]),
            r"a text of 20 tokens is too short.*at least 21",
        ),
    ],
)
def test_what_a_circuit_cannot_say_is_refused(circuit, ask, said):
    with pytest.raises(ValueError, match=said):
        ask(circuit)


ASKED = {"text": TEXT, "heads": [0], "n": 20, "token": " the", "C": None}
REFUSED = [  # by calibration and by comparison; for n, token and C see the table of test_split
    ("no heads", {"heads": ()}),
    *(("heads 0 to 2", {"heads": heads}) for heads in ((0, 3), (-1,))),
    ("there twice", {"heads": (1, 1)}),
    ("without the MLP", {"W_in": None, "b_in": None}),
    *(("without token embeddings", {"W_E": None} | more) for more in ({}, {"token": 5, "C": 1.0})),
    ("layer 1", {"layer": 1}),
]
NOT_CALIBRATED = [
    ("a text of 19 tokens is too short for the destination 20", {"text": TEXT[:19]}),
    ("without a tokenizer", {"tokenizer": None}),
]


@pytest.mark.parametrize(("said", "wrong"), [*REFUSED, *NOT_CALIBRATED])
def test_what_cannot_be_calibrated_or_compared_is_refused(precise, said, wrong):
    def calibrate(at, asked):
        return cx.ContextualCircuit.calibrate(at, asked["text"], asked["heads"])

    def at(weights, asked):
        return cx.destination(weights, **{k: asked[k] for k in ("n", "token", "C")})

    # long enough: n has a token of its own
    calibrate(at(precise, ASKED), ASKED | {"text": TEXT[:20]})
    weights = replace(precise, **{k: v for k, v in wrong.items() if k not in ASKED})
    asked = ASKED | {k: v for k, v in wrong.items() if k in ASKED}
    with pytest.raises(ValueError, match=said):
        calibrate(at(weights, asked), asked)
    if (said, wrong) in REFUSED:
        with pytest.raises(ValueError, match=said):
            at(weights, asked).truth(TEXT, asked["heads"])
