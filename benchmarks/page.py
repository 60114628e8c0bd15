"""The page of costs, a section of each benchmark's own."""

import re
from collections.abc import Sequence
from pathlib import Path


def put(page: Path, section: str, lead: str = "") -> None:
    """Write a section, which begins with its heading `## ...`, in place of the one that has this
    heading, or at the end of the page; and `lead`, a line, in place of that line of the page's head
    which begins with the same two words. A machine that the head names is not named again.
    """
    heading = section.partition("\n")[0]
    first, *others = re.split(r"(?m)^(?=## )", page.read_text(encoding="utf-8"))
    if lead:
        begins = re.escape(" ".join(lead.split()[:2]))
        first = re.sub(rf"(?m)^{begins} .*$", lambda _: lead, first)
    if named := re.search(r"(?m)^Where a section names no machine, it is (.*)\.$", first):
        section = section.replace(f": {named[1]}", "")
    sections = {text.partition("\n")[0]: text for text in others} | {heading: section}
    whole = "\n\n".join(text.strip() for text in (first, *sections.values()))
    page.write_text(f"{whole}\n", encoding="utf-8")


def as_lines(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, its first row the heads."""
    head, *rest = rows
    ruled = [head, ["---", *["--:"] * (len(head) - 1)], *rest]
    return "\n".join(f"| {' | '.join(row)} |" for row in ruled)
