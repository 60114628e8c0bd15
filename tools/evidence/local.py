"""What local heads of real first layers look at, and which pairs of tokens they prefer:
`data/evidence/local.json`, for appendices C and F and chapter 3.

    python tools/evidence/local.py

Fixed before Qwen and SmolLM2 were measured: the best local head prefers the true first piece of a
split word to that of another one in 75% of cases, a head chosen on half A and asked about pairs of
half B that half A does not have; the median local head does so by 0.05 oftener than the median
broad one; what is left of the table of heads and kinds of pairs without its margins correlates by
0.5 from half to half; no local head looks for copies, by 2 nats; a head of the first layer makes
what it looks at less likely, on the direct path, in three of four tokens. Fixed later, also before
its measurement: denominators of local heads are twice as rough along a text as those of broad
heads; MiniLM's local kernels keep within a TV of 0.1 from one query position to another; the median
stable head strays by 30% at most over texts; keywords explain half of the variance of log denom in
the broad head that shows it best on half A. What became of these is on the pages.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from command import command
from einops import einsum, rearrange, repeat
from evidence import provenance, rounded
from files import replace
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

import ctxbook as cb
import ctxlib as cx
from ctxlib.query import FixedQuery

TEXTS, PAIRS, TOKEN = 1000, 1500, " the"
KINDS = ("split word", "name", "other words", "common words", "number", "mark")
DISTANCES = (1, 2, 4, 8, 16, 32, 64)
PLACES = (64, 96, 128, 160, 192)  # query positions in MiniLM
NAMES = {"qwen": "Qwen", "smollm2": "SmolLM2"}
ASKED = (
    "cases in which the best local head prefers the true first piece (75%)",
    "the same, median local head less median other one (0.05)",
    "heads and kinds of pairs: r from half to half (0.5, beyond chance)",
    "nats by which a local head looks for copies, at most (2)",
    "tokens whose own logit a head lowers when it looks at them (75%)",
    "roughness of denominators, local heads over broad ones (2)",
    "TV of MiniLM's local kernels from one query position to another, at most (0.1)",
    "how far the median stable head strays over texts, at most (30%)",
    "variance of log denom in a broad head that keywords explain (half, in both)",
)

# ---------------------------------------------------------------- queries and keys


def turned(k: Tensor, theta: Tensor, distance: int) -> Tensor:
    """Return keys as a rotary query sees them from `distance` further on."""
    (a, b), angle = k.chunk(2, dim=-1), -distance * theta
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


@dataclass(eq=False)
class Layer:
    """Queries and keys of a first layer, of any token at any distance."""

    model: Any
    fixed: FixedQuery
    counts: Tensor  # how often half A has each token

    def __post_init__(self) -> None:
        attn = self.model.blocks[0].attn
        self.W_Q, self.b_Q = attn.W_Q.detach(), attn.b_Q
        shared = len(attn.W_Q) // len(attn.W_K)
        self.W_K = repeat(attn.W_K.detach(), "kv m d -> (kv shared) m d", shared=shared)
        self.n = self.fixed.n
        self.rotary = self.exact.positions == "rotary"
        self.used = self.counts.nonzero()[:, 0]
        self.share = self.counts[self.used] / self.counts.sum()
        self.mean_q = einsum(self.queries(self.used), self.share, "h t d, t -> h d")[:, None]

    @property
    def exact(self) -> Any:
        """The layer as a model has it, with its embeddings."""
        return self.fixed.require_exact()

    def read(self, tokens: Tensor, distance: int) -> Tensor:
        at = self.exact.position_offset[self.n - distance]
        return cx.layer_norm(self.exact.E[tokens] + at, self.fixed.readout.eps)

    def queries(self, tokens: Tensor) -> Float[Tensor, "head token d_head"]:
        q = einsum(self.read(tokens, 0), self.W_Q, "t m, h m d -> h t d")
        return q if self.b_Q is None else q + self.b_Q.detach()[:, None]

    def keys(self, tokens: Tensor, distance: int) -> Float[Tensor, "head token d_head"]:
        k = einsum(self.read(tokens, distance), self.W_K, "t m, h m d -> h t d")
        if not self.rotary:
            return k
        return turned(k, self.model.original_model.model.rotary_emb.inv_freq.cpu(), distance)

    def entries(self, seconds: Tensor, firsts: Tensor, distance: int) -> Tensor:
        """Return `head second first`: by how many nats a token gets more than its margins say."""
        mean_k = einsum(self.keys(self.used, distance), self.share, "h t d, t -> h d")[:, None]
        q, k = self.queries(seconds) - self.mean_q, self.keys(firsts, distance) - mean_k
        return einsum(q, k, "h a d, h b d -> h a b") / math.sqrt(k.shape[-1])


# ---------------------------------------------------------------- pairs of tokens


def kind_of(first: str, second: str, common: set[str]) -> str | None:
    """Return the kind of a pair by how its pieces are written, or None."""
    if not first or not second:
        return None
    word = {piece: piece[0] in " Ġ" and piece[1:].isalpha() for piece in (first, second)}
    if second.isalpha() and first[-1].isalpha():
        return "split word"
    if first.strip().isdigit() and second.isdigit():
        return "number"
    if not any(c.isalnum() or c.isspace() for c in second):
        return "mark"
    if not (word[first] and word[second]):
        return None
    if first[1].isupper() and second[1].isupper():
        return "name"
    return "common words" if {first, second} <= common else "other words"


def pairs_in(texts: list[Any], words: list[str], common: set[str]) -> pd.DataFrame:
    """Return pairs side by side in two documents or more: how often, and of what kind."""
    of_text = [np.stack([t.tokens[1:-1], t.tokens[2:]]) for t in texts]
    sides = pd.DataFrame(np.concatenate(of_text, 1).T, columns=["first", "second"])
    sides["document"] = np.repeat([t.document for t in texts], [p.shape[1] for p in of_text])
    pairs = sides.groupby(["first", "second"], sort=False)["document"].agg(["size", "nunique"])
    pairs = pairs.query("nunique > 1").reset_index()
    ids = zip(pairs["first"], pairs["second"], strict=True)
    return pairs.assign(kind=[kind_of(words[a], words[b], common) for a, b in ids]).dropna()


def paired(entry: Tensor, there: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """Return `head pair`, how often the true partner has more than another, and the means of 1000
    random pairings. `entry` has true pairs on its diagonal; `there` says which others stand side by
    side somewhere."""
    true, other = entry.diagonal(dim1=1, dim2=2)[..., None], ~torch.as_tensor(there)
    other.fill_diagonal_(False)
    wins = ((true > entry) & other).sum(-1) / other.sum(-1)
    ranks = entry.numpy().argsort(-1).argsort(-1) / (entry.shape[-1] - 1)
    ranks = rearrange(ranks, "head second first -> second first head").copy()  # read row by row
    rows = np.arange(len(ranks))
    drawn = [ranks[rows, order].mean(0) for order in cb.nulls.permuted(rows, 1000)]
    return wins, np.stack(drawn)  # draw head


def interval(values: np.ndarray) -> list[Any]:
    """Return the 95% interval of a mean, pairs drawn again: `... pair -> ... end`."""
    drawn = np.random.default_rng(0).integers(values.shape[-1], size=(999, values.shape[-1]))
    means = np.stack([values[..., some].mean(-1) for some in drawn], -1)
    ends: list[Any] = np.quantile(means, (0.025, 0.975), axis=-1).T.tolist()
    return ends


def copying(of: Layer, flat: Tensor) -> list[Any]:
    """Return `head distance`: by how many nats a head likes a copy of the query token."""
    drawn = flat[np.random.default_rng(0).integers(len(flat), size=PAIRS)]
    diagonals = [of.entries(drawn, drawn, d) for d in DISTANCES if d < of.n]
    return torch.stack([e.diagonal(dim1=1, dim2=2).mean(1) for e in diagonals], 1).tolist()


def suppressing(of: Layer) -> dict[str, Any]:
    """Return, for each half of the commoner tokens, `head`: how often a token that is looked at
    makes itself likelier than it makes another, on the direct path; and 1000 random pairings."""
    W_U = cx.lookups.layers.unembedding(of.model).detach().cpu()
    usual = of.counts.argsort(descending=True, stable=True)[: 2 * PAIRS]
    facts, W_V, W_O = {}, of.exact.W_V, of.fixed.readout.W_O
    for half, some in zip("AB", (usual[::2], usual[1::2]), strict=True):
        added = einsum(of.read(some, 0), W_V, W_O, "t m, h m d, h d e -> h t e")
        effect = einsum(added, W_U[:, some], "h t e, e u -> h t u")
        effect = effect - effect.mean(1, keepdim=True)  # what it adds whatever it looks at
        wins, drawn = paired(effect, np.zeros(effect.shape[1:], bool))
        edges = np.quantile(drawn.min(1), 0.01), np.quantile(drawn.max(1), 0.99)
        facts[half] = {"itself": wins.mean(1).tolist(), "null": list(map(float, edges))}
    return facts


# ---------------------------------------------------------------- denominators


def by_distance(of: Layer, texts: list[Any], steps: int = 0) -> tuple[Tensor, Tensor]:
    """Return the kernels by distance and the texts' tokens, BOS left out."""
    rows = [t.tokens[1 : of.n + 1 + steps] for t in texts if len(t.tokens) > of.n + steps]
    return of.fixed.decomposition.kernels.flip(-1)[:, : of.n], torch.stack(rows)


