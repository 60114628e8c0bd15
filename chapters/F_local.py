# %% [markdown]
r"""
# How far do the local heads of one model go?

**For one query token of Qwen, a language model with {{= 1.5 =}} billion parameters, the tables of {{local}} local heads alone predict the output of a neuron, with a median correlation of {{alone}}. What such heads are for we did not find out: of {{asked}} conditions that we fixed in advance, {{failed}} fail.** {{?alone_suffice}} A table with one row for each previous token comes to {{previous}}, and exact attention to the last ten tokens to {{whole_neuron.qwen_ten}} (with domain means subtracted). {{?more_than_previous}} And it is one model: in SmolLM2, which has one local head, its table comes to {{smollm2}}. {{?not_in_smollm2}}

A **local** head spreads its attention over fewer than {{= 15 =}} tokens ([chapter 3](03_kernels)). So it can say little about the subject of a page, and the circuit of [chapter 5](05_circuit) leaves it out. Our small model `mini` has no such head. Qwen has {{local}}. Here is where each of its heads looks, and how much of the variance across texts it accounts for. Which would you keep, if you could keep two?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To see the one local head of SmolLM2, set LAYER = "smollm2" and run all cells again.
LAYER = "qwen"  # a stored layer: "qwen", "smollm2" or "minilm"
TEXTS = 300  # how many texts of the collection are read: held-out documents of 22 domains

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the stored layer, and what is kept of real models"}
import json

import numpy as np
import pandas as pd
import torch
from einops import einsum

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
NAMES = {"qwen": "Qwen", "smollm2": "SmolLM2"}
kept, whole = (json.loads(cb.evidence(f"{name}.json").read_text()) for name in ("local", "whole"))
fixed = cx.fix_query(LAYER)
x = fixed.prepare(cx.texts.collection(fixed, TEXTS))  # text source
kernels = fixed.decomposition.kernels  # head source
local = (cx.effective_tokens(kernels) < cx.heads.LOCAL).nonzero()[:, 0].tolist()
print(f"{fixed}\n{len(x)} texts; local heads {local}")

# %% tags=["hide-input"]
outputs = fixed.approx_head_outputs(x)  # text head d_model, from kernels, content and values
W_in = fixed.readout.W_in
total = (outputs.sum(1) - outputs.sum(1).mean(0)) @ W_in  # text neuron
part = torch.stack([(outputs[:, h] @ W_in * total).mean(0).sum() for h in range(fixed.n_heads)])
variance_share = part / part.sum()  # head
looks = {
    "its own token": kernels[:, -1],
    "the token before": kernels[:, -2],
    "2 to 15 before": kernels[:, -16:-2].sum(1),
    "farther back": kernels[:, :-16].sum(1),
}
figure, ((left, right),) = cb.figures.panels(
    1, 2, height=3.6, width=8.6, sharey=True, gridspec_kw={"width_ratios": [2, 1]}
)
style = {"width": 0.7, "alpha": 0.6, "legend": False}
names = [f"{h}, local" if h in local else str(h) for h in range(fixed.n_heads)]
pd.DataFrame(looks, names).plot.barh(ax=left, stacked=True, color=["C0", "C1", "C2", "C7"], **style)
pd.Series(variance_share, names).plot.barh(ax=right, color=cb.figures.INK, **style)
left.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2)
left.invert_yaxis()
left.set(xlabel="attention by position", ylabel="head", xlim=(0, 1))
right.set(xlabel="share of the variance")
for axis in (left, right):
    axis.grid(visible=False, axis="y")
cb.figures.picture(
    figure,
    "F.1",
    "The heads of Qwen's first layer, when the query is <em>the</em> at position 256. Left: where a head looks by position alone (its kernel). Right: its share of the variance, over texts, of what all heads add to the neurons.",
    f"Bars. Its own token: {cb.figures.by_head(kernels[:, -1], '.0%')}. The token before: {cb.figures.by_head(kernels[:, -2], '.0%')}. Share: {cb.figures.by_head(variance_share, 'z.0%')}.",
)

# %% [markdown]
r"""
The local heads have {{local_share}} of the variance. {{?nearly_all}} {{Themselves}} of them look at their own token and at nothing else. The query is the same in every text, so what they add is the same, too, and none of the variance is theirs. {{?silent}} Head {{first}}, which looks at the token before, has {{first_share}}. {{?mostly_one}} So most of what changes in the input of a neuron, from text to text, is the word before the query.

## A table that is looked up

A head that attends to the token before, and to little else, adds about that token's value, whatever its content. Such a head needs hardly any theory. Its table has one row for each token, the value, and the row is looked up.

