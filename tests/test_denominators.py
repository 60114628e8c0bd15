"""Denominators: what they are, how far they stray, and what is chosen because of it."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
import torch
from beartype import beartype
from by_hand import draw_texts, seeds
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped

import ctxlib as cx

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64

shapes = st.fixed_dictionaries(
    {
        "seed": seeds,
        "n_heads": st.integers(1, 3),
        "d_head": st.integers(2, 5),
        "n_ctx": st.integers(6, 12),
        "vocab": st.integers(2, 20),
    }
)
norms = st.floats(0.1, 30)


@pytest.fixture(scope="module")
def drawn():
    """Five texts that fill the context of `tiny`."""
    return list(draw_texts(5, 32, 300))


# ---------------------------------------------------------------- against loops


def factors_by_hand(weights, text, n, token, C):
    """For each head and source: exp of the score of content, and of position."""
    d, tokens = weights.d_model, [*text[:n].tolist(), token]

    def norm(v):
        return v / ((v @ v) / d + weights.eps).sqrt()

    heads = []
    for h in range(weights.n_heads):
        q = norm(weights.W_E[token] + weights.W_pos[n]) @ weights.W_Q[h] + weights.b_Q[h]
        rows = []
        for i, t in enumerate(tokens):
            here, there = weights.W_pos[i], weights.W_pos[n]
            scale = (here @ here + C**2) ** 0.5
            keys = norm(weights.W_E[t] + there), d**0.5 * (here - there) / scale
            rows.append(
                [math.exp(q @ (key @ weights.W_K[h]) / weights.d_head**0.5) for key in keys]
            )
        heads.append(rows)
    return heads


@given(shapes, norms, st.integers(0, 1))
def test_denominators_are_the_loops(make_weights, sizes, C, token):
    """What stands at the destination and behind it, `b_K` and other texts do not come into it."""
    weights = make_weights(**sizes)
    texts = list(draw_texts(2, 6, sizes["vocab"]))
    for n in (0, 1, 5):
        by_hand = []
        for text in texts:
            heads = factors_by_hand(weights, text, n, token, C)
            by_hand.append([sum(c * p for c, p in h) / sum(p for _, p in h) for h in heads])
        same(
            cx.softmax_denominators(weights, texts, n, token, C),
            torch.tensor(by_hand, dtype=torch.float64),
        )


def test_the_destination_is_in_the_middle_and_C_typical_unless_they_are_given(precise, drawn):
    asked = cx.softmax_denominators(precise, drawn, 16, " the", precise.typical_norm())
    assert torch.equal(cx.softmax_denominators(precise, drawn), asked)


@pytest.mark.parametrize("n", [0, 7, 31])
def test_kernel_times_content_over_denominator_is_the_rebuilt_row(precise, drawn, n):
    kernels, content = cx.positional_kernels(precise, n), cx.content_scores(precise, n).exp()
    denoms = cx.softmax_denominators(precise, drawn, n)
    for x, denom in zip(cx.texts.at(precise, drawn, n), denoms, strict=True):
        row = kernels * content[:, x] / denom[:, None]
        same(row, cx.rebuilt_rows(precise, x, n))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_texts_come_in_any_form_and_in_batches_of_any_size(monkeypatch, precise, drawn, size):
    """A text of n tokens is long enough: the destination's own is replaced."""
    whole = cx.softmax_denominators(precise, drawn, 12)
    monkeypatch.setattr(cx.texts, "BATCH", size)
    labelled = [cx.texts.Text(str(i), "", "", "", "", tokens) for i, tokens in enumerate(drawn)]
    short = [text[:12] for text in drawn]
    for texts in (drawn, (text for text in drawn), torch.stack(drawn), labelled, short):
        same(cx.softmax_denominators(precise, texts, 12), whole)


# ---------------------------------------------------------------- which heads hold still


def between(numbers):
    """Thresholds with none, one, ... all of the numbers below them."""
    ordered = sorted(numbers)
    return [-math.inf, *((a + b) / 2 for a, b in pairwise(ordered)), math.inf]


@pytest.fixture(scope="module")
def still(precise):
    """`precise` with a head 0 whose queries say nothing: it sees all positions, and all words,
    alike.
    """
    weights = replace(precise, W_Q=precise.W_Q.clone(), b_Q=precise.b_Q.clone())
    weights.W_Q[0] = 0
    weights.b_Q[0] = 0
    return weights


@pytest.fixture(scope="module")
def measured(still, drawn):
    """Effective tokens and relative spread of every head of `still` at n = 20."""
    denoms = cx.softmax_denominators(still, drawn, 20)
    spread = cx.effective_tokens(cx.positional_kernels(still, 20))
    return spread.tolist(), (denoms.std(0) / denoms.mean(0)).tolist()


