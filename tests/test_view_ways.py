"""What leads from one view to another and out of the page: addresses, links, the way back, files;
the cursor, the window and the marks of the live reader; the table of labels. On pages laid out as
the site's are.
"""

import csv
import html
import io
import json
import random
import re
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from viewing import WIDGETS, needs_chromium, printed, served, watched

import ctxlib as cx

pytestmark = needs_chromium

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>A page</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="../_static/views/views.css">
<main><h1>A page</h1><h2 id="turn">Turn it</h2>{places}</main>
<script type="module" src="../_static/views/page.js"></script></html>
"""
PLACE = '<div data-view="{view}" {more} data-state="{state}"><p>a picture</p></div>'
ROWS = {"passage": 0, "head": 0, "n": 0, "octaves": 0.0, "scale": "linear"}
EXPLORER = {"neuron": -1, "heads": [], "threshold": 0, "token": -1, "passage": -1, "search": ""}
EXPLORER |= {"pinned": -1}
READER = {"heads": [], "neuron": -1, "shades": "end", "text": "", "other": ""}
READER |= {"window": 0, "other_window": 0, "cursor": -1, "other_cursor": -1}
TEXT = "The colour of the harbour at dusk, and the theatre in the old centre of the town. " * 3
OTHER = TEXT.replace("colour", "color").replace("theatre", "theater")
LABELS = """neuron,label,difference,auc,null,top,z,far_end,by_drive
7,astronomy,1.5,0.991,0.98,12.0,3.1,comet,"moon , star"
12,music,0.5,0.7,0.95,3.0,1.0,drum,"""
LABELS += '"a ""quoted"" one"\n648,astronomy,2.5,0.96,0.98,20.5,5.0,orbit,planets\n'


def place(view, state, more="data-addressed"):
    written = html.escape(json.dumps(state), quote=True)
    return PLACE.format(view=view, state=written, more=more)


@pytest.fixture(scope="module")
def address(tmp_path_factory, packed_mini):
    folder = tmp_path_factory.mktemp("ways")
    static, book = folder / "_static", folder / "book"
    shutil.copytree(WIDGETS, static / "views", ignore=shutil.ignore_patterns("*.py"))
    for made in (static / "data", book):
        made.mkdir()
    (static / "data" / "layer.bin").write_bytes(packed_mini)
    (static / "data" / "neurons.csv").write_text(LABELS)
    labels = 'data-addressed data-labels="../_static/data/neurons.csv"'
    pages = {
        "explorer": [place("neurons", EXPLORER, labels)],
        "reader": [place("reader", READER)],
        "chapter": [
            place("rows", ROWS, ""),
            "<p style='height: 3000px'></p>",
            place("rows", ROWS | {"head": 2}, ""),
            place("neurons", EXPLORER | {"heads": [3, 4], "neuron": 77}, ""),
        ],
    }
    for name, places in pages.items():
        (book / f"{name}.html").write_text(PAGE.format(places="".join(places)))
    with served(folder) as address:
        yield f"{address}/book"


READY = {
    "chapter": ".ctx-readable",
    "explorer": ".ctx-neurons:not([aria-busy]) .ctx-domains svg",
    "reader": ".ctx-view:not([data-working]) .ctx-reader-about .ctx-word",
}


@pytest.fixture
def visit(browser, address):
    """A function that opens a page, waits until all of it is there, and gives it."""
    opened = []

    def visit(name, hash=""):
        page = watched(browser.new_page(viewport={"width": 1000, "height": 900}))
        opened.append(page)
        page.goto(f"{address}/{name}.html{hash}")
        page.wait_for_selector(READY[name])
        return page

    yield visit
    for page in opened:
        assert (page.said, page.failed, page.elsewhere) == ([], [], [])
        page.close()


def saved(page, label):
    """A file's name and its rows."""
    with page.expect_download() as download:
        page.get_by_role("button", name=label).click()
    text = download.value.path().read_text(encoding="utf-8")
    return download.value.suggested_filename, list(csv.DictReader(io.StringIO(text)))


def circuit_of(weights, page, heads, n):
    name = page.evaluate(
        """async () => (await (await import('../_static/views/engine/packed.js')).loadLayer(
            new URL('../_static/data/layer.bin', location))).calibration.name"""
    )
    text = next(p for p in cx.texts.passages(weights) if p.name == name)
    return cx.ContextualCircuit.calibrate(weights, text, heads, n)


def encoded(weights, text):
    ids = weights.tokenizer.encode(text, add_special_tokens=False)
    return torch.tensor([weights.tokenizer.bos_token_id, *ids])


