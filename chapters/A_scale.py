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
# Where does Equation 1 err?

**In the four heads that say least most of the error is the token that begins every text. In those that speak it is not: there a constant from the wrong tokens, tokens that differ in length, their angle with the place, and the half for the token all have a part.**
Weighted by variance share, Equation 1 misplaces 0.038 of the attention; with BOS by its own key and the constant C from texts it is 0.0117 less [0.0107, 0.0125].
Even with each source's true length in the positional half a part is left.
The C of texts is better at this origin, and worse at one where it gives the wrong length.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 200  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the token at the destination

# %% tags=["hide-input"]
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx
from ctxlib.weights import layer_norm_scale

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, range(model.cfg.n_heads))
heads, n = study.heads, study.n
X = study.fixed.prepare(study.texts)  # text source: TOKEN stands at n

# %% [markdown]
r"""
[Chapter 2](02_keys) split a key into what and where (Equation 1, {eq}`eq-split`) and left open why tokens and positions are not orthogonal in this model, why the best $C$ is not the typical length, what error remains when BOS is read by its own key, and what the zero in {eq}`eq-zero` is for. All are about one number, LayerNorm's scale. ([Appendix E](E_training) changes that number by training.) The error of rows is the total variation {eq}`eq-tv`, the median over texts; intervals redraw documents; *who speaks* is each head's share of what differs between texts at the neurons ([chapter 1](01_first_layer)).

## The scale over a text

What LayerNorm divides by at source $i$ is $\ell_i / \sqrt{d_\text{model}}$, with $\ell_i = \lvert W_E[x_i] + W_\text{pos}[i]\rvert$. Equation 1 puts $\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}$ in the place of $\ell_i$ wherever it speaks of positions. $C$ stands for a typical token. Typical of what, of the vocabulary or of texts?
"""

# %%
W_E, W_pos = weights.W_E, weights.W_pos
used = X[:, 1:n]  # what stands in texts, BOS and the last token apart
C = float(W_E.norm(dim=-1).median())  # typical of the vocabulary: the paper's, as read here
C_texts = float(W_E[used].norm(dim=-1).median())  # typical of texts

long = torch.stack([t.tokens[: study.length] for t in study.texts])
length = torch.stack([(W_E[t] + W_pos[: study.length]).norm(dim=-1) for t in long])  # text pos


def in_P(C):
    """The length that Equation 1 puts in the place of the true one: of every position."""
    return (W_pos[: study.length].square().sum(-1) + C**2).sqrt()


# %% tags=["hide-input"]
low, mid, high = (np.quantile(length, p, axis=0) for p in (0.05, 0.5, 0.95))
figure, ((axis,),) = cb.figures.panels(height=2.8, width=7.5)
i = np.arange(study.length)
axis.fill_between(i, low, high, alpha=0.25, label="true, middle 90% of texts")
axis.plot(i, mid, lw=0.8, label="true, median")
axis.plot(i, in_P(C), "C1--", label="in P, C of the vocabulary")
axis.plot(i, in_P(C_texts), "C2-.", label="in P, C of texts")
axis.set(xlabel="position i", ylabel="length", ylim=(0, None))
axis.legend(fontsize=8, ncols=2)
cb.figures.picture(
    figure,
    "A.1",
    f"The length that LayerNorm divides by in {len(long)} texts, and what Equation 1 puts in its place.",
    f"The true length has a median of {np.median(mid[1:]):.2f} over positions, {mid[0]:.2f} at position 0. In P it is {in_P(C)[1:].median():.2f} with C of the vocabulary, {in_P(C_texts)[1:].median():.2f} with C of texts.",
)

# %% tags=["hide-input", "nbval-check-output"]
too_long, about_right = (float((length / in_P(c))[:, 1:].median()) for c in (C, C_texts))
cb.finding(
    f"Over positions 1 to {study.length - 1} the true length in texts is {too_long:.2f} of what Equation 1 puts in its place, by the median, and {about_right:.2f} with C from texts: their tokens have a median length of {C_texts:.2f}, the vocabulary's {C:.2f}.",
    holds=too_long < 0.95 and abs(about_right - 1) < 0.05 and C_texts < 0.9 * C,
)

