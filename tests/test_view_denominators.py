"""The view of denominators: bands and shares are those of ctxlib, every control turns it from the
keyboard, and nothing that an address or a record says can break it.
"""

import copy
import re
from math import exp

import numpy as np
import pytest
import torch
import traitlets
from scipy.optimize import brentq
from scipy.stats import norm
from viewing import needs_chromium, serious, served, view_page, watched

import ctxlib as cx

N, TOKEN, TEXTS = 256, " the", 300
BOUNDS = ("Chebyshev", "Hoeffding", "Bernstein", "normal, i.i.d.")
HOSTILE = '<img src=x onerror="document.title=1"></script>'
TABLE = ".ctx-denominators-bounds"


@pytest.fixture(scope="module")
def texts(mini_weights):
    return cx.texts.collection(mini_weights, TEXTS)


@pytest.fixture(scope="module")
def passages(mini_weights):
    return cx.texts.passages(mini_weights)


@pytest.fixture(scope="module")
def view(mini_weights, texts, passages):
    return cx.widgets.Denominators(mini_weights, texts, passages, N, TOKEN, head=4)


def contents(weights, texts):
    """The content of every source, BOS and the destination included: head, text, source."""
    return cx.content_scores(weights, N, TOKEN).exp()[:, cx.texts.at(weights, texts, N, TOKEN)]


@pytest.fixture(scope="module")
def expected(mini_weights, texts):
    """Chapter 4's expected denominators, one a head."""
    values = contents(mini_weights, texts)
    kernels = cx.positional_kernels(mini_weights, N, TOKEN)
    inner = values[..., 1:-1].mean((1, 2)) * kernels[:, 1:-1].sum(-1)
    return inner + kernels[:, 0] * values[:, 0, 0] + kernels[:, -1] * values[:, 0, -1]


@pytest.fixture(scope="module")
def measured(mini_weights, texts, expected):
    """Denominators over their mean: head, text."""
    return (cx.softmax_denominators(mini_weights, texts, N, TOKEN) / expected).T


@pytest.fixture(scope="module")
def half_widths(mini_weights, texts, expected):
    """A function from a head and a level to the four half-widths, by chapter 4's bounds."""
    values = contents(mini_weights, texts)[..., 1:-1]
    kernel = cx.positional_kernels(mini_weights, N, TOKEN)[:, 1:-1]

    def half_widths(head, level):
        own, row, mean = values[head].double(), kernel[head].double(), float(expected[head])
        width, far = float(own.max() - own.min()), float((own - own.mean()).abs().max())
        squares, heaviest = float((row**2).sum()), float(row.max())
        spread = float(own.var()) * squares
        tails = (
            lambda e: spread / e**2,
            lambda e: 2 * exp(-2 * e**2 / (width**2 * squares)),
            lambda e: 2 * exp(-(e**2) / (2 * spread + 2 / 3 * heaviest * far * e)),
        )
        found = [brentq(lambda e, f=f: f(e * mean) - (1 - level), 1e-6, 1e4) for f in tails]
        return [*found, norm.ppf((1 + level) / 2) * spread**0.5 / mean]

    return half_widths


@pytest.fixture(scope="module")
def address(tmp_path_factory, view):
    folder = tmp_path_factory.mktemp("denominators")
    whole = view.state() | {"record": view.record}
    view_page(folder, "denominators", whole)
    nonsense = {"head": 1.5, "text": [3], "bound": "__proto__", "level": None}
    view_page(folder, "denominators", whole | nonsense, name="nonsense")
    hostile = copy.deepcopy(view.record)
    hostile["token"] = HOSTILE
    for passage in hostile["passages"]:
        passage["name"] = passage["domain"] = HOSTILE
    view_page(folder, "denominators", whole | {"record": hostile, "text": 0}, name="hostile")
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def shared(browser):
    page = watched(browser.new_page(viewport={"width": 900, "height": 1000}))
    yield page
    page.close()


@pytest.fixture
def visit(shared, address):
    """A function that opens the view with this address behind the #."""

    def visit(hash="", name="index"):
        shared.goto("about:blank")
        shared.said.clear()
        shared.failed.clear()
        shared.goto(f"{address}/{name}.html{hash}")
        shared.wait_for_selector(TABLE)
        return shared

    return visit


def settled(page):
    page.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")


def table(page):
    """Bound -> allowed half-width, texts inside, passages inside, as they stand there."""
    settled(page)
    cells = page.evaluate(
        f"() => [...document.querySelectorAll('{TABLE} tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return {
        name: [float(re.sub(r"[^\d.]", "", cell)) / 100 for cell in rest] for name, *rest in cells
    }


def account(page):
    settled(page)
    return page.text_content(".ctx-view strong").replace("\u00a0", " ")


def chosen_head(page):
    return page.input_value("fieldset >> nth=0 >> input:checked")


def press(page, selector, *keys):
    page.focus(selector)
    for key in keys:
        page.keyboard.press(key)


