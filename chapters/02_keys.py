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
# Splitting a key into content and position

**A key is nearly the sum of a part for its token and a part for its position, so attention can be rebuilt from two tables: one for tokens, one for positions.** {{?close}} In `mini`, the small model of these pages, the rebuilt attention has {{average}} of its weight in the wrong place, on average over the positions of a text and over heads, where a head counts by its share of the variance from text to text. At no position is this average more than {{most}}.

Why only *nearly*? A token and its position are added ([chapter 1](01_first_layer)), and the key is a linear function of the sum. A linear function of a sum comes apart by itself: $(a + b)\,W = aW + bW$. So there should be nothing to do. Something must tie the two together, and there is only one suspect.
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
MODELS = None  # real models to run for what is kept: make evidence CHAPTER=02_keys

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the model and the texts"}
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
study = cx.study(weights, TEXTS, TOKEN)
passages, n, heads = study.passages, study.n, range(weights.n_heads)
# as many texts as take the memory of 1000 on the book's own model
several = study.texts[: max(100, int(1000 * 256 * 256 / (n * weights.d_model)))]
X = study.fixed.prepare(several)  # text source: TOKEN stands at n
x = study.fixed.prepare([study.example])[0]  # the page of astronomy
names = ["BOS", *map(str, cx.texts.decode_tokens(weights, x[1:].tolist()))]
who = study.head_variance_share  # how much of the variance between texts comes from each head
influential = sorted(who.nlargest(2).index)
W_E, W_pos, W_K = weights.W_E, weights.W_pos, weights.W_K
d_model, eps, scale = weights.d_model, weights.eps, weights.attn_scale  # sqrt(d_head)
print(study)

# %% [markdown]
r"""
## A length ties them together

It is LayerNorm. Before a head reads the sum, LayerNorm puts it on a sphere, that is, it divides it by its length:

$$
\text{key}_i \;=\; \sqrt{d_\text{model}}\;\frac{(W_E[x_i] + W_\text{pos}[i])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[i]\rvert}
$$ (eq-key)

Above the line, token and position are apart. Below it they are not. (We leave out the bias $b_K$, which no attention row depends on.) Let us see by hand what the length does. Let *moon* be the vector $(4, 0)$, and put it at three positions, whose vectors are $(0, 0)$, $(0, 1)$ and $(0, 3)$:
"""

# %% tags=["nbval-check-output"]
moon = torch.tensor([4.0, 0.0])
rows = []
for position in torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.0, 3.0]]):
    length = (moon + position).norm()
    rows.append([position.norm(), length, (moon / length)[0]])
columns = ["position's length", "sum's length", "moon's part"]
pd.DataFrame(rows, columns=columns).astype(float).round(2)

# %% [markdown]
r"""
The token is the same in all three lines, and its part of the key is not: it shrinks from {{= 1 =}} to {{= 0.97 =}} to {{= 0.8 =}}. If we write a single number for *moon* into a table, say the first, it is {{= 25% =}} too large at the third position, and only {{= 3% =}} at the second. So everything depends on how long positions are, compared with tokens. How long are they in the model?
"""

# %% tags=["hide-input"]
C = W_E.norm(dim=-1).median()  # a typical token's length
low, high = np.quantile(W_E[X[:, 1:]].norm(dim=-1), (0.05, 0.95))
lengths = W_pos.norm(dim=-1)
figure, ((axis,),) = cb.figures.panels(height=2.5, width=7.5)
axis.plot(lengths, color=cb.figures.COLORS[1])
axis.plot([0], lengths[:1], "o", ms=5, color=cb.figures.COLORS[1])
axis.axhspan(low, high, alpha=0.2)
axis.axhline(C, color=cb.figures.INK, lw=1, ls="--")
middle = len(lengths) / 2
axis.annotate("position 0", (0, lengths[0]), (8, 0), textcoords="offset points", va="center")
axis.annotate("positions", (middle, lengths[int(middle)]), (0, 6), textcoords="offset points")
axis.annotate("tokens of texts (middle 90%)", (middle, low), (0, 6), textcoords="offset points")
axis.annotate("C", (len(lengths), C), (-8, 4), textcoords="offset points")
axis.set(xlabel="position i", ylabel="length", ylim=(0, None))
cb.figures.picture(
    figure,
    "2.1",
    "The length of every position's vector (orange), beside those of the tokens that texts are made of (band). C is the median over the vocabulary. Where the orange curve is far below the band, the token alone nearly decides the length of the sum.",
    f"A curve that starts at {lengths[0]:.2f} at position 0, is {lengths[n]:.2f} at n = {n} and {lengths[-1]:.2f} at the end; tokens lie between {low:.2f} and {high:.2f}, C is {C:.2f}.",
)

