"""Real models in the explorer and in the reader of the built site: their numbers are Python's, and
what a page lacks comes when it is needed.

Without Chromium these tests are left out, and say so.
"""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from playwright.sync_api import expect
from shown import each, number
from viewing import in_firefox_too, repacked, settled

import ctxlib as cx

CASES, GROUPS = 200, 8  # the cases of a group have heads in common
CLOSE = 0.01  # of the range over texts that neurons have on average, in the widest group
SMOLLM2, QWEN = "SmolLM2-135M", "Qwen2.5-Coder-1.5B"


@pytest.fixture(scope="module")
def address(site):
    """Where the book's pages are."""
    return f"{site}/book"


READ = """async ([cases, name]) => {
    const { href } = document.querySelector("link[rel=modulepreload]");
    const { downloaded } = (await import(href)).default;
    const layer = await downloaded(new URL(`../../data/${name}.bin`, href));
    const ids = cases.flatMap(([ids]) => ids);
    const missing = layer.lacks(layer.everyHead, ids);
    await layer.bring(missing);
    const circuit = layer.circuit();
    const values = cases.map(([ids, heads, neuron]) => [
        circuit.read(ids).summary(heads)[neuron],
        layer.read(heads, circuit.read(ids).own(heads))[neuron],
    ]);
    return {missing, left: layer.lacks(layer.everyHead, ids), values,
        calibrating: [...layer.calibration.ids]};
}"""


