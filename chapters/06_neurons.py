# %% [markdown]
r"""
# Finding context-sensitive neurons

**To guess what a neuron responds to, sort all tokens by what they add to it: the two ends of the list hint at its subject.** {{?ends_hint}} In our small model `{{model}}`, a label chosen on half of our texts sorts the other half well for {{sure}} of all neurons. {{?labels_hold}} But random mixtures of neurons do just as well ({{sure_mixed}}), so a good label does not show that a neuron is a unit of its own. {{?mixtures_too}} Some neurons do beat the mixtures, but no rule of ours says which: two of five conditions that we fixed in advance failed. {{?twins_fail}} {{?not_met}}

Below are the tokens (some are pieces of words) that raise four neurons most and those that lower them most. What is each about? And which of the five rows is no neuron, but a **random mixture**: the input weights of all neurons, each times a random number, added up?

| row | raised most by | lowered most by |
|---|---|---|
| A | {{first_high}} | {{first_low}} |
| B | {{mixture_high}} | {{mixture_low}} |
| C | {{second_high}} | {{second_low}} |
| D | {{third_high}} | {{third_low}} |
| E | {{example_high}} | {{example_low}} |

Row A is the neuron of planets that we have followed since [chapter 1](01_first_layer). C and D are easy: medicine and recipes. {{?easy}} Guess B and E.

Such lists put into words what the attention heads of this layer pass on, and pick out, of a thousand neurons, some worth testing on texts. They are no evidence that a neuron has a meaning of its own. For that it must do better than mixtures, and few neurons do: {{all_beat}} of {{neurons}} by the test below, where chance alone would make it {{all_by_chance}}. {{?few_beat}}
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
HEADS = None  # a list of heads, or None for those that chapter 4 calls stable
MAX_CV = 0.3  # stable: denominators spread by less than this times their mean (and broad kernels)
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token
DRAWS = 5  # how many times as many random mixtures are drawn as there are neurons
OF_REAL = 500  # how many are drawn for each real model
SETS = 400  # random sets of as many neurons, any and of like length of their input weights

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, texts and the model"}
import base64
import json

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from scipy import stats

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS, MAX_CV)
texts, n, heads, circuit = study.texts, study.n, study.heads, study.circuit
x = study.fixed.prepare(texts)  # text source
kinds = np.array([text.domain for text in texts])
A, B = cb.half_masks(texts)
of_B = [text for text, inside in zip(texts, B, strict=True) if inside]
print(f"{study}\ncalibrated on {study.calibration_text.name}")

# %% [markdown]
r"""
## Read both ends of a column

[Chapter 5](05_circuit) gave each token one number for each neuron, its contribution: content times value, divided by the denominator. In the example by hand, with one head, *moon* got {{= 7.5 =}}, BOS {{= 0 =}}, and *the*, whose value is negative, {{= −0.625 =}}. Sorted, *moon* is at one end of the list and *the* at the other.

A real neuron has such a number for every token of the vocabulary. We call this list the neuron's **column**. The average of a text's contributions, weighted by the kernel, is its summary ({eq}`eq-cir-summary`): what we predict that the text adds to the neuron. A neuron is **context-sensitive** if its summary tells what kind of text it has read, for example its subject or its language. (We leave glitch tokens out of the lists. Training hardly ever showed them to the model, so their embeddings are little more than noise.)
"""

# %%
ext = circuit.extended_embedding()  # vocab d_model
W_in, _ = weights.mlp_input()  # d_model neuron
contribution = ext @ W_in / circuit.scale  # vocab neuron
summary = circuit.summary(x)  # text neuron; of one text, kernel @ contribution[tokens]

# %% tags=["hide-input"]
counted = ~study.fixed.decomposition.untrained  # vocab; without glitch tokens
# the neuron of chapter 1, and one whose ends suggest another subject than its texts
followed, example = (496, 703) if MODEL == "mini" else (0, 1)


def ends_of(column, high=8, low=4):
    """The ids of a column's outermost tokens, from the highest to the lowest."""
    order = column.masked_fill(~counted, float(column.mean())).argsort(descending=True)
    return torch.cat([order[:high], order[-low:]])


def words(ids, of=weights, bare=True):
    """Tokens by name, if `bare` without the space in front; ↵ is a new line."""
    names = map(cb.figures.visible, cx.texts.decode_tokens(of, ids.tolist()))
    return [(bare and name.strip("␣")) or name for name in names]


