"""Positional kernels: rows of position alone, how far they spread, and what a head is beside."""

from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped
from safetensors.torch import load_file

import ctxlib as cx
from ctxlib.split import family

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)
GPT2_SMALL = Path(__file__).parents[2] / "shared" / "gpt2-small" / "layer0-attention.safetensors"

seeds, heads, norms = st.integers(0, 999), st.integers(1, 4), st.floats(0.1, 30)


# ---------------------------------------------------------------- kernels


@given(seeds, heads, norms, st.one_of(st.none(), st.integers(0, 19)))
def test_kernels_sum_to_one_and_are_positive(make_weights, seed, n_heads, C, token):
    weights = make_weights(seed, n_heads)
    for n in (0, 1, 11):
        kernels = cx.positional_kernels(weights, n, token, C)
        assert kernels.shape == (n_heads, n + 1)
        assert (kernels > 0).all()
        same(kernels.sum(-1), torch.ones(n_heads, dtype=torch.float64))


def kernel_by_hand(weights, n, x, C):
    """The softmax of what position alone scores, for the normalised destination x."""
    rows = []
    for h in range(weights.n_heads):
        q = x @ weights.W_Q[h] + weights.b_Q[h]
        exps = []
        for i in range(n + 1):
            scale = (weights.W_pos[i] @ weights.W_pos[i] + C**2) ** 0.5
            key = (
                weights.d_model**0.5
                * (weights.W_pos[i] - weights.W_pos[n])
                @ weights.W_K[h]
                / scale
            )
            exps.append(torch.exp(q @ key / weights.d_head**0.5))
        rows.append(torch.stack(exps) / sum(exps))
    return torch.stack(rows)


@given(seeds, heads, norms)
def test_kernels_without_a_token_are_the_loops(make_weights, seed, n_heads, C):
    weights = make_weights(seed, n_heads)
    for n in (0, 3, 11):
        here = weights.W_pos[n]
        x = weights.d_model**0.5 * here / (here @ here + C**2) ** 0.5
        same(cx.positional_kernels(weights, n, token=None, C=C), kernel_by_hand(weights, n, x, C))


@given(seeds, heads, norms, st.integers(0, 19))
def test_kernels_with_a_token_are_the_loops(make_weights, seed, n_heads, C, token):
    weights = make_weights(seed, n_heads)
    for n in (0, 3, 11):
        v = weights.W_E[token] + weights.W_pos[n]
        x = v / ((v @ v) / weights.d_model + weights.eps).sqrt()
        same(cx.positional_kernels(weights, n, token, C), kernel_by_hand(weights, n, x, C))


def test_a_kernel_is_the_rebuilt_row_of_a_text_that_repeats_one_token(tiny_weights):
    weights = tiny_weights.to(torch.float64)
    the = weights.token_id(" the")
    row = cx.rebuilt_rows(weights, torch.full((21,), the), 20)
    same(cx.positional_kernels(weights, 20, " the"), row)


def test_a_token_is_given_as_text_or_as_its_id(tiny_weights):
    by_text = cx.positional_kernels(tiny_weights, 9)
    assert torch.equal(
        by_text, cx.positional_kernels(tiny_weights, 9, tiny_weights.token_id(" the"))
    )
    assert not torch.equal(by_text, cx.positional_kernels(tiny_weights, 9, " of"))


def test_C_is_the_typical_norm_unless_it_is_given(tiny_weights):
    for token in (" the", None):
        given_C = cx.positional_kernels(tiny_weights, 9, token, tiny_weights.typical_norm())
        assert torch.equal(cx.positional_kernels(tiny_weights, 9, token), given_C)


def test_kernels_are_uniform_where_all_positions_are_alike(tiny_weights):
    flat = replace(tiny_weights, W_pos=tiny_weights.W_pos[:1].expand_as(tiny_weights.W_pos))
    torch.testing.assert_close(cx.positional_kernels(flat, 15), torch.full((3, 16), 1 / 16))


