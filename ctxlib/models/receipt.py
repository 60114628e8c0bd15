"""What was read of a model, and what was left: the receipt that `cx.load` gives with it.

Here stand the checks that a file and what is computed from it agree. What lies in a layer that is
used and is not read is an error: a bias that nobody takes would make every number wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from ctxlib.texts.vocabulary import is_byte_level, without_token

OF_A_LAYER = re.compile(r"(?:^|\.)(\d+)\.")  # the number of a layer in a tensor's name
ADAPTERS = ("adapter_config.json", "adapter_model.safetensors")
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "*.safetensors")


@dataclass(frozen=True)
class Receipt:
    """What `cx.load` read: `model.receipt`.

    `dtype` is that of the file, which is read as float32; `read` counts the tensors that were read,
    `left` names those that were not. `begin` is the token that begins a text, and where that is
    said. What was read is then folded: norms into the weights that read them, the residual stream
    centred; value biases stay with their heads.

    >>> print(model.receipt)
    mini: 52 tensors in float16, read as float32
    positions: learned, added to the embeddings, 512 of them
    a text begins with '<|endoftext|>' (the configuration's BOS)
    vocabulary: 8192 tokens of bytes for 8192 embeddings
    """

    source: str
    files: tuple[Path, ...] = field(repr=False)
    dtype: str
    read: int
    left: tuple[str, ...]
    positions: str
    begin: str
    vocabulary: str

    @cached_property
    def sums(self) -> dict[str, str]:
        """Return the SHA-256 of each file, computed when it is first asked for.

        >>> sorted(model.receipt.sums)
        ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json']
        """
        found = {}
        for file in self.files:
            with file.open("rb") as opened:
                found[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
        return found

    def __str__(self) -> str:
        left = f", {len(self.left)} left in it" if self.left else ""
        place = Path(self.source)
        name = place.name if place.exists() else place
        return (
            f"{name}: {self.read} tensors in {self.dtype}{left}, read as float32\n"
            f"positions: {self.positions}\na text begins with {self.begin}\n"
            f"vocabulary: {self.vocabulary}"
        )


def files_of(source: str) -> tuple[Path, ...]:
    """Return the files of a model that `cx.load` reads: a GGUF file, those of a folder, or those of
    a hub's model in the cache.
    """
    place = Path(source)
    if place.is_file():
        return (place,)
    if not place.is_dir():
        config = try_to_load_from_cache(source, "config.json")
        if not isinstance(config, str):
            return ()
        place = Path(config).parent
    return tuple(sorted({file for name in FILES for file in place.glob(name)}))


def positions_of(config: Any, skipped: int = 0) -> str:
    """Return in words which positions a configuration says, and how they are scaled; learned ones
    without the first rows of their table that are `skipped`.

    >>> cx.models.receipt.positions_of(model.original_model.config)
    'learned, added to the embeddings, 512 of them'
    """
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = getattr(config, "layer_types", None) or [None]
    rope = rope.get(kinds[0], rope)  # those of the first layer, where layers differ
    window = None if {*kinds} == {"full_attention"} else getattr(config, "sliding_window", None)
    where = " in some layers" if "full_attention" in kinds else ""
    seen = f", a window of {window} tokens{where}" if window else ""
    if rope:
        scaled = {k: v for k, v in rope.items() if k not in ("rope_theta", "rope_type")}
        kind = rope.get("rope_type", "default")
        more = f", scaled ({kind}: {scaled})" if kind != "default" else ""
        return f"rotary, theta {rope.get('rope_theta')}{more}{seen}"
    if getattr(config, "rotary_dim", None):
        return f"rotary, the first {config.rotary_dim} of each head{seen}"
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        return "ALiBi"
    count = config.max_position_embeddings - skipped
    biased = ", and a bias on the scores by distance" if config.model_type == "mpnet" else ""
    return f"learned, added to the embeddings, {count} of them{biased}{seen}"


def vocabulary_of(tokenizer: Any, d_vocab: int) -> str:
    """Return in words how many tokens there are, of what kind, and how many embeddings."""
    kind = "bytes" if is_byte_level(tokenizer) else "words and pieces"
    empty = int(without_token(tokenizer, d_vocab).sum())
    more = f", {empty} of them without a token" if empty else ""
    return f"{len(tokenizer)} tokens of {kind} for {d_vocab} embeddings{more}"


def check_alone(source: str) -> None:
    """Raise ValueError for a folder with an adapter (LoRA) beside the model."""
    beside = [name for name in ADAPTERS if (Path(source) / name).exists()]
    if beside:
        raise ValueError(
            f"{source} holds an adapter beside the model ({', '.join(beside)}): merge it into the "
            "weights first (merge_and_unload of peft), or move it away"
        )


def check_unread(source: str, unread: Iterable[str], layers: int) -> tuple[str, ...]:
    """Return the tensors of a file that nobody takes; raise ValueError if one of them is in one of
    the first `layers`.
    """
    left = sorted(unread)
    taken = [(name, OF_A_LAYER.search(name)) for name in left]
    wrong = [name for name, number in taken if number and int(number[1]) < layers]
    if wrong:
        raise ValueError(
            f"{source} holds {len(wrong)} tensors in layers that are read which this kind of model "
            f"does not take (first: {wrong[0]}): its numbers would be wrong"
        )
    return tuple(left)
