"""The view of attention rows shows what ctxlib computes, and whole characters."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from shown import check, each, fragment, named, number, readings, titles

import ctxlib as cx


@pytest.mark.parametrize(
    "turned",
    [
        {},
        {"passage": 30, "n": 1},
        {"passage": 71, "n": 511, "head": 1, "octaves": -1.5},
        {"passage": 12, "n": 40, "head": 6, "octaves": 2},
    ],
)
def test_the_rows_and_their_distances_are_ctxlibs(visit, mini_weights, turned):
    page = visit(fragment(**turned), "rows")
    state = {"passage": 0, "n": mini_weights.n_ctx // 2, "head": 0, "octaves": 0} | turned
    passage, n, head, octaves = (state[trait] for trait in ("passage", "n", "head", "octaves"))
    tokens = cx.texts.passages(mini_weights)[passage].tokens
    C = mini_weights.typical_norm() * 2**octaves
    rows = cx.attention_rows(mini_weights, tokens, n), cx.approx_rows(mini_weights, tokens, n, C=C)
    apart = page.locator(".ctx-chip small").all_inner_texts()
    check(apart, cx.total_variation(*rows), 0.006)
    assert f"is {apart[head]}." in page.locator(".ctx-view > p").first.inner_text()

    expected = torch.stack([row[head].flip(0) for row in rows], 1)  # tokens back, row
    most = float(expected[:, 0].max())
    handle = page.get_by_role("slider", name="Read the rows")
    first = int(handle.get_attribute("aria-valuenow"))
    assert expected[first, 0] > 0.99 * most
    pattern = r"true ([\d.]+), rebuilt ([\d.]+)$"
    walk = ["Home"] + ["ArrowLeft"] * min(n, 40)  # the past lies to the left
    shown = [re.search(pattern, text).groups() for text in readings(handle, *walk)]
    found = [[*map(number, pair)] for pair in shown]
    np.testing.assert_allclose(found, expected[: len(walk)], atol=0.01 * most, rtol=0)


def test_reading_a_row_marks_the_token(visit):
    page = visit("#n=20", "rows")
    page.get_by_role("slider", name="Read the rows").press("Home")
    assert page.locator(".ctx-at").get_attribute("data-place") == "20"
    page.locator("[data-place='5']").hover()
    page.locator(".ctx-at[data-place='5']").wait_for()
    assert page.locator(".ctx-readout").inner_text().count("15 back") == 1
    # what is pointed at is read without a new drawing: the keyboard keeps its place
    assert page.evaluate("document.activeElement.getAttribute('aria-valuenow')") == "15"
    page.keyboard.press("ArrowRight")
    assert page.locator(".ctx-at").get_attribute("data-place") == "6"


def test_an_axis_has_its_powers_of_ten_in_one_form(visit):
    page = visit("", "kernels")
    powers = each(page.locator(".ctx-chart .ctx-grid + text"), "e.textContent")
    assert len(powers) > 2
    assert all(re.fullmatch("10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", power) for power in powers)


def test_a_chart_is_held_by_a_press_as_a_text_is(visit):
    page = visit("#n=100", "rows")
    page.mouse.move(1, 1)  # wherever a test before has left it
    chart = page.get_by_role("slider", name="Read the rows")
    box, first = chart.bounding_box(), chart.get_attribute("aria-valuenow")

    def moved(share, held, steps=10):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 80, steps=steps)
        pins = page.locator(".ctx-held:not([visibility=hidden])")
        expect(pins).to_have_count(2 * held)  # one in the text
        return chart.get_attribute("aria-valuenow")

    pressed = moved(0.3, held=False)
    page.mouse.down()
    page.mouse.up()
    assert len({first, pressed, moved(0.6, held=True)}) == 3
    page.mouse.move(1, 1, steps=10)
    expect(chart).to_have_attribute("aria-valuenow", pressed)
    page.keyboard.press("Escape")
    expect(chart).to_have_attribute("aria-valuenow", first)
    moved(0.3, held=False)


def test_the_text_ends_at_the_destination_in_whole_characters_named_as_in_tables(
    visit, mini_weights
):
    decode, passages = mini_weights.tokenizer.decode, cx.texts.passages(mini_weights)
    words = [[decode([t]) for t in p.tokens[:101]] for p in passages]
    broken = max(range(len(words)), key=lambda k: "".join(words[k]).count("\ufffd"))
    assert "\ufffd" in "".join(words[broken])
    for passage in (broken, 3):
        page = visit(f"#passage={passage}&n=100", "rows")
        text = page.locator(".ctx-tokens")
        spans = text.locator(".ctx-token").all_text_contents()
        for word, title, span in zip(words[passage], titles(text), spans, strict=True):
            assert "\ufffd" not in title + span
            shown = title.rpartition(" ")[0], span
            written = word.removeprefix(" ").replace("\n", "↵")  # a space is not shaded
            assert "\ufffd" in word or shown == (named(word), written)
    assert text.text_content() == "".join(words[3]).replace("\n", "↵")
    assert page.locator(".ctx-word").inner_text() == named(words[3][-1])
