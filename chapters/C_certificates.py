# %% [markdown]
r"""
# A bound on denominators that real texts keep

**A list of how often each token occurs in each domain gives the denominators as well as the best constants would, and a bound on them that new texts keep.** {{?as_good_as_any}} {{?domains_suffice}} In our small model `{{model}}` the constants are off by {{computed_error}} on average. The bound is wide: in head {{wide_of}}, one of the two that matter most, it allows {{allowed_domains}} where we measure {{measured_there}}. {{?loose}} It assumes that the tokens of a domain are independent, and they are not, mostly because each text has a topic of its own, inside its domain. {{?topic_of_text}}

[Chapter 4](04_denominators) derived two bounds for independent tokens, and found that texts break one of them in head {{broken}}, because the tokens of a text are not independent. If we count each domain apart, how much dependence is left? The summary of the publication that this book follows expects such trouble with code, poetry and dialogue. Which of the three would you suspect most?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 1000  # half A of them is counted, half B is where bounds are tested
TOKEN = " the"  # the query token
BLOCK = 4  # tokens that may depend on one another in any way: a phrase
SHARE = 0.95  # the share of texts that a bound is about

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the model and the texts"}
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from einops import einsum
from torch.nn.functional import pad

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
study = cx.study(cx.LayerWeights.of(model), TEXTS, TOKEN, or_all=True)
n, x = study.n, study.fixed.prepare(study.texts)  # text source
heads = np.arange(study.fixed.n_heads)
who = study.head_variance_share  # of what all heads add to the neurons
print(study)

# %% tags=["hide-input"]
domain = np.array([text.domain for text in study.texts])
kinds = {"python": "code", "poetry-drama": "poetry and drama", "bible-kjv": "scripture"}
kinds |= dict.fromkeys(("french", "german", "spanish"), "other languages")
quotes = [len(re.findall('["“”]', study.fixed.tokenizer.decode(row[1:-1].tolist()))) for row in x]
talk = ["fiction with dialogue" if count >= 8 else "other fiction" for count in quotes]
kind = [t if d.startswith("fiction") else kinds.get(d, "English prose") for d, t in zip(domain, talk, strict=True)]  # fmt: skip
kind = np.array(kind)

two = sorted(who.nlargest(2).index)  # the influential heads
contents = study.fixed.decomposition.content[two][:, x[:, 1:-1]].double()  # head text source
kernel = study.fixed.decomposition.kernels[two, 1:-1].double()  # head source
of_texts = [of.mean(-1) for of in (*contents.tensor_split(2, -1), contents, contents.square())]
of_texts += [einsum(kernel, contents, "head source, head text source -> head text")]
of_texts = torch.stack(of_texts)  # average head text


def over_independent(texts):
    """The variance of denominators within domains, over what independent tokens would give; and
    the same with the topics of single texts subtracted from both: `2 head`."""
    real = independent = topic = 0
    for name in np.unique(domain[texts]):
        one, other, mean, square, whole = of_texts[..., texts[domain[texts] == name]]
        tau2 = (one * other).mean(1) - one.mean(1) * other.mean(1)  # as in chapter 4
        independent += (one.shape[1] - 1) * (square.mean(1) - mean.mean(1).square())
        real, topic = real + one.shape[1] * whole.var(1, correction=0), topic + one.shape[1] * tau2
    squares, once = kernel.square().sum(-1), kernel.sum(-1).square()
    left = (real - topic * once) / ((independent - topic) * squares)
    return torch.stack([real / (independent * squares), left])


def over(member, k, h):
    return lambda drawn: float(over_independent(member[drawn])[k, h])


ratios = {}
for name in np.unique(kind).tolist():
    of, texts = np.flatnonzero(kind == name), [study.texts[i] for i in np.flatnonzero(kind == name)]
    ratios[name] = [[cb.with_interval(over(of, k, h), texts, 99) for h in (0, 1)] for k in (0, 1)]
ratios = dict(sorted(ratios.items(), key=lambda pair: pair[1][0][1].value))
figure, (axes,) = cb.figures.panels(1, 2, height=3.2, width=8.6, sharey=True)
for h, axis in enumerate(axes):
    for row, of in enumerate(ratios.values()):
        for k, (r, dy) in enumerate(zip((of[0][h], of[1][h]), (-0.12, 0.12), strict=True)):
            axis.hlines(row + dy, r.low, r.high, color=f"C{k}", lw=3, alpha=0.35)
            axis.plot(r.value, row + dy, "o", color=f"C{k}", ms=5)
    for value, style in ((1, "--"), (BLOCK, ":")):
        axis.axvline(value, color=cb.figures.INK, lw=1, ls=style)
    axis.set_yticks(range(len(ratios)), [f"{k} ({(kind == k).sum()})" for k in ratios])
    axis.set(title=f"head {two[h]}", xlabel="variance / that of independent tokens")
    axis.set(xlim=(0, 7), ylim=(-0.6, len(ratios) - 0.2))
    axis.grid(visible=False, axis="y")
cb.figures.picture(
    figure,
    "C.1",
    f"How much more denominators vary than those of independent tokens would, in the two heads that matter most. Blue: within a domain. Orange: once the topic of each text is subtracted, too. Bars are 95% intervals over documents; in brackets, the number of texts. Dashed: independent tokens; dotted: the most that blocks of {BLOCK} can account for.",
    "A row a kind of text. " + "; ".join(f"{k}: " + ", ".join(f"head {h} {of[0][j].value:.1f}, then {of[1][j].value:.1f}" for j, h in enumerate(two)) for k, of in ratios.items()) + ".",
)  # fmt: skip

# %% [markdown]
r"""
It is code. In head {{wide_of}} the variance of its denominators is {{code}} times that of independent tokens with the frequencies of their domain. In English prose it is {{prose}} times as large, and in verse ({{verse}}) and dialogue ({{dialogue}}) less than that. {{?code_is_worst}} So even within a domain tokens are not independent. What ties them together?

