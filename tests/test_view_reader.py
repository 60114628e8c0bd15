"""The live reader: the numbers it shows are ctxlib's, a keyboard turns everything, and whatever is
typed stays text.
"""

import random
import re

import pytest
import torch
import traitlets
from viewing import (
    explained,
    needs_chromium,
    parts_by_head,
    printed,
    serious,
    served,
    view_page,
    watched,
)

import ctxlib as cx

STATE = {"heads": [], "neuron": -1, "text": "", "other": ""}
TEXT = "The colour of the harbour at dusk, and the theatre in the old centre of the town: " * 3
OTHER = "def area(width, height):\n    return width * height  # the same in every unit\n" * 4
WIDE = {"width": 1000, "height": 900}
HOSTILE = [
    "<img src=x onerror=\"document.title='broken'\"> and more words",
    "</textarea></script><script>document.title='broken'</script> and more words",
    "<b><i>" * 1500,
    "\ud800 a lone half, \u202eturned round\u202c, \u200bhidden\u200d, \0 and \x1b",
    "שלום עולם, مرحبا بالعالم, 你好, 👩‍👩‍👧‍👦 é",
]


# ---------------------------------------------------------------- in Python


@pytest.fixture(scope="module")
def view(mini_view):
    return mini_view("LiveReader", heads=[3, 4], text="one two three")


def test_traits_are_set_and_observed(view):
    seen = []
    view.observe(lambda change: seen.append((change.name, change.new)))
    view.text, view.other, view.neuron = "a new text", "another", 7
    view.heads = [0, 2]
    assert seen == [
        ("text", "a new text"),
        ("other", "another"),
        ("neuron", 7),
        ("heads", [0, 2]),
    ]
    view.neuron = -1
    texts = {"text": "a new text", "other": "another"}
    assert view.state() == {"heads": [0, 2], "neuron": -1, "shades": "end"} | texts


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("neuron", 1024, "neuron 1024: there are 0 to 1023"),
        ("neuron", -2, "neuron -2: there are 0 to 1023"),
        ("heads", [3, 8], "head 8: there are 0 to 7"),
        ("heads", ["three"], "heads"),
        ("text", 7, "text"),
        ("other", None, "other"),
    ],
)
def test_what_is_no_state_is_refused(view, name, value, said):
    before = getattr(view, name)
    with pytest.raises(traitlets.TraitError, match=said):
        setattr(view, name, value)
    assert getattr(view, name) == before


# ---------------------------------------------------------------- in the page


@pytest.fixture(scope="module")
def folder(tmp_path_factory, packed_mini):
    place = tmp_path_factory.mktemp("reader")
    view_page(place, "reader", STATE, packed_mini)
    view_page(place, "reader", STATE | {"text": TEXT, "other": OTHER}, name="given")
    return place


@pytest.fixture(scope="module")
def visit(folder, browser):
    """A function that opens the view, waits until all of it is there, and gives the page."""
    with served(folder) as address:
        opened = []

        def visit(where="index.html", ready=".ctx-reader-about .ctx-word", **options):
            page = watched(browser.new_page(**{"viewport": WIDE} | options))
            opened.append(page)
            page.goto(f"{address}/{where}")
            page.wait_for_selector(ready)
            return page

        yield visit
        for page in opened:
            page.close()


def settled(page):
    """Waits until nothing more is being worked out: every list and both lines are complete."""
    page.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
    page.wait_for_function("() => !document.querySelector('.ctx-view[data-working]')")
    return page


def numbers(text):
    return [float(n.replace("−", "-")) for n in re.findall(r"[−+]?\d+\.\d+", text)]


def box(page, which):
    return page.get_by_label(f"{which} text", exact=True).and_(page.locator("textarea"))


def calibrating(weights, page):
    name = page.evaluate(
        """async () => (await (await import('./views/engine/packed.js')).loadLayer(
            new URL('data/layer.bin', location))).calibration.name"""
    )
    return next(p for p in cx.texts.passages(weights) if p.name == name)


