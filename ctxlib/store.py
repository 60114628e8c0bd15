"""A stored layer: the decomposition of a first layer in one safetensors file, without its model.

It holds kernels and content for the fixed query, planes of interaction if it has any, the values of
the key/value heads, the matrices that heads write and neurons read with, the tokenizer, and the sum
of the file that all came from. Values have 8 bits a number, with a scale for each row and column;
weights have 16, or are the blocks of the GGUF file that they came from. A saved circuit holds
everything in full precision. Files whose name ends in .zst are compressed with zstandard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
import zstandard
from gguf import GGMLQuantizationType, dequantize
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from safetensors.torch import load, save
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from ctxlib.checks import as_path
from ctxlib.decompose import Decomposition, Readout
from ctxlib.files import DATA, repository_file
from ctxlib.models.places import real_models
from ctxlib.planes import PlanesDecomposition
from ctxlib.query import FixedQuery
from ctxlib.texts.text import Reader

FORMAT = "ctxlib stored layer, version 1"
LEVELS = 63  # on either side of zero: about 6.5 bits once compressed; the loss: book/costs.md
PLANES = ("by_source", "by_token")  # the planes of interaction, where there are any
COMPRESSION = 19  # zstandard's level

# ---------------------------------------------------------------- a decomposition without its model


@dataclass(frozen=True, eq=False, repr=False)
class StoredDecomposition(Decomposition):
    """The decomposition of a stored layer, of whatever kind it was. `tensors` and `facts` are those
    of the file. Make a fixed query with it by `cx.fix_query(file)`.

    >>> stored = cx.fix_query(circuit.save("mini.safetensors.zst"))
    >>> stored.n, stored.exact is None
    (256, True)
    >>> cx.stable_heads(stored, passages) == cx.stable_heads(fixed, passages)
    True
    """

    n: int
    token: int
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    @property
    def reads(self) -> int:
        """Return the layer of the MLP. A file that does not say was made of a model whose attention
        and MLP follow one another.
        """
        return self.facts.get("layer", 0)

    @cached_property
    def kernels(self) -> Float[Tensor, "head source"]:
        return self.tensors["kernels"]

    @cached_property
    def log_content(self) -> Float[Tensor, "head vocab"]:
        return in_float32(self.tensors["content"])

    @cached_property
    def untrained(self) -> Bool[Tensor, " vocab"]:
        return self.tensors["untrained"].bool()

    @cached_property
    def readout(self) -> Readout:
        facts, rest = self.facts, self.tensors["rest"]
        W_in, W_O = (stored_matrix(self.tensors, name) for name in ("W_in", "W_O"))
        inputs = {facts["reads"]: (W_in, self.tensors["b_in"])}
        by_head = (len(self.kernels), -1)
        return Readout(
            W_O.unflatten(0, by_head), inputs, facts["eps"], facts["act_fn"], rest,
            norms=facts.get("norms", True), gain=self.tensors.get("gain"),
        )  # fmt: skip

    @cached_property
    def moved(self) -> Float[Tensor, "head source d_head"]:
        return self.tensors["moved"]

    @cached_property
    def value_table(self) -> tuple[Float[Tensor, "vocab value d_head"], Int[Tensor, " head"]]:
        by_token = dequantized(self.tensors).unflatten(1, (-1, self.moved.shape[-1]))
        return by_token, self.tensors["value_of"]

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        by_token, value_of = self.value_table
        return by_token[:, value_of[list(heads)]]


# ---------------------------------------------------------------- to a file and back


def stored_layer(name: str) -> Path:
    """Return the file of a stored layer of the repository, fetched if need be.

    Errors as in `repository_file`.

    >>> from ctxlib.store import stored_layer
    >>> stored_layer("smollm2").name  # of a clone
    'smollm2.safetensors.zst'
    """
    try:
        return repository_file(f"data/stored/{name}.safetensors.zst", stored_layers()[name])
    except OSError as error:
        hub = real_models()[name]["hub"]
        raise OSError(
            f"{error}; or take the hub's model: cx.fix_query(cx.load({hub!r}))"
        ) from error


@cache
def stored_layers() -> dict[str, str]:
    """Return the SHA-256 of every stored layer of the repository, by name."""
    return json.loads((DATA / "stored.json").read_text())


def load_layer(file: str | os.PathLike) -> FixedQuery:
    """Return the fixed query of a stored layer: a file, or the name of one that the repository has.

    Raises OSError for a file that is not there, ValueError for one that is something else.

    >>> from ctxlib import store
    >>> stored = store.load_layer(circuit.save("mini.safetensors"))
    >>> torch.equal(stored.decomposition.kernels, fixed.decomposition.kernels)
    True
    """
    path = as_path(file)
    if not path.exists():
        if file not in stored_layers():
            raise FileNotFoundError(
                f"no file {str(file)!r}: a stored layer is a file, or one of "
                f"{', '.join(stored_layers())}; to load a model by its name, use cx.load"
            )
        path = stored_layer(str(file))
    return unpack(*read(path))


def pack(fixed: FixedQuery) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what a file holds of a fixed query, in full precision: tensors, and facts. Of a gated
    MLP it is the gate that is kept.

    Raises ValueError for a tokenizer that is not a fast one.
    """
    approx, readout, tokenizer = fixed.decomposition, fixed.readout, fixed.tokenizer
    if isinstance(approx, PlanesDecomposition):
        tensors, facts = pack(replace(fixed, decomposition=approx.base))
        return tensors | {name: getattr(approx, name) for name in PLANES}, facts
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError("a stored layer holds its tokenizer, and this one cannot be saved")
    words = bytearray(tokenizer.backend_tokenizer.to_str().encode())
    first, value_of = shared_values(fixed)
    tensors = {
        "of_token": approx.values(first).flatten(1),
        "W_O": readout.W_O_before.flatten(0, 1),
        "W_in": readout.W_in,
        "kernels": approx.kernels,
        "content": approx.log_content,
        "value_of": value_of,
        "moved": approx.moved,
        "untrained": approx.untrained.to(torch.uint8),
        "rest": readout.resid_without_heads(torch.tensor(fixed.token)),
        "b_in": readout.b_in,
        "tokenizer": torch.frombuffer(words, dtype=torch.uint8),
    }
    if readout.gain is not None:
        tensors["gain"] = readout.gain
    names = ("bos_token", "eos_token", "cls_token", "sep_token")
    marks = {name: getattr(tokenizer, name) for name in names if getattr(tokenizer, name)}
    facts = {"n": fixed.n, "token": fixed.token, "n_ctx": fixed.n_ctx, "marks": marks}
    facts |= {"layer": fixed.mlp_layer, "norms": readout.norms}
    facts |= {"eps": readout.eps, "reads": next(iter(readout.inputs)), "act_fn": readout.act_fn}
    return tensors, facts


