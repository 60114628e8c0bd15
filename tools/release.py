"""Is this version ready to be released, and what does it bring?

    python tools/release.py [--tag v0.1.0]

Prints the release notes of the version, from CHANGELOG.md. Fails, one line each, where the places
that name the version do not agree, the notes are missing, or the tag is another.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
ENTRY = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
SAID = r"^  (?:version|note) +=? *\{(?:Version |.*ctxlib )?(\d+\.\d+\.\d+)"
PLACES = {  # where the version stands; in CHANGELOG.md it is that of the first entry
    "pyproject.toml": r'\A(?s:.*?)^version = "(.*)"$',
    "ctxlib/__init__.py": r'^__version__ = "(.*)"$',
    "CITATION.cff": r'^version: "(.*)"$',
    "CHANGELOG.md": r"\A(?s:.*?)^## \[(\d+\.\d+\.\d+)\]",
    "README.md": SAID,
    "book/citation.md": SAID,
}


def versions(root: Path = ROOT) -> list[tuple[str, str]]:
    """The places that name the version, each with what it says; the first is `pyproject.toml`."""
    found = []
    for name, place in PLACES.items():
        said = re.findall(place, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        found += [(name, version) for version in said or ["nothing"]]
    return found


def notes(version: str, root: Path = ROOT) -> str:
    """What CHANGELOG.md says of a version; empty where it says nothing."""
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entry = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |^\[[\w.]+\]: |\Z)", log, re.M | re.S
    )
    return entry[1].strip() if entry else ""


def problems(tag: str | None = None, root: Path = ROOT) -> list[str]:
    """What keeps this version from being released, one line each."""
    (_, version), *others = versions(root)
    found = [
        f"{place} says {said}, pyproject.toml {version}"
        for place, said in others
        if said != version
    ]
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["date-released"]
    entries = dict(ENTRY.findall((root / "CHANGELOG.md").read_text(encoding="utf-8")))
    if entries.get(version, str(cited)) != str(cited):
        found.append(f"the dates differ: CITATION.cff {cited}, CHANGELOG.md {entries[version]}")
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
    print(notes(versions()[0][1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
