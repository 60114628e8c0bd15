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

**Almost, and the error can be measured.** A key of the first layer is read from a token embedding and a position embedding, added and then put on a sphere.
The sphere couples the two. If the coupling is loosened by one constant, the key becomes a sum of two terms, one that knows only the token and one that knows only the position, and its
scores have no error at the head's own position. For six heads of GPT-2 small the attention rows rebuilt from that sum are reported to lie about 0.05 from the true ones
{cite}`gibson2025decomposing`; here the distance is measured for every head.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
DESTINATION = 300  # the position n of the single rows that are drawn
BROAD = 40  # a head whose kernel has more effective tokens than this counts as broad
FAILS_AT = 0.10  # a head whose median distance is larger than this counts as failing

# %% tags=["hide-input", "nbval-check-output"]
from dataclasses import replace
from itertools import pairwise

import einops
import numpy as np
import pandas as pd
import torch

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model, layer=0)
passages = cx.texts.passages(weights)
LENGTH = min(len(p.tokens) for p in passages)
print(
    f"{MODEL}: {weights.n_heads} heads, d_model {weights.d_model}; {len(passages)} passages of {LENGTH} tokens or more"
)

# %% [markdown]
r"""
## The key that we have

[Chapter 1](01_first_layer) left us with the first layer in its simplest form. Everything that LayerNorm does apart from
rescaling has been folded into the matrices, and the residual stream at position $i$ is the sum of two centred vectors, one
for the token $x_i$ and one for the position. A head reads its key from that sum after LayerNorm has put it on the sphere of
radius $\sqrt{d_\text{model}}$:

$$
\text{key}_i \;=\; \sqrt{d_\text{model}}\;\frac{(W_E[x_i] + W_\text{pos}[i])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[i]\rvert}
$$ (eq-key)

The numerator is linear, so there *what* ($x_i$) and *where* ($i$) are already apart. Only the denominator ties them
together: the token's part of the key is longer or shorter depending on where it stands. (The bias $b_K$ is left out. It adds the
same number, $q_n \cdot b_K / \sqrt{d_\text{head}}$, to every score of a row, and the softmax takes that out again.)

If the denominator did not depend on the token we could stop here. It does, but two properties of the embeddings would make the dependence weak, one about
the angle between the two vectors and one about their lengths. Both can be looked at:
"""

# %% tags=["hide-input"]
W_E, W_pos, C = weights.W_E, weights.W_pos[:LENGTH], weights.typical_norm()
token_norms, position_norms = W_E.norm(dim=-1), W_pos.norm(dim=-1)
cosines = einops.einsum(
    W_E / token_norms[:, None],
    W_pos / position_norms[:, None],
    "vocab d_model, pos d_model -> vocab pos",
)
by_chance = weights.d_model**-0.5

figure, ((left, right),) = cx.plots.panels(1, 2, height=3.0)
left.hist(token_norms, bins=80, density=True, label="tokens")
left.hist(position_norms, bins=80, density=True, alpha=0.8, label="positions")
left.axvline(C, color=cx.plots.INK, lw=1, ls="--")
left.annotate("C", (C, left.get_ylim()[1] * 0.92), xytext=(4, 0), textcoords="offset points")
left.set(xlabel="norm", ylabel="density", yscale="log", title="How long")
left.legend(loc="upper right")
reach = max(5 * by_chance, float(cosines.abs().max()))
grid = np.linspace(-reach, reach, 400)
right.hist(
    cosines.flatten()[::7], bins=120, range=(grid[0], grid[-1]), density=True, label="measured"
)
right.plot(
    grid,
    np.exp(-((grid / by_chance) ** 2) / 2) / (by_chance * np.sqrt(2 * np.pi)),
    color=cx.plots.COLOURS[1],
    label="random directions",
)
right.set(
    xlabel="cosine of a token and a position embedding", ylabel="density", title="At what angle"
)
right.legend(loc="upper left")
cx.plots.picture(
    figure,
    "2.1",
    "Left: the norms of all centred token embeddings and of the position embeddings, densities on a logarithmic axis. The dashed "
    "line is <i>C</i>, the median token norm. Right: the cosine of every token embedding with every position embedding, and what two random "
    "directions of this dimension would give.",
    f"Two histograms. Token norms centre on {C:.2f}, position norms lie around {position_norms.median():.2f}. Cosines between tokens and "
    f"positions have mean {cosines.mean():.3f} and standard deviation {cosines.std():.3f}; random directions would give {by_chance:.3f}.",
)

# %% tags=["nbval-check-output"]
pd.Series(
    {
        "C, the median norm of a token embedding": f"{C:.2f}",
        "middle 90% of the token norms": f"{token_norms.quantile(0.05):.1f} to {token_norms.quantile(0.95):.1f}",
        "median norm of a position embedding": f"{position_norms.median():.2f}",
        "mean cosine of a token and a position": f"{cosines.mean():.2f}",
        "spread of that cosine": f"{cosines.std():.2f}",
        "spread for random directions": f"{by_chance:.2f}",
    },
    name=MODEL,
).to_frame()

