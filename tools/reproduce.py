"""The published figures, held against a model: what stands behind `make reproduce`.

    python tools/reproduce.py --model gpt2               # or mini, a folder, another hub name
    python tools/reproduce.py --positional FOLDER        # W_pos and the attention of layer 0 only
    python tools/reproduce.py --page book/reproduction.md    # the results on mini, as a page

Every figure that can be measured in one number is one small function here, with its protocol; what
is published, by whom, and the bound within which it counts as met stand in
`ctxlib/data/published.toml` under the function's name. A figure about GPT-2
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
from ctxlib.decoders.lookups import TEXTS_AT_A_TIME

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = 1  # of the results file
SHOWN = {"name", "published", "measured", "difference", "verdict", "note", "protocol", "source"}
SHOWN |= {"about", "met if"}  # what every row of it has
GIVEN = {"model", "revision", "first layer", "is GPT-2 small", "texts", "versions"}
DAMAGED = "no results file of this version, or a damaged one; delete it or name another"
WIDTH = 100

GPT2_C = 3.5  # this book's figure for its token embeddings, for where these are not at hand

THE = " the"  # the token at the destination, in all of the paper's figures
KERNEL_AT = 500  # the destination of the paper's Figure 2
SIX, LOCAL = [0, 2, 6, 8, 9, 10], [3, 4, 7]  # heads of GPT-2 small (post)
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
            [cx.split.family(a, b, c, math.nan, self.kernel_at)[0] for a, b, c in facts.to_numpy()]
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
        chosen = self.shaped(family)
        if not chosen:
            raise ValueError(f"this model has no {family} head")
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
    table = cx.decoders.next_token_neurons(model, layers)
    awake = largest(model, torch.stack(texts[:MEANS]), layers) > 0
    on = [bool(awake[k - layers[0], j]) for k, j in table[["layer", "neuron"]].to_numpy()]
    table = table[on].head(FOLLOWED)
    if len(table) < 2:
        raise ValueError("fewer than two next-token neurons are on in any of the texts")
    places = list(zip(table["layer"].tolist(), table["neuron"].tolist(), strict=True))
    prompts = cx.decoders.top_prompts(model, texts, places, PROMPTS)
    usual = cx.decoders.random_prompts(texts, min(USUAL, len(texts)))
    read = cx.decoders.read_prompts(model, usual, layers[-1] + 1)
    means: dict[int, torch.Tensor] = {}
    strongest, winners, lost = [], [], []
    for place, found, token in zip(places, prompts, table["token"].tolist(), strict=True):
        terms = cx.decoders.attribution(model, *place, found.tokens).heads  # prompt layer head
        rise = terms - cx.decoders.attribution(model, *place, read).heads.mean(0)
        winners.append(len(set(rise.flatten(1).argmax(1).tolist())))
        layer, head = divmod(int(rise.mean(0).flatten().argmax()), model.cfg.n_heads)
        strongest.append(f"{layer}.{head}")
        if layer not in means:
            means[layer] = cx.decoders.mean_z(model, texts[:MEANS], length, layer)
        hook = cx.decoders.replace_z(layer, [head], means[layer][:, [head]])
        before, after = (
            cx.decoders.outcome(model, *place, found.tokens, token, hooks).probability.mean()
            for hooks in ([], [hook])
        )
        lost.append(float(before - after))
    return Lookups(strongest, winners, np.array(lost))


def largest(model: Any, tokens: torch.Tensor, layers: range) -> torch.Tensor:
    """Each neuron's largest pre-activation behind BOS: `layer neuron`."""
    names = [f"blocks.{k}.mlp.hook_pre" for k in layers]
    parts = []
    for part in tokens.split(TEXTS_AT_A_TIME):
        _, cache = model.run_with_cache(part, names_filter=names, stop_at_layer=layers[-1] + 1)
        parts.append(torch.stack([cache[name][:, 1:].amax((0, 1)).cpu() for name in names]))
    return torch.stack(parts).amax(0)


# ---------------------------------------------------------------- what a measurement gives


@dataclass(frozen=True)
class Found:
    """`judged` is the number that is held against the bound, with its 95% interval where it has
    one; the rest is how it is shown.
    """

    judged: float
    shown: str
    difference: str = "–"
    note: str = ""
    interval: tuple[float, float] | None = None


def number(value: float, published: float, digits: int, note: str = "") -> Found:
    """A number beside a published one; the number itself is judged."""
    shown, off = (round(float(v), digits) + 0.0 for v in (value, value - published))
    return Found(float(value), f"{shown:.{digits}f}", f"{off:+.{digits}f}", note)


