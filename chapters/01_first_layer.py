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

**A token and a place, added; nothing else.** Every head of the first layer reads the same short list of vectors, one for each token so far; each is a token
embedding plus a position embedding, put on a sphere. How far the heads spread over the page, and whether what they write depends on what the
page is about, is measured below.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
DOMAINS = ("astronomy", "law", "spanish")  # whose passages are read
DESTINATION = 300  # the position n whose attention rows are drawn
BROAD = 40  # a head spread over more effective tokens than this counts as broad

# %% tags=["hide-input"]
import itertools

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model, layer=0)
passages = cx.texts.passages(weights)
LENGTH = min(len(p.tokens) for p in passages)
n = min(DESTINATION, LENGTH - 1)

# %% [markdown]
"""
## Meet the model

The model of this book is called `mini`. It has the architecture of GPT-2 {cite}`radford2019language` at a smaller size, with a tokeniser of its own, and was trained on books,
statutes, recipes and code; whatever is done to it here can be done to GPT-2 by changing one line. The sizes of the model in this run:
"""

# %% tags=["nbval-check-output"]
pd.Series(
    {
        "layers": model.cfg.n_layers,
        "d_model, the width of the residual stream": weights.d_model,
        "heads in a layer": weights.n_heads,
        "d_head, the width of a head": weights.d_head,
        "neurons in a layer's MLP": weights.W_in.shape[1],
        "n_ctx, the longest text": weights.n_ctx,
        "vocabulary": len(weights.W_E),
    },
    name=MODEL,
).to_frame()

# %% [markdown]
"""
We will keep to three passages, chosen to have little in common. Here is how each begins, and what the model expects after its first
hundred tokens:
"""

# %% tags=["hide-input"]
three = [next(p for p in passages if p.domain == d) for d in DOMAINS]


def expected_next(tokens, count=5):
    """The likeliest next tokens, with their probabilities."""
    with torch.inference_mode():
        probabilities = model(tokens[None])[0, -1].softmax(-1)
    top = probabilities.topk(count)
    return ", ".join(
        f"{model.tokenizer.decode([i])!r} {p:.2f}"
        for i, p in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    )


pd.DataFrame(
    {
        "begins": [" ".join(p.source.split()[:9]) + " ..." for p in three],
        "tokens 93 to 99": [model.tokenizer.decode(p.tokens[93:100]) for p in three],
        "expected next": [expected_next(p.tokens[:100]) for p in three],
    },
    index=pd.Index([p.domain for p in three], name="passage"),
)

# %% [markdown]
r"""
How does a model that predicts one token at a time know, at token 100, that it is reading Spanish, or a statute? Something must carry the past to the present. In a transformer
only attention does, so the question begins with what attention can see.

## The residual stream, before anything has happened

A text is a sequence of tokens $x_0, x_1, \dots$, and in this book $x_0$ is always the same: the token that marks the beginning. The model turns token
$x_i$ at position $i$ into the vector

$$
r_i \;=\; W_E[x_i] + W_\text{pos}[i],
$$ (eq-residual)

a row of one table for *what* the token is and a row of another for *where* it stands. This sum is the start of the **residual stream**: each layer reads from it and
adds to it {cite}`elhage2021framework`. The first layer finds nothing in it but this.

Both tables have been *centred*: the mean over the $d_\text{model}$ entries of every row is taken out. No layer can tell the difference, because all of them read through LayerNorm, which takes
the mean out itself.
"""

# %%
tokens = three[0].tokens
with torch.inference_mode():
    _, cache = model.run_with_cache(
        torch.stack([p.tokens[:LENGTH] for p in three]), stop_at_layer=1, device="cpu"
    )

r = weights.W_E[tokens] + weights.W_pos[: len(tokens)]  # pos d_model: weights.residual(tokens)

# %% tags=["nbval-check-output"]
print(
    f"largest difference to the model's own residual stream: {(r[:LENGTH] - cache['blocks.0.hook_resid_pre'][0]).abs().max():.4f}"
)
print(f"largest mean over d_model: {r.mean(-1).abs().max():.4f}")

