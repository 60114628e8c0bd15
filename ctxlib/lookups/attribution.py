"""Which heads wake a neuron that predicts a token (Neo, Cohen, Barez 2024; chapter 13).

    congruence of neuron j with token t:    w_out[j] . W_U[:, t]
    head (k, i) feeds neuron (l, j), k <= l:  <h_ik, e_jl> / scale

`h_ik` is the head's output at the last token of a prompt, `e_jl` the neuron's input weights with
the gain of LayerNorm folded in, `scale` what LayerNorm divides by there. With the embedding, the
earlier MLPs and the biases the terms add up to the neuron's pre-activation.

Everything here takes a model from `cx.load`: any decoder, any layer, any kind of positions. What
differs between them is asked of `adapter`: a gated neuron's pre-activation is that of its gate,
and the own heads of a parallel layer come too late for its neurons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import numpy as np
import pandas as pd
import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib import adapter
from ctxlib.texts.batching import batched, check_texts
from ctxlib.texts.text import AnyText, Reader, token_ids
from ctxlib.weights import AGREES, check_ids, check_layer, check_index, whole

TEXTS_AT_A_TIME = 4  # small batches stay in the processor's cache; changes no result
NEURONS_AT_A_TIME = 512

Place = tuple[int, int]  # layer and neuron, or layer and head

# ---------------------------------------------------------------- what a neuron says


def congruence(model: Any, layer: int) -> Float[Tensor, "neuron vocab"]:
    """`w_out . W_U[:, t]`: by how much one unit of a neuron's activation raises the logit of each
    token over the mean logit, which `cx.load` takes off where a model leaves its logits as they
    are; before the last LayerNorm divides by its scale.

    Raises ValueError for a layer that the model does not have and as `unembedding` does.

    >>> scores = cx.lookups.congruence(model, layer=2)
    >>> scores.shape
    torch.Size([1024, 8192])
    >>> best = scores[211].argmax()  # the token that the neuron makes most likely
    >>> bool(scores[211, best] >= scores[211].mean())
    True
    """
    check_layer(model, layer)
    return (model.blocks[layer].mlp.W_out.detach() @ adapter.unembedding(model)).cpu()


def next_token_neurons(model: Any, layers: Sequence[int] | None = None) -> pd.DataFrame:
    """The neurons cleanly associated with a token: of all tokens it is the one that the neuron
    raises most, and of all neurons this is the one that raises the token most.

    One row a neuron, the most congruent first: `layer`, `neuron`, `token` (its id), `text`,
    `congruence`; `over_tokens` is how far it lies above the neuron's second token, `over_neurons`
    how far above the token's second neuron. `layers` are those searched, by default the last five
    (all, where the model has fewer). Raises ValueError for a layer that the model does not have.

    >>> table = cx.lookups.next_token_neurons(model)
    >>> table[["layer", "neuron", "token"]].ge(0).all().all()
    np.True_
    >>> table["congruence"].is_monotonic_decreasing, (table["over_tokens"] > 0).all()
    (True, np.True_)
    """
    n_layers = model.cfg.n_layers
    searched = sorted(set(range(max(0, n_layers - 5), n_layers) if layers is None else layers))
    if not searched:
        raise ValueError("no layers: name at least one")
    for layer in searched:
        check_layer(model, layer)
    W_U = adapter.unembedding(model)
    of_token = torch.full((2, W_U.shape[1]), -torch.inf)  # each token's two largest congruences
    parts = []
    for layer in searched:
        for piece in model.blocks[layer].mlp.W_out.detach().split(NEURONS_AT_A_TIME):
            scores = (piece @ W_U).float().cpu()
            of_token = torch.cat([of_token, scores]).topk(2, dim=0).values
            (best, second), token = scores.topk(2, dim=1).values.T, scores.argmax(1)
            found = {"token": token, "congruence": best, "over_tokens": best - second}
            parts.append(pd.DataFrame({k: v.numpy() for k, v in found.items()}).assign(layer=layer))
    table = pd.concat(parts, ignore_index=True)
    first, second = of_token.numpy()[:, table["token"]]
    table["neuron"] = table.groupby("layer").cumcount()
    table["over_neurons"] = table["congruence"] - second
    clean = table[table["congruence"] == first]
    clean = clean.sort_values("congruence", ascending=False, kind="stable")
    clean = clean.drop_duplicates("token", ignore_index=True)  # of neurons that say the same, one
    clean["text"] = [model.tokenizer.decode([t]) for t in clean["token"].tolist()]
    columns = ["layer", "neuron", "token", "text", "congruence", "over_tokens", "over_neurons"]
    return clean[columns]


def random_neurons(
    model: Any,
    count: int,
    layers: Sequence[int],
    exclude: Iterable[Place] = (),
) -> list[Place]:
    """`count` neurons of the given layers drawn at random, none of the excluded: the baseline, the
    same every time.

    Raises ValueError for a layer that the model does not have, and for more neurons than there
    are.

    >>> cx.lookups.random_neurons(model, count=3, layers=[2, 3])
    [(3, 279), (3, 22), (3, 716)]
    """
    pool = [(k, j) for k in sorted(set(layers)) for j in range(adapter.n_neurons(model, k))]
    out = set(exclude)
    pool = [place for place in pool if place not in out]
    if not 1 <= count <= len(pool):
        raise ValueError(f"count={count}: there are {len(pool)} neurons to draw from")
    drawn = np.random.default_rng(0).choice(len(pool), size=count, replace=False)
    return [pool[i] for i in drawn]


# ---------------------------------------------------------------- who wakes it


@dataclass(frozen=True, eq=False)
class Attribution:
    """A neuron's pre-activation at the last token of prompts, term by term; each is already
    divided by LayerNorm's `scale`, so that the terms add up.

    `heads[p, k, i]` is head i of layer k on prompt p, `mlps[p, k]` the MLP of layer k, with its
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
        """The sum of all terms.

        >>> terms = cx.lookups.attribution(model, 2, 211, prompts=[tokens[:20], tokens[:30]])
        >>> torch.allclose(terms.total(), terms.pre_activation, atol=1e-2)
        True
        """
        return self.heads.sum((1, 2)) + self.mlps.sum(1) + self.embedding + self.bias

    def of(self, layer: int, head: int) -> Float[Tensor, " prompt"]:
        """One head's term on every prompt; ValueError for a head that is not among them.

        >>> terms = cx.lookups.attribution(model, 2, 211, prompts=[tokens[:20], tokens[:30]])
        >>> torch.equal(terms.of(layer=0, head=4), terms.heads[:, 0, 4])
        True
        """
        _, n_layers, n_heads = self.heads.shape
        if not (0 <= whole("layer", layer) < n_layers and 0 <= whole("head", head) < n_heads):
            raise ValueError(
                f"head {head} of layer {layer}: {n_heads} heads of {n_layers} layers, counted "
                f"from 0, feed the neurons of layer {self.layer}"
            )
        return self.heads[:, layer, head]