def roughness(of: Layer, texts: list[Any], steps: int = 24) -> list[float]:
    """Return `head`: the mean step of a denominator from one query position to the next, over its
    mean; a factor that all texts share is divided out (appendix C)."""
    kernel, x = by_distance(of, texts, steps)
    windows = x.unfold(1, of.n, 1).flip(-1)  # text query distance
    content = of.fixed.decomposition.content
    along = torch.stack([(c[windows] * k).sum(-1) for c, k in zip(content, kernel, strict=True)])
    along = along / along.mean(1, keepdim=True)
    return (along.diff(dim=-1).abs().mean(-1) / along.mean(-1)).mean(-1).tolist()


def along(of: Layer, texts: list[Any], stable: list[int]) -> dict[int, float]:
    """Return the coefficient of variation over texts at query positions along them, of the median
    stable head."""
    (kernel, x), spread = by_distance(of, texts), {}
    for m in (2**k for k in range(3, 20) if 2**k <= of.n):
        parts = of.fixed.decomposition.content[stable][:, x[:, :m]]
        denoms = (parts * kernel[stable, None, :m].flip(-1)).sum(-1)  # head text
        spread[m] = float((denoms.std(1) / denoms.mean(1)).median())
    return spread


def by_keywords(of: Layer, halves: dict[str, list[Any]], broad: list[int]) -> dict[str, Any]:
    """Return the part of the variance of log denom that the share of keywords explains, all tokens
    but the 50 commonest: on half B, in the broad head in which it is largest on half A."""
    x = {h: by_distance(of, some)[1] for h, some in halves.items()}
    common = x["A"].flatten().bincount().argsort(descending=True)[:50]
    share = {h: 1 - torch.isin(v, common).float().mean(1).numpy() for h, v in x.items()}
    logs = {h: cx.softmax_denominators(of.fixed, t).log().numpy().T for h, t in halves.items()}

    def explained(half: str, head: int, drawn: Any) -> float:
        return float(np.corrcoef(share[half][drawn], logs[half][head, drawn])[0, 1] ** 2)

    head = max(broad, key=lambda h: explained("A", h, slice(None)))
    on_B = cb.with_interval(lambda d: explained("B", head, d), halves["B"], 199)
    return {"head": head, "explained": on_B.value, "ends": on_B.ends}


