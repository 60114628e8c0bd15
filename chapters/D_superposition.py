# %% [markdown]
r"""
# Why do German and Python share a neuron?

**Not because they are alike, but mostly because both lie far from all other texts: an axis that points a little towards each ranks both above all others.** {{?far_not_alike}} {{?mostly_length}} German and Python are the two highest domains in {{in_neurons}} of the {{all}} neurons of our small model `mini`, more than any other pair, and in {{in_mixtures}} of as many random mixtures of neurons. {{?mixtures_too}} In part that is a matter of their words alone: the two would lie far out, if less far, even if each token added a vector at right angles to all others. {{?words_do_it}} The pair is an exception, for over all pairs likeness matters as well; {{?both_matter}} and whether a lack of room plays a part, our few domains cannot say.

Here is the neuron in which the two stand out most. On the left is what the heads add to it, text by text. German is driven by words such as {{german_tokens}}, Python by signs such as {{python_tokens}}; nobody would put these together. A usual explanation is **superposition**: a model that has more features than dimensions must let some of them share a direction {cite}`elhage2022toy`. Before you look at the right panel, make a guess: do German and Python share one?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
HEADS = None  # a list of heads, or None for those that chapter 4 calls stable
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the model, and what the heads add to each text"}
import json

import numpy as np
import pandas as pd
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch.nn.functional import normalize

import ctxbook as cb
import ctxlib as cx

weights = cx.LayerWeights.of(cx.load(MODEL))
study = cx.study(weights, TEXTS, TOKEN, HEADS)
circuit, x = study.circuit, study.fixed.prepare(study.texts)  # text source
kinds = np.array([text.domain for text in study.texts])
A, B = cb.half_masks(study.texts)
names = np.intersect1d(kinds[A], kinds[B])
W_in = weights.mlp_input()[0].double()  # d_model neuron


def means(values, kinds, names=names):
    """Mean of each domain, less the mean of these means: `text ... -> domain ...`."""
    inside = torch.from_numpy((kinds == names[:, None]).astype(float))
    mean = inside @ values / inside.sum(1, keepdim=True)
    return mean - mean.mean(0)


def cosines(gram):
    """The cosines of vectors with these scalar products."""
    return gram / gram.diagonal().outer(gram.diagonal()).sqrt()


def read(circuit):
    """What every token adds, zero for the average of half A, `vocab d_model`; and its weight in
    each text, `text vocab`."""
    ext = circuit.extended_embedding() / circuit.scale
    bag = torch.zeros(len(x), len(ext)).scatter_add_(1, x, circuit.kernel.expand(len(x), -1))
    return (ext - bag[A].mean(0) @ ext).double(), bag.double()


ext, bag = read(circuit)
added = bag @ ext  # text d_model
at_neurons = added @ W_in  # text neuron
print(f"{study}; {weights.n_neurons} neurons\ncalibrated on {study.calibration_text.name}")

# %% tags=["hide-input"]
by_domain = means(at_neurons[A], kinds[A])  # domain neuron
pairs = by_domain.topk(2, dim=0).indices.sort(0).values  # two neuron
found, count = pairs.unique(dim=1, return_counts=True)
ends = found[:, count.argmax()].tolist()  # the pair that most neurons have
one, other = names[ends]
of_both = (torch.tensor(ends) == pairs.T).all(1).nonzero()[:, 0]
clear = by_domain[ends][:, of_both].amin(0) / at_neurons[A][:, of_both].std(0)
j = int(of_both[clear.argmax()])

units = normalize(means(added[A], kinds[A])[ends], dim=1)  # two d_model
Q, R = torch.linalg.qr(units.T)
plane = Q * torch.sign(R.diagonal())
spot, arrow = (added[B] - added[B].mean(0)) @ plane, normalize(W_in[:, j] @ plane, dim=0)
figure, ((left, right),) = cb.figures.panels(1, 2, width=8.6, height=4.0)
values = at_neurons[B][:, j].numpy()
rows = sorted(names, key=lambda name: float(values[kinds[B] == name].mean()))
for row, name in enumerate(rows):
    own, shade = kinds[B] == name, cb.figures.COLORS[{one: 1, other: 2}.get(name, 7)]
    left.plot(values[own], [row] * own.sum(), "o", ms=3, alpha=0.6, color=shade)
    right.plot(*spot[own].T.numpy(), "o", ms=3, alpha=0.6, color=shade)
    if name in (one, other):
        right.text(*spot[own].quantile(0.8, dim=0).numpy(), name, color=shade, fontsize=10)
left.set_yticks(range(len(rows)), rows, fontsize=8)
left.set(xlabel="what the heads add", title=f"neuron {j}")
reach = 0.75 * float(spot.abs().max()) * arrow.numpy()
look = {"arrowstyle": "->", "lw": 2, "color": cb.figures.INK}
right.annotate("", reach, (0, 0), arrowprops=look)
right.text(*(1.1 * reach), f"neuron {j}", fontsize=9, ha="center")
right.set(xlabel=f"along {one}", ylabel=f"along {other}, at right angles", aspect="equal")
cb.figures.picture(
    figure,
    "D.1",
    f"One dot a text of half B. Left: what the heads add to neuron {j}, by domain. Right: the same texts in the plane of the directions of {one} and {other}. The arrow is the direction that the neuron reads.",
    f"A dot plot with {rows[-1]} and {rows[-2]} highest, and a plane in which texts of {one} lie far to the right, texts of {other} far up, and all others near the middle; the neuron's arrow points between them.",
)  # fmt: skip

# %% [markdown]
r"""
They do not. Texts of German lie far out in one direction, texts of Python in another nearly at right angles to it, and everything else stays near the middle. (The cosine is {{cosine}}, seen from the mean of all domains, and {{cosine_english}} from that of the English ones, where we had required less than {{= 0.1 =}}, so this condition fails. {{?nearly_square}}) The neuron reads a direction between the two, so both are at its *end*: of all domains, they are the two for which it reads most.

