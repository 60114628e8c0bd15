"""The neuron explorer: what it shows is ctxlib's, and what is typed and dragged does no harm."""

import re

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect
from shown import WRITTEN, cells, check, each, explained, fragment, named, number
from test_pages import contrast
from viewing import PHONE, added, header, opened, settled

import ctxlib as cx

ROWS = ".ctx-neurons-list tbody tr"
THETA = ".ctx-neurons-theta input"
FIND = ".ctx-neurons-find input"
DRIVEN = ".ctx-neurons-driven"
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
    value, count = re.match(r"(\S+): ([\d,]+) of ", text).groups()
    return number(value), int(number(count))


def every_row(page):
    """Open the list, which shows a dozen at first."""
    more = page.get_by_role("button", name=re.compile("^(All|The first) [0-9]+$"))
    if more.is_visible():
        assert page.locator(ROWS).count() <= 13
        more.click()
    expect(more).to_be_hidden()


@pytest.mark.parametrize(("heads", "threshold"), [([], None), ([0, 2, 5], None), ([], 15)])
def test_list_and_threshold_are_find_neurons(visit, circuit_of, packed_mini, heads, threshold):
    here = circuit_of(heads or header(packed_mini)["stable"])
    found, every = cx.find_neurons(here), cx.find_neurons(here, threshold=0)
    of_ones_own = {"threshold": threshold} if threshold else {}
    page = visit(fragment(heads=heads, **of_ones_own), "neurons")
    every_row(page)
    ranks, neurons, tops = zip(*(row[:3] for row in cells(page, ROWS)), strict=True)
    assert ranks == tuple(map(str, range(1, len(ranks) + 1)))
    usual = every.loc[[*map(int, neurons)]]
    near = WIDEST * every["top"].max()
    check(tops, usual["top"], near)
    check(tops, every["top"][: len(tops)], near)  # of the neurons with these ranks in Python
    value, count = theta(page)
    assert value == pytest.approx(threshold or found.attrs["threshold"], abs=0.15)
    # neurons at the very edge may fall to either side
    passes, fixed, edge = ("top", threshold, WIDEST * threshold) if threshold else ("z", 2, 0.05)
    assert (every[passes] > fixed + edge).sum() <= count <= (every[passes] > fixed - edge).sum()
    assert len(ranks) == min(100, count)


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
    means = page.get_by_role("img", name="Summaries of the passages").get_attribute("aria-label")
    shown = {
        name: number(mean) for name, mean in re.findall(r"([\w-]+) ([+\u2212\d.]+\d)[,.]", means)
    }
    assert [*shown.values()] == sorted(shown.values(), reverse=True)
    assert shown == pytest.approx(table.to_dict(), abs=near)
    best = int(summaries.argmax())
    caption = page.locator(".ctx-key").first.locator("..").inner_text()
    assert passages[best].name in caption
    summary = number(caption.split("summary ")[1].split(". ")[0])
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
    most = 1 + int(terms[1:].abs().argmax())  # of the words
    reader = page.locator(".ctx-token-reader input")
    text = reader.get_attribute("aria-valuetext")
    word = named(mini_weights.tokenizer.decode([read[2, most]]))
    assert text.startswith(f"“{word}”, {circuit.fixed.n - most} back")
    alone, weight, sum_ = re.split(" × weight | = ", text.split(": ")[1])
    check([sum_], terms[most], 0.004)
    check([alone], circuit.contribution[read[2, most], 463], 0.3)  # as the list of tokens has it
    check([weight], circuit.kernel[most], 1e-5)
    assert page.get_by_text(", with ␣the in place of its own token there: summary").count() == 1
    page.locator("[data-place='7']").first.hover()
    expect(reader).to_have_attribute("aria-valuetext", re.compile(f"{circuit.fixed.n - 7} back"))
    expect(reader).to_have_value("7")
    assert page.locator(".ctx-why table").count() == 0  # nothing is computed while it is shut
    page.locator("[data-place='7']").first.click()
    whole = explained(page.locator(".ctx-why"), circuit, read[2], 463, 7)
    assert whole == pytest.approx(float(terms[7]), abs=0.004)
    figure, sentence, table = (
        page.locator(f".ctx-why {part}").bounding_box()["y"] for part in ("figure", "p", "table")
    )
    assert figure < sentence < table
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


