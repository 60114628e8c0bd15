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
# What is left of the split in deeper layers?

**It fades with depth: position and token explain {{many_first}} of the variance of the attention scores in the first layer of `{{model}}`, {{many_second}} in the second, {{many_third}} in the third and {{many_fourth}} in the fourth. What replaces them in the fourth layer is the context.** {{?more_texts}} {{?rest_is_context}} But this is no test that we have passed. The main condition that we had fixed in advance asked for this order with tables made from {{few_texts}} texts, and it failed: there position and token explain {{first}} in the first layer and {{second}} in the second. {{?main_fails}} The numbers above are from {{many_texts}} texts, read after the failure. Of eight conditions {{holds}} holds. {{?came_out}}

In the first layer the score of a source depends on its token and its position, and on nothing else. In the second layer the key is read from a *state*, into which the first layer has mixed the rest of the text. So the same word at the same position may get another score in another text. Here are all heads, and what explains their scores. Which layer is positional?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 132  # how many texts of the collection are read: held-out documents of 22 domains
MORE = 800  # and how many for tables from more texts
TOKEN = " the"  # the query token
NEURONS = 100  # how many neurons of the second layer are judged
PIECE = 40  # tokens of a piece that is repeated, or not

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, the model, and one run over all texts"}
import json

import numpy as np
import pandas as pd
import torch
from einops import einsum, rearrange

import ctxbook as cb
import ctxlib as cx
from ctxlib.lookups.layers import input_weights, norm_scale

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, or_all=True)
n, L = study.n, model.cfg.n_layers
SECOND = min(1, L - 1)  # where a model has one; counted from 0
half_A, half_B = cb.halves(study.texts)
many_A, _ = cb.halves(cx.texts.collection(weights, MORE))
x_A, x_B, x_many = (study.fixed.prepare(of) for of in (half_A, half_B, many_A))  # text source
AT_N = ("attn.hook_pattern", "attn.hook_z", "hook_resid_mid", "hook_resid_post")


def read(x, hooks=lambda texts: [], layers=L):
    """At n, for each layer: attention rows, `z` of the heads, the stream before and after the MLP;
    and the values of the second layer's heads at all sources."""
    names = [f"blocks.{k}.{name}" for k in range(layers) for name in AT_N]
    names, found = [*names, f"blocks.{SECOND}.attn.hook_v"], []
    for texts in torch.arange(len(x)).split(4):
        with torch.inference_mode(), model.hooks(fwd_hooks=hooks(texts)):
            _, seen = model.run_with_cache(x[texts], names_filter=names, stop_at_layer=layers)
        rows = {k: v[:, :, -1] if "pattern" in k else v[:, -1] for k, v in seen.items()}
        rows[names[-1]] = seen[names[-1]]
        found.append({k: v.clone().cpu() for k, v in rows.items()})
    return {k.removeprefix("blocks."): torch.cat([of[k] for of in found]) for k in names}


def by_token(v, x):
    """The sum over all sources that hold a token: `head token`."""
    total = torch.zeros(v.shape[1], weights.d_vocab)
    return total.index_add_(1, x[:, 1:].flatten(), rearrange(v, "t h i -> h (t i)"))


def scores(run, layer, pos=None):
    """`text head source`, without BOS, each row less its mean, by the kernel where there is one."""
    s = run[f"{layer}.attn.hook_pattern"][..., 1:].clamp_min(1e-30).log()
    middle = s.mean(-1, keepdim=True) if pos is None else (pos * s).sum(-1, keepdim=True)
    return s - middle


def two_means(run, x, layer):
    """Kernel, position and token of a layer's heads: `head source`, `head source`, `head token`."""
    pos = scores(run, layer).mean(0).softmax(-1)
    s, weight = scores(run, layer, pos), pos * pos.shape[-1]
    p = s.mean(0)
    return pos, p, by_token(weight * (s - p), x) / (by_token(weight.expand_as(s), x) + 2)


def left_over(tables, layer):
    """Variance of half B's scores, and what is left of it without position, and without position
    and token: `part text head`. Sources count by the kernel."""
    pos, p, c = tables[layer]
    s, of_token = scores(run_B, layer), c[:, x_B[:, 1:]].transpose(0, 1)
    left = torch.stack([s, s - p, s - p - of_token])
    return (pos * (left - (pos * left).sum(-1, keepdim=True)) ** 2).sum(-1)


def shares(left):
    """Of position, token and the rest, from what is left of the variance: `part head`."""
    total, no_position, rest = left.mean(1)
    return torch.stack([total - no_position, no_position - rest, rest]) / total


def with_texts(count):
    """What is left over with tables from the first texts of many."""
    part = {k: v[:count] for k, v in run_many.items()}
    return [left_over([two_means(part, x_many[:count], k) for k in range(L)], k) for k in range(L)]