def test_b_K_changes_no_kernel(tiny_weights):
    other = replace(tiny_weights, b_K=tiny_weights.b_K + 5)
    assert torch.equal(cx.positional_kernels(other, 9), cx.positional_kernels(tiny_weights, 9))


# ---------------------------------------------------------------- spread


@given(st.integers(0, 700))
def test_a_uniform_row_is_spread_over_all_its_tokens(n):
    even = torch.full((n + 1,), 1 / (n + 1), dtype=torch.float64)
    same(cx.effective_tokens(even), torch.tensor(n + 1.0, dtype=torch.float64))


def test_a_row_on_one_token_is_spread_over_one():
    assert cx.effective_tokens(torch.tensor([0.0, 1.0, 0.0])) == 1


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=40))
def test_a_row_is_spread_over_1_to_n_plus_1_tokens(scores):
    row = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    assert 1 - 1e-9 <= cx.effective_tokens(row) <= len(scores) + 1e-9


def test_each_head_has_its_own_spread(tiny_weights):
    kernels = cx.positional_kernels(tiny_weights, 20)
    spread = cx.effective_tokens(kernels)
    assert spread.shape == (3,)
    assert spread[1] == cx.effective_tokens(kernels[1])


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("n", [-1, 32])
def test_a_position_that_the_model_lacks_is_refused(tiny_weights, n):
    with pytest.raises(ValueError, match="positions 0 to 31"):
        cx.positional_kernels(tiny_weights, n)


@pytest.mark.parametrize("token", [" the", None])
@pytest.mark.parametrize("C", [0.0, -2.0, float("nan")])
def test_a_C_that_is_no_norm_is_refused(tiny_weights, token, C):
    with pytest.raises(ValueError, match="positive"):
        cx.positional_kernels(tiny_weights, 5, token, C)


@pytest.mark.parametrize("token", [" bagpipes", 300, -1])
def test_what_is_not_one_token_of_the_vocabulary_is_refused(tiny_weights, token):
    with pytest.raises(ValueError, match=r"exactly one|ids 0 to 299"):
        cx.positional_kernels(tiny_weights, 5, token)


def test_a_later_layer_is_refused(tiny):
    with pytest.raises(ValueError, match="layer 1"):
        cx.positional_kernels(cx.LayerWeights.of(tiny, layer=1), 5)


def test_without_embeddings_the_error_asks_for_C(make_state):
    half = {name: tensor for name, tensor in make_state().items() if name != "wte.weight"}
    with pytest.raises(ValueError, match=r"\bC\b"):
        cx.positional_kernels(cx.LayerWeights.from_state_dict(half, n_heads=2), 5, token=None)


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
def test_the_heads_of_gpt2_small_spread_as_far_as_they_do_elsewhere(gpt2_kernels, head):
    expected, _ = (SLOWLY_DECAYING | LOCAL | OTHERS)[head]
    rounding = 0.06 if head in LOCAL else 0.6
    assert cx.effective_tokens(gpt2_kernels)[head].item() == pytest.approx(expected, abs=rounding)


@pytest.mark.parametrize("head", range(12))
def test_the_heads_of_gpt2_small_hold_half_of_their_mass_where_they_do_elsewhere(
    gpt2_kernels, head
):
    _, expected = (SLOWLY_DECAYING | LOCAL | OTHERS)[head]
    reach = gpt2_kernels[head].flip(0).cumsum(0)  # mass within the last 1, 2, 3, ... tokens
    distance = int((reach < 0.5).sum())
    assert distance == expected


def test_the_heads_of_gpt2_small_fall_into_the_families_of_the_paper(gpt2_weights):
    table = cx.families(gpt2_weights, 500, token=None, C=3.5)
    found = {name: set(heads) for name, heads in table.groupby("family").groups.items()}
    assert found["slowly decaying"] >= {0, 2, 6, 8, 9, 10}
    assert found["local"] == {3, 4, 7}
    assert found["uniform"] == {5, 11}
    assert table["nats for a copy"].isna().all()


# ---------------------------------------------------------------- the two factors of a row


