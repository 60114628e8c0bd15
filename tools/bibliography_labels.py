"""The bibliography's labels are what the text cites: author and year, in the order of both.

A Sphinx extension that gives pybtex the style `author_year`, for `book/bibliography.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle


class AuthorYear(BaseLabelStyle):
    """`Gibson, 2025b`, `Okabe and Ito, 2002`, `Neo et al., 2024`."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        for entry in sorted_entries:
            people = [" ".join(person.last_names) for person in entry.persons["author"]]
            who = " and ".join(people) if len(people) < 3 else f"{people[0]} et al."
            yield f"{who}, {entry.fields['year']}"


class AuthorYearStyle(Style):
    default_label_style = AuthorYear
    default_sorting_style = "author_year_title"


def setup(app: Any) -> dict[str, bool]:
    register_plugin("pybtex.style.formatting", "author_year", AuthorYearStyle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
