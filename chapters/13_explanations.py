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

**Some heads, yes; most, only a little better than a coin; and a sentence that fits can be had for nothing.** Shown prompts on which a head wakes a neuron and prompts on which it does not, a small program finds a sentence that tells them apart, even when somebody has shuffled the labels. Sentences fit what they were shown almost as well when the labels are shuffled, 0.84 against 0.89; on new prompts they do not, 0.52 against 0.60. Explanations score above those of shuffled labels: +0.11 [+0.05, +0.16]. Few explanations stand when all tests are allowed for: 4 of 68.
On the book's own model a few heads stand out, heads of the first layer among them. They read what *kind* of text they are in, above all its language, and a list of six kinds predicts them nearly as well as a search through all tokens. Heads of neurons that predict a token are explained a little better than others. The one induction head is among those that resist, though not alone, and gains most when the sentence may mention one fact more: that the last token came before.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
SIZES = None  # texts, next-token neurons (and as many random ones), prompts for each; None: by the model's size
READ = 96  # tokens of each text
MARGIN = 0.05  # how far the best congruence lies above the second, both ways, relative to itself
STRONGEST = 5  # heads of each neuron that are to be explained
ORDINARY = 360  # prompts that nothing was chosen for
EACH = 3  # neurons for each head, in the test of all heads
MORE = 6  # and for each of those that attend to one place above all
CHAT = None  # a model's name at OPENAI_BASE_URL (needs OPENAI_API_KEY), to explain beside the rules
CACHE = "answers"  # the folder that keeps its answers, so that none is paid for twice
PRICE = None  # what a million tokens read and a million written cost, such as (1.0, 4.0)

# %% tags=["hide-input", "nbval-check-output"]
import html
import re
from collections import Counter
from functools import cache
from itertools import permutations

import numpy as np
import pandas as pd
import torch
from scipy import stats

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
tokenizer, n_layers, n_heads = model.tokenizer, model.cfg.n_layers, model.cfg.n_heads
large = sum(p.numel() for p in model.parameters()) > 50_000_000
# half of the prompts are shown, half held out
TEXTS, NEURONS, PROMPTS = SIZES or ((160, 4, 32) if large else (560, 12, 56))
reader = cx.texts.Reader.of(model, min(READ, model.cfg.n_ctx))
texts = cx.texts.collection(reader, TEXTS)
ordinary = cx.decoders.random_prompts(texts, min(ORDINARY, len(texts)))
usual = cx.decoders.read_prompts(model, ordinary)  # read once, for all neurons


def places(table):
    """(layer, neuron) of the rows of a table."""
    return list(zip(table["layer"].tolist(), table["neuron"].tolist(), strict=True))


awake = usual.pre_activation.amax(0) > 0  # layer neuron: a neuron that never is has no prompts
asleep = [tuple(place) for place in torch.nonzero(~awake).tolist()]
clean = cx.decoders.next_token_neurons(model)
margin = clean[["over_tokens", "over_neurons"]].min(axis=1) / clean["congruence"]
can = awake[clean["layer"].tolist(), clean["neuron"].tolist()].numpy()
good = clean[can & (margin > MARGIN)]
good = (good if len(good) else clean[can]).head(NEURONS)  # a tiny model may have none
next_token = places(good)
said = dict(zip(next_token, good["text"], strict=True))  # the token of each
at_random = [
    place  # one for each next-token neuron, from the same layer
    for layer, count in sorted(Counter(layer for layer, _ in next_token).items())
    for place in cx.decoders.random_neurons(model, count, [layer], [*places(clean), *asleep])
]
print(f"{n_layers} layers of {n_heads} heads; {len(texts)} texts, {reader.n_ctx} tokens at most")
print(f"{len(next_token)} next-token neurons and {len(at_random)} random ones of the same layers")

# %% [markdown]
r"""
## On and off

[Chapter 12](12_lookups) asked which head wakes a neuron. It had three tools, and they are needed again. The **congruence** of a neuron with a token is the product of the neuron's output weights with the token's column of the unembedding; a **next-token neuron** is first among all neurons for one token, which is also its own first token, and by a clear margin. Its **top prompts** are texts cut off where the neuron peaks, the strongest first. And **attribution** splits the pre-activation at the end of
a prompt $p$ into terms that add up: head $i$ of layer $k$ gives $t_p^{(k,i)} = \langle h_p^{(k,i)}, e \rangle / s_p$, where $h_p$ is what the head writes at the last token, $e$ the neuron's input weights and $s_p$ the number by which the LayerNorm in front of the neuron divides.

A head that gives the same on every prompt explains nothing about any of them. So its term is measured from its mean on *ordinary* prompts, texts cut off at random. Write $c_p$ for what remains, for one neuron and one head. The head is called **active** on a prompt of the neuron if $c_p$ is at least half as large as it gets on any of them:

$$
\begin{aligned}
c_p \;&=\; t_p - \operatorname{mean}_{\text{ordinary}} t , \\
\text{active}_p \;&\Longleftrightarrow\; c_p \ge \tfrac12 \max_{p'} c_{p'} \;\text{ and }\; c_p > 0 .
\end{aligned}
$$ (eq-exp-active)

The half is a convention (the `share` of `cx.decoders.explain.active`). What follows takes it as given: each prompt of a neuron has a label, and the question is whether a sentence predicts it. For each neuron the heads are those whose $c_p$ is largest on any one of its prompts.
"""


# %%
def decoded(tokens):
    return tokenizer.decode(tokens[1:].tolist())  # without BOS


found = cx.decoders.top_prompts(model, texts, next_token + at_random, PROMPTS)
labels = {}  # (layer, neuron, layer of the head, head): prompts, active on each, centred terms
tried = 0
for prompts in found:
    neuron = (prompts.layer, prompts.neuron)
    sources = [decoded(tokens) for tokens in prompts.tokens]
    terms = cx.decoders.attribution(model, *neuron, prompts.tokens).heads
    c = terms - cx.decoders.attribution(model, *neuron, usual).heads.mean(0)
    strongest = c.amax(0).flatten().argsort(descending=True)[:STRONGEST]  # over layer head
    for layer, head in [divmod(k, n_heads) for k in strongest.tolist()]:
        tried += 1
        on = cx.decoders.explain.active(c[:, layer, head]).numpy()
        labels[*neuron, layer, head] = sources, on, c[:, layer, head].numpy()

# %% tags=["nbval-check-output"]
splits = {}
for case, (sources, on, _) in labels.items():
    try:
        splits[case] = cx.decoders.explain.split(sources, on)
    except ValueError:  # fewer than eight active or inactive prompts
        continue
