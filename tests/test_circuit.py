"""The contextual circuit: what goes into it, what it says about a text, and when it is exact."""

import math
import statistics
from dataclasses import FrozenInstanceError, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped

import ctxlib as cx

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # float32

seeds, norms = st.integers(0, 999), st.floats(0.3, 20)


@st.composite
def cases(draw_from):
    """Sizes of a block, heads in any order, a destination, its token, and C."""
    n_heads, n_ctx, vocab = (draw_from(st.integers(*r)) for r in ((1, 4), (2, 7), (2, 9)))
    sizes = {
        "seed": draw_from(seeds),
        "n_heads": n_heads,
        "d_head": draw_from(st.integers(2, 4)),
        "n_ctx": n_ctx,
        "vocab": vocab,
        "d_mlp": draw_from(st.integers(1, 5)),
    }
    heads = draw_from(st.permutations(range(n_heads)))[: draw_from(st.integers(1, n_heads))]
    n, token = draw_from(st.integers(0, n_ctx - 1)), draw_from(st.integers(0, vocab - 1))
    return SimpleNamespace(sizes=sizes, heads=heads, n=n, token=token, C=draw_from(norms))


def draw_texts(count, length, vocab, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (count, length), generator=source)


def draw(*shape, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def flat(weights):
    """The same weights with one position vector everywhere: only content tells tokens apart."""
    return replace(weights, W_pos=weights.W_pos[:1].expand_as(weights.W_pos))


@pytest.fixture(scope="module")
def precise(tiny_weights):
    return tiny_weights.to(torch.float64)


@pytest.fixture(scope="module")
def drawn():
    """Five texts that fill the context of `tiny`."""
    return draw_texts(5, 32, 300)


@pytest.fixture(scope="module")
def circuit(precise, drawn):
    return cx.ContextualCircuit.calibrate(precise, drawn[0], [2, 0], 20)


def with_token(texts, circuit):
    """The texts as calibration reads them: the circuit's token at n, nothing behind it."""
    cut = texts[..., : circuit.n + 1].clone()
    cut[..., circuit.n] = circuit.token
    return cut


# ---------------------------------------------------------------- the same by loops


def norm(weights, v):
    return v / ((v @ v) / weights.d_model + weights.eps).sqrt()


def scale_of(weights, v):
    return ((v @ v) / weights.d_model + weights.eps).sqrt()


def outputs_by_hand(weights, text, n):
    """What each head writes at n: softmax over sources, one key and one value at a time."""
    x = [norm(weights, weights.W_E[t] + weights.W_pos[i]) for i, t in enumerate(text[: n + 1])]
    outputs = []
    for h in range(weights.n_heads):
        q = x[n] @ weights.W_Q[h] + weights.b_Q[h]
        keys = [v @ weights.W_K[h] + weights.b_K[h] for v in x]
        values = [v @ weights.W_V[h] + weights.b_V[h] for v in x]
        exps = [math.exp(q @ key / weights.attn_scale) for key in keys]
        z = sum(e * value for e, value in zip(exps, values, strict=True)) / sum(exps)
        outputs.append(z @ weights.W_O[h])
    return torch.stack(outputs)


def between_by_hand(weights, text, n, outputs):
    """The residual stream between attention and MLP."""
    return weights.W_E[text[n]] + weights.W_pos[n] + sum(outputs) + weights.b_O


def truth_by_hand(weights, text, heads, n):
    outputs = outputs_by_hand(weights, text, n)
    s = scale_of(weights, between_by_hand(weights, text, n, outputs))
    return sum(outputs[h] for h in heads) @ weights.W_in / s


def kernel_by_hand(weights, h, n, token, C):
    q = norm(weights, weights.W_E[token] + weights.W_pos[n]) @ weights.W_Q[h] + weights.b_Q[h]
    there, exps = weights.W_pos[n], []
    for here in weights.W_pos[: n + 1]:
        key = weights.d_model**0.5 * (here - there) @ weights.W_K[h] / math.hypot(here.norm(), C)
        exps.append(math.exp(q @ key / weights.attn_scale))
    return [e / sum(exps) for e in exps]


def content_by_hand(weights, h, n, token, t):
    q = norm(weights, weights.W_E[token] + weights.W_pos[n]) @ weights.W_Q[h] + weights.b_Q[h]
    key = norm(weights, weights.W_E[t] + weights.W_pos[n]) @ weights.W_K[h]
    return math.exp(q @ key / weights.attn_scale)


def circuit_by_hand(weights, text, heads, n, token, C):
    """The steps of the method, section 4, one number at a time."""
    tokens = [*text[:n], token]
    kernels = [kernel_by_hand(weights, h, n, token, C) for h in heads]
    denominators = [
        sum(
            pos * content_by_hand(weights, h, n, token, t) for pos, t in zip(k, tokens, strict=True)
        )
        for h, k in zip(heads, kernels, strict=True)
    ]
    medians = [statistics.median(k[i] for k in kernels) for i in range(n + 1)]
    outputs = outputs_by_hand(weights, tokens, n)
    scale = float(scale_of(weights, between_by_hand(weights, tokens, n, outputs)))
    values, extended, contribution = [], [], []
    for t in range(len(weights.W_E)):
        at = norm(weights, weights.W_E[t] + weights.W_pos[n])
        inside = [
            content_by_hand(weights, h, n, token, t)
            / denominator
            * (at @ weights.W_V[h] + weights.b_V[h])
            for h, denominator in zip(heads, denominators, strict=True)
        ]
        ext = sum(v @ weights.W_O[h] for v, h in zip(inside, heads, strict=True))
        values.append(torch.stack(inside))
        extended.append(ext)
        contribution.append(ext @ weights.W_in / scale)
    return SimpleNamespace(
        calibration=torch.tensor(tokens),
        kernel=torch.tensor([m / sum(medians) for m in medians], dtype=torch.float64),
        denominators=torch.tensor(denominators, dtype=torch.float64),
        scale=scale,
        weighted_values=torch.stack(values),
        extended=torch.stack(extended),
        contribution=torch.stack(contribution),
    )


def summary_by_hand(hand, text):
    return sum(pos * hand.contribution[t] for pos, t in zip(hand.kernel, text, strict=False))


# ---------------------------------------------------------------- the truth, against the model


@pytest.fixture(scope="module")
def hooks(tiny, drawn):
    with torch.inference_mode():
        _, cache = tiny.run_with_cache(drawn)
    return {name: cache[name].clone() for name in cache}


@pytest.mark.parametrize("n", [0, 7, 31])
def test_outputs_are_what_the_model_writes(tiny, tiny_weights, drawn, hooks, n):
    outputs = cx.destination.true_outputs(tiny_weights, drawn, n)
    assert outputs.shape == (5, 3, 24)
    z = hooks["blocks.0.attn.hook_z"]
    for text in range(5):
        for h in range(3):
            near(outputs[text, h], z[text, n, h] @ tiny.W_O[0, h])
    near(outputs.sum(1) + tiny_weights.b_O, hooks["blocks.0.hook_attn_out"][:, n])


@pytest.mark.parametrize("n", [0, 7, 31])
def test_the_residual_stream_between_is_the_models(tiny_weights, drawn, hooks, n):
    between = cx.destination.resid_mid(
        tiny_weights, drawn, n, cx.destination.true_outputs(tiny_weights, drawn, n)
    )
    near(between, hooks["blocks.0.hook_resid_mid"][:, n])


@pytest.mark.parametrize("heads", [[0], [2, 0], [0, 1, 2]])
@pytest.mark.parametrize("n", [0, 7, 31])
def test_the_true_contribution_is_the_heads_part_of_the_pre_activation(
    tiny, tiny_weights, drawn, hooks, heads, n
):
    """Taking the heads out of the stream, at the scale that the model measured, leaves the rest."""
    contribution = cx.true_contribution(tiny_weights, drawn, heads, n)
    z, scale = hooks["blocks.0.attn.hook_z"][:, n], hooks["blocks.0.ln2.hook_scale"][:, n]
    part = sum(z[:, h] @ tiny.W_O[0, h] for h in heads)
    near(contribution, part @ tiny.W_in[0] / scale)
    rest = (hooks["blocks.0.hook_resid_mid"][:, n] - part) / scale @ tiny.W_in[0] + tiny.b_in[0]
    near(contribution + rest, hooks["blocks.0.mlp.hook_pre"][:, n])


def test_the_truth_on_mini_is_the_models(mini, mini_weights, mini_tokens):
    with torch.inference_mode():
        _, cache = mini.run_with_cache(mini_tokens[None])
    n, heads = 90, [1, 5]
    z, scale = cache["blocks.0.attn.hook_z"][0, n], cache["blocks.0.ln2.hook_scale"][0, n]
    part = sum(z[h] @ mini.W_O[0, h] for h in heads)
    near(
        cx.true_contribution(mini_weights, mini_tokens, heads, n),
        part @ mini.W_in[0] / scale,
        atol=1e-4,
    )


# ---------------------------------------------------------------- the truth, against loops


@given(cases())
def test_outputs_are_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    texts = draw_texts(2, case.sizes["n_ctx"], case.sizes["vocab"])
    by_hand = torch.stack([outputs_by_hand(weights, x.tolist(), case.n) for x in texts])
    same(cx.destination.true_outputs(weights, texts, case.n), by_hand)
    same(cx.destination.true_outputs(weights, texts[1], case.n), by_hand[1])


@given(cases(), st.floats(0.5, 3))
def test_scores_are_divided_by_what_the_weights_say(make_weights, case, divisor):
    weights = replace(make_weights(**case.sizes), attn_scale=divisor)
    text = draw_texts(1, case.sizes["n_ctx"], case.sizes["vocab"])[0]
    same(
        cx.destination.true_outputs(weights, text, case.n),
        outputs_by_hand(weights, text.tolist(), case.n),
    )
    circuit = cx.ContextualCircuit.calibrate(weights, text, case.heads, case.n, case.token, case.C)
    hand = circuit_by_hand(weights, text.tolist(), case.heads, case.n, case.token, case.C)
    same(circuit.contribution, hand.contribution)


@given(cases())
def test_the_residual_stream_between_is_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    texts = draw_texts(2, case.sizes["n_ctx"], case.sizes["vocab"])
    outputs = draw(2, case.sizes["n_heads"], weights.d_model, seed=case.n)  # any will do
    by_hand = [
        between_by_hand(weights, x.tolist(), case.n, o) for x, o in zip(texts, outputs, strict=True)
    ]
    same(cx.destination.resid_mid(weights, texts, case.n, outputs), torch.stack(by_hand))
    same(cx.destination.resid_mid(weights, texts[0], case.n, outputs[0]), by_hand[0])


@given(cases())
def test_the_true_contribution_is_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    texts = draw_texts(2, case.sizes["n_ctx"], case.sizes["vocab"])
    by_hand = [truth_by_hand(weights, x.tolist(), case.heads, case.n) for x in texts]
    same(cx.true_contribution(weights, texts, case.heads, case.n), torch.stack(by_hand))
    same(cx.true_contribution(weights, texts[0], case.heads, case.n), by_hand[0])


def test_true_contributions_of_heads_add_up(precise, drawn):
    alone = [cx.true_contribution(precise, drawn, [h], 20) for h in range(3)]
    same(cx.true_contribution(precise, drawn, [0, 1, 2], 20), sum(alone))


# ---------------------------------------------------------------- calibration


@given(cases())
def test_calibration_is_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    text = draw_texts(1, case.sizes["n_ctx"], case.sizes["vocab"])[0]
    asked = weights, text, case.heads, case.n, case.token, case.C
    circuit = cx.ContextualCircuit.calibrate(*asked)
    hand = circuit_by_hand(weights, text.tolist(), *asked[2:])
    assert circuit.weights is weights
    assert circuit.heads == tuple(case.heads)
    assert (circuit.n, circuit.token, circuit.C) == (case.n, case.token, case.C)
    assert torch.equal(circuit.calibration, hand.calibration)
    same(circuit.kernel, hand.kernel)
    same(circuit.denominators, hand.denominators)
    assert circuit.scale == pytest.approx(hand.scale, rel=1e-9)


def test_the_destination_the_token_and_C_have_defaults(precise, drawn):
    asked = cx.ContextualCircuit.calibrate(
        precise,
        drawn[0],
        [0],
        16,
        precise.token_id(" the"),
        precise.W_E.norm(dim=1).median().item(),
    )
    left = cx.ContextualCircuit.calibrate(precise, drawn[0], [0])
    assert (left.n, left.token, left.C) == (asked.n, asked.token, asked.C)
    assert torch.equal(left.contribution, asked.contribution)
    assert precise.tokenizer.decode([left.token]) == " the"


def test_only_the_first_n_tokens_of_the_calibration_text_count(precise, drawn):
    long = cx.ContextualCircuit.calibrate(precise, drawn[0], [0, 1], 20)
    short = cx.ContextualCircuit.calibrate(precise, drawn[0][:20], [0, 1], 20)
    assert torch.equal(long.calibration, short.calibration)
    assert torch.equal(long.denominators, short.denominators)
    assert long.scale == short.scale


def test_a_labelled_text_calibrates_as_its_tokens_do(precise, drawn):
    text = cx.texts.Text("a", "war", "en-GB", "war", "", drawn[1])
    labelled = cx.ContextualCircuit.calibrate(precise, text, [0], 20)
    assert torch.equal(
        labelled.denominators,
        cx.ContextualCircuit.calibrate(precise, drawn[1], [0], 20).denominators,
    )


@pytest.mark.parametrize("heads", [[2, 0], (2, 0), torch.tensor([2, 0]), np.array([2, 0])])
def test_heads_are_kept_as_whole_numbers_in_their_order(precise, drawn, heads):
    circuit = cx.ContextualCircuit.calibrate(precise, drawn[0], heads, 20)
    assert circuit.heads == (2, 0)
    assert {type(h) for h in circuit.heads} == {int}


def test_the_order_of_the_heads_changes_no_summary(precise, drawn, circuit):
    other = cx.ContextualCircuit.calibrate(precise, drawn[0], [0, 2], 20)
    same(other.summary(drawn), circuit.summary(drawn))


def test_b_K_changes_nothing(precise, drawn, circuit):
    other = cx.ContextualCircuit.calibrate(
        replace(precise, b_K=precise.b_K + 3), drawn[0], [2, 0], 20
    )
    same(other.contribution, circuit.contribution)
    same(
        cx.true_contribution(other.weights, drawn, [2, 0], 20),
        cx.true_contribution(precise, drawn, [2, 0], 20),
    )


def test_a_circuit_cannot_be_changed(circuit):
    with pytest.raises(FrozenInstanceError):
        circuit.scale = 2.0


# ---------------------------------------------------------------- one kernel for all heads


@given(seeds, st.integers(1, 6), st.integers(1, 9))
def test_the_shared_kernel_is_the_renormalised_median(seed, n_heads, sources):
    kernels = draw(n_heads, sources, seed=seed).softmax(-1)
    medians = [statistics.median(kernels[:, i].tolist()) for i in range(sources)]
    by_hand = torch.tensor(medians, dtype=torch.float64) / sum(medians)
    shared = cx.shared_kernel(kernels)
    same(shared, by_hand)
    same(shared.sum(), torch.tensor(1.0, dtype=torch.float64))


def test_one_head_shares_its_kernel_with_itself():
    kernel = draw(1, 9).softmax(-1)
    same(cx.shared_kernel(kernel), kernel[0])


def test_an_even_number_of_heads_has_the_mean_of_the_middle_ones():
    kernels = torch.tensor([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9], [0.2, 0.8]], dtype=torch.float64)
    same(cx.shared_kernel(kernels), torch.tensor([0.4, 0.6], dtype=torch.float64))


