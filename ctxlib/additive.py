"""The additive decomposition: the method for any kind of positions, and the only one where they are
not added to the residual stream (rotary, ALiBi, relative biases; chapter 13).

In a first layer the score of a source depends only on its token t and its position i. We read it
off the model, by one derivative a head, and split it by a two-way analysis of variance:

    score(i, t)   = g_i . x_t + c_i                     exact; g_i is the QK direction at source i
    log pos_i     = mean of score(i, t) over tokens, each as often as in texts
    log content_t = mean of score(i, t) - log pos_i over sources, weighted by pos
                  = (sum_i pos_i g_i) . (x_t - mean x)

What is left is the interaction of position and token: zero for ALiBi and relative biases, small
where learned positions change LayerNorm's scale, and the whole question for rotary positions.

Where a model normalises its keys (Qwen 3), the score is no longer linear in the residual stream,
but it is in the normalised key, which still depends on the token alone: then x_t stands for that,
all heads' keys side by side, in a table by token. Where it caps its scores at c (Gemma 2), `score`
above is what c tanh(score / c) is taken of, in `exact` as it is; the decomposition takes the cap to
first order, at the score of the average token at each source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ctxlib.adapter import (
    act_fn,
    centered,
    has_norm,
    mlp_inputs,
    residual_multiplier,
    upstream_layers,
)
from ctxlib.checks import as_index, check_kind, crop
from ctxlib.decompose import Decomposition, Entries, Readout, Texts
from ctxlib.exact import ExactLayer, Residual, Values, Z
from ctxlib.models.loading import Encoder
from ctxlib.query import FixedQuery
from ctxlib.texts.batching import check_texts, joined, prepare_batches
from ctxlib.texts.text import AnyText, Reader, token_ids
from ctxlib.texts.vocabulary import token_id, untrained_tokens
from ctxlib.weights import (
    AGREES,
    activations,
    center,
    check_layer,
    fold,
    has_positions,
    layer_norm,
    passed,
)

VOCAB_AT_A_TIME = 4096
UNDER_CAP = 1 - 1e-6  # of a cap's size: what float32 can undo
MASKED = -1e30  # scores below are of sources that a window leaves out

READ_BY_KEYS, NORMALIZED_KEYS, QUERY, SCORES, PATTERN, Z_HOOK = (
    f"blocks.0.attn.hook_{name}" for name in ("in", "k_normed", "q", "attn_scores", "pattern", "z")
)

# ---------------------------------------------------------------- the exact layer


@dataclass(frozen=True, eq=False, repr=False)
class ExactFromModel(ExactLayer):
    """The first layer of any decoder with `token` at position n, read off the model's hooks, or of
    an encoder with rotary positions. `fit_additive` makes it.

    `E` is the residual stream of each token at the beginning of a text, `position_offset` what
    position i adds to it (zero, unless positions are learned and added), both centred if the model
    has LayerNorm. A source at i with normalised residual stream x has the score `qk_direction[h, i]
    . x + qk_offset[h, i]`, up to a constant of the row. Where a norm's gain is not folded into the
    weights, `resid_by_token` is what follows it. If the model normalises its keys,
    `normalized_keys` are those of each token, and take the place of x. `W_V` and `b_V` have an
    entry per head, also where heads share keys and values. `cap` is that of the scores, if they
    have one. `readout` belongs to the MLP of layer
    `reads`, the first that reads the heads' outputs: the next layer's if both are parallel.
    `positions` is the kind of positions in TransformerLens's words.

    >>> exact = cx.fit_additive(model, passages).exact
    >>> exact.n, exact.positions, exact.qk_direction.shape
    (256, 'standard', torch.Size([8, 257, 256]))
    """

    n: int
    token: int
    positions: str
    E: Float[Tensor, "vocab d_model"]
    position_offset: Float[Tensor, "source d_model"]
    qk_direction: Float[Tensor, "head source d_read"]
    qk_offset: Float[Tensor, "head source"]
    resid_by_token: Float[Tensor, "vocab d_model"] | None
    normalized_keys: Float[Tensor, "vocab d_read"] | None
    W_V: Float[Tensor, "head d_model d_head"]
    b_V: Float[Tensor, "head d_head"]
    readout: Readout
    reads: int
    tokenizer: Any
    cap: float | None = None

    @property
    def keys_read(self) -> Float[Tensor, "vocab d_read"] | None:
        """Return what each token's keys are read from, where it is a table."""
        return self.resid_by_token if self.normalized_keys is None else self.normalized_keys

    def value_weights(self) -> Values:
        return self.W_V, self.b_V

    def sources(self, x: Texts) -> Int[Tensor, "*text source"]:
        return crop(x, len(self.position_offset), len(self.E), self.n, self.token)

    def normalized_resid(self, x: Texts, at_n: bool = False) -> Residual:
        """Return `LN(E[x_i] + position_offset[i])`.

        Raises ValueError for a text of fewer than n + 1 tokens, and for one with another token at n
        than the query token.

        >>> fixed = cx.fit_additive(model, passages[:2])
        >>> (x,) = fixed.prepare(passages[:1])
        >>> resid = fixed.exact.normalized_resid(x)
        >>> torch.allclose(resid, weights.normalized_resid(x), atol=1e-3)
        True
        """
        x = self.sources(x)
        if self.resid_by_token is not None:
            return self.resid_by_token[x]
        offset = self.position_offset[self.n] if at_n else self.position_offset
        return layer_norm(self.E[x] + offset, self.readout.eps)

    def scores_from(self, x: Texts, resid: Residual) -> Entries:
        """Return `g_i . x_i + c_i`.

        >>> fixed = cx.fit_additive(model, passages[:2])
        >>> (x,) = fixed.prepare(passages[:1])
        >>> torch.allclose(fixed.exact.rows(x), cx.attention_rows(weights, x, n=256), atol=1e-4)
        True
        """
        if self.normalized_keys is not None:
            resid = self.normalized_keys[self.sources(x)]
        by_source = "... source d, head source d -> ... head source"
        return self.capped(einsum(resid, self.qk_direction, by_source) + self.qk_offset)

    def scores_of_repeated(self, x: Texts) -> Entries:
        if self.position_offset.any():
            return super().scores_of_repeated(x)
        # what keys read knows no position, so each token is read once
        tokens = torch.cat([x[:, 0], x.new_tensor([self.token])])
        keys = self.keys_read
        read = layer_norm(self.E[tokens], self.readout.eps) if keys is None else keys[tokens]
        by_source = einsum(read, self.qk_direction, "t d, head source d -> t head source")
        scores = self.capped(by_source + self.qk_offset)
        scores[..., self.n] = scores[-1, :, self.n]
        return scores[:-1]

    def capped(self, scores: Tensor) -> Tensor:
        """Return what the softmax is taken of: the scores, or `cap tanh(score / cap)`."""
        if self.cap is None:
            return scores
        return torch.where(scores > MASKED, self.cap * (scores / self.cap).tanh(), scores)


