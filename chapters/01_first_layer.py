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
# What does a first layer see?

**A token and a position, added, and nothing else; and what the heads of `mini` make of a page is a mean over it.**
Of the variance over texts of what the heads tell the neurons, heads 0 and 7 make 92%, and 5 heads less than 1% each.
Shuffle the words of every page, and heads 0 and 7 keep 99% and 100% of what tells pages of one domain from pages of another.
In Qwen, a model that people use, heads that read the page as a whole make only 6% of that variance.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 1000  # how many held-out texts are read
TOKEN = " the"  # the token at the destination
DOMAINS = ("astronomy", "law", "python")  # the three pages of the first section

# %% tags=["hide-input"]
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

ROUNDING = 1e-4  # of float32, over a layer
pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN)
n = study.n

# %% [markdown]
"""
## The same word on three pages

Here are three pages that the model never saw in training: a textbook of astronomy, a statute and a piece of Python. Each is cut at the same position $n$, the middle of the model's context, and the last token is made the same, ' the'.
What does the model expect next?
"""

# %% tags=["hide-input"]
_, unseen = cb.halves(study.texts)
three = [next((t for t in unseen if t.domain == d), unseen[0]) for d in DOMAINS]
pages = study.fixed.prepare(three)  # page source
with torch.inference_mode():
    expected = model(pages)[:, -1].softmax(-1).cpu()  # page vocab


def decoded(ids):
    return cx.texts.decode_tokens(weights, ids.tolist())


pd.DataFrame(
    {
        "ends": ["".join(map(str, decoded(page[-9:]))) for page in pages],
        "expected next": [
            ", ".join(f"{t!r} {v:.2f}" for t, v in zip(decoded(p.indices), p.values, strict=True))
            for p in (e.topk(4) for e in expected)
        ],
    },
    index=pd.Index([text.domain for text in three], name="page"),
)

# %% tags=["hide-input", "nbval-check-output"]
common = torch.minimum(expected[:, None], expected).sum(-1)[~torch.eye(3, dtype=torch.bool)]
cb.finding(
    f"With the same last word on all three pages, any two of the predictions have at most {common.max():.0%} of their probability in common.",
    holds=float(common.max()) < 0.25,
)

# %% [markdown]
r"""
The last word alone cannot tell the pages apart. Something carries to it what stands before, and in a transformer only attention does. In later layers attention may carry what earlier layers worked out. In the
first layer it has only tokens and their places, and this is why the book begins there: everything that its heads can know can be written down. This is the way of one token to one neuron, as the book will take it apart; the words in it are explained where their chapter comes:
"""

# %% tags=["hide-input"]
cb.figures.path(
    ["token", "place", "key", "kernel", "content", "row", "denominator", "value", "neuron"],
    "This chapter is about token and place, and the row. Chapter 2 splits the key, chapter 3 makes kernel and content of it, chapter 4 is about the denominator, chapter 5 about value and neuron.",
)

# %% [markdown]
r"""
The model on these pages, `mini`, has the architecture of GPT-2 {cite}`radford2019language`, and is much smaller. It was trained for this book on textbooks, statutes, novels, recipes and code, and **nobody tuned it** to suit what the book says: how it was trained was chosen by its loss on
held-out text alone. It is no use as a writer.
"""

# %% tags=["hide-input", "nbval-check-output"]
card = Path(cx.models.locate(MODEL)) / "README.md"
card = card.read_text("utf-8") if card.exists() else ""
rows = re.findall(r"^\| (\S+) \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|", card, re.M)
runs = pd.DataFrame(rows, columns=["run", "tokens", "bits per byte", "nats per token"])
runs = runs.set_index("run").replace(",", "", regex=True).astype(float)
read, bits, nats = runs.reindex(["mini"]).iloc[0]
gigabytes = read * nats / np.log(2) / bits / 1e9
trained_on = f"{gigabytes:.1f} GB of text" if len(runs) else "see its card"
parameters = sum(p.numel() for p in model.original_model.parameters())
sizes = {
    "layers": (model.cfg.n_layers, 12),
    "d_model, the width of the residual stream": (weights.d_model, 768),
    "heads in a layer": (weights.n_heads, 12),
    "d_head, the width of a head": (weights.d_head, 64),
    "neurons in a layer's MLP": (weights.n_neurons, 3072),
    "n_ctx, the longest text": (weights.n_ctx, 1024),
    "vocabulary": (weights.d_vocab, 50257),
    "parameters": (f"{parameters / 1e6:.0f} million", "124 million"),
    "read in training": (trained_on, "40 GB of text"),
}
pd.DataFrame.from_dict(sizes, orient="index", columns=[MODEL, "GPT-2 small"])

