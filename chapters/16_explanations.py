# %% [markdown]
r"""
# Can a simple rule predict a head?

**A rule about a head can score well without saying anything about the head, so three controls belong beside its score: shuffled labels, a planted rule, and a rule that sees nothing but the length of the prompts.** In our small model `{{model}}`, rules that a program wrote seem to predict the heads of the first layer, with a score of {{easy}} on new texts, but the length alone scores {{by_length}} there. {{?trap}} {{?is_length}} For pairs of a head and a later neuron, chosen or random, they score {{score}}: on whole prompts perhaps no more than the length, and with whole domains held out not demonstrably more than with shuffled labels. {{?better}} {{?domains_fail}} {{?not_apart}} {{?no_more}} {{?ends_pass}} {{?alike_finds}}

People have long explained parts of a model by finding a theme in the texts that excite them. A language model can do the same, and its explanation can be scored {cite}`bills2023language,neo2024interpreting`. Which score would you expect if there were nothing to explain, on the very prompts that the sentence was written from? It is {{shown_shuffled}}, with shuffled labels. {{?fits_anything}}
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 440  # how many held-out texts are read
READ = 64  # tokens of each
PREDICTS = 0.1  # what a next-token neuron's token is given, on average, where the neuron peaks

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, and what is kept of classifiers and other models"}
import json
from dataclasses import astuple

import numpy as np
import pandas as pd
import torch
from scipy import stats

import ctxbook as cb
import ctxlib as cx


class TooFewPrompts(ValueError):
    """No head of this model is active on enough prompts: an edition keeps the rest as text."""


pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
torch.set_grad_enabled(False)
model = cx.load(MODEL)
n_layers = model.cfg.n_layers
others = json.loads(cb.evidence("semantic.json").read_text())
semantic, odds = others["embeddings"], others["odds"]["result"]
meaning = pd.DataFrame(semantic["rows"])  # of mini's cases

# %% tags=["hide-input"]
rows = {
    "rules": meaning["rules"],
    "rules, shuffled labels": meaning["rules, shuffled"],
    "embeddings": [v["score"] for v in meaning["true"]],
    "embeddings, shuffled": [v["score"] for v in meaning["shuffled"]],
}
figure, ((axis,),) = cb.figures.panels(height=2.6, width=7.5)
for k, scored in enumerate(rows.values()):
    wobble = np.random.default_rng(0).uniform(-0.22, 0.22, len(scored))
    axis.plot(scored, k + wobble, "o", ms=4, alpha=0.55, color=cb.figures.COLORS[k % 2])
    axis.plot(np.mean(scored), k, "|", ms=22, mew=2.5, color=cb.figures.INK)
planted = [of["score"] for of in semantic["result"]["planted"].values()]
axis.plot(planted, [1.5] * len(planted), "D", ms=5, color=cb.figures.COLORS[2])
axis.annotate("planted subjects, by embeddings", (0.985, 1.5), ha="right", va="center")
axis.axvline(0.5, color=cb.figures.INK, lw=0.8, ls="--")
axis.set_yticks(range(len(rows)), rows)
axis.set(xlabel="score on documents held out", xlim=(0.1, 1.03))
axis.invert_yaxis()
cb.figures.picture(
    figure,
    "16.1",
    f"Each dot is one of {len(meaning)} pairs of a neuron and a head of mini. Bars: the means. Dashed: a coin. Embeddings: a classifier of meanings. Diamond: its positive control, three cases in which texts on cooking, texts of law or French texts are called active.",
    "Four rows of dots. Means: " + ", ".join(f"{name} {np.mean(v):.2f}" for name, v in rows.items()) + f". The planted subject that is hardest scores {min(planted):.2f}.",
)  # fmt: skip

# %% [markdown]
r"""
## One head, active or not

[Chapter 15](15_lookups) looked for the heads that drive neurons. Here we take a neuron if it raises some token more than any other neuron does, and if that token has a mean probability of a tenth or more where the neuron is most active. Beside these we take as many random neurons of the same layers. A neuron's **prompt** is a text cut off where the neuron is most active. On prompt $p$ a head adds its term $t_p$ to the neuron's input ({eq}`eq-look-terms`). What counts is how far it is above its mean on *ordinary* prompts, texts cut off anywhere:

