"""What this run found: sentences in a chapter's prose that are true of it, and how sure their
numbers are.
"""

from __future__ import annotations

import html
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import DegenerateDataWarning, bootstrap

from ctxlib.texts.text import Text

OTHERWISE = "Here it is otherwise: "  # how a finding begins that does not hold
SPACED = re.compile(r"(?<!\w)' (?=[^\s']+')")  # in front of a quoted token that begins with one


@dataclass(frozen=True)
class Finding:
    """A sentence as a page shows it: prose, with nothing in it read as markup, and no token parted
    from its space at the end of a line.

    >>> cb.Finding("r < 1")._repr_html_()
    '<p>r &lt; 1</p>'
    >>> cb.Finding("asked by ' the'")._repr_html_()
    "<p>asked by &apos;&nbsp;the'</p>"
    """

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<p>{SPACED.sub('&apos;&nbsp;', html.escape(self.text, quote=False))}</p>"


def finding(sentence: str, holds: bool, otherwise: str | None = None) -> Finding:
    """A sentence about this run, and whether it is true of it: `holds` is a condition that says
    what the words say. Where it fails, the page shows "Here it is otherwise: " and `otherwise`, or
    the sentence with its numbers; the build refuses a committed book that holds such a line.

    Raises ValueError where `holds` is no boolean.

    >>> cb.finding("Two heads are stable.", holds=True)
    Two heads are stable.
    >>> cb.finding("Two heads are stable.", holds=False, otherwise="none is stable.")
    Here it is otherwise: none is stable.
    """
    if not isinstance(holds, (bool, np.bool_)):
        raise ValueError(
            f"holds={holds!r} of the finding {sentence!r} is no boolean: give a condition, "
            "such as share > 0.9, and bool(...) of a tensor"
        )
    return Finding(sentence if holds else OTHERWISE + (otherwise or sentence))


def listed(items: Iterable[object]) -> str:
    """Items as a sentence has them; "none" where there are none.

    >>> cb.listed([0, 5, 7]), cb.listed(["law"]), cb.listed([])
    ('0, 5 and 7', 'law', 'none')
    """
    *most, last = [str(item) for item in items] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


# ---------------------------------------------------------------- numbers, and their intervals


def over(
    values: ArrayLike,
    chosen: Sequence[int] | Sequence[bool],
    summary: Callable[[np.ndarray], float],
) -> float:
    """A summary of a number over the chosen heads, by their indices or by True and False;
    NaN where there are none, so that a claim about them is untestable.

    >>> cb.over([1.0, 2.0, 6.0], [1, 2], max), cb.over([1.0, 2.0, 6.0], [], max)
    (6.0, nan)
    """
    picked = np.asarray(values)[np.asarray(chosen, dtype=None if len(chosen) else int)]
    return float(summary(picked)) if len(picked) else math.nan


def by_document(
    statistic: Callable[[np.ndarray], float],
    texts: Sequence[Text],
    draws: int = 999,
    unit: str = "document",
) -> tuple[float, float]:
    """The 95% interval of `statistic` when other documents had been read: documents are drawn with
    replacement, each with all of its texts (percentile bootstrap, Efron and Tibshirani 1993).
    `statistic` gets the indices of the texts drawn, with repeats, as an array. A text without a
    document counts as one of its own. The same draws every time. Where a draw gives a statistic
    that is not a number, or there are not two documents, the interval is not one either.
    `unit="domain"` draws whole domains.

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
    """The wider of two 95% intervals, and what was drawn again for it: documents, or whole domains,
    where texts of one domain are alike in what is measured. A domain alone cannot be drawn again.

    >>> texts = cx.texts.collection(weights, 100)
    >>> of_python = np.array([text.domain == "python" for text in texts])
    >>> *_, unit = cb.widest(lambda drawn: of_python[drawn].mean(), texts)
    >>> unit
    'domain'
    """
    units = ["document", "domain"] if len({text.domain for text in texts}) > 1 else ["document"]
    ends = [(*by_document(statistic, texts, draws, unit), unit) for unit in units]
    return max(ends, key=lambda interval: interval[1] - interval[0])
