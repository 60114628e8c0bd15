"""The one door: what it refuses, that what a destination knows is not given again, and what the MLP
makes of it.
"""

import re
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import torch
from by_hand import draw_text, draw_texts
from kinds import GROUPED, KINDS, drawn
from test_lookups import near

import ctxlib as cx
from ctxlib.denominators import NoStableHead
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


@pytest.mark.parametrize("n", [np.int64(N), torch.tensor(N), np.array(N)])
def test_a_position_of_any_library_is_a_plain_number(of_kind, tiny_weights, n):
    for of, more in ((tiny_weights, ()), (of_kind("Llama").model, (TEXTS,))):
        at = cx.destination(of, *more, n=n, token=THE)
        assert type(at.n) is int and at.n == N


def test_what_is_asked_for_is_what_it_has(precise, of_kind):
    at = cx.destination(precise, n=9, token=5, C=2.0)
    assert (at.n, at.token, at.split.C, at.layer.n) == (9, 5, 2.0, 9)
    assert cx.destination(precise, n=9, token=5).split.C == precise.typical_norm() != 2.0
    by_means = cx.destination(of_kind("Llama").model, TEXTS, n=9, token=5)
    assert (by_means.n, by_means.token, by_means.layer.n) == (9, 5, 9)


@pytest.fixture(scope="module")
def by_means(of_kind):
    """Of a model that adds no positions."""
    return cx.destination(of_kind("Llama").model, TEXTS, n=N, token=THE)


# ---------------------------------------------------------------- given once

ALREADY = {"n": 9, "token": " of", "C": 2.0}
HEADS = [0, 2]
TAKERS = {
    "denominators": partial(cx.softmax_denominators, texts=TEXTS),
    "stable heads": partial(cx.stable_heads, texts=TEXTS),
    "roster": partial(cx.denominators.roster, texts=TEXTS),
    "middle text": partial(cx.denominators.middle_text, texts=TEXTS, heads=HEADS),
    "families": cx.families,
    "calibrate": partial(cx.ContextualCircuit.calibrate, text=TEXTS[0], heads=HEADS),
    "denominators along": partial(cx.decoders.denominators_along, text=TEXTS[0]),
}


@pytest.mark.parametrize("known", ALREADY)
@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_what_a_destination_knows_is_not_given_again(here, take, known):
    with suppress(NoStableHead):
        take(here)
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{known}'"):
        take(here, **{known: ALREADY[known]})


@pytest.mark.parametrize(
    ("of", "given", "said"),
    [
        ("here", {}, "a destination already"),
        ("here", {"n": N}, "a destination already"),
        *(
            ("file", {k: v}, "a stored layer knows")
            for k, v in (ALREADY | {"texts": TEXTS}).items()
        ),
        ("rotary", {"texts": TEXTS, "C": 2.0}, "Equation 1's: this model adds no positions"),
        ("rotary", {"texts": TEXTS, "token": None}, "Equation 1's: this model adds no positions"),
    ],
)
def test_what_would_not_be_read_is_refused(here, of_kind, precise, of, given, said):
    made = {"here": here, "weights": precise, "rotary": of_kind("Llama").model}
    made["file"] = "kept.safetensors"  # it need not even be there
    with pytest.raises(TypeError, match=said) as caught:
        cx.destination(made[of], **given)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- numbers that are none

FRACTIONS = [
    2.5,
    20.0,
    "20",
    True,
    np.True_,
    torch.tensor(True),
    np.float32(20),
    torch.tensor(20.0),
]


@pytest.mark.parametrize("wrong", FRACTIONS, ids=repr)
@pytest.mark.parametrize("name", ["n", "token"])
@pytest.mark.parametrize("kind", ["GPT-2", "Llama"])
def test_a_position_or_a_token_that_is_no_whole_number_is_one_line(of_kind, kind, name, wrong):
    more = {"texts": TEXTS, "n": N} if kind == "Llama" else {"n": N}
    said = {"n": r"(position|destination) .*: give a whole number", "token": "give a whole number"}
    if name == "token" and isinstance(wrong, str):
        said["token"] = "exactly one"  # it is read as text
    with pytest.raises(ValueError, match=said[name]) as caught:
        cx.destination(of_kind(kind).model, **{"token": THE} | more | {name: wrong})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["GPT-2", "Llama"])
def test_texts_are_a_list_of_texts(of_kind, kind):
    for one in (TEXTS[0], "one text alone"):
        with pytest.raises(ValueError, match="put it in brackets"):
            cx.destination(of_kind(kind).model, one, token=THE)
    assert cx.destination(of_kind(kind).model, [TEXTS[0], TEXTS[1, :13]], token=THE).n == 12
    if kind == "Llama":  # which has to know how common tokens are
        for too_few in ([], TEXTS[:1]):
            with pytest.raises(ValueError, match=f"{len(too_few)} texts: give two at least"):
                cx.destination(of_kind(kind).model, too_few, token=THE)


def test_a_layer_that_is_no_first_one_or_no_number_is_one_line(tiny):
    for layer in (2, -1, 1.0, True):
        said = "layers 0 to 1" if type(layer) is int else "give a whole number"
        with pytest.raises(ValueError, match=said):
            cx.LayerWeights.of(tiny, layer)
    with pytest.raises(ValueError, match="layer 1: only what enters layer 0"):
        cx.destination(cx.LayerWeights.of(tiny, 1), n=N)


MASK = [True, False, True]
NO_HEADS = [
    *(MASK, np.array(MASK), torch.tensor(MASK), [np.True_], [torch.tensor(True)]),
    *([0.0, 2.0], np.array([0.0, 2.0]), torch.tensor([0.5]), 1.5, "2", ["2"], [None], True),
    *((), (0, 4), (-1,), (1, 1)),
]
CHOOSERS = {
    "calibrate": lambda at, heads: cx.ContextualCircuit.calibrate(at, TEXTS[0], heads),
    "truth": lambda at, heads: at.truth(at.placed(TEXTS), heads),
    "middle text": lambda at, heads: cx.denominators.middle_text(at, TEXTS, heads),
}


@pytest.mark.parametrize("heads", NO_HEADS, ids=repr)
@pytest.mark.parametrize("choose", CHOOSERS.values(), ids=CHOOSERS)
def test_heads_that_there_are_not_are_one_line(here, by_means, choose, heads):
    """A mask would be read as heads 0 and 1."""
    said = "^head .*: (give a whole number|there are heads 0 to .)$|^no heads|one is there twice$"
    for at in (here, by_means):
        with pytest.raises(ValueError, match=said) as caught:
            choose(at, heads)
        assert "\n" not in str(caught.value)


def test_a_study_and_an_evaluation_choose_like_that_too(mini, here):
    for heads in ([np.int64(2), 0], torch.tensor([2, 0]), np.array([2, 0])):
        circuit = cx.ContextualCircuit.calibrate(here, TEXTS[0], heads)
        assert repr(circuit.heads) == "(2, 0)"
    for head in (1, np.int64(1)):
        assert cx.ContextualCircuit.calibrate(here, TEXTS[0], head).heads == (1,)
    with pytest.raises(ValueError, match="head True: give a whole number"):
        cx.study(mini, texts=2, heads=[True])
    with pytest.raises(ValueError, match=r"neuron 3.0: give a whole number"):
        cx.evaluate(circuit, TEXTS, [3.0])


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
    with pytest.raises(ValueError, match=re.escape("another than 262, the one that asks there")):
        cx.evaluate(circuit, [draw_text(32, seed=k) for k in (1, 2)], own_token=True)
