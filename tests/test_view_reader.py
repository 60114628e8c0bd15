"""The live reader: its numbers are ctxlib's, and whatever is typed is read and stays text."""

import random
import re

import numpy as np
import pytest
import torch
from viewing import (
    added,
    adds,
    cells,
    check,
    explained,
    header,
    in_firefox_too,
    number,
    opened,
    settled,
    titles,
    view_page,
)

import ctxlib as cx

TEXT = "The colour of the harbour at dusk, and the theatre in the old centre of the town: " * 3
OTHER = "def area(width, height):\n    return width * height  # the same in every unit\n" * 4


@pytest.fixture(scope="module")
def address(address, view_folder, views):
    given = views["reader"].state() | {"text": TEXT, "other": OTHER}
    view_page(view_folder, ("reader", given), name="given")
    view_page(view_folder, ("reader", given | {"heads": [0, 1]}), name="heads")
    return address


def box(page, which):
    return page.get_by_role("textbox", name=f"{which} text", exact=True)


def summaries(circuit, tokens):
    """What neuron 648 is told, by both circuits and in truth."""
    said = (circuit.summary, circuit.self_normalised().summary)
    truth = circuit.at.truth(tokens, circuit.heads)[648].item()
    return [*(by(tokens)[648].item() for by in said), truth]


def test_the_numbers_shown_are_those_of_python(visit, mini_weights, circuit_of):
    page, heads = visit("#neuron=648&heads=2,3,4", "given"), [2, 3, 4]
    for which, text in enumerate((TEXT, OTHER)):
        tokens = cx.texts.encode(mini_weights, text)
        n = len(tokens) - 1
        count = page.locator(".ctx-reader-count").nth(which).text_content()
        assert count == f"{n} tokens; up to 511 are read"
        terms = added(circuit_of(heads, n), tokens, 648)
        check(adds(titles(page.locator(".ctx-reader-text").nth(which))), terms, 0.01)
        slider = page.get_by_role("slider").nth(which)
        for key, at in (("End", n), ("PageDown", n - 10)):
            slider.press(key)
            said = slider.get_attribute("aria-valuetext")
            upto = n if at == n else int(re.search(r"Up to token (\d+)", said)[1])
            figures = re.findall(r"[−+]?\d+\.\d+", said.rpartition("adds")[2])
            check(figures, [terms[at].item(), *summaries(circuit_of(heads, upto), tokens)], 0.015)
        on_the_way = [summaries(circuit_of(heads, upto), tokens) for upto in range(8, n + 1)]
        paper, own, computed = np.array(on_the_way).T
        said = page.get_by_text("Off by").nth(which).text_content()
        off = [np.sqrt(np.mean((line - computed) ** 2)) for line in (paper, own)]
        check(re.findall(r"\d+\.\d+", said), off, 0.015)


def test_an_error_is_said_of_whole_lines_only(browser, address):
    spy = """globalThis.errors = new Set();
        new MutationObserver(() => {
            for (const { textContent } of document.querySelectorAll(".ctx-reader .ctx-quiet"))
                if (textContent.startsWith("Off by")) errors.add(textContent);
        }).observe(document, { subtree: true, childList: true });"""
    with opened(browser) as page:
        page.add_init_script(spy)
        page.goto(f"{address}/given.html#neuron=648")
        last = settled(page).get_by_text("Off by").all_text_contents()
        assert len(last) == 2 and {*page.evaluate("[...errors]")} == {*last}


def test_the_lists_are_those_of_python(visit, mini_weights, circuit_of):
    page = visit("#heads=3,4", "given")
    lists = [
        [[number(cell) for cell in row[:-1]] for row in cells(table)]
        for table in page.locator(".ctx-reader-table").all()
    ]
    assert [len(rows) for rows in lists] == [8, 8, 8]
    passages = torch.stack([p.tokens for p in cx.texts.passages(mini_weights)])
    found = []
    for text, rows in zip((TEXT, OTHER), lists, strict=False):
        tokens = cx.texts.encode(mini_weights, text)
        n = len(tokens) - 1
        near = 2 ** round(np.log2(n))
        usual = circuit_of([3, 4], near).summary(passages)
        mean, sd = usual.mean(0), usual.std(0)
        summary = circuit_of([3, 4], n).summary(tokens)
        found.append((near, summary, sd))
        z = (summary - mean) / sd
        for neuron, *shown in rows:
            assert shown == [
                pytest.approx(z[int(neuron)].item(), abs=0.1),
                pytest.approx(summary[int(neuron)].item(), abs=0.02),
            ]
        loud = z.where(sd >= sd.quantile(0.75), 0)
        assert loud[[int(row[0]) for row in rows]].min() > loud.sort().values[-12]
    (near, first, sd), (other_near, second, other_sd) = found
    apart = (first - second) / (sd if near < other_near else other_sd)
    for neuron, *shown in lists[2]:
        truth = [values[int(neuron)].item() for values in (apart, first, second)]
        assert shown == pytest.approx(truth, abs=0.1)
    # what is chosen first is what differs most
    chosen = f"{lists[2][0][0]:.0f}"
    assert page.get_by_label("Neuron", exact=True).input_value() == chosen
    assert set(page.get_by_role("button", pressed=True).all_text_contents()) == {chosen}