def in_common(layer):
    """The share of the rest that texts of two domains have in common, where they have the same
    token about as far back (1, 2 to 3, 4 to 7 ... tokens): `head`."""
    pos, p, c = from_many[layer]
    left = scores(run_B, layer) - p - c[:, x_B[:, 1:]].transpose(0, 1)
    left = (left - (pos * left).sum(-1, keepdim=True)).double()
    at = pd.DataFrame({"token": x_B[:, 1:].flatten()})
    at["back"] = np.tile(np.log2(np.arange(left.shape[-1], 0, -1)).astype(int), len(x_B))
    at["domain"] = np.repeat([text.domain for text in half_B], left.shape[-1])
    place, shares = ["token", "back"], []
    for e, w in zip(left.transpose(0, 1), pos.double(), strict=True):
        rest = at.assign(e=e.flatten(), w=w.repeat(len(e)), square=(w * e**2).flatten(), count=1)
        total = rest.groupby(place)[["e", "w", "square", "count"]].sum()
        own = rest.groupby([*place, "domain"])[["e", "count"]].sum().pow(2).groupby(place).sum()
        pairs = total["count"] ** 2 - own["count"]  # of two domains
        total = total[pairs > 0].assign(product=(total["e"] ** 2 - own["e"]) / pairs)
        shares.append((total["w"] * total["product"]).sum() / total["square"].sum())
    return shares


run_A, run_B, run_many = read(x_A), read(x_B), read(x_many)
means, from_many = ([two_means(run, x, k) for k in range(L)] for run, x in ((run_A, x_A), (run_many, x_many)))  # fmt: skip
few, many = ([left_over(tables, k) for k in range(L)] for tables in (means, from_many))  # left over

# %% tags=["hide-input"]
LAYERS = [f"{cb.in_prose(k + 1, 'ordinal')} layer" for k in range(L)]
figure, axes = cb.figures.panels(1, L, height=2.7, width=8.6, sharey=True)
of_layer = torch.stack([shares(v).mean(1) for v in many]).numpy()  # layer part
for left, name, axis in zip(many, LAYERS, axes[0], strict=True):
    parts = shares(left).numpy()
    for k, part in enumerate(parts):
        axis.bar(range(len(part)), part, bottom=parts[:k].sum(0), color=f"C{(0, 1, 7)[k]}")
    axis.set(title=name, xlabel="head", ylim=(0, 1.24), xticks=range(len(part)))
    axis.set_yticks(np.linspace(0, 1, 6))
    axis.grid(visible=False, axis="x")
for k, part in enumerate(("position", "token", "rest")):
    place = {"transform": axes[0, 0].transAxes, "fontsize": 9}
    axes[0, 0].text(0.02 + 0.42 * k, 0.9, part, color=f"C{(0, 1, 7)[k]}", **place)
axes[0, 0].set_ylabel("share of the variance of scores")
cb.figures.picture(
    figure,
    "14.1",
    f"What position and token explain of the scores of each head of {MODEL}: tables from {len(x_many)} texts, judged at all tokens of {len(x_B)} other texts. A bar is a head, counted from 0.",
    "Stacked bars. Means of a layer: "
    + "; ".join(f"{name} position {p:.0%}, token {t:.0%}, rest {r:.0%}" for name, (p, t, r) in zip(LAYERS, of_layer, strict=True))
    + ".",
)  # fmt: skip

# %% [markdown]
r"""
The second layer is the positional one: its scores follow the position more than those of the first layer do, and the token less. {{?second_is_positional}} The grey rest is small in the first two layers, a quarter in the third, and the largest part in the fourth. {{?rest_grows}} The rest is not all context. In the first layer none of it can be: it comes from tokens that the tables know badly, and from sources where token and position do not simply add.

## A table of two means

No weights split a state into position and content, but a table can. Say that a head scores *the* in two texts, and *moon* first in a text about astronomy and then in a love song, near the query and far from it:

{{= | | the | moon | moon | mean |
|---|---|---|---|---|
| near | 2 | 5 | 3 | **3** |
| far | 0 | 3 | 1 | **1** | =}}

The part of the **position** is the mean of a row over the texts. Take it off, and the part of the **token** is the mean of what is left: {{= +1 =}} for *moon* and {{= −1 =}} for *the*. The **rest** is {{= +1 =}} for *moon* in the text about astronomy and {{= −1 =}} in the love song. In the first layer a rest like this cannot occur, as both texts have the same token at the same place. Deeper, it can, and then it is the context.

For a head, with $s_i$ its score of source $i$ (less the mean of the row),

$$
\begin{gathered}
s_i \;=\; \underbrace{p_i}_{\text{position}} + \underbrace{c(x_i)}_{\text{token}} + \text{rest} , \\
\text{pos} = \operatorname{softmax}(p) .
\end{gathered}
$$ (eq-depth-means)

Half A of the texts gives the tables: $p_i$ is the mean of $s_i$ over its texts, and $c(t)$ the mean of $s_i - p_i$ over all sources that hold the token $t$, weighted by the head's **kernel** pos and drawn a little towards zero. On half B we ask how much of the variance of the scores each part explains, as in the analysis of variance of [chapter 13](13_families).
"""

# %%
layer, head = SECOND, 0
s = scores(run_A, layer)[:, head]  # text source
p = s.mean(0)  # source: the part of the position
kernel = p.softmax(-1)
rest = (s - (kernel * s).sum(-1, keepdim=True)) - (p - kernel @ p)
often = x_A[:, 1:].flatten().mode().values
moon = x_A[:, 1:] == often  # the most frequent token, in place of the moon
c = (kernel * rest)[moon].sum() / (kernel.expand_as(rest)[moon].sum() + 2 / n)  # two more, at zero
assert torch.allclose(c, means[layer][2][head, often], atol=1e-3)

