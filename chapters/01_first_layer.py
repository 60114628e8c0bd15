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
# What does the first layer see?

**The first layer of a language model sees only tokens and their positions. Its heads average over them, and that average already gives away what a text is about.** {{?gives_away}} Take a text of natural science and a text about anything else. In {{auc}} of such pairs, the average pushes one neuron, number {{neuron}}, higher on the text of science. When we shuffle the words of every text, it still does so in {{auc_shuffled}}. {{?order}}

How can an average know that? Here are three texts that our model has never seen: a textbook of astronomy, a statute and a piece of Python. We cut each of them after the same number of tokens and put the same word at the end, *the*. The table shows what attention adds to neuron {{neuron}} at that word:
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 1000  # how many held-out texts are read
TOKEN = " the"  # the query token, at the end of every text
NEURON = 496  # the neuron that the first six chapters follow
DOMAINS = ("astronomy", "law", "python")  # the three texts

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, the model and the texts"}
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from einops import einsum
from transformers import AutoModelForCausalLM

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN)
fixed, n, heads = study.fixed, study.n, range(weights.n_heads)
neuron = min(NEURON, weights.n_neurons - 1)
seen, unseen = cb.halves(study.texts)  # to choose on, and to judge on

# %% tags=["hide-input"]
three = [next((t for t in unseen if t.domain == d), unseen[0]) for d in DOMAINS]
pages = fixed.prepare(three)  # text source


def decoded(ids):
    return list(map(str, cx.texts.decode_tokens(weights, ids.tolist())))


on_three = fixed.exact_summary(pages, heads)[:, neuron]
pd.DataFrame(
    {
        "ends": ["".join(decoded(text[-9:])) for text in pages],
        f"added to neuron {neuron}": [cb.in_prose(float(v), "+.1f") for v in on_three],
    },
    index=pd.Index([text.domain for text in three], name="text"),
)

# %% [markdown]
r"""
The last word is the same, so what tells the texts apart must come from the words before it, and in a transformer only attention can bring that along. {{?differ}} What must the heads have read to do this: the grammar, the order of the words, the subject? Make a guess before you read on.

We begin with the first layer because it has nothing but tokens and their positions: everything that its heads can know can be written down. Neuron {{neuron}} will stay with us ([chapter 6](06_neurons) tells how it was found).

Our model, mini, is a small GPT-2 {cite}`radford2019language`, trained for this book on textbooks, statutes, novels, recipes and code. Its training was chosen by its loss alone, not to suit the book.

## An average by hand

Suppose a head can look at three tokens: BOS, which marks the beginning of every text, *moon*, and *the*, from which it looks. This last token is called the **query token**. The head shares out its attention as in the first line below. Each token also has a *value*, the number that it would pass on to our neuron.
"""

# %%
hand = pd.DataFrame(
    {"BOS": [0.05, 0], "moon": [0.6, 2], "the": [0.35, -1]}, index=["attention", "value"]
)
hand.loc["product"] = hand.loc["attention"] * hand.loc["value"]
head_adds = hand.loc["product"].sum()  # 0.85
hand

# %% [markdown]
r"""
The head adds $1.2 - 0.35 = 0.85$ to the neuron, an average of the values, weighted by attention. That is all a head ever does. One half of the head, *query and key*, makes the first line. The other half, *output and value*, makes the second. Neither depends on the other: *moon* has the value {{= 2 =}} however much attention it gets. We made up these numbers.

## What stands at a position

The model looks up two vectors for the token $x_i$ at position $i$, one in the table of token embeddings and one in the table of position embeddings. It adds them:

$$
r_i \;=\; W_E[x_i] + W_\text{pos}[i] .
$$ (eq-residual)

This sum is the beginning of the residual stream, from which every layer reads and to which it adds {cite}`elhage2021framework`.

Before a head reads $r_i$, **LayerNorm** changes it in four steps {cite}`ba2016layernorm`: it subtracts the mean of the entries, divides by their standard deviation, multiplies by a gain and adds a bias. Three of these steps can be done before there is any text:

- *The mean.* The mean of a sum is the sum of the means, so we subtract it from every row of both tables. They are now *centred*.
- *Gain and bias.* A matrix product follows, so we multiply both into the matrix. They are now *folded*.

Only the division is left. The mean is zero, so the standard deviation is $\lvert r \rvert / \sqrt{d_\text{model}}$, and LayerNorm is a change of length:

$$
\text{LN}(r) \;=\; \sqrt{d_\text{model}}\;\frac{r}{\lvert r \rvert} ,
$$ (eq-layernorm)

This puts every $r$ on one sphere. In code, a small $\epsilon$ keeps the divisor above zero:
"""

