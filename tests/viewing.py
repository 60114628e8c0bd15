"""What the browser tests of site and views share: a file server, Chromium, a page with one view.

    from viewing import needs_chromium, served, view_page

Without Chromium, tests marked `needs_chromium` are left out, and say so.
"""

import html
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

WIDGETS = Path(__file__).resolve().parent.parent / "ctxlib" / "widgets"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MISSING = "no Chromium on this machine: apt install chromium"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>One view</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="views/views.css">
<style>
  :root {{
    --pst-color-text-base: #222832; --pst-color-text-muted: #48566b;
    --pst-color-background: #fff; --pst-color-link: #176de8;
    font: 16px/1.65 system-ui, sans-serif;
  }}
  @media (prefers-color-scheme: dark) {{
    :root {{
      --pst-color-text-base: #ced6dd; --pst-color-text-muted: #9ca4af;
      --pst-color-background: #14181e; --pst-color-link: #66b5ff; color-scheme: dark;
    }}
  }}
  body {{
    background: var(--pst-color-background); color: var(--pst-color-text-base);
    max-width: 54em; margin: 1em auto; padding: 0 1em;
  }}
</style>
<main>
<h1>One view</h1>
<h2>Turn it</h2>
<div data-view="{view}" data-addressed data-state="{state}"><p id="stand-in">a picture</p></div>
</main>
<script type="module" src="views/static.js"></script>
</html>
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing on the screen."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on a plain file server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Chromium; one at a time. Where there is none, the test that asks is left out. Tests take the
    fixture `browser`, which is this, opened once a worker.
    """
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


def watched(page: Page) -> Page:
    """Keeps an account of what a page asks of other hosts, of what it is not given, and of what
    it says: `page.elsewhere`, `page.failed`, `page.said`.
    """
    page.elsewhere, page.failed, page.said = [], [], []

    def asked(request):
        if urlparse(request.url).hostname not in ("127.0.0.1", None):
            page.elsewhere.append(request.url)

    page.on("request", asked)
    page.on("requestfailed", lambda r: page.failed.append(f"{r.url}: {r.failure}"))
    page.on("response", lambda r: r.status < 400 or page.failed.append(f"{r.url}: {r.status}"))
    page.on("console", lambda m: m.type in ("error", "warning") and page.said.append(m.text))
    page.on("pageerror", lambda e: page.said.append(str(e)))
    return page


def serious(page: Page) -> list[str]:
    """What axe holds against a page that keeps readers out, one line each."""
    page.add_style_tag(content="* { transition: none !important }")
    results = Axe().run(page, options={"resultTypes": ["violations"], "preload": False})
    return [
        f"{v['id']} ({v['impact']}), {len(v['nodes'])} times: {v['nodes'][0]['html'][:200]}"
        for v in results.response["violations"]
        if v["impact"] in ("serious", "critical")
    ]


def view_page(
    folder: Path, view: str, state: dict, layer: bytes | None = None, name: str = "index"
) -> str:
    """Writes a page with one view into a folder, with the modules and, if given, the packed layer;
    returns the page's file name. A folder may have several pages; they share a layer.
    """
    modules = folder / "views"
    if not modules.exists():
        modules.mkdir(parents=True)
        for file in WIDGETS.iterdir():
            if file.suffix in (".js", ".css"):
                shutil.copy(file, modules)
    if layer is not None:
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / "layer.bin").write_bytes(layer)
    written = html.escape(json.dumps(state, allow_nan=False), quote=True)
    (folder / f"{name}.html").write_text(PAGE.format(view=view, state=written), encoding="utf-8")
    return f"{name}.html"
