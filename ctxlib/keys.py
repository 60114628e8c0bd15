"""Equation 1: a key split into what the token is and where it stands.

    key_i = LN(W_E[x_i] + W_pos[i]) W_K                                                 exact
          ~ LN(W_E[x_i] + W_pos[n]) W_K                                                 E[n, x_i]
          + sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)          P[n, i]

(Gibson 2025, Equation 1; derived in chapter 2.) The factor sqrt(d_model) that the paper divides
out is kept inside E and P here, so that `q_n . E[n, t] / attn_scale` is a score. b_K adds
`q_n . b_K` to every source of a row; the softmax removes it, so E and P leave it out.
"""

from __future__ import annotations

import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ctxlib.weights import LayerWeights, check_position, check_tokens, layer_norm

# ---------------------------------------------------------------- the two halves


def content_keys(
    weights: LayerWeights, n: int, tokens: Int[Tensor, " token"] | None = None
) -> Float[Tensor, "head token d_head"]:
    """`E[n, t] = LN(W_E[t] + W_pos[n]) W_K`: the key that token t would have
    at the destination's position.

    `tokens` are the ids t, the whole vocabulary by default. Raises ValueError for a position that
    the model does not have.

    >>> E = cx.content_keys(weights, n=99, tokens=tokens[:100])
    >>> E.shape
    torch.Size([8, 100, 32])
    """
    check_position(weights, n)
    W_E = weights.embeddings()
    chosen = W_E if tokens is None else W_E[check_tokens(weights, tokens)]
    return einsum(
        layer_norm(chosen + weights.W_pos[n], weights.eps),
        weights.W_K,
        "token d_model, head d_model d_head -> head token d_head",
    )


def positional_keys(
    weights: LayerWeights, n: int, C: float | None = None
) -> Float[Tensor, "head pos d_head"]:
    """`P[n, i] = sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)`
    for i = 0 ... n; zero at i = n.

    `C` defaults to the median norm of a token embedding. Raises ValueError for a position that the
    model does not have and for a C that is not positive.

    >>> P = cx.positional_keys(weights, n=99)
    >>> P.shape, P[:, 99].abs().max().item()
    (torch.Size([8, 100, 32]), 0.0)
    """
    shift = positional_shift(weights, n, C)
    return einsum(shift, weights.W_K, "pos d_model, head d_model d_head -> head pos d_head")


def positional_shift(
    weights: LayerWeights, n: int, C: float | None = None
) -> Float[Tensor, "pos d_model"]:
    """`sqrt(d_model) (W_pos[i] - W_pos[n]) / sqrt(|W_pos[i]|^2 + C^2)` for i = 0 ... n: what a
    position adds to a normalised residual, in the eyes of any linear map behind it. Errors as in
    `positional_keys`.

    >>> shift = cx.keys.positional_shift(weights, n=99)
    >>> torch.allclose(shift @ weights.W_K[4], cx.positional_keys(weights, n=99)[4], atol=1e-3)
    True
    """
    check_position(weights, n)
    return (weights.W_pos[: n + 1] - weights.W_pos[n]) / shared_scale(weights, C)[: n + 1, None]


def shared_scale(weights: LayerWeights, C: float | None = None) -> Float[Tensor, " n_ctx"]:
    """`sqrt(|W_pos[i]|^2 + C^2) / sqrt(d_model)`: LayerNorm's scale at position i
    for a token of typical norm.

    >>> exact = cx.layer_norm_scale(weights.residual(tokens), weights.eps)[:, 0]
    >>> (exact / cx.keys.shared_scale(weights)).mean().round(decimals=1)
    tensor(1.)
    """
    C = typical_norm(weights, C)
    return ((weights.W_pos.square().sum(-1) + C**2) / weights.d_model).sqrt()


def content_scale(
    weights: LayerWeights, n: int, tokens: Int[Tensor, " token"] | None = None
) -> Float[Tensor, " token"]:
    """`sqrt(|W_E[t] + W_pos[n]|^2 / d_model + eps)`: LayerNorm's scale for token t at the
    destination's position. From the three products, so that for a whole vocabulary the sum itself
    need not be formed. Errors as in `content_keys`.

    >>> scale = cx.keys.content_scale(weights, n=99, tokens=tokens[:5])
    >>> own = cx.layer_norm_scale(weights.W_E[tokens[:5]] + weights.W_pos[99], weights.eps)
    >>> torch.allclose(scale, own[:, 0], atol=1e-3)
    True
    """
    check_position(weights, n)
    W_E, here = weights.embeddings(), weights.W_pos[n]
    chosen = W_E if tokens is None else W_E[check_tokens(weights, tokens)]
    squared = torch.linalg.vector_norm(chosen, dim=-1).square() + 2 * (chosen @ here) + here @ here
    return (squared / weights.d_model + weights.eps).sqrt()


