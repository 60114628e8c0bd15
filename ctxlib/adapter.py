"""Where decoders differ, in one place.

Attention and MLP of a layer come one after the other, or are parallel (NeoX, GPT-J, Phi). An MLP
may be gated (Llama, Qwen), a norm may leave the mean in place (RMSNorm), heads and MLPs may have no
bias, and logits may be scaled or capped (Granite, Gemma).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ctxlib.weights import center, check_layer, layer_norm_scale

#: TransformerLens's names of the parts before the last residual stream.
BEFORE_THE_END = {"embed", "embed_ln", "pos_embed", "rotary_emb", "blocks"}


def upstream_layers(model: Any, layer: int) -> range:
    """Return the layers whose heads are upstream of the neurons of a layer: up to its own, or to
    the one before it if attention and MLP are parallel and read the same stream.

    >>> cx.adapter.upstream_layers(model, layer=1)
    range(0, 2)
    """
    return range(layer + (not getattr(model.cfg, "parallel_attn_mlp", False)))


Input = tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]


def mlp_inputs(model: Any, layer: int) -> dict[str, Input]:
    """Return the input weights of a layer's neurons, with the gain of the norm before them folded
    in, and their biases, by name: `pre`, or of a gated MLP first the `gate`, which the activation
    function is applied to, then `up`, which the result is multiplied by. On the model's device.

    >>> list(cx.adapter.mlp_inputs(model, layer=1))
    ['pre']
    """
    mlp = model.blocks[layer].mlp
    gated, last = mlp.W_gate is not None, (mlp.W_in, mlp.b_in)
    read = {"gate": (mlp.W_gate, mlp.b_gate), "up": last} if gated else {"pre": last}
    return {
        name: (W.detach(), (W.new_zeros(W.shape[1]) if b is None else b).detach())
        for name, (W, b) in read.items()
    }


def act_fn(model: Any) -> str:
    """Return the name of the activation function, also where the configuration does not say it and
    TransformerLens assumes a relu.

    >>> cx.adapter.act_fn(model)
    'gelu_new'
    """
    own = {"bloom": "gelu_new", "mpt": "gelu", "falcon": "gelu"}
    return own.get(model.original_model.config.model_type, model.cfg.act_fn)


def input_weights(model: Any, layer: int) -> Input:
    """Return the first of `mlp_inputs`, which the activation function is applied to.

    >>> W_in, b_in = cx.adapter.input_weights(model, layer=1)
    >>> W_in.shape, b_in.shape
    (torch.Size([256, 1024]), torch.Size([1024]))
    """
    return next(iter(mlp_inputs(model, layer).values()))


def output_weights(
    model: Any, layer: int
) -> tuple[Float[Tensor, "feeding head d_head d_model"], Float[Tensor, " d_model"]]:
    """Return W_O of the heads upstream of a layer's neurons, and the sum of their output biases. On
    the CPU.

    >>> W_O, b_O = cx.adapter.output_weights(model, layer=1)
    >>> W_O.shape, b_O.shape
    (torch.Size([2, 8, 32, 256]), torch.Size([256]))
    """
    attention, n = (
        [model.blocks[k].attn for k in range(layer + 1)],
        len(upstream_layers(model, layer)),
    )
    W = torch.stack([heads.W_O.detach().cpu() for heads in attention])[:n]
    b = [heads.b_O.detach().cpu() for heads in attention[:n] if heads.b_O is not None]
    return W, sum(b, W.new_zeros(W.shape[-1]))


def n_neurons(model: Any, layer: int) -> int:
    """Count the neurons of a layer; some configurations (OPT) do not say."""
    check_layer(model, layer)
    return model.blocks[layer].mlp.W_out.shape[0]


def centered(model: Any, v: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any d_model"]:
    """Subtract the mean, if the model has LayerNorm, which ignores it; RMSNorm does not.

    >>> cx.adapter.centered(model, torch.tensor([4.0, 2.0]))
    tensor([ 1., -1.])
    """
    return center(v) if model.cfg.normalization_type.startswith("LN") else v


def norm_scale(model: Any, stream: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any"]:
    """Return what the norm of this model divides a residual stream by.

    >>> cx.adapter.norm_scale(model, torch.tensor([4.0, 2.0])).round(decimals=2)  # 3 is the mean
    tensor(1.)
    """
    return layer_norm_scale(centered(model, stream), model.cfg.eps)[..., 0]


def check_end(model: Any) -> None:
    """Raise ValueError unless the model turns its last residual stream into logits by one norm and
    W_U (ModernBERT does more, the first GPT has no norm there).

    >>> cx.adapter.check_end(model)
    """
    if {*model.adapter.component_mapping} - BEFORE_THE_END != {"ln_final", "unembed"}:
        raise ValueError("after its last layer this kind of model is not one norm and W_U")


def unembedding(model: Any) -> Float[Tensor, "d_model vocab"]:
    """Return W_U with the gain of the last norm folded in.

    Raises ValueError if the gain is not folded, as in models that normalise what their layers write
    (OLMo 2), and as `check_end` does.

    >>> cx.adapter.unembedding(model).shape
    torch.Size([256, 8192])
    """
    check_end(model)
    gain = dict(model.ln_final.named_parameters()).get("_original_component.weight")
    if gain is not None and not torch.allclose(gain, torch.ones_like(gain)):
        raise ValueError(
            "the last LayerNorm's gain is not folded into W_U: congruence would be wrong for this "
            "kind of model"
        )
    return model.W_U.detach()


def logits(model: Any, stream: Float[Tensor, "text d_model"]) -> Float[Tensor, "text vocab"]:
    """Return the logits of residual streams after the last layer, scaled and capped as the model
    does. Errors as in `check_end`.

    >>> cx.adapter.logits(model, torch.zeros(2, model.cfg.d_model)).shape
    torch.Size([2, 8192])
    """
    check_end(model)
    config = model.original_model.config
    found = model.unembed(model.ln_final(stream[:, None].to(model.W_U.device)))[:, 0].cpu()
    found = found / getattr(config, "logits_scaling", 1.0)  # Granite
    cap = getattr(config, "final_logit_softcapping", None)  # Gemma
    return cap * (found / cap).tanh() if cap else found
