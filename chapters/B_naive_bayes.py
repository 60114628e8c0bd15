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
# Is a neuron a Naive Bayes classifier?

**It leans towards one, and is not one.**
In the median of 100 neurons, what tokens add correlates 0.29 with the Naive Bayes weights of the neuron's domain; for the same domains, weights counted on other documents reach 0.70.
The form of a neuron is no excuse: Naive Bayes puts 87% of the texts into the right one of 22 domains, and 86% when it is forced into that form.
As a classifier of its domain a neuron has a mean AUC of 0.95, Naive Bayes 0.99, and 7% of the neurons are ahead of it.
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
NEURONS = 100  # how many are judged: those that single tokens can move farthest
PRIOR = 1000  # how many tokens the smoothing of the counts is worth

# %% tags=["hide-input", "nbval-check-output"]
import numpy as np
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS, MAX_CV, PROSE)
n, circuit = study.n, study.circuit
J = cx.find_neurons(circuit, threshold=-np.inf)[:NEURONS].index.tolist()
halves = dict(zip("AB", cb.halves(study.texts), strict=True))
kinds = {h: np.array([t.domain for t in texts]) for h, texts in halves.items()}
names = [d for d in sorted(set(kinds["A"])) if min((k == d).sum() for k in kinds.values()) > 1]
for h, texts in halves.items():  # domains with two texts or more in both halves
    halves[h] = [t for t in texts if t.domain in names]
    kinds[h] = np.array([t.domain for t in halves[h]])
x_A, x_B = (study.fixed.prepare(halves[h]) for h in "AB")  # text source
print(study)
print(f"{len(J)} neurons; half A {len(x_A)} texts, half B {len(x_B)}, {len(names)} domains")

# %% [markdown]
r"""
## What the analogy predicts

[Chapter 5](05_circuit) approximated what the heads add to a neuron by a weighted average of one number a token, $\text{contribution}[t, j]$. Naive Bayes is a sum of one number a token as well, and the post says that contextual neurons can be thought of as doing it {cite}`gibson2025contextual`. If texts of a domain $d$ draw their tokens independently from $p(t \mid d)$, and all others from $p(t \mid \bar d)$, then by Bayes' rule

$$
\log \frac{p(d \mid x)}{p(\bar d \mid x)} \;=\; \log \frac{p(d)}{p(\bar d)} + \sum_{i} w_d(x_i) , \qquad
w_d(t) \;=\; \log \frac{p(t \mid d)}{p(t \mid \bar d)} .
$$ (eq-cir-bayes)

A token three times as frequent in cooking as elsewhere weighs $\log 3 = 1.1$, one that is as frequent weighs 0. So the analogy is a prediction about *weights*: if neuron $j$ answers to domain $d$, its contributions should look like $w_d$, and $w_d$ can be counted in texts. Counts are smoothed as if each side had held `PRIOR` more tokens of the usual mixture.

Label and weights must not come from the same texts. Half A of the held-out documents says which domain a neuron answers to (the one in which its summary lies farthest above the rest); half B counts.
"""


# %%
def count(texts):
    """How often each token occurs in each text: `text token`."""
    tokens = torch.stack([text.tokens[1 : study.length] for text in texts])
    counts = torch.zeros(len(texts), weights.d_vocab, dtype=torch.double)
    return counts.scatter_add_(1, tokens, torch.ones(tokens.shape, dtype=torch.double))


def bayes_weights(counts, kind, worth=PRIOR):
    """w_d(t) by the equation above: `domain token`."""
    inside = torch.tensor(kind == np.array(names)[:, None]).double() @ counts  # domain token
    outside = counts.sum(0) - inside
    usual = (counts.sum(0) + 1) / (counts.sum(0) + 1).sum()
    p, p_bar = ((c + worth * usual) / (c.sum(1, keepdim=True) + worth) for c in (inside, outside))
    return (p / p_bar).log()


def correlation(p, q, frequency):
    """Correlation over tokens, each as often as it occurs: `row of p, row of q`."""
    share = frequency / frequency.sum()
    p, q = (v - (v @ share)[:, None] for v in (p, q))
    sizes = ((p**2) @ share)[:, None] * ((q**2) @ share)
    return ((p * share) @ q.T / sizes.sqrt()).numpy()