def draw(neuron, number):
    """A neuron's outermost tokens, and its summaries of the texts of half B by domain."""
    values, of = summary[B][:, neuron].numpy(), kinds[B]
    mean = pd.Series(values).groupby(of).mean().sort_values()
    figure, ((left, right),) = cb.figures.panels(1, 2, height=4.0, width=8.6)
    ids = ends_of(contribution[:, neuron], 12, 6).flip(0)
    ends, height = words(ids), contribution[ids, neuron]
    left.barh(range(len(ids)), height, color=[cb.figures.COLORS[v < 0] for v in height.tolist()])
    left.set_yticks(range(len(ids)), ends, fontsize=8, parse_math=False)
    left.set(xlabel="contribution", title=f"neuron {neuron}: both ends of its column")
    right.plot(
        values, mean.index.get_indexer(of), "o", ms=2.5, alpha=0.5, color=cb.figures.COLORS[0]
    )
    right.plot(mean, range(len(mean)), "|", ms=9, mew=2, color=cb.figures.INK)
    right.set_yticks(range(len(mean)), mean.index, fontsize=7.5)
    right.set(xlabel="summary", title="unseen texts, by domain")
    return cb.figures.picture(
        figure,
        number,
        f"Left: the tokens that add most to neuron {neuron}, and below them those that lower it most; one occurrence counts with the weight of its position. Right: a dot for every text of half B, a bar for the mean of its domain.",
        f"Bars: {', '.join(ends[:-5:-1])} raise neuron {neuron} most, {ends[0]} lowers it most. Mean summaries by domain, from {mean.index[-1]} {mean.iloc[-1]:+.2f} down to {mean.index[0]} {mean.iloc[0]:+.2f}.",
    )


draw(example, "6.1")

# %% [markdown]
r"""
Row E was neuron {{example}}. Its upper end reads like the index of a book on nature: *bacter*, *species*, *telesc*, *plants*, *astronomers*. But among the {{n_domains}} domains in our collection, it is recipes that raise it most, ahead of astronomy and biology. {{?cooking}} Only two of its twelve highest tokens, *veget* and *lemon*, hint at a kitchen. {{?kitchen}}

So the ends of a column are a hint and no more. They show the strongest tokens, and most of these are rare. What raises this neuron most in recipes, once we count how often a word occurs, is {{drivers}}. {{?commoner}}

## Which columns should you read?

Nobody reads a thousand columns, so we rank the neurons by how far single tokens can push them {cite}`gibson2025decomposing`. In the example by hand, the largest contribution lies $7.5 - (7.5 + 0 - 0.625) / 3 = 5.2$ above the mean. In a real column one odd token should not decide, so we take the mean of the $K = 20$ largest contributions, and subtract the mean over all $V$ tokens:

$$
\begin{aligned}
\text{top}[j] &= \frac1K \sum_{\text{largest } K} \text{contribution}[t, j] \\
&\quad - \frac1V \sum_{\text{all } V} \text{contribution}[t, j] .
\end{aligned}
$$ (eq-neu-top)

How large is large? The paper's threshold is {{= 5 =}}, but tops have other units in other models. So we ask how far a neuron's top lies above the median of all tops, in standard deviations. (We use a robust kind that a few very large tops do not inflate; the factor {{= 1.4826 =}} makes it agree with the ordinary one for normally distributed numbers.)

$$
\begin{aligned}
\text{far}_j &= \text{top}[j] - \operatorname{median}_k \text{top}[k] , \\
z_j &= \frac{\text{far}_j}{1.4826\, \operatorname{median}_k \lvert \text{far}_k \rvert} .
\end{aligned}
$$ (eq-neu-z)

A neuron is **found** if $z_j > 2$. So neurons are found by weights alone, once the stable heads are chosen and the page is read that calibrates them. In the package, this is `cx.find_neurons(circuit)`.
"""

# %%
K, FAR = cx.neurons.LARGEST, cx.neurons.STANDS_OUT  # 20 tokens, 2 robust standard deviations


def top_of(columns, count=K):
    """Mean of the K largest entries less the mean: `token direction -> direction`."""
    return columns.topk(count, dim=0).values.mean(0) - columns.mean(0)


tops = top_of(contribution[counted])  # neuron
z = cx.neurons.robust_z(tops)
chosen = tops.topk(int((z > FAR).sum())).indices.tolist()  # the found, the largest top first

# %% [markdown]
r"""
In `{{model}}` this finds {{found}} of {{all}} neurons. Our neuron of planets, {{followed}}, is the {{place}} of them. {{?place}}

## Do the labels hold?

Now texts come in: half of them to choose a label for each neuron, the other half to judge it. The halves share no document. On half A we compare each neuron's mean summary inside and outside of every domain $d$,

$$
\begin{aligned}
\text{difference}_j(d) &= \operatorname*{mean}_{x \in d} \text{summary}_j(x) \\
&\quad - \operatorname*{mean}_{x \notin d} \text{summary}_j(x) ,
\end{aligned}
$$ (eq-neu-difference)

and the domain with the largest difference becomes the label. On half B we take all pairs of a text with the label and a text without it, and ask how often the first has the larger summary. This share is the **AUC**: one half for a label that means nothing, one for a perfect label.
"""

