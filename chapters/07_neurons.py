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
# Which neurons know the context?

**Every direction that reads the heads knows the context a little; neurons stand out by how far a few tokens can push them, and by what they are about.**
To answer to some domain is no distinction: 100% of the found neurons do, with an interval above zero, 99% of the others and 100% of random mixtures of neurons.
A few neurons can be pushed farther than mixtures can: 34 of 1024 pass a threshold that at most 2 of as many mixtures pass, in 5 draws.
One head decides which neurons this book's rule finds: without head 0, the least steady of the stable ones, 31 of its 90 are found again.
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
TOKEN = " the"  # the token at the destination
PROSE = ("american", "british", "travel")  # the domains that count as plain prose
THETA = None  # a neuron's largest contributions must exceed this; None: two robust deviations
GALLERY = 40  # how many neurons are shown

# %% tags=["hide-input", "nbval-check-output"]
import warnings
from itertools import product

import einops
import numpy as np
import pandas as pd
import torch
from scipy import stats
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
study = cx.study(cx.load(MODEL), TEXTS, TOKEN, HEADS, STEADY, PROSE)
model, weights, passages, texts = study.model, study.weights, study.passages, study.texts
n, heads, domains, names = study.n, study.heads, study.domains, study.names
calibrating, circuit = study.calibrating, study.circuit
prose, LENGTH = study.prose, study.length
print(f"{study}; {weights.n_neurons} neurons\ncalibration text: {calibrating.name}")

# %% [markdown]
r"""
## A column for every neuron

[Chapter 6](06_circuit) wrote the stable heads as one sum over tokens. A token $t$ adds to the residual stream its extended embedding $\text{ext}(t)$, times the weight $\text{pos}_i$ of its position in the shared kernel; a neuron $j$ reads the stream with its input weights, and so

$$
\begin{aligned}
\text{contribution}[j, t] \;&=\; \frac{\text{ext}(t) \cdot W_\text{in}[:, j]}{s}, \\
\text{approx}_j(x) \;&=\; \sum_{i \le n} \text{pos}_i\; \text{contribution}[j, x_i] .
\end{aligned}
$$ (eq-neu-contribution)

Here $s$ is the scale of the MLP's LayerNorm on the calibration text. The summary is an average, because the kernel sums to one. So a contribution is in the unit of the pre-activation (whose bias stays outside), and it says where the summary would go if the whole context consisted of the token $t$. For each neuron there is one such number for each token of the vocabulary: a column.
"""

# %%
contribution = circuit.contribution  # vocab neuron
ext = circuit.extended_embedding()  # vocab d_model
W_in, _ = weights.mlp_input()  # d_model neuron

# %% tags=["nbval-check-output"]
same = torch.allclose(contribution, ext @ W_in / circuit.scale, rtol=1e-3, atol=1e-3)
print("same as circuit.contribution:", same)
print(f"{contribution.shape[1]} columns of {contribution.shape[0]} tokens")

# %% tags=["hide-input"]
apart = contribution[:: max(1, len(contribution) // 4000)]  # a few thousand tokens are enough
average, deviation = apart.mean(0), apart.std(0)  # neuron
entries = ((apart - average) / deviation).flatten().numpy()
tails = stats.kurtosis(apart.numpy(), axis=0)
figure, ((left, right),) = cx.plots.panels(1, 2, height=2.8)
edge = min(30, float(np.abs(entries).max()))
left.hist(entries, bins=np.linspace(-edge, edge, 121), density=True, label="contributions")
normal = np.linspace(-5.2, 5.2, 200)
left.plot(normal, stats.norm.pdf(normal), color=cx.plots.COLOURS[1], ls="--", label="normal")
left.set(
    yscale="log",
    xlabel="standard deviations of the column",
    ylabel="density",
    title="All entries",
)
left.set_ylim(bottom=0.3 / len(entries))
left.legend(fontsize=8)
right.hist(average, bins=40, label="mean")
right.hist(deviation, bins=40, alpha=0.75, label="standard deviation")
right.set(
    xlabel="of the column (unit of the pre-activation)",
    ylabel="neurons",
    title="One number a neuron",
)
right.margins(y=0.35)  # room for the legend
right.legend(fontsize=8)
far = float((np.abs(entries) > 5).mean())
cx.plots.picture(
    figure,
    "7.1",
    "Left: the contributions of a few thousand tokens, evenly taken from the vocabulary, to all neurons, each column "
    "with its mean taken off and divided by its standard deviation; beside it a normal curve. Logarithmic axis. Right: the mean and the standard "
    "deviation of each neuron's column.",
    f"Two histograms. Left: tails far above a normal curve, {far:.2%} of the entries beyond 5 "
    f"standard deviations. Right: column means from {average.min():.1f} to {average.max():.1f}, "
    f"standard deviations from {deviation.min():.1f} to {deviation.max():.1f}.",
)

# %% tags=["nbval-check-output"]
print(f"entries beyond 5 standard deviations: {far:.2%} (normal: {2 * stats.norm.sf(5):.5%})")
print(f"excess kurtosis of a column, median neuron: {np.median(tails):.0f} (normal: 0)")
print(
    f"mean of a column over its standard deviation, median size: {(average / deviation).abs().quantile(0.5):.1f}"
)

# %% [markdown]
r"""
Were each entry the sum of many small independent effects, the histogram would follow the dashed curve. How far the tails stand above it says how much of a neuron's reaction is left to a few tokens, and those tokens are what the rest of the chapter is about. The right panel shows by how much neurons differ in how hard tokens push them at all. A column's mean is what an average token of the vocabulary adds (the last printed line holds it against the spread); it is the same for every text and so carries
no context.

This is the whole column of one neuron, the one that its strongest tokens push farthest:
"""

# %%
counted = ~cx.neurons.untrained_tokens(
    weights
)  # vocab; what this leaves out is the next section's subject
K = cx.neurons.LARGEST


def top_of(columns):
    """Mean of the K largest entries less the mean: `neuron token -> neuron`."""
    return columns.topk(K).values.mean(1) - columns.mean(1)


def tops_of(circuit, counted=counted):
    """The same for all neurons of a circuit, over the tokens that count, a few at a time."""
    values = circuit.weighted_values[counted]  # token head d_head
    parts = circuit.readout.split(256, dim=2)  # head d_head neuron
    at_once = "token head d_head, head d_head neuron -> neuron token"
    return torch.cat([top_of(einops.einsum(values, part, at_once)) for part in parts])  # neuron


tops = tops_of(circuit)
farthest = int(tops.argmax())


# %% tags=["hide-input"]
def show(tokens):
    """Tokens in a row; ␣ is a space, ↵ a new line, and other invisible characters are escaped."""
    marks = {" ": "␣", "\n": "↵"}
    return ", ".join(
        "".join(marks.get(c, c if c.isprintable() else ascii(c)[1:-1]) for c in token)
        for token in tokens
    )


def ends(circuit, neuron, count):
    """The tokens that count with the largest and the smallest contributions, and those."""
    column = circuit.contribution[:, neuron]
    found = []
    for sign in (1, -1):
        ids = (sign * column).masked_fill(~counted, -torch.inf).topk(count).indices
        found += [cx.neurons.spelled(weights, ids.tolist()), column[ids].tolist()]
    return found


def spread_out(x, gap, high):
    """Places for labels: as near to x as they can be, `gap` apart."""
    order, places = np.argsort(x), np.sort(x).astype(float)
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + gap)
    places[-1] = min(places[-1], high)
    for k in reversed(range(len(places) - 1)):
        places[k] = min(places[k], places[k + 1] - gap)
    back = np.empty(len(x))
    back[order] = places
    return back


def draw_column(axis, circuit, neuron, count=10):
    """A neuron's column as a histogram, its outermost tokens by name."""
    column = circuit.contribution[counted, neuron]
    axis.hist(column, bins=80)
    high, at_high, low, at_low = ends(circuit, neuron, count)
    few = count // 2
    tokens, x = np.array([*high, *low[:few]], dtype=object), np.array([*at_high, *at_low[:few]])
    width = float(column.max() - column.min())
    tallest = axis.get_ylim()[1]
    axis.set(yscale="log", ylim=(0.6, tallest ** (1 / 0.55)))  # names above, histogram below
    axis.set_yticks([v for v in (1, 10, 100, 1000, 10_000) if v <= tallest])
    axis.minorticks_off()
    places = spread_out(x, 0.042 * width, float(column.max()))
    up = axis.get_xaxis_transform()
    for token, at, place in zip(tokens, x, places, strict=True):
        colour = cx.plots.COLOURS[1 if at > column.mean() else 2]
        axis.plot([at, at, place], [0.05, 0.58, 0.66], transform=up, lw=0.6, color=colour)
        axis.text(
            place, 0.68, show([token]), transform=up, rotation=90, ha="center", va="bottom",
            fontsize=8, color=colour, parse_math=False,
        )  # fmt: skip
    axis.axvline(float(column.mean()), color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="contribution (unit of the pre-activation)", ylabel="tokens")
    axis.set_title(f"neuron {neuron}")


figure, ((axis,),) = cx.plots.panels(height=3.8)
draw_column(axis, circuit, farthest, 14)
highest, at_highest, lowest, at_lowest = ends(circuit, farthest, 14)
cx.plots.picture(
    figure,
    "7.2",
    f"What each token of the vocabulary contributes to neuron {farthest}. Logarithmic counts; the "
    "dotted line is the mean. The outermost tokens stand above their places (␣ is a space, ↵ a new line).",
    f"A histogram of {int(counted.sum())} contributions to neuron {farthest}, from "
    f"{at_lowest[0]:.1f} ({show(lowest[:3])}) to {at_highest[0]:.1f} ({show(highest[:3])}).",
)

# %% [markdown]
r"""
Nearly all tokens sit in the block around the mean and say next to nothing to this neuron. What it listens for hangs out on the right. Tokens on the left push against firing. Read the names as one would a list of search results: on the right stand bacteria, infections, patients and the brain, one subject; on the left galaxies and the headings of other subjects.

## How far can a token push?

How far a neuron can be pushed is a matter of its right end. The paper ranks neurons by a number for that {cite}`gibson2025decomposing`; this book takes the mean of the $K$ largest contributions, less the mean of all:

$$
\text{top}[j] \;=\; \frac1K \sum_{t\, \in\, \text{largest } K} \text{contribution}[j, t] \;-\; \frac1V \sum_{t} \text{contribution}[j, t] ,
$$ (eq-neu-top)

with $V$ the number of tokens that count. The function `top_of` above is this line; $K$ is `cx.neurons.LARGEST`. Taking several tokens in place of one keeps a single freak from deciding, but not a whole group of freaks, and a vocabulary holds one: the **glitch tokens**, which the tokeniser knows and training never showed. Their embeddings say nothing about any use in text, and a neuron must not be named after them.

They can be found from the weights alone. A byte-level vocabulary holds the thirteen bytes that no UTF-8 text contains, so that no training text did either. Let $U$ be these, $u_t = W_E[t] / \lvert W_E[t] \rvert$ the directions of embeddings, and $\bar u$ the mean of $u_t$ over $U$. In practice they lie close together, and a token counts as untrained if it lies as close to them as they do to one another:

$$
\cos(u_t, \bar u) \;\ge\; \max\Bigl( \min_{b \in U} \cos\bigl(u_b, \bar u_{U \setminus b}\bigr),\; \tfrac12 \Bigr) .
$$ (eq-neu-glitch)

The mean on the right, $\bar u_{U \setminus b}$, leaves out the byte that is compared with it; a token outside the thirteen is not in the mean anyway. The thirteen always count, and the bound of one half keeps the rule from spreading where they do not lie together.
"""

# %%
u = torch.nn.functional.normalize(weights.embeddings(), dim=-1)  # vocab d_model
never = cx.neurons.impossible_bytes(weights)  # empty if the vocabulary is not byte-level
together = u[never].sum(0)
own = torch.cosine_similarity(u[never], together - u[never], dim=-1)
limit = float(own.min().clamp(min=0.5)) if len(never) > 1 else float("nan")
cosine = torch.cosine_similarity(u, together[None], dim=-1)  # vocab
glitch = cosine >= limit
glitch[never] = True

occurs = torch.bincount(torch.cat([t.tokens for t in texts]), minlength=len(u))  # vocab
frequency = occurs.to(ext.dtype)
frequency[weights.tokenizer.bos_token_id] = 0  # the same in every text: it tells nothing
frequency = frequency / frequency.sum()
loudness = (ext - ext[counted].mean(0)).norm(dim=-1)  # vocab
loudness = loudness / loudness[counted].quantile(0.5)

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.0)
away = (1 - cosine).clamp(min=1e-4)
bins = np.geomspace(float(away.min()), max(2.0, float(away.max())), 61)
left.hist(away, bins=bins, label="all tokens")
left.hist(away[occurs == 0], bins=bins, alpha=0.8, label="not in the collection")
left.axvline(1 - limit, color=cx.plots.INK, ls="--", lw=1.2, label="threshold")
left.set(xscale="log", yscale="log", ylim=(0.7, None), ylabel="tokens")
left.set(title="Close to what was never trained", xlabel="1 − cosine with the impossible bytes")
left.legend(fontsize=8, loc=(0.2, 0.74))
bins = np.geomspace(float(loudness.min()), float(loudness.max()), 61)
right.hist(loudness[~glitch], bins=bins, label="the others")
right.hist(loudness[glitch], bins=bins, alpha=0.8, label="untrained")
right.set(xscale="log", yscale="log", ylim=(0.7, None), ylabel="tokens", title="Loudness")
marks = [v for v in (0.2, 0.5, 1, 2, 5, 10, 20) if bins[0] < v < bins[-1]]
right.set_xticks(marks, [f"{v:g}" for v in marks])
right.minorticks_off()
right.set_xlabel("length of the extended embedding (median 1)")
right.legend(fontsize=8)
cx.plots.picture(
    figure,
    "7.3",
    "Left: how far each token's embedding points away from the mean of the bytes that UTF-8 never uses, as one minus the cosine. "
    "Right: the length of extended embeddings, their mean taken off, over the median token's. All axes are logarithmic.",
    f"Two histograms. Left: {int(glitch.sum())} of {len(glitch)} tokens lie within the threshold "
    f"of {1 - limit:.2g}. Right: loudness up to {float(loudness.max()):.0f} times the median token's; "
    f"that of untrained tokens up to {float(loudness[glitch].max()) if glitch.any() else float('nan'):.1f} times.",
)

