"""Explanations of a head: which prompts count as active, who is shown what, what a score is worth,
and the rules that need nobody to write or read them.
"""

import inspect
import math
from dataclasses import astuple
from fractions import Fraction
from functools import partial
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
import torch
from beartype import beartype
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import jaxtyped

import ctxlib as cx
from ctxlib.chat import ChatExplainer
from ctxlib.decoders import explain
from ctxlib.decoders.explain import Explainer, RuleExplainer, Split, read_rule, written

seeds = st.integers(0, 999)


# ---------------------------------------------------------------- active and inactive


@pytest.mark.parametrize(
    ("terms", "share", "expected"),
    [
        ([4.0, 2.0, 1.9, 0.0, -4.0], 0.5, [True, True, False, False, False]),
        ([4.0, 2.0, 1.0, 0.9], 0.25, [True, True, True, False]),
        ([-1.0, -2.0, -0.1], 0.5, [False, False, False]),
        ([0.0, -2.0], 0.5, [False, False]),
        ([3.0, 3.0, 3.0], 0.9, [True, True, True]),
    ],
    ids=["half", "a quarter", "negative", "not above 0", "ties"],
)
def test_active_is_a_share_of_the_largest_term(terms, share, expected):
    assert explain.active(torch.tensor(terms), share).tolist() == expected


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12), st.sampled_from([0.25, 0.5, 0.75]))
def test_active_is_by_hand_and_knows_no_scale(terms, share):
    by_hand = [t > 0 and t >= share * max(terms) for t in terms]
    for scale in (1.0, 0.125, 64.0):
        found = explain.active(scale * torch.tensor(terms, dtype=torch.float64), share)
        assert found.tolist() == by_hand
    assert any(by_hand) == (max(terms) > 0)


def test_active_needs_a_prompt():
    with pytest.raises(ValueError, match="no prompts: give at least one"):
        explain.active(torch.zeros(0))


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, float("nan")])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(ValueError, match=f"share={share}: choose a number between 0 and 1"):
        explain.active(torch.ones(3), share)


# ---------------------------------------------------------------- who is shown what


def numbered(on, off):
    """Prompts and flags, the two kinds mixed."""
    flags = np.random.default_rng(on).permutation([True] * on + [False] * off).tolist()
    return [f"prompt {i}" for i in range(on + off)], flags


@given(st.integers(8, 25), st.integers(8, 25), seeds)
def test_a_split_halves_both_kinds(on, off, seed):
    prompts, flags = numbered(on, off)
    s = explain.split(prompts, flags, seed)
    kinds = dict(zip(prompts, flags, strict=True))
    assert all(kinds[p] for p in s.shown_active + s.held_active)
    assert not any(kinds[p] for p in s.shown_inactive + s.held_inactive)
    assert abs(len(s.shown_active) - len(s.held_active)) <= 1
    assert abs(len(s.shown_inactive) - len(s.held_inactive)) <= 1
    # every prompt is somewhere, and none is in two places
    assert sorted(sum(astuple(s), ())) == sorted(prompts)
    assert explain.split(prompts, flags, seed) == s


def test_an_even_split_is_exact_and_drawn_by_the_seed():
    prompts, flags = numbered(10, 20)
    splits = [explain.split(prompts, flags, seed) for seed in range(20)]
    for s in splits:
        assert [len(part) for part in astuple(s)] == [5, 10, 5, 10]
    assert len(set(splits)) > 15
    # over the seeds each prompt is shown about half the time
    shown = [sum(p in s.shown_active + s.shown_inactive for s in splits) for p in prompts]
    assert min(shown) >= 3 and max(shown) <= 17


@given(st.lists(st.integers(0, 29), max_size=40), seeds, st.randoms(use_true_random=False))
def test_a_prompt_that_occurs_twice_is_on_one_side_in_any_order(again, seed, random):
    prompts, flags = numbered(14, 16)
    several = [*zip(prompts, flags, strict=True), *((prompts[i], flags[i]) for i in again)]
    random.shuffle(several)
    assert explain.split(*zip(*several, strict=True), seed) == explain.split(prompts, flags, seed)
    few = [(prompt, i < 7) for i, prompt in enumerate(prompts[:16])]
    with pytest.raises(ValueError, match="7 active and 9 inactive prompts are too few"):
        explain.split(*zip(*few * 3, strict=True))


@given(st.lists(st.booleans(), min_size=8, max_size=8), seeds)
def test_a_prompt_with_two_flags_still_counts_once(later, seed):
    """A head may wake on one of two equal texts only if they differ in what was cut away."""
    prompts, flags = numbered(16, 16)
    s = explain.split(prompts + prompts[:8], flags + later, seed)
    assert sorted(sum(astuple(s), ())) == sorted(prompts)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_flags_may_be_an_array(kind):
    prompts, flags = numbered(8, 9)
    assert explain.split(prompts, kind(flags)) == explain.split(prompts, flags)