How many tokens must the tables of the local heads read? We cut each row of attention to the last $k$ tokens, and see how much of the variance of what the local heads add is then left unexplained, in the median neuron:
"""

# %% tags=["nbval-check-output"]
attention = fixed.decomposition.rows(x)[:, local]  # text head source
W_O = fixed.readout.W_O[local]


def added(rows):
    """What the local heads add to the neurons, when they attend so: `text neuron`."""
    every = torch.zeros(len(x), fixed.n_heads, rows.shape[-1])
    every[:, local] = rows
    z = fixed.decomposition.z(x, every)[:, local]
    return einsum(z, W_O, "text head e, head e d -> text d") @ W_in


def last(k):
    """Attention cut to the last k tokens, and normalised."""
    rows = attention[..., -k:] / attention[..., -k:].sum(-1, keepdim=True)
    return torch.nn.functional.pad(rows, (attention.shape[-1] - k, 0))


truth = added(attention)
spread = truth.var(0, correction=0)
error = {k: (added(last(k)) - truth).square().mean(0) / spread for k in (1, 2, 4, 8, 16, 32)}
lost = pd.Series({k: float(v.quantile(0.5)) for k, v in error.items()}, name="unexplained")
lost.rename_axis("tokens").to_frame().T.map("{:.0%}".format)

# %% [markdown]
r"""
The query and the token before it leave {{two_left}} unexplained, because other heads look a little farther. The last {{= 8 =}} tokens leave {{eight_left}}. {{?few_tokens}}

## How well do the tables do?

So far we compared tables with tables. [Chapter 10](10_whole_neuron) runs the model, on documents that no page reads, and adds one group of heads after another. Every head has its kernel, its content, its values, and the text's own denominator. The heads that are not there yet stand at their mean. The table has medians over neurons: the correlation of prediction and output, and in the last column the share of the variance that the local heads leave. (Chapter 10 subtracts the mean of each domain, and so has other numbers. Its rival, exact attention to the last ten tokens, does about as well in Qwen as the local heads: {{whole_neuron.qwen_ten}} within domains.)
"""

# %% tags=["hide-input", "nbval-check-output"]
previous = json.loads(cb.evidence("last_ten.json").read_text())["qwen"]["previous token"]
reached = {}
for model, name in NAMES.items():
    query = next(q for q in whole["models"][model]["queries"] if q["token"] == " the")
    steps = query["judged"]["fresh"]["steps"]
    reached[name] = {label: steps[step]["product"]["r"][1] for label, step in (("local heads", "local"), ("and stable heads", "stable"), ("and all others", "margins"))}  # fmt: skip
    reached[name]["left by local heads"] = steps["local"]["product"]["fvu"][1]
pd.DataFrame(reached).T.round(2)

# %% [markdown]
r"""
In Qwen the local heads alone bring the prediction to {{alone}}, and the stable ones add the step from there to {{with_stable}}.

Is this more than knowing the previous word? The simplest rival is a table with one row for each previous token. It is what all heads give, exactly, if they see nothing but the query and the token before it. In Qwen it reaches a correlation of {{previous}} and leaves {{previous_left}} of the variance of the median neuron unexplained, where the local heads leave {{alone_left}}. That they would leave less was fixed before this was measured. {{?more_than_previous}} (A table fitted to outputs might do better than this one, which makes broad heads look at two tokens. We have too few texts to fit a row for each token.)

In SmolLM2 it is the other way round: most of the way is made by the stable heads. {{?not_in_smollm2}}

## Do local heads prefer the right piece of a word?

For GPT-2, the post suggests that local heads do *detokenisation*, which joins the pieces of a split word {cite}`gibson2025contextual`. One thing such a head could do is to look at the first piece *more because* the second piece is the query. With $q_a$ the query of token $a$ and $k_b$ the key of the token before, this is the interaction

$$
I(a, b) = \frac{(q_a - \bar q) \cdot (k_b - \bar k)}{\sqrt{d_\text{head}}} ,
$$ (eq-local-entry)

with means over tokens as they occur. A head *prefers* a pair if its entry is larger than that of the same second piece with the first piece of another split word. A head that likes first pieces as such gains nothing, and a coin prefers half.

The best local head, chosen on half A of the texts, is Qwen's head {{best_head}}, with {{best}} on pairs that half A does not have. Pieces paired at random stay below {{chance}} in {{= 99% =}} of draws, so there is a preference, and it is weaker than the {{= 75% =}} that we had asked for. {{?weak_preference}} SmolLM2's local head has none, at {{smollm2_pairs}}. Qwen's head {{worst_head}} even prefers the wrong piece, since the true one wins in only {{worst}}. Nor is preferring the right piece special to local heads: Qwen's head {{best_any}}, which is not local, reaches {{best_any_share}}. {{?not_the_local_ones}}

