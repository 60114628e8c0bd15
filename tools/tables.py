"""The table of chapters in README.md, as `_toc.yml` lists them and as their titles describe them:
`make execute` writes it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from command import ROOT
from files import replace

LISTED = re.compile(r"- file: book/(0?(\d+|[A-Z])_\w+)")
TABLE = re.compile(r"(\| \| asks \|.*\n.*\n)(?:\|.*\n)*")


def filled() -> dict[Path, str]:
    """README.md, with a line in its table for every chapter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    colab = project["urls"]["Repository"].replace("github.com", "colab.research.google.com/github")
    lines = ""
    for name, number in LISTED.findall((ROOT / "_toc.yml").read_text("utf-8")):
        title = re.findall(r'"""\n# (.*)', (ROOT / f"chapters/{name}.py").read_text("utf-8"))[0]
        lines += f"| {number} | {title} | [open]({colab}/blob/main/book/{name}.ipynb) |\n"
    file, lines = ROOT / "README.md", lines.replace("\\", r"\\")  # nothing in it is a reference
    return {file: TABLE.sub(rf"\1{lines}", file.read_text("utf-8"))}


if __name__ == "__main__":
    for file, text in filled().items():
        replace(file, text)
