"""The live reader: its numbers are ctxlib's, and whatever is typed is read and stays text."""

import random
import re

import pytest
import torch
from viewing import (
    explained,
    header,
    number,
    printed,
    served,
    settled,
    view_page,
)

import ctxlib as cx

TEXT = "The colour of the harbour at dusk, and the theatre in the old centre of the town: " * 3
OTHER = "def area(width, height):\n    return width * height  # the same in every unit\n" * 4
HOSTILE = [
    "<img src=x onerror=\"document.title='broken'\"> and more words",
    "</textarea></script><script>document.title='broken'</script> and more words",
    "<b><i>" * 1500,
    "\ud800 a lone half, \u202eturned round\u202c, \u200bhidden\u200d, \0 and \x1b",
    "שלום עולם, مرحبا بالعالم, 你好, 👩‍👩‍👧‍👦 é",
]


@pytest.fixture(scope="module")
def address(tmp_path_factory, packed_mini, toy, views):
    folder, state = tmp_path_factory.mktemp("reader"), views["reader"].state()
    given = state | {"text": TEXT, "other": OTHER}
    view_page(folder, ("reader", state), layer=packed_mini)
    view_page(folder, ("reader", given), name="given")
    view_page(folder, ("reader", given | {"heads": [0, 1]}), name="heads")
    view_page(folder / "toy", ("reader", given), layer=cx.widgets.packed_layer(toy))
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def toy(make_folder):
    """A model of other sizes, with 40 positions."""
    return cx.LayerWeights.of(cx.load(make_folder(n_embd=24, n_head=3, n_positions=40, seed=3)))


def numbers(text):
    return [number(found) for found in re.findall(r"[−+]?\d+\.\d+", text)]


def box(page, which):
    return page.get_by_label(f"{which} text", exact=True).and_(page.locator("textarea"))


def encoded(weights, text):
    ids = weights.tokenizer.encode(text, add_special_tokens=False)
    return torch.tensor([weights.tokenizer.bos_token_id, *ids])


def test_the_numbers_shown_are_those_of_python(visit, mini_weights, calibration):
    page = visit("#neuron=648&heads=2,3,4", "given")
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


def test_the_lists_are_those_of_python(visit, mini_weights, calibration):
    page = visit("#heads=3,4", "given")
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
    pressed = page.get_by_role("button", pressed=True).all_text_contents()
    assert set(pressed) == {str(rows[0][0])}