# ---------------------------------------------------------------- whole models


def look(name: str) -> dict[str, Any]:
    """Return everything that is asked of the first layer of a model."""
    model = cx.load(name, layers=1)
    texts = cx.texts.collection(cx.texts.Reader.of(model, min(512, model.cfg.n_ctx)), TEXTS)
    halves = dict(zip("AB", cb.halves(texts), strict=True))
    d_vocab = model.cfg.d_vocab
    flat = {half: torch.cat([t.tokens[1:] for t in some]) for half, some in halves.items()}
    n = min(len(text.tokens) for text in halves["A"]) // 2
    fixed = cx.fit_additive(model, halves["A"][:64], n, TOKEN)
    of = Layer(model, fixed, flat["A"].bincount(minlength=d_vocab))
    words = [model.tokenizer.decode([t]) for t in range(d_vocab)]
    usual = of.counts.argsort(descending=True).tolist()
    usual = [t for t in usual if words[t][:1] == " " and words[t][1:].isalpha()]
    common = {words[t] for t in usual[:100]}
    pairs = {half: pairs_in(some, words, common) for half, some in halves.items()}
    code = {half: table["first"] * d_vocab + table["second"] for half, table in pairs.items()}
    pairs["B"] = pairs["B"][~code["B"].isin(code["A"])]  # pairs that half A does not have
    everywhere = np.unique(torch.cat([t[:-1] * d_vocab + t[1:] for t in flat.values()]))
    roster = cx.denominators.head_table(fixed, halves["A"][:64])
    local = [h for h, family in enumerate(roster["family"]) if family == "local"]
    facts: dict[str, Any] = {
        "tokens": sum(map(len, flat.values())), "local": local,
        "kernel": fixed.decomposition.kernels[:, [-1, -2]].T.tolist(),  # itself, the one before
        "roster": roster[["effective tokens", "family"]].to_dict("list"),
        "kinds": {}, "null": {}, "many": {}, "interval": {},
    }  # fmt: skip
    for half, table in pairs.items():
        for kind in KINDS:
            some = table[table["kind"] == kind]
            some = some.sample(min(PAIRS, len(some)), random_state=0)
            if len(some) < 50:
                continue
            first, second = (torch.tensor(some[k].to_numpy()) for k in ("first", "second"))
            there = np.isin(first[None] * d_vocab + second[:, None], everywhere)
            if there.mean(1).max() > 0.9:  # digits: all of them stand side by side
                continue
            wins, drawn = paired(of.entries(second, first, 1), there)
            key = f"{kind}, {half}"
            facts["kinds"][key], facts["many"][key] = wins.mean(1).tolist(), len(some)
            facts["interval"][key] = interval(wins.numpy())
            facts["null"][key] = float(np.quantile(drawn[:, local].max(1), 0.99))
    whole = cx.denominators.head_table(fixed, halves["A"])
    stable = whole.index[whole["stable"]].tolist()
    broad = whole.index[whole["effective tokens"] > cx.heads.BROAD].tolist()
    return facts | {
        "copies": copying(of, flat["A"]), "suppression": suppressing(of),
        "rough": roughness(of, halves["B"][::5]), "along": along(of, halves["B"], stable),
        "keywords": by_keywords(of, halves, broad), **provenance(name),
    }  # fmt: skip


