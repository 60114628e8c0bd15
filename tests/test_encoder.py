"""Encoders, whose destinations have sources on both sides: against transformers, and against loops
in float64.
"""

import math
from types import SimpleNamespace

import by_hand
import pandas as pd
import pytest
import torch
from by_hand import draw_texts, same, softmax, weighted
from transformers import BertConfig, BertModel
from transformers.activations import ACT2FN

import ctxlib as cx
from conftest import randomise
from ctxlib.models import Encoder, sizes
from ctxlib.weights import centre

SIZES = {
    "vocab_size": 300,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
    "layer_norm_eps": 1e-3,
}
N, LENGTH, THE = 9, 18, 262
TEXTS = draw_texts(9, 32, 300, seed=8)
HEADS = [2, 0]


@pytest.fixture(scope="module")
def bert():
    """Every parameter at random, in float64."""
    config = BertConfig(**SIZES, attn_implementation="eager")
    model = randomise(BertModel(config, add_pooling_layer=False), seed=2).double()
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def encoder(bert, toy_tokenizer):
    return Encoder(bert, toy_tokenizer, sizes(bert.config, "a random BERT", torch.device("cpu")))


@pytest.fixture(scope="module")
def weights(encoder):
    """Read in float32, as everything is; compared in float64."""
    return cx.LayerWeights.of(encoder).to(torch.float64)


@pytest.fixture(scope="module")
def at(weights):
    """In the middle of eighteen tokens."""
    return cx.destination(weights, n=N, token=THE, C=3.0)


@pytest.fixture(scope="module")
def circuit(at):
    return cx.ContextualCircuit.calibrate(at, TEXTS[0], HEADS)


@pytest.fixture(scope="module")
def run(bert):
    """What transformers computes of these texts: the first layer's attentions, and what its heads
    and its MLP read.
    """
    held = {}
    first = bert.encoder.layer[0]
    places = {"heads": first.attention.output.dense, "mlp": first.intermediate.dense}
    hooks = [
        place.register_forward_pre_hook(lambda _, given, name=name: held.update({name: given[0]}))
        for name, place in places.items()
    ]
    held["attentions"] = bert(TEXTS[:, :LENGTH], output_attentions=True).attentions[0]
    for hook in hooks:
        hook.remove()
    return SimpleNamespace(**held, first=first)


# ---------------------------------------------------------------- as transformers runs it


def near(found, expected, rtol=1e-4):
    """To so much of the largest number."""
    found = torch.as_tensor(found, dtype=torch.float64)
    apart = (found - expected).abs().max() / expected.abs().max()
    assert apart < rtol, float(apart)


@pytest.mark.parametrize("n", [0, 5, N, 17])
def test_rows_at_a_destination_in_the_middle_are_those_of_transformers(weights, run, n):
    x = TEXTS[:, :LENGTH]
    torch.testing.assert_close(
        cx.attention_rows(weights, x, n), run.attentions[:, :, n], atol=1e-5, rtol=0
    )
    pattern = cx.split.attention_pattern(weights, x[1])
    torch.testing.assert_close(pattern, run.attentions[1], atol=1e-5, rtol=0)


def test_what_heads_write_and_the_mlp_makes_is_what_transformers_computes(at, weights, run):
    x, first = TEXTS[:, :LENGTH], run.first
    torch.testing.assert_close(at.layer.rows(x), run.attentions[:, :, N], atol=1e-5, rtol=0)
    near(at.layer.inside(x).flatten(1), run.heads[:, N])
    norm, mlp = first.attention.output.LayerNorm, first.intermediate
    out = first.attention.output.dense.weight.unflatten(1, (3, 8))
    written = torch.einsum("bhe,dhe->bhd", run.heads[:, N].unflatten(1, (3, 8)), out)
    near(at.outputs(x), centre(written))
    pre = torch.nn.functional.linear(run.mlp[:, N], mlp.dense.weight, mlp.dense.bias)
    said = at.mlp(x)
    near(said["pre"], pre)
    near(said["post"], ACT2FN["gelu"](pre))
    # what some heads add: what is missing without them, the norm's scale held
    added = centre(written[:, HEADS].sum(1)) / at.scale(x, at.outputs(x)) * norm.weight
    without = torch.nn.functional.linear(run.mlp[:, N] - added, mlp.dense.weight, mlp.dense.bias)
    near(at.truth(x, HEADS), pre - without)
    stream = at.resid_mid(x, at.outputs(x))
    near(cx.layer_norm(stream, weights.eps) * norm.weight + norm.bias, run.mlp[:, N])


