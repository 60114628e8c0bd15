"""Positional kernels: rows of position alone, how far they spread, and what a head is beside. What
is refused of them stands in the table of test_keys.py.
"""

from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import by_hand
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import ctxlib as cx
from ctxlib.split import family

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)
GPT2_SMALL = Path(__file__).parents[2] / "shared" / "gpt2-small" / "layer0-attention.safetensors"

seeds, heads, norms = st.integers(0, 999), st.integers(1, 4), st.floats(0.1, 30)


# ---------------------------------------------------------------- the two factors of a row


@given(seeds, heads, norms, st.one_of(st.none(), st.integers(0, 19)))
def test_queries_scores_and_kernels_are_the_loops(make_weights, seed, n_heads, C, token):
    """Without a token, LayerNorm's scale at n is that of a token of norm C."""
    weights = make_weights(seed, n_heads)
    for n in (0, 3, 11):
        here = weights.W_pos[n]
        x = weights.d_model**0.5 * here / (here @ here + C**2) ** 0.5
        x = x if token is None else by_hand.what(weights, token, n)
        q = [by_hand.query(weights, h, x) for h in range(n_heads)]
        same(cx.split.destination_query(weights, n, token, C), torch.stack(q))

        def scores(sources, weights=weights, q=q):
            by_head = (
                [by_hand.score(weights, h, q_h, v) for v in sources] for h, q_h in enumerate(q)
            )
            return torch.tensor([*by_head], dtype=torch.float64)

        positional = cx.split.positional_scores(weights, n, token, C)
        by_position = scores([by_hand.where(weights, i, n, C) for i in range(n + 1)])
        same(positional, by_position)
        assert not positional[:, n].any()
        same(cx.positional_kernels(weights, n, token, C), by_position.softmax(-1))
        if token is not None:
            by_token = scores([by_hand.what(weights, t, n) for t in range(20)])
            same(cx.content_scores(weights, n, token), by_token)


def test_both_scores_add_up_to_those_of_equation_1(precise, tiny_tokens):
    n = 20
    text = torch.cat([tiny_tokens[:n], torch.tensor([precise.token_id(" the")])])
    added = cx.content_scores(precise, n, tokens=text) + cx.split.positional_scores(precise, n)
    same(added, cx.split.rebuilt_scores(precise, text, n))
    same(cx.content_scores(precise, n, tokens=text), cx.content_scores(precise, n)[:, text])


def test_the_token_is_the_and_C_the_typical_norm_unless_they_are_given(tiny_weights):
    the, C = tiny_weights.token_id(" the"), tiny_weights.typical_norm()
    for token in (the, None):
        by_default = cx.positional_kernels(tiny_weights, 9, token)
        assert torch.equal(by_default, cx.positional_kernels(tiny_weights, 9, token, C))
    by_text = cx.positional_kernels(tiny_weights, 9)
    assert torch.equal(by_text, cx.positional_kernels(tiny_weights, 9, the))
    assert not torch.equal(by_text, cx.positional_kernels(tiny_weights, 9, " of"))


# ---------------------------------------------------------------- the shape of a kernel


@given(st.lists(st.lists(st.floats(-20, 20), min_size=9, max_size=9), min_size=1, max_size=3))
def test_spread_and_reach_of_each_head_are_the_loops(scores):
    rows = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    for row, spread, half in zip(
        rows.tolist(), cx.effective_tokens(rows), cx.split.half_mass(rows), strict=True
    ):
        assert float(spread) == pytest.approx(1 / sum(p**2 for p in row), rel=1e-9)
        held = list(accumulate(reversed(row)))
        assert half == next((d for d, mass in enumerate(held) if mass >= 0.5), len(held))


@pytest.mark.parametrize(
    ("row", "spread", "half"),
    [
        ([0.0, 0.0, 1.0], 1, 0),
        ([0.25, 0.5, 0.25], 8 / 3, 1),
        ([1.0, 0.0, 0.0], 1, 2),
        ([0.5, 0.5], 2, 0),
        ([0.25] * 4, 4, 1),
        ([1.0], 1, 0),
    ],
)
def test_exactly_half_of_the_mass_is_half_of_it(row, spread, half):
    """And an even row is spread over all of its tokens."""
    assert cx.effective_tokens(torch.tensor(row)).item() == pytest.approx(spread, rel=1e-6)
    assert cx.split.half_mass(torch.tensor(row)) == half


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.data())
def test_rows_by_distance_sum_to_one_and_run_backwards(scores, data):
    row = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    reach = data.draw(st.integers(0, len(row) - 1))
    by_hand = []
    for one in (row, row.flip(0)):
        near = one.tolist()[::-1][: reach + 1]
        by_hand.append([mass / sum(near) for mass in near])
    by_distance = cx.split.by_distance(torch.stack([row, row.flip(0)]), reach)
    same(by_distance, torch.tensor(by_hand, dtype=torch.float64))
    same(cx.split.by_distance(row, reach), by_distance[0])


@pytest.mark.parametrize("reach", [-1, 4, 100])
def test_a_reach_beyond_the_first_position_is_refused(reach):
    with pytest.raises(ValueError, match=f"reach {reach}: these rows go back 0 to 3 tokens"):
        cx.split.by_distance(torch.full((4,), 0.25), reach)


# ---------------------------------------------------------------- GPT-2 small, where it is at hand


@pytest.fixture(scope="module")
def gpt2_weights():
    if not GPT2_SMALL.exists():
        pytest.skip("the positional half of GPT-2 small is not at hand")
    return cx.LayerWeights.from_state_dict(load_file(GPT2_SMALL), n_heads=12)


