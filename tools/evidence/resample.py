"""Silence by a mean, or by another text? The ablations of the page on causes (chapter 12), again
with what the heads say of another text in place of what they say of the average one.

    python tools/evidence/resample.py mini smollm2 qwen

The answer goes to `data/evidence/resample.json`. Set before any of it was measured:

- *Another text*: heads of the first layer get what they gathered at the same places of a document
  of half A, drawn from any other domain. *Same domain*: of another document of the text's own.
  Four draws of each (SmolLM2: two, Qwen: one), averaged. Texts, places, heads are those of
  chapter 12: early, first `READ` tokens; the lasting half for what a domain's vector gives back.
  Documents of half B, intervals over documents or domains, whichever is wider, as there; the three
  rows are of English.
- The row of Equation 1 with BOS read exactly (98%) holds up if it repairs more than 0.95 of the KL
  of resampling, either kind, lower end; that of the paper's circuit (-111%) if it stays worse than
  resampling, upper end below 0; that of the domain's vector (78%) if, added to the heads of another
  text less that text's own domain's vector, it gives back more than half of the loss, lower end.
- A model that heard the domain alone would lose nothing with another document of the same domain.
  How much of the loss of another text that leaves is asked beside the vector.
- In SmolLM2 the stable heads, in Qwen head 8 and heads 4 and 7: is the rise of the loss above zero,
  lower end, with a mean and with another text?

Set later, before Qwen was read, which takes minutes: it reads two documents of each English domain,
as many as SmolLM2, and all its heads at once are left out. And, of every model, paired:

- *The domain*: heads carry the domain if another text does more damage than one of the same domain,
  by the difference of the KL, lower end above zero.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from causal import EARLY, READ, SECOND, message, stand_ins
from command import ROOT
from evidence import keeping, resumed
from torch import Tensor

import ctxbook as cb
import ctxlib as cx

OUT = ROOT / "data" / "evidence" / "resample.json"
DRAWS = {"mini": 4, "smollm2": 2, "qwen": 1}
EACH = {"mini": 3, "smollm2": 2, "qwen": 2}  # documents of a domain that are judged
KINDS = ("another text", "same domain")


def drawn_texts(of_B: np.ndarray, of_A: np.ndarray, kind: str, draws: int) -> np.ndarray:
    """For each text of half B as many rows of half A, of other domains or of its own:
    `draw text`.
    """
    rng = np.random.default_rng(KINDS.index(kind))
    pools = [np.flatnonzero((of_A == d) == (kind == "same domain")) for d in of_B]
    return np.stack([[rng.choice(pool) for pool in pools] for _ in range(draws)])


def averaged(effects: list[dict[str, list]]) -> dict[str, list[float]]:
    return {k: np.mean([e[k] for e in effects], axis=0).tolist() for k in effects[0]}


def silences(run, z_A: Tensor, middle: Tensor, heads, picks: dict, work: Path, name: str) -> dict:
    """Rise of the loss and KL of each text: the mean, another text, and the same domain."""

    def effect(z):
        found = run.effect(
            lambda rows: [cx.lookups.replace_z(0, heads, z[rows] if z.ndim == 4 else z)]
        )
        size = found.rise.shape[1]
        return {"kl": found.kl[:, :size].mean(1).tolist(), "rise": found.rise.mean(1).tolist()}

    ways = {"mean": [middle[:, heads]]}
    ways |= {kind: [z_A[rows][:, :, heads] for rows in some] for kind, some in picks.items()}
    return {
        way: averaged(
            [resumed(work / f"{name}-{way}-{k}.json", effect, z) for k, z in enumerate(some)]
        )
        for way, some in ways.items()
    }


def of_mini(study, run, z_A, table, table_A, picks, middle: Tensor, work: Path) -> dict:
    """The rows of chapter 12 for each baseline: what stands in for the heads, and the vectors."""
    heads, W_O = study.heads, study.fixed.readout.W_O

    def put(own_z):
        z = torch.stack([own_z(t) for t in run.tokens])
        found = run.effect(lambda rows: [cx.lookups.replace_z(0, heads, z[rows])])
        return {"kl": found.kl[:, :-1].mean(1).tolist(), "rise": found.rise.mean(1).tolist()}

    rows = {n: resumed(work / f"put-{n[:8]}.json", put, v) for n, v in stand_ins(study).items()}
    late = cb.InterventionRun.of(run.model, table["text"], SECOND)
    written_A = message(z_A[:, :, heads], W_O[heads])
    g_A, g_B = (
        cb.domain_mean(written_A, table_A["domain"], of["domain"]) - written_A.mean(0)
        for of in (table_A, table)
    )

    def loss(z, g=None):
        change = cx.lookups.replace_z
        found = late.effect(
            lambda rows: [
                change(0, heads, z[rows]),
                *([] if g is None else [cx.lookups.add_direction(0, g[rows])]),
            ]
        )
        return found.rise.mean(1).tolist()

    silent = middle[:READ, heads].expand(len(run.tokens), -1, -1, -1)
    given: dict[str, list] = {
        "mean": [loss(silent)],
        "mean, its domain's": [loss(silent, g_B)],
        **{kind: [loss(z_A[some][:, :, heads]) for some in picks[kind]] for kind in KINDS},
        "another text, its domain's": [
            loss(z_A[some][:, :, heads], g_B - g_A[some]) for some in picks[KINDS[0]]
        ],
    }
    return {"put in": rows, "lasting": {k: np.mean(v, axis=0).tolist() for k, v in given.items()}}


def measure(name: str, work: Path) -> dict:
    model = cx.load(name)
    texts = cx.texts.collection(cx.texts.Reader.of(model, 512))
    A, B = cb.halves(texts)
    table = cb.first_windows(B, EACH[name])
    if name == "qwen":
        table = table[table["kind"] == "English"].reset_index(drop=True)
    table_A = cb.first_windows(A, 3 if name == "qwen" else len(A))
    study = cx.study(model, 1000) if name == "mini" else None
    run, run_A = (cb.InterventionRun.of(model, of["text"], EARLY) for of in (table, table_A))
    z_A = run_A.first_layer("attn.hook_z")
    middle, sets = z_A.mean(0), {}
    if study:
        the = torch.tensor([study.fixed.token])
        meant = [torch.cat([text.tokens[: study.n], the]) for text in A[:88]]
        middle = cx.lookups.mean_z(model, meant, study.n + 1)
        sets = {"stable": list(study.heads)}
    elif name == "smollm2":
        roster = json.loads((OUT.parent / "causal.json").read_text())["smollm2"]["roster"]
        sets = {"stable": [int(h) for h, of in roster.items() if of["stable"]]}
    else:
        sets = {"8": [8], "4, 7": [4, 7]}
    of_B, of_A = table["domain"].to_numpy(), table_A["domain"].to_numpy()
    picks = {kind: drawn_texts(of_B, of_A, kind, DRAWS[name]) for kind in KINDS}
    facts = {
        "documents": table[["document", "domain", "kind"]].to_numpy().tolist(),
        "heads": sets,
        "silenced": {s: silences(run, z_A, middle, hs, picks, work, s) for s, hs in sets.items()},
    }
    return facts | (of_mini(study, run, z_A, table, table_A, picks, middle, work) if study else {})


def summed_up(facts: dict) -> dict:
    """Shares and rises in English, with the wider interval."""
    kinds = np.array([kind for *_, kind in facts["documents"]])
    rows = np.flatnonzero(kinds == "English")
    texts = [SimpleNamespace(name=d, domain=k, document=d) for d, k, _ in facts["documents"]]
    english = [texts[i] for i in rows]

    def share(part, whole):
        part, whole = (np.array(v)[rows] for v in (part, whole))
        return [
            *cb.with_interval(
                lambda d: 1 - part[d].mean() / whole[d].mean(), english, units=cb.WIDER
            )[:3]
        ]

    def mean(values):
        values = np.array(values)[rows]
        return [*cb.with_interval(lambda d: values[d].mean(), english, units=cb.WIDER)[:3]]

    out = {
        f"heads {s}: {way}, {k}": mean(v)
        for s, ways in facts["silenced"].items()
        for way, of in ways.items()
        for k, v in of.items()
    }
    for s, ways in facts["silenced"].items():
        other, same = (np.array(ways[kind]["kl"]) for kind in KINDS)
        out[f"heads {s}: another text less same domain, kl"] = mean(other - same)
    if "put in" in facts:
        for row, of in facts["put in"].items():
            for way, silent in facts["silenced"]["stable"].items():
                out |= {f"{row}, of {way}, {k}": share(of[k], silent[k]) for k in ("kl", "rise")}
        late = facts["lasting"]
        out["its domain's vector, of mean"] = share(late["mean, its domain's"], late["mean"])
        out["its domain's vector, of another text"] = share(
            late["another text, its domain's"], late["another text"]
        )
        out["another document of its domain, of another text"] = share(
            late["same domain"], late["another text"]
        )
    return {"English texts": len(rows), **out}


def measured_of(name: str) -> dict:
    facts = measure(name, Path("build/resample") / name)
    return {"result": summed_up(facts)} | facts


main = keeping("resample", __doc__, OUT, DRAWS, measured_of)


if __name__ == "__main__":
    sys.exit(main())
