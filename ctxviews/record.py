"""Records for views: results that a page cannot compute from the first layer's weights, as lists.

A page without a kernel cannot run a model of several layers or read a thousand texts. Records hold
what comes of that, so that a reader's choice only needs additions and comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.additive import AdditiveDecomposition, anova
from ctxlib.denominators import softmax_denominators
from ctxlib.heads import effective_tokens
from ctxlib.lookups.attribution import Attribution
from ctxlib.query import FixedQuery
from ctxlib.texts.text import Text
from ctxlib.weights import layer_norm

LISTED = 32  # heads of a neuron; the sum of all others is one more term
FAINTEST = 1e-7  # smallest weight of a kernel that is kept
USUAL = (
    300  # most frequent tokens: of them the ones with the most, least and median content are kept
)


# ---------------------------------------------------------------- look-ups


def look_up_record(model: Any, neurons: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the record behind `LookUps`: neurons as `looked_up` gives them."""
    return {"nHeads": model.cfg.n_heads, "neurons": list(neurons)}


def looked_up(
    model: Any,
    label: str,
    group: str,
    token: int,
    prompts: Sequence[Int[Tensor, " pos"]],
    terms: Attribution,
    usually: Attribution,
    sources: Float[Tensor, "prompt layer head source"],
    probability: Float[Tensor, " prompt"],
) -> dict[str, Any]:
    """Return one neuron of a record: its token, its terms at the end of each of `prompts` and
    usually (means over other prompts), what each head gets from each token, and its token's
    probability.

    `terms`, `sources` and `probability` may be of more prompts than are given here; theirs come
    first. Of a model with many heads the `LISTED` with the largest rise or fall on one of the
    prompts are kept one by one.
    """
    count = len(prompts)
    if not 1 <= count <= min(len(terms.heads), len(sources), len(probability)):
        raise ValueError(f"{count} prompts: give one at least, and no more than were attributed")
    here, usual = terms.heads[:count].flatten(1), usually.heads.mean(0).flatten()  # ... head
    largest = (here - usual).abs().amax(0).argsort(descending=True, stable=True)
    heads = largest[:LISTED].sort().values

    def one(p: int) -> dict[str, Any]:
        of_listed = sources[p].flatten(0, 1)[heads, : len(prompts[p])]
        parts = (terms.bias[p], terms.embedding[p], terms.mlps[p].sum())
        return {
            "tokens": [model.tokenizer.decode([t]) for t in prompts[p].tolist()],
            "sources": (1000 * of_listed).round().int().flatten().tolist(),
            "probability": round(float(probability[p]), 5),
            **as_record(*parts, here[p], heads),
        }

    means = (usually.bias.mean(), usually.embedding.mean(), usually.mlps.sum(1).mean())
    return {
        "label": label,
        "group": group,
        "token": model.tokenizer.decode([token]),
        "heads": heads.tolist(),
        "usual": as_record(*means, usual, heads),
        "prompts": [one(p) for p in range(count)],
    }


def as_record(
    bias: Tensor, embedding: Tensor, mlps: Tensor, of_heads: Tensor, listed: Tensor
) -> dict[str, Any]:
    """Return the terms of one pre-activation; rounded, they add up to within the rounding."""
    [b, e, m, rest] = rounded([bias, embedding, mlps, of_heads.sum() - of_heads[listed].sum()])
    terms = rounded(of_heads[listed])
    return {"bias": b, "embedding": e, "mlps": m, "heads": terms, "rest": rest}


def rounded(values: Iterable[Any]) -> list[float]:
    return [round(float(value), 4) + 0.0 for value in values]  # no minus before a zero


# ---------------------------------------------------------------- denominators


