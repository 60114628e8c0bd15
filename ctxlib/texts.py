"""Labelled, tokenised texts:
the book's own passages, held-out documents of many domains, and anybody's files.

A text is a 1-D tensor of token ids that starts with BOS;
a `Text` carries it together with what it is.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from ctxlib.models import DATA
from ctxlib.split import check_position, check_tokens
from ctxlib.weights import LayerWeights

T = TypeVar("T")
BATCH = 64  # texts at a time: bounds the memory, changes no result
PASSAGES = DATA / "passages"
HELD_OUT = DATA / "texts"
PLAIN = re.compile(r"\.txt(\.xz)?$")
ROWS = re.compile(r"\.(jsonl?(\.gz|\.zst)?|parquet)$")
NOT_ON_THE_HUB = re.compile(r"^[./~]|^[^:]*/(?:[^:]*/|$)|[\s\\]")  # where a data set is owner/name
BETWEEN_DOCUMENTS = re.compile(rb"<\|endoftext\|>\r?\n?")  # a line that holds only the mark
LONGEST = 2**20  # bytes of a file held at once: a longer document is cut at the end of a line
HALVES = ("A", "B")
COLUMNS = ("text", "content", "document")  # where a data set keeps its texts; the first is usual


@dataclass(frozen=True, eq=False)  # a text is itself; tensors have no truth value
class Text:
    """One labelled text.

    `dialect` is en-GB, en-US, en (mixed, or not known), es, fr, de or python; `tokens` starts with
    BOS. `document` says which document it is from, by its hash: texts of one document are not
    independent of each other. `half` is the half, A or B, that all of this document belongs to;
    passages have none.

    >>> text = cx.texts.passages(weights, domains=["astronomy"])[0]
    >>> text.name, text.domain, text.dialect, len(text.tokens)
    ('astronomy-1', 'astronomy', 'en-GB', 512)
    >>> text.subject
    "a night's diary from a mountain observatory in Chile"
    """

    name: str
    domain: str
    dialect: str
    subject: str
    source: str
    tokens: Int[Tensor, " pos"]
    document: str = ""
    half: str = ""


AnyText = Text | str | Int[Tensor, " pos"]  #: labelled, a plain string, or token ids


class Reads(Protocol):
    """What a model says of itself to be given texts; `LayerWeights` and `Reader` do.

    >>> for reader in (weights, cx.Reader.of(model, 128)):
    ...     print(type(reader).__name__, reader.n_ctx)
    LayerWeights 512
    Reader 128
    """

    @property
    def tokenizer(self) -> Any: ...
    @property
    def n_ctx(self) -> int: ...
    @property
    def d_vocab(self) -> int: ...


@dataclass(frozen=True)
class Reader:
    """What is given texts, for a model of any kind, with or without learned positions.

    `n_ctx` is how many tokens of a text it is given, BOS included.

    >>> reader = cx.Reader(model.tokenizer, n_ctx=64, d_vocab=8192)
    >>> len(cx.texts.passages(reader)[0].tokens)
    64
    """

    tokenizer: Any
    n_ctx: int
    d_vocab: int

    @classmethod
    def of(cls, model: Any, n_ctx: int | None = None) -> Reader:
        """The reader of a model loaded with `cx.load`, by default of its whole context.

        Raises ValueError for an `n_ctx` that does not fit the model.

        >>> cx.Reader.of(model).n_ctx, cx.Reader.of(model, 128).n_ctx
        (512, 128)
        """
        most = model.cfg.n_ctx
        if n_ctx is not None and not 2 <= n_ctx <= most:
            raise ValueError(f"n_ctx={n_ctx}: choose 2 to {most}, the model's context")
        return cls(model.tokenizer, n_ctx or most, model.cfg.d_vocab)


def token_ids(text: AnyText, reader: Reads | None = None) -> Int[Tensor, " pos"]:
    """The tokens of a text, on the CPU: the door through which every text comes. It may be a
    labelled one, a plain string, which the reader's tokenizer encodes, or token ids.

    Raises ValueError for anything else, and for a string where there is no reader.

    >>> cx.texts.token_ids(passages[0]) is passages[0].tokens
    True
    >>> cx.texts.token_ids("The moon is far away.", weights).shape
    torch.Size([7])
    """
    if isinstance(text, Text):
        return text.tokens.cpu()
    if isinstance(text, str):
        if reader is None:
            raise ValueError(
                "a plain string, and no tokenizer to read it with: "
                "give cx.texts.encode(weights, text)"
            )
        return encode(reader, text)
    if not isinstance(text, Tensor) or text.ndim != 1 or not whole(text):
        given = (
            f"a tensor of shape {tuple(text.shape)} and {text.dtype}"
            if isinstance(text, Tensor)
            else repr(text)[:60]
        )
        raise ValueError(
            f"{given} is no text: give a string, one of cx.texts.passages or cx.texts.collection, "
            "or a 1-D integer tensor of token ids that starts with BOS"
        )
    return text.cpu()


def whole(ids: Tensor) -> bool:
    """Whether a tensor holds whole numbers."""
    return not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)


def encode(
    reader: Reads, source: str, length: int | None = None, name: str = "the text"
) -> Int[Tensor, " pos"]:
    """BOS and then the tokens of `source`, in the model's own vocabulary.

    With `length`, exactly that many tokens, BOS included. Without it, all of them up to the
    model's n_ctx; a longer text is cut there and a warning says how. Raises ValueError for an
    empty text, one shorter than `length`, and a `length` that does not fit the model.

    >>> ids = cx.texts.encode(weights, "The moon is far away.")
    >>> cx.neurons.spelled(weights, ids.tolist())
    ['<|endoftext|>', 'The', ' moon', ' is', ' far', ' away', '.']
    """
    if not source.strip():
        raise ValueError(f"{name} is empty")
    if length is not None and not 2 <= length <= reader.n_ctx:
        raise ValueError(f"length={length}: choose 2 to {reader.n_ctx}, the model's context")
    ids = all_tokens(reader, source)
    if length is not None and len(ids) < length:
        raise ValueError(
            f"{name} has {len(ids)} tokens with BOS, fewer than the {length} asked for; "
            "take a longer text or a smaller length"
        )
    if length is None and len(ids) > reader.n_ctx:
        warnings.warn(
            f"{name} has {len(ids)} tokens with BOS and the model reads {reader.n_ctx}: "
            f"cut to the first {reader.n_ctx}, {len(ids) - reader.n_ctx} dropped at the end; "
            "cx.texts.windows keeps them all",
            stacklevel=2,
        )
    return torch.tensor(ids[: length or reader.n_ctx])


def windows(
    reader: Reads, source: str, length: int, name: str = "the text"
) -> list[Int[Tensor, " pos"]]:
    """All of a long text in pieces of exactly `length` tokens, BOS in front of each;
    what is left at the end is dropped.

    Raises ValueError as `encode` does.

    >>> pieces = cx.texts.windows(weights, passages[0].source, length=64)
    >>> len(pieces), {len(piece) for piece in pieces}
    (12, {64})
    """
    first = encode(reader, source, length, name)
    body = torch.tensor(all_tokens(reader, source)[1:])
    return [
        torch.cat([first[:1], piece])
        for piece in body.split(length - 1)
        if len(piece) == length - 1
    ]


def all_tokens(reader: Reads, source: str) -> list[int]:
    tokenizer = reader.tokenizer
    if tokenizer is None:
        raise ValueError(
            "these weights came without a tokenizer: "
            "build token ids yourself, or load the model with cx.load"
        )
    bos = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    if bos is None:
        raise ValueError("the tokenizer has neither a BOS nor an EOS token to start a text with")
    # The tokenizer is asked for more than the model reads, on purpose:
    # the cut is made, and reported, above.
    return [
        bos,
        *tokenizer.encode(source, add_special_tokens=False, verbose=False),
    ]


# ---------------------------------------------------------------- the passages of this book


def passages(
    reader: Reads, length: int | None = None, domains: Sequence[str] | None = None
) -> list[Text]:
    """The labelled passages written for this book, each `length` tokens
    (by default as much as the model reads).

    `domains` chooses and orders them. Raises ValueError for a domain that is not there and a
    `length` that a passage does not fill.

    >>> texts = cx.texts.passages(weights, length=256, domains=["law", "travel"])
    >>> [text.name for text in texts]
    ['law-1', 'law-2', 'law-3', 'law-4', 'travel-1', 'travel-2', 'travel-3', 'travel-4']
    """
    files = sorted(PASSAGES.glob("*.txt"))
    known = sorted({file.stem.rpartition("-")[0] for file in files})
    wanted = known if domains is None else list(domains)
    unknown = [d for d in wanted if d not in known]
    if unknown:
        raise ValueError(f"no passages for {', '.join(unknown)}; there are {', '.join(known)}")
    return [
        read_passage(reader, f, length)
        for d in wanted
        for f in files
        if f.stem.rpartition("-")[0] == d
    ]


def read_passage(reader: Reads, file: Path, length: int | None) -> Text:
    """A file whose head says `domain:`, `dialect:` and `subject:`,
    then a blank line, then the text.
    """
    head, blank, body = read(file).partition("\n\n")
    facts = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    missing = {"domain", "dialect", "subject"} - facts.keys()
    if missing:
        raise ValueError(f"{file.name}: the head lacks {', '.join(sorted(missing))}")
    if not blank or len(head.splitlines()) > 3:  # or what follows the head would be lost with it
        raise ValueError(
            f"{file.name}: the head is three lines, domain, dialect and subject, and a blank line "
            "behind them"
        )
    source = body.strip("\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the passages are meant to overfill the context
        tokens = encode(reader, source, length, file.name)
    labels = (facts["domain"], facts["dialect"], facts["subject"])
    return Text(file.stem, *labels, source, tokens, document_hash(source))


# ---------------------------------------------------------------- many texts, for measurements


def collection(
    reader: Reads,
    count: int | None = None,
    source: str | os.PathLike | None = None,
    half: str | None = None,
) -> list[Text]:
    """`count` texts to measure on: all of `stream` in a list, for up to some ten thousand.

    >>> texts = cx.texts.collection(weights, count=3)
    >>> [text.name for text in texts], len(texts[0].tokens)
    (['astronomy-01.1', 'bible-kjv-01.1', 'biology-medicine-01.1'], 512)
    >>> chosen_on, judged_on = (cx.texts.collection(weights, half=half) for half in "AB")
    >>> {text.document for text in chosen_on} & {text.document for text in judged_on}
    set()
    """
    return list(stream(reader, count, source, half))


def stream(
    reader: Reads,
    count: int | None = None,
    source: str | os.PathLike | None = None,
    half: str | None = None,
) -> Stream:
    """`count` texts to measure on, read while they are asked for: a million take no more memory
    than one. Every loop over them begins anew and gives the same texts in the same order.

    `source`, by default what the environment variable CTX_TEXTS names, is one of

    - a .txt or .txt.xz file or a folder of them: one domain each, documents separated by a line
      that holds only `<|endoftext|>`; files take turns;
    - a .jsonl, .json or .parquet file, also .gz or .zst, or a folder of them: a document a row, in
      the column `text`, or else the only one of `content` and `document`;
    - a data set on the Hugging Face hub with such a column: `name`, `name:configuration` or
      `name:configuration:split` (by default train), such as `Skylion007/openwebtext`,
      `monology/pile-uncopyrighted` or `allenai/c4:en`.

    Each document gives as many texts of the model's whole context as it holds. `count` is 1000 if
    it is not given.

    Without a source these are the book's held-out texts: real documents of 22 domains that take
    turns, 1000 texts that each begin with the 511 tokens of a window in the vocabulary of `mini`.
    'astronomy-03.2' is the second window of the third document; `subject` is the document's first
    line, and for python its file. `count` is all of them if it is not given. For a model with
    another vocabulary they are encoded anew, and come out as long as they come out, so choose a
    destination inside the shortest.

    `half` leaves only the documents of half A or B: choose on one and judge on the other. It is
    stored for the book's texts, whose documents are chapters, sections, recipes, files, or pieces
    of long ones, so both halves may hold pieces of one book; of another source the hash of a
    document decides, and one longer than 2^20 bytes in a .txt file counts as several.

    Raises ValueError for a source that is none of these, a half that is neither A nor B, a count
    that is more than the held-out texts and, when the last text has been given, for another source
    that holds fewer than `count`.

    >>> texts = cx.texts.stream(weights, count=3, half="B")
    >>> len(texts), [text.name for text in texts]
    (3, ['astronomy-02.1', 'bible-kjv-02.1', 'biology-medicine-02.1'])
    """
    if half not in (None, *HALVES):
        raise ValueError(f"half={half!r}: choose 'A', 'B', or None for both")
    source = source or os.environ.get("CTX_TEXTS")
    if not source:
        domains = held_out_index()["domains"]
        there = sum(
            document["texts"]
            for facts in domains.values()
            for document in facts["documents"]
            if half in (None, document["half"])
        )
        if count is not None and not 1 <= count <= there:
            of_half = f" of half {half}" if half else ""
            raise ValueError(f"count={count}: there are {there} held-out texts{of_half}")
        taking_turns = tuple(partial(held_out, reader, *item) for item in domains.items())
        return Stream(reader, count or there, "the held-out texts", taking_turns, half)
    count = 1000 if count is None else count
    if count < 1:
        raise ValueError(f"count={count}: ask for at least one text")
    place = Path(source).expanduser()
    if not place.exists():
        if any(kind.search(str(source)) for kind in (PLAIN, ROWS, NOT_ON_THE_HUB)):
            raise ValueError(f"there is no file or folder {source}")
        on_hub = (partial(hub_texts, reader, str(source)),)
        return Stream(reader, count, str(source), on_hub, half)
    files = text_files(place)
    held = ", ".join(f"{file.name} ({file.stat().st_size} bytes)" for file in files)
    if PLAIN.search(files[0].name):
        in_files = tuple(partial(file_texts, reader, f) for f in files)
        return Stream(reader, count, held, in_files, half)
    return Stream(reader, count, held, (partial(row_texts, reader, files),), half)


Spot = tuple[Any, int, int]  # where a document begins, how many of its texts come before, and
START: Spot = (None, 0, 0)  # how many of its source's: where a text begins; all of it fits in JSON
Source = Callable[
    [Spot], Iterator[tuple[Text, Spot]]
]  # the texts from a spot on, each with its own


@dataclass(frozen=True, eq=False)
class Stream:
    """Texts that are read while they are asked for, in an order that does not change; made by
    `stream`. `name` says what they come from. Takes the place of a list of texts wherever they are
    read in turn.

    >>> texts = cx.texts.stream(weights, count=100)
    >>> circuit.self_normalised(texts).offsets.shape
    torch.Size([1024])
    """

    reader: Reads
    count: int
    name: str
    sources: Sequence[Source]
    half: str | None = None

    def __iter__(self) -> Reading:
        return self.reading()

    def __len__(self) -> int:
        return self.count

    @property
    def identity(self) -> str:
        """What a place belongs to: the source, the half and the length of a text."""
        half = f", half {self.half}" if self.half else ""
        return f"{self.name}{half}, {self.reader.n_ctx} tokens"

    def reading(self, place: dict[str, Any] | None = None) -> Reading:
        """The texts from the beginning on, or from the `place` of a reading of the same texts:
        beginning with the text that was given last there. What was read before is passed over, not
        tokenised again. Raises ValueError for a place in other texts and for one behind the last.

        >>> texts = cx.texts.stream(weights, count=100)
        >>> first = texts.reading()
        >>> next(first).name, next(first).name
        ('astronomy-01.1', 'bible-kjv-01.1')
        >>> next(texts.reading(first.place)).name
        'bible-kjv-01.1'
        """
        if place is None:
            return Reading(self, [START] * len(self.sources), 0, 0)
        if place["of"] != self.identity:
            raise ValueError(f"a place in {place['of']}, but these are {self.identity}")
        if place["given"] >= self.count:
            raise ValueError(f"a place behind {place['given']} texts: these are {self.count}")
        spots = [(where, before, number) for where, before, number in place["spots"]]
        return Reading(self, spots, place["turn"], place["given"])


class Reading(Iterator[Text]):
    """A stream that is being read, one source after the other and each in turn.

    >>> reading = iter(cx.texts.stream(weights, count=3))
    >>> text = next(reading)
    >>> reading.given, len(reading)
    (1, 3)
    """

    def __init__(self, texts: Stream, spots: list[Spot], turn: int, given: int):
        self.texts, self.given = texts, given
        self.spots, self.turn = spots, turn  # where each source goes on, and whose turn it is
        self.last: tuple[int, Spot] | None = None  # the source of the text given last, its spot
        opened = (source(spot) for source, spot in zip(texts.sources, spots, strict=True))
        self.open = dict(enumerate(opened))

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def place(self) -> dict[str, Any]:
        """Where the text that was given last begins, for `Stream.reading`; it can be kept as JSON.

        >>> cx.texts.stream(weights, count=3).reading().place["given"]
        0
        """
        spots, turn, given = list(self.spots), self.turn, self.given
        if self.last:
            turn, spots[self.last[0]] = self.last
            given -= 1
        return {"of": self.texts.identity, "spots": spots, "turn": turn, "given": given}

    def __next__(self) -> Text:
        if self.given == self.texts.count:
            raise StopIteration
        while self.open:
            turn, self.turn = self.turn, (self.turn + 1) % len(self.spots)
            if turn not in self.open:
                continue
            wanted = (f for f in self.open[turn] if self.texts.half in (None, f[0].half))
            found = next(wanted, None)
            if found is None:
                del self.open[turn]
                continue
            text, spot = found
            where, before, number = spot
            self.last, self.spots[turn] = (turn, spot), (where, before + 1, number + 1)
            self.given += 1
            return text
        raise ValueError(
            f"{self.texts.name} holds {self.given} texts of {self.texts.reader.n_ctx} tokens, "
            f"fewer than the {self.texts.count} asked for; shorter documents do not count"
        )


def held_out_index() -> dict[str, Any]:
    """What is known of the held-out texts: how they were chosen and checked, and by domain the
    dialect, the sources and the documents.
    """
    return json.loads((HELD_OUT / "index.json").read_text(encoding="utf-8"))


def held_out(
    reader: Reads, domain: str, facts: dict[str, Any], spot: Spot = START
) -> Iterator[tuple[Text, Spot]]:
    """The held-out texts of one domain, with what the index says of it, in a model's vocabulary."""
    documents = {document["number"]: document for document in facts["documents"]}
    with opened(HELD_OUT / f"{domain}.jsonl.xz") as file:
        rows = [json.loads(line) for line in file]
    _, _, begin = spot
    for number, row in enumerate(rows[begin:], begin):
        document, source = documents[row["document"]], row["text"]
        name = f"{domain}-{row['document']:02d}.{row['window']}"
        text = Text(
            name, domain, facts["dialect"], document["title"], source,
            torch.tensor(all_tokens(reader, source)[: reader.n_ctx]),
            document["sha256"], document["half"],
        )  # fmt: skip
        yield text, (None, 0, number)


