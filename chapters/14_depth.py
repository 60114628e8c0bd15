# %% [markdown]
r"""
# What is left of the split in deeper layers?

**In our small model `{{model}}`, position and token explain less and less of the attention scores from layer to layer, because the context takes their place, at least where the tokens are common.** {{?fades}} {{?first_two}} {{?rest_is_context}} On texts not used before, they explain {{explained_first}} of the variance of the first layer's scores and {{explained_fourth}} of the fourth's. In SmolLM2, a language model that people use, the share falls too, up and down, but our tables cannot say why: a fifth is unexplained even in the first layer, which has no context, mostly because its rotary positions make position and token act together. {{?smol_falls}} {{?smol_few}} {{?smol_cannot}} The main condition fixed in advance failed; it was set for tables from {{few_texts}} texts. {{?main_fails}}

In the first layer the score of a source depends on its token and its position, and on nothing else. From the second layer on, a key is read from a *state*, into which earlier layers have mixed the rest of the text. So the same word at the same position may get another score in another text. Here is what position and token still explain, in the {{layers}} layers of SmolLM2 and the four of `mini`. Which layer would you call positional?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 132  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, the model, and one run over the texts"}
import json

import numpy as np
import pandas as pd
import torch
from einops import rearrange

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
kept = json.loads(cb.evidence("deeper_mini.json").read_text())["mini"]  # from many more texts
deeper = json.loads(cb.evidence("deeper.json").read_text())  # of SmolLM2
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, or_all=True)
n, L = study.n, model.cfg.n_layers
SECOND = min(1, L - 1)  # where a model has one; counted from 0
half_A, half_B = cb.halves(study.texts)
x_A, x_B = map(study.fixed.prepare, (half_A, half_B))  # text source


def read(x, hooks=lambda texts: []):
    """At n, for each layer: the attention rows of its heads, and the stream behind it."""
    names = [f"blocks.{k}.{name}" for k in range(L) for name in ("attn.hook_pattern", "hook_resid_post")]  # fmt: skip
    found = []
    for texts in torch.arange(len(x)).split(4):
        with torch.inference_mode(), model.hooks(fwd_hooks=hooks(texts)):
            _, seen = model.run_with_cache(x[texts], names_filter=names, stop_at_layer=L)
        found.append({k: v[..., -1, :].clone().cpu() for k, v in seen.items()})
    return {k.removeprefix("blocks."): torch.cat([of[k] for of in found]) for k in names}


def scores(run, layer):
    """`text head source`, without BOS, each row less its mean."""
    s = run[f"{layer}.attn.hook_pattern"][..., 1:].clamp_min(1e-30).log()
    return s - s.mean(-1, keepdim=True)


def by_token(v, x):
    """The sum over all sources that hold a token: `head token`."""
    total = torch.zeros(v.shape[1], weights.d_vocab)
    return total.index_add_(1, x[:, 1:].flatten(), rearrange(v, "t h i -> h (t i)"))


run_A, run_B = read(x_A), read(x_B)

# %% tags=["hide-input"]
LAYERS = [f"{cb.in_prose(k + 1, 'ordinal')} layer" for k in range(len(kept["shares"]))]
LOOK = {"position": "C0", "token": "C1", "rest": "C7"}
few_texts, _, many_texts = kept["texts"]["tables"]
smol = {int(k): [v["position"][0], v["position and token"][0]] for k, v in deeper["layers"].items()}
of_smol = np.array([[p, both - p, 1 - both] for p, both in smol.values()])  # layer part
of_layer = np.array([np.mean(of_head, axis=1) for of_head in kept["shares"]])  # layer part
drawn = {"SmolLM2": (of_smol, [k + 1 for k in smol]), "mini": (of_layer, range(1, len(LAYERS) + 1))}
of_heads = {"SmolLM2": [of["position and token"] for of in deeper["heads"].values()]}
of_heads["mini"] = [1 - np.array(of_head[2]) for of_head in kept["shares"]]
figure, (axes,) = cb.figures.panels(1, 2, height=2.8, width=9, sharey=True, width_ratios=[3, 1])
for axis, (name, (parts, layers)) in zip(axes, drawn.items(), strict=True):
    below = np.cumsum(parts, 1) - parts
    for k, color in enumerate(LOOK.values()):
        axis.bar(layers, parts[:, k], bottom=below[:, k], color=color)
    for layer, heads in zip(layers, of_heads[name], strict=True):
        axis.plot([layer] * len(heads), heads, ".", ms=3, color=cb.figures.INK)
    axis.set(
        title=name,
        xlabel="layer",
        ylim=(0, 1.2),
        yticks=np.linspace(0, 1, 6),
        xticks=layers[:: 1 + len(parts) // 15],
    )
    axis.grid(visible=False, axis="x")
for k, (part, color) in enumerate(LOOK.items()):
    axes[0].text(0.02 + 0.3 * k, 0.9, part, color=color, transform=axes[0].transAxes)
axes[0].set_ylabel("share of the variance of scores")
cb.figures.picture(
    figure,
    "14.1",
    f"What position and token explain of the scores, on texts that the tables have not seen. Bars: SmolLM2, all heads together, tables from {deeper['texts'][0]} texts; mini, the mean over its heads, tables from {many_texts} texts. Dots: position and token together, each head by itself. Layers are counted from 1 on this page.",
    "Stacked bars. "
    + "; ".join(f"{name}, layer {k}: position {p:.0%}, token {t:.0%}, rest {r:.0%}" for name, (of, ks) in drawn.items() for k, (p, t, r) in zip(ks, of, strict=True))
    + ".",
)  # fmt: skip

# %% [markdown]
r"""
In `mini` it is the second: its scores follow the position more than those of any other layer. {{?second_is_positional}} In SmolLM2 the second came first, too, among the five layers that we had read at first. With all of them it does not: {{more_positional}} are demonstrably more positional, led by layer {{top_layer}} with {{top_position}}. {{?second_is_not}} Above the second layer the grey rest grows in `mini` from layer to layer, and in SmolLM2 on the whole (the rank correlation of layer and share is {{by_depth}}). {{?rest_grows}} {{?smol_falls}} But not all of the rest is context. In the first layer none of it can be: it comes from tokens that the tables hardly know, and from sources where token and position do not simply add. How much is which? For the first layer the weights give both parts without any texts ([chapter 13](13_families)), so we can compare. In `mini` such an exact sum explains {{ceiling}} where the tables explain {{explained_first}}: most of what is missing is for want of texts. {{?mini_wants_texts}} In SmolLM2 the exact sum explains {{smol_ceiling}} and the tables {{smol_first}}, so texts account for {{smol_texts}} of what is missing, and position and token, which act together there, for the rest. {{?smol_interacts}}

