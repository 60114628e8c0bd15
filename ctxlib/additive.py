"""The method where positions are not in the residual stream: rotary, ALiBi, relative biases; and
learned ones as well (chapter 11).

In a first layer the score of a source depends on which token stands there and where, and on
nothing else of the text. It is asked of the model itself, by one derivative a head, and then split
by a two-way analysis of variance:

    score(i, t)   = g_i . x_t + c_i                     exact: g_i is what source i is asked for
    log pos_i     = mean of score(i, t) over tokens, each as often as in texts
    log content_t = mean of score(i, t) - log pos_i over sources, weighted by pos
                  = (sum_i pos_i g_i) . (x_t - mean x)

What is left is the interaction of what and where: zero for ALiBi and relative biases, small where
learned positions change LayerNorm's scale, and the whole question for rotary positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from einops import einsum, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ctxlib.adapter import act_fn, centered, upstream_layers, mlp_inputs
from ctxlib.lookups.attribution import at_last_token
from ctxlib.exact import ExactLayer, Residual, Values
from ctxlib.query import FixedQuery
from ctxlib.decompose import Entries, Readout, Decomposition, Texts, placed
from ctxlib.texts.batching import fixed, check_texts, progress
from ctxlib.texts.text import AnyText, Reader, token_ids
from ctxlib.weights import (
    AGREES,
    check_ids,
    check_layer,
    layer_norm,
    token_id,
    untrained_tokens,
    whole,
)

TEXTS_AT_A_TIME = 4  # as whole attention patterns are read
VOCAB_AT_A_TIME = 4096

SCORES, PATTERN = "blocks.0.attn.hook_attn_scores", "blocks.0.attn.hook_pattern"
READ_BY_KEYS, QUERY, INSIDE = (f"blocks.0.attn.hook_{name}" for name in ("in", "q", "z"))

# ---------------------------------------------------------------- what a first layer is asked for


@dataclass(frozen=True, eq=False)
class ExactFromModel(ExactLayer):
    """The truth of a first layer at n where `token` stands, as a model's hooks show it: of any
    decoder. `fit_additive` makes it.

    `E` is the stream of each token where a text begins, `where` what position i adds to it (zero,
    unless positions are learned and added), both centred where the model has LayerNorm. A source
    at i with normalised stream x scores `asked[h, i] . x + alone[h, i]`, up to a constant of the
    row. `W_V` and `b_V` are the heads' own; where they share keys and values, each has a copy.
    `readout` belongs to the MLP of layer `reads`, the first that sees what the heads write: the
    next layer's where attention and MLP stand side by side. `positions` is the kind of positions in
    TransformerLens's words.

    >>> layer = cx.fit_additive(model, passages).exact
    >>> layer.n, layer.positions, layer.qk_direction.shape
    (256, 'standard', torch.Size([8, 257, 256]))
    """

    n: int
    token: int
    positions: str
    E: Float[Tensor, "vocab d_model"]
    where: Float[Tensor, "source d_model"]
    asked: Float[Tensor, "head source d_model"]
    alone: Float[Tensor, "head source"]
    W_V: Float[Tensor, "head d_model d_head"]
    b_V: Float[Tensor, "head d_head"]
    readout: Readout
    reads: int
    tokenizer: Any

    def value_map(self) -> Values:
        return self.W_V, self.b_V

    def normalized_resid(self, x: Texts, here: bool = False) -> Residual:
        """What keys and values are read from: `LN(E[x_i] + where[i])`. ValueError for a text of
        fewer than n + 1 tokens, or with another than `token` at n.

        >>> fixed = cx.fit_additive(model, passages[:2])
        >>> (x,) = fixed.prepare(passages[:1])
        >>> torch.allclose(fixed.exact.normalized_resid(x), weights.normalized_resid(x), atol=1e-3)
        True
        """
        x = crop(check_ids(x, len(self.E)), self.n, self.n + 1, self.token)
        stands = self.where[self.n] if here else self.where
        return layer_norm(self.E[x] + stands, self.readout.eps)

    def scores_from(self, read: Residual) -> Entries:
        """`g_i . x_i + c_i`, exact.

        >>> fixed = cx.fit_additive(model, passages[:2])
        >>> (x,) = fixed.prepare(passages[:1])
        >>> torch.allclose(fixed.exact.rows(x), cx.attention_rows(weights, x, n=256), atol=1e-4)
        True
        """
        by_source = "... source d, head source d -> ... head source"
        return einsum(read, self.asked, by_source) + self.alone


@dataclass(frozen=True, eq=False)
class AdditiveDecomposition(Decomposition):
    """The split of any first layer by two means, over tokens and over sources. Make a destination
    of it with `fit_additive`, or with `cx.fix_query` where positions are not learned.

    `frequency` is each token's share of the texts.

    >>> fixed = cx.fit_additive(model, passages)
    >>> fixed.decomposition.kernels.shape, fixed.readout.W_in.shape
    (torch.Size([8, 257]), torch.Size([256, 1024]))
    """

    n: int
    token: int
    layer: ExactFromModel
    frequency: Float[Tensor, " vocab"]

    @property
    def tokenizer(self) -> Any:
        return self.layer.tokenizer

    @property
    def readout(self) -> Readout:
        return self.layer.readout

    @cached_property
    def mean(self) -> Float[Tensor, "source d_model"]:
        """`mean x`: what keys read at source i on average over the tokens of the texts.

        >>> cx.fit_additive(model, passages[:2]).decomposition.mean.shape
        torch.Size([257, 256])
        """
        share, E = self.occurring
        weight = share[:, None] / stream_scale(
            E, self.layer.position_offset, self.readout.eps
        )  # token source
        return weight.T @ E + weight.sum(0)[:, None] * self.layer.position_offset

    @cached_property
    def kernels(self) -> Float[Tensor, "head source"]:
        """`pos_i = softmax_i(g_i . mean x + c_i)`, the row of a text in which the average token
        stands everywhere: up to a factor, the geometric mean over tokens of what a source gets.

        >>> kernels = cx.fit_additive(model, passages).decomposition.kernels
        >>> cx.total_variation(kernels, cx.positional_kernels(weights, n=256)).max() < 0.1
        tensor(True)
        """
        scores = einsum(self.layer.qk_direction, self.mean, "head source d, source d -> head source")
        return (scores + self.layer.qk_offset).softmax(-1)

    @cached_property
    def mean_qk_direction(self) -> Float[Tensor, "head d_model"]:
        """`sum_i pos_i g_i`: what the average source is asked for. A rotary head turns its query a
        little further at every step back; what turns fast cancels here.

        >>> fixed = cx.fit_additive(model, passages[:2])
        >>> torch.allclose(fixed.decomposition.mean_qk_direction, fixed.exact.qk_direction[:, 0], atol=1e-4)  # no turns
        True
        """
        return einsum(self.kernels, self.layer.qk_direction, "head source, head source d -> head d")

    @cached_property
    def content(self) -> Float[Tensor, "head vocab"]:
        """`log content(t) = (sum_i pos_i g_i) . (x_t - mean x)`, in nats, zero for the average
        token. x is read at the destination's position, which matters for learned positions only.

        >>> content = cx.fit_additive(model, passages).decomposition.log_content
        >>> (content - cx.content_scores(weights, n=256)).std(dim=1).max() < 1e-3
        tensor(True)
        """
        base = (self.mean_qk_direction @ self.mean[self.n])[:, None]
        return torch.cat([self.mean_qk_direction @ x.T - base for x in self.by_token], dim=1)

    @cached_property
    def untrained(self) -> Bool[Tensor, " vocab"]:
        return untrained_tokens(self.layer.E, self.tokenizer)

    @property
    def by_token(self) -> Iterator[Float[Tensor, "token d_model"]]:
        """`LN(E[t] + where[n])` of the vocabulary, a few thousand tokens at a time."""
        for part in self.layer.E.split(VOCAB_AT_A_TIME):
            yield layer_norm(part + self.layer.position_offset[self.n], self.readout.eps)

    @cached_property
    def occurring(self) -> tuple[Float[Tensor, " token"], Float[Tensor, "token d_model"]]:
        """Frequency and stream of the tokens that occur in the texts."""
        found = self.frequency > 0
        return self.frequency[found], self.layer.E[found]

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        W_V, b_V = (t[list(heads)] for t in (self.layer.W_V, self.layer.b_V))
        into = "t d_model, head d_model d_head -> t head d_head"
        return torch.cat([einsum(x, W_V, into) for x in self.by_token]).add_(b_V)

    def inside(self, x: Texts, rows: Entries) -> Float[Tensor, "*text head d_head"]:
        return self.layer.z_from_pattern(rows, self.layer.normalized_resid(x))


def fit_additive(
    model: Any, texts: Sequence[AnyText], n: int | None = None, token: str | int = " the"
) -> FixedQuery:
    """Ask a model loaded with `cx.load`. The texts say how common each token is.

    n defaults to the middle of the shortest text. What is found is held against what the model
    computes on one of the texts. Raises ValueError for fewer than two texts, for texts of fewer
    than n tokens, for an n below 2 or beyond what the model reads, for a `token` that is not
    exactly one, for a model whose scores are not linear in the keys' input (keys normalised,
    scores capped) or that scales what its heads write, and for one of a single layer with attention
    and MLP side by side.

    >>> fixed = cx.fit_additive(model, passages, n=100, token=" of")
    >>> fixed.decomposition.kernels.shape
    torch.Size([8, 101])
    """
    check_layer(model, 0)
    check_texts(texts)
    if len(texts) < 2:
        raise ValueError(f"{len(texts)} texts: give two at least, one to measure, one to check")
    reads = 0 if upstream_layers(model, 0) else 1
    if reads >= model.cfg.n_layers:
        raise ValueError(
            "attention and MLP of this model's only layer stand side by side: no neuron sees "
            "what its heads write"
        )
    reader = Reader.of(model)
    n = min(len(token_ids(text, reader)) for text in texts) // 2 if n is None else n
    n = whole("destination", n)
    if not 2 <= n < model.cfg.n_ctx:
        raise ValueError(f"destination {n}: choose 2 to {model.cfg.n_ctx - 1}")
    number = token_id(token, reader.tokenizer, reader.d_vocab)
    stack = prepare(reader, texts, n, number)
    one = stack[:1].clone()
    E, where = stream_of(model, one)
    counts = torch.bincount(stack[:, 1:n].flatten(), minlength=len(E)).to(E.dtype)

    attn = model.blocks[0].attn
    W_O, W_V = attn.W_O.detach().cpu(), attn.W_V.detach().cpu()
    b_V = torch.zeros(len(W_V), W_V.shape[-1]) if attn.b_V is None else attn.b_V.detach().cpu()
    shared = len(W_O) // len(W_V)
    asked, scores = derivatives_of_scores(model, one)
    x = layer_norm(E[one[0]] + where, model.cfg.eps)
    # behind the first layer's attention, or in front of the second, parallel layer
    name = "blocks.1.hook_resid_pre" if reads else "blocks.0.hook_resid_mid"
    own = at_last_token(model, [one[0]], [name, INSIDE], reads + 1)
    written = einsum(own[INSIDE][0], W_O, "head d, head d d_model -> d_model")
    inputs = {part: (W.cpu(), b.cpu()) for part, (W, b) in mlp_inputs(model, reads).items()}
    layer = ExactFromModel(
        n=n,
        token=number,
        positions=model.cfg.positional_embedding_type,
        E=E,
        where=where,
        asked=asked,
        alone=scores - einsum(asked, x, "head source d_model, source d_model -> head source"),
        W_V=repeat(W_V, "kv d_model d_head -> (kv shared) d_model d_head", shared=shared),
        b_V=repeat(b_V, "kv d_head -> (kv shared) d_head", shared=shared),
        readout=Readout(
            W_O,
            inputs,
            eps=model.cfg.eps,
            act_fn=act_fn(model),
            rest=centered(model, own[name])[0] - written,
        ),
        reads=reads,
        tokenizer=reader.tokenizer,
    )
    found = FixedQuery(AdditiveDecomposition(n, number, layer, counts / counts.sum()), layer, reader)
    check(found, layer, model, stack[-1:])
    return found


def check(
    fixed: FixedQuery, layer: ExactFromModel, model: Any, stack: Int[Tensor, "text source"]
) -> None:
    """Nothing, or a ValueError where rows, outputs, stream or neurons that follow from this are not
    what the model computes.
    """
    readout, reads = layer.readout, layer.reads
    rows, outputs = layer.rows(stack), fixed.head_outputs(stack)
    pre = layer_norm(fixed.resid_mid(stack, outputs), readout.eps) @ readout.W_in + readout.b_in
    name = f"blocks.{reads}.mlp.hook_pre"
    own = at_last_token(model, list(stack), [INSIDE, name], reads + 1)
    inside, true = fixed.apply_W_O(own[INSIDE]), true_rows(model, stack)
    for fault, ours, theirs in (
        ("attention scores are not linear in what its keys read", rows, true),
        ("heads write something else than values and W_O say", outputs, inside),
        ("MLP reads something else than the sum of what was written", pre, own[name]),
    ):
        # twice: scores are put together from derivatives, and a softmax follows
        if not (ours - theirs).abs().max() <= 2 * AGREES * theirs.abs().max():
            raise ValueError(
                f"this model's {fault} (normalised keys, capped scores, norms behind the "
                "heads or with gains that are not folded, ...): "
                "empirical kernels would be wrong for it"
            )


# ---------------------------------------------------------------- what is left


def decomposition(split: AdditiveDecomposition) -> pd.DataFrame:
    """How far scores vary with where, with what, and with both together: one row a head, standard
    deviations in nats, sources weighted by the kernel and tokens by their frequency.

    The three squares add up to the variance of the scores (a two-way analysis of variance). To
    second order half of the square of `interaction` is the divergence of the rebuilt row from the
    true one, so half of `interaction` bounds their total variation distance (Pinsker). `kept` is
    `|sum_i pos_i g_i|` over the root mean square of `|g_i|`: the part of the query that does not
    cancel between near and far sources; 1 where nothing turns.

    >>> table = cx.additive.anova(cx.fit_additive(model, passages).decomposition)
    >>> list(table), table["kept"].round(2).unique()  # learned positions: nothing turns
    (['where', 'what', 'interaction', 'kept'], array([1.]))
    """
    layer, (share, E) = split.layer, split.occurring
    scale = stream_scale(E, layer.position_offset, layer.readout.eps)  # token source
    rows = []
    for g, c, pos in zip(layer.qk_direction, layer.qk_offset, split.kernels, strict=True):
        seen = pos > 0
        g, c, pos = g[seen], c[seen], pos[seen]
        scores = (E @ g.T + (layer.position_offset[seen] * g).sum(-1)) / scale[:, seen] + c
        where = share @ scores
        what = (scores - where) @ pos
        both = scores - where - what[:, None]
        kept = (pos @ g).norm() / (pos @ g.square().sum(-1)).sqrt()
        squares = (
            pos @ (where - pos @ where).square(),
            share @ what.square(),
            share @ both.square() @ pos,
        )
        rows.append([*(float(v.sqrt()) for v in squares), float(kept)])
    table = pd.DataFrame(rows, columns=["where", "what", "interaction", "kept"])
    table.index.name = "head"
    return table


# ---------------------------------------------------------------- rows, from the model's hooks


def true_rows(model: Any, stack: Int[Tensor, "text source"]) -> Float[Tensor, "text head source"]:
    """The first layer's attention rows at the last token of each text, off its hook.

    >>> rows = cx.hooks.exact_rows(model, tokens[None, :100])
    >>> torch.allclose(rows[0], cx.attention_rows(weights, tokens, n=99), atol=1e-3)
    True
    """
    parts = []
    for batch in progress(stack.split(TEXTS_AT_A_TIME), "reading attention", "batch"):
        _, cache = model.run_with_cache(batch, names_filter=PATTERN, stop_at_layer=1)
        parts.append(cache[PATTERN][..., -1, :].cpu())
    return torch.cat(parts)


def scores_of(
    scores: Float[Tensor, "text head dest source"], pattern: Float[Tensor, "text head dest source"]
) -> Float[Tensor, "text head source"]:
    """Scores at the last destination, less its own. Some models show weights in the place of
    scores; then they are the weights' logarithms, and what is rounded to zero stays out.
    """
    last, weights = scores[..., -1, :], pattern[..., -1, :]
    if not torch.allclose(last.softmax(-1), weights, atol=1e-4):
        last = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    return last - last[..., -1:]


# ---------------------------------------------------------------- asking the model


def derivatives_of_scores(
    model: Any, one: Int[Tensor, "1 source"]
) -> tuple[Float[Tensor, "head source d_model"], Float[Tensor, "head source"]]:
    """The derivative of every score at the last token by what its key reads, the query held
    fixed, and the scores themselves, less that of the last token.
    """
    caught: dict[str, Tensor] = {}

    def begin(x: Tensor, hook: Any) -> Tensor:
        caught["x"] = x.detach().clone().requires_grad_()
        return caught["x"]

    def keep(x: Tensor, hook: Any) -> None:
        caught[hook.name] = x

    hooks = [
        (READ_BY_KEYS, begin),
        (QUERY, lambda q, hook: q.detach()),
        (SCORES, keep),
        (PATTERN, keep),
    ]
    with torch.inference_mode(False), torch.enable_grad(), model.hooks(fwd_hooks=hooks):
        model(one, stop_at_layer=1)
        scores = scores_of(caught[SCORES], caught[PATTERN])[0]
        slopes = [
            torch.autograd.grad(of_head[:-1].sum(), caught["x"], retain_graph=True)[0][0]
            for of_head in scores
        ]
    g = torch.stack(slopes)
    g[:, -1] /= 1 - g.shape[1]  # its own score was taken off all the others
    return g.cpu(), scores.detach().cpu()


def stream_of(
    model: Any, one: Int[Tensor, "1 source"]
) -> tuple[Float[Tensor, "vocab d_model"], Float[Tensor, "source d_model"]]:
    """What enters the first layer: of each token where a text begins, and what a position adds."""
    ids = torch.arange(model.cfg.d_vocab)[:, None]
    with torch.no_grad():
        parts = [model(part, stop_at_layer=0)[:, 0].cpu() for part in ids.split(VOCAB_AT_A_TIME)]
        same = model(one[:, -1:].expand_as(one), stop_at_layer=0)[0].cpu()
    E, same = centered(model, torch.cat(parts)), centered(model, same)
    return E, same - same[0]


def stream_scale(
    E: Float[Tensor, "token d_model"], where: Float[Tensor, "source d_model"], eps: float
) -> Float[Tensor, "token source"]:
    """The norm's scale of every token at every source."""
    squared = E.square().sum(-1)[:, None] + 2 * E @ where.T + where.square().sum(-1)
    return (squared / E.shape[1] + eps).sqrt()
