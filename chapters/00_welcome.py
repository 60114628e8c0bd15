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
# Context from Weights

A language model reads one token at a time, and yet it knows what a page is about. Even neurons of its first layer know it. Here is one of them, in a small model that comes with this book and on a page that the
model never saw in training: first as the model computes it, then as this book predicts it.
"""

# %% tags=["setup", "remove-input", "remove-output"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "remove-input"]
# To draw the figure for GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"

# %% tags=["remove-input"]
from dataclasses import replace
from html import escape
from urllib.parse import quote

import numpy as np
import torch
from IPython.display import HTML

import ctxlib as cx

model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights)
circuit, page, n = study.circuit, study.example, study.n
x = page.tokens[: n + 1]
words = cx.neurons.spelled(weights, x.tolist())
FIRST = 8  # before this token there is hardly a context

# The neuron is chosen without running the model and without this page: of those that stand out by
# their weights, the first that the circuit's summaries of other texts (half A) label with the
# page's domain; the first of all where none is.
found = cx.find_neurons(circuit)
others = [text for text in study.texts if text.half != page.half] or study.passages
summaries = circuit.summary(study.at.placed(others))[:, found.index]
labelled = cx.label_neurons(summaries, [text.domain for text in others], found.index)["label"]
neuron = int([*labelled.index[labelled == page.domain], found.index[0]][0])

# Of the page's sentences, the one with the tokens that together push the neuron up most, by the
# weights alone, and the one with those that push it down most; in the order of the page.
ends = sorted({*(i for i in range(1, n) if {".", "\n"} & set(str(words[i]))), n})
sentences = [range(a + 1, b + 1) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
pushed = [float(circuit.contribution[x[s.start : s.stop], neuron].sum()) for s in sentences]
shown = [sentences[i] for i in sorted({int(np.argmax(pushed)), int(np.argmin(pushed))})]

# What the neuron receives at every token, and what is predicted for it: the circuit of that
# destination, calibrated on one page of other prose, and the token at hand, which the weights give.
with torch.inference_mode():
    _, cache = model.run_with_cache(x[None], names_filter="blocks.0.mlp.hook_pre", stop_at_layer=1)
received = cache["blocks.0.mlp.hook_pre"][0, :, neuron].cpu()

# A circuit reads a whole vocabulary. One is asked here at every token of the page, so it is given
# the words of the two pages alone, numbered anew.
both = torch.cat([x, study.calibrating.tokens, torch.tensor([study.at.token])])
vocabulary, ids = both.unique(return_inverse=True)
small, C = replace(weights, W_E=weights.embeddings()[vocabulary]), study.at.split.C
ids, calibrating, token = ids[: n + 1], ids[n + 1 : -1], int(ids[-1])
predicted, alone, own = torch.full((3, n + 1), torch.nan)
for m in range(FIRST, n + 1):
    at = cx.destination(small, n=m, token=token, C=C)
    there = cx.ContextualCircuit.calibrate(at, calibrating, study.heads)
    predicted[m] = there.pre_activations(ids[: m + 1])[neuron]
    alone[m] = predicted[m] - there.summary(ids[: m + 1])[neuron]  # the token at hand, no context
    own[m] = there.self_normalised().pre_activations(ids[: m + 1])[neuron]  # chapter 9

# %% tags=["remove-input", "nbval-check-output"]
top_words = ", ".join(str(word).strip() for word in found.loc[neuron, "top tokens"][3:8])
HTML(
    f"<p>By its weights, tokens such as <i>{escape(top_words)}</i> push the neuron up. The page is <i>{escape(page.subject)}</i>; "
    "of its sentences you see the one with the tokens that push the neuron up most, and the one with those that push it down most.</p>"
)

# %% tags=["remove-input"]
places = [i for s in shown for i in s]
top = float(torch.cat([received[places], predicted[places]]).nan_to_num().abs().max())


def shaded(values, caption):
    """The sentences, with full shade at `top`, which a token that is not seen carries."""
    pieces, shades = [""], [top]
    for s in shown:
        pieces += [" […]" if len(pieces) > 1 else "", *(str(words[i]) for i in s)]
        shades += [0.0, *values[s.start : s.stop].nan_to_num().tolist()]
    return cx.plots.shaded_text(pieces, torch.tensor(shades), caption)


display(
    shaded(
        received,
        f"<b>The model.</b> What neuron {neuron} of <code>{escape(MODEL)}</code> receives at each token: its pre-activation, the number before the nonlinearity. The bluer, the higher; orange is below zero.",
    ),
    shaded(
        predicted,
        "<b>The prediction</b>, on the same scale, from the model's weights and one page of other text; its heads are asked by <i>the</i> throughout. No model was run on these words.",
    ),
)

# %% tags=["remove-input", "nbval-check-output"]
text = weights.tokenizer.decode(x[1 : shown[-1].stop].tolist()) if weights.tokenizer else ""
address = f"reader.html#neuron={neuron}&text={quote(text[:1400])}"
HTML(
    f'<p>Try it: the <a href="{escape(address)}">live reader</a> opens with this page and this neuron. '
    "Change the text, and it is read again as you type.</p>"
)


# %% tags=["remove-input"]
truth, ours = received[FIRST:], predicted[FIRST:]
r, r_alone, r_own = (
    float(torch.corrcoef(torch.stack([truth, values[FIRST:]]))[0, 1])
    for values in (predicted, alone, own)
)
above, above_own = (float((values[FIRST:] - truth).mean()) for values in (predicted, own))

# %% tags=["remove-input"]
tokens = np.arange(FIRST, n + 1)
figure, ((axis,),) = cx.plots.panels(height=2.4)
for s in shown:
    axis.axvspan(s.start, s.stop, color="C4", alpha=0.14, lw=0)
for values, colour, style, name in (
    (truth, cx.plots.INK, "-", "the model"),
    (ours, "C0", "--", "the prediction"),
):
    means = np.convolve(values, np.ones(8) / 8, "valid")  # over the last 8 tokens
    axis.plot(tokens, values, lw=0.5, alpha=0.45, color=colour)
    axis.plot(tokens[7:], means, style, lw=2, color=colour, label=name)
axis.axhline(0, color=cx.plots.INK, lw=0.6)
axis.set(xlabel="token of the page", ylabel="pre-activation", xlim=(FIRST, n))
axis.legend(fontsize=8)
cx.plots.picture(
    figure,
    "0.1",
    f"The page from token {FIRST} to token {n}. Thin: each token; thick: means over the last 8. The two sentences from above are shaded.",
    f"Two curves over tokens {FIRST} to {n}. The correlation is {r:.2f}; the model averages {float(truth.mean()):.2f}, the prediction {float(ours.mean()):.2f}.",
)

# %% tags=["remove-input", "nbval-check-output"]
display(
    cx.claims.finding(
        f"Along this page the prediction follows the model at a correlation of {r:.2f}; the token at hand alone, without the page before it, would give {r_alone:.2f}.",
        holds=r > 0.7 and r > r_alone + 0.2,
    ),
    cx.claims.finding(
        f"The prediction is off by {above:+.2f} on average; once it borrows no constants from another page and reads every token where it stands, it is off by {above_own:+.2f}, and the correlation is {r_own:.2f}.",
        holds=abs(above_own) < abs(above) / 2 and r_own > max(r, 0.9),
    ),
)

# %% [markdown]
"""
## The story

