"""The built site: complete, self-contained, readable without seeing."""

import re
import tomllib
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote, urlparse

import build_book
import pytest
from command import ROOT
from test_publish import ADDRESS, forms

from ctxlib.widgets import bundle

MOVED = tomllib.loads((ROOT / "tools" / "moved.toml").read_text(encoding="utf-8"))

UNLOADED = ("canonical", "next", "prev", "author", "index", "search", "license")


class Page(HTMLParser):
    """What a page loads, where it points, and what it shows."""

    def __init__(self, file):
        super().__init__()
        self.loads, self.links, self.ids = [], [], set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        at = dict(attrs)
        self.ids.add(at.get("id"))
        if tag in ("script", "img", "iframe", "source", "video") and at.get("src"):
            self.loads.append(at["src"])
        elif tag == "link" and at.get("rel") not in UNLOADED:
            self.loads.append(at["href"])
        elif tag == "a" and at.get("href"):
            self.links.append(at["href"])


@pytest.fixture(scope="module")
def pages(html):
    return {f: Page(f) for f in html.rglob("*.html") if "_static" not in f.parts}


def test_an_inline_script_that_nobody_has_looked_at_is_not_built(html):
    page = (html / "book" / "costs.html").read_text(encoding="utf-8")
    build_book.seal(page)
    for more in ("<script>fetch('/x')</script>", '<p onclick="fetch(1)">'):
        with pytest.raises(ValueError, match=r"does not know: .fetch"):
            build_book.seal(page.replace("<main", f"{more}<main"))


def test_a_page_that_is_linked_to_says_what_it_is_and_where(html, pages):
    """But for those that Sphinx makes up."""
    made_up = {"index", "search", "genindex", "py-modindex", "whole", *MOVED}
    for file in pages:
        if file.stem in made_up:
            continue
        head = file.read_text(encoding="utf-8").partition("</head>")[0]
        (said,) = re.findall(r'<meta name="description" content="([^"]+)"', head)
        assert 40 < len(unescape(said)) <= 240, file.name
        assert f'<meta property="og:description" content="{said}"' in head
        (canonical,) = re.findall(r'<link rel="canonical" href="([^"]+)"', head)
        assert canonical == f"{forms(ADDRESS)[2]}/{file.relative_to(html)}"


def test_nothing_is_loaded_from_another_host(html, pages):
    sealed = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
    for file, page in pages.items():
        assert not [source for source in page.loads if urlparse(source).netloc], file.name
        assert file.read_text(encoding="utf-8").count(sealed) == 1, f"{file.name} may load anything"
    elsewhere = re.compile(r"(?:url\(|@import\s+(?:url\()?)['\"]?(?:https?:|//)")
    for sheet in html.rglob("*.css"):
        assert not elsewhere.search(sheet.read_text(encoding="utf-8", errors="replace")), sheet.name


def test_links_within_the_site_lead_somewhere(html, pages):
    for file, page in pages.items():
        for link in page.links:
            parts = urlparse(link)
            if parts.scheme or parts.netloc or (link.startswith("#") and len(link) == 1):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.exists(), f"{file.name} links to {link}"
            state_of_a_view = "=" in parts.fragment
            if parts.fragment and target in pages and not state_of_a_view:
                assert unquote(parts.fragment) in pages[target].ids, f"{file.name} links to {link}"


def test_old_addresses_lead_to_pages_that_exist(html, pages):
    for old, new in MOVED.items():
        file = html / "book" / f"{old}.html"
        assert pages[file].links == [f"{new}.html"] and new not in MOVED
        sources = (ROOT / "book" / f"{new}{end}" for end in (".ipynb", ".md"))
        assert any(source.exists() for source in sources) and file.with_stem(new).exists()
        written = file.read_text(encoding="utf-8")
        for line in (
            '<meta name="robots" content="noindex">',
            f'<link rel="canonical" href="{new}.html">',
        ):
            assert line in written, file.name


def test_a_chapter_folds_its_set_up_and_shows_the_first_setting_of_its_widget(html):
    page = (html / "book" / "02_keys.html").read_text(encoding="utf-8")
    assert "tag_hide-cell" in page
    assert 'id="w2-4-' in page and "jupyter.widget-view" not in page


def test_each_chapter_opens_in_colab_from_a_notebook_that_exists(html):
    for notebook in (ROOT / "book").glob("*.ipynb"):
        page = (html / "book" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        (target,) = set(re.findall(r'href="https://(colab\.research\.google\.com/[^"]+)"', page))
        assert target == f"{forms(ADDRESS)[1]}/blob/main/book/{notebook.name}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_marks_that_are_left_out_of_code_have_its_colour(html, scheme):
    sheet = (html / "_static" / "pygments.css").read_text(encoding="utf-8")

    colours = set()
    for mark in ("", " .n", " .nn", " .p", " .w"):
        rule = re.escape(f'html[data-theme="{scheme}"] .highlight{mark} {{')
        (line,) = re.findall(f"(?m)^{rule}.*", sheet)
        colours.add(tuple(re.findall(r"[ {]color: ([#\w]+)", line)))
    assert len(colours) == 1
    page = (html / "book" / "02_keys.html").read_text(encoding="utf-8")
    assert 'class="o"' in page
    assert 'class="p"' not in page


def test_a_page_with_a_view_names_its_modules(html):
    page = (html / "book" / "explorer.html").read_text(encoding="utf-8")
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', page)
    (here,) = html.glob("_static/at-*")
    folder = here / "views"
    linked = [folder / m.relative_to(bundle.HERE) for m in bundle.linked("views/neurons.js")]
    assert [(html / "book" / name).resolve() for name in named] == linked
    assert page.count('as="fetch"') == 1
    for chapter, layers in (("08_neurons", 1), ("00_welcome", 0), ("13_lookups", 0)):
        asking = (html / "book" / f"{chapter}.html").read_text(encoding="utf-8")
        assert asking.count('as="fetch"') == layers
        assert asking.count(f"<script>{build_book.LED_TO_VIEW} document.write('<link") == layers
    for place in html.rglob("*.html"):  # no page has modules or data of another build
        shown = place.read_text(encoding="utf-8")
        assert set(re.findall(r"_static/(at-\w+)/(?:views|data)/", shown)) <= {here.name}
        assert not re.search(r"_static/(?:views|data)/", shown), place
    for name in named:
        assert (html / "book" / name).resolve().exists()
    assert "modulepreload" not in (html / "book" / "notation.html").read_text(encoding="utf-8")


def test_the_explorer_has_chapter_8s_table_of_labels(html):
    page = (html / "book" / "explorer.html").read_text(encoding="utf-8")
    (table,) = re.findall(r'data-labels="([^"]+)"', page)
    rows = (html / "book" / table).resolve().read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("neuron,label,difference,auc,")
    assert len(rows) == 1 + 1024
