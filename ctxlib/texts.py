"""Labelled, tokenised texts:
the book's own passages, texts sampled from `mini`, and anybody's files.

A text is a 1-D tensor of token ids that starts with BOS;
a `Text` carries it together with what it is.
"""

from __future__ import annotations

import lzma
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm

from ctxlib.keys import check_position, check_tokens
from ctxlib.models import DATA, MINI
from ctxlib.weights import LayerWeights

T = TypeVar("T")
BATCH = 64  # texts at a time: bounds the memory, changes no result
PASSAGES = DATA / "passages"
SAMPLES = DATA / "samples.npz"
ENDING = re.compile(r"\.txt(\.xz)?$")
BETWEEN_DOCUMENTS = re.compile(r"(?m)^<\|endoftext\|>\r?$")  # a line that holds only the mark


@dataclass(frozen=True, eq=False)  # a text is itself; tensors have no truth value
class Text:
    """One labelled text.

    `dialect` is en-GB, en-US, es, fr, de or python; `tokens` starts with BOS.

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


def token_ids(text: Text | Int[Tensor, " pos"]) -> Int[Tensor, " pos"]:
    """The tokens of a text, labelled or not, on the CPU.

    >>> cx.texts.token_ids(passages[0]) is passages[0].tokens
    True
    """
    return (text.tokens if isinstance(text, Text) else text).cpu()


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
    head, _, body = read(file).partition("\n\n")
    facts = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    missing = {"domain", "dialect", "subject"} - facts.keys()
    if missing:
        raise ValueError(f"{file.name}: the head lacks {', '.join(sorted(missing))}")
    source = body.strip("\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the passages are meant to overfill the context
        tokens = encode(reader, source, length, file.name)
    return Text(file.stem, facts["domain"], facts["dialect"], facts["subject"], source, tokens)


def samples(reader: Reads, count: int | None = None) -> list[Int[Tensor, " pos"]]:
    """Texts of 512 tokens sampled from `mini` (temperature 1, fixed seed),
    the first `count` of them.

    They are tokens of `mini`: ValueError if the weights' vocabulary is another one.

    >>> first, second = cx.texts.samples(weights, count=2)
    >>> first.shape
    torch.Size([512])
    """
    stored, vocab = stored_samples(count)
    if reader.d_vocab != vocab:
        raise ValueError(
            "the sampled texts are tokens of mini, and these weights have another vocabulary; "
            "use your own texts"
        )
    return list(stored)


def stored_samples(count: int | None) -> tuple[Int[Tensor, "text pos"], int]:
    """The first `count` sampled texts, and the size of the vocabulary that they are written in."""
    with np.load(SAMPLES, allow_pickle=False) as file:
        stored, vocab = file["tokens"], int(file["vocab"])
    if count is not None and not 1 <= count <= len(stored):
        raise ValueError(f"count={count}: there are {len(stored)} sampled texts")
    return torch.from_numpy(stored[:count].astype(np.int64)), vocab


# ---------------------------------------------------------------- many texts, for measurements


def collection(
    reader: Reads, count: int = 1000, source: str | os.PathLike | None = None
) -> list[Text]:
    """`count` texts to measure on.

    `source` is a .txt or .txt.xz file or a folder of them (one domain each, documents separated by
    a line that holds only `<|endoftext|>`) or the name of a data set on the Hugging Face hub with a
    column `text` (`name` or `name:configuration`); by default what the environment variable
    CTX_TEXTS names. Each document gives as many texts of the model's whole context as it holds;
    files take turns.

    Without a source these are the texts sampled from `mini`, 512 tokens each; for a model with
    another vocabulary they are decoded and encoded anew, and come out as long as they come out,
    so choose a destination inside the shortest. Raises ValueError when there are fewer than
    `count`, and for a source that is neither.

    >>> texts = cx.texts.collection(weights, count=3)
    >>> [text.name for text in texts], len(texts[0].tokens)
    (['sample-0000', 'sample-0001', 'sample-0002'], 512)
    """
    source = source or os.environ.get("CTX_TEXTS")
    if not source:
        return sampled(reader, count)
    if count < 1:
        raise ValueError(f"count={count}: ask for at least one text")
    place = Path(source)
    if place.is_dir() or place.is_file():
        streams = [file_texts(reader, file) for file in text_files(place)]
    else:
        streams = [hub_texts(reader, str(source))]
    found = list(islice(take_turns(streams), count))
    if len(found) < count:
        raise ValueError(
            f"{source} holds {len(found)} texts of {reader.n_ctx} tokens, fewer than the {count} "
            "asked for; shorter documents do not count"
        )
    return found


def sampled(reader: Reads, count: int) -> list[Text]:
    """The texts sampled from `mini`, in the vocabulary of these weights."""
    stored, vocab = stored_samples(count)
    words = Tokenizer.from_file(str(MINI / "tokenizer.json")).decode_batch(stored.tolist())
    texts = []
    for number, (row, source) in enumerate(zip(stored, words, strict=True)):
        whole = row if reader.d_vocab == vocab else torch.tensor(all_tokens(reader, source))
        tokens = whole[: reader.n_ctx]
        texts.append(Text(f"sample-{number:04d}", "sampled", "", "", source, tokens))
    return texts


def text_files(place: Path) -> list[Path]:
    """The text files in a folder, or the one file."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    found = [f for f in files if f.is_file() and ENDING.search(f.name)]
    if not found:
        holds = "holds no" if place.is_dir() else "is not a"
        raise ValueError(f"{place} {holds} .txt or .txt.xz file")
    return found