@pytest.mark.parametrize("name", ["smollm2", "qwen"])
def test_whatever_parts_they_come_from_the_numbers_are_as_in_python(visit, name):
    """Half of the texts are held-out ones, half are tokens of stretches all over the vocabulary."""
    fixed, chance = cx.fix_query(name), np.random.default_rng(0)
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), 3 * CASES)
    real = fixed.prepare([t for t in texts if len(t.tokens) >= fixed.length][: CASES // 2])
    trained = (~fixed.decomposition.untrained).nonzero()[:, 0]
    pool = torch.cat([trained[k : k + 512] for k in range(0, len(trained), len(trained) // 12)])
    drawn = real.clone()
    drawn[:, 1:-1] = torch.from_numpy(chance.choice(pool, (CASES // 2, fixed.length - 2)))
    x = torch.cat([real, drawn])
    some = [chance.choice(fixed.n_heads, 1 + k // 2, False).tolist() for k in range(GROUPS)]
    neurons = chance.integers(fixed.n_neurons, size=CASES)
    heads = [sorted(some[k % GROUPS]) for k in range(CASES)]
    cases = list(zip(x.tolist(), heads, neurons.tolist(), strict=True))
    found = visit("", "reader", fresh=True).evaluate(READ, [cases, name])
    assert {part.split("-")[0] for part in found["missing"]} == {"head", "tokens"}
    assert found["left"] == []

    calibration_text, values = torch.tensor(found["calibrating"]), np.array(found["values"])
    apart, wide = np.zeros((CASES, 2)), np.zeros((GROUPS, 2))
    for k in range(GROUPS):
        circuit = cx.ContextualCircuit.calibrate(fixed, calibration_text, heads[k])
        own = np.arange(k, CASES, GROUPS)
        for c, summary in enumerate((circuit.summary, circuit.self_normalized().summary)):
            exact = summary(x)[:, neurons[own]].numpy()  # of every text
            apart[own, c] = np.abs(values[own, c] - exact[own, range(len(own))])
            wide[k, c] = np.ptp(exact, axis=0).mean()
    off = apart / wide.max(axis=0)  # some heads say always the same
    assert np.quantile(off, 0.95, axis=0).max() < CLOSE


def group(page, name):
    """Some boxes or buttons that belong together."""
    return page.get_by_role("group", name=name, exact=True)


def choose(page, name, label):
    """Takes one of them, and waits for what comes of it."""
    group(page, name).get_by_label(label, exact=True).check()
    return settled(page)


def take(page, name, label):
    """Takes a model, and waits for it."""
    page.get_by_label(name, exact=True).select_option(label=label)
    return settled(page)


@in_firefox_too
def test_the_explorer_takes_another_model_and_what_its_heads_write_when_needed(visit):
    page = visit("#neuron=174&theta=20", "explorer", fresh=True)
    take(page, "Model", QWEN)
    # what was chosen by number was another model's
    page.wait_for_url("**/explorer.html#model=qwen")
    assert each(group(page, "Heads").locator(":checked"), "e.value") == ["4", "7"]
    assert "2985" in page.locator(".ctx-neurons-list tbody tr").first.inner_text()
    page.wait_for_timeout(1100)  # turns of one gesture are one step of the history
    with page.expect_request("**/data/qwen-*/head-3.bin"):
        group(page, "Heads").get_by_label("head 3").check()
    page.wait_for_url("**#model=qwen&neuron=2985&heads=3,4,7&theta=*")
    # and nobody waits for what comes of it
    for address in ("#model=qwen", "#neuron=174&theta=20"):
        page.go_back()
        page.wait_for_url(f"**{address}")
    expect(page.get_by_label("Model", exact=True)).to_have_value("mini")
    page.get_by_role("heading", name="Neuron 174", exact=True).wait_for()
    # a way to another view leads to the same model
    visit("#model=qwen", "explorer", fresh=True)
    page.get_by_role("link", name="Read this passage in the live reader").click()
    page.wait_for_url("**/book/reader.html#model=qwen&**")
    expect(page.get_by_label("Model", exact=True)).to_have_value("qwen")


@in_firefox_too
def test_what_cannot_be_had_or_is_stopped_is_one_line_and_changes_nothing(visit):
    page = visit("#model=smollm2&heads=1", "explorer", fresh=True)  # few are ranked sooner
    head = group(page, "Heads").get_by_label("head 0")
    rows = page.locator(".ctx-neurons-list tbody")
    before, part = rows.inner_text(), "**/smollm2-*/head-0.bin"
    page.route(part, lambda route: None)  # no answer
    head.check()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped: the readout of head 0 did not come.").wait_for()
    page.unroute(part)
    page.route(part, lambda route: route.fulfill(body=b"<p>a page"))
    settled(page)
    head.click()  # the refusal may take the mark back at once
    line = page.get_by_text("data (head-0.bin) cannot be used: it is another kind of file.")
    line.wait_for()
    settled(page)
    expect(head).not_to_be_checked()
    assert rows.inner_text() == before
    page.unroute(part)
    group(page, "Heads").get_by_label("head 0").check()
    settled(page)
    expect(head).to_be_checked()
    expect(line).to_have_count(0)


@in_firefox_too
def test_another_model_is_stopped_on_its_way_and_the_former_stays(visit):
    page, model = visit("#neuron=174", "explorer", fresh=True), "**/data/smollm2.bin"
    page.route(model, lambda route: None)  # no answer
    page.get_by_label("Model", exact=True).select_option(label=SMOLLM2)
    former = page.get_by_role("heading", name="Neuron 174", exact=True)
    expect(former).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text(f"Stopped: the layer of {SMOLLM2} did not come.").wait_for()
    expect(former).to_be_visible()
    expect(page.get_by_label("Model", exact=True)).to_have_value("mini")
    assert page.url.endswith("#neuron=174")
    page.unroute(model)
    take(page, "Model", SMOLLM2)
    page.wait_for_url("**#model=smollm2")


def test_back_before_another_model_has_come_keeps_what_was_chosen_since(visit):
    page, model = visit("#neuron=174", "explorer", fresh=True), "**/data/smollm2.bin"
    page.route(model, lambda route: None)  # no answer
    choice = page.get_by_label("Model", exact=True)
    choice.select_option(label=SMOLLM2)
    group(page, "Heads").get_by_label("head 0").uncheck()
    choice.select_option("mini")
    settled(page)
    expect(group(page, "Heads").get_by_label("head 0")).not_to_be_checked()
    choice.select_option(label=SMOLLM2)
    page.get_by_role("button", name="Reset").click()
    expect(choice).to_have_value("mini")
    settled(page)
    page.unroute(model)


def test_a_model_without_cards_stands_last_and_says_what_to_do_next(visit):
    page = visit("#model=smollm2", "explorer", fresh=True)
    expect(page.get_by_text("For named neurons, choose another model.")).to_be_visible()
    expect(page.get_by_role("group", name="Named neurons").get_by_role("button")).to_have_count(0)
    expect(page.get_by_label("Model", exact=True).locator("option").last).to_have_text(SMOLLM2)


def test_a_large_number_is_whole_and_has_room_in_its_column(visit):
    page = visit("#model=qwen&heads=1,7", "explorer", fresh=True)
    top = page.locator(".ctx-neurons-list tbody tr").first.locator("td").nth(2)
    expect(top).to_have_text(re.compile(r"^\d{3},\d{3}$"))
    assert top.evaluate("(e) => e.scrollWidth <= e.clientWidth")


@in_firefox_too
def test_another_model_reads_the_same_texts(visit):
    page = visit("", "reader", fresh=True)
    page.get_by_role("button", name="Compare with a second text").click()
    texts = ["the colour of the theatre", "a color"]
    boxes = [page.get_by_role("textbox", name=f"{which} text") for which in ("First", "Second")]
    for box, typed in zip(boxes, texts, strict=True):
        box.fill(typed)
    page.get_by_label("Model", exact=True).focus()
    take(page, "Model", SMOLLM2)
    assert [box.input_value() for box in boxes] == texts
    expect(page.get_by_role("checkbox", name="Put the texts")).not_to_be_checked()
    assert "text=" not in page.url
    expect(page.get_by_label("Model", exact=True)).to_be_focused()


def test_a_model_that_fails_leaves_the_choice(visit, html):
    (layer,) = html.glob("_static/at-*/data/smollm2.bin")
    damaged = repacked(layer.read_bytes(), families=[None] * 9)  # of a form that nobody expects
    page = visit("", "reader", fresh=True)
    page.route("**/data/smollm2.bin", lambda route: route.fulfill(body=damaged))
    take(page, "Model", SMOLLM2)
    page.get_by_text(f"The view of {SMOLLM2} could not be started.").wait_for()
    take(page, "Model", "mini")
    page.get_by_role("textbox", name="First text").fill("the colour of the theatre")
    page.locator("[aria-label='First text'] [data-place='5']").wait_for()
    page.unroute("**/data/smollm2.bin")


@in_firefox_too
def test_the_layer_is_fetched_early_and_once(visit, window):
    requested = []

    def note(request):
        requested.extend(re.findall(r"/data/(\w+)\.bin", request.url))

    window.on("request", note)
    for hash, models in (("", ["layer"]), ("#model=smollm2", ["layer", "smollm2"])):
        requested.clear()
        visit(hash, "explorer", fresh=True)
        assert requested == models  # mini's is let go, and nobody complains (`blameless`)
    window.remove_listener("request", note)


def test_a_rare_word_is_fetched_and_neurons_are_found_by_label(visit, html):
    page = visit("#model=qwen", "explorer", fresh=True)
    with page.expect_request("**/data/qwen-*/tokens-*.bin"):
        box = page.get_by_label("Neuron, label or word")
        box.fill(" banana")
        box.press("Enter")
    page.get_by_text("It is rare, so no ranking counts it.").wait_for()
    box.fill("scripture")
    box.press("Enter")
    page.wait_for_url("**neuron=2985*")
    page.get_by_text("scripture is its label").wait_for()
    (labels,) = html.glob("_static/at-*/data/qwen.csv")
    assert sorted(pd.read_csv(labels)["neuron"]) == [*range(8960)]


def test_a_reader_types_the_colour_of_the_theatre_and_sees_neuron_6419(visit):
    page = visit("#model=qwen", "reader", fresh=True)
    page.get_by_role("button", name="Compare with a second text").click()
    # of the two spellings of the opening paragraph it is the neuron that parts them most
    expect(page.get_by_label("Neuron", exact=True)).to_have_value("6419")
    with page.expect_request("**/data/qwen-*/tokens-*.bin"):
        for box, typed in (("First", "colour of the theatre"), ("Second", "color of the theater")):
            page.get_by_role("textbox", name=f"{box} text").fill(f"The xylophone, the {typed}")
    settled(page)
    sections = page.locator(".ctx-reader section").all_inner_texts()
    adds = [number(re.search(r"adds ([−+]?[\d.]+\d)", text)[1]) for text in sections]
    assert adds[0] > 0 > adds[1]
    assert not page.get_by_text("no data for").count()  # it has come
