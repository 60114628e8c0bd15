"""Equation 1: a key split into what the token is and where it stands, and what follows for a row of
attention: a positional kernel times content.

    key_i = LN(W_E[x_i] + W_pos[i]) W_K                                                 exact
          ~ LN(W_E[x_i] + W_pos[n]) W_K                                                 E[n, x_i]
          + sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)          P[n, i]

(Gibson 2025, Equation 1 and Figure 2; chapters 2 and 3.) The factor sqrt(d_model) that the paper
divides out is kept inside E and P here, so that `q_n . E[n, t] / attn_scale` is a score. b_K adds
`q_n . b_K` to every source of a row; the softmax removes it, so E and P leave it out.

The split is one of the normalised residual stream, so it holds for every linear map behind it:
`what` and `where` are its two halves in the eyes of any map: to keys, to values, to scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from ctxlib.weights import (
    NO_MLP,
    LayerWeights,
    check_ids,
    check_index,
    layer_norm,
    project,
    untrained_tokens,
    whole,
)

Texts = Int[Tensor, "*text pos"]  # one or a stack
Entries = Float[Tensor, "*text head source"]  # rows, scores and factors
Pattern = Float[Tensor, "head dest source"]
Queries = Float[Tensor, "*any head d_head"]
Asked = Float[Tensor, "*any head d_model"]
Chosen = Int[Tensor, " token"] | None  # the whole vocabulary

LOCAL = 15.0  #: fewer effective tokens than this: a local head
BROAD = 40.0  #: more effective tokens than this: a broad head
EVEN = 1 / 3  #: total variation distance to an even row below this: a uniform head
COPIES = 2.0  #: nats: a copy of the destination gets e^2, some seven times, what other tokens get

# ---------------------------------------------------------------- the two halves


def content_component(
    weights: LayerWeights,
    M: Float[Tensor, "*any d_model out"],
    n: int,
    tokens: Int[Tensor, "*text token"] | None = None,
) -> Float[Tensor, "*any token out"]:
    """`LN(W_E[t] + W_pos[n]) M`: what a linear map behind LayerNorm reads of token t where it would
    stand at the destination.

    `tokens` are the ids t, the whole vocabulary by default, or a stack of texts, each with a map of
    its own. LayerNorm's scale is applied behind the product, so that of a vocabulary no second
    copy is made. Raises ValueError for a position that the model does not have.

    >>> seen = cx.decompose.content_component(weights, weights.W_K, n=99, tokens=tokens[:5])
    >>> there = cx.layer_norm(weights.W_E[tokens[:5]] + weights.W_pos[99], weights.eps)
    >>> torch.allclose(seen, there @ weights.W_K, atol=1e-3)
    True
    """
    here, W_E = weights.position(n), weights.embeddings()
    chosen = W_E if tokens is None else W_E[check_ids(tokens, len(W_E)).to(W_E.device)]
    seen = (chosen @ M).add_(here[None] @ M)
    return seen.div_(content_scale(weights, n, tokens)[..., None])


def positional_component(
    weights: LayerWeights,
    M: Float[Tensor, "*any d_model out"],
    n: int,
    C: float | None = None,
    length: int | None = None,
) -> Float[Tensor, "*any source out"]:
    """`positional_shift M`: what standing at i in place of n adds, in the eyes of the same map;
    zero at i = n. Errors as there.

    >>> P_V = cx.decompose.positional_component(weights, weights.W_V, n=99)  # of values
    >>> P_V.shape, P_V[:, 99].abs().max().item()
    (torch.Size([8, 100, 32]), 0.0)
    """
    return positional_shift(weights, n, C, length) @ M


def positional_shift(
    weights: LayerWeights, n: int, C: float | None = None, length: int | None = None
) -> Float[Tensor, "source d_model"]:
    """`sqrt(d_model) (W_pos[i] - W_pos[n]) / sqrt(|W_pos[i]|^2 + C^2)` for the sources of n (of
    a text of `length` tokens, where they stand on both sides): what a position adds to a normalised
    residual.

    `C` defaults to the median norm of a token embedding. Raises ValueError for a position that the
    model does not have and for a C that is not positive.

    >>> cx.decompose.positional_shift(weights, n=99).shape
    torch.Size([100, 256])
    """
    here, reach = weights.position(n), weights.reach(n, length)
    return (weights.W_pos[:reach] - here) / shared_scale(weights, C)[:reach, None]


def content_scale(
    weights: LayerWeights,
    n: int | Int[Tensor, " dest"],
    tokens: Int[Tensor, "*text token"] | None = None,
) -> Float[Tensor, "*dest_or_text token"]:
    """`sqrt(|W_E[t] + W_pos[n]|^2 / d_model + eps)`: LayerNorm's scale for token t at one
    destination, or for one text at several; from the three products, so that the sum itself need
    not be formed. ValueError for a destination that is not there.

    >>> scale = cx.decompose.content_scale(weights, n=99, tokens=tokens[:5])
    >>> own = cx.weights.layer_norm_scale(weights.W_E[tokens[:5]] + weights.W_pos[99], weights.eps)
    >>> torch.allclose(scale, own[:, 0], atol=1e-3)
    True
    """
    here = weights.W_pos[n] if isinstance(n, Tensor) else weights.position(n)
    W_E = weights.embeddings()
    W_E = W_E if tokens is None else W_E[tokens.to(W_E.device)]
    both = (here[..., None, :] @ W_E.mT)[..., 0, :]
    squared = torch.linalg.vector_norm(W_E, dim=-1).square() + 2 * both
    return ((squared + here.square().sum(-1, keepdim=True)) / W_E.shape[-1] + weights.eps).sqrt()


def shared_scale(weights: LayerWeights, C: float | None = None) -> Float[Tensor, " n_ctx"]:
    """`sqrt(|W_pos[i]|^2 + C^2) / sqrt(d_model)`: LayerNorm's scale at position i
    for a token of typical norm. As in the paper without eps, which is small beside C^2 / d_model
    in the models of the book (1e-5 or less).

    >>> stream = weights.W_E[tokens] + weights.W_pos
    >>> exact = cx.weights.layer_norm_scale(stream, weights.eps)[:, 0]
    >>> 0.5 < (exact / cx.decompose.shared_scale(weights)).median() < 2
    tensor(True)
    """
    C = weights.typical_norm(C)
    return ((weights.W_pos.square().sum(-1) + C**2) / weights.d_model).sqrt()


def content_keys(
    weights: LayerWeights, n: int, tokens: Chosen = None
) -> Float[Tensor, "head token d_head"]:
    """`E[n, t] = LN(W_E[t] + W_pos[n]) W_K`: the key that token t would have
    at the destination's position.

    `tokens` are the ids t, the whole vocabulary by default. Raises ValueError for a position that
    the model does not have.

    >>> E = cx.decompose.content_keys(weights, n=99, tokens=tokens[:100])
    >>> E.shape
    torch.Size([8, 100, 32])
    """
    return content_component(weights, weights.W_K, n, tokens)


def positional_keys(
    weights: LayerWeights, n: int, C: float | None = None
) -> Float[Tensor, "head source d_head"]:
    """`P[n, i] = sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)`
    for i = 0 ... n; zero at i = n. Errors as in `where`.

    >>> P = cx.decompose.positional_keys(weights, n=99)
    >>> P.shape, P[:, 99].abs().max().item()
    (torch.Size([8, 100, 32]), 0.0)
    """
    return positional_component(weights, weights.W_K, n, C)


# ---------------------------------------------------------------- the two factors of a row


def destination_query(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head d_head"]:
    """`q_n` of `token` at destination n, the same in every text.

    `token=None` is the query without a token, for checkpoints that come without embeddings:
    `sqrt(d_model) W_pos[n] / sqrt(|W_pos[n]|^2 + C^2)` in place of the normalised residual.
    Errors as in `positional_kernels`.

    >>> cx.decompose.destination_query(weights, n=256, token=" of").shape
    torch.Size([8, 32])
    """
    here = weights.position(n)
    if token is None:
        return queries_of(weights, here / shared_scale(weights, C)[n])
    own = weights.embeddings()[weights.token_id(token)]
    return queries_of(weights, layer_norm(own + here, weights.eps))


def queries_of(weights: LayerWeights, x: Float[Tensor, "*any d_model"]) -> Queries:
    """`x W_Q + b_Q` of any normalised residuals.

    >>> q = cx.decompose.queries_of(weights, weights.normalized_resid(tokens)[99])
    >>> torch.allclose(q, weights.queries(tokens)[:, 99], atol=1e-4)
    True
    """
    q = einsum(x, weights.W_Q, "... d_model, head d_model d_head -> ... head d_head")
    return q + weights.b_Q


def asked(weights: LayerWeights, q: Queries) -> Asked:
    """`q W_K^T / attn_scale`: what heads with these queries ask the normalised residual for. The
    query meets W_K first, so that to score sources no key is formed.

    >>> ask = cx.decompose.qk_direction(weights, weights.queries(tokens)[:, 99])
    >>> rows = (ask @ weights.normalized_resid(tokens[:100]).T).softmax(-1)
    >>> torch.allclose(rows, cx.attention_rows(weights, tokens, n=99), atol=1e-4)
    True
    """
    ask = einsum(q, weights.W_K, "... head d_head, head d_model d_head -> ... head d_model")
    return ask / weights.attn_scale


def qk_direction_at(
    weights: LayerWeights, x_n: Int[Tensor, "*text"], n: int
) -> Float[Tensor, "*text head d_model"]:
    """`asked` by the tokens that stand at n.

    >>> ask = cx.decompose.qk_direction_at(weights, tokens[99], n=99)
    >>> torch.allclose(ask, cx.decompose.qk_direction(weights, weights.queries(tokens)[:, 99]), atol=1e-4)
    True
    """
    here = weights.embeddings()[x_n] + weights.W_pos[n]
    return asked(weights, queries_of(weights, layer_norm(here, weights.eps)))


def positional_kernels(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head source"]:
    """`pos_{n,i} = softmax_i(q_n . P[n, i] / attn_scale)` for i = 0 ... n, with `token` at
    destination n; in an encoder for the sources of a text of 2n tokens.

    `token=None` is the query without a token, for checkpoints that come without embeddings;
    C must then be given. Raises ValueError for a position that the model does not have and for a
    text that is not one token.

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
    """`log content_n(t) = q_n . E[n, t] / attn_scale`: how a head with `token` at destination n
    weighs every token t, in nats (chapter 3).

    `tokens` are the ids t, the whole vocabulary by default. Only differences between tokens of
    one head mean anything. Errors as in `positional_kernels`.

    >>> scores = cx.content_scores(weights, n=256)
    >>> scores.shape
    torch.Size([8, 8192])
    >>> torch.allclose(cx.content_scores(weights, n=256, tokens=tokens[:9]), scores[:, tokens[:9]])
    True
    """
    ask = LayerNormDecomposition.of(weights, n, token).ask
    return content_component(weights, ask.mT, n, tokens).mT


