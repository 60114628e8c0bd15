"""Records: what views show that cannot be computed from the first layer's weights, as plain lists.

A page without a kernel cannot run a model of several layers or read a thousand texts. What comes
of that is put down here, and to choose among it is then only to add or to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor
from transformers.activations import ACT2FN

from ctxlib.denominators import softmax_denominators
from ctxlib.destination import FromWeights
from ctxlib.texts import Text, at
from ctxlib.weights import LayerWeights

if TYPE_CHECKING:
    from ctxlib.decoders import Attribution

LISTED = 32  # heads of a neuron; the sum of all others is one more term
SPAN, STEP = 16.0, 0.0625  # of the activation function's table: both exact in binary


# ---------------------------------------------------------------- look-ups


def look_up_record(
    model: Any, neurons: Iterable[dict[str, Any]], looks: Sequence[str] = ()
) -> dict[str, Any]:
    """The record behind `LookUps`: neurons as `looked_up` gives them; where each head of the model
    looks, in words, all heads counted through; and the activation function as a table.
    """
    name = model.cfg.act_fn
    x = torch.arange(-SPAN, SPAN + STEP, STEP)
    table = {"name": name, "from": -SPAN, "step": STEP}
    return {
        "nHeads": model.cfg.n_heads,
        "activation": table | {"values": rounded(ACT2FN[name](x))} if name in ACT2FN else None,
        "looks": list(looks),
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
    weights: LayerWeights,
    texts: Sequence[Text],
    passages: Sequence[Text],
    n: int | None = None,
    token: str | int = " the",
) -> dict[str, Any]:
    """What `denominators.js` needs: every denominator, and for each head what bounds are made of.

    As in chapter 4: BOS and the destination are the same in every text and add a constant, the
    tokens between them are what is drawn. All in units of the expected denominator.
    """
    here = FromWeights.of(weights, n, token)
    kernels = here.kernels
    values = here.likes[:, at(weights, texts, here.n, token)]
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
    labelled = softmax_denominators(here, passages).T if len(passages) else denoms[:, :0]
    return {
        "n": here.n,
        "token": weights.tokenizer.decode([here.token]),
        "heads": [
            {name: significant(of[head], 6) for name, of in facts.items()}
            for head in range(weights.n_heads)
        ],
        "texts": significant(denoms / expected[:, None], 4),
        "passages": [{"name": p.name, "domain": p.domain} for p in passages],
        "ofPassages": significant(labelled / expected[:, None], 4),
    }


def significant(values: Tensor, digits: int) -> Any:
    """A tensor as plain numbers with this many significant digits."""
    if values.ndim:
        return [significant(value, digits) for value in values.unbind()]
    return float(f"{values:.{digits}g}")
