"""Documents of files and of data sets, one after the other, each with the place where it begins, so
that reading can be resumed there.
"""

from __future__ import annotations

import hashlib
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from ctxlib.checks import check_kind

PLAIN = re.compile(r"\.txt(\.xz)?$")
ROWS = re.compile(r"\.(jsonl?(\.gz|\.zst)?|parquet)$")
NOT_ON_THE_HUB = re.compile(r"^[./~]|^[^:]*/(?:[^:]*/|$)|[\s\\]")  # where a data set is owner/name
MARK = b"<|endoftext|>"  # alone on a line, it stands between two documents
LONGEST = 2**20  # bytes of a file held at once: a longer document is cut at the end of a line
COLUMNS = ("text", "content", "document")  # where a data set keeps its texts; the first is usual
Documents = Iterator[tuple[str, Any]]  # each with where it begins
Found = tuple[str, list[tuple[str, Callable[[Any], Documents]]]]  # name; domains, their documents


def in_files(place: Path) -> Found:
    """Return the name and the documents of a file or folder: of each text file, or else of all
    files of rows, which are one data set.
    """
    files = sorted(filter(Path.is_file, place.iterdir())) if place.is_dir() else [place]
    plain, rows = ([file for file in files if kind.search(file.name)] for kind in (PLAIN, ROWS))
    if not (plain or rows):
        holds = "holds no" if place.is_dir() else "is not a"
        raise ValueError(
            f"{place} {holds} .txt or .txt.xz file, nor a .jsonl or .parquet file of rows"
        )
    name = ", ".join(f"{file.name} ({file.stat().st_size} bytes)" for file in plain or rows)
    if plain:
        return name, [(PLAIN.sub("", f.name), partial(file_documents, f)) for f in plain]
    kinds = {"parquet" if file.suffix == ".parquet" else "json" for file in rows}
    if len(kinds) > 1:
        raise ValueError(f"{place} holds .json and .parquet files: name one kind")
    arguments = {"path": kinds.pop(), "data_files": [str(file) for file in rows], "split": "train"}
    domain = ROWS.sub("", rows[0].name) if len(rows) == 1 else place.name
    return name, [(domain, partial(row_documents, rows[0].name, **arguments))]


def on_hub(name: str) -> Found:
    """Return the name and the documents of a data set on the hub."""
    if any(kind.search(name) for kind in (PLAIN, ROWS, NOT_ON_THE_HUB)):
        raise ValueError(f"there is no file or folder {name}")
    path, configuration, split, *more = [*name.split(":"), "", ""]
    if any(more):
        raise ValueError(f"data set {name}: write name:configuration:split")
    arguments = {"path": path, "name": configuration or None, "split": split or "train"}
    return name, [(path.rpartition("/")[2], partial(row_documents, name, **arguments))]


def file_documents(file: Path, begin: int | None = None) -> Documents:
    """Yield the documents of a file from the byte `begin` on, each with the byte at which it
    begins; a long document in pieces of whole lines. At most `LONGEST` bytes, or one line, are in
    memory.
    """
    held, begin, empty = bytearray(), begin or 0, not begin
    damaged = refusing(f"{file.name} is not a whole .xz file: ", (lzma.LZMAError, EOFError))
    with damaged, lzma.open(file) if file.suffix == ".xz" else file.open("rb") as raw:
        raw.seek(begin)
        for line in chain(raw, [MARK]):
            mark = line.rstrip(b"\r\n") == MARK
            empty = empty and (line is MARK or not line.strip())
            if mark or len(held) + len(line) > LONGEST:
                try:
                    text = held.decode("utf-8").removeprefix("\ufeff").strip("\r\n")
                except UnicodeDecodeError as error:
                    first = begin + error.start
                    raise ValueError(
                        f"{file.name} is not UTF-8 (byte {first}); convert it first"
                    ) from error
                if text:
                    yield text, begin
                begin, held = begin + len(held), bytearray()
            if mark:
                begin += len(line)
            else:
                held += line
    if empty:
        raise ValueError(f"{file.name} is empty")


def row_documents(source: str, begin: Any = None, /, **arguments: Any) -> Documents:
    """Yield the documents of a data set, given as to `datasets.load_dataset`, each with the state
    in which its row is the next; rows without text are skipped. A line says so before anything is
    downloaded.
    """
    from datasets import load_dataset  # slow to import, and most readers never need it

    if "data_files" not in arguments:
        notice = f"no file or folder {source}: streaming the data set from the Hugging Face hub"
        print(notice, flush=True)
    advice = "name a .txt file or a folder of them, or leave CTX_TEXTS unset"
    unknown = f"{source} is neither a file, nor a folder, nor a data set that can be reached"
    with refusing(f"{unknown}; {advice}: "):
        rows = load_dataset(**arguments, streaming=True)
    if begin is not None:
        rows.load_state_dict(begin)
    found = iter(rows)
    for done in count():
        state = rows.state_dict()
        with refusing(f"data set {source}: no row after {done} more: "):
            row = next(found, None)
        if row is None:
            return
        columns = [column for column in COLUMNS if column in row]
        if "text" not in columns and len(columns) != 1:
            raise ValueError(
                f"data set {source} has no column 'text', nor 'content' or 'document' alone; "
                f"it has {', '.join(row)}"
            )
        text = row[columns[0]]
        if not isinstance(text, str | None):
            raise ValueError(f"data set {source}: {columns[0]} is not a column of texts")
        if text:
            yield text, state


def document_hash(document: str) -> str:
    """Return the first 16 digits of the SHA-256 of a whole document.

    >>> cx.texts.document_hash("the moon")
    '7bcd0f182d906d8e'
    """
    return hashlib.sha256(check_kind(document, "a string").encode()).hexdigest()[:16]


@contextmanager
def refusing(said: str, errors: Any = Exception) -> Iterator[None]:
    """Turn a library's errors into one ValueError, with its message after `said`."""
    try:
        yield
    except errors as error:
        raise ValueError(said + str(error)) from error
