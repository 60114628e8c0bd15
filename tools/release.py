"""Is this version ready to be released, and what does it bring?

    python tools/release.py [--tag v0.1.0]

Prints the release notes of the version, from CHANGELOG.md. Fails, one line each, where a place that
names the version says another, the dates differ, the notes are missing, or the tag is another.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

import yaml
from command import ROOT

VERSION = r"\d+\.\d+\.\d+"
ENTRY = re.compile(rf"^## \[({VERSION})\] - (\d{{4}}-\d\d-\d\d)$", re.MULTILINE)
SAID = rf"^  (?:version|note) +=? *\{{(?:Version |.*ctxlib )?({VERSION})"
PLACES = {  # where the version stands beside pyproject.toml
    "ctxlib/__init__.py": r'^__version__ = "(.*)"$',
    "CITATION.cff": r'^version: "(.*)"$',
    "CHANGELOG.md": rf"\A(?s:.*?)^## \[({VERSION})\]",  # the first entry
    "README.md": SAID,
    "book/citation.md": SAID,
}


def version(root: Path = ROOT) -> str:
    """What `pyproject.toml` says."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["version"]


def notes(version: str, root: Path = ROOT) -> str:
    """What CHANGELOG.md says of a version; empty where it says nothing."""
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entry = rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |^\[[\w.]+\]: |\Z)"
    return "".join(re.findall(entry, log, re.M | re.S)).strip()


def problems(tag: str | None = None, root: Path = ROOT) -> list[str]:
    """What keeps this version from being released, one line each."""
    now, found = version(root), []
    for name, place in PLACES.items():
        said = re.findall(place, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        wrong = [other for other in said or ["nothing"] if other != now]
        found += [f"{name} says {other}, pyproject.toml {now}" for other in wrong]
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["date-released"]
    entries = dict(ENTRY.findall((root / "CHANGELOG.md").read_text(encoding="utf-8")))
    if entries.get(now, str(cited)) != str(cited):
        found.append(f"the dates differ: CITATION.cff {cited}, CHANGELOG.md {entries[now]}")
    if not notes(now, root):
        found.append(f"CHANGELOG.md has nothing under [{now}]")
    if tag is not None and tag != f"v{now}":
        found.append(f"the tag is {tag}, and the version {now} calls for v{now}")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tag")
    if found := problems(parser.parse_args(argv).tag):
        print("\n".join(f"release: {line}" for line in found), file=sys.stderr)
        return 1
    print(notes(version()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
