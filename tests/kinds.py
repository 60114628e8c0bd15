"""Models of every kind that the package reads, at toy size and random, where transformers keeps
their parts, and what those do when it runs them.
"""

import json
from contextlib import ExitStack
from functools import cached_property, partial
from types import SimpleNamespace

import gguf
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.pytorch_utils import Conv1D

import ctxlib as cx
from ctxlib.models.loading import ENCODERS, ROTARY_ENCODERS

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
SHARED = {"num_attention_heads": 4, "num_key_value_heads": 2}  # keys and values
GROUPED = SHARED | {"rms_norm_eps": EPS}
WIDER = {"hidden_size": 32}  # where a quarter of a head turns
NEOX = {"rotary_pct": 0.5, "layer_norm_eps": EPS}
DENSE = "post_attention_layernorm mlp.dense_h_to_4h mlp.dense_4h_to_h"
GATED = "self_attn.o_proj post_attention_layernorm mlp.gate_proj mlp.down_proj"
UNGATED = "self_attn.o_proj post_attention_layernorm mlp.{} mlp.{}"
LIKE_GPT2 = "transformer.h attn.c_proj ln_2 mlp.c_fc mlp.c_proj transformer.ln_f"
PLACES = ("blocks", "out_of_heads", "norm", "into", "out_of", "last_norm")
#: Where transformers keeps its parts: the blocks; in each the way out of the heads, the
#: normalisation in front of the MLP, the way into it (its gate, where there is one) and out of it;
#: the last normalisation.
PARTS = {
    "gpt2": LIKE_GPT2,
    "gpt_bigcode": LIKE_GPT2,
    "gpt_neox": f"gpt_neox.layers attention.dense {DENSE} gpt_neox.final_layer_norm",
    "bloom": f"transformer.h self_attention.dense {DENSE} transformer.ln_f",
    "mpt": "transformer.blocks attn.out_proj norm_2 ffn.up_proj ffn.down_proj transformer.norm_f",
    "gptj": "transformer.h attn.out_proj ln_1 mlp.fc_in mlp.fc_out transformer.ln_f",
    "gpt_neo": "transformer.h attn.attention.out_proj ln_2 mlp.c_fc mlp.c_proj transformer.ln_f",
    "opt": "model.decoder.layers self_attn.out_proj final_layer_norm fc1 fc2 "
    "model.decoder.final_layer_norm",
    **dict.fromkeys(
        ("llama", "qwen2", "qwen3", "mistral", "smollm3", "granite", "stablelm", "gemma", "olmo"),
        f"model.layers {GATED} model.norm",
    ),
    "cohere2": "model.layers self_attn.o_proj input_layernorm mlp.gate_proj mlp.down_proj "
    "model.norm",
    "nemotron": f"model.layers {UNGATED.format('up_proj', 'down_proj')} model.norm",
    "starcoder2": f"model.layers {UNGATED.format('c_fc', 'c_proj')} model.norm",
    "phi": "model.layers self_attn.dense input_layernorm mlp.fc1 mlp.fc2 model.final_layernorm",
    "falcon": "transformer.h self_attention.dense input_layernorm mlp.dense_h_to_4h "
    "mlp.dense_4h_to_h transformer.ln_f",
    **dict.fromkeys(
        ("glm", "phi3"),
        "model.layers self_attn.o_proj post_attention_layernorm mlp.gate_up_proj mlp.down_proj "
        "model.norm",
    ),
    **dict.fromkeys(
        ("gemma2", "gemma3_text"),
        "model.layers self_attn.o_proj pre_feedforward_layernorm mlp.gate_proj mlp.down_proj "
        "model.norm",
    ),
    "olmo2": "model.layers self_attn.o_proj mlp mlp.gate_proj mlp.down_proj model.norm",
    "glm4": "model.layers self_attn.o_proj post_attention_layernorm mlp.gate_up_proj "
    "mlp.down_proj model.norm",
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "camembert"),
        "encoder.layer attention.output.dense attention.output.LayerNorm intermediate.dense "
        "output.dense none",
    ),
    "distilbert": "transformer.layer attention.out_lin sa_layer_norm ffn.lin1 ffn.lin2 none",
    "mpnet": "encoder.layer attention.attn.o attention.LayerNorm intermediate.dense output.dense "
    "none",
    "modernbert": "layers attn.Wo mlp_norm mlp.Wi mlp.Wo final_norm",
}
#: The normalisation behind the heads, where there is one.
BEHIND = {
    **dict.fromkeys(("gemma2", "gemma3_text", "olmo2"), "post_attention_layernorm"),
    "glm4": "post_self_attn_layernorm",
}


