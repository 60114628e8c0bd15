"""The built site in a real browser: it asks nobody else for anything, says nothing on the console,
shows every equation and picture, and can be used by everyone.

Without Chromium these tests are left out, and say so.
"""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PAGES = [
    "search",
    "genindex",
    *sorted(f"book/{f.stem}" for f in (ROOT / "book").glob("*.*") if f.suffix in (".md", ".ipynb")),
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: apt install chromium"
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing on the screen."""


@pytest.fixture(scope="module")
def address(html):
    """The site on a plain file server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=html))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def visit(browser, address):
    """A function that opens a page and keeps an account of what it asks for and says."""
    opened = []

    def visit(name, width=1440, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        opened.append(page)
        page.elsewhere, page.failed, page.said = [], [], []
        page.on(
            "request",
            lambda r: (
                urlparse(r.url).hostname in ("127.0.0.1", None) or page.elsewhere.append(r.url)
            ),
        )
        page.on("requestfailed", lambda r: page.failed.append(f"{r.url}: {r.failure}"))
        page.on("response", lambda r: r.status < 400 or page.failed.append(f"{r.url}: {r.status}"))
        page.on("console", lambda m: m.type in ("error", "warning") and page.said.append(m.text))
        page.on("pageerror", lambda e: page.said.append(str(e)))
        page.goto(f"{address}/{name}.html", wait_until="networkidle")
        page.evaluate("window.MathJax && MathJax.startup && MathJax.startup.promise")
        return page

    yield visit
    for page in opened:
        page.close()


@pytest.fixture(scope="module", params=PAGES)
def page(request, visit):
    opened = visit(request.param)
    yield opened
    opened.close()


def test_the_address_of_the_site_leads_to_its_first_page(browser, address):
    page = browser.new_page()
    page.goto(address)
    page.wait_for_url("**/book/00_welcome.html")
    page.close()


def test_nothing_is_asked_of_another_host(page):
    assert page.elsewhere == []


def test_everything_asked_for_is_there_and_nothing_complains(page):
    assert page.failed == []
    assert page.said == []


def test_every_equation_is_drawn(page):
    formulas, drawn, broken = page.evaluate(
        """() => [
            document.querySelectorAll('.math').length,
            document.querySelectorAll('.math mjx-container').length,
            document.querySelectorAll('mjx-merror').length,
        ]"""
    )
    assert drawn >= formulas
    assert broken == 0


def test_every_picture_is_there(page):
    broken = page.evaluate(
        "() => [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
    )
    assert broken == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_reader_out(page, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    # axe takes a second for a thousand elements: drawings and equations, which have a text of their
    # own, and all but the first blocks of code, which look alike, are left out
    page.evaluate(
        """() => {
            document.querySelectorAll('figure.picture svg, mjx-container').forEach(e => e.remove());
            [...document.querySelectorAll('pre')].slice(5).forEach(e => e.remove());
        }"""
    )
    page.add_style_tag(content="* { transition: none !important }")
    page.wait_for_function("s => document.documentElement.dataset.theme === s", arg=scheme)
    results = Axe().run(page, options={"resultTypes": ["violations"], "preload": False})
    serious = [
        f"{v['id']} ({v['impact']}), {len(v['nodes'])} times: {v['nodes'][0]['html'][:200]}"
        for v in results.response["violations"]
        if v["impact"] in ("serious", "critical")
    ]
    assert serious == []
