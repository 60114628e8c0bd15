"""Models of every kind that the package reads, at toy size and random, and where transformers keeps
their parts.
"""

from functools import cached_property, partial
from types import SimpleNamespace

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import ctxlib as cx

EPS = 0.3  # where a config has it by a name of its own: large enough to be seen
SIZES = {
    **dict.fromkeys(("bos_token_id", "eos_token_id"), 0),
    "vocab_size": 300,
    "max_position_embeddings": 32,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
}
GROUPED = {"num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": EPS}
NEOX = {"rotary_pct": 0.5, "layer_norm_eps": EPS}
DENSE = "post_attention_layernorm mlp.dense_h_to_4h mlp.dense_4h_to_h"
GATED = "self_attn.o_proj post_attention_layernorm mlp.gate_proj mlp.down_proj"
PLACES = ("blocks", "out_of_heads", "norm", "into", "out_of", "last_norm")
#: Where transformers keeps its parts: the blocks; in each the way out of the heads, the
#: normalisation in front of the MLP, the way into it (its gate, where there is one) and out of it;
#: the last normalisation.
PARTS = {
    "gpt2": "transformer.h attn.c_proj ln_2 mlp.c_fc mlp.c_proj transformer.ln_f",
    "gpt_neox": f"gpt_neox.layers attention.dense {DENSE} gpt_neox.final_layer_norm",
    "bloom": f"transformer.h self_attention.dense {DENSE} transformer.ln_f",
    "mpt": "transformer.blocks attn.out_proj norm_2 ffn.up_proj ffn.down_proj transformer.norm_f",
    "gptj": "transformer.h attn.out_proj ln_1 mlp.fc_in mlp.fc_out transformer.ln_f",
    "gpt_neo": "transformer.h attn.attention.out_proj ln_2 mlp.c_fc mlp.c_proj transformer.ln_f",
    "opt": "model.decoder.layers self_attn.out_proj final_layer_norm fc1 fc2 "
    "model.decoder.final_layer_norm",
    **dict.fromkeys(("llama", "qwen2"), f"model.layers {GATED} model.norm"),
    "phi": "model.layers self_attn.dense input_layernorm mlp.fc1 mlp.fc2 model.final_layernorm",
}


def drawn(architecture, **options):
    """A model of an architecture, not yet random in every parameter."""
    return AutoModelForCausalLM.from_config(
        AutoConfig.for_model(architecture, **SIZES | options), dtype=torch.float32
    )


def kind(architecture, **options):
    places = dict(zip(PLACES, PARTS[architecture].split(), strict=True))
    return SimpleNamespace(make=partial(drawn, architecture, **options), **places)


WINDOWS = {"attention_types": [[["global", "local", "local"], 1]], "window_size": 8}
OPT = {"ffn_dim": 40, "word_embed_proj_dim": 24, "pad_token_id": 1}
KINDS = {
    "GPT-2": kind("gpt2", n_inner=40, layer_norm_epsilon=EPS),
    "NeoX, parallel": kind("gpt_neox", **NEOX),
    "NeoX, sequential": kind("gpt_neox", **NEOX, use_parallel_residual=False),
    "Bloom": kind("bloom"),
    "MPT": kind("mpt", max_seq_len=32),
    "GPT-J": kind("gptj", rotary_dim=4),
    "GPT-Neo": kind("gpt_neo", **WINDOWS),
    "OPT": kind("opt", **OPT),
    "Llama": kind("llama", **GROUPED),
    "Qwen2": kind("qwen2", **GROUPED),
    "Phi": kind("phi"),
}
PARALLEL = {"NeoX, parallel", "GPT-J", "Phi"}
RMS = {"Llama", "Qwen2"}


class Case:
    """A model of a kind, from its folder."""

    def __init__(self, kind, folder):
        self.kind, self.folder = kind, folder

    @cached_property
    def model(self):
        """As cx.load gives it."""
        return cx.load(self.folder)

    @cached_property
    def plain(self):
        """As transformers runs it, unfolded and in float64."""
        plain = AutoModelForCausalLM.from_pretrained(
            self.folder, dtype=torch.float64, attn_implementation="eager"
        )
        return plain.eval().requires_grad_(False)
