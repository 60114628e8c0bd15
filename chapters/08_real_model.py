# %% [markdown]
r"""
# Does it work on real models?

**On two of three models that people use, a circuit calibrated on one page of prose predicts what the stable heads add to a neuron; on the third it fails, and a short law says why.** The median correlation with the model is {{r_qwen}} for Qwen2.5-Coder, a language model with {{= 1.5 =}} billion parameters, and {{r_minilm}} for MiniLM, which compares sentences. For SmolLM2, a small chat model, it is {{r_smol}}, and the error is {{error_smol}} times the variance that it should explain. (In Qwen these heads make {{share_qwen}} of what varies.) The law predicts the error of {{real_within}} of {{real_heads}} heads of these models to within a factor of {{= 1.5 =}}. {{?law_of_heads}} By the conditions that we fixed in advance it fails for single neurons, and on `mini` and its twins for heads as well. {{?law_verdict}} It misses by as much on the very texts that it is computed from. {{?misses_are_its_own}}

Here are the three models. Each dot is an unseen text, and a perfect prediction would put all dots on the diagonal. Which would you trust?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To judge GPT-2 itself in the ledger, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
MANY = 100  # neurons that are judged: those that single tokens can move farthest
NEURON = 6419  # of Qwen: the neuron that this book follows
PAGES = 20  # other calibration texts, of half A, drawn with SEED
SEED = 0

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, the three models and the texts"}
import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from einops import einsum
from safetensors.torch import load_file

import ctxbook as cb
import ctxlib as cx

REAL = {"qwen": "Qwen", "smollm2": "SmolLM2", "minilm": "MiniLM"}
real, controls, law = (
    json.loads(cb.evidence(f"{name}.json").read_text()) for name in ("real", "controls", "one_page")
)
held = load_file(cb.evidence("real.safetensors"))


def stored(name):
    """A real model's first layer as the book ships it, with what its heads gather in each text."""
    fixed, heads = cx.fix_query(name), real["models"][name]["heads"]
    among = cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), 900)
    texts = [text for text in among if text.name in real["texts"]]
    scale = held[f"{name}.scale"]  # of LayerNorm 2, in the model
    inside = held[f"{name}.inside"].float() / scale[:, None, None]  # text head d_head
    truth = inside.flatten(1) @ fixed.readout.W_O[heads].flatten(0, 1) @ fixed.readout.W_in
    order = held[f"{name}.top"].argsort(descending=True, stable=True)
    A, B = map(np.flatnonzero, cb.half_masks(texts))
    pages = cx.texts.passages(fixed)
    page = next(text for text in pages if text.name == real["models"][name]["calibrating"])
    return SimpleNamespace(
        fixed=fixed, heads=heads, texts=texts, x=fixed.prepare(texts), A=A, B=B, inside=inside, scale=scale,
        truth=truth, order=order, strongest=order[:MANY].tolist(), page=page, pages=pages,
    )  # fmt: skip


qwen, smol, minilm = layers = [stored(name) for name in REAL]
circuits = [cx.ContextualCircuit.calibrate(one.fixed, one.page, one.heads) for one in layers]

# %% tags=["hide-input"]
figure, (axes,) = cb.figures.panels(1, 3, height=2.9, width=8.6)
shown = {}  # the neuron drawn, its r and its FVU; of the last two models a typical one
for axis, name, one, circuit in zip(axes, REAL, layers, circuits, strict=True):
    guess, truth = torch.cat([circuit.summary(x) for x in one.x[one.B].split(50)]), one.truth[one.B]
    quality = cx.evaluation.Moments.of(guess, truth).table(range(one.fixed.n_neurons))
    fvu = quality["fvu"][one.strongest]
    j = NEURON if one is qwen else (fvu - fvu.median()).abs().idxmin()
    r, left = quality.loc[j, ["r", "fvu"]]
    axis.plot(guess[:, j], truth[:, j], ".", ms=3.5, color=f"C{len(shown)}")
    axis.axline((float(truth[:, j].mean()),) * 2, slope=1, color=cb.figures.INK, lw=0.8, ls=":")
    axis.set(title=f"{REAL[name]}, neuron {j}\nr {r:.2f}, FVU {left:.2f}", xlabel="predicted")
    shown[name] = SimpleNamespace(j=j, r=r, fvu=left, median=fvu.median())
