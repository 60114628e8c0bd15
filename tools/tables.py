"""The tables of chapters, in README.md and on the title page, as `_toc.yml` lists the chapters and
as their titles describe: `make execute` writes them.
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
    """Both files, with a line in their tables for every chapter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    colab = project["urls"]["Repository"].replace("github.com", "colab.research.google.com/github")
    readme = front = ""
    for name, number in LISTED.findall((ROOT / "_toc.yml").read_text("utf-8")):
        title = re.findall(r'"""\n# (.*)', (ROOT / f"chapters/{name}.py").read_text("utf-8"))[0]
        readme += f"| {number} | {title} | [open]({colab}/blob/main/book/{name}.ipynb) |\n"
        kind = "Chapter" if number.isdigit() else "Appendix"
        front += f"| [{kind} {number}]({name}) | {title} |\n"
    made = {}
    for file, lines in ((ROOT / "README.md", readme), (ROOT / "chapters" / "00_welcome.py", front)):
        lines = lines.replace("\\", r"\\")  # nothing in it is a reference
        made[file] = TABLE.sub(rf"\1{lines}", file.read_text("utf-8"))
    return made


if __name__ == "__main__":
    for file, text in filled().items():
        replace(file, text)
