#!/usr/bin/env python
"""Firefox as playwright launches it: `FIREFOX` in the environment says which one.

Playwright asks every browser to pretend a colour scheme before it opens a page, and takes a no for
an end. A Firefox of long-term support may not know the command: what passes between them passes
here, and that one no becomes a yes. All else is as it was said, and the scheme is the system's.
"""

import asyncio
import json
import os
import re
import sys

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler, websocket_connect

UNKNOWN = re.compile(r'"unknown command".*emulation\.setMediaFeaturesOverride')
LARGE = 2**28  # bytes: a layer of weights passes as well


class Between(WebSocketHandler):
    async def open(self, *_: str) -> None:
        firefox = self.settings["firefox"] + self.request.path
        self.there = await websocket_connect(
            firefox, on_message_callback=self.back, max_message_size=LARGE
        )

    def on_message(self, message: str | bytes) -> None:
        self.there.write_message(message)

    def back(self, message: str | None) -> None:
        if message is None:
            self.close()
            return
        if UNKNOWN.search(message):
            yes = {"type": "success", "id": json.loads(message)["id"], "result": {}}
            message = json.dumps(yes)
        self.write_message(message)


async def main() -> int:
    asked = [os.environ["FIREFOX"], *sys.argv[1:]]
    firefox = await asyncio.create_subprocess_exec(*asked, stderr=asyncio.subprocess.PIPE)
    async for line in firefox.stderr:
        if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", line.decode()):
            (socket,) = bind_sockets(0, "127.0.0.1")
            told = {"firefox": found[1], "websocket_max_message_size": LARGE}
            HTTPServer(Application([("/.*", Between)], **told)).add_sockets([socket])
            here = f"ws://127.0.0.1:{socket.getsockname()[1]}"
            line = line.replace(found[1].encode(), here.encode())
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
    return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
