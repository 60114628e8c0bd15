"""GGUF files: their first layers alone, for transformers reads such a file whole, and what in them
transformers would leave unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

SCALED = (
    "the rotary positions in {} are scaled ({}), which transformers does not read from GGUF: load "
    "the folder that the file was made of"
)


WORDS = [f"tokenizer.ggml.{kind}" for kind in ("tokens", "merges", "scores", "token_type")]


def architecture(reader: gguf.GGUFReader) -> tuple[str, gguf.MODEL_ARCH]:
    """Return the architecture that a file names, and gguf's number for it; raise ValueError if it
    has none.
    """
    name = reader.fields[gguf.Keys.General.ARCHITECTURE].contents()
    numbers = {known: number for number, known in gguf.MODEL_ARCH_NAMES.items()}
    if name not in numbers:
        raise ValueError(f"architecture {name} is not supported")
    return name, numbers[name]


def first_layers(reader: gguf.GGUFReader, layers: int, file: Path) -> Path:
    """Write a file's first layers, and what belongs to no layer, as they are; return the new file's
    path. The vocabulary is left out, whose lists take seconds to read, and its size is written.
    """
    name, _ = architecture(reader)
    writer = gguf.GGUFWriter(file, name, endianess=reader.endianess)
    if f"{name}.vocab_size" not in reader.fields and WORDS[0] in reader.fields:
        writer.add_vocab_size(len(reader.fields[WORDS[0]].data))
    left = {gguf.Keys.General.ARCHITECTURE, *WORDS}
    for name, field in reader.fields.items():
        if name not in left and not name.startswith("GGUF."):
            of_list = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=of_list)
    layer = {tensor.name: re.match(r"blk\.(\d+)\.", tensor.name) for tensor in reader.tensors}
    kept = [t for t in reader.tensors if not (of := layer[t.name]) or int(of[1]) < layers]
    for t in kept:
        writer.add_tensor_info(t.name, t.data.shape, t.data.dtype, t.data.nbytes, t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for t in kept:
        writer.write_tensor_data(t.data)
    writer.close()
    return file


def by_rows(data: np.ndarray, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """Unpack a tensor as `gguf.dequantize` does, some 4096 rows at a time: it makes an array of
    every sixteen, and the heap would keep all of them beside the whole.
    """
    parts = np.array_split(data, max(1, len(data) // 4096))
    return np.concatenate([gguf.quants.dequantize(part, kind) for part in parts])


def unread_tensors(
    reader: gguf.GGUFReader, state: Iterable[str], layers: int
) -> tuple[str, list[str]]:
    """Return the kinds of numbers in a GGUF file, and the names of its tensors that transformers
    does not take into a model with these parameters.
    """
    names, both = gguf.get_tensor_name_map(architecture(reader)[1], layers), (".weight", ".bias")
    used = {names.get_name(key, both) for name in state for key in (name, name.partition(".")[2])}
    there = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    unread = [name for name in there if name not in used and not name.startswith("rope_")]
    return ", ".join(sorted({*there.values()})), unread


class Reader(gguf.GGUFReader):
    """A reader of plain arrays: it reads a header in a third of the time, for slices of a memory
    map are slow to make.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, np.asarray(value) if name == "data" else value)


def opened(source: str) -> gguf.GGUFReader:
    """Return a file's reader. Raises ValueError for tensors that lie over one another, which a
    header says if it is damaged: one of them would be read from where another is.
    """
    reader, end = Reader(source), 0
    for tensor in sorted(reader.tensors, key=lambda tensor: tensor.data_offset):
        if tensor.data_offset < end:
            raise ValueError(f"its tensor {tensor.name} lies over another")
        end = tensor.data_offset + tensor.n_bytes
    return reader


def check_positions(reader: gguf.GGUFReader, source: str) -> None:
    """Raise ValueError for scaled rotary positions, which transformers leaves unread."""
    facts = {name: found.contents() for name, found in reader.fields.items() if "rope" in name}
    kind = next((v for k, v in facts.items() if k.endswith("rope.scaling.type")), "none")
    if kind != "none":
        raise ValueError(SCALED.format(source, kind))
    for tensor in reader.tensors:
        if tensor.name.startswith("rope_") and np.ptp(tensor.data) + abs(tensor.data[0] - 1) > 0:
            raise ValueError(SCALED.format(source, tensor.name))
