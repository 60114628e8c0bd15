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
from importlib import import_module
from pathlib import Path
from pydoc import locate
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

PAGES = "book/api"
ENTRY = re.compile(r"^\.\. auto(?:function|class|data|exception):: (ctxlib\.[\w.]+)$", re.MULTILINE)
# Sphinx's own summary ends at the dots of an equation, "i = 0 ... n".
END = re.compile(r"(?<=[\w)\]`\"'])\.(?= [A-Z`]|$)")
NAME = re.compile(r"(?:cx\.|ctxlib\.)?([A-Za-z][\w.]*)")

# Sphinx writes a long signature as a list of definitions without terms, which is no list.
LISTED = re.compile(r"<dl>\s*((?:<dd><em class=\"sig-param\">.*?</dd>\s*)+)</dl>", re.DOTALL)

# ---------------------------------------------------------------- what the pages document


def documented(page: Path) -> list[str]:
    """The names that a page documents, in its order: `ctxlib.content_keys`."""
    return ENTRY.findall(page.read_text(encoding="utf-8"))


def first_sentence(name: str) -> str:
    """Of a name's docstring, or of the comment behind `#:` that documents a constant."""
    holder, _, last = name.rpartition(".")
    comment = ModuleAnalyzer.for_module(holder).find_attr_docs().get(("", last))
    text = "\n".join(comment) if comment else inspect.getdoc(locate(name))
    paragraph = " ".join(str(text).partition("\n\n")[0].split())
    return END.split(paragraph)[0].rstrip(":") + "."


def called(name: str) -> str:
    """A name as a reader types it, under `cx` or imported from its module."""
    known = name.split(".")[1] in import_module("ctxlib").__all__
    return re.sub(r"^ctxlib\.", "cx.", name) if known else name


class Names(SphinxDirective):
    """`{names} keys`: the names of a page, each with its first sentence."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        page = Path(self.env.srcdir) / PAGES / f"{self.arguments[0]}.md"
        package = Path(str(import_module("ctxlib").__file__)).parent
        for file in (page, *package.rglob("*.py")):
            self.env.note_dependency(str(file))
        names = documented(page)
        listed = [f"{{obj}}`{called(n)} <{n}>`\n: {first_sentence(n)}\n" for n in names]
        (table,) = self.parse_text_to_nodes("\n".join(listed))
        table["classes"] = ["api-names"]
        return [table]


# ---------------------------------------------------------------- how docstrings are shown


def as_it_stands(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Indented paragraphs become literal blocks."""
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
        shown = called(module.astext() + "x").removesuffix("x")
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
    domain = app.env.get_domain("py")
    for code in list(doctree.findall(nodes.literal)):
        named = NAME.fullmatch(code.astext())
        around = code.parent
        if not (named and re.search(r"[A-Z_.]", named[0])) or isinstance(around, nodes.reference):
            continue
        given = (app.env, docname, app.builder, named[1], code, code.deepcopy())
        links = [link for role, link in domain.resolve_any_xref(*given) if role != "py:mod"]
        while around is not None and not isinstance(around, addnodes.desc):
            around = around.parent
        own = around[0]["ids"] if around else []
        if len(links) == 1 and links[0]["reftitle"] not in own:
            code.replace_self(links[0])


def laid_out(
    app: Sphinx, docname: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """A line for each parameter, and a style sheet, on these pages alone."""
    if docname.startswith(PAGES):
        spans = {"<dd>": '<span class="sig-line">', "</dd>": "</span>"}
        context["body"] = LISTED.sub(
            lambda listed: re.sub("</?dd>", lambda tag: spans[tag[0]], listed[1]).strip(),
            context["body"],
        )
        app.add_css_file("api.css")


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("names", Names)
    app.connect("autodoc-process-docstring", as_it_stands)
    app.connect("autodoc-process-signature", without_arguments)
    app.connect("doctree-resolved", as_written)
    app.connect("html-page-context", laid_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
