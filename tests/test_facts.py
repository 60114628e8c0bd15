"""Numbers in prose: how they are written, filled in and held against the text, in the committed
book, in another edition, and for a reader who changes a parameter.
"""

import json
import re
import shutil
from types import SimpleNamespace
from unittest.mock import Mock

import build_book
import files
import filling
import nbformat
import numpy as np
import pytest
import torch
from command import ROOT

import ctxbook as cb

# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.9685, ".2f", "0.97"),
        (np.float32(0.561), ".0%", "56%"),
        (torch.tensor(-0.25), None, "−0.25"),
        (-0.0004, ".2f", "0.00"),
        (np.int64(8960), None, "8,960"),
        (float("nan"), "words", "–"),
        ("0 and 7", None, "0 and 7"),
        (torch.tensor(2), "words", "two"),
        (13, "words", "13"),
        (1, "ordinal", "first"),
        (11, "ordinal", "eleventh"),
        (21, "ordinal", "21st"),
        (113, "ordinal", "113th"),
        (0.87, "in ten", "nine in ten"),
        (0.97, "in ten", "more than nine in ten"),
        (0.02, "in ten", "fewer than one in ten"),
        (1.0, "in ten", "ten in ten"),
    ],
)
def test_a_value_is_written_as_prose_has_it(value, form, text):
    assert cb.fact(value, form) == cb.Fact(text)


@pytest.mark.parametrize("holds", [True, np.bool_(True), torch.tensor(True)])
def test_a_boolean_is_a_condition(holds):
    assert cb.fact(holds) == cb.fact(holds=holds) == cb.Fact("", True)
    assert cb.fact(0.5, ".1f", holds) == cb.Fact("0.5", True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs a value, a condition"),
        ({"value": np.array([1.0, 2.0])}, r"not an array of shape \(2,\)"),
        ({"holds": torch.tensor([True])}, r"not an array of shape \(1,\)"),
        ({"value": 1.0, "holds": "yes"}, "'yes' is not a boolean"),
        ({"value": "two", "form": ".2f"}, "Unknown format code"),
        ({"value": 1.2, "form": "in ten"}, "1.2 is not a share"),
    ],
)
def test_what_is_no_fact_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        cb.fact(**given)


# ---------------------------------------------------------------- prose

KNOWN = {
    "circuit": {
        "r": {"text": "0.97"},
        "two": {"text": "two"},
        "ranks": {"holds": True, "begins": ""},
        "fails": {"holds": False, "begins": ""},
    },
    "costs": {"price": {"text": "26%", "holds": True, "begins": ""}},
}


@pytest.mark.parametrize(
    ("prose", "text"),
    [
        ("It ranks them (median {{r}}). {{?ranks}}", "It ranks them (median 0.97)."),
        ("{{?ranks}} It ranks\nthem. {{?ranks}}\n\nSo", "It ranks\nthem.\n\nSo"),
        ("| a table |\n\n{{?ranks}} It ranks", "| a table |\n\nIt ranks"),
        ("- a list\n\n  {{?ranks}} It ranks", "- a list\n\n  It ranks"),
        ("{{Two}} heads, {{two}} heads", "Two heads, two heads"),
        ("| {{r}} | {{costs.price}} |", "| 0.97 | 26% |"),
        ("$r = {{r}}$, by hand {{= 2.0 =}}", "$r = 0.97$, by hand 2.0"),
        ("{{=\n| 1 | $e^{x_{i}}$ |\n=}}", "| 1 | $e^{x_{i}}$ |"),
        ("{{unknown}} and {{other.r}}", "{{unknown}} and {{other.r}}"),
    ],
)
def test_marks_are_replaced_by_facts(prose, text):
    assert filling.filled(prose, "circuit", KNOWN) == text


