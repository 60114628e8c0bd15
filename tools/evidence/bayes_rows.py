"""Are neurons nearer to Naive Bayes than other directions that read the same heads?
`data/evidence/bayes_rows.json`, for appendix B.

    python tools/evidence/bayes_rows.py

The page holds the contributions of `mini`'s neurons against the Naive Bayes weights of the domain
that each neuron answers to. Here the same is asked of all neurons, of random mixtures of neurons,
of as many mixtures with the largest top, and of an untrained layer. What mixtures share is the
heads' space: the numbers that all neurons read. The median r of the hundred neurons was known, and
that single mixtures reach 0.20; the draws of the null, the matched mixtures and the intervals were
not. Drawing documents again leaves fewer different ones to count, so that the weights are noisier
and these intervals lie low: that of the hundred neurons' r is below the r itself.

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
DRAWS = 100  # of mixtures, and of documents for an interval
LIMIT = 0.05  # share of draws that may reach what was found

Contributions = Float[Tensor, "neuron vocab"]


@dataclass(frozen=True, eq=False)
class Texts:
    """Both halves of the held-out texts: tokens, counts, domains."""

    x: dict[str, Tensor]  # text source
    counts: dict[str, Float[Tensor, "text vocab"]]
    kinds: dict[str, np.ndarray]
    names: list[str]
    on_B: list[Any]

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
        return cls(x, counts, kinds, names, halves["B"])


def bayes_weights(counts: Tensor, kinds: np.ndarray, names: list[str]) -> Tensor:
    """Return the log ratio of each token's smoothed frequency inside and outside each domain."""
    inside = torch.tensor(kinds == np.array(names)[:, None]).double() @ counts
    outside, usual = counts.sum(0) - inside, (counts.sum(0) + 1) / (counts.sum(0) + 1).sum()
    p, p_bar = ((c + PRIOR * usual) / (c.sum(1, keepdim=True) + PRIOR) for c in (inside, outside))
    return (p / p_bar).log()


class Row:
    """Directions that read the heads, with the domain that half A gives each."""

    def __init__(self, contribution: Contributions, circuit: Any, texts: Texts):
        self.contribution, self.texts = contribution, texts
        self.p = contribution.double()
        self.p = self.p - self.p.mean(1, keepdim=True)  # a constant changes no correlation
        self.squares = self.p**2
        self.summaries = {h: self.summary(circuit.kernel, x) for h, x in texts.x.items()}
        kinds = texts.kinds["A"].tolist()
        found = cx.label_neurons(self.summaries["A"], kinds, range(len(contribution)))["label"]
        self.own = np.array([texts.names.index(label) for label in found])

    def summary(self, kernel: Tensor, x: Tensor) -> Float[Tensor, "text neuron"]:
        weight = torch.zeros(len(x), self.contribution.shape[1]).scatter_add_(
            1, x, kernel.expand(x.shape)
        )
        return weight @ self.contribution.T

    def fits(self, drawn: Any = slice(None)) -> np.ndarray:
        """Return the correlation of every row with each domain's weights, counted on half B's
        texts: `row domain`, tokens as often as they occur there."""
        counts, kinds = self.texts.counts["B"][drawn], self.texts.kinds["B"][drawn]
        share = counts.sum(0) / counts.sum()
        w = bayes_weights(counts, kinds, self.texts.names)
        w = w - (w @ share)[:, None]
        variance = self.squares @ share - (self.p @ share) ** 2
        return (self.p @ (share * w).T / (variance[:, None] * ((w**2) @ share)).sqrt()).numpy()

    def lean(self, drawn: Any = slice(None)) -> tuple[float, float]:
        """Return the median correlation with the own domain, and how often that fits best."""
        fit = self.fits(drawn)
        of_own = fit[np.arange(len(self.own)), self.own]
        return float(np.median(of_own)), float((fit.argmax(1) == self.own).mean())

    def facts(self) -> dict[str, Any]:
        belongs = self.texts.kinds["B"] == np.array(self.texts.names)[:, None]
        auc = cx.neurons.auc(self.summaries["B"].double().numpy(), belongs)
        own = auc[self.own, np.arange(len(self.own))]
        on_B = self.texts.on_B
        return {
            "r": cb.with_interval(lambda drawn: self.lean(drawn)[0], on_B, DRAWS),
            "own fits best": cb.with_interval(lambda drawn: self.lean(drawn)[1], on_B, DRAWS),
            "mean AUC": float(own.mean()),
            "rows": len(own),
        }


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
    of_all = circuit.contribution.T
    strongest = largest(of_all, NEURONS, ordinary)

    def mixed(seed: int) -> Contributions:
        return (ext @ cb.nulls.mixtures(W_in, seed)).T

    blank = cx.study(cb.nulls.untrained(weights), study.texts, heads=study.heads)
    kinds = {
        f"{NEURONS} neurons": (strongest, circuit),
        "all neurons": (of_all, circuit),
        "as many mixtures": (mixed(0), circuit),
        f"{NEURONS} mixtures, largest top": (largest(mixed(0), NEURONS, ordinary), circuit),
        "an untrained layer": (blank.circuit.contribution.T, blank.circuit),
    }
    kept: dict[str, Any] = {
        kind: Row(rows, of, texts).facts() for kind, (rows, of) in tqdm(kinds.items(), "rows")
    }
    null = [
        Row(largest(mixed(seed), NEURONS, ordinary), circuit, texts).lean()
        for seed in tqdm(range(1, draws + 1), "mixtures")
    ]
    r, best = (np.array(v) for v in zip(*null, strict=True))
    p = cb.nulls.p_value(kept[f"{NEURONS} neurons"]["r"].value, r)
    return {
        "rows": kept,
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
