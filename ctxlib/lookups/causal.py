"""Does the model use it? Put the circuit in place of the heads in a forward pass, or add a text's
summary where the text is not (chapter 12).

A circuit describes one query position. Here z is computed for every position of a text at once, so
that a hook can put it into the heads, before W_O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.checks import as_index, check_chosen, check_index, check_kind, check_tokens
from ctxlib.circuit import ContextualCircuit, shared_kernel
from ctxlib.decompose import LayerNormDecomposition, causal_softmax, split_scores, split_values
from ctxlib.query import FixedQuery
from ctxlib.texts.batching import prepare_batches
from ctxlib.texts.text import AnyText, token_ids
from ctxlib.weights import LayerWeights, activations, layer_norm, project

Hook = tuple[str, Callable[..., Tensor]]

# ---------------------------------------------------------------- the circuits at every position


def require_equation_1(fixed: FixedQuery) -> LayerNormDecomposition:
    """Return the decomposition that holds at every position of a text; raise ValueError for any
    other.
    """
    approx = check_kind(fixed, "a fixed query").decomposition
    if not isinstance(approx, LayerNormDecomposition) or approx.weights.both_sides:
        raise ValueError(
            "this decomposition is of one query position; the circuit at every position of a text "
            "needs a decoder with learned positions: cx.fix_query of such a model"
        )
    return approx


def denominators_along(fixed: FixedQuery, text: AnyText) -> Float[Tensor, "head pos"]:
    """Return `softmax_denominators` of one text at all of its positions n, with the query token in
    place of x_n at each.

    Errors as there, and ValueError for a decomposition of one query position only.

    >>> denoms = cx.lookups.denominators_along(fixed, tokens)
    >>> here = cx.softmax_denominators(fixed, [tokens])[0]
    >>> denoms.shape, torch.allclose(denoms[:, 256], here, rtol=1e-2)
    (torch.Size([8, 512]), True)
    """
    split = require_equation_1(fixed)
    weights, x, t = split.weights, token_ids(text, fixed), fixed.token
    weights.sources(x)
    q = queries_along(weights, t, len(x))
    content, position = split_scores(weights, x, q, split.C)
    # the query token is at n itself
    own = layer_norm(weights.embeddings()[t] + weights.W_pos[: len(x)], weights.eps)
    own_scores = (q * (own @ weights.W_K)).sum(-1) / weights.attn_scale  # head pos
    content.diagonal(dim1=1, dim2=2).copy_(own_scores)
    return (causal_softmax(position) * content.exp().tril()).sum(-1)


def circuit_z(
    circuit: ContextualCircuit,
    tokens: Int[Tensor, " pos"],
    denominators: Float[Tensor, "head pos"],
) -> Float[Tensor, "pos chosen d_head"]:
    """Return the paper's circuit's z at every position of a text: the query of the circuit's token,
    one kernel for all heads, constant denominators, values as if every source were at the query
    position. At the circuit's own n it is what `circuit.summary` uses.

    `denominators` come from `denominators_along` the calibration text. Raises ValueError if that is
    shorter than this text.

    >>> along = cx.lookups.denominators_along(fixed, circuit.calibration)
    >>> z = cx.lookups.circuit_z(circuit, tokens[:257], along)
    >>> z.shape == (257, len(heads), weights.d_head)
    True
    """
    split = require_equation_1(check_kind(circuit, "a circuit").fixed)
    heads, weights, tokens = list(circuit.heads), split.weights, split.weights.sources(tokens)
    if check_kind(denominators, "a tensor", weights.n_heads, None).shape[-1] < len(tokens):
        raise ValueError(
            f"denominators at {denominators.shape[-1]} positions for a text of {len(tokens)}: "
            "calibrate on a longer text"
        )
    q = queries_along(weights, circuit.fixed.token, len(tokens))
    content, position = split_scores(weights, tokens, q, split.C)
    kernel = shared_kernel(causal_softmax(position[heads]))
    numerators = kernel * content[heads].exp().tril()
    rows = numerators / denominators[heads, : len(tokens), None]
    z, _ = split_values(weights, tokens, rows, heads)
    return rearrange(z, "head dest d_head -> dest head d_head")


def self_normalized_z(
    circuit: ContextualCircuit, tokens: Int[Tensor, " pos"]
) -> Float[Tensor, "pos chosen d_head"]:
    """Return the self-normalised circuit's z at every position of a text: rows and values by
    Equation 1, with the text's own tokens and denominators.

    >>> short = tokens[:128]
    >>> hook = cx.lookups.replace_z(0, heads, cx.lookups.self_normalized_z(circuit, short))
    >>> own, ours = (cx.lookups.token_losses(model, short[None], h).mean() for h in ([], [hook]))
    >>> bool((ours - own).abs() < 0.2)  # nats a token
    True
    """
    split = require_equation_1(check_kind(circuit, "a circuit").fixed)
    heads, weights, tokens = list(circuit.heads), split.weights, split.weights.sources(tokens)
    content, position = split_scores(weights, tokens, weights.queries(tokens), split.C)
    rows = causal_softmax((content + position)[heads])
    content_z, positional_z = split_values(weights, tokens, rows, heads, split.C)
    return rearrange(content_z + positional_z, "head dest d_head -> dest head d_head")


def queries_along(
    weights: LayerWeights, token: int, length: int
) -> Float[Tensor, "head pos d_head"]:
    """Return the query of one token at positions 0 to `length - 1`.

    >>> q = cx.lookups.queries_along(weights, weights.token_id(" the"), length=300)
    >>> here = cx.decompose.fixed_query(weights, n=256, token=" the")
    >>> torch.allclose(q[:, 256], here, atol=1e-3)
    True
    """
    check_index("token id", token, check_kind(weights, "weights").d_vocab)
    check_index("position", as_index("length", length) - 1, weights.n_ctx)
    x = layer_norm(weights.embeddings()[token] + weights.W_pos[:length], weights.eps)
    return project(x, weights.W_Q, weights.b_Q)


# ---------------------------------------------------------------- in the model


def replace_z(
    layer: int, heads: Sequence[int], z: Float[Tensor, "*text pos chosen d_head"]
) -> Hook:
    """Return a hook that replaces z of the chosen heads of a layer, by the same in all texts of the
    batch or by each text's own.

    When run, it raises ValueError for heads that the layer does not have, and for a z of another
    number of heads or of texts, of another size, or shorter than the texts.

    >>> short = tokens[None, :128]
    >>> silence = cx.lookups.replace_z(0, heads, torch.zeros(128, len(heads), weights.d_head))
    >>> own, without = (cx.lookups.token_losses(model, short, h).mean() for h in ([], [silence]))
    >>> bool(without > own)
    True
    """

    name = f"blocks.{as_index('layer', layer)}.attn.hook_z"
    check_kind(z, "a tensor")

    def hook(own: Float[Tensor, "text pos head d_head"], hook: Any) -> Tensor:
        changed, chosen = own.clone(), check_chosen("head", heads, own.shape[2])
        needed = (own.shape[1], len(chosen), own.shape[3])
        there = z[..., : own.shape[1], :, :] if z.ndim > 2 else z
        if there.shape[-3:] != needed or there.shape[:-3] not in ((), own.shape[:1]):
            raise ValueError(f"z has shape {tuple(z.shape)}: these texts need {needed}")
        changed[:, :, chosen] = there.to(own)
        return changed

    return name, hook


def add_direction(layer: int, direction: Float[Tensor, "*text d_model"]) -> Hook:
    """Return a hook that adds a direction to the output of a layer's attention at every position:
    one direction for all texts of the batch, or one for each.

    The MLP of the layer and all later layers read it. (At `hook_resid_mid` the bridge would change
    what the MLP reads, and the residual stream would go on without it.) When run, it raises
    ValueError for directions of another size, or of another number of texts.

    >>> short = tokens[None, :128]
    >>> push = cx.lookups.add_direction(0, weights.W_E[262])
    >>> own, pushed = (cx.lookups.token_losses(model, short, h).mean() for h in ([], [push]))
    >>> bool(pushed > own)
    True
    """

    name = f"blocks.{as_index('layer', layer)}.hook_attn_out"
    check_kind(direction, "a tensor")

    def hook(own: Float[Tensor, "text pos d_model"], hook: Any) -> Tensor:
        size = own.shape[2:]
        if direction.shape not in (size, own.shape[:1] + size):
            given = tuple(direction.shape)
            raise ValueError(f"the direction has shape {given}: these texts need {tuple(size)}")
        return own + rearrange(direction, "... d_model -> ... 1 d_model").to(own)

    return name, hook


def mean_z(model: Any, texts: Iterable[AnyText], length: int) -> Float[Tensor, "first head d_head"]:
    """Return the mean of z of the first layer's heads over texts, position by position, for
    mean-ablation.

    Raises ValueError for no text, for one that is too short, for a length beyond the model's
    context, and for ids outside its vocabulary.

    >>> cx.lookups.mean_z(model, passages[:4], length=64).shape
    torch.Size([64, 8, 32])
    """
    check_kind(model, "a decoder")
    if not 0 < as_index("length", length) <= model.cfg.n_ctx:
        raise ValueError(f"length={length}: choose 1 to {model.cfg.n_ctx}")
    total, count = torch.zeros(()), 0
    batches = prepare_batches(model, texts, length - 1, token=None, desc="mean of z")
    for tokens in chain.from_iterable(batches):
        (z,) = activations(model, tokens[None], ["blocks.0.attn.hook_z"], 1)
        total, count = total + z[0].double(), count + 1  # on the CPU: not every device has it
    if not count:
        raise ValueError("no texts: give at least one")
    return (total / count).to(z.dtype)


def token_losses(
    model: Any, tokens: Int[Tensor, "text pos"], hooks: Sequence[Hook] = ()
) -> Float[Tensor, "text pos-1"]:
    """Return the cross-entropy of each next token in nats, with hooks in place.

    Raises TypeError for anything but a decoder, a stack of tokens and a list of hooks.

    >>> losses = cx.lookups.token_losses(model, tokens[None, :128])
    >>> losses.shape
    torch.Size([1, 127])
    >>> losses.mean() < torch.tensor(model.cfg.d_vocab).log()  # better than by chance
    tensor(True)
    """
    check_kind(model, "a decoder")
    check_tokens(tokens)
    if not isinstance(hooks, Sequence) or not all(isinstance(hook, tuple) for hook in hooks):
        raise TypeError("hooks: give a list of what replace_z or add_direction returned")
    logits = model.run_with_hooks(tokens, fwd_hooks=list(hooks))
    chosen = logits[:, :-1].gather(-1, tokens[:, 1:, None].to(logits.device))[..., 0]
    return (logits[:, :-1].logsumexp(-1) - chosen).cpu()