# %% [markdown]
r"""
## Is the rest the context?

A table knows little about a token that it has hardly seen, and whatever it does not know counts as rest. So we read more texts. And where two texts of different domains have the same token about equally far back, we ask how much of the rest they have in common (the mean product of their rests, over the mean square). What they have in common is a fact about the token and its place. Only the remainder can be context. (We fixed in advance that in the first layer, which has no context, at least {{= 80% =}} of the rest should be common, and in the fourth less than half.)
"""


# %% tags=["hide-input", "nbval-check-output"]
common = np.array([np.mean(in_common(k)) for k in range(L)])
some = {len(x_A): few, 150: with_texts(150), len(x_many): many}
explained = {"position alone": [float(1 - shares(v)[1:].sum(0).mean()) for v in many]}
for count, of in some.items():
    explained[f"position and token, {count} texts"] = [float(1 - shares(v)[2].mean()) for v in of]
explained["of the rest, in common"] = common
pd.DataFrame(explained, LAYERS).T.map("{:.0%}".format)

# %% [markdown]
r"""
In the first layer, {{common_first}} of the rest is common to texts that share nothing but the token and its place, so the comparison finds what it should. {{?comparison_works}} In the second layer it is {{common_second}}, and in the fourth {{common_fourth}}. So nearly all of the rest in the fourth layer can only be context, and so is about two fifths of the variance of its scores. {{?rest_is_context}}

More texts help most in the first layer, where scores depend on the token more than anywhere else. {{?first_needs_tokens}} Of the eight conditions that we had fixed in advance {{fail}} failed, {{undecided}} are undecided and {{untestable}} cannot be tested. The main one failed for this reason: with the tables of {{few_texts}} texts the first layer comes out behind the second, and with those of {{many_texts}} just before it, and each deeper layer falls behind the one before. {{?more_texts}} Two more conditions are about the token alone. Of the variance that the position leaves, it explains at most {{token_deeper}} in the deeper layers, where we had asked for less than {{= 80% =}}, and this is the one that held. In the first layer it explains {{token_first}}, where we had asked for more than {{= 80% =}}, and this is the other that failed. {{?token_fades}}

Is the second layer "almost entirely positional", as the post reports of many of GPT-2 small's second-layer heads {cite}`gibson2025contextual`? By scores it is mostly positional, by attention it is not. A kernel without any token puts {{steadiest}} of the attention in the wrong place even in the head that it suits best, where a tenth is our reading of *almost entirely*. On average over the heads it is {{tv_kernel}}, as much as in the first layer or more, and with the token's part {{tv_both}}. {{?not_positional}}

## Do later layers average errors away?

The circuit of [chapter 5](05_circuit) divides by the same denominator in every text, so each head of the first layer writes an output of the wrong length. The post hopes that "future layers might use an averaging head to remove the noise". We make this noise and nothing else: what each first-layer head writes at a position is multiplied by its denominator there over the mean denominator of other texts,

$$
z^h_i \;\to\; z^h_i \cdot \frac{\text{denom}^h_i(\text{text})}{\overline{\text{denom}^h_i}} .
$$ (eq-depth-noise)

Then we follow, from layer to layer, how far this moves the stream at the query. The stream grows from layer to layer, so what counts is a share: the variance of the disturbance over texts, divided by that of the stream.
"""

