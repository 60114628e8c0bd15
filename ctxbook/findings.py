"""Sentences about a run, each with the condition under which it is true."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

OTHERWISE = "Here it is otherwise: "  # how a finding begins that does not hold
SPACED = re.compile(r"(?<!\w)' (?=[^\s']+')")  # in front of a quoted token that begins with one


@dataclass(frozen=True)
class Finding:
    """A sentence as a page shows it: nothing in it is read as markup, and no token is separated
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
    """Return a sentence about this run if the condition `holds`, which says what the words say. If
    it fails, the page shows "Here it is otherwise: " and `otherwise`, or the sentence with its
    numbers; the build refuses a committed book with such a line.

    Raises ValueError if `holds` is not a boolean.

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
    """Return items as a list in a sentence; "none" if there are none.

    >>> cb.listed([0, 5, 7]), cb.listed(["law"]), cb.listed([])
    ('0, 5 and 7', 'law', 'none')
    """
    *most, last = [str(item) for item in items] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


def over(
    values: ArrayLike,
    chosen: Sequence[int] | Sequence[bool],
    summary: Callable[[np.ndarray], float],
) -> float:
    """Return a summary of a number over the chosen heads, given by index or by True and False; NaN
    if none is chosen, so that a claim about them is untestable.

    >>> cb.over([1.0, 2.0, 6.0], [1, 2], max), cb.over([1.0, 2.0, 6.0], [], max)
    (6.0, nan)
    """
    picked = np.asarray(values)[np.asarray(chosen, dtype=None if len(chosen) else int)]
    return float(summary(picked)) if len(picked) else math.nan