axes[0].set_ylabel("in the model")
cb.figures.picture(
    figure,
    "8.1",
    f"One neuron of each model. Across: what the circuit predicts that the stable heads add to it. Up: what they add in the model. Each dot is one of {len(qwen.B)} texts; on the dotted line the two would agree. FVU is the mean squared error over the variance. Qwen’s neuron is the one this book follows; the other two are typical (FVU nearest to the median of the {MANY} that are judged).",
    "Three scatter plots. " + "; ".join(f"{REAL[k]} {v.j}: r {v.r:.2f}, FVU {v.fvu:.2f}" for k, v in shown.items()) + ".",
)  # fmt: skip

# %% [markdown]
r"""
Qwen's neuron {{neuron}} is the one that notices British spelling ([page 0](00_welcome)). Its dots are in the right order, with a correlation of {{r_thread}}, but they miss the line: the error is {{fvu_thread}} of the variance. This is its fraction of variance unexplained (FVU), and a typical neuron of Qwen has {{fvu_qwen}}. SmolLM2's dots miss the line by more than the texts differ. {{?far_off}} What went wrong?

## Three models and one recipe

**Qwen** is Qwen2.5-Coder-1.5B-Instruct, trained largely on code. Its MLP is *gated*, and by a neuron we mean the gate. **SmolLM2** is SmolLM2-135M-Instruct, gated as well. **MiniLM** is the encoder all-MiniLM-L6-v2. Like GPT-2 it adds position embeddings to tokens; in the other two, positions rotate queries and keys ([chapter 13](13_families)).

We read Qwen and SmolLM2 from {{= 4-bit weights =}}. The recipe was fixed after a first look. Of {{texts}} held-out texts, half A chooses the stable heads and half B judges. The query is *the*, at position {{n}} (in MiniLM {{n_minilm}}). We judge the {{many}} neurons that single tokens can push farthest ([chapter 6](06_neurons)). The prediction needs one page of prose:
"""

# %%
circuit = cx.ContextualCircuit.calibrate(smol.fixed, smol.page, smol.heads)
summary = circuit.summary(smol.x[smol.B])  # text neuron

# %% [markdown]
r"""
## How well does it work?

The circuit has two simple rivals. The *uniform average* of the tokens' values uses neither kernel nor content. The *domain's mean* knows only that a text is law or cooking, and predicts the average of half A's texts of that kind. *Within domains*, each domain's mean is subtracted from prediction and truth, so that only differences between texts of one kind count.
"""

# %% tags=["hide-input", "nbval-check-output"]
ROWS = {
    "r, circuit": ("contribution", "circuit", "r"),
    "r, uniform average": ("contribution", "uniform average", "r"),
    "r, domain's mean": ("contribution", "domain mean", "r"),
    "r within domains, circuit": ("contribution", "circuit", "r within domains"),
    "r within domains, uniform": ("contribution", "uniform average", "r within domains"),
    "r with the pre-activation": ("pre-activation", "circuit", "r"),
    "r with the activation": ("activation", "circuit", "r"),
}
scores = pd.DataFrame({
    m: {row: cb.Estimate(*controls[m]["readings"][reading][kind][of]) for row, (reading, kind, of) in ROWS.items()}
    for m in REAL
}).rename(columns=REAL)  # fmt: skip
middle = scores.map(lambda estimate: estimate.value)
middle.round(2).rename_axis("medians")

