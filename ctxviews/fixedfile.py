"""One query of any model as one file, with which a page computes the contextual circuit
there: kernels, content, values, and how what heads write reaches the neurons.

The file is one of `layerfile.packed`. Values, W_O and each head's readout W_O W_in are kept as a
stored layer keeps values (`ctxlib.store.in_levels`), in all of 8 bits; heads that share values
share a table. Of a large vocabulary the values of some tokens are left out, so that a page stays
small: it keeps those of the passages, usual ones, and those that move the residual stream farthest
(`ROOM`). Means over the vocabulary are taken here, over all of it. A site has the same in several
files (`parts_of_destination`): one that a page opens with, and those that it fetches when a reader
needs them: the readouts of other heads and the tokens left out. `engine/fixedQuery.js` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.circuit import ContextualCircuit
from ctxlib.heads import families
from ctxlib.neurons import CHUNK, LARGEST
from ctxlib.query import FixedQuery
from ctxlib.store import pack, quantized
from ctxlib.studies import Study
from ctxviews.layerfile import (
    NAMED,
    PART,
    RANKED,
    best_ranked,
    calibrated,
    described,
    flags,
    folder_of,
    packed,
    rank_tokens,
    spelling,
)

FORMAT = "ctxlib fixed-query layer"
SHARED = 256  # tokens in a file of those that are left out
ROOM = 5_300_000  # numbers in the table of values
LEVELS = {"of_token": 127, "W_O": 127, "readout": 127}  # of a number, on either side of zero
GZIP = 4  # its level: numbers of 8 bits hardly pack better with more
NATS = 1024  # log content is kept in so many parts of a nat, which pack better than any number


def packed_destination(study: Study, name: str = "") -> bytes:
    """Return the file's bytes, the same ones on every call.

    Heads, texts, passages and calibration text are the study's; `name` is what a page calls the
    model. Raises ValueError for a query whose tokenizer is none of the fast ones.

    >>> from ctxviews.fixedfile import packed_destination
    >>> len(packed_destination(cx.study(model, texts=20))) < 3e6
    True
    """
    header, arrays = opening(study, name)
    for head in range(study.fixed.n_heads):
        arrays |= readout(study.fixed, head)
    return packed(header, arrays, GZIP)


def parts_of_destination(study: Study, name: str) -> dict[str, bytes]:
    """Return the same as files by their names: `name`.bin, with which a page opens and which has
    the readouts of the study's heads; those of each other head; and the tokens that the first
    leaves out, `SHARED` of them in a file, in the order of their ids. The folder of these has a
    digest of the first in its name, so that no page puts together what does not belong together.

    >>> from ctxviews.fixedfile import parts_of_destination
    >>> one_out = cx.study(model, texts=20, heads=[0, 2, 3, 4, 5, 6, 7])
    >>> [file.rpartition("/")[2] for file in parts_of_destination(one_out, "mini")]
    ['mini.bin', 'head-1.bin', 'tokens-0.bin']
    """
    fixed = study.fixed
    header, arrays = opening(study, name)
    for head in study.heads:
        arrays |= readout(fixed, head)
    folder = folder_of(name, arrays)
    files = {f"{name}.bin": packed(header | {"folder": folder, "shared": SHARED}, arrays, GZIP)}
    for head in sorted({*range(fixed.n_heads)} - {*study.heads}):
        files[f"{folder}/head-{head}.bin"] = packed({"format": PART}, readout(fixed, head), GZIP)
    tensors, _ = pack(fixed)
    left = torch.ones(fixed.d_vocab, dtype=torch.bool)
    left[arrays["token_ids"].astype(np.int64)] = False
    for k, few in enumerate(left.nonzero()[:, 0].split(SHARED)):
        files[f"{folder}/tokens-{k}.bin"] = packed(
            {"format": PART}, of_tokens(fixed, tensors, few), GZIP
        )
    return files


def opening(study: Study, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header, and all tensors but the readouts."""
    fixed = study.fixed
    tensors, _ = pack(fixed)
    circuit = calibrated(fixed, study.calibration_text)
    counted = (~fixed.decomposition.untrained).nonzero()[:, 0]
    of_token = tensors["of_token"][counted].unflatten(1, (-1, fixed.readout.W_O.shape[1]))
    means, places = rank_tokens([circuit], counted, lambda h: of_token[:, tensors["value_of"][h]])
    spelt, joins = spelling(fixed.tokenizer, fixed.d_vocab)
    order = best_ranked(places, counted, fixed.d_vocab)
    available = kept(study, order, max(ROOM // tensors["of_token"].shape[1], 1))
    ranked = order[torch.isin(order, available)][: RANKED // fixed.n_neurons]
    header = {
        "format": FORMAT,
        "model": name,
        **sizes(fixed),
        "largest": LARGEST,
        "stable": list(study.heads),
        "destinations": [
            {
                "id": fixed.token,
                "denominators": circuit.denominators.tolist(),
                "scale": circuit.scale,
            }
        ],
        "calibration": {"name": study.calibration_text.name, "ids": circuit.calibration.tolist()},
        "families": described(families(fixed)),
        "passages": [
            {"name": p.name, "domain": p.domain, "title": p.subject} for p in study.passages
        ],
        "untrained": fixed.decomposition.untrained.nonzero()[:, 0].tolist(),
        **spelt,
    }
    read = torch.stack([p.tokens[: fixed.length] for p in study.passages])
    arrays = {
        "kernels": tensors["kernels"],
        "value_of": tensors["value_of"],
        "moved": tensors["moved"].half(),  # finer than 8 bits, and half of the room
        "beside": tensors["rest"],
        **leveled("W_O", tensors["W_O"]),
        **{name: tensors[name] for name in ("gain",) if name in tensors},
        "means": means[0],
        **ranking(
            circuit,
            tensors,
            study.heads,
            available[~fixed.decomposition.untrained[available]],
            means[0],
        ),
        "passage_ids": read.flatten(),
        "passage_ends": torch.full((len(read),), fixed.length).cumsum(0),
    }
    packs = {name: small(tensor.numpy()) for name, tensor in arrays.items()}
    packs["ranked"] = flags(fixed.d_vocab, ranked)
    packs["merges"] = small(joins)
    return header, of_tokens(fixed, tensors, available) | packs


def of_tokens(
    fixed: FixedQuery, tensors: dict[str, Tensor], ids: Int[Tensor, " token"]
) -> dict[str, np.ndarray]:
    """Return the data of some tokens: their log content for each head, and their values."""
    arrays = {
        "token_ids": ids.to(torch.int64),
        "content": (fixed.decomposition.log_content[:, ids] * NATS).round() / NATS,
        **leveled("of_token", tensors["of_token"][ids]),
    }
    return {name: small(tensor.numpy()) for name, tensor in arrays.items()}


def readout(fixed: FixedQuery, head: int) -> dict[str, np.ndarray]:
    """Return W_O W_in of a head, neuron after neuron."""
    whole = (fixed.readout.W_O[head] @ fixed.readout.W_in).T.contiguous()
    tables = leveled("readout", whole)
    named = {name.replace("readout", f"readout_{head}"): t for name, t in tables.items()}
    return {name: small(tensor.numpy()) for name, tensor in named.items()}


def leveled(name: str, whole: Float[Tensor, "row column"]) -> dict[str, Tensor]:
    """Return a table in 8 bits, row after row, with its step, spread and mean by their names."""
    of = quantized(whole, LEVELS[name])
    return {name: of.pop("of_token").T, **{f"{name}_{part}": t for part, t in of.items()}}


def sizes(fixed: FixedQuery) -> dict[str, Any]:
    head, d_head, d_model = fixed.readout.W_O.shape
    return {
        "layer": fixed.mlp_layer,
        "vocab_size": fixed.d_vocab,
        "d_model": d_model,
        "heads": head,
        "d_head": d_head,
        "neurons": fixed.n_neurons,
        "positions": fixed.length,
        "length": fixed.length,
        "n": fixed.n,
        "eps": fixed.readout.eps,
        "norms": fixed.readout.norms,
        "normsHeads": fixed.readout.gain is not None,
    }


def small(array: np.ndarray) -> np.ndarray:
    """Return numbers of the width that pages read."""
    if array.dtype in (np.int8, np.float16):
        return array
    if np.issubdtype(array.dtype, np.floating):
        return array.astype(np.float32)
    return array.astype(np.uint16 if array.max(initial=0) < 2**16 else np.uint32)


def kept(study: Study, order: Int[Tensor, " token"], most: int) -> Int[Tensor, " token"]:
    """Return the tokens that a page has data for, `most` or all of the passages', in the order of
    their ids: three quarters of them usual ones of the texts, the others first in `order`.
    """
    fixed = study.fixed
    here = torch.cat(
        [*(p.tokens[: fixed.length] for p in study.passages), torch.tensor([fixed.token])]
    )
    counts = (
        fixed.prepare([*study.texts, study.calibration_text])
        .flatten()
        .bincount(minlength=fixed.d_vocab)
    )
    usual = counts.argsort(descending=True, stable=True)[
        : min(3 * most // 4, int((counts > 0).sum()))
    ]
    always = torch.cat([here, usual]).unique()
    more = order[~torch.isin(order, always)][: max(most - len(always), 0)]
    return torch.cat([always, more]).sort().values


def ranking(
    circuit: ContextualCircuit,
    tensors: dict[str, Tensor],
    heads: Sequence[int],
    tokens: Int[Tensor, " token"],
    means: Float[Tensor, "head d_head"],
) -> dict[str, Tensor]:
    """Return the ranking of `cx.find_neurons` for the study's heads, with the largest of these
    tokens, of which the first are named: a page that opens with it need not wait.
    """
    fixed, chosen = circuit.fixed, list(heads)
    W_O = fixed.readout.W_O[chosen]
    values = tensors["of_token"][tokens].unflatten(1, (-1, W_O.shape[1]))
    weight = fixed.decomposition.content[chosen][:, tokens] / circuit.denominators[chosen, None]
    inside = values[:, tensors["value_of"][chosen]] * weight.T[..., None]
    read = W_O.flatten(0, 1).T  # d_model (head d_head)
    kept = min(LARGEST, len(tokens))
    parts = []
    for W_in in fixed.readout.W_in.T.split(CHUNK):
        through = W_in @ read / circuit.scale  # neuron (head d_head)
        largest = (through @ inside.flatten(1).T).topk(kept, dim=1)
        mean = through @ means[chosen].flatten()
        parts.append((largest.values.mean(1) - mean, mean, tokens[largest.indices[:, :NAMED]]))
    top, mean, ids = map(torch.cat, zip(*parts, strict=True))
    return {"ranking_top": top, "ranking_mean": mean, "ranking_tokens": ids}
