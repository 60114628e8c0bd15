"""A study: a fixed query, texts, stable heads, and the circuit calibrated on one page of plain
prose. Most chapters begin with one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ctxlib.checks import check_chosen
from ctxlib.circuit import ContextualCircuit
from ctxlib.denominators import (
    MAX_CV,
    NoStableHead,
    StableHeads,
    head_table,
    head_variance_share,
    most_typical_text,
    stable_heads,
)
from ctxlib.fix import fix_query
from ctxlib.query import FixedQuery
from ctxlib.texts.batching import check_texts
from ctxlib.texts.sources import collection, passages
from ctxlib.texts.text import Text
from ctxlib.texts.vocabulary import decode_tokens

PROSE = ("american", "british", "travel")  #: the passages' domains that count as plain prose


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """A fixed query with its stable heads. `passages` are the labelled texts that views show, those
    of the book unless others were given, `texts` those to measure on, `plain` the domains that
    count as plain prose, `calibration` the text to calibrate on where one was given. Make one with
    `study`.

    >>> study = cx.study(model, texts=100)
    >>> print(study)
    100 held-out texts of 22 domains; 72 passages of 17 domains
    query token ' the' at n = 256; stable heads [...] of 8
    """

    fixed: FixedQuery
    passages: list[Text]
    texts: list[Text]
    heads: list[int]
    plain: Sequence[str]
    max_cv: float = MAX_CV
    calibration: Text | None = None

    @property
    def n(self) -> int:
        """The position of the query."""
        return self.fixed.n

    @property
    def length(self) -> int:
        """The number of tokens of the shortest text and passage.

        >>> cx.study(model, texts=100).length
        512
        """
        return min(len(text.tokens) for text in [*self.passages, *self.texts])

    @property
    def prose(self) -> list[Text]:
        """The passages of plain prose; all of them if none is.

        >>> len(cx.study(model, texts=100).prose)
        16
        """
        return [p for p in self.passages if p.domain in self.plain] or self.passages

    @property
    def domains(self) -> np.ndarray:
        """The domain of each passage."""
        return np.array([passage.domain for passage in self.passages])

    @cached_property
    def head_table(self) -> pd.DataFrame:
        """One row a head, rounded for a page: effective tokens of the kernel, half-mass distance,
        family, coefficient of variation of the denominator over the texts, stable or not.

        >>> cx.study(model, texts=100).head_table.columns.tolist()
        ['effective tokens', 'half-mass distance', 'family', 'coefficient of variation', 'stable']
        """
        table = getattr(self.heads, "table", None)  # `StableHeads` carry theirs
        if table is None:
            table = head_table(self.fixed, self.texts, self.max_cv)
        wanted = ["effective tokens", "half-mass distance", "family", "coefficient of variation"]
        table = table[[*wanted, "stable"]].round({wanted[0]: 0, wanted[-1]: 2})
        return table.astype({wanted[0]: int})

    @cached_property
    def head_variance_share(self) -> pd.Series:
        """Each head's share of the between-text variance: what to weigh heads by in an average. It
        is computed on every fourth text if there are at least eight and most domains remain, and on
        all of them otherwise. Raises ValueError for fewer than two texts.

        >>> share = cx.study(model, texts=100).head_variance_share
        >>> len(share), round(float(share.sum()), 3)
        (8, 1.0)
        """
        few, kinds = (len({text.domain for text in part}) for part in (self.texts[::4], self.texts))
        fewer = len(self.texts) >= 8 and few >= max(kinds / 2, min(kinds, 2))
        return head_variance_share(self.fixed, self.texts[:: 4 if fewer else 1])

    @cached_property
    def example(self) -> Text:
        """The real text that accompanies a reader: the first of half B, that is the first window of
        its first document; the first text if they have no halves.

        >>> cx.study(model, texts=100).example.subject
        'Formation of the Solar System'
        """
        return next((text for text in self.texts if text.half == "B"), self.texts[0])

    @cached_property
    def calibration_text(self) -> Text:
        """The text that was given, or else the passage of plain prose with the most typical
        denominators.

        >>> study = cx.study(model, texts=100)
        >>> study.calibration_text in study.prose
        True
        """
        return self.calibration or most_typical_text(self.fixed, self.prose, self.heads)

    @cached_property
    def circuit(self) -> ContextualCircuit:
        """The paper's circuit, calibrated on that text.

        >>> cx.study(model, texts=100).circuit.contribution.shape
        torch.Size([8192, 1024])
        """
        return ContextualCircuit.calibrate(self.fixed, self.calibration_text, self.heads)

    def __repr__(self) -> str:
        kinds = len({text.domain for text in self.texts})
        # own texts, and those of a stream, have halves too; a model may have been trained on them
        held_out = "held-out " if all(text.half and text.dialect for text in self.texts) else ""
        stable = "stable " if isinstance(self.heads, StableHeads) else ""
        return (
            f"{len(self.texts)} {held_out}texts of {kinds} domains; {len(self.passages)} passages "
            f"of {len({*self.domains})} domains\n"
            f"query token {decode_tokens(self.fixed, [self.fixed.token])[0]!r} at n = {self.n}; "
            f"{stable}heads {self.heads} of {self.fixed.n_heads}"
        )


def study(
    of: Any,
    texts: int | Sequence[Text] | None = None,
    token: str | int = " the",
    heads: Sequence[int] | None = None,
    max_cv: float = MAX_CV,
    prose: Sequence[str] = PROSE,
    or_all: bool = False,
    n: int | None = None,
    labeled: Sequence[Text] | None = None,
    calibration: Text | None = None,
) -> Study:
    """Read so many texts of the collection (by default all), or those that are given, and choose
    the heads whose denominators' coefficient of variation over them is below `max_cv`, unless
    `heads` names others.

    `of` is a fixed query, or what `cx.fix_query` takes, for this `token` and `n`, by default the
    middle of the model's context, or the end of the shortest text if that comes first. `labeled`
    takes the place of the book's passages: views show these texts, and the most typical of those
    whose domain is in `prose`, of all if none is, calibrates unless `calibration` is given. Raises
    NoStableHead if no head is stable, unless `or_all` takes all heads then; TypeError for a token
    or n beside a fixed query; other errors as the functions that it calls.

    >>> cx.study(model, texts=100, heads=[4, 2]).heads
    [4, 2]
    """
    of = fix_query(of, token=token) if isinstance(of, str | os.PathLike) else of
    given = isinstance(of, FixedQuery)
    if given and (token, n) != (" the", None):
        raise TypeError("a fixed query has its token and its n: give none beside it")
    for several in (texts, labeled):
        check_texts([] if isinstance(several, int | None) else several)
    measured = collection(of, texts) if isinstance(texts, int | None) else list(texts)
    labeled = passages(of) if labeled is None else list(labeled)
    fixed = of if given else fix_query(of, [*measured, *labeled], n=n, token=token)
    if heads is not None:
        chosen = check_chosen("head", heads, fixed.n_heads)
    else:
        try:
            chosen = stable_heads(fixed, measured, max_cv)
        except NoStableHead:
            if not or_all:
                raise
            chosen = list(range(fixed.n_heads))
    return Study(fixed, labeled, measured, chosen, prose, max_cv, calibration)