# ---------------------------------------------------------------- Equation 1 on both sides


def scores_by_hand(w, h, tokens, asks):
    """Of what and of where, asked by a token at n: token by token, source by source."""
    q = by_hand.query(w, h, by_hand.what(w, asks, N))
    whats = [by_hand.score(w, h, q, by_hand.what(w, t, N)) for t in tokens]
    wheres = [by_hand.score(w, h, q, by_hand.where(w, i, N, 3.0)) for i in range(LENGTH)]
    return whats, wheres


def test_kernels_and_content_are_the_loops(at, weights):
    assert at.length == LENGTH and at.split.kernels.shape == (3, LENGTH)
    for h in range(3):
        whats, wheres = scores_by_hand(weights, h, range(300), THE)
        same(at.split.content[h], whats)
        same(at.split.kernels[h], softmax(wheres))
        expected = [
            weighted(softmax(wheres), [math.exp(whats[t]) for t in x]) for x in placed().tolist()
        ]
        same(at.denominators(placed())[:, h], expected)


def placed():
    """The texts as calibration reads them: nothing behind what the destination reads."""
    x = TEXTS[:, :LENGTH].clone()
    x[:, N] = THE
    return x


@pytest.mark.parametrize("own_token", [True, False])
def test_factors_rows_and_outputs_are_the_loops(at, weights, own_token):
    """The token at n asks, its own or the destination's; what is behind n counts as well."""
    x = TEXTS[:3, :LENGTH] if own_token else placed()[:3]
    kernel, content = at.split.factors(x)
    rows, rebuilt = at.split.rows(x), at.rebuilt_outputs(x)
    for k, text in enumerate(x.tolist()):
        for h in range(3):
            whats, wheres = scores_by_hand(weights, h, text, text[N])
            same(kernel[k, h] - kernel[k, h, N], wheres)
            same(content[k, h] - content[k, h, 0], [w - whats[0] for w in whats])
            row = softmax([a + b for a, b in zip(whats, wheres, strict=True)])
            same(rows[k, h], row)
            seen = [
                by_hand.what(weights, t, N) + by_hand.where(weights, i, N, 3.0)
                for i, t in enumerate(text)
            ]
            inside = weighted(row, [by_hand.value(weights, h, v) for v in seen])
            same(rebuilt[k, h], inside @ weights.W_O[h])
    same(cx.rebuilt_rows(weights, x, N, 3.0), rows)
    same(cx.split.rebuilt_pattern(weights, x[0], 3.0)[:, N], rows[0])


def test_what_is_behind_the_text_that_is_read_does_not_come_into_it(at, circuit):
    """A text may go on: truth and approximation read the same of it."""
    longer = torch.cat([placed(), TEXTS[:, LENGTH:]], dim=1)
    for read in (
        *(at.outputs, at.layer.rows, at.split.rows, at.rebuilt_outputs, at.denominators),
        *(circuit.summary, circuit.pre_activations, circuit.self_normalised().summary),
    ):
        same(read(longer), read(placed()))
        with pytest.raises(ValueError, match=r"a text of 17 tokens: the destination 9 reads 18"):
            read(placed()[:, :17])
        with pytest.raises(ValueError, match=r"destination 9 lies outside the text"):
            read(placed()[:, :9])
    with pytest.raises(ValueError, match=r"17 tokens is too short for the destination 9.*least 18"):
        cx.softmax_denominators(at, TEXTS[:, :17])


# ---------------------------------------------------------------- the method, from end to end


def stream_by_hand(w, t, outputs):
    """What the MLP reads, before the norm: the embedding was normalised, with gain and bias."""
    skipped = by_hand.what(w, t, N) * w.skip_gain + w.skip_bias
    return skipped - skipped.mean() + sum(outputs) + w.b_O


