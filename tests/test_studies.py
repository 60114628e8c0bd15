"""What most chapters begin with, against the same steps taken one by one."""

import pytest
import torch

import ctxlib as cx


@pytest.fixture(scope="module")
def study(mini):
    return cx.study(mini, texts=60)


def test_a_study_is_its_steps(study, mini_weights):
    texts = cx.texts.collection(mini_weights, 60)
    assert [t.name for t in study.texts] == [t.name for t in texts]
    assert study.n == mini_weights.n_ctx // 2
    assert study.heads == list(cx.stable_heads(mini_weights, texts))
    plain = cx.texts.passages(mini_weights, domains=sorted(cx.studies.PROSE))
    assert [p.name for p in study.prose] == [p.name for p in plain]
    assert (
        study.calibrating.name == cx.denominators.middle_text(mini_weights, plain, study.heads).name
    )
    circuit = cx.ContextualCircuit.calibrate(mini_weights, study.calibrating, study.heads)
    assert torch.equal(study.circuit.denominators, circuit.denominators)
    assert study.names == sorted(set(study.domains))
    assert len(study.domains) == len(study.passages)


def test_heads_that_cannot_be_studied_are_refused(mini):
    with pytest.raises(ValueError, match="one is there twice"):
        cx.study(mini, texts=2, heads=[1, 1])
    with pytest.raises(ValueError, match="no head has a kernel"):
        cx.study(mini, texts=2, steady=0.0)


def test_without_plain_prose_every_passage_may_calibrate(mini):
    study = cx.study(mini, texts=2, heads=[3], prose=["nowhere"])
    assert study.prose == study.passages
