"""Which head drives a neuron: what heads bring at the peaks of next-token neurons, chosen in two
ways and held against neurons like them, what silence costs, and whether planted look-ups are found
(chapter 15).

    python tools/evidence/lookups.py mini smollm2

The answer goes to `data/evidence/lookups.json`. Half A of the texts chooses, half B counts. An
interval is the wider of two, documents and tokens redrawn. Set before SmolLM2 or any plant was
measured:

- *One head*: of a next-token neuron's peaks the head that wins most often takes more than half, and
  more than of a random neuron's (p below 0.05).
- *Loss*: silence of the strongest head costs the token something, and more than a random neuron's.
  *Together*: silence of the three strongest costs more than the sum of what each costs alone.
  *Way*: more than half of the loss goes through the neuron.
- *Plants*: where they bring half of the rise, four in five are found, that is, the planted head is
  the strongest in both halves. (How a plant is made was changed on `mini`: plants that turned the
  input weights alone were dropped after three tries.)

Set later, before either was measured:

- Groups of 24 (`cb.peaks.groups_of`). Congruence finds next-token neurons if at least half of its
  24 reach P >= 0.5 on half B.
- A head's tenth: in how many neurons does half A's strongest head bring a tenth or more of half B's
  rise? More than in the matched group: permutation of the two groups, p below 0.05. (The tenth
  itself was set after SmolLM2's first numbers.)
- Path patching, head -> neuron -> token: at each of the 4 largest peaks the strongest head's direct
  term in the neuron's inputs is put at its mean, norm as it is, and the neuron alone is set to what
  it then does. The path is there if the mean fall of log P over a group is above zero, lower end.

Set last, when the plants of one head had been counted and before any of these was made:

- *Harder plants*, in the random neurons behind the first layer, at two shares: a look-up split over
  *two heads*, which write along one direction, found if these two are the strongest in both halves;
  and one that a head of the first layer makes *by way of the first MLP*, one of whose neurons hands
  it on along another direction, found as a plant of one head is. A kind is seen if in each model
  more than half of those that bring a tenth of the rise are found. (Two heads bring what both add;
  by way of an MLP, a head brings the share that is gone at the largest peaks if it computes its
  mean over texts and positions.) A kind that is not seen is named in the page's lead.

Set after all that, before the largest share at any single peak was computed:

- *Different heads*: the source speaks of different heads in different texts. At a peak of half B,
  how much of the rise there does the head bring that brings most, and what is the median of this
  over a neuron's peaks? Single heads drive the neurons by P, one here and another there, if in each
  model the median is a tenth or more in over half of these neurons, and its mean over them above
  that of random neurons (permutation, p below 0.05). A maximum over heads is large by chance, too.

Set when a reader had asked for the neurons that the hypothesis is about, and when none beyond the
last five layers was known (of those there, 9 in SmolLM2 and 2 in `mini` are in the groups above):

- *Those that predict*: every side of any layer with P >= 0.5 on half A (the 60 largest, if there
  are more), as far as P >= 0.5 on half B, too; beside each, one of the same token, the nearest in P
  of those not chosen. Single heads drive them if half A's strongest head brings a tenth or more of
  half B's rise in over half of them, and in more of them than of those beside (permutation, p below
  0.05). The token needs this head if its silence costs log P something, lower end above zero, and
  more than it costs those beside (p below 0.05). With fewer than ten, a model is not judged.
- *Power for this*, with the kept numbers of plants in view: of those that act directly and bring a
  tenth or more, over half have the planted head as half A's strongest, in each model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import torch
from command import ROOT
from evidence import keeping
from scipy import stats
from torch import Tensor
from tqdm import tqdm

import ctxbook as cb
import ctxlib as cx
from ctxbook.peaks import HOOKS, Half, LookedUp, Neurons, like

OUT = ROOT / "data" / "evidence" / "lookups.json"
COUNT, LIKELY, MANY = 24, 0.5, 60
TEXTS = {"mini": 240, "smollm2": 240, "qwen": 100}
DRAWS = {"mini": 2}  # of plants; one of other models
SILENCES = ("strongest", "second", "third", "all three", "through")
PREDICT = ("those that predict", "like those that predict")
WHOLE = ("by P", "random")  # groups of which all silences are asked; of others the first
SHARES = (0.0, 0.1, 0.2, 0.4, 0.8)  # of a planted neuron's input weights, turned to its head
HARDER = ("two heads", "by way of the first MLP")  # kinds of plants, at the last of the shares
LOUD = 4  # times as long as they were: a plant's output weights


def patched(found: LookedUp) -> Tensor:
    """Return the neurons' activations at their peaks with the strongest head's direct term at its
    mean, `peak neuron`. Raises ValueError if the terms are not the model's own.
    """
    usual, peak = found.in_B.usual["heads"], found.in_B.terms["heads"]
    inputs = cb.peaks.inputs_of(found.in_B.terms)
    strongest = found.profile_A.argmax(1)
    moved = (peak - usual).flatten(2, 3)  # peak neuron head input
    term = moved[:, torch.arange(len(strongest)), strongest]
    before, after = (cb.peaks.activation(found.model, v) for v in (inputs, inputs - term))
    if not torch.allclose(before, found.in_B.post, atol=1e-2 * float(before.abs().max())):
        raise ValueError("the terms do not give the activations: path patching would be wrong")
    return after


def falls(found: LookedUp, kinds: Sequence[str]) -> dict[str, Tensor]:
    """Return what silence costs the neurons' tokens, in nats: `peak neuron`, of each kind."""
    ranks = {"strongest": slice(0, 1), "second": slice(1, 2), "third": slice(2, 3)}
    ranks["all three"] = slice(0, 3)
    cost = {kind: found.fall(found.heads(ranks[kind])) for kind in kinds if kind in ranks}
    if "through" in kinds:
        held = found.fall(found.heads(ranks["strongest"]), found.in_B.post)
        cost["through"] = cost["strongest"] - held
    if "path" in kinds:
        cost["path"] = found.fall(held=patched(found))
    usual = found.in_A.usual_post.expand_as(found.in_B.post)
    return cost | {"neuron": found.fall(held=usual)}


