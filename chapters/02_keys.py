# %% [markdown]
r"""
# Splitting a key into content and position

**A key is nearly the sum of a part for its token and a part for its position, so for a given query attention can be rebuilt from two tables: one for tokens, one for positions.** {{?close}} In our small model `mini` the two tables put {{split}} of the attention in the wrong place, where the table of tokens alone puts {{token}}. {{?needs_both}} Two assumptions of the derivation fail. More than a quarter of this error in the middle of a text comes from a constant that is taken from the vocabulary, where the tokens of texts are shorter. {{?assumptions_fail}} {{?scale.a_quarter}} Models that rotate keys instead of adding positions need another split, which puts {{families.least_times}} to {{families.most_times}} times as much in the wrong place as in a small model that adds positions. {{?families.order}}

Why is it only *nearly* a sum? A token and its position are added ([chapter 1](01_first_layer)), and a linear function of a sum comes apart by itself: $(a + b)\,W = aW + bW$. Something else must tie the two together, and there is only one suspect.
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, the model and the texts"}
import json

import numpy as np
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv
from ctxlib.weights import layer_norm_scale

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
heads = range(weights.n_heads)
study = cx.study(weights, TEXTS, TOKEN, heads)
passages, n = study.passages, study.n
# as many texts as take the memory of 1000 on the book's own model
several = study.texts[: max(100, int(1000 * 256 * 256 / (n * weights.d_model)))]
X = study.fixed.prepare(several)  # text source: TOKEN stands at n
x = study.fixed.prepare([study.example])[0]  # the page of astronomy
share = study.head_variance_share  # of the variance between texts, by head
influential = sorted(share.nlargest(2).index)
neuron = min(496, weights.n_neurons - 1)  # the one that the first six chapters follow
W_E, W_pos, W_K = weights.W_E, weights.W_pos, weights.W_K
d_model, eps, scale = weights.d_model, weights.eps, weights.attn_scale  # sqrt(d_head)

# %% [markdown]
r"""
## A length ties them together

It is LayerNorm. Before a head reads the sum, LayerNorm puts it on a sphere, that is, it divides it by its length:

$$
\text{key}_i \;=\; \sqrt{d_\text{model}}\;\frac{(W_E[x_i] + W_\text{pos}[i])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[i]\rvert}
$$ (eq-key)