# %% [markdown]
r"""
A typical position is {{relative}} times as long as a typical token, so nearly everywhere the token makes most of the length. {{?short}} Position 0, where BOS stands in every text, is the exception: its vector is longer than a typical token. {{?first_is_long}}

## Equation 1

We look from position $n$, and the query token there is given. Which length should we write into the table for tokens? The published split {cite}`gibson2025decomposing` takes the length that the token would have *at n*. To do so it adds a zero:

$$
\begin{aligned}
W_E[x_i] + W_\text{pos}[i] \;=\;\; & \underbrace{W_E[x_i] + W_\text{pos}[n]}_{\text{the token, as if it stood at } n} \\
+\;\; & \underbrace{W_\text{pos}[i] - W_\text{pos}[n]}_{\text{from } n \text{ to } i}
\end{aligned}
$$ (eq-zero)

Then each part gets a length of its own. That of the token must not mention $i$; it is the length at $n$. That of the position must not mention $x_i$. For it we pretend that the token has a typical length $C$ and stands at right angles to the position, as *moon* does above. Pythagoras then gives $\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}$.

$$
\begin{aligned}
\text{key}_i \approx\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_E[x_i] + W_\text{pos}[n])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[n]\rvert}}_{E[n,\,x_i]} \\
+\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_\text{pos}[i] - W_\text{pos}[n])\,W_K}{\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}}}_{P[n,\,i]}
\end{aligned}
$$ (eq-split)

This is Equation 1 of the paper, as this book reads it. For a given position $n$ of the query, $E$ is a table with a row per token and $P$ a table with a row per position; another $n$ has another pair of tables. A score becomes a sum of two numbers, $c_i = q_n \cdot E[n, x_i] / \sqrt{d_\text{head}}$ for the token and $p_i = q_n \cdot P[n, i] / \sqrt{d_\text{head}}$ for the position. In code, for one page:
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
true = cx.attention_rows(weights, x, n)

# %% [markdown]
r"""
At $i = n$ the second part is zero and the first is exact, so there the equation makes no error at all.

## How much attention is in the wrong place?

Compare two rows. Suppose the true row of a head gives BOS, *moon* and *the* the shares {{= 0.05 =}}, {{= 0.60 =}} and {{= 0.35 =}}, and a guess gives them {{= 0.10 =}}, {{= 0.60 =}} and {{= 0.30 =}}. Then {{= 5% =}} of the attention is in the wrong place: the guess has moved it from *the* to BOS. In general this is the **total variation distance**,

$$
\text{TV} \;=\; \tfrac12 \sum_{i \le n} \lvert a_i - \hat a_i \rvert ,
$$ (eq-tv)