def test_the_order_of_the_heads_changes_no_shared_kernel():
    kernels = draw(4, 9).softmax(-1)
    assert torch.equal(cx.shared_kernel(kernels[[2, 0, 3, 1]]), cx.shared_kernel(kernels))


def test_kernels_of_many_destinations_are_shared_one_by_one():
    kernels = draw(3, 5, 9).softmax(-1)
    together = cx.shared_kernel(kernels)
    same(together, torch.stack([cx.shared_kernel(kernels[:, d]) for d in range(5)]))


# ---------------------------------------------------------------- what a token puts in


@given(cases())
def test_what_a_token_puts_in_is_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    text = draw_texts(1, case.sizes["n_ctx"], case.sizes["vocab"])[0]
    asked = weights, text, case.heads, case.n, case.token, case.C
    circuit, hand = (
        cx.ContextualCircuit.calibrate(*asked),
        circuit_by_hand(weights, text.tolist(), *asked[2:]),
    )
    same(circuit.weighted_values, hand.weighted_values)
    same(circuit.extended_embedding(), hand.extended)
    same(circuit.contribution, hand.contribution)
    for number, h in enumerate(case.heads):
        same(circuit.readout[number], weights.W_O[h] @ weights.W_in / hand.scale)


def test_extended_embeddings_of_some_tokens_are_rows_of_all(circuit):
    some = torch.tensor([7, 0, 299, 7])
    same(circuit.extended_embedding(some), circuit.extended_embedding()[some])


