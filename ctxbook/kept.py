"""Evidence: results from real models and training runs, kept so that a page can show them without
running any. It lies in `data/evidence` of the repository and in no wheel.
"""

from __future__ import annotations

import json
from pathlib import Path

from ctxlib.files import CLONE, repository_file

DATA = Path(__file__).parent / "data"  #: tables of the book: published figures, spellings, style
EVIDENCE = CLONE / "data" / "evidence"


def evidence(name: str) -> Path:
    """Return the path of a kept file: in a clone its own, elsewhere fetched from the repository the
    first time and compared with its sum.

    Raises OSError if the repository is out of reach, ValueError for a damaged file.

    >>> cb.evidence("british.json").name
    'british.json'
    """
    if EVIDENCE.is_dir():
        return EVIDENCE / name
    return repository_file(f"data/evidence/{name}", sums()[name])


def sums() -> dict[str, str]:
    """Return the SHA-256 of every kept file, by name."""
    return json.loads((DATA / "evidence.json").read_text(encoding="utf-8"))