# ---------------------------------------------------------------- its decomposition


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveDecomposition(Decomposition):
    """The additive decomposition of a first layer's scores: a mean over tokens and a mean over
    sources. Make a fixed query with it by `fit_additive`, or by `cx.fix_query` for a model that
    adds no positions to its residual stream.

    `frequency` is each token's share of the texts.

    >>> fixed = cx.fit_additive(model, passages)
    >>> fixed.decomposition.kernels.shape, fixed.readout.W_in.shape
    (torch.Size([8, 257]), torch.Size([256, 1024]))
    """

    n: int
    token: int
    exact: ExactFromModel
    frequency: Float[Tensor, " vocab"]

    @cached_property
    def readout(self) -> Readout:
        return self.exact.readout

    @cached_property
    def moved(self) -> Float[Tensor, "head source d_head"]:
        """Return zeros; raise ValueError for a model that adds positions to its residual stream."""
        if self.exact.position_offset.any():
            raise ValueError(
                "values of an additive decomposition include what learned positions add, which no "
                "file keeps: use the fixed query that cx.fix_query(model) gives"
            )
        return torch.zeros(*self.kernels.shape, self.readout.W_O.shape[1])

    @cached_property
    def mean(self) -> Float[Tensor, "source d_read"]:
        """Return `mean x`: the average of what keys read at source i over the tokens of the texts.

        >>> cx.fit_additive(model, passages[:2]).decomposition.mean.shape
        torch.Size([257, 256])
        """
        (share, E), offset = self.occurring, self.exact.position_offset
        if self.exact.keys_read is not None:
            mean = share @ self.exact.keys_read[self.frequency > 0]
            return mean.expand(len(offset), -1)
        weight = share[:, None] / stream_scale(E, offset, self.readout.eps)  # token source
        return weight.T @ E + weight.sum(0)[:, None] * offset

    @cached_property
    def mean_scores(self) -> Float[Tensor, "head source"]:
        """Return `g_i . mean x + c_i`: the uncapped score of the average token at i."""
        g = self.exact.qk_direction
        scores = einsum(g, self.mean, "head source d, source d -> head source")
        return scores + self.exact.qk_offset

    @cached_property
    def kernels(self) -> Float[Tensor, "head source"]:
        """Return `pos_i = softmax_i(g_i . mean x + c_i)`: the row of a text with the average token
        at every position; up to a factor, the geometric mean over tokens of a source's attention.

        >>> kernels = cx.fit_additive(model, passages).decomposition.kernels
        >>> cx.total_variation(kernels, cx.positional_kernels(weights, n=256)).max() < 0.1
        tensor(True)
        """
        return self.exact.capped(self.mean_scores).softmax(-1)

    @cached_property
    def mean_qk_direction(self) -> Float[Tensor, "head d_read"]:
        """Return `sum_i pos_i g_i`, the QK direction averaged over the kernel. Rotary positions
        turn the direction a little further at every step back; what turns fast cancels here.

        >>> fixed = cx.fit_additive(model, passages[:2])
        >>> first = fixed.exact.qk_direction[:, 0]  # learned positions: nothing turns
        >>> torch.allclose(fixed.decomposition.mean_qk_direction, first, atol=1e-4)
        True
        """
        weight = self.kernels
        if cap := self.exact.cap:  # times the slope of the cap at the average token
            weight = weight * (1 - (self.mean_scores / cap).tanh().square())
        return einsum(weight, self.exact.qk_direction, "head source, head source d -> head d")

    @cached_property
    def log_content(self) -> Float[Tensor, "head vocab"]:
        """Return `log content(t) = (sum_i pos_i g_i) . (x_t - mean x)`, in nats, zero for the
        average token. x is read at position n, which matters for learned positions only.

        >>> content = cx.fit_additive(model, passages).decomposition.log_content
        >>> (content - cx.content_scores(weights, n=256)).std(dim=1).max() < 1e-3
        tensor(True)
        """
        base = (self.mean_qk_direction @ self.mean[self.n])[:, None]
        keys = self.exact.keys_read
        read = self.by_token if keys is None else keys.split(VOCAB_AT_A_TIME)
        return torch.cat([self.mean_qk_direction @ x.T - base for x in read], dim=1)

    @cached_property
    def untrained(self) -> Bool[Tensor, " vocab"]:
        return untrained_tokens(self.exact.E, self.exact.tokenizer)

    @property
    def by_token(self) -> Iterator[Float[Tensor, "token d_model"]]:
        """Yield `LN(E[t] + position_offset[n])` of the vocabulary, a few thousand tokens a time."""
        if self.exact.resid_by_token is not None:
            yield from self.exact.resid_by_token.split(VOCAB_AT_A_TIME)
            return
        for part in self.exact.E.split(VOCAB_AT_A_TIME):
            yield layer_norm(part + self.exact.position_offset[self.n], self.readout.eps)

    @cached_property
    def occurring(self) -> tuple[Float[Tensor, " token"], Float[Tensor, "token d_model"]]:
        """Return frequency and residual stream of the tokens that occur in the texts."""
        found = self.frequency > 0
        return self.frequency[found], self.exact.E[found]

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        W_V, b_V = (t[list(heads)] for t in self.exact.value_weights())
        into = "t d_model, head d_model d_head -> t head d_head"
        return torch.cat([einsum(x, W_V, into) for x in self.by_token]).add_(b_V)

    def z(self, x: Texts, rows: Entries) -> Z:
        return self.exact.z_from_pattern(rows, self.exact.normalized_resid(x))