def test_a_contribution_is_what_the_neuron_reads_from_the_extended_embedding(circuit):
    read = circuit.extended_embedding() @ circuit.weights.W_in / circuit.scale
    same(circuit.contribution, read)


def test_a_twice_as_large_denominator_halves_what_its_head_puts_in(circuit):
    halved = replace(circuit, denominators=circuit.denominators * torch.tensor([2.0, 1.0]))
    same(2 * halved.weighted_values[:, 0], circuit.weighted_values[:, 0])
    same(halved.weighted_values[:, 1], circuit.weighted_values[:, 1])


def test_a_twice_as_large_scale_halves_every_contribution(circuit):
    same(2 * replace(circuit, scale=2 * circuit.scale).contribution, circuit.contribution)


# ---------------------------------------------------------------- the summary of a text


@given(cases())
def test_the_summary_is_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    texts = draw_texts(3, case.sizes["n_ctx"], case.sizes["vocab"])
    asked = weights, texts[0], case.heads, case.n, case.token, case.C
    circuit, hand = (
        cx.ContextualCircuit.calibrate(*asked),
        circuit_by_hand(weights, texts[0].tolist(), *asked[2:]),
    )
    by_hand = [summary_by_hand(hand, text.tolist()) for text in texts]
    same(circuit.summary(texts), torch.stack(by_hand))
    same(circuit.summary(texts[1]), by_hand[1])