# %%
domains = np.intersect1d(kinds[A], kinds[B])
belongs = kinds == domains[:, None]  # domain text
bag = torch.zeros(len(x), len(ext)).scatter_add_(1, x, circuit.kernel.expand(len(x), -1))
averages = bag @ ext / circuit.scale  # text d_model; averages @ W_in is the summary


def difference(values, inside):
    """Mean inside each domain less the mean outside: `text direction -> domain direction`."""
    inside = inside.astype(float)
    within, without = (part @ values / part.sum(1, keepdims=True) for part in (inside, 1 - inside))
    return within - without


def judged(directions, averages=averages, on=B, belongs=belongs):
    """The label of each direction by half A, and how it fares on half B."""
    values = (averages @ directions).double().numpy()
    label = difference(values[A], belongs[:, A]).argmax(0)
    auc, pick = cx.neurons.auc(values[on], belongs[:, on]), (label, np.arange(len(label)))
    return pd.DataFrame({"label": domains[label], "auc": auc[pick]})


neurons = judged(W_in)

# %% [markdown]
r"""
The labels hold. On half B, {{sure}} of all neurons have an AUC above {{= 0.8 =}}. {{?labels_hold}} Neuron {{followed}} is labelled *{{its_label}}*, as its list suggests, and has an AUC of {{its_auc}}. {{?its_auc}} Here are the six neurons that can be pushed farthest. Neuron {{mixed}} mixes two subjects; its label names one.
"""

# %% tags=["hide-input", "nbval-check-output"]
shown = chosen[:6]
table = neurons.loc[shown].rename_axis("neuron")
table["auc"] = np.floor(1000 * table["auc"]) / 1000  # so that 1 would mean no error
table.insert(
    0, "raised most by", [", ".join(words(ends_of(contribution[:, j])[:6])) for j in shown]
)
table

# %% [markdown]
r"""
## Are neurons special?

What does the same search find where there is nothing to find? Row B is the fake: of as many mixtures as there are neurons, it is the one that single tokens push farthest. Scaled to the length of one neuron's weights, a mixture looks at the same inputs as the neurons do, but along an axis that training never chose. If training has put subjects into single neurons, so that they are *units*, neurons must beat mixtures. If it has only put them into the space that all neurons share, any axis through that space will do.
"""

# %%
chance = np.random.default_rng(0)
draws = [cb.nulls.mixtures(W_in, chance) for _ in range(DRAWS)]  # d_model mixture
null = pd.concat({k: judged(mixed) for k, mixed in enumerate(draws)})  # draw, mixture
# %% tags=["hide-input"]
blank = cb.nulls.untrained(weights)
at_blank = cx.fix_query(blank, n=n, token=TOKEN)
nothing = cx.ContextualCircuit.calibrate(at_blank, study.calibration_text, range(len(blank.W_Q)))
ext_blank, (W_blank, _) = nothing.extended_embedding(), blank.mlp_input()
bag_blank = torch.zeros_like(bag).scatter_add_(1, x, nothing.kernel.expand(len(x), -1))
averages_blank = bag_blank @ ext_blank / nothing.scale
untrained = judged(W_blank, averages_blank)
populations = {"neurons": neurons, "random mixtures": null, "an untrained layer": untrained}
figure, ((axis,),) = cb.figures.panels(height=2.6, width=7.0)
bins = np.linspace(0.3, 1, 71)
for k, (name, table) in enumerate(populations.items()):
    color = cb.figures.COLORS[(0, 1, 7)[k]]
    share = np.full(len(table), 1 / len(table))
    axis.hist(table["auc"], bins, weights=share, histtype="step", lw=1.8, color=color)
    at = (0.76, 0.76, 0.27)[k], (0.86, 0.72, 0.36)[k]
    axis.text(*at, name, color=color, ha="left" if k == 2 else "right", transform=axis.transAxes)
axis.set(xlabel="AUC of the label on half B", ylabel="share")
cb.figures.picture(
    figure,
    "6.2",
    f"How well do labels of half A tell the texts of half B apart? All neurons, {DRAWS} times as many random mixtures of them, and the neurons of a layer with random weights. The farther right, the better.",
    "Three histograms of AUC, median: "
    + ", ".join(f"{name} {table['auc'].median():.3f}" for name, table in populations.items())
    + ".",
)

# %% [markdown]
r"""
Neurons and mixtures lie on top of each other. {{?mixtures_too}} Training does matter, for with random weights only {{sure_blank}} of the labels get beyond {{= 0.8 =}}. {{?blank_worse}} But what training has made is a *space* in which texts lie sorted by subject, and along any axis some subject lies farther out than the others ([appendix D](D_superposition) asks why). Nor need it mean much that a search finds many neurons: in `{{model}}` and MiniLM more of them pass its threshold than of random mixtures, but in SmolLM2 about as many, and in Qwen far fewer (Evidence). {{?counts_decide_little}}

## Which neurons do beat mixtures?

Some subjects are easier to tell than others, so we compare like with like. A neuron *beats the mixtures* if its AUC is higher than that of {{= 95% =}} of the mixtures with the same label. A mixture passes this bar {{by_chance}} of the time, and that is chance. (It is less than {{= 5% =}}, because a tie does not count as a win. {{?by_chance}})
"""