$$
\begin{aligned}
c_p &= t_p - \operatorname*{mean}_{\text{ordinary}} t , \\
\text{active}_p &\Longleftrightarrow c_p \ge \tfrac12 \max_{p' \text{ of } A} c_{p'} .
\end{aligned}
$$ (eq-exp-active)

We take the fifth of the texts on which the neuron is most active, and keep a pair as a **case** if the head is active on enough of these prompts and inactive on enough. An explainer is shown those of half A; those of half B are held out.
"""

# %%
read = cb.cases.Read.of(model, TEXTS, READ)
said, at_random, own_token = cb.cases.predicting(read, PREDICTS)
cases = cb.cases.cases_of(read, said | dict.fromkeys(at_random, ""))  # five heads of each neuron

# %% [markdown]
r"""
Of {{own_token}} neurons with a token of their own, {{said}} give it a tenth or more. Of these and as many random ones, {{neurons}} give {{cases}} cases, because several heads can be active on one neuron.

## A sentence, and its test

An **explainer** does two things. `explain(active, inactive)` writes a sentence from the prompts that it is shown. `classify(sentence, prompts)` says of new prompts, from the sentence alone, whether the head is active. In the publication, GPT-4 does both {cite}`neo2024interpreting`. Here a program does, so that we know what a sentence means: it grows a small decision tree on plain facts about a prompt (its last tokens, the tokens in it and near its end, its length), writes the tree as a sentence, and reads it back. These sentences are what we call rules. Let TPR be the share of the active prompts held out that it calls active, and TNR the share of the inactive ones that it calls inactive. Then

$$
\text{score} = \frac{\text{TPR} + \text{TNR}}{2} .
$$ (eq-exp-score)

Both kinds count alike, however rare one is. Always saying *active* scores a half, and so does a coin.
"""

# %%
rules = cx.lookups.explain.RuleExplainer(model.tokenizer)
shuffled = cx.lookups.explain.shuffled  # the labels at random, as many of each kind


def score_of(sentence, active, inactive, explainer=rules):
    tpr = np.mean(explainer.classify(sentence, active))
    tnr = 1 - np.mean(explainer.classify(sentence, inactive))
    return (tpr + tnr) / 2


def tested(p, explainer=rules):
    """The sentence for some prompts, and its score on those shown and on those held out."""
    sentence = explainer.explain(p.shown_active, p.shown_inactive)
    parts = (p.shown_active, p.shown_inactive), (p.held_active, p.held_inactive)
    return sentence, *(score_of(sentence, *part, explainer) for part in parts)


SCORES = ["shown", "held out"]
columns = ["sentence", *SCORES]
true = pd.DataFrame([tested(case.prompts) for case in cases], columns=columns)
mixed = [tested(shuffled(case.prompts, seed)) for seed, case in enumerate(cases)]
mixed = pd.DataFrame(mixed, columns=columns)

# %% [markdown]
r"""
Here is the case whose sentence fares best, and some prompts that it has not seen.
"""

# %% tags=["hide-input", "nbval-check-output"]
if not cases:
    raise TooFewPrompts(f"No head of {MODEL} makes a case, of those that we tried")
best = int(true["held out"].argmax())
example, sentence = cases[best], true["sentence"][best]
held = {"active": example.prompts.held_active[:5], "inactive": example.prompts.held_inactive[:5]}
prompts = [(kind, f"…{p[-60:]}".replace("\n", "↵"), rules.classify(sentence, [p])[0]) for kind, of in held.items() for p in of]  # fmt: skip
print(f"{example}\n{sentence}\nscore on all held-out prompts: {true['held out'][best]:.2f}")
pd.DataFrame(prompts, columns=["the head is", "prompt, as it ends", "called active"])

# %% [markdown]
r"""
It was picked as the best of {{cases}}, and its neuron is a random one. {{?random_example}} Its rule may know a kind of book rather than what the head reads. With whole domains held out, the {{cases}} rules score {{abroad}} in place of {{score}}, not demonstrably more than with shuffled labels (by {{over_abroad}}, p = {{p_abroad}}), which we had required. {{?domains_fail}} (Layers and heads count from zero.)

## A trap: the length of the prompt

