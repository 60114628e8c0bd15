"""What most chapters begin with, against the same steps taken one by one."""

from dataclasses import replace

import numpy as np
import packing
import pytest
import torch
from sklearn.metrics import roc_auc_score
from store_layers import save_layer

import ctxbook as cb
import ctxlib as cx
from ctxlib.denominators import NoStableHead
from ctxlib.studies import PROSE


@pytest.fixture(scope="module")
def study(mini):
    return cx.study(mini, texts=60)


def test_a_study_is_its_steps(study, mini_weights):
    texts = cx.texts.collection(mini_weights, 60)
    assert [t.name for t in study.texts] == [t.name for t in texts]
    assert study.n == mini_weights.n_ctx // 2
    fixed = cx.fix_query(mini_weights)
    assert study.heads == list(cx.stable_heads(fixed, texts))
    plain = cx.texts.passages(mini_weights, domains=sorted(PROSE))
    assert [p.name for p in study.prose] == [p.name for p in plain]
    middle = cx.denominators.most_typical_text(fixed, plain, study.heads)
    assert study.calibration_text.name == middle.name
    circuit = cx.ContextualCircuit.calibrate(fixed, study.calibration_text, study.heads)
    assert torch.equal(study.circuit.denominators, circuit.denominators)
    assert study.head_variance_share.equals(cx.denominators.head_variance_share(fixed, texts[::4]))
    assert len(study.domains) == len(study.passages)


@pytest.mark.parametrize(("kinds", "all_of_them"), [(22, False), (4, True), (2, True), (1, False)])
def test_shares_are_of_most_domains_however_they_take_turns(mini, study, kinds, all_of_them):
    """Every fourth text would be of one domain where four take turns."""
    names = sorted({text.domain for text in study.texts})[:kinds]
    chosen = [text for text in study.texts if text.domain in names]
    given = replace(study, texts=chosen * (1 if len(chosen) > 8 else 4))
    over = given.texts if all_of_them else given.texts[::4]
    expected = cx.denominators.head_variance_share(study.fixed, over)
    assert given.head_variance_share.equals(expected)


def test_texts_of_ones_own_are_shown_and_calibrate(mini, study):
    """In place of the book's; and n may be chosen."""
    own = study.texts[::7]
    given = cx.study(mini, study.texts, heads=[3], n=99, labeled=own, prose=())
    assert given.passages == own and given.n == 99 and given.prose == own
    middle = cx.denominators.most_typical_text(given.fixed, own, [3])
    assert given.calibration_text is middle
    other = cx.study(mini, study.texts, heads=[3], calibration=study.texts[1])
    assert other.calibration_text is study.texts[1]
    x = other.fixed.prepare([study.texts[1]])[0]
    assert torch.equal(other.circuit.calibration, x)
    assert "; heads [3] of 8" in str(other) and "; stable heads" in str(study)
    with pytest.raises(TypeError, match="has its token and its n"):
        cx.study(study.fixed, n=99)


def test_all_heads_are_studied_where_none_is_stable_if_that_is_chosen(mini, study):
    """And only then: not for another error, nor where some are stable."""
    with pytest.raises(NoStableHead, match="no head has a kernel"):
        cx.study(mini, texts=2, max_cv=0.0)
    everyone = cx.study(mini, texts=2, max_cv=0.0, or_all=True)
    assert everyone.heads == [*range(8)] and not everyone.head_table["stable"].any()
    assert cx.study(study.fixed, study.texts, or_all=True).heads == study.heads
    with pytest.raises(ValueError, match="at least two"):
        cx.study(mini, texts=1, or_all=True)


def test_a_study_is_of_a_model_its_weights_a_destination_or_a_file(mini, mini_weights, tmp_path):
    fixed = cx.fix_query(mini_weights, n=99, token=" of")
    assert cx.study(fixed, texts=2, heads=[3]).fixed is fixed
    with pytest.raises(TypeError, match="a fixed query has its token"):
        cx.study(fixed, token=" of")
    kept = save_layer(fixed, tmp_path / "kept.safetensors")
    assert cx.study(str(kept), texts=2, heads=[3]).n == cx.study(kept, texts=2, heads=[3]).n == 99
    for of in (mini, mini_weights):
        there = cx.study(of, texts=2, heads=[3], token=" of").fixed
        assert (there.n, there.token) == (256, fixed.token)


def test_the_destination_is_in_the_shortest_of_texts_and_passages(mini, study, monkeypatch):
    text, passage = (
        replace(of[0], tokens=of[0].tokens[:200], dialect="")
        for of in (study.texts, study.passages)
    )
    of_text = cx.study(mini, [text, *study.texts[1:]], heads=[3])
    assert "60 held-out texts" in str(study) and "60 texts" in str(of_text), "one is of no dialect"
    monkeypatch.setattr("ctxlib.studies.passages", lambda _: [passage, *study.passages[1:]])
    for found in (of_text, cx.study(mini, study.texts, heads=[3])):
        assert (found.n, found.length) == (199, 200)


def test_without_plain_prose_every_passage_may_calibrate(mini):
    study = cx.study(mini, texts=2, heads=[3], prose=["nowhere"])
    assert study.prose == study.passages and study.head_variance_share.notna().all(), "of two texts"


def test_labels_of_one_half_are_judged_on_the_other(mini):
    """What a site shows of a real model's neurons; and of mixtures of them, that sort texts too."""
    study = cx.study(mini, texts=100, heads=[3, 4])
    domains, half = (
        np.array([getattr(t, name) for t in study.texts]) for name in ("domain", "half")
    )
    A, tokens = half == "A", study.fixed.prepare(study.texts)
    summaries = study.circuit.summary(tokens).numpy()
    mixed = cb.nulls.mixtures(torch.tensor(summaries)).numpy()
    of_mixed = cx.label_neurons(torch.tensor(mixed[A]), domains[A], range(mixed.shape[1]))["label"]
    often = np.stack([np.bincount(x, minlength=study.fixed.d_vocab) for x in tokens[A]])
    often = often / study.fixed.length
    table = packing.labeled(study)
    assert sorted(table.index) == [*range(study.fixed.n_neurons)]
    assert table["top"].is_monotonic_decreasing
    for neuron in table.index[:20]:
        inside = domains == table.loc[neuron, "label"]
        auc = {h: roc_auc_score(inside[half == h], summaries[half == h, neuron]) for h in "AB"}
        assert table.loc[neuron, "auc"] == pytest.approx(auc["B"], abs=1e-6)
        alike = np.flatnonzero(of_mixed == table.loc[neuron, "label"])
        null = [roc_auc_score(inside[~A], mixed[~A, k]) for k in alike]
        assert table.loc[neuron, "null"] == pytest.approx(np.quantile(null, 0.95), abs=1e-6)
        gap = often[inside[A]].mean(0) - often[~inside[A]].mean(0)
        column = study.circuit.contribution_to([neuron])[0].numpy()
        drive = (column - often.mean(0) @ column) * gap
        words = cx.texts.decode_tokens(study.fixed, np.argsort(-drive)[:5].tolist())
        assert table.loc[neuron, "by_drive"] == " ".join(map(cb.figures.visible, words))