# %% tags=["nbval-check-output"]
all_tops = tops_of(circuit, torch.ones_like(counted))
unmoved = stats.spearmanr(tops, all_tops).statistic
largest = torch.cat(
    [part.topk(K, dim=0).indices for part in contribution.split(256, dim=1)], dim=1
)  # K neuron, over all tokens
glitch_slots = float(glitch[largest].float().mean())
print("same as cx.neurons.untrained_tokens:", torch.equal(glitch, ~counted))
print(
    f"untrained: {int(glitch.sum())} of {len(glitch)} tokens, {len(never)} of them impossible bytes"
)
print(f"of these, {int((glitch & (occurs == 0)).sum())} are absent from the collection;", end=" ")
print(f"the others occur {int(occurs[glitch].sum())} times among {int(occurs.sum())} tokens")
print(
    f"absent from the collection, but not called untrained: {int((~glitch & (occurs == 0)).sum())}"
)
print(
    f"share of the {K} largest entries of all columns that untrained tokens hold: {glitch_slots:.0%}"
)
print(f"rank correlation of top with and without them: {unmoved:.2f}")

# %% [markdown]
r"""
On the left, the heap near the left edge is the group in question. What the rule *finds* beyond the thirteen bytes never occurs in the collection. What it *misses* are the orange bars further right: tokens that the collection does not hold either, but training has moved their embeddings. Absence from a collection is no proof; a rare token may well have been trained.

The last two lines say what all this is worth. On `mini` glitch tokens hold none of the far ends, and no neuron changes its place when they are left out: here the rule is a precaution. On GPT-2 the paper has to warn of neurons that react to nothing else {cite}`gibson2025decomposing`. The right panel says why they are harmless here. Take the mean off a token's extended embedding and divide its length by the median token's: this is the token's **loudness**. Only a loud token can push any neuron far from its column's mean, and the untrained ones are quieter than the median.

At the right end of that panel stand *trained* tokens many times as loud as the median one. Every neuron that does not happen to be nearly at right angles to such a token has it at one end of its column or the other.
"""

