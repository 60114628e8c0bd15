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

**Nearly all do, and so do random mixtures of neurons: a label chosen on half of the texts holds on the others.**
Few sort texts better than nearly all mixtures with their label do: 33% of the neurons that single tokens can push far and that texts do move far, and about a tenth, 9 of 84, of those with one of the two; whether being easy to push adds anything is not decided.
Mixtures that texts move about as far stand out no more often than chance gives.
Which neurons can be pushed far hangs on one head, the least steady and the loudest: without it most are not found again.
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
THETA = None  # a neuron's largest contributions must exceed this; None: two robust deviations
DRAWS = 5  # how many times as many random mixtures are drawn as there are neurons
GALLERY = 6  # how many neurons are shown
SETS = 1000  # random sets of as many neurons, any and of like length of their input weights

# %% tags=["hide-input", "nbval-check-output"]
import base64
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import torch
from scipy import stats
from transformers.activations import ACT2FN

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS, MAX_CV, PROSE)
texts = study.texts
n, heads, calibration_text, circuit = study.n, study.heads, study.calibration_text, study.circuit
x = study.fixed.prepare(texts)  # text source
kinds = np.array([text.domain for text in texts])
A, B = cb.half_masks(texts)
of_B = [text for text, inside in zip(texts, B, strict=True) if inside]
print(f"{study}; {weights.n_neurons} neurons\ncalibrated on {calibration_text.name}")

# %% [markdown]
r"""
## A column for every neuron

[Chapter 5](05_circuit) shaded a real text for one neuron, picked because the text moves it far. Here is all that it can hear from the stable heads: what each token of the vocabulary adds to it. A token $t$ brings its extended embedding $\text{ext}(t)$, times the weight of its position; a neuron $j$ reads it with its input weights, over the LayerNorm scale $s$:

$$
\begin{aligned}
\text{contribution}[t, j] \;&=\; \frac{\text{ext}(t) \cdot W_\text{in}[:, j]}{s}, \\
\text{approx}_j(x) \;&=\; \sum_{i \le n} \text{pos}_i\; \text{contribution}[x_i, j] .
\end{aligned}
$$ (eq-neu-contribution)

$\text{approx}_j(x)$ is the **summary** of the text $x$. The kernel sums to one, so it is an average of contributions. One of them for each token of the vocabulary: a **column**.
"""

# %%
ext = circuit.extended_embedding()  # vocab d_model
W_in, _ = weights.mlp_input()  # d_model neuron
contribution = ext @ W_in / circuit.scale  # vocab neuron

counted = ~study.fixed.decomposition.untrained  # vocab; without the glitch tokens
K = cx.neurons.LARGEST


def top_of(columns, count=K):
    """Mean of the K largest entries less the mean: `token direction -> direction`."""
    return columns.topk(count, dim=0).values.mean(0) - columns.mean(0)


tops = top_of(contribution[counted])  # neuron

# %% tags=["hide-input"]
hundred = tops.topk(min(100, len(tops))).indices  # as in chapter 5
before = circuit.summary(x[A])[:, hundred]
passage = circuit.summary(study.fixed.prepare([study.example])[0])[hundred]
example = int(hundred[((passage - before.mean(0)) / before.std(0)).argmax()])


def show(ids):
    """Tokens in a row; ␣ is a space, ↵ a new line."""
    return list(map(cb.figures.visible, cx.texts.decode_tokens(weights, ids.tolist())))


