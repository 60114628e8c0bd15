"""The links of README.md that open each chapter in Colab, as `_toc.yml` lists them: `make execute`
writes them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from command import ROOT
from files import replace

LISTED = re.compile(r"- file: book/(0?(\d+|[A-Z])_\w+)")
LINKS = re.compile(r"(?m)^\[1\]\(.*\)$")


def filled() -> dict[Path, str]:
    """README.md, with a link for every chapter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    colab = project["urls"]["Repository"].replace("github.com", "colab.research.google.com/github")
    listed = LISTED.findall((ROOT / "_toc.yml").read_text("utf-8"))
    links = " · ".join(f"[{n}]({colab}/blob/main/book/{name}.ipynb)" for name, n in listed)
    file = ROOT / "README.md"
    return {file: LINKS.sub(lambda _: links, file.read_text("utf-8"))}


if __name__ == "__main__":
    for file, text in filled().items():
        replace(file, text)
