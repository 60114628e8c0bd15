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

A language model reads one token at a time, and yet it knows what a page is about. Some neurons of its very first layer do. Here is one of them, on a page of a textbook that the model never
saw in training: first as the model computes it, then as this book predicts it.
"""

# %% tags=["setup", "remove-input", "remove-output"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "remove-input"]
# To draw the figure for GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"

# %% tags=["remove-input"]
from html import escape
from urllib.parse import quote

import numpy as np
import torch
from IPython.display import HTML

import ctxlib as cx

model = cx.load(MODEL)
study = cx.study(model)
weights, circuit, page, n = study.weights, study.circuit, study.example, study.n
x = page.tokens[: n + 1]
words = cx.neurons.spelled(weights, x.tolist())
FIRST = 8  # before this token there is hardly a context

# The neuron is chosen without running the model and without this page: of those that stand out by
# their weights, the first that the circuit's summaries of other texts (half A) label with the
# page's domain; the first of all where none is.
found = cx.find_neurons(circuit)
others = [text for text in study.texts if text.half != page.half] or study.passages
summaries = circuit.summary(cx.texts.at(weights, others, n, study.token))[:, found.index]
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
predicted, alone, own = torch.full((3, n + 1), torch.nan)
for m in range(FIRST, n + 1):
    there = cx.ContextualCircuit.calibrate(weights, study.calibrating, study.heads, m, study.token)
    predicted[m] = there.pre_activations(x[: m + 1])[neuron]
    alone[m] = predicted[m] - there.summary(x[: m + 1])[neuron]  # the token at hand, no context
    own[m] = there.self_normalised().pre_activations(x[: m + 1])[neuron]  # chapter 8

# %% tags=["remove-input"]
places = [i for s in shown for i in s]
top = float(torch.cat([received[places], predicted[places]]).nan_to_num().abs().max())


def shaded(values, caption):
    """The sentences, with full shade at `top`, which a token that is not seen carries."""
    pieces, shades = [""], [top]
    for s in shown:
        pieces += [" […]" if len(pieces) > 1 else "", *(str(words[i]) for i in s)]
        shades += [0.0, *values[s.start : s.stop].nan_to_num().tolist()]
    return cx.plots.ShadedText(pieces, torch.tensor(shades), caption)


display(
    shaded(
        received,
        f"<b>The model.</b> What neuron {neuron} of <code>{escape(MODEL)}</code> receives at each token: its pre-activation. Blue is above zero.",
    ),
    shaded(
        predicted,
        "<b>The prediction</b>, on the same scale, from the model's weights and one page of other text. No model was run on these words.",
    ),
)

# %% tags=["remove-input", "nbval-check-output"]
top_words = ", ".join(str(word).strip() for word in found.loc[neuron, "top tokens"][3:8])
text = weights.tokenizer.decode(x[1 : shown[-1].stop].tolist()) if weights.tokenizer else ""
address = f"reader.html#neuron={neuron}&text={quote(text[:1400])}"
HTML(
    f"<p>The page is <i>{escape(page.subject)}</i>. By its weights, tokens such as <i>{escape(top_words)}</i> push this neuron up. It rises while the page speaks of such things, and fades when the "
    f'page turns to something else. Do it yourself: the <a href="{escape(address)}">live reader</a> has the page and the neuron; '
    "change the text, and it is read again as you type.</p>"
)


# %% tags=["remove-input"]
def smooth(values, window=8):
    """Means over the last `window` tokens."""
    return np.convolve(values.numpy(), np.ones(window) / window, "full")[: len(values)]


tokens = np.arange(FIRST, n + 1)
truth, ours = received[FIRST:], predicted[FIRST:]
figure, ((axis,),) = cx.plots.panels(height=2.4)
for s in shown:
    axis.axvspan(s.start, s.stop, color=cx.plots.COLOURS[4], alpha=0.14, lw=0)
for values, colour, style, name in (
    (truth, cx.plots.INK, "-", "the model"),
    (ours, cx.plots.COLOURS[0], "--", "the prediction"),
):
    axis.plot(tokens, values, lw=0.5, alpha=0.45, color=colour)
    axis.plot(tokens[7:], smooth(values)[7:], style, lw=2, color=colour, label=name)
axis.axhline(0, color=cx.plots.INK, lw=0.6)
axis.set(xlabel="token of the page", ylabel="pre-activation", xlim=(FIRST, n))
axis.legend(fontsize=8)
r, r_alone, r_own = (
    float(torch.corrcoef(torch.stack([truth, values[FIRST:]]))[0, 1])
    for values in (predicted, alone, own)
)
above = float((ours - truth).mean())
cx.plots.picture(
    figure,
    "0.1",
    f"The whole page, as far as token {n}. Thin: each token; thick: means over 8. The two sentences from above are shaded.",
    f"Two curves over {n} tokens. The correlation is {r:.2f}; the model averages {float(truth.mean()):.1f}, the prediction {float(ours.mean()):.1f}.",
)

# %% tags=["remove-input", "nbval-check-output"]
display(
    cx.claims.finding(
        f"Along this page the prediction follows the model at a correlation of {r:.2f}; the token at hand alone, without the page before it, would give {r_alone:.2f}.",
        holds=r > 0.7 and r > r_alone + 0.2,
    ),
    cx.claims.finding(
        f"It is too high by {above:.1f} on average, because two kinds of constants were borrowed from another text; with the page's own, the correlation is {r_own:.2f}.",
        holds=above > 0.05 and r_own > 0.9,
    ),
)

# %% [markdown]
"""
## The story