# %%
half = slice(0, len(half_B) // 2)  # of the texts of half B
along = lambda text: cx.lookups.denominators_along(study.fixed, text)  # head pos
with torch.inference_mode():
    D_A, D_B = (torch.stack([*map(along, x)]) for x in (x_A, x_B[half]))  # text head pos
factor = D_B / D_A.mean(0)


def times(factor):
    """Hooks: what the first layer's heads write, multiplied."""
    factor = rearrange(factor, "text head pos -> text pos head 1")
    return lambda texts: [("blocks.0.attn.hook_z", lambda z, hook: z * factor[texts].to(z))]


noisy = read(x_B[half], times(factor))


def variance(v):
    """About the mean over texts, summed over dimensions."""
    v = v - v.mean(-1, keepdim=True)
    return (v - v.mean(0)).square().sum(-1)


at = [f"{layer}.hook_resid_post" for layer in range(L)]
noise = torch.stack([variance(noisy[k] - run_B[k][half]) for k in at]).numpy()  # layer text
signal = torch.stack([variance(run_B[k][half]) for k in at]).numpy()
part = noise.mean(1) / signal.mean(1)  # layer: what counts


# %% tags=["hide-input", "nbval-check-output"]
deep = json.loads(cb.evidence("depth.json").read_text())  # of SmolLM2
noise_deep, signal_deep = (np.array(deep[of]) for of in ("noise", "signal"))
part_deep = noise_deep.mean(1) / signal_deep.mean(1)
parts = {MODEL.rpartition("/")[2]: part, "SmolLM2": part_deep}
after = {name: [*of[:L], of[-1]] for name, of in parts.items()}
table = pd.DataFrame(after, [*LAYERS, "last layer"]).T.map("{:.1%}".format)
table.rename_axis("noise / stream after")

# %% [markdown]
r"""
In `{{model}}` the share falls from {{noise_first}} to {{noise_last}}, and in SmolLM2, a model of {{layers}} layers, from {{deep_first}} times the stream's own variance to {{deep_last}} of it, most of it within two layers. {{?outgrown}} But the noise is not averaged away: it is larger after the last layer than after the first, and the stream has grown more. {{?noise_grows}}

Averaging fails for a reason that [chapter 4](04_denominators) has met. A broad head does remove noise that is independent from source to source: of noise whose factors are permuted among the texts at each source, the broad heads of the second layer pass on {{passed_permuted}}. Of the real noise they pass on {{passed}}. {{?passed_on}} (The condition fixed in advance was about all heads of that layer, narrow ones, too. In the median head, real noise was to pass more than twice as easily as permuted noise; it passes {{of_all_heads}} times as easily, {{of_all_low}} to {{of_all_high}}, which leaves this undecided.) A text whose denominators are too large at one position tends to have them too large at all others, because it has a topic, and no average removes what all its members share.

## What can go wrong

Everything is asked with one query token in the middle of the context, and mostly of one small model. In SmolLM2, position and token explain {{smol_0}} of the variance of the scores in the first layer, {{smol_1}} in the second, and {{smol_5}}, {{smol_10}} and {{smol_20}} in layers {{= 6, 11 and 21 =}} of {{layers}}. {{?smol_fades}} Nor is a prediction of a head's scores one of its output: the published recipe, carried into the second layer, ranks texts well but gets the amounts wrong, even for the {{chosen_count}} easiest heads. {{?recipe_fails}}

## What a user may trust

Chapters 11 to 14 come to this:

- **Trust the order.** One page of prose and the weights rank unseen texts as the stable heads do, in `mini`, Qwen and MiniLM. [Chapter 8](08_real_model) shows how to notice that it fails, as it does in SmolLM2.
- **Check the amounts.** They need more than one page: mean denominators, what positions add to values, or the denominators of each text, depending on the model ([chapter 11](11_evaluation)).
- **Do not put the published circuit into the model.** In `mini` it does more harm at the first positions than the average of what the heads add. With mean denominators and what positions add to values, it repairs {{causal.mended_silence}} of the damage that silencing the heads does, and {{causal.mended_home}} at its own position ([chapter 12](12_causal)).
- **With rotary positions the split is rough.** Expect errors of {{families.qwen}} to {{families.smollm2}} of the attention ([chapter 13](13_families)).
- **Stay in the first layer,** or in `mini` the first two. Behind them the context takes over, and no table of tokens and positions has it.

In short, the method is a map from tokens to neurons, read off the weights. It tells which texts a first-layer neuron responds to, and why, but it does not replace the layer. [Chapter 15](15_lookups) goes on to particular neurons on particular prompts.

## Exercises

1. *Predict, then run.* Noise that is independent from source to source goes through a head with kernel pos. What share of its variance does the head pass on? Compare your formula with `passed(permuted)` under Evidence, for broad heads and for narrow ones.
2. *Fill in* the kernels of all heads of the second layer from `s`, their scores on half A.
"""

# %%
s = scores(run_A, SECOND)  # text head source
mine = ...  # head source

# %% tags=["hide-input", "nbval-check-output"]
if mine is ...:
    print("not yet")
else:
    print("right" if torch.allclose(mine, means[SECOND][0], atol=1e-5) else "not this")

# %% [markdown]
r"""
3. *Break this.* Compute the tables from half B (`two_means(run_B, x_B, layer)`), on which they are then judged. Which of the three shares grows, in which layers most, and why is it not to be believed?

```{admonition} Solutions
:class: dropdown

1. $\sum_i \text{pos}_i^2$, one over the effective tokens: variances of independent terms add. It is about right for broad heads, and too small for narrow ones, where the noise moves the rows, too.
2. `mine = s.mean(0).softmax(-1)`
3. *Token*, most in the third layer: the mean of a token that occurs a few times takes in the rest of just those places. It is the reason for two halves.
```

## Evidence

**The circuit through the second layer.** Can the circuit be continued? We take the {{chosen_count}} heads of the second layer that are broad and have steady denominators ({{chosen}}), and predict what they add to the {{neurons}} neurons that they move most, {{small}} of these neurons' standard deviation. With the kernel and content of {eq}`eq-depth-means`, a mean denominator, and $b_h$ the mean weight of BOS,

$$
\begin{aligned}
\text{approx}_j &= \sum_h u^h\, W_O^h \cdot \frac{W_\text{in}[:, j]}{s} , \\
u^h &= b_h\, v^h_0 + (1 - b_h)\, z^h , \\
z^h &= \sum_{i \ge 1} \frac{\text{pos}^h_i\, e^{c_h(x_i)}}{\text{denom}_h}\; v^h_i .
\end{aligned}
$$ (eq-depth-circuit)

The values $v^h_i$ need the state at each source. The published recipe, which we extend to all sources, computes it from a first layer with one page's constants. Equation 1, with each text's own denominators, is nearly the layer itself. There are two rivals. One is the mean of the text's domain. The other keeps kernel and content, and gives each token the mean of its values in other texts, so that it knows the tokens of the text but not its context.

From a first layer rebuilt by Equation 1, the prediction is as good as from the true states, with a median correlation of {{r_equation}}. {{?as_good}} So two means describe these heads well. With mean values for each token, the better of the rivals, the correlation is {{r_plain}}. The published recipe ranks texts well, too ({{r_recipe}}), but its amounts are worse than those of a constant, for its squared error is {{fvu_recipe}} times the variance. We had asked in advance for a correlation above {{= 0.9 =}}, and whether it passes is undecided.
"""

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "What the second layer's heads add to the neurons"}
reach = [cx.effective_tokens(pos).numpy() for pos, *_ in means]  # each: head
broad = [np.flatnonzero(of > cx.heads.BROAD) for of in reach]
pos, _, c = means[SECOND]
denoms = (pos[:, None] * c[:, x_A[:, 1:]].exp()).sum(-1)  # head text
steady = (denoms.std(1) / denoms.mean(1)).numpy() < study.max_cv
chosen = [h for h in broad[SECOND].tolist() if steady[h]] or list(range(len(pos)))
W_in = input_weights(model, SECOND)[0].cpu()
W_O = model.blocks[SECOND].attn.W_O.detach().cpu()
values = lambda run: run[f"{SECOND}.attn.hook_v"][:, 1:, chosen]  # text source head d_head
scale = lambda run: norm_scale(model, run[f"{SECOND}.hook_resid_mid"])[:, None]


