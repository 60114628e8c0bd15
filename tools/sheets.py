"""One style sheet for all pages of a site, in place of the theme's and the book's own.

The theme styles far more than the book has: the sheet leaves out its rules about classes that no
page and no script names, and its fonts of icons hold the icons that are left. They come within the
sheet, so that the first picture shows them; the notices of all its parts come first.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

LINK = re.compile(r'\s*<link\s[^>]*href="((?:\.\./)*_static/)([^"?]*\.css)[^"]*"[^>]*>')
SCRIPT = re.compile(r'src="(?:\.\./)*_static/([^"?]+\.js)')
OWN = ("katex.css", "book.css", "api.css", "views/views.css")
CHARSET = '@charset "UTF-8";'
IMPORT = re.compile(r'@import "([^"]*)";')
ADDRESS = re.compile(r"""url\((["']?)(?!data:|#)([^)"']+)\1\)""")
NOTICE, COMMENT = re.compile(r"/\*!.*?\*/", re.DOTALL), re.compile(r"/\*.*?\*/", re.DOTALL)
RULE = re.compile(r"([^{}]+)(\{[^{}]*\})")
EMPTY = re.compile(r"@(?:media|supports)[^{}]*\{\s*\}")
NAME = re.compile(r"[A-Za-z_][\w-]*")
CLASS = re.compile(rf"\.({NAME.pattern})")
MADE = "bs-"  # how the classes begin that Bootstrap's script puts together
TITLED = re.compile(r"(p\.admonition-title\s*~\s*)\*")
FACE = re.compile(r"@font-face *\{[^{}]*Font Awesome[^{}]*\}")
ICON = re.compile(r"\\([ef][0-9a-f]{3})\b|([\ue000-\uf8ff])")


def one_sheet(static: Path, place: Path, pages: Iterable[str]) -> str:
    """All sheets that these pages link, joined as they read from the folder `place`, where the
    modules of views are; the theme's with what pages and scripts may need.
    """
    pages = list(pages)
    scripts = {static / name for page in pages for name in SCRIPT.findall(page)}
    scripts = {*filter(Path.exists, scripts), *place.rglob("*.js")}
    texts = [*pages, *(script.read_text(encoding="utf-8") for script in scripts)]
    names = {name for text in texts for name in NAME.findall(text)}

    def joined(sheet: Path) -> str:
        def moved(found: re.Match[str]) -> str:
            return f'url("{os.path.relpath(sheet.parent / found[2], place)}")'

        css = sheet.read_text(encoding="utf-8").replace(CHARSET, "")
        return IMPORT.sub(lambda found: joined(sheet.parent / found[1]), ADDRESS.sub(moved, css))

    notices, rules = [CHARSET], []
    for _, name in max(map(LINK.findall, pages), key=len):
        css = joined(static / name)
        notices += NOTICE.findall(css)
        css = COMMENT.sub("", css)
        rules.append(css if name in OWN else needed(css, names))
    # what follows a title is in its box: a browser that sees this first need not look for the title
    css = TITLED.sub(r"\1:where(.admonition > *, summary > *)", "\n".join(rules))
    icons = {int(number, 16) if number else ord(icon) for number, icon in ICON.findall(css)}
    css = FACE.sub(lambda face: with_icons(face[0], place, icons), css)
    return "\n".join([*dict.fromkeys(notices), css])


def needed(css: str, names: set[str]) -> str:
    """What is left of a sheet for pages that have these names of classes, and no others.

    >>> needed(".a, .b { x: 1 } @media print { .b:is(.a) { x: 2 } }", {"a"})
    '.a{ x: 1 } '
    """

    def has(selector: str) -> bool:
        classes = CLASS.findall(re.sub(r"\[[^]]*\]|\([^()]*\)", "", selector))
        return all(name in names or name.startswith(MADE) for name in classes)

    def rule(found: re.Match[str]) -> str:
        selectors = [of for of in re.split(r",(?![^(]*\))", found[1]) if has(of)]
        return ",".join(selectors).rstrip() + found[2] if selectors else ""

    return EMPTY.sub("", RULE.sub(rule, css))


def with_icons(face: str, place: Path, icons: set[int]) -> str:
    """A font with these icons, in the sheet itself; nothing if it has none of them."""
    source = next(url for _, url in ADDRESS.findall(face) if url.endswith(".ttf"))
    font = TTFont(place / source)
    if not icons & font.getBestCmap().keys():
        return ""
    options = Options(name_IDs=["*"])  # also the copyright
    subset = Subsetter(options)
    subset.populate(unicodes=icons)
    subset.subset(font)
    font.flavor = "woff"
    font.save(packed := BytesIO())
    data = base64.b64encode(packed.getvalue()).decode()
    return re.sub(r"src:[^;}]*", f'src:url("data:font/woff;base64,{data}") format("woff")', face)