@dataclass(frozen=True, eq=False)
class Reading:
    """What the layers of a model have written at the last token of each prompt, and what its
    neurons made of it: enough to attribute any of them.

    `embedding` is what enters the first layer, `z[p, k, i]` what is inside head i of layer k
    before W_O, `mlp_out` what the MLP writes.

    >>> read = cx.lookups.read_prompts(model, [tokens[:20], tokens[:30]])
    >>> read.z.shape, read.mlp_out.shape
    (torch.Size([2, 4, 8, 32]), torch.Size([2, 4, 256]))
    """

    embedding: Float[Tensor, "prompt d_model"]
    z: Float[Tensor, "prompt layer head d_head"]
    mlp_out: Float[Tensor, "prompt layer d_model"]
    pre_activation: Float[Tensor, "prompt layer neuron"]


def read_prompts(model: Any, prompts: Sequence[AnyText], n_layers: int | None = None) -> Reading:
    """Let the model read prompts once, up to its first `n_layers` layers (by default all), for the
    attribution of many neurons. Raises ValueError for no prompts, for one that does not fit, and
    for layers that the model does not have.

    >>> read = cx.lookups.read_prompts(model, [tokens[:20], tokens[:30]])  # once ...
    >>> pair = (cx.lookups.attribution(model, 1, j, read) for j in (62, 63))  # ... for many
    >>> all(torch.allclose(a.total(), a.pre_activation, atol=1e-2) for a in pair)
    True
    """
    count = model.cfg.n_layers if n_layers is None else n_layers
    check_layer(model, count - 1)
    layers = range(count)
    stream = "blocks.0.hook_resid_pre"
    stacks = [
        [f"blocks.{k}.{hook}" for k in layers]
        for hook in ("attn.hook_z", "hook_mlp_out", "mlp.hook_pre")
    ]
    read = at_last_token(
        model, prompts, [stream, *(n for stack in stacks for n in stack)], len(layers)
    )
    return Reading(read[stream], *(torch.stack([read[n] for n in s], dim=1) for s in stacks))


