"""Confidence intervals: how far a number would move if other documents had been read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import DegenerateDataWarning, bootstrap

from ctxlib.texts.text import Text


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


def widest(
    statistic: Callable[[np.ndarray], float], texts: Sequence[Text], draws: int = 999
) -> tuple[float, float, str]:
    """Return the wider of two 95% intervals, and the unit that was drawn: documents, or whole
    domains, in case texts of one domain are alike in what is measured.

    >>> texts = cx.texts.collection(weights, 100)
    >>> of_python = np.array([text.domain == "python" for text in texts])
    >>> *_, unit = cb.widest(lambda drawn: of_python[drawn].mean(), texts)
    >>> unit
    'domain'
    """
    units = ["document", "domain"] if len({text.domain for text in texts}) > 1 else ["document"]
    ends = [(*by_document(statistic, texts, draws, unit), unit) for unit in units]
    return max(ends, key=lambda interval: interval[1] - interval[0])
