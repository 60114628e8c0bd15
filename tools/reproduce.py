"""The published figures, held against a model: what stands behind `make reproduce`.

    python tools/reproduce.py --model gpt2               # or mini, a folder, another hub name
    python tools/reproduce.py --positional FOLDER        # W_pos and the attention of layer 0 only
    python tools/reproduce.py --page book/reproduction.md    # the results on mini, as a page

Every figure that the paper, the post and the look-up paper publish is one small function here, with
its protocol, its source, and the tolerance within which it counts as met. A figure about GPT-2
small is judged on GPT-2 small only, which is known by its weights and not by its name; any other
model shows its own number. What cannot be computed says why. Ends with 1 if a figure is missed.

Results are kept row by row: a run that was killed goes on where it stopped, as long as model,
texts, versions and code are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import re
import resource
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from build_book import called, slug
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ctxlib as cx

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = 1  # of the results file
SHOWN = {"name", "published", "measured", "difference", "verdict", "note", "protocol", "source"}
SHOWN |= {"about", "met if"}  # what every row of it has
GIVEN = {"model", "revision", "first layer", "is GPT-2 small", "texts", "versions"}
DAMAGED = "no results file of this version, or a damaged one; delete it or name another"
WIDTH = 100

GPT2_C = 3.5  # the typical norm of its token embeddings, for where these are not at hand

THE = " the"  # the token at the destination, in all of the paper's figures
KERNEL_AT = 500  # the destination of the paper's Figure 2
SIX, LOCAL, OTHERS = [0, 2, 6, 8, 9, 10], [3, 4, 7], [1, 5, 11]  # heads of GPT-2 small (post)
SHAPES = ("slowly decaying", "local", "uniform")
THETA = 5.0
WAR = (" 1917", " 1918", " 1942", " 1943", " 1944", " Sherman")  # named by the post
READ, SEARCHED, FOLLOWED, PROMPTS, USUAL, MEANS = 48, 480, 16, 20, 100, 64  # look-ups, chapter 10

# ---------------------------------------------------------------- what is measured


class Subject:
    """A model, or the positional half of its first layer, and what several figures need of it,
    computed once and when it is asked for.
    """

    def __init__(
        self,
        name: str,
        weights: cx.LayerWeights,
        model: Any = None,
        source: str | None = None,
        count: int = 1000,
    ):
        self.name, self.weights, self.count = name, weights, count
        self.source = source or os.environ.get("CTX_TEXTS")
        self._model = model

    @property
    def model(self) -> Any:
        if self._model is None:
            raise ValueError("needs the whole model, and only a part of its first layer is here")
        return self._model

    @property
    def whole(self) -> bool:
        return self._model is not None

    @cached_property
    def is_gpt2_small(self) -> bool:
        """By its weights, not by its name; a part of a model by what there is of it."""
        first, *size = cx.claims.GPT2_SMALL
        here = [self.model.cfg.n_layers, self.model.cfg.d_vocab] if self.whole else size
        return cx.claims.fingerprint(self.weights) == first and here == size

    # ------------------------------------------------------------ kernels

    @property
    def C(self) -> float | None:
        return GPT2_C if self.is_gpt2_small else None

    @property
    def kernel_at(self) -> int:
        return min(KERNEL_AT, self.weights.n_ctx - 1)

    @cached_property
    def families(self) -> pd.DataFrame:
        token, C = (THE, None) if self.weights.W_E is not None else (None, self.C)
        return cx.families(self.weights, self.kernel_at, token, C)

    @cached_property
    def shapes(self) -> pd.Series:
        """The family of each head by its kernel alone, whatever it does with copies."""
        facts = self.families[["effective tokens", "half of the mass within", "TV to uniform"]]
        return pd.Series(
            [
                cx.kernels.family(a, b, c, math.nan, self.kernel_at)[0]
                for a, b, c in facts.to_numpy()
            ]
        )

    def shaped(self, shape: str) -> list[int]:
        return self.shapes.index[self.shapes == shape].tolist()

    @cached_property
    def kernels(self) -> torch.Tensor:
        """`head source`, for the query without a token."""
        return cx.positional_kernels(self.weights, self.kernel_at, None, self.C)

    def group(self, published: list[int], family: str) -> list[int]:
        """The heads that a figure is about: the published ones of GPT-2 small, and of another
        model those of the same family by position alone; ValueError where there are none.
        """
        if self.is_gpt2_small:
            return published
        others = self.shapes.index[~self.shapes.isin(SHAPES[:2])].tolist()
        chosen = self.shaped(family) if family else others
        if not chosen:
            raise ValueError(f"this model has no {family or 'other'} head")
        return chosen

    # ------------------------------------------------------------ texts

    @cached_property
    def texts(self) -> list[cx.texts.Text]:
        self.weights.embeddings()  # or the sentence that says they are missing
        return cx.texts.collection(self.weights, self.count, self.source)

    @property
    def length(self) -> int:
        return min(len(t.tokens) for t in self.texts)

    @property
    def n(self) -> int:
        return min(self.weights.n_ctx // 2, self.length - 1)

    def departs(self, texts: int) -> str:
        """Why these are not the texts of a figure over so many of them, or nothing."""
        if self.n < self.weights.n_ctx // 2:
            return f"the texts end before position {self.weights.n_ctx // 2}"
        return f"{self.count} texts in place of {texts}" if self.count < texts else ""

    @cached_property
    def stable(self) -> list[int]:
        return list(cx.stable_heads(self.weights, self.texts, self.n, THE))

    @property
    def heads(self) -> list[int]:
        """The paper's six on GPT-2 small, elsewhere the stable heads."""
        self.weights.embeddings()
        return SIX if self.is_gpt2_small else self.stable

    @cached_property
    def along(self) -> tuple[list[int], torch.Tensor, torch.Tensor]:
        """Positions, the spread of the denominators over texts at each (`position head`), and the
        share that the first token has in them.
        """
        w = self.weights
        places = sorted(set(np.geomspace(2, self.length - 1, 24).astype(int).tolist()))
        first = self.texts[0].tokens[0]
        spread, share = [], []
        for m in places:
            denoms = cx.softmax_denominators(w, self.texts, m, THE)  # text head
            own = cx.content_scores(w, m, THE, first[None]).exp()[:, 0]
            own = own * cx.positional_kernels(w, m, THE)[:, 0]
            spread.append(denoms.std(0) / denoms.mean(0))
            share.append((own / denoms).mean(0))
        return places, torch.stack(spread)[:, self.heads], torch.stack(share)[:, self.heads]

    # ------------------------------------------------------------ circuit and neurons

    @cached_property
    def circuit(self) -> cx.ContextualCircuit:
        text = cx.middle_text(self.weights, self.texts, self.heads, self.n, THE)
        return cx.ContextualCircuit.calibrate(self.weights, text, self.heads, self.n, THE)

    @cached_property
    def ranked(self) -> pd.DataFrame:
        """`top` and `z` of every neuron, largest first."""
        copy = replace(self.circuit)  # its contribution matrix is large, and goes with it
        return cx.find_neurons(copy, threshold=-math.inf)[["top", "z"]]

    @cached_property
    def found(self) -> list[int]:
        passed = (
            self.ranked["top"] > THETA
            if self.is_gpt2_small
            else self.ranked["z"] > cx.neurons.STANDS_OUT
        )
        if not passed.any():
            raise ValueError("no neuron passes the threshold")
        return self.ranked.index[passed].tolist()

    @cached_property
    def evaluated(self) -> dict[bool, pd.DataFrame]:
        """Per found neuron, without and with the text's own token at n."""
        return {
            own: cx.evaluate(self.circuit, self.texts, self.found, own_token=own)
            for own in (False, True)
        }

    @cached_property
    def on_passages(self) -> tuple[np.ndarray, torch.Tensor]:
        """Domains of the book's passages, and what the heads add to every neuron there."""
        heads, passages = self.heads, cx.texts.passages(self.weights)
        n = min(self.n, *(len(p.tokens) - 1 for p in passages))
        stack = torch.stack([p.tokens[: n + 1] for p in passages])
        truth = cx.true_contribution(self.weights, stack, heads, n)
        return np.array([p.domain for p in passages]), truth

    def apart(self, inside: str, outside: str | None) -> torch.Tensor:
        """For every neuron the AUC of one domain over another, or over all others."""
        domains, values = self.on_passages
        high = values[domains == inside]
        low = values[domains == outside if outside else domains != inside]
        return (high[:, None] > low).float().mean((0, 1))

    def neuron(self, published: int, auc: torch.Tensor, place: int = 0) -> int:
        """The published neuron of GPT-2 small; of another model, the found one with the largest
        AUC, or the next after it.
        """
        if self.is_gpt2_small:
            return published
        order = auc[self.found].argsort(descending=True, stable=True)
        return self.found[order[min(place, len(order) - 1)]]

    # ------------------------------------------------------------ look-ups

    @cached_property
    def lookups(self) -> Lookups:
        return follow(self.model, [t.tokens for t in self.texts[:SEARCHED]])