def test_a_head_that_is_held_stays_while_one_reads_on(visit):
    page = visit("#neuron=463&passage=2", "neurons", fresh=True)
    page.locator(".ctx-why summary").click()
    chosen = page.locator(".ctx-why tr.ctx-chosen")
    most = chosen.get_attribute("data-row")
    other = page.locator(".ctx-why tr[data-row]:not(.ctx-chosen)").first
    held = other.get_attribute("data-row")
    other.click()
    page.mouse.move(0, 0)
    page.locator(".ctx-token-reader input").press("ArrowLeft")
    page.locator(".ctx-token-reader input").press("ArrowRight")
    expect(chosen).to_have_attribute("data-row", held)
    page.locator(".ctx-why summary").press("Escape")
    expect(chosen).to_have_attribute("data-row", most)
    page.locator(".ctx-why summary").click()


def test_a_typed_token_shows_the_neurons_that_it_drives(visit, circuit, mini_weights):
    (token,) = mini_weights.tokenizer.encode(" war", add_special_tokens=False)
    row = circuit.contribution[token]
    page = visit("#search=%20war", "neurons")
    said = page.locator(DRIVEN).inner_text()
    assert said.startswith("␣war drives up ")
    neurons, values = zip(*re.findall(r"(\d+) ([+\u2212][\d.]*\d)", said), strict=True)
    neurons = [*map(int, neurons)]
    assert (neurons[0], neurons[3]) == (int(row.argmax()), int(row.argmin()))
    check(values, row[neurons], WIDEST * float(row.max() - row.min()))


@pytest.mark.parametrize("word", ["unquestionably", "banana", "xyzzy"])
def test_a_search_without_an_answer_says_so_and_chooses_nothing(visit, mini_weights, word):
    page = visit("#neuron=463", "neurons", fresh=True)
    page.fill(FIND, word)
    page.press(FIND, "Enter")
    said = page.locator(".ctx-neurons-find")
    pieces = mini_weights.tokenizer.tokenize(f" {word}")
    parts = [part.replace("Ġ", "␣") for part in pieces]
    expect(said).to_contain_text(f"read as the pieces {' + '.join(parts)}.")
    expect(page.locator(".ctx-neurons-one .ctx-heading")).to_have_text("Neuron 463")
    assert page.url.endswith("#neuron=463")
    offers = page.get_by_role("group", name="Like this").get_by_role("button")
    assert parts[0] in offers.all_inner_texts()  # the pieces of which a text has it, to press
    offers.first.click()
    expect(said).to_contain_text("Of 1,024 neurons, ")


def test_the_line_stays_when_a_head_is_turned_and_a_tick_has_the_rules_place(
    visit, circuit_of, packed_mini
):
    page = visit("", "neurons", fresh=True)
    rule, count = theta(page)
    page.locator(".ctx-chips input").first.uncheck()
    settled(page)
    line, fewer = theta(page)
    assert line == rule and fewer < count, "fewer dots lie right of the same line"
    page.wait_for_url("**&theta=*")
    heads = [head for head in header(packed_mini)["stable"] if head]
    found = cx.find_neurons(circuit_of(heads))
    said = page.get_by_text("The rule would put the line at the tick, ")
    place = number(said.inner_text().removesuffix(".").rpartition(" ")[2])
    assert place == pytest.approx(found.attrs["threshold"], abs=0.15)
    x = spot(page, 0, place)[0]
    assert sum(page.evaluate(PIXEL, [x, 18 + 110 + 4])) < 300, "the tick is there"
    page.get_by_role("button", name="by the rule").click()
    settled(page)
    assert theta(page)[0] == pytest.approx(place, abs=0.05)
    expect(said).to_have_count(0)
    page = visit(fragment(heads=heads), "neurons")  # as addresses had it before
    assert theta(page)[0] == pytest.approx(place, abs=0.05)


