"""The one door: what it refuses, that what a destination knows is not given again, and what the MLP
makes of it.
"""

from functools import partial

import numpy as np
import pytest
import torch
from by_hand import draw_texts
from kinds import GROUPED, KINDS, drawn
from test_lookups import near

import ctxlib as cx
from ctxlib.layer import OfWeights
from ctxlib.split import Equation1

TEXTS = draw_texts(9, 32, 300, seed=4)
N, THE = 20, 262


# ---------------------------------------------------------------- the door


def test_a_destination_is_of_a_model_or_of_its_weights(tiny, tiny_weights):
    at, same = cx.destination(tiny, n=N), cx.destination(tiny_weights, n=N)
    assert isinstance(at.split, Equation1) and isinstance(at.layer, OfWeights)
    the = tiny_weights.token_id(" the")
    for known in (at, same):
        assert (known.n, known.token, known.length, known.n_ctx) == (N, the, N + 1, 32)
        assert (known.n_heads, known.n_neurons, known.d_vocab) == (3, 40, 300)
    assert torch.equal(at.split.kernels, same.split.kernels)
    assert tiny_weights.typical_norm() == at.split.C


@pytest.mark.parametrize("of_library", [np.int64, np.array, torch.tensor])
def test_numbers_of_any_library_are_plain_ones(of_kind, tiny_weights, here, of_library):
    """Positions, tokens, and heads: one or several."""
    for of, more in ((tiny_weights, ()), (of_kind("Llama").model, (TEXTS,))):
        at = cx.destination(of, *more, n=of_library(N), token=of_library(THE))
        assert {*map(type, (at.n, at.token))} == {int} and (at.n, at.token) == (N, THE)
    calibrate = partial(cx.ContextualCircuit.calibrate, here, TEXTS[0])
    for heads in ([of_library(2), 0], of_library([2, 0])):
        assert repr(calibrate(heads).heads) == "(2, 0)"
    for head in (1, np.int64(1)):
        assert repr(calibrate(head).heads) == "(1,)"


def test_what_is_asked_for_is_what_it_has(precise, of_kind):
    at = cx.destination(precise, n=9, token=5, C=2.0)
    assert (at.n, at.token, at.split.C, at.layer.n) == (9, 5, 2.0, 9)
    assert cx.destination(precise, n=9, token=5).split.C == precise.typical_norm() != 2.0
    by_means = cx.destination(of_kind("Llama").model, TEXTS, n=9, token=5)
    assert (by_means.n, by_means.token, by_means.layer.n) == (9, 5, 9)
    shorter = [TEXTS[0], TEXTS[1, :13]]  # of which it is the end
    assert cx.destination(precise, shorter).n == 12
    assert cx.destination(of_kind("Llama").model, shorter, token=THE).n == 12


@pytest.fixture(scope="module")
def by_means(of_kind):
    """Of a model that adds no positions."""
    return cx.destination(of_kind("Llama").model, TEXTS, n=N, token=THE)


HEADS = [0, 2]


# ---------------------------------------------------------------- what the MLP makes of it


PLAIN = {"pre": "hook_pre", "post": "hook_post"}
GATED = {"gate": "hook_pre", "up": "hook_pre_linear", "product": "hook_post"}
BIASED = {
    "Llama with biases": partial(drawn, "llama", **GROUPED, mlp_bias=True, attention_bias=True),
    "Falcon": partial(drawn, "falcon", ffn_hidden_size=40),
}


@pytest.mark.parametrize("kind", [*KINDS, *BIASED])
def test_what_the_mlp_makes_is_what_the_hooks_hold(of_kind, make_folder, kind):
    """Of one text and of a stack; by Equation 1 any token may stand at n."""
    made = BIASED.get(kind)
    model = cx.load(make_folder(made(), seed=6)) if made else of_kind(kind).model
    learned = kind in ("GPT-2", "GPT-Neo", "OPT")
    at = cx.destination(model, None if learned else TEXTS, n=N, token=THE)
    x = TEXTS if learned else at.placed(TEXTS)
    _, cache = model.run_with_cache(x)
    names = GATED if "blocks.0.mlp.hook_pre_linear" in cache else PLAIN
    reads = getattr(at.layer, "reads", 0)
    said = at.mlp(x)
    assert list(said) == list(names)
    for name, hook in names.items():
        near(said[name], cache[f"blocks.{reads}.mlp.{hook}"][:, N])
        near(at.mlp(x[3])[name], said[name][3])


def test_the_first_input_is_what_circuits_speak_of(by_means):
    """Of a gated MLP the gate."""
    x = by_means.placed(TEXTS)
    everyone = by_means.truth(x, range(by_means.n_heads))
    rest = by_means.readout.rest @ by_means.readout.W_in / by_means.scale(x, by_means.outputs(x))
    near(by_means.mlp(x)["gate"], everyone + rest + by_means.readout.b_in)


# ---------------------------------------------------------------- two means all the way


def test_circuits_of_the_split_by_two_means_are_evaluated_whole(by_means):
    """None of the approximations is the truth, and all of them are the circuit."""
    circuit, x = cx.ContextualCircuit.calibrate(by_means, TEXTS[0], HEADS), by_means.placed(TEXTS)
    truth, approximated = by_means.truth(x, HEADS), cx.evaluation.approximated
    near(approximated(circuit, x, ()), truth)
    near(approximated(circuit, x, cx.evaluation.APPROXIMATIONS), circuit.summary(x))
    budget = cx.evaluation.error_budget(circuit, TEXTS, [3, 4, 5])
    assert budget.loc[("none", ""), "fvu"] < 1e-6 < budget.loc[("all", ""), "fvu"]
    table = cx.evaluate(circuit, TEXTS, [3, 4, 5])
    assert budget.loc[("all", ""), "fvu"] == pytest.approx(table["fvu"].median(), rel=1e-4)
    plain, better = circuit.self_normalised(), circuit.self_normalised(TEXTS)
    near(better.offsets, (truth - plain.summary(x)).mean(0))
