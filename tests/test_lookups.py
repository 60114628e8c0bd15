"""Look-ups: terms against the model as transformers runs it, searches against plain loops."""

from collections import Counter
from functools import cache, partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped
from transformer_lens.model_bridge import TransformerBridge
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MptConfig,
    MptForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.pytorch_utils import Conv1D

import ctxlib as cx
from ctxlib.decoders import causal, lookups

near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4, check_dtype=False)  # float32

seeds = st.integers(0, 999)
lengths = st.integers(2, 32)

# ---------------------------------------------------------------- models of every kind

EPS = 0.3  # where a config has it by a name of its own: large enough to be seen
IDS = {"vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0}
ROOM = {"max_position_embeddings": 32}
WIDE = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3}
INNER = {"intermediate_size": 40}
GROUPED = {
    **IDS,
    **ROOM,
    **WIDE,
    **INNER,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": EPS,
}
NEOX = {**IDS, **ROOM, **WIDE, **INNER, "rotary_pct": 0.5, "layer_norm_eps": EPS}


def of_kind(model, config, options, *places):
    """How to make one, and where transformers keeps its parts: the blocks; in each the way out of
    the heads, the normalisation in front of the MLP, the way into it (its gate, where there is
    one) and out of it; the last normalisation.
    """
    names = ("blocks", "out_of_heads", "norm", "into", "out_of", "last_norm")
    parts = dict(zip(names, places, strict=True))
    return SimpleNamespace(make=lambda: model(config(**options)), **parts)


def neox(**options):
    return of_kind(
        GPTNeoXForCausalLM,
        GPTNeoXConfig,
        NEOX | options,
        "gpt_neox.layers",
        "attention.dense",
        "post_attention_layernorm",
        "mlp.dense_h_to_4h",
        "mlp.dense_4h_to_h",
        "gpt_neox.final_layer_norm",
    )


def gated(model, config):
    return of_kind(
        model,
        config,
        GROUPED,
        "model.layers",
        "self_attn.o_proj",
        "post_attention_layernorm",
        "mlp.gate_proj",
        "mlp.down_proj",
        "model.norm",
    )


KINDS = {
    "GPT-2": of_kind(
        GPT2LMHeadModel,
        GPT2Config,
        {**IDS, "n_positions": 32, "n_embd": 24, "n_head": 3, "n_layer": 3, "n_inner": 40}
        | {"layer_norm_epsilon": EPS},
        "transformer.h",
        "attn.c_proj",
        "ln_2",
        "mlp.c_fc",
        "mlp.c_proj",
        "transformer.ln_f",
    ),
    "NeoX, parallel": neox(),
    "NeoX, sequential": neox(use_parallel_residual=False),
    "Bloom": of_kind(
        BloomForCausalLM,
        BloomConfig,
        {**IDS, "hidden_size": 24, "n_layer": 3, "n_head": 3},
        "transformer.h",
        "self_attention.dense",
        "post_attention_layernorm",
        "mlp.dense_h_to_4h",
        "mlp.dense_4h_to_h",
        "transformer.ln_f",
    ),
    "MPT": of_kind(
        MptForCausalLM,
        MptConfig,
        {**IDS, "d_model": 24, "n_layers": 3, "n_heads": 3, "max_seq_len": 32},
        "transformer.blocks",
        "attn.out_proj",
        "norm_2",
        "ffn.up_proj",
        "ffn.down_proj",
        "transformer.norm_f",
    ),
    "GPT-J": of_kind(
        GPTJForCausalLM,
        GPTJConfig,
        {**IDS, "n_embd": 24, "n_layer": 3, "n_head": 3, "n_positions": 32, "rotary_dim": 4},
        "transformer.h",
        "attn.out_proj",
        "ln_1",
        "mlp.fc_in",
        "mlp.fc_out",
        "transformer.ln_f",
    ),
    "GPT-Neo": of_kind(
        GPTNeoForCausalLM,
        GPTNeoConfig,
        {
            **(IDS | ROOM | INNER),
            "hidden_size": 24,
            "num_layers": 3,
            "num_heads": 3,
            "attention_types": [[["global", "local", "local"], 1]],
            "window_size": 8,
        },
        "transformer.h",
        "attn.attention.out_proj",
        "ln_2",
        "mlp.c_fc",
        "mlp.c_proj",
        "transformer.ln_f",
    ),
    "OPT": of_kind(
        OPTForCausalLM,
        OPTConfig,
        {**IDS, **ROOM, **WIDE, "ffn_dim": 40, "word_embed_proj_dim": 24, "pad_token_id": 1},
        "model.decoder.layers",
        "self_attn.out_proj",
        "final_layer_norm",
        "fc1",
        "fc2",
        "model.decoder.final_layer_norm",
    ),
    "Llama": gated(LlamaForCausalLM, LlamaConfig),
    "Qwen2": gated(Qwen2ForCausalLM, Qwen2Config),
    "Phi": of_kind(
        PhiForCausalLM,
        PhiConfig,
        {**IDS, **ROOM, **WIDE, **INNER},
        "model.layers",
        "self_attn.dense",
        "input_layernorm",
        "mlp.fc1",
        "mlp.fc2",
        "model.final_layernorm",
    ),
}
PARALLEL = {"NeoX, parallel", "GPT-J", "Phi"}
RMS = {"Llama", "Qwen2"}
every_kind = pytest.mark.parametrize("kind", KINDS)
a_few_kinds = pytest.mark.parametrize("kind", ["GPT-2", "NeoX, parallel", "Bloom", "OPT", "Llama"])
NEURONS = (0, 17, 39)
TERMS = ("heads", "mlps", "embedding", "bias", "scale", "pre_activation")


@pytest.fixture(scope="module")
def of(of_kind):
    """A function that makes a random model of a kind, once: `model` as cx.load gives it, `plain`
    as transformers runs it, unfolded and in float64.
    """

    @cache
    def load(kind):
        made = of_kind(kind)
        plain = AutoModelForCausalLM.from_pretrained(
            made.folder, dtype=torch.float64, attn_implementation="eager"
        )
        plain = plain.eval().requires_grad_(False)
        return SimpleNamespace(**vars(made), plain=plain)

    return load


def draw_text(length, seed=0, vocab=300):
    source = torch.Generator().manual_seed(seed)
    return torch.cat([torch.tensor([0]), torch.randint(1, vocab, (length - 1,), generator=source)])


def draw_texts(*lengths, vocab=300):
    return [draw_text(length, number, vocab) for number, length in enumerate(lengths)]


