"""What the browser tests of site and views share: where modules lie, browsers, pages
with views, and how a test waits for them.

    from viewing import in_firefox_too, served, view_page

What such a page shows is read by `shown.py`.

A test that uses the fixture `browser` runs in Chromium, and where it is marked `in_firefox_too`
in Firefox as well. Without one of them its tests are left out, and say so.
"""

import gzip
import html
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pytest
import torch
from axe_playwright_python.base import AXE_SCRIPT
from browsing import BROWSERS, INSTALLED, served
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright
from safetensors.numpy import load, save

import ctxlib as cx
import ctxviews as cv
from ctxviews import look_up_record, looked_up

VIEWS_FOLDER = Path(__file__).resolve().parent.parent / "ctxviews"
MODULES = sorted(f for f in VIEWS_FOLDER.rglob("*.js") if "node_modules" not in f.parts)

MOUSE = 6  # Firefox reads it from the machine: exact, and can hover
in_firefox_too = pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
expect.set_options(timeout=30_000)  # as everything else that is waited for
DESK, PHONE = {"width": 900, "height": 1000}, {"width": 390, "height": 800}

PAGE = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
PLACE = '<div data-view="{}" {} data-state="{}"><p class="stand-in">a picture</p></div>'


@pytest.fixture(scope="session")
def launch() -> Iterator[Callable[[str], Browser]]:
    """A function that gives a browser by its name, one a worker."""
    mouse = {f"ui.{which}PointerCapabilities": MOUSE for which in ("primary", "all")}
    options = {  # by the protocol of all browsers Firefox is taken as it is installed
        "chromium": {},
        "firefox": {"channel": "moz-firefox", "firefox_user_prefs": mouse},
    }
    with pytest.MonkeyPatch.context() as patch, ExitStack() as closing:
        patch.setenv("NODE_OPTIONS", f'--require "{Path(__file__).with_name("firefox.cjs")}"')
        playwright = closing.enter_context(sync_playwright())

        @cache
        def launch(name: str) -> Browser:
            kind = getattr(playwright, name)
            browser = kind.launch(executable_path=INSTALLED[name], **options[name])
            closing.callback(browser.close)
            return browser

        yield launch


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest, launch: Callable[[str], Browser]) -> Browser:
    """Chromium, or what the test is marked with; whoever opens a page closes it."""
    name = getattr(request, "param", "chromium")
    if INSTALLED[name] is None:
        pytest.skip(f"no {name} on this machine: apt install {BROWSERS[name][0]}")
    return launch(name)


@pytest.fixture(scope="session")
def site(html: Path) -> Iterator[str]:
    """The address of the built site."""
    with served(html) as address:
        yield address


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Page]:
    """One page for the tests of a module."""
    page = watched(browser.new_page())
    page.add_init_script("delete Navigator.prototype.serviceWorker")  # each visit is a first one
    yield page
    page.close()


@pytest.fixture
def visit(window: Page, address: str) -> Iterator[Callable[..., Page]]:
    """A function that shows a page of the module's `address`, in the state behind the #, and waits
    until all of it is there. A page that is open already follows the address, as by a link, unless
    it is to be `fresh`. In the end nothing was requested elsewhere, missing or complained of.
    """
    window.set_viewport_size(DESK)

    def visit(hash: str = "", name: str = "index", fresh: bool = False) -> Page:
        place = f"{address}/{name}.html"
        if window.url.partition("#")[0] == place and not fresh:
            return turned(window, hash)
        window.goto("about:blank")
        window.goto(place + hash)
        return settled(window)

    yield visit
    blameless(window)


@pytest.fixture(scope="session")
def attributed(tiny, tiny_tokens):
    """Three prompts; and of two neurons of `tiny` at their ends, the first with heads of two
    layers: terms, usual terms, and what each head gets from each source. That is drawn: a record
    takes it as it is given.
    """
    prompts = [tiny_tokens[:length] for length in (4, 9, 20)]
    usual = [tiny_tokens[[0, *range(k, k + 5)]] for k in (3, 11, 17, 26)]
    source = torch.Generator().manual_seed(0)

    def of(layer, neuron):
        terms, usually = (
            cx.lookups.attribution(tiny, layer, neuron, texts) for texts in (prompts, usual)
        )
        sizes = len(prompts), layer + 1, tiny.cfg.n_heads, 20
        return terms, usually, torch.randn(sizes, generator=source)

    return prompts, [of(1, 7), of(0, 3)]


@pytest.fixture(scope="session")
def look_ups(tiny, attributed):
    """The record of both neurons."""
    prompts, found = attributed
    facts = [("1.7", "next-token neurons", 40), ("0.3", "random neurons", 41)]
    probability = torch.tensor([0.5, 0.25, 1e-5])
    neurons = [
        looked_up(tiny, *labels, prompts, *of, probability)
        for labels, of in zip(facts, found, strict=True)
    ]
    return look_up_record(tiny, neurons)


