"""Attribute a neuron's pre-activation to the heads, MLPs and embeddings below it (Neo, Cohen and
Barez 2024; chapter 15).

    head (k, i) feeds neuron (l, j), k <= l:    <h_ik, e_jl> / scale

`h_ik` is the head's output at the last token of a prompt, `e_jl` the neuron's input weights with
the gain of LayerNorm folded in, `scale` what LayerNorm divides by there. Together with the
embedding, the earlier MLPs and the biases the terms add up to the neuron's pre-activation. Any
decoder will do, at any layer; of a gated neuron it is the gate's pre-activation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from ctxlib.checks import as_index, check_index, check_kind
from ctxlib.lookups import layers
from ctxlib.lookups.hooks import at_last_token
from ctxlib.texts.batching import batched
from ctxlib.texts.text import AnyText
from ctxlib.weights import AGREES, check_layer


@dataclass(frozen=True, eq=False)
class Attribution:
    """A neuron's pre-activation at the last token of prompts, term by term. Each term is divided by
    LayerNorm's `scale`, so that they add up.

    `heads[p, k, i]` is head i of layer k on prompt p, `mlps[p, k]` the MLP of layer k with its
    bias; `embedding` is what enters the first layer, `bias` the neuron's own and those of the
    attention layers. `pre_activation` is the model's own, read off its hook.

    >>> terms = cx.lookups.attribution(model, 2, 211, prompts=[tokens[:20], tokens[:30]])
    >>> terms.heads.shape, terms.mlps.shape, terms.embedding.shape
    (torch.Size([2, 3, 8]), torch.Size([2, 2]), torch.Size([2]))
    """

    layer: int
    neuron: int
    heads: Float[Tensor, "prompt layer head"]
    mlps: Float[Tensor, "prompt mlp"]
    embedding: Float[Tensor, " prompt"]
    bias: Float[Tensor, " prompt"]
    scale: Float[Tensor, " prompt"]
    pre_activation: Float[Tensor, " prompt"]

    def total(self) -> Float[Tensor, " prompt"]:
        """Return the sum of all terms.

        >>> terms = cx.lookups.attribution(model, 2, 211, prompts=[tokens[:20], tokens[:30]])
        >>> torch.allclose(terms.total(), terms.pre_activation, atol=1e-2)
        True
        """
        return self.heads.sum((1, 2)) + self.mlps.sum(1) + self.embedding + self.bias

    def table(self) -> pd.DataFrame:
        """Return one row a term, in the order in which they enter the residual stream: what kind of
        `part` it is, with its `layer` and `head`, its `mean` and standard deviation `sd` over the
        prompts, and its `variance share`.

        The share is the term's covariance with the pre-activation over the variance of that: shares
        add up to 1, as the means add up to the mean, and one is negative where a term works against
        the others. They are NaN for one prompt, which has no spread.

        >>> terms = cx.lookups.attribution(model, 2, 211, prompts=[tokens[:20], tokens[:30]])
        >>> table = terms.table()
        >>> list(table), len(table) == 1 + 3 * 8 + 2 + 1
        (['part', 'layer', 'head', 'mean', 'sd', 'variance share'], True)
        >>> bars = table["mean"].sort_values(key=abs).tail(10).plot.barh()  # the largest ten
        """
        rows: list[tuple[str, str, int | None, int | None, Tensor]]
        rows = [("embedding", "embedding", None, None, self.embedding)]
        for k, added in enumerate(self.heads.unbind(1)):
            rows += [(f"head {i} of layer {k}", "head", k, i, t) for i, t in enumerate(added.T)]
            rows += [(f"MLP of layer {k}", "MLP", k, None, t) for t in self.mlps[:, k : k + 1].T]
        names = ["term", "part", "layer", "head", "mean"]
        table = pd.DataFrame([*rows, ("bias", "bias", None, None, self.bias)], columns=names)
        terms = torch.stack([*table["mean"]]).double()  # term prompt
        table = table.set_index("term").astype({"layer": "Int64", "head": "Int64"})
        between = terms.cov(correction=0)
        table["mean"], table["sd"] = terms.mean(1).numpy(), between.diagonal().sqrt().numpy()
        table["variance share"] = (between.sum(1) / between.sum()).numpy()
        return table


@dataclass(frozen=True, eq=False)
class Reading:
    """What a model's layers write to the residual stream at the last token of each prompt, and its
    neurons' pre-activations: enough to attribute any neuron.

    `embedding` is what enters the first layer, `z[p, k, i]` is z of head i of layer k, before W_O,
    and `mlp_out` the output of the MLP.

    >>> read = cx.lookups.read_prompts(model, [tokens[:20], tokens[:30]])
    >>> read.z.shape, read.mlp_out.shape
    (torch.Size([2, 4, 8, 32]), torch.Size([2, 4, 256]))
    """

    embedding: Float[Tensor, "prompt d_model"]
    z: Float[Tensor, "prompt layer head d_head"]
    mlp_out: Float[Tensor, "prompt layer d_model"]
    pre_activation: Float[Tensor, "prompt layer neuron"]


def read_prompts(model: Any, prompts: Sequence[AnyText], n_layers: int | None = None) -> Reading:
    """Run the model on prompts once, through its first `n_layers` layers (by default all), for the
    attribution of many neurons.

    Raises ValueError for no prompts, for one that does not fit, and for layers that the model does
    not have.

    >>> read = cx.lookups.read_prompts(model, [tokens[:20], tokens[:30]])  # once ...
    >>> pair = (cx.lookups.attribution(model, 1, j, read) for j in (62, 63))  # ... for many
    >>> all(torch.allclose(a.total(), a.pre_activation, atol=1e-2) for a in pair)
    True
    """
    n_all = check_kind(model, "a decoder").cfg.n_layers
    count = n_all if n_layers is None else as_index("n_layers", n_layers)
    check_layer(model, count - 1)
    hooks = "attn.hook_z", "hook_mlp_out", "mlp.hook_pre"
    names = [f"blocks.{k}.{hook}" for hook in hooks for k in range(count)]
    read = at_last_token(model, prompts, ["blocks.0.hook_resid_pre", *names], count)
    stream, *parts = read.values()
    return Reading(stream, *(torch.stack(by_layer, dim=1) for by_layer in batched(parts, count)))


def attribution(
    model: Any, layer: int, neuron: int, prompts: Sequence[AnyText] | Reading
) -> Attribution:
    """Return what every head, every MLP, the embedding and the biases add to one neuron at the last
    token of each prompt (Neo et al. 2024, section 4.3, with LayerNorm).

    LayerNorm's scale is the one of the whole prompt: a term says what a part contributes, not what
    would be missing without it, because then the scale would change as well. For many neurons on
    the same prompts, pass what `read_prompts` returned; `table` of the result has a row for each
    term. Raises TypeError for an encoder; ValueError for a neuron that the model does not have, for
    no prompts, for a reading that ends below the neuron, and for a model whose parts do not add up
    to its pre-activations (normalisation after the heads, as in Gemma 2).

    >>> terms = cx.lookups.attribution(model, layer=2, neuron=211, prompts=[tokens[:20]])
    >>> layer, head = divmod(terms.heads[0].argmax().item(), 8)  # that feed it most
    >>> torch.equal(terms.heads[0, layer, head], terms.heads[0].max())
    True
    """
    check_index("neuron", neuron, layers.n_neurons(model, layer))
    read = prompts if isinstance(prompts, Reading) else read_prompts(model, prompts, layer + 1)
    if read.z.shape[1] <= layer:
        raise ValueError(
            f"layer {layer} was not read: the reading ends behind layer {read.z.shape[1] - 1}"
        )
    W_in, b_in = layers.input_weights(model, layer)
    W_O, b_O = layers.output_weights(model, layer)
    e, b = W_in[:, neuron].cpu(), float(b_in[neuron])
    z, mlp_out = read.z[:, : len(W_O)], read.mlp_out[:, :layer]

    heads_out = einsum(z, W_O, "prompt layer head d, layer head d d_model -> prompt d_model")
    scale = layers.norm_scale(model, read.embedding + mlp_out.sum(1) + heads_out + b_O)
    reading = einsum(W_O, e, "layer head d d_model, d_model -> layer head d")
    heads = einsum(z, reading, "prompt layer head d, layer head d -> prompt layer head")
    terms = Attribution(
        layer,
        neuron,
        heads=heads / rearrange(scale, "prompt -> prompt 1 1"),
        mlps=mlp_out @ e / scale[:, None],
        embedding=read.embedding @ e / scale,
        bias=b + (b_O @ e) / scale,
        scale=scale,
        pre_activation=read.pre_activation[:, layer, neuron],
    )
    sizes = terms.heads.abs().sum((1, 2)) + terms.mlps.abs().sum(1) + terms.embedding.abs()
    missing = (terms.total() - terms.pre_activation).abs() / (sizes + terms.bias.abs() + 1e-6)
    if not missing.max() < AGREES:
        raise ValueError(
            f"embedding, heads and MLPs do not add up to the neurons of layer {layer}: this model "
            "normalises or scales what they write, and attribution would be wrong for it"
        )
    return terms