Few of our cases are from the first layer, so here we test every head. For each head we take the two neurons in whose input its term varies most, compared with the whole input (by standard deviations over prompts), and call the head active on the fifth of ordinary prompts where the term is largest. In a first version texts are cut off anywhere, in a second all at one length. Beside the first stands a rule that sees nothing but the length, with every token of a prompt replaced by *the*.
"""


# %%
def remade(p, change):
    """The prompts with their tokens changed, without those of which nothing is left."""
    tokenizer = read.model.tokenizer
    ids = ((tokenizer.encode(s, add_special_tokens=False) for s in part) for part in astuple(p))
    kept = ([change(x) for x in part] for part in ids)
    return cx.lookups.explain.Prompts(*(tuple(tokenizer.decode(x) for x in part if x) for part in kept))  # fmt: skip


the = model.tokenizer.encode(" the", add_special_tokens=False)
CHANGES = {"of 16 tokens": lambda x: x[-16:] if len(x) >= 16 else [], "length alone": lambda x: the * len(x)}  # fmt: skip
anywhere = list(cb.cases.every_head(read, read.ordinary, read.anywhere))
one_length = list(cb.cases.every_head(read, read.same_length, read.alike))


def by_head(tests, change=lambda p: p):
    """The rule for every test, and its score for true and for shuffled labels."""
    found = [(t.layer, t.head, *tested(p), tested(shuffled(p, k))[2]) for k, t in enumerate(tests) for p in [change(t.prompts)]]  # fmt: skip
    return pd.DataFrame(found, columns=["layer", "head", "sentence", "shown", "score", "shuffled"])


trap = {
    "rules, any length": by_head(anywhere),
    "length alone": by_head(anywhere, lambda p: remade(p, CHANGES["length alone"])),
    "rules, one length": by_head(one_length),
}

# %% tags=["hide-input", "nbval-check-output"]
by_layer = pd.DataFrame({k: some.groupby("layer")["score"].mean() for k, some in trap.items()})
by_layer.rename_axis("score on half B, layer").round(2)

# %% [markdown]
r"""
Heads of the first layer (layer {{= 0 =}}) look easy to explain, with a score of {{easy}}, until all prompts have one length. Then they score {{hard}}. {{?trap}} Is the length what makes them look easy? It is, we fixed in advance, if it alone gets three quarters as far above a half as the rules do; and the rules say more if they are ahead of it (p below {{= 0.05 =}}, each head counted once). Above one half, the length alone gets {{length_part}} of what the rules get, and these are ahead by {{over_length}} ({{= 95% =}} interval {{over_length_ends}}, p = {{p_over_length}}). {{?is_length}} {{?no_more}} At one length the first layer's rules still beat shuffled labels, so something else is there. {{?alike_finds}} Held-out texts do not reveal this trap: their lengths vary alike.

Do our {{cases}} cases fall into the trap, too? Neurons peak early and late, so their prompts differ in length. We made two tests, with conditions fixed before each (p below {{= 0.05 =}} by sign flips, each neuron counted once). In the first, every prompt is cut to its last {{= 16 =}} tokens, and shorter ones are left out; do rules still beat shuffled labels? In the second, do they score more than the length alone?
"""


# %%
alike = {}
for name, change in CHANGES.items():
    parts = {k: remade(case.prompts, change) for k, case in enumerate(cases)}
    parts = {k: p for k, p in parts.items() if all(astuple(p))}
    alike[name] = pd.DataFrame(
        {k: (tested(p)[2], tested(shuffled(p, k))[2], true["held out"][k]) for k, p in parts.items()},
        ["true", "shuffled", "whole prompts"],
    ).T  # fmt: skip
pd.DataFrame({name: {"cases": len(of), **of.mean()} for name, of in alike.items()}).T.round(2)

# %% [markdown]
r"""
Cut to one length, the rules still beat shuffled labels. {{?ends_pass}} On whole prompts the length alone scores {{length}}, and on the same cases the rules are ahead of it by {{whole_over}} ({{= 95% =}} interval {{whole_ends}}, p = {{p_whole_over}}): no lead is shown, and one of the upper end is not excluded. {{?not_apart}}

## Anything can be explained

