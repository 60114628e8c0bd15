"""Planes of interaction: none is the decomposition itself, all of them are the exact rows."""

from dataclasses import replace

import pytest
import torch
from by_hand import draw_texts
from store_layers import save_layer
from whole_neuron import choose_planes

import ctxlib as cx
from ctxlib.planes import add_planes

N, TOKEN = 20, 5
KINDS = ["GPT-2", "Llama", "Qwen2", "Qwen3", "MPT", "GPT-Neo", "Gemma 2"]


@pytest.fixture
def texts():
    return draw_texts(40, 32, 300, seed=4)


@pytest.mark.parametrize("kind", KINDS)
def test_with_all_planes_rows_are_the_models_own_and_with_none_those_of_the_base(
    of_kind, kind, texts
):
    """Compared with the attention that transformers computes, in float64."""
    case = of_kind(kind)
    base = cx.fix_query(case.model, texts, N, TOKEN)
    whole = add_planes(base, texts, planes=N + 1).decomposition
    x = base.prepare(texts)
    none = whole.first([0] * base.n_heads)
    torch.testing.assert_close(none.rows(x), base.decomposition.rows(x))
    attention = case.plain(x, output_attentions=True).attentions[0][:, :, N].float()
    assert (whole.rows(x) - attention).abs().max() < 1e-5
    far = cx.total_variation(none.rows(x), attention).mean(0)
    near = cx.total_variation(whole.first([2] * base.n_heads).rows(x), attention).mean(0)
    assert ((near < far) | (far < 1e-5)).all()


def test_neurons_from_all_planes_are_the_models_own(of_kind, texts):
    case = of_kind("Llama")
    fixed = add_planes(cx.fix_query(case.model, texts, N, TOKEN), texts, planes=N + 1)
    x = fixed.prepare(texts)
    ours = fixed.mlp(x, fixed.approx_head_outputs(x))
    assert list(ours) == ["gate", "up", "product"]
    held, _ = case.run(x)
    read, mlp = held["norm", 0][1][:, N], case.blocks[0].mlp
    gate, up = mlp.gate_proj(read), mlp.up_proj(read)
    for name, theirs in (("gate", gate), ("up", up), ("product", mlp.act_fn(gate) * up)):
        torch.testing.assert_close(ours[name].double(), theirs, atol=1e-4, rtol=1e-4)


def test_a_plane_divides_by_no_weight_of_a_source(of_kind, texts):
    """However little a kernel gives to a source."""
    base = cx.fix_query(of_kind("Llama").model, texts, N, TOKEN)
    g = base.exact.qk_offset.clone()
    g[:, 3] += 300.0  # all of the kernel is on one source, and zero on others
    exact = replace(base.exact, qk_offset=g)
    fixed = replace(base, exact=exact, decomposition=replace(base.decomposition, exact=exact))
    assert (fixed.decomposition.kernels == 0).any()
    approx = add_planes(fixed, texts, planes=4).decomposition
    x = fixed.prepare(texts)
    assert approx.by_source.isfinite().all() and approx.by_token.isfinite().all()
    torch.testing.assert_close(approx.rows(x), exact.rows(x))


def test_the_number_of_planes_is_chosen_by_the_rows(of_kind, texts):
    fixed = add_planes(cx.fix_query(of_kind("Llama").model, texts, N, TOKEN), texts, planes=4)
    among, x = [0, 1, 4], fixed.prepare(texts)
    exact, heads = fixed.exact.rows(x), range(fixed.n_heads)
    far = [
        cx.total_variation(exact, fixed.decomposition.first([k] * fixed.n_heads).rows(x)).mean(0)
        for k in among
    ]
    best = [min(among, key=lambda k: far[among.index(k)][h]) for h in heads]
    assert choose_planes(fixed, texts, among) == best


@pytest.mark.parametrize("kind", ["GPT-2", "Llama"])
def test_a_stored_layer_has_its_planes(of_kind, kind, texts, tmp_path):
    base = cx.fix_query(of_kind(kind).model, texts, N, TOKEN)
    fixed = add_planes(base, texts, planes=2)
    stored = cx.fix_query(save_layer(fixed, tmp_path / "layer.safetensors.zst", texts))
    x = fixed.prepare(texts)
    ours, theirs = (query.decomposition.rows(x) for query in (stored, fixed))
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)  # content has 16 bits
    assert cx.total_variation(ours, base.decomposition.rows(x)).max() > 0.01
    circuit = cx.ContextualCircuit.calibrate(fixed, texts[0], [0, 2])
    again = cx.ContextualCircuit.load(circuit.save(tmp_path / "circuit.safetensors"))
    torch.testing.assert_close(again.fixed.decomposition.rows(x), theirs)
    own, plain = (c.self_normalized().summary(x) for c in (again, circuit))
    torch.testing.assert_close(own, plain)


def test_a_number_of_planes_that_cannot_be_is_one_clear_line(of_kind, texts, tmp_path):
    base = cx.fix_query(of_kind("Llama").model, texts, N, TOKEN)
    for planes in (-1, N + 2, 1.5):
        with pytest.raises(ValueError, match=f"planes: choose a whole number from 0 to {N + 1}"):
            add_planes(base, texts, planes)
    fixed = add_planes(base, texts, planes=2)
    for numbers in ([1], [3, 0, 0, 0], [-1, 0, 0, 0]):
        with pytest.raises(ValueError, match="give 4 numbers, each from 0 to 2"):
            fixed.decomposition.first(numbers)
    with pytest.raises(ValueError, match="no exact rows"):
        add_planes(cx.fix_query(save_layer(base, tmp_path / "a.safetensors")), texts)
