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
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, count, islice
from operator import length_hint
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from ctxlib.models import DATA
from ctxlib.weights import check_ids, check_there, token_id

T = TypeVar("T")
BATCH = 64  # texts at a time: bounds the memory, changes no result
PASSAGES = DATA / "passages"
HELD_OUT = DATA / "texts"
PLAIN = re.compile(r"\.txt(\.xz)?$")
ROWS = re.compile(r"\.(jsonl?(\.gz|\.zst)?|parquet)$")
NOT_ON_THE_HUB = re.compile(r"^[./~]|^[^:]*/(?:[^:]*/|$)|[\s\\]")  # where a data set is owner/name
SPELT = "The colour of a theatre's 1,984 seats; naïve, größer, 北京.\n"
MARK = b"<|endoftext|>"  # alone on a line, it stands between two documents
LONGEST = 2**20  # bytes of a file held at once: a longer document is cut at the end of a line
HALVES = ("A", "B")
COLUMNS = ("text", "content", "document")  # where a data set keeps its texts; the first is usual


@dataclass(frozen=True, eq=False)  # a text is itself; tensors have no truth value
class Text:
    """One labelled text.

    `dialect` is en-GB, en-US, en (mixed, or not known), es, fr, de or python; `tokens` starts with
    BOS. `document` says which document it is from, by its hash: texts of one document are not
    independent of each other. `half` is the half, A or B, that all of this document belongs to;
    passages have none. `vocabulary` is that of `tokens`; a text without one is not asked for it.

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
    vocabulary: str = ""


AnyText = Text | str | Int[Tensor, " _pos"]  #: labelled, a plain string, or token ids


@runtime_checkable
class Reads(Protocol):
    """What is given texts: a `Reader`, `LayerWeights` or a `cx.destination`.

    >>> for reader in (weights, cx.texts.Reader.of(model, 128)):
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
    """What is given texts, for a model of any kind, with or without learned positions; so are
    `LayerWeights` and `cx.destination`, which have the same three.

    `n_ctx` is how many tokens of a text it is given, BOS included.

    >>> reader = cx.texts.Reader(model.tokenizer, n_ctx=64, d_vocab=8192)
    >>> [len(cx.texts.passages(one)[0].tokens) for one in (reader, weights)]
    [64, 512]
    """

    tokenizer: Any
    n_ctx: int
    d_vocab: int

    @classmethod
    def of(cls, model: Any, n_ctx: int | None = None) -> Reader:
        """The reader of a model loaded with `cx.load`, of weights or of a destination, by default
        of the whole context.

        Raises ValueError for an `n_ctx` that does not fit the model.

        >>> cx.texts.Reader.of(model).n_ctx, cx.texts.Reader.of(model, 128).n_ctx
        (512, 128)
        """
        sizes = getattr(model, "cfg", model)
        most = sizes.n_ctx
        if n_ctx is not None and not 2 <= n_ctx <= most:
            raise ValueError(f"n_ctx={n_ctx}: choose 2 to {most}, the model's context")
        return cls(model.tokenizer, n_ctx or most, sizes.d_vocab)


def token_ids(text: AnyText, reader: Reads) -> Int[Tensor, " pos"]:
    """The tokens of a text, on the CPU: the door through which every text comes. It may be a
    labelled one, a plain string, which the reader's tokenizer encodes, or token ids.

    Raises ValueError for anything else, for a labelled text in another model's tokens, and for a
    string where there is no tokenizer.

    >>> cx.texts.token_ids(passages[0], weights) is passages[0].tokens
    True
    >>> cx.texts.token_ids("The moon is far away.", weights).shape
    torch.Size([7])
    """
    if isinstance(text, Text):
        if text.vocabulary and reader.tokenizer and text.vocabulary != spoken_by(reader.tokenizer):
            raise ValueError(
                f"{text.name} is in the tokens of another model: read the texts with this one's "
                "reader, cx.texts.Reader.of(model)"
            )
        return text.tokens.cpu()
    if isinstance(text, str):
        return encode(reader, text)
    given = repr(text)[:60]
    if isinstance(text, Tensor):
        kind = text.dtype
        if text.ndim == 1 and not (kind.is_floating_point or kind.is_complex or kind == torch.bool):
            return text.cpu()
        given = f"a tensor of shape {tuple(text.shape)} and {kind}"
    raise ValueError(
        f"{given} is no text: give a string, one of cx.texts.passages or cx.texts.collection, "
        "or a 1-D integer tensor of token ids that starts with BOS"
    )


