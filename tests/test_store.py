"""Stored layers: how fine the numbers are that a file keeps, and the blocks of a GGUF file."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from by_hand import draw_texts
from kinds import LLAMA, as_gguf
from store_layers import save_layer

import ctxlib as cx
from ctxlib import store

N, TOKEN = 20, 5


def test_a_number_is_off_by_half_a_step_of_its_own_row_at_most():
    """However large other rows are."""
    sizes = torch.tensor([0.01, 1.0, 100.0])[:, None]
    whole = torch.randn(3, 200, generator=torch.Generator().manual_seed(0)) * sizes + 7
    none = torch.tensor([], dtype=torch.int64)
    again = store.dequantized(store.quantized(whole) | {"usual": none, "of_usual": whole[none]})
    left = (whole - whole.mean(0)) / whole.std(0)
    step = left.abs().amax(1, keepdim=True) / store.LEVELS
    off = (again - whole).abs() / whole.std(0)
    assert (off <= 0.501 * step).all() and (off > 0.4 * step).any(1).all()


def test_usual_tokens_are_kept_finer_than_others(here, tmp_path):
    """Those of the texts, and the query token."""
    text = draw_texts(1, 32, 40, seed=2)
    kept = cx.fix_query(save_layer(here, tmp_path / "layer.safetensors", text))
    heads = range(here.n_heads)
    whole, again = (fixed.decomposition.values(heads).flatten(1) for fixed in (here, kept))
    off = (again - whole).abs().amax(1) / whole.abs().max()
    usual = here.prepare(text).unique()
    others = torch.ones(len(off), dtype=torch.bool)
    others[usual] = False
    assert off[usual].max() < 2**-11 < off[others].median() < off[others].max() < 0.02


@pytest.mark.parametrize("kind", ["GPT-2", "Llama"])
def test_a_circuit_of_a_layer_or_of_a_stored_one_is_the_same_again(of_kind, kind, tmp_path):
    """Where positions move values, and where heads share them."""
    texts = draw_texts(9, 32, 300, seed=4)
    own = cx.fix_query(of_kind(kind).model, texts, N, TOKEN)
    fixed = cx.fix_query(save_layer(own, tmp_path / "layer.safetensors"))
    assert (fixed.readout.eps, fixed.readout.act_fn) == (own.readout.eps, own.readout.act_fn)
    for of, name in ((own, "circuit.safetensors"), (fixed, "circuit.safetensors.zst")):
        circuit, x = cx.ContextualCircuit.calibrate(of, texts[0], [2, 0]), of.prepare(texts)
        again = cx.ContextualCircuit.load(circuit.save(tmp_path / name))
        assert (again.heads, again.scale) == (circuit.heads, circuit.scale)
        torch.testing.assert_close(again.summary(x), circuit.summary(x))
        ours, theirs = (c.self_normalized().summary(x) for c in (again, circuit))
        torch.testing.assert_close(ours, theirs)
        assert cx.find_neurons(again, 0).index.equals(cx.find_neurons(circuit, 0).index)
        centred = circuit.centered()
        once_more = cx.ContextualCircuit.load(centred.save(tmp_path / name))
        torch.testing.assert_close(once_more.summary(x), centred.summary(x))
    with pytest.raises(ValueError, match="no exact rows"):
        cx.evaluate(again, texts)


def test_heads_share_values_where_all_of_them_are_the_same(tiny_weights):
    W_V, first = tiny_weights.W_V.clone(), tiny_weights.W_V[0]
    W_V[1], W_V[2, 1:] = first, first[1:]
    _, value_of = store.shared_values(cx.fix_query(replace(tiny_weights, W_V=W_V), n=N))
    assert value_of.tolist().count(value_of[0]) == 2 and value_of[0] == value_of[1]


def test_a_kill_while_a_layer_is_written_leaves_the_old_one(here, tmp_path, monkeypatch):
    file = save_layer(here, tmp_path / "layer.safetensors")
    before = file.read_bytes()

    def torn(path, data):
        path.open("wb").write(data[:100])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pathlib.Path.write_bytes", torn)
        save_layer(here, file, model="another")
    assert file.read_bytes() == before


def test_what_a_file_does_not_hold_is_refused(here, circuit, tiny, drawn, tmp_path):
    with pytest.raises(ValueError, match="without a circuit"):
        cx.ContextualCircuit.load(save_layer(here, tmp_path / "a.safetensors"))
    with pytest.raises(ValueError, match="is a folder: name a file"):
        circuit.save(tmp_path)
    with pytest.raises(ValueError, match="what learned positions add, which no file keeps"):
        save_layer(cx.fit_additive(tiny, drawn, N), tmp_path / "b.safetensors")


# ---------------------------------------------------------------- from a GGUF file


def test_a_gguf_files_own_blocks_are_the_models_weights(llama, make_folder, tmp_path):
    _, file = llama()
    fixed = cx.fix_query(cx.load(file, layers=1), draw_texts(9, 32, 300, seed=4), N, TOKEN)
    keep = partial(save_layer, fixed, tmp_path / "layer.safetensors")
    again = cx.fix_query(keep(gguf=file)).readout
    torch.testing.assert_close(again.W_in, fixed.readout.W_in)
    torch.testing.assert_close(again.W_O, fixed.readout.W_O)
    wider = make_folder(LLAMA(hidden_size=64, head_dim=8), seed=5)
    ungated = tmp_path / "ungated.gguf"
    ungated.write_bytes(file.read_bytes().replace(b"ffn_gate", b"ffn_none"))
    for other in (llama(4)[1], as_gguf(wider, wider / "llama.gguf"), ungated):
        with pytest.raises(ValueError, match=r"is not this model's: give the file that it came"):
            keep(gguf=other)
