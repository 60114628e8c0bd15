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

**On mini the circuit puts texts nearly in the right order and gets the amounts wrong, mainly for two reasons: it leaves out what positions add to values, and it takes its denominators, which heads divide by, from one page.**
In the median of the neurons that single tokens can move far, the fraction of variance unexplained (FVU) is 0.47 (0.21 to 0.64 by the page); with a slope and an offset per neuron from other texts it is 0.06, where the unweighted mean of what the tokens say, given the like, leaves 0.17.
On SmolLM2, in the median neuron, it does worse than the neuron's mean, and orders texts no better than the plain mean of what their tokens say.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
HEADS = None  # a list of heads, or None for those that chapter 4 calls stable
MAX_CV = 0.3  # stable: denominators spread by less than this times their mean (and broad kernels)
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the token at the destination
PROSE = ("american", "british", "travel")  # the domains that count as plain prose
OTHER = "mini-base"  # a second model, judged by conditions that were fixed on mini
RUNS = None  # a folder of training runs: what they give is then computed and kept
MODELS = None  # real models that are run for what is kept: make evidence CHAPTER=11_evaluation

# Bounds of conditions that were set beforehand (the fold before *Turn it* has their words)
GAP = 0.5  # the share of what exact values save that positional patterns have to save
CLUSTERS, FIFTH = 4, 0.8  # clusters of texts, and what they may leave of what one set leaves

# %% tags=["hide-input", "nbval-check-output"]
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from einops import einsum
from sklearn.cluster import KMeans

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv
from ctxlib.weights import layer_norm_scale

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS, MAX_CV, PROSE)
passages, n, heads, circuit = study.passages, study.n, study.heads, study.circuit


def find(circuit):
    """The neurons of chapter 6, or all where none stands out."""
    try:
        return cx.find_neurons(circuit).index.tolist()
    except cx.neurons.NoNeuron:
        return list(range(circuit.fixed.n_neurons))


half_A, half_B = cb.halves(study.texts)
found, every = find(circuit), list(range(weights.n_neurons))
print(
    f"{study}\ncalibrated on {study.calibration_text.name}; {len(found)} of {len(every)} neurons found\n"
    f"{len(half_A)} texts of half A to fit on, {len(half_B)} of half B to judge on"
)

# %% [markdown]
r"""
[Chapter 5](05_circuit) held the circuit's summary of a text against what the heads really add to a neuron. [Chapter 6](06_neurons) found the neurons that single tokens can move far. What is the error made of, and where does it come from?

## Three ways of being wrong

The FVU is the mean squared error over the variance of the truth: 0 if every amount is right, 1 if the neuron's mean would do as well. Left, the found neuron in the middle by FVU: dots are texts, the star the book's example.
"""

# %%
x_A, x_B = (study.fixed.prepare(half) for half in (half_A, half_B))  # text source
true_A, true_B = (study.fixed.exact_summary(x, heads) for x in (x_A, x_B))  # text neuron
paper_A, paper_B = circuit.summary(x_A), circuit.summary(x_B)


def fvu(approx, true):
    """The fraction of variance unexplained, median over neurons, from `text neuron`."""
    unexplained = (approx - true).square().mean(-2) / true.var(-2, correction=0)
    return unexplained.double().nanquantile(0.5, dim=-1)