# %%
def bounds(table, mixed=null):
    """For each direction the AUC that 95% of the mixtures of its own label do not pass."""
    return table["label"].map(mixed.groupby("label")["auc"].quantile(0.95))


def beats(table, mixed=null):
    """For each direction whether it beats the mixtures; none does with a label of no mixture."""
    return (table["auc"] > bounds(table, mixed).fillna(1)).to_numpy()


own = beats(neurons)  # neuron
text_sd = (averages[A] @ W_in).std(0).numpy()  # neuron
by_sd = np.argsort(-text_sd)[: len(chosen)].tolist()

# %% [markdown]
r"""
The found neurons are those that single *tokens* can push far. One can also ask which {{found}} neurons whole *texts* move most, by the standard deviation of their summaries over half A. The two questions make four groups. In each, how many neurons beat the mixtures?

| | texts move it far | texts do not |
|---|---|---|
| **found**: tokens can push it far | {{both}} of {{both_of}} ({{both_share}}) | {{pushed}} of {{pushed_of}} ({{pushed_share}}) |
| **not found** | {{moved}} of {{moved_of}} ({{moved_share}}) | {{neither}} of {{neither_of}} ({{neither_share}}) |

Neurons that tokens *and* texts move far beat the mixtures much more often than chance, which would give {{both_by_chance}} of the {{both_of}}. {{?both_by_chance}} With exactly one of the two properties it is about one in ten, and with neither that of chance. {{?one_tenth}} But we asked about texts only after a first look. We asked the same of four further models, which differ in how they represent positions, with a condition fixed in advance: it held in {{twins_hold}}, where three were required. {{?twins_fail}} So no rule of ours says which neurons are units.

Our neuron {{followed}} does not beat the mixtures: its AUC is higher than that of only {{its_beaten}} of those labelled *{{its_label}}*. {{?not_special}}

## What can go wrong

**The choice hangs on one head.** Without head {{restless}}, the least stable, only {{left}} of the {{found}} neurons are found again. Any other head can be left out, and at least {{least}} remain. {{?one_head}}

**The names at the ends are not the words that do the work.** In a typical found neuron, the {{k}} highest tokens make only {{by_end}} of what separates the texts of its label from the rest. {{?ends_carry_little}} The {{k}} tokens that do most of the work, by a measure that *Evidence* explains, make {{by_driven}}.

**A label is no better than the domains at hand.** Neuron {{example}} is called *{{label_example}}*, but a domain of kitchens, stars and plants together would fit it better. And in a large model the tops can mislead: punctuation and tokens that hardly occur in texts lead half of Qwen's first neurons (Evidence).

## Where this leaves us

Sorting a neuron's column suggests what it responds to, and labelled texts are needed to find out whether it does. Nearly every neuron passes that test, but so does nearly every other axis. So use the list as a table of contents: read the ends of a column, test its label on texts of your own, and hold it against mixtures before you call the neuron a unit.

<span id="turn-it"></span>Choose another neuron, or search for a token, such as <a href="#neurons.search=%20planets">planets</a>, to see the neurons that it moves.
"""

# %% tags=["hide-input"]
picture = draw(followed, "6.3")
cv.NeuronExplorer(weights, picture=picture, heads=list(heads), neuron=followed)

# %% [markdown]
r"""
We now have every piece of the method. How much code is it? [The next chapter](07_hundred_lines) needs a hundred lines.

## Exercises

1. *Break this.* Permute the domains among the texts, so that labels mean nothing, and judge the neurons again, once on half A and once on half B. Which of the two AUCs still says that neurons have subjects, and why?
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What do labels without meaning give?"}
shuffled = belongs[:, np.random.default_rng(0).permutation(len(kinds))]
of_nothing = {
    f"half {half}": judged(W_in, on=on, belongs=shuffled)["auc"].median()
    for half, on in (("A", A), ("B", B))
}
pd.DataFrame({"median AUC": of_nothing}).round(2)

# %% [markdown]
r"""
```{admonition} Solutions
:class: dropdown

1. That of half A. The best of {{n_domains}} labels was picked there, so it lies above one half even if labels mean nothing. On half B it is one half. This is why labels have to be judged on texts that had no part in choosing them.
```

## Evidence

**What was fixed in advance.** A neuron may be found for a dull reason: because its weights are large, because everything moves it, or because any layer of this shape has such neurons. Before we drew any mixture or random set, we wrote down four conditions that should fail if the reason is a dull one. Three compare the {{found}} neurons that are found with others. The fourth compares their median AUC with that of as many neurons found in a layer with random weights.