PROMPTS = draw_texts(5, 17, 2, 32, 9, 17)  # two batches, of different lengths


@pytest.fixture(scope="module")
def gemma2(make_folder):
    """Normalises what its heads write before it is added, and caps its logits."""
    config = Gemma2Config(**GROUPED, head_dim=8)
    folder = make_folder(Gemma2ForCausalLM(config), seed=3)
    plain = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    return SimpleNamespace(model=cx.load(folder), plain=plain)


@pytest.fixture(scope="module")
def unfolded(tiny_folder):
    hf_model, tokenizer = (
        cls.from_pretrained(tiny_folder) for cls in (AutoModelForCausalLM, AutoTokenizer)
    )
    return TransformerBridge.boot_transformers(
        str(tiny_folder), hf_model=hf_model, tokenizer=tokenizer, device="cpu"
    )


# ---------------------------------------------------------------- the model, untouched


def parts_of(case, layer):
    kind, block = KINDS[case.kind], case.plain.get_submodule(KINDS[case.kind].blocks)[layer]
    return SimpleNamespace(
        block=block,
        **{
            name: block.get_submodule(getattr(kind, name))
            for name in ("out_of_heads", "norm", "into", "out_of")
        },
    )


def matrix(module):
    """The weights, from what comes in to what goes out."""
    return module.weight if isinstance(module, Conv1D) else module.weight.T


def bias(module, size):
    own = getattr(module, "bias", None)
    return torch.zeros(size, dtype=torch.float64) if own is None else own


def eps_of(norm):
    return getattr(norm, "eps", None) or norm.variance_epsilon


def run_plain(case, tokens, changes=()):
    """What goes in and out of every part at the last token, and the logits there. `changes` are
    (part, function) pairs: a function of what goes in gives what goes in instead.
    """
    held, handles = {}, []

    def last(value):
        return value.detach().reshape(-1, value.shape[-1])[-1]  # OPT has no batch in its MLP

    def going_in(module, args, key):
        held["in", *key] = last(args[0])

    def going_out(module, args, out, key):
        held["out", *key] = last(out)

    for part, change in changes:
        handles.append(
            part.register_forward_pre_hook(lambda module, args, f=change: (f(args[0].clone()),))
        )
    for layer in range(3):
        for name, part in vars(parts_of(case, layer)).items():
            key = (name, layer)
            handles.append(part.register_forward_pre_hook(partial(going_in, key=key)))
            if name != "block":
                handles.append(part.register_forward_hook(partial(going_out, key=key)))
    norm = case.plain.get_submodule(KINDS[case.kind].last_norm)
    handles.append(norm.register_forward_pre_hook(partial(going_in, key=("last norm",))))
    with torch.no_grad():
        held["logits"] = case.plain(tokens[None]).logits[0, -1]
    for handle in handles:
        handle.remove()
    return held


def scale_by_hand(case, norm, stream):
    v = stream if case.kind in RMS else stream - stream.mean()
    return (v.pow(2).mean() + eps_of(norm)).sqrt()


def plain_terms(case, tokens, layer, neuron):
    """A neuron's terms from unfolded weights and what the untouched model holds."""
    held, own = run_plain(case, tokens), parts_of(case, layer)
    stream = held["in", "norm", layer]
    d_model, scale = len(stream), scale_by_hand(case, own.norm, stream)
    w = matrix(own.into)[:, neuron]

    def read(v):
        centred = v if case.kind in RMS else v - v.mean(-1, keepdim=True)
        return centred * own.norm.weight @ w / scale

    n_heads = case.model.cfg.n_heads
    feeding = range(layer if case.kind in PARALLEL else layer + 1)
    heads = torch.zeros(len(feeding), n_heads, dtype=torch.float64)
    total_bias = bias(own.into, 500)[neuron] + bias(own.norm, d_model) @ w
    for k in feeding:
        out = parts_of(case, k).out_of_heads
        z = held["in", "out_of_heads", k].reshape(n_heads, -1)
        W_O = matrix(out).reshape(n_heads, -1, d_model)
        for i in range(n_heads):
            heads[k, i] = read(z[i] @ W_O[i])
        total_bias = total_bias + read(bias(out, d_model))
    return SimpleNamespace(
        heads=heads,
        mlps=torch.tensor([read(held["out", "out_of", k]) for k in range(layer)]),
        embedding=read(held["in", "block", 0]),
        bias=total_bias,
        scale=scale,
        pre_activation=held["out", "into", layer][neuron],
    )


@every_kind
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_terms_are_those_of_the_untouched_model(of, kind, layer):
    case = of(kind)
    for neuron in NEURONS:
        terms = lookups.attribution(case.model, layer, neuron, PROMPTS)
        n_feeding = layer if kind in PARALLEL else layer + 1
        assert terms.heads.shape == (len(PROMPTS), n_feeding, case.model.cfg.n_heads)
        assert terms.mlps.shape == (len(PROMPTS), layer)
        assert (terms.layer, terms.neuron) == (layer, neuron)
        for p, tokens in enumerate(PROMPTS):
            truth = plain_terms(case, tokens, layer, neuron)
            for name, value in vars(truth).items():
                near(getattr(terms, name)[p], value.detach().to(torch.float32))
            near(terms.total()[p], truth.pre_activation)


def recorded(model, tokens, hooks=()):
    """What the folded model's hooks hold on one text, alone and without filling, at its end."""
    with torch.no_grad(), model.hooks(fwd_hooks=list(hooks)):
        _, held = model.run_with_cache(tokens[None])
    return {name: value[0, -1] for name, value in held.items() if value.shape[:1] == (1,)}


def reads(model, layer):
    """A layer's input weights and biases in float64, those of the gate where there is one."""
    mlp = model.blocks[layer].mlp
    W, b = (mlp.W_in, mlp.b_in) if mlp.W_gate is None else (mlp.W_gate, None)
    return W.double(), torch.zeros(W.shape[1]).double() if b is None else b.double()


def in_front_of(case, held, layer):
    """The stream that the MLP reads, in float64."""
    stream = held[f"blocks.{layer}.hook_resid_pre"].double()
    if case.kind not in PARALLEL:
        stream = stream + held[f"blocks.{layer}.hook_attn_out"].double()
    return stream


def divisor(case, stream):
    """LayerNorm's by torch: how much smaller its output is than what came in; RMSNorm's by hand."""
    eps = case.model.cfg.eps
    if case.kind in RMS:
        return (stream.pow(2).mean() + eps).sqrt()
    out = torch.nn.functional.layer_norm(stream, stream.shape, eps=eps)
    return (stream - stream.mean()).norm() / out.norm()


