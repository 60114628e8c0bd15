"""Does a shortage of dimensions make two subjects share a neuron? `data/evidence/toy.json`.

    python tools/evidence/toy.py

A toy with a known answer, for appendix D. Twelve contexts have ten words each, and forty words are
common to all; three pairs of contexts share five of their words, and the words of the last two
contexts are more frequent, so that these lie far out. A text is 60 tokens; its bag passes through
`k` numbers into 200 neurons, which learn to predict the next token. With k = 16 there is room for
all contexts, with k = 4 there is not; each is trained twice.

Kept of each training are the share of neurons that have two subjects ahead of all others, the share
of what the planted pairs have in common that comes from different words, and the cosines of all
pairs of contexts. Five guesses that were written down before are in appendix D.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import command
from evidence import kept
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

import ctxbook as cb
import ctxlib as cx

CONTEXTS, OWN, COMMON, LENGTH, NEURONS, STEPS = 12, 10, 40, 60, 200, 300
AHEAD = 0.9  # a subject is ahead of the rest in a neuron if its AUC is larger than this
TRAININGS = ((16, 0), (16, 1), (4, 0), (4, 1))  # numbers that the bag passes through, and seed
OF = np.arange(2400) % CONTEXTS  # the context of each text
HALF = np.arange(2400) % 24 < 12  # each context in both halves
PAIRS = np.array([(i, k) for i in range(CONTEXTS) for k in range(i)]).T
PLANTED = np.array([i // 2 == k // 2 and i < 6 for i, k in PAIRS.T])


def frequencies() -> Float[Tensor, "context token"]:
    """Return how often each token occurs in each context."""
    words = torch.arange(CONTEXTS * OWN).view(CONTEXTS, OWN)
    words[[0, 2, 4], :5] = words[[1, 3, 5], :5]  # three pairs share half of their words
    often = torch.tensor([0.5] * (CONTEXTS - 2) + [0.8] * 2).double()[:, None]  # two lie far out
    p = torch.zeros(CONTEXTS, CONTEXTS * OWN + COMMON).double()
    p.scatter_(1, words, often.expand(-1, OWN) / OWN)
    p[:, -COMMON:] = (1 - often) / COMMON
    return p


def trained(k: int, seed: int, steps: int = STEPS) -> tuple[Tensor, Tensor, Tensor]:
    """Train bag -> k numbers -> neurons -> next token: the bags and the first two maps."""
    p, chance = frequencies(), torch.Generator().manual_seed(seed)
    drawn = p[OF].multinomial(LENGTH, replacement=True, generator=chance)
    bags = torch.zeros(len(OF), p.shape[1], dtype=p.dtype)
    bags.scatter_add_(1, drawn, torch.ones(drawn.shape, dtype=p.dtype)).div_(LENGTH)
    shapes = (p.shape[1], k), (k, NEURONS), (NEURONS, p.shape[1])
    W = [torch.randn(s, generator=chance, dtype=p.dtype) / s[0] ** 0.5 for s in shapes]
    for w in W:
        w.requires_grad_()
    adam = torch.optim.Adam(W, 0.01)
    for step in range(steps):
        some = slice(step * 200 % 2400, step * 200 % 2400 + 200)
        logits = gelu(bags[some] @ W[0] @ W[1]) @ W[2]
        loss = -(p[OF[some]] * logits.log_softmax(-1)).sum(-1).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return bags, W[0].detach(), W[1].detach()


def means(values: Tensor, of: np.ndarray) -> Tensor:
    """Return the mean of each context, less the mean of these means."""
    mean = torch.stack([values[of == c].mean(0) for c in range(CONTEXTS)])
    return mean - mean.mean(0)


def two_ahead(values: Float[Tensor, "text neuron"]) -> float:
    """Return how many neurons have the two highest contexts of one half both ahead of the rest on
    the other.
    """
    two = means(values[HALF], OF[HALF]).topk(2, dim=0).indices.T.numpy()
    count = 0
    for column, pair in zip(values[~HALF].T.numpy(), two, strict=True):
        own = OF[~HALF] == pair[:, None]  # subject text
        others = own | ~own.any(0)  # without the other subject
        aucs = [cx.neurons.auc(column[m, None], o[m]) for o, m in zip(own, others, strict=True)]
        count += min(aucs).item() > AHEAD
    return count / len(two)


def measure(k: int, seed: int) -> dict[str, Any]:
    bags, E, read = trained(k, seed)
    g = means(bags[~HALF], OF[~HALF])
    gram = (g @ E) @ (g @ E).T
    lengths = gram.diagonal().sqrt()
    same = (g * (E - bags.mean(0) @ E).square().sum(1)) @ g.T / gram
    return {
        "k": k,
        "two subjects ahead": two_ahead(bags @ E @ read),
        "from different words": 1 - np.median(same[tuple(PAIRS)][PLANTED]),
        "planted": PLANTED.tolist(),
        "cosines": (gram / lengths.outer(lengths))[tuple(PAIRS)].tolist(),
    }


@command("toy")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--file", type=Path, default=cb.evidence("toy.json"))
    file = parser.parse_args(argv).file
    for k, seed in TRAININGS:
        kept(file, f"{k}, seed {seed}", measure(k, seed))


if __name__ == "__main__":
    sys.exit(main())