| the found neurons should ... | because otherwise | what came |
|---|---|---|
| beat mixtures more often than the {{found}} neurons with the longest input weights | large weights are enough | {{own_found}} against {{own_long}}: met |
| beat them more often than {{= 95% =}} of {{sets}} random sets of neurons with like length | large weights are enough, neuron by neuron | {{own_found}} against {{own_like}} ({{= 95% =}} of the sets have no more): met |
| beat them more often than the {{found}} neurons that texts move most | what varies is enough | {{own_found}} against {{own_wide}}: **not met** |
| have a larger AUC than in a layer with random weights | any layer has such neurons | larger by {{gain}}: met |

A fifth, about four other models, stands at the end of this section; all else in this chapter was observed. {{?met}} {{?not_met}} An earlier version of the chapter asked three more, which are not counted here. Two were met when we last computed them. If only some neurons may serve as probes of the domains {cite}`gurnee2023finding`, less AUC is lost with the found ones than with random sets; and the found ones hold more of the best single probes than sets of like length do. The third, set after the fact, failed: they were to hold twice as many. And by plain AUC the found do not sort texts better than mixtures do; the medians differ by {{plain}}. {{?plain}}

Texts move {{mixtures_of}} mixtures as far as the neurons of that table, and {{mixtures_out}} of these beat the other mixtures. {{?mixtures_no_more}} So that texts move a direction far is not enough.
"""


# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Are the found better than random sets of neurons?"}
def auc_of(directions, label, averages=averages):
    """The AUC of each direction for its label, as a function of the texts drawn from half B."""
    values, inside = (averages[B] @ directions).double().numpy(), belongs[:, B]
    pick = label, np.arange(len(label))
    return lambda drawn: cx.neurons.auc(values[drawn], inside[:, drawn])[pick]


label, label_null, label_blank = (
    np.searchsorted(domains, table["label"]) for table in (neurons, null, untrained)
)
lengths = W_in.norm(dim=0)  # neuron
by_length = lengths.topk(len(chosen)).indices.tolist()
of_like = own[cb.nulls.random_sets(chosen, len(tops), SETS, like=lengths)].sum(1)  # set
found_blank = top_of(ext_blank @ W_blank).topk(len(chosen)).indices.tolist()
auc_found = auc_of(W_in[:, chosen], label[chosen])
auc_blank = auc_of(W_blank[:, found_blank], label_blank[found_blank], averages_blank)
auc_mixed = auc_of(draws[0][:, :250], label_null[:250])
less = lambda other: lambda d: float(np.nanmedian(auc_found(d)) - np.nanmedian(other(d)))
gain, plain = (cb.with_interval(less(of), of_B, 99, cb.WIDER) for of in (auc_blank, auc_mixed))

# of a mixture the other draws judge
rest = [null.drop(index=k, level=0) for k in range(DRAWS)]
own_mixed = np.concatenate([beats(null.loc[k], mixed) for k, mixed in enumerate(rest)])
sd_mixed = torch.cat([(averages[A] @ mixed).std(0) for mixed in draws]).numpy()
as_wide = own_mixed[sd_mixed >= float(text_sd[by_sd].min())]


def four_groups(won, by_tokens, by_texts):
    """Which neurons beat mixtures, of those that both tokens and texts move far, one, or neither."""
    pushed, moved = (np.isin(np.arange(len(won)), ids) for ids in (by_tokens, by_texts))
    masks = pushed & moved, pushed & ~moved, ~pushed & moved, ~pushed & ~moved
    names = "both", "pushed", "moved", "neither"
    return {name: won[mask] for name, mask in zip(names, masks, strict=True)}


groups = four_groups(own, chosen, by_sd)

# %% [markdown]
r"""
**Do the four groups come back in other trainings?** The groups of `mini` were made after a look, so we ask four [twins](13_families). They were trained alike, in another run than `mini`, with four kinds of positions. (`mini-base` has learned ones, as `mini` does.) Fixed before any was asked: the neurons that tokens and texts both move far are a place to look for units if, in at least three of the four, they beat mixtures more often than each of the other three groups, and more often than chance allows one time in a hundred. {{?twins_fail}} In `mini-rotary` those that tokens alone move far do better, and in `mini-none` ours do best, but not beyond what chance allows. {{?twins_as_said}}
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The four groups in four twins"}
def grouped(name):
    """For each group of a twin's neurons, how many beat its mixtures. Twins read mini's tokens."""
    twin = cx.study(cx.load(name), texts, TOKEN)
    of, W = twin.circuit, twin.fixed.readout.W_in
    into = of.extended_embedding() / of.scale
    bag = torch.zeros(len(x), len(into)).scatter_add_(1, x, of.kernel.expand(len(x), -1))
    told, rng = bag @ into, np.random.default_rng(0)
    mixed = pd.concat([judged(cb.nulls.mixtures(W, rng), told) for _ in range(DRAWS)])
    won, found = beats(judged(W, told), mixed), cx.find_neurons(of).index
    wide = np.argsort(-(told[A] @ W).std(0).numpy())[: len(found)]
    ours = four_groups(won, found, wide)
    both, *others = ours.values()
    by_chance = stats.binom.ppf(0.99, len(both), beats(mixed, mixed).mean())
    holds = both.mean() > max(g.mean() for g in others) and both.sum() > by_chance
    return {k: f"{g.sum()} of {len(g)}" for k, g in ours.items()} | {"holds": bool(holds)}