@dataclass(frozen=True)
class Lookups:
    """Next-token neurons, each with the head that wakes it most."""

    strongest: list[str]  # as layer.head
    winners: list[int]  # how many different heads win on one of its prompts
    lost: np.ndarray  # of its token's probability when that head is silenced, mean over prompts


def follow(model: Any, texts: Sequence[torch.Tensor]) -> Lookups:
    """The experiment of chapter 10, its strongest heads only."""
    length = min(READ, *(len(t) for t in texts))
    texts = [t[:length] for t in texts]
    layers = range(max(0, model.cfg.n_layers - 5), model.cfg.n_layers)
    table = cx.next_token_neurons(model, layers)
    awake = largest(model, torch.stack(texts[:MEANS]), layers) > 0
    on = [bool(awake[k - layers[0], j]) for k, j in table[["layer", "neuron"]].to_numpy()]
    table = table[on].head(FOLLOWED)
    if len(table) < 2:
        raise ValueError("fewer than two next-token neurons are on in any of the texts")
    places = list(zip(table["layer"].tolist(), table["neuron"].tolist(), strict=True))
    prompts = cx.top_prompts(model, texts, places, PROMPTS)
    usual = cx.lookups.random_prompts(texts, min(USUAL, len(texts)))
    read = cx.lookups.read_prompts(model, usual, layers[-1] + 1)
    means: dict[int, torch.Tensor] = {}
    strongest, winners, lost = [], [], []
    for place, found, token in zip(places, prompts, table["token"].tolist(), strict=True):
        terms = cx.attribution(model, *place, found.tokens).heads  # prompt layer head
        rise = terms - cx.attribution(model, *place, read).heads.mean(0)
        winners.append(len(set(rise.flatten(1).argmax(1).tolist())))
        layer, head = divmod(int(rise.mean(0).flatten().argmax()), model.cfg.n_heads)
        strongest.append(f"{layer}.{head}")
        if layer not in means:
            means[layer] = cx.causal.mean_z(model, texts[:MEANS], length, layer)
        hook = cx.causal.replace_z(layer, [head], means[layer][:, [head]])
        before, after = (
            cx.lookups.outcome(model, *place, found.tokens, token, hooks).probability.mean()
            for hooks in ([], [hook])
        )
        lost.append(float(before - after))
    return Lookups(strongest, winners, np.array(lost))


def largest(model: Any, tokens: torch.Tensor, layers: range) -> torch.Tensor:
    """Each neuron's largest pre-activation behind BOS: `layer neuron`."""
    names = [f"blocks.{k}.mlp.hook_pre" for k in layers]
    parts = []
    for part in tokens.split(cx.lookups.TEXTS_AT_A_TIME):
        _, cache = model.run_with_cache(part, names_filter=names, stop_at_layer=layers[-1] + 1)
        parts.append(torch.stack([cache[name][:, 1:].amax((0, 1)).cpu() for name in names]))
    return torch.stack(parts).amax(0)


# ---------------------------------------------------------------- what a measurement gives


@dataclass(frozen=True)
class Found:
    """`judged` is the number that is held against the bounds; the rest is how it is shown."""

    judged: float
    shown: str
    difference: str = "–"
    note: str = ""


