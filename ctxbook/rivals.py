"""Simpler predictors that a circuit is compared with, and the line that each may be given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.circuit import ContextualCircuit
from ctxlib.decompose import weighted_sum


def domain_mean(
    written: Float[Tensor, "text d"], of: Sequence[str], wanted: Sequence[str]
) -> Float[Tensor, "wanted d"]:
    """Return for each domain that is wanted the mean over the texts that are of it.

    >>> cb.domain_mean(torch.tensor([[1.0], [3.0], [8.0]]), ["law", "law", "sea"], ["sea", "law"])
    tensor([[8.],
            [2.]])
    """
    means = {domain: written[np.array(of) == domain].mean(0) for domain in set(of)}
    return torch.stack([means[domain] for domain in wanted])


def uniform_average(
    circuit: ContextualCircuit,
    x: Int[Tensor, "text source"],
    neurons: Sequence[int] | slice = slice(None),
) -> Float[Tensor, "text neuron"]:
    """Return what the tokens' values add to neurons on average, without kernel and content.

    >>> cb.uniform_average(circuit, tokens[None], [298, 973]).shape
    torch.Size([1, 2])
    """
    values = circuit.fixed.decomposition.values(circuit.heads).flatten(1)
    z = weighted_sum(values, x, torch.full(x.shape, 1 / x.shape[1]))
    return z @ circuit.readout.flatten(0, 1)[:, neurons]


def with_a_line(
    guess_A: Float[Tensor, "text_A neuron"],
    guess_B: Float[Tensor, "text_B neuron"],
    truth_A: Float[Tensor, "text_A neuron"],
) -> Float[Tensor, "text_B neuron"]:
    """Return a guess for half B with the slope and offset per neuron that fit half A best.

    >>> guess = torch.tensor([[0.0], [1.0], [2.0]])
    >>> cb.with_a_line(guess, torch.tensor([[5.0]]), 3 * guess + 1)
    tensor([[16.]])
    """
    centered = guess_A - guess_A.mean(0)
    slope = (centered * truth_A).mean(0) / centered.square().mean(0)
    return slope * (guess_B - guess_A.mean(0)) + truth_A.mean(0)
