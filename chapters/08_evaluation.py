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

**The circuit puts texts in the right order and gets the amounts wrong, for two reasons: it reads values as if they stood at the destination, and it borrows its denominators.**
Over the found neurons the paper's circuit has a median r of 0.969 with what its heads truly add, where 0.9485 is published, and a median FVU of 0.46, where 0.1426 is.
Most of that FVU is one constant and one factor a neuron: a straight line learned on other texts brings it down to 0.06.
The self-normalised circuit, which borrows nothing from another text, has a median r of 0.999 and a median FVU of 0.015 [0.014, 0.016].
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
HEADS = None  # a list of heads, or None for those that chapter 4 calls stable
STEADY = 0.3  # a head whose denominator strays by less than this, relative to its mean, is stable
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
SOME = 200  # how many of them where every approximation is tried
TOKEN = " the"  # the token at the destination
PROSE = ("american", "british", "travel")  # the domains that count as plain prose

# %% tags=["hide-input", "nbval-check-output"]
import numpy as np
import pandas as pd
import torch
from einops import einsum
from matplotlib.colors import LogNorm
from sklearn.cluster import AgglomerativeClustering
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
study = cx.study(cx.load(MODEL), TEXTS, TOKEN, HEADS, STEADY, PROSE)
model, weights, passages, texts = study.model, study.weights, study.passages, study.texts
n, heads, domains = study.n, study.heads, study.domains
calibrating, circuit = study.calibrating, study.circuit
prose, LENGTH = study.prose, study.length
W_in, _ = weights.mlp_input()  # d_model neuron
# Where one version after the other is tried, as many texts as cost what 1000 cost on the book's own model.
several = texts[: max(100, int(1000 * 256 * 256 / (n * weights.d_model)))]
try:
    found = cx.find_neurons(circuit).index.tolist()
except ValueError:  # none stands out
    found = list(range(weights.n_neurons))
print(
    f"{study}\ncalibrated on {calibrating.name}; {len(found)} of {weights.n_neurons} neurons found"
)

# %% [markdown]
r"""
## A summary and a truth

[Chapter 6](06_circuit) put the stable heads $H$ together: with the denominators and the LayerNorm-2 scale of one calibration text, every token of the vocabulary adds a fixed number to every neuron, weighted by one kernel. [Chapter 7](07_neurons) took from these numbers the neurons that single tokens can move far.
For such a neuron $j$ and a text $x$, the circuit says the first of these, and the model does the second:

$$
\begin{aligned}
\text{approx}_j(x) \;&=\; \sum_{i \le n} \text{pos}_i\; \text{contribution}[j, x_i] , \\
\text{truth}_j(x) \;&=\; \sum_{h \in H} \text{out}_h(n) \cdot W_\text{in}[:, j] \,/\, s(x) .
\end{aligned}
$$ (eq-eval-truth)

Here $\text{out}_h(n)$ is what head $h$ really writes, with its own attention row, and $s(x)$ is the scale by which the second LayerNorm divides in this very text. In code, for one text:
"""

# %%
(x,) = cx.texts.at(weights, texts[:1], n, TOKEN)  # source

approx_x = circuit.kernel @ circuit.contribution[x]  # neuron

outputs = cx.destination.true_outputs(weights, x, n)  # head d_model
s = cx.weights.layer_norm_scale(cx.destination.resid_mid(weights, x, n, outputs), weights.eps)
truth_x = outputs[heads].sum(0) @ W_in / s  # neuron

# %% tags=["nbval-check-output"]
same = torch.allclose(approx_x, circuit.summary(x), atol=1e-4)
print("same as circuit.summary:", same)
same = torch.allclose(truth_x, cx.true_contribution(weights, x, heads, n), atol=1e-4)
print("same as cx.true_contribution:", same)

# %% [markdown]
r"""
Over a set of texts, two numbers compare them. With bars for means over texts, and $\sigma_a$, $\sigma_t$ for the standard deviations of $\text{approx}_j$ and $\text{truth}_j$,

$$
\begin{aligned}
r \;&=\; \frac{\operatorname{mean}_x \bigl( (\text{approx} - \overline{\text{approx}}) (\text{truth} - \overline{\text{truth}}) \bigr)}{\sigma_a\, \sigma_t} , \\
\text{FVU} \;&=\; \frac{\operatorname{mean}_x\, (\text{approx} - \text{truth})^2}{\sigma_t^2} .
\end{aligned}
$$ (eq-eval-r)

The **correlation** $r$ does not change when the approximation is multiplied by a positive number or shifted by any. The **fraction of variance unexplained** changes with both, and is 1 for the best constant guess. The published evaluation reports the medians over the found neurons on 1000 texts: $r$ 0.9485 and FVU 0.1426
{cite}`gibson2025decomposing`. It speaks of true activations of neurons; what is held against the summary here is the part that the chosen heads add, and the whole pre-activation has a section of its own below. The protocol is run in two versions. In the first, $x_n$ is replaced by `TOKEN` in every text, as in calibration: this is what the circuit is made for. In the second every text keeps its own token at $n$, as a reader of ordinary text meets it.
"""


# %%
def r_and_fvu(approx, truth):
    """Per neuron, from `text neuron`."""
    a, t = approx - approx.mean(0), truth - truth.mean(0)
    r = (a * t).sum(0) / (a.square().sum(0) * t.square().sum(0)).sqrt()
    return r, (approx - truth).square().sum(0) / t.square().sum(0)


def over(function, texts, own):
    """A function of `text source` on all texts, batch by batch; with `own`, own tokens at n."""
    parts = cx.texts.batches(weights, texts, n, None if own else TOKEN, "texts")
    return torch.cat([function(part) for part in parts])


def true_found(x):
    return cx.true_contribution(weights, x, heads, n)[:, found]


VERSIONS = {False: f"{TOKEN!r} at n", True: "own token at n"}
whole = {own: cx.evaluate(circuit, texts, own_token=own) for own in VERSIONS}  # all neurons
tables = {own: whole[own].loc[found] for own in VERSIONS}
truth = {own: over(true_found, texts, own) for own in VERSIONS}  # text neuron
true_several = {own: values[: len(several)] for own, values in truth.items()}
paper = {own: over(lambda x: circuit.summary(x)[:, found], texts, own) for own in VERSIONS}

# %% tags=["nbval-check-output"]
for own, version in VERSIONS.items():
    r, fvu = r_and_fvu(paper[own].double(), truth[own].double())
    agree = np.allclose(r, tables[own]["r"], atol=1e-4) and np.allclose(
        fvu, tables[own]["fvu"], atol=1e-3
    )
    print(f"{version}: same as cx.evaluate: {agree}")

# %% [markdown]
r"""
`cx.evaluate` keeps running sums instead of the texts, so it takes any number of them (and, with `checkpoint`, goes on after an interruption). How far can its medians be trusted? Other documents could have been read. Draw them again with replacement, each with all of its texts, and compute all correlations anew: the middle 95% of the draws is the interval. (Neurons are no second sample: they read the same few hundred numbers that the heads write, so what holds for one holds for many.)
"""

# %% tags=["hide-input"]
rng = np.random.default_rng(0)


def of_documents(summary, *pairs):
    """The 95% interval over documents of a function of r and FVU, `neuron`, of each pair of an
    approximation and a truth, `text neuron`."""
    products = []
    for approx, truth in pairs:
        a, t = (v.double().numpy() for v in (approx, truth))
        e = (a - t) ** 2
        a, t = a - a.mean(0), t - t.mean(0)
        products.append((a, t, a * a, t * t, a * t, e))

    def of_drawn(drawn):
        share = np.bincount(drawn, minlength=len(truth)) / len(drawn)
        numbers = []
        for pair in products:
            a, t, aa, tt, at, e = (share @ v for v in pair)  # neuron
            cov, var_a, var_t = at - a * t, aa - a * a, tt - t * t
            numbers += [cov / np.sqrt(var_a * var_t), e / var_t]
        return summary(*numbers)

    return cx.claims.by_document(of_drawn, texts[: len(pairs[0][0])], 499)


def median_r(r, fvu):
    return float(np.nanmedian(r))


def median_of_fvu(r, fvu):
    return float(np.nanmedian(fvu))


ends = {
    own: [of_documents(f, (paper[own], truth[own])) for f in (median_r, median_of_fvu)]
    for own in VERSIONS
}
rows = []
for own, version in VERSIONS.items():
    row = {"version": version, "neurons": "found", "number": str(len(found))}
    for k, name in enumerate(("r", "fvu")):
        row[f"median {name}"] = f"{tables[own][name].median():.3f}"
        row[f"{name}: 95%"] = "{:.3f} to {:.3f}".format(*ends[own][k])
    rows.append(row)
    row = {"version": version, "neurons": "all", "number": str(weights.n_neurons)}
    row |= {f"median {name}": f"{whole[own][name].median():.3f}" for name in ("r", "fvu")}
    rows.append(row)
rows.append(
    {
        "version": "published, GPT-2 small",
        "neurons": "found",
        "median r": "0.9485",
        "median fvu": "0.1426",
    }
)

# %% tags=["hide-input", "nbval-check-output"]
r_here, fvu_here = (float(tables[False][name].median()) for name in ("r", "fvu"))
display(
    pd.DataFrame(rows)
    .astype(object)
    .fillna("")
    .set_index("version")
    .rename(columns=lambda name: name.replace("fvu", "FVU")),
    cx.claims.finding(
        f"Over the found neurons the paper's circuit has a median r of {r_here:.3f} with what its heads truly add, where 0.9485 is published, and a median FVU of {fvu_here:.2f}, where 0.1426 is.",
        holds=ends[False][0][0] > 0.9485 and 2.5 < fvu_here / 0.1426 < 3.5,
    ),
)