def number(value: float, published: float, digits: int, note: str = "") -> Found:
    """A number beside a published one; the number itself is judged."""
    value, off = (round(float(v), digits) + 0.0 for v in (value, value - published))
    return Found(value, f"{value:.{digits}f}", f"{off:+.{digits}f}", note)


def same_heads(found: Iterable[int], published: Iterable[int], subject: Subject) -> Found:
    """Heads beside published ones; how many differ is judged. Of another model the numbers of
    heads mean nothing.
    """
    here, there = set(found), set(published)
    off = [f"+{h}" for h in sorted(here - there)] + [f"−{h}" for h in sorted(there - here)]
    difference = (" ".join(off) or "none") if subject.is_gpt2_small else "–"
    return Found(len(here ^ there), " ".join(map(str, sorted(here))) or "none", difference)


def same_numbers(found: torch.Tensor, published: Sequence[float], subject: Subject) -> Found:
    """Numbers, one a head, beside published ones; the largest relative difference is judged."""
    shown = " ".join(f"{v:.0f}" if v >= 10 or v == int(v) else f"{v:.1f}" for v in found.tolist())
    if not subject.is_gpt2_small:
        return Found(math.nan, shown)
    worst = float((found / torch.tensor(published) - 1).abs().max())
    return Found(worst, shown, f"≤ {worst:.1%}")


# ---------------------------------------------------------------- the figures

PAPER, POST, LOOKUP = "Gibson 2025", "Gibson 2025b", "Neo et al. 2024"
OTHER_HEADS = "the number of heads on one side only"
LARGEST_OFF = "the largest relative difference"
STORED = "this book, from GPT-2 small's weights"


@dataclass(frozen=True)
class Figure:
    """A published figure: met when `at_least <= judged <= at_most`, `because` says why there.
    `judges` says in words what is judged, where it is not the number shown.

    `texts` is over how many texts of OpenWebText it was published (0: over none); `about` the
    models that it speaks of.
    """

    key: str
    name: str
    published: str
    source: str
    chapter: int
    protocol: str
    because: str
    measure: Callable[[Subject], Found]
    judges: str = "it"
    at_least: float = -math.inf
    at_most: float = math.inf
    texts: int = 0
    about: str = "GPT-2 small"


FIGURES: list[Figure] = []


def figure(**facts: Any) -> Callable[[Callable[[Subject], Found]], Callable[[Subject], Found]]:
    """The function below measures this figure, and is called as the figure is."""

    def add(measure: Callable[[Subject], Found]) -> Callable[[Subject], Found]:
        FIGURES.append(Figure(key=measure.__name__, measure=measure, **facts))
        return measure

    return add


# ................................................................ positions alone


@figure(
    name="kernel shapes in layer 0",
    published="3 of 3",
    source=f"{PAPER}, Figure 2",
    chapter=3,
    protocol="Shapes among slowly decaying, local and uniform that the kernels at n = 500 take; "
    "x_n is ' the', or no token where embeddings are missing.",
    because="a count has no tolerance",
    at_least=3,
)
def kernel_shapes(s: Subject) -> Found:
    shapes = set(s.shapes) & set(SHAPES)
    return Found(len(shapes), f"{len(shapes)} of 3", f"{len(shapes) - 3:+d}")


@figure(
    name="slowly decaying among the six heads",
    published="6 of 6",
    source=f"{PAPER}, Figures 1 and 3; {POST}, table of heads",
    chapter=3,
    protocol="Of heads 0, 2, 6, 8, 9, 10 those whose kernel at n = 500 decays slowly by chapter "
    "3's rule, which looks at position alone; of another model, all such heads.",
    because="a count has no tolerance",
    at_least=6,
)
def six_decay_slowly(s: Subject) -> Found:
    slow = s.shaped(SHAPES[0])
    if not s.is_gpt2_small:
        return Found(len(slow), f"{len(slow)} of {s.weights.n_heads}")
    good = set(slow) & set(SIX)
    return Found(len(good), f"{len(good)} of 6", f"{len(good) - 6:+d}")


@figure(
    name="local heads (detokenisation)",
    published="3 4 7",
    source=f"{POST}, table of heads",
    chapter=3,
    protocol="Heads whose kernel at n = 500 covers fewer than 15 effective tokens.",
    judges=OTHER_HEADS,
    because="heads are the same or not",
    at_most=0,
)
def local_heads(s: Subject) -> Found:
    return same_heads(s.shaped("local"), LOCAL, s)


def effective(s: Subject, published: list[int], family: str, figures: Sequence[float]) -> Found:
    return same_numbers(
        cx.effective_tokens(s.kernels)[s.group(published, family)], figures, subject=s
    )


SPREAD = {
    "chapter": 3,
    "source": STORED,
    "protocol": "1 / Σ pos² of the kernels at n = 500, for the query without a token and C = 3.5 "
    "(of another model: its own C, and its heads of the same family).",
    "judges": LARGEST_OFF,
    "because": "2%: the published figures are rounded to two or three digits",
    "at_most": 0.02,
}


@figure(name="effective tokens of the six", published="113 133 102 90 102 97", **SPREAD)
def effective_six(s: Subject) -> Found:
    return effective(s, SIX, SHAPES[0], (113, 133, 102, 90, 102, 97))


@figure(name="effective tokens of heads 3, 4, 7", published="5.6 8.9 7.1", **SPREAD)
def effective_local(s: Subject) -> Found:
    return effective(s, LOCAL, "local", (5.6, 8.9, 7.1))


@figure(name="effective tokens of heads 1, 5, 11", published="121 31 322", **SPREAD)
def effective_others(s: Subject) -> Found:
    return effective(s, OTHERS, "", (121, 31, 322))


@figure(
    name="half of the six's mass within",
    published="36 42 32 28 33 31",
    source=STORED,
    chapter=3,
    protocol="How many tokens back half of each kernel's mass reaches, at n = 500, for the query "
    "without a token.",
    judges=LARGEST_OFF,
    because="2%, less than one token",
    at_most=0.02,
)
def half_six(s: Subject) -> Found:
    reach = cx.half_mass(s.kernels)[s.group(SIX, SHAPES[0])].float()
    return same_numbers(reach, (36, 42, 32, 28, 33, 31), s)


