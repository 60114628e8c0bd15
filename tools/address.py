"""The address of the repository: one place holds it, one command changes it everywhere.

    python tools/address.py                                        whether all places agree
    python tools/address.py https://github.com/an-owner/a-name     move to that address

`pyproject.toml` holds it, under [project.urls]. Readers meet it in many more places: the README,
the citation, the site's buttons, the first cell of every notebook. A move rewrites all of them. The
same command finishes one that was interrupted.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from command import ROOT, command
from files import replace

FILES = (
    "*.md", "*.cff", "*.yml", "chapters/**/*.py", "ctxlib/*.py", "book/**/*.md", "book/*.ipynb",
)  # fmt: skip
HOLDER = "pyproject.toml"
REPOSITORY = re.compile(r"https://github\.com/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+?)(?:\.git)?/?")
END = r"(?![\w-]|\.(?!git\b)\w)"  # of an address: no longer one that begins like it follows
# Words that only the book's own address follows: there it is held against `pyproject.toml`.
OWN = re.compile(
    r"(?:git clone |git\+|ctxlib @ (?!git)|repository-code: |repository_url: |^  url +=? *\{"
    r"|^ADDRESS = \"|^\[[\w.]+\]: |^(?:Homepage|Documentation|Issues|Changelog) = \""
    r"|(?=colab\.research\.google\.com/github/)|\*\*Online:\*\* <)([^\s\"'>)}\\]+)",
    re.MULTILINE,
)


def address(root: Path = ROOT) -> str:
    """What `pyproject.toml` says."""
    project = tomllib.loads((root / HOLDER).read_text(encoding="utf-8"))["project"]
    return project["urls"]["Repository"]


def forms(url: str) -> tuple[str, str, str]:
    """How an address is met: the repository, its notebooks in Colab, its pages.

    >>> forms("https://github.com/Ann/book")[1:]
    ('colab.research.google.com/github/Ann/book', 'https://ann.github.io/book')

    Raises ValueError for what is no address of a repository on GitHub.
    """
    named = REPOSITORY.fullmatch(url)
    if named is None:
        raise ValueError(
            f"{url!r} is no address of a repository: give one like https://github.com/owner/name"
        )
    owner, name = named.groups()
    return (
        f"https://github.com/{owner}/{name}",
        f"colab.research.google.com/github/{owner}/{name}",
        f"https://{owner.lower()}.github.io/{name}",
    )


def files(root: Path) -> list[Path]:
    """Where the address may stand; its holder comes last."""
    return [*(file for glob in FILES for file in sorted(root.glob(glob))), root / HOLDER]


def strays(root: Path = ROOT) -> list[str]:
    """The places that name another address than `pyproject.toml`, one line each."""
    ours = re.compile(f"(?:{'|'.join(map(re.escape, forms(address(root))))}){END}")
    return [
        f"{file.relative_to(root)}: {found[1]}"
        for file in files(root)
        for found in OWN.finditer(file.read_text(encoding="utf-8"))
        if not ours.match(found[1])
    ]


def move(url: str, root: Path = ROOT) -> list[Path]:
    """Write another address wherever the present one stands; returns the files that changed."""
    old, new = forms(address(root)), forms(url)
    clone, other = (f"cd {form[0].rpartition('/')[2]}\n" for form in (old, new))
    changed = []
    for file in files(root) if old != new else ():
        before = file.read_text(encoding="utf-8")
        after = before.replace(clone, other)
        for there, here in zip(old, new, strict=True):
            after = re.sub(re.escape(there) + END, here, after)
        if after != before:
            replace(file, after)
            changed.append(file)
    return changed


@command("address", status=1)
def main(argv: list[str] | None) -> None:
    changed = move(argv[0]) if argv else []
    for file in changed:
        print(file.relative_to(ROOT))
    if found := strays():
        raise ValueError("\n".join([f"pyproject.toml says {address()} but", *found]))
    print(f"{address()}, in every place")
    if changed:
        print("Next: make execute, for the first cells of the chapters are others.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