def family(architecture):
    """The class that transformers runs it by."""
    return AutoModel if architecture in (*ENCODERS, *ROTARY_ENCODERS) else AutoModelForCausalLM


def drawn(architecture, **options):
    """A model of an architecture, not yet random in every parameter."""
    config = AutoConfig.for_model(architecture, **SIZES | options)
    return family(architecture).from_config(config, dtype=torch.float32)


def kind(architecture, **options):
    places = dict(zip(PLACES, PARTS[architecture].split(), strict=True))
    places |= {"behind": BEHIND[architecture]} if architecture in BEHIND else {}
    return SimpleNamespace(make=partial(drawn, architecture, **options), **places)


SCALED = {  # as Llama 3.1 has it
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
MULTIPLIERS = {
    "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.3,
    "logits_scaling": 8.0,
}  # fmt: skip
WINDOWS = {"attention_types": [[["global", "local", "local"], 1]], "window_size": 8}
PADDED = {"layer_norm_eps": EPS, "pad_token_id": 4, "max_position_embeddings": 37}
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
    "Qwen3": kind("qwen3", **GROUPED, head_dim=6),
    "Phi": kind("phi"),
}
#: What differs from these in one place only, and is held against transformers in that.
VARIANTS = {
    "BERT": kind("bert", layer_norm_eps=EPS),
    "RoBERTa": kind("roberta", **PADDED),
    "XLM-RoBERTa": kind("xlm-roberta", **PADDED),
    "CamemBERT": kind("camembert", **PADDED),
    "DistilBERT": kind("distilbert", hidden_dim=40),
    "MPNet": kind("mpnet", max_position_embeddings=34, layer_norm_eps=EPS),
    "ModernBERT": kind("modernbert", norm_eps=EPS, pad_token_id=0),
    "GPT-2, scores by layer": kind("gpt2", scale_attn_by_inverse_layer_idx=True),
    "GPT-2, one head": kind("gpt2", num_attention_heads=1, n_inner=5),
    "BigCode": kind("gpt_bigcode"),  # one head's keys and values for all
    "Llama, scaled": kind("llama", **GROUPED, rope_parameters=SCALED),
    "Mistral": kind("mistral", **GROUPED, sliding_window=8),
    "SmolLM3": kind("smollm3", **GROUPED, pad_token_id=0),
    "GLM": kind("glm", **GROUPED, head_dim=8, pad_token_id=0),
    "Phi-3": kind("phi3", **GROUPED, pad_token_id=0),
    "Gemma 2": kind("gemma2", **GROUPED, head_dim=8, sliding_window=8, attn_logit_softcapping=2.0),
    "Gemma 3": kind("gemma3_text", **GROUPED, head_dim=8, sliding_window=8, pad_token_id=0),
    "OLMo 2": kind("olmo2", **GROUPED, pad_token_id=0),
    "GLM 4": kind("glm4", **GROUPED, head_dim=8, pad_token_id=0),
    "Granite": kind("granite", **GROUPED, **MULTIPLIERS),
    "Llama with biases": kind("llama", **GROUPED, mlp_bias=True, attention_bias=True),
    "Falcon": kind("falcon", ffn_hidden_size=40, activation="silu"),
    "StableLM": kind("stablelm", **SHARED | WIDER, layer_norm_eps=EPS, pad_token_id=0),
    "StarCoder 2": kind("starcoder2", **SHARED, norm_epsilon=EPS),
    "Nemotron": kind("nemotron", **SHARED | WIDER, norm_eps=EPS, pad_token_id=0),
    "Cohere 2": kind("cohere2", **SHARED, layer_norm_eps=EPS, pad_token_id=0),
    "Gemma": kind("gemma", **GROUPED, head_dim=6),
    "OLMo": kind("olmo", **SHARED),
}
PARALLEL = {"NeoX, parallel", "GPT-J", "Phi", "Falcon", "Cohere 2"}
RMS = {"Llama", "Qwen2", "Qwen3", "Llama with biases", "Llama, scaled", "Mistral", "SmolLM3"}
RMS |= {"Granite", "GLM", "GLM 4", "Phi-3", "Gemma", "Gemma 2", "Gemma 3", "OLMo 2"}