print(f"{len(found)} neurons, the {STRONGEST} strongest heads of each: {tried} cases")
print(f"with enough active and inactive prompts to be split: {len(splits)}")

# %% [markdown]
r"""
A **case** is one neuron and one head. Half of the active and half of the inactive prompts may be shown to whoever is to explain the head, the others are held out, and there must be eight of each kind to begin with. The cases that drop out are those of heads that are on, or off, almost everywhere on the prompts of that neuron; for them there is little to predict, and nothing below speaks about them.

## A sentence, and its test

Whoever can write an explanation and can read one is an **explainer**. The protocol has two methods:

    explain(active, inactive) -> str               # from the prompts that are shown
    classify(explanation, prompts) -> list[bool]   # from the sentence alone

The second gets the sentence and prompts that nobody has seen, and no labels. In the paper both parts are played by a language model {cite}`neo2024interpreting`. This page must run without a network and twice with the same result, so here the default is a program, `cx.decoders.explain.RuleExplainer`. It grows a small decision tree on plain facts about a prompt (its last tokens, the tokens in it and near its end, its length), writes the tree down as a sentence, and reads the sentence back to classify. What it can say is narrow. But it says exactly what it means.

Let TPR be the share of the held-out active prompts that the sentence calls active, and TNR the share of the inactive ones that it calls inactive. The **score** of an explanation is

$$
\text{score} \;=\; \frac{\text{TPR} + \text{TNR}}{2} .
$$ (eq-exp-score)

It counts both kinds alike, however rare one of them is: always saying *active* gives $(1 + 0)/2$, and so does a coin on average. So 0.5 is what ignorance scores. The interval of a score joins Wilson's intervals of the two shares. It is wide, since half of a few dozen prompts is not much.
"""


# %% tags=["nbval-check-output"]
rules = cx.decoders.explain.RuleExplainer(tokenizer)


def by_hand(explainer, sentence, active, inactive):
    """TPR, TNR and the score of a sentence on prompts of which one knows what they are."""
    tpr = np.mean(explainer.classify(sentence, active))
    tnr = 1 - np.mean(explainer.classify(sentence, inactive))
    return tpr, tnr, (tpr + tnr) / 2


scores = {case: cx.decoders.explain.score(rules, split) for case, split in splits.items()}
same = [
    np.isclose(
        by_hand(rules, s.explanation, splits[c].held_active, splits[c].held_inactive)[2], s.score
    )
    for c, s in scores.items()
]
print("same as cx.decoders.explain.score:", all(same))

# %% tags=["hide-input"]
NOTHING = "no case to show: no head of these neurons has enough active and inactive prompts"
best = max(scores, key=lambda case: scores[case].low, default=None)


def spoken(case):
    """A case in words."""
    token = f" ({said[case[:2]]!a})" if case[:2] in said else " (random)"
    return f"neuron {case[0]}.{case[1]}{token}, head {case[2]}.{case[3]}"


def ending(prompt, length=56):
    """The last characters of a prompt, on one line and in letters that every font has."""
    line = prompt.replace("\n", "↵").replace("\ufffd", "?")
    line = "".join(c if c == "↵" or (c.isprintable() and ord(c) < 0x250) else "?" for c in line)
    return f"…{line[-length:]}" if len(line) > length else line


def show_example(case):
    _, on, c = labels[case]
    order = np.argsort(-c)
    figure, ((axis,),) = cx.plots.panels(height=2.5)
    for kind, colour, name in ((True, 1, "active"), (False, 7, "inactive")):
        at = np.flatnonzero(on[order] == kind)
        axis.bar(at, c[order][at], color=cx.plots.COLOURS[colour], label=name)
    axis.axhline(c.max() / 2, color=cx.plots.INK, lw=1, ls="--")
    axis.set(
        xlabel="prompts of the neuron, sorted",
        ylabel="head's term over its mean\n(units of the pre-activation)",
    )
    axis.legend()
    return cx.plots.picture(
        figure,
        "13.1",
        f"What one head puts into one neuron at the end of each of {len(on)} prompts, over its "
        f"mean on ordinary prompts: {html.escape(spoken(case))}. Dashed: half of the largest.",
        f"A bar chart of {len(on)} sorted terms from {c.max():.2f} to {c.min():.2f}; {on.sum()} "
        "lie above half of the largest.",
    )


show_example(best) if best else NOTHING


# %% tags=["hide-input", "nbval-check-output"]
def held_out(case, explainer, sentence, each=4):
    """Some of the held-out prompts, with what the head does and what the sentence says."""
    split = splits[case]
    rows = []
    for prompts, truth in ((split.held_active, "active"), (split.held_inactive, "inactive")):
        verdicts = explainer.classify(sentence, prompts[:each])
        for prompt, verdict in zip(prompts, verdicts, strict=False):
            says = "active" if verdict else "inactive"
            mark = "right" if says == truth else "WRONG"
            rows.append((ending(prompt), truth, says, mark))
    return pd.DataFrame(
        rows, columns=["the prompt ends in", "the head is", "the sentence says", ""]
    )


if best:
    s = scores[best]
    print(f"{spoken(best)}:\n{s.explanation}")
    print(f"TPR {s.tpr:.2f} of {s.active}, TNR {s.tnr:.2f} of {s.inactive}:", end=" ")
    print(f"score {s.score:.2f} [{s.low:.2f}, {s.high:.2f}]")
held_out(best, rules, scores[best].explanation) if best else NOTHING

# %% [markdown]
r"""
Figure 13.1 shows where the labels come from: the bars above the dashed line are the active prompts, and if there is no gap at the line, the cut is arbitrary for those next to it. This is the best of all cases, by the lower end of its interval. It was chosen for that, after looking, so it shows how the test works and not how it usually ends. Read the sentence first, as a statement about prompts. Then read some of the held-out prompts in the table, and ask whether the sentence names what *you* would say they have in common. A sentence can tell prompts apart without that.

## Anything can be explained

How good do sentences look to the one who writes them? Score each on the very prompts from which it was made, and then on those held out. And do the same with **shuffled labels**: deal the label *active* out again among the same prompts, at random and as often as before. Now there is nothing to explain.
"""

# %%
dealt = {
    case: cx.decoders.explain.shuffled(s, seed) for seed, (case, s) in enumerate(splits.items())
}
shuffled_scores = {case: cx.decoders.explain.score(rules, split) for case, split in dealt.items()}


