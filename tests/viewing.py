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
from typing import Any
from urllib.parse import urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, sync_playwright

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
<script type="module" src="views/page.js"></script>
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


def printed(text: str) -> tuple[float, float]:
    """A number as a view prints it, and how far its rounding may have moved it."""
    value = float(text.replace("\u2212", "-").replace(",", "").replace("+", ""))
    return value, 0.5 * 10.0 ** -len(text.partition(".")[2])


def explained(details: Locator, by_head: list[dict[str, float]]) -> float:
    """Opens a "why here", holds its rows against these parts and returns the sum it prints."""
    details.locator("summary").click()
    details.locator("tbody tr").last.wait_for()
    rows = [
        [printed(cell) for cell in row.locator(".ctx-number").all_inner_texts()]
        for row in details.locator("tbody tr").all()
    ]
    for row, part in zip(rows[:-1], by_head, strict=True):
        for (value, rounding), name in zip(row, part, strict=True):
            reach = 0.004 if name == "adds" else 0.02 * abs(part[name])
            assert abs(value - part[name]) <= rounding + reach, name
        kernel, content, denominator, value, adds = (value for value, _ in row)
        assert kernel * content / denominator * value == pytest.approx(adds, rel=0.03, abs=0.003)
    ((whole, rounding),) = rows[-1]
    assert abs(sum(row[-1][0] for row in rows[:-1]) - whole) <= len(rows) * rounding
    return whole


def parts_by_head(circuit: Any, tokens: Any, neuron: int, source: int) -> list[dict[str, float]]:
    """The term of a source as ctxlib has it: kernel, content, denominator, value and product."""
    token, parts = int(tokens[source]), []
    for k, head in enumerate(circuit.heads):
        content = float(circuit.at.likes[head, token])
        denominator, kernel = float(circuit.denominators[k]), float(circuit.kernel[source])
        adds = kernel * float(circuit.weighted_values[token, k] @ circuit.readout[k][:, neuron])
        value = adds / kernel / content * denominator
        named = {"kernel": kernel, "content": content, "denominator": denominator}
        parts.append(named | {"value": value, "adds": adds})
    return parts


def view_page(
    folder: Path, view: str, state: dict, layer: bytes | None = None, name: str = "index"
) -> str:
    """Writes a page with one view into a folder, with the modules and, if given, the packed layer;
    returns the page's file name. A folder may have several pages; they share a layer.
    """
    modules = folder / "views"
    if not modules.exists():
        python = shutil.ignore_patterns("*.py", "__pycache__")
        shutil.copytree(WIDGETS, modules, ignore=python)
    if layer is not None:
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / "layer.bin").write_bytes(layer)
    written = html.escape(json.dumps(state, allow_nan=False), quote=True)
    (folder / f"{name}.html").write_text(PAGE.format(view=view, state=written), encoding="utf-8")
    return f"{name}.html"
