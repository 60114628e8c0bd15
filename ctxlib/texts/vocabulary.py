"""The vocabulary of a tokenizer: how its tokens are spelled, which of them begins a text, which
embeddings have no token, and which tokens were never trained.

A byte-level vocabulary (GPT-2, Llama 3, Qwen) writes each byte as a letter. Others (Llama 2, Gemma)
spell words, mark a space by "\u2581", and fall back to bytes written "<0x0A>"; WordPiece (BERT)
marks what continues a word by "##".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from tokenizers import Tokenizer
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import cosine_similarity, normalize

from ctxlib.checks import as_index, as_indices, check_ids, check_index, check_kind

NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))  # bytes that no UTF-8 text contains
SPACE = "\u2581"  # how SentencePiece spells it
SEPARATORS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")  # what parts documents
SPELT = "The colour of a theatre's 1,984 seats; naïve, größer, 北京.\n"
SIGNS = "e\u0301 \ufb01 \u200d \U0001f600"  # letters put together, and none
PROBES = (SPELT, " the  The THE", "\tdef f(x):\n    return x\n\n", SIGNS)


# ---------------------------------------------------------------- one token


def token_id(token: str | int, tokenizer: Any, d_vocab: int) -> int:
    """Return the id of a token given as text or as an id.

    Raises ValueError for an id outside the vocabulary, for a text that is not exactly one token,
    and for a text where there is no tokenizer.

    >>> cx.texts.token_id(" the", weights.tokenizer, d_vocab=8192)
    262
    """
    if not isinstance(token, str):
        check_index("token id", token, d_vocab)
        return as_index("token id", token)
    if tokenizer is None:
        raise ValueError(
            f"these weights came without a tokenizer: give the id of {token!r} instead of its text"
        )
    ids = check_kind(tokenizer, "a tokenizer").encode(token, add_special_tokens=False)
    if len(ids) != 1:
        raise ValueError(
            f"{token!r} is {len(ids)} tokens in this vocabulary; choose a text that is exactly one"
        )
    return ids[0]


def decode_tokens(reader: Any, ids: Sequence[int]) -> list[str] | list[int]:
    """Return tokens as text, each as it stands inside a text: " the" and "the" differ, and so do
    "##ing" and "ing". Return the ids themselves if there is no tokenizer.

    >>> cx.texts.decode_tokens(weights, [262, 7])
    [' the', "'"]
    """
    tokenizer = check_kind(reader, "a reader").tokenizer
    ids = as_indices("token id", ids)
    check_ids(torch.tensor(ids, device="cpu").long(), getattr(reader, "cfg", reader).d_vocab)
    if tokenizer is None:
        return ids
    # decoded alone, a token of SentencePiece would lose the space in front of it
    pieces = [str(tokenizer.convert_ids_to_tokens(t)) for t in ids]
    return [
        p.replace(SPACE, " ") if p.startswith(SPACE) else tokenizer.decode([t])
        for p, t in zip(pieces, ids, strict=True)
    ]


# ---------------------------------------------------------------- the whole vocabulary


@lru_cache(maxsize=8)
def vocab_fingerprint(tokenizer: Any) -> str:
    """Return a fingerprint of a tokenizer's vocabulary: a digest of how it encodes a line."""
    ids = tokenizer.encode(SPELT, add_special_tokens=False)
    return hashlib.sha256(f"{len(tokenizer)} {ids}".encode()).hexdigest()[:16]