def test_heads_above_a_neuron_are_not_among_those_that_feed_it(of):
    sequential = lookups.attribution(of("GPT-2").model, 1, 7, PROMPTS)
    sequential.of(1, 2)
    parallel = lookups.attribution(of("NeoX, parallel").model, 1, 7, PROMPTS)
    parallel.of(0, 2)
    first = lookups.attribution(of("Phi").model, 0, 7, PROMPTS)
    for terms, layer, head in [
        (sequential, 2, 0),
        (sequential, -1, 0),
        (sequential, 0, 3),
        (sequential, 0, -1),
        (parallel, 1, 0),
        (first, 0, 0),
    ]:
        with pytest.raises(ValueError, match=f"head {head} of layer {layer}: 3 heads of"):
            terms.of(layer, head)


# ---------------------------------------------------------------- a term is an intervention


def without(case, terms, held, layer, term, h):
    """The pre-activation once `h` is gone: its term is missing from the numerator, and LayerNorm
    divides by the scale of what is left.
    """
    _, b = reads(case.model, layer)
    stream = in_front_of(case, held, layer)
    before, after = divisor(case, stream), divisor(case, stream - h)
    return (terms.pre_activation[0] - b[7] - term) * before / after + b[7]


def head_output(model, held, layer, head):
    z = held[f"blocks.{layer}.attn.hook_z"][head].double()
    return z @ model.blocks[layer].attn.W_O[head].double()


@every_kind
def test_a_head_taken_out_of_what_the_MLP_reads_takes_its_term_away(of, kind):
    """The direct path: everything between the head and the neuron stays as it was."""
    case = of(kind)
    point = "hook_resid_pre" if kind in PARALLEL else "hook_resid_mid"
    for layer, tokens in ((0, PROMPTS[0]), (2, PROMPTS[1])):
        terms = lookups.attribution(case.model, layer, 7, [tokens])
        held = recorded(case.model, tokens)
        for k, head in np.ndindex(*terms.heads.shape[1:]):
            h = head_output(case.model, held, k, head)

            def take_away(stream, hook, h=h):
                stream = stream.clone()
                stream[:, -1] -= h.float()
                return stream

            changed = recorded(case.model, tokens, [(f"blocks.{layer}.{point}", take_away)])
            near(
                changed[f"blocks.{layer}.mlp.hook_pre"][7],
                without(case, terms, held, layer, terms.of(k, head)[0], h),
            )


# ---------------------------------------------------------------- prompts in any order


@pytest.mark.parametrize("size", [1, 2, 100])
@a_few_kinds
def test_prompts_mean_the_same_alone_and_together(of, kind, size, monkeypatch):
    case = of(kind)
    monkeypatch.setattr(lookups, "TEXTS_AT_A_TIME", size)
    together = lookups.attribution(case.model, 2, 7, PROMPTS)
    outcomes = lookups.outcome(case.model, 2, 7, PROMPTS, 11)
    for p, tokens in enumerate(PROMPTS):
        alone = lookups.attribution(case.model, 2, 7, [tokens])
        for name in TERMS:
            near(getattr(alone, name)[0], getattr(together, name)[p])
        outcome = lookups.outcome(case.model, 2, 7, [tokens], 11)
        near(outcome.log_probability[0], outcomes.log_probability[p])
        near(outcome.pre_activation[0], outcomes.pre_activation[p])


@given(st.lists(lengths, min_size=1, max_size=9), st.randoms(use_true_random=False), seeds)
def test_prompts_in_any_order_have_their_own_terms(tiny, many, random, seed):
    prompts = [draw_text(length, seed + i) for i, length in enumerate(many)]
    order = list(range(len(prompts)))
    random.shuffle(order)
    terms = lookups.attribution(tiny, 1, 7, prompts)
    shuffled = lookups.attribution(tiny, 1, 7, [prompts[i] for i in order])
    for name in TERMS:
        near(getattr(shuffled, name), getattr(terms, name)[order])
    near(terms.total(), terms.pre_activation)


def test_prompts_read_once_serve_every_neuron(of):
    for kind in ("GPT-2", "NeoX, parallel", "Llama"):
        model = of(kind).model
        reading = lookups.read_prompts(model, PROMPTS)
        part = lookups.read_prompts(model, PROMPTS, 2)
        for layer in range(3):
            for neuron in NEURONS:
                terms = lookups.attribution(model, layer, neuron, PROMPTS)
                read = [reading] if layer == 2 else [reading, part]
                for again in (lookups.attribution(model, layer, neuron, r) for r in read):
                    for name in TERMS:
                        near(getattr(again, name), getattr(terms, name))
        with pytest.raises(ValueError, match=r"layer 2 was not read: .* behind layer 1"):
            lookups.attribution(model, 2, 7, part)


def test_a_reading_holds_what_the_model_holds_at_the_last_tokens(of):
    model = of("GPT-2").model
    reading = lookups.read_prompts(model, PROMPTS)
    for p, tokens in enumerate(PROMPTS):
        held = recorded(model, tokens)
        near(reading.embedding[p], model.W_E[tokens[-1]] + model.W_pos[len(tokens) - 1])
        for layer in range(3):
            near(reading.z[p, layer], held[f"blocks.{layer}.attn.hook_z"])
            near(reading.mlp_out[p, layer], held[f"blocks.{layer}.hook_mlp_out"])
            near(reading.pre_activation[p, layer], held[f"blocks.{layer}.mlp.hook_pre"])


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_model_that_normalises_what_its_heads_write_is_refused(gemma2, layer):
    for neuron in NEURONS:
        with pytest.raises(ValueError, match=r"do not add up .* normalises or scales"):
            lookups.attribution(gemma2.model, layer, neuron, PROMPTS)


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("part", ["heads", "mlps", "embedding", "bias", "pre_activation"])
def test_terms_that_do_not_add_up_are_refused_at_any_size(size, part):
    parts = {
        "heads": torch.full((3, 2, 4), size),
        "mlps": torch.full((3, 1), -size),
        "embedding": torch.full((3,), size),
        "bias": torch.full((3,), -size),
    }
    total = 8 * size - size + size - size

    def terms(missing):
        pre = torch.full((3,), total)
        pre[1] += missing * 11 * size  # 11 terms of this size
        return lookups.Attribution(0, 5, **parts, scale=torch.ones(3), pre_activation=pre)

    lookups.check_sum(terms(0))
    lookups.check_sum(terms(0.95e-3))
    for missing in (1.05e-3, -1.05e-3, 1.0):
        with pytest.raises(ValueError, match="layer 0"):
            lookups.check_sum(terms(missing))
    damaged = terms(0)
    getattr(damaged, part)[2] = float("nan")
    with pytest.raises(ValueError, match="do not add up"):
        lookups.check_sum(damaged)


