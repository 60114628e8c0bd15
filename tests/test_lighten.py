"""What is left out of a built site: nothing that a page shows."""

import re

import lighten
import pytest
from fontTools.ttLib import TTFont

PAGE = """<html><head>
<link rel="stylesheet" type="text/css" href="../_static/copybutton.css?v=1" />
<script src="../_static/clipboard.min.js?v=1"></script>
<script src="../_static/togglebutton.js?v=1"></script>
<script src="../searchindex.js"></script>
<script src="../_static/book.js"></script>
<script async="async" type="module" src="../_static/views/page.js"></script>
<script src="../_static/scripts/fontawesome.js?digest=1"></script>
</head><body>BODY</body></html>"""


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("", set()),
        ('<button class="btn dropdown-toggle">highlight</button>', set()),
        ('<div class="highlight-python notranslate"></div>', {"copybutton", "clipboard"}),
        ('<div class="admonition note dropdown"></div>', {"togglebutton"}),
        ('<div class="note toggle"></div>', {"togglebutton"}),
        ('<div class="dropdown admonition"></div>', {"togglebutton"}),
        ('<div id="search-results"></div>', {"searchindex"}),
    ],
)
def test_a_page_loads_what_it_has_parts_for(body, kept):
    found = lighten.lighten(PAGE.replace("BODY", body))
    loads = set(re.findall(r'(?:src|href)="[^"]*?(\w+)(?:\.min)?\.(?:js|css)', found))
    assert loads == {"book", "static"} | kept
    assert body in found
    assert lighten.lighten(found) == found


def test_code_keeps_its_words_and_the_marks_that_colour_them():
    code = '<span class="n">x</span><span class="w"> </span><span class="o">=</span>'
    assert lighten.lighten(code) == 'x <span class="o">=</span>'


@pytest.fixture
def site(tmp_path):
    """A site of one page with one icon; its theme's files are put there by `draw_icons`."""
    for folder in ("styles", "scripts", "vendor/fontawesome/webfonts"):
        (tmp_path / "_static" / folder).mkdir(parents=True)
    (tmp_path / "_static" / "book.css").write_text(r'.mine:before { content: "\f019" }')
    (tmp_path / "index.html").write_text('<i class="fa-brands fa-github"></i>')
    return tmp_path


def drawn(site):
    """The rules of icons and the characters of the fonts."""
    lighten.draw_icons(site)
    sheet = (site / "_static" / lighten.SHEET).read_text(encoding="utf-8")
    fonts = (site / "_static" / lighten.FONTS).iterdir()
    return sheet, {code for f in fonts for code in TTFont(f).getBestCmap()}


def test_icons_that_a_page_names_stay(site):
    sheet, characters = drawn(site)
    rules = dict.fromkeys(re.findall(r"\.(fa-[a-z-]+):before", sheet))
    assert "fa-github" in rules
    assert len(rules) < 20
    assert {0xF09B, 0xF019} <= characters  # GitHub's mark, and the one that a style sheet spells
    assert lighten.codepoints(sheet) <= characters
    assert len(characters) < 60
    assert "woff2" not in sheet
    for target in re.findall(r"url\(\.\./(vendor[^)]+)\)", sheet):
        assert (site / "_static" / target).exists()


def test_an_icon_that_is_new_to_the_site_is_there_again(site):
    drawn(site)
    (site / "other.html").write_text('<i class="fa-solid fa-rocket"></i>')
    sheet, characters = drawn(site)
    assert ".fa-rocket:before" in sheet
    assert 0xF135 in characters
