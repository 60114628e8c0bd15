"""A page that is one file: the neuron explorer and the live reader with the layer that they compute
with, for any browser, without a server and without a network.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from pathlib import Path
from typing import Any

from ctxviews.bundle import HERE, bundled
from ctxviews.views import NeuronExplorer, Viewed, packed_once, viewed

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{css}
:root {{
  --pst-color-text-base: light-dark(#222832, #ced6dd);
  --pst-color-text-muted: light-dark(#48566b, #9ca4af);
  --pst-color-background: light-dark(#fff, #14181e);
  --pst-color-link: light-dark(#176de8, #66b5ff);
  color-scheme: light dark; font: 16px/1.6 system-ui, sans-serif;
}}
body {{
  max-width: 70rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: anywhere;
  background: var(--pst-color-background); color: var(--pst-color-text-base);
}}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<noscript><p>This page computes in the browser, and JavaScript is switched off.</p></noscript>
<h2>What moves its neurons</h2>
<div class="ctx-view" data-view="neurons"></div>
<h2>A text of your own</h2>
<div class="ctx-view" data-view="reader"></div>
</main>
<script type="application/json" id="ctx-states">{states}</script>
<script type="application/octet-stream" id="ctx-layer">{layer}</script>
<script type="module">{module}</script>
</body>
</html>
"""


def page(
    of: Viewed | NeuronExplorer, file: str | os.PathLike, title: str = "", **state: Any
) -> Path:
    """Write one HTML file with the neuron explorer, in the state of a view if one is given, and the
    live reader; it opens in any browser, and requests nothing from any server. Returns the path.

    `of` is what `NeuronExplorer` takes, or one; `title` is what the page calls the model, `state`
    what its explorer opens with, such as `threshold=20`. Raises as `NeuronExplorer` does.

    >>> file = cv.page(cx.study(model, texts=20), "mini.html", title="mini")
    >>> file.stat().st_size < 4e6
    True
    """
    view = of if isinstance(of, NeuronExplorer) else None
    states: dict[str, Any] = {"neurons": (view.state() if view else {}) | state}
    layer = packed_once(view.of if view else viewed(of, NeuronExplorer), title)
    module = bundled("alone.js").replace("</", "<\\/")
    script = base64.b64encode(hashlib.sha256(module.encode()).digest()).decode()
    text = PAGE.format(
        policy=f"default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; "
        "connect-src data:; img-src data: blob:; base-uri 'none'; form-action 'none'",
        title=html.escape(title or "Neurons that know their context"),
        css=(HERE / "views.css").read_text(encoding="utf-8"),
        states=json.dumps(states, allow_nan=False).replace("<", "\\u003c"),
        layer=base64.b64encode(layer).decode(),
        module=module,
    )
    Path(file).write_text(text, encoding="utf-8", newline="\n")
    return Path(file)
