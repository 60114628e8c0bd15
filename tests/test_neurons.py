"""Neurons: which ones single tokens can move, what they are about, and how sure that is."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from beartype import beartype
from by_hand import draw, draw_texts, seeds
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped
from scipy import stats
from sklearn.metrics import roc_auc_score

import ctxlib as cx
from ctxlib.neurons import LARGEST, byte_names, impossible_bytes, robust_z


@pytest.fixture(scope="module")
def circuit(precise):
    return cx.ContextualCircuit.calibrate(precise, draw_texts(1, 32, 300)[0], [0, 2], 20)


def planted(contribution, weights=None):
    """A circuit as far as `find_neurons` looks at one, its contributions chosen by hand."""
    if weights is None:
        # no tokenizer: every token counts, and tokens are spelled as ids
        weights = SimpleNamespace(
            tokenizer=None, embeddings=lambda: torch.ones(len(contribution), 2)
        )
    return SimpleNamespace(contribution=contribution, at=weights)


# ---------------------------------------------------------------- which neurons


def table_by_hand(contribution, ids, largest):
    """`top`, its robust score, the mean, and the extreme tokens of every neuron."""
    rows = []
    for j in range(contribution.shape[1]):
        of = {t: float(contribution[t, j]) for t in ids}
        order = sorted(ids, key=of.get)
        best, worst = order[::-1][:largest], order[:largest]
        mean = sum(of.values()) / len(of)
        rows.append([sum(of[t] for t in best) / largest - mean, mean, best, worst])
    tops = np.array([row[0] for row in rows])
    far = tops - np.median(tops)
    z = far / (1.4826 * np.median(np.abs(far)))
    return [
        SimpleNamespace(top=t, z=s, mean=m, best=b, worst=w)
        for (t, m, b, w), s in zip(rows, z, strict=True)
    ]


@given(seeds, st.integers(12, 30), st.integers(3, 9), st.integers(1, 5))
def test_the_table_is_the_loops(seed, vocab, neurons, largest):
    contribution = draw(vocab, neurons, seed=seed)
    hand = table_by_hand(contribution, list(range(vocab)), largest)
    found = cx.find_neurons(planted(contribution), threshold=-1.0, largest=largest)
    assert found.index.tolist() == sorted(range(neurons), key=lambda j: -hand[j].top)
    assert found.index.name == "neuron"
    for j, row in found.iterrows():
        assert row["top"] == pytest.approx(hand[j].top)
        assert row["z"] == pytest.approx(hand[j].z)
        assert row["mean"] == pytest.approx(hand[j].mean)
        assert row["top tokens"] == hand[j].best
        assert row["bottom tokens"] == hand[j].worst


def test_it_reads_the_contributions_of_a_circuit(circuit):
    untrained = cx.neurons.untrained_tokens(circuit.at)
    hand = table_by_hand(circuit.contribution, (~untrained).nonzero()[:, 0].tolist(), LARGEST)
    found = cx.find_neurons(circuit, threshold=-1.0)
    decode = circuit.at.tokenizer.decode
    assert len(found) == 40
    for j, row in found.iterrows():
        assert row["top"] == pytest.approx(hand[j].top)
        assert row["z"] == pytest.approx(hand[j].z)
        assert row["top tokens"] == [decode([t]) for t in hand[j].best]
        assert row["bottom tokens"] == [decode([t]) for t in hand[j].worst]


def test_neurons_that_are_alike_keep_their_order():
    column = draw(30, 1)
    found = cx.find_neurons(planted(column.expand(-1, 4)), threshold=0.0, largest=3)
    assert found.index.tolist() == [0, 1, 2, 3]


@given(seeds, st.floats(0.5, 2.5))
def test_a_threshold_passes_those_above_it(seed, threshold):
    contribution = draw(40, 9, seed=seed)
    hand = table_by_hand(contribution, list(range(40)), 5)
    above = {j for j in range(9) if hand[j].top > threshold}
    circuit = planted(contribution)
    if above:
        found = cx.find_neurons(circuit, threshold, 5)
        assert set(found.index) == above
        assert found.attrs["threshold"] == threshold
    else:
        with pytest.raises(ValueError, match=f"threshold {threshold:g} finds none"):
            cx.find_neurons(circuit, threshold, 5)


def test_a_threshold_is_not_passed_by_what_only_reaches_it():
    contribution = torch.zeros(8, 3, dtype=torch.float64)
    contribution[0] = torch.tensor([8.0, 16.0, 4.0])  # tops 7, 14, 3.5, exactly
    found = cx.find_neurons(planted(contribution), threshold=7.0, largest=1)
    assert found["top"].to_dict() == {1: 14.0}


def some_stand_out(seed=0):
    """Thirty neurons, of which 4 and 11 have tokens far beyond the others'."""
    contribution = draw(200, 30, seed=seed)
    contribution[:LARGEST, 4] += 6
    contribution[5 : LARGEST + 5, 11] += 9
    return contribution