# %% tags=["hide-input", "nbval-check-output"]
recipe = json.loads((re.findall(r"```json\n(.*?)```", card, re.S) or ["{}"])[0])
# the recipes that were tried are named by optimizer and rate; other runs are of mini and its twins
tried = runs.filter(regex=r"^[a-z]+-\de-\d$", axis=0)["bits per byte"]
cb.finding(
    f"{MODEL} read {read / 1e6:.0f} million tokens and predicts held-out text at {bits:.2f} bits per byte; its recipe is the best of the {len(tried)} that were tried, by that number.",
    holds=len(tried) > 0
    and tried.idxmin() == f"{recipe['optimizer']}-{recipe['rate']:.0e}".replace("e-0", "e-"),
    otherwise=f"how {MODEL} was trained is not on a card that this page can read.",
)

# %% [markdown]
r"""
## What stands at one position

Take token 45 of the first page. The model looks up two rows, one in the table of token embeddings $W_E$ and one in the table of position embeddings $W_\text{pos}$, and adds them:
"""

# %%
x = study.fixed.prepare([study.example])[0]  # the page that this book always takes
i = min(45, n - 1)
what, where = weights.W_E[x[i]], weights.W_pos[i]
r_i = what + where

# %% tags=["hide-input", "nbval-check-output"]
with torch.inference_mode():
    _, cache = model.run_with_cache(x[None], stop_at_layer=1, device="cpu")
stream = cache["blocks.0.hook_resid_pre"][0]
vectors = {
    f"what: the row of {decoded(x[i : i + 1])[0]!r} in W_E": what,
    f"where: row {i} of W_pos": where,
    "their sum": r_i,
    "the model's own residual stream": stream[i],
}
pd.DataFrame(
    [[*(f"{v:+.2f}" for v in row[:4].tolist()), "...", f"{row.norm():.2f}"] for row in vectors.values()],
    columns=["first", "second", "third", "fourth", "", "length"],
    index=list(vectors),
)  # fmt: skip

# %% [markdown]
r"""
In general, token $x_i$ at position $i$ becomes

$$
r_i \;=\; W_E[x_i] + W_\text{pos}[i] .
$$ (eq-residual)

This is the start of the **residual stream**, from which every layer reads and to which it adds {cite}`elhage2021framework`. A text is $x_0, x_1, \dots$, and $x_0$ is always the token that marks the beginning, BOS.

Both tables are **centred**: the mean over the $d_\text{model}$ entries of each row is taken out. All layers read through LayerNorm, which takes it out anyway.

**LayerNorm puts the sum on a sphere.** Before a head reads $r_i$, it {cite}`ba2016layernorm` subtracts the mean, which is zero already, divides by the standard deviation, multiplies by a gain and adds a bias. The gain can be multiplied into the matrices that follow, and the bias taken into their biases,
once and for all. This is called **folding**, and from here on $W_Q, W_K, W_V$ and $b_Q, b_K, b_V$ are folded. What remains is

$$
\text{LN}(r) \;=\; \sqrt{d_\text{model}}\;\frac{r}{\lvert r \rvert} ,
$$ (eq-layernorm)

which puts $r$ on a sphere of radius $\sqrt{d_\text{model}}$. In code it has a small $\epsilon$ that keeps zero out of the denominator:
"""

# %%
r = weights.W_E[x] + weights.W_pos[: n + 1]  # source d_model
on_sphere = r / (r.square().mean(-1, keepdim=True) + weights.eps) ** 0.5