def encoded(weights, text):
    ids = weights.tokenizer.encode(text, add_special_tokens=False)
    return torch.tensor([weights.tokenizer.bos_token_id, *ids])


@needs_chromium
def test_the_numbers_shown_are_those_of_python(visit, mini_weights):
    page = settled(visit("given.html#neuron=648&heads=2,3,4"))
    assert page.said == page.failed == page.elsewhere == []
    calibration = calibrating(mini_weights, page)
    sliders = page.get_by_role("slider")
    for which, text in enumerate((TEXT, OTHER)):
        tokens = encoded(mini_weights, text)
        n = len(tokens) - 1
        count = page.locator(".ctx-reader-count").nth(which).text_content()
        assert count == f"{n} tokens; up to 511 are read"
        sliders.nth(which).press("Home")
        for _ in range(4):
            sliders.nth(which).press("PageDown" if which else "PageUp")
        for key, at in (("End", n), ("PageDown", n - 10)):
            sliders.nth(which).press(key)
            said = sliders.nth(which).get_attribute("aria-valuetext")
            upto = n if at == n else int(re.search(r"Up to token (\d+)", said)[1])
            circuit = cx.ContextualCircuit.calibrate(mini_weights, calibration, [2, 3, 4], upto)
            paper = circuit.summary(tokens)[648].item()
            own = circuit.self_normalised().summary(tokens)[648].item()
            whole = cx.ContextualCircuit.calibrate(mini_weights, calibration, [2, 3, 4], n)
            adds = whole.by_source(tokens, [648])[at, 0].item()
            figures = re.findall(r"[−+]?\d+\.\d+", said.rpartition("adds")[2])
            for (value, rounding), truth in zip(
                map(printed, figures), (adds, paper, own), strict=True
            ):
                assert value == pytest.approx(truth, abs=0.015 + rounding)
        titles = page.locator(".ctx-reader-text").nth(which).locator("[data-place]")
        assert titles.count() == n + 1
        terms = [titles.nth(i).get_attribute("title").rpartition(" ")[2] for i in range(0, n, 17)]
        expected = whole.by_source(tokens, [648])[0:n:17, 0].tolist()
        for (term, rounding), truth in zip(map(printed, terms), expected, strict=True):
            assert term == pytest.approx(truth, abs=0.01 + rounding)


@needs_chromium
def test_why_here_is_the_circuit_head_by_head(visit, mini_weights):
    page = settled(visit("given.html#neuron=648&heads=2,3,4"))
    calibration = calibrating(mini_weights, page)
    tokens = encoded(mini_weights, TEXT)
    n = len(tokens) - 1
    circuit = cx.ContextualCircuit.calibrate(mini_weights, calibration, [2, 3, 4], n)
    token = page.locator(".ctx-reader-text").first.locator("[data-place='5']")
    token.hover()
    why = page.locator(".ctx-why").first
    whole = explained(why, parts_by_head(circuit, tokens, 648, 5))
    shade, rounding = printed(token.get_attribute("title").rpartition(" ")[2])
    assert abs(whole - shade) <= 1.1 * rounding
    assert why.locator(".ctx-word").inner_text() == "␣har"
    box(page, "First").fill("")
    page.get_by_text("Nothing to read yet.").wait_for()
    assert why.is_hidden()


