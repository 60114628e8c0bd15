"""What was published, and the bound within which a run bears it out: the tables of
`data/published.toml`, and a number of this run held against one.
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
    """A published figure and the bound within which a run bears it out: a table of
    `data/published.toml`. Bounds are committed before the book's model is measured, and not moved.

    >>> figure = cb.published("median_r")
    >>> figure.value, figure.condition, figure.statement
    ('0.9485', 'at least 0.94845', 'median r 0.9485 over 1000 texts (Gibson 2025)')
    """

    id: str
    quotation: str  # what is stated, in a few words, with the source's own number
    source: str
    value: str = ""  # that number as printed, if the source gives one
    at_least: float = -math.inf
    at_most: float = math.inf
    reason: str = ""  # why there, where the source sets no tolerance
    about_gpt2: bool = False  # GPT-2 small alone can bear it out
    texts: int = 0  # over how many texts of half a context or more it was found; 0: over none
    real: str = ""  # the line that real models have of it (`on_real`)
    algebra: bool = False  # decides it: no run could come out otherwise
    little: str = ""  # why it decides little where it holds: what does not bear it out passes, too

    @property
    def statement(self) -> str:
        """What is published, and by whom.

        >>> cb.published("kernels_alike").statement
        'kernels quite similar (Gibson 2025b)'
        """
        return f"{self.quotation} ({self.source})"

    @property
    def condition(self) -> str:
        """The bound in words.

        >>> cb.published("bag_length").condition
        '33.3 to 75'
        """
        low, high = f"{self.at_least:g}", f"{self.at_most:g}"
        if self.at_least == -math.inf:
            return f"at most {high}"
        return f"at least {low}" if self.at_most == math.inf else f"{low} to {high}"

    def verdict(self, here: float, interval: tuple[float, float] | None = None) -> str:
        """One of *holds*, *does not hold*, *undecided*, and, for a number that a model does not
        have (NaN), *untestable*.

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
        """Why a line with this verdict stands apart from those that could come out either way: one
        of `APART`; else nothing.

        >>> cb.published("heads_add").apart("holds")
        'decided by algebra'
        """
        held = (self.algebra, bool(self.little) and "holds" in verdict, "untestable" in verdict)
        return next((why for why, so in zip(APART, held, strict=True) if so), "")


@cache
def published_figures() -> dict[str, Published]:
    """Every published figure by its id, as `data/published.toml` has them.

    >>> cb.published_figures()["tv"].at_most
    0.075
    """
    with (DATA / "published.toml").open("rb") as file:
        return {id: Published(id, **facts) for id, facts in tomllib.load(file).items()}


def published(id: str) -> Published:
    """The published figure of this id; ValueError for one that is not there.

    >>> cb.published("median_fvu").at_most
    0.14265
    """
    if id not in published_figures():
        raise ValueError(f"no published figure {id!r} in ctxbook/data/published.toml")
    return published_figures()[id]


@dataclass(frozen=True)
class Claim:
    """A published figure, named by its id, held against a number of this run.

    `measured` says what was measured, `here` is the number (NaN where a model has none), and
    `interval` its 95% interval by resampling documents. `on_gpt2`: it was measured on GPT-2 small
    itself, whatever the model of the run. Raises ValueError for an id that is not there and for an
    interval whose ends are exchanged.

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
        """What the bound says of the number and its interval; see `Published.verdict`.

        >>> cb.Claim("tv", "median TV", float("nan")).verdict
        'untestable'
        """
        return published(self.id).verdict(self.here, self.interval)

    @property
    def shown(self) -> str:
        """The number and its interval, as the ledger shows them.

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