@pytest.mark.parametrize("flags", [[], [True], [True, False] * 8, [[True]] * 17])
def test_a_split_needs_a_flag_for_each_prompt(flags):
    size = np.size(flags)
    with pytest.raises(ValueError, match=f"17 prompts and {size} flags: one for each is needed"):
        explain.split([str(i) for i in range(17)], flags)


@pytest.mark.parametrize(
    ("on", "off", "least"), [(7, 30, 4), (30, 7, 4), (0, 30, 4), (30, 0, 4), (9, 9, 5), (1, 2, 1)]
)
def test_too_few_to_split_are_refused_with_their_numbers(on, off, least):
    says = f"{on} active and {off} inactive prompts are too few .* at least {2 * least} of each"
    with pytest.raises(ValueError, match=says):
        explain.split(*numbered(on, off), least=least)
    explain.split(*numbered(max(on, 2 * least), max(off, 2 * least)), least=least)


# ---------------------------------------------------------------- the score


class Says:
    """An explainer that answers what a test wants it to."""

    def __init__(self, answer, sentence="because"):
        self.answer, self.sentence, self.given = answer, sentence, []

    def explain(self, active, inactive):
        self.given.append((active, inactive))
        return self.sentence

    def classify(self, explanation, prompts):
        self.given.append((explanation, prompts))
        return self.answer(prompts) if callable(self.answer) else self.answer


def held(on, off):
    """A split whose held prompts say what they are."""
    return Split(
        ("shown on",),
        ("shown off",),
        tuple(f"on {i}" for i in range(on)),
        tuple(f"off {i}" for i in range(off)),
    )


def wilson(right, of, z):
    p = right / of
    centre = (p + z * z / (2 * of)) / (1 + z * z / of)
    reach = z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return centre - reach, centre + reach


def joined(hits, on, rejections, off, z=1.959963984540054):
    """The square-and-add rule for the mean of two independent proportions."""
    p, q = hits / on, rejections / off
    (p_low, p_high), (q_low, q_high) = wilson(hits, on, z), wilson(rejections, off, z)
    mean = (p + q) / 2
    return (
        mean - math.sqrt((p - p_low) ** 2 + (q - q_low) ** 2) / 2,
        mean + math.sqrt((p_high - p) ** 2 + (q_high - q) ** 2) / 2,
    )


@given(st.data(), st.integers(1, 40), st.integers(1, 40))
def test_the_score_is_by_hand(data, on, off):
    hits, rejections = data.draw(st.integers(0, on)), data.draw(st.integers(0, off))
    answer = [i < hits for i in range(on)] + [i >= rejections for i in range(off)]
    s = explain.score(Says(answer), held(on, off))
    assert (s.tpr, s.tnr) == (hits / on, rejections / off)
    assert s.score == pytest.approx((hits / on + rejections / off) / 2)
    assert (s.low, s.high) == pytest.approx(joined(hits, on, rejections, off), abs=1e-12)
    assert -1e-12 <= s.low <= s.score <= s.high <= 1 + 1e-12
    assert (s.explanation, s.active, s.inactive) == ("because", on, off)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda prompts: [p.startswith("on") for p in prompts], (1, 1, 1)),
        (lambda prompts: [p.startswith("off") for p in prompts], (0, 0, 0)),
        (lambda prompts: [True] * len(prompts), (0.5, 1, 0)),
        (lambda prompts: [False] * len(prompts), (0.5, 0, 1)),
    ],
    ids=["perfect", "inverted", "always", "never"],
)
def test_explainers_whose_score_is_known(answer, expected):
    s = explain.score(Says(answer), held(12, 30))
    assert (s.score, s.tpr, s.tnr) == expected


def test_an_explainer_that_guesses_scores_a_half():
    random = np.random.default_rng(0)
    guesses = Says(lambda prompts: random.random(len(prompts)) < 0.3)
    scores = [explain.score(guesses, held(10, 40)).score for _ in range(300)]
    # 300 means of two rates of 10 and 40 guesses that are 1 with probability 0.3
    error = (0.3 * 0.7 * (1 / 10 + 1 / 40) / 4 / 300) ** 0.5
    assert abs(np.mean(scores) - 0.5) < 4 * error


def test_an_explainer_is_shown_one_half_and_held_to_the_other():
    explainer = Says([True, True, False])
    explain.score(explainer, held(2, 1))
    shown, (sentence, asked) = explainer.given
    assert shown == (("shown on",), ("shown off",))
    assert sentence == "because"
    assert list(asked) == ["on 0", "on 1", "off 0"]


