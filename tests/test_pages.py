"""What pages are made of: figures, shaded texts, widgets, ledgers."""

import re

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

import ctxbook as cb
import ctxviews as cv


def drawn(number="7.1", alt="one line that rises", caption="A line.", title="a < b & c"):
    figure, ((axis,),) = cb.figures.panels()
    axis.plot([0, 1], [0, 1])
    axis.set(xlabel="tokens", title=title)
    return cb.figures.picture(figure, number, caption, alt)


def test_a_figure_is_text_a_drawing_and_a_caption():
    picture = drawn(alt='a "quoted" <alt>')
    page = picture._repr_html_()
    assert 'role="img" aria-label="a &quot;quoted&quot; &lt;alt&gt;"' in page
    assert "<figcaption><b>Figure 7.1.</b> A line.</figcaption>" in page
    assert repr(picture) == 'a "quoted" <alt>'


def test_a_drawing_is_the_same_twice_and_takes_colour_and_width_of_the_page():
    open_before = plt.get_fignums()
    svg = drawn().html
    assert svg == drawn().html
    assert plt.get_fignums() == open_before, "and is closed"
    assert "currentColor" in svg and not re.search(rf"{cb.figures.INK}|#000000|#ffffff", svg)
    head = re.search("<svg[^>]*>", svg)[0]
    assert "max-width" in head and not re.search(r'\b(width|height)="', head)


def test_a_drawing_has_no_rule_for_the_page_and_no_name_of_another():
    figures = [drawn(number) for number in ("7.1", "7.2")]
    for svg in (figure.html for figure in figures):
        assert "<style" not in svg and "stroke-linejoin:round" in svg
        used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
        assert used == set(re.findall(r'\bid="([^"]+)"', svg)) != set()
    names = [re.findall(r'\bid="([^"]+)"', figure.html) for figure in figures]
    assert len({*names[0], *names[1]}) == len(names[0]) + len(names[1])


def test_hatches_and_images_are_drawn_for_what_a_drawing_refers_to_is_in_it():
    figure, ((axis, other),) = cb.figures.panels(1, 2)
    axis.bar([0, 1], [1, 2], hatch="//")
    for either in (axis, other):
        either.imshow([[1, 2]])
    svg = cb.figures.picture(figure, "7.1", "Bars.", "bars").html
    images = r'<image [^>]*?\bhref="data:image/png;base64,[\w+/=\s]+"'
    assert len(re.findall(images, svg)) == 2
    used, there = (re.findall(p, svg) for p in (r"url\(#([^)]+)\)", r'\bid="([^"]+)"'))
    assert svg.count("<pattern") == 1 and len(set(there)) == len(there) and {*used} <= {*there}


def test_the_digits_of_a_number_follow_one_another_in_any_font():
    figure, ((axis,),) = cb.figures.panels()
    axis.plot([0.0001, 1], [0, 1])
    axis.set(xscale="log", title=r"$\frac{1}{2}$")
    svg = cb.figures.picture(figure, "7.1", "A line.", "a line").html
    numbers = [re.sub("<[^>]*>", "", text) for text in re.findall("<text>.*?</text>", svg)]
    assert {"10−4", "0.01", "1"} <= {*numbers}
    placed = [text.count("<tspan x=") for text in re.findall("<text>.*?</text>", svg)]
    assert placed == [2 if number == "12" else 1 for number in numbers], "but a formula's stay"


@pytest.mark.parametrize(("size", "least"), [(10, 461), (7, 658)])
def test_a_drawing_scrolls_on_a_phone_before_its_letters_get_too_small(size, least):
    figure, ((axis,),) = cb.figures.panels(width=8)  # 576 points
    axis.plot([0, 1], label="a line")
    axis.legend(fontsize=size)
    page = cb.figures.picture(figure, "7.1", "A line.", "a line").html
    box, svg = re.search(r"(<div[^>]*>)(<svg[^>]*>)", page).groups()
    assert "overflow-x:auto" in box and page.count("<svg") == 1
    assert f"width:100%;min-width:{least}px;max-width:768px" in svg


def luminance(color):
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return np.dot(channels, (0.2126, 0.7152, 0.0722))


def contrast(color, ground):
    low, high = sorted(map(luminance, (color, ground)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out_on_white_and_on_near_black():
    for color in cb.figures.COLORS:
        assert min(contrast(color, ground) for ground in ("#FFFFFF", "#121212")) > 3, color


def test_heads_have_lines_that_differ():
    styles = [tuple(cb.figures.head_style(head).items()) for head in range(32)]
    assert len(set(styles)) == 32


def test_a_shaded_text_shows_its_tokens_and_weights():
    shaded = cb.figures.shaded_text([" a", "<b>", "\n"], torch.tensor([0.5, 0.25, 0.0]), "cap")
    page = shaded._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and 'title="0.500"' in page
    assert "0.60)" in page, "the strongest token has the strongest shade"
    either = cb.figures.shaded_text(["a", "b"], torch.tensor([0.25, -0.5]), "cap")._repr_html_()
    (ink, shade), (other, full) = re.findall(r"rgba\((.*),(.*)\)", either.replace(">", ">\n"))
    assert ink != other and (shade, full) == ("0.30", "0.60"), "below zero in a colour of its own"
    none = cb.figures.shaded_text(["a"], torch.zeros(1), "cap")
    assert "0.00)" in none._repr_html_()


def test_sources_that_stand_out_on_either_side_are_called_by_their_tokens():
    tokens = [cb.figures.visible(token) for token in (" a", "b\n", "\0", "d", "e", "f", "g")]
    row = [0.1, -0.9, 0.5, 0.3, -0.4, 0.2, 0.0]
    _, axes = cb.figures.sources(tokens, {"pos": row, "row": row})
    labels = [[mark.get_text() for mark in axis.texts] for axis in axes]
    plt.close()
    assert labels == [[], ["b↵", r"\x00", "e", "d", "f"]]


def test_a_widget_redraws_when_a_control_moves():
    calls = []

    def draw(n):
        calls.append(n)
        return drawn(alt=f"n is {n}")

    view = cv.Turnable(draw, n=cv.slider("n", 1, 9, 2))
    assert "n is 2" in view.screen.value
    view.controls["n"].value = 5
    assert "n is 5" in view.screen.value
    assert calls == [2, 5]
    assert not view.controls["n"].continuous_update, "when it is released"
    share = cv.slider("share", 0, 1, 0, step=0.25)
    share.value = 0.25
    assert share.value == 0.25
    bundle = view._repr_mimebundle_()
    assert "n is 2" in bundle["text/html"], "a page without a kernel shows the first setting"
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_a_model_without_learned_positions_is_not_gpt2_small(of_kind):
    assert cb.known_by(of_kind("Llama").model)[0] is None