@given(cases())
def test_the_terms_of_the_summary_are_the_loops_and_add_up(make_weights, case):
    weights = make_weights(**case.sizes)
    texts = draw_texts(2, case.sizes["n_ctx"], case.sizes["vocab"])
    asked = weights, texts[0], case.heads, case.n, case.token, case.C
    circuit = cx.ContextualCircuit.calibrate(*asked)
    hand = circuit_by_hand(weights, texts[0].tolist(), *asked[2:])
    neurons = [case.sizes["d_mlp"] - 1, 0]
    terms = circuit.by_source(texts[1], neurons)
    assert terms.shape == (case.n + 1, 2)
    for i, t in enumerate(texts[1][: case.n + 1].tolist()):
        same(terms[i], hand.kernel[i] * hand.contribution[t][neurons])
    same(terms.sum(0), circuit.summary(texts[1])[neurons])


@given(seeds, st.floats(-2, 2), st.floats(-2, 2))
def test_the_summary_is_linear_in_the_kernel(circuit, drawn, seed, a, b):
    one, two = draw(2, 21, seed=seed).softmax(-1)
    mixed, *parts = (
        replace(circuit, kernel=k).summary(drawn) for k in (a * one + b * two, one, two)
    )
    same(mixed, a * parts[0] + b * parts[1])