def test_where_no_token_pushes_down_none_is_said_to(visit):
    page = visit("#neuron=107", "neurons")
    values = page.get_by_role("table", name="Tokens that push up least").locator("td:last-child")
    assert min(number(value) for value in values.all_inner_texts()) > 0
    expect(page.get_by_role("table", name="Tokens that push down")).to_have_count(0)


@pytest.mark.parametrize("heads", [[], [0, 1, 2, 3, 4, 5, 6]], ids=["all", "one off"])
def test_where_no_neuron_passes_one_sentence_explains_it(visit, circuit_of, packed_mini, heads):
    page = visit(fragment(heads=heads, threshold=1000000), "neurons")
    assert theta(page)[1] == 0
    assert page.get_by_text("No neuron passes").count() == 1
    stable = header(packed_mini)["stable"]
    ranked = cx.find_neurons(circuit_of(heads or stable), threshold=0)
    how = f"with heads {', '.join(map(str, heads or stable))}"
    words = f"the line is at 1,000,000, and {how} the farthest, neuron {ranked.index[0]}, reaches "
    reason = page.locator(".ctx-neurons-dots [role=status]").filter(has_text=words)
    far = reason.inner_text().partition("reaches ")[2].partition(". ")[0]
    check([far], ranked["top"].iloc[:1], WIDEST * ranked["top"].max())
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


# ---------------------------------------------------------------- what a newcomer sees

