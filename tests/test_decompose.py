"""Equation 1 and the rows that follow from it: every way to compute them against loops, the shapes
of kernels, and the families of heads.
"""

import math

import by_hand
import pytest
import torch
from by_hand import as_encoder, block_of, cases, draw, same, seeds
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.nn.functional import pad

import ctxlib as cx
from ctxlib.heads import family

# ---------------------------------------------------------------- Equation 1


@given(cases())
def test_rows_and_patterns_are_the_loops(make_weights, case):
    """A decoder does not look behind the destination. A rebuilt key has two halves, and is exact at
    the destination.
    """
    w, n, heads = block_of(make_weights, case), case.n, range(case.sizes["n_heads"])
    texts = case.texts[:, : by_hand.n_sources(w, n)] if case.both_sides else case.texts
    exact = [[by_hand.row(w, h, x, n) for h in heads] for x in texts.tolist()]
    rebuilt = [[by_hand.approx_row(w, h, x, n, case.C) for h in heads] for x in texts.tolist()]
    same(cx.attention_rows(w, texts, n), exact)
    same(cx.approx_rows(w, texts, n, case.C), rebuilt)
    one = texts[1, : by_hand.n_sources(w, n)]
    q, keys = w.queries(one)[:, n], w.keys(one)
    in_halves = cx.decompose.content_keys(w, n, one) + cx.decompose.positional_keys(w, n, case.C)
    same(in_halves[:, n] + w.b_K, keys[:, n])
    far = [[by_hand.distance(w, h, n, i) for i in range(len(one))] for h in heads]
    far = torch.tensor(far, dtype=torch.float64)
    for scores, k in (
        (cx.decompose.approx_scores(w, one, n, case.C), in_halves),
        (cx.decompose.exact_scores(w, one, n), keys),
    ):
        same(scores - far, torch.einsum("he,hse->hs", q, k) / case.divisor)
    rows = torch.tensor(exact[1], dtype=torch.float64)
    outputs = torch.einsum("hi,hik,hkm->hm", rows, w.values(one), w.W_O)
    same(outputs, by_hand.head_outputs(w, one.tolist(), n))
    for pattern, rows in (
        (cx.decompose.attention_pattern(w, texts[1]), exact),
        (cx.decompose.approx_pattern(w, texts[1], case.C), rebuilt),
    ):
        behind = 0, texts.shape[1] - by_hand.n_sources(w, n)
        same(pattern[:, n], pad(torch.tensor(rows[1], dtype=torch.float64), behind))


@given(cases(), st.booleans())
def test_queries_scores_and_kernels_are_the_loops(make_weights, case, with_token):
    """Without a token, LayerNorm's scale at n is that of a token of norm C."""
    w, n, C, token = (
        block_of(make_weights, case),
        case.n,
        case.C,
        case.token if with_token else None,
    )
    alone = w.d_model**0.5 * w.W_pos[n] / (w.W_pos[n] @ w.W_pos[n] + C**2) ** 0.5
    x = by_hand.content_component(w, token, n) if with_token else alone
    q = [by_hand.query(w, h, x) for h in range(w.n_heads)]
    same(cx.decompose.fixed_query(w, n, token, C), torch.stack(q))
    kernels = [by_hand.kernel(w, h, q_h, n, C) for h, q_h in enumerate(q)]
    same(cx.positional_kernels(w, n, token, C), kernels)
    if with_token:
        content = [
            [by_hand.content(w, h, q[h], n, t) for t in range(len(w.W_E))] for h in range(w.n_heads)
        ]
        content = torch.tensor(content, dtype=torch.float64).log()
        same(cx.content_scores(w, n, token), content)
        some = case.texts[0]
        same(cx.content_scores(w, n, token, some), content[:, some])


def test_the_token_is_the_and_C_the_typical_norm_unless_they_are_given(tiny_weights, tiny_tokens):
    the, C = tiny_weights.token_id(" the"), tiny_weights.typical_norm()
    assert sorted(tiny_weights.W_E.norm(dim=-1).tolist())[149] == C, "the median one, of 300"
    by_default = cx.positional_kernels(tiny_weights, 9)
    assert torch.equal(by_default, cx.positional_kernels(tiny_weights, 9, the, C))
    assert not torch.equal(by_default, cx.positional_kernels(tiny_weights, 9, " of"))
    for of, fixed in ((cx.approx_rows, [9]), (cx.decompose.approx_pattern, [])):
        arguments = tiny_weights, tiny_tokens, *fixed
        assert torch.equal(of(*arguments), of(*arguments, C=C))


@pytest.mark.parametrize("n", [-1, 32, 5])
def test_positions_are_those_of_the_model_and_of_the_text(tiny_weights, n):
    with pytest.raises(ValueError, match=f"position {n}: .* 0 to (31|4)$"):
        cx.attention_rows(tiny_weights, torch.arange(5), n)


@pytest.mark.parametrize("shape", [(0,), (1, 32), (33,)], ids=str)
def test_a_pattern_is_of_one_text_that_the_model_can_read(tiny_weights, shape):
    with pytest.raises(ValueError, match=r"give one text of 1 to 32$"):
        cx.decompose.attention_pattern(tiny_weights, torch.ones(shape).long())


