"""What was done need not be done again while all that it read is as it was.

    with stamps.watched(root) as (environment, reads):
        subprocess.run(command, env=environment)  # and all that it starts
    stamps.keep(stamp, root, reads(), facts)
    stamps.holds(stamp, root, facts)  # True, until one of those files changes

A stamp lies under `_build/` and is never committed: on a fresh clone everything runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from files import replace

WATCH = Path(__file__).resolve().parent / "watch"
BUILT = ("_build", "build", "node_modules", "__pycache__")  # made here, and no source of anything


@contextmanager
def watched(root: Path) -> Iterator[tuple[dict[str, str], Callable[[], set[Path]]]]:
    """An environment in which Python notes what it reads under `root`, and a function that says
    what that was so far: files, and folders whose names were listed.
    """
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        log = Path(folder) / "reads"
        path = os.pathsep.join([str(WATCH), str(root)])
        told = {"PYTHONPATH": path, "BOOK_ROOT": str(root), "BOOK_READS": str(log)}

        def reads() -> set[Path]:
            lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
            return {place for line in lines if counts(place := Path(line.split("\t")[1]), root)}

        yield os.environ | told, reads


def counts(place: Path, root: Path) -> bool:
    """Whether a place is the repository's own: nothing built, nothing hidden, no environment."""
    parts = place.relative_to(root).parts
    return not any(part.startswith(".") or part in BUILT for part in parts)


def digest(place: Path) -> str | None:
    """The sha256 of a file, of the names in a folder, or None for what is not there."""
    if place.is_dir():
        names = [p.name for p in place.iterdir() if counts(p, place) and p.suffix != ".part"]
        content = "\n".join(sorted(names)).encode()
    elif place.is_file():
        content = place.read_bytes()
    else:
        return None
    return hashlib.sha256(content).hexdigest()


def keep(
    stamp: Path,
    root: Path,
    reads: Collection[Path],
    facts: dict[str, Any],
    *,
    made: Iterable[Path] = (),
    since: float | None = None,
) -> bool:
    """Write a stamp over what was read and what was made of it, whole or not at all. False, and no
    stamp, where a file that was read has changed `since` the run began: nobody knows in which of
    its states it was read.
    """
    for place in reads:
        if since is not None and place.is_file() and place.stat().st_mtime > since:
            stamp.unlink(missing_ok=True)
            return False
    places = sorted({*reads, *made})
    read = {os.path.relpath(place, root): digest(place) for place in places}
    replace(stamp, json.dumps({"facts": facts, "read": read}, indent=1))
    return True


def holds(stamp: Path, root: Path, facts: dict[str, Any]) -> bool:
    """Whether a stamp is there, its facts are these, and all that was read is as it was."""
    try:
        kept = json.loads(stamp.read_text(encoding="utf-8"))
        same = kept["facts"] == facts
        return same and all(digest(root / name) == was for name, was in kept["read"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