@pytest.mark.parametrize(("on", "off"), [(10, 10), (8, 40), (50, 12)])
def test_the_interval_holds_the_true_score_as_often_as_it_says(on, off):
    random = np.random.default_rng(7)
    inside = 0
    for _ in range(500):
        tpr, tnr = random.random(2)
        answer = [*(random.random(on) < tpr), *(random.random(off) >= tnr)]
        s = explain.score(Says(answer), held(on, off))
        inside += s.low <= (tpr + tnr) / 2 <= s.high
    assert 0.93 <= inside / 500 <= 0.985  # nor is it wider than it says


def test_more_confidence_or_fewer_prompts_is_a_wider_interval():
    def width(on, confidence):
        answer = [i < on // 2 for i in range(on)] + [i < on // 4 for i in range(on)]
        s = explain.score(Says(answer), held(on, on), confidence)
        return s.high - s.low

    assert width(8, 0.95) > width(20, 0.95) > width(20, 0.8)
    z = 1.2815515655446004  # of 80%
    s = explain.score(Says([True] * 6 + [False] * 14), held(12, 8), 0.8)
    assert (s.low, s.high) == pytest.approx(joined(6, 12, 8, 8, z))


@pytest.mark.parametrize(
    "answer", [(True, False, True), [np.True_, np.False_, np.True_], np.array([1, 0, 1], bool)]
)
def test_booleans_of_any_make_are_an_answer(answer):
    s = explain.score(Says(answer), held(2, 1))
    assert (s.tpr, s.tnr) == (0.5, 0)


@pytest.mark.parametrize("sentence", ["", " \n", None, 3, b"because", ["because"]], ids=repr)
def test_an_explainer_that_explains_nothing_is_named(sentence):
    with pytest.raises(ValueError, match="Says explained nothing"):
        explain.score(Says([True] * 3, sentence), held(2, 1))


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [True] * 2,
        [True] * 4,
        [1, 0, 1],
        ["True", "False", "True"],
        [True, None, False],
        "TFT",
        {"on 0": True, "on 1": True, "off 0": False},
        None,
        True,
        iter([True, True, False]),
    ],
    ids=lambda answer: str(answer)[:20],
)
def test_an_explainer_that_answers_nonsense_is_named(answer):
    with pytest.raises(ValueError, match="Says was asked about 3 prompts and answered"):
        explain.score(Says(answer), held(2, 1))


def test_all_scores_are_one_row_each_in_order():
    perfect = Says(lambda prompts: [p.startswith("on") for p in prompts])
    splits = MappingProxyType({(1, 0): held(3, 4), (0, 2): held(5, 2)})
    table = explain.score_all(perfect, splits)
    assert table.index.tolist() == [(1, 0), (0, 2)]
    assert table.columns.tolist() == [
        *("explanation", "score", "low", "high", "tpr", "tnr", "active", "inactive")
    ]
    for name, s in splits.items():
        assert tuple(table.loc[[name]].iloc[0]) == astuple(explain.score(perfect, s))
    assert table["active"].tolist() == [3, 5]


def test_all_scores_pass_through_the_bar_of_this_package(monkeypatch, capfd):
    told = []

    def watched(items, doing, unit):
        for item in items:
            told.append((doing, unit))
            yield item

    splits = {k: held(1, 1) for k in "abc"}
    explain.score_all(Says([True, True]), splits)
    assert capfd.readouterr() == ("", "")  # nobody watches here
    monkeypatch.setattr(explain, "progress", watched)
    explain.score_all(Says([True, True]), splits)
    assert told == [("explaining", "head")] * 3


# ---------------------------------------------------------------- what is true of a prompt


@pytest.fixture(scope="module", params=["toy", "mini"])
def language(request):
    """A tokenizer and 30 of its tokens that stay apart wherever they meet."""
    if request.param == "toy":
        tokenizer = request.getfixturevalue("toy_tokenizer")
        tokens = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123"]
    else:
        tokenizer = request.getfixturevalue("mini").tokenizer
        words = (tokenizer.decode([t]) for t in range(400, 1200))
        tokens = [w for w in words if w.startswith(" ") and w[1:].isalpha() and w.isascii()][:30]
    encode = partial(tokenizer.encode, add_special_tokens=False)
    assert all(len(encode(t)) == 1 for t in tokens)
    for a in tokens:
        assert all(encode(a + b) == encode(a) + encode(b) for b in tokens)
    return SimpleNamespace(
        tokenizer=tokenizer,
        tokens=tokens,
        read=lambda prompt: [tokenizer.decode([t]) for t in encode(prompt)],
    )


def true_facts(tokens, repeats):
    """All that holds of a prompt of these tokens, for tokens that need no escapes."""
    n = len(tokens)
    found = {f"more than {k} tokens" for k in (4, 8, 16, 32, 64, 128, 256, 512, 1024) if n > k}
    for k, name in ((1, "token"), (2, "two tokens"), (3, "three tokens")):
        if n >= k:
            found.add(f'the last {name} "{"".join(tokens[n - k :])}"')
    if n >= 2:
        found.add(f'the last token but one "{tokens[n - 2]}"')
    for i, token in enumerate(tokens):
        found.add(f'the token "{token}"')
        if i >= n - 8:
            found.add(f'the token "{token}" near the end')
    if repeats and any(tokens[i] == tokens[-1] for i in range(n - 1)):
        found.add("a last token that came before")
    return found


