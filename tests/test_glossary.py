"""Every word of the glossary is used, every link has its entry, and every symbol its code."""

import re

import glossary_links
from command import ROOT
from docutils import nodes
from test_book import CHAPTERS, SOURCES, prose

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


def test_letters_lead_to_their_first_entries():
    jumps = re.findall(r'<a href="#term-([^"]+)">(.)', PAGE)
    first = {name[0].upper(): name for name, *_ in reversed(ENTRIES)}
    slugs = {letter: re.sub(r"\W+", "-", name).strip("-") for letter, name in first.items()}
    assert {letter: slug for slug, letter in jumps if letter != "0"} == {
        letter: slug for letter, slug in slugs.items() if letter.isalpha()
    }


def test_a_word_of_ordinary_english_is_no_link():
    said = "A defender's score, the sources and the summary say: a folded cell found one kernel."
    text = nodes.Text(said)
    page = nodes.document(None, None)
    page += nodes.paragraph("", "", text)
    terms = glossary_links.linked(["folded", "found", "kernel", "score", "source", "summary"])
    assert [m[0] for m in glossary_links.first_uses(page, terms)[text]] == ["kernel"]


NOTATION = (ROOT / "book" / "notation.md").read_text("utf-8")
ROWS = re.findall(r"(?m)^\| .* \| ((?:`[a-z_ ]+`)?) ?\| (`.*`) \|$", NOTATION)


def test_a_symbol_is_in_the_code_what_the_notation_page_says(stated):
    (setup,) = re.findall(r"(?s)```python\n(.*?)```", NOTATION)
    exec(setup, names := dict(stated))
    weights = names["weights"]
    size = {"vocab": weights.d_vocab, "head": weights.n_heads, "neuron": weights.n_neurons}
    size |= {"source": names["n"] + 1, "pos": len(names["tokens"]), "prompt": 1, "layer": 3}
    size |= {"passage": len(names["passages"])}
    size |= {name: getattr(weights, name) for name in ("d_model", "d_head", "n_ctx")}
    for shape, spans in ROWS:
        for code in re.findall("`([^`]+)`", spans):
            value = eval(code, names)
            if shape:
                assert tuple(value.shape) == tuple(size[axis] for axis in shape[1:-1].split()), code
    assert len(ROWS) > 50


GREEK = (
    "alpha beta gamma delta epsilon theta kappa lambda mu nu pi rho sigma tau phi chi psi omega ell"
)
NO_LETTER = (
    r"\\(?:text|math\w+|operatorname\*?|begin|end){[^}]*}|(?<=[WbPE])_[EKOQUV]|\\tfrac|\[4pt]"
)


def test_each_letter_of_an_equation_stands_in_the_list_with_its_page():
    """A letter is in the list, and with the page, or it means the same everywhere."""
    rows = re.findall(r"(?m)^\| \$(\\?\w+)\$ \| (.*) \|$", NOTATION)
    pages = {of: " ".join(re.findall(r"\(([^()$]+)\)", said)) for of, said in rows}
    where = {of: set(re.findall(r"\w+", of_letter)) for of, of_letter in pages.items()}
    missing = set()
    for file in CHAPTERS:
        page = file.stem.partition("_")[0].lstrip("0")
        for equation in re.findall(r"(?s)\$\$(.*?)\$\$", prose(SOURCES[file])):
            for of in re.findall(r"\\[A-Za-z]+|[A-Za-z]", re.sub(NO_LETTER, "", equation)):
                known = of[1:].lower().removeprefix("var") in GREEK.split() or len(of) == 1
                if known and not where.get(of, set()) & {page, "everywhere"}:
                    missing.add((of, page))
    assert missing == set()


def test_a_half_of_the_texts_goes_by_its_capital():
    found = glossary_links.pattern(["half A", "token"]).findall(
        "half as long; Half A of the tokens"
    )
    assert found == ["Half A", "token"]
