"""The reference in the book, from the docstrings of ctxlib: a Sphinx extension.

The pages in `book/api/` name what they document, for autodoc. Docstrings are plain text: an
indented paragraph is an equation or a small table and is shown as it stands, backticks hold code.
What is in `ctxlib` is shown under `cx`, as the chapters write it, and a name in a docstring leads
to its entry. The directive `{names} keys` lists what `book/api/keys.md` documents, each with the
first sentence.
"""

from __future__ import annotations

import inspect
import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

PAGES = "book/api"
ENTRY = re.compile(r"^\.\. auto(?:function|class|data|exception):: (ctxlib\.[\w.]+)$", re.MULTILINE)
MEMBERS = re.compile(r"^\.\. autoclass:: (ctxlib\.[\w.]+)\n   :members: (.+)$", re.MULTILINE)
# Sphinx's own summary ends at the dots of an equation, "i = 0 ... n".
SENTENCE = re.compile(r"(?:`[^`]*`|[^`])*?(?<=[\w)\]`\"'])\.(?= [A-Z`]|$)")
NAME = re.compile(r"(?:cx\.|ctxlib\.)?([A-Za-z][\w.]*)")

# Sphinx writes a long signature as a list of definitions without terms, which is no list.
LISTED = re.compile(r"<dl>\s*((?:<dd><em class=\"sig-param\">.*?</dd>\s*)+)</dl>", re.DOTALL)
# ---------------------------------------------------------------- what the pages document


def documented(page: Path) -> list[str]:
    """The names that a page documents, in its order: `ctxlib.content_keys`."""
    return ENTRY.findall(page.read_text(encoding="utf-8"))


def members(page: Path) -> list[str]:
    """The methods and properties that it documents: `ctxlib.LayerWeights.of`."""
    found = MEMBERS.findall(page.read_text(encoding="utf-8"))
    return [f"{name}.{member}" for name, several in found for member in several.split(", ")]


def resolved(name: str) -> Any:
    """What a full name stands for."""
    return reduce(getattr, name.split(".")[1:], import_module("ctxlib"))


def comment(name: str, module: str) -> list[str]:
    """What its module says of a constant, behind `#:`; what `ctxlib` gives itself is `module`'s."""
    holder, _, last = name.rpartition(".")
    analyzer = ModuleAnalyzer.for_module(module if holder == "ctxlib" else holder)
    return analyzer.find_attr_docs()["", last]


def first_sentence(name: str, module: str) -> str:
    """Of a name's docstring, or of the comment that documents a constant."""
    thing = resolved(name)
    described = inspect.isroutine(thing) or inspect.isclass(thing)
    text = (inspect.getdoc(thing) or "") if described else "\n".join(comment(name, module))
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = SENTENCE.match(paragraph)
    return sentence[0] if sentence else f"{paragraph.rstrip('.:')}."


class Names(SphinxDirective):
    """`{names} keys`: the names of a page, each with its first sentence."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = f"ctxlib.{self.arguments[0]}"
        page = Path(self.env.srcdir) / PAGES / f"{self.arguments[0]}.md"
        code = Path(str(import_module(module).__file__))
        sources = code.parent.glob("*.py") if code.stem == "__init__" else [code]
        for file in (page, *sources):
            self.env.note_dependency(str(file))
        table = nodes.definition_list(classes=["api-names"])
        for name in documented(page):
            shown = nodes.literal("", name.replace("ctxlib.", "cx.", 1))
            target = {"refdomain": "py", "reftype": "obj", "reftarget": name, "refexplicit": True}
            link = addnodes.pending_xref("", shown, refdoc=self.env.docname, **target)
            words, _ = self.state.inline_text(first_sentence(name, module), self.lineno)
            meaning = nodes.definition("", nodes.paragraph("", "", *words))
            table += nodes.definition_list_item("", nodes.term("", "", link), meaning)
        return [table]


# ---------------------------------------------------------------- how docstrings are shown


def as_it_stands(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Indented paragraphs become literal blocks; a constant has its comment."""
    if what == "data":
        lines[:] = comment(name, f"ctxlib.{app.env.docname.rpartition('/')[2]}")
    text = re.sub(r"(?<=\n\n)(?=    \S)", ".. code-block:: text\n\n", "\n".join(lines))
    lines[:] = text.split("\n")


def without_arguments(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, arguments: str, gives: str
) -> tuple[str, str] | None:
    """A protocol is not called, and an exception is caught."""
    never_called = what == "exception" or getattr(thing, "_is_protocol", False)
    return ("", "") if never_called else None


def as_written(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Names and strings as the chapters write them, and a link from each name to its entry."""
    for module in doctree.findall(addnodes.desc_addname):
        shown = re.sub(r"^ctxlib\.", "cx.", module.astext())
        module.children = [nodes.Text(shown)]
    for part in doctree.findall(nodes.inline):
        text = part.astext()
        string = isinstance(part, addnodes.desc_sig_literal_string)
        if (string or "default_value" in part["classes"]) and re.fullmatch(r"'[^'\"]*'", text):
            part.children = [nodes.Text(f'"{text[1:-1]}"')]
    for link in doctree.findall(nodes.reference):
        if link.get("reftitle", "").startswith("ctxlib."):
            link["reftitle"] = link.get("refuri", link.get("refid", "")).rpartition("#")[2]
    if docname.startswith(f"{PAGES}/"):
        link_names(app, doctree, docname)


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """A link from code that is the name of an entry elsewhere.

    A single word in small letters is left alone: it is a parameter more often than a function.
    """
    objects = app.env.get_domain("py").objects  # type: ignore[attr-defined]
    names = [n for n, entry in objects.items() if entry.objtype != "module" and not entry.aliased]
    for code in list(doctree.findall(nodes.literal)):
        named = NAME.fullmatch(code.astext())
        if not named or not re.search(r"[A-Z_.]", code.astext()):
            continue
        meant = [name for name in names if name.endswith(f".{named[1]}")]
        if len(meant) != 1:
            continue
        (name,) = meant
        around = code
        while around.parent is not None and not isinstance(around, addnodes.desc):
            around = around.parent
        own = isinstance(around, addnodes.desc) and name in around[0]["ids"]
        if not own and not isinstance(code.parent, nodes.reference):
            to = objects[name].docname, objects[name].node_id
            code.replace_self(make_refnode(app.builder, docname, *to, code.deepcopy(), name))


def laid_out(
    app: Sphinx, docname: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """A line for each parameter, and a style sheet, on these pages alone."""
    if docname == PAGES or docname.startswith(f"{PAGES}/"):

        def lines(listed: re.Match[str]) -> str:
            opened = listed[1].replace("<dd>", '<span class="sig-line">')
            return opened.replace("</dd>", "</span>").strip()

        context["body"] = LISTED.sub(lines, context["body"])
        app.add_css_file("api.css")


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("names", Names)
    app.connect("autodoc-process-docstring", as_it_stands)
    app.connect("autodoc-process-signature", without_arguments)
    app.connect("doctree-resolved", as_written)
    app.connect("html-page-context", laid_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
