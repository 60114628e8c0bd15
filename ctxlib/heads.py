"""Kinds of heads, told by their kernels: local, slowly decaying, uniform, remote, and
duplicate-token (paper, Figure 2; chapter 3).
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.checks import check_index, check_kind
from ctxlib.decompose import LayerNormDecomposition, total_variation
from ctxlib.query import FixedQuery
from ctxlib.weights import LayerWeights, layer_norm, project

LOCAL = 15.0  #: fewer effective tokens than this: a local head
BROAD = 40.0  #: more effective tokens than this: a broad head
EVEN = 1 / 3  #: total variation distance to uniform attention below this: a uniform head
COPIES = 2.0  #: nats: a copy of the query token gets e^2, some seven times, what other tokens get


def effective_tokens(rows: Float[Tensor, "*head source"]) -> Float[Tensor, "*head"]:
    """Return `1 / sum_i pos_i^2`: the number of tokens that a row is spread over; k for uniform
    attention over k tokens.

    >>> cx.effective_tokens(torch.tensor([0.25, 0.25, 0.25, 0.25]))
    tensor(4.)
    """
    return 1 / check_kind(rows, "a tensor").square().sum(-1)


def half_mass(rows: Float[Tensor, "*head source"], n: int | None = None) -> Int[Tensor, "*head"]:
    """Return the half-mass distance of each row: the smallest d with `sum_{|n - i| <= d} pos_i >=
    1/2`, in tokens from the query position n, by default the last source.

    Raises ValueError if n is not one of the sources.

    >>> cx.heads.half_mass(torch.tensor([0.1, 0.3, 0.4, 0.2]))
    tensor(1)
    >>> cx.heads.half_mass(torch.tensor([0.1, 0.3, 0.4, 0.2]), n=2)
    tensor(1)
    """
    size = check_kind(rows, "a tensor", None).shape[-1]
    n = size - 1 if n is None else n
    check_index("position", n, size)
    distance = (torch.arange(size, device=rows.device) - n).abs()
    within = torch.zeros_like(rows).index_add_(-1, distance, rows)
    return (within.cumsum(-1) < 0.5).sum(-1)


def copy_preference(weights: LayerWeights, n: int) -> Float[Tensor, " head"]:
    """Return by how many nats each head prefers a copy of the query token to another token.

    It is the content score of t for the query token t, less the mean score of the other tokens for
    that query, averaged over query tokens: 256 tokens spread evenly over the vocabulary, without
    the first, serve as both. Raises ValueError if n is not a position of the model.

    >>> cx.heads.copy_preference(weights, n=256).shape
    torch.Size([8])
    """
    W_E = check_kind(weights, "weights").embeddings()
    # on the CPU, whose rounding is the same wherever the weights are
    tokens = torch.linspace(1, len(W_E) - 1, min(256, len(W_E) - 1), device="cpu").long().unique()
    x = layer_norm(W_E[tokens] + weights.position(n), weights.eps)
    # head dest source
    scores = project(x, weights.W_Q, weights.b_Q) @ project(x, weights.W_K, weights.b_K).mT
    own = scores.diagonal(dim1=1, dim2=2)
    others = (scores.sum(-1) - own) / (len(tokens) - 1)
    return (own - others).mean(-1) / weights.attn_scale


def families(fixed: FixedQuery) -> pd.DataFrame:
    """Return the kind of every head and the reason, one row a head (paper, Figure 2; chapter 3).

    The kernel decides between local, slowly decaying, uniform and remote; among the heads that are
    not local, a strong preference for copies of the query token makes a duplicate-token head. The
    preference comes from `copy_preference`, where there are weights with embeddings; where it is
    not known, the kernel decides alone. Raises TypeError for anything but a fixed query.

    >>> table = cx.families(cx.fix_query(weights, n=256))
    >>> len(table), list(table)[-2:]
    (8, ['family', 'because'])
    >>> kinds = {"local", "slowly decaying", "uniform", "remote", "duplicate-token"}
    >>> set(table["family"]) <= kinds
    True
    >>> set(cx.families(cx.fit_additive(model, passages))["family"]) <= kinds
    True
    """
    copies, approx = None, check_kind(fixed, "a fixed query").decomposition
    if isinstance(approx, LayerNormDecomposition) and approx.weights.W_E is not None:
        copies = copy_preference(approx.weights, fixed.n)
    return family_table(approx.kernels, fixed.n, copies)


def family_table(
    kernels: Float[Tensor, "head source"],
    n: int | None = None,
    copies: Float[Tensor, " head"] | None = None,
) -> pd.DataFrame:
    """Return the table of `families` from kernels at n, by default the last source, and the nats
    for a copy, where they are known.

    >>> even = torch.full((1, 257), 1 / 257)
    >>> cx.heads.family_table(even).loc[0, "family"]
    'uniform'
    """
    unknown = torch.full(check_kind(kernels, "a tensor", None, None).shape[:1], torch.nan)
    n = kernels.shape[1] - 1 if n is None else n
    columns = {
        "effective tokens": effective_tokens(kernels),
        "half-mass distance": half_mass(kernels, n),
        "TV to uniform": total_variation(kernels, torch.full_like(kernels, 1 / kernels.shape[1])),
        "nats for a copy": unknown if copies is None else check_kind(copies, "a tensor"),
    }
    table = pd.DataFrame({name: values.tolist() for name, values in columns.items()})
    named = [family(a, b, c, d, n) for a, b, c, d in table.to_numpy().tolist()]
    table["family"], table["because"] = zip(*named, strict=True)
    table.index.name = "head"
    return table


def family(spread: float, half: float, uneven: float, copies: float, n: int) -> tuple[str, str]:
    """Return the family of one head and the reason in words.

    `spread` is its number of effective tokens, `half` its half-mass distance, `uneven` its total
    variation distance to uniform attention, `copies` its nats for a copy (NaN: unknown), and n the
    query position.

    >>> cx.heads.family(113, 36, 0.56, 0.4, n=500)[0]
    'slowly decaying'
    >>> cx.heads.family(31, 311, 0.19, float("nan"), n=500)
    ('uniform', '19% of the mass is elsewhere than under uniform attention')
    """
    for value in (spread, half, uneven, copies):
        check_kind(value, "a number")
    if spread < LOCAL:
        return "local", f"spread over {spread:.1f} tokens, fewer than {LOCAL:.0f}"
    if copies > COPIES:
        return "duplicate-token", f"prefers a copy by {copies:.1f} nats, more than {COPIES:.0f}"
    if uneven < EVEN:
        return "uniform", f"{uneven:.0%} of the mass is elsewhere than under uniform attention"
    if half > n / 2:
        return "remote", f"half of the mass lies more than {n // 2} tokens back"
    return "slowly decaying", f"spread over {spread:.0f} tokens, half of the mass within {half:.0f}"
