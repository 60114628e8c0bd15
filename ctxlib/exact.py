"""The exact first layer for a fixed query: attention rows and z of every head, without an
approximation. A `ctxlib.decompose.Decomposition` is compared with it.

`ExactFromWeights` computes both from weights with learned positions; `ExactFromModel`, in
`ctxlib.additive`, from a model with any kind of positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ctxlib.checks import check_kind
from ctxlib.decompose import Entries, Texts, content_scale, qk_direction, queries_of
from ctxlib.weights import LayerWeights, layer_norm

Residual = Float[Tensor, "*text source d_model"]
Z = Float[Tensor, "*text head d_head"]
Values = tuple[Float[Tensor, "head d_model d_head"], Float[Tensor, "head d_head"]]


class ExactLayer(ABC):
    """Attention rows and z at position n. `x` is one text or a stack of them.

    Raises ValueError for texts that are too short and for ids outside the vocabulary.

    >>> fixed = cx.fix_query(weights, n=99)
    >>> rows = fixed.exact.rows(tokens)
    >>> torch.allclose(rows, cx.attention_rows(weights, tokens, n=99), atol=1e-5)
    True
    >>> fixed.exact.z(tokens).shape
    torch.Size([8, 32])
    """

    @abstractmethod
    def value_weights(self) -> Values:
        """Return W_V and b_V."""

    @abstractmethod
    def normalized_resid(self, x: Texts, at_n: bool = False) -> Residual:
        """Return the normalised residual stream that keys and values are read from; with `at_n` as
        if every source were at position n.
        """

    @abstractmethod
    def scores_from(self, x: Texts, resid: Residual) -> Entries:
        """Return the scores of these sources, given their normalised residual stream, up to a
        constant of each row.
        """

    def scores(self, x: Texts) -> Entries:
        """Return the logarithm of the rows, up to a constant of each.

        >>> exact = cx.fix_query(weights, n=99).exact
        >>> torch.equal(exact.scores(tokens).softmax(-1), exact.rows(tokens))
        True
        """
        return self.scores_from(x, self.normalized_resid(x))

    def scores_of_repeated(self, x: Texts) -> Entries:
        """Return `scores` of texts that repeat one token, with the same query token at n. Most
        layers read each token once for it.
        """
        return self.scores(x)

    def rows(self, x: Texts) -> Entries:
        """Return the attention rows at n; each sums to 1 over its sources."""
        return self.scores(x).softmax(-1)

    def z(self, x: Texts) -> Z:
        """Return `sum_i a_i v_i` of each head."""
        resid = self.normalized_resid(x)
        return self.z_from_pattern(self.scores_from(x, resid).softmax(-1), resid)

    def z_from_pattern(self, rows: Entries, resid: Residual) -> Z:
        """Return z for any rows over sources with this normalised residual stream."""
        # the row meets the sources before W_V: no value is formed, which for one query
        # saves a factor of d_head
        W_V, b_V = self.value_weights()
        check_kind(rows, "a tensor")
        z = einsum(rows @ resid, W_V, "... head d_model, head d_model d_head -> ... head d_head")
        return z + rows.sum(-1, keepdim=True) * b_V

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, eq=False, repr=False)
class ExactFromWeights(ExactLayer):
    """The first layer at position n, from its weights; texts keep their own token at n.

    >>> cx.fix_query(weights, n=99).exact.normalized_resid(tokens).shape
    torch.Size([100, 256])
    """

    weights: LayerWeights
    n: int

    @property
    def reads(self) -> int:
        return self.weights.layer

    def value_weights(self) -> Values:
        return self.weights.W_V, self.weights.b_V

    def normalized_resid(self, x: Texts, at_n: bool = False) -> Residual:
        w, x = self.weights, self.weights.crop(x, self.n)
        W_pos = w.W_pos[self.n] if at_n else w.W_pos[: x.shape[-1]]
        return layer_norm(w.embeddings()[x] + W_pos, w.eps)

    def scores_from(self, x: Texts, resid: Residual) -> Entries:
        # the query meets W_K first: no key is formed
        direction = qk_direction(self.weights, queries_of(self.weights, resid[..., self.n, :]))
        return direction @ resid.mT + self.weights.position_bias(self.n, resid.shape[-2])

    def scores_of_repeated(self, x: Texts) -> Entries:
        w, source = self.weights, x.shape[1]
        W_E, W_pos = w.embeddings()[x[:, 0]], w.W_pos[:source]
        own = w.embeddings()[x[0, self.n]] + W_pos[self.n]
        direction = qk_direction(w, queries_of(w, layer_norm(own, w.eps))).mT
        sums = (W_E @ direction)[:, :, None] + (W_pos @ direction).T  # text head source
        scores = sums / content_scale(w, torch.arange(source), x[:, 0]).T[:, None]
        scores[..., self.n] = layer_norm(own, w.eps) @ direction
        return scores + w.position_bias(self.n, source)