def test_summaries_of_single_heads_add_up_where_they_share_a_kernel(precise, drawn, circuit):
    alone = [cx.ContextualCircuit.calibrate(precise, drawn[0], [h], 20) for h in (2, 0)]
    parts = [replace(one, kernel=circuit.kernel).summary(drawn) for one in alone]
    same(circuit.summary(drawn), sum(parts))


def test_a_text_of_one_token_has_the_contribution_of_that_token(circuit):
    same(circuit.summary(torch.full((21,), 9)), circuit.contribution[9])


@given(cases())
def test_pre_activations_are_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    texts = draw_texts(2, case.sizes["n_ctx"], case.sizes["vocab"])
    asked = weights, texts[0], case.heads, case.n, case.token, case.C
    circuit = cx.ContextualCircuit.calibrate(*asked)
    hand = circuit_by_hand(weights, texts[0].tolist(), *asked[2:])
    by_hand = []
    for text in texts.tolist():
        here = weights.W_E[text[case.n]] + weights.W_pos[case.n]
        rest = here + weights.b_O
        for h in set(range(weights.n_heads)) - set(case.heads):
            rest = rest + (norm(weights, here) @ weights.W_V[h] + weights.b_V[h]) @ weights.W_O[h]
        by_hand.append(
            summary_by_hand(hand, text) + rest @ weights.W_in / hand.scale + weights.b_in
        )
    same(circuit.pre_activations(texts), torch.stack(by_hand))
    same(circuit.pre_activations(texts[1]), by_hand[1])


# ---------------------------------------------------------------- when it is exact


@given(seeds, st.integers(1, 4), st.data())
def test_without_positions_the_summary_of_the_calibration_text_is_the_truth(
    make_weights, seed, n_heads, data
):
    """Equation 1 is exact there and every kernel even; the rest was measured on this very text."""
    weights = flat(make_weights(seed, n_heads))
    heads = data.draw(st.sets(st.integers(0, n_heads - 1), min_size=1))
    n, token = data.draw(st.integers(0, 11)), data.draw(st.integers(0, 19))
    text = draw_texts(1, 12, 20, seed)[0]
    circuit = cx.ContextualCircuit.calibrate(weights, text, sorted(heads), n, token)
    same(circuit.kernel, torch.full((n + 1,), 1 / (n + 1), dtype=torch.float64))
    truth = truth_by_hand(weights, circuit.calibration.tolist(), heads, n)
    same(circuit.summary(circuit.calibration), truth)


@given(seeds, st.integers(1, 4), st.integers(0, 11))
def test_without_positions_all_heads_give_the_calibration_texts_pre_activations(
    make_weights, seed, n_heads, n
):
    weights = flat(make_weights(seed, n_heads))
    text = draw_texts(1, 12, 20, seed)[0]
    circuit = cx.ContextualCircuit.calibrate(weights, text, range(n_heads), n, 3)
    tokens = circuit.calibration.tolist()
    between = between_by_hand(weights, tokens, n, outputs_by_hand(weights, tokens, n))
    whole = norm(weights, between) @ weights.W_in + weights.b_in
    same(circuit.pre_activations(circuit.calibration), whole)


