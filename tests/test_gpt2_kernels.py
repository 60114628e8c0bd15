"""The results file that shows GPT-2 small's own kernels where its weights are not at hand."""

import numpy as np
import pytest
import torch
from command import ROOT

import ctxlib as cx

GPT2_SMALL = ROOT.parent / "shared" / "gpt2-small" / "layer0-attention.safetensors"
import gpt2_kernels as tool

# this book's own: family: head: effective tokens, how far back half of the mass reaches; rounded
REFERENCE = {
    "slowly decaying": {
        0: (113, 36), 1: (121, 40), 2: (133, 42), 6: (102, 32), 8: (90, 28), 9: (102, 33),
        10: (97, 31),
    },
    "local": {3: (5.6, 1), 4: (8.9, 3), 7: (7.1, 2)},
    "uniform": {5: (31, 311), 11: (322, 269)},
}  # fmt: skip


@pytest.fixture(scope="module")
def stored():
    with np.load(tool.OUT, allow_pickle=False) as file:
        return dict(file)


def test_it_holds_rows_and_their_provenance_only(stored):
    assert set(stored) == {"kernels", "n", "C", "source", "sha256"}
    assert "openai-community/gpt2" in str(stored["source"])
    assert tool.OUT.stat().st_size < 20_000
    kernels = stored["kernels"].astype(np.float64)
    assert kernels.shape == (12, 501) and (kernels >= 0).all()
    assert (abs(kernels.sum(-1) - 1) < 1e-3).all()


@pytest.mark.parametrize("family", REFERENCE)
def test_the_heads_come_out_as_before(stored, family):
    table = cx.split.family_table(torch.tensor(stored["kernels"].astype(np.float32)))
    for head, (spread, half) in REFERENCE[family].items():
        rounding = 0.06 if spread < 10 else 0.6
        assert table.loc[head, "effective tokens"] == pytest.approx(spread, abs=rounding)
        assert table.loc[head, "half of the mass within"] == half
        assert table.loc[head, "family"] == family


@pytest.mark.skipif(not GPT2_SMALL.exists(), reason="GPT-2 small's weights are not at hand")
def test_the_tool_makes_the_same_file_again(stored, tmp_path):
    assert tool.main([str(GPT2_SMALL), "--out", str(tmp_path / "again.npz")]) == 0
    with np.load(tmp_path / "again.npz", allow_pickle=False) as again:
        assert str(again["sha256"]) == str(stored["sha256"])
        np.testing.assert_allclose(again["kernels"], stored["kernels"], atol=1e-4)