def to_neurons(z, scale):
    out = einsum(z, W_O[chosen], "t h d, h d m -> t m")
    return (out - out.mean(-1, keepdim=True)) @ W_in / scale


# %% tags=["hide-cell"] mystnb={"code_prompt_show": "The circuit"}
pos, _, c = (v[chosen] for v in means[SECOND])
weigh = lambda x: pos * c[:, x[:, 1:]].transpose(0, 1).exp()  # text head source
denom, s = weigh(x_A).sum(-1).mean(0), scale(run_A).mean()
b = run_A[f"{SECOND}.attn.hook_pattern"][:, chosen, 0].mean(0)
v_0 = run_A[f"{SECOND}.attn.hook_v"][0, 0, chosen]  # the one state of BOS


def approx(x, v):
    """What the heads add to the neurons, v their values at the sources 1 to n: `text neuron`."""
    z = einsum(weigh(x) / denom[:, None], v, "t h i, t i h d -> t h d")
    return to_neurons(b[:, None] * v_0 + (1 - b)[:, None] * z, s)


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The circuit and its rivals"}
def token_values(run, x):
    """Mean values of each token over x, a few drawn towards the mean of all: `token head d`."""
    v, middle = values(run), values(run).mean((0, 1))
    tokens, total = x[:, 1:].flatten(), torch.zeros(weights.d_vocab, *middle.shape)
    total.index_add_(0, tokens, (v - middle).flatten(0, 1))
    return middle + total / (tokens.bincount(minlength=len(total)) + 2)[:, None, None]


def read_with(stand_in):
    """Half B, with the first layer's stable heads replaced by what a function makes of a text."""
    with torch.inference_mode():
        z = torch.stack([stand_in(text) for text in x_B])
    put = cx.lookups.replace_z
    return read(x_B, lambda texts: [put(0, study.heads, z[texts])], SECOND + 1)


page = cx.lookups.denominators_along(study.fixed, study.calibration_text)
published = read_with(lambda text: cx.lookups.circuit_z(study.circuit, text, page))
by_equation = read_with(lambda text: cx.lookups.self_normalized_z(study.circuit, text))
T_A, T = (to_neurons(run[f"{SECOND}.attn.hook_z"][:, chosen], scale(run)) for run in (run_A, run_B))
J = T_A.std(0).argsort(descending=True)[:NEURONS].tolist()
kinds_A, kinds = ([text.domain for text in of] for of in (half_A, half_B))
guesses = {
    "mean of the domain": cb.domain_mean(T_A, kinds_A, kinds),
    f"kernel, content, the token's mean values ({len(x_many)} texts)": approx(x_B, token_values(run_many, x_many)[x_B[:, 1:]]),
    "published recipe": approx(x_B, values(published)),
    "Equation 1": approx(x_B, values(by_equation)),
    "true states": approx(x_B, values(run_B)),
}  # fmt: skip
ladder = pd.DataFrame({k: cx.evaluation.Moments.of(v[:, J], T[:, J]).table(J)[["r", "fvu"]].median() for k, v in guesses.items()}).T  # fmt: skip
*plain, recipe, equation_1, true_states = ladder.index
ladder.rename(columns={"fvu": "FVU"}).round(2).rename_axis("values from")

# %% [markdown]
r"""
**Noise that is passed on.** The noise of the second layer's values is weighted by the kernel, and compared with what the head writes. *Permuted* means that the factors of {eq}`eq-depth-noise` are permuted among the texts, for each head and position on its own. In SmolLM2 the noise is that of the first layer's stable heads, in {{deep_texts}} texts.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How much of the noise each head of the second layer passes on"}
def products(run):
    """Of each two texts, in what a noisy run has beyond the plain one: of the values of the second
    layer's heads, weighted by the kernel, and of what they write; `head text text` each."""
    v, z = (run[at] - run_B[at][half] for at in (f"{SECOND}.attn.hook_{k}" for k in "vz"))
    v = (v - v.mean(0))[:, 1:] * rearrange(means[SECOND][0].sqrt(), "h i -> i h 1")
    z = (z - z.mean(0))[:, None]
    return [einsum(a, a, "t i h d, u i h d -> h t u") for a in (v, z)]


