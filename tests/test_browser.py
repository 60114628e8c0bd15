"""The built site in a real browser: it requests nothing from other hosts, prints nothing on the
console, shows every equation and picture, and can be used by everyone.

Without Chromium these tests are left out, and say so.
"""

import re
import statistics

import pytest
from command import ROOT
from shown import each
from viewing import PHONE, blameless, in_firefox_too, opened, serious, settled

DESK = {"width": 1440, "height": 900}
APART = ("h1", ".bd-sidebar-primary", ".bd-header-article", "footer", ".prev-next-footer")
PHRASES = {  # of the controls, of the list or the lines, of the passage
    "explorer": ("Each dot is a neuron", "a top above the threshold", "takes it apart"),
    "reader": ("Compare with a second text", "The lines are", "takes its share apart"),
}
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
    """A function that opens a page of the site; in the end nothing was requested from another host,
    missing or complained of.
    """

    def visit(name):
        window.set_viewport_size(DESK)
        window.goto(f"{site}/{name}")
        if name.startswith(("book/explorer", "book/reader")):  # in chapters views wait to be near
            settled(window)
        return window

    yield visit
    blameless(window)


@pytest.mark.parametrize("name", ["book/explorer.html", "book/02_keys.html#turn-it"])
def test_a_view_comes_as_one_module_and_fetches_its_layer_once(visit, name):
    page = settled(visit(name))
    requested = page.evaluate("performance.getEntriesByType('resource').map((e) => e.name)")
    files = [file.rpartition("/views/")[2] for file in requested if file.endswith((".bin", ".js"))]
    assert sum(file.endswith("/layer.bin") for file in files) == 1
    assert len({"neurons.js", "rows.js"} & {*files}) == 1  # which workers take from the cache
    assert not any("/engine/" in file or "/ui/" in file for file in requested)


def test_the_appendices_are_folded_but_for_a_reader_of_one(visit):
    entry = ".bd-sidebar-primary a[href$='C_certificates.html']"
    page = visit("book/05_circuit.html")
    assert not page.locator(entry).is_visible()
    page.focus(".bd-sidebar-primary summary:has(> .caption)")
    page.keyboard.press("Enter")
    assert page.locator(entry).is_visible()
    assert visit("book/B_naive_bayes.html").locator(entry).is_visible()


@in_firefox_too
def test_evidence_is_folded_but_for_whoever_is_sent_into_it_or_prints_it(visit):
    for address, unfolded in (("", False), ("#evidence", True)):
        page = visit(f"book/05_circuit.html{address}")
        inside = page.get_by_text("Do heads cancel?")
        assert inside.is_visible() == unfolded
        page.focus(".evidence > summary")
        page.keyboard.press("Enter")
        assert inside.is_visible() != unfolded
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert inside.is_visible()


def test_a_view_that_stands_in_another_page_is_its_tool_alone(visit):
    page = visit("book/explorer.html?embed#neuron=174")
    for width in (1440, 390):
        page.set_viewport_size(DESK | {"width": width})
        settled(page).get_by_role("heading", name="Neuron 174", exact=True).wait_for()
        tool, body = (page.locator(where).bounding_box() for where in (".ctx-view", "body"))
        assert tool["y"] < 100
        assert tool["width"] > 0.6 * width
        for apart in APART:
            assert not page.locator(apart).first.is_visible(), apart
        assert body["height"] < tool["height"] + 200