Suppose that each text has a topic of its own, more special than its domain. We can take it off as in [chapter 4](04_denominators), where its size is the covariance of a text's two halves. Over all texts, this leaves {{left_first}} times the variance of independent tokens in head {{empty_of}} and {{left_second}} times in head {{wide_of}}, where there were {{all_first}} and {{all_second}} times. We had fixed that topics are the main cause if in most kinds of text this brings both heads nearer to one, and it does so in {{nearer}} of {{kinds}}. {{?topic_of_text}} (In each of the other kinds, one head has no excess to explain. {{?no_excess}})

## A bound for each domain

So we count tokens in each domain $d$ apart, and begin with tokens that are independent within it. Then both inequalities of chapter 4 hold for its texts. We add a third, the sharpest in most heads. **Bernstein**'s inequality uses the variance $V$ of the denominator and the largest deviation $m$ that a single token can cause,

$$
\begin{gathered}
V = \sigma^2 \sum_i \text{pos}_i^2 , \\
m = \max_t \lvert \text{content}(t) - \mu \rvert \, \max_i \text{pos}_i ,
\end{gathered}
$$ (eq-blocks)

with $\mu$ the mean content, and says

$$
\begin{aligned}
&P(\text{denom} - M \ge \varepsilon) \\
&\quad \le\; \exp\left( - \frac{\varepsilon^2 / 2}{V + m\,\varepsilon/3} \right) .
\end{aligned}
$$ (eq-bernstein)

Within a domain the denominator concentrates around the domain's mean $M_d$. We ask how far it lies from $M$, the mean over all domains, so we add up the domains with their shares $\pi_d$:

$$
\begin{aligned}
&P(\text{denom} - M \ge \varepsilon) \\
&\quad \le\; \sum_d \pi_d\, \text{tail}_d\bigl(\varepsilon - (M_d - M)\bigr) ,
\end{aligned}
$$ (eq-certificate)

and likewise below the mean. Here $\text{tail}_d$ is the least of the three bounds. (Chebyshev's is taken for one side, where it is called Cantelli's inequality.)