@pytest.mark.parametrize("token", [" bagpipes", "the the", "", -1, 300])
def test_a_token_is_one_of_the_vocabulary(tiny_weights, token):
    with pytest.raises(ValueError, match=r"exactly one|there are token ids 0 to 299"):
        cx.content_scores(tiny_weights, 5, token)


@pytest.mark.parametrize("C", [0.0, -2.0, float("nan"), float("inf"), True, "3"])
def test_C_is_a_positive_number(tiny_weights, C):
    with pytest.raises(ValueError, match=f"C={C}: .* is a positive number"):
        cx.positional_kernels(tiny_weights, 5, C=C)


# ---------------------------------------------------------------- the shape of a row


@given(seeds)
def test_total_variation_is_the_attention_that_has_to_move_either_way(seed):
    """So it is 0 from a row to itself, at most 1, and no smaller by a detour."""
    a, b = draw(2, 4, seed=seed).softmax(-1)
    apart = cx.total_variation(a, b)
    same(apart, (a - b).clamp(min=0).sum())
    assert apart == cx.total_variation(b, a)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9).filter(any), st.integers(0, 8))
def test_spread_and_the_half_of_a_row_are_the_loops(parts, n):
    """Of a power of two, so that exactly half of the mass, which such parts often make, is half."""
    n, parts = n % len(parts), [*parts, 2 ** math.ceil(math.log2(sum(parts))) - sum(parts)]
    rows = torch.tensor([parts, parts[::-1]], dtype=torch.float64) / sum(parts)
    same(cx.effective_tokens(rows), [1 / sum(p**2 for p in row) for row in rows.tolist()])

    def half(row, n):
        return next(d for d in range(len(row)) if row[max(n - d, 0) : n + d + 1].sum() >= 0.5)

    for there in (n, len(parts) - 1):
        expected = [half(row, there) for row in rows]
        assert cx.heads.half_mass(rows, there).tolist() == expected
    assert [cx.heads.half_mass(row) for row in rows] == expected, "of the last one, by default"


# ---------------------------------------------------------------- families


@given(seeds, st.integers(1, 4))
def test_copy_preference_is_the_loops(make_weights, seed, n_heads):
    """Of all of a small vocabulary but BOS."""
    w, by_head, ids = make_weights(seed, n_heads, vocab=7), [], [*range(1, 7)]
    for h in range(n_heads):
        x = {t: by_hand.content_component(w, t, 9) for t in ids}
        preferences = []
        for dest in ids:
            score = {t: by_hand.score(w, h, by_hand.query(w, h, x[dest]), x[t]) for t in ids}
            others = [score[t] for t in ids if t != dest]
            preferences.append(score[dest] - sum(others) / len(others))
        by_head.append(sum(preferences) / len(preferences))
    same(cx.heads.copy_preference(w, 9), by_head)


NO_COPIES = float("nan")


@pytest.mark.parametrize(
    ("numbers", "name", "because"),
    [
        ((5.6, 1, 0.9, 0.0), "local", "spread over 5.6 tokens"),
        ((5.6, 1, 0.9, 9.0), "local", "spread over 5.6 tokens"),
        ((14.9, 400, 0.1, NO_COPIES), "local", "spread over 14.9 tokens"),
        ((121, 40, 0.5, 2.1), "duplicate-token", "2.1 nats"),
        ((450, 250, 0.1, 7.0), "duplicate-token", "7.0 nats"),
        ((450, 250, 0.1, 2.0), "uniform", "10% of the mass"),
        ((450, 400, 0.33, NO_COPIES), "uniform", "33% of the mass"),
        ((90, 251, 1 / 3, 1.0), "remote", "more than 250 tokens back"),
        ((90, 250, 0.34, 1.0), "slowly decaying", "half of the mass within 250"),
        ((15, 36, 0.9, NO_COPIES), "slowly decaying", "spread over 15 tokens"),
    ],
)
def test_numbers_decide_the_family_and_the_reason_names_them(numbers, name, because):
    found, reason = family(*numbers, n=500)
    assert found == name
    assert because in reason


@pytest.mark.parametrize("made", [lambda w: w, as_encoder], ids=["decoder", "encoder"])
def test_the_table_of_families_holds_a_row_for_each_head(tiny_weights, made):
    weights = made(tiny_weights.to(torch.float64))
    kernels = cx.positional_kernels(weights, 20)
    table = cx.families(cx.fix_query(weights, n=20))
    for name, values in {
        "effective tokens": cx.effective_tokens(kernels),
        "half-mass distance": cx.heads.half_mass(kernels, 20),
        "TV to uniform": cx.total_variation(kernels, torch.ones_like(kernels) / kernels.shape[1]),
        "nats for a copy": cx.heads.copy_preference(weights, 20),
    }.items():
        assert table[name].tolist() == values.tolist()
    for _, (*numbers, name, because) in table.iterrows():
        assert (name, because) == family(*numbers, n=20)


def test_a_shape_that_is_not_the_annotated_one_is_noticed(annotations_checked, tiny_weights):
    kernels = cx.positional_kernels(tiny_weights, 9)
    with pytest.raises(TypeCheckError):
        cx.total_variation(kernels, kernels[:, 1:])
