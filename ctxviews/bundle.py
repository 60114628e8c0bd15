"""The ES modules beside this file, as text: which a view needs, and how they become one.

Reads files and imports nothing of the package, so that a site is built without torch. By hand and
not by esbuild: modules are joined wherever the package is installed, and that has no Node.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import (\{[^}]*\}|\w+) from "(\.[^"]+)";$', re.MULTILINE)
REMARK = re.compile(r"^[ \t]*/\*\*(?:(?!\*/)[\s\S])*\*/\n", re.MULTILINE)  # on lines of its own
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
CLASSED = """export default {
  ...VIEW,
  render(context) {
    context.el.classList.add("ctx-view");
    return VIEW.render(context);
  },
};
"""


def plain(module: Path) -> str:
    """The source of a module without the types and the remarks above functions: a quarter of it."""
    return REMARK.sub("", module.read_text(encoding="utf-8"))


def linked(name: str) -> list[Path]:
    """A module of the views and all that it imports, each once, behind what it needs itself."""
    order: dict[Path, None] = {}

    def visit(module: Path) -> None:
        for _, needed in IMPORT.findall(module.read_text(encoding="utf-8")):
            visit((module.parent / needed).resolve())
        order.setdefault(module)

    visit(HERE / name)
    return list(order)


def bundled(name: str) -> str:
    """A view's module with all that it imports, as one ES module: notebooks load no second file.

    Each module becomes a function that returns what it exports; its source is otherwise the plain
    one. Its place gets the class that the style sheet names: not every notebook does so for Python.
    """
    modules = linked(name)
    called = {module: f"{module.parent.name}_{module.stem}" for module in modules}

    def wrapped(module: Path) -> str:
        def taken(found: re.Match[str]) -> str:
            names = found[1].replace(" as ", ": ")
            return f"const {names} = {called[(module.parent / found[2]).resolve()]};"

        source = IMPORT.sub(taken, plain(module))
        names = ", ".join(name for _, name in EXPORT.findall(source))
        given = EXPORT.sub(r"\1", source).replace("export default ", "return ")
        end = f"return {{ {names} }};\n" if names else ""
        return f"const {called[module]} = (() => {{\n{given}{end}}})();\n"

    return "\n".join(map(wrapped, modules)) + CLASSED.replace("VIEW", called[modules[-1]])