def same_heads(found: Iterable[int], published: Iterable[int], subject: Subject) -> Found:
    """Heads beside published ones; how many differ is judged. Of another model the numbers of
    heads mean nothing.
    """
    here, there = set(found), set(published)
    off = [f"+{h}" for h in sorted(here - there)] + [f"−{h}" for h in sorted(there - here)]
    difference = (" ".join(off) or "none") if subject.is_gpt2_small else "–"
    return Found(len(here ^ there), " ".join(map(str, sorted(here))) or "none", difference)


# ---------------------------------------------------------------- the figures

OTHER_HEADS = "the number of heads on one side only"
PRINTED = "half a unit of the last digit printed"


@dataclass(frozen=True)
class Figure:
    """A published figure and how it is measured. `judges` says in words what is held against the
    bound, where it is not the number shown.

    `texts` is over how many texts of OpenWebText it was published (0: over none); `about` the
    models that it speaks of.
    """

    published: cx.claims.Published
    name: str
    chapter: int
    protocol: str
    measure: Callable[[Subject], Found]
    judges: str = "it"
    texts: int = 0
    about: str = "GPT-2 small"

    @property
    def key(self) -> str:
        return self.published.id

    @property
    def stated(self) -> str:
        """The source's own number, or its words where it gives none."""
        return self.published.value or self.published.quotation


FIGURES: list[Figure] = []


def figure(**facts: Any) -> Callable[[Callable[[Subject], Found]], Callable[[Subject], Found]]:
    """The function below measures this figure, and is called as the figure is."""

    def add(measure: Callable[[Subject], Found]) -> Callable[[Subject], Found]:
        published = cx.claims.published(measure.__name__)
        FIGURES.append(Figure(published, measure=measure, **facts))
        return measure

    return add


# ................................................................ positions alone


@figure(
    name="kernel shapes in layer 0",
    chapter=3,
    protocol="Shapes among slowly decaying, local and uniform that the kernels at n = 500 take; "
    "x_n is ' the', or no token where embeddings are missing.",
)
def kernel_shapes(s: Subject) -> Found:
    shapes = set(s.shapes) & set(SHAPES)
    return Found(len(shapes), f"{len(shapes)} of 3", f"{len(shapes) - 3:+d}")


@figure(
    name="slowly decaying among the six heads",
    chapter=3,
    protocol="Of heads 0, 2, 6, 8, 9, 10 those whose kernel at n = 500 decays slowly by chapter "
    "3's rule, which looks at position alone; of another model, all such heads.",
)
def six_decay_slowly(s: Subject) -> Found:
    slow = s.shaped(SHAPES[0])
    if not s.is_gpt2_small:
        return Found(len(slow), f"{len(slow)} of {s.weights.n_heads}")
    good = set(slow) & set(SIX)
    return Found(len(good), f"{len(good)} of 6", f"{len(good) - 6:+d}")


@figure(
    name="local heads (detokenisation)",
    chapter=3,
    protocol="Heads whose kernel at n = 500 covers fewer than 15 effective tokens.",
    judges=OTHER_HEADS,
)
def local_heads(s: Subject) -> Found:
    return same_heads(s.shaped("local"), LOCAL, s)


@figure(
    name="tokens in the bag of tokens",
    chapter=6,
    protocol="Time constant of the six heads' shared kernel at n = 500, for the query without a "
    "token: half of its effective tokens, as for an exponential.",
)
def bag_length(s: Subject) -> Found:
    shared = cx.shared_kernel(s.kernels[s.group(SIX, SHAPES[0])])
    note = f"half of its mass within {int(cx.half_mass(shared))}"
    return number(float(cx.effective_tokens(shared)) / 2, 50, 0, note)


@figure(
    name="local heads' mass within 7 tokens",
    chapter=3,
    protocol="Mass that the local kernels at n = 500 have on the destination and the 7 tokens "
    "before it, for the query without a token, the least of them.",
)
def local_reach(s: Subject) -> Found:
    least = float(s.kernels[s.group(LOCAL, "local")][:, -8:].sum(-1).min())
    return Found(least, f"{least:.0%}")


# ................................................................ keys


@figure(
    name="scale of LayerNorm 1",
    chapter=2,
    protocol="sqrt(|W_E[x_i] + W_pos[i]|² / d_model) over 100 texts, all positions but the first: "
    "its 5% and 95% quantile, and the share of the positions in the published range.",
    judges="the share",
)
def norm_scale(s: Subject) -> Found:
    w = s.weights
    scales = torch.cat(
        [cx.layer_norm_scale(w.residual(t.tokens), w.eps)[1:].flatten() for t in s.texts[:100]]
    ).numpy()
    low, high = cx.claims.as_printed("0.15")[0], cx.claims.as_printed("0.175")[1]
    ends = np.quantile(scales, (0.05, 0.95))
    within = float(((scales >= low) & (scales <= high)).mean())
    off = f"{ends[0] - 0.15:+.3f} {ends[1] - 0.175:+.3f}"
    return Found(within, f"{ends[0]:.3f} to {ends[1]:.3f}", off, f"share {within:.0%}")


