"""What makes no sense is refused in one line that says what would, wherever it is given."""

from dataclasses import replace
from inspect import signature
from itertools import product

import numpy as np
import pytest
import torch
import transformers
from by_hand import as_encoder, draw, draw_text, draw_texts
from kinds import GROUPED, OPT, SIZES, drawn
from test_neurons import planted

import ctxbook as cb
import ctxlib as cx
from ctxlib.adapter import logits
from ctxlib.evaluation import Moments, r_and_fvu
from ctxlib.lookups import causal
from ctxlib.neurons import LARGEST
from ctxlib.store import save_layer

N, THE, HEADS = 20, 262, [0, 2]
NO_C = [0.0, -2.0, float("nan"), float("inf"), True, "3"]
TEXT, TEXTS = torch.arange(32), draw_texts(9, 32, 300, seed=4)
STRANGE = [torch.tensor([*range(5), stranger, 6]) for stranger in (-1, 300)]
NO_LENGTH = [TEXT[:0], torch.ones(33, dtype=torch.int64)]
PROMPTS = [draw_text(length, seed) for seed, length in enumerate((5, 17, 2, 32))]
approximated, label = cx.evaluation.approx_summary, cx.label_neurons
calibrate, load = cx.ContextualCircuit.calibrate, cx.ContextualCircuit.load
most_typical_text = cx.denominators.most_typical_text


class Given:
    """The fixtures of a test by their names, and what is made of them."""

    def __init__(self, request):
        self.fixture = request.getfixturevalue

    def __getattr__(self, name):
        return self.fixture(name)

    def prepare(self, kind, **asked):
        """A destination of GPT-2, or of a model that has to know how common tokens are."""
        more = {"texts": TEXTS} if kind == "Llama" else {}
        return cx.fix_query(self.of_kind(kind).model, **{"n": N, "token": THE} | more | asked)

    def model(self, **made):
        return cx.load(self.make_folder(drawn(**made), seed=3))

    @property
    def law_of_mini(self):
        return cx.texts.passages(self.mini_weights, ["law"])[0]

    def fit_additive(self, **made):
        return cx.fit_additive(self.model(**made), TEXTS, N, THE)

    @property
    def two_means_of_tiny(self):
        return cx.fit_additive(self.tiny, TEXTS, N, THE)

    def read_from(self, *absent, **asked):
        """The weights of a state dict without some of its parts."""
        state = {k: tensor for k, tensor in self.make_state().items() if k not in absent}
        return cx.LayerWeights.from_state_dict(state, **{"n_heads": 2} | asked)

    def below(self, layer):
        """What was read of the layers below this one."""
        return cx.lookups.read_prompts(self.tiny, PROMPTS, layer)

    @property
    def encoder(self):
        """A circuit with sources on both sides."""
        return calibrate(cx.fix_query(as_encoder(self.precise), n=9), TEXTS[0], HEADS)

    def with_other(self, part):
        """The weights of `tiny`, of which one part reads something else."""
        return replace(self.tiny_weights, **{part: 2 * getattr(self.tiny_weights, part)})

    @property
    def loud(self):
        """A destination where scores are beyond the range of an exponential."""
        queries = {name: 3000 * getattr(self.tiny_weights, name) for name in ("W_Q", "b_Q")}
        return cx.fix_query(replace(self.tiny_weights, **queries), n=N)

    @property
    def faint(self):
        """A destination where all that one head likes is too little for a number."""
        fixed = cx.fix_query(self.tiny_weights, n=N)
        fixed.decomposition.log_content[1] -= 999
        return fixed

    def pushed(self, direction):
        """The losses of a text with a direction in its stream."""
        return causal.token_losses(self.tiny, TEXT[None], [causal.add_direction(0, direction)])

    def without(self, heads, *shape):
        return causal.token_losses(
            self.tiny, TEXTS, [causal.replace_z(0, heads, torch.zeros(shape))]
        )

    @property
    def speechless(self):
        return replace(self.tiny_weights, tokenizer=None)


