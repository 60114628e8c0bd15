"""Files that are written whole or not at all, their sums, and templates that are filled in."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2

TOOLS = Path(__file__).parent


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to, which takes its place in the end; after an error or a kill
    the old file stands there as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def digest(file: Path) -> str:
    """The SHA-256 of a file, which is never whole in memory."""
    with file.open("rb") as held:
        return hashlib.file_digest(held, "sha256").hexdigest()


def replace(path: Path, content: str | bytes) -> None:
    """Write a whole file or leave the old one, which is not touched if it holds the same."""
    content = content.encode() if isinstance(content, str) else content
    if not path.is_file() or path.read_bytes() != content:
        with whole(path) as part:
            part.write_bytes(content)


def filled_in(template: str, **given: Any) -> str:
    """A template of this folder; a variable that it needs and does not get is an error."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TOOLS, TOOLS / "evidence"]),
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return templates.get_template(template).render(given)
