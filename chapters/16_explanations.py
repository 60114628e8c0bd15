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
# Can a sentence predict a head?

**A little better than a coin; and a high score may have a dull reason.**
On documents that they were not made from, sentences score 0.58 for true labels and 0.49 for shuffled ones.
A planted rule scores 1.00 there.
A faint rule scores hardly more than none, and heads of the first layer look easy until all prompts have one length.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = None  # how many held-out texts are read; None: by the model's size
READ = 64  # tokens of each
PREDICTS = 0.1  # what a next-token neuron's token is given, on average, where the neuron peaks
STRONGEST = 5  # heads of each neuron that are to be explained
EACH = 2  # neurons for each head, in the test of all heads
CHAT = None  # a model's name at OPENAI_BASE_URL (needs OPENAI_API_KEY), to explain beside the rules
CACHE = "answers"  # the folder that keeps its answers, so that none is paid for twice

# %% tags=["hide-input"]
# Conditions of what will be said about SmolLM2, plants and a language model that explains: set
# before any of it was measured, and not moved.
# cases: SmolLM2 reads as many texts as mini; where a fifth of a half holds no 8 and 8, there is none
# (kept: MODEL = "smollm2" and TEXTS = 440, all cells)
# plants: labels that follow a rule of the explainer's own language (a token near the end), a tenth,
# two and three tenths of them turned round; the rules must score 0.9 without noise and stay clear of
# their shuffled labels at a tenth. Three more follow the text's subject: cooking, law, French
# a language model: Qwen2.5-Coder-1.5B-Instruct, eight cases drawn and the plants; it explains if its
# sentences score more for true labels than for shuffled ones, interval above 0; few-shot adds if it
# scores more than zero-shot, interval above 0

# %% tags=["hide-input", "nbval-check-output"]
import html
import json
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from scipy import stats

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
torch.set_grad_enabled(False)
tokenizer, n_layers, n_heads = model.tokenizer, model.cfg.n_layers, model.cfg.n_heads
large = sum(p.numel() for p in model.parameters()) > 50_000_000
reader = cx.texts.Reader.of(model, min(READ, model.cfg.n_ctx))
texts = cx.texts.collection(reader, TEXTS or (220 if large else 440))
in_A, in_B = cb.half_masks(texts)
A, B = np.flatnonzero(in_A), np.flatnonzero(in_B)
print(f"{n_layers} layers of {n_heads} heads; {len(texts)} texts, {reader.n_ctx} tokens of each")
print(f"{len(A)} of half A, {len(B)} of half B")

# %% [markdown]
r"""
## One head, on and off

[Chapter 15](15_lookups) took the neurons that come nearest to predicting their token. Here a **next-token neuron** raises one token more than any other neuron does, and raises no other token as much; and where it peaks, the model gives that token a probability of 0.1 or more, on average over the 20 strongest texts of half A. So each has a token of its own, which a sentence might be about. (The bound was not written down before it was used; whatever follows of next-token neurons holds for this bound.)

Two things are as in chapter 15. A **prompt** of a neuron is a text cut off where the neuron peaks. **Attribution** splits the neuron's pre-activation at the end of prompt $p$ into terms that add up ({eq}`eq-look-terms`); one head's is $t_p = \langle h_p, e \rangle / s_p$, with $h_p$ what the head writes, $e$ the neuron's input weights, $s_p$ what LayerNorm divides by.
"""

# %% tags=["hide-input"]
HOOKS = ("attn.hook_z", "hook_mlp_out", "mlp.hook_pre")
ENTERS, LEAVES = "blocks.0.hook_resid_pre", f"blocks.{n_layers - 1}.hook_resid_post"
hooks = [ENTERS, LEAVES, *(f"blocks.{k}.{hook}" for k in range(n_layers) for hook in HOOKS)]
ids, last = cx.lookups.hooks.pad(model, [text.tokens for text in texts])
generator, every = np.random.default_rng(0), torch.arange(len(texts))
anywhere = torch.tensor([generator.integers(1, k + 1) for k in last.tolist()])
alike = torch.full_like(last, int(last.min()))  # the same length for all
parts = []
for rows in cx.texts.progress(every.split(8), "reading", "batch"):
    _, kept = model.run_with_cache(ids[rows], names_filter=hooks, logits_to_keep=1)
    z, mlp_out, pre = (
        torch.stack([kept[f"blocks.{k}.{hook}"].cpu() for k in range(n_layers)], 2)
        for hook in HOOKS
    )
    fixed = [pre[range(len(rows)), places[rows]] for places in (anywhere, alike)]
    outside = torch.arange(ids.shape[1]) > last[rows, None]
    outside[:, 0] = True  # BOS is no end of a prompt
    peak, end = pre.masked_fill_(outside[..., None, None], -torch.inf).max(1)
    parts.append((kept[ENTERS].cpu(), z, mlp_out, kept[LEAVES].cpu(), peak, end, *fixed))
embedding, z, mlp_out, leaves, peak, end, *pre = map(torch.cat, zip(*parts, strict=True))


def read_at(place, pre):
    """What `cx.lookups.attribution` needs, at one place of each text."""
    return cx.lookups.Reading(*(v[every, place] for v in (embedding, z, mlp_out)), pre)


def prompt(text, place):
    """A text up to a place, as a string without BOS."""
    return tokenizer.decode(ids[text, 1 : int(place) + 1].tolist())


ordinary, same_length = read_at(anywhere, pre[0]), read_at(alike, pre[1])


# %% tags=["hide-input"]
def predicts(layer, neuron, token):
    """The mean probability of each neuron's token where the neuron peaks, on its 20 strongest texts
    of half A. Many neurons peak at one place: what the model says there is asked once.
    """
    strong = torch.from_numpy(A)[peak[A][:, layer, neuron].argsort(0, descending=True)[:20]]
    place, token = strong * ids.shape[1] + end[strong, layer, neuron], token.expand_as(strong)
    P = torch.empty(place.shape)
    for some in cx.texts.progress(place.unique().split(256), "predicting", "batch"):
        said = cx.lookups.layers.logits(model, leaves.flatten(0, 1)[some]).softmax(-1)
        here = torch.isin(place, some)
        P[here] = said[torch.searchsorted(some, place[here]), token[here]]
    return P.mean(0)


