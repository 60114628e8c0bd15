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

**Yes: rebuilt from one half for the token and one for the place, a row puts nearly all of its attention where the model does.**
In heads 0 and 7, which say 92% of what differs between texts, such rows misplace 0.06 and 0.02 of the attention.
Without the tokens they would misplace 0.56 and 0.29, and without the places 0.45 and 0.09.
The gain is least in head 4, where 0.10 stands against 0.11; in heads 1, 2, 3 and 4 most of the error comes from one token, BOS.
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
MODELS = None  # real models to run for what is kept: make evidence CHAPTER=02_keys

# %% tags=["hide-input", "nbval-check-output"]
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
passages, n = study.passages, study.n
# as many texts as take the memory of 1000 on the book's own model
several = study.texts[: max(100, int(1000 * 256 * 256 / (n * weights.d_model)))]
X = study.fixed.prepare(several)  # text source: TOKEN stands at n
x = study.fixed.prepare([study.example])[0]  # the book's example
names = ["BOS", *map(str, cx.texts.decode_tokens(weights, x[1:].tolist()))]


who = study.head_variance_share  # each head's share of what differs between texts (chapter 1)
speak = sorted(who.nlargest(2).index)


def heads_of(which):
    """Heads by number, in words."""
    return f"head{'s' * (len(which) > 1)} {cb.listed(which)}"


print(study)

# %% tags=["hide-input"]
cb.figures.path(
    ["key"], "What this chapter takes apart: the key of a source, into what stands there and where."
)

# %% [markdown]
r"""
[Chapter 1](01_first_layer) wrote a head's row from queries and keys. A key mixes a token and its place. If it could be split, each head would have *one* account of places, the same for all texts, and one number for each token of the vocabulary. Can it? The question is asked at the middle of the context, $n$, where ` the` stands.

## A length ties what to where

A head reads the key of source $i$ from the sum of a token embedding and a position embedding, after LayerNorm has put the sum on a sphere:

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
figure, ((axis,),) = cb.figures.panels(height=2.5, width=7.5)
axis.plot(lengths, color=cb.figures.COLORS[1], label="position i")
axis.plot([0], lengths[:1], "o", ms=5, color=cb.figures.COLORS[1])
axis.axhspan(low, high, alpha=0.2, label="tokens of texts, middle 90%")
axis.axhline(C, color=cb.figures.INK, lw=1, ls="--", label="C")
axis.set(xlabel="position i", ylabel="length", ylim=(0, None))
axis.legend(fontsize=8, ncols=3)
cb.figures.picture(
    figure,
    "2.1",
    "The length of every position embedding, beside those of the tokens that texts are made of. C is the median over the vocabulary.",
    f"A curve that starts at {lengths[0]:.2f} at position 0, is {lengths[n]:.2f} at n = {n} and {lengths[-1]:.2f} at the end; tokens lie between {low:.2f} and {high:.2f}, C is {C:.2f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
rest = float(lengths[1:].median())
cb.finding(
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

Each part then gets a length of its own: that of the token does not mention $i$, and that of the place does not mention $x_i$. The first is divided by the length that the token would have *at n*. The second is divided by $\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}$, the length of the sum at $i$ if the token is of the typical length $C$ and stands at right angles to its position. $C$ is the median over the vocabulary.

$$
\begin{aligned}
\text{key}_i \;\approx\;\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_E[x_i] + W_\text{pos}[n])\,W_K}{\lvert W_E[x_i] + W_\text{pos}[n]\rvert}}_{E[n,\,x_i]} \\
+\;\; & \underbrace{\sqrt{d_\text{model}}\,\frac{(W_\text{pos}[i] - W_\text{pos}[n])\,W_K}{\sqrt{\lvert W_\text{pos}[i]\rvert^2 + C^2}}}_{P[n,\,i]}
\end{aligned}
$$ (eq-split)

This is Equation 1 of the paper, as this book reads it, and called so from here on. $E$ knows which token, $P$ knows which place. A score becomes a sum, $c_i + p_i$, and the softmax makes a product of it, $e^{c_i} e^{p_i}$: one factor for the token, one for the place, as long as the destination and its token are given ([chapter 3](03_kernels)). In code:
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
package = cx.decompose.content_keys(weights, n, x), cx.decompose.positional_keys(weights, n)
all(torch.allclose(mine, theirs, atol=1e-3) for mine, theirs in zip((E, P), package, strict=True))

# %% [markdown]
r"""
The last line compares both halves with the package's. At $i = n$ the second part is zero and the first exact, so there the equation has no error at all.