def matrix(module):
    """The weights, from what comes in to what goes out."""
    return module.weight if isinstance(module, Conv1D) else module.weight.T


class Case:
    """A model of a kind, from its folder."""

    def __init__(self, kind, folder):
        self.kind, self.folder = kind, folder
        self.places = (KINDS | VARIANTS).get(kind)

    @cached_property
    def model(self):
        """As cx.load gives it."""
        return cx.load(self.folder)

    @cached_property
    def plain(self):
        """As transformers runs it, unfolded and in float64."""
        architecture = AutoConfig.from_pretrained(self.folder).model_type
        plain = family(architecture).from_pretrained(
            self.folder, dtype=torch.float64, attn_implementation="eager"
        )
        return plain.eval().requires_grad_(False)

    @property
    def blocks(self):
        return self.plain.get_submodule(self.places.blocks)

    def parts(self, layer):
        """The parts of a block by their names, and the whole of it."""
        block, names = self.blocks[layer], [*PLACES[1:-1], "behind"]
        names = [name for name in names if hasattr(self.places, name)]
        parts = {name: block.get_submodule(getattr(self.places, name)) for name in names}
        return SimpleNamespace(block=block, **parts)

    def centered(self, v):
        """Without the mean, which only RMSNorm sees."""
        return v if self.kind in RMS else v - v.mean(-1, keepdim=True)

    def run(self, x, changes=()):
        """What goes in and out of every part at every token of a stack of texts, by part and layer,
        and what comes out of the model. `changes` are (part, function) pairs: a function changes in
        its place what goes in.
        """
        held = {}

        def record(module, given, out, key):
            out = out if isinstance(out, torch.Tensor) else out[0]
            held[key] = [v.reshape(*x.shape, -1) for v in (given[0], out)]  # OPT's MLP has no batch

        def changed(module, given, change):
            change(own := given[0].clone())
            return (own,)

        with ExitStack() as hooks:
            for part, change in changes:
                hook = partial(changed, change=change)
                hooks.enter_context(part.register_forward_pre_hook(hook))
            for layer in range(len(self.blocks)):
                for name, part in vars(self.parts(layer)).items():
                    hook = partial(record, key=(name, layer))
                    hooks.enter_context(part.register_forward_hook(hook))
            return held, self.plain(x, output_attentions=True)


# ---------------------------------------------------------------- GGUF files

WIDE = {"hidden_size": 32, "intermediate_size": 64}  # as wide as a block
LLAMA = partial(drawn, "llama", **GROUPED | WIDE, tie_word_embeddings=False)


def as_gguf(folder, file, more=lambda writer: None):
    """What llama.cpp makes of a Llama's folder; the MLP in blocks of 8 bits. `more` adds to it."""
    config = AutoConfig.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = json.loads((folder / "tokenizer.json").read_text())["model"]
    writer = gguf.GGUFWriter(file, "llama")
    facts = config.to_dict() | config.rope_parameters
    for key, name in GGUF_CONFIG_MAPPING["llama"].items():
        if key != "vocab_size":  # which the file of a model may lack
            kind = gguf.GGUFValueType.get_type(facts[name])
            writer.add_key_value(f"llama.{key}", facts[name], kind)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    writer.add_token_types([3] + [1] * (len(tokenizer) - 1))
    writer.add_token_merges([" ".join(merge) for merge in words["merges"]])
    for mark in ("bos", "eos", "unk"):
        getattr(writer, f"add_{mark}_token_id")(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        part = name.split(".")[-2]
        if part in heads:  # rotary pairs side by side
            tensor = tensor.view(heads[part], 2, -1, tensor.shape[1]).transpose(1, 2).flatten(0, 2)
        data, ours = tensor.numpy(), names.get_name(name, try_suffixes=(".weight",))
        if ".mlp." in name:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(ours, gguf.quants.quantize(data, kind), raw_dtype=kind)
            tensors[name] = torch.tensor(
                gguf.quants.dequantize(writer.tensors[0][ours].tensor, kind)
            )
        else:
            writer.add_tensor(ours, data)
    more(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    # as the blocks round them
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return file
