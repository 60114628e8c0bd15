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

The first layer of a language model already carries traces of what a text is about. This book measures them, and reads them from the weights. It takes you to where you can

1. take one attention layer apart, with equations whose error you have measured yourself;
2. say which heads of an unknown model hold still, why, and how far that can be trusted;
3. name the neurons that know what a text is about, from the model's weights and one page of text, with an error bar.
"""

# %% tags=["setup", "remove-input", "remove-output"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "remove-input"]
# To draw the figure for GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
DOMAINS = (
    "cooking",
    "python",
    "spanish",
    "scripture",
)  # what the text below goes through, in this order

# %% tags=["remove-input"]
import numpy as np
import torch

import ctxlib as cx

model = cx.load(MODEL)
reader = cx.texts.Reader.of(model)
passages = cx.texts.passages(reader)
PRE = "blocks.0.mlp.hook_pre"


def pre_activations(tokens):
    """First-layer MLP pre-activations of one text, `pos neuron`."""
    with torch.inference_mode():
        _, cache = model.run_with_cache(tokens[None], names_filter=PRE, stop_at_layer=1)
    return cache[PRE][0].cpu()


def neuron_of(domain, shown):
    """The neuron that best sets a domain apart from the others, on passages not shown."""
    rest = [i for i, p in enumerate(passages) if p not in shown]
    inside = torch.stack([means[i] for i in rest if passages[i].domain == domain])
    outside = torch.stack([means[i] for i in rest if passages[i].domain != domain])
    margin = inside.min(0).values - outside.quantile(0.95, dim=0)
    return int((margin / outside.std(0)).argmax())


means = [pre_activations(p.tokens)[64:].mean(0) for p in passages]
shown = [next(p for p in passages if p.domain == d) for d in DOMAINS]
piece = (min(512, reader.n_ctx) - 1) // len(shown)
text = torch.cat([shown[0].tokens[:1], *(p.tokens[1 : 1 + piece] for p in shown)])
neurons = [neuron_of(d, shown) for d in DOMAINS]

everywhere = torch.stack(means)
activity = (pre_activations(text)[:, neurons] - everywhere[:, neurons].mean(0)) / everywhere[
    :, neurons
].std(0)
window = 12
smooth = activity.unfold(0, window, 1).mean(-1)

figure, axes = cx.plots.panels(len(DOMAINS), 1, height=1.0, sharex=True, sharey=True)
x = np.arange(len(smooth)) + window - 1
for row, (axis, neuron) in enumerate(zip(axes[:, 0], neurons, strict=True)):
    colour = cx.plots.COLOURS[row]
    start = 1 + row * piece
    axis.axvspan(start, start + piece, color=colour, alpha=0.12, lw=0)
    axis.plot(x, smooth[:, row], color=colour, lw=1.4)
    axis.fill_between(x, 0, smooth[:, row].clamp_min(0), color=colour, alpha=0.45, lw=0)
    axis.axhline(0, color=cx.plots.INK, lw=0.6)
    label = f"neuron {neuron}"
    axis.annotate(
        label, (1.01, 0.5), xycoords="axes fraction", va="center", color=colour, weight="bold"
    )
    if row == 0:
        for column, name in enumerate(DOMAINS):
            axis.annotate(
                name,
                (1 + (column + 0.5) * piece, 1.05),
                xycoords=("data", "axes fraction"),
                ha="center",
                color=cx.plots.COLOURS[column],
                weight="bold",
            )
axes[-1, 0].set(xlabel="token", xlim=(0, len(text)))
figure.supylabel("pre-activation (standard deviations)", fontsize=10)
cx.plots.picture(
    figure,
    "0.1",
    f"What {len(DOMAINS)} neurons in the first layer of <code>{MODEL}</code> receive (their pre-activations) while it reads one text that passes through {len(DOMAINS)} domains. Each neuron was chosen "
    f"on other texts. None sees more than the token at hand and what the attention heads of one layer bring to it. Means over {window} tokens; the unit is the standard deviation of the neuron's mean over passages.",
    f"{len(DOMAINS)} curves, one above the other, over the tokens of a text made of {', '.join(DOMAINS)}. Mean in its own domain and elsewhere: "
    + "; ".join(
        f"neuron {n} averages {activity[1 + c * piece + 32 : 1 + (c + 1) * piece, c].mean():.1f} in {d} and "
        f"{torch.cat([activity[33 : 1 + c * piece, c], activity[1 + (c + 1) * piece + 32 :, c]]).mean():.1f} elsewhere"
        for c, (d, n) in enumerate(zip(DOMAINS, neurons, strict=True))
    )
    + ".",
)

# %% [markdown]
"""
## How the book works

Every chapter asks one question and answers it: an idea, its equation, code that is that equation, a figure, what the figure means, and what breaks it. A
chapter ends with a **ledger**, in which each published claim stands beside what this run found and a verdict. The ledger is computed. If a number in it
changes, the book does not build.

The chapters run on **mini**, a GPT-2 at pocket size that comes with the book and needs no network. They run as well on GPT-2 itself, or on your
own model: open one in Colab with the rocket at the top of the page, set `MODEL`, and run it. The code calls a small package, `ctxlib`, that you can install and
use on its own.

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

What a symbol means is on the [notation](notation) page, what a word means in the [glossary](glossary). You need linear algebra, a little probability, and
to have met a transformer before; nothing else is assumed.

The method and its derivations are Alex Gibson's, in *Decomposing Attention To Find Context-Sensitive Neurons*
{cite}`gibson2025decomposing`. Chapters 10 and 11 follow *Interpreting Context Look-ups in Transformers* {cite}`neo2024interpreting`. The worked steps, the code, the model and the texts are the book's own.
"""
