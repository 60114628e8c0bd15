"""Null models: what the same search finds where there is nothing to find (chapter 6).

A neuron sorts texts well, but so does nearly any direction, so do neurons that merely have large
weights, and so do random weights. Each function here draws one of these nulls from a seed.

    p = (1 + how many of the null reach what was found) / (1 + how many there are)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import normalize

from ctxlib.checks import check_chosen
from ctxlib.weights import LayerWeights

Seed = int | np.random.Generator


def mixtures(
    W: Float[Tensor, "d neuron"], seed: Seed = 0, count: int | None = None
) -> Float[Tensor, "d mixture"]:
    """Draw random mixtures of neurons: combinations of all columns of W with normal factors, each
    scaled to the length of a neuron's column; by default as many as there are neurons. A mixture
    reads the same subspace as the neurons, along an axis that training did not choose.

    >>> W_in, _ = weights.mlp_input()
    >>> mixed = cb.nulls.mixtures(W_in)
    >>> torch.allclose(mixed.norm(dim=0), W_in.norm(dim=0), rtol=1e-4)
    True
    """
    count = W.shape[1] if count is None else count
    factors = np.random.default_rng(seed).standard_normal((W.shape[1], count))
    lengths = W.norm(dim=0)
    lengths = lengths.repeat(-(-count // len(lengths)))[:count]
    return normalize(W @ torch.from_numpy(factors).to(W), dim=0) * lengths


def random_sets(
    chosen: Sequence[int],
    count: int,
    draws: int,
    seed: Seed = 0,
    like: ArrayLike | None = None,
    nearest: int = 50,
) -> Int[np.ndarray, "draw member"]:
    """Draw random sets of as many of `count` neurons as were chosen. With `like`, a number for each
    neuron, they are matched in it: for each chosen neuron one of the `nearest`, so that a set may
    contain one twice.

    Raises ValueError for neurons that do not exist, if there are fewer than `nearest`, and unless
    `like` has one finite number for each neuron.

    >>> lengths = weights.mlp_input()[0].norm(dim=0)
    >>> drawn = cb.nulls.random_sets([174, 849], 1024, draws=1000, like=lengths)
    >>> drawn.shape
    (1000, 2)
    >>> [len(np.unique(drawn[:, k])) <= 50 for k in (0, 1)]  # the nearest in length
    [True, True]
    """
    chosen, rng = check_chosen("neuron", chosen, count), np.random.default_rng(seed)
    if like is None:
        return np.stack([rng.choice(count, len(chosen), replace=False) for _ in range(draws)])
    if count < nearest:
        raise ValueError(f"{count} neurons, where {nearest} are needed to draw from")
    values = np.asarray(like)
    if values.shape != (count,) or not np.isfinite(values).all():
        raise ValueError(f"like has shape {values.shape}: give a finite number for each of {count}")
    far = np.abs(values - values[chosen, None])  # chosen, all
    kin = far.argsort(1, kind="stable")[:, :nearest]
    return kin[np.arange(len(chosen)), rng.integers(nearest, size=(draws, len(chosen)))]


def permuted(values: ArrayLike, draws: int, seed: Seed = 0) -> Shaped[np.ndarray, "draw item"]:
    """Permute values at random, each draw for itself: labels that have nothing to do with what they
    are said of.

    >>> cb.nulls.permuted(["law", "war", "law"], draws=200).shape
    (200, 3)
    """
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(values) for _ in range(draws)])


def untrained(weights: LayerWeights, seed: Seed = 0) -> LayerWeights:
    """Return the same layer with random weights: each matrix and bias normal, with its own mean and
    standard deviation. What such a layer shows as well is due to its shape and to the texts.

    >>> blank = cb.nulls.untrained(weights)
    >>> torch.allclose(blank.W_E.std(), weights.W_E.std(), rtol=1e-2)
    True
    """
    rng = np.random.default_rng(seed)
    blank: dict[str, Any] = {
        name: torch.from_numpy(rng.standard_normal(W.shape)).to(W) * W.std(correction=0) + W.mean()
        for name, W in weights.tensors().items()
    }
    return replace(weights, **blank)


def p_value(found: float, null: ArrayLike) -> float:
    """Return the probability of a number as large as what was found under the null; never zero,
    since what was found counts as one of the draws (Phipson and Smyth 2010). NaN, found or in the
    null, counts as reached.

    >>> cb.nulls.p_value(5.0, [1.0, 2.0, 5.0, 3.0])
    0.4
    """
    null = np.asarray(null)
    return float((1 + (~(null < found)).sum()) / (1 + null.size))
