"""The first use of a glossary term in a chapter links to its entry, so that a chapter's source, and
its notebook in Colab, read without roles.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

CHAPTER = re.compile(r"book/(\d\d|[A-F])_")
# words that mostly mean something else in a sentence, or that stand as code
COMMON = {"active", "block", "case", "circuit", "column", "damage", "drive", "folded", "found"}
COMMON |= {"kept", "label", "map", "mini", "null", "offset", "order", "paper", "peak", "planted"}
COMMON |= {"post", "score", "silence", "slope", "source", "spread", "summary", "top", "value"}
APART = (nodes.reference, nodes.literal, nodes.math, nodes.raw, nodes.title, nodes.table)


def pattern(terms: list[str]) -> re.Pattern[str]:
    """Return what finds any of the terms, the longest first; a plural s may follow. Only the first
    letter may be of the other case, as where a sentence begins: "half as much" is no half A.
    """
    longest_first = sorted(terms, key=len, reverse=True)
    words = "|".join(f"(?i:{re.escape(term[0])}){re.escape(term[1:])}" for term in longest_first)
    return re.compile(rf"\b({words})(?=s?\b)")


def linked(names: list[str]) -> list[str]:
    """Return the names of entries that pages link to."""
    return [name for name in names if name not in COMMON]


def first_uses(doctree: nodes.document, terms: list[str]) -> dict[nodes.Text, list[re.Match[str]]]:
    """Return where in the paragraphs of a page each term stands first, text by text."""
    find, left = pattern(terms), {term.lower() for term in terms}
    found: dict[nodes.Text, list[re.Match[str]]] = {}
    for paragraph in doctree.findall(nodes.paragraph):
        for text in list(paragraph.findall(nodes.Text)):
            node = text.parent
            while node is not None and not isinstance(node, APART):
                node = node.parent
            for match in find.finditer(text) if node is None else ():
                if match[1].lower() in left:
                    left.remove(match[1].lower())
                    found.setdefault(text, []).append(match)
    return found


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put a link around the first use of each term."""
    if not CHAPTER.match(docname):
        return
    entries = {
        name: (page, label)
        for name, _, kind, page, label, _ in app.env.get_domain("std").get_objects()
        if kind == "term"
    }
    by_lower = {name.lower(): at for name, at in entries.items()}
    for text, matches in first_uses(doctree, linked([*entries])).items():
        parts, end = [], 0
        for match in matches:
            page, label = by_lower[match[1].lower()]
            uri = f"{app.builder.get_relative_uri(docname, page)}#{label}"
            parts.append(nodes.Text(text[end : match.start()]))
            parts.append(nodes.reference("", match[0], refuri=uri, internal=True, classes=["term"]))
            end = match.end()
        text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