How much dependence can such a bound allow? Go back to the two texts of chapter 4, and split the middle position into two, with weight {{= 0.1 =}} each. *Moon* has content {{= 6 =}} and *tide* has {{= 4 =}}, with equal chances, so one token has a variance of {{= 1 =}}. If the two positions are drawn independently, the denominator has a variance of $2 \times 0.1^2 = 0.02$. If both are always the same word, they are one token with weight {{= 0.2 =}}, and the variance is $0.2^2 = 0.04$. So we can cut a text into **blocks** of $b$ tokens, allow any dependence inside a block, and let the weight $w_k$ of block $k$ take the place of $\text{pos}_i$: every inequality stays true if blocks are independent. But the square of a sum of $b$ weights is at most $b$ times the sum of their squares (Cauchy and Schwarz). So blocks of four allow at most four times the variance, and they cannot hold what all tokens of a text share. In code, with `block=1` for independent tokens:
"""


# %%
def ingredients(study, shares, frequency, block):
    """What the bounds need: `head domain`, or `head 1` where domains do not matter."""
    content = study.fixed.decomposition.log_content.double().exp()  # head vocab
    pos = study.fixed.decomposition.kernels.double()  # head source
    inner, same = pos[:, 1:-1], study.fixed.prepare([study.example])[0, [0, -1]]
    fixed_part = (pos[:, [0, -1]] * content[:, same]).sum(-1, keepdim=True)  # BOS and the query
    w = pad(inner, (-inner.shape[1] % block, 0)).unflatten(-1, (-1, block)).sum(-1)
    w2, most = w.square().sum(-1, keepdim=True), w.amax(-1, keepdim=True)
    a, b = content.amin(-1, keepdim=True), content.amax(-1, keepdim=True)
    mu = content @ frequency.T
    M_d = fixed_part + mu * inner.sum(-1, keepdim=True)
    M = M_d @ shares  # head
    V = (content.square() @ frequency.T - mu.square()).clamp(min=1e-30) * w2
    R, m = (b - a).square() * w2, torch.maximum(b - mu, mu - a) * most
    largest = (fixed_part[:, 0] + b[:, 0] * inner.sum(-1)) / M - 1  # error of any text
    return SimpleNamespace(
        M=M, largest=largest.clamp(min=1), shift=M_d - M[:, None], shares=shares, V=V, R=R, m=m
    )


def share_off(g, error):
    """At most this share of texts is off by `error` or more: `head`."""

    def tail(t):
        t = t.clamp(min=0)  # where the domain's own mean is beyond, the bound is 1
        cantelli = g.V / (g.V + t.square())  # Chebyshev's, for one side
        hoeffding = (-2 * t.square() / g.R).exp()
        bernstein = (-t.square() / 2 / (g.V + g.m * t / 3)).exp()
        return torch.stack([cantelli, hoeffding, bernstein]).amin(0)

    t = error * g.M[:, None]
    below = tail(t + g.shift) if error < 1 else 0  # no denominator is below zero
    return (tail(t - g.shift) + below).clamp(max=1) @ g.shares


# %% [markdown]
r"""
We fixed the length of a block at four tokens, a phrase, before we tested any bound. (We did know chapter 4.) They cannot hold what all tokens of a text share, and code in head {{wide_of}}, at {{code_all}} times the variance, exceeds what they allow, though with so few texts not beyond doubt. {{?over_four}} So blocks are slack, and not how texts depend.

## What is allowed, and what is measured