Each head of a first layer takes a weighted mean over the text behind it. How much a token weighs depends on where it stands and on what it is, and the two can be taken apart: weight is a
*kernel* of the distance times a *content* of the token, divided by the sum of these products, the *denominator*. Were it not for the denominator, a head's output would be a plain sum with one
known term a token.

When a head spreads over many tokens, its denominator is an average, and averages hold still from text to text. Then one page of any text is enough to measure it. What remains comes from the
weights: each token of the vocabulary adds a fixed amount to each neuron, and the sum of these amounts over a text says what the neuron hears of it.

So the neurons that know a context can be found without a corpus. Sort each neuron's tokens by what they add, and read the ends of the list.

The book derives each step, measures its error on a model that nobody tuned for it, and says where it fails. The ranking of texts comes out well, the amounts do not, until the denominators are
taken from the text itself. Then it lets the model use the prediction in place of its own heads, leaves the first layer, and tries models with other positions.

## The chapters

Each asks one question.

| | asks |
| --- | --- |
| [Chapter 1](01_first_layer) | What does a first layer see? |
| [Chapter 2](02_keys) | Can a key be split into what and where? |
| [Chapter 3](03_kernels) | How far back does a head look? |
| [Chapter 4](04_denominators) | Why do denominators hold still? |
| [Chapter 5](05_calibration) | Is one calibration text enough? |
| [Chapter 6](06_circuit) | What do the stable heads say together? |
| [Chapter 7](07_neurons) | Which neurons know the context? |
| [Chapter 8](08_evaluation) | How good is it, and what limits it? |
| [Chapter 9](09_causal) | Does the model use it? |
| [Chapter 10](10_lookups) | Which head wakes this neuron? |
| [Chapter 11](11_explanations) | Can a sentence predict a head? |
| [Chapter 12](12_families) | What if positions are not in the residual stream? |
| [Appendix A](A_scale) | Where does Equation 1 err? |
| [Appendix B](B_naive_bayes) | Is a neuron a Naive Bayes classifier? |

## What each chapter finds

On `mini`, the model on these pages:

- **1.** A token and a position, added, and nothing else; yet what each head brings back tells one domain of text from another, even after the words of the page are shuffled.
- **2.** Yes, nearly. Rows rebuilt from the two halves are close to the true ones, and in half of the heads most of what is wrong is one token's, the one that begins every text.
- **3.** Over the whole page. One head fades slowly, the others weigh the page about evenly, and none lives on the last few tokens, as some heads of GPT-2 do.
- **4.** Because they are averages over many tokens, of something that varies little. What moves them most is the topic of the text, and the head that covers fewest tokens moves most.
- **5.** Yes, on average over the heads, though single heads are off by more. A page from the middle does all that any number of texts could.
- **6.** One weighted mean, with a fixed number for each token and neuron. It ranks texts as the neurons do, also within a domain; its amounts are worse than the bare mean of the domain.
- **7.** Those that a few tokens can push far. What such a neuron is about is a matter of degree, and labels hide much of it.
- **8.** The ranking is good, and borrowed constants are what spoils the amounts: with the text's own in their place, little but the error of the split remains.
- **9.** Put in the place of the heads, the circuit with the text's own constants mends most of what silencing them breaks; with borrowed constants it costs more than silence.
- **10.** Seldom one head. The MLPs together do more than the heads.
- **11.** For a few heads, those that read what kind of text they are in; for most, hardly better than a coin.
- **12.** Then there is less to approximate, not more.
- **A.** In half of the heads mostly on the token that begins every text.
- **B.** In its form; and its weights resemble those of a classifier of its own domain, and not those of others.

## How to read it

A chapter opens with its answer, goes from an example to the equation, and runs the equation as code. It ends with a **ledger**: each published claim beside what this run found. Every number is
computed; if one changes, the book does not build.

The chapters run on **mini**, which comes with the book and needs no network. They run as well on GPT-2 itself, or on a model of yours: open one in Colab with the rocket at the top of the page, set
`MODEL`, and run it. What a symbol means is on the [notation](notation) page, what a word means in the [glossary](glossary). You need linear algebra, a little probability, and to have met a
transformer before.

The method and its derivations are Alex Gibson's, in *Decomposing Attention To Find Context-Sensitive Neurons* {cite}`gibson2025decomposing`. Chapters 10 and 11 follow *Interpreting Context Look-ups in
Transformers* {cite}`neo2024interpreting`. The worked steps, the code, the model and the texts are the book's own.
"""
