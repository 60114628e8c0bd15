"""Pack what a page needs to predict, on any text, what the heads of a circuit add to one neuron
(chapter 0).

The file is one of `layerfile.packed`: the heads' kernels and denominators, and the content of every
token and what it adds to the neuron, in 8 bits each. A tokenizer's merges are kept as the length of
their left half, which is enough where merges make the tokens in order. `engine/neuron.js` reads it.
"""

from __future__ import annotations

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ctxlib.circuit import ContextualCircuit
from ctxviews.layerfile import packed, spelling

FORMAT = "ctxlib neuron"
LEVELS = 127  # of a number, on either side of the middle


def denominators_so_far(circuit: ContextualCircuit) -> Float[Tensor, "head source"]:
    """Return the denominator of every head at each token of the calibration text, when the text up
    to there stands right before the query. The last one is the circuit's own.

    >>> from ctxviews.neuronfile import denominators_so_far
    >>> torch.allclose(denominators_so_far(circuit)[:, -1], circuit.denominators)
    True
    """
    heads, x = list(circuit.heads), circuit.calibration
    kernels = circuit.fixed.decomposition.kernels[heads]
    content = circuit.fixed.decomposition.content[heads][:, x]
    lengths = range(1, len(x) + 1)
    return torch.stack([(kernels[:, -m:] * content[:, :m]).sum(1) for m in lengths], 1)


def packed_neuron(circuit: ContextualCircuit, neuron: int) -> bytes:
    """Return the file's bytes, the same ones on every call.

    Raises ValueError for a centred circuit, and for a tokenizer whose merges do not make its tokens
    in order: byte-level BPE trained in one go has such.

    >>> from ctxviews.neuronfile import packed_neuron
    >>> circuit = cx.study(cx.fix_query("qwen"), 1, heads=[4, 7]).circuit
    >>> len(packed_neuron(circuit, 6419)) < 1.5e6
    True
    """
    fixed, chosen = circuit.fixed, list(circuit.heads)
    if circuit.constant is not None:
        raise ValueError("the view has no constants: give the circuit that was not centred")
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
    values = fixed.decomposition.values(chosen)
    adds = einsum(values, into, "vocab head d, head d -> head vocab") / circuit.scale
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
    reals = {
        "kernels": fixed.decomposition.kernels[chosen].numpy().astype(np.float32),
        "denominators": denominators_so_far(circuit).numpy().astype(np.float32),
    }
    return packed(header, {**reals, **levels, "left": np.array(left, np.uint16)})