def test_with_positions_it_is_an_approximation(circuit):
    """Or else the two tests above would hold of anything."""
    truth = cx.true_contribution(circuit.weights, circuit.calibration, circuit.heads, 20)
    assert (circuit.summary(circuit.calibration) - truth).abs().max() > 1e-3


def test_at_position_0_the_calibration_text_is_one_token_and_exact(precise, drawn):
    circuit = cx.ContextualCircuit.calibrate(precise, drawn[0], [0, 1, 2], 0)
    assert circuit.calibration.tolist() == [circuit.token]
    same(
        circuit.summary(circuit.calibration),
        truth_by_hand(precise, [circuit.token], [0, 1, 2], 0),
    )


# ---------------------------------------------------------------- the self-normalised circuit


def self_normalised_by_hand(weights, text, heads, n, C):
    """Rows, outputs of all heads, summary and pre-activations, one source at a time."""
    there, rows, outputs = weights.W_pos[n], [], []
    own = norm(weights, weights.W_E[text[n]] + there)
    for h in range(weights.n_heads):
        q = own @ weights.W_Q[h] + weights.b_Q[h]
        exps, values = [], []
        for i in range(n + 1):
            here = weights.W_pos[i]
            what = norm(weights, weights.W_E[text[i]] + there)
            where = weights.d_model**0.5 * (here - there) / math.hypot(here.norm(), C)
            exps.append(math.exp(q @ ((what + where) @ weights.W_K[h]) / weights.attn_scale))
            values.append((what + where) @ weights.W_V[h] + weights.b_V[h])
        rows.append([e / sum(exps) for e in exps])
        outputs.append(sum(a * v for a, v in zip(rows[h], values, strict=True)) @ weights.W_O[h])
    between = between_by_hand(weights, text, n, outputs)
    s = scale_of(weights, between)
    return SimpleNamespace(
        rows=torch.tensor(rows, dtype=torch.float64),
        outputs=torch.stack(outputs),
        summary=sum(outputs[h] for h in heads) @ weights.W_in / s,
        pre=between / s @ weights.W_in + weights.b_in,
    )


@given(cases(), seeds)
def test_the_self_normalised_circuit_is_the_loops(make_weights, case, seed):
    weights = make_weights(**case.sizes)
    texts = draw_texts(2, case.sizes["n_ctx"], case.sizes["vocab"], seed)
    circuit = cx.ContextualCircuit.calibrate(
        weights, texts[0], case.heads, case.n, case.token, case.C
    ).self_normalised()
    by_hand = [
        self_normalised_by_hand(weights, x.tolist(), case.heads, case.n, case.C) for x in texts
    ]
    same(circuit.at.rebuilt_rows(texts), torch.stack([hand.rows for hand in by_hand]))
    same(circuit.at.rebuilt_outputs(texts), torch.stack([hand.outputs for hand in by_hand]))
    same(circuit.summary(texts), torch.stack([hand.summary for hand in by_hand]))
    same(circuit.pre_activations(texts), torch.stack([hand.pre for hand in by_hand]))
    same(circuit.summary(texts[1]), by_hand[1].summary)
    same(circuit.pre_activations(texts[1]), by_hand[1].pre)


@given(seeds, st.integers(1, 4), st.data())
def test_without_positions_it_is_the_truth_for_any_text_and_token(
    make_weights, seed, n_heads, data
):
    weights = flat(make_weights(seed, n_heads))
    heads = sorted(data.draw(st.sets(st.integers(0, n_heads - 1), min_size=1)))
    n = data.draw(st.integers(0, 11))
    calibration, *texts = draw_texts(4, 12, 20, seed)
    circuit = cx.ContextualCircuit.calibrate(weights, calibration, heads, n, 3).self_normalised()
    for text in texts:
        tokens = text.tolist()
        outputs = outputs_by_hand(weights, tokens, n)
        same(circuit.at.rebuilt_outputs(text), outputs)
        same(circuit.summary(text), truth_by_hand(weights, tokens, heads, n))
        whole = norm(weights, between_by_hand(weights, tokens, n, outputs)) @ weights.W_in
        same(circuit.pre_activations(text), whole + weights.b_in)


@given(cases())
def test_positional_values_are_the_loops(make_weights, case):
    weights = make_weights(**case.sizes)
    values = cx.split.where(weights, weights.W_V, case.n, case.C)
    there = weights.W_pos[case.n]
    assert values.shape == (weights.n_heads, case.n + 1, weights.d_head)
    for h in range(weights.n_heads):
        for i, here in enumerate(weights.W_pos[: case.n + 1]):
            shift = weights.d_model**0.5 * (here - there) / math.hypot(here.norm(), case.C)
            same(values[h, i], shift @ weights.W_V[h])
    assert not values[:, case.n].any(), "the destination is where it is"


