"""Equation 1: split a key into a content component and a positional component, and a row of
attention into a positional kernel times content.

    key_i = LN(W_E[x_i] + W_pos[i]) W_K                                                 exact
          ~ LN(W_E[x_i] + W_pos[n]) W_K                                                 E[n, x_i]
          + sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)          P[n, i]

(Gibson 2025, Equation 1 and Figure 2; chapters 2 and 3.) The factor sqrt(d_model) that the paper
divides out is kept inside E and P, so that `q_n . E[n, t] / attn_scale` is a score. b_K adds
`q_n . b_K` to every source of a row; the softmax removes it, so E and P leave it out.

The split is one of the normalised residual stream, so it holds for every linear map that reads it:
`content_component` and `positional_component` give the two halves under any map.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from ctxlib.checks import as_index, as_indices, check_chosen, check_kind, check_tokens, crop
from ctxlib.texts.vocabulary import untrained_tokens
from ctxlib.weights import NO_MLP, LayerWeights, layer_norm, layer_norm_scale

Texts = Int[Tensor, "*text pos"]  # one text or a stack
Entries = Float[Tensor, "*text head source"]  # attention rows, their scores, or factors of them
Pattern = Float[Tensor, "head dest source"]
Queries = Float[Tensor, "*any head d_head"]
Directions = Float[Tensor, "*any head d_model"]
Chosen = Int[Tensor, " token"] | None  # None: the whole vocabulary

# ---------------------------------------------------------------- the two components


def content_component(
    weights: LayerWeights,
    M: Float[Tensor, "*any d_model out"],
    n: int,
    tokens: Int[Tensor, "*text token"] | None = None,
) -> Float[Tensor, "*any token out"]:
    """Return `LN(W_E[t] + W_pos[n]) M`: the content component of token t under a linear map M.

    `tokens` are the ids t, by default the whole vocabulary, or a stack of texts, each with a map of
    its own. Raises ValueError if n is not a position of the model.

    >>> E_K = cx.decompose.content_component(weights, weights.W_K, n=99, tokens=tokens[:5])
    >>> x = cx.layer_norm(weights.W_E[tokens[:5]] + weights.W_pos[99], weights.eps)
    >>> torch.allclose(E_K, x @ weights.W_K, atol=1e-3)
    True
    """
    W_pos_n, W_E = check_kind(weights, "weights").position(n), weights.embeddings(tokens)
    check_kind(M, "a tensor", weights.d_model, None)
    # LayerNorm's scale is applied after the product: no second copy of the vocabulary is made
    product = (W_E @ M).add_(W_pos_n[None] @ M)
    return product.div_(content_scale(weights, n, tokens)[..., None])


def positional_component(
    weights: LayerWeights,
    M: Float[Tensor, "*any d_model out"],
    n: int,
    C: float | None = None,
    length: int | None = None,
) -> Float[Tensor, "*any source out"]:
    """Return `positional_shift M`: what a token at position i adds under a linear map M, compared
    with the same token at position n; zero at i = n. Errors as in `positional_shift`.

    >>> P_V = cx.decompose.positional_component(weights, weights.W_V, n=99)
    >>> P_V.shape, P_V[:, 99].abs().max().item()
    (torch.Size([8, 100, 32]), 0.0)
    """
    shift = positional_shift(weights, n, C, length)
    return shift @ check_kind(M, "a tensor", weights.d_model, None)


def positional_shift(
    weights: LayerWeights, n: int, C: float | None = None, length: int | None = None
) -> Float[Tensor, "source d_model"]:
    """Return `sqrt(d_model) (W_pos[i] - W_pos[n]) / sqrt(|W_pos[i]|^2 + C^2)` for every source i of
    n: how the normalised residual stream of a token changes from position n to position i.

    `C` is the typical norm of a token embedding, by default the median one; `length` is that of the
    text, where sources lie on both sides of n. Raises ValueError if n is not a position of the
    model and if C is not positive.

    >>> cx.decompose.positional_shift(weights, n=99).shape
    torch.Size([100, 256])
    """
    W_pos_n, count = check_kind(weights, "weights").position(n), weights.n_sources(n, length)
    return (weights.W_pos[:count] - W_pos_n) / shared_scale(weights, C)[:count, None]


def content_scale(
    weights: LayerWeights,
    n: int | Int[Tensor, " dest"],
    tokens: Int[Tensor, "*text token"] | None = None,
) -> Float[Tensor, "*dest_or_text token"]:
    """Return `sqrt(|W_E[t] + W_pos[n]|^2 / d_model + eps)`: LayerNorm's scale for token t at one
    position n, or for one text at several positions. Raises ValueError if n is not a position of
    the model.

    >>> scale = cx.decompose.content_scale(weights, n=99, tokens=tokens[:5])
    >>> own = cx.weights.layer_norm_scale(weights.W_E[tokens[:5]] + weights.W_pos[99], weights.eps)
    >>> torch.allclose(scale, own[:, 0], atol=1e-3)
    True
    """
    W_E = check_kind(weights, "weights").embeddings(tokens)
    W_pos_n = weights.W_pos[n] if isinstance(n, Tensor) else weights.position(n)
    # |a + b|^2 = |a|^2 + 2 a.b + |b|^2: the sum itself is not formed
    both = (W_pos_n[..., None, :] @ W_E.mT)[..., 0, :]
    squared = torch.linalg.vector_norm(W_E, dim=-1).square() + 2 * both
    squared = squared + W_pos_n.square().sum(-1, keepdim=True)
    return (squared / W_E.shape[-1] + weights.eps).sqrt()


def shared_scale(weights: LayerWeights, C: float | None = None) -> Float[Tensor, " n_ctx"]:
    """Return `sqrt(|W_pos[i]|^2 + C^2) / sqrt(d_model)`: LayerNorm's scale at position i for a
    token of typical norm C. As in the paper without eps, which is small beside C^2 / d_model in the
    models of the book (1e-5 or less).

    >>> stream = weights.W_E[tokens] + weights.W_pos
    >>> exact = cx.weights.layer_norm_scale(stream, weights.eps)[:, 0]
    >>> 0.5 < (exact / cx.decompose.shared_scale(weights)).median() < 2
    tensor(True)
    """
    C = check_kind(weights, "weights").typical_norm(C)
    return ((weights.W_pos.square().sum(-1) + C**2) / weights.d_model).sqrt()


def content_keys(
    weights: LayerWeights, n: int, tokens: Chosen = None
) -> Float[Tensor, "head token d_head"]:
    """Return `E[n, t] = LN(W_E[t] + W_pos[n]) W_K`: the key that token t would have at position n.

    `tokens` are the ids t, by default the whole vocabulary. Errors as in `content_component`.

    >>> cx.decompose.content_keys(weights, n=99, tokens=tokens[:100]).shape
    torch.Size([8, 100, 32])
    """
    return content_component(weights, check_kind(weights, "weights").W_K, n, tokens)


def positional_keys(
    weights: LayerWeights, n: int, C: float | None = None
) -> Float[Tensor, "head source d_head"]:
    """Return `P[n, i] = sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)` for
    i = 0 ... n; zero at i = n. Errors as in `positional_shift`.

    >>> P = cx.decompose.positional_keys(weights, n=99)
    >>> P.shape, P[:, 99].abs().max().item()
    (torch.Size([8, 100, 32]), 0.0)
    """
    return positional_component(weights, check_kind(weights, "weights").W_K, n, C)


# ---------------------------------------------------------------- the query, and what it looks for


def queries_of(weights: LayerWeights, x: Float[Tensor, "*any d_model"]) -> Queries:
    """Return `x W_Q + b_Q` of normalised residuals x.

    >>> q = cx.decompose.queries_of(weights, weights.normalized_resid(tokens)[99])
    >>> torch.allclose(q, weights.queries(tokens)[:, 99], atol=1e-4)
    True
    """
    W_Q, of_x = check_kind(weights, "weights").W_Q, "... d_model, head d_model d_head"
    x = check_kind(x, "a tensor", weights.d_model)
    return einsum(x, W_Q, f"{of_x} -> ... head d_head") + weights.b_Q


def fixed_query(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head d_head"]:
    """Return `q_n` of every head with `token` at position n: the same in every text.

    `token=None` gives the query without a token, for checkpoints that come without embeddings:
    `sqrt(d_model) W_pos[n] / sqrt(|W_pos[n]|^2 + C^2)` in place of the normalised residual. Errors
    as in `positional_kernels`.

    >>> cx.decompose.fixed_query(weights, n=256, token=" of").shape
    torch.Size([8, 32])
    """
    W_pos_n = check_kind(weights, "weights").position(n)
    if token is None:
        return queries_of(weights, W_pos_n / shared_scale(weights, C)[n])
    W_E_t = weights.embeddings()[weights.token_id(token)]
    return queries_of(weights, layer_norm(W_E_t + W_pos_n, weights.eps))


def qk_direction(weights: LayerWeights, q: Queries) -> Directions:
    """Return `q W_K^T / attn_scale`: the direction of the residual stream along which heads with
    these queries score a source. No key is formed.

    >>> direction = cx.decompose.qk_direction(weights, weights.queries(tokens)[:, 99])
    >>> rows = (direction @ weights.normalized_resid(tokens[:100]).T).softmax(-1)
    >>> torch.allclose(rows, cx.attention_rows(weights, tokens, n=99), atol=1e-4)
    True
    """
    W_K = check_kind(weights, "weights").W_K
    check_kind(q, "a tensor", weights.n_heads, weights.d_head)
    direction = einsum(q, W_K, "... head d_head, head d_model d_head -> ... head d_model")
    return direction / weights.attn_scale


def qk_direction_at(
    weights: LayerWeights, x_n: Int[Tensor, "*text"], n: int
) -> Float[Tensor, "*text head d_model"]:
    """Return the `qk_direction` of the tokens `x_n` at position n.

    >>> direction = cx.decompose.qk_direction_at(weights, tokens[99], n=99)
    >>> same = cx.decompose.qk_direction(weights, weights.queries(tokens)[:, 99])
    >>> torch.allclose(direction, same, atol=1e-4)
    True
    """
    x = check_kind(weights, "weights").embeddings(x_n) + weights.position(n)
    return qk_direction(weights, queries_of(weights, layer_norm(x, weights.eps)))


# ---------------------------------------------------------------- the two factors of a row


def positional_kernels(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head source"]:
    """Return the positional kernel of every head, `pos_{n,i} = softmax_i(q_n . P[n, i] /
    attn_scale)` for i = 0 ... n, with `token` as the query token at position n; in an encoder for
    the sources of a text of 2n tokens (chapter 3).

    `token=None` is the query without a token, for checkpoints that come without embeddings; C must
    then be given. Raises ValueError if n is not a position of the model and if `token` is not
    exactly one token.

    >>> kernels = cx.positional_kernels(weights, n=256)
    >>> kernels.shape
    torch.Size([8, 257])
    >>> torch.allclose(kernels.sum(-1), torch.ones(8))
    True
    """
    return LayerNormDecomposition.of(weights, n, token, C).kernels


def content_scores(
    weights: LayerWeights,
    n: int,
    token: str | int = " the",
    tokens: Chosen = None,
) -> Float[Tensor, "head token"]:
    """Return `log content_n(t) = q_n . E[n, t] / attn_scale`, in nats: how strongly a head with
    `token` as the query token at n attends to every token t, wherever it is (chapter 3).

    `tokens` are the ids t, by default the whole vocabulary. Only differences between tokens of one
    head have a meaning. Errors as in `positional_kernels`.

    >>> scores = cx.content_scores(weights, n=256)
    >>> scores.shape
    torch.Size([8, 8192])
    >>> torch.allclose(cx.content_scores(weights, n=256, tokens=tokens[:9]), scores[:, tokens[:9]])
    True
    """
    direction = LayerNormDecomposition.of(weights, n, token).qk_direction
    return content_component(weights, direction.mT, n, tokens).mT


# ---------------------------------------------------------------- one row


def exact_scores(weights: LayerWeights, tokens: Texts, n: int) -> Entries:
    """Return the exact scores `q_n . key_i / attn_scale` for i = 0 ... n, b_K and `position_bias`
    included, of one text or a stack. Errors as in `LayerWeights.normalized_resid`.

    >>> scores = cx.decompose.exact_scores(weights, tokens, n=99)
    >>> scores.shape
    torch.Size([8, 100])
    >>> torch.allclose(scores.softmax(-1), cx.attention_rows(weights, tokens, n=99))
    True
    """
    x = check_kind(weights, "weights").normalized_resid(tokens, n)
    q = queries_of(weights, x[..., n, :])
    from_bias = (q * weights.b_K).sum(-1, keepdim=True) / weights.attn_scale
    return qk_direction(weights, q) @ x.mT + from_bias + weights.position_bias(n, x.shape[-2])


def approx_scores(weights: LayerWeights, tokens: Texts, n: int, C: float | None = None) -> Entries:
    """Return `q_n . (E[n, x_i] + P[n, i]) / attn_scale` for i = 0 ... n: Equation 1 in place of the
    key, of one text or a stack. Errors as in `exact_scores` and `positional_shift`.

    >>> exact = cx.decompose.exact_scores(weights, tokens, n=99)
    >>> approx = cx.decompose.approx_scores(weights, tokens, n=99)
    >>> 0.9 < torch.corrcoef(torch.stack([exact[4], approx[4]]))[0, 1] <= 1
    tensor(True)
    """
    x = check_kind(weights, "weights").sources(tokens, n)
    position, content = score_parts(weights, x, n, positional_shift(weights, n, C, x.shape[-1]))
    return content + position


def score_parts(
    weights: LayerWeights, x: Texts, n: int, shift: Float[Tensor, "source d_model"]
) -> tuple[Entries, Entries]:
    """Return `q_n . P[n, i] / attn_scale` and `q_n . E[n, x_i] / attn_scale`, with the token at n
    of each text as the query token; `shift` is `positional_shift` for its sources. A bias that
    distances add to the scores belongs to the first.
    """
    direction = qk_direction_at(weights, x[..., n], n).mT
    position = (shift @ direction).mT + weights.position_bias(n, len(shift))
    return position, content_component(weights, direction, n, x).mT


def attention_rows(weights: LayerWeights, tokens: Texts, n: int) -> Entries:
    """Return the exact attention row of every head at position n; each sums to 1 over the sources
    0 ... n.

    Raises ValueError for n outside the text, for layers other than the first, and for tokens that
    do not fit the model.

    >>> rows = cx.attention_rows(weights, tokens, n=99)
    >>> rows.shape
    torch.Size([8, 100])
    >>> torch.allclose(rows.sum(-1), torch.ones(8))
    True
    """
    return exact_scores(weights, tokens, n).softmax(-1)


def approx_rows(weights: LayerWeights, tokens: Texts, n: int, C: float | None = None) -> Entries:
    """Return the attention rows that Equation 1 gives at position n.

    Errors as in `attention_rows` and `positional_keys`.

    >>> exact = cx.attention_rows(weights, tokens, n=99)
    >>> approx = cx.approx_rows(weights, tokens, n=99)
    >>> cx.total_variation(exact, approx).median() < 0.2  # of a distance of at most 1
    tensor(True)
    """
    return approx_scores(weights, tokens, n, C).softmax(-1)


def total_variation(
    a: Float[Tensor, "*batch source"], b: Float[Tensor, "*batch source"]
) -> Float[Tensor, "*batch"]:
    """Return `TV = 1/2 sum_i |a_i - b_i|`, between 0 and 1: the share of the attention that one row
    puts in another place than the other.

    >>> cx.total_variation(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
    tensor(0.5000)
    """
    return (check_kind(a, "a tensor") - check_kind(b, "a tensor")).abs().sum(-1) / 2


# ---------------------------------------------------------------- from the heads to the neurons


@dataclass(frozen=True, eq=False, repr=False)
class Readout:
    """The path from inside the heads (z) to the neurons that read them.

    `inputs` are the MLP's input matrices and biases by name: `pre`, or in a gated MLP `gate` and
    `up`; `W_in` and `b_in` are the first of them, which the activation function `act_fn` is applied
    to. They read the residual stream after LayerNorm with `eps`, or with `norms` False as it is
    (OLMo 2). Without the heads' outputs the stream holds `rest` and, where any token may be at
    position n, that token's row of `by_token`. If the model normalises what its heads write
    together (Gemma, OLMo 2), `gain` is that norm's; `W_O` includes it, `W_O_before` does not.

    >>> cx.fix_query(weights, n=99).readout.W_in.shape
    torch.Size([256, 1024])
    """

    W_O_before: Float[Tensor, "head d_head d_model"]
    inputs: Mapping[str, tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]]
    eps: float
    act_fn: str
    rest: Float[Tensor, " d_model"]
    by_token: Float[Tensor, "vocab d_model"] | None = None
    norms: bool = True
    gain: Float[Tensor, " d_model"] | None = None

    def __repr__(self) -> str:
        heads, d_head, d_model = self.W_O_before.shape
        return f"Readout({heads} heads of {d_head}, d_model={d_model}, inputs={[*self.inputs]})"

    @cached_property
    def W_O(self) -> Float[Tensor, "head d_head d_model"]:
        return self.W_O_before if self.gain is None else self.W_O_before * self.gain

    @property
    def W_in(self) -> Float[Tensor, "d_model neuron"]:
        return self.first()[0]

    @property
    def b_in(self) -> Float[Tensor, " neuron"]:
        return self.first()[1]

    def first(self) -> tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]:
        """Return W_in and b_in; raise ValueError if the weights came without the MLP."""
        if not self.inputs:
            raise ValueError(NO_MLP)
        return next(iter(self.inputs.values()))

    def resid_without_heads(self, x_n: Int[Tensor, "*text"]) -> Float[Tensor, "*text d_model"]:
        """Return the residual stream at n without the heads' outputs, with the tokens x_n there."""
        if self.by_token is None:
            return self.rest.expand(*x_n.shape, -1)
        return self.by_token[x_n] + self.rest

    def scale(self, resid_mid: Float[Tensor, "*text d_model"]) -> Float[Tensor, "*text 1"]:
        """Return what LayerNorm divides the residual stream by in front of the neurons."""
        if not self.norms:
            return resid_mid.new_ones(*resid_mid.shape[:-1], 1)
        return layer_norm_scale(resid_mid, self.eps)

    def scale_of_heads(self, z: Float[Tensor, "*text head d_head"]) -> Float[Tensor, "*text 1"]:
        """Return what a norm behind the heads divides their outputs by; 1 where there is none."""
        if self.gain is None:
            return z.new_ones(*z.shape[:-2], 1)
        return layer_norm_scale(z.flatten(-2) @ self.W_O_before.flatten(0, 1), self.eps)

    def outputs(self, z: Float[Tensor, "*text head d_head"]) -> Float[Tensor, "*text head d_model"]:
        """Return `z W_O`: what heads with this z write to the residual stream, after the norm that
        some models have behind them.
        """
        check_kind(z, "a tensor")
        outputs = einsum(z, self.W_O, "... head d, head d d_model -> ... head d_model")
        return outputs / self.scale_of_heads(z)[..., None]


# ---------------------------------------------------------------- decompositions


class Decomposition(ABC):
    """An approximation of a first layer's heads for a fixed query: `token` at position n. Each row
    becomes a kernel times content, and a value is read as if its token stood at position n, plus
    what its own position adds where positions are added.

        row_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

    `kernels` is `pos_i`, the row of a text in which content is the same everywhere; `log_content`
    is in nats, and only differences between tokens of one head count; `untrained` marks the glitch
    tokens (`ctxlib.texts.untrained_tokens`); `moved` is what a source's position adds to its value;
    `readout` is the path from inside the heads to the neurons. `x` is one text or a stack of them,
    of which the first `length` tokens are read. `LayerNormDecomposition` is the paper's Equation 1;
    `ctxlib.additive.AdditiveDecomposition` and `ctxlib.store.StoredDecomposition` are others.

    >>> fixed = cx.fix_query(weights, n=256)
    >>> approx = fixed.decomposition
    >>> approx.kernels.shape, approx.log_content.shape, approx.values([3, 4]).shape
    (torch.Size([8, 257]), torch.Size([8, 8192]), torch.Size([8192, 2, 32]))
    """

    n: int
    token: int | None
    kernels: Any  # Float[Tensor, "head source"]
    log_content: Any  # Float[Tensor, "head vocab"]
    untrained: Any  # Bool[Tensor, " vocab"]
    moved: Any  # Float[Tensor, "head source d_head"]
    readout: Any  # Readout

    @abstractmethod
    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        """Return the value, b_V included, that each token would have at position n."""

    @cached_property
    def value_table(self) -> tuple[Float[Tensor, "vocab value d_head"], Int[Tensor, " head"]]:
        """Return the values of all heads, and which of them each head has: some may share one."""
        heads = range(len(self.kernels))
        return self.values(heads), torch.tensor(heads, device=self.kernels.device)

    def z(self, x: Texts, rows: Entries) -> Float[Tensor, "*text head d_head"]:
        """Return `sum_i a_i v_i` with these rows and approximate values: z of each head."""
        check_kind(rows, "a tensor")
        by_token, value_of = self.value_table
        entry = self.sources(x)[..., None, :] * by_token.shape[1] + value_of[:, None]
        z = weighted_sum(by_token.flatten(0, 1), entry.expand(rows.shape), rows)
        return z + (rows[..., None, :] @ self.moved)[..., 0, :]

    @cached_property
    def content(self) -> Float[Tensor, "head vocab"]:
        """Return `content(t)`, the exponential of `log_content`."""
        return self.log_content.exp()

    @property
    def length(self) -> int:
        return self.kernels.shape[1]

    def factors(self, x: Texts) -> tuple[Entries, Entries]:
        """Return `log pos_i` and `log content(x_i)` of each text, for the token that it has at n;
        each up to a constant of the row.
        """
        content = self.log_content.T[self.sources(x)].mT  # as logarithms nothing overflows
        kernels = self.kernels.clamp_min(torch.finfo(self.kernels.dtype).tiny)  # ALiBi's reach 0
        return kernels.log().expand(content.shape), content

    def rows(self, x: Texts) -> Entries:
        """Return the attention rows from the two factors: `pos_i content(x_i) / denom`.

        >>> fixed = cx.fit_additive(model, passages)
        >>> (x,) = fixed.prepare(passages[:1])
        >>> cx.total_variation(fixed.exact.rows(x), fixed.decomposition.rows(x)).median() < 0.1
        tensor(True)
        """
        kernel, content = self.factors(x)
        return (content + kernel).softmax(-1)

    def approx_z(self, x: Texts) -> Float[Tensor, "*text head d_head"]:
        """Return z of each head with these rows."""
        return self.z(x, self.rows(x))

    def sources(self, x: Texts) -> Int[Tensor, "*text source"]:
        """Return the tokens that position n attends to.

        Raises ValueError for texts that are too short, for ids outside the vocabulary, and for
        another token at n than the query token.
        """
        return crop(x, self.length, self.log_content.shape[1], self.n, self.token)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, token={self.token})"


