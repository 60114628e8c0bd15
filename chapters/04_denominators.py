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
# Why do denominators hold still, and what does pretending cost?

**Because each is an average over many tokens; what still moves it is the topic of the text, and taking one number for all texts makes what a head writes too long or too short.**
In heads 0 and 7, which say 92% of what differs between texts, denominators spread by 24% and 16% of their mean, most of it by topic.
Deal each token the content of another at random, and they spread by 13% and 7%: this much steadiness needs no learned content.
Weighted by variance share, one page of prose is off by 26%, a page from the middle of many by 14%, and no constants do better than 14%.
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
ENOUGH = 0.2  # a mean relative error of at most this counts as enough
REAL = "smollm2"  # the model of the last section, of which a stored layer ships with the book

# %% tags=["hide-input", "nbval-check-output"]
from itertools import islice

import numpy as np
import pandas as pd
import torch
from einops import einsum
from scipy.stats import norm

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, or_all=True)
texts, n, heads = study.texts, study.n, np.arange(weights.n_heads)
listed = cb.listed  # 0, 5 and 7
who = study.head_variance_share  # each head's share of what differs between texts (chapter 1)
speak = sorted(who.nlargest(2).index)
print(study)

# %% tags=["hide-input"]
cb.figures.path(["denominator"], "The part of the path that this chapter is about.")

# %% [markdown]
r"""
## By hand

[Chapter 3](03_kernels) left a row as kernel times content, divided by their sum, the **denominator**:

$$
a_i \;\approx\; \frac{\text{pos}_i\;\text{content}(x_i)}{\text{denom}}, \qquad
\text{denom} \;=\; \sum_{i \le n} \text{pos}_i\;\text{content}(x_i).
$$ (eq-denom)

Take its three tokens again, and beside them a second text that says *tide* where the first says *moon*. Kernel and content are chosen by hand here.
"""

# %% tags=["nbval-check-output"]
hand = pd.DataFrame(
    {"pos": [0.1, 0.2, 0.7], "content, moon": [1, 6, 1], "content, tide": [1, 4, 1]},
    index=["BOS", "moon / tide", "the"],
).T
for text in ("moon", "tide"):
    hand.loc[f"product, {text}"] = hand.loc["pos"] * hand.loc[f"content, {text}"]
hand.loc["row of moon, by its own 2.0"] = hand.loc["product, moon"] / 2.0
hand.loc["row of moon, by tide's 1.6"] = hand.loc["product, moon"] / 1.6
hand["sum"] = hand.sum(axis=1).where(~hand.index.str.startswith("content"))
hand.round(4).map("{:g}".format).replace("nan", "")

# %% [markdown]
r"""
The kernel sums to one, so a denominator is a weighted mean of contents. Two things keep 2.0 and 1.6 from lying further apart. Only the middle token differs, and it counts for a fifth; and its content differs little, 6 against 4. A real head has the first in its favour, a kernel over hundreds of tokens, and more or less of the second.

Now **pretend**: we saw only the second text, and read the first with its 1.6. Every weight is then $2.0 / 1.6 = 1.25$ times as large as it should be. What the head writes points where it should and is 25% too long: its output is

$$
\text{out}(n) \;\approx\; \frac{1}{\text{denom}(x)} \; \sum_{i \le n} \text{pos}_i\; \text{content}(x_i)\; v_i\, W_O ,
$$ (eq-cal-output)

a sum with one term per token, where $v_i$ is the value of source $i$, and one factor in front, the same for all of them. The paper reads the factor off *one* **calibration text**, and uses it for all others {cite}`gibson2025decomposing`. The cost of that is

$$
\text{error} \;=\; \frac{\text{denom}(x)}{\text{denom}^\text{cal}} - 1 .
$$ (eq-cal-error)

## How far they move

In code, for every held-out text at once. All have the same token at $n$. The unit of content is arbitrary, one per head, so only ratios of denominators mean anything. The **coefficient of variation** of a head is the standard deviation of its denominator over texts, divided by its mean.
"""

# %%
x = study.fixed.prepare(texts)  # text source: the first n tokens, then TOKEN
pos = study.fixed.decomposition.kernels  # head source
content = study.fixed.decomposition.log_content.exp()[:, x]  # head text source
denom = einsum(pos, content, "head source, head text source -> text head")

mean = denom.mean(0)  # head
spread = denom.std(0) / mean  # head

# %% tags=["hide-input", "nbval-check-output"]
effective = cx.effective_tokens(pos)  # head
each_spread = " and ".join(f"{spread[h]:.0%}" for h in speak)
pd.DataFrame(
    {
        "variance share": [f"{v:.0%}" for v in who],
        "effective tokens": [f"{v:.0f}" for v in effective],
        "coefficient of variation": [f"{v:.1%}" for v in spread],
        "stable": study.head_table["stable"].map({True: "yes", False: ""}),
    },
    index=pd.Index(heads, name="head"),
).T