## What can go wrong

We measured preferences, and they decide less than they seem to. A head that looks at the token before whatever it is brings every first piece along, and the MLP behind it may know which pieces belong together. We did not test that, nor anything behind the first layer, where a key knows the text. These are two models and one query token. Shares of the variance are computed from tables, so they leave out what tables miss.

## Where this leaves us

The heads that we left out of the circuit read a few tokens, and in Qwen tables give most of what they add. What makes the stable heads worth a theory is that they carry what lies farther back.

## Exercises

1. *Predict, then run.* The first table in Evidence says where SmolLM2's local head looks. How much of its kernel do two tokens hold? Guess what they leave unexplained, then set `LAYER = "smollm2"`.
2. *Fill in.* A head gives the token before a kernel of $p$ and the query $1 - p$, and the two contents are $a$ and $b$. How much attention does the token before get, for $p = 0.9$, $a = 1$ and $b = 9$?
"""

# %%
before = ...

# %% tags=["hide-input", "nbval-check-output"]
print("right" if before is not ... and abs(before - 0.9 / 1.8) < 1e-6 else "not yet")

# %% [markdown]
r"""
3. *Break this.* A local head has a kernel of $1$ on its own token. Why can it still matter to the next token that the model predicts?

```{admonition} Solutions
:class: dropdown

1. About a third of its kernel is on its own token and a quarter on the one before, so two tokens hold fewer than two thirds of it, and the rest must come from farther back.
2. `before = 0.9 * 1 / (0.9 * 1 + 0.1 * 9)`, which is a half. The content of the query is nine times as large and makes up for the kernel.
3. It adds to every neuron what the query token's value writes. That is the same for every text with this query, and so has no variance here, but it differs from query to query.
```

## Evidence

**The local heads in numbers,** as the whole models have them (`tools/evidence/local.py` measures again), and how often each prefers the true first piece of a split word.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Each local head: where it looks, which pieces it prefers"}
kinds = {name: pd.DataFrame(kept[name]["kinds"]) for name in NAMES}  # head, kind and half
pieces = {name: of["split word, B"] for name, of in kinds.items()}
ends = {name: kept[name]["interval"]["split word, B"] for name in NAMES}
pd.DataFrame(
    {
        (NAMES[name], h): {
            "its own token": f"{kept[name]['kernel'][0][h]:.0%}",
            "the token before": f"{kept[name]['kernel'][1][h]:.0%}",
            "prefers the true piece": f"{cb.Estimate(pieces[name][h], *ends[name][h]):.0%}",
        }
        for name in NAMES
        for h in kept[name]["local"]
    }
).T.rename_axis(["model", "head"])

