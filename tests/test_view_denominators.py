"""The view of denominators: bands, shares and passages are those of ctxlib."""

import re
from math import log, sqrt

import numpy as np
import pytest
from playwright.sync_api import expect
from scipy.stats import norm
from shown import fragment, readings

import ctxlib as cx

N, TOKEN, TEXTS = 256, " the", 300
BOUNDS = ("Chebyshev", "Hoeffding", "Bernstein", "normal, i.i.d.")


@pytest.fixture(scope="module")
def fixed(mini_weights):
    return cx.fix_query(mini_weights, n=N, token=TOKEN)


@pytest.fixture(scope="module")
def record(views):
    return views["denominators"].record


@pytest.fixture(scope="module")
def drawn(fixed, mini_weights):
    """Contents of the sources between BOS and n (head, text, source), their kernels, chapter 4's
    expected denominators, one a head, and the measured ones over these: head, text.
    """
    texts = cx.texts.collection(mini_weights, TEXTS)
    contents, kernels = (
        fixed.decomposition.content[:, fixed.prepare(texts)],
        fixed.decomposition.kernels,
    )
    ends = kernels[:, 0] * contents[:, 0, 0] + kernels[:, -1] * contents[:, 0, -1]
    inner, kernel = contents[..., 1:-1], kernels[:, 1:-1]
    expected = inner.mean((1, 2)) * kernel.sum(-1) + ends
    return inner, kernel, expected, (cx.softmax_denominators(fixed, texts) / expected).T


def half_widths(drawn, head, level):
    """The four half-widths at a level, by chapter 4's bounds."""
    own, row, mean, _ = (of[head].double() for of in drawn)
    width, far = float(own.max() - own.min()), float((own - own.mean()).abs().max())
    squares, spread = float((row**2).sum()), float(own.var() * (row**2).sum())
    most = log(2 / (1 - level))
    linear = float(row.max()) * far * most / 3
    found = [
        sqrt(spread / (1 - level)),
        width * sqrt(squares * most / 2),
        linear + sqrt(linear**2 + 2 * spread * most),
        norm.ppf((1 + level) / 2) * sqrt(spread),
    ]
    return [epsilon / float(mean) for epsilon in found]


@pytest.mark.parametrize(
    ("head", "level", "bound"),
    [(0, 0.5, 3), (2, 0.9, 1), (2, 0.95, 3), (4, 0.95, 0), (6, 0.999, 2)],
)
def test_bands_and_shares_are_those_of_ctxlib(visit, record, drawn, head, level, bound):
    page = visit(fragment(head=head, level=level, bound=BOUNDS[bound]), "denominators")
    own = (drawn[3][head] - 1).abs()
    labeled = np.abs(np.array(record["ofPassages"][head]) - 1)
    epsilon = half_widths(drawn, head, level)[bound]
    text = page.locator(".ctx-view").inner_text().replace("\u00a0", " ")
    allowed, share = (
        float(re.search(pattern, text)[1]) / 100
        for pattern in (r"within ± ([\d.]+)% of the mean", rf"([\d.]+)% of {TEXTS} texts have\.")
    )
    assert allowed == pytest.approx(epsilon, abs=0.0051, rel=1e-3)
    # a text may lie on the edge, where four digits decide
    assert share == pytest.approx(float((own < epsilon).float().mean()), abs=1.5 / TEXTS)
    inside = int((labeled < epsilon).sum())
    assert page.locator(".ctx-denominators-in").count() == inside
    assert page.locator(".ctx-denominators-out").count() == len(labeled) - inside
    # in words: what the band promises
    assert f"{'about' if bound == 3 else 'at least'} {level:.1%} of texts" in text
    assert ("Fewer than" in text) == (share < level)


def test_the_histogram_counts_the_texts(visit, record):
    slider = visit("#head=3", "denominators").get_by_role("slider", name="Read the histogram")
    bins = int(slider.get_attribute("aria-valuemax")) + 1
    counted, pattern = 0, r"([\d.]+) to ([\d.]+) times the mean: (\d+) of (\d+) texts"
    values = np.array(record["texts"][3])
    for text in readings(slider, "Home", *["ArrowRight"] * (bins - 1)):
        low, high, count, total = map(float, re.fullmatch(pattern, text).groups())
        assert count == ((values >= low - 1e-9) & (values < high - 1e-9)).sum()
        assert total == TEXTS
        counted += count
    assert counted >= 0.99 * TEXTS


def test_the_record_holds_every_denominator(record, fixed, mini_weights, drawn):
    _, _, expected, measured = drawn
    passages = cx.texts.passages(mini_weights)
    labeled = (cx.softmax_denominators(fixed, passages) / expected).T
    for name, truth in (("texts", measured), ("ofPassages", labeled)):
        np.testing.assert_allclose(record[name], truth, rtol=1e-3)
    assert [p["domain"] for p in record["passages"]] == [p.domain for p in passages]


def test_a_passage_can_be_picked_from_the_picture_and_let_go(visit, record):
    page = visit("#head=5&level=0.5&bound=Hoeffding", "denominators")
    dot = page.locator("circle").nth(7)
    name = dot.locator("title").text_content().split(":")[0]
    dot.click()
    index = [passage["name"] for passage in record["passages"]].index(name)
    page.wait_for_url(re.compile(rf"[#&]text={index}\b"))
    expect(page.locator("select")).to_have_value(str(index))
    expect(page.locator(".ctx-denominators-mark")).to_have_count(2)  # in both pictures
    page.locator("circle").nth(7).click()
    page.wait_for_url(lambda url: "text" not in url)