# %% [markdown]
r"""
A head is called **stable** if its spread is below 0.3 and its kernel covers more than 40 effective tokens. All eight are, but not alike: what holds stillest says next to nothing. How an average settles can be watched from $n$ back, here in three texts:
"""

# %% tags=["hide-input"]
h = speak[0]
few = denom[:, h].argsort()[[len(texts) // 20, len(texts) // 2, -len(texts) // 20]]  # texts
product = pos[h] * content[h, few]  # text source
summed, weight = (v.flip(-1).cumsum(-1).flip(-1) for v in (product, pos[h]))
running = summed / weight / mean[h]  # of the sources i ... n alone

figure, ((axis,),) = cb.figures.panels(height=2.6, width=7.5)
for k, text in enumerate(few.tolist()):
    axis.plot(running[k], lw=1.4, color=f"C{k}")
    place = running[k, 0] + (0.08 if k else -0.08)
    axis.text(2, place, texts[text].domain, color=f"C{k}", va="bottom" if k else "top")
axis.axhline(1, color=cb.figures.INK, lw=0.8, ls=":")
axis.set(ylim=(0, 2.6), xlabel="i", ylabel="mean content of i ... n / mean")
settled = running[:, 0].tolist()
cb.figures.picture(
    figure,
    "4.1",
    f"Read it from right to left: mean content, under the kernel of head {h}, of the sources from i to n; at i = 0 it is the text's denominator. Three texts: one in twenty lies lower than the lowest, one in twenty higher than the highest.",
    f"Three curves that settle at {settled[0]:.2f}, {settled[1]:.2f} and {settled[2]:.2f} of the mean over texts.",
)

# %% [markdown]
r"""
A single token moves the average of the few sources nearest to $n$, and hardly that of two hundred. So each text settles, but each at a level of its own. Why?

## Tokens from a hat, and a topic

The simplest model of text: every token is drawn **independently from one distribution**. In the example, let the middle token be *moon* or *tide* with equal chances. Its content has mean 5 and variance 1 and enters with weight 0.2, so the denominator has variance $0.2^2 \cdot 1$. In general, with variance $\sigma^2$ of one token's content,

$$
\operatorname{Var}\,\text{denom} \;=\; \sigma^2 \sum_i \text{pos}_i^2 \;\approx\; \frac{\sigma^2}{\text{effective tokens}} ,
$$ (eq-iid)

because variances of independent terms add and a weight comes out squared. (BOS and the destination are the same in every text; sums here run over the tokens between them.) So both count: many tokens, and an even content.

But the tokens of one text are not independent. If the covariance of two contents depends only on how far apart the tokens stand, and is $\gamma(k)$ at distance $k$, with $\gamma(0) = \sigma^2$,

$$
\operatorname{Var}\,\text{denom} \;=\; \sum_{i,\,m} \text{pos}_i\,\text{pos}_m\,\gamma(\lvert i - m \rvert) .
$$ (eq-autocovariance)

Tokens a hundred places apart hardly influence one another. If their contents still vary together, it is because both belong to the same text: to one **topic**, which is whatever all tokens of a text share, language and author included. Call that covariance $\tau^2$. It is tiny, but *every* pair of tokens has it, so averaging does not remove it: put $\tau^2$ for $\gamma$ at every distance but zero, and the sum becomes

$$
\operatorname{Var}\,\text{denom} \;=\; \underbrace{(\sigma^2 - \tau^2) \sum_i \text{pos}_i^2}_{\text{independent}}
\;+\; \underbrace{\tau^2 \Bigl(\sum_i \text{pos}_i\Bigr)^2}_{\text{topic}} \;+\; \text{neighbours} ,
$$ (eq-account)

where the last term is what near tokens share beyond the topic, positive or negative. A wider kernel makes the first term smaller, and leaves the second. We measure $\tau^2$ as the covariance, over texts, of the mean contents of a text's two halves, which hardly have neighbours in common:
"""


# %%
def moments(content, pos):
    """What the account needs of texts: contents `head text source`, kernels `head source`."""
    inner, kernel = content[..., 1:-1], pos[:, 1:-1]  # without BOS and the destination
    halves = [half.mean(-1) for half in inner.tensor_split(2, dim=-1)]  # each: head text
    summed = einsum(kernel, inner, "head source, head text source -> head text")
    return kernel, halves, inner.mean(-1), inner.square().mean(-1), summed


def account(kernel, halves, average, square, summed, of=slice(None)):
    """The terms over these texts, each `head`."""
    one, other = (half[:, of] - half[:, of].mean(1, keepdim=True) for half in halves)
    tau2 = (one * other).mean(1)
    sigma2 = square[:, of].mean(1) - average[:, of].mean(1) ** 2
    independent = (sigma2 - tau2) * kernel.square().sum(-1)
    topic = tau2 * kernel.sum(-1) ** 2
    neighbours = summed[:, of].var(1) - independent - topic
    return {"topic": topic, "independent": independent, "neighbours": neighbours}


facts = moments(content, pos)
terms = account(*facts)

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=2.6, width=7.5)
above, below = torch.zeros(len(heads)), torch.zeros(len(heads))
for k, (part, hatch) in enumerate({"topic": "..", "independent": "", "neighbours": "//"}.items()):
    bar = terms[part] / sum(terms.values())
    base = torch.where(bar >= 0, above, below)
    axis.bar(heads, bar, 0.6, bottom=base, hatch=hatch, color=cb.figures.COLORS[k], label=part)
    above, below = above + bar.clamp(min=0), below + bar.clamp(max=0)
axis.axhline(0, color=cb.figures.INK, lw=0.8)
axis.set(xlabel="head, and its variance share", ylabel="share of the variance")
axis.set_xticks(heads, [f"{h}\n{who[h]:.0%}" for h in heads])
figure.legend(loc="outside upper center", ncols=3, fontsize=9)
cb.figures.picture(
    figure,
    "4.2",
    "What the variance of a denominator over texts is made of. Neighbours are what is left of it, and in head 0 they take something off.",
    "Stacked bars. "
    + "; ".join(
        f"{k}: {cb.figures.by_head(v / sum(terms.values()), '.0%')}" for k, v in terms.items()
    )
    + ".",
)

# %% tags=["hide-input", "nbval-check-output"]
topic, independent = (terms[part] / sum(terms.values()) for part in ("topic", "independent"))
within = independent / (1 - topic)  # head
moved = pd.Series((terms["topic"].clamp(min=0).sqrt() / mean).tolist())  # head
display(
    cb.finding(
        f"In heads {listed(speak)}, which say {who[speak].sum():.0%} of what differs between texts, denominators spread by {spread[speak[0]]:.0%} and {spread[speak[1]]:.0%} of their mean, most of it by topic.",
        holds=bool(who[speak].sum() > 0.75 and (topic[speak] > 0.5).all()),
        otherwise=f"The two heads that say most, {listed(speak)}, spread by {spread[speak[0]]:.0%} and {spread[speak[1]]:.0%} of their mean.",
    ),
    cb.finding(
        f"Topic makes {topic.min():.0%} to {topic.max():.0%} of the variance; independent tokens would make {independent.min():.0%} to {independent.max():.0%}.",
        holds=bool(independent.max() < 0.5 < topic.min()),
    ),
    cb.finding(
        f"In heads {listed(speak)} the topic moves the denominator by {moved[speak].min():.0%} to {moved[speak].max():.0%} of its mean, in the others by {moved.drop(speak).max():.0%} at most.",
        holds=bool(moved[speak].min() > moved.drop(speak).max()),
    ),
    cb.finding(
        f"Of what is left once the topic is taken off, independent tokens would give {within[speak[0]]:.2f} times the variance in head {speak[0]} and {within[speak[1]]:.2f} times in head {speak[1]}.",
        holds=bool((within[speak].log().abs() < np.log(1.5)).all()),
    ),
)

# %% [markdown]
r"""
A post before the paper argues in three steps {cite}`gibson2025contextual`: a denominator is an average of contents; an average over many tokens is close to the mean of its own context; and this mean is "basically independent of the particular context". The second holds by and large: the last finding says how far tokens of one topic are from independent. The third holds in the heads that say little, and not in those that say most.

Is steadiness something that was learned? "Completely random content-dependent components would work", says the post. As a control, **deal** every token the content of another: by a permutation of the vocabulary, or drawn from the texts, so that high contents come about as often as they did. Kernels stay as they are. Twenty draws of each:
"""

# %% tags=["hide-input", "nbval-check-output"]
of_token, seen = (
    study.fixed.decomposition.log_content.exp(),
    x[:, 1:-1].flatten().bincount(minlength=weights.d_vocab),
)
ends, dice = x[0, [0, -1]], torch.Generator().manual_seed(0)  # BOS and destination keep their own
DRAWS, dealt = 20, []
for _ in range(DRAWS):
    for deal in (
        torch.randperm(weights.d_vocab, generator=dice),
        torch.multinomial(seen.float(), weights.d_vocab, True, generator=dice),
    ):
        deal[ends] = ends
        drawn = einsum(pos, of_token[:, deal][:, x], "head source, head text source -> text head")
        dealt.append(drawn.std(0) / drawn.mean(0))
dealt = torch.stack(dealt)  # draw head

usual = dealt.quantile(0.5, dim=0)
display(
    pd.DataFrame(
        {
            "as trained": [f"{v:.1%}" for v in spread],
            "dealt, median draw": [f"{v:.1%}" for v in usual],
            "dealt, largest": [f"{v:.1%}" for v in dealt.amax(0)],
        },
        index=pd.Index(heads, name="coefficient of variation, head"),
    ).T,
    cb.finding(
        f"Deal each token the content of another at random, and they spread by {usual[speak[0]]:.0%} and {usual[speak[1]]:.0%}: this much steadiness needs no learned content.",
        holds=bool((usual[speak] < spread[speak]).all()),
    ),
)

# %% [markdown]
r"""
Training made the contents of these two heads *less* steady. What the draws leave as training made it is the kernels, and how much contents differ.

## What one page costs

Half A of the texts is for choosing, half B for judging, and no document is in both. Three candidates for the constants $c$, one per head. The **page of prose** is one of the book's own passages: of the sixteen labelled american, british or travel, the one whose log denominators are nearest to their mean. The **text in the middle** has the log denominators nearest to their mean over half A. And the **floor** is the least that any constants could leave on half B, found with half B in hand: the $c$ with the least mean of $\lvert \text{denom}(x) / c - 1 \rvert$ (Exercise 4).
"""


# %%
half_A, half_B = cb.half_masks(texts)
A, B = denom[half_A], denom[half_B]  # text head

page = cx.softmax_denominators(study.fixed, [study.calibration_text])[0]  # head
middle = A[(A.log() - A.log().mean(0)).abs().mean(1).argmin()]  # head
ordered = B.sort(0).values
counted = ordered.cumsum(0) / ordered.sum(0)
best = ordered.gather(0, (counted < 0.5).sum(0, keepdim=True))[0]  # head


def cost(c):
    """Mean |error| on half B of these constants, a head."""
    return (B / c - 1).abs().mean(0)


# %% tags=["hide-input", "nbval-check-output"]
table = {"page of prose": page, "text in the middle": middle, "floor": best}
by_head = pd.DataFrame({name: cost(c).numpy() for name, c in table.items()})
by_head.insert(0, "variance share", who.to_numpy())
weighted = by_head.mul(who, axis=0).sum() / who.sum()
plain = by_head.mean()
by_head.loc["weighted"], by_head.loc["plain mean"] = weighted, plain
by_head.loc[["weighted", "plain mean"], "variance share"] = np.nan
on_page, on_middle, least = weighted[1:]
off = by_head["page of prose"][:-2]
far = sorted(off[off > ENOUGH / 2].index)
too_small = float((B[:, far] > page[far]).double().mean())
display(
    by_head.rename_axis(index="head", columns="mean |error|")
    .map("{:.1%}".format)
    .replace("nan%", "")
    .T,
    cb.finding(
        f"Weighted by variance share, one page of prose is off by {on_page:.0%}, a page from the middle of many by {on_middle:.0%}, and no constants do better than {least:.0%}.",
        holds=bool(on_page > ENOUGH > on_middle and on_middle < 1.1 * least),
    ),
    cb.finding(
        f"A plain mean over the heads would have said {plain.iloc[1]:.0%}, {plain.iloc[2]:.0%} and {plain.iloc[3]:.0%}: the heads that are off least say least.",
        holds=bool((plain[1:] < 0.6 * weighted[1:]).all()),
    ),
    cb.finding(
        f"In heads {listed(far)} the page's denominator is too small in {too_small:.0%} of all pairs of a head and a text, so what they write is too long: 1.6 in place of 2.0 again.",
        holds=too_small > 0.75,
    ),
)

# %% tags=["hide-input"]
errors = {"page of prose": B / page - 1, "text in the middle": B / middle - 1}
figure, ((axis,),) = cb.figures.panels(height=0.6 + 0.34 * len(heads), width=7.5)
axis.axvspan(-ENOUGH, ENOUGH, color="C7", alpha=0.15, lw=0)
for s, (label, values) in enumerate(errors.items()):
    away = values.quantile(torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95]), dim=0)
    rows = heads + 0.3 * s - 0.15
    axis.hlines(rows, away[0], away[4], color=f"C{s}", lw=1.2)
    axis.hlines(rows, away[1], away[3], color=f"C{s}", lw=5, alpha=0.5)
    axis.plot(away[2], rows, "os"[s], ms=5, color=f"C{s}", label=label)
