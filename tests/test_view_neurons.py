"""The neuron explorer: what it shows is ctxlib's, and what is typed and dragged does no harm."""

import re

import pandas as pd
import pytest
import torch
from viewing import added, cells, check, explained, header, named, number, settled

import ctxlib as cx

ROWS = ".ctx-neurons-list tbody tr"
THETA = ".ctx-neurons-theta input"
SEARCH = "input[type=search]"
WIDEST = 0.01  # of a range: what int8 may cost


@pytest.fixture(scope="module")
def circuit(circuit_of, packed_mini):
    """That of the stable heads."""
    return circuit_of(header(packed_mini)["stable"])


@pytest.fixture(scope="module")
def read(circuit, mini_weights):
    """All passages as chapter 8 reads them."""
    return circuit.at.placed(cx.texts.passages(mini_weights))


def theta(page):
    """The threshold and how many pass, as the slider says them."""
    said = page.get_attribute(THETA, "aria-valuetext")
    return number(said.split(" ")[0]), int(number(said.split(": ")[1].split(" of ")[0]))


@pytest.mark.parametrize(("heads", "asks"), [(None, 0), ([0, 2, 5], 0), (None, 2)])
def test_the_list_is_find_neurons(visit, circuit_of, packed_mini, heads, asks):
    said = header(packed_mini)
    token = said["destinations"][asks]["id"]
    here = circuit_of(heads or said["stable"], token=token)
    found, every = cx.find_neurons(here), cx.find_neurons(here, threshold=0)
    page = visit(f"#token={token}&heads={','.join(map(str, heads or []))}", "neurons")
    shown = [[number(cell) for cell in row[:4]] for row in cells(page, ROWS)]
    assert [row[0] for row in shown] == list(range(1, 13))
    near = 0.06 + WIDEST * found["top"].max()
    for (_, neuron, top, z), usual in zip(shown, found["top"], strict=False):
        assert top == pytest.approx(found["top"][neuron], abs=near)
        assert z == pytest.approx(found["z"][neuron], abs=0.15)
        assert top == pytest.approx(usual, abs=near)  # of the neuron with this rank in Python
    value, count = theta(page)
    assert value == pytest.approx(found.attrs["threshold"], abs=0.15)
    # neurons at the very edge may fall to either side
    assert (every["z"] > 2.05).sum() <= count <= (every["z"] > 1.95).sum()


def test_a_threshold_of_ones_own_finds_as_many_as_in_python(visit, circuit):
    page = visit("#theta=15", "neurons")
    every = cx.find_neurons(circuit, threshold=0)["top"]
    value, count = theta(page)
    assert value == 15
    assert (every > 15 * (1 + WIDEST)).sum() <= count <= (every > 15 * (1 - WIDEST)).sum()
    page.get_by_role("button", name="More").click()
    assert page.locator(ROWS).count() == min(24, count)


def test_a_neuron_shows_its_tokens_and_their_contributions(visit, circuit, mini_weights):
    neuron = cx.find_neurons(circuit).index[3]
    page = visit(f"#neuron={neuron}", "neurons")
    assert page.input_value(f"{ROWS} input:checked") == str(neuron)
    column = circuit.contribution[:, neuron]
    spelt = cx.neurons.spelled(mini_weights, range(mini_weights.d_vocab))
    ids = {named(token): i for i, token in enumerate(spelt)}
    near = WIDEST * float(column.max() - column.min())
    found = cx.find_neurons(circuit).loc[neuron]
    up, down = (cells(page, f".ctx-neurons-one table:nth-child({i}) tbody tr") for i in (1, 2))
    for rows, names in ((up, found["top tokens"]), (down, found["bottom tokens"])):
        assert rows[0][0] == named(names[0])
        for (name, value), usual in zip(rows, names, strict=False):
            for token in (name, named(usual)):  # this one, and the one with this rank in Python
                assert number(value) == pytest.approx(float(column[ids[token]]), abs=near)


def test_a_bar_is_as_long_as_its_number_below_its_own_row(visit):
    page = visit("#neuron=174", "neurons")
    for table in page.locator(".ctx-neurons-one .ctx-neurons-barred").all():
        wide = table.bounding_box()["width"]
        rows = table.locator("tbody tr")
        values = [abs(number(value)) for value in rows.locator(".ctx-number").all_inner_texts()]
        bars = [bar.bounding_box() for bar in rows.locator(".ctx-neurons-bar").all()]
        for row, bar, value in zip(rows.all(), bars, values, strict=True):
            place = row.bounding_box()
            assert place["y"] < bar["y"] < place["y"] + place["height"]
            assert bar["x"] == pytest.approx(place["x"], abs=1)
            assert bar["width"] <= wide + 1
            share = value / max(values) * max(other["width"] for other in bars)
            assert bar["width"] == pytest.approx(share, rel=0.02, abs=1)


