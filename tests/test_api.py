"""The reference: every public name is there, states what it does, and shows it."""

import inspect
import re
import subprocess
import sys
from functools import partial
from pydoc import locate

import api_reference
import pytest
from bs4 import BeautifulSoup
from command import ROOT

import ctxlib as cx
from ctxviews.command import main

PAGES = sorted((ROOT / api_reference.PAGES).glob("*.md"))
FOLDED = {"chat", "explain", "hooks", "layers"}  # modules of look-ups
NAMES = [name for page in PAGES for name in api_reference.documented(page)]
MEMBERS = [
    f"{name}.{member}"
    for page in PAGES
    for name, several in re.findall(r"autoclass:: (.+)\n   :members: (.+)", page.read_text("utf-8"))
    for member in several.split(", ")
]


def code_of(name):
    """The function, class or property behind a name; None for a constant."""
    holder, last = locate(name.rpartition(".")[0]), name.rpartition(".")[2]
    look = getattr if inspect.ismodule(holder) else inspect.getattr_static  # a module may be lazy
    thing = look(holder, last)
    thing = getattr(thing, "__func__", thing)  # of a class method
    thing = getattr(thing, "fget", None) or getattr(thing, "func", thing)  # of a property
    return thing if inspect.isroutine(thing) or inspect.isclass(thing) else None


def test_what_is_imported_on_demand_is_not_imported_before():
    code = "import sys, ctxlib; print(*(m for m in sys.modules if m.startswith('ctxlib')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ctxlib"]


def test_every_name_of_the_package_has_one_entry():
    assert len(NAMES) == len(set(NAMES))
    modules = {n for n in cx.__all__ if inspect.ismodule(getattr(cx, n))}
    pages = {page.stem for page in PAGES}
    contents = (ROOT / f"{api_reference.PAGES}.md").read_text("utf-8")
    listed = re.findall(r"(?m)^```\{names\} (?:\w+\.)*(\w+)$", contents)
    assert sorted(listed) == sorted(pages)  # links, or no site
    texts = "\n".join(page.read_text("utf-8") for page in PAGES)
    sections = {*re.findall(r"(?m)^## ctxlib\.(\w+)$", texts)}  # of a page about another module
    assert pages - modules == {"chat"}  # of the look-ups
    assert modules - pages <= sections
    names = {n.removeprefix("ctxlib.") for n in NAMES}
    assert set(cx.__all__) - modules == {n for n in names if "." not in n}
    given = {f"lookups.{n}" for n in cx.lookups.__all__ if n not in FOLDED}
    assert given == {n for n in names if re.fullmatch(r"lookups\.\w+", n)}


def test_every_name_that_readers_meet_has_an_entry():
    """The chapters' and the README's `cx.name` and `cx.module.name`."""
    sources = [*(ROOT / "chapters").glob("*.py"), ROOT / "README.md"]
    met = (re.findall(r"\bcx(\.\w+(?:\.[A-Za-z_]\w*)*)", s.read_text()) for s in sources)
    used = {f"ctxlib{name}" for names in met for name in names}
    entries = [*NAMES, *MEMBERS, *(f"ctxlib.{name}" for name in cx.__all__)]
    things = [locate(name) for name in entries]
    assert not [n for n in used - {*entries} if all(locate(n) != thing for thing in things)]


@pytest.mark.parametrize("name", [n for n in [*NAMES, *MEMBERS] if code_of(n)])
def test_a_docstring_states_what_it_does_and_shows_it(name):
    text = inspect.getdoc(code_of(name))
    assert text and (text[0].isupper() or text[0] in "`0123456789")
    example = [line for line in text.splitlines() if line.startswith((">>> ", "... "))]
    assert 1 <= len(example) <= 6, "a short example"


def test_shapes_read_as_they_are_written(html):
    files = [html / f"{api_reference.PAGES}.html", *(html / api_reference.PAGES).glob("*.html")]
    pages = {f.stem: BeautifulSoup(f.read_text("utf-8"), "html.parser").get_text() for f in files}
    for page in pages.values():
        assert not re.search(r"ForwardRef|jaxtyping|<class|0x[0-9a-f]{6}|/home|/work", page)
    words = " ".join(pages["decompose"].split())
    assert 'tokens: Int[Tensor, "pos"]' in words
    assert 'Float[Tensor, "head source"]' in words


CODE = re.compile(r"(?ms)^```python\n(.*?)^```")


def test_the_page_on_your_own_model_shows_what_its_commands_give(capsys, tmp_path):
    page = (ROOT / "book/own_model.md").read_text("utf-8")
    assert not main(["mini", "--out", str(tmp_path)])
    shown = iter(capsys.readouterr().out.splitlines())
    for block in re.findall(r"(?ms)^```text\n(.*?)^```", page):
        assert all(line == "..." or line in shown for line in block.splitlines())
    exec("".join(CODE.findall(page)), {})
    said = capsys.readouterr().out
    assert all(
        words in said
        for words in ("a model in memory", "top tokens", "fvu", "threshold 12.0", "variance share")
    )


README = CODE.findall((ROOT / "README.md").read_text("utf-8"))


@pytest.mark.parametrize(("code", "shows"), zip(README, (["top tokens"],), strict=True))
def test_the_examples_of_the_readme_run_as_they_stand(code, shows, capsys, monkeypatch):
    """On the first hundred of the texts that they use."""
    hundred = partial(cx.texts.collection, count=100)
    monkeypatch.setattr(cx.texts, "collection", lambda reader, *_: hundred(reader))
    exec(code, {})
    shown = capsys.readouterr().out
    assert all(words in shown for words in shows)