How good does a sentence look to its author? We score each on the very prompts that it was written from, and then on those held out. We do the same with **shuffled labels**, where there is nothing to explain. (For probes, this is called a control task {cite}`hewitt2019control`.) And we do it with **planted rules**, where there is something: a prompt counts as active if a common token is among its last eight, and then a share of the labels is turned round, those held out included (five rules for each share).
"""


# %% tags=["hide-input", "nbval-check-output"]
def plant(token, noise, seed):
    """As many prompts as a case has, active where the token is near the end, some turned round."""
    strings, rng = read.prompts(read.anywhere), np.random.default_rng(seed)
    fact = f"the token {json.dumps(token)} near the end"
    on = np.array([fact in rules.facts(s) for s in strings]) ^ (rng.random(len(strings)) < noise)
    parts = (rng.permutation(half)[: max(len(half) // 5, 1)] for half in read.halves)
    p = cb.cases.split(strings, on, *parts)
    if min(map(len, astuple(p))) < 3:
        raise TooFewPrompts(f"In the vocabulary of {MODEL}, {token!r} is too rare to plant a rule")
    return p


COMMON, rows = (" the", " of", ",", " and", " to"), []
for noise in (0.0, 0.1, 0.2, 0.3):
    for seed, token in enumerate(COMMON):
        p = plant(token, noise, seed)
        rows.append((noise, *tested(p)[1:], tested(shuffled(p, seed))[2]))
plants = pd.DataFrame(rows, columns=["noise", "shown", "held out", "shuffled"])
curve = plants.groupby("noise").mean()
both = pd.DataFrame({"true labels": true[SCORES].mean(), "shuffled labels": mixed[SCORES].mean()}).T  # fmt: skip
words = [f"planted rules, {noise:.0%} turned round" for noise in curve.index]
pd.concat([both, curve[SCORES].set_axis(words)]).rename_axis("mean score").round(2)

# %% [markdown]
r"""
On the prompts shown, rules for meaningless labels score nearly as much as real ones. {{?fits_anything}} So a good fit to the examples is hardly evidence {cite}`bolukbasi2021illusion`.

On new documents real labels do score more than shuffled ones, by {{over_cases}} over cases and by {{over}} with each neuron counted once (p below {{= 0.001 =}}, {{neurons}} neurons). {{?better}} (For heads of neurons that predict their token the score is {{score_next}}, for those of random ones {{score_random}}, p = {{p_next}}.) {{?next_undecided}} But it is not much, as the planted rules show. A rule without noise scores {{planted}}, so the test can find one, and with one label in ten turned round all planted rules stay clear of their shuffled labels. {{?planted_found}} (We had required both in advance.) With three in ten it cannot be told from none. {{?faint}} Our cases score little more than that, so a faint rule in one of them would escape us, too. {{?between}}

## Would a better reader do better?

A program that counts tokens has no notion of a recipe. So we give the same prompts to a classifier that has. MiniLM, an encoder trained to tell sentences with different meanings apart, turns each prompt into an embedding, and a logistic regression on the embeddings is fitted on half A. As a positive control we *plant* a subject: texts on cooking, texts of law or French texts are called active, and the classifier finds these without an error. On our cases it scores {{meaning}}, and we cannot tell it from the rules. {{?meaning_alike}} But it is no limit to what a sentence about meaning could score.

We also had a language model write and read such sentences, but Qwen2.5-Coder, with {{= 1.5 =}} billion parameters, does not pass the positive control: on the planted subjects it scores {{lm_planted}}, where rules score {{rules_planted}}, and the odds that it gives to *true* and *false* do hardly better. {{?lm_fails}} {{?lm_odds_fail}} So its scores on our cases say nothing about the heads, and what a larger model would find is open.

## What can go wrong

A head may do several things at once, and sparse autoencoders on what attention layers write find finer units {cite}`kissane2024interpreting`, which we have not tried. And a sentence that predicts a head need not name what the head reads: tests by intervention find that explanations by language models are far from faithful {cite}`huang2023rigorously`.

## Where this leaves us

This is the last page of the main text. The first layer came apart into tables, and those predicted neurons. For single heads of later layers, simple rules beat shuffled labels on new documents, but not demonstrably on new domains, nor the length; and embeddings are not demonstrably better. Whoever explains heads by sentences should report the three controls with each score, and hold out domains. Of fifteen conditions fixed in advance six are met (see Evidence).

## Exercises

1. *Prove.* Each of $m$ facts is true of half of the prompts at random. An explainer is shown $r$ active and $r$ inactive ones. How well does the best single fact fit labels without meaning?

````{admonition} Solutions
:class: dropdown