# %% [markdown]
r"""
## LayerNorm is a sphere

Before a head reads $r_i$, LayerNorm {cite}`ba2016layernorm` subtracts the mean (there is none left), divides by the standard deviation, multiplies by a gain and adds a
bias. The last two are affine, and an affine map follows anyway, so they can be multiplied into it once and for all. For a normalised vector $v$, gain $g$, bias $c$ and the map
$W, b$ that follows, $(g \odot v + c)\,W + b = v\,(g \odot W) + (c\,W + b)$, where $g$ scales the rows of $W$. This is called **folding**. What is left is

$$
\text{LN}(r) \;=\; \sqrt{d_\text{model}}\;\frac{r}{\lvert r \rvert},
$$ (eq-layernorm)

the projection of $r$ onto the sphere of radius $\sqrt{d_\text{model}}$; $\lvert r \rvert$ is the Euclidean norm. (The implementation adds a small $\epsilon$ to $\lvert r\rvert^2 / d_\text{model}$ so that nothing is divided by zero;
`cx.layer_norm` does too.) From here on $W_Q, W_K, W_V$ stand for the folded matrices, and $b_Q, b_K, b_V$ for the folded biases.
"""

# %% tags=["nbval-check-output"]
radius = cx.layer_norm(r, weights.eps).norm(dim=-1) / weights.d_model**0.5
print(f"|LN(r)| / sqrt(d_model): {radius.min():.2f} to {radius.max():.2f}")
print(
    f"|r|: from the shortest to the longest a factor of {r.norm(dim=-1).max() / r.norm(dim=-1).min():.1f}"
)

# %% [markdown]
r"""
Apart from the product of query and key, the sphere is the only nonlinearity before the softmax. A single vector changes its length there and nothing else. It matters because it is applied to a *sum*: how
strongly a token speaks depends on the position that it was added to. Chapter 2 is about nothing else.

## What a head looks at: the QK circuit

Head $h$ compares a **query**, read at the destination $n$, with a **key**, read at each source $i \le n$:

$$
\begin{gathered}
q_n = \text{LN}(r_n)\,W_Q + b_Q, \qquad \text{key}_i = \text{LN}(r_i)\,W_K + b_K, \\
a_{n,i} = \mathop{\text{softmax}}_{i \le n} \left( \frac{q_n \cdot \text{key}_i}{\sqrt{d_\text{head}}} \right).
\end{gathered}
$$ (eq-qk)

Each head has its own $W_Q, W_K, W_V$ and $W_O$. The number inside the softmax is the **score** of source $i$. The numbers $a_{n,0}, \dots, a_{n,n}$ are the head's **attention
row**: they are positive, they sum to one, and they say how the head shares itself out over the past. Written out, a score is
$(\text{LN}(r_n)\, W_Q + b_Q)\, W_K^{\mathsf T}\, \text{LN}(r_i)^{\mathsf T} / \sqrt{d_\text{head}}$, plus a number that is the same for all $i$. Apart from the vector $b_Q W_K^{\mathsf T}$, the
weights enter only through the product $W_Q W_K^{\mathsf T}$, the **QK circuit**.

Whether all this folding and centring has left the model what it was can be checked. The rows below are held against the checkpoint as it was stored, with nothing folded:
"""

# %%
q, k = weights.queries(tokens), weights.keys(tokens)  # head pos d_head
row = torch.softmax(torch.einsum("hd,hid->hi", q[:, n], k[:, : n + 1]) / weights.attn_scale, dim=-1)

# %% tags=["nbval-check-output"]
stored = AutoModelForCausalLM.from_pretrained(
    cx.models.locate(MODEL), dtype=torch.float32, attn_implementation="eager", use_safetensors=True
)
with torch.inference_mode():
    batch = torch.stack([p.tokens[:LENGTH] for p in three])
    own = stored(batch, output_attentions=True).attentions[0][:, :, n, : n + 1]  # text head source
rows = torch.stack([cx.attention_rows(weights, p.tokens, n) for p in three])
print("the same as cx.attention_rows:", torch.allclose(row, rows[0], atol=1e-6))
print(f"largest difference to the stored model's rows: {(rows - own).abs().max():.4f}")

# %% tags=["hide-input"]
spread = cx.effective_tokens(rows).mean(0)
figure, axes = cx.plots.head_panels(weights.n_heads, sharex=True)
back = np.arange(n + 1)[::-1]
for head, axis in enumerate(axes.flat[: weights.n_heads]):
    for passage, attention, style in zip(three, rows[:, head], itertools.cycle(("-", "--", ":"))):
        axis.plot(back, attention.cumsum(0), style, label=passage.domain)
    axis.set(title=f"head {head}", xlim=(0, n), ylim=(0, 1.02))
    axis.set_xscale("symlog", linthresh=1)
    axis.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    axis.invert_xaxis()