@needs_chromium
def test_the_lists_are_those_of_python(visit, mini_weights):
    page = settled(visit("given.html#heads=3,4"))
    calibration = calibrating(mini_weights, page)
    heads = [3, 4]
    passages = torch.stack([p.tokens for p in cx.texts.passages(mini_weights)])
    tables = page.locator("table")
    found = []
    for text in (TEXT, OTHER):
        tokens = encoded(mini_weights, text)
        n = len(tokens) - 1
        summary = cx.ContextualCircuit.calibrate(mini_weights, calibration, heads, n).summary(
            tokens
        )
        near = 2 ** round(torch.tensor(n).log2().item())
        usual = cx.ContextualCircuit.calibrate(mini_weights, calibration, heads, near)
        values = usual.summary(passages)
        found.append((near, summary, values.mean(0), values.std(0)))
    for which, (_, summary, mean, sd) in enumerate(found):
        for neuron, z, value in shown(tables.nth(which)):
            assert value == pytest.approx(summary[neuron].item(), abs=0.02)
            assert z == pytest.approx(((summary - mean) / sd)[neuron].item(), abs=0.1)
        z = torch.where(sd >= sd.quantile(0.75), (summary - mean) / sd, 0)
        named = [row[0] for row in shown(tables.nth(which))]
        assert z[named].min() > z.sort().values[-12]
    (near, first, _, sd), (other_near, second, _, other_sd) = found
    apart = (first - second) / (sd if near < other_near else other_sd)
    rows = shown(tables.nth(2))
    for neuron, difference, a, b in rows:
        assert [difference, a, b] == pytest.approx(
            [v[neuron].item() for v in (apart, first, second)], abs=0.1
        )
    # what is chosen first is what differs most
    assert page.get_by_label("Neuron", exact=True).input_value() == str(rows[0][0])


def shown(table):
    rows = [row for row in table.locator("tbody tr").all() if row.is_visible()]
    assert len(rows) == 8
    return [
        (
            int(row.locator("button").text_content()),
            *numbers(" ".join(row.locator(".ctx-number").all_text_contents())),
        )
        for row in rows
    ]


@needs_chromium
def test_what_is_drawn_again_is_not_computed_again(visit):
    page = settled(visit("given.html#neuron=648"))
    page.evaluate(
        """async () => {
            const { Circuit } = await import("./views/engine/circuit.js");
            const terms = Circuit.prototype.bySource;
            window.computed = 0;
            Circuit.prototype.bySource = function (...of) {
                computed += 1;
                return terms.apply(this, of);
            };
        }"""
    )
    before = page.locator(".ctx-reader svg").first.get_attribute("width")
    page.set_viewport_size({"width": 820, "height": 900})
    page.wait_for_function(
        "before => document.querySelector('.ctx-reader svg').getAttribute('width') !== before",
        arg=before,
    )
    settled(page)
    assert page.evaluate("computed") == 0


@needs_chromium
def test_the_opening_example_differs_in_spelling_only(visit):
    page = visit()
    first, second = (box(page, w).input_value() for w in ("First", "Second"))
    pairs = list(zip(first.split(), second.split(), strict=True))
    differing = {(a.strip(".,"), b.strip(".,")) for a, b in pairs if a != b}
    assert {("colours", "colors"), ("grey", "gray"), ("organise", "organize")} <= differing
    assert len(differing) > 25
    assert all(a[:1] == b[:1] for a, b in differing)


@needs_chromium
def test_a_keyboard_alone_turns_everything(visit):
    page = settled(visit())
    press = page.keyboard.press
    page.locator(".ctx-chips input").first.focus()
    press("Space")
    page.wait_for_url("**#heads=1,2,3,4,5,6,7")
    press("Tab")  # to the next head
    for _ in range(7):
        press("Tab")
    assert page.evaluate("document.activeElement.type") == "number"
    press("Control+A")
    page.keyboard.type("77")
    page.wait_for_url("**neuron=77")
    press("ArrowUp")
    page.wait_for_url("**neuron=78")
    press("Tab")  # to what the shades follow
    press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    press("Control+A")
    page.keyboard.type("Here are a few words of my own, one after the other.")
    settled(page)
    assert "#" in page.url
    assert "Here" not in page.url  # nobody asked for that
    press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"
    press("ArrowLeft")
    before = page.evaluate("document.activeElement.getAttribute('aria-valuenow')")
    marked = page.locator(".ctx-at").get_attribute("data-place")
    assert marked == before
    button = page.get_by_role("button", name=re.compile("Read neuron")).nth(2)
    button.focus()
    chosen = button.text_content()
    press("Enter")
    page.wait_for_url(f"**neuron={chosen}")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    page.get_by_role("checkbox", name="Put both texts").focus()
    press("Space")
    page.wait_for_url("**text=Here%20are**")
    press("Space")
    page.wait_for_url(lambda url: "Here" not in url)
    assert box(page, "First").input_value().startswith("Here are")