## Two domains by hand

Suppose German lies at $(2, 0)$, Python at $(0, 2)$, and all other domains at $(0, 0)$. An axis half way between the two reads {{= 1.4 =}} for both and {{= 0 =}} for the rest: a neuron with two subjects. Draw another axis at random. Its reading of German is as likely positive as negative, and so is its reading of Python, independently of the other. So a quarter of all axes have both at their end. A hundred further dimensions would not change the quarter. What is needed is that both lie farther out than the rest. In `{{model}}` the share is far smaller, {{in_neurons}} of {{all}}, because the other domains aren't in the middle, and both must be ahead of them all.

For real texts, let $b_x(t)$ be the kernel's weight on token $t$ in text $x$, and $\text{ext}(t)$ what one token adds ([chapter 5](05_circuit)), over LayerNorm's scale. For a domain $d$, compared with the mean over domains,

$$
\begin{aligned}
g_d(t) &= \operatorname*{mean}_{x \in d} b_x(t) - \operatorname*{mean}_{d'} \operatorname*{mean}_{x \in d'} b_x(t) , \\
D_d &= \textstyle\sum_t g_d(t)\, \text{ext}(t) .
\end{aligned}
$$ (eq-sup-direction)

We call $D_d$ the **direction** of the domain. A random axis reads the domains as normal numbers, with covariances in proportion to $D_d \cdot D_e$. So the lengths and cosines of the directions say how often each pair is at its end, without any neuron. We can keep both, or only the lengths, or only the cosines:
"""

# %%
gap = {half: means(bag[of], kinds[of]) for half, of in (("A", A), ("B", B))}  # domain vocab
products = {half: (g @ ext) @ (g @ ext).T for half, g in gap.items()}  # domain domain
length, cosine = products["A"].diagonal().sqrt(), cosines(products["A"])
upper = np.triu_indices(len(names), 1)


def at_the_end(gram, axes=20_000):
    """The share of random axes that have each pair at their end: `pair`."""
    values, vectors = torch.linalg.eigh(gram)
    axes = torch.from_numpy(np.random.default_rng(0).standard_normal((len(gram), axes)))
    two = (vectors * values.clamp(min=0).sqrt() @ axes).topk(2, dim=0).indices.sort(0).values
    share = torch.zeros(gram.shape).index_put_((*two,), torch.ones(1), accumulate=True)
    return share[upper].numpy() / axes.shape[1]


expected = {
    "both": at_the_end(products["A"]),
    "as read": at_the_end(by_domain @ by_domain.T),
    "lengths": at_the_end(torch.diag(length**2)),
    "cosines": at_the_end(cosine),
}

# %% tags=["hide-input", "nbval-check-output"]
ours = [tuple(p) for p in zip(*upper, strict=True)].index(tuple(ends))
mixed = [added @ cb.nulls.mixtures(W_in, seed) for seed in range(20)]  # text mixture
pairs_mixed = [means(v[A], kinds[A]).topk(2, dim=0).indices.sort(0).values for v in mixed]
in_mixtures = [int((torch.tensor(ends) == two.T).all(1).sum()) for two in pairs_mixed]
of_axes = {k: v[ours] * weights.n_neurons for k, v in expected.items()}
bars = {"neurons": len(of_both), "random mixtures (mean of 20 draws)": np.mean(in_mixtures)}
predicted = ("predicted from lengths and cosines", "the same, on axes spread as neurons are", "from lengths alone", "from cosines alone")  # fmt: skip
bars |= dict(zip(predicted, of_axes.values(), strict=True))
bars["if all pairs were alike"] = weights.n_neurons / len(upper[0])
pd.Series({k: f"{v:.0f}" for k, v in bars.items()}).to_frame(f"how many of {weights.n_neurons:,}")

# %% [markdown]
r"""
The table counts how often German and Python are the two highest domains. None of this needs a neuron of its own: draws of random mixtures give between {{mix_low}} and {{mix_high}}, and the neurons' own number lies in between. {{?mixtures_too}} We picked the pair as the most frequent of {{pair_count}}; if all pairs were alike, each would lead in about four neurons. {{?four}} What makes this one so frequent is length: German and Python lie {{german_out}} and {{python_out}} times as far out as the median domain. Axes drawn evenly from all directions, of which we know nothing but the lengths and cosines of the domains' directions, would give {{by_axes}}. Lengths alone predict {{by_lengths}}, and cosines alone {{by_cosines}}. {{?mostly_length}} Mixtures exceed that because neurons do not read all directions alike: axes spread as the neurons are would give {{by_read}}. {{?read_explains}} Over all pairs likeness matters, too: lengths and cosines together predict better than either alone how frequent a pair is. {{?both_matter}}

