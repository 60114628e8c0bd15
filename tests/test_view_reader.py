"""The live reader: its numbers are ctxlib's, and whatever is typed is read and stays text."""

import base64
import re
import zlib

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from shown import adds, cells, check, each, explained, readings, titles
from viewing import added, header, in_firefox_too, settled, tensors, view_page

import ctxlib as cx
import ctxviews as cv
from ctxlib.texts.vocabulary import text_tokens
from ctxviews.fixedfile import packed_destination

TEXT = "The colour of the harbour at dusk, and the theatre in the old centre of the town: " * 2
OTHER = "def area(width, height):\n    return width * height  # the same in every unit\n" * 2


@pytest.fixture(scope="module")
def address(address, view_folder, views):
    given = views["reader"].state() | {"text": TEXT, "other": OTHER}
    view_page(view_folder, ("reader", given), name="given")
    view_page(view_folder, ("reader", given | {"heads": [0, 1]}), name="heads")
    return address


def box(page, which):
    add = page.get_by_role("button", name="Compare with a second text")
    if which == "Second" and add.is_visible():
        add.click()
    return page.get_by_role("textbox", name=f"{which} text", exact=True)


def summaries(circuit, tokens):
    """What the heads add to neuron 648, by both circuits and exactly."""
    circuits = (circuit.summary, circuit.self_normalized().summary)
    truth = circuit.fixed.exact_summary(tokens, circuit.heads)[648].item()
    return [*(by(tokens)[648].item() for by in circuits), truth]


def test_the_numbers_shown_are_those_of_python(visit, mini_weights, circuit_of):
    page, heads = visit("#neuron=648&heads=2,3,4", "given"), [2, 3, 4]
    for which, text in enumerate((TEXT, OTHER)):
        tokens = cx.texts.encode(mini_weights, text)
        n = len(tokens) - 1
        count = page.locator(".ctx-reader-count").nth(which).text_content()
        assert count == f"{n} tokens; up to 511 are read."
        terms = added(circuit_of(heads, n), tokens, 648)
        check(adds(titles(page.locator(".ctx-reader-text").nth(which))), terms, 0.01)
        walk = (("End", n), ("PageDown", n - 10))
        slider = page.get_by_role("slider", name="token by token").nth(which)
        for (_, fixed), reading in zip(walk, readings(slider, *dict(walk)), strict=True):
            upto = n if fixed == n else int(re.search(r"Up to token (\d+)", reading)[1])
            figures = re.findall(r"[−+]?\d+\.\d+", reading.rpartition("adds")[2])
            check(
                figures, [terms[fixed].item(), *summaries(circuit_of(heads, upto), tokens)], 0.015
            )


def test_the_whole_neuron_is_that_of_python(visit, mini_weights):
    """At the end of a text and at an earlier token: its terms and its output, from tables and as
    the model computes it.
    """
    page, tokens = visit("#neuron=648&heads=2,3,4", "given"), cx.texts.encode(mini_weights, TEXT)
    slider = page.get_by_role("slider", name="Read the output in the first text")
    terms = page.get_by_role("region", name="First text: the terms of neuron 648")
    for key in ("End", "PageDown"):
        (reading,) = readings(slider, key)
        n = int(re.match(r"At token (\d+)", reading)[1])
        fixed = cx.fix_query(mini_weights, n=n, token=int(tokens[n]))
        columns = []
        for outputs in (fixed.approx_head_outputs(tokens), fixed.head_outputs(tokens)):
            mlp = fixed.mlp(tokens, outputs)
            chosen, every = (
                fixed.to_neurons(tokens, outputs, some)[648] for some in ([2, 3, 4], range(8))
            )
            pre, bias = mlp["pre"][648], mini_weights.b_in[648]
            own = pre - bias - every
            columns.append([chosen, every - chosen, own, bias, pre, mlp["post"][648]])
        expect(terms.locator("th[scope=row]").first).to_have_text("heads 2, 3, 4")
        figures = zip(*(row for _, *row in cells(terms)), strict=True)
        for shown, truth in zip(figures, columns, strict=True):
            check(shown, truth, 0.03)
        check(re.findall(r"[−+]?\d+\.\d+", reading), [column[-1] for column in columns], 0.03)