# %% [markdown]
r"""
**What was fixed in advance,** and what became of it; each bound stands in brackets. The rows about denominators, positions and keywords are lines of the ledgers of [chapter 3](03_kernels) and [appendix C](C_certificates). (The post calls the denominators of local heads *confetti*. They do jump, but where a head attends to one token, its denominator is that token's content, and this had to come out.)
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Nine conditions"}
def residual(table):
    """A table without its margins."""
    return table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()


locals_of = {name: kept[name]["local"] for name in NAMES}
head = {name: of.loc[locals_of[name], "split word, A"].idxmax() for name, of in kinds.items()}
best = {name: pieces[name][h] for name, h in head.items()}
apart = max(v[locals_of[k]].median() - v.drop(locals_of[k]).median() for k, v in pieces.items())
both = ["split word", "name", "other words", "common words"]  # kinds with enough pairs
on_A, on_B = (kinds["qwen"].loc[locals_of["qwen"], [f"{k}, {half}" for k in both]].to_numpy() for half in "AB")  # fmt: skip
dice = np.random.default_rng(0)
again, *null = (
    np.corrcoef(residual(of).ravel(), residual(on_B).ravel())[0, 1]
    for of in (on_A, *(dice.permuted(on_A, axis=1) for _ in range(1000)))
)
copies = max(max(kept[name]["copies"][h]) for name in NAMES for h in locals_of[name])
by_itself = [kept[name]["suppression"] for name in NAMES]
lowered = min(1 - of["B"]["itself"][int(np.argmin(of["A"]["itself"]))] for of in by_itself)
strays = max(np.median(list(kept[name]["along"].values())) for name in NAMES)
rough, keywords, moved = cb.on_real("confetti", "keywords", "shift").to_dict("records")
low, high = (min(kept[name]["keywords"]["ends"][end] for name in NAMES) for end in (0, 1))
conditions = {
    "cases in which the best local head prefers the true first piece (75%)": (f"{max(best.values()):.0%}", max(best.values()) >= 0.75),
    "the same, median local head less median other one (0.05)": (f"{apart:.2f}", apart >= 0.05),
    "heads and kinds of pairs: r from half to half (0.5, beyond chance)": (f"{again:.2f}", again > 0.5 and cb.nulls.p_value(again, null) < 0.05),
    "nats by which a local head looks for copies, at most (2)": (f"{copies:.1f}", copies < 2),
    "tokens whose own logit a head lowers when it looks at them (75%)": (f"{lowered:.0%}", lowered >= 0.75),
    "roughness of denominators, local heads over broad ones (2)": (f"Qwen {rough['Qwen']}, SmolLM2 {rough['SmolLM2']}", min(float(rough[k]) for k in NAMES.values()) >= 2),
    "TV of MiniLM's local kernels from one query position to another, at most (0.1)": (moved["MiniLM"], float(moved["MiniLM"]) <= 0.1),
    "how far the median stable head strays over texts, at most (30%)": (f"{strays:.0%}", strays <= 0.3),
    "variance of log denom in a broad head that keywords explain (half, in both)": (f"Qwen {keywords['Qwen']}, SmolLM2 {keywords['SmolLM2']}", None if low < 0.5 < high else low >= 0.5),
}  # fmt: skip
table = pd.DataFrame(conditions, ["measured", "holds"]).T
table["holds"] = table["holds"].map({True: "yes", False: "no"}).fillna("undecided")
table

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
share = dict(enumerate(variance_share.tolist()))
first = int(variance_share.argmax())
themselves = [h for h in local if kernels[h, -1] > cb.ALMOST_EXACTLY and share[h] < 0.01]
worst = pieces["qwen"][locals_of["qwen"]].idxmin()
best_any = int(kinds["qwen"]["split word, A"].idxmax())
chance = max(kept[name]["null"]["split word, B"] for name in NAMES)
qwen, smollm2 = reached["Qwen"], reached["SmolLM2"]
alone = qwen["local heads"]
cb.facts(
    "local",
    local=cb.fact(len(local), "words"),
    local_share=cb.fact(sum(share[h] for h in local), ".0%"),
    nearly_all=sum(share[h] for h in local) > cb.NEARLY_ALL,
    alone=cb.fact(alone),
    alone_suffice=alone > 0.85 and (table["holds"] == "no").sum() > len(table) / 2,
    with_stable=cb.fact(qwen["and stable heads"]),
    smollm2=cb.fact(smollm2["local heads"]),
    not_in_smollm2=smollm2["local heads"] < cb.MOST * smollm2["and stable heads"],
    asked=cb.fact(len(table), "words"),
    failed=cb.fact(int((table["holds"] == "no").sum()), "words"),
    best=cb.fact(best["qwen"], ".0%"),
    best_head=head["qwen"],
    chance=cb.fact(chance, ".0%"),
    weak_preference=chance < best["qwen"] < 0.75 and best["smollm2"] < chance,
    smollm2_pairs=cb.fact(best["smollm2"], ".0%"),
    best_any=best_any,
    best_any_share=cb.fact(pieces["qwen"][best_any], ".0%"),
    not_the_local_ones=best_any not in locals_of["qwen"],
    themselves=cb.fact(len(themselves), "words"),
    silent=sum(share[h] for h in themselves) < 0.01,
    first=first,
    first_share=cb.fact(share[first], ".0%"),
    mostly_one=share[first] > cb.MOST and float(kernels[first, -2]) > 0.9,
    two_left=cb.fact(lost[2], ".0%"),
    eight_left=cb.fact(lost[8], ".0%"),
    worst_head=worst,
    worst=cb.fact(pieces["qwen"][worst], ".0%", holds=ends["qwen"][worst][1] < 0.5),
    more_than_previous=qwen["left by local heads"] < previous["fvu"]
    and previous["r"] < alone - cb.ABOUT,
    previous=cb.fact(previous["r"]),
    previous_left=cb.fact(previous["fvu"], ".0%"),
    alone_left=cb.fact(qwen["left by local heads"], ".0%"),
    few_tokens=lost[8] < cb.ABOUT < lost[1],
)

# %% [markdown]
r"""
## Where this comes from

The kinds of heads and the word *confetti* are from the earlier post {cite}`gibson2025contextual`; that early layers join pieces of words is also discussed by {cite:t}`gurnee2023finding`. The steps of heads, the interaction as a test with other pairs, and what was measured are worked out here.
"""