# %% tags=["nbval-check-output"]
loud = torch.zeros_like(counted)
loud[loudness.masked_fill(~counted, 0).topk(max(1, int(counted.sum()) // 100)).indices] = True
content = cx.content_scores(weights, n, TOKEN)[heads].exp()  # head vocab
weighed = (content / circuit.denominators[:, None]).max(0).values  # vocab
carried = loudness * frequency
order = loudness.masked_fill(~counted, 0).topk(10).indices.tolist()
print("the ten loudest tokens:", show(cx.neurons.spelled(weights, order)))
print(
    f"rank correlation of loudness and largest content over denominator: {stats.spearmanr(loudness[counted], weighed[counted]).statistic:.1f}"
)
print(
    f"rank correlation of loudness and occurrences: {stats.spearmanr(loudness[counted], occurs[counted]).statistic:.1f}"
)
at_far_ends, in_texts = (
    float(loud[largest].float().mean()),
    float(carried[loud].sum() / carried.sum()),
)
cx.claims.finding(
    f"The loudest hundredth of the tokens holds {at_far_ends:.0%} of the largest entries of all columns, and {in_texts:.0%} of what texts say, loudness times frequency.",
    holds=at_far_ends > 0.1 > in_texts,
)

# %% [markdown]
r"""
The lists of different neurons repeat one another, led by the same loud tokens, many of them words of headings (` Climate`, ` Constitution`, `Ingredients`) that are rare in texts. The first correlation says where loudness comes from. What a head adds to $\text{ext}(t)$ is content over denominator times a value; with a correlation near one, a token is loud mainly because a head *attends* to it. The far ends of all columns are first of all a list of what the heads find worth attending to, and only then of what a neuron makes of it. A name that appears in one list only says more about its neuron than one that appears in twenty.

## Where to draw the line

Neurons whose top exceeds a threshold $\theta$ count as context-sensitive. The paper takes $\theta \approx 5$ and finds about 100 of GPT-2 small's 3072 neurons; a smaller one finds more, and errs more {cite}`gibson2025decomposing`. Can its number be used here? A top is in the unit of the pre-activation. That unit is a model's own: its size depends on how long the input weights are, how the heads divide their work and which of them were let in. What carries over is a *position
among the neurons*. Write $\tilde{\text{top}}$ for the median over neurons and

$$
z_j \;=\; \frac{\text{top}[j] - \tilde{\text{top}}}{1.4826\, \operatorname{median}_k \bigl\lvert \text{top}[k] - \tilde{\text{top}} \bigr\rvert} ,
$$ (eq-neu-z)

which for normally distributed numbers comes close to the ordinary standard score, and is not moved by a handful of extreme ones. The default of `cx.find_neurons` is $z_j > 2$. ([Chapter 6](06_circuit) and [appendix B](B_naive_bayes) take the 100 of largest top instead, to have as many on any model.)

How many would one find where there is nothing to be found? To shuffle a column over the tokens would not do: its $K$ largest entries are still its $K$ largest (Exercise 1). What can be put in a neuron's place is another direction of the residual stream. Two kinds are tried, with the lengths of the neurons' input weights:

- **isotropic**: directions that point anywhere with the same chance. They know nothing of the model.
- **mixtures**: random combinations of the neurons' own input weights. They look into the same subspace as neurons do, with the same emphasis, but along axes that training never chose.
"""

# %%
rng = np.random.default_rng(0)


def robust_z(values):
    far = values - values.quantile(0.5)
    return far / (1.4826 * far.abs().quantile(0.5))


def noise(*shape):
    """Independent standard normal numbers."""
    return torch.from_numpy(rng.standard_normal(shape)).to(W_in.dtype)


def pushes(directions):
    """`top` for any directions of the residual stream: `d_model direction -> direction`."""
    each = ext[counted].T  # d_model token
    parts = directions.split(256, dim=1)
    return torch.cat([top_of(part.T @ each / circuit.scale) for part in parts])


lengths = W_in.norm(dim=0)  # neuron


def mix():
    """As many mixtures of the neurons, as long as the neurons are: `d_model direction`."""
    return torch.nn.functional.normalize(W_in @ noise(len(lengths), len(lengths)), dim=0) * lengths


isotropic = torch.nn.functional.normalize(noise(*W_in.shape), dim=0) * lengths
mixtures = mix()
pushed = {"neurons": tops, "isotropic": pushes(isotropic), "mixtures": pushes(mixtures)}

# %% tags=["nbval-check-output"]
try:
    found = cx.find_neurons(circuit, THETA)
except ValueError as none:
    print(none, "- here: the largest 3%")
    found = cx.find_neurons(circuit, float(tops.quantile(0.97)))
chosen = found.index.tolist()
everyone = list(range(weights.n_neurons))
others = [j for j in everyone if j not in set(chosen)]
theta = float(found.attrs["threshold"])
z = robust_z(tops)
print("same as the z of cx.find_neurons:", np.allclose(z[chosen], found["z"]))
PAPER, SHARE = 5.0, 100 / 3072  # the paper's threshold, and the share of the neurons that it took
as_many = float(tops.quantile(1 - SHARE))  # the threshold that takes the same share here

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.2, sharey=True)
styles = {"neurons": "-", "isotropic": ":", "mixtures": "--"}
for k, (name, values) in enumerate(pushed.items()):
    share = 1 - np.arange(len(values)) / len(values)
    colour = {"color": cx.plots.COLOURS[k], "ls": styles[name]}
    left.step(values.sort().values, share, where="pre", label=name, **colour)
    right.step(robust_z(values).sort().values, share, where="pre", label=name, **colour)
score = np.linspace(-3, 3.7, 200)
right.plot(score, stats.norm.sf(score), lw=1, color=cx.plots.INK, label="normal")
for k, (at, name) in enumerate(
    ((PAPER, "θ = 5"), (theta, "used here"), (as_many, "paper’s share"))
):
    left.axvline(at, color=cx.plots.COLOURS[3 + k], lw=1.2, ls=("-.", "-", ":")[k], label=name)
right.axvline(cx.neurons.STANDS_OUT, color=cx.plots.COLOURS[4], lw=1.2)
left.set(xlabel="threshold θ (unit of the pre-activation)", ylabel="share of directions above")
left.set(yscale="log", ylim=(0.5 / len(tops), 1.2))
right.set(xlabel="threshold z (robust deviations)")
handles, said = right.get_legend_handles_labels()
marks, lines = left.get_legend_handles_labels()
figure.legend(
    [*handles, *marks[3:]], [*said, *lines[3:]], loc="outside lower center", ncols=7, fontsize=8
)
cx.plots.picture(
    figure,
    "7.4",
    "How many directions pass a threshold: the neurons, and random directions of the same "
    "lengths. Left: on top itself. Right: on its robust score, each kind by its own median and spread, with a normal curve.",
    "Falling curves on a logarithmic axis. Largest top: "
    + ", ".join(f"{name} {float(v.max()):.0f}" for name, v in pushed.items())
    + ". Median: "
    + ", ".join(f"{name} {float(v.quantile(0.5)):.1f}" for name, v in pushed.items())
    + ".",
)

# %% tags=["nbval-check-output"]
middle = float(tops.quantile(0.5))
robust = 1.4826 * float((tops - middle).abs().quantile(0.5))
lines = {"the paper's θ": PAPER, "the paper's share": as_many, "the threshold used": theta}
pd.DataFrame(
    {
        "θ": [f"{t:.1f}" for t in lines.values()],
        "z": [f"{round((t - middle) / robust, 1) + 0.0:.1f}" for t in lines.values()],
        "neurons": [int((tops > t).sum()) for t in lines.values()],
    }
    | {
        f"share of {k}": [f"{float((v > t).float().mean()):.1%}" for t in lines.values()]
        for k, v in pushed.items()
    },
    index=pd.Index(list(lines), name="line"),
)

# %% tags=["hide-input", "nbval-check-output"]
DRAWS = 5
drawn = [mixtures, *(mix() for _ in range(DRAWS - 1))]
tops_of_draws = [pushes(directions) for directions in drawn]  # draw mixture
passing = [int((v > as_many).sum()) for v in tops_of_draws]
neurons_passing = int((tops > as_many).sum())
least = [float(v.quantile(0.5)) for v in tops_of_draws]
by_rule = float((z > cx.neurons.STANDS_OUT).float().mean())
by_rule_isotropic = float((pushed["isotropic"] > theta).float().mean())
display(
    cx.claims.finding(
        f"A few neurons can be pushed farther than mixtures can: {neurons_passing} of {len(tops)} pass a threshold that at most {max(passing)} of as many mixtures pass, in {DRAWS} draws.",
        holds=max(passing) < neurons_passing / 5,
    ),
    cx.claims.finding(
        f"The median neuron can be pushed less far than the median mixture, by {float(tops.quantile(0.5)):.1f} against {min(least):.1f} or more.",
        holds=float(tops.quantile(0.5)) < min(least),
    ),
    cx.claims.finding(
        f"This book's rule, z > {cx.neurons.STANDS_OUT:g}, finds {by_rule:.1%} of the neurons, more than twice the share that the paper's threshold finds in GPT-2 small, and no larger one than of isotropic directions, {by_rule_isotropic:.1%}.",
        holds=2 * SHARE < by_rule <= by_rule_isotropic,
    ),
)

# %% [markdown]
r"""
The paper's $\theta$ takes nearly all neurons here: it is a number in the unit of another model. Its *share* can be taken on any model, and the line that does so has a $z$ that may be compared between models. This is the threshold of the first finding.

The isotropic directions answer whether tops of this size come for free with any long vector, the mixtures whether the threshold finds something about *neurons*. The post remarks that there is no general reason why what the heads construct should line up with the neurons {cite}`gibson2025contextual`. At $z > 2$ it does not show: as large a share of the isotropic directions passes as of the neurons, and somewhat fewer mixtures. Farther out neurons are alone. So being a neuron shows at the ends: the median neuron hears less than the median mixture, and a few neurons hear what no mixture reaches. The sum over all directions of a token's squared contributions is about the same for neurons and mixtures: mixing takes from the keen and gives to the deaf (Exercise 1).

One thing the measure leaves out. It asks how far a token *could* push, not how often it comes by, and a loud token may be a rare one. Weigh each token by its frequency $f_t$ in the collection instead,

$$
\text{heard}[j]^2 \;=\; \sum_t f_t \Bigl( \text{contribution}[j, t] - \sum_{t'} f_{t'}\, \text{contribution}[j, t'] \Bigr)^{\!2} ,
$$ (eq-neu-heard)

and hold both against how much the summary really moves, its standard deviation over the collection. (*Heard* has an advantage: its frequencies are those of the same texts. If tokens came independently, that standard deviation would be close to $\text{heard}[j]$ times the same factor for all neurons, $\sqrt{\sum_{i<n} \text{pos}_i^2}$.)
"""

# %%
squares = torch.cat([frequency @ part.square() for part in contribution.split(256, dim=1)])
heard = (squares - (frequency @ contribution).square()).sqrt()  # neuron

asked = torch.stack([t.tokens[: n + 1] for t in texts])  # text source
asked[:, n] = circuit.token
by_texts = torch.cat([circuit.summary(part) for part in asked.split(64)])  # text neuron
moves = by_texts.std(0)  # neuron

# %% tags=["nbval-check-output"]
values = by_texts.double().numpy()
values = values - values.mean(0)


def follows(measure):
    """How well it orders the neurons by their movement over texts, and its 95% interval."""

    def of_drawn(drawn):
        share = np.bincount(drawn, minlength=len(values)) / len(drawn)
        return stats.spearmanr(measure, share @ values**2 - (share @ values) ** 2).statistic

    return of_drawn(np.arange(len(values))), cx.claims.by_document(of_drawn, texts, 499)


(by_top, top_ends), (by_heard, heard_ends) = follows(tops), follows(heard)
print(
    f"median standard deviation: found {moves[chosen].quantile(0.5):.2f}, others {moves[others].quantile(0.5):.2f}"
)
many = moves.topk(len(chosen)).indices.tolist()
movers = len(set(many) & set(chosen))
cx.claims.finding(
    f"Heard orders the neurons by how much texts move them better than top does: a rank correlation of {by_heard:.2f} [{heard_ends[0]:.2f}, {heard_ends[1]:.2f}] against {by_top:.2f} [{top_ends[0]:.2f}, {top_ends[1]:.2f}], and of the {len(chosen)} that move most top finds {movers}.",
    holds=bool(heard_ends[0] > top_ends[1]),
)

# %% [markdown]
r"""
The difference is the price of reading the weights alone: frequencies are a property of texts. (Brackets hold 95% intervals: the documents are drawn again.) From here on the chapter stays with the paper's measure.

"""

# %% [markdown]
r"""
## How a label is judged

These rules were written down before any of their results was seen.

- A direction is a neuron's column of input weights, or a random **mixture** of all of them of a neuron's length: five draws of as many mixtures as there are neurons.
- A direction's **label** is the domain, of the 22 of the held-out texts, with the largest difference on half A. Its **AUC** is taken on half B.
- A neuron carries its label *beyond mixtures* if this AUC lies above the 95th percentile of the AUCs of all mixtures, pooled. One in twenty does so by chance. Beside it: the same against mixtures of the same label only.
- *They respond to high-level properties* holds (ledger, published bound of nine in ten) if nine in ten of the found neurons carry their labels beyond mixtures.
- A top token **agrees** with a label if on half B it makes up a larger share of the tokens of the label's texts than of all others. Chance: the labels dealt out again among the found neurons.
- The best single neuron of a domain by its activations is the one of largest AUC on half A of the model's own activation at the destination. It is *found* if its z exceeds 2.
"""

# %% [markdown]
r"""
## The gallery

What are the found neurons about? The top tokens suggest an answer; the labelled passages test it. For each neuron take its summary of every passage, and for every label (here a domain) $\ell$ the mean over its passages less the mean over all others,

$$
\text{difference}_j(\ell) \;=\; \operatorname*{mean}_{x \in \ell} \text{approx}_j(x) \;-\; \operatorname*{mean}_{x \notin \ell} \text{approx}_j(x) .
$$ (eq-neu-difference)

The neuron gets the label with the largest difference. That is a choice made *after looking*, so the interval around it must be wider than usual. With $N$ passages in $L$ domains, $N_\ell$ of them in the chosen one, and $\hat\sigma_j$ the standard deviation within domains,

$$
\text{difference}_j \;\pm\; q\, \hat\sigma_j\, \sqrt{\frac{1}{N_\ell} + \frac{1}{N - N_\ell}} ,
$$ (eq-neu-interval)

where $q$ is the $1 - 0.05/(2L)$ quantile of Student's distribution with $N - L$ degrees of freedom: 95% confidence, shared out among the $L$ labels that might have been chosen. It is not shared out among neurons. The second number needs no units. **AUC** is the chance that a passage of the label has a larger summary than a passage of another; 1 means that the two do not overlap. (The calibration text is one of the passages. It gave the circuit a few constants and is treated like the others.)
"""

# %%
read = torch.stack([p.tokens[: n + 1] for p in passages])  # text source
read[:, n] = circuit.token
said = circuit.summary(read)  # text neuron
truth = cx.true_contribution(weights, read, heads, n)  # text neuron
labelled = cx.label_neurons(said[:, chosen], domains, chosen)
true_labels = cx.label_neurons(truth[:, chosen], domains, chosen)
agree = float((labelled["label"] == true_labels["label"]).mean())

# %% tags=["hide-input"]
shown = chosen[:GALLERY]


def gallery(rows):
    """Rows of the gallery: tokens from the weights, labels from the passages."""
    same = labelled["label"] == true_labels["label"]
    return pd.DataFrame(
        {
            "top": [f"{v:.0f}" for v in found["top"][rows]],
            "top tokens": [show(tokens[:8]) for tokens in found["top tokens"][rows]],
            "bottom tokens": [show(tokens[:5]) for tokens in found["bottom tokens"][rows]],
            "label": labelled["label"][rows],
            "difference": [
                f"{row.difference:.1f} ({row.low:.1f} to {row.high:.1f})"
                for row in labelled.loc[rows].itertuples()
            ],
            "AUC": [f"{v:.2f}" for v in labelled["auc"][rows]],
            "by the truth": ["same" if same[j] else true_labels["label"][j] for j in rows],
        },
        index=pd.Index(rows, name="neuron"),
    )


FIRST_ROWS = 10
gallery(shown[:FIRST_ROWS])

# %% [markdown]
r"""
The rest of the gallery is folded away here:
"""

# %% tags=["hide-cell"]
gallery(shown[FIRST_ROWS:])

# %% tags=["nbval-check-output"]
dealt = sum(
    float((labelled["label"] == name).mean() * (true_labels["label"] == name).mean())
    for name in names
)
for name, table in (("summary", labelled), ("truth", true_labels)):
    print(f"{len(table)} found neurons, labelled by the {name}: interval above zero:", end=" ")
    print(f"{int((table['low'] > 0).sum())}; AUC of 1: {int((table['auc'] == 1).sum())};", end=" ")
    print(", ".join(f"{k}: {v}" for k, v in table["label"].value_counts().head(6).items()))
cx.claims.finding(
    f"Summary and truth give a neuron the same label in more than four cases of five, {agree:.0%}; labels dealt out at random would agree in {dealt:.0%}.",
    holds=agree > 0.8 > 2 * dealt,
)

# %% [markdown]
r"""
The last column of the table repeats the labelling on what the heads *really* add to the neuron, with true attention rows and each passage's own scale, the quantity that a summary approximates. A summary from the weights and one calibration text labels most neurons as the heads' true output would; how close the numbers come is for [chapter 8](08_evaluation).

Read a few rows from the tokens to the label. Infections and patients go with medicine, ingredients with cooking, planets with astronomy, modules and headers with code. Others do not fit: one neuron hears web services and gets a label with an AUC that hardly counts, and in the fold several lists are led by the loudest tokens of all, ` Climate` and `minist`, while the label is a foreign language: it comes from what stands further down the column. A picture of all domains at once shows more than the best one:
"""

# %% tags=["hide-input"]
means = cx.neurons.by_label(
    (said[:, shown] - said[:, shown].mean(0)) / said[:, shown].std(0), domains, shown
)
by_size = labelled.loc[shown, "label"].value_counts()
across = [*by_size.index, *[k for k in names if k not in by_size.index]]
down = sorted(shown, key=lambda j: (across.index(labelled["label"][j]), shown.index(j)))
grid = means.loc[down, across]
reach = float(np.quantile(grid.abs(), 0.99))
figure, ((axis,),) = cx.plots.panels(height=1.9 + 0.165 * len(down), width=7.2)
axis.imshow(grid, cmap="PuOr_r", vmin=-reach, vmax=reach, aspect="auto")
axis.set_xticks(range(len(across)), across, rotation=90)
axis.set_yticks(range(len(down)), down, fontsize=7.5)
axis.set(ylabel="neuron")
axis.grid(False)
figure.colorbar(
    axis.images[0], ax=axis, extend="both", label="standard deviations of the summary", shrink=0.7
)
cx.plots.picture(
    figure,
    "7.5",
    f"Mean summary of each domain, for the first {len(shown)} found neurons, in standard deviations "
    "over all passages from the neuron's mean; rows in the order of their labels.",
    f"A heat map of {len(down)} neurons by {len(across)} domains. Rows by label: "
    + ", ".join(f"{k} {v}" for k, v in by_size.items())
    + f". Cells run from {float(grid.values.min()):.1f} to {float(grid.values.max()):.1f}.",
)

# %% [markdown]
r"""
Orange is above the neuron's own mean, purple below. The labels are the steps of the staircase from the top left to the bottom right. Off the staircase is what a label hides: a row with two orange cells answers to two domains, and a row that is mostly orange with one purple cell says *not that* rather than anything else. The strong cells gather in the columns of other languages, scripture and code, domains with tokens that differ from everybody's; yet most rows have a subject of English text for their label.

## How far may a label be trusted?

Each row of the gallery has the best of many labels, and something is always best. Two controls say what the table would look like otherwise. The first shuffles the labels among the passages and labels the neurons again, 200 times:
"""

# %%
member = np.array([names.index(d) for d in domains])  # text
one = np.eye(len(names))[member]  # text label


def label_all(values, one):
    """Which neurons have an interval above zero, and which an AUC of 1, for any labels."""
    count = one.sum(0)[:, None]  # label 1
    means = one.T @ values / count  # label neuron
    differ = means - (values.sum(0) - count * means) / (len(values) - count)
    best, freedom = differ.argmax(0), len(values) - len(count)
    inside = np.sqrt(((values - one @ means) ** 2).sum(0) / freedom)
    q = stats.t.ppf(1 - 0.05 / (2 * len(count)), freedom)
    low = differ - q * inside * np.sqrt(1 / count + 1 / (len(values) - count))
    ranks = one.T @ stats.rankdata(values, axis=0)  # label neuron
    auc = (ranks - count * (count + 1) / 2) / (count * (len(values) - count))
    pick = np.arange(values.shape[1])
    return low[best, pick] > 0, auc[best, pick] == 1


of_found = said[:, chosen].double().numpy()  # text neuron
clear, perfect = label_all(of_found, one)
by_shuffle = np.array(
    [[v.sum() for v in label_all(of_found, rng.permutation(one))] for _ in range(200)]
)  # shuffle, interval or AUC

# %% tags=["nbval-check-output"]
print("same as cx.label_neurons:", np.array_equal(clear, labelled["low"] > 0))
for name, count, shuffled in (
    ("an interval above zero", clear.sum(), by_shuffle[:, 0]),
    ("an AUC of 1", perfect.sum(), by_shuffle[:, 1]),
):
    print(f"{name}: {count} of {len(chosen)};", end=" ")
    print(
        f"labels shuffled: {shuffled.mean():.1f} on average, {np.quantile(shuffled, 0.95):.0f} in the 95th of 100"
    )
by_luck = float(np.quantile(by_shuffle[:, 0], 0.95))
cx.claims.finding(
    f"Domains do differ in the found neurons: {int(clear.sum())} of {len(chosen)} have an interval above zero, and with shuffled labels {by_luck:.0f} in the 95th of 100 shuffles.",
    holds=bool(clear.sum() > 2 * by_luck),
)

# %% [markdown]
r"""
By design, an interval lies wholly above zero by accident in at most one neuron of forty (the other half of the twentieth lies below). The shuffled average is larger than that share, so the intervals are somewhat too narrow: they assume normal differences, and some passages, those in another language say, lie farther out than a normal law has it. Since neurons are not independent, single shuffles can lie far above their average, and the 95th of 100 is the number to beat. The real counts beat it by far: domains do differ in these neurons.

But do they differ in *these* neurons? The second control labels everything else: the neurons that were not found, and, of the random mixtures from above, as many as there are found neurons, those with the largest top again, in several independent draws.
"""

# %%
written = torch.stack([circuit.kernel @ ext[x] for x in read])  # text d_model
any_mixture = cx.label_neurons(written @ mixtures / circuit.scale, domains, everyone)
strangers = []
for directions, far in zip(drawn, tops_of_draws, strict=True):
    keen = far.topk(len(chosen)).indices
    values = written @ directions[:, keen] / circuit.scale  # text direction
    strangers.append(cx.label_neurons(values, domains, keen))


def variety(table):
    """The effective number of labels: one over the sum of their squared shares."""
    return float(1 / (table["label"].value_counts(normalize=True) ** 2).sum())


measures = {
    "interval above zero": (lambda t: float((t["low"] > 0).mean()), "{:.0%}"),
    "AUC of 1": (lambda t: float((t["auc"] == 1).mean()), "{:.0%}"),
    "difference, median": (lambda t: float(t["difference"].median()), "{:.2f}"),
    "effective labels": (variety, "{:.1f}"),
}
groups = {
    "found neurons": labelled,
    "the other neurons": cx.label_neurons(said[:, others], domains, others),
    "mixtures, all of draw 1": any_mixture,
} | {f"mixtures with the largest top, draw {k + 1}": t for k, t in enumerate(strangers)}

# %% tags=["nbval-check-output"]
same = torch.allclose(written @ W_in / circuit.scale, said, rtol=1e-3, atol=1e-3)
print("the same sum gives the neurons' summaries:", same)
pd.DataFrame(
    {"directions": [len(t) for t in groups.values()]}
    | {k: [form.format(take(t)) for t in groups.values()] for k, (take, form) in measures.items()},
    index=pd.Index(list(groups), name="kind"),
)

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.4)
kinds = {
    "found neurons": (labelled, tops[chosen], 0, "o", 5),
    "the other neurons": (groups["the other neurons"], tops[others], 7, ".", 3),
    "mixtures": (strangers[0], pushed["mixtures"][strangers[0].index.tolist()], 1, "^", 5),
}
for layer, (name, (table, at, colour, marker, size)) in enumerate(kinds.items()):
    colour = cx.plots.COLOURS[colour]
    left.plot(
        at.numpy(), table["difference"].to_numpy(), marker, ms=size, alpha=0.7, color=colour, label=name, zorder=(4, 2, 3)[layer]
    )  # fmt: skip
    count = table["label"].value_counts(normalize=True)
    right.plot(range(1, len(count) + 1), count.cumsum(), marker + "-", ms=size + 1, color=colour)
left.set(
    xlabel="top (unit of the pre-activation)", ylabel="difference (the same unit)", title="How loud"
)
right.set(
    xlabel="labels, the most common first",
    ylabel="share of the directions",
    title="How many things",
    ylim=(0, 1.05),
    xticks=range(1, len(names) + 1, 2),
)
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
cx.plots.picture(
    figure,
    "7.6",
    "Left: how far the mean of the best label lies above that of all other passages, against top. Right: the share of the directions that the most common labels account for, added up. Mixtures: those of the first draw with the largest top.",
    "A scatter plot and three rising curves. Median difference: "
    + ", ".join(f"{k} {v[0]['difference'].median():.2f}" for k, v in kinds.items())
    + ". The two most common labels hold "
    + ", ".join(
        f"{v[0]['label'].value_counts(normalize=True)[:2].sum():.0%} of {k}"
        for k, v in kinds.items()
    )
    + ".",
)

# %% [markdown]
r"""
The first column of shares is the sobering one: an interval above zero is no achievement. The heads write an average of the text into the stream; the domain is in that average, in many directions at once; and any direction that one cares to read has some domain in it that stands out. *Knowing the context* in this sense is nothing that picks out a neuron. Nor are neurons purer: an AUC of 1 is rarer among found neurons than among all mixtures.

So what is there in a neuron? The difference says how far the domain moves it, in the unit in which its nonlinearity decides. That goes with top, as the left panel shows: choosing by top chooses the directions that move far, among neurons as among mixtures. The last column asks how many *different* things a set of directions is about: the effective number of labels,
$1 / \sum_\ell p_\ell^2$ with $p_\ell$ the share of the directions that have label $\ell$, by the same formula as effective tokens. Here found neurons stand apart. Most loud mixtures say the same few things: a mixture is loud if it happens to lie along the strongest axes of what the heads write, and going by the labels those are the other languages and code. A neuron can be loud about something that is weak overall; presumably training has aimed it. That, and not that domains can be read off them, is what this table shows about neurons.

One more test. So far a label was chosen and scored on the same passages. Now choose it on half A of the held-out texts, with their own domains, and score it on half B, which shares no document with it:
"""


# %%
def aucs(values, inside):
    """The chance that a text inside has the larger value: `text direction` twice -> direction."""
    ranks, count = stats.rankdata(values, axis=0), inside.sum(0)
    return ((ranks * inside).sum(0) - count * (count + 1) / 2) / (count * (len(values) - count))


bag = torch.zeros(len(texts), len(ext)).scatter_add_(
    1, asked, circuit.kernel.expand(len(asked), -1)
)
stream = bag @ ext / circuit.scale  # text d_model
kinds = np.array([t.domain for t in texts])
A, B = (np.array([t.half == half for t in texts]) for half in "AB")
if not (A.any() and B.any()):  # texts of one's own have no halves
    A, B = np.arange(len(texts)) % 2 == 0, np.arange(len(texts)) % 2 == 1
directions = {"found neurons": W_in[:, chosen]} | {
    f"mixtures, draw {k + 1}": d[:, t.index.tolist()]
    for k, (d, t) in enumerate(zip(drawn, strangers, strict=True))
}
of_B = [texts[k] for k in np.flatnonzero(B)]
holds_out = {}
for name, d in directions.items():
    values = (stream @ d).numpy()
    try:
        label = cx.label_neurons(torch.from_numpy(values[A]), kinds[A], range(d.shape[1]))["label"]
    except ValueError:  # fewer than two domains
        break
    v, inside = values[B], kinds[B][:, None] == label.to_numpy()

    def median_auc(texts_drawn, v=v, inside=inside):
        return float(np.nanmedian(aucs(v[texts_drawn], inside[texts_drawn])))

    limits = cx.claims.by_document(median_auc, of_B, 99) if name == "found neurons" else ()
    holds_out[name] = median_auc(np.arange(len(v))), *limits

# %% tags=["hide-input", "nbval-check-output"]
OTHER_TONGUES = "french", "german", "spanish", "python"
spoken = [float(t["label"].isin(OTHER_TONGUES).mean()) for t in (labelled, *strangers)]
shares = [measures["interval above zero"][0](t) for t in groups.values()]
varied, varied_mixed = variety(labelled), max(variety(t) for t in strangers)
again, *again_mixed = holds_out.values() or [(float("nan"),) * 3]
display(
    cx.claims.finding(
        f"To answer to some domain is no distinction: {shares[0]:.0%} of the found neurons do, with an interval above zero, {shares[1]:.0%} of the others and {shares[2]:.0%} of random mixtures of neurons.",
        holds=min(shares[:3]) > 0.9,
    ),
    cx.claims.finding(
        f"Found neurons are about more different things: they have {varied:.1f} effective labels, and a draw of loud mixtures {varied_mixed:.1f} at most.",
        holds=bool(varied > varied_mixed),
    ),
    cx.claims.finding(
        f"Another language or code is the label of {spoken[0]:.0%} of the found neurons, and of {min(spoken[1:]):.0%} or more of the loud mixtures.",
        holds=bool(spoken[0] < min(spoken[1:]) / 2),
    ),
    cx.claims.finding(
        f"Labels hold on texts that had no part in them: chosen on half A, the label of a found neuron has a median AUC of {again[0]:.2f} [{again[1]:.2f}, {again[2]:.2f}] on half B, and that of a loud mixture no less.",
        holds=bool(again[1] > 0.8 and again_mixed and min(v[0] for v in again_mixed) >= again[0]),
        otherwise=f"the label of a found neuron has a median AUC of {again[0]:.2f} on half B.",
    ),
)

# %% [markdown]
r"""
## British or American?

The paper's showpiece is a neuron of GPT-2 small that tells Commonwealth from American English {cite}`gibson2025decomposing`; the post shows a British one, number 300, and names a second, 704 {cite}`gibson2025contextual`. Is there one here? The comparison between domains is of no use for that, because subjects differ more than dialects. So the book has several subjects written twice, once in each dialect, and a subject is compared with itself: for neuron $j$, $d_{j,k}$ is the value in the British passage on subject $k$ less that in the American one, and

$$
t_j \;=\; \frac{\bar d_j}{\operatorname{sd}_k(d_{j,k}) / \sqrt{m}}
$$ (eq-neu-paired)

follows Student's distribution with $m - 1$ degrees of freedom, $m$ the number of pairs, if the dialect makes no difference and the $d$ are normal. With many neurons, some $t_j$ will be large anyway. Holm's correction takes care of it: sort the $p$-values, multiply the smallest by the number of neurons, the next by one less, and so on, and stop at the first product above 0.05; the neurons before it are left.
"""

# %%
british = {p.subject: i for i, p in enumerate(passages) if p.domain == "british"}
american = {p.subject: i for i, p in enumerate(passages) if p.domain == "american"}
subjects = sorted(british.keys() & american.keys())
m = len(subjects)


def paired(values):
    """British less American, subject by subject: `subject neuron`."""
    return values[[british[s] for s in subjects]] - values[[american[s] for s in subjects]]


def t_of(d):
    """The paired t of every neuron, and its two-sided p."""
    t = d.mean(0) / (d.std(0) / m**0.5)
    return t, 2 * stats.t.sf(t.abs(), m - 1)


def holm(p):
    """Holm's corrected p-values."""
    order = np.argsort(p)
    corrected = np.maximum.accumulate(np.sort(p) * np.arange(len(p), 0, -1)).clip(max=1)
    return corrected[np.argsort(order)]


dialect = {}
for kind, values in (("summary", said), ("truth", truth)):
    for which, ids in (("found", chosen), ("all", everyone)):
        d = paired(values[:, ids])
        t, p = t_of(d)
        dialect[kind, which] = {"ids": ids, "d": d, "t": t, "p": p, "holm": holm(p)}

# %% tags=["nbval-check-output"]
pd.DataFrame(
    {
        "neurons": len(v["ids"]),
        "p < 0.05": int((v["p"] < 0.05).sum()),
        "by chance": f"{0.05 * len(v['ids']):.0f}",
        "smallest p": f"{v['p'].min():.2g}",
        "left after Holm": int((v["holm"] < 0.05).sum()),
    }
    | {"measured on": kind, "which": which}
    for (kind, which), v in dialect.items()
).set_index(["measured on", "which"])

# %% tags=["hide-input"]
needed = float(stats.t.isf(0.05 / (2 * len(chosen)), m - 1))  # |t| to pass among the found
usual = float(stats.t.isf(0.025, m - 1))
figure, (axes,) = cx.plots.panels(1, 2, height=3.2, sharey=True)
for axis, kind in zip(axes, ("summary", "truth"), strict=True):
    d = dialect[kind, "found"]["d"]
    mean, error = d.mean(0), d.std(0) / m**0.5
    order = mean.argsort()
    at = np.arange(len(order))
    out = (dialect[kind, "found"]["p"] < 0.05)[order]
    for mask, colour in ((~out, cx.plots.COLOURS[7]), (out, cx.plots.COLOURS[1])):
        axis.errorbar(
            at[mask], mean[order][mask], usual * error[order][mask], fmt=".", ms=4, lw=0.9, color=colour
        )  # fmt: skip
    axis.axhline(0, color=cx.plots.INK, lw=0.8)
    axis.set(title=f"On the {kind}", xlabel="found neurons, in order")
axes[0].set_ylabel("British less American")
cx.plots.picture(
    figure,
    "7.7",
    f"British less American passage, mean over {m} subjects, for every found neuron, with its own 95% interval "
    "(not corrected for the number of neurons; those that leave out zero are coloured). The unit is that of the pre-activation.",
    "Two rows of intervals, most of which hold zero. Outside zero: "
    + ", ".join(
        f"{int((dialect[kind, 'found']['p'] < 0.05).sum())} on the {kind}"
        for kind in ("summary", "truth")
    )
    + f", of {len(chosen)}; {0.05 * len(chosen):.0f} would be by chance.",
)

# %% [markdown]
r"""
About as many intervals are coloured as chance would colour. A few pairs leave little power: to survive the correction among the found neurons a $t$ must exceed a very large number (printed below), which only a neuron with a difference that hardly varies from subject to subject can reach. And neurons are not independent, so that many can cross 0.05 together, by one accident. A test that does not care about either asks about all of them at once. If the dialect made no difference, swapping
the two passages of a pair would change nothing; so compare the total $\sum_j \bar d_j^{\,2}$ with what it becomes under all ways of swapping. A whole set of swaps and its opposite give the same total, so with $m$ pairs the smallest possible $p$ is $2 / 2^m$.
"""

# %%
swaps = torch.tensor(list(product([1.0, -1.0], repeat=m)), dtype=said.dtype)  # way subject


def swap_test(d):
    """How many of all ways of swapping give a total as large as the real one: a share."""
    total = (swaps @ d / m).square().sum(1)  # way; the first is the real one
    return float((total >= total[0] * (1 - 1e-4)).float().mean())


SPELLINGS = """
colour color, favour favor, honour honor, labour labor, behaviour behavior, neighbour
neighbor, harbour harbor, flavour flavor, centre center, theatre theater, defence
defense, licence license, organisation organization, realise realize, recognised
recognized, travelled traveled, programme program, grey gray, towards toward, whilst
while, mum mom, aeroplane airplane, catalogue catalog, tyre tire
"""
spelt = [
    [weights.tokenizer.encode(f" {word}", add_special_tokens=False) for word in pair]
    for pair in map(str.split, SPELLINGS.split(","))
]
known = [pair for pair in spelt if all(len(ids) == 1 for ids in pair)]
if known:
    ours, theirs = torch.tensor(known)[..., 0].T
    spelling = (contribution[ours] - contribution[theirs]).mean(0)  # neuron

# %% tags=["nbval-check-output"]
print(f"|t| needed to survive Holm as the best of {len(chosen)}: {needed:.1f}; reached:", end=" ")
print(
    ", ".join(
        f"{kind} {float(dialect[kind, 'found']['t'].abs().max()):.1f}"
        for kind in ("summary", "truth")
    )
)
swapped = {key: swap_test(v["d"]) for key, v in dialect.items()}
for (kind, which), p in swapped.items():
    print(
        f"all ways of swapping, {kind}, {which} neurons: p = {p:.2f} (the smallest possible: {2 / 2**m:.2f})"
    )
pairs = ["/".join(cx.neurons.spelled(weights, [a[0], b[0]])) for a, b in known]
print("spelling pairs of one token each:", show(pairs) or "none")
by_spelling = {
    kind: stats.spearmanr(spelling, dialect[kind, "all"]["d"].mean(0)).statistic
    if known
    else float("nan")
    for kind in ("summary", "truth")
}
print(
    "rank correlation over neurons of the spelling contrast with the passages':",
    ", ".join(f"{k} {round(float(v), 1) + 0.0:.1f}" for k, v in by_spelling.items()),
)

# %% tags=["hide-input", "nbval-check-output"]
rows = []
for kind in ("summary", "truth"):
    v = dialect[kind, "found"]
    for k in np.argsort(v["p"])[:3]:
        j = v["ids"][k]
        high, _, low, _ = ends(circuit, j, 8)
        rows.append(
            {
                "measured on": kind,
                "neuron": j,
                "British less American": f"{float(v['d'].mean(0)[k]):+.2f}",
                "p": f"{v['p'][k]:.3f}",
                "after Holm": f"{v['holm'][k]:.2f}",
                "top tokens": show(high),
                "bottom tokens": show(low),
            }
        )
pd.DataFrame(rows).set_index(["measured on", "neuron"])

# %% tags=["hide-input", "nbval-check-output"]
at = int(np.argmin(dialect["summary", "found"]["p"]))
candidate = chosen[at]
corrected = {kind: float(dialect[kind, "found"]["holm"][at]) for kind in ("summary", "truth")}
leans = (
    float((spelling.abs() < spelling[candidate].abs()).float().mean()) if known else float("nan")
)
display(
    cx.claims.finding(
        f"No test by swapping finds dialect in what the heads write: the smallest of the four p is {min(swapped.values()):.2f}.",
        holds=min(swapped.values()) > 0.05,
    ),
    cx.claims.finding(
        f"Among the {len(chosen)} found, neuron {candidate} tells British from American on the summary, after Holm at p = {corrected['summary']:.2f}, and not on the truth, at {corrected['truth']:.2f}; its spelling contrast is larger than that of {leans:.0%} of all neurons.",
        holds=corrected["summary"] < 0.05 < corrected["truth"] and leans > 0.95,
    ),
)

# %% [markdown]
r"""
So these pairs do not show that dialect is in what the heads write: swapping the passages of a pair gives totals as large by chance. One neuron is left after Holm, on the summary and not on the truth, and only if the found neurons alone are counted. Its column leans to British spelling, but its top tokens are plants and constitutions. It is a candidate, and six pairs cannot make more of it. The spelling contrast is the mean contribution of the British member of each pair of spellings less the American one's; over all neurons it goes a little with what the passages show.

## Without ever having fired

The paper reports that the method finds some neurons that did not activate on the calibration text {cite}`gibson2025decomposing`. How can a text on which a neuron is silent tell what would make it speak? Let the model run on every passage and count at what share of all positions each neuron is on, its pre-activation above zero:
"""

# %%
hook = "blocks.0.mlp.hook_pre"
on = []
for part in torch.stack([p.tokens[:LENGTH] for p in passages]).split(8):
    _, cache = model.run_with_cache(part, names_filter=hook, stop_at_layer=1)
    on.append((cache[hook] > 0).float().mean(1).cpu())
on = torch.cat(on)  # text neuron
home = passages.index(calibrating)
on_home, elsewhere = on[home, chosen], on[:, chosen].max(0)  # found neuron
RARELY = 0.01
at_n = weights.pre_activations(
    cx.destination.resid_mid(
        weights, read[home], n, cx.destination.true_outputs(weights, read[home], n)
    )
)[chosen]  # found neuron, at the one place where the circuit was calibrated

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.3)
least = 0.5 / LENGTH
left.plot(on_home.clamp(min=least), elsewhere.values, "o", ms=4, alpha=0.7)
left.plot([least, 1], [least, 1], color=cx.plots.INK, lw=0.8, ls=":")
left.axvline(RARELY, color=cx.plots.COLOURS[1], lw=1, ls="--")
for rank, k in enumerate(on_home.argsort()[:3].tolist()):
    left.annotate(
        f"{chosen[k]}: {passages[int(elsewhere.indices[k])].name}", (float(on_home[k].clamp(min=least)), float(elsewhere.values[k])),
        xytext=(2, -14) if rank else (-6, -3), textcoords="offset points", fontsize=8, ha="right",
    )  # fmt: skip