def test_its_domains_and_its_best_passage_are_the_summarys(visit, circuit, read, mini_weights):
    said, passages = circuit.summary(read), cx.texts.passages(mini_weights)
    neuron = int(cx.find_neurons(circuit).index[5])
    table = pd.Series(said[:, neuron].numpy()).groupby([p.domain for p in passages]).mean()
    reach = float(said[:, neuron].max() - said[:, neuron].min())
    page = visit(f"#neuron={neuron}", "neurons")
    rows = cells(page, ".ctx-domains tbody tr")
    assert {row[0] for row in rows} == set(table.index)
    values = [number(row[-1]) for row in rows]
    assert values == sorted(values, reverse=True)
    for name, value in zip((row[0] for row in rows), values, strict=True):
        assert value == pytest.approx(table[name], abs=0.006 + WIDEST * reach)
    best = int(said[:, neuron].argmax())
    caption = page.locator(".ctx-key").first.locator("..").inner_text()
    assert passages[best].name in caption
    summary = number(caption.split("summary ")[1].split(",")[0])
    assert summary == pytest.approx(float(said[best, neuron]), abs=0.006 + WIDEST * reach)


def test_a_token_of_the_passage_can_be_read(visit, circuit, read, mini_weights):
    page = visit("#neuron=463&passage=2", "neurons")
    terms = added(circuit, read[2], 463)
    most = int(terms.abs().argmax())
    reader = page.locator(".ctx-token-reader input")
    said = reader.get_attribute("aria-valuetext")
    word = named(mini_weights.tokenizer.decode([read[2, most]]))
    assert said.startswith(f"“{word}”, {circuit.at.n - most} back")
    check([said.split(": ")[1]], terms[most], 0.004)
    page.locator("[data-place='7']").first.hover()
    assert reader.input_value() == "7"
    assert f"{circuit.at.n - 7} back" in reader.get_attribute("aria-valuetext")
    assert page.locator(".ctx-why table").count() == 0  # nothing is computed while it is shut


def test_a_path_and_its_table_explain_a_token_and_light_up_together(visit, circuit, read):
    page = visit("#neuron=463&passage=2", "neurons")
    page.locator("[data-place='7']").first.click()
    whole = explained(page.locator(".ctx-why"), circuit, read[2], 463, 7)
    assert whole == pytest.approx(float(added(circuit, read[2], 463)[7]), abs=0.004)
    rows = page.locator(".ctx-why tbody tr[data-row]")
    table = cells(page, ".ctx-why tbody tr[data-row]")
    most = max(range(len(table)), key=lambda k: abs(number(table[k][-1])))
    for pointed in (most, 0, len(table) - 1):
        rows.nth(pointed).hover()
        _, kernel, content, denominator, value, sum_ = table[pointed]
        said = page.locator(".ctx-path [data-part]").evaluate_all(
            "all => all.map((g) => [g.dataset.part, g.querySelector('.ctx-path-said')?.innerHTML])"
        )
        path = {part: number for part, number in said if number}
        assert [path[part] for part in ("kernel", "content", "denominator", "value")] == [
            kernel, content, denominator, value,
        ]  # fmt: skip
        assert path["neuron"] == f"463: {sum_}"
        row = number(path["kernel"]) * number(path["content"]) / number(path["denominator"])
        assert number(path["row"]) == pytest.approx(row, rel=0.02)
        label = page.locator(".ctx-path").get_attribute("aria-label")
        assert f"adds {sum_} to neuron 463" in label
    page.mouse.move(0, 0)  # the head that adds most is read again
    assert page.locator("tr.ctx-chosen[data-row]").get_attribute("data-row") == str(most)

    page.locator(".ctx-path [data-part=content] .ctx-path-said").hover()
    lit = page.locator(".ctx-why .ctx-lit").evaluate_all(
        "all => all.map((e) => [e.dataset.part, e.closest('svg, table, p').tagName])"
    )
    assert {part for part, _ in lit} == {"content"}
    assert {place for _, place in lit} == {"svg", "TABLE", "P"}
    page.mouse.move(0, 0)
    assert page.locator(".ctx-why .ctx-lit").count() == 0
    page.locator(".ctx-why p [data-part=kernel]").focus()  # and by keys
    assert page.locator(".ctx-path .ctx-lit").count() > 0
    page.locator(".ctx-why summary").click()


