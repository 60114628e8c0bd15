"""What tables of position and token explain in the deeper layers of `mini`, on texts that no table
and no choice has seen, and what became of the eight conditions of chapter 14:
`data/evidence/deeper_mini.json`.

    python tools/evidence/deeper_mini.py

The eight conditions were fixed before anything was measured, with tables from half A of `TEXTS`
texts, judged on half B. The first failed, and more texts were read for the tables, `MORE` in place
of `TEXTS`: those were judged on the same half B. So the order of the layers that they give was
chosen after it had been seen. Fixed after that and before any other text was judged:

- *Fresh texts*: on half B of the whole collection, without documents of the texts judged before,
  the tables from `MORE` texts explain more of each layer's scores than of the next one's: the lower
  end of each difference is above zero, over documents or domains, whichever is wider. Two layers
  whose interval holds zero are not told apart, and the page says so in its lead.

The ceiling of the first layer, what is explained by chapter 13's split in place of the tables, was
added later, with the condition in `deeper_scores.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from command import ROOT
from einops import einsum, rearrange
from evidence import keeping
from jaxtyping import Float, Int
from torch import Tensor

import ctxbook as cb
import ctxlib as cx
from ctxlib.lookups.layers import input_weights, norm_scale
from ctxlib.studies import Study
from ctxlib.texts.text import Text

OUT = ROOT / "data" / "evidence" / "deeper_mini.json"
TEXTS, MORE, SOME, ALL = 132, 800, 150, 1000  # texts of the collection; SOME of half A of MORE
NEURONS, PIECE, SHUFFLED, BLOCKS = 100, 40, 20, (1, 2, 32)
AT_N = ("attn.hook_pattern", "attn.hook_z", "hook_resid_mid", "hook_resid_post")

Run = dict[str, Tensor]  # by layer and name, a text a row
Ids = Int[Tensor, "text pos"]
Tables = tuple[Float[Tensor, "head source"], Float[Tensor, "head source"], Float[Tensor, "head t"]]
Left = Float[Tensor, "part text head"]


def read(model: Any, x: Ids, hooks: Callable = lambda texts: [], layers: int | None = None) -> Run:
    """Return at n, for each layer: attention rows, `z` of the heads, the stream before and after
    the MLP; and the values of the second layer's heads at all sources."""
    layers = layers or model.cfg.n_layers
    names = [f"blocks.{k}.{name}" for k in range(layers) for name in AT_N]
    names, found = [*names, "blocks.1.attn.hook_v"], []
    for texts in torch.arange(len(x)).split(4):
        with model.hooks(fwd_hooks=hooks(texts)):
            _, seen = model.run_with_cache(x[texts], names_filter=names, stop_at_layer=layers)
        rows = {k: v[:, :, -1] if "pattern" in k else v[:, -1] for k, v in seen.items()}
        rows[names[-1]] = seen[names[-1]]
        found.append({k: v.clone().cpu() for k, v in rows.items()})
    return {k.removeprefix("blocks."): torch.cat([of[k] for of in found]) for k in names}


# ---------------------------------------------------------------- tables of position and token


def by_token(v: Tensor, x: Ids, d_vocab: int) -> Float[Tensor, "head token"]:
    """Return the sum over all sources behind BOS that hold a token."""
    total = torch.zeros(v.shape[1], d_vocab)
    return total.index_add_(1, x[:, 1:].flatten(), rearrange(v, "t h i -> h (t i)"))


def scores(run: Run, layer: int, pos: Tensor | None = None) -> Float[Tensor, "text head source"]:
    """Return scores without BOS, each row less its mean, by the kernel where there is one."""
    s = run[f"{layer}.attn.hook_pattern"][..., 1:].clamp_min(1e-30).log()
    middle = s.mean(-1, keepdim=True) if pos is None else (pos * s).sum(-1, keepdim=True)
    return s - middle


def two_means(run: Run, x: Ids, layer: int, d_vocab: int) -> Tables:
    """Return kernel, position and token of a layer's heads."""
    pos = scores(run, layer).mean(0).softmax(-1)
    s, weight = scores(run, layer, pos), pos * pos.shape[-1]
    p, even = s.mean(0), weight.expand_as(s)
    return pos, p, by_token(weight * (s - p), x, d_vocab) / (by_token(even, x, d_vocab) + 2)


