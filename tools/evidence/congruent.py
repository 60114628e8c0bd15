"""Next-token neurons by congruence, as published, beside those by P (chapter 15); and how much of a
head's work for the token goes straight through the neuron.

    python tools/evidence/congruent.py --models mini smollm2

The answer goes to `data/evidence/congruent.json`. Set before any was measured, on chapter 15's
texts, neurons (the last five layers) and peaks; half A chooses, half B counts:

- Groups of 24: by P in half A; by congruence, the publication's rule; for each of these the neuron
  of the same token that is not in either and nearest in P (half A), each once; and random ones.
- Congruence finds next-token neurons if at least half of its 24 reach P >= 0.5 on half B.
- A head's tenth: in how many neurons does the head that is strongest in half A bring a tenth or
  more of the rise in half B? More than in its matched group: permutation of the two groups, p below
  0.05.
- Path patching, head -> neuron -> token: at each of the 4 loudest peaks the strongest head's direct
  term in the neuron's inputs is put at its mean, norm as it is, and the neuron alone is set to what
  it then does; the fall of the token's log P. The path is there if the mean over a group is above
  zero, lower end of the wider of two intervals (documents, tokens); compared with the matched group
  by permutation. Its share in the fall when the head is silent is given where that fall is above
  zero.
"""

from __future__ import annotations

import argparse
import sys
from types import SimpleNamespace

import numpy as np
import torch
from command import ROOT, command
from evidence import defined_in, kept, provenance
from torch import Tensor
from tqdm import tqdm

import ctxbook as cb
import ctxlib as cx

OUT = ROOT / "data" / "evidence" / "congruent.json"
COUNT, LIKELY, TENTH = 24, 0.5, 0.1
TEXTS = {"mini": 240, "smollm2": 240, "qwen": 100}


def alike(chosen: list, tokens: Tensor, P: Tensor, taken: set) -> list:
    """For each place the nearest in P of its token that is not taken: `layer side neuron`; None
    where there is none left.
    """
    taken, found = set(taken), []
    for place in chosen:
        pool = [tuple(p) for p in ((tokens == tokens[place]) & (P > 0)).nonzero().tolist()]
        pool = sorted((abs(float(P[p] - P[place])), p) for p in pool if p not in taken)
        found.append(pool[0][1] if pool else None)
        taken.add(found[-1])
    return found


def groups_of(tokens: Tensor, size: Tensor, P: Tensor) -> dict[str, list]:
    """The places of each group."""

    def largest(scores):
        flat = scores.flatten().topk(min(COUNT, scores.numel())).indices
        return [tuple(map(int, np.unravel_index(int(i), scores.shape))) for i in flat]

    by_P, by_size = largest(P), largest(size.masked_fill(P == 0, -torch.inf))
    taken, awake = {*by_P, *by_size}, (P > 0).nonzero().tolist()
    rest = [tuple(p) for p in awake if tuple(p) not in taken]
    random = [rest[i] for i in np.random.default_rng(0).choice(len(rest), COUNT, replace=False)]
    return {
        "by P": by_P,
        "like those by P": alike(by_P, tokens, P, taken),
        "by congruence": by_size,
        "like those by congruence": alike(by_size, tokens, P, taken),
        "random": random,
    }


def patched(there: dict, model, look, found) -> Tensor:
    """The neurons' activations at their loudest peaks with the strongest head's direct term at its
    mean: `peak neuron`.
    """
    usual, peak = found.in_B.usual, found.in_B.there
    inputs = sum(peak[n].flatten(2, 3).sum(2) if n == "heads" else peak[n] for n in there["PARTS"])
    moved = (peak["heads"] - usual["heads"]).flatten(2, 3)  # peak neuron head input
    strongest = found.profile_A.argmax(1)
    term = moved[:, torch.arange(len(strongest)), strongest]
    before, after = (there["activation"](model, v) for v in (inputs, inputs - term))
    near = 1e-2 * float(peak["post"].abs().max())
    if not torch.allclose(before, peak["post"], atol=near):
        raise ValueError("the terms do not give the activations: path patching would be wrong")
    return after


