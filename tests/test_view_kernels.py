"""The view of kernels: what it shows is what ctxlib computes, every control turns it from the
keyboard, and nothing that an address or a file says can break it.
"""

import gzip
import json
import re

import pytest
import traitlets
from playwright.sync_api import expect
from viewing import needs_chromium, serious, served, view_page, watched

import ctxlib as cx
from ctxlib.widgets.layerfile import destinations, packed_layer

FIRST = {"heads": [], "n": -1, "scale": "log", "family": "all", "token": -1}
HOSTILE = '<img src=x onerror="document.title=1"></script>'
TABLE = ".ctx-kernels-numbers"


@pytest.fixture(scope="module")
def address(tmp_path_factory, packed_mini):
    folder = tmp_path_factory.mktemp("kernels")
    view_page(folder, "kernels", FIRST, packed_mini)
    nonsense = {"heads": [99], "n": 7.5, "scale": "loud", "family": HOSTILE, "token": "x"}
    view_page(folder, "kernels", nonsense, name="nonsense")
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def shared(browser):
    page = watched(browser.new_page(viewport={"width": 900, "height": 1000}))
    yield page
    page.close()


@pytest.fixture
def visit(shared, address):
    """A function that opens the view with this address behind the #."""

    def visit(hash="", name="index"):
        shared.goto("about:blank")
        shared.said.clear()
        shared.failed.clear()
        shared.goto(f"{address}/{name}.html{hash}")
        shared.wait_for_selector(TABLE)
        return shared

    return visit


def rows(page):
    """The table's rows: head, weight, effective tokens, half within, family."""
    page.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
    return page.evaluate(
        f"() => [...document.querySelectorAll('{TABLE} tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )


def heads(page):
    return [int(row[0]) for row in rows(page)[:-1]]


def read_at(page):
    return page.get_attribute("[role=slider]", "aria-valuetext")


def addressed(page):
    return page.evaluate("location.hash").lstrip("#").split("&")


def press(page, selector, *keys):
    page.focus(selector)
    for key in keys:
        page.keyboard.press(key)


def check_numbers(page, weights, n, token):
    kernels = cx.positional_kernels(weights, n, token)
    *shown, even = rows(page)
    spread, half = cx.effective_tokens(kernels).tolist(), cx.split.half_mass(kernels).tolist()
    assert [int(row[0]) for row in shown] == list(range(weights.n_heads))
    assert [float(row[2]) for row in shown] == pytest.approx(spread, rel=0.01, abs=0.06)
    assert [int(row[3]) for row in shown] == half
    assert float(even[2]) == n + 1
    assert float(even[1]) == pytest.approx(1 / (n + 1), rel=0.01)


# ---------------------------------------------------------------- numbers


@needs_chromium
def test_the_table_says_what_ctxlib_computes(visit, mini_weights):
    n = mini_weights.n_ctx // 2
    page = visit()
    check_numbers(page, mini_weights, n, " the")
    families = cx.families(mini_weights, n)["family"].tolist()
    assert [row[4] for row in rows(page)[:-1]] == families
    other = destinations(mini_weights)[1]
    check_numbers(visit(f"#n=301&token={other}"), mini_weights, 301, other)
    assert page.said == page.failed == []


@needs_chromium
@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_cursor_reads_the_weights_at_a_distance(visit, mini_weights, scale):
    page = visit(f"#heads=2,5&n=100&scale={scale}")
    kernels = cx.positional_kernels(mini_weights, 100).flip(-1)
    walk = [("Home", 0), ("ArrowRight", 0), ("PageUp", 10), ("ArrowLeft", 11), ("End", 100)]
    for key, distance in walk:
        press(page, "[role=slider]", key)
        said = re.fullmatch(
            r"(\d+) tokens back: head 2 (0\.\d+), head 5 (0\.\d+)", read_at(page)
        ).groups()
        assert int(said[0]) == distance
        expected = kernels[[2, 5], distance].tolist()
        assert [float(v) for v in said[1:]] == pytest.approx(expected, rel=0.01, abs=6e-6)
        assert [row[1] for row in rows(page)[:-1]] == list(said[1:])


@needs_chromium
def test_another_model_has_other_heads_and_positions(browser, tmp_path, tiny_weights):
    texts = cx.texts.passages(tiny_weights)
    view_page(tmp_path, "kernels", FIRST, packed_layer(tiny_weights, texts))
    with served(tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(TABLE)
        check_numbers(page, tiny_weights, 16, destinations(tiny_weights)[0])
        assert page.get_attribute("input[type=range]", "max") == "31"
        page.close()


# ---------------------------------------------------------------- controls


@needs_chromium
def test_the_keyboard_turns_every_control(visit, mini_weights):
    page = visit()
    every = list(range(mini_weights.n_heads))
    press(page, "input[type=checkbox]", "Space")
    assert heads(page) == every[1:]
    assert page.evaluate("location.hash") == f"#heads={','.join(map(str, every[1:]))}"
    press(page, "input[type=range]", "End", "ArrowLeft")
    n = mini_weights.n_ctx - 2
    assert f"n={n}" in addressed(page)
    # the address and the slider follow a key at once, the picture with the next frame
    expect(page.locator(".ctx-chart[role=img]")).to_have_attribute(
        "aria-label", re.compile(f"n = {n},")
    )
    assert page.get_attribute("input[type=range]", "aria-valuetext") == str(n)
    press(page, "input[type=radio]:checked", "ArrowRight")
    assert "scale=linear" in addressed(page)
    press(page, "select >> nth=1", "ArrowDown")
    token = destinations(mini_weights)[1]
    assert f"token={token}" in addressed(page)
    check = cx.effective_tokens(cx.positional_kernels(mini_weights, n, token))[1:]
    assert [float(r[2]) for r in rows(page)[:-1]] == pytest.approx(
        check.tolist(), rel=0.01, abs=0.06
    )
    assert page.said == []


@needs_chromium
def test_tab_reaches_every_control(visit):
    page = visit()
    controls = page.locator(".ctx-view :is(input, select, [tabindex='0'])").count()
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(controls + 2):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(e => e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? '')"
                "(document.activeElement)"
            )
        )
    named = {"Family", "Destination token", "Destination n", "logarithmic", "0", "7"}
    assert named | {"Read the kernels at a distance", "The kernels in numbers"} <= reached