# %% [markdown]
r"""
In Qwen the circuit beats both rivals, and its lead grows within domains. In MiniLM a uniform average orders texts almost as well, but not within domains. {{?beats_rivals}} In SmolLM2 the circuit loses to both, and leads the uniform average within domains only. {{?smol_loses}} Its amounts are useless: its median FVU is {{fvu_smol}}, where always predicting the mean has {{= 1 =}}.

The last two rows are about whole neurons. The paper gives a median $r$ of {{= 0.9485 =}} for GPT-2 small and does not say of what. If it is of what the heads contribute, Qwen is at the published number; if of the neuron's pre-activation or activation, it is far below. {{?hangs_on_reading}}

The {{many}} strongest neurons are the easier ones: over all neurons, the median FVU is {{all_minilm}} instead of {{fvu_minilm}} in MiniLM. They also move together, and are worth fewer than ten independent ones. {{?few_independent}} And stable heads carry {{share_qwen}} of what varies between texts in Qwen, {{share_smol}} in SmolLM2 and {{share_minilm}} in MiniLM. {{?small_part}} So they are not the whole of a neuron: with the output of Qwen's neurons the circuit correlates by {{post_qwen}}. [Chapter 10](10_whole_neuron) predicts the rest.

## Why does one page fail SmolLM2?

The circuit makes five approximations, so we have five suspects. Made alone, with all else exact, the denominators borrowed from one page leave {{budget_smol}} of the variance in SmolLM2, more than ten times as much as any other. {{?denominators_alone}} (On every third text of half B.) The page is not to blame, since with none of {{pages}} others do borrowed constants leave less than {{best_page}}. Nor do SmolLM2's denominators vary more: on average the page's are wrong by {{off_smol}}, in MiniLM by {{off_minilm}} and in Qwen by {{off_qwen}}. {{?no_worse}}

Look at what the error is multiplied with. Suppose that a head adds {{= 11 =}} to a neuron in one text and {{= 9 =}} in another, and that a borrowed denominator makes the first {{= 10% =}} too large. The error of {{= 1.1 =}} is larger than the distance from the mean, {{= 1 =}}. Had the head added {{= +1 =}} and {{= −1 =}}, the error would be {{= 0.1 =}}. A head that adds nearly the same to every text makes small errors large.

SmolLM2's heads do just that. In its median neuron, what they add to all texts is {{c_smol}} times as large as the standard deviation of the rest; in Qwen it is {{c_qwen}} times as large, in MiniLM {{c_minilm}} times.

## A law for when one page suffices

A head truly adds $u(x) = a + d(x)$ to a neuron, where $a$ is the same for every text and $d$ has mean zero. With a borrowed denominator and LayerNorm scale it adds $(1 + e(x))\, u(x)$. The **relative error** $e$ is

$$
1 + e(x) = \frac{\text{denom}(x)}{\text{denom}'} \cdot \frac{s(x)}{s'} ,
$$ (eq-real-error)

where primes mark what is borrowed. So the prediction is wrong by $e\,(a + d)$. If $e$ has nothing to do with $d$, the mean square of this error is $\operatorname{E}[e^2]\,(a^2 + \operatorname{E}[d^2])$. Divide by the variance of the truth, $\operatorname{E}[d^2]$, and you have the law:

$$
\begin{gathered}
\text{FVU} = \sigma^2\,(c^2 + 1) , \\
\sigma^2 = \operatorname{E}[e^2] , \qquad c = \frac{\lvert a \rvert}{\operatorname{sd}(d)} .
\end{gathered}
$$ (eq-real-law)

One page suffices where $\sigma$ is small beside $1 / \sqrt{c^2 + 1}$. With SmolLM2's constant, an error of {{half_lost}} loses half of the variance. Here is the law for SmolLM2's heads, computed on half A and measured on both halves, with squares summed over neurons.
"""

# %% tags=["nbval-check-output"]
own = smol.fixed.denominators(smol.x)[:, smol.heads]  # text head
e = own / circuit.denominators * (smol.scale / circuit.scale)[:, None] - 1

readout = smol.fixed.readout.W_O[smol.heads] @ smol.fixed.readout.W_in
added = einsum(smol.inside, readout, "text head d, head d neuron -> text head neuron")

sigma2 = e[smol.A].square().mean(0)  # head
c2 = added[smol.A].mean(0).square().sum(-1) / added[smol.A].var(0).sum(-1)
by_law = sigma2 * (c2 + 1)

columns = {"σ": sigma2.sqrt(), "c": c2.sqrt(), "FVU by the law": by_law}
for half, texts in (("half A", smol.A), ("half B", smol.B)):
    wrong = (e[..., None] * added)[texts]
    columns[f"measured, {half}"] = wrong.square().mean(0).sum(-1) / added[texts].var(0).sum(-1)
pd.DataFrame(columns, index=smol.heads).astype(float).round(2).rename_axis("head")

# %% [markdown]
r"""
It was fixed in advance what counts as agreement: {{= 80% =}} of the cases within a factor of {{= 1.5 =}}, and a median of predicted over measured between {{= 0.8 =}} and {{= 1.25 =}}. Then we tested it on half B of the three models, of `mini`, and of five twins of `mini` with other positions or other training.
"""