for axis in axes[-1]:
    axis.set_xlabel("tokens back, n − i")
for axis in axes[:, 0]:
    axis.set_ylabel("attention up to here")
axes[0, 0].legend(fontsize=8)
cx.plots.picture(
    figure,
    "1.1",
    f"The true attention rows of all heads at position {n} of the passages, added up from the beginning of the text (left) to the destination (right). The distance is "
    "logarithmic beyond one token: a head that is even over the page has done most of its rising by the left third of its panel, one that rises steadily gives equal attention to each "
    "tenfold of distance, one that rises only at the right lives on the last few tokens. A jump at the very left edge is attention on the first token.",
    f"A panel per head with three rising curves. Averaged over the passages, head {int(spread.argmin())} is spread over {spread.min():.0f} effective tokens and head "
    f"{int(spread.argmax())} over {spread.max():.0f}.",
)

# %% [markdown]
r"""
Two comparisons can be made in Figure 1.1: of the panels with one another, and of the curves within a panel. Take the largest gap between two curves as the measure.
"""

# %% tags=["nbval-check-output"]
curves = rows.cumsum(-1)  # text head source
by_text = (curves[:, None] - curves[None]).abs().amax(-1)  # text text head
by_head = (curves[:, :, None] - curves[:, None]).abs().amax(-1)  # text head head
other_text = ~torch.eye(len(three), dtype=torch.bool)
other_head = ~torch.eye(weights.n_heads, dtype=torch.bool)
print(f"same head, two texts: median gap {by_text[other_text].median():.1f}")
print(f"same text, two heads: median gap {by_head[:, other_head].median():.1f}")

# %% [markdown]
r"""
The smaller the first number beside the second, the more is a head's row a matter of the head and the less of the text. To put a number on how the heads themselves differ, count the **effective tokens** of a row,
$1 / \sum_i a_{n,i}^2$: a row that is even over $k$ tokens has exactly $k$.

Here is the first passage as two heads see it, the one with the fewest effective tokens and the one with the most. The shade is relative to the strongest token shown; hover over a token for its weight.
"""

# %% tags=["hide-input"]
narrow, broad = int(spread.argmin()), int(spread.argmax())
first = max(0, n - 90)
pieces = [model.tokenizer.decode([t]) for t in tokens[first : n + 1]]
cx.plots.ShadedText(
    pieces,
    rows[0, narrow, first:],
    f"Head {narrow}, {cx.effective_tokens(rows[0, narrow]):.0f} effective tokens: the last token is the destination.",
)

# %% tags=["hide-input"]
cx.plots.ShadedText(
    pieces,
    rows[0, broad, first:],
    f"Head {broad}, {cx.effective_tokens(rows[0, broad]):.0f} effective tokens; the text goes on to the left.",
    cx.plots.COLOURS[1],
)

# %% [markdown]
r"""
## What a head says: the OV circuit

Where a head looks is half of it. What it brings back is a **value** from each source, weighted by the row and mapped into the residual stream:

$$
\text{out}_h(n) \;=\; \Bigl( \sum_{i \le n} a_{n,i} \, \bigl( \text{LN}(r_i)\, W_V + b_V \bigr) \Bigr) W_O .
$$ (eq-ov)

$W_V W_O$ is the **OV circuit**. It is linear, and it knows nothing of the row. The heads' outputs are simply added, with one common bias:
"""

# %% tags=["nbval-check-output"]
outputs = torch.stack(
    [weights.head_outputs(a, p.tokens[: n + 1]) for a, p in zip(rows, three, strict=True)]
)  # text head d_model
layer = cache["blocks.0.hook_attn_out"][:, n]
print(
    f"sum of the heads against the layer's own output: largest difference {(outputs.sum(1) + weights.b_O - layer).abs().max():.4f}"
)

# %% [markdown]
"""
So a broad head writes an average: a weighted mean of what its OV circuit says about each token of the page. Does such an average know what the page is about? Ask all the passages of the book. For every
head, compare its output on two texts of the same domain and on two of different domains, by the cosine of the angle between them once the mean over all texts is taken out.
"""

# %%
everything = torch.stack(
    [
        weights.head_outputs(cx.attention_rows(weights, p.tokens, n), p.tokens[: n + 1])
        for p in passages
    ]
)
directions = torch.nn.functional.normalize(
    everything - everything.mean(0), dim=-1
)  # text head d_model
cosine = torch.einsum("shd,thd->hst", directions, directions)

