"""What each approximation of a circuit costs where errors can cancel: its Shapley share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress, product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import comb
from torch import Tensor

from ctxbook.intervals import WIDER, Estimate, with_interval
from ctxlib.circuit import ContextualCircuit
from ctxlib.evaluation import APPROXIMATIONS, approx_summary
from ctxlib.texts.text import Text

MADE = tuple(name for name in APPROXIMATIONS if name != "token")  #: in the order of the axes below
AT_ONCE = 32  # texts: bounds the memory, changes no result


def shapley(values: np.ndarray) -> np.ndarray:
    """Return what each item adds to a value, the mean over all orders in which items can be added
    (Shapley 1953). `values` has an axis of two for each item: without it, with it.

    Errors of +3 and -2 cost 9 and 4 alone and, since they are added and then squared, 1 together.

    >>> cb.shares.shapley(np.array([[0, 4], [9, 1]]))
    array([ 3., -2.])
    """
    others = values.ndim - 1
    before = np.indices((2,) * others).sum(0)  # how many of the others are there already
    weight = 1 / (values.ndim * comb(others, before))
    added = [np.diff(values, axis=k).squeeze(k) for k in range(values.ndim)]
    return (weight * added).reshape(values.ndim, -1).sum(1)


def squared_errors(
    circuit: ContextualCircuit, x: Int[Tensor, "text source"], neurons: Sequence[int]
) -> tuple[Float[Tensor, "2 2 2 2 2 text neuron"], Float[Tensor, "text neuron"]]:
    """Return the squared errors of the circuit's summaries with every subset of the approximations
    `MADE` (on its axis 0 exact, 1 made), and the exact summaries. The texts hold the query token.

    >>> errors, truth = cb.shares.squared_errors(circuit, tokens[None], [298, 973])
    >>> errors.shape, truth.shape
    (torch.Size([2, 2, 2, 2, 2, 1, 2]), torch.Size([1, 2]))
    """

    def summary(*on: bool) -> Tensor:
        made = {*compress(MADE, on)}
        return torch.cat(
            [approx_summary(circuit, few, made)[:, neurons] for few in x.split(AT_ONCE)]
        )

    truth = summary()
    errors = [(summary(*on) - truth).square() for on in product((False, True), repeat=len(MADE))]
    return torch.stack(errors).unflatten(0, (2,) * len(MADE)), truth


def shares(errors: Tensor, truth: Tensor) -> Callable[[np.ndarray], np.ndarray]:
    """Return, as a function of the indices of the texts drawn, the share of each approximation in
    the median neuron's FVU with all of them. The shares add up to 1; one that undoes part of the
    others' errors is negative.
    """
    errors, truth = errors.double(), truth.double() - truth.double().mean(0)

    def of_drawn(drawn: np.ndarray) -> np.ndarray:
        often = torch.from_numpy(np.bincount(drawn, minlength=len(truth)) / len(drawn))
        variance = often @ truth.square() - (often @ truth).square()
        fvu = (torch.einsum("...tj,t->...j", errors, often) / variance).quantile(0.5, dim=-1)
        return shapley(fvu.numpy()) / float(fvu.flatten()[-1])

    return of_drawn


def error_shares(
    circuit: ContextualCircuit, texts: Sequence[Text], neurons: Sequence[int], draws: int = 199
) -> dict[str, Estimate]:
    """Return the share of each approximation on texts (`shares`), with the wider interval over
    documents or domains, and as `lead` that of the largest less that of the next.

    >>> found = cb.shares.error_shares(circuit, passages[::6], [298, 973], draws=9)
    >>> round(sum(found[name].value for name in cb.shares.MADE), 4)
    1.0
    """
    of_drawn = shares(*squared_errors(circuit, circuit.fixed.prepare(texts), neurons))

    @cache  # all statistics see the same draws
    def once(drawn: bytes) -> np.ndarray:
        return of_drawn(np.frombuffer(drawn, dtype=np.int64))

    first = int(of_drawn(np.arange(len(texts))).argmax())

    def lead(drawn: np.ndarray) -> float:
        found = once(drawn.tobytes())
        return found[first] - np.delete(found, first).max()

    of_each: list[Any] = [lambda drawn, k=k: once(drawn.tobytes())[k] for k in range(len(MADE))]
    statistics = dict(zip((*MADE, "lead"), (*of_each, lead), strict=True))
    return {name: with_interval(of, texts, draws, WIDER) for name, of in statistics.items()}