# %% tags=["hide-input"]
models = [name for name in law if name != "version"]
of_law = {  # kind of case, half that measures: model: predicted, measured
    ("heads", "half B"): {m: (law[m]["heads"]["predicted"], law[m]["heads"]["measured"]) for m in models},
    ("heads", "half A"): {m: (law[m]["heads"]["predicted"], law[m]["on A"]["heads"]) for m in models},
    ("heads, σ² alone", "half B"): {m: (np.square(law[m]["heads"]["sigma"]), law[m]["heads"]["measured"]) for m in models},
    ("calibration pages", "half B"): {m: law[m]["pages"] for m in models},
    ("calibration pages", "half A"): {m: (law[m]["pages"][0], law[m]["on A"]["pages"]) for m in models},
}  # fmt: skip
neurons = {m: (law[m]["sample"]["predicted"], law[m]["sample"]["measured"]) for m in models}
GROUPS = {"real models": [*REAL], "mini and twins": [m for m in models if m not in REAL]}
FORMS = {"neurons": "neurons", "short": "neurons, one σ for all heads", "whole": "neurons, all approximations"}  # fmt: skip


def agreed(by_model, among=models):
    """How many cases of these models are within the factor, of how many, and the median ratio."""
    ratio = np.divide(*np.concatenate([by_model[m] for m in among], 1))
    return int((np.abs(np.log(ratio)) <= math.log(1.5)).sum()), len(ratio), float(np.median(ratio))


close, verdicts = {}, {}
for group, among in GROUPS.items():
    for (kind, half), by_model in of_law.items():
        close[group, kind, half] = found = agreed(by_model, among)
        verdicts.setdefault((group, half), {})[kind] = "{} of {}, {:.2f}".format(*found)
    held_in = {k: sum(law[m]["neurons"][k]["holds"] for m in among) for k in FORMS}
    verdicts[group, "half B"] |= {called: f"{held_in[k]} of {len(among)} models" for k, called in FORMS.items()}  # fmt: skip
    on_A = sum(law[m]["on A"]["neurons"]["holds"] for m in among)
    verdicts[group, "half A"]["neurons"] = f"{on_A} of {len(among)} models"
figure, (axes,) = cb.figures.panels(1, 3, height=2.9, width=8.6, sharex=True, sharey=True)
drawn = {k: of_law[k, "half B"] for k in ("heads", "calibration pages")} | {"neurons": neurons}
pooled, ends = {k: agreed(v) for k, v in drawn.items()}, np.array([0.008, 100])
for axis, (kind, by_model) in zip(axes, drawn.items(), strict=True):
    for m, (predicted, seen) in by_model.items():
        color = f"C{[*REAL].index(m)}" if m in REAL else "#999999"
        axis.plot(predicted, seen, ".", ms=1.5 if kind == "neurons" else 3.5, color=color, rasterized=True)  # fmt: skip
    for factor, dash in ((1, "-"), (1.5, ":"), (1 / 1.5, ":")):
        axis.plot(ends, ends * factor, color=cb.figures.INK, lw=0.7, ls=dash)
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=kind, xlabel="FVU by the law")
axes[0].set_ylabel("FVU as measured")
for k, (label, color) in enumerate(zip([*REAL.values(), "mini, twins"], ["C0", "C1", "C2", "#888888"], strict=True)):  # fmt: skip
    axes[0].text(0.05, 0.9 - 0.1 * k, label, color=color, fontsize=8, transform=axes[0].transAxes)
cb.figures.picture(
    figure,
    "8.2",
    "The FVU that borrowed constants leave, as the law predicts it from half A (across) and as half B shows it (up). Left: every stable head. Middle: the median neuron under each of 20 other calibration texts. Right: single neurons, 200 from each model. Between the dotted lines the law is right to within a factor of 1.5.",
    "Three scatter plots on logarithmic axes. " + "; ".join(f"{k}: {w} of {n} within the factor, median ratio {m:.2f}" for k, (w, n, m) in pooled.items()) + ".",
)  # fmt: skip

# %% [markdown]
r"""
The table has the cases within the factor and the median of predicted over measured; for neurons, the models in which the law holds. The rival, $\sigma^2$ alone, forgets the constant. What is missed on half A, which gives the law its numbers, is missed by the law itself.
"""

# %% tags=["hide-input", "nbval-check-output"]
pd.DataFrame(verdicts).fillna("–")