def file_texts(reader: Reads, file: Path) -> Iterator[Text]:
    """The texts of one file, whose name is their domain; read when the first is asked for."""
    documents = (part.strip("\r\n") for part in BETWEEN_DOCUMENTS.split(read(file)))
    yield from document_texts(reader, filter(None, documents), ENDING.sub("", file.name))


def hub_texts(reader: Reads, name: str) -> Iterator[Text]:
    """The texts of a data set on the hub, streamed; says so before it reaches out."""
    from datasets import load_dataset  # slow to import, and most readers never need it

    path, _, configuration = name.partition(":")
    print(f"streaming texts from the data set {name} on the Hugging Face hub", flush=True)
    try:
        rows = load_dataset(path, configuration or None, split="train", streaming=True)
        yield from document_texts(reader, text_column(rows, name), path.rpartition("/")[2])
    except (OSError, ImportError) as error:
        raise ValueError(
            f"{name} is neither a file, nor a folder, nor a data set that can be reached: {error}; "
            "name a .txt file or a folder of them, or leave CTX_TEXTS unset"
        ) from error


def text_column(rows: Iterable[dict], name: str) -> Iterator[str]:
    """The documents of a data set; rows without one are passed over."""
    for row in rows:
        if "text" not in row:
            raise ValueError(f"data set {name} has no column 'text'; it has {', '.join(row)}")
        if row["text"]:
            yield row["text"]


def document_texts(reader: Reads, documents: Iterable[str], domain: str) -> Iterator[Text]:
    """The whole texts that each of the documents fills, in order and numbered through."""
    length, number = reader.n_ctx - 1, 0
    for document in documents:
        body = torch.tensor(all_tokens(reader, document))
        for piece in body[1:].split(length):
            if len(piece) == length:
                source = reader.tokenizer.decode(piece.tolist())
                tokens = torch.cat([body[:1], piece])
                yield Text(f"{domain}-{number:04d}", domain, "", "", source, tokens)
                number += 1


def take_turns(streams: Sequence[Iterator[Text]]) -> Iterator[Text]:
    """One text from each stream, then the next from each, until all are empty."""
    open_ones = list(streams)
    while open_ones:
        still_open = []
        for stream in open_ones:
            if (text := next(stream, None)) is not None:
                still_open.append(stream)
                yield text
        open_ones = still_open


# ---------------------------------------------------------------- texts in batches


def batches(
    weights: LayerWeights,
    texts: Iterable[Text | Int[Tensor, " pos"]],
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
        part = [token_ids(text) for text in batch]
        for ids in part:
            if len(ids) < needed:
                raise ValueError(
                    f"a text of {len(ids)} tokens is too short for the destination {n}: "
                    f"it needs at least {needed}"
                )
            check_tokens(weights, ids[:needed])
        yield torch.stack([torch.cat([t[:needed], *last]) for t in part])


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, the last one perhaps shorter."""
    stream = iter(items)
    while part := list(islice(stream, size)):
        yield part


def check_listed(texts: Any) -> None:
    """Nothing, or a ValueError for one text in place of several."""
    if isinstance(texts, Text) or (isinstance(texts, Tensor) and texts.ndim < 2):
        raise ValueError("one text where a list of texts is expected: put it in brackets")


def progress(items: Iterable[T], doing: str, unit: str = "text") -> Iterable[T]:
    """The same, with a bar for what takes longer than a second; none where nobody watches."""
    return tqdm(items, desc=doing, unit=unit, delay=1, leave=False, disable=None)


# ---------------------------------------------------------------- anybody's files


def read(file: str | os.PathLike) -> str:
    """A .txt or .txt.xz file.

    Raises ValueError when it is empty or not UTF-8, OSError when it cannot be opened.

    >>> cx.texts.read(cx.texts.PASSAGES / "astronomy-1.txt").splitlines()[:2]
    ['domain: astronomy', 'dialect: en-GB']
    """
    file = Path(file)
    raw = file.read_bytes()
    try:
        raw = lzma.decompress(raw) if file.suffix == ".xz" else raw
    except lzma.LZMAError as error:
        raise ValueError(f"{file.name} is not a whole .xz file: {error}") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file.name} is not UTF-8 (byte {error.start}); convert it first"
        ) from error
    if not text.strip():
        raise ValueError(f"{file.name} is empty")
    return text