def denominator_record(
    fixed: FixedQuery, texts: Sequence[Text], passages: Sequence[Text]
) -> dict[str, Any]:
    """Return what `denominators.js` needs: every denominator, and the numbers that each head's
    bounds are computed from.

    As in chapter 4, BOS and the query token are the same in every text and add a constant; the
    tokens between them vary. All in units of the expected denominator.
    """
    kernels = fixed.decomposition.kernels
    values = fixed.decomposition.content[:, fixed.prepare(texts)]
    inner, kernel = values[..., 1:-1], kernels[:, 1:-1]
    constant = kernels[:, 0] * values[:, 0, 0] + kernels[:, -1] * values[:, 0, -1]
    mean = inner.mean((1, 2))
    expected = constant + mean * kernel.sum(-1)
    smallest, largest = inner.amin((1, 2)), inner.amax((1, 2))
    facts = {
        "variance": inner.var((1, 2)) / expected**2,
        "width": (largest - smallest) / expected,
        "largest": torch.maximum(largest - mean, mean - smallest) / expected,
        "squares": kernel.square().sum(-1),
        "heaviest": kernel.amax(-1),
    }
    denoms = einsum(values, kernels, "head text source, head source -> head text")
    labeled = softmax_denominators(fixed, passages).T if len(passages) else denoms[:, :0]
    return {
        "n": fixed.n,
        "token": fixed.tokenizer.decode([fixed.token]),
        "heads": [
            {name: significant(of[head], 6) for name, of in facts.items()}
            for head in range(fixed.n_heads)
        ],
        "texts": significant(denoms / expected[:, None], 4),
        "passages": [{"name": p.name, "domain": p.domain} for p in passages],
        "ofPassages": significant(labeled / expected[:, None], 4),
    }


# ---------------------------------------------------------------- positions


def position_record(splits: Mapping[str, AdditiveDecomposition]) -> dict[str, Any]:
    """Return what `positions.js` needs of first layers with different kinds of positions: of every
    head the kernel and the parts of its scores (chapter 13).

    Distances leave out the query and BOS, and take every fourth token beyond 32.
    """
    if not splits or len(positions := {split.n for split in splits.values()}) > 1:
        raise ValueError(f"{len(splits)} first layers: give at least one, all with the same n")
    (n,) = positions
    distances = [d for d in range(1, n) if d <= 32 or d % 4 == 0]
    kinds = [
        {"name": name, "heads": heads_by_distance(split, distances)}
        for name, split in splits.items()
    ]
    return {"n": n, "distances": distances, "kinds": kinds}


def heads_by_distance(split: AdditiveDecomposition, distances: list[int]) -> list[dict[str, Any]]:
    """Return the heads of one first layer. A token's score beyond that of the average token at
    source i is `g_i . (x_t - mean x)`: its log content, and the interaction, if it depends on i.
    """
    exact, sources = split.exact, split.n - torch.tensor(distances)
    usual = split.frequency.argsort(descending=True, stable=True)[:USUAL]
    account = anova(split)

    def token(t: Tensor) -> str:
        return exact.tokenizer.decode([int(t)])

    def one(h: int) -> dict[str, Any]:
        content = split.log_content[h]
        falling = usual[content[usual].argsort(descending=True)]
        some = falling[[0, len(falling) // 2, -1]]
        x = layer_norm(exact.E[some, None] + exact.position_offset[sources], exact.readout.eps)
        x = x if exact.keys_read is None else exact.keys_read[some, None]
        more = ((x - split.mean[sources]) * exact.qk_direction[h, sources]).sum(-1)  # token source
        if exact.cap:
            usual_score = split.mean_scores[h, sources]
            more = exact.capped(usual_score + more) - exact.capped(usual_score)
        spread = {name: round(account.loc[h, name], 4) for name in ("where", "what", "interaction")}
        return {
            "effective": round(float(effective_tokens(split.kernels[h])), 2),
            **spread,
            "kernel": significant(split.kernels[h, sources].clamp(min=FAINTEST).log(), 3),
            "tokens": [
                {"token": token(t), "more": significant(m, 3)}
                for t, m in zip(some, more, strict=True)
            ],
        }

    return [one(h) for h in range(len(split.kernels))]


def significant(values: Tensor, digits: int) -> Any:
    """Return a tensor as plain numbers with this many significant digits."""
    if values.ndim:
        return [significant(value, digits) for value in values.unbind()]
    return float(f"{values:.{digits}g}")