clean = cx.lookups.next_token_neurons(model, range(n_layers))
clean["P"] = predicts(*torch.from_numpy(clean[["layer", "neuron", "token"]].to_numpy().T)).numpy()

# %% tags=["hide-input", "nbval-check-output"]
chosen = clean.sort_values("P", ascending=False, kind="stable")
chosen = chosen[chosen["P"] >= PREDICTS] if (clean["P"] >= PREDICTS).any() else chosen[:2]
said = {(row.layer, row.neuron): row.text for row in chosen.itertuples()}
places = list(zip(clean["layer"].tolist(), clean["neuron"].tolist(), strict=True))
at_random = [  # as many of each layer
    place
    for layer, count in sorted(Counter(layer for layer, _ in said).items())
    for place in cx.lookups.random_neurons(model, count, [layer], places)
]
cb.finding(
    f"Of {len(clean)} neurons with a token of their own, {len(said)} predict it at {PREDICTS:g} or more, and {int((clean['P'] >= 0.5).sum())} at chapter 15's one half.",
    holds=bool(2 <= len(said) < len(clean) / 20),
)

# %% [markdown]
r"""
As many neurons drawn at random from the same layers will be the contrast.

A head that gives the same on every prompt explains nothing. So its term is measured from its mean on *ordinary* prompts, texts cut off at random. For one neuron and one head, call the rest $c_p$. The head is **active** on a prompt where $c_p$ is at least half as large as it gets among the neuron's strongest prompts of half A,

$$
c_p = t_p - \operatorname{mean}_{\text{ordinary}} t , \qquad
\text{active}_p \;\Longleftrightarrow\; c_p \ge \tfrac12 \max_{p' \text{ of } A} c_{p'} .
$$ (eq-exp-active)

The half is a convention. A **case** is a neuron and one of the five heads that reach farthest on its strongest prompts, the strongest fifth of each half, if the head is on in 8 of them and off in 8 in half A, and in 4 and 4 in half B. Whoever explains is shown those of half A. Those of half B, other documents, are held out.
"""


