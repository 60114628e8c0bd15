"""Views where little is there, or much: one head, thirty-two, none stable, one passage, one
destination, no tokenizer in the page; hidden at first; two on a page; drawn anew under a keyboard.
"""

import gzip
import json

import pytest
from test_pages import contrast
from viewing import WIDGETS, served, view_page, watched

import ctxlib as cx
from ctxlib.widgets import packed_layer

STATES = {
    "rows": {"passage": 0, "head": 0, "n": 0, "octaves": 0.0, "scale": "linear"},
    "kernels": {"heads": [], "n": -1, "scale": "log", "family": "all", "token": -1},
    "neurons": {
        "neuron": -1,
        "heads": [],
        "threshold": 0,
        "token": -1,
        "passage": -1,
        "search": "",
    },
    "reader": {"heads": [], "neuron": -1, "text": "", "other": ""},
}
READY = {
    "rows": ".ctx-readable",
    "kernels": ".ctx-readable",
    "neurons": ".ctx-neurons-domains svg",
    "reader": ".ctx-reader-table tr:not([hidden]) .ctx-pick",
}


def retold(layer, **changes):
    """The same layer with another header."""
    content = gzip.decompress(layer)
    size = int.from_bytes(content[:4], "little")
    header = json.loads(content[4 : 4 + size]) | changes
    head = json.dumps(header).encode()
    head += b" " * ((-len(head) - 4) % 8)
    return gzip.compress(len(head).to_bytes(4, "little") + head + content[4 + size :], mtime=0)


@pytest.fixture(scope="module")
def layers(packed_mini, make_folder):
    """Layers by name."""

    def toy(heads):
        weights = cx.LayerWeights.of(cx.load(make_folder(n_head=heads, n_embd=64, seed=3)))
        return packed_layer(weights, cx.texts.collection(weights, 10))

    content = gzip.decompress(packed_mini)
    header = json.loads(content[4 : 4 + int.from_bytes(content[:4], "little")])
    few = {"stable": [], "destinations": header["destinations"][:1]}
    return {
        "one head": toy(1),
        "many heads": toy(32),
        "few": retold(packed_mini, passages=header["passages"][:1], **few),
        "no tokenizer": retold(packed_mini, byte_level=False),
    }


@pytest.fixture(scope="module")
def address(tmp_path_factory, layers, packed_mini):
    folder = tmp_path_factory.mktemp("edges")
    for name, layer in layers.items():
        for view, state in STATES.items():
            view_page(folder / name.replace(" ", "-"), view, state, layer, name=view)
    for view in ("rows", "kernels", "neurons"):
        view_page(folder, view, STATES[view], packed_mini, name=view)
    first, second = ((folder / f"{view}.html").read_text() for view in ("rows", "kernels"))
    place = second[second.index("<div data-view") : second.index("</main>")]
    (folder / "two.html").write_text(first.replace("</main>", place + "</main>"))
    with served(folder) as address:
        yield address


@pytest.fixture
def visit(browser, address):
    """A function that opens a page and waits for something on it."""
    opened = []

    def visit(where, ready):
        page = watched(browser.new_page(viewport={"width": 900, "height": 2400}))
        opened.append(page)
        page.goto(f"{address}/{where}")
        page.wait_for_selector(ready, timeout=15_000)
        return page

    yield visit
    for page in opened:
        assert (page.said, page.failed, page.elsewhere) == ([], [], [])
        page.close()


@pytest.mark.parametrize(
    ("layer", "view"),
    [
        (layer, view)
        for layer in ("one head", "many heads", "few", "no tokenizer")
        for view in STATES
        if (layer, view) != ("no tokenizer", "reader")  # which says so instead
    ],
)
def test_a_view_of_little_or_of_much_is_whole(visit, layer, view):
    page = visit(f"{layer.replace(' ', '-')}/{view}.html", READY[view])
    page.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    assert page.locator(".ctx-failed").count() == 0
    markup = page.locator(".ctx-view").evaluate("view => view.outerHTML")
    for broken in ("NaN", "undefined", "null", "Infinity"):
        assert broken not in markup