Above the line, token and position are apart. Below it they are not. The bias $b_K$ is left out, because no attention row depends on it. By hand: let *moon* be the vector $(4, 0)$, and put it at three positions, whose vectors are $(0, 0)$, $(0, 1)$ and $(0, 3)$:
"""

# %% tags=["hide-input"]
blue, orange, _, pink, *_ = cb.figures.COLORS
figure, ((left, circle),) = cb.figures.panels(1, 2, width=6, height=2.4)
as_drawn = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.012}
left.quiver((0, 4, 0), (0, 0, 0), (4, 0, 4), (0, 3, 3), color=(blue, orange, "0.5"), **as_drawn)
circle.quiver(0.8, 0.6, 0, -0.485, color=pink, **as_drawn)  # what Equation 1 makes of the second
arc, points = np.linspace(0, np.pi / 2), np.array([(1, 0), (0.97, 0.24), (0.8, 0.6)])
for axis, start, right, top in ((left, 0, 5.6, 3.2), (circle, 0.2, 1.5, 0.8)):
    axis.plot(np.cos(arc), np.sin(arc), ":", color=cb.figures.INK, lw=1)
    axis.plot(*points[-1 if axis is left else slice(3)].T, "o", ms=5, color=cb.figures.INK)
    axis.set(xlim=(start, right), ylim=(-top / 6, top), aspect="equal")
    axis.axis("off")
left.text(2, -0.1, "moon (4, 0)", color=blue, ha="center", va="top")
left.text(4.15, 1.5, "position\n(0, 3)", color=orange, va="center")
left.text(2.7, 2.4, "sum (4, 3)", ha="right")
left.text(1.1, 0.2, "circle")
for name, (a, b) in zip(("first", "second", "third"), points, strict=True):
    circle.text(a + 0.05, b, f"{name}: ({a:.2f}, {b:.2f})", va="center")
circle.text(0.75, 0.11, "Equation 1: (0.80, 0.11)", color=pink, ha="right", va="center")
cb.figures.picture(
    figure,
    "2.1",
    "Left: <em>moon</em> at the third position. LayerNorm keeps the direction of the sum and puts it on the circle (dot). Right: the circle enlarged, with <em>moon</em> at all three positions. The arrow is explained under Equation 1.",
    "Left, the arrows moon (4, 0) and position (0, 3) add to (4, 3), which meets the circle at (0.80, 0.60). Right, three points on the circle: (1, 0), (0.97, 0.24) and (0.80, 0.60). An arrow from the third leads off the circle, to (0.80, 0.11), where it should lead to the second.",
)

# %% [markdown]
r"""
The token is the same at all three, and its part of the key, how far the dot is to the right, is not: it shrinks from {{= 1 =}} to {{= 0.97 =}} to {{= 0.8 =}}. If we write a single number for *moon* into a table, say the first, it is {{= 25% =}} too large at the third position, and only {{= 3% =}} at the second. So everything depends on how long positions are, compared with tokens. How long are they in the model?
"""

# %% tags=["hide-input"]
C = W_E.norm(dim=-1).median()  # a typical token's length
low, high = np.quantile(W_E[X[:, 1:]].norm(dim=-1), (0.05, 0.95))
lengths = W_pos.norm(dim=-1)
figure, ((axis,),) = cb.figures.panels(height=2.5, width=7.5)
axis.plot(lengths, color=cb.figures.COLORS[1])
axis.axhspan(low, high, alpha=0.2)
axis.axhline(C, color=cb.figures.INK, lw=1, ls="--")
for name, at in {
    "position 0": (12, lengths[0]),
    "positions": (len(lengths) / 2, lengths[len(lengths) // 2] + 0.08),
    "tokens of texts (middle 90%)": (len(lengths) / 2, low + 0.03),
    "C": (len(lengths) - 8, C + 0.02),
}.items():
    axis.text(*at, name)
axis.set(xlabel="position i", ylabel="length", ylim=(0, 1.15 * lengths.max()))
cb.figures.picture(
    figure,
    "2.2",
    "The length of every position's vector (orange), beside those of the tokens that texts are made of (band). C is the median over the vocabulary. Where the orange curve is far below the band, the token alone nearly decides the length of the sum.",
    f"A curve that starts at {lengths[0]:.2f} at position 0, is {lengths[n]:.2f} at n = {n} and {lengths[-1]:.2f} at the end; tokens lie between {low:.2f} and {high:.2f}, C is {C:.2f}.",
)

# %% [markdown]
r"""
A typical position is {{relative}} times as long as a typical token, so nearly everywhere the token makes most of the length. {{?short}} Position 0, which holds BOS in every text, is the exception: its vector is longer than a typical token's. {{?first_is_long}}

## Equation 1

Two tables need two lengths: one that ignores the position, and one that ignores the token. The published split {cite}`gibson2025decomposing` gets there in two steps.

**The token.** The table of tokens cannot know where a token stands, but it can assume a position. It assumes that of the query, $n$, which is right for the query token and nearly right for its neighbours. So every token is read as if it stood at $n$, and what remains for the position is the way from $n$ to $i$. Let *moon* be at the second position and the query at the third. Then $(4, 0) + (0, 1)$ becomes $(4, 3) + (0, -2)$: *moon* at $n$, and the way from $n$ to $i$. In general,

$$
\begin{aligned}
W_E[x_i] + W_\text{pos}[i] \;=\;\; & \underbrace{W_E[x_i] + W_\text{pos}[n]}_{\text{the token, as if it were at } n} \\
+\;\; & \underbrace{W_\text{pos}[i] - W_\text{pos}[n]}_{\text{from } n \text{ to } i}
\end{aligned}
$$ (eq-zero)

**The lengths.** Call the two parts $a$ and $b$, and the length of their sum $\ell$. LayerNorm divides both by $\ell$, which depends on token and position at once, so we replace it by two lengths:

$$
\begin{aligned}
\frac{a + b}{\ell} \;&=\; \frac{a}{\ell} + \frac{b}{\ell} \\
&\approx\; \frac{a}{\lvert a \rvert} + \frac{b}{\sqrt{\lvert W_\text{pos}[i] \rvert^2 + C^2}} .
\end{aligned}
$$

