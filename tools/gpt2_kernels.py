"""The positional kernels of GPT-2 small's first layer, for the page of chapter 3.

    python tools/gpt2_kernels.py path/to/model.safetensors

The file is GPT-2 small's checkpoint (`openai-community/gpt2` on the Hugging Face hub), or any part
of it that holds `wpe` and the attention of layer 0: kernels need no more. The query is the one
without a token, so that token embeddings are not needed either. What is written is a result, one
number for each head and distance, with its provenance; no weight is in it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from command import command
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

import ctxlib as cx
from ctxlib.models import DATA

N, C, HEADS = 500, 3.5, 12  # N as in the paper's Figure 2; C, a typical token norm, is the book's
HASHED = ("wpe.weight", "h.0.attn.c_attn.weight")
OUT = DATA / "gpt2-kernels.npz"


def read(place: Path) -> tuple[dict[str, Tensor], cx.LayerWeights]:
    """What a checkpoint of GPT-2 small holds, and its first layer; `place` is a file or the folder
    that it lies in. ValueError where there is none, or something else.
    """
    files = sorted(place.glob("*.safetensors")) if place.is_dir() else [place]
    if not files:
        raise ValueError(f"{place} holds no .safetensors file")
    state: dict[str, Tensor] = {}
    for file in files:
        try:
            held = load_file(file)
        except SafetensorError as error:
            raise ValueError(f"{file} cannot be read: {cx.models.first_line(error)}") from error
        state |= {k.removeprefix("transformer."): v for k, v in held.items()}
    return state, cx.LayerWeights.from_state_dict(state, n_heads=HEADS)


def kernels_of(place: Path) -> dict[str, Any]:
    """What is written: kernels (`head source`) and where they come from."""
    state, weights = read(place)
    digest = hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in HASHED))
    return {
        "kernels": cx.positional_kernels(weights, N, token=None, C=C).numpy().astype(np.float16),
        "n": N,
        "C": C,
        "source": "openai-community/gpt2, layer 0: wpe, ln_1 and attn.c_attn; "
        "query without a token (ctxlib.positional_kernels, token=None)",
        "sha256": f"{digest.hexdigest()} of {', '.join(HASHED)}, float32",
    }


@command("gpt2_kernels")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", type=Path, help="a .safetensors file")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args(argv)
    np.savez_compressed(args.out, **kernels_of(args.weights))
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