@figure(
    name="tokens in the bag of tokens",
    published="~50",
    source=f"{POST}, overview",
    chapter=6,
    protocol="Effective tokens of the six heads' shared kernel at n = 500, for the query without a "
    "token, as in chapter 6; the source does not say how it counts, and the note has two other "
    "ways.",
    because="a factor of 2, chapter 6's bounds for a round figure",
    at_least=25,
    at_most=100,
)
def bag_length(s: Subject) -> Found:
    shared = cx.shared_kernel(s.kernels[s.group(SIX, SHAPES[0])])
    spread = float(cx.effective_tokens(shared))
    note = f"if exponential, it falls by e in {spread / 2:.0f} tokens"
    return number(spread, 50, 0, f"{note}; half of its mass within {int(cx.half_mass(shared))}")


@figure(
    name="local heads' mass within 7 tokens",
    published="no access beyond ~7",
    source=f"{POST}, appendix",
    chapter=3,
    protocol="Mass that the local kernels at n = 500 have on the destination and the 7 tokens "
    "before it, for the query without a token, the least of them.",
    because="three quarters, chapter 3's bound: the source gives a distance and no share",
    at_least=0.75,
)
def local_reach(s: Subject) -> Found:
    least = float(s.kernels[s.group(LOCAL, "local")][:, -8:].sum(-1).min())
    return Found(least, f"{least:.0%}")


# ................................................................ keys


@figure(
    name="C, the norm of a token embedding",
    published="3.5",
    source=f"{PAPER}, Equation 1",
    chapter=2,
    protocol="Median norm of the centred token embeddings.",
    because="one unit of the published digit: the source may take a mean, or frequent tokens",
    at_least=3.4,
    at_most=3.6,
)
def typical_norm(s: Subject) -> Found:
    return number(s.weights.typical_norm(), GPT2_C, 2)


@figure(
    name="scale of LayerNorm 1",
    published="0.15 to 0.175",
    source=f"{POST}, decomposition",
    chapter=2,
    protocol="5% and 95% quantile of sqrt(|W_E[x_i] + W_pos[i]|² / d_model) over 100 texts, all "
    "positions but the first.",
    judges="what lies beyond either end",
    because="the published figures are rounded to that",
    at_most=0.005,
)
def norm_scale(s: Subject) -> Found:
    w = s.weights
    scales = [cx.layer_norm_scale(w.residual(t.tokens), w.eps)[1:].flatten() for t in s.texts[:100]]
    low, high = np.quantile(torch.cat(scales).numpy(), (0.05, 0.95))
    off = f"{low - 0.15:+.3f} {high - 0.175:+.3f}"
    return Found(float(max(0.15 - low, high - 0.175)), f"{low:.3f} to {high:.3f}", off)


@figure(
    name="TV of true and rebuilt rows",
    published="~0.05",
    source=f"{PAPER}, Figure 1",
    chapter=2,
    protocol="Total variation distance between the model's attention rows and those of Equation 1, "
    "at all positions of 10 texts: median of each of the six heads (elsewhere: stable heads), and "
    "the middle of these.",
    because="chapter 2's bound for about 0.05, read off a plot; a smaller distance is no miss",
    at_most=0.06,
    texts=1,
)
def tv(s: Subject) -> Found:
    apart = [
        cx.total_variation(
            cx.attention_pattern(s.weights, t.tokens), cx.rebuilt_pattern(s.weights, t.tokens)
        )[s.heads, 1:]
        for t in s.texts[:10]
    ]
    medians = torch.cat(apart, dim=1).median(-1).values
    note = f"{medians.min():.3f} to {medians.max():.3f} over the heads"
    return number(float(medians.quantile(0.5)), 0.05, 3, note)


# ................................................................ heads and denominators


@figure(
    name="slowly decaying heads, copies apart",
    published="0 2 6 8 9 10",
    source=f"{POST}, table of heads",
    chapter=3,
    protocol="Heads whose kernel at n = 500, x_n = ' the', decays slowly and that do not prefer a "
    "copy of x_n by more than 2 nats.",
    judges=OTHER_HEADS,
    because="one head may differ: the source says itself that one of the six looks for copies",
    at_most=1,
)
def contextual_heads(s: Subject) -> Found:
    s.weights.embeddings()
    return same_heads(s.families.index[s.families["family"] == SHAPES[0]].tolist(), SIX, s)


@figure(
    name="duplicate-token heads",
    published="1 5",
    source=f"{POST}, table of heads",
    chapter=3,
    protocol="Heads that prefer a copy of x_n to another token by more than 2 nats, over 256 "
    "tokens of the vocabulary, and are not local.",
    judges=OTHER_HEADS,
    because="one head may differ: the source says itself that one of the six looks for copies",
    at_most=1,
)
def duplicate_heads(s: Subject) -> Found:
    s.weights.embeddings()
    named = s.families["family"]
    return same_heads(named.index[named == "duplicate-token"].tolist(), [1, 5], s)


@figure(
    name="stable heads",
    published="0 2 6 8 9 10",
    source=f"{PAPER}, Figures 3 and 4",
    chapter=4,
    protocol="Heads with a kernel over more than 40 effective tokens whose denominators at "
    "n_ctx / 2, x_n = ' the', stray by less than 30% of their mean over the texts.",
    judges=OTHER_HEADS,
    because="heads are the same or not",
    at_most=0,
    texts=1000,
)
def stable_heads(s: Subject) -> Found:
    s.weights.embeddings()
    try:
        return same_heads(s.stable, SIX, s)
    except ValueError as none:  # that no head is stable is a result
        return replace(same_heads([], SIX, s), note=cx.models.first_line(none))


@figure(
    name="spread of denominators at n_ctx / 2",
    published="stable",
    source=f"{PAPER}, Figure 4",
    chapter=4,
    protocol="Standard deviation over mean of denom[h, n_ctx / 2, ' the'] over the texts, the "
    "largest of the six heads (elsewhere: of the stable heads, which are chosen by it).",
    because="30%, the book's bound for a stable head: the figure is a plot, without a number",
    at_most=cx.denominators.STEADY,
    texts=1000,
)
def spread_at_half(s: Subject) -> Found:
    denoms = cx.softmax_denominators(s.weights, s.texts, s.n, THE)[:, s.heads]
    spread = denoms.std(0) / denoms.mean(0)
    return Found(
        float(spread.max()), f"{spread.max():.1%}", note=f"middle head {spread.quantile(0.5):.1%}"
    )


