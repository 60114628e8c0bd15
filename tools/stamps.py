"""What was done need not be done again while all that it could read is as it was.

    given = stamps.digests(root, files) | ...  # facts, before anything is done
    stamps.keep(stamp, given, [made])          # when it is done
    stamps.holds(stamp, given, [made])         # True, until a fact or what was made changes

A stamp lies under `_build/` and is never committed: on a fresh clone everything runs. By hand, for
jupyter-cache recognises a notebook by its own cells, however the package has changed since.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import files

BUILT = ("_build", "build", "node_modules", "__pycache__")  # made here, and no source of anything


def below(folder: Path) -> list[Path]:
    """The files of a folder that are its own: nothing built, nothing hidden, no environment."""

    def counts(file: Path) -> bool:
        parts = file.relative_to(folder).parts
        return not any(part.startswith(".") or part in BUILT for part in parts)

    return [file for file in folder.rglob("*") if file.is_file() and counts(file)]


def digests(root: Path, places: Iterable[Path]) -> dict[str, str]:
    """Files by their place, with the sha256 of what they hold; what is not there is left out."""
    there = sorted(place for place in places if place.is_file())
    return {os.path.relpath(place, root): files.digest(place) for place in there}


def written(stamp: Path, facts: dict[str, Any], made: Iterable[Path]) -> bytes:
    return json.dumps([facts, digests(stamp.parent, made)], indent=1).encode()


def keep(stamp: Path, facts: dict[str, Any], made: Iterable[Path] = ()) -> None:
    """Write a stamp over facts and over the files that were made, whole or not at all."""
    files.replace(stamp, written(stamp, facts, made))


def holds(stamp: Path, facts: dict[str, Any], made: Iterable[Path] = ()) -> bool:
    """Whether a stamp is there, over these facts, and what was made lies there as it was."""
    return stamp.is_file() and stamp.read_bytes() == written(stamp, facts, made)