We count tokens in half A of the texts, find the error that the bounds allow to at most {{= 5% =}} of texts, and then read half B, which shares no document with half A.
"""


# %% tags=["hide-cell"] mystnb={"code_prompt_show": "How tokens are counted, and how the smallest error is found"}
def counted(study, texts):
    """The share of each domain in texts, and the frequencies of its tokens `domain vocab`."""
    of = np.array([text.domain for text in texts])
    tables = [
        torch.cat([t.tokens[1:].cpu() for t in texts if t.domain == d]).bincount(minlength=study.fixed.d_vocab)
        for d in np.unique(of)
    ]  # fmt: skip
    p, shares = torch.stack(tables).double(), np.unique(of, return_counts=True)[1] / len(of)
    return torch.tensor(shares), p / p.sum(-1, keepdim=True)


def smallest(g):
    """The smallest error beyond which the bound allows at most the rest of the texts: `head`."""
    errors = torch.logspace(-2.5, 2, 400, dtype=torch.double)
    enough = torch.stack([share_off(g, e) for e in errors]) <= 1 - SHARE  # error head
    return torch.where(enough.any(0), errors[enough.double().argmax(0)], torch.inf)


def all_of(study, texts):
    """What the bounds need, by how much dependence they allow."""
    shares, p = counted(study, texts)
    one, together = torch.ones_like(shares[:1]), (shares @ p)[None]
    return {
        "independent tokens": ingredients(study, one, together, 1),
        f"blocks of {BLOCK}": ingredients(study, shares, p, BLOCK),
        "domains alone": ingredients(study, shares, p, 1),
    }


# %%
read_A, read_B = cb.halves(study.texts)
made = all_of(study, read_A)
guaranteed = {name: smallest(g) for name, g in made.items()}  # each: head

denom = cx.softmax_denominators(study.fixed, read_B).double()  # text head
ours = made[f"blocks of {BLOCK}"]
error = (denom / ours.M - 1).abs()
measured = error.quantile(SHARE, dim=0)  # head

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=0.9 + 0.3 * len(heads), width=7.5)
axis.barh(heads, measured, 0.55, color="C0", alpha=0.35)
names = {"independent tokens": "one list", f"blocks of {BLOCK}": f"a list a domain, blocks of {BLOCK}", "domains alone": "a list a domain"}  # fmt: skip
for k, (of, mark) in enumerate(zip(guaranteed, "D|o", strict=True), start=1):
    axis.plot(guaranteed[of], heads, mark, color=f"C{k}", ms=6, mew=2, label=names[of])
axis.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=3)
axis.plot([1, 1], [-0.4, len(heads)], color=cb.figures.INK, lw=0.8, ls=":")
axis.set(xscale="log", xlim=(0.01, 3), xlabel="distance from the mean, at most")
axis.set_xticks([0.01, 0.1, 1], ["1%", "10%", "100%"])
axis.set(yticks=heads, ylabel="head", ylim=(len(heads) - 0.5, -0.5))
axis.grid(visible=False, axis="y")
cb.figures.picture(
    figure,
    "C.2",
    f"How far from the mean are {SHARE:.0%} of texts? Bar: measured on half B. Marks: allowed by the bound from half A, with one list of tokens, with a list for each domain, and with blocks in each domain. A mark inside its bar is a broken bound; beyond the dotted line a bound no longer limits how small a denominator can be.",
    "A row a head. " + "; ".join(f"{k}: {cb.figures.by_head(v, '.0%')}" for k, v in {"Measured": measured, **guaranteed}.items()) + ".",
)  # fmt: skip

# %% [markdown]
r"""
If all tokens are drawn independently from one list, the least of the three bounds fails in head {{broken}}, where only {{least_independent}} of the texts lie inside. {{?independence_breaks}} With a list for each domain it holds in every head: at least {{least_domains}} of the texts lie inside. {{?domains_suffice}}

The bound that we had fixed in advance, with blocks as well, holds too: it has at least {{least_inside}} of the texts inside wherever it is below {{= 100% =}}, and at none of a hundred sizes of error did the share of texts beyond exceed it. {{?kept}} But we had also fixed that blocks are needed only if some head has fewer than {{= 95% =}} inside without them, and none has. They cost a lot: in head {{wide_of}} they allow {{allowed}}, not {{allowed_domains}}. {{?domains_suffice}}

Why is a bound whose assumption is false not broken? Because its inequalities are slack: it allows up to {{loosest}} times what we measure. In head {{empty_of}} a few tokens have so much content that Hoeffding and Bernstein must allow for texts full of them, and Cantelli alone gives {{empty_allowed}} (with blocks {{empty_blocks}}, which limits only how large a denominator can be). {{?loose}}

## What it is good for

Counts can replace the page on which we calibrate. The mean $M$, from the tokens of half A, is off by {{computed_error}} on half B, and no constants do better than {{floor}}. {{?as_good_as_any}} (Heads are weighted by variance share.)

The bound, loose as it is, can choose heads without a denominator ever being measured. A head is stable if its kernel covers more than {{= 40 =}} effective tokens and its denominator varies by less than {{= 30% =}}. The weights show the kernel. For the variance we need no tail, since it is the mean variance within domains plus the variance of the domains' means:

