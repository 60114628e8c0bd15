"""The ledger at the end of a chapter: what was published, what this run found,
and whether it holds. Never typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike


def over(
    values: ArrayLike,
    chosen: Sequence[int] | Sequence[bool],
    summary: Callable[[np.ndarray], float],
) -> float:
    """A summary of a number over the chosen heads, by their indices or by True and False;
    NaN where there are none, so that a claim about them does not apply.

    >>> cx.claims.over([1.0, 2.0, 6.0], [1, 2], max), cx.claims.over([1.0, 2.0, 6.0], [], max)
    (6.0, nan)
    """
    picked = np.asarray(values)[np.asarray(chosen, dtype=None if len(chosen) else int)]
    return float(summary(picked)) if len(picked) else math.nan


@dataclass(frozen=True)
class Claim:
    """A published statement held against a number of this run.

    `here` is the number; the claim holds when `at_least <= here <= at_most`. `published` is the
    figure in words, with its source.

    >>> claim = cx.claims.Claim("broad heads", "at least 5 (paper)", here=6, at_least=5)
    >>> claim.condition, claim.verdict
    ('at least 5', 'holds')
    """

    statement: str
    published: str
    here: float
    at_least: float = float("-inf")
    at_most: float = float("inf")
    digits: int = 2

    @property
    def verdict(self) -> str:
        """A number that a model does not have (NaN) is no verdict on the claim.

        >>> cx.claims.Claim("broad heads", "at least 5", here=float("nan"), at_least=5).verdict
        'does not apply'
        """
        if math.isnan(self.here):
            return "does not apply"
        return "holds" if self.at_least <= self.here <= self.at_most else "does not hold"

    @property
    def condition(self) -> str:
        """The bounds in words, as the ledger shows them.

        >>> cx.claims.Claim("r", "0.95", here=0.91, at_least=0.9, at_most=1).condition
        '0.9 to 1'
        """
        low, high = f"{self.at_least:g}", f"{self.at_most:g}"
        if self.at_least == float("-inf"):
            return f"at most {high}"
        if self.at_most == float("inf"):
            return f"at least {low}"
        return f"{low} to {high}"


def ledger(*claims: Claim) -> pd.DataFrame:
    """One row a claim: statement, published figure, this run, what would count as holding, verdict.

    >>> claim = cx.claims.Claim("rows sum to", "1", here=1.0, at_least=1, at_most=1)
    >>> cx.claims.ledger(claim)["verdict"].item()
    'holds'
    """
    rows = [
        {
            "claim": c.statement,
            "published": c.published,
            "this run": f"{c.here:.{c.digits}f}",
            "holds if": c.condition,
            "verdict": c.verdict,
        }
        for c in claims
    ]
    return pd.DataFrame(rows)