def measure(name: str) -> dict:
    """Every neuron's numbers, and which groups it is in."""
    there = defined_in("15_lookups")
    model = cx.load(name)
    halves = there["texts_of"](model, TEXTS[name])
    first = there["chosen"](model, halves, COUNT)
    layers = [k for k in range(model.cfg.n_layers) if cx.adapter.upstream_layers(model, k)][-5:]
    tokens, size = (
        torch.stack(v) for v in zip(*(there["spoken"](model, k) for k in layers), strict=True)
    )
    groups = groups_of(tokens, size, first.P["A"])
    places = sorted({p for some in groups.values() for p in some if p})  # by layer, as `read` needs
    look = SimpleNamespace(
        tokens=torch.stack([tokens[p] for p in places]),
        places=[(layers[k], j) for k, _, j in places],
        side=torch.tensor([1 - 2 * s for _, s, _ in places]),
    )
    found = there["looked_up"](model, halves, look)
    heads = found.rise["heads"].flatten(2)  # peak neuron head
    each, strongest = torch.arange(len(places)), found.profile_A.argmax(1)
    share = heads[:, each, strongest].mean(0) / found.rise["all"].mean(0)
    lost, B = there["fall"], halves["B"][0]
    falls = {
        "path": lost(
            model, look, B, found.in_B, found.in_A.z, neurons=patched(there, model, look, found)
        ),
        "the strongest head": lost(
            model, look, B, found.in_B, found.in_A.z, there["ranked"](model, found, slice(0, 1))
        ),
        "the neuron": lost(
            model,
            look,
            B,
            found.in_B,
            found.in_A.z,
            neurons=found.in_A.usual["post"].expand_as(found.in_B.there["post"]),
        ),
    }
    return {
        "groups": {g: [p and places.index(p) for p in some] for g, some in groups.items()},
        "places": [[*fixed, int(s)] for fixed, s in zip(look.places, look.side, strict=True)],
        "token": [model.tokenizer.decode([int(t)]) for t in look.tokens],
        "congruence": [float(size[p]) for p in places],
        "P": {h: [float(first.P[h][p]) for p in places] for h in "AB"},
        "share": share.tolist(),
        "documents": found.documents.tolist(),
        "log P": found.in_B.there["log P"].mean(0).tolist(),
        "fall": {k: v.tolist() for k, v in falls.items()},
    }


def summed_up(facts: dict) -> dict:
    """Means of every group, intervals, and p against the matched one."""

    def mean(values, members):
        values = np.array(values)[:, members]
        documents = np.array(facts["documents"])[: len(values), members]
        names = np.broadcast_to(np.array(facts["token"])[members], values.shape)
        entries = [
            SimpleNamespace(document=d, domain=t, name=d)
            for d, t in zip(documents.ravel(), names.ravel(), strict=True)
        ]
        flat = values.ravel()
        return [*cb.with_interval(lambda d: flat[d].mean(), entries, units=cb.WIDER)[:3]]

    def p_of(one, other, draws=1999):
        both, rng = np.concatenate([one, other]), np.random.default_rng(0)
        null = [
            (v[: len(one)].mean() - v[len(one) :].mean())
            for v in (rng.permutation(both) for _ in range(draws))
        ]
        return cb.nulls.p_value(abs(one.mean() - other.mean()), np.abs(null))

    share, P = np.array(facts["share"]), {h: np.array(v) for h, v in facts["P"].items()}
    fall = {k: np.array(v).mean(0) for k, v in facts["fall"].items()}
    out: dict[str, dict] = {}
    for group, members in tqdm(facts["groups"].items(), "groups"):
        i = [m for m in members if m is not None]
        out[group] = {
            "neurons": len(i),
            "tokens": len({facts["token"][m] for m in i}),
            **{f"P, half {h}": float(P[h][i].mean()) for h in "AB"},
            "P of half or more, B": int((P["B"][i] >= LIKELY).sum()),
            "a tenth or more": int((share[i] >= TENTH).sum()),
            "share, median": float(np.median(share[i])),
            **{f"fall, {k}": mean(v, i) for k, v in facts["fall"].items()},
        }
    for group in ("by P", "by congruence"):
        pairs = [
            (a, b)
            for a, b in zip(
                facts["groups"][group], facts["groups"][f"like those {group}"], strict=True
            )
            if b is not None
        ]
        a, b = np.array(pairs).T
        out[f"{group}, against those like them"] = {
            "pairs": len(pairs),
            "P in half A": [float(P["A"][a].mean()), float(P["A"][b].mean())],
            "a tenth or more": [int((share[v] >= TENTH).sum()) for v in (a, b)],
            "a tenth or more, p": p_of((share[a] >= TENTH) * 1.0, (share[b] >= TENTH) * 1.0),
            **{f"fall, {k}, p": p_of(v[a], v[b]) for k, v in fall.items()},
        }
    return out


@command("congruent")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=["mini", "smollm2"], choices=list(TEXTS))
    args = parser.parse_args(argv)
    torch.set_grad_enabled(False)
    for name in args.models:
        facts = measure(name)
        kept(OUT, name, provenance(name) | {"result": summed_up(facts)} | facts)


if __name__ == "__main__":
    sys.exit(main())