def attribution(
    model: Any, layer: int, neuron: int, prompts: Sequence[AnyText] | Reading
) -> Attribution:
    """What every head, every MLP, the embedding and the biases put into one neuron at the last
    token of each prompt (Neo et al. 2024, section 4.3, with LayerNorm).

    LayerNorm's division is kept as it is on the prompt: a term says what a part contributes, not
    what would be missing without it, for then the scale would change as well. For many neurons on
    the same prompts give what `read_prompts` has read. Raises ValueError for a neuron that the
    model does not have, for no prompts, for a reading that ends below the neuron, and for a model
    whose parts do not add up to its pre-activations (normalisation behind the heads, as in
    Gemma 2).

    >>> terms = cx.lookups.attribution(model, layer=2, neuron=211, prompts=[tokens[:20]])
    >>> layer, head = divmod(terms.heads[0].argmax().item(), 8)  # that feed it most
    >>> torch.equal(terms.of(layer, head)[0], terms.heads[0].max())
    True
    """
    check_neuron(model, layer, neuron)
    read = prompts if isinstance(prompts, Reading) else read_prompts(model, prompts, layer + 1)
    if read.z.shape[1] <= layer:
        raise ValueError(
            f"layer {layer} was not read: the reading ends behind layer {read.z.shape[1] - 1}"
        )
    W_in, b_in = adapter.input_weights(model, layer)
    W_O, b_O = adapter.output_weights(model, layer)
    e, b = W_in[:, neuron].cpu(), float(b_in[neuron])
    z, mlp_out = read.z[:, : len(W_O)], read.mlp_out[:, :layer]

    heads_out = einsum(z, W_O, "prompt layer head d, layer head d d_model -> prompt d_model")
    scale = adapter.norm_scale(model, read.embedding + mlp_out.sum(1) + heads_out + b_O)
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
    check_sum(terms)
    return terms


def check_sum(terms: Attribution) -> None:
    """A model that writes to its stream in ways unknown here is refused, not misread."""
    sizes = terms.heads.abs().sum((1, 2)) + terms.mlps.abs().sum(1) + terms.embedding.abs()
    missing = (terms.total() - terms.pre_activation).abs() / (sizes + terms.bias.abs() + 1e-6)
    if not missing.max() < AGREES:
        raise ValueError(
            f"embedding, heads and MLPs do not add up to the neurons of layer {terms.layer}: this "
            "model normalises or scales what they write, and attribution would be wrong for it"
        )


# ---------------------------------------------------------------- running


def at_last_token(
    model: Any,
    prompts: Sequence[AnyText],
    names: Sequence[str],
    stop_at_layer: int,
) -> dict[str, Tensor]:
    """What flows through the named hooks (all of shape `text pos ...`) at the last token of each
    prompt, `"prompt ..."`.

    >>> name, prompts = "blocks.1.mlp.hook_pre", [tokens[:20], tokens[:30]]
    >>> read = cx.hooks.at_last_token(model, prompts, [name], stop_at_layer=2)
    >>> read[name].shape
    torch.Size([2, 1024])
    """
    check_texts(prompts)
    if not len(prompts):
        raise ValueError("no prompts: give at least one")
    parts: dict[str, list[Tensor]] = {name: [] for name in names}
    reader = Reader.of(model)
    read = [token_ids(prompt, reader) for prompt in prompts]
    by_length = sorted(range(len(read)), key=lambda i: len(read[i]))
    alike = (list(of) for _, of in groupby(by_length, key=lambda i: len(read[i])))
    # batches of one length: a hook that sets the last place would set what fills up
    for batch in chain.from_iterable(batched(of, TEXTS_AT_A_TIME) for of in alike):
        ids, last = pad(model, [read[i] for i in batch])
        _, cache = model.run_with_cache(ids, names_filter=list(names), stop_at_layer=stop_at_layer)
        for name in names:
            parts[name].append(cache[name].cpu()[torch.arange(len(ids)), last])
    back = torch.tensor(by_length).argsort()
    return {name: torch.cat(found)[back] for name, found in parts.items()}


def pad(
    model: Any, texts: Sequence[Int[Tensor, " _pos"]]
) -> tuple[Int[Tensor, "text pos"], Int[Tensor, " text"]]:
    """Texts of different lengths as one batch, filled up behind their ends, where a causal model
    does not look from inside them; and the index of each one's last token.

    Raises ValueError for an empty text, one longer than the model reads, unknown token ids.

    >>> ids, last = cx.hooks.pad(model, [tokens[:30], tokens[:20]])
    >>> ids.shape, last
    (torch.Size([2, 30]), tensor([29, 19]))
    """
    n_ctx = model.cfg.n_ctx
    for ids in texts:
        if ids.ndim != 1 or not 2 <= len(ids) <= n_ctx:
            raise ValueError(
                f"a text of shape {tuple(ids.shape)}: expected BOS and 1 to {n_ctx - 1} tokens"
            )
        check_ids(ids, model.cfg.d_vocab)
    filled = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    return filled, torch.tensor([len(ids) - 1 for ids in texts])


# ---------------------------------------------------------------- bad input


def check_neuron(model: Any, layer: int, neuron: int) -> None:
    check_index("neuron", neuron, adapter.n_neurons(model, layer))