# %%
counts_A, counts_B = count(halves["A"]), count(halves["B"])
w_A, w_B = bayes_weights(counts_A, kinds["A"]), bayes_weights(counts_B, kinds["B"])
labels = cx.label_neurons(circuit.summary(x_A)[:, J], kinds["A"], J)["label"]
own = np.array([names.index(label) for label in labels])  # neuron: its domain

contribution = circuit.contribution[:, J].T.double()  # neuron token
often = counts_B.sum(0)  # token
fit = correlation(contribution, w_B, often)  # neuron domain
ceiling = np.diag(correlation(w_A, w_B, often))  # domain: weights of the two halves

fit_own = fit[np.arange(len(J)), own]  # neuron: with the weights of its own domain
others = np.concatenate([np.delete(row, d) for row, d in zip(fit, own, strict=True)])
best = fit.argmax(1) == own  # neuron: whether its own domain's weights fit best

# %% tags=["hide-input"]
middle = int(np.argsort(fit_own)[len(J) // 2])
some = (often >= 80).nonzero()[:, 0]
words = [ascii(word) for word in cx.texts.decode_tokens(weights, some.tolist())]
name = {"textcoords": "offset points", "fontsize": 8, "parse_math": False}
figure, (axes,) = cb.figures.panels(1, 2, width=8.6, height=3.4)
for axis, k in zip(axes, (int(fit_own.argmax()), middle), strict=True):
    a, b = w_B[own[k], some], contribution[k, some]
    axis.scatter(a, b, s=0.6 * often[some].sqrt(), alpha=0.35, lw=0)
    pull = (a - a.mean()) * (b - b.mean())
    for t in pull.argsort(descending=True)[[0, 2, 5, 9]].tolist():
        side, dx = ("right", -3) if a[t] > 0 else ("left", 3)  # away from the strip at the left
        axis.annotate(words[t], (float(a[t]), float(b[t])), (dx, 3), ha=side, **name)
    axis.set(title=f"neuron {J[k]}, r = {fit_own[k]:.2f}", xlabel=f"w of {names[own[k]]}")
axes[0].set_ylabel("contribution")
cb.figures.picture(
    figure,
    "B.1",
    "A dot is a token that occurs 80 times or more in half B, larger if it is more frequent. Up: what it adds to the neuron; right: its Naive Bayes weight for the neuron's domain. Left panel: the neuron that fits best; right panel: the middle one.",
    f"Two scatter plots, r = {fit_own.max():.2f} and r = {fit_own[middle]:.2f}.",
)

# %% [markdown]
r"""
On the left the neuron leans as Naive Bayes would. On the right, the middle case: tokens of its domain are high, and so are many that the domain has no use for. The strip at the far left holds tokens that never occur in the domain's texts: counting cannot tell them apart, and the neuron does.
"""

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=2.6, width=7)
bins = np.linspace(min(others.min(), fit_own.min()), max(fit.max(), ceiling.max()) + 0.02, 45)
groups = {"neurons, other domains": others, "neurons, their own domain": fit_own}
groups["counts of half A"] = ceiling
for (label, values), color in zip(groups.items(), ("C7", "C0", "C1"), strict=True):
    axis.hist(values, bins, density=True, alpha=0.6, label=label, color=color)
axis.set(xlabel="correlation with the weights counted on half B", ylabel="density")
axis.legend(fontsize=8)
cb.figures.picture(
    figure,
    "B.2",
    "How well three things agree with Naive Bayes weights: neurons with their own domain's, with other domains', and the weights counted on the other half of the documents (one entry a domain).",
    f"Three histograms with medians {np.median(fit_own):.2f}, {np.median(others):.2f} and {np.median(ceiling):.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
cb.finding(
    f"In the median of {len(J)} neurons, what tokens add correlates {np.median(fit_own):.2f} with the Naive Bayes weights of the neuron's domain; for the same domains, weights counted on other documents reach {np.median(ceiling[own]):.2f}.",
    holds=bool(np.median(others) < 0.1 < np.median(fit_own) < 0.6 * np.median(ceiling[own])),
)

# %% tags=["hide-input", "nbval-check-output"]
cb.finding(
    f"For {best.mean():.0%} of the neurons their own domain's weights fit best of {len(names)} (by chance {1 / len(names):.0%}), and with those of another domain the median correlation is {np.median(others):.2f}.",
    holds=bool(best.mean() > 0.5),
)

# %% [markdown]
r"""
So the leaning is real: it comes from the weights, and is tested on documents that had no part in choosing the label. But it is small. Is a neuron then a classifier of *several* domains at once? Fit its contributions by the weights of all domains together, least squares with tokens counted as often as they occur:
"""

# %%
share = often / often.sum()
X, Y = (v - (v @ share)[:, None] for v in (w_B, contribution))
several = torch.linalg.lstsq((X * share.sqrt()).T, (Y * share.sqrt()).T).solution  # domain neuron
left = ((Y - several.T @ X) ** 2) @ share / ((Y**2) @ share)  # neuron: unexplained

# %% tags=["hide-input", "nbval-check-output"]
cb.finding(
    f"The weights of all {len(names)} domains together explain {1 - left.median():.0%} of the variance of a neuron's contributions, those of its own {np.median(fit_own**2):.0%}.",
    holds=bool(1 - left.median() < 0.5),
)

# %% [markdown]
r"""
Some of the rest may be subjects finer than these domains, and some is noise in the counts; nothing here says how much. But a neuron was trained to help predict the next token, and nobody asked it about domains.

## What the form costs

Does a neuron's form keep it from being more of a classifier? Take Naive Bayes itself, with its own weights, and force it into that form in two steps. A neuron has a kernel in place of a plain sum; in `mini` it is a nearly even one. And all that the heads tell any neuron about token $t$ passes through $|H|\, d_\text{head}$ numbers $u(t)$,

$$
\text{contribution}[t, j] \;=\; \sum_{h \in H} \underbrace{\frac{\text{content}_h(t)}{\text{denom}_h}\, v_h(t)}_{u_h(t)} \cdot \underbrace{\frac{W_O^h\, W_\text{in}[:, j]}{s}}_{\theta_{h,j}} \;=\; u(t) \cdot \theta_j ,
$$ (eq-cir-inside)

with all letters as in chapter 5. So the best that a neuron could do for $d$ is the nearest vector of this form, with $f(t)$ the frequency of a token:

$$
\begin{aligned}
\hat w_d(t) \;&=\; u(t) \cdot \theta_d + \beta_d , \\
(\theta_d, \beta_d) \;&=\; \operatorname*{arg\,min}_{\theta,\, \beta}\; \sum_t f(t)\, \bigl( w_d(t) - u(t) \cdot \theta - \beta \bigr)^2 .
\end{aligned}
$$ (eq-cir-squeeze)

Weights and fit come from half A; each text of half B is given to the domain of largest sum. As a control, the same with random numbers for $u(t)$, equally many.
"""


# %%
def squeezed(w, u):
    """The nearest weights of the form `u(t) . theta + beta`: `domain token`."""
    u = torch.cat([u.flatten(1).double(), torch.ones(len(u), 1).double()], dim=1)
    f = counts_A.sum(0)[:, None]
    gram = u.T @ (f * u)
    gram += 1e-9 * gram.diagonal().mean() * torch.eye(len(gram))  # heads may share numbers
    return (u @ torch.linalg.solve(gram, u.T @ (f * w.T))).T


def judge(w, kernel):
    """The scores of half B's texts, `text domain`: the kernel's sum of their tokens' weights."""
    return torch.stack([w[:, text] @ kernel for text in x_B[:, 1:n]]).numpy()


def hits(scores):
    """Whether each text has its largest score in its own domain."""
    return np.array(names)[scores.argmax(1)] == kinds["B"]


u, chance = circuit.weighted_values, torch.Generator().manual_seed(0)  # u: vocab head d_head
kernel, once = circuit.kernel[1:n].double(), torch.ones(n - 1).double()
by_heads, by_noise = squeezed(w_A, u), squeezed(w_A, torch.randn(u.shape, generator=chance))
scores = {
    "each token once": judge(w_A, once),
    "discounted by the kernel": judge(w_A, kernel),
    "and squeezed through the heads": judge(by_heads, kernel),
    "squeezed through random numbers": judge(by_noise, kernel),
}
right = {form: hits(of_texts) for form, of_texts in scores.items()}

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=2.0, width=7)
for row, (form, hit) in enumerate(right.items()):
    ends = cb.by_document(lambda drawn, hit=hit: hit[drawn].mean(), halves["B"])
    axis.barh(-row, hit.mean(), 0.6, color="C7" if "random" in form else "C0")
    axis.plot(ends, [-row, -row], color=cb.figures.INK, lw=1.6)
axis.axvline(1 / len(names), color=cb.figures.INK, lw=1, ls=":")
axis.set_yticks(-np.arange(len(right)), right)
axis.set(xlabel=f"right domain of {len(names)} (share of half B)", xlim=(0, 1))
cb.figures.picture(
    figure,
    "B.3",
    f"Naive Bayes in a neuron's form, one step at a time, on the {len(x_B)} texts of half B. Lines: 95% intervals by document. Dotted: chance.",
    f"Bars: {', '.join(f'{form} {hit.mean():.2f}' for form, hit in right.items())}.",
)

# %% tags=["hide-input", "nbval-check-output"]
acc_once, acc_kernel, acc_heads, acc_noise = (hit.mean() for hit in right.values())
display(
    cb.finding(
        f"The form of a neuron is no excuse: Naive Bayes puts {acc_once:.0%} of the texts into the right one of {len(names)} domains, and {acc_heads:.0%} when it is forced into that form.",
        holds=acc_once - acc_heads < 0.05,
    ),
    cb.finding(
        f"With as many random numbers a token in place of the heads' {u[0].numel()} it is {acc_noise:.0%}.",
        holds=acc_heads > acc_noise + 0.1,
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
agree = [correlation(w, w_B, often).diagonal().mean() for w in (w_A, by_heads)]
cb.finding(
    f"Squeezing even helps the weights: against counts on half B those of half A have, in the mean over domains, a correlation of {agree[0]:.2f} before it and {agree[1]:.2f} after.",
    holds=bool(agree[1] > agree[0]),
)

# %% [markdown]
r"""
A gain from forgetting would be explained if tokens that keep similar company had similar numbers in the heads: a word that half A never saw in a domain would be judged by its relatives. That is not tested here. What is settled is the question of this section: neurons of this form could be Naive Bayes, and are not.

## As classifiers

The neuron has its label from half A, Naive Bayes its weights; both are asked whether a text of half B belongs to the domain. AUC is the chance that a text of the domain scores higher than another one.
"""

# %%
summaries = circuit.summary(x_B)[:, J].numpy()  # text neuron
belongs = kinds["B"] == np.array(names)[:, None]  # domain text
of_neurons = cx.neurons.auc(summaries, belongs)  # domain neuron
of_bayes = cx.neurons.auc(scores["each token once"], belongs)  # domain domain
duel = pd.DataFrame(
    {
        "domain": labels.to_numpy(),
        "neuron": of_neurons[own, range(len(own))],
        "Naive Bayes": of_bayes[own, own],
    },
    index=labels.index,
)

# %% tags=["hide-input"]
order = duel.groupby("domain")["neuron"].median().sort_values().index
figure, ((axis,),) = cb.figures.panels(height=0.6 + 0.2 * len(order), width=7)
rows = order.get_indexer(duel["domain"])
axis.plot(duel["neuron"], rows, "o", ms=4, alpha=0.6, label="a neuron")
axis.plot(duel["Naive Bayes"], rows, "|", ms=12, mew=2.5, label="Naive Bayes")
axis.set_yticks(range(len(order)), order)
axis.set(xlabel="AUC on half B")
axis.legend(fontsize=8)
cb.figures.picture(
    figure,
    "B.4",
    "Neurons and Naive Bayes as classifiers of the same domains, on documents that neither has seen.",
    f"A row for each of {len(order)} domains. Mean AUC over neurons {duel['neuron'].mean():.2f}, of Naive Bayes {duel['Naive Bayes'].mean():.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
ahead = (duel["neuron"] > duel["Naive Bayes"]).mean()
cb.finding(
    f"As a classifier of its domain a neuron has a mean AUC of {duel['neuron'].mean():.2f}, Naive Bayes {duel['Naive Bayes'].mean():.2f}, and {ahead:.0%} of the neurons are ahead of it.",
    holds=bool(duel["neuron"].mean() < duel["Naive Bayes"].mean() and ahead < 0.1),
)

# %% [markdown]
r"""
A single neuron is a good classifier all the same. Its weights correlate little with the best ones, but a text has hundreds of tokens, and what is wrong with the weights of single tokens can average out.

## What breaks it

*The smoothing.* It decides what a rare token weighs. The same numbers with weaker and stronger smoothing:
"""


# %%
def smoothed(worth):
    """The same numbers when the smoothing is worth so many tokens."""
    w = bayes_weights(counts_A, kinds["A"], worth)
    fit = correlation(contribution, bayes_weights(counts_B, kinds["B"], worth), often)
    return {
        "r with own domain": np.median(fit[np.arange(len(J)), own]),
        "own fits best": (fit.argmax(1) == own).mean(),
        "right, each token once": hits(judge(w, once)).mean(),
        "right, by kernel": hits(judge(w, kernel)).mean(),
        "right, through the heads": hits(judge(squeezed(w, u), kernel)).mean(),
    }


# %% tags=["hide-input", "nbval-check-output"]
by_worth = {worth: smoothed(worth) for worth in sorted({PRIOR // 10, PRIOR, 10 * PRIOR})}
pd.DataFrame(by_worth).T.rename_axis("smoothing, tokens").map("{:.2f}".format)

# %% [markdown]
r"""
*Labels are this book's.* The domains are 22 that somebody chose, and neurons with the same label are not independent of each other.

## Claims
"""


# %% tags=["hide-input", "nbval-check-output"]
def own_fits_best(drawn):
    """The share of neurons whose own domain fits best, with half B's documents drawn anew."""
    w_drawn = bayes_weights(counts_B[drawn], kinds["B"][drawn])
    return (correlation(contribution, w_drawn, often).argmax(1) == own).mean()


lost = right["discounted by the kernel"].astype(float) - right["and squeezed through the heads"]
cb.ledger(
    model,
    cb.Claim(
        "naive_bayes",
        "neurons for which their own domain's weights fit best",
        *cb.with_interval(own_fits_best, halves["B"], 99).for_claim,
    ),
    cb.Claim(
        "squeeze",
        "accuracy lost by squeezing through the heads",
        *cb.with_interval(lambda drawn: lost[drawn].mean(), halves["B"]).for_claim,
    ),
)

# %% [markdown]
r"""
The first line asks whether a neuron leans to its own domain, which it does; the correlation above says how far.

## Exercises

1. *Predict, then run.* Set `TOKEN = "."`. A neuron and Naive Bayes: the weights of which of them change?
2. *Break this.* Write a text of which both classifiers say the same subject, one hardly and one with certainty. What does the analogy lack?
3. *Prove.* Adding a constant to $\text{contribution}[t, j]$ for all $t$ changes every summary by that constant, so a neuron's bias can undo it. Does the same hold in {eq}`eq-cir-bayes`? Why was a correlation the right way to compare the weights?
4. *Prove.* Let the subject be $d$ or $\bar d$, and change with probability $\lambda$ from each token to the next. Show that the log odds obey $L_n = g(L_{n-1}) + w_d(x_n)$ with $g(L) \approx (1 - 2\lambda) L$ near zero. What kernel is that?

```{admonition} Solutions
:class: dropdown

1. A neuron's: they contain the content of the heads and their denominators, and these depend on the token that asks. Counts of tokens do not know who asks.
2. A word that leans to the subject only a little, repeated. Naive Bayes adds the same small evidence each time and is soon certain; the neuron takes a mean, and that is what one word gives. A mean does not count, so it cannot become more certain with the length of the text.
3. The kernel sums to one, so a constant $a$ adds $a$. In Naive Bayes it adds $a$ for each token: a bias can undo that for texts of one length only. In a mean a constant a token and a bias are the same thing, so only the rest of the weights says anything.
4. Before token $n$ the probability of $d$ has become $(1 - \lambda) p + \lambda (1 - p)$; with $p = e^L / (1 + e^L)$ the log odds are $g(L) = \log \frac{(1 - \lambda) e^L + \lambda}{\lambda e^L + 1 - \lambda}$, to which Bayes' rule adds $w_d(x_n)$. $g(0) = 0$ and $g'(0) = 1 - 2\lambda$. While evidence is weak, $L_n \approx \sum_i (1 - 2\lambda)^{n - i} w_d(x_i)$: an exponential kernel, with half of its mass within $D$ tokens if $\lambda \approx 0.35 / D$.
```

## Where this comes from

The reading as Naive Bayes and the questions about decay and dimensions are from the post {cite}`gibson2025contextual`. The test against counts on other documents, the squeeze and the link between decay and a changing subject are worked out here.
"""
