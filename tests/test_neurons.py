"""Neurons: which ones single tokens can move, what they are about, and how sure that is."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from by_hand import draw, seeds
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import ctxlib as cx
from ctxlib.neurons import LARGEST, NoNeuron, robust_z
from ctxlib.texts import untrained_tokens


@pytest.fixture
def largest(monkeypatch):
    """Says how many tokens `top` averages over."""
    return lambda count: monkeypatch.setattr(cx.neurons, "LARGEST", count)


def planted(contribution, untrained=None, tokenizer=None):
    """A circuit as far as `find_neurons` looks at one, its contributions chosen by hand: without
    untrained tokens, and with those that count named by their ids.
    """
    if untrained is None:
        untrained = torch.zeros(len(contribution), dtype=torch.bool)
    approx = SimpleNamespace(untrained=untrained)
    sizes = dict(zip(("d_vocab", "n_neurons"), contribution.shape, strict=True))
    fixed = SimpleNamespace(decomposition=approx, tokenizer=tokenizer, **sizes)
    return SimpleNamespace(contribution_to=lambda neurons: contribution[:, neurons].T, fixed=fixed)


# ---------------------------------------------------------------- which neurons


def table_by_hand(contribution, ids, largest):
    """`top`, its robust score, the mean, and the extreme tokens of every neuron."""
    rows = []
    for column in contribution.T.tolist():
        of = {t: column[t] for t in ids}
        order = sorted(ids, key=of.get)
        best, worst = order[::-1][:largest], order[:largest]
        mean = sum(of.values()) / len(of)
        rows.append([sum(of[t] for t in best) / largest - mean, mean, best, worst])
    table = pd.DataFrame(rows, columns=["top", "mean", "top tokens", "bottom tokens"])
    far = table["top"] - table["top"].median()
    table.insert(1, "z", far / (1.4826 * far.abs().median()))
    return table.rename_axis("neuron").sort_values("top", ascending=False)


@given(seeds, st.sets(st.integers(0, 29), min_size=6), st.integers(1, 5), st.floats(-1, 2.5))
def test_the_table_is_the_loops(seed, counted, largest, threshold):
    """In any chunks; of the tokens that count and the neurons above the threshold."""
    contribution, mask = draw(30, 9, seed=seed), torch.tensor([t in counted for t in range(30)])
    hand = table_by_hand(contribution, sorted(counted), largest)
    above = hand[hand["top"] > threshold]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cx.neurons, "CHUNK", 1 + seed % 10)
        patch.setattr(cx.neurons, "LARGEST", largest)
        if above.empty:
            with pytest.raises(NoNeuron, match=f"no neuron has a top above {threshold:g}"):
                cx.find_neurons(planted(contribution, ~mask), threshold)
            return
        found = cx.find_neurons(planted(contribution, ~mask), threshold)
    pd.testing.assert_frame_equal(found, above, rtol=1e-6)
    assert found.attrs["threshold"] == threshold


def test_neurons_that_are_alike_keep_their_order_and_a_threshold_has_to_be_passed(largest):
    column = draw(30, 1)
    largest(3)
    found = cx.find_neurons(planted(column.expand(-1, 4)), threshold=0.0)
    assert found.index.tolist() == [0, 1, 2, 3]
    contribution = torch.zeros(8, 3, dtype=torch.float64)
    contribution[0] = torch.tensor([8.0, 16.0, 4.0])  # tops 7, 14, 3.5, exactly
    largest(1)
    found = cx.find_neurons(planted(contribution), threshold=7.0)
    assert found["top"].to_dict() == {1: 14.0}
    with pytest.raises(NoNeuron, match=r"z above 2: .* is 14\.00, the median one 7\.00; give"):
        cx.find_neurons(planted(contribution))
    with pytest.raises(ValueError, match="at_least=-1: give 0 or more"):
        cx.find_neurons(planted(contribution), at_least=-1)


def some_stand_out(seed=0):
    """Thirty neurons, of which 4 and 11 have tokens far beyond the others'."""
    contribution = draw(200, 30, seed=seed)
    contribution[:LARGEST, 4] += 6
    contribution[5 : LARGEST + 5, 11] += 9
    return contribution


def test_a_table_that_is_filled_up_has_the_threshold_of_those_that_stand_out():
    circuit = planted(some_stand_out())
    out = cx.find_neurons(circuit)
    full = cx.find_neurons(circuit, at_least=len(out) + 7)
    assert len(full) == len(out) + 7 and full.attrs == out.attrs
    assert (full["top"] > full.attrs["threshold"]).sum() == len(out)
    alike = torch.eye(LARGEST * 2, dtype=torch.float64)[:, :8]  # no neuron stands out
    none = cx.find_neurons(planted(alike), at_least=3)
    assert len(none) == 3 and not (none["top"] > none.attrs["threshold"]).any()


@given(seeds, st.floats(0.01, 100), st.floats(-50, 50))
def test_without_a_threshold_those_two_robust_deviations_up_pass_in_any_unit(seed, unit, level):
    """And the threshold that was found finds the same, rounded to single precision too."""
    contribution = unit * some_stand_out(seed) + level
    hand = table_by_hand(contribution, list(range(200)), LARGEST)
    found = cx.find_neurons(planted(contribution))
    assert found.index.tolist() == hand.index[hand["z"] > 2].tolist()
    assert found.index[:2].tolist() == [11, 4]
    single = planted(contribution.float())
    found = cx.find_neurons(single)
    again = cx.find_neurons(single, threshold=found.attrs["threshold"])
    pd.testing.assert_frame_equal(again, found)


