"""What every view keeps, one test a promise: a state in the address, keys alone, names and roles,
small screens and forced colours, one line where data are damaged, any host of the anywidget
protocol, several side by side. What only one view shows is in `test_view_*.py`.
"""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect
from shown import each, fragment, loads
from test_pages import contrast
from viewing import (
    DESK,
    OF_LAYERS,
    PHONE,
    VIEWS,
    Gate,
    blameless,
    header,
    in_firefox_too,
    opened,
    repacked,
    serious,
    settled,
    turned,
    view_page,
    whole,
)

import ctxlib as cx
import ctxviews as cv
from ctxviews import packed_layer
from ctxviews.views import LayerView

HOSTILE = '<img/src=x/onerror="document.title=1"></script><b>'
LAYER = "This view's data (layer.bin) cannot be used"

# Tests of a view follow one another, so that its page is opened anew only where a test needs it.
every_view = pytest.mark.parametrize("view", VIEWS, scope="module")


def spoilt(held):
    """The same, with markup for every string."""
    if isinstance(held, dict):
        return {name: spoilt(value) for name, value in held.items()}
    if isinstance(held, list):
        return list(map(spoilt, held))
    return HOSTILE if isinstance(held, str) else held


@pytest.fixture(scope="module")
def small(views, mini_weights):
    """One view of each kind, of few neurons: nothing takes long."""
    few = {name: getattr(mini_weights, name)[..., :128] for name in ("W_in", "b_in")}
    weights = replace(mini_weights, **few)
    return views | {name: getattr(cv, kind)(weights) for name, kind in OF_LAYERS.items()}


@pytest.fixture(scope="module")
def layers(make_folder):
    """Layers where little is there, or much, and one that has what it should not."""

    def toy(heads):
        weights = cx.LayerWeights.of(cx.load(make_folder(n_head=heads, n_embd=64, seed=3)))
        return packed_layer(weights, cx.texts.collection(weights, 10))

    some = toy(1)
    head = header(some)
    few = {"stable": [], "destinations": head["destinations"][:1], "passages": head["passages"][:1]}
    hostile = spoilt({name: head[name] for name in ("passages", "families", "vocab")})
    return {
        "many-heads": toy(32),
        "few": repacked(some, **few),
        "no-tokenizer": repacked(some, byte_level=False),
        "hostile": repacked(some, byte_level=False, **hostile),
        "cut": some[:-2000],
    }


RECORDED = ("denominators", "positions", "lookups")


@pytest.fixture(scope="module")
def address(address, view_folder, views, small, layers):
    folder, states = view_folder / "promises", {name: whole(view) for name, view in small.items()}
    for name, view in small.items():
        free = ("text", "other") if name == "reader" else ()  # any text is a text to read
        turned = {trait: value for trait, value in view.state().items() if trait not in free}
        senseless = {trait: [-7.5] if value == [] else -7.5 for trait, value in turned.items()}
        layer = small["rows"].prepared.data
        for place, state in ((folder, {}), (folder / "senseless", senseless)):
            view_page(place, (name, states[name] | state), layer=layer, name=name)
    view_page(folder, name="host")
    of_layer = [(name, states[name]) for name in OF_LAYERS]
    for name, layer in layers.items():
        view_page(folder / name, *of_layer, layer=layer)
    hostile = [(name, states[name] | spoilt({"record": views[name].record})) for name in RECORDED]
    view_page(folder, *hostile, name="hostile")
    bare = (folder / "few" / "index.html").read_text().replace("<h2>Turn it</h2>", "")
    (folder / "few" / "bare.html").write_text(bare)
    view_page(folder / "missing", *of_layer)
    view_page(folder, *[("../views/rows", states["rows"])] * 4, name="nowhere")
    view_page(folder, *[(name, states[name] | TURNED[name]) for name in VIEWS], name="all")
    return f"{address}/promises"


SNAPSHOT = """() => [document.querySelector("main").innerText,
    [...document.querySelectorAll("input, select, textarea")]
        .map((e) => ["radio", "checkbox"].includes(e.type) ? e.checked : e.value)]"""


def snapshot(page):
    """All that a page shows, and where its controls stand."""
    return page.evaluate(SNAPSHOT)