@figure(
    name="TV of true and rebuilt rows",
    chapter=2,
    protocol="Total variation distance between the model's attention rows and those of Equation 1, "
    "at all positions of 10 texts: median of each of the six heads (elsewhere: stable heads), and "
    "the middle of these.",
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
    chapter=3,
    protocol="Heads whose kernel at n = 500, x_n = ' the', decays slowly and that do not prefer a "
    "copy of x_n by more than 2 nats.",
    judges=OTHER_HEADS,
)
def contextual_heads(s: Subject) -> Found:
    s.weights.embeddings()
    return same_heads(s.families.index[s.families["family"] == SHAPES[0]].tolist(), SIX, s)


@figure(
    name="duplicate-token heads",
    chapter=3,
    protocol="Heads that prefer a copy of x_n to another token by more than 2 nats, over 256 "
    "tokens of the vocabulary, and are not local.",
    judges=OTHER_HEADS,
)
def duplicate_heads(s: Subject) -> Found:
    s.weights.embeddings()
    named = s.families["family"]
    return same_heads(named.index[named == "duplicate-token"].tolist(), [1, 5], s)


@figure(
    name="stable heads",
    chapter=4,
    protocol="Heads with a kernel over more than 40 effective tokens whose denominators at "
    "n_ctx / 2, x_n = ' the', stray by less than 30% of their mean over the texts.",
    judges=OTHER_HEADS,
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
    chapter=4,
    protocol="Standard deviation over mean of denom[h, n_ctx / 2, ' the'] over the texts, the "
    "largest of the six heads (elsewhere: of the stable heads, which are chosen by it).",
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
    chapter=4,
    protocol="The same at 24 positions from 2 to the end, evenly apart on a logarithmic axis: the "
    "middle one of them, for the largest of the heads.",
    texts=1000,
)
def spread_along(s: Subject) -> Found:
    spread = s.along[1].quantile(0.5, dim=0)
    return Found(float(spread.max()), f"{spread.max():.1%}")


@figure(
    name="positions inflated by the first token",
    chapter=4,
    protocol="Last of those 24 positions at which the first token has a tenth of the denominator, "
    "mean over the texts and middle one of the heads.",
    texts=1000,
)
def inflated(s: Subject) -> Found:
    places, _, shares = s.along
    share = shares.quantile(0.5, dim=1)
    last = max((m for m, v in zip(places, share.tolist(), strict=True) if v >= 0.1), default=0)
    nearest = int(np.abs(np.array(places) - 100).argmin())
    note = f"share at position {places[nearest]}: {share[nearest]:.1%}"
    return number(last, 100, 0, note)


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
    "chapter": 4,
    "judges": OTHER_HEADS,
    "texts": 1,
}


@figure(
    name="of the six, the one for keywords",
    protocol="Largest ratio of the mean content of keywords to that of stop words, the 50 "
    "commonest tokens of the texts, x_n = ' the', n = n_ctx / 2.",
    **EMPHASIS,
)
def keyword_head(s: Subject) -> Found:
    return same_heads([s.heads[int(emphasis(s).argmax())]], [6], s)


@figure(
    name="of the six, the one for stop words",
    protocol="The smallest such ratio.",
    **EMPHASIS,
)
def stop_word_head(s: Subject) -> Found:
    return same_heads([s.heads[int(emphasis(s).argmin())]], [8], s)


# ................................................................ the circuit


@figure(
    name="context-sensitive neurons at θ = 5",
    chapter=7,
    protocol="Neurons whose 20 largest contributions lie more than 5 above their mean one, "
    "without untrained tokens; calibrated at n_ctx / 2 on the text with the middle denominators.",
    texts=1,
)
def neurons_at_theta(s: Subject) -> Found:
    passed, count = int((s.ranked["top"] > THETA).sum()), len(s.ranked)
    by_rule = int((s.ranked["z"] > cx.neurons.STANDS_OUT).sum())
    off = f"{passed / count - 100 / 3072:+.1%}"
    return Found(passed / count, f"{passed} of {count}", off, f"by this book's rule {by_rule}")


EVALUATION = {
    "chapter": 8,
    "texts": 1000,
    "protocol": "The six heads (elsewhere: stable heads) calibrated on one text at n_ctx / 2 with "
    "x_n = ' the', held against their true contribution in all texts with ' the' at n; median "
    "over the neurons with θ > 5 (elsewhere: found by the book's rule).",
}


@figure(
    name="median r, circuit and truth",
    **EVALUATION,
)
def median_r(s: Subject) -> Found:
    note = f"own token at n: {s.evaluated[True]['r'].median():.4f}; {len(s.found)} neurons"
    return number(s.evaluated[False]["r"].median(), 0.9485, 4, note)