# %%
x = fixed.prepare([study.example])[0]  # the text of astronomy: token ids 0 ... n
r = weights.W_E[x] + weights.W_pos[: n + 1]  # source d_model
on_sphere = r / (r.square().mean(-1, keepdim=True) + weights.eps).sqrt()

# %% [markdown]
r"""
The factor $1 / \lvert r \rvert$ is the only place where a token and its position meet other than by addition, and it is the subject of [chapter 2](02_keys).

## Where a head looks: the QK circuit

A head makes a **query** from the query token, which stands at position $n$, and a **key** from every position $i \le n$ that it can look at, called a **source**. The products of query and keys, the **scores**, become attention:

$$
\begin{gathered}
q_n = \text{LN}(r_n)\,W_Q + b_Q, \\
\text{key}_i = \text{LN}(r_i)\,W_K + b_K, \\
a_{n,i} = \mathop{\text{softmax}}_{i \le n} \left( \frac{q_n \cdot \text{key}_i}{\sqrt{d_\text{head}}} \right).
\end{gathered}
$$ (eq-qk)

The numbers $a_{n,0}, \dots, a_{n,n}$ are positive and sum to one. We call them the attention row of the head, and $W_Q W_K^{\mathsf T}$ its QK circuit. For all heads at once:
"""

# %%
q = einsum(on_sphere[n], weights.W_Q, "d, head d k -> head k") + weights.b_Q
key = einsum(on_sphere, weights.W_K, "i d, head d k -> head i k") + weights.b_K[:, None]
scores = einsum(q, key, "head k, head i k -> head i") / weights.d_head**0.5
row = scores.softmax(-1)  # head source

# %% [markdown]
r"""
How far back do these rows reach?
"""

# %% tags=["hide-input"]
texts = fixed.prepare(study.texts)  # text source
rows = torch.stack([cx.attention_rows(weights, text, n) for text in texts])  # text head source
back = n - torch.arange(n + 1)
bands = {
    "BOS": back == n,
    "100 or more tokens back": (back >= 100) & (back < n),
    "10 to 99": (back >= 10) & (back < 100),
    "last ten": back < 10,
}
share = torch.stack([rows[..., band].sum(-1) for band in bands.values()])  # band text head
mean = pd.DataFrame(share.mean(1).T.double().numpy(), columns=list(bands))  # a row a head
bars = mean.rename("head {}".format)
bars.loc["uniform"] = [float(band.float().mean()) for band in bands.values()]
left = bars.cumsum(axis=1) - bars
figure, ((axis,),) = cb.figures.panels(height=2.9, width=7.5)
for name, place in zip(bands, (7, 0, 5, 3), strict=True):
    axis.barh(bars.index, bars[name], left=left[name], color=cb.figures.COLORS[place])
    middle = (left[name] + bars[name] / 2).mean()
    at, side = (0, "left") if name == "BOS" else (middle, "center")
    axis.annotate(name, (at, -0.55), ha=side, fontsize=9)
axis.invert_yaxis()
axis.set(xlim=(0, 1), xlabel="share of the attention: far tokens left, near ones right")
axis.grid(visible=False)
cb.figures.picture(
    figure,
    "1.1",
    f"How each head of <code>{MODEL}</code> shares out its attention from position {n}, by distance, on average over {len(texts)} texts: far tokens on the left, near ones on the right. Compare each bar with the one at the bottom, a head that gives every token the same.",
    "Stacked bars, one a head. "
    + "; ".join(f"{band}: {v.min():.2f} to {v.max():.2f} by head, {bars.loc['uniform', band]:.2f} if uniform" for band, v in mean.items())
    + ".",
)  # fmt: skip

# %% [markdown]
r"""
Averaged over texts, no head gives the last ten tokens more than {{near}} of its attention, where uniform attention would give them {{near_uniform}}. {{?broad}}

## What it passes on: the OV circuit

The values are as simple as the keys. Each is a linear function of what stands at its position, and the head averages them:

$$
\begin{gathered}
v_i = \text{LN}(r_i)\, W_V + b_V, \\
\text{out}_h(n) = \sum_{i \le n} a_{n,i} \, v_i \, W_O .
\end{gathered}
$$ (eq-ov)

$W_V W_O$ is the OV circuit. The layer adds up its heads, and adds the sum to the stream. The neurons of the MLP read the stream through a LayerNorm of their own, folded like the first, so it divides the stream by one number $s$. If $w$ are the input weights of our neuron, the token at position $i$ therefore adds $a_{n,i}\, v_i\, W_O\, w / s$ to it, summed over heads:
"""