@dataclass(frozen=True, eq=False, repr=False)
class LayerNormDecomposition(Decomposition):
    """Equation 1: the decomposition of a first layer that adds learned positions to its embeddings,
    with C for the typical norm of a token embedding (Gibson 2025; chapter 2).

    `token` is None for the query without a token, of weights that came without embeddings: then
    there are kernels, and nothing that needs tokens. Texts may keep their own token at n.

    >>> fixed = cx.fix_query(weights, n=100, token=" of")
    >>> fixed.decomposition.kernels.shape, fixed.decomposition.C == weights.typical_norm()
    (torch.Size([8, 101]), True)
    """

    weights: LayerWeights
    n: int
    token: int | None
    C: float

    @classmethod
    def of(
        cls,
        weights: LayerWeights,
        n: int,
        token: str | int | None = " the",
        C: float | None = None,
    ) -> LayerNormDecomposition:
        """Decompose the heads for a query token, given as text or as an id; C is by default the
        median norm of a token embedding.

        Raises ValueError if n is not a position of the model, if `token` is not exactly one token,
        and if C is not positive.
        """
        check_kind(weights, "weights").position(n)
        number = None if token is None else weights.token_id(token)
        return cls(weights, as_index("position", n), number, weights.typical_norm(C))

    @cached_property
    def qk_direction(self) -> Float[Tensor, "head d_model"]:
        """Return the `qk_direction` of the fixed query."""
        q = fixed_query(self.weights, self.n, self.token, self.C)
        return qk_direction(self.weights, q)

    @cached_property
    def kernels(self) -> Float[Tensor, "head source"]:
        bias = self.weights.position_bias(self.n, self.length)
        return ((self.shift @ self.qk_direction.mT).mT + bias).softmax(-1)

    @cached_property
    def log_content(self) -> Float[Tensor, "head vocab"]:
        if self.token is None:
            raise ValueError("content needs a query token, and token is None")
        return content_component(self.weights, self.qk_direction.mT, self.n).mT

    @cached_property
    def untrained(self) -> Bool[Tensor, " vocab"]:
        flags = untrained_tokens(self.weights.embeddings(), self.weights.tokenizer)
        if self.weights.padding >= 0:  # which no text holds
            flags[self.weights.padding] = True
        return flags

    @cached_property
    def readout(self) -> Readout:
        w, (by_token, rest) = self.weights, self.weights.resid_without_heads(self.n)
        inputs = {} if w.W_in is None else {"pre": w.mlp_input()}
        return Readout(w.W_O, inputs, w.eps, w.act_fn, rest, by_token)

    @cached_property
    def shift(self) -> Float[Tensor, "source d_model"]:
        """Return `positional_shift` for all sources of n."""
        return positional_shift(self.weights, self.n, self.C)

    @property
    def length(self) -> int:
        return self.weights.n_sources(self.n)

    def sources(self, x: Texts) -> Int[Tensor, "*text source"]:
        return self.weights.crop(x, self.n)

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        chosen = as_indices("head", heads)
        W_V = rearrange(self.weights.W_V[chosen], "head d_model d_head -> d_model (head d_head)")
        values = content_component(self.weights, W_V, self.n)
        values = values.unflatten(-1, (len(chosen), self.weights.d_head))
        return values.add_(self.weights.b_V[chosen])

    @cached_property
    def moved(self) -> Float[Tensor, "head source d_head"]:
        """Return `P_V[n, i]`."""
        return self.shift @ self.weights.W_V

    def factors(self, x: Texts) -> tuple[Entries, Entries]:
        return score_parts(self.weights, self.sources(x), self.n, self.shift)

    def rows(self, x: Texts) -> Entries:
        x = self.sources(x)
        if self.token is not None and (x[..., self.n] == self.token).all():
            return (self.log_content.T[x].mT + self.kernels.log()).softmax(-1)
        return super().rows(x)