def state(page):
    return page.evaluate("decodeURIComponent(location.hash)")


# ---------------------------------------------------------------- numbers


@needs_chromium
@pytest.mark.parametrize(("head", "level"), [(0, 0.5), (2, 0.9), (4, 0.95), (6, 0.999)])
def test_bands_and_shares_are_those_of_ctxlib(visit, view, measured, half_widths, head, level):
    page = visit(f"#head={head}&level={level}")
    shown = table(page)
    assert tuple(shown) == BOUNDS
    own = (measured[head] - 1).abs()
    labelled = np.abs(np.array(view.record["ofPassages"][head]) - 1)
    for bound, epsilon in zip(BOUNDS, half_widths(head, level), strict=True):
        allowed, of_texts, of_passages = shown[bound]
        assert allowed == pytest.approx(epsilon, abs=0.0051, rel=1e-3)
        # a text may lie on the edge, where four digits decide
        assert of_texts == pytest.approx(float((own < epsilon).float().mean()), abs=1.5 / TEXTS)
        assert of_passages == pytest.approx(np.mean(labelled < epsilon), abs=6e-4)
    assert page.said == page.failed == []


@needs_chromium
def test_the_words_say_promise_and_share(visit, measured, half_widths):
    page = visit("#head=2&bound=normal, i.i.d.")
    share = float(((measured[2] - 1).abs() < half_widths(2, 0.95)[3]).float().mean())
    said = re.fullmatch(r"([\d.]+)% of (\d+) texts have\.", account(page))
    assert float(said[1]) / 100 == pytest.approx(share, abs=1.5 / TEXTS)
    assert int(said[2]) == TEXTS
    assert "Fewer than that" in page.text_content(".ctx-view")
    page = visit("#head=2&bound=Hoeffding&level=0.9")
    assert "at least 90.0%" in page.text_content(".ctx-view")
    assert "As promised" in page.text_content(".ctx-view")


@needs_chromium
def test_the_histogram_counts_the_texts(visit, view):
    page = visit("#head=3")
    press(page, "[role=slider]", "Home")
    bins = int(page.get_attribute("[role=slider]", "aria-valuemax")) + 1
    counted, pattern = 0, r"([\d.]+) to ([\d.]+) times the mean: (\d+) of (\d+) texts"
    values = np.array(view.record["texts"][3])
    for _ in range(bins):
        said = page.get_attribute("[role=slider]", "aria-valuetext")
        low, high, count, total = map(float, re.fullmatch(pattern, said).groups())
        assert count == ((values >= low - 1e-9) & (values < high - 1e-9)).sum()
        assert total == TEXTS
        counted += count
        page.keyboard.press("ArrowRight")
    assert counted >= 0.99 * TEXTS


def test_the_record_holds_every_denominator(view, measured, mini_weights, passages, expected):
    held = torch.tensor(view.record["texts"])
    assert torch.allclose(held, measured, rtol=1e-3)
    labelled = cx.softmax_denominators(mini_weights, passages, N, TOKEN) / expected
    assert torch.allclose(torch.tensor(view.record["ofPassages"]), labelled.T, rtol=1e-3)
    assert [p["domain"] for p in view.record["passages"]] == [p.domain for p in passages]


def test_a_thousand_texts_fit_into_a_page(mini_weights, passages):
    many = cx.texts.collection(mini_weights, 1000)
    place = cx.widgets.Denominators(mini_weights, many, passages, N, TOKEN).place()
    assert len(place.encode()) < 120_000


# ---------------------------------------------------------------- controls


@needs_chromium
def test_the_keyboard_turns_every_control(visit, view):
    page = visit()
    for selector, key, turned in (
        ("fieldset >> nth=0 >> input:checked", "ArrowRight", "head=5"),
        ("select", "ArrowDown", "text=0"),
        ("input[type=range]", "Home", "level=0.5"),
        ("fieldset >> nth=1 >> input:checked", "ArrowRight", "bound=Hoeffding"),
    ):
        press(page, selector, key)
        settled(page)
        assert turned in state(page)
    assert chosen_head(page) == "5"
    assert state(page) == "#bound=Hoeffding&head=5&level=0.5&text=0"
    assert page.text_content(f"{TABLE} .ctx-chosen th") == "Hoeffding"
    name = view.record["passages"][0]["name"]
    value = view.record["ofPassages"][5][0]
    assert page.text_content(".ctx-denominators-name") == f"{name}, {value:.2f}"
    assert page.said == []


@needs_chromium
def test_a_passage_can_be_picked_from_the_picture_and_let_go(visit, view):
    page = visit()
    dot = page.locator("circle").nth(7)
    name = dot.locator("title").text_content().split(":")[0]
    dot.click()
    settled(page)
    index = int(re.fullmatch(r"#text=(\d+)", state(page))[1])
    assert view.record["passages"][index]["name"] == name
    assert page.input_value("select") == str(index)
    page.locator("circle").nth(7).click()
    settled(page)
    assert state(page) == ""