ASKED = ("mini-base", "mini-rotary", "mini-alibi", "mini-none") * (MODEL == "mini")
in_twins = pd.DataFrame({name: grouped(name) for name in ASKED}, index=[*groups, "holds"])
in_twins.rename_axis("beat mixtures")

# %% [markdown]
r"""
**How many are found in other models?** The share of neurons and of random mixtures that pass the threshold, in `{{model}}` and in three models that people use ([chapter 8](08_real_model)). For each of the three, {{of_real}} mixtures were drawn; the tops of its neurons are kept from the model itself (`tools/evidence/real_models.py` makes them again).
"""


# %% tags=["hide-input", "nbval-check-output"]
def tops_of_mixtures(circuit, mixed):
    """The largest contributions to some mixtures, as `top_of` has it."""
    z = circuit.weighted_values[~circuit.fixed.decomposition.untrained].flatten(1)
    into = circuit.fixed.readout.W_O[list(circuit.heads)].flatten(0, 1) @ mixed / circuit.scale
    return torch.cat([top_of(z @ part) for part in into.split(128, dim=1)])


kept = json.loads(cb.evidence("real.json").read_text())["models"]
kept_tops = load_file(cb.evidence("real.safetensors"))  # of all neurons, from the models themselves
of_model = {MODEL: (tops, tops_of_mixtures(circuit, torch.cat(draws, 1)))}
for name, called in {"minilm": "MiniLM", "smollm2": "SmolLM2", "qwen": "Qwen"}.items():
    fixed, facts = cx.fix_query(name), kept[name]
    page = next(p for p in cx.texts.passages(fixed) if p.name == facts["calibrating"])
    made, W = cx.ContextualCircuit.calibrate(fixed, page, facts["heads"]), fixed.readout.W_in
    mixed = tops_of_mixtures(made, cb.nulls.mixtures(W, count=OF_REAL))
    of_model[called] = kept_tops[f"{name}.top"], mixed
counts = {}
for name, (own_tops, mixed_tops) in of_model.items():
    passed = cx.neurons.robust_z(own_tops) > FAR
    theta = float(own_tops[passed].min() + own_tops[~passed].max()) / 2
    found_of = (float((of > theta).float().mean()) for of in (own_tops, mixed_tops))
    counts[name] = (len(own_tops), int(passed.sum()), *found_of)
columns = ["neurons", "found", "share of neurons", "share of mixtures"]
counts = pd.DataFrame.from_dict(counts, "index", columns=columns)
counts.assign(**{c: counts[c].map("{:.0%}".format) for c in columns[2:]})

# %% [markdown]
r"""
**The first eight neurons of Qwen**, with none left out. Four are easy to name: scripture, football in Chinese (*score*, *defender*, *penalty area*), courts, and gestures in novels. {{?four_named}} The others are led by punctuation and by debris of web pages, such as `.IContainer` and 凡本网 (*all on this site*). The [welcome page](00_welcome) shows some of these neurons by tokens that do occur in its texts, so that its lists differ.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The columns of Qwen"}
first_of = own_tops.topk(8).indices  # of Qwen, the last of them
columns = made.contribution_to(first_of.tolist())  # neuron vocab
columns[:, fixed.decomposition.untrained] = -torch.inf
raised = [", ".join(words(ids, fixed)) for ids in columns.topk(8).indices]
pd.DataFrame({"raised most by": raised}, index=pd.Index(first_of.tolist(), name="neuron"))

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "How many neurons are found again without a head?"}
restless = max(heads, key=lambda h: study.head_table["coefficient of variation"][h])
without = {}
for head in heads:
    left = [h for h in heads if h != head] or heads
    text = cx.denominators.most_typical_text(study.fixed, study.prose, left)
    made_without = cx.ContextualCircuit.calibrate(study.fixed, text, left)
    ranked = top_of(made_without.extended_embedding()[counted] @ W_in).topk(len(chosen)).indices
    without[head] = len({*ranked.tolist()} & {*chosen})  # the scale s changes no order
bare = without.pop(restless)
least = min(without.values(), default=0)

# %% [markdown]
r"""
**Which tokens does a label rest on?** The texts of a label have a larger mean summary than the others, and each token has a part in this difference, which we call its **drive**: how much more it adds to the neuron than the average token, times how much more of the kernel's weight falls on it in texts of the label. Over all tokens the drives add up to the difference. We measure drive on half A and test its tokens on half B. In the median of the found neurons, the {{k}} tokens of largest drive carry {{by_driven}} of the difference. Of the tokens at the upper ends of the columns, {{ends_used}} are used more in texts of the label than elsewhere; with labels permuted, {{ends_permuted}}. {{?ends_hint}}
"""

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "How much do the far ends carry, and how much does drive?"}
gap_A, gap_B = (
    torch.from_numpy(difference(bag[half].numpy(), belongs[:, half])).to(ext.dtype)
    for half in (A, B)
)  # domain vocab; p(t | label) - p(t | rest)
usual = bag[A].mean(0)  # vocab; p(t) over half A


def driven(columns, label, gap=gap_A):
    """What each token adds to the label's difference: `vocab direction`."""
    return (columns - usual @ columns) * gap[label].T


