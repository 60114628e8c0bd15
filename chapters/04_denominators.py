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
# Why do denominators hold still?

**Because each is an average over many tokens, and what is averaged differs little from topic to topic.** A head's denominator is the sum by which its row of attention is divided.
Over 1000 held-out texts the denominators of `mini` spread by 2% to 24% of their mean, in heads that cover 126 to 249 effective tokens.
In heads 0 and 7, which say 92% of what differs between texts, the topic moves the denominator by 14% to 20% of its mean; in the others by 8% at most.
With content dealt to the vocabulary at random denominators hold still too, at a spread below 0.3 in every head and each of 40 draws.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = (
    1000  # how many held-out texts to measure; the environment variable CTX_TEXTS names other ones
)
TOKEN = " the"  # the destination token

# %% tags=["hide-input", "nbval-check-output"]
import re
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from einops import einsum
from scipy.stats import norm

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, or_all=True)
texts, n = study.texts, study.n
heads = np.arange(weights.n_heads)
print(study)

# %% [markdown]
r"""
## An average, by hand

[Chapter 3](03_kernels) left a row as kernel times content, divided by the **denominator**:

$$
a_i \;\approx\; \frac{\text{pos}_i\;\text{content}(x_i)}{\text{denom}}, \qquad
\text{denom} \;=\; \sum_{i \le n} \text{pos}_i\;\text{content}(x_i).
$$ (eq-denom)

Take its three tokens again, and beside them a second text that says *tide* where the first says *moon*. Kernel and content are chosen by hand here.
"""

# %% tags=["nbval-check-output"]
hand = pd.DataFrame(
    {"pos": [0.1, 0.2, 0.7], "content, moon": [1, 6, 1], "content, tide": [1, 4, 1]},
    index=["BOS", "moon / tide", "the"],
).T
for text in ("moon", "tide"):
    hand.loc[f"product, {text}"] = hand.loc["pos"] * hand.loc[f"content, {text}"]
hand["denominator"] = hand.filter(like="product", axis=0).sum(axis=1)
hand.round(2).map("{:g}".format).replace("nan", "")

# %% [markdown]
r"""
The kernel sums to one, so a denominator is a weighted mean of contents. Two things keep the two denominators close. Only the middle token differs, and it counts for a fifth. And its content differs little: 6 against 4. A real head has both in its favour: a kernel over hundreds of tokens, so that each counts for little, and a content
that varies moderately from token to token. If the denominator were the same number in every text, a head would be a plain weighted sum over tokens. How far does it move, and why no further?

## One real text

First the code, for every held-out text at once. All are asked by the same token, $x_n$ replaced by `TOKEN`, as in the paper {cite}`gibson2025decomposing`. Contents have an arbitrary unit, one a head, so only ratios of denominators mean anything. The **relative spread** of a head is the standard deviation of its denominator over texts, over the mean.
"""


# %%
def contents(study):
    """`head text source` content of every token of every text, and `head source` kernels."""
    content = study.at.split.content.exp()  # head vocab
    x = study.at.placed(study.texts)  # text source
    return content[:, x], study.at.split.kernels


def average(values, pos):
    """`text head`: the mean of each text's contents under each kernel."""
    return einsum(pos, values, "head source, head text source -> text head")


values, pos = contents(study)
denoms = average(values, pos)
mean = denoms.mean(0)  # head
relative = denoms / mean  # what texts can be compared by
spread = relative.std(0)  # head

# %%
head, example = study.heads[0], texts.index(study.example)
loudness = values[head, example] / mean[head]  # source
summed, weight = (v.flip(0).cumsum(0).flip(0) for v in (pos[head] * loudness, pos[head]))
running = summed / weight  # what the denominator would be of the sources i ... n alone

# %% tags=["hide-input"]
x = study.at.placed([study.example])[0]
names = ["BOS", *cx.neurons.spelled(weights, x[1:].tolist())]
panels = {
    "kernel": pos[head],
    "content (mean denominator = 1)": loudness,
    "running denominator: the weighted mean of content over sources i ... n": running,
}
figure, axes = cx.plots.sources(names, panels)
for mark in list(axes[2].texts):
    mark.remove()
axes[2].axhspan(1 - spread[head], 1 + spread[head], color=cx.plots.INK, alpha=0.2, lw=0)
cx.plots.picture(
    figure,
    "4.1",
    f"Head {head} at n = {n} in “{study.example.subject}”. The third panel is read from right to left: it averages the sources from n back to i, and at i = 0 it is this text's denominator. Grey: one standard deviation over the {len(texts)} texts about their mean.",
    f"Three panels over the sources 0 to {n}: the kernel, the content with its loudest tokens named, and the running denominator, which is {running[-1]:.2f} at the destination, {running[n // 2]:.2f} half way back and {running[0]:.2f} at source 0, in units of the mean over texts.",
)

# %% [markdown]
r"""
A single loud token, *planets* at the right, moves the average of the few sources nearest to $n$, and hardly moves that of two hundred. The roster has the spread of every head. A head is called **stable** if that is below 0.3 and its kernel covers more than 40 effective tokens; why the second is asked, another model will show.
"""

# %% tags=["hide-input", "nbval-check-output"]
effective = cx.effective_tokens(pos)
display(
    study.roster,
    cx.claims.finding(
        f"Over {len(texts)} held-out texts the denominators of {MODEL} spread by {spread.min():.0%} to {spread.max():.0%} of their mean, in heads that cover {effective.min():.0f} to {effective.max():.0f} effective tokens.",
        holds=bool(spread.max() < study.steady and effective.min() > cx.split.BROAD),
    ),
)

# %% [markdown]
r"""
## A model whose heads do not hold still

The first edition of this book had another model of the same shape, with three local heads built in by hand and a loss that kept its first LayerNorm steady. It is the contrast:
"""

# %% tags=["hide-input"]
FIRST, both = "the first edition's model", {MODEL: study}
with suppress(OSError, ValueError):  # it is not everywhere
    both[FIRST] = cx.study(cx.load("mini-first-edition"), TEXTS, TOKEN, or_all=True)
