"""An object of another kind than is wanted is named in one line, with where to get one."""

from functools import partial

import numpy as np
import pytest
import torch
from by_hand import draw_texts
from transformers import AutoModelForCausalLM

import ctxlib as cx
from ctxlib.lookups import explain, hooks, layers

look, of, rate = cx.lookups, cx.denominators, cx.evaluation
X, V = draw_texts(4, 32, 300, seed=4), torch.zeros(4, 3)
WANTED = {  # functions and what they are given behind the object
    "a model": [(cx.fix_query,)],
    "a decoder": [
        (look.attribution, 1, 3, X), (look.read_prompts, X), (look.next_token_neurons,),
        (look.congruence, 1), (look.random_neurons, 2, [1]), (look.mean_z, X, 9),
        (look.token_losses, X), (hooks.at_last_token, X, [], 1), (hooks.pad, X),
        (layers.input_weights, 1), (layers.output_weights, 1), (layers.n_neurons, 1),
        (layers.norm_scale, V), (layers.logits, V), (layers.check_end,), (layers.unembedding,),
        (cx.fit_additive, X),
    ],
    "a fixed query": [
        (cx.families,), (cx.softmax_denominators, X), (cx.stable_heads, X), (of.head_table, X),
        (of.head_variance_share, X), (of.most_typical_text, X, [0]),
        (cx.ContextualCircuit.calibrate, X[0], [0]), (look.denominators_along, X[0]),
    ],
    "a circuit": [(cx.evaluate, X), (look.circuit_z, X[0], V), (look.self_normalized_z, X[0])],
    "a ContextualCircuit": [
        (cx.find_neurons,), (cx.neurons.extreme_tokens,), (rate.error_budget, X),
        (rate.approx_summary, X, []),
    ],
    "weights": [(cx.heads.copy_preference, 9), (look.queries_along, 3, 9)],
    "a tensor": [
        (cx.shared_kernel,), (cx.effective_tokens,), (cx.heads.half_mass,), (cx.heads.half_mass, 2),
        (cx.heads.family_table,), (cx.neurons.robust_z,), (cx.label_neurons, "aabb", range(3)),
        (partial(look.add_direction, 0),), (partial(look.replace_z, 0, [0]),),
        (rate.Moments.of, V), (partial(rate.Moments.of, V),), (partial(rate.r_and_fvu, V), "aabb"),
    ],
}  # fmt: skip
RIGHT = {"a model": "model encoder weights word fixed", "a decoder": "model", "weights": "weights"}
RIGHT |= {"a fixed query": "fixed", "a circuit": "circuit better", "a ContextualCircuit": "circuit"}


@pytest.fixture(scope="module")
def objects(tiny, tiny_folder, tiny_weights, here, circuit, of_kind):
    """One of each, and what people have at hand."""
    own = {"model": tiny, "weights": tiny_weights, "fixed": here, "circuit": circuit}
    own |= {"better": circuit.self_normalized(), "encoder": of_kind("BERT").model}
    own |= {"plain": AutoModelForCausalLM.from_pretrained(tiny_folder), "none": None, "one": 3}
    return own | {"word": "the", "list": [1, 2], "array": np.zeros(3)}


@pytest.mark.parametrize(("kind", "call"), [(k, c) for k, calls in WANTED.items() for c in calls])
def test_another_kind_of_object_is_named_and_what_to_make(objects, kind, call):
    for name in objects.keys() - {*RIGHT.get(kind, "").split()}:
        with pytest.raises(TypeError) as caught:
            call[0](objects[name], *call[1:])
        said, _, remedy = str(caught.value).partition(f" where {kind} is wanted: ")
        assert said == type(objects[name]).__name__ and 10 < len(remedy) < 100


@pytest.mark.parametrize("given", [[0, 1], "a", None, X.numpy(), X.float(), X > 3, X[0, 0]])
def test_token_ids_are_whole_numbers_of_a_text_or_a_stack(tiny, tiny_weights, circuit, given):
    calls = [circuit.summary, circuit.self_normalized().summary, circuit.fixed.mlp]
    calls += [tiny_weights.keys, partial(look.token_losses, tiny), partial(look.circuit_z, circuit)]
    for call in calls:
        with pytest.raises(TypeError, match=r"where token ids are wanted: fixed\.prepare\("):
            call(given, *[V] * (call is calls[-1]))


