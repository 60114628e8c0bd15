"""What leads from one view to another and out of the page: addresses, links, the way back, files;
the marks of the live reader; the box that finds neurons. On pages laid out as the site's are.
"""

import io

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect
from shown import cells
from viewing import PHONE, settled, view_page

import ctxlib as cx

TEXT = "The colour of the harbour at dusk, and the theatre in the old centre of the town. " * 3
LABELS = """neuron,label,difference,auc,null,top,z,far_end,by_drive
7,astronomy,1.5,0.991,0.98,12.0,3.1,comet,"moon , star"
12,bible-kjv,0.5,0.7,0.95,3.0,1.0,drum,"""
LABELS += '"a ""quoted"" one"\n648,astronomy,2.5,0.96,0.98,20.5,5.0,orbit,planets\n'
LABELS += "496,astronomy,2.0,0.958,0.972,33.1,7.2,volcan,Sun\n"


@pytest.fixture(scope="module")
def address(address, view_folder, views, packed_mini):
    book = view_folder / "book"
    rows, neurons, reader = (views[view].state() for view in ("rows", "neurons", "reader"))
    view_page(book, ("reader", reader), layer=packed_mini, name="reader")
    (book / "labels.csv").write_text(LABELS)
    labels = 'data-addressed data-labels="labels.csv"'
    view_page(book, ("neurons", neurons), name="explorer", more=labels)
    chosen = ("neurons", neurons | {"heads": [3, 4], "neuron": 77})
    of_chapter = [("rows", rows), ("rows", rows | {"head": 2}), chosen]
    far_apart = 'style="margin-bottom: 3000px"'
    view_page(book, *of_chapter, name="chapter", more=far_apart)
    return f"{address}/book"


# ---------------------------------------------------------------- files


def test_a_ranking_is_a_file_that_starts_no_formula(visit, circuit_of):
    page, circuit = visit("#heads=3,4&neuron=648", "explorer"), circuit_of([3, 4])
    with page.expect_download() as download:
        page.get_by_role("button", name="Ranking as CSV").click()
    name, text = download.value.suggested_filename, download.value.path().read_text("utf-8")
    assert name == f"mini-neurons-heads-3-4-n-{circuit.fixed.n}-token-{circuit.fixed.token}.csv"
    assert text.startswith("\ufeff")  # a file that says itself how it is written
    rows = pd.read_csv(io.StringIO(text.removeprefix("\ufeff")), keep_default_na=False)
    assert [*rows["rank"]] == [*range(1, len(rows) + 1)]
    tops = cx.find_neurons(circuit, threshold=-1e9)["top"]
    assert len(rows) == len(tops)
    near = 0.01 * tops.max()
    np.testing.assert_allclose(rows["top"], tops.loc[rows["neuron"]], rtol=0, atol=near)
    words = rows["first tokens"]
    assert (words != "").all()
    assert words.str.startswith(("'=", "'+", "'-", "'@")).any()
    assert not words.str.startswith(("=", "+", "-", "@")).any()


# ---------------------------------------------------------------- addresses and links


def test_on_paper_a_view_begins_where_it_stands_and_shows_what_is_set(visit):
    page = visit(name="reader")
    page.emulate_media(media="print")
    whole = page.locator(".ctx-view").evaluate("(e) => getComputedStyle(e).breakInside")
    assert whole == "auto", "a view that is longer than a sheet leaves the first one empty"
    expect(page.get_by_role("group", name="Heads").first).to_be_visible()
    assert page.locator(".ctx-button:visible").count() == 0
    page.emulate_media(media="screen")


