"""What the kept measurements of British spelling say of both discovered neurons, and of the first
MLP: `data/evidence/british.json`, read again, into `british-facts.json`. No model runs.

    python tools/evidence/british_facts.py

Of each neuron the gate, the up and the product of both: how far British spelling moves it at tokens
that are alike, in nats of its own unit and in its spread over documents, over the documents of half
B; how many fall; its t and its rank among all neurons by the size of t. Of the first MLP: what is
lost of the shift of the spelling of the next word if it is as in the American context at every
token, everywhere but at the words, and, by subtraction, at the words.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from command import ROOT, command
from evidence import kept

import ctxbook as cb

EVIDENCE = ROOT / "data" / "evidence"
PARTS = ("gate", "up", "product")
PATCHED = (
    "neuron",
    "neurons",
    "forty",
    "forty others",
    "stable heads",
    "attention elsewhere",
    "MLP elsewhere",
    "MLP",
    "stream elsewhere",
)


def mean_of(values: np.ndarray, drawn: np.ndarray) -> float:
    return values[drawn].mean()


def share_of(values: np.ndarray, whole: np.ndarray, drawn: np.ndarray) -> float:
    return values[drawn].sum() / whole[drawn].sum()


def of_neurons(own: dict) -> dict:
    """Each neuron's parts, over the documents of half B."""
    table = pd.DataFrame(own["documents"]).query("half == 'B'")
    told = np.array(
        [[[v[i][k] for k in (0, -1)] for i in range(len(PARTS))] for v in table["told"]]
    )
    out: dict = {}
    for q, neuron in enumerate(own["neurons"]):
        for i, part in enumerate(PARTS):
            both = pd.DataFrame(told[:, i, :, q], columns=["American", "British"])
            both = both.groupby(table["document"].to_numpy()).mean()
            moved = both["British"] - both["American"]
            texts: list[Any] = [SimpleNamespace(document=name, name=name) for name in both.index]
            ends = cb.with_interval(partial(mean_of, moved.to_numpy()), texts)
            out[f"{neuron} {part}"] = {
                "documents": len(moved),
                "moved": [*ends[:3]],
                "in spreads over documents": float(moved.mean() / both["American"].std()),
                "falls in": float((moved < 0).mean()),
                "t": float(moved.mean() / moved.std() * len(moved) ** 0.5),
                "rank of |t|": {half: own["rank of |t|"][half][q][i] for half in "AB"},
            }
    return out


def of_mlp(use: dict) -> dict:
    """Shares of the shift that are lost, with intervals over documents; where the context does not
    hold the asked word's family.
    """
    free = [[f not in c["families"] for f in use["families"]] for c in use["contexts"]]
    odds = {
        k: np.array(
            [np.array(c["odds"][k])[f].mean() for c, f in zip(use["contexts"], free, strict=True)]
        )
        for k in ("American", "British", *PATCHED)
    }
    texts: list[Any] = [
        SimpleNamespace(document=c["document"], name=c["text"]) for c in use["contexts"]
    ]
    lost = {k: odds["British"] - odds[k] for k in ("American", *PATCHED)}
    lost["MLP at the words, by subtraction"] = lost["MLP"] - lost["MLP elsewhere"]
    shift = lost.pop("American")
    return {"contexts": len(texts), "shift": float(shift.mean())} | {
        k: [*cb.with_interval(partial(share_of, v, shift), texts)[:3]] for k, v in lost.items()
    }


@command("british facts")
def main(argv: list[str] | None = None) -> None:
    held = json.loads((EVIDENCE / "british.json").read_text())
    out = EVIDENCE / "british-facts.json"
    for name, own in held.items():
        facts = {"file": own["file"], "sha256": own["sha256"], "neurons": of_neurons(own)}
        kept(out, name, facts | ({"use": of_mlp(own["use"])} if "use" in own else {}))


if __name__ == "__main__":
    sys.exit(main())