# ---------------------------------------------------------------- positions, tokens and C

RIGHT = {"tokens": TEXT, "n": 5, "token": 7, "C": None}


def families(weights, n, token, C):
    return cx.families(cx.fix_query(weights, n=n, token=token, C=C))


PATTERNS = [cx.decompose.attention_pattern, cx.decompose.approx_pattern, cx.LayerWeights.queries]
ROWS = [cx.attention_rows, cx.approx_rows, cx.decompose.exact_scores, cx.decompose.approx_scores]
KERNELS = [cx.decompose.fixed_query, cx.positional_kernels, families]
ALL = [*PATTERNS, *ROWS, *KERNELS, cx.decompose.content_keys, cx.decompose.positional_keys]
ALL += [cx.content_scores, cx.heads.copy_preference]


def taking(name):
    return [of for of in ALL if name in signature(of).parameters]


def of_weights(o, case):
    """Asked for what is right but for what is wrong, in the weights too."""
    of, wrong = case
    weights = replace(o.tiny_weights, **{k: v for k, v in wrong.items() if k not in RIGHT})
    names = signature(of).parameters
    return of(weights, **{k: v for k, v in (RIGHT | wrong).items() if k in names})


IN_WEIGHTS = [  # what is wrong, who is asked, and what is said
    ([{"n": -1}, {"n": 32}], taking("n"), "positions 0 to 31"),
    ([{"tokens": TEXT[:5]}], ROWS, "positions 0 to 4"),
    ([{"tokens": x} for x in (*NO_LENGTH, TEXT[None])], PATTERNS, "one text of 1 to 32 tokens"),
    ([{"tokens": x} for x in STRANGE], taking("tokens"), "ids 0 to 299"),
    ([{"C": C, "token": None} for C in NO_C], taking("C"), "positive"),
    ([{"C": 0.0}, {"C": -2.0}], [cx.positional_kernels, families], "positive"),
    ([{"layer": 1}], ALL, "layer 1"),
    ([{"token": text} for text in (" bagpipes", "the the", "")], taking("token"), "exactly one"),
    ([{"token": -1}, {"token": 300}], taking("token"), "ids 0 to 299"),
    ([{"W_E": None, "token": 3}], ALL, "without token embeddings"),
    ([{"W_E": None, "C": 3.0, "token": 3}], taking("token"), "without token embeddings"),
    ([{"W_E": None, "token": None}], KERNELS, r"\bC\b"),
]

# ---------------------------------------------------------------- layers, neurons and prompts

ASK = {
    "terms": lambda model, k, j, texts: cx.lookups.attribution(model, k, j, texts),
    "reading": lambda model, k, j, texts: cx.lookups.read_prompts(model, texts, k + 1),
    "congruence": lambda model, k, j, texts: cx.lookups.congruence(model, k),
    "next token": lambda model, k, j, texts: cx.lookups.next_token_neurons(model, [k]),
    "random": lambda model, k, j, texts: cx.lookups.random_neurons(model, 3, [k]),
}
OF_A_NEURON, OF_TEXTS, FOLDED = [*ASK][:1], [*ASK][:2], [name for name in ASK if name != "reading"]


def of_model(o, case):
    name, wrong = case
    return ASK[name](o.tiny, **{"k": 1, "j": 5, "texts": PROMPTS} | wrong)


def ending(prompt):
    return [{"texts": [*PROMPTS[:2], prompt]}]