def test_every_view_of_a_chapter_has_an_address(visit):
    page = visit(name="chapter")
    first, second = page.locator("[data-view=rows]").all()
    first.locator("input[value='5']").check()
    page.wait_for_url("**/chapter.html#rows.head=5")
    second.scroll_into_view_if_needed()
    second.locator("input[value='6']").check()
    page.wait_for_url("**#rows.head=5&rows2.head=6")
    page = visit("#rows2.head=6&turned=1", "chapter", fresh=True)
    page.wait_for_function("scrollY > 1000")  # the address is about what stands there
    expect(second.locator("input:checked").first).to_have_value("6")
    page.evaluate("scrollTo(0, 0)")
    first.locator("input[value='3']").check()
    page.wait_for_url("**rows.head=3**")
    assert "rows2.head=6" in page.url
    first.get_by_role("button", name="Reset").click()
    page.wait_for_url(lambda url: "rows.head" not in url)
    expect(first.locator("input:checked").first).to_have_value("0")


def test_a_link_in_the_text_sets_a_view_and_the_way_back_undoes_it(visit):
    page = visit(name="chapter", fresh=True)
    page.evaluate(
        """() => {
            const link = document.createElement("a");
            link.href = "#rows2.head=0&rows2.octaves=-1";
            link.textContent = "C at half in head 0";
            document.querySelector("h2").append(link);
        }"""
    )
    second = page.locator("[data-view=rows]").nth(1)
    page.get_by_role("link", name="C at half").click()
    expect(second).to_be_in_viewport(ratio=0.3)
    head, halved = second.locator("input[type=radio]:checked").first, second.get_by_label("C, and")
    expect(head).to_have_value("0")
    expect(halved).to_have_value("-1")
    page.go_back()
    expect(head).to_have_value("2")
    expect(halved).to_have_value("0")


def test_links_carry_heads_neuron_and_text(visit, mini_weights):
    page = visit("#neurons.neuron=78", "chapter", fresh=True)
    page.get_by_role("link", name="Open in the explorer").click()
    page.wait_for_url("**/explorer.html#heads=3,4&neuron=78")
    expect(page.locator(".ctx-neurons-one .ctx-heading").first).to_have_text("Neuron 78")
    settled(page).get_by_role("link", name="live reader").click()
    page.wait_for_url("**/reader.html#**")
    neuron, text = page.get_by_label("Neuron", exact=True), page.locator("textarea").first
    expect(neuron).to_have_value("78")
    read, decode = text.input_value(), mini_weights.tokenizer.decode
    passages = cx.texts.passages(mini_weights)
    assert any(decode(p.tokens[1:200].tolist()) in read for p in passages)
    text.fill("a secret of my own, a few words long")
    link = settled(page).locator(".ctx-ways a").first
    assert "secret" not in link.get_attribute("href")
    link.click()
    page.wait_for_url("**/explorer.html#heads=3,4&neuron=78")
    page.go_back()
    expect(neuron).to_have_value("78")


# ---------------------------------------------------------------- the live reader


# ---------------------------------------------------------------- labels


def test_a_box_finds_a_neuron_by_number_label_or_word(visit):
    page = visit(name="explorer")
    box = page.get_by_label("Neuron, label or word")

    def found(typed):
        box.fill(typed)
        box.press("Enter")

    label = page.locator(".ctx-neurons-one .ctx-quiet").first
    for typed, neuron, named in (("648", 648, "astronomy"), ("SCRIPT", 12, "scripture")):
        found(typed)
        page.wait_for_url(f"**neuron={neuron}*")
        expect(label).to_contain_text(f"Label: {named}, learned on half")
    expect(label).to_contain_text("an AUC of 0.700. One in twenty random mixtures")
    expect(page.get_by_text("1 neuron with this label")).to_be_visible()
    found("moon")
    page.get_by_text("␣moon pushes this neuron up most").wait_for()
    driven = page.locator(".ctx-neurons-barred", has_text="Neurons driven up")
    expect(page.locator(".ctx-neurons-list input:checked")).to_have_value(cells(driven)[0][0])
    page.locator(".ctx-neurons-list input:not(:checked)").first.check()
    expect(page.get_by_text("pushes this neuron up most")).to_have_count(0)  # it is another
    box.fill("moo")
    for wrong, said in (("99999", "Neurons are 0 to "), ("qqzzxxyy", "No neuron, label or single")):
        found(wrong)
        page.get_by_text(said).wait_for()
    box.fill("moon")  # and nothing pressed
    expect(page.get_by_text("No neuron, label or single")).to_have_count(0)
    page.get_by_text("␣moon pushes this neuron up most").wait_for()


