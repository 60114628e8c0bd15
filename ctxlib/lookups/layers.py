"""The weights of any layer of a model: what heads write and neurons read, and what turns the last
residual stream into logits, which may be scaled or capped (Granite, Gemma).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ctxlib.adapter import Input, centered, logit_scale, mlp_inputs, upstream_layers
from ctxlib.checks import check_kind
from ctxlib.weights import check_layer, layer_norm_scale

#: TransformerLens's names of the parts before the last residual stream.
BEFORE_THE_END = {"embed", "embed_ln", "pos_embed", "rotary_emb", "blocks"}


def input_weights(model: Any, layer: int) -> Input:
    """Return the first of `mlp_inputs`, which the activation function is applied to.

    >>> W_in, b_in = cx.lookups.layers.input_weights(model, layer=1)
    >>> W_in.shape, b_in.shape
    (torch.Size([256, 1024]), torch.Size([1024]))
    """
    return next(iter(mlp_inputs(model, layer).values()))


def output_weights(
    model: Any, layer: int
) -> tuple[Float[Tensor, "feeding head d_head d_model"], Float[Tensor, " d_model"]]:
    """Return W_O of the heads upstream of a layer's neurons, and the sum of their output biases. On
    the CPU.

    >>> W_O, b_O = cx.lookups.layers.output_weights(model, layer=1)
    >>> W_O.shape, b_O.shape
    (torch.Size([2, 8, 32, 256]), torch.Size([256]))
    """
    check_layer(model, layer)
    attention = [model.blocks[k].attn for k in range(layer + 1)]
    n = len(upstream_layers(model, layer))
    W = torch.stack([heads.W_O.detach().cpu() for heads in attention])[:n]
    b = [heads.b_O.detach().cpu() for heads in attention[:n] if heads.b_O is not None]
    return W, sum(b, W.new_zeros(W.shape[-1]))


def n_neurons(model: Any, layer: int) -> int:
    """Count the neurons of a layer; some configurations (OPT) do not say."""
    check_layer(model, layer)
    return model.blocks[layer].mlp.W_out.shape[0]


def norm_scale(model: Any, stream: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any"]:
    """Return what the norm of this model divides a residual stream by.

    >>> cx.lookups.layers.norm_scale(model, torch.tensor([4.0, 2.0])).round(decimals=2)  # mean 3
    tensor(1.)
    """
    check_kind(model, "a decoder")
    check_kind(stream, "a tensor", None)
    return layer_norm_scale(centered(model, stream), model.cfg.eps)[..., 0]


def check_end(model: Any) -> None:
    """Raise ValueError unless the model turns its last residual stream into logits by one norm and
    W_U (ModernBERT does more, the first GPT has no norm there).

    >>> cx.lookups.layers.check_end(model)
    """
    parts = {*check_kind(model, "a decoder").adapter.component_mapping}
    if parts - BEFORE_THE_END != {"ln_final", "unembed"}:
        raise ValueError("after its last layer this kind of model is not one norm and W_U")


def unembedding(model: Any) -> Float[Tensor, "d_model vocab"]:
    """Return W_U with the gain of the last norm folded in.

    Raises ValueError if the gain is not folded, and as `check_end` does.

    >>> cx.lookups.layers.unembedding(model).shape
    torch.Size([256, 8192])
    """
    check_end(model)
    some = torch.linspace(-1, 1, model.cfg.d_model).to(model.W_U.device)
    found = centered(model, model.ln_final(some[None, None])[0, 0])
    if not torch.allclose(found, centered(model, some) / norm_scale(model, some), atol=1e-4):
        raise ValueError(
            "the last LayerNorm's gain is not folded into W_U: congruence would be wrong for this "
            "kind of model"
        )
    return model.W_U.detach()


def logits(model: Any, stream: Float[Tensor, "text d_model"]) -> Float[Tensor, "text vocab"]:
    """Return the logits of residual streams after the last layer, scaled and capped as the model
    does. Errors as in `check_end`.

    >>> cx.lookups.layers.logits(model, torch.zeros(2, model.cfg.d_model)).shape
    torch.Size([2, 8192])
    """
    check_end(model)
    check_kind(stream, "a tensor", None, model.cfg.d_model)
    found = model.unembed(model.ln_final(stream[:, None].to(model.W_U.device)))[:, 0].cpu()
    found = found * logit_scale(model)
    cap = getattr(model.original_model.config, "final_logit_softcapping", None)  # Gemma
    return cap * (found / cap).tanh() if cap else found
