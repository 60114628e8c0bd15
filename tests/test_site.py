"""The built site: complete, self-contained, readable without seeing."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import build_book
import pytest

ROOT = Path(__file__).resolve().parent.parent


class Page(HTMLParser):
    """What a page loads, where it points, and what it shows."""

    def __init__(self, file):
        super().__init__()
        self.loads, self.links, self.ids, self.pictures, self.images = [], [], set(), [], []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        at = dict(attrs)
        if "id" in at:
            self.ids.add(at["id"])
        if tag in ("script", "img", "iframe", "source", "video") and at.get("src"):
            self.loads.append(at["src"])
        if tag == "link" and at.get("rel") not in (
            "canonical",
            "next",
            "prev",
            "author",
            "index",
            "search",
            "license",
        ):
            self.loads.append(at["href"])
        if tag == "a" and at.get("href"):
            self.links.append(at["href"])
        if tag == "img":
            self.images.append(at)
        if at.get("role") == "img" and tag == "div":
            self.pictures.append(at.get("aria-label", ""))


@pytest.fixture(scope="module")
def pages(html):
    return {f: Page(f) for f in html.rglob("*.html") if "_static" not in f.parts}


def test_every_page_of_the_contents_is_there(html):
    listed = re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text())
    assert len(listed) >= 6
    for name in listed:
        assert (html / f"{name}.html").exists()
    assert (html / "index.html").exists()
    assert (html / "searchindex.js").exists()


def test_nothing_is_loaded_from_another_host(html, pages):
    for file, page in pages.items():
        for source in page.loads:
            assert not urlparse(source).netloc, f"{file.name} loads {source}"
        sealed = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        assert sealed in file.read_text(encoding="utf-8"), f"{file.name} may load anything"
    for sheet in html.rglob("*.css"):
        for target in re.findall(
            r"url\(['\"]?([^'\")]+)", sheet.read_text(encoding="utf-8", errors="replace")
        ):
            assert not target.startswith(("http:", "https:", "//")), f"{sheet.name} loads {target}"
        assert not re.search(
            r"@import\s+(url\()?['\"]?https?:", sheet.read_text(encoding="utf-8", errors="replace")
        )


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


def test_every_figure_has_a_text_for_those_who_cannot_see_it(pages):
    seen = 0
    for file, page in pages.items():
        for alt in page.pictures:
            seen += 1
            assert len(alt) > 10, f"{file.name}: a figure without a description"
        for image in page.images:
            assert image.get("alt") is not None, f"{file.name}: {image}"
    assert seen >= 10


def test_figures_take_the_colour_of_the_page(html):
    page = (html / "book" / "02_keys.html").read_text(encoding="utf-8")
    drawings = re.findall(r"<svg [^>]*?viewBox.*?</svg>", page, flags=re.DOTALL)
    drawn = [d for d in drawings if 'id="f2' in d]
    assert len(drawn) >= 6
    for drawing in drawn:
        assert "currentColor" in drawing
        assert not re.search(r"(fill|stroke): ?(#000000|black)", drawing), (
            "black ink vanishes in dark mode"
        )
        ids = re.findall(r'\bid="([^"]+)"', drawing)
        assert all(i in ids for i in re.findall(r"url\(#([^)]+)\)", drawing)), (
            "every clip path is in the same drawing"
        )


def test_names_within_a_page_are_unique_across_its_figures(html):
    page = (html / "book" / "02_keys.html").read_text(encoding="utf-8")
    clips = re.findall(r'<clipPath id="([^"]+)"', page)
    assert len(clips) == len(set(clips))


def test_each_chapter_opens_in_colab_from_a_notebook_that_exists(html):
    address = re.search(r"(?m)^ *repository_url: (\S+)", (ROOT / "_config.yml").read_text())[1]
    repository = urlparse(address).path.strip("/")
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", repository), "an owner and a name"
    for notebook in sorted((ROOT / "book").glob("*.ipynb")):
        page = (html / "book" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        (target,) = set(re.findall(r'href="(https://colab\.research\.google\.com/[^"]+)"', page))
        place = f"github/{repository}/blob/main/book/{notebook.name}"
        assert target == f"https://colab.research.google.com/{place}"


def test_the_setup_cell_is_folded_and_widgets_show_a_figure(html):
    page = (html / "book" / "02_keys.html").read_text(encoding="utf-8")
    assert "tag_hide-cell" in page
    assert "jupyter.widget-view" not in page
    assert 'id="f2-6-' in page, "the widget's first setting"


def test_every_page_is_sealed_once():
    page = (
        "<html><head></head><body>about Content-Security-Policy<script>go()</script></body></html>"
    )
    sealed = build_book.seal(page)
    assert sealed.count('<meta http-equiv="Content-Security-Policy"') == 1
    assert build_book.fingerprint("go()") in sealed
    assert build_book.seal(sealed) == sealed


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_marks_that_are_left_out_of_code_have_its_colour(html, scheme):
    sheet = (html / "_static" / "pygments.css").read_text(encoding="utf-8")

    def colour(mark):
        rule = f'html[data-theme="{scheme}"] .highlight{mark} {{'
        (line,) = [line for line in sheet.splitlines() if line.startswith(rule)]
        return re.findall(r"[ {]color: ([#\w]+)", line)

    for mark in ("n", "nn", "p", "w"):
        assert colour(f" .{mark}") == colour("")
    page = (html / "book" / "02_keys.html").read_text(encoding="utf-8")
    assert 'class="o"' in page
    assert 'class="p"' not in page


def test_a_page_with_a_view_names_its_modules(html):
    page = (html / "book" / "explorer.html").read_text(encoding="utf-8")
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', page)
    view = build_book.WIDGETS / "views" / "neurons.js"
    assert {Path(n).name for n in named} == {m.name for m in build_book.modules(view)}
    for name in named:
        assert (html / "book" / name).resolve().exists()
    assert build_book.hint(page) == page
    assert "modulepreload" not in (html / "book" / "notation.html").read_text(encoding="utf-8")


def test_the_explorer_has_chapter_7s_table_of_labels(html):
    page = (html / "book" / "explorer.html").read_text(encoding="utf-8")
    (table,) = re.findall(r'data-labels="([^"]+)"', page)
    rows = (html / "book" / table).resolve().read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("neuron,label,difference,auc,")
    assert len(rows) == 1 + 1024