# ---------------------------------------------------------------- one row


def exact_scores(weights: LayerWeights, tokens: Texts, n: int) -> Entries:
    """`q_n . key_i / attn_scale` for i = 0 ... n, b_K included, of one text or a stack of them.
    Errors as in `LayerWeights.normalized_resid`.

    >>> scores = cx.decompose.exact_scores(weights, tokens, n=99)
    >>> scores.shape
    torch.Size([8, 100])
    >>> torch.allclose(scores.softmax(-1), cx.attention_rows(weights, tokens, n=99))
    True
    """
    x = weights.normalized_resid(tokens, n)
    q = queries_of(weights, x[..., n, :])
    from_bias = (q * weights.b_K).sum(-1, keepdim=True) / weights.attn_scale
    return asked(weights, q) @ x.mT + from_bias


def approx_scores(weights: LayerWeights, tokens: Texts, n: int, C: float | None = None) -> Entries:
    """`q_n . (E[n, x_i] + P[n, i]) / attn_scale` for i = 0 ... n: Equation 1 in place of the key,
    of one text or a stack of them. Errors as in `exact_scores` and `positional_shift`.

    >>> exact = cx.decompose.exact_scores(weights, tokens, n=99)
    >>> rebuilt = cx.decompose.approx_scores(weights, tokens, n=99)
    >>> 0.9 < torch.corrcoef(torch.stack([exact[4], rebuilt[4]]))[0, 1] <= 1
    tensor(True)
    """
    x = weights.seen(tokens, n)
    position, content = halves(weights, x, n, positional_shift(weights, n, C, x.shape[-1]))
    return content + position


