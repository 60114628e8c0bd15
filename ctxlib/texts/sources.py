"""Where texts come from: the book's passages, held-out documents of many domains, and your own
files and data sets.
"""

from __future__ import annotations

import json
import lzma
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ctxlib.checks import as_index, as_path, check_kind
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
    several = files if domains is None else check_kind(domains, "a list")
    wanted = [domains] if isinstance(domains, str) else list(several)
    if unknown := [domain for domain in wanted if domain not in files]:
        raise ValueError(f"no passages for {', '.join(unknown)}; there are {', '.join(files)}")
    return [read_passage(reader, file) for domain in wanted for file in files[domain]]


def read_passage(reader: Reader, file: Path) -> Text:
    """Read a file with a head of domain, dialect and subject, a blank line, and the text."""
    head, _, body = file.read_text("utf-8").partition("\n\n")
    facts, source = dict(line.split(": ", 1) for line in head.splitlines()), body.strip("\n")
    return text_of(reader, source, name=file.stem, document=document_hash(source), **facts)


def text_of(
    reader: Reader, source: str, tokens: Int[Tensor, " pos"] | None = None, /, **facts: Any
) -> Text:
    """Return a labelled text in the reader's vocabulary, by default its beginning, as much of it as
    the reader's context holds.
    """
    tokens = torch.tensor(all_tokens(reader, source)[: reader.n_ctx]) if tokens is None else tokens
    facts |= {"vocabulary": vocab_fingerprint(reader.tokenizer)}
    known = dict.fromkeys(("domain", "dialect", "subject"), "") | facts
    return Text(source=source, tokens=tokens, **known)


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
    of long ones, so both halves may hold pieces of one book. Of another source the hash of a
    document decides; a document of more than 2^20 bytes in a .txt file is split at line ends, and
    each piece counts as one.

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
    if as_index("count", count) < 1:
        raise ValueError(f"count={count}: ask for at least one text")
    place = as_path(source)
    name, found = in_files(place) if place.exists() else on_hub(str(source))
    sources = [partial(document_texts, reader, *each) for each in found]
    return Stream(reader, count, name, sources, half)


def labeled(reader: Any, folder: str | os.PathLike) -> list[Text]:
    """Return all .txt files in a folder and its subfolders, in windows as long as the reader's
    context. The label of a text, its domain, is the path of its subfolder, or the name of a file
    that lies in no subfolder. `halved` says which texts are in half A and which in half B.

    Raises ValueError for a folder without such files, and if none of them fills a window.

    >>> texts = cx.texts.labeled(cx.texts.Reader.of(model, 64), cx.texts.PASSAGES)
    >>> len(texts) > 300, texts[0].domain, texts[0].name
    (True, 'american-1', 'american-1.1')
    """
    reader, place, found = Reader.of(reader), as_path(folder), list[Text]()
    for label, files in labeled_files(folder).items():
        for file in files:
            path = PLAIN.sub("", file.relative_to(place).as_posix())
            texts = document_texts(reader, label, partial(file_documents, file))
            found += [replace(text, name=f"{path}.{k}") for k, (text, _) in enumerate(texts, 1)]
    if not found:
        raise ValueError(f"no file in {folder} has the {reader.n_ctx} tokens of a text")
    return halved(found)


def labeled_files(folder: str | os.PathLike) -> dict[str, list[Path]]:
    """Return the .txt files of each label. Raises ValueError for a folder without such files.

    >>> from ctxlib.texts.sources import labeled_files
    >>> [file.name for file in labeled_files(cx.texts.PASSAGES)["american-1"]]
    ['american-1.txt']
    """
    place = as_path(folder)
    if not str(folder) or not place.is_dir():
        raise ValueError(f"{str(folder)!r} is no folder: name one that holds .txt files")
    found: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(filter(Path.is_file, place.rglob("*.txt*"))):
        if PLAIN.search(file.name):
            inside = file.relative_to(place).parent.as_posix()
            found[PLAIN.sub("", file.name) if inside == "." else inside].append(file)
    if not found:
        raise ValueError(f"{place} holds no .txt file, nor has it a subfolder with one")
    return dict(found)


def halved(texts: Sequence[Text]) -> list[Text]:
    """Return labelled texts with halves in which every label has its share: of each label the
    longest document is in half A, and each further one in the half that has fewer of its texts. A
    document is in one half, whatever its labels, unless its label has no other: then its first
    texts are in half A and the others, if there are any, in half B.

    >>> from ctxlib.texts.sources import halved
    >>> texts = halved(cx.texts.passages(weights, domains=["law", "travel"]))
    >>> sorted((text.domain, text.half) for text in texts)[:4]
    [('law', 'A'), ('law', 'A'), ('law', 'B'), ('law', 'B')]
    """
    by_label: dict[str, dict[str, list[Text]]] = defaultdict(lambda: defaultdict(list))
    for text in texts:
        by_label[text.domain][text.document].append(text)
    half_of: dict[str, str] = {}  # a document may have several labels
    found: dict[Text, str] = {}
    for documents in by_label.values():
        share = dict.fromkeys(HALVES, 0)
        for document, own in sorted(documents.items(), key=lambda item: (-len(item[1]), item[0])):
            half = half_of.setdefault(document, min(HALVES, key=share.__getitem__))
            share[half] += len(own)
            for k, text in enumerate(own):
                found[text] = half if len(documents) > 1 else HALVES[2 * k >= len(own)]
    return [replace(text, half=found[text]) for text in texts]


def document_texts(
    reader: Reader, domain: str, documents: Callable[[Any], Documents], spot: Spot = START
) -> Spotted:
    """Yield the whole texts that each document fills, numbered through, from the spot on."""
    begin, before, number = spot
    for source, where in documents(begin):
        digest = document_hash(source)
        of = {"domain": domain, "document": digest, "half": HALVES[int(digest[-1], 16) % 2]}
        for place, tokens in enumerate(windows(reader, source)[before:], before):
            words, name = reader.tokenizer.decode(tokens[1:].tolist()), f"{domain}-{number:04d}"
            yield text_of(reader, words, tokens, name=name, **of), (where, place, number)
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
    if count is not None and not 1 <= as_index("count", count) <= there:
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
        document = facts["documents"][row["document"] - 1]
        name = f"{domain}-{row['document']:02d}.{row['window']}"
        of = {"domain": domain, "dialect": facts["dialect"], "subject": document["title"]}
        of |= {"document": document["sha256"], "half": document["half"]}
        yield text_of(reader, row["text"], name=name, **of), (None, 0, number)
