"""Equations are set when the site is built, by KaTeX, so that a page needs no script to show them.

`sphinxcontrib.katex` brings KaTeX, but asks a server in Node for every equation. Here KaTeX runs in
V8, in this process: nothing has to be installed beside Python.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator
from sphinxcontrib import katex


@cache
def engine() -> MiniRacer:
    """V8 with KaTeX in it."""
    racer = MiniRacer()
    racer.eval(Path(katex.__file__).with_name("katex.min.js").read_text("utf-8"))
    return racer


@cache
def typeset(tex: str, display: bool) -> str:
    """An equation as HTML, with MathML beside it for those who listen. Raises JSEvalException for
    what KaTeX does not know.
    """
    return engine().call("katex.renderToString", tex, {"displayMode": display, "strict": "error"})


def close(app: Sphinx, exception: Exception | None) -> None:
    engine().close()  # its thread would outlive the build
    engine.cache_clear()


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    set_ = typeset(node.astext(), display=False)
    self.body.append(f"{self.starttag(node, 'span', '', CLASS='math')}{set_}</span>")
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(f"{typeset(node.astext(), display=True)}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("katex", (visit_math, None), (visit_math_block, None))
    app.connect("build-finished", close)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
