"""The one door: that a query is the one that was given, and that what is true of it is what
transformers computes, of decoders and encoders of every kind. Against loops encoders are held
wherever decoders are: half of the cases of `by_hand` are encoders.
"""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from by_hand import draw_texts
from command import ROOT
from kinds import GROUPED, KINDS, OPT, SHARED, VARIANTS, WIDER, Case, drawn, matrix
from test_lookups import near

import ctxlib as cx
from ctxlib.additive import PATTERN
from ctxlib.decompose import LayerNormDecomposition
from ctxlib.exact import ExactFromWeights
from ctxlib.weights import activations

TEXTS = draw_texts(9, 32, 300, seed=4)
N, THE = 20, 262


# ---------------------------------------------------------------- the door


def test_a_destination_is_of_a_model_or_of_its_weights(tiny, tiny_weights):
    fixed, same = cx.fix_query(tiny, n=N), cx.fix_query(tiny_weights, n=N)
    assert isinstance(fixed.decomposition, LayerNormDecomposition) and isinstance(
        fixed.exact, ExactFromWeights
    )
    the = tiny_weights.token_id(" the")
    for known in (fixed, same):
        assert (known.n, known.token, known.length, known.n_ctx) == (N, the, N + 1, 32)
        assert (known.n_heads, known.n_neurons, known.d_vocab) == (3, 40, 300)
    assert torch.equal(fixed.decomposition.kernels, same.decomposition.kernels)
    assert tiny_weights.typical_norm() == fixed.decomposition.C
    with pytest.raises(ValueError, match="layer 1: only what enters layer 0"):
        cx.fix_query(cx.LayerWeights.of(tiny, 1), n=N)


@pytest.mark.parametrize("of_library", [np.int64, np.array, torch.tensor])
def test_numbers_of_any_library_are_plain_ones(of_kind, tiny_weights, here, of_library):
    """Positions, tokens, and heads: one or several."""
    for of, more in ((tiny_weights, ()), (of_kind("Llama").model, (TEXTS,))):
        fixed = cx.fix_query(of, *more, n=of_library(N), token=of_library(THE))
        assert {*map(type, (fixed.n, fixed.token))} == {int} and (fixed.n, fixed.token) == (N, THE)
    calibrate = partial(cx.ContextualCircuit.calibrate, here, TEXTS[0])
    for heads in ([of_library(2), 0], of_library([2, 0])):
        assert repr(calibrate(heads).heads) == "(2, 0)"
    for head in (1, np.int64(1)):
        assert repr(calibrate(head).heads) == "(1,)"


def test_a_query_has_the_chosen_position_and_token(precise, of_kind):
    fixed = cx.fix_query(precise, n=9, token=5, C=2.0)
    assert (fixed.n, fixed.token, fixed.decomposition.C, fixed.exact.n) == (9, 5, 2.0, 9)
    assert cx.fix_query(precise, n=9, token=5).decomposition.C == precise.typical_norm() != 2.0
    by_means = cx.fix_query(of_kind("Llama").model, TEXTS, n=9, token=5)
    assert (by_means.n, by_means.token, by_means.exact.n) == (9, 5, 9)
    shorter = [TEXTS[0], TEXTS[1, :13]]  # of which it is the end
    assert cx.fix_query(precise, shorter).n == 12
    assert cx.fix_query(of_kind("Llama").model, shorter, token=THE).n == 12
    assert cx.fix_query(of_kind("Llama").model, draw_texts(9, 40, 300), token=THE).n == 31
    encoder = of_kind("BERT").model  # of which it is the middle
    for texts, n in ((None, 16), (TEXTS, 16), ([TEXTS[0], TEXTS[1, :20]], 10)):
        assert cx.fix_query(encoder, texts, token=THE).n == n


@pytest.mark.parametrize("kind", ["GPT-2", "Llama"])
@pytest.mark.parametrize(("name", "value"), [("texts", TEXTS[0]), ("n", 20.0), ("token", True)])
def test_texts_are_many_and_numbers_are_whole(of_kind, kind, name, value):
    with pytest.raises(ValueError, match=r"put it in brackets|give a whole number"):
        cx.fix_query(of_kind(kind).model, **{"texts": TEXTS, name: value})


@pytest.mark.parametrize(("name", "value"), [("n", 9), ("token", 5), ("C", 2.0), ("texts", TEXTS)])
def test_what_a_query_or_a_stored_layer_holds_is_not_given_again(here, name, value):
    for of, message in ((here, "a fixed query already"), ("a.safetensors", "a stored layer knows")):
        with pytest.raises(TypeError, match=message):
            cx.fix_query(of, **{name: value})


