"""The view of attention rows shows what ctxlib computes, and whole characters."""

import re

import pytest
import torch
from viewing import named, number

import ctxlib as cx


def variations(page):
    """The total variation that each head bears."""
    return [number(said) for said in page.locator(".ctx-chip small").all_inner_texts()]


def rows_of(weights, passage=0, n=None, octaves=0.0):
    """True and rebuilt rows of all heads."""
    tokens = cx.texts.passages(weights)[passage].tokens
    n = weights.n_ctx // 2 if n is None else n
    C = weights.typical_norm() * 2**octaves
    return cx.attention_rows(weights, tokens, n), cx.rebuilt_rows(weights, tokens, n, C=C)


@pytest.mark.parametrize(
    "state",
    [{}, {"passage": 30, "n": 1}, {"passage": 71, "n": 511, "octaves": -1.5}, {"octaves": 2}],
)
def test_the_distances_are_ctxlibs(visit, mini_weights, state):
    page = visit("#" + "&".join(f"{name}={value}" for name, value in state.items()), "rows")
    true, rebuilt = rows_of(mini_weights, **state)
    expected = cx.total_variation(true, rebuilt).tolist()
    assert variations(page) == pytest.approx(expected, abs=0.006 + 0.005)  # two digits
    said = page.locator(".ctx-view > p").first.inner_text()
    assert f"is {variations(page)[0]:.2f}." in said


@pytest.mark.parametrize(("head", "scale"), [(0, "linear"), (1, "log"), (6, "linear")])
def test_the_rows_read_what_ctxlib_computes(visit, mini_weights, head, scale):
    page = visit(f"#passage=12&head={head}&n=40&scale={scale}", "rows")
    true, rebuilt = (row[head] for row in rows_of(mini_weights, passage=12, n=40))
    handle = page.get_by_role("slider", name="Read the rows")
    assert handle.get_attribute("aria-valuenow") == str(40 - int(true.argmax()))
    handle.press("Home")
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
    page = visit("#n=20", "rows")
    page.get_by_role("slider", name="Read the rows").press("Home")
    assert page.locator(".ctx-at").get_attribute("data-place") == "20"
    page.locator("[data-place='5']").hover()
    assert page.locator(".ctx-at").get_attribute("data-place") == "5"
    assert page.locator(".ctx-said").inner_text().count("15 back") == 1
    # what is pointed at is read without a new drawing: the keyboard keeps its place
    assert page.evaluate("document.activeElement.getAttribute('aria-valuenow')") == "15"
    page.keyboard.press("ArrowRight")
    assert page.locator(".ctx-at").get_attribute("data-place") == "6"


def test_the_text_ends_at_the_destination_and_tokens_are_named_as_in_tables(visit, mini_weights):
    page = visit("#passage=3&n=40", "rows")
    tokens = cx.texts.passages(mini_weights)[3].tokens[:41].tolist()
    words = [mini_weights.tokenizer.decode([t]) for t in tokens]
    titles = page.locator(".ctx-token").evaluate_all("all => all.map((token) => token.title)")
    assert [title.rpartition(" ")[0] for title in titles] == [named(word) for word in words]
    assert page.locator(".ctx-word").inner_text() == named(words[-1])
    spans = page.locator(".ctx-token").all_text_contents()
    assert [word.replace("\n", "↵") for word in words] == spans


def test_a_character_of_several_tokens_is_shown_whole(visit, mini_weights):
    decode = mini_weights.tokenizer.decode
    passages = cx.texts.passages(mini_weights)
    alone = [sum("\ufffd" in decode([t]) for t in p.tokens[:100]) for p in passages]
    broken = max(range(len(alone)), key=alone.__getitem__)
    assert alone[broken] > 0
    page = visit(f"#passage={broken}&n=100", "rows")
    text = page.locator(".ctx-tokens")
    assert "\ufffd" not in text.inner_text()
    titles = [e.get_attribute("title") for e in text.locator("[data-place]").all()]
    assert not any("\ufffd" in title for title in titles)