def passed(products, drawn):
    """The share of the noise in its values that a head passes on, over the texts drawn."""
    w = torch.from_numpy(np.bincount(drawn, minlength=products[0].shape[-1]) / len(drawn)).float()
    inside, written = (p.diagonal(dim1=1, dim2=2) @ w - p @ w @ w for p in products)
    return (written / inside).numpy()


permutation = torch.rand(factor.shape, generator=torch.Generator().manual_seed(0)).argsort(0)
real, permuted = products(noisy), products(read(x_B[half], times(factor.gather(0, permutation)), SECOND + 1))  # fmt: skip
on = pd.DataFrame({"effective tokens": reach[SECOND].round().astype(int)}).rename_axis("head")
on["noise passed on"], on["the same, permuted"] = (passed(of, range(len(noisy[at[0]]))) for of in (real, permuted))  # fmt: skip
on.round(3)

# %% [markdown]
r"""
**Order and repetition.** Two remarks of the post are about what heads of the second layer could compute. They could average pairs of tokens that a narrow head below has marked, so we shuffle the tokens of {{= 20 =}} texts in blocks of one, two and {{= 32 =}}, and see how much less changes if pairs are kept. `{{model}}` has no narrow head in its first layer, so this cannot be tested. {{?no_narrow}} And they could tell how repetitive a text is. Of two pieces U and V, the texts UU and VV hold together what UV and VU hold. Half A gives the direction from one kind to the other in the stream, and the AUC says how often, within a pair, a repeated text of half B lies further along it. It is {{auc_second}} after the second layer, but already {{auc_first}} after the first, so the second layer's heads are not shown to compute it. {{?already_told}}
"""


# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Shuffled texts, and repeated ones"}
def shuffled(x, b):
    """Each text in blocks of b tokens, these in another order; BOS and the last token stay."""
    chance, y, m = torch.Generator().manual_seed(0), x.clone(), (x.shape[1] - 2) // b
    for text in y:
        order = torch.randperm(m, generator=chance)
        text[-1 - m * b : -1] = text[-1 - m * b : -1].reshape(m, b)[order].flatten()
    return y


def written(run, layer):
    """What each broad head writes at n: `text head d_model`."""
    z, W_O = run[f"{layer}.attn.hook_z"], model.blocks[layer].attn.W_O.detach().cpu()
    out = einsum(z, W_O, "text head d, head d d_model -> text head d_model")[:, broad[layer]]
    return out - out.mean(-1, keepdim=True)


some, changed = 20, {}
for b in (1, 2, 32):
    run = read(shuffled(x_B[:some], b), layers=SECOND + 1)
    for layer in (0, SECOND):
        was = written(run_B, layer)
        off = (written(run, layer) - was[:some]).square().sum(-1) / variance(was).mean(0)
        changed[layer, b] = off.mean(1).numpy()  # in shares of the variance over texts


def repeated(texts):
    """UU, VV, UV, VU of two documents of each domain, and the first of the two."""
    of_domain = cb.first_windows(texts, 2).groupby("domain", sort=False)["text"]
    two = [of.tolist()[:2] for _, of in of_domain if len(of) > 1]
    made = []
    for U, V in ([text.tokens[1 : 1 + PIECE] for text in pair] for pair in two):
        for a, b in ((U, U), (V, V), (U, V), (V, U)):
            made.append(torch.cat([x_A[0, :1], a, b, x_A[0, -1:]]))
    return torch.stack(made), [u for u, _ in two]


def told_along(a, b):
    """What lies of b along the difference of the two kinds in a: `pair kind`."""
    a, b = (rearrange(v - v.mean(-1, keepdim=True), "(pair kind) d -> pair kind d", kind=4) for v in (a, b))  # fmt: skip
    return (b @ (a[:, :2] - a[:, 2:]).mean((0, 1))).numpy()


# how often a repeated text lies further along than another: of the same pieces, or any
in_pairs = lambda told: float((told[:, :2, None] > told[:, None, 2:]).mean())
of_all = lambda told: float((told[:, :2].reshape(-1, 1) > told[:, 2:].ravel()).mean())
(made_A, _), (made_B, firsts) = map(repeated, (half_A, half_B))
said_A, said_B = (read(x, layers=SECOND + 1) for x in (made_A, made_B))
first, above = (told_along(said_A[k], said_B[k]) for k in (at[0], at[SECOND]))