left.set(
    xscale="log",
    yscale="log",
    ylim=(0.5 * max(least, float(elsewhere.values.min())), 1.3),
    xlim=(float(on_home.clamp(min=least).min()) / 25, 1.5),
    xlabel="share of positions on, calibration text",
    ylabel="share, passage where it is highest",
)
left.set_title("The found neurons")
silent = (
    pd.Series((on[:, chosen] == 0).sum(1).numpy(), index=domains)
    .groupby(level=0)
    .mean()
    .sort_values()
)
right.barh(range(len(silent)), silent, 0.7)
right.set_yticks(range(len(silent)), silent.index, fontsize=8)
right.set(xlabel="found neurons that are never on", title="By passage, mean of the domain")
cx.plots.picture(
    figure,
    "7.8",
    "Left: the share of positions at which a found neuron is on, in the calibration text and in the passage where it is on most; "
    "dashed, one position in a hundred; dotted, equality. Those silent throughout are drawn at half a position. Right: how many found neurons a passage never switches on.",
    f"A scatter plot and a bar chart. On the calibration text {int((on_home == 0).sum())} of {len(chosen)} found neurons are never on and "
    f"{int((on_home < RARELY).sum())} at less than {RARELY:.0%} of the positions. Never on, by domain: from {silent.index[0]} {silent.iloc[0]:.1f} to {silent.index[-1]} {silent.iloc[-1]:.1f}.",
)