# a state in which a view shows much, and other things than at first
TURNED = {
    "rows": {"passage": 2, "head": 5, "n": 33, "octaves": -1},
    "kernels": {"heads": [2, 5], "n": 100},
    "neurons": {"neuron": 7, "heads": [0, 2, 6], "threshold": 4, "search": "colourful"},
    "reader": {"text": "Grey, and &#=%", "other": "", "neuron": 5, "heads": [1, 2]},
    "denominators": {"head": 2, "text": 3, "bound": "Hoeffding", "level": 0.9},
    "positions": {"kind": 2, "head": 5},
    "lookups": {"neuron": 1, "prompt": 2, "heads": [1, 2]},
}


# ---------------------------------------------------------------- keys and the address

# what turns a control, by its kind; words are typed over what was there
KEYS = {
    "select-one": ["ArrowDown"],
    "radio": ["ArrowRight"],
    "checkbox": ["Space"],
    "range": ["Home", "ArrowRight"],
    "slider": ["Home", "End"],
    "button": ["Enter"],
    "number": ["Control+A", *"77"],
    "text": [*"war"],  # it is looked up while one types
    "textarea": ["Control+A", *"We go"],  # of two tokens, so that a reader of tokens can move
}
# the kind and a name of what has the focus, or of every control; one stands for those of a group
HERE = "labelOf(document.activeElement)"
ALL = "[...document.querySelectorAll(CONTROLS)].filter((e) => e.checkVisibility()).map(labelOf)"
LABELS = """
    window.CONTROLS = ".ctx-view :is(input, select, textarea, [role=slider], " +
        ".ctx-pick:not([aria-current=true]))";
    window.labelOf = (e) => {
        if (!e.matches(CONTROLS)) return e.id === "end" ? "end" : "";
        const group = e.closest("fieldset, table, [role=group], .ctx-neurons-driven");
        const name = group ? `${group.className} ${group.querySelector("legend")?.textContent}`
            : (e.ariaLabel ?? e.labels?.[0]?.textContent ?? e.textContent);
        return `${e.type ?? e.role}: ${name}`;
    };
    window.readout = (control) => /^slider|^textarea|Read a token/.test(control)
        ? document.activeElement.getAttribute("aria-valuetext")
            ?? document.querySelector(".ctx-view").innerText
        : location.hash; // for all that does not only read
    const end = Object.assign(document.createElement("button"), { id: "end" });
    document.body.append(end);  // behind it a browser's own controls follow
    """
VALUES = """[...document.querySelectorAll("select, textarea, input")]
    .filter((e) => e.checked || !["radio", "checkbox"].includes(e.type))
    .filter((e) => e.type !== "text" && !labelOf(e).includes("Read a token")).map((e) => e.value)"""


def turned_by_keys(page):
    """Turns every control: the last address, and how controls and page stood under it."""
    page.evaluate(LABELS)
    reached, led = set(), None
    for _ in range(200):
        page.keyboard.press("Tab")
        control = page.evaluate(HERE)
        if control == "end":
            break
        if not control or control in reached:
            continue
        reached.add(control)
        *first, last = KEYS[control.partition(":")[0]]
        for key in first:
            page.keyboard.press(key)
        before = page.evaluate("(control) => readout(control)", control)
        page.keyboard.press(last)
        page.wait_for_function(
            "([control, before]) => readout(control) !== before", arg=[control, before]
        )
        shown = snapshot(settled(page))
        if led is None or led[0] != page.evaluate("location.hash"):
            led = page.evaluate("location.hash"), page.evaluate(VALUES), shown
    assert {*page.evaluate(ALL)} <= reached
    assert page.locator(".ctx-failed").count() == 0
    return led


@every_view
def test_keys_alone_turn_everything_and_the_address_holds_it(visit, view):
    page = visit("", view, fresh=True)
    plain = snapshot(page)
    hash, controls, shown = turned_by_keys(page)
    page = visit(hash, view, fresh=True)
    found = snapshot(page)
    page.evaluate(LABELS)
    assert page.evaluate(VALUES) == controls
    if view not in ("neurons", "reader", "lookups"):  # which keep what was read in between
        assert found == shown
    assert snapshot(turned(page, "turn-it")) == found  # a link to a heading leaves it
    assert snapshot(turned(page, "")) == plain != found
    assert snapshot(turned(page, hash)) == found
    page.get_by_role("button", name="Reset", exact=True).press("Enter")  # a pointer would read
    page.wait_for_url(lambda url: "#" not in url)
    assert snapshot(settled(page)) == plain