axis.axvline(0, color=cb.figures.INK, lw=1, ls=":")
axis.grid(visible=False)
axis.set_yticks(heads, [f"head {h}: {who[h]:.0%}" for h in heads])
axis.invert_yaxis()
axis.set_xlabel("error: denominator of a text over the calibrated one, less 1")
figure.legend(loc="outside upper center", ncols=2, fontsize=9)
cb.figures.picture(
    figure,
    "4.3",
    f"Errors of the {len(B)} texts of half B; beside each head, its variance share. Mark: the median text; thick: half of the texts; thin: nine in ten. Shaded: within {ENOUGH:.0%}.",
    f"Ranges, two per head. Median error with the page of prose: {cb.figures.by_head(errors['page of prose'].quantile(0.5, dim=0), '+.0%')}; with the text in the middle all medians are within {away[2].abs().max():.0%} of zero.",
)

# %% [markdown]
r"""
So two things are wrong. The page's denominators are too small for most texts, and another page mends that. And the bars are wide, which no page can mend. How much does the choice of the page matter, then? Write $d$ for the difference of two log denominators, so that the error is $e^d - 1 \approx d$. If they are normal over texts with standard deviation $\omega$, and one calibrates on the mean of $k$ texts drawn blindly, $d$ has variance $\omega^2 (1 + 1/k)$, and a normal $d$ has $\operatorname{mean} \lvert d \rvert = \sqrt{2/\pi}$ times its standard deviation:

$$
\operatorname{mean} \lvert \text{error} \rvert \;\approx\; \sqrt{\tfrac{2}{\pi}}\; \omega \, \sqrt{1 + \tfrac1k} .
$$ (eq-cal-average)

At $k \to \infty$ this is the floor (with the coefficients of variation for $\omega$, 19% and 12% in heads 0 and 7, where the table has 19% and 11%), and one blind draw costs $\sqrt 2$ times that. Let every text of half A calibrate in turn:
"""