$$
\operatorname{Var}\,\text{denom} \;\le\; \sum_d \pi_d \bigl( V_d + (M_d - M)^2 \bigr) .
$$ (eq-certified)
"""


# %%
def largest_cv(g):
    """At most this is the coefficient of variation over texts: `head`."""
    return ((g.V + g.shift.square()) @ g.shares).sqrt() / g.M


def with_topics(one, texts):
    """The same ingredients, where the topics of single texts add to the variance of a domain."""
    g, of = ingredients(one, *counted(one, texts), 1), np.array([t.domain for t in texts])
    x, pos = one.fixed.prepare(texts)[:, 1:-1], one.fixed.decomposition.kernels[:, 1:-1].double()
    content = one.fixed.decomposition.log_content.double().exp()
    for k, name in enumerate(np.unique(of)):
        halves = torch.stack(
            [h.mean(-1) for h in content[:, x[of == name]].tensor_split(2, dim=-1)]
        )
        apart = (halves - halves.mean(-1, keepdim=True)).prod(0)  # head text
        tau2 = apart.sum(1) / max(apart.shape[1] - 1, 1)
        g.V[:, k] += tau2.clamp(min=0) * (pos.sum(-1).square() - pos.square().sum(-1))
    return g


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The largest coefficient of variation of each head, by each bound"}
def selection(one):
    """A row a head: what texts say, and the largest coefficient of variation by each bound."""
    found = cx.softmax_denominators(one.fixed, one.texts)
    effective = cx.effective_tokens(one.fixed.decomposition.kernels).numpy()
    of = {"broad": effective > cx.heads.BROAD, "measured": (found.std(0) / found.mean(0)).numpy()}
    made = all_of(one, cb.halves(one.texts)[0])
    made["domains and topics"] = with_topics(one, cb.halves(one.texts)[0])
    of |= {name: largest_cv(g).numpy() for name, g in made.items()}
    return pd.DataFrame(of).rename_axis("head")


KEY, max_cv = f"blocks of {BLOCK}", study.max_cv
of_models = {MODEL: study}
of_models["first mini"] = cx.study(cx.load("mini-first-edition"), TEXTS, TOKEN, or_all=True)
for name in ("SmolLM2", "Qwen"):  # stored layers
    fixed = cx.fix_query(name.lower())
    of_models[name] = cx.study(fixed, cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), 400), or_all=True)  # fmt: skip
every = pd.concat({k: selection(one) for k, one in of_models.items()}, names=["model"])
every.assign(broad=every["broad"].map({True: "yes", False: "no"})).round(2)

# %% [markdown]
r"""
The four models are `{{model}}`, an older `{{model}}` that this book's first edition used, and the first layers of SmolLM2 and Qwen; they have {{all_heads}} heads. Here the dependence between tokens matters: in {{cv_broken}} of {{broad_heads}} broad heads, domains alone allow less variance than there is. With blocks they allow enough in all, find {{found}} of the {{stable}} stable heads, and choose no other. {{?no_false_choice}} {{?blocks_matter}} (That is less evidence than it seems. Of the {{unstable}} heads that are not stable, all but {{hard}} have a narrow kernel, which any rule would refuse. {{?few_are_hard}} Among these {{hard}}, independent tokens wrongly choose {{by_independence}}.)

The topics of single texts do better than blocks. Let their variance, counted on half A, add to $V_d$ in {eq}`eq-certified`. In the two heads that matter, what comes out is within {{topics_off}} of what half B has, where blocks are too large by up to {{blocks_off}}; and it finds all {{stable}} stable heads, and no other. {{?topics_find}} But this is an estimate, and no bound. We had fixed that it should allow at least what half B has in every broad head of `{{model}}`, and it fails in head {{topics_miss}}, which hardly contributes. {{?topics_fail}}

## What can go wrong

The bound is about texts like those that were counted. We left out one domain at a time, and tested the bound with blocks on its texts. In {{missed}} of {{cases}} cases, a domain and a head, it was broken: {{missed_case}}, where {{missed_inside}} of the texts are inside. {{?one_is_missed}} The bound also assumes three things: that tokens, or blocks of them, are independent within a domain, that a domain has the same tokens at every position, and that half A's counts are the true frequencies. The first is false, as {{= Figure C.1 =}} shows, and the others are not literally true. Here the slack of the inequalities makes up for it, but no theorem says that it must.

## Where this leaves us

