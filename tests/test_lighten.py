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
        ('<div class="highlight-python notranslate"></div>', {"copybutton", "clipboard"}),
        ('<div class="admonition note dropdown"></div>', {"togglebutton"}),
        ('<div class="note toggle"></div>', {"togglebutton"}),
        ('<div id="search-results"></div>', {"searchindex"}),
    ],
)
def test_a_page_loads_what_it_has_parts_for(body, kept):
    found = lighten.lighten(PAGE.replace("BODY", body))
    loads = set(re.findall(r'(?:src|href)="[^"]*?(\w+)(?:\.min)?\.(?:js|css)', found))
    assert loads == {"book", "page"} | kept
    assert body in found and lighten.lighten(found) == found


def test_a_theme_that_calls_its_parts_otherwise_is_refused(html):
    """A built site has its parts, but no longer what no page shows."""
    pages = [page.read_text(encoding="utf-8") for page in html.glob("book/*.html")]
    pages.append((html / "search.html").read_text(encoding="utf-8"))
    gone = ['<script>const THEBE_JS_URL = ""</script><script>kernelName = ""</script>']
    gone += ['<script async="async" src="thebe.js"></script><link href="thebe.css">']
    gone += ['<script src="design-tabs.js"></script><link href="sphinx-design.min.css">']
    gone += ['<script src="fontawesome.js"></script><span class="n">x</span>']
    lighten.refuse_another_theme([*pages, *gone])
    for lost in (gone[0], "togglebutton.js", 'id="search-results"'):
        with pytest.raises(ValueError, match="no page of the site has what"):
            lighten.refuse_another_theme(page.replace(lost, "") for page in [*pages, *gone])


def test_code_keeps_its_words_and_the_marks_that_colour_them():
    code = '<span class="n">x</span><span class="w"> </span><span class="o">=</span>'
    assert lighten.lighten(code) == 'x <span class="o">=</span>'


def test_icons_that_a_page_names_stay_and_new_ones_are_there_again(tmp_path):
    """A site of one page with one icon; its theme's files are put there by `draw_icons`."""
    static = tmp_path / "_static"
    for folder in ("styles", "scripts", "vendor/fontawesome/webfonts"):
        (static / folder).mkdir(parents=True)
    (static / "book.css").write_text(r'.mine:before { content: "\f019" }')
    for font in (lighten.SOURCE / lighten.FONTS).glob("*.ttf"):
        (static / lighten.FONTS / font.with_suffix(".woff2").name).touch()  # the theme's
    page = '<i class="fa-brands fa-github"></i>'
    for also, code in (("", 0xF09B), ('<i class="fa-solid fa-rocket"></i>', 0xF135)):
        (tmp_path / "index.html").write_text(page + also)
        lighten.draw_icons(tmp_path)
        sheet = (static / lighten.SHEET).read_text(encoding="utf-8")
        fonts = [TTFont(file) for file in (static / lighten.FONTS).iterdir()]
        characters = {code for font in fonts for code in font.getBestCmap()}
        rules = set(re.findall(r"\.(fa-[a-z-]+):before", sheet))
        assert "fa-github" in rules and ("fa-rocket" in rules) == bool(also)
        assert len(rules) < 20 and len(characters) < 60
        # what the rules and a style sheet of the book's own spell
        assert {0xF019, code} | lighten.codepoints(sheet) <= characters
        assert "woff2" not in sheet
        for target in re.findall(r"url\(\.\./(vendor[^)]+)\)", sheet):
            assert (static / target).exists()
        names = [str(name) for font in fonts for name in font["name"].names if name.nameID < 7]
        assert not [name for name in names if "Awesome" in name and "opyright" not in name]