def norm(weights, v):
    return v / ((v @ v) / weights.d_model + weights.eps).sqrt()


@given(seeds, heads, st.integers(0, 19))
def test_a_destination_query_is_the_loops(make_weights, seed, n_heads, token):
    weights = make_weights(seed, n_heads)
    for n in (0, 11):
        x = norm(weights, weights.W_E[token] + weights.W_pos[n])
        by_hand = [x @ weights.W_Q[h] + weights.b_Q[h] for h in range(n_heads)]
        same(cx.split.destination_query(weights, n, token), torch.stack(by_hand))


@given(seeds, norms)
def test_a_destination_query_without_a_token_is_the_loops(make_weights, seed, C):
    weights = make_weights(seed)
    here = weights.W_pos[7]
    x = weights.d_model**0.5 * here / (here @ here + C**2) ** 0.5
    by_hand = [x @ weights.W_Q[h] + weights.b_Q[h] for h in range(2)]
    same(cx.split.destination_query(weights, 7, None, C), torch.stack(by_hand))


def test_the_destination_query_is_the_one_of_a_text_with_that_token_there(tiny_weights):
    weights = tiny_weights.to(torch.float64)
    text = torch.tensor([0, 5, 9, weights.token_id(" the")])
    same(cx.split.destination_query(weights, 3), weights.queries(text)[:, 3])


@given(seeds, norms, st.one_of(st.none(), st.integers(0, 19)))
def test_positional_scores_end_in_zero_and_give_the_kernels(make_weights, seed, C, token):
    weights = make_weights(seed)
    for n in (0, 1, 11):
        scores = cx.split.positional_scores(weights, n, token, C)
        assert scores.shape == (2, n + 1)
        assert not scores[:, n].any()
        same(scores.softmax(-1), cx.positional_kernels(weights, n, token, C))


@given(seeds, norms, st.integers(0, 19))
def test_positional_scores_are_the_query_on_the_positional_keys(make_weights, seed, C, token):
    weights = make_weights(seed)
    q, keys = cx.split.destination_query(weights, 9, token), cx.positional_keys(weights, 9, C)
    by_hand = [[q[h] @ keys[h, i] / weights.d_head**0.5 for i in range(10)] for h in range(2)]
    same(
        cx.split.positional_scores(weights, 9, token, C), torch.tensor(by_hand, dtype=torch.float64)
    )


@given(seeds, heads, st.integers(0, 19))
def test_content_scores_are_the_loops(make_weights, seed, n_heads, token):
    weights = make_weights(seed, n_heads)
    for n in (0, 11):
        by_hand = torch.zeros(n_heads, 20, dtype=torch.float64)
        x = norm(weights, weights.W_E[token] + weights.W_pos[n])
        for h in range(n_heads):
            q = x @ weights.W_Q[h] + weights.b_Q[h]
            for t in range(20):
                key = norm(weights, weights.W_E[t] + weights.W_pos[n]) @ weights.W_K[h]
                by_hand[h, t] = q @ key / weights.d_head**0.5
        same(cx.content_scores(weights, n, token), by_hand)


def test_content_scores_are_the_query_on_the_content_keys(tiny_weights):
    weights = tiny_weights.to(torch.float64)
    q, keys = cx.split.destination_query(weights, 9), cx.content_keys(weights, 9)
    expected = torch.stack([keys[h] @ q[h] for h in range(3)]) / weights.attn_scale
    same(cx.content_scores(weights, 9), expected)


def test_content_scores_of_chosen_tokens_come_in_their_order(tiny_weights):
    weights, chosen = tiny_weights.to(torch.float64), torch.tensor([7, 0, 299, 7])
    whole = cx.content_scores(weights, 9)
    assert whole.shape == (3, 300)
    same(cx.content_scores(weights, 9, tokens=chosen), whole[:, chosen])


