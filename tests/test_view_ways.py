"""What leads from one view to another: addresses, links, the way back; the marks of the live
reader; the box that finds neurons. On pages laid out as the site's are.
"""

import re

import pytest
from playwright.sync_api import expect
from shown import WRITTEN, cells
from viewing import PHONE, Gate, settled, view_page

import ctxlib as cx

TEXT = "The colour of the harbour at dusk, and the theatre in the old centre of the town. " * 3
LABELS = """neuron,label,difference,auc,null,top,z,far_end,by_drive
7,astronomy,1.5,0.991,0.98,12.0,3.1,comet,"moon , star"
12,bible-kjv,0.5,0.7,0.95,3.0,1.0,drum,"""
LABELS += '"a ""quoted"" one"\n648,astronomy,2.5,0.96,0.98,20.5,5.0,orbit,planets\n'
LABELS += "496,astronomy,2.0,0.958,0.972,33.1,7.2,volcan,Sun\n"
LABELS += "9,history-war,1.0,0.9,0.8,4.0,1.0,army,␣war ␣army unheard-of\n"


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


# ---------------------------------------------------------------- labels


def test_a_box_finds_a_neuron_by_number_label_or_word(visit):
    page = visit(name="explorer")
    box = page.get_by_label("Neuron, label or word")

    def found(typed):
        box.fill(typed)
        box.press("Enter")

    label = page.locator(".ctx-neurons-one")
    for typed, neuron, named in (("648", 648, "astronomy"), ("SCRIPT", 12, "scripture")):
        found(typed)
        page.wait_for_url(f"**neuron={neuron}*")
        expect(label).to_contain_text(f"{named} is its label: with all stable heads, texts of")
        expect(label).to_contain_text("We chose it on half of our texts")
    expect(page.get_by_text("1 neuron named scripture")).to_be_visible()
    found("war")  # a word goes before a part of a label, which is offered
    page.get_by_text("neurons, ␣war pushes ").wait_for()
    page.get_by_role("group", name="Like this").get_by_role("button", name="history, war").click()
    page.wait_for_url("**neuron=9*")
    expect(label).to_contain_text("history, war is its label")
    expect(label).to_contain_text("The label rests most on ␣war ␣army unheard-of")
    found("moon")
    page.get_by_text("neurons, ␣moon pushes ").wait_for()
    first = page.locator(".ctx-neurons-driven").get_by_role("button").first.inner_text()
    expect(page.locator(".ctx-neurons-list input:checked")).to_have_value(first)
    page.locator(".ctx-neurons-list input:not(:checked)").first.check()
    expect(page.get_by_text("neurons, ␣moon pushes ")).to_have_count(0)  # it is another
    box.fill("moo")
    for wrong, said in (
        ("99999", "Neurons are 0 to "),
        ("qqzzxxyy", "No such name or token"),
    ):
        found(wrong)
        page.get_by_text(said).wait_for()
    box.fill("moon")  # and nothing pressed
    expect(page.get_by_text("No such name or token")).to_have_count(0)
    page.get_by_text("neurons, ␣moon pushes ").wait_for()


def test_a_card_opens_its_neuron_and_is_marked(visit):
    page = visit("#search=%20butter", "explorer", fresh=True)
    card = page.get_by_role("group", name="Named neurons").get_by_role("button", name="planets")
    card.click()
    page.wait_for_url(re.compile("#neuron=496$"))  # and the word that was searched is gone
    expect(card).to_have_attribute("aria-pressed", "true")
    page = visit("#neuron=7", "explorer")
    expect(page.locator(".ctx-neurons-one")).to_contain_text(
        "texts of this domain raise it most (AUC 0.991)"
    )


