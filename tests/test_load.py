"""What `cx.load` refuses: names, layers, devices, and kinds of models that it would get wrong."""

import numpy as np
import pytest
import torch
import transformers
from kinds import SIZES, drawn

import ctxlib as cx

NAMES = {"gtp2": "did you mean .*gpt2", "mini-first": "did you mean .*mini-first-edition"}
NAMES |= {"SmolLM2-135M": "you mean HuggingFaceTB/SmolLM2-135M-Instr", "zz": "known names: mini,"}
NAMES |= dict.fromkeys(("./not", "/not/it", "~/not", "a/b/c", "x/y/", "no.gguf"), "or GGUF file")


@pytest.mark.parametrize(("name", "message"), NAMES.items())
def test_an_unknown_name_is_not_looked_for_on_the_hub(name, message):
    with pytest.raises(
        ValueError, match=f"^no model called '{name}', and no such folder .*{message}"
    ):
        cx.load(name)


@pytest.mark.parametrize("layers", [0, 4, True, "all", torch.ones(2), np.ones(2)])
@pytest.mark.parametrize("file", [0, 1])
def test_a_device_and_layers_are_some_that_there_are(llama, file, layers):
    with pytest.raises(ValueError, match=r"layers=\d: .* 1 to 3|^layers .*: give a whole number"):
        cx.load(llama()[file], layers=layers)
    with pytest.raises(ValueError, match="no device 'gpu' here; give"):
        cx.load(llama()[file], "gpu")


@pytest.mark.parametrize("kind", ["gpt2", "gpt_bigcode", "biogpt", "mixtral", "mamba"])
def test_a_model_that_would_be_computed_wrongly_is_refused(make_folder, kind):
    more = {"scale_attn_weights": kind != "gpt2", "num_local_experts": 2, "num_key_value_heads": 3}
    more |= {"multi_query": False}
    with pytest.raises(ValueError, match=r"does not scale|cannot run .*\Z|not heads and one MLP"):
        cx.load(make_folder(drawn(kind, **more)))


@pytest.mark.parametrize("family", ["ElectraModel", "T5Model", "BertLMHeadModel"])
def test_an_encoder_of_another_kind_is_refused(make_folder, family):
    made = getattr(transformers, family)
    model = made(made.config_class(**SIZES, is_decoder=family == "BertLMHeadModel"))
    with pytest.raises(
        ValueError, match=r"modernbert, with absolute or rotary|not find the blocks"
    ):
        cx.load(make_folder(model))
