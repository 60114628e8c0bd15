"""Where texts come from: the book's passages, held-out documents of many domains, and your own
files and data sets.
"""

from __future__ import annotations

import json
import lzma
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from ctxlib.files import DATA
from ctxlib.texts.documents import PLAIN, Documents, document_hash, file_documents, in_files, on_hub
from ctxlib.texts.streams import START, Spot, Spotted, Stream
from ctxlib.texts.text import Reader, Text, all_tokens, windows
from ctxlib.texts.vocabulary import vocab_fingerprint

PASSAGES = DATA / "passages"
HELD_OUT = DATA / "texts"
HALVES = ("A", "B")


# ---------------------------------------------------------------- the passages of this book


def passages(reader: Any, domains: Sequence[str] | None = None) -> list[Text]:
    """Return the labelled passages written for this book, each cut to the reader's context.

    `reader` is a model, weights, a fixed query, or a `Reader` for shorter texts; `domains` chooses
    and orders them. Raises ValueError for a domain that is not there.

    >>> texts = cx.texts.passages(weights, domains=["law", "travel"])
    >>> [text.name for text in texts]
    ['law-1', 'law-2', 'law-3', 'law-4', 'travel-1', 'travel-2', 'travel-3', 'travel-4']
    """
    reader = Reader.of(reader)
    files: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(PASSAGES.glob("*.txt")):
        files[file.stem.rpartition("-")[0]].append(file)
    wanted = [domains] if isinstance(domains, str) else list(files if domains is None else domains)
    if unknown := [domain for domain in wanted if domain not in files]:
        raise ValueError(f"no passages for {', '.join(unknown)}; there are {', '.join(files)}")
    return [read_passage(reader, file) for domain in wanted for file in files[domain]]


def read_passage(reader: Reader, file: Path) -> Text:
    """Read a file with a head of domain, dialect and subject, a blank line, and the text."""
    head, _, body = file.read_text("utf-8").partition("\n\n")
    facts, source = dict(line.split(": ", 1) for line in head.splitlines()), body.strip("\n")
    tokens = torch.tensor(all_tokens(reader, source)[: reader.n_ctx])  # most overfill it
    return Text(
        file.stem,
        **facts,
        source=source,
        tokens=tokens,
        document=document_hash(source),
        vocabulary=vocab_fingerprint(reader.tokenizer),
    )


# ---------------------------------------------------------------- many texts, for measurements


def collection(
    reader: Any,
    count: int | None = None,
    source: str | os.PathLike | None = None,
    half: str | None = None,
) -> list[Text]:
    """Return `count` texts to measure on, all of `stream` as a list, for up to some ten thousand.

    >>> texts = cx.texts.collection(weights, count=3)
    >>> [text.name for text in texts], len(texts[0].tokens)
    (['astronomy-01.1', 'bible-kjv-01.1', 'biology-medicine-01.1'], 512)
    >>> chosen_on, judged_on = (cx.texts.collection(weights, half=half) for half in "AB")
    >>> {text.document for text in chosen_on} & {text.document for text in judged_on}
    set()
    """
    return list(stream(reader, count, source, half))


def stream(
    reader: Any,
    count: int | None = None,
    source: str | os.PathLike | None = None,
    half: str | None = None,
) -> Stream:
    """Return `count` texts to measure on, read as they are needed: a million take no more memory
    than one. Every loop over them starts again and gives the same texts in the same order.

    `source`, by default what the environment variable CTX_TEXTS names, is one of

    - a .txt or .txt.xz file or a folder of them: one domain each, documents separated by a line
      that holds only `<|endoftext|>`; files take turns;
    - a .jsonl, .json or .parquet file, also .gz or .zst, or a folder of them: a document a row, in
      the column `text`, or else the only one of `content` and `document`;
    - a data set on the Hugging Face hub with such a column: `name`, `name:configuration` or
      `name:configuration:split` (by default train), such as `Skylion007/openwebtext`,
      `monology/pile-uncopyrighted` or `allenai/c4:en`.

    Each document gives as many texts of the reader's whole context as it holds. `count` is 1000 if
    it is not given.

    Without a source these are the book's held-out texts: real documents of 22 domains that take
    turns, 1000 texts that each begin with the 511 tokens of a window in the vocabulary of `mini`.
    'astronomy-03.2' is the second window of the third document; `subject` is the document's first
    line, and for python its file. `count` is all of them if it is not given. For a model with
    another vocabulary they are encoded anew and have other lengths, so choose a query position
    inside the shortest.

    `half` leaves only the documents of half A or B: choose on one and judge on the other. It is
    stored for the book's texts, whose documents are chapters, sections, recipes, files, or pieces
    of long ones, so both halves may hold pieces of one book; of another source the hash of a
    document decides, and one of lines that is longer than 2^20 bytes in a .txt file counts as
    several.

    Raises ValueError for a source that is none of these, for a half that is neither A nor B, for a
    count above that of the held-out texts and, after its last text, for another source that holds
    fewer than `count`.

    >>> texts = cx.texts.stream(weights, count=3, half="B")
    >>> len(texts), [text.name for text in texts]
    (3, ['astronomy-02.1', 'bible-kjv-02.1', 'biology-medicine-02.1'])
    """
    if half not in (None, *HALVES):
        raise ValueError(f"half={half!r}: choose 'A', 'B', or None for both")
    source = source or os.environ.get("CTX_TEXTS")
    if not source:
        return held_out_stream(reader, count, half)
    reader = Reader.of(reader)
    count = 1000 if count is None else count
    if count < 1:
        raise ValueError(f"count={count}: ask for at least one text")
    place = Path(source).expanduser()
    name, found = in_files(place) if place.exists() else on_hub(str(source))
    sources = [partial(document_texts, reader, *each) for each in found]
    return Stream(reader, count, name, sources, half)


