"""Next-token neurons: neurons whose output raises the logit of one token (Neo, Cohen and Barez
2024; chapter 15).

    congruence of neuron j with token t:    w_out[j] . W_U[:, t]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from ctxlib.adapter import has_norm, logit_scale, residual_multiplier
from ctxlib.checks import as_index, as_indices, check_kind
from ctxlib.lookups.layers import n_neurons, unembedding
from ctxlib.texts.batching import progress
from ctxlib.texts.vocabulary import decode_tokens, without_token
from ctxlib.weights import check_layer

NEURONS_AT_A_TIME = 512


def congruence(model: Any, layer: int) -> Float[Tensor, "neuron vocab"]:
    """Return `w_out . W_U[:, t]`: by how much one unit of a neuron's activation raises the logit of
    each token above the mean logit, before the last LayerNorm divides by its scale.

    Raises ValueError for a layer that the model does not have, if a norm stands behind its MLP, and
    as `unembedding` does.

    >>> scores = cx.lookups.congruence(model, layer=2)
    >>> scores.shape
    torch.Size([1024, 8192])
    >>> best = scores[211].argmax()  # the token that it promotes most
    >>> bool(scores[211, best] >= scores[211].mean())
    True
    """
    check_layer(model, layer)
    if has_norm(model, layer, "ln2_post"):
        raise ValueError("this model normalises what its MLPs write: congruence would be wrong")
    scale = residual_multiplier(model) * logit_scale(model)
    return scale * (model.blocks[layer].mlp.W_out.detach() @ unembedding(model)).cpu()


def next_token_neurons(model: Any, layers: Sequence[int] | None = None) -> pd.DataFrame:
    """Return the neurons that are cleanly associated with a token: of all tokens it is the one that
    the neuron raises most, and of all neurons this is the one that raises the token most.

    One row a neuron, the most congruent first: `layer`, `neuron`, `token` (its id), `text`,
    `congruence`; `over_tokens` is how far it lies above the neuron's second token, `over_neurons`
    how far above the token's second neuron. `layers` are those searched, by default the last five.
    Raises TypeError for an encoder, which predicts no token; ValueError for a layer that the model
    does not have, and for no layers.

    >>> table = cx.lookups.next_token_neurons(model)
    >>> table[["layer", "neuron", "token"]].ge(0).all().all()
    np.True_
    >>> table["congruence"].is_monotonic_decreasing, (table["over_tokens"] > 0).all()
    (True, np.True_)
    """
    n_layers = check_kind(model, "a decoder").cfg.n_layers
    last = range(max(0, n_layers - 5), n_layers)
    searched = sorted({*as_indices("layer", last if layers is None else layers)})
    if not searched:
        raise ValueError("no layers: name at least one")
    for layer in searched:
        check_layer(model, layer)
    W_U = unembedding(model)
    padding = without_token(model.tokenizer, W_U.shape[1])  # rows that no token has
    of_token = torch.full((2, W_U.shape[1]), -torch.inf)  # each token's two largest congruences
    parts, W_out = [], {k: model.blocks[k].mlp.W_out.detach() for k in searched}
    pieces = [(k, piece) for k, W in W_out.items() for piece in W.split(NEURONS_AT_A_TIME)]
    for layer, piece in progress(pieces, "next-token neurons", "chunk"):
        scores = (piece @ W_U).float().cpu().masked_fill(padding, -torch.inf)
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
    # of neurons that promote the same token, one
    clean = clean.drop_duplicates("token", ignore_index=True)
    clean["text"] = decode_tokens(model, clean["token"].tolist())
    columns = ["layer", "neuron", "token", "text", "congruence", "over_tokens", "over_neurons"]
    return clean[columns]


def random_neurons(
    model: Any,
    count: int,
    layers: Sequence[int],
    exclude: Collection[tuple[int, int]] = (),
) -> list[tuple[int, int]]:
    """Draw `count` neurons of the given layers at random, none of the excluded, as a baseline; the
    same ones every time.

    Raises ValueError for a layer that the model does not have, and for more neurons than there are.

    >>> cx.lookups.random_neurons(model, count=3, layers=[2, 3])
    [(3, 279), (3, 22), (3, 716)]
    """
    chosen = sorted({*as_indices("layer", layers)})
    out = set(check_kind(exclude, "a list"))
    pool = [(k, j) for k in chosen for j in range(n_neurons(model, k)) if (k, j) not in out]
    if not 1 <= as_index("count", count) <= len(pool):
        raise ValueError(f"count={count}: there are {len(pool)} neurons to draw from")
    drawn = np.random.default_rng(0).choice(len(pool), size=count, replace=False)
    return [pool[i] for i in drawn]
