"""Softmax denominators: how stable they are from text to text, which heads to trust, and which text
to calibrate on (paper, Figures 3 and 4; chapter 4).

    a_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

A denominator is a mean of `content` over the text, weighted by the head's kernel. Chapter 4 works
out how far it should stray from its expectation, and what a wrong one costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pandas as pd
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ctxlib.checks import check_chosen, check_kind
from ctxlib.heads import BROAD, families
from ctxlib.query import FixedQuery
from ctxlib.texts.batching import joined
from ctxlib.texts.text import AnyText, Text

ONE_TEXT = "one text has no spread: give at least two"
MAX_CV = 0.3  #: a head is stable if its denominators' coefficient of variation is below this

# ---------------------------------------------------------------- what a denominator is


def softmax_denominators(fixed: FixedQuery, texts: Iterable[AnyText]) -> Float[Tensor, "text head"]:
    """Return `denom_h = sum_i pos_{n,i} content_n(x_i)` of every text, with the query token at n.

    Texts are read in batches and only a number per head is kept of each, so any iterable will do.
    The unit is arbitrary, one for each head: only ratios between texts have a meaning. Raises
    ValueError for a text with fewer than n tokens, for no text at all, for ids outside the
    vocabulary, and for denominators beyond the range of the weights' precision; TypeError for
    anything but a fixed query.

    >>> denoms = cx.softmax_denominators(fixed, passages)
    >>> denoms.shape
    torch.Size([72, 8])
    >>> bool((denoms > 0).all())
    True
    """
    check_kind(fixed, "a fixed query")
    return joined(fixed.denominators(x) for x in fixed.prepare_batches(texts, "denominators"))


# ---------------------------------------------------------------- which heads are stable


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
    """Raised by `stable_heads` if no head is stable.

    >>> issubclass(cx.denominators.NoStableHead, ValueError)
    True
    """


def head_table(fixed: FixedQuery, texts: Iterable[AnyText], max_cv: float = MAX_CV) -> pd.DataFrame:
    """Return one row a head: kernel and family (`families`), the coefficient of variation of its
    denominator over `texts` (standard deviation over mean), and whether both make it stable.

    Arguments and errors as in `stable_heads`, but no head need be stable.

    >>> list(cx.denominators.head_table(fixed, passages))[-2:]
    ['coefficient of variation', 'stable']
    """
    denoms = softmax_denominators(fixed, texts)
    if len(denoms) < 2:
        raise ValueError(ONE_TEXT)
    table = families(fixed).drop(columns="because")
    table["coefficient of variation"] = (denoms.std(0) / denoms.mean(0)).tolist()
    narrow = table["coefficient of variation"] < check_kind(max_cv, "a number")
    table["stable"] = (table["effective tokens"] > BROAD) & narrow
    return table


def head_variance_share(fixed: FixedQuery, texts: Iterable[AnyText]) -> pd.Series:
    """Return each head's share of the between-text variance of what the heads add to the neurons,
    `sum_j var(out_h . W_in[:, j] / s)`; the shares add up to 1.

    For a stored layer the heads' outputs are the approximate ones. Raises ValueError for fewer than
    two texts.

    >>> share = cx.denominators.head_variance_share(fixed, passages)
    >>> len(share), round(float(share.sum()), 3)
    (8, 1.0)
    """
    check_kind(fixed, "a fixed query")
    batches, write = fixed.prepare_batches(texts, "variance"), fixed.readout.outputs
    outputs = ((x, write(fixed.best_z(x))) for x in batches)
    scaled = joined(out / fixed.scale(x, out)[..., None] for x, out in outputs)  # text head d_model
    if len(scaled) < 2:
        raise ValueError(ONE_TEXT)
    centered, W_in = scaled - scaled.mean(0), fixed.readout.W_in
    gram = W_in @ W_in.T  # d_model numbers in place of one a neuron
    share = einsum(centered @ gram, centered, "text head d_model, text head d_model -> head")
    return pd.Series((share / share.sum()).tolist(), name="share").rename_axis("head")


def stable_heads(
    fixed: FixedQuery, texts: Iterable[AnyText], max_cv: float = MAX_CV
) -> StableHeads:
    """Return the heads whose denominators hardly vary: those with a kernel spread over more than
    `BROAD` effective tokens, and a coefficient of variation over `texts` below `max_cv`. The table
    behind the choice is in `.table`.

    Raises NoStableHead, a ValueError, if no head qualifies, ValueError for fewer than two texts,
    and as `softmax_denominators` does.

    >>> heads = cx.stable_heads(fixed, passages)
    >>> cv = heads.table.loc[heads, "coefficient of variation"]
    >>> bool((cv < cx.denominators.MAX_CV).all())
    True
    >>> additive = cx.fit_additive(model, passages)
    >>> set(cx.stable_heads(additive, passages)) <= set(range(8))
    True
    """
    table = head_table(fixed, texts, max_cv)
    if not table["stable"].any():
        wide = table.loc[table["effective tokens"] > BROAD, "coefficient of variation"]
        closest = f"; of the {len(wide)} that are broad the most stable varies by {wide.min():.0%}"
        raise NoStableHead(
            f"no head has a kernel over more than {BROAD:g} tokens and a denominator that varies "
            f"by less than {max_cv:.0%}{closest if len(wide) else ''}"
        )
    return StableHeads(table.index[table["stable"]].tolist(), table)


def most_typical_text(fixed: FixedQuery, texts: Iterable[Text], heads: Sequence[int]) -> Text:
    """Return the text to calibrate on: the one whose log denominators are nearest to their mean
    over the texts, on average over the heads (chapter 4).

    Raises ValueError for an iterator, since the texts are read twice; other errors as in
    `softmax_denominators`.

    >>> cx.denominators.most_typical_text(fixed, passages, heads) in passages
    True
    """
    if isinstance(texts, Iterator):
        raise ValueError("texts that can be read only once: give a list or a cx.texts.stream")
    chosen = check_chosen("head", heads, check_kind(fixed, "a fixed query").n_heads)
    logs = softmax_denominators(fixed, texts)[:, chosen].log()
    nearest = int((logs - logs.mean(0)).abs().mean(1).argmin())
    return next(islice(texts, nearest, None))