@figure(
    name="median FVU, circuit and truth",
    **EVALUATION,
)
def median_fvu(s: Subject) -> Found:
    note = f"own token at n: {s.evaluated[True]['fvu'].median():.4f}"
    return number(s.evaluated[False]["fvu"].median(), 0.1426, 4, note)


# ................................................................ four neurons

SUBJECT = {
    "chapter": 7,
}
DIALECT = (
    "Chance that the six heads add more to the neuron on a British passage of this book than on an "
    "American one (AUC; elsewhere: of the found neurons the best, which is no evidence)."
)


def about(s: Subject, published: int, inside: str, outside: str | None, place: int = 0) -> Found:
    auc = s.apart(inside, outside)
    j = s.neuron(published, auc, place)
    return Found(float(auc[j]), f"{j}: AUC {auc[j]:.2f}")


@figure(name="neuron for British English", protocol=DIALECT, **SUBJECT)
def neuron_300(s: Subject) -> Found:
    return about(s, 300, "british", "american")


@figure(
    name="a second neuron for British English",
    protocol=DIALECT.replace("the best", "the second best"),
    **SUBJECT,
)
def neuron_704(s: Subject) -> Found:
    return about(s, 704, "british", "american", place=1)


@figure(
    name="cosine of what the two write",
    chapter=7,
    protocol="Cosine of the output weights of these two neurons.",
)
def opposite(s: Subject) -> Found:
    W_out, auc = s.model.blocks[0].mlp.W_out, s.apart("british", "american")
    a, b = (W_out[s.neuron(j, auc, place)] for place, j in enumerate((300, 704)))
    cosine = float(torch.cosine_similarity(a, b, dim=0))
    return Found(cosine, f"{cosine:.2f}")


@figure(
    name="neuron for 20th-century war",
    protocol="Chance that the six heads add more to it on a passage on war than on another "
    "(AUC; elsewhere: of the found neurons the best, which is no evidence).",
    **SUBJECT,
)
def neuron_1621(s: Subject) -> Found:
    return about(s, 1621, "war", None)


@figure(
    name="the tokens named for it, from the top",
    chapter=7,
    protocol="Share of the vocabulary with a larger contribution to that neuron than the tokens "
    "1917, 1918, 1942, 1943, 1944 and Sherman have, the middle one of them.",
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
    protocol="Chance that the six heads add more to it on a passage of scripture than on another "
    "(AUC; elsewhere: of the found neurons the best, which is no evidence).",
    **SUBJECT,
)
def neuron_1710(s: Subject) -> Found:
    return about(s, 1710, "scripture", None)


# ................................................................ look-ups

ABLATION = {
    "chapter": 10,
    "about": "GPT-2 and Pythia",
    "protocol": "Of the 16 most congruent next-token neurons of the last five layers, 20 prompts "
    "each, the head with the largest rise in attribution is mean-ablated: loss of P of the "
    "neuron's token, mean over neurons with its 95% interval.",
}


def loss_of_p(s: Subject) -> Found:
    mean, low, high = cx.decoders.interval(s.lookups.lost)
    heads = Counter(s.lookups.strongest).most_common(3)
    note = "strongest: " + ", ".join(f"{h} ({k})" for h, k in heads)
    return Found(mean, f"{mean:.3f} [{low:.3f}, {high:.3f}]", note=note, interval=(low, high))


@figure(name="loss of P without the strongest head", **ABLATION)
def loss_is_there(s: Subject) -> Found:
    return loss_of_p(s)


@figure(name="the same: how large", **ABLATION)
def loss_is_small(s: Subject) -> Found:
    return loss_of_p(s)


@figure(
    name="neurons woken by several heads",
    chapter=10,
    about="GPT-2 and Pythia",
    protocol="Share of those neurons on whose 20 prompts more than one head has the largest rise.",
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
    verdict = figure.published.verdict(found.judged, found.interval)
    words = {"holds": "met", "does not hold": "missed", "does not apply": "not computed"}
    return words.get(verdict, verdict), ""


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
        "published": figure.stated,
        "source": figure.published.source,
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
    return f"{figure.judges} is {figure.published.condition} ({figure.published.reason or PRINTED})"


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
(Gibson 2025b), and of {{cite:t}}`neo2024interpreting`. Where a source speaks in words, so does the
second column, and the bound is this book's reading of them, the same as in the chapters. A figure
is undecided if the 95% interval of its number contains the bound. The look-up paper's statements
are in words throughout. Its scores need a language model that explains, so
[chapter 11](11_explanations) is not in the table. Circuits are calibrated on a text of the
collection here and on one of the book's passages in the chapters, so FVU differs from
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
    where = f"{escaped(f.published.source)}; [chapter {f.chapter}]({chapter.stem})"
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