def farthest(columns, count=K):
    """The tokens of largest entry: `vocab direction -> count direction`."""
    return columns.masked_fill(~counted[:, None], -torch.inf).topk(count, dim=0).indices


columns, of = contribution[:, chosen], label[chosen]
far_end, on_B = farthest(columns), driven(columns, of, gap_B)
agree = lambda label: float((gap_B[label].T.gather(0, far_end) > 0).double().mean())
carried = lambda ids: float((on_B.gather(0, ids).sum(0) / on_B.sum(0)).quantile(0.5))
drivers = farthest(driven(contribution[:, [example]], label[[example]]), 5)[:, 0]  # its own
used, by_end, by_driven = agree(of), carried(far_end), carried(farthest(driven(columns, of)))
permuted = float(np.mean([agree(other) for other in cb.nulls.permuted(of, 100, 0)]))
# %% [markdown]
r"""
All neurons are one file, with their five strongest tokens and the five of largest drive. In it, *null* is the AUC that one in twenty mixtures of the same label exceeds.
"""

# %% tags=["hide-input"]
by_column, by_drive = (farthest(of, 5).T for of in (contribution, driven(contribution, label)))
table = (
    neurons.assign(
        null=bounds(neurons),
        top=tops,
        z=z,
        far_end=[" ".join(words(ids)) for ids in by_column],
        by_drive=[" ".join(words(ids, bare=False)) for ids in by_drive],
    )
    .rename_axis("neuron")
    .sort_values("top", ascending=False)
)
coded = base64.b64encode(table.round(3).to_csv().encode()).decode()
href = f'<a download="neurons.csv" href="data:text/csv;charset=utf-8;base64,{coded}">'
link = f"{len(table)} neurons as a table (CSV)"
display({"text/html": f"<p>{href}{link}</a></p>", "text/plain": link}, raw=True)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
by_chance = float(own_mixed.mean())
both, *one, neither = groups.values()
one = np.concatenate(one)
p_both = stats.binomtest(int(both.sum()), len(both), by_chance, "greater").pvalue
its_auc = neurons["auc"][followed]
same_label = null["auc"][null["label"] == neurons["label"][followed]]
hook = {"first": followed, "second": chosen[0], "third": chosen[2], "example": example}
by_domain = pd.Series(summary[B][:, example].numpy()).groupby(kinds[B]).mean()
by_domain = by_domain.sort_values(ascending=False)
own_found, own_wide, own_long = (int(own[ids].sum()) for ids in (chosen, by_sd, by_length))
own_like = int(np.quantile(of_like, 0.95, method="lower"))
sure = [float((table["auc"] > 0.8).mean()) for table in populations.values()]


def no_more(group):
    """No more beat the mixtures than chance gives."""
    return group.sum() <= stats.binom.ppf(0.95, len(group), by_chance)


