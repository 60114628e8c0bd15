"""The view of kernels shows what ctxlib computes."""

import pytest
from playwright.sync_api import expect
from shown import cells, readings
from viewing import settled, view_page

import ctxlib as cx
from ctxviews.layerfile import packed_layer, query_tokens


def rows(page):
    """The table's rows: head, weight, effective tokens, half within, family."""
    return cells(settled(page), ".ctx-kernels-numbers tbody tr")


def heads(page):
    return [int(row[0]) for row in rows(page)[:-1]]


def check_numbers(page, weights, n, token):
    kernels = cx.positional_kernels(weights, n, token)
    *shown, even = rows(page)
    spread, half = cx.effective_tokens(kernels).tolist(), cx.heads.half_mass(kernels).tolist()
    assert [int(row[0]) for row in shown] == list(range(weights.n_heads))
    assert [float(row[2]) for row in shown] == pytest.approx(spread, rel=0.01, abs=0.06)
    assert [int(row[3]) for row in shown] == half
    assert float(even[2]) == n + 1
    assert float(even[1]) == pytest.approx(1 / (n + 1), rel=0.01)
    families = cx.families(cx.fix_query(weights))["family"].tolist()
    assert [row[4] for row in shown] == families


def test_the_table_has_what_ctxlib_computes(visit, view_folder, views, mini_weights, tiny_weights):
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
        heads = [f"head {row[0]} {row[1]}" for row in rows(page)[:-1]]
        assert fixed == f"{distance} tokens back: {', '.join(heads)}"
        weights = [float(row[1]) for row in rows(page)[:-1]]
        assert weights == pytest.approx(kernels[[2, 5], distance].tolist(), rel=0.01, abs=6e-6)


def test_one_head_stays_and_so_does_the_place_that_was_read(visit):
    page = visit("#heads=3", "kernels")
    page.locator("input[type=checkbox]").nth(3).press("Space")
    assert heads(page) == [3]
    expect(page.get_by_role("status").filter(has_text="One head stays.")).to_be_visible()
    slider = page.locator("[role=slider]")
    *_, fixed = readings(slider, "Home", "PageUp", "PageUp")
    assert fixed.startswith("20 tokens back")
    page.press("input[type=range]", "ArrowRight")
    page.wait_for_url("**n=*")
    assert heads(page) == [3]
    expect(slider).to_have_attribute("aria-valuenow", "20")