@given(st.data(), st.booleans())
def test_facts_are_those_of_a_slow_reading(language, data, repeats):
    tokens = data.draw(st.lists(st.sampled_from(language.tokens[:9]), max_size=40))
    found = list(RuleExplainer(language.tokenizer, repeats).facts("".join(tokens)))
    assert set(found) == true_facts(tokens, repeats)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 9, 16, 17])
def test_facts_at_the_edges_are_those_of_a_slow_reading(language, n):
    tokens = language.tokens[:n]
    found = RuleExplainer(language.tokenizer, repeats=True).facts("".join(tokens))
    assert set(found) == true_facts(tokens, repeats=True)


def test_long_prompts_are_told_apart_by_length(language):
    for n in (1023, 1024, 1025):
        facts = set(RuleExplainer(language.tokenizer).facts(language.tokens[0] * n))
        assert ("more than 1024 tokens" in facts) == (n > 1024)


def test_nothing_is_true_of_an_empty_prompt_and_little_of_one_token(language):
    explainer = RuleExplainer(language.tokenizer, repeats=True)
    assert list(explainer.facts("")) == []
    token = language.tokens[3]
    assert sorted(explainer.facts(token)) == [
        f'the last token "{token}"',
        f'the token "{token}"',
        f'the token "{token}" near the end',
    ]


@given(st.text(max_size=30))
@example('say "with the token \\" and')
@example("<|endoftext|>\n\x00\u2028😀 e\u0301")
def test_every_fact_can_be_written_and_read(language, prompt):
    explainer = RuleExplainer(language.tokenizer, repeats=True)
    for fact in explainer.facts(prompt):
        for wanted in (True, False):
            sentence = written([((wanted, fact),)])
            assert read_rule(sentence) == [((wanted, fact),)]
            assert explainer.classify(sentence, [prompt]) == [wanted]


# ---------------------------------------------------------------- rules and sentences

NASTY = [
    *("", " ", '"', "\\", '\\"', '"\\', '" and with "', '", or with "', '".', ".", "tokens"),
    *(
        " and with ",
        ", or with ",
        "without",
        "more than 8 tokens",
        " near the end",
        '" near the end',
    ),
    *("\n", "\r\n", "\x00", "\x1f", "\x7f", "\x85", "\u2028", "😀", "\ud83d", "\udc00", "e\u0301"),
    *("a last token that came before", 'with the last token "x"', "\\n", "\\u0041", "�"),
]
texts = st.sampled_from(NASTY) | st.text(max_size=12) | st.text(st.characters(), max_size=4)


@st.composite
def facts(draw):
    kind = draw(
        st.sampled_from(
            [
                *("the last token {}", "the last two tokens {}", "the last three tokens {}"),
                *("the last token but one {}", "the token {}", "the token {} near the end"),
                *("more than 4 tokens", "more than 1024 tokens", "a last token that came before"),
            ]
        )
    )
    return kind.format(explain.quoted(draw(texts)))


clauses = st.lists(st.tuples(st.booleans(), facts()), min_size=1, max_size=4).map(tuple)


@given(st.lists(clauses, max_size=4))
def test_a_rule_is_written_and_read_back(rule):
    assert read_rule(written(rule)) == rule


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_any_token_can_stand_in_a_rule(text):
    token = explain.quoted(text)
    rule = [
        ((True, f"the last token {token}"), (False, f"the token {token}")),
        ((False, f"the token {token} near the end"), (True, f"the last two tokens {token}")),
    ]
    assert read_rule(written(rule)) == rule


def test_a_rule_reads_as_english():
    rule = [
        ((True, 'the last token " pro"'), (False, 'the token " war"')),
        ((True, "more than 32 tokens"),),
    ]
    assert written(rule) == (
        'The head is active on prompts with the last token " pro" and without the token " war", '
        "or with more than 32 tokens."
    )


def test_always_and_never_are_sentences_too(language):
    explainer = RuleExplainer(language.tokenizer)
    prompts = ["", *language.tokens[:3]]
    always, never = "The head is active on every prompt.", "The head is active on no prompt."
    assert written([]) == never
    assert written([()]) == always
    assert written([((True, "more than 4 tokens"),), ()]) == always
    assert explainer.classify(always, prompts) == [True] * 4
    assert explainer.classify(never, prompts) == [False] * 4
    assert explainer.classify(always, []) == []
    assert explainer.classify('The head is active on prompts with the token "x".', []) == []


