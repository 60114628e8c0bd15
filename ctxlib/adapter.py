"""Where decoders differ, in one place: all else in `ctxlib.lookups` asks here.

Attention and MLP of a layer stand one behind the other, or side by side (NeoX, GPT-J, Phi). An MLP
may be gated (Llama, Qwen), a norm may leave the mean where it is (RMSNorm), heads and MLPs may have
no bias, and logits may be scaled or capped (Granite, Gemma).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ctxlib.weights import center, check_layer, layer_norm_scale

#: TransformerLens's names of what comes before the last layer's stream.
BEFORE_THE_END = {"embed", "embed_ln", "pos_embed", "rotary_emb", "blocks"}


def upstream_layers(model: Any, layer: int) -> range:
    """The layers whose heads come before the neurons of a layer: up to its own, or to the one in
    front of it where attention and MLP stand side by side and the MLP reads what its heads read.

    >>> cx.adapter.upstream_layers(model, layer=1)
    range(0, 2)
    """
    return range(layer + (not getattr(model.cfg, "parallel_attn_mlp", False)))


Input = tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]


def mlp_inputs(model: Any, layer: int) -> dict[str, Input]:
    """What the neurons of a layer read the stream with, the gain of the norm in front folded in,
    and their biases, by name: `pre`, or of a gated MLP first the `gate`, whose numbers the
    activation function sees, then `up`, which those are multiplied by. On the model's device.

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
    """The name of the activation function, also where the configuration does not say it and
    TransformerLens takes it for a relu.

    >>> cx.adapter.act_fn(model)
    'gelu_new'
    """
    own = {"bloom": "gelu_new", "mpt": "gelu", "falcon": "gelu"}
    return own.get(model.original_model.config.model_type, model.cfg.act_fn)


def input_weights(model: Any, layer: int) -> Input:
    """The first of `mlp_inputs`: what the activation function sees.

    >>> W_in, b_in = cx.adapter.input_weights(model, layer=1)
    >>> W_in.shape, b_in.shape
    (torch.Size([256, 1024]), torch.Size([1024]))
    """
    return next(iter(mlp_inputs(model, layer).values()))


def output_weights(
    model: Any, layer: int
) -> tuple[Float[Tensor, "feeding head d_head d_model"], Float[Tensor, " d_model"]]:
    """What the heads that feed the neurons of a layer write to the stream with, and the sum of the
    biases beside them. On the CPU.

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
    """Counted, for some configurations (OPT) do not say."""
    check_layer(model, layer)
    return model.blocks[layer].mlp.W_out.shape[0]


def centered(model: Any, v: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any d_model"]:
    """Without the mean, which LayerNorm does not see and RMSNorm does.

    >>> cx.adapter.centered(model, torch.tensor([4.0, 2.0]))
    tensor([ 1., -1.])
    """
    return center(v) if model.cfg.normalization_type.startswith("LN") else v


def norm_scale(model: Any, stream: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any"]:
    """What the norm of this model divides a stream by.

    >>> cx.adapter.norm_scale(model, torch.tensor([4.0, 2.0])).round(decimals=2)  # 3 is the mean
    tensor(1.)
    """
    return layer_norm_scale(centered(model, stream), model.cfg.eps)[..., 0]


def check_end(model: Any) -> None:
    """Raises ValueError for a model that does more with its last layer's stream than to normalise
    it and multiply by W_U (ModernBERT), or does not normalise it there (GPT).

    >>> cx.adapter.check_end(model)
    """
    if {*model.adapter.component_mapping} - BEFORE_THE_END != {"ln_final", "unembed"}:
        raise ValueError("behind its last layer this kind of model is not one norm and W_U")


def unembedding(model: Any) -> Float[Tensor, "d_model vocab"]:
    """W_U with the gain of the last norm in it; a ValueError where that gain stayed outside, as it
    does for models that normalise what their layers write (OLMo 2), and as in `check_end`.

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
    """What the model makes of the stream behind its last layer, scaled and capped as it does.
    Errors as in `check_end`.

    >>> cx.adapter.logits(model, torch.zeros(2, model.cfg.d_model)).shape
    torch.Size([2, 8192])
    """
    check_end(model)
    config = model.original_model.config
    found = model.unembed(model.ln_final(stream[:, None].to(model.W_U.device)))[:, 0].cpu()
    found = found / getattr(config, "logits_scaling", 1.0)  # Granite
    cap = getattr(config, "final_logit_softcapping", None)  # Gemma
    return cap * (found / cap).tanh() if cap else found
