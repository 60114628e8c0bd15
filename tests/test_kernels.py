"""Positional kernels: rows of position alone, and how far they spread."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import ctxlib as cx

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
def gpt2_kernels():
    """Kernels of GPT-2 small's first layer at n = 500, a typical token there (paper, Figure 2)."""
    if not GPT2_SMALL.exists():
        pytest.skip("the positional half of GPT-2 small is not at hand")
    weights = cx.LayerWeights.from_state_dict(load_file(GPT2_SMALL), n_heads=12)
    return cx.positional_kernels(weights, 500, token=None, C=3.5)


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