# %% tags=["hide-input"]
def strongest_fifth(layer, neuron, half):
    order = peak[half, layer, neuron].argsort(descending=True, stable=True)
    return half[order[: max(len(half) // 5, 1)]]


cases = {}  # (layer, neuron, layer of the head, head): terms, active?, prompts of A and of B
for layer, neuron in [*said, *at_random]:
    a, b = (strongest_fifth(layer, neuron, half) for half in (A, B))
    there = read_at(end[:, layer, neuron], peak)
    t = cx.lookups.attribution(model, layer, neuron, there).heads  # text layer head
    c = t - cx.lookups.attribution(model, layer, neuron, ordinary).heads.mean(0)
    for k in c[a].amax(0).flatten().argsort(descending=True)[:STRONGEST].tolist():
        term = c[:, k // n_heads, k % n_heads]
        on = (term >= term[a].max() / 2) & (term > 0)
        if min(on[a].sum(), (~on[a]).sum()) >= 8 and min(on[b].sum(), (~on[b]).sum()) >= 4:
            cases[layer, neuron, *divmod(k, n_heads)] = term.numpy(), on.numpy(), a, b


def split_of(strings, on, shown, held):
    """Prompts to show and prompts to hold out, each as those on which the head is on and off."""
    return cx.lookups.explain.Prompts(
        *(
            tuple(strings[i] for i in part if on[i] == kind)
            for part in (shown, held)
            for kind in (True, False)
        )
    )


strings = {
    place: [prompt(i, p) for i, p in enumerate(end[:, *place])] for place in [*said, *at_random]
}
splits = {case: split_of(strings[case[:2]], *facts[1:]) for case, facts in cases.items()}

# %% tags=["hide-input", "nbval-check-output"]
NOTHING = "No case to show: no head of these neurons is on in enough prompts and off in enough."
rules = cx.lookups.explain.RuleExplainer(tokenizer)
scores = {case: cx.lookups.explain.score(rules, split) for case, split in splits.items()}
best_first = sorted(scores, key=lambda case: (case[:2] not in said, -scores[case].score))
example = best_first[0] if best_first else None
nothing = None if cases else NOTHING  # what findings about cases say instead


def spoken(case):
    """A case in words."""
    token = f"{said[case[:2]]!a}" if case[:2] in said else "random"
    return f"neuron {case[0]}.{case[1]} ({token}), head {case[2]}.{case[3]}"


def ending(prompt, length=60):
    """The last characters of a prompt, on one line and in letters that every font has."""
    line = prompt.replace("\n", "↵")
    line = "".join(c if c == "↵" or (c.isprintable() and ord(c) < 0x250) else "?" for c in line)
    return f"…{line[-length:]}" if len(line) > length else line


def show_example(case):
    term, on, _, b = cases[case]
    order = b[np.argsort(-term[b])]
    figure, ((axis,),) = cb.figures.panels(height=2.5)
    for kind, color, name in ((True, 1, "active"), (False, 7, "inactive")):
        where = np.flatnonzero(on[order] == kind)
        axis.bar(where, term[order][where], color=cb.figures.COLORS[color], label=name)
    axis.set(xlabel="held-out prompts, sorted", ylabel="term over its mean\n(pre-activation)")
    axis.legend()
    return cb.figures.picture(
        figure,
        "16.1",
        f"What one head puts into one neuron on its {len(b)} prompts of half B: {html.escape(spoken(case))}. Orange: the head counts as active.",
        f"A bar chart of {len(b)} sorted terms from {term[b].max():.2f} to {term[b].min():.2f}; the {on[b].sum()} highest count as active.",
    )


display(
    cb.finding(
        f"Of {len(strings) * STRONGEST} pairs of neuron and head {len(cases)}, of {len({case[:2] for case in cases})} neurons, are cases.",
        holds=len(cases) > 10,
        otherwise=nothing,
    ),
    show_example(example) if example else NOTHING,
)

# %% [markdown]
r"""
## A sentence, and its test

An **explainer** can do two things: `explain(active, inactive)` gives a sentence, from the prompts that are shown; `classify(sentence, prompts)` says of new prompts whether the head is active, from the sentence alone. In the paper GPT-4 does both {cite}`neo2024interpreting`. Here a program does, `cx.lookups.explain.RuleExplainer`: it grows a decision tree of at most four leaves on plain facts about a prompt (its last tokens, the tokens in it and near its end, its length), writes the tree as a sentence, and reads it back. It says little, and exactly what it means. With TPR the share of the held-out active prompts that the sentence calls active, and TNR that of the inactive ones that it calls inactive,

$$
\text{score} \;=\; \frac{\text{TPR} + \text{TNR}}{2} .
$$ (eq-exp-score)

Both kinds count alike, however rare one is. Always saying *active* scores 0.5, and so does a coin.
"""


# %%
def score_of(sentence, active, inactive, explainer=rules):
    tpr = np.mean(explainer.classify(sentence, active))
    tnr = 1 - np.mean(explainer.classify(sentence, inactive))
    return (tpr + tnr) / 2


# %% tags=["hide-input", "nbval-check-output"]
best = scores[example] if example else None
cb.finding(
    f"On {spoken(example)}, the sentence “{best.explanation}” calls {best.tpr:.0%} of {best.active} active prompts active and {best.tnr:.0%} of {best.inactive} inactive ones inactive: a score of {best.score:.2f}."
    if example
    else NOTHING,
    holds=bool(example and best.score > 0.8),
)

# %% [markdown]
r"""
It is the best of the cases whose neuron predicts a token, picked after looking. It shows how the test works, and not how it usually ends.

## Anything can be explained

How good does a sentence look to its author? Score it on the very prompts that it was made from, then on those held out. And do the same with **shuffled labels**: the label *active* is dealt out again among the same prompts, as often as before. Now there is nothing to explain. (For probes this is called a control task {cite}`hewitt2019control`.)
"""

# %% tags=["hide-input"]
dealt = {c: cx.lookups.explain.shuffled(s, seed) for seed, (c, s) in enumerate(splits.items())}
by_chance = {case: cx.lookups.explain.score(rules, split) for case, split in dealt.items()}

table = pd.DataFrame(index=pd.Index(splits, tupleize_cols=False))
for name, found, parts_of in (("true", scores, splits), ("shuffled", by_chance, dealt)):
    table[f"{name}, shown"] = [
        score_of(s.explanation, parts_of[case].shown_active, parts_of[case].shown_inactive)
        for case, s in found.items()
    ]
    table[f"{name}, held out"] = [s.score for s in found.values()]

# %% tags=["hide-input"]
figure, (axes,) = cb.figures.panels(1, 2, height=2.7, sharey=True)
for axis, part in zip(axes, ("shown", "held out"), strict=True):
    for name, color, style in (("true", 0, "stepfilled"), ("shuffled", 1, "step")):
        look = {"color": cb.figures.COLORS[color], "alpha": 0.75, "lw": 2}
        scored, bins = table[f"{name}, {part}"], np.linspace(0.1, 1, 28)
        axis.hist(scored, bins, histtype=style, label=f"{name} labels", **look)
    axis.axvline(0.5, color=cb.figures.INK, lw=1, ls=":")
    axis.set(xlabel="score", title=f"On the prompts {part}")
axes[0].set_ylabel("cases")
axes[0].legend(loc="upper left")
cb.figures.picture(
    figure,
    "16.2",
    f"The same sentences on the prompts that they were made from (in the mean {table['true, shown'].mean():.2f}, with shuffled labels {table['shuffled, shown'].mean():.2f}) and on prompts of other documents, {len(table)} cases. Dotted: what ignorance scores.",
    f"Two pairs of histograms. Mean scores: {', '.join(f'{k} {v:.2f}' for k, v in table.mean().items())}.",
)

# %% tags=["hide-input", "nbval-check-output"]
mean = table.mean()
cb.finding(
    f"On documents that they were not made from, sentences score {mean['true, held out']:.2f} for true labels and {mean['shuffled, held out']:.2f} for shuffled ones.",
    holds=bool(
        mean["true, shown"] - mean["shuffled, shown"] < 0.1
        and mean["shuffled, held out"] < 0.55 < mean["true, held out"]
    ),
    otherwise=nothing,
)

# %% [markdown]
r"""
What fits the prompts that were shown is hardly evidence: labels without meaning can be explained nearly as well, and for them all of it was memory. The same may happen to a person, or to a language model, who finds a theme in a few prompts; it has happened with neurons {cite}`bolukbasi2021illusion`. All the evidence is in the right panel. Does it hold on average, and is it more than luck case by case? For the first, exchange true and shuffled scores of a neuron at random, ten thousand times. For the second, write each case's sentence once more, from half B, and judge it on half A.
"""

# %% tags=["hide-input"]
turned = {
    case: cx.lookups.explain.Prompts(
        s.held_active, s.held_inactive, s.shown_active, s.shown_inactive
    )
    for case, s in splits.items()
}
table["B to A"] = [cx.lookups.explain.score(rules, split).score for split in turned.values()]
table["neuron"] = [case[:2] for case in table.index]
table["predicts a token"] = [case[:2] in said for case in table.index]
neurons = table.groupby(["predicts a token", "neuron"]).mean()  # the unit: its cases share prompts


def exchanged(values, other, paired=False):
    """A difference of means, and how often chance makes one as large: a permutation test.

    `other` are the values of the other side of each pair, or else which values are of the group.
    """
    apart = lambda v, o, axis: (
        (v - o).mean(axis)
        if paired
        else (v * o).sum(axis) / o.sum(axis) - (v * (1 - o)).sum(axis) / (1 - o).sum(axis)
    )
    values, other = np.asarray(values, dtype=float), np.asarray(other, dtype=float)
    if len(values) < 2 or not (paired or 0 < other.sum() < len(other)):
        return np.nan, np.nan, np.array([np.nan])
    kind = "samples" if paired else "pairings"
    test = stats.permutation_test(
        (values, other), apart, permutation_type=kind, vectorized=True, rng=0
    )
    return test.statistic, test.pvalue, test.null_distribution


# %% tags=["hide-input", "nbval-check-output"]
over_chance = exchanged(neurons["true, held out"], neurons["shuffled, held out"], paired=True)
again, not_again = (table["B to A"].corr(table[f"{k}, held out"]) for k in ("true", "shuffled"))
by_neuron = [SimpleNamespace(document=str(place), name="") for place in table["neuron"]]
from_B, from_A = table["B to A"].to_numpy(), table["true, held out"].to_numpy()
ends_of_r = (np.nan, np.nan)
if len(neurons) > 1:
    ends_of_r = cb.by_document(lambda d: np.corrcoef(from_B[d], from_A[d])[0, 1], by_neuron, 299)
names_length = np.array([" tokens" in s.explanation for s in scores.values()])
others = table[~names_length].mean(numeric_only=True)
display(
    cb.finding(
        f"True labels score {over_chance[0]:+.2f} above shuffled ones where each neuron counts once, p = {over_chance[1]:.3f} by permutation of {len(neurons)} neurons; {mean['true, held out'] - mean['shuffled, held out']:+.2f} where each case does.",
        holds=bool(over_chance[0] > 0 and over_chance[1] < 0.01),
        otherwise=nothing,
    ),
    cb.finding(
        f"Cases that score high from A to B do so from B to A: r = {again:.1f} [{ends_of_r[0]:.1f}, {ends_of_r[1]:.1f}] over {len(table)} cases, neurons redrawn, and {not_again:+.2f} for shuffled labels.",
        holds=bool(again > 0.4 > abs(not_again) + 0.1),
        otherwise=nothing,
    ),
    cb.finding(
        f"Prompts end where the neuron peaks, so they have any length, and {int(names_length.sum())} of {len(table)} sentences name it. The others score {others['true, held out']:.2f} and {others['shuffled, held out']:.2f}.",
        holds=bool(
            0 < names_length.mean() < 0.5
            and others["true, held out"] > others["shuffled, held out"]
        ),
        otherwise=nothing,
    ),
)

# %% tags=["hide-input"]
CASES = cb.evidence("cases.json")  # of SmolLM2, on as many texts
if MODEL in cx.models.real_models():
    facts = {"files": cx.models.real_models()[MODEL]["files"], "texts": len(texts)}
    facts["cases"] = [list(map(int, case)) for case in table.index]
    CASES.write_text(json.dumps(facts | {"table": table.round(3).to_dict("list")}) + "\n")
there = json.loads(CASES.read_text())
in_smollm = pd.DataFrame(there["table"]).assign(neuron=[str(c[:2]) for c in there["cases"]])
of_neurons = in_smollm.groupby(["predicts a token", "neuron"]).mean()

# %% tags=["hide-input", "nbval-check-output"]
there_over = exchanged(of_neurons["true, held out"], of_neurons["shuffled, held out"], paired=True)
there_again = in_smollm["B to A"].corr(in_smollm["true, held out"])
cb.finding(
    f"On SmolLM2, with as many texts, {len(in_smollm)} cases of {len(of_neurons)} neurons score {there_over[0]:+.2f} above shuffled labels, p = {there_over[1]:.3f}, and r = {there_again:.1f} from half to half.",
    holds=bool(there_over[0] > 0 and there_over[1] < 0.01 and there_again > 0.4),
)

# %% [markdown]
r"""
(A neuron counts once, whatever the number of its cases.) So a few heads can be predicted, and two collections agree in part on which. Of a next-token neuron one knows what it is for. Are its heads easier to explain than those of a random neuron of the same layer?
"""

# %% tags=["hide-input", "nbval-check-output"]
of_next = exchanged(neurons["true, held out"], neurons.index.get_level_values(0))
cb.finding(
    f"Whether the heads of neurons that predict a token are explained better is undecided: {of_next[0]:+.2f}, p = {of_next[1]:.2f} by permutation of {len(neurons)} neurons.",
    holds=bool(of_next[1] > 0.05),
    otherwise=nothing or f"it is decided, {of_next[0]:+.2f}, p = {of_next[1]:.3f}.",
)

# %% [markdown]
r"""
## Beyond the maximum

Sentences were written where a neuron is loudest, and tested there. An explanation may hold at the top only {cite}`bolukbasi2021illusion`. So put each sentence to all other texts of half B. The bound for *active* stays what it was.
"""

# %% tags=["hide-input"]
rows = []
for number, (case, (_, on, _, b)) in enumerate(cases.items()):
    ranked = B[peak[B, case[0], case[1]].argsort(descending=True, stable=True)]
    says = rules.classify(scores[case].explanation, [strings[case[:2]][i] for i in ranked])
    strong = np.isin(ranked, b)  # the strongest fifth, as before
    rows += zip([number] * len(B), ranked, strong, on[ranked], says, strict=True)
kinds = {"case": int, "text": int, "strong": bool, "on": bool, "says": bool}
of_B = [texts[i] for i in B]
verdicts = pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def case_scores(verdicts, drawn=B):
    """The score of each case, for texts drawn with repeats; nan where a case lacks a kind."""
    weight = np.bincount(drawn, minlength=len(texts))[verdicts["text"]]
    right = verdicts["on"] == verdicts["says"]
    with np.errstate(invalid="ignore"):
        rates = [
            np.bincount(verdicts["case"], weight * right * (verdicts["on"] == kind))
            / np.bincount(verdicts["case"], weight * (verdicts["on"] == kind))
            for kind in (True, False)
        ]
    return pd.Series(np.mean(rates, axis=0))


def mean_score(verdicts, drawn=B):
    """The mean over cases."""
    return float(case_scores(verdicts, drawn).mean())


def wider(per_case, owners, draws=299):
    """The wider interval of a mean over cases: documents drawn again, or the cases' owners."""
    each = per_case(B).dropna()
    of_cases = [SimpleNamespace(document=str(owners[k]), name="") for k in each.index]
    ways = (lambda d: per_case(B[d]).mean(), of_B), (lambda d: each.iloc[d].mean(), of_cases)
    ends = [cb.by_document(mean_of, some, draws) for mean_of, some in ways if some]
    return max(ends, key=lambda low_high: low_high[1] - low_high[0])


# %% tags=["hide-input", "nbval-check-output"]
top, below = verdicts[verdicts["strong"]], verdicts[~verdicts["strong"]]


def lost(drawn):
    return mean_score(below, drawn) - mean_score(top, drawn)


loss = cb.with_interval(lambda d: lost(B[d]), of_B, 299)
cb.finding(
    f"Beyond the strongest fifth the sentences score {mean_score(below):.3f} instead of {mean_score(top):.3f}: a change of {loss[0]:+.3f} [{loss[1]:+.3f}, {loss[2]:+.3f}].",
    holds=bool(abs(loss[0]) < 0.05 and -loss[1] > 0.4 * (mean_score(top) - 0.5)),
    otherwise=nothing,
)

# %% [markdown]
r"""
No loss is seen; by the interval somewhat more than half of the little that a sentence knows may still be the loudest prompts' alone.

## Every head, and a trap

The cases were chosen by neurons, and the first layer is rare among them. So begin with the heads: for each, the two neurons in which its term makes the largest share of the spread. The prompts are ordinary ones, a head is active on the fifth where its term is largest, and sentences go from A to B as before.
"""


# %% tags=["hide-input"]
def every_head(reading, place):
    """Of each head its two neurons: the head, the split, and the strings with their domains."""
    ends = [prompt(i, p) for i, p in enumerate(place)]
    domain = dict(zip(ends, (text.domain for text in texts), strict=True))
    for of, head in np.ndindex(n_layers, n_heads):
        moved = []
        for layer in range(n_layers):
            if of not in cx.adapter.upstream_layers(model, layer):
                continue
            W_in, _ = cx.lookups.layers.input_weights(model, layer)
            writes = (model.blocks[of].attn.W_O[head].detach() @ W_in).cpu()
            scale = cx.lookups.attribution(model, layer, 0, reading).scale
            term = reading.z[:, of, head] @ writes / scale[:, None]  # text neuron
            share = term.std(0) / reading.pre_activation[:, layer].std(0)
            moved += [
                (float(v), term[:, j].numpy()) for v, j in zip(*share.topk(EACH), strict=True)
            ]
        for _, term in sorted(moved, key=lambda m: -m[0])[:EACH]:
            split = split_of(ends, term >= np.quantile(term[A], 0.8), A, B)
            if split.held_active and split.held_inactive:  # in few texts one kind may be missing
                yield of, head, split, domain


tests = {
    "any length": list(every_head(ordinary, anywhere)),
    "one length": list(every_head(same_length, alike)),
}
rows = []
for cut, ones in tests.items():
    for of, head, split, _ in ones:
        s = cx.lookups.explain.score(rules, split)
        rows.append((cut, of, head, s.score, " tokens" in s.explanation, s.explanation))
of_heads = pd.DataFrame(rows, columns=["cut", "layer", "head", "score", "length", "sentence"])
by_layer = of_heads.groupby(["cut", "layer"])[["score", "length"]].mean()

# %% [markdown]
r"""
Ordinary prompts are texts cut off anywhere, so some are short. The second run cuts all texts at one length; labels and neurons are chosen again by the same steps. Beside the rules, a second explainer knows no tokens at all, only which of the 22 domains a text is from. Its sentence lists domains. Yours could be as short:
"""


# %%
class Domains:
    """Knows of a prompt which domain it is from, and nothing else."""

    def __init__(self, domain):
        self.domain = domain  # of each prompt

    def explain(self, active, inactive):
        on, off = (Counter(self.domain[p] for p in some) for some in (active, inactive))
        more = [k for k in on if on[k] / len(active) > off[k] / len(inactive)]
        return f"The head is active in texts on {', '.join(sorted(more))}."

    def classify(self, explanation, prompts):
        listed = explanation[len("The head is active in texts on ") : -1].split(", ")
        return [self.domain[p] in listed for p in prompts]


alone = of_heads[of_heads["cut"] == "one length"].reset_index(drop=True)
alone["domains"] = [
    cx.lookups.explain.score(Domains(d), s).score for *_, s, d in tests["one length"]
]

# %% tags=["hide-input"]
means = {
    "rules, any length": of_heads[of_heads["cut"] == "any length"],
    "rules, one length": alone,
    "domains, one length": alone.assign(score=alone["domains"]),
}
figure, ((axis,),) = cb.figures.panels(height=3.2)
for k, (name, some) in enumerate(means.items()):
    v = some.groupby(["layer", "head"])["score"].mean()
    fixed = v.index.get_level_values("layer") + 0.25 * (k - 1)
    axis.plot(fixed, v, "osD"[k], ms=5, alpha=0.6, color=cb.figures.COLORS[k], label=name)
    middle, fixed = v.groupby("layer").mean(), np.arange(n_layers) + 0.25 * (k - 1)
    axis.plot(fixed, middle, "_", ms=20, mew=2.5, color=cb.figures.COLORS[k])
axis.axhline(0.5, color=cb.figures.INK, lw=1, ls=":")
axis.set(xlabel="layer of the head", ylabel="score on half B")
axis.set(xticks=range(n_layers), ylim=(0.4, 1.05))
axis.legend(loc="upper right", ncols=3)
cb.figures.picture(
    figure,
    "16.3",
    f"Every head, the mean over {EACH} neurons. Bars: the mean over the heads of a layer.",
    "Three columns of dots for each layer. Means: "
    + "; ".join(
        f"{name}: " + ", ".join(f"{v:.2f}" for v in some.groupby("layer")["score"].mean())
        for name, some in means.items()
    )
    + ".",
)

# %% tags=["hide-input", "nbval-check-output"]
easy, named = by_layer.loc[("any length", 0)]
first = alone[alone["layer"] == 0]
hard, by_domain = first[["score", "domains"]].mean()
text_of = {prompt(i, p): i for i, p in enumerate(alike)}


def put_to(ways):
    """Verdicts on the first layer's heads, prompt by prompt: an explainer and a sentence for each."""
    rows = (
        (number, text_of[s], True, on, explainer.classify(sentence, [s])[0])
        for number, (explainer, sentence, split) in enumerate(ways)
        for on, part in ((True, split.held_active), (False, split.held_inactive))
        for s in part
    )
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


ones = [(split, Domains(d)) for of, _, split, d in tests["one length"] if of == 0]
by_rules = put_to((rules, s, split) for s, (split, _) in zip(first["sentence"], ones, strict=True))
by_kind = put_to((e, e.explain(s.shown_active, s.shown_inactive), s) for s, e in ones)
gap = wider(lambda d: case_scores(by_kind, d) - case_scores(by_rules, d), first["head"].tolist())
display(
    cb.finding(
        f"Heads of the first layer look easy, at {easy:.2f}, until all prompts have one length: then they score {hard:.2f}, and whether the text's domain alone scores more is undecided (by {by_domain - hard:.2f} [{gap[0]:.2f}, {gap[1]:.2f}]).",
        holds=bool(easy > hard + 0.1 and abs(by_domain - hard) < 0.05)
        and gap[0] < 0 < gap[1],  # set later
    ),
    cb.finding(
        f"On prompts of any length {named:.0%} of the sentences about the first layer name the length.",
        holds=bool(named > 0.5),
    ),
)

# %% [markdown]
r"""
Held-out texts do not reveal this trap, for they are short and long alike. *No more than 16 tokens* is true of these heads, probably because they average over the text, and in a short one BOS and the token at hand weigh more. It says nothing of what the text is about. Only prompts that are equal in what we do not ask about show what is left, and of that the domain of the text says about as much as a rule that may choose among all tokens.

## Would a rule have been found?

Scores near one half mean little unless a rule that is there scores high. So labels are **planted**: a prompt counts as active if a common token stands among its last eight. Then a share of the labels is turned round. The labels held out are turned round too, so even the rule itself would score at most one less that share.
"""

# %% tags=["hide-input"]
NOISE = (0.0, 0.1, 0.2, 0.3)  # of the planted labels that are turned round
PLANTED = (" the", " of", ",", " and", " to")
cut_off = [prompt(i, p) for i, p in enumerate(anywhere)]


def plant(token, noise, seed):
    """Prompts of a case's number, active where the token is near the end, some turned round."""
    fact = f"the token {json.dumps(token)} near the end"
    rng = np.random.default_rng(seed)
    on = np.array([fact in rules.facts(s) for s in cut_off]) ^ (rng.random(len(texts)) < noise)
    shown, held = (rng.permutation(half)[: max(len(half) // 5, 1)] for half in (A, B))
    return split_of(cut_off, on, shown, held)


found_again = {}
for noise in NOISE:
    for seed, token in enumerate(PLANTED):
        split = plant(token, noise, seed)
        if min(map(len, astuple(split))) >= 3:
            mixed = cx.lookups.explain.shuffled(split, seed)
            found_again[noise, token] = [cx.lookups.explain.score(rules, v).score for v in (split, mixed)]  # fmt: skip
again_of = pd.DataFrame(found_again, ["score", "shuffled"]).T.astype(float)
curve = again_of.groupby(level=0).mean() if len(again_of) else pd.DataFrame(columns=["score", "shuffled"])  # fmt: skip

# %% tags=["hide-input", "nbval-check-output"]
at_noise = curve["score"].reindex(NOISE)
faint = [marks for (noise, _), marks in found_again.items() if noise == 0.3]
of_rule, of_none = np.array(faint or [(np.nan, np.nan)]).T
display(
    curve.round(2).rename_axis("labels turned round"),
    cb.finding(
        f"A planted rule scores {at_noise[0.0]:.2f} there.",
        holds=bool(at_noise[0.0] >= 0.9 and at_noise[0.1] > curve["shuffled"].mean() + 0.1),
    ),
    cb.finding(  # set later
        f"With three tenths of their labels turned round five rules score {of_rule.min():.2f} to {of_rule.max():.2f}, hardly more than none ({of_none.min():.2f} to {of_none.max():.2f}).",
        holds=bool(of_rule.min() < of_none.max()),
    ),
)

# %% [markdown]
r"""
## What would a language model add?

A program that counts tokens has no notion of a recipe or an apology. A language model may {cite}`bills2023language`. One that runs on a laptop was asked, on eight cases drawn and on three **planted subjects**: texts of one length, those about cooking, of law or in French called active.
"""


# %% tags=["hide-input"]
class FewShot:
    """A sentence, and beside it some of the prompts that it was written from."""

    def __init__(self, asking, each=4):
        self.asking, self.each = asking, each

    def explain(self, active, inactive):
        lines = [self.asking.explain(active, inactive)]
        for kind, prompts in (("Active", active), ("Inactive", inactive)):
            lines += [f"{kind}, for example: {ending(p, 200)}" for p in prompts[: self.each]]
        return "\n".join(lines)

    def classify(self, explanation, prompts):
        return self.asking.classify(explanation, prompts)


# %% tags=["hide-input"]
KEPT = cb.evidence("explained.json")  # of Qwen
FILES = cx.models.real_models().get(CHAT or "", {}).get("files")  # CHAT = "qwen" was asked
if CHAT:
    KEPT = Path(CACHE) / "explained.json"
SUBJECTS = ("cooking", "law", "french")  # planted: active means of this domain
DRAWN, SHOW = 8, 8  # cases; prompts of either kind that are shown, and that are held out


def part_of(split):
    """So many prompts of either kind."""
    return cx.lookups.explain.Prompts(*(part[:SHOW] for part in astuple(split)))


def planted_subject(domain):
    """Texts of one length, those of a domain against others drawn."""
    is_on = np.array([text.domain == domain for text in texts])
    others = np.random.default_rng(0).permutation(len(texts))
    prompts = [prompt(i, p) for i, p in enumerate(alike)]
    on, off = np.flatnonzero(is_on), [i for i in others if not is_on[i]]
    parts = (
        [prompts[i] for i in some if in_A[i] == half]
        for half in (True, False)
        for some in (on, off)
    )
    return part_of(cx.lookups.explain.Prompts(*map(tuple, parts)))


def answered(explainer, split):
    """What an explainer scores; one that gives no sentence in time knows as much as a coin."""
    try:
        s = cx.lookups.explain.score(explainer, split)
    except ValueError as error:
        return {"sentence": None, "score": 0.5, "why": str(error)}
    return {"sentence": s.explanation, "score": s.score, "tpr": s.tpr, "tnr": s.tnr}


def told_by(explainer):
    """Drawn cases and planted subjects: rules, zero-shot, few-shot, and both under shuffled labels."""
    chosen = np.random.default_rng(0).permutation(len(splits))[:DRAWN]
    asked = {f"planted: {domain}": planted_subject(domain) for domain in SUBJECTS}
    asked |= {spoken(case): part_of(splits[case]) for k in chosen for case in [list(splits)[k]]}
    facts = {}
    for seed, (name, split) in enumerate(cx.texts.progress(asked.items(), "explaining", "case")):
        mixed = cx.lookups.explain.shuffled(split, seed)
        facts[name] = {
            "zero-shot": answered(explainer, split),
            "few-shot": answered(FewShot(explainer), split),
            "zero-shot, shuffled": answered(explainer, mixed),
            "few-shot, shuffled": answered(FewShot(explainer), mixed),
            "rules": answered(rules, split),
            "rules, shuffled": answered(rules, mixed),
        }
        told = {"model": explainer.model, "files": FILES, "cases": facts}
        KEPT.write_text(json.dumps(told, indent=0) + "\n")


if CHAT and splits:
    import openai

    client = openai.OpenAI(timeout=600, max_retries=0)
    told_by(cx.lookups.chat.ChatExplainer(CHAT, cache=CACHE, client=client, batch=8, keep=100))

# %% tags=["hide-input", "nbval-check-output"]
answers = json.loads(KEPT.read_text())["cases"]
WAYS = (
    "zero-shot",
    "few-shot",
    "zero-shot, shuffled",
    "few-shot, shuffled",
    "rules",
    "rules, shuffled",
)
marks = pd.DataFrame({way: {name: c[way]["score"] for name, c in answers.items()} for way in WAYS})
planted = marks.index.str.startswith("planted")


def by_case(values):
    """A mean over cases and its 95% interval, cases drawn again."""
    values = np.asarray(values)
    drawn = np.random.default_rng(0).integers(len(values), size=(999, len(values)))
    return values.mean(), *np.quantile(values[drawn].mean(1), (0.025, 0.975))


drawn = marks[~planted]
gain = by_case(marks["zero-shot"] - marks["zero-shot, shuffled"])
shown = by_case(marks["few-shot"] - marks["zero-shot"])
plain = [c["zero-shot"] for c in answers.values() if "tpr" in c["zero-shot"]]
calls_on = np.mean([(v["tpr"] + 1 - v["tnr"]) / 2 for v in plain])
asked_rules = marks[planted]["rules"]
display(
    cb.finding(
        f"Qwen2.5-Coder-1.5B, asked in place of the program, fails its positive control: on three planted subjects it scores {marks[planted]['zero-shot'].mean():.2f}, where rules score {asked_rules.mean():.2f}.",
        holds=bool(marks[planted]["zero-shot"].mean() < 0.55 and asked_rules.min() > 0.7),
    ),
    cb.finding(
        f"So its {drawn['zero-shot'].mean():.2f} on the {len(drawn)} drawn cases, where rules score {drawn['rules'].mean():.2f}, says nothing of heads: it calls {1 - calls_on:.0%} of all prompts inactive. Prompts shown as examples change none of its {len(marks)} scores, nor one under shuffled labels.",
        holds=bool(
            calls_on < 0.1
            and all(
                (marks[f"few-shot{of}"] == marks[f"zero-shot{of}"]).all()
                for of in ("", ", shuffled")
            )
        ),
    ),
)

# %% [markdown]
r"""
Whether a larger model adds something, or this one asked in another way, stays open.

```{admonition} How it was asked, and how to ask a model of your own
:class: dropdown

`cx.lookups.chat.ChatExplainer` has the same two methods, `explain` and `classify`, behind any endpoint that speaks OpenAI's chat completions, a server of your own included: set `CHAT` in the parameters cell. *Zero-shot*, as in the paper, the classifier sees the sentence alone; *few-shot*, it also sees four of the prompts of either kind. Here: 4-bit weights, a server of `llama.cpp`, eight prompts of either kind shown and at most eight held out, sentences of at most 300 characters, the last 100 characters of each, temperature 0. Sentences and scores are kept with the book.
```
"""

# %% [markdown]
r"""
## What breaks it

- **What prompts share.** A score holds among the prompts that it was taken on. Inside German texts the word *German* explains nothing; among prompts of many lengths, length explains much.
- **The cut.** Half of the largest term, the largest fifth: a head that answers by degrees is cut where it has no joint.
- **Readers.** Nobody was asked which sentence tells a person more: a score is what a classifier makes of the words.
- **Words and behaviour.** A sentence that predicts when a head is active need not name what it reads; tests by intervention find explanations by language models far from faithful {cite}`huang2023rigorously`. Nor does an active head mean an effect: for that, [chapter 15](15_lookups) silences heads.

In Jupyter or Colab (the rocket above) the case, the explainer and the labels of this table can be changed. Try shuffled labels first: would you have known from the sentence?
"""


# %% tags=["hide-input"]
repeats = cx.lookups.explain.RuleExplainer(tokenizer, repeats=True)
EXPLAINERS = {"rules": rules, "rules with repeats": repeats}
listed = {spoken(case): case for case in sorted(scores, key=lambda case: -scores[case].low)}


def draw(case, explainer, labels):
    if not listed:
        return cb.Finding(NOTHING)
    split = (splits if labels == "true" else dealt)[listed[case]]
    s = cx.lookups.explain.score(EXPLAINERS[explainer], split)
    held = [*split.held_active[:7], *split.held_inactive[:7]]
    truth = [k < len(split.held_active[:7]) for k in range(len(held))]
    says = EXPLAINERS[explainer].classify(s.explanation, held)
    cell, rows = '<td style="padding:.2em .5em;text-align:left', []
    for prompt, on, said_on in zip(held, truth, says, strict=True):
        state, right = "active" if on else "inactive", "right" if on == said_on else "<b>wrong</b>"
        line = f'{cell};font-family:monospace">{html.escape(ending(prompt, 80))}'
        rows.append(f'<tr>{cell}">{state}</td>{cell}">{right}</td>{line}</td></tr>')
    scored = f"TPR {s.tpr:.2f} of {s.active}, TNR {s.tnr:.2f} of {s.inactive}: score {s.score:.2f}"
    caption = f"{html.escape(case[:1].upper() + case[1:])}, {labels} labels. <i>{html.escape(s.explanation)}</i> {scored}."
    return cv.picture.Picture(
        f'<figure class="picture" style="margin:0"><table>{"".join(rows)}</table>'
        f"<figcaption><b>Figure 16.4.</b> {caption}</figcaption></figure>",
        f"{s.explanation} {scored}. A list of {len(held)} held-out prompts.",
    )


cv.Turnable(
    draw,
    case=cv.choice("case", list(listed) or ["none"], next(iter(listed), "none")),
    explainer=cv.choice("explainer", list(EXPLAINERS), "rules"),
    labels=cv.choice("labels", ["true", "shuffled"], "true"),
)

# %% [markdown]
"""
## Claims

The paper speaks of other models, and of an explainer that is a language model. The first interval is the wider of two: documents of half B drawn again, and neurons drawn again. The second holds the differences that a permutation of the heads does not exclude; this line was judged, left out of the book for a time, and is back.
"""

# %% tags=["hide-input", "nbval-check-output"]
next_ones = verdicts["case"].isin([k for k, case in enumerate(cases) if case[:2] in said])
of_next_rows = top[next_ones[top.index]]

# An induction head looks for an earlier place of the present token and attends to what came behind
# it. Random tokens, twice: which heads give 0.3 of their attention to that place?
repeated = max(2, min(24, (reader.n_ctx - 1) // 2))
noise = torch.from_numpy(np.random.default_rng(0).integers(model.cfg.d_vocab, size=(8, repeated)))
patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in range(n_layers)]
_, ran = model.run_with_cache(
    torch.cat([ids[:8, :1].expand(8, 1), noise, noise], 1), names_filter=patterns
)
again_at = torch.arange(repeated + 1, 2 * repeated + 1)
behind = [ran[name][:, :, again_at, again_at - repeated + 1].mean((0, 2)) for name in patterns]
head_scores = alone.groupby(["layer", "head"])["score"].mean()
induction = np.array([float(behind[of][head]) >= 0.3 for of, head in head_scores.index])
less, _, null = exchanged(head_scores, induction)
not_excluded = tuple(float(less - np.quantile(null, q)) for q in (0.975, 0.025))
cb.ledger(
    model,
    cb.Claim(
        "explanations_predict",
        "score of explanations, next-token neurons",
        mean_score(of_next_rows),
        wider(lambda d: case_scores(of_next_rows, d), [case[:2] for case in cases], 999),
    ),
    cb.Claim(
        "induction_is_hard",
        f"score of {induction.sum()} induction heads less that of other heads",
        float(less),
        not_excluded,
    ),
)

# %% [markdown]
r"""
## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
by_wider = wider(lambda d: case_scores(top, d), [case[:2] for case in cases])
assume = {
    "A sentence of at most three conditions predicts a head better than a coin": f"{mean['true, held out']:.2f} [{', '.join(f'{v:.2f}' for v in by_wider)}] on average, {(table['true, held out'] > 0.7).mean():.0%} of cases above 0.7 ({(table['shuffled, held out'] > 0.7).mean():.0%} with shuffled labels)",
    "The heads that a sentence predicts are in part the same in other documents": f"r = {again:.1f} between two collections of about {len(B)} texts",
    "Of a sentence written at a neuron's maximum no loss was seen below it; somewhat more than half of its worth could be lost unseen": f"a fifth of {len(B)} texts, or the other four fifths: {loss[0]:+.2f} [{loss[1]:+.2f}, {loss[2]:+.2f}]",
}
by_tenths = again_of.loc[[0.1]] if len(again_of) else pd.DataFrame(columns=["score", "shuffled"])
clear = bool(len(by_tenths) and at_noise[0.0] >= 0.9 and by_tenths["score"].min() > by_tenths["shuffled"].max())  # fmt: skip
verdicts_of = {
    "plants: 0.9 without noise, and clear of shuffled labels with a tenth turned round": clear,
    "a language model: more for true labels than for shuffled ones": gain[1] > 0,
    "few-shot: more than zero-shot": shown[1] > 0,
}
display(
    pd.Series(assume, name="seen").rename_axis("assumption").to_frame(),
    pd.DataFrame(
        {"": ["met" if v else "not met" for v in verdicts_of.values()]},
        index=pd.Index(verdicts_of, name="set beforehand"),
    ),
)

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* Show the rules only a quarter of the prompts. Does the score on those shown rise or fall, and that on half B?
"""

# %% tags=["nbval-check-output"]
quarter = {}
for case, s in splits.items():
    few = [part[: max(3, len(part) // 4)] for part in (s.shown_active, s.shown_inactive)]
    sentence = rules.explain(*few)
    held = score_of(sentence, s.held_active, s.held_inactive)
    quarter[case] = score_of(sentence, *few), held
parts = pd.Index(["on the prompts shown", "held out"])
found = {"a quarter": pd.DataFrame(quarter, parts).mean(axis=1), "all": [*mean.iloc[:2]]}
pd.DataFrame(found, parts).round(2)

# %% [markdown]
r"""
2. *Fill in* a sentence of your own for the case of Figure 16.1, in the words of the rules. Look at the prompts of half A only: `splits[example].shown_active` and `shown_inactive`.
"""

# %%
mine = ...  # such as 'The head is active on prompts with the token " war" near the end.'

# %% tags=["hide-input", "nbval-check-output"]
if mine is ... or not example:
    print("not yet")
else:
    yours = score_of(mine, splits[example].held_active, splits[example].held_inactive)
    print(f"yours {yours:.2f}, the program's {scores[example].score:.2f}")

# %% [markdown]
r"""
3. *Break this.* Make the first layer look easy again: let `alike` be 8 for half of the texts and 60 for the others, and run the test of all heads. What do the sentences say now?
4. *Prove.* Each of $m$ facts is true of half of the prompts at random. An explainer is shown $r$ active and $r$ inactive ones. How well does the best single fact fit labels without meaning?

````{admonition} Solutions
:class: dropdown

1. It rises on the prompts shown, since few are easier to fit, and falls towards one half on the others.
2. Listen for what you do: you look for a theme. With `dealt[example]` you will find one as well.
3. The first layer's scores rise again, and most of its sentences name a length. The heads were not changed.
4. For one fact, the difference of two shares of $r$ prompts has standard deviation $\sqrt{2 \cdot \tfrac14 / r}$; half of it is what the score gains, $\sigma = 1/\sqrt{8 r}$. The largest of $m$, of either sign, is about $\sigma \sqrt{2 \ln 2m}$. With $r = 16$ and $m = 200$ that is $0.088 \cdot 3.5 \approx 0.31$: a score of 0.81 from nothing, with a single fact.
````

## Where this comes from

The procedure, active against inactive prompts, a written explanation, its score on new prompts and the random neurons beside it, is that of {cite:t}`neo2024interpreting`; explanations by a language model, scored by how well they predict activations, began with {cite:t}`bills2023language`. That a unit's maxima may suggest what its other activations do not bear out was shown by {cite:t}`bolukbasi2021illusion`, and rigorous tests of written explanations are those of {cite:t}`huang2023rigorously`. The rules in the place of a language model, the two collections and the prompts of one length are worked out here.
"""