def test_one_layer_will_do_for_several_and_other_things_are_no_numbers(tiny, circuit, objects):
    for one in (1, np.int64(1), torch.tensor(1)):
        assert look.next_token_neurons(tiny, one).equals(look.next_token_neurons(tiny, [1]))
    calls = [partial(look.next_token_neurons, tiny), partial(look.read_prompts, tiny, X)]
    calls += [partial(look.mean_z, tiny, X), partial(cx.label_neurons, V, "aabb")]
    calls += [partial(cx.evaluate, circuit, X), partial(cx.find_neurons, circuit, None)]
    for name in objects.keys() - {"one", "list", "none"}:
        for call in calls:
            with pytest.raises(ValueError, match=r"^\w+ .{1,80}: give a whole number$"):
                call(objects[name])
    for hook in (("a", print), [3], None, iter([])):
        with pytest.raises(TypeError, match="hooks: give a list"):
            look.token_losses(tiny, X, hook)


@pytest.mark.parametrize("given", [None, 3, "the", [1, 2], object()])
def test_functions_of_weights_and_of_a_reader_name_what_they_want(tiny, given):
    split, texts, x = cx.decompose, cx.texts, X[0]
    calls = [(cx.positional_kernels, 9), (cx.content_scores, 9), (cx.attention_rows, x, 9)]
    calls += [(cx.approx_rows, x, 9), (split.positional_keys, 9), (split.content_keys, 9)]
    calls += [(split.attention_pattern, x), (split.approx_pattern, x), (split.shared_scale,)]
    calls += [(split.fixed_query, 9), (split.content_scale, 9), (split.qk_direction_at, x, 9)]
    for call, *more in calls:
        with pytest.raises(TypeError, match=r"where weights is wanted: cx\.LayerWeights"):
            call(given, *more)
    calls = [(texts.passages,), (texts.collection, 3), (texts.encode, "a"), (texts.windows, "a")]
    calls += [(texts.decode_tokens, [1]), (texts.Reader.of,)]
    for call, *more in calls:
        with pytest.raises(TypeError, match="where a reader is wanted: give a model, weights"):
            call(given, *more)
    if not isinstance(given, str):
        for call in (texts.encode, texts.windows, texts.all_tokens):
            with pytest.raises(TypeError, match="where a string is wanted"):
                call(tiny, given)
    with pytest.raises(TypeError, match="where a tensor is wanted"):
        cx.layer_norm(given, 1e-5)


@pytest.mark.parametrize("given", [None, 3, "the", [1, 2], object()])
def test_what_takes_tensors_or_paths_says_so(tiny, tiny_weights, circuit, given):
    split, fixed, x = cx.decompose, circuit.fixed, X[0, :9]
    calls = [partial(split.content_component, tiny_weights, n=9), split.causal_softmax]
    calls += [partial(split.positional_component, tiny_weights, n=9)]
    calls += [partial(split.weighted_sum, x=x, share=V[:, 0]), partial(fixed.decomposition.z, X)]
    calls += [partial(split.split_scores, tiny_weights, x)]
    calls += [partial(split.split_values, tiny_weights, x, heads=[0])]
    for call in calls:
        with pytest.raises(TypeError, match="where a tensor is wanted"):
            call(given)
    with pytest.raises((TypeError, ValueError), match=r"where a list is wanted|has none of these"):
        look.hooks.at_last_token(tiny, [X[0]], given, 1)
    if not isinstance(given, str):
        for call in (partial(cx.texts.labeled, tiny), circuit.save, circuit.load):
            with pytest.raises(TypeError, match="where a path is wanted"):
                call(given)


@pytest.mark.parametrize("given", [3, [1, 2], object()])
def test_what_takes_a_model_an_array_prompts_or_a_client_says_so(tiny, circuit, given):
    rules, adapter, auc = explain.RuleExplainer(tiny.tokenizer), cx.adapter, cx.neurons.auc
    prompts, inside = explain.Prompts(*[("a",)] * 4), np.array([True, True, False, False])
    calls = {
        "a model": [adapter.act_fn, partial(adapter.upstream_layers, layer=0)],
        "a decoder": [partial(adapter.mlp_inputs, layer=0), partial(adapter.centered, v=V)],
        "a fixed query": [partial(cx.planes.interaction, tokens=X[0])],
        "an array": [partial(auc, inside=inside), partial(auc, V.numpy())],
        "prompts": [explain.shuffled, partial(explain.score, rules)],
        "an explainer": [partial(explain.score, prompts=prompts)],
        "a client": [lambda client: cx.evaluate(circuit, X, client=client)],
        "a string": [rules.facts, partial(rules.classify, prompts=["a"]), cx.models.locate],
    }
    calls["a model"].append(cx.weights.has_positions)
    for kind, several in calls.items():
        for call in several:
            with pytest.raises(TypeError, match=f"{type(given).__name__} where {kind} is wanted: "):
                call(given)


