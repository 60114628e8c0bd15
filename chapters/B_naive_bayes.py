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
# Do neurons weigh words like Naive Bayes?

**A little, and most of the likeness is in the heads that they read, not in the neurons.** {{?mostly_heads}} In our small model `{{model}}`, the numbers that a neuron gives to tokens correlate by {{r}} with the weights that Naive Bayes would give them, in the median of {{judged}} neurons. Random mixtures of neurons, which read the same heads along directions that training did not choose, reach {{r_mixed}}.

Suppose you had to sort texts by subject, and could give each word one number to add up. Which number would you give to *galaxy*? Statistics has an old answer, **Naive Bayes**. A neuron also adds up one number a token ([chapter 5](05_circuit)), and the post that this book follows says that one can think of contextual neurons as Naive Bayes classifiers {cite}`gibson2025contextual`. Here are the numbers of two neurons beside those of Naive Bayes. On the left is the best match among the {{judged}} neurons, on the right the median one.
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
PROSE = ("american", "british", "travel")  # the domains that count as plain prose
NEURONS = 100  # how many are judged: those that single tokens can move farthest
PRIOR = 1000  # how many tokens the smoothing of the counts is worth

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the model, and how often each token occurs in each text"}
import json

import numpy as np
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS, MAX_CV, PROSE)
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
    p, q = (v - (v @ share)[:, None] for v in (p, q))
    sizes = ((p**2) @ share)[:, None] * ((q**2) @ share)
    return ((p * share) @ q.T / sizes.sqrt()).numpy()


def bayes_weights(half, worth=PRIOR):
    """w_d(t), with counts smoothed by so many tokens of the usual mixture: `domain token`."""
    of, usual = counts[half], (counts[half].sum(0) + 1) / (counts[half].sum(0) + 1).sum()
    inside = torch.from_numpy(belongs[:, half]).double() @ of  # domain token
    p, p_bar = ((c + worth * usual) / (c.sum(1, keepdim=True) + worth) for c in (inside, of.sum(0) - inside))  # fmt: skip
    return (p / p_bar).log()


print(f"{study}\n{NEURONS} neurons; {A.sum()} texts in half A, {B.sum()} in half B")

# %% tags=["hide-input"]
w_A, w_B, often = bayes_weights(A), bayes_weights(B), counts[B].sum(0)


def lean(directions, of=circuit):
    """What tokens add along some directions (`direction token`), the domain that half A gives each,
    its correlation with the weights of all domains (`direction domain`), and its summaries of half B.
    """
    ext = of.extended_embedding() / of.scale
    bag = torch.zeros(len(x), len(ext)).scatter_add_(1, x, of.kernel.expand(len(x), -1))
    summaries = bag @ ext @ directions  # text direction
    found = cx.label_neurons(summaries[A], kinds[A].tolist(), range(directions.shape[1]))["label"]
    own, added = np.array([names.index(label) for label in found]), (ext @ directions).T.double()
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