# ---------------------------------------------------------------- fitting it


def fit_additive(
    model: Any, texts: Sequence[AnyText], n: int | None = None, token: str | int = " the"
) -> FixedQuery:
    """Fix a query of a model loaded with `cx.load` and fit the additive decomposition; the texts
    say how common each token is.

    n defaults to the middle of the shortest text. The result is compared with what the model
    computes on one of the texts. Raises ValueError for fewer than two texts, for texts of fewer
    than n tokens (in an encoder 2n), for an n below 2 or beyond the model's context, for a `token`
    that is not exactly one, for a model whose scores, before a cap, are not linear in what keys
    read or in its keys or that scales its heads' outputs, and for one with a single layer of
    parallel attention and MLP.

    >>> fixed = cx.fit_additive(model, passages, n=100, token=" of")
    >>> fixed.decomposition.kernels.shape
    torch.Size([8, 101])
    """
    both_sides = isinstance(model, Encoder) and not has_positions(model)
    if not both_sides:
        check_layer(model, 0)
    check_texts(texts)
    if len(texts) < 2:
        raise ValueError(f"{len(texts)} texts: give two at least, one to measure, one to check")
    reader = Reader.of(model)
    n = min(len(token_ids(text, reader)) for text in texts) // 2 if n is None else n
    n = as_index("position", n)
    if not 2 <= n < reader.n_ctx:
        raise ValueError(f"position {n}: choose 2 to {reader.n_ctx - 1}")
    number = token_id(token, reader.tokenizer, reader.d_vocab)
    length = min(2 * n, reader.n_ctx) if both_sides else n + 1
    stack = joined(prepare_batches(reader, texts, n, number, length))
    exact = (read_encoder if both_sides else read_decoder)(model, stack[:1].clone(), n)
    others = torch.cat([stack[:, 1:n], stack[:, n + 1 :]], dim=1)
    counts = torch.bincount(others.flatten(), minlength=len(exact.E)).to(exact.E.dtype)
    approx = AdditiveDecomposition(n, number, exact, counts / counts.sum())
    fixed = FixedQuery(approx, exact, reader)
    check(fixed, exact, model, stack[-1:])
    return fixed


