"""What was done need not be done again while all that it read is as it was.

    with stamps.watched(root) as (environment, keep):
        subprocess.run(command, env=environment)  # a kernel, or what starts one
        keep(stamp, facts)
    stamps.holds(stamp, root, facts)  # True, until one of the files that it read changes

A stamp lies under `_build/` and is never committed: on a fresh clone everything runs. By hand, for
jupyter-cache knows a notebook again by its own cells, whatever the package says by now.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

import files

WATCH = Path(__file__).resolve().parent / "watch.py"
BUILT = ("_build", "build", "node_modules", "__pycache__")  # made here, and no source of anything


@contextmanager
def watched(root: Path) -> Iterator[tuple[dict[str, str], Callable[..., bool]]]:
    """An environment in which a kernel notes what it reads under `root`, files, and folders whose
    names were listed; and a function that keeps a stamp over this, the facts and what was made.
    False, and no stamp, where a file that was read has changed meanwhile: nobody knows in which of
    its states it was read.
    """
    since = time.time()
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        log = Path(folder) / "reads"
        log.touch()
        told = {"PYTHONPATH": str(root), "PYTHONSTARTUP": str(WATCH)}
        told |= {"BOOK_ROOT": str(root), "BOOK_READS": str(log)}

        def keep_stamp(stamp: Path, facts: dict[str, Any], *made: Path) -> bool:
            noted = set(map(source, log.read_text(encoding="utf-8").splitlines()))
            read = {place for place in noted if counts(place, root)} - {*made}
            if any(place.is_file() and place.stat().st_mtime > since for place in read):
                return False
            keep(stamp, root, facts, {*read, *made})
            return True

        yield os.environ | told, keep_stamp


def source(path: str) -> Path:
    """What is compiled is held against its source."""
    with suppress(ValueError):  # it is no compiled file
        path = source_from_cache(path)
    return Path(path)


def counts(place: Path, root: Path) -> bool:
    """Whether a place is the repository's own: nothing built, nothing hidden, no environment."""
    parts = place.relative_to(root).parts
    return not any(part.startswith(".") or part in BUILT for part in parts)


def digest(place: Path) -> str | None:
    """The sha256 of a file, of the names in a folder, or None for what is not there."""
    if place.is_dir():
        names = [p.name for p in place.iterdir() if counts(p, place) and p.suffix != ".part"]
        return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
    return files.digest(place) if place.is_file() else None


def keep(stamp: Path, root: Path, facts: dict[str, Any], places: Iterable[Path]) -> None:
    """Write a stamp over facts, files and folders, whole or not at all."""
    read = {os.path.relpath(place, root): digest(place) for place in sorted(places)}
    files.replace(stamp, json.dumps({"facts": facts, "read": read}, indent=1))


def holds(stamp: Path, root: Path, facts: dict[str, Any]) -> bool:
    """Whether a stamp is there, its facts are these, and all that was read is as it was."""
    try:
        kept = json.loads(stamp.read_text(encoding="utf-8"))
        same = kept["facts"] == facts
        return same and all(digest(root / name) == was for name, was in kept["read"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