# ---------------------------------------------------------------- files


def test_a_ranking_and_a_column_are_files(visit, mini_weights):
    page = visit("explorer", "#heads=3,4&neuron=648")
    circuit = circuit_of(mini_weights, page, [3, 4], mini_weights.n_ctx // 2)
    name, rows = saved(page, "Ranking as CSV")
    assert name == f"mini-neurons-heads-3-4-n-{circuit.n}-token-{circuit.token}.csv"
    assert [int(row["rank"]) for row in rows] == list(range(1, mini_weights.n_neurons + 1))
    found = cx.find_neurons(circuit)
    tops = {int(row["neuron"]): float(row["top"]) for row in rows}
    reach = 0.01 * float(found["top"].max())
    for neuron, top in found["top"].items():
        assert tops[neuron] == pytest.approx(top, abs=reach)
    name, rows = saved(page, "Column as CSV")
    assert name.startswith("mini-neuron-648-heads-3-4-")
    expected = circuit.contribution[:, 648]
    got = np.array([float(row["contribution"]) for row in rows])
    truth = expected[[int(row["token id"]) for row in rows]].numpy()
    assert np.abs(got - truth).max() < 0.01 * np.ptp(truth)
    assert list(got) == sorted(got, reverse=True)


def test_terms_are_a_file(visit, mini_weights):
    page = visit("reader", "#heads=3,4&neuron=648&text=" + TEXT[:81].replace(" ", "%20"))
    name, rows = saved(page, "Terms as CSV")
    assert name == "mini-neuron-648-heads-3-4.csv"
    tokens = encoded(mini_weights, TEXT[:81])
    own = [row for row in rows if row["text"] == "1"]
    assert [int(row["token id"]) for row in own] == tokens.tolist()
    circuit = circuit_of(mini_weights, page, [3, 4], len(tokens) - 1)
    truth = circuit.by_source(tokens, [648])[:, 0].numpy()
    assert np.abs(np.array([float(row["adds"]) for row in own]) - truth).max() < 0.01


def test_a_chart_is_a_file_that_needs_no_page(visit):
    page = visit("explorer", "#heads=3,4&neuron=648")
    page.emulate_media(color_scheme="dark")
    with page.expect_download() as download:
        page.get_by_role("button", name="Histogram as SVG").click()
    assert download.value.suggested_filename == "mini-neuron-648-heads-3-4-histogram.svg"
    drawing = ElementTree.parse(download.value.path()).getroot()
    title, description, ground = drawing[:3]
    assert re.fullmatch(r"Contributions of 8,\d+ tokens to neuron 648", title.text)
    shown = page.locator(".ctx-neurons-histogram [role=img]")
    assert description.text == shown.get_attribute("aria-label")
    assert ground.attrib["fill"] == "#ffffff"
    said = [part.text for part in drawing.iter() if part.tag.endswith("text")]
    assert said[-3:] == ["mean of all", "mean of the 20 largest", "mean of all + θ"]
    assert not re.search("var\\(|class=|currentColor", download.value.path().read_text())
    colours = {part.attrib["fill"] for part in drawing.iter() if part.tag.endswith("text")}
    assert colours == {"rgb(34, 40, 50)"}


# ---------------------------------------------------------------- addresses and links


def test_every_view_of_a_chapter_has_an_address(visit):
    page = visit("chapter")
    page.locator("[data-view=rows]").first.locator("input[value='5']").check()
    page.wait_for_url("**/chapter.html#rows.head=5")
    page.locator("[data-view=rows]").last.scroll_into_view_if_needed()
    page.locator("[data-view=rows]").last.locator("input[value='6']").check()
    page.wait_for_url("**#rows.head=5&rows2.head=6")
    there = visit("chapter", "#rows2.head=6&turned=1")
    there.wait_for_selector("[data-view=rows]:nth-of-type(2) .ctx-readable")
    assert there.evaluate("scrollY") > 1000  # the address is about what stands there
    checked = "[data-view=rows]:nth-of-type({}) input:checked"
    assert there.locator(checked.format(2)).first.get_attribute("value") == "6"
    there.evaluate("scrollTo(0, 0)")
    there.wait_for_selector("[data-view=rows]:nth-of-type(1) .ctx-readable")
    there.locator(checked.format(1)).first.wait_for()
    there.locator("[data-view=rows]").first.locator("input[value='3']").check()
    there.wait_for_url("**rows.head=3**")
    assert "rows2.head=6" in there.url
    there.locator("[data-view=rows]").first.get_by_role("button", name="Reset").click()
    there.wait_for_url(lambda url: "rows.head" not in url)
    assert there.locator(checked.format(1)).first.get_attribute("value") == "0"


def test_links_carry_heads_neuron_and_text(visit, mini_weights):
    page = visit("chapter", "#neurons.neuron=78")
    page.wait_for_selector("[data-view=neurons] .ctx-ways a")
    links = page.locator("[data-view=neurons] .ctx-ways a")
    links.get_by_text("Open in the explorer").click()
    page.wait_for_url("**/explorer.html#heads=3,4&neuron=78")
    page.wait_for_selector(READY["explorer"])
    assert page.locator(".ctx-neurons-one .ctx-heading").inner_text() == "Neuron 78"
    page.locator(".ctx-ways a").get_by_text("live reader").click()
    page.wait_for_url("**/reader.html#**")
    page.wait_for_selector(READY["reader"])
    read = page.locator("textarea").first.input_value()
    assert any(
        mini_weights.tokenizer.decode(p.tokens[1:200].tolist()) in read
        for p in cx.texts.passages(mini_weights)
    )
    assert page.get_by_label("Neuron", exact=True).input_value() == "78"
    page.locator("textarea").first.fill("a secret of my own, a few words long")
    link = page.locator(".ctx-ways a").first
    page.wait_for_function("!document.querySelector('.ctx-view[data-working]')")
    assert "secret" not in link.get_attribute("href")
    link.click()
    page.wait_for_url("**/explorer.html#heads=3,4&neuron=78")
    page.go_back()
    page.wait_for_selector(READY["reader"])
    assert page.get_by_label("Neuron", exact=True).input_value() == "78"


def test_the_way_back_leads_to_the_neuron_before_and_reset_to_the_first(visit):
    page = visit("explorer")
    field = page.locator(".ctx-neurons-one .ctx-heading")
    first = field.inner_text()
    page.evaluate("location.hash = 'neuron=5'")
    page.wait_for_function("document.body.textContent.includes('Neuron 5')")
    page.locator(".ctx-neurons-list input").nth(3).check()
    page.wait_for_url(lambda url: not url.endswith("neuron=5"))
    page.go_back()
    page.wait_for_url("**neuron=5")
    page.locator(".ctx-neurons-one").get_by_text("Neuron 5", exact=True).wait_for()
    page.get_by_role("button", name="Reset").click()
    page.wait_for_url(lambda url: "#" not in url)
    page.locator(".ctx-neurons-one").get_by_text(first, exact=True).wait_for()


# ---------------------------------------------------------------- the live reader


def test_shades_follow_the_cursor(visit, mini_weights):
    page = visit("reader", "#heads=3,4&neuron=648&text=" + TEXT.replace(" ", "%20"))
    page.get_by_role("checkbox", name="Shades follow the cursor").check()
    page.wait_for_url("**shades=cursor**")
    tokens = encoded(mini_weights, TEXT)
    slider = page.get_by_role("slider").first
    for n in (len(tokens) - 1, 20):
        while int(slider.get_attribute("aria-valuenow")) > n:
            slider.press("ArrowLeft")
        page.evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
        titles = page.locator(".ctx-reader-text").first.locator("[data-place]")
        said = titles.evaluate_all("all => all.map(({ title }) => title)")
        circuit = circuit_of(mini_weights, page, [3, 4], n)
        truth = circuit.by_source(tokens[: n + 1], [648])[:, 0].tolist()
        for title, term in zip(said[: n + 1], truth, strict=True):
            value, rounding = printed(title.rpartition(" ")[2])
            assert value == pytest.approx(term, abs=0.01 + rounding)
        assert all(title.endswith(", not read") for title in said[n + 1 :])
    box = page.locator("textarea").first
    box.focus()
    page.keyboard.press("Control+Home")
    for _ in "The colour":
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-place='4'].ctx-unread")
    before = len(encoded(mini_weights, "The colour")) - 1
    assert page.locator(".ctx-reader-text").first.locator(".ctx-at").get_attribute(
        "data-place"
    ) == str(before)