def unpack(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> FixedQuery:
    """Return the fixed query that `pack` took apart."""
    spec = Tokenizer.from_str(bytes(tensors["tokenizer"].tolist()).decode())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=spec, **facts["marks"])
    base = StoredDecomposition(facts["n"], facts["token"], tensors, facts)
    planes = [tensors[name] for name in PLANES if name in tensors]
    approx = PlanesDecomposition(base, *planes) if planes else base
    return FixedQuery(approx, None, Reader(tokenizer, facts["n_ctx"], approx.log_content.shape[1]))


def write(file: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
    """Write tensors and facts, and return the path. The file is written next to the old one and
    then takes its place, so that an interruption leaves one of them whole. Raises ValueError for a
    folder.
    """
    if file.is_dir():
        raise ValueError(f"{file} is a folder: name a file")
    arrays = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    data = save(arrays, {"format": FORMAT, "facts": json.dumps(facts)})
    if file.suffix == ".zst":
        data = zstandard.ZstdCompressor(level=COMPRESSION, threads=-1).compress(data)
    beside = file.with_name(file.name + ".part")
    beside.write_bytes(data)
    return beside.replace(file)


def read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the facts of a file that `write` made; raise ValueError for another or
    for one of another version.
    """
    data = file.read_bytes()
    try:
        if file.suffix == ".zst":
            data = zstandard.ZstdDecompressor().decompress(data)
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        facts = json.loads(header["facts"])
    except (SafetensorError, zstandard.ZstdError, ValueError, KeyError) as error:
        raise ValueError(f"{file} is no stored layer, or a damaged one: fetch it again") from error
    if header.get("format") != FORMAT:
        raise ValueError(f"{file} is of another version: this reads {FORMAT!r}")
    return tensors, facts


# ---------------------------------------------------------------- the tables


def quantized(table: Float[Tensor, "vocab value"], levels: int = LEVELS) -> dict[str, Tensor]:
    """Return a table as whole numbers: each column's mean is subtracted, and what is left is
    counted in the column's standard deviation times a step for each row. A number loses at most
    half a step.
    """
    spread, mean = torch.std_mean(table, dim=0, correction=min(1, len(table) - 1))
    tiny = torch.finfo(spread.dtype).tiny
    left = (table - mean).div_(spread.clamp_min_(tiny))
    step = left.abs().amax(1).clamp_min_(tiny) / levels
    of_token = left.div_(step[:, None]).round_().to(torch.int8)
    return {"of_token": of_token.T, "step": step, "spread": spread, "mean": mean}


def dequantized(tensors: Mapping[str, Tensor]) -> Float[Tensor, "vocab value"]:
    """Return the values of a file, from their levels if they are stored so."""
    if "step" not in tensors:
        return tensors["of_token"]
    rows = tensors["of_token"].T.float().mul_(tensors["step"][:, None])
    rows.mul_(tensors["spread"]).add_(tensors["mean"])
    rows[tensors["usual"]] = tensors["of_usual"].float()
    return rows


def in_float32(stored: Tensor) -> Tensor:
    """Return a half-precision tensor in single precision, and any other as it is."""
    return stored.float() if stored.dtype == torch.float16 else stored


def stored_matrix(tensors: Mapping[str, Tensor], name: str) -> Float[Tensor, "row column"]:
    """Return a matrix of weights, from 16 bits or from the blocks of a GGUF file."""
    if name in tensors:
        return in_float32(tensors[name])
    kind = GGMLQuantizationType(int(tensors[f"{name}_kind"]))
    W = torch.from_numpy(dequantize(tensors[f"{name}_blocks"].numpy(), kind))
    return W.T * tensors[f"{name}_gain"][:, None]


def shared_values(fixed: FixedQuery) -> tuple[list[int], Int[Tensor, " head"]]:
    """Return the first head with each of the different values, and for each head which it has."""
    approx = fixed.decomposition
    if isinstance(approx, StoredDecomposition):
        values = approx.tensors["value_of"][:, None]
    else:
        values = fixed.require_exact().value_weights()[0].flatten(1)
    same = (values[:, None] == values).all(-1)  # head head
    first, value_of = same.int().argmax(1).unique(return_inverse=True)
    return first.tolist(), value_of
