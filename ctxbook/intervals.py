"""Confidence intervals: how far a number would move if other documents had been read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import DegenerateDataWarning, bootstrap
from torch import Tensor

from ctxlib.evaluation import ROUNDING
from ctxlib.texts.text import Text


def half_masks(texts: Sequence[Text]) -> tuple[np.ndarray, np.ndarray]:
    """Return which texts are of half A, to fit and to choose on, and which are of half B, to judge
    on; every second one where texts have no halves.

    >>> A, B = cb.half_masks(passages)
    >>> A.sum() == B.sum() == len(passages) / 2
    np.True_
    """
    in_A = np.array([text.half == "A" for text in texts])
    if in_A.all() or not in_A.any():
        in_A = np.arange(len(texts)) % 2 == 0
    return in_A, ~in_A


def halves(texts: Sequence[Text]) -> tuple[list[Text], list[Text]]:
    """Return the texts of both halves; see `half_masks`.

    >>> A, B = cb.halves(cx.texts.collection(weights, 100))
    >>> A[0].half, B[0].half
    ('A', 'B')
    """
    A, B = (list(compress(texts, mask)) for mask in half_masks(texts))
    return A, B


def by_document(
    statistic: Callable[[np.ndarray], float],
    texts: Sequence[Text],
    draws: int = 999,
    unit: str = "document",
) -> tuple[float, float]:
    """Return the 95% interval of `statistic` over documents, which are drawn with replacement, each
    with all of its texts (percentile bootstrap, Efron and Tibshirani 1993).

    `statistic` gets the indices of the texts drawn, with repeats, as an array. A text without a
    document counts as a document of its own; `unit="domain"` draws whole domains. The draws are the
    same every time. The interval is NaN if a draw's statistic is, or for fewer than two documents.

    >>> texts = cx.texts.collection(weights, 100)
    >>> of_python = np.array([text.domain == "python" for text in texts])
    >>> low, high = cb.by_document(lambda drawn: of_python[drawn].mean(), texts)
    >>> low < of_python.mean() < high
    np.True_
    """
    units = [getattr(text, unit) or text.name for text in texts]
    names, member = np.unique(units, return_inverse=True)
    if len(names) < 2:
        return math.nan, math.nan
    of_unit = [np.flatnonzero(member == u) for u in range(len(names))]

    def redrawn(chosen: np.ndarray) -> float:
        return float(statistic(np.concatenate([of_unit[u] for u in chosen])))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        drawn = bootstrap(
            (np.arange(len(of_unit)),), redrawn, n_resamples=draws,
            vectorized=False, method="percentile", random_state=0,
        )  # fmt: skip
    low, high = drawn.confidence_interval
    return float(low), float(high)


#: units of `with_interval`: the wider of two intervals, in case texts of one domain are alike
WIDER = ("document", "domain")


class Estimate(NamedTuple):
    """A number and its 95% interval, and what was drawn for that; NaN where there is none.

    Formatted, it shows number and interval, each as the format says, and no minus before a zero.

    >>> estimate = cb.Estimate(0.984, 0.971, 0.992)
    >>> f"{estimate:.0%}", f"{cb.Estimate(-0.5):+.2f}"
    ('98% [97%, 99%]', '−0.50')
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    unit: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        """Return both ends of the interval.

        >>> cb.Estimate(0.98, 0.97, 0.99).ends
        (0.97, 0.99)
        """
        return self.low, self.high

    @property
    def for_claim(self) -> tuple[float, tuple[float, float]]:
        """Return the number and its interval as `Claim` takes them.

        >>> cb.Claim("tv", "median TV", *cb.Estimate(0.06, 0.05, 0.08).for_claim).shown
        '0.06 [0.05, 0.08]'
        """
        return self.value, self.ends

    def __format__(self, form: str) -> str:
        form = form.replace(".", "z.", 1)  # Python's word for: no minus before a zero
        number, *ends = (f"{v:{form}}".replace("-", "−") for v in self[:3])
        return number if math.isnan(self.low) else f"{number} [{', '.join(ends)}]"


def with_interval(
    statistic: Callable[[np.ndarray], float],
    texts: Sequence[Text],
    draws: int = 999,
    units: Sequence[str] = ("document",),
) -> Estimate:
    """Return a statistic of all texts and its 95% interval over documents; of several units, such
    as `WIDER`, the widest, of equals the first. Without a unit there is no interval.

    `statistic` gets indices of texts as an array, and errors are its own; see `by_document`.

    >>> texts = cx.texts.collection(weights, 100)
    >>> of_python = np.array([text.domain == "python" for text in texts])
    >>> share = cb.with_interval(lambda drawn: of_python[drawn].mean(), texts, units=cb.WIDER)
    >>> share.low < share.value < share.high, share.unit
    (True, 'domain')
    """
    value = float(statistic(np.arange(len(texts))))
    found = [Estimate(value, *by_document(statistic, texts, draws, unit), unit) for unit in units]
    known = [estimate for estimate in found if not math.isnan(estimate.low)] or found
    return max(known, key=lambda e: e.high - e.low, default=Estimate(value))


def median_over_neurons(
    column: str, approx: Float[Tensor, "text neuron"], truth: Float[Tensor, "text neuron"]
) -> Callable[[np.ndarray], float]:
    """Return the median over neurons of a column of `cx.evaluate`, `r`, `fvu`, `from offset` or
    `from shape`, as a function of the indices of the texts that are drawn, with repeats.

    It is made of sums over texts in float64, so that a draw is one product of a matrix. Neurons
    whose truth does not vary on the texts drawn do not count, nor, for r, those whose approximation
    does not; if none is left the median is NaN. Raises ValueError for arguments of different
    shapes, KeyError for another column.

    >>> truth = torch.tensor([[0.0, 1.0], [1.0, 3.0], [2.0, 1.0]])
    >>> round(float(cb.median_over_neurons("fvu", truth + 1, truth)(np.array([0, 1, 1]))), 4)
    2.8125
    """
    if approx.shape != truth.shape:
        raise ValueError(f"{tuple(approx.shape)} and {tuple(truth.shape)}: give one shape twice")
    both = torch.stack([approx.cpu().double(), truth.cpu().double()], dim=1)  # text 2 neuron
    middle = both.mean(0)
    a, t = (both - middle).unbind(1)
    sums = torch.stack([a, t, a * a, a * t, t * t], dim=1).flatten(1)

    def of_drawn(drawn: np.ndarray) -> float:
        often = torch.from_numpy(np.bincount(drawn, minlength=len(sums)) / len(drawn))
        a, t, aa, at, tt = (often @ sums).unflatten(0, (5, -1))
        means, squares = torch.stack([a, t]), torch.stack([aa, tt])
        variance = squares - means**2
        varied = variance > ROUNDING * squares + (ROUNDING * (middle + means)) ** 2
        var_a = variance[0].where(varied[0], 0)
        var_t = variance[1].where(varied[1], torch.nan)
        covariance = (at - a * t).where(varied[0], 0)
        r = covariance / (var_a * var_t).sqrt()
        offset = (means + middle).diff(dim=0)[0] ** 2 / var_t
        per_neuron = {
            "r": r,
            "fvu": offset + (var_a - 2 * covariance) / var_t + 1,
            "from offset": offset,
            "from shape": 1 - r.where(varied[0], 0 * var_t) ** 2,
        }
        return float(per_neuron[column].nanquantile(0.5))

    return of_drawn