def weighted_sum(
    table: Float[Tensor, "row out"],
    x: Int[Tensor, "*any source"],
    share: Float[Tensor, "*any source"],
) -> Float[Tensor, "*any out"]:
    """Return `sum_i share_i table[x_i]`, without a copy of what is summed.

    >>> ones, halves = torch.ones(3, 2), torch.tensor([0.5, 0.5])
    >>> cx.decompose.weighted_sum(ones, torch.tensor([0, 2]), halves)
    tensor([1., 1.])
    """
    check_tokens(x)
    check_kind(table, "a tensor", None, None)
    check_kind(share, "a tensor", *x.shape)
    bags, shares = (v.reshape(-1, x.shape[-1]) for v in (x, share))
    sums = embedding_bag(bags, table, per_sample_weights=shares, mode="sum")
    return sums.view(*x.shape[:-1], -1)


# ---------------------------------------------------------------- every row of a text at once


def attention_pattern(weights: LayerWeights, tokens: Int[Tensor, " pos"]) -> Pattern:
    """Return the exact attention pattern of a text: `attention_rows` at every position, zero where
    a query cannot attend.

    >>> pattern = cx.decompose.attention_pattern(weights, tokens)
    >>> pattern.shape
    torch.Size([8, 512, 512])
    >>> rows = cx.attention_rows(weights, tokens, n=99)
    >>> torch.allclose(pattern[:, 99, :100], rows, atol=1e-4)
    True
    """
    q, keys = check_kind(weights, "weights").queries(tokens), weights.keys(tokens)
    scores = q @ keys.mT / weights.attn_scale
    bias = weights.position_bias(slice(len(tokens)), len(tokens))
    return attended(weights, scores + bias)  # head dest source


