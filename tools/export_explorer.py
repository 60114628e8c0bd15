"""The file with which a page computes the contextual circuit of a model's first layer.

    python tools/export_explorer.py --model mini --out FOLDER

writes FOLDER/layer.bin; `ctxlib/widgets/layerfile.py` says what is in it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from build_book import called

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ctxlib as cx
from ctxlib.widgets.layerfile import packed_layer

TEXTS = 1000  # how many of the collection say which heads are stable


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="mini", help="what cx.load takes")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--texts", type=int, default=TEXTS, help="how many texts to measure on")
    options = parser.parse_args(arguments)
    try:
        file = export(options.model, options.out, options.texts)
    except cx.weights.NoPositionEmbeddings as error:  # the build goes on without
        print(f"no views of {options.model}: {error}")
        raise SystemExit(os.EX_UNAVAILABLE) from error
    except (ValueError, OSError) as error:
        raise SystemExit(f"{options.model} cannot be exported: {error}") from error
    print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


def export(model: str, out: Path, texts: int = TEXTS) -> Path:
    """Writes OUT/layer.bin and returns its path."""
    weights = cx.LayerWeights.of(cx.load(model))
    content = packed_layer(weights, cx.texts.collection(weights, texts), called(model))
    out.mkdir(parents=True, exist_ok=True)
    file = out / "layer.bin"
    file.write_bytes(content)
    return file


if __name__ == "__main__":
    torch.set_num_threads(1)  # sums in one order: the same bytes on every run
    main()