@figure(
    name="spread of denominators along the text",
    published="stable",
    source=f"{PAPER}, Figure 3",
    chapter=4,
    protocol="The same at 24 positions from 2 to the end, evenly apart on a logarithmic axis: the "
    "middle one of them, for the largest of the heads.",
    because="30%, as above",
    at_most=cx.denominators.STEADY,
    texts=1000,
)
def spread_along(s: Subject) -> Found:
    spread = s.along[1].quantile(0.5, dim=0)
    return Found(float(spread.max()), f"{spread.max():.1%}")


@figure(
    name="positions inflated by the first token",
    published="~100",
    source=f"{POST}, denominators and appendix",
    chapter=4,
    protocol="First of those 24 positions from which the first token's share of the denominator, "
    "mean over the texts and middle one of the heads, stays below a tenth.",
    because="a factor of 2: a round figure, and a tenth is this book's reading",
    at_least=50,
    at_most=200,
    texts=1000,
)
def inflated(s: Subject) -> Found:
    places, _, shares = s.along
    share = shares.quantile(0.5, dim=1)
    above = [k for k, v in enumerate(share.tolist()) if v >= 0.1]
    if above and above[-1] + 1 == len(places):
        raise ValueError(f"the first token keeps {share[-1]:.0%} of the denominator to the end")
    nearest = int(np.abs(np.array(places) - 100).argmin())
    note = f"share at position {places[nearest]}: {share[nearest]:.1%}"
    return number(places[above[-1] + 1] if above else 0, 100, 0, note)


def emphasis(s: Subject) -> torch.Tensor:
    """Mean content of other tokens over that of stop words, the 50 commonest, for each head."""
    counts = torch.bincount(
        torch.cat([t.tokens[1:] for t in s.texts]), minlength=s.weights.d_vocab
    ).float()
    stop = counts.argsort(descending=True, stable=True)[:50]
    others = counts.clone()
    others[stop] = 0
    content = cx.content_scores(s.weights, s.n, THE).exp()[s.heads]
    of_stop = content[:, stop] @ counts[stop] / counts[stop].sum()
    return content @ others / others.sum() / of_stop


EMPHASIS = {
    "source": f"{POST}, denominators",
    "chapter": 4,
    "judges": OTHER_HEADS,
    "because": "heads are the same or not",
    "at_most": 0,
    "texts": 1,
}


@figure(
    name="of the six, the one for keywords",
    published="6",
    protocol="Largest ratio of the mean content of keywords to that of stop words, the 50 "
    "commonest tokens of the texts, x_n = ' the', n = n_ctx / 2.",
    **EMPHASIS,
)
def keyword_head(s: Subject) -> Found:
    return same_heads([s.heads[int(emphasis(s).argmax())]], [6], s)


@figure(
    name="of the six, the one for stop words",
    published="8",
    protocol="The smallest such ratio.",
    **EMPHASIS,
)
def stop_word_head(s: Subject) -> Found:
    return same_heads([s.heads[int(emphasis(s).argmin())]], [8], s)


# ................................................................ the circuit


@figure(
    name="context-sensitive neurons at θ = 5",
    published="~100",
    source=f"{PAPER}, section on neurons",
    chapter=7,
    protocol="Neurons whose 20 largest contributions lie more than 5 above their mean one, "
    "without untrained tokens; calibrated at n_ctx / 2 on the text with the middle denominators.",
    because="a factor of 2: a round figure, and its calibration text and number of tokens are "
    "not at hand",
    at_least=50,
    at_most=200,
    texts=1,
)
def neurons_at_theta(s: Subject) -> Found:
    passed = int((s.ranked["top"] > THETA).sum())
    by_rule = int((s.ranked["z"] > cx.neurons.STANDS_OUT).sum())
    note = f"of {len(s.ranked)}; by this book's rule {by_rule}"
    return number(passed, 100, 0, note)


EVALUATION = {
    "source": f"{PAPER}, section on evaluation",
    "chapter": 8,
    "texts": 1000,
    "protocol": "The six heads (elsewhere: stable heads) calibrated on one text at n_ctx / 2 with "
    "x_n = ' the', held against their true contribution in all texts with ' the' at n; median "
    "over the neurons with θ > 5 (elsewhere: found by the book's rule).",
}


@figure(
    name="median r, circuit and truth",
    published="0.9485",
    because="0.02: about what other texts and another calibration text may change",
    at_least=0.9285,
    at_most=0.9685,
    **EVALUATION,
)
def median_r(s: Subject) -> Found:
    note = f"own token at n: {s.evaluated[True]['r'].median():.4f}; {len(s.found)} neurons"
    return number(s.evaluated[False]["r"].median(), 0.9485, 4, note)


@figure(
    name="median FVU, circuit and truth",
    published="0.1426",
    because="0.05: it holds the offset too, which the calibration text decides",
    at_least=0.0926,
    at_most=0.1926,
    **EVALUATION,
)
def median_fvu(s: Subject) -> Found:
    note = f"own token at n: {s.evaluated[True]['fvu'].median():.4f}"
    return number(s.evaluated[False]["fvu"].median(), 0.1426, 4, note)


# ................................................................ four neurons

SUBJECT = {
    "source": f"{POST}, contextual neurons",
    "chapter": 7,
    "because": "an AUC of 0.8: the source shows tokens and one text, without a figure",
    "at_least": 0.8,
}
DIALECT = (
    "Chance that the six heads add more to the neuron on a British passage of this book than on an "
    "American one (AUC; elsewhere: of the found neurons the best, which is no evidence)."
)


def about(s: Subject, published: int, inside: str, outside: str | None, place: int = 0) -> Found:
    auc = s.apart(inside, outside)
    j = s.neuron(published, auc, place)
    return Found(float(auc[j]), f"{j}: AUC {auc[j]:.2f}")


@figure(name="neuron for British English", published="300", protocol=DIALECT, **SUBJECT)
def neuron_300(s: Subject) -> Found:
    return about(s, 300, "british", "american")


