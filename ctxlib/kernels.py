"""Positional kernels: the attention rows that position alone would give (paper, Figure 2)."""

from __future__ import annotations

from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ctxlib.keys import check_position, positional_keys
from ctxlib.weights import LayerWeights, layer_norm, project


def positional_kernels(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head source"]:
    """`pos_{n,i} = softmax_i(q_n . P[n, i] / attn_scale)` for i = 0 ... n,
    with `token` at destination n.

    `token=None` is the query without a token, for checkpoints that come without embeddings:
    `sqrt(d_model) W_pos[n] / sqrt(|W_pos[n]|^2 + C^2)` in place of the normalised residual;
    C must then be given. Raises ValueError for a position that the model does not have and for a
    text that is not one token.
    """
    check_position(weights, n)
    if C is None and weights.W_E is None:
        raise ValueError("these weights came without token embeddings: give C, their typical norm")
    C = weights.typical_norm() if C is None else C
    if token is None:
        here = weights.W_pos[n : n + 1]
        x = here / ((here.square().sum() + C**2) / weights.d_model).sqrt()
    else:
        x = layer_norm(
            weights.embeddings()[weights.token_id(token)] + weights.W_pos[n : n + 1], weights.eps
        )
    q = project(x, weights.W_Q, weights.b_Q)[:, 0]
    scores = einsum(
        q, positional_keys(weights, n, C), "head d_head, head source d_head -> head source"
    )
    return (scores / weights.attn_scale).softmax(-1)


def effective_tokens(rows: Float[Tensor, "*head source"]) -> Float[Tensor, "*head"]:
    """`1 / sum_i pos_i^2`: over how many tokens a row is spread; k for a row that is even over k.

    >>> import torch
    >>> effective_tokens(torch.tensor([0.25, 0.25, 0.25, 0.25]))
    tensor(4.)
    """
    return 1 / rows.square().sum(-1)