def approx_pattern(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], C: float | None = None
) -> Pattern:
    """Return the attention pattern that Equation 1 gives: `approx_rows` at every position.

    >>> exact = cx.decompose.attention_pattern(weights, tokens)
    >>> approx = cx.decompose.approx_pattern(weights, tokens)
    >>> cx.total_variation(exact, approx).mean(-1).median() < 0.2  # of a distance of at most 1
    tensor(True)
    """
    q = check_kind(weights, "weights").queries(tokens)
    content, position = split_scores(weights, tokens, q, C)
    return attended(weights, content + position)


def split_scores(
    weights: LayerWeights,
    tokens: Int[Tensor, " pos"],
    q: Float[Tensor, "head pos d_head"],
    C: float | None = None,
) -> tuple[Pattern, Pattern]:
    """Return `q_n . E[n, x_i] / attn_scale` and `q_n . P[n, i] / attn_scale` for all pairs of
    positions n and i of a text, with any query at each position.

    Both components of the key are linear in `W_E[x_i]`, `W_pos[i]` and `W_pos[n]` up to a scale
    that depends on the pair (n, i). So the query meets the projections once, and the scales are
    applied to the scores: three matrix products in place of one per position. In a decoder, what
    lies above the diagonal has no meaning. Errors as in `LayerWeights.normalized_resid`.

    >>> q = weights.queries(tokens)
    >>> content, position = cx.decompose.split_scores(weights, tokens, q)
    >>> rows = cx.decompose.causal_softmax(content + position)
    >>> torch.allclose(rows, cx.decompose.approx_pattern(weights, tokens), atol=1e-4)
    True
    """
    tokens = check_kind(weights, "weights").sources(tokens)
    W_E, W_pos = weights.embeddings()[tokens], weights.W_pos[: len(tokens)]
    check_kind(q, "a tensor", weights.n_heads, len(tokens), weights.d_head)
    q_E, q_pos = (q @ (x @ weights.W_K).mT for x in (W_E, W_pos))  # head dest source
    q_pos_n = q_pos.diagonal(dim1=1, dim2=2)[..., None]  # q_n . W_pos[n] W_K
    scale = content_scale(weights, torch.arange(len(tokens), device=tokens.device), tokens)
    content = (q_E + q_pos_n) / (scale * weights.attn_scale)
    position = (q_pos - q_pos_n) / (shared_scale(weights, C)[: len(tokens)] * weights.attn_scale)
    return content, position + weights.position_bias(slice(len(tokens)), len(tokens))


