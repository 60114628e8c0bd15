"""Texts in batches: many at once, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from ctxlib.texts.text import AnyText, Reads, Text, token_ids
from ctxlib.weights import check_ids, check_index, token_id

T = TypeVar("T")
BATCH = 64  # texts at a time: bounds the memory, changes no result


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

    >>> found = cx.texts.prepare_batches(weights, passages, n=99, token=" the", doing="reading")
    >>> [batch.shape for batch in found]
    [torch.Size([64, 100]), torch.Size([8, 100])]
    """
    check_texts(texts)
    check_index("position", n, reader.n_ctx)
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


def prepare(
    reader: Reads, texts: Iterable[AnyText], n: int, token: str | int = " the"
) -> Int[Tensor, "text source"]:
    """Every text with `token` at the destination: its first n tokens and then that one. For texts
    that fit in memory together. Raises ValueError for no text at all, and as `batches` does.

    >>> x = cx.texts.prepare(weights, passages, n=99)
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


def check_texts(texts: Any) -> None:
    """Nothing, or a ValueError for one text in place of several, or for what holds no texts."""
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