ASK = {
    "congruence": lambda model, layer, neuron: lookups.congruence(model, layer),
    "next token": lambda model, layer, neuron: lookups.next_token_neurons(model, [layer]),
    "random": lambda model, layer, neuron: lookups.random_neurons(model, 3, [layer]),
    "prompts": lambda model, layer, neuron: lookups.top_prompts(model, PROMPTS, [(layer, neuron)]),
    "terms": lambda model, layer, neuron: lookups.attribution(model, layer, neuron, PROMPTS),
    "outcome": lambda model, layer, neuron: lookups.outcome(model, layer, neuron, PROMPTS, 5),
}
asks_any = pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
asks_a_neuron = pytest.mark.parametrize("name", ["prompts", "terms", "outcome"])


@asks_any
def test_a_model_that_is_not_folded_is_refused(unfolded, ask):
    with pytest.raises(ValueError, match=r"not folded: load it with cx\.load"):
        ask(unfolded, 0, 5)


@asks_any
@pytest.mark.parametrize("layer", [-1, 2])
def test_a_layer_that_does_not_exist_is_refused(tiny, ask, layer):
    with pytest.raises(ValueError, match=f"layer {layer}: the model has layers 0 to 1"):
        ask(tiny, layer, 5)


@asks_a_neuron
@pytest.mark.parametrize("neuron", [-1, 40])
def test_a_neuron_that_does_not_exist_is_refused(tiny, name, neuron):
    with pytest.raises(ValueError, match=f"neuron {neuron} of layer 1: it has neurons 0 to 39"):
        ASK[name](tiny, 1, neuron)


READ = {
    "prompts": lambda model, texts: lookups.top_prompts(model, texts, [(0, 5)]),
    "terms": lambda model, texts: lookups.attribution(model, 0, 5, texts),
    "reading": lambda model, texts: lookups.read_prompts(model, texts),
    "outcome": lambda model, texts: lookups.outcome(model, 0, 5, texts, 7),
}
reads_texts = pytest.mark.parametrize("read", READ.values(), ids=READ)


def stranger(number):
    text = draw_text(9)
    text[4] = number
    return text


@reads_texts
@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], r"no (texts|prompts): give at least one"),
        (PROMPTS[0], r"one text|brackets|shape \(\)"),
        *(
            (
                [*PROMPTS[:2], torch.zeros(n, dtype=torch.long)],
                rf"\({n},\): expected BOS and 1 to 31",
            )
            for n in (0, 1, 33)
        ),
        ([torch.ones(2, 9, dtype=torch.long)], r"shape \(2, 9\)"),
        ([*PROMPTS[:2], stranger(-1)], r"token ids .*-1.*ids 0 to 299"),
        ([*PROMPTS[:2], stranger(300)], r"token ids .*300.*ids 0 to 299"),
    ],
    ids=["none", "one", "empty", "BOS alone", "too long", "a stack", "below 0", "a stranger"],
)
def test_what_cannot_be_read_is_refused(tiny, read, texts, said):
    with pytest.raises(ValueError, match=said):
        read(tiny, texts)


@reads_texts
def test_a_text_may_fill_the_context(tiny, read):
    read(tiny, draw_texts(32, 2, 31, 32))


# ---------------------------------------------------------------- what a neuron says


def plain_congruence(case, layer):
    """From unfolded weights; what all tokens share says nothing about any of them."""
    norm = case.plain.get_submodule(KINDS[case.kind].last_norm)
    w = matrix(parts_of(case, layer).out_of)
    w = w if case.kind in RMS else w - w.mean(-1, keepdim=True)
    table = w * norm.weight @ case.plain.get_output_embeddings().weight.T
    return (table - table.mean(-1, keepdim=True)).detach()


@every_kind
def test_congruence_is_that_of_the_unfolded_weights(of, kind):
    case = of(kind)
    for layer in range(3):
        near(lookups.congruence(case.model, layer), plain_congruence(case, layer))


@every_kind
def test_one_unit_of_activation_moves_the_logits_by_the_congruence(of, kind):
    """In the untouched model: logits times the scale of the last normalisation are linear."""
    case, norm = of(kind), KINDS[kind].last_norm
    norm, head = case.plain.get_submodule(norm), case.plain.get_output_embeddings()
    constant = head.weight @ bias(norm, 24) + bias(head, 300)
    for neuron in NEURONS:

        def add_one(activations, neuron=neuron):
            activations[..., -1, neuron] += 1
            return activations

        numerators = []
        for changes in ([], [(parts_of(case, 2).out_of, add_one)]):
            held = run_plain(case, PROMPTS[0], changes)
            scale = scale_by_hand(case, norm, held["in", "last norm"])
            numerators.append((held["logits"] - constant) * scale)
        moved = (numerators[1] - numerators[0]).detach()
        near(lookups.congruence(case.model, 2)[neuron], moved - moved.mean())


# ---------------------------------------------------------------- neurons that predict a token


def clean_by_hand(model, layers):
    """A double loop over all neurons and tokens."""
    W_U = model.W_U.double()
    rows = {
        (layer, j): [float(w @ W_U[:, t]) for t in range(W_U.shape[1])]
        for layer in layers
        for j, w in enumerate(model.blocks[layer].mlp.W_out.double())
    }
    found = []
    for place, row in rows.items():
        token = max(range(len(row)), key=lambda t: row[t])
        others = [other[token] for key, other in rows.items() if key != place]
        if all(row[token] > other for other in others):
            second = max(c for t, c in enumerate(row) if t != token)
            margins = (row[token] - second, row[token] - max(others))
            found.append((*place, token, row[token], *margins))
    return sorted(found, key=lambda f: -f[3])


def as_by_hand(model, table, layers):
    found = clean_by_hand(model, layers)
    columns = ["layer", "neuron", "token", "congruence", "over_tokens", "over_neurons"]
    by_hand = pd.DataFrame(found, columns=columns)
    assert table.columns.tolist() == [*columns[:3], "text", *columns[3:]]
    pd.testing.assert_frame_equal(
        table.drop(columns="text"), by_hand, check_dtype=False, rtol=1e-4, atol=1e-5
    )
    assert table["text"].tolist() == [model.tokenizer.decode([t]) for t in table["token"]]
    return by_hand


