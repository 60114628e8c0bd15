"""Positional kernels: the attention rows that position alone would give (paper, Figure 2),
and what is left of a head beside its kernel: how it weighs tokens.
"""

from __future__ import annotations

import pandas as pd
import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.keys import (
    content_scale,
    positional_keys,
    total_variation,
    typical_norm,
)
from ctxlib.weights import LayerWeights, check_position, check_tokens, layer_norm, project

LOCAL = 15.0  #: fewer effective tokens than this: a local head
BROAD = 40.0  #: more effective tokens than this: a broad head
EVEN = 1 / 3  #: total variation distance to an even row below this: a uniform head
COPIES = 2.0  #: nats: a copy of the destination gets e^2, some seven times, what other tokens get

# ---------------------------------------------------------------- the two factors of a row


def destination_query(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head d_head"]:
    """`q_n` of `token` at destination n, the same in every text.

    `token=None` is the query without a token, for checkpoints that come without embeddings:
    `sqrt(d_model) W_pos[n] / sqrt(|W_pos[n]|^2 + C^2)` in place of the normalised residual.
    Errors as in `positional_kernels`.

    >>> cx.destination_query(weights, n=256, token=" of").shape
    torch.Size([8, 32])
    """
    check_position(weights, n)
    here = weights.W_pos[n : n + 1]
    if token is None:
        C = typical_norm(weights, C)
        x = here / ((here.square().sum() + C**2) / weights.d_model).sqrt()
    else:
        x = layer_norm(weights.embeddings()[weights.token_id(token)] + here, weights.eps)
    return project(x, weights.W_Q, weights.b_Q)[:, 0]


def positional_scores(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head source"]:
    """`q_n . P[n, i] / attn_scale` for i = 0 ... n, with `token` at destination n; zero at i = n.

    Errors as in `positional_kernels`.

    >>> scores = cx.positional_scores(weights, n=256)
    >>> scores.shape, scores[:, 256].abs().max().item()
    (torch.Size([8, 257]), 0.0)
    """
    C = typical_norm(weights, C)
    q = destination_query(weights, n, token, C)
    where = positional_keys(weights, n, C)
    return einsum(q, where, "head d_head, head source d_head -> head source") / weights.attn_scale


def positional_kernels(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head source"]:
    """`pos_{n,i} = softmax_i(q_n . P[n, i] / attn_scale)` for i = 0 ... n,
    with `token` at destination n.

    `token=None` is the query without a token, for checkpoints that come without embeddings;
    C must then be given. Raises ValueError for a position that the model does not have and for a
    text that is not one token.

    >>> kernels = cx.positional_kernels(weights, n=256)
    >>> kernels.shape
    torch.Size([8, 257])
    >>> cx.effective_tokens(kernels).round()
    tensor([  2.,   1., 224.,  58., 141.,  88.,  32.,   8.])
    """
    return positional_scores(weights, n, token, C).softmax(-1)


def content_scores(
    weights: LayerWeights,
    n: int,
    token: str | int = " the",
    tokens: Int[Tensor, " token"] | None = None,
) -> Float[Tensor, "head token"]:
    """`log content_n(t) = q_n . E[n, t] / attn_scale`: how a head with `token` at destination n
    weighs every token t, in nats (chapter 3).

    `tokens` are the ids t, the whole vocabulary by default. Only differences between tokens of
    one head mean anything. Errors as in `positional_kernels`.

    >>> scores = cx.content_scores(weights, n=256)
    >>> cx.neurons.spelled(weights, scores[4].topk(4).indices.tolist())
    ['itizenship', 'plomatic', 'Mode', 'Directions']
    """
    q = destination_query(weights, n, token)
    W_E = weights.embeddings()
    chosen = W_E if tokens is None else W_E[check_tokens(weights, tokens)]
    # the query meets W_K first: d_model numbers a head instead of d_head numbers a head and token
    asked = einsum(q, weights.W_K, "head d_head, head d_model d_head -> head d_model")
    scale = content_scale(weights, n, tokens) * weights.attn_scale
    return (asked @ chosen.T + (asked @ weights.W_pos[n])[:, None]) / scale


# ---------------------------------------------------------------- the shape of a kernel


def effective_tokens(rows: Float[Tensor, "*head source"]) -> Float[Tensor, "*head"]:
    """`1 / sum_i pos_i^2`: over how many tokens a row is spread; k for a row that is even over k.

    >>> cx.effective_tokens(torch.tensor([0.25, 0.25, 0.25, 0.25]))
    tensor(4.)
    """
    return 1 / rows.square().sum(-1)


def half_mass(rows: Float[Tensor, "*head source"]) -> Int[Tensor, "*head"]:
    """How far back from the destination half of a row's mass reaches: the smallest d with
    `sum_{i >= n - d} pos_i >= 1/2`, in tokens.

    >>> cx.half_mass(torch.tensor([0.1, 0.3, 0.4, 0.2]))
    tensor(1)
    """
    return (rows.flip(-1).cumsum(-1) < 0.5).sum(-1)


def by_distance(rows: Float[Tensor, "*head source"], reach: int) -> Float[Tensor, "*head distance"]:
    """Rows over the distance `n - i = 0 ... reach` in place of the position, summing to 1 there,
    so that rows at different destinations can be compared.

    Raises ValueError for a reach that goes back beyond position 0.

    >>> cx.by_distance(torch.tensor([0.5, 0.1, 0.4]), reach=1)
    tensor([0.8000, 0.2000])
    """
    if not 0 <= reach < rows.shape[-1]:
        raise ValueError(f"reach {reach}: these rows go back 0 to {rows.shape[-1] - 1} tokens")
    near = rows.flip(-1)[..., : reach + 1]
    return near / near.sum(-1, keepdim=True)


# ---------------------------------------------------------------- families


def copy_preference(
    weights: LayerWeights, n: int, tokens: Int[Tensor, " token"] | None = None
) -> Float[Tensor, " head"]:
    """By how many nats a head prefers a copy of the destination token to another token.

    The content score of t for the destination t, less the mean score of the other tokens for that
    destination, averaged over destinations. `tokens` are the distinct ids that serve as both, by
    default 256 spread evenly over the vocabulary. Raises ValueError for fewer than two.

    >>> (cx.copy_preference(weights, n=256) > 2).nonzero()[:, 0]  # heads, by index
    tensor([0, 2])
    """
    check_position(weights, n)
    W_E = weights.embeddings()
    if tokens is None:
        tokens = torch.linspace(1, len(W_E) - 1, min(256, len(W_E) - 1)).long()
    tokens = check_tokens(weights, tokens).unique()
    if len(tokens) < 2:
        raise ValueError("a preference needs at least two different tokens")
    x = layer_norm(W_E[tokens] + weights.W_pos[n], weights.eps)
    q, k = project(x, weights.W_Q, weights.b_Q), project(x, weights.W_K, weights.b_K)
    scores = einsum(q, k, "head dest d_head, head source d_head -> head dest source")
    own = scores.diagonal(dim1=1, dim2=2)
    others = (scores.sum(-1) - own) / (len(tokens) - 1)
    return (own - others).mean(-1) / weights.attn_scale


def families(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> pd.DataFrame:
    """What kind of head each one is, and why: one row a head (paper, Figure 2; chapter 3).

    The kernel decides between local, slowly decaying, uniform and remote; among the heads that
    are not local, a strong preference for copies of the destination makes a duplicate-token
    head. Without token embeddings (`token=None`, C given) the kernel decides alone. Errors as in
    `positional_kernels`.

    >>> table = cx.families(weights, n=256)
    >>> table.loc[[0, 2, 4], "family"].tolist()
    ['local', 'duplicate-token', 'slowly decaying']
    >>> table.loc[4, "because"]
    'spread over 141 tokens, half of the mass within 47'
    """
    kernels = positional_kernels(weights, n, token, C)
    unknown = torch.full((weights.n_heads,), torch.nan)
    return family_table(kernels, unknown if weights.W_E is None else copy_preference(weights, n))


def family_table(
    kernels: Float[Tensor, "head source"], copies: Float[Tensor, " head"]
) -> pd.DataFrame:
    """The table of `families` from kernels and `copies`, nats for a copy (NaN: unknown).

    >>> kernels = cx.positional_kernels(weights, n=256)
    >>> cx.kernels.family_table(kernels, torch.full((8,), torch.nan)).loc[2, "family"]
    'uniform'
    """
    n = kernels.shape[1] - 1
    columns = {
        "effective tokens": effective_tokens(kernels),
        "half of the mass within": half_mass(kernels),
        "TV to uniform": total_variation(kernels, torch.full_like(kernels, 1 / (n + 1))),
        "nats for a copy": copies,
    }
    table = pd.DataFrame({name: values.tolist() for name, values in columns.items()})
    named = [family(a, b, c, d, n) for a, b, c, d in table.to_numpy().tolist()]
    table["family"], table["because"] = zip(*named, strict=True)
    table.index.name = "head"
    return table


def family(spread: float, half: float, uneven: float, copies: float, n: int) -> tuple[str, str]:
    """The family of one head and the reason in words.

    `spread` effective tokens, half of the mass within `half` tokens, `uneven` its TV to an even
    row, `copies` nats for a copy (NaN: unknown), destination n.

    >>> cx.kernels.family(113, 36, 0.56, 0.4, n=500)[0]
    'slowly decaying'
    >>> cx.kernels.family(31, 311, 0.19, float("nan"), n=500)
    ('uniform', '19% of the mass is elsewhere than in an even row')
    """
    if spread < LOCAL:
        return "local", f"spread over {spread:.1f} tokens, fewer than {LOCAL:.0f}"
    if copies > COPIES:
        return "duplicate-token", f"prefers a copy by {copies:.1f} nats, more than {COPIES:.0f}"
    if uneven < EVEN:
        return "uniform", f"{uneven:.0%} of the mass is elsewhere than in an even row"
    if half > n / 2:
        return "remote", f"half of the mass lies more than {n // 2} tokens back"
    return "slowly decaying", f"spread over {spread:.0f} tokens, half of the mass within {half:.0f}"