## Is it the words, or what training made of them?

A domain may lie far out because its words are its own, or because the trained heads stretch what they add. So we take the training away. In one row all tokens add vectors of one length, at right angles to each other; in the others, the layer has random weights.
"""

# %% tags=["hide-input", "nbval-check-output"]
of_words = gap["A"] @ gap["A"].T  # tokens at right angles
grams = {"trained": products["A"], "token vectors at right angles": of_words}
for seed in range(3):
    blank = cx.study(cb.nulls.untrained(weights, seed), study.texts, heads=study.heads).circuit
    ext_blank, bag_blank = read(blank)
    directions = means(bag_blank[A], kinds[A]) @ ext_blank
    grams[f"untrained layer, draw {seed + 1}"] = directions @ directions.T
rows = {}
for name, gram in grams.items():
    out = gram.diagonal().sqrt() / gram.diagonal().sqrt().quantile(0.5)
    rows[name] = {f"{d}, times the median length": f"{out[k]:.1f}" for d, k in zip((one, other), ends, strict=True)}  # fmt: skip
    rows[name]["axes with the pair"] = f"{at_the_end(gram)[ours] * weights.n_neurons:.0f}"
pd.DataFrame(rows).T

# %% [markdown]
r"""
With tokens at right angles, German and Python lie {{german_words}} and {{python_words}} times as far out as the median domain, and the pair leads on {{by_words}} axes, where the trained lengths and cosines gave {{by_axes}}. By what we had fixed, at least {{= 1.5 =}} times and at least half as many axes, both are a matter of words. {{?words_do_it}} Training stretches German further. It also makes the heads treat different words alike: in the ten closest pairs of domains, nearly all of the scalar product $D_d \cdot D_e$ comes from pairs of different tokens, one from each domain. {{?different_alike}}

Is there too little room? These domains cannot show it. {{domains}} domains, less their mean, span {{possible}} dimensions, and the heads write into {{room}}; so whatever the model does with them, there is room. {{?enough_room}}