1. For one fact, the difference of two shares of $r$ prompts has standard deviation $\sqrt{2 \cdot \tfrac14 / r}$. Half of it is what the score gains, $\sigma = 1/\sqrt{8 r}$. The largest of $m$, of either sign, is about $\sigma \sqrt{2 \ln 2m}$. With $r = 16$ and $m = 200$ that is $0.088 \cdot 3.5 \approx 0.31$, a score of $0.81$ from nothing, with a single fact.
````

## Evidence

**What was fixed in advance.** Of the fifteen conditions that we had fixed in advance, six are met: both about planted rules, the two positive ones about embeddings, and two about the length. Eight fail: two about saying more than the length, four about the language model, and the two that were set last, after a reading (below). And it is undecided whether embeddings or rules score more. {{?six_met}}

**On SmolLM2,** with as many texts, rules beat shuffled labels as well, by less. {{?smol_too}}
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Rules against shuffled labels, on SmolLM2 too"}
def apart(one, other, kind="independent"):
    """A difference of means, and how often chance makes one as large."""
    gap = lambda a, b, axis: a.mean(axis) - b.mean(axis)
    test = stats.permutation_test(
        (one, other), gap, permutation_type=kind, n_resamples=99_999, batch=9_999, rng=0
    )
    return float(test.statistic), float(test.pvalue)


table = pd.DataFrame({"true": true["held out"], "shuffled": mixed["held out"], "neuron": [str(case.neuron) for case in cases], "next": [bool(case.token) for case in cases]})  # fmt: skip
held = json.loads(cb.evidence("cases.json").read_text())["table"]  # of SmolLM2
smol = pd.DataFrame({"true": held["true, held out"], "shuffled": held["shuffled, held out"], "neuron": list(map(str, held["neuron"]))})  # fmt: skip
by_drawn = [*table.assign(document=table["neuron"]).itertuples()]  # neurons, as documents are drawn
found = {}
for name, of in ((MODEL, table), ("SmolLM2", smol)):
    neurons = of.groupby("neuron")[["true", "shuffled"]].mean()
    over, p = apart(*neurons.to_numpy().T, "samples")
    found[name] = {"cases": len(of), "neurons": len(neurons), "true": of["true"].mean(), "shuffled": of["shuffled"].mean(), "over, by neuron": over, "p": p}  # fmt: skip
found = pd.DataFrame(found)
found.round(3)

# %% [markdown]
r"""
**Rules, the ends of prompts, and the length.** What each scores more than its rival, on the tests that both have, and how often chance makes as much, by sign flips of neurons (in the first layer, of heads) and of single tests; the interval redraws neurons, or heads.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Sentences against shuffled labels and against the length"}
of_neuron = lambda of: of.assign(unit=[str(cases[c].neuron) for c in of.index])
shorter, length = map(of_neuron, alike.values())
paired = shorter.assign(length=length["true"])  # on the cases that both have
first = {k: of.query("layer == 0").rename(columns={"head": "unit"}) for k, of in trap.items()}
both_first = first["rules, any length"].assign(length=first["length alone"]["score"])
scores_of = {
    "16 tokens, over shuffled labels": paired[["unit", "true", "shuffled"]],
    "length alone, over shuffled labels": length[["unit", "true", "shuffled"]],
    "16 tokens, over the length": paired[["unit", "true", "length"]],
    "whole prompts, over the length": length[["unit", "whole prompts", "true"]],
    "first layer, over the length": both_first[["unit", "score", "length"]],
} | {f"first layer, {k}, over shuffled": v[["unit", "score", "shuffled"]] for k, v in first.items()}
tests, ends = {}, {}
for name, of in scores_of.items():
    pairs = of.drop(columns="unit"), of.groupby("unit").mean()
    (over, p_each), (_, p) = (apart(*v.to_numpy().T, "samples") for v in pairs)
    tests[name] = {"tests": len(of), "ahead by": over, "p": p, "p, one by one": p_each}
    gap = pairs[1].to_numpy() @ [1, -1]  # of each neuron or head
    units = [*pd.DataFrame({"document": map(str, pairs[1].index)}).itertuples()]
    ends[name] = cb.with_interval(lambda d, gap=gap: gap[d].mean(), units)
tests = pd.DataFrame(tests).T.astype({"tests": int}).round(3)
tests.assign(interval=[f"{v.low:.2f} to {v.high:.2f}" for v in ends.values()])

# %% [markdown]
r"""
**Held out by domain, and why the length says so much.** Two conditions came last. With whole domains held out, five times a fifth of them, rules were still to beat shuffled labels (p below {{= 0.05 =}}, each neuron counted once); they do not. {{?domains_fail}} And in most heads of the first layer more than half of what changes with the length of a prompt was to come from BOS and the query's own token, whose shares of the attention fall as a text grows. That is so in {{ends_most}} of eight heads ({{from_ends}} in the median), so the tokens in between matter as much. {{?ends_fail}} (Prompts are sorted into eight lengths. What changes is the variance of the mean of $z$ over these.)
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Domains held out, and what changes with the length"}
fold_of = np.unique([text.domain for text in read.texts], return_inverse=True)[1] % 5