def split_values(
    weights: LayerWeights,
    tokens: Int[Tensor, " pos"],
    rows: Float[Tensor, "chosen dest source"],
    heads: list[int],
    C: float | None = None,
) -> tuple[Float[Tensor, "chosen dest d_head"], Float[Tensor, "chosen dest d_head"]]:
    """Return `sum_i a_{n,i} (E_V[n, x_i] + b_V)` and `sum_i a_{n,i} P_V[n, i]` for all positions n
    of a text: the two components of z, as `split_scores` gives those of the scores.

    >>> rows = cx.decompose.approx_pattern(weights, tokens)
    >>> content, position = cx.decompose.split_values(weights, tokens, rows, [*range(8)])
    >>> content.shape, position.shape
    (torch.Size([8, 512, 32]), torch.Size([8, 512, 32]))
    """
    tokens = check_kind(weights, "weights").sources(tokens)
    heads = check_chosen("head", heads, weights.n_heads)
    v_E, v_pos = (  # head pos d_head
        x @ weights.W_V[heads] for x in (weights.embeddings()[tokens], weights.W_pos[: len(tokens)])
    )
    check_kind(rows, "a tensor", len(heads), len(tokens), len(tokens))
    scaled = rows / content_scale(weights, torch.arange(len(tokens), device=tokens.device), tokens)
    content = scaled @ v_E + scaled.sum(-1, keepdim=True) * v_pos
    content = content + rows.sum(-1, keepdim=True) * weights.b_V[heads][:, None]
    shifted = rows / shared_scale(weights, C)[: len(tokens)]
    return content, shifted @ v_pos - shifted.sum(-1, keepdim=True) * v_pos


def attended(weights: LayerWeights, scores: Pattern) -> Pattern:
    """Return the softmax over the sources that each position of this layer attends to."""
    return scores.softmax(-1) if weights.both_sides else causal_softmax(scores)


def causal_softmax(scores: Pattern) -> Pattern:
    """Return the softmax over the sources 0 ... n of every position n.

    >>> cx.decompose.causal_softmax(torch.zeros(1, 3, 3))
    tensor([[[1.0000, 0.0000, 0.0000],
             [0.5000, 0.5000, 0.0000],
             [0.3333, 0.3333, 0.3333]]])
    """
    check_kind(scores, "a tensor", None, None, None)
    future = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1)
