# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# A neuron that hears British English

One paragraph in two spellings, and what two heads of the language model Qwen add at each token to one of its neurons: above the words as the model computes it, below as this book predicts it.
"""

# %% tags=["setup", "remove-input", "remove-output"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "remove-input"]
# The model that the chapters run on: to see GPT-2 in its place, set MODEL = "gpt2".
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
MODELS = None  # real models that are run for what is kept: make evidence CHAPTER=00_welcome

# %% tags=["remove-input"]
import json
from difflib import SequenceMatcher
from html import escape

import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

KEPT = cb.evidence("welcome.json")
# Written for this page before the neuron was asked about it, with words of the table of spellings.
PARAGRAPH = (
    "The grey harbour was quiet. A neighbour who had travelled all night described its colours, the "
    "smell of mould, the theatre with its catalogue of plays. He apologised for his humour, and we "
    "realised that the centre of the town had not been organised for visitors."
)
NEURON = 6419  # found in chapter 9
FULL = 0.5  # has the full shade


def spelled(side):
    """The paragraph in British (0) or American (1) spelling."""
    pair_of = cb.spelling.pair_of()
    parts = cb.spelling.respelled(PARAGRAPH, lambda word: pair_of[word.group()][side])
    return "".join(part for part, _ in parts)


def run_on(file, sum_of):
    """What the model itself makes of both: what its stable heads add to the neuron's gate at each
    token, and the gate."""
    fixed = cx.fix_query("qwen")
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), 250)  # as in chapter 9
    study = cx.study(fixed, texts, or_all=True)
    model = cx.load("qwen", layers=1).original_model.model
    layer = model.layers[0]
    kept, seen = [], {}
    layer.self_attn.o_proj.register_forward_pre_hook(lambda m, a: seen.update(z=a[0][0]))
    layer.post_attention_layernorm.register_forward_hook(
        lambda m, a, o: seen.update(mid=a[0][0], read=o[0])
    )
    begin = [int(study.passages[0].tokens[0])]
    gain = layer.post_attention_layernorm.weight
    into = (
        layer.self_attn.o_proj.weight.T @ (gain * layer.mlp.gate_proj.weight[NEURON])
    ).unflatten(0, (fixed.n_heads, -1))
    for side in (0, 1):
        ids = begin + fixed.tokenizer.encode(spelled(side), add_special_tokens=False)
        with torch.no_grad():
            model(torch.tensor([ids]))
        scale = (seen["mid"].square().mean(-1) + fixed.readout.eps).sqrt()
        heads = torch.einsum("thd,hd->th", seen["z"].unflatten(-1, (fixed.n_heads, -1)), into)
        gate = seen["read"] @ layer.mlp.gate_proj.weight[NEURON]
        added = heads[:, study.heads].sum(1) / scale
        kept.append({"ids": ids, "model": added.tolist(), "gate": gate.tolist()})
    facts = {"file": file, "sha256": sum_of, "neuron": NEURON, "heads": list(study.heads)}
    return facts | {"scale": study.circuit.scale, "texts": kept}


if MODELS and "qwen" in MODELS:
    file, sum_of = next(iter(cx.models.real_models()["qwen"]["files"].items()))
    KEPT.write_text(json.dumps(run_on(file, sum_of)) + "\n")
kept = json.loads(KEPT.read_text())

# What the weights say, of a stored layer: the same heads' rows from kernels and content, the text
# placed right before the destination; and LayerNorm's scale from one page.
fixed, heads = cx.fix_query("qwen"), kept["heads"]
kernels, likes = fixed.decomposition.kernels[heads], fixed.decomposition.content[heads]
into = (fixed.readout.W_O[heads] @ fixed.readout.W_in[:, NEURON, None]).squeeze(-1)  # head d_head
value = torch.einsum("vhd,hd->hv", fixed.decomposition.values(heads), into) / kept["scale"]


def told_at_end(x):
    """What a text tells the neuron at its last token: a sum over tokens, weighted by the rows."""
    rows = kernels[:, -len(x) :] * likes[:, x]  # head source
    return (rows / rows.sum(1, keepdim=True) * value[:, x]).sum()


def told(x):
    """The same at every token, of the words so far."""
    return torch.stack([told_at_end(x[: m + 1]) for m in range(len(x))])


both = []
for side, name in enumerate(("British", "American")):
    ids = torch.tensor(kept["texts"][side]["ids"])
    words = [fixed.tokenizer.decode([t]) for t in ids.tolist()[1:]]
    truth, gate = (torch.tensor(kept["texts"][side][k])[1:] for k in ("model", "gate"))
    both.append((name, words, truth, told(ids)[1:], gate))

# %% tags=["remove-input"]
INKS = [tuple(int(ink[i : i + 2], 16) for i in (1, 3, 5)) for ink in cb.figures.COLORS[:2]]


def shade(value):
    """Blue above zero, orange below."""
    r, g, b = INKS[int(value < 0)]
    return f"rgba({r},{g},{b},{min(abs(value) / FULL, 1):.2f})"


def ribbons(name, words, truth, ours, _):
    """A text between its two ribbons, as HTML."""
    style = "padding:.24em 0;background:linear-gradient({} 0 .27em,transparent .27em calc(100% - .27em),{} calc(100% - .27em))"
    spans = [
        f'<span style="{style.format(shade(a), shade(b))}">{escape(w)}</span>'
        for w, a, b in zip(words, truth.tolist(), ours.tolist(), strict=True)
    ]
    said = f"on average model (above) {truth.mean():+.2f}, prediction (below) {ours.mean():+.2f}"
    said = said.replace("-", "−")
    return f'<div style="flex:1 1 20em"><b>{name}</b><p style="line-height:2.2;margin:0">{"".join(spans)}</p><small>{said}</small></div>'


scale = "".join(
    f'<span style="padding:.1em .5em;border-bottom:.27em solid {shade(v)}">{v:+.2f}</span>'.replace(
        "-0", "−0"
    )
    for v in (-FULL, -FULL / 2, FULL / 2, FULL)
)
alt = "The same paragraph in two spellings. " + "; ".join(
    f"{name}: the model adds {truth.mean():+.2f} on average, the prediction is {ours.mean():+.2f}"
    for name, _, truth, ours, _ in both
)
picture = cv.picture.Picture(
    f'<figure style="margin:0"><p style="margin:0">Shades: {scale}</p>'
    f'<div style="display:flex;flex-wrap:wrap;gap:0 1.5em">{"".join(ribbons(*side) for side in both)}</div></figure>',
    alt,
)
texts = [side[:4] for side in both]
cv.Spellings(fixed, NEURON, heads, kept["scale"], texts, FULL, picture)

# %% tags=["remove-input", "nbval-check-output"]
# at the tokens that both have, behind the first word that differs
pairs = [
    (i + k, j + k)
    for i, j, size in SequenceMatcher(
        None, *(side[1] for side in both), autojunk=False
    ).get_matching_blocks()
    for k in range(size)
]
pairs = [(i, j) for i, j in pairs if i > 1]
one, other = (
    torch.stack([side[k][[pair[n] for pair in pairs]] for k in (2, 3, 4)])
    for n, side in enumerate(both)
)  # model, prediction, gate; at each such token
more = one - other
higher = [int((row > 0).sum()) for row in more]
r = float(
    torch.corrcoef(torch.stack([torch.cat([side[k] for side in both]) for k in (2, 3)]))[0, 1]
)
differ = [a != b for a, b in zip(*(spelled(k).split() for k in (0, 1)), strict=True)]
texts = [
    t
    for t in cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), 250)
    if t.dialect[:2] == "en"
]
ends = torch.stack([told_at_end(x) for x in fixed.prepare(texts)])
places = {d: torch.tensor([t.dialect == d for t in texts]) for d in ("en-GB", "en-US")}
at_end = {d: f"{float(ends[of].mean()):.2f}".replace("-", "−") for d, of in places.items()}
display(
    cb.finding(
        f"{sum(differ)} of the {len(differ)} words differ. After the first of them the two texts share {len(pairs)} tokens, which are words, punctuation and pieces of words. At {higher[0]} of these {len(pairs)} the model adds more to the neuron under British spelling, by {float(more[0].mean()):.2f} on average; the prediction agrees at {higher[1]}, with {float(more[1].mean()):.2f}.",
        holds=min(higher[:2]) == len(pairs),
    ),
    cb.finding(
        f"The neuron is number {NEURON} of the first layer, and the ribbons show what {len(heads)} of that layer's {fixed.n_heads} attention heads add to it, {cb.listed(heads)}: each takes a weighted mean over the words so far, and that can be predicted. Along both texts model and prediction correlate at {r:.2f}. All {fixed.n_heads} heads together add {float(more[2].mean()):.2f} more under British spelling.",
        holds=r > 0.7 and float(more[2].mean()) > 0,
    ),
    cb.finding(
        f"The neuron responds to subjects as well. At the end of {len(texts)} English texts the prediction has a standard deviation of {float(ends.std()):.2f}, and the mean over British texts is {at_end['en-GB']}, over American ones {at_end['en-US']}: the numbers compare two spellings of one text, and do not say where a text is from.",
        holds=bool(ends[places["en-GB"]].mean() < ends[places["en-US"]].mean()),
        otherwise=f"At the end of English texts the mean over British ones is {at_end['en-GB']}, over American ones {at_end['en-US']}.",
    ),
)

# %% [markdown]
r"""
[Chapter 9](09_british) puts this neuron to tests that were set before they were run, and asks whether Qwen makes use of it.

