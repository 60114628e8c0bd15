"""Are neurons special? Silence the context-sensitive neurons that the weights find, and random
mixtures of other neurons that are matched to them.

    python tools/evidence/special.py mini

The answer goes to `data/evidence/special.json`. Set before any of it was measured:

- *Found* are the 100 neurons of the first layer that single tokens can move farthest (chapter 6).
  A *direction* is a unit vector over neurons: one neuron, or a mixture of 2 to 32 neurons that were
  not found, with normal factors. Its activation is that of the neurons along it. Its label is the
  domain whose texts have a mean activation farthest above that of the others; its spread is the
  standard deviation of a text's mean; its norm is the length of what it writes. All on half A.
- Silence puts the mean over half A in place of the activation, at every place: what varies along
  the direction is gone. The found neurons of one label are silenced together, for each label that
  at least `LEAST` of them have, and in their place as many matched directions: of the same label,
  nearest in log spread and log norm. Three controls: mixtures matched in the spread over texts;
  mixtures matched in the spread over tokens; neurons that were not found, matched as the first.
- Half B judges: documents of the label, and one of every other domain. Rise of the loss and KL
  divergence, a mean over places, texts and labels, intervals over documents.
- Neurons are special if the KL on texts of their label is larger than with the first mixtures
  (ratio above 1, interval too), and selective if their KL on the label over that off it is larger
  than the mixtures' (the same). Both must hold in `mini` and in SmolLM2. The other controls say
  why; they decide nothing.
- Set later, after `mini`'s result and before SmolLM2's: a fourth control, mixtures that lean to the
  label as much. They are made of the 100 other neurons that lean farthest, each with the sign of
  its lean, and matched in the lean (how far the label's mean lies above the others') and the norm.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from command import ROOT
from evidence import keeping, resumed
from torch import Tensor
from tqdm import tqdm

import ctxbook as cb
import ctxlib as cx

OUT = ROOT / "data" / "evidence" / "special.json"
FOUND, LEAST, POOL = 100, 3, 40_000  # neurons; of one label; mixtures to choose from
FROM, UNTIL = 64, 192  # tokens: where the text has had its say
GROUPS = ("mixtures", "mixtures, tokens", "neurons", "leaning mixtures")
SIZES = {  # labels, documents of the label, other domains, draws
    "mini": (10, 12, 21, 6),
    "smollm2": (4, 5, 8, 2),
}
HOOK = "blocks.0.mlp.hook_post"


def activations(model, texts) -> dict[str, Tensor]:
    """Of the first layer's neurons, past `FROM`: the mean in each text, and over all texts the mean
    and the second moments, from which the spread of any direction follows.
    """
    batches = [texts[i : i + 8] for i in range(0, len(texts), 8)]
    means, mean, square = [], torch.zeros(()), torch.zeros(())
    for some in tqdm(batches, "activations", leave=False):
        tokens = torch.stack([text.tokens[:UNTIL] for text in some])
        _, cache = model.run_with_cache(tokens, names_filter=HOOK, stop_at_layer=1)
        post = cache[HOOK][:, FROM:].cpu()
        means.append(post.mean(1))
        flat = post.flatten(0, 1).double()
        mean, square = mean + flat.sum(0), square + flat.T @ flat
    count = len(texts) * (UNTIL - FROM)
    mean, square = mean / count, square / count
    return {"means": torch.cat(means), "mean": mean.float(), "square": square}


def leans_of(means: Tensor, domains: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """How far each domain's mean lies above that of the other texts, in each column."""
    names, member = np.unique(domains, return_inverse=True)
    inside = torch.from_numpy(member == np.arange(len(names))[:, None]).float()
    count = inside.sum(1, keepdim=True)
    total = inside @ means
    return names, total / count - (means.sum(0) - total) / (len(means) - count)


def facts_of(U: Tensor, seen: dict[str, Tensor], W_out: Tensor, domains: np.ndarray) -> dict:
    """What directions `neuron direction` are matched in."""
    means = seen["means"] @ U
    moment = ((seen["square"].float() @ U) * U).sum(0) - (seen["mean"] @ U) ** 2
    names, lean = leans_of(means, domains)
    return {
        "label": names[lean.argmax(0).numpy()],
        "lean": lean.amax(0).clamp(min=1e-9).log().numpy(),
        "spread": means.std(0).clamp(min=1e-9).log().numpy(),
        "tokens": moment.clamp(min=1e-18).sqrt().log().numpy(),
        "norm": (U.T @ W_out).norm(dim=1).log().numpy(),
    }