measured = {name: contents(one) for name, one in both.items()}

# %% tags=["hide-input"]
figure, axes = cx.plots.panels(1, len(both), height=2.6, sharey=True)
told = []
for axis, (name, found) in zip(axes[0], measured.items(), strict=True):
    of_mean = average(*found)
    of_mean = (of_mean / of_mean.mean(0)).numpy()
    at, (low, high) = np.arange(of_mean.shape[1]), np.quantile(of_mean, (0.05, 0.95), axis=0)
    axis.vlines(at, low, high, color=cx.plots.COLOURS[0], lw=5, alpha=0.4)
    for h in at:
        axis.plot(h + np.linspace(-0.3, 0.3, 60), of_mean[:60, h], ".", ms=2.5, color=cx.plots.INK)
    axis.axhline(1, color=cx.plots.INK, lw=0.8, ls=":")
    axis.set(title=name, xlabel="head", xticks=at, yscale="log", ylim=(0.1, 10))
    axis.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    told.append(f"{name}: {cx.plots.by_head(of_mean.std(0, ddof=1), '.0%')}")
axes[0, 0].set_ylabel("denom / mean over texts")
cx.plots.picture(
    figure,
    "4.2",
    f"Denominators of the same texts in {len(both)} models, over their mean. Bars: the middle 90% of {len(texts)} texts; dots: 60 of them. Logarithmic axis.",
    f"A column of points a head. Standard deviation over mean, {'; '.join(told)}.",
)

# %% [markdown]
r"""
Width is not all, then. In the model on the right head 0 spreads least, and its kernel covers only 2 effective tokens. The hand example shows why: 0.7 of the kernel sits on *the*, the destination, which is the same in every text because we put it there. Take away what BOS and the destination add, and this is left:
"""

# %% tags=["hide-input", "nbval-check-output"]
if FIRST in both:
    values_1, pos_1 = measured[FIRST]
    whole = average(values_1, pos_1)
    free = average(values_1[..., 1:-1], pos_1[:, 1:-1])  # without BOS and destination
    held = 1 - free.mean(0) / whole.mean(0)  # head
    moves, rest = (denom.std(0) / denom.mean(0) for denom in (whole, free))
    rows = {
        "effective tokens": [f"{v:.0f}" for v in cx.effective_tokens(pos_1)],
        "spread": [f"{v:.0%}" for v in moves],
        "part that is the same in all texts": [f"{v:.0%}" for v in held],
        "spread of the rest": [f"{v:.0%}" for v in rest],
        "stable": ["yes" if h in both[FIRST].heads else "" for h in range(len(held))],
    }
    calm = int(moves.argmin())
    trivial = cx.claims.finding(
        f"Head {calm} of the first edition's model spreads by only {moves[calm]:.0%}, since {held[calm]:.0%} of its denominator comes from tokens that were held fixed; the rest of it spreads by {rest[calm]:.0%}.",
        holds=bool(calm not in both[FIRST].heads and held[calm] > 0.9 and rest[calm] > 1),
    )
    display(pd.DataFrame(rows).rename_axis("head"), trivial)
else:
    said = "The first edition's model is not here, so what is said of it is left out."
    display(cx.claims.Finding(said))

# %% [markdown]
r"""
A head that looks at the destination is steady for a trivial reason, and the condition on effective tokens keeps it from being called stable. Head 2 covers the most tokens, and moves. How even the content is must count as well, and the next section has both in one formula.

## Tokens from a hat

The simplest model of text: every $x_i$ is drawn **independently from one distribution**. In the example, let the middle token be *moon* or *tide* with equal chances. Its content has mean 5 and variance 1, it enters with weight 0.2, so the denominator has variance $0.2^2 \cdot 1$ and a standard deviation of 0.2: half of the distance from 1.6 to 2.0.
In general, with mean $\mu$ and variance $\sigma^2$ of one token's content,

$$
\begin{aligned}
\mathbb{E}\,\text{denom} &= \text{fixed} + \mu \sum_i \text{pos}_i , \\
\operatorname{Var}\,\text{denom} &= \sigma^2 \sum_i \text{pos}_i^2 \approx \frac{\sigma^2}{\text{effective tokens}} ,
\end{aligned}
$$ (eq-iid)

because variances of independent terms add and a weight comes out squared. BOS and the destination are the same in every text: they add what is *fixed*, and the sums run over the tokens between them. A spread is over the mean of the whole denominator, what is fixed included. In code, and beside it the same texts with all their tokens shuffled over all texts, which makes them independent indeed:
"""

# %%
inner, kernel = values[..., 1:-1], pos[:, 1:-1]  # without BOS and destination
mu, variance = inner.mean((1, 2)), inner.var((1, 2))
iid = variance * kernel.square().sum(-1)  # head

hat = torch.randperm(inner[0].numel(), generator=torch.Generator().manual_seed(0))
shuffled = average(inner.flatten(1)[:, hat].view_as(inner), kernel)

# %% tags=["hide-input", "nbval-check-output"]
varies, over_iid = variance.sqrt() / mu, denoms.var(0) / iid  # each: head
pd.DataFrame(
    {
        "σ/μ of one token": [f"{v:.2f}" for v in varies],
        "spread, independent tokens": [f"{v:.1%}" for v in iid.sqrt() / mean],
        "spread, shuffled texts": [f"{v:.1%}" for v in shuffled.std(0) / mean],
        "spread, texts as they are": [f"{v:.1%}" for v in spread],
        "variance over independent": [f"{v:.1f}" for v in over_iid],
    },
    index=pd.Index(heads, name="head"),
)

# %% tags=["hide-input", "nbval-check-output"]
gap = (effective[:, None] / effective - 1).abs()  # head head
gap[spread[:, None] >= spread / 2] = torch.inf  # pairs of heads that spread alike
a, b = divmod(int(gap.argmin()), len(heads))
cx.claims.finding(
    f"Heads {a} and {b} have kernels of the same width, {effective[a]:.0f} effective tokens, and spread by {spread[a]:.1%} and {spread[b]:.1%}: the content of head {b} varies {varies[b] / varies[a]:.1f} times as much from token to token.",
    holds=bool(gap[a, b] < 0.05 and varies[b] > 2 * varies[a]),
)