with $a_i$ the true row and $\hat a_i$ the guess. *In the wrong place* always means this distance. We compute it for every head and every position of the book's {{passages}} passages, each position with the token that stands there as its query.
"""


# %%
def along(tokens):
    """TV of true and rebuilt rows at every position of a text: head dest."""
    exact = cx.decompose.attention_pattern(weights, tokens)
    return cx.total_variation(exact, cx.decompose.approx_pattern(weights, tokens))


everywhere = torch.stack([along(p.tokens[: study.length]) for p in passages])  # text head dest
misplaced = everywhere.mean(0)[:, 1:]  # head dest; at position 0 there is but one source
weighted = torch.tensor(who.to_numpy()).float() @ misplaced  # dest

# %% tags=["hide-input"]
positions, colors = np.arange(1, study.length), cb.figures.COLORS
figure, ((axis,),) = cb.figures.panels(height=3.4, width=7.5)
worst, at = int(misplaced.mean(1).argmax()), study.length // 10
for h in heads:
    style = cb.figures.head_style(h) if h in (worst, *influential) else {"color": "0.75"}
    axis.plot(positions, misplaced[h], lw=0.9, **style)
axis.plot(positions, weighted, color=cb.figures.INK, lw=2.4)
marks = [(f"head {worst}", misplaced[worst], at), ("weighted mean", weighted, 3 * at)]
marks += [(f"head {h}", misplaced[h], study.length * 3 // 4) for h in influential]
for name, curve, i in marks:
    axis.annotate(name, (i, curve[i]), (0, 5), textcoords="offset points", fontsize=9)
axis.set(xlabel="position of the query", ylabel="attention in the wrong place", ylim=(0, None))
axis.yaxis.set_major_formatter("{x:.0%}")
cb.figures.picture(
    figure,
    "2.2",
    f"How far rebuilt attention is from true attention along the text: mean over {len(passages)} passages, a thin line per head, grey where a head hardly contributes. The thick line is their mean, in which a head counts by its variance share. This is the paper's first figure, for <code>{MODEL}</code>.",
    f"Curves along positions 1 to {study.length - 1}. The weighted mean is {weighted[3]:.3f} at position 4, {weighted[99]:.3f} at position 100 and {weighted[-1]:.3f} at the end. Means along the text: {cb.figures.by_head(misplaced.mean(1), '.3f')}.",
)

# %% [markdown]
r"""
The thick line never gets above {{most}}. {{?close}} The paper reports about {{= 5% =}} for GPT-2 small. The line is lowest where the query is about a hundred tokens into the text. Further on it rises again, in head {{first}} up to {{late}}. There position vectors are longer (Figure 2.1), so the length of a sum depends more on where the token is. {{?rises}} The highest thin line is head {{worst}}, but its variance share is only {{worst_share}}. {{?worst_is_silent}}

Is that good? Compare it with simpler guesses, this time for one query, *the* at position {{n}}, on {{texts}} texts:

| guess | in the wrong place, weighted mean | in the head where it does worst |
| --- | --- | --- |
| uniform attention | {{even}} | {{even_worst}} |
| positions alone, the softmax of $p_i$ | {{place}} | {{place_worst}} |
| tokens alone, the softmax of $c_i$ | {{token}} | {{token_worst}} |
| both, Equation 1 | {{split}} | {{split_worst}} |

Tokens alone put {{token}} of the attention in the wrong place; with positions, {{split}}. {{?needs_both}} It is not a peculiarity of a model made for a book: in the first layer of MiniLM, an encoder that people use to compare sentences, positions alone put {{minilm_place}} of the attention in the wrong place, tokens alone {{minilm_token}}, and Equation 1 only {{minilm_split}}. {{?minilm}} Models that rotate queries and keys are harder: with the split that takes the place of Equation 1 there ([chapter 13](13_families)), {{tv_qwen}} is misplaced in Qwen and {{tv_smol}} in SmolLM2, among the heads that read a text as a whole.

## What can go wrong

Equation 1 leaves the numerators as they are, so a score can only be wrong through its two lengths. With $\ell_i$ for the true length, $\ell_i^n$ for the one in $E$ and $\bar\ell_i$ for the one in $P$, the error of a score is exactly

$$
\delta_i \;=\; c_i \left( 1 - \frac{\ell_i^n}{\ell_i} \right) \;+\; p_i \left( 1 - \frac{\bar\ell_i}{\ell_i} \right) .
$$ (eq-error)

