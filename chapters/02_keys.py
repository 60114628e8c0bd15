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

**A key is nearly the sum of a part for its token and a part for its position, so for a given query attention can be rebuilt from two tables: one for tokens, one for positions.** {{?close}} In `mini`, the small model of these pages, the two tables misplace {{average}} of the attention. Neuron {{neuron}}, which we follow through the book, hardly notices: what it receives through the rebuilt attention is typically wrong by {{received}} of its standard deviation between texts. {{?received_well}}

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
neuron = min(496, weights.n_neurons - 1)  # the one that the first six chapters follow
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

We look from position $n$, and the query token there is given. Which length should we write into the table for tokens? The published split {cite}`gibson2025decomposing` takes the length that the token would have *at n*, which is right for the query token itself and nearly right for its neighbours. To do so it adds a zero:

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
share = torch.tensor(who.to_numpy()).float()
weighted = share @ misplaced  # dest

# %% tags=["hide-input"]
positions, colors = np.arange(1, study.length), cb.figures.COLORS
figure, ((axis,),) = cb.figures.panels(height=3.4, width=7.5)
worst, at = int(misplaced.mean(1).argmax()), study.length // 10
shown = dict(zip((*influential, worst), colors, strict=False))
for h in sorted(heads, key=lambda h: h in shown):  # those in colour come last
    axis.plot(positions, misplaced[h], lw=0.9, color=shown.get(h, "0.75"))