# ---------------------------------------------------------------- planted look-ups


Heads = Sequence[tuple[int, int]]  # layer and head of each that a neuron's look-up is split over


def loudest(model: Any, x: Tensor, heads: Sequence[Heads], layer: int) -> tuple:
    """Return for each head what it says most, a unit of `d_head` over the spread of it; directions
    of the stream in front of a layer's MLP, those first in which least is said; and that stream.
    """
    inside = {k: f"blocks.{k}.{HOOKS['z']}" for some in heads for k, _ in some}
    mid = f"blocks.{layer}.hook_resid_mid"
    seen: dict[str, list[Tensor]] = {name: [] for name in (*inside.values(), mid)}
    for part in x.split(8):
        _, cache = model.run_with_cache(part, names_filter=list(seen), stop_at_layer=layer + 1)
        for name, v in seen.items():
            v.append(cache[name].cpu()[:, 1:].flatten(0, 1))
    r = torch.cat(seen[mid])
    r = cx.adapter.centered(model, r - r.mean(0))
    quiet = torch.linalg.eigh((r.T @ r).double())[1].T.to(r)
    if model.cfg.normalization_type.startswith("LN"):  # which does not see the mean
        quiet = quiet[quiet.sum(1).abs() < 1e-3 * len(quiet)]

    def most(k: int, i: int) -> Tensor:
        z = torch.cat(seen[inside[k]])[:, i]
        z = z - z.mean(0)
        u = torch.linalg.eigh(z.T @ z)[1][:, -1]
        return u * torch.sign(((z @ u) ** 3).mean()) / (z @ u).std()

    return [[most(k, i) for k, i in some] for some in heads], quiet, r