## A table of two means

No weights split a state into position and content, but a table can. Say that a head scores *the* and *moon*, near the query and far from it, in a text about astronomy (A) and in a love song (L). Softmax ignores a constant, so we let the scores of each text have the mean zero:

{{= | | the, A | moon, A | the, L | moon, L | mean |
|---|---|---|---|---|---|
| near | −2 | 4 | 0 | 2 | **1** |
| far | −4 | 2 | −2 | 0 | **−1** |
| less the position | −3 | 3 | −1 | 1 | |
| token | −2 | 2 | −2 | 2 | |
| rest | −1 | 1 | 1 | −1 | | =}}

The part of the **position** is the mean of its row over the texts, {{= 1 =}} or {{= −1 =}}. Take it off, and both rows become the third. The part of the **token** is the mean of what is left over all its sources, for *moon* $(3 + 1)/2 = 2$. What then remains is the **rest**: in astronomy *moon* gets more than its part, in the love song less. The eight scores have the variance $6$, and this splits into $1$ for the position, $4$ for the token and $1$ for the rest. In the first layer a rest like this cannot occur, as both texts have the same token at the same position. Deeper, it can, and then it is the context.

For a head, with $s_i$ its score of source $i$ (less the mean of the row),

$$
s_i \;=\; \underbrace{p_i}_{\text{position}} + \underbrace{c(x_i)}_{\text{token}} + \text{rest} .
$$ (eq-depth-means)

