"""What a site offers besides its pages: the whole book on one of them, and the way to the other
editions.

As an extension of Sphinx (`_config.yml`) it joins the pages of the book into `book/whole.html`,
puts that page into the download menu, and sets a line under the book's title that names the
edition. `assemble` brings the sites of several editions together and completes that line in each.

The page is joined by hand: Sphinx's `singlehtml` would be a second build, with every page on it;
this takes the pages as they were built, leaves out those that are used on their own and folded
code, and puts pictures in place of views.
"""

from __future__ import annotations

import html
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import yaml
from files import filled_in

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WHOLE = "book/whole"
FRONT = "book/00_welcome"
APART = ("To play with", "The package")  # parts that are used on their pages, not read through
ARTICLE = re.compile(r'<article class="bd-article">(.*)</article>', re.DOTALL)
BYLINE = re.compile(r'<p class="byline">.*?</p>', re.DOTALL)
NAMES = re.compile(r'\sid="([^"]+)"')
FOLDED = re.compile(  # a cell, which may hold a ledger with a fold of its own
    r'<details class="admonition hide[^>]*>(?:<details.*?</details>|.)*?</details>', re.DOTALL
)
EDITION = re.compile(r"<!-- run on: (.*?) -->")  # as the title page names its own model


# ---------------------------------------------------------------- the whole book on one page


def listed(toc: dict[str, Any]) -> list[str]:
    """The pages of a table of contents that are read through, in its order."""
    parts = [part for part in toc["parts"] if part["caption"] not in APART]
    chapters = [chapter for part in parts for chapter in part["chapters"]]
    pages = [page for chapter in chapters for page in (chapter, *chapter.get("sections", ()))]
    return [toc["root"], *(page["file"] for page in pages)]


def joined(articles: dict[str, str]) -> str:
    """The articles of several pages of one folder as one body.

    A name that several pages use gets its page's as well, and links between the pages become links
    within this one. Views leave the pictures that stand in for them; folded code is left out.

    >>> print(joined({"a": '<h2 id="x">A</h2>', "b": '<h2 id="x">B</h2><a href="a.html#x">A</a>'}))
    <div class="joined" id="page-a"><h2 id="x-a">A</h2></div>
    <div class="joined" id="page-b"><h2 id="x-b">B</h2><a href="#x-a">A</a></div>
    """
    uses = Counter(name for article in articles.values() for name in set(NAMES.findall(article)))

    def called(name: str, page: str) -> str:
        return f"{name}-{page}" if uses[name] > 1 else name

    def body(page: str, article: str) -> str:
        def link(match: re.Match[str]) -> str:
            path, mark, name = match[2].partition("#")
            to = path.removesuffix(".html") if path else page
            if to not in articles or (path and not path.endswith(".html")):
                return match[0]
            return f'{match[1]}#{called(name, to) if mark else f"page-{to}"}"'

        article = FOLDED.sub("", BYLINE.sub("", article))
        article = re.sub(r'(\shref=")([^"]*)"', link, article)
        alive = f'<div><p><a href="{page}.html">Open this view on its page</a></p>'
        article = re.sub(r'<div data-view="[^>]*>', alive, article)
        here = r'(\sid="|\burl\(#)([^")]+)'  # drawings refer to their own parts
        return re.sub(here, lambda m: f"{m[1]}{called(m[2], page)}", article)

    return "\n".join(
        f'<div class="joined" id="page-{page}">{body(page, article).strip()}</div>'
        for page, article in articles.items()
    )


def whole(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page itself, from the pages as they were written."""
    source = Path(app.srcdir)
    pages = listed(yaml.safe_load((source / "_toc.yml").read_text(encoding="utf-8")))
    cited = yaml.safe_load((source / "CITATION.cff").read_text(encoding="utf-8"))
    articles, contents = {}, []
    for page in pages:
        written = (Path(app.outdir) / f"{page}.html").read_text(encoding="utf-8")
        name = page.rpartition("/")[2]
        (articles[name],) = ARTICLE.findall(written)
        title = html.escape(app.env.titles[page].astext())
        contents.append(f'<li><a class="reference internal" href="#page-{name}">{title}</a></li>')
    opening = filled_in("whole.html", cited=cited, edition=edition(source), contents=contents)
    context = {
        "title": "The whole book on one page",
        "pagetitle": html.escape(cited["title"]),  # heads the print
        "body": opening + joined(articles),
        "toc": f"<ul>{''.join(contents)}</ul>",
        "display_toc": True,
    }
    yield WHOLE, context, "page.html"


# ---------------------------------------------------------------- editions


def edition(source: Path) -> str:
    """The model that a book's title page was executed on; of a folder, its last name."""
    notebook = nbformat.read(source / f"{FRONT}.ipynb", as_version=4)
    cells = [c.source for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    return Path(re.findall(r'^MODEL = "(.*?)"', cells[0], re.M)[0]).name


def assemble(sites: dict[str, Path], out: Path) -> None:
    """Bring sites together in one folder, each under its name and the one called "" on top, and
    lead from every title page to the others.

    Raises ValueError where an edition would lie on a folder of the first site.
    """
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    models = {}
    for name in sorted(sites):  # "" comes first
        if name and (part / name).exists():
            raise ValueError(
                f"an edition cannot be called {name!r}: the site has a folder of that name"
            )
        page = shutil.copytree(sites[name], part / name) / f"{FRONT}.html"
        found = EDITION.search(page.read_text(encoding="utf-8"))
        if found is None:
            raise ValueError(f"{page.name} of {sites[name]} names no edition: build it again")
        models[page] = found[1]
    for page, own in models.items():
        ways = [
            f'<a href="{os.path.relpath(to, page.parent)}">{model}</a>'
            for to, model in models.items()
            if to != page
        ]
        if ways:  # a book that has no other needs no name
            line = f"This book is run on the model <b>{own}</b>; also on {', '.join(ways)} · "
            before, _, after = EDITION.split(page.read_text(encoding="utf-8"), maxsplit=1)
            page.write_text(before + line + after, encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)


# ---------------------------------------------------------------- Sphinx


def offer(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Offer the whole book in the download menu and further pages under the book's title."""
    to = context["pathto"]
    button = {"type": "link", "url": to(WHOLE), "text": "whole book", "icon": "fas fa-book"}
    button |= {"tooltip": "The whole book on one page", "label": "whole-book-button"}
    for group in context.get("header_buttons", ()):
        if group.get("label") == "download-buttons":
            group["buttons"].append(button)
    if pagename == FRONT:
        line = filled_in("byline.html", edition=edition(Path(app.srcdir)), to=to, whole=WHOLE)
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{line}", 1)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-collect-pages", whole)
    app.connect("html-page-context", offer, priority=900)  # when the theme has made its buttons
    return {"parallel_read_safe": True, "parallel_write_safe": True}