def test_a_card_opens_its_neuron_and_is_marked(visit):
    page = visit(name="explorer", fresh=True)
    card = page.get_by_role("group", name="Named neurons").get_by_role("button", name="planets")
    card.click()
    page.wait_for_url("**neuron=496")
    expect(card).to_have_attribute("aria-pressed", "true")
    for neuron, name in ((7, "astronomy, AUC 0.991"), (12, "scripture, AUC 0.700, which random")):
        page = visit(f"#neuron={neuron}", "explorer")
        expect(page.locator(".ctx-neurons-name")).to_contain_text(name)


WRITTEN = """() => {
    window.written = [];
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        written.push(text);
        write.call(this, text, ...at);
    };
}"""


def test_a_neuron_that_chapters_follow_has_one_name(visit):
    page = visit(name="explorer", fresh=True)
    page.evaluate(WRITTEN)
    page.get_by_role("button", name="planets").click()
    page.wait_for_url("**neuron=496")
    expect(page.locator(".ctx-neurons-name")).to_have_text("planets, chapters 1 to 6")
    row = page.locator(".ctx-neurons-list tr.ctx-chosen")
    expect(row.locator("td").nth(4)).to_have_text("planets")
    assert "496 planets" in settled(page).evaluate("written")
    box = page.get_by_label("Neuron, label or word")
    box.fill("planets")
    page.get_by_text("1 neuron with this label").wait_for()


def test_on_a_phone_rows_have_names_and_the_chosen_card_is_whole(visit):
    page = visit("#neuron=12", "explorer", fresh=True)
    page.evaluate(WRITTEN)
    page.set_viewport_size(PHONE)
    settled(page)
    page.wait_for_function("written.includes('astronomy') && written.includes('scripture')")
    cards = page.locator(".ctx-neurons-cards")
    cards.locator("button").first.evaluate(  # as many as real labels have
        """(card) => {
            const other = Object.assign(card.cloneNode(true), { value: "1" });
            for (let i = 0; i < 8; i++) card.before(other.cloneNode(true));
        }"""
    )
    page = visit("#neuron=496", "explorer")
    row, card = (e.bounding_box() for e in (cards, cards.locator("[aria-pressed=true]")))
    assert row["x"] <= card["x"] <= card["x"] + card["width"] <= row["x"] + row["width"]


def test_what_is_typed_is_found_without_enter_and_the_way_back_takes_it_back(visit):
    page = visit("#neuron=7", "explorer", fresh=True)
    box, said = page.get_by_label("Neuron, label or word"), page.locator(".ctx-neurons-find")
    offers = page.get_by_role("group", name="Tokens like this").get_by_role("button")
    page.wait_for_timeout(1100)  # what is typed is a step of its own
    box.press_sequentially("recipe")
    expect(said).to_contain_text("The nearest token is ␣reci, which pushes this neuron up most.")
    expect(offers.first).to_have_text("␣reci")
    page.wait_for_url("**search=recipe*")
    driven = cells(page.locator(".ctx-neurons-barred", has_text="Neurons driven up"))
    expect(page.locator(".ctx-neurons-list input:checked")).to_have_value(driven[0][0])
    page.go_back()
    expect(box).to_have_value("")
    expect(said).not_to_contain_text("nearest")
    expect(offers).to_have_count(0)
    page.go_forward()
    expect(box).to_have_value("recipe")
    box.fill("astronome")  # no token, and one begins so
    expect(offers.first).to_have_text("␣astronomers")
    offers.first.click()
    page.wait_for_url("**search=%20astronomers*")
    expect(said).to_contain_text("␣astronomers pushes this neuron up most.")