@pytest.mark.parametrize("browser", ["firefox"], indirect=True)
@pytest.mark.parametrize("view", ["neurons", "reader"])
def test_keys_turn_every_kind_of_control_in_firefox_too(visit, view):
    turned_by_keys(visit("", view, fresh=True))


TEXTS = ("reader",)  # of which any text is one
# addresses that say nothing that could be, whatever a view's traits are
NONSENSE = [
    "#head=99&kind=3&heads=99&n=-5&octaves=NaN&scale=cubic&passage=7.5&prompt=-1&neuron=-5&theta=-3"
    "&text=-2&family=none&token=7.5&bound=toString&level=7&search=%E0%A4%A&window=-1&cursor=512",
    "#head=8&heads=-1,2&n=1e9&octaves=-2.01&passage=-2&prompt=0.5&neuron=NaN&theta=Infinity"
    "&text=1.5&scale=&bound=&level=0&token=12345678&pinned=1e9&other_window=8192&other_cursor=-2",
    "#head=x&heads=a,b&n=&octaves=Infinity&passage=%E0%A4%A&prompt=1e9&neuron=1e99&level=Infinity"
    "&bound=%E0%A4%A&token=Infinity&text=1e9&pinned=-2&window=0.5&cursor=x",
    "#head=-1&heads=1.5&n=NaN&record=5&data=1&layer=x&__proto__=1&no=such&=&&#",
    "#" + "<img src=x onerror=document.title=1>" * 50,
    "#%%&=&text",
]


@every_view
def test_nonsense_in_an_address_or_a_state_changes_nothing(visit, view):
    senseless, plain = (
        snapshot(visit("", name, fresh=True)) for name in (f"senseless/{view}", view)
    )
    assert senseless == plain
    given = [n.replace("text=", "no=") if view in TEXTS else n for n in NONSENSE]
    assert snapshot(visit(given[0], view, fresh=True)) == plain
    for nonsense in given:
        assert snapshot(visit(nonsense, view)) == plain


# ---------------------------------------------------------------- for everyone

SHADED = {
    "rows": [".ctx-token"],
    "reader": [".ctx-token"],
    "neurons": [".ctx-token", ".ctx-neurons-bar"],
    "lookups": [".ctx-token", ".ctx-lookups-bar"],
}


def test_nothing_keeps_a_reader_out_of_any_view(visit):
    """By what axe finds, and where the system sets the colours."""
    page = visit(name="all")
    assert serious(page) == []
    page.emulate_media(forced_colors="active")
    for view in VIEWS:
        here = page.locator(f"[data-view={view}]")
        for kind in SHADED.get(view, []):
            assert len(set(each(here.locator(kind), "getComputedStyle(e).backgroundColor"))) > 1
        chosen = here.locator(".ctx-chip input:checked + span")
        marked = each(chosen, "getComputedStyle(e).outlineStyle")
        assert set(marked) == ({"solid"} if here.locator(".ctx-chip").count() else set())
    page.emulate_media(forced_colors="none")


LEVELS = "[...document.querySelectorAll('h2, h3, h4, h5')].map((e) => Number(e.tagName[1]))"
IDS = "[...document.querySelectorAll('[id]')].map((e) => e.id)"


def test_all_views_share_a_page_its_layer_and_an_outline_without_gaps(visit):
    page = visit(name="all")
    assert loads(page, ".bin") == 1
    assert set(page.evaluate(LEVELS)) == {2, 3}
    page.locator("[data-view=rows] input[value='2']").first.check()
    page.wait_for_url("**head=2**")
    assert settled(page).locator("[data-view=kernels] :checked[type=checkbox]").count() == 2
    ids = page.evaluate(IDS)
    assert len(set(ids)) == len(ids)


@in_firefox_too
def test_a_phone_shows_all_of_it_in_letters_that_can_be_read(visit):
    page = visit(name="all")
    page.set_viewport_size(PHONE)
    settled(page)
    # a browser of a desk may keep some of the width for its scroll bar
    wide, room = each(page.locator("html"), "[e.scrollWidth, e.clientWidth]")[0]
    drawings = each(page.locator("svg.ctx-chart"), "e.getBoundingClientRect().width")
    assert max([wide, *drawings]) == room <= PHONE["width"]
    texts = page.locator(".ctx-view *").filter(has_text=re.compile(r"\S"))
    assert min(each(texts, "parseFloat(getComputedStyle(e).fontSize)")) >= 12