def test_rows_of_scores_beyond_the_range_of_an_exponential_are_rows(tiny_weights, drawn):
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q, b_Q=3000 * tiny_weights.b_Q)
    here = cx.destination.FromWeights.of(loud, 20)
    assert here.likes.isinf().any()
    rows = here.rebuilt_rows(cx.texts.at(loud, drawn, 20))
    torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1]))


def test_without_texts_there_are_no_offsets(circuit):
    plain = circuit.self_normalised()
    assert plain.offsets.shape == (40,)
    assert not plain.offsets.any()


def test_offsets_take_the_mean_error_off_every_neuron(circuit, drawn):
    plain, better = circuit.self_normalised(), circuit.self_normalised(drawn)
    truth = torch.stack([truth_by_hand(circuit.weights, x.tolist(), [2, 0], 20) for x in drawn])
    same(better.offsets, (truth - plain.summary(drawn)).mean(0))
    same(better.summary(drawn).mean(0), truth.mean(0))
    same(better.pre_activations(drawn), plain.pre_activations(drawn) + better.offsets)


def test_texts_for_offsets_may_come_from_a_generator_and_in_any_batches(
    circuit, drawn, monkeypatch
):
    whole = circuit.self_normalised(list(drawn)).offsets
    monkeypatch.setattr(cx.texts, "BATCH", 2)
    same(circuit.self_normalised(text for text in drawn).offsets, whole)


def test_it_says_what_it_was_made_from(circuit):
    better = circuit.self_normalised()
    assert better.circuit is circuit
    assert better.at is circuit.at
    assert better.heads == (2, 0)


def test_denominators_and_scale_of_the_calibration_text_do_not_matter_to_it(circuit, drawn):
    other = replace(circuit, denominators=circuit.denominators * 7, scale=circuit.scale * 3)
    assert torch.equal(
        other.self_normalised().summary(drawn), circuit.self_normalised().summary(drawn)
    )


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
def test_what_comes_after_n_changes_nothing(circuit, drawn, read):
    other = drawn.clone()
    other[:, 21:] = drawn[:, 21:].flip(0)
    assert torch.equal(read(circuit, other), read(circuit, drawn))
    assert torch.equal(read(circuit, drawn[:, :21]), read(circuit, drawn))


@every
def test_what_stands_at_n_does_change_something(circuit, drawn, read):
    other = drawn.clone()
    other[:, 20] = (drawn[:, 20] + 1) % 300
    assert not torch.allclose(read(circuit, other), read(circuit, drawn))


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


@every
def test_a_text_of_n_tokens_is_too_short_for_n(circuit, drawn, read):
    with pytest.raises(ValueError, match=r"destination 20 lies outside the text.*0 to 19"):
        read(circuit, drawn[:, :20])


@every
@pytest.mark.parametrize("stranger", [-1, 300])
def test_ids_outside_the_vocabulary_are_refused(circuit, drawn, read, stranger):
    text = drawn[0].clone()
    text[3] = stranger
    with pytest.raises(ValueError, match="ids 0 to 299"):
        read(circuit, text)


def test_a_text_that_is_too_short_has_no_terms(circuit, drawn):
    with pytest.raises(ValueError, match="destination 20 lies outside the text"):
        circuit.by_source(drawn[0][:20], [0])


def test_terms_are_those_of_one_text(circuit, drawn):
    with pytest.raises(ValueError, match="expected one text"):
        circuit.by_source(torch.stack(list(drawn[:2])), [0])


@pytest.mark.parametrize("neurons", [[40], [-1], [3, 40, 5]])
def test_a_neuron_that_does_not_exist_has_no_terms(circuit, drawn, neurons):
    with pytest.raises(ValueError, match="neurons 0 to 39"):
        circuit.by_source(drawn[0], neurons)


def test_no_neuron_has_no_terms(circuit, drawn):
    with pytest.raises(ValueError, match="no neurons"):
        circuit.by_source(drawn[0], [])


@pytest.mark.parametrize("stranger", [-1, 300])
def test_a_token_outside_the_vocabulary_has_no_extended_embedding(circuit, stranger):
    with pytest.raises(ValueError, match="ids 0 to 299"):
        circuit.extended_embedding(torch.tensor([1, stranger]))


def test_a_calibration_text_of_n_tokens_is_long_enough_and_a_shorter_one_is_refused(precise, drawn):
    cx.ContextualCircuit.calibrate(precise, drawn[0][:20], [0], 20)
    with pytest.raises(ValueError, match="a text of 19 tokens is too short for the destination 20"):
        cx.ContextualCircuit.calibrate(precise, drawn[0][:19], [0], 20)