A source gets $e^{\delta_i}$ times its weight, before the row is made to sum to one. So an error matters only where three things meet: the score has a large part, a length is wrong, and the head attends to the source.
"""

# %% tags=["hide-input"]
figure, (axes,) = cb.figures.panels(1, 3, width=8.6, height=2.9, sharex=True, sharey=True)
for axis, h in zip(axes, (*influential, worst), strict=True):
    axis.plot([1e-5, 1], [1e-5, 1], color=cb.figures.INK, lw=0.8, ls=":")
    axis.plot(true[h, 1:], rebuilt[h, 1:], ".", ms=3, alpha=0.6)
    axis.plot(true[h, :1], rebuilt[h, :1], "D", ms=6, color=colors[1])
    beside = {"textcoords": "offset points", "ha": "right"}
    axis.annotate("BOS", (true[h, 0], rebuilt[h, 0]), (-6, 3), **beside)
    axis.set(xscale="log", yscale="log", xlabel="true weight", title=f"head {h}")
    axis.set(xlim=(1e-4, 0.6), ylim=(1e-4, 0.6))
axes[0].set_ylabel("rebuilt weight")
cb.figures.picture(
    figure,
    "2.3",
    f"A dot per source of “{study.example.subject}”: its weight in the true row and in the rebuilt one, in the two influential heads and in head {worst}. A dot above the dotted line gets too much.",
    f"Scatter plots near the diagonal. BOS gets, in truth, {cb.figures.by_head(true[:, 0])}, and in the rebuilt rows {cb.figures.by_head(rebuilt[:, 0])}.",
)

# %% [markdown]
r"""
**Distant tokens, in head {{first}}.** Nearly all of what head {{first}} gives away wrongly goes to sources more than {{= 20 =}} tokens back. {{?far_share}} It gives *{{far_token}}*, {{far_back}} tokens back, {{far_factor}} times its weight, because both parts of the score are too high. The distance should lower the score by {{far_due}}. It lowers it by only {{far_given}}, because the token is shorter than $C$. And the token's own part is {{far_token_error}} too high, because at $n$ the sum would be a little shorter than it is {{far_back}} tokens earlier. {{?far}} In head {{second}} position changes scores little, so its rows are almost exact. {{?second_is_flat}} Tokens of texts are frequent ones, and shorter than the median of the vocabulary; [appendix A](A_scale) tries other constants.

**BOS, in heads that contribute little.** Position 0 has the long vector of Figure 2.1, but Equation 1 reads BOS as if it stood at $n$, where the sum would be much shorter. So it gets too much attention, and this makes more than half of the error of heads {{by_bos}}. {{?half_by_bos}} Reading BOS by its own key would bring their average from {{by_bos_before}} to {{by_bos_after}}. We keep Equation 1 as published all the same: what we judge is the published equation, and together these heads have {{by_bos_share}} of the variance. {{?bos}}

**No position vectors.** Rotary positions are not added to anything. [Chapter 13](13_families) splits scores there, instead of keys.

Some of the published claims about Equation 1 fail on `mini`. The ledger under Evidence lists them, with the reasons; none concerns the rows of heads {{first}} and {{second}}.

## Turn it

Choose a passage, a head, a position and a $C$, and the page computes both rows from the weights. Halve $C$ in head {{first}}, and then in head {{second}}: which of them changes more?
"""

# %% tags=["hide-input"]
passage = next((k for k, p in enumerate(passages) if p.domain == "astronomy"), 0)
tokens, shown = passages[passage].tokens[: study.length], study.heads[0]
two = [rows(weights, tokens, n)[shown] for rows in (cx.attention_rows, cx.approx_rows)]
distance = float(cx.total_variation(*two))
figure, ((axis,),) = cb.figures.panels(height=2.6, width=7.5)
axis.plot(n - np.arange(n + 1), two[0], lw=1.2, label="true")
axis.plot(n - np.arange(n + 1), two[1], lw=1.2, ls="--", label="rebuilt")
axis.set(xlabel="tokens back, n − i", ylabel="attention", title=f"head {shown}, n = {n}")
axis.invert_xaxis()
axis.legend()
picture = cb.figures.picture(
    figure,
    "2.4",
    f"True and rebuilt row of head {shown} at n = {n} of “{passages[passage].subject}”, with its own token as the query; C = {C:.2f}. Distance {distance:.3f}.",
    f"True and rebuilt row of head {shown}; distance {distance:.3f}.",
)
cv.Rows(weights, passage=passage, head=shown, n=n, picture=picture)

# %% [markdown]
r"""
## Where this leaves us

A score is now a sum, $c_i + p_i$, of one number for the token and one for the position. A softmax turns sums into products: $e^{c_i + p_i} = e^{c_i} e^{p_i}$. So as long as the query is given, each head has one curve over positions, the same for all texts, and one number for each token of the vocabulary. *Planets* added much to our neuron when it stood near the end of the page, and almost nothing two hundred tokens earlier. The curve should tell us why. How far back does a head look? That is [chapter 3](03_kernels).

## Exercises