def test_ids_and_lengths_are_whole_numbers(tiny, tiny_weights, circuit):
    for call in (cx.decompose.content_keys, cx.decompose.content_scale, cx.content_scores):
        with pytest.raises(TypeError, match=r"Tensor torch.float32 where token ids are wanted"):
            call(tiny_weights, 9, tokens=V[0])
    with pytest.raises(TypeError, match=r"Tensor torch.float32 where token ids are wanted"):
        cx.planes.interaction(circuit.fixed, V[0])
    for length, said in ((9, "position 9: there are positions 0 to 8"), (1.5, "a whole number")):
        with pytest.raises(ValueError, match=said):
            next(cx.texts.prepare_batches(tiny, X, 9, 5, length))
    with pytest.raises(ValueError, match="token id 'x': give a whole number"):
        cx.texts.decode_tokens(tiny, "x")


@pytest.mark.parametrize("given", [1.5, "a", X[0], object()])
def test_a_study_is_of_several_texts(circuit, given):
    for name in ("texts", "labeled"):
        with pytest.raises(ValueError, match="where a list of texts is expected"):
            cx.study(circuit.fixed, **{"texts": [], name: given})


@pytest.mark.parametrize("given", [torch.tensor(1.5), torch.rand(5)])
def test_a_tensor_of_another_shape_is_named_with_the_sizes_that_are_wanted(
    tiny, tiny_weights, circuit, given
):
    split, w, x, fixed = cx.decompose, tiny_weights, X[0, :9], circuit.fixed
    texts, any_one = fixed.prepare(X), cx.evaluation.r_and_fvu
    calls = {
        "24, any": [partial(split.content_component, w, n=9)],
        "24": [partial(split.queries_of, w), w.pre_activations],
        "3, 8": [partial(split.qk_direction, w)],
        "9": [partial(split.weighted_sum, V, x)],
        "3, 9, 8": [partial(split.split_scores, w, x)],
        "2, 9, 9": [lambda rows: split.split_values(w, x, rows, [0, 1])],
        "any, any, any": [split.causal_softmax],
        "3, 24": [partial(fixed.resid_mid, texts), partial(fixed.mlp, texts)],
        "3, any": [partial(look.circuit_z, circuit, X[0])],
        "any, 24": [partial(layers.logits, tiny)],
        "any, any": [cx.heads.family_table, lambda truth: any_one(V, truth, [*"aabbc"])],
    }
    calls["24, any"].append(partial(split.positional_component, w, n=9))
    calls["3, 24"].append(lambda outputs: fixed.to_neurons(texts, outputs, [0]))
    calls["any, any"].append(partial(split.weighted_sum, x=x, share=V[:, 0]))
    calls["any, any"].append(lambda W_E: cx.texts.untrained_tokens(W_E, tiny.tokenizer))
    shape = [*given.shape]
    for sizes, several in calls.items():
        for call in several:
            with pytest.raises(ValueError, match=rf"^a tensor of shape \{shape} where ") as caught:
                call(given)
            assert str(caught.value).endswith(f" where [..., {sizes}] is wanted")


def test_sizes_seeds_and_counts_are_whole_numbers_that_there_are(tiny, circuit):
    prompts, vocabulary = explain.Prompts(*[("a",)] * 4), circuit.fixed.d_vocab
    for seed in (-1, 1.5, "x", None):
        with pytest.raises(ValueError, match=r"^seed .*: (there are seeds 0|give a whole number)"):
            explain.shuffled(prompts, seed)
    for size in (0, -1, None, "x"):
        with pytest.raises(ValueError, match=r"^token id 0: there are|^number of .*: give a"):
            cx.texts.without_token(tiny.tokenizer, size)
    for ids in ([-1], [vocabulary], vocabulary):
        with pytest.raises(ValueError, match=r"^token id \S+: there are token ids 0 to 299$"):
            cx.texts.decode_tokens(tiny, ids)
    with pytest.raises(ValueError, match=r"^2 neurons for the moments of 3: name each$"):
        rate.Moments.of(V, V).table([0, 1])
    for values, inside in ((V[:, 0], V[:, 0] > 0), (V, V[0] > 0)):
        with pytest.raises(ValueError, match=r"^values .* for texts .*: give one for each$"):
            cx.neurons.auc(values.numpy(), inside.numpy())
    with pytest.raises(TypeError, match=r"^NoneType where a list is wanted"):
        look.random_neurons(tiny, 2, [1], None)
    with pytest.raises(ValueError, match=r"^no texts: give at least one$"):
        hooks.pad(tiny, [])