def read_decoder(model: Any, one: Int[Tensor, "1 source"], n: int) -> ExactFromModel:
    """Read the first layer off a decoder's hooks, with the query at n, the end of a text."""
    reads = 0 if upstream_layers(model, 0) else 1
    if reads >= model.cfg.n_layers:
        raise ValueError(
            "attention and MLP of this model's only layer are parallel: no neuron reads what its "
            "heads write"
        )
    E, offset = embed(model, one)
    attn = model.blocks[0].attn
    W_O, W_V = centered(model, attn.W_O.detach().cpu()), attn.W_V.detach().cpu()
    W_O = residual_multiplier(model) * W_O
    b_V = torch.zeros(len(W_V), W_V.shape[-1]) if attn.b_V is None else attn.b_V.detach().cpu()
    shared = len(W_O) // len(W_V)
    x = layer_norm(E[one[0]] + offset, model.cfg.eps)
    (here,) = activations(model, one, [READ_BY_KEYS], 1)
    folded = offset.any() or torch.allclose(here[:, -1], x[-1:], atol=1e-4)
    resid = None if folded else by_token(model, READ_BY_KEYS)
    keys = by_token(model, NORMALIZED_KEYS)
    cap = getattr(model.original_model.config, "attn_logit_softcapping", None)
    read_at = READ_BY_KEYS if keys is None else NORMALIZED_KEYS
    g, scores = score_derivatives(model, one, read_at, cap)
    read = resid if keys is None else keys
    x = x if read is None else read[one[0]]
    # after the first layer's attention, or before the second layer of a parallel model
    name = "blocks.1.hook_resid_pre" if reads else "blocks.0.hook_resid_mid"
    stream, z = (t[:, -1] for t in activations(model, one, [name, Z_HOOK], reads + 1))
    gain = gain_behind_heads(model, one, W_O) if has_norm(model, 0, "ln1_post") else None
    inputs = {part: (W.cpu(), b.cpu()) for part, (W, b) in mlp_inputs(model, reads).items()}
    stream, norms = centered(model, stream)[0], has_norm(model, reads, "ln1", "ln2")
    readout = Readout(W_O, inputs, model.cfg.eps, act_fn(model), stream, None, norms, gain)
    rest = stream - readout.outputs(z)[0].sum(0)
    return ExactFromModel(
        n=n,
        token=int(one[0, n]),
        positions=model.cfg.positional_embedding_type,
        E=E,
        position_offset=offset,
        qk_direction=g,
        qk_offset=scores - einsum(g, x, "head source d, source d -> head source"),
        resid_by_token=resid,
        normalized_keys=keys,
        W_V=repeat(W_V, "kv d_model d_head -> (kv shared) d_model d_head", shared=shared),
        b_V=repeat(b_V, "kv d_head -> (kv shared) d_head", shared=shared),
        readout=replace(readout, rest=rest),
        reads=reads,
        tokenizer=model.tokenizer,
        cap=cap,
    )