def halves(
    weights: LayerWeights, x: Texts, n: int, shift: Float[Tensor, "source d_model"]
) -> tuple[Entries, Entries]:
    """`q_n . P[n, i] / attn_scale` and `q_n . E[n, x_i] / attn_scale`, asked by the token at n of
    each text; `shift` is `positional_shift` for its sources.
    """
    ask = qk_direction_at(weights, x[..., n], n).mT
    return (shift @ ask).mT, content_component(weights, ask, n, x).mT


def attention_rows(weights: LayerWeights, tokens: Texts, n: int) -> Entries:
    """The attention row of every head at destination n, exact;
    each row sums to 1 over the sources 0 ... n.

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
    """The attention rows that Equation 1 gives at destination n.

    Errors as in `attention_rows` and `positional_keys`.

    >>> exact = cx.attention_rows(weights, tokens, n=99)
    >>> rebuilt = cx.approx_rows(weights, tokens, n=99)
    >>> cx.total_variation(exact, rebuilt).median() < 0.2  # of a distance of at most 1
    tensor(True)
    """
    return approx_scores(weights, tokens, n, C).softmax(-1)


# ---------------------------------------------------------------- what approximates


@dataclass(frozen=True, eq=False)
class Readout:
    """From the inside of the heads to the neurons that read them.

    `inputs` are the MLP's matrices and biases by name: `pre`, or of a gated MLP `gate` and `up`;
    `W_in` and `b_in` are the first of them, whose numbers the activation function `act_fn` sees.
    They read the residual stream behind LayerNorm with `eps`. Beside the heads' outputs the stream
    holds `rest`, and for each token at n a row of `by_token`, where any token may stand there.

    >>> cx.fix_query(weights, n=99).readout.W_in.shape
    torch.Size([256, 1024])
    """

    W_O: Float[Tensor, "head d_head d_model"]
    inputs: Mapping[str, tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]]
    eps: float
    act_fn: str
    rest: Float[Tensor, " d_model"]
    by_token: Float[Tensor, "vocab d_model"] | None = None

    @property
    def W_in(self) -> Float[Tensor, "d_model neuron"]:
        return self.first()[0]

    @property
    def b_in(self) -> Float[Tensor, " neuron"]:
        return self.first()[1]

    def first(self) -> tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]:
        """W_in and b_in, or a ValueError where the weights came without them."""
        if not self.inputs:
            raise ValueError(NO_MLP)
        return next(iter(self.inputs.values()))

    def beside(self, x_n: Int[Tensor, "*text"]) -> Float[Tensor, "*text d_model"]:
        """What the stream holds at n beside the heads."""
        if self.by_token is None:
            return self.rest.expand(*x_n.shape, -1)
        return self.by_token[x_n] + self.rest


class Decomposition(ABC):
    """What stands in for a first layer's heads at destination n where `token` stands: a kernel and
    content in place of each row, and in place of each value that of its token at n.

        row_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

    `kernels` is `pos_i`, the row where content is the same everywhere; `content` is
    `log content(t)` in nats, of which only differences between tokens of one head mean anything.
    `x` is one text or a stack of them, of which the first `length` tokens are read. `LayerNormDecomposition` is
    the paper's; `ctxlib.additive.AdditiveDecomposition` and `ctxlib.store.StoredDecomposition` are others.

    >>> fixed = cx.fix_query(weights, n=256)
    >>> fixed.decomposition.kernels.shape, fixed.decomposition.log_content.shape, fixed.decomposition.values([3, 4]).shape
    (torch.Size([8, 257]), torch.Size([8, 8192]), torch.Size([8192, 2, 32]))
    """

    n: int
    token: int | None
    tokenizer: Any

    @property
    @abstractmethod
    def kernels(self) -> Float[Tensor, "head source"]: ...

    @property
    @abstractmethod
    def content(self) -> Float[Tensor, "head vocab"]: ...

    @property
    @abstractmethod
    def untrained(self) -> Bool[Tensor, " vocab"]:
        """Glitch tokens: `ctxlib.weights.untrained_tokens`."""

    @property
    @abstractmethod
    def readout(self) -> Readout:
        """How what is inside the heads reaches the neurons."""

    @abstractmethod
    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        """The value, b_V included, that each token would have at the destination's position."""

    @abstractmethod
    def inside(self, x: Texts, rows: Entries) -> Float[Tensor, "*text head d_head"]:
        """`sum_i a_i v_i` with these rows and rebuilt values: what is inside each head."""

    def factors(self, x: Texts) -> tuple[Entries, Entries]:
        """`log pos_i` and `log content(x_i)` in each text, for the token that stands at n there;
        each up to a constant of the row.
        """
        content = self.content.T[self.seen(x)].mT  # in logarithms nothing overflows
        kernels = self.kernels.clamp_min(torch.finfo(self.kernels.dtype).tiny)  # ALiBi's reach 0
        return kernels.log().expand(content.shape), content

    def rows(self, x: Texts) -> Entries:
        """`pos_i content(x_i) / denom`: the attention rows from the two factors.

        >>> fixed = cx.fit_additive(model, passages)
        >>> (x,) = fixed.prepare(passages[:1])
        >>> cx.total_variation(fixed.exact.rows(x), fixed.decomposition.rows(x)).median() < 0.1
        tensor(True)
        """
        kernel, content = self.factors(x)
        return (content + kernel).softmax(-1)

    def seen(self, x: Texts) -> Int[Tensor, "*text source"]:
        """The tokens that are read, if they are there and `token` stands at n; ValueError
        otherwise.
        """
        check_ids(x, self.content.shape[1])
        return crop(x, self.n, self.length, self.token)

    @property
    def length(self) -> int:
        return self.kernels.shape[1]

    @cached_property
    def likes(self) -> Float[Tensor, "head vocab"]:
        """`content(t)` itself."""
        return self.content.exp()