def on_shown(scores, splits):
    """The score of each sentence on the prompts that it was made from."""
    return np.array(
        [
            by_hand(rules, s.explanation, splits[c].shown_active, splits[c].shown_inactive)[2]
            for c, s in scores.items()
        ]
    )


fit = {"true labels": on_shown(scores, splits), "shuffled": on_shown(shuffled_scores, dealt)}
held = {
    "true labels": np.array([s.score for s in scores.values()]),
    "shuffled": np.array([s.score for s in shuffled_scores.values()]),
}


# %% tags=["hide-input"]
def mean(values):
    """A mean, NaN where there is nothing."""
    return float(np.mean(values)) if len(values) else float("nan")


figure, (axes,) = cx.plots.panels(1, 2, height=2.7, sharey=True)
bins = np.linspace(0.1, 1, 28)
for axis, values, title in (
    (axes[0], fit, "On the prompts that were shown"),
    (axes[1], held, "On those held out"),
):
    for (name, v), colour, style in zip(
        values.items(), (0, 1), ("stepfilled", "step"), strict=True
    ):
        axis.hist(
            v, bins, histtype=style, color=cx.plots.COLOURS[colour], alpha=0.75, lw=2, label=name
        )
    axis.axvline(0.5, color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="score", title=title)
axes[0].set_ylabel("cases")
axes[0].legend(loc="upper left")
cx.plots.picture(
    figure,
    "13.2",
    f"The score of the same sentences on what they were made from and on new prompts, {len(splits)} "
    "cases, with true and with shuffled labels. Dotted: what ignorance scores.",
    "Two pairs of histograms. Mean score on the shown prompts: "
    + ", ".join(f"{k} {mean(v):.2f}" for k, v in fit.items())
    + "; on those held out: "
    + ", ".join(f"{k} {mean(v):.2f}" for k, v in held.items())
    + ".",
)

# %% tags=["nbval-check-output"]
for name in fit:
    print(f"{name}: shown {mean(fit[name]):.2f}, held out {mean(held[name]):.2f}")
(truly, dealt_out), (truly_new, dealt_new) = (
    [mean(v[name]) for name in ("true labels", "shuffled")] for v in (fit, held)
)
cx.claims.finding(
    f"Sentences fit what they were shown almost as well when the labels are shuffled, {dealt_out:.2f} against {truly:.2f}; on new prompts they do not, {dealt_new:.2f} against {truly_new:.2f}.",
    holds=bool(truly - 0.1 < dealt_out and dealt_new < 0.55 < truly_new),
)

# %% [markdown]
r"""
The left panel of Figure 13.2 is the warning of this chapter. Its two means lie close together, so a sentence that fits what it was shown is no evidence of anything: labels without meaning can be explained almost as well. All of the evidence is in the right panel, in the distance between its two distributions. What a sentence loses from left to right was only memory. The same may happen to a person, or to a language model, who looks at a few prompts and finds a theme.

## Does the neuron matter?

The paper explains the heads that wake next-token neurons, and sets random neurons beside them {cite}`neo2024interpreting`. Of a next-token neuron one knows what it is for. So are its heads any easier to explain than those of a neuron drawn at random from the same layer? Cases of one neuron share their prompts and are not independent. So average over the cases of each neuron first, and let the neuron be the unit of the interval.
"""

# %% tags=["hide-input"]
COLUMNS = [*("layer", "neuron", "of", "head", "score", "low", "high", "tpr", "tnr")]
frame = pd.DataFrame(
    [(*c, s.score, s.low, s.high, s.tpr, s.tnr) for c, s in scores.items()], columns=COLUMNS
)
frame["shuffled"] = held["shuffled"]
frame["predicts a token"] = [case[:2] in said for case in scores]
order = frame["score"].to_numpy().argsort()[::-1]
figure, ((axis,),) = cx.plots.panels(height=3.0)
band = np.quantile(held["shuffled"], [0.025, 0.975]) if len(frame) else (0.5, 0.5)
axis.axhspan(*band, color=cx.plots.COLOURS[7], alpha=0.25, lw=0)
axis.axhline(0.5, color=cx.plots.INK, lw=1, ls=":")
for kind, colour, marker, name in ((True, 0, "o", "next-token"), (False, 1, "s", "random")):
    at = np.flatnonzero(frame["predicts a token"].to_numpy(bool)[order] == kind)
    rows = frame.iloc[order[at]]
    axis.vlines(at, rows["low"], rows["high"], color=cx.plots.COLOURS[colour], lw=1)
    axis.plot(at, rows["score"], ls="", marker=marker, ms=4, color=cx.plots.COLOURS[colour])
    axis.plot([], [], marker=marker, color=cx.plots.COLOURS[colour], label=f"{name} neurons")
axis.set(xlabel="cases, sorted", ylabel="score on held-out prompts", ylim=(0, 1.03))
axis.legend(loc="lower left")
cx.plots.picture(
    figure,
    "13.3",
    f"All {len(frame)} cases with their 95% intervals, best first. Band: the middle 95% of the "
    "scores under shuffled labels.",
    f"A sorted dot plot with intervals. The best score is {frame['score'].max():.2f}, the median "
    f"{frame['score'].median():.2f}, the worst {frame['score'].min():.2f}; shuffled labels give "
    f"{band[0]:.2f} to {band[1]:.2f}.",
)


# %% tags=["nbval-check-output"]
def span(values):
    """A mean and its 95% interval, which needs two values."""
    v = np.asarray(values, dtype=float)
    return cx.decoders.interval(v) if v.size > 1 else (mean(v), float("nan"), float("nan"))


def gap(a, b):
    """The difference of two means and its 95% interval (Student's, one spread for both)."""
    if min(len(a), len(b)) < 1 or len(a) + len(b) < 3:
        return (float("nan"),) * 3
    bounds = stats.ttest_ind(a, b).confidence_interval()
    return mean(a) - mean(b), float(bounds.low), float(bounds.high)


def in_words(triple, sign=""):
    """Mean [its interval]."""
    middle, low, high = (round(v, 2) + 0.0 for v in triple)  # no minus before a zero
    if np.isnan(middle):
        return "none"
    return f"{middle:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def chance(s):
    """How likely so many hits are for a sentence that knows nothing (Fisher's exact test)."""
    hits, alarms = round(s.tpr * s.active), s.inactive - round(s.tnr * s.inactive)
    table = [[hits, s.active - hits], [alarms, s.inactive - alarms]]
    return stats.fisher_exact(table, alternative="greater").pvalue


