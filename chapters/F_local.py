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
# What do local heads add, and can a table predict it?

**In Qwen, a language model with {{= 1.5 =}} billion parameters, local heads add nearly all that changes from text to text, and tables predict it.** {{?nearly_all}} Of what the heads of its first layer add to the neurons, {{local_share}} of the variance comes from {{local}} heads that look at a few tokens. With tables for these heads alone, the output of a neuron is predicted with a median correlation of {{alone}}. {{?alone_suffice}} But they hardly do what they were expected to do, which is to join the pieces of words. The best of them prefers the right piece to a wrong one in {{best}} of cases, where a coin has half and we had asked for {{= 75% =}} in advance. {{?no_detokenisers}}

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
from collections import Counter

import numpy as np
import pandas as pd
import torch
from einops import einsum

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
NAMES = {"qwen": "Qwen", "smollm2": "SmolLM2"}
kept, whole, lines = (
    json.loads(cb.evidence(f"{name}.json").read_text()) for name in ("local", "whole", "rows")
)
fixed = cx.fix_query(LAYER)
x = fixed.prepare(cx.texts.collection(fixed, TEXTS))  # text source
kernels = fixed.decomposition.kernels  # head source
local = (cx.effective_tokens(kernels) < cx.heads.LOCAL).nonzero()[:, 0].tolist()
print(f"{fixed}\n{len(x)} texts; local heads {local}")

# %% tags=["hide-input"]
outputs = fixed.approx_head_outputs(x)  # text head d_model, from kernels, content and values
W_in = fixed.readout.W_in
total = outputs.sum(1) @ W_in  # text neuron
total = total - total.mean(0)
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
rows, start = range(fixed.n_heads), torch.zeros(fixed.n_heads)
for k, (name, values) in enumerate(looks.items()):
    color = ("C0", "C1", "C2", "C7")[k]
    left.barh(rows, values, 0.7, left=start, color=color, alpha=0.6, label=name)
    start = start + values
right.barh(rows, variance_share, 0.7, color=cb.figures.INK, alpha=0.5)
left.set_yticks(rows, [f"{h}, local" if h in local else str(h) for h in rows])
left.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2)
left.invert_yaxis()
for axis in (left, right):
    axis.grid(visible=False, axis="y")
left.set(xlabel="attention by position", ylabel="head", xlim=(0, 1))
right.set(xlabel="share of the variance")
cb.figures.picture(
    figure,
    "F.1",
    "The heads of Qwen's first layer, when the query is <em>the</em> at position 256. Left: where a head looks by position alone (its kernel). Right: its share of the variance, over texts, of what all heads add to the neurons.",
    "Bars. " + "; ".join(f"head {h}: itself {kernels[h, -1]:.0%}, before {kernels[h, -2]:.0%}, share {variance_share[h]:.0%}" for h in rows) + ".",
)  # fmt: skip

# %% [markdown]
r"""
{{Themselves}} of the local heads look at their own token and at nothing else. The query is the same in every text, so what they add is the same, too, and none of the variance is theirs. {{?silent}} The share of head {{first}}, which looks at the token before, is {{first_share}}; heads {{second}} and {{third}} follow with {{second_share}} and {{third_share}}. {{?mostly_one}} So most of what changes in the input of a neuron, from text to text, is the word before the query.

## A table by hand

Take the three tokens of [chapter 3](03_kernels) again, with *moon* just before the query *the*. *Moon* has content {{= 6 =}} and value {{= +2 =}}, *the* has {{= 1 =}} and {{= −1 =}}. A broad head may give each position a kernel of {{= 0.5 =}}, a local one {{= 0.95 =}} to the token before and {{= 0.05 =}} to the query. The broad head adds

$$
\frac{0.5 \times 6 \times 2 - 0.5 \times 1 \times 1}{0.5 \times 6 + 0.5 \times 1} = 1.6 .
$$

The local head adds

$$
\frac{0.95 \times 6 \times 2 - 0.05 \times 1 \times 1}{0.95 \times 6 + 0.05 \times 1} = 1.97 ,
$$

nearly the value of *moon* itself, whatever its content. Such a head needs hardly any theory. Its table has one row for each token, the value, and the row is looked up.

(The denominator is {{= 5.75 =}} here, and {{= 1 =}} if the word before is another *the*. So it jumps from one position to the next. The post calls the denominators of local heads *confetti*, and theirs do move {{confetti}} times as far as those of broad heads in Qwen; but where a head attends to one token, its denominator is that token's content, and this had to come out.)

How many tokens must the tables of the local heads read? Cut each row of attention to the last $k$ tokens, and see what is lost of the sum that the local heads add:
"""

# %%
attention = fixed.decomposition.rows(x)[:, local]  # text head source
W_O = fixed.readout.W_O[local]