## What can go wrong

The domains are ours. With another set, others lie far out (Exercise 1). We looked for finer features in a transcoder (under *Evidence*), and by our measure could not show any. {{?not_finer}} The circuit is not to blame, though: by what the heads of the model themselves add, the cosines are almost exactly the same (they correlate by {{real_r}}). {{?circuit_is_no_cause}}

## Where this leaves us

A neuron's label names the domains that happen to lie far out near its axis. Two labels on one neuron need not have anything in common. To say what a model knows about a subject, read a set of neurons: {{few}} drawn at random sort {{sorted_few}} of the texts into the right one of {{domains}} domains, as many as all dimensions together do. {{?nothing_lost}} Five of fifteen guesses, written down in advance, were wrong; *Evidence* names them.

## Exercises

1. *Predict, then run.* Leave out the two domains of the most frequent pair, then the most frequent pair among the rest, and so on. Which pairs come next? Write down two, then open the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Which pairs come next?"}
left_in, steps = names, []
while len(left_in) > 4:
    two = (means(added[A], kinds[A], left_in) @ W_in).topk(2, dim=0).indices.sort(0).values
    which, count = two.unique(dim=1, return_counts=True)
    pair = left_in[which[:, count.argmax()].numpy()]
    steps.append((" and ".join(pair), int(count.max())))
    left_in = np.setdiff1d(left_in, pair)
pd.DataFrame(steps, columns=["most frequent pair", "neurons"])

# %% [markdown]
r"""
2. *Break this.* In the cell of exercise 1, divide each row of `means(...)` by its length before it meets $W_\text{in}$. Does the pair of the title survive?

```{admonition} Solutions
:class: dropdown

1. The later pairs are mostly ones that a person would put together. Once the domains that lie far out are gone, the lengths are more even, and likeness decides.
2. It does not. The most frequent pairs are alike now: French and Spanish, the two fictions, war and political speech, Python and technical documents. German and Python met only as long as German, too, lay far out.
```

## Evidence

**One neuron, and a set.** {{few}} neurons, drawn at random and read together, by linear discriminants (the directions that separate the domains best) fitted on half A, sort as many texts of half B as all dimensions of the stream do ({{= 95% =}} interval over documents: {{sorted_low}} to {{sorted_high}}). In early layers of larger models, too, features were found in combinations of neurons {cite}`gurnee2023finding`.

**A toy with a known answer.** Different words in one direction look like superposition, and so does a neuron with two subjects. Do they need a shortage? Twelve contexts have ten words each, and forty words are common to all. Three pairs of contexts, the *planted* ones, share five of their words. A text is {{= 60 =}} tokens; its *bag*, how often it has each word, passes through $k$ numbers into {{= 200 =}} neurons, which learn to predict the next token. With $k = 16$ there is room for all contexts, with $k = 4$ there is not. (Kept, from `tools/evidence/toy.py`.) With room as without it, nearly all neurons have two subjects ahead, and nearly all of what the planted pairs share comes from different words. {{?toy_needs_no_shortage}} So neither is a sign of a shortage. What does tell in the toy is whether a pair comes again in another training. With room, the planted pairs are nearer to each other than all others, in both trainings. Without room, other pairs come as near as these did, and which ones is chance, though the planted ones stay ahead. {{?toy_chance}} But the toy's contexts are few and alike in size, and none of this tells us whether `mini` is short of room for finer features.

**Five of fifteen guesses were wrong.** We wrote them down before each of two rounds of measurements.

| what we guessed | what we found |
|---|---|
| The few widest directions sort less than three quarters of the texts that all sort. | They sort more. |
| Texts highest in a neuron are of its label less than three quarters as often as those highest along the domain's own direction. | Somewhat more often. |
| In the toy without room, pairs that were not planted come nearest. With room, its whole map comes again. | The planted pairs stay ahead. With room, only these come again. |
| Without room, more of the toy's neurons have two subjects. | No more than with room. |
| Two contexts that lie far out, with a chance of {{= .8 =}} for their own words, are the toy's most frequent pair. | They are not. |
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The toy, with room and without"}
toy = pd.DataFrame(json.loads(cb.evidence("toy.json").read_text())).T  # k and seed; what is kept
pairs_of = np.stack(toy["cosines"])  # training pair
by_plan, room = np.array(toy["planted"].iloc[0]), (toy["k"] == 16).to_numpy()
planted_low = pairs_of[room][:, by_plan].min()
others = {k: pairs_of[toy["k"] == k][:, ~by_plan].max() for k in (16, 4)}
toy_again = np.corrcoef(pairs_of[~room][:, ~by_plan])[0, 1]
toy[["two subjects ahead", "from different words"]].astype(float).round(2)

# %% [markdown]
r"""
**Are the features of a transcoder finer?** A *transcoder* learns to do the work of the MLP with features of its own, its *latents*, of which few are at work at any token {cite}`dunefsky2024transcoders,gao2024scaling`. We trained one on three million tokens, with {{= 2,048 =}} latents of which {{= 16 =}} are at work at a token. It leaves {{latent_fvu}} of the variance of the MLP's output, and in the MLP's place it gives back {{latent_loss}} of the loss that the MLP saves. We had required at most {{= 30% =}} and at least {{= 80% =}}. {{?transcoder_trained}} Then, with conditions that were fixed before, we treated those latents that are at work at one token in {{= 100,000 =}} or more like neurons. Their columns are harder to read: the {{= 20 =}} tokens at the upper end of a column tell the label's texts from others less well than those of neurons or of random mixtures do. {{?harder_to_read}} And they are no finer: within a domain, how often a unit's input is high agrees less between two passages of one document for latents than for neurons, and not demonstrably more than for mixtures. {{?not_finer}} This is one transcoder of one small model, with one level of sparsity. (Kept, from `tools/evidence/transcoder.py`.)
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Latents beside neurons and mixtures"}
transcoder = json.loads(cb.evidence("transcoder.json").read_text())["result"]
readable, common = transcoder["AUC, 20 tokens"], transcoder["in common"]
measures = ("AUC, 20 tokens", "AUC, summary", "AUC, on", "in common")
show = lambda v: f"{cb.Estimate(*v[:3]):.2f}" if isinstance(v, list) else f"{v:.2f}"
pd.DataFrame({m: {k: show(v) for k, v in transcoder[m].items()} for m in measures})


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
def hits(values):
    """Which texts of half B get their own domain, by discriminants fitted on half A."""
    sort = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return sort.fit(values[A].numpy(), kinds[A]).predict(values[B].numpy()) == kinds[B]