@pytest.mark.parametrize(("name", "value"), [("C", 2.0), ("token", None)])
def test_a_model_that_adds_no_positions_has_no_C_and_needs_a_token(of_kind, name, value):
    with pytest.raises(TypeError, match="C and token=None are for models with learned positions"):
        cx.fix_query(of_kind("Llama").model, TEXTS, **{name: value})


LOCAL_WITH_BIASES = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "local_attention": 8,
    **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias"), True),
}
#: What is refused, and the reason that is given.
REFUSED = {
    "Apertus": ("apertus", "has an activation function that its configuration does not"),
    "Mixtral": ("mixtral", "is not heads and one MLP"),
    "GPT-1": ("openai-gpt", "read something else"),
    "RoFormer": ("roformer", "of encoders only"),
}


@pytest.mark.parametrize(("architecture", "says"), REFUSED.values(), ids=REFUSED)
def test_a_model_that_would_be_split_wrongly_is_refused(make_folder, architecture, says):
    older = architecture in ("openai-gpt", "roformer")
    sizes = {} if older else {"hidden_size": 32, "head_dim": 8} | GROUPED
    model = drawn(architecture, **sizes, pad_token_id=0)
    with pytest.raises(ValueError, match=says):
        cx.fix_query(cx.load(make_folder(model, seed=3)), TEXTS, N, THE)


@pytest.mark.parametrize("of", [{"clip_qkv": 1e3}, {"attn_config": {"clip_qkv": 1e3}}], ids=str)
def test_a_model_that_clips_what_few_tokens_reach_is_refused(make_folder, of):
    """None of the texts here reaches so far."""
    with pytest.raises(ValueError, match="clips its queries, keys and values"):
        model = drawn("olmo", **of) if "clip_qkv" in of else drawn("mpt", max_seq_len=32, **of)
        cx.fix_query(cx.load(make_folder(model, seed=3)), TEXTS, N, THE)


def test_the_only_layer_of_a_parallel_model_is_refused(make_folder):
    model = drawn("gptj", num_hidden_layers=1, rotary_dim=4)
    with pytest.raises(ValueError, match="no neuron reads"):
        cx.fix_query(cx.load(make_folder(model, seed=3)), TEXTS, N, THE)


def test_the_readme_says_which_families_run_and_which_are_refused():
    page = (ROOT / "README.md").read_text("utf-8")
    runs, refused = re.findall(r"(?m)^\| (?:runs|refused) \| (.+) \|$", page)
    kinds = {kind.split(",")[0].split(" with ")[0] for kind in (*KINDS, *VARIANTS)}
    assert {*runs.split(", ")} == kinds
    assert {name.split(" (")[0] for name in refused.split(", ")} == {*REFUSED}


# ---------------------------------------------------------------- as transformers runs it