# ---------------------------------------------------------------- one row


def exact_scores(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], n: int
) -> Float[Tensor, "head source"]:
    """`q_n . key_i / attn_scale` for i = 0 ... n, b_K included.

    >>> scores = cx.exact_scores(weights, tokens, n=99)
    >>> scores.shape
    torch.Size([8, 100])
    >>> torch.allclose(scores.softmax(-1), cx.attention_rows(weights, tokens, n=99))
    True
    """
    check_destination(weights, tokens, n)
    tokens = tokens[: n + 1]
    scores = einsum(
        weights.queries(tokens)[:, n],
        weights.keys(tokens),
        "head d_head, head source d_head -> head source",
    )
    return scores / weights.attn_scale


def rebuilt_scores(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], n: int, C: float | None = None
) -> Float[Tensor, "head source"]:
    """`q_n . (E[n, x_i] + P[n, i]) / attn_scale` for i = 0 ... n:
    Equation 1 in place of the key.

    >>> exact = cx.exact_scores(weights, tokens, n=99)
    >>> rebuilt = cx.rebuilt_scores(weights, tokens, n=99)
    >>> torch.corrcoef(torch.stack([exact[4], rebuilt[4]]))[0, 1].round(decimals=2)
    tensor(1.)
    """
    check_destination(weights, tokens, n)
    tokens = weights.check_text(tokens[: n + 1])
    split = content_keys(weights, n, tokens) + positional_keys(weights, n, C)
    return (
        einsum(
            weights.queries(tokens)[:, n], split, "head d_head, head source d_head -> head source"
        )
        / weights.attn_scale
    )


def attention_rows(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], n: int
) -> Float[Tensor, "head source"]:
    """The attention row of every head at destination n, exact;
    each row sums to 1 over the sources 0 ... n.

    Raises ValueError for n outside the text, for layers other than the first, and for tokens that
    do not fit the model.

    >>> rows = cx.attention_rows(weights, tokens, n=99)
    >>> rows.shape
    torch.Size([8, 100])
    >>> rows.argmax(-1)  # where each head looks most
    tensor([98, 98, 28, 96, 93, 89, 93, 96])
    """
    return exact_scores(weights, tokens, n).softmax(-1)


def rebuilt_rows(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], n: int, C: float | None = None
) -> Float[Tensor, "head source"]:
    """The attention rows that Equation 1 gives at destination n.

    Errors as in `attention_rows` and `positional_keys`.

    >>> exact = cx.attention_rows(weights, tokens, n=99)
    >>> rebuilt = cx.rebuilt_rows(weights, tokens, n=99)
    >>> cx.total_variation(exact, rebuilt).round(decimals=2)
    tensor([0.0200, 0.0200, 0.0100, 0.0300, 0.0200, 0.0400, 0.0300, 0.0200])
    """
    return rebuilt_scores(weights, tokens, n, C).softmax(-1)


# ---------------------------------------------------------------- every row of a text at once


def attention_pattern(
    weights: LayerWeights, tokens: Int[Tensor, " pos"]
) -> Float[Tensor, "head dest source"]:
    """`attention_rows` at every destination; zero above the diagonal.

    >>> pattern = cx.attention_pattern(weights, tokens)
    >>> pattern.shape
    torch.Size([8, 512, 512])
    >>> rows = cx.attention_rows(weights, tokens, n=99)
    >>> torch.allclose(pattern[:, 99, :100], rows, atol=1e-4)
    True
    """
    scores = einsum(
        weights.queries(tokens),
        weights.keys(tokens),
        "head dest d_head, head source d_head -> head dest source",
    )
    return causal_softmax(scores / weights.attn_scale)


def rebuilt_pattern(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], C: float | None = None
) -> Float[Tensor, "head dest source"]:
    """`rebuilt_rows` at every destination, in three matrix products instead of one per
    destination.

    >>> pair = cx.attention_pattern(weights, tokens), cx.rebuilt_pattern(weights, tokens)
    >>> cx.total_variation(*pair).mean(-1).round(decimals=2)
    tensor([0.0100, 0.0200, 0.0200, 0.0700, 0.0300, 0.0500, 0.0500, 0.0300])
    """
    content, position = split_scores(weights, tokens, weights.queries(tokens), C)
    return causal_softmax(content + position)


