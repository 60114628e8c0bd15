"""Run one committed notebook again as nbval does, and say where it comes out otherwise.

    python tools/check_notebook.py book/05_calibration.ipynb .    (`make check` calls it)

Cells tagged `nbval-check-output` are compared, after tests/nbval_sanitize.cfg has taken out what
may differ; every other cell must run. nbval compares; this tells in a few lines what it found: the
cell, what the notebook holds and what came out. Prints this and what the kernel read, as JSON; the
exit status is 1 where a cell differs.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
import stamps

SANITIZE = Path(__file__).resolve().parent.parent / "tests" / "nbval_sanitize.cfg"
AT_MOST = 5  # cells that are told of; after a changed formula many differ
LINES, WIDTH = 24, 160
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Teller:
    """What nbval found in the cells that failed, a paragraph each."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        if not hasattr(node, "cell"):
            self.told.append(str(call.excinfo.value))
            return
        source = node.cell.source
        first = next((line for line in source.splitlines() if line.strip()), "")
        place = f"{node.path.stem}, code cell {node.cell_num + 1} ({first!r})"
        self.told.append(f"{place}: {outcome(node, call.excinfo.value)}")


def outcome(node: Any, error: BaseException) -> str:
    """Why a cell failed: what it raised, or what differs."""
    if str(error) == "Cell outputs differ":
        kept = fields(node.cell.outputs, node.sanitize)
        found = fields(node.test_outputs, node.sanitize)
        if differing := [kind for kind in kept | found if kept[kind] != found[kind]]:
            # a table is there twice, as words and as markup: the words say it
            kind = "text/plain" if "text/plain" in differing else differing[0]
            return f"another output ({kind})\n" + apart(kept[kind], found[kind])
    inner = ESCAPES.sub("", getattr(error, "inner_traceback", None) or "").strip()
    return f"{error}\n" + "\n".join(f"    {line}" for line in inner.splitlines()[-LINES:])


def fields(outputs: list[Any], sanitize: Any) -> defaultdict[str, str]:
    """Outputs by kind, as they are compared."""
    found: defaultdict[str, str] = defaultdict(str)
    for output in outputs:
        if output.output_type == "stream":
            found[output.name] += sanitize(output.text)
        for kind, content in output.get("data", {}).items():
            if isinstance(content, str) and not kind.startswith("image/"):
                found[kind] += sanitize(content)
    return found


def apart(expected: str, found: str) -> str:
    """Two outputs: whole where they are short, else the lines that differ and those around them.

    >>> print(apart("TV 0.01", "TV 0.02"))
        expected: TV 0.01
        found:    TV 0.02
    """
    if "\n" not in expected.strip() + found.strip():
        one, other = around(expected.strip(), found.strip())
        return f"    expected: {one}\n    found:    {other}"
    lines = list(
        unified_diff(
            expected.splitlines(), found.splitlines(), "expected", "found", lineterm="", n=2
        )
    )
    shown = [f"    {line[:WIDTH]}" for line in lines[:LINES]]
    more = len(lines) - len(shown)
    return "\n".join([*shown, *([f"    ... and {more} lines more"] if more > 0 else [])])


def around(one: str, other: str) -> tuple[str, str]:
    """Two long lines from shortly before the place where they part."""
    alike = len(os.path.commonprefix([one, other]))  # noqa: RUF071 - letters, no paths
    start = max(0, alike - WIDTH // 2)
    if start + WIDTH >= max(len(one), len(other)):
        start = max(0, max(len(one), len(other)) - WIDTH)
    mark = "..." if start else ""
    return mark + one[start : start + WIDTH], mark + other[start : start + WIDTH]


def checked(notebook: Path, root: Path) -> tuple[list[str], list[str]]:
    """What comes out otherwise, a paragraph each, and what the notebook's kernel read."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    teller = Teller()
    with stamps.watched(root) as (environment, reads), redirect_stdout(io.StringIO()) as said:
        os.environ.update(environment)  # for the kernel: what pytest reads is nothing to it
        status = pytest.main(
            [
                *("-c", os.devnull, "--rootdir", str(root), "--noconftest"),
                *("-p", "nbval.plugin", "-p", "no:cacheprovider"),
                *("--nbval-lax", "--nbval-current-env", f"--nbval-sanitize-with={SANITIZE}"),
                *("--color=no", "--tb=short", "-q", str(notebook.resolve())),
            ],
            plugins=[teller],
        )
        read = sorted(map(str, reads()))
    if status == pytest.ExitCode.OK:
        return [], read
    more = len(teller.told) - AT_MOST
    told = teller.told[:AT_MOST] + ([f"... and {more} cells more"] if more > 0 else [])
    return told or [said.getvalue()[-3000:]], read


if __name__ == "__main__":
    told, read = checked(*map(Path, sys.argv[1:]))
    print(json.dumps({"told": told, "read": read}))
    sys.exit(bool(told))