def test_a_window_moves_over_a_long_text(visit, mini_weights):
    words = " ".join(str(number) for number in range(400))
    page = visit("reader", f"#heads=3,4&neuron=648&text={words.replace(' ', '%20')}&cursor=7")
    tokens = encoded(mini_weights, words)[1:]
    window = page.get_by_label("The window begins behind token").first
    page.get_by_text(f"The first 511 of {len(tokens):,} tokens are read").wait_for()
    assert window.get_attribute("max") == str(len(tokens) - 511)
    window.fill("100")
    page.wait_for_url("**&window=100&cursor=7")
    page.get_by_text(f"Tokens 101 to 611 of {len(tokens):,} tokens are read").wait_for()
    titles = page.locator(".ctx-reader-text").first.locator("[data-place]")
    said = titles.evaluate_all("all => all.map(({ title }) => title)")
    read = torch.cat((torch.tensor([mini_weights.tokenizer.bos_token_id]), tokens[100:611]))
    circuit = circuit_of(mini_weights, page, [3, 4], 511)
    truth = circuit.by_source(read, [648])[:, 0].tolist()
    for title, term in zip(said, truth, strict=True):
        value, rounding = printed(title.rpartition(" ")[2])
        assert value == pytest.approx(term, abs=0.01 + rounding)
    again = visit("reader", "#" + page.url.partition("#")[2])
    text = again.locator(".ctx-reader-text").first
    assert text.locator(".ctx-at").get_attribute("data-place") == "7"
    assert text.inner_text() == page.locator(".ctx-reader-text").first.inner_text()
    again.locator("[role=slider]").first.press("End")
    again.wait_for_url(lambda url: "cursor" not in url)
    again.go_back()
    again.wait_for_url("**&window=100&cursor=7")
    again.wait_for_selector("[role=slider][aria-valuenow='7']")
    again.get_by_role("button", name="Reset").click()
    again.wait_for_url(lambda url: "#" not in url)
    again.locator(".ctx-reader-count").first.get_by_text("up to 511 are read").wait_for()
    assert again.locator("[role=slider][aria-valuenow='7']").count() == 0