GOOD = 'The head is active on prompts with the last token " of" and without more than 8 tokens.'


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "because",
        *(GOOD[:-1], GOOD + "\n", GOOD + GOOD, " " + GOOD, GOOD.lower()),
        *(GOOD.replace(" and ", joint) for joint in (", and ", " or ", ",or ", " and and ")),
        *(GOOD.replace('" of"', token) for token in ("' of'", " of", '" of', '" of\\"')),
        *(GOOD.replace("8", number) for number in ("eight", "-8", "30", "08", "2", "\u0668")),
        *(GOOD.replace('" of"', token) for token in ('"\\q"', '"\\u0041"', '"\n"')),
        GOOD.replace('" of"', '" of" near the end'),
        GOOD.replace("without more than 8 tokens", "without"),
        GOOD.replace("last token", "last four tokens"),
        GOOD.replace(".", ", or ."),
        "The head is active on prompts .",
        "The head is active on prompts , or with more than 8 tokens.",
        "The head is active on no prompts.",
    ],
)
def test_a_sentence_that_is_no_rule_is_refused(toy_tokenizer, sentence):
    assert read_rule(GOOD)
    with pytest.raises(ValueError, match="is not a rule of this explainer: expected a sentence"):
        RuleExplainer(toy_tokenizer).classify(sentence, ["x"])


@given(st.lists(clauses, min_size=1, max_size=2), st.integers(0, 200), st.integers(0, 6), texts)
def test_a_sentence_that_was_changed_is_another_rule_or_none(rule, start, piece, other):
    """Whatever is read is all that the sentence says: nothing in it is passed over."""
    sentence = written(rule)
    changed = sentence[:start] + other + sentence[start + piece :]
    try:
        found = read_rule(changed)
    except ValueError:
        return
    assert written(found) == changed


# ---------------------------------------------------------------- the explainer

LAST, BUT_ONE = 'the last token "{}"', 'the last token but one "{}"'
ENDS_OF = {2: 'the last two tokens "{}{}"', 3: 'the last three tokens "{}{}{}"'}


class Writer:
    """Writes prompts as lists of tokens; the first three of a language are kept for planting."""

    def __init__(self, tokens, seed):
        self.special, self.plain = tokens[:3], tokens[3:]
        self.random = np.random.default_rng(seed)

    def some(self, low, high):
        return self.random.choice(self.plain, self.random.integers(low, high)).tolist()

    def put(self, token, low, high):
        """A prompt of 12 to 30 tokens with `token` at a place counted from its end."""
        prompt = self.some(12, 31)
        prompt[-int(self.random.integers(low, high))] = token
        return prompt

    def many(self, count, *kinds):
        """Prompts of all the kinds in turn."""
        return ["".join(kinds[i % len(kinds)]()) for i in range(count)]


# For each fact: what an active prompt looks like, what the inactive ones look like, the rule.
# The inactive ones have as much in common with the active as the fact allows.
PLANTED = {
    "last": lambda w, x, y, z: (
        [lambda: [*w.put(x, 2, 12), x]],
        [lambda: [*w.put(x, 1, 12), *w.some(1, 2)]],
        LAST.format(x),
    ),
    "last but one": lambda w, x, y, z: (
        [lambda: [*w.some(5, 20), x, *w.some(1, 2)]],
        [lambda: [*w.put(x, 2, 8), *w.some(1, 2)], lambda: [*w.some(5, 20), x]],
        BUT_ONE.format(x),
    ),
    "last two": lambda w, x, y, z: (
        [lambda: [*w.some(5, 20), x, y]],
        [
            lambda: [*w.put(x, 2, 7), y],
            lambda: [*w.put(y, 1, 6), x, *w.some(1, 2)],
            lambda: [*w.some(5, 20), y, x],
        ],
        ENDS_OF[2].format(x, y),
    ),
    "last three": lambda w, x, y, z: (
        [lambda: [*w.some(5, 20), x, y, z]],
        [
            lambda: [*w.put(x, 2, 7), y, z],
            lambda: [*w.some(5, 20), x, *w.some(1, 2), z],
            lambda: [*w.some(5, 20), x, y, *w.some(1, 2)],
            lambda: [*w.some(5, 20), x, z, y],
        ],
        ENDS_OF[3].format(x, y, z),
    ),
    "anywhere": lambda w, x, y, z: (
        [lambda: w.put(x, 9, 13), lambda: w.put(x, 1, 13)],
        [lambda: w.some(12, 31)],
        f'the token "{x}"',
    ),
    "near the end": lambda w, x, y, z: (
        [lambda: w.put(x, 2, 9)],
        [lambda: w.put(x, 9, 13)],
        f'the token "{x}" near the end',
    ),
    "length": lambda w, x, y, z: (
        [lambda: w.some(17, 33)],
        [lambda: w.some(9, 17)],
        "more than 16 tokens",
    ),
    "repetition": lambda w, x, y, z: (
        [lambda: (p := w.some(8, 20)) + [p[int(w.random.integers(0, 8))]]],
        [lambda: w.random.permutation(w.plain)[: int(w.random.integers(9, 20))].tolist()],
        "a last token that came before",
    ),
}


