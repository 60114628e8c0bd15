"""The neuron explorer: what it shows is ctxlib's, keys turn everything, nonsense does no harm."""

import gzip
import json
from functools import cache

import pandas as pd
import pytest
import torch
import traitlets
from viewing import explained, parts_by_head, printed, serious, served, view_page, watched

import ctxlib as cx

STATE = {"neuron": -1, "heads": [], "threshold": 0, "token": -1, "passage": -1, "search": ""}
ROWS = ".ctx-neurons-list tbody tr"
READY = ".ctx-neurons-domains svg"
THETA = ".ctx-neurons-theta input"
SEARCH = "input[type=search]"
WIDEST = 0.01  # of a range: what int8 may cost


@pytest.fixture(scope="module")
def header(packed_mini):
    content = gzip.decompress(packed_mini)
    return json.loads(content[4 : 4 + int.from_bytes(content[:4], "little")])


@pytest.fixture(scope="module")
def circuit(mini_weights, header):
    """A function that gives the page's circuit in Python."""

    @cache
    def calibrated(heads, token):
        text = torch.tensor(header["calibration"]["ids"])
        return cx.ContextualCircuit.calibrate(mini_weights, text, heads, header["n"], token)

    return lambda heads=None, token=" the": calibrated(tuple(heads or header["stable"]), token)