IN_MODELS = [
    ([{"k": -1}, {"k": 2}], ASK, "layer (-1|2): there are layers 0 to 1"),
    ([{"j": -1}, {"j": 40}], OF_A_NEURON, "neuron (-1|40): there are neurons 0 to 39"),
    ([{"j": 5.5}, {"j": True}], OF_A_NEURON, "neuron (5.5|True): give a whole number"),
    ([{"texts": []}], OF_TEXTS, "no (texts|prompts): give at least one"),
    ([{"texts": PROMPTS[0]}], OF_TEXTS, r"one text|brackets|shape \(\)"),
    *((ending(torch.zeros(n).int()), OF_TEXTS, rf"\({n},\): expected BOS") for n in (0, 1, 33)),
    (ending(torch.ones(2, 9).int()), OF_TEXTS, r"shape \(2, 9\)"),
    *((ending(torch.tensor([0, 9, t])), OF_TEXTS, f"id {t}: .*ids 0 to 299") for t in (-1, 300)),
]
ALONG = (
    lambda c, text: causal.denominators_along(c.fixed, text),
    lambda c, text: causal.circuit_z(c, text, ONES),
    causal.self_normalized_z,
)
ONES = torch.ones(3, 40, dtype=torch.float64)

# ---------------------------------------------------------------- numbers, masks and words

KINDS = ("GPT-2", "Llama")
NO_NUMBER = [2.5, 20.0, True, np.True_, torch.tensor(True), np.float32(20), torch.tensor(20.0)]
NO_NAMES = [  # they are not looked for on the hub, which would be another error
    (["gtp2"], r"did you mean .*\bgpt2\b"),
    (["Mini"], r"did you mean .*\bmini\b"),
    (["mini-first-edtion"], r"did you mean .*\bmini-first-edition\b"),
    (["zzzz"], "known names: mini, gpt2, gpt2-medium, .*qwen, smollm2, minilm"),
    (["SmolLM2-135M"], "did you mean HuggingFaceTB/SmolLM2-135M-Instruct"),
    (["./not/here", "/not/here", "~/not-here", "a/b/c", "not/here/", "./gpt2"], "no such folder"),
    (["nothing.gguf"], "no such folder or GGUF file"),
]
NO_FILE = ["no/such/folder/a", "."]
NO_TRUTHS = [1, 0.0, None, "yes", torch.tensor(True), np.array([True])]
MASK = [True, False, True]
NO_HEADS = [
    *(MASK, np.array(MASK), torch.tensor(MASK), [np.True_], [torch.tensor(True)]),
    *([0.0, 2.0], np.array([0.0, 2.0]), torch.tensor([0.5]), 1.5, "2", ["2"], [None], True),
    *((), (0, 4), (-1,), (1, 1), torch.tensor(9), torch.tensor(0.5), np.array(True)),
]
CHOOSERS = (
    lambda fixed, heads: calibrate(fixed, TEXTS[0], heads),
    lambda fixed, heads: fixed.exact_summary(fixed.prepare(TEXTS), heads),
    lambda fixed, heads: most_typical_text(fixed, TEXTS, heads),
    lambda fixed, heads: fixed.to_neurons(
        fixed.prepare(TEXTS), fixed.head_outputs(fixed.prepare(TEXTS)), heads
    ),
)
NO_Z = [(32, 1, 8), (32, 2, 1), (1, 2, 8), (32, 2), (3, 32, 2, 8)]
NO_PUSH = [(), (1,), (3,), (2, 24), (1, 1, 24)]
NO_HEAD = "^head .*: (give a whole number|there are heads 0 to .)$|^no heads|one is there twice$"

# ---------------------------------------------------------------- one by one