@figure(
    name="a second neuron for British English",
    published="704",
    protocol=DIALECT.replace("the best", "the second best"),
    **SUBJECT,
)
def neuron_704(s: Subject) -> Found:
    return about(s, 704, "british", "american", place=1)


@figure(
    name="cosine of what the two write",
    published="opposite",
    source=f"{POST}, contextual neurons",
    chapter=7,
    protocol="Cosine of the output weights of these two neurons.",
    because="about three standard deviations of random directions in GPT-2 small",
    at_most=-0.1,
)
def opposite(s: Subject) -> Found:
    W_out, auc = s.model.blocks[0].mlp.W_out, s.apart("british", "american")
    a, b = (W_out[s.neuron(j, auc, place)] for place, j in enumerate((300, 704)))
    cosine = float(torch.cosine_similarity(a, b, dim=0))
    return Found(cosine, f"{cosine:.2f}")


@figure(
    name="neuron for 20th-century war",
    published="1621",
    protocol="Chance that the six heads add more to it on a passage on war than on another "
    "(AUC; elsewhere: of the found neurons the best, which is no evidence).",
    **SUBJECT,
)
def neuron_1621(s: Subject) -> Found:
    return about(s, 1621, "war", None)


@figure(
    name="the tokens named for it, from the top",
    published="the top",
    source=f"{POST}, contextual neurons",
    chapter=7,
    protocol="Share of the vocabulary with a larger contribution to that neuron than the tokens "
    "1917, 1918, 1942, 1943, 1944 and Sherman have, the middle one of them.",
    because="1% of the vocabulary: the source lists them among the top ones",
    at_most=0.01,
)
def war_tokens(s: Subject) -> Found:
    w = s.weights
    w.embeddings()
    coded = [w.tokenizer.encode(word, add_special_tokens=False) for word in WAR]
    ids = [t for t, *rest in coded if not rest]
    if not ids:
        raise ValueError("none of the tokens named is one token in this vocabulary")
    j = s.neuron(1621, s.apart("war", None))
    column = torch.tensordot(s.circuit.weighted_values, s.circuit.readout[..., j], dims=2)
    above = torch.stack([(column > column[t]).float().mean() for t in ids])
    note = "" if len(ids) == len(WAR) else f"{len(ids)} of the {len(WAR)} are single tokens"
    return Found(float(above.median()), f"{above.median():.2%}", note=note)


@figure(
    name="neuron for religious text",
    published="1710",
    protocol="Chance that the six heads add more to it on a passage of scripture than on another "
    "(AUC; elsewhere: of the found neurons the best, which is no evidence).",
    **SUBJECT,
)
def neuron_1710(s: Subject) -> Found:
    return about(s, 1710, "scripture", None)


# ................................................................ look-ups

ABLATION = {
    "source": f"{LOOKUP}, section on ablation",
    "chapter": 10,
    "about": "GPT-2 and Pythia",
    "protocol": "Of the 16 most congruent next-token neurons of the last five layers, 20 prompts "
    "each, the head with the largest rise in attribution is mean-ablated: loss of P of the "
    "neuron's token, mean over neurons with its 95% interval.",
}


def loss_of_p(s: Subject, end: int) -> Found:
    interval = cx.causal.interval(s.lookups.lost)
    mean, low, high = interval
    heads = Counter(s.lookups.strongest).most_common(3)
    note = "strongest: " + ", ".join(f"{h} ({k})" for h, k in heads)
    return Found(interval[end], f"{mean:.3f} [{low:.3f}, {high:.3f}]", note=note)


@figure(
    name="loss of P without the strongest head",
    published="significant",
    judges="the interval's lower end",
    because="significant means clear of zero",
    at_least=0,
    **ABLATION,
)
def loss_is_there(s: Subject) -> Found:
    return loss_of_p(s, 1)


@figure(
    name="the same: how large",
    published="small",
    judges="the mean",
    because="the source says so in words",
    at_most=0.1,
    **ABLATION,
)
def loss_is_small(s: Subject) -> Found:
    return loss_of_p(s, 0)


@figure(
    name="neurons woken by several heads",
    published="different heads",
    source=f"{LOOKUP}, section 5.1",
    chapter=10,
    about="GPT-2 and Pythia",
    protocol="Share of those neurons on whose 20 prompts more than one head has the largest rise.",
    because="half of them: the source says so in words",
    at_least=0.5,
)
def several_heads(s: Subject) -> Found:
    share = float(np.mean(np.array(s.lookups.winners) > 1))
    return Found(share, f"{share:.0%}")


# ---------------------------------------------------------------- judging


def judge(figure: Figure, found: Found | None, subject: Subject) -> tuple[str, str]:
    """The verdict and, where it needs one, its reason. Judged is GPT-2 small only."""
    if found is None or not subject.is_gpt2_small:
        return ("not computed", "") if found is None else ("another model", "")
    if figure.texts and (why := subject.departs(figure.texts)):
        return "other texts", why
    claim = cx.claims.Claim(
        figure.name, figure.published, found.judged, figure.at_least, figure.at_most
    )
    words = {"holds": "met", "does not hold": "missed", "does not apply": "not computed"}
    return words[claim.verdict], ""


def measured(figure: Figure, subject: Subject) -> dict[str, Any]:
    """The row of one figure. What cannot be computed for this model says why."""
    found, why = None, ""
    try:
        found = figure.measure(subject)
    except ValueError as error:
        why = cx.models.first_line(error)
    verdict, reason = judge(figure, found, subject)
    row: dict[str, Any] = {
        "name": figure.name,
        "published": figure.published,
        "source": figure.source,
        "about": figure.about,
        "protocol": figure.protocol,
        "met if": condition(figure),
        "measured": "–" if found is None else found.shown,
        "judged": None if found is None or math.isnan(found.judged) else rounded(found.judged),
        "difference": "–" if found is None else found.difference,
        "verdict": verdict,
        "note": "; ".join(filter(None, (why, reason, found.note if found else ""))),
    }
    return row


def condition(figure: Figure) -> str:
    """The bounds, and why they are there."""
    claim = cx.claims.Claim("", "", math.nan, figure.at_least, figure.at_most)
    return f"{figure.judges} is {claim.condition} ({figure.because})"


def rounded(value: float) -> float:
    return float(f"{value:.6g}")


