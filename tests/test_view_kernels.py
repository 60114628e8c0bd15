"""The view of kernels shows what ctxlib computes, and a family's heads."""

import re

import pytest
from viewing import cells, settled, view_page

import ctxlib as cx
from ctxlib.widgets.layerfile import destinations, packed_layer


@pytest.fixture(scope="module")
def address(address, view_folder, tiny_weights, views):
    layer = packed_layer(tiny_weights, cx.texts.passages(tiny_weights))
    view_page(view_folder / "tiny", ("kernels", views["kernels"].state()), layer=layer)
    return address


def rows(page):
    """The table's rows: head, weight, effective tokens, half within, family."""
    return cells(settled(page), ".ctx-kernels-numbers tbody tr")


def heads(page):
    return [int(row[0]) for row in rows(page)[:-1]]


def check_numbers(page, weights, n, token):
    kernels = cx.positional_kernels(weights, n, token)
    *shown, even = rows(page)
    spread, half = cx.effective_tokens(kernels).tolist(), cx.split.half_mass(kernels).tolist()
    assert [int(row[0]) for row in shown] == list(range(weights.n_heads))
    assert [float(row[2]) for row in shown] == pytest.approx(spread, rel=0.01, abs=0.06)
    assert [int(row[3]) for row in shown] == half
    assert float(even[2]) == n + 1
    assert float(even[1]) == pytest.approx(1 / (n + 1), rel=0.01)
    families = cx.families(cx.destination(weights))["family"].tolist()
    assert [row[4] for row in shown] == families


def test_the_table_says_what_ctxlib_computes(visit, mini_weights, tiny_weights):
    check_numbers(visit(name="kernels"), mini_weights, mini_weights.n_ctx // 2, " the")
    other = destinations(mini_weights)[1]
    check_numbers(visit(f"#n=301&token={other}", "kernels"), mini_weights, 301, other)
    page = visit(name="tiny/index")  # other heads, other positions
    check_numbers(page, tiny_weights, 16, destinations(tiny_weights)[0])
    assert page.get_attribute("input[type=range]", "max") == "31"


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_cursor_reads_the_weights_at_a_distance(visit, mini_weights, scale):
    page = visit(f"#heads=2,5&n=100&scale={scale}", "kernels")
    kernels = cx.positional_kernels(mini_weights, 100).flip(-1)
    walk = [("Home", 0), ("ArrowRight", 0), ("PageUp", 10), ("ArrowLeft", 11), ("End", 100)]
    for key, distance in walk:
        page.press("[role=slider]", key)
        said = page.get_attribute("[role=slider]", "aria-valuetext")
        pattern = r"(\d+) tokens back: head 2 (0\.\d+), head 5 (0\.\d+)"
        at, *weights = re.fullmatch(pattern, said).groups()
        assert int(at) == distance
        expected = kernels[[2, 5], distance].tolist()
        assert [float(v) for v in weights] == pytest.approx(expected, rel=0.01, abs=6e-6)
        assert [row[1] for row in rows(page)[:-1]] == weights


def test_a_family_shows_its_heads_until_a_head_is_turned(visit, mini_weights):
    families = cx.families(cx.destination(mini_weights))["family"]
    rarest = families.value_counts().idxmin()
    few = families.index[families == rarest].tolist()
    page = visit(name="kernels")
    page.select_option("select >> nth=0", rarest)
    assert heads(page) == few
    assert page.locator("input[type=checkbox]:checked").count() == len(few)
    other = families.index[families != rarest][0]
    page.locator("input[type=checkbox]").nth(other).press("Space")
    assert heads(page) == sorted([*few, other])
    assert page.input_value("select >> nth=0") == "all"
    assert "family" not in page.evaluate("location.hash")


def test_one_head_stays_and_so_does_the_place_that_was_read(visit):
    page = visit("#heads=3", "kernels")
    page.locator("input[type=checkbox]").nth(3).press("Space")
    assert heads(page) == [3]
    for key in ("Home", "PageUp", "PageUp"):
        page.press("[role=slider]", key)
    page.press("input[type=range]", "ArrowRight")
    assert heads(page) == [3]
    assert page.get_attribute("[role=slider]", "aria-valuetext").startswith("20 tokens back")
