"""British and American spelling (chapters 0 and 9): pairs of words that differ in nothing else, in
families of one stem, and a probe that says what spelling adds to every neuron.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import embedding_bag

from ctxbook.kept import DATA
from ctxlib.circuit import ContextualCircuit
from ctxlib.texts.text import Text

Pair = tuple[str, str]  # British, American
WORD = re.compile(r"(?<![A-Za-z'-])[a-z]+(?![A-Za-z'])")
PREFIX = re.compile(
    r"^(dis|un|mis|multi|water|tri|re|pre|de|over|under|in|dem|non|out|inter|counter|sub)(?=[a-z]{5})"
)


@cache
def dialect() -> dict[str, Any]:
    """Return what was fixed before the search for a British neuron: lists of words, and bounds
    (`data/dialect.toml`).

    >>> cb.spelling.dialect()["conditions"]["like"]
    80
    """
    return tomllib.loads((DATA / "dialect.toml").read_text(encoding="utf-8"))


@cache
def rules() -> dict[Pair, str]:
    """Return every pair of `data/spelling.toml`, and the rule by which its forms differ.

    >>> cb.spelling.rules()["colour", "color"]
    'our'
    """
    table = tomllib.loads((DATA / "spelling.toml").read_text(encoding="utf-8"))
    return {(b, a): rule for rule, pairs in table.items() for b, a in map(str.split, pairs)}


@cache
def pair_of() -> dict[str, Pair]:
    """Return the pair of every form, British or American.

    >>> cb.spelling.pair_of()["gray"]
    ('grey', 'gray')
    """
    return {form: pair for pair in rules() for form in pair}


def family(pair: Pair) -> str:
    """Return the name of a pair's family, words of one stem and one rule. Raises KeyError for a
    pair that is not in the table.

    >>> cb.spelling.family(("discoloured", "discolored"))
    'our colo'
    """
    return f"{rules()[pair]} {PREFIX.sub('', pair[1])[:4]}"


def half(name: str) -> str:
    """Return what a family or a word is for, by a hash of its name: to discover or to judge.

    >>> cb.spelling.half("our colo")
    'judging'
    """
    return "judging" if hashlib.sha256(name.encode()).digest()[0] % 2 else "discovery"


def families() -> dict[str, list[Pair]]:
    """Return the pairs of every family.

    >>> ("colour", "color") in cb.spelling.families()["our colo"]
    True
    """
    found = defaultdict(list)
    for pair in rules():
        found[family(pair)].append(pair)
    return dict(found)


def matches(source: str) -> list[re.Match[str]]:
    """Return the words of the table in a text.

    >>> [word.group() for word in cb.spelling.matches("A grey sky in colour.")]
    ['grey', 'colour']
    """
    return [m for m in WORD.finditer(source) if m.group() in pair_of()]


def respelled(source: str, form_of: Callable[[re.Match[str]], str]) -> list[tuple[str, bool]]:
    """Return a text in parts, with `form_of` every word of the table in its place; each with
    whether it is a part between such words.

    >>> cb.spelling.respelled("A grey sky.", lambda word: "gray")
    [('A ', True), ('gray', False), (' sky.', True)]
    """
    parts, last = [], 0
    for m in matches(source):
        parts += [(source[last : m.start()], True), (form_of(m), False)]
        last = m.end()
    return [*parts, (source[last:], True)]


class Columns(NamedTuple):
    """What British spelling adds to every neuron by one group of families: the pairs of each
    family, its mean difference, `family neuron`, the z over families, `neuron`, and the z of every
    draw of random words, `draw neuron`.
    """

    families: dict[str, list[Pair]]
    difference: np.ndarray
    z: np.ndarray
    null: np.ndarray

    def agree(self, neuron: int, sign: float = 1.0) -> float:
        """Return the share of the families whose difference has this sign."""
        return float((sign * self.difference[:, neuron] > 0).mean())


#: groups of families: the half that they are for, and whether both forms are one token
GROUPS = {
    "discovery": ("discovery", True),
    "judging": ("judging", True),
    "judging, more pieces": ("judging", False),
}


@dataclass(frozen=True, eq=False)
class SpellingProbe:
    """What words add to the neurons by a circuit, and by how much that of British spelling exceeds
    that of random words: for each word, one of the `like` words that are most alike to it in
    frequency, token number, norm, length and plural, of as many pieces, drawn `draws` times.
    `texts` say how frequent words are.

    >>> probe = cb.SpellingProbe(circuit, passages, like=80, draws=300)
    >>> probe.sums(["colour", "color"]).shape == (2, len(heads) * weights.d_head)
    True
    """

    circuit: ContextualCircuit
    texts: Sequence[Text]
    like: int
    draws: int

    @cached_property
    def values(self) -> Float[Tensor, "vocab head_d_head"]:
        """Return what each token puts into the circuit's heads."""
        return self.circuit.weighted_values.flatten(1)

    @cached_property
    def readout(self) -> Float[Tensor, "head_d_head neuron"]:
        """Return what neurons read of that: `values @ readout` is the contribution."""
        return self.circuit.readout.flatten(0, 1)

    def pieces(self, words: Iterable[str]) -> list[list[int]]:
        """Return the tokens of each word, a space before it."""
        spaced = [f" {word}" for word in words]
        return self.circuit.fixed.tokenizer(spaced, add_special_tokens=False)["input_ids"]

    def sums(self, words: Sequence[str]) -> Float[Tensor, "word head_d_head"]:
        """Return what the pieces of each word put into the heads, summed."""
        ids = self.pieces(words)
        starts = torch.tensor([0, *map(len, ids[:-1])]).cumsum(0)
        return embedding_bag(torch.tensor([*chain(*ids)]), self.values, starts, mode="sum")

    @cached_property
    def counts(self) -> Counter[str]:
        """Return how often each word of three letters or more occurs in the English texts."""
        english = [t.source for t in self.texts if t.dialect.startswith("en")]
        return Counter(w for source in english for w in re.findall(r"\b[A-Za-z]{3,}\b", source))

    def features(self, words: Sequence[str]) -> Float[np.ndarray, "word 6"]:
        """Return pieces, log frequency, log token number, norm, length and plural of each word."""
        rows = zip(words, self.pieces(words), self.sums(words).norm(dim=1).tolist(), strict=True)
        return np.array(
            [
                (len(i), np.log1p(self.counts[w]), np.log1p(i).mean(), s, len(w), w.endswith("s"))
                for w, i, s in rows
            ]
        )

    @cached_property
    def pool(self) -> dict[tuple[float, bool], tuple[np.ndarray, Tensor]]:
        """Return features and sums of the words that may stand for others, by their number of
        pieces and by whether they begin with a capital; no word of the lists is among them.
        """
        fixed = self.circuit.fixed
        whole = (fixed.tokenizer.decode([t]) for t in range(fixed.d_vocab))
        single = {t[1:] for t in whole if re.fullmatch(r" [A-Za-z][a-z]{2,}", t)}
        listed = set(pair_of()) | set(re.findall(r"\w+", json.dumps(dialect())))
        words = np.array(sorted((set(self.counts) | single) - listed))
        known = self.features(words.tolist())
        named = np.char.isupper(words.astype("U1"))
        return {
            (k, capital): (known[of, 1:], self.sums(words[of].tolist()))
            for k in np.unique(known[:, 0])
            for capital in (False, True)
            if (of := (known[:, 0] == k) & (named == capital)).sum() >= self.like
        }

    def random_sums(
        self, words: Sequence[str], rng: np.random.Generator
    ) -> Iterator[Float[Tensor, "draw head_d_head"]]:
        """Yield for each word the sums of random ones like it, of at most as many pieces as a pool
        has. Raises ValueError if no pool has words enough.
        """
        if not self.pool:
            raise ValueError(f"fewer than {self.like} words of a kind: give a larger vocabulary")
        most = max(k for k, _ in self.pool)
        for word, known in zip(words, self.features(words), strict=True):
            key = min(known[0], most), word[0].isupper()
            theirs, sums = self.pool[key if key in self.pool else (1, key[1])]
            far = ((theirs - known[1:]) / (theirs.std(0) + 1e-9)) ** 2
            like = np.argsort(far.sum(1), kind="stable")[: self.like]
            yield sums[torch.from_numpy(rng.choice(like, self.draws))]

    def z_scores(
        self,
        groups: Iterable[Sequence[tuple[str, str | None]]],
        readout: Float[Tensor, "head_d_head neuron"] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mean difference of each group's pairs, `group neuron`, the z of their mean
        over groups, `neuron`, and the z of every draw of random words in the place of all forms,
        `draw neuron` (chapter 9); of the circuit's neurons, or of those with this readout.

        A group lists pairs of words, the first to be added and the second taken off; None is no
        word. The draws are the same every time.
        """
        readout = self.readout if readout is None else readout
        rng, differences, draws = np.random.default_rng(0), [], torch.zeros(())
        for pairs in groups:
            signed = [(w, s) for pair in pairs for w, s in zip(pair, (1, -1), strict=True) if w]
            words, signs = zip(*signed, strict=True)
            sign = torch.tensor(signs)[:, None] / len(pairs)
            differences.append((sign * self.sums(words)).sum(0))
            rows = zip(self.random_sums(words, rng), sign, strict=True)
            draws = draws + sum(of * s for of, s in rows)
        null = draws / len(differences) @ readout
        d = torch.stack(differences) @ readout
        mean, sd = null.mean(0), null.std(0)
        return d.numpy(), ((d.mean(0) - mean) / sd).numpy(), ((null - mean) / sd).numpy()

    @cached_property
    def columns(self) -> dict[str, Columns]:
        """Return what British spelling adds to every neuron, for each of `GROUPS`."""
        one = {form: len(i) == 1 for form, i in zip(pair_of(), self.pieces(pair_of()), strict=True)}
        found = {}
        for group, (which, single) in GROUPS.items():
            chosen = {
                f: [pair for pair in pairs if all(one[w] for w in pair) == single]
                for f, pairs in families().items()
                if half(f) == which
            }
            chosen = {f: pairs for f, pairs in chosen.items() if pairs}
            found[group] = Columns(chosen, *self.z_scores(chosen.values()))
        return found

    @property
    def found(self) -> list[int]:
        """Return the two neurons that the discovering families move farthest, that one first."""
        far = -np.abs(self.columns["discovery"].z)
        return np.argsort(far, kind="stable")[:2].tolist()