def test_a_note_stands_above_the_paragraph_of_which_a_condition_fails():
    text = filling.filled("# Title\n\nOne {{r}}.\n\nTwo. {{?fails}}\n\nThree.", "circuit", KNOWN)
    assert text == f"# Title\n\nOne 0.97.\n\n{filling.NOTE}Two.\n\nThree."
    assert filling.NOTE.count(".") == 1 and filling.NOTE.startswith(":::{note}\n")


LEAD = "# How well?\n\n**Well** ({{r}}). {{?ranks}} {{Two}} {{costs.price}}\n\n"
ALLOWED = """\
On page 4, heads 0, 5 and 7 and neuron 496 of GPT-2 and Qwen2.5-Coder-1.5B; see [3](04_page).
1. An item, with $n = 256$, `x[0.5]`, {cite}`gibson2025` and $$\\frac{1}{2}$$

```python
r = 0.97
```

{{= By hand, 2.0 / 1.6 is 1.25. =}} Two numbers tell how far."""


def faults(text, tags=filling.TAGS, code='cb.facts(\n    "circuit", r=1)', without=("fails",)):
    known = KNOWN | {"circuit": {n: f for n, f in KNOWN["circuit"].items() if n not in without}}
    cells = [SimpleNamespace(cell_type="markdown", source=text, metadata={})]
    cells.append(SimpleNamespace(cell_type="code", source=code, metadata={"tags": tags}))
    return list(filling.faults(cells, "circuit", known, filling.used(text, "circuit")))


def test_prose_without_a_fault_has_none():
    assert faults(LEAD + ALLOWED) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (LEAD + "{{gone}}", "there is no fact {{gone}}"),
        (LEAD + "{{costs.gone}}", "there is no fact {{costs.gone}}"),
        (LEAD + "{{ranks}}", "the fact {{ranks}} has no text"),
        (LEAD + "{{?r}}", "the fact {{r}} has no condition"),
        (LEAD + "{{r:.2f}}", "a mark {{...}} is not one"),
        (LEAD.replace("{{r}}", ""), "the fact r is not used"),
        (
            LEAD.replace("{{?ranks}}", "").replace("{{costs.price}}", "") + "{{?ranks}}",
            "the first ",
        ),
        (LEAD + "Nearly all heads are stable.", "“Nearly all” rests on no condition"),
        (LEAD + "That is true of two of the eight heads.", "“two of the eight” rests on no"),
        *(
            (LEAD + f"It is {typed}.", f"{typed} is typed")
            for typed in ("0.97", "92%", "490", "−0.5", "8,960", "1.5")
        ),
        (LEAD + "```{admonition} Other\n:class: note\n\nIt is 0.5.\n```", "0.5 is typed"),
    ],
)
def test_what_is_wrong_with_prose_is_said(text, fault):
    assert [said.startswith(fault) for said in faults(text)] == [True]


def test_a_condition_that_fails_and_a_cell_that_is_not_compared_are_faults():
    assert faults(LEAD + "{{?fails}}", without=()) == ["the condition fails does not hold"]
    for other in ({"tags": ["hide-cell"]}, {"code": 'cb.facts("other", r=1)'}):
        (said,) = faults(LEAD, **other)
        assert said.startswith('a cell with facts has cb.facts("circuit", ...) and tags: hide-cell')


# ---------------------------------------------------------------- pages

