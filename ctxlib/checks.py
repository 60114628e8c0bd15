"""Bad input: an index, an id or a choice that is not there ends in one ValueError, which says what
was given and what is allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from numbers import Number
from typing import Any

from jaxtyping import Int
from torch import Tensor


def as_index(kind: str, given: Any) -> int:
    """Return a whole number of any library as an int.

    Raises ValueError for a fraction, a word, or True and False, which would count as 1 and 0.

    >>> from ctxlib.checks import as_index
    >>> as_index("head", torch.tensor(3))
    3
    """
    try:
        if isinstance(given, bool) or "bool" in str(getattr(given, "dtype", "")):
            raise TypeError("a truth value, which counts as 0 or 1")
        return operator.index(given)
    except TypeError as error:
        raise ValueError(f"{kind} {given!r}: give a whole number") from error


def check_index(kind: str, given: Any, size: int) -> None:
    """Raise ValueError unless `given` is one of 0 ... size - 1; negative numbers do not count from
    the end.
    """
    if not 0 <= as_index(kind, given) < size:
        raise ValueError(f"{kind} {given}: there are {kind}s 0 to {size - 1}")


def check_chosen(kind: str, chosen: Iterable[int] | None, size: int) -> list[int]:
    """Return chosen heads or neurons as a list; None chooses all of them.

    Raises ValueError for an empty choice, for an index that does not exist, and for one that occurs
    twice.

    >>> cx.checks.check_chosen("neuron", range(3), size=1024)
    [0, 1, 2]
    >>> cx.checks.check_chosen("head", [3, 3], size=8)
    Traceback (most recent call last):
        ...
    ValueError: heads [3, 3] contain duplicates
    """
    given = range(size) if chosen is None else chosen
    alone = isinstance(given, str | Number) or getattr(given, "ndim", 1) == 0
    listed = [as_index(kind, i) for i in ([given] if alone else given)]
    if not listed:
        raise ValueError(f"no {kind}s: choose at least one")
    for i in listed:
        check_index(kind, i, size)
    if len(set(listed)) < len(listed):
        raise ValueError(f"{kind}s {listed} contain duplicates")
    return listed


def check_ids(tokens: Int[Tensor, "*any"], d_vocab: int) -> Int[Tensor, "*any"]:
    """Return the tokens, or raise ValueError for ids outside a vocabulary of this size."""
    for extreme in (tokens.min(), tokens.max()) if tokens.numel() else ():
        check_index("token id", int(extreme), d_vocab)
    return tokens


def crop(
    tokens: Int[Tensor, "*text pos"], length: int, d_vocab: int, n: int, token: int | None = None
) -> Int[Tensor, "*text source"]:
    """Return the first `length` tokens of one text or a stack of texts: those that the query
    position n can attend to.

    Raises ValueError for shorter texts, for ids outside the vocabulary and, where `token` is given,
    for a text with another token at n.
    """
    if tokens.shape[-1] < length:
        raise ValueError(
            f"a text of {tokens.shape[-1]} tokens is too short: position {n} attends to {length}"
        )
    if token is not None and not (tokens[..., n] == token).all():
        raise ValueError(f"the token at position {n} is not the query token, {token}")
    return check_ids(tokens[..., :length], d_vocab)