Under $a$ we put its own length, which does not mention $i$. The length under $b$ must not mention $x_i$. So we pretend that the token has a typical length $C$ and is at right angles to the position, and take the length of the sum from Pythagoras. By hand, with $C = 4$, these are $\lvert (4, 3) \rvert = 5$ and $\sqrt{1^2 + 4^2} = 4.12$. The split gives $(4, 3) / 5 + (0, -2) / 4.12 = (0.80, 0.11)$, the tip of the arrow in Figure 2.1, where the truth is $(4, 1) / 4.12 = (0.97, 0.24)$. (The error is large because we made the query's position three quarters as long as the token.) With the weights written out, this is

$$
\begin{aligned}
\text{key}_i \approx\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_E[x_i] + W_\text{pos}[n])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[n]\rvert}}_{E[n,\,x_i]} \\
+\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_\text{pos}[i] - W_\text{pos}[n])\,W_K}{\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}}}_{P[n,\,i]}
\end{aligned}
$$ (eq-split)

This is Equation 1 of the paper, as this book reads it. (The paper divides $\sqrt{d_\text{model}}$ out; we keep it, so that a query times a key is a score as it stands.) For a given position $n$ of the query, $E$ is a table with a row per token and $P$ a table with a row per position. A score becomes a sum of two numbers, $c_i = q_n \cdot E[n, x_i] / \sqrt{d_\text{head}}$ for the token and $p_i = q_n \cdot P[n, i] / \sqrt{d_\text{head}}$ for the position. In code, for one page `x`, where `scale` is $\sqrt{d_\text{head}}$ and `C` the dashed line of Figure 2.2:
"""


# %%
def LN(v):
    return v / (v.square().mean(-1, keepdim=True) + eps).sqrt()


E = LN(W_E[x] + W_pos[n]) @ W_K  # head source d_head: content
shared = ((W_pos[: n + 1].square().sum(-1) + C**2) / d_model).sqrt()
P = (W_pos[: n + 1] - W_pos[n]) / shared[:, None] @ W_K  # head source d_head: position

q = LN(W_E[x[n]] + W_pos[n]) @ weights.W_Q + weights.b_Q  # head d_head
c, p = (torch.einsum("hd,hid->hi", q, half) / scale for half in (E, P))  # head source
rebuilt = (c + p).softmax(-1)

# %% [markdown]
r"""
At $i = n$ the second part is zero and the first is exact, so there the equation makes no error at all. Here are the scores of the two *planets* of [chapter 1](01_first_layer), {{first_layer.back_near}} and {{first_layer.back_far}} tokens back, in head {{top}}, which gave the near one {{first_layer.times}} times the attention of the far one:

| *planets* | near | far |
|---|---|---|
| token part $c_i$ | {{c_near}} | {{c_far}} |
| position part $p_i$ | {{p_near}} | {{p_far}} |
| sum | **{{sum_near}}** | **{{sum_far}}** |
| score in the model | {{score_near}} | {{score_far}} |

Both are read from the same row of the same table, so the token parts are equal. All the difference comes from the position. {{?by_position}} For the near one the score is about right, while for the far one it is too large. The vector $W_E + W_\text{pos}$ is shorter there than $P$ assumes, so the position's part should be more negative. {{?far_too_large}}

## How much attention is in the wrong place?

Compare two rows. Suppose the true row of a head gives BOS, *moon* and *the* the shares {{= 0.05 =}}, {{= 0.60 =}} and {{= 0.35 =}}, and a guess gives them {{= 0.10 =}}, {{= 0.60 =}} and {{= 0.30 =}}. Then {{= 5% =}} of the attention is in the wrong place: the guess has moved it from *the* to BOS. This is the **total variation distance**,

$$
\text{TV} \;=\; \tfrac12 \sum_{i \le n} \lvert a_i - \hat a_i \rvert ,
$$ (eq-tv)