def test_the_lists_are_those_of_python(visit, mini_weights, circuit_of):
    page = visit("#heads=3,4", "given")
    lists = [
        [*zip(*cells(table), strict=True)] for table in page.locator(".ctx-reader-table").all()
    ]
    passages = torch.stack([p.tokens for p in cx.texts.passages(mini_weights)])
    found = []
    for text, (listed, *shown, _) in zip((TEXT, OTHER), lists, strict=False):
        tokens = cx.texts.encode(mini_weights, text)
        n, neurons = len(tokens) - 1, [*map(int, listed)]
        near = 2 ** round(np.log2(n))
        usual = circuit_of([3, 4], near).summary(passages)
        mean, sd = usual.mean(0), usual.std(0)
        summary = circuit_of([3, 4], n).summary(tokens)
        found.append((near, summary, sd))
        z = (summary - mean) / sd
        for column, truth, close in zip(shown, (z, summary), (0.1, 0.015), strict=True):
            check(column, truth[neurons], close)
        loud = z.where(sd >= sd.quantile(0.75), 0)
        assert loud[neurons].min() > loud.sort().values[-12]
    (near, first, sd), (other_near, second, other_sd) = found
    apart = (first - second) / (sd if near < other_near else other_sd)
    listed, *shown, _ = lists[2]
    for column, truth in zip(shown, (apart, first, second), strict=True):
        check(column, truth[[*map(int, listed)]], 0.095)
    # what is chosen first is what differs most
    assert [len(neurons) for neurons, *_ in lists] == [8, 8, 8]
    assert page.get_by_label("Neuron", exact=True).input_value() == listed[0]
    assert set(page.get_by_role("button", pressed=True).all_text_contents()) == {listed[0]}


def test_a_token_is_explained(visit, mini_weights, circuit_of):
    page = visit("#neuron=648&heads=2,3,4", "given")
    page.locator(".ctx-reader-text").first.locator("[data-place='5']").click()
    tokens = cx.texts.encode(mini_weights, TEXT)
    text = page.get_by_role("slider").first.get_attribute("aria-valuetext")
    assert text.startswith("Token 5, “␣har”, adds")
    why = page.locator(".ctx-why").first
    why.locator(".ctx-word:text-is('␣har')").wait_for()
    whole = explained(why, circuit_of([2, 3, 4], len(tokens) - 1), tokens, 648, 5)
    check(adds(titles(page.locator(".ctx-reader-text").first)[5:6]), whole)
    box(page, "First").fill("")
    page.get_by_text("Nothing to read yet.").wait_for()
    expect(why).to_be_hidden()


@in_firefox_too
def test_a_press_holds_while_a_slow_hand_moves_on_and_escape_lets_go(visit):
    page = visit("#neuron=648&heads=2,3,4", "given", fresh=True)
    tokens, why = page.locator(".ctx-reader-text").first, page.locator(".ctx-why").first
    reader = page.get_by_role("slider").first

    def reads(place, held=None):
        expect(reader).to_have_attribute("aria-valuenow", place)
        expect(tokens.locator(".ctx-at")).to_have_attribute("data-place", place)
        expect(tokens.locator(".ctx-held")).to_have_count(0 if held is None else 1)
        if held is not None:
            expect(tokens.locator(".ctx-held")).to_have_attribute("data-place", held)

    end = reader.get_attribute("aria-valuenow")
    tokens.locator("[data-place='3']").hover()
    reads("3")
    page.mouse.move(1, 1, steps=10)
    reads(end)  # leaving restores
    tokens.locator("[data-place='5']").click()
    reads("5", held="5")  # pointing reads, pressing keeps
    spot, token = why.locator("summary").bounding_box(), tokens.locator(".ctx-held").bounding_box()
    assert 0 < spot["y"] - token["y"] < 300  # it opens where the token is
    page.mouse.move(spot["x"] + 40, spot["y"] + 5, steps=25)  # over the tokens between
    reads("5", held="5")
    page.mouse.down()
    page.mouse.up()
    expect(why.locator("summary")).to_contain_text("␣har")
    tokens.locator("[data-place='2']").hover()  # pointing elsewhere shows, and holds nothing
    reads("2", held="5")
    expect(why.locator("summary")).to_be_focused()
    page.keyboard.press("Escape")
    expect(tokens.locator(".ctx-held")).to_have_count(0)