def test_a_token_pointed_at_is_read_and_explained(visit, mini_weights, circuit_of):
    page = visit("#neuron=648&heads=2,3,4", "given")
    tokens = cx.texts.encode(mini_weights, TEXT)
    circuit = circuit_of([2, 3, 4], len(tokens) - 1)
    token = page.locator(".ctx-reader-text").first.locator("[data-place='5']")
    token.hover()
    reader, why = page.get_by_role("slider").first, page.locator(".ctx-why").first
    assert reader.get_attribute("aria-valuetext").startswith("Token 5, “␣har”, adds")
    why.locator(".ctx-word:text-is('␣har')").wait_for()
    assert "cursor" not in page.url  # pointing reads, pressing keeps
    token.click()
    whole = explained(why, circuit, tokens, 648, 5)
    check(adds([token.get_attribute("title")]), whole)
    box(page, "First").fill("")
    page.get_by_text("Nothing to read yet.").wait_for()
    assert why.is_hidden()


@in_firefox_too
def test_a_press_holds_while_a_slow_hand_moves_on_and_escape_lets_go(visit):
    page = visit("#neuron=648&heads=2,3,4", "given", fresh=True)
    tokens, why = page.locator(".ctx-reader-text").first, page.locator(".ctx-why").first
    at, reader = tokens.locator(".ctx-at"), page.get_by_role("slider").first
    end = reader.get_attribute("aria-valuenow")
    tokens.locator("[data-place='3']").hover()
    assert reader.get_attribute("aria-valuenow") == "3"
    page.mouse.move(1, 1, steps=10)
    assert reader.get_attribute("aria-valuenow") == end  # leaving restores
    tokens.locator("[data-place='5']").click()
    page.wait_for_url("**cursor=5**")
    why.locator("summary").scroll_into_view_if_needed()
    spot = why.locator("summary").bounding_box()
    page.mouse.move(spot["x"] + 40, spot["y"] + 5, steps=25)  # over the tokens and lines between
    assert at.get_attribute("data-place") == "5"
    assert reader.get_attribute("aria-valuenow") == "5"
    page.mouse.down()
    page.mouse.up()
    assert "␣har" in why.locator("summary").inner_text()
    assert tokens.locator(".ctx-held").get_attribute("data-place") == "5"
    tokens.locator("[data-place='2']").hover()  # pointing elsewhere shows, and holds nothing
    assert at.get_attribute("data-place") == "2"
    assert tokens.locator(".ctx-held").get_attribute("data-place") == "5"
    tokens.locator("[data-place='5']").click()
    page.keyboard.press("Escape")
    page.wait_for_function("!location.hash.includes('cursor=5')")
    assert tokens.locator(".ctx-held").count() == 0


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


def test_a_word_is_swapped_in_a_copy_of_the_text(visit):
    page = visit("#text=the%20law%20of%20the%20land&other=nothing", "reader", fresh=True)
    page.get_by_role("button", name="First text into the other box").click()
    second = page.get_by_role("textbox", name="Second text")
    assert second.input_value() == "the law of the land"
    assert settled(page).locator(".ctx-apart").count() == 0
    second.fill("the law of the sea")
    assert settled(page).locator(".ctx-apart").all_inner_texts() == [" land", " sea"]


def test_a_text_runs_in_the_direction_of_its_language(visit):
    page = visit(name="reader")
    box(page, "First").fill("שלום לכולם, זה טקסט קצר")
    box(page, "Second").fill("a short text, שלום")
    shown = settled(page).locator(".ctx-reader-text")
    directions = "all => all.map((e) => getComputedStyle(e).direction)"
    assert shown.evaluate_all(directions) == ["rtl", "ltr"]


def test_texts_without_a_context_say_so(visit):
    page = visit(name="reader")
    box(page, "First").fill("")
    box(page, "Second").fill("a")
    page.get_by_text("Nothing to read yet.").wait_for()
    page.get_by_text("a context begins with the next").wait_for()
    assert settled(page).get_by_role("slider").count() == 0
    box(page, "First").fill("a context again, of a few words")
    page.get_by_role("slider").wait_for()


def test_a_long_paste_is_cut_with_a_note(visit, mini_weights):
    page = visit(name="reader")
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


def test_a_long_text_travels_packed_and_one_too_long_is_told(visit):
    page = visit("#text=Grey&neuron=5", "reader", fresh=True)
    long = "".join(f"{i} grey skies & harbours, {i * i}: \u00e9\U0001f30a " for i in range(120))
    box(page, "Second").fill(long)
    page.wait_for_url("**&other.z=*")
    assert len(page.url) < 2500
    page = visit("#" + page.url.partition("#")[2], "reader", fresh=True)
    assert box(page, "Second").input_value() == long
    assert "other.z=" in page.url
    noise = random.Random(1)
    box(page, "Second").fill("".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(8000)))
    page.get_by_text("The second text is too long for an address").wait_for()
    page.wait_for_url(lambda url: "other" not in url)
    for damaged in ("other.z=%", "other.z=AAAA", "heads.z=AAAA", "other.z=" + "x" * 4000):
        page = visit(f"#text=Grey&{damaged}", "reader")
        assert box(page, "Second").input_value() == ""