All neurons read the same heads. So we ask the same of directions that are no neurons: random mixtures of them, from which we take as many that single tokens can move farthest, and the neurons of a layer with random weights.
"""

# %%
tokens_seen = ~study.fixed.decomposition.untrained
mixtures = cb.nulls.mixtures(W_in)  # d_model mixture
extended = circuit.extended_embedding()[tokens_seen] @ mixtures
top = extended.topk(cx.neurons.LARGEST, dim=0).values.mean(0) - extended.mean(0)
blank = cb.nulls.untrained(weights)
blank_study = cx.study(blank, study.texts, heads=study.heads)
rows = {
    f"{NEURONS} neurons": (added, own, fit, summaries),
    f"{NEURONS} mixtures": lean(mixtures[:, top.topk(NEURONS).indices]),
    "all neurons": lean(W_in),
    "all mixtures": lean(mixtures),
    "untrained layer": lean(blank.mlp_input()[0], blank_study.circuit),
}
r = {name: of[np.arange(len(label)), label] for name, (_, label, of, _) in rows.items()}
first = {name: (of.argmax(1) == label).mean() for name, (_, label, of, _) in rows.items()}

# %% tags=["hide-input"]
kept = json.loads(cb.evidence("bayes_rows.json").read_text())
ceiling = np.diag(correlation(w_A, w_B, often))  # domain: weights of the two halves
shown = {"weights from half A": ceiling[own]} | r
figure, ((axis,),) = cb.figures.panels(height=2.5, width=6.4)
for row, (name, values) in enumerate(shown.items()):
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    axis.hlines(-row, low, high, color="C0" if "neurons" in name else "C7", lw=5, alpha=0.35)
    axis.plot(median, -row, "o", color="C0" if "neurons" in name else "C7")
    axis.text(high + 0.02, -row, f"{median:.2f}", va="center", fontsize=9)
axis.set_yticks(-np.arange(len(shown)), shown)
axis.grid(visible=False, axis="y")
axis.set(xlim=(0, 1), xlabel="correlation with Naive Bayes weights of half B")
cb.figures.picture(
    figure,
    "B.2",
    "How far different numbers agree with the Naive Bayes weights of their own domain. Dot: median; bar: the middle half of the neurons or mixtures. In the first row are weights that were counted on the other half of the texts.",
    "A row each: " + ", ".join(f"{k} {np.median(v):.2f}" for k, v in shown.items()) + ".",
)  # fmt: skip

# %% [markdown]
r"""
Counted on other texts, the weights themselves reach {{ceiling}}, so there was room for more. The {{judged}} neurons reach {{r}}, as many mixtures {{r_mixed}}, and an untrained layer {{r_blank}}. {{?mostly_heads}} Training has brought the likeness, then, but mostly to what the heads write, where every direction finds it. Is any of it the neurons' own? Of {{draws}} sets of {{judged}} mixtures none reaches the neurons' median; they lie between {{low}} and {{high}} in {{= 95% =}} of the draws. {{?neurons_nearer}} So the {{judged}} neurons have something of their own. Neurons at large do not: the median of all {{all}} is {{r_all}}, and of as many mixtures {{r_all_mixed}}. {{?neurons_alike}}

The post's sentence passes the test that we fixed for it in advance, but that decides little. For {{first}} of the {{judged}} neurons their own domain's weights fit best of {{domains}}, and so they do for {{first_mixed}} of the mixtures. {{?mixtures_pass}}

## Could a neuron be Naive Bayes?

Perhaps it cannot. A neuron averages with the weights of the kernel where Naive Bayes adds, and all that the heads can pass on about token $t$ are $\lvert H \rvert\, d_\text{head}$ numbers $u(t)$, contents times values over denominators. So the best that a neuron could do for domain $d$ is the nearest list of the form

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
once, kernel = torch.ones(n - 1).double(), circuit.kernel[1:n].double()
scores = {
    "each token once": sums(w_A, once),
    "averaged by the kernel": sums(w_A, kernel),
    "squeezed through the heads": sums(squeezed(w_A, u), kernel),
    "squeezed through noise": sums(squeezed(w_A, noise), kernel),
}
right = {form: np.array(names)[s.argmax(1)] == kinds[B] for form, s in scores.items()}

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=2.0, width=6.4)
for row, (form, hit) in enumerate(right.items()):
    ends = cb.by_document(lambda drawn, hit=hit: hit[drawn].mean(), of_B)
    axis.barh(-row, hit.mean(), 0.6, color="C7" if "noise" in form else "C0", alpha=0.6)
    axis.plot(ends, [-row, -row], color=cb.figures.INK, lw=1.6)
axis.axvline(1 / len(names), color=cb.figures.INK, lw=1, ls=":")
axis.text(1 / len(names) + 0.01, 0.45, "chance", fontsize=9, va="bottom")
axis.set_yticks(-np.arange(len(right)), right)
axis.grid(visible=False, axis="y")
axis.set(xlabel=f"texts in the right domain of {len(names)}", xlim=(0, 1), ylim=(-3.5, 0.9))
cb.figures.picture(
    figure,
    "B.3",
    f"Naive Bayes, forced step by step into the form of a neuron, on the {B.sum()} texts of half B. Lines: 95% intervals by document.",
    f"Bars: {', '.join(f'{form} {hit.mean():.2f}' for form, hit in right.items())}.",
)

