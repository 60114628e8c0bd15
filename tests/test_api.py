"""The reference: every public name is there, says what it does, and shows it."""

import inspect
import re
import subprocess
import sys

import api_reference
import pytest
from bs4 import BeautifulSoup
from command import ROOT

import ctxlib as cx

PAGES = sorted((ROOT / api_reference.PAGES).glob("*.md"))
NAMES = [name for page in PAGES for name in api_reference.documented(page)]
MEMBERS = [name for page in PAGES for name in api_reference.members(page)]
WIDGETS = {"widgets"}  # the chapters' own


def code_of(name):
    """The function, class or property behind a name; None for a constant."""
    parent, _, last = name.rpartition(".")
    holder = api_reference.resolved(parent)
    look = getattr if inspect.ismodule(holder) else inspect.getattr_static  # a module may be lazy
    thing = look(holder, last)
    thing = getattr(thing, "__func__", thing)  # of a class method
    thing = getattr(thing, "fget", None) or getattr(thing, "func", thing)  # of a property
    return thing if inspect.isroutine(thing) or inspect.isclass(thing) else None


CODE = [name for name in [*NAMES, *MEMBERS] if code_of(name) is not None]


def test_what_the_package_gives_is_in_all():
    for name in cx.__all__:
        getattr(cx, name)
    public = {name for name in vars(cx) if not name.startswith("_")}
    assert {name for name in public if not inspect.ismodule(vars(cx)[name])} <= set(cx.__all__)
    given = {f"ctxlib.decoders.{n}" for n in set(cx.decoders.__all__) - {"explain"}}
    assert given == {n for n in NAMES if re.fullmatch(r"ctxlib\.decoders\.\w+", n)}


def test_what_is_imported_on_demand_is_not_imported_before():
    code = "import sys, ctxlib; print(*(m for m in sys.modules if m.startswith('ctxlib')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ctxlib"]


def test_every_name_of_the_package_has_one_entry():
    assert len(NAMES) == len(set(NAMES))
    modules = {n for n in cx.__all__ if inspect.ismodule(getattr(cx, n))}
    assert {page.stem for page in PAGES} == modules - WIDGETS
    names = {n.removeprefix("ctxlib.") for n in NAMES}
    assert set(cx.__all__) - modules == {n for n in names if "." not in n}


def test_every_name_that_readers_meet_has_an_entry():
    """The chapters' and the README's `cx.name` and `cx.module.name`."""
    sources = [*(ROOT / "chapters").glob("*.py"), ROOT / "README.md"]
    used = {
        name
        for source in sources
        for name in re.findall(r"\bcx\.(\w+(?:\.[A-Za-z_]\w*)*)", source.read_text("utf-8"))
        if not name.startswith("widgets")
    }
    entries = {name.removeprefix("ctxlib.") for name in [*NAMES, *MEMBERS]}
    things = [api_reference.resolved(name) for name in [*NAMES, *MEMBERS]]
    others = {name: api_reference.resolved(f"ctxlib.{name}") for name in used - entries}
    assert not [n for n in others.keys() - set(cx.__all__) if all(others[n] != t for t in things)]


@pytest.mark.parametrize("name", CODE)
def test_it_says_what_it_does_shows_it_and_has_types(name):
    thing = code_of(name)
    text = inspect.getdoc(thing)
    assert text and (text[0].isupper() or text[0] in "`0123456789")
    example = [line for line in text.splitlines() if line.startswith((">>> ", "... "))]
    assert 1 <= len(example) <= 6, "a short example"
    made = not (inspect.isclass(thing) and issubclass(thing, Exception))
    if made and not getattr(thing, "_is_protocol", False):  # no reader makes these
        signature = inspect.signature(thing)
        loose = {p.name for p in signature.parameters.values() if p.annotation is p.empty}
        assert loose <= {"self", "cls", "model", "options"}
        assert inspect.isclass(thing) or signature.return_annotation is not signature.empty


@pytest.fixture(scope="module")
def pages(html):
    """The built pages, by module."""
    files = (html / api_reference.PAGES).glob("*.html")
    return {file.stem: BeautifulSoup(file.read_text("utf-8"), "html.parser") for file in files}


def test_every_entry_has_an_anchor_and_the_contents_lead_to_it(html, pages):
    contents = BeautifulSoup((html / f"{api_reference.PAGES}.html").read_text(), "html.parser")
    links = {link["href"] for link in contents.find_all("a", href=True)}
    for page in PAGES:
        names = api_reference.documented(page)
        for name in [*names, *api_reference.members(page)]:
            assert len(pages[page.stem].find_all(id=name)) == 1, name
        assert {f"api/{page.stem}.html#{name}" for name in names} <= links


def test_shapes_read_as_they_are_written(pages):
    for page in pages.values():
        said = page.get_text()
        assert not re.search(r"ForwardRef|jaxtyping|<class|0x[0-9a-f]{6}|/home|/work", said)
    words = " ".join(pages["split"].get_text().split())
    assert 'tokens: Int[Tensor, "pos"]' in words
    assert 'Float[Tensor, "head source"]' in words


README = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"))


@pytest.mark.parametrize("number", range(len(README)))
def test_the_examples_of_the_readme_run_as_they_stand(number, monkeypatch, capsys):
    monkeypatch.delenv("CTX_TEXTS", raising=False)
    assert len(README) == 2
    exec(README[number], {})
    shown = capsys.readouterr().out
    assert ("top tokens" in shown and "fvu" in shown) if number == 0 else "Score(" in shown