def abroad(case, seed=None):
    """The score on half B of rules that saw no text of the domains that they judge."""
    strings, on, called = read.prompts(read.end[:, *case.neuron]), case.on.copy(), 0 * case.on
    if seed is not None:
        on[case.shown] = np.random.default_rng(seed).permutation(on[case.shown])
    for fold in range(5):
        seen, judged = (
            case.shown[fold_of[case.shown] != fold],
            case.held[fold_of[case.held] == fold],
        )
        if min(on[seen].sum(), (~on[seen]).sum()) >= 3 and len(
            judged
        ):  # or all are called inactive
            rule = rules.explain(*([strings[i] for i in seen if on[i] == kind] for kind in (True, False)))  # fmt: skip
            called[judged] = rules.classify(rule, [strings[i] for i in judged])
    return (called[case.held][case.on[case.held]].mean() + 1 - called[case.held][~case.on[case.held]].mean()) / 2  # fmt: skip


other_domains = pd.DataFrame([(abroad(case), abroad(case, k), str(case.neuron)) for k, case in enumerate(cases)], columns=["true", "shuffled", "unit"])  # fmt: skip
over_abroad, p_abroad = apart(*other_domains.groupby("unit").mean().to_numpy().T, "samples")

hooks = [f"blocks.0.attn.hook_{name}" for name in ("pattern", "v")]
_, ran = model.run_with_cache(read.ids, names_filter=hooks, stop_at_layer=1)
every, ends_at = torch.arange(len(read.ids)), read.anywhere
rows, v = ran[hooks[0]][every, :, ends_at], ran[hooks[1]]  # text head source, text source head d
parts = torch.stack([rows[every, :, at, None] * v[every, at] for at in (0 * ends_at, ends_at)])
bins = pd.qcut(ends_at.numpy(), 8, labels=False)
by_bin = lambda z: torch.stack([z[bins == b].mean(0) for b in range(8)])  # length head d
z_of, ends_of = (by_bin(z) for z in (read.z[every, ends_at, 0], parts.sum(0)))
z_of, ends_of = z_of - z_of.mean(0), ends_of - ends_of.mean(0)
from_ends = ((z_of * ends_of).sum((0, 2)) / z_of.square().sum((0, 2))).numpy()  # head
pd.DataFrame({"BOS and own token": from_ends}).T.round(2).rename_axis(
    "of what the length changes, head"
)