## Four sources by hand

Here are four sources of the page on the solar system, read by head 0, one of the two that say most: BOS; *science*, which of the far sources gets most attention too much; *planets*, two tokens before ` the`; and ` the` itself. Write $c_i$ and $p_i$ for the two parts of a score, $c_i = q_n \cdot E[n, x_i] / \sqrt{d_\text{head}}$ and $p_i = q_n \cdot P[n, i] / \sqrt{d_\text{head}}$.
"""

# %%
true = cx.attention_rows(weights, x, n)
at_i = (W_E[x] + W_pos[: n + 1]).norm(dim=-1)  # the true length
at_n = (W_E[x] + W_pos[n]).norm(dim=-1)  # in its place in E
typical = (W_pos[: n + 1].square().sum(-1) + C**2).sqrt()  # in its place in P


def parts(h):
    """The two parts of head h's scores, and the scores as they are: each `source`."""
    c, p = (half[h] @ q[h] / weights.attn_scale for half in (E, P))
    return c, p, (c * at_n + p * typical) / at_i  # the two numerators, over the true length


h = speak[0]
c, p, true_score = parts(h)

# %% tags=["hide-input", "nbval-check-output"]
factor = (c + p - true_score).exp()
far = int((true[h] * (factor - 1).abs())[1 : n - 20].argmax()) + 1
four = [0, far, int(true[h].argmax()), n]
columns = {
    "i": four,
    "true length": at_i,
    "in E": at_n,
    "in P": typical,
    "c": c,
    "p": p,
    "c + p": c + p,
    "true score": true_score,
    "rebuilt / true weight": factor,
}
pd.DataFrame(
    {k: v if k == "i" else [f"{float(v[i]):.2f}" for i in four] for k, v in columns.items()},
    index=pd.Index([names[i] for i in four], name=f"source, head {h}"),
)

# %% [markdown]
r"""
The numerators are never touched, so a score is wrong only by its two lengths. With $\ell_i$ for the true length, $\ell_i^n$ for the one in $E$ and $\bar\ell_i$ for the one in $P$, the error of a score is exactly

$$
\delta_i \;=\; c_i \left( 1 - \frac{\ell_i^n}{\ell_i} \right) \;+\; p_i \left( 1 - \frac{\bar\ell_i}{\ell_i} \right) .
$$ (eq-error)

An error of a tenth makes a source's weight a tenth too large, before the softmax makes the row sum to one. The last column of the table is this factor, $e^{\delta_i}$. Trouble takes two things at once: a part of the score that is large, and a length that is wrong. Far tokens have both in head 0, and BOS in others:
"""

# %% tags=["hide-input", "nbval-check-output"]
factor = (c + p - true_score).exp()
worst = int(cx.total_variation(true, rebuilt).argmax())
in_worst = float((sum(parts(worst)[:2]) - parts(worst)[2])[0].exp())
display(
    cb.finding(
        f"In head {h}, the source {n - far} tokens back gets {factor[far]:.1f} times its weight, before the row is normalised: its place takes {-p[far]:.2f} off the score, and should take {-p[far] * typical[far] / at_i[far]:.2f}, since the token is shorter than C.",
        holds=bool(factor[far] > 1.1 and p[far] < 0 and typical[far] > at_i[far]),
    ),
    cb.finding(
        f"BOS is {at_i[0]:.2f} long where it stands and would be {at_n[0]:.2f} at n, so its content counts too much: it gets {in_worst:.1f} times its weight in head {worst}. Head {h} gives BOS no weight to speak of.",
        holds=bool(at_i[0] > 1.2 * at_n[0] and in_worst > 1.5 and true[h, 0] < 0.01),
    ),
)