def rest_of(tables: Tables, run: Run, x: Ids, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores, and what is left without position, and without position and token."""
    pos, p, c = tables
    s = scores(run, layer)
    left = torch.stack([s, s - p, s - p - c[:, x[:, 1:]].transpose(0, 1)])
    whole, no_position, rest = left - (pos * left).sum(-1, keepdim=True)
    return whole, no_position, rest


def left_over(tables: Tables, run: Run, x: Ids, layer: int) -> Left:
    """Return the variance of these three, sources weighted by the kernel."""
    return (tables[0] * torch.stack(rest_of(tables, run, x, layer)) ** 2).sum(-1)


def shares(left: Left) -> Float[Tensor, "part head"]:
    """Return the shares of position, of token and of the rest."""
    total, no_position, rest = left.mean(1)
    return torch.stack([total - no_position, no_position - rest, rest]) / total


def in_common(left: Tensor, weight: Tensor, x: Ids, domains: Sequence[str]) -> float:
    """Return the share of the rest (`text head source`, sources weighted) that texts of two domains
    have in common where they have the same token about as far back (1, 2 to 3, 4 to 7 ... tokens),
    mean of the heads."""
    at = pd.DataFrame({"token": x[:, 1:].flatten().numpy()})
    at["back"] = np.tile(np.log2(np.arange(left.shape[-1], 0, -1)).astype(int), len(x))
    at["domain"] = np.repeat(np.array(domains), left.shape[-1])
    place, found = ["token", "back"], []
    for e, w in zip(left.double().transpose(0, 1), weight.double(), strict=True):
        rest = at.assign(e=e.flatten(), w=w.repeat(len(e)), square=(w * e**2).flatten(), count=1)
        total = rest.groupby(place)[["e", "w", "square", "count"]].sum()
        own = rest.groupby([*place, "domain"])[["e", "count"]].sum().pow(2).groupby(place).sum()
        pairs = total["count"] ** 2 - own["count"]  # of two domains
        total = total[pairs > 0].assign(product=(total["e"] ** 2 - own["e"]) / pairs)
        found.append((total["w"] * total["product"]).sum() / total["square"].sum())
    return float(np.mean(found))


def about_scores(left: Sequence[Left]) -> dict[str, Callable[[Any], float]]:
    """Return the first three conditions, as functions of the texts that are drawn."""

    def parts(d: Any) -> np.ndarray:
        return torch.stack([shares(of[:, d]).mean(1) for of in left]).numpy().T  # part layer

    def token(d: Any) -> np.ndarray:
        position, of_token, _ = parts(d)
        return of_token / (1 - position)

    def order(d: Any) -> float:
        rest = parts(d)[2]
        return float(rest[1:].min() / rest[0])

    return {
        "order": order,
        "first": lambda d: float(token(d)[0]),
        "deeper": lambda d: float(token(d)[1:].max()),
    }


def with_ends(of: Callable, texts: Sequence[Any], draws: int = 199) -> cb.Estimate:
    """Return a number and the wider 95% interval, documents drawn or whole domains."""
    same = len({text.domain for text in texts}) == len(texts)
    return cb.with_interval(of, texts, draws, ["domain"] if same else cb.WIDER)


# ---------------------------------------------------------------- the noise of the denominators


def times(factor: Float[Tensor, "text head pos"]) -> Callable[[Tensor], list]:
    """Return hooks: what the first layer's heads write, multiplied."""
    factor = rearrange(factor, "text head pos -> text pos head 1")
    return lambda texts: [("blocks.0.attn.hook_z", lambda z, hook: z * factor[texts].to(z))]


def products(noisy: Run, plain: Run, pos: Float[Tensor, "head source"]) -> tuple[Tensor, Tensor]:
    """Return of each two texts, in what a noisy run has beyond the plain one: of the values of the
    second layer's heads, weighted by the kernel, and of what they write; `head text text` each."""
    some = slice(0, len(noisy["1.attn.hook_v"]))
    v, z = (noisy[at] - plain[at][some] for at in ("1.attn.hook_v", "1.attn.hook_z"))
    v = (v - v.mean(0))[:, 1:] * rearrange(pos.sqrt(), "h i -> i h 1")
    z = (z - z.mean(0))[:, None]
    inside, written = (einsum(a, a, "t i h d, u i h d -> h t u") for a in (v, z))
    return inside, written


def passed(pair: tuple[Tensor, Tensor], drawn: Any) -> np.ndarray:
    """Return the share of the noise in its values that a head passes on, over the texts drawn."""
    w = torch.from_numpy(np.bincount(drawn, minlength=pair[0].shape[-1]) / len(drawn)).float()
    inside, written = (p.diagonal(dim1=1, dim2=2) @ w - p @ w @ w for p in pair)
    return (written / inside).numpy()


# ---------------------------------------------------------------- order and repetition


def shuffled(x: Ids, b: int) -> Ids:
    """Return each text in blocks of b tokens, these in another order; BOS and the last stay."""
    chance, y, m = torch.Generator().manual_seed(0), x.clone(), (x.shape[1] - 2) // b
    for text in y:
        order = torch.randperm(m, generator=chance)
        text[-1 - m * b : -1] = text[-1 - m * b : -1].reshape(m, b)[order].flatten()
    return y


def repeated(texts: Sequence[Text], ends: Ids) -> tuple[Ids, list[Text]]:
    """Return UU, VV, UV, VU of two documents of each domain, and the first of the two."""
    of_domain = cb.first_windows(texts, 2).groupby("domain", sort=False)["text"]
    two = [of.tolist()[:2] for _, of in of_domain if len(of) > 1]
    made = []
    for U, V in ([text.tokens[1 : 1 + PIECE] for text in pair] for pair in two):
        for a, b in ((U, U), (V, V), (U, V), (V, U)):
            made.append(torch.cat([ends[0, :1], a, b, ends[0, -1:]]))
    return torch.stack(made), [u for u, _ in two]


def told_along(a: Tensor, b: Tensor) -> Float[np.ndarray, "pair kind"]:
    """Return what lies of b along the difference of the two kinds in a."""
    a, b = (
        rearrange(v - v.mean(-1, keepdim=True), "(pair kind) d -> pair kind d", kind=4)
        for v in (a, b)
    )
    return (b @ (a[:, :2] - a[:, 2:]).mean((0, 1))).numpy()


def in_pairs(told: np.ndarray) -> float:
    """Return how often a repeated text lies further along than another of the same pieces."""
    return float((told[:, :2, None] > told[:, None, 2:]).mean())


def of_all(told: np.ndarray) -> float:
    """Return how often it lies further along than any other."""
    return float((told[:, :2].reshape(-1, 1) > told[:, 2:].ravel()).mean())


# ---------------------------------------------------------------- everything


@dataclass(frozen=True)
class Seen:
    """A model on half A, from which its tables come, and on half B, on which they are judged."""

    model: Any
    study: Study
    half_A: list[Text]
    half_B: list[Text]
    x_A: Ids
    x_B: Ids
    run_A: Run
    run_B: Run

    @classmethod
    def of(cls, model: Any, study: Study) -> Seen:
        halves = cb.halves(study.texts)
        x_A, x_B = map(study.fixed.prepare, halves)
        return cls(model, study, *halves, x_A, x_B, read(model, x_A), read(model, x_B))

    @cached_property
    def means(self) -> list[Tables]:
        """The tables of each layer, from half A."""
        V, layers = self.model.cfg.d_vocab, range(self.model.cfg.n_layers)
        return [two_means(self.run_A, self.x_A, k, V) for k in layers]

    @cached_property
    def reach(self) -> list[np.ndarray]:
        """The effective tokens of each layer's kernels."""
        return [cx.effective_tokens(pos).numpy() for pos, *_ in self.means]

    @cached_property
    def broad(self) -> list[np.ndarray]:
        """The heads of each layer with broad kernels."""
        return [np.flatnonzero(of > cx.heads.BROAD) for of in self.reach]


@dataclass(frozen=True)
class Condition:
    """A number of texts and the bound that was set for it: above with sign 1, below with -1."""

    words: str
    of: Callable[[Any], float]
    texts: Sequence[Text]
    sign: int
    bound: float
    draws: int = 199

    def judged(self) -> dict[str, Any]:
        """Return what came out, with its interval."""
        found = with_ends(self.of, self.texts, self.draws)
        came = "holds" if self.sign * (found.value - self.bound) > 0 else "fails"
        came = "undecided" if found.low < self.bound < found.high else came
        said = f"{'above' if self.sign > 0 else 'below'} {self.bound}"
        return {"condition": self.words, "holds if": said, "found": found, "came out": came}


def of_scores(seen: Seen, x_many: Ids, run_many: Run) -> tuple[dict, list[Condition]]:
    """Return what the tables explain of each layer's scores, on fresh texts and as judged first."""
    L, V = seen.model.cfg.n_layers, seen.model.cfg.d_vocab
    judged = {text.document or text.name for text in seen.half_B}
    of_all_B = cb.halves(cx.texts.collection(seen.study.fixed, ALL))[1]
    fresh = [text for text in of_all_B if (text.document or text.name) not in judged]
    x_fresh = seen.study.fixed.prepare(fresh)
    run_fresh = read(seen.model, x_fresh)

    def tables_of(count: int) -> list[Tables]:
        run = {k: v[:count] for k, v in run_many.items()}
        return [two_means(run, x_many[:count], k, V) for k in range(L)]

    sizes = [SOME, len(x_many)]
    tables = {len(seen.x_A): seen.means} | {count: tables_of(count) for count in sizes}
    on_fresh = {
        n: [left_over(of[k], run_fresh, x_fresh, k) for k in range(L)] for n, of in tables.items()
    }
    few, many = (
        [left_over(tables[n][k], seen.run_B, seen.x_B, k) for k in range(L)]
        for n in (len(seen.x_A), len(x_many))
    )
    last = on_fresh[len(x_many)]
    split = cx.fit_additive(
        seen.model, [*x_many], seen.study.n, seen.study.fixed.token
    ).decomposition
    exact = split.kernels[:, 1:].log(), split.log_content
    exact_left = left_over((tables[len(x_many)][0][0], *exact), run_fresh, x_fresh, 0)

    def for_want_of_texts(d: Any) -> float:
        tables_rest, rest = (float(shares(of[:, d])[2].mean()) for of in (last[0], exact_left))
        return 1 - rest / tables_rest

    def explained(d: Any) -> np.ndarray:
        return np.array([1 - float(shares(of[:, d])[2].mean()) for of in last])

    facts = {
        "texts": {"judged": len(seen.x_B), "fresh": len(x_fresh), "tables": [*tables]},
        "shares": [shares(of).tolist() for of in last],  # layer part head
        "explained": {
            str(n): [1 - float(shares(v)[2].mean()) for v in of] for n, of in on_fresh.items()
        },
        "of each": [with_ends(lambda d, k=k: explained(d)[k], fresh) for k in range(L)],
        "less the next": [
            with_ends(lambda d, k=k: explained(d)[k] - explained(d)[k + 1], fresh)
            for k in range(L - 1)
        ],
        "in common": [
            in_common(
                rest_of(of, run_fresh, x_fresh, k)[2], of[0], x_fresh, [t.domain for t in fresh]
            )
            for k, of in enumerate(tables[len(x_many)])
        ],
        "exact sum": with_ends(lambda d: 1 - float(shares(exact_left[:, d])[2].mean()), fresh),
        "for want of texts": with_ends(for_want_of_texts, fresh),
        "of each, as judged before": [1 - float(shares(v)[2].mean()) for v in many],
    }
    of_few, of_many, B = about_scores(few), about_scores(many), seen.half_B
    first = "token, of what the position leaves, first layer"
    return facts, [
        Condition("least rest of a deeper layer, over the first's", of_few["order"], B, 1, 1),
        Condition(first, of_few["first"], B, 1, 0.8),
        Condition("the same, largest of deeper layers", of_few["deeper"], B, -1, 0.8),
        Condition("later: the first, with tables from more texts", of_many["order"], B, 1, 1),
    ]


def continued(seen: Seen, x_many: Ids, run_many: Run) -> tuple[dict, list[Condition]]:
    """Return what the circuit, continued into the second layer, predicts of its neurons."""
    model, study, x_A, x_B = seen.model, seen.study, seen.x_A, seen.x_B
    V = model.cfg.d_vocab
    pos, _, c = seen.means[1]
    denoms = (pos[:, None] * c[:, x_A[:, 1:]].exp()).sum(-1)  # head text
    steady = (denoms.std(1) / denoms.mean(1)).numpy() < study.max_cv
    chosen = [h for h in seen.broad[1].tolist() if steady[h]] or list(range(len(pos)))
    W_in, W_O = input_weights(model, 1)[0].cpu(), model.blocks[1].attn.W_O.detach().cpu()

    def values(run: Run) -> Tensor:
        return run["1.attn.hook_v"][:, 1:, chosen]  # text source head d_head

    def scale(run: Run) -> Tensor:
        return norm_scale(model, run["1.hook_resid_mid"])[:, None]

    def to_neurons(z: Tensor, scale: Tensor) -> Tensor:
        out = einsum(z, W_O[chosen], "t h d, h d m -> t m")
        return (out - out.mean(-1, keepdim=True)) @ W_in / scale

    pos, c = pos[chosen], c[chosen]

    def weigh(x: Ids) -> Tensor:
        return pos * c[:, x[:, 1:]].transpose(0, 1).exp()  # text head source

    denom, s = weigh(x_A).sum(-1).mean(0), scale(seen.run_A).mean()
    b = seen.run_A["1.attn.hook_pattern"][:, chosen, 0].mean(0)
    v_0 = seen.run_A["1.attn.hook_v"][0, 0, chosen]  # the one state of BOS

    def approx(x: Ids, v: Tensor) -> Tensor:
        z = einsum(weigh(x) / denom[:, None], v, "t h i, t i h d -> t h d")
        return to_neurons(b[:, None] * v_0 + (1 - b)[:, None] * z, s)

    def token_values() -> Tensor:
        """Mean values of each token, a few drawn towards the mean of all: `token head d`."""
        v, tokens = values(run_many), x_many[:, 1:].flatten()
        middle = v.mean((0, 1))
        total = torch.zeros(V, *middle.shape).index_add_(0, tokens, (v - middle).flatten(0, 1))
        return middle + total / (tokens.bincount(minlength=V) + 2)[:, None, None]

    def read_with(stand_in: Callable[[Tensor], Tensor]) -> Run:
        z = torch.stack([stand_in(text) for text in x_B])
        put = cx.lookups.replace_z
        return read(model, x_B, lambda texts: [put(0, study.heads, z[texts])], 2)

    page = cx.lookups.denominators_along(study.fixed, study.calibration_text)
    published = read_with(lambda text: cx.lookups.circuit_z(study.circuit, text, page))
    by_equation = read_with(lambda text: cx.lookups.self_normalized_z(study.circuit, text))
    runs = seen.run_A, seen.run_B
    T_A, T = (to_neurons(run["1.attn.hook_z"][:, chosen], scale(run)) for run in runs)
    J = T_A.std(0).argsort(descending=True)[:NEURONS].tolist()
    kinds_A, kinds = ([text.domain for text in of] for of in (seen.half_A, seen.half_B))
    guesses = {
        "mean of the domain": cb.domain_mean(T_A, kinds_A, kinds),
        "the token's mean values": approx(x_B, token_values()[x_B[:, 1:]]),
        "published recipe": approx(x_B, values(published)),
        "Equation 1": approx(x_B, values(by_equation)),
        "true states": approx(x_B, values(seen.run_B)),
    }
    ladder = {
        k: cx.evaluation.Moments.of(v[:, J], T[:, J]).table(J)[["r", "fvu"]].median().to_dict()
        for k, v in guesses.items()
    }
    moved = seen.run_B["1.hook_resid_mid"]
    whole = (moved - moved.mean(-1, keepdim=True)) @ W_in / scale(seen.run_B)
    small = float((T[:, J].std(0) / whole[:, J].std(0)).median())
    r_of = {k: cb.median_over_neurons("r", v[:, J], T[:, J]) for k, v in guesses.items()}

    def lost(d: Any) -> float:
        return r_of["true states"](d) - r_of["published recipe"](d)

    recipe, B = "circuit through layer 2, published recipe: r", seen.half_B
    return {"chosen": chosen, "ladder": ladder, "of the neurons": small}, [
        Condition(recipe, r_of["published recipe"], B, 1, 0.9),
        Condition("r lost to true states", lost, B, -1, 0.05),
    ]


def noise_passed_on(seen: Seen) -> tuple[dict, list[Condition]]:
    """Return which share of the noise of the first layer's denominators the second passes on."""
    half = slice(0, len(seen.half_B) // 2)

    def along(text: Tensor) -> Tensor:
        return cx.lookups.denominators_along(seen.study.fixed, text)

    D_A, D_B = (torch.stack([*map(along, x)]) for x in (seen.x_A, seen.x_B[half]))  # text head pos
    factor = D_B / D_A.mean(0)
    order = torch.rand(factor.shape, generator=torch.Generator().manual_seed(0)).argsort(0)
    real, permuted = (
        products(read(seen.model, seen.x_B[half], times(f), 2), seen.run_B, seen.means[1][0])
        for f in (factor, factor.gather(0, order))
    )
    every = range(len(seen.half_B[half]))
    on = {
        "effective tokens": seen.reach[1].round().astype(int).tolist(),
        "noise passed on": passed(real, every).tolist(),
        "the same, permuted": passed(permuted, every).tolist(),
    }
    words = "noise over permuted noise passed on, median second-layer head"

    def ratio(d: Any) -> float:
        return float(np.median(passed(real, d) / passed(permuted, d)))

    facts = {"noise": on, "broad": seen.broad[1].tolist()}
    return facts, [Condition(words, ratio, seen.half_B[half], 1, 2)]


def order_and_repetition(seen: Seen) -> tuple[dict, list[dict]]:
    """Return what shuffled tokens change in what heads write, and how well a repeated text is told
    from another of the same pieces; with the conditions, which are judged."""

    def written(run: Run, layer: int) -> Tensor:
        """What each broad head writes at n: `text head d_model`."""
        W_O = seen.model.blocks[layer].attn.W_O.detach().cpu()
        z, broad = run[f"{layer}.attn.hook_z"], seen.broad[layer]
        out = einsum(z, W_O, "text head d, head d d_model -> text head d_model")[:, broad]
        return out - out.mean(-1, keepdim=True)

    changed = {}
    for size in BLOCKS:
        run = read(seen.model, shuffled(seen.x_B[:SHUFFLED], size), layers=2)
        for layer in (0, 1):
            was = written(seen.run_B, layer)
            spread = (was - was.mean(0)).square().sum(-1).mean(0)
            off = (written(run, layer) - was[:SHUFFLED]).square().sum(-1) / spread
            changed[layer, size] = off.mean(1).numpy()  # in shares of the variance over texts
    made = (repeated(of, seen.x_A) for of in (seen.half_A, seen.half_B))
    (made_A, _), (made_B, firsts) = made
    said_A, said_B = (read(seen.model, x, layers=2) for x in (made_A, made_B))
    at = [f"{layer}.hook_resid_post" for layer in (0, 1)]
    first, above = (told_along(said_A[k], said_B[k]) for k in at)

    def saved(d: Any, layer: int) -> float:
        return changed[layer, 1][d].mean() - changed[layer, 32][d].mean()  # by runs of 32 tokens

    narrow = int((seen.reach[0] < cx.heads.LOCAL).sum())
    kept_pairs = changed[1, 1] - changed[1, 2]  # blocks of 2 keep half of them
    of_some = seen.half_B[:SHUFFLED]
    pairs = with_ends(lambda d: kept_pairs[d].mean(), of_some, 999)
    facts = {
        "narrow": narrow,
        "pairs": pairs if narrow else cb.Estimate(float("nan"), unit=pairs.unit),
        "AUC": {"first": in_pairs(first), "second": in_pairs(above), "all with all": of_all(above)},
        "repeated": with_ends(lambda d: in_pairs(above[d]), firsts, 999),
    }
    words = "what keeping runs of 32 saves when tokens are shuffled, second layer over first"
    by_runs = Condition(words, lambda d: saved(d, 1) / saved(d, 0), of_some, 1, 2).judged()
    if with_ends(lambda d: saved(d, 0), of_some).low < 0:
        value = cb.Estimate(by_runs["found"].value)
        by_runs |= {"found": value, "came out": "untestable"}
    words = "AUC of repeated texts after the first layer, all with all"
    all_with_all = Condition(words, lambda d: of_all(first[d]), firsts, -1, 0.6, 499)
    within = "later: the sixth within pairs"
    in_pair = Condition(within, lambda d: in_pairs(first[d]), firsts, -1, 0.6, 499)
    return facts, [by_runs, all_with_all.judged(), in_pair.judged()]


def measure(name: str) -> dict[str, Any]:
    model: Any = cx.load(name)
    weights = cx.LayerWeights.of(model)
    seen = Seen.of(model, cx.study(weights, TEXTS, " the", or_all=True))
    many_A, _ = cb.halves(cx.texts.collection(weights, MORE))
    x_many = seen.study.fixed.prepare(many_A)
    run_many = read(model, x_many)
    scores_facts, (*three, with_more) = of_scores(seen, x_many, run_many)
    circuit_facts, of_circuit = continued(seen, x_many, run_many)
    noise_facts, of_noise = noise_passed_on(seen)
    order_facts, (by_runs, all_with_all, in_pair) = order_and_repetition(seen)
    first, circuit, more = (
        [condition.judged() for condition in some]
        for some in ([*three, *of_noise], of_circuit, [with_more])
    )
    conditions = [*first, by_runs, all_with_all, *circuit, in_pair, *more]
    facts = scores_facts | circuit_facts | noise_facts | order_facts
    return facts | {"conditions": conditions}


main = keeping("deeper_mini", __doc__, OUT, ["mini"], measure)


if __name__ == "__main__":
    sys.exit(main())
