"""Predict whole neurons of a first layer from tables, and compare them with the model.

    python tools/evidence/whole_neuron.py --corpus path/to/corpus     # all of the models at hand
    python tools/evidence/whole_neuron.py smollm2                     # half B alone
    python tools/evidence/whole_neuron.py qwen --neuron 6419          # one neuron, text by text

Gate, up and product of every neuron (in an ungated MLP pre- and post-activation), for the fixed
queries of `whole_neuron.toml`, from kernels, content, planes of interaction and values, with the
text's own denominators. Everything that is fixed beforehand is in that file, and what its names
mean. Each query of each model is kept in the folder of work when it is done, so an interrupted run
goes on where it was; all of them together are `data/evidence/whole.json`. One neuron that is
followed is `data/evidence/followed.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from command import ROOT, command
from einops import einsum
from evidence import provenance, rounded
from files import digest
from files import replace as write
from jaxtyping import Float, Int
from torch import Tensor
from tqdm.auto import tqdm
from train_mini import read_corpus

import ctxbook as cb
import ctxlib as cx
from ctxlib.files import kept_folder
from ctxlib.heads import BROAD, effective_tokens
from ctxlib.planes import PlanesDecomposition, add_planes
from ctxlib.texts.documents import document_hash
from ctxlib.texts.text import Text, all_tokens
from ctxlib.weights import activations, layer_norm

CONDITIONS = Path(__file__).with_suffix(".toml")
GIVEN = tomllib.loads(CONDITIONS.read_text(encoding="utf-8"))
KEPT = ROOT / "data" / "evidence" / "whole.json"
PLANES = GIVEN["choice"]["planes"]
CHARACTERS = 8000  # of a document: more than 400 tokens in any of the vocabularies
TOKENS = 2048  # of the vocabulary at a time
USUAL = 7  # every so many tokens of the texts to fit on, where steps are chosen
MORE_BITS = (3, 4, 6, 8)  # of a key, beyond what fits the same bytes
CONSTANT = 1e-10  # of a variance: what rounding leaves of none
DRAWS = 199  # for an interval
SHOWN = ("model", "margins", "planes 2")  # of a neuron that is followed, text by text

Outputs = Float[Tensor, "text head d_model"]
Rows = Float[Tensor, "text head source"]

# ---------------------------------------------------------------- the texts


def fresh_texts(reader: Any, corpus: Path) -> list[Text]:
    """Return the beginnings of documents that no page reads, of every domain in turn."""
    longest, texts = max(query["n"] for query in GIVEN["queries"]), []
    for domain, parts in read_corpus(corpus).items():
        found: list[Text] = []
        for document in parts["train"]:
            tokens = torch.tensor(all_tokens(reader, document[:CHARACTERS])[: longest + 1])
            if len(tokens) > longest:
                name = f"{domain}-{len(found) + 1:02d}"
                of = document_hash(document)
                found.append(Text(name, domain, "", "", document[:CHARACTERS], tokens, of))
            if len(found) == GIVEN["judged"]["per_domain"]:
                break
        texts += found
    return texts


@dataclass
class Texts:
    """The texts of one model: to fit on, to choose on, and by name those that are judged."""

    fit: list[Text]
    choose: list[Text]
    judged: dict[str, list[Text]]

    @classmethod
    def of(cls, model: Any, corpus: Path | None, most: int | None = None) -> Texts:
        """`most` texts of each kind, by default all."""
        reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
        size = GIVEN["half_A"]
        A = cx.texts.collection(reader, size["fit"] + size["choose"], half="A")
        judged = {"half B": cx.texts.collection(reader, GIVEN["judged"]["half_B"], half="B")}
        if corpus:
            judged = {"fresh": fresh_texts(reader, corpus)} | judged
        judged = {name: texts[:most] for name, texts in judged.items()}
        return cls(A[: size["fit"]][:most], A[size["fit"] :][:most], judged)

    def at(self, n: int) -> Texts:
        """Those that are long enough for a position."""

        def long(texts: list[Text]) -> list[Text]:
            return [text for text in texts if len(text.tokens) >= n]

        judged = {name: long(texts) for name, texts in self.judged.items()}
        return Texts(long(self.fit), long(self.choose), judged)


# ---------------------------------------------------------------- scores


def quartiles(values: Any) -> list[float | None]:
    """Return the lower quartile, the median and the upper quartile, rounded."""
    found = np.nanquantile(values, [0.25, 0.5, 0.75]) if np.isfinite(values).any() else []
    return [round(float(v), 5) for v in found] or [None] * 3


def within(v: Float[Tensor, "text neuron"], domains: np.ndarray) -> Float[Tensor, "text neuron"]:
    """Return activations with each domain's mean subtracted."""
    same = torch.from_numpy(domains[:, None] == domains).to(v)
    return v - same @ v / same.sum(1, keepdim=True)


