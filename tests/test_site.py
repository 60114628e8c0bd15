"""The built site: complete, self-contained, readable without seeing."""

import re
import tomllib
from base64 import b64decode
from html import unescape
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlparse

import build_book
import pytest
import sheets
from address import forms
from command import ROOT
from fontTools.ttLib import TTFont
from test_publish import ADDRESS
from viewing import MODULES

MOVED = tomllib.loads((ROOT / "tools" / "moved.toml").read_text(encoding="utf-8"))
OLD = {Path(old).stem for old in MOVED}

LINK = re.compile(r'<a\b[^>]*?\shref="([^"]+)"')
# what a page loads from another host; a canonical address is only named
LOADED_FROM_ELSEWHERE = re.compile(
    r'<(?:(?:script|img|iframe|source|video)\b[^>]*?\ssrc|link\b(?![^>]*rel="canonical")[^>]*?\shref)'
    r'="(?:\w+:)?//[^"]*"'
)


@pytest.fixture(scope="module")
def pages(html):
    """The text of every page."""
    files = (file for file in html.rglob("*.html") if "_static" not in file.parts)
    return {file: file.read_text(encoding="utf-8") for file in files}


def test_an_inline_script_that_nobody_has_looked_at_is_not_built(html, pages):
    page = pages[html / "book" / "costs.html"]
    build_book.seal(page)
    for more in ("<script>fetch('/x')</script>", '<p onclick="fetch(1)">'):
        with pytest.raises(ValueError, match=r"does not know: .fetch"):
            build_book.seal(page.replace("<main", f"{more}<main"))


def test_a_module_is_read_at_a_sitting_and_a_layer_comes_soon(html):
    assert max(len(module.read_text("utf-8").splitlines()) for module in MODULES) <= 400
    cores = [file.stat().st_size for file in html.glob("_static/at-*/data/*.bin")]
    assert len(cores) > 3 and max(cores) <= 12e6


def test_a_page_that_is_linked_to_states_what_it_is_and_where(html, pages):
    """But for those that Sphinx makes up."""
    made_up = {"index", "search", "genindex", "py-modindex", "whole"} | OLD
    for file in pages:
        if file.stem in made_up:
            continue
        head = pages[file].partition("</head>")[0]
        (description,) = re.findall(r'<meta name="description" content="([^"]+)"', head)
        assert 40 < len(unescape(description)) <= 240, file.name
        assert f'<meta property="og:description" content="{description}"' in head
        (canonical,) = re.findall(r'<link rel="canonical" href="([^"]+)"', head)
        (shared,) = re.findall(r'<meta property="og:url" content="([^"]+)"', head)
        assert canonical == shared == f"{forms(ADDRESS)[2]}/{file.relative_to(html)}"
        (card,) = re.findall(r'<meta property="og:image" content="([^"]+)"', head)
        assert (html / card.removeprefix(f"{forms(ADDRESS)[2]}/")).exists()


def test_nothing_is_loaded_from_another_host(html, pages):
    sealed = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
    for file, page in pages.items():
        assert LOADED_FROM_ELSEWHERE.findall(page) == [], file.name
        assert page.count(sealed) == 1, f"{file.name} may load anything"
    elsewhere = re.compile(r"(?:url\(|@import\s+(?:url\()?)['\"]?(?:https?:|//)")
    for sheet in html.rglob("*.css"):
        assert not elsewhere.search(sheet.read_text(encoding="utf-8", errors="replace")), sheet.name


def test_links_and_drawings_refer_to_what_is_there(html, pages):
    ids = {file: set(re.findall(r'\sid="([^"]+)"', page)) for file, page in pages.items()}
    for file, page in pages.items():
        assert {*re.findall(r"url\(#([^)]+)\)", page)} <= ids[file], f"{file.name}: half a drawing"
        for link in LINK.findall(page):
            parts = urlparse(unescape(link))
            if parts.scheme or parts.netloc or (link.startswith("#") and len(link) == 1):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.exists(), f"{file.name} links to {link}"
            state_of_a_view = "=" in parts.fragment
            if parts.fragment and target in pages and not state_of_a_view:
                assert unquote(parts.fragment) in ids[target], f"{file.name} links to {link}"


def test_old_addresses_lead_to_pages_that_exist(html, pages):
    for old, new in MOVED.items():
        file = html / "book" / f"{old}.html"
        assert LINK.findall(pages[file]) == [f"{new}.html"]
        assert (file.parent / f"{new}.html").resolve() in pages and new not in MOVED
        assert '<meta name="robots" content="noindex">' in pages[file]
        assert f'<link rel="canonical" href="{new}.html">' in pages[file]


def test_a_chapter_folds_its_set_up_and_shows_the_first_setting_of_its_widget(html, pages):
    page = pages[html / "book" / "02_keys.html"]
    assert "tag_hide-cell" in page
    assert "<b>Figure 2.4.</b>" in page and "jupyter.widget-view" not in page


def test_where_a_page_has_turn_it_there_is_a_view(pages):
    place = re.compile('<(?:section|span) id="turn-it">')
    turned = [place.split(page)[1:] for page in pages.values()]
    assert sum(map(len, turned)) == 7
    for (section,) in filter(None, turned):
        assert 'data-view="' in section.partition("<section")[0]