# %% [markdown]
r"""
**The eight conditions.** They were set before anything was measured, for all tokens and tables from {{few_texts}} texts. The fourth was first meant for all sources alike. The fifth divides by what may be nothing. The last two lines were asked later: after all texts had been compared with all, and after the first condition had failed. Intervals redraw the documents of half B or its domains, whichever makes them wider; the tables stay as they are.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The conditions, and what became of each"}
def with_ends(of, texts, draws=199):
    """Of all texts; the wider 95% interval, documents drawn or whole domains."""
    same = len({text.domain for text in texts}) == len(texts)
    return cb.with_interval(of, texts, draws, ["domain"] if same else cb.WIDER)


def about_scores(left):
    """The first three conditions, functions of the texts that are drawn."""
    parts = lambda d: torch.stack([shares(of[:, d]).mean(1) for of in left]).numpy().T  # part layer
    rest = lambda d: parts(d)[2]
    token = lambda d: parts(d)[1] / (1 - parts(d)[0])
    return lambda d: rest(d)[SECOND:].min() / rest(d)[0], lambda d: token(d)[0], lambda d: token(d)[SECOND:].max()  # fmt: skip


def verdict(found, sign, bound):
    if found.low < bound < found.high:
        return "undecided"
    return "holds" if sign * (found.value - bound) > 0 else "fails"


saved = lambda d, k: changed[k, 1][d].mean() - changed[k, 32][d].mean()  # by runs of 32 tokens
r_of = {name: cb.median_over_neurons("r", guess[:, J], T[:, J]) for name, guess in guesses.items()}
of_few, of_many = about_scores(few), about_scores(many)
of_B, of_some = half_B[half], half_B[:some]
asked = [
    ("least rest of a deeper layer, over the first's", of_few[0], half_B, 1, 1),
    ("token, of what the position leaves, first layer", of_few[1], half_B, 1, 0.8),
    ("the same, largest of deeper layers", of_few[2], half_B, -1, 0.8),
    ("noise over permuted noise passed on, median second-layer head", lambda d: np.median(passed(real, d) / passed(permuted, d)), of_B, 1, 2),
    ("what keeping runs of 32 saves when tokens are shuffled, second layer over first", lambda d: saved(d, SECOND) / saved(d, 0), of_some, 1, 2),
    ("AUC of repeated texts after the first layer, all with all", lambda d: of_all(first[d]), firsts, -1, 0.6),
    ("circuit through layer 2, published recipe: r", r_of[recipe], half_B, 1, 0.9),
    ("r lost to true states", lambda d: r_of[true_states](d) - r_of[recipe](d), half_B, -1, 0.05),
    ("later: the sixth within pairs", lambda d: in_pairs(first[d]), firsts, -1, 0.6),
    ("later: the first, with tables from more texts", of_many[0], half_B, 1, 1),
]  # fmt: skip
conditions, of_all_heads = [], None
for k, (words, of, texts, sign, bound) in enumerate(asked):
    found = with_ends(of, texts, 499 if texts is firsts else 199)
    came, shown = verdict(found, sign, bound), f"{found:.3f} by {found.unit}"
    if k == 4 and with_ends(lambda d: saved(d, 0), texts).low < 0:
        came, shown = "untestable", f"{found.value:.2f}"
    of_all_heads = found if k == 3 else of_all_heads
    conditions.append((words, f"{'above' if sign > 0 else 'below'} {bound}", shown, came))
conditions = pd.DataFrame(conditions, [*range(1, 9), "", ""], ["condition", "holds if", "found", "came out"])  # fmt: skip
conditions

# %% [markdown]
r"""
**The published claims.** The bounds are this book's reading of the post, set before anything was measured, but for the pairs of the last line. The first two lines judge rows, as the post does; by scores the second layer is the more positional one. The third decides little: the share falls because the stream grows.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
tv, tv_both = [], []  # layer: text head
for layer, (pos, p, c) in enumerate(means):
    row = run_B[f"{layer}.attn.hook_pattern"][..., 1:]
    row = row / row.sum(-1, keepdim=True)
    both = (p + c[:, x_B[:, 1:]].transpose(0, 1)).softmax(-1)
    tv.append(cx.total_variation(row, pos))
    tv_both.append(cx.total_variation(row, both))
narrow = int((reach[0] < cx.heads.LOCAL).sum())
kept_pairs = changed[SECOND, 1] - changed[SECOND, 2]  # blocks of 2 keep half of them
of_stream = lambda d: noise[:, d].mean(1) / signal[:, d].mean(1)


def measured(words, of, texts, there=True):
    """Words and what was drawn, number and interval; no number where the model lacks it."""
    found = with_ends(of, texts, 999)
    return (f"{words} (drawn: {found.unit}s)", *found.for_claim) if there else (words, np.nan)


