"""Stored layers: how fine the numbers are that a file keeps, and the blocks of a GGUF file."""

from functools import partial

import pytest
import torch
from by_hand import draw_texts
from kinds import LLAMA, as_gguf

import ctxlib as cx
from ctxlib import stored

N, TOKEN = 20, 5


def test_a_number_is_off_by_half_a_step_of_its_own_row_at_most():
    """However large other rows are."""
    sizes = torch.tensor([0.01, 1.0, 100.0])[:, None]
    whole = torch.randn(3, 200, generator=torch.Generator().manual_seed(0)) * sizes + 7
    none = torch.tensor([], dtype=torch.int64)
    again = stored.values(stored.in_levels(whole) | {"usual": none, "of_usual": whole[none]})
    left = (whole - whole.mean(0)) / whole.std(0)
    step = left.abs().amax(1, keepdim=True) / stored.LEVELS
    off = (again - whole).abs() / whole.std(0)
    assert (off <= 0.501 * step).all() and (off > 0.4 * step).any(1).all()


def test_usual_tokens_are_kept_finer_than_others(here, tmp_path):
    """Those of the texts, and the token that asks."""
    text = draw_texts(1, 32, 40, seed=2)
    kept = cx.destination(stored.keep(here, tmp_path / "layer.safetensors", text))
    heads = range(here.n_heads)
    whole, again = (at.split.values(heads).flatten(1) for at in (here, kept))
    off = (again - whole).abs().amax(1) / whole.abs().max()
    usual = here.placed(text).unique()
    others = torch.ones(len(off), dtype=torch.bool)
    others[usual] = False
    assert off[usual].max() < 2**-11 < off[others].median() < off[others].max() < 0.02


# ---------------------------------------------------------------- from a GGUF file


def test_a_gguf_files_own_blocks_are_the_models_weights(llama, make_folder, tmp_path):
    _, file = llama()
    at = cx.destination(cx.load(file, layers=1), draw_texts(9, 32, 300, seed=4), N, TOKEN)
    keep = partial(stored.keep, at, tmp_path / "layer.safetensors")
    again = cx.destination(keep(gguf=file)).readout
    torch.testing.assert_close(again.W_in, at.readout.W_in)
    torch.testing.assert_close(again.W_O, at.readout.W_O)
    wider = make_folder(LLAMA(hidden_size=64, head_dim=8), seed=5)
    ungated = tmp_path / "ungated.gguf"
    ungated.write_bytes(file.read_bytes().replace(b"ffn_gate", b"ffn_none"))
    for other in (llama(4)[1], as_gguf(wider, wider / "llama.gguf"), ungated):
        with pytest.raises(ValueError, match=r"is not this model's: give the file that it came"):
            keep(gguf=other)