@given(seeds, st.floats(0.01, 100), st.floats(-50, 50))
def test_without_a_threshold_those_two_robust_deviations_up_pass_in_any_unit(seed, unit, level):
    """And the threshold that was found finds the same, rounded to single precision too."""
    contribution = some_stand_out(seed)
    hand = table_by_hand(contribution, list(range(200)), LARGEST)
    found = cx.find_neurons(planted(contribution))
    assert set(found.index) == {j for j in range(30) if hand[j].z > 2}
    assert found.index[:2].tolist() == [11, 4]
    scaled = cx.find_neurons(planted(unit * contribution + level))
    assert scaled.index.tolist() == found.index.tolist()
    assert scaled["z"].tolist() == pytest.approx(found["z"].tolist())
    assert scaled["top"].tolist() == pytest.approx((unit * found["top"]).tolist())
    single = planted(contribution.float())
    found = cx.find_neurons(single)
    again = cx.find_neurons(single, threshold=found.attrs["threshold"])
    pd.testing.assert_frame_equal(again, found)


def test_tokens_that_do_not_count_change_nothing():
    contribution, counted = some_stand_out(), torch.ones(200, dtype=torch.bool)
    counted[100:] = False
    noisy = contribution.clone()
    noisy[100:] = 1000 * draw(100, 30, seed=1)
    found = cx.find_neurons(planted(noisy), tokens=counted)
    pd.testing.assert_frame_equal(found, cx.find_neurons(planted(contribution[:100])))
    assert max(max(row) for row in found["top tokens"] + found["bottom tokens"]) < 100


def test_untrained_tokens_do_not_count_unless_they_are_asked_for(precise):
    contribution = some_stand_out().repeat(2, 1)[:300]
    glitch = impossible_bytes(precise)[0]
    contribution[glitch, 7] = 1e6
    circuit = planted(contribution, precise)
    assert 7 not in cx.find_neurons(circuit).index
    everything = torch.ones(300, dtype=torch.bool)
    assert cx.find_neurons(circuit, tokens=everything).index[0] == 7


@pytest.mark.parametrize("chunk", [1, 7, 30, 1000])
def test_neurons_may_be_taken_in_any_chunks(monkeypatch, chunk):
    circuit = planted(some_stand_out())
    whole = cx.find_neurons(circuit, threshold=1.0)
    monkeypatch.setattr(cx.neurons, "CHUNK", chunk)
    pd.testing.assert_frame_equal(cx.find_neurons(circuit, threshold=1.0), whole)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5), st.floats(-1e3, 1e3))
def test_a_value_at_the_median_scores_zero_even_where_most_are_alike(others, level):
    values = torch.tensor([level] * 7 + [level + x for x in others], dtype=torch.float64)
    z = robust_z(values)
    assert (z[:7] == 0).all()
    assert torch.equal(z > 0, values > level)


# ---------------------------------------------------------------- what finds none


@pytest.mark.parametrize(
    ("tops", "threshold", "says"),
    [
        # evenly spread: none stands out
        *(
            (torch.linspace(1, 2, 9), rule, "of 9 neurons is 2.00, the median one 1.50")
            for rule in (1e6, None)
        ),
        (torch.ones(5), None, "none lies more than 2 robust deviations"),
    ],
)
def test_a_rule_that_no_neuron_passes_says_how_near_they_came(tops, threshold, says):
    contribution = torch.zeros(10, len(tops), dtype=torch.float64)
    contribution[3] = tops / 0.9  # less the mean over tokens
    with pytest.raises(ValueError, match=says):
        cx.find_neurons(planted(contribution), threshold, 1)


