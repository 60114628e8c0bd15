"""Nulls: what they keep of what was found, and what they do not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ctxbook as cb

NAN = st.just(float("nan"))


@given(st.integers(2, 30), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_mixtures_are_as_long_and_lie_in_the_span(neurons, count, seed):
    W = torch.from_numpy(np.random.default_rng(seed).standard_normal((6, neurons)))
    mixed = cb.nulls.mixtures(W, seed, count)
    lengths = W.norm(dim=0).repeat(count)[:count]
    assert torch.allclose(mixed.norm(dim=0), lengths, rtol=1e-9)
    inside = W @ torch.linalg.lstsq(W, mixed, driver="gelsd").solution
    assert torch.allclose(inside, mixed, atol=1e-6 * float(lengths.max()))
    even = cb.nulls.mixtures(torch.eye(40), seed)  # they point any way
    assert abs(even.mean()) < 5 * even.std() / even.numel() ** 0.5


@given(st.integers(12, 60), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_random_sets_hold_any_neurons_and_those_of_like_number_the_nearest(count, size, seed):
    rng = np.random.default_rng(seed)
    values, chosen = rng.standard_normal(count), rng.choice(count, size, replace=False)
    plain = cb.nulls.random_sets(chosen, count, 1000, seed)
    alike = cb.nulls.random_sets(chosen, count, 1000, seed, values, nearest=5)
    assert plain.shape == alike.shape == (1000, size)
    assert set(plain.ravel().tolist()) == set(range(count)), "the chosen as well"
    assert all(len(set(row)) == size for row in plain.tolist())
    for k, j in enumerate(chosen):
        assert {*alike[:, k]} == {*np.abs(values - values[j]).argsort()[:5]}, "itself as well"
    together = len(np.unique(alike, axis=0))
    assert together > 5 * (size > 1), "each for itself"


@pytest.mark.parametrize("like", [np.ones(59), np.ones((60, 1)), np.full(60, np.nan), np.ones(10)])
def test_sets_are_drawn_of_enough_neurons_with_a_number_each(like):
    with pytest.raises(ValueError, match=r"like has shape .* each of 60|10 neurons, where 50"):
        cb.nulls.random_sets([0], 60 if len(like) > 10 else 10, 1, like=like)


def test_the_same_seed_gives_the_same_and_a_generator_goes_on(tiny_weights):
    W = torch.eye(4)
    assert torch.equal(cb.nulls.mixtures(W, 3), cb.nulls.mixtures(W, 3))
    rng = np.random.default_rng(3)
    assert torch.equal(cb.nulls.mixtures(W, rng), cb.nulls.mixtures(W, 3))
    assert not torch.equal(cb.nulls.mixtures(W, rng), cb.nulls.mixtures(W, 3))
    for make in (
        lambda seed: cb.nulls.random_sets([0, 3], 60, 9, seed),
        lambda seed: cb.nulls.random_sets([0, 3], 60, 9, seed, np.arange(60)),
        lambda seed: cb.nulls.untrained(tiny_weights, seed).W_K,
    ):
        assert np.array_equal(make(3), make(3)) and not np.array_equal(make(3), make(4))


def test_an_untrained_layer_has_the_spread_of_each_matrix_and_nothing_else(mini_weights):
    blank = cb.nulls.untrained(mini_weights, seed=1)
    for name in ("W_E", "W_pos", "W_Q", "W_in"):
        trained, drawn = getattr(mini_weights, name), getattr(blank, name)
        assert torch.allclose(drawn.std(), trained.std(), rtol=0.02)
        assert abs(drawn.mean() - trained.mean()) < 5 * trained.std() / drawn.numel() ** 0.5
        both = torch.corrcoef(torch.stack([drawn.flatten(), trained.flatten()]))
        assert abs(float(both[0, 1])) < 5 / drawn.numel() ** 0.5
    shifted = cb.nulls.untrained(replace(mini_weights, b_in=mini_weights.b_in + 7), seed=1)
    assert abs(shifted.b_in.mean() - mini_weights.b_in.mean() - 7) < 0.5
    assert (blank.n_ctx, blank.eps) == (mini_weights.n_ctx, mini_weights.eps)


@given(st.lists(st.floats(-5, 5) | NAN, min_size=1, max_size=50), st.floats(-6, 6) | NAN)
def test_p_is_a_rank_and_never_zero_and_what_is_no_number_counts_against_it(null, found):
    p = cb.nulls.p_value(found, null)
    assert p == (1 + sum(not v < found for v in null)) / (1 + len(null))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 9), st.integers(0, 99))
def test_permuted_values_are_the_same_values_in_the_order_of_the_generator(values, draws, seed):
    drawn, rng = cb.nulls.permuted(values, draws, seed), np.random.default_rng(seed)
    assert drawn.tolist() == [rng.permutation(values).tolist() for _ in range(draws)]
    assert all(sorted(row) == sorted(values) for row in drawn.tolist())
    rng = np.random.default_rng(seed)
    both = cb.nulls.permuted(values, draws, rng), cb.nulls.permuted(values, 1, rng)
    assert np.array_equal(np.concatenate(both), cb.nulls.permuted(values, draws + 1, seed))