def test_what_is_drawn_again_is_not_computed_again(visit):
    page = visit("#neuron=648&heads=3,4", "given")
    page.evaluate(
        """async () => {
            const { Layer } = await import("./views/engine/layer.js");
            const { stream } = Layer.prototype;
            window.computed = [];
            Layer.prototype.stream = function (ids, n, kind, ...rest) {
                computed.push(kind);
                return stream.call(this, ids, n, kind, ...rest);
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
    assert page.evaluate("computed") == []
    page.locator(".ctx-chips input").nth(5).check()
    page.wait_for_url("**heads=3,4,5**")
    settled(page)
    kinds = page.evaluate("computed")  # of every head's own attention nothing is new
    assert "here" in kinds
    assert "split" not in kinds


def test_a_token_pointed_at_is_read_and_explained(visit, mini_weights, calibration):
    page = visit("#neuron=648&heads=2,3,4", "given")
    tokens = encoded(mini_weights, TEXT)
    n = len(tokens) - 1
    circuit = cx.ContextualCircuit.calibrate(mini_weights, calibration, [2, 3, 4], n)
    token = page.locator(".ctx-reader-text").first.locator("[data-place='5']")
    token.hover()
    reader, why = page.get_by_role("slider").first, page.locator(".ctx-why").first
    assert reader.get_attribute("aria-valuenow") == "5"
    assert reader.get_attribute("aria-valuetext").startswith("Token 5, “␣har”, adds")
    assert page.locator(".ctx-at").first.get_attribute("data-place") == "5"
    why.locator(".ctx-word:text-is('␣har')").wait_for()
    assert "cursor" not in page.url  # pointing reads, pressing keeps
    token.click()
    page.wait_for_url("**cursor=5**")
    whole = explained(why, circuit, tokens, 648, 5)
    shade, rounding = printed(token.get_attribute("title").rpartition(" ")[2])
    assert abs(whole - shade) <= 1.1 * rounding
    box(page, "First").fill("")
    page.get_by_text("Nothing to read yet.").wait_for()
    assert why.is_hidden()


def test_texts_that_the_page_gave_are_not_put_into_the_address_unasked(visit):
    page = visit("", "given", fresh=True)
    keep = page.get_by_role("checkbox", name="Put both texts")
    assert not keep.is_checked()
    box(page, "First").press("End")
    page.keyboard.type(" words of my own")
    page.wait_for_url("**neuron=*")  # the page's choice stays, told with what was typed
    assert "words" not in page.url
    keep.check()
    page.wait_for_url("**words%20of%20my%20own**")


def test_an_address_with_no_heads_asks_for_the_stable_ones(visit, packed_mini):
    page = visit("#heads=", "heads")
    checked = page.locator(".ctx-chips input:checked").evaluate_all(
        "all => all.map((e) => +e.value)"
    )
    assert checked == header(packed_mini)["stable"]


def test_the_opening_example_differs_in_spelling_only(visit):
    page = visit()
    first, second = (box(page, w).input_value() for w in ("First", "Second"))
    pairs = list(zip(first.split(), second.split(), strict=True))
    differing = {(a.strip(".,"), b.strip(".,")) for a, b in pairs if a != b}
    assert {("colours", "colors"), ("grey", "gray"), ("organise", "organize")} <= differing
    assert len(differing) > 25
    assert all(a[:1] == b[:1] for a, b in differing)


@pytest.mark.parametrize(
    ("text", "direction"),
    [("שלום לכולם, זה טקסט קצר", "rtl"), ("a short text, שלום", "ltr")],
)
def test_a_text_runs_in_the_direction_of_its_language(visit, text, direction):
    page = visit()
    box(page, "First").fill(text)
    settled(page)
    shown = page.locator(".ctx-reader-text").first
    assert shown.evaluate("e => getComputedStyle(e).direction") == direction


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "Nothing to read yet."), ("a", "a context begins with the next")],
)
def test_texts_without_a_context_say_so(visit, text, said):
    page = visit()
    box(page, "First").fill(text)
    page.get_by_text(said).wait_for()
    settled(page)
    assert page.get_by_role("slider").count() == 1
    box(page, "First").fill("a context again, of a few words")
    page.get_by_role("slider").nth(1).wait_for()


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
        plain = settled(page).locator(".ctx-reader-text").first.text_content()
        if text.startswith("<"):
            assert plain.startswith(("⟨start⟩\u2009" + text)[: len(plain)][:200])
    assert page.locator(".ctx-view :is(script, img, b, i)").count() == 0
    assert page.title() == "One view"
    keep = page.get_by_role("checkbox", name="Put both texts")
    keep.check()  # lone halves fit into no address
    settled(page)


def test_a_long_text_travels_packed_and_one_too_long_is_told(visit):
    page = visit("#text=Grey&neuron=5", fresh=True)
    long = "".join(f"{i} grey skies & harbours, {i * i}: \u00e9\U0001f30a " for i in range(120))
    box(page, "Second").fill(long)
    page.wait_for_url("**&other.z=*")
    assert len(page.url) < 2500
    page = visit("#" + page.url.partition("#")[2], fresh=True)
    assert box(page, "Second").input_value() == long
    assert "other.z=" in page.url
    noise = random.Random(1)
    box(page, "Second").fill("".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(8000)))
    page.get_by_text("The second text is too long for an address").wait_for()
    page.wait_for_url(lambda url: "other" not in url)
    for damaged in ("other.z=%", "other.z=AAAA", "heads.z=AAAA", "other.z=" + "x" * 4000):
        page = visit(f"#text=Grey&{damaged}")
        assert box(page, "Second").input_value() == ""


def test_another_model_is_read_as_far_as_its_context(visit, toy):
    page = visit(name="toy/index")
    assert page.locator(".ctx-chips input").count() == 3
    assert page.locator(".ctx-reader-count").first.text_content() == "39 tokens read"
    total = len(encoded(toy, TEXT)) - 1
    page.get_by_text(f"The first 39 of {total:,} tokens are read").wait_for()