# %% [markdown]
r"""
On the real models the law is good for heads and needs the constant: without it, {{real_alone}} of {{real_heads}} is predicted. {{?law_of_heads}} On `mini` and its twins {{small_within}} of {{small_heads}} heads are within the factor, fewer than the {{= 80% =}} that we required; only all heads together pass, with {{heads_within}} of {{heads_all}}. {{?small_fail}} There $c^2 + 1$ is at most {{barely}} in the median neuron, so neurons hardly test the constant. The law does best for calibration pages, of which it misses {{pages_missed}} in {{pages_all}}, with values from a few hundredths to more than fifty. So a sample of your texts tells beforehand how well a page will serve.

Are these misses only those of another half? Then at most a third of them should be left on half A, as we had fixed. But over all heads the median miss there, as a logarithm, is {{own_miss}} times that of half B, and {{own_within}} heads are within the factor. {{?misses_are_its_own}} So the misses are the law's own: the error does depend on what the text adds.

For single neurons, where the law sums over pairs of heads, it fails. It holds in {{law_neurons}} models of nine, Qwen and SmolLM2 among them, where {{= seven =}} were required. {{?law_fails}} With one $\sigma$ for all heads it fails in all three real models. {{?one_sigma_fails}} With all approximations MiniLM fails with {{nearly}} of its neurons within the factor, just short of {{= 80% =}}. Where the law fails it is mostly too low.

## The remedy

If the constant is the trouble, don't multiply it by the error. We know it from the calibration page: it is the mean of the values that the head gathers there. Call it $\bar v_h$, and let a token's content scale only how far its value $v_h(t)$ is from that:

$$
\begin{aligned}
&\frac{\text{content}_h(t)}{\text{denom}'_h}\, v_h(t) \quad\longrightarrow \\
&\frac{\text{content}_h(t)}{\text{denom}'_h}\, \bigl( v_h(t) - \bar v_h \bigr) + \bar v_h .
\end{aligned}
$$ (eq-real-centered)

In the package it is one word. The table has what it leaves, beside the domain's mean and beside the self-normalised circuit, which has each text's own denominators ([chapter 11](11_evaluation)):
"""

# %%
mended = circuit.centered()
summary = mended.summary(smol.x[smol.B])

# %% tags=["hide-input", "nbval-check-output"]
LEFT = {"circuit": "circuit", "centred": "centred circuit", "own": "self-normalised circuit"}
remedy = pd.DataFrame({called: {row: law[m]["remedy"][k]["FVU"][0] for k, row in LEFT.items()} for m, called in REAL.items()})  # fmt: skip
remedy.loc["domain's mean"] = [controls[m]["readings"]["contribution"]["domain mean"]["FVU"] for m in REAL]  # fmt: skip
for k in ("circuit", "centred"):
    remedy.loc[f"{LEFT[k]}, all neurons"] = [law[m]["remedy"][k]["FVU of all"] for m in REAL]
remedy.round(2).rename_axis("median FVU")

# %% [markdown]
r"""
In SmolLM2 the median FVU falls from {{fvu_smol}} to {{mended_smol}}, and the correlation rises from {{r_smol}} to {{r_mended}}. (We found the remedy on these texts.) In its amounts the circuit is now no better than the domain's mean ({{mean_fvu_smol}}). Elsewhere the FVU was to rise by {{= 0.05 =}} at most, and rises by {{worst}}.

## What can go wrong

The amounts depend on the page. With another calibration text, Qwen's $r$ hardly moves, but its FVU may be anywhere from {{fvu_low}} to {{fvu_high}}. We asked with one query at one position, of mostly English texts.

## Where this leaves us

The method carries over to two models of three. Where one page fails, the constant over the spread warns you, and centring mends most of the damage. For [a model of your own](own_model), one command reports on both.

But does the neuron that notices British spelling respond to British English, or only to some letters? And does the model make any use of it? [The next page](09_british) asks.

## Exercises

1. *Predict, then run.* Calibrate Qwen on each passage of the book. On which domains is the FVU lowest and highest, and how far does $r$ move? Write down two domains, then open the cell.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Which pages calibrate best?"}
def recalibrated(x):
    """Medians over the strongest neurons of r and FVU, with Qwen calibrated on each of these texts."""
    made, J = circuits[0], qwen.strongest
    truth = qwen.truth[qwen.B][:, J]
    by_head = einsum(made.z(qwen.x[qwen.B]), made.readout[..., J], "t h d, h d j -> t h j")
    own = qwen.fixed.denominators(x)[:, qwen.heads]
    scale = qwen.fixed.scale(x, qwen.fixed.approx_head_outputs(x))
    factors = made.denominators / own * made.scale / scale  # text head
    tables = [cx.evaluation.Moments.of(einsum(by_head, f, "t h j, h -> t j"), truth).table(J) for f in factors]  # fmt: skip
    return pd.DataFrame([of[["r", "fvu"]].median() for of in tables])


by_passage = recalibrated(qwen.fixed.prepare(qwen.pages))
by_kind = by_passage.groupby([p.domain for p in qwen.pages]).median().sort_values("fvu")
by_kind.iloc[[0, 1, 2, -3, -2, -1]].round(2)

# %% [markdown]
r"""
2. *Fill in.* How large may $\sigma$ be if no more than a share `most` of the variance is to be lost? Solve the law for it.
"""


# %%
def allowed(c, most):
    """The largest relative error that one page may have."""
    return ...  # your turn


# %% tags=["hide-input", "nbval-check-output"]
said = allowed(11.0, 0.5)
print("not yet" if said is ... else "right" if abs(said - 0.0640) < 1e-3 else "not this")

# %% [markdown]
r"""
3. *Prove.* What does the law become for the centred circuit, if $\bar v_h$ adds $a' = a + b$ to the neuron?

