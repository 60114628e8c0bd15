"""The view of a text in two spellings shows what Python computes, and loads on touch."""

import json
import re

import numpy as np
import pytest
from einops import einsum
from playwright.sync_api import expect
from shown import fragment, loads, number
from viewing import PHONE, serious, settled, view_page, whole

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv
from ctxviews.neuronfile import packed_neuron

TEXTS = [
    "The colour of the theatre is grey.",
    "I realized the center was gray; 1,234 neighbors don't!\n\nWe’ll see — naïve façades, 東京.",
    "A",
    "the honour of the labour " * 80,  # longer than what is read
]

TIP = ".ctx-tip:not([hidden])"  # above the word that is pointed at


@pytest.fixture(scope="module")
def kept():
    return json.loads((cb.evidence("welcome.json")).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def study(kept):
    return cx.study(cx.fix_query("qwen"), 1, heads=kept["heads"])


@pytest.fixture(scope="module")
def fixed(study):
    return study.fixed


def predicted(study, kept, ids):
    """What heads add to the neuron given the words so far, in float64 and by loops, with the
    denominators of as many words of the calibration text.
    """
    fixed, heads, J = study.fixed, kept["heads"], kept["neuron"]
    page = study.circuit.calibration
    kernels = fixed.decomposition.kernels[heads].double()
    content = fixed.decomposition.log_content[heads].double().exp()
    values = fixed.decomposition.values(heads)[ids].double()  # source head d_head
    into = fixed.readout.W_O[heads].double() @ fixed.readout.W_in[:, J].double() / kept["scale"]
    adds = einsum(values, into, "source head d, head d -> head source")
    made = []
    for m in range(2, len(ids) + 1):
        denominators = (kernels[:, -m:] * content[:, page[:m]]).sum(1, keepdim=True)
        row = kernels[:, -m:] * content[:, ids[:m]] / denominators
        made.append(float((row * adds[:, :m]).sum()))
    return np.array(made)


@pytest.fixture(scope="module")
def address(address, view_folder, study, kept):
    """One view, given the British text twice."""
    assert study.circuit.scale == pytest.approx(kept["scale"], rel=1e-6)
    ids, truth = kept["texts"][0]["ids"], kept["texts"][0]["model"][1:]
    words = [study.fixed.tokenizer.decode([t]) for t in ids[1:]]
    two = [(name, words, truth, predicted(study, kept, ids)) for name in ("British", "American")]
    place, data = view_folder / "spellings", packed_neuron(study.circuit, kept["neuron"])
    assert len(data) < 1.5e6
    view = cv.Spellings(study.circuit, kept["neuron"], two, 0.5)
    view_page(place, ("spellings", whole(view)))
    (place / "data").mkdir()
    (place / "data" / "neuron.bin").write_bytes(data)
    return f"{address}/spellings"


READ = """async (text) => {
  const { loadLayer } = await import("./views/engine/packed.js");
  const neuron = await loadLayer(new URL("data/neuron.bin", location.href));
  const { pieces, predicted } = neuron.read(text);
  return [pieces.map(({ id }) => id), [...predicted]];
}"""


@pytest.mark.parametrize("text", TEXTS, ids=["British", "mixed", "one", "long"])
def test_any_words_are_read_as_in_python(visit, study, fixed, kept, text):
    ids, ours = visit().evaluate(READ, text)
    expected = fixed.tokenizer.encode(text, add_special_tokens=False)
    assert ids == expected
    truth = predicted(study, kept, [kept["texts"][0]["ids"][0], *expected[: fixed.length - 1]])
    np.testing.assert_allclose(ours, truth, atol=0.02)


def test_it_loads_when_it_is_touched_and_reads_what_is_typed(visit, study, fixed, kept):
    page = visit(fresh=True)
    assert loads(page, ".bin") == 0, "the picture needs no data"
    box, output = page.get_by_label("British"), page.locator("output").first
    before = output.inner_text()
    box.click()
    box.fill(TEXTS[0])
    outputs = page.locator("output")
    for each in outputs.all():  # no model runs in a page, so both are predicted
        expect(each).to_have_text(re.compile(r"^on average: prediction [+−]\d"))
    expect(page.locator(".ctx-view")).to_contain_text("both show our prediction alone")
    ids = fixed.tokenizer.encode(TEXTS[0], add_special_tokens=False)
    expected = predicted(study, kept, [kept["texts"][0]["ids"][0], *ids]).mean()
    assert number(output.inner_text().split()[-1]) == pytest.approx(expected, abs=0.02)
    assert "british" not in page.url  # what is typed stays in the page
    for _ in range(2):  # whatever it was emptied of
        box.fill("")
        expect(output).to_have_text("Type a text.")
        page.get_by_role("button", name="Reset").click()
        expect(output).to_have_text(before)


def shades(page, which):
    """The shades of the first word of a text: its ground, and its strip."""
    style = page.locator(".ctx-mirror").nth(which).locator("span").first.get_attribute("style")
    return [part.partition(": ")[2].strip() for part in style.split(";")][:2]


def test_a_changed_text_puts_both_on_the_prediction_and_reset_brings_the_model_back(visit):
    page = visit(fresh=True)
    before = shades(page, 0)
    assert before[1] != "transparent", "a strip for the prediction, a ground for the model"
    page = visit(fragment(american=TEXTS[0]))
    expect(page.locator("output").last).to_contain_text(re.compile("prediction [+−]"))
    for which in (0, 1):
        expect(page.locator("output").nth(which)).not_to_contain_text("model")
        ground, strip = shades(page, which)
        assert strip == "transparent" and ground != before[0]
        page.locator(".ctx-mirror").nth(which).locator("span").first.hover(force=True)
        expect(page.locator(TIP)).to_have_text(re.compile(r"^\w+: prediction [+−]"))
        page.mouse.move(0, 0)
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("output").first).to_contain_text("on average: model")
    assert shades(page, 0) == before