def shifted() -> dict[str, Any]:
    """Return how far MiniLM's local kernels lie from what they are at the middle query position."""
    weights = cx.LayerWeights.of(cx.load("minilm", layers=1))
    reach, middle, about = min(PLACES), PLACES[len(PLACES) // 2], {}
    for n in PLACES:
        kernel = cx.fix_query(weights, n=n).decomposition.kernels[:, n - reach : n + reach]
        about[n] = kernel / kernel.sum(-1, keepdim=True)
    local = (cx.effective_tokens(about[middle]) < cx.heads.LOCAL).nonzero()[:, 0].tolist()
    apart = torch.stack([cx.total_variation(kernel, about[middle]) for kernel in about.values()])
    return {
        "local": local, "TV": apart[:, local].amax(0).tolist(),
        "before": torch.stack([k[local, reach - 1] for k in about.values()], 1).tolist(),
        "copies": cx.heads.copy_preference(weights, middle).tolist(), **provenance("minilm"),
    }  # fmt: skip


def lines_of(kept: dict[str, Any]) -> pd.DataFrame:
    """Return the lines that chapters show beside their own model."""
    lines: dict[str, dict[str, str]] = {"confetti": {}, "keywords": {}}
    for model, name in NAMES.items():
        rough, facts = np.array(kept[model]["rough"]), kept[model]["keywords"]
        wide = np.array(kept[model]["roster"]["effective tokens"]) > cx.heads.BROAD
        ratio = np.median(rough[kept[model]["local"]]) / np.median(rough[wide])
        lines["confetti"][name] = f"{ratio:.0f}"
        low, high = facts["ends"]
        lines["keywords"][name] = f"{facts['explained']:.0%} [{low:.0%}, {high:.0%}]"
    lines["shift"] = {"MiniLM": f"{max(kept['minilm']['TV']):.2f}"}
    return pd.DataFrame(lines).T.fillna("")


def judged(kept: dict[str, Any]) -> list[dict[str, str]]:
    """Return what became of every condition, its bound in brackets."""

    def residual(table: np.ndarray) -> np.ndarray:
        return table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()

    of_models, lines = [kept[name] for name in NAMES], lines_of(kept)
    kinds = {name: pd.DataFrame(kept[name]["kinds"]) for name in NAMES}  # head, kind and half
    pieces = {name: of["split word, B"] for name, of in kinds.items()}
    own = {name: kept[name]["local"] for name in NAMES}
    best = max(pieces[m][of.loc[own[m], "split word, A"].idxmax()] for m, of in kinds.items())
    apart = max(v[own[m]].median() - v.drop(own[m]).median() for m, v in pieces.items())
    both = ("split word", "name", "other words", "common words")  # kinds with enough pairs
    on_A, on_B = (
        kinds["qwen"].loc[own["qwen"], [f"{kind}, {half}" for kind in both]].to_numpy()
        for half in "AB"
    )
    dice = np.random.default_rng(0)
    again, *null = (
        np.corrcoef(residual(of).ravel(), residual(on_B).ravel())[0, 1]
        for of in (on_A, *(dice.permuted(on_A, axis=1) for _ in range(1000)))
    )
    copies = max(max(of["copies"][h]) for of in of_models for h in of["local"])
    itself = [{half: v["itself"] for half, v in of["suppression"].items()} for of in of_models]
    lowered = min(1 - of["B"][int(np.argmin(of["A"]))] for of in itself)
    strays = max(np.median(list(of["along"].values())) for of in of_models)
    low, high = (min(of["keywords"]["ends"][end] for of in of_models) for end in (0, 1))
    rough, keywords = (
        ", ".join(f"{name} {value}" for name, value in lines.loc[line].items() if value)
        for line in ("confetti", "keywords")
    )
    shift = lines.loc["shift", "MiniLM"]
    found = (
        (f"{best:.0%}", best >= 0.75),
        (f"{apart:.2f}", apart >= 0.05),
        (f"{again:.2f}", again > 0.5 and cb.nulls.p_value(again, null) < 0.05),
        (f"{copies:.1f}", copies < 2),
        (f"{lowered:.0%}", lowered >= 0.75),
        (rough, lines.loc["confetti"].replace("", np.nan).astype(float).min() >= 2),
        (shift, float(shift) <= 0.1),
        (f"{strays:.0%}", strays <= 0.3),
        (keywords, "undecided" if low < 0.5 < high else low >= 0.5),
    )
    said = {True: "yes", False: "no"}
    return [
        {"asked": asked, "measured": measured, "holds": said.get(met, met)}
        for asked, (measured, met) in zip(ASKED, found, strict=True)
    ]


@command("local")
@torch.no_grad()
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--file", type=Path, default=cb.evidence("local.json"))
    file = parser.parse_args(argv).file
    kept = {name: rounded(look(name)) for name in tqdm(NAMES, "models")}
    kept["minilm"] = rounded(shifted())
    kept["conditions"] = judged(kept)
    replace(file, json.dumps(kept) + "\n")
    cb.keep_rows("F_local", lines_of(kept))


if __name__ == "__main__":
    sys.exit(main())
