"""Take out of a built site what the theme brings and no page of the book shows.

`lighten` leaves out of every page the scripts and style sheets of parts that the page does not
have, and marks that colour nothing; `draw_icons` keeps of the icon font (Font Awesome, 275 kB and
2000 rules) the few icons that pages use. Both give the same site again when they are run again.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

THEME = "pydata_sphinx_theme"
SHEET = "styles/pydata-sphinx-theme.css"
FONTS = "vendor/fontawesome/webfonts"

# What a page loads for a part, and what the page says where it has that part.
PARTS = {
    r"searchtools\.js|language_data\.js|searchindex\.js": r'id="search-results"',
    r"sphinx-design\.min\.css|design-tabs\.js": r'class="(?:[^"]* )?sd-',
    r"clipboard\.min\.js|copybutton\.js|copybutton\.css": r'class="(?:[^"]* )?highlight[ "-]',
    r"togglebutton\.js|togglebutton\.css": (
        r'class="(?=(?:[^"]* )?admonition[ "])(?:[^"]* )?dropdown[ "]'
        r'|class="(?:[^"]* )?toggle[ "]'
    ),
    r"pygments\.css": r'class="(?:[^"]* )?highlight[ "-]',
    r"mystnb\.\w+\.css": r'class="(?:[^"]* )?cell(?:_\w+)?[ "]',
}
# Live code by way of a server elsewhere, and icons drawn by a script of 1.5 MB, which come as a
# font as well: no page has a use for them.
UNUSED = re.compile(
    r"<script(?: (?:async|src|type)=\"[^\"]*thebe[^\"]*\"| async=\"async\")+>.*?</script>"
    r"|<script>const THEBE_JS_URL.*?</script>|<script>\s*kernelName = .*?</script>"
    r"|<link [^>]*thebe[^>]*>"
    r"|<script [^>]*fontawesome\.js[^>]*></script>",
    re.DOTALL,
)
# Names, punctuation and spaces in code have the colour of code, in both schemes: a third of a long
# chapter's elements, which a browser styles anew whenever anything about the page changes.
UNCOLOURED = re.compile(r'<span class="(?:n|nn|p|w)">([^<]*)</span>')


def lighten(page: str) -> str:
    """A page without the scripts, style sheets and marks of what it does not show."""
    page = UNCOLOURED.sub(r"\1", UNUSED.sub("", page))
    for files, sign in PARTS.items():
        if not re.search(sign, page):
            loads = rf'<script [^>]*src="[^"]*(?:{files})[^"]*"></script>'
            page = re.sub(rf'{loads}|<link [^>]*href="[^"]*(?:{files})[^"]*"[^>]*>', "", page)
    return page


def draw_icons(html: Path) -> None:
    """Leave in a site's icon font and in its style sheet the icons that pages and scripts name.

    What they are cut from is the installed theme, so that an icon which a page shows for the first
    time is there again. The fonts are TrueType: twelve icons need no compression.
    """
    static = html / "_static"
    source = theme()
    sheet = sheet_of(source, icons_named(html))
    codes = codepoints(sheet)
    for sheets in (*static.glob("*.css"), *(static / "styles").glob("sphinx-book-theme.css")):
        codes |= codepoints(sheets.read_text(encoding="utf-8"))
    (static / SHEET).write_text(sheet, encoding="utf-8")
    for font in (source / FONTS).glob("*.ttf"):
        (static / FONTS / font.name).write_bytes(font_of(font, codes))
        (static / FONTS / font.name).with_suffix(".woff2").unlink(missing_ok=True)


def theme() -> Path:
    """The folder of the installed theme's files."""
    spec = find_spec(THEME)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(2, "the theme is not installed", THEME)
    return Path(spec.origin).parent / "theme" / THEME / "static"


def icons_named(html: Path) -> set[str]:
    """The classes fa-... that pages and the theme's own scripts name."""
    scripts = [f for f in (html / "_static" / "scripts").glob("*.js") if "awesome" not in f.name]
    named: set[str] = set()
    for file in (*html.rglob("*.html"), *scripts):
        named |= set(re.findall(r"\bfa-[a-z0-9-]+", file.read_text(encoding="utf-8")))
    return named


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


def font_of(file: Path, codes: Iterable[int]) -> bytes:
    """A font with these characters only."""
    font = TTFont(file, recalcTimestamp=False)
    options = Options()
    options.layout_features = []  # no ligatures that spell an icon's name
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6):  # the licence reserves the name for the whole font
            record.string = re.sub(r"Font ?Awesome", "Icons", record.toUnicode())
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()