with $a_i$ the true row and $\hat a_i$ the guess. *In the wrong place* always means this distance. We compute it for every head and every position of the book's {{passages}} passages, each position with its own token as the query.
"""


# %%
def along(tokens):
    """TV of true and rebuilt rows at every position of a text: head dest."""
    exact = cx.decompose.attention_pattern(weights, tokens)
    return cx.total_variation(exact, cx.decompose.approx_pattern(weights, tokens))


everywhere = torch.stack([along(p.tokens[: study.length]) for p in passages])  # text head dest
misplaced = everywhere.mean(0)[:, 1:]  # head dest; at position 0 there is but one source
of_heads = torch.tensor(share.to_numpy()).float()
weighted = of_heads @ misplaced  # dest

# %% tags=["hide-input"]
positions = np.arange(1, study.length)
figure, ((axis,),) = cb.figures.panels(height=3.4, width=7.5)
worst, late = int(misplaced.mean(1).argmax()), study.length * 3 // 4
axis.plot(positions, misplaced.T, lw=0.9, color="0.75")
for h, i in {worst: study.length // 10, influential[0]: late, influential[1]: late}.items():
    (line,) = axis.plot(positions, misplaced[h], lw=0.9)
    axis.annotate(f"head {h}", (i, misplaced[h, i]), (0, 9), textcoords="offset points", color=line.get_color())  # fmt: skip
axis.plot(positions, weighted, color=cb.figures.INK, lw=2.4)
axis.annotate("weighted mean", (late // 3 * 2, weighted[late // 3 * 2]), (0, -19), textcoords="offset points")  # fmt: skip
axis.set(xlabel="position of the query", ylabel="attention in the wrong place", ylim=(0, None))
axis.yaxis.set_major_formatter("{x:.0%}")
cb.figures.picture(
    figure,
    "2.3",
    f"How far rebuilt attention is from true attention along the text: mean over {len(passages)} passages, a thin line per head, in colour the two influential heads and the one where it goes worst. The thick line is their mean, in which a head counts by its variance share. This is the paper's first figure, for <code>{MODEL}</code>.",
    f"Curves along positions 1 to {study.length - 1}. The weighted mean is {weighted[3]:.3f} at position 4, {weighted[99]:.3f} at position 100 and {weighted[-1]:.3f} at the end. Means along the text: {cb.figures.by_head(misplaced.mean(1), '.3f')}.",
)

# %% [markdown]
r"""
The thick line is {{average}} on average and never gets above {{most}}. {{?close}} The paper reports about {{= 5% =}} for GPT-2 small. The highest thin line is head {{worst}}, which hardly contributes to what changes from text to text. {{?worst_counts_little}} The thick line is lowest where the query is about a hundred tokens into the text, and higher early and late, for two different reasons. {{?rises}}

Is that good? Compare it with simpler guesses, this time for one query, *the* at position {{n}}, on {{texts}} texts:

| guess | in the wrong place, weighted mean | in the head where it does worst |
| --- | --- | --- |
| uniform attention | {{uniform}} | {{uniform_worst}} |
| positions alone, the softmax of $p_i$ | {{place}} | {{place_worst}} |
| tokens alone, the softmax of $c_i$ | {{token}} | {{token_worst}} |
| both, Equation 1 | {{split}} | {{split_worst}} |

Both tables are needed. {{?needs_both}} For neuron {{neuron}}, which we follow through the book, the result is good enough: over these texts, what the heads add to it through rebuilt attention has a correlation of {{received_r}} with what they add in the model. {{?received_well}}

Nor is `mini` a special case. In the first layer of MiniLM, a model that compares sentences, Equation 1 puts {{minilm_split}} of the attention in the wrong place, and tokens alone {{minilm_token}}. {{?minilm}} But many models rotate queries and keys instead of adding positions. For these, [chapter 13](13_families) derives another split. In the [stable heads](glossary), which average over most of a text, it puts {{families.qwen}} of the attention in the wrong place in Qwen, and {{families.smollm2}} in SmolLM2. {{?families.order}}

## What can go wrong

Equation 1 leaves the numerators as they are, so a score can only be wrong through its two lengths. With $\ell_i$ for the true length, $\ell_i^n$ for the one in $E$ and $\bar\ell_i$ for the one in $P$, the error of a score is exactly

$$
\delta_i \;=\; c_i \left( 1 - \frac{\ell_i^n}{\ell_i} \right) \;+\; p_i \left( 1 - \frac{\bar\ell_i}{\ell_i} \right) .
$$ (eq-error)