# %% [markdown]
r"""
## How close are the rows?

Two rows are two distributions over the same sources. Their **total variation** is the largest difference in weight that any set of sources could show:

$$
\text{TV} \;=\; \tfrac12 \sum_{i \le n} \lvert a_i - \hat a_i \rvert ,
$$ (eq-tv)

with $a_i$ the true row and $\hat a_i$ the other one. TV 0.05 means that a twentieth of the attention sits where it should not. ([Appendix A](A_scale) sets the book's numbers for it side by side.) Here is its median over the held-out texts, at $n$, for the rows of Equation 1 and for four others: an even row; the row of the places alone, $\text{softmax}_i\, p_i$; that of the tokens alone, $\text{softmax}_i\, c_i$; and Equation 1 with one repair. BOS stands at 0 in every text, so its true key is known from the weights alone.
"""

# %%
true_rows = cx.attention_rows(weights, X, n)  # text head source
scores = cx.decompose.approx_scores(weights, X, n)
ask = cx.decompose.qk_direction_at(weights, X[:, n], n)  # text head d_model
first = ask @ cx.layer_norm(W_E[X[:, :1]] + W_pos[0], eps).mT  # text head 1: BOS by its own key


def with_own_bos(scores):
    """The rows of these scores, with the first source read by its own key."""
    return torch.cat([first, scores[..., 1:]], -1).softmax(-1)


kernel = cx.positional_kernels(weights, n, TOKEN)  # head source: softmax of p
of_token = cx.decompose.content_scores(weights, n, TOKEN)[:, X].transpose(
    0, 1
)  # text head source: c
rows = {
    "even row": torch.full_like(kernel, 1 / (n + 1)),
    "by place alone": kernel,
    "by token alone": of_token.softmax(-1),
    "Equation 1": scores.softmax(-1),
    "Equation 1, BOS by its own key": with_own_bos(scores),
}
tv = {name: cx.total_variation(true_rows, row.expand_as(true_rows)) for name, row in rows.items()}

# %% tags=["hide-input", "nbval-check-output"]
median = {name: of_texts.median(0).values for name, of_texts in tv.items()}  # each: head
shown = pd.DataFrame({k: [f"{v:.2f}" for v in m] for k, m in median.items()})
shown.insert(0, "variance share", who.map("{:.0%}".format))
shown.rename_axis("head").T

# %% tags=["hide-input", "nbval-check-output"]
even, by_kernel, by_token, split, mended = median.values()
guess = torch.minimum(by_kernel, by_token)  # the better one of either half alone
gain = guess / split
least = int(gain.argmin())
by_bos = [h for h in range(H) if mended[h] < split[h] / 2]
display(
    cb.finding(
        f"In heads {cb.listed(speak)}, which say {who[speak].sum():.0%} of what differs between texts, such rows misplace {split[speak[0]]:.2f} and {split[speak[1]]:.2f} of the attention.",
        holds=bool(who[speak].sum() > 0.75 and split[speak].max() < 0.075),
    ),
    cb.finding(
        f"Without the tokens they would misplace {by_kernel[speak[0]]:.2f} and {by_kernel[speak[1]]:.2f}, and without the places {by_token[speak[0]]:.2f} and {by_token[speak[1]]:.2f}.",
        holds=bool((torch.minimum(by_kernel, by_token)[speak] > 3 * split[speak]).all()),
    ),
    cb.finding(
        f"The gain is least in head {least}, where {split[least]:.2f} stands against {guess[least]:.2f}; in heads {cb.listed(by_bos)} most of the error comes from one token, BOS.",
        holds=bool((split < by_kernel).all() and len(by_bos) == H / 2 and least in by_bos),
        otherwise=f"The gain is least in head {least}, where {split[least]:.2f} stands against {guess[least]:.2f}.",
    ),
    cb.finding(
        f"In {heads_of(by_bos)}, with BOS read by the key that it has in truth, the misplaced share falls from {split[by_bos].mean():.3f} to {mended[by_bos].mean():.3f} on average over them."
        if by_bos
        else "BOS read by the key that it has in truth mends some heads.",
        holds=len(by_bos) > 0,
        otherwise="in no head does BOS make half of the error.",
    ),
)