def read_encoder(encoder: Encoder, one: Int[Tensor, "1 source"], n: int) -> ExactFromModel:
    """Read the first layer off an encoder with rotary positions (ModernBERT), with the query at n.

    Its heads read the embeddings behind their norm. A query and its keys are turned by their
    positions; we turn the query back by each source's.
    """
    bert, heads, token = encoder.original_model, encoder.cfg.n_heads, int(one[0, n])
    block, places = bert.layers[0], torch.arange(one.shape[1])
    with torch.no_grad():
        E = bert.embeddings(torch.arange(encoder.cfg.d_vocab, device=bert.device)).cpu()
        cos, sin = (t[0] for t in bert.rotary_emb(E, places[None], block.attention_type))
    by_head = "... (qkv head d_head) -> qkv head ... d_head"
    (W_Q, W_K, W_V), (b_Q, b_K, b_V) = (
        rearrange(t, by_head, qkv=3, head=heads) for t in affine(block.attn.Wqkv)
    )
    q = turned(E[token] @ W_Q + b_Q, cos[n], sin[n])[:, None] / W_Q.shape[-1] ** 0.5
    back = turned(q, cos, -sin)  # head source d_head
    qk_offset = (back @ b_K[..., None])[..., 0]
    if block.attn.sliding_window:
        outside = (places - n).abs() >= block.attn.sliding_window
        qk_offset = qk_offset.masked_fill(outside, 2 * MASKED)
    W_O, b_O = affine(block.attn.Wo)
    gate_up = fold(*affine(block.mlp_norm), *affine(block.mlp.Wi))
    gate, up = zip(*(t.chunk(2, -1) for t in gate_up), strict=True)
    W_O, rest = center(W_O.unflatten(0, (heads, -1))), center(E[token] + b_O)
    inputs, act = {"gate": gate, "up": up}, bert.config.hidden_activation
    readout = Readout(W_O, inputs, block.mlp_norm.eps, act, rest)
    return ExactFromModel(
        n=n, token=token, positions="rotary", E=center(E),
        position_offset=torch.zeros(len(places), E.shape[1]),
        qk_direction=back @ W_K.mT, qk_offset=qk_offset,
        resid_by_token=E, normalized_keys=None, W_V=W_V, b_V=b_V,
        readout=readout, reads=0, tokenizer=encoder.tokenizer,
    )  # fmt: skip


def affine(module: Any) -> tuple[Tensor, Tensor]:
    """Return the weights of a linear map or of a norm, input first, and its biases."""
    W = module.weight.detach().cpu().t()
    return W, torch.zeros(W.shape[-1]) if module.bias is None else module.bias.detach().cpu()


def turned(
    v: Float[Tensor, "*any d_head"],
    cos: Float[Tensor, "*any d_head"],
    sin: Float[Tensor, "*any d_head"],
) -> Float[Tensor, "*any d_head"]:
    """Turn a query or a key as rotary positions do."""
    first, second = v.chunk(2, -1)
    return v * cos + torch.cat([-second, first], -1) * sin