def test_heads_are_stable_by_both_thresholds_and_the_table_says_why(still, drawn, measured):
    spread, strays = measured
    assert (spread[0], strays[0]) == (pytest.approx(21), pytest.approx(0, abs=1e-12))
    for broad, steady in product(between(spread), between(strays)):
        reasons = [
            "; ".join(
                [f"kernel over {kernel:.1f} tokens only"] * (kernel <= broad)
                + [f"denominator strays by {stray:.0%}"] * (stray >= steady)
            )
            for kernel, stray in zip(spread, strays, strict=True)
        ]
        stable = [h for h in range(3) if not reasons[h]]
        table = cx.denominators.roster(still, drawn, 20, broad=broad, steady=steady)
        assert table.index.name == "head"
        assert table["effective tokens"].tolist() == pytest.approx(spread)
        assert table["relative spread"].tolist() == pytest.approx(strays)
        assert table["family"].tolist() == cx.families(still, 20)["family"].tolist()
        assert table["why not"].tolist() == reasons
        assert table.index[table["stable"]].tolist() == stable
        if stable:
            heads = cx.stable_heads(still, iter(drawn), 20, broad=broad, steady=steady)
            assert isinstance(heads, list) and heads == stable
            pd.testing.assert_frame_equal(heads.table, table)
        elif wide := [s for s, kernel in zip(strays, spread, strict=True) if kernel > broad]:
            with pytest.raises(ValueError, match=f"broad ones strays by {min(wide):.0%}"):
                cx.stable_heads(still, drawn, 20, broad=broad, steady=steady)


def test_a_head_whose_spread_is_unknown_is_not_stable(precise, drawn, monkeypatch):
    denoms = cx.softmax_denominators(precise, drawn, 20)
    denoms[:, 1] = math.nan
    monkeypatch.setattr(cx.denominators, "softmax_denominators", lambda *_: denoms)
    assert cx.stable_heads(precise, drawn, 20, broad=0, steady=10.0) == [0, 2]


def test_denominators_beyond_the_range_of_their_precision_are_refused(tiny_weights, drawn):
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q, b_Q=3000 * tiny_weights.b_Q)
    for ask in (cx.softmax_denominators, cx.stable_heads):
        with pytest.raises(ValueError, match=r"denominators of head .* are beyond .*float32"):
            ask(loud, drawn, 20)


@pytest.mark.parametrize("chosen", [[0], [2, 0], (0, 1, 2), torch.tensor([1, 2]), np.array([1])])
def test_heads_that_exist_come_back_as_a_list(tiny_weights, chosen):
    heads = cx.destination.check_heads(tiny_weights, chosen)
    assert heads == [int(h) for h in chosen]
    assert {type(h) for h in heads} == {int}


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        ([], "no heads"),
        ([0, 3], "heads 0 to 2"),
        ([-1, 1], "heads 0 to 2"),
        ([1, 0, 1], "there twice"),
    ],
)
def test_heads_that_make_no_choice_are_refused(tiny_weights, heads, says):
    with pytest.raises(ValueError, match=says):
        cx.destination.check_heads(tiny_weights, heads)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("measure", [cx.softmax_denominators, cx.stable_heads, cx.texts.at])
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        *(({"texts": t}, "no texts") for t in ([], iter([]), torch.zeros(0, 32).long())),
        (
            {"texts": [torch.ones(32).long(), torch.ones(11).long()]},
            "a text of 11 .* destination 12",
        ),
        *(({"texts": [torch.tensor([1, id] * 9)]}, "ids 0 to 299") for id in (-1, 300)),
        *(({"n": n}, "positions 0 to 31") for n in (-1, 32)),
        ({"token": " bagpipes"}, "exactly one"),
        *(({"token": id}, "ids 0 to 299") for id in (-1, 300)),
    ],
)
def test_what_cannot_be_measured_is_refused(precise, drawn, measure, asked, says):
    with pytest.raises(ValueError, match=says):
        measure(precise, **{"texts": drawn, "n": 12} | asked)


def test_what_weights_cannot_be_asked_is_refused(tiny, precise, drawn):
    for measure in (cx.softmax_denominators, cx.stable_heads):
        with pytest.raises(ValueError, match="layer 1"):
            measure(cx.LayerWeights.of(tiny, layer=1), drawn, 12)
        with pytest.raises(ValueError, match="without token embeddings"):
            measure(replace(precise, W_E=None), drawn, 12)
    for C in (0.0, -2.0, math.nan):
        with pytest.raises(ValueError, match="positive"):
            cx.softmax_denominators(precise, drawn, 12, " the", C)
    with pytest.raises(ValueError, match="at least two"):
        cx.stable_heads(precise, drawn[:1], 20, broad=0)
    with pytest.raises(ValueError, match="no head has a kernel over more than 40 tokens"):
        cx.stable_heads(precise, drawn, 20, steady=math.inf)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(precise, drawn):
    calls = [
        (cx.softmax_denominators, (precise, drawn, 12)),
        (cx.stable_heads, (precise, drawn, 12, " the", 0.0, 9.0)),
        (cx.destination.check_heads, (precise, [0, 1])),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