@pytest.mark.parametrize("token", [" bagpipes", "", 300, -1])
def test_what_is_not_one_token_of_the_vocabulary_is_refused(precise, drawn, token):
    with pytest.raises(ValueError, match=r"exactly one|ids 0 to 299"):
        cx.ContextualCircuit.calibrate(precise, drawn[0], [0], 20, token)


def test_a_token_by_name_needs_a_tokenizer(precise, drawn):
    with pytest.raises(ValueError, match="without a tokenizer"):
        cx.ContextualCircuit.calibrate(replace(precise, tokenizer=None), drawn[0], [0], 20)


@pytest.mark.parametrize("n", [-1, 32])
def test_a_destination_that_the_model_lacks_is_refused(precise, drawn, n):
    for refused in (
        lambda: cx.ContextualCircuit.calibrate(precise, drawn[0], [0], n),
        lambda: cx.destination.true_outputs(precise, drawn[0], n),
        lambda: cx.positional_keys(precise, n),
    ):
        with pytest.raises(ValueError, match="positions 0 to 31"):
            refused()


@pytest.mark.parametrize("C", [0.0, -2.0, float("nan")])
def test_a_C_that_is_no_norm_is_refused(precise, drawn, C):
    with pytest.raises(ValueError, match="positive"):
        cx.ContextualCircuit.calibrate(precise, drawn[0], [0], 20, " the", C)
    with pytest.raises(ValueError, match="positive"):
        cx.positional_keys(precise, 20, C)


@pytest.mark.parametrize(
    ("heads", "says"),
    [([], "no heads"), ([0, 3], "heads 0 to 2"), ([-1], "heads 0 to 2"), ([1, 1], "there twice")],
)
def test_heads_that_make_no_choice_are_refused(precise, drawn, heads, says):
    with pytest.raises(ValueError, match=says):
        cx.ContextualCircuit.calibrate(precise, drawn[0], heads, 20)
    with pytest.raises(ValueError, match=says):
        cx.true_contribution(precise, drawn, heads, 20)


@pytest.mark.parametrize("name", ["W_E", "W_pos", "W_V", "W_O", "b_V", "b_O", "W_in", "b_in"])
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_never_reach_a_circuit(precise, name, broken):
    damaged = getattr(precise, name).clone()
    damaged.view(-1)[3] = broken
    with pytest.raises(ValueError, match=f"{name} of layer 0: values that are not finite"):
        replace(precise, **{name: damaged})


def test_weights_without_the_MLP_are_refused(precise, drawn):
    bare = replace(precise, W_in=None, b_in=None)
    with pytest.raises(ValueError, match="without the MLP"):
        cx.ContextualCircuit.calibrate(bare, drawn[0], [0], 20)
    with pytest.raises(ValueError, match="without the MLP"):
        cx.true_contribution(bare, drawn[0], [0], 20)
    same(
        cx.destination.true_outputs(bare, drawn[0], 20),
        cx.destination.true_outputs(precise, drawn[0], 20),
    )


def test_weights_without_embeddings_are_refused(precise, drawn):
    bare = replace(precise, W_E=None)
    for refused in (
        lambda: cx.ContextualCircuit.calibrate(bare, drawn[0], [0], 20),
        lambda: cx.ContextualCircuit.calibrate(bare, drawn[0], [0], 20, 5, C=1.0),
        lambda: cx.true_contribution(bare, drawn[0], [0], 20),
    ):
        with pytest.raises(ValueError, match="without token embeddings"):
            refused()


def test_a_later_layer_is_refused(tiny, drawn):
    later = cx.LayerWeights.of(tiny, layer=1)
    for refused in (
        lambda: cx.ContextualCircuit.calibrate(later, drawn[0], [0], 20),
        lambda: cx.destination.true_outputs(later, drawn[0], 20),
        lambda: cx.positional_keys(later, 20),
    ):
        with pytest.raises(ValueError, match="layer 1"):
            refused()


def test_one_text_in_place_of_many_gives_no_offsets(circuit, drawn):
    labelled = cx.texts.Text("a", "war", "en-GB", "war", "", drawn[0])
    for one in (drawn[0], labelled):
        with pytest.raises(ValueError, match="put it in brackets"):
            circuit.self_normalised(one)


def test_texts_for_offsets_need_a_token_of_their_own_at_n(circuit, drawn):
    with pytest.raises(ValueError, match=r"a text of 20 tokens is too short.*at least 21"):
        circuit.self_normalised([drawn[0], drawn[1][:20]])


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