def document_hash(document: str) -> str:
    """The first 16 digits of the SHA-256 of a whole document.

    >>> cx.texts.document_hash("the moon")
    '7bcd0f182d906d8e'
    """
    return hashlib.sha256(document.encode()).hexdigest()[:16]


def text_files(place: Path) -> list[Path]:
    """The text files in a folder, or the one file; where there are none, files of rows."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    plain, rows = ([f for f in files if f.is_file() and e.search(f.name)] for e in (PLAIN, ROWS))
    if not (plain or rows):
        holds = "holds no" if place.is_dir() else "is not a"
        raise ValueError(
            f"{place} {holds} .txt or .txt.xz file, nor a .jsonl or .parquet file of rows"
        )
    return plain or rows


def file_texts(reader: Reads, file: Path, spot: Spot = START) -> Iterator[tuple[Text, Spot]]:
    """The texts of one file, whose name is their domain."""
    where, before, number = spot
    documents = file_documents(file, where or 0)
    return document_texts(reader, documents, PLAIN.sub("", file.name), before, number)


def file_documents(file: Path, begin: int = 0) -> Iterator[tuple[str, int]]:
    """The documents of a file from the byte `begin` on, each with the byte at which it begins; of
    a long one, its pieces of `LONGEST` bytes. No more of the file is held than that.
    """
    lines: list[bytes] = []
    here, size, empty = begin, 0, not begin
    with opened(file) as raw:
        raw.seek(begin)
        for line in raw:
            mark = BETWEEN_DOCUMENTS.fullmatch(line)
            if mark or size + len(line) > LONGEST:
                yield from document(file, lines, here)
                lines, here, size = [], here + size, 0
            if mark:
                here += len(line)
            else:
                lines.append(line)
                size += len(line)
            empty = empty and not line.strip()
    if empty:
        raise ValueError(f"{file.name} is empty")
    yield from document(file, lines, here)


def document(file: Path, lines: list[bytes], begin: int) -> Iterator[tuple[str, int]]:
    """These lines as one document, if there is something in them."""
    text = decoded(b"".join(lines), file.name, begin).strip("\r\n")
    if text:
        yield text, begin


def row_texts(
    reader: Reads, files: Sequence[Path], spot: Spot = START
) -> Iterator[tuple[Text, Spot]]:
    """The texts in files of rows, which are one data set and named after the first."""
    name = files[0].name
    kinds = {"parquet" if file.suffix == ".parquet" else "json" for file in files}
    if len(kinds) > 1:
        raise ValueError(f"{files[0].parent} holds .json and .parquet files: name one kind")
    domain = ROWS.sub("", name) if len(files) == 1 else files[0].parent.name
    listed = [str(file) for file in files]
    return data_texts(reader, name, domain, spot, kinds.pop(), data_files=listed, split="train")


def hub_texts(reader: Reads, name: str, spot: Spot = START) -> Iterator[tuple[Text, Spot]]:
    """The texts of a data set on the hub, streamed; says so before it reaches out."""
    path, configuration, split, *more = [*name.split(":"), "", ""]
    if any(more):
        raise ValueError(f"data set {name}: write name:configuration:split")
    print(f"no file or folder {name}: streaming the data set from the Hugging Face hub", flush=True)
    domain = path.rpartition("/")[2]
    yield from data_texts(
        reader, name, domain, spot, path, configuration or None, split=split or "train"
    )


def data_texts(
    reader: Reads, name: str, domain: str, spot: Spot, *what: Any, **which: Any
) -> Iterator[tuple[Text, Spot]]:
    """The texts of a data set, as `datasets.load_dataset` is asked for it."""
    from datasets import load_dataset  # slow to import, and most readers never need it

    try:
        rows = load_dataset(*what, **which, streaming=True)
    except (OSError, ImportError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"{name} is neither a file, nor a folder, nor a data set that can be reached: {error}; "
            "name a .txt file or a folder of them, or leave CTX_TEXTS unset"
        ) from error
    where, before, number = spot
    yield from document_texts(reader, row_documents(rows, name, where), domain, before, number)


def row_documents(rows: Any, name: str, begin: Any = None) -> Iterator[tuple[str, Any]]:
    """The documents of a streamed data set, each with the state in which the next row is its own;
    rows without one are passed over.
    """
    if begin is not None:
        rows.load_state_dict(begin)
    state = rows.state_dict()
    for row in readable(rows, name):
        text = row[text_column(row, name)]
        if not isinstance(text, str | None):
            raise ValueError(f"data set {name}: {text_column(row, name)} is not a column of texts")
        if text:
            yield text, state
        state = rows.state_dict()


def readable(rows: Iterable[dict], name: str) -> Iterator[dict]:
    """The rows, until one cannot be had; then a ValueError that says where."""
    done = 0
    try:
        for row in rows:
            yield row
            done += 1
    except (OSError, ImportError, RuntimeError, ValueError) as error:
        raise ValueError(f"data set {name}: no row after {done} more: {error}") from error


def text_column(row: dict, name: str) -> str:
    """The column that holds the documents."""
    usual, *others = COLUMNS
    found = [usual] if usual in row else [column for column in others if column in row]
    if len(found) != 1:
        also = " or ".join(map(repr, others))
        raise ValueError(
            f"data set {name} has no column {usual!r}, nor {also} alone; it has {', '.join(row)}"
        )
    return found[0]


def document_texts(
    reader: Reads,
    documents: Iterable[tuple[str, Any]],
    domain: str,
    before: int = 0,
    number: int = 0,
) -> Iterator[tuple[Text, Spot]]:
    """The whole texts that each of the documents fills, in order and numbered through from
    `number`, without those `before` in the first.
    """
    length = reader.n_ctx - 1
    for source, where in documents:
        digest = document_hash(source)
        half = HALVES[int(digest[-1], 16) % 2]
        body = torch.tensor(all_tokens(reader, source))
        for place in range(before, (len(body) - 1) // length):
            piece = body[1 + place * length :][:length]
            tokens = torch.cat([body[:1], piece])
            words = reader.tokenizer.decode(piece.tolist())
            text = Text(f"{domain}-{number:04d}", domain, "", "", words, tokens, digest, half)
            yield text, (where, place, number)
            number += 1
        before = 0


# ---------------------------------------------------------------- texts in batches


def batches(
    weights: LayerWeights,
    texts: Iterable[AnyText],
    n: int,
    token: str | int | None,
    doing: str,
) -> Iterator[Int[Tensor, "text source"]]:
    """The first n tokens of every text and then `token`, or the text's own token at n where
    `token` is None; `BATCH` texts at a time, with a bar named after what is being done.

    Any iterable will do, and memory does not grow with its length. Raises ValueError for one text
    in place of many, for a text that is too short and for ids outside the vocabulary.

    >>> found = cx.texts.batches(weights, passages, n=99, token=" the", doing="reading")
    >>> [batch.shape for batch in found]
    [torch.Size([64, 100]), torch.Size([8, 100])]
    """
    check_listed(texts)
    check_position(weights, n)
    last = [] if token is None else [torch.tensor([weights.token_id(token)])]
    needed = n + 1 if token is None else n
    for batch in batched(progress(texts, doing), BATCH):
        part = [token_ids(text, weights) for text in batch]
        for ids in part:
            if len(ids) < needed:
                raise ValueError(
                    f"a text of {len(ids)} tokens is too short for the destination {n}: "
                    f"it needs at least {needed}"
                )
            check_tokens(weights, ids[:needed])
        yield torch.stack([torch.cat([t[:needed], *last]) for t in part])


def at(
    weights: LayerWeights, texts: Iterable[AnyText], n: int, token: str | int = " the"
) -> Int[Tensor, "text source"]:
    """Every text with `token` at the destination: its first n tokens and then that one. For texts
    that fit in memory together. Raises ValueError for no text at all, and as `batches` does.

    >>> x = cx.texts.at(weights, passages, n=99)
    >>> x.shape, set(x[:, 99].tolist()) == {weights.token_id(" the")}
    (torch.Size([72, 100]), True)
    """
    parts = list(batches(weights, texts, n, token, "reading"))
    if not parts:
        raise ValueError("no texts: give at least one")
    return torch.cat(parts)


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, the last one perhaps shorter."""
    stream = iter(items)
    while part := list(islice(stream, size)):
        yield part


