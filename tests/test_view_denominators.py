"""The view of denominators: bands, shares and passages are those of ctxlib."""

import re
from math import log, sqrt

import numpy as np
import pytest
import torch
from scipy.stats import norm
from viewing import cells, settled

import ctxlib as cx

N, TOKEN, TEXTS = 256, " the", 300
BOUNDS = ("Chebyshev", "Hoeffding", "Bernstein", "normal, i.i.d.")
TABLE = ".ctx-denominators-bounds"


def at(weights):
    return cx.destination(weights, n=N, token=TOKEN)


@pytest.fixture(scope="module")
def texts(mini_weights):
    return cx.texts.collection(mini_weights, TEXTS)


@pytest.fixture(scope="module")
def passages(mini_weights):
    return cx.texts.passages(mini_weights)


@pytest.fixture(scope="module")
def record(views):
    return views["denominators"].record


@pytest.fixture(scope="module")
def drawn(mini_weights, texts):
    """Contents of the sources between BOS and the destination (head, text, source), their kernels,
    and chapter 4's expected denominators, one a head.
    """
    here = cx.texts.at(mini_weights, texts, N, TOKEN)
    contents = cx.content_scores(mini_weights, N, TOKEN).exp()[:, here]
    kernels = cx.positional_kernels(mini_weights, N, TOKEN)
    ends = kernels[:, 0] * contents[:, 0, 0] + kernels[:, -1] * contents[:, 0, -1]
    inner, kernel = contents[..., 1:-1], kernels[:, 1:-1]
    return inner, kernel, inner.mean((1, 2)) * kernel.sum(-1) + ends


@pytest.fixture(scope="module")
def measured(mini_weights, texts, drawn):
    """Denominators over their mean: head, text."""
    return (cx.softmax_denominators(at(mini_weights), texts) / drawn[2]).T


def half_widths(drawn, head, level):
    """The four half-widths at a level, by chapter 4's bounds."""
    own, row, mean = (of[head].double() for of in drawn)
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


def table(page):
    """Bound -> allowed half-width, texts inside, passages inside, as they stand there."""
    rows = cells(page, f"{TABLE} tbody tr")
    return {name: [float(re.sub(r"[^\d.]", "", c)) / 100 for c in rest] for name, *rest in rows}


@pytest.mark.parametrize(("head", "level"), [(0, 0.5), (2, 0.9), (4, 0.95), (6, 0.999)])
def test_bands_and_shares_are_those_of_ctxlib(visit, record, measured, drawn, head, level):
    page = visit(f"#head={head}&level={level}&bound={BOUNDS[3]}", "denominators")
    shown = table(page)
    assert tuple(shown) == BOUNDS
    own = (measured[head] - 1).abs()
    labelled = np.abs(np.array(record["ofPassages"][head]) - 1)
    for bound, epsilon in zip(BOUNDS, half_widths(drawn, head, level), strict=True):
        allowed, of_texts, of_passages = shown[bound]
        assert allowed == pytest.approx(epsilon, abs=0.0051, rel=1e-3)
        # a text may lie on the edge, where four digits decide
        assert of_texts == pytest.approx(float((own < epsilon).float().mean()), abs=1.5 / TEXTS)
        assert of_passages == pytest.approx(np.mean(labelled < epsilon), abs=6e-4)
    assert page.locator(".ctx-denominators-out").count() == sum(labelled >= epsilon)  # hollow
    assert page.locator(".ctx-denominators-in").count() == sum(labelled < epsilon)


def test_the_words_say_promise_and_share(visit):
    page = visit("#head=2&bound=normal, i.i.d.", "denominators")
    account = page.text_content(".ctx-view strong").replace("\u00a0", " ")
    share, texts = re.fullmatch(r"([\d.]+)% of (\d+) texts have\.", account).groups()
    assert float(share) / 100 == pytest.approx(table(page)[BOUNDS[3]][1])
    assert int(texts) == TEXTS
    assert "Fewer than that" in page.text_content(".ctx-view")
    page = visit("#head=2&bound=Hoeffding&level=0.9", "denominators")
    assert "at least 90.0%" in page.text_content(".ctx-view")
    assert "As promised" in page.text_content(".ctx-view")


def test_the_histogram_counts_the_texts(visit, record):
    page = visit("#head=3", "denominators")
    page.press("[role=slider]", "Home")
    bins = int(page.get_attribute("[role=slider]", "aria-valuemax")) + 1
    counted, pattern = 0, r"([\d.]+) to ([\d.]+) times the mean: (\d+) of (\d+) texts"
    values = np.array(record["texts"][3])
    for _ in range(bins):
        said = page.get_attribute("[role=slider]", "aria-valuetext")
        low, high, count, total = map(float, re.fullmatch(pattern, said).groups())
        assert count == ((values >= low - 1e-9) & (values < high - 1e-9)).sum()
        assert total == TEXTS
        counted += count
        page.keyboard.press("ArrowRight")
    assert counted >= 0.99 * TEXTS


def test_the_record_holds_every_denominator(record, measured, mini_weights, passages, drawn):
    held = torch.tensor(record["texts"])
    assert torch.allclose(held, measured, rtol=1e-3)
    labelled = cx.softmax_denominators(at(mini_weights), passages) / drawn[2]
    assert torch.allclose(torch.tensor(record["ofPassages"]), labelled.T, rtol=1e-3)
    assert [p["domain"] for p in record["passages"]] == [p.domain for p in passages]


def test_a_passage_can_be_picked_from_the_picture_and_let_go(visit, record):
    page = visit("#head=5&level=0.5&bound=Hoeffding", "denominators")
    dot = page.locator("circle").nth(7)
    name = dot.locator("title").text_content().split(":")[0]
    dot.click()
    index = int(settled(page).input_value("select"))
    assert f"&text={index}&" in page.url.replace("#", "&") + "&"
    assert record["passages"][index]["name"] == name
    value = record["ofPassages"][5][index]
    assert page.text_content(".ctx-denominators-name") == f"{name}, {value:.2f}"
    assert page.text_content(f"{TABLE} .ctx-chosen th") == "Hoeffding"
    page.locator("circle").nth(7).click()
    assert "text" not in settled(page).url