CHAPTER = '''# %% [markdown]
"""
# Do the heads rank texts?

**{{Heads}} of the eight heads rank texts almost exactly as the model does** (median {{r}}).
{{?ranks}}
"""

# %% tags=["parameters"]
MODEL = "mini"
HEADS = [0, 7]

# %% tags=["hide-cell", "nbval-check-output"]
import ctxbook as cb

r = 0.97 if MODEL == "mini" and HEADS == [0, 7] else 0.4
cb.facts(
    "circuit", heads=cb.fact(len(HEADS), "words"), r=cb.fact(r, ".2f"), ranks=r > cb.ALMOST_EXACTLY
)
'''
TITLE = "# Do the heads rank texts?"
LEAD_HERE = "**Two of the eight heads rank texts almost exactly as the model does** (median 0.97)."
PLAIN = "# Costs\n\nThe heads reach <!--{{circuit.r}}-->0.1<!---->.\n"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A repository with a chapter that has facts, executed, and a page beside it that uses one."""
    root = tmp_path_factory.mktemp("repository")
    shutil.copytree(ROOT / "ctxbook", root / "ctxbook")
    for package in ("ctxlib", "ctxviews"):
        (root / package).symlink_to(ROOT / package)
    files.replace(root / "ctxbook" / "data" / "facts.json", "{}")
    files.replace(root / "chapters" / "05_circuit.py", CHAPTER)
    files.replace(root / "book" / "costs.md", PLAIN)
    with pytest.MonkeyPatch.context() as patch:
        moved_to(root, patch)
        assert build_book.main(["execute"]) == 0
    return root


def moved_to(root, patch):
    for name, place in (("ROOT", ""), ("CHAPTERS", "chapters"), ("BUILD", "_build")):
        patch.setattr(build_book, name, root / place)


@pytest.fixture
def book(executed, tmp_path, capsys, monkeypatch):
    """A copy of it, which is the repository that `build_book` works on."""
    root = shutil.copytree(executed, tmp_path / "copy", symlinks=True)
    moved_to(root, monkeypatch)
    monkeypatch.setattr(build_book, "site", lambda model: "there")

    def call(*words):
        capsys.readouterr()
        status = build_book.main([*words])
        return status, "".join(capsys.readouterr())

    return SimpleNamespace(
        root=root,
        chapter=root / "chapters" / "05_circuit.py",
        notebook=root / "book" / "05_circuit.ipynb",
        facts=root / "ctxbook" / "data" / "facts.json",
        plain=root / "book" / "costs.md",
        call=call,
    )


def cells(notebook):
    return nbformat.read(notebook, as_version=4).cells


def test_execute_fills_prose_and_facts_and_a_check_holds_them_against_each_other(book):
    assert cells(book.notebook)[0].source == f"{TITLE}\n\n{LEAD_HERE}"
    assert "0.97" in book.plain.read_text() and "{{circuit.r}}" in book.plain.read_text()
    known = json.loads(book.facts.read_text())["circuit"]
    assert known["heads"] == {"text": "two"} and known["r"] == {"text": "0.97"}
    assert known["ranks"] == {"holds": True, "begins": "Two of the eight heads rank texts almost"}
    assert cells(book.notebook)[2].outputs[0].data["text/plain"].split("\n") == [
        "       text holds",
        "heads   two      ",
        "r      0.97      ",
        "ranks         yes",
    ]
    assert book.call("book")[0] == 0


def test_a_change_of_prose_alone_is_filled_without_a_kernel(book, monkeypatch):
    monkeypatch.setattr(build_book, "run", Mock(side_effect=AssertionError("no kernel")))
    before = cells(book.notebook)[2].outputs
    more = "A cell more.\n\nThey reach {{r}}."
    book.chapter.write_text(f'{CHAPTER}\n# %% [markdown]\nr"""\n{more}\n"""\n')
    status, output = book.call("check")
    assert status == 1 and "was made from another source: run `make execute" in output
    assert book.call("execute")[0] == 0
    assert cells(book.notebook)[3].source == "A cell more.\n\nThey reach 0.97."
    assert cells(book.notebook)[2].outputs == before


def test_a_value_that_changed_is_found_and_so_is_prose_that_has_stayed_behind(book):
    written = book.notebook.read_text()

    def refused(old, new, message):
        book.notebook.write_text(written.replace(old, new))
        status, output = book.call("book")
        assert status == 1 and re.search(message, output)

    refused("(median 0.97)", "(median 0.96)", "was made from another source")
    refused("<td>0.97</td>", "<td>0.96</td>", "comes out otherwise")
    refused('"text": "0.97"', '"text": "0.96"', "facts.json has other facts")
    book.notebook.write_text(written)
    book.plain.write_text(PLAIN)
    assert "costs.md: its facts are stale" in book.call("book")[1]
    book.plain.write_text(PLAIN.replace("circuit.r", "circuit.gone"))
    assert "costs.md: there is no fact circuit.gone" in book.call("book")[1]


def test_a_condition_that_fails_is_no_book(book):
    book.chapter.write_text(CHAPTER.replace("r = 0.97", "r = 0.90"))
    assert book.call("execute")[0] == 0
    status, output = book.call("book")
    assert status == 1 and "05_circuit: the condition ranks does not hold" in output


def test_an_edition_has_its_own_numbers_and_says_above_a_paragraph_what_fails(book, tmp_path):
    model = tmp_path / "models" / "other"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    committed = {f: f.read_bytes() for f in (book.notebook, book.facts, book.plain)}
    assert book.call("execute", "--model", str(model))[0] == 0
    base = build_book.home(str(model))
    lead = LEAD_HERE.replace("0.97", "0.40")
    page, parameters, facts = cells(base / "book" / "05_circuit.ipynb")
    assert page.source == f"{TITLE}\n\n{filling.NOTE}{lead}"
    assert 'MODEL = "other"' in parameters.source
    assert "committed run" not in facts.outputs[0].data["text/plain"]
    shutil.copy(book.plain, base / "book")
    build_book.fill_in_place(base)
    assert "-->0.40<!--" in (base / "book" / "costs.md").read_text()
    assert {f: f.read_bytes() for f in committed} == committed


def test_what_an_edition_lacks_is_said_to_be_of_mini():
    known = filling.beside(KNOWN, {"circuit": {"r": {"text": "0.40"}}})
    assert known["circuit"]["r"]["text"] == "0.40"
    assert known["costs"] == {"price": {"text": "26% (on mini)"}}
    assert filling.filled("{{costs.price}} {{?ranks}}", "circuit", known) == "26% (on mini)"


@pytest.mark.parametrize("heads", ["[0, 7]", "[0, 1, 2]"])
def test_a_reader_with_other_heads_is_told_so_below_the_facts(book, heads):
    """As in Colab: the committed notebook, its parameter changed, and the package beside it."""
    notebook = nbformat.read(book.notebook, as_version=4)
    notebook.cells[1].source = notebook.cells[1].source.replace("[0, 7]", heads)
    build_book.NotebookClient(notebook, kernel_name="python3").execute(
        env=build_book.os.environ | {"PYTHONPATH": str(book.root)}
    )
    (output,) = notebook.cells[2].outputs
    note = (
        "The numbers in the text are those of the committed run; yours are here. What does not "
        "hold here: “Two of the eight heads rank texts almost …”."
    )
    for kind in ("text/plain", "text/html"):
        assert (note in output.data[kind]) == (heads != "[0, 7]")
    assert ("three" in output.data["text/plain"]) == (heads != "[0, 7]")


def test_a_page_has_one_fact_of_a_name():
    output = nbformat.v4.new_output("display_data", metadata={cb.FACTS: [["r", {"text": "1"}]]})
    cell = nbformat.v4.new_code_cell(outputs=[output, output])
    with pytest.raises(ValueError, match="a page has two facts of one name: r"):
        build_book.found_in(nbformat.v4.new_notebook(cells=[cell]))


def test_the_committed_facts_are_of_pages_that_are_there():
    pages = [filling.page_of(chapter.stem) for chapter in build_book.named()]
    assert len({*pages}) == len(pages) and cb.committed().keys() <= {*pages}


@pytest.mark.parametrize("page", build_book.plain_pages(ROOT), ids=lambda p: p.name)
def test_a_page_without_a_notebook_is_filled_and_begins_no_line_with_a_mark(page):
    assert build_book.refusals_in_place(page) == []
    assert not re.search(r"(?m)^\s*<!--\{\{", page.read_text("utf-8"))
