"""What follows from other files, which `make execute` brings up to date: the links of README.md
that open each chapter in Colab, as `_toc.yml` lists them, and the sums of kept results, by which an
installed package knows those that it fetches.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from command import ROOT
from files import digest, replace

LISTED = re.compile(r"- file: book/(0?(\d+|[A-Z])_\w+)")
LINKS = re.compile(r"(?m)^\[1\]\(.*\)$")


def filled() -> dict[Path, str]:
    """README.md with a link for every chapter, and the sums."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    colab = project["urls"]["Repository"].replace("github.com", "colab.research.google.com/github")
    listed = LISTED.findall((ROOT / "_toc.yml").read_text("utf-8"))
    links = " · ".join(f"[{n}]({colab}/blob/main/book/{name}.ipynb)" for name, n in listed)
    file = ROOT / "README.md"
    kept = {kept.name: digest(kept) for kept in sorted((ROOT / "data" / "evidence").iterdir())}
    sums = ROOT / "ctxbook" / "data" / "evidence.json"
    return {
        file: LINKS.sub(lambda _: links, file.read_text("utf-8")),
        sums: json.dumps(kept, indent=1) + "\n",
    }


if __name__ == "__main__":
    for file, text in filled().items():
        replace(file, text)