def check_listed(texts: Any) -> None:
    """Nothing, or a ValueError for one text in place of several, or for none at all."""
    if isinstance(texts, (Text, str)) or (isinstance(texts, Tensor) and texts.ndim < 2):
        raise ValueError("one text where a list of texts is expected: put it in brackets")
    if not isinstance(texts, Iterable):
        raise ValueError(f"{texts!r} where a list of texts is expected")


def progress(items: Iterable[T], doing: str, unit: str = "text") -> Iterable[T]:
    """The same, with a bar for what takes longer than a second; none where nobody watches. A
    stream that is resumed begins where it stands.
    """
    begun = items.given if isinstance(items, Reading) else 0
    total = length_hint(items) or None
    shown = {"total": total, "initial": begun, "unit": unit}
    return tqdm(items, doing, delay=1, leave=False, disable=None, **shown)


# ---------------------------------------------------------------- anybody's files


def read(file: str | os.PathLike) -> str:
    """A .txt or .txt.xz file.

    Raises ValueError when it is empty or not UTF-8, OSError when it cannot be opened.

    >>> cx.texts.read(cx.texts.PASSAGES / "astronomy-1.txt").splitlines()[:2]
    ['domain: astronomy', 'dialect: en-GB']
    """
    file = Path(file)
    with opened(file) as raw:
        text = decoded(raw.read(), file.name)
    if not text.strip():
        raise ValueError(f"{file.name} is empty")
    return text


@contextmanager
def opened(file: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked; a ValueError where it turns out to be damaged."""
    try:
        with lzma.open(file) if file.suffix == ".xz" else file.open("rb") as raw:
            yield raw
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{file.name} is not a whole .xz file: {error}") from error


def decoded(raw: bytes, name: str, begin: int = 0) -> str:
    """Text from the bytes that begin there in a file, or a ValueError with the first bad one."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 (byte {begin + error.start}); convert it first"
        ) from error
