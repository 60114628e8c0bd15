"""Softmax denominators: what the content of a text does to a head's normalisation, and why it
does so little (paper, Figures 3 and 4; chapter 4).

    a_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

A denominator is a mean of `content` over the text, weighted by the head's kernel. Two questions, in
order: what it is, and what follows for the choice of heads and of a calibration text. How far it
should stray from its expectation, and what a wrong one costs, is worked out in chapter 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pandas as pd
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ctxlib.query import FixedQuery, families
from ctxlib.decompose import BROAD
from ctxlib.texts.batching import joined
from ctxlib.texts.text import AnyText, Text
from ctxlib.weights import check_chosen

ONE_TEXT = "one text has no spread: give at least two"
MAX_CV = 0.3  #: a relative standard deviation over texts below this: the denominator holds still

# ---------------------------------------------------------------- what a denominator is


def softmax_denominators(fixed: FixedQuery, texts: Iterable[AnyText]) -> Float[Tensor, "text head"]:
    """`denom_h = sum_i pos_{n,i} content_n(x_i)` of every text, with x_n replaced by the token of
    the destination.

    Texts are read in batches, so any iterable will do, and of each no more is kept than a number
    for each head; a bar shows the progress of what takes longer than a second. The unit is
    arbitrary, one for each head: only ratios between texts mean anything. Raises ValueError for a
    text with fewer than n tokens, for no text at all, for ids outside the vocabulary, and for a
    head whose denominators are beyond the range of the weights' precision.

    >>> denoms = cx.softmax_denominators(fixed, passages)
    >>> denoms.shape
    torch.Size([72, 8])
    >>> bool((denoms > 0).all())
    True
    """
    return joined(fixed.denominators(x) for x in fixed.read(texts, "denominators"))


# ---------------------------------------------------------------- which heads hold still


class StableHeads(list[int]):
    """A list of heads that carries the table which explains the choice, one row a head.

    >>> heads = cx.stable_heads(fixed, passages)
    >>> heads == heads.table.index[heads.table["stable"]].tolist(), len(heads.table)
    (True, 8)
    """

    def __init__(self, heads: Iterable[int], table: pd.DataFrame):
        super().__init__(heads)
        self.table = table


class NoStableHead(ValueError):
    """What `stable_heads` raises where no head holds still.

    >>> issubclass(cx.denominators.NoStableHead, ValueError)
    True
    """


def head_table(fixed: FixedQuery, texts: Iterable[AnyText], max_cv: float = MAX_CV) -> pd.DataFrame:
    """The heads and their facts, one row a head: kernel and family (`families`), the standard
    deviation of the denominator over `texts` relative to its mean, and whether both make the head
    stable.

    Arguments and errors as in `stable_heads`, but that no head need be stable.

    >>> list(cx.denominators.head_table(fixed, passages))[-2:]
    ['coefficient of variation', 'stable']
    """
    denoms = softmax_denominators(fixed, texts)
    if len(denoms) < 2:
        raise ValueError(ONE_TEXT)
    table = families(fixed).drop(columns="because")
    table["coefficient of variation"] = (denoms.std(0) / denoms.mean(0)).tolist()
    table["stable"] = (table["effective tokens"] > BROAD) & (table["coefficient of variation"] < max_cv)
    return table


def head_variance_share(fixed: FixedQuery, texts: Iterable[AnyText]) -> pd.Series:
    """Who speaks: each head's share of what differs between texts in what the heads write to the
    neurons, `sum_j var(out_h . W_in[:, j] / s)`; the shares add up to 1. From the truth, or where
    there is none from the rebuilt outputs. Raises ValueError for fewer than two texts.

    >>> share = cx.denominators.head_variance_share(fixed, passages)
    >>> len(share), round(float(share.sum()), 3)
    (8, 1.0)
    """
    write = fixed.approx_head_outputs if fixed.exact is None else fixed.head_outputs
    written = ((x, write(x)) for x in fixed.read(texts, "who speaks"))
    spoken = joined(out / fixed.scale(x, out)[..., None] for x, out in written)  # text head d_model
    if len(spoken) < 2:
        raise ValueError(ONE_TEXT)
    apart, W_in = spoken - spoken.mean(0), fixed.readout.W_in
    gram = W_in @ W_in.T  # d_model numbers in place of one a neuron
    share = einsum(apart @ gram, apart, "text head d_model, text head d_model -> head")
    return pd.Series((share / share.sum()).tolist(), name="share").rename_axis("head")


def stable_heads(fixed: FixedQuery, texts: Iterable[AnyText], max_cv: float = MAX_CV) -> StableHeads:
    """The heads whose denominators hold still: a kernel spread over more than `BROAD` effective
    tokens, and denominators whose standard deviation over `texts` is below `max_cv` times their
    mean. The table is in `.table` of what is returned.

    Raises NoStableHead, a ValueError, when no head qualifies, ValueError for fewer than two texts,
    and as `softmax_denominators` does.

    >>> heads = cx.stable_heads(fixed, passages)
    >>> bool((heads.table.loc[heads, "coefficient of variation"] < cx.denominators.MAX_CV).all())
    True
    >>> by_means = cx.fit_additive(model, passages)
    >>> set(cx.stable_heads(by_means, passages)) <= set(range(8))
    True
    """
    table = head_table(fixed, texts, max_cv)
    if not table["stable"].any():
        wide = table.loc[table["effective tokens"] > BROAD, "coefficient of variation"]
        closest = f"; the steadiest of the {len(wide)} broad ones strays by {wide.min():.0%}"
        raise NoStableHead(
            f"no head has a kernel over more than {BROAD:g} tokens and a denominator that strays "
            f"by less than {max_cv:.0%}{closest if len(wide) else ''}"
        )
    return StableHeads(table.index[table["stable"]].tolist(), table)


def most_typical_text(fixed: FixedQuery, texts: Iterable[Text], heads: Sequence[int]) -> Text:
    """The text to calibrate on: the one whose log denominators lie nearest to their mean over the
    texts, on average over the heads (chapter 4). They are gone through twice: ValueError for an
    iterator, which can be only once. Other errors as in `softmax_denominators`.

    >>> cx.denominators.most_typical_text(fixed, passages, heads) in passages
    True
    """
    if isinstance(texts, Iterator):
        raise ValueError("texts that can be read only once: give a list or a cx.texts.stream")
    chosen = check_chosen("head", heads, fixed.n_heads)
    logs = softmax_denominators(fixed, texts)[:, chosen].log()
    middle = int((logs - logs.mean(0)).abs().mean(1).argmin())
    return next(islice(texts, middle, None))
