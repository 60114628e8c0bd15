"""The prose of pages, filled with facts (`ctxbook.prose`), and what is wrong with it.

The Markdown of a chapter has three marks:

    {{r}}          prints a fact of this page, {{circuit.r}} one of another page, {{Two}} the fact
                   `two` with a capital, for the beginning of a sentence
    {{?ranks}}     prints nothing: its paragraph holds only where the condition does
    {{= 2.0 =}}    prints what stands in it: it is typed on purpose, because it is worked out by
                   hand, chosen, or quoted

A paragraph also rests on the conditions of the facts that it prints. In a file that readers see as
it is, such as README.md, a fact stands between two comments: <!--{{circuit.r}}-->0.97<!---->. They
do not begin a line, for Markdown would take that line for HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Known = dict[str, dict[str, dict[str, Any]]]  # page, name; then text, holds, begins
USES_FACTS = "cb.facts("  # in the code of a page
TAGS = ["hide-cell", "nbval-check-output"]  # of a cell with facts
MARK = re.compile(r"\{\{(\??)([\w.]+)\}\}")
CONDITION = re.compile(r"(?m)^\{\{\?[\w.]+\}\}[ \n]?|(?<!\n)[ \n]?\{\{\?[\w.]+\}\}")
BY_HAND = re.compile(r"\{\{=\s?(.*?)\s?=\}\}", re.DOTALL)
IN_PLACE = re.compile(r"(<!--\{\{([\w.]+)\}\}-->)(.*?)(<!---->)", re.DOTALL)
BLANK = re.compile(r"(\n(?:[ \t]*\n)+)")  # between two paragraphs
NOTE = ":::{note}\nOn this model the next paragraph does not hold as it is worded.\n:::\n\n"

# what a number may stand in: marks, code, targets of links, HTML, a place in a list, equations
FENCED = r"^```+[a-z]+\n.*?^```+|^```+(?:\{[\w-]+\})?|`[^`\n]*`"
PASSED = rf"\{{\{{.*?\}}\}}|{FENCED}|(?:\[\w+)?\]\([^)]*\)|<[^>]*>|^\s*\d+\. |\$\$.*?\$\$|\$[^$]+\$"
PLAIN = re.compile(rf"(?ms)\{{\{{=.*?=\}}\}}|{PASSED}")
NAMED = "appendix|chapter|equation|exercise|figure|head|layer|neuron|page|part|position|section"
NAMES = re.compile(rf"(?i)\b(?:{NAMED})s?\s\d+(?:(?:,| and| or| to)\s\d+)*")  # not counts
TYPED = re.compile(r"(?<![\w.-])[-−+]?\d[\d.,]*(?<![.,])%?")
COUNT = "(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty)"
CLAIM = re.compile(rf"(?i)\b(?:nearly all|almost exactly|{COUNT} of (?:the |its )?{COUNT})\b")


def page_of(stem: str) -> str:
    """The name by which facts of a chapter are known, whatever its number.

    >>> page_of("04_denominators")
    'denominators'
    """
    return stem.partition("_")[2]


def owner(name: str, page: str = "") -> tuple[str, str]:
    """The page of a fact, and its name there, which begins with a small letter.

    >>> owner("circuit.Two"), owner("r", "kernels")
    (('circuit', 'two'), ('kernels', 'r'))
    """
    of, _, own = name.rpartition(".")
    return of or page, own[:1].lower() + own[1:]


def looked_up(name: str, page: str, known: Known) -> dict[str, Any]:
    """A fact by its name on a page; empty if there is none."""
    of, own = owner(name, page)
    return known.get(of, {}).get(own, {})


def resting(paragraph: str, page: str, known: Known) -> list[bool]:
    """The conditions that a paragraph rests on: whether each holds."""
    found = [looked_up(name, page, known) for _, name in MARK.findall(paragraph)]
    return [fact["holds"] for fact in found if "holds" in fact]


def filled(text: str, page: str, known: Known) -> str:
    """Prose with its facts; above a paragraph of which a condition fails stands a note. A name that
    is not known is left as it is.

    >>> known = {"circuit": {"r": {"text": "0.97"}, "ranks": {"holds": True}}}
    >>> filled("It ranks them (median {{r}}). {{?ranks}}", "circuit", known)
    'It ranks them (median 0.97).'
    """
    noted = [p if all(resting(p, page, known)) else NOTE + p for p in BLANK.split(text)]
    return printed("".join(noted), page, known)


def printed(text: str, page: str, known: Known) -> str:
    """Prose without its marks."""

    def value(match: re.Match[str]) -> str:
        text: str = looked_up(match[2], page, known).get("text") or match[0]
        capital = match[2].rpartition(".")[2][0].isupper()
        return text[0].upper() + text[1:] if capital else text

    return BY_HAND.sub(r"\1", MARK.sub(value, CONDITION.sub("", text)))


def in_place(text: str, known: Known) -> str:
    """A file that readers see as it is, with its facts.

    >>> in_place("r is <!--{{circuit.r}}-->0.9<!---->.", {"circuit": {"r": {"text": "0.97"}}})
    'r is <!--{{circuit.r}}-->0.97<!---->.'
    """

    def value(match: re.Match[str]) -> str:
        before, name, was, after = match.groups()
        return f"{before}{looked_up(name, '', known).get('text', was)}{after}"

    return IN_PLACE.sub(value, text)


def used(text: str, page: str = "") -> set[str]:
    """The facts that a page prints or rests on, each with its page."""
    return {".".join(owner(name, page)) for _, name in MARK.findall(text)}


def uses_facts(cells: list[Any]) -> bool:
    """Whether a page has facts, its own or another's."""
    return any(USES_FACTS in cell.source for cell in cells) or bool(MARK.search(prose_of(cells)))


