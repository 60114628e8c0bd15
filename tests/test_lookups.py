"""Look-ups: terms against the model as transformers runs it, searches against plain loops."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import pairwise, product
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from by_hand import draw_text
from kinds import GROUPED, KINDS, PARALLEL, Case, drawn, matrix
from torch.nn.functional import cross_entropy
from tqdm import tqdm

import ctxlib as cx
from ctxlib.lookups import causal, hooks

near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4, check_dtype=False)  # float32

every_kind = pytest.mark.parametrize("kind", KINDS)
NEURONS = (0, 17, 39)


def draw_texts(*lengths):
    return [draw_text(length, number) for number, length in enumerate(lengths)]


PROMPTS = draw_texts(5, 17, 2, 32, 9, 17)  # two batches, of different lengths


@pytest.fixture(scope="module")
def gemma2(make_folder):
    """Normalises what its heads write before it is added, and caps its logits."""
    return Case("Gemma 2", make_folder(drawn("gemma2", **GROUPED, head_dim=8), seed=3))


# ---------------------------------------------------------------- the model, untouched


def run_plain(case, tokens):
    """What goes in and out of every part at the last token."""
    held, _ = case.run(tokens[None])
    return {key: [v[0, -1] for v in both] for key, both in held.items()}


def plain_terms(case, held, layer, neuron):
    """A neuron's terms from unfolded weights and what the untouched model holds; the bias is the
    rest.
    """
    own, (stream, _) = case.parts(layer), held["norm", layer]
    eps = getattr(own.norm, "eps", None) or own.norm.variance_epsilon
    d_model, scale = len(stream), (case.centered(stream).pow(2).mean() + eps).sqrt()
    w = matrix(own.into)[:, neuron]

    def read(v):
        return case.centered(v) * own.norm.weight @ w / scale

    n_heads = case.model.cfg.n_heads
    before = range(layer if case.kind in PARALLEL else layer + 1)
    heads = torch.zeros(len(before), n_heads, dtype=torch.float64)
    for k in before:
        z = held["out_of_heads", k][0].reshape(n_heads, -1)
        W_O = matrix(case.parts(k).out_of_heads).reshape(n_heads, -1, d_model)
        heads[k] = read(torch.einsum("hd,hdm->hm", z, W_O))
    mlps = torch.tensor([read(held["out_of", k][1]) for k in range(layer)])
    parts = {"heads": heads, "mlps": mlps, "embedding": read(held["block", 0][0])}
    return parts | {"scale": scale, "pre_activation": held["into", layer][1][neuron]}


@every_kind
def test_terms_are_those_of_the_untouched_model(of_kind, kind):
    case = of_kind(kind)
    held, n_heads = [run_plain(case, tokens) for tokens in PROMPTS], case.model.cfg.n_heads
    for layer in range(3):
        read = (cx.lookups.read_prompts(case.model, PROMPTS, n) for n in (None, layer + 1))
        for neuron, prompts in zip(NEURONS, (PROMPTS, *read), strict=True):
            terms = cx.lookups.attribution(case.model, layer, neuron, prompts)
            n_feeding = layer if kind in PARALLEL else layer + 1
            assert terms.heads.shape == (len(PROMPTS), n_feeding, n_heads)
            assert terms.mlps.shape == (len(PROMPTS), layer)
            assert (terms.layer, terms.neuron) == (layer, neuron)
            for p, of_prompt in enumerate(held):
                truth = plain_terms(case, of_prompt, layer, neuron)
                for name, value in truth.items():
                    near(getattr(terms, name)[p], value.to(torch.float32))
                near(terms.total()[p], truth["pre_activation"])


@pytest.mark.parametrize("kind", ["GPT-2", "GPT-J"])
def test_the_table_of_terms_is_the_loops(of_kind, kind):
    """One row a term, by its name; shares of the variance add up, and one prompt has no spread."""
    model = of_kind(kind).model
    terms, alone = (cx.lookups.attribution(model, 2, 17, p) for p in (PROMPTS, PROMPTS[:1]))
    table, whole = terms.table(), terms.total().double().numpy()
    expected = {"embedding": terms.embedding, "bias": terms.bias}
    expected |= {f"MLP of layer {k}": terms.mlps[:, k] for k in range(2)}
    for k, i in product(*map(range, terms.heads.shape[1:])):
        expected[f"head {i} of layer {k}"] = terms.heads[:, k, i]
        assert [*table.loc[f"head {i} of layer {k}", ["part", "layer", "head"]]] == ["head", k, i]
    assert {*table.index} == {*expected} and table.index.is_unique
    for name, term in expected.items():
        share = np.cov(term.double(), whole, ddof=0)[0, 1] / whole.var()
        by_hand = np.array([term.mean(), term.std(correction=0), share])
        near(torch.tensor(table.loc[name].tolist()[3:]), torch.tensor(by_hand), atol=1e-5)
    assert table["variance share"].sum() == pytest.approx(1)
    assert (alone.table()["sd"] == 0).all() and alone.table()["variance share"].isna().all()


def test_long_work_shows_how_far_it_is(tiny, monkeypatch):
    monkeypatch.setattr("ctxlib.texts.batching.tqdm", bar := Mock(wraps=tqdm))
    cx.lookups.attribution(tiny, 1, 7, PROMPTS)
    cx.lookups.next_token_neurons(tiny)
    shown = [(call.args[1], call.kwargs["total"]) for call in bar.call_args_list]
    assert shown == [("reading prompts", 5), ("next-token neurons", 2)]


# ---------------------------------------------------------------- what is refused


def test_terms_that_do_not_add_up_are_refused(gemma2, tiny):
    """A model that normalises what its heads write, and any number that is more than a thousandth
    of all terms away.
    """
    message = r"do not add up .* normalises or scales"
    for layer, neuron in product(range(3), NEURONS):
        with pytest.raises(ValueError, match=message):
            cx.lookups.attribution(gemma2.model, layer, neuron, PROMPTS)
    read = cx.lookups.read_prompts(tiny, PROMPTS)
    terms = cx.lookups.attribution(tiny, 1, 7, read)
    parts = (terms.heads.flatten(1), terms.mlps, terms.embedding[:, None], terms.bias[:, None])
    size = torch.cat(parts, dim=1).abs().sum(1)[3]
    for missing in (0.95e-3, -0.95e-3, 1.05e-3, -1.05e-3, 1.0, float("nan")):
        changed = replace(read, pre_activation=read.pre_activation.clone())
        changed.pre_activation[3, 1, 7] += missing * size
        with nullcontext() if abs(missing) < 1e-3 else pytest.raises(ValueError, match=message):
            cx.lookups.attribution(tiny, 1, 7, changed)


def test_terms_are_of_what_is_there_and_was_read(tiny):
    for layer, neuron, prompts, message in (
        (2, 7, PROMPTS, "layer 2: there are layers 0 to 1"),
        (1, -1, PROMPTS, "neuron -1: there are neurons 0 to 39"),
        (1, 7, [], "no prompts: give at least one"),
        (1, 7, [PROMPTS[0], PROMPTS[0][:1]], r"shape \(1,\): expected BOS and 1 to 31 tokens"),
        (1, 7, [PROMPTS[0] + 290], "there are token ids 0 to 299"),
        (1, 7, cx.lookups.read_prompts(tiny, PROMPTS, 1), "layer 1 was not read"),
    ):
        with pytest.raises(ValueError, match=message):
            cx.lookups.attribution(tiny, layer, neuron, prompts)


@pytest.mark.parametrize("architecture", ["openai-gpt", "modernbert-decoder", "olmo2"])
def test_an_end_that_is_not_one_folded_norm_and_W_U_is_refused(make_folder, architecture):
    model = cx.load(make_folder(drawn(architecture, pad_token_id=0), seed=3))
    with pytest.raises(ValueError, match=r"is not one norm and W_U|normalises what its MLPs write"):
        cx.lookups.congruence(model, 0)


# ---------------------------------------------------------------- what a neuron predicts


@pytest.mark.parametrize("kind", [*KINDS, "Gemma", "Granite", "Cohere 2"])
def test_congruence_is_that_of_the_unfolded_weights(of_kind, kind):
    """What all tokens share is no evidence about any of them."""
    case = of_kind(kind)
    config, norm = case.plain.config, case.plain.get_submodule(case.places.last_norm)
    gain = norm.weight + (kind == "Gemma")
    times = {"Granite": 0.22 / 8, "Cohere 2": getattr(config, "logit_scale", None)}.get(kind, 1)
    for layer in range(3):
        w = case.centered(matrix(case.parts(layer).out_of))
        table = times * w * gain @ case.plain.get_output_embeddings().weight.T
        near(cx.lookups.congruence(case.model, layer), table - table.mean(-1, keepdim=True))


# ---------------------------------------------------------------- neurons that predict a token


def clean_by_hand(model, layers):
    """Neuron by neuron, each against all."""
    places = [(k, j) for k in layers for j in range(model.cfg.d_mlp)]
    rows = torch.cat([model.blocks[k].mlp.W_out @ model.W_U for k in layers]).double().numpy()
    found = []
    for place, row in zip(places, rows, strict=True):
        token, (second, first) = row.argmax(), np.sort(row)[-2:]
        others, most = np.sort(rows[:, token])[-2:]
        if first == most:
            text = model.tokenizer.decode([token])
            found.append((*place, token, text, first, first - second, most - others))
    return sorted(found, key=lambda f: -f[4])


@pytest.fixture(scope="module")
def deep(make_folder):
    return cx.load(make_folder(n_layer=7))


@pytest.mark.parametrize("layers", [None, [3], (5, 0, 5), np.array([6, 2])])
def test_next_token_neurons_are_those_of_a_loop(deep, monkeypatch, layers):
    """In the last five layers, or in some that are named in any order."""
    module = import_module("ctxlib.lookups.congruence")  # the package has the function so called
    monkeypatch.setattr(module, "NEURONS_AT_A_TIME", 7)
    table = cx.lookups.next_token_neurons(deep, layers)
    found = clean_by_hand(deep, range(2, 7) if layers is None else sorted({*map(int, layers)}))
    columns = ["layer", "neuron", "token", "text", "congruence", "over_tokens", "over_neurons"]
    by_hand = pd.DataFrame(found, columns=columns)
    pd.testing.assert_frame_equal(table, by_hand, check_dtype=False, rtol=1e-4, atol=1e-5)
    assert len(table) > 5


def test_where_neurons_say_the_same_none_stands_above_the_other(tiny_folder, unfolded):
    model = cx.load(tiny_folder)
    model.blocks[1].mlp.W_out.copy_(model.blocks[0].mlp.W_out)
    table = cx.lookups.next_token_neurons(model)
    assert (table["over_neurons"] == 0).all()
    assert table["token"].is_unique
    with pytest.raises(ValueError, match="no layers: name at least one"):
        cx.lookups.next_token_neurons(model, [])
    with pytest.raises(ValueError, match=r"not folded: load it with cx\.load"):
        cx.lookups.next_token_neurons(unfolded)


# ---------------------------------------------------------------- neurons drawn at random


def test_all_neurons_but_the_excluded_can_be_drawn(tiny):
    out = [(0, 3), (1, 39), (1, 0)]
    drawn = cx.lookups.random_neurons(tiny, 77, [1, 0, 0], out)
    assert len(drawn) == 77
    assert set(drawn) == {(k, j) for k in (0, 1) for j in range(40)} - set(out)
    assert drawn == cx.lookups.random_neurons(tiny, 77, [0, 1], out)
    for count in (0, 78):
        with pytest.raises(ValueError, match=f"count={count}: there are 77 neurons to draw from"):
            cx.lookups.random_neurons(tiny, count, [0, 1], out)


# ---------------------------------------------------------------- what happens without


@every_kind
def test_what_is_replaced_is_so_in_the_untouched_model_too(of_kind, kind):
    """Nothing, heads silenced in any layer, each text's own or the mean over texts."""
    case = of_kind(kind)
    size, nothing = case.model.cfg.d_head, torch.zeros(32, 1, case.model.cfg.d_head)
    mean = causal.mean_z(case.model, draw_texts(32, 32, 32), 32)[:, [2, 0]]
    own = torch.stack([mean.flip(0), mean])

    def silence(layer):
        change = (case.parts(layer).out_of_heads, lambda z: z[..., size : 2 * size].zero_())
        return causal.replace_z(layer, [1], nothing), change

    def put(z):
        def put_in(there):
            texts, places = there.shape[:2]
            of = z.expand(texts, -1, -1, -1)[:, :places].double()
            there.unflatten(-1, (-1, size))[:, :, [2, 0]] = of

        return causal.replace_z(0, [2, 0], z), (case.parts(0).out_of_heads, put_in)

    x, seen = torch.stack(draw_texts(20, 20)), []
    for replaced in ([], [put(mean)], [put(own)], [put(own), silence(2)], [silence(0)], []):
        hooks, changes = [hook for hook, _ in replaced], [change for _, change in replaced]
        seen.append(causal.token_losses(case.model, x, hooks))
        logits = case.run(x, changes)[1].logits[:, :-1].flatten(0, 1)
        near(seen[-1].flatten(), cross_entropy(logits, x[:, 1:].flatten(), reduction="none"))
    assert all((a - b).abs().max() > 1e-5 for a, b in pairwise(seen))
    near(seen[0], seen[-1])  # no hook stays behind


@pytest.mark.parametrize("kind", [*KINDS, "Gemma 2"])
def test_logits_are_scaled_and_capped_as_the_model_does(of_kind, gemma2, kind):
    case = gemma2 if kind == gemma2.kind else of_kind(kind)
    n_layers = case.model.cfg.n_layers
    end = f"blocks.{n_layers - 1}.hook_resid_post"
    stream = hooks.at_last_token(case.model, PROMPTS, [end], n_layers)[end]
    log_probs = cx.lookups.layers.logits(case.model, stream).log_softmax(-1)  # folding centres them
    for p, tokens in enumerate(PROMPTS):
        near(log_probs[p], case.plain(tokens[None]).logits[0, -1].log_softmax(-1))