# %% [markdown]
r"""
The split needs token and position embeddings to be nearly **orthogonal** (right) and tokens to be about **equally long** (left). The table says how far this model obliges: the mean cosine and its spread beside those of
random directions, and the middle of the token norms beside their median $C$. To the extent that it does, $\lvert W_E[x_i] + W_\text{pos}[i] \rvert^2$ is close to
$C^2 + \lvert W_\text{pos}[i] \rvert^2$, which does not mention the token.

## Three steps to a sum

Let $n$ be the destination, the position that asks. The published decomposition {cite}`gibson2025decomposing` begins with a
zero: add $W_\text{pos}[n]$ and take it away again, *before* anything is approximated.

$$
W_E[x_i] + W_\text{pos}[i] \;=\; \underbrace{W_E[x_i] + W_\text{pos}[n]}_{\text{the token, as if it stood at } n}
\;+\; \underbrace{W_\text{pos}[i] - W_\text{pos}[n]}_{\text{from } n \text{ to } i}
$$ (eq-zero)

Both terms still carry the old denominator. Now it is changed, in three steps.

**A.** In the first term, measure the length where the token is imagined to stand: replace $\lvert W_E[x_i] + W_\text{pos}[i]\rvert$ by
$\lvert W_E[x_i] + W_\text{pos}[n]\rvert$. What is left depends, for a given $n$, on the token alone.

**B.** In the second term, use orthogonality: replace $\lvert W_E[x_i] + W_\text{pos}[i]\rvert$ by
$\sqrt{\lvert W_E[x_i]\rvert^2 + \lvert W_\text{pos}[i]\rvert^2}$.

**C.** In the second term, use the typical length: replace $\lvert W_E[x_i]\rvert$ by $C$. What is left depends, for a given $n$, on the position alone.

The result is the equation on which the whole book stands,

$$
\begin{aligned}
\text{key}_i \;\approx\;\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_E[x_i] + W_\text{pos}[n])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[n]\rvert}}_{E[n,\,x_i]} \\
+\;\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_\text{pos}[i] - W_\text{pos}[n])\,W_K}{\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}}}_{P[n,\,i]}
\end{aligned}
$$ (eq-split)

Equation 1 of the paper, and called so from here on. It is worth looking at what the added zero has bought. At $i = n$ the second term vanishes and the first is exact, so there the
equation has no error at all. Where neighbouring position embeddings are alike, the errors stay small near $n$: that of A because the two lengths hardly differ, those of B and C because they are
errors in the length of a small vector. The approximation is best where heads that look at their neighbourhood put their attention.

In code the two halves are one line each, and a row is a softmax over their sum:
"""

# %%
text = next(p for p in passages if p.domain == "astronomy")
tokens, n = text.tokens[:LENGTH], min(DESTINATION, LENGTH - 1)

E = cx.content_keys(weights, n, tokens[: n + 1])  # head token d_head: knows x_i, not i
P = cx.positional_keys(weights, n, C)  # head pos d_head: knows i, not x_i
q = weights.queries(tokens)[:, n]  # head d_head

scores = (
    einops.einsum(q, E + P, "head d_head, head source d_head -> head source") / weights.attn_scale
)
rebuilt = scores.softmax(-1)
true = cx.attention_rows(weights, tokens, n)

# %% tags=["nbval-check-output"]
print(
    "same as cx.rebuilt_rows:",
    torch.allclose(rebuilt, cx.rebuilt_rows(weights, tokens, n), atol=1e-5),
)
from_bias = einops.einsum(q, weights.b_K, "head d_head, head d_head -> head") / weights.attn_scale
at_destination = cx.split.exact_scores(weights, tokens, n)[:, n] - from_bias - scores[:, n]
print(f"error at i = n: {at_destination.abs().max():.3f}")
step_of = [(W_pos[n - k] - W_pos[n]).norm() / W_pos[n].norm() for k in (1, min(100, n))]
print(
    f"from n to its neighbour, relative to |W_pos[n]|: {step_of[0]:.1f}; to 100 back: {step_of[1]:.1f}"
)

# %% tags=["hide-input"]
figure, axes = cx.plots.head_panels(weights.n_heads, sharex=True)
for head, axis in enumerate(axes.flat[: weights.n_heads]):
    back = np.arange(n + 1)[::-1]
    axis.plot(back, true[head], lw=1.0, label="true")
    axis.plot(back, rebuilt[head], lw=1.0, ls=(0, (2, 1.5)), label="rebuilt")
    axis.set(title=f"head {head}", xlim=(0, n))
    axis.set_xscale("symlog", linthresh=1)
    axis.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    axis.invert_xaxis()
