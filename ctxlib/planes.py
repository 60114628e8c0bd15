"""Planes: what kernel and content leave out of a row, as a few numbers a position and a token
(chapter 10).

    score(i, t) = log pos_i + log content(t) + interaction(i, t)        exact, for a fixed query
    interaction(i, t) ~ sum_k a_k(i) b_k(t)

For rotary positions the interaction is `(g_i - mean g) . (x_t - mean x)`. It is a table of sources
by tokens. A plane is one of its leading singular vectors, with the kernel as the weight of a source
and a token's frequency as that of a token, so that the first planes lower the divergence between
the approximate rows and the exact ones most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.checks import as_indices, check_ids, check_kind
from ctxlib.decompose import Decomposition, Entries, Texts
from ctxlib.query import FixedQuery
from ctxlib.texts.batching import progress
from ctxlib.texts.text import AnyText

TOKENS_AT_A_TIME = 512
NOISE = 1e-12  # of the largest eigenvalue: smaller ones are rounding


@dataclass(frozen=True, eq=False, repr=False)
class PlanesDecomposition(Decomposition):
    """Another decomposition, `base`, with planes of interaction in its scores. `by_source` holds
    `a_k(i)` and `by_token` holds `b_k(t)`; planes that a head does without are zero. Make a fixed
    query with it by `add_planes`.

    Kernels, content and denominators are those of `base`. A circuit has one number for each token,
    so it leaves the planes out; a self-normalised circuit takes them in.

    >>> approx = cx.planes.add_planes(fixed, passages, planes=2).decomposition
    >>> approx.by_source.shape, approx.by_token.shape
    (torch.Size([8, 2, 257]), torch.Size([8, 2, 8192]))
    """

    base: Decomposition
    by_source: Float[Tensor, "head plane source"]
    by_token: Float[Tensor, "head plane vocab"]

    def __getattr__(self, name: str) -> Any:
        """Return what is the base's own: n, token, kernels, content, the path to the neurons."""
        return getattr(vars(self).get("base"), name)  # None while a copy of it is made

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        return self.base.values(heads)

    def z(self, x: Texts, rows: Entries) -> Float[Tensor, "*text head d_head"]:
        return self.base.z(x, rows)

    def factors(self, x: Texts) -> tuple[Entries, Entries]:
        """Return `log pos_i`, and `log content(x_i) + sum_k a_k(i) b_k(x_i)`.

        >>> better, x = cx.planes.add_planes(fixed, passages), fixed.prepare(passages)
        >>> _, content = better.decomposition.factors(x)
        >>> content.shape
        torch.Size([72, 8, 257])
        """
        position, content = self.base.factors(x)
        b, by_head = self.by_token[..., self.sources(x)], "head plane source"
        planes = einsum(b, self.by_source, f"head plane ... source, {by_head} -> ... head source")
        return position, content + planes

    def first(self, planes: Sequence[int]) -> PlanesDecomposition:
        """Return the decomposition with the first so many planes of each head.

        Raises ValueError unless there is one number for each head, and so many planes.

        >>> approx = cx.planes.add_planes(fixed, passages, planes=2).decomposition
        >>> approx.first([1, 0, 0, 0, 0, 0, 0, 1]).by_source.shape
        torch.Size([8, 1, 257])
        """
        heads, most = self.by_source.shape[:2]
        planes = as_indices("number of planes", planes)
        if len(planes) != heads or not all(0 <= k <= most for k in planes):
            raise ValueError(f"planes {planes}: give {heads} numbers, each from 0 to {most}")
        left = max(planes)
        kept = torch.arange(left) < torch.tensor(planes)[:, None]
        by_source = self.by_source[:, :left] * kept.to(self.by_source)[..., None]
        return replace(self, by_source=by_source, by_token=self.by_token[:, :left])


def add_planes(fixed: FixedQuery, texts: Iterable[AnyText], planes: int = 2) -> FixedQuery:
    """Return a fixed query whose decomposition has so many planes of interaction for every head;
    the texts say how common tokens are.

    Raises ValueError for a number of planes that is not between 0 and the number of sources, for a
    stored layer, and as `FixedQuery.prepare` does.

    >>> x, better = fixed.prepare(passages), cx.planes.add_planes(fixed, passages, planes=4)
    >>> before, after = (
    ...     cx.total_variation(fixed.exact.rows(x), query.decomposition.rows(x)).mean()
    ...     for query in (fixed, better)
    ... )
    >>> bool(after < before / 5)
    True
    """
    approx, length = check_kind(fixed, "a fixed query").decomposition, fixed.length
    if not (isinstance(planes, int) and 0 <= planes <= length):
        raise ValueError(f"{planes} planes: choose a whole number from 0 to {length}")
    fixed.require_exact()
    counts = fixed.prepare(texts)[:, 1 : fixed.n].flatten().bincount(minlength=fixed.d_vocab)
    found, weight = counts.nonzero()[:, 0], approx.kernels.double()
    share = counts[found].double() / counts.sum()
    mean = torch.zeros(fixed.n_heads, 1).double()  # the constant of each head's rows
    parts = [*zip(found.split(TOKENS_AT_A_TIME), share.split(TOKENS_AT_A_TIME), strict=True)]
    for tokens, part in parts:
        mean += einsum(part, interaction(fixed, tokens), weight, "t, t h i, h i -> h")[:, None]
    gram = torch.zeros(fixed.n_heads, length, length).double()  # sources by sources
    for tokens, part in progress(parts, "interaction", "part"):
        left = (interaction(fixed, tokens) - mean).transpose(0, 1)  # head token source
        gram += (left * part[:, None]).mT @ left
    root = weight.sqrt()
    size, u = torch.linalg.eigh(root[..., None] * gram * root[:, None])
    seen = size > NOISE * size[:, -1:]
    size, seen, u = (v.flip(-1)[..., :planes] for v in (size, seen, u))
    w = u * root[..., None]  # head source plane
    # a = u / root: written so, nothing is divided by a source's weight, which may be zero
    a = (gram @ w / size[:, None]).where(seen[:, None], 0)
    every = torch.arange(fixed.d_vocab).split(TOKENS_AT_A_TIME)
    b = [
        einsum(interaction(fixed, part) - mean, w, "t h i, h i k -> h k t").to(approx.kernels)
        for part in progress(every, "planes", "part")
    ]
    by_source, by_token = a.mT.to(approx.kernels).contiguous(), torch.cat(b, dim=-1)
    better = PlanesDecomposition(approx, by_source, by_token)
    return replace(fixed, decomposition=better)


def interaction(
    fixed: FixedQuery, tokens: Int[Tensor, " token"]
) -> Float[Tensor, "token head source"]:
    """Return what the exact score of each token at each source has beside `log pos_i + log
    content(t)`, up to a constant of the head, in float64. At n stands the query token, and where a
    kernel is zero, so is the interaction.

    >>> left = cx.planes.interaction(fixed, tokens[:5])
    >>> left.shape, left.std() < 0.5
    (torch.Size([5, 8, 257]), tensor(True))
    """
    approx = check_kind(fixed, "a fixed query").decomposition
    x = check_ids(tokens, fixed.d_vocab)[:, None].repeat(1, fixed.length)
    x[:, fixed.n] = fixed.token
    left = fixed.require_exact().scores_of_repeated(x).double() - approx.log_content.T[x].mT
    return (left - approx.kernels.log()).where(approx.kernels > 0, 0)
