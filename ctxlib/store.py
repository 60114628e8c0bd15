"""A stored layer: what of a first layer the method needs, in one file, without its model; and a
circuit, kept in the same way.

Kernels at the destination, content, the values of the key/value heads, what heads write with and
neurons read with, the tokenizer, and the sum of the file that all came from. A stored layer keeps
values in 8 bits a number, with a scale a row and a column, and weights in 16, or as the blocks that
a GGUF file has them in; a circuit keeps all as it is. Both are safetensors files, under zstandard
where their name ends in .zst.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import zstandard
from einops import einsum
from gguf import GGMLQuantizationType, GGUFReader, dequantize
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from safetensors.torch import load, save
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from ctxlib.models import stored_layer, stored_layers
from ctxlib.query import FixedQuery
from ctxlib.decompose import Entries, LayerNormDecomposition, Readout, Decomposition, Texts, weighted_sum
from ctxlib.texts.text import AnyText, Reader

FORMAT = "ctxlib stored layer, version 1"
USUAL = 1024  # tokens: most of what any text consists of
LEVELS = 63  # on either side of zero: what packs into 6.5 bits; what they cost: book/costs.md
IN_GGUF = {
    "W_O": ("blk.0.attn_output.weight", ""),
    "W_in": ("blk.0.ffn_gate.weight", "blk.0.ffn_norm.weight"),
}
SQUEEZED = 19  # zstandard's level

# ---------------------------------------------------------------- a split without its model


@dataclass(frozen=True, eq=False)
class StoredDecomposition(Decomposition):
    """The split of a stored layer, whatever split it was stored of. `tensors` and `facts` are those
    of the file. Make a destination of it with `cx.fix_query(file)`.

    >>> from ctxlib import store
    >>> kept = cx.fix_query(stored.keep(fixed, "mini.safetensors.zst"))
    >>> kept.n, kept.exact is None, cx.stable_heads(kept, passages) == cx.stable_heads(fixed, passages)
    (256, True, True)
    """

    n: int
    token: int
    tokenizer: Any
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    @cached_property
    def kernels(self) -> Float[Tensor, "head source"]:
        return self.tensors["kernels"]

    @cached_property
    def content(self) -> Float[Tensor, "head vocab"]:
        return full(self.tensors["content"])

    @cached_property
    def untrained(self) -> Bool[Tensor, " vocab"]:
        return self.tensors["untrained"].bool()

    @cached_property
    def readout(self) -> Readout:
        facts, rest = self.facts, self.tensors["rest"]
        W_in, W_O = (weights(self.tensors, name) for name in ("W_in", "W_O"))
        inputs = {facts["reads"]: (W_in, self.tensors["b_in"])}
        W_O = W_O.unflatten(0, (len(self.kernels), -1))
        return Readout(W_O, inputs, facts["eps"], facts["act_fn"], rest)

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        shared = self.tensors["value_of"][list(heads)]
        return self.of_token[:, shared]

    def inside(self, x: Texts, rows: Entries) -> Float[Tensor, "*text head d_head"]:
        x, shared = self.seen(x), self.tensors["value_of"][:, None]
        entry = x[..., None, :] * self.of_token.shape[1] + shared
        z = weighted_sum(self.of_token.flatten(0, 1), entry.expand(rows.shape), rows)
        moved = self.tensors["moved"]
        return z + einsum(rows, moved, "... head source, head source d_head -> ... head d_head")

    @cached_property
    def of_token(self) -> Float[Tensor, "vocab value d_head"]:
        """The values, b_V included; heads may share them, and `value_of` says which has which."""
        d_head = self.tensors["moved"].shape[-1]
        return values(self.tensors).unflatten(1, (-1, d_head))


# ---------------------------------------------------------------- to a file and back


def keep(
    fixed: FixedQuery,
    file: str | Path,
    texts: Iterable[AnyText] = (),
    gguf: Path | None = None,
    **facts: str,
) -> Path:
    """Write a stored layer: what a destination approximates with, its values in 8 bits a number,
    those of the most usual tokens of `texts` in 16. `facts` say where it comes from: `model`,
    `source`, `sha256`, `licence`; `gguf` is the file that the model came from, where it is one, and
    lends its own blocks. Gives the file.

    Errors as in `parts`, and for a GGUF file of another model.

    >>> from ctxlib import store
    >>> stored.keep(fixed, "mini.safetensors.zst", passages, model="mini").stat().st_size < 3_500_000
    True
    """
    tensors, of_layer = parts(fixed)
    of_token, W_O, W_in = (tensors.pop(name) for name in ("of_token", "W_O", "W_in"))
    counts = torch.zeros(fixed.d_vocab, dtype=torch.int64)
    for x in fixed.read(texts, "counting tokens"):
        counts += x.flatten().bincount(minlength=fixed.d_vocab)
    usual = counts.topk(min(USUAL, int((counts > 0).sum()))).indices
    tensors |= {"usual": usual, "of_usual": of_token[usual].half()}
    tensors |= in_levels(of_token) | {"content": tensors["content"].half()}
    if gguf is None:
        tensors |= {"W_O": W_O.half(), "W_in": W_in.half()}
    else:
        tensors |= in_blocks(gguf, "W_O", W_O) | in_blocks(gguf, "W_in", W_in)
    return write(Path(file), tensors, of_layer | facts)


def parts(fixed: FixedQuery) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a file holds of a destination, as it is: tensors, and facts. Of a gated MLP it is the
    gate that is kept. Raises ValueError for a destination whose tokenizer is none of the fast ones.
    """
    split, readout, tokenizer = fixed.decomposition, fixed.readout, fixed.tokenizer
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError("a stored layer holds its tokenizer, and this has none that can be kept")
    first, value_of = sharing(fixed)
    tensors = {
        "of_token": split.values(first).flatten(1),
        "W_O": readout.W_O.flatten(0, 1),
        "W_in": readout.W_in,
        "kernels": split.kernels,
        "content": split.log_content,
        "value_of": value_of,
        "moved": moved(fixed),
        "untrained": split.untrained.to(torch.uint8),
        "rest": readout.resid_without_heads(torch.tensor(fixed.token)),
        "b_in": readout.b_in,
        "tokenizer": as_bytes(tokenizer.backend_tokenizer.to_str()),
    }
    names = ("bos_token", "eos_token", "cls_token", "sep_token")
    marks = {name: getattr(tokenizer, name) for name in names if getattr(tokenizer, name)}
    facts = {"n": fixed.n, "token": fixed.token, "n_ctx": fixed.n_ctx, "marks": marks, "eps": readout.eps}
    return tensors, facts | {"reads": next(iter(readout.inputs)), "act_fn": readout.act_fn}