# %% [markdown]
r"""
It could. Naive Bayes puts {{once}} of the texts into the right domain, and {{heads}} when it is squeezed through the heads. Through as many random numbers a token it is {{noise}}. {{?form_is_no_excuse}} So the heads keep what Naive Bayes needs, and the neurons use it for something else. They were trained to help with the next token, and nobody asked them about domains.

## What can go wrong

A low correlation does not make a bad classifier. Asked whether a text of half B belongs to its domain, a neuron has a mean AUC of {{auc}}, a mixture {{auc_mixed}}, and Naive Bayes {{auc_bayes}}. {{?good_all_the_same}} A text has hundreds of tokens, and what is wrong with the weights of single tokens averages out.

The {{domains}} domains are ours, and a neuron may follow subjects that are finer or cross them. But it is not a mixture of ours. The weights of all {{domains}} domains together explain {{together}} of the variance of what tokens add to the median neuron. {{?not_several}}

## Where this leaves us

What a layer's heads write leans towards counting words by subject, and any direction inherits that. To say of one neuron that it counts in this way, compare it with mixtures first.

## Exercises

1. *Break this.* Write a text to which a neuron and Naive Bayes give the same subject, one hardly and the other with certainty. What does the analogy lack?
2. *Prove.* If a constant is added to what every token adds, each summary grows by that constant, and the neuron's bias can undo it. Does the same hold in {eq}`eq-cir-bayes`? Why was a correlation the right way to compare the weights?
3. *Fill in.* Let the subject change between $d$ and $\bar d$ with probability $\lambda$ from each token to the next. While evidence is weak, the log odds are then a sum in which a token $k$ positions back has the weight $(1 - 2\lambda)^k$. For which $\lambda$ does this weight fall to a half at {{= 7 =}} tokens?
"""

# %%
change = ...

# %% tags=["hide-input", "nbval-check-output"]
print("right" if change is not ... and abs((1 - 2 * change) ** 7 - 0.5) < 0.01 else "not yet")