def prose_of(cells: list[Any]) -> str:
    """The Markdown of a page."""
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def with_begins(made: Known, page: str, cells: list[Any]) -> dict[str, dict[str, Any]]:
    """The facts of a page; each condition with how the first paragraph begins that has its mark."""
    parts, kept = BLANK.split(prose_of(cells)), made[page]
    for name in (name for name, fact in made[page].items() if "holds" in fact):
        having = (part for part in parts if f"{page}.{name}" in used(part, page))
        text = re.sub(r"[*_`#]|^(-|\d+\.) ", "", printed(next(having, ""), page, made))
        kept = kept | {name: kept[name] | {"begins": " ".join(text.split()[:8])}}
    return kept


def beside(committed: Known, own: Known) -> Known:
    """The facts of an edition, and those that it lacks from the committed book, which say so."""
    known = {page: dict(facts) for page, facts in own.items()}
    for page, facts in committed.items():
        lent = {n: {"text": f"{f['text']} (on mini)"} for n, f in facts.items() if "text" in f}
        known[page] = lent | known.get(page, {})
    return known


def written(known: Known) -> str:
    """The file of the facts of all pages that have any."""
    there = {page: facts for page, facts in known.items() if facts}
    return json.dumps(there, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


# ---------------------------------------------------------------- what is wrong with a page


def faults(cells: list[Any], page: str, known: Known, uses: set[str]) -> Iterator[str]:
    """What is wrong with the prose of a page that uses facts. `uses` are those that any page has
    in its text.
    """
    text = prose_of(cells)
    for cell in (cell for cell in cells if USES_FACTS in cell.source):
        of_page = f'{USES_FACTS}"{page}"' in re.sub(r"\(\s+", "(", cell.source)
        if not of_page or cell.metadata.get("tags") != TAGS:
            yield f'a cell with facts has {USES_FACTS}"{page}", ...) and tags: {", ".join(TAGS)}'
    for query, name in MARK.findall(text):
        fact = looked_up(name, page, known)
        if not fact:
            yield f"there is no fact {{{{{name}}}}}"
        elif ("holds" if query else "text") not in fact:
            yield f"the fact {{{{{name}}}}} has no {'condition' if query else 'text'}"
    if "{{" in BY_HAND.sub("", MARK.sub("", text)):
        yield "a mark {{...}} is not one: {{name}}, {{?name}} or {{= by hand =}}"
    for name, fact in known.get(page, {}).items():
        if f"{page}.{name}" not in uses:
            yield f"the fact {name} is not used"
        if fact.get("holds") is False:
            yield f"the condition {name} does not hold"
    for number in dict.fromkeys(TYPED.findall(NAMES.sub("", PLAIN.sub(" ", text)))):
        yield f"{number} is typed: make it a fact, or {{{{= {number} =}}}} if that is on purpose"
    for paragraph in BLANK.split(text):
        claim = CLAIM.search(PLAIN.sub(" ", paragraph))
        if claim and not resting(paragraph, page, known):
            yield f"“{claim[0]}” rests on no condition: give its paragraph {{{{?name}}}}"
    lead = BLANK.split(text.partition("\n")[2].strip())[0]
    if not resting(lead, page, known):
        yield "the first paragraph rests on no condition: give it {{?name}}"