def added(rows):
    """What the local heads add to the neurons, when they attend so: `text neuron`."""
    every = torch.zeros(len(x), fixed.n_heads, rows.shape[-1]).index_copy_(
        1, torch.tensor(local), rows
    )
    z = fixed.decomposition.z(x, every)[:, local]
    return einsum(z, W_O, "text head e, head e d -> text d") @ W_in


def last(k):
    """Attention cut to the last k tokens, and normalised."""
    rows = attention.clone()
    rows[..., :-k] = 0
    return rows / rows.sum(-1, keepdim=True)


truth = added(attention)
spread = truth.var(0, correction=0)
lost = {
    k: float(((added(last(k)) - truth).square().mean(0) / spread).quantile(0.5))
    for k in (1, 2, 4, 8, 16, 32)
}

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=2.4, width=5.6)
axis.plot(lost.keys(), lost.values(), "o-")
for k, v in lost.items():
    axis.annotate(f"{v:.2f}", (k, v), (6, 5), textcoords="offset points", fontsize=9)
axis.set(xscale="log", xlabel="tokens that the tables read", ylabel="variance unexplained")
axis.set_xticks(list(lost), list(map(str, lost)))
axis.minorticks_off()
cb.figures.picture(
    figure,
    "F.2",
    "How much of the variance of what the local heads of Qwen add stays unexplained, in the median neuron, if they read the last tokens only. One is the query itself, two the query and the token before.",
    "A falling curve: " + ", ".join(f"{k} tokens {v:.2f}" for k, v in lost.items()) + ".",
)

# %% [markdown]
r"""
The token before alone is not enough. With it and the query, {{two_left}} stays unexplained, because other heads look a little farther. With the last {{= 8 =}} tokens it is {{eight_left}}. {{?few_tokens}}

## How well do the tables do?

So far we compared tables with tables. [Chapter 10](10_whole_neuron) runs the model, on documents that no page reads, and adds one group of heads after another. Every head has its kernel, its content, its values, and the text's own denominator. Here are the steps, with the median over neurons of the correlation between prediction and output.
"""

# %% tags=["hide-input"]
STEPS = {"local": "local heads", "stable": "and stable heads", "margins": "and all others", "planes 2": "and two planes a head"}  # fmt: skip
reached = {}
for model, name in NAMES.items():
    query = next(q for q in whole["models"][model]["queries"] if q["token"] == " the")
    steps = query["judged"]["fresh"]["steps"]
    reached[name] = {label: steps[step]["product"]["r"][1] for step, label in STEPS.items()}
    if model == "qwen":
        gate = steps["local"]["gate"]["r"][1]
figure, ((axis,),) = cb.figures.panels(height=2.2, width=6.4)
for k, (name, of) in enumerate(reached.items()):
    axis.plot(list(of.values()), [-v for v in range(len(of))], "o^"[k] + "-", color=f"C{k}")
    axis.text(of["local heads"], 0.25, name, color=f"C{k}", ha="center", fontsize=9)
axis.set_yticks([-v for v in range(len(STEPS))], STEPS.values())
axis.set(xlim=(0, 1.02), ylim=(-3.4, 0.7), xlabel="median r of a neuron's output")
cb.figures.picture(
    figure,
    "F.3",
    "A neuron's output predicted from the tables of some heads, with the others at their mean. A plane is a further number for each position and each token (chapter 10).",
    "Two rising lines. " + "; ".join(f"{k}: " + ", ".join(f"{a} {v:.2f}" for a, v in of.items()) for k, of in reached.items()) + ".",
)  # fmt: skip

