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
# How good is it, and what limits it?

**The circuit puts texts nearly in the right order and gets the amounts wrong; about half of what is wrong, or less if it is mended last, is one number per neuron, which weights give up to one scale, and most of the rest is due to this page's constants.**
Over the found neurons of mini its median FVU, the fraction of variance unexplained, is 0.47; on a line fitted on other texts it is 0.06, and with neither kernel nor content 0.17.
FVU is the page's: of 72 passages 95 in 100 give one between 0.21 and 0.64, where 0.1426 is published, and r between 0.96 and 0.97, where 0.9485 is; both mends together were tried after each had been seen.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
HEADS = None  # a list of heads, or None for those that chapter 4 calls stable
STEADY = 0.3  # stable: denominators spread by less than this times their mean (and broad kernels)
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the token at the destination
PROSE = ("american", "british", "travel")  # the domains that count as plain prose
OTHER = "mini-base"  # a second model, judged by conditions that were fixed on mini
RUNS = None  # a folder of training runs: what they give is then computed and kept
MODELS = None  # real models that are run for what is kept: make evidence CHAPTER=09_evaluation

# Conditions of three questions, set before any of them was measured, and not moved:
# positions: what each head's own positional pattern adds by the positions of values (weights alone)
# takes at least half of the FVU away that values read at the destination cost: the difference
# between the paper's circuit and the same with exact values, `TOKEN` at n; the published gap is
# closed if what is left is at most 0.14265
GAP = 0.5
# readings: 0.9485 is met in both, if r of the summary with what the heads add and r with the
# neuron's whole activation are both at least 0.94845
# clusters: half A's texts in so many clusters of like denominators, a constant each; a text of half
# B gets the cluster whose mean summary is nearest to its own under one constant, so without its
# denominator. Clusters help if they take away a fifth of the FVU that one constant, half A's
# geometric mean, leaves: interval of the ratio below 0.8
CLUSTERS, FIFTH = 4, 0.8
# Set later, with the numbers known: how much is half of the FVU and most of the rest, what constants
# of plain prose, of all passages and of single texts leave, and what the text's own take; later
# still, what patterns leave by page, the other order of mending, and half A's domains matched

# %% tags=["hide-input", "nbval-check-output"]
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from einops import einsum
from sklearn.cluster import KMeans
from sklearn.linear_model import RidgeCV

import ctxlib as cx
from ctxlib.weights import layer_norm_scale

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS, STEADY, PROSE)
passages, n, heads, circuit = study.passages, study.n, study.heads, study.circuit
half_A = [text for text in study.texts if text.half == "A"] or study.texts
half_B = [text for text in study.texts if text.half == "B"] or study.texts


def find(circuit):
    """The neurons of chapter 8, or all where none stands out."""
    try:
        return cx.find_neurons(circuit).index.tolist()
    except ValueError:
        return list(range(circuit.at.n_neurons))


found, every = find(circuit), list(range(weights.n_neurons))
print(
    f"{study}\ncalibrated on {study.calibrating.name}; {len(found)} of {len(every)} neurons found\n"
    f"{len(half_A)} texts of half A to fit on, {len(half_B)} of half B to judge on"
)

# %% [markdown]
r"""
[Chapter 5](05_circuit) held the circuit's summary of a text against what the heads really add to a neuron, and found the order right and the amounts wrong. [Chapter 8](08_neurons) found the neurons that single tokens can move far, by the weights alone. For those neurons, on half B, this chapter asks what the error is made of, what a simpler guess would have reached, and where the rest comes from. FVU is zero if every amount is right, and one if they are as wrong as the neuron's mean.

## Three ways of being wrong

On the left is the found neuron in the middle by FVU: a dot is a text, the star the real passage.
"""

# %%
x_A, x_B = (study.at.placed(half) for half in (half_A, half_B))  # text source
true_A, true_B = (study.at.truth(x, heads) for x in (x_A, x_B))  # text neuron
paper_A, paper_B = circuit.summary(x_A), circuit.summary(x_B)

PARTS = {"from shape": "shape", "from spread": "a factor", "from offset": "a constant"}
quality = cx.evaluation.Moments.of(paper_B, true_B).table(
    every
)  # r, FVU and its parts, one row per neuron


# %% tags=["hide-input"]
def gathered(circuit, x):
    """What its heads gather of each text with the constants of its page: `text head d_head`."""
    by_token = circuit.weighted_values.flatten(1)
    z = cx.split.weighted_sum(by_token, x, circuit.kernel.expand(x.shape))
    return z.unflatten(-1, circuit.weighted_values.shape[1:])


x_P = study.at.placed(passages)


def from_pages(x):
    """What each text's constants multiply: what heads say, `page head`, and what positions add."""
    scales = circuit.scale / circuit.at.scale(x, circuit.at.outputs(x))  # page 1
    return circuit.denominators / circuit.at.denominators(x)[:, heads] * scales, scales


factors, scales = from_pages(x_P)


def by_pages(x, factors=factors):
    """Summaries of the found neurons with the constants of every page: `page text neuron`."""
    says = einsum(gathered(circuit, x), circuit.readout[..., found], "t h e, h e j -> t h j")
    return einsum(says, factors, "t h j, p h -> p t j")


