"""Move the repository: `make address URL=https://github.com/owner/name`.

`pyproject.toml` has the repository's address. Notebooks, README and citations are read where
nothing could look that up, so each of them names it too, and here it is replaced in all of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

from command import ROOT, command

GITHUB = re.compile(r"https://github\.com/([\w-]+)/([\w.-]+?)(?:\.git)?/?")


def forms(url: str) -> tuple[str, str, str, str]:
    """Return what files say of a repository: its address, its notebooks in Colab, its pages, and
    the line that enters a clone. Raises ValueError for what is no repository on GitHub.
    """
    found = GITHUB.fullmatch(url)
    if not found:
        raise ValueError(f'"{url}" is no repository: give one like https://github.com/owner/name')
    owner, name = found.groups()
    colab = f"https://colab.research.google.com/github/{owner}/{name}"
    pages = f"https://{owner.lower()}.github.io/{name}"
    return f"https://github.com/{owner}/{name}", colab, pages, f"\ncd {name}"


@command("address")
def main(argv: list[str] | None = None) -> None:
    (url,) = sys.argv[1:] if argv is None else argv
    now, project = forms(url), (ROOT / "pyproject.toml").read_text("utf-8")
    was = forms(tomllib.loads(project)["project"]["urls"]["Repository"])
    listed = ["git", "grep", "-lI", "--untracked", "github"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    # pyproject.toml comes last: an interrupted move is ended by the same command
    for name in sorted(names.splitlines(), key="pyproject.toml".__eq__):
        text = (ROOT / name).read_text("utf-8")
        for old, new in zip(was, now, strict=True):  # and nothing whose name goes on
            text = re.sub(re.escape(old) + r"(?![\w-]|\.(?!git\b)\w)", new, text)
        (ROOT / name).write_text(text, "utf-8")
    print(f"{now[0]}, in every file. Next: make execute, as the chapters' first cells have changed")


if __name__ == "__main__":
    sys.exit(main())