# %% [markdown]
r"""
In Qwen the local heads alone bring the prediction to {{alone}}, and the stable ones add the step from there to {{with_stable}}. Could the stable heads have done it alone? For the gate, the first of a neuron's two inputs, the circuit of [chapter 5](05_circuit) comes to {{circuit}} ([chapter 8](08_real_model) has it on other texts, for the {{= 100 =}} strongest neurons), and the local heads to {{gate}}. {{?alone_suffice}} SmolLM2 has one local head, and with its table alone the prediction stays at {{smollm2}}. {{?not_in_smollm2}} So how much local heads add depends on the model. That tables predict it holds in both.

## Do they join the pieces of words?

For GPT-2, the post suggests what local heads are for: *detokenisation*, which joins the pieces of a split word {cite}`gibson2025contextual`. A head with this job should like the first piece *more because* the second piece is the query. With $q_a$ the query of token $a$ and $k_b$ the key of the token before, this is the interaction

$$
I(a, b) = \frac{(q_a - \bar q) \cdot (k_b - \bar k)}{\sqrt{d_\text{head}}} ,
$$ (eq-local-entry)

with means over tokens as they occur. A head *prefers* a pair if its entry is larger than that of the same second piece with the first piece of another split word. A head that likes first pieces as such gains nothing, and a coin prefers half.

The best local head, chosen on half A of the texts, is Qwen's head {{best_head}}, with {{best}} [{{best_low}}, {{best_high}}] on pairs that half A does not have. Pieces paired at random stay below {{chance}} in {{= 99% =}} of draws, so this is more than chance, and less than the {{= 75% =}} that we had asked for. {{?no_detokenisers}} SmolLM2's local head is at {{smollm2_pairs}}. Nor are local heads the best at it. Qwen's head {{best_any}}, which covers {{best_any_covers}} tokens, reaches {{best_any_share}}. {{?not_the_local_ones}}

## What can go wrong

These are two models, one query token, and first layers. Behind the first layer a key knows the text, and other heads may join pieces there. A local head may also serve to join pieces without preferring any, if the MLP behind it knows which ones belong together; we did not ask that. Shares are computed from tables here, so they leave out what tables miss.

## Where this leaves us

The heads that we left out of the circuit are the easiest ones to predict. They read a few tokens, and a look-up gives what they add. What makes the stable heads worth a theory is that they alone carry what lies farther back.

## Exercises

1. *Predict, then run.* The table in Evidence says where SmolLM2's local head looks. How much of its kernel do two tokens hold? Draw Figure F.2 as you expect it for this head, then set `LAYER = "smollm2"`.
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
pieces = {name: np.array(kept[name]["kinds"]["split word, B"]) for name in NAMES}
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
**What was fixed in advance,** and what became of it. The rows about denominators, positions and keywords are lines of the ledgers of [chapter 3](03_kernels) and [appendix C](C_certificates). Two of them were added later, before they were measured. Heads do differ in the kinds of pairs that they prefer, though no head has a kind of its own: head {{leads}} is ahead in {{leads_in}} of {{kinds}} kinds. {{?kinds_come_again}}
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Nine conditions"}
def residual(table):
    """A table without its margins."""
    return table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()


qwen, smollm2 = kept["qwen"], kept["smollm2"]
both = sorted({k.partition(",")[0] for k in qwen["kinds"] if f"{k.partition(',')[0]}, A" in qwen["kinds"] and f"{k.partition(',')[0]}, B" in qwen["kinds"]})  # fmt: skip
on_A, on_B = (
    np.array([qwen["kinds"][f"{k}, {half}"] for k in both])[:, qwen["local"]].T for half in "AB"
)
again = float(np.corrcoef(residual(on_A).ravel(), residual(on_B).ravel())[0, 1])
dice = np.random.default_rng(0)
null = [
    np.corrcoef(residual(dice.permuted(on_A, axis=1)).ravel(), residual(on_B).ravel())[0, 1]
    for _ in range(1000)
]
leads, leads_in = Counter(qwen["local"][h] for h in on_B.argmax(0)).most_common(1)[0]
head = {name: max(kept[name]["local"], key=lambda h, of=kept[name]: of["kinds"]["split word, A"][h]) for name in NAMES}  # fmt: skip
best = {name: pieces[name][h] for name, h in head.items()}
apart = max(
    np.median(pieces[name][kept[name]["local"]]) - np.median(np.delete(pieces[name], kept[name]["local"]))
    for name in NAMES
)  # fmt: skip
rough = {name: np.array(kept[name]["rough"]) for name in NAMES}
wide = {name: np.array(kept[name]["roster"]["effective tokens"]) > cx.heads.BROAD for name in NAMES}
confetti = {k: np.median(v[kept[k]["local"]]) / np.median(v[wide[k]]) for k, v in rough.items()}
strays = max(np.median(list(kept[name]["along"].values())) for name in NAMES)
copies = max(max(kept[name]["copies"][h]) for name in NAMES for h in kept[name]["local"])
lowered = {
    name: 1 - kept[name]["suppression"]["B"]["itself"][int(np.argmin(kept[name]["suppression"]["A"]["itself"]))]
    for name in NAMES
}  # fmt: skip
dense = [kept[name]["keywords"]["ends"] for name in NAMES]
conditions = {
    "the best local head prefers the true first piece in 75%": max(best.values()) >= 0.75,
    "the median local head does so by 0.05 oftener than the median other one": apart >= 0.05,
    "heads and kinds of pairs: r of 0.5 from half to half, beyond chance": again > 0.5 and cb.nulls.p_value(again, null) < 0.05,
    "no local head looks for copies, by 2 nats": copies < 2,
    "a head lowers the logit of what it looks at in 75% of tokens": min(lowered.values()) >= 0.75,
    "denominators of local heads are twice as rough as those of broad ones": min(confetti.values()) >= 2,
    "MiniLM's local kernels keep within a TV of 0.1 from one query position to another": max(kept["minilm"]["TV"]) <= 0.1,
    "the median stable head strays over texts by 30% at most": strays <= 0.3,
    "keywords explain half of the variance of log denom in a broad head of both": None if min(v[0] for v in dense) < 0.5 < min(v[1] for v in dense) else min(v[0] for v in dense) >= 0.5,
}  # fmt: skip
verdicts = {k: "undecided" if v is None else "holds" if v else "fails" for k, v in conditions.items()}  # fmt: skip
of_keywords = {
    NAMES[name]: "{explained:.0%} [{ends[0]:.0%}, {ends[1]:.0%}]".format_map(kept[name]["keywords"])
    for name in NAMES
}
*_, roughness, moved, _, of_dense = conditions
measured = {
    roughness: ", ".join(f"{NAMES[k]} {v:.0f}" for k, v in confetti.items()),
    moved: f"MiniLM {max(kept['minilm']['TV']):.2f}",
    of_dense: ", ".join(f"{name} {v}" for name, v in of_keywords.items()),
}
pd.DataFrame({"so it": verdicts, "measured": measured}).loc[[*conditions]].fillna("")

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
share_of_local = float(variance_share[local].sum())
order = variance_share.argsort(descending=True).tolist()
alone_in = (kernels[local, -1] > cb.ALMOST_EXACTLY).nonzero()[:, 0].tolist()
themselves = [local[k] for k in alone_in if variance_share[local[k]] < 0.01]
best_any = int(np.argmax(qwen["kinds"]["split word, A"]))
circuit = lines["lines"]["08_real_model"]["r with the pre-activation"]["Qwen"]
circuit_r = float(circuit.partition(" ")[0].replace("−", "-"))
chance = max(kept[name]["null"]["split word, B"] for name in NAMES)
cb.facts(
    "local",
    local=cb.fact(len(local), "words"),
    local_share=cb.fact(share_of_local, ".0%"),
    nearly_all=share_of_local > cb.NEARLY_ALL,
    alone=cb.fact(reached["Qwen"]["local heads"]),
    gate=cb.fact(gate),
    circuit=cb.fact(circuit_r),
    alone_suffice=min(gate, reached["Qwen"]["local heads"]) > 0.85 > circuit_r + 2 * cb.ABOUT,
    best=cb.fact(best["qwen"], ".0%"),
    best_head=head["qwen"],
    best_low=cb.fact(ends["qwen"][head["qwen"]][0], ".0%"),
    best_high=cb.fact(ends["qwen"][head["qwen"]][1], ".0%"),
    chance=cb.fact(chance, ".0%"),
    no_detokenisers=chance < best["qwen"] < 0.75 and best["smollm2"] < chance,
    smollm2_pairs=cb.fact(best["smollm2"], ".0%"),
    best_any=best_any,
    best_any_share=cb.fact(pieces["qwen"][best_any], ".0%"),
    best_any_covers=cb.fact(qwen["roster"]["effective tokens"][best_any], ".0f"),
    not_the_local_ones=best_any not in qwen["local"],
    themselves=cb.fact(len(themselves), "words"),
    silent=float(variance_share[themselves].sum()) < 0.01,
    first=order[0],
    first_share=cb.fact(variance_share[order[0]], ".0%"),
    second=order[1],
    second_share=cb.fact(variance_share[order[1]], ".0%"),
    third=order[2],
    third_share=cb.fact(variance_share[order[2]], ".0%"),
    mostly_one=float(variance_share[order[0]]) > cb.MOST and float(kernels[order[0], -2]) > 0.9,
    confetti=cb.fact(confetti["qwen"], ".0f"),
    two_left=cb.fact(lost[2], ".0%"),
    eight_left=cb.fact(lost[8], ".0%"),
    few_tokens=lost[8] < cb.ABOUT < lost[1],
    with_stable=cb.fact(reached["Qwen"]["and stable heads"]),
    smollm2=cb.fact(reached["SmolLM2"]["local heads"]),
    not_in_smollm2=reached["SmolLM2"]["local heads"] < 0.5 < 0.85 < reached["SmolLM2"]["and all others"],
    leads=leads,
    leads_in=cb.fact(leads_in, "words"),
    kinds=cb.fact(len(both), "words"),
    kinds_come_again=verdicts["heads and kinds of pairs: r of 0.5 from half to half, beyond chance"] == "holds",
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The kinds of heads and the word *confetti* are from the earlier post {cite}`gibson2025contextual`; that early layers join pieces of words is also discussed by {cite:t}`gurnee2023finding`. The steps of heads, the interaction as a test with other pairs, and what was measured are worked out here.
"""