@lru_cache(maxsize=8)
def spoken_by(tokenizer: Any) -> str:
    """What tells a vocabulary from another: a digest of how it spells a line."""
    ids = tokenizer.encode(SPELT, add_special_tokens=False)
    return hashlib.sha256(f"{len(tokenizer)} {ids}".encode()).hexdigest()[:16]


def encode(reader: Reads, source: str) -> Int[Tensor, " pos"]:
    """BOS and then the tokens of `source`, in the model's own vocabulary, as many as a model reads;
    a longer text is cut there and a warning says how. Raises ValueError for an empty text.

    >>> ids = cx.texts.encode(weights, "The moon is far away.")
    >>> cx.neurons.spelled(weights, ids.tolist())
    ['<|endoftext|>', 'The', ' moon', ' is', ' far', ' away', '.']
    """
    if not source.strip():
        raise ValueError("the text is empty")
    ids, most = all_tokens(reader, source), reader.n_ctx
    if len(ids) > most:
        warnings.warn(
            f"the text has {len(ids)} tokens with BOS and the model reads {most}: cut to the first "
            f"{most}, {len(ids) - most} dropped at the end; cx.texts.windows keeps them all",
            stacklevel=2,
        )
    return torch.tensor(ids[:most])


def windows(reader: Reads, source: str) -> list[Int[Tensor, " pos"]]:
    """All of a long text in pieces as long as the reader's context, BOS in front of each; what is
    left at the end is dropped.

    >>> reader = cx.texts.Reader.of(model, 64)
    >>> pieces = cx.texts.windows(reader, passages[0].source)
    >>> len(pieces), {len(piece) for piece in pieces}
    (12, {64})
    """
    bos, *ids = all_tokens(reader, source)
    filled = reader.n_ctx - 1
    begins = range(0, len(ids) - filled + 1, filled)
    return [torch.tensor([bos, *ids[k : k + filled]]) for k in begins]


def all_tokens(reader: Reads, source: str) -> list[int]:
    """BOS and the tokens of a plain text, however many a model reads at once: an encoder's CLS in
    place of BOS, and EOS where there is neither. Raises ValueError where there is no tokenizer, and
    for a tokenizer without a token to begin with.

    >>> len(cx.texts.all_tokens(weights, "The moon and the tide. " * 200)) > weights.n_ctx
    True
    """
    tokenizer = reader.tokenizer
    if tokenizer is None:
        raise ValueError(
            "a text, and no tokenizer to read it with: load the model with cx.load, "
            "or give token ids, such as those of cx.texts.encode(weights, text)"
        )
    marks = (tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id)
    bos = next((mark for mark in marks if mark is not None), None)
    if bos is None:
        raise ValueError("the tokenizer has no BOS, CLS or EOS token to start a text with")
    # more than the model reads, on purpose: the cut is made, and reported, in `encode`
    return [bos, *tokenizer.encode(source, add_special_tokens=False, verbose=False)]


# ---------------------------------------------------------------- the passages of this book


def passages(reader: Reads, domains: Sequence[str] | None = None) -> list[Text]:
    """The labelled passages written for this book, of each as much as the reader has context for.

    `domains` chooses and orders them. Raises ValueError for a domain that is not there.

    >>> texts = cx.texts.passages(weights, domains=["law", "travel"])
    >>> [text.name for text in texts]
    ['law-1', 'law-2', 'law-3', 'law-4', 'travel-1', 'travel-2', 'travel-3', 'travel-4']
    """
    files: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(PASSAGES.glob("*.txt")):
        files[file.stem.rpartition("-")[0]].append(file)
    wanted = list(files if domains is None else domains)
    if unknown := [domain for domain in wanted if domain not in files]:
        raise ValueError(f"no passages for {', '.join(unknown)}; there are {', '.join(files)}")
    return [read_passage(reader, file) for domain in wanted for file in files[domain]]


