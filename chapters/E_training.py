# %% [markdown]
r"""
# What would another training change?

**Another training on the same texts gives almost exactly the same map of the subjects, but what tokens add to the typical neuron has no counterpart in it that we could recognise.** {{?other_neurons}} A *map* says how near each pair of subjects lies in what the heads of the first layer add, and the maps of three trainings, which differ in their random start alone, correlate by {{map}} or more. {{?same_map}} Word vectors counted in the training text give a map that agrees by {{counted}} only, {{?learned}} and a uniform average of another training's values one that agrees by {{average}}. {{?no_attention}} By a rule fixed in advance the neurons come back, too, by a hundredth; we think that the rule was badly chosen, because it requires no size. {{?by_a_hair}}

Training begins with random weights, and a **seed** says which. Suppose we train the same model once more with another seed, on the same texts in the same order. Before you read on, guess what comes back: the neurons, the subjects, or neither?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To match GPT-2 with another training of it, set OTHER = "stanford-crfm/alias-gpt2-small-x21", too, and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
OTHER = "mini-base" if MODEL == "mini" else MODEL  # another training, of the same vocabulary
TEXTS = 500  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token
TURNS = 5  # random rotations that mix the other model's neurons

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, two models, and what is kept of the others"}
import json
from dataclasses import replace
from itertools import combinations, starmap

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import normalize

import ctxbook as cb
import ctxlib as cx

model, other = cx.load(MODEL), cx.load(OTHER)
kept, doses = (json.loads(cb.evidence(f"{name}.json").read_text()) for name in ("training", "dose"))
study, own_study = (
    cx.study(of, TEXTS, TOKEN, list(range(of.cfg.n_heads))) for of in (model, other)
)
ours, theirs = (of.circuit.contribution for of in (study, own_study))  # token neuron
domain, x = np.array([t.domain for t in study.texts]), study.fixed.prepare(study.texts)
names = np.unique(domain)
often = x[:, 1:].flatten().bincount(minlength=study.fixed.d_vocab).double()
often = often / often.sum()  # how common a token is
print(study)

# %% [markdown]
r"""
The three trainings are called *base* (seed {{= 0 =}}), seed {{= 1 =}} and seed {{= 2 =}}. They have four layers and {{= 10 =}} million tokens each, in the same order. `{{model}}` began as base did and read five times as much. The first layer of base comes with the book; of seeds {{= 1 =}} and {{= 2 =}} only measurements are stored (`tools/evidence/training.py` makes them again).

## When is a neuron the same?

Neuron {{= 298 =}} of one training is not neuron {{= 298 =}} of another, because their order means nothing. So we look for the most similar one, but a similar one is easily found. Suppose that two neurons of one training read the directions $(1, 0)$ and $(0, 1)$, and two of another $(0.7, 0.7)$ and $(0.7, -0.7)$. Each neuron of the first then has a match of {{= 0.7 =}} in the second, only because both pairs read the same plane.

Write $c_j$ for a neuron's column, what each token adds to it. Its **match** in the other model, whose columns are $c'_k$, is