def table(guess: Tensor, truth: Tensor, domains: np.ndarray) -> pd.DataFrame:
    """Return r, FVU and r within domains of every neuron, as `cx.evaluate` has them; NaN where a
    neuron does not vary."""
    guess, truth = guess.double(), truth.double()
    alone = (truth - truth.mean(0)).square().sum(0)
    fvu = (guess - truth).square().sum(0) / alone.where(alone > 0, torch.nan)
    columns = {"r": correlation(guess - guess.mean(0), truth - truth.mean(0)), "fvu": fvu}
    columns["within"] = correlation(within(guess, domains), within(truth, domains))
    return pd.DataFrame({name: v.numpy() for name, v in columns.items()})


def correlation(a: Tensor, t: Tensor) -> Float[Tensor, " neuron"]:
    """Return r of activations that have a mean of zero."""
    aa, tt = (v.square().sum(0) for v in (a, t))
    varied = (aa > CONSTANT * tt) & (tt > CONSTANT**2 * tt.max())
    return ((a * t).sum(0) / (aa * tt).sqrt()).where(varied, torch.nan)


def scored(
    guess: dict[str, Tensor],
    truth: dict[str, Tensor],
    domains: np.ndarray,
    moved: Int[Tensor, " neuron"],
) -> dict[str, Any]:
    """Return quartiles over all neurons of r, FVU and r within domains for each reading of the
    neurons, and over those that context moves most."""
    found: dict[str, Any] = {}
    for name, exact in truth.items():
        of = table(guess[name], exact, domains)
        found[name] = {column: quartiles(of[column]) for column in of}
        found[name]["moved"] = {c: quartiles(of.loc[moved.tolist(), c]) for c in of}
    return found


# ---------------------------------------------------------------- one query of one model


def choose_planes(fixed: Any, texts: list[Text], among: list[int]) -> list[int]:
    """Return for each head which of these numbers of planes gives rows with the least total
    variation distance to the exact ones, on average over texts; the smaller of equals.
    """
    cut = [fixed.decomposition.first([k] * fixed.n_heads) for k in sorted(among)]
    distances = torch.zeros(len(cut), fixed.n_heads)
    for x in fixed.prepare_batches(texts, "choosing planes"):
        exact = fixed.exact.rows(x)
        distances += torch.stack([cx.total_variation(exact, c.rows(x)).sum(0) for c in cut])
    return [sorted(among)[k] for k in distances.argmin(0).tolist()]