for axis in axes[-1]:
    axis.set_xlabel("tokens back, n − i")
for axis in axes[:, 0]:
    axis.set_ylabel("attention")
axes[0, 0].legend(fontsize=8)
tv = cx.total_variation(true, rebuilt)
cx.plots.picture(
    figure,
    "2.2",
    f"One attention row of every head, at position {n} of a passage on {text.subject}: the true row, and the row rebuilt from "
    "<i>E</i> + <i>P</i>. Distance is logarithmic beyond one token, with the destination at the right.",
    f"A panel per head with two curves, true and rebuilt; the total variation distance between them ranges from {tv.min():.3f} "
    f"to {tv.max():.3f}.",
)

# %% [markdown]
r"""
## Where the error goes

Each of the three steps changes the score of each source by a definite amount, and the three amounts add up to the whole error.
So the account can be closed, up to rounding, head by head and source by source.
"""


# %%
def error_of_each_step(weights, tokens, n, C):
    """What steps A, B and C each add to the score of every source: `step head source`."""
    here, there = weights.W_pos[n], weights.W_pos[: n + 1]
    token = weights.W_E[tokens[: n + 1]]

    def scale(squared_norm):
        """LayerNorm's scale for a vector of this squared norm."""
        return (squared_norm / weights.d_model).sqrt()[:, None]

    def squared(v):
        return v.square().sum(-1)

    exact = scale(squared(token + there) + weights.d_model * weights.eps)
    at_n = scale(squared(token + here) + weights.d_model * weights.eps)
    orthogonal = scale(squared(token) + squared(there))
    typical = scale(C**2 + squared(there))

    change_of_key = torch.stack(
        [
            (token + here) / at_n - (token + here) / exact,  # A
            (there - here) / orthogonal - (there - here) / exact,  # B
            (there - here) / typical - (there - here) / orthogonal,  # C
        ]
    )
    change = einops.einsum(
        change_of_key,
        weights.W_K,
        "step source d_model, head d_model d_head -> step head source d_head",
    )
    q = weights.queries(tokens[: n + 1])[:, n]
    return (
        einops.einsum(q, change, "head d_head, step head source d_head -> step head source")
        / weights.attn_scale
    )


# %% tags=["nbval-check-output"]
steps = error_of_each_step(weights, tokens, n, C)
error = cx.split.rebuilt_scores(weights, tokens, n, C) - cx.split.exact_scores(weights, tokens, n)
error = error - error[:, n:]  # both scores up to the constant q_n . b_K
print(f"largest error of a score: {error.abs().max():.2f}")
print(
    f"largest difference between that error and the sum of the three steps: {(steps.sum(0) - error).abs().max():.3f}"
)