Half A of the texts gives the tables: $p_i$ is the mean of $s_i$ over its texts, and $c(t)$ the mean of $s_i - p_i$ over all sources that hold the token $t$, weighted by the head's **kernel** $\text{pos} = \operatorname{softmax}(p)$, with two sources at zero added, so that rare tokens count for little. On half B we ask how much of the variance of the scores each part explains, as in the analysis of variance of [chapter 13](13_families).
"""


# %%
def two_means(s, x):
    """Kernel, position and token of heads, from their scores (text head source) and the tokens."""
    pos = s.mean(0).softmax(-1)
    s = s - (pos * s).sum(-1, keepdim=True)
    p, weight = s.mean(0), (pos * pos.shape[-1]).expand_as(s)
    return pos, p, by_token(weight * (s - p), x) / (by_token(weight, x) + 2)  # two more, at zero


means = [two_means(scores(run_A, layer), x_A) for layer in range(L)]
explained = []  # in each layer, by tables from half A, on half B
for layer, (pos, p, c) in enumerate(means):
    s = scores(run_B, layer)
    left = torch.stack([s, s - p - c[:, x_B[:, 1:]].transpose(0, 1)])
    left = (pos * (left - (pos * left).sum(-1, keepdim=True)) ** 2).sum(-1)  # what, text, head
    explained.append(1 - float((left[1].mean(0) / left[0].mean(0)).mean()))

# %% [markdown]
r"""
## Is the rest the context?

A table knows little about a token that it has hardly seen, and whatever it does not know counts as rest. So we ask, for `mini`, whether the rest comes again. Take two texts of different domains that have the same token about equally far back. What their rests have in common there is a fact about the token and its position, and only in the remainder can there be context. The last row of the table has the share in common (the mean product of the two rests, over the mean square). The rows above it say how much is explained, with tables from more and more texts, judged on {{fresh}} others.
"""

# %% tags=["hide-input", "nbval-check-output"]
table = {"position alone": of_layer[:, 0]}
table |= {f"position and token, {k} texts": of for k, of in kept["explained"].items()}
table["of the rest, in common"] = kept["in common"]
pd.DataFrame(table, LAYERS).T.map("{:.0%}".format)

# %% [markdown]
r"""
In the first layer, which has no context, {{common_first}} of the rest is in common, so the comparison finds what it should. {{?comparison_works}} In the fourth layer, the last of `mini`, it is {{common_fourth}}. So nearly all of the rest there can only be context, about two fifths of the variance of its scores. This holds for common tokens, the ones that two domains share. {{?rest_is_context}} (We had asked for at least {{= 80% =}} in the first layer and less than half in the fourth.) For SmolLM2 we set the same condition, and there the comparison does not work: even in the first layer only {{smol_common}} is in common, so the {{smol_common_20}} of layer {{= 21 =}} says nothing about the context. {{?smol_cannot}}

Why did our main condition fail, that the first layer is split best? With tables from {{few_texts}} texts the first layer comes out below the second, because its scores depend on the token most, and so it gains most from more texts. {{?first_needs_tokens}} {{?main_fails}} With tables from {{many_texts}} texts it is ahead, by {{ahead}} points ({{= 95% =}} interval: {{ahead_low}} to {{ahead_high}}), and each later layer is behind the one before. {{?first_two}} {{?fades}} We chose the larger tables after the failure. So we judged them again on texts held out until then, with the condition that every such interval lies above zero, and it does. (Kept, `tools/evidence/deeper_mini.py`; the cell above makes the small tables again.)

Is the second layer "almost entirely positional", as the post reports of many of GPT-2 small's second-layer heads {cite}`gibson2025contextual`? In `mini` it is mostly positional by scores, but not almost entirely by attention. A kernel without any token puts {{steadiest}} of the attention in the wrong place even in the head that it suits best, where a tenth is our reading of *almost entirely*. {{?not_positional}}

## What can go wrong

Everything is asked with one query token in the middle of the context, and but for Figure 14.1 this page is mostly about `mini`, a model of four layers. In SmolLM2 the query is not what makes the difference: even with each text's own query, the mean state of a token explains only {{smol_own}} of layer {{= 21 =}}. {{?not_the_query}} Nor is a prediction of a head's scores one of its output: the published recipe, carried into the second layer, ranks texts well but gets the amounts wrong, even for the {{chosen_count}} easiest heads. {{?recipe_fails}}

