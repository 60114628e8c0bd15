"""Pack what a page needs to predict, on any text, what some heads add to one neuron (chapter 0).

The file is one of `layerfile.packed`: kernels of the heads, and of every token its content and what
it adds to the neuron, in 8 bits each. A tokenizer's merges are kept as the length of their left
half, which is enough where merges make the tokens in order. `engine/neuron.js`
reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from einops import einsum

from ctxlib.query import FixedQuery
from ctxviews.layerfile import packed, spelling

FORMAT = "ctxlib neuron"
LEVELS = 127  # of a number, on either side of the middle


def packed_neuron(fixed: FixedQuery, neuron: int, heads: Sequence[int], scale: float) -> bytes:
    """Return the file's bytes, the same ones on every call. `scale` is that of LayerNorm 2, from a
    calibration text. Raises ValueError for a tokenizer whose merges do not make its tokens in
    order: byte-level BPE trained in one go has such.

    >>> from ctxviews.neuronfile import packed_neuron
    >>> len(packed_neuron(cx.fix_query("qwen"), 6419, [4, 7], 0.17)) < 1.5e6
    True
    """
    chosen = list(heads)
    spelt, merges = spelling(fixed.tokenizer, fixed.d_vocab)
    vocab = spelt.pop("vocab")
    ids = {token: number for number, token in enumerate(vocab)}
    made = [ids[vocab[a] + vocab[b]] for a, b in merges.tolist()]
    if not made or made != list(range(made[0], made[0] + len(made))):
        raise ValueError("the merges of this tokenizer do not make its tokens in order")
    into = einsum(
        fixed.readout.W_O[chosen],
        fixed.readout.W_in[:, neuron],
        "head d_head d_model, d_model -> head d_head",
    )
    adds = (
        einsum(fixed.decomposition.values(chosen), into, "vocab head d, head d -> head vocab")
        / scale
    )
    tables = {"content": fixed.decomposition.log_content[chosen], "adds": adds}
    middles = {name: (t.amax(1) + t.amin(1)) / 2 for name, t in tables.items()}
    steps = {name: (t.amax(1) - t.amin(1)) / 2 / LEVELS for name, t in tables.items()}
    header = {
        "format": FORMAT,
        "vocab_size": fixed.d_vocab,
        "heads": len(chosen),
        "length": fixed.length,
        "neuron": neuron,
        "first_merged": made[0],
        "middles": {name: t.tolist() for name, t in middles.items()},
        "steps": {name: t.tolist() for name, t in steps.items()},
        **spelt,
        "vocab": vocab,
    }
    levels = {
        name: ((t - middles[name][:, None]) / steps[name][:, None]).round().to(torch.int8).numpy()
        for name, t in tables.items()
    }
    left = [len(vocab[a].encode("utf-16-le")) // 2 for a, _ in merges.tolist()]  # as a page counts
    kernels = fixed.decomposition.kernels[chosen].numpy().astype(np.float32)
    return packed(header, {"kernels": kernels, **levels, "left": np.array(left, np.uint16)})