def test_two_views_share_a_page_and_its_layer(visit):
    page = visit("two.html", "[data-view=kernels] .ctx-readable")
    page.wait_for_selector("[data-view=rows] .ctx-readable")
    loads = "performance.getEntriesByType('resource').filter(e => e.name.endsWith('.bin')).length"
    assert page.evaluate(loads) == 1
    page.locator("[data-view=rows] input[value='2']").first.check()
    assert page.locator("[data-view=kernels] input[type=checkbox]:checked").count() == 8
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("view", ["rows", "kernels"])
def test_a_drawing_made_anew_keeps_the_keyboards_place(visit, view):
    page = visit(f"{view}.html", ".ctx-readable")
    page.focus(".ctx-readable")
    page.evaluate("location.hash = 'n=100'")
    page.wait_for_selector(".ctx-readable[aria-valuemax='100']")
    page.keyboard.press("End")
    assert page.get_attribute(".ctx-readable", "aria-valuenow") == "100"


def test_a_view_that_was_hidden_takes_the_width_it_gets(visit):
    page = visit("kernels.html", ".ctx-readable")
    page.evaluate("document.querySelector('.ctx-view').style.display = 'none'")
    page.evaluate("location.hash = 'n=100'")  # drawn without any width
    page.wait_for_function("document.querySelector('.ctx-readable').ariaValueMax === '100'")
    page.set_viewport_size({"width": 500, "height": 900})
    page.evaluate("document.querySelector('.ctx-view').style.display = ''")
    page.wait_for_function(
        "document.querySelector('.ctx-readable svg').viewBox.baseVal.width"
        " === document.querySelector('.ctx-view').clientWidth"
    )


@pytest.mark.parametrize("view", STATES)
def test_a_view_that_is_removed_while_it_loads_stays_silent(browser, address, view):
    page = watched(browser.new_page())
    held = []
    page.route("**/layer.bin", lambda route: held.append(route))
    page.goto(f"{address}/few/{view}.html")
    page.wait_for_selector(".ctx-waiting")
    page.evaluate("() => { window.left = document.querySelector('[data-view]'); left.remove() }")
    for route in held:
        route.continue_()
    page.wait_for_function("() => !left.ariaBusy")
    assert page.evaluate("left.querySelector('.ctx-view').childElementCount") == 0
    assert page.said == []
    page.close()


def test_heads_are_told_apart_without_colour_and_stand_out(visit):
    page = visit("many-heads/kernels.html", READY["kernels"])
    marks = page.locator(".ctx-chips .ctx-mark line").evaluate_all(
        "all => all.map((e) => [e.getAttribute('stroke'), e.getAttribute('stroke-dasharray')])"
    )
    assert len(marks) == len(set(map(tuple, marks))) == 32
    dashes = [dash for _, dash in marks]
    assert all(dashes[head] != dashes[head + 1] for head in range(0, 32, 2))
    for ground in ("#ffffff", "#14181e"):
        assert min(contrast(stroke, ground) for stroke, _ in marks) >= 3


def test_shades_and_bars_stay_where_the_system_sets_the_colours(visit):
    page = visit("few/neurons.html", READY["neurons"])
    page.emulate_media(forced_colors="active")
    seen = page.evaluate(
        """() => [".ctx-token", ".ctx-neurons-bar"].map((kind) => new Set(
            [...document.querySelectorAll(kind)].map((e) => getComputedStyle(e).backgroundColor)
        ).size)"""
    )
    assert min(seen) > 1
    style = "getComputedStyle(document.querySelector('.ctx-chip input:checked + span'))"
    assert page.evaluate(f"{style}.outlineStyle") == "solid"


