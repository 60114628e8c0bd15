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

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from ctxlib.destination import Destination, asked_by, families
from ctxlib.split import BROAD
from ctxlib.texts import AnyText, Text, joined
from ctxlib.weights import LayerWeights, check_chosen

STEADY = 0.3  #: a relative standard deviation over texts below this: the denominator holds still

# ---------------------------------------------------------------- what a denominator is


def softmax_denominators(
    place: LayerWeights | Destination,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
) -> Float[Tensor, "text head"]:
    """`denom_h = sum_i pos_{n,i} content_n(x_i)` of every text, with x_n replaced by `token`.

    `place` is a destination, or weights with n (by default `n_ctx // 2`, where the paper
    calibrates) and token. Texts are read in batches, so any iterable will do, and of each no more
    is kept than a number for each head; a bar shows the progress of what takes longer than a
    second. The unit is arbitrary, one for each head: only ratios between texts mean anything.
    Raises ValueError for a text with fewer than n tokens, for no text at all, for ids outside the
    vocabulary, for a head whose denominators are beyond the range of the weights' precision, and
    as `positional_kernels` does.

    >>> denoms = cx.softmax_denominators(weights, passages)
    >>> denoms.shape
    torch.Size([72, 8])
    >>> (denoms.std(0) / denoms.mean(0)).round(decimals=2)
    tensor([0.1900, 0.0200, 0.0300, 0.0300, 0.0200, 0.1100, 0.0100, 0.1600])
    """
    at = asked_by(place, n, token)
    return joined(at.denominators(x) for x in at.read(texts, "denominators"))


# ---------------------------------------------------------------- which heads hold still


class StableHeads(list[int]):
    """A list of heads that carries the table which explains the choice, one row a head.

    >>> heads = cx.stable_heads(weights, passages)
    >>> heads, len(heads.table)
    ([0, 1, 2, 3, 4, 5, 6, 7], 8)
    """

    def __init__(self, heads: Iterable[int], table: pd.DataFrame):
        super().__init__(heads)
        self.table = table


def roster(
    place: LayerWeights | Destination,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
    steady: float = STEADY,
) -> pd.DataFrame:
    """The heads and their facts, one row a head: kernel and family (`families`), the standard
    deviation of the denominator over `texts` relative to its mean, and whether both make the head
    stable.

    Arguments and errors as in `stable_heads`, but that no head need be stable.

    >>> cx.denominators.roster(weights, passages).loc[0, "relative spread"].round(2)
    np.float64(0.19)
    """
    at = asked_by(place, n, token)
    denoms = softmax_denominators(at, texts)
    if len(denoms) < 2:
        raise ValueError("one text has no spread: give at least two")
    table = families(at).drop(columns="because")
    table["relative spread"] = (denoms.std(0) / denoms.mean(0)).tolist()
    table["stable"] = (table["effective tokens"] > BROAD) & (table["relative spread"] < steady)
    return table


def stable_heads(
    place: LayerWeights | Destination,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
    steady: float = STEADY,
) -> StableHeads:
    """The heads whose denominators hold still: a kernel spread over more than `BROAD` effective
    tokens, and denominators whose standard deviation over `texts` is below `steady` times their
    mean. The table is in `.table` of what is returned.

    `place` is a destination, or weights with n (by default `n_ctx // 2`) and token. Raises
    ValueError when no head qualifies, for fewer than two texts, and as `softmax_denominators` does.

    >>> heads = cx.stable_heads(weights, passages)
    >>> heads
    [0, 1, 2, 3, 4, 5, 6, 7]
    >>> heads.table.loc[0, "relative spread"].round(2)
    np.float64(0.19)
    >>> cx.stable_heads(cx.FirstLayer.of(model, passages), passages)
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    table = roster(place, texts, n, token, steady)
    if not table["stable"].any():
        wide = table.loc[table["effective tokens"] > BROAD, "relative spread"]
        closest = f"; the steadiest of the {len(wide)} broad ones strays by {wide.min():.0%}"
        raise ValueError(
            f"no head has a kernel over more than {BROAD:g} tokens and a denominator that strays "
            f"by less than {steady:.0%}{closest if len(wide) else ''}"
        )
    return StableHeads(table.index[table["stable"]].tolist(), table)


def middle_text(
    place: LayerWeights | Destination,
    texts: Iterable[Text],
    heads: Sequence[int],
    n: int | None = None,
    token: str | int = " the",
) -> Text:
    """The text to calibrate on: the one whose log denominators lie nearest to their mean over the
    texts, on average over the heads (chapter 5). They are gone through twice: ValueError for an
    iterator, which can be only once. Other errors as in `softmax_denominators`.

    >>> cx.denominators.middle_text(weights, passages, heads).name
    'american-5'
    """
    if isinstance(texts, Iterator):
        raise ValueError("texts that can be read only once: give a list or a cx.texts.stream")
    chosen = check_chosen("head", heads, place.n_heads)
    logs = softmax_denominators(place, texts, n, token)[:, chosen].log()
    middle = int((logs - logs.mean(0)).abs().mean(1).argmin())
    return next(islice(texts, middle, None))