def labeled(reader: Any, folder: str | os.PathLike) -> list[Text]:
    """Return all .txt files in a folder and its subfolders, in windows as long as the reader's
    context. The label of a text, its domain, is the path of its subfolder ("news/sport"), or the
    name of a file that lies in the folder itself; texts of one label are numbered through.

    Raises ValueError for a folder without such files, and if none of them fills a window.

    >>> texts = cx.texts.labeled(cx.texts.Reader.of(model, 64), cx.texts.PASSAGES)
    >>> len(texts) > 300, texts[0].domain
    (True, 'american-1')
    """
    reader, numbers = Reader.of(reader), Counter[str]()
    place, found = Path(folder).expanduser(), list[Text]()
    if not str(folder) or not place.is_dir():
        raise ValueError(f"{str(folder)!r} is no folder: name one that holds .txt files")
    files = sorted(file for file in place.rglob("*.txt*") if PLAIN.search(file.name))
    if not files:
        raise ValueError(f"{place} holds no .txt file, nor has it a subfolder with one")
    for file in files:
        inside = file.parent.relative_to(place).as_posix()
        domain = PLAIN.sub("", file.name) if inside == "." else inside
        spot = (None, 0, numbers[domain])
        read = document_texts(reader, domain, partial(file_documents, file), spot)
        found += (texts := [text for text, _ in read])
        numbers[domain] += len(texts)
    if not found:
        raise ValueError(f"no file in {place} has the {reader.n_ctx} tokens of a text")
    return found


def document_texts(
    reader: Reader, domain: str, documents: Callable[[Any], Documents], spot: Spot = START
) -> Spotted:
    """Yield the whole texts that each document fills, numbered through, from the spot on."""
    begin, before, number = spot
    for source, where in documents(begin):
        digest = document_hash(source)
        half = HALVES[int(digest[-1], 16) % 2]
        for place, tokens in enumerate(windows(reader, source)[before:], before):
            what = f"{domain}-{number:04d}", domain, "", ""
            words = reader.tokenizer.decode(tokens[1:].tolist())
            of = digest, half, vocab_fingerprint(reader.tokenizer)
            yield Text(*what, words, tokens, *of), (where, place, number)
            number += 1
        before = 0


# ---------------------------------------------------------------- the held-out texts


def held_out_index() -> dict[str, Any]:
    """Return what is known of the held-out texts: how they were chosen and checked, and by domain
    the dialect, the sources and the documents.
    """
    return json.loads((HELD_OUT / "index.json").read_text(encoding="utf-8"))


def held_out_stream(reader: Any, count: int | None = None, half: str | None = None) -> Stream:
    """Return the book's held-out texts as a stream, whatever CTX_TEXTS names.

    >>> next(iter(cx.texts.held_out_stream(weights))).name
    'astronomy-01.1'
    """
    reader = Reader.of(reader)
    domains = held_out_index()["domains"]
    documents = [document for facts in domains.values() for document in facts["documents"]]
    there = sum(document["texts"] for document in documents if half in (None, document["half"]))
    if count is not None and not 1 <= count <= there:
        of_half = f" of half {half}" if half else ""
        raise ValueError(f"count={count}: there are {there} held-out texts{of_half}")
    sources = [partial(held_out, reader, *item) for item in domains.items()]
    return Stream(reader, count or there, "the held-out texts", sources, half)


def held_out(reader: Reader, domain: str, facts: dict[str, Any], spot: Spot = START) -> Spotted:
    """Yield the held-out texts of one domain, in the reader's vocabulary."""
    _, _, begin = spot
    with lzma.open(HELD_OUT / f"{domain}.jsonl.xz") as file:
        rows = [json.loads(line) for line in islice(file, begin, None)]
    for number, row in enumerate(rows, begin):
        document, source = facts["documents"][row["document"] - 1], row["text"]
        name = f"{domain}-{row['document']:02d}.{row['window']}"
        what = name, domain, facts["dialect"], document["title"], source
        tokens = torch.tensor(all_tokens(reader, source)[: reader.n_ctx])
        of = document["sha256"], document["half"], vocab_fingerprint(reader.tokenizer)
        yield Text(*what, tokens, *of), (None, 0, number)