def stand(scores):
    """How many cases stand when as many tests as there are cases are allowed for."""
    p = [chance(s) for s in scores.values()]
    return int((stats.false_discovery_control(p, method="by") < 0.05).sum()) if p else 0


by_neuron = frame.groupby(["predicts a token", "layer", "neuron"])[["score", "shuffled"]].mean()
groups = {
    name: by_neuron[by_neuron.index.get_level_values(0) == kind]
    for name, kind in (("next-token neurons", True), ("random neurons", False))
}
between = gap(*(g["score"] for g in groups.values()))
print("next-token less random:", in_words(between, "+"))
over_chance = span(by_neuron["score"] - by_neuron["shuffled"])
print("score less that of shuffled labels:", in_words(over_chance, "+"))
print(f"intervals above 0.5: {(frame['low'] > 0.5).sum()} of {len(frame)};", end=" ")
print(f"with shuffled labels: {sum(s.low > 0.5 for s in shuffled_scores.values())}")
print(f"and after correction for {len(frame)} tests: {stand(scores)};", end=" ")
print(f"with shuffled labels: {stand(shuffled_scores)}")
pd.DataFrame(
    {
        "neurons": {k: len(g) for k, g in groups.items()},
        "score": {k: in_words(span(g["score"])) for k, g in groups.items()},
        "with shuffled labels": {k: in_words(span(g["shuffled"])) for k, g in groups.items()},
    }
)

# %% [markdown]
r"""
Figure 13.3 has a dot for each case. Under shuffled labels most scores lie in the grey band; the dots above it are heads that a sentence predicts, or luck. The table says which, on average. Heads can be predicted from such sentences, a little: 0.5 is nothing and 1 is all. Those of next-token neurons can be predicted better than those of random ones, by a difference, printed first, with an interval that barely leaves out zero.

The counts keep the figure honest. Of many cases, each with its own interval, some look good by luck: by its construction one in forty or so, and the shuffled labels show how many here. The last line therefore tests each case (Fisher's exact test) and allows for their number by Benjamini and Yekutieli's correction. It keeps the expected share of false finds below one in twenty, however the cases depend on each other. With so few held-out prompts it will also drop cases that are real.

## One neuron, several heads

In the paper a neuron's token has several uses, and different heads answer to different ones {cite}`neo2024interpreting`. The sentences can be asked about that. Take two heads of one neuron, and use the sentence of one to predict the *other*. If both heads do the same thing, it makes no difference whose sentence one takes.
"""

# %% tags=["nbval-check-output"]
crossed = []
for ours, theirs in permutations(scores, 2):
    if ours[:2] == theirs[:2]:  # two heads of one neuron
        split = splits[theirs]
        test = split.held_active, split.held_inactive
        foreign = by_hand(rules, scores[ours].explanation, *test)[2]
        alike = np.corrcoef(labels[ours][2], labels[theirs][2])[0, 1]
        crossed.append((*ours[:2], scores[theirs].score, foreign, alike))
crossed = pd.DataFrame(crossed, columns=["layer", "neuron", "own", "other", "r"])
pairs = crossed.groupby(["layer", "neuron"]).mean()
own_gain = span(pairs["own"] - pairs["other"])
print(f"{len(pairs)} neurons with two explained heads or more")
print("score by the head's own sentence:", in_words(span(pairs["own"])))
print("by a sentence about another head of the neuron:", in_words(span(pairs["other"])))
print("own less other:", in_words(own_gain, "+"))
print("correlation of their terms:", in_words(span(pairs["r"]), "+"))

# %% [markdown]
r"""
The other head's sentence does no better than a coin: what the sentences say is about a head and not about the neuron's prompts as such. The two heads' terms are hardly correlated over the prompts, which says the same without sentences. (A prompt from which one head was explained may be among those on which the other is tested. If that helps the foreign sentence, it works against the claim.) What the heads tell apart need not be *uses of the token*: the next section looks at that.

## An explainer of your own

Look at the best sentences once more, one for each head, sorted by the lower end of the interval:
"""

# %% tags=["hide-input"]
top = frame.sort_values("low", ascending=False).drop_duplicates(["of", "head"]).index[:8]
cases = list(scores)
pd.DataFrame(
    {
        "case": [spoken(cases[k]) for k in top],
        "score": [
            in_words((scores[cases[k]].score, scores[cases[k]].low, scores[cases[k]].high))
            for k in top
        ],
        "sentence": [scores[cases[k]].explanation for k in top],
    }
)

# %% [markdown]
r"""
Some name what they mean: a token at the end, or one before it. On the book's model others seem to go around something that they have no word for. A rule that forbids an English article may mean: *the text is in another language*. So give an explainer these words, and nothing else. It sorts every prompt into one of six kinds by some function words of each language, the quotation marks and the signs of code. Its sentence lists the kinds that are more
frequent among the active prompts. It fits in one cell, and so would yours.
"""

# %%
WORDS = {
    "English": "the of and to in is that was a he",
    "German": "der die und das den von mit ist nicht ein zu",
    "French": "le les et des une dans est que pas la de",
    "Spanish": "el los y las una en es que por con la de",
}


@cache
def kind_of(prompt):
    """Speech (an open quotation mark), code, or the language with the most function words."""
    if prompt.count('"') % 2:
        return "speech"
    if "\n    " in prompt or prompt.count("=") > 1:
        return "code"
    seen = Counter(re.findall(r"\w+", prompt.lower()))
    return max(WORDS, key=lambda name: sum(seen[w] for w in WORDS[name].split()))


class Kinds:
    """Knows six kinds of text, and nothing else."""

    opening = "The head is active in texts of these kinds: "

    def explain(self, active, inactive):
        on, off = (Counter(map(kind_of, prompts)) for prompts in (active, inactive))
        frequent = [k for k in on if on[k] / len(active) > off[k] / len(inactive)]
        return self.opening + ", ".join(sorted(frequent)) + "."

    def classify(self, explanation, prompts):
        listed = explanation.removeprefix(self.opening).rstrip(".").split(", ")
        return [kind_of(prompt) in listed for prompt in prompts]


kinds = Kinds()
kind_scores = {case: cx.decoders.explain.score(kinds, split) for case, split in splits.items()}
frame["kinds"] = [s.score for s in kind_scores.values()]