def test_both_scores_add_up_to_those_of_equation_1(tiny_weights, tiny_tokens):
    weights, n = tiny_weights.to(torch.float64), 20
    text = torch.cat([tiny_tokens[:n], torch.tensor([weights.token_id(" the")])])
    added = cx.content_scores(weights, n, tokens=text) + cx.split.positional_scores(weights, n)
    same(added, cx.split.rebuilt_scores(weights, text, n))


# ---------------------------------------------------------------- the shape of a kernel

row_lists = st.lists(st.floats(-5, 5), min_size=1, max_size=30)


@given(row_lists)
def test_half_of_the_mass_lies_within_the_smallest_reach_that_holds_it(scores):
    row = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    held = list(accumulate(reversed(row.tolist())))
    reach = next((d for d, mass in enumerate(held) if mass >= 0.5), len(held))
    assert cx.split.half_mass(row) == reach


def test_half_of_the_mass_of_each_head_is_its_own():
    rows = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])
    assert cx.split.half_mass(rows).tolist() == [0, 1, 2]


def test_exactly_half_of_the_mass_is_half_of_it():
    assert cx.split.half_mass(torch.tensor([0.5, 0.5])) == 0
    assert cx.split.half_mass(torch.tensor([0.25, 0.25, 0.25, 0.25])) == 1


@given(row_lists, st.data())
def test_a_row_by_distance_sums_to_one_and_runs_backwards(scores, data):
    row = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    reach = data.draw(st.integers(0, len(row) - 1))
    by_distance = cx.split.by_distance(row, reach)
    near = row.tolist()[::-1][: reach + 1]
    same(by_distance, torch.tensor([mass / sum(near) for mass in near], dtype=torch.float64))
    same(by_distance.sum(), torch.tensor(1.0, dtype=torch.float64))


def test_each_head_is_laid_out_by_distance_on_its_own(tiny_weights):
    kernels = cx.positional_kernels(tiny_weights, 20)
    rows = cx.split.by_distance(kernels, 7)
    assert rows.shape == (3, 8)
    torch.testing.assert_close(rows[1], cx.split.by_distance(kernels[1], 7))


@pytest.mark.parametrize("reach", [-1, 4, 100])
def test_a_reach_beyond_the_first_position_is_refused(reach):
    with pytest.raises(ValueError, match=f"reach {reach}: these rows go back 0 to 3 tokens"):
        cx.split.by_distance(torch.full((4,), 0.25), reach)


# ---------------------------------------------------------------- families


@given(seeds, heads, st.lists(st.integers(0, 19), min_size=2, max_size=6, unique=True))
def test_copy_preference_is_the_loops(make_weights, seed, n_heads, ids):
    weights = make_weights(seed, n_heads)
    by_hand = []
    for h in range(n_heads):
        x = {t: norm(weights, weights.W_E[t] + weights.W_pos[9]) for t in ids}
        preferences = []
        for dest in ids:
            q = x[dest] @ weights.W_Q[h] + weights.b_Q[h]
            score = {t: q @ (x[t] @ weights.W_K[h]) / weights.d_head**0.5 for t in ids}
            others = [score[t] for t in ids if t != dest]
            preferences.append(score[dest] - sum(others) / len(others))
        by_hand.append(sum(preferences) / len(preferences))
    same(cx.split.copy_preference(weights, 9, torch.tensor(ids)), torch.stack(by_hand))


def test_a_token_named_twice_counts_once(make_weights):
    weights = make_weights()
    once = cx.split.copy_preference(weights, 9, torch.tensor([3, 7, 11]))
    same(cx.split.copy_preference(weights, 9, torch.tensor([7, 3, 11, 3])), once)


def test_b_K_changes_no_copy_preference(make_weights):
    weights = make_weights()
    other = replace(weights, b_K=weights.b_K + 5)
    same(cx.split.copy_preference(other, 9), cx.split.copy_preference(weights, 9))


def test_copy_preference_asks_all_of_a_small_vocabulary_but_bos(make_weights):
    weights = make_weights()
    same(
        cx.split.copy_preference(weights, 9),
        cx.split.copy_preference(weights, 9, torch.arange(1, 20)),
    )