def plant(language, name, count, seed=0):
    """As many active as inactive prompts, and the fact that tells them apart."""
    w = Writer(language.tokens, seed)
    on, off, fact = PLANTED[name](w, *w.special)
    return w.many(count, *on), w.many(count, *off), fact


def split_of(on, off, seed=0):
    return explain.split([*on, *off], [True] * len(on) + [False] * len(off), seed)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fact_is_found_and_holds_for_prompts_never_seen(language, name):
    explainer = RuleExplainer(language.tokenizer, repeats=True)
    on, off, fact = plant(language, name, 60)
    s = explain.score(explainer, split_of(on, off))
    assert read_rule(s.explanation) == [((True, fact),)]
    assert s.score == 1.0
    on, off, _ = plant(language, name, 40, seed=1)
    assert explainer.classify(s.explanation, [*on, *off]) == [True] * 40 + [False] * 40


@pytest.mark.parametrize("name", PLANTED)
def test_what_must_not_be_there_is_found_as_well(language, name):
    explainer = RuleExplainer(language.tokenizer, repeats=True)
    off, on, fact = plant(language, name, 60)
    s = explain.score(explainer, split_of(on, off))
    assert read_rule(s.explanation) == [((False, fact),)]
    assert s.score == 1.0


def test_repetition_is_found_only_where_it_is_looked_for(language):
    on, off, fact = plant(language, "repetition", 60)
    s = explain.score(RuleExplainer(language.tokenizer), split_of(on, off))
    assert fact not in s.explanation
    assert s.score < 0.8


# of two facts A and B: the prompts with both, with one of them, with none
def both(w, x, y):
    return [*w.put(y, 9, 12), x]


def only_last(w, x, y):
    return [*w.some(12, 31), x]


def only_token(w, x, y):
    return w.put(y, 10, 13)


def neither(w, x, y):
    return w.some(13, 32)


@pytest.mark.parametrize(
    ("on", "off", "rule"),
    [
        ([both], [only_last, only_token], ["+A +B"]),
        ([only_last], [both, neither], ["+A -B"]),
        ([only_last, only_token], [neither], ["+A", "+B"]),
        ([both, only_last, neither], [only_token], ["+A", "-B"]),
        ([only_last, only_token, neither], [both], ["-A", "-B"]),
    ],
    ids=["and", "and not", "or", "or not", "not both"],
)
def test_two_facts_are_found_together(language, on, off, rule):
    explainer = RuleExplainer(language.tokenizer)
    w = Writer(language.tokens, 3)
    x, y, _ = w.special
    facts = {"A": LAST.format(x), "B": f'the token "{y}"'}
    expected = {frozenset((c[0] == "+", facts[c[1]]) for c in clause.split()) for clause in rule}

    def prompts(count):
        return [["".join(k(w, x, y)) for k in kind for _ in range(count)] for kind in (on, off)]

    s = explain.score(explainer, split_of(*prompts(24)))
    assert {frozenset(clause) for clause in read_rule(s.explanation)} == expected
    assert s.score == 1.0
    new_on, new_off = prompts(10)
    said = explainer.classify(s.explanation, [*new_on, *new_off])
    assert said == [True] * len(new_on) + [False] * len(new_off)


def test_labels_that_mean_nothing_are_not_predicted(language):
    """Where labels are a permutation the held prompts cannot be told: the score is 0.5 on average,
    and its variance at most 1 / (4 (2 h - 1)) with h held prompts of either kind.
    """
    w, explainer = Writer(language.tokens, 5), RuleExplainer(language.tokenizer, repeats=True)
    scores = []
    for seed in range(40):
        prompts = w.many(64, lambda: w.some(4, 20))
        s = split_of(prompts[:32], prompts[32:], seed)
        assert len(s.held_active) == len(s.held_inactive) == 16
        scores.append(explain.score(explainer, s).score)
    assert abs(np.mean(scores) - 0.5) < 4 * (1 / (4 * 31) / 40) ** 0.5
    assert np.std(scores) > 0  # it did commit itself


def test_prompts_that_share_nothing_have_no_rule(language):
    tokens = language.tokens
    sentence = RuleExplainer(language.tokenizer).explain(tokens[:3], tokens[3:6])
    assert sentence == "The head is active on no prompt."


def test_a_fact_of_fewer_than_three_prompts_explains_nothing(language):
    """Two of the active ones end alike; three would be a rule."""
    explainer, (x, *others) = RuleExplainer(language.tokenizer), language.tokens
    off = others[:6]
    assert x not in explainer.explain([x, x, *others[6:10]], off)
    assert read_rule(explainer.explain([x, x, x, *others[6:9]], off)) == [((True, LAST.format(x)),)]