def test_a_circuit_and_what_it_says_are_the_loops(at, weights, circuit):
    assert torch.equal(circuit.calibration, placed()[0])
    contents, kernels = at.split.content.exp(), at.split.kernels
    kernel = by_hand.shared(kernels[HEADS].tolist())
    same(circuit.kernel, kernel)
    scale = by_hand.scale(weights, stream_by_hand(weights, THE, at.outputs(placed()[0])))
    assert circuit.scale == pytest.approx(float(scale), rel=1e-9)
    for text in placed()[:3].tolist():
        total = 0
        for h in HEADS:
            denominator = weighted(kernels[h], contents[h, placed()[0]])
            values = [by_hand.value(weights, h, by_hand.what(weights, t, N)) for t in text]
            shares = [p * contents[h, t] / denominator for p, t in zip(kernel, text, strict=True)]
            total = total + weighted(shares, values) @ weights.W_O[h]
        same(circuit.summary(torch.tensor(text)), total @ weights.W_in / scale)
    (alone,) = {0, 1, 2} - {*HEADS}
    own = by_hand.value(weights, alone, by_hand.what(weights, THE, N)) @ weights.W_O[alone]
    rest = stream_by_hand(weights, THE, [own]) @ weights.W_in / scale + weights.b_in
    same(circuit.pre_activations(placed()), circuit.summary(placed()) + rest)


def test_the_self_normalised_circuit_is_nearer_and_its_offsets_the_mean_error(at, circuit):
    plain, better = circuit.self_normalised(), circuit.self_normalised(TEXTS)
    truth = at.truth(TEXTS, HEADS)
    same(better.offsets, (truth - plain.summary(TEXTS)).mean(0))
    outputs = at.rebuilt_outputs(TEXTS)
    added = outputs[:, HEADS].sum(1) @ at.readout.W_in / at.scale(TEXTS, outputs)
    same(plain.summary(TEXTS), added)


def test_evaluation_budget_neurons_and_families_run_on_it(at, circuit):
    table = cx.evaluate(circuit, TEXTS)
    x, truth = placed(), at.truth(placed(), HEADS)
    made = cx.evaluation.Moments.of(circuit.summary(x), truth).table(range(40))
    pd.testing.assert_frame_equal(table, made)
    budget = cx.evaluation.error_budget(circuit, TEXTS)
    assert budget.loc[("none", ""), "fvu"] == pytest.approx(0, abs=1e-9)
    assert budget.loc[("all", ""), "fvu"] == pytest.approx(table["fvu"].median())
    approximated = cx.evaluation.approximated
    same(approximated(circuit, TEXTS, ()), at.truth(TEXTS, HEADS))
    same(approximated(circuit, x, cx.evaluation.APPROXIMATIONS), circuit.summary(x))
    found = cx.find_neurons(circuit, threshold=-1e9)
    assert sorted(found.index) == [*range(40)]
    families = cx.families(at)
    assert families["half of the mass within"].tolist() == [
        half_by_hand(kernel.tolist(), N) for kernel in at.split.kernels
    ]
    assert families["TV to uniform"].tolist() == pytest.approx(
        [sum(abs(p - 1 / LENGTH) for p in kernel) / 2 for kernel in at.split.kernels.tolist()]
    )


def half_by_hand(row, n):
    """The smallest distance from n within which half of a row lies."""
    return next(
        d
        for d in range(len(row))
        if sum(p for i, p in enumerate(row) if abs(i - n) <= d) >= 0.5 * sum(row)
    )


@pytest.mark.parametrize(("n", "length"), [(0, 1), (1, 2), (9, 18), (16, 32), (17, 32), (31, 32)])
def test_a_destination_is_in_the_middle_of_what_is_read_as_far_as_the_context_goes(
    weights, n, length
):
    at = cx.destination(weights, n=n, token=THE)
    assert at.length == length == at.split.kernels.shape[1]
    same(at.split.kernels.sum(1), torch.ones(3))


def test_without_n_it_is_the_middle_of_the_context_or_of_the_shortest_text(encoder, weights):
    assert cx.destination(encoder, token=THE).n == 16
    assert cx.destination(weights, [TEXTS[0], TEXTS[1, :20]], token=THE).n == 10
    assert cx.destination(weights, TEXTS, token=THE).n == 16


def test_what_an_encoder_does_not_have_is_refused(encoder, at, circuit):
    with pytest.raises(ValueError, match="layer 1: there are layers 0 to 0"):
        cx.LayerWeights.of(encoder, 1)
    ask = cx.decoders
    for of in (
        lambda: ask.denominators_along(at, TEXTS[0]),
        lambda: ask.circuit_z(circuit, TEXTS[0], torch.ones(3, 32)),
        lambda: ask.self_normalised_z(circuit, TEXTS[0]),
    ):
        with pytest.raises(ValueError, match="needs a decoder with learned positions"):
            of()
