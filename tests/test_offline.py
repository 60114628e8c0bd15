"""What was opened once is there without a network, and weights stand beside their own words."""

import os
import shutil

import build_book
import pytest
from viewing import served, settled

PAGE = """<!doctype html><html><head><link rel="icon" href="data:,">
<script src="../_static/book.js?v={n}"></script></head>
<body><p id="words">words {n}</p><p id="weights"></p>
<script type="module" src="../_static/at-{n}/views/page.js"></script></body></html>"""
DAY = 86400  # seconds
MODULE = 'document.querySelector("#weights").textContent = "weights {n}";'


def deploy(folder, n):
    """Put a build of a site in the place of the one before."""
    static = folder / "_static"
    shutil.rmtree(static, ignore_errors=True)
    (static / f"at-{n}" / "views").mkdir(parents=True)
    (static / f"at-{n}" / "views" / "page.js").write_text(MODULE.format(n=n))
    shutil.copy(build_book.ROOT / "book" / "_static" / "book.js", static)
    shutil.copy(build_book.TOOLS / "offline.js", folder)
    (folder / "book").mkdir(exist_ok=True)
    (folder / "book" / "page.html").write_text(PAGE.format(n=n))
    os.utime(
        folder / "book" / "page.html", (n * DAY, n * DAY)
    )  # a server distinguishes them by that


@pytest.fixture
def context(browser):
    """A browser that keeps what it reads."""
    context = browser.new_context()
    yield context
    context.close()


def kept(page):
    """The files that are kept, when all that the page has loaded is."""
    return page.evaluate(
        """async () => {
            const held = async () => {
                const names = await caches.keys();
                const kept = await Promise.all(names.map((name) => caches.open(name)));
                return (await Promise.all(kept.map((c) => c.keys()))).flat().map((r) => r.url);
            };
            const loaded = () => performance.getEntriesByType("resource").map(({ name }) => name);
            for (let times = 0, urls; times < 600; times++) {
                urls = await held();
                const all = [location.href.split("#")[0], ...loaded()];
                if (navigator.serviceWorker.controller && all.every((url) => urls.includes(url)))
                    return urls.map((url) => new URL(url).pathname);
                await new Promise((later) => setTimeout(later, 50));
            }
            throw new Error(`kept are ${await held()}, loaded were ${loaded()}`);
        }"""
    )


def test_old_weights_never_stand_beside_new_words(context, tmp_path):
    page = context.new_page()

    def versions():
        page.reload()
        page.locator("#weights:not(:empty)").wait_for()
        return page.locator("#words").inner_text(), page.locator("#weights").inner_text()

    deploy(tmp_path, 1)
    with served(tmp_path) as fixed:
        page.goto(f"{fixed}/book/page.html")
        assert "/_static/at-1/views/page.js" in kept(page)
        deploy(tmp_path, 2)
        context.set_offline(True)
        assert versions() == ("words 1", "weights 1")
        context.set_offline(False)
        assert versions() == ("words 2", "weights 2")
        assert not [file for file in kept(page) if "at-1" in file]
        context.set_offline(True)
        assert versions() == ("words 2", "weights 2")


def test_a_page_that_was_opened_works_without_a_network(context, site):
    page, fixed = context.new_page(), f"{site}/book/explorer.html"

    def shows(number):
        settled(page).get_by_role("heading", name=f"Neuron {number}", exact=True).wait_for()

    page.goto(f"{fixed}#neuron=174")
    shows(174)
    kept(page)
    context.set_offline(True)
    page.reload()
    shows(174)
    page.goto(f"{fixed}#neuron=3")
    shows(3)
    assert page.locator(".ctx-failed").count() == 0


def test_a_page_that_was_not_opened_says_so_and_names_those_that_were(context, tmp_path):
    page = context.new_page()
    deploy(tmp_path, 1)
    with served(tmp_path) as fixed:
        page.goto(f"{fixed}/book/page.html")
        kept(page)
        context.set_offline(True)
        page.goto(f"{fixed}/book/other.html")
        assert "There is no network" in page.inner_text("body")
        page.get_by_role("link", name="page").click()
        page.locator("#weights:not(:empty)").wait_for()
