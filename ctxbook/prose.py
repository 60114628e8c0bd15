"""Numbers in prose: the facts of a page, how they are written, and from where on a word for a
number is true. The thresholds of such words stand here, the same for every page, and were fixed
before any page used them, so that none is drawn around a result. "Hardly any" is said of what
"nearly all" leaves, and "almost the same" of what differs by less than "almost exactly" leaves.

The text of a page holds names, such as `{{r}}`, and `tools/filling.py` fills them with these facts.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ctxbook.kept import DATA

MOST = 0.5  #: "most" of a whole: more than half of it
NEARLY_ALL = 0.9  #: "nearly all" of a whole: more than nine tenths
ALMOST_EXACTLY = 0.95  #: a correlation above this, which explains more than nine tenths of variance
ABOUT = 0.1  #: "about" a number: less than a tenth of it away

HOLDS = {True: "yes", False: "no", None: ""}
FACTS = "application/vnd.ctxbook.facts+json"  # what a page's facts are called in a notebook
NUMBERS = """zero zeroth, one first, two second, three third, four fourth, five fifth, six sixth,
seven seventh, eight eighth, nine ninth, ten tenth, eleven eleventh, twelve twelfth"""
CARDINALS, ORDINALS = zip(*(pair.split() for pair in NUMBERS.split(",")), strict=True)


# ---------------------------------------------------------------- how a value is written


def listed(items: Iterable[object]) -> str:
    """Return items as a list in a sentence; "none" if there are none.

    >>> cb.listed([0, 5, 7]), cb.listed(["law"]), cb.listed([])
    ('0, 5 and 7', 'law', 'none')
    """
    *most, last = [str(item) for item in items] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


def cardinal(count: int) -> str:
    """Return a count as a word, or in digits if it is more than twelve."""
    return CARDINALS[count] if 0 <= count < len(CARDINALS) else f"{count:,}"


def ordinal(place: int) -> str:
    """Return a place in an order as a word, or in digits if it is beyond the twelfth."""
    last = 0 if place // 10 % 10 == 1 else place % 10  # 13th, and 113th
    ending = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return ORDINALS[place] if 0 <= place < len(ORDINALS) else f"{place:,}{ending}"


def in_ten(share: float) -> str:
    """Return a share as so many in ten, rounded. What would round to none or to all, and is not, is
    "fewer than one in ten" or "more than nine in ten". Raises ValueError for what is not a share.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"{share} is not a share, and cannot be so many in ten")
    if round(10 * share) in (0, 10) and share not in (0, 1):
        return "more than nine in ten" if share > 0.5 else "fewer than one in ten"
    return f"{CARDINALS[round(10 * share)]} in ten"


IN_WORDS = {"words": cardinal, "ordinal": ordinal, "in ten": in_ten}


def in_prose(value: Any, form: str | None = None) -> str:
    """Return a value as prose has it. `form` is a format specification (".2f", ".0%", ","), "words"
    ("two"), "ordinal" ("third") or "in ten" ("nine in ten"). Without one, a string stays as it is,
    a count gets its thousands separated, and another number has two decimals. What is not a number
    is a dash.

    >>> cb.in_prose(0.968), cb.in_prose(0.561, ".0%"), cb.in_prose(8960), cb.in_prose(2, "words")
    ('0.97', '56%', '8,960', 'two')
    >>> cb.in_prose(3, "ordinal"), cb.in_prose(0.93, "in ten"), cb.in_prose(-0.004)
    ('third', 'nine in ten', '0.00')
    """
    if isinstance(value, str) and form is None:
        return value
    if isinstance(value, float) and math.isnan(value):
        return "–"
    if form in IN_WORDS:
        return IN_WORDS[form](value)
    text = format(value, form or ("," if isinstance(value, int) else ".2f"))
    return text.replace("-", "−" if re.search("[1-9]", text) else "")  # no minus before a zero


# ---------------------------------------------------------------- facts


@dataclass(frozen=True)
class Fact:
    """A value as prose has it, a condition that the words around it rest on, or both."""

    text: str = ""
    holds: bool | None = None


def fact(value: Any = None, form: str | None = None, holds: Any = None) -> Fact:
    """Return a fact of a page: a value in a form (`in_prose`), a condition, or both. A boolean
    alone is a condition.

    Raises ValueError for neither, for a form that does not fit the value, for a condition that is
    not a boolean, and for an array of more than one number.

    >>> cb.fact(0.968, ".2f", holds=0.968 > cb.ALMOST_EXACTLY)
    Fact(text='0.97', holds=True)
    """
    value, holds = single(value), single(holds)
    if isinstance(value, bool) and holds is None:
        value, holds = None, value
    if value is None and holds is None:
        raise ValueError("a fact needs a value, a condition (holds=...), or both")
    if not (holds is None or isinstance(holds, bool)):
        raise ValueError(f"holds={holds!r} is not a boolean: give a condition, such as share > 0.9")
    return Fact("" if value is None else in_prose(value, form), holds)


def single(value: Any) -> Any:
    """Return a scalar of NumPy or torch as one of Python, and anything else as it is."""
    if getattr(value, "ndim", 0):
        raise ValueError(f"a fact is one value, not an array of shape {tuple(value.shape)}")
    return value.item() if hasattr(value, "item") else value


@dataclass(frozen=True)
class Facts:
    """Facts of a page, shown as a table with a note below it. A notebook keeps them with it."""

    facts: dict[str, Fact]
    note: str = ""

    @property
    def table(self) -> pd.DataFrame:
        """The facts as a page shows them: `name (text holds)`."""
        rows = {name: (f.text, HOLDS[f.holds]) for name, f in self.facts.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["text", "holds"])

    def __repr__(self) -> str:
        return f"{self.table.to_string()}\n\n{self.note}".strip("\n")

    def _repr_html_(self) -> str:
        return self.table.to_html() + (self.note and f"<p>{html.escape(self.note)}</p>")

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        given = {name: vars(fact).items() for name, fact in self.facts.items()}
        kept = [(name, {k: v for k, v in of if v not in ("", None)}) for name, of in given.items()]
        return {}, {FACTS: kept}  # pairs, for a notebook sorts names


def facts(page: str, /, **given: Any) -> Facts:
    """Return facts of a page, whose name is that of its chapter without the number. What is not
    made by `fact` becomes one in its usual form.

    Where a number or a condition differs from that of the committed page, as it does for a reader
    who has changed its model or its heads, a note says so, and which paragraphs do not hold.

    >>> cb.facts("a_page", r=0.968, ranks=0.968 > cb.ALMOST_EXACTLY)
           text holds
    r      0.97
    ranks         yes
    """
    made = {name: v if isinstance(v, Fact) else fact(v) for name, v in given.items()}
    return Facts(made, note(committed().get(page, {}), made))


def committed() -> dict[str, dict[str, Any]]:
    """Return the facts of all committed pages: `page name`, each with its text and its condition,
    where it has them, and how the first paragraph that rests on the condition begins.
    """
    return json.loads((DATA / "facts.json").read_text(encoding="utf-8"))


def note(kept: dict[str, Any], made: dict[str, Fact]) -> str:
    """Return what a reader has to know whose facts are not those of the committed page."""
    both = [(kept[name], own) for name, own in made.items() if name in kept]
    if all((was.get("text", ""), was.get("holds")) == (own.text, own.holds) for was, own in both):
        return ""
    said = "The numbers in the text are those of the committed run; yours are here."
    fail = dict.fromkeys(f"“{was['begins']} …”" for was, own in both if own.holds is False)
    return f"{said} What does not hold here: {'; '.join(fail)}." if fail else said