def test_texts_that_the_page_gave_are_not_put_into_the_address_without_request(visit):
    page = visit("", "given", fresh=True)
    keep = page.get_by_role("checkbox", name="Put the texts")
    assert not keep.is_checked()
    box(page, "First").press("End")
    page.keyboard.type(" words of my own")
    page.wait_for_url("**neuron=*")  # the page's choice stays, saved with what was typed
    assert "words" not in page.url
    keep.check()
    page.wait_for_url("**words%20of%20my%20own**")


def test_a_number_that_is_no_neuron_is_said_to_be_none(visit):
    page = visit("#neuron=648", "given", fresh=True)
    number, said = (
        page.get_by_label("Neuron", exact=True),
        page.get_by_text("Neurons are 0 to 1023."),
    )
    number.fill("99999")
    expect(said).to_be_visible()
    number.fill("174")
    page.wait_for_url("**neuron=174*")
    expect(said).to_have_count(0)
    number.fill("99999")
    number.blur()
    expect(said).to_have_count(0)
    expect(number).to_have_value("174")


def test_on_paper_one_text_follows_the_other_in_plain_blocks(visit):
    page = visit("#neuron=648", "given", fresh=True)
    page.emulate_media(media="print")
    for place in page.locator(".ctx-reader, .ctx-reader > section").all():
        expect(place).to_have_css("display", "block")
    first, second = (s.bounding_box() for s in page.locator(".ctx-reader > section").all())
    assert second["y"] >= first["y"] + first["height"]
    page.emulate_media(media="screen")


def test_an_address_with_no_heads_means_the_stable_ones(visit, packed_mini):
    page = visit("#heads=", "heads")
    assert (
        each(page.locator(".ctx-chips input:checked"), "+e.value") == header(packed_mini)["stable"]
    )


def test_a_word_is_swapped_in_a_copy_of_the_text(visit):
    page = visit("#text=the%20law%20of%20the%20land", "reader", fresh=True)
    expect(page.get_by_role("textbox")).to_have_count(1)  # one text first
    page.get_by_role("button", name="Compare with a second text").click()
    second = box(page, "Second")
    differing = page.get_by_role("table", name="Neurons in which the two differ most")
    expect(second).to_have_value("the law of the land")
    expect(settled(page).locator("body")).to_contain_text("Neurons that this text excites most")
    expect(differing).to_have_count(0)  # a text and its copy differ in none
    second.fill("the law of the sea")
    expect(differing).to_be_visible()


def test_code_is_indented_as_it_is_typed_and_a_short_text_has_points(visit):
    page = visit(name="reader")
    box(page, "First").fill("code\ndef f(x):\n    if x:\n        return 1")
    box(page, "Second").fill("My colour is grey.")
    text = page.locator(".ctx-reader-text").first
    words = [text.get_by_text(word, exact=True) for word in ("def", "if", "return")]
    first, second, third = (word.bounding_box()["x"] for word in words)
    assert second - first == pytest.approx(third - second, abs=2) and second > first + 5
    expect(page.locator(".ctx-readable").last.locator("circle")).not_to_have_count(0)


def test_a_text_runs_in_the_direction_of_its_language(visit):
    page = visit(name="reader")
    box(page, "First").fill("שלום לכולם, זה טקסט קצר")
    box(page, "Second").fill("a short text, שלום")
    for shown, direction in zip(
        page.locator(".ctx-reader-text").all(), ("rtl", "ltr"), strict=True
    ):
        expect(shown).to_have_css("direction", direction)


def test_texts_without_a_context_say_so(visit):
    page = visit(name="reader")
    box(page, "First").fill("")
    box(page, "Second").fill("a")
    page.get_by_text("a context begins with the next").wait_for()  # the copy was empty too
    page.get_by_text("Nothing to read yet.").wait_for()
    expect(page.get_by_role("slider")).to_have_count(0)
    box(page, "Second").fill("")
    box(page, "First").fill("a context again, of a few words")
    page.get_by_role("slider").first.wait_for()