def test_one_neuron_that_moves_among_dead_ones_can_still_be_found():
    """Half of the neurons alike: the median deviation is zero, the rule must not break."""
    contribution = torch.zeros(30, 5, dtype=torch.float64)
    contribution[:, 2] = draw(30)
    assert cx.find_neurons(planted(contribution), largest=3).index.tolist() == [2]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        *(({"largest": k}, f"largest={k}.*fewer than the 30 tokens") for k in (0, -1, 30, 31)),
        ({"largest": 4, "tokens": torch.arange(30) < 4}, "fewer than the 4 tokens"),
        *(
            ({"tokens": tokens}, "give a mask, True or False for each of the 30")
            for tokens in (torch.arange(30), torch.ones(29) > 0, torch.ones(30))
        ),
    ],
)
def test_largest_leaves_tokens_over_and_tokens_that_count_are_a_mask(asked, says):
    with pytest.raises(ValueError, match=says):
        cx.find_neurons(planted(draw(30, 5)), **asked)


def test_weights_without_embeddings_have_no_tokens_to_judge(precise):
    with pytest.raises(ValueError, match="without token embeddings"):
        cx.neurons.untrained_tokens(replace(precise, W_E=None))


# ---------------------------------------------------------------- tokens never trained


def test_bytes_are_named_as_GPT2_names_them():
    """The published convention: bytes that print stand for themselves."""
    printed = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printed]
    stand_ins = {byte: chr(256 + k) for k, byte in enumerate(others)}
    assert byte_names() == {byte: chr(byte) for byte in printed} | stand_ins


def test_the_impossible_bytes_are_those_that_no_character_is_written_with(precise):
    possible = set()
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        possible.update(chr(code).encode())
    impossible = [byte_names()[byte] for byte in range(256) if byte not in possible]
    ids = precise.tokenizer.convert_tokens_to_ids(impossible)
    assert len(ids) == 13
    assert sorted(impossible_bytes(precise)) == sorted(ids)


def with_embeddings(precise, near, spread):
    """Weights whose impossible bytes lie together, `near` in their midst, all others elsewhere."""
    W_E, together = draw(300, 24, seed=3), impossible_bytes(precise)
    W_E[:, 0] = 0  # nothing else lies there by chance
    W_E[together] = spread * draw(len(together), 24, seed=4)
    W_E[list(near)] = 0
    W_E[[*together, *near], 0] = 1
    return replace(precise, W_E=W_E)


@given(st.floats(0.01, 1.0), seeds)
def test_which_tokens_count_as_untrained_is_the_loops(precise, spread, seed):
    never = impossible_bytes(precise)
    near = [t for t in (7, 70, 290) if t not in never]
    weights = with_embeddings(precise, near, spread)
    source = torch.Generator().manual_seed(seed)
    W_E = weights.W_E.clone()
    # others at any distance from the group
    W_E[::5, 0] += 3 * torch.rand(60, generator=source, dtype=torch.float64)
    weights = replace(weights, W_E=W_E)
    unit = [v / v.norm() for v in W_E]

    def cosine(a, b):
        return float(a @ b / (a.norm() * b.norm()))

    own = [cosine(unit[t], sum(unit[o] for o in never if o != t) / 12) for t in never]
    needed = max(min(own), 0.5)
    mean = sum(unit[t] for t in never) / 13
    by_hand = [t in never or cosine(unit[t], mean) >= needed for t in range(300)]
    assert cx.neurons.untrained_tokens(weights).tolist() == by_hand
    assert sum(by_hand) > 13, "those that lie with the impossible ones count as well"


def test_impossible_bytes_that_lie_anywhere_make_no_other_token_untrained(precise):
    scattered = replace(precise, W_E=draw(300, 24, seed=9))
    flags = cx.neurons.untrained_tokens(scattered)
    assert flags[impossible_bytes(precise)].all()
    assert flags.sum() < 20


def test_without_a_vocabulary_of_bytes_no_token_counts_as_untrained(precise):
    words = SimpleNamespace(get_vocab=lambda: {"the": 0, "of": 1})
    for tokenizer in (None, words):
        assert not cx.neurons.untrained_tokens(replace(precise, tokenizer=tokenizer)).any()


