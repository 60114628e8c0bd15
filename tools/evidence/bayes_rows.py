"""Are neurons nearer to Naive Bayes than other directions that read the same heads?
`data/evidence/bayes_rows.json`, for appendix B.

    python tools/evidence/bayes_rows.py

The page holds the contributions of `mini`'s neurons against the Naive Bayes weights of the domain
that each neuron answers to. Here the same is asked of draws of random mixtures of neurons, those
with the largest top, and of an untrained layer. What mixtures share is the heads' space: the
numbers that all neurons read. The median r of the hundred neurons was known, and that single
mixtures reach 0.20; the draws of the null were not.

Fixed before it was run: neurons are nearer than the heads' space is if fewer than 5% of the draws
of mixtures with the largest top reach the hundred neurons' median r; and the ledger's bound (half
fit their own domain best) decides little if the median draw of mixtures passes it.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import command
from evidence import provenance, rounded
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

import ctxbook as cb
import ctxlib as cx
from ctxlib.neurons import LARGEST

TEXTS, NEURONS, PRIOR = 1000, 100, 1000  # as on the page
DRAWS = 100  # of mixtures
LIMIT = 0.05  # share of draws that may reach what was found

Contributions = Float[Tensor, "neuron vocab"]


@dataclass(frozen=True, eq=False)
class Texts:
    """Both halves of the held-out texts: tokens, counts, domains."""

    x: dict[str, Tensor]  # text source
    counts: dict[str, Float[Tensor, "text vocab"]]
    kinds: dict[str, np.ndarray]
    names: list[str]

    @classmethod
    def of(cls, study: cx.studies.Study) -> Texts:
        """Keep domains with two texts or more in both halves."""
        halves = dict(zip("AB", cb.halves(study.texts), strict=True))
        kinds = {h: np.array([t.domain for t in texts]) for h, texts in halves.items()}
        names = [
            d for d in sorted(set(kinds["A"])) if min((k == d).sum() for k in kinds.values()) > 1
        ]
        halves = {h: [t for t in texts if t.domain in names] for h, texts in halves.items()}
        x = {h: study.fixed.prepare(texts) for h, texts in halves.items()}
        counts = {}
        for h, texts in halves.items():
            tokens = torch.stack([text.tokens[1 : study.length] for text in texts])
            empty = torch.zeros(len(texts), study.fixed.d_vocab, dtype=torch.double)
            counts[h] = empty.scatter_add_(1, tokens, torch.ones(tokens.shape).double())
        kinds = {h: np.array([t.domain for t in texts]) for h, texts in halves.items()}
        return cls(x, counts, kinds, names)


def bayes_weights(counts: Tensor, kinds: np.ndarray, names: list[str]) -> Tensor:
    """Return the log ratio of each token's smoothed frequency inside and outside each domain."""
    inside = torch.tensor(kinds == np.array(names)[:, None]).double() @ counts
    outside, usual = counts.sum(0) - inside, (counts.sum(0) + 1) / (counts.sum(0) + 1).sum()
    p, p_bar = ((c + PRIOR * usual) / (c.sum(1, keepdim=True) + PRIOR) for c in (inside, outside))
    return (p / p_bar).log()


def lean(contribution: Contributions, circuit: Any, texts: Texts) -> tuple[float, float]:
    """Return the median correlation of directions with the weights of the domain that half A gives
    each, counted on half B, tokens as often as they occur there; and how often that fits best."""
    x, counts = texts.x["A"], texts.counts["B"]
    weight = torch.zeros(len(x), contribution.shape[1])
    summaries = weight.scatter_add_(1, x, circuit.kernel.expand(x.shape)) @ contribution.T
    found = cx.label_neurons(summaries, texts.kinds["A"].tolist(), range(len(contribution)))
    own = np.array([texts.names.index(label) for label in found["label"]])
    p, share = contribution.double(), counts.sum(0) / counts.sum()
    p = p - p.mean(1, keepdim=True)  # a constant changes no correlation
    w = bayes_weights(counts, texts.kinds["B"], texts.names)
    w = w - (w @ share)[:, None]
    variance = p**2 @ share - (p @ share) ** 2
    fit = (p @ (share * w).T / (variance[:, None] * ((w**2) @ share)).sqrt()).numpy()
    of_own = fit[np.arange(len(own)), own]
    return float(np.median(of_own)), float((fit.argmax(1) == own).mean())


def largest(contribution: Contributions, count: int, ordinary: Tensor) -> Tensor:
    """Return the rows that single tokens move farthest, glitch tokens left out."""
    values = contribution[:, ordinary]
    top = values.topk(min(LARGEST, values.shape[1])).values.mean(1) - values.mean(1)
    return contribution[top.argsort(descending=True, stable=True)[:count]]


def rows_of(model: str = "mini", count: int = TEXTS, draws: int = DRAWS) -> dict[str, Any]:
    weights = cx.LayerWeights.of(cx.load(model))
    study = cx.study(weights, count, or_all=True)
    texts, circuit = Texts.of(study), study.circuit
    ordinary = ~study.fixed.decomposition.untrained
    W_in, ext = study.fixed.readout.W_in, circuit.extended_embedding() / circuit.scale
    strongest = largest(circuit.contribution.T, NEURONS, ordinary)

    def mixed(seed: int) -> Contributions:
        return (ext @ cb.nulls.mixtures(W_in, seed)).T

    blank = cx.study(cb.nulls.untrained(weights), study.texts, heads=study.heads)
    kinds = {
        f"{NEURONS} neurons": (strongest, circuit),
        "an untrained layer": (blank.circuit.contribution.T, blank.circuit),
    }
    kept = {kind: lean(rows, of, texts) for kind, (rows, of) in kinds.items()}
    null = [
        lean(largest(mixed(seed), NEURONS, ordinary), circuit, texts)
        for seed in tqdm(range(1, draws + 1), "mixtures")
    ]
    r, best = (np.array(v) for v in zip(*null, strict=True))
    p = cb.nulls.p_value(kept[f"{NEURONS} neurons"][0], r)
    return {
        "rows": kept,  # r, and how often the own domain fits best
        "null": {"r": np.quantile(r, [0.025, 0.5, 0.975]).tolist(), "largest r": float(r.max()),
                 "own fits best": np.quantile(best, [0.025, 0.5, 0.975]).tolist(), "draws": draws},
        "p": p,
        "neurons are nearer": p < LIMIT,
        "the bound decides little": float(np.median(best)) >= cb.published("naive_bayes").at_least,
    }  # fmt: skip


@command("bayes_rows")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--file", type=Path, default=cb.evidence("bayes_rows.json"))
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    args = parser.parse_args(argv)
    facts = rounded(rows_of(count=args.texts, draws=args.draws)) | provenance("mini")
    args.file.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    sys.exit(main())