def opened(file: str | os.PathLike) -> FixedQuery:
    """The destination of a stored layer, a file or the name of one that the repository has;
    `cx.fix_query` comes here.

    Raises OSError for a file that is not there, ValueError for one that is something else.

    >>> from ctxlib import store
    >>> kept = stored.opened(stored.keep(fixed, "mini.safetensors", passages, model="mini"))
    >>> kept.decomposition.facts["model"], torch.equal(kept.decomposition.kernels, fixed.decomposition.kernels)
    ('mini', True)
    """
    place = Path(file)
    if not place.exists():
        if file not in stored_layers():
            raise FileNotFoundError(
                f"no file {str(file)!r}: a stored layer is a file, or one of "
                f"{', '.join(stored_layers())}; of other models' names cx.load gives the model"
            )
        place = stored_layer(str(file))
    return made(*read(place))


def made(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> FixedQuery:
    """The destination of what `parts` took apart."""
    spec = Tokenizer.from_str(bytes(tensors["tokenizer"].tolist()).decode())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=spec, **facts["marks"])
    split = StoredDecomposition(facts["n"], facts["token"], tokenizer, tensors, facts)
    return FixedQuery(split, None, Reader(tokenizer, facts["n_ctx"], split.log_content.shape[1]))


def write(file: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
    """Written beside the old file and then put in its place: a kill leaves a whole one. ValueError
    for a folder.
    """
    if file.is_dir():
        raise ValueError(f"{file} is a folder: name a file")
    arrays = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    data = save(arrays, {"format": FORMAT, "facts": json.dumps(facts)})
    if file.suffix == ".zst":
        data = zstandard.ZstdCompressor(level=SQUEEZED, threads=-1).compress(data)
    beside = file.with_name(file.name + ".part")
    beside.write_bytes(data)
    return beside.replace(file)


def read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts of a file that `write` wrote, or a ValueError."""
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


def in_levels(whole: Float[Tensor, "vocab value"], levels: int = LEVELS) -> dict[str, Tensor]:
    """The values as whole numbers: of what is left when the mean of each column is taken off, in
    units of the column's spread, and of a step a row. At most half a step is lost of a number.
    """
    spread, mean = torch.std_mean(whole, dim=0, correction=min(1, len(whole) - 1))
    tiny = torch.finfo(spread.dtype).tiny
    left = (whole - mean).div_(spread.clamp_min_(tiny))
    step = left.abs().amax(1).clamp_min_(tiny) / levels
    of_token = left.div_(step[:, None]).round_().to(torch.int8)
    return {"of_token": of_token.T, "step": step, "spread": spread, "mean": mean}


def values(tensors: Mapping[str, Tensor]) -> Float[Tensor, "vocab value"]:
    """The values, from their levels where they are kept in them."""
    if "step" not in tensors:
        return tensors["of_token"]
    rows = tensors["of_token"].T.float().mul_(tensors["step"][:, None])
    rows.mul_(tensors["spread"]).add_(tensors["mean"])
    rows[tensors["usual"]] = tensors["of_usual"].float()
    return rows


def full(kept: Tensor) -> Tensor:
    """In 32 bits, where it is kept in 16."""
    return kept.float() if kept.dtype == torch.float16 else kept


def in_blocks(gguf: Path, name: str, W: Float[Tensor, "here there"]) -> dict[str, Tensor]:
    """A matrix as the blocks that a GGUF file has it in, and the gain that is folded into it."""
    tensor, norm = IN_GGUF[name]
    there = {t.name: t for t in GGUFReader(gguf).tensors if t.name in (tensor, norm)}
    foreign = f"{tensor} of {gguf} is not this model's: give the file that it came from"
    if tensor not in there or (norm and norm not in there):
        raise ValueError(foreign)
    ones = torch.ones(int(there[tensor].shape[0]))
    blocks = {
        f"{name}_blocks": torch.tensor(there[tensor].data),
        f"{name}_kind": torch.tensor(there[tensor].tensor_type),
        f"{name}_gain": torch.tensor(there[norm].data).float() if norm else ones,
    }
    own = weights(blocks, name)
    if own.shape != W.shape or not torch.allclose(own, W, atol=1e-5 * float(W.abs().max())):
        raise ValueError(foreign)
    return blocks


def weights(tensors: Mapping[str, Tensor], name: str) -> Float[Tensor, "here there"]:
    """A matrix of weights, from 16 bits or from a GGUF file's blocks where it is kept in them."""
    if name in tensors:
        return full(tensors[name])
    kind = GGMLQuantizationType(int(tensors[f"{name}_kind"]))
    whole = torch.from_numpy(dequantize(tensors[f"{name}_blocks"].numpy(), kind))
    return whole.T * tensors[f"{name}_gain"][:, None]


def sharing(fixed: FixedQuery) -> tuple[list[int], Int[Tensor, " head"]]:
    """The first head with each of the values, and of each head which value it has."""
    if isinstance(fixed.decomposition, StoredDecomposition):
        value_of = fixed.decomposition.tensors["value_of"]
        return [value_of.tolist().index(v) for v in range(int(value_of.max()) + 1)], value_of
    W_V, _ = fixed.require_exact().value_map()
    same = (W_V[:, None] == W_V).flatten(2).all(-1)  # head head
    first, value_of = same.int().argmax(1).unique(return_inverse=True)
    return first.tolist(), value_of


def moved(fixed: FixedQuery) -> Float[Tensor, "head source d_head"]:
    """What standing at i in place of n adds to a value, by Equation 1; zero where positions are not
    in the stream. ValueError for two means of a model where they are.
    """
    from ctxlib.additive import ExactFromModel  # which comes later

    if isinstance(fixed.exact, ExactFromModel) and fixed.exact.position_offset.any():
        raise ValueError(
            "values of two means hold what learned positions add, which no file keeps: use the "
            "destination that cx.fix_query(model) gives"
        )
    split = fixed.decomposition
    if isinstance(split, StoredDecomposition):
        return split.tensors["moved"]
    if isinstance(split, LayerNormDecomposition):
        return split.shift @ split.weights.W_V
    return torch.zeros(*split.kernels.shape, fixed.readout.W_O.shape[1])


def as_bytes(text: str) -> Int[Tensor, " byte"]:
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