So an error matters only where three things meet: the score has a large part, a length is wrong, and the head attends to the source. Early in a text this happens at BOS, whose position is long, and late in a text far back, where positions differ most from the query's. The two are taken apart under *Evidence*.

Two assumptions of the derivation fail. Tokens are not orthogonal to positions: in `mini` their mean cosine is {{cosine}} times that of random directions. And no single $C$ is best. BOS wants a longer one, far sources a shorter one. The median head wants {{best_C}} times the median length of the vocabulary, but heads that want a longer one add next to nothing. {{?assumptions_fail}} For those that count it should be shorter: with the typical length of the tokens in texts, more than a quarter of the error in the middle of a text goes away. {{?scale.a_quarter}} [Appendix A](A_scale) shows this, and why the angles hardly matter.

## Turn it

Choose a passage, a head, a position and a $C$, and the page computes both rows from the weights. (Its axis is logarithmic.) Make $C$ a little smaller: in which heads do the rows come closer, and in which do they part? Guess first, then look at <a href="#rows.head=0&amp;rows.octaves=-0.25">head {{= 0 =}}</a> and at <a href="#rows.head=4&amp;rows.octaves=-0.25">head {{= 4 =}}</a>. What happens at <a href="#rows.head=0&amp;rows.octaves=-1">half of $C$</a>?
"""

# %% tags=["hide-input"]
passage = next((k for k, p in enumerate(passages) if p.domain == "astronomy"), 0)
tokens, shown = passages[passage].tokens[: study.length], influential[0]
two = [rows(weights, tokens, n)[shown] for rows in (cx.attention_rows, cx.approx_rows)]
figure, ((axis,),) = cb.figures.panels(height=2.6, width=7.5)
axis.plot(n - np.arange(n + 1), torch.stack(two).T, lw=1.2, label=("true", "rebuilt"))
axis.set(xlabel="tokens back, n − i", ylabel="attention", xlim=(n, 0))
axis.legend()
caption = f"True and rebuilt row of head {shown} at n = {n} of “{passages[passage].subject}”, with its own token as the query; C = {C:.2f}. Distance {float(cx.total_variation(*two)):.3f}."
picture = cb.figures.picture(figure, "2.4", caption, caption)
cv.Rows(weights, passage=passage, head=shown, n=n, picture=picture)

# %% [markdown]
r"""
## Where this leaves us

A score is now a sum, $c_i + p_i$, of one number for the token and one for the position. A softmax turns sums into products: $e^{c_i + p_i} = e^{c_i} e^{p_i}$. So as long as the query is given, each head has one curve over positions, the same for all texts, and one number for each token of the vocabulary. *Planets* added much to our neuron near the end of the text, and almost nothing two hundred tokens earlier. Its token has the same number twice, so the curve should tell us why. How far back does a head look? That is [chapter 3](03_kernels).

## Exercises

1. *Predict, then run.* Is it the token BOS that Equation 1 reads wrongly, or is it position 0? Heads {{by_bos}} attend much to it. Put *the* at position 0 of every text and rebuild the rows again: will the error of these heads stay as it was?
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "With another token at position 0"}
other = X.clone()
other[:, 0] = weights.token_id(TOKEN)
both = cx.attention_rows(weights, other, n), cx.approx_rows(weights, other, n)
changed = cx.total_variation(*both).median(0).values
pd.DataFrame({"TV of the median text, without BOS": changed.tolist()}).rename_axis("head").round(3)