# %% tags=["hide-input"]
by_head = frame.groupby(["of", "head"])[["score", "kinds"]].agg(["mean", "count"])
most = by_head.sort_values(("score", "count"), ascending=False, kind="stable").head(24)
most = most.sort_values(("kinds", "mean"), ascending=False)
figure, ((axis,),) = cx.plots.panels(height=1 + 0.23 * max(len(most), 1), width=6.8)
rows = range(len(most))
axis.hlines(rows, most["score", "mean"], most["kinds", "mean"], color=cx.plots.COLOURS[7], lw=1)
for k, (column, name) in enumerate((("score", "rules"), ("kinds", "six kinds"))):
    axis.plot(
        most[column, "mean"], rows, "oD"[k], ms=8 - 3 * k, color=cx.plots.COLOURS[k], label=name
    )
axis.set_yticks(rows, [f"{of}.{head} ({c})" for (of, head), c in most["score", "count"].items()])
axis.axvline(0.5, color=cx.plots.INK, lw=1, ls=":")
axis.invert_yaxis()
axis.set(xlabel="score, mean over the head's cases", ylabel="layer.head (cases)")
axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
far = by_head["kinds", "mean"].sort_values(ascending=False)
cx.plots.picture(
    figure,
    "13.4",
    "The two explainers, head by head, with the number of cases behind each mean; sorted by the six "
    "kinds.",
    "A dot plot with two marks in a row. Best heads by the six kinds: "
    + ", ".join(
        f"{k}.{h} {v:.2f} (rules {by_head.loc[(k, h)]['score', 'mean']:.2f})"
        for (k, h), v in far.head(4).items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
by_neuron = frame.groupby(["predicts a token", "layer", "neuron"])[["score", "kinds"]].mean()
print("rules:", in_words(span(by_neuron["score"])))
print("six kinds:", in_words(span(by_neuron["kinds"])))
six_less_rules = span(by_neuron["kinds"] - by_neuron["score"])
print("six kinds less rules:", in_words(six_less_rules, "+"))
later = {}
for where, mine in (("the first layer", frame["of"] == 0), ("later layers", frame["of"] > 0)):
    later[where] = frame[mine].groupby(["layer", "neuron"])[["score", "kinds"]].mean()
    n = len(frame[mine].groupby(["of", "head"]))
    print(f"{n} heads of {where}, {mine.sum()} cases of {len(later[where])} neurons:", end=" ")
    print(f"rules {in_words(span(later[where]['score']))},", end=" ")
    print(f"six kinds {in_words(span(later[where]['kinds']))},", end=" ")
    print(f"difference {in_words(span(later[where]['kinds'] - later[where]['score']), '+')}")

# %% [markdown]
r"""
Six words chosen well are worth nearly as much as all tokens of the vocabulary, searched by a machine. At the top of Figure 13.4 the diamond lies to the right of the dot for two heads: there a kind of text says more about the head than a rule about tokens. Whether heads of later layers do better than those of the first is not settled: the cases of the first layer come from two neurons, and an interval over two neurons says nothing.

One caution. The six kinds were chosen after looking at the rules of these very cases, on the book's model. The prompts were held out from each explanation but not from its author. On another model, or with another collection, the comparison is clean; and the next test repeats it here, on other prompts and mostly other neurons.

## Which heads resist?

The cases so far were chosen by neurons, and the same few heads wake most of them. To ask which *kinds* of heads can be put into words, every head needs the same chance. So now begin with the heads. For each, take the few neurons that it moves most on ordinary prompts (`EACH`, or `MORE` for the heads of the first four kinds below, which are rare): those for which the spread of its term is the largest share of the spread of the neuron's pre-activation. The prompts are the ordinary ones, the same for all heads, and a head counts as active on the tenth of them on which its term is largest. So every head is off nine times out of ten, and the scores can be compared.

What kind a head is, it shows on **random tokens, repeated**: a text without sense, and then the same again. There a large share of attention on one place has only one possible reason. The place may be the token itself (*own*), the one before (*previous*), the same token in the first half (*duplicate*), or the token that came behind it there (*induction*). A head that puts 0.3 or more on one of these, on average over the second half, is named after the largest. Any other is *near* or *far*, by whether half of its attention stays within the last eight tokens, its own included.
"""

# %%
half = max(2, min(48, (reader.n_ctx - 1) // 2))
ids = np.random.default_rng(0).integers(model.cfg.d_vocab, size=(8, half))
bos = texts[0].tokens[:1].expand(8, 1)
repeated = torch.cat([bos, torch.from_numpy(ids), torch.from_numpy(ids)], dim=1)
names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(n_layers)]
_, patterns = model.run_with_cache(repeated, names_filter=names)
dest = torch.arange(half + 1, 2 * half + 1)  # the second half

BACK = {"own": 0, "previous": 1, "duplicate": half, "induction": half - 1}
attends = {}  # what each head attends to, on average
for layer in range(n_layers):
    pattern = patterns[names[layer]].cpu()[:, :, dest]  # text head dest source
    rows = torch.arange(half)
    to = {k: pattern[:, :, rows, dest - back].mean((0, 2)) for k, back in BACK.items()}
    to["near"] = sum(pattern[:, :, rows, dest - b] for b in range(min(8, half))).mean((0, 2))
    for head in range(n_heads):
        attends[layer, head] = {k: float(v[head]) for k, v in to.items()}


def named(shares):
    """The kind of a head."""
    largest = max(BACK, key=shares.get)
    return largest if shares[largest] >= 0.3 else "near" if shares["near"] >= 0.5 else "far"


is_a = {head: named(shares) for head, shares in attends.items()}

# %%
many = {head: EACH if is_a[head] in ("near", "far") else MORE for head in is_a}
moved = {head: [] for head in is_a}  # (share of the spread, layer, neuron), the largest
for layer in range(n_layers):
    W_in, _ = cx.decoders.input_weights(model, layer)
    scale = cx.decoders.attribution(model, layer, 0, usual).scale.to(W_in.device)  # prompt
    spread = usual.pre_activation[:, layer].std(0)
    for of, head in is_a:
        if of in cx.decoders.feeding(model, layer):
            z = usual.z[:, of, head].to(W_in.device)
            term = z @ (model.blocks[of].attn.W_O[head].detach() @ W_in) / scale[:, None]
            size = torch.where(awake[layer], term.std(0).cpu() / spread, 0)
            best_ones = size.topk(min(many[of, head], len(size)))
            for v, j in zip(best_ones.values.tolist(), best_ones.indices.tolist(), strict=True):
                moved[of, head].append((v, layer, j))
moved = {head: sorted(v, reverse=True)[: many[head]] for head, v in moved.items()}

sources = [decoded(tokens) for tokens in ordinary]
tenth = len(ordinary) // 10


def top_tenth(head, layer, neuron):
    """The ordinary prompts, split by whether the head's term is among the largest tenth."""
    term = cx.decoders.attribution(model, layer, neuron, usual).of(*head)
    on = np.zeros(len(ordinary), dtype=bool)
    alike = (term / term.std()).round(decimals=3)  # terms of one token differ by rounding alone
    on[alike.argsort(descending=True, stable=True)[:tenth].numpy()] = True
    return cx.decoders.explain.split(sources, on)


enough = tenth >= 8  # active prompts, to be split
tests = {
    (head, layer, j): top_tenth(head, layer, j)
    for head, ones in moved.items()
    for _, layer, j in (ones if enough else [])
}
with_repeats = cx.decoders.explain.RuleExplainer(tokenizer, repeats=True)
rows = []
for (head, *_), split in tests.items():
    plain = cx.decoders.explain.score(rules, split)
    more = cx.decoders.explain.score(with_repeats, split)
    uses = cx.decoders.explain.REPEATED in more.explanation
    six = cx.decoders.explain.score(kinds, split)
    listed = six.explanation.removeprefix(kinds.opening)
    rows.append((head, is_a[head], plain.score, more.score, uses, six.score, listed))
COLUMNS = ["head", "kind", "rules", "repeats", "uses it", "six kinds", "listed"]
every = pd.DataFrame(rows, columns=COLUMNS)
every["gain"] = every["repeats"] - every["rules"]

# %% [markdown]
r"""
Three explainers are scored: the rules, the six kinds, and the rules with one fact more. They may then also say that the last token *came before* in the prompt (`repeats=True`). A head that looks for earlier places of the present token, as duplicate and induction heads do, has something to find on exactly those prompts, whatever the token is. A list of tokens cannot say that.
"""

# %% tags=["hide-input"]
KINDS = ("own", "previous", "duplicate", "induction", "near", "far")
figure, (axes,) = cx.plots.panels(1, 2, height=3.3, sharey=True)
SCORED = ["rules", "repeats", "gain", "six kinds"]
by = every.groupby(["kind", "head"])[SCORED].mean()  # the head is the unit from here on
shift = np.random.default_rng(1)
for row, kind in enumerate(KINDS):
    if kind not in by.index.get_level_values(0):
        continue
    some = by.loc[kind]
    at = row + shift.uniform(-0.22, 0.22, len(some))
    for axis, column in ((axes[0], "rules"), (axes[1], "gain")):
        axis.plot(some[column], at, "o", ms=4, alpha=0.5, color=cx.plots.COLOURS[row])
        axis.plot(some[column].mean(), row, "|", ms=22, mew=2.5, color=cx.plots.COLOURS[row])
axes[0].axvline(0.5, color=cx.plots.INK, lw=1, ls=":")
axes[1].axvline(0, color=cx.plots.INK, lw=1, ls=":")
axes[0].set(xlabel="score of the rules", title="Rules about tokens")
axes[1].set(xlabel="rise of the score", title="With the fact that the last token came before")
counted = Counter(is_a.values())
axes[0].set_yticks(range(len(KINDS)), [f"{k} ({counted[k]})" for k in KINDS])
axes[0].set_ylim(len(KINDS) - 0.4, -0.6)
kind_means = by.groupby("kind").mean()
cx.plots.picture(
    figure,
    "13.5",
    f"Every head, on {EACH} neurons ({MORE} in the first four rows): a dot is a head's mean, a bar the mean over the heads of "
    "a kind, with their number in brackets.",
    "Two dot plots by kind of head. Score of the rules: "
    + ", ".join(f"{k} {v:.2f}" for k, v in kind_means["rules"].items())
    + "; rise with one fact more: "
    + ", ".join(f"{k} {round(v, 2) + 0.0:+.2f}" for k, v in kind_means["gain"].items())
    + ".",
)


# %% tags=["nbval-check-output"]
def over_heads(values):
    """Mean over heads (the lowest and the highest)."""
    middle, low, high = (round(v, 2) + 0.0 for v in (values.mean(), values.min(), values.max()))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})" if len(values) > 1 else f"{middle:.2f}"


table = pd.DataFrame(
    {
        kind: {
            "heads": counted[kind],
            "rules": over_heads(by.loc[kind]["rules"]),
            "with one fact more": over_heads(by.loc[kind]["repeats"]),
            "rise": over_heads(by.loc[kind]["gain"]),
            "sentences that use it": f"{some['uses it'].sum()} of {len(some)}",
            "six kinds": over_heads(by.loc[kind]["six kinds"]),
        }
        for kind, some in ((k, every[every["kind"] == k]) for k in KINDS)
        if len(some)
    }
).T
is_induction = by.index.get_level_values("kind") == "induction"
resist, others = by[is_induction], by[~is_induction]
behind = gap(resist["rules"], others["rules"])
mended = gap(resist["gain"], others["gain"])
print("induction heads less all others, rules:", in_words(behind, "+"))
print("rise with one fact more, induction heads less all others:", in_words(mended, "+"))
table.rename_axis("kind") if len(table) else NOTHING

# %% [markdown]
r"""
The left panel of Figure 13.5 and the second column say how well each kind does under the same conditions, with the lowest and the highest head in brackets. The neurons of one head are not independent, so a head is one value, and the two printed intervals take the spread of heads to be the same in both groups: with one induction head or two there is no other way to have one.

In the paper the language model has trouble with induction heads {cite}`neo2024interpreting`. The first printed line holds the rules to the same statement. Its interval includes 0: with one induction head the statement is undecided. That head scores as a coin does, and other heads do little better. The second line, and the right panel, ask for the reason. The rise is clear for the induction head and next to nothing for most others, so part of what made it hard was a poor vocabulary: an explainer that looks for tokens will not see *the last token came before*. The score stays well below 1 even so. An induction head writes what came *behind* the earlier place, and which neurons that moves depends on the token. Whether there was an earlier place is half of the story.

Heads of the kind *own* and *previous* have simple rules, but one for each token: the neuron is fed on these tokens and not on those. The one *previous* head scores near 0.5: a few active prompts may be too few to list its tokens (Exercise 5).

The six kinds are in the last column, and its highest heads are worth a look:
"""

# %% tags=["hide-input"]
texts_listed = every.groupby(["kind", "head"])["listed"].agg(" · ".join)
best_heads = by.sort_values("six kinds", ascending=False).head(4)
pd.DataFrame(
    {
        "attends": best_heads.index.get_level_values("kind"),
        "six kinds": best_heads["six kinds"].map("{:.2f}".format).tolist(),
        "rules": best_heads["rules"].map("{:.2f}".format).tolist(),
        "active in": texts_listed[best_heads.index].tolist(),
    },
    index=pd.Index([f"{of}.{head}" for _, (of, head) in best_heads.index], name="head"),
)

# %% [markdown]
r"""
Each row is a head, and its last column the kinds listed for each of its neurons in turn. Four heads were taken from the top of many, so their scores flatter them. But compare the names with the top of Figure 13.4: a head that stands in both was found twice, on different prompts. Heads that react to the context are what this book began with, in the first layer and in the weights. Here such heads are met from the other end: from a neuron, over its prompts, to a sentence.

## A language model as the explainer

A program that counts tokens has no notion of a recipe or an apology. A language model may. `cx.chat.ChatExplainer` follows the same protocol behind any endpoint that speaks OpenAI's chat completions, a server of your own included; all answers are kept in the folder `CACHE`. What it will cost is estimated before anything is sent. Set `CHAT` in the parameters cell, and the next cells score it on the same splits as the rules. As long as it is `None`, they show what would be asked for the case of Figure 13.1: instructions, and the prompts that may be shown, here with long ones cut.
"""

# %% tags=["hide-input", "nbval-check-output"]
asking = cx.chat.ChatExplainer(
    CHAT or "a-model", cache=CACHE, base_url=None if CHAT else cx.chat.OPENAI
)
if not CHAT:
    print('CHAT is None, so nothing is sent: set CHAT = "the model\'s name" to ask one.')
print(asking.estimate(splits.values(), PRICE) if splits else NOTHING)
if best:
    request = asking.to_explain(splits[best].shown_active, splits[best].shown_inactive)
    system, user = (message["content"] for message in request.identity["messages"])
    lines = [v if len(v) < 96 else f"  {ending(v, 90)}" for v in user.splitlines()]
    print(f"\n[system]\n{system}\n\n[user]")
    print("\n".join([*lines[:7], "  …", *lines[-7:]] if len(lines) > 16 else lines))

# %% tags=["hide-input", "nbval-check-output"]
if CHAT and splits:
    chat_table = cx.decoders.explain.score_all(asking, splits)
    frame["chat"] = chat_table["score"].to_numpy()
    chat_mean = frame.groupby(["layer", "neuron"])[["score", "chat"]].mean()
    chat_less_rules = span(chat_mean["chat"] - chat_mean["score"])
    print("rules:", in_words(span(chat_mean["score"])))
    print(f"{CHAT}:", in_words(span(chat_mean["chat"])))
    print(f"{CHAT} less rules:", in_words(chat_less_rules, "+"))
    asked_table = pd.DataFrame(
        {
            "case": [spoken(case) for case in splits],
            "score": chat_table["score"].round(2).to_numpy(),
            "rules": frame["score"].round(2).to_numpy(),
            "explanation": chat_table["explanation"].to_numpy(),
        }
    ).sort_values("score", ascending=False)
else:
    chat_less_rules = (float("nan"),) * 3
    asked_table = None
asked_table

# %% [markdown]
r"""
Prompts and splits are the same for both explainers, so read the score of the model beside that of the rules. The warnings are the same too. A language model that writes a convincing sentence has done what the left panel of Figure 13.2 shows can be done with noise. And if one model writes and reads, a vague sentence may be understood better than it was written. Score it with shuffled labels, too, before believing it (`dealt` holds the splits).

## What breaks it

- **Accident.** *Without the token …* may be no more than a token that the inactive prompts happened to hold. Few prompts make many such accidents, and the tree takes the best of thousands of facts. Only the held-out half knows.
- **Prompts that are alike.** The top prompts of a neuron resemble each other, and so do the two halves of them. A high score says that the sentence predicts the head among prompts *of this neuron*, which may be a narrow world: inside German texts, the word *German* explains nothing.
- **The threshold.** Half of the largest term depends on one prompt, the top tenth on how many there are. A head that answers by degrees is cut where it has no joint. A head with one outstanding prompt has too few active ones and drops out.
- **Learning.** The term of an untrained head is a function of the tokens too, and a rule about tokens may predict it. Try a folder with random weights as `MODEL`: a score above 0.5 says that a head can be described, not that it has learned something.
- **A cause.** A sentence that predicts when a head is active does not say that the head reacts to what the sentence names. The tokens that the head attends to may go along with it. Nor does an active head mean an effect: whether the neuron, or the next token, would miss the head is for the ablations of [chapter 12](12_lookups).

## Turn it

Choose a case and an explainer, and see the sentence, its score and some of the prompts that it was held to. The controls are live in Jupyter and Colab (the rocket above); on this page you see their first setting.
"""


# %% tags=["hide-input"]
EXPLAINERS = {"rules": rules, "rules with repeats": with_repeats, "six kinds": kinds}
listed = {spoken(case): case for case in sorted(scores, key=lambda case: -scores[case].low)}


def draw(case, explainer, labels_are):
    if not listed:
        figure, ((axis,),) = cx.plots.panels(height=1)
        axis.set_axis_off()
        return cx.plots.picture(figure, "13.6", NOTHING, NOTHING)
    split = (splits if labels_are == "true" else dealt)[listed[case]]
    s = cx.decoders.explain.score(EXPLAINERS[explainer], split)
    rows = [
        (prompt, truth, verdict)
        for prompts, truth in ((split.held_active[:7], True), (split.held_inactive[:7], False))
        for prompt, verdict in zip(
            prompts, EXPLAINERS[explainer].classify(s.explanation, prompts), strict=True
        )
    ]
    figure, ((axis,),) = cx.plots.panels(height=0.8 + 0.25 * len(rows))
    for row, (prompt, truth, verdict) in enumerate(rows):
        marks = "active" if truth else "inactive"
        colour = cx.plots.COLOURS[2 if truth == verdict else 1]
        axis.text(0, row, marks, color=cx.plots.INK, va="center")
        axis.text(0.11, row, "right" if truth == verdict else "wrong", color=colour, va="center")
        axis.text(
            0.2, row, ending(prompt, 84), family="monospace", fontsize=8.5, va="center",
            parse_math=False,
        )  # fmt: skip
    axis.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6))
    axis.set_axis_off()
    return cx.plots.picture(
        figure,
        "13.6",
        f"{html.escape(case)}, {labels_are} labels; {explainer}: "
        f"<i>{html.escape(s.explanation)}</i> Score {s.score:.2f} [{s.low:.2f}, {s.high:.2f}], "
        f"TPR {s.tpr:.2f} of {s.active}, TNR {s.tnr:.2f} of {s.inactive} held-out prompts; the "
        "first few of each are shown.",
        f"{s.explanation} Score {s.score:.2f}. A list of {len(rows)} held-out prompts, of which "
        f"{sum(t == v for _, t, v in rows)} are told right.",
    )


