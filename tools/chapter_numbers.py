"""Number chapters as their files are named, so that a number can stay free.

Sphinx counts the pages of a table of contents. As an extension (`_config.yml`) this gives a page
`06_neurons` the number 6 whatever came before it; sections, figures and equations follow.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles as Collector


def named_as_its_file(env: BuildEnvironment, page: str) -> None:
    """Put the number in a page's name in place of the one that was counted."""
    if named := re.search(r"/(\d\d)_", page):
        own = int(named[1])
        numbers = env.toc_secnumbers[page].items()
        env.toc_secnumbers[page] = {k: number and (own, *number[1:]) for k, number in numbers}
        for heading in (*env.tocs[page].findall(nodes.reference), env.titles[page]):
            if heading.get("secnumber"):
                heading["secnumber"] = [own, *heading["secnumber"][1:]]


def renumber(app: Sphinx) -> None:
    counted = Collector.assign_section_numbers

    def assigned(self: Collector, env: BuildEnvironment) -> list[str]:
        changed = counted(self, env)
        for page in env.toc_secnumbers:
            named_as_its_file(env, page)
        return changed

    Collector.assign_section_numbers = assigned  # type: ignore[method-assign]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", renumber)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