@pytest.fixture(scope="module")
def address(tmp_path_factory, packed_mini):
    folder = tmp_path_factory.mktemp("neurons")
    view_page(folder, "neurons", STATE, packed_mini)
    broken = tmp_path_factory.mktemp("broken")
    view_page(broken, "neurons", STATE, packed_mini[: len(packed_mini) // 2])
    with served(folder) as good, served(broken) as bad:
        yield {"good": good, "bad": bad}


@pytest.fixture(scope="module")
def page(browser, address):
    """One page for all: a test begins with `at`, which gives it an address."""
    page = watched(browser.new_page(viewport={"width": 1100, "height": 900}))
    page.goto(f"{address['good']}/index.html")
    page.wait_for_selector(READY)
    yield page
    assert page.elsewhere == page.failed == page.said == []


def at(page, hash=""):
    """Follows an address inside the page and waits until all of it is drawn."""
    page.evaluate("hash => { location.hash = hash }", hash)
    settle(page)


def settle(page):
    page.evaluate(
        """async () => {
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            for (let quiet = 0; quiet < 6; quiet++) {
                await frame();
                if (document.querySelector(".ctx-neurons[aria-busy]")) quiet = 0;
            }
        }"""
    )


def number(text):
    return float(text.replace("\u2212", "-").replace(",", ""))


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def cells(page, selector):
    return [[cell.strip() for cell in row.split("\t")] for row in texts(page, selector)]


def chosen(page):
    return int(page.locator(f"{ROWS} input:checked").get_attribute("value"))


def theta(page):
    """The threshold and how many pass, as the slider says them."""
    said = page.get_attribute(THETA, "aria-valuetext")
    return number(said.split(" ")[0]), int(number(said.split(": ")[1].split(" of ")[0]))


def named(weights, token):
    return weights.tokenizer.decode([token]).replace(" ", "␣").replace("\n", "↵")


# ---------------------------------------------------------------- what it shows


@pytest.mark.parametrize("heads", [None, [0, 2, 5]])
def test_the_list_is_find_neurons(page, circuit, heads):
    found = cx.find_neurons(circuit(heads))
    every = cx.find_neurons(circuit(heads), threshold=0)
    at(page, f"heads={','.join(map(str, heads))}" if heads else "")
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


def test_a_threshold_of_ones_own_finds_as_many_as_in_python(page, circuit):
    at(page, "theta=15")
    every = cx.find_neurons(circuit(), threshold=0)["top"]
    value, count = theta(page)
    assert value == 15
    assert (every > 15 * (1 + WIDEST)).sum() <= count <= (every > 15 * (1 - WIDEST)).sum()
    page.get_by_role("button", name="More").click()
    assert len(texts(page, ROWS)) == min(24, count)


def test_another_destination_token_ranks_again(page, circuit, mini_weights, header):
    token = header["destinations"][2]["id"]
    at(page, f"token={token}")
    found = cx.find_neurons(circuit(token=mini_weights.tokenizer.decode([token])))["top"]
    for row in cells(page, ROWS):
        near = 0.06 + WIDEST * found.max()
        assert number(row[2]) == pytest.approx(found[int(row[1])], abs=near)


def test_a_neuron_shows_its_tokens_and_their_contributions(page, circuit, mini_weights):
    contribution = circuit().contribution
    neuron = cx.find_neurons(circuit()).index[3]
    at(page, f"neuron={neuron}")
    assert chosen(page) == neuron
    column = contribution[:, neuron]
    ids = {named(mini_weights, token): token for token in range(mini_weights.d_vocab)}
    reach = float(column.max() - column.min())
    found = cx.find_neurons(circuit()).loc[neuron]
    up, down = (cells(page, f".ctx-neurons-one table:nth-child({i}) tbody tr") for i in (1, 2))
    for rows, names in ((up, found["top tokens"]), (down, found["bottom tokens"])):
        spelt = [name.replace(" ", "␣").replace("\n", "↵") for name in names]
        assert rows[0][0] == spelt[0]
        for name, value in rows:
            expected = pytest.approx(float(column[ids[name]]), abs=WIDEST * reach)
            assert number(value) == expected


def test_the_outermost_are_found_without_a_sort_of_the_vocabulary(page):
    at(page)
    page.evaluate(
        """() => {
            window.longest = 0;
            for (const kind of [Array, Int32Array, Float64Array]) {
                const sort = kind.prototype.sort;
                kind.prototype.sort = function (...by) {
                    longest = Math.max(longest, this.length);
                    return sort.apply(this, by);
                };
            }
        }"""
    )
    at(page, "neuron=321&search=%20war")
    assert page.locator(".ctx-neurons-one h3").inner_text() == "Neuron 321"
    assert page.evaluate("longest") < 1000  # of 8192 tokens and 1024 neurons
    found = page.evaluate(
        """async () => {
            const { outermost } = await import("./views/engine/linalg.js");
            const values = Array.from({ length: 500 }, (_, i) => (i * 7919) % 101);
            const places = [...values.keys()];
            const sorted = places.toSorted((a, b) => values[b] - values[a]);
            const told = ({ up, down }) => [up, down].map((few) => few.map((i) => values[i]));
            return [
                told(outermost(values, places, 12)),
                told({ up: sorted.slice(0, 12), down: sorted.slice(-12).reverse() }),
                told(outermost(values, [3, 1], 12)).map((few) => few.length),
            ];
        }"""
    )
    assert found[0] == found[1]
    assert found[2] == [2, 2]


def test_its_domains_and_its_best_passage_are_those_of_the_summary(page, circuit, mini_weights):
    here, passages = circuit(), cx.texts.passages(mini_weights)
    neuron = int(cx.find_neurons(here).index[5])
    read = torch.stack([p.tokens[: here.n + 1] for p in passages])
    read[:, here.n] = here.token  # as in chapter 7
    said = here.summary(read)
    table = pd.Series(said[:, neuron].numpy()).groupby([p.domain for p in passages]).mean()
    reach = float(said[:, neuron].max() - said[:, neuron].min())
    at(page, f"neuron={neuron}")
    rows = cells(page, ".ctx-neurons-domains tbody tr")
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


def test_a_token_of_the_passage_can_be_read(page, circuit, mini_weights):
    here, passages = circuit(), cx.texts.passages(mini_weights)
    at(page, "neuron=463&passage=2")
    read = passages[2].tokens[: here.n + 1].clone()
    read[here.n] = here.token
    terms = here.by_source(read, [463])[:, 0]
    most = int(terms.abs().argmax())
    reader = page.locator(".ctx-token-reader input")
    said = reader.get_attribute("aria-valuetext")
    assert said.startswith(f"“{named(mini_weights, read[most])}”, {here.n - most} back")
    value, rounding = printed(said.split(": ")[1])
    assert value == pytest.approx(float(terms[most]), abs=0.004 + rounding)
    page.locator("[data-place='7']").first.hover()
    assert reader.input_value() == "7"
    assert f"{here.n - 7} back" in reader.get_attribute("aria-valuetext")


def test_why_here_is_the_circuit_head_by_head(page, circuit, mini_weights):
    here, passage = circuit(), cx.texts.passages(mini_weights)[2]
    at(page, "neuron=463&passage=2")
    read = passage.tokens[: here.n + 1].clone()
    read[here.n] = here.token
    page.locator("[data-place='7']").first.hover()
    assert page.locator(".ctx-why table").count() == 0  # nothing is computed while it is shut
    whole = explained(page.locator(".ctx-why"), parts_by_head(here, read, 463, 7))
    shade, rounding = printed(
        page.locator("[data-place='7']").first.get_attribute("title").rpartition(" ")[2]
    )
    assert abs(whole - shade) <= 1.1 * rounding
    assert whole == pytest.approx(float(here.by_source(read, [463])[7, 0]), abs=0.004)
    page.locator("[data-place='9']").first.hover()  # it follows the token that is read
    named = page.locator("[data-place='9']").first.get_attribute("title").rpartition(" ")[0]
    page.wait_for_function(
        "named => document.querySelector('.ctx-why .ctx-word').textContent === named", arg=named
    )
    page.locator(".ctx-why summary").click()


def test_a_typed_token_shows_the_neurons_that_it_drives(page, circuit, mini_weights):
    (token,) = mini_weights.tokenizer.encode(" war", add_special_tokens=False)
    row = circuit().contribution[token]
    at(page, "search=%20war")
    up, down = (
        cells(page, f".ctx-neurons-ends:not(.ctx-neurons-one *) table:nth-child({i}) tbody tr")
        for i in (1, 2)
    )
    assert int(up[0][0]) == int(row.argmax())
    assert int(down[0][0]) == int(row.argmin())
    reach = float(row.max() - row.min())
    for neuron, value in up + down:
        assert number(value) == pytest.approx(float(row[int(neuron)]), abs=0.006 + WIDEST * reach)


def test_a_word_of_several_tokens_offers_them(page):
    at(page)
    page.fill(SEARCH, "unquestionably colourful")
    settle(page)
    said = page.locator("[role=status]", has_text="No single token")
    offered = said.get_by_role("button").all_inner_texts()
    assert len(offered) > 1
    said.get_by_role("button").first.click()
    settle(page)
    assert page.input_value(SEARCH) == offered[0].replace("␣", " ")
    assert "search=" in page.evaluate("location.hash")


def test_where_no_neuron_passes_one_sentence_says_so(page):
    at(page, "theta=1000000")
    assert theta(page)[1] == 0
    assert page.get_by_text("No neuron passes").count() == 1
    # the neuron that is shown nonetheless is the loudest, and stands alone below
    assert page.locator(ROWS).count() == 1


# ---------------------------------------------------------------- how it is turned


def press_until(page, selector, key="Tab", most=120):
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
    raise AssertionError(f"{key} does not reach {selector}")


def test_keys_alone_turn_everything_and_the_address_follows(browser, address):
    page = watched(browser.new_page(viewport={"width": 1100, "height": 900}))
    page.goto(f"{address['good']}/index.html")
    page.wait_for_selector(READY)
    heard = lambda: (settle(page), page.evaluate("location.hash"))[1]  # noqa: E731

    press_until(page, ".ctx-chips input")
    page.keyboard.press("Space")
    assert "heads=1," in heard(), "without head 0, which was stable"
    press_until(page, "select")
    page.keyboard.press("ArrowDown")
    assert "token=" in heard()
    press_until(page, THETA)
    before = theta(page)[0]
    page.keyboard.press("ArrowRight")
    assert "theta=" in heard()
    assert theta(page)[0] == pytest.approx(before + 0.1, abs=0.051)
    press_until(page, "input[type=checkbox]")
    page.keyboard.press("Space")
    assert "theta=" not in heard()
    press_until(page, f"{ROWS} input")
    page.keyboard.press("ArrowDown")
    assert f"neuron={chosen(page)}" in heard()
    assert page.evaluate("document.activeElement.checked")
    press_until(page, ".ctx-neurons-one .ctx-pick")
    token = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    heard()
    assert page.input_value(SEARCH) == token.replace("␣", " ")
    press_until(page, ".ctx-readable")
    said = page.evaluate("document.activeElement.ariaValueText")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.ariaValueText") != said
    press_until(page, SEARCH)
    page.keyboard.press("Control+A")
    page.keyboard.type(" the")
    assert "search=%20the" in heard()
    press_until(page, ".ctx-neurons-barred .ctx-pick")
    name = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    assert f"neuron={name}" in heard()
    press_until(page, ".ctx-neurons-domains button")
    page.keyboard.press("Enter")
    assert "passage=" in heard()
    press_until(page, "select")
    page.keyboard.press("Home")
    assert "passage=" not in heard()
    press_until(page, ".ctx-token-reader input")
    page.keyboard.press("Home")
    assert "back" in page.evaluate("document.activeElement.ariaValueText")
    assert page.said == []
    page.close()


def test_a_link_to_a_heading_leaves_the_state(browser, address):
    page = browser.new_page()
    page.goto(f"{address['good']}/index.html#neuron=123&heads=0,2,6&theta=4")
    page.wait_for_selector(READY)
    at(page, "main-content")
    assert (chosen(page), theta(page)[0]) == (123, 4)
    at(page, "neuron=5")
    assert chosen(page) == 5
    page.close()


def test_the_address_of_a_slider_that_was_dragged_is_that_of_its_end(browser, address):
    """A browser lets no page write its address hundreds of times."""
    page = browser.new_page()
    page.goto(f"{address['good']}/index.html")
    page.wait_for_selector(READY)
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
    page.close()


def test_an_address_leads_to_its_state(browser, address):
    page = browser.new_page()
    page.goto(f"{address['good']}/index.html#neuron=123&heads=0,2,6&theta=4")
    page.wait_for_selector(READY)
    assert chosen(page) == 123
    assert theta(page)[0] == 4
    assert page.locator(".ctx-chips input:checked").count() == 3
    assert page.evaluate("location.hash") == "#neuron=123&heads=0,2,6&theta=4"
    page.close()


@pytest.mark.parametrize(
    "nonsense",
    [
        "heads=99",
        "heads=-1,2",
        "heads=1.5",
        "neuron=-5",
        "neuron=1e9",
        "neuron=NaN",
        "theta=-3",
        "theta=Infinity",
        "token=12345678",
        "passage=0.5",
        "search=%E0%A4%A",
        "no=such&=&&#",
    ],
)
def test_nonsense_in_an_address_falls_back(page, nonsense):
    at(page)
    usual = texts(page, ROWS), page.get_attribute(THETA, "aria-valuetext")
    at(page, nonsense)
    assert (texts(page, ROWS), page.get_attribute(THETA, "aria-valuetext")) == usual
    assert page.locator(".ctx-failed").count() == 0


@pytest.mark.parametrize(
    "typed", ["<img src=x onerror=alert(1)>", "</script><b>", "\u202e\x00\ud83d"]
)
def test_what_is_typed_is_never_markup(page, typed):
    at(page)
    page.fill(SEARCH, typed)
    settle(page)
    assert page.locator(".ctx-neurons :is(img, script)").count() == 0
    assert page.locator(".ctx-failed").count() == 0
    page.fill(SEARCH, "")


def test_damaged_data_give_one_line(browser, address):
    page = browser.new_page()
    page.goto(f"{address['bad']}/index.html")
    page.wait_for_selector(".ctx-failed")
    assert page.locator(".ctx-view").inner_text().count("\n") == 0
    assert page.locator("#stand-in").count() == 1
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_reader_out(page, scheme):
    at(page, "search=colourful")
    page.emulate_media(color_scheme=scheme)
    assert serious(page) == []


# ---------------------------------------------------------------- the same in Python


def test_traits_are_set_observed_and_guarded(mini_view):
    view = mini_view("NeuronExplorer", heads=[4, 3, 3], threshold=4)
    assert view.heads == [3, 4]
    heard = []
    view.observe(lambda change: heard.append(change.new), names="neuron")
    view.neuron = 12
    assert heard == [12]
    assert view.state() | {"heads": [3, 4], "neuron": 12, "threshold": 4.0} == view.state()
    assert 'data-view="neurons"' in view.place()
    for name, value in (
        ("heads", [99]),
        ("heads", "3"),
        ("threshold", -1),
        ("threshold", float("nan")),
        ("token", 1),
        ("neuron", -2),
        ("neuron", 10**6),
        ("passage", 10**6),
        ("search", 3),
    ):
        with pytest.raises(traitlets.TraitError):
            setattr(view, name, value)
    assert view.state() | {"heads": [3, 4], "neuron": 12, "search": ""} == view.state()