@needs_chromium
def test_a_family_shows_its_heads_until_a_head_is_turned(visit, mini_weights):
    families = cx.families(mini_weights, mini_weights.n_ctx // 2)["family"]
    rarest = families.value_counts().idxmin()
    few = families.index[families == rarest].tolist()
    page = visit()
    page.select_option("select >> nth=0", rarest)
    assert heads(page) == few
    assert page.locator("input[type=checkbox]:checked").count() == len(few)
    other = families.index[families != rarest][0]
    page.locator("input[type=checkbox]").nth(other).press("Space")
    assert heads(page) == sorted([*few, other])
    assert page.input_value("select >> nth=0") == "all"
    assert "family" not in page.evaluate("location.hash")


@needs_chromium
def test_one_head_stays(visit):
    page = visit("#heads=3")
    page.locator("input[type=checkbox]").nth(3).press("Space")
    assert heads(page) == [3]


@needs_chromium
def test_the_place_that_was_read_stays_when_another_control_turns(visit):
    page = visit("#heads=3")
    press(page, "[role=slider]", "Home", "PageUp", "PageUp")
    press(page, "input[type=range]", "ArrowRight")
    assert heads(page) == [3]
    assert read_at(page).startswith("20 tokens back")


# ---------------------------------------------------------------- what could go wrong


@needs_chromium
@pytest.mark.parametrize(
    "hash",
    [
        "#heads=99&n=-5&scale=loud&family=none&token=7.5",
        "#heads=&n=NaN&scale=&family=%E0%A4%A&token=-1",
        "#heads=-1,2&n=1e9&token=Infinity",
        "#n=0&data=x&__proto__=1",
    ],
)
def test_nonsense_in_the_address_changes_nothing(visit, mini_weights, hash):
    page = visit(hash)
    check_numbers(page, mini_weights, mini_weights.n_ctx // 2, " the")
    assert page.said == []


@needs_chromium
def test_nonsense_in_the_page_falls_back(visit, mini_weights):
    page = visit(name="nonsense")
    check_numbers(page, mini_weights, mini_weights.n_ctx // 2, " the")
    assert page.said == []


def retold(layer, **changes):
    """The same layer with another header."""
    content = gzip.decompress(layer)
    size = int.from_bytes(content[:4], "little")
    text = json.dumps(json.loads(content[4 : 4 + size]) | changes).encode()
    text += b" " * ((-len(text) - 4) % 8)
    return gzip.compress(len(text).to_bytes(4, "little") + text + content[4 + size :], 1)


@needs_chromium
def test_markup_in_names_is_text(browser, tmp_path, packed_mini, mini_weights):
    facts = {"because": "", "effectiveTokens": 1, "halfMass": 1, "unevenness": 0}
    told = [facts | {"family": HOSTILE, "copyPreference": 0}] * mini_weights.n_heads
    view_page(tmp_path, "kernels", FIRST, retold(packed_mini, families=told))
    with served(tmp_path) as address:
        page = watched(browser.new_page())
        page.goto(address)
        page.wait_for_selector(TABLE)
        assert rows(page)[0][4] == HOSTILE
        assert page.locator(".ctx-view img").count() == 0
        assert page.title() == "One view"
        assert page.said == []
        page.close()


@needs_chromium
@pytest.mark.parametrize("broken", ["cut", "missing"])
def test_a_damaged_layer_is_one_line_and_leaves_the_picture(browser, tmp_path, packed_mini, broken):
    view_page(tmp_path, "kernels", FIRST, packed_mini[:-2000] if broken == "cut" else None)
    with served(tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(".ctx-failed")
        assert page.locator(".ctx-view > *").count() == 1
        assert page.text_content("#stand-in") == "a picture"
        page.close()


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_reader_out(visit, scheme):
    page = visit()
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    assert serious(page) == []


@needs_chromium
def test_a_telephone_needs_no_scrolling_sideways(visit):
    page = visit()
    page.set_viewport_size({"width": 390, "height": 800})
    rows(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 900, "height": 1000})


# ---------------------------------------------------------------- in Python


@pytest.fixture(scope="module")
def view(mini_view):
    return mini_view("Kernels", n=486, heads=[3, 4])


def test_traits_can_be_set_and_observed(view, mini_weights):
    seen, first = [], view.state()
    view.observe(lambda change: seen.append((change["name"], change["new"])))
    token = destinations(mini_weights)[1]
    turned = {"n": 5, "scale": "linear", "family": "local", "token": token, "heads": []}
    for name, value in turned.items():
        setattr(view, name, value)
    view.unobserve_all()
    assert dict(seen) == view.state() == turned
    for name, value in first.items():
        setattr(view, name, value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("heads", [8], "head 8: there are 0 to 7"),
        ("heads", [-1], "head -1"),
        ("heads", ["a"], "heads"),
        ("n", 512, "destination 512: there are 1 to 511"),
        ("n", 0, "destination 0"),
        ("n", -2, "destination -2"),
        ("n", 2.5, "int"),
        ("token", 0, "token 0: those that can ask are"),
        ("scale", "sqrt", "'log', 'linear'"),
        ("family", "loud", "slowly decaying"),
    ],
)
def test_what_does_not_exist_is_refused(view, name, value, said):
    before = view.state()
    with pytest.raises(traitlets.TraitError, match=re.escape(said)):
        setattr(view, name, value)
    assert view.state() == before


def test_what_does_not_exist_is_refused_from_the_start(mini_view):
    with pytest.raises(traitlets.TraitError, match="destination 512"):
        mini_view("Kernels", n=512)
