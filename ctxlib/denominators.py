"""Softmax denominators: what the content of a text does to a head's normalisation, and why it
does so little (paper, Figures 3 and 4; chapters 4 and 5).

    a_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

A denominator is a mean of `content` over the text, weighted by the head's kernel. Two questions, in
order: what it is, and what follows for the choice of heads and of a calibration text. How far it
should stray from its expectation is worked out in chapter 4, what a wrong one costs in chapter 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pandas as pd
import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ctxlib.kernels import BROAD, content_scores, families, positional_kernels
from ctxlib.texts import AnyText, Text, batches
from ctxlib.weights import LayerWeights

STEADY = 0.3  #: a relative standard deviation over texts below this: the denominator holds still

# ---------------------------------------------------------------- what a denominator is


def softmax_denominators(
    weights: LayerWeights,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
    C: float | None = None,
) -> Float[Tensor, "text head"]:
    """`denom_h = sum_i pos_{n,i} content_n(x_i)` of every text, with x_n replaced by `token`.

    n defaults to `n_ctx // 2`, where the paper calibrates. Texts are read in batches, so any
    iterable will do, and of each no more is kept than a number for each head; a bar shows the
    progress of what takes longer than a second. The unit is arbitrary, one for each head: only
    ratios between texts mean anything. Raises ValueError for a text with fewer than n tokens, for
    no text at all, for ids outside the vocabulary, for a head whose denominators are beyond the
    range of the weights' precision, and as `positional_kernels` does.

    >>> denoms = cx.softmax_denominators(weights, passages)
    >>> denoms.shape
    torch.Size([72, 8])
    >>> (denoms.std(0) / denoms.mean(0)).round(decimals=2)
    tensor([0.1100, 0.6700, 0.5600, 0.2300, 0.1900, 0.4900, 0.2700, 0.2800])
    """
    n = destination(weights, n)
    kernels = positional_kernels(weights, n, token, C)
    parts = [
        einsum(values, kernels, "head text source, head source -> text head")
        for values in content_batches(weights, texts, n, token)
    ]
    denoms = torch.cat(some(parts))
    held = ((denoms > 0) & denoms.isfinite()).all(0)
    if not held.all():
        beyond = ", ".join(map(str, (~held).nonzero()[:, 0].tolist()))
        raise ValueError(
            f"denominators of head {beyond} are beyond the range of {denoms.dtype}, so large are "
            "their scores; float64 holds more: weights.to(torch.float64)"
        )
    return denoms


# ---------------------------------------------------------------- which heads hold still


class StableHeads(list[int]):
    """A list of heads that carries the table which explains the choice, one row a head.

    >>> heads = cx.stable_heads(weights, passages)
    >>> heads, len(heads.table)
    ([3, 4], 8)
    """

    def __init__(self, heads: Iterable[int], table: pd.DataFrame):
        super().__init__(heads)
        self.table = table


def stable_heads(
    weights: LayerWeights,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
    broad: float = BROAD,
    steady: float = STEADY,
) -> StableHeads:
    """The heads whose denominators hold still: a kernel spread over more than `broad` effective
    tokens, and denominators whose standard deviation over `texts` is below `steady` times their
    mean. The table is in `.table` of what is returned.

    n defaults to `n_ctx // 2`. Raises ValueError when no head qualifies, for fewer than two texts,
    and as `softmax_denominators` does.

    >>> heads = cx.stable_heads(weights, passages)
    >>> heads
    [3, 4]
    >>> heads.table.loc[0, "why not"]
    'kernel over 1.8 tokens only'
    """
    n = destination(weights, n)
    denoms = softmax_denominators(weights, texts, n, token)
    return choose_stable(families(weights, n, token), denoms, broad, steady)


def choose_stable(
    table: pd.DataFrame, denoms: Float[Tensor, "text head"], broad: float, steady: float
) -> StableHeads:
    """The rule of `stable_heads`, from the table of `families` and the denominators of texts."""
    if len(denoms) < 2:
        raise ValueError("one text has no spread: give at least two")
    table = table.drop(columns="because")
    table["relative spread"] = (denoms.std(0) / denoms.mean(0)).tolist()
    reasons = []
    for spread, strays in zip(table["effective tokens"], table["relative spread"], strict=True):
        narrow = f"kernel over {spread:.1f} tokens only" if spread <= broad else ""
        restless = "" if strays < steady else f"denominator strays by {strays:.0%}"
        reasons.append("; ".join(filter(None, (narrow, restless))))
    table["stable"] = [not reason for reason in reasons]
    table["why not"] = reasons
    if not table["stable"].any():
        wide = table.loc[table["effective tokens"] > broad, "relative spread"]
        closest = f"; the steadiest of the {len(wide)} broad ones strays by {wide.min():.0%}"
        raise ValueError(
            f"no head has a kernel over more than {broad:g} tokens and a denominator that strays "
            f"by less than {steady:.0%}{closest if len(wide) else ''}"
        )
    return StableHeads(table.index[table["stable"]].tolist(), table)


def check_heads(weights: Any, heads: Sequence[int]) -> list[int]:
    """The heads as a list, if each exists and none is there twice; ValueError otherwise.

    >>> cx.check_heads(weights, (4, 3))
    [4, 3]
    >>> cx.check_heads(weights, [3, 3])
    Traceback (most recent call last):
        ...
    ValueError: heads [3, 3]: one is there twice
    """
    chosen = [int(h) for h in heads]
    if not chosen:
        raise ValueError("no heads: choose at least one")
    if min(chosen) < 0 or max(chosen) >= weights.n_heads:
        raise ValueError(f"heads {chosen}: this layer has heads 0 to {weights.n_heads - 1}")
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"heads {chosen}: one is there twice")
    return chosen


# ---------------------------------------------------------------- which text to calibrate on


def middle_text(
    weights: LayerWeights,
    texts: Iterable[Text],
    heads: Sequence[int],
    n: int | None = None,
    token: str | int = " the",
) -> Text:
    """The text to calibrate on: the one whose log denominators lie nearest to their mean over the
    texts, on average over the heads (chapter 5). They are gone through twice: ValueError for an
    iterator, which can be only once. Other errors as in `softmax_denominators`.

    >>> cx.middle_text(weights, passages, heads).name
    'economics-4'
    """
    if isinstance(texts, Iterator):
        raise ValueError("texts that can be read only once: give a list or a cx.texts.stream")
    logs = softmax_denominators(weights, texts, n, token)[:, check_heads(weights, heads)].log()
    middle = int((logs - logs.mean(0)).abs().mean(1).argmin())
    return next(islice(texts, middle, None))


# ---------------------------------------------------------------- reading texts


def destination(weights: LayerWeights, n: int | None) -> int:
    return weights.n_ctx // 2 if n is None else n


def content_batches(
    weights: LayerWeights,
    texts: Iterable[AnyText],
    n: int,
    token: str | int,
) -> Iterator[Float[Tensor, "head text source"]]:
    """`content_n(x_i)` of the texts of each batch; the vocabulary is weighed once."""
    content = content_scores(weights, n, token).exp()
    for batch in batches(weights, texts, n, token, "denominators"):
        yield content[:, batch]


def some(parts: list[Tensor]) -> list[Tensor]:
    """The parts, if there are any."""
    if not parts:
        raise ValueError("no texts: give at least one")
    return parts
