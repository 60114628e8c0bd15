"""The view of attention rows: what the page shows against ctxlib, and its traits."""

import gzip
import json
import re

import pytest
import torch
import traitlets
from viewing import serious, served, view_page, watched

import ctxlib as cx

STATE = {"passage": 0, "head": 0, "n": 0, "octaves": 0.0, "scale": "linear"}


@pytest.fixture(scope="module")
def address(tmp_path_factory, packed_mini, mini_weights):
    folder = tmp_path_factory.mktemp("site")
    view_page(folder, "rows", STATE, packed_mini)
    broken = folder / "broken"
    view_page(broken, "rows", STATE, packed_mini[: len(packed_mini) // 2])
    third = int(cx.texts.passages(mini_weights)[0].tokens[3])
    view_page(folder / "hostile", "rows", STATE, named(packed_mini, third, HOSTILE))
    with served(folder) as address:
        yield address


HOSTILE = "<img/src=x/onerror=hacked=1>"


def named(packed, token, name):
    """The same layer with another name for its passages and for a token."""
    content = gzip.decompress(packed)
    size = int.from_bytes(content[:4], "little")
    header = json.loads(content[4 : 4 + size])
    for passage in header["passages"]:
        passage["title"] = passage["domain"] = name
    header["vocab"][token] = name
    header["byte_level"] = False  # and of a tokenizer that pages cannot do
    head = json.dumps(header).encode()
    head += b" " * ((-len(head) - 4) % 8)
    return gzip.compress(len(head).to_bytes(4, "little") + head + content[4 + size :], mtime=0)


@pytest.fixture(scope="module")
def window(browser):
    page = watched(browser.new_page())
    yield page
    page.close()


@pytest.fixture
def visit(window, address):
    """A function that opens the page anew and waits for all that the view computes."""
    window.set_viewport_size({"width": 900, "height": 900})

    def visit(state="", folder=""):
        window.goto("about:blank")
        window.goto(f"{address}/{folder}index.html{state}")
        window.wait_for_selector(".ctx-chart, .ctx-failed")
        return settled(window)

    yield visit
    assert (window.elsewhere, window.failed, window.said) == ([], [], [])


def settled(page):
    """Two pictures on, and with no head left to compute."""
    page.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    page.wait_for_function(
        "[...document.querySelectorAll('.ctx-chip small')].every(e => e.textContent !== '–')"
    )
    return page


def number(text):
    return float(text.replace("\u2212", "-"))


def variations(page):
    """The total variation that each head bears."""
    return [number(said) for said in page.locator(".ctx-chip small").all_inner_texts()]


def rows_of(weights, passage=0, n=None, octaves=0.0):
    """True and rebuilt rows of all heads."""
    tokens = cx.texts.passages(weights)[passage].tokens
    n = weights.n_ctx // 2 if n is None else n
    C = weights.typical_norm() * 2**octaves
    return cx.attention_rows(weights, tokens, n), cx.rebuilt_rows(weights, tokens, n, C=C)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "state",
    [{}, {"passage": 30, "n": 1}, {"passage": 71, "n": 511, "octaves": -1.5}, {"octaves": 2}],
)
def test_the_distances_are_ctxlibs(visit, mini_weights, state):
    page = visit("#" + "&".join(f"{name}={value}" for name, value in state.items()))
    true, rebuilt = rows_of(mini_weights, **state)
    expected = cx.total_variation(true, rebuilt).tolist()
    assert variations(page) == pytest.approx(expected, abs=0.006)
    said = page.locator(".ctx-view > p").first.inner_text()
    assert f"is {variations(page)[0]:.3f}." in said


@pytest.mark.parametrize("head", [0, 1, 6])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_rows_read_what_ctxlib_computes(visit, mini_weights, head, scale):
    page = visit(f"#passage=12&head={head}&n=40&scale={scale}")
    true, rebuilt = (row[head] for row in rows_of(mini_weights, passage=12, n=40))
    handle = page.get_by_role("slider", name="Read the rows")
    assert handle.get_attribute("aria-valuenow") == str(40 - int(true.argmax()))
    handle.focus()
    page.keyboard.press("Home")
    shown = []
    for _ in range(41):
        text = handle.get_attribute("aria-valuetext")
        values = re.search(r"true ([\d.e\u2212]+), rebuilt ([\d.e\u2212]+)$", text).groups()
        shown.append([number(value) for value in values])
        page.keyboard.press("ArrowLeft")  # the past lies to the left
    expected = torch.stack([true, rebuilt], 1).flip(0)
    near = {"atol": 0.01 * float(true.max()), "rtol": 0}
    torch.testing.assert_close(torch.tensor(shown), expected, check_dtype=False, **near)


def test_reading_a_row_marks_the_token(visit):
    page = visit("#n=20")
    page.get_by_role("slider", name="Read the rows").focus()
    page.keyboard.press("Home")
    assert page.locator(".ctx-at").get_attribute("data-place") == "20"
    page.locator("[data-place='5']").hover()
    assert page.locator(".ctx-at").get_attribute("data-place") == "5"
    assert page.locator(".ctx-said").inner_text().count("15 back") == 1
    # what is pointed at is read without a new drawing: the keyboard keeps its place
    assert page.evaluate("document.activeElement.getAttribute('aria-valuenow')") == "15"
    page.keyboard.press("ArrowRight")
    assert page.locator(".ctx-at").get_attribute("data-place") == "6"


def test_tokens_are_named_as_in_the_books_tables(visit, mini, mini_weights):
    page = visit("#passage=3&n=40")
    tokens = cx.texts.passages(mini_weights)[3].tokens[:41].tolist()
    words = [mini.tokenizer.decode([t]).replace(" ", "␣").replace("\n", "↵") for t in tokens]
    titles = page.locator(".ctx-token").evaluate_all("all => all.map((token) => token.title)")
    assert [title.rpartition(" ")[0] for title in titles] == words
    assert page.locator(".ctx-word").inner_text() == words[-1]


def test_all_heads_are_computed_in_two_passes(visit):
    page = visit()
    page.evaluate(
        """async () => {
            const { Layer } = await import("./views/engine/layer.js");
            const rows = Layer.prototype.rows;
            window.passes = 0;
            Layer.prototype.rows = function (x) { passes += 1; return rows.call(this, x); };
        }"""
    )
    page.evaluate("location.hash = 'n=100'")
    page.wait_for_selector(".ctx-readable[aria-valuemax='100']")
    assert page.evaluate("passes") == 2
    assert "–" not in page.locator(".ctx-chip small").all_inner_texts()
    page.evaluate("location.hash = 'n=100&head=3'")
    page.wait_for_selector("svg[aria-label*='head 3 ']")
    assert page.evaluate("passes") == 2  # they are there


def test_a_character_of_several_tokens_is_shown_whole(visit, mini_weights):
    decode = mini_weights.tokenizer.decode
    passages = cx.texts.passages(mini_weights)
    page = visit()
    told = page.evaluate(
        """async (passages) => {
            const { loadLayer } = await import("./views/engine/packed.js");
            const { Tokenizer } = await import("./views/engine/tokenizer.js");
            const layer = await loadLayer(new URL("data/layer.bin", location));
            const tokenizer = new Tokenizer(layer.vocab, layer.merges);
            return passages.map((ids) => tokenizer.stretches(ids));
        }""",
        [p.tokens.tolist() for p in passages],
    )
    for passage, stretches in zip(passages, told, strict=True):
        assert len(stretches) == len(passage.tokens)
        assert "".join(stretches).rstrip("\ufffd") == decode(passage.tokens).rstrip("\ufffd")
    alone = [sum("\ufffd" in decode([t]) for t in p.tokens[:100]) for p in passages]
    broken = max(range(len(alone)), key=alone.__getitem__)
    assert alone[broken] > 0
    page = visit(f"#passage={broken}&n=100")
    text = page.locator(".ctx-tokens")
    assert "\ufffd" not in text.inner_text()
    titles = [e.get_attribute("title") for e in text.locator("[data-place]").all()]
    assert not any("\ufffd" in title for title in titles)


def test_the_text_ends_at_the_destination(visit, mini, mini_weights):
    page = visit("#passage=3&n=7")
    tokens = cx.texts.passages(mini_weights)[3].tokens[:8].tolist()
    words = [mini.tokenizer.decode([t]) for t in tokens]
    spans = page.locator(".ctx-token").all_text_contents()
    assert [w.replace("\n", "↵") for w in words] == spans


# ---------------------------------------------------------------- turning


def test_keyboard_alone_turns_everything(visit):
    page = visit()

    def hash_now():
        settled(page)
        return page.evaluate("location.hash")

    for key, turned in (
        ("ArrowRight", "head=1"),
        ("ArrowDown", "passage=1"),
        ("ArrowRight", "n=257"),
        ("ArrowRight", "octaves=0.25"),
        ("ArrowRight", "scale=log"),
    ):
        page.keyboard.press("Tab")
        page.keyboard.press(key)
        assert turned in hash_now().lstrip("#").split("&")
    assert hash_now().count("=") == 5
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.locator(".ctx-said").inner_text().count("257 back") == 1


def test_a_state_in_an_address_is_shown(visit):
    page = visit("#head=5&n=33&octaves=-1&passage=2&scale=log")
    assert page.locator(".ctx-chip:has(small) input:checked").get_attribute("value") == "5"
    assert page.get_by_label("Destination n").input_value() == "33"
    assert page.get_by_label("Destination n").get_attribute("max") == "511"
    assert page.get_by_label("C, and how many").get_attribute("aria-valuetext").endswith("(0.50 ×)")
    assert page.locator("select").input_value() == "2"
    assert page.get_by_role("radio", name="log").is_checked()
    page.evaluate("location.hash = 'head=2'")
    settled(page)
    assert page.locator(".ctx-chip:has(small) input:checked").get_attribute("value") == "2"
    assert page.get_by_label("Destination n").input_value() == "256"


@pytest.mark.parametrize(
    "nonsense",
    [
        "#head=99&n=-5&octaves=NaN&scale=cubic&passage=7.5",
        "#head=8&n=1e9&octaves=-2.01&passage=-1&scale=",
        "#head=x&n=&octaves=Infinity&passage=%E0%A4%A&data=1",
        "#" + "<img src=x onerror=hacked=1>" * 50,
    ],
)
def test_nonsense_in_an_address_falls_back(visit, nonsense):
    plain = visit().locator("main").inner_text()
    page = visit(nonsense)
    assert page.locator("main").inner_text() == plain
    assert page.evaluate("typeof hacked") == "undefined"


# ---------------------------------------------------------------- for everyone


def test_names_and_tokens_are_never_markup(visit):
    page = visit("#n=9", folder="hostile/")
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator(".ctx-view img").count() == 0
    assert HOSTILE in page.locator("select").inner_text()
    assert HOSTILE in page.locator(".ctx-tokens").inner_text()


def test_a_damaged_layer_is_one_line_and_the_picture_stays(visit):
    page = visit(folder="broken/")
    said = page.locator(".ctx-view").inner_text()
    assert said.count("\n") == 0
    assert "Reload" in said or "damaged" in said
    assert page.locator("#stand-in").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_reader_out(visit, scheme):
    page = visit("#n=60")
    page.emulate_media(color_scheme=scheme)
    assert serious(page) == []


def test_a_phone_need_not_scroll_sideways(visit):
    page = visit()
    page.set_viewport_size({"width": 390, "height": 800})
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("svg.ctx-chart").bounding_box()["width"] <= 390
    sizes = page.evaluate(
        "[...document.querySelectorAll('.ctx-view *')].filter(e => e.textContent.trim())"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12


# ---------------------------------------------------------------- the traits


def test_traits_can_be_set_and_observed(mini_view):
    view = mini_view("Rows", passage=2, scale="log")
    seen = []
    view.observe(lambda change: seen.append(change.new), names=["head", "n", "octaves"])
    view.head, view.n, view.octaves = 3, 17, 0.5
    assert seen == [3, 17, 0.5]
    assert view.state() == {"passage": 2, "head": 3, "n": 17, "octaves": 0.5, "scale": "log"}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"head": 8}, "head 8: there are 0 to 7"),
        ({"n": -1}, "position -1: there are 0 to 511"),
        ({"passage": 72}, "passage 72: there are 0 to 71"),
        ({"octaves": 2.5}, "octaves"),
        ({"scale": "cubic"}, "scale"),
    ],
)
def test_traits_that_do_not_exist_are_refused(mini_view, state, message):
    with pytest.raises(traitlets.TraitError, match=message):
        mini_view("Rows", **state)