# %%
share = torch.tensor((who / who.sum()).to_numpy(), dtype=B.dtype)  # head
each = ((B[None] / A[:, None] - 1).abs() * share).sum(-1)  # calibrated on (A), tested on (B)
drawn = each.mean(1)  # a blind draw, text by text of half A
passages = cx.softmax_denominators(study.fixed, study.prose)  # text head: the book's plain prose
of_prose = ((B[None] / passages[:, None] - 1).abs() * share).sum(-1)

# %% tags=["hide-input", "nbval-check-output"]
low = (passages[:, speak] / B[:, speak].mean(0)).mean(1)  # passage
domain_A, domain_B = (
    np.array([t.domain for t, a in zip(texts, half_A, strict=True) if a == side])
    for side in (True, False)
)
shared = sorted(set(domain_A) & set(domain_B))
by_domain = np.stack([each[domain_A == d].mean(0).numpy() for d in shared])  # domain, tested on
own = np.array(shared)[:, None] == domain_B
good, to_floor = float((drawn < ENOUGH).float().mean()), float(drawn.mean() / least)
display(
    cb.finding(
        f"A text drawn blindly costs {to_floor:.2f} times the floor on average, where the normal law says {2**0.5:.2f}; {good:.0%} of them are off by less than {ENOUGH:.0%}, and the book's {len(of_prose)} pages of prose by {of_prose.mean(1).min():.0%} to {of_prose.mean(1).max():.0%}: their denominators lie low, at {low.min():.2f} to {low.max():.2f} of the mean in heads {listed(speak)}.",
        holds=bool(
            abs(to_floor / 2**0.5 - 1) < 0.1
            and of_prose.mean(1).min() > drawn.median()
            and low.max() < 1
        ),
    ),
    cb.finding(
        f"A text from the domain that is read leaves {by_domain[own].mean():.0%}, one from another domain {by_domain[~own].mean():.0%}, weighted by variance share.",
        holds=bool(by_domain[own].mean() < 0.9 * by_domain[~own].mean()),
    ),
)

