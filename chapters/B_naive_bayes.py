# %% [markdown]
r"""
# Do neurons weigh words like Naive Bayes?

**They do a little, but nearly any direction that reads the same heads does almost as much.** {{?mostly_heads}} In our small model `{{model}}`, what tokens add to a neuron correlates by {{r_all}} with the weights that Naive Bayes would give them, in the median neuron; along directions drawn at random behind the same heads it is {{r_heads}}. {{?heads_made}} Directions of the token embeddings reach about half of that correlation, and trained heads make most of the rest. {{?half_embeddings}} Whether the {{judged}} neurons that single tokens move farthest exceed mixtures that are moved as far and vary as much, our texts cannot tell. {{?undecided}}

Suppose you had to sort texts by subject, and could give each word one number to add up. Which number would you give to *galaxy*? Statistics has an old answer, **Naive Bayes**. A neuron also adds up one number a token ([chapter 5](05_circuit)), and the post that this book follows says that one can think of contextual neurons as Naive Bayes classifiers {cite}`gibson2025contextual`. Here are the numbers of two neurons beside those of Naive Bayes. On the left is the best match among the {{judged}} neurons, on the right the median one of these {{judged}}.
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
NEURONS = 100  # how many are judged: those that single tokens can move farthest
PRIOR = 1000  # how many tokens the smoothing of the counts is worth

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the model, and how often each token occurs in each text"}
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn.functional import normalize

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS)
n, circuit, W_in = study.n, study.circuit, weights.mlp_input()[0]
sides = [np.array([t.domain for t in half]) for half in cb.halves(study.texts)]
names = [d for d in np.unique(sides[0]) if min((of == d).sum() for of in sides) > 1]
texts = [text for text in study.texts if text.domain in names]  # two or more in both halves
A, B = cb.half_masks(texts)
of_B = [text for text, inside in zip(texts, B, strict=True) if inside]
kinds = np.array([text.domain for text in texts])
belongs = kinds == np.array(names)[:, None]  # domain text
x = study.fixed.prepare(texts)  # text source
tokens = torch.stack([text.tokens[1 : study.length] for text in texts])
counts = torch.zeros(len(texts), weights.d_vocab, dtype=torch.double)  # text token
counts.scatter_add_(1, tokens, torch.ones(tokens.shape, dtype=torch.double))


def correlation(p, q, often):
    """Correlation over tokens, each as often as it occurs: `row of p, row of q`."""
    share = often / often.sum()
    q = q - (q @ share)[:, None]  # so that p need not be centred
    sizes = ((p * p) @ share - (p @ share) ** 2)[:, None] * ((q * q) @ share)
    return (p @ (share * q).T / sizes.sqrt()).numpy()


def bayes_weights(half, worth=PRIOR):
    """w_d(t), with counts smoothed by so many tokens of the usual mixture: `domain token`."""
    of, usual = counts[half], (counts[half].sum(0) + 1) / (counts[half].sum(0) + 1).sum()
    inside = torch.from_numpy(belongs[:, half]).double() @ of  # domain token
    p, p_bar = ((c + worth * usual) / (c.sum(1, keepdim=True) + worth) for c in (inside, of.sum(0) - inside))  # fmt: skip
    return (p / p_bar).log()


print(f"{study}\n{NEURONS} neurons; {A.sum()} texts in half A, {B.sum()} in half B")

# %% tags=["hide-input"]
w_A, w_B, often = bayes_weights(A), bayes_weights(B), counts[B].sum(0)


def through(of):
    """What each token adds to the stream by a circuit, and the kernel: what `lean` reads."""
    return of.extended_embedding() / of.scale, of.kernel


def summed(ext, kernel):
    """What the kernel's sum of `ext` is in each text: `text d_model`."""
    return torch.zeros(len(x), len(ext)).scatter_add_(1, x, kernel.expand(len(x), -1)) @ ext


written = through(circuit)


def lean(directions, of=written):
    """What tokens add along some directions (`direction token`), the domain that half A gives each,
    its correlation with the weights of all domains (`direction domain`), and its summaries of half B.
    """
    summaries = summed(*of) @ directions  # text direction
    found = cx.label_neurons(summaries[A], kinds[A].tolist(), range(directions.shape[1]))
    own, added = np.array([names.index(d) for d in found["label"]]), (of[0] @ directions).T.double()
    return added, own, correlation(added, w_B, often), summaries[B].double().numpy()