cx.widgets.Turnable(
    draw,
    case=cx.widgets.choice("case", list(listed) or ["none"], next(iter(listed), "none")),
    explainer=cx.widgets.choice("explainer", list(EXPLAINERS), "rules"),
    labels_are=cx.widgets.choice("labels", ["true", "shuffled"], "true"),
)

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. The paper's statements are held here in words, and the conditions are this book's reading of them; they concern other models, and an explainer that is a language model. So *does not hold* means: not here, and not for these rules. Brackets hold 95% intervals; a line whose interval contains its condition is undecided.
"""

# %% tags=["hide-input", "nbval-check-output"]
of_next = span(groups["next-token neurons"]["score"])
cx.claims.ledger(
    model,
    cx.claims.Claim(
        "explanations_predict", "score of explanations, next-token neurons", of_next[0], of_next[1:]
    ),
    cx.claims.Claim("induction_is_hard", "induction heads less other heads", behind[0], behind[1:]),
)

# %% tags=["hide-input", "nbval-check-output"]
stands, tried = stand(scores), max(len(scores), 1)
display(
    cx.claims.finding(
        f"Explanations score above those of shuffled labels: {in_words(over_chance, '+')}.",
        holds=bool(over_chance[1] > 0),
    ),
    cx.claims.finding(
        f"Heads of next-token neurons are explained better than those of random ones, though not by much: {in_words(between, '+')}.",
        holds=bool(between[1] > 0 and between[0] < 0.2),
    ),
    cx.claims.finding(
        f"Few explanations stand when all tests are allowed for: {stands} of {len(scores)}.",
        holds=0 < stands / tried < 0.1,
    ),
    cx.claims.finding(
        f"A head's own sentence predicts it better than that of another head of the neuron: {in_words(own_gain, '+')}.",
        holds=bool(own_gain[1] > 0),
    ),
    cx.claims.finding(
        f"One fact more helps with induction heads more than with others, so part of what made them hard was a poor vocabulary: {in_words(mended, '+')}.",
        holds=bool(mended[1] > 0),
    ),
    cx.claims.finding(
        f"Six kinds of text explain nearly as well as the rules: {in_words(six_less_rules, '+')}.",
        holds=bool(six_less_rules[1] > -0.15 and six_less_rules[2] < 0.15),
    ),
)

# %% [markdown]
r"""
## Exercises