# %% [markdown]
r"""
So most random texts beat the page of prose. The book keeps it all the same, as the paper advises, since no held-out text and no result took part in choosing it. For a model of your own, take a text from the middle of many. What its error does to a neuron is a question for [chapter 5](05_circuit).

## In a real model

The first layer of SmolLM2 has nine heads. Of it the book ships a *stored layer*, in which kernels and contents are, and that is all that a denominator needs. The same questions, on texts that this layer has not seen:
"""

# %%
real = cx.fix_query(REAL)
stream = list(islice(cx.texts.held_out_stream(cx.texts.Reader.of(real, real.length)), 900))
known = {text.document for text in stream[:250]}  # told the stored layer which tokens are common
fresh = [text for text in stream[250:] if text.document not in known][:400]
there = cx.study(real, [text for text in fresh if text.half == "A"], or_all=True)
its_denom = cx.softmax_denominators(real, fresh)  # text head
its_page = cx.softmax_denominators(real, [there.calibration_text])[0]

# %% tags=["hide-input", "nbval-check-output"]
its = there.head_table.assign(**{"variance share": there.head_variance_share})
its["coefficient of variation"] = cx.denominators.head_table(real, there.texts)[
    "coefficient of variation"
]
its_terms = account(
    *moments(real.decomposition.content[:, real.prepare(fresh)], real.decomposition.kernels)
)
its["topic"] = (its_terms["topic"] / sum(its_terms.values())).tolist()
judging = torch.tensor([text.half == "B" for text in fresh])
its["error of its page"] = (its_denom[judging] / its_page - 1).abs().mean(0).tolist()
unsteady, calm = its[~its["stable"]], its[its["stable"]]
broad = unsteady[unsteady["effective tokens"] > cx.heads.BROAD]
local = unsteady.drop(broad.index)
off_there, off_all = (
    (some["error of its page"] * some["variance share"]).sum() / some["variance share"].sum()
    for some in (calm, its)
)
ends = real.prepare(fresh)[0, [0, -1]]
held = (real.decomposition.kernels[:, [0, -1]] * real.decomposition.content[:, ends]).sum(
    -1
) / its_denom.mean(0)
display(
    its.assign(
        **{
            c: its[c].map("{:.0%}".format) for c in ("variance share", "error of its page", "topic")
        },
        stable=its["stable"].map({True: "yes", False: "no"}),
        **{"coefficient of variation": its["coefficient of variation"].map("{:.1%}".format)},
    )[
        [
            "variance share",
            "effective tokens",
            "coefficient of variation",
            "stable",
            "topic",
            "error of its page",
        ]
    ].T,
    cb.finding(
        f"Not every head holds still. Of the {len(its)} heads, head {listed(broad.index)} covers {listed(broad['effective tokens'])} tokens and spreads by {broad['coefficient of variation'].max():.1%} all the same, just beyond the bound of {there.max_cv:.0%}, and it says {broad['variance share'].sum():.0%} of what differs between texts.",
        holds=len(broad) == 1 and bool(broad["coefficient of variation"].max() >= there.max_cv),
        otherwise=f"of {len(its)} heads {listed(unsteady.index)} are not stable.",
    ),
    cb.finding(
        f"Head {listed(local.index)} covers {listed(local['effective tokens'])} tokens and is steady for a trivial reason: {listed(f'{held[h]:.0%}' for h in local.index)} of its denominator comes from BOS and the destination, which are the same in every text because we put them there.",
        holds=len(local) == 1 and bool(held[local.index].min() > 0.5),
    ),
    cb.finding(
        f"Topic makes {calm['topic'].min():.0%} to {calm['topic'].max():.0%} of the variance in the {len(calm)} stable heads. There one page of prose is off by {off_there:.0%}, weighted by variance share, over all heads by {off_all:.0%}.",
        holds=bool(off_there < off_all < ENOUGH and calm["topic"].min() > 0.4),
    ),
)