@pytest.fixture(scope="module")
def gpt2_kernels(gpt2_weights):
    """Kernels of GPT-2 small's first layer at n = 500, a typical token there (paper, Figure 2)."""
    return cx.positional_kernels(gpt2_weights, 500, token=None, C=3.5)


# head: effective tokens, and how far back half of the mass reaches; rounded
SLOWLY_DECAYING = {
    0: (113, 36),
    2: (133, 42),
    6: (102, 32),
    8: (90, 28),
    9: (102, 33),
    10: (97, 31),
}
LOCAL = {3: (5.6, 1), 4: (8.9, 3), 7: (7.1, 2)}
OTHERS = {1: (121, 40), 5: (31, 311), 11: (322, 269)}


@pytest.mark.parametrize("head", range(12))
def test_the_heads_of_gpt2_small_spread_and_reach_as_far_as_they_do_elsewhere(gpt2_kernels, head):
    spread, distance = (SLOWLY_DECAYING | LOCAL | OTHERS)[head]
    rounding = 0.06 if head in LOCAL else 0.6
    assert cx.effective_tokens(gpt2_kernels)[head].item() == pytest.approx(spread, abs=rounding)
    reach = gpt2_kernels[head].flip(0).cumsum(0)  # mass within the last 1, 2, 3, ... tokens
    assert int((reach < 0.5).sum()) == distance


def test_the_heads_of_gpt2_small_fall_into_the_families_of_the_paper(gpt2_weights):
    table = cx.families(gpt2_weights, 500, token=None, C=3.5)
    found = {name: set(heads) for name, heads in table.groupby("family").groups.items()}
    assert found["slowly decaying"] >= {0, 2, 6, 8, 9, 10}
    assert found["local"] == {3, 4, 7}
    assert found["uniform"] == {5, 11}
    assert table["nats for a copy"].isna().all()


# ---------------------------------------------------------------- families

others_and_none = st.one_of(
    st.none(), st.lists(st.integers(0, 19), min_size=2, max_size=6, unique=True)
)


@given(seeds, heads, others_and_none)
def test_copy_preference_is_the_loops(make_weights, seed, n_heads, chosen):
    """Of tokens, of which one may be named twice, or of all of a small vocabulary but BOS."""
    weights, by_head = make_weights(seed, n_heads), []
    ids = [*range(1, 20)] if chosen is None else chosen
    for h in range(n_heads):
        x = {t: by_hand.what(weights, t, 9) for t in ids}
        preferences = []
        for dest in ids:
            q = by_hand.query(weights, h, x[dest])
            score = {t: by_hand.score(weights, h, q, x[t]) for t in ids}
            others = [score[t] for t in ids if t != dest]
            preferences.append(score[dest] - sum(others) / len(others))
        by_head.append(sum(preferences) / len(preferences))
    asked = None if chosen is None else torch.tensor([*chosen, chosen[0]])
    found = cx.split.copy_preference(weights, 9, asked)
    same(found, torch.tensor(by_head, dtype=torch.float64))


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
        ((90, 251, 0.34, 1.0), "remote", "more than 250 tokens back"),
        ((90, 250, 0.34, 1.0), "slowly decaying", "half of the mass within 250"),
        ((15, 36, 0.9, NO_COPIES), "slowly decaying", "spread over 15 tokens"),
    ],
)
def test_numbers_decide_the_family_and_the_reason_names_them(numbers, name, because):
    found, reason = family(*numbers, n=500)
    assert found == name
    assert because in reason


def test_the_table_of_families_holds_a_row_for_each_head(tiny_weights):
    table = cx.families(tiny_weights, 20)
    kernels = cx.positional_kernels(tiny_weights, 20)
    uneven = cx.total_variation(kernels, torch.full((3, 21), 1 / 21))
    assert table.index.name == "head"
    assert table.index.tolist() == [0, 1, 2]
    assert table["effective tokens"].tolist() == cx.effective_tokens(kernels).tolist()
    assert table["half of the mass within"].tolist() == cx.split.half_mass(kernels).tolist()
    assert table["TV to uniform"].tolist() == uneven.tolist()
    assert table["nats for a copy"].tolist() == cx.split.copy_preference(tiny_weights, 20).tolist()
    for _, row in table.iterrows():
        assert (row["family"], row["because"]) == family(*row.iloc[:4], n=20)


def test_without_embeddings_nothing_is_known_of_copies(make_state):
    half = {name: tensor for name, tensor in make_state().items() if name != "wte.weight"}
    weights = cx.LayerWeights.from_state_dict(half, n_heads=2)
    table = cx.families(weights, 11, token=None, C=3.0)
    assert table["nats for a copy"].isna().all()
    kernels = cx.positional_kernels(weights, 11, None, 3.0)
    assert table["effective tokens"].tolist() == cx.effective_tokens(kernels).tolist()


def test_a_head_that_asks_for_nothing_is_uniform_and_one_whose_keys_are_its_queries_copies(
    tiny_weights,
):
    nothing = torch.zeros_like(tiny_weights.W_Q)
    blind = replace(tiny_weights, W_Q=nothing, b_Q=nothing[:, 0])
    assert cx.families(blind, 20)["family"].tolist() == ["uniform"] * 3
    even = tiny_weights.W_pos[:1].expand_as(tiny_weights.W_pos)
    twin = replace(tiny_weights, W_pos=even, W_K=5 * tiny_weights.W_Q)
    assert cx.families(twin, 20)["family"].tolist() == ["duplicate-token"] * 3