def circuits_of(weights, layer):
    """A function that gives in Python the circuit that pages make of some heads of a packed layer,
    calibrated on the text that its packing chose.
    """
    text = torch.tensor(header(layer)["calibration"]["ids"])

    @cache
    def calibrated(heads, n, token):
        fixed = cx.fix_query(weights, n=n, token=token)
        return cx.ContextualCircuit.calibrate(fixed, text, heads)

    return lambda heads, n=None, token=" the": calibrated(tuple(heads), n, token)


@pytest.fixture(scope="session")
def circuit_of(mini_weights, packed_mini):
    return circuits_of(mini_weights, packed_mini)


def added(circuit, tokens, neuron):
    """What each source adds to a neuron: `pos_i contribution[x_i, j]`."""
    return circuit.kernel * circuit.contribution[tokens[: circuit.fixed.length], neuron]


OF_LAYERS = {
    "rows": "Rows",
    "kernels": "Kernels",
    "neurons": "NeuronExplorer",
    "reader": "LiveReader",
}
VIEWS = (*OF_LAYERS, "denominators", "positions", "lookups")


@pytest.fixture(scope="session")
def twins(mini):
    """Models that keep positions in different ways."""
    return {"learned": mini, "rotary": cx.load("mini-rotary"), "ALiBi": cx.load("mini-alibi")}


@pytest.fixture(scope="session")
def views(mini_view, mini_weights, twins, look_ups):
    """One view of each kind, by its module's name."""
    texts, passages = cx.texts.collection(mini_weights, 300), cx.texts.passages(mini_weights)
    of_texts = cv.Denominators(cx.fix_query(mini_weights, n=256), texts, passages)
    splits = {name: cx.fit_additive(twin, passages).decomposition for name, twin in twins.items()}
    of_records = [of_texts, cv.Positions(splits), cv.LookUps(look_ups)]
    made = [*map(mini_view, OF_LAYERS.values()), *of_records]
    return dict(zip(VIEWS, made, strict=True))


def whole(view: Any) -> dict[str, Any]:
    """All that a page gets of a view."""
    return view.state() | {name: getattr(view, name) for name in view.trait_names(along=True)}


@pytest.fixture(scope="session")
def view_folder(tmp_path_factory, views, packed_mini):
    """Pages that every file of tests may visit, and add to: one a view, by its module's name, and
    `host`, without any.
    """
    folder = tmp_path_factory.mktemp("views")
    for name, view in views.items():
        view_page(folder, (name, whole(view)), layer=packed_mini, name=name)
    view_page(folder, name="host")
    return folder


@pytest.fixture(scope="session")
def address(view_folder):
    """Where these pages are."""
    with served(view_folder) as address:
        yield address


def settled(page: Page) -> Page:
    """The page when its views are there, nothing more is being worked out, and what was drawn last
    is on the screen: a view draws over five pictures at most.
    """
    page.evaluate(
        """async () => {
            const busy = () =>
                !document.querySelector(".ctx-view > :not(.ctx-waiting)")
                || document.querySelector("[aria-busy], [data-working], .ctx-waiting:not([hidden])")
                || [...document.querySelectorAll(".ctx-chip small")]
                    .some(({ textContent }) => textContent === "–");
            const late = performance.now() + 60_000; // however slow the machine
            for (let calm = 0; calm < 6; calm = busy() ? 0 : calm + 1) {
                if (performance.now() > late) throw new Error("a view is not done");
                await new Promise(requestAnimationFrame);
            }
        }"""
    )
    return page


def turned(page: Page, hash: str) -> Page:
    """The page in the state that an address holds, followed inside it."""
    page.evaluate(
        """(hash) => new Promise((done) => {
            const before = location.hash;
            addEventListener("hashchange", done, { once: true });
            location.hash = hash;
            if (location.hash === before) done();
        })""",
        hash,
    )
    return settled(page)


GIVEN_UP = ("net::ERR_ABORTED", "NS_BINDING_ABORTED", "NS_BASE_STREAM_CLOSED")


def watched(page: Page) -> Page:
    """Keeps an account of what a page requests from other hosts, of what it is not given, and of
    what it prints, in `page.faults`. What a browser gives up because its reader goes on to another
    page, or a page because it needs no more of it, was not refused, and a view whose file never
    comes is not drawn.
    """
    page.faults = []

    def note(wrong, line):
        if wrong:
            page.faults.append(line)

    page.on("request", lambda r: note(urlparse(r.url).hostname not in ("127.0.0.1", None), r.url))
    page.on("requestfailed", lambda r: note(r.failure not in GIVEN_UP, f"{r.url}: {r.failure}"))
    page.on("response", lambda r: note(r.status >= 400, f"{r.url}: {r.status}"))
    page.on("console", lambda m: note(m.type in ("error", "warning"), m.text))
    page.on("pageerror", lambda e: note(True, str(e)))
    return page


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[Page]:
    """A new page, of which nothing is to be complained in the end."""
    page = watched(browser.new_page(**options))
    yield page
    blameless(page)
    page.close()