def read_passage(reader: Reads, file: Path) -> Text:
    """A file whose head says `domain:`, `dialect:` and `subject:`,
    then a blank line, then the text.
    """
    head, _, body = file.read_text("utf-8").partition("\n\n")
    facts, source = dict(line.split(": ", 1) for line in head.splitlines()), body.strip("\n")
    tokens = torch.tensor(all_tokens(reader, source)[: reader.n_ctx])  # most overfill it
    return Text(
        file.stem,
        **facts,
        source=source,
        tokens=tokens,
        document=document_hash(source),
        vocabulary=spoken_by(reader.tokenizer),
    )


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
        return held_out_stream(reader, count, half)
    count = 1000 if count is None else count
    if count < 1:
        raise ValueError(f"count={count}: ask for at least one text")
    place = Path(source).expanduser()
    name, found = in_files(place) if place.exists() else on_hub(str(source))
    sources = [partial(document_texts, reader, *each) for each in found]
    return Stream(reader, count, name, sources, half)


Spot = tuple[Any, int, int]  # where a document begins, how many of its texts come before, and
START: Spot = (None, 0, 0)  # how many of its source's: where a text begins; all of it fits in JSON
Texts = Iterator[tuple[Text, Spot]]  # each with its own
Documents = Iterator[tuple[str, Any]]  # each with where it begins
Found = tuple[str, list[tuple[str, Callable[[Any], Documents]]]]  # name; domains, their documents


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
    sources: Sequence[Callable[[Spot], Texts]]  # the texts of each from a spot on
    half: str | None = None

    def __iter__(self) -> StreamReading:
        return self.reading()

    def __len__(self) -> int:
        return self.count

    @property
    def identity(self) -> str:
        """What a place belongs to: the source, the half and the length of a text."""
        half = f", half {self.half}" if self.half else ""
        return f"{self.name}{half}, {self.reader.n_ctx} tokens"

    def reading(self, place: dict[str, Any] | None = None) -> StreamReading:
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
        turns = [(k, START) for k in range(len(self.sources))]
        place = place or {"of": self.identity, "given": 0, "turns": turns}
        if place["of"] != self.identity:
            raise ValueError(f"a place in {place['of']}, but these are {self.identity}")
        if place["given"] >= self.count:
            raise ValueError(f"a place behind {place['given']} texts: these are {self.count}")
        return StreamReading(self, place)


class StreamReading(Iterator[Text]):
    """A stream that is being read, one source after the other and each in turn.

    `place` is where the text that was given last begins, for `Stream.reading`; it can be kept as
    JSON.

    >>> reading = iter(cx.texts.stream(weights, count=3))
    >>> text = next(reading)
    >>> reading.given, len(reading), reading.place["given"]
    (1, 3, 0)
    """

    def __init__(self, texts: Stream, place: dict[str, Any]):
        self.texts, self.place, self.given = texts, place, place["given"]
        # whose turn it is: the number of a source, where it goes on, its texts from there
        self.turns = deque((k, spot, texts.sources[k](spot)) for k, spot in place["turns"])

    def __len__(self) -> int:
        return self.texts.count

    def __next__(self) -> Text:
        if self.given == self.texts.count:
            raise StopIteration
        while self.turns:
            k, _, found = self.turns.popleft()
            for text, spot in found:
                if self.texts.half in (None, text.half):
                    turns = [(k, spot), *((other, begin) for other, begin, _ in self.turns)]
                    self.place = {"of": self.texts.identity, "given": self.given, "turns": turns}
                    where, before, number = spot
                    self.turns.append((k, (where, before + 1, number + 1), found))
                    self.given += 1
                    return text
        raise ValueError(
            f"{self.texts.name} holds {self.given} texts of {self.texts.reader.n_ctx} tokens, "
            f"fewer than the {self.texts.count} asked for; shorter documents do not count"
        )


# ---------------------------------------------------------------- what a stream is read from


def held_out_index() -> dict[str, Any]:
    """What is known of the held-out texts: how they were chosen and checked, and by domain the
    dialect, the sources and the documents.
    """
    return json.loads((HELD_OUT / "index.json").read_text(encoding="utf-8"))


def held_out_stream(reader: Reads, count: int | None = None, half: str | None = None) -> Stream:
    """The book's held-out texts, as `stream` gives them, whatever CTX_TEXTS names.

    >>> next(iter(cx.texts.held_out_stream(weights))).name
    'astronomy-01.1'
    """
    domains = held_out_index()["domains"]
    documents = [document for facts in domains.values() for document in facts["documents"]]
    there = sum(document["texts"] for document in documents if half in (None, document["half"]))
    if count is not None and not 1 <= count <= there:
        of_half = f" of half {half}" if half else ""
        raise ValueError(f"count={count}: there are {there} held-out texts{of_half}")
    sources = [partial(held_out, reader, *item) for item in domains.items()]
    return Stream(reader, count or there, "the held-out texts", sources, half)