@pytest.mark.parametrize("ids", [[], [4], [4, 4]])
def test_a_copy_preference_among_fewer_than_two_tokens_is_refused(tiny_weights, ids):
    with pytest.raises(ValueError, match="at least two different"):
        cx.split.copy_preference(tiny_weights, 9, torch.tensor(ids, dtype=torch.long))


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


def test_a_head_that_asks_for_nothing_is_uniform(tiny_weights):
    blind = replace(
        tiny_weights,
        W_Q=torch.zeros_like(tiny_weights.W_Q),
        b_Q=torch.zeros_like(tiny_weights.b_Q),
    )
    assert cx.families(blind, 20)["family"].tolist() == ["uniform"] * 3


def test_a_head_whose_keys_are_its_queries_looks_for_copies(tiny_weights):
    even = tiny_weights.W_pos[:1].expand_as(tiny_weights.W_pos)
    twin = replace(tiny_weights, W_pos=even, W_K=5 * tiny_weights.W_Q)
    assert cx.families(twin, 20)["family"].tolist() == ["duplicate-token"] * 3


# ---------------------------------------------------------------- what else is refused

BY_DESTINATION = [
    cx.split.destination_query,
    cx.split.positional_scores,
    cx.content_scores,
    cx.families,
]
by_destination = pytest.mark.parametrize("function", BY_DESTINATION)


@pytest.mark.parametrize("function", [*BY_DESTINATION, cx.split.copy_preference])
@pytest.mark.parametrize("n", [-1, 32])
def test_what_is_asked_at_a_position_that_the_model_lacks_is_refused(tiny_weights, function, n):
    with pytest.raises(ValueError, match="positions 0 to 31"):
        function(tiny_weights, n)


@by_destination
@pytest.mark.parametrize("token", [" bagpipes", 300, -1])
def test_a_destination_that_is_not_one_token_is_refused(tiny_weights, function, token):
    with pytest.raises(ValueError, match=r"exactly one|ids 0 to 299"):
        function(tiny_weights, 5, token)


@pytest.mark.parametrize("function", [*BY_DESTINATION, cx.split.copy_preference])
def test_what_is_asked_of_a_later_layer_is_refused(tiny, function):
    with pytest.raises(ValueError, match="layer 1"):
        function(cx.LayerWeights.of(tiny, layer=1), 5)


@pytest.mark.parametrize("function", [cx.content_scores, cx.split.copy_preference])
def test_scores_of_tokens_outside_the_vocabulary_are_refused(tiny_weights, function):
    for stranger in (-1, 300):
        with pytest.raises(ValueError, match="ids 0 to 299"):
            function(tiny_weights, 5, tokens=torch.tensor([3, stranger]))


@by_destination
def test_a_token_without_embeddings_is_refused(make_state, function):
    half = {name: tensor for name, tensor in make_state().items() if name != "wte.weight"}
    with pytest.raises(ValueError, match="without token embeddings"):
        function(cx.LayerWeights.from_state_dict(half, n_heads=2), 5, 3)


@pytest.mark.parametrize("C", [0.0, -2.0, float("nan")])
@pytest.mark.parametrize(
    "function", [cx.split.destination_query, cx.split.positional_scores, cx.families]
)
def test_a_query_without_a_token_refuses_a_C_that_is_no_norm(tiny_weights, function, C):
    with pytest.raises(ValueError, match="positive"):
        function(tiny_weights, 5, None, C)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(tiny_weights):
    w, kernels = tiny_weights, cx.positional_kernels(tiny_weights, 9)
    calls = [
        (cx.split.destination_query, (w, 9)),
        (cx.split.positional_scores, (w, 9)),
        (cx.content_scores, (w, 9)),
        (cx.content_scores, (w, 9, " the", torch.tensor([1, 2]))),
        (cx.split.half_mass, (kernels,)),
        (cx.split.half_mass, (kernels[0],)),
        (cx.split.by_distance, (kernels, 4)),
        (cx.split.copy_preference, (w, 9)),
        (cx.families, (w, 9)),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