# %% tags=["hide-input", "nbval-check-output"]
same = on_sphere - cx.layer_norm(r, weights.eps)
stretch = r.norm(dim=-1)[1:]
cb.finding(
    f"LayerNorm shrinks or stretches by a different factor at each token: after BOS, the longest sum on the page is {stretch.max() / stretch.min():.1f} times as long as the shortest.",
    holds=float(stretch.max() / stretch.min()) > 1.2 and float(same.abs().max()) < 0.05,
)

# %% [markdown]
r"""
In the layer as it is, this is the one place where a source's token and position meet other than by addition: how long the token's part of the sum is depends on the position that it was added to. [Chapter 2](02_keys) takes the two apart again.

## What a head looks at: the QK circuit

Head $h$ compares a **query** at the destination $n$ with a **key** at each source $i \le n$:

$$
\begin{gathered}
q_n = \text{LN}(r_n)\,W_Q + b_Q, \qquad \text{key}_i = \text{LN}(r_i)\,W_K + b_K, \\
a_{n,i} = \mathop{\text{softmax}}_{i \le n} \left( \frac{q_n \cdot \text{key}_i}{\sqrt{d_\text{head}}} \right).
\end{gathered}
$$ (eq-qk)

The number inside the softmax is the **score** of source $i$. The numbers $a_{n,0}, \dots, a_{n,n}$ are the head's **attention row**: positive, with sum one. Weights enter it through the product $W_Q W_K^{\mathsf T}$, the **QK
circuit**, and through $b_Q$. In code, for all heads at once:
"""

# %%
q = torch.einsum("d,hde->he", on_sphere[n], weights.W_Q) + weights.b_Q  # head d_head
k = torch.einsum("id,hde->hie", on_sphere, weights.W_K) + weights.b_K[:, None]  # head source d_head
row = torch.softmax(torch.einsum("he,hie->hi", q, k) / weights.attn_scale, dim=-1)  # sqrt(d_head)

# %% [markdown]
"""
Here is the end of the page as the head with the most uneven row on it sees it from ' the', and then as the one with the most even row does. The shade is relative to the strongest token shown.
"""

# %% tags=["hide-input"]
spread = cx.effective_tokens(row)
narrow, broad = int(spread.argmin()), int(spread.argmax())
begin, grey = max(0, n - 110), cb.figures.COLORS[7]
pieces = list(map(str, decoded(x[begin:])))
caption = f"Head {narrow}. The page goes on before the first word shown."
cb.figures.shaded_text(pieces, row[narrow, begin:], caption, grey)

# %% tags=["hide-input"]
cb.figures.shaded_text(pieces, row[broad, begin:], f"Head {broad}.", grey)

# %% [markdown]
"""
The first picks out words, the second hardly does. But how far back do they look? Add up, over many texts, how much of its attention each head leaves at which distance:
"""

# %%
texts = study.fixed.prepare(study.texts)  # text source
rows = torch.stack([cx.attention_rows(weights, text, n) for text in texts])  # text head source
back = n - torch.arange(n + 1)
bands = {
    "BOS": back == n,
    "100 or more back": (back >= 100) & (back < n),
    "10 to 99 back": (back >= 10) & (back < 100),
    "1 to 9 back": (back >= 1) & (back < 10),
    "itself": back == 0,
}
share = torch.stack([rows[..., band].sum(-1) for band in bands.values()])  # band text head

# %% tags=["hide-input"]
mean = pd.DataFrame(share.mean(1).T.double().numpy(), columns=list(bands))  # a row a head
bars = mean.rename("head {}".format)
bars.loc["even"] = [float(band.float().mean()) for band in bands.values()]
left = bars.cumsum(axis=1) - bars
figure, ((axis,),) = cb.figures.panels(height=2.9)
for name, place in zip(bands, (7, 0, 5, 4, 1), strict=True):
    axis.barh(bars.index, bars[name], left=left[name], color=cb.figures.COLORS[place], label=name)