# %% tags=["hide-input"]
three = [*speak, least]
figure, (axes,) = cb.figures.panels(1, len(three), width=8.6, height=2.9, sharex=True, sharey=True)
for axis, h in zip(axes, three, strict=True):
    axis.plot([1e-5, 1], [1e-5, 1], color=cb.figures.INK, lw=0.8, ls=":")
    axis.plot(true[h, 1:], rebuilt[h, 1:], ".", ms=3, alpha=0.6)
    axis.plot(true[h, :1], rebuilt[h, :1], "D", ms=6, color=cb.figures.COLORS[1])
    axis.annotate(
        "BOS", (true[h, 0], rebuilt[h, 0]), (-6, 3), textcoords="offset points", ha="right"
    )
    axis.set(xscale="log", yscale="log", xlabel="true weight", title=f"head {h}")
    axis.set(xlim=(1e-4, 0.6), ylim=(1e-4, 0.6))
axes[0].set_ylabel("rebuilt weight")
cb.figures.picture(
    figure,
    "2.2",
    f"A dot per source of the book's example, “{study.example.subject}”: its weight in the true row and in the rebuilt one. Dotted: equality.",
    f"Scatter plots near the diagonal. BOS gets, in truth, {cb.figures.by_head(true[:, 0])}, and in the rebuilt rows {cb.figures.by_head(rebuilt[:, 0])}.",
)

# %% [markdown]
r"""
Where BOS stands above the diagonal, the cloud lies a little below it: what BOS gets too much, all others get too little. But this error is the same in every text: the same token at the same place, for the same query. In the product *kernel × content* of [chapter 3](03_kernels) BOS's entry is a constant, merely a wrong one. The chapters that follow keep Equation 1 as published and say where BOS matters. In head 0 the repair changes nothing: what lies above the diagonal there are far tokens, like the one in the table. [Appendix A](A_scale) takes $C$ from texts, and says what the zero is for.

## In a real model

MiniLM is an encoder tuned to compare sentences, with 12 heads in its first layer and learned positions that are added: Equation 1's case. Its sources stand on both sides of $n$. The same rows were computed from the model itself, which does not ship with the book, and what the figure needs was kept:
"""

# %% tags=["hide-input"]
KEPT = cb.evidence("keys.json")


def true_and_rebuilt(name, n=128, many=200):
    """TV of three guesses by head, who speaks, and the rows of one text, of the model itself."""
    real = cx.load(name, layers=1)
    some = cx.texts.collection(cx.texts.Reader.of(real, 2 * n), many)
    fixed = cx.fix_query(real, some, n)
    parts = []
    for few in fixed.prepare(some).split(25):
        truth, ours = fixed.exact.rows(few), fixed.decomposition.rows(few)
        by_content = fixed.decomposition.content[:, few].transpose(0, 1)
        guesses = (
            torch.full_like(truth, 1 / truth.shape[-1]),
            fixed.decomposition.kernels.expand_as(truth),
            by_content / by_content.sum(-1, keepdim=True),
            ours,
        )
        parts.append(torch.stack([cx.total_variation(truth, guess) for guess in guesses]))
    says = cx.denominators.head_variance_share(fixed, some[::2])
    broad = cx.effective_tokens(fixed.decomposition.kernels) > cx.heads.BROAD
    shown = says[broad.tolist()].nlargest(2).index.tolist()
    one = fixed.prepare([next(text for text in some if text.half == "B")])
    of_one = {"true": fixed.exact.rows(one), "rebuilt": fixed.decomposition.rows(one)}
    source, digest = next(
        (k, v)
        for k, v in cx.models.real_models()[name]["files"].items()
        if k.endswith("safetensors")
    )
    return {
        "source": source,
        "sha256": digest,
        "n": n,
        "texts": len(some),
        "speaks": says.round(4).tolist(),
        "TV": [
            [round(v, 4) for v in row.tolist()] for row in torch.cat(parts, 1).quantile(0.5, dim=1)
        ],
        "heads": shown,
        **{
            k: [[float(f"{v:.4g}") for v in r] for r in rows[0, shown].tolist()]
            for k, rows in of_one.items()
        },
    }


