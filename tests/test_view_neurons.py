"""The neuron explorer: what it shows is ctxlib's, and what is typed and dragged does no harm."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from playwright.sync_api import expect
from shown import cells, check, each, explained, fragment, named, number
from viewing import added, header

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
    """All passages as chapter 6 reads them."""
    return circuit.fixed.prepare(cx.texts.passages(mini_weights))


def theta(page):
    """The threshold and how many pass, as the slider shows them."""
    text = page.get_attribute(THETA, "aria-valuetext")
    value, count = re.match(r"(\S+) .*: ([\d,]+) of ", text).groups()
    return number(value), int(number(count))


@pytest.mark.parametrize(
    ("heads", "query", "threshold"),
    [([], 0, None), ([0, 2, 5], 0, None), ([], 2, None), ([], 0, 15)],
)
def test_list_and_threshold_are_find_neurons(
    visit, circuit_of, packed_mini, heads, query, threshold
):
    head = header(packed_mini)
    token = head["destinations"][query]["id"]
    here = circuit_of(heads or head["stable"], token=token)
    found, every = cx.find_neurons(here), cx.find_neurons(here, threshold=0)
    of_ones_own = {"threshold": threshold} if threshold else {}
    page = visit(fragment(token=token, heads=heads, **of_ones_own), "neurons")
    ranks, neurons, tops, z = zip(*(row[:4] for row in cells(page, ROWS)), strict=True)
    assert ranks == tuple(map(str, range(1, 13)))
    usual = every.loc[[*map(int, neurons)]]
    near = WIDEST * every["top"].max()
    check(tops, usual["top"], near)
    check(tops, every["top"][:12], near)  # of the neurons with these ranks in Python
    check(z, usual["z"], 0.15)
    value, count = theta(page)
    assert value == pytest.approx(threshold or found.attrs["threshold"], abs=0.15)
    # neurons at the very edge may fall to either side
    passes, fixed, edge = ("top", threshold, WIDEST * threshold) if threshold else ("z", 2, 0.05)
    assert (every[passes] > fixed + edge).sum() <= count <= (every[passes] > fixed - edge).sum()
    page.get_by_role("button", name="More").click()
    expect(page.locator(ROWS)).to_have_count(min(24, count))


@pytest.mark.parametrize("rank", [3, 5])
def test_a_neuron_shows_its_tokens_its_domains_and_its_best_passage(
    visit, circuit, read, mini_weights, rank
):
    found = cx.find_neurons(circuit)
    neuron = int(found.index[rank])
    page = visit(f"#neuron={neuron}", "neurons")
    assert page.input_value(f"{ROWS} input:checked") == str(neuron)
    column = circuit.contribution[:, neuron]
    spelt = cx.texts.decode_tokens(mini_weights, range(mini_weights.d_vocab))
    ids = {named(token): i for i, token in enumerate(spelt)}
    near = WIDEST * float(column.max() - column.min())
    for i, ends in enumerate(("top tokens", "bottom tokens"), 1):
        table = page.locator(f".ctx-neurons-one table:nth-child({i})")
        shown, values = zip(*cells(table), strict=True)
        usual = [named(token) for token in found[ends][neuron][: len(shown)]]
        assert shown[0] == usual[0]
        for tokens in (shown, usual):  # these, and those with these ranks in Python
            check(values, column[[ids[token] for token in tokens]], near)
        bars_are_below_their_rows(table, [*map(number, values)])

    summaries, passages = circuit.summary(read)[:, neuron], cx.texts.passages(mini_weights)
    table = pd.Series(summaries.numpy()).groupby([p.domain for p in passages]).mean()
    near = 0.006 + WIDEST * float(summaries.max() - summaries.min())
    shown = {row[0]: number(row[-1]) for row in cells(page, ".ctx-domains tbody tr")}
    assert [*shown.values()] == sorted(shown.values(), reverse=True)
    assert shown == pytest.approx(table.to_dict(), abs=near)
    best = int(summaries.argmax())
    caption = page.locator(".ctx-key").first.locator("..").inner_text()
    assert passages[best].name in caption
    summary = number(caption.split("summary ")[1].split(",")[0])
    assert summary == pytest.approx(float(summaries[best]), abs=near)


def bars_are_below_their_rows(table, values):
    """Each as long as its number."""
    places, bars = (
        [part.bounding_box() for part in table.locator(those).all()]
        for those in ("tbody tr", ".ctx-neurons-bar")
    )
    for place, bar in zip(places, bars, strict=True):
        assert place["y"] < bar["y"] < place["y"] + place["height"]
        assert bar["x"] == pytest.approx(place["x"], abs=1)
    wide = np.array([bar["width"] for bar in bars])
    assert wide.max() <= table.bounding_box()["width"] + 1
    np.testing.assert_allclose(wide, np.abs(values) / max(map(abs, values)) * wide.max(), 0.02, 1)


def test_a_token_is_read_and_explained_and_path_and_table_light_up_together(
    visit, circuit, read, mini_weights
):
    page = visit("#neuron=463&passage=2", "neurons")
    terms = added(circuit, read[2], 463)
    most = int(terms.abs().argmax())
    reader = page.locator(".ctx-token-reader input")
    text = reader.get_attribute("aria-valuetext")
    word = named(mini_weights.tokenizer.decode([read[2, most]]))
    assert text.startswith(f"“{word}”, {circuit.fixed.n - most} back")
    check([text.split(": ")[1]], terms[most], 0.004)
    assert page.get_by_text(", with ␣the in place of its own token there: summary").count() == 1
    page.locator("[data-place='7']").first.hover()
    expect(reader).to_have_attribute("aria-valuetext", re.compile(f"{circuit.fixed.n - 7} back"))
    expect(reader).to_have_value("7")
    assert page.locator(".ctx-why table").count() == 0  # nothing is computed while it is shut
    page.locator("[data-place='7']").first.click()
    whole = explained(page.locator(".ctx-why"), circuit, read[2], 463, 7)
    assert whole == pytest.approx(float(terms[7]), abs=0.004)
    for opener in (page.locator(".ctx-why summary"), reader):
        opener.press("Escape")  # wherever the focus is
        expect(page.locator(".ctx-token.ctx-held")).to_have_count(0)
        expect(reader).to_have_value(str(most))
        reader.press("End")
        expect(page.locator(".ctx-token.ctx-held")).to_have_count(1)
    page.locator("[data-place='7']").first.click()
    rows = page.locator(".ctx-why tbody tr[data-row]")
    table = cells(page, ".ctx-why tbody tr[data-row]")
    most = max(range(len(table)), key=lambda k: abs(number(table[k][-1])))
    for pointed in (most, 0, len(table) - 1):
        rows.nth(pointed).hover()
        _, *factors, sum_ = table[pointed]
        adds = re.compile(f"adds {re.escape(sum_)} to neuron 463")
        expect(page.locator(".ctx-path")).to_have_attribute("aria-label", adds)
        pair = "[e.dataset.part, e.querySelector('.ctx-path-value')?.innerHTML]"
        path = dict(each(page.locator(".ctx-path [data-part]:has(.ctx-path-value)"), pair))
        assert [path[part] for part in ("kernel", "content", "denominator", "value")] == factors
        assert path["neuron"] == f"463: {sum_}"
        kernel, content, denominator, _ = map(number, factors)
        assert number(path["row"]) == pytest.approx(kernel * content / denominator, rel=0.02)
    page.mouse.move(0, 0)  # the head that adds most is read again
    page.locator(f"tr.ctx-chosen[data-row='{most}']").wait_for()

    page.locator(".ctx-path [data-part=content] .ctx-path-value").hover()
    lit = page.locator(".ctx-why .ctx-lit")
    lit.first.wait_for()
    parts = each(lit, "[e.dataset.part, e.closest('svg, table, p').tagName]")
    assert {*map(tuple, parts)} == {("content", place) for place in ("svg", "TABLE", "P")}
    page.mouse.move(0, 0)
    expect(lit).to_have_count(0)
    page.locator(".ctx-why p [data-part=kernel]").focus()  # and by keys
    page.locator(".ctx-path .ctx-lit").first.wait_for()
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
    counted = ~circuit.fixed.decomposition.untrained
    both = circuit.contribution[counted][:, [463, 77]], circuit.summary(read)[:, [463, 77]]
    figures = re.findall(r"at ([−\d.]+\d)", compared.locator(".ctx-quiet").inner_text())
    truth = [float(torch.corrcoef(values.T)[0, 1]) for values in both]
    assert list(map(number, figures)) == pytest.approx(truth, abs=0.03)
    captions = compared.locator(".ctx-domains caption").all_inner_texts()
    assert captions == ["Neuron 463", "Neuron 77, pinned"]
    compared.get_by_role("button", name="Neuron 77").press("Enter")
    page.get_by_role("heading", name="Neuron 77 is pinned").wait_for()
    focus = "document.activeElement.className"
    assert page.evaluate(focus) == "ctx-neurons-one", "what was pressed is gone"
    page.get_by_role("button", name="Unpin").last.press("Enter")
    page.wait_for_url(lambda url: "pinned" not in url)
    compared.wait_for(state="hidden")
    assert page.evaluate(focus) == "ctx-neurons-one"


def test_a_typed_token_shows_the_neurons_that_it_drives(visit, circuit, mini_weights):
    (token,) = mini_weights.tokenizer.encode(" war", add_special_tokens=False)
    row = circuit.contribution[token]
    page = visit("#search=%20war", "neurons")
    up, down = (
        cells(page, f".ctx-neurons-ends:not(.ctx-neurons-one *) table:nth-child({i}) tbody tr")
        for i in (1, 2)
    )
    neurons, values = zip(*up, *down, strict=True)
    neurons = [*map(int, neurons)]
    assert (neurons[0], neurons[len(up)]) == (int(row.argmax()), int(row.argmin()))
    check(values, row[neurons], WIDEST * float(row.max() - row.min()))


def test_a_word_of_several_tokens_offers_them(visit):
    page = visit(name="neurons")
    status = page.locator("[role=status]", has_text="No single token")
    page.fill(SEARCH, "unquestionably colourful " * 9)
    expect(status).to_contain_text("…")
    page.fill(SEARCH, "unquestionably colourful")
    expect(status).not_to_contain_text("…")
    offered = status.get_by_role("button")
    offered.nth(1).wait_for()
    first = offered.first.inner_text().replace("␣", " ")
    offered.first.click()
    expect(page.locator(SEARCH)).to_have_value(first)
    page.wait_for_url(f"**{fragment(search=first)}")


def test_where_no_neuron_passes_one_sentence_explains_it(visit):
    page = visit("#theta=1000000", "neurons")
    assert theta(page)[1] == 0
    assert page.get_by_text("No neuron passes").count() == 1
    # the neuron that is shown nonetheless is the loudest, and stands alone below
    assert page.locator(ROWS).count() == 1


def test_buttons_stand_as_keys_reach_them(visit):
    page = visit("", "neurons")
    places = each(page.locator(".ctx-copy button"), "e.getBoundingClientRect().x")
    assert places == sorted(places)
    page.get_by_role("button", name="One at random").click()
    page.wait_for_url("**neuron=*")
    heading = f"Neuron {page.url.rpartition('=')[2]}"
    page.get_by_role("heading", name=heading, exact=True).wait_for()


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
                await new Promise((done) => setTimeout(done)); // in which it may be written
            }
            return written;
        }""",
        THETA,
    )
    assert 1 < written < 60
    page.wait_for_function(
        """(theta) => {
            const addressed = Number(new URLSearchParams(location.hash.slice(1)).get("theta"));
            const here = Number(document.querySelector(theta).value);
            return Math.abs(addressed - here) <= 1e-6 * Math.abs(here);
        }""",
        arg=THETA,
    )


def test_the_threshold_is_a_line_that_one_drags_and_dots_are_neurons(visit):
    page = visit("", "neurons", fresh=True)
    box = page.locator(".ctx-neurons-dots canvas").bounding_box()
    reach = float(page.get_attribute(THETA, "max"))

    def across(top):
        """Where it lies: the slider is the axis."""
        return box["x"] + 8 + (box["width"] - 16) * top / reach

    before, count = theta(page)
    page.mouse.move(across(before), box["y"] + 60)
    page.mouse.down()
    page.mouse.move(across(before + reach / 4), box["y"] + 60, steps=12)
    page.mouse.up()
    after, fewer = theta(page)
    assert after == pytest.approx(before + reach / 4, abs=2 * reach / box["width"])
    assert 0 < fewer < count
    _, neuron, top, *_ = cells(page, ROWS)[1]
    place = 18 + 110 * (0.05 + 0.9 * (int(neuron) * 0.618034 % 1))
    page.mouse.click(across(number(top)), box["y"] + place)
    page.get_by_role("heading", name=f"Neuron {neuron}", exact=True).wait_for()
    said = page.locator(".ctx-neurons-dots canvas").get_attribute("aria-label")
    assert f"{fewer} of 1024 neurons pass the threshold" in said
