"""When a head is active, and on which prompts: against attribution, prompt by prompt."""

import numpy as np
import pytest
import torch

import ctxbook as cb
import ctxlib as cx


@pytest.fixture(scope="module")
def read(mini):
    with torch.no_grad():
        return cb.cases.Read.of(mini, 66, 32)


@pytest.fixture(scope="module")
def found(read):
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(cb.cases, "LEAST", (2, 1))
        said, drawn, count = cb.cases.predicting(read, 0.1)
        assert len(said) == len(drawn) < count and not {*said} & {*drawn}
        return cb.cases.cases_of(read, said | dict.fromkeys(drawn, ""))


def domains(read, prompts):
    of = dict(zip(read.prompts(read.alike), read.texts, strict=True))
    return [of[p].domain for p in prompts]


@torch.no_grad()
def test_a_head_is_active_where_it_adds_half_of_the_most(read, found, mini):
    """Of what it adds on the neuron's strongest prompts of half A, beyond its mean where texts are
    cut off anywhere.
    """
    assert found
    for case in (found[0], found[-1]):
        texts = [*case.shown, *case.held]
        ends = read.end[:, *case.neuron]
        peaks = [read.ids[i, : ends[i] + 1] for i in texts]
        ordinary = [x[: end + 1] for x, end in zip(read.ids, read.anywhere, strict=True)]
        term, usual = (
            cx.lookups.attribution(mini, *case.neuron, prompts).heads[:, *case.head]
            for prompts in (peaks, ordinary)
        )
        beyond = (term - usual.mean()).numpy()
        assert np.allclose(case.term[texts], beyond, atol=1e-3)
        most = beyond[: len(case.shown)].max()
        assert (case.on[texts] == (case.term[texts] >= most / 2)).mean() > 0.95
        strings = read.prompts(ends)
        active = {strings[i] for i in case.held if case.on[i]}
        assert {*case.prompts.held_active} == active
        assert {read.texts[i].half for i in case.shown} == {"A"}
        assert {read.texts[i].half for i in case.held} == {"B"}


@torch.no_grad()
def test_the_chance_of_a_token_is_the_models_own_at_the_largest_peaks(read, mini):
    at = torch.tensor([[1, 7, 11], [3, 300, 400]])
    A = read.halves[0]
    log_P = mini(read.ids).log_softmax(-1)
    for (layer, neuron, token), P in zip(at.tolist(), read.chance(at).tolist(), strict=True):
        best = sorted(A, key=lambda i: -float(read.peak[i, layer, neuron]))[:20]
        expected = [log_P[i, read.end[i, layer, neuron], token].exp() for i in best]
        assert pytest.approx(float(sum(expected)) / 20, rel=1e-2) == P


def test_a_planted_subject_is_active_on_its_domain_and_on_no_other(read):
    prompts = cb.cases.planted_subject(read, "law")
    assert {*domains(read, prompts.shown_active + prompts.held_active)} == {"law"}
    assert "law" not in domains(read, prompts.shown_inactive + prompts.held_inactive)
    assert max(map(len, (prompts.shown_inactive, prompts.held_inactive))) == 8


@torch.no_grad()
def test_every_head_is_asked_on_prompts_of_one_length(read, mini):
    tests = list(cb.cases.every_head(read, read.same_length, read.alike, each=1))
    assert len({(t.layer, t.head) for t in tests}) > 0.8 * mini.cfg.n_layers * mini.cfg.n_heads
    strings = read.prompts(read.alike)
    for t in tests[:3]:
        shown = t.prompts.shown_active + t.prompts.shown_inactive
        assert {*shown} == {strings[i] for i in read.halves[0]}
        assert len(t.prompts.shown_active) / len(shown) == pytest.approx(0.2, abs=0.04)