def draw(neuron, number, count=10):
    """A neuron's column as a histogram, and its outermost tokens by name."""
    column = contribution[:, neuron].masked_fill(~counted, float(contribution[:, neuron].mean()))
    order = column.argsort(descending=True)
    outer = torch.cat([order[:count], order[-count // 2 :]]).flip(0)
    figure, ((left, right),) = cb.figures.panels(1, 2, height=3.1, width=8.6)
    left.hist(column[counted], bins=80)
    left.set(yscale="log", xlabel="contribution", ylabel="tokens", title=f"neuron {neuron}")
    right.barh(range(len(outer)), column[outer])
    right.set_yticks(range(len(outer)), show(outer), fontsize=8, parse_math=False)
    right.set(xlabel="contribution", title="its highest and lowest tokens")
    highest, lowest = show(order[:4]), show(order[-1:])[0]
    return cb.figures.picture(
        figure,
        number,
        f"What a text of this token alone would add to neuron {neuron}; one occurrence adds pos times this. Logarithmic counts; ␣ is a space.",
        f"A histogram of {int(counted.sum())} contributions from {column.min():.1f} ({lowest}) to {column.max():.1f} ({highest[0]}), and bars of the outermost: {', '.join(highest)}.",
    )


draw(example, "6.1")

# %% [markdown]
r"""
Nearly all tokens lie near zero. Some names on the right are of the sky; those on the left are not.

## How far can a token push?

The paper ranks neurons by their right ends {cite}`gibson2025decomposing`. This book takes the mean of the $K$ largest contributions, less the mean of all $V$ tokens that count (`top_of` above; $K = 20$):

$$
\text{top}[j] \;=\; \frac1K \sum_{t\, \in\, \text{largest } K} \text{contribution}[t, j] \;-\; \frac1V \sum_{t} \text{contribution}[t, j] .
$$ (eq-neu-top)

A top is in a unit of this model's own, so the paper's threshold of 5 means nothing here. What carries over is a place among the neurons, by how far they lie from their median $\tilde{\text{top}}$:

$$
z_j \;=\; \frac{\text{top}[j] - \tilde{\text{top}}}{1.4826\, \operatorname{median}_k \bigl\lvert \text{top}[k] - \tilde{\text{top}} \bigr\rvert} .
$$ (eq-neu-z)

Neurons with $z_j > 2$ are called **found**, by weights: texts only choose the stable heads (on `mini` all are); one page fixes the denominators and the scale $s$, which cancels in $z$.

Tokens that training never showed do not count. `ctxlib.weights.untrained_tokens` finds them by weights; on `mini` none reaches a far end.
"""

# %%
try:  # of a copy of the circuit: the table of all contributions that it makes is let go again
    found = cx.find_neurons(replace(circuit), THETA)
except cx.neurons.NoNeuron:  # the largest 3%
    found = cx.find_neurons(replace(circuit), float(tops.quantile(0.97)))
chosen = found.index.tolist()
others = [j for j in range(weights.n_neurons) if j not in set(chosen)]

# %% [markdown]
r"""
How many would one find where there is nothing to find? What the heads say need not line up with single neurons, as the post remarks {cite}`gibson2025contextual`; if it does not, a random axis serves as well. So the null is a random **mixture**: a combination of all neurons' input weights with random factors, as long as a neuron's. It looks at what the neurons look at, along an axis that training never chose.
"""

# %%
chance = np.random.default_rng(0)
lengths = W_in.norm(dim=0)  # neuron
draws = [cb.nulls.mixtures(W_in, chance) for _ in range(DRAWS)]  # d_model direction
tops_of_draws = [top_of(ext[counted] @ mixed / circuit.scale) for mixed in draws]

# %% tags=["hide-input"]
PAPER, SHARE = 5.0, 100 / 3072  # the paper's threshold, and the share of neurons that it took
far = float(tops.quantile(1 - SHARE))  # the threshold that takes the same share here
theta = float(found.attrs["threshold"])
figure, ((axis,),) = cb.figures.panels(height=3.0, width=6.4)
for k, values in enumerate([*tops_of_draws, tops]):
    mark = {"color": cb.figures.COLORS[0], "lw": 2.2, "label": "neurons"}
    if k < DRAWS:
        mark = {"color": cb.figures.COLORS[1], "lw": 1, "label": "" if k else "mixtures, each draw"}
    axis.step(values.sort().values, 1 - np.arange(len(values)) / len(values), **mark)
for fixed, name, dash in (
    (theta, f"top at z = 2 ({theta:.1f})", "-"),
    (far, "the paper's share", ":"),
):
    axis.axvline(fixed, color=cb.figures.COLORS[2], lw=1.2, ls=dash, label=name)
axis.set(yscale="log", xlabel="top", ylabel="share of directions above")
axis.legend(fontsize=8)
cb.figures.picture(
    figure,
    "6.2",
    f"How many directions, neurons or mixtures, can be pushed farther than a threshold (logarithmic). The paper's share: the top that {SHARE:.1%} of neurons exceed.",
    f"Falling curves on a logarithmic axis. Largest top: neurons {float(tops.max()):.0f}, mixtures {max(float(v.max()) for v in tops_of_draws):.0f}. "
    f"Median: neurons {float(tops.quantile(0.5)):.1f}, mixtures {float(torch.cat(tops_of_draws).quantile(0.5)):.1f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
passed = [int((v > theta).sum()) for v in (tops, *tops_of_draws)]
unmatched = int((tops > torch.cat(tops_of_draws).max()).sum())
cb.finding(
    f"At z > 2 about twice as many neurons pass as mixtures, {passed[0]} against {min(passed[1:])} to {max(passed[1:])} of as many; {unmatched} lie beyond all {DRAWS * len(tops)} mixtures.",
    holds=bool(1.5 < passed[0] / np.mean(passed[1:]) < 2.5 and unmatched > 0),
)

# %% [markdown]
r"""
## What are they about?

Each text has a domain. For a direction $j$ and a label $\ell$,

$$
\text{difference}_j(\ell) \;=\; \operatorname*{mean}_{x \in \ell} \text{approx}_j(x) \;-\; \operatorname*{mean}_{x \notin \ell} \text{approx}_j(x) ,
$$ (eq-neu-difference)

and the direction is labelled by the domain of largest difference *on half A*. It is judged on half B, which shares no document with half A, by the **AUC**: the chance that a text of the label has a larger summary than another text. Beside neurons and mixtures stands an untrained layer: one draw of the same shape, with random weights.
"""

# %%
domains = np.intersect1d(kinds[A], kinds[B])
belongs = kinds == domains[:, None]  # domain text
bag = torch.zeros(len(x), len(ext)).scatter_add_(1, x, circuit.kernel.expand(len(x), -1))
said = bag @ ext / circuit.scale  # text d_model; said @ W_in is circuit.summary(x)


def difference(values, half):
    """Mean inside each domain less the mean outside: `text direction -> domain direction`."""
    inside = belongs[:, half].astype(float)
    mean = [part @ values / part.sum(1, keepdims=True) for part in (inside, 1 - inside)]
    return mean[0] - mean[1]


def judged(directions, said=said, on=B):
    """The label of each direction by half A, and how it fares on half B."""
    values = (said @ directions).double().numpy()
    label, apart = difference(values[A], A).argmax(0), difference(values[on], on)
    pick = label, np.arange(len(label))
    scores = {"difference": apart[pick], "auc": cx.neurons.auc(values[on], belongs[:, on])[pick]}
    again = apart.argmax(0) == label  # the label that half B would choose
    return pd.DataFrame({"label": domains[label], **scores, "again": again})


neurons = judged(W_in)
null = pd.concat({k: judged(mixed) for k, mixed in enumerate(draws)})  # draw, mixture

# %% tags=["hide-input", "nbval-check-output"]
blank = cb.nulls.untrained(weights)
at_blank = cx.fix_query(blank, n=n, token=TOKEN)
nothing = cx.ContextualCircuit.calibrate(at_blank, calibration_text, range(weights.n_heads))
ext_blank, (W_blank, _) = nothing.extended_embedding(), blank.mlp_input()
said_blank = torch.zeros_like(bag).scatter_add_(1, x, nothing.kernel.expand(len(x), -1))
said_blank = said_blank @ ext_blank / nothing.scale
untrained = judged(W_blank, said_blank)
populations = neurons, null, untrained
sure = [float((table["auc"] > 0.8).mean()) for table in populations]
same_B = [float(table["again"].mean()) for table in populations]
display(
    cb.finding(
        f"A label chosen on half of the texts holds on the others, and a mixture's does as well: its AUC is above 0.8 for {sure[0]:.0%} of all neurons, {sure[1]:.0%} of mixtures and {sure[2]:.0%} of the neurons of an untrained layer.",
        holds=bool(min(sure[:2]) > 0.9 > sure[2]),
    ),
    cb.finding(
        f"Half B would choose the same label for {same_B[0]:.0%}, {same_B[1]:.0%} and {same_B[2]:.0%}.",
        holds=bool(min(same_B[:2]) > 0.8 > same_B[2]),
    ),
)

# %% [markdown]
r"""
So the question is not whether a neuron knows the context, but whether it does better than a mixture. To **stand out** is to sort texts better than 95% of the mixtures with the same label do.
"""

# %% tags=["hide-input", "nbval-check-output"]
loud = [v.topk(len(chosen)).indices.tolist() for v in tops_of_draws]  # draw; the same rule's pick


def bounds(table, mixed=null):
    """For each direction the AUC that 95% of the mixtures of its own label do not pass."""
    return table["label"].map(mixed.groupby("label")["auc"].quantile(0.95))


def stands_out(table, mixed=null):
    """For each direction whether it stands out; none does with a label of no mixture."""
    return (table["auc"] > bounds(table, mixed).fillna(1)).to_numpy()


def account(table, beyond):
    """One row of the table of groups."""
    return {"directions": len(table), "AUC": table["auc"].median(), "stand out": beyond.sum()}


own = stands_out(neurons)  # neuron
rest = [null.drop(index=k, level=0) for k in range(DRAWS)]  # of a mixture the other draws judge
own_mixed = [stands_out(null.loc[k], mixed) for k, mixed in enumerate(rest)]  # draw
most = np.flatnonzero((tops > far).numpy())
picks = {f"found, z > {cx.neurons.STANDS_OUT:g}": chosen, "the paper's share of neurons": most}
picks |= {"neurons that are not found": others}
shown = pd.DataFrame({name: account(neurons.loc[ids], own[ids]) for name, ids in picks.items()}).T
of_loud = [account(null.loc[k].loc[ids], own_mixed[k][ids]) for k, ids in enumerate(loud)]
shown.loc[f"mixtures of largest top, mean of {DRAWS} draws"] = pd.DataFrame(of_loud).mean()
stand = [int(v.sum()) for v in own_mixed]
display(
    pd.DataFrame({k: shown[k].map(("{:.3f}" if k == "AUC" else "{:.0f}").format) for k in shown}),
    cb.finding(
        f"Of all {len(tops)} neurons {own.sum()} stand out, of as many mixtures {min(stand)} to {max(stand)}, and of the neurons that are not found no larger share than of mixtures.",
        holds=bool(
            max(stand) < own.sum() < 1.5 * np.mean(stand)
            and own[others].mean() <= np.mean(stand) / len(tops)
        ),
    ),
)

# %% [markdown]
r"""
AUC is the median on half B. By chance one direction in twenty stands out; fewer, where mixtures without an error leave no room. To sort texts by subject is no achievement: the heads' average holds the subject in many directions at once, and along any axis some domain lies farther out than the others ([appendix D](D_superposition) asks why).

## Which tokens does a label rest on?

Take the toy of [chapter 5](05_circuit), with a comet for BOS, as the moon's rival. The comet's content is twice as large, so it contributes twice as much; but texts on the sky say `moon`.
"""

# %% tags=["nbval-check-output"]
hand = pd.DataFrame(
    {"moon": [7.5, 0.03, 0.01], "the": [-0.625, 0.30, 0.30], "comet": [15, 0.001, 0]},
    index=["contribution", "p(t | label)", "p(t | rest)"],
).T
hand["drive"] = hand["contribution"] * (hand["p(t | label)"] - hand["p(t | rest)"])
hand.round(3) + 0.0

# %% [markdown]
r"""
`comet` stands at the far end of the column. `moon` does the work. Let $p(t \mid \ell)$ be the kernel's weight that falls on $t$ in the mean text of the label, and call **drive** what a token adds to the label's difference:

$$
\text{difference}_j(\ell) \;=\; \sum_t \underbrace{\bigl( \text{contribution}[t, j] - \text{zero}_j \bigr) \bigl( p(t \mid \ell) - p(t \mid \text{rest}) \bigr)}_{\text{drive}[t, j]} .
$$ (eq-neu-drive)

This is exact for any constant $\text{zero}_j$, which only moves drive from token to token. Here it is what the average token of the texts adds (by hand it was left out). Drive is measured on half A.
"""

# %%
usual = bag[A].mean(0)  # vocab; p(t) over half A
gap_A, gap_B = (
    torch.from_numpy(difference(bag[half].numpy(), half)).to(ext.dtype) for half in (A, B)
)  # domain vocab; p(t | label) - p(t | rest)
label = np.searchsorted(domains, neurons["label"])  # neuron


def driven(columns, label, gap=gap_A):
    """What each token adds to the label's difference: `vocab direction`."""
    zero = usual @ columns  # what an average token of the texts adds
    return (columns - zero) * gap[label].T


drive = driven(contribution, label)  # vocab neuron

# %% tags=["hide-input"]
never = torch.where(counted, 0.0, -torch.inf)[:, None]


def farthest(columns, count=K):
    """The tokens of largest entry: `vocab direction -> count direction`."""
    return (columns + never).topk(count, dim=0).indices


def agreeing(tokens, of_label):
    """Share of a neuron's tokens that texts of its label use more than others do, on half B."""
    return (gap_B[of_label].T.gather(0, tokens) > 0).double().mean(0)  # found


far_end, driving = farthest(contribution[:, chosen]), farthest(drive[:, chosen])  # K found
agree_far = agreeing(far_end, label[chosen])
holding = torch.from_numpy(belongs[:, B]).to(bag.dtype) @ (bag[B] > 0).to(bag.dtype)  # domain vocab
occur = (holding[label[chosen]].T.gather(0, far_end) > 0).double().mean()  # in its label's texts
of_mixtures = [
    (ext @ draws[k][:, ids], np.searchsorted(domains, null.loc[k]["label"][ids]))
    for k, ids in enumerate(loud)
]  # draw; columns and labels of the mixtures of largest top
agree_mixed = [agreeing(farthest(columns), of).mean() for columns, of in of_mixtures]
dealt = np.mean(
    [agreeing(far_end, labels).mean() for labels in cb.nulls.permuted(label[chosen], 100, chance)]
)
first = range(min(GALLERY, len(chosen)))
pd.DataFrame(
    {
        "label": neurons["label"][chosen].iloc[first],
        # rounded down, so that 1 would mean no error
        "AUC": [f"{np.floor(1000 * neurons['auc'][chosen[k]]) / 1000:.3f}" for k in first],
        "stands out": ["yes" if own[chosen[k]] else "no" for k in first],
        "far end of the column": [", ".join(show(far_end[:6, k])) for k in first],
        f"agree, of {K} (mean of all found: {agree_far.mean() * K:.0f})": [
            f"{agree_far[k] * K:.0f}" for k in first
        ],
        "by drive": [", ".join(show(driving[:6, k])) for k in first],
    }
).rename_axis("neuron")

# %% [markdown]
r"""
The six neurons of largest top, the best end. *Agree*: so many of the $K$ tokens at the far end make up a larger share of the label's texts than of the others, on half B.
"""

# %% tags=["hide-input", "nbval-check-output"]
loudness = (ext - ext[counted].mean(0)).norm(dim=1) * counted  # vocab
hundredth = loudness.topk(int(counted.sum()) // 100).indices
held = float(torch.isin(far_end, hundredth).double().mean())
heard = float((loudness * usual)[hundredth].sum() / (loudness * usual).sum())
display(
    cb.finding(
        f"Texts of the label use {agree_far.mean():.0%} of a found neuron's {K} far-end tokens more than others do; {np.mean(agree_mixed):.0%} for mixtures of largest top; {dealt:.0%} with labels dealt out again among the found.",
        holds=bool(2 * dealt < np.mean(agree_mixed) < agree_far.mean() < 0.5),
    ),
    cb.finding(
        f"Nearly all of the others do not occur in these texts, {np.median(belongs[:, B].sum(1)):.0f} or so a label: too few to say that it avoids them.",
        holds=bool(1 - occur > 0.9 * (1 - agree_far.mean())),
    ),
    cb.finding(
        f"The same tokens recur at the far ends: the hundredth with the longest extended embeddings holds {held:.0%} of these places, and {heard:.0%} of what texts say, length times frequency.",
        holds=held > 0.2 > 4 * heard,
    ),
)

# %% [markdown]
r"""
So many of these names are of *loud* tokens: long in what they say to any neuron, and rare. Drive names what a label rests on, relative to the average token, at a price: it needs texts with labels. Whether it carries over to half B is asked at the end.

## Is it more than scale?

Perhaps the rule finds neurons that anything moves far. So beside the found stand as many neurons of the longest input weights, and as many of the largest **text sd**, the standard deviation of the summary over half A: those that texts move most. Two nulls are a thousand random sets each: of any neurons, and of neurons of like length (one of the 50 nearest). Both may hold the found.

And what does one lose who looks nowhere else? For each domain take the neuron that tells it best on half A by its real activation, a sparse probe with $k = 1$ {cite}`gurnee2023finding`: once among all neurons, once in the set. The loss is the difference of the two AUCs on half B, mean over domains.
"""

# %%
text_sd = (said[A] @ W_in).std(0)  # neuron
by_sd, by_length = (v.topk(len(chosen)).indices.tolist() for v in (text_sd, lengths))
ways = {"found": chosen, "largest text sd": by_sd, "longest": by_length}
sets = {
    "any neurons": cb.nulls.random_sets(chosen, len(tops), SETS),
    "of like length": cb.nulls.random_sets(chosen, len(tops), SETS, like=lengths),
}

# %% tags=["hide-input"]
activation = ACT2FN[model.cfg.act_fn]  # the model's own nonlinearity
outputs = torch.cat([circuit.fixed.head_outputs(part) for part in x.split(64)])  # text head d_model
streams = circuit.fixed.resid_mid(x, outputs)  # text d_model; outputs are the heads' own
fires = activation(weights.pre_activations(streams)).double().numpy()  # text neuron
tells, tells_B = (cx.neurons.auc(fires[h], belongs[:, h]) for h in (A, B))  # domain neuron
over_sd = difference(fires[A], A) / np.maximum(fires[A].std(0), 1e-9)  # it decides between equals


def best_of(ids):
    """For each domain the one of these neurons that tells it best, on half A."""
    ids = np.asarray(ids)
    return ids[np.lexsort((over_sd[:, ids], tells[:, ids]))[:, -1]]  # domain


def reached(ids):
    """Mean AUC on half B of the neurons that tell the domains best."""
    return tells_B[np.arange(len(domains)), best_of(ids)].mean()


everyone = np.arange(len(tops))
best, most_reached = best_of(everyone), reached(everyone)
MEASURES = {
    "neurons that stand out (more is better)": lambda ids: own[ids].sum(),
    "AUC lost, mean of domains (less is better)": lambda ids: most_reached - reached(ids),
    "best single neurons among them": lambda ids: len(set(best) & set(ids)),
}
out, lost, inside = MEASURES
measured = {name: {k: f(ids) for k, f in MEASURES.items()} for name, ids in ways.items()}
by_chance = {
    name: {k: np.array([f(ids) for ids in drawn]) for k, f in MEASURES.items()}
    for name, drawn in sets.items()
}
ends = {name: {k: np.quantile(v, (0.025, 0.975)) for k, v in row.items()} for name, row in by_chance.items()}  # fmt: skip

figure, (axes,) = cb.figures.panels(1, 2, height=3.2, width=8.6)
steps = np.arange(2 + max(row[out].max() for row in by_chance.values())) - 0.5  # whole numbers
for axis, k, bins in zip(axes, (out, lost), (steps, 30), strict=True):
    for i, (name, row) in enumerate(by_chance.items()):
        look = {"histtype": "step", "lw": 1.6, "ls": ("-", "--")[i], "label": f"random: {name}"}
        axis.hist(row[k], bins, color=cb.figures.COLORS[(7, 1)[i]], **look)
    for i, (name, row) in enumerate(measured.items()):
        dash = {"color": cb.figures.COLORS[(0, 2, 3)[i]], "ls": ("-", "--", ":")[i], "label": name}
        axis.axvline(row[k], lw=2.2, **dash)
    axis.set(xlabel=k, ylabel="random sets")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
cb.figures.picture(
    figure,
    "6.3",
    f"{len(chosen)} found neurons, as many of the largest text sd, as many of the longest input weights, and {SETS} random sets of each kind.",
    "Histograms of random sets, and lines. "
    + "; ".join(
        f"{name}: {row[out]:.0f} stand out, {row[lost]:.3f} lost" for name, row in measured.items()
    )
    + "; "
    + "; ".join(
        f"{name}: {row[out][0]:.0f} to {row[out][1]:.0f} and {row[lost][0]:.3f} to {row[lost][1]:.3f} in 95% of sets"
        for name, row in ends.items()
    )
    + ".",
)

# %% tags=["hide-input", "nbval-check-output"]
of_found, of_wide, of_long = measured.values()
like, any_ones = by_chance["of like length"], by_chance["any neurons"]
p_out, p_inside = (cb.nulls.p_value(of_found[k], like[k]) for k in (out, inside))
p_lost = cb.nulls.p_value(-of_found[lost], -any_ones[lost])
by_size, by_varying = (stats.spearmanr(tops, v).statistic for v in (lengths, text_sd))
display(
    cb.finding(
        f"Of the {len(chosen)} neurons that weights find {of_found[out]:.0f} stand out: more than of as many random neurons, and about as many as of those that texts move most, {of_wide[out]:.0f}.",
        holds=bool(
            p_out < 0.05
            and all(of_found[out] > row[out][1] for row in ends.values())
            and of_found[out] <= of_wide[out]
        ),
    ),
    cb.finding(
        f"Looking among the found only loses about as little AUC as among those of largest text sd, {of_found[lost]:.3f} and {of_wide[lost]:.3f}; among as many random neurons {ends['any neurons'][lost][0]:.3f} to {ends['any neurons'][lost][1]:.3f} (95% of sets).",
        holds=bool(
            p_lost < 0.05
            and max(of_found[lost], of_wide[lost]) < ends["any neurons"][lost][0] / 2
        ),
    ),
    cb.finding(
        f"Length is no rival: its rank correlation with top is {by_size:.2f}, and the longest do no better than random neurons. Text sd is one, {by_varying:.2f}.".replace("-", "−"),
        holds=bool(abs(by_size) < 0.2 and by_varying > 0.5 and of_long[out] <= ends["any neurons"][out][1]),
    ),
)  # fmt: skip

# %% [markdown]
r"""
So top and text sd go together. Which tells who stands out? Part the neurons by both, and take mixtures that match in them (asked with the numbers above known; p is Fisher's, as if neurons were independent).
"""

# %% tags=["hide-input", "nbval-check-output"]
is_found, is_wide = (np.isin(np.arange(len(tops)), ids) for ids in (chosen, by_sd))
both, only_found, only_wide, neither = (
    own[(is_found == a) & (is_wide == b)] for a in (True, False) for b in (True, False)
)
one = np.concatenate([only_found, only_wide])


def differ(some, others):
    """How often chance makes two shares at least as uneven: Fisher's exact test."""
    return stats.fisher_exact([[v.sum(), (~v).sum()] for v in (some, others)]).pvalue


def no_more(beyond):
    """No more stand out than chance gives."""
    return beyond.sum() <= stats.binom.ppf(0.95, len(beyond), 0.05)


sd_mixed = torch.cat([(said[A] @ mixed).std(0) for mixed in draws]).numpy()
wide_mixed = sd_mixed >= float(text_sd[by_sd].min())  # the band ends with the largest of these
pushed = (torch.cat(tops_of_draws) > theta).numpy()
mixed_band, mixed_both = (np.concatenate(own_mixed)[v] for v in (wide_mixed, wide_mixed & pushed))
band = own[is_wide & (text_sd.numpy() <= sd_mixed.max())]
display(
    cb.finding(
        f"Few sort texts better than nearly all mixtures with their label do: {both.mean():.0%} of the neurons that single tokens can push far and that texts do move far, and about a tenth, {one.sum()} of {len(one)}, of those with one of the two; whether being easy to push adds anything is not decided.",
        holds=bool(differ(both, one) < 0.05 >= neither.mean() and 0.08 < one.mean() < 0.125)
        and 0.01 < differ(both, only_wide) < 0.1 < differ(only_found, only_wide),
    ),
    cb.finding(
        f"That is {both.sum()} of {len(both)}, {only_found.sum()} of {len(only_found)} found of smaller text sd and {only_wide.sum()} of {len(only_wide)} others of large text sd, and {neither.sum()} of {len(neither)}.",
        holds=bool(no_more(only_found) and not no_more(only_wide)),
    ),
    cb.finding(
        f"Top beside text sd: among those of large text sd p = {differ(both, only_wide):.2f}, between those with one of the two p = {differ(only_found, only_wide):.1f}. Text sd does add to top (p = {differ(both, only_found):.3f}).",
        holds=differ(both, only_found) < 0.01 < differ(both, only_wide),
    ),
    cb.finding(
        f"Mixtures that texts move about as far stand out no more often than chance gives: {mixed_band.sum()} of {len(mixed_band)}, where in the same band of text sd {band.sum()} of {len(band)} neurons do; with a large top as well it is {mixed_both.sum()} of {len(mixed_both)}.",
        holds=bool(no_more(mixed_band) and no_more(mixed_both) and differ(band, mixed_band) < 0.05),
    ),
)  # fmt: skip

# %% tags=["hide-input", "nbval-check-output"]
of_label = [np.bincount(label[ids], minlength=len(domains)) for ids in (own, ~own, chosen)]
# sets of any neurons with the same labels: how many of a label stand out is hypergeometric
alike = np.random.default_rng(0).hypergeometric(*of_label, (100 * SETS, len(domains))).sum(1)
alike_range = np.quantile(alike, (0.025, 0.975))
added = outputs[:, heads].sum(1) / circuit.fixed.scale(x, outputs)  # what the heads really add
in_truth = stands_out(judged(W_in, added), pd.concat([judged(mixed, added) for mixed in draws]))
display(
    cb.finding(
        f"Labels do not explain it: of as many random neurons with the same labels {alike_range[0]:.0f} to {alike_range[1]:.0f} stand out (95% of sets).",
        holds=bool(of_found[out] > alike_range[1]),
    ),
    cb.finding(
        f"By what the heads really add, {in_truth[chosen].sum()} of the found and {in_truth[by_sd].sum()} of those of largest text sd stand out.",
        holds=bool(min(in_truth[chosen].sum(), in_truth[by_sd].sum()) > alike_range[1]),
    ),
)

# %% [markdown]
r"""
**In a real model**, Qwen, by what the heads really add and not by summaries ([chapter 8](08_real_model)), the first twenty do better than random neurons and, beside their own label, than random mixtures. The twenty of largest text sd do better still.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What became of the conditions that were set beforehand?"}
top_blank = top_of(ext_blank @ W_blank / nothing.scale)
found_blank = top_blank.topk(len(chosen)).indices.tolist()
label_null, label_blank = (np.searchsorted(domains, t["label"]) for t in (null, untrained))


def sorting(directions, labels, said=said):
    """The AUC of each direction for its label, as a function of the texts drawn from half B: each
    text of the label counts how many of the others lie below it."""
    values = (directions.T @ said[B].T).double().numpy()
    order = values.argsort(1)  # direction text; the same whichever are drawn
    member = belongs[:, B][labels[:, None], order]
    places = (~member).argsort(1, kind="stable")[:, : member.sum(1).max()]  # the label's texts
    member = np.take_along_axis(member, places, 1)

    @np.errstate(invalid="ignore")  # no text of a label, or of any other
    def auc(drawn):
        often = np.bincount(drawn, minlength=values.shape[1]).astype(np.float32)[order]
        below = np.take_along_axis(often.cumsum(1), places, 1)
        within = np.take_along_axis(often, places, 1) * member
        count = within.sum(1)
        return (within * (below - within.cumsum(1))).sum(1) / (count * (len(drawn) - count))

    return auc


auc_found = sorting(W_in[:, chosen], label[chosen])
auc_blank = sorting(W_blank[:, found_blank], label_blank[found_blank], said_blank)


def trained_less_not(drawn):
    """Median AUC of the found neurons less that of those found in the untrained layer."""
    return float(pd.Series(auc_found(drawn)).median() - pd.Series(auc_blank(drawn)).median())


gain = cb.with_interval(trained_less_not, of_B, 199, cb.WIDER)
display(
    cb.finding(
        "Set before the nulls were drawn, and met: more of the found stand out than of the longest and than in 95% of the sets of like length, which hold fewer of the best single neurons, too; less AUC is lost than by 95% of sets of any neurons; the median AUC is larger than in an untrained layer. Not met: more stand out than of the largest text sd.",
        holds=bool(
            max(p_out, p_lost, p_inside) < 0.05
            and of_long[out] < of_found[out] <= of_wide[out]
            and gain.low > 0
        ),
    ),
    cb.finding(
        "Sets left out the found at first, which was changed later; a bound set beside its result, twice their upper end, is then no longer passed. All else was set with numbers known.",
        holds=bool(of_found[out] <= 2 * ends["of like length"][out][1]),
    ),
    cb.finding(
        f"One untrained layer does worse: the found are {gain:.2f} above its {untrained['auc'][found_blank].median():.2f} (texts redrawn).",
        holds=gain.low > 0,
    ),
)

# %% [markdown]
r"""
## What breaks it
"""

# %% tags=["hide-input", "nbval-check-output"]
restless = max(heads, key=lambda h: study.head_table["coefficient of variation"][h])


def still(tops):
    """Which of the found are among as many of largest top."""
    return list({*tops.topk(len(chosen)).indices.tolist()} & {*chosen})


def found_again(heads, text=None, flat=None):
    """Which of the found neurons are found from other heads or a page other than the middle one; if
    head `flat` has the same content for all tokens, that of the average token of the texts."""
    text = text or cx.denominators.most_typical_text(study.fixed, study.prose, heads)
    made = cx.ContextualCircuit.calibrate(study.fixed, text, heads)
    if flat is not None:
        split, i = study.fixed.decomposition, list(heads).index(flat)
        even = usual @ split.content[flat] / made.denominators[i]
        made.weighted_values[:, i] = even * split.values([flat])[:, 0]
    columns = W_in.T @ made.extended_embedding()[counted].T  # without s, which changes no order
    return still(top_of(columns.T))


without = {h: found_again([g for g in heads if g != h] or heads) for h in heads}
left = without.pop(restless)
least = min(map(len, without.values()), default=0)
by_one, even_one = (len(found_again([restless], flat=flat)) for flat in (None, restless))
even_all = len(found_again(heads, flat=restless))
pages = {p.domain: p for p in reversed(study.passages)}  # the first of each domain
elsewhere = min(len(found_again(heads, p)) for p in pages.values())
by_count = {count: len(still(top_of(contribution[counted], count))) for count in (1, 200)}
into = circuit.weighted_values[counted] - circuit.weighted_values[counted].mean(0)
W_O = study.fixed.readout.W_O[list(heads)]
says = {h: float((into[:, i] @ W_O[i]).norm(dim=1).mean()) for i, h in enumerate(heads)}
next_to = max((says[h] for h in heads if h != restless), default=np.inf)
display(
    cb.finding(
        f"By head {restless} alone, the least steady and the loudest (what it says is {says[restless] / next_to:.1f} times as long as any other's), {by_one} of the found are found again; without it {len(left)}, of which {own[left].sum()} stand out, as {own[chosen].sum() - own[left].sum()} of the other {len(chosen) - len(left)} do; without any other one {least} or more; by chance {len(chosen) ** 2 / len(tops):.0f}.",
        holds=len(left) < len(chosen) / 2 < by_one
        and least > 0.9 * len(chosen)
        and says[restless] > next_to,
    ),
    cb.finding(
        f"With head {restless}'s content made constant, head {restless} alone still finds {even_one} of them, all {len(heads)} heads {even_all}, little more than without it: its content gives it its weight among them.",
        holds=even_one > 0.8 * by_one and len(left) < even_all < len(chosen) / 2,
    ),
    cb.finding(
        f"With K = 1, where a single token decides, {by_count[1]} are found again, with K = 200 {by_count[200]}; from a page of each of {len(pages)} domains {elsewhere} or more.",
        holds=by_count[1] < 0.7 * len(chosen) and min(by_count[200], elsewhere) > 0.9 * len(chosen),
    ),
)

# %% [markdown]
r"""
## Turn it

All neurons are one file (*null* is the AUC that one in twenty mixtures of the same label exceeds):
"""

# %% tags=["hide-input"]
by_drive = farthest(drive, 5).T
del drive  # vocab times neurons: room for the view below
by_column = farthest(contribution, 5).T
table = (
    neurons.drop(columns="again")
    .assign(
        null=bounds(neurons),
        top=tops,
        z=cx.neurons.robust_z(tops),
        far_end=[" ".join(show(ids)) for ids in by_column],
        by_drive=[" ".join(show(ids)) for ids in by_drive],
    )
    .rename_axis("neuron")
)
table = table.sort_values("top", ascending=False)
coded = base64.b64encode(table.round(3).to_csv().encode()).decode()
href = f'<a download="neurons.csv" href="data:text/csv;charset=utf-8;base64,{coded}">'
said_so = f"{len(table)} neurons as a table (CSV)"
display({"text/html": f"<p>{href}{said_so}</a></p>", "text/plain": said_so}, raw=True)

# %% [markdown]
r"""
Choose heads, a destination token and a threshold, and the list ranks every neuron again; choose a neuron to see its column, its domains and the passage that moves it most. Or search a token, ` planets`, for the neurons that it moves. The [explorer](explorer) has a page of its own.
"""

# %% tags=["hide-input"]
cv.NeuronExplorer(
    weights,
    picture=draw(chosen[min(2, len(chosen) - 1)], "6.4"),
    heads=list(heads),
    threshold=THETA or 0,
    neuron=chosen[min(2, len(chosen) - 1)],
)

# %% [markdown]
r"""
## Claims

Three published claims on GPT-2 small are untestable on `mini`: a threshold is in a unit of its model, one in twenty mixtures makes no error, so that nothing can pass them, and no neuron is silent on the page, as some are in large models {cite}`voita2024neurons`.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What do the sources say of GPT-2 small?"}
hook = "blocks.0.mlp.hook_pre"
_, kept = model.run_with_cache(
    calibration_text.tokens[None, : study.length], names_filter=hook, stop_at_layer=1
)
silent = (kept[hook][0].cpu() <= 0).all(0)  # neuron
line = float(null["auc"].quantile(0.95))


def carrying(drawn):
    """Share of the found neurons beyond the null."""
    return float((auc_found(drawn) > line).mean())


def named():
    """What the post says of single neurons of GPT-2 small, on the book's passages."""
    told = study.fixed.exact_summary(study.fixed.prepare(study.passages), heads)
    war, scripture = (
        cx.neurons.auc(told.numpy(), study.domains == domain) for domain in ("war", "scripture")
    )
    words = (
        weights.tokenizer.encode(f" {w}", add_special_tokens=False)
        for w in (1917, 1918, 1942, 1943, 1944, "Sherman")
    )
    single = [ids[0] for ids in words if len(ids) == 1]
    above = (contribution[:, [1621]] > contribution[single, 1621]).double().mean(0).median()
    over = "AUC of passages over others"
    return [
        cb.Claim("neuron_1621", f"neuron 1621, war: {over}", float(war[1621])),
        cb.Claim("war_tokens", "1621: vocabulary above the tokens named", float(above), digits=4),
        cb.Claim("neuron_1710", f"neuron 1710, scripture: {over}", float(scripture[1710])),
    ]


cb.ledger(
    model,
    cb.Claim(
        "neurons_at_theta", f"share of neurons with top > {PAPER:g}", float((tops > PAPER).double().mean()) if weights.n_neurons == 3072 else np.nan, digits=3,
    ),
    cb.Claim(
        "respond_to_properties",
        "found neurons with a label on half B beyond 95% of all mixtures, share",
        *(cb.with_interval(carrying, of_B, 199).for_claim if line < 1 else [np.nan]),  # is there room above the null?
    ),
    cb.Claim(
        "silent_on_calibration", "found neurons that are never on in the calibration text", float(silent[chosen].sum()) if silent.any() else np.nan, digits=0,
    ),
    *(named() if weights.n_neurons == 3072 else []),
)  # fmt: skip

# %% [markdown]
r"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
auc_all = sorting(torch.cat([W_in, *draws], 1), np.concatenate([label, label_null]))


@cache  # two questions are asked of the same draws
def redrawn(*drawn):
    """AUCs of neurons and of mixtures on these texts of half B."""
    return np.split(auc_all(np.array(drawn)), [len(tops)])


@np.errstate(invalid="ignore")  # none of them has a text
def ahead(drawn):
    """How much larger a share of the found stands out than in 95% of the sets of like length,
    neurons and mixtures both on texts drawn from half B. Who has a label of which no text was drawn
    does not count: a number of neurons, not a share, would fall with them."""
    mine, mixed = redrawn(*drawn)
    bound = pd.Series(mixed).groupby(label_null).quantile(0.95).reindex(label).fillna(1)
    beyond, there = mine > bound.to_numpy(), ~np.isnan(mine)
    compared = chosen, sets["of like length"]
    share, in_sets = (beyond[of].sum(-1) / there[of].sum(-1) for of in compared)
    return float(share - np.quantile(in_sets, 0.95))


gained = cb.with_interval(lambda drawn: 100 * ahead(drawn), of_B, 99, cb.WIDER)
cb.finding(
    f"The found's share that stands out exceeds the 95th percentile of the sets of like length by {gained.value:.0f} points [{gained.low:.0f}, {gained.high:.0f}] (half B alone redrawn, by {gained.unit}).",
    holds=gained.low > 0,
)


# %% tags=["hide-input", "nbval-check-output"]
def less_median(drawn):
    """Median AUC of the found less that of all mixtures."""
    mine, mixed = redrawn(*drawn)
    return float(np.nanmedian(mine[chosen]) - np.nanmedian(mixed))


def apart(drawn):
    """Median over the found of their AUC less that of the median mixture with their label."""
    mine, mixed = redrawn(*drawn)
    middle = pd.Series(mixed).groupby(label_null).median().reindex(label)
    return float((mine - middle).iloc[chosen].median())  # its bound of 0.03 was the plain median's


plain, beside = (cb.with_interval(of, of_B, 99, cb.WIDER) for of in (less_median, apart))
cb.finding(
    f"By plain AUC the found sort texts no better than mixtures: the medians differ by {plain:.3f}. Only beside mixtures of the same label, a comparison chosen afterwards, are they {beside:.3f} ahead, by {beside.unit}.",
    holds=plain.low < 0 < plain.high and 0 < beside.low < beside.high < 0.03,
)  # fmt: skip


# %% tags=["hide-input", "nbval-check-output"]
def carried(columns, of_label, tokens):
    """Of each column's difference on half B, the share that these of its tokens carry."""
    drive_B = driven(columns, of_label, gap_B)
    return drive_B.gather(0, tokens).sum(0) / drive_B.sum(0)


by_end, by_drive_B = (
    np.quantile(carried(contribution[:, chosen], label[chosen], ids), (0.25, 0.5, 0.75))
    for ids in (far_end, driving)
)
by_mixed = torch.cat([carried(*mixed, farthest(driven(*mixed))) for mixed in of_mixtures]).median()
cb.finding(
    f"The {K} tokens of largest drive on half A carry {by_drive_B[1]:.0%} [{by_drive_B[0]:.0%}, {by_drive_B[2]:.0%}] of the difference on half B, for mixtures of largest top {float(by_mixed):.0%}; those of the far end {by_end[1]:.0%} [{by_end[0]:.0%}, {by_end[2]:.0%}] (brackets hold the middle half of the found neurons).",
    holds=bool(min(by_drive_B[1], by_mixed) > 2 * by_end[1] and by_drive_B[0] > by_end[2]),
)

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* How many of the found are among as many neurons whose left ends reach farthest? Write down a number, then run the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How many are found again?"}
pd.DataFrame({"found again": {"left ends": len(still(top_of(-contribution[counted])))}})

# %% [markdown]
r"""
2. *Fill in* the difference of the example neuron's label on half A by {eq}`eq-neu-drive`, in one line from `contribution[:, example]` and `gap_A[label[example]]`.
"""

# %%
mine_too = ...  # one number

# %% tags=["hide-input", "nbval-check-output"]
if mine_too is ...:
    print("not yet")
else:
    asked = difference(circuit.summary(x[A])[:, [example]].double().numpy(), A)
    right = abs(float(mine_too) - asked[label[example], 0]) < 1e-3
    print("right" if right else "not this")

# %% [markdown]
r"""
3. *Break this.* Deal the domains out among the texts (`kinds = chance.permutation(kinds)`), run the cell that makes `belongs` and judges the neurons again, and compare the AUCs of `judged(W_in)` and `judged(W_in, on=A)`. Which still says that neurons know the context? Restart afterwards.
4. *Prove.* Mix the neurons by an orthogonal matrix $R$, $W_\text{in} \to W_\text{in} R$. Which sum over neurons stays the same for every token? If half of the neurons come to hear a token more, what of the others?

```{admonition} Solutions
:class: dropdown

1. Most: a neuron far out on one side mostly is on the other, too.
2. `mine_too = contribution[:, example] @ gap_A[label[example]]`. Centring is not needed: the gaps sum to zero.
3. That of half A. The best of 22 labels was picked there, so it is above one half even if the labels mean nothing; on half B it is one half.
4. With $c_t$ the row of contributions of token $t$, mixing gives $c_t R$, and $\lvert c_t R \rvert = \lvert c_t \rvert$: the sum of squared contributions. So the others together hear it less. For tops, which are no such sums, it proves nothing.
```

## Where this comes from

Ranking neurons by their largest contributions, the threshold, the care about glitch tokens and neurons silent on the calibration text are from {cite:t}`gibson2025decomposing`; the remark about directions and neurons from the earlier post {cite}`gibson2025contextual`. Single neurons as probes, and context neurons by that name, are from {cite:t}`gurnee2023finding`. Drive, and mixtures as the null of a label, are this book's choices. Of the neurons of GPT-2 models, 1 to 5% recur under other seeds {cite}`gurnee2024universal`; whether the few that no mixture reaches are of that kind was not tested.
"""
