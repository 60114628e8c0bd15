"""The contextual circuit: what goes into it, and its summary of a text."""

from dataclasses import replace

import by_hand
import torch
from by_hand import calibrated, cases, same
from hypothesis import given

import ctxlib as cx


@given(cases())
def test_a_circuit_and_its_summaries_of_texts_are_the_loops(make_weights, case):
    """The steps of the method, section 4, one number at a time."""
    circuit = calibrated(make_weights, case)
    w, n, heads = circuit.fixed.decomposition.weights, case.n, case.heads
    arguments = tuple(heads), n, case.token, case.C
    assert (
        circuit.heads,
        circuit.fixed.n,
        circuit.fixed.token,
        circuit.fixed.decomposition.C,
    ) == arguments
    placed = by_hand.crop(w, case.texts[0].tolist(), n, case.token)
    assert circuit.calibration.tolist() == placed
    # what stands at the destination and behind it, `b_K` and other texts do not come into it
    of_texts = [
        [by_hand.denominator(w, h, text, *arguments[1:]) for h in range(w.n_heads)]
        for text in [placed, *case.texts.tolist()]
    ]
    denominators = [of_texts[0][h] for h in heads]
    kernels, values, extended = [], [], 0
    for h, denominator in zip(heads, denominators, strict=True):
        q = by_hand.query(w, h, by_hand.content_component(w, case.token, n))
        kernels.append(by_hand.kernel(w, h, q, n, case.C))
        inside = [
            by_hand.content(w, h, q, n, t) * by_hand.value(w, h, by_hand.content_component(w, t, n))
            for t in range(len(w.W_E))
        ]
        values.append(torch.stack(inside) / denominator)
        extended += values[-1] @ w.W_O[h]
    outputs = by_hand.head_outputs(w, placed, n)
    scale = by_hand.scale(w, by_hand.resid_mid(w, placed, n, outputs))
    kernel, contribution = by_hand.shared(kernels), extended @ w.W_in / scale
    same(circuit.kernel, kernel)
    same(circuit.denominators, denominators)
    same(cx.softmax_denominators(circuit.fixed, case.texts), of_texts[1:])
    same(circuit.weighted_values, torch.stack(values, dim=1))
    same(circuit.readout, torch.stack([w.W_O[h] @ w.W_in / scale for h in heads]))
    same(circuit.extended_embedding(), extended)
    same(circuit.contribution, contribution)
    summaries, whole = [], []
    for text in case.texts.tolist():
        terms = [k * contribution[t] for k, t in zip(kernel, text, strict=False)]
        summaries.append(sum(terms))
        own = [
            by_hand.value(w, h, by_hand.content_component(w, text[n], n)) for h in range(w.n_heads)
        ]
        others = [own[h] @ w.W_O[h] for h in range(w.n_heads) if h not in case.heads]
        rest = by_hand.resid_mid(w, text, n, others)
        whole.append(summaries[-1] + rest @ w.W_in / scale + w.b_in)
    same(circuit.summary(case.texts), torch.stack(summaries))
    same(circuit.pre_activations(case.texts), torch.stack(whole))


@given(cases())
def test_a_centred_circuits_constant_is_the_calibration_texts_mean(make_weights, case):
    """A borrowed denominator then scales what differs from that text alone."""
    circuit = calibrated(make_weights, case)
    w, n, heads = circuit.fixed.decomposition.weights, case.n, case.heads
    placed, better = circuit.calibration.tolist(), circuit.centered()
    by_token = []
    for k, h in enumerate(heads):
        q = by_hand.query(w, h, by_hand.content_component(w, case.token, n))
        content = [by_hand.content(w, h, q, n, t) for t in range(len(w.W_E))]
        values = [
            by_hand.value(w, h, by_hand.content_component(w, t, n)) for t in range(len(w.W_E))
        ]
        weight = [float(p) * content[t] for p, t in zip(circuit.kernel, placed, strict=True)]
        mean = by_hand.weighted(weight, [values[t] for t in placed]) / sum(weight)
        share = [c / circuit.denominators[k] for c in content]
        by_token.append(
            torch.stack([s * (v - mean) + mean for s, v in zip(share, values, strict=True)])
        )
    same(better.weighted_values, torch.stack(by_token, dim=1))
    same(circuit.weighted_values, calibrated(make_weights, case).weighted_values)


# ---------------------------------------------------------------- the self-normalised circuit


def self_normalized_by_hand(w, text, heads, n, C):
    """Rows, outputs of all heads, summary and pre-activations, one source at a time."""
    rows = [by_hand.approx_row(w, h, text, n, C) for h in range(w.n_heads)]
    seen = by_hand.approx_resid(w, text, n, C)
    inside = [[by_hand.value(w, h, x) for x in seen] for h in range(w.n_heads)]
    outputs = [
        by_hand.weighted(row, v) @ W_O for row, v, W_O in zip(rows, inside, w.W_O, strict=True)
    ]
    rows = torch.tensor(rows, dtype=torch.float64)
    return rows, torch.stack(outputs), *by_hand.neurons(w, text, heads, n, outputs)


@given(cases())
def test_the_self_normalised_circuit_is_the_loops(make_weights, case):
    better = calibrated(make_weights, case).self_normalized()
    arguments = case.heads, case.n, case.C
    hand = [
        self_normalized_by_hand(better.fixed.decomposition.weights, x.tolist(), *arguments)
        for x in case.texts
    ]
    of = better.fixed
    readers = of.decomposition.rows, of.approx_head_outputs, better.summary, better.pre_activations
    for read, by_text in zip(readers, zip(*hand, strict=True), strict=True):
        same(read(case.texts), torch.stack(by_text))


def test_rows_of_scores_beyond_the_range_of_an_exponential_are_rows(tiny_weights, drawn):
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q, b_Q=3000 * tiny_weights.b_Q)
    fixed = cx.fix_query(loud, n=20)
    assert fixed.decomposition.content.isinf().any()
    rows = fixed.decomposition.rows(fixed.prepare(drawn))
    torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1]))