@pytest.mark.parametrize(
    ("name", "first"), [("explorer", ".ctx-neurons-dots canvas"), ("reader", "textarea")]
)
def test_the_first_screen_of_a_phone_and_of_a_desk_reaches_the_tool(visit, name, first):
    page = visit(f"book/{name}.html")
    for size in (PHONE, {"width": 1280, "height": 800}):
        page.set_viewport_size(size)
        box = settled(page).locator(first).first.bounding_box()
        assert box["y"] < 770
    assert name == "reader" or box["y"] + box["height"] <= 800, "every dot, at a desk"
    # what there is to say of it stands in it
    assert page.locator("article p:not(.ctx-view *)").count() == 1
    captions = page.locator(".ctx-view .ctx-quiet:visible").all_inner_texts()
    assert all(sum(phrase in text for text in captions) == 1 for phrase in PHRASES[name])
    for cards in page.locator(".ctx-neurons-cards").all():  # the arrow shows more and chooses none
        box = cards.bounding_box()
        page.mouse.click(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
        assert cards.evaluate("cards => cards.scrollLeft") > 0 and "neuron" not in page.url


def test_a_search_finds_pages_and_complains_of_none(browser, site):
    with opened(browser) as page:  # of its own, for a search marks its words on the next one
        page.goto(f"{site}/search.html?q=kernel")
        page.locator("#search-results p.context").nth(9).wait_for()


@pytest.mark.parametrize(
    ("old", "script", "new"),
    [
        ("", True, "00_welcome.html"),
        ("book/07_neurons.html?n=1#turn-it", True, "06_neurons.html?n=1#turn-it"),
        ("book/07_neurons.html?n=1#turn-it", False, "06_neurons.html"),
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
    page.evaluate("document.querySelectorAll('.evidence').forEach((e) => (e.open = true))")
    assert page.evaluate(LACKING) == []
    numbers = each(page.locator("td.number"), "[getComputedStyle(e).textAlign, e.textContent]")
    assert not [n for n in numbers if n[0] != "right" or n[1].strip("+−±%.,0123456789 \n")]
    if name == "book/02_keys":
        assert len(numbers) > 20
    if re.match(r"book/((\d\d|[A-Z])_|notation)", name):
        page.set_viewport_size({"width": PHONE["width"], "height": 900})
        assert page.evaluate(CUT) == []
        if name != "book/notation":
            assert page.evaluate(SCROLLED) == []
        page.set_viewport_size(DESK)
        page.wait_for_function(REACHED)
        assert page.evaluate(WIDER) == []
        page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        for width in (390, 1280, 1700):
            page.set_viewport_size(DESK | {"width": width})
            assert page.evaluate(WIDER) == [], width
        page.set_viewport_size(DESK)
        for opened in ("true", "false"):  # nothing that is folded away is laid out
            folds = "document.querySelectorAll('details:not(.evidence)')"
            page.evaluate(f"{folds}.forEach(e => e.open = {opened})")
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


#: Equations that are not drawn, and pictures that are not there.
LACKING = """() => [...document.querySelectorAll(
        '.math:not(:has(.katex-mathml math)), .katex-error, img')]
    .filter((e) => e.localName !== 'img' || !e.complete || !e.naturalWidth)
    .map((e) => e.outerHTML.slice(0, 200))"""


#: What a phone would show in part: formulas in a line that are cut off, drawings that cannot be
#: scrolled to their end or have letters too small to read, and a page that is wider; and solutions
#: that nobody needs yet.
CUT = """async () => {
    const found = (those) => [...document.querySelectorAll(those)];
    const shown = found('.admonition.dropdown:not(.toggle-hidden)');
    found('.dropdown.toggle-hidden').forEach((place) => place.classList.remove('toggle-hidden'));
    for (const _ of 'laid out') await new Promise(requestAnimationFrame);
    const box = (place) => place.getBoundingClientRect();
    const line = (formula) => formula.closest('p, li, dd, td, th, figcaption');
    const cut = found('span.math').filter((f) => [...f.querySelectorAll('.base')].some((piece) =>
        box(piece).right > box(line(f)).right + 3 || piece.scrollWidth > piece.clientWidth + 3));
    const size = (letters) => parseFloat(getComputedStyle(letters).fontSize) *
        letters.ownerSVGElement.getScreenCTM().a;
    const cropped = found('figure.picture > div').filter((e) => e.checkVisibility() &&
        box(e).width && (box(e).left < 0 || box(e).right > innerWidth ||
        e.scrollHeight > e.clientHeight || getComputedStyle(e).overflowX !== 'auto' ||
        [...e.querySelectorAll('text, tspan')].some((letters) => size(letters) < 7.9)));
    const whole = document.documentElement;
    return [...shown, ...cut, ...cropped, ...(whole.scrollWidth > innerWidth ? [whole] : [])]
        .map((e) => (e.querySelector('annotation') ?? e).outerHTML.slice(0, 200));
}"""


#: That whatever scrolls can be reached by keys, and nothing else.
REACHED = """() => [...document.querySelectorAll(
        'pre, .cell_output > .output, figure.picture > div')].every((e) => !e.checkVisibility() ||
    (e.tabIndex === 0) === (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight))"""


#: Tables of part I's main lines that have to be scrolled to their end.
SCROLLED = """() => [...document.querySelectorAll('.bd-article table')]
    .filter((e) => e.checkVisibility() && !e.closest('.evidence') &&
        e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right + 1)
    .map((e) => e.textContent)"""

#: Equations that begin left of their place, where nothing can bring them back, or have to be
#: scrolled to their end.
WIDER = """() => [...document.querySelectorAll('div.math > .katex-display')]
    .filter((e) => e.getBoundingClientRect().width > e.parentElement.clientWidth + 1 ||
        e.scrollWidth > e.clientWidth + 1)
    .map((e) => e.querySelector('annotation').textContent)"""


def test_a_line_of_prose_has_about_seventy_characters_and_a_minus_is_one(visit):
    page = visit("book/09_british.html")
    plain = ".bd-article section > p:not(:has(.math, code))"
    prose = page.locator(f"{plain}, .text_html > p:only-child")
    lines = """all => all.map(p => [p.textContent,
        p.offsetHeight / parseFloat(getComputedStyle(p).lineHeight)])"""
    found = prose.evaluate_all(lines)
    long = [len(text) / (lines - 0.5) for text, lines in found if lines > 2.5]
    assert len(long) > 4
    assert 64 < statistics.median(long) < 76
    assert not [text for text, _ in found if re.search(r"(^|[\s(\[])-\.?\d", text)]


@in_firefox_too
@pytest.mark.parametrize("name", ["book/04_denominators", "book/explorer", "book/reader"])
def test_who_goes_by_keyboard_sees_where_they_are(visit, name):
    page = visit(f"{name}.html")
    page.evaluate(
        """() => {
            [window.reached, window.unmarked] = [0, []];
            addEventListener('focusin', ({ target }) => {
                const styles = [target, target.nextElementSibling]  // a chip's mark is on its label
                    .filter(Boolean).map((place) => getComputedStyle(place));
                const outlined = styles.some(({ outlineStyle }) => outlineStyle !== 'none');
                reached += 1;
                if (!outlined && styles[0].boxShadow === 'none')
                    unmarked.push(target.outerHTML.slice(0, 200));
            });
        }"""
    )
    for _ in range(60):
        page.keyboard.press("Tab")
    assert page.evaluate("unmarked") == [] and page.evaluate("reached") > 20