```{admonition} Solutions
:class: dropdown

1. The correlation hardly moves, because one factor per head changes no order within a head. The FVU is highest on texts in other languages. {{?foreign_worst}}
2. `return (most / (c**2 + 1)) ** 0.5`. For SmolLM2's $c$ and a half of the variance, that is {{half_lost}}.
3. The circuit adds $(1 + e)(u - a') + a'$, and the truth is $u = a + d$. So the error is $e\,(d - b)$, and by the same step $\text{FVU} = \sigma^2 (b^2/\operatorname{sd}(d)^2 + 1)$: the page's own distance from a typical text takes the place of the constant.
```

## Evidence

What a real model itself computed is kept with the book; `tools/evidence/` has the scripts (`real_models.py`, `controls.py`, `one_page.py`), and those marked `.toml` what was fixed beforehand. The stored layers are in {{= 8 =}} bits and take LayerNorm's scale on the calibration page from the rebuilt heads. This changes little: from the stored layers, the median FVU is {{stored_qwen}}, {{stored_smol}} and {{stored_minilm}}. {{?stored_agrees}} So SmolLM2 has three such numbers on this page: {{fvu_smol}} is the whole circuit's on half B, {{stored_smol}} the same from the stored layer, and {{budget_smol}} that of the denominators alone, on every third text.
"""

# %% [markdown]
r"""
**All three models in one table.** It is kept from the stored layers, and other pages quote it; its intervals are for other documents or other calibration texts, whichever is wider (a calibration text may be code or in another language). *Error of one page* is the mean distance of a text's denominators from those of the page. Means over heads are weighted by their share of the variance. [Appendix A](A_scale) has the same for `mini`.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The table of real models"}
lines = json.loads(cb.evidence("rows.json").read_text())["lines"]["08_real_model"]
table = cb.on_real(*lines)
table