def test_what_fewer_than_three_prompts_lack_explains_nothing_either(language):
    """Only one prompt lacks the token, and it is active: that is no evidence."""
    explainer, (x, y, *_) = RuleExplainer(language.tokenizer), language.tokens
    sentence = explainer.explain([x, x, x, x, y], [x, x, x, x, x])
    assert sentence == "The head is active on no prompt."


def test_the_rarer_kind_counts_as_much_as_the_other(language):
    """Of the prompts that end so most are inactive, but all that are active are among them."""
    explainer, (x, y, *_) = RuleExplainer(language.tokenizer), language.tokens
    for on, off in (([x] * 4, [x] * 6 + [y] * 24), ([x] * 24 + [y] * 6, [y] * 4)):
        assert explainer.classify(explainer.explain(on, off), [x, y]) == [True, False]


def test_of_facts_that_say_the_same_the_plainest_is_written(language):
    """All these prompts have the same last three tokens, or other ones."""
    x, y, z, *others = language.tokens
    on = [t + x + y + z for t in others[:6]]
    off = [t + u + v + w for t, u, v, w in zip(*[iter(others[:24])] * 4, strict=True)]
    sentence = RuleExplainer(language.tokenizer).explain(on, off)
    assert sentence == f'The head is active on prompts with the last token "{z}".'


@pytest.mark.parametrize(("on", "off"), [(2, 9), (9, 2), (0, 9), (9, 0), (0, 0)])
def test_a_rule_needs_three_prompts_of_either_kind(language, on, off):
    with pytest.raises(ValueError, match=rf"{on} active and {off} inactive .* at least 3 of each"):
        RuleExplainer(language.tokenizer).explain(
            language.tokens[:on], language.tokens[-off:][:off]
        )


# ---------------------------------------------------------------- the explainer, on anything


def random_groups(language, seed):
    """Two groups of prompts that have many facts in common, and nothing that tells them apart."""
    random = np.random.default_rng(seed)
    tokens = language.tokens[: random.integers(3, 8)]
    return [
        ["".join(random.choice(tokens, random.integers(1, 12))) for _ in range(count)]
        for count in random.integers(3, 12, 2)
    ]


def verdict(sentence, tokens):
    """What a sentence says of a prompt, by a reading that knows nothing of regular expressions;
    for tokens without quotes and commas.
    """
    if sentence == "The head is active on no prompt.":
        return False
    if sentence == "The head is active on every prompt.":
        return True
    found = true_facts(tokens, repeats=True)
    body = sentence.removeprefix("The head is active on prompts ").removesuffix(".")
    return any(
        all(
            (term.removeprefix("with ") in found)
            if term.startswith("with ")
            else (term.removeprefix("without ") not in found)
            for term in clause.split(" and ")
        )
        for clause in body.split(", or ")
    )


def balanced(explainer, sentence, on, off):
    """Balanced accuracy, exactly."""
    hits = sum(explainer.classify(sentence, on))
    false = sum(explainer.classify(sentence, off))
    return (Fraction(hits, len(on)) + 1 - Fraction(false, len(off))) / 2


def shorter_rules(rule):
    """All rules with one clause or one condition less that still say something."""
    for k, clause in enumerate(rule):
        if len(rule) > 1:
            yield [*rule[:k], *rule[k + 1 :]]
        if len(clause) > 1:
            for i in range(len(clause)):
                yield [*rule[:k], (*clause[:i], *clause[i + 1 :]), *rule[k + 1 :]]


@given(seeds)
def test_a_rule_says_what_its_sentence_says(language, seed):
    explainer = RuleExplainer(language.tokenizer, repeats=True)
    on, off = random_groups(language, seed)
    sentence = explainer.explain(on, off)
    new = [prompt for group in random_groups(language, seed + 1000) for prompt in group]
    prompts = [*on, *off, *new, ""]
    by_hand = [verdict(sentence, language.read(p)) for p in prompts]
    assert explainer.classify(sentence, prompts) == by_hand
    assert all(isinstance(said, bool) for said in explainer.classify(sentence, prompts))


def rules_of(language, count):
    """Many rules at once, for what goes wrong with one in a hundred."""
    explainer = RuleExplainer(language.tokenizer, repeats=True)
    for seed in range(count):
        on, off = random_groups(language, seed)
        yield explainer, on, off, explainer.explain(on, off)


def test_a_rule_is_never_worse_than_the_majority(language):
    for explainer, on, off, sentence in rules_of(language, 60):
        assert balanced(explainer, sentence, on, off) >= Fraction(1, 2)


def test_a_rule_is_at_most_three_clauses_of_three_facts_that_three_prompts_share(language):
    for explainer, on, off, sentence in rules_of(language, 60):
        rule = read_rule(sentence)
        assert len(rule) <= 3 and all(1 <= len(clause) <= 3 for clause in rule)
        seen = [set(explainer.facts(p)) for p in [*on, *off]]
        for _, fact in sum(rule, ()):
            assert sum(fact in facts for facts in seen) >= 3


