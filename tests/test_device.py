"""Nothing meets a tensor of another device. What is made on the way lies where the weights do, as
any machine shows; and where there is a GPU, all results are those of the CPU:

    CUDA_VISIBLE_DEVICES=0 pytest tests/test_device.py
"""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from by_hand import draw_texts
from test_reading import READERS, TAKERS
from torch.nn.functional import pad

import ctxbook as cb
import ctxlib as cx
from ctxviews import packed_layer, record

N, TOKEN, HEADS = 20, 5, [0, 2]
on_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU, or hidden: CUDA_VISIBLE_DEVICES=0 shows one"
)


@pytest.fixture(scope="module")
def gpu():
    return torch.device("cuda", 0)


@pytest.fixture(scope="module")
def moved(tiny_folder):
    """The tiny model, where a machine with a GPU puts it."""
    return cx.load(tiny_folder)


@pytest.fixture(scope="module")
def texts():
    return list(pad(1 + draw_texts(12, 31, 299, seed=3), (1, 0)))  # BOS in front


def leaves(x, on=("cpu",)):
    """What is in tensors, tables and all that holds them, one after the other. No tensor may lie
    elsewhere.
    """
    if isinstance(x, torch.Tensor):
        assert x.device.type in on
        return [*x.shape, *x.double().ravel().tolist()]
    if isinstance(x, pd.DataFrame):
        x = [x.columns.tolist(), x.index.tolist(), *(x[name].tolist() for name in x)]
    if dataclasses.is_dataclass(x):
        x = {f.name: getattr(x, f.name) for f in dataclasses.fields(x)}
    if isinstance(x, dict):
        x = list(x.items())
    if isinstance(x, list | tuple | np.ndarray):
        return [leaf for value in x for leaf in leaves(value, on)]
    return [x]