def check(
    fixed: FixedQuery, exact: ExactFromModel, model: Any, stack: Int[Tensor, "text source"]
) -> None:
    """Raise ValueError unless rows, outputs and neurons are those that the model computes."""
    readout, reads = exact.readout, exact.reads
    config = model.original_model.config
    # which some tokens reach, and none of these may
    if any(getattr(c, "clip_qkv", None) for c in (config, getattr(config, "attn_config", None))):
        raise ValueError("this model clips its queries, keys and values: numbers would be wrong")
    outputs = fixed.head_outputs(stack)
    stream = fixed.resid_mid(stack, outputs)
    pre = stream / readout.scale(stream) @ readout.W_in + readout.b_in
    if isinstance(model, Encoder):
        own = at_query(model, stack, fixed.n)
    else:
        mlp = (f"blocks.{reads}.mlp.hook_{name}" for name in ("pre", "post"))
        pattern, *own = activations(model, stack, [PATTERN, Z_HOOK, *mlp], reads + 1)
        own = [pattern[..., -1, :], *(t[:, -1] for t in own)]
    rows, z, into, out = own
    *_, active = fixed.mlp(stack).values()
    for fault, ours, theirs in (
        ("has scores that are not linear in what its keys read", exact.rows(stack), rows),
        ("has heads that write something else than z W_O", outputs, readout.outputs(z)),
        ("has an MLP that reads something else than the sum of what was written", pre, into),
        ("has an activation function that its configuration does not determine", active, out),
    ):
        # twice: scores are put together from derivatives, and a softmax follows
        if not (ours - theirs).abs().max() <= 2 * AGREES * theirs.abs().max():
            raise ValueError(f"this model {fault}: numbers would be wrong for it")


# ---------------------------------------------------------------- what is left


def anova(approx: AdditiveDecomposition) -> pd.DataFrame:
    """Return how far scores vary with position (`where`), with token (`what`), and with both
    together (`interaction`): one row a head, standard deviations in nats, sources weighted by the
    kernel and tokens by their frequency.

    The three squares add up to the variance of the scores (a two-way analysis of variance). To
    second order half of the square of `interaction` is the divergence of the approximate row from
    the exact one, so half of `interaction` bounds their total variation distance (Pinsker). `kept`
    is `|sum_i pos_i g_i|` over the root mean square of `|g_i|`: the part of the QK direction that
    does not cancel between near and far sources; 1 where nothing turns.

    >>> table = cx.additive.anova(cx.fit_additive(model, passages).decomposition)
    >>> list(table), table["kept"].round(2).unique()  # learned positions: nothing turns
    (['where', 'what', 'interaction', 'kept'], array([1.]))
    """
    share, E = check_kind(approx, "an AdditiveDecomposition").occurring
    exact = approx.exact
    offset = exact.position_offset
    scale = stream_scale(E, offset, exact.readout.eps)  # token source
    rows = []
    for g, c, pos in zip(exact.qk_direction, exact.qk_offset, approx.kernels, strict=True):
        seen = pos > 0
        g, c, pos = g[seen], c[seen], pos[seen]
        if exact.keys_read is None:
            scores = (E @ g.T + (offset[seen] * g).sum(-1)) / scale[:, seen] + c
        else:
            scores = exact.keys_read[approx.frequency > 0] @ g.T + c
        scores = exact.capped(scores)
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


# ---------------------------------------------------------------- from the model's hooks


def at_query(encoder: Encoder, x: Int[Tensor, "text source"], n: int) -> list[Tensor]:
    """Return an encoder's rows at n, z of its heads, what its MLP's activation function is applied
    to, and what goes into the way out of the MLP.
    """
    block = encoder.original_model.layers[0]
    parts = [block.attn.Wo, block.attn, block.mlp.Wi, block.mlp.Wo]
    held = passed(encoder.original_model, x, parts)
    ((z,), _), (_, (_, pattern)), (_, gate_up), ((active,), _) = held
    z, gate = z[:, n].unflatten(-1, (encoder.cfg.n_heads, -1)), gate_up[:, n].chunk(2, -1)[0]
    return [t.cpu() for t in (pattern[:, :, n], z, gate, active[:, n])]


def last_scores(
    scores: Float[Tensor, "text head dest source"],
    pattern: Float[Tensor, "text head dest source"],
    cap: float | None = None,
) -> Float[Tensor, "text head source"]:
    """Return the scores at the last position, less its own. Some models show weights at the hook of
    the scores; then we take the weights' logarithms, zeros clamped to the smallest number. With a
    cap, return them as they are before it; their own is added again, as a constant.
    """
    last, weights = scores[..., -1, :], pattern[..., -1, :]
    if not torch.allclose(last.softmax(-1), weights, atol=1e-4):
        last = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    if cap is None:
        return last - last[..., -1:]
    before = cap * (last / cap).clamp(-UNDER_CAP, UNDER_CAP).atanh()
    own = before[..., -1:]
    return torch.where(last > MASKED, before - own + own.detach(), last)