# %% tags=["hide-input"]
def log_axis(axis, which="x"):
    """A logarithmic axis with plain numbers: every power of ten, and 2 and 5 where few fit."""
    (axis.set_xscale if which == "x" else axis.set_yscale)("log")
    low, high = axis.get_xlim() if which == "x" else axis.get_ylim()
    steps = (1, 2, 5) if high / low < 30 else (1,)
    marks = [step * 10.0**power for power in range(-6, 4) for step in steps]
    shown = [m for m in marks if low <= m <= high]
    (axis.set_xticks if which == "x" else axis.set_yticks)(shown, [f"{m:g}" for m in shown])
    axis.minorticks_off()


figure, (axes,) = cx.plots.panels(1, 2, height=3.0, sharey=True)
for axis, name, published, label in (
    (axes[0], "r", 0.9485, "r"),
    (axes[1], "fvu", 0.1426, "FVU"),
):
    for k, (own, version) in enumerate(VERSIONS.items()):
        for table, dash, who in ((tables[own], "-", "found"), (whole[own], "--", "all")):
            ordered = np.sort(table[name].dropna())
            axis.step(
                ordered,
                np.arange(1, len(ordered) + 1) / len(ordered),
                where="post",
                ls=dash,
                color=cx.plots.COLOURS[k],
                label=f"{version}, {who} neurons",
            )
    axis.axvline(published, color=cx.plots.INK, lw=1, ls=":", label="published median")
    axis.set(xlabel=f"{label}, one neuron")
lowest = min(float(t["r"].quantile(0.01)) for t in whole.values())
axes[0].set_xlim(max(-1, lowest - 0.02), 1.002)
log_axis(axes[1])
axes[0].set_ylabel("share of neurons below")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
cx.plots.picture(
    figure,
    "8.1",
    f"How r (left) and FVU (right, logarithmic) are distributed over neurons, on {len(texts)} texts. "
    "Dotted: the published medians for GPT-2 small. The lowest hundredth of r may lie outside.",
    "Two cumulative distributions. Median r and FVU of the found neurons: "
    + "; ".join(
        f"{version} {tables[own]['r'].median():.2f} and {tables[own]['fvu'].median():.2f}"
        for own, version in VERSIONS.items()
    )
    + "; published 0.95 and 0.14.",
)

# %% [markdown]
r"""
At the height of one half the curves of the left panel lie to the right of the dotted line, better than published, and those of the right panel too, which is worse. Solid and dashed nearly coincide, but for a tail of neurons among all that the circuit gets quite wrong: the found neurons were picked for large contributions and not for good ones. ([Chapter 6](06_circuit) took the 100 neurons of largest top and half B of these texts, hence its slightly other numbers.) The distance between the two colours is the price of calibrating with one token at $n$ and reading with another; it is small.

The intervals keep everything else as it is: the heads (which were chosen on these texts), and the one calibration text, of which more below. The earlier post judged a similar approximation by eye, and found that it follows the course of a neuron and its decisions but not its single values {cite}`gibson2025contextual`.
Two numbers that disagree say the same in another way. What exactly do they disagree about?

## Three ways of being wrong

Split the error into its mean and the rest: $\text{approx} - \text{truth} = (\overline{\text{approx}} - \overline{\text{truth}}) + (a - t)$, where $a$ and $t$ are deviations from the means over texts. The mean square of the sum is the sum of the squares, for $a - t$ has mean zero, and the mean of $(a - t)^2$ is $\sigma_a^2 - 2 r \sigma_a \sigma_t + \sigma_t^2$.
Divide by $\sigma_t^2$ and complete the square:

$$
\begin{aligned}
\text{FVU} \;&=\; \text{offset}^2 + \text{spread}^2 - 2\, r\, \text{spread} + 1 \\
&=\; \underbrace{\text{offset}^2}_{\text{a constant}} \;+\; \underbrace{(\text{spread} - r)^2}_{\text{a factor}} \;+\; \underbrace{1 - r^2}_{\text{shape}}, \\
\text{offset} \;&=\; \frac{\overline{\text{approx}} - \overline{\text{truth}}}{\sigma_t}, \qquad \text{spread} \;=\; \frac{\sigma_a}{\sigma_t} .
\end{aligned}
$$ (eq-eval-parts)

None of the three parts is negative, so nothing cancels. The first is gone once the right constant is added, the second once the approximation is multiplied by the right factor. (That factor makes the spread $r$, not 1: an imperfect approximation should be damped.) The third stays whatever line is drawn, and it is all that $r$ knows about.
"""

# %% tags=["nbval-check-output"]
a, t = paper[False].double(), truth[False].double()
r, fvu = r_and_fvu(a, t)
offset = (a.mean(0) - t.mean(0)) / t.std(0, correction=0)
spread = a.std(0) / t.std(0)
parts = torch.stack([offset.square(), (spread - r).square(), 1 - r.square()])  # part neuron
print("the parts add up to FVU:", torch.allclose(parts.sum(0), fvu))