def test_next_token_neurons_are_those_of_a_double_loop(tiny):
    found = as_by_hand(tiny, lookups.next_token_neurons(tiny), [0, 1])
    assert len(found) > 3, "nothing to compare"
    for layer in (0, 1):
        as_by_hand(tiny, lookups.next_token_neurons(tiny, [layer]), [layer])


def bare_model(n_layers, d_mlp, vocab, seed, d_model=3):
    """No more than what is looked at."""
    random = np.random.default_rng(seed)

    def draw(*shape):
        return torch.tensor(random.normal(size=shape), dtype=torch.float32)

    return SimpleNamespace(
        cfg=SimpleNamespace(n_layers=n_layers, d_mlp=d_mlp),
        blocks=[
            SimpleNamespace(mlp=SimpleNamespace(W_out=draw(d_mlp, d_model)))
            for _ in range(n_layers)
        ],
        W_U=draw(d_model, vocab),
        ln_final=torch.nn.Identity(),
        tokenizer=SimpleNamespace(decode=lambda ids: f"<{ids[0]}>"),
    )


@given(st.integers(1, 7), st.integers(2, 9), st.integers(2, 12), st.integers(1, 10), seeds)
def test_next_token_neurons_of_any_size_are_those_of_a_double_loop(
    n_layers, d_mlp, vocab, size, seed
):
    model = bare_model(n_layers, d_mlp, vocab, seed)
    with mock.patch.object(lookups, "NEURONS_AT_A_TIME", size):
        table = lookups.next_token_neurons(model)
    as_by_hand(model, table, range(max(0, n_layers - 5), n_layers))
    # both directions are clean: no neuron and no token twice
    assert table["token"].is_unique
    assert not table[["layer", "neuron"]].duplicated().any()
    assert (table["over_tokens"] > 0).all() and (table["over_neurons"] > 0).all()


@pytest.mark.parametrize("layers", [[5, 2, 3], [2, 5, 3, 3, 2], (2, 3, 5), np.array([3, 2, 5])])
def test_layers_to_search_come_in_any_order(layers):
    model = bare_model(7, 9, 50, seed=1)
    table = lookups.next_token_neurons(model, layers)
    as_by_hand(model, table, [2, 3, 5])
    assert set(table["layer"]) == {2, 3, 5}


def test_no_layers_to_search_are_refused(tiny):
    with pytest.raises(ValueError, match="no layers: name at least one"):
        lookups.next_token_neurons(tiny, [])


def test_where_neurons_say_the_same_none_stands_above_the_other():
    model = bare_model(2, 4, 9, seed=2)
    model.blocks[1].mlp.W_out = model.blocks[0].mlp.W_out.clone()
    table = lookups.next_token_neurons(model)
    assert (table["over_neurons"] == 0).all()
    assert table["token"].is_unique


# ---------------------------------------------------------------- neurons drawn at random


def test_random_neurons_are_different_ones_of_these_layers(tiny):
    drawn = lookups.random_neurons(tiny, 30, [1])
    assert len(set(drawn)) == 30
    assert {layer for layer, _ in drawn} == {1}
    assert all(0 <= neuron < 40 for _, neuron in drawn)
    assert drawn == lookups.random_neurons(tiny, 30, [1], seed=0)
    assert drawn != lookups.random_neurons(tiny, 30, [1], seed=1)


def test_all_neurons_but_the_excluded_can_be_drawn(tiny):
    out = [(0, 3), (1, 39), (1, 0)]
    drawn = lookups.random_neurons(tiny, 77, [0, 1], iter(out))
    assert set(drawn) == {(k, j) for k in (0, 1) for j in range(40)} - set(out)
    with pytest.raises(ValueError, match="count=78: there are 77 neurons"):
        lookups.random_neurons(tiny, 78, [0, 1], out)


def test_each_neuron_is_drawn_as_often_as_any_other(tiny):
    often = Counter(
        n for seed in range(800) for n in lookups.random_neurons(tiny, 8, [0, 1], seed=seed)
    )
    assert len(often) == 80
    # 800 draws of one in ten each: 80 give or take 8.5
    assert all(45 < times < 115 for times in often.values())


@pytest.mark.parametrize("count", [0, -1, 41])
def test_a_count_of_neurons_that_there_are_not_is_refused(tiny, count):
    with pytest.raises(ValueError, match=f"count={count}: there are 40 neurons"):
        lookups.random_neurons(tiny, count, [0])


def test_a_layer_named_twice_has_each_neuron_once(tiny):
    assert len(set(lookups.random_neurons(tiny, 40, [0, 0]))) == 40


# ---------------------------------------------------------------- prompts that activate a neuron


def watch(model, texts):
    """Pre-activations of every text alone and whole, `[text][layer]`."""
    names = [f"blocks.{layer}.mlp.hook_pre" for layer in range(model.cfg.n_layers)]
    with torch.no_grad():
        held = [model.run_with_cache(text[None], names_filter=names)[1] for text in texts]
    return [[of_text[name][0] for name in names] for of_text in held]


def loudest(watched, layer, neuron, count):
    """Where each text peaks behind BOS, the loudest first."""
    found = []
    for number, of_text in enumerate(watched):
        pre = of_text[layer][:, neuron].tolist()
        place = max(range(1, len(pre)), key=lambda i: pre[i])
        found.append((pre[place], number, place))
    found.sort(key=lambda f: -f[0])
    return [f for f in found[:count] if f[0] > 0]


def are_the_loudest(watched, prompts, texts, count):
    expected = loudest(watched, prompts.layer, prompts.neuron, count)
    assert len(prompts) == len(expected)
    assert prompts.text == [number for _, number, _ in expected]
    for tokens, (_, number, place) in zip(prompts.tokens, expected, strict=True):
        assert torch.equal(tokens, texts[number][: place + 1])
    near(prompts.activation, torch.tensor([value for value, *_ in expected]))


TEXTS = draw_texts(9, 32, 2, 17, 5, 30, 3, 12, 12, 25, 2)


@pytest.mark.parametrize("size", [1, 3, 100])
@a_few_kinds
def test_top_prompts_are_those_of_single_texts(of, kind, size, monkeypatch):
    model = of(kind).model
    monkeypatch.setattr(lookups, "TEXTS_AT_A_TIME", size)
    neurons = [(2, 17), (0, 3), (1, 39), (0, 8), (2, 17)]
    watched = watch(model, TEXTS)
    for count in (1, 4, 50):
        found = lookups.top_prompts(model, (text for text in TEXTS), neurons, count)
        assert [(p.layer, p.neuron) for p in found] == neurons
        for prompts in found:
            are_the_loudest(watched, prompts, TEXTS, count)