# %% tags=["hide-input"]
PARTS = {"from shape": "shape", "from spread": "a factor", "from offset": "an offset"}
quality = cx.evaluation.Moments.of(paper_B, true_B).table(every)  # one row per neuron
medians = quality.loc[found].median()
ordered = quality.loc[found].dropna().sort_values("fvu")
middle = int(ordered.index[len(ordered) // 2])
a, t = paper_B[:, middle].numpy(), true_B[:, middle].numpy()
figure, ((left, right),) = cb.figures.panels(1, 2, height=3.3)
left.plot(a, t, ".", ms=3, alpha=0.5)
left.plot(a[0], t[0], "*", ms=13, color=cb.figures.COLORS[4], mec=cb.figures.INK)
left.axline((t.mean(), t.mean()), slope=1, color=cb.figures.INK, lw=1, ls=":", label="equal")
slope, intercept = np.polyfit(a, t, 1)
left.axline((0, intercept), slope=slope, color=cb.figures.COLORS[1], label="best line")
left.set(xlabel="by the circuit", ylabel="in the model", title=f"neuron {middle}")
left.legend(loc="upper left", fontsize=9)
right.stackplot(range(len(ordered)), ordered[list(PARTS)].T, step="mid", labels=PARTS.values())
right.axvline(len(ordered) // 2, color=cb.figures.INK, lw=0.8, ls=":")
right.set(xlabel="found neurons, in the order of FVU", ylabel="FVU", title="taken apart")
clipped = float(ordered["fvu"].quantile(0.98))
right.set_ylim(0, clipped)
right.legend(loc="upper left", fontsize=9)
cb.figures.picture(
    figure,
    "11.1",
    f"Left: neuron {middle} on the {len(half_B)} texts of half B, {TOKEN!r} at n. Right: FVU of every found neuron and its three parts; the dotted line marks the neuron on the left; bars above {clipped:.1f} are clipped. Medians of parts need not sum to the median.",
    f"A scatter plot with r = {ordered['r'][middle]:.2f} and FVU = {ordered['fvu'][middle]:.2f}, and a stacked area. Medians: "
    + ", ".join(f"{name} {medians[part]:.2f}" for part, name in PARTS.items()),
)

# %% [markdown]
r"""
The dots lie on a line, and not on the dotted one. With $\sigma_a$, $\sigma_t$ for the standard deviations of approximation and truth over texts, the mean squared error is the squared mean of the error and its variance, $\sigma_a^2 - 2 r \sigma_a \sigma_t + \sigma_t^2$. Divide by $\sigma_t^2$ and complete the square:

$$
\begin{gathered}
\text{FVU} \;=\; \underbrace{\text{offset}^2}_{\text{an offset}} \;+\; \underbrace{(\text{spread} - r)^2}_{\text{a factor}} \;+\; \underbrace{1 - r^2}_{\text{shape}}, \\
\text{offset} = \frac{\overline{\text{approx}} - \overline{\text{truth}}}{\sigma_t}, \quad \text{spread} = \frac{\sigma_a}{\sigma_t} .
\end{gathered}
$$ (eq-eval-parts)

A line per neuron removes the first two; none removes shape.
"""

# %% tags=["hide-input", "nbval-check-output"]
lower, upper = ordered["fvu"].quantile([0.25, 0.75])
useless = int((ordered["fvu"] > 1).sum())
display(
    cb.finding(
        f"In the median a wrong offset adds {medians['from offset']:.2f} to the FVU, a wrong factor {medians['from spread']:.2f}, and shape {medians['from shape']:.2f}.",
        holds=bool(medians["from offset"] > medians["from spread"] > 2 * medians["from shape"]),
    ),
    cb.finding(
        f"Half of the neurons lie between {lower:.2f} and {upper:.2f}; {useless} of {len(ordered)} are above 1.",
        holds=bool(useless and upper > 2 * lower),
    ),
)

# %% [markdown]
r"""
The paper's medians, $r$ 0.9485 and FVU 0.1426, are of neurons in GPT-2 small {cite}`gibson2025decomposing`.

## Is that better than guessing?

How good a circuit looks depends on what it is held against {cite}`miller2024faithfulness`. So leave out one ingredient after another: the kernel (every token weighs the same), content (over its denominator it counts as one), both (an **even bag**, the plain mean of what the tokens' values say), and the text (how often tokens occur in half A stands in). The last guess knows no weights but the truth on half A: its mean over the text's domain. Domains are easily told apart, so $r$ is also taken *within* them, each domain's mean off both sides.
"""


# %% tags=["hide-input", "nbval-check-output"]
def bag(circuit, x, kernel):
    """The kernel's weight on every token of the vocabulary: `text vocab`."""
    empty = torch.zeros(len(x), circuit.fixed.d_vocab)
    return empty.scatter_add_(1, x, kernel.expand(x.shape))


def guesses(circuit, x, x_A, J):
    """The circuit's summary for neurons J, and what is left of it: `text neuron`."""
    even = torch.full_like(circuit.kernel, 1 / len(circuit.kernel))
    by_kernel, evenly = bag(circuit, x, circuit.kernel), bag(circuit, x, even)
    c = circuit.contribution_to(J).T
    values, readout = circuit.fixed.decomposition.values(circuit.heads), circuit.readout[..., J]
    c_alone = einsum(values, readout, "t h d, h d j -> t j")  # if content / denominator were 1
    return {
        "the circuit": by_kernel @ c,
        "no kernel: content only": evenly @ c,
        "no content: the kernel only": by_kernel @ c_alone,
        "neither: an even bag": evenly @ c_alone,
        "no text: the unigram": (bag(circuit, x_A, even).mean(0) @ c).expand(len(x), -1),
    }


def on_a_line(approx_A, true_A, approx):
    """The approximation with one slope and one offset per neuron, fitted on half A."""
    a, t = approx_A - approx_A.mean(0), true_A - true_A.mean(0)
    slope = ((a * t).sum(0) / a.square().sum(0)).nan_to_num()
    return true_A.mean(0) + slope * (approx - approx_A.mean(0))


def compare(circuit, A, B, J):
    """Every guess against the truth on half B, a row per guess; A, B: texts, truth, domains."""
    (x_A, true_A, domain_A), (x_B, true_B, domain_B) = A, B
    true_A, true_B = true_A[:, J], true_B[:, J]
    g_A, g_B = (guesses(circuit, x, x_A, J) for x in (x_A, x_B))
    on_line = {name: on_a_line(g_A[name], true_A, guess) for name, guess in g_B.items()}
    same = torch.from_numpy(domain_B[:, None] == domain_A).to(true_A)
    g_B["mean of its domain, half A"] = same @ true_A / same.sum(1, keepdim=True).clamp(min=1)
    table = pd.DataFrame(
        {k: cx.evaluation.r_and_fvu(v, true_B, domain_B) for k, v in g_B.items()}
    ).T
    table["FVU on a line"] = pd.Series({k: float(fvu(v, true_B)) for k, v in on_line.items()})
    return table.mask(table.abs() < 1e-3)  # some guesses are the same for all texts of a domain


domain_A, domain_B = (np.array([text.domain for text in half]) for half in (half_A, half_B))
held = compare(circuit, (x_A, true_A, domain_A), (x_B, true_B, domain_B), found)
ours, no_kernel, no_content, neither, *_ = held.iloc
by_domain = held["FVU"].iloc[-1]
inside, by_place, by_what = (v["r within domains"] for v in (ours, no_kernel, no_content))
display(
    held.map("{:.2f}".format).replace("nan", ""),
    cb.finding(
        f"Without a line kernel and content gain nothing (with neither: {neither['FVU']:.2f}), and the mean of the text's domain is better ({by_domain:.2f}).",
        holds=bool(abs(ours["FVU"] - neither["FVU"]) < 0.05 and by_domain < ours["FVU"] - 0.1),
    ),
    cb.finding(
        f"Within domains r is {inside:.2f}; it falls to {by_place:.2f} without the kernel and to {by_what:.2f} without content.",
        holds=bool(inside - by_what > 2 * (inside - by_place) > 0),
    ),
)

# %% [markdown]
r"""
Columns are medians over the found neurons, the last with a slope and an offset per neuron from half A. In the third, wrong offsets and factors hide what content is worth. What does not vary has no $r$.

## What does each approximation cost?

A summary has six approximations:

$$
\frac{1}{s'} \sum_{h \in H} \sum_{i \le n} \frac{\text{pos}_i \;\, \text{content}_h(x_i)}{\text{denom}'_h} \, \bigl( E_V^h[n, x_i] + b_V^h \bigr)\, W_O^h\, W_\text{in} .
$$ (eq-eval-six)

- Equation 1 in place of the keys: it gives $\text{content}$.
- Values as if every source stood at $n$: $E_V^h[n, x_i]$.
- One kernel for all heads: $\text{pos}$.
- Denominators of the calibration text: $\text{denom}'$.
- The circuit's token at $n$: `TOKEN` asks and is read there, in place of $x_n$.
- LayerNorm's scale of the calibration text: $s'$.

Each can be made alone, all else exact, or be made exact while the other five stand. On mini texts keep their own token at $n$ here, on every second text of half B. Real models have `TOKEN` there, on every third text of [chapter 8](08_real_model)'s; their numbers are *kept*: computed once, with the model, and stored with the book.
"""

# %% tags=["hide-input"]
all_own = torch.stack([text.tokens[: n + 1] for text in half_B])  # with their own tokens at n
own_truth = study.fixed.exact_summary(all_own, heads)
some, own, true_own = (v[::2] for v in (half_B, all_own, own_truth))
SIX = cx.evaluation.APPROXIMATIONS
REAL = {"qwen": "Qwen", "smollm2": "SmolLM2", "minilm": "MiniLM"}


def approximated(circuit, x, made):
    """What the circuit's heads add with these approximations: `text neuron`, a few at a time."""
    return torch.cat([cx.evaluation.approx_summary(circuit, few, made) for few in x.split(32)])


def alone(circuit, x):
    """Only one approximation made, all else exact, and all six: `text neuron` for each."""
    return {k: approximated(circuit, x, {k}) for k in SIX} | {"six": approximated(circuit, x, SIX)}


def costs(made, true, neurons):
    """Medians over neurons, one row per approximation."""
    tables = {k: cx.evaluation.Moments.of(v[:, neurons], true[:, neurons]) for k, v in made.items()}
    return pd.DataFrame({k: m.table(neurons).median() for k, m in tables.items()}).T


only = alone(circuit, own)
but = {k: approximated(circuit, own, SIX.keys() - {k}) for k in SIX}
bill, spared = (costs(made, true_own, found) for made in (only, but))
all_six, bill = bill.loc["six"], bill.drop("six")

# %% tags=["hide-input", "nbval-check-output"]
budgets = json.loads((cb.evidence("real.json")).read_text())["models"]
every_cost = {MODEL: pd.concat({"only": bill["fvu"], "without": spared["fvu"]})}
every_cost[MODEL]["all", ""] = all_six["fvu"]
for name, said in REAL.items():
    every_cost[said] = pd.Series({(made, k): fvu for made, k, _, fvu in budgets[name]["budget"]})
every_cost = pd.DataFrame(every_cost)
together, by_one, but_one = (every_cost.loc[k] for k in ("all", "only", "without"))
together = together.squeeze()
in_company = together - but_one  # what each costs beside the other five
shown = pd.concat({"only this": by_one, "all but this": but_one}, axis=1).swaplevel(axis=1)
shown = shown[list(every_cost)].reindex(SIX).rename(index=SIX).map("{:.3f}".format)
of_five, of_six = (
    np.sqrt(v[["from offset", "from spread"]]) for v in (spared.loc["keys"], all_six)
)
risen = [f"{-in_company[m]['keys'] / together[m]:.0%} in {m}" for m in REAL.values()]
of_r = {made: r for made, k, r, _ in budgets["smollm2"]["budget"] if k in ("", "keys")}
of_values, of_denoms, of_token = (bill.loc[k] for k in ("values", "denominators", "token"))
display(
    shown.replace("nan", "").rename(columns={m: f"{m}: all {v:.2f}" for m, v in together.items()}),
    cb.finding(
        f"Alone, values read at the destination cost mini an FVU of {of_values['fvu']:.2f}, nearly all of it an offset; borrowed denominators {of_denoms['fvu']:.2f}, most of it a factor; the circuit's token at n {of_token['fvu']:.2f}, most of it shape.",
        holds=bool(
            set(bill["fvu"].nlargest(2).index) == {"values", "denominators"}
            and of_values["from offset"] > 0.9 * of_values["fvu"]
            and of_denoms["from spread"] > 0.5 * of_denoms["fvu"]
            and of_token["from shape"] > 0.5 * of_token["fvu"] > 5 * bill["fvu"]["keys"]
        ),
    ),
    cb.finding(
        f"Equation 1 costs mini {by_one[MODEL]['keys']:.3f} alone, and takes the FVU from {but_one[MODEL]['keys']:.2f} to {together[MODEL]:.2f} beside the other five; errors add before they are squared. In the real models it makes up for part of a larger error: exact keys raise the FVU, by {cb.listed(risen)}, though SmolLM2's r rises too, from {of_r['all']:.2f} to {of_r['without']:.2f}.",
        holds=bool(
            in_company[MODEL]["keys"] > 10 * by_one[MODEL]["keys"]
            and (of_six > of_five).all()
            and all_six["spread"] > spared["spread"]["keys"] > 1
            and (in_company.loc["keys", [*REAL.values()]] < 0).all()
            and of_r["without"] > of_r["all"]
        ),
    ),
    cb.finding(
        f"Borrowed denominators cost most on SmolLM2 (without them {but_one['SmolLM2']['denominators']:.2f} is left of {together['SmolLM2']:.2f}) and Qwen ({but_one['Qwen']['denominators']:.2f} of {together['Qwen']:.2f}), values on MiniLM ({but_one['MiniLM']['values']:.2f} of {together['MiniLM']:.2f}), where positions are added.",
        holds=all(
            by_one[m].idxmax() == but_one[m].idxmin() == ("values" if m == "MiniLM" else "denominators")
            for m in REAL.values()
        ),
    ),
)  # fmt: skip

# %% [markdown]
r"""
Why an offset? What positions add to values is left out, nearly the same in every text. Why a factor? Too small a denominator inflates all that its head adds.

## What mends it, and what does each mend need?

What positions add can be had without any text, up to LayerNorm's scale. An earlier post by the paper's author takes each head's own positional pattern on the values' positions {cite}`gibson2025contextual`:

$$
\sum_{h \in H} \sum_{i \le n} \text{pos}^h_i\; P_V^h[n, i]\; W_O^h .
$$ (eq-eval-positions)

Read by $W_\text{in}$ and divided by the page's scale, it is one number per neuron.
"""


# %%
def positional_pattern(circuit):
    """What the heads' own positional patterns add by the positions of values: `neuron`."""
    split, heads, readout = circuit.fixed.decomposition, list(circuit.heads), circuit.fixed.readout
    P_V = cx.decompose.positional_component(
        split.weights, split.weights.W_V, circuit.fixed.n, split.C
    )[heads]
    z = einsum(split.kernels[heads], P_V, "h i, h i d -> h d")
    return einsum(z, readout.W_O[heads], "h d, h d m -> m") @ readout.W_in / circuit.scale


# %% tags=["hide-input"]
def gathered(circuit, x):
    """What its heads gather of each text with the constants of its page: `text head d_head`."""
    by_token = circuit.weighted_values.flatten(1)
    z = cx.decompose.weighted_sum(by_token, x, circuit.kernel.expand(x.shape))
    return z.unflatten(-1, circuit.weighted_values.shape[1:])


def by_constants(circuit, x_A, x_B, J):
    """Summaries of half B with the constants of one page, of half A, of clusters, and its own;
    and by what each one's LayerNorm scale multiplies what positions add."""
    fixed, heads = circuit.fixed, list(circuit.heads)

    def log_constants(x):  # log of denominators, and of LayerNorm's scale
        both = [(fixed.denominators(few)[:, heads], fixed.scale(few, fixed.head_outputs(few))) for few in x.split(32)]  # fmt: skip
        return torch.cat([torch.cat([d, s], -1).log() for d, s in both])  # text head+1

    own_A, own_B = log_constants(x_A), log_constants(x_B)
    page = torch.cat([circuit.denominators, torch.as_tensor(circuit.scale).reshape(1)]).log()
    z_A, z_B = gathered(circuit, x_A), gathered(circuit, x_B)

    def summary(z, constants):  # `text d_model`, and what neurons read of it
        factors = (page - constants).exp()
        z = z * factors[:, :-1, None] * factors[:, -1:, None]
        return einsum(z, fixed.readout.W_O[heads], "t h e, h e m -> t m") / circuit.scale

    one = own_A.mean(0).expand(len(own_B), -1)
    cluster = KMeans(CLUSTERS, n_init=10, random_state=0).fit_predict(own_A[:, :-1])
    said_A, said_B = summary(z_A, one[:1]), summary(z_B, one)
    kinds = [torch.from_numpy(cluster == k) for k in range(CLUSTERS)]
    centres = torch.stack([said_A[k].mean(0) for k in kinds])
    nearest = torch.cdist(said_B, centres).argmin(1)
    theirs = torch.stack([own_A[k].mean(0) for k in kinds])[nearest]
    W = fixed.readout.W_in[:, J]
    chosen = {"one page": page[None], "half A": one, "clusters": theirs, "its own": own_B}
    made = {k: summary(z_B, constants) @ W for k, constants in chosen.items()}
    return made, {k: (page - constants)[:, -1:].exp() for k, constants in chosen.items()}


def readings(circuit, x, J, added):
    """Median r of the summary with what the heads add, and with what the neurons say."""
    says = [circuit.fixed.mlp(few) for few in x.split(32)]
    true = {k: torch.cat([few[k] for few in says])[:, J] for k in says[0] if k != "up"}
    summary, everything = circuit.summary(x)[:, J], np.arange(len(x))
    median_r = partial(cb.median_over_neurons, "r", summary)
    return {k: median_r(v)(everything) for k, v in (true | {"heads": added}).items()}


def asked_three(circuit, A, B, J, truth):
    """What the three questions come to on some neurons, with their truth on B."""
    x_A, x_B = (circuit.fixed.prepare(texts) for texts in (A, B))
    made, rescaled = by_constants(circuit, x_A, x_B, J)
    left = {k: cb.median_over_neurons("fvu", v, truth) for k, v in made.items()}
    everything = np.arange(len(x_B))

    def ratio(drawn):
        return left["clusters"](drawn) / left["half A"](drawn)

    facts = {"r": readings(circuit, x_B, J, truth)}
    facts["FVU"] = {k: v(everything) for k, v in left.items()}
    facts["ratio"] = cb.with_interval(ratio, B, 199, cb.WIDER)
    if hasattr(circuit.fixed.decomposition, "weights"):  # positions are added
        exact = approximated(circuit, x_B, SIX.keys() - {"values"})[:, J]
        pattern = positional_pattern(circuit)[J]
        fvu_of = partial(cb.median_over_neurons, "fvu", truth=truth)
        patterned = {k: fvu_of(v + pattern * rescaled[k]) for k, v in made.items()}
        facts["with patterns"] = {k: v(everything) for k, v in patterned.items()}
        alike = [facts[k]["one page"] for k in ("FVU", "with patterns")]
        facts["positions"] = [*alike, float(fvu(exact, truth))]
        both = {k: cb.with_interval(patterned[k], B, 299, cb.WIDER) for k in ("one page", "half A")}
        facts["intervals"] = {k: estimate.ends for k, estimate in both.items()}
    return facts


ASKED = cb.evidence("constants.json")


def asked_real(name):
    """The same of a real model's first layer: its hundred strongest neurons."""
    model = cx.load(name, layers=1)
    reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
    texts = cx.texts.collection(reader, 500)
    A, B = cb.halves(texts)
    fixed = cx.fix_query(model, A, 128 if isinstance(model, cx.models.Encoder) else 256)
    one = cx.study(fixed, A, or_all=True).circuit
    J = cx.find_neurons(one, threshold=-math.inf).index[:100].tolist()
    truth = torch.cat(
        [fixed.exact_summary(few, one.heads)[:, J] for few in fixed.prepare(B).split(32)]
    )
    files = cx.models.real_models()[name]["files"]
    return asked_three(one, A, B, J, truth) | {"sha256": [*files.values()]}


if MODELS:
    facts = {name: asked_real(name) for name in MODELS}
    facts = json.loads(json.dumps(facts), parse_float=lambda v: round(float(v), 4))
    facts = (json.loads(ASKED.read_text()) if ASKED.exists() else {}) | facts
    ASKED.write_text(json.dumps(facts, indent=1) + "\n")
three = {MODEL: asked_three(circuit, half_A, half_B, found, true_B[:, found])}
asked_of = json.loads(ASKED.read_text())
three |= {said: asked_of[name] for name, said in REAL.items()}

# %% tags=["hide-input", "nbval-check-output"]
one_page, with_patterns, exact_values = three[MODEL]["positions"]
plain, patterned = (three[MODEL][k] for k in ("FVU", "with patterns"))
normalised_B = circuit.self_normalized().summary(x_B)
normalised = normalised_B[:, found], true_B[:, found]
normalised_fvu = cb.with_interval(cb.median_over_neurons("fvu", *normalised), half_B, 299, cb.WIDER)
closed = (one_page - with_patterns) / (one_page - exact_values)
of_minilm = three["MiniLM"]["positions"]
closed_there = (of_minilm[0] - of_minilm[1]) / (of_minilm[0] - of_minilm[2])
ends = three[MODEL]["intervals"]
among, both_ends = (" [{:.2f}, {:.2f}]".format(*ends[k]) for k in ("one page", "half A"))
there = " [{:.2f}, {:.2f}]".format(*three["MiniLM"]["intervals"]["one page"])
mended = [
    ("nothing", "one page", one_page),
    ("positional patterns", "one page", with_patterns),
    ("exact values", "one page, and the text", exact_values),
    ("constants of half A", "other texts", plain["half A"]),
    ("constants of half A and positional patterns", "other texts", patterned["half A"]),
    ("the text's own constants", "the text", plain["its own"]),
    ("the text's own constants and positional patterns", "the text", patterned["its own"]),
    ("self-normalised (next section)", "the text, by Equation 1", normalised_fvu.value),
]
display(
    pd.DataFrame(mended, columns=["mended", "needs the layer run on", "FVU"])
    .set_index("mended")
    .map(lambda v: v if isinstance(v, str) else f"{v:.2f}"),
    cb.finding(
        f"With positional patterns the FVU is {with_patterns:.2f}{among}: they take away {closed:.0%} of what exact values would. Exact values leave {exact_values:.2f}, so on this page mending values alone does not reach the published 0.1426.",
        holds=bool(closed > GAP and min(ends["one page"][0], exact_values) > 0.14265),
    ),
    cb.finding(
        f"With the constants of {len(half_A)} other texts in place of this page's as well, it is {patterned['half A']:.2f}{both_ends}.",
        holds=bool(ends["half A"][1] < 0.14265),
    ),
)

# %% [markdown]
r"""
Constants are the denominators and LayerNorm's scale, half A's by their geometric means; all rows have `TOKEN` at $n$. Both mends together were tried after each had been seen. Whether the paper's number has patterns in it is not said.

## A circuit without borrowed constants

The table's last row is the **self-normalised circuit**. A denominator is a sum over the text's tokens, as the numerator is. So each head becomes a ratio of two bags, with a kernel of its own:

$$
\text{out}_h(n) \;\approx\; \frac{\sum_{i \le n} \text{pos}^h_i\; \text{content}_h(x_i)\, \bigl( E_V^h[n, x_i] + P_V^h[n, i] + b_V^h \bigr)}{\sum_{i \le n} \text{pos}^h_i\; \text{content}_h(x_i)}\; W_O^h ,
$$ (eq-eval-ratio)

with $E_V^h$ and $P_V^h$ the two halves of Equation 1 for values. In code: split the normalised residual, and run the layer on the split.
"""

# %%
x = own[0]
at_n = cx.layer_norm(weights.W_E[x] + weights.W_pos[n], weights.eps)  # source d_model: what it is
seen = at_n + cx.decompose.positional_shift(weights, n)  # and where it stands: Equation 1

q = einsum(at_n[n], weights.W_Q, "d, head d e -> head e") + weights.b_Q
scores = einsum(q, weights.W_K, seen, "head e, head d e, source d -> head source")
rows = (scores / weights.attn_scale).softmax(-1)
z = einsum(rows, seen, weights.W_V, "head source, source d, head d e -> head e") + weights.b_V
out = einsum(z, weights.W_O, "head e, head e d -> head d")

stream = weights.W_E[x[n]] + weights.W_pos[n] + out.sum(0) + weights.b_O
s = layer_norm_scale(stream, weights.eps)
summary = out[heads].sum(0) @ weights.mlp_input()[0] / s  # neuron

# %% tags=["hide-input", "nbval-check-output"]
normalised_r = cb.median_over_neurons("r", *normalised)(np.arange(len(half_B)))
display(
    cb.finding(
        f"On {MODEL} Equation 1 alone, with the text's own denominators, gives the amounts: r is {normalised_r:.3f} and FVU {normalised_fvu:.2f}.",
        holds=bool(normalised_r > 0.99 and normalised_fvu.high < 0.05)
        and torch.allclose(summary, circuit.self_normalized().summary(x[None])[0], atol=1e-3),
    ),
)

# %% [markdown]
r"""
It is the first layer itself with one equation in place of the exact residual, so its error tests Equation 1 alone. But it cannot say what a token adds before there is a text, since all tokens share the denominators. Fixed constants can: that is what their error buys.

## What breaks it

**Another page.** Every passage of the book calibrates in turn, from the heaviest to the lightest (light: small denominators and LayerNorm scale, so summaries come out large).
"""

# %% tags=["hide-input"]
x_P = study.fixed.prepare(passages)
scales = circuit.scale / circuit.fixed.scale(x_P, circuit.fixed.head_outputs(x_P))  # page 1
factors = circuit.denominators / circuit.fixed.denominators(x_P)[:, heads] * scales  # page head


def by_pages(x):
    """Summaries of the found neurons with the constants of every passage: `page text neuron`."""
    says = einsum(gathered(circuit, x), circuit.readout[..., found], "t h e, h e j -> t h j")
    return einsum(says, factors, "t h j, p h -> p t j")


summaries = by_pages(x_B)
paged = costs(dict(enumerate(summaries)), true_B[:, found], list(range(len(found))))
paged["light"] = factors.log().mean(1).tolist()
ranked = paged.sort_values("light")
figure, ((axis,),) = cb.figures.panels(height=2.8)
axis.stackplot(range(len(ranked)), ranked[list(PARTS)].T, step="mid", labels=PARTS.values())
at_page = int(np.abs(ranked["light"].to_numpy()).argmin())
axis.axvline(at_page, color=cb.figures.INK, lw=1, ls=":", label="the chapter's page")
axis.set(xlabel="passages that calibrate, heavy to light", ylabel="median of each part, stacked")
axis.legend(loc="upper left", fontsize=9)
cb.figures.picture(
    figure,
    "11.2",
    f"Each of {len(passages)} passages calibrates the circuit; {len(x_B)} texts with {TOKEN!r} at n, medians over found neurons, part by part.",
    f"A stacked area: shape lies between {paged['from shape'].min():.2f} and {paged['from shape'].max():.2f}, a factor between {paged['from spread'].min():.2f} and {paged['from spread'].max():.2f}, an offset between {paged['from offset'].min():.2f} and {paged['from offset'].max():.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
pattern = positional_pattern(circuit)[found]
by_page = fvu(summaries + (pattern * scales)[:, None], true_B[:, found]).numpy()
of_pages, r_pages = (tuple(paged[k].quantile([0.025, 0.975])) for k in ("fvu", "r"))
of_patterned = np.quantile(by_page, [0.025, 0.975])
below = int((by_page <= 0.14265).sum())
better = int((ranked["fvu"] < ranked["fvu"].iloc[at_page]).sum())
cb.finding(
    f"Of {len(paged)} passages {better} give a lower FVU than this page; 95 in 100 give {of_pages[0]:.2f} to {of_pages[1]:.2f}, with r between {r_pages[0]:.2f} and {r_pages[1]:.2f}. With positional patterns it is {of_patterned[0]:.2f} to {of_patterned[1]:.2f}, for {below} of them below the published one.",
    holds=bool(
        better > len(paged) / 2
        and of_pages[0] > 0.14265
        and r_pages[0] > 0.9485
        and (by_page < paged["fvu"]).all()
        and 0 < below < len(by_page) / 2
    ),
)

# %% [markdown]
r"""
So the page decides how wrong the amounts are, and not the order. This book's page is the nearest of sixteen passages of prose to their mean; no result took part.

**Another model.** Why does one page fail SmolLM2? Heads add a constant to every text. In SmolLM2 it is far larger than what varies between texts ([chapter 8](08_real_model)), and a wrong denominator scales it, too. Do more pages help? Half A is cut into four clusters of texts with like denominators, each with constants of its own; a new text gets those of the cluster whose mean summary is nearest to its own. Is the circuit better than guessing? Asked are the 100 neurons that tokens move farthest, in the first sentence on 500 texts of the collection, in the second on all of chapter 8's.
"""

# %% tags=["hide-input", "nbval-check-output"]
ratios_of = {m: facts["ratio"] for m, facts in three.items()}
helped = [m for m, (_, _, high, _) in ratios_of.items() if high < FIFTH]
of_smol = three["SmolLM2"]["FVU"]
told = cb.on_real("FVU, self-normalised", "FVU, 100 strongest", "r, 100 strongest", "r of an even bag")  # fmt: skip
left_there, on_all = (float(v.split()[0]) for v in told["SmolLM2"].iloc[:2])
by_circuit, by_bag = (told.loc[k, [*REAL.values()]] for k in told.index[2:])
r, low, _ = by_circuit.str.extract(r"(.*) \[(.*), (.*)\]").astype(float).T.to_numpy()
below, ahead = (
    list(by_bag.index[of]) for of in (by_bag.astype(float) < low, by_bag.astype(float) > r)
)
display(
    cb.finding(
        f"On SmolLM2 one page leaves {of_smol['one page']:.1f} times the variance, half A's one set of constants {of_smol['half A']:.1f}, four clusters {of_smol['clusters']:.2f}, the text's own {of_smol['its own']:.2f}. On all of chapter 8's texts one page leaves {on_all:.1f}, on every third, as in the table of costs, {together['SmolLM2']:.1f}.",
        holds=helped == ["SmolLM2"]
        and min(of_smol["one page"], of_smol["half A"]) > 1 > of_smol["clusters"],
    ),
    cb.finding(
        f"An even bag's r is clearly below the circuit's only on Qwen ({by_bag['Qwen']} against {by_circuit['Qwen']}); on MiniLM it is {by_bag['MiniLM']} against {by_circuit['MiniLM']}, and on SmolLM2 the guess is not behind, {by_bag['SmolLM2']} against {by_circuit['SmolLM2']}. There the self-normalised circuit leaves {left_there:.2f}.",
        holds=below == ["Qwen"] and ahead == ["SmolLM2"],
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
activation = {m: f["r"].get("post", f["r"].get("product")) for m, f in three.items()}
added = {m: facts["r"]["heads"] for m, facts in three.items()}
cb.finding(
    f"Read as a correlation with the neuron's own activation, r is {cb.listed([f'{r:.2f} on {m}' for m, r in activation.items()])}; what the heads add meets 0.9485 on {cb.listed([m for m, r in added.items() if r >= 0.94845])}.".replace("-", "−"),
    holds=max(activation.values()) < 0.94845 < added[MODEL],
)  # fmt: skip

# %% [markdown]
r"""
**Other neurons.** Which neurons are judged matters little on mini, and much on Qwen and MiniLM:
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Which neurons are judged in which chapter, and how many independent ones are they?"}
farthest = cx.find_neurons(circuit, threshold=-math.inf).index[:100].tolist()
with_neither = guesses(circuit, x_B, x_A, every)["neither: an even bag"]


def count(true):
    """How many independent neurons these are worth, from the correlations of `text neuron`."""
    rho = torch.corrcoef(true.T).nan_to_num()  # neuron neuron
    return true.shape[1] ** 2 / float(rho.square().sum())


sets = {
    f"the {len(found)} found (8, 9)": found,
    f"the {len(farthest)} that tokens move farthest (5; real models in 6, 9)": farthest,
    f"all {len(every)}": every,
}
bridge = pd.DataFrame(
    {
        name: {
            "FVU": float(fvu(paper_B[:, J], true_B[:, J])),
            "neither kernel nor content": float(fvu(with_neither[:, J], true_B[:, J])),
            "self-normalised": float(fvu(normalised_B[:, J], true_B[:, J])),
            "worth how many independent": count(true_B[:, J]),
        }
        for name, J in sets.items()
    }
).T
of_found, _, of_all = (row for _, row in bridge.iterrows())
real_fvu = cb.on_real("FVU, 100 strongest", "FVU, all")[["Qwen", "MiniLM"]]
real_fvu = real_fvu.map(lambda v: float(v.split()[0]))
from_to = {m: "{:.2f} to {:.2f}".format(*real_fvu[m]) for m in real_fvu}
display(
    bridge.map("{:.2g}".format).rename_axis("neurons (judged in chapters)"),
    cb.finding(
        f"Over all neurons of {MODEL} FVU ({of_all['FVU']:.2f}) is above that with neither kernel nor content ({of_all['neither kernel nor content']:.2f}), over the found ones just below. From the 100 strongest to all it rises from {from_to['Qwen']} on Qwen and {from_to['MiniLM']} on MiniLM (chapter 8).",
        holds=of_all["FVU"] > of_all["neither kernel nor content"]
        and of_found["FVU"] < of_found["neither kernel nor content"]
        and (real_fvu.loc["FVU, all"] > 2 * real_fvu.loc["FVU, 100 strongest"]).all(),
    ),
)

# %% [markdown]
r"""
**Another training.** `mini-base` differs from `mini` in length of training and in the optimiser's schedule; seed 1 is `mini-base`'s recipe with another seed. `mini` itself has no replicate.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Which statements were fixed on mini, and which hold elsewhere?"}
CONDITIONS = {
    "r of the found neurons is at least the published 0.94845": lambda m: m["r"] >= 0.94845,
    "their FVU is above that of the domain's mean": lambda m: m["FVU"] > m["domain FVU"],
    "a line from half A leaves less than a quarter of it": lambda m: m["line"] < m["FVU"] / 4,
    "within domains r loses twice as much without content as without kernel": lambda m: m["within"] - m["no content"] > 2 * (m["within"] - m["no kernel"]),
    "alone, values and denominators cost most": lambda m: m["costliest"] == ["denominators", "values"],
    "mending these two leaves less than a fifth": lambda m: m["two mended"] < m["paper, own"] / 5,
    "Equation 1 everywhere: r above 0.99, FVU below 0.05": lambda m: m["Equation 1, r"] > 0.99 and m["Equation 1, FVU"] < 0.05,
    "found neurons are worth less than a fifth as many": lambda m: m["worth"] < m["found"] / 5,
}  # fmt: skip


def numbers(held, items, rungs, true):
    """What the conditions speak of; `true` is that of the neurons found."""
    within = held["r within domains"]
    return {
        **held.loc["the circuit", ["r", "FVU"]],
        "domain FVU": held["FVU"]["mean of its domain, half A"],
        "line": held["FVU on a line"].iloc[0],
        **dict(zip(("within", "no kernel", "no content"), within, strict=False)),
        "costliest": sorted(items.drop("six").nlargest(2).index),
        "paper, own": items["six"],
        "two mended": rungs["fvu"]["two mended"],
        "Equation 1, r": rungs["r"]["Equation 1"],
        "Equation 1, FVU": rungs["fvu"]["Equation 1"],
        "found": true.shape[1],
        "worth": count(true),
    }


def rungs(circuit, x):
    """All but the two approximations that cost most on mini, and Equation 1 only."""
    return {
        "two mended": approximated(circuit, x, SIX.keys() - {"values", "denominators"}),
        "Equation 1": circuit.self_normalized().summary(x),
    }


def over(item, others, made, true, column="fvu"):
    """What one approximation costs over what the costliest of others does, of texts drawn."""
    ours = cb.median_over_neurons(column, made[item], true)
    rivals = [cb.median_over_neurons(column, made[k], true) for k in others]
    return lambda drawn: ours(drawn) / max(rival(drawn) for rival in rivals)


def few_neurons(made, J):
    return {k: v[:, J] for k, v in made.items()}


def judge(circuit, held, made, x, true, true_B, J, of):
    """What is judged of a model, its bill, and the token over denominators, with its interval."""
    places = list(range(len(J)))
    items = costs(made, true, places)["fvu"]
    climbed = costs(few_neurons(rungs(circuit, x), J), true, places)
    facts = numbers(held, items, climbed, true_B[:, J])
    ratio = over("token", ["denominators"], made, true)
    return facts, items.drop("six"), cb.with_interval(ratio, of, 199, cb.WIDER)


def of(name):
    """The same of another model."""
    other = cx.study(cx.load(name), TEXTS, TOKEN, None, MAX_CV, PROSE)
    there, J = other.circuit, find(other.circuit)
    A, B = (
        (x := other.fixed.prepare(half), other.fixed.exact_summary(x, other.heads), np.array([t.domain for t in half]))
        for half in cb.halves(other.texts)
    )  # fmt: skip
    few = cb.halves(other.texts)[1][::2]
    x = torch.stack([text.tokens[: other.n + 1] for text in few])
    t, made = there.fixed.exact_summary(x, other.heads)[:, J], few_neurons(alone(there, x), J)
    return judge(there, compare(there, A, B, J), made, x, t, B[1], J, few)


KEPT = cb.evidence("seed-1.json")
each, true_some = few_neurons(only, found), true_own[:, found]
trained = {MODEL: judge(circuit, held, each, own, true_some, true_B, found, some)}
try:
    trained[OTHER] = of(OTHER)
except (OSError, ValueError) as reason:  # out of reach
    print(f"{OTHER} is not to be had here: {reason}")
if RUNS:
    place = Path(RUNS) / "seed-1-100"
    facts, items, ratio = of(place)
    kept = {
        "judged": facts,
        "bill": items.to_dict(),
        "token over denominators": [ratio.value, ratio[1:]],
    }
    kept = json.loads(json.dumps(kept), parse_float=lambda v: round(float(v), 4))
    kept = json.loads((place / "run.json").read_text()) | kept
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
kept = json.loads(KEPT.read_text())
if OTHER in trained:
    ratio, ends = kept["token over denominators"]
    trained["seed 1"] = kept["judged"], pd.Series(kept["bill"]), cb.Estimate(ratio, *ends)
judged, bills, ratios = ({m: facts[k] for m, facts in trained.items()} for k in range(3))
verdicts = {m: [bool(f(v)) for f in CONDITIONS.values()] for m, v in judged.items()}
verdicts = pd.DataFrame(verdicts, index=pd.Index(CONDITIONS, name="statement"))
met = verdicts.sum()
said = {m: f"{ratio:.1f}" for m, ratio in ratios.items()}
decided = [m for m, ratio in ratios.items() if not ratio.low < 1 < ratio.high]
shown = verdicts.map({True: "yes", False: "no"}.get)
undecided = [m for m in shown if m not in decided]
shown.loc[shown.index[4], undecided] = "values: yes; second place: undecided"
shown

# %% tags=["hide-input", "nbval-check-output"]
display(
    cb.finding(
        f"Alone, values cost most in all three trainings. Second place is decided only in seed 1, where the circuit's token costs {said.get('seed 1')} times what denominators do (documents drawn, not domains); that is {said[MODEL]} on mini and {said.get(OTHER)} on {OTHER}.",
        holds=decided == ["seed 1"]
        and len(kept["token over denominators"][1]) == 2  # no unit kept: documents
        and {items.idxmax() for items in bills.values()} == {"values"},
    ),
    cb.finding(
        f"Of {len(CONDITIONS)} statements read off mini before the others were run {met.iloc[min(1, len(met) - 1)]} hold on mini-base{', one is undecided,' if OTHER in undecided else ''} and {met.iloc[-1]} on a third training.",
        holds=bool(len(met) == 3 and met.iloc[0] == len(CONDITIONS) > met.iloc[1:].max()),
        otherwise="other trainings are not at hand." if len(met) < 3 else None,
    ),
)


# %% [markdown]
r"""
So no ranking should be carried to another model. (With rotary positions values cost nothing, by construction.)
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What became of the conditions set beforehand?"}
# Conditions of three questions, set before any of them was measured, and not moved:
# positions: what each head's own positional pattern adds by the positions of values (weights alone)
# takes at least half of the FVU away that values read at the destination cost: the difference
# between the paper's circuit and the same with exact values, `TOKEN` at n; the published gap is
# closed if what is left is at most 0.14265
# readings: 0.9485 is met in both, if r of the summary with what the heads add and r with the
# neuron's whole activation are both at least 0.94845
# clusters: half A's texts in so many clusters of like denominators, a constant each; a text of half
# B gets the cluster whose mean summary is nearest to its own under one constant, so without its
# denominator. Clusters help if they take away a fifth of the FVU that one constant, half A's
# geometric mean, leaves: interval of the ratio below 0.8
# Set later, with the numbers known: the two mends together, by page, domains matched, other pages,
# what three trainings decide, values as no rival of the token at n, what each costs beside the
# others, guesses on real models, other neurons, SmolLM2's shape
left = {m: facts["positions"][1] for m, facts in three.items() if "positions" in facts}
close = [m for m, v in left.items() if v <= 0.14265]
both = [m for m in three if min(added[m], activation[m]) >= 0.94845]
shown = [f"{r:.2f} [{low:.2f}, {high:.2f}] on {m}" for m, (r, low, high, _) in ratios_of.items()]
pd.Series(
    {
        "positional patterns take at least half of what exact values would": f"{closed:.0%} on {MODEL}, {closed_there:.0%} on MiniLM: {'met' if min(closed, closed_there) >= GAP else 'not met'}",
        "with them the published gap is closed (0.14265)": f"on {cb.listed(close)}, from {of_minilm[0]:.2f} to {of_minilm[1]:.2f}{there}, where there was hardly a gap; not on {cb.listed(left.keys() - set(close))}",
        "0.9485 is met in both readings": f"on {cb.listed(both) if both else 'no model'}",
        "four clusters take a fifth away": f"on {cb.listed(helped)}; they leave, of what one set of constants does, {cb.listed(shown)}",
    }
).to_frame("what became of it").rename_axis("condition set beforehand")

# %% [markdown]
r"""
## Turn it

Two texts as they grow, prose of half B and code: what both circuits say so far, and what the model computes. Type over them: where does the paper's line leave the model's?
"""

# %% tags=["hide-input"]
code = next((p for p in study.passages if p.domain == "python"), study.passages[0])
shown = [weights.tokenizer.decode(text.tokens[1:161]) for text in (study.example, code)]
neuron = int(found[0])
made = {"paper’s circuit": circuit, "self-normalised": circuit.self_normalized()}
figure, ((axis,),) = cb.figures.panels(height=3.0, width=5.5)
for mark, (name, by) in zip("o.", made.items(), strict=True):
    a, t = by.summary(own[:60])[:, neuron], true_own[:60, neuron]
    axis.plot(a, t, mark, ms=4, alpha=0.7, label=name)
axis.axline((float(t.mean()),) * 2, slope=1, color=cb.figures.INK, lw=1, ls=":")
axis.set(xlabel="by the circuit", ylabel="in the model", title=f"neuron {neuron}")
axis.legend(fontsize=8)
picture = cb.figures.picture(
    figure,
    "11.3",
    f"Neuron {neuron} on {len(t)} texts of half B, their own token at n. Dotted: equal.",
    f"Dots along a diagonal: neuron {neuron} by both circuits and in the model.",
)
cv.LiveReader(
    weights, picture=picture, heads=list(heads), neuron=neuron, text=shown[0], other=shown[1]
)

# %% [markdown]
r"""
## Claims

The second line's interval holds 95 in 100 of the passages of Figure 11.2, the last line's draws passages again, the others are the wider of documents and domains. Lines 4 and 5 read one sentence of the post in two ways: were other heads and LayerNorm exact, the token at the destination would be the main source of error. Line 5 was added when its number was known, and failed with values among the competitors; we then left them out, since the post corrects them. Two medians were published; all other bounds are this book's reading of words.
"""

# %% tags=["hide-input", "nbval-check-output"]
own_summary = circuit.summary(all_own)
r_B, r_own = (
    cb.with_interval(cb.median_over_neurons("r", a[:, found], t[:, found]), half_B, 299, cb.WIDER)
    for a, t in ((paper_B, true_B), (own_summary, own_truth))
)
spoken_of = [name for name in SIX if name not in ("token", "scale", "values")]  # by the post
main_error = {
    said: over("token", spoken_of, each, true_some, column)
    for said, column in {"shape lost": "from shape", "FVU added": "fvu"}.items()
}
true_P = study.fixed.exact_summary(x_P, heads)[:, found]
errors = (by_pages(x_P) - true_P).square() / true_P.var(0, correction=0)  # page text neuron
dialect = np.array([page.dialect for page in passages])
foreign, prose = ~np.char.startswith(dialect, "en"), np.isin(study.domains, PROSE)
names = ["code", "other languages", "prose"]
kind_of = np.select([dialect == "python", foreign, prose], names, "other English")
apart = 1 - torch.eye(len(passages)).to(errors)  # a page is not tested on itself


def matched_over_other(kind_of):
    """Error with the kind of text matched over error with another, the median kind, when these
    passages are drawn."""
    member = torch.from_numpy(kind_of[:, None] == np.unique(kind_of)).to(errors)  # page kind
    another = ~torch.eye(member.shape[1], dtype=torch.bool)

    def of_drawn(drawn):
        often = torch.from_numpy(np.bincount(drawn, minlength=len(passages))).to(errors)
        pairs = often[:, None] * often * apart
        total = einsum(member, pairs[..., None] * errors, member, "p a, p t j, t b -> a b j")
        table = (total / (member.T @ pairs @ member)[..., None]).nanquantile(0.5, dim=-1)
        other = table.masked_fill(~another, torch.nan)
        return float((table.diagonal() / other.nanmean(0)).nanquantile(0.5))

    return of_drawn


by_kind, by_name = matched_over_other(kind_of), matched_over_other(np.array(study.domains))
says = [circuit.fixed.mlp(few) for few in x_B.split(32)]
readings_B = {
    id: cb.with_interval(
        cb.median_over_neurons(
            "r", paper_B[:, found], torch.cat([few[which] for few in says])[:, found]
        ),
        half_B,
        199,
        cb.WIDER,
    )
    for id, which in zip(
        ("median_r_pre", "median_r_post"), (next(iter(says[0])), list(says[0])[-1]), strict=True
    )
}
cb.ledger(
    model,
    cb.Claim("median_r", f"paper's circuit, {TOKEN!r} at n: median r", *r_B.for_claim, 4),
    cb.Claim(
        "median_r_pre",
        "the same, with the whole pre-activation",
        *readings_B["median_r_pre"].for_claim,
        4,
    ),
    cb.Claim(
        "median_r_post", "the same, with the activation", *readings_B["median_r_post"].for_claim, 4
    ),
    cb.Claim("median_fvu", "the same: median FVU", medians["fvu"], of_pages, 4),
    cb.Claim("median_r", "paper's circuit, own token at n: median r", *r_own.for_claim, 4),
    *(
        cb.Claim(
            "token_main_error",
            f"{said} by {TOKEN!r} at n, over the largest other but values and LayerNorm 2",
            *cb.with_interval(of_drawn, some, 199, cb.WIDER).for_claim,
        )
        for said, of_drawn in main_error.items()
    ),
    cb.Claim(
        "own_domain",
        "error with the kind of text matched, over error with another, median kind",
        *cb.with_interval(by_kind, passages, 199).for_claim,
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
with_domains = cb.with_interval(by_name, passages, 199)
beside_values = over("token", ["values"], each, true_some)  # the largest of all
beside_values = cb.with_interval(beside_values, some, 199, cb.WIDER)
cb.finding(
    f"With values among the competitors line 5 would fail, at {beside_values.value:.2f}. With domains matched in place of kinds, tried later, the last line would, at {with_domains:.2f}.",
    holds=beside_values.high < 1 and with_domains.low > 0.9,
)

# %% [markdown]
r"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
ranks_B = (pd.DataFrame(v[:, found]) for v in (paper_B, true_B))
ranked_as = pd.DataFrame.corrwith(*ranks_B, method="spearman").median()
shape_there = 1 - three["SmolLM2"]["r"]["heads"] ** 2
display(
    cb.finding(
        f"On {MODEL} texts come nearly in the right order: the rank correlation is {ranked_as:.2f}.",
        holds=bool(min(r_B.low, ranked_as) > 0.9),
    ),
    cb.finding(
        f"In the median of the neurons that single tokens can move far, the fraction of variance unexplained (FVU) is {ours['FVU']:.2f} ({of_pages[0]:.2f} to {of_pages[1]:.2f} by the page); with a slope and an offset per neuron from other texts it is {ours['FVU on a line']:.2f}, where the unweighted mean of what the tokens say, given the like, leaves {neither['FVU on a line']:.2f}.",
        holds=bool(ours["FVU on a line"] < neither["FVU on a line"] / 2 < ours["FVU"] / 4)
        and bool(ours["FVU on a line"] < of_pages[0] < ours["FVU"] < of_pages[1]),
    ),
    cb.finding(
        f"On {MODEL} positional patterns and other texts' constants bring the FVU to {patterned['half A']:.2f}. On SmolLM2 one set of constants mends nothing, and shape alone is {shape_there:.2f}.",
        holds=patterned["half A"] < one_page / 4
        and of_smol["half A"] >= of_smol["one page"]
        and shape_there > 0.4,
    ),
)

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* The summaries of half B are dealt out again among the texts of the same domain. What becomes of $r$, and of $r$ within domains?
"""

# %% tags=["nbval-check-output"]
dealt, deal = paper_B[:, found].clone(), torch.Generator().manual_seed(0)
for name in np.unique(domain_B):
    mates = torch.from_numpy(np.flatnonzero(domain_B == name))
    dealt[mates] = dealt[mates[torch.randperm(len(mates), generator=deal)]]
fit = cx.evaluation.r_and_fvu(dealt, true_B[:, found], domain_B)
means = held.loc["mean of its domain, half A"]
beside = pd.DataFrame({"dealt again": fit, "mean of its domain, half A": means})
beside.loc[["r", "r within domains"]].round(2)

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
3. *Break this.* Read the passage at the right end of Figure 11.2, `passages[int(paged["light"].argmax())]`. Why are its denominators small? Write a lighter one, of `n` tokens or more, and calibrate on it (`cx.ContextualCircuit.calibrate(study.fixed, page, heads)`). Which part of the FVU does not break?

```{admonition} Solutions
:class: dropdown

1. $r$ falls below that of the domain's mean, since the dealt summaries bring the variation of other texts; within domains nothing is left.
2. `mine = ((a.mean() - t.mean()) / t.std(correction=0)) ** 2, (a.std() / t.std() - r) ** 2, 1 - r**2` with `r = torch.corrcoef(torch.stack([a, t]))[0, 1]`.
3. It holds few of the tokens that the heads like, so little is divided by, and everything comes out too large: a factor, and an offset. Shape changes only by weighing one head against another.
```

## Where this comes from

Protocol, medians and advice on calibration texts are the paper's {cite}`gibson2025decomposing`; the positions in the values and the expectation about the token at the destination the post's {cite}`gibson2025contextual`. The three parts are those of a forecaster's skill score {cite}`murphy1988skill`. Guesses, costs and the self-normalised circuit are worked out here.
"""