def test_tokens_in_which_two_texts_differ_are_marked(visit, mini_weights):
    both = [f"{name}={t.replace(' ', '%20')}" for name, t in (("text", TEXT), ("other", OTHER))]
    page = visit("reader", "#" + "&".join(both))
    ids = [encoded(mini_weights, text).tolist() for text in (TEXT, OTHER)]
    for which, own in enumerate(ids):
        marked = page.locator(".ctx-reader-text").nth(which).locator(".ctx-apart")
        assert marked.count() == len(own) - common(*ids) > 0
    assert "Underlined: the tokens in which the texts differ" in page.locator("main").inner_text()
    page.locator("textarea").nth(1).fill(TEXT)
    page.wait_for_function("!document.querySelector('.ctx-apart')")


def test_what_is_not_marked_is_a_longest_common_part(visit):
    page = visit("reader")
    draw = random.Random(0)
    pairs = [
        [[draw.randrange(4) for _ in range(draw.randrange(12))] for _ in range(2)]
        for _ in range(60)
    ]
    found = page.evaluate(
        """async (pairs) => {
            const { differing } = await import("../_static/views/engine/reading.js");
            return pairs.map(([a, b]) => differing(a, b).map((set) => [...set]));
        }""",
        pairs,
    )
    for texts, apart in zip(pairs, found, strict=True):
        left = [
            [token for i, token in enumerate(text) if i not in places]
            for text, places in zip(texts, apart, strict=True)
        ]
        assert left[0] == left[1]
        assert len(left[0]) == common(*texts)


def common(a, b):
    """Tokens of a longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(before[j + 1], row[j])
    return row[-1]


# ---------------------------------------------------------------- labels


def test_labels_are_searched_sorted_and_lead_to_a_neuron(visit):
    page = visit("explorer")
    asked = "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('.csv')).length"
    assert page.evaluate(asked) == 0  # nobody has opened it
    table = page.locator(".ctx-labels")
    table.locator("summary").click()
    rows = table.locator("tbody tr")
    rows.nth(2).wait_for()

    def shown():
        return [row.split("\t")[0] for row in rows.all_inner_texts()]

    assert shown() == ["7", "648", "12"]  # by how far AUC is above that of mixtures
    assert table.locator("tbody .ctx-labels-beyond").count() == 1
    assert re.split(r"\s*\t\s*", rows.first.inner_text())[1:4] == ["astronomy", "0.991", "0.980"]
    table.get_by_role("button", name="top").click()
    assert shown() == ["648", "7", "12"]
    assert table.locator("th[aria-sort=descending]").inner_text() == "top"
    table.get_by_role("button", name="top").click()
    assert shown() == ["12", "7", "648"]
    table.get_by_role("button", name="label").click()
    assert shown() == ["7", "648", "12"]
    table.get_by_role("searchbox").fill("ASTRO planet")
    assert shown() == ["648"]
    table.get_by_role("searchbox").fill('"quoted"')
    assert shown() == ["12"]
    table.get_by_role("button", name="Neuron 12").click()
    page.wait_for_url("**#neuron=12")
    page.wait_for_selector(".ctx-labels .ctx-chosen")