@given(
    st.lists(lengths, min_size=1, max_size=7),
    st.tuples(st.integers(0, 1), st.integers(0, 39)),
    st.integers(1, 8),
    st.sampled_from([1, 2, 4]),
    seeds,
)
def test_top_prompts_of_any_texts_are_those_of_single_texts(tiny, many, place, count, size, seed):
    texts = [draw_text(length, seed + i) for i, length in enumerate(many)]
    watched = watch(tiny, texts)
    with mock.patch.object(lookups, "TEXTS_AT_A_TIME", size):
        if not loudest(watched, *place, count):
            with pytest.raises(ValueError, match="no prompt activates it"):
                lookups.top_prompts(tiny, texts, [place], count)
            return
        (prompts,) = lookups.top_prompts(tiny, texts, [place], count)
    are_the_loudest(watched, prompts, texts, count)


def test_no_prompt_ends_at_bos(tiny):
    """Where BOS activates a neuron more than all that follows."""
    with torch.no_grad():
        _, held = tiny.run_with_cache(TEXTS[1][None])
    pre = held["blocks.1.mlp.hook_pre"][0]
    at_bos = [j for j in range(40) if pre[0, j] == pre[:, j].max() and pre[1:, j].max() > 0]
    assert at_bos
    found = lookups.top_prompts(tiny, TEXTS[1:2], [(1, j) for j in at_bos])
    for prompts in found:
        assert len(prompts.tokens[0]) > 1
        near(prompts.activation[0], pre[1:, prompts.neuron].max())


@pytest.fixture
def constant(tiny_folder):
    """A function that gives a model whose neuron (0, 3) is at one value everywhere."""

    def make(value):
        model = cx.load(tiny_folder)
        with torch.no_grad():
            model.blocks[0].mlp.W_in[:, 3] = 0
            model.blocks[0].mlp.b_in[3] = value
        return model

    return make


def test_equal_peaks_go_to_the_first_text_and_its_first_token(constant):
    (prompts,) = lookups.top_prompts(constant(0.25), TEXTS, [(0, 3)], 6)
    assert prompts.activation.tolist() == [0.25] * 6
    assert prompts.text == list(range(6))
    assert [tokens.tolist() for tokens in prompts.tokens] == [t[:2].tolist() for t in TEXTS[:6]]


@pytest.mark.parametrize("value", [0.0, -0.25])
def test_a_neuron_that_no_prompt_activates_is_named(constant, value):
    with pytest.raises(ValueError, match=rf"neuron 3 of layer 0: no prompt .* is {value:.2f}"):
        lookups.top_prompts(constant(value), TEXTS, [(1, 4), (0, 3)])


def test_labelled_texts_are_read_as_their_tokens(tiny):
    labelled = [cx.texts.Text("a", "war", "en-GB", "", "", tokens) for tokens in TEXTS]
    (prompts,) = lookups.top_prompts(tiny, labelled, [(1, 17)], 5)
    are_the_loudest(watch(tiny, TEXTS), prompts, TEXTS, 5)


def test_prompts_of_no_neuron_or_none_at_all_are_refused(tiny):
    with pytest.raises(ValueError, match="no neurons: name at least one"):
        lookups.top_prompts(tiny, TEXTS, [])
    for count in (0, -3):
        with pytest.raises(ValueError, match=f"count={count}: ask for at least one"):
            lookups.top_prompts(tiny, TEXTS, [(0, 3)], count)


# ---------------------------------------------------------------- prompts drawn at random


@given(st.lists(lengths, min_size=1, max_size=9), st.data(), seeds)
def test_random_prompts_are_beginnings_of_different_texts(many, data, seed):
    # the token behind BOS says which text it is
    texts = [
        torch.cat([torch.tensor([0, i + 1]), torch.arange(length - 2)])
        for i, length in enumerate(many)
    ]
    count = data.draw(st.integers(1, len(texts)))
    prompts = lookups.random_prompts(texts, count, seed)
    assert len(prompts) == count
    numbers = [int(tokens[1]) - 1 for tokens in prompts]
    assert len(set(numbers)) == count
    for tokens, number in zip(prompts, numbers, strict=True):
        assert 2 <= len(tokens) <= len(texts[number])
        assert torch.equal(tokens, texts[number][: len(tokens)])
    again = lookups.random_prompts(texts, count, seed)
    assert all(torch.equal(a, b) for a, b in zip(prompts, again, strict=True))


def test_random_prompts_are_cut_anywhere_and_come_from_everywhere():
    texts = [torch.tensor([0, i, 1, 2, 3, 4]) for i in range(4000)]
    prompts = lookups.random_prompts(texts, 2000)
    often = Counter(len(tokens) for tokens in prompts)
    assert set(often) == {2, 3, 4, 5, 6}
    assert all(310 < times < 490 for times in often.values())  # 400, give or take 18
    assert 1850 < np.mean([int(tokens[1]) for tokens in prompts]) < 2150
    other = lookups.random_prompts(texts, 2000, seed=1)
    assert [t.tolist() for t in other] != [t.tolist() for t in prompts]