## Where this leaves us

Stay in the first layer, or measure the layer that you mean: position and token alone are not enough in any later one. The method is a map from tokens to neurons, read off the weights. It tells which texts move a neuron through the stable heads of the first layer, and by which words, but it does not replace the layer. [Chapter 15](15_lookups) goes on to particular neurons on particular prompts.

## Exercises

1. *Predict, then run.* Noise that is independent from source to source goes through a head with kernel pos. What share of its variance does the head pass on? Compare your formula with the last column of the table of noise under Evidence, for broad heads and for narrow ones.
2. *Break this.* Compute the tables from half B (`two_means(scores(run_B, layer), x_B)`), on which they are then judged. What becomes of `explained`, in which layers most, and why is it not to be believed?

```{admonition} Solutions
:class: dropdown

1. $\sum_i \text{pos}_i^2$, one over the effective tokens: variances of independent terms add. It is about right for broad heads, and too small for narrow ones, where the noise moves the rows, too.
2. It grows, most in the deeper layers: the mean of a token that occurs a few times takes in the rest of just those places. It is the reason for two halves.
```

## Evidence

**The circuit through the second layer.** Can the circuit be continued? We take the {{chosen_count}} heads of the second layer that are broad and have stable denominators ({{chosen}}), and predict what they add to the {{= 100 =}} neurons that they move most, {{small}} of these neurons' standard deviation, from the two means, a mean denominator, and values at each source. The published recipe computes the values from a first layer with one page's constants, Equation 1 from one with each text's own denominators. There are two rivals: the mean of the text's domain, and kernel and content with each token's mean value in other texts.

