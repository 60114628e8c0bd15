"""A folder on a file server, and the browsers of this machine, for what looks at built pages."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BROWSERS = {  # what they are called, and as what they are installed
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "firefox": ("firefox-esr", "firefox"),
}
INSTALLED = {
    browser: next(filter(None, map(shutil.which, names)), None)
    for browser, names in BROWSERS.items()
}


class Quiet(SimpleHTTPRequestHandler):
    """A plain file server."""

    def log_message(self, *_: object) -> None:
        """Nothing on the screen."""


@contextmanager
def served(folder: Path, handler: type[SimpleHTTPRequestHandler] = Quiet) -> Iterator[str]:
    """The address of a folder on a file server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