def test_random_prompts_of_labelled_texts_are_those_of_their_tokens():
    labelled = [cx.texts.Text("a", "war", "en-GB", "", "", tokens) for tokens in TEXTS]
    for a, b in zip(
        lookups.random_prompts(labelled, 7), lookups.random_prompts(TEXTS, 7), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize("count", [0, -1, 12])
def test_more_random_prompts_than_texts_are_refused(count):
    with pytest.raises(ValueError, match=f"count={count}: there are 11 texts"):
        lookups.random_prompts(TEXTS, count)


@pytest.mark.parametrize("length", [0, 1])
def test_random_prompts_of_a_text_with_nothing_behind_bos_are_refused(length):
    texts = [*TEXTS, torch.zeros(length, dtype=torch.long)]
    with pytest.raises(ValueError, match=f"a text of {length} tokens has nothing behind BOS"):
        lookups.random_prompts(texts, 12)


# ---------------------------------------------------------------- what happens without


def same_outcome(outcome, case, layer, neuron, token, changes=(), prompts=PROMPTS):
    for p, tokens in enumerate(prompts):
        held = run_plain(case, tokens, changes)
        near(outcome.log_probability[p], held["logits"].log_softmax(-1)[token])
        near(outcome.pre_activation[p], held["out", "into", layer][neuron])


@every_kind
def test_an_outcome_is_that_of_the_untouched_model(of, kind):
    case = of(kind)
    for layer, neuron, token in [(0, 3, 7), (2, 39, 0), (1, 17, 299)]:
        outcome = lookups.outcome(case.model, layer, neuron, PROMPTS, token)
        same_outcome(outcome, case, layer, neuron, token)
        near(outcome.probability, outcome.log_probability.exp())


@every_kind
def test_an_outcome_with_heads_replaced_is_that_of_the_model_without_them(of, kind):
    case = of(kind)
    cfg = case.model.cfg
    mean = causal.mean_z(case.model, draw_texts(32, 32, 32), 32, 1)
    hooks = [
        causal.replace_z(0, [1], torch.zeros(32, 1, cfg.d_head)),
        causal.replace_z(1, [2, 0], mean[:, [2, 0]]),
    ]

    def silence(z):
        z[..., cfg.d_head : 2 * cfg.d_head] = 0
        return z

    def put_mean(z):
        for head in (0, 2):
            z[..., head * cfg.d_head : (head + 1) * cfg.d_head] = mean[: z.shape[1], head].double()
        return z

    changes = [
        (parts_of(case, 0).out_of_heads, silence),
        (parts_of(case, 1).out_of_heads, put_mean),
    ]
    before = lookups.outcome(case.model, 2, 17, PROMPTS, 7)
    outcome = lookups.outcome(case.model, 2, 17, PROMPTS, 7, hooks)
    same_outcome(outcome, case, 2, 17, 7, changes)
    assert (outcome.log_probability - before.log_probability).abs().max() > 0.01
    # and no hook stays behind
    after = lookups.outcome(case.model, 2, 17, PROMPTS, 7)
    assert torch.equal(after.log_probability, before.log_probability)
    assert torch.equal(after.pre_activation, before.pre_activation)


def test_hooks_are_gone_where_a_prompt_is_refused(tiny, tiny_tokens):
    with torch.no_grad():
        before = tiny(tiny_tokens[None])
        with pytest.raises(ValueError, match="expected BOS"):
            hooks = [causal.replace_z(0, [1], torch.zeros(32, 1, 8))]
            lookups.outcome(tiny, 0, 3, [*PROMPTS, torch.zeros(33, dtype=torch.long)], 7, hooks)
        assert torch.equal(tiny(tiny_tokens[None]), before)


@every_kind
def test_a_held_neuron_is_held_through_the_rest_of_the_model(of, kind):
    case = of(kind)
    size = case.model.cfg.d_head
    for layer, tokens in [(0, PROMPTS[0]), (2, PROMPTS[3])]:

        def put(activations):
            activations[..., -1, 17] = 4.0
            return activations

        def silence(z):
            z[..., size : 2 * size] = 0
            return z

        # held, it says what it is told to, whatever a silenced head takes from its inputs
        own = parts_of(case, layer)
        changes = [(own.out_of, put), (own.out_of_heads, silence)]
        hooks = [
            lookups.hold_neuron(layer, 17, 4.0),
            causal.replace_z(layer, [1], torch.zeros(32, 1, size)),
        ]
        for watched, neuron in [(layer, 17), (2, 3)]:
            outcome = lookups.outcome(case.model, watched, neuron, [tokens], 7, hooks)
            same_outcome(outcome, case, watched, neuron, 7, changes, [tokens])
        plain, held = (lookups.outcome(case.model, 2, 3, [tokens], 7, h) for h in ([], hooks[:1]))
        assert abs(held.log_probability - plain.log_probability) > 0.01


def test_holding_leaves_what_it_was_given_alone():
    name, hook = lookups.hold_neuron(1, 4, 2.5)
    own = torch.zeros(2, 5, 7)
    changed = hook(own, hook=None)
    assert name == "blocks.1.mlp.hook_post"
    assert (own == 0).all()
    assert changed.nonzero().tolist() == [[0, 4, 4], [1, 4, 4]]
    assert (changed[:, -1, 4] == 2.5).all()


@pytest.mark.parametrize("token", [-1, 300])
def test_a_token_outside_the_vocabulary_has_no_outcome(tiny, token):
    with pytest.raises(ValueError, match=f"token id {token}: the vocabulary has ids 0 to 299"):
        lookups.outcome(tiny, 0, 3, PROMPTS, token)


def test_a_gain_that_is_left_outside_the_unembedding_is_refused(make_folder):
    config = Olmo2Config(**IDS, **ROOM, **WIDE, **INNER, pad_token_id=1)
    model = cx.load(make_folder(Olmo2ForCausalLM(config), seed=3))
    for ask in (
        lambda: cx.decoders.congruence(model, 0),
        lambda: cx.decoders.next_token_neurons(model),
    ):
        with pytest.raises(ValueError, match="gain is not folded"):
            ask()


def test_an_outcome_knows_of_capped_logits(gemma2):
    outcome = lookups.outcome(gemma2.model, 1, 17, PROMPTS, 7)
    for p, tokens in enumerate(PROMPTS):
        with torch.no_grad():
            logits = gemma2.plain(tokens[None]).logits[0, -1]
        near(outcome.log_probability[p], logits.log_softmax(-1)[7])


# ---------------------------------------------------------------- on mini


@pytest.fixture(scope="module")
def real_prompts(mini):
    reader = cx.texts.Reader.of(mini, 96)
    passages = cx.texts.passages(reader)
    return [p.tokens[:length] for p, length in zip(passages, (96, 12, 50, 3, 77, 31), strict=False)]


def test_terms_add_up_on_real_prompts(mini, real_prompts):
    reading = lookups.read_prompts(mini, real_prompts)
    for layer in range(mini.cfg.n_layers):
        for neuron in range(0, mini.cfg.d_mlp, 97):
            terms = lookups.attribution(mini, layer, neuron, reading)
            assert (terms.total() - terms.pre_activation).abs().max() < 1e-4
    for tokens in real_prompts[:2]:
        held = recorded(mini, tokens)
        terms = lookups.attribution(mini, 2, 5, [tokens])
        near(terms.pre_activation[0], held["blocks.2.mlp.hook_pre"][5])


def test_prompts_of_mini_are_its_loudest(mini, real_prompts):
    neurons, watched = [(3, 11), (1, 60)], watch(mini, real_prompts)
    for prompts in lookups.top_prompts(mini, real_prompts, neurons, 4):
        are_the_loudest(watched, prompts, real_prompts, 4)


def test_next_token_neurons_of_mini_stand_highest_in_both_directions(mini):
    table = lookups.next_token_neurons(mini)
    assert len(table) > 20
    whole = torch.cat([lookups.congruence(mini, layer) for layer in range(mini.cfg.n_layers)])
    best_of_token = whole.argmax(0)
    clean = {
        (j // mini.cfg.d_mlp, j % mini.cfg.d_mlp, t)
        for j, t in enumerate(whole.argmax(1).tolist())
        if best_of_token[t] == j
    }
    assert {*zip(table["layer"], table["neuron"], table["token"], strict=True)} == clean
    assert table["congruence"].is_monotonic_decreasing


# ---------------------------------------------------------------- any model is given texts

SOURCE = "the doctor gave the patient the tablets; the telescope on the hill saw the moon. " * 3


@pytest.mark.parametrize("kind", ["GPT-2", "NeoX, parallel", "Bloom", "MPT", "OPT", "Llama"])
@pytest.mark.parametrize("n_ctx", [None, 9])
def test_texts_for_a_model_of_any_kind(of, kind, n_ctx, monkeypatch):
    monkeypatch.delenv("CTX_TEXTS", raising=False)
    model = of(kind).model
    reader = cx.texts.Reader.of(model, n_ctx)
    most = n_ctx or model.cfg.n_ctx
    assert (reader.n_ctx, reader.d_vocab) == (most, 300)
    body = reader.tokenizer.encode(SOURCE, add_special_tokens=False)
    assert cx.texts.encode(reader, SOURCE, 7).tolist() == [0, *body[:6]]
    pieces = cx.texts.windows(reader, SOURCE, 9)
    assert [p.tolist() for p in pieces] == [
        [0, *body[i : i + 8]] for i in range(0, len(body) - 7, 8)
    ]
    passage = cx.texts.passages(reader, domains=["astronomy"])[0]
    whole = reader.tokenizer.encode(passage.source, add_special_tokens=False)
    assert passage.tokens.tolist() == [0, *whole[: most - 1]]
    drawn = cx.texts.collection(reader, 3)  # in this model's words
    assert len(drawn) == 3
    for text in drawn:
        again = reader.tokenizer.encode(text.source, add_special_tokens=False)
        assert text.tokens.tolist() == [0, *again[: most - 1]]
    if most <= 32:  # and the model reads them
        found = lookups.read_prompts(model, [text.tokens for text in drawn])
        assert found.embedding.shape == (3, 24)


@pytest.mark.parametrize("n_ctx", [33, 1, 0, -4])
def test_a_reader_of_another_length_than_the_models_is_refused(tiny, n_ctx):
    with pytest.raises(ValueError, match=rf"n_ctx={n_ctx}: choose 2 to 32, the model's context"):
        cx.texts.Reader.of(tiny, n_ctx)
    assert cx.texts.Reader.of(tiny, 2).n_ctx == 2
    assert cx.texts.Reader.of(tiny, 32) == cx.texts.Reader.of(tiny)


def test_a_reader_is_given_what_weights_are_given(tiny, tiny_weights, mini, mini_weights):
    reader = cx.texts.Reader.of(tiny)
    assert cx.texts.encode(reader, SOURCE, 20).tolist() == (
        cx.texts.encode(tiny_weights, SOURCE, 20).tolist()
    )
    for a, b in zip(cx.texts.passages(reader), cx.texts.passages(tiny_weights), strict=True):
        assert (a.name, a.domain, a.tokens.tolist()) == (b.name, b.domain, b.tokens.tolist())
    own = cx.texts.collection(cx.texts.Reader.of(mini), 5)
    for a, b in zip(own, cx.texts.collection(mini_weights, 5), strict=True):
        assert (a.name, a.source, a.tokens.tolist()) == (b.name, b.source, b.tokens.tolist())
    short = cx.texts.collection(cx.texts.Reader.of(mini, 40), 5)
    for a, b in zip(short, own, strict=True):
        assert a.tokens.tolist() == b.tokens[:40].tolist()


def test_a_folder_of_texts_is_cut_to_what_the_reader_reads(of, tmp_path):
    (tmp_path / "hospital.txt").write_text(SOURCE, encoding="utf-8")
    reader = cx.texts.Reader.of(of("Llama").model, 9)
    found = cx.texts.collection(reader, 5, tmp_path)
    body = reader.tokenizer.encode(SOURCE.strip("\n"), add_special_tokens=False)
    assert [t.tokens.tolist() for t in found] == [[0, *body[8 * i : 8 * i + 8]] for i in range(5)]


def test_texts_start_with_EOS_where_there_is_no_BOS(toy_tokenizer):
    backend = toy_tokenizer.backend_tokenizer
    both, end = toy_tokenizer.bos_token, "the"
    assert toy_tokenizer.convert_tokens_to_ids(end) not in (0, None)
    only_eos = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, unk_token=both)
    ids = cx.texts.encode(cx.texts.Reader(only_eos, 32, 300), "a hill", 3)
    assert ids[0] == toy_tokenizer.convert_tokens_to_ids(end)
    apart = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=both, eos_token=end, unk_token=both
    )
    assert cx.texts.encode(cx.texts.Reader(apart, 32, 300), "a hill", 3)[0] == 0
    neither = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=both)
    with pytest.raises(ValueError, match="neither a BOS nor an EOS token"):
        cx.texts.encode(cx.texts.Reader(neither, 32, 300), "a hill", 3)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(tiny, of, monkeypatch):
    # one name for the lengths of all texts: jaxtyping takes them for equal
    texts = draw_texts(12, 12, 12, 12, 12, 12)
    terms = lookups.attribution(of("Phi").model, 1, 17, PROMPTS)
    calls = [
        (lookups.congruence, (tiny, 1)),
        (lookups.next_token_neurons, (tiny, [1])),
        (lookups.random_neurons, (tiny, 3, [0, 1], [(0, 3)])),
        (lookups.top_prompts, (tiny, texts, [(1, 17), (1, 30)])),
        (lookups.random_prompts, ([t[:2] for t in texts], 5)),
        (lookups.read_prompts, (tiny, texts)),
        (lookups.attribution, (tiny, 1, 17, texts)),
        (lookups.attribution, (of("Phi").model, 0, 17, texts)),
        (lookups.outcome, (tiny, 1, 17, texts, 7)),
        (lookups.hold_neuron, (1, 17, 0.5)),
        (lookups.at_last_token, (tiny, texts, ["blocks.0.hook_resid_pre"], 1)),
        (lookups.pad, (tiny, texts)),
        (lookups.Attribution.total, (terms,)),
        (lookups.Attribution.of, (terms, 0, 2)),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
    for result in (terms, lookups.read_prompts(tiny, PROMPTS)):
        kind = type(result)
        monkeypatch.setattr(kind, "__init__", kind.__init__)  # checked here, not in all tests after
        jaxtyped(kind, typechecker=beartype)(**vars(result))