@needs_chromium
def test_an_address_brings_its_texts_back(visit):
    page = visit("index.html#text=Grey%20skies,%20and%20%26%23%3D%25&other=&neuron=5")
    assert box(page, "First").input_value() == "Grey skies, and &#=%"
    assert box(page, "Second").input_value() == ""
    assert page.get_by_role("checkbox", name="Put both texts").is_checked()
    assert page.get_by_label("Neuron", exact=True).input_value() == "5"
    assert "Nothing to read yet." in page.locator(".ctx-view").text_content()


@needs_chromium
def test_a_long_text_travels_packed_and_one_too_long_is_told(visit):
    page = visit("index.html#text=Grey&neuron=5")
    long = "".join(f"{i} grey skies & harbours, {i * i}: \u00e9\U0001f30a " for i in range(120))
    box(page, "Second").fill(long)
    page.wait_for_url("**&other.z=*")
    assert len(page.url) < 2500
    again = visit(page.url.rpartition("/")[2])
    assert box(again, "Second").input_value() == long
    assert "other.z=" in again.url
    noise = random.Random(1)
    box(page, "Second").fill("".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(8000)))
    page.get_by_text("The second text is too long for an address").wait_for()
    page.wait_for_url(lambda url: "other" not in url)
    for damaged in ("other.z=%", "other.z=AAAA", "heads.z=AAAA", "other.z=" + "x" * 4000):
        page.goto("about:blank")
        page = visit(f"index.html#text=Grey&{damaged}")
        assert box(page, "Second").input_value() == ""


@needs_chromium
def test_an_address_with_no_heads_asks_for_the_stable_ones(visit, folder):
    view_page(folder, "reader", STATE | {"heads": [0, 1], "text": TEXT}, name="heads")
    page = settled(visit("heads.html#heads="))
    stable = page.evaluate(
        """async () => (await (await import('./views/engine/packed.js')).loadLayer(
            new URL('data/layer.bin', location))).stable"""
    )
    assert page.locator(".ctx-chips input:checked").evaluate_all(
        "all => all.map((box) => Number(box.value))"
    ) == list(stable)


@needs_chromium
def test_texts_that_the_page_gave_are_not_put_into_the_address_unasked(visit):
    page = settled(visit("given.html"))
    keep = page.get_by_role("checkbox", name="Put both texts")
    assert not keep.is_checked()
    box(page, "First").press("End")
    page.keyboard.type(" words of my own")
    page.wait_for_url("**neuron=*")  # the page's choice stays, told with what was typed
    assert "words" not in page.url
    keep.check()
    page.wait_for_url("**words%20of%20my%20own**")


@needs_chromium
def test_a_token_pointed_at_is_read(visit):
    page = settled(visit("given.html#neuron=3"))
    page.locator(".ctx-reader-text").first.locator("[data-place='5']").hover()
    reader = page.get_by_role("slider").first
    assert reader.get_attribute("aria-valuenow") == "5"
    assert reader.get_attribute("aria-valuetext").startswith("Token 5, “␣har”, adds")
    assert page.locator(".ctx-at").get_attribute("data-place") == "5"


@needs_chromium
def test_nonsense_falls_back(visit):
    read = "document.querySelector('.ctx-view').textContent"
    usual = settled(visit()).evaluate(read)
    page = visit("index.html#heads=99&neuron=-5")
    assert settled(page).evaluate(read) == usual
    for nonsense in ("heads=a,b&neuron=1e99", "neuron=NaN&heads=-1", "%%&=&text"):
        page.evaluate("hash => { location.hash = hash }", nonsense)
        assert settled(page).evaluate(read) == usual
    assert page.said == []


@needs_chromium
def test_hostile_texts_stay_texts(visit):
    page = visit()
    for text in HOSTILE:
        page.evaluate(
            """text => {
                const box = document.querySelector('textarea');
                box.value = text;
                box.dispatchEvent(new Event('input', {bubbles: true}));
            }""",
            text,
        )
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        plain = page.locator(".ctx-reader-text").first.text_content()
        if text.startswith("<"):
            assert plain.startswith(("⟨start⟩\u2009" + text)[: len(plain)][:200])
    assert page.locator(".ctx-view :is(script, img, b, i)").count() == 0
    assert page.title() == "One view"
    settled(page).get_by_role(
        "checkbox", name="Put both texts"
    ).check()  # lone halves fit into no address
    assert page.said == page.elsewhere == []