def assert_same(a, b, on=("cpu",)):
    """Nearly the same numbers, and all else exactly: whole numbers here are below 1,000."""
    ours, theirs = (pd.Series(leaves(x, on), dtype=object) for x in (a, b))
    assert ours.map(type).equals(theirs.map(type))
    pd.testing.assert_series_equal(ours, theirs, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- loading


def test_the_cpu_can_be_chosen_and_is_used_where_there_is_no_gpu(tiny, monkeypatch):
    assert {p.device.type for p in tiny.parameters()} == {"cpu"}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cx.models.device_for() == torch.device("cpu")


@on_gpu
def test_a_gpu_is_used_and_tokens_come_from_anywhere_and_weights_to_the_cpu(
    moved, tiny, gpu, tiny_tokens
):
    assert {p.device for p in moved.parameters()} == {gpu} and moved.cfg.device == str(gpu)
    name, text = "blocks.1.mlp.hook_pre", tiny_tokens[None]
    (logits, cache), (expected, own) = (
        m.run_with_cache(text, names_filter=name) for m in (moved, tiny)
    )
    assert logits.device == cache[name].device == gpu
    assert_same([logits.cpu(), cache[name].cpu()], [expected, own[name]])
    assert_same(moved(text.to(gpu)).cpu(), expected)
    ours, theirs = (cx.LayerWeights.of(m) for m in (moved, tiny))
    assert ours.device.type == "cpu"
    assert_same(ours.tensors(), theirs.tensors())


def fix(w):
    return cx.fix_query(w, n=N, token=TOKEN)


# ---------------------------------------------------------------- what follows from weights


def circuit_of(w, texts):
    return cx.ContextualCircuit.calibrate(fix(w), texts[0], HEADS)


def of_rows(w, texts):
    x, kernels = texts[0], cx.positional_kernels(w, N, TOKEN)
    exact, rebuilt = cx.decompose.attention_pattern(w, x), cx.decompose.approx_pattern(w, x)
    shapes = [f(kernels) for f in (cx.effective_tokens, cx.heads.half_mass)]
    return [
        *(exact, cx.total_variation(exact, rebuilt), cx.approx_rows(w, x, N), kernels, *shapes),
        cx.decompose.content_scale(w, N, x),
        cx.content_scores(w, N, TOKEN, x),
        cx.decompose.fixed_query(w, N, None),
        cx.families(fix(w)),
        cb.nulls.mixtures(w.mlp_input()[0]),
    ]


def of_texts(w, texts):
    """What `test_reading` checks of one text, and of many; no head of a random model is stable."""
    circuit = circuit_of(w, texts)
    taken = [take(circuit, texts) for name, take in TAKERS.items() if name != "stable heads"]
    return [*taken, *(read(circuit)(circuit.fixed.prepare(texts)) for read in READERS.values())]


def of_circuit(w, texts):
    circuit, summaries = circuit_of(w, texts), circuit_of(w, texts).summary(torch.stack(texts))
    along = cx.lookups.denominators_along(circuit.fixed, texts[0])
    return [
        circuit.contribution,
        circuit.extended_embedding(),
        *(along, cx.lookups.circuit_z(circuit, texts[1], along)),
        cx.lookups.self_normalized_z(circuit, texts[1]),
        circuit.fixed.decomposition.untrained,
        record.denominator_record(circuit.fixed, texts, []),
        cx.evaluate(circuit.self_normalized(), texts),
        cx.find_neurons(circuit, 0.0),
        cx.label_neurons(summaries[:, [3, 8]], [*"aabbccaabbcc"], [3, 8]),
    ]


def of_view(w, texts):
    return packed_layer(w, cx.texts.passages(w, domains=["law"]))


MADE = [of_rows, of_texts, of_circuit]


@pytest.mark.parametrize("compute", MADE)
def test_what_is_made_on_the_way_lies_where_the_weights_do(compute, tiny_weights, texts):
    """And not where torch makes tensors by default, which is no place for numbers here."""
    with torch.device("meta"):
        ours = compute(tiny_weights, texts)
    assert_same(ours, compute(tiny_weights, texts))


@on_gpu
@pytest.mark.parametrize("compute", [*MADE, of_view])
def test_weights_on_the_gpu_give_the_same(compute, tiny_weights, texts, gpu):
    ours = compute(tiny_weights.to(device=gpu), texts)
    assert_same(ours, compute(tiny_weights, texts), on=("cpu", "cuda"))


@on_gpu
def test_tokens_on_the_gpu_meet_weights_on_the_cpu(tiny_weights, texts, gpu):
    circuit = circuit_of(tiny_weights, texts)
    for read in (
        *(read(circuit) for read in READERS.values()),
        lambda x: cx.attention_rows(tiny_weights, x, N),
        lambda x: cx.decompose.approx_pattern(tiny_weights, x),
        lambda x: cx.lookups.denominators_along(circuit.fixed, x),
    ):
        x = circuit.fixed.prepare(texts)[0]
        assert_same(read(x.to(gpu)), read(x))


@on_gpu
def test_texts_from_anywhere_go_on_with_a_checkpoint(tiny_weights, texts, gpu, tmp_path):
    here, there = (circuit_of(w, texts) for w in (tiny_weights, tiny_weights.to(device=gpu)))
    assert there.contribution.device == there.summary(texts[0].to(gpu)).device == gpu, "they stay"
    file = tmp_path / "run.safetensors"
    cx.evaluate(there, texts[:6], checkpoint=file)
    table = cx.evaluate(there, [t.to(gpu) for t in texts], checkpoint=file)
    assert_same(table, cx.evaluate(here, texts))


# ---------------------------------------------------------------- what follows from forward passes


def of_neurons(m, texts):
    read = cx.lookups.read_prompts(m, [t[:k] for t, k in zip(texts, range(4, 16), strict=True)])
    terms = cx.lookups.attribution(m, 1, 7, read)
    rest = cx.lookups.congruence(m, 1), cx.lookups.next_token_neurons(m)
    return read, terms, terms.heads[:, 0, 1], terms.total(), *rest


def of_ablation(m, texts):
    means = cx.lookups.mean_z(m, texts, 32)
    silence = cx.lookups.replace_z(0, HEADS, means[:, HEADS])
    push = cx.lookups.add_direction(0, torch.ones(24))
    return [
        means,
        *(cx.lookups.token_losses(m, torch.stack(texts), h) for h in ([], [silence, push])),
    ]


def of_empirical_kernels(m, texts):
    """Chapter 13: what the model's hooks are used for."""
    fixed = cx.fit_additive(m, texts, N, TOKEN)
    stack = fixed.prepare(texts)
    circuit = cx.ContextualCircuit.calibrate(fixed, texts[0], HEADS)
    return [
        fixed.decomposition.kernels,
        fixed.denominators(stack),
        fixed.exact.rows(stack),
        circuit.summary(stack),
    ]


@on_gpu
@pytest.mark.parametrize("compute", [of_neurons, of_ablation, of_empirical_kernels])
def test_a_model_on_the_gpu_gives_the_same_on_the_cpu(compute, moved, tiny, texts):
    """`leaves` takes no tensor that lies on the GPU."""
    assert_same(compute(moved, texts), compute(tiny, texts))


@on_gpu
def test_a_circuit_goes_into_a_model_there_or_here(moved, tiny, tiny_weights, texts, gpu):
    z = cx.lookups.self_normalized_z(circuit_of(tiny_weights, texts), texts[1])
    held = cx.lookups.token_losses(tiny, texts[1][None], [cx.lookups.replace_z(0, HEADS, z)])
    for there in (z, z.to(gpu)):
        for model in (moved, tiny):
            hook = cx.lookups.replace_z(0, HEADS, there)
            assert_same(cx.lookups.token_losses(model, texts[1][None], [hook]), held)
