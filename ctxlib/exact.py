"""What a first layer does, exactly: the rows, and what is inside its heads, at one destination.

`ExactFromWeights` computes it from weights with learned positions; `ExactFromModel`, in
`ctxlib.additive`, from what a model of any position scheme was asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ctxlib.decompose import Entries, Texts, asked, queries_of
from ctxlib.weights import LayerWeights, layer_norm

Residual = Float[Tensor, "*text source d_model"]
Inside = Float[Tensor, "*text head d_head"]
Values = tuple[Float[Tensor, "head d_model d_head"], Float[Tensor, "head d_head"]]


class ExactLayer(ABC):
    """The truth that a `ctxlib.decompose.Decomposition` is held against, at the same destination.

    `x` is one text or a stack of them. Raises ValueError for texts that are too short and for ids
    outside the vocabulary.

    >>> fixed = cx.fix_query(weights, n=99)
    >>> rows = fixed.exact.rows(tokens)
    >>> torch.allclose(rows, cx.attention_rows(weights, tokens, n=99), atol=1e-5)
    True
    >>> fixed.exact.z(tokens).shape
    torch.Size([8, 32])
    """

    @abstractmethod
    def value_map(self) -> Values:
        """W_V and b_V."""

    @abstractmethod
    def normalized_resid(self, x: Texts, here: bool = False) -> Residual:
        """What keys and values are read from; as if every source stood at n where `here`."""

    def scores(self, x: Texts) -> Entries:
        """The logarithm of the rows, up to a constant of each.

        >>> layer = cx.fix_query(weights, n=99).layer
        >>> torch.equal(layer.scores(tokens).softmax(-1), layer.rows(tokens))
        True
        """
        return self.scores_from(self.normalized_resid(x))

    @abstractmethod
    def scores_from(self, read: Residual) -> Entries:
        """The same, of sources from which keys read `read`."""

    def rows(self, x: Texts) -> Entries:
        """The attention rows at n; each sums to 1 over its sources."""
        return self.scores(x).softmax(-1)

    def inside(self, x: Texts) -> Inside:
        """`sum_i a_i v_i`: what is inside each head."""
        read = self.normalized_resid(x)
        return self.z_from_pattern(self.scores_from(read).softmax(-1), read)

    def mixed(self, rows: Entries, read: Residual) -> Inside:
        """The same with any rows, of sources from which values read `read`."""
        # the row meets the sources before W_V: no value is ever formed, which at one destination
        # saves a factor of d_head
        W_V, b_V = self.value_map()
        z = einsum(rows @ read, W_V, "... head d_model, head d_model d_head -> ... head d_head")
        return z + rows.sum(-1, keepdim=True) * b_V


@dataclass(frozen=True, eq=False)
class ExactFromWeights(ExactLayer):
    """A first layer at n, from its weights; any token may stand there.

    >>> cx.fix_query(weights, n=99).layer.normalized_resid(tokens).shape
    torch.Size([100, 256])
    """

    weights: LayerWeights
    n: int

    def value_map(self) -> Values:
        return self.weights.W_V, self.weights.b_V

    def normalized_resid(self, x: Texts, here: bool = False) -> Residual:
        w, x = self.weights, self.weights.read(x, self.n)
        stands = w.W_pos[self.n] if here else w.W_pos[: x.shape[-1]]
        return layer_norm(w.embeddings()[x] + stands, w.eps)

    def scores_from(self, read: Residual) -> Entries:
        # the query meets W_K first: no key is ever formed
        ask = asked(self.weights, queries_of(self.weights, read[..., self.n, :]))
        return ask @ read.mT
