"""An estimate is its statistic with the interval of its texts, and medians over neurons are those
of the texts drawn; halves are halves.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from by_hand import draw_texts
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

import ctxbook as cb
import ctxlib as cx

COLUMNS = ("r", "fvu", "from offset", "from shape")


def texts_of(documents, domains=None):
    domains = documents if domains is None else domains
    return [
        SimpleNamespace(document=d, domain=k, name=str(i))
        for i, (d, k) in enumerate(zip(documents, domains, strict=True))
    ]


# ---------------------------------------------------------------- intervals


def test_the_interval_of_a_mean_is_scipys_and_that_of_documents_alike_is_theirs():
    values = np.random.default_rng(0).normal(size=30)
    for each in (1, 2):  # windows of a document
        documents = np.arange(30) // each
        texts = texts_of([f"{d:02}" for d in documents])
        found = cb.with_interval(lambda drawn: values[drawn].mean(), texts, 199)
        means = np.array([values[documents == d].mean() for d in set(documents)])
        with_repeats = {"n_resamples": 199, "method": "percentile", "random_state": 0}
        interval = bootstrap((means,), np.mean, **with_repeats).confidence_interval
        assert found[:3] == pytest.approx((values.mean(), *interval))
        assert found.ends == found[1:3] and found.for_claim == (found.value, found.ends)


@pytest.mark.parametrize(("high", "unit"), [("0415", "domain"), ("0257", "document")])
def test_the_wider_interval_is_given_and_one_domain_alone_is_not_drawn_again(high, unit):
    """Domains differ in what is measured, or their documents do."""
    texts = texts_of([f"{i % 8}" for i in range(24)], ["abcd"[i % 4] for i in range(24)])

    def statistic(drawn):
        return float(np.mean([texts[i].document in high for i in drawn]))

    ends = {by: cb.by_document(statistic, texts, 99, by) for by in cb.WIDER}
    wide, (low, top) = ends.pop(unit), *ends.values()
    found = cb.with_interval(statistic, texts, 99, cb.WIDER)
    assert found == (statistic(range(24)), *wide, unit)
    assert wide[1] - wide[0] > top - low
    assert cb.with_interval(statistic, texts[::4], 99, cb.WIDER).unit == "document"
    assert cb.with_interval(statistic, texts, 99, ["domain"]).unit == "domain"
    none = cb.with_interval(statistic, texts, units=())
    assert none.value == statistic(range(24)) and np.isnan(none.ends).all()


def test_an_estimate_is_written_with_its_interval_and_no_minus_before_a_zero():
    assert f"{cb.Estimate(0.984, 0.971, 0.992):.0%}" == "98% [97%, 99%]"
    assert f"{cb.Estimate(-0.5, -1.26, -0.001):+.2f}" == "−0.50 [−1.26, +0.00]"
    assert f"{cb.Estimate(-0.004):.2f}" == "0.00"


# ---------------------------------------------------------------- medians over neurons


def by_loops(column, approx, truth, drawn):
    """In float64, neuron by neuron, with NaN where it has none."""
    found = []
    for a, t in zip(approx[drawn].T, truth[drawn].T, strict=True):
        if np.ptp(t) == 0:
            continue
        constant = np.ptp(a) == 0
        r = 0.0 if constant else np.corrcoef(a, t)[0, 1]
        errors = np.array([np.mean((a - t) ** 2), (a.mean() - t.mean()) ** 2]) / t.var()
        found.append((math.nan if constant else r, *errors, 1 - r**2)[COLUMNS.index(column)])
    return np.nanmedian(found)


@pytest.mark.parametrize("column", COLUMNS)
@given(seed=st.integers(0, 999), offset=st.sampled_from([0.0, 3.0, -1e4]))
def test_a_median_over_neurons_is_that_of_loops_on_texts_drawn_with_repeats(column, seed, offset):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(9, 5)) * 10.0 ** rng.integers(-3, 3, size=5)
    approx = 0.7 * truth + 0.4 * truth.std(0) * rng.normal(size=(9, 5)) + offset
    truth[:, 0], approx[:, 1], truth[:4, 2] = 7.3, 0.1, 0.2  # constant; the last in some texts only
    statistic = cb.median_over_neurons(column, *map(torch.from_numpy, (approx, truth)))
    for drawn in (np.arange(9), rng.integers(9, size=9), np.array([0, 1, 2, 3, 3, 8, 8])):
        assert statistic(drawn) == pytest.approx(by_loops(column, approx, truth, drawn), rel=1e-6)
    assert math.isnan(statistic(np.array([1, 1, 1]))), "nothing varies"


def test_a_median_over_neurons_is_that_of_evaluate(circuit, drawn):
    texts = torch.cat([drawn, draw_texts(4, 32, 300, seed=1)])
    again = np.array([0, 0, 2, 3, 5, 5, 5, 8])
    table = cx.evaluate(circuit, texts[again])
    x = circuit.fixed.prepare(texts)
    guess, truth = circuit.summary(x), circuit.fixed.exact_summary(x, circuit.heads)
    for column in COLUMNS:
        found = cb.median_over_neurons(column, guess, truth)(again)
        assert found == pytest.approx(table[column].median(), rel=1e-6)
    with pytest.raises(ValueError, match=r"\(9, 40\) and \(9, 3\): give one shape twice"):
        cb.median_over_neurons("r", guess, truth[:, :3])
    with pytest.raises(KeyError, match="from spread"):
        cb.median_over_neurons("from spread", guess, truth)(again)


# ---------------------------------------------------------------- halves


@given(st.lists(st.sampled_from("AB"), min_size=2, max_size=9))
def test_every_text_is_in_one_half_and_by_turns_where_there_are_none(names):
    texts = [SimpleNamespace(half=name, name=k) for k, name in enumerate(names)]
    A, B = cb.halves(texts)
    in_A = texts[::2] if len({*names}) == 1 else [t for t in texts if t.half == "A"]
    assert in_A == A and [t for t in texts if t not in in_A] == B
    masks = cb.half_masks(texts)
    assert [[texts[i] for i in np.flatnonzero(mask)] for mask in masks] == [A, B]