# %% [markdown]
r"""
A text is made of frequent tokens, which have the shorter embeddings. So the positional half of Equation 1 is divided by too much, and positions count for too little.

Does the scale hold still, as the earlier post assumes to begin with {cite}`gibson2025contextual`? Along the text it nearly does, after position 0. At position 0 it does not:
"""

# %%
ask = cx.decompose.qk_direction_at(
    weights, X[:, n], n
)  # text head d_model: what the query asks for
total = ask @ (W_E[X] + W_pos[: n + 1]).mT  # the score before any length
true_scale = layer_norm_scale(W_E[X] + W_pos[: n + 1], weights.eps)[..., 0]
exact = total / true_scale[:, None]
true = exact.softmax(-1)  # text head source


def distances(scores, own=False):
    """TV of every text and head; with `own`, BOS is read by its own key."""
    if own:
        scores = torch.cat([exact[..., :1], scores[..., 1:]], -1)
    return cx.total_variation(true, scores.softmax(-1))


def distance(scores, own=False):
    """Median TV of every head."""
    return distances(scores, own).median(0).values


weight = study.head_variance_share.to_numpy()


def spoken(tv):
    """Of every head, weighted by variance share."""
    return float(np.asarray(tv) @ weight)


def fewer(one, other):
    """How much less `one` misplaces, both of the same texts: documents drawn again."""
    saved = lambda drawn: spoken(other[drawn].median(0).values - one[drawn].median(0).values)
    return cb.with_interval(saved, study.texts)


constant = total / true_scale[:, 1:].mean()
at_once, with_bos = distance(constant), distance(constant, own=True)

# %% tags=["hide-input", "nbval-check-output"]
loud = sorted(study.head_variance_share.nlargest(2).index)


def least(values, chosen):
    return cb.over(values, chosen, min)


def most(values, chosen):
    return cb.over(values, chosen, max)


def shares(values, chosen):
    """From least to most, as a sentence has them."""
    low, high = (f"{end(values, chosen):.0%}" for end in (least, most))
    return low if low == high else f"{low} to {high}"


by_scale = 1 - with_bos / at_once  # head
mended = [h for h in heads if by_scale[h] > 0.5]
cb.finding(
    f"Of the error of one constant BOS makes {shares(by_scale, mended)} in heads {cb.listed(mended)}, and {shares(by_scale, loud)} in {cb.listed(loud)}, which say most: weighted by variance share it misplaces {spoken(at_once):.3f} of the attention, and {spoken(with_bos):.3f} where BOS keeps its own scale.",
    holds=bool(mended and most(by_scale, loud) < 0.1)  # set later, as the next line
    and spoken(at_once) / 2 < spoken(with_bos) < spoken(at_once),
)

# %% [markdown]
r"""
## The series

The post refines the constant by a Taylor expansion around a mean over tokens. Let $\ell_{\cdot i}^2$ be the mean of $\ell_i^2$ over the tokens of texts at position $i$, and $\varepsilon_i = \ell_i^2 / \ell_{\cdot i}^2 - 1$ how far a token deviates from it. Then

$$
\frac{1}{\ell_i} \;=\; \frac{1}{\ell_{\cdot i}}\,(1 + \varepsilon_i)^{-1/2}
\;=\; \frac{1}{\ell_{\cdot i}} \Bigl( 1 - \tfrac12\,\varepsilon_i + \tfrac38\,\varepsilon_i^2 - \tfrac5{16}\,\varepsilon_i^3 + \dots \Bigr) .
$$ (eq-scale-series)

Order 0 knows the position alone. Each further order knows more of the token.
"""

# %%
mean_square = true_scale.square().mean(0)  # source
deviation = true_scale.square() / mean_square - 1  # text source
series, orders = 0, []
for power, factor in enumerate((1, -1 / 2, 3 / 8, -5 / 16)):
    series = series + factor * deviation**power
    orders.append(distance(total * (series / mean_square.sqrt())[:, None]))