# %%
value = einsum(on_sphere, weights.W_V, "i d, head d k -> head i k") + weights.b_V[:, None]
out = einsum(row, value, weights.W_O, "head i, head i k, head k d -> head d")
layer = out.sum(0) + weights.b_O

w = weights.W_in[:, neuron]  # d_model
s = ((r[n] + layer).square().mean() + weights.eps).sqrt()
adds = einsum(row, value, weights.W_O, w, "head i, head i k, head k d, d -> i") / s

# %% tags=["hide-input"]
cb.figures.shaded_text(
    decoded(x[1:]),
    adds[1:].clamp(-0.1, 0.1),
    f"<b>Figure 1.2.</b> What each token of “{study.example.subject}” adds to neuron {neuron} at the last word, through all heads. Blue tokens raise the neuron, orange ones lower it. The shade is full from 0.1 on, so that far tokens show; the largest amount is {adds.abs().max():.2f}.",
)

# %% [markdown]
r"""
None of this needs grammar. *Science* and *chemical* raise the neuron, while *market* and *ideas* lower it. {{?helpers}} In this text a few near words supply most of the sum: of the {{total}} that all tokens add together, the last *planets* and the last *solar*, both among the last ten tokens, add {{two_words}}. {{?two_words_lead}} The same *planets*, {{earlier}} tokens earlier, adds only {{earlier_adds}}. {{?fades}} Is it always the last few words that count?

Since heads add, we can also ask how much each of them matters: how much of the variance between texts, summed over all neurons, comes from it. Heads {{influential}} account for {{influential_share}} of it, nearly all. {{?two_heads}} From here on, averages over heads are weighted by this **variance share**, so the other heads of Figure 1.1 hardly count.

## How much does the average give away?

We split our texts into two halves that share no document. On one half the neuron itself chooses: of {{all_domains}} domains it is highest, on average, in astronomy, in physics and chemistry, and in biology and medicine, the natural sciences. {{?sciences}} We judge on the other half. For each of its {{unseen}} texts, we note what the heads add to the neuron at *the*.
"""

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "The texts to judge on, and the same with their words shuffled"}
domain_seen, domain = (np.array([text.domain for text in half]) for half in (seen, unseen))
chosen_on = fixed.exact_summary(fixed.prepare(seen), heads)[:, neuron].numpy()
highest = pd.Series(chosen_on).groupby(domain_seen).mean().nlargest(3).index.tolist()

judged = fixed.prepare(unseen)  # text source
judged_rows = rows[cb.half_masks(study.texts)[1]]  # text head source: `row`, of these texts
judged_on_sphere = fixed.exact.normalized_resid(judged)  # text source d_model: `on_sphere`
science = np.isin(domain, highest)
order = cb.nulls.permuted(np.arange(1, n), len(judged))
shuffled = judged.clone()  # BOS and the last token stay where they are
shuffled[:, 1:n] = judged.gather(1, torch.from_numpy(order))
as_is, as_shuffled = (
    fixed.exact_summary(texts, heads)[:, neuron].numpy() for texts in (judged, shuffled)
)

# %% tags=["hide-input"]
by_domain = pd.Series(as_is).groupby(domain).mean().sort_values()
colors = cb.figures.COLORS
figure, ((axis,),) = cb.figures.panels(height=4.6, width=7.5)
for k, name in enumerate(by_domain.index):
    own = domain == name
    color = colors[0] if science[own].any() else colors[7]
    axis.plot(as_is[own], np.full(own.sum(), k), ".", ms=5, alpha=0.6, color=color)
    axis.plot(by_domain[name], k, "|", ms=13, mew=2, color=color)
axis.set_yticks(range(len(by_domain)), by_domain.index)
axis.set(xlabel=f"what the heads add to neuron {neuron} at the last word")
cb.figures.picture(
    figure,
    "1.3",
    f"A dot is a text, a stroke the mean of its domain; blue are the natural sciences. {len(unseen)} unseen texts, all ending in ' the'.",
    f"Rows of dots, a domain each. Means from {by_domain.iloc[0]:.2f} ({by_domain.index[0]}) to {by_domain.iloc[-1]:.2f} ({by_domain.index[-1]}); the highest three: {', '.join(by_domain.index[-3:])}.",
)