def held_out(reader: Reads, domain: str, facts: dict[str, Any], spot: Spot = START) -> Texts:
    """The held-out texts of one domain, with what the index says of it, in a model's vocabulary."""
    _, _, begin = spot
    with lzma.open(HELD_OUT / f"{domain}.jsonl.xz") as file:
        rows = [json.loads(line) for line in islice(file, begin, None)]
    for number, row in enumerate(rows, begin):
        document, source = facts["documents"][row["document"] - 1], row["text"]
        name = f"{domain}-{row['document']:02d}.{row['window']}"
        what = name, domain, facts["dialect"], document["title"], source
        tokens = torch.tensor(all_tokens(reader, source)[: reader.n_ctx])
        of = document["sha256"], document["half"], spoken_by(reader.tokenizer)
        yield Text(*what, tokens, *of), (None, 0, number)


def labelled(reader: Reads, folder: str | os.PathLike) -> list[Text]:
    """All of the .txt files in a folder and its subfolders, in windows as long as the reader's
    context. The label of a text, its domain, is the subfolder that it lies in, or the file's name.

    Raises ValueError for a folder without such files, and where none of them fills a window.

    >>> texts = cx.texts.labelled(cx.texts.Reader.of(model, 64), cx.texts.PASSAGES)
    >>> len(texts) > 300, texts[0].domain
    (True, 'american-1')
    """
    place, found = Path(folder).expanduser(), list[Text]()
    files = sorted(file for file in place.rglob("*.txt*") if PLAIN.search(file.name))
    if not files:
        raise ValueError(f"{place} holds no .txt file, nor has it a subfolder with one")
    for file in files:
        inside = file.parent != place
        domain = file.parent.name if inside else PLAIN.sub("", file.name)
        found += [t for t, _ in document_texts(reader, domain, partial(file_documents, file))]
    if not found:
        raise ValueError(f"no file in {place} has the {reader.n_ctx} tokens of a text")
    return found


def document_hash(document: str) -> str:
    """The first 16 digits of the SHA-256 of a whole document.

    >>> cx.texts.document_hash("the moon")
    '7bcd0f182d906d8e'
    """
    return hashlib.sha256(document.encode()).hexdigest()[:16]


def in_files(place: Path) -> Found:
    """What is in a file or folder, and the documents: of each text file, or else of all files of
    rows, which are one data set.
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
    asked = {"path": kinds.pop(), "data_files": [str(file) for file in rows], "split": "train"}
    domain = ROWS.sub("", rows[0].name) if len(rows) == 1 else place.name
    return name, [(domain, partial(row_documents, rows[0].name, **asked))]


def on_hub(name: str) -> Found:
    """The name, and the documents of the data set that has it on the hub."""
    if any(kind.search(name) for kind in (PLAIN, ROWS, NOT_ON_THE_HUB)):
        raise ValueError(f"there is no file or folder {name}")
    path, configuration, split, *more = [*name.split(":"), "", ""]
    if any(more):
        raise ValueError(f"data set {name}: write name:configuration:split")
    asked = {"path": path, "name": configuration or None, "split": split or "train"}
    return name, [(path.rpartition("/")[2], partial(row_documents, name, **asked))]


def document_texts(
    reader: Reads, domain: str, documents: Callable[[Any], Documents], spot: Spot = START
) -> Texts:
    """The whole texts that each of the documents fills, numbered through, from the spot on."""
    begin, before, number = spot
    for source, where in documents(begin):
        digest = document_hash(source)
        half = HALVES[int(digest[-1], 16) % 2]
        for place, tokens in enumerate(windows(reader, source)[before:], before):
            what = f"{domain}-{number:04d}", domain, "", ""
            words = reader.tokenizer.decode(tokens[1:].tolist())
            of = digest, half, spoken_by(reader.tokenizer)
            yield Text(*what, words, tokens, *of), (where, place, number)
            number += 1
        before = 0


def file_documents(file: Path, begin: int | None = None) -> Documents:
    """The documents of a file from the byte `begin` on, each with the byte at which it begins; of
    a long one, its pieces of `LONGEST` bytes. No more of the file is held than that.
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
                    text = held.decode("utf-8").strip("\r\n")
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


