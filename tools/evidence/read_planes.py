"""What do the planes of Qwen say? `data/evidence/read_planes.json`, for chapter 10.

    python tools/evidence/read_planes.py

The tables are those of `whole_neuron.py` for its first query, with at most two planes a head, each
with the number that was chosen on half A. Nothing was fixed beforehand and nothing is judged: this
is for reading. A plane is a curve over positions, here its means over stretches of the text, and a
list of tokens, here the two ends of those that the texts of half A hold at least `COMMON` times.
The sign is chosen so that the curve is higher far from the query than near it.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

from evidence import keeping
from jaxtyping import Float, Int
from torch import Tensor
from whole_neuron import GIVEN, Query, Texts

import ctxbook as cb
import ctxlib as cx

COMMON, ENDS, PLANES = 20, 8, 2
STRETCHES = (128, 32, 8, 0)  # each from so many tokens back to the one before it


def ends(b: Float[Tensor, " token"], count: Int[Tensor, " token"]) -> tuple[Tensor, Tensor]:
    """Return the common tokens with the smallest and the largest numbers, the outermost first."""
    common = (count >= COMMON).nonzero()[:, 0]
    order = common[b[common].argsort()]
    return order[:ENDS], order[-ENDS:].flip(0)


def stretches(a: Float[Tensor, " source"]) -> list[float]:
    """Return the curve's means, the farthest stretch first; BOS is in none."""
    begins = [1, *(len(a) - 1 - back for back in STRETCHES[:-1]), len(a) - 1]
    return [float(a[i:j].mean()) for i, j in pairwise(begins)]


def measured_of(name: str) -> dict[str, Any]:
    """Return the planes of every head: how far the head looks, the curve, and the list's ends."""
    model: Any = cx.load(name, layers=1)
    first = GIVEN["queries"][0]
    query = Query(model, Texts.of(model, None), first["token"], first["n"])
    tables, base = query.cut(PLANES), query.fixed
    x = base.prepare(query.texts.fit)[:, 1:-1]
    count = x.flatten().bincount(minlength=base.d_vocab)

    def decoded(ids: Tensor) -> list[str]:
        return [*map(str, cx.texts.decode_tokens(model, ids.tolist()))]

    planes = []
    for head, k in enumerate(query.numbers[PLANES]):
        for plane in range(k):
            a, b = tables.by_source[head][plane], tables.by_token[head][plane]
            curve = stretches(a)
            sign = 1 if curve[0] > curve[-1] else -1
            low, high = map(decoded, ends(sign * b, count))
            curve = [sign * value for value in curve]
            planes.append({"head": head, "plane": plane, "curve": curve, "near": low, "far": high})
    reach = cx.effective_tokens(base.decomposition.kernels).tolist()
    return {"token": first["token"], "n": first["n"], "effective tokens": reach, "planes": planes}


main = keeping("read_planes", __doc__, cb.evidence("read_planes.json"), ["qwen"], measured_of)


if __name__ == "__main__":
    sys.exit(main())
