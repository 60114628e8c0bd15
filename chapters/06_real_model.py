# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# One minute with a real model
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To put GPT-2 itself into the table's last row, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
MODELS = None  # real models to run for what is kept: make evidence CHAPTER=06_real_model

# Fixed before these models were run for this page, and not changed afterwards:
SEEN = 250  # texts of the collection that told the stored layers how common tokens are
TEXTS = 400  # texts of the documents after these: half A chooses heads and labels, half B judges
MANY = 100  # neurons that are judged: those that single tokens can move farthest
FEW = 20  # the first of them, shown whole
PAGES = 20  # other pages to calibrate on: texts of half A, drawn with SEED
THIRD = 3  # what each approximation costs is of every third text of half B
DRAWS = 1000  # sets of FEW other neurons, or of random mixtures of all
SEED = 0

# %% tags=["hide-input"]
import json
import math
import time
import unicodedata
from collections import Counter

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
REAL = {"qwen": "Qwen", "smollm2": "SmolLM2", "minilm": "MiniLM"}
KEPT = cx.models.DATA / "evidence" / "real.json"


def texts_for(reader):
    """The texts, in a model's own tokens: of documents that its stored layer has not seen."""
    every = list(cx.texts.held_out_stream(reader, None, None))
    seen = {text.document for text in every[:SEEN]}
    return [text for text in every if text.document not in seen][:TEXTS]


def studied(at):
    """The study of a first layer, and all the texts: heads and their spread are half A's."""
    texts = texts_for(cx.texts.Reader(at.tokenizer, at.length, at.d_vocab))
    return cx.study(at, [text for text in texts if text.half == "A"], or_all=True), texts


# %% tags=["hide-input"]
def truth_of(name):
    """What is kept of a real model, as tensors and as facts, from the model itself."""
    passes, began = [], time.perf_counter()
    model = cx.load(name, layers=1)
    encoder = isinstance(model, cx.models.Encoder)
    first = model.original_model.encoder.layer[0] if encoder else model.blocks[0].attn
    first.register_forward_pre_hook(lambda *_: passes.append(1))
    loaded = time.perf_counter()
    reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
    common = list(cx.texts.held_out_stream(reader, SEEN, None))
    at = cx.destination(model, common, 128 if encoder else 256)
    study, texts = studied(at)
    circuit, split = study.circuit, time.perf_counter()
    top = cx.find_neurons(circuit, threshold=-math.inf)["top"]
    found, x = time.perf_counter(), at.placed(texts)
    parts = [
        (at.layer.inside(few), at.scale(few, at.outputs(few))[:, 0],
         cx.total_variation(at.layer.rows(few), at.split.rows(few)))
        for few in x.split(32)
    ]  # fmt: skip
    inside, scale, tv = (torch.cat(part) for part in zip(*parts, strict=True))
    on_B = [text for text in texts if text.half == "B"]
    strongest = top.index[:MANY].tolist()
    budget = cx.evaluation.error_budget(circuit, on_B[::THIRD], strongest)[["r", "fvu"]]
    every = {
        how: cx.evaluate(one, on_B)[["r", "fvu"]].median().round(4).to_dict()
        for how, one in {"one page": circuit, "own": circuit.self_normalised()}.items()
    }
    real = cx.models.real_models()[name]
    source = next(f for f in real["files"] if f.endswith((".gguf", ".safetensors")))
    tensors = {
        "inside": inside[:, study.heads].half().contiguous(),  # text head d_head
        "scale": scale,
        "tv": tv.median(0).values,
        "top": top.sort_index().to_numpy("float32", copy=True),
    }
    facts = {
        "source": source,
        "sha256": real["files"][source],
        "n": at.n,
        "heads": list(study.heads),
        "calibrating": study.calibrating.name,
        "all neurons": every,
        "budget": [[made, item, *row] for (made, item), row in budget.round(4).T.items()],
        "seconds": {"load": loaded - began, "split": split - loaded, "find": found - split},
        "passes": len(passes),
        "bytes": (cx.models.kept_folder(name) / source).stat().st_size,
    }
    facts["seconds"] = {what: round(took, 1) for what, took in facts["seconds"].items()}
    return {k: torch.as_tensor(v) for k, v in tensors.items()}, facts, texts


if MODELS:
    held, told, names = {}, {}, None
    for name in MODELS:
        tensors, told[name], texts = truth_of(name)
        held |= {f"{name}.{key}": tensor for key, tensor in tensors.items()}
        assert names in (None, [text.name for text in texts]), "the same texts in every model"
        names = [text.name for text in texts]
        print(name, told[name])
    save_file(held, KEPT.with_suffix(".safetensors"))
    KEPT.write_text(json.dumps({"texts": names, "models": told}, indent=1) + "\n")
kept, of_model = json.loads(KEPT.read_text()), load_file(KEPT.with_suffix(".safetensors"))