1. *Predict, then run.* Is it the token BOS that Equation 1 reads wrongly, or is it position 0? Put *the* at position 0 of every text and rebuild the rows again. Will the error of heads {{by_bos}} stay as it was?
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "With another token at position 0"}
other = X.clone()
other[:, 0] = weights.token_id(TOKEN)
there = cx.attention_rows(weights, other, n)
changed = cx.total_variation(there, cx.approx_rows(weights, other, n)).median(0).values
pd.DataFrame({"TV of the median text, without BOS": changed.tolist()}).rename_axis("head").round(3)

# %% [markdown]
r"""
2. *Fill in.* Write Equation 1 without looking up, and run the cell below it.
"""


# %%
def equation_1(x, n):
    """The two halves of the key of every source 0 ... n, each of shape head source d_head."""
    E = ...
    P = ...
    return E, P


# %% tags=["hide-input", "nbval-check-output"]
package = cx.decompose.content_keys(weights, n, x), cx.decompose.positional_keys(weights, n)
for name, mine, wanted in zip("EP", equation_1(x, n), package, strict=True):
    if mine is ...:
        print(name, "not yet")
    elif mine.shape != wanted.shape:
        print(name, "has shape", tuple(mine.shape), "and should have", tuple(wanted.shape))
    else:
        print(name, "right" if torch.allclose(mine, wanted, atol=1e-3) else "differs")