The prediction for words that you type is computed on this page: from two numbers for each head and each token of Qwen's vocabulary (how much attention the token draws, and what it adds), and for each head one curve over how far back a token stands. The weights give
all of them; one more number, the scale that LayerNorm divides by, comes from one page of other text. The model does not run here, so its ribbon ends where a text is changed.

## The method in six lines

It is Alex Gibson's, and was published for GPT-2 small {cite}`gibson2025decomposing`.

1. The first layer of a transformer sees tokens and their places, and nothing else ([chapter 1](01_first_layer)).
2. How much a head attends to a token is, nearly, a factor for where it stands, the *kernel*, times one for what it is, the *content*, divided by the sum of these products, the *denominator* ([chapter 2](02_keys)).
3. The kernel shows how far back a head looks: some look at the last token, others over the whole text ([chapter 3](03_kernels)).
4. In a head that looks over the whole text the denominator is an average over many tokens. It varies little from text to text, so that one page may stand for all, at a cost that can be measured ([chapter 4](04_denominators)).
5. Then each token of the vocabulary adds a fixed amount to each neuron, and a text tells a neuron the sum of these, weighted by the kernel ([chapter 5](05_circuit)).
6. So neurons that know a context can be found from the weights and that page: sort each neuron's tokens by what they add, and read both ends of the list ([chapter 6](06_neurons)).