SCREEN = {"width": 1280, "height": 800}
CANVAS = ".ctx-neurons-dots canvas"
PIXEL = """([x, y]) => {
    const canvas = document.querySelector("canvas"), scale = canvas.width / canvas.clientWidth;
    const read = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
        .getContext("2d", { willReadFrequently: true });
    read.drawImage(canvas, -Math.round(scale * x), -Math.round(scale * y));
    return [...read.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


def spot(page, neuron, top):
    """Where a dot lies on the canvas, where no label is known."""
    width, reach = (
        page.locator(CANVAS).bounding_box()["width"],
        float(page.get_attribute(THETA, "max")),
    )
    return 8 + (width - 16) * top / reach, 18 + 110 * (0.05 + 0.9 * (neuron * 0.618034 % 1))


def test_the_chosen_dot_is_a_disk_and_the_one_that_is_pointed_at_a_ring(visit):
    page = visit("", "neurons", fresh=True)
    (_, first, top, *_), (_, second, other, *_) = cells(page, ROWS)[:2]
    chosen, pointed = spot(page, int(first), number(top)), spot(page, int(second), number(other))
    before, disk = (page.evaluate(PIXEL, place) for place in (pointed, chosen))
    page.locator(CANVAS).hover(position=dict(zip("xy", pointed, strict=True)))
    assert page.evaluate(PIXEL, pointed) == before, "a ring leaves the dot as it was"
    assert page.evaluate(PIXEL, chosen) == disk
    assert disk[0] > 2 * disk[2] and before[2] > 2 * before[0], "orange and blue"


def test_the_axis_of_the_dots_has_numbers_and_a_name(visit):
    page = visit("", "neurons", fresh=True)
    page.evaluate(WRITTEN)
    page.locator(CANVAS).hover(position={"x": 8, "y": 70})
    page.locator(CANVAS).hover(position=dict(zip("xy", spot(page, *farthest(page)), strict=True)))
    numbers = [
        (float(text), x) for text, x, y in page.evaluate("places") if text.isdecimal() and y > 135
    ]
    ticks = dict(numbers)
    assert len(ticks) > 3 and 0 in ticks
    for value, x in ticks.items():
        assert x == pytest.approx(spot(page, 0, value)[0], abs=0.6)
    expect(page.get_by_text("how far a neuron’s 20 strongest tokens push it")).to_be_visible()


def farthest(page):
    """The neuron that lies farthest to the right, and where."""
    _, neuron, top, *_ = cells(page, ROWS)[0]
    return int(neuron), number(top)


def test_curves_on_heads_are_explained_and_the_words_of_a_neuron_stand_beside_the_dots(visit):
    page = visit("", "neurons", fresh=True)
    page.set_viewport_size(SCREEN)
    settled(page)
    heads = page.get_by_role("group", name="Heads").inner_text()
    assert "by its distance, from the query (right) to 256 tokens back (left)" in heads
    dots = page.locator(CANVAS).bounding_box()
    words = page.get_by_role("table", name="Tokens that push up").bounding_box()
    assert words["x"] >= dots["x"] + dots["width"]
    assert words["y"] < dots["y"] + dots["height"]


MEANT = "(e) => getComputedStyle(e, '::after').content"


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("Heads", "They mix what the tokens of a text carry"),
        ("query", "The token from which heads look at the others"),
        ("top", "How strongly single tokens can raise a neuron: what the 20 that raise it most"),
        ("pre-activation", "The number that goes into a neuron"),
        ("by the rule", "two robust standard deviations above the median"),
    ],
)
def test_a_word_that_a_newcomer_may_not_know_says_what_it_means(visit, word, meaning):
    page = visit("", "neurons", fresh=True)
    term = page.locator(".ctx-term").filter(has_text=re.compile(f"^{re.escape(word)}$")).first
    assert term.evaluate(MEANT) == "none"
    term.hover()
    assert meaning in term.evaluate(MEANT)
    page.mouse.move(0, 0)
    page.locator("h1").first.evaluate("(e) => { e.tabIndex = -1; e.focus(); }")
    for _ in range(40):  # and by keys
        page.keyboard.press("Tab")
        if term.evaluate("(e) => e.contains(document.activeElement)"):
            break
    assert meaning in term.evaluate(MEANT)


def test_every_scale_has_its_unit(visit):
    page = visit("#neuron=463", "neurons")
    unit = "in units of the pre-activation"
    assert unit in page.locator(".ctx-neurons-dots").inner_text()  # of a top
    assert unit in page.locator(".ctx-neurons-one").inner_text()  # of a contribution
    assert page.get_by_text(f"summary, {unit}").count() == 1


def test_a_passage_opens_at_its_first_word_and_is_read_at_one(visit, circuit, read):
    for passage, tokens in enumerate(read):  # noqa: B007
        terms = circuit.kernel[:, None] * circuit.contribution[tokens[: circuit.fixed.length]]
        front = [j for j, most in enumerate(terms.abs().argmax(0).tolist()) if most == 0]
        if front:  # of a neuron that the token in front of every text drives most
            break
    page = visit(f"#neuron={front[0]}&passage={passage}", "neurons")
    most = 1 + int(terms[1:, front[0]].abs().argmax())
    reader = page.locator(".ctx-token-reader input")
    expect(reader).to_have_value(str(most))
    text = page.locator(".ctx-neurons .ctx-tokens").inner_text()
    assert text.startswith("▸") and "endoftext" not in text
    assert (
        "▸ is the token <|endoftext|> in front of every text" in page.locator("main").inner_text()
    )
    assert "endoftext" in page.locator("[data-place='0']").get_attribute("title")


def test_on_a_phone_a_dot_is_answered_below_the_dots_and_a_row_comes_into_sight(visit):
    page = visit("", "neurons", fresh=True)
    page.set_viewport_size(PHONE)
    settled(page)
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    title = page.locator(".ctx-neurons-one .ctx-heading").first
    tokens = page.get_by_role("table", name="Tokens that push up").get_by_role("button")
    expect(tokens.nth(2)).not_to_be_in_viewport()
    dot = dict(zip("xy", spot(page, *farthest(page)), strict=True))
    page.locator(CANVAS).click(position=dot)
    brief = page.locator(".ctx-neurons-brief")
    expect(brief).to_contain_text(f"{farthest(page)[0]}, top ")
    assert brief.bounding_box()["width"] > 350
    assert page.evaluate("scrollY") == 0
    brief.get_by_role("button", name="more below").click()
    expect(title).to_be_in_viewport(ratio=1)
    expect(tokens.nth(2)).to_be_in_viewport(ratio=1)
    row = page.locator(ROWS).nth(5)
    row.locator("td").nth(1).click()
    expect(title).to_be_in_viewport(ratio=1)
    expect(title).to_have_text(f"Neuron {row.locator('input').get_attribute('value')}")


def test_the_chosen_neuron_stays_when_a_head_is_turned(visit):
    page = visit("", "neurons", fresh=True)
    neuron = page.locator(".ctx-neurons-one .ctx-heading").first.inner_text()
    boxes = page.locator(".ctx-chips input")
    for head in range(3):
        boxes.nth(head).uncheck()
        settled(page)
    expect(page.locator(".ctx-neurons-one .ctx-heading").first).to_have_text(neuron)
    assert cells(page, ROWS)[0][1] != neuron.removeprefix("Neuron "), "another lies farther right"


def test_scales_stay_when_a_head_is_turned_so_that_what_it_did_is_seen(visit):
    page = visit("", "neurons", fresh=True)
    shades = page.locator("p:has(> .ctx-key)").first
    axis = page.locator("svg:has(.ctx-domains-mean)").first

    def marks(of_numbers=True):
        texts = axis.locator("text").all_text_contents()
        return [text for text in texts if bool(re.fullmatch(r"[+−]?[0-9.]+", text)) == of_numbers]

    bars = page.locator(".ctx-neurons-bar")
    longest = (
        "bars => Math.max(...bars.map((bar) => Number(bar.style.getPropertyValue('--share'))))"
    )
    page.get_by_label("Passage", exact=True).select_option("3")
    settled(page)
    other = shades.inner_text()
    page.get_by_label("Passage", exact=True).select_option("-1")
    settled(page)
    full, reach = shades.inner_text(), page.get_attribute(THETA, "max")
    assert other != full and other.split("Shade:")[1] == full.split("Shade:")[1]
    before, domains = set(marks()), marks(of_numbers=False)
    first, second, *_ = page.locator(".ctx-chips input").all()
    first.uncheck()
    settled(page)
    assert shades.inner_text().split("Shade:")[1] == full.split("Shade:")[1]
    assert before and before <= set(marks())
    assert marks(of_numbers=False) == domains, "in the order in which the neuron came"
    assert bars.evaluate_all(longest) < 0.9, "its tokens push the neuron less"
    first.check()
    second.uncheck()
    second.check()
    settled(page)
    assert page.get_attribute(THETA, "max") == reach, "the same heads have the same axis"


def test_the_dots_follow_the_theme(visit):
    page = visit("", "neurons", fresh=True)
    inked = "() => document.querySelector('canvas').toDataURL()"
    light = page.evaluate(inked)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function(f"light => ({inked})() !== light", arg=light)
    page.evaluate("document.documentElement.dataset.theme = 'light'")  # the page is shared


def test_a_choice_shows_its_answer_and_does_not_move_the_page(visit):
    page = visit("", "neurons", fresh=True)
    page.set_viewport_size(SCREEN)
    settled(page)
    tokens = page.get_by_role("table", name="Tokens that push up").get_by_role("button")

    def places():
        parts = (CANVAS, ".ctx-neurons-one .ctx-heading", ".ctx-neurons-ends", ".ctx-neurons-found")
        tops = [round(page.locator(part).bounding_box()["y"]) for part in parts]
        return page.evaluate("scrollY"), tops

    before = places()
    tokens.nth(1).click()
    page.wait_for_url("**search=*")
    settled(page)
    expect(page.locator(DRIVEN)).to_contain_text("drives up")
    expect(page.locator(DRIVEN)).to_be_in_viewport(ratio=1)
    assert places() == before
    for press in (
        page.locator(ROWS).nth(4).locator("td").nth(1),
        page.locator(ROWS).nth(11).locator("td").nth(1),
        page.locator(".ctx-chips label").nth(2),
        page.locator(DRIVEN).get_by_role("button").last,
    ):
        press.scroll_into_view_if_needed()
        before = places()
        press.click()
        settled(page)
        assert places() == before


def test_a_token_that_is_chosen_stays_when_a_head_is_turned(visit):
    page = visit("#neuron=463", "neurons", fresh=True)
    tokens = page.get_by_role("table", name="Tokens that push up").get_by_role("button")
    name = tokens.nth(1).inner_text()
    tokens.nth(1).click()
    place = page.locator("[data-place='7']").first
    place.click()
    page.wait_for_url("**passage=*")  # which stays too
    for head in (0, 3):
        page.locator(".ctx-chips input").nth(head).uncheck()
        settled(page)
        expect(page.locator(DRIVEN)).to_contain_text(f"{name} drives up")
        expect(page.locator(".ctx-token.ctx-held")).to_have_attribute("data-place", "7")
        expect(page.locator(".ctx-token-reader input")).to_have_value("7")
    page.locator(ROWS).nth(3).locator("input").check()
    settled(page)
    expect(page.locator(".ctx-token.ctx-held")).to_have_attribute("data-place", "7")


def test_that_one_head_stays_is_said_where_it_moves_nothing_and_not_after_a_reset(visit):
    page = visit("#heads=3", "neurons", fresh=True)
    box = page.get_by_text("Neuron, label or word")
    before = box.bounding_box()
    page.locator(".ctx-chips input").nth(3).click(force=True)
    said = page.get_by_text("One head stays.")
    expect(said).to_be_visible()
    assert box.bounding_box() == before
    page.get_by_role("button", name="Reset").click()
    expect(said).to_have_count(0)


def test_a_ranking_can_be_stopped_and_what_is_shown_meanwhile_is_dimmed(browser, address):
    slow = "this.#rows = to; const late = performance.now() + 90; while (performance.now() < late);"

    def slowed(route):
        source = route.fetch().text()
        assert "this.#rows = to;" in source
        route.fulfill(body=source.replace("this.#rows = to;", slow), content_type="text/javascript")

    with opened(browser, viewport=SCREEN) as page:
        page.route("**/ranking.js", slowed)
        page.goto(f"{address}/neurons.html#heads=3,4")
        page.locator(ROWS).first.wait_for()
        shown, heads = cells(page, ROWS), page.locator(".ctx-chips input")
        heads.first.click(force=True)
        page.get_by_text("Ranking 1,024 neurons by heads 0, 3, 4").wait_for()
        expect(page.locator(".ctx-neurons-columns").first).to_have_css("opacity", "0.45")
        place = page.locator(CANVAS).bounding_box()["y"]
        page.get_by_role("button", name="Stop").click()
        stopped = page.get_by_text("Stopped: these are the neurons of heads 3, 4.")
        stopped.wait_for()
        expect(heads.first).not_to_be_checked()
        expect(page.locator(".ctx-neurons-columns").first).to_have_css("opacity", "1")
        assert page.locator(CANVAS).bounding_box()["y"] == pytest.approx(place, abs=1)
        assert cells(page, ROWS) == shown
        heads.nth(4).uncheck()
        expect(stopped).to_have_count(0)


def test_the_slider_stands_at_its_number_when_a_head_goes(visit):
    page = visit("#theta=30", "neurons", fresh=True)
    page.locator(".ctx-chips input").first.uncheck()
    settled(page)
    assert float(page.input_value(THETA)) == theta(page)[0] == 30


def test_a_dot_of_a_domain_is_pressed(visit):
    page = visit("#neuron=463", "neurons", fresh=True)
    dot = page.locator(".ctx-domains-dot").nth(5)
    name = dot.locator("title").text_content().partition(":")[0]
    dot.dispatch_event("click")
    page.wait_for_url("**passage=*")
    expect(page.get_by_text(f"({name},")).to_be_visible()


def test_what_is_one_of_several_looks_other_than_what_is_any_number(visit):
    for name, kind in (("rows", "radio"), ("kernels", "checkbox")):
        page = visit(name=name, fresh=True)
        off = page.locator(f".ctx-chip input[type={kind}]:not(:checked) + span")
        if kind == "checkbox":
            page.locator(".ctx-chip input").first.uncheck()
        style = off.first.evaluate(
            "(e) => [borderOf(e), getComputedStyle(e).borderRadius]".replace("borderOf(e)", BORDER)
        )
        assert contrast(style[0], "#ffffff") >= 3
        assert style[1] == ("16px" if kind == "radio" else "5px")


BORDER = """(() => {
    const pen = document.createElement("canvas").getContext("2d");
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, 1, 1);
    pen.fillStyle = getComputedStyle(e).borderTopColor;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b] = pen.getImageData(0, 0, 1, 1).data;
    return "#" + [r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("");
})()"""


def test_lists_are_one_stop_of_the_tab_key_and_arrows_lead_on(visit):
    page = visit("#neuron=463", "neurons", fresh=True)
    stops = """() => new Set([...document.querySelectorAll(
        ".ctx-view :is(button, input, select, textarea, summary, a[href], [tabindex])")]
        .filter((e) => e.tabIndex >= 0 && e.checkVisibility())
        .map((e) => e.type === "radio" ? e.name : e)).size"""
    assert page.evaluate(stops) < 40
    tokens = page.get_by_role("table", name="Tokens that push up").get_by_role("button")
    tokens.first.focus()
    for key, place in (
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("Home", 0),
        ("End", 9),
    ):
        page.keyboard.press(key)
        expect(tokens.nth(place)).to_be_focused()
    expect(tokens.nth(9)).to_have_attribute("tabindex", "0")
    expect(tokens.first).to_have_attribute("tabindex", "-1")


CARDS = """async (rows) => {
    const { namedNeurons } = await import("./views/explorer/cards.js");
    return namedNeurons(new Map(rows), "no model");
}"""
BY_NAME = """async ([rows, order]) => {
    const { neuronsByName } = await import("./views/explorer/cards.js");
    const scene = { labels: new Map(rows), ranking: { order } };
    return Object.fromEntries(neuronsByName(scene, "no model"));
}"""


def test_cards_are_the_best_found_neuron_of_each_label(visit):
    some = "␣of 12 word ␣Zwölf , other last"
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "label": draw.choice([*"abcdefghijklmnop"], 400),
            "auc": draw.uniform(0.4, 1, 400).round(3),
            "chance": draw.choice([0.7, 0.9, np.nan], 400),
            "top": draw.normal(5, 1, 400) ** 2,
            "words": draw.choice([some, "␣the 12 ␣of"], 400),
        }
    )
    rows = [
        (int(j), row.dropna().to_dict() | {"chance": row["chance"]}) for j, row in table.iterrows()
    ]
    page = visit(name="neurons")
    made = page.evaluate(CARDS, rows)
    median = table["top"].median()
    rule = median + 2 * 1.4826 * (table["top"] - median).abs().median()
    good = table[(table["top"] > rule) & (table["auc"] > table["chance"].fillna(0))]
    best = good.sort_values("auc", ascending=False).drop_duplicates("label")
    best = best[best["words"] == some].head(12)
    assert [card["title"] for card in made] == [*best["label"]]
    assert [card["neuron"] for card in made] == [*best.index]
    assert {card["words"] for card in made} == {"word, Zwölf, other"}
    # whatever leads from a name to a neuron leads to its card's
    order = [*map(int, draw.permutation(400))]
    names = page.evaluate(BY_NAME, [rows, order])
    cards = dict(zip(best["label"], map(int, best.index), strict=True))
    for name, found in names.items():
        first = [cards[name]] if name in cards else []
        assert found == first + [j for j in order if table["label"][j] == name and j not in first]


@pytest.mark.parametrize("width", [1280, 1000, 760, 390])
def test_the_search_box_stays_where_it_is_while_one_types(visit, width):
    page = visit("", "neurons", fresh=True)
    page.set_viewport_size({"width": width, "height": 800})
    settled(page)
    page.locator(".ctx-chips").evaluate(  # as many heads as make the row full
        "(e) => { const chip = e.querySelector('label');"
        " while (e.clientHeight < 100 && e.clientWidth < e.parentNode.clientWidth - 220)"
        " chip.after(chip.cloneNode(true)); }"
    )
    box = page.locator(FIND)
    before = box.bounding_box()
    for letter in "war":
        box.press_sequentially(letter)
        page.wait_for_timeout(400)
        assert box.bounding_box() == before
    said = page.locator(".ctx-neurons-find [role=status]")
    expect(said).to_contain_text(re.compile(r"Of 1,024 neurons, ␣war pushes \d+ most \([+]"))
    assert said.bounding_box()["y"] >= before["y"] + before["height"] + 4, "below the focus ring"


def test_what_explains_a_control_covers_it_not_and_lets_a_press_through(browser, address):
    with opened(browser, viewport=PHONE, has_touch=True) as page:
        page.goto(f"{address}/neurons.html")
        settled(page)
        term = page.locator(".ctx-term").filter(has_text="Heads").first
        term.tap()
        assert "They mix" in term.evaluate(MEANT)
        style = "(e) => getComputedStyle(e, '::after')"
        assert term.evaluate(f"{style}.pointerEvents") == "none"
        chips, tip = page.locator(".ctx-chips"), term.evaluate(f"{style}.top")
        assert float(tip.removesuffix("px")) >= chips.bounding_box()["height"] - 1
        box = page.locator(".ctx-chips input").nth(1)
        box.tap()
        expect(box).not_to_be_checked()
        assert term.evaluate(MEANT) == "none"


def test_what_a_head_did_is_told_beside_the_heads(visit):
    page = visit("", "neurons", fresh=True)
    said, first, (_, before) = page.locator(".ctx-neurons-did"), farthest(page)[0], theta(page)
    box = page.locator(".ctx-chips input").nth(7)
    box.uncheck()
    settled(page)
    expect(box).to_have_accessible_name("head 7, off")
    _, after = theta(page)
    assert after < before
    expect(said).to_have_text(f"Without head 7, {after} neurons pass instead of {before}.")
    box.check()
    expect(said).to_have_text(f"With head 7 on, {before} neurons pass instead of {after}.")
    expect(page.locator(".ctx-neurons-one .ctx-heading")).to_have_text(f"Neuron {first}")
    page.locator(ROWS).nth(2).locator("input").check()
    expect(said).to_have_text(re.compile("^Try this: turn head 0 off"))
    page.locator(".ctx-chips label").nth(3).dblclick()
    expect(said).to_have_text(re.compile("^With head 3 alone, [0-9]+ neurons? pass"))


def test_on_a_phone_heads_and_what_they_did_stay_beside_the_dots(visit):
    page = visit("", "neurons", fresh=True)
    page.set_viewport_size(PHONE)
    settled(page)
    dots = page.locator(CANVAS)
    dots.evaluate(
        "(e) => scrollBy({ top: e.getBoundingClientRect().y - 130, behavior: 'instant' })"
    )
    before, head = dots.bounding_box(), page.locator(".ctx-chips label").first
    expect(head).to_be_in_viewport(ratio=1)
    head.click()
    settled(page)
    expect(page.locator(".ctx-neurons-did")).to_be_in_viewport(ratio=1)
    assert page.locator(".ctx-neurons-did").inner_text().startswith("Without head 0, ")
    assert dots.bounding_box() == before


def test_no_dot_has_its_name_while_the_line_is_dragged(visit):
    page = visit("", "neurons", fresh=True)
    box, (x, _) = page.locator(CANVAS).bounding_box(), spot(page, 0, theta(page)[0])
    name = str(farthest(page)[0])
    page.evaluate(WRITTEN)
    page.mouse.move(box["x"] + x, box["y"] + 60)
    page.mouse.down()
    page.evaluate("written.length = 0")
    page.mouse.move(box["x"] + x + 40, box["y"] + 60, steps=5)
    settled(page)
    written = page.evaluate("written")
    assert written and name not in written
    page.mouse.up()
    assert name in settled(page).evaluate("written"), "and then it has it again"
