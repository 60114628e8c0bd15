"""A layer that comes in parts: a view answers with the first, waits where it lacks another, and in
the end shows what it shows of the whole file.
"""

import numpy as np
import pytest
from playwright.sync_api import expect
from shown import fragment, titles
from viewing import OF_LAYERS, Gate, header, opened, settled, tensors, view_page, whole

import ctxlib as cx
from ctxviews.layerfile import parts_of_layer

OPENS = {"rows": 6}  # with this passage


@pytest.fixture(scope="module")
def parts(mini_weights):
    """mini's files by their names."""
    return parts_of_layer(mini_weights, name="mini", opening=OPENS.values())


@pytest.fixture(scope="module")
def in_parts(address, view_folder, views, parts):
    """Where every view of a layer has it in parts."""
    folder = view_folder / "parts"
    for name in OF_LAYERS:
        view_page(folder, (name, whole(views[name])), name=name)
    for name, content in parts.items():
        file = folder / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return f"{address}/parts"


def test_the_parts_hold_what_the_whole_does(parts, packed_mini, mini_weights):
    opening, others, neurons = map(tensors, parts.values())
    held, first, head = tensors(packed_mini), header(parts["layer.bin"]), header(packed_mini)

    def of_tokens(part):
        here = part["here"].nonzero()[0]
        ids = {"W_E": here, "W_E_step": here, "W_E_fine": part["fine"]}
        return {
            (name, token): row.tobytes()
            for name, tokens in ids.items()
            for token, row in zip(tokens, part[name], strict=True)
        }

    one, other = of_tokens(opening), of_tokens(others)
    assert one | other == of_tokens(held) and not one.keys() & other.keys()
    for name in held.keys() - {"W_E", "W_E_step", "here", "fine", "W_E_fine"}:
        np.testing.assert_array_equal((opening | neurons)[name], held[name])
    passages = cx.texts.passages(mini_weights)
    read = [passages[k].tokens[: first["n"] + 1] for k in OPENS.values()]
    assert set(np.concatenate(read)) <= set(opening["here"].nonzero()[0])
    assert first.pop("folder").startswith("layer-")
    assert first | {"tensors": None} == head | {"tensors": None}
    assert len(parts["layer.bin"]) < 0.7e6


#: The addresses of the parts that have come.
COME = """performance.getEntriesByType("resource").map(({ name }) => name)
    .filter((name) => name.includes("/layer-"))"""

#: What a view shows before any part but the first has come, and of how much of it that is all.
EARLY = {
    "rows": [".ctx-view svg", ".ctx-tokens"],
    "kernels": [".ctx-view svg"],
    "neurons": [".ctx-controls input:checked"],
    "reader": [".ctx-controls input:checked", ".ctx-reader-text"],
}


@pytest.mark.parametrize("name", OF_LAYERS)
def test_a_view_answers_before_the_rest_has_come_and_ends_with_the_same_numbers(
    browser, address, in_parts, name
):
    target = f"{name}.html" + (fragment(passage=OPENS[name]) if name in OPENS else "")
    with opened(browser) as page, opened(browser) as other:
        gate = Gate(page, "**/layer-*/*.bin")
        page.goto(f"{in_parts}/{target}")
        for place in EARLY[name]:
            page.locator(place).first.wait_for()
        waits = int(name in ("neurons", "reader"))
        expect(page.locator(".ctx-waiting:not([hidden])")).to_have_count(waits)
        early = page.inner_text(".ctx-view")
        if name in ("neurons", "reader"):  # no number of what is not there
            assert page.locator(".ctx-readable, td.ctx-number:visible, .ctx-below").count() == 0
        gate.open()
        late = settled(page).inner_text(".ctx-view")
        needed = {"kernels": 0, "rows": 1}.get(name, 2)  # some come while a view is looked at
        page.wait_for_function(f"{COME}.length >= {needed}")
        parts = sorted(url.rpartition("/")[2] for url in page.evaluate(COME))
        other.goto(f"{address}/{target}")
        assert late == settled(other).inner_text(".ctx-view")
    if name in ("rows", "kernels"):
        assert early == late
    assert parts == ["neurons.bin", "tokens.bin"][2 - needed :]


def test_a_turn_waits_for_the_part_that_it_needs(browser, address, in_parts):
    with opened(browser) as page, opened(browser) as other:
        gate = Gate(page, "**/layer-*/tokens.bin")
        page.goto(f"{in_parts}/rows.html{fragment(passage=OPENS['rows'])}")
        page.locator(".ctx-tokens").wait_for()
        page.get_by_label("Passage").select_option("30")
        page.get_by_text("Fetching").wait_for()
        assert page.locator(".ctx-view svg, .ctx-token").count() == 0
        assert "total variation of its" not in page.inner_text(".ctx-view")
        gate.open()
        other.goto(f"{address}/rows.html#passage=30")
        assert settled(page).inner_text(".ctx-view") == settled(other).inner_text(".ctx-view")


def test_what_is_typed_before_the_weights_have_come_is_read_when_they_have(
    browser, address, in_parts
):
    with opened(browser) as page, opened(browser) as other:
        gate = Gate(page, "**/layer-*/*.bin")
        with page.expect_request("**/layer-*/*.bin"):
            page.goto(f"{in_parts}/reader.html#neuron=174")
        other.goto(f"{address}/reader.html#neuron=174")
        settled(other)
        for where in (page, other):
            where.get_by_role("textbox", name="First text").fill("a zebra in the harbour")
        page.get_by_text("Its summary follows with the weights.").first.wait_for()
        assert len(gate.held) == 1  # the keys have requested nothing anew
        gate.open()
        shades = [
            titles(settled(where).locator(".ctx-reader-text").first) for where in (page, other)
        ]
        assert shades[0] == shades[1] and len(shades[0]) > 5
