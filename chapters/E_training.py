# %% [markdown]
r"""
# What would another training change?

**Another random start gives other neurons, and almost exactly the same map of the subjects.** {{?other_neurons}} We trained a model of four layers three times, from different random weights, and looked at its first layer. The map says which subjects lie near which in what the heads add, and the maps of any two trainings correlate by {{map}} or more. {{?same_map}} These maps are of the same documents. From documents that they do not share, `{{model}}` and a model with the same start make maps that agree by {{apart}}; two maps of one and the same model agree by {{apart_itself}}. {{?documents_matter}} Counted words agree with the trained map by {{words}} at most. {{?learned}} A neuron has no twin: its best match in another training correlates by {{match}} in the median, and its best match among random mixtures of that training's neurons by {{mixed}}. By the test that we had fixed in advance, this difference of a hundredth would count as found again; we think it too small. {{?by_a_hair}} And the map was to be there after {{= 1% =}} of the training, and is not. {{?map_not_there_yet}}

Training begins with random weights, and a **seed** says which. Suppose we train the same model once more with another seed, on the same texts in the same order. Before you read on, guess what comes back: the neurons, the subjects, or neither?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To match the neurons of GPT-2 with those of a model of its size, set MODEL = "gpt2" and OTHER, and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
OTHER = "mini-base"  # the model that it is matched with, of the same vocabulary
TEXTS = 500  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token
TURNS = 5  # random rotations that mix the other model's neurons

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, two models, and what is kept of the others"}
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import normalize

import ctxbook as cb
import ctxlib as cx

model, other = cx.load(MODEL), cx.load(OTHER)
kept, doses = (json.loads(cb.evidence(f"{name}.json").read_text()) for name in ("training", "dose"))
SEEDS, BINS = ("base", "seed-1", "seed-2"), np.linspace(0, 1, 41)
study, own_study = (
    cx.study(of, TEXTS, TOKEN, list(range(of.cfg.n_heads))) for of in (model, other)
)
domain, x = np.array([t.domain for t in study.texts]), study.fixed.prepare(study.texts)
often = x[:, 1:].flatten().bincount(minlength=study.fixed.d_vocab).double()
share = {"tokens": often / often.sum(), "texts": torch.full((len(x),), 1 / len(x)).double()}


def heads_add(fixed):
    """What the heads add to each neuron, in truth: `text neuron`."""
    return torch.cat([fixed.exact_summary(of, range(fixed.n_heads)) for of in x.split(100)])


# what tokens add to neurons, `token neuron`, and what the heads add in texts, `text neuron`
ours, theirs = (
    {"tokens": of.circuit.contribution, "texts": heads_add(of.fixed)} for of in (study, own_study)
)
print(study)

# %% [markdown]
r"""
All of these models have four layers, as `mini` has; of base, as of the other twins of [chapter 13](13_families), the book keeps the first. *Base* (seed {{= 0 =}}), seed {{= 1 =}} and seed {{= 2 =}} share all but the seed, and have read {{= 10 =}} million tokens. `{{model}}` began as base did and read five times as much. Of seeds {{= 1 =}} and {{= 2 =}} only measurements are kept (`tools/evidence/training.py` makes them again).

## When is a neuron the same?

Neuron {{= 298 =}} of one training is not neuron {{= 298 =}} of another, because their order means nothing. So we look for the most similar one. But similar to what degree? Suppose that two neurons of one training read the directions $(1, 0)$ and $(0, 1)$, and two of another $(0.7, 0.7)$ and $(0.7, -0.7)$. Both pairs read the same plane. Each neuron of the first then has a match of {{= 0.7 =}} in the second, only because both read this plane. So a high match says something about the plane, and nothing yet about the neurons.

Write $c_j$ for a neuron's column, what each token adds to it. Its **match** in the other model, whose columns are $c'_k$, is