neurons = cx.find_neurons(circuit, threshold=-np.inf)[:NEURONS].index.tolist()
added, own, fit, summaries = lean(W_in[:, neurons])
fit_own = fit[np.arange(NEURONS), own]
middle = int(np.argsort(fit_own)[NEURONS // 2])
some = (often >= 80).nonzero()[:, 0]
words = [ascii(word) for word in cx.texts.decode_tokens(weights, some.tolist())]
figure, (axes,) = cb.figures.panels(1, 2, width=8.6, height=3.4)
for axis, k in zip(axes, (int(fit_own.argmax()), middle), strict=True):
    a, b = w_B[own[k], some], added[k, some]
    axis.scatter(a, b, s=0.6 * often[some].sqrt(), alpha=0.35, lw=0)
    pull = (a - a.mean()) * (b - b.mean())
    for t in pull.argsort(descending=True)[[0, 2, 5, 9]].tolist():
        side, dx = ("right", -3) if a[t] > 0 else ("left", 3)  # away from the strip at the left
        axis.annotate(words[t], (float(a[t]), float(b[t])), (dx, 3), textcoords="offset points", ha=side, fontsize=8, parse_math=False)  # fmt: skip
    axis.set(
        title=f"neuron {neurons[k]}, r = {fit_own[k]:.2f}", xlabel=f"Naive Bayes, {names[own[k]]}"
    )
axes[0].set_ylabel("what the token adds")
cb.figures.picture(
    figure,
    "B.1",
    "A dot is a token that occurs 80 times or more in half B, larger if it is more frequent. Up: what it adds to the neuron; right: its Naive Bayes weight for the neuron's domain, counted on half B. Tokens that never occur in the domain make up the strip at the far left.",
    f"Two scatter plots, r = {fit_own.max():.2f} for neuron {neurons[int(fit_own.argmax())]} and r = {fit_own[middle]:.2f} for neuron {neurons[middle]}.",
)  # fmt: skip

# %% [markdown]
r"""
The best match orders words much as Naive Bayes does. The median neuron raises the words of its domain, and also many words that the domain has no use for. What would you expect of a direction that is no neuron at all?

## Three words by hand

Naive Bayes compares how often a word occurs in a domain and elsewhere. Suppose that of a thousand words there are so many:

| word | in astronomy : elsewhere | weight |
|---|---|---|
| *moon* | $6 : 1$ | $\log 6 = 1.8$ |
| *the* | $50 : 50$ | $\log 1 = 0$ |
| *oven* | $1 : 2$ | $\log \tfrac12 = -0.7$ |

A text with *moon*, *the* and *moon* sums to {{= 3.6 =}}, so it is astronomy with a factor of $e^{3.6} = 36$ on the odds. In general, if the texts of a domain $d$ draw their tokens independently from $p(t \mid d)$, and all others from $p(t \mid \bar d)$, then by Bayes' rule

$$
\begin{aligned}
w_d(t) &= \log \frac{p(t \mid d)}{p(t \mid \bar d)} , \\
\log \frac{p(d \mid x)}{p(\bar d \mid x)} &= \log \frac{p(d)}{p(\bar d)} + \sum_i w_d(x_i) .
\end{aligned}
$$ (eq-cir-bayes)

So the analogy is a prediction about weights. If a neuron responds to domain $d$, what a token adds to it should look like $w_d(t)$. We test this on half B of the texts. Half A has chosen the domain of each neuron, the one in which its summary lies farthest above the rest.

## Neurons, mixtures, and an untrained layer

All neurons read the same heads. So we ask the same of directions that are no neurons: random mixtures of neurons, from which we take as many that single tokens can move farthest, and the neurons of a layer with random weights. To see where the likeness comes from, we also take directions drawn evenly: of what the heads write, and of the token embeddings themselves, without heads. In one more layer values, outputs and neurons are random.

Single tokens move the farthest neurons farther than any mixture, which favours the neurons. So from ten times as many mixtures we take, for each of these neurons, the one that is nearest: in its *reach*, how far single tokens move it, and then in its reach and its *spread*, the standard deviation over texts, together. It was fixed before this was computed that the neurons have something of their own only if they exceed these as well.

To compare a direction with Naive Bayes, we correlate what each token of the vocabulary adds along it with $w_d(t)$, each token weighted by how often it occurs in half B. The weights $w_d$ are counted on half B, too, with counts *smoothed*: we mix in {{prior}} tokens of the usual mixture, so that a rare token is no certain sign. For each group, the table has the median of these correlations for the direction's own domain, the share of directions that this domain's weights *fit best* of all {{domains}} domains, and how well the summaries tell whether a text is of that domain (mean AUC).
"""

# %%
extended = circuit.extended_embedding()[~study.fixed.decomposition.untrained]
summed_A = summed(*written)[A]


def sizes(directions):
    """The logarithms of reach, as neurons are chosen, and spread: `2 direction`."""
    moved = extended @ directions
    reach = moved.topk(cx.neurons.LARGEST, dim=0).values.mean(0) - moved.mean(0)
    return torch.stack([reach, (summed_A @ directions).std(0)]).log()


drawn = [cb.nulls.mixtures(W_in, seed) for seed in range(10)]
pool, size = torch.cat(drawn, 1), sizes(W_in[:, neurons])
apart = (size[:, :, None] - sizes(pool)[:, None]).abs()  # 2 neuron mixture
apart = {"reach": apart[0], "reach and spread": apart.amax(0)}
near = {of: v < np.log(1.05) for of, v in apart.items()}  # within 5%
order = {of: linear_sum_assignment(v + 10 * ~near[of])[1] for of, v in apart.items()}
farthest = drawn[0][:, sizes(drawn[0])[0].topk(NEURONS).indices]
evenly = torch.randn(W_in.shape, generator=torch.Generator().manual_seed(0))
embedded = normalize(weights.W_E + weights.W_pos[n], dim=-1)
blank = cb.nulls.untrained(weights)
random = {name: getattr(blank, name) for name in ("W_V", "W_O", "W_in")}
layers = {"random values and neurons": replace(weights, **random), "untrained layer": blank}
few, mixed = f"{NEURONS} neurons", f"{NEURONS} mixtures"
rows = {few: (added, own, fit, summaries), mixed: lean(farthest)}
rows |= {f"{NEURONS} nearest in {of}": lean(pool[:, which]) for of, which in order.items()}
rows |= {"all neurons": lean(W_in), "all mixtures": lean(drawn[0])}
rows["directions of what the heads write"] = lean(evenly)
rows["directions of the embeddings"] = lean(evenly, (embedded, circuit.kernel))
for name, layer in layers.items():
    of_layer = cx.study(layer, study.texts, heads=study.heads).circuit
    rows[name] = lean(layer.mlp_input()[0], through(of_layer))

# %% tags=["hide-input", "nbval-check-output"]
kept = json.loads(cb.evidence("bayes_rows.json").read_text())
ceiling = np.median(np.diag(correlation(w_A, w_B, often))[own])  # weights of the two halves
table = {}
for name, (_, label, of, at_work) in rows.items():
    each, auc = np.arange(len(label)), cx.neurons.auc(at_work, belongs[:, B])
    table[name] = {
        "median r": np.median(of[each, label]),
        "own fits best": (of.argmax(1) == label).mean(),
        "AUC": auc[label, each].mean(),
    }
table = pd.DataFrame(table).T
table.round(2)

# %% [markdown]
r"""
Where does the likeness come from? In an untrained layer it is {{r_blank}}, along directions of the trained embeddings {{r_embeddings}}, of what the trained heads write {{r_heads}}, and in trained neurons {{r_all}}. {{?mostly_heads}} We had fixed that heads or neurons have made a part of it if they add {{= 0.05 =}}. The heads do: {{by_heads}} ({{= 95% =}} interval over documents: {{by_heads_low}} to {{by_heads_high}}). {{?heads_made}} What the neurons add to that is too little: {{by_neurons}} ({{by_neurons_low}} to {{by_neurons_high}}; both for every fourth direction). {{?neurons_made_little}} Their own axes hardly matter, for all mixtures come within a tenth of all neurons. {{?neurons_alike}} (Weights counted on half A correlate with those of half B by {{ceiling}}, so there was room for more.)

Have the {{judged}} neurons that are moved farthest something of their own? They reach {{r}}, and of {{draws}} sets of as many mixtures none reaches their median. {{?neurons_nearer}} The fairer comparison is with mixtures that tokens move as far, and that vary as much from text to text, both within {{= 5% =}}. Such a partner exists for {{close_spread}} of the {{judged}}. These are ahead by {{spread_ahead}}, but if documents and pairs are drawn anew, the interval goes from {{spread_ahead_low}} to {{spread_ahead_high}}, so we cannot tell. {{?undecided}} (Matched in reach alone, as we had tested first, {{close_reach}} are ahead by {{reach_ahead}}, with an interval from {{reach_ahead_low}} to {{reach_ahead_high}}.)

The post's sentence passes the test that we fixed for it in advance, but that decides little. For {{first}} of the {{judged}} neurons their own domain's weights fit best, and so they do for {{first_mixed}} of the mixtures. {{?mixtures_pass}}

## Could a neuron be Naive Bayes?

Perhaps its form forbids it. A neuron averages with the weights of the kernel where Naive Bayes adds, and all that the heads of $H$, the stable ones, can pass on about token $t$ are $\lvert H \rvert\, d_\text{head}$ numbers $u(t)$, contents times values over denominators. So the best that a neuron could do for domain $d$ is the nearest list of the form

$$
\hat w_d(t) = u(t) \cdot \theta_d + \beta_d .
$$ (eq-cir-inside)

We fit it by least squares, each token as often as it occurs in half A. Then we sort the texts of half B, each into the domain with the largest sum.
"""


# %%
def squeezed(w, u):
    """The nearest weights of the form `u(t) . theta + beta`: `domain token`."""
    u = torch.cat([u.flatten(1).double(), torch.ones(len(u), 1).double()], dim=1)
    f = counts[A].sum(0)[:, None]
    gram = u.T @ (f * u)
    gram += 1e-9 * gram.diagonal().mean() * torch.eye(len(gram))  # heads may share numbers
    return (u @ torch.linalg.solve(gram, u.T @ (f * w.T))).T


def sums(w, kernel):
    """The kernel's sum of the weights of half B's tokens: `text domain`."""
    return torch.stack([w[:, text] @ kernel for text in x[B][:, 1:n]]).numpy()


u = circuit.weighted_values  # vocab head d_head
noise = torch.randn(u.shape, generator=torch.Generator().manual_seed(0))
turn = torch.randn(weights.d_model, u[0].numel(), generator=torch.Generator().manual_seed(0))
once, kernel = torch.ones(n - 1).double(), circuit.kernel[1:n].double()
scores = {
    "each token once": sums(w_A, once),
    "averaged by the kernel": sums(w_A, kernel),
    "squeezed through the heads": sums(squeezed(w_A, u), kernel),
    "squeezed through embeddings": sums(squeezed(w_A, embedded @ turn), kernel),
    "squeezed through noise": sums(squeezed(w_A, noise), kernel),
}
right = {form: np.array(names)[s.argmax(1)] == kinds[B] for form, s in scores.items()}

# %% tags=["hide-input", "nbval-check-output"]
found = {form: cb.with_interval(lambda d, hit=hit: hit[d].mean(), of_B) for form, hit in right.items()}  # fmt: skip
pd.Series(found, name="texts in the right domain").map("{:.0%}".format).to_frame()

# %% [markdown]
r"""
The form does not forbid it. Naive Bayes puts {{once}} of the texts into the right one of {{domains}} domains, and {{heads}} when it is squeezed through the heads. Through as many random numbers a token it is {{noise}}. {{?form_is_no_excuse}} (In `{{model}}` the heads have {{numbers}} numbers for a token, as many as the stream, so the squeeze is no tighter than that. {{?as_many}}) So the heads keep what Naive Bayes needs, and a neuron could read it. But heads deserve no credit for that. We had fixed that they do if they put at least {{= 5 =}} more texts of a hundred into the right domain than the token embeddings, which a random matrix makes into as many numbers, and those put {{embeddings}} there. {{?embeddings_too}} Most neurons do not weigh tokens in this way, which need not surprise us: they were trained to help with the next token, and not to tell domains apart.

## What can go wrong

A low correlation does not make a bad classifier. Asked whether a text of half B belongs to its domain, a neuron has a mean AUC of {{auc}}, a mixture {{auc_mixed}}, and Naive Bayes {{auc_bayes}}. {{?good_all_the_same}} A text has hundreds of tokens, and what is wrong with the weights of single tokens averages out.

The {{domains}} domains are ours, and a neuron may follow subjects that are finer or cross them.

## Where this leaves us

Embeddings lean towards counting words by subject, what the heads write leans more, and any direction inherits that. To say of one neuron that it counts in this way, compare it with mixtures first. The three tests that were fixed first are met (the own domain fits best in most neurons, and these exceed two kinds of mixtures), but mixtures pass the first as well. Of the three that were fixed when this was known, one is met (the heads add to the likeness), one fails (the neurons hardly add more), and the stricter match is undecided. The one about the squeeze fails. {{?mixtures_pass}} {{?neurons_nearer}}

## Exercises

1. *Break this.* Write a text to which a neuron and Naive Bayes give the same subject, one hardly and the other with certainty. What does the analogy lack?
2. *Prove.* If a constant is added to what every token adds, each summary grows by that constant, and the neuron's bias can undo it. Does the same hold in {eq}`eq-cir-bayes`? Why was a correlation the right way to compare the weights?

```{admonition} Solutions
:class: dropdown

1. Repeat a word that leans to the subject only a little. Naive Bayes adds the same small evidence each time and is soon certain. The neuron takes an average, and that stays what one word gives, so it cannot become more certain with the length of the text.
2. The kernel sums to one, so a constant $a$ adds $a$. In Naive Bayes it adds $a$ for each token, and a bias undoes that for one length of text only. In an average, a constant for each token is a bias, so only the rest of the weights says anything, and a correlation looks at nothing else.
```

## Evidence

**The draws of mixtures.** The {{draws}} sets of {{judged}} mixtures each are stored, with the test that was fixed for them in advance (`tools/evidence/bayes_rows.py`): the neurons count as nearer to Naive Bayes than directions at large if fewer than {{= 5% =}} of the draws reach their median ($p = {{p}}$). The sample computed on this page agrees with them. {{?sample_agrees}} Intervals over documents lie somewhat low, because documents that are drawn twice make counts noisier.

**Smoothing** decides what a rare token weighs. With a tenth and with ten times as much of it the median correlation of the {{judged}} neurons is {{weaker}} and {{stronger}}. {{?smoothing}}

**The ledger.**
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
def fits(drawn, *groups):
    """Correlations with the weights of half B, its documents drawn anew: `direction domain`."""
    drawn = np.flatnonzero(B)[drawn]
    w, often = bayes_weights(drawn), counts[drawn].sum(0)
    return [correlation(of, w, often) for of in groups]


def ahead(drawn, one, other, which=slice(None)):
    """By how much the median of one group's fits, each to its own domain, exceeds another's."""
    groups = [rows[name][:2] for name in (one, other)]
    found = fits(drawn, *(of[which] for of, _ in groups))
    of_each = [f[range(len(f)), own[which]] for f, (_, own) in zip(found, groups, strict=True)]
    return np.median(of_each[0]) - np.median(of_each[1])


lost = right["averaged by the kernel"].astype(float) - right["squeezed through the heads"]
cb.ledger(
    model,
    cb.Claim("naive_bayes", "neurons for which their own domain's weights fit best", *cb.with_interval(lambda drawn: (fits(drawn, added)[0].argmax(1) == own).mean(), of_B, 99).for_claim),
    cb.Claim("squeeze", "accuracy lost by squeezing through the heads", *cb.with_interval(lambda drawn: lost[drawn].mean(), of_B).for_claim),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
of_rows = {"r": few, "r_all": "all neurons", "r_blank": "untrained layer"}
of_rows |= {
    "r_heads": "directions of what the heads write",
    "r_embeddings": "directions of the embeddings",
}
by = {form.rpartition(" ")[2]: hit.mean() for form, hit in right.items()}
bayes_auc = cx.neurons.auc(scores["each token once"], belongs[:, B])[own, own].mean()
close, of_close = {}, {}
dice = np.random.default_rng(0)
for of, which in order.items():
    close[of] = np.flatnonzero(near[of][range(NEURONS), which])
    pair = few, f"{NEURONS} nearest in {of}"
    anew = cb.by_document(lambda d, k=close[of], pair=pair: ahead(d, *pair, dice.choice(k, len(k))), of_B, 99)  # fmt: skip
    of_close[of] = (ahead(np.arange(len(of_B)), *pair, close[of]), *anew)
some_of = slice(None, None, 4)  # every fourth direction
made = {}
for who, (one, other) in {"heads": ("directions of what the heads write", "directions of the embeddings"), "neurons": ("all neurons", "directions of what the heads write")}.items():  # fmt: skip
    made[who] = cb.with_interval(lambda d, pair=(one, other): ahead(d, *pair, some_of), of_B, 99)
low, middle_draw, high = kept["null"]["r"]
r_of, first, auc = (table[column] for column in table)
smoothed = [correlation(added, bayes_weights(B, k * PRIOR), often) for k in (0.1, 10)]
weaker, stronger = (float(np.median(of[np.arange(NEURONS), own])) for of in smoothed)
plain = {"ceiling": ceiling, "p": kept["p"], "weaker": weaker, "stronger": stronger, "auc": auc[few], "auc_mixed": auc[mixed], "auc_bayes": bayes_auc}  # fmt: skip
for who, of in made.items():
    plain |= {f"by_{who}{k}": v for k, v in zip(("", "_low", "_high"), of, strict=False)}
for who, of in of_close.items():
    plain |= {
        f"{who.split()[-1]}_ahead{k}": v for k, v in zip(("", "_low", "_high"), of, strict=True)
    }
cb.facts(
    "naive_bayes",
    **{name: cb.fact(v) for name, v in plain.items()},
    model=MODEL.rpartition("/")[2],
    judged=NEURONS,
    domains=len(names),
    **{name: cb.fact(r_of[row]) for name, row in of_rows.items()},
    **{f"close_{of.split()[-1]}": len(k) for of, k in close.items()},
    prior=f"{PRIOR:,}",
    mostly_heads=r_of["untrained layer"] < r_of["directions of the embeddings"] < r_of["directions of what the heads write"] < r_of["all neurons"] < cb.MOST * ceiling,
    heads_made=made["heads"].low > 0 and made["heads"].value >= 0.05,
    neurons_made_little=made["neurons"].value < 0.05,
    half_embeddings=abs(r_of["directions of the embeddings"] / r_of["all neurons"] - 0.5) < cb.ABOUT and made["heads"].value > made["neurons"].value,
    undecided=of_close["reach and spread"][1] < 0 < of_close["reach and spread"][0] and len(close["reach and spread"]) > cb.MOST * NEURONS,
    numbers=u[0].numel(),
    as_many=u[0].numel() == weights.d_model,
    draws=kept["null"]["draws"],
    neurons_nearer=kept["null"]["largest r"] < r_of[few] and kept["neurons are nearer"],
    neurons_alike=abs(r_of["all neurons"] - r_of["all mixtures"]) < cb.ABOUT * r_of["all neurons"],
    first=cb.fact(first[few], ".0%"),
    first_mixed=cb.fact(first[mixed], ".0%"),
    mixtures_pass=kept["the bound decides little"] and min(first[few], first[mixed]) > cb.MOST,
    **{through: cb.fact(by[through], ".0%") for through in ("once", "heads", "noise", "embeddings")},
    embeddings_too=by["heads"] - by["embeddings"] < 0.05,
    form_is_no_excuse=by["once"] - by["heads"] < 0.05 < by["heads"] - by["noise"],
    good_all_the_same=min(auc[few], auc[mixed]) > 0.9 and bayes_auc > max(auc[few], auc[mixed]),
    sample_agrees=low < r_of[mixed] < high and abs(r_of[few] - kept["rows"]["100 neurons"][0]) < 0.005 and abs(r_of["untrained layer"] - kept["rows"]["an untrained layer"][0]) < 0.005,
    smoothing=abs(weaker - stronger) < cb.ABOUT,
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The reading as Naive Bayes, and the question about dimensions, are from the post {cite}`gibson2025contextual`. The test against counts on other documents, the rows of mixtures and the squeeze are worked out here.
"""