@contextmanager
def planted(
    model: Any, of: Neurons, heads: Sequence[Heads], plan: tuple, share: float, relay: tuple = ()
) -> Iterator[None]:
    """Let heads also say what they say most where hardly anybody says anything, as loud as the
    stream is in a direction; turn a share of the neurons' input weights there, and their output,
    longer, to their tokens. With a `relay` (neurons of the first MLP, texts), heads are as loud as
    the stream in front of that MLP; its neurons read them, and the others read what it hands on.
    Afterwards the model is as it was.
    """
    said, quiet, r = plan
    W_U, first = cx.lookups.layers.unembedding(model), model.blocks[0].mlp
    told = read = quiet[: len(heads)]
    before: list[tuple[Tensor, Tensor]] = []

    def put(place: Tensor, new: Tensor) -> None:
        before.append((place, place.clone()))
        place.copy_(new)

    def turn(mlp: Any, j: int, stream: Tensor, d: Tensor, share: float) -> None:
        for W in (mlp.W_in, mlp.W_gate):
            if W is not None:
                e = W.data[:, j].cpu()
                put(W.data[:, j], (1 - share) * e + share * (stream @ e).std() / stream.std() * d)

    try:
        near = loudest(model, relay[1], heads, 0)[2] if relay else r
        for some, us, d in zip(heads, said, told, strict=True):
            loud = float(near.std()) / len(some) ** 0.5
            for (k, i), u in zip(some, us, strict=True):
                W_O = model.blocks[k].attn.W_O.data[i]
                put(W_O, W_O.cpu() + loud * torch.outer(u, d))
        if relay:
            read, post = quiet[len(heads) : 2 * len(heads)], f"blocks.0.{HOOKS['post']}"
            for j, d in zip(relay[0], told, strict=True):
                turn(first, j, near, d, 1.0)
            _, cache = model.run_with_cache(relay[1][:32], names_filter=post, stop_at_layer=1)
            for j, d in zip(relay[0], read, strict=True):
                put(first.W_out.data[j], r.std() / cache[post][:, 1:, j].std().cpu() * d)
        for (k, j), t, d in zip(of.places, of.tokens, read, strict=True):
            mlp = model.blocks[k].mlp
            turn(mlp, j, r, d, share)
            out, to = mlp.W_out.data[j], W_U[:, t]
            put(out, LOUD * out.norm().cpu() * to / to.norm())
        yield
    finally:
        for place, old in reversed(before):
            place.copy_(old)


def taken(found: LookedUp, heads: Sequence[Heads]) -> Tensor:
    """Return which share of each neuron's rise at its largest peaks is gone when its heads compute
    their mean over texts and positions.
    """
    lost = torch.zeros(cb.peaks.SILENCED, len(heads))

    def silence(k: int, i: int) -> tuple[str, Any]:
        def hook(own: Tensor, hook: Any) -> Tensor:
            own = own.clone()
            own[:, :, i] = found.in_A.z[k, 1:, i].mean(0).to(own)
            return own

        return f"blocks.{k}.{HOOKS['z']}", hook

    for (q, (k, j)), p in product(enumerate(found.neurons.places), range(len(lost))):
        post, x = f"blocks.{k}.{HOOKS['post']}", found.prompt(q, p)[None]
        with found.model.hooks(fwd_hooks=[silence(*head) for head in heads[q]]):
            _, cache = found.model.run_with_cache(x, names_filter=post, stop_at_layer=k + 1)
        lost[p, q] = found.in_B.post[p, q] - cache[post][0, -1, j].cpu()
    return lost.mean(0) / found.rise["all"][: len(lost)].mean(0)


def drawn_heads(model: Any, of: Neurons, kind: str, seed: int) -> list[Heads]:
    """Return the heads of each neuron's plant: one, two, or one of the first layer."""
    rng, count = np.random.default_rng(seed), 2 if kind == HARDER[0] else 1

    def head(k: int) -> tuple[int, int]:
        layer = 0 if kind == HARDER[1] or k <= 1 else int(rng.integers(1, k))
        return layer, int(rng.integers(model.cfg.n_heads))

    heads: list[Heads] = []
    for k, _ in of.places:
        some: dict[tuple[int, int], None] = {}
        while len(some) < count:
            some[head(k)] = None
        heads.append([*some])
    return heads