# %% [markdown]
r"""
3. *Prove.* Let $s_i$ be the exact and $\hat s_i$ the rebuilt scores. Show that TV is at most $\tfrac12(e^{2\delta} - 1)$ when no score is wrong by more than $\delta$, up to one constant for the row.

```{admonition} Solutions
:class: dropdown

1. Not position 0 alone: without BOS the error of heads {{by_bos}} falls from {{by_bos_before}} to {{without_bos}} on average, and the attention on position 0 from {{on_first}} to {{on_first_without}}. {{?token_matters}} The length at position 0 is as wrong as before, but these heads give it less attention when *the* is the query.
2. `E = LN(W_E[x[: n + 1]] + W_pos[n]) @ W_K`, and with `shared` as above `P = (W_pos[: n + 1] - W_pos[n]) / shared[:, None] @ W_K`.
3. Each $e^{\hat s_i}$ lies within a factor $e^{\pm\delta}$ of $e^{s_i}$, and so does the denominator, so $\hat a_i / a_i$ lies between $e^{-2\delta}$ and $e^{2\delta}$ and $\lvert \hat a_i - a_i\rvert \le a_i (e^{2\delta} - 1)$. Sum over $i$ and halve. (The best constant is $\tanh(\delta/2)$, half of this for small $\delta$.)
```

## Evidence

**Every head, every guess.** The share of the attention in the wrong place for *the* at position {{n}}, on the median text. The last column reads BOS by its own key, which is known from the weights alone. The variance shares are those of this query, here and in Figure 2.2.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How close are the rows, head by head?"}
true_rows = cx.attention_rows(weights, X, n)  # text head source
scores = cx.decompose.approx_scores(weights, X, n)
direction = cx.decompose.qk_direction_at(weights, X[:, n], n)  # text head d_model
first_score = direction @ cx.layer_norm(W_E[X[:, :1]] + W_pos[0], eps).mT  # text head 1


def with_own_bos(scores):
    """The rows of these scores, with the first source read by its own key."""
    return torch.cat([first_score, scores[..., 1:]], -1).softmax(-1)


kernel = cx.positional_kernels(weights, n, TOKEN)  # head source: softmax of p
of_token = cx.decompose.content_scores(weights, n, TOKEN)[:, X].transpose(0, 1)
guesses = {
    "uniform": torch.full_like(kernel, 1 / (n + 1)),
    "positions alone": kernel,
    "tokens alone": of_token.softmax(-1),
    "Equation 1": scores.softmax(-1),
    "Equation 1, BOS by its own key": with_own_bos(scores),
}
tv = {
    name: cx.total_variation(true_rows, row.expand_as(true_rows)).median(0).values
    for name, row in guesses.items()
}  # each: head
shown = pd.DataFrame({name: [f"{v:.2f}" for v in of_heads] for name, of_heads in tv.items()})
shown.insert(0, "variance share", who.map("{:.0%}".format))
shown.rename_axis("head")

# %% [markdown]
r"""
**Four sources in numbers.** BOS; the far source of head {{first}} that gets most attention too much; the source with the largest weight; and *the* itself. The two parts of a score are {eq}`eq-error`'s $c$ and $p$, and the last column is $e^{\delta}$.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Where do the errors of a row come from?"}
at_i = (W_E[x] + W_pos[: n + 1]).norm(dim=-1)  # the true length
at_n = (W_E[x] + W_pos[n]).norm(dim=-1)  # in its place in E
typical = (W_pos[: n + 1].square().sum(-1) + C**2).sqrt()  # in its place in P
delta = c * (1 - at_n / at_i) + p * (1 - typical / at_i)  # head source
first, second = influential
far = int((true[first] * delta[first].expm1().abs())[1 : n - 20].argmax()) + 1
four = [0, far, int(true[first].argmax()), n]
columns = {
    "true length": at_i,
    "in E": at_n,
    "in P": typical,
    "c": c[first],
    "p": p[first],
    "c + p": (c + p)[first],
    "true score": (c + p - delta)[first],
    "rebuilt / true weight": delta[first].exp(),
}
by_source = {k: [f"{float(v[i]):.2f}" for i in four] for k, v in columns.items()}
pd.DataFrame({"i": four} | by_source, index=[names[i] for i in four])

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
kept = json.loads(cb.evidence("keys.json").read_text())
shares, (_, *of_minilm) = np.array(kept["speaks"]), np.array(kept["TV"])
minilm_place, minilm_token, minilm_split = (float(v @ shares) for v in of_minilm)
even, place, token, split, mended = (float((v.numpy() * who).sum()) for v in tv.values())
_, *by_parts, by_split, by_mended = tv.values()
by_bos = [h for h in heads if by_mended[h] < by_split[h] / 2]
on_first = [float(r[:, by_bos, 0].mean()) for r in (true_rows, there)]
rest = float(lengths[1:].median())
most = np.ceil(100 * float(weighted.max())) / 100  # "no more than" bears no rounding down
cb.facts(
    "keys",
    average=cb.fact(weighted.mean(), ".0%"),
    most=cb.fact(most, ".0%"),
    close=most < 1 - cb.NEARLY_ALL,
    relative=cb.fact(rest / C, ".1f"),
    short=rest < cb.MOST * float(C) and float(lengths[1:].max()) < float(C),
    first_is_long=lengths[0] > C,
    passages=len(passages),
    worst=worst,
    late=cb.fact(misplaced[first, study.length // 5 :].unfold(0, 20, 1).mean(-1).max(), ".0%"),
    rises=weighted.unfold(0, 50, 25).mean(-1).argmin() == 3 and lengths[-50:].mean() > lengths[75:125].mean(),
    worst_share=cb.fact(who[worst], ".1%"),
    worst_is_silent=who[worst] < 0.01,
    n=n,
    texts=len(X),
    **{name: cb.fact(v, ".0%") for name, v in {"even": even, "place": place, "token": token, "split": split}.items()},
    **{f"{name}_worst": cb.fact(v.max(), ".0%") for name, v in zip(("even", "place", "token", "split"), tv.values(), strict=False)},
    needs_both=split < min(place, token) / 3,
    minilm_place=cb.fact(minilm_place, ".0%"),
    minilm_token=cb.fact(minilm_token, ".0%"),
    minilm_split=cb.fact(minilm_split, ".0%"),
    minilm=minilm_split < min(minilm_place, minilm_token) / 3,
    tv_qwen=cb.fact(float(cb.on_real("TV").loc["TV", "Qwen"]), ".0%"),
    tv_smol=cb.fact(float(cb.on_real("TV").loc["TV", "SmolLM2"]), ".0%"),
    bos=delta[worst, 0].exp() > 1.5 and at_i[0] > 1.2 * at_n[0] and who[by_bos].sum() < 0.05,
    by_bos_share=cb.fact(who[by_bos].sum(), ".1%"),
    by_bos=cb.listed(by_bos),
    half_by_bos=len(by_bos) > 1 and worst in by_bos,
    by_bos_before=cb.fact(by_split[by_bos].mean(), ".1%"),
    by_bos_after=cb.fact(by_mended[by_bos].mean(), ".1%"),
    without_bos=cb.fact(changed[by_bos].mean(), ".1%"),
    on_first=cb.fact(on_first[0], ".0%"),
    on_first_without=cb.fact(on_first[1], ".1%"),
    token_matters=bool((changed[by_bos] < by_split[by_bos] / 2).all()) and on_first[1] < on_first[0] / 2,
    first=first,
    second=second,
    far_share=bool((rebuilt - true)[first].clamp(min=0)[: n - 20].sum() > cb.NEARLY_ALL * (rebuilt - true)[first].clamp(min=0).sum()),
    second_is_flat=p[second].std() < p[first].std() / 2 and by_split[second] < 0.03,
    far_token_error=cb.fact((c * (1 - at_n / at_i))[first, far], ".2f"),
    far_token=names[far].strip(),
    far_back=n - far,
    far_given=cb.fact(-p[first, far], ".2f"),
    far_due=cb.fact(-p[first, far] * typical[far] / at_i[far], ".2f"),
    far_factor=cb.fact(delta[first, far].exp(), ".2f"),
    far=p[first, far] < 0 < c[first, far] and at_n[far] < at_i[far] < typical[far],
)  # fmt: skip

# %% [markdown]
r"""
**MiniLM, head by head.** An encoder with {{= 12 =}} heads in its first layer and learned positions that are added: Equation 1's case. Its sources stand on both sides of $n$. The model does not ship with the book; the numbers are kept, and `make evidence CHAPTER=02_keys` makes them again.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How close are the rows of MiniLM?"}
def rows_of(name, n=128, many=200):
    """TV of four guesses by head and the heads' variance shares, of the model itself."""
    real = cx.load(name, layers=1)
    some = cx.texts.collection(cx.texts.Reader.of(real, 2 * n), many)
    fixed = cx.fix_query(real, some, n)
    parts = []
    for few in fixed.prepare(some).split(25):
        exact, ours = fixed.exact.rows(few), fixed.decomposition.rows(few)
        by_content = fixed.decomposition.content[:, few].transpose(0, 1)
        guesses = (
            torch.full_like(exact, 1 / exact.shape[-1]),
            fixed.decomposition.kernels.expand_as(exact),
            by_content / by_content.sum(-1, keepdim=True),
            ours,
        )
        parts.append(torch.stack([cx.total_variation(exact, guess) for guess in guesses]))
    files = cx.models.real_models()[name]["files"]
    source = next(file for file in files if file.endswith("safetensors"))
    medians = torch.cat(parts, 1).quantile(0.5, dim=1)
    return {
        "source": source,
        "sha256": files[source],
        "n": n,
        "texts": len(some),
        "speaks": cx.denominators.head_variance_share(fixed, some[::2]).round(4).tolist(),
        "TV": [[round(v, 4) for v in row.tolist()] for row in medians],
    }


if MODELS and "minilm" in MODELS:
    cb.evidence("keys.json").write_text(json.dumps(rows_of("minilm")) + "\n")
of_heads = pd.DataFrame(dict(zip(list(tv)[:4], kept["TV"], strict=True))).map("{:.2f}".format)
of_heads.insert(0, "variance share", [f"{v:.0%}" for v in shares])
of_heads.rename_axis("head")

# %% [markdown]
r"""
**Another zero.** The zero of {eq}`eq-zero` could be any vector. With the mean position in place of $W_\text{pos}[n]$ and BOS read by its own key, rows come nearer in {{gaining}} of the {{all}} heads, from {{gain_before}} to {{gain_after}} of the attention in the wrong place. Only head {{losing}} loses, the head that looks back least far. {{?one_loses}} [Appendix A](A_scale) says what the zero is for.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "With the mean position as the zero"}
m = W_pos[: n + 1].mean(0)
as_if_at_m = layer_norm_scale(W_E[X] + m, eps).mT  # text 1 source
content, moved = direction @ (W_E[X] + m).mT, direction @ (W_pos[: n + 1] - m).mT
by_m = cx.total_variation(true_rows, with_own_bos(content / as_if_at_m + moved / shared))
by_m = by_m.median(0).values
gain = [h for h in heads if by_m[h] < by_mended[h]]
lose = [h for h in heads if h not in gain]
cb.facts(
    "keys",
    gaining=cb.fact(len(gain), "words"),
    all=cb.fact(len(heads), "words"),
    gain_before=cb.fact(by_mended[gain].mean(), ".1%"),
    gain_after=cb.fact(by_m[gain].mean(), ".1%"),
    losing=cb.listed(lose),
    one_loses=lose == [int(study.head_table["half-mass distance"].argmin())],
)

# %% [markdown]
r"""
**The ledger.** The distances are over all positions of the book's passages, as in Figure 2.2, weighted by variance share among the *broad* heads, whose kernels cover more than {{= 40 =}} tokens ([chapter 3](03_kernels)). Three lines fail. The worst head is one that attends to BOS. That tokens and positions are not orthogonal means little: move a constant vector from all positions to all tokens, and the angles change while no attention row does. And the best $C$ is larger than the median only in heads that contribute next to nothing. [Appendix A](A_scale) shows both.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Published claims, judged"}
broad = [h for h in heads if study.head_table["effective tokens"][h] > cx.heads.BROAD]
of_dest = everywhere[..., 1:].numpy()  # text head dest
of_text = np.median(of_dest, -1)  # text head
level = of_dest[:, broad].mean((1, 2)) if broad else np.full(2, np.nan)


def by_share(values):
    """Their mean, weighted by variance share."""
    return float(np.average(values, weights=who[broad]))


def typical_tv(name, summary):
    """The claim on a summary, over the broad heads, of their median over texts."""

    def median(drawn):
        return cb.over(np.median(of_text[drawn], 0), broad, summary)

    here = cb.with_interval(median, passages)
    return cb.Claim("tv", f"median TV, {name}", *here.for_claim, digits=3)


def over_some(octave):
    """The distance of the middle head where C is so many octaves above the median."""
    made = cx.approx_rows(weights, X[::5], n, C=float(C) * 2**octave)
    return cx.total_variation(true_rows[::5], made).median(0).values.median()


best = min(np.linspace(-1, 1, 9), key=over_some)
unit = torch.nn.functional.normalize
cosine = float((unit(W_E, dim=-1) @ unit(W_pos, dim=-1).T).abs().mean())
scales = layer_norm_scale(W_E[X[:, 1:]] + W_pos[1 : n + 1], eps)
narrowest, widest = 0.145, 0.1755  # half a unit of the last printed digit beyond 0.15 and 0.175
inside = cb.Claim(
    "norm_scale",
    f"share of LayerNorm's scales from {narrowest:g} to {widest:g}, all positions but the first",
    float(((scales >= narrowest) & (scales <= widest)).float().mean()),
)
cb.ledger(
    model,
    typical_tv("weighted by variance share", by_share),
    typical_tv("worst of the broad heads", max),
    cb.Claim(
        "tv_alike",
        "texts whose mean TV is within a factor of 2 of the first's",
        float(((level / level[0] > 0.5) & (level / level[0] < 2)).mean()) if broad else np.nan,
    ),
    cb.Claim(
        "orthogonal",
        "mean |cosine| of tokens and positions, over that of random directions",
        cosine * d_model**0.5,
        digits=1,
    ),
    cb.Claim("typical_norm", "best C over the median token norm, middle head", float(2**best)),
    *[inside] * (weights.n_heads == 12),  # a range of GPT-2 small's own
)

# %% [markdown]
r"""
**On real models**, kept from [chapter 8](08_real_model): TV of the heads that read a text as a whole (*stable*, [chapter 4](04_denominators)), weighted by variance share. Of MiniLM's these are nine; the table above has all of them. Qwen and SmolLM2 rotate queries and keys, and their split is that of [chapter 13](13_families).
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The distance in real models"}
cb.on_real("TV")

# %% [markdown]
r"""
## Where this comes from

The decomposition and its first figure are those of {cite:t}`gibson2025decomposing`. The argument from orthogonality and the claim about the centre are from the appendix of the earlier post {cite}`gibson2025contextual`. BOS's own key, the baselines and the account of the error are this book's. Writing attention as a circuit of queries and keys read from the residual stream follows {cite:t}`elhage2021framework`.
"""