axis.invert_yaxis()
axis.set(xlim=(0, 1), xlabel="share of the attention")
axis.grid(visible=False)
figure.legend(loc="outside lower center", ncols=5, fontsize=8)
cb.figures.picture(
    figure,
    "1.1",
    f"Where each head of <code>{MODEL}</code> looks from position {n}, mean over {len(texts)} held-out texts. The last bar is a head that looks everywhere alike.",
    "Stacked bars, one a head. "
    + "; ".join(f"{band}: {v.min():.2f} to {v.max():.2f} by head, {bars.loc['even', band]:.2f} if even" for band, v in mean.items())
    + ".",
)  # fmt: skip

# %% tags=["hide-input", "nbval-check-output"]
# "no more than" bears no rounding down
near = np.ceil(100 * mean[["1 to 9 back", "itself"]].sum(axis=1).max()) / 100
moves = share.std(1)
display(
    cb.finding(
        f"On {MODEL} no head gives the last ten tokens more than {near:.0%} of its attention; an even row gives them {10 / (n + 1):.0%}.",
        holds=near < 0.25,
    ),
    cb.finding(
        f"From text to text these shares move little: by {moves.max():.2f} (standard deviation) at most.",
        holds=float(moves.max()) < 0.1,
    ),
)

# %% [markdown]
r"""
GPT-2 is richer here. Three of its first-layer heads live on the last few tokens, where they join the pieces of words, and two look for earlier copies of the present token {cite}`gibson2025contextual`. The roster below shows neither
kind in `mini`. What it has is the kind that the book is about: heads that look over the whole text.

## What a head says: the OV circuit

A head brings back a **value** from each source, weighted by its row and mapped into the residual stream:

$$
\text{out}_h(n) \;=\; \Bigl( \sum_{i \le n} a_{n,i} \, \bigl( \text{LN}(r_i)\, W_V + b_V \bigr) \Bigr) W_O .
$$ (eq-ov)

$W_V W_O$ is the **OV circuit**. It is linear and knows nothing of the row. The layer adds up its heads, and one bias $b_O$:
"""

# %%
v = torch.einsum("id,hde->hie", on_sphere, weights.W_V) + weights.b_V[:, None]  # head source d_head
out = torch.einsum("hi,hie,hed->hd", row, v, weights.W_O)  # head d_model
layer = out.sum(0) + weights.b_O

# %% [markdown]
"""
Does all of this say what the model does? The residual stream, the rows and the layer's output are compared with those of TransformerLens' hooks. Under *Claims* below, the rows are compared with those of the checkpoint as it is stored, with nothing folded.
"""

# %% tags=["hide-input", "nbval-check-output"]
errors = {
    "the residual stream": (r - stream).abs().max(),
    "the attention rows": (row - cache["blocks.0.attn.hook_pattern"][0, :, n]).abs().max(),
    "the layer's output": (layer - cache["blocks.0.hook_attn_out"][0, n]).abs().max(),
}
cb.finding(
    f"Computed from the weights, {cb.listed(errors)} agree with TransformerLens' hooks to within {ROUNDING:g}.",
    holds=max(map(float, errors.values())) < ROUNDING,
)

# %% [markdown]
r"""
## A mean that knows the page, and who speaks

So a head writes a weighted mean of what its OV circuit says about each token. Does such a mean know what the page is about? Take the book's 72 passages, of 17 domains, among them code and three languages beside English; put ' the' at position $n$ of each, and compare a head's outputs on two of them: the cosine of the angle between them, once the mean over all passages is taken out. The **gap** of a head is its mean cosine within a domain, less that between domains. Beside each head's gap stand three controls: with the words (the tokens) of every passage shuffled; with the domains dealt to the passages at random; and for no head at all, the plain mean of the embeddings on the page.
"""


# %% tags=["hide-input"]
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


def written(tokens):
    """What the heads write on these texts: `text head d_model`."""
    return torch.stack([weights.head_outputs(cx.attention_rows(weights, t, n), t) for t in tokens])


passages = study.fixed.prepare(study.passages)
rng = np.random.default_rng(0)
deals = cb.nulls.permuted(study.domains, 200, rng)  # draw text


