"""One text: a 1-D tensor of token ids that starts with BOS, and the reader that makes it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ctxlib.checks import as_index, check_kind
from ctxlib.texts.vocabulary import begin_token, text_tokens, vocab_fingerprint

CUT = "\ufffd"  # how part of a character is decoded


@dataclass(frozen=True, eq=False)  # a text is itself; tensors have no truth value
class Text:
    """A labelled text.

    `dialect` is en-GB, en-US, en (mixed, or not known), es, fr, de or python; `tokens` starts with
    BOS. `document` is the hash of the document it comes from: texts of one document are not
    independent. `half`, A or B, is the same for all of a document; passages have none.
    `vocabulary` is the fingerprint of the vocabulary of `tokens`; a text without one is not
    checked.

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


@dataclass(frozen=True)
class Reader:
    """A tokenizer, and how many tokens of a text a model is given, BOS included.

    Wherever texts are read, a model, weights or a fixed query will do in its place; a `Reader` of
    one's own is for shorter texts.

    >>> reader = cx.texts.Reader(model.tokenizer, n_ctx=64, d_vocab=8192)
    >>> [len(cx.texts.passages(one)[0].tokens) for one in (reader, weights)]
    [64, 512]
    """

    tokenizer: Any
    n_ctx: int
    d_vocab: int

    @classmethod
    def of(cls, model: Any, n_ctx: int | None = None) -> Reader:
        """Return the reader of a model, of weights or of a fixed query, by default for the whole
        context.

        Raises ValueError for an `n_ctx` that does not fit the model.

        >>> cx.texts.Reader.of(model).n_ctx, cx.texts.Reader.of(model, 128).n_ctx
        (512, 128)
        """
        sizes = getattr(check_kind(model, "a reader"), "cfg", model)
        most = sizes.n_ctx
        if n_ctx is not None and not 2 <= as_index("n_ctx", n_ctx) <= most:
            raise ValueError(f"n_ctx={n_ctx}: choose 2 to {most}, the model's context")
        return cls(model.tokenizer, n_ctx or most, sizes.d_vocab)


def token_ids(text: AnyText, reader: Any) -> Int[Tensor, " pos"]:
    """Return the tokens of a text, on the CPU: of a labelled one, of a plain string, which the
    reader's tokenizer encodes, or token ids as they are.

    Raises ValueError for anything else, for a labelled text in another model's tokens, and for a
    string where there is no tokenizer.

    >>> cx.texts.token_ids(passages[0], weights) is passages[0].tokens
    True
    >>> cx.texts.token_ids("The moon is far away.", weights).shape
    torch.Size([7])
    """
    check_kind(reader, "a reader")
    if isinstance(text, Text):
        own = reader.tokenizer and vocab_fingerprint(reader.tokenizer)
        if own and text.vocabulary not in ("", own):
            raise ValueError(
                f"{text.name} is in the tokens of another model: read the texts with this one's "
                "reader, cx.texts.Reader.of(model)"
            )
        return text.tokens.cpu()
    if isinstance(text, str):
        return encode(reader, text)
    if isinstance(text, Tensor):
        kind = text.dtype
        if text.ndim == 1 and not (kind.is_floating_point or kind.is_complex or kind == torch.bool):
            return text.cpu().long()
        given = f"a tensor of shape {tuple(text.shape)} and {kind}"
    else:
        given = repr(text)[:60]
    raise ValueError(
        f"{given} is no text: give a string, one of cx.texts.passages or cx.texts.collection, "
        "or a 1-D integer tensor of token ids that starts with BOS"
    )


def encode(reader: Any, source: str) -> Int[Tensor, " pos"]:
    """Encode a plain text: BOS and then its tokens, as many as fit the context. A longer text is
    cut, with a warning. Raises ValueError for an empty text.

    >>> ids = cx.texts.encode(weights, "The moon is far away.")
    >>> cx.texts.decode_tokens(weights, ids.tolist())
    ['<|endoftext|>', 'The', ' moon', ' is', ' far', ' away', '.']
    """
    if not check_kind(source, "a string").strip():
        raise ValueError("the text is empty")
    reader = Reader.of(reader)
    ids, most = all_tokens(reader, source), reader.n_ctx
    if len(ids) > most:
        warnings.warn(
            f"the text has {len(ids)} tokens with BOS and the model reads {most}: cut to the first "
            f"{most}, {len(ids) - most} dropped at the end; cx.texts.windows keeps them all",
            stacklevel=2,
        )
    return torch.tensor(ids[:most])


def windows(reader: Any, source: str) -> list[Int[Tensor, " pos"]]:
    """Encode all of a long text in pieces as long as the reader's context, each with BOS in front;
    the rest at the end is dropped. A piece begins a token later where it would begin or end inside
    a character.

    >>> reader = cx.texts.Reader.of(model, 64)
    >>> pieces = cx.texts.windows(reader, passages[0].source)
    >>> len(pieces), {len(piece) for piece in pieces}
    (12, {64})
    """
    reader = Reader.of(reader)
    bos, *ids = all_tokens(reader, source)
    filled, k = reader.n_ctx - 1, 0
    pieces: list[Tensor] = []
    while k + filled <= len(ids):
        piece = ids[k : k + filled]
        words = reader.tokenizer.decode(piece)
        whole = not (words.startswith(CUT) or words.endswith(CUT))
        k += filled if whole else 1
        pieces += [torch.tensor([bos, *piece])] if whole else []
    return pieces


def all_tokens(reader: Any, source: str) -> list[int]:
    """Return BOS and all tokens of a plain text, however many; an encoder's CLS in place of BOS,
    and EOS if there is neither.

    Raises ValueError if there is no tokenizer, and if it has no token to begin a text with.

    >>> len(cx.texts.all_tokens(weights, "The moon and the tide. " * 200)) > weights.n_ctx
    True
    """
    tokenizer = check_kind(reader, "a reader").tokenizer
    if tokenizer is None:
        raise ValueError(
            "a text, and no tokenizer to read it with: load the model with cx.load, "
            "or give token ids, such as those of cx.texts.encode(weights, text)"
        )
    begin, _ = begin_token(tokenizer)
    if begin is None:
        raise ValueError("the tokenizer has no BOS, CLS or EOS token to start a text with")
    return [begin, *text_tokens(tokenizer, source)]
