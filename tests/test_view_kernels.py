"""The view of kernels shows what ctxlib computes."""

import re

import pytest
from playwright.sync_api import expect
from shown import each, readings
from viewing import settled, view_page

import ctxlib as cx
from ctxviews.layerfile import packed_layer, query_tokens


def spread(page):
    """The heads that are drawn, with their effective tokens."""
    alt = settled(page).get_by_role("img", name="Positional kernels").get_attribute("aria-label")
    return {int(head): float(value) for head, value in re.findall(r"head (\d+) ([\d.]*\d)", alt)}


def check_numbers(page, weights, n, token):
    kernels = cx.positional_kernels(weights, n, token)
    shown = spread(page)
    assert [*shown] == [*range(weights.n_heads)]
    effective = cx.effective_tokens(kernels).tolist()
    assert [*shown.values()] == pytest.approx(effective, rel=0.01, abs=0.06)
    families = cx.families(cx.fix_query(weights))["family"].tolist()
    chips = each(page.locator(".ctx-chips label"), "e.title")
    assert [title.split(": ")[1].split(";")[0] for title in chips] == families


def test_kernels_are_those_of_ctxlib(visit, view_folder, views, mini_weights, tiny_weights):
    check_numbers(visit(name="kernels"), mini_weights, mini_weights.n_ctx // 2, " the")
    other = query_tokens(mini_weights)[1]
    check_numbers(visit(f"#n=301&token={other}", "kernels"), mini_weights, 301, other)
    layer = packed_layer(tiny_weights, cx.texts.passages(tiny_weights))
    view_page(view_folder / "tiny", ("kernels", views["kernels"].state()), layer=layer)
    page = visit(name="tiny/index")  # other heads, other positions
    check_numbers(page, tiny_weights, 16, query_tokens(tiny_weights)[0])
    assert page.get_attribute("input[type=range]", "max") == "31"


def test_the_cursor_reads_the_weights_at_a_distance(visit, mini_weights):
    page = visit("#heads=2,5&n=100", "kernels")
    kernels = cx.positional_kernels(mini_weights, 100).flip(-1)
    walk = {"Home": 0, "PageUp": 10, "ArrowLeft": 11, "ArrowRight": 10, "End": 100}
    slider = page.locator("[role=slider]")
    assert [*readings(slider, "Home", "ArrowLeft")][1].startswith("1 token back: ")
    texts = readings(slider, *walk)
    for fixed, distance in zip(texts, walk.values(), strict=True):
        assert fixed.startswith(f"{distance} tokens back: head 2 ")
        weights = [*map(float, re.findall(r"head \d (\S*\d)", fixed))]
        assert weights == pytest.approx(kernels[[2, 5], distance].tolist(), rel=0.01, abs=6e-7)


def test_one_head_stays_and_so_does_the_place_that_was_read(visit):
    page = visit("#heads=3", "kernels")
    page.locator("input[type=checkbox]").nth(3).press("Space")
    assert [*spread(page)] == [3]
    expect(page.get_by_role("status").filter(has_text="One head stays.")).to_be_visible()
    slider = page.locator("[role=slider]")
    *_, fixed = readings(slider, "Home", "PageUp", "PageUp")
    assert fixed.startswith("20 tokens back")
    page.press("input[type=range]", "ArrowRight")
    page.wait_for_url("**n=*")
    assert [*spread(page)] == [3]
    expect(slider).to_have_attribute("aria-valuenow", "20")