def test_a_pinned_neuron_stands_beside_the_chosen_one(visit, circuit, read, mini_weights):
    page = visit("#neuron=77", "neurons")
    page.get_by_role("button", name="Pin for comparison").click()
    page.wait_for_url("**pinned=77")
    page = visit("#neuron=463&pinned=77", "neurons")
    found = cx.find_neurons(circuit, threshold=-1e9)
    compared = page.locator("section", has=page.get_by_role("heading", name="beside neuron 77"))
    rows = cells(compared, ".ctx-figures tbody tr")
    for (_, *row), neuron in zip(rows, (463, 77), strict=True):
        rank, top, z, mean = map(number, row[:4])
        usual = found.loc[neuron]
        assert abs(rank - 1 - found.index.get_loc(neuron)) <= 3  # near ties
        assert (top, z) == pytest.approx((usual["top"], usual["z"]), abs=0.15)
        assert mean == pytest.approx(usual["mean"], abs=0.06)
    counted = ~circuit.at.split.untrained
    both = circuit.contribution[counted][:, [463, 77]], circuit.summary(read)[:, [463, 77]]
    said = re.findall(r"at ([−\d.]+\d)", compared.locator(".ctx-quiet").inner_text())
    truth = [float(torch.corrcoef(values.T)[0, 1]) for values in both]
    assert list(map(number, said)) == pytest.approx(truth, abs=0.03)
    captions = compared.locator(".ctx-domains caption").all_inner_texts()
    assert captions == ["Neuron 463", "Neuron 77, pinned"]
    compared.get_by_role("button", name="Unpin").click()
    page.wait_for_url(lambda url: "pinned" not in url)
    compared.wait_for(state="hidden")


def test_a_typed_token_shows_the_neurons_that_it_drives(visit, circuit, mini_weights):
    (token,) = mini_weights.tokenizer.encode(" war", add_special_tokens=False)
    row = circuit.contribution[token]
    page = visit("#search=%20war", "neurons")
    up, down = (
        cells(page, f".ctx-neurons-ends:not(.ctx-neurons-one *) table:nth-child({i}) tbody tr")
        for i in (1, 2)
    )
    assert int(up[0][0]) == int(row.argmax())
    assert int(down[0][0]) == int(row.argmin())
    reach = float(row.max() - row.min())
    for neuron, value in up + down:
        assert number(value) == pytest.approx(float(row[int(neuron)]), abs=0.006 + WIDEST * reach)


def test_a_word_of_several_tokens_offers_them(visit):
    page = visit(name="neurons")
    page.fill(SEARCH, "unquestionably colourful")
    settled(page)
    said = page.locator("[role=status]", has_text="No single token")
    offered = said.get_by_role("button").all_inner_texts()
    assert len(offered) > 1
    said.get_by_role("button").first.click()
    settled(page)
    assert page.input_value(SEARCH) == offered[0].replace("␣", " ")
    assert "search=" in page.evaluate("location.hash")


def test_where_no_neuron_passes_one_sentence_says_so(visit):
    page = visit("#theta=1000000", "neurons")
    assert theta(page)[1] == 0
    assert page.get_by_text("No neuron passes").count() == 1
    # the neuron that is shown nonetheless is the loudest, and stands alone below
    assert page.locator(ROWS).count() == 1


def test_the_address_of_a_slider_that_was_dragged_is_that_of_its_end(visit):
    """A browser lets no page write its address hundreds of times."""
    page = visit(name="neurons", fresh=True)
    written = page.evaluate(
        """async (theta) => {
            let written = 0;
            const write = history.replaceState.bind(history);
            history.replaceState = (...how) => { written += 1; write(...how); };
            const slider = document.querySelector(theta);
            for (let step = 0; step < 120; step++) {
                slider.value = Number(slider.min) + step * Number(slider.step || 1);
                slider.dispatchEvent(new Event('input', {bubbles: true}));
                await new Promise((painted) => requestAnimationFrame(painted));
            }
            return written;
        }""",
        THETA,
    )
    assert 1 < written < 60
    page.wait_for_function(
        """(theta) => {
            const said = Number(new URLSearchParams(location.hash.slice(1)).get("theta"));
            const here = Number(document.querySelector(theta).value);
            return Math.abs(said - here) <= 1e-6 * Math.abs(here);
        }""",
        arg=THETA,
    )
