"""Every word of the glossary is used, and every link to it has its entry."""

import re

from command import ROOT
from test_book import SOURCES, prose

PAGE = (ROOT / "book" / "glossary.md").read_text("utf-8")
(LIST,) = re.findall(r"(?s)```\{glossary\}\n\n(.*)\n```", PAGE)
ENTRIES = [entry.split("\n  ")[0].split("\n") for entry in LIST.split("\n\n")]
NAMES = sorted((name for names in ENTRIES for name in names), key=len, reverse=True)
FIRST = {name: names[0] for names in ENTRIES for name in names}  # of the names of an entry
PLAIN = [f for f in (ROOT / "book").glob("*.md") if f.stem not in {"glossary", "releases"}]
ROLE = r"\{term\}`(?:[^`<]*<)?([^`>]+)>?`"


def forms(name):
    """A name in the singular and in the plural."""
    return rf"(?i:\b{re.escape(name)}(?:e?s)?\b" + (
        rf"|\b{name[:-1]}ies\b)" if name[-1] == "y" else ")"
    )


BARE = "|".join(f"({forms(name)})" for name in NAMES)  # *effective tokens* is no *token*


def test_an_entry_is_used_and_a_link_has_its_entry():
    texts = [prose(source) for source in SOURCES.values()] + [f.read_text("utf-8") for f in PLAIN]
    found = {m.lastindex for text in texts for m in re.finditer(BARE, " ".join(text.split()))}
    used = {FIRST[NAMES[k - 1]] for k in found}
    assert [names for names in ENTRIES if names[0] not in used] == []
    assert {to for text in [*texts, PAGE] for to in re.findall(ROLE, text)} <= {*NAMES}
    assert len(FIRST) == len(NAMES)
    starts = [names[0].lower() for names in ENTRIES]
    assert starts == sorted(starts)
