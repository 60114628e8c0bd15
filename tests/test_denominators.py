"""Denominators: what they are, how far they stray, and what is chosen because of it."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped

import ctxlib as cx

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64

shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 999),
        "n_heads": st.integers(1, 3),
        "d_head": st.integers(2, 5),
        "n_ctx": st.integers(6, 12),
        "vocab": st.integers(2, 20),
    }
)
norms = st.floats(0.1, 30)


def draw_texts(count, length, vocab, seed=0):
    source = torch.Generator().manual_seed(seed)
    return list(torch.randint(0, vocab, (count, length), generator=source))


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
    weights = make_weights(**sizes)
    texts = draw_texts(2, 6, sizes["vocab"])
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


# ---------------------------------------------------------------- against the model


@pytest.mark.parametrize("n", [0, 7, 31])
def test_kernel_times_content_over_denominator_is_the_rebuilt_row(precise, drawn, n):
    kernels, content = cx.positional_kernels(precise, n), cx.content_scores(precise, n).exp()
    denoms = cx.softmax_denominators(precise, drawn, n)
    for x, denom in zip(cx.texts.at(precise, drawn, n), denoms, strict=True):
        row = kernels * content[:, x] / denom[:, None]
        same(row, cx.rebuilt_rows(precise, x, n))


def test_a_denominator_is_the_plain_mean_of_content_where_all_positions_are_alike(precise, drawn):
    weights = flat(precise)
    values = cx.content_scores(weights, 9).exp()[:, cx.texts.at(weights, drawn, 9)]
    same(cx.softmax_denominators(weights, drawn, 9), values.mean(-1).T)


# ---------------------------------------------------------------- what does not matter


def test_what_stands_at_the_destination_and_behind_it_does_not_matter(precise, drawn):
    others = [torch.cat([text[:12], text[12:].flip(0)]) for text in drawn]
    whole = cx.softmax_denominators(precise, drawn, 12)
    assert torch.equal(cx.softmax_denominators(precise, others, 12), whole)
    assert torch.equal(cx.softmax_denominators(precise, [text[:12] for text in drawn], 12), whole)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_size_of_a_batch_does_not_matter(monkeypatch, precise, drawn, size):
    whole = cx.softmax_denominators(precise, drawn, 12)
    monkeypatch.setattr(cx.texts, "BATCH", size)
    same(cx.softmax_denominators(precise, drawn, 12), whole)


def test_texts_come_as_a_list_a_generator_or_a_tensor(precise, drawn):
    from_list = cx.softmax_denominators(precise, drawn, 12)
    assert torch.equal(cx.softmax_denominators(precise, (text for text in drawn), 12), from_list)
    assert torch.equal(cx.softmax_denominators(precise, torch.stack(drawn), 12), from_list)


def test_labelled_texts_count_like_their_tokens(precise, drawn):
    labelled = [cx.texts.Text(str(i), "", "", "", "", tokens) for i, tokens in enumerate(drawn)]
    assert torch.equal(
        cx.softmax_denominators(precise, labelled, 12), cx.softmax_denominators(precise, drawn, 12)
    )


def test_every_text_has_a_denominator_of_its_own(precise, drawn):
    one_by_one = torch.cat([cx.softmax_denominators(precise, [text], 12) for text in drawn])
    same(cx.softmax_denominators(precise, drawn, 12), one_by_one)


def test_b_K_changes_no_denominator(precise, drawn):
    other = replace(precise, b_K=precise.b_K + 3)
    same(cx.softmax_denominators(other, drawn, 12), cx.softmax_denominators(precise, drawn, 12))


def test_the_order_of_the_words_does_not_matter_where_all_positions_are_alike(precise, drawn):
    other_way = [text[:12].flip(0) for text in drawn]
    same(
        cx.softmax_denominators(flat(precise), other_way, 12),
        cx.softmax_denominators(flat(precise), drawn, 12),
    )


# ---------------------------------------------------------------- which heads hold still


def halfway(numbers):
    """Thresholds with one, two, ... of the numbers below them."""
    ordered = sorted(numbers)
    return [(a + b) / 2 for a, b in pairwise(ordered)]


@pytest.fixture(scope="module")
def measured(precise, drawn):
    """Effective tokens and relative spread of every head of `tiny` at n = 20."""
    denoms = cx.softmax_denominators(precise, drawn, 20)
    spread = cx.effective_tokens(cx.positional_kernels(precise, 20))
    return spread.tolist(), (denoms.std(0) / denoms.mean(0)).tolist()


def test_all_heads_hold_still_where_positions_are_alike_and_so_are_the_words(precise, drawn):
    text = drawn[0]
    texts = [torch.cat([text[:20].roll(k), text[20:]]) for k in range(4)]
    heads = cx.stable_heads(flat(precise), texts, 20, broad=10)
    assert heads == [0, 1, 2]
    assert heads.table["effective tokens"].tolist() == pytest.approx([21] * 3)
    assert heads.table["relative spread"].tolist() == pytest.approx([0] * 3, abs=1e-12)


def test_heads_that_stray_are_left_out(precise, drawn, measured):
    _, strays = measured
    for steady in halfway(strays):
        heads = cx.stable_heads(precise, drawn, 20, broad=0, steady=steady)
        assert heads == [h for h in range(3) if strays[h] < steady]


def test_heads_with_a_narrow_kernel_are_left_out(precise, drawn, measured):
    spread, _ = measured
    for broad in halfway(spread):
        heads = cx.stable_heads(precise, drawn, 20, broad=broad, steady=math.inf)
        assert heads == [h for h in range(3) if spread[h] > broad]


def test_the_table_carries_what_the_choice_rests_on(precise, drawn, measured):
    heads = cx.stable_heads(precise, drawn, 20, broad=0, steady=halfway(measured[1])[0])
    assert isinstance(heads, list)
    assert heads.table.index.name == "head"
    assert heads.table["effective tokens"].tolist() == pytest.approx(measured[0])
    assert heads.table["relative spread"].tolist() == pytest.approx(measured[1])
    assert heads.table["family"].tolist() == cx.families(precise, 20)["family"].tolist()
    assert heads.table.index[heads.table["stable"]].tolist() == heads


def test_the_table_says_why_a_head_was_not_chosen(precise, drawn, measured):
    spread, strays = measured
    broad, steady = halfway(spread)[0], halfway(strays)[1]
    heads = cx.stable_heads(precise, drawn, 20, broad=broad, steady=steady)
    for h, why in enumerate(heads.table["why not"]):
        assert (f"kernel over {spread[h]:.1f} tokens" in why) == (spread[h] <= broad)
        assert (f"strays by {strays[h]:.0%}" in why) == (strays[h] >= steady)
        assert (why == "") == (h in heads)


def test_both_reasons_are_named_where_both_hold(precise, drawn, measured):
    spread, strays = measured
    flattened = replace(precise, W_Q=precise.W_Q.clone(), b_Q=precise.b_Q.clone())
    flattened.W_Q[0] = 0
    flattened.b_Q[0] = 0
    heads = cx.stable_heads(flattened, drawn, 20, broad=20.5, steady=1e-6)
    assert heads == [0]
    assert heads.table["why not"][0] == ""
    for h in (1, 2):
        assert heads.table["why not"][h] == (
            f"kernel over {spread[h]:.1f} tokens only; denominator strays by {strays[h]:.0%}"
        )


def test_denominators_beyond_the_range_of_their_precision_are_refused(tiny_weights, drawn):
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q, b_Q=3000 * tiny_weights.b_Q)
    with pytest.raises(ValueError, match=r"denominators of head .* are beyond .*float32"):
        cx.softmax_denominators(loud, drawn, 20)
    with pytest.raises(ValueError, match="beyond the range"):
        cx.stable_heads(loud, drawn, 20, broad=0, steady=math.inf)


def test_a_head_whose_spread_is_unknown_is_not_stable(precise, drawn, monkeypatch):
    denoms = cx.softmax_denominators(precise, drawn, 20)
    denoms[:, 1] = math.nan
    monkeypatch.setattr(cx.denominators, "softmax_denominators", lambda *_: denoms)
    assert cx.stable_heads(precise, drawn, 20, broad=0, steady=10.0) == [0, 2]


def test_texts_for_stable_heads_may_come_from_a_generator(precise, drawn):
    stream = (text for text in drawn)
    assert cx.stable_heads(precise, stream, broad=0, steady=math.inf) == [0, 1, 2]


def test_no_stable_head_at_all_is_an_error_that_says_how_near_it_was(precise, drawn, measured):
    with pytest.raises(ValueError, match=f"no head.*broad ones strays by {min(measured[1]):.0%}"):
        cx.stable_heads(precise, drawn, 20, broad=0, steady=0.0)
    with pytest.raises(ValueError, match="no head has a kernel over more than 40 tokens"):
        cx.stable_heads(precise, drawn, 20, steady=math.inf)


def test_one_text_shows_no_stable_head(precise, drawn):
    with pytest.raises(ValueError, match="at least two"):
        cx.stable_heads(precise, drawn[:1], 20, broad=0)


def test_no_text_shows_no_stable_head(precise):
    with pytest.raises(ValueError, match="no texts"):
        cx.stable_heads(precise, [], 20)


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


def test_a_text_of_n_tokens_is_long_enough_and_a_shorter_one_is_refused(precise, drawn):
    cx.softmax_denominators(precise, [drawn[0][:12]], 12)
    with pytest.raises(ValueError, match="a text of 11 tokens is too short for the destination 12"):
        cx.softmax_denominators(precise, [drawn[0], drawn[1][:11]], 12)


@pytest.mark.parametrize("texts", [[], iter([]), torch.zeros(0, 32, dtype=torch.long)])
def test_no_text_is_refused(precise, texts):
    for measure in (cx.softmax_denominators, cx.texts.at):
        with pytest.raises(ValueError, match="no texts"):
            measure(precise, texts, 12)


@pytest.mark.parametrize("token", [" bagpipes", 300, -1])
def test_what_is_not_one_token_of_the_vocabulary_is_refused(precise, drawn, token):
    with pytest.raises(ValueError, match=r"exactly one|ids 0 to 299"):
        cx.softmax_denominators(precise, drawn, 12, token)


@pytest.mark.parametrize("stranger", [-1, 300])
def test_texts_outside_the_vocabulary_are_refused(precise, drawn, stranger):
    text = drawn[0].clone()
    text[3] = stranger
    with pytest.raises(ValueError, match="ids 0 to 299"):
        cx.softmax_denominators(precise, [text], 12)


@pytest.mark.parametrize("n", [-1, 32])
def test_a_position_that_the_model_lacks_is_refused(precise, drawn, n):
    with pytest.raises(ValueError, match="positions 0 to 31"):
        cx.softmax_denominators(precise, drawn, n)


def test_a_later_layer_is_refused(tiny, drawn):
    with pytest.raises(ValueError, match="layer 1"):
        cx.softmax_denominators(cx.LayerWeights.of(tiny, layer=1), drawn, 12)


def test_weights_without_embeddings_are_refused(precise, drawn):
    with pytest.raises(ValueError, match="without token embeddings"):
        cx.softmax_denominators(replace(precise, W_E=None), drawn, 12)


@pytest.mark.parametrize("C", [0.0, -2.0, float("nan")])
def test_a_C_that_is_no_norm_is_refused(precise, drawn, C):
    with pytest.raises(ValueError, match="positive"):
        cx.softmax_denominators(precise, drawn, 12, " the", C)


@pytest.mark.parametrize("n", [-1, 32])
def test_stable_heads_refuse_what_denominators_refuse(tiny, precise, drawn, n):
    with pytest.raises(ValueError, match="positions 0 to 31"):
        cx.stable_heads(precise, drawn, n)
    with pytest.raises(ValueError, match="exactly one"):
        cx.stable_heads(precise, drawn, 12, " bagpipes")
    with pytest.raises(ValueError, match="layer 1"):
        cx.stable_heads(cx.LayerWeights.of(tiny, layer=1), drawn, 12)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(precise, drawn):
    calls = [
        (cx.softmax_denominators, (precise, drawn, 12)),
        (cx.stable_heads, (precise, drawn, 12, " the", 0.0, 9.0)),
        (cx.destination.check_heads, (precise, [0, 1])),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
