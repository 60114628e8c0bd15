"""Fix a query: of a model, of weights, or of a stored layer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ctxlib.additive import fit_additive
from ctxlib.checks import check_kind
from ctxlib.decompose import LayerNormDecomposition
from ctxlib.exact import ExactFromWeights
from ctxlib.models.loading import Encoder
from ctxlib.query import FixedQuery
from ctxlib.store import load_layer
from ctxlib.texts.batching import check_texts
from ctxlib.texts.sources import collection
from ctxlib.texts.text import AnyText, Reader, token_ids
from ctxlib.weights import LayerWeights, has_positions

TEXTS = 200  # of the book's, where they only say how common tokens are
FAR = 256  # a position in contexts that are longer than any page


def fix_query(
    of: Any,
    texts: Sequence[AnyText] | None = None,
    n: int | None = None,
    token: str | int | None = " the",
    C: float | None = None,
) -> FixedQuery:
    """Fix the query token and its position n for a model loaded with `cx.load`, for
    `LayerWeights`, or for a stored layer, given by its file or name.

    A model that adds learned positions to its embeddings, decoder or encoder, is decomposed by
    Equation 1; C is its typical norm of a token embedding, by default the median one. Any other
    model gets the additive decomposition (chapter 13), for which `texts` say how common tokens are,
    by default some of the book's. n is by default the middle of the context, as in the paper, or
    256 where no context is learned, but at most the end of the shortest of the texts (in an
    encoder, its middle). `token=None` fixes the query without a token, for weights that came
    without embeddings.

    Raises TypeError for arguments that a stored layer or a fixed query already has, for a C or no
    token where there is no Equation 1, and for a model that cx.load did not read; ValueError if n
    is not a position of the model, if `token` is not exactly one token, and as `LayerWeights.of` or
    `fit_additive` do.

    >>> fixed = cx.fix_query(model)
    >>> fixed.n, fixed.tokenizer.decode([fixed.token])
    (256, ' the')
    """
    if isinstance(of, FixedQuery):
        raise TypeError("this is a fixed query already: it has its own n, token, C and texts")
    if isinstance(of, str | os.PathLike):
        if (texts, n, token, C) != (None, None, " the", None):
            raise TypeError("a stored layer knows its n, token, C and texts: give none of them")
        return load_layer(of)
    if not isinstance(of, LayerWeights) and not has_positions(check_kind(of, "a model")):
        if C is not None or token is None:
            raise TypeError(
                "C and token=None are for models with learned positions, which this model lacks"
            )
        reader = Reader.of(of)
        texts = collection(reader, TEXTS) if texts is None else texts
        n = position(texts, reader, FAR, isinstance(of, Encoder)) if n is None else n
        return fit_additive(of, texts, n, token)
    weights = of if isinstance(of, LayerWeights) else LayerWeights.of(of)
    d_vocab = 0 if weights.W_E is None else weights.d_vocab
    reader = Reader(weights.tokenizer, weights.n_ctx, d_vocab)
    if n is None:
        known = () if texts is None else texts
        n = position(known, reader, weights.n_ctx // 2, weights.both_sides)
    approx = LayerNormDecomposition.of(weights, n, token, C)
    return FixedQuery(approx, ExactFromWeights(weights, approx.n), reader)


def position(texts: Sequence[AnyText], reader: Reader, most: int, both_sides: bool) -> int:
    """Return the end of the shortest text, in an encoder its middle; at most `most`."""
    check_texts(texts)
    shortest = min([reader.n_ctx, *(len(token_ids(text, reader)) for text in texts)])
    return min(most, shortest // 2 if both_sides else shortest - 1)