def test_one_neuron_that_moves_among_dead_ones_can_still_be_found(largest):
    """Half of the neurons alike: the median deviation is zero, the rule must not break."""
    largest(3)
    contribution = torch.zeros(30, 5, dtype=torch.float64)
    contribution[:, 2] = draw(30)
    assert cx.find_neurons(planted(contribution)).index.tolist() == [2]
    z = robust_z(torch.tensor([5.0, 5.0, 5.0, 5.1, 4.0]))
    assert (z[:3] == 0).all() and z[3] > 0 > z[4]


# ---------------------------------------------------------------- tokens never trained


@pytest.fixture(scope="module")
def never(precise):
    """The tokens of the bytes that UTF-8 never has; a vocabulary writes them as these letters."""
    bytes_of_none = map(chr, (0xC0, 0xC1, *range(0xF5, 0x100)))
    return precise.tokenizer.convert_tokens_to_ids([*bytes_of_none])


@given(seeds, st.floats(0.01, 5.0))
def test_which_tokens_count_as_untrained_is_the_loops(precise, never, seed, spread):
    """The impossible bytes lie together, or not; others at any distance, some in their midst."""
    W_E, near = draw(300, 24, seed=seed), [t for t in (7, 70, 290) if t not in never]
    W_E[:, 0] = 0  # nothing else lies there by chance
    W_E[never] = spread * draw(13, 24, seed=seed + 1)
    W_E[near] = 0
    W_E[[*never, *near], 0] = 1
    W_E[::5, 0] += 3 * draw(60, seed=seed + 2).abs()
    unit = [v / v.norm() for v in W_E]

    def cosine(a, b):
        return float(a @ b / (a.norm() * b.norm()))

    needed = max(0.5, min(cosine(unit[t], sum(unit[o] for o in never if o != t)) for t in never))
    mean = sum(unit[t] for t in never)
    by_hand = [t in never or cosine(unit[t], mean) >= needed for t in range(300)]
    assert untrained_tokens(W_E, precise.tokenizer).tolist() == by_hand
    assert sum(by_hand) > 13 or spread > 0.1, "those that lie with the impossible count as well"


LETTERS = {"the": 0, "÷": 5, "ø": 6, "þ": 7, "ÿ": 8}  # they stand for bytes in GPT-2's way alone
BYTES = {f"<0x{byte:02X}>": byte for byte in range(256)}


@pytest.mark.parametrize(("vocabulary", "count"), [(LETTERS, 0), (BYTES, 13), ({"the": 0}, 0)])
def test_letters_are_no_bytes_and_rows_without_a_token_never_count(precise, vocabulary, count):
    words = SimpleNamespace(get_vocab=lambda: vocabulary)
    flags = untrained_tokens(precise.W_E, words)
    there = torch.zeros(len(flags), dtype=torch.bool)
    there[[*vocabulary.values()]] = True
    assert flags[~there].all() and count <= flags[there].sum() <= 2 * count
    assert not untrained_tokens(precise.W_E, None).any()


def test_untrained_tokens_of_mini_are_few_and_in_no_passage(mini_weights):
    flags = cx.fix_query(mini_weights).decomposition.untrained
    assert 13 <= flags.sum() < 0.02 * len(flags)
    read = torch.cat([p.tokens for p in cx.texts.passages(mini_weights)]).unique()
    assert not flags[read].any()


# ---------------------------------------------------------------- what they are about


@given(seeds, st.permutations([*"aaabbbbccccc"]))
def test_labels_are_compared_as_by_hand(seed, labels):
    values = draw(12, 4, seed=seed).round(decimals=1)  # some are equal, and count half in the auc
    table = cx.label_neurons(values, labels, [7, 3, 9, 1])
    assert table.index.tolist() == [7, 3, 9, 1]
    y, labels = values.numpy(), np.array(labels)
    for column, row in enumerate(table.itertuples()):
        groups = {k: y[labels == k, column] for k in "abc"}
        rest = {k: y[labels != k, column] for k in "abc"}
        best = max("abc", key=lambda k: groups[k].mean() - rest[k].mean())
        assert row.label == best
        assert row.difference == pytest.approx(groups[best].mean() - rest[best].mean())
        assert row.auc == pytest.approx(roc_auc_score(labels == best, y[:, column]))
        assert row.auc == cx.neurons.auc(y, labels == best)[column]
    assert np.isnan(cx.neurons.auc(y, np.stack([labels == "d", labels != "d"]))).all()
    scores = cx.neurons.label_scores(values, labels, [7, 3, 9, 1])
    for column, neuron in enumerate([7, 3, 9, 1]):
        for label in "abc":
            area = roc_auc_score(labels == label, y[:, column])
            assert scores.loc[(label, neuron), "auc"] == pytest.approx(area)
    alone = cx.neurons.label_scores(values, ["a"] * len(y), [7, 3, 9, 1])
    assert alone.isna().all(axis=None), "there is nothing to tell it from"


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_no_numbers_have_no_label(broken):
    values = draw(4, 2)
    values[3, 1] = broken
    with pytest.raises(ValueError, match="not finite"):
        cx.label_neurons(values, [*"aabb"], [0, 1])


@pytest.mark.parametrize(("labels", "count"), [("aab", 2), ("aabb", 1), ("aaaa", 2), ("aaab", 2)])
def test_labels_are_one_for_each_text_and_of_two_names(labels, count):
    with pytest.raises(ValueError, match=f"{len(labels)} labels and {count} neur|two names with"):
        cx.label_neurons(draw(4, 2), [*labels], range(count))