def shuffled():
    """The passages, each with its tokens in another order; BOS and the last token stay."""
    order = cb.nulls.permuted(np.arange(1, n), len(passages), rng)
    mixed = passages.clone()
    mixed[:, 1:n] = passages.gather(1, torch.from_numpy(order))
    return mixed


gaps = pd.DataFrame(
    {
        "as written": gap(written(passages), study.domains),
        "its words shuffled": np.mean(
            [gap(written(shuffled()), study.domains) for _ in range(10)], axis=0
        ),
        "99% of random labels": np.quantile(gap(written(passages), deals), 0.99, axis=0),
    }
)  # a row a head
of_bag = float(gap(weights.W_E[passages].mean(1)[:, None], study.domains)[0])

measured, mixed, ceiling = (gaps[name] for name in gaps)
kept = mixed / measured
figure, ((axis,),) = cb.figures.panels(height=2.8)
for place, (name, values) in enumerate(gaps.items()):
    color = cb.figures.COLORS[(0, 5, 7)[place]]
    axis.bar(gaps.index + 0.27 * (place - 1), values, width=0.25, color=color, label=name)
axis.axhline(of_bag, color=cb.figures.INK, lw=1, ls="--", label="mean of the embeddings")
axis.set(xlabel="head", ylabel="gap (cosine)", xticks=gaps.index)
figure.legend(loc="outside lower center", ncols=4, fontsize=8)
cb.figures.picture(
    figure,
    "1.2",
    f"How much more alike a head's outputs are within a domain than between domains: {len(passages)} passages, position {n}. Grey: what 99 of 100 random labellings stay below.",
    f"Three bars per head. As written: {cb.figures.by_head(measured)}. With its words shuffled a head keeps {kept.min():.0%} to {kept.max():.0%} of that; by chance it has {ceiling.max():.2f} at most. A plain mean of the embeddings has {of_bag:.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
speak = sorted(
    study.head_variance_share.nlargest(2).index
)  # who these are comes with the roster below
english = np.array([p.dialect.startswith("en") for p in study.passages])
within_english = np.median(
    gap(written(passages[torch.from_numpy(english)]), study.domains[english])
)
beyond = [h for h in gaps.index if measured[h] > of_bag]
least = np.floor(100 * kept.min()) / 100
display(
    cb.finding(
        f"All {weights.n_heads} heads write more alike on two pages of one domain than on pages of two domains, by {measured.min():.2f} to {measured.max():.2f} in cosine, more than 99% of random labels give.",
        holds=bool((measured > ceiling).all()),
    ),
    cb.finding(
        f"Shuffle the words of every page, and heads {cb.listed(speak)} keep {kept[speak[0]]:.0%} and {kept[speak[1]]:.0%} of what tells pages of one domain from pages of another.",
        holds=bool(kept[speak].min() > 0.8),
    ),
    cb.finding(
        f"A plain mean of the embeddings, without any head, has a gap of {of_bag:.2f}; heads {cb.listed(beyond)} have a wider one, and the others a narrower: most of the gap is in the words themselves.",
        holds=0 < len(beyond) < weights.n_heads,
        otherwise=f"a plain mean of the embeddings has a gap of {of_bag:.2f}, and {len(beyond)} heads have a wider one.",
    ),
    cb.finding(
        f"About half of the gap is language: among the English passages alone that of the median head is {within_english:.2f}, among all {measured.median():.2f}.",
        holds=0.4 < within_english / measured.median() < 0.6,
    ),
)

# %% [markdown]
r"""
So for telling domains apart the order of the words hardly matters: a mean over the page is enough, if the tokens of one domain push in one direction.

But a cosine is blind to length. A head that writes next to nothing can write it in the right direction. So here are the heads in one table, the **roster**, with what each of them amounts to:
"""

# %% tags=["hide-input", "nbval-check-output"]
share = study.head_variance_share
study.head_table.assign(**{"variance share": share.map("{:.0%}".format)})

# %% [markdown]
r"""
- **Effective tokens**: over how many tokens a head spreads its attention, as far as place alone decides. Of the row $a$ that place alone would give ([chapter 3](03_kernels)) it is $1 / \sum_i a_i^2$: exactly $k$ where that row is even over $k$ tokens and zero elsewhere. (The shades above are of rows as they are.)
- **Half of the mass within**: the nearest half of that row lies within so many tokens.
- **Family**: what kind of row it is, by chapter 3's rule.
- **Coefficient of variation**: the sum that a row is divided by differs from text to text; this is its standard deviation over its mean ([chapter 4](04_denominators)).
- **Stable**: the spread is below 0.3, and there are more than 40 effective tokens.
- **Who speaks**: a head's share of what the neurons are told otherwise on one text than on another, $\sum_j \operatorname{Var}(\text{out}_h \cdot w_j)$ over texts, with $w_j$ the input weights of neuron $j$, divided by the sum of this over heads.

A plain average over heads gives a silent head the weight of one that says most. So where a later chapter takes one, it is weighted by variance share.
"""

# %% tags=["hide-input", "nbval-check-output"]
real = cb.on_real("their share").loc["their share"]
display(
    cb.finding(
        f"Of the variance over texts of what the heads tell the neurons, heads {cb.listed(speak)} make {share[speak].sum():.0%}, and {int((share < 0.01).sum())} heads less than 1% each.",
        holds=bool(share[speak].sum() > 0.75 and (share < 0.01).sum() > len(share) / 2),
        otherwise=f"the two that say most, {cb.listed(speak)}, make {share[speak].sum():.0%} of what differs between texts.",
    ),
    cb.finding(
        f"In Qwen, a model that people use, heads that read the page as a whole make only {real['Qwen']} of that variance.",
        holds=float(real["Qwen"].rstrip("%")) < 10,
    ),
)

# %% [markdown]
"""
## What breaks it

The equations hold for any model that adds a learned position to its token embeddings and normalises the sum. They do not hold

- **in later layers**, where the stream at a position also contains what earlier layers wrote there;
- **for rotary or relative positions**, which never enter the stream; [chapter 13](13_families) treats them.

One thing is a convention: every text begins with BOS, as in training. It takes some attention, the grey part of the bars.

## Turn it

Choose a passage and a destination, small ones too: near the beginning there is little to look at, and the first token takes most. A steep curve is a head that looks at its neighbours, a straight one looks at everything alike. Then press a token: its path to one neuron is drawn with its numbers, through one head at a time; point at a part, and it lights up in drawing, equation and sentence. What the parts are, the next chapters say.
"""

# %% tags=["hide-input"]
attention = cx.attention_rows(weights, study.passages[0].tokens, n)
within = attention.flip(-1).cumsum(-1)  # head, tokens back
figure, ((axis,),) = cb.figures.panels(height=2.8, width=7.5)
for h, shares in enumerate(within):
    axis.plot(shares, lw=2 if h in speak else 0.8, label=f"head {h}")
axis.plot([0, n], [1 / (n + 1), 1], ":", color=cb.figures.INK, lw=1)
axis.set(xlabel="tokens back, n − i", ylabel="attention within", ylim=(0, 1))
axis.legend(fontsize=8, ncols=2)
half = ", ".join(f"head {h}: {int((shares < 0.5).sum())}" for h, shares in enumerate(within))
picture = cb.figures.picture(
    figure,
    "1.3",
    f"How much of its attention each head gives to the nearest tokens, in {study.passages[0].name} from position {n}, with its own token there. Broad: the two that say most. Dotted: an even row.",
    f"Rising curves. Half of the attention lies within so many tokens, {half}.",
)
cv.Attention(weights, n=n, picture=picture)

# %% [markdown]
"""
## Claims

These lines are algebra: no run could decide them otherwise.
"""

# %% tags=["hide-input", "nbval-check-output"]
exactly = {"dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True}
with cx.models.quiet():
    stored = AutoModelForCausalLM.from_pretrained(cx.models.locate(MODEL), **exactly)
with torch.inference_mode():
    own = stored(pages, output_attentions=True).attentions[0][:, :, n]  # page head source
folded = torch.stack([cx.attention_rows(weights, page, n) for page in pages])
off = float(errors["the layer's output"])
shortest = float(cx.layer_norm(r, weights.eps).norm(dim=-1).min() / weights.d_model**0.5)
cb.ledger(
    model,
    cb.Claim(
        "folding_is_algebra",
        "folded rows minus the stored model's, largest difference",
        float((folded - own).abs().max()),
        digits=4,
    ),
    cb.Claim(
        "heads_add", "heads plus bias minus the layer's output, largest difference", off, digits=4
    ),
    cb.Claim("layernorm_length", "length after LayerNorm over sqrt(d_model), smallest", shortest),
)

# %% [markdown]
r"""
**On real models**, kept from [chapter 8](08_real_model): how many heads read a text as a whole (*stable*, [chapter 4](04_denominators)), and who speaks: the share of these heads together. The rest is said by the others, most of them local. In `mini` all heads are stable.
"""

# %% tags=["hide-input", "nbval-check-output"]
cb.on_real("heads stable", "their share")

# %% [markdown]
"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
exact = f"off by less than {ROUNDING:g}"
pd.Series(
    {
        "The first layer reads one vector per token, W_E[x_i] + W_pos[i], on a sphere.": exact,
        "A head writes its row times its values, and the heads add.": exact,
        "What a head writes is a mean over far more than the last ten tokens, and their order hardly counts.": f"{near:.0%} of a row at most on the last ten tokens; {least:.0%} of the gap, or more, stays",
    },
    name="error",
).to_frame()

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* Put the token of *What stands at one position* at position 250 instead of 45. What is the cosine between the two vectors on the sphere: nearer to 1, 0.9, 0.5 or 0? Write it down, then open the cell.
"""

# %% tags=["hide-cell"]
elsewhere = what + weights.W_pos[min(250, n)]
pd.Series({"cosine": f"{torch.cosine_similarity(r_i, elsewhere, dim=0):.2f}"}, name="").to_frame()

# %% [markdown]
r"""
2. *Fill in.* Write the attention row of one head, from its query, its keys and $d_\text{head}$, without looking up.
"""


# %%
def my_row(q, k, d_head):
    """The attention row over the sources of k."""
    return ...


# %% tags=["hide-input"]
mine = my_row(q[0], k[0], weights.d_head)
if mine is ...:
    said = "Not yet."
else:
    said = "Right." if torch.allclose(torch.as_tensor(mine), row[0], atol=1e-5) else "Not the row."
cb.Finding(said)

# %% [markdown]
r"""
3. *Break this.* Take the positions away: `blind = dataclasses.replace(weights, W_pos=0 * weights.W_pos)`. What happens to the bars of Figure 1.1, and to the gaps of Figure 1.2?
4. Show that $b_K$ has no influence on the row in {eq}`eq-qk`. Has $b_Q$?

```{admonition} Solutions
:class: dropdown

1. The token is longer than its position (see the lengths in the table), so most of the vector stays.
2. `torch.softmax(k @ q / d_head**0.5, dim=-1)`.
3. Put `blind` in the place of `weights` in both cells. The row now depends on the tokens alone, so a source far back counts as much as a near one, and every bar comes out like the even one, but for BOS and for ' the' at $n$, which stand in every text. The gaps remain, for the words remain.
4. $b_K$ adds $q_n \cdot b_K / \sqrt{d_\text{head}}$ to every score of the row alike, and the softmax is blind to that. $b_Q$ adds $b_Q \cdot \text{key}_i / \sqrt{d_\text{head}}$, which depends on $i$: it stays.
```

## Where this comes from

The picture of a residual stream with QK and OV circuits is that of {cite:t}`elhage2021framework`; the model has the architecture of GPT-2 {cite}`radford2019language` and is read with TransformerLens
{cite}`nanda2022transformerlens`. That first-layer heads fall into kinds, and that the broad ones carry context, is the observation of {cite:t}`gibson2025contextual` from which this book sets out. The card of `mini`, with its recipe, its losses and the
sources of its text, is `ctxlib/data/mini/README.md`.
"""
