"""Measure how much of a deeper layer's scores tables of position and token explain.

    python tools/evidence/deeper_scores.py

In a first layer a score depends on position and token alone. Behind it, tokens are no longer all
that stands in the stream. For the model of `[deeper]` in `whole_neuron.toml`, which has rotary
positions and keys without bias, the scores of a fixed query are compared on half B with the means
of half A: by position, by position and token, and, in the layers that are named there, with the
score that each token's mean stream gets from the text's own query. `data/evidence/deeper.json`.

Each share has an interval, the wider of two, documents and domains redrawn; the tables stay. Set
before any was computed, when the shares were known: chapter 14 says that one layer is above another
only where the interval of their difference, on the same draws, is above zero. These are the second
layer over each other one by position, and each over the one before by position and token.

Set later, before it was computed: where two texts of different domains have the same token about as
far back, their rests have a share in common, as in `deeper_mini.py`. If this is 80% or more in the
first layer, whose rest cannot be the context, the comparison works here. The rest of a deeper layer
is then mostly context if less than half of it is in common. If it does not work, page 14 goes on to
say that its tables for this model cannot tell why it grows.

It did not work. So, before any of this was computed:

- *Ceiling*: in the first layer the sum of a part for the position and one for the token that tables
  from endless texts would hold is known from the weights (means over sources, and over tokens as
  often as half A has them). What it explains of the same scores of half B tells why about a fifth
  is missing there: mostly for want of texts if it gets more than half of that back, the whole
  interval above one half; mostly because position and token act together if the interval lies
  below. (In `mini`, chapter 13's split and `deeper_mini.py`: what it leaves, on the fresh texts.)
- *All layers*: every layer is read, not five. That the second is the most positional one is said
  only if its lead over each of the others has its interval above zero; that less is explained the
  deeper a layer lies, if the rank correlation of layer and share, from the second on, has its
  interval below zero.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import command
from deeper_mini import in_common
from einops import einsum, repeat
from evidence import provenance, rounded
from files import replace as write
from jaxtyping import Float, Int
from scipy import stats
from torch import Tensor
from whole_neuron import GIVEN, KEPT

import ctxbook as cb
import ctxlib as cx
from ctxlib.files import kept_folder
from ctxlib.texts.batching import prepare_batches
from ctxlib.texts.text import Text

QUERY = GIVEN["queries"][0]
TINY = 1e-3  # of the largest: how far our scores may be from those of the model's own rows

Scores = Float[Tensor, "text head source"]
Stream = Float[Tensor, "text source d_model"]


@dataclass
class Layer:
    """The queries and keys of one layer with rotary positions."""

    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "head d_model d_head"]
    theta: float

    @classmethod
    def of(cls, model: Any, layer: int) -> Layer:
        attn, config = model.blocks[layer].attn, model.original_model.config
        W_Q, W_K = attn.W_Q.detach(), attn.W_K.detach()
        theta = (getattr(config, "rope_parameters", None) or {}).get("rope_theta", 1e4)
        shared = len(W_Q) // len(W_K)
        return cls(W_Q, repeat(W_K, "kv m d -> (kv shared) m d", shared=shared), theta)

    def turned(self, v: Tensor) -> Tensor:
        """Return queries or keys, `... source d_head`, turned by their positions."""
        half = v.shape[-1] // 2
        angle = torch.arange(v.shape[-2])[:, None] * self.theta ** (-torch.arange(half) / half)
        a, b = v[..., :half], v[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def scores(self, x: Stream, read: Stream) -> Scores:
        """Return the scores of the last query of x for keys read from a stream, each row less its
        mean over sources behind the first."""
        q, k = (einsum(v, W, "text i m, head m d -> text head i d") for v, W in
                ((x, self.W_Q), (read, self.W_K)))  # fmt: skip
        rows = (self.turned(q)[:, :, -1:] @ self.turned(k).mT)[:, :, 0] / k.shape[-1] ** 0.5
        return rows - rows[..., 1:].mean(-1, keepdim=True)


def streams(
    model: Any, texts: Sequence[Text], layers: Sequence[int]
) -> Iterator[tuple[Int[Tensor, "text source"], dict[int, Stream], dict[int, Scores]]]:
    """Yield tokens, what heads of each layer read, and the logarithm of their last rows."""
    reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
    read, rows = (f"blocks.{{}}.attn.hook_{name}" for name in ("in", "pattern"))
    for x in prepare_batches(reader, texts, QUERY["n"], QUERY["token"], desc="deeper"):
        for part in x.split(8):
            names = [name.format(layer) for layer in layers for name in (read, rows)]
            _, found = model.run_with_cache(part, names_filter=names, stop_at_layer=max(layers) + 1)
            last = {layer: found[rows.format(layer)][:, :, -1].log() for layer in layers}
            yield part, {layer: found[read.format(layer)] for layer in layers}, last


def squares(v: Scores) -> Float[Tensor, "text head"]:
    """Return the sums of squares at sources behind the first."""
    return v[..., 1:].square().sum(2)


def exact_sum(model: Any, A: Sequence[Text], x: Int[Tensor, "text source"]) -> Scores:
    """Return what tables from endless texts would hold of the first layer's scores: the score of
    the average token at each source, and each token's own with the mean direction of all sources.
    """
    fixed = cx.fix_query(model, A, QUERY["n"], QUERY["token"])
    exact, split = fixed.exact, fixed.decomposition
    assert isinstance(exact, cx.additive.ExactFromModel)
    assert isinstance(split, cx.additive.AdditiveDecomposition)
    by_position = split.mean_scores
    direction = exact.qk_direction[:, 1:].mean(1)  # head d_model
    return centered(by_position + (exact.normalized_resid(x) @ direction.T).mT)


def measure(model: Any, A: Sequence[Text], B: Sequence[Text]) -> dict[str, Any]:
    """Return which share of the variance within rows each kind of table explains, of each layer's
    scores on B, and differences of layers."""
    layers, d_vocab = range(model.cfg.n_layers), model.cfg.d_vocab
    with_own = GIVEN["deeper"]["layers"]  # of which each token's mean stream is kept
    parts = {layer: Layer.of(model, layer) for layer in layers}
    tokens: list[Tensor] = []
    held: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    total = {layer: torch.zeros(d_vocab, model.cfg.d_model) for layer in with_own}
    for x, streams_of, rows in streams(model, A, layers):
        tokens.append(x)
        for layer, stream in streams_of.items():
            held[layer].append(check(parts[layer].scores(stream, stream), rows[layer]))
            if layer in total:
                total[layer].index_add_(0, x.flatten(), stream.flatten(0, 1))
    x_A = torch.cat(tokens)
    counts = x_A.flatten().bincount(minlength=d_vocab)
    tables = {layer: Tables.of(x_A, torch.cat(held[layer]), d_vocab) for layer in layers}
    mean = {
        layer: torch.where(counts[:, None] > 0, v / counts[:, None].clamp_min(1),
                           v.sum(0) / counts.sum()) for layer, v in total.items()
    }  # fmt: skip
    kinds = ("position", "position and token", "mean stream, own query")
    pairs: dict[int, list] = {layer: [] for layer in layers}
    read: list[Tensor] = []
    for x, streams_of, rows in streams(model, B, layers):
        read.append(x)
        for layer, stream in streams_of.items():
            truth = check(parts[layer].scores(stream, stream), rows[layer])
            by_position = tables[layer].position.expand_as(truth)
            by_token = centered(by_position + tables[layer].token.T[x].mT)
            own = [parts[layer].scores(stream, mean[layer][x])] if layer in mean else []
            pairs[layer].append((truth, by_position, by_token, *own))
    sums, common = {}, {}
    for layer, several in pairs.items():
        truth, *guesses = (torch.cat(v) for v in zip(*several, strict=True))
        left = {k: squares(truth - guess) for k, guess in zip(kinds, guesses, strict=False)}
        if layer == 0:
            left["exact sum"] = squares(truth - exact_sum(model, A, torch.cat(read)))
        rest = (truth - guesses[1])[..., 1:]
        even, of = torch.ones_like(rest[0]), [text.domain for text in B]
        common[str(layer)] = in_common(rest, even, torch.cat(read), of)
        sums[layer] = {k: torch.stack([v, squares(truth)]).numpy() for k, v in left.items()}

    def share(kind: str, layer: int, drawn: np.ndarray) -> float:
        left, whole = sums[layer][kind].sum(-1)[:, drawn].sum(1)
        return float(1 - left / whole)

    def by_depth(drawn: np.ndarray) -> float:
        return float(stats.spearmanr(layers[1:], [share(both, k, drawn) for k in layers[1:]])[0])

    def for_want_of_texts(drawn: np.ndarray) -> float:
        tables = share(both, 0, drawn)
        return (share("exact sum", 0, drawn) - tables) / (1 - tables)

    def less(kind: str, one: int, other: int) -> cb.Estimate:
        apart = lambda drawn: share(kind, one, drawn) - share(kind, other, drawn)  # noqa: E731
        return cb.with_interval(apart, B, units=cb.WIDER)

    second, (place, both, _) = layers[1], kinds
    return {
        "layers": {
            str(layer): {
                k: cb.with_interval(partial(share, k, layer), B, units=cb.WIDER) for k in of
            }
            for layer, of in sums.items()
        },
        "heads": {
            str(layer): {k: (1 - np.divide(*of[k].sum(1))).tolist() for k in (place, both)}
            for layer, of in sums.items()
        },
        "in common": common,
        "by depth": cb.with_interval(by_depth, B, units=cb.WIDER),
        "for want of texts": cb.with_interval(for_want_of_texts, B, units=cb.WIDER),
        "second less": {str(k): less(place, second, k) for k in layers if k != second},
        "less the one before": {str(k): less(both, k, before) for before, k in pairwise(layers)},
    }


def centered(rows: Scores) -> Scores:
    return rows - rows[..., 1:].mean(-1, keepdim=True)


def check(scores: Scores, log_rows: Scores) -> Scores:
    """Return the scores; raise ValueError unless they give the model's own rows."""
    off = (scores.softmax(-1) - log_rows.softmax(-1)).abs().max()
    if not off < TINY:
        raise ValueError(f"these scores do not give the model's rows: they are off by {off:.1e}")
    return scores