def pool_of(others: np.ndarray, count: int, n_neurons: int, signs=None) -> Tensor:
    """Random mixtures of 2, 4, 8, 16 or 32 of these neurons, with normal factors, or these signs:
    `neuron mixture`.
    """
    rng, U = np.random.default_rng(0), np.zeros((n_neurons, count), np.float32)
    for column, size in enumerate(rng.choice([2, 4, 8, 16, 32], count)):
        some, factors = rng.choice(others, size, replace=False), rng.standard_normal(size)
        U[some, column] = factors if signs is None else abs(factors) * signs[some]
    return torch.from_numpy(U / np.linalg.norm(U, axis=0))


def matched(own: dict, pool: dict, members: list[int], by: str, draws: int) -> np.ndarray:
    """For each draw as many of the pool as there are members, each of its member's label and near
    it, none twice: `draw member`.
    """
    taken, sets = set(), []
    for _ in range(draws):
        for j in members:
            far = np.hypot(pool[by] - own[by][j], pool["norm"] - own["norm"][j])
            far[pool["label"] != own["label"][j]] = np.inf
            order = np.argsort(far, kind="stable")
            pick = next((k for k in order if k not in taken and np.isfinite(far[k])), order[0])
            taken.add(int(pick))
            sets.append(int(pick))
    return np.array(sets).reshape(draws, len(members))


def silence(directions: Tensor, mean: Tensor):
    """A hook that leaves the mean along these directions."""
    Q = torch.linalg.qr(directions).Q

    def hook(own, hook):
        return own - (own - mean.to(own)) @ Q.to(own) @ Q.T.to(own)

    return HOOK, hook


def judged(B, label: str, on: int, off: int):
    """First windows of documents of the label, and of a document of each other domain."""
    first: dict[str, Any] = {}
    for text in B:
        first.setdefault(text.document or text.name, text)
    own = [t for t in first.values() if t.domain == label][:on]
    others = {t.domain: t for t in reversed(first.values()) if t.domain != label}
    return own, [others[d] for d in sorted(others)][:off]