paged = pd.DataFrame(
    [cx.evaluation.Moments.of(a, true_B[:, found]).table(found).median() for a in by_pages(x_B)]
)
of_pages, r_pages = (tuple(paged[k].quantile([0.025, 0.975])) for k in ("fvu", "r"))
ordered = quality.loc[found].dropna().sort_values("fvu")
middle = int(ordered.index[len(ordered) // 2])
a, t = paper_B[:, middle].numpy(), true_B[:, middle].numpy()
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.3)
left.plot(a, t, ".", ms=3, alpha=0.5)
left.plot(a[0], t[0], "*", ms=13, color=cx.plots.COLOURS[4], mec=cx.plots.INK)
left.axline((t.mean(), t.mean()), slope=1, color=cx.plots.INK, lw=1, ls=":", label="equal")
slope, intercept = np.polyfit(a, t, 1)
left.axline((0, intercept), slope=slope, color=cx.plots.COLOURS[1], label="best line")
left.set(xlabel="by the circuit", ylabel="in the model", title=f"neuron {middle}")
left.legend(loc="upper left", fontsize=9)
right.stackplot(range(len(ordered)), ordered[list(PARTS)].T, step="mid", labels=PARTS.values())
right.axvline(len(ordered) // 2, color=cx.plots.INK, lw=0.8, ls=":")
right.set(xlabel="found neurons, in the order of FVU", ylabel="FVU", title="taken apart")
right.set_ylim(0, float(ordered["fvu"].quantile(0.98)))
right.legend(loc="upper left", fontsize=9)
medians = quality.loc[found].median()
cx.plots.picture(
    figure,
    "9.1",
    f"Left: neuron {middle} on the {len(half_B)} texts of half B, {TOKEN!r} at n. Right: FVU of every found neuron and its three parts; the dotted line marks the neuron on the left, the largest fiftieth is cut.",
    f"A scatter plot with r = {ordered['r'][middle]:.2f} and FVU = {ordered['fvu'][middle]:.2f}, and a stacked area. Medians: "
    + ", ".join(f"{name} {medians[part]:.2f}" for part, name in PARTS.items()),
)

# %% [markdown]
r"""
The dots lie on a line, and not on the dotted one. Write $\sigma_a$, $\sigma_t$ for the standard deviations of approximation and truth over texts. The mean squared error is the squared mean of the error and its variance, $\sigma_a^2 - 2 r \sigma_a \sigma_t + \sigma_t^2$. Divide by $\sigma_t^2$ and complete the square:

$$
\begin{gathered}
\text{FVU} \;=\; \underbrace{\text{offset}^2}_{\text{a constant}} \;+\; \underbrace{(\text{spread} - r)^2}_{\text{a factor}} \;+\; \underbrace{1 - r^2}_{\text{shape}}, \\
\text{offset} = \frac{\overline{\text{approx}} - \overline{\text{truth}}}{\sigma_t}, \quad \text{spread} = \frac{\sigma_a}{\sigma_t} .
\end{gathered}
$$ (eq-eval-parts)

No part is negative, so nothing cancels. The first two go with the right constant and the right factor; the third stays whatever line is drawn. Forecasters of the weather take errors apart in the same way {cite}`murphy1988skill`, and read $r^2$ as what a forecast could be worth. A line that was fitted on half A shows what could be:
"""


# %%
def on_a_line(approx_A, true_A, approx):
    """The approximation with one slope and one offset per neuron, fitted on half A."""
    a, t = approx_A - approx_A.mean(0), true_A - true_A.mean(0)
    slope = ((a * t).sum(0) / a.square().sum(0)).nan_to_num()
    return true_A.mean(0) + slope * (approx - approx_A.mean(0))


lined_B = on_a_line(paper_A, true_A, paper_B)

# %% tags=["hide-input", "nbval-check-output"]
lined = cx.evaluation.Moments.of(lined_B, true_B).table(every)["fvu"]


def interval(column, approx, true, neurons=found, of=half_B):
    """Where the median over neurons lies, had other documents or domains been read."""
    a, t = approx[:, neurons], true[:, neurons]
    *ends, _ = cx.claims.widest(
        lambda drawn: cx.evaluation.Moments.of(a[drawn], t[drawn]).table(neurons)[column].median(),
        of,
        299,
    )
    return tuple(ends)


ends = {column: interval(column, paper_B, true_B) for column in ("r", "fvu")}
shown = quality[["r", "fvu", *PARTS]].assign(line=lined)
named = {"fvu": "FVU", **PARTS, "line": "FVU on a line from half A"}
shown = {"found neurons": shown.loc[found].median(), "all neurons": shown.median()}
pd.DataFrame(shown).T.rename(columns=named).round(3)

# %% [markdown]
r"""
(Medians of the parts need not add up to the median of the whole.) The published medians, r 0.9485 and FVU 0.1426, speak of the true activations of neurons in GPT-2 small {cite}`gibson2025decomposing`; here the part that the chosen heads add is the truth, which in `mini` with the same token at $n$ is nearly all that varies ([chapter 5](05_circuit)).

Many found neurons say the same. If $\rho_{jk}$ is the correlation of two truths over texts, $J$ neurons count as $J_\text{eff} = J^2 / \sum_{jk} \rho_{jk}^2$ independent ones:
"""


# %% tags=["hide-input", "nbval-check-output"]
def count(true):
    """How many independent neurons these are worth, from `text neuron`."""
    rho = torch.corrcoef(true.T).nan_to_num()  # neuron neuron
    return true.shape[1] ** 2 / float(rho.square().sum())


worth, worth_all = count(true_B[:, found]), count(true_B)
cx.claims.finding(
    f"The {len(found)} found neurons are worth {worth:.0f} independent ones, and all {len(every)} {worth_all:.0f}.",
    holds=worth < len(found) / 4 and worth_all < 2 * worth,
)

# %% [markdown]
r"""
The intervals of this chapter keep the neurons and redraw documents, or whole domains where that is wider, unless they name something else: they say what other texts would have given.

## Is that better than guessing?

How good a circuit looks depends on what it is held against {cite}`miller2024faithfulness`. Leave out one ingredient after another: the kernel, the content, both, and at last the text itself, for which the frequencies of tokens in half A stand in (the unigram). A summary is a bag of tokens, so each guess is one product:
"""


# %%
def bag(circuit, x, kernel):
    """The kernel's weight on every token of the vocabulary: `text vocab`."""
    empty = torch.zeros(len(x), circuit.at.d_vocab)
    return empty.scatter_add_(1, x, kernel.expand(x.shape))


def guesses(circuit, x, x_A):
    """The circuit's summary, and what is left of it: `text neuron`."""
    even = torch.full_like(circuit.kernel, 1 / len(circuit.kernel))
    by_kernel, evenly = bag(circuit, x, circuit.kernel), bag(circuit, x, even)
    of_values = einsum(  # contribution, if content / denominator were 1
        circuit.at.split.values(circuit.heads), circuit.readout, "t h d_head, h d_head j -> t j"
    )
    unigram = bag(circuit, x_A, even).mean(0) @ circuit.contribution
    return {
        "the circuit": by_kernel @ circuit.contribution,
        "no kernel: an even bag": evenly @ circuit.contribution,
        "no content: the kernel only": by_kernel @ of_values,
        "neither": evenly @ of_values,
        "no text: the unigram": unigram.expand(len(x), -1),
    }


# %% [markdown]
r"""
Beside these stand two guesses that have seen the truth on half A and know no weights: the mean of the text's domain there, and a regression on the even bag (ridge, its penalty chosen within half A). Texts of different domains are easily told apart, so $r$ is also taken *within domains*, with each domain's mean off both sides.
"""


# %% tags=["hide-input"]
def compare(circuit, halves, *sets, regress=True):
    """Every guess against the truth on half B: for each set of neurons a table, a row per guess."""
    x_A, x_B = (circuit.at.placed(half) for half in halves)
    true_A, true_B = (circuit.at.truth(x, circuit.heads) for x in (x_A, x_B))
    domain_A, domain_B = (np.array([text.domain for text in half]) for half in halves)
    g_A, g_B = (guesses(circuit, x, x_A) for x in (x_A, x_B))
    on_line = {name: on_a_line(g_A[name], true_A, guess) for name, guess in g_B.items()}
    same = torch.from_numpy(domain_B[:, None] == domain_A).to(true_A)
    even = torch.full_like(circuit.kernel, 1 / len(circuit.kernel))
    g_B["mean of its domain, half A"] = same @ true_A / same.sum(1, keepdim=True).clamp(min=1)
    if regress:
        ridge = RidgeCV(np.logspace(-9, 0, 10)).fit(bag(circuit, x_A, even), true_A)
        by_bag = torch.from_numpy(ridge.predict(bag(circuit, x_B, even)))
        g_B["regression on the bag, half A"] = by_bag.to(true_B)
    for J in sets:

        def fits(made, J=J):
            """A row per guess: r, r within domains and FVU, medians over the neurons J."""
            rows = {k: cx.evaluation.fit(v[:, J], true_B[:, J], domain_B) for k, v in made.items()}
            return pd.DataFrame(rows).T

        table = fits(g_B).assign(**{"FVU on a line": fits(on_line)["FVU"]})
        # some guesses are the same for all texts of a domain
        yield table.mask(table.abs() < 1e-3)


held, held_all = compare(circuit, (half_A, half_B), found, every)

# %% tags=["hide-input", "nbval-check-output"]
both = pd.concat({"found neurons": held, "all neurons": held_all[["r", "FVU"]]}, axis=1)
ours, no_kernel, no_content, neither = (held.iloc[k] for k in range(4))
*_, by_domain, _ = held["FVU"]
all_ours, _, _, all_neither, *_ = held_all["FVU"]
inside, by_place, by_what = (v["r within domains"] for v in (ours, no_kernel, no_content))
display(
    both.map("{:.3f}".format).replace("nan", ""),
    cx.claims.finding(
        f"By FVU as it stands nothing is gained: {ours['FVU']:.2f} with kernel and content, {neither['FVU']:.2f} with neither, {by_domain:.2f} by the mean of the text's domain; over all neurons {all_ours:.2f} and {all_neither:.2f}, which is worse.",
        holds=bool(
            abs(ours["FVU"] - neither["FVU"]) < 0.05
            and all_ours > all_neither
            and by_domain < ours["FVU"]
        ),
    ),
    cx.claims.finding(
        f"Within domains r is {inside:.2f}; it falls to {by_place:.2f} without the kernel and to {by_what:.2f} without content.",
        holds=bool(inside - by_what > 2 * (inside - by_place) > 0),
    ),
    cx.claims.finding(
        f"Over the found neurons of {MODEL} its median FVU, the fraction of variance unexplained, is {ours['FVU']:.2f}; on a line fitted on other texts it is {ours['FVU on a line']:.2f}, and with neither kernel nor content {neither['FVU on a line']:.2f}.",
        holds=bool(ours["FVU on a line"] < neither["FVU on a line"] / 2 < ours["FVU"] / 4),
    ),
)

# %% [markdown]
r"""
Constants and factors that are wrong in the same way hide what content is worth. To see it, take $r$ within domains, or a line. (The regression has thousands of tokens to weigh and some five hundred texts; a line on a bag with neither is the fairer rival.) The found neurons are no better served than all (last columns).

## The bill

Where do constant and factor come from? Between truth and summary stand six approximations, and each can be made or mended by itself. From here on every text keeps its own token at $n$, so that the query of `TOKEN` is one of the six.
"""

# %% tags=["hide-input"]
some = half_B[::2]
own = torch.stack([text.tokens[: n + 1] for text in some])  # with its own token at n
true_own = study.at.truth(own, heads)
SIX = cx.evaluation.APPROXIMATIONS


def approximated(circuit, x, made):
    """What the circuit's heads add with these approximations: `text neuron`, a few at a time."""
    return torch.cat([cx.evaluation.approximated(circuit, few, made) for few in x.split(32)])


def alone(circuit, x):
    """Only one approximation made, everything else exact: `text neuron` for each of the six."""
    return {k: approximated(circuit, x, {k}) for k in SIX}


# %% tags=["hide-input"]
def costs(made, true, neurons):
    """Medians over neurons, one row per approximation."""
    tables = {k: cx.evaluation.Moments.of(v[:, neurons], true[:, neurons]) for k, v in made.items()}
    return pd.DataFrame({k: m.table(neurons).median() for k, m in tables.items()}).T


only = alone(circuit, own)
bill = costs(only, true_own, found).sort_values("fvu")
all_six = costs({"made": approximated(circuit, own, SIX)}, true_own, found).loc["made"]
figure, ((axis,),) = cx.plots.panels(height=2.4)
named = bill[list(PARTS)].rename(index=SIX, columns=PARTS)
named.plot.barh(stacked=True, width=0.8, xlabel="FVU with only this approximation", ax=axis)
axis.legend(loc="lower right")
cx.plots.picture(
    figure,
    "9.2",
    f"What each approximation costs by itself, on {len(some)} texts with their own tokens at n; medians over found neurons, part by part.",
    "Stacked bars. FVU made alone: " + ", ".join(f"{k} {v:.3f}" for k, v in bill["fvu"].items()),
)

# %% tags=["hide-input", "nbval-check-output"]
of_values, of_denoms, of_token = (bill.loc[k] for k in ("values", "denominators", "token"))
alone_costs = cx.claims.finding(
    f"Alone, values read at the destination cost an FVU of {of_values['fvu']:.2f}, nearly all of it a constant, borrowed denominators {of_denoms['fvu']:.2f}, most of it a factor, and the other token's query {of_token['fvu']:.2f}, most of it shape; Equation 1 in the keys, with which all of the theory began, costs {bill['fvu']['keys']:.3f}.",
    holds=bool(
        set(bill.index[-2:]) == {"values", "denominators"}
        and of_values["from offset"] > 0.9 * of_values["fvu"]
        and of_denoms["from spread"] > 0.5 * of_denoms["fvu"]
        and of_token["from shape"] > 0.5 * of_token["fvu"] > 5 * bill["fvu"]["keys"]
    ),
)
display(
    alone_costs,
    cx.claims.finding(
        f"These costs do not add: alone the six sum to an FVU of {bill['fvu'].sum():.2f}, together they make {all_six['fvu']:.2f}, most of the difference a factor: denominators and query both make summaries spread too widely, {of_denoms['spread']:.1f} and {of_token['spread']:.1f} times.",
        holds=bool(
            min(of_denoms["spread"], of_token["spread"]) > 1
            and (all_six - bill.sum())["from spread"] > 0.5 * (all_six - bill.sum())["fvu"] > 0.05
        ),
    ),
)

# %% [markdown]
r"""
Why a constant? The circuit takes each token's value as if it stood at $n$. What it leaves out is what the sources' positions add, and that is nearly the same in every text. Why a factor? A denominator that is too small makes everything larger that its head says, and one that is too small in one text and too large in another is a factor that varies: shape.

[Chapter 5](05_circuit) has what is left when one item alone is mended.

Now mend one item after the other, in the order of the bill, and keep what is mended. At the last rung but one nothing is borrowed, and only Equation 1 in the keys is left. The last step is no mend: with Equation 1 for values and scale too, nothing is read but tables of the weights and the text, and a little more is wrong:
"""


# %%
def ladder(circuit, x):
    """One approximation less a step; at last Equation 1 everywhere, and nothing borrowed."""
    left, steps = set(SIX), {}
    steps["the paper's circuit"] = approximated(circuit, x, left)
    for name, step in {
        "values": "+ values where they stand",
        "denominators": "+ the text's own denominators",
        "token": "+ the query of its own token",
        "kernel": "+ each head's own kernel",
        "scale": "+ its own LayerNorm-2 scale",
    }.items():
        left = left - {name}
        steps[step] = approximated(circuit, x, left)
    steps["Equation 1 in values and scale too"] = circuit.self_normalised().summary(x)
    return steps


# %% tags=["hide-input"]
steps = ladder(circuit, own)
climbed = costs(steps, true_own, found)
figure, (axes,) = cx.plots.panels(1, 2, height=3.0, sharey=True)
for axis, values, label, published in (
    (axes[0], 1 - climbed["r"], "1 − median r", 1 - 0.9485),
    (axes[1], climbed["fvu"], "median FVU", 0.1426),
):
    axis.plot(values, range(len(values)), "o-")
    axis.axvline(published, color=cx.plots.INK, lw=1, ls=":", label="published, GPT-2 small")
    axis.set(xscale="log", xlabel=label)
    axis.xaxis.set_major_formatter("{x:g}")
axes[0].set_yticks(range(len(climbed)), climbed.index)
axes[0].invert_yaxis()
figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center")
cx.plots.picture(
    figure,
    "9.3",
    f"The approximations mended one after the other, on {len(some)} texts with their own tokens at n; medians over found neurons. Both axes are logarithmic and show what is missing.",
    "Two line plots, one point a step. FVU: "
    + "; ".join(f"{k} {v:.3f}" for k, v in climbed["fvu"].items()),
)

# %% [markdown]
r"""
## A circuit without borrowed constants

The last step is the **self-normalised circuit**. Nothing in it comes from another text: a denominator is a sum over the text's tokens as the numerator is, so whoever can compute the one can compute the other. Each head becomes a ratio of two bags:

$$
\text{out}_h(n) \;\approx\; \frac{\sum_{i \le n} \text{pos}_i\; \text{content}(x_i)\, \bigl( E_V[n, x_i] + P_V[n, i] + b_V \bigr)}{\sum_{i \le n} \text{pos}_i\; \text{content}(x_i)}\; W_O ,
$$ (eq-eval-ratio)

with $E_V$ and $P_V$ the two halves of Equation 1 for values, $W_V$ in place of $W_K$. In code it is shorter: split the normalised residual, and run the layer on the split.
"""

# %%
x = own[0]
at_n = cx.layer_norm(weights.W_E[x] + weights.W_pos[n], weights.eps)  # source d_model: what it is
seen = at_n + cx.split.positional_shift(weights, n)  # and where it stands: Equation 1

q = einsum(at_n[n], weights.W_Q, "d, head d e -> head e") + weights.b_Q
scores = einsum(q, weights.W_K, seen, "head e, head d e, source d -> head source")
rows = (scores / weights.attn_scale).softmax(-1)
z = einsum(rows, seen, weights.W_V, "head source, source d, head d e -> head e") + weights.b_V
out = einsum(z, weights.W_O, "head e, head e d -> head d")

stream = weights.W_E[x[n]] + weights.W_pos[n] + out.sum(0) + weights.b_O
s = layer_norm_scale(stream, weights.eps)
summary = out[heads].sum(0) @ weights.mlp_input()[0] / s  # neuron

# %% tags=["hide-input", "nbval-check-output"]
ours_too = circuit.self_normalised().summary(x)
cx.claims.finding(
    "The cell above is the circuit's own summary of this text.",
    holds=torch.allclose(summary, ours_too, rtol=1e-3, atol=1e-3),
)

# %% [markdown]
r"""
(What it takes is on [the page of costs](costs).) It is the first layer itself with one equation in place of the exact residual, so its error is a test of Equation 1 and of nothing else. `mini` was trained for its next token only, so the test could have failed. And it is not the circuit that one would want: it cannot say what a token adds before there is a text, since every token shares its denominators with all others. The paper's circuit can, and that is what its error buys.
"""

# %% [markdown]
r"""
## Three questions to the published numbers

**Do positions close the gap?** The post names a rung that needs weights alone {cite}`gibson2025contextual`: each head's own positional pattern on the values' positions,

$$
\sum_{h \in H} \sum_{i \le n} \text{pos}^h_i\; P_V^h[n, i]\; W_O^h .
$$ (eq-eval-positions)

Divided by LayerNorm 2's scale, as a summary is (the page's here), it is one number per neuron, the same for every text.

**What does 0.9485 correlate?** The paper can be read in two ways: the summary with what the heads add, or with the neuron's activation. Both are measured, and the activation before and after its nonlinearity (of a gated neuron: gate, and product).

**Is one constant too few?** Half A falls into four clusters of like denominators; a new text gets the cluster whose mean summary is nearest to its own.
"""


# %%
def positional_pattern(circuit):
    """What the heads' own positional patterns add by the positions of values: `neuron`."""
    split, heads, readout = circuit.at.split, list(circuit.heads), circuit.at.readout
    P_V = cx.split.where(split.weights, split.weights.W_V, circuit.at.n, split.C)[heads]
    z = einsum(split.kernels[heads], P_V, "h i, h i d -> h d")
    return einsum(z, readout.W_O[heads], "h d, h d m -> m") @ readout.W_in / circuit.scale


# %% tags=["hide-input"]
def readings(circuit, x, J):
    """Median r of the summary with what the heads add, and with what the neurons say."""
    summary = circuit.summary(x)[:, J]
    true = [circuit.at.mlp(few) | {"heads": circuit.at.truth(few, circuit.heads)} for few in x.split(32)]  # fmt: skip
    rs = {}
    for name in (k for k in true[0] if k != "up"):
        of = torch.cat([few[name] for few in true])[:, J]
        rs[name] = float(cx.evaluation.Moments.of(summary, of).table(J)["r"].median())
    return rs


def by_constants(circuit, x_A, x_B, J):
    """Summaries of half B with the constants of one page, of half A, of clusters, and its own;
    and by what each one's LayerNorm scale multiplies what positions add."""
    at, heads = circuit.at, list(circuit.heads)

    def log_constants(x):  # log of denominators, and of LayerNorm's scale
        both = [(at.denominators(few)[:, heads], at.scale(few, at.outputs(few))) for few in x.split(32)]  # fmt: skip
        return torch.cat([torch.cat([d, s], -1).log() for d, s in both])  # text head+1

    own_A, own_B = log_constants(x_A), log_constants(x_B)
    page = torch.cat([circuit.denominators, torch.as_tensor(circuit.scale).reshape(1)]).log()
    z_A, z_B = gathered(circuit, x_A), gathered(circuit, x_B)

    def summary(z, constants):  # `text d_model`, and what neurons read of it
        factors = (page - constants).exp()
        z = z * factors[:, :-1, None] * factors[:, -1:, None]
        return einsum(z, at.readout.W_O[heads], "t h e, h e m -> t m") / circuit.scale

    one = own_A.mean(0).expand(len(own_B), -1)
    cluster = KMeans(CLUSTERS, n_init=10, random_state=0).fit_predict(own_A[:, :-1])
    said_A, said_B = summary(z_A, one[:1]), summary(z_B, one)
    kinds = [torch.from_numpy(cluster == k) for k in range(CLUSTERS)]
    centres = torch.stack([said_A[k].mean(0) for k in kinds])
    nearest = torch.cdist(said_B, centres).argmin(1)
    theirs = torch.stack([own_A[k].mean(0) for k in kinds])[nearest]
    W = at.readout.W_in[:, J]
    chosen = {"one page": page[None], "half A": one, "clusters": theirs, "its own": own_B}
    made = {k: summary(z_B, constants) @ W for k, constants in chosen.items()}
    return made, {k: (page - constants)[:, -1:].exp() for k, constants in chosen.items()}


def asked_three(circuit, A, B, J):
    """What the three questions come to on some neurons: numbers, and what they are medians of."""
    x_A, x_B = (circuit.at.placed(texts) for texts in (A, B))
    truth = torch.cat([circuit.at.truth(few, circuit.heads)[:, J] for few in x_B.split(32)])
    made, rescaled = by_constants(circuit, x_A, x_B, J)

    def fvu(approx, drawn=slice(None)):
        table = cx.evaluation.Moments.of(approx[drawn], truth[drawn]).table(J)
        return float(table["fvu"].median())

    def ratio(drawn):
        return fvu(made["clusters"], drawn) / fvu(made["half A"], drawn)

    found = {"r": readings(circuit, x_B, J), "FVU": {k: fvu(v) for k, v in made.items()}}
    found["ratio"] = [ratio(slice(None)), *cx.claims.widest(ratio, B, 199)]
    if hasattr(circuit.at.split, "weights"):  # positions are added
        here = set(cx.evaluation.APPROXIMATIONS) - {"values"}
        exact = torch.cat([cx.evaluation.approximated(circuit, few, here)[:, J] for few in x_B.split(32)])  # fmt: skip
        plain, pattern = circuit.summary(x_B)[:, J], positional_pattern(circuit)[J]
        found["positions"] = [fvu(v) for v in (plain, plain + pattern, exact)]
        both = made["half A"] + pattern * rescaled["half A"]
        found["both"] = [fvu(both), *cx.claims.widest(lambda drawn: fvu(both, drawn), B, 199)]
    return found


REAL = {"qwen": "Qwen", "smollm2": "SmolLM2", "minilm": "MiniLM"}
ASKED = cx.models.DATA / "evidence" / "constants.json"


def asked_real(name):
    """The same of a real model's first layer: its hundred strongest neurons."""
    model = cx.load(name, layers=1)
    reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
    texts = cx.texts.collection(reader, 500)
    A, B = ([text for text in texts if text.half == half] for half in "AB")
    at = cx.destination(model, A, 128 if isinstance(model, cx.models.Encoder) else 256)
    one = cx.study(at, A, or_all=True).circuit
    J = cx.find_neurons(one, threshold=-math.inf).index[:100].tolist()
    return asked_three(one, A, B, J) | {
        "sha256": [*cx.models.real_models()[name]["files"].values()]
    }


if MODELS:
    facts = {name: asked_real(name) for name in MODELS}
    facts = json.loads(json.dumps(facts), parse_float=lambda v: round(float(v), 4))
    facts = (json.loads(ASKED.read_text()) if ASKED.exists() else {}) | facts
    ASKED.write_text(json.dumps(facts, indent=1) + "\n")
three = {MODEL: asked_three(circuit, half_A, half_B, found)}
asked_of = json.loads(ASKED.read_text())
three |= {said: asked_of[name] for name, said in REAL.items()}

# %% tags=["hide-input", "nbval-check-output"]
before, with_positions, exact_values = three[MODEL]["positions"]
J, true_J, pattern = list(range(len(found))), true_B[:, found], positional_pattern(circuit)[found]
ends_positions = interval("fvu", paper_B + positional_pattern(circuit), true_B)
placed = by_pages(x_B) + (pattern * scales)[:, None]  # page text neuron
by_page = costs(dict(enumerate(placed)), true_J, J)["fvu"]
least, most = by_page.quantile([0.025, 0.975])
taken = (1 - by_page / paged["fvu"]).quantile([0.025, 0.975])
closed = (before - with_positions) / (before - exact_values)
of_minilm = three["MiniLM"]["positions"]
there = (of_minilm[0] - of_minilm[1]) / (of_minilm[0] - of_minilm[2])
both, both_low, both_high, _ = three[MODEL]["both"]
half_only = three[MODEL]["FVU"]["half A"]
first, last_of_all = 1 - with_positions / before, (half_only - both) / before
READINGS = {"heads": "heads' sum", "pre": "before the nonlinearity", "gate": "before the nonlinearity", "post": "activation", "product": "activation"}  # fmt: skip
by_reading = {m: {READINGS[k]: v for k, v in facts["r"].items()} for m, facts in three.items()}
added, before_it, after_it = (
    [row[k] for row in by_reading.values()] for k in dict.fromkeys(READINGS.values())
)
adds = dict(zip(by_reading, added, strict=True))
ratios_of = {m: facts["ratio"] for m, facts in three.items()}
helped = [m for m, (_, _, high, _) in ratios_of.items() if high < FIFTH]
display(
    pd.DataFrame(
        {
            m: {f"r, {k}": f"{by_reading[m][k]:.3f}" for k in dict.fromkeys(READINGS.values())}
            | {
                f"FVU, constants of {k}": f"{v:.3f}"
                for k, v in facts["FVU"].items()
                if k != "clusters"
            }
            | {"clusters over half A": "{:.2f} [{:.2f}, {:.2f}], by {}".format(*facts["ratio"])}
            for m, facts in three.items()
        }
    ),
    cx.claims.finding(
        f"What the heads' positional patterns add, known from weights but for the page's LayerNorm scale, takes the FVU from {before:.2f} to {with_positions:.2f} [{ends_positions[0]:.2f}, {ends_positions[1]:.2f}] with this page's constants; with other passages' 95 in 100 leave {least:.2f} to {most:.2f}, the median {by_page.median():.2f}.",
        holds=bool(closed > GAP and (by_page < paged["fvu"]).all()),
    ),
    cx.claims.finding(
        f"That is {closed:.0%} of what exact values would take, and {there:.0%} on MiniLM, whose positions are learned too: {of_minilm[0]:.2f} to {of_minilm[1]:.2f}, below the published 0.1426 (no interval is kept). With this page's constants {MODEL} is still above it, with {(by_page <= 0.14265).sum()} of {len(by_page)} passages' below.",
        holds=bool(min(closed, there) > GAP and ends_positions[0] > 0.14265 > of_minilm[1]),
    ),
    cx.claims.finding(
        f"With both, the mean constants of {len(half_A)} other texts and the positional patterns, tried after each had been seen, the FVU is {both:.2f} [{both_low:.2f}, {both_high:.2f}]; the published number is 0.1426.",
        holds=both_high < 0.14265,
    ),
    cx.claims.finding(
        f"Taken first, positional patterns take {first:.0%} of the FVU (by page {taken.iloc[0]:.0%} to {taken.iloc[1]:.0%}), and half A's constants {1 - both / with_positions:.0%} of the rest; taken last, after constants with {1 - half_only / before:.0%}, they take {last_of_all:.0%} of the whole.",
        holds=bool(
            0.4 < first < 0.6
            and last_of_all < first
            and both < with_positions / 2
            and before - half_only > (1 - last_of_all) * before / 2
        ),
    ),
    cx.claims.finding(
        f"What the heads add meets the published r on {cx.claims.listed(f'{m} ({v:.3f})' for m, v in adds.items() if v >= 0.94845)}, misses it narrowly on Qwen ({adds['Qwen']:.4f}, no interval kept; undecided in chapter 6) and by far on SmolLM2 ({adds['SmolLM2']:.2f}); no model's activation meets it ({f'{min(after_it):.2f}'.replace('-', '−')} to {max(after_it):.2f}).",
        holds=bool(
            max(after_it) < 0.94845
            and {m for m, v in adds.items() if v >= 0.94845} == {MODEL, "MiniLM"}
            and 0.94 < adds["Qwen"] < 0.94845
            and adds["SmolLM2"] < 0.8
        ),
    ),
    cx.claims.finding(
        f"Clusters take a fifth away by the whole interval on SmolLM2 only; on {MODEL} they leave {ratios_of[MODEL][0]:.2f} [{ratios_of[MODEL][1]:.2f}, {ratios_of[MODEL][2]:.2f}] of what one constant leaves.",
        holds=bool(helped == ["SmolLM2"] and ratios_of[MODEL][2] > 1),
    ),
)

# %% [markdown]
r"""
After the nonlinearity 0.9485 is met in no model, before it on `mini` alone. That does not say which was correlated in GPT-2; this book takes what the heads add, which is what the circuit approximates. Nor do we know whether the published FVU has positional patterns: the post has them {cite}`gibson2025contextual`. The conditions set beforehand came out so: positions close more than half, and, by one page, the published gap on MiniLM only, where there was hardly one; 0.9485 is not met in both readings; clusters take a fifth away on SmolLM2, not on `mini`.

Half A is more than one page, and other texts: which of the two helps? The same with geometric means of other constants, each with its own LayerNorm scale, tried last:
"""

# %% tags=["hide-input", "nbval-check-output"]
made, rescaled = by_constants(circuit, x_A, x_B, found)
plain = torch.from_numpy(np.isin(study.domains, PROSE))
kinds = {f"{plain.sum()} passages of plain prose": plain, f"all {len(plain)} passages": plain | True}  # fmt: skip
for kind, few in kinds.items():
    meant = (v[few].log().mean(0, keepdim=True).exp() for v in (factors, scales))
    made[kind], rescaled[kind] = by_pages(x_B, next(meant))[0], next(meant)
mended = {k: summary + pattern * rescaled[k] for k, summary in made.items()}
from_A, scales_A = (torch.cat(v) for v in zip(*map(from_pages, x_A.split(32)), strict=True))
by_single, domain_A = by_pages(x_B, from_A), [text.domain for text in half_A]
single = {"FVU": costs(dict(enumerate(by_single)), true_J, J)["fvu"]}
same = torch.from_numpy(np.equal.outer(domain_A, [text.domain for text in half_B]))  # A B
near, far = (
    sum((a - true_J).square()[row].sum(0) for a, row in zip(by_single, pairs, strict=True)) / pairs.sum()
    for pairs in (same, ~same)
)  # fmt: skip
by_single += (pattern * scales_A)[:, None]
single["with"] = costs(dict(enumerate(by_single)), true_J, J)["fvu"]
of_kind, by_kind = (v.groupby(domain_A).median() for v in single.values())
plainly, by_both = (costs(each, true_J, J)["fvu"] for each in (made, mended))
left = pd.DataFrame({"FVU": plainly, "with positional patterns": by_both})
of_page, of_A, of_own, of_prose = by_both[["one page", "half A", "its own", next(iter(kinds))]]
display(
    left.sort_values("FVU", ascending=False).map("{:.2f}".format).rename_axis("constants of"),
    cx.claims.finding(
        f"With positional patterns, half A's constants leave {of_A:.2f}, a single text of half A {single['with'].median():.2f} in the median, by its domain {by_kind.min():.2f} ({by_kind.idxmin()}) to {by_kind.max():.2f} ({by_kind.idxmax()}), and the mean of {plain.sum()} passages of plain prose {of_prose:.2f}: from which texts constants are matters more than from how many.",
        holds=bool(
            of_page - of_prose < (of_page - of_A) / 4
            and single["with"].median() - of_A < (of_page - of_A) / 4
            and by_kind.max() > 1.5 * by_kind.min()
        ),
    ),
    cx.claims.finding(
        f"Of the single texts {(single['with'] < of_page).mean():.0%} leave less than this page, {of_page:.2f}; the text's own constants are best, {of_own:.2f}. Without patterns wrong ones can look better: single texts of {of_kind.idxmin()} leave {of_kind.min():.2f}, the text's own {plainly['its own']:.2f}.",
        holds=bool(
            (single["with"] < of_page).mean() > 0.5
            and by_both.idxmin() == "its own"
            and of_kind.min() < plainly["its own"]
        ),
    ),
)

# %% [markdown]
r"""
## What breaks it

**Another page.** The paper's circuit takes its denominators and scale from one page, so its FVU is in good part that page's. Here every passage of the book calibrates in turn, from the heaviest to the lightest (light: small denominators and LayerNorm scale, so summaries come out large).
"""

# %% tags=["hide-input"]
paged["light"] = factors.log().mean(1).tolist()
ranked = paged.sort_values("light")
figure, ((axis,),) = cx.plots.panels(height=2.8)
axis.stackplot(range(len(ranked)), ranked[list(PARTS)].T, step="mid", labels=PARTS.values())
at_page = int(np.abs(ranked["light"].to_numpy()).argmin())
axis.axvline(at_page, color=cx.plots.INK, lw=1, ls=":", label="the chapter's page")
axis.set(xlabel="passages that calibrate, from heavy to light", ylabel="FVU, medians of parts")
axis.legend(loc="upper left", fontsize=9)
cx.plots.picture(
    figure,
    "9.4",
    f"Each of {len(passages)} passages calibrates the circuit; {len(x_B)} texts with {TOKEN!r} at n, medians over found neurons, part by part.",
    f"A stacked area: shape lies between {paged['from shape'].min():.2f} and {paged['from shape'].max():.2f}, a factor between {paged['from spread'].min():.2f} and {paged['from spread'].max():.2f}, a constant between {paged['from offset'].min():.2f} and {paged['from offset'].max():.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
lowest, highest = paged.min(), paged.max()
cx.claims.finding(
    f"FVU is the page's: of {len(paged)} passages 95 in 100 give one between {of_pages[0]:.2f} and {of_pages[1]:.2f}, where 0.1426 is published, and r between {r_pages[0]:.2f} and {r_pages[1]:.2f}, where 0.9485 is; both mends together were tried after each had been seen.",
    holds=bool(
        of_pages[0] > 0.14265
        and r_pages[0] > 0.9485
        and highest["r"] - lowest["r"] < 0.05
        and highest["fvu"] > 4 * lowest["fvu"]
    ),
)

# %% [markdown]
r"""
A page chosen after looking at this figure would be chosen on the test; this book's was chosen as the middle of sixteen passages of prose, which are light, and no result took part. The self-normalised circuit needs none.

**Another training.** What stands above the three questions was seen on `mini` before it was said. These conditions were written down from it, and kept, before a second model was measured. `mini-base` differs from `mini` in length of training and in the optimiser's schedule. The third training, seed 1, is `mini-base`'s recipe with another seed; its weights are not in the book, only what these cells found on them. Each is judged by one page's constants, with no interval.
"""

# %%
CONDITIONS = {
    "r of the found neurons is at least the published 0.94845": lambda m: m["r"] >= 0.94845,
    "their FVU is above that of the domain's mean": lambda m: m["FVU"] > m["domain FVU"],
    "a line from half A leaves less than a quarter of it": lambda m: m["line"] < m["FVU"] / 4,
    "within domains r loses twice as much without content as without kernel": lambda m: (
        m["within"] - m["no content"] > 2 * (m["within"] - m["no kernel"])
    ),
    "alone, values and denominators cost most": lambda m: m["costliest"] == ["denominators", "values"],
    "mending these two leaves less than a fifth": lambda m: m["two mended"] < m["paper, own"] / 5,
    "Equation 1 everywhere: r above 0.99, FVU below 0.05": lambda m: (
        m["Equation 1, r"] > 0.99 and m["Equation 1, FVU"] < 0.05
    ),
    "found neurons are worth less than a fifth as many": lambda m: m["worth"] < m["found"] / 5,
}  # fmt: skip


# %% tags=["hide-input", "nbval-check-output"]
def numbers(held, alone, climbed, true):
    """What the conditions speak of; `true` is that of the neurons found."""
    within = held["r within domains"]
    return {
        **held.loc["the circuit", ["r", "FVU"]],
        "domain FVU": held["FVU"]["mean of its domain, half A"],
        "line": held["FVU on a line"].iloc[0],
        **dict(zip(("within", "no kernel", "no content"), within, strict=False)),
        "costliest": sorted(alone["fvu"].nlargest(2).index),
        "paper, own": climbed["fvu"].iloc[0],
        "two mended": climbed["fvu"].iloc[2],
        "Equation 1, r": climbed["r"].iloc[-1],
        "Equation 1, FVU": climbed["fvu"].iloc[-1],
        "found": true.shape[1],
        "worth": count(true),
    }


def token_over(others, made, true, neurons, of, column="fvu", redraw=cx.claims.widest):
    """What the circuit's token costs over what the largest of others costs, and its interval."""

    def ratio(drawn):
        cost = costs({k: made[k][drawn] for k in ("token", *others)}, true[drawn], neurons)[column]
        return float(cost["token"] / cost[others].max())

    return ratio(np.arange(len(true))), redraw(ratio, of, 199)[:2]


def token_to_denominators(*of):
    """The same, over denominators alone; documents are redrawn, as they were for seed 1."""
    return token_over(["denominators"], *of, redraw=cx.claims.by_document)


def of(name):
    """The same of another model: what is judged, its bill, and the ratio of two of its items."""
    other = cx.study(cx.load(name), TEXTS, TOKEN, None, STEADY, PROSE)
    there, J = other.circuit, find(other.circuit)
    halves = [[t for t in other.texts if t.half == half] or other.texts for half in "AB"]
    x = torch.stack([text.tokens[: other.n + 1] for text in halves[1][::2]])
    t, made = there.at.truth(x, other.heads), alone(there, x)
    bill, climbed = (costs(each, t, J) for each in (made, ladder(there, x)))
    (held,) = compare(there, halves, J, regress=False)
    asked = other.at.placed(halves[1])
    facts = numbers(held, bill, climbed, there.at.truth(asked, other.heads)[:, J])
    return facts, bill["fvu"], token_to_denominators(made, t, J, halves[1][::2])


KEPT = cx.models.DATA / "evidence" / "seed-1.json"
here = numbers(held, bill, climbed, true_B[:, found])
trained = {MODEL: (here, bill["fvu"], token_to_denominators(only, true_own, found, some))}
try:
    trained[OTHER] = of(OTHER)
except (OSError, ValueError) as reason:  # out of reach
    print(f"{OTHER} is not to be had here: {reason}")
if RUNS:
    place = Path(RUNS) / "seed-1-100"
    facts, items, ratio = of(place)
    kept = {"judged": facts, "bill": items.to_dict(), "token over denominators": ratio}
    kept = json.loads(json.dumps(kept), parse_float=lambda v: round(float(v), 4))
    kept = json.loads((place / "run.json").read_text()) | kept
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
kept = json.loads(KEPT.read_text())
if OTHER in trained:
    trained["seed 1"] = kept["judged"], pd.Series(kept["bill"]), kept["token over denominators"]
judged, bills, ratios = ({m: facts[k] for m, facts in trained.items()} for k in range(3))

# %% tags=["hide-input", "nbval-check-output"]
verdicts = pd.DataFrame(
    {m: {k: "yes" if f(v) else "no" for k, f in CONDITIONS.items()} for m, v in judged.items()}
)
met = (verdicts == "yes").sum()
(ratio, (_, top)), *_, (_, (bottom, _)) = [*ratios.values()] * 2
said = [f"{at:.1f} [{low:.1f}, {high:.1f}] on {m}" for m, (at, (low, high)) in ratios.items()]
others = (
    cx.claims.finding(
        f"Of {len(CONDITIONS)} statements that were fixed on mini before other models were measured, {met.iloc[min(1, len(met) - 1)]} hold on mini-base and {met.iloc[-1]} on a third training.",
        holds=bool(len(met) == 3 and met.iloc[0] == len(CONDITIONS) > met.iloc[1:].max()),
    ),
    cx.claims.finding(
        f"What costs most after the values differs: in FVU another token's query costs, over what borrowed denominators cost, {cx.claims.listed(said)} (documents redrawn).",
        holds=bool(ratio < 1 and top < bottom),
    ),
)
missing = cx.claims.Finding("Other trainings are not here, so what is said of them is left out.")
display(verdicts.rename_axis("condition"), *(others if OTHER in judged else [missing]))

# %% [markdown]
r"""
Values are the costliest item in each training. The second item of the bill is a fact about one training, and no ranking of items should be carried to another model. The post expected the token at the destination to be the main source of error {cite}`gibson2025contextual`: by shape `mini` agrees, by FVU it does not (two lines of the ledger below).

## Turn it

Where the page is live, two texts as they grow, prose of half B and code: what both circuits say so far, and what the model computes. Type over them: where does the paper's line leave the model's, and does the self-normalised one stay with it? Where it is not, 60 texts at $n$.
"""

# %% tags=["hide-input"]
code = next((p for p in study.passages if p.domain == "python"), study.passages[0])
shown = [weights.tokenizer.decode(text.tokens[1:161]) for text in (study.example, code)]
neuron, lines = int(found[0]), {}
for name, made in (("paper’s circuit", circuit), ("self-normalised", circuit.self_normalised())):
    lines[name] = made.summary(own[:60])[:, neuron]
figure, ((axis,),) = cx.plots.panels(height=3.0, width=5.5)
for name, mark in zip(lines, "o.", strict=True):
    axis.plot(true_own[:60, neuron], lines[name], mark, ms=4, alpha=0.7, label=name)
axis.axline((float(true_own[:60, neuron].mean()),) * 2, slope=1, color=cx.plots.INK, lw=1, ls=":")
axis.set(xlabel="in the model", ylabel="by the circuit", title=f"neuron {neuron}")
axis.legend(fontsize=8)
picture = cx.plots.picture(
    figure,
    "9.5",
    f"Neuron {neuron} on {len(lines[name])} texts of half B, their own token at n. Dotted: equal.",
    f"Dots along a diagonal: neuron {neuron} by both circuits and in the model.",
)
cx.widgets.LiveReader(
    weights, picture=picture, heads=list(heads), neuron=neuron, text=shown[0], other=shown[1]
)

# %% [markdown]
r"""
## Claims

The second line's interval holds 95 in 100 of the passages of Figure 9.4; the last line's draws the passages. Lines 4 and 5 read one sentence in two ways, the second added when its number was known. The last line matches four coarse kinds of passages, and not domains as [chapter 4](04_denominators) does for denominators; the line below it does. The published medians are met from half a unit of their last digit on; the other conditions are this book's reading of words.
"""

# %% tags=["hide-input", "nbval-check-output"]
all_own = torch.stack([text.tokens[: n + 1] for text in half_B])
paper_own, own_truth = circuit.summary(all_own), study.at.truth(all_own, heads)
r_own = float(cx.evaluation.Moments.of(paper_own, own_truth).table(every)["r"][found].median())
ends_own = interval("r", paper_own, own_truth)
spoken_of = [name for name in SIX if name not in ("token", "scale")]  # what the post speaks of
main_error = {
    f"{said} by the query of {TOKEN!r}, over the largest other item but LayerNorm 2": token_over(
        spoken_of, only, true_own, found, some, column
    )
    for said, column in {"shape lost": "from shape", "FVU added": "fvu"}.items()
}
true_P = study.at.truth(x_P, heads)[:, found]
errors = (by_pages(x_P) - true_P).square() / true_P.var(0, correction=0)  # page text neuron
dialect = np.array([page.dialect for page in passages])
foreign, prose = ~np.char.startswith(dialect, "en"), np.isin(study.domains, PROSE)
names = ["code", "other languages", "prose"]
kind_of = np.select([dialect == "python", foreign, prose], names, "other English")
member = torch.from_numpy(kind_of[:, None] == np.unique(kind_of)).to(errors)  # page kind
apart = 1 - torch.eye(len(passages)).to(errors)  # a page is not tested on itself


def matched_over_other(drawn, member=member):
    """Error with the kind of text matched over error with another, the median kind."""
    often = torch.from_numpy(np.bincount(drawn, minlength=len(passages))).to(errors)
    pairs = often[:, None] * often * apart
    total = einsum(member, pairs[..., None] * errors, member, "p a, p t j, t b -> a b j")
    table = (total / (member.T @ pairs @ member)[..., None]).nanquantile(0.5, dim=-1)
    other = table.masked_fill(torch.eye(len(table), dtype=torch.bool), torch.nan)
    return float((table.diagonal() / other.nanmean(0)).nanquantile(0.5))


cx.claims.ledger(
    model,
    cx.claims.Claim(
        "median_r", f"paper's circuit, {TOKEN!r} at n: median r", medians["r"], ends["r"], 4
    ),
    cx.claims.Claim("median_fvu", "the same: median FVU", medians["fvu"], of_pages, 4),
    cx.claims.Claim("median_r", "paper's circuit, own token at n: median r", r_own, ends_own, 4),
    *(cx.claims.Claim("token_main_error", said, *ratio) for said, ratio in main_error.items()),
    cx.claims.Claim(
        "own_domain",
        "error with the kind of text matched, over error with another, median kind",
        matched_over_other(np.arange(len(passages))),
        cx.claims.by_document(matched_over_other, passages, 199),
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
by_name = np.array(study.domains)[:, None] == np.unique(study.domains)


def domains_matched(drawn):
    """The same with domains in place of kinds."""
    return matched_over_other(drawn, torch.from_numpy(by_name).to(errors))


among = domains_matched(np.arange(len(passages)))
low, high = cx.claims.by_document(domains_matched, passages, 199)
from_half_A = float((near / far).nanmedian())
cx.claims.finding(
    f"With domains matched, tried later, it is {among:.2f} [{low:.2f}, {high:.2f}] among passages, and {from_half_A:.2f} with half A's texts on half B (no interval is kept): whether matching helps depends on the texts.",
    holds=bool(low > 0.9 > from_half_A),
)

# %% [markdown]
r"""
What costs SmolLM2 its FVU is the error of borrowed denominators, which meets what its heads say in every text ([chapter 6](06_real_model)); the self-normalised circuit borrows none.

## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
last = climbed.iloc[-1]
ranks_B = (pd.DataFrame(v[:, found]) for v in (paper_B, true_B))
ranked_as = pd.DataFrame.corrwith(*ranks_B, method="spearman").median()
last_ends = interval("fvu", list(steps.values())[-1], true_own, of=some)
display(
    cx.claims.finding(
        f"Texts come nearly in the right order: the rank correlation is {ranked_as:.2f}, r {medians['r']:.3f} [{ends['r'][0]:.3f}, {ends['r'][1]:.3f}], and {ours['r within domains']:.2f} within domains.",
        holds=bool(min(ends["r"][0], ranked_as) > 0.9 and ours["r within domains"] > 0.8),
    ),
    cx.claims.finding(
        f"Amounts are right up to a constant and a factor per neuron: FVU {medians['fvu']:.2f} [{ends['fvu'][0]:.2f}, {ends['fvu'][1]:.2f}] by texts, and [{of_pages[0]:.2f}, {of_pages[1]:.2f}] by page, as they are, {lined[found].median():.2f} on a line.",
        holds=bool(lined[found].median() < 0.1 < ends["fvu"][0]),
    ),
    cx.claims.finding(
        f"Equation 1 alone, with the text's own denominators, gives the amounts: with the text's own token at n r is {last['r']:.3f} and FVU {last['fvu']:.3f} [{last_ends[0]:.3f}, {last_ends[1]:.3f}].",
        holds=bool(last["r"] > 0.99 and last_ends[1] < 0.05),
    ),
)

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* The summaries of half B are dealt out again among the texts of the same domain. What becomes of $r$, and of $r$ within domains? Write down two numbers first.
"""

# %% tags=["nbval-check-output"]
domain_B = np.array([text.domain for text in half_B])
dealt, deal = paper_B.clone(), torch.Generator().manual_seed(0)
for name in np.unique(domain_B):
    mates = torch.from_numpy(np.flatnonzero(domain_B == name))
    dealt[mates] = paper_B[mates[torch.randperm(len(mates), generator=deal)]]
fit = cx.evaluation.fit(dealt[:, found], true_B[:, found], domain_B)
means = held.loc["mean of its domain, half A"]
pd.DataFrame({"dealt again": fit, "mean of its domain, half A": means}).loc[
    ["r", "r within domains"]
].round(2)

# %% [markdown]
r"""
2. *Fill in* the three parts of {eq}`eq-eval-parts` for one neuron, from `a` (by the circuit) and `t` (in the model).
"""

# %%
a, t = paper_B[:, middle], true_B[:, middle]
mine = ...  # three numbers: constant, factor, shape

# %% tags=["hide-input", "nbval-check-output"]
if mine is ...:
    print("not yet")
else:
    wanted = quality.loc[middle, ["from offset", "from spread", "from shape"]].to_numpy(float)
    print("right" if np.allclose([float(part) for part in mine], wanted, atol=1e-2) else "not this")

# %% [markdown]
r"""
3. *Break this.* Read the passage at the right end of Figure 9.4, `passages[int(paged["light"].argmax())]`. Why are its denominators small? Write a page that is lighter still, a string of `n` tokens or more, and calibrate on it (`cx.ContextualCircuit.calibrate(study.at, page, heads)`). Which part of the FVU cannot be broken in this way?
4. *By hand.* Treat the published medians, $r$ 0.9485 and FVU 0.1426, as those of one neuron. How much of the FVU is shape? If the rest were all a constant, how large would it be, in standard deviations of the truth? If it were all a factor, how large could the spread be?

```{admonition} Solutions
:class: dropdown

1. $r$ falls below that of the domain's mean, since the dealt summaries bring the variation of other texts; within domains nothing is left.
2. `mine = ((a.mean() - t.mean()) / t.std(correction=0)) ** 2, (a.std() / t.std() - r) ** 2, 1 - r**2` with `r = torch.corrcoef(torch.stack([a, t]))[0, 1]`.
3. It holds few of the tokens that the heads like, so little is divided by, and everything comes out too large: a factor, and a constant where the summary's mean is not zero. Shape changes only by weighing one head against another, and not at all with a single head.
4. $1 - 0.9485^2 = 0.1003$, about seven tenths. The rest is 0.0423: an offset of 0.206 standard deviations, or a spread of $0.9485 \pm 0.206$. A median of FVU and a median of $r$ need not belong to one neuron, so this is an estimate.
```

## Where this comes from

The protocol, its two medians and the advice on calibration texts are from {cite:t}`gibson2025decomposing`; the part of positions in the values and the expectation about the token at the destination from {cite:t}`gibson2025contextual`. The three parts are those of a skill score by mean squared error {cite}`murphy1988skill`; that a circuit's score depends on what it is held against is the subject of {cite:t}`miller2024faithfulness`. The simpler guesses, the budget, the ladder and the circuit without a calibration text are worked out here.
"""