@dataclass
class Tables:
    """Mean scores by position, and what is left by token; zero for tokens that no text had."""

    position: Float[Tensor, "head source"]
    token: Float[Tensor, "head vocab"]

    @classmethod
    def of(cls, x: Int[Tensor, "text source"], scores: Scores, d_vocab: int) -> Tables:
        position = scores.mean(0)
        left, inner = (scores - position)[..., 1:], x[:, 1:].flatten()
        sums_of = torch.zeros(scores.shape[1], d_vocab)
        sums_of.index_add_(1, inner, left.transpose(0, 1).flatten(1))
        return cls(position, sums_of / inner.bincount(minlength=d_vocab).clamp_min(1))


@command("deeper_scores")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=int, help="of each half, by default as the conditions say")
    parser.add_argument("--out", type=Path, default=KEPT.with_name("deeper.json"))
    args = parser.parse_args(argv)
    name = GIVEN["deeper"]["model"]
    if not kept_folder(name).is_dir():
        print(f"{name}: left out, for it is not here; make models NAME={name} fetches it")
        return
    model = cx.load(name)
    reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
    sizes = sum(GIVEN["half_A"].values()), GIVEN["judged"]["half_B"]
    A, B = (
        cx.texts.collection(reader, min(size, args.texts or size), half=half)
        for size, half in zip(sizes, "AB", strict=True)
    )
    with torch.no_grad():
        found = measure(model, A, B)
    kept = {"model": name, "query": QUERY, "texts": [len(A), len(B)]} | provenance(name)
    write(args.out, json.dumps(kept | rounded(found)) + "\n")
    print(json.dumps(rounded(found), indent=1))


if __name__ == "__main__":
    sys.exit(main())
