"""Bad input: an index, an id or a choice that is not there ends in one ValueError, an object of
another kind in one TypeError. Each says what was given and what is allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from pathlib import Path
from textwrap import shorten
from typing import Any

from jaxtyping import Int
from torch import Tensor

SAVED = "cx.load reads one from a folder; save_pretrained puts a model and its tokenizer there"
#: Kinds of objects: an attribute that no other kind has, and where to get one.
KINDS = {
    "a model": ("original_model", SAVED),
    "a decoder": ("adapter", SAVED),
    "a fixed query": ("decomposition", "make one with cx.fix_query(model)"),
    "a circuit": ("summary", "cx.ContextualCircuit.calibrate(fixed, text, heads) makes one"),
    "a ContextualCircuit": ("contribution_to", "its method calibrate makes one"),
    "weights": ("from_state_dict", "cx.LayerWeights.of(model) reads them"),
    "a tensor": ("new_zeros", "torch.as_tensor makes one of an array or a list"),
    "a number": ("__float__", "give one"),
    "a string": ("casefold", "give one"),
    "a list": ("__len__", "put it in brackets"),
    "a reader": ("tokenizer", "give a model, weights, a fixed query or a cx.texts.Reader"),
    "an array": ("argpartition", "numpy.asarray makes one"),
    "a client": ("submit", "distributed.Client(address) is one"),
    "an explainer": ("classify", "cx.lookups.explain.RuleExplainer is one"),
    "prompts": ("shown_active", "cx.lookups.explain.Prompts holds them"),
    "a tokenizer": ("get_vocab", "model.tokenizer is one"),
    "a state dict": ("items", "safetensors.torch.load_file reads one"),
    "an AdditiveDecomposition": ("frequency", "cx.fit_additive(model, texts).decomposition is one"),
}


def check_kind(given: Any, kind: str, *sizes: int | None) -> Any:
    """Return an object of one of the `KINDS`, a tensor whose last axes have these sizes, None for
    any. Raises TypeError for another object, ValueError for another shape.

    >>> from ctxlib.checks import check_kind
    >>> check_kind(2.5, "a number")
    2.5
    >>> check_kind(weights, "a fixed query")
    Traceback (most recent call last):
        ...
    TypeError: LayerWeights where a fixed query is wanted: make one with cx.fix_query(model)
    >>> check_kind(torch.zeros(5, 3), "a tensor", None, 2)
    Traceback (most recent call last):
        ...
    ValueError: a tensor of shape [5, 3] where [..., any, 2] is wanted
    """
    (mark, remedy), axes = KINDS[kind], getattr(given, "ndim", None)
    odd = (kind == "a number" and axes) or (kind == "a list" and axes == 0)
    if odd or isinstance(given, type) or not hasattr(given, mark):
        raise TypeError(f"{type(given).__name__} where {kind} is wanted: {remedy}")
    own = given.shape[-len(sizes) :] if sizes else ()
    if len(own) < len(sizes) or any(w not in (None, o) for w, o in zip(sizes, own, strict=True)):
        wanted = ", ".join("any" if size is None else str(size) for size in sizes)
        raise ValueError(f"a tensor of shape {[*given.shape]} where [..., {wanted}] is wanted")
    return given


def as_path(given: Any) -> Path:
    """Return the path of a file or a folder, `~` as the home folder.

    >>> cx.checks.as_path(None)
    Traceback (most recent call last):
        ...
    TypeError: NoneType where a path is wanted: give a string or a pathlib.Path
    """
    try:
        return Path(given).expanduser()
    except TypeError as error:
        said = f"{type(given).__name__} where a path is wanted: give a string or a pathlib.Path"
        raise TypeError(said) from error


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
        raise ValueError(f"{kind} {shorten(repr(given), 60)}: give a whole number") from error


def as_indices(kind: str, given: Any) -> list[int]:
    """Return one whole number or several as a list. Raises ValueError for anything else.

    >>> cx.checks.as_indices("layer", 2), cx.checks.as_indices("layer", range(2))
    ([2], [0, 1])
    """
    one = isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) < 1
    return [as_index(kind, i) for i in ([given] if one else given)]


def check_index(kind: str, given: Any, size: int) -> None:
    """Raise ValueError unless `given` is one of 0 ... size - 1; negative numbers do not count from
    the end.
    """
    if not 0 <= as_index(kind, given) < as_index(f"number of {kind}s", size):
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
    listed = as_indices(kind, range(size) if chosen is None else chosen)
    if not listed:
        raise ValueError(f"no {kind}s: choose at least one")
    for i in listed:
        check_index(kind, i, size)
    if len(set(listed)) < len(listed):
        raise ValueError(f"{kind}s {listed} contain duplicates")
    return listed


def check_ids(tokens: Int[Tensor, "*any"], d_vocab: int) -> Int[Tensor, "*any"]:
    """Return the tokens; raise ValueError for ids outside a vocabulary of this size, and TypeError
    for anything but whole numbers.
    """
    check_tokens(check_kind(tokens, "a tensor")[None])
    for extreme in (tokens.min(), tokens.max()) if tokens.numel() else ():
        check_index("token id", int(extreme), d_vocab)
    return tokens


def check_tokens(tokens: Any) -> None:
    """Raise TypeError for anything but a tensor of whole numbers, of one text or a stack."""
    given = f"{type(tokens).__name__} {getattr(tokens, 'dtype', '')}".strip()
    if "Tensor torch.int" not in given or not tokens.ndim:
        raise TypeError(f"{given} where token ids are wanted: fixed.prepare([text]) makes them")


def crop(
    tokens: Int[Tensor, "*text pos"], length: int, d_vocab: int, n: int, token: int | None = None
) -> Int[Tensor, "*text source"]:
    """Return the first `length` tokens of one text or a stack of texts: those that the query
    position n can attend to.

    Raises ValueError for shorter texts, for ids outside the vocabulary and, where `token` is given,
    for a text with another token at n; TypeError for anything but token ids.
    """
    check_tokens(tokens)
    if tokens.shape[-1] < length:
        raise ValueError(
            f"a text of {tokens.shape[-1]} tokens is too short: position {n} attends to {length}"
        )
    if token is not None and not (tokens[..., n] == token).all():
        raise ValueError(
            f"the token at position {n} is not the query token, {token}, which this model is "
            "decomposed for: fixed.prepare([text]) puts it there"
        )
    return check_ids(tokens[..., :length], d_vocab)