# %% [markdown]
r"""
Head 3 is why a stable head must cover more than 40 tokens: the hand example, too, has 0.7 of its kernel on the destination. Five of Qwen's heads cover a single token ([chapter 8](08_real_model)).

## What breaks it

- **A topic that was not measured.** The topic term does not shrink with length.
- **Another token at the destination** has another query, so other kernels, contents and denominators. These hold still too:
"""

# %% tags=["hide-input", "nbval-check-output"]
common = x[:, 1:-1].flatten().bincount(minlength=weights.d_vocab).topk(16).indices.tolist()
asking = [token for token in common if token != study.fixed.token][:12]
asked = torch.stack(
    [cx.softmax_denominators(cx.fix_query(weights, n=n, token=t), texts[::4]) for t in asking]
)  # token text head
by_asker = asked.std(1) / asked.mean(1)  # token head
cb.finding(
    f"With each of {len(asking)} other common tokens at n every head stays stable; the largest spread is {by_asker.max():.0%}, with {TOKEN!r} it is {spread.max():.0%}.",
    holds=bool(by_asker.max() < study.max_cv),
)

# %% [markdown]
r"""
- **Other keys.** All this was about the keys of Equation 1 {eq}`eq-split`. With the model's true keys:
"""

# %% tags=["hide-input", "nbval-check-output"]
exact = cx.decompose.exact_scores(weights, x[:200], n).logsumexp(-1)  # text head
exact = (exact - exact.mean(0)).exp()
agree = [np.corrcoef(exact[:, h].log(), denom[: len(exact), h].log())[0, 1] for h in heads]
true_spread = exact.std(0) / exact.mean(0)
cb.finding(
    f"Denominators from the true keys spread by {true_spread.min():.0%} to {true_spread.max():.0%}, and their logs correlate with those of Equation 1 at {min(agree):.2f} or more in every head.",
    holds=bool(true_spread.max() < study.max_cv and min(agree) > 0.9),
)

# %% [markdown]
r"""
What can be promised without reading a text, and which kinds of text are roughest, is in [appendix C](C_certificates).

## Turn it

Try head 7 with the band at 95%, then a head between 1 and 4: the band is what a bound allows independent tokens ([appendix C](C_certificates) derives it), the histogram is where the texts are, and below it lie the book's labelled passages by domain. Where texts leave the band, they were not independent tokens.
"""