Each head of a first layer takes a weighted mean over the text behind it. How much a token weighs depends on where it stands and on what it is, and the two can be taken apart: the weight is a
*kernel*, which knows the place, times a *content*, which knows the token, divided by the sum of these products, the *denominator*.

When a head spreads over many tokens, its denominator is an average, and such an average varies little from text to text. Which heads these are is found once, with many texts; after that one page of other text gives the denominators, at a price that
the book measures. The rest comes from the weights. Each token of the vocabulary adds a fixed amount to each neuron. The sum of these amounts over the text, weighted by the kernel, predicts what the neuron receives.

So neurons that know a context can be looked for without running the model on texts: sort each neuron's tokens by what they add, and read both ends of the list. [Chapter 8](08_neurons) counts how many of the best are found.

The book derives each step, measures its error on a model that nobody tuned to suit it, and says where it fails. Then it puts the prediction in the place of the model's heads, goes beyond the first layer, and turns to
models with other positions.

## The chapters

Each asks one question, and answers it for `mini`, the small model of these pages.

| | asks | finds |
| --- | --- | --- |
| [Chapter 1](01_first_layer) | What does a first layer see? | Tokens and positions, added. What its heads write is alike on pages of one domain, even when their words are shuffled. |
| [Chapter 2](02_keys) | Can a key be split into what and where? | Yes, with a small error; in half of the heads most of it sits on one token, the one that begins every text. |
| [Chapter 3](03_kernels) | How far back does a head look? | All but one over the whole text almost evenly, and that one decays slowly. None is local and none looks for copies. |
| [Chapter 4](04_denominators) | Why do denominators hold still? | They are averages over many tokens, of something that varies little from topic to topic; most of what variation is left is the topic's. |
| [Chapter 4](04b_calibration) | Is one calibration text enough? | On average over the heads, yes; some are off by much more than others. A page from the middle does about all that any number of texts could. |
| [Chapter 5](05_circuit) | What do the stable heads say together? | An average of the text: each token adds a fixed number to each neuron. The order of texts comes out nearly right, the amounts do not. |
| [Chapter 6](06_real_model) | One minute with a real model | On Qwen one page does what is published for GPT-2, for a small part of what its heads say; on SmolLM2 it fails until what is said in every text is taken out. |
| [Chapter 7](07_british) | Is there a British neuron? | In Qwen one neuron's gate hears it, by conditions that were set before; in SmolLM2 and `mini` none does. Qwen predicts spelling without it, off the words themselves. |
| [Chapter 8](08_neurons) | Which neurons know the context? | Nearly all, and so do random mixtures of them; the weights single out those that a subject moves far, half of the best ones among them. |
| [Chapter 9](09_evaluation) | How good is it, and what limits it? | The order of texts is good and the amounts are wrong: values are read in the wrong place. What costs most after that depends on the training. |
| [Chapter 10](10_causal) | Does the model use it? | Yes: most of what silencing the heads costs is the text's domain, which one vector gives back. Nearly all of it goes through the layer's neurons. |
| [Chapter 11](11_families) | What if positions are elsewhere? | Stable heads form all the same, and there is less to approximate. Only with rotary positions is an error left that no calibration removes. |
| [Chapter 12](12_depth) | What of deeper layers? | The second layer's scores are still nearly where plus what, and a circuit reaches through its broad heads. Calibration noise is averaged away only in part. |
| [Chapter 13](13_lookups) | Which head wakes this neuron? | Seldom one head, hardly ever directly one of the first layer; the MLPs do more than all heads together. |
| [Chapter 14](14_explanations) | Can a sentence predict a head? | A few heads; most hardly better than a coin, and a high score may only say how long the text is. |
| [Appendix A](A_scale) | Where does Equation 1 err, and would a steadier scale help? | At the token that begins every text, and by a constant typical of the vocabulary and not of texts. A steadier scale helps rows, and not the circuit. |
| [Appendix B](B_naive_bayes) | Is a neuron a Naive Bayes classifier? | It leans that way: its weights resemble a little those of its own domain, and hardly those of another. |
| [Appendix C](C_certificates) | Can the weights alone promise a steady head? | Not alone; with counts of tokens they choose heads safely, and promise loosely, where content is even enough. |
| [Appendix D](D_superposition) | Why do German and Python share a neuron? | Because both lie far from all other texts, and not because they are alike: any axis that points a little their way has both at its end. |
| [Appendix E](E_training) | Do three seeds learn the same, and when? | The same map of domains, in other neurons. Broad, steady heads are there from the start. |

## How to read it

A chapter opens with its answer, goes from an example to the equation, and runs the equation as code. Near its end, under *Claims*, stands the **ledger**: each published claim beside what this run found. Every number is
computed. If one changes, the book does not build.

The chapters run on **mini**, which comes with the book and needs no network. They run as well on GPT-2 itself, or on a model of yours: open one in Colab with the rocket at the top of the page, set
`MODEL`, and run it. What a symbol means is on the [notation](notation) page, what a word means in the [glossary](glossary). You need linear algebra, a little probability, and to have met a
transformer before.

The method and its derivations are Alex Gibson's, in *Decomposing Attention To Find Context-Sensitive Neurons* {cite}`gibson2025decomposing`. Chapters 13 and 14 follow *Interpreting Context Look-ups in
Transformers* {cite}`neo2024interpreting`. The worked steps, the code, the model and the texts are the book's own.
"""