# %% tags=["nbval-check-output"]
print(
    f"of {len(chosen)} found neurons, on the calibration text ({calibrating.name}, {LENGTH} positions):"
)
print(
    f"  never on: {int((on_home == 0).sum())}; on at less than {RARELY:.0%} of the positions: {int((on_home < RARELY).sum())}"
)
print(
    f"  off at n = {n}, the one destination at which the circuit was calibrated: {int((at_n <= 0).sum())}"
)
print(
    f"  on at least ten times as often in another passage: {int(((elsewhere.values >= 10 * on_home) & (elsewhere.values > 0)).sum())}"
)
print(
    f"share of positions on, median found neuron: {on_home.quantile(0.5):.0%}; median of all neurons: {on[home].quantile(0.5):.0%}"
)
hardly_on, off_at_n = int((on_home < RARELY).sum()), int((at_n <= 0).sum())
cx.claims.finding(
    f"Nearly all found neurons speak somewhere on the calibration text, though {off_at_n} of {len(found)} are off at the one destination that calibrated; on at less than {RARELY:.0%} of its positions: {hardly_on}.",
    holds=hardly_on < 0.05 * len(found) and off_at_n > len(found) / 2,
)

# %% [markdown]
r"""
Points far above the dotted line are neurons that come alive elsewhere. (The passage on the vertical axis is the best of all of them, so no point can lie below the line, and to lie a little above it means nothing.) To be *never* on is a harsh criterion in a text of some hundreds of positions: each position brings its own token, which can switch a neuron on for reasons that have nothing to do with context. The right panel shows how the number depends on the passage; it depends on how sparse a model's neurons are as well. The line about the destination is the one that fits the method. The circuit looked at
a single destination in the calibration text, and two thirds of the found neurons were off there. With neurons that are on at a quarter of the positions, to be off at a given one is the usual state.

That silent neurons can be found is no surprise once one asks what the calibration text was used for. Take the extended embedding apart, head by head:

$$
\begin{aligned}
\text{contribution}[j, t] \;&=\; \sum_{h \in H} \frac{1}{\text{denom}_h\, s}\; A_h[j, t] , \\
A_h[j, t] \;&=\; \text{content}_h(t)\; v_h(t)\, W_O^h\, W_\text{in}[:, j] ,
\end{aligned}
$$ (eq-neu-apart)

with $v_h(t)$ the value of token $t$ at the destination. The $A_h$ come from the weights, the destination and its token, and from no text. From the calibration text come $\lvert H \rvert$ denominators and one scale; a common factor multiplies all tops alike and leaves every $z_j$ where it was. What remains are $\lvert H \rvert - 1$ ratios of denominators, and *no number for any neuron or any token*. (Which heads are stable was learnt from many texts, in [chapter 4](04_denominators); that too is a matter of heads, not of neurons.) With a single head the text has no say in the ranking at all. How much do the ratios matter? Calibrate on the first passage of each domain:
"""