## The models
"""

# %% tags=["remove-input", "nbval-check-output"]
pd.set_option("display.max_colwidth", None)
roles = {
    "Qwen": "Qwen2.5-Coder-1.5B-Instruct, weights in 4 bits, trained much on code: what the method finds is shown on it",
    "SmolLM2": "SmolLM2-135M-Instruct, weights in 4 bits: the hardest case, where one page is not enough",
    "MiniLM": "all-MiniLM-L6-v2, an encoder tuned to compare sentences: has learned positions, as GPT-2 has",
}
first = {"Qwen": fixed, "SmolLM2": cx.fix_query("smollm2"), "MiniLM": cx.fix_query("minilm")}
rows = {name: (first[name].n_heads, first[name].n_neurons, role) for name, role in roles.items()}
own = cx.load(MODEL).cfg
ours = "comes with the book and runs anywhere: what the chapters are taught on"
rows[MODEL] = own.n_heads, own.d_mlp, ours
pd.DataFrame.from_dict(
    rows, orient="index", columns=["heads", "neurons", "what it is, and its role here"]
).rename_axis("first layer of")

# %% [markdown]
"""
None of them was tuned to suit the method, and none is GPT-2 small. Chapters 1 to 6 and 11 to 16 compute everything on `mini`, and say beside it what the others do.

## The chapters

Each opens with its answer.

| | asks |
| --- | --- |
| [Chapter 1](01_first_layer) | What does the first layer see? |
| [Chapter 2](02_keys) | Splitting a key into content and position |
| [Chapter 3](03_kernels) | How far back does a head look? |
| [Chapter 4](04_denominators) | Concentration: why one page can stand for all |
| [Chapter 5](05_circuit) | One number per token: the contextual circuit |
| [Chapter 6](06_neurons) | Finding context-sensitive neurons |
| [Chapter 7](07_hundred_lines) | The whole method in a hundred lines |
| [Chapter 8](08_real_model) | One minute with a real model |
| [Chapter 9](09_british) | Is there a British neuron? |
| [Chapter 11](11_evaluation) | How good is it, and what limits it? |
| [Chapter 12](12_causal) | Does the model use it? |
| [Chapter 13](13_families) | What if positions are elsewhere? |
| [Chapter 14](14_depth) | What of deeper layers? |
| [Chapter 15](15_lookups) | Which head wakes this neuron? |
| [Chapter 16](16_explanations) | Can a sentence predict a head? |
| [Appendix A](A_scale) | Where does Equation 1 err? |
| [Appendix B](B_naive_bayes) | Is a neuron a Naive Bayes classifier? |
| [Appendix C](C_certificates) | Can the weights alone promise a steady head? |
| [Appendix D](D_superposition) | Why do German and Python share a neuron? |
| [Appendix E](E_training) | What hangs on the training? |
| [Appendix F](F_local) | What do local heads do? |

## How to read it

A chapter goes from an example to the equation, and runs the equation as code. Near its end, under *Claims*, stands the **ledger**: each published claim beside what this run found. Every number in a
finding is computed, and computed again when the book is built.

To run a chapter, open it in Colab with the rocket at the top of its page; to run it on GPT-2 itself or on a model of yours, set `MODEL` there. What a symbol means is on the [notation](notation)
page, what a word means in the [glossary](glossary). You need linear algebra, a little probability, and to have met a transformer before.

The derivations of the method are those of *Decomposing Attention To Find Context-Sensitive Neurons* {cite}`gibson2025decomposing`. Chapters 15 and 16 follow *Interpreting Context Look-ups in
Transformers* {cite}`neo2024interpreting`. The worked steps, the code, the model `mini` and the texts are the book's own.
"""