class Query:
    """A fixed query with planes, and what is chosen for it on half A."""

    def __init__(self, model: Any, texts: Texts, token: str, n: int):
        self.model, self.texts, self.n = model, texts.at(n), n
        base = cx.fix_query(model, self.texts.fit, n, token)
        self.fixed = add_planes(base, self.texts.fit, max(PLANES))
        among = {k: [p for p in PLANES if p <= k] for k in PLANES}
        chosen = {k: choose_planes(self.fixed, self.texts.choose, few) for k, few in among.items()}
        self.numbers: dict[int, list[int]] = chosen
        heads = cx.denominators.head_table(base, self.texts.choose)
        self.stable = heads.index[heads["stable"]].tolist()
        local = effective_tokens(base.decomposition.kernels) <= BROAD
        self.local = local.nonzero()[:, 0].tolist()
        x = base.prepare(self.texts.choose)
        *_, active = base.mlp(x).values()
        self.moved = active.std(0).topk(GIVEN["counted"]["moved"]).indices

    def cut(self, k: int) -> PlanesDecomposition:
        """The decomposition with at most k planes a head, as chosen."""
        approx: Any = self.fixed.decomposition
        return approx.first(self.numbers[k])

    def outputs(self, x: Tensor, k: int) -> Outputs:
        """What heads write, from the tables with at most k planes."""
        return self.fixed.readout.outputs(self.cut(k).approx_z(x))

    @cached_property
    def mean(self) -> Float[Tensor, "head d_model"]:
        """What each head writes on average, from kernels and content."""
        return self.outputs(self.fixed.prepare(self.texts.fit), 0).mean(0)

    def steps(self, x: Tensor) -> Iterator[tuple[str, Outputs]]:
        """Yield what heads write when more and more of the tables is read."""
        margins = self.outputs(x, 0)
        known: list[int] = []
        rest, exact = range(self.fixed.n_heads), self.fixed.require_exact()
        for name, heads in (
            ("own", []),
            ("local", self.local),
            ("stable", self.stable),
            ("margins", rest),
        ):
            known += heads
            out = self.mean.expand_as(margins).clone()
            out[:, known] = margins[:, known]
            yield name, out
        yield from ((f"planes {k}", self.outputs(x, k)) for k in PLANES[1:])
        approx = self.fixed.decomposition  # what remains is that of the values
        yield "exact rows", self.fixed.readout.outputs(approx.z(x, exact.rows(x)))

    def measure(self) -> dict[str, Any]:
        """Return everything that is kept of this query."""
        fixed = self.fixed
        facts: dict[str, Any] = {
            "token": fixed.tokenizer.decode([fixed.token]),
            "n": self.n,
            "texts": {"fit": len(self.texts.fit), "choose": len(self.texts.choose)},
            "heads": {"local": self.local, "stable": self.stable},
            "planes": {str(k): numbers for k, numbers in self.numbers.items()},
            "judged": {},
        }
        for name, texts in self.texts.judged.items():
            facts["judged"][name] = self.judge(texts, name == next(iter(self.texts.judged)))
        return facts

    def judge(self, texts: Sequence[Text], first: bool) -> dict[str, Any]:
        """Compare with the model on these texts; on the first of the collections also rivals,
        failures, and the model itself in place of the exact rows.
        """
        fixed, k = self.fixed, GIVEN["rivals"]["planes"]
        x, domains = fixed.prepare(texts), np.array([text.domain for text in texts])
        outputs = fixed.head_outputs(x)
        truth = fixed.mlp(x, outputs)
        *_, reading = truth
        facts: dict[str, Any] = {"texts": len(texts), "documents": len({t.document for t in texts})}
        facts["steps"] = {}
        for name, out in self.steps(x):
            guess = fixed.mlp(x, out)
            facts["steps"][name] = scored(guess, truth, domains, self.moved)
            if name == f"planes {k}":
                best = guess[reading]
        inside = [within(v, domains) for v in (best, truth[reading])]
        facts["interval"] = {
            "r": interval(inside, texts),
            "fvu": interval([best, truth[reading]], texts, "fvu"),
        }
        if first:
            facts["model"] = self.against_model(x, truth)
            facts["rivals"] = {
                name: scored(
                    fixed.mlp(x, fixed.readout.outputs(fixed.decomposition.z(x, rows))),
                    truth,
                    domains,
                    self.moved,
                )[reading]
                for name, rows in self.rivals(x, k)
            }
            facts["failures"] = self.failures(x, texts, outputs, best, truth[reading], k)
            facts["cost"] = self.cost(x)
        return facts

    # ------------------------------------------------------------ against the model

    def against_model(self, x: Tensor, truth: dict[str, Tensor]) -> dict[str, float]:
        """Return how far the exact rows' activations are from those of the model itself, relative
        to the largest. Raises ValueError for more than the conditions allow.
        """
        few, last = x[: GIVEN["counted"]["checked"]], len(truth) - 1
        hooks = ["blocks.0.mlp.hook_pre", "blocks.0.mlp.hook_post"]
        own = [found[:, -1] for found in activations(self.model, few, hooks, 1)]
        off = {}
        for theirs, (name, ours) in zip(own, [*truth.items()][:: max(last, 1)], strict=True):
            off[name] = float((ours[: len(few)] - theirs).abs().max() / theirs.abs().max())
        if max(off.values()) > GIVEN["counted"]["agrees"]:
            raise ValueError(f"the exact rows do not give what the model computes: {off}")
        return {"texts": len(few)} | {name: float(f"{v:.1e}") for name, v in off.items()}

    # ------------------------------------------------------------ rivals

    def rivals(self, x: Tensor, k: int) -> Iterator[tuple[str, Rows]]:
        """Yield the rows of each rival of k planes, at the same number of bytes."""
        fixed = self.fixed
        ones = torch.ones_like(fixed.decomposition.kernels)
        even = torch.full((fixed.d_vocab,), 1 / fixed.d_vocab)
        yield "svd", self.truncated(x, ones / fixed.length, even, k + 1)
        counts = fixed.prepare(self.texts.fit)[:, 1 : self.n].flatten()
        share = counts.bincount(minlength=fixed.d_vocab) / counts.numel()
        yield "weighted", self.truncated(x, fixed.decomposition.kernels, share, k + 1)
        if self.keys is not None:
            yield "keys", self.from_keys(x, self.key_levels(k))
            for bits in MORE_BITS:
                yield f"keys, {bits} bits", self.from_keys(x, 2**bits)

    def truncated(self, x: Tensor, weight: Tensor, share: Tensor, rank: int) -> Rows:
        """Return rows from the leading singular vectors of the score table, less its mean."""
        tokens = share.nonzero()[:, 0]
        gram = torch.zeros(self.fixed.n_heads, self.fixed.length, self.fixed.length).double()
        mean = torch.zeros(self.fixed.n_heads, self.fixed.length).double()
        for part in tqdm(tokens.split(TOKENS), "svd", leave=False, disable=None):
            scores = self.scores(part).transpose(0, 1)  # head token source
            weighted = scores * share[part][:, None]
            gram += (weighted.mT @ scores).double()
            mean += weighted.sum(1).double()
        total = share.double().sum()
        grand = ((mean * weight).sum(-1) / (weight.sum(-1) * total))[:, None]  # head 1
        # of the table less its grand mean
        outer = grand[..., None] * (mean[:, None] + mean[..., None])
        gram = gram - outer + total * grand[..., None].square()
        root = weight.double().sqrt()
        size, u = torch.linalg.eigh(root[..., None] * gram * root[:, None])
        size, w = size.flip(-1)[..., :rank], u.flip(-1)[..., :rank] * root[..., None]
        a = (gram @ w / size[:, None]).float()  # head source rank
        found, entry = x.unique(return_inverse=True)
        b = torch.cat([
            einsum(self.scores(part) - grand.float(), w.float(), "t h i, h i k -> h k t")
            for part in found.split(TOKENS)
        ], dim=-1)  # fmt: skip
        scores = einsum(a, b[..., entry], "h i k, h k text i -> text h i")
        return scores.softmax(-1)

    def scores(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token head source"]:
        """Return the exact score of each token at each source."""
        x = tokens[:, None].repeat(1, self.fixed.length)
        x[:, self.n] = self.fixed.token
        return self.fixed.require_exact().scores_of_repeated(x)

    @cached_property
    def keys(self) -> tuple[Tensor, Tensor] | None:
        """Return W_K of every head, with the query's part of each score, so that a score is
        `query[h, i] . (x W_K[h]) + c[h, i]`; None where keys depend on positions.
        """
        exact = self.fixed.require_exact()
        if not isinstance(exact, cx.additive.ExactFromModel):
            return None
        W_K = self.model.blocks[0].attn.W_K.detach().cpu()
        W_K = W_K.repeat_interleave(self.fixed.n_heads // len(W_K), 0)  # head d_model d_head
        g = exact.qk_direction
        query = torch.linalg.lstsq(W_K.double(), g.mT.double()).solution.mT.float()
        if not (query @ W_K.mT - g).abs().max() < 1e-3 * g.abs().max():
            raise ValueError("queries and keys do not give the scores")
        return W_K, query

    @property
    def n_key_heads(self) -> int:
        return self.model.cfg.n_key_value_heads or self.fixed.n_heads

    def key_levels(self, k: int) -> int:
        """Return in how many levels a number of a key fits the bytes of k planes."""
        tables = self.fixed.n_heads * (k + 1) * (self.fixed.d_vocab + self.fixed.length)
        keys = self.fixed.d_vocab * self.n_key_heads * self.model.cfg.d_head
        return max(1, int(2 ** (GIVEN["rivals"]["bits"] * tables / keys)))

    def from_keys(self, x: Tensor, levels: int) -> Rows:
        """Return rows from keys in so many levels, evenly spaced in each column; the best step of
        each column, for tokens as common as in the texts to fit on. Raises ValueError where keys
        depend on positions.
        """
        if self.keys is None:
            raise ValueError("these keys depend on positions: there is no table of them by token")
        exact: Any = self.fixed.exact
        usual = self.fixed.prepare(self.texts.fit)[:, 1 : self.n].flatten()[::USUAL]
        found, entry = x.unique(return_inverse=True)
        common, every = (
            layer_norm(exact.E[ids], exact.readout.eps) if exact.keys_read is None
            else exact.keys_read[ids] for ids in (usual, found)
        )  # fmt: skip
        sources, scores = torch.arange(self.fixed.length), []
        for W_K, query, offset in zip(*self.keys, exact.qk_offset, strict=True):
            keys = Steps.of(common @ W_K, levels).round(every @ W_K)  # token d_head
            scores.append((keys @ query.T + offset)[entry, sources])
        return torch.stack(scores, dim=1).softmax(-1)

    # ------------------------------------------------------------ failures and cost

    def failures(
        self,
        x: Tensor,
        texts: Sequence[Text],
        outputs: Outputs,
        guess: Tensor,
        truth: Tensor,
        k: int,
    ) -> dict[str, Any]:
        """Return for which heads and neurons the prediction is worst."""
        fixed = self.fixed
        exact, domains = fixed.require_exact().rows(x), np.array([t.domain for t in texts])
        distances = {str(p): cx.total_variation(exact, self.cut(p).rows(x)).mean(0) for p in PLANES}
        # with one head's outputs from its tables and all others exact
        alone, approx = [], self.outputs(x, k)
        for h in range(fixed.n_heads):
            mixed = outputs.clone()
            mixed[:, h] = approx[:, h]
            *_, active = fixed.mlp(x, mixed).values()
            alone.append(float(table(active, truth, domains)["fvu"].median()))
        of = table(guess, truth, domains).assign(sd=truth.std(0).numpy())
        return {
            "tv": {p: [round(float(v), 4) for v in tv] for p, tv in distances.items()},
            "fvu of one head": [round(v, 5) for v in alone],
            "below .99": round(float((of["within"] < 0.99).mean()), 4),
            "rank correlation of r with sd": round(
                float(of["within"].corr(of["sd"], method="spearman")), 3
            ),
        }

    def cost(self, x: Tensor) -> dict[str, Any]:
        """Return numbers stored a head, bits left for the weights of a rival, and seconds a text:
        of the tables, of the exact rows for this one query, and of the model's layer.
        """
        fixed, cfg, one = self.fixed, self.model.cfg, x[:8]
        sizes = fixed.d_vocab + fixed.length
        weights = (fixed.n_heads + self.n_key_heads) * cfg.d_model * cfg.d_head
        tables = {k: fixed.n_heads * (k + 1) * sizes for k in PLANES}
        values = fixed.d_vocab * self.n_key_heads * cfg.d_head
        bits = GIVEN["rivals"]["bits"] * tables[GIVEN["rivals"]["planes"]]
        taken = {
            "tables": lambda: fixed.mlp(one, self.outputs(one, 2)),
            "exact rows": lambda: fixed.mlp(one),
            "layer": lambda: self.model(one, stop_at_layer=1),
        }
        return {
            "numbers a head": {str(k): (k + 1) * sizes for k in PLANES},
            "numbers of all heads": {str(k): v for k, v in tables.items()},
            "numbers of values": values,
            "bits for W_Q and W_K": round(bits / weights, 3),
            "bits for W_Q, W_K and the embedding": round(
                bits / (weights + fixed.d_vocab * cfg.d_model), 3
            ),
            "levels of a key": self.key_levels(GIVEN["rivals"]["planes"]),
            "seconds a text": {name: seconds(run) / len(one) for name, run in taken.items()},
        }


@dataclass
class Steps:
    """Evenly spaced levels for each column of a table."""

    middle: Float[Tensor, " column"]
    step: Float[Tensor, " column"]
    levels: int

    @classmethod
    def of(cls, table: Float[Tensor, "row column"], levels: int) -> Steps:
        """Choose the step of each column by the least squared error, of forty."""
        middle, spread = table.mean(0), table.std(0)
        tried = [
            cls(middle, spread * 8 * t / 40 / max(levels - 1, 1), levels) for t in range(1, 41)
        ]
        errors = torch.stack([(s.round(table) - table).square().mean(0) for s in tried])
        steps = torch.stack([s.step for s in tried])
        return cls(middle, steps.gather(0, errors.argmin(0)[None])[0], levels)

    def round(self, table: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
        half = (self.levels - 1) / 2  # levels lie evenly around the middle
        counted = ((table - self.middle) / self.step + half).round().clamp(0, self.levels - 1)
        return (counted - half) * self.step + self.middle


def interval(pair: Sequence[Tensor], texts: Sequence[Text], column: str = "r") -> list[float]:
    """Return the 95% interval over documents of a median over neurons."""
    ends = cb.by_document(cb.intervals.median_over_neurons(column, *pair), texts, DRAWS)
    return [round(v, 5) for v in ends]


def seconds(run: Any) -> float:
    """Return the time that it takes, the shorter of three."""
    taken = []
    for _ in range(3):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return float(f"{min(taken):.2g}")


# ---------------------------------------------------------------- all of it


def measured(name: str, corpus: Path | None, work: Path) -> dict[str, Any]:
    """Return what is kept of a model, from the folder of work where it lies there."""
    left, found = [], {}
    for query in GIVEN["queries"]:
        file = work / f"{name} {query['token'].strip()} {query['n']}.json"
        if file.exists():
            found[query["n"]] = json.loads(file.read_text())
        else:
            left.append((query, file))
    if left:
        model = cx.load(name, layers=1) if name != "mini" else cx.load(name)
        texts = Texts.of(model, corpus)
        for query, file in tqdm(left, name, unit="query"):
            facts = Query(model, texts, query["token"], query["n"]).measure()
            write(file, json.dumps(facts))
            found[query["n"]] = facts
    queries = [found[query["n"]] for query in GIVEN["queries"]]
    return provenance(name) | {"queries": queries}


def followed(name: str, neuron: int, corpus: Path | None) -> dict[str, Any]:
    """Return what the model and the tables give for one neuron at the first of the queries, text by
    text on the first of the judged collections; what each step of the tables explains; and each
    head's share of the variance of what heads add to it.
    """
    model, of = cx.load(name, layers=1), GIVEN["queries"][0]
    query = Query(model, Texts.of(model, corpus), of["token"], of["n"])
    texts = next(iter(query.texts.judged.values()))
    x, domains = query.fixed.prepare(texts), np.array([text.domain for text in texts])
    outputs = query.fixed.head_outputs(x)
    truth = {k: v[:, [neuron]] for k, v in query.fixed.mlp(x, outputs).items()}
    steps, values = {}, {"model": truth}
    for step, out in query.steps(x):
        guess = {k: v[:, [neuron]] for k, v in query.fixed.mlp(x, out).items()}
        scores = {k: table(guess[k], truth[k], domains).loc[0].dropna() for k in truth}
        steps[step] = {k: of_step.to_dict() for k, of_step in scores.items()}
        values[step] = guess
    kernels = query.fixed.decomposition.kernels
    adds = (outputs @ query.fixed.readout.W_in[:, neuron]).var(0)  # head
    facts = {
        "neuron": neuron,
        "domains": domains.tolist(),
        "heads": {"local": query.local, "stable": query.stable},
        "effective tokens": effective_tokens(kernels).tolist(),
        "share": (adds / adds.sum()).tolist(),
        "steps": steps,
        "values": {step: {n: v[:, 0].tolist() for n, v in values[step].items()} for step in SHOWN},
    }
    return provenance(name) | of | rounded(facts, 5)


def goals(models: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers that the conditions set a goal for, query by query: on the first of the
    judged collections (for `mini` on half B) the median r within domains of the product, and for
    real models whether its FVU is below that of each rival of equal bytes.
    """
    k, found = GIVEN["rivals"]["planes"], {}
    for name, facts in models.items():
        rows = []
        for query in facts["queries"]:
            first = "half B" if name == "mini" else next(iter(query["judged"]))
            judged = query["judged"][first]
            step = judged["steps"]["margins" if name == "mini" else f"planes {k}"]
            *_, (_, own) = step.items()
            row = {"token": query["token"], "n": query["n"], "texts": first}
            row["r within"] = own["within"][1]
            if name != "mini":
                fvu = {rival: judged["rivals"][rival]["fvu"][1] for rival in ("svd", "keys")}
                row |= {f"below {rival}": own["fvu"][1] < v for rival, v in fvu.items()}
            rows.append(row)
        found[name] = rows
    return found


@command("whole_neuron")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=GIVEN["models"], metavar="name")
    parser.add_argument("--corpus", type=Path, help="folder of `mini`'s corpus: fresh documents")
    parser.add_argument("--work", type=Path, default=Path("build/whole"), help="what is done")
    parser.add_argument("--out", type=Path, default=KEPT)
    parser.add_argument("--neuron", type=int, help="keep this one alone, text by text")
    args = parser.parse_args(argv)
    if unknown := set(args.names) - {"mini", *cx.models.real_models()}:
        raise ValueError(f"{', '.join(unknown)}: choose of {', '.join(GIVEN['models'])}")
    if not args.corpus:
        print("no --corpus: judged on half B of the book's texts alone")
    kept = json.loads(args.out.read_text()) if args.out.exists() else {"models": {}}
    kept["conditions"] = digest(CONDITIONS)
    if args.corpus:
        kept["corpus"] = digest(args.corpus / "MANIFEST.json")
    for name in args.names:
        if name not in GIVEN["models"]:
            print(f"{name}: left out, for the conditions do not name it")
            continue
        if name != "mini" and not kept_folder(name).is_dir():
            print(f"{name}: left out, for it is not here; make models NAME={name} fetches it")
            continue
        with torch.no_grad():
            if args.neuron is not None:
                found = followed(name, args.neuron, args.corpus)
                write(args.out.with_name("followed.json"), json.dumps(found) + "\n")
                continue
            kept["models"][name] = measured(name, args.corpus, args.work)
        kept["goals"] = GIVEN["goals"] | {"found": goals(kept["models"])}
        write(args.out, json.dumps(kept) + "\n")


if __name__ == "__main__":
    sys.exit(main())