def row_documents(source: str, begin: Any = None, /, **asked: Any) -> Documents:
    """The documents of a data set, as `datasets.load_dataset` is asked for it, each with the state
    in which the next row is its own; rows without one are passed over. Says so before it reaches
    out.
    """
    from datasets import load_dataset  # slow to import, and most readers never need it

    if "data_files" not in asked:
        told = f"no file or folder {source}: streaming the data set from the Hugging Face hub"
        print(told, flush=True)
    advice = "name a .txt file or a folder of them, or leave CTX_TEXTS unset"
    unknown = f"{source} is neither a file, nor a folder, nor a data set that can be reached"
    with refusing(f"{unknown}; {advice}: "):
        rows = load_dataset(**asked, streaming=True)
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


@contextmanager
def refusing(said: str, errors: Any = Exception) -> Iterator[None]:
    """A library's errors as one ValueError, with what it says behind what is said."""
    try:
        yield
    except errors as error:
        raise ValueError(said + str(error)) from error


# ---------------------------------------------------------------- texts in batches


def batches(
    reader: Reads,
    texts: Iterable[AnyText],
    n: int,
    token: str | int | None,
    doing: str,
    length: int | None = None,
) -> Iterator[Int[Tensor, "text source"]]:
    """The first `length` tokens of every text, by default n + 1, with `token` at n, or the text's
    own where `token` is None; `BATCH` texts at a time, with a bar named after what is being done.

    Any iterable will do, and memory does not grow with its length. Raises ValueError for one text
    in place of many, for a text that is too short and for ids outside the vocabulary.

    >>> found = cx.texts.batches(weights, passages, n=99, token=" the", doing="reading")
    >>> [batch.shape for batch in found]
    [torch.Size([64, 100]), torch.Size([8, 100])]
    """
    check_listed(texts)
    check_there("position", n, reader.n_ctx)
    put = None if token is None else token_id(token, reader.tokenizer, reader.d_vocab)
    length = n + 1 if length is None else length
    needed = n if put is not None and length == n + 1 else length
    for batch in batched(progress(texts, doing), BATCH):
        read = [token_ids(text, reader)[:length] for text in batch]
        if (most := min(map(len, read))) < needed:
            raise ValueError(
                f"a text of {most} tokens is too short for the destination {n}: "
                f"it needs at least {needed}"
            )
        tokens = torch.stack([torch.nn.functional.pad(t, (0, length - len(t))) for t in read])
        if put is not None:
            tokens[:, n] = put
        yield check_ids(tokens, reader.d_vocab)


def at(
    reader: Reads, texts: Iterable[AnyText], n: int, token: str | int = " the"
) -> Int[Tensor, "text source"]:
    """Every text with `token` at the destination: its first n tokens and then that one. For texts
    that fit in memory together. Raises ValueError for no text at all, and as `batches` does.

    >>> x = cx.texts.at(weights, passages, n=99)
    >>> x.shape, set(x[:, 99].tolist()) == {weights.token_id(" the")}
    (torch.Size([72, 100]), True)
    """
    return joined(batches(reader, texts, n, token, "reading"))


def joined(parts: Iterable[Tensor]) -> Tensor:
    """What was made of the batches, as one; a ValueError where there was no text at all."""
    if not (made := list(parts)):
        raise ValueError("no texts: give at least one")
    return torch.cat(made)


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, the last one perhaps shorter."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


def check_listed(texts: Any) -> None:
    """Nothing, or a ValueError for one text in place of several, or for none at all."""
    if isinstance(texts, (Text, str)) or (isinstance(texts, Tensor) and texts.ndim < 2):
        raise ValueError("one text where a list of texts is expected: put it in brackets")
    if not isinstance(texts, Iterable):
        raise ValueError(f"{texts!r} where a list of texts is expected")


def progress(items: Iterable[T], doing: str, unit: str = "text") -> Iterable[T]:
    """The same, with a bar for what takes longer than a second; none where nobody watches. A
    stream that is resumed begins where it stands.

    >>> sum(cx.texts.progress([1, 2, 3], "adding", "number"))
    6
    """
    shown = {"total": length_hint(items) or None, "initial": getattr(items, "given", 0)}
    return tqdm(items, doing, delay=1, leave=False, disable=None, unit=unit, **shown)