cb.ledger(
    model,
    cb.Claim("deeper_positional", *measured(f"second-layer heads with rows within a TV of 0.1 of their kernel (the steadiest: {tv[SECOND].mean(0).min():.2f}), share", lambda d: (tv[SECOND][d].mean(0) <= 0.1).float().mean(), half_B)),
    cb.Claim("deeper_better_behaved", *measured("TV of rows to kernels, second layer over first", lambda d: tv[SECOND][d].mean() / tv[0][d].mean(), half_B, L > 1)),
    cb.Claim("noise_cleaned", *measured("share of noise in the stream, last layer over first, though the noise grows", lambda d: of_stream(d)[-1] / of_stream(d)[0], of_B, L > 1)),
    cb.Claim("bags_of_bigrams", *measured("what keeping half of the pairs of tokens saves, above a local head of the first layer", lambda d: kept_pairs[d].mean(), of_some, narrow > 0)),
    cb.Claim("repetitiveness", *measured(f"AUC of repeated texts, after the second layer, within pairs (as first set, all with all: {of_all(above):.2f})", lambda d: in_pairs(above[d]), firsts)),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
became = conditions["came out"].tolist()
count = {word: became[:8].count(word) for word in ("holds", "fails", "undecided", "untestable")}
position, token, rest = of_layer.T
moved = run_B[f"{SECOND}.hook_resid_mid"]
own = T[:, J].std(0) / ((moved - moved.mean(-1, keepdim=True)) @ W_in / scale(run_B))[:, J].std(0)
B2, every = broad[SECOND], np.arange(len(half_B))
_, by_few, _, by_many, _ = map(np.array, explained.values())
names = dict(zip(("first", "second", "third", "fourth"), range(L), strict=False))
percents = {k: by_few[layer] for k, layer in names.items() if layer <= SECOND}
percents |= {f"many_{k}": by_many[layer] for k, layer in names.items()}
percents |= {f"common_{k}": common[layer] for k, layer in names.items() if k != "third"} | {
    "token_first": of_few[1](every),
    "token_deeper": of_few[2](every),
    "steadiest": tv[SECOND].mean(0).min(),
    "tv_kernel": tv[SECOND].mean(),
    "tv_both": tv_both[SECOND].mean(),
    "passed": on["noise passed on"][B2].mean(),
    "passed_permuted": on["the same, permuted"][B2].mean(),
    "small": own.median(),
}
small = {"noise_first": part[0], "noise_last": part[-1], "deep_last": part_deep[-1]}
deeper = json.loads(cb.evidence("deeper.json").read_text())["layers"]  # of SmolLM2
smol = {int(k): of["position and token"][0] for k, of in deeper.items()}
counts = {"holds": count["holds"], "fail": count["fails"], "undecided": count["undecided"], "untestable": count["untestable"], "chosen_count": len(chosen)}  # fmt: skip
cb.facts(
    "depth",
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    **{name: cb.fact(v, ".1%") for name, v in small.items()},
    **{name: cb.fact(v, "words") for name, v in counts.items()},
    model=MODEL.rpartition("/")[2],
    few_texts=len(x_A),
    many_texts=len(x_many),
    came_out=[*count.values()] == [1, 2, 4, 1],
    main_fails=became[0] == "fails" and by_few[0] < by_few[SECOND],
    more_texts=became[9] == "holds" and bool((np.diff(by_many) < 0).all()),
    second_is_positional=position.argmax() == SECOND and token[SECOND] < token[0],
    rest_grows=bool((np.diff(rest) > 0).all()) and rest[SECOND] < cb.ABOUT and abs(rest[-2] - 0.25) < cb.ABOUT and rest[-1] > max(position[-1], token[-1]),
    first_needs_tokens=token.argmax() == 0 and (by_many - by_few).argmax() == 0,
    token_fades=became[2] == "holds" and became[1] == "fails" and percents["token_first"] > percents["token_deeper"],
    not_positional=percents["steadiest"] > 0.1 and percents["tv_kernel"] > max(float(tv[0].mean()), percents["tv_both"]),
    layers=len(part_deep),
    **{f"smol_{k}": cb.fact(share, ".0%") for k, share in smol.items()},
    smol_fades=min(smol[0], smol[1]) > max(smol[5], smol[10]) > smol[20],
    deep_first=cb.fact(part_deep[0], ".1f"),
    outgrown=part[-1] < part[0] / 2 and part_deep[-1] < part_deep[0] / 2 and part_deep[2:].max() < 0.05,
    noise_grows=bool((np.diff(noise.mean(1)) > 0).all()) and noise_deep[-1].mean() > noise_deep[0].mean(),
    deep_texts=noise_deep.shape[1],
    of_all_heads=cb.fact(of_all_heads.value, ".1f"),
    of_all_low=cb.fact(of_all_heads.low, ".1f"),
    of_all_high=cb.fact(of_all_heads.high, ".1f", holds=became[3] == "undecided"),
    comparison_works=common[0] >= 0.8,
    rest_is_context=common[-1] < cb.ABOUT and abs((1 - common[-1]) * rest[-1] - 0.4) < cb.ABOUT,
    passed_on=percents["passed_permuted"] < 0.05 and percents["passed"] > 5 * percents["passed_permuted"],
    chosen=cb.listed(chosen),
    neurons=len(J),
    r_equation=cb.fact(ladder.loc[equation_1, "r"]),
    r_plain=cb.fact(ladder.loc[plain, "r"].max()),
    r_recipe=cb.fact(ladder.loc[recipe, "r"]),
    fvu_recipe=cb.fact(ladder.loc[recipe, "fvu"], ".1f"),
    as_good=ladder.loc[equation_1, "r"] > max(cb.ALMOST_EXACTLY, ladder.loc[true_states, "r"] - 0.01),
    recipe_fails=ladder.loc[recipe, "fvu"] > 1 > ladder.loc[plain, "fvu"].max() and ladder.loc[recipe, "r"] > ladder.loc[plain, "r"].max() and became[6] == "undecided",
    no_narrow=narrow == 0,
    auc_first=cb.fact(in_pairs(first)),
    auc_second=cb.fact(in_pairs(above)),
    already_told=in_pairs(first) > in_pairs(above) - 0.05,
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The remarks on GPT-2 small's second layer are from the appendix of {cite:t}`gibson2025contextual`; the circuit, and the question whether it can be applied to deeper layers, from {cite:t}`gibson2025decomposing`. Splitting states into means over positions and over contexts is due to {cite:t}`song2023uncovering`. The tables by token, the eight conditions and the noise experiment are this book's.
"""
