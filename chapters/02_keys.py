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
# Can a key be split into what and where?

**Yes, to within about a tenth of the attention, and in half of the heads most of the error is one token's.**
In every head the rows rebuilt from the two halves are nearer to the true ones than a row that ignores the tokens: they misplace 0.02 to 0.10 of the attention, against 0.07 to 0.56.
The gain is least in head 4, where 0.10 stands against 0.13; in heads 0 and 7, which say 92% of what differs between texts, 0.06 and 0.02 stand against 0.56 and 0.29.
In heads 1, 2, 3 and 4 most of the error comes from one token, BOS: read by the key that it has in truth, the misplaced share falls from 0.075 to 0.018 on average over them.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the token at the destination

# %% tags=["hide-input", "nbval-check-output"]
import numpy as np
import pandas as pd
import torch

import ctxlib as cx
from ctxlib.weights import layer_norm_scale

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN)
passages, n = study.passages, study.n
# as many texts as take the memory of 1000 on the book's own model
several = study.texts[: max(100, int(1000 * 256 * 256 / (n * weights.d_model)))]
X = study.at.placed(several)  # text source: TOKEN stands at n
x = study.at.placed([study.example])[0]  # the book's example
names = ["BOS", *map(str, cx.neurons.spelled(weights, x[1:].tolist()))]


def heads_of(which):
    """Heads by number, in words."""
    return f"head{'s' * (len(which) > 1)} {cx.claims.listed(which)}"


print(study)

# %% [markdown]
r"""
The heads of the first layer are seen from position $n$, where ` the` stands. Most columns of their roster ([chapter 1](01_first_layer)) speak of a head's *kernel*, the attention that position alone would give. A head has one only if its keys can be split. Whether they can is this chapter's
question, and it is asked at that $n$ and that token.

## A length ties what to where

A head reads the key of source $i$ from the sum of a token embedding and a position embedding, after LayerNorm has put the sum on a sphere ([chapter 1](01_first_layer)):

$$
\text{key}_i \;=\; \sqrt{d_\text{model}}\;\frac{(W_E[x_i] + W_\text{pos}[i])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[i]\rvert}
$$ (eq-key)

Above the line, *what* ($x_i$) and *where* ($i$) are already apart. Only the length below ties them together: the token's part of the key is divided by a length to which its position contributes. (The bias $b_K$ adds the same number to every score of a row, and the softmax takes it out again.) How long are the two parts?
"""

# %%
W_E, W_pos, W_K = weights.W_E, weights.W_pos, weights.W_K
d_model, eps, H = weights.d_model, weights.eps, weights.n_heads
C = W_E.norm(dim=-1).median()  # a typical token's length
# x is the book's example, X are the held-out texts, all with TOKEN at n