# %% [markdown]
r"""
2. *By hand.* Draw into Figure 2.1 where Equation 1 puts *moon* at the first position, with the query at the second. Why is it so much nearer to the truth?
3. *Prove.* Let $s_i$ be the exact and $\hat s_i$ the rebuilt scores. Show that TV is at most $\tfrac12(e^{2\delta} - 1)$ when no score is wrong by more than $\delta$, up to one constant for the row.

```{admonition} Solutions
:class: dropdown

1. It is both. Without BOS the error of heads {{by_bos}} on the median text falls from {{by_bos_before}} to {{without_bos}}, averaged over these heads. {{?token_matters}} The length at position 0 is as wrong as before, but these heads look there because of BOS, and attend to *the* less.
2. $(4, 0) + (0, 0)$ becomes $(4, 1) + (0, -1)$, and the lengths are $4.12$ and $\sqrt{0^2 + 4^2} = 4$. The split gives $(0.97, 0.24) + (0, -0.25) = (0.97, -0.01)$, and the truth is $(1, 0)$. The lengths that the split assumes, $4.12$ and $4$, are nearly the true one, $4$. In the figure, where it assumes $5$ for a true $4.12$, the token's part comes out too small.
3. Each $e^{\hat s_i}$ lies within a factor $e^{\pm\delta}$ of $e^{s_i}$, and so does the denominator, so $\hat a_i / a_i$ lies between $e^{-2\delta}$ and $e^{2\delta}$ and $\lvert \hat a_i - a_i\rvert \le a_i (e^{2\delta} - 1)$. Sum over $i$ and halve. (The best constant is $\tanh(\delta/2)$, half of this for small $\delta$.)
```

## Evidence

**Every head, every guess.** The share of the attention in the wrong place for *the* at position {{n}}, on the median text. In the last column BOS has its exact key, which the weights determine. The variance shares are those of this query, here and in Figure 2.3. MiniLM does not ship with the book. Its numbers in the text are over all of its {{= 12 =}} heads, whose sources are on both sides of $n$, and `tools/evidence/first_pages.py` makes them again. (The ledger of [chapter 8](08_real_model) has {{tv_smol}} for SmolLM2: its texts are others than those of chapter 13.)
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How close are the rows, head by head?"}
true_rows = cx.attention_rows(weights, X, n)  # text head source
scores = cx.decompose.approx_scores(weights, X, n)
direction = cx.decompose.qk_direction_at(weights, X[:, n], n)  # text head d_model
first_score = direction @ cx.layer_norm(W_E[X[:, :1]] + W_pos[0], eps).mT  # text head 1
kernel = cx.positional_kernels(weights, n, TOKEN)  # head source: softmax of p
of_token = cx.decompose.content_scores(weights, n, TOKEN)[:, X].transpose(0, 1)
guesses = {
    "uniform": torch.full_like(kernel, 1 / (n + 1)),
    "positions alone": kernel,
    "tokens alone": of_token.softmax(-1),
    "Equation 1": scores.softmax(-1),
    "Equation 1, BOS by its own key": torch.cat([first_score, scores[..., 1:]], -1).softmax(-1),
}
tv = {
    name: cx.total_variation(true_rows, row.expand_as(true_rows)).median(0).values
    for name, row in guesses.items()
}  # each: head
# how much of the error early in a text is that of BOS?
of_early = []  # TV before position 50 as published, and with BOS read by its own key
for tokens in (p.tokens[:50] for p in passages[::3]):
    c_all, p_all = cx.decompose.split_scores(weights, tokens, weights.queries(tokens))
    of_both = c_all + p_all  # head dest source
    length = (W_E[tokens[0]] + W_pos[:50]).norm(dim=-1)  # of BOS in E, at each dest
    in_P = (lengths[0] ** 2 + C**2).sqrt()
    bos = (c_all[..., 0] * length + p_all[..., 0] * in_P) / length[0]
    exact = cx.decompose.attention_pattern(weights, tokens)
    for s in (of_both, torch.cat([bos[..., None], of_both[..., 1:]], -1)):
        of_early.append(cx.total_variation(exact, cx.decompose.causal_softmax(s))[:, 1:].mean(1))
early_before, early_after = torch.stack(of_early).unflatten(0, (-1, 2)).mean(0) @ of_heads
pd.DataFrame({"variance share": share} | {k: of.numpy() for k, of in tv.items()}).round(2)

# %% [markdown]
r"""
**BOS, early in a text.** The vector of position 0 is long, as Figure 2.2 shows, but Equation 1 reads BOS as if it were at $n$, where the sum would be much shorter. So BOS gets too much attention, all the more when there are few other tokens: with BOS read by its own key, {{early_bos}} of the error before position {{= 50 =}} goes away. {{?early}} Further on, only heads {{by_bos}} still attend to BOS much. {{?half_by_bos}} They carry only {{by_bos_share}} of the variance, so we keep the published form. {{?bos}}

