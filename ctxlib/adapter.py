"""Where decoders differ, in one place.

Attention and MLP of a layer come one after the other, or are parallel (NeoX, GPT-J, Phi, Cohere).
An MLP may be gated (Llama, Qwen), a norm may leave the mean in place (RMSNorm), stand behind the
heads (Gemma) or be missing in front of them (OLMo 2), heads and MLPs may have no bias.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ctxlib.checks import as_index, check_kind
from ctxlib.weights import AGREES, PROBED, activations, center, check_layer


def upstream_layers(model: Any, layer: int) -> range:
    """Return the layers whose heads are upstream of the neurons of a layer: up to its own, or to
    the one before it if attention and MLP are parallel and read the same stream.

    >>> cx.adapter.upstream_layers(model, layer=1)
    range(0, 2)
    """
    parallel = getattr(check_kind(model, "a model").cfg, "parallel_attn_mlp", False)
    return range(as_index("layer", layer) + (not parallel))


Input = tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]


def mlp_inputs(model: Any, layer: int) -> dict[str, Input]:
    """Return the input weights of a layer's neurons, with the gain of the norm before them folded
    in, and their biases, by name: `pre`, or of a gated MLP first the `gate`, which the activation
    function is applied to, then `up`, which the result is multiplied by. On the model's device.

    >>> list(cx.adapter.mlp_inputs(model, layer=1))
    ['pre']
    """
    check_layer(model, layer)
    mlp = model.blocks[layer].mlp
    gated, last = mlp.W_gate is not None, (mlp.W_in, mlp.b_in)
    read = {"gate": (mlp.W_gate, mlp.b_gate), "up": last} if gated else {"pre": last}
    read = {
        name: (W.detach(), (W.new_zeros(W.shape[1]) if b is None else b).detach())
        for name, (W, b) in read.items()
    }
    gain, bias = norm_before_mlp(model, layer, *next(iter(read.values())))
    if gain is None:
        return read
    folded = {name: centered(model, (gain[:, None] * W).T).T for name, (W, _) in read.items()}
    return {name: (folded[name], bias @ W + b) for name, (W, b) in read.items()}


def norm_before_mlp(
    model: Any, layer: int, W: Float[Tensor, "d_model neuron"], b: Float[Tensor, " neuron"]
) -> tuple[Float[Tensor, " d_model"] | None, Float[Tensor, " d_model"] | None]:
    """Return gain and bias of the norm in front of an MLP, read off a few tokens, where
    TransformerLens has not folded them into these weights (GLM); else None.

    >>> cx.adapter.norm_before_mlp(model, 1, *cx.adapter.mlp_inputs(model, 1)["pre"])
    (None, None)
    """
    names = [f"blocks.{layer}.{p}" for p in ("ln2.hook_normalized", "ln2.hook_out", "mlp.hook_pre")]
    if names[0] not in model.hook_dict:
        return None, None
    few = torch.arange(min(PROBED, model.cfg.d_vocab))[None]
    found = activations(model, few, names, layer + 1)
    x, y, pre = (t.flatten(0, -2).to(W.device) for t in found)  # pos d_model; y = gain x + bias
    if torch.allclose(x, y, atol=AGREES) or torch.allclose(x @ W + b, pre, rtol=0, atol=AGREES):
        return None, None
    around = x - x.mean(0)
    gain = (around * (y - y.mean(0))).sum(0) / around.square().sum(0)
    return gain, y.mean(0) - gain * x.mean(0)


def has_norm(model: Any, layer: int, *names: str) -> bool:
    """Return whether a layer has one of these norms, in TransformerLens's words: `ln1` and `ln2` in
    front of heads and MLP, `ln1_post` and `ln2_post` behind them.

    >>> cx.adapter.has_norm(model, 0, "ln1", "ln2"), cx.adapter.has_norm(model, 0, "ln1_post")
    (True, False)
    """
    return any(f"blocks.{layer}.{name}.hook_out" in model.hook_dict for name in names)


def residual_multiplier(model: Any) -> float:
    """Return what a layer's outputs are multiplied by where they are added to the stream (Granite).

    >>> cx.adapter.residual_multiplier(model)
    1.0
    """
    return getattr(model.original_model.config, "residual_multiplier", 1.0)


def logit_scale(model: Any) -> float:
    """Return what the logits are multiplied by behind W_U (Granite).

    >>> cx.adapter.logit_scale(model)
    1.0
    """
    return 1 / getattr(model.original_model.config, "logits_scaling", 1.0)


def act_fn(model: Any) -> str:
    """Return the name of the activation function, also where the configuration does not say it and
    TransformerLens assumes a relu.

    >>> cx.adapter.act_fn(model)
    'gelu_new'
    """
    config = check_kind(model, "a model").original_model.config
    own = {"bloom": "gelu_new", "mpt": "gelu"}.get(config.model_type)
    return own or getattr(config, "activation", model.cfg.act_fn)


def centered(model: Any, v: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any d_model"]:
    """Subtract the mean, if the model has LayerNorm, which ignores it; RMSNorm does not.

    >>> cx.adapter.centered(model, torch.tensor([4.0, 2.0]))
    tensor([ 1., -1.])
    """
    kind = check_kind(model, "a decoder").cfg.normalization_type
    return center(v) if kind.startswith("LN") else v