# %% tags=["hide-input"]
head = speak[0]
figure, ((axis,),) = cb.figures.panels(height=2.4, width=7.5)
expected = float(terms["independent"][head].sqrt() / mean[head])
axis.hist(denom[:, head] / mean[head], bins=60, range=(0, 2.5), density=True, label="texts")
fixed = np.linspace(0, 2.5, 300)
axis.plot(fixed, norm.pdf(fixed, 1, expected), label="independent tokens")
axis.set(xlabel="denominator / mean", ylabel="density", title=f"head {head}, n = {n}")
axis.legend(fontsize=8)
picture = cb.figures.picture(
    figure,
    "4.4",
    f"Denominators of {len(texts)} texts in head {head}: spread {spread[head]:.0%}.",
    f"A histogram of denominators: spread {spread[head]:.0%}, independent tokens {expected:.0%}.",
)
labeled = [p for p in study.passages if len(p.tokens) > n]  # long enough to look at n
cv.Denominators(study.fixed, texts, labeled, picture=picture, head=head)

# %% [markdown]
r"""
## Claims

Intervals are over documents. What is averaged over heads is weighted by variance share, among the *broad* heads, those that cover more than 40 effective tokens.
"""

# %% tags=["hide-input", "nbval-check-output"]
is_broad = (effective > cx.heads.BROAD).numpy()
in_A, in_B = cb.halves(texts)
denom_np = denom.numpy()


def spoken(values):
    """Mean over the broad heads, weighted by variance share."""
    weight = who.to_numpy() * is_broad
    return float((np.asarray(values) * weight).sum() / weight.sum()) if is_broad.any() else np.nan


def judged(statistic, of=texts):
    """On all documents, and where it lies when others had been read."""
    return cb.with_interval(statistic, of, 399).for_claim


def left_over(drawn):
    """Of the two heads that say most, that of the one that is farther from 1."""
    parts = account(*facts, drawn)
    ratio = (parts["independent"] / (sum(parts.values()) - parts["topic"]))[speak]
    return float(ratio[ratio.log().abs().argmax()])


def tau(drawn):
    topic = account(*facts, drawn)["topic"].numpy().clip(min=0)
    return spoken(np.sqrt(topic) / denom_np[drawn].mean(0))


def matched_over_unmatched(chosen):
    """Error with a text of the own domain over that with one of another, drawn blindly."""
    return (
        by_domain[:, chosen][own[:, chosen]].mean() / by_domain[:, chosen][~own[:, chosen]].mean()
    )


gpt2 = []
if weights.n_heads == 12:  # the sources name heads of GPT-2 small
    SIX = [0, 2, 6, 8, 9, 10]  # its stable heads (Gibson 2025)
    grid = np.unique(np.linspace(1, study.length - 1, 48).astype(int)).tolist()
    places = [cx.fix_query(weights, n=m, token=TOKEN) for m in grid]
    runs = torch.stack([cx.softmax_denominators(fixed, texts[::5]) for fixed in places])
    is_stop = torch.isin(x[:, 1:-1], seen.argsort(descending=True, stable=True)[:50])
    stable = heads[is_broad & (spread.numpy() < study.max_cv)].tolist()
    keyword, stop = ((content[..., 1:-1] * m).sum((1, 2)) / m.sum() for m in (~is_stop, is_stop))
    lift = (keyword / stop)[SIX]
    along = (runs.std(1) / runs.mean(1))[:, SIX].quantile(0.5, dim=0)
    gpt2 = [
        cb.Claim(
            "stable_heads",
            "heads that are stable here or in the source, not in both",
            float(len(set(stable) ^ set(SIX))),
            digits=0,
        ),
        cb.Claim(
            "spread_along",
            "coefficient of variation of denom at the middle position, largest of the six heads",
            float(along.max()),
        ),
        cb.Claim(
            "keyword_head",
            "of the six, heads that emphasise keywords most, here or in the source, not in both",
            float(len({SIX[int(lift.argmax())]} ^ {6})),
            digits=0,
        ),
        cb.Claim(
            "stop_word_head",
            "the same with stop words",
            float(len({SIX[int(lift.argmin())]} ^ {8})),
            digits=0,
        ),
    ]
cb.ledger(
    model,
    cb.Claim(
        "share_stable",
        "stable heads among all of the layer",
        float((is_broad & (spread.numpy() < study.max_cv)).mean()),
    ),
    cb.Claim(
        "spread_at_half",
        "coefficient of variation of denom, weighted by variance share",
        *judged(lambda d: spoken(denom_np[d].std(0, ddof=1) / denom_np[d].mean(0))),
    ),
    cb.Claim(
        "iid_within_context",
        "i.i.d. variance over measured, both less topic, of the two heads that say most the one farther from 1",
        *judged(left_over),
    ),
    cb.Claim(
        "mean_of_context",
        "topic: standard deviation over mean, weighted by variance share",
        *judged(tau),
    ),
    cb.Claim(
        "one_text",
        "error of one prose passage on held-out texts, weighted by variance share, median passage",
        *judged(lambda d: np.median(of_prose[:, d].mean(1)), in_B),
    ),
    cb.Claim(
        "own_domain",
        "error with the domain matched, over error with another, weighted by variance share",
        *judged(matched_over_unmatched, in_B),
    ),
    cb.Claim(
        "other_tokens_steady",
        f"coefficient of variation with other tokens than {TOKEN!r}, weighted by variance share, median token",
        float(np.median([spoken(row) for row in by_asker])),
    ),
    *gpt2,
)