**The length $C$, late in a text.** The further back a source is, the more its position differs from the query's, and the larger is the positional part of its score. Equation 1 divides this part by a length that assumes a typical token of the vocabulary, but {{shorter}} of the tokens in texts are shorter than that. {{?mostly_shorter}} So the positional part comes out too small, and sources far back get too much attention. With the typical length of a text's tokens as $C$, more than a quarter of the error in the middle of a text goes away ([appendix A](A_scale)). {{?scale.a_quarter}} We have not explained all of the rise at the very end of the context.

**The ledger.** The distances are over all positions of the book's passages, as in Figure 2.3, weighted by variance share among the *broad* heads, those that spread over more than {{= 40 =}} tokens (how to count them is in [chapter 3](03_kernels)). Three lines fail. The worst head is one that attends to BOS. That tokens and positions are not orthogonal means little: move a constant vector from all positions to all tokens, and the angles change while no attention row does. And the best $C$ is larger than the median only in heads that contribute next to nothing. [Appendix A](A_scale) shows both.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Published claims, judged"}
broad = np.flatnonzero(cx.effective_tokens(kernel) > cx.heads.BROAD)
of_text = np.median(everywhere[..., 1:], -1)  # text head
level = everywhere[:, broad, 1:].mean((1, 2))
of_broad = {
    "weighted by variance share": lambda tv: np.average(tv, weights=share[broad]),
    "worst of the broad heads": max,
}


def typical_tv(name):
    """The claim on the broad heads' medians over texts, averaged, or of the worst."""
    over = lambda drawn: cb.over(np.median(of_text[drawn], 0), broad, of_broad[name])
    here = cb.with_interval(over, passages)
    return cb.Claim("tv", f"median TV, {name}", *here.for_claim, digits=3)


def over_some(octave):
    """The distance of the median head where C is so many octaves above the median length."""
    made = cx.approx_rows(weights, X[::5], n, C=float(C) * 2**octave)
    return cx.total_variation(true_rows[::5], made).median(0).values.median()


best = float(2 ** min(np.linspace(-1, 1, 9), key=over_some))
unit = torch.nn.functional.normalize
cosine = float((unit(W_E, dim=-1) @ unit(W_pos, dim=-1).T).abs().mean())
at_random = (2 / np.pi / d_model) ** 0.5  # the mean |cosine| of random directions
scales = layer_norm_scale(W_E[X[:, 1:]] + W_pos[1 : n + 1], eps)
narrowest, widest = 0.145, 0.1755  # half a unit of the last printed digit beyond 0.15 and 0.175
inside = cb.Claim(
    "norm_scale",
    f"share of LayerNorm's scales from {narrowest:g} to {widest:g}, all positions but the first",
    float(((scales >= narrowest) & (scales <= widest)).float().mean()),
)
cb.ledger(
    model,
    *map(typical_tv, of_broad),
    cb.Claim(
        "tv_alike",
        "texts whose mean TV is within a factor of 2 of the first's",
        float(((level / level[0] > 0.5) & (level / level[0] < 2)).float().mean()),
    ),
    cb.Claim(
        "orthogonal",
        "mean |cosine| of tokens and positions, over that of random directions",
        cosine / at_random,
        digits=1,
    ),
    cb.Claim("typical_norm", "best C over the median token norm, median head", best),
    *[inside] * (weights.n_heads == 12),  # a range of GPT-2 small's own
)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
words = [*map(str, cx.texts.decode_tokens(weights, x.tolist()))]
far, *_, near = [i for i, word in enumerate(words) if word == " planets"] * 2 or (n, n)
score = torch.einsum("hd,hid->hi", q, LN(W_E[x] + W_pos[: n + 1]) @ W_K) / scale
top, parts = influential[0], {"c": c, "p": p, "sum": c + p, "score": score}
of_near, of_far = ({k: cb.fact(v[top, i], ".2f") for k, v in parts.items()} for i in (near, far))
of_bos = [float((W_E[x[0]] + W_pos[i]).norm()) for i in (0, n)]  # its true length, and in E
on_bos = [float(r[:, worst, 0].mean()) for r in (true_rows, guesses["Equation 1"])]
kept = json.loads(cb.evidence("keys.json").read_text())
_, minilm_place, minilm_token, minilm_split = np.array(kept["TV"]) @ kept["share"]
_, place, token, split, _ = (float(of.numpy() @ share) for of in tv.values())
*_, by_split, by_mended = tv.values()
by_bos = np.flatnonzero(by_mended < by_split / 2)
ov = torch.einsum("hdk,hke,e->hd", weights.W_V, weights.W_O, weights.W_in[:, neuron])
value = torch.einsum("tid,hd->thi", study.fixed.exact.normalized_resid(X), ov)  # for the neuron
of_neuron, given = ((r * value).sum((1, 2)) for r in (true_rows, guesses["Equation 1"]))
received = float((given - of_neuron).square().mean().sqrt() / of_neuron.std())
received_r = float(np.corrcoef(of_neuron, given)[0, 1])
shorter = float((W_E[X[:, 1:]].norm(dim=-1) < C).float().mean())
rotary = cb.on_real("TV").loc["TV", ["Qwen", "SmolLM2"]].astype(float)
most = np.ceil(100 * float(weighted.max())) / 100  # "never above" bears no rounding down
percents = {"average": weighted.mean(), "most": most, "shorter": shorter}
percents |= {"early_bos": 1 - early_after / early_before}
percents |= {"minilm_token": minilm_token, "minilm_split": minilm_split}
percents |= {"tv_smol": rotary["SmolLM2"]}
for name, of in zip(("uniform", "place", "token", "split"), tv.values(), strict=False):
    percents |= {name: of.numpy() @ share, f"{name}_worst": of.max()}