def test_a_word_says_its_numbers_to_a_pointer_and_to_arrow_keys(visit, kept):
    page = visit(fresh=True)
    box, tip = page.get_by_label("British"), page.locator(TIP)
    truth = kept["texts"][0]["model"][1:]
    spans = page.locator(".ctx-mirror").first.locator("span")
    place = spans.all_inner_texts().index(" theatre")
    spans.nth(place).hover(force=True)  # the box lies on top
    expect(tip).to_contain_text("theatre: model")
    assert number(re.findall(r"[+−]?\d\.\d+", tip.inner_text())[0]) == pytest.approx(
        truth[place], abs=0.006
    )
    word, above = spans.nth(place).bounding_box(), tip.bounding_box()
    assert 0 <= word["y"] - above["y"] <= 2 * above["height"], "beside the word"
    assert above["x"] < word["x"] + word["width"] and word["x"] < above["x"] + above["width"]
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)  # hidden
    held = []
    page.route("**/neuron.bin", lambda route: held.append(route))
    box.focus()
    box.press("Control+Home")
    box.press("ArrowRight")
    expect(tip).to_contain_text("The: model")
    with page.expect_response("**/neuron.bin"):
        held.pop().continue_()
    page.unroute("**/neuron.bin")
    settled(page)
    expect(tip).to_contain_text("The: model")


def test_markup_is_text_and_nothing_is_wrong_on_a_phone_or_for_a_screen_reader(visit):
    page = visit(fresh=True)
    box = page.get_by_label("American")
    box.click()
    box.fill("<img src=x onerror=alert(1)> " * 40)
    expect(page.locator("output").last).to_contain_text(re.compile("prediction [+−]"))
    settled(page)
    assert page.locator("img").count() == 0
    assert serious(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    mirror = page.locator(".ctx-mirror").last
    assert mirror.bounding_box() == box.bounding_box(), "letters lie on their shades"
    assert box.evaluate("(a) => a.scrollHeight - a.clientHeight") <= 2
