"""When is a head active? The prompts of a neuron, sorted by what one head adds to it (chapter 16).

A **prompt** of a neuron is a text cut off where the neuron is most active. A **case** is a neuron
and a head that is active on some of its strongest prompts and inactive on others, in both halves of
the texts: half A is shown to whoever explains, half B is held out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ctxbook.intervals import half_masks
from ctxlib.adapter import upstream_layers
from ctxlib.lookups import hooks, layers
from ctxlib.lookups.attribution import Reading, attribution
from ctxlib.lookups.congruence import next_token_neurons, random_neurons
from ctxlib.lookups.explain import Prompts
from ctxlib.texts.batching import progress
from ctxlib.texts.sources import collection
from ctxlib.texts.text import Reader, Text

HOOKS = ("attn.hook_z", "hook_mlp_out", "mlp.hook_pre")
STRONGEST = 5  # heads of each neuron that may become cases
LEAST = 8, 4  # prompts of either kind that a case needs, in half A and in half B
PEAKS = 20  # over which a neuron's P is averaged

Neuron = tuple[int, int]  # layer, neuron


@dataclass(frozen=True, eq=False)
class Read:
    """Texts, and what a model computes in them. Each is cut off in three ways: at a neuron's
    `peak`, which is at `end`; `anywhere`; and all at one length, `alike`.
    """

    model: Any
    texts: Sequence[Text]
    ids: Int[Tensor, "text pos"]
    anywhere: Int[Tensor, " text"]
    alike: Int[Tensor, " text"]
    embedding: Float[Tensor, "text pos d_model"]
    z: Float[Tensor, "text pos layer head d_head"]
    mlp_out: Float[Tensor, "text pos layer d_model"]
    leaves: Float[Tensor, "text pos d_model"]
    peak: Float[Tensor, "text layer neuron"]
    end: Int[Tensor, "text layer neuron"]
    pre: tuple[Float[Tensor, "text layer neuron"], Float[Tensor, "text layer neuron"]]

    @classmethod
    def of(cls, model: Any, count: int, length: int = 64) -> Read:
        """Read so many held-out texts, as far as `length`.

        >>> read = cb.cases.Read.of(model, 22, 20)
        >>> read.end.shape  # text layer neuron
        torch.Size([22, 4, 1024])
        """
        n_layers = model.cfg.n_layers
        texts = collection(Reader.of(model, min(length, model.cfg.n_ctx)), count)
        ids, last = hooks.pad(model, [text.tokens for text in texts])
        rng = np.random.default_rng(0)
        anywhere = torch.tensor([rng.integers(1, k + 1) for k in last.tolist()])
        alike = torch.full_like(last, int(last.min()))
        first, end_of = "blocks.0.hook_resid_pre", f"blocks.{n_layers - 1}.hook_resid_post"
        names = [first, end_of, *(f"blocks.{k}.{hook}" for k in range(n_layers) for hook in HOOKS)]
        parts = []
        for rows in progress(torch.arange(len(texts)).split(8), "reading", "batch"):
            _, kept = model.run_with_cache(ids[rows], names_filter=names, logits_to_keep=1)
            z, mlp_out, pre = (
                torch.stack([kept[f"blocks.{k}.{hook}"].cpu() for k in range(n_layers)], 2)
                for hook in HOOKS
            )
            both = [pre[range(len(rows)), places[rows]] for places in (anywhere, alike)]
            outside = torch.arange(ids.shape[1]) > last[rows, None]
            outside[:, 0] = True  # BOS is no end of a prompt
            peak, end = pre.masked_fill_(outside[..., None, None], -torch.inf).max(1)
            parts.append((kept[first].cpu(), z, mlp_out, kept[end_of].cpu(), peak, end, *both))
        embedding, z, mlp_out, leaves, peak, end, one, other = map(
            torch.cat, zip(*parts, strict=True)
        )
        read = embedding, z, mlp_out, leaves, peak, end
        return cls(model, texts, ids, anywhere, alike, *read, (one, other))

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of the texts of both halves."""
        A, B = map(np.flatnonzero, half_masks(self.texts))
        return A, B

    def at(self, place: Int[Tensor, " text"], pre: Float[Tensor, "text layer neuron"]) -> Reading:
        """Return what attribution needs, at one place of each text."""
        every = torch.arange(len(self.ids))
        read = self.embedding[every, place], self.z[every, place], self.mlp_out[every, place]
        return Reading(*read, pre)

    @cached_property
    def ordinary(self) -> Reading:
        """Return what is there where texts are cut off anywhere."""
        return self.at(self.anywhere, self.pre[0])

    @cached_property
    def same_length(self) -> Reading:
        """Return what is there where all texts are cut at one length."""
        return self.at(self.alike, self.pre[1])

    def prompts(self, ends: Int[Tensor, " text"]) -> list[str]:
        """Return every text up to its end, without BOS, as a string."""
        decode = self.model.tokenizer.decode
        return [
            decode(x[1 : end + 1]) for x, end in zip(self.ids.tolist(), ends.tolist(), strict=True)
        ]

    def strongest(self, neuron: Neuron, half: np.ndarray) -> np.ndarray:
        """Return the fifth of a half's texts on which a neuron is most active, the strongest
        first.
        """
        order = self.peak[half, *neuron].argsort(descending=True, stable=True)
        return half[order[: max(len(half) // 5, 1)]]

    def chance(self, at: Int[Tensor, "place 3"]) -> Float[Tensor, " place"]:
        """Return the mean probability of tokens at neurons' largest peaks of half A, for each
        (layer, neuron, token).
        """
        layer, neuron, token = at.T
        A = torch.from_numpy(self.halves[0])
        strong = A[self.peak[A][:, layer, neuron].argsort(0, descending=True)[:PEAKS]]
        place = strong * self.ids.shape[1] + self.end[strong, layer, neuron]
        token, P = token.expand_as(strong), torch.empty(place.shape)
        for some in progress(place.unique().split(256), "predicting", "batch"):  # each place once
            said = layers.logits(self.model, self.leaves.flatten(0, 1)[some]).softmax(-1)
            here = torch.isin(place, some)
            P[here] = said[torch.searchsorted(some, place[here]), token[here]]
        return P.mean(0)


def split(
    strings: Sequence[str], on: Bool[np.ndarray, " text"], shown: np.ndarray, held: np.ndarray
) -> Prompts:
    """Return prompts to show and prompts to hold out, each sorted by whether the head is active."""
    parts = ((half, kind) for half in (shown, held) for kind in (True, False))
    return Prompts(*(tuple(strings[i] for i in half if on[i] == kind) for half, kind in parts))


# ---------------------------------------------------------------- cases


@dataclass(frozen=True, eq=False)
class Case:
    """A neuron and a head: the token that the neuron predicts ("" for a random neuron), what the
    head adds beyond its mean on ordinary prompts (`term`), whether that counts as active (`on`),
    the `shown` texts of half A and the `held` ones of half B, and the prompts of these.
    """

    neuron: Neuron
    head: tuple[int, int]
    token: str
    term: Float[np.ndarray, " text"]
    on: Bool[np.ndarray, " text"]
    shown: np.ndarray
    held: np.ndarray
    prompts: Prompts

    def __str__(self) -> str:
        token = f"{self.token!a}" if self.token else "random"
        layer, head = self.head
        return "neuron {}.{} ({}), head {}.{}".format(*self.neuron, token, layer, head)


def predicting(read: Read, least: float) -> tuple[dict[Neuron, str], list[Neuron], int]:
    """Return the neurons with a token of their own that predict it with at least this probability,
    and their tokens; as many random ones of the same layers; and how many have such a token.
    """
    clean = next_token_neurons(read.model, range(read.model.cfg.n_layers))
    clean["P"] = read.chance(torch.from_numpy(clean[["layer", "neuron", "token"]].to_numpy()))
    chosen = clean.sort_values("P", ascending=False, kind="stable")
    chosen = chosen[chosen["P"] >= least] if (clean["P"] >= least).any() else chosen[:2]
    said = {(row.layer, row.neuron): row.text for row in chosen.itertuples()}
    taken = list(zip(clean["layer"].tolist(), clean["neuron"].tolist(), strict=True))
    drawn = [
        place
        for layer, count in sorted(Counter(layer for layer, _ in said).items())
        for place in random_neurons(read.model, count, [layer], taken)
    ]
    return said, drawn, len(clean)


def cases_of(read: Read, neurons: Mapping[Neuron, str]) -> list[Case]:
    """Return the cases of some neurons, with the tokens that they predict."""
    found, n_heads, (A, B) = [], read.model.cfg.n_heads, read.halves
    for neuron, token in neurons.items():
        a, b = (read.strongest(neuron, half) for half in (A, B))
        place = read.end[:, *neuron]
        t = attribution(read.model, *neuron, read.at(place, read.peak)).heads  # text layer head
        c = t - attribution(read.model, *neuron, read.ordinary).heads.mean(0)
        for k in c[a].amax(0).flatten().argsort(descending=True)[:STRONGEST].tolist():
            head = divmod(k, n_heads)
            term = c[:, *head].numpy()
            on = (term >= term[a].max() / 2) & (term > 0)
            enough = zip((a, b), LEAST, strict=True)
            if all(min(on[half].sum(), (~on[half]).sum()) >= least for half, least in enough):
                parts = split(read.prompts(place), on, a, b)
                found.append(Case(neuron, head, token, term, on, a, b, parts))
    return found


def few(prompts: Prompts, most: int = 8) -> Prompts:
    """Return so many prompts of either kind."""
    return Prompts(*(part[:most] for part in astuple(prompts)))


def planted_subject(read: Read, domain: str) -> Prompts:
    """Return prompts of one length, those of a domain called active, as many others not."""
    of = np.array([text.domain == domain for text in read.texts])
    on, others = np.flatnonzero(of), np.random.default_rng(0).permutation(len(of))
    off, in_A = others[~of[others]], np.isin(np.arange(len(of)), read.halves[0])
    order = np.concatenate([on, off])
    shown, held = order[in_A[order]], order[~in_A[order]]
    return few(split(read.prompts(read.alike), of, shown, held))


@dataclass(frozen=True, eq=False)
class HeadTest:
    """A head and the prompts on which its term in one neuron is among the largest fifth, or not."""

    layer: int
    head: int
    prompts: Prompts


def every_head(read: Read, reading: Reading, ends: Tensor, each: int = 2) -> Iterator[HeadTest]:
    """Yield for every head the tests of those neurons in which its term makes the largest share of
    the spread.
    """
    model, (A, B) = read.model, read.halves
    strings = read.prompts(ends)
    for of, head in np.ndindex(model.cfg.n_layers, model.cfg.n_heads):
        moved: list[tuple[float, np.ndarray]] = []
        for layer in range(model.cfg.n_layers):
            if of in upstream_layers(model, layer):
                W_in, _ = layers.input_weights(model, layer)
                writes = (model.blocks[of].attn.W_O[head].detach() @ W_in).cpu()
                scale = attribution(model, layer, 0, reading).scale
                term = reading.z[:, of, head] @ writes / scale[:, None]  # text neuron
                share = term.std(0) / reading.pre_activation[:, layer].std(0)
                largest = zip(*share.topk(each), strict=True)
                moved += [(float(v), term[:, j].numpy()) for v, j in largest]
        for _, term in sorted(moved, key=lambda m: -m[0])[:each]:
            parts = split(strings, term >= np.quantile(term[A], 0.8), A, B)
            if parts.held_active and parts.held_inactive:  # in few texts one kind may be missing
                yield HeadTest(of, head, parts)