# %% tags=["hide-input", "nbval-check-output"]
cx.claims.finding(
    f"Shuffled texts spread as independent tokens should, and texts as they are have {over_iid.min():.1f} to {over_iid.max():.1f} times that variance.",
    holds=bool(((shuffled.var(0) / iid).log().abs() < 0.2).all() and over_iid.min() > 1.5),
)

# %% [markdown]
r"""
So both count: many tokens, and an even content. (An earlier post describes such a pair of heads in GPT-2 small {cite}`gibson2025contextual`.) But the denominators of real texts have several times the variance that a hat would give them. Before we ask why, see what a variance promises.

## How often is a denominator far off?

Two inequalities turn what is known of one token into a promise about the average. **Chebyshev** needs the variance. Write $m$ for $\mathbb{E}\,\text{denom}$. Wherever $\lvert \text{denom} - m \rvert \ge \varepsilon$, the square is at least $\varepsilon^2$, so the mean of the square is at least $\varepsilon^2$ times the probability of that:

$$
P(\lvert \text{denom} - m \rvert \ge \varepsilon) \;\le\; \frac{\sigma^2 \sum_i \text{pos}_i^2}{\varepsilon^2} .
$$ (eq-chebyshev)

**Hoeffding** needs the range $[a, b]$ of content instead. The same step with $e^{\lambda x}$ in place of $x^2$ gives, for each $\lambda > 0$ and with $X_i = \text{content}(x_i)$,

$$
P(\text{denom} - m \ge \varepsilon) \;\le\; e^{-\lambda \varepsilon} \prod_i \mathbb{E}\, e^{\lambda\, \text{pos}_i (X_i - \mu)} \;\le\; e^{-\lambda\varepsilon + \lambda^2 (b-a)^2 \sum_i \text{pos}_i^2 / 8} ,
$$

since a variable of mean zero in an interval of width $w$ has $\mathbb{E}\,e^{\lambda x} \le e^{\lambda^2 w^2 / 8}$ {cite}`hoeffding1963`. The best $\lambda$ is $4 \varepsilon / ((b - a)^2 \sum_i \text{pos}_i^2)$; with both sides counted,

$$
P(\lvert \text{denom} - m \rvert \ge \varepsilon) \;\le\; 2 \exp\left( - \frac{2 \varepsilon^2}{(b - a)^2 \sum_i \text{pos}_i^2} \right) .
$$ (eq-hoeffding)

If tokens were independent, how many texts could have a denominator that is off by a fifth or more? And how many do?
"""


# %%
def chebyshev(variance, kernel, epsilon):
    return (variance * kernel.square().sum(-1) / epsilon**2).clamp(max=1)


def hoeffding(width, kernel, epsilon):
    exponent = 2 * epsilon**2 / (width**2 * kernel.square().sum(-1))
    return (2 * (-exponent).exp()).clamp(max=1)


fifth = 0.2 * mean  # chapter 4 calls a denominator good that is off by less
width = inner.amax((1, 2)) - inner.amin((1, 2))
promised = chebyshev(variance, kernel, fifth), hoeffding(width, kernel, fifth)
off = ((denoms - mean).abs() >= fifth).float().mean(0)

# %% tags=["hide-input", "nbval-check-output"]
loudest = inner.amax((1, 2)) / mu  # head
pd.DataFrame(
    {
        "loudest token / mean": [f"{v:.1f}" for v in loudest],
        "off by a fifth: Chebyshev allows": [f"{v:.1%}" for v in promised[0]],
        "Hoeffding allows": [f"{v:.1%}" for v in promised[1]],
        "texts that are": [f"{v:.1%}" for v in off],
    },
    index=pd.Index(heads, name="head"),
)

# %% tags=["hide-input", "nbval-check-output"]
kept = (promised[1] < 0.01) & (promised[0] < 0.01)
silent, broken = (heads[v].tolist() for v in (promised[1] >= 1, off > promised[0]))
most = [max(v.tolist(), default=0) for v in (loudest[silent], off[broken], promised[0][broken])]
display(
    cx.claims.finding(
        f"In {int(kept.sum())} heads both inequalities promise less than 1% of texts off by a fifth; for heads {cx.claims.listed(silent)} Hoeffding promises nothing, since single tokens are up to {most[0]:.0f} times as loud as the mean.",
        holds=bool(kept.sum() >= weights.n_heads / 2 and silent and not kept[silent].any()),
    ),
    cx.claims.finding(
        f"In head {cx.claims.listed(broken)}, {most[1]:.0%} of the texts are off by a fifth where Chebyshev allows {most[2]:.0%}.",
        holds=len(broken) == 1,
    ),
)

# %% [markdown]
r"""
A theorem cannot fail, but its assumption can: tokens are not independent. ([Appendix C](C_certificates) has promises that are kept.)

## Text is not drawn from a hat

Drop independence and keep **stationarity**: the mean is the same everywhere, and the covariance of two contents depends only on how far apart the tokens are. Call it $\gamma(k)$ at distance $k$, the **autocovariance**. Then

$$
\operatorname{Var}\,\text{denom} \;=\; \sum_{i,k} \text{pos}_i\,\text{pos}_k\,\gamma(\lvert i - k \rvert) .
$$ (eq-autocovariance)

For independent tokens $\gamma$ is $\sigma^2$ at zero and nothing elsewhere, and this is {eq}`eq-iid` again.
"""


# %%
def autocovariance(values):
    """`head text lag`; the mean over texts is γ. By Fourier transform, padded, so that no pair
    wraps around: at each lag the mean over the pairs that are so far apart."""
    length = values.shape[-1]
    centred = values - values.mean((1, 2), keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * length).abs().square()
    return torch.fft.irfft(spectrum, n=2 * length)[..., :length] / torch.arange(length, 0, -1)


gamma = autocovariance(inner).mean(1)  # head lag