def test_a_finger_has_its_readout_in_sight(browser, address):
    with opened(browser, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.goto(f"{address}/rows.html#n=400")
        token = settled(page).locator("[data-place='5']")
        token.tap()
        readout = page.locator(".ctx-touched")
        expect(readout).to_have_text(token.get_attribute("title"))
        expect(page.locator(".ctx-token.ctx-held")).to_have_attribute("data-place", "5")
        box = readout.bounding_box()
        assert 0 <= box["y"] <= box["y"] + box["height"] <= PHONE["height"]


# ---------------------------------------------------------------- what could go wrong


DAMAGED = {
    "cut/index": f"{LAYER}: it is damaged or cut off.",
    "missing/index": f"{LAYER}: the server answers 404.",
    "nowhere": "This view could not be started. Reload the page to try again.",
}


@in_firefox_too
def test_damaged_data_are_one_line_and_the_picture_stays(window, address):
    for name, message in DAMAGED.items():
        window.goto(f"{address}/{name}.html")
        count = window.locator("[data-view]").count()
        assert count >= 4
        assert settled(window).locator(".ctx-view").all_inner_texts() == [message] * count
        assert window.locator(".ctx-view > .ctx-failed[role=alert]").count() == count
        assert window.locator(".stand-in:visible").count() == count
    window.faults.clear()  # a browser reports it too


UPDATES = {view: [f"views/{view}", "changed) => {"] for view in VIEWS} | {
    "kernels": ["views/kernels", "({ width, ...now }) => {"],
    "denominators": ["views/denominators", "const update = (now) => {"],
    "neurons": ["explorer/passages", "changed) => {"],  # the last that is drawn
}


@every_view
def test_an_update_that_fails_leaves_one_line_and_no_number(browser, address, view):
    module, update = UPDATES[view]

    def planted(route):
        source = route.fetch().text()
        assert update in source
        source = source.replace(
            update, f"{update} if (globalThis.faulty) throw new Error('planted');"
        )
        route.fulfill(body=source, content_type="text/javascript")

    with opened(browser, viewport=DESK) as page:
        page.route(f"**/{module}.js", planted)
        page.goto(f"{address}/{view}.html")
        assert settled(page).locator(".ctx-failed").count() == 0
        page.evaluate("globalThis.faulty = true")
        turned(page, fragment(**TURNED[view]))
        message = "This view could not be drawn. Reload the page to try again."
        expect(page.locator(".ctx-view")).to_have_text(message)
        expect(page.locator(".ctx-failed[role=alert]")).to_have_count(1)


def test_names_and_tokens_are_never_markup(visit):
    for name in ("hostile/index", "hostile"):
        page = visit(name=name)
        assert page.locator(".ctx-failed").count() == 0
        assert page.locator(".ctx-view :is(script, img, b)").count() == 0
        assert page.title() == "One view"
        for place in page.locator(".ctx-tokens, .ctx-view:not([data-view=reader] > *)").all():
            assert HOSTILE in place.inner_text()


TYPED = [
    "<img src=x onerror=\"document.title='broken'\"> and more words",
    "</textarea></script><script>document.title='broken'</script> and more words",
    "<b><i>" * 150,
    "\ud800 a lone half, \u202eturned round\u202c, \u200bhidden\u200d, \0 and \x1b",
    "שלום עולם, مرحبا بالعالم, 你好, 👩‍👩‍👧‍👦 é",
]


@pytest.mark.parametrize(
    ("view", "field"), [("neurons", ".ctx-neurons-find input"), ("reader", "textarea >> nth=0")]
)
def test_what_is_typed_is_never_markup(visit, view, field):
    page = visit(name=view)
    for typed in TYPED:
        page.fill(field, typed)
        if view == "neurons":
            page.press(field, "Enter")
        shown = settled(page).locator(".ctx-reader-text").all_text_contents()
        if shown and typed.startswith("<"):
            assert shown[0].startswith(("<|endoftext|>\u2009" + typed)[: len(shown[0])][:200])
        assert page.locator(".ctx-view :is(script, img, b, i), .ctx-failed").count() == 0
    assert page.title() == "One view"
    for keep in page.get_by_role("checkbox", name="Put the texts").all():
        keep.check()  # lone halves fit into no address
    settled(page)


@pytest.mark.parametrize(
    "name", ["few/index", "few/bare", "no-tokenizer/index", "many-heads/index"]
)
def test_views_of_little_or_of_much_are_whole(visit, name):
    page = visit(name=name)
    assert page.locator(".ctx-failed").count() == 0
    markup = page.locator("main").evaluate("main => main.innerHTML")
    for broken in ("NaN", "undefined", "null", "Infinity"):
        assert broken not in re.sub(r'data-state="[^"]*"', "", markup)
    reads = page.locator("[data-view=reader] textarea").count()
    assert reads == (0 if name == "no-tokenizer/index" else 2)
    assert page.get_by_text("a page cannot read text for it").count() == (reads == 0)
    counts = page.locator("[data-view=reader] .ctx-reader-count").all_text_contents()
    if reads:  # as far as the model's context
        assert counts[0].startswith("The first 31 of ")
    assert set(page.evaluate(LEVELS)) == ({2} if name == "few/bare" else {2, 3})


def test_heads_are_distinct_without_colour_and_stand_out(visit):
    page = visit(name="many-heads/index")
    lines = page.locator("[data-view=kernels] .ctx-chips .ctx-mark line")
    marks = each(lines, "[e.getAttribute('stroke'), e.getAttribute('stroke-dasharray')]")
    assert len(marks) == len(set(map(tuple, marks))) == 32
    dashes = [dash for _, dash in marks]
    assert all(dashes[head] != dashes[head + 1] for head in range(0, 32, 2))
    for ground in ("#ffffff", "#14181e"):
        assert min(contrast(stroke, ground) for stroke, _ in marks) >= 3


NAMES = """[e.getBoundingClientRect().right, [...e.querySelectorAll(".ctx-named")]
    .map((name) => name.getBoundingClientRect()).map(({ right, top }) => [right, top])]"""


@pytest.mark.parametrize("view", ["rows", "positions", "reader"])
def test_lines_bear_their_names_uncut_and_apart(visit, view):
    page = visit("", view)
    for size in (DESK, PHONE):
        page.set_viewport_size(size)
        drawings = each(settled(page).locator("svg:has(.ctx-named)"), NAMES)
        assert drawings
        for edge, names in drawings:
            ends, tops = zip(*sorted(names, key=lambda name: name[1]), strict=True)
            assert len(names) > 1 and max(ends) <= edge
            assert min(b - a for a, b in pairwise(tops)) > 12


def test_views_that_are_removed_while_they_load_stay_silent(browser, address):
    with opened(browser) as page:
        gate = Gate(page, "**/layer.bin")
        page.goto(f"{address}/few/index.html")
        expect(page.locator(".ctx-waiting")).to_have_count(len(OF_LAYERS))
        page.evaluate("window.left = [...document.querySelectorAll('[data-view]')]")
        page.evaluate("left.forEach((place) => place.remove())")
        gate.open()
        page.wait_for_function("left.every((place) => !place.ariaBusy)")
        views = "left.map((place) => place.querySelector('.ctx-view').childElementCount)"
        assert page.evaluate(views) == [0] * len(OF_LAYERS)


@pytest.mark.parametrize("view", ["rows", "kernels"])
def test_a_drawing_made_anew_keeps_the_keyboards_place(visit, view):
    page = visit("", view)
    page.focus(".ctx-readable")
    turned(page, "n=100")
    page.keyboard.press("End")
    for fixed in ("aria-valuemax", "aria-valuenow"):
        expect(page.locator(".ctx-readable")).to_have_attribute(fixed, "100")


def test_a_view_that_was_hidden_takes_the_width_it_gets(visit):
    page = visit("", "kernels")
    view = page.locator(".ctx-view")
    view.evaluate("(e) => (e.style.display = 'none')")
    turned(page, "n=100")  # drawn without any width
    page.set_viewport_size({"width": 500, "height": 900})
    view.evaluate("(e) => (e.style.display = '')")
    page.wait_for_function(
        "document.querySelector('.ctx-readable svg').viewBox.baseVal.width"
        " === document.querySelector('.ctx-view').clientWidth"
    )


# ---------------------------------------------------------------- in any host

LISTENING = "hosted.map(({ listeners }) => [...listeners.values()].reduce((n, s) => n + s.size, 0))"


@pytest.fixture
def host(window, address):
    """A page that shows views as a notebook does (host.js)."""
    window.set_viewport_size(DESK)
    window.goto(f"{address}/host.html")
    window.add_script_tag(path=Path(__file__).with_name("host.js"))
    yield window
    blameless(window)


def hosted(page, *views, **how):
    """The page when it hosts these views."""
    for view in views:
        given = {"source": view._esm, "state": whole(view), **how}
        if isinstance(view, LayerView):
            given |= {"data": "data/layer.bin", "state": given["state"] | {"layer": view.layer}}
        page.evaluate("(given) => host(given)", given)
    return page


@every_view
def test_any_host_of_the_protocol_runs_two_of_a_view_that_leave_each_other_alone(host, small, view):
    page = settled(hosted(host, small[view], small[view]))
    assert page.evaluate("window.requests ?? 0") == (view in OF_LAYERS)  # once for both
    ids = page.evaluate(IDS)
    assert len(set(ids)) == len(ids)

    first, other = (f"[hosted[{i}].values, hosted[{i}].el.innerText]" for i in (0, 1))
    alone, before = page.evaluate(first), page.evaluate(other)
    page.evaluate(
        "(traits) => Object.entries(traits).forEach(([k, v]) => hosted[1].model.set(k, v))",
        TURNED[view],
    )
    after = settled(page).evaluate(other)
    assert after[1] != before[1]
    control = page.locator(".ctx-view").last.locator("input:checked, select").last
    control.focus()
    for key in KEYS[control.evaluate("(e) => e.type")]:
        page.keyboard.press(key)
    assert settled(page).evaluate(other) != after
    assert page.evaluate(first) == alone

    assert min(page.evaluate(LISTENING)) > 0
    page.evaluate("hosted.forEach(({ end }) => end())")
    assert page.evaluate(LISTENING) == [0, 0]


def test_a_host_may_keep_views_in_a_shadow_with_style_and_focus(host, small):
    for name in ("neurons", "reader"):
        page = hosted(host, small[name], css=small[name]._css)
    page.locator(".ctx-neurons:not([aria-busy]) .ctx-neurons-list tbody tr").first.wait_for()
    here = "document.activeElement.shadowRoot?.activeElement"

    expect(page.locator(".ctx-chip span").first).to_have_css("border-top-style", "solid")
    field = page.locator(".ctx-neurons-find input")
    field.focus()
    # what is typed is ahead of what is painted: nothing is put over it that was true before
    field.evaluate("(e) => { hosted[0].model.set('search', ' the'); e.value = ' them'; }")
    page.get_by_text("␣the drives up").wait_for()
    assert field.input_value() == " them"

    token = page.locator(".ctx-reader-text").first.locator("[data-place='3']")
    token.wait_for()
    # a text is drawn anew once its neuron is chosen: a press that begins before may find no end
    expect(page.locator("[data-working]")).to_have_count(0, timeout=60_000)
    token.click()
    page.locator(".ctx-reader-text .ctx-held").wait_for()
    assert page.evaluate(f"{here}.contains(hosted[1].el.querySelector('[data-place]'))")
    page.keyboard.press("Escape")
    page.locator(".ctx-reader-text .ctx-held").wait_for(state="detached")


def test_a_view_is_light_on_dark_where_colab_is(host, small):
    page = hosted(host, small["kernels"])
    of_the_book = "--pst-color-text-base, --pst-color-background, --pst-color-text-muted"
    page.add_style_tag(content=f":root {{ {of_the_book.replace(',', ': initial;')}: initial }}")
    expect(page.locator(".ctx-view")).to_have_css("color", "rgb(0, 0, 0)")
    page.evaluate("document.documentElement.setAttribute('theme', 'dark')")
    expect(page.locator(".ctx-view")).to_have_css("color", "rgb(255, 255, 255)")


def test_a_saved_notebook_without_a_kernel_explains_what_to_do(host, small):
    """The last: a clock is a page's for good."""
    host.clock.install(time=0)
    host.clock.pause_at(1)  # it goes on when it is called, however slow the machine
    page = hosted(host, small["rows"], silent=True)
    waiting = page.locator(".ctx-waiting")
    page.clock.run_for(9_000)
    expect(waiting).not_to_contain_text("run the cell again")
    page.clock.run_for(2_000)
    expect(waiting).to_contain_text("They come from Python: if they do not, run the cell again.")