def split_scores(
    weights: LayerWeights,
    tokens: Int[Tensor, " pos"],
    q: Float[Tensor, "head pos d_head"],
    C: float | None = None,
) -> tuple[Float[Tensor, "head dest source"], Float[Tensor, "head dest source"]]:
    """`q_n . E[n, x_i] / attn_scale` and `q_n . P[n, i] / attn_scale` for all destinations n and
    sources i of a text, with any query at each destination.

    Both halves of the key are linear in `W_E[x_i]`, `W_pos[i]` and `W_pos[n]` up to a scale that
    depends on the pair (n, i), so the query meets the two projections once and the scales are
    applied to the scores. What lies above the diagonal means nothing. Errors as in
    `LayerWeights.residual`.

    >>> q = weights.queries(tokens)
    >>> content, position = cx.keys.split_scores(weights, tokens, q)
    >>> rows = cx.keys.causal_softmax(content + position)
    >>> torch.allclose(rows, cx.rebuilt_pattern(weights, tokens), atol=1e-4)
    True
    """
    tokens = weights.check_text(tokens)
    W_E, W_pos = weights.embeddings()[tokens], weights.W_pos[: len(tokens)]
    what, where = (
        einsum(x, weights.W_K, "source d_model, head d_model d_head -> head source d_head")
        for x in (W_E, W_pos)
    )
    q_what, q_where = (
        einsum(q, k, "head dest d_head, head source d_head -> head dest source")
        for k in (what, where)
    )
    q_here = q_where.diagonal(dim1=1, dim2=2)[..., None]  # q_n . W_pos[n] W_K
    content = (q_what + q_here) / (pair_scale(weights, tokens) * weights.attn_scale)
    position = (q_where - q_here) / (shared_scale(weights, C)[: len(tokens)] * weights.attn_scale)
    return content, position


def pair_scale(weights: LayerWeights, tokens: Int[Tensor, " pos"]) -> Float[Tensor, "dest source"]:
    """LayerNorm's scale of `W_E[x_i] + W_pos[n]` for all destinations n and sources i.

    >>> scales = cx.keys.pair_scale(weights, tokens)
    >>> own = cx.layer_norm_scale(weights.residual(tokens), weights.eps)[:, 0]
    >>> scales.shape, torch.allclose(scales.diagonal(), own, atol=1e-3)
    (torch.Size([512, 512]), True)
    """
    tokens = tokens.to(weights.device)
    W_E, W_pos = weights.embeddings()[tokens], weights.W_pos[: len(tokens)]
    squared = W_E.square().sum(-1) + 2 * W_pos @ W_E.T + W_pos.square().sum(-1)[:, None]
    return (squared / weights.d_model + weights.eps).sqrt()


def causal_softmax(scores: Float[Tensor, "head dest source"]) -> Float[Tensor, "head dest source"]:
    """Softmax over the sources that a destination may see.

    >>> cx.keys.causal_softmax(torch.zeros(1, 3, 3))
    tensor([[[1.0000, 0.0000, 0.0000],
             [0.5000, 0.5000, 0.0000],
             [0.3333, 0.3333, 0.3333]]])
    """
    return scores.masked_fill(future(scores.shape[-1], scores.device), float("-inf")).softmax(-1)


def future(n: int, device: torch.device | None = None) -> Bool[Tensor, "dest source"]:
    """True where the source comes after the destination."""
    return torch.ones(n, n, dtype=torch.bool, device=device).triu(1)


# ---------------------------------------------------------------- how far apart


def total_variation(
    a: Float[Tensor, "*batch source"], b: Float[Tensor, "*batch source"]
) -> Float[Tensor, "*batch"]:
    """`TV = 1/2 sum_i |a_i - b_i|`, the share of the attention that one row has elsewhere
    than the other: 0 to 1.

    >>> cx.total_variation(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
    tensor(0.5000)
    """
    return (a - b).abs().sum(-1) / 2


# ---------------------------------------------------------------- bad input


def check_destination(weights: LayerWeights, tokens: Int[Tensor, "*text pos"], n: int) -> None:
    check_position(weights, n)
    length = tokens.shape[-1]
    if n >= length:
        raise ValueError(
            f"destination {n} lies outside the text, which has positions 0 to {length - 1}"
        )


def typical_norm(weights: LayerWeights, C: float | None) -> float:
    """C where it is given, else the median norm of W_E, which the weights must then have."""
    if C is None and weights.W_E is None:
        raise ValueError("these weights came without token embeddings: give C, their typical norm")
    C = weights.typical_norm() if C is None else C
    if not C > 0:
        raise ValueError(f"C={C}: the typical norm of a token embedding is a positive number")
    return C
