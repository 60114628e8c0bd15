"""Can a sentence predict a head? Explanations of when a head is active, and their scores
(Neo, Cohen, Barez 2024, section 4.4; chapter 16).

    score = (TPR + TNR) / 2

An explainer sees prompts on which a head is active and others on which it is not, and writes a
sentence. From that sentence alone it then says of prompts that nobody has shown it whether the
head is active. One that knows nothing scores 0.5.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

from ctxlib.checks import check_index, check_kind


class Explainer(Protocol):
    """Whoever can say when a head is active: `RuleExplainer`, `ctxlib.lookups.chat.ChatExplainer`,
    yours.

    Prompts are texts that end where the head is asked about.

    >>> class LastWord:
    ...     def explain(self, active, inactive):
    ...         return active[0].split()[-1]
    ...     def classify(self, explanation, prompts):
    ...         return [p.endswith(explanation) for p in prompts]
    >>> LastWord().classify("was", ["It was", "It is"])
    [True, False]
    """

    def explain(self, active: Sequence[str], inactive: Sequence[str]) -> str:
        """Return a sentence that tells the two kinds of prompt apart.

        >>> rules = cx.lookups.explain.RuleExplainer(model.tokenizer)  # is an Explainer
        >>> rules.explain(["It was", "He was", "I was"], ["It is", "He is", "I am"])
        'The head is active on prompts with the last token " was".'
        """
        ...

    def classify(self, explanation: str, prompts: Sequence[str]) -> list[bool]:
        """Predict for each prompt, from the explanation alone, whether the head is active on it.

        >>> rules = cx.lookups.explain.RuleExplainer(model.tokenizer)
        >>> rules.classify("The head is active on every prompt.", ["It was", "It is"])
        [True, True]
        """
        ...


# ---------------------------------------------------------------- who is shown what


@dataclass(frozen=True)
class Prompts:
    """Prompts that an explainer is shown, sorted by activity, and those that it is held to.

    >>> parts = cx.lookups.explain.Prompts(("It was",), ("It is",), ("He was",), ("He is",))
    >>> parts.shown_active, parts.held_inactive
    (('It was',), ('He is',))
    """

    shown_active: tuple[str, ...]
    shown_inactive: tuple[str, ...]
    held_active: tuple[str, ...]
    held_inactive: tuple[str, ...]


def shuffled(prompts: Prompts, seed: int = 0) -> Prompts:
    """Permute the labels of the prompts at random, those shown and those held out each among
    themselves: here an explainer has nothing to find.

    >>> parts = cx.lookups.explain.Prompts(("It was",), ("It is",), ("He was",), ("He is",))
    >>> mixed = cx.lookups.explain.shuffled(parts)
    >>> sorted(mixed.held_active + mixed.held_inactive)
    ['He is', 'He was']
    """
    check_index("seed", seed, 2**32)
    generator = np.random.default_rng(seed)

    def deal(on: tuple[str, ...], off: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        both = [*on, *off]
        mixed = tuple(both[i] for i in generator.permutation(len(both)))
        return mixed[: len(on)], mixed[len(on) :]

    return Prompts(
        *deal(check_kind(prompts, "prompts").shown_active, prompts.shown_inactive),
        *deal(prompts.held_active, prompts.held_inactive),
    )


# ---------------------------------------------------------------- the score


@dataclass(frozen=True)
class Score:
    """How well an explanation predicts a head on prompts held out: `tpr` of those that are active
    and `tnr` of those that are not are told right; `score` is their mean, `low` and `high` bound
    it.

    >>> on, off = (tuple(f"{who} {verb}" for who in "ABCDEFGH") for verb in ("was", "is"))
    >>> parts = cx.lookups.explain.Prompts(on[:4], off[:4], on[4:], off[4:])
    >>> found = cx.lookups.explain.score(cx.lookups.explain.RuleExplainer(model.tokenizer), parts)
    >>> found.tpr, found.tnr, found.active, found.inactive
    (1.0, 1.0, 4, 4)
    """

    explanation: str
    score: float
    low: float
    high: float
    tpr: float
    tnr: float
    active: int
    inactive: int


def score(explainer: Explainer, prompts: Prompts) -> Score:
    """Explain the prompts that are shown, classify those held out (Neo et al. 2024, section 4.4).

    The 95% interval is Wilson's for either rate, joined as for a sum of independent proportions.
    Raises ValueError where no prompt of one kind is held out, and for an explainer that answers
    nonsense: an empty sentence, or anything but one True or False for each prompt.

    >>> on, off = (tuple(f"{who} {verb}" for who in "ABCDEFGH") for verb in ("was", "is"))
    >>> parts = cx.lookups.explain.Prompts(on[:4], off[:4], on[4:], off[4:])
    >>> found = cx.lookups.explain.score(cx.lookups.explain.RuleExplainer(model.tokenizer), parts)
    >>> found.explanation
    'The head is active on prompts with the last token " was".'
    >>> found.score, round(found.low, 2)
    (1.0, 0.65)
    """
    if not (check_kind(prompts, "prompts").held_active and prompts.held_inactive):
        raise ValueError("of active or of inactive prompts none is held out: a score needs both")
    shown = prompts.shown_active, prompts.shown_inactive
    sentence = check_kind(explainer, "an explainer").explain(*shown)
    if not isinstance(sentence, str) or not sentence.strip():
        raise ValueError(f"{type(explainer).__name__} explained nothing: {sentence!r}")
    held = [*prompts.held_active, *prompts.held_inactive]
    answer = explainer.classify(sentence, held)
    said = np.asarray(answer)
    if said.shape != (len(held),) or said.dtype != bool:
        raise ValueError(
            f"{type(explainer).__name__} was asked about {len(held)} prompts and answered "
            f"{str(answer)[:60]}: expected True or False for each"
        )
    on = len(prompts.held_active)
    tpr, tpr_low, tpr_high = rate(said[:on])
    tnr, tnr_low, tnr_high = rate(~said[on:])
    mean = (tpr + tnr) / 2
    low = mean - float(np.hypot(tpr - tpr_low, tnr - tnr_low)) / 2
    high = mean + float(np.hypot(tpr_high - tpr, tnr_high - tnr)) / 2
    return Score(sentence, mean, low, high, tpr, tnr, on, len(held) - on)


def rate(right: Bool[np.ndarray, " prompt"]) -> tuple[float, float, float]:
    """Return the share of what is right, and Wilson's 95% interval for it."""
    found = stats.binomtest(int(right.sum()), len(right))
    return found.statistic, *found.proportion_ci(method="wilson")


