"""Denominators: how far they vary, and which heads are stable because of it. The circuit's tests
compare them with loops.
"""

import math
from dataclasses import replace
from itertools import pairwise, product
from statistics import fmean

import pandas as pd
import pytest
import torch
from by_hand import draw_texts

import ctxlib as cx
from ctxlib.denominators import NoStableHead


def between(numbers):
    """Thresholds with none, one, ... all of the numbers below them, and those numbers."""
    ordered = sorted(numbers)
    return [-math.inf, *ordered, *((a + b) / 2 for a, b in pairwise(ordered)), math.inf]


def test_heads_are_stable_by_both_thresholds_and_the_table_holds_both(precise, drawn, monkeypatch):
    """A head whose queries are zero attends uniformly."""
    alive = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)[:, None]
    still = replace(precise, W_Q=precise.W_Q * alive[..., None], b_Q=precise.b_Q * alive)
    fixed = cx.fix_query(still, n=20)
    denoms = cx.softmax_denominators(fixed, drawn)
    spread = cx.effective_tokens(cx.positional_kernels(still, 20)).tolist()
    cvs = (denoms.std(0) / denoms.mean(0)).tolist()
    assert (spread[0], cvs[0]) == (pytest.approx(21), pytest.approx(0, abs=1e-12))
    for broad, max_cv in product(between(spread), between(cvs)):
        monkeypatch.setattr(cx.denominators, "BROAD", broad)
        stable = [h for h in range(3) if spread[h] > broad and cvs[h] < max_cv]
        table = cx.denominators.head_table(fixed, drawn, max_cv)
        assert table["effective tokens"].tolist() == pytest.approx(spread)
        assert table["coefficient of variation"].tolist() == pytest.approx(cvs)
        assert table["family"].tolist() == cx.families(fixed)["family"].tolist()
        assert table.index[table["stable"]].tolist() == stable
        if stable:
            heads = cx.stable_heads(fixed, iter(drawn), max_cv)
            assert isinstance(heads, list) and heads == stable
            pd.testing.assert_frame_equal(heads.table, table)
        else:
            wide = [s for s, kernel in zip(cvs, spread, strict=True) if kernel > broad]
            closest = f"; .* {len(wide)} that .* varies by {min(wide):.0%}" if wide else ""
            message = f"^no head .* more than {broad:g} tokens .* less than \\S+%{closest}$"
            with pytest.raises(NoStableHead, match=message):
                cx.stable_heads(fixed, drawn, max_cv)


def test_a_heads_share_of_the_variance_is_that_of_what_it_adds_to_the_neurons(here, drawn):
    """From the mean over texts, each with its own scale."""
    x = here.prepare(drawn)
    apart = [float(here.exact_summary(x, [h]).var(0).sum()) for h in range(here.n_heads)]
    share = cx.denominators.head_variance_share(here, drawn)
    assert share.tolist() == pytest.approx([v / sum(apart) for v in apart])
    with pytest.raises(ValueError, match="at least two"):
        cx.denominators.head_variance_share(here, drawn[:1])


def test_the_most_typical_text_is_the_nearest_to_the_mean_in_logarithms(here):
    """On average over the heads, and for one alone."""
    for seed in range(20):
        texts = list(draw_texts(9, 32, 300, seed))
        logs = cx.softmax_denominators(here, texts).log().tolist()
        for heads in ([0], [1], [2, 0], [0, 1, 2]):
            means = [fmean(row[h] for row in logs) for h in heads]
            far = [
                fmean(abs(row[h] - mean) for h, mean in zip(heads, means, strict=True))
                for row in logs
            ]
            nearest = texts[far.index(min(far))]
            assert cx.denominators.most_typical_text(here, texts, heads) is nearest
    with pytest.raises(ValueError, match="only once: give a list"):
        cx.denominators.most_typical_text(here, iter(texts), [0])


def test_denominators_beyond_the_range_of_a_number_are_refused(tiny_weights, drawn):
    """Where scores are too large for an exponential, and all that one head likes too small."""
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q)
    with pytest.raises(ValueError, match=r"of head .* are beyond the range of torch\.float32"):
        cx.stable_heads(cx.fix_query(loud, n=20), drawn)
    faint = cx.fix_query(tiny_weights, n=20)
    faint.decomposition.log_content[1] -= 999
    with pytest.raises(ValueError, match="of head 1 are beyond"):
        cx.softmax_denominators(faint, drawn)


def test_a_head_whose_spread_is_unknown_is_not_stable(here, drawn, monkeypatch):
    denoms = cx.softmax_denominators(here, drawn)
    denoms[:, 1] = math.nan
    monkeypatch.setattr(cx.denominators, "softmax_denominators", lambda *_: denoms)
    monkeypatch.setattr(cx.denominators, "BROAD", 0)
    assert cx.stable_heads(here, drawn, max_cv=10.0) == [0, 2]