@needs_chromium
def test_passages_outside_the_band_are_hollow(visit, view, half_widths):
    page = visit("#head=2&bound=normal, i.i.d.&level=0.8")
    epsilon = half_widths(2, 0.8)[3]
    values = np.array(view.record["ofPassages"][2])
    settled(page)
    assert page.locator(".ctx-denominators-out").count() == (abs(values - 1) >= epsilon).sum()
    assert page.locator(".ctx-denominators-in").count() == (abs(values - 1) < epsilon).sum()


# ---------------------------------------------------------------- what could go wrong


@needs_chromium
@pytest.mark.parametrize(
    "hash",
    [
        "#head=99&text=-2&bound=toString&level=7",
        "#head=NaN&text=1.5&bound=&level=0",
        "#head=-1&text=1e9&bound=%E0%A4%A&level=Infinity&record=1",
    ],
)
def test_nonsense_in_the_address_changes_nothing(visit, hash):
    before = table(visit())
    page = visit(hash)
    assert table(page) == before
    assert chosen_head(page) == "4"
    assert page.said == []


@needs_chromium
def test_nonsense_in_the_page_falls_back(visit):
    page = visit(name="nonsense")
    assert chosen_head(page) == "0"
    assert page.text_content("output") == "95.0%"
    assert page.text_content(f"{TABLE} .ctx-chosen th") == "Chebyshev"
    assert page.said == []


@needs_chromium
def test_markup_in_names_is_text(visit):
    page = visit(name="hostile")
    assert page.locator(".ctx-view img").count() == 0
    assert page.text_content(".ctx-denominators-name").startswith(HOSTILE)
    assert page.text_content(".ctx-word") == HOSTILE.replace(" ", "␣")
    assert page.title() == "One view"
    assert page.said == []


def broken_records(record):
    yield None
    yield {}
    yield record | {"heads": []}
    yield record | {"token": None}
    yield record | {"n": None}
    yield record | {"texts": record["texts"][:-1]}
    yield record | {"texts": [row[:-1] for row in record["texts"][:1]] + record["texts"][1:]}
    yield record | {"ofPassages": [[None] * len(row) for row in record["ofPassages"]]}
    yield record | {"passages": [{}] * len(record["passages"])}
    yield record | {"heads": [facts | {"width": "1"} for facts in record["heads"]]}


@needs_chromium
def test_a_damaged_record_is_one_line_and_leaves_the_picture(browser, tmp_path, view):
    small = copy.deepcopy(view.record)
    small["texts"] = [row[:9] for row in small["texts"]]
    names = [
        view_page(tmp_path, "denominators", view.state() | {"record": record}, name=f"r{number}")
        for number, record in enumerate(broken_records(small))
    ]
    with served(tmp_path) as address:
        page = browser.new_page()
        for name in names:
            page.goto(f"{address}/{name}")
            page.wait_for_selector(".ctx-failed")
            assert page.locator(".ctx-view > *").count() == 1
            assert page.text_content("#stand-in") == "a picture"
        page.close()


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_reader_out(visit, scheme):
    page = visit("#text=3")
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    assert serious(page) == []


@needs_chromium
def test_a_telephone_needs_no_scrolling_sideways(visit):
    page = visit("#text=3")
    page.set_viewport_size({"width": 390, "height": 800})
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 900, "height": 1000})


# ---------------------------------------------------------------- in Python


def test_traits_can_be_set_and_observed(view):
    seen = []
    view.observe(lambda change: seen.append((change["name"], change["new"])))
    was = {name: getattr(view, name) for name in ("head", "text", "bound", "level")}
    for name, value in (("head", 7), ("text", 3), ("bound", "Bernstein"), ("level", 0.5)):
        setattr(view, name, value)
    view.unobserve_all()
    assert seen == [("head", 7), ("text", 3), ("bound", "Bernstein"), ("level", 0.5)]
    for name, value in was.items():
        setattr(view, name, value)
    assert "record" not in repr(view)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("head", 8, "head 8: there are 0 to 7"),
        ("head", -1, "head -1"),
        ("text", 9999, "passage 9999"),
        ("text", -2, "passage -2"),
        ("level", 1.0, "level"),
        ("level", 0.4, "level"),
        ("bound", "Markov", "'Chebyshev'"),
    ],
)
def test_what_does_not_exist_is_refused(view, name, value, said):
    before = view.state()
    with pytest.raises(traitlets.TraitError, match=re.escape(said)):
        setattr(view, name, value)
    assert view.state() == before


def test_no_texts_are_an_error(mini_weights, passages):
    with pytest.raises(ValueError, match="no texts"):
        cx.widgets.Denominators(mini_weights, [], passages, N, TOKEN)


def test_passages_may_be_missing(mini_weights, texts):
    assert cx.widgets.Denominators(mini_weights, texts[:3], [], N).record["passages"] == []
