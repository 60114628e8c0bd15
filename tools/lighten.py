"""Take out of a built site what the theme brings and no page of the book shows.

`lighten` leaves out of every page the scripts and style sheets of parts that the page does not
have, and marks that colour nothing, and lets no script keep a reader from the text, and
`refuse_another_theme` says when a new theme calls them otherwise; `draw_icons`
keeps of the icon font (Font Awesome, 275 kB and 2000 rules) the few icons that pages use;
`measure_less` leaves it to `book.js` to say which boxes scroll. All give the same site again when
they are run again.

By hand, since nothing can be asked for less: the theme's template names the script of its icons on
every page, and extensions of Sphinx add their files to all of them, used there or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pydata_sphinx_theme
from fontTools import subset

THEME = "pydata_sphinx_theme"
SHEET = "styles/pydata-sphinx-theme.css"
FONTS = "vendor/fontawesome/webfonts"
SCRIPT = "scripts/pydata-sphinx-theme.js"
SOURCE = Path(pydata_sphinx_theme.__file__).parent / "theme" / THEME / "static"
# The boxes that this script measures and marks one after another, when the page is there and after
# every change of it: each mark makes the next measurement lay the page out once more.
BOXES = re.compile(r'document\.querySelectorAll\(\["pre",[^\]]*\]\.join\(", "\)\)')

# What a page loads for a part, and what the page says where it has that part.
PARTS = {
    (r"searchtools\.js", r"language_data\.js", r"searchindex\.js"): r'id="search-results"',
    (r"clipboard\.min\.js", r"copybutton\.js", r"copybutton\.css", r"pygments\.css"): (
        r'class="(?:[^"]* )?highlight[ "-]'
    ),
    (r"togglebutton\.js", r"togglebutton\.css"): (
        r'class="(?=(?:[^"]* )?admonition[ "])(?:[^"]* )?dropdown[ "]'
        r'|class="(?:[^"]* )?toggle[ "]'
    ),
    (r"katex\.css",): r'class="katex"',
    (r"mystnb\.\w+\.css",): r'class="(?:[^"]* )?cell(?:_\w+)?[ "]',
}
# Live code by way of a server elsewhere, cards and tabs (sphinx-design), and icons drawn by a
# script of 1.5 MB, which come as a font as well: no page has a use for them.
UNUSED = (
    r"<script(?: (?:async|src|type)=\"[^\"]*thebe[^\"]*\"| async=\"async\")+>.*?</script>",
    r"<script>const THEBE_JS_URL.*?</script>",
    r"<script>\s*kernelName = .*?</script>",
    r"<link [^>]*thebe[^>]*>",
    r"<link [^>]*sphinx-design\.min\.css[^>]*>",
    r"<script [^>]*design-tabs\.js[^>]*></script>",
    r"<script [^>]*fontawesome\.js[^>]*></script>",
)
# Names, punctuation and spaces in code have the colour of code, in both schemes: a third of a long
# chapter's elements, which a browser styles anew whenever anything about the page changes.
UNCOLOURED = re.compile(r'<span class="(?:n|nn|p|w)">([^<]*)</span>')


def refuse_another_theme(pages: Iterable[str]) -> None:
    """ValueError where something that `lighten` looks for is on none of a site's pages, as they
    were built: there it has another name now, and would stay.
    """
    loads = (f'(?:src|href)="[^"]*{file}' for file in chain(*PARTS))
    sought = {*UNUSED, *loads, *PARTS.values(), UNCOLOURED.pattern}
    for page in pages:
        sought = {what for what in sought if not re.search(what, page, re.DOTALL)}
    if sought:
        raise ValueError(f"no page of the site has what tools/lighten.py looks for: {sought}")


def lighten(page: str) -> str:
    """A page without the scripts, style sheets and marks of what it does not show. The scripts that
    are left come after the text, but for the options that inline scripts name.
    """
    page = UNCOLOURED.sub(r"\1", re.sub("|".join(UNUSED), "", page, flags=re.DOTALL))
    page = re.sub(r'<script src="(?![^"]*/documentation_options)', '<script defer src="', page)
    for files, sign in PARTS.items():
        if not re.search(sign, page):
            named = "|".join(files)
            loads = rf'<script [^>]*src="[^"]*(?:{named})[^"]*"></script>'
            page = re.sub(rf'{loads}|<link [^>]*href="[^"]*(?:{named})[^"]*"[^>]*>', "", page)
    return page


def draw_icons(html: Path) -> None:
    """Leave in a site's icon font and in its style sheet the icons that pages and scripts name.

    What they are cut from is the installed theme, so that an icon which a page shows for the first
    time is there again. The fonts are TrueType: twelve icons need no compression.
    """
    static = html / "_static"
    sheet = sheet_of(SOURCE, icons_named(html))
    codes = codepoints(sheet)
    for sheets in (*static.glob("*.css"), *(static / "styles").glob("sphinx-book-theme.css")):
        codes |= codepoints(sheets.read_text(encoding="utf-8"))
    (static / SHEET).write_text(sheet, encoding="utf-8")
    for font in (SOURCE / FONTS).glob("*.ttf"):
        drawn = static / FONTS / font.name
        drawn.with_suffix(".woff2").unlink(missing_ok=True)
        chosen = ",".join(f"U+{code:x}" for code in sorted(codes))
        # no ligatures that spell an icon's name; the licence reserves the font's for the whole
        options = ["--layout-features=", "--name-IDs=0,13,14"]
        subset.main([str(font), f"--unicodes={chosen}", f"--output-file={drawn}", *options])


def measure_less(html: Path) -> None:
    """Let the theme's script measure no boxes. ValueError where it has no such place, or two."""
    script, found = BOXES.subn("[]", (SOURCE / SCRIPT).read_text(encoding="utf-8"))
    if found != 1:
        raise ValueError(f"the theme's script measures boxes in {found} places, not in one")
    (html / "_static" / SCRIPT).write_text(script, encoding="utf-8")


def icons_named(html: Path) -> set[str]:
    """The classes fa-... that pages and the theme's own scripts name."""
    scripts = [f for f in (html / "_static" / "scripts").glob("*.js") if "awesome" not in f.name]
    texts = (file.read_text(encoding="utf-8") for file in (*html.rglob("*.html"), *scripts))
    return {name for text in texts for name in re.findall(r"\bfa-[a-z0-9-]+", text)}


def sheet_of(source: Path, named: set[str]) -> str:
    """The theme's style sheet with the rules of these icons only, and fonts in one form only."""
    sheet = (source / SHEET).read_text(encoding="utf-8")
    rule = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"[^"]*"\}')

    def kept(found: re.Match[str]) -> str:
        return found[0] if named & set(re.findall(r"fa-[a-z0-9-]+", found[1])) else ""

    woff = re.compile(r'url\([^)]*/fontawesome/[^)]*\.woff2\) format\("woff2"\),')
    return woff.sub("", rule.sub(kept, sheet))


def codepoints(sheet: str) -> set[int]:
    """The private characters, which icons are, that a style sheet writes or spells out."""
    spelt = {int(code, 16) for code in re.findall(r"\\([ef][0-9a-f]{3})\b", sheet)}
    return spelt | {ord(c) for c in sheet if "\ue000" <= c <= "\uf8ff"}
