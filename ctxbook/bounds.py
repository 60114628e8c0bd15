"""Published figures with the bounds within which a run confirms them (`data/published.toml`), and a
number of this run compared with one.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache

from ctxbook.kept import DATA

APART = ("decided by algebra", "deciding little", "untestable here")


@dataclass(frozen=True)
class Published:
    """A published figure and the bound within which a run confirms it: a table of
    `data/published.toml`. Bounds are committed before the book's model is measured, and not moved.

    >>> figure = cb.published("median_r")
    >>> figure.value, figure.condition, figure.statement
    ('0.9485', 'at least 0.94845', 'median r 0.9485 over 1000 texts (Gibson 2025)')
    """

    id: str
    quotation: str  # what is stated, in a few words, with the source's own number
    source: str
    plain: str = ""  # the same in plain words, and after the colon what the number of a run is
    value: str = ""  # that number as printed, if the source gives one
    at_least: float = -math.inf
    at_most: float = math.inf
    reason: str = ""  # why there, where the source sets no tolerance
    about_gpt2: bool = False  # GPT-2 small alone can bear it out
    texts: int = 0  # over how many texts of half a context or more it was found; 0: over none
    real: str = ""  # the line that real models have of it (`on_real`)
    algebra: bool = False  # decides it: no run could come out otherwise
    little: str = ""  # why holding is weak evidence: it would also hold if the claim were false
    moot: str = ""  # why its test decides nothing, whichever way it falls

    @property
    def statement(self) -> str:
        """Return what is published, and by whom.

        >>> cb.published("kernels_alike").statement
        'kernels quite similar (Gibson 2025b)'
        """
        return f"{self.quotation} ({self.source})"

    @property
    def condition(self) -> str:
        """Return the bound in words.

        >>> cb.published("bag_length").condition
        '33.3 to 75'
        """
        low, high = f"{self.at_least:g}", f"{self.at_most:g}"
        if self.at_least == -math.inf:
            return f"at most {high}"
        return f"at least {low}" if self.at_most == math.inf else f"{low} to {high}"

    def verdict(self, here: float, interval: tuple[float, float] | None = None) -> str:
        """Return *holds*, *does not hold*, *undecided* or, for a number that a model does not have
        (NaN), *untestable*.

        Without an interval the number decides: it holds within the bound, its ends included. A
        figure is undecided exactly when its 95% interval has a bound strictly inside, that is
        low < bound < high for `at_least` or for `at_most`; of two bounds one is enough. An
        interval that only touches a bound decides, and so does one with an end that is NaN, which
        counts as none.

        >>> figure = cb.published("loss_is_there")  # 0 to 0.1
        >>> [figure.verdict(0.05, ends) for ends in (None, (-0.01, 0.12), (0, 0.1))]
        ['holds', 'undecided', 'holds']
        """
        if math.isnan(here):
            return "untestable"
        if interval and any(interval[0] < b < interval[1] for b in (self.at_least, self.at_most)):
            return "undecided"
        return "holds" if self.at_least <= here <= self.at_most else "does not hold"

    def apart(self, verdict: str) -> str:
        """Return why a line with this verdict is listed apart from those that could come out either
        way: one of `APART`, or "".

        >>> cb.published("heads_add").apart("holds")
        'decided by algebra'
        """
        weak = bool(self.moot or (self.little and "holds" in verdict))
        held = (self.algebra, weak, "untestable" in verdict)
        return next((why for why, so in zip(APART, held, strict=True) if so), "")


@cache
def published_figures() -> dict[str, Published]:
    """Return every published figure by its id.

    >>> cb.published_figures()["tv"].at_most
    0.075
    """
    with (DATA / "published.toml").open("rb") as file:
        return {id: Published(id, **facts) for id, facts in tomllib.load(file).items()}


def published(id: str) -> Published:
    """Return the published figure with this id; raise ValueError if there is none.

    >>> cb.published("median_fvu").at_most
    0.14265
    """
    if id not in published_figures():
        raise ValueError(f"no published figure {id!r} in ctxbook/data/published.toml")
    return published_figures()[id]


@dataclass(frozen=True)
class Claim:
    """A published figure, named by its id, compared with a number of this run.

    `measured` says what was measured, `here` is the number (NaN if the model has none), and
    `interval` its 95% interval over documents. `on_gpt2` marks a measurement on GPT-2 small itself,
    whatever the model of the run. Raises ValueError for an unknown id, and for an interval whose
    lower end does not come first.

    >>> claim = cb.Claim("tv", "median TV of the stable heads", 0.06, (0.05, 0.08))
    >>> claim.shown, claim.verdict
    ('0.06 [0.05, 0.08]', 'undecided')
    """

    id: str
    measured: str
    here: float
    interval: tuple[float, float] | None = None
    digits: int = 2
    on_gpt2: bool = False

    def __post_init__(self) -> None:
        published(self.id)
        if self.interval and self.interval[0] > self.interval[1]:
            raise ValueError(f"interval {self.interval} of {self.id!r}: give its lower end first")

    @property
    def verdict(self) -> str:
        """Return the verdict on the number and its interval; see `Published.verdict`.

        >>> cb.Claim("tv", "median TV", float("nan")).verdict
        'untestable'
        """
        return published(self.id).verdict(self.here, self.interval)

    @property
    def shown(self) -> str:
        """Return the number and its interval, as the ledger shows them.

        >>> cb.Claim("loss_is_there", "loss of P", 0.054, digits=3).shown
        '0.054'
        """
        if math.isnan(self.here):
            return "–"
        number, *ends = (
            f"{round(v, self.digits) + 0.0:.{self.digits}f}"  # no minus before a zero
            for v in (self.here, *(self.interval or ()))
        )
        return f"{number} [{', '.join(ends)}]" if ends and "nan" not in ends else number
