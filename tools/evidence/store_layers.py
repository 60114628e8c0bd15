"""Write the stored layers of real models, `data/stored/*.safetensors.zst`, and what storing costs.

    python tools/evidence/store_layers.py              # of those that `make models` has fetched
    python tools/evidence/store_layers.py smollm2      # of one

Each is asked by " the", a decoder at 256 and an encoder in the middle of as many tokens, with the
book's texts. What 8 bits cost is measured against the full weights and kept in
`data/stored/costs.json`, which `benchmarks/door.py` shows on a page of the book.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from command import ROOT, command
from files import digest, replace
from gguf import GGUFReader
from jaxtyping import Float
from torch import Tensor

import ctxlib as cx
from ctxlib import store
from ctxlib.evaluation import Moments
from ctxlib.files import DATA, kept_folder
from ctxlib.models import Encoder, real_models
from ctxlib.query import FixedQuery
from ctxlib.studies import Study
from ctxlib.texts.text import AnyText

STORED = ROOT / "data" / "stored"
N, TEXTS, FIRST = 256, 250, 100
USUAL = 1024  # tokens: most of what any text consists of
IN_GGUF = {
    "W_O": ("blk.0.attn_output.weight", ""),
    "W_in": ("blk.0.ffn_gate.weight", "blk.0.ffn_norm.weight"),
}
TIE = 0.01  # of `top`: neurons that are nearer than this may change places


@command("store_layers")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(real_models()), metavar="name")
    for name in parser.parse_args(argv).names:
        if not kept_folder(name).is_dir():
            print(f"{name}: left out, for it is not here; make models NAME={name} fetches it")
            continue
        file, costs = store_model(name)
        size = file.stat().st_size / 1e6
        print(f"{name}: {size:.1f} MB, {costs}", flush=True)
        add(DATA / "stored.json", name, digest(file))  # it is known by that where it is fetched
        add(STORED / "costs.json", name, {"megabytes": round(size, 1), **costs})


def store_model(name: str) -> tuple[Path, dict[str, float]]:
    """Write the stored layer of a real model; the file, and what storing cost."""
    facts = real_models()[name]
    ((source, digest),) = [
        item for item in facts["files"].items() if item[0].endswith((".gguf", ".safetensors"))
    ]
    place = kept_folder(name) / source
    model = cx.load(name, layers=1)
    reader = cx.texts.Reader.of(model, min(2 * N, model.cfg.n_ctx))
    texts = cx.texts.collection(reader, TEXTS)
    n = N // 2 if isinstance(model, Encoder) else N  # the middle of as many tokens
    fixed = cx.fix_query(model, texts, n)
    study = cx.study(fixed, texts, or_all=True)
    file = save_layer(
        fixed,
        STORED / f"{name}.safetensors.zst",
        texts,
        gguf=place if place.suffix == ".gguf" else None,
        model=facts["hub"],
        source=source,
        sha256=digest,
        licence=facts["licence"],
    )
    return file, costs(study, file)


def costs(study: Study, file: Path) -> dict[str, float]:
    """What is lost between the full weights and the stored layer: the correlation of every
    neuron's summaries and of its column, the worst and the middle one, and how many of the first
    hundred neurons are found again, those apart that tie.
    """
    kept = cx.study(cx.fix_query(file), study.texts, heads=study.heads)
    x, circuits = study.fixed.prepare(study.texts), (study.circuit, kept.circuit)
    summaries = alike(circuit.summary(x) for circuit in circuits)
    parts = [slice(start, start + 256) for start in range(0, len(summaries), 256)]
    columns = pd.concat(alike(c.contribution_to(part).T for c in circuits) for part in parts)
    full, again = (cx.find_neurons(c, at_least=2 * FIRST)["top"] for c in circuits)
    bar = full.iloc[FIRST - 1]
    first = set(full.index[:FIRST]) - set(full.index[(full / bar - 1).abs() < TIE])
    missed = len(first - set(again.index[again > bar * (1 - TIE)]))
    measured = {
        "summaries, worst r": summaries.min(),
        "summaries, 1% of neurons below": summaries.quantile(0.01),
        "summaries, median r": summaries.median(),
        "columns, worst r": columns.min(),
        "columns, median r": columns.median(),
        "of the first hundred not found, ties apart": missed,
    }
    return {name: round(float(value), 5) for name, value in measured.items()}


def alike(pair: Iterable[Tensor]) -> pd.Series:
    """The correlation of what two circuits say, neuron by neuron."""
    full, kept = pair
    return Moments.of(kept, full).table(range(full.shape[1]))["r"]


def add(file: Path, name: str, fact: Any) -> None:
    """What a file says of every stored layer, with this one's."""
    facts = json.loads(file.read_text()) if file.exists() else {}
    facts |= {name: fact}
    replace(file, json.dumps(facts, indent=1) + "\n")


# ---------------------------------------------------------------- the file


def save_layer(
    fixed: FixedQuery,
    file: Path,
    texts: Iterable[AnyText] = (),
    gguf: Path | None = None,
    **facts: str,
) -> Path:
    """Write a stored layer and return its path: the decomposition of a fixed query, its values in 8
    bits a number, those of the most usual tokens of `texts` in 16. `facts` say where it comes from;
    `gguf` is the file of the model, if it came from one, whose blocks are stored as they are.

    Raises ValueError for a GGUF file of another model, and as `store.pack` and `store.write` do.
    """
    tensors, of_layer = store.pack(fixed)
    of_token, W_O, W_in = (tensors.pop(name) for name in ("of_token", "W_O", "W_in"))
    counts = torch.zeros(fixed.d_vocab, dtype=torch.int64)
    for x in fixed.prepare_batches(texts, "counting tokens"):
        counts += x.flatten().bincount(minlength=fixed.d_vocab)
    usual = counts.topk(min(USUAL, int((counts > 0).sum()))).indices
    tensors |= {"usual": usual, "of_usual": of_token[usual].half()}
    tensors |= store.quantized(of_token) | {"content": tensors["content"].half()}
    if gguf is None:
        tensors |= {"W_O": W_O.half(), "W_in": W_in.half()}
    else:
        tensors |= gguf_blocks(gguf, "W_O", W_O) | gguf_blocks(gguf, "W_in", W_in)
    return store.write(file, tensors, of_layer | facts)


def gguf_blocks(gguf: Path, name: str, W: Float[Tensor, "row column"]) -> dict[str, Tensor]:
    """Return the blocks of a matrix in a GGUF file, and the gain that is folded into it. Raises
    ValueError if they are not this matrix.
    """
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
    own = store.stored_matrix(blocks, name)
    if own.shape != W.shape or not torch.allclose(own, W, atol=1e-5 * float(W.abs().max())):
        raise ValueError(foreign)
    return blocks


if __name__ == "__main__":
    sys.exit(main())