# %% [markdown]
r"""
**On real models**, kept from [chapter 8](08_real_model), over the stable heads and weighted by variance share:
"""

# %% tags=["hide-input", "nbval-check-output"]
cb.on_real("heads stable", "effective tokens", "spread", "error of one page")

# %% [markdown]
r"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
assumed = {
    "a head's denominator at n is one number": f"the coefficient of variation: {spoken(spread):.0%} weighted by variance share, {spread.max():.0%} in head {int(spread.argmax())}",
    "one page can give that number": f"{on_page:.0%} with the page of prose, {on_middle:.0%} with a text from the middle; one factor per head, so that each head's direction is right",
    "what moves it is mostly the topic, which a wider kernel does not remove": f"{topic.min():.0%} of the variance at least, in {MODEL}",
}
pd.DataFrame(assumed.items(), columns=["you may assume", "and the error is"], index=range(1, 4))

# %% [markdown]
r"""
## Exercises

1. **Predict, then run.** At the end of a text a nearly even kernel covers twice the tokens that it covers half way. Independent tokens would spread less by a factor of $\sqrt 2$. Write down what you expect for each head before you unfold the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"]
end = study.length - 1
later = cx.softmax_denominators(cx.fix_query(weights, n=end, token=TOKEN), texts)
pd.DataFrame(
    {
        f"spread at {n}": [f"{v:.1%}" for v in spread],
        f"spread at {end}": [f"{v:.1%}" for v in later.std(0) / later.mean(0)],
    },
    index=pd.Index(heads, name="head"),
).T

# %% [markdown]
r"""
2. **Fill in.** Text $x$ read with the denominator of $y$ has the error $e$. What is the error of $y$ read with the denominator of $x$?
"""


# %% tags=["nbval-check-output"]
def other_way(e):
    return ...  # a formula in e


def check(answer):
    e, other = B[1:] / B[:-1] - 1, B[:-1] / B[1:] - 1
    given = answer(e)
    right = isinstance(given, torch.Tensor) and torch.allclose(given, other, atol=1e-4)
    return "right, for every head and pair" if right else "not yet"


check(other_way)

# %% [markdown]
r"""
3. **Break this.** Calibrate on a page that says one word over and over. Find a word that makes what head 0 writes ten times too long, and one that leaves it within 20%. Which heads care least?
"""

# %% tags=["nbval-check-output"]
WORD = " every"
silly = torch.cat([x[0, :1], torch.full((n,), weights.token_id(WORD))])
(
    denom[texts.index(study.example)] / cx.softmax_denominators(study.fixed, [silly])[0] - 1
).numpy().round(2)

# %% [markdown]
r"""
4. **Prove.** For one head, show that the mean of $\lvert \text{denom}(x)/c - 1 \rvert$ over texts is least where $c$ is a median of the denominators, each weighted by itself. How many calibration texts bring {eq}`eq-cal-average` within 5% of the floor?

```{admonition} Solutions
:class: dropdown

1. The independent term alone would fall by $\sqrt 2$, and it is the smaller one; so it lets you expect little. What happens beyond that is another thing that moved: content is read at $n$, and a head may look for something else at another $n$.
2. $(1 + e)(1 + e') = 1$, so $e' = -e / (1 + e)$: `return -e / (1 + e)`. The text with the smaller denominator is the worse page of a pair.
3. The denominator is then nearly the content of the word, since kernels sum to 1. A word of high content makes it too large, and the error tends to -1; a comma, a newline or ` a` makes it too small, and the error has no bound. ` walked` is close to right. The steadiest heads care least: they give most tokens nearly the same content.
4. With $u = 1/c$ the mean of $D \lvert u - 1/D \rvert$ is least where $u$ is a median of $1/D$ with weights $D$. And $\sqrt{1 + 1/k} \le 1.05$ needs $1/k \le 0.1025$: ten texts.
```

## Where this comes from

Stable denominators, and calibrating on one text at the middle of the context with *the* at the destination, are from {cite:t}`gibson2025decomposing`; the random model, the three steps and the remarks on random content and on other destination tokens from the earlier post {cite}`gibson2025contextual`. (The publication's summary counts 6 of *144 layer 0 heads*; GPT-2 small has 144 heads in all, and 12 in its first layer.) The account by topic, the dealt contents, the floor and the weights by who speaks are this book's.
"""