def test_a_finger_has_its_readout_in_sight(browser, address):
    size = {"width": 390, "height": 700}
    page = watched(browser.new_page(viewport=size, has_touch=True, is_mobile=True))
    page.goto(f"{address}/rows.html#n=400")
    page.wait_for_selector(".ctx-readable")
    token = page.locator("[data-place='5']")
    token.scroll_into_view_if_needed()
    token.tap()
    readout = page.locator(".ctx-touched")
    assert readout.inner_text() == token.get_attribute("title")
    box = readout.bounding_box()
    assert 0 <= box["y"] <= box["y"] + box["height"] <= size["height"]
    assert page.said == []
    page.close()


@pytest.mark.parametrize(
    ("phone", "made"), [(False, [[h] for h in range(8)]), (True, [])], ids=["desk", "phone"]
)
def test_a_phone_prepares_no_head_that_nobody_asked_for(browser, address, phone, made):
    size = {"width": 390, "height": 700} if phone else {"width": 900, "height": 900}
    page = watched(browser.new_page(viewport=size, has_touch=phone, is_mobile=phone))
    spy = """
        globalThis.prepared = [];
        const { prepare } = Circuit.prototype;
        Circuit.prototype.prepare = function (heads, options) {
            prepared.push(heads);
            return prepare.call(this, heads, options);
        };"""

    def spied(route):
        engine = (WIDGETS / "engine" / "circuit.js").read_text(encoding="utf-8")
        route.fulfill(body=engine + spy, content_type="text/javascript")

    page.route("**/engine/circuit.js", spied)
    page.goto(f"{address}/neurons.html#heads=2,3")
    page.wait_for_selector(f".ctx-neurons:not([aria-busy]) {READY['neurons'].split(' ')[0]}")
    page.wait_for_function("count => prepared.length >= 1 + count", arg=len(made))
    assert page.evaluate("prepared") == [[2, 3], *made]
    assert page.said == []
    page.close()


def broken_headers(header):
    """What a file might say instead, and what of it is wrong."""
    return {
        "vocab": {"vocab": 3},
        "heads": {"heads": None},
        "families": {"families": header["families"][:-1]},
        "destinations": {"destinations": []},
        "tensors": {"tensors": [*header["tensors"][:-1], {"name": "W_E"}]},
        "tensor W_Q": {"tensors": [t for t in header["tensors"] if t["name"] != "W_Q"]},
        "tensor W_E": {
            "tensors": [
                t | {"shape": [10**9]} if t["name"] == "W_E" else t for t in header["tensors"]
            ]
        },
    }


@pytest.mark.parametrize(
    "wrong",
    ["vocab", "heads", "families", "destinations", "tensors", "tensor W_Q", "tensor W_E"],
)
def test_a_malformed_header_is_one_clear_line(browser, packed_mini, tmp_path, wrong):
    content = gzip.decompress(packed_mini)
    header = json.loads(content[4 : 4 + int.from_bytes(content[:4], "little")])
    layer = retold(packed_mini, **broken_headers(header)[wrong])
    view_page(tmp_path, "kernels", STATES["kernels"], layer)
    page = browser.new_page()
    with served(tmp_path) as address:
        page.goto(f"{address}/index.html")
        page.wait_for_selector(".ctx-failed")
        said = page.locator(".ctx-view").inner_text()
    page.close()
    assert said == f"This view's data (layer.bin) cannot be used: its header is damaged ({wrong})."


def test_headings_go_down_by_one_level(browser, address):
    page = browser.new_page()
    page.route(
        "**/neurons.html",
        lambda route: route.fulfill(
            body=route.fetch().text().replace("<h2>Turn it</h2>", ""), content_type="text/html"
        ),
    )
    page.goto(f"{address}/neurons.html")
    page.wait_for_selector(READY["neurons"])
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[:2] == [1, 2]
    assert set(levels[1:]) == {2, 3}
    page.close()