def test_each_chapter_opens_in_colab_from_a_notebook_that_exists(html, pages):
    for notebook in (ROOT / "book").glob("*.ipynb"):
        page = pages[html / "book" / f"{notebook.stem}.html"]
        (target,) = set(re.findall(r'href="(https://colab\.research\.google\.com/[^"]+)"', page))
        assert target == f"{forms(ADDRESS)[1]}/blob/main/book/{notebook.name}"


def test_a_page_waits_for_one_sheet_and_no_script(html, pages):
    """Elsewhere than on the page that searches, its index is not loaded: it is large."""
    (sheet,) = html.glob("_static/at-*/book.css")
    for file, page in pages.items():
        if file.stem in {"index"} | OLD:
            continue
        (waited_for,) = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page)
        assert (file.parent / waited_for).resolve() == sheet, file.name
        scripts = re.findall(r"<script[^>]*\ssrc=[^>]*>", page)
        assert all(re.search("defer|async", script) for script in scripts), file.name
        assert ("searchindex.js" in page) == (file.stem == "search"), file.name
        assert "fontawesome.js" not in page, file.name
    theme = html / "_static" / "scripts" / "pydata-sphinx-theme.js"
    assert '"load"' not in theme.read_text(encoding="utf-8"), "it measures all boxes of a page"


def test_the_sheet_has_what_pages_use_of_the_theme_and_all_its_icons(html, pages):
    (sheet,) = html.glob("_static/at-*/book.css")
    css = sheet.read_text(encoding="utf-8")
    listed = re.findall(r'\sclass="([^"]*)"', "".join(pages.values()))
    used = {name for names in listed for name in names.split()}
    of_theme = "".join(file.read_text("utf-8") for file in html.glob("_static/styles/*.css"))
    assert used & {*sheets.CLASS.findall(of_theme)} <= {*sheets.CLASS.findall(css)}
    fonts = [b64decode(data) for data in re.findall(r"data:font/woff;base64,([^\"]+)", css)]
    fonts = [TTFont(BytesIO(font)) for font in fonts]
    held = {icon for font in fonts for icon in font.getBestCmap()}
    icons = {int(number, 16) if number else ord(icon) for number, icon in sheets.ICON.findall(css)}
    assert len(icons) > 20 and icons <= held
    assert all("Font Awesome" in font["name"].getDebugName(0) for font in fonts)


def test_a_page_with_a_view_names_its_module(html, pages):
    book = html / "book"
    page = pages[book / "explorer.html"]
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', page)
    (here,) = html.glob("_static/at-*")
    (module,) = [(book / name).resolve(strict=True) for name in named]
    assert module == here / "views" / "views" / "neurons.js"
    seen = re.findall(r'<div data-view="(\w+)"', "".join(pages.values()))
    assert {view.stem for view in module.parent.iterdir()} == {*seen}
    assert "modulepreload" not in pages[book / "notation.html"]
    assert page.count('as="fetch"') == 1
    for chapter, layers in (("06_neurons", 1), ("00_welcome", 0), ("15_lookups", 0)):
        page = pages[book / f"{chapter}.html"]
        assert page.count('as="fetch"') == layers
        assert page.count(f"<script>{build_book.LED_TO_VIEW} document.write('<link") == layers
    for place, shown in pages.items():  # no page has modules or data of another build
        builds = set(re.findall(r"_static/(?:(at-\w+)/)?(?:views|data)/", shown))
        assert builds <= {here.name}, place


def test_the_explorer_has_chapter_6s_table_of_labels(html, pages):
    (table,) = re.findall(r'data-labels="([^"]+)"', pages[html / "book" / "explorer.html"])
    rows = (html / "book" / table).resolve().read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("neuron,label,auc,null,top,z,")
    assert len(rows) == 1 + 1024


def test_a_link_that_sets_a_view_stays_on_its_page_and_leads_there_from_the_notebook(html, pages):
    found = 0
    for chapter in build_book.named():
        page = pages[html / "book" / f"{chapter.stem}.html"]
        notebook = build_book.committed(chapter).read_text("utf-8")
        for link in re.findall(r'<a href="(#\w+\.\w+=[^"]*)"', chapter.read_text("utf-8")):
            there = f"{forms(ADDRESS)[2]}/book/{chapter.stem}.html{link}"
            assert f'<a href=\\"{there}\\">' in notebook
            assert unescape(f'<a href="{link}">') in unescape(page)
            found += 1
    assert found > 3


def test_a_chapter_links_the_first_use_of_a_term_to_the_glossary(html, pages):
    entries = set(re.findall(r'id="(term-[^"]+)"', pages[html / "book" / "glossary.html"]))
    linked = {
        file.stem: re.findall(r'<a class="term[^>]*href="glossary.html#([^"]+)"', pages[file])
        for file in pages
        if re.match(r"(\d\d|[A-F])_", file.stem) and file.stem not in OLD
    }
    assert all(len(set(terms)) == len(terms) >= 3 for terms in linked.values())
    assert {term for terms in linked.values() for term in terms} <= entries
    assert {"term-kernel", "term-content", "term-denominator"} <= set(linked["03_kernels"])