# %% [markdown]
r"""
**The ledger** has Qwen's numbers at the places of the published ones. The published $r$ does not say of what, so it has three lines. The first, and FVU, are undecided because the calibration text matters; the other two fail. TV fails where positions turn.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger: published claims, judged"}
of_pages = recalibrated(qwen.x[np.random.default_rng(SEED).choice(qwen.A, PAGES, replace=False)])
of_fvu = cb.Estimate(*law["qwen"]["remedy"]["circuit"]["FVU"])
r, _, _, _, _, pre, post = scores["Qwen"]
ends = {  # of other documents and domains, or of other calibration texts: the wider
    of: max(estimate.ends, tuple(of_pages[of].quantile([0.025, 0.975])), key=np.ptp)
    for of, estimate in (("r", r), ("fvu", of_fvu))
}
model = cx.load(MODEL)
known = cb.known_by(model) == cb.GPT2_SMALL  # judged by its own edition, not by Qwen's numbers
tv, stable = float(table.loc["TV", "Qwen"]), len(qwen.heads) / qwen.fixed.n_heads
tv, stable, *here = (
    math.nan if known else v for v in (tv, stable, r.value, pre.value, post.value, of_fvu.value)
)
of = f"median of {MANY} neurons"
cb.ledger(
    model,
    cb.Claim("tv", "Qwen: TV of the stable heads, weighted by variance share", tv),
    cb.Claim("share_stable", "Qwen: share of its heads that is stable", stable),
    cb.Claim("median_r", f"Qwen: r over half B, {of}", here[0], ends["r"]),
    cb.Claim("median_r_pre", f"Qwen: r with the pre-activation (the gate), {of}", here[1], pre.ends),
    cb.Claim("median_r_post", f"Qwen: r with the activation (gate times up), {of}", here[2], post.ends),
    cb.Claim("median_fvu", f"Qwen: FVU over half B, {of}", here[3], ends["fvu"]),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
SHORT = {"Qwen": "qwen", "SmolLM2": "smol", "MiniLM": "minilm"}
r_of, in_of = middle.loc["r, circuit"], middle.loc["r within domains, circuit"]
even, even_in = middle.loc["r, uniform average"], middle.loc["r within domains, uniform"]
of_circuit, of_smol = remedy.loc["circuit"], law["smollm2"]["remedy"]
every = remedy.loc["circuit, all neurons"]
off, shares = (table.loc[line, [*SHORT]].str.rstrip("%").astype(float) / 100 for line in ("error of one page", "their share"))  # fmt: skip
worth = pd.Series({called: controls[m]["independent"]["strongest"] for m, called in REAL.items()})
c_of = pd.Series({called: law[m]["constant over spread"] for m, called in REAL.items()})
stored_fvu = pd.Series({REAL[m]: of.median for m, of in shown.items()})
by_name = {"off": (off, ".0%"), "share": (shares, ".0%"), "fvu": (of_circuit, ".2f"), "stored": (stored_fvu, ".2f")}  # fmt: skip
budget = {k: fvu for made, k, _, fvu in real["models"]["smollm2"]["budget"] if made == "only"}
worse = {m: law[m]["remedy"]["centred"]["FVU"][0] - law[m]["remedy"]["circuit"]["FVU"][0] for m in models if m != "smollm2"}  # fmt: skip
verdict = {k: sum(law[m]["neurons"][k]["holds"] for m in models) for k in FORMS}
real_close, small_close = ({kind: close[group, kind, "half B"] for kind in ("heads", "heads, σ² alone")} for group in GROUPS)  # fmt: skip
misses = {half: np.concatenate([np.abs(np.log(np.divide(*pair))) for pair in of_law["heads", half].values()]) for half in ("half A", "half B")}  # fmt: skip
own_miss = np.median(misses["half A"]) / np.median(misses["half B"])
nearly = law["minilm"]["neurons"]["whole"]["close"]
passes = {k: w >= 0.8 * n and 0.8 <= m <= 1.25 for k, (w, n, m) in pooled.items()}
fails = [m for m in models if not law[m]["neurons"]["neurons"]["holds"]]
of_mini = [law[m]["constant over spread"] ** 2 + 1 for m in models if m not in REAL]
by_pages = [np.array(law[m]["pages"][1]) for m in models]
cb.facts(
    "real_model",
    **{f"{what}_{SHORT[m]}": cb.fact(of[m], form) for what, (of, form) in by_name.items() for m in SHORT},
    r_qwen=cb.fact(r_of["Qwen"]),
    r_smol=cb.fact(r_of["SmolLM2"]),
    r_minilm=cb.fact(r_of["MiniLM"], holds=r_of[["Qwen", "MiniLM"]].min() > cb.ALMOST_EXACTLY and of_circuit[["Qwen", "MiniLM"]].max() < 0.2),
    error_smol=cb.fact(of_circuit["SmolLM2"], ".1f", holds=of_smol["circuit"]["FVU"][1] > 1),
    post_qwen=cb.fact(post.value, holds=post.low < 0 < post.high and shares["Qwen"] < cb.ABOUT),
    law_neurons=cb.fact(verdict["neurons"], "words"),
    law_verdict=verdict["neurons"] < 7 and len(models) == 9 and small_close["heads"][0] < 0.8 * small_close["heads"][1],
    neuron=str(NEURON),
    r_thread=cb.fact(shown["qwen"].r),
    fvu_thread=cb.fact(shown["qwen"].fvu, ".0%", holds=shown["qwen"].r > 0.85 and shown["qwen"].fvu > 2 * of_circuit["Qwen"]),
    far_off=shown["smollm2"].fvu > 1,
    texts=len(qwen.texts),
    n=qwen.fixed.n,
    n_minilm=minilm.fixed.n,
    many=MANY,
    beats_rivals=all(
        r_of[m] > even[m] and r_of[m] > middle.loc["r, domain's mean", m] and in_of[m] - even_in[m] > r_of[m] - even[m]
        for m in ("Qwen", "MiniLM")
    )
    and r_of["MiniLM"] - even["MiniLM"] < 0.02,
    smol_loses=r_of["SmolLM2"] < middle.loc[["r, uniform average", "r, domain's mean"], "SmolLM2"].min()
    and in_of["SmolLM2"] > even_in["SmolLM2"],
    hangs_on_reading=abs(r.value - float(cb.published("median_r").value)) < 0.01 and max(pre.high, post.high) < 0.7,
    all_minilm=cb.fact(every["MiniLM"], holds=(every > 2 * of_circuit)[["Qwen", "MiniLM"]].all()),
    few_independent=worth.max() < 10,
    small_part=shares["Qwen"] < cb.ABOUT and shares["SmolLM2"] > cb.MOST,
    budget_smol=cb.fact(budget["denominators"], ".2f"),
    denominators_alone=all(budget["denominators"] > 10 * v for k, v in budget.items() if k != "denominators"),
    pages=PAGES,
    best_page=cb.fact(by_pages[models.index("smollm2")].min(), ".1f", holds=by_pages[models.index("smollm2")].min() > 1),
    no_worse=off["MiniLM"] <= off["SmolLM2"] < off["Qwen"],
    c_qwen=cb.fact(c_of["Qwen"], ".1f"),
    c_smol=cb.fact(c_of["SmolLM2"], ".0f"),
    c_minilm=cb.fact(c_of["MiniLM"], ".1f", holds=c_of["SmolLM2"] > 10 * max(c_of["Qwen"], c_of["MiniLM"])),
    half_lost=cb.fact(math.sqrt(0.5 / (c_of["SmolLM2"] ** 2 + 1)), ".0%"),
    heads_within=pooled["heads"][0],
    heads_all=pooled["heads"][1],
    real_within=real_close["heads"][0],
    real_alone=cb.fact(real_close["heads, σ² alone"][0], "words"),
    real_heads=real_close["heads"][1],
    small_within=small_close["heads"][0],
    small_heads=small_close["heads"][1],
    law_of_heads=real_close["heads"][0] >= 0.8 * real_close["heads"][1] and real_close["heads, σ² alone"][0] < 0.1 * real_close["heads"][1],
    small_fail=small_close["heads"][0] < 0.8 * small_close["heads"][1] and passes["heads"],
    own_miss=cb.fact(own_miss, ".1f"),
    own_within=agreed(of_law["heads", "half A"])[0],
    misses_are_its_own=own_miss > 1 / 3 and own_miss > 1 - cb.ABOUT,
    one_sigma_fails=not any(law[m]["neurons"]["short"]["holds"] for m in REAL),
    nearly=cb.fact(nearly, ".2%", holds=0.795 < nearly < 0.8 and not law["minilm"]["neurons"]["whole"]["holds"]),
    pages_all=pooled["calibration pages"][1],
    pages_missed=cb.fact(pooled["calibration pages"][1] - pooled["calibration pages"][0], "words", holds=passes["calibration pages"] and max(map(np.max, by_pages)) > 50 and min(map(np.min, by_pages)) < 0.1),
    law_fails=max(verdict.values()) < 7
    and sum(law[m]["neurons"]["neurons"]["median ratio"] < 1 for m in fails) > len(fails) / 2
    and not {"qwen", "smollm2"} & {*fails},
    barely=cb.fact(max(of_mini), ".1f", holds=len(of_mini) == 6 and "minilm" in fails),
    mended_smol=cb.fact(of_smol["centred"]["FVU"][0], holds=of_smol["centred"]["FVU"][0] < 0.5 and of_smol["circuit"]["FVU"][0] > 1),
    r_mended=cb.fact(of_smol["centred"]["r"][0]),
    mean_fvu_smol=cb.fact(remedy.loc["domain's mean", "SmolLM2"], holds=abs(of_smol["centred"]["FVU"][0] / remedy.loc["domain's mean", "SmolLM2"] - 1) < cb.ABOUT),
    worst=cb.fact(max(worse.values()), holds=max(worse.values()) <= 0.05),
    fvu_low=cb.fact(ends["fvu"][0]),
    fvu_high=cb.fact(ends["fvu"][1], holds=ends["r"][0] > 0.9 and ends["fvu"][1] > 5 * ends["fvu"][0]),
    foreign_worst={*by_kind.index[-3:]} == {"french", "german", "spanish"},
    stored_agrees=((stored_fvu / of_circuit - 1).abs() < cb.ABOUT).all(),
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The circuit, its one calibration text, stable heads and the published medians for GPT-2 small are from {cite:t}`gibson2025decomposing`. The models are Qwen2.5-Coder, SmolLM2 and all-MiniLM-L6-v2, each under the Apache licence {{= 2.0 =}}. The law, the remedy, the rivals and the table are worked out here.
"""