# %% tags=["hide-input"]
PARTS = ("from offset", "from spread", "from shape")
table = tables[False].dropna()
order = table["fvu"].to_numpy().argsort()
middle = int(order[len(order) // 2])  # the neuron of median FVU
row = table.iloc[middle]
column = found.index(table.index[middle])
a, t = paper[False][:, column].numpy(), truth[False][:, column].numpy()
slope, intercept = np.polyfit(a, t, 1)

figure, ((left, right),) = cx.plots.panels(1, 2, height=3.4)
left.plot(a, t, ".", ms=2.5, alpha=0.5)
reach = np.array([min(a.min(), t.min()), max(a.max(), t.max())])
left.plot(reach, reach, color=cx.plots.INK, lw=1, ls=":", label="equal")
across = np.array([a.min(), a.max()])
left.plot(across, intercept + slope * across, color=cx.plots.COLOURS[1], label="best line")
left.set(xlabel="summary", ylabel="truth", title=f"neuron {table.index[middle]}")
left.legend(loc="upper left", fontsize=9)
bottom = np.zeros(len(table))
for k, part in enumerate(reversed(PARTS)):  # what stays is lowest
    height = table[part].to_numpy()[order]
    right.bar(
        np.arange(len(table)), height, 1.0, bottom=bottom, label=part, color=cx.plots.COLOURS[k]
    )
    bottom += height
right.axvline(len(order) // 2, color=cx.plots.INK, lw=0.8, ls=":")
right.set(xlabel="found neurons, in the order of FVU", ylabel="FVU", title="All found neurons")
right.set_ylim(0, 1.02 * float(np.quantile(bottom, 0.98)))
right.legend(loc="upper left", fontsize=9)
cx.plots.picture(
    figure,
    "8.2",
    f"Left: the found neuron of median FVU, one dot a text ({TOKEN!r} at n). Right: the FVU of every found "
    "neuron, one column each, taken apart; the dotted line marks the neuron on the left. Columns of the largest "
    "fiftieth may be cut.",
    f"A scatter plot with r = {row['r']:.2f} and FVU = {row['fvu']:.2f}, and stacked columns. Medians over found neurons: "
    + ", ".join(f"{part} {table[part].median():.2f}" for part in PARTS)
    + ".",
)

# %% [markdown]
r"""
On the left, the vertical distance of a dot from the dotted diagonal is its error, and its distance from the coloured line is the part of the error that has a shape. On the right the lowest layer is that part for every neuron, $1 - r^2$; everything above it is a constant and a factor.

A constant and a factor per neuron are cheap. A straight line $\alpha_j + \beta_j\, \text{approx}_j$, fitted where the truth is known, removes both there. Whether it does so elsewhere is to be tested, on texts that the line has not seen: fitted on one half of the collection and tried on the other, and fitted on the passages, which are texts of another origin.
"""


# %%
def line(approx, truth):
    """Slope and intercept per neuron that take approx nearest to truth."""
    a = approx - approx.mean(0)
    slope = (a * (truth - truth.mean(0))).sum(0) / a.square().sum(0)
    return slope, truth.mean(0) - slope * approx.mean(0)


def median_fvu(approx, truth):
    return float(r_and_fvu(approx, truth)[1].nanquantile(0.5))


half = len(texts) // 2
straight = {}
for own, version in VERSIONS.items():
    a, t = paper[own], truth[own]
    a_P = over(lambda x: circuit.summary(x)[:, found], passages, own)
    t_P = over(true_found, passages, own)
    by_half, by_passages = line(a[half:], t[half:]), line(a_P, t_P)
    straight[version] = {
        "as it is": median_fvu(a, t),
        "line from the other half": median_fvu(by_half[0] * a[:half] + by_half[1], t[:half]),
        f"line from {len(passages)} passages": median_fvu(by_passages[0] * a + by_passages[1], t),
        "shape alone, 1 − r²": float(tables[own]["from shape"].median()),
    }

# %% tags=["nbval-check-output"]
shape, lined = float(tables[False]["from shape"].median()), straight[VERSIONS[False]]
by_line = lined["line from the other half"]
display(
    pd.DataFrame(straight).T.map(lambda v: f"{v:.2f}").rename_axis("median FVU"),
    cx.claims.finding(
        f"Most of that FVU is one constant and one factor a neuron: a straight line learned on other texts brings it down to {by_line:.2f}.",
        holds=by_line < fvu_here / 4,
    ),
)

# %% [markdown]
r"""
The second and third columns come near the last: the first two parts of {eq}`eq-eval-parts` are properties of the neuron and the circuit, not of the texts, and a few known texts buy them off, as in [chapter 6](06_circuit). But a line explains nothing. It needs the truth that the circuit was meant to replace, and it hides what is wrong rather than mending it. So, where do the constant and the factor come from?

## What the calibration text decides

The factor has an obvious source. The calibration text enters the circuit through one number per head and one for all, as a divisor:

$$
\text{approx}_j \;=\; \frac{1}{s^\text{cal}} \sum_{h \in H} \frac{g_{h,j}(x)}{\text{denom}_h^\text{cal}} .
$$ (eq-eval-divisors)

The $g_{h,j}(x)$ know nothing of the calibration text. With a single head it could not change $r$ at all, and with several it can only by weighing one head against another. FVU sees all of it. Since {eq}`eq-eval-divisors` makes another calibration text a matter of a division, all passages can be tried in turn.
"""


# %%
def per_head(x):
    """g: what each head adds to the found neurons before any division, `text head neuron`."""
    z = einsum(
        circuit.kernel,
        circuit.weighted_values[x],
        "source, text source head d_head -> text head d_head",
    )
    seen = einsum(z, circuit.readout[..., found], "t head d_head, head d_head j -> t head j")
    return seen * circuit.denominators[:, None] * circuit.scale


def true_scale(x):
    stream = cx.destination.resid_mid(weights, x, n, cx.destination.true_outputs(weights, x, n))
    return cx.weights.layer_norm_scale(stream, weights.eps)  # text 1


g = over(per_head, texts, own=False)  # text head neuron
denoms_P = cx.softmax_denominators(weights, passages, n, TOKEN)[:, heads]  # text head
scales_P = over(true_scale, passages, own=False)  # text 1


def calibrated(g, denominators, scales):
    """The circuit with other divisors."""
    return (g / denominators[..., None]).sum(-2) / scales


tried = pd.DataFrame(
    [
        cx.Moments.of(calibrated(g, d, s), truth[False]).table(found).median()
        for d, s in zip(denoms_P, scales_P, strict=True)
    ],
    index=[p.name for p in passages],
)
denoms_T = cx.softmax_denominators(weights, texts, n, TOKEN)[:, heads]
tried["lightness"] = (denoms_T.log().mean(0) - denoms_P.log()).mean(1).exp().tolist()

# %% tags=["nbval-check-output"]
again = calibrated(g, circuit.denominators, circuit.scale)
print("same circuit as before:", torch.allclose(again, paper[False], atol=1e-3))
print(
    f"{len(tried)} calibration texts: r from {tried['r'].min():.2f} to {tried['r'].max():.2f}; "
    f"FVU from {tried['fvu'].min():.2f} to {tried['fvu'].max():.2f}, "
    f"median {tried['fvu'].median():.2f}"
)
print(
    f"prose only: FVU from {tried.loc[[p.name for p in prose], 'fvu'].min():.2f} "
    f"to {tried.loc[[p.name for p in prose], 'fvu'].max():.2f}; "
    f"{calibrating.name} {tried.loc[calibrating.name, 'fvu']:.2f}"
)
display(
    cx.claims.finding(
        f"Which passage calibrates matters little to r, {tried['r'].min():.2f} at the worst and {tried['r'].max():.2f} at the best, and much to FVU, {tried['fvu'].max():.2f} at the worst and {tried['fvu'].min():.2f} at the best.",
        holds=bool(
            tried["r"].max() - tried["r"].min() < 0.05
            and tried["fvu"].max() > 4 * tried["fvu"].min()
        ),
    ),
    cx.claims.finding(
        f"Calibrated on the middle passage the median FVU is more than twice the published 0.1426: {tried['fvu'].median():.2f}.",
        holds=bool(tried["fvu"].median() > 2 * 0.1426),
    ),
)

# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, height=3.0)
is_prose = tried.index.isin([p.name for p in prose])
for axis, name, label in ((axes[0], "r", "median r"), (axes[1], "fvu", "median FVU")):
    for k, (chosen, who) in enumerate(((~is_prose, "other passages"), (is_prose, "prose"))):
        axis.plot(
            tried["lightness"][chosen],
            tried[name][chosen],
            "os"[k],
            ms=5,
            alpha=0.7,
            label=who,
        )
    axis.plot(
        tried.loc[calibrating.name, "lightness"],
        tried.loc[calibrating.name, name],
        "*",
        ms=13,
        color=cx.plots.COLOURS[4],
        mec=cx.plots.INK,
        label="the chapter's",
    )
    axis.axvline(1, color=cx.plots.INK, lw=1, ls=":")
    axis.set_ylim(0, 1 if name == "r" else None)
    axis.set(xlabel="how light the calibration text is", ylabel=label)
axes[0].legend(loc="lower right", fontsize=9)
cx.plots.picture(
    figure,
    "8.3",
    f"Every passage as calibration text, tested on the same {len(texts)} texts ({TOKEN!r} at n). Lightness: the denominators "
    "of the collection over those of the passage, geometric means; at 1 (dotted) the passage is of middle weight.",
    f"Two scatter plots. Median r stays between {tried['r'].min():.2f} and {tried['r'].max():.2f}; median FVU "
    f"runs from {tried['fvu'].min():.2f} to {tried['fvu'].max():.2f}. Calibrated on {calibrating.name}, of lightness "
    f"{tried.loc[calibrating.name, 'lightness']:.2f}: {tried.loc[calibrating.name, 'fvu']:.2f}.",
)

# %% [markdown]
r"""
The left panel is a plain, the right one a slope. Texts to the right of the dotted line have small denominators, divide by too little and overstate every neuron. The text of this chapter is the middle one of the *prose*, and all of the prose lies to the right of the dotted line: it is lighter than the mix of domains that is
read. So the FVU of a circuit is in good part the FVU of its calibration text, and two values of it can be compared only as far as the two texts were equally lucky. A star that is not at the lowest point is left as it is: a text chosen after looking at this figure would be chosen on the test. And even the lowest point is not at zero, because divisors cannot mend a constant, nor a shape.

## The bill, item by item

Between truth and summary there are six approximations. Each can be undone by itself: `cx.evaluation.approximated` computes the heads' contribution with any set of them.
"""

# %% tags=["hide-input"]
pd.Series(cx.evaluation.APPROXIMATIONS, name="what is put in place of the truth").to_frame()

# %%
budgets = {own: cx.evaluation.error_budget(circuit, several[:SOME], found, own) for own in VERSIONS}

# %% tags=["hide-input"]
figure, axes = cx.plots.panels(2, 2, height=2.4, sharey="row", sharex="col")
for row_axes, (own, version) in zip(axes, VERSIONS.items(), strict=True):
    budget = budgets[own]
    names = list(budget.loc["only"].index)
    costs = (lambda at, b=budget: b.loc[at, "fvu"], lambda at, b=budget: 1 - b.loc[at, "r"])
    for axis, cost in zip(row_axes, costs, strict=True):
        for k, (made, label) in enumerate((("only", "only this one"), ("without", "all but this"))):
            axis.plot(
                cost(made).to_numpy(),
                np.arange(len(names)) + (k - 0.5) * 0.25,
                "os"[k],
                ms=7,
                label=label,
            )
        axis.axvline(cost(("all", "")), color=cx.plots.INK, lw=1, ls=":", label="all of them")
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.5, -0.5)
    row_axes[0].set_title(version)
for axis, label in zip(axes[1], ("median FVU", "1 − median r"), strict=True):
    log_axis(axis)
    axis.set_xlabel(label)
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
cx.plots.picture(
    figure,
    "8.4",
    f"The error budget on {min(SOME, len(several))} texts: each approximation made alone, everything else exact (circles), and all of them but this one "
    "(squares). Dotted: all of them. Logarithmic axes; farther right is worse.",
    "Dot plots of FVU and r. FVU with only one approximation: "
    + "; ".join(
        f"{version}: "
        + ", ".join(f"{name} {v:.2f}" for name, v in budgets[own].loc["only", "fvu"].items())
        + f", all {budgets[own].loc[('all', ''), 'fvu']:.2f}"
        for own, version in VERSIONS.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
for own, version in VERSIONS.items():
    only, every = budgets[own].loc["only"], budgets[own].loc[("all", "")]
    print(
        f"{version}: the single costs add up to FVU {only['fvu'].sum():.2f}, all together cost "
        f"{every['fvu']:.2f}; most alone: {only['fvu'].idxmax()}"
    )
values_cost, denominators_cost = (
    budgets[False].loc[("only", name), "fvu"] for name in ("values", "denominators")
)
keys_cost = max(float(b.loc[("only", "keys"), "fvu"]) for b in budgets.values())
display(
    budgets[True].loc[["all", "only", "without"]].map(lambda v: f"{v:.2f}"),
    cx.claims.finding(
        f"Two items make the bill: values read at the destination cost an FVU of {values_cost:.2f} alone and borrowed denominators {denominators_cost:.2f}, while Equation 1 in the keys costs {keys_cost:.3f} at most.",
        holds=bool(min(values_cost, denominators_cost) > 10 * keys_cost),
    ),
)

# %% [markdown]
r"""
Circles first: what an approximation costs by itself. The table (own tokens at $n$) says in which way. Errors of the *denominators* come as a factor, and with it some shape, since a denominator that is too small in one text and too large in the next is a factor that varies. The *values* row is the constant: the circuit takes the value of every token as if it stood at the
destination, so the position embeddings of the sources are replaced by that of the destination, and the difference is nearly the same in every text. In the right column the same row costs little, since $r$ does not see a constant. It is the constant that divisors cannot mend. *Keys*, which all of the theory began with, are a small item.

Squares next: what is left when one item is mended. They need not mirror the circles, and the costs need not add up, because errors do: two that point in opposite directions cost less together than apart. The extreme case is an item with its square to the *right* of the dotted line, where mending makes things worse: with own tokens at $n$, the scale. (Where the token is one of the approximations, `TOKEN` also stands at source $n$ in them, so "all" is not quite the circuit of the first table, which counted the text's own token there, and read more texts.)

## When mending makes things worse

With own tokens at $n$, mending the *scale* alone raises FVU. The borrowed scale is larger than the scale of most texts that have another token there than `TOKEN`. So it damps, and what it damps is overstated, because the borrowed denominators are too small. Two errors of opposite sign cost less together than the second alone.

One would expect trouble from another item. The circuit reads with the query of `TOKEN` although another token asks. To mend only this is to read with the right query, and to calibrate the denominators with the right query too, on the one calibration text. Heads were *chosen* for steady denominators under `TOKEN`; under another query a borrowed denominator may be far off in single texts. Is it?
"""

# %%
names = set(cx.evaluation.APPROXIMATIONS)
wrong_query, right_query = (
    over(
        lambda x, made=made: cx.evaluation.approximated(circuit, x, made)[:, found],
        several,
        own=True,
    )
    for made in (names, names - {"token"})
)
squared = {
    f"query of {TOKEN!r}": (wrong_query - true_several[True]).square().mean(1),  # text
    "query of its own token": (right_query - true_several[True]).square().mean(1),
}

# %% tags=["nbval-check-output"]
few = max(1, len(several) // 100)
pd.DataFrame(
    {
        name: {
            "mean squared error": f"{v.mean():.2f}",
            "of the median text": f"{v.quantile(0.5):.2f}",
            f"share of the {few} worst of {len(several)} texts": f"{v.sort().values[-few:].sum() / v.sum():.0%}",
        }
        for name, v in squared.items()
    }
).T

# %% tags=["hide-input", "nbval-check-output"]
every_cost, by_scale, by_token = (
    float(budgets[True].loc[row, "fvu"])
    for row in (("all", ""), ("without", "scale"), ("without", "token"))
)
asked_by_the, asked_right = (v.double().numpy() for v in squared.values())
gained = cx.claims.by_document(
    lambda drawn: asked_right[drawn].mean() / asked_by_the[drawn].mean(), several, 499
)
display(
    cx.claims.finding(
        f"Mending the scale alone makes things worse, an FVU of {by_scale:.2f} in place of {every_cost:.2f}; mending the token alone makes them better, {by_token:.2f}.",
        holds=by_token < every_cost < by_scale,
    ),
    cx.claims.finding(
        f"Over all {len(several)} texts the right query leaves {asked_right.mean() / asked_by_the.mean():.0%} [{gained[0]:.0%}, {gained[1]:.0%}] of the mean squared error.",
        holds=gained[1] < 1,
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
worst = squared["query of its own token"].argsort(descending=True)[:4].tolist()
blame = []
for k in worst:
    asks = int(texts[k].tokens[n])
    pair = cx.softmax_denominators(weights, [texts[k], calibrating], n, asks)[:, heads]
    pair_the = cx.softmax_denominators(weights, [texts[k], calibrating], n, TOKEN)[:, heads]
    blame.append(
        {
            "token at n": repr(weights.tokenizer.decode([asks])),
            "largest denominator, over that of the calibration text": f"{(pair[0] / pair[1]).max():.1f}",
            f"the same for {TOKEN!r}": f"{(pair_the[0] / pair_the[1]).max():.1f}",
        }
    )
pd.DataFrame(blame, index=pd.Index(range(1, len(worst) + 1), name="worst text"))

# %% [markdown]
r"""
It is not, on `mini`: the right query is better in the mean and in the median text, and the worst hundredth of the texts carries about as little of the error as before. The second table lists the four worst texts. A fragment of a word asks there, and its largest denominator is further off than that of `TOKEN`, but not by much, for these heads are broad under every query. A head that looks for something rare when a fragment asks would give a denominator that is one number in a text that has it and another in a text that has not; borrowed, it would multiply that head's output by the factor in the table.

Either way the denominators are what to mend first. A constant there is what makes the scale's mending costly and other queries dangerous.

## A circuit without borrowed constants

Take the items in the order of what they cost as constants, and see what each is made of.

**The values.** Equation 1 split the key at a source into what the token is and how its place differs from the destination's. The derivation in [chapter 2](02_keys) never used that the matrix was $W_K$. With $W_V$ in its place,

$$
\begin{aligned}
v_i \;&\approx\; E_V[n, x_i] + P_V[n, i] + b_V , \\
E_V[n, t] \;&=\; \text{LN}(W_E[t] + W_\text{pos}[n])\, W_V , \\
P_V[n, i] \;&=\; \sqrt{d_\text{model}}\; \frac{(W_\text{pos}[i] - W_\text{pos}[n])\, W_V}{\sqrt{\lvert W_\text{pos}[i] \rvert^2 + C^2}} .
\end{aligned}
$$ (eq-eval-values)

The paper's circuit keeps $E_V + b_V$ and drops $P_V$. With keys such a term can be dropped if it is the same at all sources, because softmax does not see a constant. With values it cannot, because an average of equal vectors is that vector. The term dropped is $\sum_i a_i P_V[n, i]\, W_O$ for each head, and if the attention row $a$ is replaced by what is known of it beforehand, the kernel,

$$
\text{offset}_j \;=\; \frac{1}{s^\text{cal}} \sum_{h \in H} \sum_{i \le n} \text{pos}^h_i\; P^h_V[n, i]\; W^h_O\, W_\text{in}[:, j]
$$ (eq-eval-offset)

is one number per neuron, from the weights alone up to the scale. The earlier post counts the positions' part of the values in this way, with each head's positional pattern {cite}`gibson2025contextual`. Adding it leaves the circuit as linear as it was. Is it the constant that was missing?
"""


# %%
def positional_offset(circuit):
    """What the values' positions add to each neuron if attention were the kernel, `neuron`."""
    pos = cx.positional_kernels(weights, circuit.n, TOKEN)[heads]  # head source
    P_V = cx.split.where(weights, weights.W_V[heads], circuit.n)  # head source d_head
    z = einsum(pos, P_V, "head source, head source d_head -> head d_head")
    return einsum(z, circuit.readout, "head d_head, head d_head neuron -> neuron")


by_position = positional_offset(circuit)[found]
missing = (truth[False] - paper[False]).mean(0)  # over texts, neuron

# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(height=3.4, width=5.5)
reach = [min(by_position.min(), missing.min()), max(by_position.max(), missing.max())]
axis.plot(reach, reach, color=cx.plots.INK, lw=1, ls=":", label="equal")
axis.plot(by_position, missing, "o", ms=5, alpha=0.6, label="found neurons")
axis.set(
    xlabel="read from the weights (pre-activation)",
    ylabel="mean of truth − summary\n(pre-activation)",
)
axis.legend(loc="upper left", fontsize=9)
by_weights = float(np.corrcoef(by_position, missing)[0, 1])
left_over = float((missing - by_position).square().sum() / missing.square().sum())
cx.plots.picture(
    figure,
    "8.5",
    f"The constant that every found neuron lacks, measured on {len(texts)} texts, against the one read from "
    "the weights and one scale.",
    f"A scatter plot, one dot a neuron: correlation {by_weights:.2f}; {left_over:.0%} of the mean square is left when the "
    "constant from the weights is taken off.",
)

# %% tags=["nbval-check-output"]
cx.claims.finding(
    f"Most of the missing constant stands in the weights: read from them it correlates with the one measured by {by_weights:.2f}, and {left_over:.0%} of its mean square is left.",
    holds=by_weights > 0.9 and left_over < 0.25,
)

# %% [markdown]
r"""
The dots lie along the diagonal, so the constant was in the weights all the time (the scale is one factor for all dots). They lie on a line that is somewhat steeper: something else adds to the constant, as a denominator that is too small does if tokens push a neuron one way on average.

**The denominators.** Put {eq}`eq-eval-values` into a head's output. With the row as kernel times content over denominator, and the query of whatever token stands at $n$,

$$
\text{out}_h(n) \;\approx\; \frac{\sum_{i \le n} \text{pos}_i\; \text{content}(x_i)\, \bigl( E_V[n, x_i] + P_V[n, i] + b_V \bigr)}{\sum_{i \le n} \text{pos}_i\; \text{content}(x_i)}\; W_O .
$$ (eq-eval-ratio)

The denominator is a sum over the text's tokens, one term each, as the numerator is. Whoever can compute the one can compute the other: nothing forces it to be a constant. And since each head gets its own quotient, each may keep its own kernel; the shared kernel was only needed to put all heads into one sum. What is given up is a word: the circuit is no longer linear in the bag of tokens, but a **ratio of two linear summaries** for each head.

**The token.** The query may now be the one of the text's own token. Kernel and content change with it, and that is all; for each token at the destination there is such a circuit.

**The scale.** LayerNorm 2 divides by $s(x) = \sqrt{\operatorname{mean}(r_\text{mid}^2) + \epsilon}$, the mean over the entries of the residual stream behind attention,

$$
r_\text{mid} \;=\; W_E[x_n] + W_\text{pos}[n] + \sum_{\text{all } h} \text{out}_h(n) + b_O .
$$ (eq-eval-stream)

The first two terms are known, and the outputs follow from {eq}`eq-eval-ratio`, if it is taken for *all* heads of the layer and not for the stable ones only. That is allowed: the ratio does not ask for stability. Here is the whole of it for one text, from matrices that no text has touched.
"""

# %%
x = texts[0].tokens[: n + 1]  # with its own token at n
at_n = cx.layer_norm(weights.W_E[x] + weights.W_pos[n], weights.eps)  # source d_model
q = einsum(at_n[n], weights.W_Q, "d_model, head d_model d_head -> head d_head") + weights.b_Q
E_K, E_V = (
    einsum(at_n, W, "source d_model, head d_model d_head -> head source d_head")
    for W in (weights.W_K, weights.W_V)
)
keys = E_K + cx.positional_keys(weights, n)  # Equation 1
values = E_V + cx.split.where(weights, weights.W_V, n) + weights.b_V[:, None]

scores = einsum(q, keys, "head d_head, head source d_head -> head source") / weights.attn_scale
z = einsum(scores.softmax(-1), values, "head source, head source d_head -> head d_head")
out = einsum(z, weights.W_O, "head d_head, head d_head d_model -> head d_model")
stream = weights.W_E[x[n]] + weights.W_pos[n] + out.sum(0) + weights.b_O
s = (stream.square().mean() + weights.eps).sqrt()
summary_x = out[heads].sum(0) @ W_in / s  # neuron

# %% tags=["nbval-check-output"]
better = circuit.self_normalised()  # no calibration text
print(
    "same as circuit.self_normalised().summary:",
    torch.allclose(summary_x, better.summary(x), rtol=1e-3, atol=1e-4),
)

# %% [markdown]
r"""
The rebuilt scale is the boldest of these steps, because it needs all heads of the layer, stable or not. Does it follow the true one?
"""


# %% tags=["hide-input"]
def rebuilt_scale(x):
    return better.at.scale(x, better.at.rebuilt_outputs(x))


scales = {
    own: (over(true_scale, several, own)[:, 0], over(rebuilt_scale, several, own)[:, 0])
    for own in VERSIONS
}
figure, (axes,) = cx.plots.panels(1, 2, height=3.1, sharex=True, sharey=True)
for axis, (own, version) in zip(axes, VERSIONS.items(), strict=True):
    true, rebuilt = scales[own]
    axis.plot(true, rebuilt, ".", ms=3, alpha=0.5, label="rebuilt, one dot a text")
    reach = [float(true.min()), float(true.max())]
    axis.plot(reach, reach, color=cx.plots.INK, lw=1, ls=":", label="equal")
    axis.axhline(circuit.scale, color=cx.plots.COLOURS[1], ls="--", label="calibration text's")
    axis.set(xlabel="true LayerNorm-2 scale", title=version)
axes[0].set_ylabel("scale that is used")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, markerscale=3
)
scale_error = {
    own: (
        float((circuit.scale / true - 1).square().mean().sqrt()),
        float((rebuilt / true - 1).square().mean().sqrt()),
    )
    for own, (true, rebuilt) in scales.items()
}
cx.plots.picture(
    figure,
    "8.6",
    f"The scale of LayerNorm 2 in {len(several)} texts: true, rebuilt from the ratios of all heads, and as borrowed from "
    "the calibration text.",
    "Two scatter plots with a diagonal and a level line. Relative error, root of the mean square: "
    + "; ".join(
        f"{VERSIONS[own]}: borrowed {b:.1%}, rebuilt {r:.1%}" for own, (b, r) in scale_error.items()
    )
    + ".",
)

# %% tags=["hide-input", "nbval-check-output"]
true, rebuilt = scales[True]
low = float((rebuilt / true).quantile(0.5))
varies, borrowed_varies = (float((v / true).std()) for v in (rebuilt, circuit.scale))
cx.claims.finding(
    f"The rebuilt scale is {low:.3f} times the true one in the median text, with a standard deviation of {varies:.3f} from text to text; that of the borrowed one is {borrowed_varies:.3f}.",
    holds=low < 0.98 and varies < borrowed_varies / 3,
)

# %% [markdown]
r"""
The vertical distance from the diagonal, relative to the true scale, is by how much every summary of that text comes out too small or too large, to first order. The rebuilt scale follows the true one closely and stays below it, in every text by about the same factor. So it costs a constant factor and saves what varies: with `TOKEN` at $n$, where the scale hardly varies, borrowing is the better choice.

Now all steps in order. Each keeps what came before it: first the constant of {eq}`eq-eval-offset`; then each head's own kernel (and $P_V$ under the row instead of the constant), the text's own denominators, its own query, its own scale. The last step is optional: `circuit.self_normalised(passages)` measures what is left of the mean error on the passages, and takes it off as a fixed number per neuron.
"""

# %%
content = cx.content_scores(weights, n, TOKEN).exp()[heads]  # head vocab
kernels = cx.positional_kernels(weights, n, TOKEN)[heads]  # head source
E_V = circuit.at.values(heads)  # vocab head d_head
P_V = cx.split.where(weights, weights.W_V[heads], n)  # head source d_head
readout = circuit.readout[..., found]  # W_O W_in / s of the calibration text, head d_head neuron
corrected = circuit.self_normalised(passages)


def ratio(x, denominators=None):
    """The query of TOKEN, own kernels, and the denominators that are given or the text's own."""
    numerators = kernels[:, None] * content[:, x]  # head text source
    divisor = numerators.sum(-1) if denominators is None else denominators[:, None]
    rows = numerators / divisor[..., None]
    z = einsum(rows, E_V[x], "head text source, text source head d_head -> text head d_head")
    z = z + einsum(rows, P_V, "head text source, head source d_head -> text head d_head")
    return einsum(z, readout, "text head d_head, head d_head neuron -> text neuron")


def own_query(x):
    out = better.at.rebuilt_outputs(x)[:, heads].sum(1)  # text d_model
    return out @ W_in[:, found] / circuit.scale


STEPS = {
    "paper's circuit": lambda x: circuit.summary(x)[:, found],
    "+ constant of the values": lambda x: circuit.summary(x)[:, found] + by_position,
    "+ own kernels": lambda x: ratio(x, circuit.denominators),
    "+ own denominators": ratio,
    "+ query of its own token": own_query,
    "+ own scale: self-normalised": lambda x: better.summary(x)[:, found],
    "+ offsets from the passages": lambda x: corrected.summary(x)[:, found],
}
ladder = {own: {step: over(f, several, own) for step, f in STEPS.items()} for own in VERSIONS}
climbed = {
    own: pd.DataFrame(
        {
            step: cx.Moments.of(a, true_several[own]).table(found).median()
            for step, a in steps.items()
        }
    ).T
    for own, steps in ladder.items()
}

# %% tags=["nbval-check-output"]
pd.DataFrame(
    {
        f"{label}, {VERSIONS[own]}": climbed[own][number].map(lambda v: f"{v:.3f}")
        for own in VERSIONS
        for number, label in (("r", "r"), ("fvu", "FVU"))
    }
)

# %% tags=["hide-input", "nbval-check-output"]
LAST = "+ own scale: self-normalised"
r_last = {own: float(c.loc[LAST, "r"]) for own, c in climbed.items()}
fvu_last = {own: float(c.loc[LAST, "fvu"]) for own, c in climbed.items()}
r_ends, fvu_ends = (
    of_documents(f, (ladder[False][LAST], true_several[False])) for f in (median_r, median_of_fvu)
)
before, after = (climbed[False].loc[k] for k in ("+ own kernels", "+ own denominators"))
display(
    cx.claims.finding(
        f"The self-normalised circuit, which borrows nothing from another text, has a median r of {r_last[False]:.3f} and a median FVU of {fvu_last[False]:.3f} [{fvu_ends[0]:.3f}, {fvu_ends[1]:.3f}].",
        holds=r_ends[0] > 0.99 and fvu_ends[1] < 0.02,
    ),
    cx.claims.finding(
        f"The step that counts is to the text's own denominators: r rises from {before['r']:.3f} to {after['r']:.3f}, and FVU falls from {before['fvu']:.3f} to {after['fvu']:.3f}.",
        holds=bool(after["fvu"] < before["fvu"] / 10 and after["r"] > 0.995),
    ),
)

# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, height=3.2, sharey=True)
for k, (own, version) in enumerate(VERSIONS.items()):
    for axis, number in ((axes[0], 1 - climbed[own]["r"]), (axes[1], climbed[own]["fvu"])):
        axis.plot(number, range(len(STEPS)), "os"[k], ls=("-", "--")[k], ms=6, label=version)
axes[0].axvline(1 - 0.9485, color=cx.plots.INK, lw=1, ls=":", label="published, GPT-2 small")
axes[1].axvline(0.1426, color=cx.plots.INK, lw=1, ls=":")
axes[0].set_yticks(range(len(STEPS)), list(STEPS))
axes[0].invert_yaxis()
for axis, label in zip(axes, ("1 − median r", "median FVU"), strict=True):
    log_axis(axis)
    axis.set_xlabel(label)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
first, last = "paper's circuit", LAST
cx.plots.picture(
    figure,
    "8.7",
    f"The borrowed constants taken away one by one, on {len(several)} texts; medians over {len(found)} found neurons. Both axes are "
    "logarithmic and show what is missing.",
    "Two line plots, one point a step. FVU: "
    + "; ".join(
        f"{version} from {climbed[own].loc[first, 'fvu']:.3f} to {climbed[own].loc[last, 'fvu']:.3f}"
        for own, version in VERSIONS.items()
    )
    + ".",
)

# %% [markdown]
r"""
The first step moves FVU and not $r$, as a constant must. The step to own denominators is where the slope of Figure 8.3 is left for good. With `TOKEN` at $n$ the query was right all along, so the fifth row repeats the fourth; with own tokens it is where *shape* is recovered. A step need not improve every number, since errors compensate here as they do in the budget: own kernels raise FVU for own tokens, and the rebuilt scale, too small by its constant factor, costs FVU in both versions and raises $r$ where the scale varies. The offsets mend some of that: they are a measurement on other texts (with own tokens at $n$).

None of these texts was used to calibrate anything, though the heads were chosen on them. The passages are a second test for the circuit without offsets, which has not met them either (one of them served to find the neurons):
"""

# %% tags=["nbval-check-output"]
elsewhere = {
    own: cx.Moments.of(
        over(lambda x: better.summary(x)[:, found], passages, own),
        over(true_found, passages, own),
    )
    .table(found)
    .median()
    for own in VERSIONS
}
for own, version in VERSIONS.items():
    print(
        f"{version}, {len(passages)} passages: r {elsewhere[own]['r']:.3f}, "
        f"FVU {elsewhere[own]['fvu']:.3f}"
    )


# %% [markdown]
r"""
What limits *this* circuit? Only Equation 1 is left, in three places: in the keys, in the values, and in the scale, which sums up what both do to all heads. Put the truth in two of the three and see what the third costs:
"""


# %%
def left_of(x):
    """Equation 1 in one place only, and in all of them: `place text neuron`."""
    true_rows = torch.stack([cx.attention_rows(weights, text, n)[heads] for text in x])
    at_i = cx.layer_norm(weights.W_E[x] + weights.W_pos[: n + 1], weights.eps)
    true_values = einsum(at_i, weights.W_V[heads], "t source d, head d e -> t head source e")
    true_values = true_values + weights.b_V[heads][:, None]
    split_rows = cx.rebuilt_rows(weights, x, n)[:, heads]
    split_values = einsum(E_V[x], "t source head e -> t head source e") + P_V

    def neurons(rows, values, scale):
        z = einsum(rows, values, "t head source, t head source e -> t head e")
        return einsum(z, readout * circuit.scale, "t head e, head e j -> t j") / scale

    s_true, s_split = true_scale(x), rebuilt_scale(x)
    return torch.stack(
        [
            neurons(split_rows, true_values, s_true),
            neurons(true_rows, split_values, s_true),
            neurons(true_rows, true_values, s_split),
            neurons(split_rows, split_values, s_split),
        ],
        dim=1,
    )


remains = {own: over(left_of, several[:SOME], own) for own in VERSIONS}  # text place neuron

# %% tags=["nbval-check-output"]
PLACES = ("keys", "values", "scale", "all three")
pd.DataFrame(
    {
        version: {
            place: f"{median_fvu(remains[own][:, k], true_several[own][:SOME]):.4f}"
            for k, place in enumerate(PLACES)
        }
        for own, version in VERSIONS.items()
    }
).rename_axis("median FVU, Equation 1 in")

# %% [markdown]
r"""
The three are of one size, and they add up to less than all of them together cost: their errors point the same way. [Chapter 2](02_keys) looks into the first: in half of the heads most of that error is the one source BOS, which Equation 1 reads as if it stood at the destination.

## What it costs

Count multiplications with an addition each, for one text of $S = n + 1$ tokens. Let $|H|$ be the number of heads of the circuit, $L$ of all heads of the layer, and $d_\text{mlp}$ of the neurons. What depends on the weights only is computed once and not counted, nor are exponentials and divisions.
"""

# %% tags=["nbval-check-output"]
S, H, L = n + 1, len(heads), weights.n_heads
d, d_head, d_mlp = weights.d_model, weights.d_head, weights.n_neurons
COST = {
    "the paper's summary, found neurons, one by one": ("S k", S * len(found)),
    "the paper's summary, all neurons": (
        "S |H| d_head + |H| d_head d_mlp",
        S * H * d_head + H * d_head * d_mlp,
    ),
    "self-normalised, all neurons": (
        "4 S L d_head + 2 L d_head d + d d_mlp",
        4 * S * L * d_head + 2 * L * d_head * d + d * d_mlp,
    ),
    "exact heads at this destination, all neurons": (
        "2 S L d + 4 L d_head d + d d_mlp",
        2 * S * L * d + 4 * L * d_head * d + d * d_mlp,
    ),
    "the whole layer, all positions": (
        "4 S L d_head d + S² L d_head + 2 S d d_mlp",
        4 * S * L * d_head * d + S**2 * L * d_head + 2 * S * d * d_mlp,
    ),
}
reference = COST["the paper's summary, all neurons"][1]
pd.DataFrame(
    {
        "multiply-adds": [formula for formula, _ in COST.values()],
        "here": [f"{count:,}" for _, count in COST.values()],
        "over the paper's": [f"{count / reference:,.1f}" for _, count in COST.values()],
    },
    index=list(COST),
)

# %% [markdown]
r"""
($k$ is the number of found neurons. The exact heads are counted in the cheapest order: the query meets $W_K$ first and the row meets the sources before $W_V$, so no key and no value is formed.)

At a single destination the exact heads cost a small multiple of the circuit that rebuilds them, and they are exact. Speed is a reason to take either instead of a whole forward pass; it is not a reason to take the circuit instead of the heads. What the circuit has and the heads have not is that every token's part is known beforehand. The paper's form has one
number per token and neuron, before any text is read, and that is what chapter 7 searched. The self-normalised form keeps a part of this: for a fixed token at the destination, each head is a ratio of two such tables. One can read in it what a token adds to numerator and denominator; one cannot add up tokens across texts.

## And the neuron itself?

The truth so far was what the chosen heads add to a neuron. A neuron also hears the other heads, the token at the destination and its position. The self-normalised circuit rebuilds these too, so it can be held against the whole pre-activation; so can the paper's, with every other head looking at the destination only, which is how the earlier post treats those heads {cite}`gibson2025contextual`.
"""


# %%
def pre_activations(x):
    stream = cx.destination.resid_mid(weights, x, n, cx.destination.true_outputs(weights, x, n))
    return weights.pre_activations(stream)[:, found]


pre = {own: over(pre_activations, several, own) for own in VERSIONS}
against_pre = {
    own: {
        "what the chosen heads truly add": true_several[own],
        "paper's circuit, other heads at the destination": over(
            lambda x: circuit.pre_activations(x)[:, found], several, own
        ),
        "self-normalised circuit": over(
            lambda x: better.pre_activations(x)[:, found], several, own
        ),
    }
    for own in VERSIONS
}

# %% tags=["nbval-check-output"]
rows = {}
for own, version in VERSIONS.items():
    for name, approx in against_pre[own].items():
        r, fvu = (float(v.nanquantile(0.5)) for v in r_and_fvu(approx, pre[own]))
        rows[version, name] = {
            "median r": f"{r:.3f}",
            "median FVU": "" if "truly" in name else f"{fvu:.3f}",
        }
_, by_paper, by_better = against_pre[True].values()
part, ours, best = (
    float(r_and_fvu(v, pre[True])[0].nanquantile(0.5)) for v in against_pre[True].values()
)
ours_ends = of_documents(median_r, (by_paper, pre[True]))
display(
    pd.DataFrame(rows).T.rename_axis(["version", "against the whole pre-activation"]),
    cx.claims.finding(
        f"Against the whole pre-activation, with the text's own token, the paper's circuit has a median r of {ours:.3f} [{ours_ends[0]:.3f}, {ours_ends[1]:.3f}] and the self-normalised one {best:.3f}; what the heads add has {part:.3f}.",
        holds=part < ours_ends[0] and best > 0.99,
    ),
)

# %% [markdown]
r"""
With `TOKEN` at $n$ the heads are the whole story: all heads of this layer are in the circuit, and the token and its position are the same in every text. With its own token at $n$ a neuron hears that token as well, and what the heads add is then only a part of what moves it. Both circuits rebuild the rest too, the destination's own terms, so they follow the whole pre-activation in either version. What the self-normalised one misses is small because Equation 1 is good for all heads. (On a model with heads that are not stable the first rows would be a warning: a perfect summary of some heads cannot follow a neuron that listens to others.)

## Where in the text?

The circuit was made for one destination. It can be made for any, from the same calibration text and for the same neurons. In this protocol position and length are one thing: a destination $n$ sees $n + 1$ tokens and no more, so an early destination is a short text. (To hold them apart, a long context would have to end early or a short one late, which learned positions with BOS at 0 do not allow.)
"""

# %%
destinations = np.unique(np.geomspace(min(16, LENGTH - 1), LENGTH - 1, 8).astype(int)).tolist()
along = []
for m in destinations:
    there = cx.ContextualCircuit.calibrate(weights, calibrating, heads, m, TOKEN)
    first = cx.evaluate(there, several[:300], found)
    shifted = first["offset"] + positional_offset(there)[found].numpy() / first["sd"]
    last = cx.evaluate(there.self_normalised(), several[:300], found)
    along.append(
        {
            "paper's r": first["r"].median(),
            "self-normalised r": last["r"].median(),
            "paper's FVU": first["fvu"].median(),
            "with the constant": (shifted**2 + first["from spread"] + first["from shape"]).median(),
            "self-normalised FVU": last["fvu"].median(),
        }
    )
along = pd.DataFrame(along, index=pd.Index(destinations, name="n"))

# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, height=3.0)
marks = {"paper's": ("o-", 0), "with the constant": ("^:", 2), "self-normalised": ("s--", 1)}
for name in along:
    who = name.removesuffix(" r").removesuffix(" FVU")
    style, k = marks[who]
    axis, value = (axes[0], 1 - along[name]) if name.endswith(" r") else (axes[1], along[name])
    axis.plot(destinations, value, style, ms=5, color=cx.plots.COLOURS[k], label=who)
for axis, label in zip(axes, ("1 − median r", "median FVU"), strict=True):
    log_axis(axis, "y")
    axis.set(xscale="log", xlabel="destination n (tokens before it)", ylabel=label)
    axis.set_xticks(destinations, [str(m) for m in destinations], fontsize=8)
    axis.minorticks_off()
figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
cx.plots.picture(
    figure,
    "8.8",
    f"Circuits made for other destinations, on {min(300, len(several))} texts with {TOKEN!r} at n; the same heads, neurons and "
    "calibration text. All axes are logarithmic; r is shown as what it lacks of 1.",
    "Two line plots over n. "
    + "; ".join(f"{name} from {along[name].min():.3f} to {along[name].max():.3f}" for name in along)
    + ".",
)

# %% [markdown]
r"""
The $r$ of the paper's circuit is lowest at the left, where a denominator averages few tokens, and level from the fourth point on. Its FVU is not smooth, because at every destination the calibration text is a different stretch of text and as light or as heavy as it happens to be there. Where FVU jumps and $r$ does not, a constant or a factor is to blame. At the last destination the triangle does not follow the jump: it was the constant of the values, and the positions at the end of the context differ
from the others in what they add. The self-normalised circuit has neither to lose. Its own FVU is largest at the left, its $r$ lowest at the right.

## What kind of text?

The paper's advice is prose in general and a matching text for work on one domain {cite}`gibson2025decomposing`. [Chapter 5](05_calibration) tested it on denominators; here is what becomes of it in the neurons. Every passage calibrates in turn and is tested on all others, by four kinds of text. The squared error is divided by the variance of the truth over *all* passages, so that columns can be compared.
"""


# %%
def kind(passage):
    """Which of the four kinds a passage is."""
    if passage.dialect == "python":
        return "code"
    if not passage.dialect.startswith("en"):
        return "other languages"
    return "prose" if passage.domain in PROSE else "other English"


kinds = np.array([kind(p) for p in passages])


every = 1 if several == texts else 2  # of a large model every second passage
subset, kinds_of = passages[::every], kinds[::every]
kind_names = np.unique(kinds_of)
stack = cx.texts.at(weights, subset, n, TOKEN)
truth_of = true_found(stack).double()
errors = []  # one a calibration text: text neuron
for text in subset:
    made = cx.ContextualCircuit.calibrate(weights, text, heads, n, TOKEN)
    errors.append((made.summary(stack)[:, found].double() - truth_of) ** 2)
misses = torch.stack(errors) / truth_of.var(0, correction=0)  # calibration text neuron
member = torch.from_numpy(kinds_of[:, None] == kind_names).double()  # text kind
different = 1 - torch.eye(len(subset), dtype=member.dtype)  # a text is not tested on itself
cross = einsum(
    member,
    misses * different[..., None],
    member,
    "c row, c t neuron, t column -> row column neuron",
)
cross = cross / (member.T @ different @ member)[..., None]  # a mean over pairs
cross = pd.DataFrame(cross.nanquantile(0.5, dim=-1).numpy(), kind_names, kind_names)
truth_P = over(true_found, passages, own=False)
summary_P = over(lambda x: better.summary(x)[:, found], passages, own=False)
relative = (summary_P - truth_P).square() / truth_P.var(0, correction=0)  # text neuron
uncalibrated = pd.Series(
    {name: float(relative[kinds == name].mean(0).nanquantile(0.5)) for name in cross}
)

# %% tags=["hide-input"]
both = pd.concat([cross, uncalibrated.to_frame("self-normalised").T])
figure, ((axis,),) = cx.plots.panels(height=3.3, width=7.5)
image = axis.imshow(
    both, cmap=cx.plots.SEQUENTIAL, norm=LogNorm(both.min().min(), both.max().max()), aspect="auto"
)
for row in range(len(both)):
    for col in range(len(cross)):
        value = both.iloc[row, col]
        dark = image.norm(value) < 0.6
        axis.text(
            col, row, f"{value:#.2g}", ha="center", va="center", color="white" if dark else "black"
        )
axis.axhline(len(cross) - 0.5, color=cx.plots.INK, lw=2)
axis.set_xticks(range(len(cross)), [name.replace(" ", "\n") for name in cross.columns])
axis.set_yticks(range(len(both)), both.index)
axis.set(xlabel="tested on", ylabel="calibrated on")
axis.grid(False)
figure.colorbar(image, ax=axis, label="squared error / variance of all (log)")
own_kind = np.eye(len(cross), dtype=bool)
matched, unmatched = cross.values[own_kind].mean(), cross.values[~own_kind].mean()
# kinds differ in difficulty, so each column is judged by itself
others = cross.mask(own_kind).mean()  # tested kind
by_column = pd.Series(np.diag(cross), index=cross.columns) / others
cx.plots.picture(
    figure,
    "8.9",
    f"The paper's circuit calibrated on the row and tested on the column, pairs of different passages, {TOKEN!r} at n; medians over "
    "found neurons. Below the line: the self-normalised circuit, which is not calibrated.",
    f"A heat map. Diagonal {matched:.2f} on average, off the diagonal {unmatched:.2f}. "
    + "; ".join(
        f"on {name}: " + ", ".join(f"{k} {v:.2f}" for k, v in cross.loc[name].items())
        for name in cross.index
    )
    + "; self-normalised: "
    + ", ".join(f"{k} {v:.3f}" for k, v in uncalibrated.items())
    + ".",
)

# %% tags=["nbval-check-output"]
print(f"the same kind {matched:.2f}, another kind {unmatched:.2f}; their ratio, kind by kind:")
print("  " + ", ".join(f"{kind} {ratio:.1f}" for kind, ratio in by_column.items()))
pairs = cross.stack()
print(f"best pair: {' on '.join(reversed(pairs.idxmin()))}, {pairs.min():.2f}", end="; ")
print(f"worst pair: {' on '.join(reversed(pairs.idxmax()))}, {pairs.max():.2f}")

# %% [markdown]
r"""
("A on B" means tested on A, calibrated on B.) A column says what a kind of text suffers, and its cell on the diagonal what a matching calibration text leaves. Matching helps code and other languages and does not help English. What counts is the weight of the text, as in Figure 8.3: heavy texts understate, which costs less than to overstate, and code is heavy. So code, the poorest page for denominators in [chapter 5](05_calibration), is among the better ones here: a squared error forgives what is too small. The lowest row needs no advice.

There is another thing that kinds of text do. They can make $r$ look good: texts of different languages may differ so much that a crude summary tells them apart. The harder question is what is left *inside* a domain, on the passages and on the held-out texts.
"""


# %% tags=["nbval-check-output"]
def inside(values, domains):
    """Deviations from the mean of the text's own domain."""
    means = {d: values[domains == d].mean(0) for d in set(domains)}
    return values - torch.stack([means[d] for d in domains])


paper_P = over(lambda x: circuit.summary(x)[:, found], passages, own=False)
domains_T = np.array([t.domain for t in texts])
compared = {
    "paper's circuit": (paper_P, paper[False][: len(several)]),
    "self-normalised": (summary_P, ladder[False][LAST]),
}
within = {
    name: (inside(b, domains_T[: len(b)]), inside(true_several[False], domains_T[: len(b)]))
    for name, (_, b) in compared.items()
}
r_within = {k: float(r_and_fvu(*v)[0].nanquantile(0.5)) for k, v in within.items()}
within_ends = {k: of_documents(median_r, v) for k, v in within.items()}
paper_within, better_within = within_ends.values()
paper_r, better_r = r_within.values()
display(
    pd.DataFrame(
        {
            name: {
                "passages: r over all": f"{r_and_fvu(a, truth_P)[0].nanquantile(0.5):.2f}",
                "inside domains": f"{r_and_fvu(inside(a, domains), inside(truth_P, domains))[0].nanquantile(0.5):.2f}",
                "held-out texts: r over all": f"{r_and_fvu(b, true_several[False])[0].nanquantile(0.5):.3f}",
                "inside domains ": f"{r_within[name]:.3f}",
            }
            for name, (a, b) in compared.items()
        }
    ).T,
    cx.claims.finding(
        f"Inside a domain of the held-out texts the paper's circuit has a median r of {paper_r:.2f} [{paper_within[0]:.2f}, {paper_within[1]:.2f}], the self-normalised one {better_r:.3f} [{better_within[0]:.3f}, {better_within[1]:.3f}].",
        holds=paper_within[1] < r_here and better_within[0] > 0.99,
    ),
)

# %% [markdown]
r"""
### Do clusters of calibration texts help?

The paper leaves this question open {cite}`gibson2025decomposing`. Here every passage is left out in turn; the others are clustered by their denominators; each cluster offers the median of its members, scale included. The *realisable* choice takes the cluster that holds most of the text's domain, the *optimum* the one nearest to the text's own denominators, which one
would have to know. The constant {eq}`eq-eval-offset` is added throughout, so that it does not drown the rest.
"""

# %%
g_P = over(per_head, passages, own=False)  # text head neuron
constants = torch.cat([denoms_P, scales_P], dim=1).log()  # text head+1
alone, own_domain, realisable, optimum = [], [], [], []
for k in range(len(passages)):
    others = np.delete(np.arange(len(passages)), k)
    ward = make_pipeline(StandardScaler(), AgglomerativeClustering(min(3, len(others))))
    group = pd.factorize(ward.fit_predict(denoms_P[others].double().log()))[0]
    offers = torch.stack(
        [constants[others[group == c]].quantile(0.5, dim=0) for c in range(group.max() + 1)]
    )
    mates = others[domains[others] == domains[k]]
    guess = np.bincount(group[domains[others] == domains[k]]).argmax()
    distance = (offers[:, :-1] - constants[k, :-1]).abs().mean(1)
    alone.append(constants[others].quantile(0.5, dim=0))
    own_domain.append(constants[mates].quantile(0.5, dim=0))
    realisable.append(offers[guess])
    optimum.append(offers[distance.argmin()])
clusters, squares = {}, {}
for name, chosen in {
    "one median of all others": alone,
    "median of its own domain": own_domain,
    "three clusters, realisable": realisable,
    "three clusters, optimum": optimum,
    "the text's own constants": list(constants),
}.items():
    logs = torch.stack(chosen)
    shift = by_position * circuit.scale / logs[:, -1:].exp()
    approx = calibrated(g_P, logs[:, :-1].exp(), logs[:, -1:].exp()) + shift
    clusters[name] = cx.Moments.of(approx, truth_P).table(found).median()
    squares[name] = (approx - truth_P).square() / truth_P.var(0, correction=0)  # text neuron
FIRST, *LATER = clusters
draws = [  # whole domains, since passages of one domain are not independent
    np.concatenate([np.flatnonzero(domains == d) for d in drawn])
    for drawn in rng.choice(np.unique(domains), (500, len(set(domains))))
]


def saved(name):
    """What is saved of FVU beside one median for all: 95 of 100 draws of the domains."""
    differences = [
        float((squares[FIRST][i].mean(0) - squares[name][i].mean(0)).nanquantile(0.5))
        for i in draws
    ]
    return np.nanquantile(differences, (0.025, 0.975))


# %% tags=["nbval-check-output"]
shown = pd.DataFrame(clusters).T[["r", "fvu", *PARTS]].rename(columns={"fvu": "FVU"})
shown = shown.map(lambda v: f"{v:.2f}")
savings = {name: saved(name) for name in LATER}
shown["saved of FVU, 95%"] = [
    "",
    *("{:+.2f} to {:+.2f}".format(*(v.round(2) + 0.0)) for v in savings.values()),
]
low, high = savings["three clusters, realisable"].round(2) + 0.0
display(
    shown,
    cx.claims.finding(
        f"Three clusters of calibration texts save next to no FVU: {low:+.2f} to {high:+.2f}, the middle 95%.",
        holds=bool(high < 0.05),
    ),
)

# %% [markdown]
r"""
The row that a reader could have is the realisable one, and it saves next to nothing. The last column draws whole domains again; a saving counts if its interval lies above zero. The last row is the end of this road. It is what infinitely many clusters would give, and to get there one needs each text's own denominators, which is to say, the circuit of Figure 8.7.

## Fewer heads?

All heads of the layer are in this circuit, the restless ones with the steady. What if one is stricter, and leaves out the stable head with the least steady denominator?
"""

# %%
restless = max(heads, key=lambda h: study.roster["relative spread"][h])
choices = {"all stable heads": heads} | (
    {f"without head {restless}": [h for h in heads if h != restless]} if len(heads) > 1 else {}
)
chosen_heads, heard = {}, {}
for name, chosen in choices.items():
    text = cx.denominators.middle_text(weights, prose, chosen, n, TOKEN)
    first = cx.ContextualCircuit.calibrate(weights, text, chosen, n, TOKEN)
    whole_truth = over(
        lambda x, chosen=chosen: cx.true_contribution(weights, x, chosen, n)[:, found],
        several,
        own=False,
    )
    heard[name] = float(r_and_fvu(whole_truth, pre[False])[0].nanquantile(0.5))
    p, b = (cx.evaluate(c, several, found) for c in (first, first.self_normalised()))
    chosen_heads[name] = {
        "heads": ", ".join(map(str, chosen)),
        "sd of the truth": f"{p['sd'].median():.2f}",
        "its r with the pre-activation": f"{heard[name]:.2f}",
        "paper's r": f"{p['r'].median():.3f}",
        "paper's FVU": f"{p['fvu'].median():.2f}",
        "from shape": f"{p['from shape'].median():.2f}",
        "self-normalised r": f"{b['r'].median():.3f}",
        "self-normalised FVU": f"{b['fvu'].median():.3f}",
    }

# %% tags=["nbval-check-output"]
r_fewer, heard_fewer = float(p["r"].median()), heard[name]
display(
    pd.DataFrame(chosen_heads).T,
    cx.claims.finding(
        f"Without head {restless} the paper's circuit agrees better with its heads, a median r of {r_fewer:.3f}, and these say less of the neuron: their own r with the pre-activation is {heard_fewer:.2f}.",
        holds=r_fewer > r_here + 0.01 and heard_fewer < 0.95,
    ),
)

# %% [markdown]
r"""
It is a trade between saying more and being right, and only for the circuit with constants. The self-normalised one hardly changes.

## What breaks it

- **A fragment at the destination.** With the query of a piece of a word, borrowed denominators are further off than with `TOKEN`, here by little, on a model with restless heads by a large factor. The self-normalised circuit does not borrow.
- **A text unlike the calibration text.** It shows as a factor first, which $r$ overlooks. Whoever only wants to rank texts may ignore it; whoever compares a summary with a threshold may not.
- **The first tokens of a text.** Averages over few tokens are not averages.
- **A mix of domains.** The collection holds 22 domains in equal shares, more than most texts differ, and a correlation over all of them is in good part one between domains. `CTX_TEXTS` names another collection; the passages are a check, and a small one.
- **Neurons chosen by the circuit.** They are the ones for which the circuit claims much. Figure 8.1 has all others too.
- **Deeper layers.** There is no $E[n, t]$ there: the input of a second layer is not a function of one token and one place.

## Turn it

Choose a neuron and a circuit: each dot is a text, its summary across and the truth up. The controls are live in Jupyter and Colab (the rocket above); on this page you see their first setting.
"""


# %% tags=["hide-input"]
def draw(neuron, step, version):
    own = version == VERSIONS[True]
    k = found.index(int(neuron))
    a, t = ladder[own][step][:, k], true_several[own][:, k]
    row = cx.Moments.of(a[:, None], t[:, None]).table([neuron]).iloc[0]
    figure, ((axis,),) = cx.plots.panels(height=3.6, width=5.5)
    reach = [float(min(a.min(), t.min())), float(max(a.max(), t.max()))]
    axis.plot(a, t, ".", ms=3, alpha=0.5)
    axis.plot(reach, reach, color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="summary", ylabel="truth (pre-activation)", title=f"neuron {neuron}, {version}")
    return cx.plots.picture(
        figure,
        "8.10",
        f"{step[0].upper()}{step[1:]}: r {row['r']:.3f}, FVU {row['fvu']:.3f}, of which "
        + ", ".join(f"{part[5:]} {row[part]:.3f}" for part in PARTS)
        + ". Dotted: equal.",
        f"Summary against truth of neuron {neuron} in {len(several)} texts, {step}: r {row['r']:.3f}, FVU {row['fvu']:.3f}.",
    )


cx.widgets.Turnable(
    draw,
    neuron=cx.widgets.choice("neuron", [str(j) for j in found[:40]], str(found[0])),
    step=cx.widgets.choice("circuit", list(STEPS), "paper's circuit"),
    version=cx.widgets.choice("version", list(VERSIONS.values()), VERSIONS[False]),
)

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. The two published medians are met from half a unit of their last digit on; the other conditions are this book's reading of the sources. Brackets hold 95% intervals: the documents are drawn again, of the last line the passages.
"""

# %% tags=["hide-input", "nbval-check-output"]
only = budgets[True].loc["only", "from shape"]
items = [name for name in only.index if name != "scale"]
alone = [
    over(
        lambda x, name=name: cx.evaluation.approximated(circuit, x, {name})[:, found],
        several[:SOME],
        own=True,
    )
    for name in items
]


def token_over_others(*numbers):
    """Shape lost to the token over that to the largest other item, from r and FVU of each."""
    lost = dict(zip(items, (np.nanmedian(1 - r**2) for r in numbers[::2]), strict=True))
    return float(lost.pop("token") / max(lost.values()))


of_token = of_documents(token_over_others, *((v, true_several[True][:SOME]) for v in alone))


def matched_over_other(drawn):
    """Error with the kind of text matched over error with another, median kind, of passages."""
    often = torch.from_numpy(np.bincount(drawn, minlength=len(subset))).double()
    pairs = often[:, None] * often * different  # calibration text, text
    shares = einsum(member, pairs, member, "c row, c t, t column -> row column")
    errors = einsum(
        member,
        misses * pairs[..., None],
        member,
        "c row, c t neuron, t column -> row column neuron",
    )
    table = (errors / shares[..., None]).nanquantile(0.5, dim=-1).numpy()
    table = np.ma.masked_invalid(table)  # a draw may lack a kind
    elsewhere = np.ma.masked_array(table, table.mask | np.eye(len(table), dtype=bool))
    return np.ma.median(table.diagonal() / elsewhere.mean(0))


cx.claims.ledger(
    model,
    cx.claims.Claim(
        "median_r",
        f"paper's circuit, {VERSIONS[False]}: median r",
        float(tables[False]["r"].median()),
        ends[False][0],
        digits=4,
    ),
    cx.claims.Claim(
        "median_fvu",
        "the same: median FVU",
        float(tables[False]["fvu"].median()),
        ends[False][1],
        digits=4,
    ),
    cx.claims.Claim(
        "median_r",
        f"paper's circuit, {VERSIONS[True]}: median r",
        float(tables[True]["r"].median()),
        ends[True][0],
        digits=4,
    ),
    cx.claims.Claim(
        "token_main_error",
        f"shape lost to the query of {TOKEN!r}, over the largest other item but LayerNorm 2",
        float(only["token"] / only.drop(["token", "scale"]).max()),
        of_token,
    ),
    cx.claims.Claim(
        "own_domain",
        "error with the kind of text matched, over error with another, median kind",
        float(by_column.median()),
        cx.claims.by_document(matched_over_other, subset, 199),
    ),
)

# %% [markdown]
r"""
The published figures are for GPT-2 small, with neurons and texts of their own, so the first three lines say whether the method does as well here, not whether the publication is right. The second line hangs on the calibration text, as Figure 8.3 shows.

## Exercises

1. Treat the published medians, $r$ 0.9485 and FVU 0.1426, as those of one neuron. How much of FVU is shape? If the rest were all offset, how large would the offset be, in standard deviations of the truth? If it were all spread, how large could the spread be?
2. An approximation has no offset and spread 1. Show that $\text{FVU} = 2\,(1 - r)$. Which spread would be best, and what does it save?
3. Show that a constant vector $u$ added to all values of a head changes its output by $u\, W_O$ in every text. Conclude that {eq}`eq-eval-offset` would be exact, up to the scale, if $P_V[n, i]$ were the same at all sources that are attended. Why does the same argument not tell you to *keep* a constant in the keys?
4. From the cost table: for how many heads $|H|$ out of $L$ does the paper's summary of all neurons cost as much as the exact heads at that destination, if $S$ is large? Look at the leading terms only.

```{admonition} Solutions
:class: dropdown

1. $1 - 0.9485^2 = 0.1003$, about seven tenths of 0.1426. The rest is 0.0423: an offset of $\sqrt{0.0423} = 0.206$ standard deviations; or $(\text{spread} - 0.9485)^2 = 0.0423$, so a spread of 1.154 (or 0.743). A median of FVU and a median of $r$ need not belong to one neuron, so this is an estimate.
2. $(1 - r)^2 + 1 - r^2 = 2 - 2r$. The best spread is $r$, with FVU $1 - r^2 = (1 - r)(1 + r)$; that saves $(1 - r)^2$, which is little when $r$ is near one.
3. Rows sum to one, so $\sum_i a_i (v_i + u)\, W_O = \sum_i a_i v_i\, W_O + u\, W_O$. If $P_V$ is the same $u$ wherever $a$ is not zero, kernel and row give the same average of it, $u$, and only $s^\text{cal}$ in place of $s(x)$ is wrong. In the keys a constant adds the same number to all scores of a row, which the softmax divides out again: there it may be kept or dropped.
4. $S\,|H|\,d_\text{head}$ against $2\,S\,L\,d$ with $d = L\,d_\text{head}$: equal for $|H| = 2 L^2$, more heads than there are. The summary is always the cheaper one, by a factor of $2 L^2 / |H|$ in the term that grows with the text.
```

## Where this comes from

The protocol, its two medians, the advice on calibration texts and the open question about clusters are from {cite:t}`gibson2025decomposing`. The treatment of the other heads, the part that positions have in the values, the remark on single points and the expectation about the token at the destination are from {cite:t}`gibson2025contextual`. The three parts of FVU are the usual decomposition of a mean squared error;
the error budget, the test of the constant against the mean error, and the circuit without a calibration text are worked out here.
"""
