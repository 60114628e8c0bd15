"""Equations are set when the site is built, by KaTeX, so that a page needs no script to show them.

`sphinxcontrib.katex` brings KaTeX, but calls a server in Node for every equation. Here KaTeX runs
in V8, in this process: nothing has to be installed beside Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from py_mini_racer import MiniRacer
from sphinx.application import Sphinx
from sphinxcontrib import katex


@cache
def engine() -> MiniRacer:
    """V8 with KaTeX in it."""
    racer = MiniRacer()
    racer.eval(Path(katex.__file__).with_name("katex.min.js").read_text("utf-8"))
    return racer


def typeset(tex: str, options: Mapping[str, Any] | None = None) -> str:
    """An equation as HTML, with MathML beside it for those who listen. Raises JSEvalException for
    what KaTeX does not know.
    """
    return engine().call("katex.renderToString", tex, {"strict": "error", **(options or {})})


def close(app: Sphinx, exception: Exception | None) -> None:
    engine().close()  # its thread would outlive the build
    engine.cache_clear()


def setup(app: Sphinx) -> dict[str, bool]:
    katex.render_latex = typeset  # where it would call the server
    app.add_config_value("katex_prerender", True, "html")
    inline, block = katex.html_visit_math, katex.html_visit_displaymath
    app.add_html_math_renderer("katex", (inline, None), (block, None))
    app.connect("build-finished", close)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
