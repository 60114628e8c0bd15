"""Read a chapter as the notebook that it begins as."""

from __future__ import annotations

from pathlib import Path

import jupytext
from command import ROOT
from nbformat import NotebookNode

#: The cell that installs the package where it is missing: the same on every page.
SETUP = ROOT / "chapters" / "template" / "setup.py"
PYTHON = {
    "jupytext": {"text_representation": {"extension": ".py", "format_name": "percent"}},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
}


def read(chapter: Path) -> NotebookNode:
    """A chapter for a kernel of Python. Behind its lead comes the setup cell, where it has none."""
    notebook = jupytext.read(chapter)
    notebook.metadata = NotebookNode(PYTHON)
    cells = notebook.cells
    own = any("setup" in cell.metadata.get("tags", ()) for cell in cells)
    if cells and cells[0].cell_type == "markdown" and not own:
        cells[1:1] = jupytext.read(SETUP).cells
    return notebook