def measure(model, study, texts, sizes, work: Path) -> dict:
    """Silence every label's neurons, and what is matched to them; numbers a text."""
    n_labels, on, off, draws = sizes
    A, B = cb.halves([t for t in texts if len(t.tokens) >= UNTIL])
    domains = np.array([text.domain for text in A])
    found = cx.find_neurons(study.circuit, threshold=-np.inf).index[:FOUND].tolist()
    W_out = model.blocks[0].mlp.W_out.detach().cpu()
    seen, eye = activations(model, A), torch.eye(len(W_out))
    own = facts_of(eye, seen, W_out, domains)
    others = np.setdiff1d(np.arange(len(W_out)), found)
    U = pool_of(others, POOL, len(W_out))
    mixed = facts_of(U, seen, W_out, domains)
    rest = {k: v.copy() for k, v in own.items()}
    rest["label"][found] = ""  # found neurons are no controls
    names, counts = np.unique(own["label"][found], return_counts=True)
    names = names[np.argsort(-counts, kind="stable")][: (np.sort(counts)[::-1] >= LEAST).sum()]
    labels, lean = leans_of(seen["means"], domains)
    positions, out = torch.arange(FROM - 1, UNTIL, 4), {}
    for label in tqdm(names[:n_labels].tolist(), "labels"):
        members = [j for j in found if own["label"][j] == label]
        sets = {"found": [eye[:, members]]}
        off_by = {}
        own_lean = lean[labels.tolist().index(label)].numpy()
        leaning = others[np.argsort(-abs(own_lean[others]), kind="stable")[:FOUND]]
        V = pool_of(leaning, POOL // 10, len(W_out), np.sign(own_lean))
        pools = (
            (mixed, U, "spread"),
            (mixed, U, "tokens"),
            (rest, eye, "spread"),
            (facts_of(V, seen, W_out, domains), V, "lean"),
        )
        for group, (pool, of, by) in zip(GROUPS, pools, strict=True):
            chosen = matched(own, pool, members, by, draws)
            sets[group] = [of[:, row] for row in chosen]
            off_by[group] = {
                k: float(np.abs(pool[k][chosen] - own[k][members]).mean()) for k in (by, "norm")
            }
            off_by[group]["of the label"] = float((pool["label"][chosen] == label).mean())
        of_label, of_others = judged(B, label, on, off)
        run = cb.InterventionRun.of(model, [*of_label, *of_others], positions)

        def effects(directions, run=run):
            effect = run.effect(lambda rows: [silence(directions, seen["mean"])])
            return {"kl": effect.kl.mean(1).tolist(), "rise": effect.rise.mean(1).tolist()}

        out[label] = {
            "members": members,
            "off by": off_by,
            "documents": [t.document or t.name for t in (*of_label, *of_others)],
            "on": len(of_label),
            **{
                group: [
                    resumed(work / f"{label}-{group}-{k}.json", effects, d)
                    for k, d in enumerate(some)
                ]
                for group, some in sets.items()
            },
        }
    return out


def summed_up(labels: dict) -> dict:
    """Ratios and differences of found neurons and controls, with intervals over documents."""
    entries: list[Any] = []
    held: dict[str, dict[str, list]] = {g: {"kl": [], "rise": []} for g in ("found", *GROUPS)}
    of_label: list[bool] = []
    for own in labels.values():
        entries += [SimpleNamespace(document=d, domain="", name=d) for d in own["documents"]]
        of_label += [i < own["on"] for i in range(len(own["documents"]))]
        for group, of in held.items():
            for kind, rows in of.items():
                rows += np.mean([draw[kind] for draw in own[group]], axis=0).tolist()
    on = np.array(of_label)
    values = {g: {k: np.array(v) for k, v in of.items()} for g, of in held.items()}

    def mean(group, kind, drawn, side):
        rows = drawn[on[drawn] == side]
        return values[group][kind][rows].mean()

    def estimate(statistic):
        return [*cb.with_interval(statistic, entries)[:3]]

    def log_share(group, drawn):
        return np.log(mean(group, "kl", drawn, True) / mean(group, "kl", drawn, False))

    facts: dict[str, Any] = {
        "labels": len(labels),
        "neurons": sum(len(v["members"]) for v in labels.values()),
    }
    for group in values:
        facts[group] = {
            f"{kind} {place}": estimate(lambda d, g=group, k=kind, s=side: mean(g, k, d, s))
            for kind in ("kl", "rise")
            for place, side in (("on", True), ("off", False))
        }
        facts[group]["on over off"] = [
            float(np.exp(v)) for v in estimate(lambda d, g=group: log_share(g, d))
        ]
    for group in GROUPS:
        facts[f"found, of {group}"] = {
            "kl on, ratio": [
                float(np.exp(v))
                for v in estimate(
                    lambda d, g=group: np.log(mean("found", "kl", d, True) / mean(g, "kl", d, True))
                )
            ],
            "kl off, ratio": [
                float(np.exp(v))
                for v in estimate(
                    lambda d, g=group: np.log(
                        mean("found", "kl", d, False) / mean(g, "kl", d, False)
                    )
                )
            ],
            "rise on, difference": estimate(
                lambda d, g=group: mean("found", "rise", d, True) - mean(g, "rise", d, True)
            ),
            "selectivity, ratio": [
                float(np.exp(v))
                for v in estimate(lambda d, g=group: log_share("found", d) - log_share(g, d))
            ],
            "labels with the larger kl on": int(
                sum(
                    np.mean(own["found"][0]["kl"][: own["on"]])
                    > np.mean([d["kl"][: own["on"]] for d in own[group]])
                    for own in labels.values()
                )
            ),
        }
    return facts


def measured_of(name: str) -> dict:
    model = cx.load(name)
    texts = cx.texts.collection(cx.texts.Reader.of(model, 512))
    if name == "mini":
        study = cx.study(model, 1000)
    else:
        A, _ = cb.halves(texts)
        study = cx.study(cx.fix_query(model, A, 256), A, or_all=True)
    work = Path("build/special") / "-".join(map(str, (name, *SIZES[name])))
    labels = measure(model, study, texts, SIZES[name], work)
    return {"result": summed_up(labels), "labels": labels}


main = keeping("special", __doc__, OUT, SIZES, measured_of)


if __name__ == "__main__":
    sys.exit(main())