axis.plot(positions, weighted, color=cb.figures.INK, lw=2.4)
marks = [(f"head {worst}", misplaced[worst], at), ("weighted mean", weighted - 0.02, 5 * at)]
marks += [(f"head {h}", misplaced[h], study.length * 3 // 4) for h in influential]
for name, curve, i in marks:
    axis.annotate(name, (i, curve[i]), (0, 5), textcoords="offset points", fontsize=9)
axis.set(xlabel="position of the query", ylabel="attention in the wrong place", ylim=(0, None))
axis.yaxis.set_major_formatter("{x:.0%}")
cb.figures.picture(
    figure,
    "2.2",
    f"How far rebuilt attention is from true attention along the text: mean over {len(passages)} passages, a thin line per head, in colour the two influential heads and the one where it goes worst. The thick line is their mean, in which a head counts by its variance share. This is the paper's first figure, for <code>{MODEL}</code>.",
    f"Curves along positions 1 to {study.length - 1}. The weighted mean is {weighted[3]:.3f} at position 4, {weighted[99]:.3f} at position 100 and {weighted[-1]:.3f} at the end. Means along the text: {cb.figures.by_head(misplaced.mean(1), '.3f')}.",
)

# %% [markdown]
r"""
The thick line never gets above {{most}}. {{?close}} The paper reports about {{= 5% =}} for GPT-2 small. The highest thin line is head {{worst}}, but its variance share is only {{worst_share}}. {{?worst_is_silent}} The thick line is lowest where the query is about a hundred tokens into the text. {{?rises}} Why it is higher before and after, we shall see.

Is that good? Compare it with simpler guesses, this time for one query, *the* at position {{n}}, on {{texts}} texts:

| guess | in the wrong place, weighted mean | in the head where it does worst |
| --- | --- | --- |
| uniform attention | {{even}} | {{even_worst}} |
| positions alone, the softmax of $p_i$ | {{place}} | {{place_worst}} |
| tokens alone, the softmax of $c_i$ | {{token}} | {{token_worst}} |
| both, Equation 1 | {{split}} | {{split_worst}} |

Tokens alone put {{token}} of the attention in the wrong place; with positions, {{split}}. {{?needs_both}} For neuron {{neuron}} that is good enough: over these texts, what the heads add to it through rebuilt attention has a correlation of {{received_r}} with what they add in the model. {{?received_well}}

Nor is `mini` a special case. In the first layer of MiniLM, an encoder that people use to compare sentences, Equation 1 misplaces {{minilm_split}} of the attention, where positions alone misplace {{minilm_place}} and tokens alone {{minilm_token}}. {{?minilm}}

It goes about three times worse in models that rotate queries and keys instead of adding positions. They need another split ([chapter 13](13_families)), and it misplaces {{tv_qwen}} in Qwen and {{tv_smol}} in SmolLM2, among the heads that read a text as a whole. {{?rotary}}

## What can go wrong

Equation 1 leaves the numerators as they are, so a score can only be wrong through its two lengths. With $\ell_i$ for the true length, $\ell_i^n$ for the one in $E$ and $\bar\ell_i$ for the one in $P$, the error of a score is exactly

$$
\delta_i \;=\; c_i \left( 1 - \frac{\ell_i^n}{\ell_i} \right) \;+\; p_i \left( 1 - \frac{\bar\ell_i}{\ell_i} \right) .
$$ (eq-error)

A source gets $e^{\delta_i}$ times its weight, before the row is made to sum to one. So an error matters only where three things meet: the score has a large part, a length is wrong, and the head attends to the source.
"""


# %% tags=["hide-input"]
def repaired(tokens):
    """TV along a text with BOS read by its own key, and then with each token's own length in P."""
    exact = cx.decompose.attention_pattern(weights, tokens)
    c, p = cx.decompose.split_scores(weights, tokens, weights.queries(tokens))  # head dest source
    token, place = W_E[tokens].norm(dim=-1), lengths[: len(tokens)]
    typical, own = (place**2 + C**2).sqrt(), (place**2 + token**2).sqrt()
    bos_at = (W_E[tokens[0]] + W_pos[: len(tokens)]).norm(dim=-1)  # its length at each dest
    bos = (c[..., 0] * bos_at + p[..., 0] * typical[0]) / bos_at[0]
    both = [torch.cat([bos[..., None], s[..., 1:]], -1) for s in (c + p, c + p * typical / own)]
    return torch.stack([cx.total_variation(exact, cx.decompose.causal_softmax(s)) for s in both])


mended = torch.stack([repaired(p.tokens[: study.length]) for p in passages]).mean(0)
steps = [weighted, *(share @ mended[..., 1:])]  # each: dest
figure, ((axis,),) = cb.figures.panels(height=2.6, width=7.5)
named = ("Equation 1", "BOS read by its own key", "and each token's own length in place of C")
for curve, color in zip(steps, (cb.figures.INK, *colors[1::-1]), strict=True):
    axis.plot(positions, curve, color=color, lw=1.4)
axis.set(xlabel="position of the query", ylabel="in the wrong place", ylim=(0, None))
axis.yaxis.set_major_formatter("{x:.0%}")
axis.legend(named, fontsize=9)
cb.figures.picture(
    figure,
    "2.3",
    "The thick line of Figure 2.2 again (black), and what is left of it when BOS is read by its own key (orange), and when each token's own length also takes the place of <em>C</em> (blue).",
    "Three curves. "
    + "; ".join(
        f"{name}: {c[9]:.3f} at position 10, {c[99]:.3f} at 100, {c[399]:.3f} at 400, {c[-1]:.3f} at the end"
        for name, c in zip(named, steps, strict=True)
    )
    + ".",
)

# %% [markdown]
r"""
**BOS, early in a text.** Position 0 has the long vector of Figure 2.1, but Equation 1 reads BOS as if it stood at $n$, where the sum would be much shorter. So BOS gets too much attention, the more so the less else there is to look at. Reading it by its own key takes away {{early_bos}} of the error before position {{= 50 =}}. {{?early}} Further on, only heads {{by_bos}} still attend to it much: more than half of their error comes from it, {{?half_by_bos}} and its own key would bring it from {{by_bos_before}} to {{by_bos_after}}. We keep the published form; these heads carry {{by_bos_share}} of the variance. {{?bos}}

**The length $C$, late in a text.** The further back a source is, the more its position differs from the query's, and the larger the positional part of its score. Equation 1 divides this part by a length with $C$ in it, the median of the vocabulary. But {{shorter}} of the tokens in texts are shorter than that, {{?mostly_shorter}} so distance counts too little and far sources get too much. In head {{first}}, for example, *{{far_token}}*, {{far_back}} tokens back, gets {{far_factor}} times its weight: the distance should lower its score by {{far_due}}, and lowers it by {{far_given}}. (The token's part is {{far_token_error}} too high as well, because $E$ uses its length at $n$.) {{?far}} If each token's own length takes the place of $C$, the error between positions {{= 200 =}} and {{= 450 =}} falls from {{late_before}} (the orange curve) to {{late_after}} (the blue one). {{?late}} This is no longer a split, for the length mentions $x_i$ and $i$ at once, but it shows the cause; [appendix A](A_scale) tries other constants. (What is left at the very end, where position vectors are long, we have not taken apart.)

Two published assumptions fail on `mini` as well: tokens and positions are not orthogonal, and in the middle head the best $C$ is larger than the median. The ledger under Evidence has the numbers, and says why little depends on them.

## Turn it

Choose a passage, a head, a position and a $C$, and the page computes both rows from the weights. (On a logarithmic axis the two curves are easier to tell apart.) Make $C$ a little smaller: in which heads do the rows come closer, and in which do they part?
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
ov = torch.einsum("hdk,hke,e->hd", weights.W_V, weights.W_O, weights.W_in[:, neuron])
value = torch.einsum("tid,hd->thi", study.fixed.exact.normalized_resid(X), ov)  # for the neuron
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

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
at_i = (W_E[x] + W_pos[: n + 1]).norm(dim=-1)  # the true length
at_n = (W_E[x] + W_pos[n]).norm(dim=-1)  # in its place in E
typical = (W_pos[: n + 1].square().sum(-1) + C**2).sqrt()  # in its place in P
delta = c * (1 - at_n / at_i) + p * (1 - typical / at_i)  # head source
first = influential[0]
far = int((true[first] * delta[first].expm1().abs())[1 : n - 20].argmax()) + 1
kept = json.loads(cb.evidence("keys.json").read_text())
shares, (_, *of_minilm) = np.array(kept["speaks"]), np.array(kept["TV"])
minilm_place, minilm_token, minilm_split = (float(v @ shares) for v in of_minilm)
even, place, token, split, mended = (float((v.numpy() * who).sum()) for v in tv.values())
_, *by_parts, by_split, by_mended = tv.values()
by_bos = [h for h in heads if by_mended[h] < by_split[h] / 2]
on_first = [float(r[:, by_bos, 0].mean()) for r in (true_rows, there)]
of_neuron, given = ((r * value).sum((1, 2)) for r in (true_rows, guesses["Equation 1"]))
off = float((given - of_neuron).square().mean().sqrt() / of_neuron.std())
received_r = float(np.corrcoef(of_neuron, given)[0, 1])
early_bos = 1 - float(steps[1][:49].mean() / steps[0][:49].mean())  # of queries at 1 ... 49
late_before, late_after = (float(curve[199:450].mean()) for curve in steps[1:])
shorter = float((W_E[X[:, 1:]].norm(dim=-1) < C).float().mean())
rotary = cb.on_real("TV").loc["TV", ["Qwen", "SmolLM2"]].astype(float)
most = np.ceil(100 * float(weighted.max())) / 100  # "never above" bears no rounding down
percents = {
    "average": weighted.mean(), "most": most, "received": off, "early_bos": early_bos, "shorter": shorter,
    "even": even, "place": place, "token": token, "split": split, "on_first": on_first[0],
    "minilm_place": minilm_place, "minilm_token": minilm_token, "minilm_split": minilm_split,
    "tv_qwen": rotary["Qwen"], "tv_smol": rotary["SmolLM2"],
}  # fmt: skip
tenths = {
    "worst_share": who[worst], "late_before": late_before, "late_after": late_after,
    "by_bos_share": who[by_bos].sum(), "by_bos_before": by_split[by_bos].mean(), "by_bos_after": by_mended[by_bos].mean(),
    "without_bos": changed[by_bos].mean(), "on_first_without": on_first[1],
}  # fmt: skip
cb.facts(
    "keys",
    n=n, texts=len(X), passages=len(passages), neuron=neuron, first=first, worst=worst,
    by_bos=cb.listed(by_bos), far_token=names[far].strip(), far_back=n - far,
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    **{name: cb.fact(v, ".1%") for name, v in tenths.items()},
    **{f"{name}_worst": cb.fact(v.max(), ".0%") for name, v in zip(("even", "place", "token", "split"), tv.values(), strict=False)},
    close=most < 1 - cb.NEARLY_ALL,
    relative=cb.fact(lengths[1:].median() / C, ".1f"),
    short=lengths[1:].median() < cb.MOST * C and lengths[1:].max() < C,
    first_is_long=lengths[0] > C,
    rises=weighted.unfold(0, 50, 25).mean(-1).argmin() == 3,
    received_r=cb.fact(received_r, ".3f"),
    received_well=received_r > cb.ALMOST_EXACTLY and off**2 < 1 - cb.ALMOST_EXACTLY,
    early=early_bos > cb.MOST, mostly_shorter=shorter > cb.MOST, late=late_after < late_before / 2,
    worst_is_silent=who[worst] < 0.01, half_by_bos=len(by_bos) > 1 and worst in by_bos,
    needs_both=split < min(place, token) / 3,
    minilm=minilm_split < min(minilm_place, minilm_token) / 3,
    rotary=abs(rotary.mean() / float(weighted.mean()) / 3 - 1) < cb.ABOUT,
    bos=delta[worst, 0].exp() > 1.5 and at_i[0] > 1.2 * at_n[0] and who[by_bos].sum() < 0.05,
    token_matters=bool((changed[by_bos] < by_split[by_bos] / 2).all()) and on_first[1] < on_first[0] / 2,
    far_token_error=cb.fact((c * (1 - at_n / at_i))[first, far], ".2f"),
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
**On real models**, kept from [chapter 8](08_real_model): TV of the heads that read a text as a whole (*stable*, [chapter 4](04_denominators)), weighted by variance share. Of MiniLM's these are nine, where less is misplaced; the text's {{minilm_split}} is over all twelve, of the table above. Qwen and SmolLM2 rotate queries and keys, and their split is that of [chapter 13](13_families).
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The distance in real models"}
cb.on_real("TV")

# %% [markdown]
r"""
## Where this comes from

The decomposition and its first figure are those of {cite:t}`gibson2025decomposing`. The argument from orthogonality and the claim about the centre are from the appendix of the earlier post {cite}`gibson2025contextual`. BOS's own key, the baselines and the account of the error are this book's. Writing attention as a circuit of queries and keys read from the residual stream follows {cite:t}`elhage2021framework`.
"""