domain = np.array([p.domain for p in passages])


def gap(labels, cosine=cosine):
    """Mean cosine within a domain minus mean cosine between domains, for each head."""
    same = torch.from_numpy(labels[:, None] == labels[None, :]) & ~torch.eye(
        len(labels), dtype=torch.bool
    )
    different = torch.from_numpy(labels[:, None] != labels[None, :])
    return (cosine[:, same].mean(-1) - cosine[:, different].mean(-1)).numpy()


measured = gap(domain)
rng = np.random.default_rng(0)
shuffled = np.stack([gap(rng.permutation(domain)) for _ in range(200)])

# %% tags=["hide-input"]
heads = np.arange(weights.n_heads)
ceiling = np.quantile(shuffled, 0.99, axis=0)
all_spread = (
    torch.stack([cx.effective_tokens(cx.attention_rows(weights, p.tokens, n)) for p in passages])
    .median(0)
    .values
)
figure, ((left, right),) = cx.plots.panels(1, 2, height=2.8, sharey=True)
left.bar(heads, measured, label="true labels")
left.bar(heads, ceiling, width=0.4, color=cx.plots.COLOURS[7], label="99% of shuffled labels")
left.set(xlabel="head", ylabel="cosine within − between domains", xticks=heads)
left.legend(fontsize=8)
right.plot(all_spread, measured, "o", ms=5)
cx.plots.number_points(right, all_spread, measured)
right.set(xlabel="effective tokens of the head's row (median)", xscale="log")
cx.plots.picture(
    figure,
    "1.2",
    f"How much alike a head's outputs are within a domain, compared with between domains, over {len(passages)} passages at position {n}. Left: beside what shuffled labels "
    "give. Right: against the spread of the head.",
    "Bars per head, and a scatter of the same against the head's effective tokens: "
    + ", ".join(
        f"head {h} {m:.2f} (shuffled {c:.2f}), {e:.0f} tokens"
        for h, m, c, e in zip(heads, measured, ceiling, all_spread, strict=True)
    )
    + ".",
)

# %% tags=["nbval-check-output"]
knowing = [int(h) for h in heads[measured > ceiling]]
rank = pd.Series(all_spread.numpy()).rank().corr(pd.Series(measured).rank())
english = np.array([p.dialect.startswith("en") for p in passages])
within_english = gap(domain[english], cosine[:, english][:, :, english])
print("heads whose output tells the domain better than chance:", knowing)
print(f"rank correlation between a head's spread and how well it tells: {rank:.1f}")
print(
    f"the gap, median over heads: {np.median(measured):.1f}; among English passages alone {np.median(within_english):.1f}"
)

# %% [markdown]
"""
The first line lists the heads that tell one domain from another; the second says whether spread goes with it (positive: the broader a head, the better it tells). The third takes the languages out of the comparison, since Spanish
is told from English by its letters alone. No head was told what a domain is. An average over many tokens is enough, if the tokens of one domain push in one direction. This is the thread that the book follows: *which*
heads take such averages, how to write down what they say together, and which neurons listen.

## What breaks it

Every equation above holds for any model that adds a learned position to its token embeddings and normalises the sum. They do not hold

- **in later layers**, where the residual stream at a position also contains what earlier layers wrote there, so that a key is no longer a function of one token and one position;
- **for rotary or relative positions**, which never enter the residual stream; `cx.LayerWeights.of` refuses such a model.

One thing is a convention: every text of this book starts with the model's beginning-of-text token. Without it the equations stand, but attention at the first positions changes.

## Questions for the chapters to come

2. *Can a key be split into what and where?* The sphere couples the two; how tightly?
3. *How far back does a head look?* The rows that position alone would give.
4. *Why do denominators hold still?* A softmax divides by a sum over the whole text; for which heads does that sum depend on the text?
5. *Is one calibration text enough?* Where the sum hardly depends on the text, it can be measured once.
6. *What do several heads say together?* One linear summary of the text.

## Turn it

Choose a passage and a destination. The controls are live in Jupyter and Colab (the rocket above); on this page you see their first setting.
"""