published = cx.decompose.approx_scores(weights, X, n)  # Equation 1
split = {own: distance(published, own) for own in (False, True)}

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=2.7, width=7.5)
for head in heads:
    line = [o[head] for o in orders]
    axis.plot(range(len(orders)), line, label=f"head {head}", **cb.figures.head_style(head))
    axis.plot([-0.8], split[True][head], "o", ms=4, color=cb.figures.head_style(head)["color"])
axis.set(yscale="log", ylabel="median TV", xticks=[-0.8, 0, 1, 2, 3])
axis.set_xticklabels(["Eq. 1,\nBOS by its\nown key", "order 0", "1", "2", "3"])
axis.legend(ncols=2, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
by_order = ", ".join(f"order {k} {spoken(o):.4f}" for k, o in enumerate(orders))
cb.figures.picture(
    figure,
    "A.2",
    "Distance to the true rows when the series is cut off at each order; at the left, Equation 1 with BOS by its own key.",
    f"One falling line a head on a logarithmic axis; weighted by variance share: {by_order}; Equation 1 with BOS by its own key {spoken(split[True]):.4f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
wide = np.ceil(100 * float(deviation[:, 1:].abs().flatten().quantile(0.95))) / 100
diverges = float((deviation[:, 1:] > 1).double().mean())
zero, one, two = map(spoken, orders[:3])
beats = {own: [h for h in heads if tv[h] < orders[0][h]] for own, tv in split.items()}
display(
    cb.finding(
        f"Cut off early, the error of the series falls fast: at orders 0, 1 and 2 it misplaces {zero:.3f}, {one:.3f} and {two:.3f}, weighted by variance share. Of tokens 19 in 20 deviate by less than {wide:.2f}, and {diverges:.2%} by more than 1, where it diverges.",
        holds=bool(wide < 1) and one < zero / 2 and two < one / 2,
    ),
    cb.finding(
        f"With BOS by its own key Equation 1 beats order 0 in heads {cb.listed(beats[True])}; as published in heads {cb.listed(beats[False])} only. Weighted by variance share it does in both forms, with {spoken(split[True]):.3f} and {spoken(split[False]):.3f}; order 1 is better in every head.",
        holds=bool(len(beats[False]) < len(heads) / 2 < len(beats[True]))
        and spoken(split[False]) < zero
        and bool((orders[1] < split[True]).all()),
    ),
)

# %% [markdown]
r"""
Equation 1's content half knows the token's own length at $n$, its positional half a typical one. The series is no split: from order 1 on it multiplies what a token is by where it stands, and even order 0 divides the token's part by a length that depends on the place. It is exact at position 0, where BOS always stands.

What of denominators? The exact one is Equation 1's with every source multiplied by $e^{-\delta_i}$, $\delta_i$ the error of its score {eq}`eq-error`. That is one more mean over tokens, weighted by the same kernel, so the post argues that it holds still from text to text for the same reason as the denominator itself ([chapter 4](04_denominators)).
"""


# %%
def anchored(scores):
    """From the score at n, where there is no error: what all sources share drops out of a row."""
    return scores - scores[..., n:]


def corrected(scores):
    """The exact denominator over that of these scores."""
    return (anchored(exact).logsumexp(-1) - anchored(scores).logsumexp(-1)).exp()  # text head


quotient = corrected(published)
taken, spread = 1 / quotient.mean(0) - 1, quotient.std(0) / quotient.mean(0)  # head
left = 1 / corrected(torch.cat([exact[..., :1], published[..., 1:]], -1)).mean(0) - 1  # head

# %% tags=["hide-input", "nbval-check-output"]
by_key = [h for h in heads if left[h] < taken[h] / 2]
cb.finding(
    f"The correction does hold still: the wrong scale makes denominators {taken.min():.0%} to {taken.max():.0%} too large, and that factor has a standard deviation of {spread.min():.1%} to {spread.max():.1%} over texts. In heads {cb.listed(by_key)} most of the excess is BOS: {shares(taken, by_key)}, with its own key {shares(left, by_key)}.",
    holds=bool(taken.min() > 0 and (spread < taken / 2).all() and by_key),  # by_key set later
)

# %% [markdown]
r"""
## What the zero buys, and where rows are worst

Why does Equation 1 add and subtract $W_\text{pos}[n]$ ({eq}`eq-zero`)? Without it the split would be $W_E[x_i]$ over the length in $E$ and $W_\text{pos}[i]$ over the length in $P$. The two differ only in which of the lengths divides $W_\text{pos}[n]\,W_K$. The paper's reason is that most attention sits near $n$.
"""

# %%
shift = (W_pos[n] @ ask.mT)[..., None]  # text head 1: the score of W_pos[n], before any length
at_n_of = cx.decompose.content_scale(weights, n, X)[:, None]  # text 1 source
without = published - shift / at_n_of + shift / cx.decompose.shared_scale(weights, C)[: n + 1]
splits = {"with the zero": published, "without": without}
errors = {k: anchored(s) - anchored(exact) for k, s in splits.items()}  # of a score, in nats
bare = {own: distance(without, own) for own in (False, True)}  # head

# %% tags=["hide-input"]
back = n - np.arange(n + 1)
by_distance = pd.DataFrame({k: e.abs().mean((0, 1)).numpy() for k, e in errors.items()}, index=back)
near = by_distance.loc[16:1].mean()
edges = np.unique(np.geomspace(1, n, 16).astype(int))
binned = by_distance.groupby(pd.cut(back, edges, right=False), observed=True).mean()
figure, ((axis,),) = cb.figures.panels(height=2.5, width=7.5)
for name, style in zip(binned, ("o-", "o--"), strict=True):
    axis.plot(edges[:-1], binned[name], style, ms=3, label=name)
axis.set(xscale="log", xlabel="tokens back, n − i", ylabel="mean |error| of a score, nats")
axis.set_ylim(0, None)
axis.legend(fontsize=8)
cb.figures.picture(
    figure,
    "A.3",
    f"The error of a score by distance, over all heads and {len(X)} texts; each score from its own at n.",
    f"Two rising curves. Within 16 tokens the mean error of a score is {near['with the zero']:.4f} with the zero and {near['without']:.4f} without. Median TV with the zero: {cb.figures.by_head(split[True], '.3f')}; without: {cb.figures.by_head(bare[True], '.3f')}.",
)

# %% tags=["hide-input", "nbval-check-output"]
better = [h for h in heads if split[True][h] < 0.8 * bare[True][h]]
worse = [h for h in heads if split[True][h] > bare[True][h]]
gain = 1 - split[False] / bare[False]  # head
ratio = near["without"] / near["with the zero"]
lost = fewer(distances(without, own=True), distances(published, own=True))
worst = max(loud, key=lambda h: float(split[True][h]))
still = [h for h in heads if h not in better and h != worst]
plain = true[..., 1:] / true[..., 1:].sum(-1, keepdim=True)  # BOS left out
close = plain[..., -17:].sum(-1).median(0).values  # head
moves = (published - without)[..., 1:].std((0, 2))
left_over = errors["with the zero"][..., 1:].std((0, 2))
stops, some = [n // 8, n, n + 3 * (study.length - n) // 4, study.length - 1], study.texts[::2]


def misplaced(m):
    """TV of half the texts with their own token at m; BOS dropped, what is left made one again."""
    z = torch.stack([text.tokens[: m + 1] for text in some])
    rows = [r[..., 1:] for r in (cx.attention_rows(weights, z, m), cx.approx_rows(weights, z, m))]
    tv = cx.total_variation(*(r / r.sum(-1, keepdim=True) for r in rows))
    return spoken(tv.median(0).values)


along = [misplaced(m) for m in stops]
display(
    cb.finding(
        f"Within 16 tokens of n the zero makes scores {ratio:.1f} times as exact. Yet with BOS by its own key rows gain by more than a fifth in heads {cb.listed(better)} only (as published by {shares(gain, better)}), and lose in {cb.listed(worse)}: weighted by variance share, rows are slightly worse with the zero, by {lost:.4f}.",
        holds=bool(ratio > 1.5 and len(better) > 0 and not set(better) & set(loud))
        and 0
        < lost.low
        < lost.value
        < 0.1 * spoken(bare[True]),  # set later, as that it levels off
    ),
    cb.finding(
        f"Nearness is not the reason: heads {cb.listed(better)} have {shares(close, better)} of their attention within 16 tokens, {cb.listed(loud)} have {' and '.join(f'{v:.0%}' for v in close[loud])}. The zero must have something to mend: it moves the scores of those that gain by {least(moves, better):.3f} nats or more (standard deviation), in heads {cb.listed(still)} by {most(moves, still):.3f} at most. In head {worst} it is {moves[worst]:.3f}, beside an error of {left_over[worst]:.3f}.",
        holds=bool(
            most(close, loud) >= most(close, better)
            and least(moves, better) > 3 * most(moves, still)
        )
        and bool(left_over[worst] > 3 * moves[worst]),
    ),
    cb.finding(
        f"Asked by the text's own token at n, BOS dropped, the distance grows along {len(some)} texts and then levels off: at n = {cb.listed(stops)} it is {cb.listed(f'{tv:.2f}' for tv in along)}, weighted by variance share.",
        holds=along[0] < along[1] < along[2]
        and abs(along[3] - along[2]) < (along[2] - along[1]) / 2,
    ),
)

# %% [markdown]
r"""
The post finds for GPT-2 that LayerNorm distorts least at the centre of the sequence {cite}`gibson2025contextual`. The rows of this model do not agree.

## The origin is free

Add a vector $v$ to every token embedding and take it from every position embedding:

$$
W_E[t] \to W_E[t] + v, \qquad W_\text{pos}[i] \to W_\text{pos}[i] - v .
$$ (eq-scale-origin)

Every sum stays what it was, and so does every key and every row. (Where the embeddings are tied, all logits of a position change by the same amount, and the softmax takes that out.) The loss does not settle $v$. But angles and lengths of tokens and positions, apart from one another, depend on it, and so does $C$.
"""

# %%
origins = {
    "as the model comes": torch.zeros(weights.d_model),
    "mean token of the vocabulary moved into positions": -W_E.mean(0),
    "mean token of texts moved into positions": -W_E[used].mean((0, 1)),
    "mean position moved into tokens": W_pos.mean(0),
}
moved = {k: replace(weights, W_E=W_E + v, W_pos=W_pos - v) for k, v in origins.items()}

unit = torch.nn.functional.normalize
cosines = {  # of tokens with positions
    k: (unit(m.W_E, dim=-1)[::5] @ unit(m.W_pos, dim=-1)[::5].T).flatten() for k, m in moved.items()
}

# %% [markdown]
r"""
For each of the four, the table has the mean $\lvert$cosine$\rvert$ in units of $1 / \sqrt{d_\text{model}}$ (random directions have 0.8), both constants; the true length over the one that either puts in P, the median over sources 1 to $n$; and the TV of rows with either, BOS by its own key, weighted by variance share.
"""

# %% tags=["hide-input", "nbval-check-output"]
facts = {}
for k, m in moved.items():
    constants = [float(e.norm(dim=-1).median()) for e in (m.W_E, m.W_E[used])]
    in_its_P = (cx.decompose.shared_scale(m, c)[: n + 1] for c in constants)
    over = [float((true_scale / scale)[:, 1:].median()) for scale in in_its_P]
    rebuilt = (cx.decompose.approx_scores(m, X, n, C=c) for c in constants)
    off = [spoken(distance(scores, own=True)) for scores in rebuilt]
    facts[k] = [float(cosines[k].abs().mean()) * weights.d_model**0.5, *constants, *over, *off]
both = ("C of the vocabulary", "C of texts")
columns = ["|cosine| √d_model", *both]
columns += [f"{what} by {c}" for what in ("length", "TV") for c in both]
facts = pd.DataFrame.from_dict(facts, "index", columns=columns).rename_axis("origin")
facts.round(dict(zip(facts, (1, 2, 2, 2, 2, 3, 3), strict=True)))

# %% tags=["hide-input", "nbval-check-output"]
angle, _, _, over_former, over_latter, by_former, by_latter = facts.to_numpy().T
before, tokens_moved, _, positions_moved = angle
rows_of = [cx.attention_rows(m, X[:20], n) for m in moved.values()]
wrong = np.abs(1 - np.stack([over_former, over_latter]))  # constant origin
display(
    cb.finding(
        f"No row changes, and yet with the mean position moved into the tokens the two are nearly orthogonal, {positions_moved:.1f} in place of {before:.1f}, where random directions have 0.8; with the mean token of the vocabulary moved into the positions they are not, {tokens_moved:.1f}.",
        holds=positions_moved < 2 < min(before, tokens_moved)
        and all(torch.allclose(rows, rows_of[0], atol=1e-4) for rows in rows_of),
    ),
    cb.finding(
        f"The C of texts is better at this origin; with the mean token of the vocabulary moved into the positions it is farther from the true length, and rows are worse, {by_latter[1]:.3f} against {by_former[1]:.3f}.",
        holds=by_latter[0] < by_former[0]
        and by_latter[1] > by_former[1]
        and bool(wrong[1, 0] < wrong[0, 0] and wrong[1, 1] > wrong[0, 1]),  # set later
    ),
)

# %% [markdown]
"""
So orthogonality is no fact about how this model attends. It is a fact about where its origin was left. A constant is good where it gives the true length, for which the angle counts too.
"""

# %% [markdown]
r"""
## Two octaves of C

The paper's open question: how much hangs on $C$? Here it moves from half the vocabulary's median length to twice that.
"""

# %%
octaves = np.linspace(-1, 1, 9)
swept = [cx.decompose.approx_scores(weights, X, n, C=C * 2**octave) for octave in octaves]
sweep = {  # octave head
    "Equation 1": torch.stack([distance(scores) for scores in swept]),
    "BOS by its own key": torch.stack([distance(scores, own=True) for scores in swept]),
}
best = {name: 2 ** octaves[found.argmin(0)] for name, found in sweep.items()}  # head
best_spoken = {
    name: float(2 ** octaves[(found.numpy() @ weight).argmin()]) for name, found in sweep.items()
}

# %% tags=["hide-input"]
figure, axes = cb.figures.panels(1, 2, height=2.9, sharey=True)
for axis, (title, found) in zip(axes[0], sweep.items(), strict=True):
    for head in heads:
        style = cb.figures.head_style(head)
        axis.plot(C * 2**octaves, found[:, head], label=f"head {head}", **style)
    axis.axvline(C, color=cb.figures.INK, lw=1, ls="--", label="C of the vocabulary")
    axis.axvline(C_texts, color=cb.figures.INK, lw=1, ls=":", label="C of texts")
    axis.set(xscale="log", xlabel="C", ylim=(0, None), title=title)
    axis.set_xticks([C / 2, C, 2 * C], [f"{t:.2f}" for t in (C / 2, C, 2 * C)])
    axis.minorticks_off()
axes[0, 0].set_ylabel("median TV")
axes[0, 1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
cb.figures.picture(
    figure,
    "A.4",
    "Distance of the rows as C moves over two octaves. Dashed: the median length in the vocabulary; dotted: in texts.",
    f"Two panels, a curve per head. The least distance of each, in units of the vocabulary's median length: Equation 1 {cb.figures.by_head(best['Equation 1'], '.2f')}; BOS by its own key {cb.figures.by_head(best['BOS by its own key'], '.2f')}; that of texts is {C_texts / C:.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
of_published, of_own = best.values()
large = [h for h in heads if of_published[h] > 1.5]
small = [h for h in heads if h not in large]
cb.finding(
    f"As published, rows of heads {cb.listed(small)}, which say {weight[small].sum():.0%}, are best at {most(of_published, small):.2f} of the vocabulary's typical length, near that of texts, {C_texts / C:.2f}; those of {cb.listed(large)} at {least(of_published, large):.2f} or more. With BOS by its own key all are best at {of_own.max():.2f}; weighted by variance share, {best_spoken['Equation 1']:.2f} is best in both forms.",
    holds=bool(len(large) and len(small) and np.ptp(of_own) == 0 and most(of_published, small) < 1)
    and len(set(best_spoken.values())) == 1
    and bool(weight[small].sum() > 0.9 and abs(of_own.max() - C_texts / C) < 0.1),
)

# %% [markdown]
r"""
The line on $C$ in the ledger of [chapter 2](02_keys) takes the middle head, and fails because of BOS in heads that say next to nothing: a large $C$ shrinks the positional score of BOS, and that of all others with it. In the heads that speak the best of these nine constants is, at this origin, the one nearest to the typical length of texts.

## The account
"""

# %% tags=["hide-input", "nbval-check-output"]
by_both = distances(cx.decompose.approx_scores(weights, X, n, C=C_texts), own=True)
repaired = by_both.median(0).values
gained = fewer(by_both, distances(published))
by_bos = 1 - split[True] / split[False]  # head
display(
    cb.finding(
        f"Weighted by variance share, Equation 1 misplaces {spoken(split[False]):.3f} of the attention; with BOS by its own key and the constant C from texts it is {gained.value:.4f} less [{gained.low:.4f}, {gained.high:.4f}].",
        holds=gained.low > 0,
    ),
    cb.finding(
        f"BOS makes {shares(by_bos, large)} of the error in heads {cb.listed(large)}, which say {weight[large].sum():.0%}, and {shares(by_bos, small)} in the others.",
        holds=bool(least(by_bos, large) > 0.5 > 0.25 > most(by_bos, small)),
    ),
)

# %% [markdown]
r"""
What is left with BOS by its own key? Give the positional half ever more of the length that it should have. The last two are no splits, for there positions know the token:
"""

# %%
E, P = W_E[X], W_pos[: n + 1]
what, where = ask @ (E + W_pos[n]).mT, ask @ (P - W_pos[n]).T  # text head source
right_angles = ((E.square().sum(-1) + P.square().sum(-1)) / weights.d_model + weights.eps).sqrt()
given = {
    "C of the vocabulary": cx.decompose.shared_scale(weights, C)[: n + 1],
    "mean length of the place": mean_square.sqrt(),
    "own length, at right angles": right_angles[:, None],
    "true length": true_scale[:, None],
}
left_by = {k: distance(what / at_n_of + where / scale, own=True) for k, scale in given.items()}

# %% tags=["hide-input", "nbval-check-output"]
display(
    pd.DataFrame({k: [*v.tolist(), spoken(v)] for k, v in left_by.items()}, [*heads, "weighted"])
    .T.round(3)
    .rename_axis("positions divided by", axis=0)
    .rename_axis("head", axis=1),
    cb.finding(
        "In head {}, the worst of those that speak, {:.3f} is left with BOS by its own key, {:.3f} if positions are divided by the mean length at each place, {:.3f} by each token's own length at right angles, and {:.3f} by the true one. With C of texts alone it is {:.3f}.".format(
            worst, *(float(v[worst]) for v in (*left_by.values(), repaired))
        ),
        holds=bool(np.diff([v[worst] for v in left_by.values()]).max() < -0.01)
        and bool(left_by["true length"][worst] > 0.01),
    ),
)

# %% [markdown]
r"""
Each row takes away a part: mostly the constant from the wrong tokens (a place's mean length holds the angle's, too), that tokens differ in length, that they are not at right angles to places. What is left is the content half's, which has the token's length at $n$ and not at $i$. (In another order the parts would be other ones.) All this is in the middle of a text. Early in it BOS draws more, and there it is nearly the whole error ([chapter 12](12_causal), which reads its value exactly too). The book goes on with Equation 1 as published, so that its numbers can be held against the paper's.

## One distance, several numbers

The book gives the TV of this model more than once, and not always with the same number, for three things can be chosen: who asks, which split rebuilds the row, and how the distances of single heads, each of its own rows, are made one number. On the texts of this page, in brackets the chapters that have it so (E takes the lower of the two heads in the middle):
"""

# %% tags=["hide-input", "nbval-check-output"]
own = torch.stack([text.tokens[: n + 1] for text in study.texts])  # with their own tokens at n
two = cx.fit_additive(model, study.texts, n, TOKEN)  # chapter 13's split, of any decoder
of_rows = {
    f"Equation 1, asked by {TOKEN!r} (2, 3, 6, A, E)": (cx.attention_rows(weights, X, n), published.softmax(-1)),
    "Equation 1, asked by the text's own token (2, ledger)": (cx.attention_rows(weights, own, n), cx.approx_rows(weights, own, n)),
    f"two means, asked by {TOKEN!r} (11)": (two.exact.rows(X), two.decomposition.rows(X)),
}  # fmt: skip
by_text = {name: cx.total_variation(*pair) for name, pair in of_rows.items()}  # text head
bridge = pd.DataFrame(
    {
        name: {
            "weighted by variance share (2, 6, A)": spoken(tv.median(0).values),
            "the middle head (11; E, first table)": float(np.median(tv.median(0).values)),
            "mean over heads (E, doses)": float(tv.median(0).values.mean()),
            "the worst head (2)": float(tv.median(0).values.max()),
        }
        for name, tv in by_text.items()
    }
).T
by_summary = np.ptp(bridge.to_numpy(), axis=1)
by_asker, by_split = (float((bridge.iloc[k] - bridge.iloc[0]).abs().max()) for k in (1, 2))
over_texts = max(float((tv.mean(0) - tv.median(0).values).abs().max()) for tv in by_text.values())
display(
    bridge.map("{:.3f}".format),
    cb.finding(
        f"Within a line, how the distances of single heads are made one number spreads it by {by_summary.min():.3f} to {by_summary.max():.3f}. In a column who asks moves it by {by_asker:.3f} at most, the split by {by_split:.3f} at most; mean or median over texts differ by {over_texts:.3f} at most in a head.",
        holds=bool(by_summary.min() > 3 * by_asker and by_summary.max() > by_split > over_texts),
    ),
)

# %% [markdown]
r"""
The first column is the book's: it weighs a head by what neurons hear of it, while the others weigh a head that says one per cent like one that says half. Chapter 2's ledger takes all positions of the passages, as the paper's first figure does.

## Exercises

1. **Predict, then run.** Set `TOKEN = "."`. Which of the four figures can change, and which cannot?
2. **Break this.** Move the origin {eq}`eq-scale-origin` so that Equation 1 says of every head that it looks everywhere alike.
3. **Prove.** Let $W_E$ be tied to the unembedding. Show that {eq}`eq-scale-origin` adds the same number to all logits of a position.

```{admonition} Solutions
:class: dropdown

1. A.1 is about embeddings, which do not know who asks. The others are about rows, and a row has a query.
2. Any long $v$ will do. $W_\text{pos}[i] - W_\text{pos}[n]$ stays, but $\lvert W_\text{pos}[i] \rvert^2 + C^2$ grows with $2 \lvert v \rvert^2$, so the shift of positions goes to zero and every kernel to an even row, while the model's own rows do not change. The origin is chosen, and not found.
3. The final residual $r$ is unchanged, since its embedding part is the sum. The logit of $t$ is $r \cdot (W_E[t] + v)$ after the last LayerNorm, that is the old one plus $r \cdot v$, which does not depend on $t$.
```

## Where this comes from

The expansion around a mean over tokens, and the argument that its corrections concentrate, are from the appendix of {cite:t}`gibson2025contextual`; Equation 1 and the question after its constant from {cite:t}`gibson2025decomposing`. The own key, the constant from texts and the origins are this book's.
"""