# ---------------------------------------------------------------- an explainer that needs nobody

NEAR = 8  # tokens that count as near the end
ENDS = ("the last token", "the last two tokens", "the last three tokens")
BEFORE = "the last token but one"
LENGTHS = tuple(2**k for k in range(2, 11))
LEAST = 3  # a fact that fewer prompts share explains nothing
LEAVES = 4  # of the tree: as many conditions as a sentence can hold
#: The fact that `RuleExplainer(..., repeats=True)` adds.
REPEATED = "a last token that came before"
OPENING, ALWAYS, NEVER = "The head is active on ", "every prompt", "no prompt"
# as `json.dumps` writes it, and nothing else: what it would not write is true of no prompt
QUOTED = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\bfnrt]|u00[01][0-9a-f]))*"'
TERM = re.compile(
    rf"( and |, or | )(with|without) ((?:{'|'.join((*ENDS, BEFORE))}) {QUOTED}"
    rf"|the token {QUOTED}(?: near the end)?"
    rf"|more than (?:{'|'.join(map(str, LENGTHS))}) tokens|{REPEATED})"
)


@dataclass(frozen=True)
class RuleExplainer:
    """Writes rules such as `The head is active on prompts with the last token " pro" and without
    the token " war", or with more than 32 tokens.`, and reads them back.

    A small decision tree (scikit-learn) over facts: the last one, two or three tokens and the last
    but one, the tokens in the prompt and near its end, its length. With `repeats` there is one
    fact more, that the last token came before. Deterministic; needs nothing but the model's
    tokenizer.

    >>> rules = cx.lookups.explain.RuleExplainer(model.tokenizer)
    >>> rules.explain(["It was", "He was", "I was"], ["It is", "He is", "I am"])
    'The head is active on prompts with the last token " was".'
    """

    tokenizer: Any
    repeats: bool = False
    known: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    def explain(self, active: Sequence[str], inactive: Sequence[str]) -> str:
        """Return the rule that tells the two kinds apart.

        Raises ValueError unless there are `LEAST` prompts of either kind.

        >>> rules = cx.lookups.explain.RuleExplainer(model.tokenizer)
        >>> far, near = [f"{who} is far away" for who in "ABC"], [f"{who} is here" for who in "ABC"]
        >>> rules.explain(far, near)
        'The head is active on prompts without the last token " here".'
        """
        if min(len(check_kind(some, "a list")) for some in (active, inactive)) < LEAST:
            raise ValueError(
                f"{len(active)} active and {len(inactive)} inactive prompts: "
                f"a rule needs at least {LEAST} of each"
            )
        # sorted: the tree adds up weights, and in another order ties fall another way
        seen = [self.facts(p) for p in [*sorted(active), *sorted(inactive)]]
        is_active = np.arange(len(seen)) < len(active)
        counts = Counter(fact for facts in seen for fact in facts)
        shared = sorted((fact for fact, n in counts.items() if n >= LEAST), key=plainness)
        if not shared:
            return written([])
        table = np.array([[fact in facts for fact in shared] for facts in seen])
        # of facts that say the same of all these prompts, the plainest
        kept = np.sort(np.unique(table, axis=1, return_index=True)[1])
        tree = DecisionTreeClassifier(
            max_leaf_nodes=LEAVES, min_samples_leaf=LEAST, class_weight="balanced", random_state=0
        )
        tree.fit(table[:, kept], is_active)
        rule = list(active_leaves(tree, [shared[k] for k in kept]))
        return written(shortened(rule, seen, is_active))

    def classify(self, explanation: str, prompts: Sequence[str]) -> list[bool]:
        """Apply the rule to each prompt. Raises ValueError for a sentence that is no rule.

        >>> rules = cx.lookups.explain.RuleExplainer(model.tokenizer)
        >>> rule = 'The head is active on prompts with the last token " was".'
        >>> rules.classify(rule, ["She was", "She is"])
        [True, False]
        """
        rule = read_rule(check_kind(explanation, "a string"))
        return [holds(rule, self.facts(p)) for p in check_kind(prompts, "a list")]

    def facts(self, prompt: str) -> frozenset[str]:
        """List the facts about a prompt that a rule can name; each prompt is read once.

        >>> sorted(cx.lookups.explain.RuleExplainer(model.tokenizer).facts("It was"))[:3]
        ['the last token " was"', 'the last token but one "It"', 'the last two tokens "It was"']
        """
        if check_kind(prompt, "a string") in self.known:
            return self.known[prompt]
        ids = self.tokenizer.encode(prompt, add_special_tokens=False)

        def token(some: list[int]) -> str:
            return json.dumps(self.tokenizer.decode(some), ensure_ascii=False)

        found = [f"{name} {token(ids[-k:])}" for k, name in enumerate(ENDS, 1) if len(ids) >= k]
        found += [f"{BEFORE} {token(ids[-2:-1])}"] * (len(ids) > 1)
        found += [f"the token {token([t])}" for t in set(ids)]
        found += [f"the token {token([t])} near the end" for t in set(ids[-NEAR:])]
        found += [f"more than {length} tokens" for length in LENGTHS if len(ids) > length]
        found += [REPEATED] * (self.repeats and any(t in ids[:-1] for t in ids[-1:]))
        self.known[prompt] = frozenset(found)
        return self.known[prompt]