@needs_chromium
def test_a_long_paste_is_cut_with_a_note(visit, mini_weights):
    page = visit()
    text = "the river and the hill, " * 8000
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    box(page, "First").focus()
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+V")
    total = len(mini_weights.tokenizer.encode(text, add_special_tokens=False))
    page.get_by_text(f"The first 511 of {total:,} tokens are read").wait_for()
    assert page.locator(".ctx-reader-count").first.text_content() == "511 tokens read"
    assert page.locator(".ctx-reader-text").first.locator("[data-place]").count() == 512
    assert len(box(page, "First").input_value()) < 20_000


@needs_chromium
@pytest.mark.parametrize(
    ("text", "direction"),
    [("שלום לכולם, זה טקסט קצר", "rtl"), ("a short text, שלום", "ltr")],
)
def test_a_text_runs_in_the_direction_of_its_language(visit, text, direction):
    page = settled(visit())
    box(page, "First").fill(text)
    settled(page)
    shown = page.locator(".ctx-reader-text").first
    assert shown.evaluate("e => getComputedStyle(e).direction") == direction


@needs_chromium
@pytest.mark.parametrize(
    ("text", "said"),
    [("", "Nothing to read yet."), ("a", "a context begins with the next")],
)
def test_texts_without_a_context_say_so(visit, text, said):
    page = settled(visit())
    box(page, "First").fill(text)
    page.get_by_text(said).wait_for()
    settled(page)
    assert page.get_by_role("slider").count() == 1
    box(page, "First").fill("a context again, of a few words")
    page.get_by_role("slider").nth(1).wait_for()
    assert page.said == []


@needs_chromium
def test_damaged_data_are_one_line(visit, packed_mini, tmp_path_factory):
    broken = tmp_path_factory.mktemp("broken")
    view_page(broken, "reader", STATE, packed_mini[: len(packed_mini) // 2])
    page = visit()
    with served(broken) as address:
        page.goto(f"{address}/index.html")
        page.wait_for_selector(".ctx-failed")
        assert page.get_by_role("alert").count() == 1
        assert page.locator("#stand-in").is_visible()


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_reader_out(visit, scheme):
    page = settled(visit(color_scheme=scheme, viewport={"width": 390, "height": 800}))
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture(scope="module")
def toy(make_folder):
    """A model of other sizes, with 40 positions."""
    return cx.LayerWeights.of(cx.load(make_folder(n_embd=24, n_head=3, n_positions=40, seed=3)))


@needs_chromium
def test_another_model_is_read_as_far_as_its_context(visit, toy, tmp_path):
    view_page(tmp_path, "reader", STATE | {"text": TEXT}, cx.widgets.packed_layer(toy))
    page = visit()
    with served(tmp_path) as address:
        page.goto(f"{address}/index.html")
        page.wait_for_selector(".ctx-reader-about .ctx-word")
        assert page.locator(".ctx-chips input").count() == 3
        assert page.locator(".ctx-reader-count").first.text_content() == "39 tokens read"
        total = len(encoded(toy, TEXT)) - 1
        page.get_by_text(f"The first 39 of {total:,} tokens are read").wait_for()
    assert page.said == []


@needs_chromium
def test_a_tokenizer_that_a_page_cannot_do_is_a_sentence(visit, toy, tmp_path, monkeypatch):
    monkeypatch.setattr("ctxlib.widgets.layerfile.byte_level", lambda tokenizer: False)
    view_page(tmp_path, "reader", STATE, cx.widgets.packed_layer(toy))
    page = visit()
    with served(tmp_path) as address:
        page.goto(f"{address}/index.html")
        page.get_by_text("a page cannot read text for it").wait_for()
    assert page.locator("textarea").count() == 0