# %% tags=["nbval-check-output"]
rows = {}
for name in names:
    text = next(p for p in passages if p.domain == name)
    other = cx.ContextualCircuit.calibrate(weights, text, heads, n, TOKEN)
    there = tops_of(other)
    passed = set(there.topk(len(chosen)).indices.tolist())
    ratio = (other.denominators / circuit.denominators).log()
    rows[name] = {
        "largest change of a ratio": f"{float((ratio.max() - ratio.min()).exp()):.1f} times",
        "median top": f"{float(there.quantile(0.5)):.1f}",
        "rank correlation of top": f"{float(stats.spearmanr(tops, there).statistic):.2f}",
        f"of the {len(chosen)} found, again among the largest": len(passed & set(chosen)),
    }
by_calibration = pd.DataFrame(rows).T.rename_axis("calibrated on")
by_calibration = by_calibration.sort_values("rank correlation of top", kind="stable")
by_calibration

# %% tags=["hide-input", "nbval-check-output"]
steady = float(by_calibration["rank correlation of top"].iloc[0])
cx.claims.finding(
    f"The order of the neurons hardly hangs on the calibration text: the rank correlation of top is above 0.9 from every domain, {steady:.2f} from the worst.",
    holds=steady > 0.9,
)

# %% [markdown]
r"""
The second column shows how freely the unit moves with the calibration text, once more a reason not to carry a $\theta$ around. The last two columns hardly move: the finding is insensitive to the text, even to texts that the found neurons have nothing to do with, and that is why silence on the text is no obstacle. The first row is the domain with the denominators most out of proportion to one another.

## When a neuron is two things

Some rows of the heat map have more than one orange cell. The post asks whether a column of contributions can be taken apart into the things that the neuron reacts to {cite}`gibson2025contextual`. The column alone cannot tell, for it does not say which tokens belong together. Texts can: such tokens occur together. For a neuron $j$, collect what each token $t$ brings to it in each text $x$,

$$
\begin{aligned}
M_{x,t} \;&=\; \sum_{i < n:\; x_i = t} \text{pos}_i\, \max\bigl(\text{contribution}[j, t],\, 0\bigr) \\
&\approx\; \sum_{k=1}^{\text{parts}} F_{x,k}\, G_{k,t} , \qquad F, G \ge 0 ,
\end{aligned}
$$ (eq-neu-parts)

and factorise it with non-negative $F$ and $G$ (untrained tokens are left out). A part $k$ is a list of tokens, $G_{k,\cdot}$, that push in the same texts, and $F_{\cdot,k}$ says how much of it a text has. Nothing is subtracted from anything, so that a part means what it lists.

Which neuron? By a rule: for each found neuron take the best label and the best among the passages that do not have it; let $p_a(t)$ and $p_b(t)$ be the shares of the tokens in what pushes it in the two domains, and $\sum_t \min(p_a(t), p_b(t))$ their overlap. The score of the neuron is the smaller of the two differences, times one minus the overlap; it is zero where the interval of the second label is not above zero. The neuron with the largest score is as much two things as any.
"""