Instead of a page, we can calibrate on a list of how often each token occurs in each domain. It also gives a wide bound, and, with the variance of topics, an estimate that finds the stable heads. The three tests that we had fixed in advance for `{{model}}` are met: of the bound on each head, of the choice of heads, and of a bound on the mean error (see Evidence). {{?kept}} {{?no_false_choice}} {{?mean_bound_holds}} Of three remarks of the earlier post, also judged there, two do not hold in `{{model}}`, and one cannot be tested. {{?remarks}}

## Exercises

1. *Prove.* Suppose that {{= 95% =}} of texts lie within an error $e < 1$ of the mean. Of two texts drawn independently, how far from one can the ratio of the denominators be in at least {{= 90% =}} of cases?

```{admonition} Solutions
:class: dropdown

1. With a chance of at least $1 - 2 \times 0.05$ both denominators lie in $M(1 \pm e)$. Their ratio is then at most $\tfrac{1 + e}{1 - e} = 1 + \tfrac{2e}{1 - e}$, and at least $1 - \tfrac{2e}{1 + e}$.
```

## Evidence

**A bound on the mean error.** An earlier post proposes to sort inputs by the size of their denominators, to bound the size of each part, and so to "prove formal performance bounds without having to enumerate all possible inputs" {cite}`gibson2025contextual`. With edges $0 = e_0 < e_1 < \dots < e_K$, where $e_K$ is the largest error of any text, the parts add up to

$$
\begin{aligned}
\mathbb{E}\,\lvert \text{error} \rvert \;\le\; \sum_{k < K} \;&(e_{k+1} - e_k) \\
&\times P(\lvert \text{error} \rvert \ge e_k) ,
\end{aligned}
$$ (eq-partition)

and {eq}`eq-certificate` bounds each probability. The plan works. Blocks of four bound the mean error by {{mean_bound}}, where half B has {{computed_error}}, and in every head the bound is {{times_least}} to {{times_most}} times what is measured. {{?mean_bound_holds}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The bound on the mean error, head by head"}
edges = torch.tensor([0, *np.geomspace(0.005, 50, 100)])


def mean_at_most(g):
    steps = torch.stack([share_off(g, float(e)) for e in edges])  # edge head
    ends = torch.minimum(torch.cat([edges[1:], edges[-1:]])[:, None], g.largest)
    ends[-1] = g.largest  # the last part ends where errors do
    return (steps * (ends - torch.minimum(edges[:, None], g.largest))).sum(0)


def weighted(of):
    """The mean over heads, weighted by variance share."""
    return float(np.average(np.asarray(of), weights=who))


best = denom.sort(0).values  # the constant that would be best on half B (chapter 4)
best = best.gather(0, (best.cumsum(0) < best.sum(0) / 2).sum(0, keepdim=True))[0]
of_mean = {f"at most, {name}": mean_at_most(g) for name, g in made.items()}
of_mean |= {"half B": error.mean(0), "best constants": (denom / best - 1).abs().mean(0)}
at_all = {name: weighted(v) for name, v in of_mean.items()}
by_head = pd.DataFrame([np.asarray(v) for v in of_mean.values()], [*of_mean])
by_head.rename_axis(columns="head").map(lambda v: f"{v:.1%}" if v <= 1 else "empty")

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "A domain left out, and a hundred sizes of error"}
missed, tried = {}, 0
for name in np.unique(domain):
    here = [i for i, text in enumerate(read_B) if text.domain == name]
    g = ingredients(study, *counted(study, [t for t in read_A if t.domain != name]), BLOCK)
    within = ((denom[here] / g.M - 1).abs() < smallest(g)).double().mean(0)
    missed |= {(str(name), int(h)): float(within[h]) for h in heads if within[h] < SHARE}
    tried += int((smallest(g) < 1).sum())  # elsewhere the bound limits one side alone
grid = torch.logspace(-2.5, 2, 100, dtype=torch.double)
allowed = torch.stack([share_off(ours, float(e)) for e in grid])  # error head
exceeded = torch.stack([(error >= e).double().mean(0) for e in grid]) > allowed