1. Write the sentence yourself. Print ten active and ten inactive prompts of one case, `splits[case].shown_active` and `shown_inactive`, decide what tells them apart, and let a class with the two methods of the protocol score you. Then do it for the same case in `dealt`. Did the second feel different while you did it?
2. A classifier calls a share $a$ of all prompts active, without regard to what they are. Show that its expected score is $\tfrac12$ for every $a$. What would its expected *accuracy* be on prompts of which a tenth are active, and which $a$ is best?
3. A tree may use any of $m$ facts, each true of half of the prompts at random, and is shown $r$ active and $r$ inactive ones. About how well does the best single fact fit labels without meaning? Put in numbers of the size that occurs here.
4. A head is active in German texts only, though not at every token of them, and a neuron's top prompts are all German. What is the score of the sentence *the head is active in German texts*? Which prompts should one have added, and what does the paper's procedure measure as it stands?
5. Is it the explainer's diet? Show the rules an eighth, a quarter and a half of what they are shown in `tests`, with the same prompts held out, and compare the mean over the heads of each kind.

````{admonition} Solutions
:class: dropdown

1. A class with the two methods of the protocol:

   ```python
   import re


   class Mine:
       def explain(self, active, inactive):
           return "prompts with a German article"

       def classify(self, sentence, prompts):
           return [bool(re.search(r"\b(der|die|das)\b", p)) for p in prompts]


   cx.decoders.explain.score(Mine(), splits[case])
   ```

   Your program must do what your sentence says, no more. With shuffled labels one tends to find a theme as well, and to be about as sure of it.
