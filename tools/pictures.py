"""The pictures of README.md, taken of the pages themselves:

make pictures        # after make book, with Chromium
"""

from __future__ import annotations

import sys

from browsing import INSTALLED, served
from command import ROOT
from playwright.sync_api import sync_playwright

SITE, STATIC = ROOT / "_build" / "html", ROOT / "book" / "_static"
#: What each picture shows: a page, what stands in it, and how wide and high it is at most.
PICTURES = {
    "explorer.png": ("book/explorer.html", "[data-view=neurons]", 1000, 640),
    "spelling.png": ("book/00_welcome.html", "[data-view=spellings]", 1000, 420),
}


def main() -> None:
    """Take every picture."""
    if not (SITE / "index.html").exists() or INSTALLED["chromium"] is None:
        sys.exit("pictures: make book first, and install Chromium")
    with served(SITE) as address, sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=INSTALLED["chromium"]).new_page()
        for name, (of, what, width, height) in PICTURES.items():
            page.set_viewport_size({"width": 1280, "height": 1000})
            page.goto(f"{address}/{of}", wait_until="networkidle")
            place = page.locator(what).first
            place.scroll_into_view_if_needed()
            page.wait_for_timeout(3000)
            if (box := place.bounding_box()) is None:
                sys.exit(f"pictures: {of} shows no {what}")
            box["width"], box["height"] = min(box["width"], width), min(box["height"], height)
            page.screenshot(path=STATIC / name, clip=box)


if __name__ == "__main__":
    main()