$$
\text{match}(j) = \max_k \; \operatorname{corr}(c_j,\, c'_k) .
$$ (eq-seed-match)

We compare it with the match in **random mixtures**, the other model's neurons turned by a random rotation $Q$. They are as many and read the same space {cite}`gurnee2024universal`, so only what a match exceeds theirs by is due to the neurons. Mixing neurons mixes their covariances, and these are all that we need:
"""


# %%
def covariances(a, b, weight):
    """`neuron neuron` of a with a, a with b, b with b; rows are tokens."""
    a, b = ((v.double() - weight @ v.double()) * weight.sqrt()[:, None] for v in (a, b))
    return a.T @ a, a.T @ b, b.T @ b


def match(aa, ab, bb):
    """`neuron`: the highest correlation with a neuron of the other model."""
    return (ab / (aa.diagonal()[:, None] * bb.diagonal()).sqrt()).max(1).values


aa, ab, bb = covariances(ours, theirs, often)
dice = torch.Generator().manual_seed(0)
turns = torch.randn((TURNS, *bb.shape), generator=dice, dtype=torch.double)
of_mixtures = [match(aa, ab @ Q, Q.T @ bb @ Q) for Q in torch.linalg.qr(turns).Q]
here, *here_mixed = (float(v.median()) for v in (match(aa, ab, bb), *of_mixtures))

# %% tags=["hide-input"]
seed_1, past = (kept["pairs"][f"base, {of}"]["tokens"] for of in ("seed-1", "itself at 30%"))
figure, ((axis,),) = cb.figures.panels(height=2.6, width=6)
look = {"edges": np.linspace(0, 1, 41)}
axis.stairs(seed_1["of mixtures"], **look, fill=True, color=cb.figures.INK, alpha=0.2, label="mixtures of seed 1")  # fmt: skip
axis.stairs(seed_1["match"], **look, color="C0", lw=1.8, label="seed 1")
axis.stairs(past["match"], **look, color="C1", lw=1.4, ls="--", label="its own past")
axis.set(xlabel="best match of a neuron", ylabel="neurons of base")
axis.grid(visible=False)
axis.legend(fontsize=8)
cb.figures.picture(
    figure,
    "E.1",
    "Of each neuron of base: its best match in the training with seed 1 (line), in random mixtures of that training's neurons (filled), and in base itself after 30% of its training (dashed).",
    f"Three histograms. Medians: seed 1 {seed_1['median']}, mixtures {seed_1['median of mixtures']}, own past {past['median']}.",
)

# %% [markdown]
r"""
The histogram of seed {{= 1 =}} lies on that of the mixtures, so the typical neuron of one training cannot be recognised in the other. We had fixed the rule in advance: neurons count as found again if their median match is higher than in each of {{= 20 =}} draws of mixtures. So by the rule they are found again, with {{match}} against {{mixed}}. {{?by_a_hair}} But the rule requires only a difference, of whatever size, and a hundredth is too small to say that neurons in general come back. We decided this after we had seen it, so you may prefer the rule.

Would we recognise a neuron that does come back? Base after {{= 30% =}} of its training matches its own end by {{past}}, where mixtures reach {{past_mixed}}, so we would. {{?recognises}} A common start is not enough, since `{{model}}`, which began from the same random weights as base, matches it by {{here}}, and mixtures by {{here_mixed}}. {{?start_is_not_enough}} (All this is about columns, with tokens weighted by how often they occur. The token's own path to the neuron, and what the neuron then puts out, are not in it.) Larger models are reported to share a few neurons in a hundred between seeds {cite}`gurnee2024universal`; medians cannot show so few, nor can the bound under *Evidence*.

## The map comes back

If not the neurons, what do two trainings share? The heads put each text at a point, whose coordinates are what they add to the neurons. For each of the {{domains}} domains we take the mean point of its texts, less the mean of all domains. The cosines between these means are a **map**. It does not change when the neurons are turned.
"""


# %%
def geometry(points, texts=slice(None)):
    """The cosines between the domains' means over these texts: `domain domain`."""
    points, of = points[texts], domain[texts]
    means = torch.stack([points[of == name].mean(0) for name in np.unique(of)])
    means = normalize(means - means.mean(0), dim=1)
    return (means @ means.T).double().numpy()


def agreement(a, b):
    """The correlation of two maps over pairs of domains."""
    pairs = np.triu_indices(len(a), 1)
    return float(np.corrcoef(a[pairs], b[pairs])[0, 1])


def with_base(points):
    """How a map agrees with that of base, documents drawn anew."""
    return lambda drawn: agreement(geometry(points, drawn), geometry(their_points, drawn))


def heads_add(fixed):
    """What the heads add to each neuron, in truth: `text neuron`."""
    return torch.cat([fixed.exact_summary(of, range(fixed.n_heads)) for of in x.split(100)])


points, their_points = heads_add(study.fixed), heads_add(own_study.fixed)
map_theirs = geometry(their_points)
counts = torch.zeros(len(x), study.fixed.d_vocab)  # text vocab
counts = counts.scatter_add(1, x[:, 1:], torch.ones(x[:, 1:].shape))

# %% tags=["hide-input", "nbval-check-output"]
halves = cb.half_masks(study.texts)  # no document is in both
of_halves = [[geometry(of, half) for half in halves] for of in (points, their_points)]
apart = [agreement(of_halves[0][k], of_halves[1][1 - k]) for k in (0, 1)]
apart_itself = [agreement(*maps) for maps in of_halves]
words = max(agreement(geometry(of), map_theirs) for of in (counts, counts.sqrt(), counts.log1p()))
weights = cx.LayerWeights.of(other)
words_of_base = {"W_E": weights.W_E, "W_pos": weights.W_pos}
blank = [cb.nulls.untrained(weights, seed) for seed in range(3)]
blank += [replace(layer, **words_of_base) for layer in blank]
fixed = (cx.fix_query(layer, n=study.n, token=TOKEN) for layer in blank)
random_maps = [geometry(heads_add(of)) for of in fixed]  # three, and three with base's embeddings
random, embedded = np.reshape([agreement(of, map_theirs) for of in random_maps], (2, 3)).max(1)
averages = [cb.uniform_average(of.circuit, x) for of in (study, own_study)]
same_texts, average, average_base = (
    cb.with_interval(with_base(of), study.texts, 199) for of in (points, *averages)
)
behind = [
    cb.with_interval(lambda d, of=of: with_base(points)(d) - with_base(of)(d), study.texts, 199)
    for of in averages
]
maps, relabelled = zip(*kept["domains"], strict=True)  # base and 1, base and 2, 1 and 2
shown = {
    "seed 1, the same documents (kept)": maps[0],
    "seed 2, the same documents (kept)": maps[1],
    f"{MODEL}, the same documents": same_texts,
    f"{MODEL}, other documents": min(apart),
    "base itself, other documents": apart_itself[1],
    f"{MODEL}'s values, averaged uniformly": average,
    "base's values, averaged uniformly": average_base,
    "vectors counted in the training text, LSA (kept)": kept["counted"]["LSA"],
    "vectors counted in the training text, PPMI (kept)": kept["counted"]["PPMI"],
    "counted words": words,
    "a layer of base's embeddings and random weights": embedded,
    "a layer of random weights": random,
}
pd.Series(shown).map("{:.2f}".format).to_frame("agreement with base's map")

# %% [markdown]
r"""
Two runs on the same texts that differ in nothing but the seed have almost the same map, and so have base and `{{model}}`, which read five times as much. {{?same_map}} Layers with random weights do not come near, even with base's own embeddings, nor does a count of each text's words ({{words}}). {{?not_embeddings}} Is the map a matter of the corpus, then, which any count of it would find? We counted half of the training text in two ways, and made word vectors of {{= 256 =}} numbers from it: by LSA (which words share a page), and from the mutual information of words within four tokens (PPMI). A text's average of such vectors agrees with base's map by {{lsa}} and {{ppmi}}. We had fixed that the map belongs to the corpus from {{= 0.95 =}}, and that it is learned beyond such counts if both stay below {{= 0.9 =}}. Both do, so the map is learned, as far as these two counts, which we did not tune, can tell. {{?learned}}

Does the map need attention? The simplest alternative is a uniform average of the tokens' trained values. We had fixed that the map needs no attention if one of two such averages, of base or of `{{model}}`, agrees with base's map by at least {{= 0.9 =}}, and by at most {{= 0.05 =}} less than the heads of `{{model}}` do, which agree by {{same_texts}}. Base's average does ({{average_base}}), so the rule is met. But base's values are held against base's own map here, so a part of this is agreement with itself. The average of `{{model}}`, which was trained apart, reaches {{average_here}}. That is {{behind}} less than its heads ({{= 95% =}} interval over documents: {{behind_low}} to {{behind_high}}), so whether it passes cannot be told. {{?no_attention}} Either way the map lies mostly in the values of the tokens, and attention adds a little.

Is it a map of the subjects, or of these documents? With `{{model}}` on one half of the documents and base on the other, the maps still agree by {{apart}}. Base itself on the two halves agrees by {{apart_itself}}, so what is lost is due to the documents. We had required at least {{= 0.9 =}}, and for a loss of at most {{= 0.05 =}}. {{?documents_matter}} Neither the other documents nor the uniform average was tried with another seed, since `{{model}}` began as base did.

When is it learned? After {{= 1% =}} of their training the seeds agree with one another by {{young_each}} or more, but with base's end by {{young_end}} at most, where we had required {{= 0.9 =}}. {{?map_not_there_yet}} So they share an early map, which is not the final one. (Layers with random weights agree with one another, too.)

## What can go wrong

These are three trainings of one small architecture on one corpus, with one query token. The seeds share the texts and their order, and we have tried no other. The work on universal neurons also compares whole activations, after the nonlinearity, where we look at what the first heads add before it. And a training can be changed in other ways than by its seed (see Evidence).

## Where this leaves us

To say something that another training would confirm, speak of the map and of sets of neurons, as [appendix D](D_superposition) does. The number of a neuron is a name in one model, and so is a list of neurons such as that of [chapter 6](06_neurons). Of the conditions about neurons and maps that we had fixed in advance, four are met (the neurons', by a hundredth; the average's, for certain on base itself only; the embeddings'; the documents'), as is a later one about word counts, and one, about early training, fails. {{?four_met}} Of {{asked}} about another loss, {{not_met}} fail (see Evidence).

## Exercises

1. *Predict, then run.* Match a neuron of base in base with its columns shuffled over tokens. Which correlation do you expect? Why is it not zero?

```{admonition} Solutions
:class: dropdown

1. The largest of a thousand correlations is never zero. It is what chance gives among a thousand vectors in so many dimensions.
```

## Evidence

**All pairs.** The same was measured over texts, with what the heads add to a neuron in each text in the place of its column. Over tokens the median match exceeds every one of {{= 20 =}} rotations in all three pairs of seeds, by a hundredth. Over texts we stored two digits, in which neurons and mixtures are equal. {{?by_a_hair}} CKA compares whole spaces, whatever their axes {cite}`kornblith2019similarity`. *Universal* is the share of neurons that exceed mixtures by {{= 0.5 =}}. Over tokens no neuron does. But even the same model's neurons earlier in its training do not, so this bound cannot detect universality here. Over texts mixtures match so well that there is no room for {{= 0.5 =}} more. So the line of the ledger cannot be tested, and no verdict rests on this bound. {{?no_room}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Match, mixtures and CKA of all pairs"}
table = {(name, over): of[over] for name, of in kept["pairs"].items() for over in of}
pd.DataFrame(table).T.drop(columns=["match", "of mixtures"]).astype(float)

# %% [markdown]
r"""
**The map, controlled.** Relabelled domains agree by {{relabelled}} in the best of {{= 1,000 =}} draws. Layers with random weights have maps that agree with one another, too, so agreement alone is no sign of learning. But theirs is close to the map of counted words. {{?random_alike}} The three ways to count are plain, by roots and by logarithms; the table has the best. It was fixed in advance that the embeddings are not enough if none of three layers with base's embeddings agrees with base by {{= 0.9 =}}. {{?not_embeddings}} We looked whether the seeds share an early map when we knew the answer.

**A steadier scale.** Equation 1 errs where LayerNorm's scale varies ([appendix A](A_scale)). So two more models were trained as base was, with a term in their loss that holds the scale steady: {{= 1 =}} or {{= 3 =}} times the variance of the logarithm of the length of token and position together. A **forecast** takes the error of Equation 1 to first order, with this length drawn at random. The attention that Equation 1 puts in the wrong place (TV) falls, as forecast. {{?dose_works}} But the correlation of the circuit was to rise, and it fell, from {{r_base}} to {{r_steady}}. In these three models Equation 1 costs it least of five approximations, each made alone, so there was little to gain; and two others, the shared kernel and values read at $n$, cost more the stronger the term is. {{?circuit_gains_nothing}} Of {{asked}} conditions fixed in advance {{not_met}} fail. (Of the strongest term, the correlation and the range of TV were known from an earlier look.)
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What was fixed in advance about a steadier scale, and whether it holds"}
dosed = pd.json_normalize([doses[name] for name in ("base", "steady-1", "steady-3")])
dosed["1 - circuit.r"] = 1 - dosed["circuit.r"]
to_fall = ["spread", "Equation 1.TV", "both repairs.TV", "Equation 1.FVU", "1 - circuit.r", "circuit.FVU"]  # fmt: skip
forecast = ["Equation 1.TV", "BOS by its own key.TV", "both repairs.TV"]
forecast += ["Equation 1.FVU", "both repairs.FVU", "circuit.FVU"]
off = {of: dosed[of] / dosed[f"forecast.{of.rpartition('.')[2]}"] for of in forecast}
off = np.exp(np.log(pd.DataFrame(off)).abs().max())  # the largest of three
falls = (dosed[to_fall].diff()[1:] < 0).all()
conditions = pd.concat(
    {"falls with the term": falls, "forecast within a factor of 1.5": off <= 1.5}
)
conditions.map({True: "yes", False: "no"}).to_frame("holds")

# %% [markdown]
r"""
**The ledger.** In all three seeds every head is stable. {{?all_stable}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
ends = pd.DataFrame(kept["models"]).T
base, of_seeds = ends.loc["base-100"], ends.loc[["base-100", "seed-1-100", "seed-2-100"], "stable"]
room = max(v["texts"]["median of mixtures"] for v in kept["pairs"].values()) < 0.5
universal = (kept["universal"], tuple(kept["universal, interval"])) if room else (np.nan,)
cb.ledger(
    model,
    cb.Claim("universal_neurons", "neurons of base that exceed mixtures by 0.5 in both other seeds", *universal, digits=3),
    cb.Claim("share_stable", "stable heads among all of the layer, least of three seeds", of_seeds.min() / len(base["spread"])),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
pairs = [of for pair, of in kept["pairs"].items() if "itself" not in pair]
ahead = {k: [of[k]["median"] - of[k]["median of mixtures"] for of in pairs] for k in pairs[0]}
with_end, with_each_other = kept["domains at 1%"]
exact = dict(zip(("behind", "behind_low", "behind_high"), behind[0], strict=False))
exact |= {"r_base": dosed["circuit.r"].iloc[0], "r_steady": dosed["circuit.r"].iloc[-1]}
only = dosed.filter(regex=r"^only\..*\.from shape$")
cb.facts(
    "training",
    model=MODEL.rpartition("/")[2],
    match=seed_1["median"],
    mixed=seed_1["median of mixtures"],
    other_neurons=max(*ahead["tokens"], *ahead["texts"]) < 0.02,
    by_a_hair=min(ahead["tokens"]) > 0 and set(ahead["texts"]) == {0},
    map=min(maps),
    words=words,
    **{k.lower(): of for k, of in kept["counted"].items()},
    **{k: cb.fact(v, ".3f") for k, v in exact.items()},
    same_map=min(maps) > cb.ALMOST_EXACTLY and words < min(maps) - cb.ABOUT,
    past=past["median"],
    past_mixed=past["median of mixtures"],
    recognises=past["median"] > past["median of mixtures"] + cb.ABOUT,
    start_is_not_enough=here < max(here_mixed) + 0.02,
    domains=len(names),
    relabelled=cb.fact(max(relabelled)),
    learned=random < words < 0.9 and max(kept["counted"].values()) < 0.9,
    here=here,
    here_mixed=max(here_mixed),
    counted=max(kept["counted"].values()),
    same_texts=f"{same_texts:.3f}",
    average=average.value,
    average_here=f"{average:.3f}",
    average_base=f"{average_base:.3f}",
    no_attention=min(average_base.value, average.value) > 0.9 and behind[1].value <= 0.05 and behind[0].low < 0.05 < behind[0].high,
    random_alike=min(starmap(agreement, combinations([*random_maps[:3], geometry(counts)], 2))) > 0.8,
    not_embeddings=embedded < min(0.9, words),
    apart=cb.fact(min(apart)),
    apart_itself=cb.fact(apart_itself[1]),
    documents_matter=min(apart) >= 0.9 and max(apart_itself) - min(apart) <= 0.05,
    young_end=cb.fact(max(with_end)),
    young_each=cb.fact(min(with_each_other)),
    four_met=min(ahead["tokens"]) > 0 and average_base.value >= max(0.9, same_texts.value - 0.05) and embedded < 0.9 and min(apart) >= 0.9 and max(apart_itself) - min(apart) <= 0.05 and max(with_end) <= 0.9,
    map_not_there_yet=max(with_end) < words < 0.9 < min(with_each_other),
    no_room=not room and all(v["universal"] == 0 for k in kept["pairs"].values() for v in k.values()),
    all_stable=bool((of_seeds == len(base["spread"])).all()),
    dose_works=bool(conditions.xs("Equation 1.TV", level=1).all()),
    circuit_gains_nothing=bool((dosed["circuit.r"].diff()[1:] < 0).all()) and bool(only.idxmin(axis=1).eq("only.keys.from shape").all() and (only[[f"only.{k}.from shape" for k in ("kernel", "values")]].diff()[1:] > 0).all(axis=None)),
    asked=cb.fact(len(conditions), "words"),
    not_met=cb.fact(int((~conditions).sum()), "words"),
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The question of universal neurons, and mixtures as what a match must exceed, are from {cite:t}`gurnee2024universal`; linear CKA is from {cite:t}`kornblith2019similarity`. Matching by columns and by what heads add, the map of domains, the checkpoints and the steadier scales are this book's. The recipes of the runs are on the card of `mini`, and the checksums of their weights are kept with the numbers.
"""