2. It hits a share $a$ of the active prompts and rejects $1 - a$ of the inactive ones, so the expectation is $(a + 1 - a)/2$. The accuracy is $0.1\,a + 0.9\,(1 - a)$, largest for $a = 0$: never to say *active* is right nine times in ten, which is why accuracy is not the score.
3. For one fact, the difference of two shares of $r$ prompts has mean 0 and standard deviation $\sqrt{2 \cdot \tfrac14 / r}$; half of it is what the score gains, $\sigma = 1/\sqrt{8 r}$. The largest of $m$ independent ones, of either sign, stays somewhat below $\sigma \sqrt{2 \ln 2m}$. With $r = 16$ and $m = 200$ the bound is about $0.088 \cdot 3.5 \approx 0.31$: a fit above three quarters from nothing, with a single fact. Facts that are rare, as most are, have less spread; a tree with several leaves makes up for it.
4. All held-out prompts are German, so the sentence calls every one active: TPR 1, TNR 0, score 0.5, though nothing in it is false. (A head that is active at every token of a German text would not even give a split.) One should have added prompts on which the neuron is silent, such as the ordinary ones. As it stands the score measures how well a sentence tells apart the prompts on which the neuron is woken by this head from those on which it is woken by something else.
5. Show less of each split `s` of `tests.values()`, and hold out the same prompts:

   ```python
   def less(s, share):
       few = [v[: max(3, round(share * len(v)))] for v in (s.shown_active, s.shown_inactive)]
       return cx.decoders.explain.Split(*few, s.held_active, s.held_inactive)
   ```

   Score them, average over the neurons of a head and then over the heads of a kind. A score that still rises at the end depends on the number of prompts as much as on the head. One that stays flat near 0.5 says that the facts are the wrong ones.
````

## Where this comes from

The procedure, active against inactive prompts, a written explanation, classification from the explanation alone, its score, the random neurons beside it, and the remarks on induction heads and on heads that respond to different uses of one token are those of {cite:t}`neo2024interpreting`. The rules in the place of a language model, the shuffled labels, the sentences crossed between heads, the six kinds, and the test that gives every head the same prompts are worked out here. Random tokens, repeated, are the usual way to recognise induction heads.
"""