# %% [markdown]
r"""
The three natural sciences stand apart from the other domains: a text of theirs is above a text of another in {{auc}} of all pairs. {{?gives_away}} What is it that the average needs? We take things away from it: the order of the words, the last ten tokens, attention, and in the end the positions too.
"""

# %%
# what the OV circuits make of a vector, for the neuron
ov = einsum(weights.W_V, weights.W_O, w, "head d k, head k e, e -> head d") / s
bias = einsum(weights.b_V, weights.W_O, w, "head k, head k e, e -> head") / s
values = einsum(judged_on_sphere, ov, "text i d, head d -> text head i") + bias[:, None]
embedding = weights.W_E[judged]  # text source d
words = (embedding / embedding.norm(dim=-1, keepdim=True)).mean(1)
added = {
    "the heads as they are": as_is,
    "every text's words shuffled": as_shuffled,
    "without the last ten tokens": (judged_rows * values)[..., :-10].sum((1, 2)),
    "values averaged uniformly": values.mean(-1).sum(1),
    "words alone, through the OV circuits": einsum(words, ov, "text d, head d -> text"),
    "words alone, without the heads": words @ w,
}

# %% [markdown]
r"""
The table shows how many pairs are still in order, how much of the variance between texts is explained once the amounts are rescaled (squared correlation with the first line), and how large they are as they stand (standard deviation, in units of the first line's).

| what reaches the neuron | pairs in order | variance explained | size |
| --- | --- | --- | --- |
| what the heads add | {{auc}} | {{= 100% =}} | {{= 1 =}} |
| the same, every text's words shuffled | {{auc_shuffled}} | {{fit_shuffled}} | {{size_shuffled}} |
| the same, without what the last ten tokens add | {{auc_far}} | {{fit_far}} | {{size_far}} |
| the values, averaged uniformly | {{auc_uniform}} | {{fit_uniform}} | {{size_uniform}} |
| words alone: the mean of their embeddings, through the OV circuits | {{auc_words}} | {{fit_words}} | |
| the same mean without the heads | {{auc_embedding}} | {{fit_embedding}} | |

This answers the question. The heads need neither grammar nor order to tell science from the rest. {{?order}} They need the subject, and only as far as single words give it away: a plain mean of embeddings, without attention or positions, ranks the texts just as well once it has gone through the OV circuits. {{?words_suffice}} These turn words of science into the direction that the neuron reads; without them, the same mean puts far fewer pairs in order. {{?values}} Nor do the last few words decide, as one text suggested: without them, no order is lost. {{?far_suffices}}

If words alone do so well, why should we care where a head looks? Because attention decides the amounts. Uniform attention loses {{missed}} of the variance even when it is rescaled; as it stands, it moves the neuron only half as much as the model does and misses {{left}}. {{?half}}

## What can go wrong

**The neuron is not about planets alone.** Astronomy is above other texts in {{auc_astronomy}} of pairs, less than the three sciences together, because chemistry and biology drive the neuron too. {{?not_alone}} Nor does it merely recognise English: among English texts alone, {{auc_english}} of pairs are in order. {{?in_english}}

**Not every first layer averages.** Three heads of GPT-2 small look only at the last few tokens, where they join the pieces of words {cite}`gibson2025contextual`. In Qwen, a model that people use, the {{qwen_heads}} heads that the method of this book fits contribute only {{qwen_share}} of the variance ([chapter 8](08_real_model)).

**The equations are those of one kind of model.** They hold where a learned position is added to each token. Rotary positions never enter the stream ([chapter 13](13_families)), and in later layers the stream also holds what earlier layers wrote ([chapter 14](14_depth)).

## Turn it

Choose a passage and the position of the query token. A curve that is steep on the right is a head that looks at its neighbours; a straight one looks everywhere alike. Then press a token to see its attention and its value in every head.
"""