$$
\text{match}(j) = \max_k \; \operatorname{corr}(c_j,\, c'_k) .
$$ (eq-seed-match)

We compare it with **random mixtures**, the other model's neurons turned by a random rotation $Q$. They are as many and read the same space {cite}`gurnee2024universal`. Only what a match exceeds theirs by is due to the neurons. Both come from covariances, because mixing the neurons mixes the covariances. The same is asked over texts, with what the heads add to a neuron in each text in the place of its column.
"""


# %%
def covariances(a, b, weight):
    """`neuron neuron` of a with a, a with b, b with b; rows are tokens or texts."""
    a, b = ((v.double() - weight @ v.double()) * weight.sqrt()[:, None] for v in (a, b))
    return a.T @ a, a.T @ b, b.T @ b


def match(aa, ab, bb):
    """`neuron`: the highest correlation with a neuron of the other model."""
    return (ab / (aa.diagonal()[:, None] * bb.diagonal()).sqrt()).max(1).values


def mixtures(aa, ab, bb, turns):
    """`turn neuron`: the same, when a rotation mixes the other model's neurons."""
    return torch.stack([match(aa, ab @ Q, Q.T @ bb @ Q) for Q in turns])


dice = torch.Generator().manual_seed(0)
shape = TURNS, theirs["texts"].shape[1], theirs["texts"].shape[1]
turns = torch.linalg.qr(torch.randn(shape, generator=dice, dtype=torch.double)).Q
here = {}
for over, weight in share.items():
    C = covariances(ours[over], theirs[over], weight)
    here[over] = [float(v.median()) for v in (match(*C), *mixtures(*C, turns))]

# %% tags=["hide-input"]
seed_1, past = kept["pairs"]["base, seed-1"], kept["pairs"]["base, itself at 30%"]
figure, (axes,) = cb.figures.panels(1, 2, height=2.8, width=8.2, sharex=True)
for axis, over in zip(axes, share, strict=True):
    mixed, own, before = seed_1[over]["of mixtures"], seed_1[over]["match"], past[over]["match"]
    axis.stairs(mixed, BINS, fill=True, color=cb.figures.INK, alpha=0.2, label="mixtures of seed 1")
    axis.stairs(own, BINS, color="C0", lw=1.8, label="seed 1")
    axis.stairs(before, BINS, color="C1", lw=1.4, ls="--", label="its own past")
    axis.set(title=f"over {over}", xlabel="best match of a neuron")
    axis.grid(visible=False)
axes[0].set_ylabel("neurons of base")
axes[0].legend(fontsize=8)
medians = "; ".join(f"over {k}: seed 1 {seed_1[k]['median']}, mixtures {seed_1[k]['median of mixtures']}, own past {past[k]['median']}" for k in share)  # fmt: skip
cb.figures.picture(
    figure,
    "E.1",
    "Of each neuron of base: its best match in the training with seed 1 (line), in random mixtures of that training's neurons (filled), and in base itself after 30% of its training (dashed).",
    f"Two panels of three histograms. Medians {medians}.",
)

# %% [markdown]
r"""
The two histograms of seed {{= 1 =}} lie on top of each other. None of {{= 20 =}} draws of mixtures comes as near as the neurons, so by the test that we had fixed in advance they count as found again; that a hundredth is too little we decided later. {{?by_a_hair}} The measure does recognise a neuron where there is one to recognise. Base after {{= 30% =}} of its training matches its own end by {{past}} over tokens, where mixtures reach {{past_mixed}}. {{?recognises}} Nor is a common start enough, since `{{model}}`, which began from the weights of base, matches it by {{here}} and mixtures of it by {{here_mixed}}. {{?start_is_not_enough}} Models that are larger share some neurons between seeds, about {{= 1 to 5% =}} {cite}`gurnee2024universal`; whether ours share so few cannot be seen (see Evidence).

## The map comes back

If not the neurons, what do two trainings share? The heads put each text at a point, whose coordinates are what they add to the neurons. For each of the {{domains}} domains we take the mean point of its texts, less the mean of all domains. The cosines between these means are a map, and it does not depend on the axes.
"""


# %%
def geometry(points, texts=slice(None)):
    """The cosines between the domains' means over these texts: `domain domain`."""
    names = np.unique(domain)
    means = torch.stack([points[texts][domain[texts] == name].mean(0) for name in names])
    means = normalize(means - means.mean(0), dim=1)
    return (means @ means.T).double().numpy()


pairs = np.triu_indices(len(np.unique(domain)), 1)


def agreement(a, b):
    """The correlation of two maps over pairs of domains."""
    return float(np.corrcoef(a[pairs], b[pairs])[0, 1])


counts = torch.zeros(len(x), study.fixed.d_vocab)
counts.scatter_add_(1, x[:, 1:], torch.ones(x[:, 1:].shape))
of_words = {"counts": counts, "roots": counts.sqrt(), "logarithms": counts.log1p()}
of_words = {name: geometry(of) for name, of in of_words.items()}

# %% tags=["hide-input", "nbval-check-output"]
map_ours, map_theirs = geometry(ours["texts"]), geometry(theirs["texts"])
halves = cb.half_masks(study.texts)  # no document is in both
of_halves = [[geometry(of["texts"], half) for half in halves] for of in (ours, theirs)]
apart_maps = [agreement(of_halves[0][k], of_halves[1][1 - k]) for k in (0, 1)]
apart_itself = [agreement(*maps) for maps in of_halves]
weights = own_study.fixed.decomposition.weights
blank, words_alone = [], []  # maps of random layers, and of such with the trained embeddings
for seed in range(3):
    layer = cb.nulls.untrained(weights, seed)
    for maps, one in (
        (blank, layer),
        (words_alone, replace(layer, W_E=weights.W_E, W_pos=weights.W_pos)),
    ):
        maps.append(geometry(heads_add(cx.fix_query(one, n=study.n, token=TOKEN))))
by_words = {k: agreement(v, map_theirs) for k, v in of_words.items()}
shown = {
    f"{MODEL}, the same documents": agreement(map_ours, map_theirs),
    f"{MODEL}, other documents": min(apart_maps),
    "base itself, other documents": apart_itself[1],
    "base's embeddings, random numbers elsewhere": max(
        agreement(v, map_theirs) for v in words_alone
    ),
    "counted words": max(by_words.values()),
    "random numbers": max(agreement(v, map_theirs) for v in blank),
}
pd.Series(shown).round(2).to_frame("agreement with base's map")

# %% [markdown]
r"""
The maps of any two seeds agree by {{map}} or more over the {{pair_count}} pairs. {{?same_map}} Relabelled domains reach {{relabelled}} in the best of {{= 1,000 =}} draws. Could so much come without learning? Layers with random weights agree with one another by {{blank_each_other}} or more, so agreement alone is no sign of it. But theirs is the map of counted words, and it agrees with the trained one by {{blank}} only; the counts themselves come to {{words}} in the best of three ways to count. {{?learned}}

Does it need the same documents? Half A and half B share none. It was fixed before this was computed that the map is of the subjects, and not of these documents, if `{{model}}` on one half and base on the other agree by {{= 0.9 =}}, and if one training with itself, on the two halves, agrees by no more than {{= 0.05 =}} better. They agree by {{apart}} or more, and one training with itself by {{apart_itself}} at most, so what is lost is the documents', not the training's. {{?documents_matter}} (`{{model}}` began as base did. Of the other seeds only maps of the same documents are kept.)

Perhaps the map lies in the embeddings, which the heads merely average? We gave layers base's embeddings of tokens and positions with random numbers for everything else. It was fixed before this was computed that the embeddings are not enough if none of three such maps agrees with base's by {{= 0.9 =}}. The best comes to {{embedded}}. {{?not_embeddings}} So the trained map is learned, not by the embeddings alone, and each training learns the same one.

When is it learned? After {{= 1% =}} of their training the seeds agree with one another by {{young_map}} or more, but with base's end by {{young_end}} at most, where we had required {{= 0.9 =}}. {{?map_not_there_yet}} That the seeds share an early map was asked with the answer known. The points of the texts come back; the axes on which the neurons read them are drawn anew. A list of neurons, such as that of [chapter 6](06_neurons), is about one training, and what the heads add to all neurons together is not.

## What needs no training

The circuit needs heads that look broadly and denominators that hardly vary. Training does not bring these about. Random weights give small scores, so kernels start even and denominators constant, and what training adds works against both: the correlation of the circuit with the truth falls, from {{young_r}} after {{= 1% =}} of the training to {{base_r}} in base, and to {{mini_r}} in `mini`. {{?training_works_against}}

## What can go wrong

**A steadier scale did not help the circuit.** Two more models were trained with a loss term that holds LayerNorm's scale steady, which Equation 1 takes to be steady. Its rows came out better, as we had forecast, but the circuit's correlation was to rise and it fell, from {{r_0}} to {{r_3}}. {{?circuit_gains_nothing}} Of {{asked}} conditions that were fixed in advance {{met}} hold and {{not_met}} fail (see Evidence).

**Three trainings are few.** These are three trainings of one small architecture on one corpus, asked with one query token. The seeds share the order of the texts, and we have not tried another order. Larger models may differ. The work on universal neurons also compares whole activations, after the nonlinearity, where we look at what the first heads add before it.

## Where this leaves us

To say something that another training would confirm, speak of the map and of sets of neurons ([appendix D](D_superposition) reads them so). The number of a neuron is a name in one model.

## Exercises

1. *Predict, then run.* Match a neuron of base in base with its columns shuffled over tokens. Which correlation do you expect over tokens, and which over texts? Why is neither zero?
2. *Fill in* {eq}`eq-seed-match` for neuron {{= 0 =}} of one model over texts, from the covariances `aa`, `ab` and `bb`.
"""

# %%
aa, ab, bb = covariances(ours["texts"], theirs["texts"], share["texts"])
mine = ...  # one number

# %% tags=["hide-input", "nbval-check-output"]
right = mine is not ... and abs(float(mine - match(aa, ab, bb)[0])) < 1e-6
print("right" if right else "not yet")

# %% [markdown]
r"""
3. *Prove* that linear CKA, $\lVert C_{ab} \rVert^2 / (\lVert C_{aa} \rVert \lVert C_{bb} \rVert)$ with Frobenius norms of covariances, does not change when either model's neurons are rotated.

```{admonition} Solutions
:class: dropdown

1. The largest of a thousand correlations is never zero. Over tokens it is what chance gives among a thousand vectors in so many dimensions. Over texts it is far more, because what texts differ in has few dimensions.
2. `mine = (ab[0] / (aa[0, 0] * bb.diagonal()).sqrt()).max()`
3. With $b \to b\,Q$ the covariances become $C_{ab} Q$ and $Q^\top C_{bb} Q$, and Frobenius norms do not see an orthogonal $Q$.
```

## Evidence

**All pairs.** The test fixed in advance asked whether another seed's median match exceeds that of every one of {{= 20 =}} rotations. Over tokens it does in all three pairs, by a hundredth. Over texts what is kept has two digits, in which neurons and mixtures are equal. {{?by_a_hair}} CKA compares whole spaces, whatever their axes {cite}`kornblith2019similarity`. *Universal* is the share of neurons that exceed mixtures by {{= 0.5 =}}. Over tokens no neuron does, and no neuron of base's own past does either. Over texts mixtures match so well that there is no room for {{= 0.5 =}} more, so the line of the ledger cannot be asked. {{?no_room}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Match, mixtures and CKA of all pairs"}
table = {(name, over): of[over] for name, of in kept["pairs"].items() for over in of}
pd.DataFrame(table).T.drop(columns=["match", "of mixtures"]).astype(float)

# %% [markdown]
r"""
**A steadier scale.** Two more models were trained as base was, with a term in their loss that holds LayerNorm's scale steady: {{= 1 =}} or {{= 3 =}} times the variance of $\log \ell_i$, the length of token and position together. Equation 1 errs where this scale varies ([appendix A](A_scale)). To first order, its error in a score is the content part times $\log (\ell_i / \ell_i^n)$ and the positional part times $\log (\ell_i / \bar\ell_i)$. A **forecast** draws the two logarithms at random, with the standard deviations that they have, and nothing else is known of them. The attention that Equation 1 puts in the wrong place (TV) falls from {{tv_0}} to {{tv_3}}, within a factor of {{factor}} of the forecast. {{?dose_works}} Equation 1 is the smallest of the circuit's approximations, so mending it mends little. (Of the strongest term, the correlation and the range of TV were known from an earlier look.)
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What was fixed in advance about a steadier scale, and whether it holds"}
dosed = pd.json_normalize([doses[name] for name in ("base", "steady-1", "steady-3")])
dosed["1 - circuit.r"] = 1 - dosed["circuit.r"]
to_fall = ["spread", "Equation 1.TV", "both repairs.TV", "Equation 1.FVU", "1 - circuit.r", "circuit.FVU"]  # fmt: skip
forecast = ["Equation 1.TV", "BOS by its own key.TV", "both repairs.TV"]
forecast += ["Equation 1.FVU", "both repairs.FVU", "circuit.FVU"]
off = {of: dosed[of] / dosed[f"forecast.{of.rpartition('.')[2]}"] for of in forecast}
off = np.exp(np.log(pd.DataFrame(off)).abs().max())  # the largest of three
conditions = pd.concat(
    {
        "falls with the strength of the term": (dosed[to_fall].diff()[1:] < 0).all(),
        "forecast within a factor of 1.5": off <= 1.5,
    }
)
conditions.map({True: "yes", False: "no"}).to_frame("holds")

# %% [markdown]
r"""
**The ledger.** In all three seeds every head is stable. {{?all_stable}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
ends = pd.DataFrame({name: kept["models"][f"{name}-100"] for name in (*SEEDS, "mini")}).T
base, start, of_seeds = ends.loc["base"], kept["models"]["base-001"], ends.loc[list(SEEDS)]
room = max(v["texts"]["median of mixtures"] for v in kept["pairs"].values()) < 0.5
cb.ledger(
    model,
    cb.Claim(
        "universal_neurons",
        "neurons of base that exceed mixtures by 0.5 in both other seeds",
        kept["universal"] if room else np.nan,  # is there room for 0.5 more?
        tuple(kept["universal, interval"]) if room else None,
        digits=3,
    ),
    cb.Claim(
        "share_stable",
        "stable heads among all of the layer, least of three seeds",
        float(of_seeds["stable"].min() / len(base["spread"])),
    ),
)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
of_pairs = {
    over: [v[over] for k, v in kept["pairs"].items() if "itself" not in k] for over in share
}
apart, relabelled = zip(*kept["domains"], strict=True)
embedded = shown["base's embeddings, random numbers elsewhere"]
each_other = min(agreement(blank[i], blank[k]) for i, k in ((0, 1), (0, 2), (1, 2)))
counted = min(agreement(of_words["counts"], v) for v in blank)
with_end, with_each_other = kept["domains at 1%"]
only = dosed.filter(regex=r"^only\..*\.from shape$")
cb.facts(
    "training",
    model=MODEL.rpartition("/")[2],
    match=cb.fact(seed_1["tokens"]["median"]),
    mixed=cb.fact(seed_1["tokens"]["median of mixtures"]),
    other_neurons=max(v["median"] - v["median of mixtures"] for of in of_pairs.values() for v in of)
    < 0.02,
    by_a_hair=all(v["median"] > v["median of mixtures"] for v in of_pairs["tokens"])
    and all(v["median"] == v["median of mixtures"] for v in of_pairs["texts"]),
    map=cb.fact(min(apart)),
    words=cb.fact(max(by_words.values())),
    same_map=min(apart) > cb.ALMOST_EXACTLY and max(by_words.values()) < min(apart) - cb.ABOUT,
    past=cb.fact(past["tokens"]["median"]),
    past_mixed=cb.fact(past["tokens"]["median of mixtures"]),
    recognises=past["tokens"]["median"] > past["tokens"]["median of mixtures"] + cb.ABOUT,
    here=cb.fact(here["tokens"][0]),
    here_mixed=cb.fact(max(here["tokens"][1:])),
    start_is_not_enough=here["tokens"][0] < max(here["tokens"][1:]) + 0.02,
    domains=len(np.unique(domain)),
    pair_count=len(pairs[0]),
    relabelled=cb.fact(max(relabelled)),
    blank=cb.fact(shown["random numbers"]),
    blank_each_other=cb.fact(each_other),
    learned=shown["random numbers"] < max(by_words.values()) < 0.9
    and min(each_other, counted) > 0.8,
    young_r=cb.fact(start["r"], ".3f"),
    base_r=cb.fact(base["r"], ".3f"),
    mini_r=cb.fact(ends.loc["mini", "r"], ".3f"),
    training_works_against=start["r"] > base["r"] > ends.loc["mini", "r"],
    no_room=not room
    and all(v["universal"] == 0 for k in kept["pairs"].values() for v in k.values()),
    all_stable=bool((of_seeds["stable"] == len(base["spread"])).all()),
    young_map=cb.fact(min(with_each_other)),
    young_end=cb.fact(max(with_end)),
    map_not_there_yet=max(with_end) < max(by_words.values()) < 0.9 < min(with_each_other),
    tv_0=cb.fact(dosed["Equation 1.TV"][0], ".3f"),
    tv_3=cb.fact(dosed["Equation 1.TV"][2], ".3f"),
    factor=cb.fact(off["Equation 1.TV"], ".1f"),
    dose_works=bool(conditions.xs("Equation 1.TV", level=1).all()),
    r_0=cb.fact(dosed["circuit.r"][0], ".3f"),
    r_3=cb.fact(dosed["circuit.r"][2], ".3f"),
    circuit_gains_nothing=bool((dosed["circuit.r"].diff()[1:] < 0).all())
    and bool(only.idxmin(axis=1).eq("only.keys.from shape").all()),
    asked=cb.fact(len(conditions), "words"),
    met=cb.fact(int(conditions.sum()), "words"),
    not_met=cb.fact(int((~conditions).sum()), "words"),
    embedded=cb.fact(embedded),
    not_embeddings=embedded < 0.9 and embedded < max(by_words.values()),
    apart=cb.fact(min(apart_maps)),
    apart_itself=cb.fact(max(apart_itself)),
    documents_matter=min(apart_maps) >= 0.9 and max(apart_itself) - min(apart_maps) <= 0.05,
)

# %% [markdown]
r"""
## Where this comes from

The question of universal neurons, and mixtures as what a match must exceed, are from {cite:t}`gurnee2024universal`; linear CKA is from {cite:t}`kornblith2019similarity`. Matching by columns and by what heads add, the map of domains, the checkpoints and the steadier scales are this book's. The recipes of the runs are on the card of `mini`, and the checksums of their weights are kept with the numbers.
"""