# %%
def drive_of(neuron, texts):
    """What each token brings to a neuron in each text: `text vocab`."""
    pull = contribution[:, neuron].clamp(min=0) * counted
    x = torch.stack([t.tokens[:n] for t in texts])
    return torch.zeros(len(x), len(pull)).scatter_add_(1, x, circuit.kernel[:-1] * pull[x])


def twofold(neuron):
    """The two labels of a neuron, and how much it is both: the smaller difference, unlike tokens."""
    first = labelled.loc[neuron]
    rest = domains != first["label"]
    second = cx.label_neurons(said[rest][:, [neuron]], domains[rest], [neuron]).iloc[0]
    a, b = (
        drive_of(neuron, [p for p in passages if p.domain == label]).sum(0)
        for label in (first["label"], second["label"])
    )
    overlap = float(torch.minimum(a / a.sum(), b / b.sum()).sum())
    smaller = min(first["difference"], second["difference"]) if second["low"] > 0 else 0.0
    return first["label"], second["label"], overlap, smaller * (1 - overlap)


both = pd.DataFrame(
    [twofold(j) for j in chosen], index=chosen, columns=["first", "second", "overlap", "score"]
)
double = int(both["score"].idxmax())

# %%
# a search for parts that does not settle ends elsewhere with another seed, which is looked at below
warnings.simplefilter("ignore", ConvergenceWarning)
ATMOST = 5
sample = drive_of(double, [*texts[:400], *passages])  # text vocab
pushing = sample.sum(0).topk(min(800, int(sample.any(0).sum()))).indices
M = sample[:, pushing].double().numpy()  # text token
M_shuffled = np.stack([rng.permutation(column) for column in M.T], axis=1)


def explained(matrix, parts):
    """The share of the sum of squares that this many parts account for."""
    fit = NMF(parts, init="nndsvda", random_state=0, max_iter=300, tol=1e-3).fit(matrix)
    return 1 - fit.reconstruction_err_**2 / (matrix**2).sum()


numbers = range(1, min(ATMOST, *M.shape) + 1)
with_parts = np.array([[explained(v, k) for k in numbers] for v in (M, M_shuffled)])  # kind parts
gain, gain_shuffled = np.diff(with_parts, axis=1, prepend=0)

# %%
FIRST = 30  # how many tokens stand for a part


def factorised(texts, parts, seed=0):
    """The parts, those that push most first: what each adds up to, its first tokens, and how much
    it pushes in each text, `text part`."""
    matrix = drive_of(double, texts)
    used = matrix.any(0).nonzero()[:, 0]
    model = NMF(parts, init="nndsvda", random_state=seed, max_iter=1000, tol=1e-5)
    F = model.fit_transform(matrix[:, used].double().numpy())  # text part
    G = model.components_  # part token
    order = (F.sum(0) * G.sum(1)).argsort()[::-1]
    F, G = F[:, order], G[order]
    first = [cx.neurons.spelled(weights, used[t].tolist()) for t in (-G).argsort(1)[:, :FIRST]]
    return F.sum(0) * G.sum(1), first, F * G.sum(1)


def found_again(parts):
    """How many of its first tokens each part of one half of the texts shares with the part of the
    other half that is closest to it."""
    one, other = (factorised(texts[half::2], parts)[1] for half in (0, 1))
    return [max(len(set(a) & set(b)) for b in other) for a in one]


again_in = {k: found_again(k) for k in (2, 3, 4) if k <= len(numbers)}
parts = max([k for k, counts in again_in.items() if min(counts) >= FIRST / 2], default=2)
weight, first_tokens, by_text = factorised([*texts, *passages], parts)
by_passage = by_text[len(texts) :]  # passage part
reseeded = factorised([*texts, *passages], parts, seed=1)[2]
alike = [np.corrcoef(by_text[:, k], reseeded[:, k])[0, 1] for k in range(parts)]

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.3, width=8.4)
left.plot(numbers, with_parts[0], "o-", label="the matrix")
left.plot(numbers, with_parts[1], "s--", label="shuffled")
left.set(
    xlabel="parts", ylabel="share of the squares explained", xticks=list(numbers), ylim=(0, None)
)
left.legend(fontsize=8)
of_domain = pd.DataFrame(by_passage, index=domains).groupby(level=0).mean()
of_domain = of_domain.loc[of_domain.sum(axis=1).sort_values().index]
start = np.zeros(len(of_domain))
for part in of_domain:
    right.barh(
        range(len(of_domain)),
        of_domain[part],
        0.7,
        left=start,
        label=f"part {part}",
        color=cx.plots.COLOURS[part],
    )
    start += of_domain[part].to_numpy()
right.set_yticks(range(len(of_domain)), of_domain.index, fontsize=8)
right.set(xlabel="drive (unit of the pre-activation)", title=f"neuron {double}")
right.legend(fontsize=8, loc="lower right")
cx.plots.picture(
    figure,
    "7.9",
    f"Neuron {double} taken apart. Left: what several parts explain, of the matrix (for some of the texts, the passages, and the tokens that push most) and of the same with its columns shuffled over texts. "
    "Right: how much each part pushes it, mean over the passages of a domain.",
    f"Left: two rising curves; with {parts} parts {with_parts[0][parts - 1]:.2f}, shuffled {with_parts[1][parts - 1]:.2f}. Right: stacked bars; "
    + "; ".join(
        f"part {k} most in {of_domain[k].idxmax()} ({of_domain[k].max():.2f})" for k in of_domain
    )
    + ".",
)

# %% tags=["nbval-check-output"]
print(f"neuron {double}: {both['first'][double]} and {both['second'][double]};", end=" ")
print(f"overlap of their tokens {both['overlap'][double]:.1f}")
print(f"with another seed the drives of the {parts} parts correlate by {min(alike):.1f} or more")
fewest = min(again_in.get(2, [0]))
cx.claims.finding(
    f"Taken apart in two, this neuron does not come out the same from the other half of the texts: the parts share {' and '.join(map(str, again_in.get(2, [])))} of their first {FIRST} tokens.",
    holds=fewest < FIRST / 2,
    otherwise=f"each part shares {fewest} or more of its first {FIRST} tokens with a part of the other half.",
)

# %% tags=["hide-input"]
pd.DataFrame(
    {
        "what the last part adds, over the shuffled matrix": [
            f"{gain[k - 1] / gain_shuffled[k - 1]:.1f} times" for k in again_in
        ],
        f"tokens of each part found again in the other half, of {FIRST}": [
            ", ".join(map(str, counts)) for counts in again_in.values()
        ],
    },
    index=pd.Index(again_in, name="parts"),
)

# %% tags=["hide-input"]
pd.DataFrame(
    {
        "share of the drive": [f"{v:.0%}" for v in weight / weight.sum()],
        "tokens": [show(tokens[:10]) for tokens in first_tokens],
        "most in": [
            ", ".join(
                f"{name} {v:.2f}"
                for name, v in of_domain[k].sort_values(ascending=False).head(3).items()
            )
            for k in range(parts)
        ],
    },
    index=pd.Index(range(parts), name="part"),
)

# %% [markdown]
r"""
The number of parts is a choice, and two measurements inform it. Any matrix is explained better by more parts. Shuffling each column over the texts keeps how often a token pushes and destroys with whom, so a part is worth having only if it adds clearly more to the upper curve than to the lower. (Neither need come near one: which particular words a text uses is not a matter of parts.) The second is whether the same parts come out of other texts. The start of the factorisation is computed from the matrix,
so another seed is an easy test; another half of the texts is the hard one. Of two, three and four parts none passes here, so two are shown and are not to be trusted: what would pass is a number of parts of which each shares at least half of its first tokens with a part of the other half. The gain over the shuffled matrix is small as well.

The token lists differ from the top tokens of the gallery, for they are weighed by occurrence: what drives the neuron in fact, function words included. The larger part is the signs of equations and code, the smaller one the words of physics, which fits the two labels; but one part carries nearly all of the drive. So whether a column of `mini` can be taken apart into sub-topics stays open: the neuron that is as much two things as any does not come apart twice in the same way.

## One head less

A head is stable if its denominator varies by less than `STEADY` of its mean. Suppose one is stricter, and leaves out the stable head with the denominator that varies most:
"""

# %%
restless = max(heads, key=lambda h: study.roster["relative spread"][h])
fewer = [h for h in heads if h != restless] or heads
circuit_less = (
    cx.ContextualCircuit.calibrate(
        weights, cx.denominators.middle_text(weights, prose, fewer, n, TOKEN), fewer, n, TOKEN
    )
    if len(fewer) < len(heads)
    else circuit
)
tops_less = tops_of(circuit_less)
kept = set(tops_less.topk(len(chosen)).indices.tolist()) & set(chosen)
labelled_less = cx.label_neurons(circuit_less.summary(read)[:, chosen], domains, chosen)


def largest_of(circuit):  # K neuron, the ids of the largest contributions of tokens that count
    parts = circuit.contribution.split(256, dim=1)
    kept = [p.masked_fill(~counted[:, None], -torch.inf).topk(K, dim=0).indices for p in parts]
    return torch.cat(kept, dim=1)