outputs = torch.cat([circuit.fixed.head_outputs(part) for part in x[B].split(64)])
real = outputs[:, study.heads].sum(1) / circuit.fixed.scale(x[B], outputs)  # by the model's heads
real = means(real.double(), kinds[B])
real_r = np.corrcoef(cosines(real @ real.T)[upper], cosines(products["B"])[upper])[0, 1]
closest = cosine[upper].argsort(descending=True)[:10]
same_token = (gap["B"] * ext.square().sum(1)) @ gap["B"].T / products["B"]
different_words = float(1 - same_token[upper][closest].quantile(0.5))
tally = torch.zeros(len(names), len(names))
tally.index_put_((*pairs,), torch.ones(1), accumulate=True)
r_of = {k: np.corrcoef(tally[upper], v)[0, 1] for k, v in expected.items()}
of_B = [text for text, inside in zip(study.texts, B, strict=True) if inside]
few, draw = min(32, weights.n_neurons), np.random.default_rng(0)
sets = [hits(at_neurons[:, draw.choice(weights.n_neurons, few, replace=False)]) for _ in range(3)]
sorts = cb.by_document(lambda drawn: np.mean([v[drawn] for v in sets]), of_B, 199)
by_all = hits(added).mean()
drive = gap["A"] * (ext @ W_in[:, j])  # domain vocab
tokens = [cx.texts.decode_tokens(weights, drive[d].topk(8).indices.tolist()) for d in ends]
tokens = [list(dict.fromkeys(f"`{t.strip()}`" for t in of if t.strip()))[:4] for of in tokens]
between = float(cosines(products["B"])[ends[0], ends[1]])
in_English = [text.domain for text in study.texts if text.dialect.startswith("en")]
from_English = means(added[B], kinds[B])
from_English -= from_English[np.isin(names, in_English)].mean(0)
between_English = float(cosines(from_English @ from_English.T)[ends[0], ends[1]])
out, out_words = (v / v.quantile(0.5) for v in (length, of_words.diagonal().sqrt()))
by_words = at_the_end(of_words)[ours] * weights.n_neurons
room_all = min(weights.d_model, len(study.heads) * weights.W_V.shape[-1])
percents = {"sorted_few": np.mean(sets), "sorted_low": sorts[0], "sorted_high": sorts[1]}
counts = {"by_axes": of_axes["both"], "by_read": of_axes["as read"], "by_lengths": of_axes["lengths"], "by_cosines": of_axes["cosines"], "by_words": by_words, "in_mixtures": np.mean(in_mixtures)}  # fmt: skip
cb.facts(
    "superposition",
    **{name: cb.fact(v, ".0f") for name, v in counts.items()},
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    cosine=cb.fact(between),
    real_r=cb.fact(real_r),
    german_out=cb.fact(out[ends[0]], ".1f"),
    python_out=cb.fact(out[ends[1]], ".1f"),
    cosine_english=cb.fact(between_English),
    nearly_square=abs(between) < cb.ABOUT < between_English < 1.5 * cb.ABOUT,
    german_words=cb.fact(out_words[ends[0]], ".1f"),
    python_words=cb.fact(out_words[ends[1]], ".1f"),
    words_do_it=out_words[ends].min() >= 1.5 and by_words >= of_axes["both"] / 2,
    model=MODEL.rpartition("/")[2],
    in_neurons=len(of_both),
    all=weights.n_neurons,
    mix_low=min(in_mixtures),
    mix_high=max(in_mixtures),
    mixtures_too=min(in_mixtures) <= len(of_both) <= max(in_mixtures),
    far_not_alike={one, other} == {"german", "python"} and abs(between) < cb.ABOUT and out[ends].min() > 1.5,
    german_tokens=cb.listed(tokens[0]),
    python_tokens=cb.listed(tokens[1]),
    read_explains=abs(of_axes["as read"] / np.mean(in_mixtures) - 1) < cb.ABOUT,
    mostly_length=of_axes["lengths"] > max(cb.MOST * len(of_both), 2 * of_axes["cosines"]),
    pair_count=len(upper[0]),
    four=round(bars["if all pairs were alike"]) == 4,
    both_matter=r_of["both"] > max(r_of["lengths"], r_of["cosines"]) + cb.ABOUT,
    domains=len(names),
    possible=len(names) - 1,
    room=room_all,
    enough_room=room_all > 10 * len(names),
    few=few,
    nothing_lost=sorts[0] < by_all < sorts[1],
    circuit_is_no_cause=real_r > cb.ALMOST_EXACTLY,
    different_alike=different_words > cb.NEARLY_ALL,
    toy_needs_no_shortage=toy[["two subjects ahead", "from different words"]].min(axis=None) > cb.NEARLY_ALL,
    toy_chance=others[4] > planted_low > others[16] and pairs_of[~room][:, by_plan].min() > others[4] > 1.5 * others[16] and abs(toy_again) < 0.3,
    latent_fvu=cb.fact(transcoder["quality"]["FVU"], ".0%"),
    latent_loss=cb.fact(transcoder["quality"]["given back"], ".0%"),
    transcoder_trained=transcoder["quality"]["FVU"] < 0.3 and transcoder["quality"]["given back"] > 0.8,
    harder_to_read=max(readable[f"latents less {k}"][2] for k in ("neurons", "mixtures")) < 0,
    not_finer=common["latents less neurons"][2] < 0 and common["latents less mixtures"][1] < 0,
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

Superposition and the toy with fewer dimensions than features are from {cite:t}`elhage2022toy`; their toy reconstructs sparse features, this one predicts tokens. That early layers carry features in combinations of neurons is reported by {cite:t}`gurnee2023finding`. The question about few dimensions and many neurons is the earlier post's {cite}`gibson2025contextual`. The split into same and different words, lengths against cosines and the test by recurrence are this book's. The tests of words and of the second origin were fixed when the rest was known.
"""