# ---------------------------------------------------------------- the results file


def provenance(subject: Subject) -> dict[str, Any]:
    """What the results depend on, without any path of this machine."""
    given: dict[str, Any] = {
        "model": subject.name,
        "revision": None,
        "first layer": cx.claims.fingerprint(subject.weights),
        "is GPT-2 small": subject.is_gpt2_small,
        "texts": None,
        "versions": {
            "python": platform.python_version(),
            "ctxlib": cx.__version__,
            "torch": str(torch.__version__).partition("+")[0],
            "transformers": transformers.__version__,
            "numpy": np.__version__,
        },
        "code": code_digest(),
    }
    if subject.whole:
        digest = hashlib.sha256()
        for text in subject.texts:
            digest.update(text.tokens.numpy().tobytes())
        name = Path(subject.source).name if subject.source else "held-out documents"
        given["texts"] = {"name": name, "count": subject.count, "tokens": digest.hexdigest()}
        config = subject.model.original_model.config
        given["revision"] = getattr(config, "_commit_hash", None)
    return given


def code_digest() -> str:
    """A fingerprint of what computes: this file and the package."""
    files = [Path(__file__), *sorted(Path(cx.__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(f.name.encode() + f.read_bytes() for f in files)).hexdigest()


def date() -> str:
    """Today, or what SOURCE_DATE_EPOCH says, so that a page can be made again."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        when = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"SOURCE_DATE_EPOCH={epoch}: expected seconds since 1970") from error
    return when.date().isoformat()


def held(file: Path) -> dict[str, Any]:
    """What a results file holds; ValueError for one that is damaged or something else."""
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
        if results["schema"] != SCHEMA:
            raise ValueError(f"schema {results['schema']}")
        whole = {"date", "provenance"} <= results.keys()
        whole &= results["provenance"].keys() >= GIVEN
        whole &= all(row.keys() >= SHOWN for row in results["rows"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: {DAMAGED}") from error
    if not whole:
        raise ValueError(f"{file}: {DAMAGED}")
    return results


def kept_rows(file: Path, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The finished rows of an earlier run on the same model, texts, versions and code."""
    if not file.exists():
        return {}
    before = held(file)
    if before["provenance"] != given:
        print(f"{file.name} holds results of another model, texts, versions or code: anew")
        return {}
    return {f.key: before["rows"][f.key] for f in FIGURES if f.key in before["rows"]}


def write(file: Path, results: dict[str, Any]) -> None:
    """Beside the old file first, then in its place: a kill leaves a whole one."""
    put(file, json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False))


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    part.replace(file)


def reproduce(subject: Subject, file: Path) -> dict[str, Any]:
    """Every figure, measured or taken from the results file, which is written row by row."""
    given = provenance(subject)
    rows = kept_rows(file, given)
    results = {"schema": SCHEMA, "date": date(), "provenance": given, "rows": rows}
    todo = [f for f in FIGURES if f.key not in rows]
    for f in cx.texts.progress(todo, "figures", "figure"):
        rows[f.key] = measured(f, subject)
        write(file, results)
    if not todo:
        write(file, results)
    return results


# ---------------------------------------------------------------- showing


def ordered(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [results["rows"][f.key] for f in FIGURES if f.key in results["rows"]]


def table(results: dict[str, Any]) -> str:
    """All rows on `WIDTH` columns, each with its protocol below it."""
    widths = (39, 23, 23)
    lines = [line_of(("figure", "published", "measured"), widths) + "difference", "=" * WIDTH]
    for row in ordered(results):
        values = row["name"], row["published"], row["measured"]
        lines.append(line_of(values, widths) + row["difference"])
        lines += wrapped(f"{row['verdict'].upper()}. {row['note']}".rstrip(". ") + ".", 4)
        about = f"From {row['source']}, on {row['about']}. Met if {row['met if']}."
        lines += wrapped(f"{row['protocol']} {about}", 4)
        lines.append("-" * WIDTH)
    return "\n".join(lines)


def line_of(values: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{v:<{w}}" for v, w in zip(values, widths, strict=True))


def wrapped(text: str, indent: int) -> list[str]:
    space = " " * indent
    return textwrap.wrap(text, WIDTH, initial_indent=space, subsequent_indent=space)


def tally(results: dict[str, Any]) -> str:
    """How many rows have which verdict, in a line."""
    counts = Counter(row["verdict"] for row in ordered(results))
    return ", ".join(f"{verdict} {k}" for verdict, k in counts.most_common())


PAGE = """# Do the published figures come out?

Each line holds a figure that was published about GPT-2 small (the last three: about models of the
GPT-2 and Pythia families) against the same measurement on `{model}`. {judging} How each number is
measured, and how near it must come to count as met, stands below the table.

{table}
{others}
With GPT-2 itself, `make reproduce MODEL=gpt2` prints the same lines with verdicts, and ends with an
error if a figure is missed. `CTX_TEXTS` names the texts; the publication's are OpenWebText, and a
text counts if it fills the model's context. The figures are those of
{{cite:t}}`gibson2025decomposing` (Gibson 2025), of the earlier post {{cite}}`gibson2025contextual`
(Gibson 2025b), and of {{cite:t}}`neo2024interpreting`. Effective tokens and half of the mass are
this book's, from GPT-2 small's weights: there the table says whether a model is read as before.
Where a source speaks in words, so does the second column, and the bound is this book's reading of
them. The look-up paper's statements are in words throughout. Its scores need a language model that
explains, so [chapter 11](11_explanations) is not in the table. Circuits are calibrated on a text of
the collection here and on one of the book's passages in the chapters, so FVU differs from
[chapter 8](08_evaluation).

## Protocols

{protocols}

## Where these numbers come from

{provenance}

Made by `python tools/reproduce.py --model {model} --page book/reproduction.md{also}`,
which keeps its results in `_build/reproduce/`, row by row.{alone}
"""
ANOTHER = (
    "That is another model, so nothing is judged: its own numbers say whether the method finds "
    "there what it found in GPT-2 small, not whether the publication is right."
)
OTHER = """
## What is already known of `{model}`

{knows} {missing} of the {all} figures cannot be computed from what was at hand, and are left out.

{table}

{notes}
"""
ALONE = """ What is already known of a model was computed before, with
`--positional FOLDER` in place of `--model`, where FOLDER holds its position embeddings and first
attention alone."""
COLUMNS = ("figure", "published", "measured", "difference", "verdict")


def page(results: dict[str, Any], also: Sequence[dict[str, Any]] = ()) -> str:
    """The results as a page of the book, and below them what other runs have computed."""
    given = results["provenance"]
    others = []
    for other in also:
        told = [row for row in ordered(other) if row["verdict"] != "not computed"]
        by_weights = "The weights are those of GPT-2 small." * other["provenance"]["is GPT-2 small"]
        others.append(
            OTHER.format(
                model=other["provenance"]["model"],
                knows=by_weights or ANOTHER,
                missing=len(FIGURES) - len(told),
                all=len(FIGURES),
                table=markdown(told),
                notes="\n".join(
                    f"- {escaped(row['name'])}: {escaped(row['note'])}"
                    for row in told
                    if row["note"]
                ),
            )
        )
    return PAGE.format(
        model=given["model"],
        judging="" if given["is GPT-2 small"] else ANOTHER,
        table=markdown(ordered(results)),
        others="\n".join(others),
        protocols="\n\n".join(protocol(f, results["rows"][f.key]["note"]) for f in FIGURES),
        provenance="\n\n".join(origin(r) for r in (results, *also)),
        also=" --also" * bool(also)
        + "".join(f" _build/reproduce/{slug(o['provenance']['model'])}.json" for o in also),
        alone=ALONE if also else "",
    )


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Rows as a table."""
    lines = [cells(COLUMNS), "| --- " * len(COLUMNS) + "|"]
    lines += [cells([row["name"], *(row[k] for k in COLUMNS[1:])]) for row in rows]
    return "\n".join(lines)


def protocol(f: Figure, note: str) -> str:
    """A figure's protocol as a paragraph, with the chapter that explains it."""
    (chapter,) = (ROOT / "chapters").glob(f"{f.chapter:02}_*.py")
    where = f"{escaped(f.source)}; [chapter {f.chapter}]({chapter.stem})"
    here = f" *Here:* {escaped(note)}." if note else ""
    met = f"Met if {escaped(condition(f))}."
    return f"**{escaped(f.name)}** ({where}). {escaped(f.protocol)} {met}{here}"


def origin(results: dict[str, Any]) -> str:
    """A run's provenance as a table."""
    given = results["provenance"]
    texts = given["texts"] or {"count": 0, "name": "none needed", "tokens": ""}
    facts = {
        "model": given["model"],
        "revision": given["revision"] or "not from a hub",
        "first layer, fingerprint": given["first layer"][:16],
        "texts": f"{texts['count']}, {texts['name']}" if texts["count"] else texts["name"],
        "their tokens, sha256": texts["tokens"][:16] or "none",
        "versions": ", ".join(f"{k} {v}" for k, v in sorted(given["versions"].items())),
        "date": results["date"],
    }
    return "\n".join(["| what | which |", "| --- | --- |", *map(cells, facts.items())])


def cells(values: Iterable[str]) -> str:
    return "| " + " | ".join(escaped(v) for v in values) + " |"


def escaped(text: str) -> str:
    """Without what Markdown would take for its own."""
    text = re.sub(r"([|*_\[\]~])", r"\\\1", text)
    return re.sub(r"' \w+'", r"`\g<0>`", text)  # a token is code, or its quotation marks would turn


# ---------------------------------------------------------------- the command


def positional(folder: Path) -> cx.LayerWeights:
    """The first layer from a folder that holds GPT-2's position embeddings and the attention of
    layer 0, under their Hugging Face names, in safetensors.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{folder} holds no .safetensors file")
    state: dict[str, torch.Tensor] = {}
    try:
        for file in files:
            state |= load_file(file)
    except Exception as error:  # safetensors raises classes of its own
        raise ValueError(f"{folder} cannot be read: {cx.models.first_line(error)}") from error
    named = [k for k in state if k.endswith("wpe.weight")]
    heads = state[named[0]].shape[1] // 64 if named else 1  # 64 numbers a head in every GPT-2
    if (config := folder / "config.json").exists():
        try:
            heads = int(json.loads(config.read_text(encoding="utf-8"))["n_head"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{config} does not say n_head") from error
    return cx.LayerWeights.from_state_dict(state, n_heads=heads)


def subject_of(args: argparse.Namespace) -> Subject:
    """What the command line asks for; its texts are found before anything is computed."""
    if args.count < 2:
        raise ValueError(f"--count {args.count}: a spread over texts needs at least two")
    if args.positional:
        return Subject(called(str(args.positional)), positional(args.positional))
    model = cx.load(args.model)
    name = called(args.model)
    subject = Subject(name, cx.LayerWeights.of(model), model, args.texts, args.count)
    print(f"{name}: {len(subject.texts)} texts, destination {subject.n}", flush=True)
    return subject


def run(args: argparse.Namespace) -> int:
    subject = subject_of(args)
    file = args.out or ROOT / "_build" / "reproduce" / f"{slug(subject.name)}.json"
    results = reproduce(subject, file)
    print(table(results))
    print(f"{tally(results)}; kept in {file.name}")
    if args.page:
        put(args.page, page(results, [held(other) for other in args.also]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB on Linux
    print(f"peak memory {peak:.1f} GiB")
    return int(any(row["verdict"] == "missed" for row in ordered(results)))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", default="mini", help="mini, a folder, or a hub name")
    which.add_argument("--positional", type=Path, metavar="FOLDER", help="a part of layer 0 only")
    parser.add_argument("--texts", help="as CTX_TEXTS: a file, a folder, or a data set on the hub")
    parser.add_argument("--count", type=int, default=1000, help="how many texts (1000)")
    parser.add_argument("--out", type=Path, help="the results file (JSON)")
    parser.add_argument("--page", type=Path, help="write the results as a page of the book, too")
    parser.add_argument(
        "--also", type=Path, nargs="*", default=[], help="results of other runs, for the page"
    )
    try:
        return run(parser.parse_args(argv))
    except (ValueError, OSError) as error:
        print(f"reproduce: {cx.models.first_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("reproduce: interrupted; finished rows are kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