From a first layer rebuilt by Equation 1, the prediction is as good as from the true states. {{?as_good}} The published recipe ranks texts well, too, and better than mean values for each token. But its squared error is larger than the variance, so its amounts are worse than those of a constant. {{?recipe_fails}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The circuit and its rivals (kept)"}
ladder = pd.DataFrame(kept["ladder"]).T
*plain, recipe, equation_1, true_states = ladder.index
ladder.rename(columns={"fvu": "FVU"}).round(2).rename_axis("values from")

# %% [markdown]
r"""
**Do later layers average errors away?** The circuit of [chapter 5](05_circuit) divides by the same denominator in every text, so each head of the first layer writes an output of the wrong length. The post hopes that "future layers might use an averaging head to remove the noise". We make this noise and nothing else: what each first-layer head writes at a position is multiplied by its denominator there over the mean denominator of other texts,

$$
z^h_i \;\to\; z^h_i \cdot \frac{\text{denom}^h_i(\text{text})}{\overline{\text{denom}^h_i}} .
$$ (eq-depth-noise)

Then we follow, from layer to layer, how far this moves the stream at the query. The stream grows from layer to layer, so what counts is a share: the variance of the disturbance over texts, divided by that of the stream.
"""

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "The noise, put into the first layer"}
half = slice(0, len(half_B) // 2)  # of the texts of half B
along = lambda text: cx.lookups.denominators_along(study.fixed, text)  # head pos
with torch.inference_mode():
    D_A, D_B = (torch.stack([*map(along, x)]) for x in (x_A, x_B[half]))  # text head pos
factor = rearrange(D_B / D_A.mean(0), "text head pos -> text pos head 1")
louder = lambda texts: [("blocks.0.attn.hook_z", lambda z, hook: z * factor[texts].to(z))]
noisy = read(x_B[half], louder)


def variance(v):
    """About the mean over texts, summed over dimensions."""
    v = v - v.mean(-1, keepdim=True)
    return (v - v.mean(0)).square().sum(-1)


at = [f"{layer}.hook_resid_post" for layer in range(L)]
noise = torch.stack([variance(noisy[k] - run_B[k][half]) for k in at]).numpy()  # layer text
signal = torch.stack([variance(run_B[k][half]) for k in at]).numpy()
part = noise.mean(1) / signal.mean(1)  # layer: what counts

# %% tags=["hide-input", "nbval-check-output"]
after = {MODEL.rpartition("/")[2]: part}
pd.DataFrame(after, LAYERS[:L]).T.map("{:.1%}".format).rename_axis("noise / stream after")

# %% [markdown]
r"""
In `{{model}}` the share falls to less than half. {{?outgrown}} But the noise is not averaged away: it is larger after the last layer than after the first, and the stream has grown more. {{?noise_grows}}

Averaging fails for a reason that [chapter 4](04_denominators) has met. A broad head does remove noise that is independent from source to source: of noise whose factors are permuted among the texts at each source, the broad heads of the second layer pass on {{passed_permuted}}. Of the real noise they pass on {{passed}}. {{?passed_on}} A text whose denominators are too large at one position tends to have them too large at all others, because it has a topic, and no average removes what all its members share.

**Noise that is passed on.** The noise of the second layer's values is weighted by the kernel, and compared with what the head writes. *Permuted* means that the factors of {eq}`eq-depth-noise` are permuted among the texts, for each head and position on its own. The condition fixed in advance was about all heads of the layer, narrow ones, too: in the median head, real noise was to pass more than twice as easily as permuted noise. That is undecided. {{?of_all_heads}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How much of the noise each head of the second layer passes on (kept)"}
on = pd.DataFrame(kept["noise"]).rename_axis("head")
on.round(3)

# %% [markdown]
r"""
**Order and repetition.** Could heads of the second layer average pairs of tokens that a narrow head below has marked, as the post remarks? `{{model}}` has no narrow head in its first layer, so this cannot be tested. {{?no_narrow}} Could they tell how repetitive a text is? Of two pieces U and V, the texts UU and VV hold together what UV and VU hold. Half A gives the direction from one kind to the other in the stream, and the AUC says how often, within a pair, a repeated text of half B lies further along it. It is {{auc_second}} after the second layer, but already {{auc_first}} after the first, so the second layer's heads are not shown to compute it. {{?already_told}}

**Positional neurons.** Are there neurons that mostly tell where in the text they are? Call one positional if the position explains half of the variance of its pre-activation, over texts and the positions {{= 1 =}} to {{= 256 =}}. In the first layer of `mini` {{positional}} of the neurons are, and in later layers none. {{?none_later}} With positions permuted within each text, position explains at most {{positional_null}} of any neuron. (Kept, `tools/evidence/open_rows.py`.)

**The eight conditions.** They were set before anything was measured, for all tokens and tables from {{few_texts}} texts, judged on half B of these. One holds, two failed, {{undecided}} are undecided and {{untestable}} cannot be tested. {{?came_out}} The second and the third are about the token alone, of the variance that the position leaves. {{?token_fades}} The other lines were asked later, the last three after a reading of this page. Intervals redraw documents or domains, whichever makes them wider; the tables stay as they are.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The conditions, and what became of each (kept)"}
conditions = pd.DataFrame(kept["conditions"])
least_ahead = min((cb.Estimate(*v) for v in deeper["second less"].values()), key=lambda v: v.low)
by_depth, wanting = (cb.Estimate(*deeper[k]) for k in ("by depth", "for want of texts"))
values = [cb.Estimate(*found) for found in conditions["found"]]
assert np.isclose(1 - explained[SECOND], values[0].value * (1 - explained[0]), rtol=0.01) or MODEL != "mini"  # fmt: skip
LATER = {
    "later, SmolLM2: position explains more of the second layer than of any other, by": (least_ahead, least_ahead.low > 0, least_ahead.high < 0),
    "later, SmolLM2: less is explained the deeper a layer lies, rank correlation": (by_depth, by_depth.high < 0, by_depth.low > 0),
    "later, SmolLM2: of the first layer's rest, for want of texts": (wanting, wanting.low > 0.5, wanting.high < 0.5),
}  # fmt: skip
bounds = dict(zip(LATER, ("above 0", "below 0", "above 0.5"), strict=True))
for words, (of, holds, fails) in LATER.items():
    came = "holds" if holds else "fails" if fails else "undecided"
    conditions.loc[len(conditions)] = {"condition": words, "holds if": bounds[words], "found": of, "came out": came}  # fmt: skip
values += [of for of, *_ in LATER.values()]
conditions.index = [*range(1, 9), *[""] * (len(conditions) - 8)]
conditions.assign(found=[f"{v:.3f} by {v.unit}" if v.unit else f"{v.value:.2f}" for v in values])

# %% [markdown]
r"""
**The published claims.** The bounds are this book's reading of the post, set before anything was measured, but for the pairs of the last line. The first two lines judge rows, as the post does; by scores the second layer is the more positional one. The third decides little: the share falls because the stream grows. The last two are kept.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
def far(layer):
    """TV of the model's rows to the kernel: `text head`."""
    row = run_B[f"{layer}.attn.hook_pattern"][..., 1:]
    return cx.total_variation(row / row.sum(-1, keepdim=True), means[layer][0])


tv = [far(layer) for layer in range(L)]
of_stream = lambda d: noise[:, d].mean(1) / signal[:, d].mean(1)


def measured(words, of, texts, there=True):
    """Words and what was drawn, number and interval; no number where the model lacks it."""
    found = of if isinstance(of, cb.Estimate) else cb.with_interval(of, texts, units=cb.WIDER)
    return (f"{words} (drawn: {found.unit}s)", *found.for_claim) if there else (words, np.nan)


pairs, repeated = cb.Estimate(*kept["pairs"]), cb.Estimate(*kept["repeated"])
cb.ledger(
    model,
    cb.Claim("deeper_positional", *measured(f"second-layer heads with rows within a TV of 0.1 of their kernel (the steadiest: {tv[SECOND].mean(0).min():.2f}), share", lambda d: (tv[SECOND][d].mean(0) <= 0.1).float().mean(), half_B)),
    cb.Claim("deeper_better_behaved", *measured("TV of rows to kernels, second layer over first", lambda d: tv[SECOND][d].mean() / tv[0][d].mean(), half_B, L > 1)),
    cb.Claim("noise_cleaned", *measured("share of noise in the stream, last layer over first, though the noise grows", lambda d: of_stream(d)[-1] / of_stream(d)[0], half_B[half], L > 1)),
    cb.Claim("bags_of_bigrams", *measured("what keeping half of the pairs of tokens saves, above a local head of the first layer", pairs, half_B, kept["narrow"] > 0)),
    cb.Claim("repetitiveness", *measured(f"AUC of repeated texts, after the second layer, within pairs (as first set, all with all: {kept['AUC']['all with all']:.2f})", repeated, half_B)),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
own_query = deeper["layers"]["20"]["mean stream, own query"][0]
ceiling, want = (cb.Estimate(*kept[k]) for k in ("exact sum", "for want of texts"))
of_position = np.array([place for place, _ in smol.values()])
became = conditions["came out"].tolist()
count = {word: became[:8].count(word) for word in ("holds", "fails", "undecided", "untestable")}
position, token, rest = of_layer.T
by_few, _, by_many = map(np.array, kept["explained"].values())
of_each, less_next = ([cb.Estimate(*of) for of in kept[k]] for k in ("of each", "less the next"))
common, broad = kept["in common"], kept["broad"]
percents = {
    "common_first": common[0],
    "common_fourth": common[-1],
    "steadiest": tv[SECOND].mean(0).min(),
    "passed": on["noise passed on"][broad].mean(),
    "passed_permuted": on["the same, permuted"][broad].mean(),
    "small": kept["of the neurons"],
}
counts = {"undecided": count["undecided"], "untestable": count["untestable"], "chosen_count": len(kept["chosen"])}  # fmt: skip
r, auc = ladder["r"], kept["AUC"]
at = json.loads(cb.evidence("open_rows.json").read_text())["positions"]
by_layer = [at[f"layer {k}"] for k in range(4)]
positional, *later = (of["positional"][0] for of in by_layer)
cb.facts(
    "depth",
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    **{name: cb.fact(v, "words") for name, v in counts.items()},
    model=MODEL.rpartition("/")[2], few_texts=few_texts, many_texts=many_texts,
    fresh=kept["texts"]["fresh"],
    came_out=[*count.values()] == [1, 2, 4, 1],
    main_fails=became[0] == "fails" and explained[0] < explained[SECOND],
    ahead=cb.fact(100 * less_next[0].value, ".1f"),
    ahead_low=cb.fact(100 * less_next[0].low, ".1f"),
    ahead_high=cb.fact(100 * less_next[0].high, ".1f"),
    first_two=less_next[0].low > 0,
    fades=min(v.low for v in less_next[1:]) > 0,
    explained_first=cb.fact(1 - rest[0], ".0%"),
    explained_fourth=cb.fact(1 - rest[-1], ".0%"),
    second_is_positional=position.argmax() == 1,
    more_positional=cb.fact(sum(of[2] < 0 for of in deeper["second less"].values()), "words", holds=least_ahead.high < 0),
    top_layer=int(of_position.argmax()) + 1, top_position=cb.fact(of_position.max(), ".0%"),
    second_is_not=least_ahead.high < 0 and max(smol, key=lambda k: smol[k][0] * (k in (0, 1, 5, 10, 20))) == 1,
    by_depth=cb.fact(by_depth.value), smol_falls=by_depth.high < 0,
    ceiling=cb.fact(ceiling.value, ".0%"), mini_wants_texts=want.low > 0.5,
    smol_ceiling=cb.fact(deeper["layers"]["0"]["exact sum"][0], ".0%"), smol_first=cb.fact(smol[0][1], ".0%"),
    smol_texts=cb.fact(wanting.value, ".0%"), smol_interacts=wanting.high < 0.5,
    rest_grows=bool((np.diff(rest) > 0).all()) and rest[1] < cb.ABOUT and abs(rest[-2] - 0.25) < cb.ABOUT and rest[-1] > max(position[-1], token[-1]),
    first_needs_tokens=token.argmax() == 0 and (by_many - by_few).argmax() == 0,
    token_fades=became[2] == "holds" and became[1] == "fails" and values[1].value > values[2].value,
    not_positional=percents["steadiest"] > 0.1,
    layers=len(smol),
    smol_own=cb.fact(own_query, ".0%"),
    not_the_query=own_query < smol[20][1] + 0.15 and own_query < smol[1][1] / 2,
    smol_common=cb.fact(deeper["in common"]["0"], ".0%"),
    smol_common_20=cb.fact(deeper["in common"]["20"], ".0%"),
    smol_cannot=deeper["in common"]["0"] < 0.8,
    smol_few=abs(1 - smol[0][1] - 0.2) < 0.05,
    outgrown=part[-1] < part[0] / 2, noise_grows=bool((np.diff(noise.mean(1)) > 0).all()),
    of_all_heads=became[3] == "undecided",
    comparison_works=common[0] >= 0.8,
    rest_is_context=common[-1] < cb.ABOUT and abs((1 - common[-1]) * rest[-1] - 0.4) < cb.ABOUT,
    passed_on=percents["passed_permuted"] < 0.05 and percents["passed"] > 5 * percents["passed_permuted"],
    chosen=cb.listed(kept["chosen"]), positional=cb.fact(positional, ".0%"),
    none_later=max(later) == 0,
    positional_null=cb.fact(max(of["null, largest"] for of in by_layer), ".1%"),
    as_good=r[equation_1] > max(cb.ALMOST_EXACTLY, r[true_states] - 0.01),
    recipe_fails=ladder["fvu"][recipe] > 1 > ladder["fvu"][plain].max() and r[recipe] > r[plain].max(),
    no_narrow=kept["narrow"] == 0, auc_first=cb.fact(auc["first"]),
    auc_second=cb.fact(auc["second"]),
    already_told=auc["first"] > auc["second"] - 0.05,
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The remarks on GPT-2 small's second layer are from the appendix of {cite:t}`gibson2025contextual`; the circuit, and the question whether it can be applied to deeper layers, from {cite:t}`gibson2025decomposing`. Splitting states into means over positions and over contexts is due to {cite:t}`song2023uncovering`. The tables by token, the eight conditions and the noise experiment are this book's.
"""