def is_byte_level(tokenizer: Any) -> bool:
    """Return whether a vocabulary writes each byte as a letter, as GPT-2's does.

    >>> cx.texts.is_byte_level(weights.tokenizer)
    True
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return hasattr(tokenizer, "byte_encoder") or "ByteLevel" in str(getattr(backend, "decoder", ""))


def without_token(tokenizer: Any, d_vocab: int) -> Bool[Tensor, " vocab"]:
    """Mark the rows of the embeddings that no token has: models pad their vocabulary.

    >>> cx.texts.without_token(weights.tokenizer, d_vocab=8200).sum()
    tensor(8)
    """
    check_index("token id", 0, d_vocab)
    known = check_kind(tokenizer, "a tokenizer").get_vocab().values()
    ids = torch.tensor([t for t in known if t < d_vocab], device="cpu").long()
    return torch.ones(d_vocab, dtype=torch.bool, device="cpu").index_fill_(0, ids, False)


def untrained_tokens(W_E: Float[Tensor, "vocab d_model"], tokenizer: Any) -> Bool[Tensor, " vocab"]:
    """Mark the glitch tokens: rows without a token, and tokens whose embeddings lie where only
    never-trained ones do.

    A vocabulary of bytes holds thirteen that no UTF-8 text contains, so no training text did
    either. A token counts as untrained if its embedding is at least as close (by cosine) to their
    mean as the farthest of them is to the mean of the other twelve, and at least 0.5 close. The
    thirteen themselves always count. If the vocabulary does not hold them, no token counts; if
    there is no tokenizer, no row either.

    >>> flags = cx.texts.untrained_tokens(weights.W_E, weights.tokenizer)
    >>> flags.shape, bool(flags[weights.token_id(" the")])
    (torch.Size([8192]), False)
    """
    check_kind(W_E, "a tensor", None, None)
    if tokenizer is None:
        return torch.zeros(len(W_E), dtype=torch.bool, device=W_E.device)
    flags = without_token(tokenizer, len(W_E)).to(W_E.device)
    # only where letters are bytes is the letter \u00f7 a byte that no text contains
    spelled = chr if is_byte_level(tokenizer) else "<0x{:02X}>".format
    vocabulary = tokenizer.get_vocab()
    never = [vocabulary[spelled(byte)] for byte in NEVER if spelled(byte) in vocabulary]
    flags[never] = True
    if len(never) < 2:
        return flags
    unit = normalize(W_E[never], dim=-1)
    total = unit.sum(0)
    own = cosine_similarity(unit, total - unit, dim=-1)
    # no copy of the vocabulary is made
    cosine = W_E @ total / (vector_norm(W_E, dim=-1) * total.norm()).clamp_min(1e-12)
    return flags | (cosine >= own.min().clamp(min=0.5))


# ---------------------------------------------------------------- from a text to its tokens


def begin_token(tokenizer: Any, config: Any = None) -> tuple[int | None, str]:
    """Return the id of the token that begins a text, and where that is said: in the model's
    configuration, in the tokenizer (BOS, an encoder's CLS), or by what parts documents where
    neither says it. The id is None if the vocabulary has no such token.

    An instruct model's EOS ends a turn of a chat, and begins no document. A configuration's id
    counts only if it is an added token of the tokenizer, since configurations set default ids.

    >>> cx.texts.begin_token(weights.tokenizer)
    (0, "the tokenizer's BOS")
    """
    check_kind(tokenizer, "a tokenizer")
    named = getattr(config, "bos_token_id", None)
    if isinstance(named, int) and named in getattr(tokenizer, "added_tokens_decoder", {}):
        return named, "the configuration's BOS"
    for kind in ("bos", "cls"):
        if (mark := getattr(tokenizer, f"{kind}_token_id")) is not None:
            return mark, f"the tokenizer's {kind.upper()}"
    vocabulary = tokenizer.get_vocab()
    for mark in SEPARATORS:
        if mark in vocabulary:
            return vocabulary[mark], "what parts documents"
    return tokenizer.eos_token_id, "the tokenizer's EOS"


def text_tokens(tokenizer: Any, source: str) -> list[int]:
    """Return the tokens of a text, however many, without a token in front. A text that quotes a
    special token, such as `<|endoftext|>`, is read as it is written, letter by letter.

    Raises ValueError for half a character (a lone surrogate).

    >>> len(cx.texts.text_tokens(weights.tokenizer, "<|endoftext|>")) > 1
    True
    """
    try:
        check_kind(source, "a string").encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character at {error.start} (a lone surrogate)") from error
    options = {"add_special_tokens": False, "split_special_tokens": True}
    # more than the model reads, on purpose: `encode` cuts, and says so
    return check_kind(tokenizer, "a tokenizer").encode(source, verbose=False, **options)


def check_ids_apart(tokenizer: Any) -> None:
    """Raise ValueError if two words have the same id: a copy of the tokenizer would lose one."""
    words: dict[int, str] = {}
    for word, number in tokenizer.get_vocab().items():
        if number in words:
            both = f"{words[number]!r} and {word!r}"
            raise ValueError(f"two words of the tokenizer, {both}, have the same id, {number}")
        words[number] = word


def reads_as(tokenizer: Any, file: Path) -> bool:
    """Return whether a tokenizer gives the tokens that its own tokenizer.json gives."""
    own = Tokenizer.from_file(str(file))
    own.no_padding()
    own.no_truncation()
    return all(
        tokenizer.encode(text, add_special_tokens=False)
        == own.encode(text, add_special_tokens=False).ids
        for text in PROBES
    )