# %% [markdown]
r"""
```{admonition} Solutions
:class: dropdown

1. Repeat a word that leans to the subject only a little. Naive Bayes adds the same small evidence each time and is soon certain. The neuron takes an average, and that stays what one word gives, so it cannot become more certain with the length of the text.
2. The kernel sums to one, so a constant $a$ adds $a$. In Naive Bayes it adds $a$ for each token, and a bias undoes that for one length of text only. In an average, a constant for each token is a bias, so only the rest of the weights says anything, and a correlation looks at nothing else.
3. `change = (1 - 0.5 ** (1 / 7)) / 2`, about {{= 0.047 =}}. Before token $n$ the probability of $d$ is $(1 - \lambda) p + \lambda (1 - p)$. With log odds $L$ this gives $\log \frac{(1 - \lambda) e^L + \lambda}{\lambda e^L + 1 - \lambda}$, which is $(1 - 2\lambda) L$ near zero; then Bayes' rule adds $w_d(x_n)$. So a decaying kernel is what Naive Bayes has when subjects change.
```

## Evidence

**The rows in numbers.** The draws of {{judged}} mixtures each, with the test that was fixed for them in advance, are kept (`tools/evidence/bayes_rows.py`); by that test neurons are nearer than the heads' space if fewer than {{= 5% =}} of the draws reach them ($p = {{p}}$). The sample computed on this page agrees with them. {{?sample_agrees}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Five rows: correlation, how often the own domain fits best, AUC"}
auc = {
    name: cx.neurons.auc(of, belongs[:, B])[label, np.arange(len(label))].mean()
    for name, (_, label, _, of) in rows.items()
}
table = {"median r": {k: np.median(v) for k, v in r.items()}, "own fits best": first, "AUC": auc}
pd.DataFrame(table).round(2)

# %% [markdown]
r"""
**Smoothing** decides what a rare token weighs. A tenth and ten times as much of it change little. {{?smoothing}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The same with weaker and stronger smoothing"}
by_worth = {}
for worth in (PRIOR // 10, PRIOR, 10 * PRIOR):
    of = correlation(added, bayes_weights(B, worth), often)
    hit = sums(squeezed(bayes_weights(A, worth), u), kernel).argmax(1)
    by_worth[worth] = {
        "median r": np.median(of[np.arange(NEURONS), own]),
        "own fits best": (of.argmax(1) == own).mean(),
        "right, through the heads": (np.array(names)[hit] == kinds[B]).mean(),
    }
by_worth = pd.DataFrame(by_worth).T.rename_axis("smoothing, tokens")
by_worth.round(2)

# %% [markdown]
r"""
**The ledger.**
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
def own_fits_best(drawn):
    """The share of neurons whose own domain fits best, with half B's documents drawn anew."""
    drawn = np.flatnonzero(B)[drawn]
    w = bayes_weights(drawn)
    return (correlation(added, w, often).argmax(1) == own).mean()


lost = right["averaged by the kernel"].astype(float) - right["squeezed through the heads"]
cb.ledger(
    model,
    cb.Claim(
        "naive_bayes",
        "neurons for which their own domain's weights fit best",
        *cb.with_interval(own_fits_best, of_B, 99).for_claim,
    ),
    cb.Claim(
        "squeeze",
        "accuracy lost by squeezing through the heads",
        *cb.with_interval(lambda drawn: lost[drawn].mean(), of_B).for_claim,
    ),
)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
share = often / often.sum()
X, Y = (v - (v @ share)[:, None] for v in (w_B, added))
several = torch.linalg.lstsq((X * share.sqrt()).T, (Y * share.sqrt()).T).solution  # domain neuron
together = 1 - float((((Y - several.T @ X) ** 2) @ share / ((Y**2) @ share)).quantile(0.5))
bayes_auc = cx.neurons.auc(scores["each token once"], belongs[:, B])[own, own].mean()
low, middle_draw, high = kept["null"]["r"]
r_of, few, mixed = ({k: np.median(v) for k, v in r.items()}, f"{NEURONS} neurons", f"{NEURONS} mixtures")  # fmt: skip
cb.facts(
    "naive_bayes",
    model=MODEL.rpartition("/")[2],
    judged=NEURONS,
    all=weights.n_neurons,
    domains=len(names),
    r=cb.fact(r_of[few]),
    r_mixed=cb.fact(r_of[mixed]),
    r_blank=cb.fact(r_of["untrained layer"]),
    r_all=cb.fact(r_of["all neurons"]),
    r_all_mixed=cb.fact(r_of["all mixtures"]),
    ceiling=cb.fact(np.median(ceiling[own])),
    mostly_heads=cb.MOST < r_of[mixed] / r_of[few] < 1
    and r_of[few] < cb.MOST * np.median(ceiling[own])
    and r_of["untrained layer"] < cb.MOST * r_of[mixed],
    draws=kept["null"]["draws"],
    low=cb.fact(low),
    high=cb.fact(high),
    p=cb.fact(kept["p"]),
    neurons_nearer=kept["null"]["largest r"] < r_of[few] and kept["neurons are nearer"],
    neurons_alike=abs(r_of["all neurons"] - r_of["all mixtures"]) < cb.ABOUT * r_of["all neurons"],
    first=cb.fact(first[few], ".0%"),
    first_mixed=cb.fact(first[mixed], ".0%"),
    mixtures_pass=kept["the bound decides little"] and min(first[few], first[mixed]) > cb.MOST,
    once=cb.fact(right["each token once"].mean(), ".0%"),
    heads=cb.fact(right["squeezed through the heads"].mean(), ".0%"),
    noise=cb.fact(right["squeezed through noise"].mean(), ".0%"),
    form_is_no_excuse=right["each token once"].mean() - right["squeezed through the heads"].mean()
    < 0.05
    < right["squeezed through the heads"].mean() - right["squeezed through noise"].mean(),
    auc=cb.fact(auc[few]),
    auc_mixed=cb.fact(auc[mixed]),
    auc_bayes=cb.fact(bayes_auc),
    good_all_the_same=min(auc[few], auc[mixed]) > 0.9 and bayes_auc > max(auc[few], auc[mixed]),
    together=cb.fact(together, ".0%"),
    not_several=together < cb.MOST,
    sample_agrees=low < r_of[mixed] < high
    and abs(r_of[few] - kept["rows"]["100 neurons"]["r"][0]) < 0.005
    and abs(r_of["untrained layer"] - kept["rows"]["an untrained layer"]["r"][0]) < 0.005,
    smoothing=by_worth["median r"].max() - by_worth["median r"].min() < cb.ABOUT
    and by_worth["right, through the heads"].min() > 0.8,
)

# %% [markdown]
r"""
## Where this comes from

The reading as Naive Bayes, and the questions about decay and about dimensions, are from the post {cite}`gibson2025contextual`. The test against counts on other documents, the rows of mixtures, the squeeze, and the link between decay and a changing subject are worked out here.
"""