def by_token(model: Any, name: str) -> Float[Tensor, "vocab d_read"] | None:
    """Return what every token gives at a hook of the first layer that knows no positions, that of
    all heads side by side; None if the model has no such hook.
    """
    if name not in model.hook_dict:
        return None
    parts, ids = [], torch.arange(model.cfg.d_vocab)[:, None]
    for part in ids.split(VOCAB_AT_A_TIME):  # of texts of one token
        _, cache = model.run_with_cache(part, names_filter=name, stop_at_layer=1)
        if name not in cache:  # a norm that a family may have, and this model lacks
            return None
        parts.append(cache[name].flatten(1).cpu())
    return torch.cat(parts)


def score_derivatives(
    model: Any, one: Int[Tensor, "1 source"], read: str, cap: float | None = None
) -> tuple[Float[Tensor, "head source d_read"], Float[Tensor, "head source"]]:
    """Return the derivative of every score at the last position by what stands at the hook `read`,
    the residual stream or the normalised keys, with the query held fixed, and the scores
    themselves, less that of the last token.
    """
    caught: dict[str, Tensor] = {}

    def start(x: Tensor, hook: Any) -> Tensor:
        caught["x"] = x.detach().clone().requires_grad_()
        return caught["x"]

    def catch(x: Tensor, hook: Any) -> None:
        caught[hook.name] = x

    hooks = [
        (read, start),
        (QUERY, lambda q, hook: q.detach()),
        (SCORES, catch),
        (PATTERN, catch),
    ]
    with torch.inference_mode(False), torch.enable_grad(), model.hooks(fwd_hooks=hooks):
        model(one, stop_at_layer=1)
        scores = last_scores(caught[SCORES], caught[PATTERN], cap)[0]
        x, totals = caught["x"], scores[:, :-1].sum(1)
        slopes = [torch.autograd.grad(total, x, retain_graph=True)[0][0] for total in totals]
    g = torch.stack(slopes)
    if g.ndim > 3:  # of keys, which heads have apart
        g = rearrange(g, "head kv i d -> head i (kv d)")
    g[:, -1] /= 1 - g.shape[1]  # its own score was subtracted from all the others
    return g.cpu(), scores.detach().cpu()


def gain_behind_heads(
    model: Any, one: Int[Tensor, "1 source"], W_O: Float[Tensor, "head d_head d_model"]
) -> Float[Tensor, " d_model"]:
    """Return the gain of the norm behind the heads, read off what they add to the stream."""
    before, after = (f"blocks.0.hook_resid_{place}" for place in ("pre", "mid"))
    start, end, z = (t[0] for t in activations(model, one, [before, after, Z_HOOK], 1))
    x = layer_norm(z.flatten(-2) @ W_O.flatten(0, 1), model.cfg.eps)  # source d_model
    return (x * (end - start)).sum(0) / x.square().sum(0)


def embed(
    model: Any, one: Int[Tensor, "1 source"]
) -> tuple[Float[Tensor, "vocab d_model"], Float[Tensor, "source d_model"]]:
    """Return what enters the first layer: the residual stream of each token at the beginning of a
    text, and what a position adds to it.
    """
    ids = torch.arange(model.cfg.d_vocab)[:, None]
    with torch.no_grad():
        parts = [model(part, stop_at_layer=0)[:, 0].cpu() for part in ids.split(VOCAB_AT_A_TIME)]
        same = model(one[:, -1:].expand_as(one), stop_at_layer=0)[0].cpu()
    E, same = centered(model, torch.cat(parts)), centered(model, same)
    return E, same - same[0]


def stream_scale(
    E: Float[Tensor, "token d_model"], offset: Float[Tensor, "source d_model"], eps: float
) -> Float[Tensor, "token source"]:
    """Return the norm's scale of every token at every source."""
    squared = E.square().sum(-1)[:, None] + 2 * E @ offset.T + offset.square().sum(-1)
    return (squared / E.shape[1] + eps).sqrt()