# %% [markdown]
r"""
**How the language model was tested.** `cx.lookups.chat.ChatExplainer` has the same two methods as the rules, behind any endpoint that speaks OpenAI's chat completions, a server of your own included. Here it was a server of `llama.cpp` with {{= 4 =}}-bit weights, on {{lm_cases}} cases drawn and the planted subjects: eight prompts of either kind shown and at most eight held out, the last {{= 100 =}} characters of each, temperature zero. *Zero-shot*, as in the publication, the classifier sees the sentence alone; *few-shot*, it also sees four prompts of either kind. It was fixed in advance that the model explains if its sentences score more for true labels than for shuffled ones, and that few-shot adds if it scores more than zero-shot, with intervals above zero. Neither was met. {{?lm_fails}} Shown French texts and others, it lists some phrases of the French ones and never says that they are French. {{?lm_lists}} By its odds its AUC for the planted subjects is {{lm_odds}}, where {{= 0.5 =}} is chance and we had required {{= 0.9 =}}, and it does no better with true labels than chance can do with shuffled ones (p = {{lm_odds_p}}). {{?lm_odds_p}} The answers are stored with the book. `tools/evidence/semantic.py --chat` gets new ones, and `--odds` judges them again.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The language model's scores"}
answers = json.loads(cb.evidence("explained.json").read_text())["cases"]
WAYS = [f"{way}{of}" for way in ("zero-shot", "few-shot", "rules") for of in ("", ", shuffled")]
marks = pd.DataFrame({way: {name: c[way]["score"] for name, c in answers.items()} for way in WAYS})
is_planted = marks.index.str.startswith("planted")
gains = {
    "true over shuffled": marks["zero-shot"] - marks["zero-shot, shuffled"],
    "few-shot over zero-shot": marks["few-shot"] - marks["zero-shot"],
}
by_case = [*marks.assign(document=marks.index).itertuples()]
lm = {k: cb.with_interval(lambda d, v=v: v.iloc[d].mean(), by_case) for k, v in gains.items()}
zero = [c["zero-shot"] for c in answers.values() if "tpr" in c["zero-shot"]]
inactive = 1 - np.mean([(v["tpr"] + 1 - v["tnr"]) / 2 for v in zero])
kinds = {"planted subjects": marks[is_planted].mean(), "cases": marks[~is_planted].mean()}
pd.DataFrame(kinds).round(2)

# %% [markdown]
r"""
**The publication's sentences.** It speaks of other models, and of an explainer that is a language model. The first interval redraws neurons. The second holds the differences that a permutation of the heads does not exclude. An induction head looks for an earlier place of the present token and attends to what came after it. We find these heads on random tokens, repeated once: they give {{= 0.3 =}} of their attention or more to that place.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger: published claims, judged"}
is_next = table["next"].to_numpy()
own_scores = table["true"][is_next].to_numpy()
of_neurons = [of for of in by_drawn if of.next]
by_neurons = cb.by_document(lambda d: own_scores[d].mean(), of_neurons)
half = max(2, min(24, (read.ids.shape[1] - 1) // 2))
drawn = torch.from_numpy(np.random.default_rng(0).integers(model.cfg.d_vocab, size=(8, half)))
patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in range(n_layers)]
twice = torch.cat([read.ids[:8, :1].expand(8, 1), drawn, drawn], 1)
_, ran = model.run_with_cache(twice, names_filter=patterns)
second = torch.arange(half + 1, 2 * half + 1)  # positions
behind = [ran[name][:, :, second, second - half + 1].mean((0, 2)) for name in patterns]
head_scores = trap["rules, one length"].groupby(["layer", "head"])["score"].mean()
induction = np.array([float(behind[layer][head]) >= 0.3 for layer, head in head_scores.index])
less, excluded = np.nan, (np.nan, np.nan)
if induction.any():
    v = head_scores.to_numpy()
    less, *null = (
        v[own].mean() - v[~own].mean() for own in (induction, *cb.nulls.permuted(induction, 9999))
    )
    excluded = tuple(float(less - np.quantile(null, q)) for q in (0.975, 0.025))
cb.ledger(
    model,
    cb.Claim("explanations_predict", "score of explanations, next-token neurons", own_scores.mean(), by_neurons),
    cb.Claim("induction_is_hard", f"score of {induction.sum()} induction heads less that of other heads", less, excluded),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
result, here, there = semantic["result"], found[MODEL], found["SmolLM2"]
easy, by_length, hard = by_layer.loc[0]
part, kinds_of = (by_length - 0.5) / (easy - 0.5), table.groupby("next")["true"].mean()
named = trap["rules, any length"].query("layer == 0")["sentence"].str.contains(" tokens").mean()
by_neuron = table.groupby(["next", "neuron"])["true"].mean()
_, p_next = apart(by_neuron[True].to_numpy(), by_neuron[False].to_numpy())
over_length = tests.iloc[2:4]  # of the cases
whole, first = over_length.iloc[-1], tests.loc["first layer, over the length"]
at_noise = dict([*plants.groupby("noise")])  # noise: a planted rule a row
fifth, three = (curve["held out"][noise] for noise in (0.2, 0.3))
differs, subjects = result["meaning over rules"], kinds["planted subjects"]
in_french = answers["planted: french"]["zero-shot"]["sentence"]
cb.facts(
    "explanations",
    score=cb.fact(here["true"]), length=cb.fact(length["true"].mean()),
    abroad=cb.fact(other_domains["true"].mean()), over_abroad=cb.fact(over_abroad), p_abroad=cb.fact(p_abroad),
    from_ends=cb.fact(float(np.median(from_ends)), ".0%"), ends_most=cb.fact(int((from_ends > 0.5).sum()), "words"),
    meaning=cb.fact(result["true, mean"]), shown_shuffled=cb.fact(mixed["shown"].mean()),
    planted=cb.fact(curve["held out"][0.0]), over=cb.fact(here["over, by neuron"]),
    over_cases=cb.fact(here["true"] - here["shuffled"]),
    six_met=min(planted) >= 0.9 and result["true over shuffled"]["p"] < 0.05 < differs["p"] and part >= 0.75 and min(first["p"], p_abroad) > 0.05 and (from_ends > 0.5).mean() <= cb.MOST,
    domains_fail=p_abroad > 0.05, ends_fail=(from_ends > 0.5).mean() <= cb.MOST,
    lm_planted=cb.fact(subjects["zero-shot"]), lm_odds=cb.fact(odds["planted, mean AUC"]),
    rules_planted=cb.fact(subjects["rules"]), easy=cb.fact(easy),
    hard=cb.fact(hard), model=MODEL.rpartition("/")[2], cases=len(cases),
    own_token=own_token, said=len(said),
    neurons=int(here["neurons"]), lm_cases=int((~is_planted).sum()),
    whole_over=cb.fact(whole["ahead by"]), p_whole_over=cb.fact(whole["p"]),
    by_length=cb.fact(by_length), length_part=cb.fact(part, ".0%"),
    **{k: f"{cb.fact(ends[of].low).text} to {cb.fact(ends[of].high).text}" for k, of in (("over_length_ends", "first layer, over the length"), ("whole_ends", "whole prompts, over the length"))},
    over_length=cb.fact(first["ahead by"]), p_over_length=cb.fact(first["p"]),
    is_length=part >= 0.75 and tests["p"].iloc[6] < 0.05,
    no_more=first["p"] > 0.05,
    alike_finds=tests["ahead by"].iloc[7] > 0 and tests["p"].iloc[7] < 0.05,
    random_example=not example.token,
    score_next=cb.fact(kinds_of[True]), score_random=cb.fact(kinds_of[False]), p_next=cb.fact(p_next),
    not_apart=over_length[["p", "p, one by one"]].min(axis=None) > 0.05,
    ends_pass=tests["ahead by"].iloc[0] > 0 and tests["p"].iloc[0] < 0.05,
    better=here["over, by neuron"] > 0 and here["p"] < 0.001 and here["true"] < 0.65,
    between=three < here["true"] < fifth,
    meaning_alike=differs["p"] > 0.05 and abs(differs["by"]) < cb.ABOUT * (result["true, mean"] - 0.5) and min(planted) == 1 and len(meaning) == len(cases),
    fits_anything=mixed["shown"].mean() - 0.5 > 0.75 * (true["shown"].mean() - 0.5),
    planted_found=curve["held out"][0.0] >= 0.9 and at_noise[0.1]["held out"].min() > at_noise[0.1]["shuffled"].max(),
    faint=at_noise[0.3]["held out"].min() < at_noise[0.3]["shuffled"].max(),
    lm_odds_fail=odds["planted, mean AUC"] < 0.9,
    lm_odds_p=cb.fact(odds["heads over shuffled, p"], holds=odds["heads over shuffled, p"] > 0.05),
    lm_lists="phrases like" in in_french and "French" not in in_french,
    lm_fails=subjects["zero-shot"] < 0.55 and subjects["rules"] > 0.7 and inactive > cb.NEARLY_ALL and all(not of.low > 0 for of in lm.values()),
    trap=easy - hard > 0.1 and named > cb.MOST,
    smol_too=0 < there["over, by neuron"] < here["over, by neuron"] and there["p"] < 0.05,
    next_undecided=p_next > 0.05,
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The procedure, active against inactive prompts, a written explanation, its score on new prompts, and the random neurons beside it, is that of {cite:t}`neo2024interpreting`. Explanations by a language model, scored by how well they predict activations, began with {cite:t}`bills2023language`. That the texts at a unit's maximum may suggest what its other activations do not bear out was shown by {cite:t}`bolukbasi2021illusion`, and rigorous tests of written explanations are those of {cite:t}`huang2023rigorously`. The rules in place of a language model, the embeddings as a rival, and the prompts of one length are this book's.
"""