def is_minimal(explainer, on, off, sentence):
    reached = balanced(explainer, sentence, on, off)
    return all(
        balanced(explainer, written(rule), on, off) < reached
        for rule in shorter_rules(read_rule(sentence))
    )


def test_no_part_of_a_rule_could_be_left_out(language):
    assert all(is_minimal(*case) for case in rules_of(language, 200))


@given(seeds, st.integers(6, 18), st.data())
def test_no_part_of_a_shortened_rule_could_be_left_out(seed, count, data):
    """Rules that no tree would write: what can be left out may depend on what has been."""
    random = np.random.default_rng(seed)
    seen = [{f for f in "abcdef" if random.random() < 0.5} for _ in range(count)]
    on = data.draw(st.integers(1, count - 1))
    rule = [
        tuple((bool(random.random() < 0.5), f) for f in random.permutation([*"abcdef"])[:k])
        for k in random.integers(1, 4, random.integers(1, 5))
    ]

    def right(candidate):
        said = [
            any(all((f in facts) == wanted for wanted, f in clause) for clause in candidate)
            for facts in seen
        ]
        return Fraction(sum(said[:on]), on) - Fraction(sum(said[on:]), count - on)

    found = explain.shortened(rule, seen, np.arange(count) < on)
    assert right(found) >= right(rule)
    assert all(right(candidate) < right(found) for candidate in shorter_rules(found))
    assert all(any(set(clause) <= set(whole) for whole in rule) for clause in found)


def test_an_explanation_does_not_depend_on_the_order_of_the_prompts(language):
    random = np.random.default_rng(0)
    for explainer, on, off, sentence in rules_of(language, 250):
        mixed = [random.permutation(group).tolist() for group in (on, off)]
        assert explainer.explain(*mixed) == sentence
        assert explainer.explain(on, off) == sentence


# ---------------------------------------------------------------- who is an explainer


@pytest.mark.parametrize("kind", [RuleExplainer, ChatExplainer, Says])
def test_an_explainer_explains_and_classifies(kind):
    for name in ("explain", "classify"):
        asked, offered = (inspect.signature(getattr(k, name)) for k in (Explainer, kind))
        assert list(offered.parameters) == list(asked.parameters)
        if kind is not Says:  # those of the package say their types as well
            assert offered == asked


# ---------------------------------------------------------------- from a model to a score


def test_a_head_of_mini_is_explained(mini):
    texts = [t.tokens for t in cx.texts.collection(cx.texts.Reader.of(mini, 48), 32)]
    neuron = tuple(cx.decoders.next_token_neurons(mini)[["layer", "neuron"]].iloc[0].tolist())
    explainer = RuleExplainer(mini.tokenizer, repeats=True)

    def run():
        (top,) = cx.decoders.top_prompts(mini, texts, [neuron], count=16)
        ids = [*top.tokens, *cx.decoders.random_prompts(texts, 32)]
        terms = cx.decoders.attribution(mini, *neuron, ids)
        prompts = [mini.tokenizer.decode(p[1:]) for p in ids]  # BOS is in front of every one
        splits = {}
        for layer, head in np.ndindex(*terms.heads.shape[1:]):
            flags = explain.active(terms.of(layer, head))
            if 8 <= len({p for p, f in zip(prompts, flags, strict=True) if f}) <= 40:
                splits[layer, head] = explain.split(prompts, flags)
        return explain.score_all(explainer, splits)

    table = run()
    assert len(table) >= 2
    assert table["score"].between(0, 1).all()
    assert (table["low"] <= table["score"]).all() and (table["score"] <= table["high"]).all()
    for sentence in table["explanation"]:
        assert written(read_rule(sentence)) == sentence
    assert run().equals(table)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say():
    jaxtyped(explain.active, typechecker=beartype)(torch.ones(3))
    jaxtyped(explain.shortened, typechecker=beartype)(
        [((True, "a"),)], [frozenset("a"), frozenset("b")], np.array([True, False])
    )


def test_shuffled_labels_keep_prompts_and_numbers():
    split = explain.Split(("a", "b", "c"), ("d", "e"), ("f",), tuple("ghij"))
    dealt = explain.shuffled(split, seed=3)
    assert dealt == explain.shuffled(split, seed=3) != explain.shuffled(split, seed=4)
    for one, two in (
        (dealt.shown_active, split.shown_active),
        (dealt.held_inactive, split.held_inactive),
    ):
        assert len(one) == len(two)
    assert sorted(dealt.shown_active + dealt.shown_inactive) == list("abcde")
    assert sorted(dealt.held_active + dealt.held_inactive) == list("fghij")
    seeds = [explain.shuffled(split, seed).held_active for seed in range(40)]
    assert {prompt for (prompt,) in seeds} == set("fghij"), "any prompt may get the label"
