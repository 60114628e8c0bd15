"""Texts in batches: many at once, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint
from textwrap import shorten
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from ctxlib.checks import as_index, check_ids, check_index
from ctxlib.texts.text import AnyText, Reader, Text, token_ids
from ctxlib.texts.vocabulary import token_id

T = TypeVar("T")
BATCH = 64  # texts at a time: bounds the memory, changes no result


def prepare_batches(
    reader: Any,
    texts: Iterable[AnyText],
    n: int,
    token: str | int | None = " the",
    length: int | None = None,
    desc: str = "texts",
) -> Iterator[Int[Tensor, "text source"]]:
    """Yield the first `length` tokens of every text, by default n + 1, with `token` at position n
    (None: the text's own token), `BATCH` texts at a time, under a progress bar called `desc`.

    `reader` is a `Reader`, or a model, weights or a fixed query to read for. Any iterable of texts
    will do, and memory does not grow with its length. Raises ValueError for one text in place of
    many, for a text that is too short, and for ids outside the vocabulary.

    >>> found = cx.texts.prepare_batches(weights, passages, n=99)
    >>> [batch.shape for batch in found]
    [torch.Size([64, 100]), torch.Size([8, 100])]
    """
    reader = Reader.of(reader)
    check_texts(texts)
    check_index("position", n, reader.n_ctx)
    put = None if token is None else token_id(token, reader.tokenizer, reader.d_vocab)
    length = n + 1 if length is None else length
    check_index("position", n, as_index("length", length))
    needed = n if put is not None and length == n + 1 else length
    for batch in batched(progress(texts, desc), BATCH):
        read = [token_ids(text, reader)[:length] for text in batch]
        if (most := min(map(len, read))) < needed:
            raise ValueError(
                f"a text of {most} tokens is too short for position {n}: it needs at least {needed}"
            )
        tokens = torch.stack([torch.nn.functional.pad(t, (0, length - len(t))) for t in read])
        if put is not None:
            tokens[:, n] = put
        yield check_ids(tokens, reader.d_vocab)


def joined(parts: Iterable[Tensor]) -> Tensor:
    """Concatenate what was computed per batch; raise ValueError if there was no text at all."""
    if not (made := list(parts)):
        raise ValueError("no texts: give at least one")
    return torch.cat(made)


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`, the last one perhaps shorter."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


def check_texts(texts: Any) -> None:
    """Raise ValueError for one text in place of several, and for what holds no texts."""
    if isinstance(texts, (Text, str)) or (isinstance(texts, Tensor) and texts.ndim < 2):
        raise ValueError("one text where a list of texts is expected: put it in brackets")
    if not isinstance(texts, Iterable):
        raise ValueError(f"{shorten(repr(texts), 60)} where a list of texts is expected")


def progress(items: Iterable[T], desc: str, unit: str = "text") -> Iterable[T]:
    """Show a bar for what takes longer than a second, where somebody watches. A stream that is
    resumed begins where it stopped.

    >>> sum(cx.texts.progress([1, 2, 3], "adding", "number"))
    6
    """
    shown = {"total": length_hint(items) or None, "initial": getattr(items, "given", 0)}
    return tqdm(items, desc, delay=1, leave=False, disable=None, unit=unit, **shown)