# %% tags=["hide-input"]
influential = sorted(study.head_variance_share.nlargest(2).index)
passage = next((k for k, p in enumerate(study.passages) if p.domain == DOMAINS[0]), 0)
attention = cx.attention_rows(weights, study.passages[passage].tokens, n)
within = attention.flip(-1).cumsum(-1)  # head, tokens back
figure, ((axis,),) = cb.figures.panels(height=2.8, width=7.5)
for h, shares in enumerate(within):
    axis.plot(shares, lw=2 if h in influential else 0.8, label=f"head {h}")
axis.plot([0, n], [1 / (n + 1), 1], ":", color=cb.figures.INK, lw=1)
axis.set(xlabel="tokens back, n − i", ylabel="attention within", xlim=(n, 0), ylim=(0, 1))
axis.legend(fontsize=8, ncols=2)
half = ", ".join(f"head {h}: {int((shares < 0.5).sum())}" for h, shares in enumerate(within))
picture = cb.figures.picture(
    figure,
    "1.4",
    f"How much of its attention each head gives to the nearest tokens, in {study.passages[passage].name} from position {n}; the query token is at the right. Broad lines: the two heads that contribute most. Dotted: uniform attention.",
    f"Curves that rise to the left. Half of the attention lies within so many tokens, {half}.",
)
cv.Attention(weights, passage=passage, n=n, neuron=neuron, picture=picture)

# %% [markdown]
r"""
## Where this leaves us

A first-layer head averages what single tokens pass on, and such an average is enough to tell what a text is about. To predict its amounts we have to predict attention. A score depends on a token *and* on its position, and if the two could be pulled apart, we could put each into a table. They are added, so this should be easy. Why isn't it? That is the question of [chapter 2](02_keys).
"""

# %% tags=["hide-input"]
cb.figures.path(
    ["token", "place", "row", "value"],
    "The whole way from a token to a neuron, with the parts that this chapter was about. The next four chapters explain the others.",
)

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* Take away the positions. What happens to the attention on the last ten tokens, and to the pairs in order? Write down two guesses, then open the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Without positions"}
from dataclasses import replace

blind = cx.fix_query(replace(weights, W_pos=0 * weights.W_pos), n=n, token=TOKEN)
blind_rows = blind.exact.rows(judged)[..., -10:].sum(-1).mean(0)  # head
blind_added = blind.exact_summary(judged, heads)[:, [neuron]].numpy()
blind_auc = float(cx.neurons.auc(blind_added, science)[0])
cb.facts(
    "first_layer",
    blind_least=cb.fact(blind_rows.min(), ".0%"),
    blind_most=cb.fact(blind_rows.max(), ".0%"),
    blind_auc=cb.fact(blind_auc, ".0%", holds=blind_auc > cb.NEARLY_ALL),
)

# %% [markdown]
r"""
2. *Fill in.* Write the attention row of one head, from its query, its keys and $d_\text{head}$, without looking up.
"""


# %%
def my_row(q, key, d_head):
    """The attention row over the sources of key."""
    return ...


# %% tags=["hide-input", "nbval-check-output"]
mine = my_row(q[0], key[0], weights.d_head)
if mine is ...:
    print("not yet")
else:
    print("right" if torch.allclose(torch.as_tensor(mine), row[0], atol=1e-5) else "not the row")