def test_the_name_of_a_row_of_dots_is_pressed_and_lists_its_neurons_as_if_typed(visit):
    page = visit("#neuron=9", "explorer", fresh=True)
    page.evaluate(WRITTEN)
    page.set_viewport_size(PHONE)  # all is drawn again
    page.wait_for_function("written.includes('scripture')")
    lanes = page.evaluate("written.slice(written.lastIndexOf('responds most to') + 1)")
    dots, lane = page.locator(".ctx-neurons-dots canvas"), lanes.index("scripture")
    place = {"x": 60, "y": 18 + 12 * lane + 6}
    dots.hover(position=place)
    expect(dots).to_have_css("cursor", "pointer")
    dots.click(position=place)
    page.wait_for_url("**neuron=12*")
    page.get_by_role("heading", name="Neurons named scripture").wait_for()
    page.get_by_label("Neuron, label or word").fill("astronomy")
    page.get_by_role("heading", name="Neurons named astronomy").wait_for()
    assert {row[1] for row in cells(page, ".ctx-neurons-list tbody tr")} == {"7", "648"}
    page.get_by_role("button", name="Show all found neurons").click()
    page.get_by_role("heading", name="Found neurons").wait_for()
    assert len(cells(page, ".ctx-neurons-list tbody tr")) > 10


def test_what_a_head_did_names_the_labels_that_went(visit):
    page = visit("#neuron=496", "explorer", fresh=True)
    top = float(page.locator(".ctx-neurons-list tr.ctx-chosen td").nth(2).inner_text())
    page = visit(f"#neuron=496&theta={top - 0.5}", "explorer")
    page.locator(".ctx-chips input").first.uncheck()
    expect(page.locator(".ctx-neurons-did")).to_have_text(
        re.compile(
            r"^Without head 0, \d+ neurons? pass(es)? instead of \d+\. Most often gone: astr"
        )
    )


def test_labels_that_come_late_leave_the_keyboard_its_place(visit):
    gate = Gate(visit(name="reader"), "**/labels.csv")
    page = visit("#neuron=9", "explorer", fresh=True)
    token = page.locator(".ctx-neurons-ends button").first
    token.focus()
    gate.open()
    expect(page.locator(".ctx-neurons-one")).to_contain_text("history, war is its label")
    expect(token).to_be_focused()
    page.unroute("**/labels.csv")


def test_a_neuron_that_chapters_follow_has_one_name(visit):
    page = visit(name="explorer", fresh=True)
    page.evaluate(WRITTEN)
    page.get_by_role("button", name="planets").click()
    page.wait_for_url("**neuron=496")
    about = page.locator(".ctx-neurons-one")
    expect(about).to_contain_text(
        "planets (chapters 1 to 6); its label is astronomy: with all stable heads, texts of"
    )
    row = page.locator(".ctx-neurons-list tr.ctx-chosen")
    expect(row.locator("td").nth(3)).to_have_text("planets")
    assert "496 planets" in settled(page).evaluate("written")
    box = page.get_by_label("Neuron, label or word")
    box.fill("planets")
    page.get_by_text("1 neuron named planets").wait_for()


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
    arrow = 40
    assert row["x"] <= card["x"] <= card["x"] + card["width"] <= row["x"] + row["width"] - arrow


def bounds(part):
    return part.bounding_box()


def test_what_is_typed_is_found_without_enter_and_the_way_back_takes_it_back(visit):
    page = visit("#neuron=7", "explorer", fresh=True)
    box, said = page.get_by_label("Neuron, label or word"), page.locator(".ctx-neurons-find")
    offers = page.get_by_role("group", name="Like this").get_by_role("button")
    page.wait_for_timeout(1100)  # what is typed is a step of its own
    box.press_sequentially("planets")
    expect(said).to_contain_text("1 neuron named planets")
    page.wait_for_url("**neuron=496*")
    page.go_back()
    expect(box).to_have_value("")
    expect(said).not_to_contain_text("named")
    expect(offers).to_have_count(0)
    page.go_forward()
    page.wait_for_url("**neuron=496*")
    box.fill("moon")
    page.wait_for_url("**search=moon*")
    cards = page.get_by_role("group", name="Named neurons").bounding_box()
    below = [offer["y"] + offer["height"] for offer in map(bounds, offers.all())]
    assert below and max(below) <= cards["y"], "what is offered covers no card"
    box.fill("astronome")  # no token, and one begins so
    expect(offers.first).to_have_text("␣astronomers")
    offers.first.click()
    page.wait_for_url("**search=%20astronomers*")
    expect(said).to_contain_text("neurons, ␣astronomers pushes ")