def test_a_long_paste_is_cut_with_a_note(visit):
    page = visit(name="reader")
    text = "the river and the hill, " * 2500
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    box(page, "First").focus()
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+V")
    note = page.locator(".ctx-reader-count").first
    expect(note).to_have_text(
        re.compile(r"The first 511 of [\d,]+ tokens are read\. The box keeps 8,176 characters\.")
    )
    expect(page.locator(".ctx-reader-text").first.locator("[data-place]")).to_have_count(512)
    assert len(box(page, "First").input_value()) < 20_000


def test_a_long_text_travels_and_one_too_long_does_not(visit):
    page = visit("#text=Grey&neuron=5", "reader", fresh=True)
    long = "".join(f"{i} grey skies & harbours, {i * i}: \u00e9\U0001f30a " for i in range(60))
    page.get_by_role("checkbox", name="Put the texts").check()
    box(page, "Second").fill(long)
    page.wait_for_url(lambda url: "harbours" in url)
    page = visit("#" + page.url.partition("#")[2], "reader", fresh=True)
    expect(box(page, "Second")).to_have_value(long)
    box(page, "Second").fill("\u4e00" * 3000)
    page.wait_for_url(lambda url: "other" not in url)


def test_the_box_is_as_tall_as_its_text(visit):
    page = visit(name="reader", fresh=True)
    page.set_viewport_size({"width": 1280, "height": 800})
    tall = box(page, "First").bounding_box()["height"]
    assert tall < 120, "the opening text takes two or three lines"
    box(page, "First").fill("A line.\n" * 9)
    assert box(page, "First").bounding_box()["height"] > 1.5 * tall


def test_a_text_that_an_older_address_holds_packed_is_read(visit):
    long = "".join(f"{i} grey skies & harbours, {i * i}: \u00e9\U0001f30a " for i in range(120))
    packed = base64.urlsafe_b64encode(zlib.compress(long.encode(), wbits=-15)).decode().rstrip("=")
    page = visit(f"#text=Grey&other.z={packed}", "reader", fresh=True)
    expect(box(page, "First")).to_have_value("Grey")
    expect(box(page, "Second")).to_have_value(long)
    for damaged in ("other.z=%", "other.z=AAAA", "heads.z=AAAA", "other.z=" + "x" * 4000):
        page = visit(f"#text=Grey&{damaged}", "reader")
        expect(page.locator("textarea").last).to_have_value("")


@pytest.mark.parametrize("times", [1, 30], ids=["short", "long"])
def test_of_a_model_of_both_sides_a_text_is_read_around_its_middle(visit, view_folder, times):
    study = cx.study("minilm", texts=20)
    text = (
        "The café's astronomers watched an UNFASHIONABLY old telescope, ☃, and the moon. " * times
    )
    state = cv.LiveReader(study).state() | {"text": text, "neuron": 211}
    place = view_folder / "around"
    packed = packed_destination(study)
    view_page(place, ("reader", state), layer=packed)
    page, fixed = visit(name="around/index", fresh=True), study.fixed
    words = text_tokens(fixed.tokenizer, text)
    tokens = torch.tensor([fixed.tokenizer.cls_token_id, *words])[: fixed.length]
    assert fixed.tokenizer.convert_tokens_to_ids("[UNK]") in tokens
    read = len(tokens) // 2 * 2
    tokens = tokens[:read]
    tokens[read // 2] = fixed.token
    shown = page.locator(".ctx-tokens")
    names = [title.rpartition(" ")[0] for title in titles(shown)]
    assert names == fixed.tokenizer.convert_ids_to_tokens(tokens)
    about = page.get_by_text("Neuron 211.").text_content()
    there = np.isin(tokens, tensors(packed)["token_ids"])
    lacks = f"the page lacks data for {(~there).sum()}."
    assert about == f"Neuron 211. Of {1 + len(words)} tokens {read} are read; {lacks}"
    if read == fixed.length:
        circuit = cx.ContextualCircuit.calibrate(fixed, study.calibration_text, study.heads)
        terms = added(circuit, tokens, 211).numpy() * there  # the others add nothing
        check(adds(titles(shown)), terms, 0.01 * np.ptp(terms))
    page.get_by_role("textbox", name="A text of your own").fill("one")
    page.get_by_text("Nothing to read yet.").wait_for()