# %% [markdown]
r"""
3. *Show.* The keys' bias $b_K$ has no influence on the row in {eq}`eq-qk`. Has $b_Q$?

```{admonition} Solutions
:class: dropdown

1. A row then depends on tokens alone, so the last ten get {{blind_least}} to {{blind_most}}, about what uniform attention gives them. {{Blind_auc}} of the pairs stay in order, since the words are still there.
2. `torch.softmax(key @ q / d_head**0.5, dim=-1)`.
3. $b_K$ adds $q_n \cdot b_K / \sqrt{d_\text{head}}$ to every score of the row, and the softmax divides it out again. $b_Q$ adds $b_Q \cdot \text{key}_i / \sqrt{d_\text{head}}$, which depends on $i$, so it stays.
```

## Evidence

**The numbers in the text**, as they were computed, with the conditions that its words rest on.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
nearest = np.ceil(100 * mean["last ten"].max()) / 100  # "no more than" bears no rounding down
spelled, total = decoded(x), float(adds.sum())
leading = adds.abs().topk(2).indices.tolist()
copies = (x == x[leading[0]]).nonzero()[:, 0].tolist()  # of the strongest token
signs = {name: float(adds[spelled.index(name)]) if name in spelled else np.nan
         for name in (" science", " chemical", " market", " ideas")}  # fmt: skip
names = ("heads", "shuffled", "far", "uniform", "words", "embedding")
of = dict(zip(names, map(np.asarray, added.values()), strict=True))
auc = {k: float(cx.neurons.auc(v[:, None], science)[0]) for k, v in of.items()}
fit = {k: np.corrcoef(v, as_is)[0, 1] ** 2 for k, v in of.items()}
size = {k: v.std() / as_is.std() for k, v in of.items()}
others = names[1:]
left = float(np.square(of["uniform"] - as_is).mean() / as_is.var())
english = np.array([text.dialect.startswith("en") for text in unseen])
auc_english = float(cx.neurons.auc(as_is[english, None], science[english])[0])
astronomy = float(cx.neurons.auc(as_is[:, None], domain == "astronomy")[0])
who = study.head_variance_share
real = cb.on_real("heads stable", "their share")["Qwen"]
cb.facts(
    "first_layer",
    neuron=neuron,
    auc=cb.fact(auc["heads"], ".0%"),
    **{f"auc_{k}": cb.fact(auc[k], ".0%") for k in others},
    **{f"fit_{k}": cb.fact(fit[k], ".0%") for k in others},
    **{f"size_{k}": cb.fact(size[k], ".2f") for k in others[:3]},
    auc_astronomy=cb.fact(astronomy, ".0%"),
    gives_away=auc["heads"] > cb.NEARLY_ALL,
    sciences=set(highest) == {"astronomy", "physics-chemistry", "biology-medicine"},
    order=abs(auc["heads"] - auc["shuffled"]) < 0.05,
    words_suffice=abs(auc["heads"] - auc["words"]) < 0.05,
    far_suffices=abs(auc["heads"] - auc["far"]) < 0.01,
    values=auc["embedding"] < (auc["heads"] + 0.5) / 2,
    not_alone=astronomy < auc["heads"],
    missed=cb.fact(1 - fit["uniform"], ".0%"),
    left=cb.fact(left, ".0%"),
    half=abs(2 * size["uniform"] - 1) < cb.ABOUT and left > 2 * (1 - fit["uniform"]),
    auc_english=cb.fact(auc_english, ".0%"),
    in_english=auc_english > cb.NEARLY_ALL,
    all_domains=len(set(domain)),
    differ=on_three[0] > 0 > on_three[1:].max(),
    near=cb.fact(nearest, ".0%"),
    near_uniform=cb.fact(bars.loc["uniform", "last ten"], ".0%"),
    broad=nearest < 0.5,
    total=cb.fact(total, ".2f"),
    two_words=cb.fact(adds[leading].sum(), ".2f"),
    two_words_lead=[spelled[i] for i in leading] == [" planets", " solar"]
    and min(leading) > n - 10
    and float(adds[leading].sum()) > cb.MOST * total,
    helpers=[value > 0 for value in signs.values()] == [True, True, False, False],
    earlier=copies[-1] - copies[0],
    earlier_adds=cb.fact(adds[copies[0]], ".2f"),
    fades=copies[-1] == leading[0] and adds[copies[0]] < adds[copies[-1]] / 4,
    influential=cb.listed(influential),
    influential_share=cb.fact(who[influential].sum(), ".0%"),
    two_heads=who[influential].sum() > cb.NEARLY_ALL,
    unseen=len(unseen),
    qwen_heads=cb.fact(int(real["heads stable"].split()[0]), "words"),
    qwen_share=real["their share"],
)

# %% [markdown]
r"""
**The model of these chapters.** `mini` beside GPT-2 small. Its card, `ctxlib/data/mini/README.md`, has the recipe, the losses and the sources of its text. It read {{trained_on}} million tokens and predicts held-out text at {{bits}} bits per byte; of the {{tried}} recipes that were tried, its own is the best by that number. {{?best_recipe}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How large is the model?"}
card = Path(cx.models.locate(MODEL)) / "README.md"
card = card.read_text("utf-8") if card.exists() else ""
of_run = re.findall(r"^\| (\S+) \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|", card, re.M)
runs = pd.DataFrame(of_run, columns=["run", "tokens", "bits per byte", "nats per token"])
runs = runs.set_index("run").replace(",", "", regex=True).astype(float)
read, bits, _ = runs.reindex(["mini"]).iloc[0]
recipe = json.loads((re.findall(r"```json\n(.*?)```", card, re.S) or ["{}"])[0])
# the recipes that were tried are named by optimizer and rate; other runs are of mini and its twins
tried = runs.filter(regex=r"^[a-z]+-\de-\d$", axis=0)["bits per byte"]
size = sum(p.numel() for p in model.original_model.parameters()) / 1e6
sizes = {
    "layers": (model.cfg.n_layers, 12),
    "d_model, the width of the residual stream": (weights.d_model, 768),
    "heads in a layer": (weights.n_heads, 12),
    "d_head, the width of a head": (weights.d_head, 64),
    "neurons in a layer's MLP": (weights.n_neurons, 3072),
    "n_ctx, the longest text": (weights.n_ctx, 1024),
    "vocabulary": (weights.d_vocab, 50257),
    "parameters": (f"{size:.0f} million", "124 million"),
}
pd.DataFrame.from_dict(sizes, orient="index", columns=[MODEL, "GPT-2 small"])

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Its training in numbers"}
own = f"{recipe.get('optimizer')}-{recipe.get('rate', 0):.0e}".replace("e-0", "e-")
cb.facts(
    "first_layer",
    trained_on=cb.fact(read / 1e6, ".0f"),
    bits=cb.fact(bits, ".2f"),
    tried=cb.fact(len(tried), "words"),
    best_recipe=len(tried) > 0 and tried.idxmin() == own,
)

# %% [markdown]
r"""
**Do the equations say what the model does?** Residual stream, attention rows and the output of the layer, computed from the weights, agree with TransformerLens' hooks to within {{= 0.0001 =}}. {{?agrees}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Are these the model's own numbers?"}
with torch.inference_mode():
    _, cache = model.run_with_cache(x[None], stop_at_layer=1, device="cpu")
errors = {
    "residual stream": (r - cache["blocks.0.hook_resid_pre"][0]).abs().max(),
    "attention rows": (row - cache["blocks.0.attn.hook_pattern"][0, :, n]).abs().max(),
    "output of the layer": (layer - cache["blocks.0.hook_attn_out"][0, n]).abs().max(),
    "what tokens add to the neuron": (adds.sum() - fixed.exact_summary(x, heads)[neuron]).abs(),
}
cb.facts(
    "first_layer",
    agrees=max(map(float, errors.values())) < 1e-4,
)

# %% [markdown]
r"""
**How sure are the pairs?** The {{= 95% =}} intervals draw the unseen documents again. The last row leaves out every text that is not in English: the sciences are, and a neuron could tell them from the rest by language alone.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Intervals of the pairs in order"}
def in_order(values, among=slice(None)):
    """The pairs in order with its interval, as text."""
    some = [unseen[i] for i in np.arange(len(unseen))[among]]
    v, inside = values[among, None], science[among]
    of_drawn = lambda drawn: cx.neurons.auc(v[drawn], inside[drawn])[0]
    return f"{cb.with_interval(of_drawn, some):.1%}"


shown = {name: in_order(np.asarray(v)) for name, v in added.items()}
pd.Series(
    shown | {"English texts alone": in_order(as_is, english)}, name="pairs in order"
).to_frame()

# %% [markdown]
r"""
**Not only one neuron.** Take the book's {{passages}} passages, of {{domains}} domains, and compare what a head writes on two of them: the cosine between its outputs, once the mean over all passages is taken out. The **gap** of a head is its mean cosine within a domain less that between domains. In all heads it is wider than {{= 99% =}} of random labellings give, by {{gap_least}} to {{gap_most}} in cosine. {{?all_gap}} With the words of every passage shuffled, heads {{influential}} keep {{kept_1}} and {{kept_2}} of it. {{?kept_most}} A plain mean of the embeddings has a gap of {{gap_of_bag}}; heads {{beyond}} have a wider one, and the others a narrower, so most of the gap is in the words themselves, as the table above found for neuron {{neuron}}. {{?in_the_words}} About half of it is language: among English passages alone the gap of the median head is {{gap_english}}, among all {{gap_all}}. {{?half_language}}
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How much more alike are two texts of one domain?"}
def gap(vectors, labels):
    """Mean cosine of `text head d` within a label, less that between labels, for each head."""
    unit = torch.nn.functional.normalize(vectors - vectors.mean(0), dim=-1)
    cosine = torch.einsum("shd,thd->hst", unit, unit)
    same = torch.from_numpy(labels[..., :, None] == labels[..., None, :])  # draw text text
    other = ~torch.eye(len(vectors), dtype=torch.bool)
    within, between = (
        torch.einsum("hst,...st->...h", cosine, m.float()) / m.sum((-2, -1))[..., None]
        for m in (same & other, ~same)
    )
    return (within - between).numpy()


passages = fixed.prepare(study.passages)
rng = np.random.default_rng(0)
labels = cb.nulls.permuted(study.domains, 200, rng)  # draw text


def in_another_order():
    order = cb.nulls.permuted(np.arange(1, n), len(passages), rng)
    mixed = passages.clone()
    mixed[:, 1:n] = passages.gather(1, torch.from_numpy(order))
    return mixed


of_heads, ten = fixed.head_outputs(passages), [in_another_order() for _ in range(10)]
gaps = pd.DataFrame(
    {
        "as written": gap(of_heads, study.domains),
        "words shuffled": np.mean([gap(fixed.head_outputs(m), study.domains) for m in ten], axis=0),
        "99% of random labels": np.quantile(gap(of_heads, labels), 0.99, axis=0),
    }
)  # a row a head
measured, mixed, ceiling = (gaps[name] for name in gaps)
of_bag = float(gap(weights.W_E[passages].mean(1)[:, None], study.domains)[0])
gaps.round(2).rename_axis("head")

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The gaps in numbers"}
english = np.array([p.dialect.startswith("en") for p in study.passages])
within_english = np.median(gap(of_heads[torch.from_numpy(english)], study.domains[english]))
kept, beyond = mixed / measured, [h for h in gaps.index if measured[h] > of_bag]
cb.facts(
    "first_layer",
    passages=len(passages),
    domains=len(study.names),
    gap_least=cb.fact(measured.min()),
    gap_most=cb.fact(measured.max()),
    all_gap=bool((measured > ceiling).all()),
    kept_1=cb.fact(kept[influential[0]], ".0%"),
    kept_2=cb.fact(kept[influential[1]], ".0%"),
    kept_most=kept[influential].min() > cb.NEARLY_ALL,
    gap_of_bag=cb.fact(of_bag),
    beyond=cb.fact(cb.listed(beyond), holds=0 < len(beyond) < weights.n_heads),
    in_the_words=of_bag > cb.MOST * measured.max(),
    gap_english=cb.fact(within_english),
    gap_all=cb.fact(measured.median()),
    half_language=abs(within_english / measured.median() - 0.5) < cb.ABOUT / 2,
)

# %% [markdown]
r"""
**On real models**, kept from [chapter 8](08_real_model): how many heads read a text as a whole and have a denominator that varies little (they are called *stable* in [chapter 4](04_denominators)), and the variance share of these heads together. Of Qwen's three, one is borderline, which is why [the title page](00_welcome) counts two.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Heads that average in real models"}
cb.on_real("heads stable", "their share")

# %% [markdown]
r"""
**The ledger.** These three lines are algebra, and no run could decide them otherwise. The first compares rows with those of the checkpoint as it is stored, with nothing folded.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Published claims, judged"}
exactly = {"dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True}
with cx.models.quiet():
    stored = AutoModelForCausalLM.from_pretrained(cx.models.locate(MODEL), **exactly)
with torch.inference_mode():
    stored_rows = stored(pages, output_attentions=True).attentions[0][:, :, n]  # text head source
folded = torch.stack([cx.attention_rows(weights, text, n) for text in pages])
shortest = float(cx.layer_norm(r, weights.eps).norm(dim=-1).min() / weights.d_model**0.5)
cb.ledger(
    model,
    cb.Claim(
        "folding_is_algebra",
        "folded rows minus the stored model's, largest difference",
        float((folded - stored_rows).abs().max()),
        digits=4,
    ),
    cb.Claim(
        "heads_add",
        "heads plus bias minus the layer's output, largest difference",
        float(errors["output of the layer"]),
        digits=4,
    ),
    cb.Claim("layernorm_length", "length after LayerNorm over sqrt(d_model), smallest", shortest),
)

# %% [markdown]
r"""
## Where this comes from

The picture of a residual stream with QK and OV circuits is that of {cite:t}`elhage2021framework`; the model has the architecture of GPT-2 {cite}`radford2019language` and is read with TransformerLens {cite}`nanda2022transformerlens`. That first-layer heads fall into kinds, and that the broad ones carry context, is the observation of {cite:t}`gibson2025contextual` from which this book sets out. Neuron {{neuron}} and what drives it are this book's.
"""