def test_untrained_tokens_of_mini_are_few_and_in_no_passage(mini_weights):
    flags = cx.neurons.untrained_tokens(mini_weights)
    assert flags[impossible_bytes(mini_weights)].all()
    assert 13 <= flags.sum() < 0.02 * len(flags)
    read = torch.cat([p.tokens for p in cx.texts.passages(mini_weights)]).unique()
    assert not flags[read].any()


# ---------------------------------------------------------------- what they are about


@given(seeds, st.permutations([*"aaabbbbccccc"]), st.floats(0.5, 0.99))
def test_labels_are_compared_as_by_hand(seed, labels, confidence):
    values = draw(12, 4, seed=seed).round(decimals=1)  # some are equal, and count half in the auc
    table = cx.label_neurons(values, labels, [7, 3, 9, 1], confidence)
    means = cx.neurons.by_label(values, labels, [7, 3, 9, 1])
    assert table.index.tolist() == means.index.tolist() == [7, 3, 9, 1]
    assert means.columns.tolist() == [*"abc"]
    y, labels = values.numpy(), np.array(labels)
    for column, (neuron, row) in enumerate(table.iterrows()):
        groups = {k: y[labels == k, column] for k in "abc"}
        rest = {k: y[labels != k, column] for k in "abc"}
        assert means.loc[neuron].tolist() == pytest.approx([groups[k].mean() for k in "abc"])
        best = max("abc", key=lambda k: groups[k].mean() - rest[k].mean())
        assert row["label"] == best
        assert row["difference"] == pytest.approx(groups[best].mean() - rest[best].mean())
        assert row["auc"] == pytest.approx(roc_auc_score(labels == best, y[:, column]))
        squares = sum(((g - g.mean()) ** 2).sum() for g in groups.values())
        assert row["spread"] == pytest.approx((squares / 9) ** 0.5)
        # its interval is Bonferroni's: three labels to choose from, both sides
        error = row["spread"] * (1 / len(groups[best]) + 1 / len(rest[best])) ** 0.5
        reach = error * stats.t(9).ppf(1 - (1 - confidence) / 6)
        assert row["low"] == pytest.approx(row["difference"] - reach)
        assert row["high"] == pytest.approx(row["difference"] + reach)


@pytest.mark.parametrize("effect", [0.0, 1.0])
@pytest.mark.parametrize(("counts", "confidence"), [((8, 8), 0.95), ((4, 10, 20, 6, 5), 0.9)])
def test_the_interval_holds_the_true_difference_as_often_as_it_says(effect, counts, confidence):
    """Whichever label came out best: 2000 neurons are 2000 repetitions."""
    names = np.repeat(np.arange(len(counts)), counts)
    true_means = effect * np.arange(len(counts)) / len(counts)
    random = np.random.default_rng(0)
    y = true_means[names][:, None] + random.normal(size=(len(names), 2000))
    table = cx.label_neurons(torch.from_numpy(y), names.tolist(), range(2000), confidence)
    best = table["label"].astype(int).to_numpy()
    true = np.array(
        [true_means[k] - true_means[names[names != k]].mean() for k in range(len(counts))]
    )[best]
    held = np.mean((table["low"] <= true) & (true <= table["high"]))
    assert held >= confidence - 3 * (confidence * (1 - confidence) / 2000) ** 0.5


@pytest.mark.parametrize(
    ("labels", "neurons", "says"),
    [
        ([*"aab"], [0, 1], "3 labels and 2 neurons"),
        ([*"aabb"], [0], "4 labels and 1 neurons"),
        ([*"aaaa"], [0, 1], "two names with two texts each"),
        ([*"aaab"], [0, 1], "two names with two texts each"),
    ],
)
def test_labels_that_allow_no_comparison_are_refused(labels, neurons, says):
    with pytest.raises(ValueError, match=says):
        cx.label_neurons(draw(4, 2), labels, neurons)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(circuit):
    values, labels = draw(8, 2), [*"aabbaabb"]
    calls = [
        (cx.neurons.untrained_tokens, (circuit.weights,)),
        (cx.find_neurons, (circuit, 0.0, 5, torch.ones(300, dtype=torch.bool))),
        (robust_z, (values[:, 0],)),
        (cx.label_neurons, (values, labels, [0, 1])),
        (cx.neurons.by_label, (values, labels, [0, 1])),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