OLMO2 = {"architecture": "olmo2", "pad_token_id": 0}
SHORT = {"architecture": "gptj", "num_hidden_layers": 1, "rotary_dim": 4}
GIVEN = {"n": 9, "token": " of", "C": 2.0, "texts": TEXTS}
ALREADY = [{name: GIVEN[name]} for name in [*signature(cx.fix_query).parameters][1:]]
XGLM = {"architecture": "xglm", "ffn_dim": 40, "pad_token_id": 1}
COMPUTED_WRONGLY = [
    ({"architecture": "opt", **OPT, "word_embed_proj_dim": 12}, "TransformerLens does not compute"),
    ({"architecture": "opt", **OPT, "do_layer_norm_before": False}, "TransformerLens cannot run"),
    ({"architecture": "gpt2", "scale_attn_weights": False}, "does not scale its attention scores"),
    ({"architecture": "biogpt"}, "TransformerLens cannot run .*BioGptForCausalLM"),
    ({"architecture": "mixtral", **GROUPED, "num_local_experts": 2}, "not heads and one MLP"),
    ({"architecture": "mamba"}, "not heads and one MLP"),
]
NO_END = [{"architecture": "openai-gpt"}, {"architecture": "modernbert-decoder", "pad_token_id": 0}]
NO_DECODER = "is not a decoder: encoder-decoders.* BERT's kind alone; chapter 11"
READING, LACKS = ("W_Q", "W_K", "W_V", "W_in"), "layers={}: .* has 3; give 1 to 3"
READS_ELSE = "read something else than the normalised residual stream"
NO_PARTS = ["wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.attn.c_attn.weight"]
RATIOS = (cx.softmax_denominators, cx.stable_heads)
EVALUATORS = (cx.evaluate, cx.evaluation.error_budget)
BETTER = [cx.ContextualCircuit.self_normalized]
NO_LIKE = [np.ones(59), np.ones((60, 1)), np.full(60, np.nan)]
UNKNOWN = [["key"], ["keys", "Scale"], "keys"]
EVEN = torch.linspace(1, 2, 9)


def roberta():
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SIZES))


def bert_that_decodes():
    return transformers.BertLMHeadModel(transformers.BertConfig(**SIZES, is_decoder=True))


def bart():
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3}
    sizes = {"vocab_size": 300, "d_model": 24, "encoder_layers": 1, "decoder_layers": 1}
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes | heads))


def with_tops(tops):
    """A circuit of which one token in ten moves every neuron so far."""
    contribution = torch.zeros(10 * LARGEST, len(tops), dtype=torch.float64)
    contribution[:LARGEST] = tops / 0.9  # less the mean over tokens
    return planted(contribution)


