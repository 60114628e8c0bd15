# %% [markdown]
r"""
# How few numbers rebuild a first layer?

**For one query token at one position, three numbers a head for each token, and three for each position, stand in for the attention scores of Qwen's first layer: the typical neuron's output comes out almost exactly.** With each of five queries its correlation within domains is at least {{qwen_low}}, but SmolLM2 misses a lower mark with most. {{?smollm2_misses}} Only the scores are compressed: values, LayerNorm and MLP are exact. A weighted singular value decomposition of the same size mostly does better, {{?weighted_better}} our tables save no time, {{?no_faster}} and reading them has shown little.

[Chapter 9](09_british) left us with neuron {{neuron}} of Qwen. British spelling drives its gate, the first of the two numbers whose product it puts out, mostly through stable heads ([welcome page](00_welcome)). But of what changes in that gate from text to text, the stable heads account for {{stable_share}} only, and the second number, *up*, we have not predicted at all.

Suppose each head gets its kernel and its content, we divide by the text's own denominator, and we add up the tokens' values. How much of the neuron's output would you expect to come out right?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 500  # half A of them says how common tokens are, half B is predicted
TOKEN = " the"  # the query token
HEAD = 0  # the head whose planes are drawn

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the model, and what is kept of larger ones"}
import json

import numpy as np
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx

torch.set_grad_enabled(False)
model = cx.load(MODEL)
study = cx.study(model, TEXTS, TOKEN, or_all=True)
fixed, n = study.fixed, study.n
x = fixed.prepare(study.texts)  # text source
A, B = (torch.from_numpy(half) for half in cb.half_masks(study.texts))

NAMES = {"qwen": "Qwen", "smollm2": "SmolLM2", "mini": "mini"}
ASKED = {"qwen": 0.99, "smollm2": 0.985, "mini": 0.99}  # in advance: whole_neuron.toml
kept = json.loads(cb.evidence("whole.json").read_text())  # tools/evidence/whole_neuron.py
followed, read, of_ten = (  # the same, with --neuron; tools/evidence/read_planes.py, last_ten.py
    json.loads(cb.evidence(f"{of}.json").read_text())
    for of in ("followed", "read_planes", "last_ten")
)
runs = {  # of each model and query: what was run, and what is asked of it
    (name, f"“{query['token'].strip()}” at {query['n']}"): (query, query["judged"][goal["texts"]], goal)
    for name in NAMES
    for query, goal in zip(
        kept["models"][name]["queries"], kept["goals"]["found"][name], strict=True
    )
}  # fmt: skip
REAL = "qwen", "smollm2"
THE, AND = "“the” at 256", "“and” at 300"  # queries that figures, tables or prose are about


def fresh(name, query=THE):
    """What was found on the first collection, on which rivals and costs were taken as well."""
    return next(iter(runs[name, query][0]["judged"].values()))


print(study)

# %% tags=["hide-input"]
values, steps = followed["values"], followed["steps"]
figure, (axes,) = cb.figures.panels(1, 3, height=3.1, width=8.6)
for axis, (reading, truth) in zip(axes, values["model"].items(), strict=True):
    for step, color in (("margins", "C7"), ("planes 2", "C0")):
        axis.plot(values[step][reading], truth, "o", ms=2.5, color=color, alpha=0.7)
    axis.axline((0, 0), slope=1, color=cb.figures.INK, lw=0.8, ls=":")
    axis.set(title=reading, xlabel="predicted")
axes[0].set_ylabel("in the model")
for label, y, color in (("kernel, content", 0.92, "C7"), ("and two planes", 0.84, "C0")):
    axes[0].text(0.04, y, label, color=color, fontsize=9, transform=axes[0].transAxes)
cb.figures.picture(
    figure,
    "10.1",
    f"Neuron {followed['neuron']} of Qwen on {len(followed['domains'])} documents, one dot each, when the query is <em>the</em> at position {followed['n']}: its gate, its up, and their product, which is its output. Grey dots are predicted from kernels and content; for the blue ones each head has two more lists of numbers, which this page explains. On the dotted line a prediction is right.",
    "Three panels of dots along a diagonal. "
    + "; ".join(f"{r}: r {steps['margins'][r]['r']:.3f} from kernel and content, {steps['planes 2'][r]['r']:.3f} with two planes" for r in values["model"])
    + ".",
)  # fmt: skip

# %% [markdown]
r"""
Kernels and content alone (grey) put the documents in order, but they leave {{left_before}} of the variance of the output unexplained. The blue dots, with one new ingredient, leave {{left_after}}. (Qwen's typical neuron has less left. Within domains this one has $r$ = {{followed_r}}, below our mark for the median, {{= 0.99 =}}.)

## What a product cannot say

In [chapter 3](03_kernels), the query *the* looked at three tokens: BOS, *moon*, and *the* itself. Split the middle position, whose weight is {{= 0.2 =}}, into a far one and a near one with {{= 0.1 =}} each, and put *moon*, with content {{= 6 =}}, and another *the*, with content {{= 1 =}}, into them. Kernel times content cannot tell the two orders apart. In either order the denominator is $0.1 + 0.6 + 0.1 + 0.7 = 1.5$, and *moon* gets $0.6 / 1.5 = 0.4$ of the attention.

But suppose that the head favours *moon* when it is near and *the* when it is far:

{{= | weight | far | near |
|---|---|---|
| *moon*, kernel × content | 0.6 | 0.6 |
| *moon*, in the head | 0.3 | 1.2 |
| *the*, kernel × content | 0.1 | 0.1 |
| *the*, in the head | 0.2 | 0.05 | =}}

Kernel times content has {{= 0.6 =}} at both places, the geometric mean of {{= 0.3 =}} and {{= 1.2 =}}, so it cannot tell them apart. The head can. If *moon* comes first, the denominator is $0.1 + 0.3 + 0.05 + 0.7 = 1.15$, and *moon* gets {{= 0.26 =}}; if it comes second, $0.1 + 0.2 + 1.2 + 0.7 = 2.2$, and it gets {{= 0.55 =}}. What the head adds to a neuron differs as much, where the product says the same for both orders.

What is missing is an **interaction** of position and token. One number for each position and one for each token restore it. Let $a$ be {{= −1 =}} for far and {{= +1 =}} for near, and let $b$ be {{= +1 =}} for *moon* and {{= −1 =}} for *the*. Multiply every entry of the product by $2^{ab}$, and all four weights of the head come out. We call such a pair of lists a **plane of interaction**: a curve $a$ over positions, and a list $b$ of tokens, those that the head favours where the curve is high first.

One plane is enough for a table of two by two. A head of Qwen has {{sources}} positions and {{vocab}} tokens, and its keys have {{= 128 =}} numbers, so its table could need {{= 128 =}} planes.

## Planes from weights

Fix the query token and its position $n$. The score of a source depends only on its position $i$ and its token $t$. In a model with rotary positions {cite}`su2021roformer` such as Qwen,

$$
\text{score}(i, t) \;=\; g_i \cdot x_t + c_i
$$ (eq-who-score)

holds exactly. Here $x_t$ is the token's normalised embedding, and $g_i$ is the query as position $i$ sees it, turned by the distance and multiplied by $W_K$; both come from the weights. (In `mini`, the interaction is what Equation 1 leaves out of the table.) Averaged over tokens, the table gives the kernel, and averaged over positions, the content. What is left is the interaction, $\delta$:

$$
\begin{aligned}
\text{score}(i, t) \;=\;& \log \text{pos}_i + \log \text{content}(t) \\
&+ \delta(i, t) , \\[4pt]
\delta(i, t) \;=\;& (g_i - \bar g) \cdot (x_t - \bar x) \\
\approx\;& \textstyle\sum_k a_k(i)\, b_k(t) ,
\end{aligned}
$$ (eq-who-planes)

up to a constant, which the softmax removes. Errors matter where the kernel is large, and for common tokens. So we fit by least squares with these weights: with $f_t$ the share of token $t$ in texts, we choose the lists that make

$$
\sum_{i,t} \text{pos}_i\, f_t \Bigl( \delta(i, t) - \sum_k a_k(i)\, b_k(t) \Bigr)^2
$$ (eq-who-loss)

as small as possible. They are the leading singular vectors of the table, once its rows and columns have been multiplied by the roots of these weights {cite}`eckart1936`. For one head:
"""

# %% tags=["nbval-check-output"]
count = x[A][:, 1:n].flatten().bincount(minlength=fixed.d_vocab)
f, pos = (count / count.sum()).double(), fixed.decomposition.kernels[HEAD].double()

left = cx.planes.interaction(fixed, torch.arange(fixed.d_vocab))[:, HEAD]  # vocab source
left = left - f @ left @ pos
weighted = f.sqrt()[:, None] * left * pos.sqrt()
size, v = torch.linalg.svd(weighted, full_matrices=False)[1:]
a = v / pos.sqrt()  # plane source
b = (left * pos) @ a.T  # vocab plane

better = cx.planes.add_planes(fixed, [study.texts[i] for i in A.nonzero()[:, 0]], planes=2)
ours, theirs = b[:, :2] @ a[:2], better.decomposition
torch.allclose(ours.float(), theirs.by_token[HEAD].T @ theirs.by_source[HEAD], atol=1e-3)

# %% tags=["hide-input"]
explained = (size.square() / size.square().sum()).cumsum(0)  # plane
length = model.W_E.detach().cpu().norm(dim=-1)  # vocab
seen = count > 0
a, b = (v * torch.corrcoef(torch.stack([b[seen, 0], length[seen].double()]))[0, 1].sign() for v in (a, b))  # fmt: skip
by_length = pd.Series(b[seen, 0]).corr(pd.Series(length[seen]), method="spearman")
often = torch.where(count >= 50, b[:, 0], torch.zeros(())).cpu()
extremes = [int(often.argmin()), int(often.argmax())]
figure, ((where, what),) = cb.figures.panels(1, 2, height=3.1, width=8.6)
for t, color in zip(extremes, ("C1", "C0"), strict=True):
    where.plot(left[t, :n], color=color, lw=0.8)
    where.plot(a[0, :n] * b[t, 0], color=color, lw=2, ls="--")
    word = cb.figures.visible(cx.texts.decode_tokens(fixed, [t])[0])
    where.text(n // 5, float(left[t, n // 5]), word, color=color, fontsize=11, va="bottom")
    what.annotate(word, (length[t], b[t, 0]), color=color, fontsize=11)
where.set(
    xlabel="position of the source", ylabel="interaction", title="solid: exact; dashed: a plane"
)
what.plot(length[seen], b[seen, 0], ".", ms=1.5, color="C7", rasterized=True)
what.set(
    xlabel="length of the token's embedding", ylabel="b of the first plane", title="all tokens"
)
cb.figures.picture(
    figure,
    "10.2",
    f"The first plane of head {HEAD} of {MODEL}. Left: what kernel and content leave out of the scores of two common tokens, by position (solid), and a number for the position times a number for the token (dashed). Right: that number for all tokens that occur in half A.",
    f"Left, two curves over {n} positions, one that falls slowly and one that rises, each with a dashed one close to it. Right, a cloud of dots that rises with the length of the embedding, rank correlation {by_length:.2f}.",
)  # fmt: skip

# %% [markdown]
r"""
In head {{head}} of `{{model}}` a single plane accounts for {{one_plane}} of the interaction. Its curve separates far from near, and its list sorts tokens by the lengths of their embeddings (rank correlation {{by_length}}). [Chapter 2](02_keys) gave all tokens one typical length, and the plane puts the real lengths back.

In Qwen, too, planes can be looked at. Take head {{british}}, one of the two heads that drive the British neuron, which looks far back. Its first plane goes from near to far, with {{near}} at the near end of its list and {{far}} at the far end. So close to the query this head looks more at prepositions than its kernel and content say. The far end is less plain, and so are Qwen's three other broad heads (under *Evidence*).

With the rows repaired, the rest is as in the model: add up the tokens' values with the weights of the row, multiply by $W_O$, apply LayerNorm and the MLP.
"""

# %%
kinds = [study.texts[i].domain for i in B.nonzero()[:, 0]]


def agreement(outputs):
    """The median correlation of outputs and predictions within domains, from what heads write."""
    predicted, true = (
        [*fixed.mlp(x[B], written).values()][-1] for written in (outputs, fixed.head_outputs(x[B]))
    )
    return cx.evaluation.r_and_fvu(predicted, true, kinds)["r within domains"]


tables = better.decomposition.first([0] * fixed.n_heads)  # without planes
live = {"margins": agreement(fixed.readout.outputs(tables.approx_z(x[B])))}

exact = fixed.require_exact().rows(x[B])  # text head source
exact[..., :-10] = 0
last_ten = fixed.decomposition.z(x[B], exact / exact.sum(-1, keepdim=True))
live["last ten"] = agreement(fixed.readout.outputs(last_ten))

# %% [markdown]
r"""
On half B, the median neuron of `{{model}}` reaches {{live_0}} without planes. The simplest rival, exact attention to the last ten tokens, reaches {{live_ten}}.

## The neurons of three models

For Qwen and SmolLM2, queries, texts and marks were fixed beforehand, SmolLM2's lower, after a first look at both. (Each query has one position, so a difference may be due to either.) The table has the median, over all neurons, of the correlation within domains, with {{= 95% =}} intervals over documents, and for real models the share of neurons below {{= 0.99 =}}. Each head has at most two planes, in `mini` none.
"""

# %% tags=["hide-input", "nbval-check-output"]
table = {called: {"asked": f"at least {ASKED[name]}"} for name, called in NAMES.items()}
for (name, query), (_, judged, goal) in runs.items():
    low, high = judged["interval"]["r"]
    below = fresh(name, query)["failures"]["below .99"]
    more = f" [{low:.3f}, {high:.3f}], {below:.0%} below" if name in REAL else ""
    table[NAMES[name]][query] = f"{goal['r within']:.4f}{more}"
table = pd.DataFrame(table).reindex([*table["mini"]])
table.rename_axis("query")

# %% [markdown]
r"""
Qwen passes with each of the five queries, and between {{qwen_left_low}} and {{qwen_left_high}} of the variance of a typical neuron's output is left. `mini` passes as well. {{?mini_meets}} SmolLM2 passes with {{smollm2_met}} queries; four planes would have done for all five. {{?four_do}}

What carries the prediction? We let the heads in group by group, while the others write their average. We call a head narrow if its kernel covers at most {{= 40 =}} effective tokens ([chapter 4](04_denominators)). The table has the lowest and the highest median of the five queries, and its last row the rival (in `{{model}}` with *the* alone).
"""

# %% tags=["hide-input", "nbval-check-output"]
ADDED = {
    "local": "the query token and narrow heads",
    "stable": "and stable heads",
    "margins": "and all other heads",
    "planes 1": "and one plane a head",
    "planes 2": "and two planes",
    "planes 4": "and four planes",
}


def medians(among, step, column="within"):
    """Of each query of some models: the median over neurons of a score of the output."""
    of = [judged["steps"][step] for (m, _), (_, judged, _) in runs.items() if m in among]
    return [[*scores.values()][-1][column][1] for scores in of]


def rivals(among, kind):
    """Of each query of some models: what a rival leaves of the median neuron's variance."""
    of = [judged["rivals"] for (m, _), (_, judged, _) in runs.items() if m in among]
    return [left[kind]["fvu"][1] for left in of]


def span(values, form=".3f"):
    """The lowest and the highest, as the tables have them."""
    return "–" if None in values else f"{min(values):{form}} to {max(values):{form}}"


ten = {name: [query["within"] for query in of_ten[name]["queries"]] for name in REAL}
by_table = {
    called: {what: span(medians([m], step)) for step, what in ADDED.items()}
    | {"rival: the last ten tokens": span(ten[m]) if m in ten else f"{live['last ten']:.3f}"}
    for m, called in NAMES.items()
}
pd.DataFrame(by_table).rename_axis("r, over queries")

# %% [markdown]
r"""
In Qwen the narrow heads do most of the work: with the query token they give at least {{qwen_narrow}}, and the stable heads add little to that if the query is a word. This is what chapter 9 left out: in the gate of neuron {{neuron}}, too, {{narrow_share}} of the variance of what heads add comes from narrow ones. So exact attention to the last ten tokens is a strong rival there with words; with a full stop or a comma, where stable heads add more, it falls to {{qwen_ten}} and {{qwen_ten_comma}}. {{?words_only}} (In SmolLM2, with {{smol_wide}} broad heads of nine, it is weak.)

## How well does it work?

Two planes a head are better than the simplest tables of their size, but not the best. One can keep scores otherwise: by a singular value decomposition (SVD) of the whole table, plain or with our weights for positions and tokens; or by the key of every token, rounded to a few bits a number. The table has the size of what is kept, in megabytes, and the share of the variance of the median neuron's output that is left, from the best to the worst of the five queries.
"""

# %% tags=["hide-input", "nbval-check-output"]
KEPT = {"planes 2": "two planes a head", "planes 4": "four planes a head", "svd": "SVD", "weighted": "weighted SVD", "keys": "keys, 2 bits", "keys, 4 bits": "keys, 4 bits"}  # fmt: skip
scores_kept = {}
for name in REAL:
    cost = fresh(name)["cost"]  # of “the”, in MB
    planes = {f"planes {k}": 2 * v / 1e6 for k, v in cost["numbers of all heads"].items()}
    keys = {key: bits * cost["numbers of values"] / 8e6 for key, bits in (("keys", 2), ("keys, 4 bits", 4))}  # fmt: skip
    size = planes | keys | dict.fromkeys(("svd", "weighted"), planes["planes 2"])
    left = {k: medians([name], k, "fvu") if k in planes else rivals([name], k) for k in KEPT}
    scores_kept[NAMES[name], "MB"] = {label: f"{size[k]:.0f}" for k, label in KEPT.items()}
    scores_kept[NAMES[name], "left"] = {label: span(left[k], ".1%") for k, label in KEPT.items()}
pd.DataFrame(scores_kept).rename_axis("kept of the scores")

# %% [markdown]
r"""
The weighted SVD beats two planes in {{weighted_ahead}} of the {{ahead}} pairs of a model and a query. {{?weighted_better}} We had asked in advance that planes leave less than a plain SVD and two-bit keys, and they do in every pair. But Qwen's {{size}} MB are for one query token at one position. Keys of four bits ({{keys_size}} MB) serve every query. They leave less than two planes with {{keys_smol}} of the five queries in SmolLM2, and with {{keys_qwen}} in Qwen.

Why planes, then? We had hoped to read them, since they keep position, token and interaction apart. In `{{model}}` each head's first list does go with embeddings' lengths. {{?all_by_length}} But of Qwen's {{wide}} broad heads only the one we had followed has a plain end, and no test shows that a list foretells anything.

## What can go wrong

**A median hides half of the neurons.** With *and* as the query, {{and_below}} of Qwen's neurons are predicted worse than the mark of {{= 0.99 =}}. Head {{and_worst}} puts {{and_wrong}} of its attention in the wrong place there, more than any other; whether that is the reason we did not test. Neurons that hardly vary from text to text are predicted worst. {{?by_spread}}

**A correlation is not a use.** We have not put the tables into the model ([chapter 12](12_causal) shows why that matters).

## Where this leaves us

For one query at one position, a few lists a head can stand in for the scores, and typical outputs come out nearly right. But they use each text's own denominators, where the circuit of chapter 5 makes do with a single calibration text. Which shortcut hurts most? [Chapter 11](11_evaluation) measures it.

## Exercises

1. *Predict, then run.* In head {{head}} the first plane sorts tokens by the length of their embeddings. Do all heads of `{{model}}` do that? Write down how many, then open the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The first plane of every head, and length"}
first = pd.DataFrame(theirs.by_token[:, 0, seen].T.numpy())  # token head
of_heads = first.corrwith(pd.Series(length[seen]), method="spearman").abs()
of_heads.round(2).rename("rank correlation, up to its sign").rename_axis("head").to_frame()

# %% [markdown]
r"""
```{admonition} Solutions
:class: dropdown

1. They do, head 7 least. It is the second plane of that head that is curious: it sorts tokens by their content.
```

## Evidence

**The planes of Qwen's broad heads.** For each, the mean of the curve over stretches of the text, counted back from the query, and the ends of the list among tokens that occur at least {{= 20 =}} times in the texts of the tables. A token at the far end gets more attention where the curve is high. (Kept, `tools/evidence/read_planes.py`, which has all heads.)
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Curves and lists (kept)"}
STRETCHES = ["more than 128 back", "128 to 32", "32 to 8", "8 to 1"]
planes = pd.DataFrame(read["qwen"]["planes"])
planes[STRETCHES] = planes["curve"].tolist()
for end in ("near", "far"):
    planes[f"{end} end"] = [" ".join(map(repr, tokens[:6])) for tokens in planes[end]]
wide = [
    head for head, reach in enumerate(read["qwen"]["effective tokens"]) if reach > cx.heads.BROAD
]
planes[planes["head"].isin(wide)].set_index(["head", "plane"])[
    [*STRETCHES, "near end", "far end"]
].round(1)

# %% [markdown]
r"""
**What was fixed in advance.** The queries, the texts, the rule that chooses the number of planes of each head, the rivals and the marks were written down and committed before anything was measured, in `tools/evidence/whole_neuron.toml`. The tables were made from {{fit}} texts of half A, and {{choose}} others chose how many planes each head has. A first look had read other documents with four queries, of which *the* is judged again here. The documents are the first ten of each of {{domains}} domains in the corpus of `mini` that are long enough; no page reads them, and the real models have nothing to do with that corpus. `mini` was trained on them, so its own mark is about half B of the book's collection.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
qwen, smollm2, mini = ({q: run for (name, q), run in runs.items() if name == of} for of in NAMES)
real = [(name, query) for name, query in runs if name in REAL]
r_qwen, r_smollm2 = ([of[2]["r within"] for of in among.values()] for among in (qwen, smollm2))
missed = [r for r in r_smollm2 if r < ASKED["smollm2"]]
below_in = {q: fresh("qwen", q)["failures"]["below .99"] for q in qwen}
of_and = fresh("qwen", AND)["failures"]
and_worst = int(np.argmax(of_and["fvu of one head"]))
left_qwen = medians(["qwen"], "planes 2", "fvu")
narrow, stable, margins = (np.array(medians(["qwen"], k)) for k in ("local", "stable", "margins"))
word = np.array([query["token"].strip().isalpha() for query, *_ in qwen.values()])


def ahead(step, rival, among):
    """At how many queries of these models so many planes leave less variance than a rival."""
    return int(np.less(medians(among, step, "fvu"), rivals(among, rival)).sum())


both = sum(runs[k][2]["below svd"] and runs[k][2]["below keys"] for k in real)
the = {name: fresh(name) for name in NAMES}
share, groups = np.array(followed["share"]), followed["heads"]
output = {step: of["product"] for step, of in steps.items()}
n_qwen = followed["n"]
BRITISH = 4  # a head of Qwen that page 0 shows
(first,) = (of for of in read["qwen"]["planes"] if (of["head"], of["plane"]) == (BRITISH, 0))
cb.facts(
    "whole_neuron",
    neuron=f"{followed['neuron']}",
    model=MODEL.rpartition("/")[2],
    head=HEAD, british=str(BRITISH),
    qwen_low=cb.fact(min(r_qwen), ".3f", holds=min(r_qwen) >= ASKED["qwen"] and len(r_qwen) == 5),
    smollm2_met=cb.fact(len(r_smollm2) - len(missed), "words"),
    smollm2_misses=len(missed) > cb.MOST * len(r_smollm2),
    mini_meets=min(goal["r within"] for _, _, goal in mini.values()) >= ASKED["mini"],
    stable_share=cb.fact(share[groups["stable"]].sum(), ".0%", holds=share[groups["stable"]].sum() < 1 - cb.MOST),
    narrow_share=cb.fact(share[groups["local"]].sum(), ".0%", holds=share[groups["local"]].sum() > cb.MOST),
    left_before=cb.fact(output["margins"]["fvu"], ".0%", holds=output["margins"]["within"] > 0.8),
    left_after=cb.fact(output["planes 2"]["fvu"], ".1%", holds=output["planes 2"]["fvu"] < output["margins"]["fvu"] / 3),
    fit=qwen[THE][0]["texts"]["fit"],
    choose=qwen[THE][0]["texts"]["choose"],
    sources=n_qwen + 1,
    vocab=the["qwen"]["cost"]["numbers a head"]["0"] - n_qwen - 1,
    one_plane=cb.fact(explained[0], ".0%"),
    smol_wide=cb.fact(9 - len(smollm2[THE][0]["heads"]["local"]), "words", holds=the["smollm2"]["cost"]["numbers of all heads"]["0"] == 9 * the["smollm2"]["cost"]["numbers a head"]["0"]),
    by_length=cb.fact(by_length, ".2f", holds=by_length > cb.ALMOST_EXACTLY),
    live_0=cb.fact(live["margins"], ".3f", holds=live["margins"] > cb.ALMOST_EXACTLY),
    live_ten=cb.fact(live["last ten"], holds=live["last ten"] < live["margins"] - 0.1),
    qwen_left_low=cb.fact(min(left_qwen), ".1%"),
    qwen_left_high=cb.fact(max(left_qwen), ".1%"),
    four_do=min(medians(["smollm2"], "planes 4")) >= ASKED["smollm2"],
    qwen_narrow=cb.fact(narrow.min(), ".2f", holds=narrow.min() > 0.8 and (stable - narrow)[word].max() < 0.05),
    near=cb.fact(cb.listed([f"*{word}*" for word in [*dict.fromkeys(word.strip().lower() for word in first["near"])][:6]])),
    far=cb.fact(cb.listed([f"*{word.strip()}*" for word in first["far"][:6]]), holds=first["curve"] == sorted(first["curve"], reverse=True) and first["curve"][0] > 1 > 0 > first["curve"][-1]),
    **{k: cb.fact(scores_kept["Qwen", "MB"][KEPT[of]]) for k, of in (("size", "planes 2"), ("keys_size", "keys, 4 bits"))},
    **{k: cb.fact(of) for k, of in zip(("qwen_ten", "qwen_ten_comma"), np.array(ten["qwen"])[~word], strict=True)},
    words_only=(margins - ten["qwen"])[word].max() < 0.1 < (margins - ten["qwen"])[~word].min() and (stable - narrow)[~word].min() > 0.05,
    ahead=cb.fact(both, "words", holds=both == len(real)),
    weighted_ahead=cb.fact(len(real) - ahead("planes 2", "weighted", REAL), "words"),
    **{f"keys_{k[:4]}": cb.fact(sum(of[0] == k for of in real) - ahead("planes 2", "keys, 4 bits", [k]), "words") for k in REAL},
    weighted_better=ahead("planes 2", "weighted", REAL) < cb.MOST * len(real),
    no_faster=the["qwen"]["cost"]["seconds a text"]["exact rows"] < 2 * the["qwen"]["cost"]["seconds a text"]["tables"],
    and_below=cb.fact(below_in[AND], ".0%", holds=below_in[AND] == max(below_in.values()) > 0.3),
    followed_r=cb.fact(output["planes 2"]["within"], ".3f", holds=output["planes 2"]["within"] < 0.99 and output["planes 2"]["fvu"] > max(left_qwen)),
    wide=cb.fact(len(wide), "words", holds=len(wide) == 4),
    all_by_length=of_heads.min() > 0.8,
    and_worst=and_worst,
    and_wrong=cb.fact(of_and["tv"]["2"][and_worst], ".0%"),
    by_spread=the["qwen"]["failures"]["rank correlation of r with sd"] > 0.3,
    domains=len({*followed["domains"]}),
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The circuit, its kernels and contents, and the published figures for what it predicts are from {cite:t}`gibson2025decomposing`; the path from tokens through heads to neurons follows {cite:t}`elhage2021framework`. That a truncated singular value decomposition is the best table of its rank is due to {cite:t}`eckart1936`. What rotary models use fast and slow rotations for was studied by {cite:t}`barbero2025round`. Planes of interaction, the conditions and the measurements are this book's. We have not seen anyone predict all first-layer neurons of a language model, outputs included, from such tables; that need not mean that nobody has.
"""