Clause = tuple[tuple[bool, str], ...]  # facts that must hold (True) or must not (False)


def active_leaves(tree: DecisionTreeClassifier, facts: Sequence[str]) -> Iterator[Clause]:
    """Yield the path to each leaf of the tree at which a prompt counts as active."""
    nodes = tree.tree_

    def walk(node: int, way: Clause) -> Iterator[Clause]:
        if nodes.children_left[node] < 0:
            if tree.classes_[nodes.value[node, 0].argmax()]:
                yield way
            return
        fact = facts[nodes.feature[node]]
        yield from walk(nodes.children_right[node], (*way, (True, fact)))
        yield from walk(nodes.children_left[node], (*way, (False, fact)))

    yield from walk(0, ())


def shortened(
    rule: list[Clause], seen: Sequence[frozenset[str]], is_active: Bool[np.ndarray, " prompt"]
) -> list[Clause]:
    """Drop the clauses and conditions without which the rule is no worse on the prompts shown."""
    on, off = int(is_active.sum()), int((~is_active).sum())

    def right(candidate: list[Clause]) -> int:  # in whole numbers: rounding breaks no tie
        said = np.array([holds(candidate, facts) for facts in seen])
        return int(said[is_active].sum()) * off - int(said[~is_active].sum()) * on

    while found := next((r for r in shorter(rule) if right(r) >= right(rule)), None):
        rule = found
    return rule


def shorter(rule: list[Clause]) -> Iterator[list[Clause]]:
    """Yield the rule without one of its conditions or clauses; something is always left."""
    for k, clause in enumerate(rule):
        for condition in clause if len(clause) > 1 else ():
            yield [*rule[:k], tuple(c for c in clause if c != condition), *rule[k + 1 :]]
    for k in range(len(rule) if len(rule) > 1 else 0):
        yield [*rule[:k], *rule[k + 1 :]]


def holds(rule: Sequence[Clause], facts: frozenset[str]) -> bool:
    return any(all((fact in facts) == wanted for wanted, fact in clause) for clause in rule)


def written(rule: Sequence[Clause]) -> str:
    """Write a rule as a sentence."""
    if not rule or not all(rule):  # a clause without conditions always holds
        return f"{OPENING}{ALWAYS if rule else NEVER}."
    clauses = [
        " and ".join(f"{'with' if wanted else 'without'} {fact}" for wanted, fact in clause)
        for clause in rule
    ]
    return f"{OPENING}prompts {', or '.join(clauses)}."


def read_rule(sentence: str) -> list[Clause]:
    """Read the rule in a sentence of `written`. Raises ValueError for any other sentence."""
    rule: list[Clause] = [()] if sentence == written([()]) else []
    for joint, word, fact in TERM.findall(sentence):
        if not (rule and joint == " and "):
            rule.append(())
        rule[-1] = (*rule[-1], (word == "with", fact))
    if sentence != written(rule):
        raise ValueError(
            f"{sentence[:80]!r} is not a rule of this explainer: expected a sentence such as "
            f"'{OPENING}prompts with the last token \" of\", or with more than 32 tokens.'"
        )
    return rule


def plainness(fact: str) -> tuple[int, int, str]:
    """Rank facts that say the same: the last tokens first, then what is near the end."""
    kinds = (f"{ENDS[0]} ", BEFORE, *ENDS[1:], REPEATED, "more than", "the token")
    near = fact.endswith("near the end")
    return next(i for i, kind in enumerate(kinds) if fact.startswith(kind)), not near, fact