tenths = {"by_bos_share": share[by_bos].sum(), "by_bos_before": by_split[by_bos].mean()}
tenths |= {"without_bos": changed[by_bos].mean()}
cb.facts(
    "keys",
    n=n,
    texts=len(X),
    passages=len(passages),
    neuron=neuron,
    worst=worst,
    by_bos=cb.listed(by_bos),
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    **{name: cb.fact(v, ".1%") for name, v in tenths.items()},
    **{f"{k}_near": v for k, v in of_near.items()},
    **{f"{k}_far": v for k, v in of_far.items()},
    top=top,
    relative=cb.fact(lengths[1:].median() / C, ".1f"),
    received_r=cb.fact(received_r, ".3f"),
    cosine=cb.fact(cosine / at_random, ".1f"),
    best_C=cb.fact(best, ".1f"),
    by_position=bool(c[top, near] == c[top, far] and p[top, near] > p[top, far]),
    far_too_large=abs((c + p - score)[top, near]) < cb.ABOUT < (c + p - score)[top, far]
    and float((W_E[x[far]] + W_pos[far]).norm())
    < 0.95 * float((W_E[x[far]].norm() ** 2 + W_pos[far].norm() ** 2).sqrt()),
    close=most < 1 - cb.NEARLY_ALL,
    short=lengths[1:].median() < cb.MOST * C and lengths[1:].max() < C,
    first_is_long=lengths[0] > C,
    rises=weighted.unfold(0, 50, 25).mean(-1).argmin() == 3,
    received_well=received_r > cb.ALMOST_EXACTLY and received**2 < 1 - cb.ALMOST_EXACTLY,
    early=early_after < cb.MOST * early_before,
    mostly_shorter=shorter > cb.MOST,
    worst_counts_little=share[worst] < 0.01,
    half_by_bos=len(by_bos) > 1 and worst in by_bos,
    needs_both=split < min(place, token) / 3,
    minilm=minilm_split < min(minilm_place, minilm_token) / 3,
    bos=of_bos[0] > 1.2 * of_bos[1] and on_bos[1] > on_bos[0] and share[by_bos].sum() < 0.05,
    token_matters=bool((changed[by_bos] < by_split[by_bos] / 2).all()),
    assumptions_fail=cosine / at_random > 2 and best > 1.5,
)

# %% [markdown]
r"""
## Where this comes from

The decomposition and its first figure are those of {cite:t}`gibson2025decomposing`. The argument from orthogonality is from the appendix of the earlier post {cite}`gibson2025contextual`. BOS's own key, the baselines and the account of the error are this book's. Writing attention as a circuit of queries and keys read from the residual stream follows {cite:t}`elhage2021framework`.
"""