if MODELS and "minilm" in MODELS:
    KEPT.write_text(json.dumps(true_and_rebuilt("minilm")) + "\n")
kept = json.loads(KEPT.read_text())

says, (of_even, of_place, of_token, of_split) = np.array(kept["speaks"]), np.array(kept["TV"])
figure, ((left, right),) = cb.figures.panels(1, 2, width=8.6, height=2.9)

for values, mark, name in (
    (of_even, "s", "even row"),
    (of_place, "D", "by place alone"),
    (of_token, "^", "by token alone"),
    (of_split, "o", "Equation 1"),
):
    left.plot(values, mark, ms=5, label=name)
left.set(xlabel="head of MiniLM, and who speaks (%)", ylabel="median TV", ylim=(0, None))
left.set_xticks(range(len(says)), [f"{h}\n{100 * v:.0f}" for h, v in enumerate(says)])
left.legend(fontsize=8)
right.plot([1e-5, 1], [1e-5, 1], color=cb.figures.INK, lw=0.8, ls=":")
for k, h in enumerate(kept["heads"]):
    points = kept["true"][k], kept["rebuilt"][k]
    right.plot(*points, "os"[k], ms=3, alpha=0.6, label=f"head {h}, {says[h]:.0%} of what is said")
right.set(xscale="log", yscale="log", xlim=(1e-4, 1), ylim=(1e-4, 1))
right.set(xlabel="true weight", ylabel="rebuilt weight")
right.legend(fontsize=8)
cb.figures.picture(
    figure,
    "2.3",
    f"MiniLM at n = {kept['n']}, {kept['texts']} held-out texts. Left: how much of a true row is elsewhere in three guesses. Right: the sources of one text, in the two broad heads that say most.",
    f"Left, TV of Equation 1: {cb.figures.by_head(of_split, '.3f')}; by place alone: {cb.figures.by_head(of_place)}. Right: points on the diagonal.",
)

# %% tags=["hide-input", "nbval-check-output"]
weighted = {
    k: float(v @ says) for k, v in {"place": of_place, "token": of_token, "split": of_split}.items()
}
ours = float((split.numpy() * who).sum())
display(
    cb.finding(
        f"Over all heads of MiniLM, weighted by variance share, Equation 1 misplaces {weighted['split']:.2f} of the attention, places alone {weighted['place']:.2f}, and tokens alone {weighted['token']:.2f}.",
        holds=weighted["split"] < min(0.05, weighted["place"] / 3),
    ),
    cb.finding(
        f"By the same average it misplaces {ours:.2f} in {MODEL}.",
        holds=ours < 0.05,
    ),
)

# %% [markdown]
r"""
## What breaks it

- **A token with a large score, at a position with a long embedding.** BOS at 0 is one: where a head attends much to it, its own key is the better one.
- **A constant from the wrong tokens.** $C$ is a median over the vocabulary, and texts are made of its frequent tokens, which are shorter. So it is too large. The claims below find it too small in the middle of the heads, for in heads that say next to nothing a large $C$ makes up for BOS ([appendix A](A_scale)).
- **No position vector.** Rotary positions and ALiBi add none. [Chapter 13](13_families) splits scores there, and not keys.

## Turn it

Choose a passage, a head, a destination and a $C$; the page computes both rows from the weights. Try $C$ at half its value in head 0, and then in head 7: which head minds?
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
    f"True and rebuilt row of head {shown} at n = {n} of “{passages[passage].subject}”, whose own token asks; C = {C:.2f}. Distance {distance:.3f}.",
    f"True and rebuilt row of head {shown}; distance {distance:.3f}.",
)
cv.Rows(weights, passage=passage, head=shown, n=n, picture=picture)

# %% [markdown]
r"""
## Claims

