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
# How far back does a head look?

**As far as its kernel reaches, and the kernel is read from the weights.** Position alone gives every head a profile over the tokens behind it, whatever those tokens are. In GPT-2 small the profiles have
three shapes: some heads live on the last few tokens, some fade slowly, some weigh the whole text about evenly {cite}`gibson2025decomposing`. Here the reach of every head is measured, and what it depends on:
who asks, from where, and what the tokens of the text put on top.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
DESTINATION = None  # the position n that asks, 24 or more; None: near the end, not at it
TOKEN = " the"  # the token x_n that stands there; it must be a single token of the model

# %% tags=["hide-input", "nbval-check-output"]
from collections import Counter
from itertools import pairwise

import einops
import numpy as np
import pandas as pd
import torch

import ctxlib as cx
from ctxlib.models import DATA

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model, layer=0)
passages = cx.texts.passages(weights)
some = passages[:: max(1, len(passages) // 24)]
LENGTH = min(len(p.tokens) for p in passages)
n = min(weights.n_ctx - 26, LENGTH - 1) if DESTINATION is None else min(DESTINATION, LENGTH - 1)
C, token = weights.typical_norm(), weights.token_id(TOKEN)
heads, back = np.arange(weights.n_heads), np.arange(n + 1)[::-1]
print(
    f"{MODEL}: {weights.n_heads} heads, asked at n = {n} of {weights.n_ctx}, with x_n = {TOKEN!r}"
)
print(f"{len(some)} of {len(passages)} passages, {LENGTH} tokens of each")

# %% [markdown]
r"""
## From a key to a weight

[Chapter 2](02_keys) split the key at a source $i$, as seen from the destination $n$, into one term for the token and one for the place: up to the bias, $\text{key}_i \approx E[n, x_i] + P[n, i]$, equation {eq}`eq-split`. The softmax of an
attention row exponentiates $q_n \cdot \text{key}_i / \sqrt{d_\text{head}}$, with $q_n$ the query at the destination, and the exponential of a sum is a product:

$$
\hat a_{n,i} \;=\; \frac{e^{\,q_n \cdot E[n,\,x_i] / \sqrt{d_\text{head}}} \;\, e^{\,q_n \cdot P[n,\,i] / \sqrt{d_\text{head}}}}
{\sum_{k \le n} e^{\,q_n \cdot E[n,\,x_k] / \sqrt{d_\text{head}}} \;\, e^{\,q_n \cdot P[n,\,k] / \sqrt{d_\text{head}}}}
$$ (eq-kernel-product)

One factor knows only the place. Normalised over the places, it is the **positional kernel** of the head; an earlier post calls it a positional pattern {cite}`gibson2025contextual`:

$$
\begin{aligned}
\text{pos}_{n,i} \;&=\; \mathop{\text{softmax}}_{i \le n} \left( \frac{q_n \cdot P[n,i]}{\sqrt{d_\text{head}}} \right) \;=\; \frac{e^{\,q_n \cdot P[n,\,i] / \sqrt{d_\text{head}}}}{Z_n}, \\
Z_n \;&=\; \sum_{k \le n} e^{\,q_n \cdot P[n,\,k] / \sqrt{d_\text{head}}}
\end{aligned}
$$ (eq-kernel-pos)

The other knows only the token $t$ at the source, and is called its content:

$$
\text{content}_n(t) \;=\; \exp\left( \frac{q_n \cdot E[n,t]}{\sqrt{d_\text{head}}} \right)
$$ (eq-kernel-content)

Divide numerator and denominator of {eq}`eq-kernel-product` by $Z_n$, and the row is

$$
\hat a_{n,i} \;=\; \frac{\text{pos}_{n,i}\;\text{content}_n(x_i)}{\text{denom}_n}, \qquad \text{denom}_n = \sum_{k \le n} \text{pos}_{n,k}\;\text{content}_n(x_k) .
$$ (eq-kernel-row)

It has the form of Bayes' rule. The kernel is a prior over places, held before any token has been looked at; content reweighs it; the denominator, a mean of content under the kernel, makes the sum one. If all tokens had the same content, the row
would be the kernel. That is the sense in which a kernel says how far back a head looks.

A kernel depends on the destination $n$, on the token $x_n$ there (through the query), and on the constant $C$ inside $P$. It does not depend on any other token. In code, for several tokens $x_n$ at once:
"""


# %%
def kernels_for(tokens, n):
    """The kernel of every head at n, for each of these tokens at n: `token head source`."""
    x = cx.layer_norm(weights.W_E[tokens] + weights.W_pos[n], weights.eps)
    q = einops.einsum(x, weights.W_Q, "token d_model, head d_model d_head -> token head d_head")
    P = cx.positional_keys(weights, n, C)  # head source d_head
    scores = einops.einsum(
        q + weights.b_Q, P, "token head d_head, head source d_head -> token head source"
    )
    return (scores / weights.attn_scale).softmax(-1)


kernels = kernels_for(torch.tensor([token]), n)[0]  # head source

text = next(p for p in passages if p.domain == "astronomy")
tokens = text.tokens[: n + 1].clone()
tokens[n] = token
scores = cx.content_scores(weights, n, token, tokens)
content = (scores - scores.amax(-1, keepdim=True)).exp()  # a factor common to all tokens cancels
row = kernels * content
row = row / row.sum(-1, keepdim=True)

# %% tags=["nbval-check-output"]
same = torch.allclose(kernels, cx.positional_kernels(weights, n, TOKEN), atol=1e-6)
print("same as cx.positional_kernels:", same)
rebuilt = cx.rebuilt_rows(weights, tokens, n)
print(
    "kernel times content, normalised, is the rebuilt row:", torch.allclose(row, rebuilt, atol=1e-5)
)

# %% [markdown]
r"""
## Three shapes

What do the kernels look like? Below are all of them, over the distance $n - i$, on logarithmic axes. They are sorted into panels by a rule that looks at nothing but the kernel and is stated further down, under *A name for each head*. The dotted line is an
even row, $1/(n+1)$ everywhere.
"""

# %% tags=["hide-input"]
FLOOR = 1e-6  # smaller weights are not drawn
SHAPES = ("local", "slowly decaying", "uniform", "remote")


def shapes(kernels):
    """What the rule of `cx.families` calls each kernel when it sees nothing else."""
    last = kernels.shape[-1] - 1
    even = torch.full_like(kernels, 1 / (last + 1))
    facts = (
        cx.effective_tokens(kernels),
        cx.split.half_mass(kernels),
        cx.total_variation(kernels, even),
    )
    facts = zip(*(f.tolist() for f in facts), strict=True)
    return np.array([cx.split.family(*f, float("nan"), last)[0] for f in facts])


def draw_kernel(axis, kernel, thin=True, **style):
    """A kernel over the distance n - i, averaged in windows that widen; position 0 is a cross."""
    *near, first = kernel.flip(-1).clamp_min(FLOOR / 10).tolist()
    edges = np.unique(np.geomspace(1, len(near) + 1, 40).round().astype(int)) - 1
    means = np.add.reduceat(near, edges[:-1]) / np.diff(edges)
    (line,) = axis.plot((edges[:-1] + edges[1:] - 1) / 2, means, **style)
    if thin:
        axis.plot(near, lw=0.5, alpha=0.35, color=line.get_color())
    if first > FLOOR:
        axis.plot(len(near), first, "x", ms=4, color=line.get_color(), clip_on=False)


def log_axes(axis, reach):
    """Distance in powers of ten, with room for 0; the weight in powers of ten."""
    axis.set_xscale("symlog", linthresh=1)
    axis.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    axis.set(yscale="log", ylim=(FLOOR, 1.5), xlim=(reach, 0))
    axis.set_xlabel("tokens back, n − i")


def key_to_heads(figure, axis):
    """A legend beside the panels."""
    figure.legend(
        *axis.get_legend_handles_labels(),
        loc="outside right upper",
        title="head",
        fontsize=8,
        title_fontsize=8,
    )


def shape_panels(kernels, named):
    """The kernels of a model, one panel for each shape."""
    shown = [s for s in SHAPES if s != "remote" or s in named]
    figure, (axes,) = cx.plots.panels(1, len(shown), height=3.1, width=8.6, sharey=True)
    for axis, shape in zip(axes, shown, strict=True):
        for head in np.flatnonzero(named == shape):
            draw_kernel(
                axis, kernels[head], lw=1.3, label=f"head {head}", **cx.plots.head_style(head)
            )
        axis.axhline(1 / kernels.shape[-1], color=cx.plots.INK, lw=1, ls=":")
        log_axes(axis, kernels.shape[-1] - 1)
        if shape in named:
            axis.set_title(shape)
            axis.legend(fontsize=7, loc="lower right")
        else:
            axis.set_title(f"{shape}: none here")
    axes[0].set_ylabel("weight in the kernel")
    return figure


def by_shape(named):
    """The heads of each shape, in words."""
    lists = {s: ", ".join(map(str, np.flatnonzero(named == s))) or "none" for s in SHAPES}
    return "; ".join(f"{s}: {found}" for s, found in lists.items())


named = shapes(kernels)
cx.plots.picture(
    shape_panels(kernels, named),
    "3.1",
    f"The positional kernels of all heads at n = {n} with x<sub>n</sub> = '{TOKEN}', over the distance from the destination (at the right). Thin: the kernel; thick: its mean over windows that widen with the distance; cross: position 0. Dotted: an even row.",
    f"One panel per shape with a curve per head. {by_shape(named)}. The weight on the destination itself ranges from {kernels[:, n].min():.4f} to "
    f"{kernels[:, n].max():.2f}; an even row has {1 / (n + 1):.4f} everywhere.",
)

# %% tags=["nbval-check-output"]
print(by_shape(named))

# %% [markdown]
r"""
On these axes a local kernel starts high at the right and has fallen far below the dotted line within some tens of tokens. A slowly decaying one starts only moderately above the line, crosses it somewhere beyond the middle of the panel and goes on falling. A uniform one stays near
the line throughout, and a remote one, if there is any, rises to the left. The cross at the left edge is position 0, where the beginning-of-text token stands: a kernel whose cross lies far above its line rests on it. Where a thin line is ragged, neighbouring positions get unequal weights; nothing in the
definition forbids it.

The post shows each kernel as a square, filled line by line as a page is read {cite}`gibson2025contextual`, and that makes it easy to hold a kernel against real attention. Beside each kernel below lies the true attention row of a passage whose token at $n$ has been replaced by $x_n$, so that both are asked by the same query.
"""

# %% tags=["hide-input"]
side = int((n + 1) ** 0.5)
true = cx.attention_rows(weights, tokens, n)
columns = 4
lines = -(-weights.n_heads // columns)
figure, axes = cx.plots.panels(lines, 2 * columns, height=1.3, width=8.6)
for axis in axes.flat:
    axis.set_visible(False)
for head in heads:
    pair = axes[head // columns, 2 * (head % columns) :]
    for axis, weight, title in zip(pair, (kernels, true), (f"{head}: kernel", "row"), strict=False):
        page = weight[head, -side * side :].reshape(side, side)
        image = axis.imshow(page.clamp_min(1e-5).log10(), cmap=cx.plots.SEQUENTIAL, vmin=-5, vmax=0)
        axis.set_visible(True)
        axis.set_title(title, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(False)
figure.supxlabel(f"{side} tokens to a line; the destination at the bottom right", fontsize=10)
figure.colorbar(image, ax=axes, label="log10 of the weight", shrink=0.9)
apart = cx.total_variation(kernels, true)
cx.plots.picture(
    figure,
    "3.2",
    f"Each head's kernel and its true row in a passage on {text.subject}, the last {side * side} tokens laid out as a page. "
    "Darker is less, and all panels share one scale.",
    f"Two square rasters per head, kernel and true row. Total variation distance between the two whole rows: "
    f"{', '.join(f'head {h} {d:.2f}' for h, d in zip(heads, apart, strict=True))}.",
)

# %% [markdown]
"""
A kernel has no words in it: whatever texture it shows, it shows for every text. The true row is the same picture with the passage printed over it: single tokens stand out because their content is large, others drop out. Where the two
pictures of a head look alike, the head mostly counts; where the row shows a few bright points that the kernel does not have, it searches. How much of a row's weight lies elsewhere than in the kernel is once more a total variation distance (TV, {eq}`eq-tv`), and here is its median
over passages:
"""

# %% tags=["nbval-check-output"]
asked = []
for p in some:
    x = p.tokens[: n + 1].clone()
    x[n] = token
    asked.append(cx.total_variation(cx.attention_rows(weights, x, n), kernels))
by_content = torch.stack(asked).median(0).values  # head
print("TV of kernel and true row:")
for shape in SHAPES:
    if shape in named:
        found = [f"head {h} {by_content[h]:.1f}" for h in np.flatnonzero(named == shape)]
        print(f"  {shape}: {', '.join(found)}")

# %% [markdown]
r"""
## How many tokens is that?

Shapes should be given numbers. The first is the spread that the two chapters before have used already, the **effective tokens**

$$
\text{eff} \;=\; \frac{1}{\sum_{i \le n} \text{pos}_{n,i}^2} .
$$ (eq-kernel-effective)

Why the sum of squares? A kernel that is even over $k$ tokens, with weight $1/k$ on each, has $\sum_i \text{pos}_{n,i}^2 = k / k^2 = 1/k$ and so exactly $k$ effective tokens. But other formulas have that property too. The reason to prefer this one is what it says about averages. Let every
source carry a number, drawn independently with variance $\sigma^2$. The kernel's average of these numbers has variance

$$
\operatorname{Var} \sum_{i \le n} \text{pos}_{n,i}\, c_i \;=\; \sigma^2 \sum_{i \le n} \text{pos}_{n,i}^2 \;=\; \frac{\sigma^2}{\text{eff}} ,
$$ (eq-kernel-variance)

which is that of the plain mean of $\text{eff}$ numbers. The denominator in {eq}`eq-kernel-row` is such an average, with $c_i$ the content of $x_i$. So this number will decide, in the next chapter, whose denominator holds still. Drawn numbers confirm it:
"""

# %% tags=["nbval-check-output"]
spread, half = cx.effective_tokens(kernels), cx.split.half_mass(kernels)
drawn = torch.randn(20_000, n + 1, generator=torch.Generator().manual_seed(0))
averages = einops.einsum(drawn, kernels, "draw source, head source -> draw head")
ratio = averages.var(0) * spread
print(f"variance of the average times effective tokens: {ratio.min():.1f} to {ratio.max():.1f}")

# %% [markdown]
r"""
Effective tokens count, but they do not say *where*: shuffle a kernel and they stay the same. The second number does. **Half of the mass within** $d$ tokens is the smallest $d$ for which $\sum_{i \ge n - d} \text{pos}_{n,i} \ge \tfrac12$, so that $d + 1$ tokens, the destination
included, hold half of the kernel.

The two together betray the shape. Half of an even row over $k$ tokens lies on $k/2$ of them. A kernel that falls exponentially, $\text{pos}_{n,i} \propto e^{-(n-i)/\tau}$ with $\tau$ large and $n$ larger, has $2\tau$ effective tokens and half of its mass on $\tau \ln 2$ of them
(Exercise 1), which makes the ratio $\tfrac12 \ln 2 \approx 0.35$. A kernel with its mass far from the destination lies above both.
"""

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.2, width=8.6)
gathered = kernels.flip(-1).cumsum(-1)
for head in heads:
    left.plot(
        np.arange(1, n + 2), gathered[head], lw=1.2, label=str(head), **cx.plots.head_style(head)
    )
    left.plot(
        half[head] + 1,
        gathered[head, half[head]],
        "o",
        ms=4,
        color=cx.plots.head_style(head)["color"],
    )
    right.plot(spread[head], half[head] + 1, "o", ms=5, color=cx.plots.head_style(head)["color"])
left.axhline(0.5, color=cx.plots.INK, lw=1, ls=":")
left.set(xscale="log", xlabel="tokens, counted from n", ylabel="mass of the kernel", ylim=(0, 1.02))
key_to_heads(figure, left)
cx.plots.number_points(right, spread, half + 1)
ideal = np.array([1.0, n + 1])
right.plot(ideal, ideal / 2, color=cx.plots.INK, lw=1, ls="--", label="even")
right.plot(ideal, ideal * np.log(2) / 2, color=cx.plots.INK, lw=1, ls=":", label="exponential")
right.set(
    xscale="log",
    yscale="log",
    xlabel="effective tokens",
    ylabel="tokens that hold half of the mass",
    ylim=(0.8, n + 1),
)
right.legend(fontsize=8, loc="upper left")
cx.plots.picture(
    figure,
    "3.3",
    "Left: how much of each kernel has been gathered, going back from the destination; the dots mark half. Right: tokens that hold half of the mass against effective tokens, with "
    "what even and exponential kernels would have.",
    "Left, one rising curve per head; right, one point per head: "
    + "; ".join(
        f"head {h}: {e:.0f} effective tokens, half within {d}"
        for h, e, d in zip(heads, spread, half.tolist(), strict=True)
    )
    + ".",
)


# %% tags=["nbval-check-output"]
def to_exponential(kernels):
    """TV of each kernel to the exponential with as many effective tokens: `head`."""
    e = cx.effective_tokens(kernels)[:, None]
    distance = torch.arange(kernels.shape[-1]).flip(0)
    fall = ((e - 1) / (e + 1)) ** distance  # Exercise 1
    return cx.total_variation(kernels, fall / fall.sum(-1, keepdim=True))


def in_words(values, form=".1f"):
    """One number a head."""
    return ", ".join(f"{h}: {v:{form}}" for h, v in enumerate(values.tolist()))


print("TV to an exponential with as many effective tokens, per head:")
print("  " + in_words(to_exponential(kernels)))

# %% [markdown]
r"""
On the left, a curve that has reached the dotted line after few tokens is a short reach, and one that rises only at the right end is a long one. On the right, points on the lower line have the spread and the half that an exponential would have, and the printed distances say how closely the whole kernel follows one: 0 would be an exact
exponential. Points above the upper line keep their mass away from the destination.

## Does it depend on who asks?

Two things were held fixed so far, the asking token and the asking position. Take the token first. The query before the product is a sum as well,

$$
q_n \;=\; \frac{\sqrt{d_\text{model}}}{\lvert W_E[x_n] + W_\text{pos}[n] \rvert} \bigl( W_E[x_n]\, W_Q + W_\text{pos}[n]\, W_Q \bigr) + b_Q ,
$$ (eq-kernel-query)

of what the token asks, what the position asks, and what is always asked (LayerNorm's epsilon is left out). The last two are shared by all tokens, up to one scale. A kernel is independent of who asks to the extent that they outweigh the first. Below are the most frequent tokens of the passages in the place of $x_n$, and tokens spread evenly over the
vocabulary, most of which are rare.
"""

# %% tags=["nbval-check-output"]
bos = model.tokenizer.bos_token_id
counts = Counter(t for p in passages for t in p.tokens[:LENGTH].tolist())
common = [t for t, _ in counts.most_common() if t not in (bos, token)][:24]
print("common:", " ".join(repr(model.tokenizer.decode([t])) for t in common))
spread_out = torch.linspace(1, len(weights.W_E) - 1, 64).long()
common_kernels = kernels_for(torch.tensor(common), n)  # token head source
from_common = cx.total_variation(common_kernels, kernels)  # token head
from_any = cx.total_variation(kernels_for(spread_out, n), kernels)
who = from_common.median(0).values
print(f"median TV to the kernel of {TOKEN!r}, per head:")
print("  common tokens  " + in_words(who))
print("  any tokens     " + in_words(from_any.median(0).values))

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.2, width=8.6)
for values, shift, marker, label in (
    (from_common, -0.14, "o", "common tokens"),
    (from_any, 0.14, "x", "any tokens"),
):
    x = np.broadcast_to(heads + shift, values.shape)
    colour = cx.plots.COLOURS[0 if marker == "o" else 1]
    left.plot(x.ravel(), values.ravel(), marker, ms=3, alpha=0.5, color=colour, label=label)
    medians = values.median(0).values
    left.hlines(medians, heads + shift - 0.13, heads + shift + 0.13, color=cx.plots.INK, lw=2)
left.set(xlabel="head", ylabel=f"TV to the kernel of '{TOKEN}'", xticks=heads, ylim=(0, None))
left.legend(fontsize=8)
most = int(who.argmax())
for kernel in common_kernels[:, most]:
    draw_kernel(right, kernel, thin=False, lw=0.7, alpha=0.6, color=cx.plots.COLOURS[0])
draw_kernel(right, kernels[most], thin=False, lw=2, color=cx.plots.COLOURS[1], label=f"'{TOKEN}'")
log_axes(right, n)
right.set(ylabel="weight in the kernel", title=f"head {most}, common tokens")
right.legend(fontsize=8)
cx.plots.picture(
    figure,
    "3.4",
    f"Left: how far a kernel moves when another token asks; a mark per token, a bar at the median. Right: the head that moves most, its kernel for each of the {len(common)} common tokens, averaged over windows as in Figure 3.1.",
    f"Median distances for common tokens: {', '.join(f'head {h} {v:.2f}' for h, v in enumerate(who))}. Head {most} moves most.",
)

# %% [markdown]
r"""
A distance of 0.1 moves a tenth of the kernel elsewhere. For a broad kernel that is a small change of reach; for a local one it can be as little as one token more or less. In the right panel, two curves that cross once differ in steepness only (both sum to one, so they must cross): the same kind of kernel, with a different reach. The crosses deserve a look of their own: how much a kernel puts on position 0 may depend on who asks even where the rest of it does not.
Whether the differences are large enough to change a kernel's name is counted further down.

## Does it depend on where one asks?

Now the position. A kernel is **shift-equivariant** if it moves along with its destination, so that the weight depends on the distance alone:

$$
\frac{\text{pos}_{n,\,n-d}}{\text{pos}_{n,\,n}} \;=\; \frac{\text{pos}_{m,\,m-d}}{\text{pos}_{m,\,m}} \qquad \text{for all } d \le \min(m, n) .
$$ (eq-kernel-shift)

Nothing in the architecture asks for this. Absolute positions are learned one by one, and a model could treat each as it likes. To measure it, read two kernels over the distances that both have, normalise them there (`cx.split.by_distance`), and take their TV.

A difference can be of two kinds. The profile may *drift*: reach further late in the text than early, say. Or it may *jitter*: change from each destination to the next and back, around a profile that stays. To tell them apart, the profile is also averaged over neighbouring destinations, which takes out most of the jitter and leaves the drift. All of it needs the
kernels of all destinations at once, which are cheap, because position embeddings meet $W_K$ only once:
"""


# %%
def kernel_pattern(asking):
    """The kernel at every destination, asked by the tokens that stand there: `head dest source`."""
    where = einops.einsum(
        weights.W_pos[: len(asking)],
        weights.W_K,
        "source d_model, head d_model d_head -> head source d_head",
    )
    asked = einops.einsum(
        weights.queries(asking), where, "head dest d_head, head source d_head -> head dest source"
    )
    here = asked.diagonal(dim1=1, dim2=2)[..., None]  # q_n . W_pos[n] W_K
    shift = (asked - here) / cx.split.shared_scale(weights, C)[: len(asking)]
    return cx.split.causal_softmax(shift / weights.attn_scale)


everywhere = kernel_pattern(torch.full((weights.n_ctx,), token))  # head dest source
AROUND = 8  # neighbouring destinations on either side


def profile(m, reach, around):
    """The kernel over distance, averaged over the destinations around m: `head distance`."""
    window = range(m - around, min(m + around, weights.n_ctx - 1) + 1)
    return sum(cx.split.by_distance(everywhere[:, k, : k + 1], reach) for k in window) / len(window)


destinations = np.union1d(np.linspace(3 * AROUND, weights.n_ctx - 1, 33).astype(int), [n])
alone, averaged = (
    torch.stack(
        [
            cx.total_variation(*(profile(k, min(m, n) - around, around) for k in (m, n)))
            for m in destinations.tolist()
        ]
    )
    for around in (0, AROUND)
)  # dest head

# %% tags=["nbval-check-output"]
same = torch.allclose(everywhere[:, n, : n + 1], kernels, atol=1e-5)
print("row n of the pattern is the kernel at n:", same)
late = (destinations >= n / 2) & (destinations < n)
shifted, drift = alone[late].mean(0), averaged[late].mean(0)
neighbours = [
    cx.total_variation(profile(m, m, 0), profile(m + 1, m, 0))
    for m in destinations[late].tolist()
    if m + 1 < weights.n_ctx
]
print("mean TV, per head, for destinations from n/2 to n:")
print(f"  to the next destination        {in_words(torch.stack(neighbours).mean(0))}")
print(f"  to n                           {in_words(shifted)}")
print(f"  to n, averaged over neighbours {in_words(drift)}")
print(f"for the last position of the model {in_words(alone[-1])}")

# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, height=3.2, width=8.6, sharey=True)
for axis, values, title in zip(
    axes,
    (alone, averaged),
    ("one destination", f"averaged over {2 * AROUND + 1} destinations"),
    strict=True,
):
    for head in heads:
        axis.plot(
            destinations, values[:, head], lw=1.3, label=str(head), **cx.plots.head_style(head)
        )
    axis.axvline(n, color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="destination (dotted: n)", title=title, ylim=(0, None))
axes[0].set_ylabel("TV to the profile at n")
key_to_heads(figure, axes[0])
cx.plots.picture(
    figure,
    "3.5",
    f"TV between the kernels at each destination and at n = {n}, on the distances that they share. Left: single kernels. Right: the profile averaged over neighbouring destinations.",
    "Mean distance for destinations from n/2 to n, single and averaged: "
    + "; ".join(
        f"head {h} {a:.2f} and {b:.2f}" for h, (a, b) in enumerate(zip(shifted, drift, strict=True))
    )
    + ".",
)

# %% [markdown]
"""
Each curve is zero at n by definition and would be zero everywhere for an equivariant head. What is high on the left and low on the right is jitter: the head has one profile, and each destination a rough copy of it. What stays on the right is drift. Two kinds of drift have causes of their own. A curve that rises only at small destinations has to do with the beginning, and with
position 0 in particular: it stands at another distance from every destination, so a head that rests on it cannot be equivariant. One that jumps at the right end is a matter of the last positions: in training, position i is a source only for the destinations from i on, so the last ones are exercised least.

## A name for each head

What was seen is now put into a rule, so that it can be applied to any model without looking. Its thresholds are constants of `ctxlib.split`, chosen once:
"""

# %% tags=["nbval-check-output"]
rule = cx.split
print(f"local:           fewer than {rule.LOCAL:.0f} effective tokens; otherwise")
print(f"duplicate-token: prefers a copy of x_n by more than {rule.COPIES:.1f} nats; otherwise")
print(f"uniform:         TV to an even row below {rule.EVEN:.2f}; otherwise")
print("remote:          half of the mass beyond n/2 tokens; otherwise")
print("slowly decaying")
print(f"A head is called broad above {rule.BROAD:.0f} effective tokens.")

# %% [markdown]
r"""
The TV to an even row is $\tfrac12 \sum_i \lvert \text{pos}_{n,i} - 1/(n+1) \rvert$. All but one of the tests read the kernel. The exception reads content, on a logarithmic scale (natural logarithms, hence nats): the nats for a copy are

$$
\frac{1}{\lvert T \rvert} \sum_{t \in T} \left( \log \text{content}^{\,t}_n(t) \;-\; \frac{1}{\lvert T \rvert - 1} \sum_{u \in T,\, u \ne t} \log \text{content}^{\,t}_n(u) \right),
$$ (eq-kernel-copy)

where $T$ is a set of tokens spread evenly over the vocabulary and the superscript says that $t$ also stands at the destination and asks. A head with a large value weighs a copy of the asking token many times, $e$ to that power, as much as another token, so its kernel is no guide to where it looks. The first test that a head meets names it.
"""

# %% tags=["nbval-check-output"]
table = cx.families(weights, n, TOKEN)
pd.DataFrame(
    {
        "effective tokens": [f"{v:.0f}" for v in table["effective tokens"]],
        "half of the mass within": [f"{v:.0f}" for v in table["half of the mass within"]],
        "TV to uniform": [f"{v:.2f}" for v in table["TV to uniform"]],
        "nats for a copy": [f"{round(v, 1) + 0.0:.1f}" for v in table["nats for a copy"]],
        "family": table["family"],
        "because": table["because"],
    },
    index=table.index,
)

# %% [markdown]
"""
How firm are the names? Two checks: how near each head comes to a threshold that decides about it, and whether a kernel would be given another name if another token asked.
"""


# %% tags=["hide-input", "nbval-check-output"]
def margin(head):
    """By what factor the closest of the tests that a head met would have to move."""
    tests = (
        table["effective tokens"][head] / rule.LOCAL,
        rule.COPIES / max(table["nats for a copy"][head], 1e-6),
        table["TV to uniform"][head] / rule.EVEN,
        (n / 2) / max(table["half of the mass within"][head], 1e-6),
    )
    met = tests[: next((k for k, t in enumerate(tests) if t < 1), len(tests) - 1) + 1]
    return min(np.exp(abs(np.log(t))) for t in met)


margins = np.array([margin(h) for h in heads])
close = heads[margins < 1.25].tolist()
print("heads within a factor of 1.25 of another name:", close or "none")
kept = np.array([shapes(k) == named for k in common_kernels])  # token head
print(f"kernels of common tokens that keep the shape's name: {kept.mean():.0%}")
for head in heads[~kept.all(0)]:
    print(f"  head {head}: {kept[:, head].sum()} of {len(common)} tokens")

# %% [markdown]
"""
A head in the first line has a name that should not be leaned on. The second line is the published remark that the character of the kernels survives a change of the asking token {cite}`gibson2025contextual`, turned into a count; heads that are listed below it are the exceptions.

## Do real rows keep to it?

A name is a prediction. A local head should have most of its attention on the last few tokens of any text, a duplicate-token head should find copies. Both can be checked on true rows, at every destination of the passages but the first quarter of each. To compare, there is the kernel at each destination, asked by the token that really stands there (`kernel_pattern` above).
"""


# %%
FIRST = LENGTH // 4
REACH = min(64, FIRST)


def on_each_distance(pattern):
    """Mean weight on the distances 0 ... REACH - 1: `head distance`."""
    rows = [pattern.diagonal(-d, 1, 2)[:, FIRST - d :].mean(-1) for d in range(REACH)]
    return torch.stack(rows, dim=1)


ids = {t for p in some for t in p.tokens[:LENGTH].tolist()}
piece = {t: model.tokenizer.decode([t]) for t in ids}


def continues(tokens):
    """True where a token goes on with the word of the token before."""
    pieces = [piece[t] for t in tokens.tolist()]
    inside = [a[-1:].isalpha() and b[:1].isalpha() for a, b in pairwise(pieces)]
    return torch.tensor([False, *inside])


near, near_kernel, before_inside, before_start, copies = [], [], [], [], []
for p in some:
    x = p.tokens[:LENGTH]
    rows, priors = cx.attention_pattern(weights, x), kernel_pattern(x)
    near.append(on_each_distance(rows))
    near_kernel.append(on_each_distance(priors))
    begins = torch.tensor([piece[t][:1] == " " and piece[t][1:2].isalpha() for t in x.tolist()])
    previous = rows.diagonal(-1, 1, 2)  # head dest - 1
    before_inside.append(previous[:, FIRST - 1 :][:, continues(x)[FIRST:]])
    before_start.append(previous[:, FIRST - 1 :][:, begins[FIRST:]])
    earlier = (x[:, None] == x[None, :]).tril(-1)
    asks = earlier.any(-1) & (torch.arange(LENGTH) >= FIRST)
    found = [(a * earlier).sum(-1)[:, asks] for a in (rows, priors)]
    copies.append(torch.stack([*found, rows.diagonal(0, 1, 2)[:, asks]]))  # kind head dest

near, near_kernel = torch.stack(near).mean(0), torch.stack(near_kernel).mean(0)
before_inside, before_start = (torch.cat(b, -1).mean(-1) for b in (before_inside, before_start))
on_copies, by_kernel, on_itself = torch.cat(copies, -1).mean(-1)  # head each

# %% [markdown]
"""
### Local heads, and words in pieces
"""

# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, height=3.1, width=8.6, sharey=True)
for axis, values, title in zip(
    axes, (near, near_kernel), ("true rows", "kernels of the same destinations"), strict=True
):
    for head in heads:
        share = values[head].cumsum(-1)
        axis.plot(
            np.arange(1, REACH + 1), share, lw=1.3, label=str(head), **cx.plots.head_style(head)
        )
    axis.set(xscale="log", xlabel="the last k tokens, k", title=title, ylim=(0, 1.02))
    axis.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    axis.set_xlim(0.95, REACH)
    axis.minorticks_off()
axes[0].set_ylabel("share of the attention")
key_to_heads(figure, axes[0])
last = min(8, REACH)
share_near, share_prior = near[:, :last].sum(-1), near_kernel[:, :last].sum(-1)
cx.plots.picture(
    figure,
    "3.6",
    f"Attention on the last k tokens, the destination included, averaged over {len(some)} passages and their destinations from {FIRST} on: what the heads do (left) and what their kernels "
    "alone would do (right).",
    f"Share on the last {last} tokens, true rows against kernels: "
    + "; ".join(
        f"head {h} {a:.2f} against {b:.2f}"
        for h, (a, b) in enumerate(zip(share_near, share_prior, strict=True))
    )
    + ".",
)

# %% [markdown]
"""
If kernels decided alone, the two panels would be the same. A curve that lies higher on the left belongs to a head that finds more among the nearest tokens than their nearness explains (the destination itself is always one of them).

Local heads in GPT-2 small are thought to put words together that the tokeniser has cut, and so to have kernels that are the same everywhere, since a word means the same wherever it stands {cite}`gibson2025contextual`. Two things to look for, then: small numbers in the last two columns of the table, and more attention on the token before when it
belongs to the same word than when a new word has just begun.
"""

# %% tags=["nbval-check-output"]
pd.DataFrame(
    {
        "family": table["family"],
        f"on the last {last} tokens": [f"{v:.1f}" for v in share_near],
        "kernel alone": [f"{v:.1f}" for v in share_prior],
        "on the token before, inside a word": [f"{v:.2f}" for v in before_inside],
        "on the token before, at a word's beginning": [f"{v:.2f}" for v in before_start],
        "shift, n/2 to n": [f"{v:.1f}" for v in shifted],
        "averaged": [f"{v:.1f}" for v in drift],
    },
    index=table.index,
)

# %% [markdown]
"""
Here is one row in the middle of a word, of the head with the fewest effective tokens, whether or not the rule calls it local. The last token is the destination; hover over a token for its weight.
"""

# %% tags=["hide-input"]
narrow = int(spread.argmin())
english = [p for p in some if p.dialect.startswith("en")] or list(some)


def inside_a_word(least):
    """A text and a place in its second half where at least so many tokens of a word have gone by."""
    for p in english:
        goes_on = continues(p.tokens[:LENGTH])
        for m in range(LENGTH // 2, LENGTH):
            if goes_on[m - least + 1 : m + 1].all():
                return p, m
    return None


chosen, m = inside_a_word(3) or inside_a_word(2) or inside_a_word(1) or (english[0], n)
begin = max(0, m - 40)
shown = cx.attention_rows(weights, chosen.tokens[:LENGTH], m)[narrow]
pieces = [model.tokenizer.decode([t]) for t in chosen.tokens[begin : m + 1].tolist()]
cx.plots.ShadedText(
    pieces,
    shown[begin:],
    f"Head {narrow} ({table['family'][narrow]}) at position {m} of a passage on {chosen.subject}; {shown[begin:].sum():.0%} of its attention is on the tokens shown.",
)

# %% [markdown]
"""
### Duplicate-token heads, and what a kernel cannot know

The second prediction is about content. At each destination whose token has occurred before, add up the attention on the earlier copies, and set it beside what the kernel puts on the same places.
"""

# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(height=2.9, width=7.5)
axis.bar(heads - 0.2, on_copies, width=0.38, label="true rows")
axis.bar(heads + 0.2, by_kernel, width=0.38, label="kernel alone", color=cx.plots.COLOURS[7])
for head in heads:
    axis.annotate(
        f"×{on_copies[head] / by_kernel[head]:.1f}",
        (head, max(on_copies[head], by_kernel[head])),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=8,
    )
axis.set(xlabel="head", ylabel="attention on earlier copies", xticks=heads)
axis.legend(fontsize=8)
cx.plots.picture(
    figure,
    "3.7",
    f"Attention on earlier copies of the destination's token, over all destinations from {FIRST} on that have one, in {len(some)} passages. Above the bars: true rows over kernel.",
    "True rows against kernels: "
    + "; ".join(
        f"head {h} {a:.2f} against {b:.2f}"
        for h, (a, b) in enumerate(zip(on_copies, by_kernel, strict=True))
    )
    + ".",
)

# %% tags=["nbval-check-output"]
finds = (table["family"] == "duplicate-token").to_numpy()
print("duplicate-token heads by the rule:", heads[finds].tolist() or "none in this model")
print("attention on earlier copies over the kernel's, per head:")
print("  " + in_words(on_copies / by_kernel))
gain = on_copies - by_kernel
print(f"largest gain over the kernel: head {int(gain.argmax())}, {gain.max():.1f} of its attention")

# %% [markdown]
r"""
A factor of one is a head that pays no heed to copies. But tokens that are repeated are mostly frequent ones, so a head that turns away from frequent words has a factor below one, and one that seeks them a factor above one, without any taste for copies; only {eq}`eq-kernel-copy` separates the two. For the head with the largest gain, one row: the destination is the last token, and its earlier copies are somewhere in
the text.
"""


# %% tags=["hide-input"]
def a_repeated_word(window=90):
    """The first word in the second half of a text that has occurred twice in the window before."""
    for p in english:
        x = p.tokens[:LENGTH]
        for m in range(LENGTH // 2, LENGTH):
            word = piece[int(x[m])]
            if word[:1] == " " and len(word) > 4 and word[1:].isalpha():
                begin = max(0, m - window)
                if (x[begin:m] == x[m]).sum() >= 2:
                    return p, m, begin
    return english[0], n, max(0, n - window)


chosen, m, begin = a_repeated_word()
finder = int(gain.argmax())
x = chosen.tokens[:LENGTH]
shown = cx.attention_rows(weights, x, m)[finder]
pieces = [model.tokenizer.decode([t]) for t in x[begin : m + 1].tolist()]
copy_share = float(shown[:m][x[:m] == x[m]].sum())
cx.plots.ShadedText(
    pieces,
    shown[begin:],
    f"Head {finder} ({table['family'][finder]}) at position {m}: '{piece[int(x[m])]}', which has occurred {int((x[:m] == x[m]).sum())} times before. The earlier copies get "
    f"{copy_share:.2f} of the attention, the destination itself {shown[m]:.2f}.",
    cx.plots.COLOURS[1],
)

# %% [markdown]
r"""
## The kernels of GPT-2 small

The published shapes are those of GPT-2 small {cite}`radford2019language`. Its kernels at $n = 500$ are stored with this book, so they can be drawn without the model. They were computed from the position embeddings and the attention weights of its first layer alone. For want of token embeddings, the query is read from the position: in place of
$\text{LN}(W_E[x_n] + W_\text{pos}[n])$ stands $\sqrt{d_\text{model}}\, W_\text{pos}[n] / \sqrt{\lvert W_\text{pos}[n] \rvert^2 + C^2}$, as if the token were a vector of length $C$ at right angles to everything, with $C$ the typical norm of a token embedding.
"""

# %% tags=["nbval-check-output"]
with np.load(DATA / "gpt2-kernels.npz", allow_pickle=False) as stored:
    gpt2 = torch.from_numpy(stored["kernels"].astype(np.float32))  # head source
    print(stored["source"])
gpt2 = gpt2 / gpt2.sum(-1, keepdim=True)  # they are stored in half precision
PUBLISHED = {  # Gibson 2025b
    "slowly decaying": (0, 2, 6, 8, 9, 10),
    "local": (3, 4, 7),
    "duplicate-token": (1, 5),
    "other": (11,),
}
group = {h: name for name, members in PUBLISHED.items() for h in members}
without = cx.total_variation(cx.positional_kernels(weights, n, token=None), kernels)
print(f"for comparison, {MODEL}: TV of the kernel without a token and that of {TOKEN!r}, per head:")
print("  " + in_words(without))

# %% tags=["hide-input"]
gpt2_named = shapes(gpt2)
gpt2_spread, gpt2_half = cx.effective_tokens(gpt2), cx.split.half_mass(gpt2)
cx.plots.picture(
    shape_panels(gpt2, gpt2_named),
    "3.8",
    f"The kernels of GPT-2 small's first layer at n = {gpt2.shape[-1] - 1}, by the shape that the rule gives them; drawn as in Figure 3.1.",
    f"One panel per shape with a curve per head. {by_shape(gpt2_named)}. Effective tokens: "
    f"{', '.join(f'head {h} {v:.0f}' for h, v in enumerate(gpt2_spread))}.",
)

# %% tags=["nbval-check-output"]
beyond = gpt2[:, 1:] / gpt2[:, 1:].sum(-1, keepdim=True)
pd.DataFrame(
    {
        "effective tokens": [f"{v:.0f}" for v in gpt2_spread],
        "half of the mass within": gpt2_half.tolist(),
        "TV to an exponential": [f"{v:.2f}" for v in to_exponential(gpt2)],
        "on position 0": [f"{v:.2f}" for v in gpt2[:, 0]],
        "effective tokens without it": [f"{v:.0f}" for v in cx.effective_tokens(beyond)],
        "family by the rule": gpt2_named,
        "published group": [group[h] for h in range(len(gpt2))],
    },
    index=pd.Index(range(len(gpt2)), name="head"),
)

# %% [markdown]
r"""
Set the curves beside those of Figure 3.1 and compare how smooth they are. The slowly decaying ones are flat for the first few tokens and then bend down, as an exponential does on these axes, but they do not fall for good: far out, below the dotted line, they rise once more before they end. There is little weight on each token there, but there are many tokens:
"""

# %% tags=["nbval-check-output"]
six, three = list(PUBLISHED["slowly decaying"]), list(PUBLISHED["local"])
FAR = 200
e = gpt2_spread[six]
expected = ((e - 1) / (e + 1)) ** FAR
print(f"mass beyond {FAR} tokens, mean over the six: {gpt2[six, : -FAR - 1].sum(-1).mean():.2f}")
print(f"in exponentials with as many effective tokens: {expected.mean():.2f}")

# %% [markdown]
r"""
So a plain exponential describes the near part of these kernels and misses part of the far one. (With a real token in the query the far part may come out otherwise; without token embeddings that cannot be told here.) The last two columns of the table agree wherever the published group is a matter of position. They need not where it is not: the post named the duplicate-token heads after what they do with tokens, and a kernel knows no tokens, so the rule can only say over what range they search. The post describes one of the two as finding copies nearly evenly over the text and
the other as finding nearby ones only; compare the shapes that their kernels have.

The columns on position 0 hold a warning about effective tokens. A head may be almost even over the text and yet put a noticeable share $\beta$ on the first token alone. Then $\sum_i \text{pos}_{n,i}^2$ is at least $\beta^2$, and there are never more than $1/\beta^2$ effective tokens, however long the text (Exercise 2).

## What breaks it

A kernel is half of a head, for one query and one constant. In order of how far it misleads:

- **Content.** A kernel says nothing about tokens. A duplicate-token head has a perfectly good kernel and does not follow it; Figures 3.2 and 3.7 show by how much the others leave theirs.
- **The first token.** BOS stands at position 0 of every text, so its content is always there at the same place. A kernel that rests on position 0 has its effective tokens, its half of the mass and its equivariance decided by that one weight.
- **The constant.** $C$ scales the scores of all kernels: a smaller one makes each steeper, a larger one flatter.
- **The last positions.** Few destinations can look back on them, so training has exercised their keys least. This chapter stays away from them unless `DESTINATION` says otherwise.
- **The split itself.** For heads where it fails ([chapter 2](02_keys)), a row is not close to {eq}`eq-kernel-row`, and the kernel describes a head that does not exist.
"""

# %% tags=["hide-input", "nbval-check-output"]
end = cx.positional_kernels(weights, weights.n_ctx - 1, TOKEN)
pd.DataFrame(
    {
        "on position 0": [f"{v:.2f}" for v in kernels[:, 0]],
        "effective tokens": [f"{v:.0f}" for v in spread],
    }
    | {
        f"at {name}": [
            f"{v:.0f}"
            for v in cx.effective_tokens(cx.positional_kernels(weights, n, TOKEN, factor * C))
        ]
        for name, factor in (("C / 2", 0.5), ("2 C", 2.0))
    }
    | {"at the last position": [f"{v:.0f}" for v in cx.effective_tokens(end)]},
    index=table.index,
)

# %% [markdown]
"""
## Turn it

Choose heads, a destination and the token that asks, and read every kernel at any distance: move over the picture, or put the focus on it and use the arrow keys. The kernels are computed here, in the page, from the weights. On logarithmic axes short distances have room; on linear ones areas can be compared, and a local head dwarfs the others.
"""

# %% tags=["hide-input"]
askers = {repr(model.tokenizer.decode([t])): t for t in (token, *common)}


def draw(head, n, token):
    kernel = kernels_for(torch.tensor([askers[token]]), n)[0, head]
    reference = kernels_for(torch.tensor([askers[repr(TOKEN)]]), n)[0, head]
    figure, ((axis,),) = cx.plots.panels(height=3.0, width=7.5)
    draw_kernel(axis, kernel, lw=1.8, label=token)
    draw_kernel(axis, reference, thin=False, lw=1.0, ls="--", color=cx.plots.INK, label=repr(TOKEN))
    axis.axhline(1 / (n + 1), color=cx.plots.INK, lw=1, ls=":")
    log_axes(axis, n)
    axis.set(ylabel="weight in the kernel", title=f"head {head}, n = {n}")
    axis.legend(loc="upper left")
    facts = (
        f"{cx.effective_tokens(kernel):.0f} effective tokens, half of the mass within {cx.split.half_mass(kernel)}; "
        f"TV {cx.total_variation(kernel, reference):.2f} to the kernel of {TOKEN!r}"
    )
    return cx.plots.picture(
        figure,
        "3.9",
        f"{facts}. Dashed: {TOKEN!r}; dotted: an even row.",
        f"Kernel of head {head} at {n}, asked by {token}: {facts}.",
    )


cx.widgets.Kernels(weights, n=n, picture=draw(most, n, list(askers)[1]))

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run; the rows on GPT-2 small from its stored kernels, whatever the model of the edition. Where the source speaks in words, such as *slightly* or *mostly*, the bound in the fourth column is this book's reading of them.
"""


# %% tags=["hide-input", "nbval-check-output"]
broad = spread.numpy() > rule.BROAD
local = named == "local"
slow_six = sum(gpt2_named[h] == "slowly decaying" for h in six)
local_three = {h for h in range(len(gpt2)) if gpt2_named[h] == "local"}


def apart(kind):
    """How many heads are of a kind by the rule or by the source, not by both."""
    by_rule = cx.families(weights, min(500, n), TOKEN)["family"]  # at the paper's destination
    return float(len(set(np.flatnonzero(by_rule == kind)) ^ set(PUBLISHED[kind])))


cx.claims.ledger(
    model,
    cx.claims.Claim(
        "kernel_shapes",
        "shapes found among slowly decaying, local and uniform",
        float(sum((named == shape).any() for shape in ("slowly decaying", "local", "uniform"))),
        digits=0,
    ),
    cx.claims.Claim(
        "kernel_of_other_tokens",
        "TV between kernels of common tokens, median over broad heads",
        cx.claims.over(who, broad, np.median),
    ),
    cx.claims.Claim(
        "kernel_character",
        "share of kernels that keep their shape's name for other tokens",
        float(kept.mean()),
    ),
    cx.claims.Claim(
        "translation_invariant",
        "TV of local kernels over destinations n/2 to n, worst head",
        cx.claims.over(shifted, local, np.max),
    ),
    cx.claims.Claim(
        "duplicates_only",
        "duplicate-token heads: attention on copies, x_n itself included",
        cx.claims.over(on_copies + on_itself, finds, np.min),
    ),
    cx.claims.Claim(
        "six_decay_slowly",
        "GPT-2 small: heads of the six whose kernel decays slowly",
        float(slow_six),
        digits=0,
        on_gpt2=True,
    ),
    cx.claims.Claim(
        "local_heads",
        "GPT-2 small: heads that are local by the rule or by the source, not by both",
        float(len(local_three ^ set(three))),
        digits=0,
        on_gpt2=True,
    ),
    cx.claims.Claim(
        "spread_broadly",
        "GPT-2 small: effective tokens of the six, fewest",
        float(gpt2_spread[six].min()),
        digits=0,
        on_gpt2=True,
    ),
    cx.claims.Claim(
        "exponential",
        "GPT-2 small: TV of the six to an exponential, worst",
        float(to_exponential(gpt2)[six].max()),
        on_gpt2=True,
    ),
    cx.claims.Claim(
        "local_reach",
        "GPT-2 small: local kernels' mass within 7 tokens, least",
        float(gpt2[three, -8:].sum(-1).min()),
        on_gpt2=True,
    ),
    *(
        [
            cx.claims.Claim(
                "contextual_heads",
                "heads that decay slowly by the rule or by the source, not by both",
                apart("slowly decaying"),
                digits=0,
            ),
            cx.claims.Claim(
                "duplicate_heads",
                "duplicate-token heads by the rule or by the source, not by both",
                apart("duplicate-token"),
                digits=0,
            ),
        ]
        if weights.n_heads == len(gpt2)  # the source names heads of GPT-2 small
        else []
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
single, smooth = (cx.claims.over(v, local, np.max) for v in (shifted, drift))
cx.claims.finding(
    f"No kernel is local: the narrowest head covers {float(spread.min()):.0f} effective tokens.",
    holds=not local.any(),
    otherwise=f"local heads: {np.flatnonzero(local).tolist()}; averaged over neighbouring destinations, local kernels move by TV {smooth:.2f} in the worst head, and by {single:.2f} without the average",
)

# %% [markdown]
r"""
## Exercises

1. Let $\text{pos}_{n,\,n-d} \propto r^d$ with $0 < r < 1$, and let $n$ be so large that $r^n$ can be neglected. Show that there are $(1 + r)/(1 - r)$ effective tokens, and find how many tokens hold half of the mass. What is the ratio of the two as $r \to 1$?
2. A kernel puts $\beta$ on position 0 and is even over the other $n$ positions. Find its effective tokens, its TV to an even row, and within how many tokens half of its mass lies. Evaluate them for $\beta = 0.2$ and $n = 500$. What does the rule call such a head?
3. Let $\text{pos}$ and $\text{pos}'$ be a head's kernels at $n$ for two asking tokens with queries $q_n$ and $q_n'$. Show that $\log(\text{pos}_i / \text{pos}'_i)$ is $\Delta_i = (q_n - q_n') \cdot P[n, i] / \sqrt{d_\text{head}}$ up to a constant, and that $b_Q$ has no part in $\Delta$. Show further that TV is at
   most $\tanh(\delta / 2)$ when the $\Delta_i$ span an interval of length $2\delta$. Compute the bound for some heads of Figure 3.4: where is it far above what was measured, and why?

```{admonition} Solutions
:class: dropdown

1. The weights are $(1 - r)\, r^d$. $\sum_d (1-r)^2 r^{2d} = (1-r)^2 / (1 - r^2) = (1 - r)/(1 + r)$, and the effective tokens are the inverse. The first $m$ tokens hold $1 - r^m$, which is at least $\tfrac12$ from $m = \ln 2 / \ln(1/r)$ on, rounded up. With $r = e^{-1/\tau}$ there are
   $\coth(1/(2\tau)) \approx 2\tau$ effective tokens and $m \approx \tau \ln 2$, so the ratio tends to $\tfrac12 \ln 2 \approx 0.35$. (Solving the first formula for $r$ gives $r = (\text{eff} - 1)/(\text{eff} + 1)$, the line in `to_exponential`.)
2. $\sum_i \text{pos}_i^2 = \beta^2 + (1 - \beta)^2 / n$, so $1 / (\beta^2 + (1-\beta)^2/n)$ effective tokens, fewer than $1/\beta^2$. For $\beta \ge 1/(n+1)$ only position 0 has more than its even share, and TV is that excess, $\beta - 1/(n+1)$. If $\beta \le \tfrac12$, half of the mass is
   reached with the first $m$ tokens back for which $m (1 - \beta)/n \ge \tfrac12$, hence within $d = m - 1$, $m = \lceil n / (2(1-\beta)) \rceil$. For $\beta = 0.2$, $n = 500$: 24 effective tokens, TV 0.20, half within 312. The rule calls it uniform: it is not local, although its effective tokens are
   few, and without a preference for copies the TV decides. In the table of GPT-2 small it is not hard to find a head much like it.
3. Each $\log \text{pos}_i$ is the score minus $\log Z_n$, so the difference is $\Delta_i + \log(Z_n'/Z_n)$, and $b_Q$ is the same in both queries. Let $A$ be the positions where $\text{pos} > \text{pos}'$; TV is $p - p'$ with $p, p'$ the masses of $A$. On $A$ the ratio is at most $e^a$, outside at least $e^{-b}$, with $a, b \ge 0$ and $a + b \le 2\delta$. So
   $p \le e^a p'$ and $1 - p \ge e^{-b}(1 - p')$. The largest $p - p'$ under both has equality in both, and is $(e^a - 1)(1 - e^{-b}) / (e^a - e^{-b}) = 2 \sinh\tfrac a2 \sinh\tfrac b2 / \sinh\tfrac{a+b}2 = (\cosh\tfrac{a+b}2 - \cosh\tfrac{a-b}2)/\sinh\tfrac{a+b}2$. For a given sum it is largest at $a = b$, and it grows with the sum, so $a = b = \delta$ is the worst:
   $(\cosh\delta - 1)/\sinh\delta = \tanh(\delta/2)$. The bound counts the extremes of $\Delta$ wherever they occur; it is loose where they occur at distances to which the kernel gives no weight, as in local heads.
```

## Where this comes from

The kernel, under the name of positional pattern, its display as a square, the behavioural groups of the heads of GPT-2 small and the remarks on the asking token and on translation invariance are from {cite:t}`gibson2025contextual`; the split on which the kernel rests and the three types of Figure 3.1 from {cite:t}`gibson2025decomposing`.
Attention as a product of queries and keys read from the residual stream follows {cite:t}`elhage2021framework`. The rule, its thresholds and the measurements are this book's.
"""