def crop(x: Texts, n: int, length: int, token: int | None) -> Int[Tensor, "*text source"]:
    """The first `length` tokens, if they are there and `token` stands at n, or a ValueError."""
    if x.shape[-1] < length:
        raise ValueError(f"a text of {x.shape[-1]} tokens: the destination {n} reads {length}")
    if not (x[..., n] == torch.tensor(token, device=x.device)).all():
        raise ValueError(f"the token at n={n} is another than {token}, the one that asks there")
    return x[..., :length]


@dataclass(frozen=True, eq=False)
class LayerNormDecomposition(Decomposition):
    """The split of a first layer whose positions are learned and added to its embeddings
    (Gibson 2025, Equation 1), with C for the typical norm of a token embedding.

    `token` is None for the query without a token, of weights that came without embeddings; then
    there are kernels, and nothing that tokens are needed for. Texts may have their own token at n.

    >>> fixed = cx.fix_query(weights, n=100, token=" of")
    >>> fixed.n, fixed.token, fixed.decomposition.kernels.shape, fixed.decomposition.C == weights.typical_norm()
    (100, 284, torch.Size([8, 101]), True)
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
        """The split asked by `token`, given as text or as an id; C is by default the median norm.
        ValueError for an n that the model does not have, for a token that is not exactly one, and
        for a C that is not positive.
        """
        weights.position(n)
        number = None if token is None else weights.token_id(token)
        return cls(weights, whole("position", n), number, weights.typical_norm(C))

    @property
    def tokenizer(self) -> Any:
        return self.weights.tokenizer

    @cached_property
    def ask(self) -> Float[Tensor, "head d_model"]:
        """`asked` by the token of the destination."""
        q = destination_query(self.weights, self.n, self.token, self.C)
        return asked(self.weights, q)

    @cached_property
    def kernels(self) -> Float[Tensor, "head source"]:
        return (self.shift @ self.ask.mT).mT.softmax(-1)

    @cached_property
    def content(self) -> Float[Tensor, "head vocab"]:
        if self.token is None:
            raise ValueError("content needs a token at the destination, and token is None")
        return content_component(self.weights, self.ask.mT, self.n).mT

    @cached_property
    def untrained(self) -> Bool[Tensor, " vocab"]:
        return untrained_tokens(self.weights.embeddings(), self.tokenizer)

    @cached_property
    def readout(self) -> Readout:
        w, (by_token, rest) = self.weights, self.weights.resid_without_heads(self.n)
        inputs = {} if w.W_in is None else {"pre": w.mlp_input()}
        return Readout(w.W_O, inputs, w.eps, w.act_fn, rest, by_token)

    @cached_property
    def shift(self) -> Float[Tensor, "source d_model"]:
        """`positional_shift`: a summary of many texts asks for it once."""
        return positional_shift(self.weights, self.n, self.C)

    @property
    def length(self) -> int:
        return self.weights.reach(self.n)

    def seen(self, x: Texts) -> Int[Tensor, "*text source"]:
        return self.weights.read(x, self.n)

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        chosen = list(heads)
        W_V = rearrange(self.weights.W_V[chosen], "head d_model d_head -> d_model (head d_head)")
        values = content_component(self.weights, W_V, self.n).unflatten(-1, (len(chosen), self.weights.d_head))
        return values.add_(self.weights.b_V[chosen])

    @cached_property
    def all_values(self) -> tuple[Tensor, Float[Tensor, "head source d_head"]]:
        """`E_V[n, t] + b_V`, as `values`, and `P_V[n, i]` of all heads."""
        return self.values(range(self.weights.n_heads)), self.shift @ self.weights.W_V

    def factors(self, x: Texts) -> tuple[Entries, Entries]:
        return halves(self.weights, self.seen(x), self.n, self.shift)

    def rows(self, x: Texts) -> Entries:
        x = self.seen(x)
        if self.token is not None and (x[..., self.n] == self.token).all():
            return (self.content.T[x].mT + self.kernels.log()).softmax(-1)
        return super().rows(x)

    def inside(self, x: Texts, rows: Entries) -> Float[Tensor, "*text head d_head"]:
        by_token, by_source = self.all_values
        heads = torch.arange(self.weights.n_heads, device=rows.device)[:, None]
        entry = self.seen(x)[..., None, :] * self.weights.n_heads + heads
        z = weighted_sum(by_token.flatten(0, 1), entry, rows)
        return z + (rows[..., None, :] @ by_source)[..., 0, :]


def weighted_sum(
    table: Float[Tensor, "row out"],
    x: Int[Tensor, "*any source"],
    share: Float[Tensor, "*any source"],
) -> Float[Tensor, "*any out"]:
    """`sum_i share_i table[x_i]`, without a copy of what is summed.

    >>> ones, halves = torch.ones(3, 2), torch.tensor([0.5, 0.5])
    >>> cx.decompose.weighted_sum(ones, torch.tensor([0, 2]), halves)
    tensor([1., 1.])
    """
    bags, shares = (v.reshape(-1, v.shape[-1]) for v in (x, share))
    sums = embedding_bag(bags, table, per_sample_weights=shares, mode="sum")
    return sums.view(*x.shape[:-1], -1)


# ---------------------------------------------------------------- every row of a text at once


def attention_pattern(weights: LayerWeights, tokens: Int[Tensor, " pos"]) -> Pattern:
    """`attention_rows` at every destination; zero where a destination does not look.

    >>> pattern = cx.decompose.attention_pattern(weights, tokens)
    >>> pattern.shape
    torch.Size([8, 512, 512])
    >>> rows = cx.attention_rows(weights, tokens, n=99)
    >>> torch.allclose(pattern[:, 99, :100], rows, atol=1e-4)
    True
    """
    scores = weights.queries(tokens) @ weights.keys(tokens).mT  # head dest source
    return attended(weights, scores / weights.attn_scale)


def approx_pattern(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], C: float | None = None
) -> Pattern:
    """`approx_rows` at every destination, in three matrix products instead of one per
    destination.

    >>> exact = cx.decompose.attention_pattern(weights, tokens)
    >>> rebuilt = cx.decompose.approx_pattern(weights, tokens)
    >>> cx.total_variation(exact, rebuilt).mean(-1).median() < 0.2  # of a distance of at most 1
    tensor(True)
    """
    content, position = split_scores(weights, tokens, weights.queries(tokens), C)
    return attended(weights, content + position)


def split_scores(
    weights: LayerWeights,
    tokens: Int[Tensor, " pos"],
    q: Float[Tensor, "head pos d_head"],
    C: float | None = None,
) -> tuple[Pattern, Pattern]:
    """`q_n . E[n, x_i] / attn_scale` and `q_n . P[n, i] / attn_scale` for all destinations n and
    sources i of a text, with any query at each destination.

    Both halves of the key are linear in `W_E[x_i]`, `W_pos[i]` and `W_pos[n]` up to a scale that
    depends on the pair (n, i), so the query meets the two projections once and the scales are
    applied to the scores. In a decoder, what lies above the diagonal means nothing. Errors as
    in `LayerWeights.normalized_resid`.

    >>> q = weights.queries(tokens)
    >>> content, position = cx.decompose.split_scores(weights, tokens, q)
    >>> rows = cx.decompose.causal_softmax(content + position)
    >>> torch.allclose(rows, cx.decompose.approx_pattern(weights, tokens), atol=1e-4)
    True
    """
    tokens = weights.check_text(tokens)
    W_E, W_pos = weights.embeddings()[tokens], weights.W_pos[: len(tokens)]
    q_what, q_where = (q @ (x @ weights.W_K).mT for x in (W_E, W_pos))  # head dest source
    q_here = q_where.diagonal(dim1=1, dim2=2)[..., None]  # q_n . W_pos[n] W_K
    scale = content_scale(weights, torch.arange(len(tokens), device=tokens.device), tokens)
    content = (q_what + q_here) / (scale * weights.attn_scale)
    position = (q_where - q_here) / (shared_scale(weights, C)[: len(tokens)] * weights.attn_scale)
    return content, position


def split_values(
    weights: LayerWeights,
    tokens: Int[Tensor, " pos"],
    rows: Float[Tensor, "chosen dest source"],
    heads: list[int],
    C: float | None = None,
) -> tuple[Float[Tensor, "chosen dest d_head"], Float[Tensor, "chosen dest d_head"]]:
    """`sum_i a_{n,i} (E_V[n, x_i] + b_V)` and `sum_i a_{n,i} P_V[n, i]` for all destinations n: the
    two halves of the values, as `split_scores` are those of the scores.

    >>> rows = cx.decompose.approx_pattern(weights, tokens)
    >>> content, position = cx.decompose.split_values(weights, tokens, rows, [*range(8)])
    >>> content.shape, position.shape
    (torch.Size([8, 512, 32]), torch.Size([8, 512, 32]))
    """
    what, where = (  # head pos d_head
        x @ weights.W_V[heads] for x in (weights.embeddings()[tokens], weights.W_pos[: len(tokens)])
    )
    scaled = rows / content_scale(weights, torch.arange(len(tokens), device=tokens.device), tokens)
    content = scaled @ what + scaled.sum(-1, keepdim=True) * where
    content = content + rows.sum(-1, keepdim=True) * weights.b_V[heads][:, None]
    shifted = rows / shared_scale(weights, C)[: len(tokens)]
    return content, shifted @ where - shifted.sum(-1, keepdim=True) * where


def attended(weights: LayerWeights, scores: Pattern) -> Pattern:
    """Softmax over the sources that a destination of this layer sees."""
    return scores.softmax(-1) if weights.both_sides else causal_softmax(scores)


def causal_softmax(scores: Pattern) -> Pattern:
    """Softmax over the sources that a destination may see.

    >>> cx.decompose.causal_softmax(torch.zeros(1, 3, 3))
    tensor([[[1.0000, 0.0000, 0.0000],
             [0.5000, 0.5000, 0.0000],
             [0.3333, 0.3333, 0.3333]]])
    """
    future = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1)


# ---------------------------------------------------------------- how far apart, how spread


def total_variation(
    a: Float[Tensor, "*batch source"], b: Float[Tensor, "*batch source"]
) -> Float[Tensor, "*batch"]:
    """`TV = 1/2 sum_i |a_i - b_i|`, the share of the attention that one row has elsewhere
    than the other: 0 to 1.

    >>> cx.total_variation(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
    tensor(0.5000)
    """
    return (a - b).abs().sum(-1) / 2


def effective_tokens(rows: Float[Tensor, "*head source"]) -> Float[Tensor, "*head"]:
    """`1 / sum_i pos_i^2`: over how many tokens a row is spread; k for a row that is even over k.

    >>> cx.effective_tokens(torch.tensor([0.25, 0.25, 0.25, 0.25]))
    tensor(4.)
    """
    return 1 / rows.square().sum(-1)


def half_mass(rows: Float[Tensor, "*head source"], n: int | None = None) -> Int[Tensor, "*head"]:
    """Within how many tokens of the destination n, by default the last source, half of a row's mass
    lies: the smallest d with `sum_{|n - i| <= d} pos_i >= 1/2`. ValueError for another n.

    >>> cx.heads.half_mass(torch.tensor([0.1, 0.3, 0.4, 0.2]))
    tensor(1)
    >>> cx.heads.half_mass(torch.tensor([0.1, 0.3, 0.4, 0.2]), n=2)
    tensor(1)
    """
    n = rows.shape[-1] - 1 if n is None else n
    check_index("position", n, rows.shape[-1])
    far = (torch.arange(rows.shape[-1], device=rows.device) - n).abs()
    within = torch.zeros_like(rows).index_add_(-1, far, rows)
    return (within.cumsum(-1) < 0.5).sum(-1)


# ---------------------------------------------------------------- families


def copy_preference(weights: LayerWeights, n: int) -> Float[Tensor, " head"]:
    """By how many nats a head prefers a copy of the destination token to another token.

    The content score of t for the destination t, less the mean score of the other tokens for that
    destination, averaged over destinations: 256 tokens spread evenly over the vocabulary, without
    the first, serve as both. Raises ValueError for a position that the model does not have.

    >>> cx.heads.copy_preference(weights, n=256).shape
    torch.Size([8])
    """
    W_E = weights.embeddings()
    # on the CPU, whose rounding is the same wherever the weights are
    tokens = torch.linspace(1, len(W_E) - 1, min(256, len(W_E) - 1), device="cpu").long().unique()
    x = layer_norm(W_E[tokens] + weights.position(n), weights.eps)
    # head dest source
    scores = project(x, weights.W_Q, weights.b_Q) @ project(x, weights.W_K, weights.b_K).mT
    own = scores.diagonal(dim1=1, dim2=2)
    others = (scores.sum(-1) - own) / (len(tokens) - 1)
    return (own - others).mean(-1) / weights.attn_scale


def family_table(
    kernels: Float[Tensor, "head source"],
    n: int | None = None,
    copies: Float[Tensor, " head"] | None = None,
) -> pd.DataFrame:
    """The table of `families` from kernels at n, by default the last source, and `copies`, nats for
    a copy, where they are known.

    >>> even = torch.full((1, 257), 1 / 257)
    >>> cx.heads.family_table(even).loc[0, "family"]
    'uniform'
    """
    copies = torch.full((len(kernels),), torch.nan) if copies is None else copies
    n = kernels.shape[1] - 1 if n is None else n
    columns = {
        "effective tokens": effective_tokens(kernels),
        "half-mass distance": half_mass(kernels, n),
        "TV to uniform": total_variation(kernels, torch.full_like(kernels, 1 / kernels.shape[1])),
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

    >>> cx.heads.family(113, 36, 0.56, 0.4, n=500)[0]
    'slowly decaying'
    >>> cx.heads.family(31, 311, 0.19, float("nan"), n=500)
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
