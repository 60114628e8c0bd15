"""Where a neuron is most active, which heads and MLPs bring it there, and what its token loses
without one of them (chapter 15).

A neuron's **token** is the one that its output weights raise most, and its **peak** in a text is
the position where it is most active. A gated neuron has two sides, for the product of its gate and
its second input may have either sign; each side has its own token. Of the texts, half A chooses
(neurons, heads) and half B counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad
from transformers.activations import ACT2FN

from ctxbook.intervals import WIDER, Estimate, half_masks, with_interval
from ctxlib.adapter import act_fn, mlp_inputs, upstream_layers
from ctxlib.lookups import hooks, layers
from ctxlib.lookups.congruence import congruence
from ctxlib.texts.sources import collection
from ctxlib.texts.text import Reader, Text

PEAKS, SILENCED = 20, 4  # peaks of a neuron, and those of them at which something is silenced
LAST_LAYERS = 5  # those whose neurons are candidates
BATCH = 8  # texts that are read at a time
HOOKS = {"a": "attn.hook_pattern", "v": "attn.hook_v", "z": "attn.hook_z"}
HOOKS |= {"h": "hook_attn_out", "m": "hook_mlp_out", "post": "mlp.hook_post"}
PARTS = ("heads", "MLPs", "embedding", "bias")  # what an input of a neuron is the sum of
NO_LOGITS = {"logits_to_keep": 1}  # where they are not needed, of the last token alone

Place = tuple[int, int, int]  # layer (counted among the candidates'), side, neuron
Terms = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Half:
    """Texts of one half, cut at one length, and the documents that they are from."""

    tokens: Int[Tensor, "text pos"]
    documents: np.ndarray


def halves_of(model: Any, count: int, length: int = 96) -> dict[str, Half]:
    """Return so many held-out texts of at most this length, as halves A and B.

    >>> {half: of.tokens.shape for half, of in cb.peaks.halves_of(model, 44, 20).items()}
    {'A': torch.Size([22, 20]), 'B': torch.Size([22, 20])}
    """
    texts = collection(Reader.of(model, min(length, model.cfg.n_ctx)), count)
    length = min(length, *(len(text.tokens) for text in texts))
    tokens = torch.stack([text.tokens[:length] for text in texts])
    documents = np.array([text.document or text.name for text in texts])
    masks = zip("AB", half_masks(texts), strict=True)
    return {half: Half(tokens[torch.from_numpy(mask)], documents[mask]) for half, mask in masks}


@dataclass(frozen=True, eq=False)
class Neurons:
    """Some neurons: their `places` (layer, neuron), which `side` is meant (1 or -1), and its
    token.
    """

    places: Sequence[tuple[int, int]]
    side: Int[Tensor, " neuron"]
    tokens: Int[Tensor, " neuron"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """All sides of the neurons of a model's last layers: each one's token, its congruence, and P,
    the mean probability of the token at the side's largest peaks in either half.
    """

    layers: Sequence[int]
    tokens: Int[Tensor, "layer side neuron"]
    congruence: Float[Tensor, "layer side neuron"]
    P: dict[str, Float[Tensor, "layer side neuron"]]

    def neurons(self, places: Sequence[Place]) -> Neurons:
        """Return the neurons at these places."""
        return Neurons(
            [(self.layers[k], j) for k, _, j in places],
            torch.tensor([1 - 2 * s for _, s, _ in places]),
            torch.stack([self.tokens[place] for place in places]),
        )


def candidates(model: Any, halves: dict[str, Half], last: int = LAST_LAYERS) -> Candidates:
    """Return every side of so many last layers' neurons, with P in both halves.

    >>> found = cb.peaks.candidates(model, cb.peaks.halves_of(model, 44, 20))
    >>> found.P["A"].shape  # layer side neuron
    torch.Size([4, 1, 1024])
    """
    of = [k for k in range(model.cfg.n_layers) if upstream_layers(model, k)][-last:]
    found = []
    for k in of:  # a layer at a time, for the congruence of all is larger than the model
        c = congruence(model, k)
        both = [c.max(1), (-c).max(1)][: len(mlp_inputs(model, k))]
        found.append([torch.stack(v) for v in zip(*both, strict=True)])
    size, tokens = (torch.stack(v) for v in zip(*found, strict=True))
    return Candidates(of, tokens, size, {h: P_of(model, of, tokens, x) for h, x in halves.items()})


def P_of(
    model: Any, of: Sequence[int], tokens: Int[Tensor, "layer side neuron"], half: Half
) -> Float[Tensor, "layer side neuron"]:
    """Return the mean probability of each side's token at its largest peaks; zero for a side that
    is not above zero at all of them.
    """
    names = [f"blocks.{k}.{HOOKS['post']}" for k in of]
    largest, log_P = [], []
    for part in half.tokens.split(BATCH):
        logits, cache = model.run_with_cache(part, names_filter=names)
        post = torch.stack([cache[name].cpu() for name in names], 2)[:, 1:]  # text pos layer neuron
        post = torch.stack([post, -post][: tokens.shape[1]], 3)
        most, end = post.max(1)  # text layer side neuron
        rows = torch.arange(len(part))[:, None, None, None]
        largest.append(most)
        log_P.append(logits.log_softmax(-1).cpu()[rows, end + 1, tokens])
    peaks, which = torch.cat(largest).topk(min(PEAKS, len(half.tokens)), dim=0)
    P = torch.cat(log_P).gather(0, which).exp().mean(0)
    return P.where(peaks[-1] > 0, 0.0)


def like(places: Sequence[Place], found: Candidates, taken: set[Place]) -> list[Place | None]:
    """Return for each place the side of its own token that is nearest in P on half A, none of those
    taken, and each once; None where there is none left.
    """
    taken, matched, P = {*taken}, [], found.P["A"]
    for place in places:
        same = ((found.tokens == found.tokens[place]) & (P > 0)).nonzero().tolist()
        pool = [(abs(float(P[tuple(p)] - P[place])), tuple(p)) for p in same]
        pool = sorted(pair for pair in pool if pair[1] not in taken)
        nearest = [p for _, p in pool[:1]]
        matched.append(nearest[0] if nearest else None)
        taken.update(nearest)
    return matched


def groups_of(found: Candidates, count: int) -> dict[str, list[Place | None]]:
    """Return groups of so many sides: the largest P on half A, the largest congruence (the
    publication's choice), for each of these one of the same token that is near in P, and random
    ones of the same layers as those by P.

    >>> found = cb.peaks.candidates(model, cb.peaks.halves_of(model, 44, 20))
    >>> [len(group) for group in cb.peaks.groups_of(found, 3).values()]
    [3, 3, 3, 3, 3]
    """
    P = found.P["A"]

    def largest(scores: Tensor) -> list[Any]:
        best = scores.flatten().topk(min(count, scores.numel())).indices.tolist()
        return [tuple(map(int, np.unravel_index(i, scores.shape))) for i in best]

    by_P, by_size = largest(P), largest(found.congruence.masked_fill(P == 0, -torch.inf))
    taken, rng = {*by_P, *by_size}, np.random.default_rng(0)
    others = [p for p in map(tuple, (P > 0).nonzero().tolist()) if p not in by_P]
    of_layers = sorted(Counter(k for k, *_ in by_P).items())
    pools = [([p for p in others if p[0] == k], wanted) for k, wanted in of_layers]
    return {
        "by P": by_P,
        "like those by P": like(by_P, found, taken),
        "by congruence": by_size,
        "like those by congruence": like(by_size, found, taken),
        "random": sorted(
            pool[i] for pool, some in pools for i in rng.choice(len(pool), some, replace=False)
        ),
    }


def over_peaks(
    part: ArrayLike, documents: ArrayLike, tokens: ArrayLike, whole: ArrayLike | None = None
) -> Estimate:
    """Return the mean over neurons of a number at their peaks (`peak neuron`), or of its share in
    another, and the wider of two intervals: documents redrawn, and the neurons' tokens.

    >>> cb.peaks.over_peaks([[1.0, 2.0], [3.0, 4.0]], [["a", "b"], ["c", "d"]], [",", "."]).value
    2.5
    """
    v = np.asarray(part, dtype=float)
    w = np.ones_like(v) if whole is None else np.asarray(whole, dtype=float)[: len(v)]
    of, words = (np.broadcast_to(a, v.shape).ravel() for a in (np.arange(v.shape[1]), tokens))
    names = np.asarray(documents)[: len(v)].ravel()
    entries = [Text(d, t, "", "", "", torch.empty(0), d) for d, t in zip(names, words, strict=True)]

    def statistic(drawn: np.ndarray) -> float:
        top, bottom = (np.bincount(of[drawn], u.ravel()[drawn], v.shape[1]) for u in (v, w))
        there = np.bincount(of[drawn], minlength=v.shape[1]) > 0
        return float((top[there] / bottom[there]).mean())

    return with_interval(statistic, entries, units=WIDER)  # a token's neurons: a domain


# ---------------------------------------------------------------- what an activation is made of


def stacked(model: Any, cache: Any, w: str, count: int) -> Tensor:
    """Return what one of the hooks has seen in each layer, `text layer pos ...`; shared values
    repeated.
    """
    seen = torch.stack([cache[f"blocks.{k}.{HOOKS[w]}"].cpu() for k in range(count)], 1)
    return seen.repeat_interleave(model.cfg.n_heads // seen.shape[3], 3) if w == "v" else seen


def terms(model: Any, seen: Terms, layer: int, neurons: Sequence[int]) -> Terms:
    """Return the parts of what some neurons of a layer read, at every position: `text pos neuron
    ... input`, with one input or two (gate, up). `own` and `BOS` are what heads bring from the
    position itself and from BOS.
    """
    W, b = zip(*mlp_inputs(model, layer).values(), strict=True)
    e = torch.stack([w[:, neurons].cpu() for w in W], -1)  # d_model neuron input
    W_O, b_O = layers.output_weights(model, layer)  # layer head d d_model; biases summed
    count = len(W_O)
    a, v, z, h = (seen[w][:, :count] for w in "avzh")  # h with its bias
    x_0, m = seen["x_0"], seen["m"][:, :layer].sum(1)
    s = layers.norm_scale(model, x_0 + m + h.sum(1))[..., None, None]  # text pos 1 1
    to = einsum(W_O, e, "k i d m, m j q -> k i d j q")
    said = einsum(v, to, "t k u i d, k i d j q -> t k i u j q")  # v_u W_O . e
    heads = einsum(z, to, "t k n i d, k i d j q -> t n j k i q") / s[..., None, None]
    own = einsum(a.diagonal(dim1=-2, dim2=-1), said, "t k i n, t k i n j q -> t n j q") / s
    bos = einsum(a[..., 0], said[..., 0, :, :], "t k i n, t k i j q -> t n j q") / s
    missing = (0, 0, 0, 0, 0, model.cfg.n_layers - count)  # layers that come too late add nothing
    own_bias = torch.stack([v[neurons].cpu() for v in b], -1)
    return {
        "heads": pad(heads, missing),
        "MLPs": einsum(m, e, "t n m, m j q -> t n j q") / s,
        "embedding": einsum(x_0, e, "t n m, m j q -> t n j q") / s,
        "bias": own_bias + einsum(b_O, e, "m, m j q -> j q") / s,
        "own": own,
        "BOS": bos,
    }


@dataclass(frozen=True, eq=False)
class AtPeaks:
    """Some neurons at their largest peaks in texts, the largest first: the `terms` there (`peak
    neuron ...`) and their `usual` values, means over all positions; the activations `post` and
    their `usual_post`; log P of the neurons' tokens; which `text` it is and where it `end`s. `z` is
    what each head computes, a mean over texts, and `stream` what leaves the last layer.
    """

    terms: Terms
    usual: Terms
    post: Float[Tensor, "peak neuron"]
    usual_post: Float[Tensor, " neuron"]
    log_P: Float[Tensor, "peak neuron"]
    text: Int[Tensor, "peak neuron"]
    end: Int[Tensor, "peak neuron"]
    z: Float[Tensor, "layer pos head d_head"]
    stream: Float[Tensor, "text pos d_model"]


def read(model: Any, neurons: Neurons, x: Int[Tensor, "text pos"]) -> AtPeaks:
    """Read texts and attribute the neurons, in whatever order they are, at their largest peaks.

    >>> found = cb.peaks.Neurons([(2, 5), (1, 7)], torch.tensor([1, 1]), torch.tensor([11, 12]))
    >>> cb.peaks.read(model, found, torch.stack([p.tokens[:20] for p in passages])).post.shape
    torch.Size([20, 2])
    """
    by_layer: dict[int, list[int]] = {}
    for q, (k, _) in enumerate(neurons.places):
        by_layer.setdefault(k, []).append(q)
    given = torch.tensor([q for some in by_layer.values() for q in some]).argsort()
    n_layers, each = model.cfg.n_layers, torch.arange(len(neurons.places))
    names = [f"blocks.{k}.{hook}" for k in range(n_layers) for hook in HOOKS.values()]
    first, last = "blocks.0.hook_resid_pre", f"blocks.{n_layers - 1}.hook_resid_post"
    there: list[Terms] = []
    stream: list[Tensor] = []
    usual: Terms = {}
    z: Any = 0.0
    for part in x.split(BATCH):
        _, cache = model.run_with_cache(part, names_filter=[first, *names, last], **NO_LOGITS)
        seen = {w: stacked(model, cache, w, n_layers) for w in "avzhm"} | {
            "x_0": cache[first].cpu()
        }
        of = [
            terms(model, seen, k, j) | {"post": cache[f"blocks.{k}.{HOOKS['post']}"].cpu()[..., j]}
            for k, some in by_layer.items()
            for j in [[neurons.places[q][1] for q in some]]
        ]
        found = {name: torch.cat([f[name] for f in of], 2)[:, :, given] for name in of[0]}
        end = (found["post"][:, 1:] * neurons.side).argmax(1) + 1  # text neuron
        rows = torch.arange(len(part))[:, None]
        there.append({name: v[rows, end, each] for name, v in found.items()} | {"end": end})
        for name, v in found.items():
            usual[name] = usual.get(name, 0) + v[:, 1:].mean(1).sum(0) / len(x)
        z = z + seen["z"].sum(0) / len(x)
        stream.append(cache[last].cpu())
    at = {name: torch.cat([t[name] for t in there]) for name in there[0]}
    order = (at["post"] * neurons.side).topk(min(PEAKS, len(x)), 0).indices  # peak neuron
    at = {name: v[order, each] for name, v in at.items()}
    post, end, leaves = at.pop("post"), at.pop("end"), torch.cat(stream)
    log_P = [
        layers.logits(model, leaves[t, n]).log_softmax(-1)[each, neurons.tokens]
        for t, n in zip(order, end, strict=True)
    ]
    of_post = usual.pop("post")
    return AtPeaks(at, usual, post, of_post, torch.stack(log_P), order, end, z, leaves)


def activation(model: Any, inputs: Float[Tensor, "*any input"]) -> Float[Tensor, "*any"]:
    """Return `act(pre)`, or of a gated neuron `act(gate) up`."""
    second = inputs[..., 1] if inputs.shape[-1] > 1 else 1
    return ACT2FN[act_fn(model)](inputs[..., 0]) * second


def inputs_of(terms: Terms) -> Float[Tensor, "*peak neuron input"]:
    """Return the sum of all parts."""
    heads = terms["heads"].flatten(-3, -2).sum(-2)
    return heads + sum(terms[name] for name in PARTS[1:])


def rises(model: Any, neurons: Neurons, peaks: AtPeaks) -> Terms:
    """Return what every part adds on the straight way from the usual inputs to those at a peak,
    `peak neuron ...` (integrated gradients), and `all`, the rise of the activation that parts add
    up to.
    """
    nodes, weights = np.polynomial.legendre.leggauss(24)
    start, end = inputs_of(peaks.usual), inputs_of(peaks.terms)
    slope = torch.zeros_like(end)
    with torch.enable_grad():
        for t, w in zip((nodes + 1) / 2, weights / 2, strict=True):
            way = (start + t * (end - start)).requires_grad_()
            slope += float(w) * torch.autograd.grad(activation(model, way).sum(), way)[0]
    added = {"all": (peaks.post - activation(model, start)) * neurons.side}
    for name, there in peaks.terms.items():
        to = slope[:, :, None, None] if name == "heads" else slope
        signed = ((there - peaks.usual[name]) * to).sum(-1)
        added[name] = signed * neurons.side.reshape(-1, *[1] * (signed.ndim - 2))
    return added


@dataclass(frozen=True, eq=False)
class LookedUp:
    """Neurons at their peaks in both halves, and what every part adds there: in half B each `rise`
    and its `documents`, in half A the `profile` alone, each head's mean over peaks.
    """

    model: Any
    neurons: Neurons
    x: Int[Tensor, "text pos"]  # half B
    in_A: AtPeaks
    in_B: AtPeaks
    profile_A: Float[Tensor, "neuron head"]
    rise: Terms
    documents: np.ndarray

    @classmethod
    def of(cls, model: Any, halves: dict[str, Half], neurons: Neurons) -> LookedUp:
        """Read both halves.

        >>> found = cb.peaks.Neurons([(2, 5), (1, 7)], torch.tensor([1, 1]), torch.tensor([11, 12]))
        >>> looked = cb.peaks.LookedUp.of(model, cb.peaks.halves_of(model, 44, 20), found)
        >>> total = sum(looked.rise[name] for name in ("MLPs", "embedding", "bias"))
        >>> torch.allclose(total + looked.rise["heads"].sum((2, 3)), looked.rise["all"], atol=1e-3)
        True
        """
        in_A, in_B = (read(model, neurons, halves[half].tokens) for half in "AB")
        profile_A = rises(model, neurons, in_A)["heads"].mean(0).flatten(1)
        rise, documents = rises(model, neurons, in_B), halves["B"].documents[in_B.text]
        return cls(model, neurons, halves["B"].tokens, in_A, in_B, profile_A, rise, documents)

    @cached_property
    def profile(self) -> Float[Tensor, "neuron head"]:
        """Return each head's mean rise in half B."""
        return self.rise["heads"].mean(0).flatten(1)

    @property
    def share(self) -> Float[Tensor, " neuron"]:
        """Return which share of half B's rise the head brings that is strongest in half A."""
        strongest = self.profile_A.argmax(1, keepdim=True)
        return self.profile.gather(1, strongest)[:, 0] / self.rise["all"].mean(0)

    def heads(self, ranks: slice) -> Bool[Tensor, "neuron layer head"]:
        """Return which heads have these ranks in half A, the strongest first."""
        best = self.profile_A.argsort(1, descending=True)[:, ranks]
        mask = torch.zeros_like(self.profile_A, dtype=torch.bool).scatter(1, best, value=True)
        return mask.unflatten(1, (self.model.cfg.n_layers, -1))

    def prompt(self, neuron: int, peak: int) -> Int[Tensor, " pos"]:
        """Return the text up to a peak in half B."""
        return self.x[self.in_B.text[peak, neuron], : self.in_B.end[peak, neuron] + 1]

    def fall(
        self,
        heads: Bool[Tensor, "neuron layer head"] | None = None,
        held: Float[Tensor, "peak neuron"] | None = None,
    ) -> Float[Tensor, "peak neuron"]:
        """Return by how much log P of the neurons' tokens falls at their largest peaks in half B:
        some heads at their means over half A, the neurons held at some activations, or both.

        >>> found = cb.peaks.Neurons([(2, 5)], torch.tensor([1]), torch.tensor([11]))
        >>> looked = cb.peaks.LookedUp.of(model, cb.peaks.halves_of(model, 44, 20), found)
        >>> bool((looked.fall(held=looked.in_B.post).abs() < 1e-3).all())  # as it was
        True
        """
        model, count, n_layers = self.model, len(self.in_B.text[:SILENCED]), self.model.cfg.n_layers
        rows = [(p, q) for q in range(len(self.neurons.places)) for p in range(count)]
        prompts = [self.prompt(q, p) for p, q in rows]
        last, fell = (
            f"blocks.{n_layers - 1}.hook_resid_post",
            torch.zeros(count, len(rows) // count),
        )
        by_length = np.argsort([len(prompt) for prompt in prompts], kind="stable")
        for some in np.array_split(by_length, -(-len(rows) // 16)):
            ids, end = hooks.pad(model, [prompts[r] for r in some])
            change = self.changes([rows[r] for r in some], end, heads, held)
            with model.hooks(fwd_hooks=change):
                _, cache = model.run_with_cache(ids, names_filter=[last], **NO_LOGITS)
            leaves = cache[last].cpu()[range(len(some)), end]
            log_P = layers.logits(model, leaves).log_softmax(-1)
            for r, own in zip(some, log_P, strict=True):
                p, q = rows[r]
                fell[p, q] = self.in_B.log_P[p, q] - own[self.neurons.tokens[q]]
        return fell

    def changes(
        self,
        rows: Sequence[tuple[int, int]],
        end: Tensor,
        heads: Tensor | None,
        held: Tensor | None,
    ) -> list[tuple[str, Any]]:
        """Return the hooks that silence and hold, for a batch of (peak, neuron)."""
        made: list[tuple[str, Any]] = []
        if heads is not None:
            quiet = torch.stack([heads[q] for _, q in rows])  # row layer head

            def silence(own: Tensor, hook: Any) -> Tensor:
                k = int(hook.name.split(".")[1])
                mean = self.in_A.z[k][: own.shape[1]].to(own)
                return torch.where(quiet[:, None, k, :, None].to(own.device), mean[None], own)

            of = quiet.any(0).any(1).nonzero()[:, 0].tolist()
            made += [(f"blocks.{k}.{HOOKS['z']}", silence) for k in of]
        if held is not None:

            def hold(own: Tensor, hook: Any) -> Tensor:
                k, own = int(hook.name.split(".")[1]), own.clone()
                for r, (p, q) in enumerate(rows):
                    layer, neuron = self.neurons.places[q]
                    if layer == k:
                        own[r, end[r], neuron] = held[p, q]
                return own

            of = sorted({k for k, _ in self.neurons.places})
            made += [(f"blocks.{k}.{HOOKS['post']}", hold) for k in of]
        return made