# %% tags=["hide-input"]
some = passages[:: max(1, len(passages) // 24)]
errors = torch.stack(
    [error_of_each_step(weights, p.tokens[:LENGTH], n, C) for p in some]
)  # text step head source
account, total = errors.abs().mean((0, 2)), errors.sum(1).abs().mean((0, 1))  # step source, source
edges = np.unique(np.geomspace(1, n, 24).astype(int))
distance = np.arange(n + 1)[::-1]


def by_distance(values):
    """The mean over each stretch of distances."""
    return [values[(distance >= low) & (distance < high)].mean() for low, high in pairwise(edges)]


figure, ((axis,),) = cx.plots.panels(height=3.0, width=6.5)
for values, name, style in zip(
    account.numpy(),
    ("A  length at n", "B  orthogonality", "C  typical length"),
    ("-", "--", "-."),
    strict=True,
):
    axis.plot(edges[:-1], by_distance(values), style, marker="o", ms=3, label=name)
axis.plot(edges[:-1], by_distance(total.numpy()), color=cx.plots.INK, lw=1.2, label="all three")
axis.set(xscale="log", xlabel="tokens back, n − i", ylabel="mean |error| of a score")
axis.set_ylim(bottom=0)
axis.legend()
cx.plots.picture(
    figure,
    "2.3",
    f"What each step costs, by distance from the destination: mean absolute change of a score, over all heads and {len(some)} passages.",
    "Three curves, and the error of the three steps together: "
    f"{by_distance(total.numpy())[0]:.3f} one token back, {by_distance(total.numpy())[-1]:.3f} at the far end.",
)

# %% tags=["nbval-check-output"]
far = by_distance(total.numpy())
print(
    f"mean |error| of a score: 0 at n, {far[0]:.2f} one token back, {max(far):.2f} at most, {far[-1]:.2f} at the far end"
)

# %% [markdown]
r"""
At $i = n$, to the left of the axis, the error is zero; the line above says how it goes on. A score error of a tenth changes one exponentiated score by about a tenth of itself, so Figure 2.3 can be read as a relative error before
the softmax is normalised. What the softmax makes of it is best seen to first order. Let $\delta_i$ be the error of score $i$ and $\bar\delta = \sum_i a_i \delta_i$ its mean under the row; then

$$
\hat a_i - a_i \;\approx\; a_i\,(\delta_i - \bar\delta) .
$$ (eq-first-order)

What all attended sources share drops out, and errors on sources that get no attention do not count.

## How close are the rows?

Two attention rows are two probability distributions over the same positions. The fair distance between them is **total variation**:
the largest difference in probability that any set of positions could show, and equally

$$
\text{TV} \;=\; \tfrac12 \sum_{i \le n} \lvert a_i - \hat a_i \rvert .
$$ (eq-tv)

Here $a_i$ is the true and $\hat a_i$ the rebuilt row, with $n$ left out. A distance of 0.05 means that one twentieth of the attention sits on other tokens than it should. The paper's first figure shows this for one
text, along all positions, for the six heads that it goes on to use. First, the row of Figure 2.2 once more, with its distance beside what {eq}`eq-first-order` predicts of it:
"""

# %% tags=["nbval-check-output"]
delta = steps.sum(0)  # head source
first_order = (true * (delta - (true * delta).sum(-1, keepdim=True))).abs().sum(-1) / 2
print(f"TV of the row, from the best head to the worst: {tv.min():.2f} to {tv.max():.2f}")
print(f"largest difference to its first-order form: {(tv - first_order).abs().max():.2f}")

# %% [markdown]
"""
And now at every position:
"""

# %% tags=["hide-input"]
along = cx.total_variation(
    cx.attention_pattern(weights, tokens), cx.rebuilt_pattern(weights, tokens)
)  # head dest
window = 16
smooth = along.unfold(1, window, window).mean(-1)
figure, ((axis,),) = cx.plots.panels(height=3.2, width=7.5)
for head in range(weights.n_heads):
    axis.plot(
        np.arange(smooth.shape[1]) * window + window / 2,
        smooth[head],
        label=f"head {head}",
        **cx.plots.head_style(head),
    )
axis.axhline(0.05, color=cx.plots.INK, lw=1, ls=":")
axis.set(xlabel="destination position n", ylabel="total variation distance", ylim=(0, None))
axis.legend(ncols=2, loc="upper left", bbox_to_anchor=(1, 1))
cx.plots.picture(
    figure,
    "2.4",
    f"Distance between true and rebuilt row at every position of one passage, averaged over {window} positions. The dotted line is the "
    "0.05 that the paper gives for its six heads.",
    f"One curve per head over the position; means over the text range from {along.mean(1).min():.3f} (head {along.mean(1).argmin()}) to "
    f"{along.mean(1).max():.3f} (head {along.mean(1).argmax()}).",
)

# %% [markdown]
"""
One text is an anecdote. The same measurement over every passage of the book, in all its domains and languages, gives each head a
distribution:
"""

# %% tags=["hide-input"]
everywhere = torch.stack(
    [
        cx.total_variation(cx.attention_pattern(weights, x), cx.rebuilt_pattern(weights, x))
        for x in (p.tokens[:LENGTH] for p in passages)
    ]
)  # text head dest
per_head = einops.rearrange(everywhere[:, :, 1:], "text head dest -> head (text dest)")
quantiles = torch.stack(
    [torch.tensor(np.quantile(per_head.numpy(), p, axis=1)) for p in (0.05, 0.25, 0.5, 0.75, 0.95)]
)
median = quantiles[2]
figure, ((axis,),) = cx.plots.panels(height=2.8, width=6.5)
heads = np.arange(weights.n_heads)
axis.vlines(heads, quantiles[0], quantiles[4], color=cx.plots.COLOURS[0], lw=1.5)
axis.vlines(heads, quantiles[1], quantiles[3], color=cx.plots.COLOURS[0], lw=7)
axis.plot(heads, median, "o", color=cx.plots.COLOURS[1], ms=5)
axis.axhline(0.05, color=cx.plots.INK, lw=1, ls=":")
axis.set(xlabel="head", ylabel="total variation distance", xticks=heads, ylim=(0, None))
cx.plots.picture(
    figure,
    "2.5",
    f"All {len(passages)} passages, positions 1 to {LENGTH - 1} of {weights.n_ctx - 1}: median (dot), middle half (thick) and middle 90% (thin) for every head.",
    f"Medians per head: {', '.join(f'{m:.3f}' for m in median)}.",
)

# %% tags=["nbval-check-output"]
late = min(int(0.95 * weights.n_ctx), LENGTH - 1)
effective = cx.effective_tokens(cx.positional_kernels(weights, late, token=None))
halves = everywhere[:, :, 1:].chunk(2, dim=-1)
first_half, second_half = (h.transpose(0, 1).flatten(1).median(-1).values for h in halves)
table = pd.DataFrame(
    {
        f"effective tokens at n = {late}": [f"{e:.0f}" for e in effective],
        "median TV": [f"{m:.2f}" for m in median],
        "95% of rows below": [f"{m:.2f}" for m in quantiles[4]],
        "first half of the text": [f"{m:.2f}" for m in first_half],
        "second half": [f"{m:.2f}" for m in second_half],
        "split": ["holds" if m <= FAILS_AT else "fails" for m in median],
    },
    index=pd.Index(range(weights.n_heads), name="head"),
)
table

# %% [markdown]
r"""
*Effective tokens* is $1 / \sum_i \text{pos}_{n,i}^2$ of the **positional kernel** $\text{pos}_{n,i} = \text{softmax}_i(q_n \cdot P[n,i] / \sqrt{d_\text{head}})$, the row that position alone would give, with a query that knows only
its own position. (Chapter 1 counted them for real rows.) A head of more than `BROAD` of them is called broad below. Positions beyond the shortest passage are not tested.

## One constant, two octaves

$C$ is the only number in {eq}`eq-split` that is chosen. How much hangs on the choice? Here is the measurement again, on one passage of each domain, with $C$ from half the median
token norm to twice that.
"""

# %% tags=["hide-input"]
one_each = list({p.domain: p for p in passages}.values())
octaves = np.linspace(-1, 1, 9)
distances = [[] for _ in octaves]
for p in one_each:
    true_pattern = cx.attention_pattern(weights, p.tokens[:LENGTH])
    for found, octave in zip(distances, octaves, strict=True):
        found.append(
            cx.total_variation(
                true_pattern, cx.rebuilt_pattern(weights, p.tokens[:LENGTH], C=C * 2**octave)
            )[:, 1:]
        )
sweep = torch.stack(
    [torch.cat(found, dim=1).median(-1).values for found in distances]
)  # octave head
figure, ((axis,),) = cx.plots.panels(height=3.2, width=7.5)
for head in range(weights.n_heads):
    axis.plot(
        C * 2**octaves,
        sweep[:, head],
        marker="o",
        ms=3,
        label=f"head {head}",
        **cx.plots.head_style(head),
    )
axis.axvline(C, color=cx.plots.INK, lw=1, ls=":")
axis.set(
    xscale="log", xlabel="C (dotted: the median token norm)", ylabel="median TV", ylim=(0, None)
)
ticks = C * 2 ** np.array([-1, -0.5, 0, 0.5, 1])
axis.set_xticks(ticks, [f"{t:.2f}" for t in ticks])
axis.minorticks_off()
axis.legend(ncols=2, loc="upper left", bbox_to_anchor=(1, 1))
cx.plots.picture(
    figure,
    "2.6",
    f"Median distance as C moves over two octaves, {len(one_each)} passages, one of each domain.",
    f"One curve per head. At the median norm the heads lie between {sweep[4].min():.3f} and {sweep[4].max():.3f}; at half of it between "
    f"{sweep[0].min():.3f} and {sweep[0].max():.3f}, at twice between {sweep[-1].min():.3f} and {sweep[-1].max():.3f}.",
)

# %% tags=["nbval-check-output"]
best = octaves[sweep.median(1).values.argmin()]
print(f"the median over heads is smallest at {2**best:.1f} times the median token norm")
print(
    f"median over heads there: {sweep.median(1).values.min():.2f}; at half the norm {sweep[0].median():.2f}, at twice {sweep[-1].median():.2f}"
)

# %% [markdown]
r"""
Too small a $C$ makes every position count for too much, too large a $C$ for too little; a head that position hardly moves does not mind either.
The median norm is a choice that can be made without looking at any attention at all, which is what makes the equation usable
on an unknown model.

## Whose is the mean?

One freedom is left, and it does not show in any activation. Add a vector $v$ to every token embedding and take it from every position embedding:

$$
W_E[t] \to W_E[t] + v, \qquad W_\text{pos}[i] \to W_\text{pos}[i] - v .
$$ (eq-origin)

Their sum is the same, so every key is the same, and so is every attention row. (Where the embeddings are tied, as in GPT-2, all logits of a position change by the same amount, and the softmax over the vocabulary takes that out.) Training does not settle $v$; where the origin lies is an accident.
The split {eq}`eq-split` does not care about it in $E$, which contains the sum, nor in the numerator of $P$, which contains a difference. It does care in the denominator of $P$, where $\lvert W_\text{pos}[i] \rvert$ and $C$ stand apart. The sensible origin makes tokens and positions orthogonal on average, as step B asks: $v$ is the one that gives the
tokens of a text mean zero. What does it change?
"""

# %% tags=["hide-input", "nbval-check-output"]
true_patterns = [cx.attention_pattern(weights, p.tokens[:LENGTH]) for p in one_each]
used = torch.cat([p.tokens[:LENGTH] for p in passages])
origins = {
    "as the model comes": torch.zeros(weights.d_model),
    "tokens of the vocabulary have mean zero": -weights.W_E.mean(0),
    "tokens of the passages have mean zero": -weights.W_E[used].mean(0),
    "positions have mean zero": weights.W_pos.mean(0),
}
origin_rows = []
for v in origins.values():
    moved = replace(weights, W_E=weights.W_E + v, W_pos=weights.W_pos - v)
    cosine = torch.nn.functional.cosine_similarity(
        moved.W_E[used[::97], None], moved.W_pos[None, 1:LENGTH:17], dim=-1
    )
    apart = [
        cx.total_variation(row, cx.rebuilt_pattern(moved, p.tokens[:LENGTH]))[:, 1:]
        for p, row in zip(one_each, true_patterns, strict=True)
    ]
    typical = torch.cat(apart, dim=1).median(-1).values  # head
    origin_rows.append(
        {
            "C": f"{moved.typical_norm():.2f}",
            "median norm, tokens of texts": f"{moved.W_E[used].norm(dim=-1).median():.2f}",
            "mean cosine": f"{round(float(cosine.mean()), 1) + 0.0:.1f}",
            "median TV, middle head": f"{typical.median():.2f}",
            "worst head": f"{typical.max():.2f}",
        }
    )
pd.DataFrame(origin_rows, index=pd.Index(list(origins), name="origin"))

# %% [markdown]
r"""
The first row is what all the figures above have used. Where the third row is better than the first, part of the error was not in the model but in the way it was written down; where the two agree, the model comes with the sensible origin already (`mini` is stored that way, as its card says).
The second column against the first shows one more thing that a single constant cannot know: the median of the vocabulary is a median over *types*, most of which are rare, and a text is made of *tokens*, most of which are not.

## The scale itself

Some accounts treat LayerNorm's scale as a constant from the start: in GPT-2 small it is reported to stay within 0.15 to 0.175 {cite}`gibson2025contextual`. The scale is what LayerNorm divides by,
$\lvert W_E[x_i] + W_\text{pos}[i]\rvert / \sqrt{d_\text{model}}$. Over real text:
"""

# %% tags=["hide-input"]
scales = torch.stack(
    [
        cx.weights.layer_norm_scale(weights.residual(p.tokens[:LENGTH]), weights.eps)[:, 0]
        for p in passages
    ]
)  # text pos
low, mid, high = (np.quantile(scales[:, 1:].numpy(), p, axis=0) for p in (0.05, 0.5, 0.95))
shared = ((weights.W_pos[:LENGTH].square().sum(-1) + C**2) / weights.d_model).sqrt()
figure, ((axis,),) = cx.plots.panels(height=2.8, width=6.5)
axis.fill_between(np.arange(1, LENGTH), low, high, alpha=0.25, label="middle 90% over passages")
axis.plot(np.arange(1, LENGTH), mid, lw=1.2, label="median over passages")
axis.plot(
    shared,
    color=cx.plots.COLOURS[1],
    lw=1.4,
    ls="--",
    label="in P: token norm set to C",
)
axis.set(xlabel="position i", ylabel="LayerNorm-1 scale", ylim=(0, None))
axis.legend(loc="lower right")
cx.plots.picture(
    figure,
    "2.7",
    "What LayerNorm divides by, over the position, and the scale that the second term of the split puts in its place.",
    f"The measured scale has a median of {np.median(mid):.4f}; the middle 90% over all passages and positions run from "
    f"{np.quantile(scales[:, 1:], 0.05):.4f} to {np.quantile(scales[:, 1:], 0.95):.4f}.",
)

# %% tags=["nbval-check-output"]
s05, s95 = (float(np.quantile(scales[:, 1:].numpy(), p)) for p in (0.05, 0.95))
print(f"from its 5% to its 95% quantile the scale grows by a factor of {s95 / s05:.1f}")

# %% [markdown]
"""
(`mini` is no independent witness here: the last part of its training asked for a steady scale, as its card says, because so small a model does not come to one by itself. GPT-2 was not asked.)

Whether that factor may pass for a constant depends on what it multiplies. A score is a product of a query and a key, both rescaled, so the same
relative change weighs more where a score is large. This is the clue to the next question.

## Which heads does it fail for, and why?

Divide each head's error into the three steps, weighting each source by the attention that it gets, and set it beside the size of the head's scores.
"""

# %% tags=["hide-input"]
weighted, sizes = [], []
for p in one_each:
    x = p.tokens[:LENGTH]
    row = cx.attention_rows(weights, x, n)
    own_steps = error_of_each_step(weights, x, n, C)
    own_steps = own_steps - (own_steps * row).sum(-1, keepdim=True)  # what all sources share
    weighted.append((own_steps.abs() * row).sum(-1))
    halves_of_key = cx.content_keys(weights, n, x[: n + 1]), cx.positional_keys(weights, n, C)
    what, where = (
        einops.einsum(weights.queries(x)[:, n], k, "head d_head, head source d_head -> head source")
        for k in halves_of_key
    )
    sizes.append((what**2 + where**2).mean(-1).sqrt() / weights.attn_scale)
weighted, sizes = torch.stack(weighted).mean(0), torch.stack(sizes).mean(0)  # step head, head

figure, ((bars, scatter),) = cx.plots.panels(1, 2, height=3.0)
bottom = np.zeros(weights.n_heads)
for values, name, hatch in zip(
    weighted.numpy(),
    ("A  length at n", "B  orthogonality", "C  typical length"),
    ("", "//", ".."),
    strict=True,
):
    bars.bar(heads, values, bottom=bottom, label=name, hatch=hatch)
    bottom += values
bars.set(
    xlabel="head",
    ylabel="attention-weighted |error|",
    xticks=heads,
    title="What each step costs each head",
)
bars.legend(fontsize=8)
scatter.plot(sizes, median, "o", ms=5)
cx.plots.number_points(scatter, sizes, median)
scatter.set(
    xlabel="size of the head's scores (rms of both parts)",
    ylabel="median TV",
    title="Size of scores and distance",
    ylim=(0, None),
)
agreement = float(np.corrcoef(sizes.numpy(), median.numpy())[0, 1])
cx.plots.picture(
    figure,
    "2.8",
    f"Left: the mean absolute size of each step at n = {n}, weighted by attention (the steps can cancel). Right: the size of a head's scores against its median distance, correlation {agreement:.2f}.",
    "Left, stacked bars: "
    + ", ".join(f"head {h} {b:.3f}" for h, b in zip(heads, bottom, strict=True))
    + f". Right, a scatter of median TV against the size of the scores, correlation {agreement:.2f}.",
)

# %% tags=["nbval-check-output"]
failing = [h for h in heads.tolist() if median[h] > FAILS_AT]
broad = [h for h in heads.tolist() if effective[h] > BROAD]
others = [h for h in heads.tolist() if h not in broad]
step = "ABC"[int(weighted.sum(1).argmax())]
print("heads that the split fails for:", failing or "none")
print(f"the step that costs most over all heads: {step}")
print(f"correlation of a head's median TV with the size of its scores: {agreement:.1f}")
print(f"broad heads {broad}: median TV {median[broad].mean():.2f} on average")
print(
    f"other heads {others}: {median[others].mean():.2f}" if others else "there are no other heads"
)

# %% [markdown]
r"""
Write $c_i = q_n \cdot E[n, x_i] / \sqrt{d_\text{head}}$ and $p_i = q_n \cdot P[n, i] / \sqrt{d_\text{head}}$ for the two parts of a score, and $\ell_i = \lvert W_E[x_i] + W_\text{pos}[i] \rvert$,
$\ell_i^n = \lvert W_E[x_i] + W_\text{pos}[n] \rvert$, $\bar\ell_i = \sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}$ for the three lengths. Then the error of a score is

$$
\delta_i \;=\; c_i \left( 1 - \frac{\ell_i^n}{\ell_i} \right) \;+\; p_i \left( 1 - \frac{\bar\ell_i}{\ell_i} \right),
$$ (eq-error)

a relative error of a length times the part of the score that the length belongs to. The first term is step A, the second B and C together. Trouble needs two things at once: large $c_i$ or $p_i$, and attention on
sources whose lengths the split gets wrong, which are not those next to $n$. A head that is nearly indifferent to both token and place can afford a sloppy length; one that searches the text for a particular token, or that climbs
steeply with position over long distances, cannot. The lines above say where the heads of this model stand.
"""

# %% [markdown]
r"""
## Turn it

Choose a passage, a head, a destination and a $C$. The page computes both rows from the layer's weights. The number on each head is the total variation {eq}`eq-tv` at this destination; on the logarithmic axis the faint sources can be told apart. Move over the rows, or over the text below them, to read single sources.
"""


# %% tags=["hide-input"]
def draw(head, n):
    true = cx.attention_rows(weights, tokens, n)[head]
    rebuilt = cx.rebuilt_rows(weights, tokens, n)[head]
    figure, ((axis,),) = cx.plots.panels(height=2.6, width=7.5)
    back = np.arange(n + 1)[::-1]
    axis.plot(back, true, lw=1.2, label="true")
    axis.plot(back, rebuilt, lw=1.2, ls="--", label="rebuilt")
    axis.set(xlabel="tokens back, n − i", ylabel="attention", title=f"head {head}, n = {n}")
    axis.invert_xaxis()
    axis.legend()
    distance = float(cx.total_variation(true, rebuilt))
    return cx.plots.picture(
        figure,
        "2.9",
        f"True and rebuilt row of head {head} at n = {n}, C = {C:.2f}. Distance {distance:.3f}.",
        f"True and rebuilt row of head {head}; distance {distance:.3f}.",
    )


local = int(effective.argmin())
here = [p.name for p in passages].index(text.name)
cx.widgets.Rows(weights, passage=here, head=local, n=n, picture=draw(local, n))

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. For `mini`, read the first two rows as a check that the algebra does what it says, not as evidence that models obey it: training was told to keep LayerNorm's scale steady. The evidence is in an edition on GPT-2. The paper chose its six heads also for a weak dependence on content, so its heads and the broad heads of this table need not be the same set.
"""

# %% tags=["hide-input", "nbval-check-output"]
level = everywhere[:, broad, 1:].mean((1, 2)) if broad else torch.full((2,), torch.nan)
alike = (level / level[0] > 0.5) & (level / level[0] < 2)
least, most = cx.claims.as_printed("0.15")[0], cx.claims.as_printed("0.175")[1]
cx.claims.ledger(
    model,
    cx.claims.Claim(
        "tv",
        "median TV, middle one of the broad heads",
        float(median[broad].median()) if broad else float("nan"),
        digits=3,
    ),
    cx.claims.Claim(
        "tv",
        "median TV, worst of the broad heads",
        float(median[broad].max()) if broad else float("nan"),
        digits=3,
    ),
    cx.claims.Claim(
        "tv_alike",
        "texts whose mean TV is within a factor of 2 of the first's",
        float(alike.float().mean()) if broad else float("nan"),
    ),
    cx.claims.Claim(
        "orthogonal",
        "mean |cosine| of tokens and positions, over that of random directions",
        float(cosines.abs().mean()) / by_chance,
        digits=1,
    ),
    cx.claims.Claim("typical_norm", "best C over the median token norm", float(2**best)),
    *(
        [
            cx.claims.Claim(
                "norm_scale",
                f"share of LayerNorm's scales from {least:g} to {most:g}, all positions but the first",
                float(((scales[:, 1:] >= least) & (scales[:, 1:] <= most)).float().mean()),
            )
        ]
        if weights.n_heads == 12  # a range of GPT-2 small's own
        else []
    ),
)

# %% [markdown]
r"""
## Exercises

1. Leave the zero out, and approximate the key by
   $\sqrt{d_\text{model}}\,\bigl(W_E[x_i] / \sqrt{\lvert W_E[x_i]\rvert^2 + \lvert W_\text{pos}[n]\rvert^2} + W_\text{pos}[i] / \sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}\bigr)\, W_K$. What is its error at $i = n$?
2. The zero of {eq}`eq-zero` could be any vector. Try the mean of $W_\text{pos}$ over all positions in place of $W_\text{pos}[n]$. For which heads does TV
   grow most?
3. Let $s_i$ be the exact and $\hat s_i$ the rebuilt scores. Show that TV is at most $\tfrac12(e^{2\delta} - 1)$ when no score is wrong by more than $\delta$, up to one constant for the row.

```{admonition} Solutions
:class: dropdown

1. With $\ell = \lvert W_E[x_n] + W_\text{pos}[n] \rvert$, the error is $\sqrt{d_\text{model}}\,\bigl[ W_E[x_n] (1 / \sqrt{\lvert W_E[x_n]\rvert^2 + \lvert W_\text{pos}[n]\rvert^2} - 1/\ell) +
   W_\text{pos}[n] (1 / \sqrt{\lvert W_\text{pos}[n]\rvert^2 + C^2} - 1/\ell) \bigr] W_K$: in general not zero, because it multiplies all of $W_\text{pos}[n]$, where {eq}`eq-split` multiplies the difference
   $W_\text{pos}[i] - W_\text{pos}[n]$.
2. Write both halves out: `m = weights.W_pos.mean(0)`, $E$ from `cx.layer_norm(weights.W_E[x] + m, weights.eps)`, $P$ from `(weights.W_pos[: n + 1] - m) / cx.split.shared_scale(weights, C)[: n + 1, None]`, each times
   `W_K`; leave the query alone. The error at $i = n$ is no longer zero, so expect heads with much attention near $n$ to lose most.
3. Each $e^{\hat s_i}$ lies within a factor $e^{\pm\delta}$ of $e^{s_i}$, and so does the denominator, so $\hat a_i / a_i$ lies between $e^{-2\delta}$ and
   $e^{2\delta}$ and $\lvert \hat a_i - a_i\rvert \le a_i (e^{2\delta} - 1)$. Sum over $i$ and halve. (The best constant is $\tanh(\delta/2)$, half of this for small $\delta$.)
```

## Where this comes from

The decomposition and its first figure are those of {cite:t}`gibson2025decomposing`; the range of LayerNorm's scale is from the earlier post {cite}`gibson2025contextual`, the argument from orthogonality from its appendix.
Writing attention as a circuit of queries and keys read from the residual stream follows {cite:t}`elhage2021framework`.
"""