# %% tags=["hide-input"]
def draw(passage, n):
    chosen = next(p for p in passages if p.name == passage)
    attention = cx.attention_rows(weights, chosen.tokens, n)
    figure, ((axis,),) = cx.plots.panels(height=3.0, width=7.5)
    axis.imshow(
        attention.clamp_min(1e-5).log10(),
        aspect="auto",
        cmap=cx.plots.SEQUENTIAL,
        extent=(-0.5, n + 0.5, weights.n_heads - 0.5, -0.5),
        vmin=-5,
        vmax=0,
    )
    axis.set(
        xlabel="source position i",
        ylabel="head",
        yticks=heads,
        title=f"{passage}, n = {n}: log10 of the attention",
    )
    axis.grid(False)
    figure.colorbar(axis.images[0], ax=axis, label="log10 attention")
    effective = cx.effective_tokens(attention)
    return cx.plots.picture(
        figure,
        "1.3",
        "Every head's row at once. Effective tokens: "
        + ", ".join(f"head {h}: {e:.0f}" for h, e in enumerate(effective))
        + ".",
        f"A heat map of heads against source positions for passage {passage} at position {n}. Effective tokens: "
        + ", ".join(f"head {h}: {e:.0f}" for h, e in enumerate(effective))
        + ".",
    )


cx.widgets.Turnable(
    draw,
    passage=cx.widgets.choice("passage", [p.name for p in passages], three[0].name),
    n=cx.widgets.slider("position n", 1, LENGTH - 1, n),
)

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run.
"""

# %% tags=["hide-input", "nbval-check-output"]
sum_of_heads = outputs.sum(1) + weights.b_O
cx.claims.ledger(
    model,
    cx.claims.Claim(
        "folding_is_algebra",
        "folded rows minus the stored model's, largest difference",
        float((rows - own).abs().max()),
        digits=4,
    ),
    cx.claims.Claim(
        "heads_add",
        "heads plus bias minus the layer's output, largest difference",
        float((sum_of_heads - layer).abs().max()),
        digits=4,
    ),
    cx.claims.Claim(
        "layernorm_length",
        "length after LayerNorm over sqrt(d_model), smallest",
        float(radius.min()),
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
broad_heads = [h for h in heads if all_spread[h] > BROAD]
most, least = float(all_spread.max()), float(all_spread.min())
display(
    cx.claims.finding(
        f"Every head is broad: the narrowest covers {least:.0f} effective tokens, the broadest {most:.0f}.",
        holds=least > BROAD,
    ),
    cx.claims.finding(
        f"Every broad head tells the domain better than chance: {len(set(broad_heads) & set(knowing))} of the {len(broad_heads)} that cover more than {BROAD} effective tokens.",
        holds=bool(broad_heads) and set(broad_heads) <= set(knowing),
    ),
)

# %% [markdown]
r"""
## Exercises

1. In {eq}`eq-qk`, show that $b_K$ has no influence on the row. Does $b_Q$?
2. How many free numbers has $W_Q W_K^{\mathsf T}$, given its rank? Compare with $d_\text{model}^2$.
3. Repeat Figure 1.2 with the outputs summed over all heads. Does the layer as a whole tell domains better than its best head?

```{admonition} Solutions
:class: dropdown

1. $b_K$ adds $q_n \cdot b_K / \sqrt{d_\text{head}}$ to every score of the row alike, and the softmax is blind to that. $b_Q$ adds
   $b_Q \cdot \text{key}_i / \sqrt{d_\text{head}}$, which depends on $i$ (but for its part $b_Q \cdot b_K$, which is again common to the row): it stays.
2. $W_Q$ and $W_K$ hold $2\, d_\text{model}\, d_\text{head}$ numbers. Any invertible $M$ may be moved from one to the other ($W_Q M$ and $W_K M^{-\mathsf T}$), which takes off $d_\text{head}^2$. That leaves
   $d_\text{head}\,(2 d_\text{model} - d_\text{head})$, a share $1 - (1 - d_\text{head}/d_\text{model})^2$ of $d_\text{model}^2$.
3. Call `gap(domain, ...)` with the cosines of `everything.sum(1, keepdim=True)`, its mean over texts taken out. Loud heads that do not care about the domain can drown those that do.
```

## Where this comes from

The picture of a residual stream with QK and OV circuits is that of {cite:t}`elhage2021framework`; the model has the architecture of GPT-2 {cite}`radford2019language` and is read with TransformerLens
{cite}`nanda2022transformerlens`. That first-layer heads fall into kinds, and that the broad ones carry context, is the observation of {cite:t}`gibson2025contextual` from
which this book sets out.
"""
