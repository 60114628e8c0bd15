"""The ledger at the end of a chapter: what was published, what this run found,
and whether it holds. Never typed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from ctxlib.weights import LayerWeights

# How GPT-2 small (openai-community/gpt2) is known: `fingerprint` of its first layer, its layers,
# and its vocabulary.
GPT2_SMALL = ("596801a75f568cf77e95654693a35a45b3a6fc61d19e10ae4c373cea7b38c9c5", 12, 50257)


def fingerprint(weights: LayerWeights) -> str:
    """Which layer this is, whatever it is called: sha256 of its shape and of the norms, to two
    decimals, of every position embedding and of every head's matrices and biases, folded and
    centred. Two decimals bear the rounding of different ways of folding.

    >>> cx.claims.fingerprint(weights) == cx.claims.fingerprint(cx.LayerWeights.of(model, layer=1))
    False
    """
    heads = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V")
    norms = [weights.W_pos.double().norm(dim=-1)]
    norms += [getattr(weights, name).double().flatten(1).norm(dim=-1) for name in heads]
    digits = " ".join(f"{v:.2f}" for v in torch.cat(norms).tolist())
    shape = (weights.n_ctx, weights.d_model, weights.n_heads)
    return hashlib.sha256(f"{shape} {digits}".encode()).hexdigest()


def is_gpt2_small(model: Any) -> bool:
    """Whether a model loaded with `cx.load` is the GPT-2 small that was studied, by its weights
    and not by its name.

    >>> cx.claims.is_gpt2_small(model)
    False
    """
    try:
        first = fingerprint(LayerWeights.of(model, layer=0))
    except ValueError:  # no learned positions, so not GPT-2
        return False
    return (first, model.cfg.n_layers, model.cfg.d_vocab) == GPT2_SMALL


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
    figure in words, with its source; `about_gpt2` says that it is about GPT-2 small, alone or
    among others, so that only GPT-2 small can bear it out.

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
    about_gpt2: bool = False

    @property
    def verdict(self) -> str:
        """Whether the number lies within the bounds. One that a model does not have (NaN) is no
        verdict on the claim.

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


def ledger(model: Any, *claims: Claim) -> pd.DataFrame:
    """One row a claim: statement, published figure, this run, what would count as holding, verdict.

    A claim about GPT-2 small is judged on GPT-2 small only; on another model the verdict says
    that it is one, and whether the same holds there.

    >>> claim = cx.claims.Claim("rows sum to", "1", here=1.0, at_least=1, at_most=1)
    >>> cx.claims.ledger(model, claim)["verdict"].item()
    'holds'
    """
    studied = is_gpt2_small(model)
    rows = [
        {
            "claim": c.statement,
            "published": c.published,
            "this run": "–" if math.isnan(c.here) else f"{c.here:.{c.digits}f}",
            "holds if": c.condition,
            "verdict": c.verdict if studied or not c.about_gpt2 else elsewhere(c.verdict),
        }
        for c in claims
    ]
    return pd.DataFrame(rows, index=range(1, len(rows) + 1))


def elsewhere(verdict: str) -> str:
    """A verdict in words that do not judge a claim about GPT-2 small.

    >>> cx.claims.elsewhere("does not hold")
    'another model; does not hold here'
    """
    return f"another model; {verdict} here"
