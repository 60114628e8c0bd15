"""Is this version ready to be released, and what does it bring?

    python tools/release.py [--tag v0.1.0]

Prints the release notes of the version, from CHANGELOG.md. Fails, one line each, where the places
that name the version do not agree, the notes are missing, or the tag is another.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ("README.md", "book/citation.md")
SAID = re.compile(
    r"^  (?:version|note) +=? *\{(?:Version |.*ctxlib )?(\d+\.\d+\.\d+)", re.MULTILINE
)
ENTRY = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


def versions(root: Path = ROOT) -> dict[str, str]:
    """The version, by the place that names it."""

    def text(name: str) -> str:
        return (root / name).read_text(encoding="utf-8")

    cited = yaml.safe_load(text("CITATION.cff"))
    found = {
        "pyproject.toml": tomllib.loads(text("pyproject.toml"))["project"]["version"],
        "CITATION.cff": cited["version"],
        "CHANGELOG.md": next(iter(ENTRY.findall(text("CHANGELOG.md"))), ("no entry", ""))[0],
    }
    in_code = re.search(r'^__version__ = "(.*)"$', text("ctxlib/__init__.py"), re.MULTILINE)
    if in_code:
        found["ctxlib.__version__"] = in_code[1]
    for name in TEXTS:
        for count, version in enumerate(SAID.findall(text(name)), start=1):
            found[f"{name}, entry {count}"] = version
    return found


def dates(root: Path = ROOT) -> dict[str, str]:
    """The day of the release, by the place that names it."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    entries = ENTRY.findall((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    return {
        "CITATION.cff": str(cited["date-released"]),
        "CHANGELOG.md": entries[0][1] if entries else "no entry",
    }


def notes(version: str, root: Path = ROOT) -> str:
    """What CHANGELOG.md says of a version; empty where it says nothing."""
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entry = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |^\[[\w.]+\]: |\Z)", log, re.M | re.S
    )
    return entry[1].strip() if entry else ""


def problems(tag: str | None = None, root: Path = ROOT) -> list[str]:
    """What keeps this version from being released, one line each."""
    named = versions(root)
    version = named["pyproject.toml"]
    found = [
        f"{place} says {said}, pyproject.toml {version}"
        for place, said in named.items()
        if said != version
    ]
    if len(set(dates(root).values())) > 1:
        found.append("the dates differ: " + ", ".join(f"{k} {v}" for k, v in dates(root).items()))
    if not notes(version, root):
        found.append(f"CHANGELOG.md has nothing under [{version}]")
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, and the version {version} calls for v{version}")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tag")
    args = parser.parse_args(argv)
    if found := problems(args.tag):
        print("\n".join(f"release: {line}" for line in found), file=sys.stderr)
        return 1
    print(notes(versions()["pyproject.toml"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