TOLD_TWICE = [  # what is asked, with what each of which is wrong, and what is said
    (lambda o, given: cx.fix_query(o.here, **given), [{}, {"n": N}], "a destination already"),
    (lambda o, given: cx.fix_query("a.safetensors", **given), ALREADY, "a stored layer knows"),
    (lambda o, C: o.at("Llama", C=C), [2.0], "Equation 1's: this model adds no positions"),
    (lambda o, token: o.at("Llama", token=token), [None], "Equation 1's: this model adds no pos"),
    (lambda o, token: cx.study(o.here, token=token), [" of"], "a destination has its token"),
]
REFUSED = [
    *((of_weights, product(of, wrongs), said) for wrongs, of, said in IN_WEIGHTS),
    *((of_model, product(names, wrongs), said) for wrongs, names, said in IN_MODELS),
    # weights
    (lambda o, k: cx.LayerWeights.of(o.tiny, k), [2, -1], "layers 0 to 1"),
    (lambda o, k: cx.LayerWeights.of(o.tiny, k), [1.0, True], "give a whole number"),
    (lambda o, k: cx.fix_query(cx.LayerWeights.of(o.tiny, k), n=N), [1], "layer 1: only what"),
    (lambda o, k: cx.LayerWeights.of(o.of_kind("BERT").model, k), [1, -1], "layers 0 to 0"),
    (lambda o, k: cx.LayerWeights.of(o.of_kind("GPT-Neo").model, k), [1, 2], "sees a window only"),
    (lambda o, of: of(o.unfolded), [cx.LayerWeights.of], "not folded"),
    (lambda o, name: o.read_from(name), [*NO_PARTS, "h.0.attn.c_proj.bias"], "{}"),
    (lambda o, k: o.read_from(layer=k), [1, -1], "layer {}"),
    (lambda o, count: o.read_from(n_heads=count), [3, 16, 0, -2], "n_heads={}"),
    (lambda o, count: o.read_from(n_heads=count), [2.0, True, "2"], "n_heads .*whole number"),
    (lambda o, name: o.read_from(name).typical_norm(), ["wte.weight"], "without token embeddings"),
    (lambda o, to: o.tiny_weights.to(to), [torch.float16], "choose torch.float32 or torch.float64"),
    # destinations
    (lambda o, kind: o.at(kind, texts=TEXTS[0], n=None), KINDS, "put it in brackets"),
    (lambda o, kind: o.at(kind, texts="one text alone", n=None), KINDS, "put it in brackets"),
    (lambda o, count: o.at("Llama", texts=TEXTS[:count]), [0, 1], "{} texts: give two at least"),
    (lambda o, of: o.at(of[0], n=of[1]), product(KINDS, [*NO_NUMBER, "20"]), "give a whole number"),
    (lambda o, of: o.at(of[0], token=of[1]), product(KINDS, NO_NUMBER), "give a whole number"),
    (lambda o, kind: o.at(kind, token="20"), KINDS, "exactly one"),
    (
        lambda o, name: load(save_layer(o.here, o.tmp_path / name)),
        ["a.safetensors"],
        "without a circuit",
    ),
    (
        lambda o, name: save_layer(o.two_means_of_tiny, o.tmp_path / name),
        ["a"],
        "learned positions add",
    ),
    (lambda o, place: o.circuit.save(o.tmp_path), [None], "is a folder: name a file"),
    (lambda o, file: cx.evaluate(o.circuit, TEXTS, None, file), NO_FILE, "checkpoint='{}': name a"),
    (lambda o, n: o.at("Llama", n=n), [0, 1, 32, 33], "^destination {}: choose 2 to 31$"),
    (lambda o, made: o.fit_additive(**made), [OLMO2], "empirical kernels would be wrong"),
    (lambda o, made: o.fit_additive(**made), [SHORT], "no neuron sees"),
    (lambda o, ask: ask(o.loud, TEXTS), RATIOS, r"denominators of head .* are beyond .*float32"),
    (lambda o, ask: ask(o.faint, TEXTS), RATIOS, "denominators of head 1 are beyond"),
    # heads and neurons
    (lambda o, of: of[1](o.at(of[0]), of[2]), product(KINDS, CHOOSERS, NO_HEADS), NO_HEAD),
    (lambda o, heads: cx.study(o.mini, texts=2, heads=heads), [[True]], "head True: give a whole"),
    (lambda o, count: cx.study(o.mini, texts=count, or_all=True), [1], "at least two"),
    (
        lambda o, count: cx.denominators.head_variance_share(o.here, TEXTS[:count]),
        [1],
        "at least two",
    ),
    (lambda o, j: cx.evaluate(o.circuit, TEXTS, [2, j]), [3.0], "neuron 3.0: give a whole number"),
    (lambda o, of: of(o.circuit, TEXTS, [2, 40]), EVALUATORS, "neurons 0 to 39"),
    (lambda o, of: of(o.circuit, TEXTS[:, :19], [2]), EVALUATORS, "too short.* at least 20"),
    (lambda o, n: cx.decompose.content_scale(o.tiny_weights, n), [-1, 32], "positions 0 to 31"),
    (lambda o, n: cx.heads.half_mass(torch.ones(3, 9) / 9, n), [-1, 9], "positions 0 to 8"),
    (lambda o, m: Moments.of(torch.ones(4, 2), torch.ones(4, m)), [1, 3], "give one shape twice"),
    (lambda o, k: r_and_fvu(EVEN[:, None], EVEN[:, None], "a" * k), [8, 10], "{} domains for 9"),
    (lambda o, made: approximated(o.circuit, TEXTS, made), UNKNOWN, r"there are \['keys', "),
    (lambda o, of: EVALUATORS[1](of(o.circuit), TEXTS), BETTER, "of the paper's circuit"),
    (lambda o, tops: cx.find_neurons(with_tops(tops)), [EVEN], "is 2.00, the median one 1.50"),
    (lambda o, tops: cx.find_neurons(with_tops(tops)), [torch.ones(5)], "no neuron has z above 2:"),
    (lambda o, fixed: cx.find_neurons(with_tops(EVEN), fixed), [1e6], "is 2.00, the median .*50"),
    (lambda o, few: cx.find_neurons(with_tops(EVEN), at_least=few), [-1], "at_least=-1: give 0"),
    (lambda o, like: cb.nulls.random_sets([0], 60, 1, like=like), NO_LIKE, "number for each of 60"),
    (lambda o, names: label(draw(4, 2), [*names], [0, 1]), ["aab"], "3 labels and 2 neurons"),
    (lambda o, names: label(draw(4, 2), [*names], [0]), ["aabb"], "4 labels and 1 neurons"),
    (lambda o, names: label(draw(4, 2), [*names], [0, 1]), ["aaaa", "aaab"], "two names with two"),
    (lambda o, n: cb.nulls.random_sets([0], n, 1, like=np.zeros(n)), [10], "10 neurons, where 50"),
    (lambda o, j: o.circuit.contribution_to([j]), [-1, 40], "neurons 0 to 39"),
    (lambda o, j: cb.nulls.random_sets([j], 10, draws=1), [12], "neuron"),
    # texts
    (lambda o, text: cx.texts.encode(o.tiny_weights, text), ["", " \n\t\n"], "the text is empty"),
    (lambda o, cut: cut(o.speechless, "a"), [cx.texts.encode, cx.texts.windows], "no tokenizer to"),
    (lambda o, token: o.speechless.token_id(token), [" the"], "without a tokenizer"),
    (lambda o, n: cx.texts.Reader.of(o.tiny, n), [33, 1, 0, -4], "n_ctx={}: choose 2 to 32"),
    (lambda o, n: cx.texts.prepare(o.precise, TEXTS, n), [-1, 32], "positions 0 to 31"),
    (lambda o, t: cx.texts.prepare(o.precise, TEXTS, 12, t), [-1, 300], "ids 0 to 299"),
    (lambda o, t: cx.texts.prepare(o.precise, TEXTS, 12, t), [" bagpipes"], "exactly one"),
    (lambda o, k: cx.texts.token_ids(o.law_of_mini, o.tiny_weights), [1], "law-{} is in the t"),
    (lambda o, folder: cx.texts.labeled(o.tiny_weights, folder), [""], "'' is no folder"),
    (
        lambda o, heads: most_typical_text(o.here, iter(TEXTS), heads),
        [[0]],
        "only once: give a list",
    ),
    (lambda o, n: cx.texts.stream(o.precise, n, "a/b"), [0, -1], "count={}: ask for at least one"),
    (lambda o, of: cx.texts.passages(o.precise, of), [["war", "chess"]], "no passages for chess"),
    # models and claims
    *((lambda o, made: o.model(**made), [made], said) for made, said in COMPUTED_WRONGLY),
    (lambda o, made: cx.load(o.make_folder(made())), [roberta, bart], NO_DECODER),
    (
        lambda o, made: cx.load(o.make_folder(made())),
        [bert_that_decodes],
        "does not find the blocks",
    ),
    (lambda o, k: cx.LayerWeights.of(o.model(architecture="openai-gpt"), k), [0, 1], READS_ELSE),
    (lambda o, part: o.with_other(part).check(o.tiny), READING, READS_ELSE),
    (lambda o, made: cx.LayerWeights.of(o.model(**made)), [XGLM], r"comput\w+ (its )?positions"),
    (
        lambda o, k: cx.load(o.llama()[0], layers=k),
        [0, -1, 4, 1.5, "1", True],
        LACKS,
    ),  # from its folder
    (lambda o, k: cx.load(o.llama()[1], layers=k), [0, -1, 4], LACKS),  # from its GGUF file
    *((lambda o, name: cx.load(name), names, f"'{{}}'.*{said}") for names, said in NO_NAMES),
    (lambda o, device: cx.load("mini", device), ["gpu", "xpu"], "no device '{}' here; give 'cpu'"),
    (lambda o, id: cb.Claim(id, "", 1.0), ["median_R"], "figure '{}' in .*published.toml"),
    (lambda o, ends: cb.Claim("tv", "TV", 0.05, ends), [(0.06, 0.04)], "lower end first"),
    (lambda o, holds: cb.finding("", holds), NO_TRUTHS, "is no boolean: give a condition"),
    # decoders
    (lambda o, of: of[0](o.circuit, of[1]), product(ALONG, STRANGE), "ids 0 to 299"),
    (lambda o, of: of[0](o.circuit, of[1]), product(ALONG, NO_LENGTH), "to 32 tokens|0 to 31"),
    (lambda o, of: of(o.encoder, TEXTS[0]), ALONG, "needs a decoder with learned positions"),
    (lambda o, z: causal.circuit_z(o.circuit, TEXT, z), [ONES[:, :31]], "at 31 .* text of 32"),
    (lambda o, heads: o.without(heads, 32, 2, 8), [[0, -1]], "^head -1: there are"),
    (lambda o, shape: o.pushed(torch.ones(shape)), NO_PUSH, r"^the direction has .*need \(24,\)$"),
    (lambda o, shape: o.without([0, 1], *shape), NO_Z, r"^z has shape .*need \(32, 2, 8\)$"),
    (lambda o, texts: causal.mean_z(o.tiny, texts, 9), [[]], "no texts"),
    (lambda o, n: causal.mean_z(o.tiny, TEXTS, n), [0, 40], "length={}: choose 1 to 32"),
    (lambda o, name: ASK[name](o.unfolded, 0, 5, PROMPTS), FOLDED, "not folded: load it with"),
    (lambda o, name: ASK[name](o.model(**OLMO2), 0, 0, 0), [*ASK][2:4], "gain is not folded"),
    (lambda o, made: cx.lookups.congruence(o.model(**made), 0), NO_END, "not one norm and W_U"),
    (lambda o, made: logits(o.model(**made), torch.ones(1, 24)), NO_END, "not one norm and W_U"),
    (lambda o, none: cx.lookups.next_token_neurons(o.tiny, none), [[]], "no layers: name at least"),
    (lambda o, k: cx.lookups.attribution(o.tiny, k, 7, o.below(k)), [1], "layer {} was not read"),
    (
        lambda o, k: cx.lookups.attribution(o.tiny, 1, 7, PROMPTS).of(k, 0),
        [2, -1],
        "of layer {}: 3",
    ),
    (lambda o, h: cx.lookups.attribution(o.tiny, 1, 7, PROMPTS).of(0, h), [3, -1], "head {} of"),
    (
        lambda o, h: cx.lookups.attribution(o.tiny, 1, 7, PROMPTS).of(0, h),
        [True, 1.0],
        "whole number",
    ),
    (
        lambda o, n: cx.lookups.random_neurons(o.tiny, n, [0], [(0, 3)]),
        [0, -1, 40],
        "={}: there are",
    ),
]
CASES = [(ValueError, ask, value, said) for ask, values, said in REFUSED for value in values]
CASES += [(TypeError, ask, value, said) for ask, values, said in TOLD_TWICE for value in values]
NAMES = [f"{number}: {said}" for number, (*_, said) in enumerate(CASES)]


@pytest.mark.parametrize(("kind", "ask", "value", "said"), CASES, ids=NAMES)
def test_what_makes_no_sense_is_refused_in_one_line(request, kind, ask, value, said):
    with pytest.raises(kind, match=said.replace("{}", str(value))) as caught:
        ask(Given(request), value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
