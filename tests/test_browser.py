"""The built site in a real browser: it asks nobody else for anything, says nothing on the console,
shows every equation and picture, and can be used by everyone.

Without Chromium these tests are left out, and say so.
"""

import re
import statistics

import pytest
from command import ROOT
from viewing import blameless, in_firefox_too, serious, settled

DESK = {"width": 1440, "height": 900}
PAGES = [
    "search",
    "genindex",
    *sorted(
        str(file.relative_to(ROOT).with_suffix(""))
        for kind in ("*.md", "*.ipynb")
        for file in (ROOT / "book").rglob(kind)
    ),
]


@pytest.fixture
def visit(window, site):
    """A function that opens a page of the site; in the end nothing was asked of another host,
    missing or complained of.
    """

    def visit(name, width=DESK["width"]):
        window.set_viewport_size(DESK | {"width": width})
        window.goto(f"{site}/{name}")
        if name.startswith(("book/explorer", "book/reader")):  # in chapters views wait to be near
            settled(window)
        return window

    yield visit
    blameless(window)


@pytest.mark.parametrize("width", [1440, 390])
def test_a_view_that_stands_in_another_page_is_its_tool_alone(visit, width):
    page = visit("book/explorer.html?embed#neuron=174", width)
    settled(page).get_by_role("heading", name="Neuron 174", exact=True).wait_for()
    tool, body = (page.locator(where).bounding_box() for where in (".ctx-view", "body"))
    assert tool["y"] < 100
    assert tool["width"] > 0.6 * width
    for apart in ("h1", ".bd-sidebar-primary", ".bd-header-article", "footer", ".prev-next-footer"):
        assert not page.locator(apart).first.is_visible(), apart
    assert body["height"] < tool["height"] + 200


@pytest.mark.parametrize(
    ("old", "script", "new"),
    [
        ("", True, "00_welcome.html"),
        ("book/07_neurons.html?n=1#turn-it", True, "08_neurons.html?n=1#turn-it"),
        ("book/07_neurons.html?n=1#turn-it", False, "08_neurons.html"),
    ],
    ids=["site", "script", "no script"],
)
def test_an_old_address_leads_on_with_its_state(browser, site, old, script, new):
    page = browser.new_page(java_script_enabled=script)
    page.goto(f"{site}/{old}")
    page.wait_for_url(f"{site}/book/{new}", wait_until="commit")
    page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_complains_of_nothing_and_keeps_no_reader_out(visit, name):
    page = visit(f"{name}.html")
    formulas, drawn, broken, pictures = page.evaluate(
        """() => [
            document.querySelectorAll('.math').length,
            document.querySelectorAll('.math .katex-mathml math').length,
            document.querySelectorAll('.katex-error').length,
            [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src),
        ]"""
    )
    assert drawn >= formulas
    assert broken == 0
    assert pictures == []
    if re.match(r"book/\d\d[a-z]?_", name):
        fits_a_phone(page)
        page.set_viewport_size(DESK)
        page.wait_for_function(REACHED)
        assert page.evaluate(WIDER) == []
        for opened in ("true", "false"):  # nothing that is folded away is laid out
            page.evaluate(f"document.querySelectorAll('details').forEach(e => e.open = {opened})")
            page.wait_for_function(REACHED)
    # axe takes long for many pieces: drawings and equations, which have texts of their own, and all
    # but the first blocks of code and signatures, which look alike, are left out
    page.evaluate(
        """() => {
            const found = (those) => [...document.querySelectorAll(those)];
            const alike = [...found('pre').slice(5), ...found('dt.sig').slice(5)];
            [...found('figure.picture svg, .katex'), ...alike].forEach(e => e.replaceChildren());
        }"""
    )
    assert serious(page) == []


#: That whatever scrolls can be reached by keys, and nothing else.
REACHED = """() => [...document.querySelectorAll('pre, .cell_output > .output')].every((e) =>
    !e.checkVisibility() ||
    (e.tabIndex === 0) === (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight))"""


#: Equations that begin left of their place, where nothing can bring them back.
WIDER = """() => [...document.querySelectorAll('div.math > .katex-display')]
    .filter((e) => e.getBoundingClientRect().width > e.parentElement.clientWidth)
    .map((e) => e.querySelector('annotation').textContent)"""


def fits_a_phone(page):
    """No formula in a line is cut off, and drawings have their form for phones."""
    page.set_viewport_size({"width": 390, "height": 900})
    folded = page.locator(".admonition.dropdown")
    assert folded.count() == page.locator(".admonition.toggle-hidden").count(), "solutions"
    cut = page.evaluate(
        """async () => {
            const places = [...document.querySelectorAll('.dropdown.toggle-hidden')];
            places.forEach(place => place.classList.remove('toggle-hidden'));
            for (const _ of 'laid out') await new Promise(requestAnimationFrame);
            const right = (place) => place.getBoundingClientRect().right;
            const line = (formula) => formula.closest('p, li, dd, td, th, figcaption');
            return [...document.querySelectorAll('span.math')]
                .filter(f => [...f.querySelectorAll('.base')].some(piece =>
                    right(piece) > right(line(f)) + 3 ||
                    piece.scrollWidth > piece.clientWidth + 3))
                .map(f => f.querySelector('annotation').textContent)
        }"""
    )
    assert cut == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for drawing in page.locator("figure.picture svg:visible").all():
        box = drawing.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
        assert drawing.get_attribute("class") == "narrow"


def test_numbers_in_a_table_stand_under_one_another(visit):
    page = visit("book/02_keys.html")
    numbers = page.locator("table.dataframe td.number")
    aligned = numbers.evaluate_all("all => all.map((cell) => getComputedStyle(cell).textAlign)")
    assert len(aligned) > 20
    assert set(aligned) == {"right"}
    words = page.locator("td.number").all_text_contents()
    assert not any(word.strip("+−±%.,0123456789 \n") for word in words), "no hyphen for a minus"
    assert any(word.strip().startswith("−") for word in words)


def test_a_line_of_prose_has_about_seventy_characters_and_a_minus_is_one(visit):
    page = visit("book/07_british.html")
    plain = ".bd-article section > p:not(:has(.math, code))"
    prose = page.locator(f"{plain}, .text_html > p:only-child")
    lines = """all => all.map(p => [p.textContent,
        p.offsetHeight / parseFloat(getComputedStyle(p).lineHeight)])"""
    found = prose.evaluate_all(lines)
    long = [len(said) / (lines - 0.5) for said, lines in found if lines > 2.5]
    assert len(long) > 4
    assert 64 < statistics.median(long) < 76
    assert not [said for said, _ in found if re.search(r"(^|[\s(\[])-\.?\d", said)]


@in_firefox_too
@pytest.mark.parametrize("name", ["book/04_denominators", "book/explorer", "book/reader"])
def test_who_goes_by_keyboard_sees_where_they_are(visit, name):
    page = visit(f"{name}.html")
    marked = """() => {
        const here = document.activeElement;
        const styles = [here, here.nextElementSibling]  // a chip's mark is on its label
            .filter(Boolean).map(place => getComputedStyle(place));
        const outlined = styles.some(style => style.outlineStyle !== 'none');
        return here === document.body || outlined
            || styles[0].boxShadow !== 'none' || here.outerHTML.slice(0, 200);
    }"""
    for _ in range(60):
        page.keyboard.press("Tab")
        assert page.evaluate(marked) is True
