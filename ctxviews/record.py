"""Records: what views show that cannot be computed from the first layer's weights, as plain lists.

A page without a kernel cannot run a model of several layers or read a thousand texts. What comes
of that is put down here, and to choose among it is then only to add or to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor
from transformers.activations import ACT2FN

from ctxlib.adapter import act_fn
from ctxlib.denominators import softmax_denominators
from ctxlib.query import FixedQuery
from ctxlib.texts.text import Text
from ctxlib.weights import layer_norm

if TYPE_CHECKING:
    from ctxlib.additive import AdditiveDecomposition
    from ctxlib.lookups.attribution import Attribution

LISTED = 32  # heads of a neuron; the sum of all others is one more term
FAINTEST = 1e-7  # weight of a kernel that is told apart from none
LIKED = 8  # tokens at either end of a head's content
USUAL = 300  # most frequent tokens: of them one is told that is liked, one that is not, one between
SPAN, STEP = 16.0, 0.0625  # of the activation function's table: both exact in binary


# ---------------------------------------------------------------- look-ups


def look_up_record(model: Any, neurons: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The record behind `LookUps`: neurons as `looked_up` gives them, and the activation function
    as a table.
    """
    name = act_fn(model)
    x = torch.arange(-SPAN, SPAN + STEP, STEP)
    table = {"name": name, "from": -SPAN, "step": STEP}
    return {
        "nHeads": model.cfg.n_heads,
        "activation": table | {"values": rounded(ACT2FN[name](x))} if name in ACT2FN else None,
        "neurons": list(neurons),
    }


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
    """One neuron of a record: its token, its terms at the end of each of `prompts` and usually
    (means over other prompts), what each head gets from each token, and its token's probability.

    `terms`, `sources` and `probability` may be of more prompts than are given here; theirs come
    first. Of a model with many heads the `LISTED` with the largest rise or fall on one of the
    prompts are told apart.
    """
    count = len(prompts)
    if not 1 <= count <= min(len(terms.heads), len(sources), len(probability)):
        raise ValueError(f"{count} prompts: give one at least, and no more than were attributed")
    here, usual = terms.heads[:count].flatten(1), usually.heads.mean(0).flatten()  # ... head
    largest = (here - usual).abs().amax(0).argsort(descending=True, stable=True)
    heads = largest[:LISTED].sort().values

    def one(p: int) -> dict[str, Any]:
        told = sources[p].flatten(0, 1)[heads, : len(prompts[p])]
        parts = (terms.bias[p], terms.embedding[p], terms.mlps[p].sum())
        return {
            "tokens": [model.tokenizer.decode([t]) for t in prompts[p].tolist()],
            "sources": (1000 * told).round().int().flatten().tolist(),
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
    """The terms of one pre-activation; they still add up when rounded, but for the rounding."""
    [b, e, m, rest] = rounded([bias, embedding, mlps, of_heads.sum() - of_heads[listed].sum()])
    told = rounded(of_heads[listed])
    return {"bias": b, "embedding": e, "mlps": m, "heads": told, "rest": rest}


def rounded(values: Iterable[Any]) -> list[float]:
    return [round(float(value), 4) + 0.0 for value in values]  # no minus before a zero


# ---------------------------------------------------------------- denominators


def denominator_record(
    fixed: FixedQuery, texts: Sequence[Text], passages: Sequence[Text]
) -> dict[str, Any]:
    """What `denominators.js` needs: every denominator, and for each head what bounds are made of.

    As in chapter 4: BOS and the destination are the same in every text and add a constant, the
    tokens between them are what is drawn. All in units of the expected denominator.
    """
    kernels = fixed.decomposition.kernels
    values = fixed.decomposition.content[:, fixed.prepare(texts)]
    inner, kernel = values[..., 1:-1], kernels[:, 1:-1]
    fixed = kernels[:, 0] * values[:, 0, 0] + kernels[:, -1] * values[:, 0, -1]
    mean = inner.mean((1, 2))
    expected = fixed + mean * kernel.sum(-1)
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
    """What `positions.js` needs of first layers that keep positions in different ways: of every
    head the kernel, what it likes, and where, what and both, as in chapter 11.

    Distances leave out the destination and BOS, and take every fourth token beyond 32.
    """
    if not splits or len(places := {split.n for split in splits.values()}) > 1:
        raise ValueError(f"{len(splits)} first layers: give one at least, all asked at one n")
    (n,) = places
    distances = [d for d in range(1, n) if d <= 32 or d % 4 == 0]
    kinds = [
        {"name": name, "heads": asked_heads(split, distances)} for name, split in splits.items()
    ]
    return {"n": n, "distances": distances, "kinds": kinds}


def asked_heads(split: AdditiveDecomposition, distances: list[int]) -> list[dict[str, Any]]:
    """The heads of one first layer. What a token gets beyond the average one at a source i is
    `g_i . (x_t - mean x)`: its log content, and the interaction, if it is not the same for all i.
    """
    from ctxlib.additive import decomposition
    from ctxlib.decompose import effective_tokens

    layer, sources = split.layer, split.n - torch.tensor(distances)
    usual = split.frequency.argsort(descending=True, stable=True)[:USUAL]
    occurring = (split.frequency > 1e-4).nonzero()[:, 0]
    account = decomposition(split)

    def token(t: Tensor) -> str:
        return layer.tokenizer.decode([int(t)])

    def one(h: int) -> dict[str, Any]:
        content = split.log_content[h]
        liked = usual[content[usual].argsort(descending=True)]
        ends = occurring[content[occurring].argsort(descending=True)]
        told = liked[[0, len(liked) // 2, -1]]
        x = layer_norm(layer.E[told, None] + layer.position_offset[sources], layer.readout.eps)
        more = ((x - split.mean[sources]) * layer.qk_direction[h, sources]).sum(-1)  # token source
        spread = {name: round(account.loc[h, name], 4) for name in ("where", "what", "interaction")}
        return {
            "effective": round(float(effective_tokens(split.kernels[h])), 2),
            **spread,
            "kernel": significant(split.kernels[h, sources].clamp(min=FAINTEST).log(), 3),
            "most": [
                {"token": token(t), "content": significant(content[t], 3)} for t in ends[:LIKED]
            ],
            "least": [
                {"token": token(t), "content": significant(content[t], 3)}
                for t in ends.flip(0)[:LIKED]
            ],
            "tokens": [
                {"token": token(t), "more": significant(m, 3)}
                for t, m in zip(told, more, strict=True)
            ],
        }

    return [one(h) for h in range(len(split.kernels))]


def significant(values: Tensor, digits: int) -> Any:
    """A tensor as plain numbers with this many significant digits."""
    if values.ndim:
        return [significant(value, digits) for value in values.unbind()]
    return float(f"{values:.{digits}g}")
