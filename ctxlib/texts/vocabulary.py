"""The vocabulary of a tokenizer: one token by its text or id, tokens as text, which vocabulary it
is, and which of its tokens were never trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ctxlib.checks import as_index, check_index

NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))  # bytes that no UTF-8 text contains: they print, and
# byte-level vocabularies write what prints as itself
SPELT = "The colour of a theatre's 1,984 seats; naïve, größer, 北京.\n"


def token_id(token: str | int, tokenizer: Any, d_vocab: int) -> int:
    """Return the id of a token given as text or as an id.

    Raises ValueError for an id outside the vocabulary, for a text that is not exactly one token,
    and for a text where there is no tokenizer.
    """
    if not isinstance(token, str):
        check_index("token id", token, d_vocab)
        return as_index("token id", token)
    if tokenizer is None:
        raise ValueError(
            f"these weights came without a tokenizer: give the id of {token!r} instead of its text"
        )
    ids = tokenizer.encode(token, add_special_tokens=False)
    if len(ids) != 1:
        raise ValueError(
            f"{token!r} is {len(ids)} tokens in this vocabulary; choose a text that is exactly one"
        )
    return ids[0]


def decode_tokens(reader: Any, ids: Sequence[int]) -> list[str] | list[int]:
    """Return tokens as text, or the ids themselves if there is no tokenizer.

    >>> cx.texts.decode_tokens(weights, [262, 7])
    [' the', "'"]
    """
    return list(ids) if reader.tokenizer is None else [reader.tokenizer.decode([t]) for t in ids]


@lru_cache(maxsize=8)
def vocab_fingerprint(tokenizer: Any) -> str:
    """Return a fingerprint of a tokenizer's vocabulary: a digest of how it encodes a line."""
    ids = tokenizer.encode(SPELT, add_special_tokens=False)
    return hashlib.sha256(f"{len(tokenizer)} {ids}".encode()).hexdigest()[:16]


def untrained_tokens(W_E: Float[Tensor, "vocab d_model"], tokenizer: Any) -> Bool[Tensor, " vocab"]:
    """Mark the glitch tokens: those whose embeddings lie where only never-trained ones do.

    A byte-level vocabulary holds thirteen bytes that no UTF-8 text contains, so no training text
    did either. A token counts as untrained if its embedding is at least as close (by cosine) to
    their mean as the farthest of them is to the mean of the other twelve, and at least 0.5 close.
    The thirteen themselves always count. If the vocabulary does not hold them, or there is no
    tokenizer, no token counts.

    >>> flags = cx.texts.untrained_tokens(weights.W_E, weights.tokenizer)
    >>> flags.shape, bool(flags[weights.token_id(" the")])
    (torch.Size([8192]), False)
    """
    vocabulary = tokenizer.get_vocab() if tokenizer else {}
    never = [vocabulary[chr(byte)] for byte in NEVER if chr(byte) in vocabulary]
    flags = torch.zeros(len(W_E), dtype=torch.bool, device=W_E.device)
    flags[never] = True
    if len(never) < 2:
        return flags
    unit = torch.nn.functional.normalize(W_E, dim=-1)
    total = unit[never].sum(0)
    own = torch.cosine_similarity(unit[never], total - unit[never], dim=-1)
    return flags | (torch.cosine_similarity(unit, total[None], dim=-1) >= own.min().clamp(min=0.5))
