"""First layers of `mini`, its twins and real models on the texts of chapter 8, for the scripts that
keep what pages show of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evidence import rounded
from files import replace
from jaxtyping import Float, Int
from torch import Tensor
from tqdm.auto import tqdm

import ctxbook as cb
import ctxlib as cx
from ctxlib.studies import Study
from ctxlib.texts.text import Reader, Text

SEEN, TEXTS, STRONGEST = 250, 400, 100  # as in chapter 8
AT_ONCE = 32  # texts: bounds the memory, changes no result
REAL = ("qwen", "smollm2", "minilm")


def texts_for(reader: Reader, count: int = TEXTS) -> tuple[list[Text], list[Text]]:
    """Return the first texts of the collection, which tell a split how common tokens are, and the
    texts of documents that are not among them, in the model's own tokens."""
    stream = cx.texts.held_out_stream(reader)
    common = list(islice(stream, SEEN))
    seen = {text.document for text in common}
    return common, list(islice((t for t in stream if t.document not in seen), count))


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """A first layer on texts: its study, and for every text what each head gathers, the scale of
    LayerNorm 2, and the neurons' activations by name.
    """

    name: str
    study: Study
    texts: list[Text]
    x: Int[Tensor, "text source"]
    z: Float[Tensor, "text head d_head"]
    scale: Float[Tensor, " text"]
    mlp: dict[str, Float[Tensor, "text neuron"]]

    @property
    def heads(self) -> list[int]:
        return list(self.study.heads)

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the texts of half A and of half B."""
        A, B = map(np.flatnonzero, cb.half_masks(self.texts))
        return A, B

    @cached_property
    def domains(self) -> np.ndarray:
        return np.array([text.domain for text in self.texts])

    @cached_property
    def strongest(self) -> list[int]:
        """The neurons that single tokens move farthest, by weights alone."""
        found = cx.find_neurons(self.study.circuit, threshold=-math.inf)
        return found.index[:STRONGEST].tolist()

    @cached_property
    def truth(self) -> Float[Tensor, "text neuron"]:
        """What the stable heads add to each neuron's pre-activation."""
        readout = self.study.fixed.readout
        z, W_O = self.z[:, self.heads].flatten(1), readout.W_O[self.heads].flatten(0, 1)
        return z @ W_O @ readout.W_in / self.scale[:, None]


def first_layer(
    name: str, count: int = TEXTS, change: Callable[[Any], None] = lambda model: None
) -> FirstLayer:
    """Run a model's first layer on so many texts, once `change` has been made to its weights. Half
    A chooses the stable heads."""
    model = cx.load(name, layers=1)
    change(model)
    encoder = isinstance(model, cx.models.Encoder)
    reader = Reader.of(model, min(512, model.cfg.n_ctx))
    common, texts = texts_for(reader, count)
    learned = cx.weights.has_positions(model)
    fixed = cx.fix_query(model, None if learned else common, 128 if encoder else 256)
    study = cx.study(fixed, cb.halves(texts)[0], or_all=True)
    x, parts = fixed.prepare(texts), []
    for few in tqdm(x.split(AT_ONCE), f"{name}: first layer"):
        z = fixed.require_exact().z(few)
        parts.append((z, fixed.scale(few, fixed.readout.outputs(z))[:, 0], fixed.mlp(few)))
    of_z, of_scale, of_mlp = zip(*parts, strict=True)
    mlp = {key: torch.cat([part[key] for part in of_mlp]) for key in of_mlp[0]}
    return FirstLayer(name, study, texts, x, torch.cat(of_z), torch.cat(of_scale), mlp)


# ---------------------------------------------------------------- what is kept


def keep(
    file: Path, names: Sequence[str], measure: Callable[[str], dict[str, Any]], version: str
) -> dict[str, Any]:
    """Return a kept file's facts, measured for those names that it lacks and written after each, so
    that an interruption loses one at most. Facts of another `version` are measured again.
    """
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if kept.get("version") != version:
        kept = {"version": version}
    for name in tqdm([name for name in names if name not in kept], file.stem):
        kept[name] = rounded(measure(name))
        replace(file, json.dumps(kept, indent=1) + "\n")
    return kept