def plants(
    model: Any,
    halves: dict[str, Half],
    random: Neurons,
    draws: int,
    kind: str = "",
    shares: Sequence[float] = SHARES,
) -> dict[str, dict]:
    """Return for each share which plants are found, in half A and in both, and what their heads
    bring of the rise; of all draws of heads.
    """
    rows: dict[str, dict] = {str(s): {"found": [], "brings": []} for s in shares}
    behind = [q for q, (k, _) in enumerate(random.places) if k or not kind]
    side = torch.ones_like(random.side[behind])
    of = Neurons([random.places[q] for q in behind], side, random.tokens[behind])
    x, n_heads, d_mlp = halves["A"].tokens, model.cfg.n_heads, model.blocks[0].mlp.W_out.shape[0]
    for seed, share in tqdm([*product(range(draws), shares)], f"plants {kind}"):
        heads = drawn_heads(model, of, kind, seed)
        drawn = np.random.default_rng(seed).permutation(d_mlp)[: len(heads)].tolist()
        relay = (drawn, x) if kind == HARDER[1] else ()
        true = torch.tensor([[k * n_heads + i for k, i in some] for some in heads])
        plan = loudest(model, x, heads, model.cfg.n_layers - 1)
        with planted(model, of, heads, plan, share, relay):
            found = LookedUp.of(model, halves, of)
            direct = found.profile.gather(1, true).sum(1) / found.rise["all"].mean(0)
            brings = taken(found, heads) if relay else direct
        A, B = (
            (profile.topk(true.shape[1]).indices.sort().values == true.sort().values).all(1)
            for profile in (found.profile_A, found.profile)
        )
        rows[str(share)]["found"] += torch.stack([A, A & B], 1).tolist()
        rows[str(share)]["brings"] += brings.tolist()
    return rows


# ---------------------------------------------------------------- all of a model


def facts_of(model: Any, found: LookedUp, group: str) -> dict[str, Any]:
    """Return the numbers of every neuron of a group."""
    heads = found.rise["heads"]  # peak neuron layer head
    rise = {part: found.rise[part] for part in ("all", "MLPs")} | {"heads": heads.sum((2, 3))}
    own = zip(found.neurons.places, found.neurons.side.tolist(), strict=True)
    path = ["path"] * (group not in ("random", *PREDICT))
    asked = (*(SILENCES if group in WHOLE else SILENCES[:1]), *path)
    facts = {
        "places": [[*place, side] for place, side in own],
        "token": [model.tokenizer.decode([t]) for t in found.neurons.tokens.tolist()],
        "documents": found.documents.tolist(),
        "share": found.share.tolist(),
        "fall": {kind: v.tolist() for kind, v in falls(found, asked).items()},
    }
    if group in (*WHOLE, *PREDICT):
        profiles = found.profile_A, found.profile
        facts["strongest"] = [profile.argmax(1).tolist() for profile in profiles]
        facts["winners"] = heads.flatten(2).argmax(2).tolist()
        facts["largest"] = (heads.flatten(2).amax(2) / rise["all"]).quantile(0.5, 0).tolist()
        facts["rise"] = {part: v.tolist() for part, v in rise.items()}
    return facts