# %% tags=["hide-input"]
KINDS = {  # domains of the held-out texts
    "code": ["python"],
    "poetry and drama": ["poetry-drama"],
    "fiction": ["fiction-american", "fiction-british"],
    "other languages": ["french", "german", "spanish"],
    "scripture": ["bible-kjv"],
}
domain = np.array([text.domain for text in texts])
kind = np.select([np.isin(domain, v) for v in KINDS.values()], list(KINDS), "English prose")
own = inner.clone()  # about the mean of its domain, so that domains do not count as dependence
for name in set(domain.tolist()):
    own[:, domain == name] -= inner[:, domain == name].mean((1, 2), keepdim=True)
of_kind = {k: autocovariance(own[:, kind == k]).mean(1) for k in sorted(set(kind.tolist()))}

# %% tags=["hide-input"]
all_texts = {f"head {h}": gamma[h] / gamma[h, 0] for h in heads}
all_heads = {k: (g / g[:, :1]).median(0).values for k, g in of_kind.items()}
steps = np.unique(np.geomspace(1, max(2, gamma.shape[1] * 3 // 4), 12).astype(int))
figure, axes = cx.plots.panels(1, 2, height=2.8, sharey=True)
for axis, lines in zip(axes[0], (all_texts, all_heads), strict=True):
    for i, (name, line) in enumerate(lines.items()):
        binned = [float(line[low:high].mean()) for low, high in pairwise(steps)]
        axis.plot(steps[:-1], binned, label=name, lw=1.3, **cx.plots.head_style(i))
    axis.axhline(0, color=cx.plots.INK, lw=0.8)
    axis.set(xscale="log", xlabel="lag k (tokens)")
    axis.legend(ncols=2, fontsize=7)
axes[0, 0].set(ylabel="γ(k) / γ(0)", title="heads, all texts")
axes[0, 1].set_title("kinds of text, median over heads")
cx.plots.picture(
    figure,
    "4.3",
    "The autocorrelation of content, averaged over stretches of lags. Left: every head, all texts together. Right: by kind of text, each domain about its own mean; at each lag the median over heads.",
    f"Two panels of curves over the lag. Level at the longest lags, left: {cx.plots.by_head(gamma[:, gamma.shape[1] // 2 :].mean(-1) / gamma[:, 0], '.3f')}.",
)

# %% [markdown]
r"""
Neighbours add little: at short lags the correlations are of both signs, and few pairs of tokens are so close. But the curves on the left do not go to zero. Tokens a hundred places apart hardly influence one another; if their contents still vary together, it is because both belong to the same text. Such a correlation is tiny, about a hundredth, but *every* pair of tokens has it, so averaging does not remove it.

Give each text a topic with a mean content of its own, and call the variance of these means $\tau^2$. The **law of total variance** splits

$$
\operatorname{Var}\,\text{denom} \;=\; \mathbb{E}\bigl[\operatorname{Var}(\text{denom} \mid \text{topic})\bigr] + \operatorname{Var}\bigl(\mathbb{E}[\text{denom} \mid \text{topic}]\bigr),
$$ (eq-total-variance)

and the second part is $\tau^2$ (times $(\sum_i \text{pos}_i)^2$, nearly one), however wide the kernel. We read $\tau^2$ off $\gamma$ as its level at long lags, the mean over the longer half of them. So "topic" means whatever all tokens of a text share, language and author included. Every covariance now has its place:

$$
\begin{aligned}
\operatorname{Var}\,\text{denom} \;=\;\; & \underbrace{(\gamma(0) - \tau^2) \sum_i \text{pos}_i^2}_{\text{independent}}
\;+\; \underbrace{\tau^2 \Bigl(\sum_i \text{pos}_i\Bigr)^2}_{\text{topic}} \\
& +\; \underbrace{\sum_{i \ne k} \text{pos}_i\,\text{pos}_k \bigl(\gamma(\lvert i - k\rvert) - \tau^2\bigr)}_{\text{neighbours}} .
\end{aligned}
$$ (eq-account)
"""


# %%
def account(values, kernel):
    """The terms, each `head text`: the mean over texts is what the equation has."""
    gamma, length = autocovariance(values), values.shape[-1]
    pairs = torch.fft.irfft(torch.fft.rfft(kernel, n=2 * length).abs().square(), n=2 * length)
    pairs = pairs[:, :length] * 2  # head lag: the weight of all pairs so far apart, in both orders
    pairs[:, 0] /= 2
    far = torch.arange(length - length // 2, 0, -1.0)  # how many pairs there are, at long lags
    tau2 = gamma[..., length // 2 :] @ far / far.sum()
    summed = average(values, kernel).T
    terms = {
        "independent": (gamma[..., 0] - tau2) * kernel.square().sum(-1, keepdim=True),
        "topic": tau2 * kernel.sum(-1, keepdim=True) ** 2,
        "all": einsum(gamma, pairs, "head text lag, head lag -> head text"),
        "measured": (summed - summed.mean(1, keepdim=True)).square(),
    }
    terms["neighbours"] = terms["all"] - terms["independent"] - terms["topic"]
    return terms


accounts = {name: account(v[..., 1:-1], p[:, 1:-1]) for name, (v, p) in measured.items()}
terms = accounts[MODEL]


def share(part, h=slice(None), drawn=slice(None), of=terms):
    """A term as a share of the measured variance, over the texts drawn."""
    return of[part][h][..., drawn].mean(-1) / of["measured"][h][..., drawn].mean(-1)


# %% tags=["hide-input"]
figure, axes = cx.plots.panels(1, len(both), height=2.6, sharey=True)
told = []
for axis, (name, of) in zip(axes[0], accounts.items(), strict=True):
    at, top, low, total = range(len(of["all"])), 0, 0, share("all", of=of)
    for part, hatch in (("independent", ""), ("topic", ".."), ("neighbours", "//")):
        bar = share(part, of=of)
        axis.bar(at, bar, 0.6, bottom=np.where(bar >= 0, top, low), label=part, hatch=hatch)
        top, low = top + bar.clip(min=0), low + bar.clip(max=0)
    axis.plot(at, total, "D", ms=5, color=cx.plots.INK, mfc="none", label="sum")
    axis.axhline(1, color=cx.plots.INK, lw=1, ls=":")
    axis.set(title=name, xlabel="head", xticks=at)
    told.append(f"{name}: {cx.plots.by_head(total)}")
axes[0, 0].set_ylabel("share of the measured variance")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
cx.plots.picture(
    figure,
    "4.4",
    "The variance of the denominator over texts, term by term, as a share of what is measured (dotted line).",
    f"Stacked bars a head. Sum of the terms over the measured variance, {'; '.join(told)}.",
)


# %% tags=["hide-input", "nbval-check-output"]
def with_interval(part, h):
    low, high = cx.claims.by_document(lambda drawn: share(part, h, drawn), texts, draws=199)
    return f"{share(part, h):.0%} [{low:.0%}, {high:.0%}]"


of_domain = pd.DataFrame(denoms.numpy()).groupby(domain).transform("mean")
pd.DataFrame(
    {
        "independent": [f"{v:.0%}" for v in share("independent")],
        "neighbours": [f"{v:.0%}" for v in share("neighbours")],
        "topic": [with_interval("topic", h) for h in heads],
        "sum": [with_interval("all", h) for h in heads],
        "means of domains alone": [f"{v:.0%}" for v in of_domain.var() / denoms.var(0).numpy()],
    },
    index=pd.Index(heads, name="head"),
)

# %% tags=["hide-input", "nbval-check-output"]
topic, independent = share("topic"), share("independent")
within = independent / (1 - topic)
who = cx.denominators.speaks(study.at, texts[::4])
speak = sorted(who.nlargest(2).index)
moved = pd.Series((terms["topic"].mean(1).clamp(min=0).sqrt() / mean).tolist())  # head
display(
    cx.claims.finding(
        f"Most of the variance of a denominator is the topic of the text, which makes {topic.min():.0%} to {topic.max():.0%} of it; tokens drawn independently would make {independent.min():.0%} to {independent.max():.0%}.",
        holds=bool(independent.max() < 0.5 < topic.min() and abs(share("all") - 1).max() < 0.1),
    ),
    cx.claims.finding(
        f"In heads {cx.claims.listed(speak)}, which say {who[speak].sum():.0%} of what differs between texts, the topic moves the denominator by {moved[speak].min():.0%} to {moved[speak].max():.0%} of its mean; in the others by {moved.drop(speak).max():.0%} at most.",
        holds=bool(moved[speak].min() > moved.drop(speak).max() and moved[speak].max() > 0.1),
        otherwise=f"In heads {cx.claims.listed(speak)}, which speak most, the topic moves the denominator by {moved[speak].min():.0%} to {moved[speak].max():.0%} of its mean.",
    ),
    cx.claims.finding(
        f"Within a topic text is nearly a hat: independent tokens give {within.min():.2f} to {within.max():.2f} times the variance that is left once the topic is taken off.",
        holds=bool(within.min() > 0.6 and within.max() < 1.5),
    ),
)

# %% [markdown]
r"""
(Square brackets hold 95% intervals over documents.) The sum need not be 100%, because stationarity is an assumption; it is farthest off in head 0, of both models. And a topic is more than a domain: domains alone make less of the variance in every head.

The post argues in three steps {cite}`gibson2025contextual`. A denominator is an average of contents; an average over many tokens is close to the mean of its own context; and this mean is "basically independent of the particular context". The second step holds by and large, since within a topic text is nearly a hat. The third nearly holds in most heads, but not in those that speak, as the finding below says. And of what still moves, the context is the larger part, and no wider kernel takes it away.

## Would random content do?

For the third step, says the post, the model "doesn't have to work particularly hard ... Completely random content-dependent components would work". Two ways to try: permute a head's contents over the vocabulary; or deal every token the content of a token drawn from the texts, so that loud contents come about as often in the texts as they did. Twenty draws of each:
"""

# %%
content = cx.content_scores(weights, n, TOKEN).exp()  # head vocab
x = study.at.placed(texts)
vocabulary, seen = content.shape[1], x[:, 1:-1].flatten().bincount(minlength=content.shape[1])
fixed = x[0, [0, -1]]  # BOS and destination keep their own content
dice = torch.Generator().manual_seed(0)


def dealt(source):
    """Spread and topic, each `head`, when token t has the content of token `source[t]`."""
    source[fixed] = fixed
    values = content[:, source][:, x]
    denom = average(values, pos)
    topic = account(values[..., 1:-1], kernel)["topic"].mean(1).clamp(min=0)
    return torch.stack([denom.std(0), topic.sqrt()]) / denom.mean(0)


DRAWS = 20
permuted = [torch.randperm(vocabulary, generator=dice) for _ in range(DRAWS)]
drawn = [torch.multinomial(seen.float(), vocabulary, True, generator=dice) for _ in range(DRAWS)]
permuted, drawn = (torch.stack([dealt(s) for s in by]) for by in (permuted, drawn))

# %% tags=["hide-input", "nbval-check-output"]
largest = max(permuted[:, 0].max(), drawn[:, 0].max())
own_topic = terms["topic"].mean(1).clamp(min=0).sqrt() / mean  # head
middle = torch.stack([draws[:, 1].median(0).values for draws in (permuted, drawn)])
display(
    cx.claims.finding(
        f"With content dealt to the vocabulary at random denominators hold still too, at a spread below {study.steady:g} in every head and each of {2 * DRAWS} draws.",
        holds=bool(largest < study.steady),
    ),
    cx.claims.finding(
        f"In every head the median draw moves less with the topic than what was learned: by {middle.min():.1%} to {middle.max():.1%} of the mean, against {own_topic.min():.1%} to {own_topic.max():.1%}.",
        holds=bool((middle < own_topic).all()),
    ),
)

# %% [markdown]
r"""
So the post is right that random content works, and here it works *better*. The steadiness does not depend on which words are loud. These draws leave two things as training made them: how wide the kernel is, and how much contents differ.

## Smooth along a text, or confetti

So far $n$ was fixed. The post's picture is another: one text, $n$ running. Denominators of averaging heads should then be smooth, since neighbouring destinations average nearly the same tokens; those of local heads look like *confetti*. Roughness is the mean of $\lvert \text{denom}(n+1) - \text{denom}(n) \rvert$ along a text, over the mean. One thing is divided out first, a factor that all texts share: the arbitrary unit of content, which differs from one $n$ to the next.
"""


# %%
def along(study, texts, reach=64):
    """`dest text head`: denominators at the last destinations up to n."""
    weights = study.at.split.weights
    places = (
        cx.destination(weights, n=m, token=TOKEN)
        for m in range(max(1, study.n - reach), study.n + 1)
    )
    return torch.stack([cx.softmax_denominators(at, texts) for at in places])


def roughness(runs):
    """`head`: the mean step along a text, over the mean denominator."""
    return (runs.diff(dim=0).abs().mean(0) / runs.mean(0)).mean(0)


raw = {name: along(one, one.texts[:200]) for name, one in both.items()}
runs = {name: run / run.mean(1, keepdim=True) for name, run in raw.items()}  # unit divided out

# %% tags=["hide-input"]
figure, axes = cx.plots.panels(len(both), 2, height=1.5, sharex=True)
told = []
for (left, right), (name, run) in zip(axes, runs.items(), strict=True):
    rough, past = roughness(run), np.arange(1 - len(run), 1)
    for axis, h in ((left, int(rough.argmin())), (right, int(rough.argmax()))):
        for text in range(5):
            axis.plot(past, run[:, text, h], lw=1, color=cx.plots.COLOURS[text])
        axis.set(ylim=(0, 3), title=f"{name}, head {h}")
    left.set_ylabel("denom / mean")
    told.append(f"{name}: {cx.plots.by_head(rough, '.1%')}")
for axis in axes[-1]:
    axis.set_xlabel(f"destination − {n}")
cx.plots.picture(
    figure,
    "4.5",
    "Denominators of five texts along the text, over the mean of all texts at the same destination. A row a model: its smoothest head on the left, its roughest on the right.",
    f"Five lines a panel. Mean step from one destination to the next, {'; '.join(told)}.",
)

# %% tags=["hide-input", "nbval-check-output"]
rough, with_unit = roughness(runs[MODEL]), roughness(raw[MODEL])
cx.claims.finding(
    f"From one destination to the next the denominators of {MODEL} move by {rough.min():.1%} to {rough.max():.1%} of their mean; with the factor that all texts share left in, by {with_unit.min():.0%} to {with_unit.max():.0%}.",
    holds=bool(rough.max() < 0.05 < with_unit.max()),
)
# %% [markdown]
r"""
The post's word fits one of the built-in local heads, head 1 (lower right in Figure 4.5): the destination holds head 0 still, and head 7 is merely rough. `mini` has none in its first layer, and no confetti. But its shared factor is rough, so that a circuit for one $n$ should not borrow a denominator that was measured at another.

## Code, verse, dialogue

Independence may fail for code, poetry or dialogue, as the paper warns {cite}`gibson2025decomposing`. For each kind of text, take the variance of the denominators, each domain about its own mean, and divide it by the variance that independent tokens of that kind would give. What neighbours and topic add is in the same unit. Each number is a median over heads, and stationarity is assumed again, so a row need not add up.
"""

# %% tags=["hide-input"]
DIALOGUE = 8  # so many quotation marks in a window of fiction make it dialogue
quotes = [len(re.findall('["“”]', weights.tokenizer.decode(row[1:-1].tolist()))) for row in x]
fiction = np.where(np.array(quotes) >= DIALOGUE, "dialogue in fiction", "other fiction")
kind = np.where(kind == "fiction", fiction, kind)

squares = (denoms.numpy() - of_domain.to_numpy()) ** 2  # text head, about the mean of its domain
of_one = own.square().mean(-1).T.numpy()  # the same of one token


def excess(chosen):
    """The middle head's variance over that of independent tokens."""
    ratio = squares[chosen].mean(0) / of_one[chosen].mean(0)
    return float(np.median(ratio / kernel.square().sum(-1).numpy()))


# %% tags=["hide-input", "nbval-check-output"]
rows, ratios = {}, {}
for name in sorted(set(kind.tolist()), key=lambda name: (name != "English prose", name)):
    member = np.flatnonzero(kind == name)
    chosen = [texts[i] for i in member]
    low = high = float("nan")
    if len({text.document or text.name for text in chosen}) > 1:
        low, high = cx.claims.by_document(lambda d, member=member: excess(member[d]), chosen)
    ratios[name] = (excess(member), low, high)
    of = account(own[:, member], kernel)
    plain = torch.tensor(of_one[member].mean(0)) * kernel.square().sum(-1)
    rows[name] = {
        "texts": len(chosen),
        "documents": len({text.document for text in chosen}),
        "variance over independent": f"{ratios[name][0]:.1f} [{low:.1f}, {high:.1f}]",
        "neighbours add": f"{(of['neighbours'].mean(1) / plain).median():.1f}",
        "topic adds": f"{(of['topic'].mean(1) / plain).median():.1f}",
    }
pd.DataFrame(rows).T.rename_axis("kind of text")

# %% tags=["hide-input", "nbval-check-output"]
named = "English prose", "code", "poetry and drama", "dialogue in fiction"
prose, code, verse, talk = (ratios.get(name, (np.nan,) * 3) for name in named)
cx.claims.finding(
    f"Independence fails worst for code, which has {code[0]:.1f} times the variance of independent tokens [{code[1]:.1f}, {code[2]:.1f}], against {prose[0]:.1f} [{prose[1]:.1f}, {prose[2]:.1f}] in English prose; verse ({verse[0]:.1f}) and dialogue ({talk[0]:.1f}) cannot be told from prose.",
    holds=bool(
        code[0] == max(r[0] for r in ratios.values())
        and code[1] > prose[2]
        and all(r[1] <= prose[2] and prose[1] <= r[2] for r in (verse, talk))
    ),
)

# %% [markdown]
r"""
So the warning is right about code, in both ways at once: neighbours add more there than in any other kind, and so does the topic (Figure 4.3, on the right). These texts do not bear it out for verse and dialogue.

## What breaks it

- **Loud, rare tokens.** Where content varies by more than its mean, one repeated word can decide a denominator. Where Hoeffding promises nothing, look for such words.
- **A text on a topic that was not measured.** The topic term does not shrink with length.
- **Other keys.** All this was about the keys of Equation 1 {eq}`eq-split`. The model's own denominators, with the true keys, behave the same:
"""

# %% tags=["hide-input", "nbval-check-output"]
q = weights.queries(x[0])[:, n] / weights.attn_scale  # head d_head: the same in every text


def log_sum(keys):
    """`head`: the log of the sum over sources of exp(q . key)."""
    return einsum(q, keys, "head d_head, head source d_head -> head source").logsumexp(-1)


unit = log_sum(cx.split.positional_keys(weights, n))
exact = torch.stack([log_sum(weights.keys(text) - weights.b_K[:, None]) - unit for text in x[:200]])
agree = [np.corrcoef(exact[:, h], denoms[: len(exact), h].log())[0, 1] for h in heads]
true_spread = exact.exp().std(0) / exact.exp().mean(0)
cx.claims.finding(
    f"Denominators from the model's true keys spread by {true_spread.min():.0%} to {true_spread.max():.0%}, and their logs correlate with the rebuilt ones at {min(agree):.2f} or more in every head.",
    holds=bool(true_spread.max() < study.steady and min(agree) > 0.9),
)

# %% [markdown]
r"""
## Turn it

Try head 7 with Chebyshev's band at 95%, then a head between 1 and 4: the band is what the bound allows independent tokens, the histogram is where the texts are, and below it lie the book's labelled passages by domain. ("Bernstein" is a third bound, sharper than Hoeffding where content is rarely loud {cite}`boucheron2013`.)
"""


# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=2.6)
left.hist((inner[head] / mu[head]).log10().flatten(), bins=60, density=True)
left.set(xlabel="log₁₀ of content / mean", ylabel="density", title="one token")
right.hist(relative[:, head], bins=60, range=(0, 2.5), density=True, label="texts")
at, expected = np.linspace(0, 2.5, 300), float(iid[head].sqrt() / mean[head])
right.plot(at, norm.pdf(at, 1, expected), label="independent tokens")
right.set(xlabel="denom / mean", ylabel="density", title=f"head {head}, n = {n}")
right.legend(fontsize=8)
picture = cx.plots.picture(
    figure,
    "4.6",
    f"Head {head}: spread over texts {spread[head]:.0%}; independent tokens would give {expected:.0%}. Curve: a normal law of that spread.",
    f"Two histograms, of one token's content and of denominators: spread over texts {spread[head]:.0%}, independent {expected:.0%}.",
)
labelled = [p for p in study.passages if len(p.tokens) > n]  # long enough to look at n
cx.widgets.Denominators(study.at, texts, labelled, picture=picture, head=head)

# %% [markdown]
r"""
## Claims

Intervals are over documents. Two lines are about what this page does not treat: keywords, which are all but the 50 most frequent tokens, and how far into a text the first token counts. A *broad* head is one whose kernel covers more than 40 effective tokens.
"""

# %% tags=["hide-input", "nbval-check-output"]
broad, local = effective > cx.split.BROAD, effective < cx.split.LOCAL
is_stop = torch.isin(x[:, 1:-1], seen.argsort(descending=True, stable=True)[:50])
keyword_share, denom_np = 1 - is_stop.float().mean(1).numpy(), denoms.numpy()


def judged(of_heads, summary=np.median):
    """A summary of what the broad heads have, and its interval."""

    def statistic(drawn):
        return cx.claims.over(of_heads(drawn), broad, summary)

    return statistic(slice(None)), cx.claims.by_document(statistic, texts, draws=399)


def spread_of(drawn):
    return denom_np[drawn].std(0, ddof=1) / denom_np[drawn].mean(0)


def left_over(drawn):
    return share("independent", drawn=drawn) / (1 - share("topic", drawn=drawn))


def tau(drawn):
    tau2 = terms["topic"].numpy()[:, drawn].mean(1).clip(min=0)
    return np.sqrt(tau2) / denom_np[drawn].mean(0)


def by_keywords(drawn):
    logs = np.log(denom_np[drawn]).T  # head text
    return [np.corrcoef(keyword_share[drawn], log)[0, 1] ** 2 for log in logs]


def of_bos(m):
    """`head`: what BOS adds to every denominator at m."""
    loudness = cx.content_scores(weights, m, TOKEN, x[0, :1]).exp()[:, 0]
    return loudness * cx.positional_kernels(weights, m, TOKEN)[:, 0]


grid = np.unique(np.linspace(1, study.length - 1, 48).astype(int)).tolist()
places = [cx.destination(weights, n=m, token=TOKEN) for m in grid]
runs_of = torch.stack([cx.softmax_denominators(at, texts[::5]) for at in places])
bos_share = torch.stack([of_bos(m) for m in grid]) / runs_of.mean(1)  # dest head
bos_share = bos_share[:, study.heads].quantile(0.5, dim=1)
loud = [m for m, part in zip(grid, bos_share, strict=True) if part >= 0.1]
confetti = cx.claims.over(with_unit, local, np.median) / cx.claims.over(with_unit, broad, np.median)
stable = heads[broad & (spread < study.steady)].tolist()
typical, interval = judged(spread_of)
gpt2 = []
if weights.n_heads == 12:  # the sources name heads of GPT-2 small
    SIX = [0, 2, 6, 8, 9, 10]  # its stable heads (Gibson 2025)
    keyword, stop = ((inner * m).sum((1, 2)) / m.sum() for m in (~is_stop, is_stop))
    lift = (keyword / stop)[SIX]
    stops = float(len({SIX[int(lift.argmin())]} ^ {8}))
    middle = (runs_of.std(1) / runs_of.mean(1))[:, SIX].quantile(0.5, dim=0)
    gpt2 = [
        cx.claims.Claim(
            "stable_heads",
            "heads that are stable here or in the source, not in both",
            float(len(set(stable) ^ set(SIX))),
            digits=0,
        ),
        cx.claims.Claim(
            "spread_along",
            "relative spread of denom at the middle position, largest of the six heads",
            float(middle.max()),
        ),
        cx.claims.Claim(
            "keyword_head",
            "of the six, heads that emphasise keywords most, here or in the source, not in both",
            float(len({SIX[int(lift.argmax())]} ^ {6})),
            digits=0,
        ),
        cx.claims.Claim("stop_word_head", "the same with stop words", stops, digits=0),
    ]
cx.claims.ledger(
    model,
    cx.claims.Claim(
        "share_stable", "stable heads among all of the layer", len(stable) / len(heads)
    ),
    cx.claims.Claim(
        "spread_at_half", "relative spread of denom, middle broad head", typical, interval
    ),
    cx.claims.Claim(
        "confetti",
        "mean step of denom from n to n + 1 over its mean, local heads over broad ones, both middle",
        confetti,
        digits=1,
    ),
    cx.claims.Claim(
        "iid_within_context",
        "i.i.d. variance over measured, both less topic, middle broad head",
        *judged(left_over),
    ),
    cx.claims.Claim(
        "mean_of_context", "topic: standard deviation over mean, middle broad head", *judged(tau)
    ),
    cx.claims.Claim(
        "keywords_explain",
        "variance of log denom explained by plain keyword density, best broad head",
        *judged(by_keywords, np.max),
    ),
    cx.claims.Claim(
        "inflated",
        "last position at which BOS has a tenth of denom, middle one of the stable heads",
        float(max(loud, default=0)),
        digits=0,
    ),
    *gpt2,
)

# %% [markdown]
r"""
**On real models**, kept from [chapter 6](06_real_model): over how many tokens the stable heads average, and how far their denominators stray from text to text; means over the stable heads, weighted by who speaks.
"""

# %% tags=["hide-input", "nbval-check-output"]
cx.claims.on_real("heads stable", "effective tokens", "spread")

# %% [markdown]
r"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
bad, good, least = int(off.argmax()), int((off < 0.01).sum()), int(share("topic").argmin())
assumed = {
    "a head's denominator at n is its mean over texts": f"spread {typical:.1%} in the middle head [{interval[0]:.1%}, {interval[1]:.1%}], {spread.max():.0%} in head {int(spread.argmax())}",
    "that mean serves a new text to within a fifth": f"more than 99% of texts in {good} heads, {1 - off[bad]:.0%} in head {bad}",
    "what moves it is mostly the topic, by which a wider kernel gains nothing": f"{with_interval('topic', least)} of the variance in head {least}, where it is least",
}
pd.DataFrame(assumed.items(), columns=["you may assume", "and the error is"], index=range(1, 4))

# %% [markdown]
r"""
[Chapter 4](04b_calibration) takes the denominators of one text for those of all others, and measures what that costs.

## Exercises

1. **Predict, then run.** At the end of a text a nearly even kernel covers twice the tokens that it covers half way. Independent tokens would spread less by a factor of $\sqrt 2$. Write down what you expect for each head before you unfold the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"]
end = study.length - 1
later = cx.softmax_denominators(cx.destination(weights, n=end, token=TOKEN), texts)
there = cx.content_scores(weights, end, TOKEN).exp()[:, x[:, 1:-1]]  # head text source
pd.DataFrame(
    {
        f"spread at {n}": [f"{v:.1%}" for v in spread],
        f"spread at {end}": [f"{v:.1%}" for v in later.std(0) / later.mean(0)],
        f"σ/μ of one token at {n}": [f"{v:.2f}" for v in varies],
        f"σ/μ at {end}": [f"{v:.2f}" for v in there.var((1, 2)).sqrt() / there.mean((1, 2))],
    },
    index=pd.Index(heads, name="head"),
)

# %% [markdown]
r"""
2. **Fill in.** Write {eq}`eq-autocovariance` as a plain double sum for one head, and let the checker compare.
"""


# %%
def double_sum(gamma, kernel):
    """`gamma` is one head's autocovariance by lag, `kernel` its kernel, of the same length."""
    return ...  # yours


# %% tags=["hide-input", "nbval-check-output"]
answer, right, verdict = double_sum(gamma[0], kernel[0]), float(terms["all"][0].mean()), "not yet"
if answer is not ...:
    same = abs(float(answer) / right - 1) < 1e-3
    verdict = "right" if same else "not the same as the account"
print(verdict)

# %% [markdown]
r"""
3. **Break this.** Sharpen the content: raise `values` to a power of 2, then 3, and compute `denoms` again. Which heads stop holding still first, and which number of the tables above would have told you?
4. **Prove** that $\operatorname{Var}\,\text{denom} \le \gamma(0)\,(\sum_i \text{pos}_i)^2$ whatever the correlation. When is it equal?

```{admonition} Solutions
:class: dropdown

1. The independent term alone would fall by $\sqrt 2$, and it is the smaller one; so it lets you expect little. What happens beyond that, up or down, is another thing that moved: content is read at $n$, and a head may look for something else at another $n$. The last two columns show where content became more even, and there most spreads fall by more.
2. `i = torch.arange(len(kernel))`, then `return (kernel[:, None] * kernel * gamma[(i[:, None] - i).abs()]).sum()`.
3. The heads with the largest $\sigma/\mu$. A power multiplies the spread of log content, so the loudest tokens grow against the mean; where few tokens carry the mean, few tokens decide the average, however many the kernel covers.
4. By Cauchy and Schwarz $\lvert \gamma(k) \rvert \le \gamma(0)$, and all $\text{pos}_i$ are positive. Equal if and only if $\gamma$ is constant as far as the kernel reaches: then all tokens of a text have one content, and only the topic is random.
```

## Where this comes from

Stable denominators and the use of concentration inequalities are from {cite:t}`gibson2025decomposing`; the random model, the three steps, *confetti* and the remark on random content from the earlier post {cite}`gibson2025contextual`. Hoeffding's inequality is {cite:t}`hoeffding1963`. The account by autocovariance and topic, the dealt contents and the kinds of text are this book's.
"""