# %% tags=["hide-input"]
low, high = np.quantile(W_E[X[:, 1:]].norm(dim=-1), (0.05, 0.95))
lengths = W_pos.norm(dim=-1)
figure, ((axis,),) = cx.plots.panels(height=2.5, width=7.5)
axis.plot(lengths, color=cx.plots.COLOURS[1], label="position i")
axis.plot([0], lengths[:1], "o", ms=5, color=cx.plots.COLOURS[1])
axis.axhspan(low, high, alpha=0.2, label="tokens of texts, middle 90%")
axis.axhline(C, color=cx.plots.INK, lw=1, ls="--", label="C")
axis.set(xlabel="position i", ylabel="length", ylim=(0, None))
axis.legend(fontsize=8, ncols=3)
cx.plots.picture(
    figure,
    "2.1",
    "The length of every position embedding, beside those of the tokens that texts are made of. C is the median over the vocabulary.",
    f"A curve that starts at {lengths[0]:.2f} at position 0, is {lengths[n]:.2f} at n = {n} and {lengths[-1]:.2f} at the end; tokens lie between {low:.2f} and {high:.2f}, C is {C:.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
rest = float(lengths[1:].median())
cx.claims.finding(
    f"The embedding of position 0, where BOS stands, is {lengths[0] / rest:.1f} times as long as the typical one and longer than the typical token ({lengths[0]:.2f} against {C:.2f}); the others are shorter ({rest:.2f} in the median, {lengths[1:].max():.2f} at most).",
    holds=bool(lengths[0] > 2 * rest and lengths[0] > C > lengths[1:].max()),
)

# %% [markdown]
r"""
So nearly everywhere the token makes most of the length, and at another position it would be nearly as long. Position 0 is another matter.

## Equation 1 in a few lines

Let $n$ be the destination, the position that asks. The published split {cite}`gibson2025decomposing` begins with a zero. It adds $W_\text{pos}[n]$ and takes it away again:

$$
W_E[x_i] + W_\text{pos}[i] \;=\; \underbrace{W_E[x_i] + W_\text{pos}[n]}_{\text{the token, as if it stood at } n}
\;+\; \underbrace{W_\text{pos}[i] - W_\text{pos}[n]}_{\text{from } n \text{ to } i}
$$ (eq-zero)

Each part then gets a length of its own, one that does not mention the other. The first is divided by the length that the token would have *at n*. The second is divided by $\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}$, the length of the sum at $i$ if the token is of the typical length $C$ and stands at right angles to its position. $C$ is the median over the vocabulary.

$$
\begin{aligned}
\text{key}_i \;\approx\;\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_E[x_i] + W_\text{pos}[n])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[n]\rvert}}_{E[n,\,x_i]} \\
+\;\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_\text{pos}[i] - W_\text{pos}[n])\,W_K}{\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}}}_{P[n,\,i]}
\end{aligned}
$$ (eq-split)

This is Equation 1 of the paper, and called so from here on. $E$ knows which token, $P$ knows which place. In code:
"""


# %%
def LN(v):
    return v / (v.square().mean(-1, keepdim=True) + eps).sqrt()


E = LN(W_E[x] + W_pos[n]) @ W_K  # head source d_head: what
shared = ((W_pos[: n + 1].square().sum(-1) + C**2) / d_model).sqrt()
P = (W_pos[: n + 1] - W_pos[n]) / shared[:, None] @ W_K  # head source d_head: where

q = LN(W_E[x[n]] + W_pos[n]) @ weights.W_Q + weights.b_Q  # head d_head: who asks
rebuilt = ((E + P) @ q[..., None] / weights.attn_scale)[..., 0].softmax(-1)  # head source

# %% tags=["nbval-check-output"]
package = cx.split.content_keys(weights, n, x), cx.split.positional_keys(weights, n)
all(torch.allclose(mine, theirs, atol=1e-3) for mine, theirs in zip((E, P), package, strict=True))

# %% [markdown]
r"""
The last line compares both halves with the package's. At $i = n$ the second part is zero and the first exact, so there the equation has no error at all.

## Four sources by hand

Here are four sources of the page on the solar system, read by the head in which Equation 1 errs most on this page: BOS; the source that gets most in the rest of the first half, a piece of *comets*; the token before ` the`; and ` the` itself. Write $c_i$ and $p_i$ for the two parts of a score, $c_i = q_n \cdot E[n, x_i] / \sqrt{d_\text{head}}$ and $p_i = q_n \cdot P[n, i] / \sqrt{d_\text{head}}$.
"""

# %%
true = cx.attention_rows(weights, x, n)
worst = int(cx.total_variation(true, rebuilt).argmax())
c, p = (half[worst] @ q[worst] / weights.attn_scale for half in (E, P))
at_i = (W_E[x] + W_pos[: n + 1]).norm(dim=-1)  # the true length
at_n = (W_E[x] + W_pos[n]).norm(dim=-1)  # in its place in E
typical = (W_pos[: n + 1].square().sum(-1) + C**2).sqrt()  # in its place in P
true_score = (c * at_n + p * typical) / at_i  # the two numerators, over the true length

# %% tags=["hide-input", "nbval-check-output"]
loud = int(true[worst, 1 : n // 2].argmax()) + 1
four = [0, loud, n - 1, n]
columns = {
    "i": four,
    "true length": at_i,
    "in E": at_n,
    "in P": typical,
    "c": c,
    "p": p,
    "c + p": c + p,
    "true score": true_score,
    "rebuilt / true weight": (c + p - true_score).exp(),
}
pd.DataFrame(
    {k: v if k == "i" else [f"{float(v[i]):.2f}" for i in four] for k, v in columns.items()},
    index=pd.Index([names[i] for i in four], name=f"source, head {worst}"),
)

# %% [markdown]
r"""
The numerators are never touched, so a score is wrong only by its two lengths. With $\ell_i$ for the true length, $\ell_i^n$ for the one in $E$ and $\bar\ell_i$ for the one in $P$, the error of a score is exactly

$$
\delta_i \;=\; c_i \left( 1 - \frac{\ell_i^n}{\ell_i} \right) \;+\; p_i \left( 1 - \frac{\bar\ell_i}{\ell_i} \right) .
$$ (eq-error)

An error of a tenth makes a source's weight a tenth too large, before the softmax makes the row sum to one. The last column of the table is this factor, $e^{\delta_i}$. Trouble takes two things at once: a part of the score that is large, and a length that is wrong. BOS has both.
"""

# %% tags=["hide-input", "nbval-check-output"]
factor = (c + p - true_score).exp()
cx.claims.finding(
    f"BOS is {at_i[0]:.2f} long where it stands and would be {at_n[0]:.2f} at n, so Equation 1 counts its content too much and gives it {factor[0]:.1f} times its weight in head {worst}, before the row is normalised; the token beside n gets its own to within 2%.",
    holds=bool(at_i[0] > 1.2 * at_n[0] and factor[0] > 1.5 and abs(factor[n - 1] - 1) < 0.02),
)

# %% [markdown]
r"""
## How close are the rows?

Two rows are two distributions over the same sources. Their **total variation** is the largest difference in weight that any set of sources could show:

$$
\text{TV} \;=\; \tfrac12 \sum_{i \le n} \lvert a_i - \hat a_i \rvert ,
$$ (eq-tv)

with $a_i$ the true row and $\hat a_i$ the other one. TV 0.05 means that a twentieth of the attention sits where it should not. On the example, a head a column, with and without one repair: BOS stands at 0 in every text, so its true key is known from the weights alone.
"""

# %% tags=["nbval-check-output"]
own = E + P
own[:, 0] = LN(W_E[x[0]] + W_pos[0]) @ W_K  # BOS stands at 0 in every text: its key needs no text
own_row = (own @ q[..., None] / weights.attn_scale)[..., 0].softmax(-1)
example = {"Equation 1": rebuilt, "BOS by its own key": own_row}
pd.DataFrame({k: cx.total_variation(true, r).numpy() for k, r in example.items()}).T.round(2)

# %% [markdown]
"""
Is that good? Compare it with two guesses that look at no token: an even row, and the kernel. Here is the median distance of all four from the true row at $n$, over the held-out texts:
"""

# %%
true_rows = cx.attention_rows(weights, X, n)  # text head source
scores = cx.split.rebuilt_scores(weights, X, n)
ask = cx.split.asked_there(weights, X[:, n], n)  # text head d_model
first = ask @ cx.layer_norm(W_E[X[:, :1]] + W_pos[0], eps).mT  # text head 1: BOS by its own key


def with_own_bos(scores):
    """The rows of these scores, with the first source read by its own key."""
    return torch.cat([first, scores[..., 1:]], -1).softmax(-1)


kernel = cx.positional_kernels(weights, n, TOKEN)  # head source
rows = {
    "even row": torch.full_like(kernel, 1 / (n + 1)),
    "kernel only": kernel,
    "Equation 1": scores.softmax(-1),
    "Equation 1, BOS by its own key": with_own_bos(scores),
}
tv = {name: cx.total_variation(true_rows, row.expand_as(true_rows)) for name, row in rows.items()}

# %% tags=["hide-input", "nbval-check-output"]
median = {name: of_texts.median(0).values for name, of_texts in tv.items()}  # each: head
pd.DataFrame({k: [f"{v:.2f}" for v in m] for k, m in median.items()}).rename_axis("head")

# %% tags=["hide-input", "nbval-check-output"]
even, by_kernel, split, mended = median.values()
cx.claims.finding(
    f"In every head the rows rebuilt from the two halves are nearer to the true ones than a row that ignores the tokens: they misplace {split.min():.2f} to {split.max():.2f} of the attention, against {by_kernel.min():.2f} to {by_kernel.max():.2f}.",
    holds=bool((split < by_kernel).all()),
)

# %% tags=["hide-input", "nbval-check-output"]
gain = by_kernel / split
least = int(gain.argmin())
share = cx.denominators.speaks(study.at, study.texts[::4])
speak = sorted(share.nlargest(2).index)
cx.claims.finding(
    f"The gain is least in head {least}, where {split[least]:.2f} stands against {by_kernel[least]:.2f}; in heads {cx.claims.listed(speak)}, which say {share[speak].sum():.0%} of what differs between texts, {split[speak[0]]:.2f} and {split[speak[1]]:.2f} stand against {by_kernel[speak[0]]:.2f} and {by_kernel[speak[1]]:.2f}.",
    holds=bool(least not in speak and gain[speak].min() > 3),
    otherwise=f"The gain is least in head {least}, where {split[least]:.2f} stands against {by_kernel[least]:.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
by_bos = [h for h in range(H) if mended[h] < split[h] / 2]
cx.claims.finding(
    f"In {heads_of(by_bos)} most of the error comes from one token, BOS: read by the key that it has in truth, the misplaced share falls from {split[by_bos].mean():.3f} to {mended[by_bos].mean():.3f} on average over them."
    if by_bos
    else "In some heads most of the error comes from one token, BOS.",
    holds=len(by_bos) > 0,
    otherwise="in no head does BOS make half of the error.",
)

# %% tags=["hide-input"]
columns = next(k for k in (4, 3, 5, 2, 1) if H % k == 0)
figure, axes = cx.plots.panels(H // columns, columns, height=1.75, sharex=True, sharey=True)
for head, axis in enumerate(axes.flat):
    axis.plot(true[head], lw=0.8, label="true")
    axis.plot(rebuilt[head], lw=0.8, ls=(0, (2, 1.5)), label="rebuilt")
    axis.plot([0], true[head, :1], "o", ms=5, color=cx.plots.COLOURS[0])
    axis.plot([0], rebuilt[head, :1], "D", ms=4, color=cx.plots.COLOURS[1])
    axis.set(title=f"head {head}", yscale="log", ylim=(1e-4, 1))
for axis in axes[-1]:
    axis.set_xlabel("source i")
axes[0, 0].legend(fontsize=8, loc="upper left")
figure.supylabel("attention, a share of the row", fontsize=10)
cx.plots.picture(
    figure,
    "2.2",
    f"True and rebuilt rows at n = {n} of the book's example, “{study.example.subject}”, attention on a logarithmic axis. At the left stand the marks of BOS: the circle true, the diamond rebuilt.",
    f"A panel per head with two curves that nearly coincide. BOS gets, in truth, {cx.plots.by_head(true[:, 0])}, and in the rebuilt rows {cx.plots.by_head(rebuilt[:, 0])}.",
)

# %% [markdown]
r"""
Wherever the circle and the diamond at the left stand apart, the rest of the dashed curve lies a little low: what BOS gets too much, all others get too little. But this error is the same in every text. The token is the same, the place is the same, and so is the query. In the product *kernel × content* of [chapter 3](03_kernels) BOS's entry is a constant, merely a wrong one. Nor need it do harm: in a twin of `mini` that read a fifth as much, the length of BOS is wrong as well, but no head attends to BOS ([appendix A](A_scale)). The chapters
that follow keep Equation 1 as published and say where BOS matters.

## What the zero buys

Why add and subtract $W_\text{pos}[n]$? Without it the split would be $W_E[x_i]$ over the length in $E$ and $W_\text{pos}[i]$ over the length in $P$. The two splits differ only in which of the lengths divides $W_\text{pos}[n]\,W_K$. Below are both, with BOS by its own key.
"""

# %%
shift = (W_pos[n] @ ask.mT)[..., None]  # text head 1: the score of W_pos[n], before any length
at_n_of = cx.split.content_scale(weights, n, X)[:, None]  # text 1 source
without = scores - shift / at_n_of + shift / shared

exact = cx.split.exact_scores(weights, X, n)
exact = exact - exact[..., n:] + scores[..., n:]  # b_K apart
errors = {"with the zero": (scores - exact).abs(), "without": (without - exact).abs()}  # in nats
bare = cx.total_variation(true_rows, with_own_bos(without)).median(0).values  # head

# %% tags=["hide-input"]
back = n - np.arange(n + 1)
by_distance = pd.DataFrame({k: e.mean((0, 1)).numpy() for k, e in errors.items()}, index=back)
near = by_distance.loc[16:1].mean()
edges = np.unique(np.geomspace(1, n, 16).astype(int))
binned = by_distance.groupby(pd.cut(back, edges, right=False), observed=True).mean()
figure, ((left, right),) = cx.plots.panels(1, 2, height=2.6)
for name, style in zip(binned, ("o-", "o--"), strict=True):
    left.plot(edges[:-1], binned[name], style, ms=3, label=name)
left.set(xscale="log", xlabel="tokens back, n − i", ylabel="mean |error| of a score")
left.set_ylim(0, None)
left.legend(fontsize=8)
right.plot(mended, "o", label="with the zero")
right.plot(bare, "D", ms=4, label="without")
right.set(xlabel="head", ylabel="median TV", ylim=(0, None), xticks=range(H))
cx.plots.picture(
    figure,
    "2.3",
    f"Left: the error of a score by distance, in nats, over all heads and {len(X)} texts. Right: what it does to rows, with BOS by its own key.",
    f"Within 16 tokens the mean error of a score is {near['with the zero']:.4f} with the zero and {near['without']:.4f} without. Median TV with the zero: {cx.plots.by_head(mended, '.3f')}; without: {cx.plots.by_head(bare, '.3f')}.",
)

# %% tags=["hide-input", "nbval-check-output"]
better = [h for h in range(H) if mended[h] < 0.8 * bare[h]]
ratio = near["without"] / near["with the zero"]
cx.claims.finding(
    f"Within 16 tokens of n the zero makes scores {ratio:.1f} times as exact, and yet rows gain by more than a fifth in {heads_of(better)} only."
    if better
    else "The zero makes rows better by more than a fifth in some head.",
    holds=ratio > 1.5 and 0 < len(better) < weights.n_heads,
)

# %% [markdown]
r"""
The paper's reason for the zero is that most attention sits near $n$. In the uniform heads it does not, and there the mean of $W_\text{pos}$ over the sources does better than $W_\text{pos}[n]$ (exercise 1).

## Where in the text, and in which heads?

So far $n$ was the middle of the context. Along the text the two errors go opposite ways: what BOS does shrinks, and the rest grows.
"""

# %%
stops = sorted({*np.linspace(n // 8, study.length - 1, 9).astype(int).tolist(), n})
some = study.texts[:: max(1, len(study.texts) // 100)]


def misplaced(m):
    """`2 head`: the median TV at destination m, with all sources and with BOS left out."""
    z = torch.stack([text.tokens[: m + 1] for text in some])
    whole = cx.attention_rows(weights, z, m), cx.rebuilt_rows(weights, z, m)
    rest = [row[..., 1:] / row[..., 1:].sum(-1, keepdim=True) for row in whole]
    return torch.stack([cx.total_variation(*pair).median(0).values for pair in (whole, rest)])


along = torch.stack([misplaced(m) for m in stops])  # position (all, BOS left out) head

# %% tags=["hide-input"]
figure, axes = cx.plots.panels(1, 2, height=2.7, sharey=True)
for k, title in enumerate(("all sources", "BOS left out")):
    for head in range(H):
        axes[0, k].plot(stops, along[:, k, head], label=f"head {head}", **cx.plots.head_style(head))
    axes[0, k].set(title=title, xlabel="position n", ylim=(0, None))
axes[0, 0].set_ylabel("median TV")
axes[0, 1].legend(fontsize=7, ncols=2)
cx.plots.picture(
    figure,
    "2.4",
    "Distance between true and rebuilt rows along the text. Right: both rows without their first entry, made to sum to one again.",
    f"Two panels, a curve per head. All sources: mean over heads {along[0, 0].mean():.3f} at n = {stops[0]} and {along[-1, 0].mean():.3f} at n = {stops[-1]}. BOS left out: {along[0, 1].mean():.3f} and {along[-1, 1].mean():.3f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
start, centre, end = (float(along[i, 1].mean()) for i in (0, stops.index(n), -1))
cx.claims.finding(
    f"With BOS left out, the distance grows along the text: {start:.2f} at n = {stops[0]}, {centre:.2f} at n = {n}, {end:.2f} at n = {stops[-1]} on average over heads.",
    holds=start < centre < end,
)

# %% [markdown]
r"""
An earlier post by the paper's author finds for GPT-2 that LayerNorm distorts least at the centre of the sequence {cite}`gibson2025contextual`. The rows of this model do not agree. Figure 2.3 suggests why: scores are nearly exact in the neighbourhood of $n$, and the later $n$ is, the more sources stand outside of it.

In which heads are the errors largest? The lengths are the same for all heads, so by {eq}`eq-error` a head should err by more the larger its parts $c_i$ and $p_i$ are. For $p_i$ this is so, once BOS is read by its own key:
"""

# %% tags=["hide-input"]
asks = cx.split.asked(weights, cx.split.destination_query(weights, n, TOKEN))  # head d_model
where = cx.split.where(weights, asks.mT, n).mT[:, 1:].abs().mean(-1)  # head
agreement = {k: float(np.corrcoef(where, m)[0, 1]) for k, m in (("in", split), ("apart", mended))}
figure, ((left, right),) = cx.plots.panels(1, 2, height=2.5, sharey=True)
for axis, values, title in ((left, split, "Equation 1"), (right, mended, "BOS by its own key")):
    for h in range(H):
        colour = cx.plots.head_style(h)["color"]
        axis.plot(where[h], values[h], "osD^"[h % 4], ms=5, color=colour, label=f"head {h}")
    axis.set(title=title, xlabel="mean |p| of a source, nats", ylim=(0, None))
left.set_ylabel("median TV")
right.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
cx.plots.picture(
    figure,
    "2.5",
    "The size of a head's positional scores against the distance of its rows; a point is a head.",
    f"Two scatter plots. Correlation {agreement['in']:.2f} for Equation 1 as it stands, {agreement['apart']:.2f} with BOS read by its own key.",
)

# %% tags=["hide-input", "nbval-check-output"]
small = where.argsort()[:-2]  # all heads but the two that position moves most
rest = float(np.corrcoef(where[small], mended[small])[0, 1])
cx.claims.finding(
    f"With BOS by its own key, heads with larger positional scores have the larger errors, r = {agreement['apart']:.2f}, though two heads make most of that line: without them r = {rest:.2f}.",
    holds=agreement["apart"] > 0.8 and rest < 0.8 * agreement["apart"],
)

# %% [markdown]
r"""
The two are heads 0 and 5, which positions move most. What makes lengths wrong, and what a better $C$ would give, is the question of [appendix A](A_scale).

## What breaks it

- **A token with a large score at a long position.** BOS at 0 is one. Any model that parks attention on its first token deserves the own key of this chapter.
- **A constant from the wrong tokens.** $C$ is a median over the vocabulary, and texts are made of its frequent tokens, which are shorter ([appendix A](A_scale)).
- **No position vector.** Rotary positions and ALiBi add none, so there is nothing to split ([chapter 11](11_families)).

## Turn it

Choose a passage, a head, a destination and a $C$; the page computes both rows from the weights. Try $C$ at half its value in head 0, and in head 7: which of the two rows moves?
"""


# %% tags=["hide-input"]
passage = next((k for k, p in enumerate(passages) if p.domain == "astronomy"), 0)
tokens, shown = passages[passage].tokens[: study.length], study.heads[0]
two = [rows(weights, tokens, n)[shown] for rows in (cx.attention_rows, cx.rebuilt_rows)]
distance = float(cx.total_variation(*two))
figure, ((axis,),) = cx.plots.panels(height=2.6, width=7.5)
axis.plot(back, two[0], lw=1.2, label="true")
axis.plot(back, two[1], lw=1.2, ls="--", label="rebuilt")
axis.set(xlabel="tokens back, n − i", ylabel="attention", title=f"head {shown}, n = {n}")
axis.invert_xaxis()
axis.legend()
picture = cx.plots.picture(
    figure,
    "2.6",
    f"True and rebuilt row of head {shown} at n = {n} of “{passages[passage].subject}”, whose own token asks; C = {C:.2f}. Distance {distance:.3f}.",
    f"True and rebuilt row of head {shown}; distance {distance:.3f}.",
)
cx.widgets.Rows(weights, passage=passage, head=shown, n=n, picture=picture)

# %% [markdown]
"""
## Claims

The distances are over all positions of the book's passages, as in the paper's first figure. Three lines fail. The worst head is the one in which BOS is loudest. That tokens and positions are not orthogonal says little: take a vector from all positions and add it to all tokens, and their angles change, but no attention row does. The best $C$ is larger than the median, although texts are made of shorter tokens: it makes up for BOS. [Appendix A](A_scale) shows both.
"""

# %% tags=["hide-input", "nbval-check-output"]
broad = [h for h in study.roster.index if study.roster["effective tokens"][h] > cx.split.BROAD]
everywhere = torch.stack(
    [
        cx.total_variation(
            cx.split.attention_pattern(weights, z), cx.split.rebuilt_pattern(weights, z)
        )[:, 1:]
        for z in (p.tokens[: study.length] for p in passages)
    ]
).numpy()  # text head dest
of_text = np.median(everywhere, -1)  # text head
level = everywhere[:, broad].mean((1, 2)) if broad else np.full(2, np.nan)


def typical_tv(name, summary):
    """The claim on a summary, over the broad heads, of their median over texts."""

    def typical(drawn):
        return cx.claims.over(np.median(of_text[drawn], 0), broad, summary)

    here, interval = typical(slice(None)), cx.claims.by_document(typical, passages)
    measured = f"median TV, {name} of the broad heads"
    return cx.claims.Claim("tv", measured, here, interval, digits=3)


def over_some(octave):
    """The distance of the middle head where C is so many octaves above the median."""
    made = cx.rebuilt_rows(weights, X[::5], n, C=float(C) * 2**octave)
    return cx.total_variation(true_rows[::5], made).median(0).values.median()


best = min(np.linspace(-1, 1, 9), key=over_some)
unit = torch.nn.functional.normalize
cosine = float((unit(W_E, dim=-1) @ unit(W_pos, dim=-1).T).abs().mean())
scales = layer_norm_scale(W_E[X[:, 1:]] + W_pos[1 : n + 1], eps)
least, most = 0.145, 0.1755  # half a unit of the last printed digit beyond 0.15 and 0.175
inside = cx.claims.Claim(
    "norm_scale",
    f"share of LayerNorm's scales from {least:g} to {most:g}, all positions but the first",
    float(((scales >= least) & (scales <= most)).float().mean()),
)
cx.claims.ledger(
    model,
    typical_tv("middle one", np.median),
    typical_tv("worst", max),
    cx.claims.Claim(
        "tv_alike",
        "texts whose mean TV is within a factor of 2 of the first's",
        float(((level / level[0] > 0.5) & (level / level[0] < 2)).mean()) if broad else np.nan,
    ),
    cx.claims.Claim(
        "orthogonal",
        "mean |cosine| of tokens and positions, over that of random directions",
        cosine * d_model**0.5,
        digits=1,
    ),
    cx.claims.Claim("typical_norm", "best C over the median token norm", float(2**best)),
    *[inside] * (H == 12),  # a range of GPT-2 small's own
)

# %% [markdown]
r"""
**On real models**, kept from [chapter 6](06_real_model): TV of the stable heads, weighted by who speaks. MiniLM adds learned positions, as Equation 1 has it; Qwen and SmolLM2 turn queries and keys instead, and their split is that of [chapter 11](11_families).
"""

# %% tags=["hide-input", "nbval-check-output"]
cx.claims.on_real("TV")

# %% [markdown]
"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
factors = (scores - exact)[..., 0].exp().mean(0)
far = by_distance["with the zero"].loc[:65].mean()
pd.DataFrame(
    {
        "its error here": [
            f"{split.min():.2f} to {split.max():.2f} of a row's weight",
            f"{near['with the zero']:.2f} nats of a score within 16 tokens, {far:.2f} beyond 64",
            f"BOS gets {factors.min():.1f} to {factors.max():.1f} times its weight, before normalising",
        ]
    },
    index=[
        "A key is what plus where, so a row is a kernel times content, normalised.",
        "Nothing is wrong at n itself, and little near it.",
        "The one loud exception is the same in every text at this n and token.",
    ],
)

# %% [markdown]
r"""
## Exercises

**1. Predict, then run.** The zero of {eq}`eq-zero` could be any vector. Put the mean of $W_\text{pos}$ over the sources in place of $W_\text{pos}[n]$, and read BOS by its own key. Do rows become better or worse, and in which heads? The answer is folded.
"""

# %% tags=["hide-cell", "nbval-check-output"]
m = W_pos[: n + 1].mean(0)
as_if_at_m = layer_norm_scale(W_E[X] + m, eps).mT  # text 1 source
what, where_m = ask @ (W_E[X] + m).mT, ask @ (W_pos[: n + 1] - m).mT
moved = cx.total_variation(true_rows, with_own_bos(what / as_if_at_m + where_m / shared))
moved = moved.median(0).values
gain = [h for h in range(H) if moved[h] < mended[h]]
lose = [h for h in range(H) if moved[h] >= mended[h]]
cx.claims.finding(
    f"With the mean position as the zero, rows come nearer in {len(gain)} of {weights.n_heads} heads ({mended[gain].mean():.3f} becomes {moved[gain].mean():.3f}); head {lose[0]}, which looks back least far, loses ({mended[lose[0]]:.3f} becomes {moved[lose[0]]:.3f})."
    if len(lose) == 1
    else "One head alone loses when the mean position is the zero.",
    holds=len(lose) == 1 and int(study.roster["half of the mass within"].argmin()) == lose[0],
)

# %% [markdown]
r"""
**2. Fill in.** Write Equation 1 without looking up, and run the cell below it.
"""


# %%
def equation_1(x, n):
    """The two halves of the key of every source 0 ... n, each of shape head source d_head."""
    E = ...
    P = ...
    return E, P


# %% tags=["hide-input", "nbval-check-output"]
for name, mine, wanted in zip("EP", equation_1(x, n), package, strict=True):
    if mine is ...:
        print(name, "not yet")
    elif mine.shape != wanted.shape:
        print(name, "has shape", tuple(mine.shape), "and should have", tuple(wanted.shape))
    else:
        print(name, "right" if torch.allclose(mine, wanted, atol=1e-3) else "differs")

# %% [markdown]
r"""
**3. Break this.** Is it the token BOS, or position 0? Put ` the` at position 0 of every text, and measure Equation 1 again, without the repair.
"""

# %% tags=["hide-cell", "nbval-check-output"]
other = X.clone()
other[:, 0] = weights.token_id(TOKEN)
there = cx.attention_rows(weights, other, n)
changed = cx.total_variation(there, cx.rebuilt_rows(weights, other, n)).median(0).values
shares = [float(r[:, by_bos, 0].mean()) for r in (true_rows, there)]  # of position 0
cx.claims.finding(
    f"Not position 0 alone: with {TOKEN!r} there the distance in {heads_of(by_bos)} falls from {split[by_bos].mean():.3f} to {changed[by_bos].mean():.3f}, and the attention on position 0 from {shares[0]:.3f} to {shares[1]:.3f}."
    if by_bos
    else "Not position 0 alone.",
    holds=len(by_bos) > 0
    and bool((changed[by_bos] < split[by_bos] / 2).all())
    and shares[1] < shares[0] / 2,
)

# %% [markdown]
r"""
**4. Prove.** Let $s_i$ be the exact and $\hat s_i$ the rebuilt scores. Show that TV is at most $\tfrac12(e^{2\delta} - 1)$ when no score is wrong by more than $\delta$, up to one constant for the row.

```{admonition} Solutions to 2 and 4
:class: dropdown

**2.** `E = LN(W_E[x[: n + 1]] + W_pos[n]) @ W_K`, and with `shared` as above `P = (W_pos[: n + 1] - W_pos[n]) / shared[:, None] @ W_K`.

**4.** Each $e^{\hat s_i}$ lies within a factor $e^{\pm\delta}$ of $e^{s_i}$, and so does the denominator, so $\hat a_i / a_i$ lies between $e^{-2\delta}$ and
$e^{2\delta}$ and $\lvert \hat a_i - a_i\rvert \le a_i (e^{2\delta} - 1)$. Sum over $i$ and halve. (The best constant is $\tanh(\delta/2)$, half of this for small $\delta$.)
```

## Where this comes from

The decomposition and its first figure are those of {cite:t}`gibson2025decomposing`. The argument from orthogonality and the claim about the centre are from the appendix of the earlier post {cite}`gibson2025contextual`. BOS's own key, the baselines and the account of the error are this book's.
Writing attention as a circuit of queries and keys read from the residual stream follows {cite:t}`elhage2021framework`.
"""
