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

**Because they are averages over many tokens, and averages are steady.** A head's softmax denominator is a mean of one number per token, weighted by the head's kernel. If tokens were drawn independently, its
variance would be that of a single token divided by the number of tokens that the kernel effectively covers. Real text is not drawn independently, so it strays otherwise, as a rule further; here the distance between the theory and what
many texts do is measured, and accounted for term by term.
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
STEADY = 0.3  # a denominator that strays by less than this share of its mean counts as steady

# %% tags=["hide-input", "nbval-check-output"]
from itertools import pairwise

import einops
import numpy as np
import pandas as pd
import torch

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model, layer=0)
texts = cx.texts.collection(weights, TEXTS)
LENGTH = min(len(t.tokens) for t in texts)
n = min(weights.n_ctx // 2, LENGTH - 1)
print(f"{MODEL}: {weights.n_heads} heads; {len(texts)} texts of {LENGTH} tokens or more; n = {n}")

# %% [markdown]
r"""
## One number for each head and text

[Chapter 3](03_kernels) left every attention row as a product of two factors and something that divides it,

$$
a_i \;\approx\; \frac{\text{pos}_i\;\text{content}(x_i)}{\text{denom}}, \qquad
\text{denom} \;=\; \sum_{i \le n} \text{pos}_i\;\text{content}(x_i).
$$ (eq-denom)

Kernel and content come from the weights: $\text{pos}_i$ knows only the position, $\text{content}(t) = \exp(q_n \cdot E[n, t] / \sqrt{d_\text{head}})$ only the token. The **denominator** is the one place where the text as a whole comes in. Were it the same number for
every text, each token would add its own vector to the head's output, weighted by its position alone, and a head would be a weighted sum. So all hangs on one question: how far does it stray from text to text? (The subscript $n$ of chapter 3 is left out from here on.)

The texts are excerpts from real documents of 22 domains in equal shares, from astronomy to Python, and the model was not trained on them. To be comparable, all of them are asked by the same token: $x_n$ is replaced by `TOKEN`, as in the paper {cite}`gibson2025decomposing`. (The unit of a denominator is arbitrary. A constant added to all content scores of a head multiplies it, so only ratios mean anything.)
"""

# %%
content = cx.content_scores(weights, n, TOKEN).exp()  # head vocab
pos = cx.positional_kernels(weights, n, TOKEN)  # head source

x = cx.texts.at(weights, texts, n, TOKEN)  # text source: the first n tokens, and then " the"
denom = einops.einsum(pos, content[:, x[0]], "head source, head source -> head")

# %% tags=["nbval-check-output"]
denoms = cx.softmax_denominators(weights, texts, n, TOKEN)  # text head
print("same as cx.softmax_denominators:", torch.allclose(denom, denoms[0], rtol=1e-4))

# %% [markdown]
r"""
This is Equation {eq}`eq-denom` with the keys of Equation 1 ({eq}`eq-split`). The model itself has slightly different ones, so before anything is built on it the approximate denominator is held against the exact one,
$\sum_i \exp(q_n \cdot (\text{key}_i - b_K) / \sqrt{d_\text{head}})$ (the key here with its bias, as the model has it) over $\sum_i \exp(q_n \cdot P[n, i] / \sqrt{d_\text{head}})$, text by text.
"""

# %%
q = weights.queries(x[0])[:, n] / weights.attn_scale  # head d_head: the same in every text


def log_sum(keys):
    """`head`: the log of the sum over sources of exp(q . key)."""
    return einops.einsum(q, keys, "head d_head, head source d_head -> head source").logsumexp(-1)


unit = log_sum(cx.positional_keys(weights, n))
keys_of = (weights.keys(text) - weights.b_K[:, None] for text in x)  # head source d_head
exact = torch.stack([(log_sum(keys) - unit).exp() for keys in keys_of])  # text head

# %% tags=["nbval-check-output"]
ratio = (exact / denoms).log()
log_spread = denoms.log().std(0)
pd.DataFrame(
    {
        "spread of log denom": [f"{s:.2f}" for s in log_spread],
        "exact over approximate": [f"{r:.2f}" for r in ratio.mean(0).exp()],
        "spread of the log of that ratio": [f"{r:.2f}" for r in ratio.std(0)],
        "correlation of the logs": [
            f"{np.corrcoef(exact[:, h].log(), denoms[:, h].log())[0, 1]:.2f}"
            for h in range(weights.n_heads)
        ],
    },
    index=pd.Index(range(weights.n_heads), name="head"),
)

# %% [markdown]
r"""
A ratio that is the same for all texts would cost nothing, since it is part of the unit. What counts is the third column against the first: how much of the movement of a denominator is an artefact of the split. The last column says it once more: near one, texts keep their order.

## What the texts do

Here is every denominator, text by text, divided by its mean over texts (the paper's Figure 4).
"""

# %% tags=["hide-input"]
relative = denoms / denoms.mean(0)
figure, axes = cx.plots.head_panels(weights.n_heads, sharex=True, sharey=True)
for head, axis in enumerate(axes.flat[: weights.n_heads]):
    axis.plot(relative[:, head], ".", ms=2, alpha=0.6)
    axis.axhline(1, color=cx.plots.INK, lw=0.8, ls=":")
    axis.set(title=f"head {head}: ±{relative[:, head].std():.0%}", ylim=(0.1, 10), yscale="log")
    axis.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
for axis in axes[-1]:
    axis.set_xlabel("text")
for axis in axes[:, 0]:
    axis.set_ylabel("denom / mean")
cx.plots.picture(
    figure,
    "4.1",
    f"The denominator of every head at n = {n}, x<sub>n</sub> = “{TOKEN.strip()}”, in {len(texts)} texts, divided by its mean; the standard deviation stands above "
    "each panel. Logarithmic axis; points beyond it are not shown.",
    "A scatter per head over the texts. Relative standard deviations: "
    + ", ".join(f"head {h} {s:.0%}" for h, s in enumerate(relative.std(0).tolist()))
    + ".",
)

# %% [markdown]
r"""
A steady head draws a band, and a restless one fills its panel. The same along the position: for a handful of texts, each head's
denominator at a few dozen destinations, divided by the mean over all texts there (the paper's Figure 3).
"""

# %% tags=["hide-input"]
grid = np.unique(np.linspace(1, LENGTH - 1, 48).astype(int))
along = torch.stack([cx.softmax_denominators(weights, texts, int(m), TOKEN) for m in grid], dim=-1)
normal = along / along.mean(0)  # text head position
figure, axes = cx.plots.head_panels(weights.n_heads, sharex=True, sharey=True)
shown = range(0, len(texts), max(1, len(texts) // 8))
for head, axis in enumerate(axes.flat[: weights.n_heads]):
    for number, text in enumerate(shown):
        axis.plot(grid, normal[text, head], lw=0.8, color=cx.plots.COLOURS[number % 8])
    low, high = (np.quantile(normal[:, head], q, axis=0) for q in (0.05, 0.95))
    axis.fill_between(grid, low, high, color=cx.plots.INK, alpha=0.2, lw=0)
    axis.set(title=f"head {head}", ylim=(0, 3))
for axis in axes[-1]:
    axis.set_xlabel("position n")
for axis in axes[:, 0]:
    axis.set_ylabel("denom / mean")
late = normal[..., -1].std(0)
cx.plots.picture(
    figure,
    "4.2",
    f"Denominators over the position, divided by their mean over {len(texts)} texts at that position: {len(shown)} texts as lines, the middle 90% of all as a band.",
    "A panel per head. Relative standard deviation at the last position: "
    + ", ".join(f"head {h} {s:.0%}" for h, s in enumerate(late.tolist()))
    + ".",
)

# %% [markdown]
r"""
Two things to look for. The lines of broad heads, if there are any, should run smoothly and stay on one side of 1, because neighbouring destinations average nearly the same tokens; for the curves of local heads, whose contents vary much and whose few tokens change from one destination to the next, the post's word is *confetti* {cite}`gibson2025contextual`. And do the lines merge towards the right, as more
tokens come in? Where the band stops narrowing, something beyond the number of tokens keeps texts apart. The first is what a broad kernel must do. The second needs an explanation, and gets one below.

## Tokens from a hat

Take the simplest model of text there is: every $x_i$ is drawn **independently from one distribution**. Then $\text{content}(x_i)$ are independent random variables with a common mean $\mu$, a variance $\sigma^2$, and a smallest and largest value $a$ and $b$. Since $\sum_i \text{pos}_i = 1$,

$$
\mathbb{E}\,\text{denom} = \mu, \qquad \operatorname{Var}\,\text{denom} = \sigma^2 \sum_i \text{pos}_i^2 = \frac{\sigma^2}{\text{effective tokens}} .
$$ (eq-iid)

The second holds because variances of independent terms add, and a factor $\text{pos}_i$ comes out squared. This is where the number of chapter 3 gets its name: a kernel that is spread over $k$ effective tokens divides the variance by $k$, as a plain mean of $k$ tokens would.
A head is steady if its kernel is wide *or* its content is even.

What does the variance say about how often a denominator is far off? Three inequalities, which use different parts of what is known.

**Chebyshev** uses the variance only. Wherever $\lvert \text{denom} - \mu \rvert \ge \varepsilon$, the square of it is at least $\varepsilon^2$, so the mean of the square is at least $\varepsilon^2$ times the probability of that:

$$
P(\lvert \text{denom} - \mu \rvert \ge \varepsilon) \;\le\; \frac{\sigma^2 \sum_i \text{pos}_i^2}{\varepsilon^2} .
$$ (eq-chebyshev)

**Hoeffding** uses the range. The same argument with $e^{\lambda x}$ in place of $x^2$ gives $P(\text{denom} - \mu \ge \varepsilon) \le e^{-\lambda \varepsilon} \prod_i \mathbb{E}\, e^{\lambda\, \text{pos}_i (X_i - \mu)}$ for each $\lambda > 0$, where $X_i = \text{content}(x_i)$; a variable with mean zero in an
interval of width $w$ has $\mathbb{E}\,e^{\lambda x} \le e^{\lambda^2 w^2 / 8}$; and $\lambda = 4 \varepsilon / ((b - a)^2 \sum_i \text{pos}_i^2)$ is the best choice. With both sides counted {cite}`hoeffding1963`:

$$
P(\lvert \text{denom} - \mu \rvert \ge \varepsilon) \;\le\; 2 \exp\left( - \frac{2 \varepsilon^2}{(b - a)^2 \sum_i \text{pos}_i^2} \right) .
$$ (eq-hoeffding)

**Bernstein** uses both. If $\lvert X_i - \mu \rvert \le M$, then $\mathbb{E}\, e^{\lambda\,\text{pos}_i (X_i - \mu)}$ is at most $\exp\bigl( \tfrac12 \lambda^2 \text{pos}_i^2 \sigma^2 / (1 - \lambda \max_k \text{pos}_k M / 3) \bigr)$, because each power beyond the second of a bounded variable is at most the second times a power of the
bound, and $2 \cdot 3^{k-2} \le k!$; this needs $0 < \lambda < 3 / (\max_k \text{pos}_k M)$. The choice $\lambda = \varepsilon / (\sigma^2 \sum_i \text{pos}_i^2 + \max_k \text{pos}_k M \varepsilon / 3)$ gives {cite}`boucheron2013`

$$
P(\lvert \text{denom} - \mu \rvert \ge \varepsilon) \;\le\; 2 \exp\left( - \frac{\varepsilon^2}{2 \sigma^2 \sum_i \text{pos}_i^2 + \tfrac23 \max_k \text{pos}_k\, M\, \varepsilon} \right) .
$$ (eq-bernstein)

It looks like Hoeffding's with $4\sigma^2$ in place of $(b - a)^2$, as long as $\varepsilon$ is small. A content that is rarely large has a wide range and a small variance, and there the difference is everything. In code, the moments come from all tokens of all texts, and the three bounds from the kernel. BOS and the destination are the same in every text: they are a constant, the sums run over the tokens between them, and the mean is that constant plus $\mu \sum_i \text{pos}_i$.
"""

# %%
values = content[:, x]  # head text source
inner, kernel = values[..., 1:-1], pos[:, 1:-1]  # BOS and the destination are the same everywhere
fixed = pos[:, 0] * values[:, 0, 0] + pos[:, -1] * values[:, 0, -1]  # what these two add

mu, variance = inner.mean((1, 2)), inner.var((1, 2))
smallest, largest = inner.amin((1, 2)), inner.amax((1, 2))
expected = fixed + mu * kernel.sum(-1)  # head
bound_M = torch.maximum(largest - mu, mu - smallest)


# %%
def iid_variance(variance, kernel):
    return variance * kernel.square().sum(-1)


def chebyshev(variance, kernel, epsilon):
    return (iid_variance(variance, kernel) / epsilon**2).clamp(max=1)


def hoeffding(width, kernel, epsilon):
    exponent = 2 * epsilon**2 / (width**2 * kernel.square().sum(-1))
    return (2 * (-exponent).exp()).clamp(max=1)


def bernstein(variance, bound, kernel, epsilon):
    steps = 2 / 3 * kernel.max(-1).values * bound * epsilon
    exponent = epsilon**2 / (2 * iid_variance(variance, kernel) + steps)
    return (2 * (-exponent).exp()).clamp(max=1)


# %% tags=["nbval-check-output"]
rng = np.random.default_rng(0)
hat = inner.flatten(1)  # head token: all tokens of all texts
drawn = hat[:, rng.integers(hat.shape[1], size=(2000, kernel.shape[1]))]  # head draw source
summed = einops.einsum(drawn, kernel, "head draw source, head source -> draw head")
off = (summed - mu * kernel.sum(-1)).abs() / expected  # draw head
within = []
for share in (0.1, 0.25, 0.5, 1):
    bounds = (
        chebyshev(variance, kernel, share * expected),
        hoeffding(largest - smallest, kernel, share * expected),
        bernstein(variance, bound_M, kernel, share * expected),
    )
    within += [bool(((off >= share).float().mean(0) <= bound).all()) for bound in bounds]
print("tokens from a hat stray no more often than a bound says, in any head:", all(within))

# %% tags=["hide-input"]
share = np.geomspace(0.02, 4, 60)
figure, axes = cx.plots.head_panels(weights.n_heads, height=1.9, sharex=True, sharey=True)
for head, axis in enumerate(axes.flat[: weights.n_heads]):
    epsilon = torch.tensor(share) * expected[head]
    off = (denoms[:, head] - expected[head]).abs()
    measured = (off[:, None] >= epsilon).float().mean(0)
    curves = {
        "measured": (measured, "-", cx.plots.INK),
        "Chebyshev": (
            chebyshev(variance[head], kernel[head], epsilon),
            "--",
            cx.plots.COLOURS[0],
        ),
        "Hoeffding": (
            hoeffding(largest[head] - smallest[head], kernel[head], epsilon),
            ":",
            cx.plots.COLOURS[1],
        ),
        "Bernstein": (
            bernstein(variance[head], bound_M[head], kernel[head], epsilon),
            "-.",
            cx.plots.COLOURS[2],
        ),
    }
    for name, (curve, style, colour) in curves.items():
        axis.plot(share, curve, style, color=colour, label=name, lw=1.3)
    axis.set(title=f"head {head}", xscale="log", yscale="log", ylim=(1e-3, 1.3))
    axis.set_xticks([0.1, 1], ["10%", "100%"])
    axis.minorticks_off()
for axis in axes[-1]:
    axis.set_xlabel("ε / mean")
for axis in axes[:, 0]:
    axis.set_ylabel("P(off by ε or more)")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


def off_by(share_of_mean):
    """The share of texts, per head, whose denominator is off by this share of its mean."""
    return ((denoms - expected).abs() >= share_of_mean * expected).float().mean(0)


cx.plots.picture(
    figure,
    "4.3",
    f"How often a denominator is off by ε or more: {len(texts)} texts (solid), and three bounds for tokens drawn independently.",
    "A panel per head: a measured curve and three bounds, both axes logarithmic. Share of texts that are off by a quarter or more: "
    + ", ".join(f"head {h} {s:.0%}" for h, s in enumerate(off_by(0.25).tolist()))
    + ".",
)

# %% tags=["nbval-check-output"]
quarter = 0.25 * expected
pd.DataFrame(
    {
        "tokens that divide σ²": [f"{e:.0f}" for e in cx.effective_tokens(kernel)],
        "σ/μ of one token": [f"{s:.1f}" for s in variance.sqrt() / mu],
        "off by 25%: measured": [f"{m:.2f}" for m in off_by(0.25)],
        "Chebyshev": [f"{b:.2f}" for b in chebyshev(variance, kernel, quarter)],
        "Hoeffding": [f"{b:.2f}" for b in hoeffding(largest - smallest, kernel, quarter)],
        "Bernstein": [f"{b:.2f}" for b in bernstein(variance, bound_M, kernel, quarter)],
    },
    index=pd.Index(range(weights.n_heads), name="head"),
)

# %% [markdown]
r"""
A bound of 1 says nothing. Read across a row: Chebyshev's falls below 1 here only if $\sigma/\mu$ is less than a quarter of the square root of the tokens in the first column (the two fixed tokens apart), and the other two ask for more. And where the solid line runs *above* a bound by more than a few texts' worth,
it is the assumption that fails, since the bounds are theorems.

## Text is not drawn from a hat

Drop independence and keep only **stationarity**: the mean is the same at every position and the covariance of $\text{content}(x_i)$ and $\text{content}(x_k)$ depends on the distance $\lvert i - k \rvert$ alone. Call it $\gamma(\lvert i - k\rvert)$, the **autocovariance**. Then, with nothing else assumed,

$$
\operatorname{Var}\,\text{denom} \;=\; \sum_{i,k} \text{pos}_i\,\text{pos}_k\,\gamma(\lvert i - k \rvert) .
$$ (eq-autocovariance)

For independent tokens $\gamma$ is $\sigma^2$ at zero and nothing elsewhere, and this is {eq}`eq-iid` again. What is it for text?
"""


# %%
def autocovariance(values):
    """`head lag`: the mean over all texts and all pairs of positions that are k apart, by Fourier
    transform (padded, so that no pair wraps around)."""
    length = values.shape[-1]
    centred = values - values.mean((1, 2), keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * length).abs().square().mean(1)
    return torch.fft.irfft(spectrum, n=2 * length)[:, :length] / torch.arange(length, 0, -1)


def correlated_variance(gamma, kernel):
    """`head`: the double sum, lag by lag."""
    length = kernel.shape[-1]
    overlap = torch.fft.irfft(torch.fft.rfft(kernel, n=2 * length).abs().square(), n=2 * length)
    weight = 2 * overlap[:, :length]  # both orders of a pair ...
    weight[:, 0] /= 2  # ... and i = k once
    return (weight * gamma).sum(-1)


gamma = autocovariance(inner)  # head lag

# %% tags=["nbval-check-output"]
centred = inner - mu[:, None, None]
apart = (centred[..., 3:] * centred[..., :-3]).mean((1, 2))
print(
    "same as the mean over pairs that are 3 apart:", torch.allclose(gamma[:, 3], apart, rtol=1e-3)
)
i = torch.arange(kernel.shape[1])
pairs = gamma[:, (i[:, None] - i).abs()]  # head i k
pairs = einops.einsum(kernel, kernel, pairs, "head i, head k, head i k -> head")
by_lag = correlated_variance(gamma, kernel)
print("same as the double sum:", torch.allclose(by_lag, pairs, rtol=1e-3))

# %% tags=["hide-input"]
reach = gamma.shape[1] * 3 // 4  # beyond, pairs get rare
steps = np.unique(np.geomspace(1, reach, 14).astype(int))
figure, ((axis,),) = cx.plots.panels(height=3.2, width=7.5)
for head in range(weights.n_heads):
    correlation = gamma[head] / gamma[head, 0]
    binned = [float(correlation[a:b].mean()) for a, b in pairwise(steps)]
    axis.plot(
        steps[:-1],
        binned,
        marker="o",
        ms=3,
        label=f"head {head}",
        **cx.plots.head_style(head),
    )
axis.axhline(0, color=cx.plots.INK, lw=0.8)
axis.set(xscale="log", xlabel="lag k (tokens)", ylabel="γ(k) / γ(0)")
axis.legend(ncols=2, loc="upper left", bbox_to_anchor=(1, 1))
far = gamma[:, gamma.shape[1] // 2 : reach].mean(-1) / gamma[:, 0]
cx.plots.picture(
    figure,
    "4.4",
    "The autocorrelation of content, averaged over stretches of lags, about the mean of all texts.",
    "A curve per head over the lag. Level at the longest lags: "
    + ", ".join(f"head {h} {v:.3f}" for h, v in enumerate(far.tolist()))
    + ".",
)

# %% [markdown]
r"""
At short lags the curves show what neighbours do to each other (below zero where a stop word is rarely followed by another, above where words come in runs). Then they settle, **and not always at zero**. Tokens that are a hundred or more positions apart are hardly influenced by one another; if they still vary together, it is because both belong to the same text.
That calls for a term of its own. Let the text have a topic, and the topic a mean content $\mu_\text{topic}$ of its own, with variance $\tau^2$ over texts. The **law of total variance** splits the variance into what happens among texts of one topic and what happens between topics,

$$
\operatorname{Var}\,\text{denom} \;=\; \mathbb{E}\bigl[\operatorname{Var}(\text{denom} \mid \text{topic})\bigr] + \operatorname{Var}\bigl(\mathbb{E}[\text{denom} \mid \text{topic}]\bigr),
$$ (eq-total-variance)

and the second part is $\tau^2 (\sum_i \text{pos}_i)^2$, whatever the kernel: a wider kernel does not help against it. In $\gamma$ it is the level at long lags. So the account has three terms,

$$
\begin{aligned}
\operatorname{Var}\,\text{denom} \;=\;\; & \underbrace{(\gamma(0) - \tau^2) \sum_i \text{pos}_i^2}_{\text{independent}}
\;+\; \underbrace{\tau^2 \Bigl(\sum_i \text{pos}_i\Bigr)^2}_{\text{topic}} \\
& +\; \underbrace{\sum_{i \ne k} \text{pos}_i\,\text{pos}_k \bigl(\gamma(\lvert i - k\rvert) - \tau^2\bigr)}_{\text{neighbours}},
\end{aligned}
$$ (eq-account)

where the sums leave out BOS and the destination, which are the same in every text. The left side is measured on the denominators, the right side is read off tokens and pairs of tokens.
"""

# %%
half = gamma.shape[1] // 2  # lags beyond, where gamma has settled, count as often as they occur
pairs = torch.arange(gamma.shape[1] - half, 0, -1)
tau2 = (gamma[:, half:] * pairs).sum(-1) / pairs.sum()  # head
independent = iid_variance(gamma[:, 0] - tau2, kernel)
topic = tau2 * kernel.sum(-1) ** 2
total = correlated_variance(gamma, kernel)
of_head = denoms.T.contiguous()  # head text
account = {
    "independent": independent,
    "neighbours": total - independent - topic,
    "topic": topic,
    "model": total,
    "measured": of_head.var(-1),
}
account = pd.DataFrame({k: (v / of_head.mean(-1) ** 2).tolist() for k, v in account.items()})
account.index.name = "head"

# %% tags=["hide-input"]
heads = np.arange(weights.n_heads)
figure, ((axis,),) = cx.plots.panels(height=3.2, width=7.5)
scale = account["measured"].to_numpy()
bottom = np.zeros(weights.n_heads)
floor = np.zeros(weights.n_heads)
for name, hatch in (("independent", ""), ("topic", ".."), ("neighbours", "//")):
    part = account[name].to_numpy() / scale
    axis.bar(heads, part, 0.6, bottom=np.where(part >= 0, bottom, floor), label=name, hatch=hatch)
    bottom += np.maximum(part, 0)
    floor += np.minimum(part, 0)
axis.plot(
    heads,
    account["model"] / scale,
    "D",
    ms=6,
    color=cx.plots.INK,
    mfc="none",
    label="sum of the three",
)
axis.axhline(1, color=cx.plots.INK, lw=1, ls=":")
axis.set(xlabel="head", ylabel="share of the measured variance", xticks=heads)
axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
cx.plots.picture(
    figure,
    "4.5",
    "The variance of the denominator over texts, term by term, as a share of what is measured (dotted line).",
    "Stacked bars per head. The sum of the three terms over the measured variance: "
    + ", ".join(
        f"head {h} {v:.2f}" for h, v in enumerate((account["model"] / account["measured"]).tolist())
    )
    + ".",
)

# %% tags=["nbval-check-output"]
shares = account[["independent", "neighbours", "topic", "model"]].div(account["measured"], axis=0)
shares.insert(0, "relative spread", account["measured"] ** 0.5)
one_half, other = inner[:, : len(texts) // 2], denoms[len(texts) // 2 :]
foretold = correlated_variance(autocovariance(one_half), kernel) / other.var(0)
shares["model, from the other half"] = foretold.tolist()
shares.map(lambda v: f"{v:.0%}".replace("-0%", "0%"))

# %% [markdown]
r"""
The diamonds show how far the account closes. They do not depend on $\tau^2$, which only divides the sum; and since a denominator is linear in the contents, the sum would be exact if each pair of positions had a covariance of its own. So what they test is stationarity: whether one $\gamma(k)$ may stand for all pairs at lag $k$. The last column of the table makes the test harder: there the autocovariance comes from one half of the texts and the variance from the other.
The division into terms is the explanation. How much of the variance is *topic* depends on the texts, and these are of many domains; to see how much, set `CTX_TEXTS` to texts of one kind and compare that column with this one.

## What differs between texts?

The post names one cause: how many **keywords** a text has, some heads weighing keywords up, others stop words {cite}`gibson2025contextual`. Call the 50 most frequent tokens of all texts stop words and every other token a keyword. The keyword density of a text, weighted by a head's kernel, is one number per text and head; how much of the movement of the log denominators does it explain?
"""

# %% tags=["hide-input"]
ids = torch.stack([t.tokens[1:n] for t in texts])
counts = torch.bincount(ids.flatten(), minlength=len(weights.W_E))
stop = counts.argsort(descending=True, stable=True)[:50]
is_stop = torch.isin(ids, stop)
kernel_share = kernel / kernel.sum(-1, keepdim=True)
density = 1 - einops.einsum(is_stop.float(), kernel_share, "text source, head source -> text head")
logs = denoms.log()
explained = torch.tensor(
    [np.corrcoef(density[:, h], logs[:, h])[0, 1] for h in range(weights.n_heads)]
)
lift = (
    (inner * ~is_stop).sum((1, 2))
    / (~is_stop).sum()
    / ((inner * is_stop).sum((1, 2)) / is_stop.sum())
)
broad = (cx.effective_tokens(pos) > cx.split.BROAD).nonzero()[:, 0].tolist()
best = max(broad or range(weights.n_heads), key=lambda h: float(explained[h].abs()))
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.0)
left.plot(density[:, best], relative[:, best], ".", ms=3, alpha=0.5)
left.set(
    xlabel="keyword density under the kernel",
    ylabel="denom / mean",
    title=f"head {best}: r = {explained[best]:.2f}",
)
right.bar(heads, explained**2, 0.6)
right.set(
    xlabel="head",
    ylabel="variance explained (r²)",
    xticks=heads,
    ylim=(0, 1),
    title="All heads",
)
cx.plots.picture(
    figure,
    "4.6",
    f"Left: the denominator of head {best} against the share of keywords among the tokens that its kernel sees, one point a text. Right: the share of the variance of log denominators that this one number explains.",
    "A scatter and a bar chart. Correlations per head: "
    + ", ".join(f"head {h} {v:.2f}" for h, v in enumerate(explained.tolist()))
    + ".",
)

# %% tags=["nbval-check-output"]
pd.DataFrame(
    {
        "keyword over stop word (mean content)": [f"{v:.1f}" for v in lift],
        "correlation of density and log denom": [f"{v:.1f}" for v in explained],
        "variance explained": [f"{v:.0%}" for v in explained**2],
    },
    index=pd.Index(heads, name="head"),
)

# %% [markdown]
r"""
The first column says what a head emphasises: above one, keywords; below one, stop words. Where it is far from one, expect a correlation of the same sign, positive above one. What density leaves unexplained is *which* keywords and which stop words.

## The first token

BOS stands at position 0 of every text, and its content can be anything. Early in a text it gets a large share of the kernel, later hardly any: that moves the denominator's *mean* over texts along the position, the same way in all of them. To see it, divide that mean by
the mean content of the tokens that texts are made of, each counted as often as it occurs: what a denominator would be on average if position 0 and the destination held tokens like any other.
"""

# %% tags=["hide-input"]
frequency = counts / counts.sum()
bos, ordinary = [], []
for m in grid.tolist():
    weigh = cx.content_scores(weights, m, TOKEN).exp()  # head vocab
    ordinary.append(weigh @ frequency)
    bos.append(
        weigh[:, weights.tokenizer.bos_token_id] * cx.positional_kernels(weights, m, TOKEN)[:, 0]
    )
bos_share = torch.stack(bos, -1) / along.mean(0)  # head position
inflation = along.mean(0) / torch.stack(ordinary, -1)
figure, axes = cx.plots.panels(1, 2, height=3.0)
for head in range(weights.n_heads):
    style = cx.plots.head_style(head) | {"lw": 1.3}
    axes[0, 0].plot(grid, inflation[head], **style)
    axes[0, 1].plot(grid, bos_share[head], label=f"head {head}", **style)
axes[0, 0].set(
    xlabel="position n",
    ylabel="mean denom / mean content",
    yscale="log",
    title="The denominator's mean",
)
axes[0, 1].set(xlabel="position n", ylabel="share of BOS in denom", ylim=(0, 1), title="Due to BOS")
axes[0, 1].legend(fontsize=7, ncols=2)
hundred = int(np.abs(grid - 100).argmin())
cx.plots.picture(
    figure,
    "4.7",
    f"Left: the mean over {len(texts)} texts of each head's denominator along the position, over the mean content of the tokens of texts. Right: what part of the denominator the first token contributes.",
    f"Two panels, a curve per head. The share of BOS at position {grid[0]} is {float(bos_share[:, 0].max()):.0%} at most, at position {grid[hundred]} {float(bos_share[:, hundred].max()):.0%}.",
)

# %% tags=["nbval-check-output"]
start, end = bos_share[:, 1], bos_share[:, hundred]
print(f"share of BOS in the denominator of a broad head, at position {grid[1]}:", end=" ")
print(
    f"{float(start[broad].max()) if broad else float('nan'):.0%} at most; at {grid[hundred]}:",
    end=" ",
)
print(f"{float(end[broad].max()) if broad else float('nan'):.0%}")

# %% [markdown]
r"""
A curve on the left that starts above 1 and falls is BOS fading; one that stays level away from 1 is the destination's own content. In GPT-2 small the first token is reported to inflate denominators over the first hundred positions or so {cite}`gibson2025contextual`, which dims everything that these heads report there. The line above says whether this model does the same. Either way the calibration of chapter 5 is made at one position, far from the start.

## And LayerNorm?

All this was about approximate keys. The exact denominator has one more thing that depends on the text: LayerNorm's scale at each source, which Equation 1 replaced. Chapter 2 gave its effect on a score: the exact score of source $i$ is the rebuilt one less an error $\delta_i$ that depends on $x_i$ and $i$. So

$$
\begin{aligned}
\text{denom}_\text{exact} \;&=\; \sum_i \text{pos}_i\,\text{content}(x_i)\, e^{-\delta_i} \\
&=\; \text{denom} - \sum_i \text{pos}_i\,\text{content}(x_i)\,\delta_i \\
&\quad +\; \tfrac12 \sum_i \text{pos}_i\,\text{content}(x_i)\,\delta_i^2 - \dots
\end{aligned}
$$ (eq-taylor)

This follows the post's appendix, which expands LayerNorm's factor in the positional term around its mean over tokens, bounds the relative deviation, and argues that the corrections concentrate {cite}`gibson2025contextual`. Here the expansion is in the error of Equation 1. Each correction is again a mean over tokens, weighted by the same kernel, of a number that depends on the token (and on its place). So it concentrates for the same reason as the denominator itself, and a
correction that is the same for all texts is no error at all. The check: how large are the terms, how much do they vary, and how fast does the series converge?
"""

# %%
corrections = []
for text in x[: max(2, len(texts) // 5)]:
    # b_K adds q_n . b_K to all exact scores of a row; at i = n the split has no other error
    delta = cx.split.rebuilt_scores(weights, text, n) - cx.split.exact_scores(weights, text, n)
    delta = delta - delta[:, n:]
    term = pos * content[:, text]  # head source
    corrections.append(
        torch.stack([(term * (-delta) ** k / f).sum(-1) for k, f in ((0, 1), (1, 1), (2, 2))])
    )
terms = torch.stack(corrections)  # text order head
some_exact = exact[: len(terms)]

# %% tags=["nbval-check-output"]
partial = terms.cumsum(1)
left_over = ((partial - some_exact[:, None]) / some_exact[:, None]).abs().median(0).values
first = terms[:, 1] / terms[:, 0]
pd.DataFrame(
    {
        "first-order term / denom": [f"{v:.2f}" for v in first.mean(0)],
        "its spread over texts": [f"{v:.2f}" for v in first.std(0)],
        "left over: order 0": [f"{v:.2f}" for v in left_over[0]],
        "order 1": [f"{v:.2f}" for v in left_over[1]],
        "order 2": [f"{v:.2f}" for v in left_over[2]],
    },
    index=pd.Index(heads, name="head"),
)

# %% [markdown]
r"""
The second column against the first is the argument: the term's spread over texts is what a constant cannot absorb. The last three columns are the relative error, median over texts, when the series is cut off at each order; where they stay large, $\delta$ is not small. (The distance of chapter 2 need not show it: what all attended sources share drops out there.)

## Which heads, then?

A head is called **stable** here if its kernel covers more than `cx.split.BROAD` effective tokens and its denominators stray by less than `STEADY` of their mean. The first condition is about the weights alone; the second is the measurement that this chapter has tried to explain.
"""

# %% tags=["nbval-check-output"]
print(f"broad: more than {cx.split.BROAD:.0f} effective tokens; steady: less than {STEADY:.0%}")
try:
    stable = cx.stable_heads(weights, texts, n, TOKEN, steady=STEADY)
except ValueError as none:
    stable = cx.denominators.StableHeads([], pd.DataFrame({"no stable head": [str(none)]}))
shown = stable.table.drop(columns=["TV to uniform", "half of the mass within"], errors="ignore")
shown.replace({True: "yes", False: ""}).round(2)

# %% [markdown]
r"""
## Turn it

Choose a head, a bound and how sure it should be: the band is what the bound allows if tokens are drawn independently ({eq}`eq-chebyshev`, {eq}`eq-hoeffding`, {eq}`eq-bernstein`; the last choice is a normal curve with the variance of {eq}`eq-iid`), the histogram is where the texts are. Below it lie the book's labelled passages, domain by domain. Where fewer texts lie inside than promised, independence is what failed; look how often the passages of one domain then lie on the same side.
"""


# %% tags=["hide-input"]
def draw(head, n):
    found = cx.softmax_denominators(weights, texts, n, TOKEN)[:, head]
    seen = cx.texts.at(weights, texts[:100], n, TOKEN)[:, 1:-1]
    contents = cx.content_scores(weights, n, TOKEN).exp()[head, seen]
    row = cx.positional_kernels(weights, n, TOKEN)[head, 1:-1]
    iid = float(iid_variance(contents.var(), row).sqrt() / found.mean())
    spread = float(found.std() / found.mean())
    figure, ((left, right),) = cx.plots.panels(1, 2, height=2.8)
    left.hist((contents / contents.mean()).log10().flatten(), bins=60, density=True)
    left.set(xlabel="log₁₀ of content / mean", ylabel="density", title="One token")
    x = np.linspace(0, 2.5, 300)
    right.hist(found / found.mean(), bins=60, range=(0, 2.5), density=True, label="texts")
    right.plot(
        x, np.exp(-((x - 1) ** 2) / 2 / iid**2) / iid / np.sqrt(2 * np.pi), label="i.i.d. width"
    )
    right.set(xlabel="denom / mean", ylabel="density", title=f"head {head}, n = {n}")
    right.legend(fontsize=8)
    return cx.plots.picture(
        figure,
        "4.8",
        f"Spread over texts {spread:.0%}; independent tokens would give {iid:.0%}.",
        f"Histograms for head {head} at n = {n}: spread over texts {spread:.0%}, i.i.d. {iid:.0%}.",
    )


shown_head = int(stable[0]) if stable else 0
labelled = [p for p in cx.texts.passages(weights) if len(p.tokens) > n]  # long enough to look at n
cx.widgets.Denominators(
    weights, texts, labelled, n, TOKEN, picture=draw(shown_head, n), head=shown_head
)

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. The conditions are this book's reading of what the sources say in words. Broad heads are chosen by their kernels alone; a spread of *stable* heads could not fail, since it is what chose them.
"""


# %% tags=["hide-input", "nbval-check-output"]
local = [h for h in heads.tolist() if cx.effective_tokens(pos)[h] < cx.split.LOCAL]
spread = denoms.std(0) / denoms.mean(0)
run = torch.stack(  # the denominators of some texts, destination by destination: dest text head
    [cx.softmax_denominators(weights, texts[:50], m, TOKEN) for m in range(max(1, n - 32), n + 1)]
)
rough = (run.diff(dim=0).abs().mean(0) / run.mean(0)).mean(0)  # head
plain = 1 - is_stop.float().mean(1)
by_plain = np.array([np.corrcoef(plain, logs[:, h])[0, 1] for h in heads])
within = account["independent"] / (account["measured"] - account["topic"])
share = (
    bos_share[list(stable) or broad].quantile(0.5, dim=0) if stable or broad else None
)  # position
faded = float("nan") if share is None else float(grid[(share >= 0.1).numpy()].max(initial=0))
SIX = [0, 2, 6, 8, 9, 10]  # the stable heads of GPT-2 small (Gibson 2025)
cx.claims.ledger(
    model,
    cx.claims.Claim(
        "share_stable", "stable heads among all of the layer", len(stable) / weights.n_heads
    ),
    cx.claims.Claim(
        "spread_at_half",
        "relative spread of denom, middle broad head",
        cx.claims.over(spread, broad, np.median),
    ),
    cx.claims.Claim(
        "confetti",
        "mean step of denom from n to n + 1 over its mean, local heads over broad ones, both middle",
        cx.claims.over(rough, local, np.median) / cx.claims.over(rough, broad, np.median),
        digits=1,
    ),
    cx.claims.Claim(
        "iid_within_context",
        "i.i.d. variance over measured, both less topic, middle broad head",
        cx.claims.over(within, broad, np.median),
    ),
    cx.claims.Claim(
        "mean_of_context",
        "topic: standard deviation over mean, middle broad head",
        cx.claims.over(account["topic"].clip(lower=0) ** 0.5, broad, np.median),
    ),
    cx.claims.Claim(
        "keywords_explain",
        "variance of log denom explained by plain keyword density, best broad head",
        cx.claims.over(by_plain**2, broad, np.max),
    ),
    cx.claims.Claim(
        "inflated",
        "last position at which BOS has a tenth of denom, middle one of the stable heads",
        faded,
        digits=0,
    ),
    *(
        [
            cx.claims.Claim(
                "stable_heads",
                "heads that are stable here or in the source, not in both",
                float(len(set(stable) ^ set(SIX))),
                digits=0,
            ),
            cx.claims.Claim(
                "spread_along",
                "relative spread of denom at the middle position, largest of the six heads",
                float((along.std(0) / along.mean(0))[SIX].quantile(0.5, dim=-1).max()),
            ),
            cx.claims.Claim(
                "keyword_head",
                "of the six, heads that emphasise keywords most, here or in the source, not in both",
                float(len({SIX[int(lift[SIX].argmax())]} ^ {6})),
                digits=0,
            ),
            cx.claims.Claim(
                "stop_word_head",
                "the same with stop words",
                float(len({SIX[int(lift[SIX].argmin())]} ^ {8})),
                digits=0,
            ),
        ]
        if weights.n_heads == 12  # the sources name heads of GPT-2 small
        else []
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
worst = cx.claims.over(foretold, broad, lambda v: v[np.abs(np.log(v)).argmax()])
cx.claims.finding(
    f"The variance foretold from half of the texts comes within a factor of 1.5 of that of the others, in every broad head: {worst:.2f} times it in the worst.",
    holds=1 / 1.5 <= worst <= 1.5,
)

# %% [markdown]
r"""
## Exercises

1. A head's content is 1 for nine tokens in ten and $c > 1$ for the tenth, tokens independent. How large can $\sigma/\mu$ become, and what is then the relative spread of the denominator with 100 effective tokens?
2. Show that $\operatorname{Var}\,\text{denom} \le \gamma(0)\,(\sum_i \text{pos}_i)^2$ whatever the correlation. When is it equal?
3. Two heads have the same content, tokens are independent, and one kernel is the running mean of the other over $m$ positions. Whose denominators stray less, and by how much at most?

```{admonition} Solutions
:class: dropdown

1. $\mu = 0.9 + 0.1 c$ and $\sigma = (c - 1) \sqrt{0.09}$, so $\sigma/\mu = 0.3 (c - 1) / (0.9 + 0.1 c)$, which grows with $c$ towards 3 without reaching it. With 100 effective tokens the spread is then $3 / \sqrt{100}$, 30%: as much as the number of rare tokens among a hundred varies, ten, give or take three.
2. By Cauchy and Schwarz $\lvert \gamma(k) \rvert \le \gamma(0)$, and all $\text{pos}_i$ are positive. Equal if and only if $\gamma$ is constant as far as the kernel reaches: then all tokens of a text have one content, and only the topic is random.
3. The smoother one: by {eq}`eq-iid` the variances are as $\sum_i \text{pos}_i^2$, and a running mean cannot increase a sum of squares (Jensen). At most by a factor of $m$ in the variance, approached by kernels that are concentrated on places at least $m$ apart. The topic term of {eq}`eq-account` does not change.
```

## Where this comes from

The two figures and the use of concentration inequalities are those of {cite:t}`gibson2025decomposing`; the random model, the remark on keywords, the first token and the appendix on LayerNorm are from the earlier post {cite}`gibson2025contextual`. The inequalities are {cite:t}`hoeffding1963` and, with proofs of all three, {cite:t}`boucheron2013`.
The account by autocovariance is this book's; that the mean might differ between contexts is the third step of the post's argument.
"""