@pytest.mark.parametrize("kind", [*KINDS, *VARIANTS])
def test_heads_and_mlp_do_what_transformers_computes(of_kind, kind):
    """In float64, unfolded, of texts that were not used before: rows, what is inside the heads and
    what they write, the stream that the MLP reads, and what it makes of it. The first of its inputs
    is what circuits are made of.
    """
    case = of_kind(kind)
    fixed = cx.fix_query(case.model, TEXTS[:5], n=15, token=THE)
    learned = isinstance(
        fixed.decomposition, LayerNormDecomposition
    )  # there any token may stand at n
    x = TEXTS[5:, : fixed.length] if learned else fixed.prepare(TEXTS[5:])
    held, out = case.run(x)
    rows, reads = out.attentions[0], getattr(fixed.exact, "reads", 0)
    near(fixed.exact.rows(x), rows[:, :, fixed.n], atol=1e-5)
    if learned:
        weights = fixed.decomposition.weights
        near(cx.decompose.attention_pattern(weights, x[1]), rows[1], atol=1e-5)
        for n in (0, 5, fixed.n):
            sources = weights.n_sources(n, fixed.length)
            near(cx.attention_rows(weights, x, n), rows[:, :, n, :sources], atol=1e-5)
    elif not isinstance(case.model, cx.models.Encoder):
        (pattern,) = activations(case.model, x, [PATTERN], 1)
        near(pattern[:, :, -1], rows[:, :, fixed.n], atol=1e-5)
    z = held["out_of_heads", 0][0][:, fixed.n].unflatten(-1, (fixed.n_heads, -1))
    near(fixed.exact.z(x), z)
    W_O = matrix(case.parts(0).out_of_heads).unflatten(0, (fixed.n_heads, -1))
    outputs = fixed.head_outputs(x)
    times = getattr(case.plain.config, "residual_multiplier", 1.0)
    if ("behind", 0) in held:  # a norm, which scales each coordinate of the heads' sum
        before, after = held["behind", 0]
        times = (after / before)[:, fixed.n, None]
    near(outputs, times * case.centered(torch.einsum("thd,hdm->thm", z, W_O)))
    near(fixed.resid_mid(x, outputs), case.centered(held["norm", reads][0][:, fixed.n]))
    parts, gated = fixed.mlp(x), "gate" in case.places.into or kind == "ModernBERT"
    assert [*parts] == (["gate", "up", "product"] if gated else ["pre", "post"])
    first, *_, last = parts.values()
    into = held["into", reads][1][:, fixed.n]  # gate and up side by side, or one of them
    near(first, into[:, : first.shape[1]])
    near(last, held["out_of", reads][0][:, fixed.n])
    beside = (
        fixed.readout.resid_without_heads(x[:, fixed.n])
        @ fixed.readout.W_in
        / fixed.scale(x, outputs)
    )
    near(fixed.exact_summary(x, range(fixed.n_heads)) + beside + fixed.readout.b_in, first)


@pytest.mark.parametrize(
    ("kind", "architecture", "options"),
    [
        ("OPT", "opt", OPT | {"enable_bias": False}),  # as in Galactica
        ("Cohere 2", "cohere", SHARED | {"use_qk_norm": True}),
        ("StableLM", "stablelm", SHARED | WIDER | {"qk_layernorm": True}),
        ("BERT", "bert", {"pad_token_id": None}),
        ("ModernBERT", "modernbert", LOCAL_WITH_BIASES),
    ],
)
def test_options_of_a_family_are_computed_too(make_folder, kind, architecture, options):
    model = drawn(architecture, **{"pad_token_id": 0} | options)
    case = Case(kind, make_folder(model, seed=3))
    test_heads_and_mlp_do_what_transformers_computes(lambda _: case, kind)


# ---------------------------------------------------------------- two means all the way


@pytest.mark.parametrize("kind", ["Llama", "Gemma 2", "OLMo 2"])
def test_circuits_of_the_additive_decomposition_are_evaluated_whole(of_kind, kind, tmp_path):
    """None of the approximations is the truth, and all of them are the circuit, of heads that share
    their values as well, and of heads with a norm behind them; and a file keeps it all.
    """
    fixed = cx.fix_query(of_kind(kind).model, TEXTS, n=N, token=THE)
    circuit, x = cx.ContextualCircuit.calibrate(fixed, TEXTS[0], [0, 2]), fixed.prepare(TEXTS)
    truth, approximated = fixed.exact_summary(x, circuit.heads), cx.evaluation.approx_summary
    near(approximated(circuit, x, ()), truth)
    near(approximated(circuit, x, cx.evaluation.APPROXIMATIONS), circuit.summary(x))
    budget = cx.evaluation.error_budget(circuit, TEXTS, [3, 4, 5])
    assert budget.loc[("none", ""), "fvu"] < 1e-6 < budget.loc[("all", ""), "fvu"]
    table = cx.evaluate(circuit, TEXTS, [3, 4, 5])
    assert budget.loc[("all", ""), "fvu"] == pytest.approx(table["fvu"].median(), rel=1e-4)
    page = circuit.calibration[None]  # whose own scale it is
    near(approximated(circuit, page, ["scale"]), fixed.exact_summary(page, circuit.heads))
    better, kept = (
        circuit.self_normalized(),
        cx.ContextualCircuit.load(circuit.save(tmp_path / "circuit.safetensors")),
    )
    everyone = replace(circuit, heads=(*range(fixed.n_heads),)).self_normalized()
    outputs = fixed.approx_head_outputs(x)
    near(everyone.summary(x), fixed.to_neurons(x, outputs, everyone.heads))
    near(kept.summary(x), circuit.summary(x))
    near(kept.self_normalized().summary(x), better.summary(x))
    near(kept.pre_activations(x), circuit.pre_activations(x))
    near(kept.self_normalized().pre_activations(x), better.pre_activations(x))