The distances are over all positions of the book's passages, as in the paper's first figure, weighted by variance share among the *broad* heads, whose kernels cover more than 40 tokens. Three lines fail. The worst head is one in which BOS draws much. That tokens and positions are not orthogonal says little: their angles change, and no attention row does, when one vector is taken from all positions and added to all tokens. [Appendix A](A_scale) shows that, and that the best $C$ is larger than the median only in heads that say next to nothing.
"""

# %% tags=["hide-input", "nbval-check-output"]
broad = [
    h for h in study.head_table.index if study.head_table["effective tokens"][h] > cx.heads.BROAD
]
everywhere = torch.stack(
    [
        cx.total_variation(
            cx.decompose.attention_pattern(weights, z), cx.decompose.approx_pattern(weights, z)
        )[:, 1:]
        for z in (p.tokens[: study.length] for p in passages)
    ]
).numpy()  # text head dest
of_text = np.median(everywhere, -1)  # text head
level = everywhere[:, broad].mean((1, 2)) if broad else np.full(2, np.nan)


def spoken(values):
    """Their mean, weighted by variance share."""
    return float(np.average(values, weights=who[broad]))


def typical_tv(name, summary):
    """The claim on a summary, over the broad heads, of their median over texts."""

    def typical(drawn):
        return cb.over(np.median(of_text[drawn], 0), broad, summary)

    here = cb.with_interval(typical, passages)
    return cb.Claim("tv", f"median TV, {name}", *here.for_claim, digits=3)


def over_some(octave):
    """The distance of the middle head where C is so many octaves above the median."""
    made = cx.approx_rows(weights, X[::5], n, C=float(C) * 2**octave)
    return cx.total_variation(true_rows[::5], made).median(0).values.median()


best = min(np.linspace(-1, 1, 9), key=over_some)
unit = torch.nn.functional.normalize
cosine = float((unit(W_E, dim=-1) @ unit(W_pos, dim=-1).T).abs().mean())
scales = layer_norm_scale(W_E[X[:, 1:]] + W_pos[1 : n + 1], eps)
least, most = 0.145, 0.1755  # half a unit of the last printed digit beyond 0.15 and 0.175
inside = cb.Claim(
    "norm_scale",
    f"share of LayerNorm's scales from {least:g} to {most:g}, all positions but the first",
    float(((scales >= least) & (scales <= most)).float().mean()),
)
cb.ledger(
    model,
    typical_tv("weighted by variance share", spoken),
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
    *[inside] * (H == 12),  # a range of GPT-2 small's own
)

# %% [markdown]
r"""
**On real models**, kept from [chapter 8](08_real_model): TV of the heads that read a text as a whole (*stable*, [chapter 4](04_denominators)), weighted by variance share. Of MiniLM's these are nine; the figure above has all twelve. Qwen and SmolLM2 turn queries and keys, and their split is that of [chapter 13](13_families).
"""

# %% tags=["hide-input", "nbval-check-output"]
cb.on_real("TV")

# %% [markdown]
"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
exact = cx.decompose.exact_scores(weights, X, n)
exact = exact - exact[..., n:] + scores[..., n:]  # b_K apart
factors = (scores - exact)[..., 0].exp().mean(0)
pd.DataFrame(
    {
        "its error here": [
            f"{ours:.2f} of a row's weight, weighted by variance share; {split.max():.2f} in the worst head",
            f"BOS gets {factors.min():.1f} to {factors.max():.1f} times its weight, by head, before normalising",
        ]
    },
    index=[
        "For one destination and one token there, a key is what plus where.",
        "The one large exception is the same in every text at this n and token.",
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
cb.finding(
    f"With the mean position as the zero, rows come nearer in {len(gain)} of {weights.n_heads} heads ({mended[gain].mean():.3f} becomes {moved[gain].mean():.3f}); head {lose[0]}, which looks back least far, loses ({mended[lose[0]]:.3f} becomes {moved[lose[0]]:.3f})."
    if len(lose) == 1
    else "One head alone loses when the mean position is the zero.",
    holds=len(lose) == 1 and int(study.head_table["half-mass distance"].argmin()) == lose[0],
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
changed = cx.total_variation(there, cx.approx_rows(weights, other, n)).median(0).values
shares = [float(r[:, by_bos, 0].mean()) for r in (true_rows, there)]  # of position 0
cb.finding(
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