# %% [markdown]
r"""
**The ledger.** Three more remarks of the post are about what moves a denominator: the share of keywords, which are all tokens but the fifty most frequent; the first token, far into a text; and the position, along which the denominators of local heads look like *confetti*, that is, jump at every step. `{{model}}` has no local head; [appendix F](F_local) asks those of real models.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Published claims, judged"}
denoms = cx.softmax_denominators(study.fixed, study.texts).numpy()  # text head
often = x[:, 1:-1].flatten().bincount(minlength=study.fixed.d_vocab)
is_common = torch.isin(x[:, 1:-1], often.argsort(descending=True, stable=True)[:50])
keyword_share = 1 - is_common.float().mean(1).numpy()
effective = cx.effective_tokens(study.fixed.decomposition.kernels)
wide, local = effective > cx.heads.BROAD, effective < cx.heads.LOCAL
query_at = lambda m: cx.fix_query(study.fixed.decomposition.weights, n=m, token=TOKEN)
rough = torch.full_like(effective, torch.nan)
if local.any():  # the mean step from one position to the next; what texts share is divided out
    runs = [cx.softmax_denominators(query_at(m), study.texts[:100]) for m in range(n - 24, n + 1)]
    runs = torch.stack(runs) / torch.stack(runs).mean(1, keepdim=True)  # position text head
    rough = (runs.diff(dim=0).abs().mean(0) / runs.mean(0)).mean(0)


def by_keywords(drawn):
    logs = np.log(denoms[drawn]).T  # head text
    explained = [np.corrcoef(keyword_share[drawn], log)[0, 1] ** 2 for log in logs]
    return float(cb.over(np.array(explained), wide, np.max))


def bos_in(m):
    """The part of the denominator at m that BOS makes, in the median one of the stable heads."""
    fixed = query_at(m)
    of_bos = fixed.decomposition.content[:, x[0, 0]] * fixed.decomposition.kernels[:, 0]
    mean = cx.softmax_denominators(fixed, study.texts[::10]).mean(0)
    return float((of_bos / mean)[study.heads].quantile(0.5))


confetti = cb.over(rough, local, np.median) / cb.over(rough, wide, np.median)
positions = np.unique(np.linspace(1, study.length - 1, 48).astype(int)).tolist()
inflated = float(max((m for m in positions if bos_in(m) >= 0.1), default=0))
of_keywords = cb.with_interval(by_keywords, study.texts, 199).for_claim
cb.ledger(
    model,
    cb.Claim("confetti", "mean step of denom from n to n + 1 over its mean, local heads over broad ones, both median", confetti, digits=1),
    cb.Claim("keywords_explain", "variance of log denom explained by plain keyword density, best broad head", *of_keywords),
    cb.Claim("inflated", "last position at which BOS has a tenth of denom, median one of the stable heads", inflated, digits=0),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
p_ours = guaranteed[KEY]
in_independent, in_ours, in_domains = ((error < v).double().mean(0) for v in guaranteed.values())
fails = [int(h) for h in heads if in_independent[h] < SHARE]
sure = [h for h in fails if cb.by_document(lambda d, h=h: float((error[d, h] < guaranteed["independent tokens"][h]).double().mean()), read_B, 399)[1] < SHARE]  # fmt: skip
no_lower = [int(h) for h in heads if p_ours[h] >= 1]
p_domains = guaranteed["domains alone"]
loose = p_domains / measured
wide_of, other = two[::-1]
times = of_mean[f"at most, {KEY}"] / of_mean["half B"]
stable = every["broad"] & (every["measured"] < max_cv)
chosen = {k: every["broad"] & (every[k] < max_cv) for k in made}
false_choice = chosen["independent tokens"] & ~stable
hard = ~stable & every["broad"]
too_small = {k: int((every["broad"] & (every["measured"] > every[k])).sum()) for k in made}
code, prose, verse, dialogue = (ratios.get(k, [[cb.Estimate(np.nan)] * 2] * 2)[0][1] for k in ("code", "English prose", "poetry and drama", "fiction with dialogue"))  # fmt: skip
logs = np.abs(
    np.log([[[v.value for v in of] for of in r] for r in ratios.values()])
)  # kind, what, head
nearer = int((logs[:, 1] < logs[:, 0]).all(1).sum())
every_text = over_independent(np.arange(len(study.texts)))
of_B = (denom.std(0) / denom.mean(0)).numpy()
topics, blocks = (every.loc[MODEL][k].to_numpy() for k in ("domains and topics", KEY))
low = [int(h) for h in heads[every.loc[MODEL]["broad"]] if topics[h] < of_B[h]]
chosen_topics = every["broad"] & (every["domains and topics"] < max_cv)
case = min(missed, key=missed.get, default=("none", 0))
truth, floor = at_all["half B"], at_all["best constants"]
percents = {"allowed": p_ours[wide_of], "allowed_domains": p_domains[wide_of], "empty_allowed": p_domains[other], "empty_blocks": p_ours[other], "topics_off": abs(topics / of_B - 1)[two].max(), "blocks_off": (blocks / of_B - 1)[two].max(), "measured_there": measured[wide_of], "mean_bound": at_all[f"at most, {KEY}"], "least_independent": in_independent.min(), "missed_inside": min(missed.values(), default=np.nan)}  # fmt: skip
tenths = {"loosest": loose.max(), "code": code.value, "prose": prose.value, "verse": verse.value, "dialogue": dialogue.value, "all_first": every_text[0, 0], "all_second": every_text[0, 1], "times_least": times.min(), "times_most": times.max()}  # fmt: skip
in_words = {"cv_broken": too_small["domains alone"], "nearer": nearer, "kinds": len(ratios), "hard": hard.sum(), "missed": len(missed)}  # fmt: skip
cb.facts(
    "certificates",
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    **{name: cb.fact(v, ".1f") for name, v in tenths.items()},
    **{name: cb.fact(int(v), "words") for name, v in in_words.items()},
    kept=in_ours.min() >= SHARE and not exceeded.any(),
    least_inside=cb.fact(in_ours.min(), ".1%"),
    domains_suffice=in_domains.min() >= SHARE,
    least_domains=cb.fact(in_domains.min(), ".1%"),
    broken=cb.listed(fails),
    independence_breaks=len(sure) == len(fails) == 1,
    empty_of=other,
    wide_of=wide_of,
    loose=no_lower == [other] and loose.min() >= 1,
    broad_heads=int(every["broad"].sum()),
    blocks_matter=too_small["domains alone"] > cb.MOST * every["broad"].sum() and too_small[KEY] == 0,
    remarks=inflated > 150 and of_keywords[0] < 0.5 and np.isnan(confetti),
    code_all=f"{code:.1f}",
    code_is_worst=all(of[0][h].value <= ratios["code"][0][h].value for of in ratios.values() for h in (0, 1)) and max(verse.high, dialogue.high) < prose.low,
    over_four=code.low < BLOCK < code.value,
    left_first=every_text[1, 0],
    left_second=every_text[1, 1],
    no_excess=logs.shape[0] - nearer == sum(min(v.value for v in r[0]) < 1 for r in ratios.values()),
    topic_of_text=nearer > cb.MOST * len(ratios) and bool((every_text[1].log().abs() < every_text[0].log().abs()).all()),
    topics_find=(chosen_topics == stable).all(),
    topics_miss=cb.listed(low),
    topics_fail=len(low) == 1 and who[low].max() < 0.01,
    all_heads=len(every),
    found=int((stable & chosen[KEY]).sum()),
    stable=int(stable.sum()),
    no_false_choice=not (chosen[KEY] & ~stable).any() and len(of_models) == 4,
    unstable=int((~stable).sum()),
    few_are_hard=hard.sum() < cb.MOST * (~stable).sum(),
    by_independence=cb.fact(int(false_choice.sum()), "words", holds=false_choice.any()),
    cases=tried,
    missed_case=f"{case[0].capitalize()} in head {case[1]}",
    one_is_missed=len(missed) == 1,
    computed_error=cb.fact(truth, ".1%"),
    floor=cb.fact(floor, ".1%"),
    as_good_as_any=truth < (1 + cb.ABOUT) * floor,
    mean_bound_holds=times.min() >= 1,
    model=MODEL.rpartition("/")[2],
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

Sorting inputs by their denominators, and its purpose, are from the post {cite}`gibson2025contextual`, which gives no bound; the inequalities are in {cite:t}`boucheron2013`, blocks in {cite:t}`yu1994` (who, for texts that mix gradually, bounds the odd and the even blocks apart, so that a whole block lies between any two). Bounds from counts, their test on held-out documents and the choice of heads are this book's. Fixed in advance were the length of a block and the tests of {{= Figure C.2 =}}, of the bound on the mean error and of the choice in `{{model}}`; SmolLM2 and Qwen were looked at later. The tests of topics and of the limit of blocks were fixed when all this was known.
"""