class Gate:
    """Keeps what a page requests, until it is opened."""

    def __init__(self, page: Page, files: str):
        self.held: list[Route] = []
        self.opened = False
        page.route(
            files, lambda route: route.continue_() if self.opened else self.held.append(route)
        )

    def open(self) -> None:
        self.opened = True
        for route in self.held:
            route.continue_()


def blameless(page: Page) -> None:
    """Nothing was requested elsewhere, missing or complained of; its account begins anew."""
    faults, page.faults = page.faults, []
    assert faults == []


COLORS = {"color-contrast": "[data-first]", "link-in-text-block": "a[data-first]"}
# axe's rules of colours are checked for the first of all texts that look alike, and none that keep
# no reader out
CONFIGURE = """(colours) => axe.configure({ rules: [
    ...axe._audit.rules.filter(({ impact }) => !["serious", "critical"].includes(impact))
        .map(({ id }) => ({ id, enabled: false })),
    ...Object.entries(colours).map(([id, selector]) => ({ id, selector })),
] })"""
# marks the first of all texts that look alike: the same colours, letters and grounds
FIRST = """() => {
    const looks = (e) => {
        const { color, fontSize, fontWeight, textDecorationLine } = getComputedStyle(e);
        return [e.tagName, color, fontSize, fontWeight, textDecorationLine];
    };
    const grounds = (e) => {
        if (!e) return [];
        const { backgroundColor, backgroundImage, opacity } = getComputedStyle(e);
        const own = `${backgroundColor} ${backgroundImage} ${opacity}`;
        return own === "rgba(0, 0, 0, 0) none 1"
            ? grounds(e.parentElement) : [own, ...grounds(e.parentElement)];
    };
    const first = new Map();
    for (const e of document.querySelectorAll("body *")) {
        e.removeAttribute("data-first");
        const hasText = (part) => part instanceof Text && part.data.trim();
        if (![...e.childNodes].some(hasText) && !e.matches("a, input, textarea")) continue;
        const key = [...looks(e), ...looks(e.parentElement), ...grounds(e)].join();
        if (!first.has(key)) first.set(key, e);
    }
    for (const e of first.values()) e.dataset.first = "";
}"""


def serious(page: Page) -> list[str]:
    """What axe holds against a page that keeps readers out, a line each. Its rules of colours take
    seconds for a thousand texts: in both schemes they are checked for one of all that look alike.
    """
    page.add_style_tag(content="* { transition: none !important }")
    page.evaluate(AXE_SCRIPT)
    page.evaluate(CONFIGURE, COLORS)
    wrong: list[dict[str, Any]] = []
    for scheme, only in (("dark", {"runOnly": [*COLORS]}), ("light", {})):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_function(  # the site follows with its theme
            "s => (document.documentElement.dataset.theme ?? s) === s", arg=scheme
        )
        page.evaluate(FIRST)
        options = {"resultTypes": ["violations"], "preload": False} | only
        wrong += page.evaluate("async (options) => (await axe.run(options)).violations", options)
    return [
        f"{v['id']} ({v['impact']}), {len(v['nodes'])} times: {v['nodes'][0]['html'][:200]}"
        for v in wrong
    ]


def header(layer: bytes) -> dict[str, Any]:
    """The header of a packed layer."""
    content = gzip.decompress(layer)
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8:start])["__metadata__"]["header"])


def tensors(layer: bytes) -> dict[str, np.ndarray]:
    """Its tensors; float16 is uint8 there, all low bytes before all high ones."""

    def widened(held: np.ndarray) -> np.ndarray:
        if held.dtype != np.uint8:
            return held
        halves = np.ascontiguousarray(held.reshape(2, -1).T).view("<f2")
        return halves.reshape(held.shape[1:])

    return {name: widened(held) for name, held in load(gzip.decompress(layer)).items()}


def repacked(layer: bytes, **changes: Any) -> bytes:
    """The same layer with another header."""
    text = json.dumps(header(layer) | changes)
    return gzip.compress(save(load(gzip.decompress(layer)), {"header": text}), 1, mtime=0)


def view_page(
    folder: Path,
    *views: tuple[str, dict[str, Any]],
    layer: bytes | None = None,
    name: str = "index",
    more: str = "data-addressed",
) -> None:
    """Writes a page with views in their states into a folder, with the modules and, if given, the
    packed layer. A folder may have several pages; they share a layer. Every view's place has
    `more` attributes.
    """
    if not (folder / "views").exists():
        shutil.copytree(
            VIEWS_FOLDER,
            folder / "views",
            ignore=shutil.ignore_patterns("*.py", "__py*", "node_modules"),
        )
    if layer is not None:
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / "layer.bin").write_bytes(layer)
    states = [(view, html.escape(json.dumps(state, allow_nan=False))) for view, state in views]
    places = "\n".join(PLACE.format(view, more, state) for view, state in states)
    page = PAGE.replace("<!-- places -->", places)
    (folder / f"{name}.html").write_text(page, encoding="utf-8")
