"""The file with which a page computes the contextual circuit of a model's first layer.

    python tools/export_explorer.py --model mini --out FOLDER

writes FOLDER/layer.bin; `ctxlib/widgets/layerfile.py` says what is in it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch
from build_book import called
from command import command
from files import replace

import ctxlib as cx
from ctxlib.widgets.layerfile import packed_layer


@command("export_explorer")
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="mini", help="what cx.load takes")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--texts", type=int, default=1000, help="how many to measure on")
    options = parser.parse_args(argv)
    try:
        weights = cx.LayerWeights.of(cx.load(options.model))
    except cx.weights.NoPositionEmbeddings as error:  # the build goes on without
        print(f"no views of {options.model}: {error}")
        return os.EX_UNAVAILABLE
    texts = cx.texts.collection(weights, options.texts)
    file = options.out / "layer.bin"
    replace(file, packed_layer(weights, texts, called(options.model)))
    print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)  # sums in one order: the same bytes on every run
    sys.exit(main())