def judged(groups: dict[str, dict[str, Any]], plants: dict[str, dict]) -> dict[str, Any]:
    """Return how often the head that wins most often wins, and what became of the conditions."""

    def verdict(found: cb.Estimate, bound: float = 0.0) -> str:
        return "holds" if found.low > bound else "fails" if found.high < bound else "undecided"

    winners = [np.array(groups[group]["winners"]) for group in WHOLE]  # peak neuron
    wins = [np.array([np.bincount(w).max() / len(w) for w in of.T]) for of in winners]
    gap = lambda a, b, axis: a.mean(axis) - b.mean(axis)  # noqa: E731
    p = float(stats.permutation_test(wins, gap, n_resamples=1999, rng=0).pvalue)
    mean, of_random = (float(of.mean()) for of in wins)
    fall, by_P = {k: np.array(v) for k, v in groups["by P"]["fall"].items()}, groups["by P"]
    fall["together"] = fall["all three"] - fall["strongest"] - fall["second"] - fall["third"]
    silent, together, through = (
        cb.peaks.over_peaks(fall[kind], by_P["documents"], by_P["token"])
        for kind in ("strongest", "together", "through")
    )
    rows = (zip(of["brings"], of["found"], strict=True) for of in plants.values())
    hits = [both for row in rows for brings, (_, both) in row if brings >= 0.5]
    lost, way = verdict(silent), verdict(through, silent.value / 2)
    found = {
        "one head wins most peaks": (
            f"{mean:.0%}, random {of_random:.0%} (p = {p:.3f})",
            "holds" if mean > 0.5 and p < 0.05 else "fails",
        ),
        "silence costs the token": (f"{silent:+.2f} nats", lost),
        "three cost more together": (f"{together:+.2f} nats", verdict(together)),
        "through the neuron": (f"{through:+.2f} nats", way if lost == "holds" else "untestable"),
        "plants are found": (
            f"{sum(hits)} of {len(hits)}",
            "holds" if hits and np.mean(hits) >= 0.8 else "fails",
        ),
    }
    return {"wins": [mean, of_random, p], "conditions": found}


def predicting(model: Any, halves: dict[str, Half]) -> dict[str, Any]:
    """Return how many sides of all layers predict their token on half A, and what is found of those
    that do on half B, too, and of others with the same tokens.
    """
    sides = cb.peaks.candidates(model, halves, model.cfg.n_layers)
    likely = {half: P >= LIKELY for half, P in sides.P.items()}
    order = sides.P["A"].flatten().argsort(descending=True)[: min(MANY, int(likely["A"].sum()))]
    chosen: list[Any] = [tuple(map(int, np.unravel_index(i, likely["A"].shape))) for i in order]
    keep = [p for p in chosen if likely["B"][p]]
    members_of: list[list[Any]] = [keep, like(keep, sides, {*chosen})]
    groups: dict[str, Any] = {"sides": sides.tokens.numel(), "on A": int(likely["A"].sum())}
    for group, members in zip(PREDICT, members_of, strict=True):
        places = [p for p in members if p]
        if places:
            facts = facts_of(model, LookedUp.of(model, halves, sides.neurons(places)), group)
            P = {half: [float(P[p]) for p in places] for half, P in sides.P.items()}
            groups[group] = facts | {"P": P, "of": [x for x, p in enumerate(members) if p]}
    return groups


def measure(name: str) -> dict[str, Any]:
    """Return what is kept of a model: its groups, and its plants in the place of random neurons."""
    model = cx.load(name)
    halves = cb.peaks.halves_of(model, TEXTS[name])
    sides = cb.peaks.candidates(model, halves)
    likely = {half: P >= LIKELY for half, P in sides.P.items()}
    predict = [int(likely["A"].sum()), int((likely["A"] & likely["B"]).sum())]
    groups: dict[str, dict[str, Any]] = {}
    for group, members in cb.peaks.groups_of(sides, COUNT).items():
        places = [p for p in members if p]
        found = LookedUp.of(model, halves, sides.neurons(places))
        groups[group] = facts_of(model, found, group) | {
            "P": {half: [float(P[p]) for p in places] for half, P in sides.P.items()},
            "of": [x for x, p in enumerate(members) if p],  # of those that they are like
        }
    random = found.neurons  # the last group
    draws = DRAWS.get(name, 1)
    planted = plants(model, halves, random, draws)
    harder = {kind: plants(model, halves, random, draws, kind, SHARES[-2:]) for kind in HARDER}
    facts = {"sides": sides.tokens.numel(), "predict": predict, "groups": groups}
    facts["predicting"] = predicting(model, halves)
    return facts | {"plants": planted, "harder": harder, "judged": judged(groups, planted)}


main = keeping("lookups", __doc__, OUT, ("mini", "smollm2"), measure)


if __name__ == "__main__":
    sys.exit(main())