percents = {"sure": sure[0], "sure_mixed": sure[1], "sure_blank": sure[2]}
percents |= {f"{name}_share": group.mean() for name, group in groups.items()}
percents |= {"ends_used": used, "ends_permuted": permuted, "by_end": by_end}
percents |= {"by_driven": by_driven, "its_beaten": (same_label < its_auc).mean()}
whole = {name: int(group.sum()) for name, group in groups.items()}
whole |= {f"{name}_of": len(group) for name, group in groups.items()}
whole |= {"found": len(chosen), "all": len(tops), "k": K, "n_domains": len(by_domain)}
whole |= {"all_beat": int(own.sum()), "all_by_chance": round(by_chance * len(own))}
whole |= {"own_found": own_found, "own_long": own_long, "own_wide": own_wide, "own_like": own_like}
whole |= {"mixtures_of": len(as_wide), "mixtures_out": int(as_wide.sum()), "sets": SETS}
whole |= {"restless": restless, "left": bare, "least": least, "of_real": OF_REAL}
farthest_mixture = top_of((ext @ draws[0])[counted]).argmax()
rows = {name: contribution[:, j] for name, j in hook.items()}
rows["mixture"] = ext @ draws[0][:, farthest_mixture]
listed = {
    f"{name}{end}": ", ".join(words(ends_of(column, 5, 4))[part])
    for name, column in rows.items()
    for end, part in (("_high", slice(5)), ("_low", slice(None, -5, -1)))
}
cb.facts(
    "neurons",
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    **whole,
    **listed,
    model=MODEL.rpartition("/")[2],
    followed=followed,
    few_beat=own.mean() < 1 - cb.NEARLY_ALL,
    neurons=cb.fact(len(own), ","),
    labels_hold=sure[0] > cb.NEARLY_ALL,
    mixtures_too=sure[1] > cb.NEARLY_ALL,
    blank_worse=sure[2] < cb.MOST,
    place=cb.fact(1 + int((tops > tops[followed]).sum()), "ordinal", holds=followed in chosen),
    its_label=str(neurons["label"][followed]),
    its_auc=cb.fact(its_auc, holds=its_auc > 0.9),
    not_special=not own[followed],
    by_chance=cb.fact(by_chance, ".1%", holds=by_chance < 0.05),
    both_by_chance=cb.fact(round(by_chance * len(both)), "words", holds=p_both < 0.001),
    one_tenth=abs(one.mean() / 0.1 - 1) < cb.ABOUT and no_more(neither),
    mixtures_no_more=no_more(as_wide),
    counts_decide_little=counts.query("`share of neurons` < `share of mixtures`").index.tolist()
    == ["SmolLM2", "Qwen"],
    mixed=str(shown[3]),
    example=str(example),
    label_example=str(neurons["label"][example]),
    cooking=[*by_domain.index[:3]] == ["cooking", "astronomy", "biology-medicine"],
    easy=[*neurons["label"][[*hook.values()][:3]]] == ["astronomy", "biology-medicine", "cooking"],
    drivers=cb.listed(f"*{word}*" for word in words(drivers) if word.isalpha()),
    kitchen={"veget", "lemon"} < {*words(ends_of(contribution[:, example], 12, 0)[:12])},
    four_named={2985, 8130, 5300, 7508} < {*first_of.tolist()},
    commoner=float(usual[drivers].min())
    > float(usual[ends_of(contribution[:, example], 5, 0)[:5]].max()),
    ends_hint=used > 2 * permuted,
    ends_carry_little=by_driven > 2 * by_end,
    twins_hold=cb.fact(int(in_twins.loc["holds"].sum()), "words"),
    twins_fail=len(ASKED) == 4 and in_twins.loc["holds"].sum() < 3,
    twins_as_said=[*in_twins.columns[~in_twins.loc["holds"].astype(bool)]] == [*ASKED[1::2]],
    one_head=bare < cb.MOST * len(chosen) and least > cb.NEARLY_ALL * len(chosen),
    met=cb.nulls.p_value(own_found, of_like) < 0.05 and own_found > own_long and gain.low > 0,
    not_met=own_found <= min(own_wide, 2 * np.quantile(of_like, 0.975)),
    gain=f"{gain:.3f}",
    plain=cb.fact(f"{plain:.3f}", holds=plain.low < 0),
)

# %% [markdown]
r"""
**What the sources say of GPT-2 small.** Three published claims cannot be tested on `mini`. The paper's threshold has no meaning in `mini`'s units. One mixture in twenty already has a perfect AUC, so no neuron can exceed that line. And no neuron is silent on the whole calibration text, as some are in large models {cite}`voita2024neurons`. To ask this of Qwen takes the model itself, at every position of the text, and a stored layer holds one position.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger: published claims, judged"}
hook = "blocks.0.mlp.hook_pre"
_, run = model.run_with_cache(
    study.calibration_text.tokens[None, : study.length], names_filter=hook, stop_at_layer=1
)
silent = (run[hook][0].cpu() <= 0).all(0)  # neuron
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


PAPER = 5.0  # the paper's threshold
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
## Where this comes from

Ranking neurons by their largest contributions, the threshold, the care about glitch tokens and about neurons that are silent on the calibration text are from {cite:t}`gibson2025decomposing`. The remark that what heads write need not line up with single neurons is from the earlier post {cite}`gibson2025contextual`. Single neurons as probes, and context neurons by that name, are from {cite:t}`gurnee2023finding`. Reading a neuron from both ends of a sorted list, drive, and mixtures as the null of a label are this book's choices. Of the neurons of GPT-2 models, {{= 1 to 5% =}} recur under other seeds {cite}`gurnee2024universal`; whether the few that stand out are of that kind was not tested.
"""