# %% tags=["nbval-check-output"]
often, often_less = (occurs[largest_of(c)].float().mean() for c in (circuit, circuit_less))
print(f"heads {sorted(heads)}; without the least steady one: {fewer}")
print(f"median top {tops.quantile(0.5):.1f} with it, {tops_less.quantile(0.5):.1f} without")
print(f"rank correlation of the two tops: {stats.spearmanr(tops, tops_less).statistic:.2f}")
print(
    f"found neurons with the same label: {(labelled_less['label'] == labelled['label']).mean():.0%}; with an AUC of 1: {(labelled_less['auc'] == 1).mean():.0%}"
)
display(
    cx.claims.finding(
        f"One head decides which neurons this book's rule finds: without head {restless}, the least steady of the stable ones, {len(kept)} of its {len(chosen)} are found again.",
        holds=len(kept) < len(chosen) / 2,
    ),
    cx.claims.finding(
        f"It prefers rare tokens: those among the {K} largest of a column occur {often:.0f} times on average with this head, and {often_less:.0f} times without it.",
        holds=bool(often_less > 1.2 * often),
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
first = chosen[:10]
z_less = robust_z(tops_less)
pd.DataFrame(
    {
        "z with it": [f"{z[j]:.1f}" for j in first],
        "without": [f"{z_less[j]:.1f}" for j in first],
        "top tokens with it": [show(ends(circuit, j, 8)[0]) for j in first],
        "top tokens without": [show(ends(circuit_less, j, 8)[0]) for j in first],
    },
    index=pd.Index(first, name="neuron"),
)

# %% [markdown]
r"""
The head is restless because its content differs most from token to token ([chapter 4](04_denominators)). It gives a few rare tokens very large contributions, and they take the far ends of most columns. So there is a conflict: what makes a column readable is just what makes a denominator restless, and a summary treats that denominator as a constant. [Chapter 8](08_evaluation) measures what the head costs.

## Turn it

Choose heads, a destination token and a threshold, and the list ranks every neuron again. Choose a neuron to see its tokens, its whole column, the domains it answers to and the passage that moves it most. Or begin with a token, typed or pressed, and see which neurons it drives. The page computes all of this by itself; the [explorer](explorer) has a page of its own, whose address keeps what you chose.
"""

# %% tags=["hide-input"]
SETS = {"stable heads": (circuit, tops)} | (
    {f"without head {restless}": (circuit_less, tops_less)} if len(fewer) < len(heads) else {}
)


def draw(heads, z, rank, number="7.11"):
    circuit, tops = SETS[heads]
    score = robust_z(tops)
    ranked = tops.argsort(descending=True)
    passed = ranked[score[ranked] > z].tolist() or ranked[:1].tolist()
    neuron = passed[min(rank, len(passed)) - 1]
    by_domain = (
        cx.neurons.by_label(circuit.summary(read)[:, [neuron]], domains, [neuron])
        .iloc[0]
        .sort_values()
    )
    figure, ((left, right),) = cx.plots.panels(
        1, 2, height=3.6, width=9.0, gridspec_kw={"width_ratios": (3, 1)}
    )
    draw_column(left, circuit, neuron, 12)
    right.barh(range(len(by_domain)), by_domain - by_domain.mean(), 0.7)
    right.set_yticks(range(len(by_domain)), by_domain.index, fontsize=8)
    right.set(
        xlabel="summary, less the mean", title=f"rank {passed.index(neuron) + 1} of {len(passed)}"
    )
    said = f"{int((score > z).sum())} neurons pass z > {z:g}; neuron {neuron} has top {tops[neuron]:.1f} (z = {score[neuron]:.1f})"
    return cx.plots.picture(
        figure,
        number,
        f"{heads.capitalize()}: {said}. Left: its column. Right: its mean summary by domain.",
        f"{heads}: {said}. Highest in {by_domain.index[-1]}, lowest in {by_domain.index[0]}.",
    )


cx.widgets.NeuronExplorer(
    weights,
    picture=draw("stable heads", cx.neurons.STANDS_OUT, min(2, len(chosen)), "7.10"),
    heads=list(heads),
    threshold=THETA or 0,
    neuron=chosen[min(2, len(chosen)) - 1],
)

# %% [markdown]
r"""
For notebooks that allow no custom modules, the same choice with plain controls (heads, a threshold in robust deviations, a neuron by its rank among those that pass) is folded away here:
"""

# %% tags=["hide-cell"]
cx.widgets.Turnable(
    draw,
    heads=cx.widgets.choice("heads", list(SETS), "stable heads"),
    z=cx.widgets.slider("threshold z", 0.5, 5.0, cx.neurons.STANDS_OUT, 0.5),
    rank=cx.widgets.slider("rank", 1, GALLERY, min(2, len(chosen))),
)

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. The paper and the post say these things of GPT-2 small, most of them in words; the conditions are this book's reading of them. *About 100* is met within a factor of 1.5.
"""

# %% tags=["hide-input", "nbval-check-output"]
NAMED = 1917, 1918, 1942, 1943, 1944, "Sherman"  # tokens that the post names for neuron 1621
coded = [weights.tokenizer.encode(f" {word}", add_special_tokens=False) for word in NAMED]
single = [ids[0] for ids in coded if len(ids) == 1]


def favours(neuron, inside, outside):
    """Chance that the heads add more to a neuron on a passage of the one kind than of the other."""
    return float((truth[inside, neuron][:, None] > truth[outside, neuron]).float().mean())


cx.claims.ledger(
    model,
    cx.claims.Claim(
        "neurons_at_theta",
        f"share of neurons with top > {PAPER:g}",
        float((tops > PAPER).float().mean()),
        digits=3,
    ),
    cx.claims.Claim(
        "respond_to_properties",
        "found neurons with a label whose interval is above zero, share",
        float((labelled["low"] > 0).mean()),
    ),
    cx.claims.Claim(
        "commonwealth_neuron",
        "found neurons that tell British from American, after Holm (truth)",
        float((dialect["truth", "found"]["holm"] < 0.05).sum()),
        digits=0,
    ),
    cx.claims.Claim(
        "silent_on_calibration",
        "found neurons that are never on in the calibration text",
        float((on_home == 0).sum()),
        digits=0,
    ),
    *(
        [
            cx.claims.Claim(
                "neuron_300",
                "neuron 300: AUC of British passages over American ones (truth)",
                favours(300, domains == "british", domains == "american"),
            ),
            cx.claims.Claim(
                "neuron_704",
                "neuron 704: the same",
                favours(704, domains == "british", domains == "american"),
            ),
            cx.claims.Claim(
                "opposite",
                "neurons 300 and 704: cosine of what they write",
                float(
                    torch.cosine_similarity(
                        *model.blocks[0].mlp.W_out[[300, 704]].detach().cpu(), dim=0
                    )
                ),
            ),
            cx.claims.Claim(
                "neuron_1621",
                "neuron 1621: AUC of passages on war over others (truth)",
                favours(1621, domains == "war", domains != "war"),
            ),
            cx.claims.Claim(
                "war_tokens",
                "neuron 1621: share of the vocabulary above the tokens named, middle one of these",
                float(
                    (contribution[:, [1621]] > contribution[single, 1621]).float().mean(0).median()
                ),
                digits=4,
            ),
            cx.claims.Claim(
                "neuron_1710",
                "neuron 1710: AUC of passages of scripture over others (truth)",
                favours(1710, domains == "scripture", domains != "scripture"),
            ),
        ]
        if weights.n_neurons == 3072  # the sources name neurons of GPT-2 small
        else []
    ),
)

# %% [markdown]
r"""
The second line would hold for random mixtures as well, and for neurons that were not found: it is no evidence. The third and fourth speak of this model and of a few passages, and of no other model.

## Exercises

1. Show that shuffling a column over the tokens leaves $\text{top}[j]$ as it is. Then mix the neurons by an orthogonal matrix $R$, $W_\text{in} \to W_\text{in} R$: which sum over neurons stays the same for every token? What does that say about the left end of Figure 7.4?
2. Two classes of text draw their tokens independently, with probabilities $p(t)$ and $q(t)$. Show that the log odds of the first class, given a text, are a constant plus a sum over its tokens, and write down the column of a neuron that computes them. Which tokens are on top, and why are they rare?
3. With two heads, show that $z_j$ depends on the calibration text through one number only, and that it does not depend on $s$. Over what range does that number matter?
4. A sign test asks only in how many of $m$ pairs the British passage has the larger value. What is its smallest two-sided $p$? How many pairs are needed for it to survive Bonferroni's correction over 100 neurons, and over 3072?

```{admonition} Solutions
:class: dropdown

1. Mean and $K$ largest entries depend on the set of values only. With $c_t$ the row of contributions of token $t$, mixing gives $c_t R$, and $\lvert c_t R \rvert = \lvert c_t \rvert$: the sum over neurons of the squared contribution stays the same. So mixing cannot create sensitivity, only share it out. If the neurons' curve lies below that of the mixtures on the left, some neurons are deaf, and others must then hear more than their share.
2. By Bayes' rule the odds are multiplied by $p(x_i)/q(x_i)$ for every token, so the log odds are $\log\text{(prior odds)} + \sum_i \log (p(x_i)/q(x_i))$: an even kernel over $n$ tokens and $\text{contribution}[t] = n \log(p(t)/q(t))$. On top are tokens of the first class that hardly ever occur in the second, whatever their frequency. A common token is common in both, because most of a text is grammar; the largest ratios belong to tokens that
   are rare overall.
3. $\text{top}$ is positively homogeneous of degree one in the contributions, $z$ of degree zero. By {eq}`eq-neu-apart` contributions are $\bigl(A_1[j,t] + \rho\, A_2[j,t]\bigr) / (\text{denom}_1\, s)$ with $\rho = \text{denom}_1 / \text{denom}_2$, and the factor in front drops out of $z_j$. As $\rho \to 0$ or $\rho \to \infty$ only one head is left; it matters in between, where the two terms are of the same size for the tokens on top.
4. All $m$ signs alike has probability $2^{-m}$ on either side, so the smallest $p$ is $2^{1-m}$. It is at most $0.05/100$ for $m \ge 12$ and at most $0.05/3072$ for $m \ge 17$. Six pairs have no chance; the $t$ test above can do it with six only because it believes in normal differences.
```

## Where this comes from

Ranking neurons by their largest contributions, the threshold, the care about glitch tokens, the dialect neuron and the neurons that were silent on the calibration text are from {cite:t}`gibson2025decomposing`. Reading a column as the weights of a naive Bayes classifier, the remark about directions and neurons, and the wish for a way to take a column apart are from the earlier post {cite}`gibson2025contextual`. The weights-only
rule for untrained tokens, loudness, the random directions, the intervals and the paired test are this book's.
"""
