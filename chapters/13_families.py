# %% [markdown]
r"""
# Does the split survive other kinds of positions?

**With ALiBi or without any positions the split is exact, which is algebra; with rotary positions, which most models use today, it survives only roughly.** {{?survives}} In SmolLM2, whose positions are rotary, the split of an attention row into position times content puts {{smollm2}} of the stable heads' attention in the wrong place, where position alone or content alone would put at least {{smollm2_rival}}. {{?both_parts}} Most of this a fit to the attention itself does not avoid either, because position and token act together. {{?mostly_interaction}} Of {{asked}} conditions, set before their results but some with numbers of an earlier form of this page in view, two failed, about how strongly they do. {{?quarter}} {{?not_the_fast}}

We derived the split for a position that is added to a token. To see what becomes of our split elsewhere, we trained four small models, the *twins*, that differ in their positions and in little else. In each picture a head scores three tokens by their distance to the query, *the*. If a score is a sum of one part for the distance and one for the token, the three curves run side by side. In which picture do they not?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To set another model beside the twins, name it here and run all cells again: MODEL = "gpt2", for one.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub: any decoder
READ = 512  # tokens of each text, where the model reads as many
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token
RUNS = None  # a folder of training runs: what other seeds give is then computed and kept

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the four twins, and the texts"}
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from einops import einsum

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole


def studied(name):
    """A decoder's first layer with TOKEN as the query: half A chooses its stable heads."""
    model = cx.load(name)
    reader = cx.texts.Reader.of(model, min(READ, model.cfg.n_ctx))
    passages, texts = cx.texts.passages(reader), cx.texts.collection(reader, TEXTS)
    n, (A, B) = min(len(t.tokens) for t in [*passages, *texts]) // 2, cb.halves(texts)
    one_token = len(model.tokenizer.encode(TOKEN, add_special_tokens=False)) == 1
    fixed = cx.fit_additive(model, A, n, TOKEN if one_token else int(A[0].tokens[1]))
    study = cx.study(fixed, A, or_all=True)
    share, sd = study.head_variance_share[study.heads], cx.additive.anova(fixed.decomposition)
    return SimpleNamespace(
        model=model, fixed=fixed, exact=fixed.exact, split=fixed.decomposition, study=study, A=A,
        B=B, x=fixed.prepare(B), heads=list(study.heads), share=(share / share.sum()).to_numpy(),
        sd=sd, left=(sd["interaction"] / sd["what"])[list(study.heads)],
    )  # fmt: skip


NAMES = {"learned": "base", "rotary": "rotary", "ALiBi": "alibi", "none": "none"}
twins = {kind: studied(f"mini-{name}") for kind, name in NAMES.items()}
learned, rotary, alibi, none = twins.values()
own, n = studied(MODEL), rotary.fixed.n
print(f"n = {n}, token {TOKEN!r}; {len(rotary.A)} texts of half A, {len(rotary.B)} of half B")
print(", ".join(f"{kind}: stable heads {one.heads}" for kind, one in twins.items()))

# %% tags=["hide-input"]
worst = {k: int(o.left.where(o.left > 1e-3, 0.0).idxmax()) for k, o in twins.items()}


def three(one, h):
    """Of the 300 most frequent tokens the one that the head likes most, a middle one, the last."""
    usual = one.split.frequency.argsort(descending=True, stable=True)[:300]
    liked = usual[one.split.log_content[h, usual].argsort(descending=True)]
    return liked[[0, len(liked) // 2, -1]].tolist()


curves = {}
figure, (axes,) = cb.figures.panels(1, len(twins), height=3.2, width=8.6, sharey=True)
for axis, (kind, one) in zip(axes, twins.items(), strict=True):
    h, tokens = worst[kind], three(one, worst[kind])
    stream = one.exact.E[tokens][:, None] + one.exact.position_offset  # token source d_model
    x_t = cx.layer_norm(stream, one.exact.readout.eps)
    scores = (one.exact.qk_direction[h] * x_t).sum(-1) + one.exact.qk_offset[h]
    curves[kind] = scores.flip(-1)[:, 1:n]  # token distance
    words = [ascii(one.model.tokenizer.decode([t])) for t in tokens]
    for k, curve in enumerate(curves[kind] - curves[kind].mean()):
        axis.plot(np.arange(1, n), curve, lw=1.2, color=f"C{k}")
        look = {"fontsize": 7.5, "family": "monospace", "parse_math": False, "color": f"C{k}"}
        axis.text(0.02 + 0.34 * k, 0.02, words[k], transform=axis.transAxes, **look)
    axis.set(title=f"{kind}, head {h}", xlabel="distance back")
axes[0].set_ylabel("score (nats)")
axes[0].set_ymargin(0.2)
cb.figures.picture(
    figure,
    "13.1",
    "Scores of three frequent tokens by their distance to the query, less the panel's mean. Each panel is the stable head in which position and token act together most, if they do at all; the tokens are the one of 300 that it likes most, a middle one, and the one that it likes least.",
    "Three curves a panel. They run side by side with ALiBi and with no positions, nearly so with learned ones, and change their distance with rotary ones. What acts together, over the token's own part: "
    + ", ".join(f"{kind} {one.left[worst[kind]]:.2f}" for kind, one in twins.items())
    + ".",
)

# %% [markdown]
r"""
With rotary positions the curves close up and open again. With ALiBi and with no positions they are copies of one another, and with learned positions nearly so.

The four kinds work like this. A **learned** position is a vector that is added to the token, as in `{{model}}`. **Rotary** positions turn query and key against each other, by an angle that grows with their distance {cite}`su2021roformer`. **ALiBi** subtracts from every score a number that grows with the distance {cite}`press2022train`. And a model can do with **none**, because the causal mask tells it what came before. Our twins have read a fifth of what `mini` has; this page has the first of four layers.

## What a score may depend on

A key of the first layer knows its token and its position, and nothing else of the text. It is linear in what it is read from, and turning it is linear as well. So with the query fixed, the score of token $t$ at source $i$ is

$$
\text{score}(i, t) \;=\; g_i \cdot x_t + c_i ,
$$ (eq-fam-score)

where $x_t$ is the normalised embedding of $t$, and each head has a vector $g_i$ and a number $c_i$ for every source. The kinds of positions differ in these two:

| positions | $g_i$ | $c_i$ |
|---|---|---|
| learned | the query | constant ($x_t$ has the position in it) |
| rotary | the query, turned by $n - i$ | constant, or the keys' bias, turned |
| ALiBi | the query | falls with $n - i$ |
| none | the query | constant |

Only where $g_i$ changes from source to source can position and token act together. We read both off the model, since $g_i$ is the derivative of the score by what the key reads.

Take two tokens and two distances. In the first head every score falls by one from near to far. In the second the two tokens change places:

{{= | | moon | the |
|---|---|---|
| first head, near | 2 | 0 |
| first head, far | 1 | −1 |
| second head, near | 2 | 0 |
| second head, far | −1 | 1 | =}}

The part of the position is the mean of its row, {{= 1 =}} for near and {{= 0 =}} for far in both heads. Take it off, and the part of a token is the mean of its column. In the first head *moon* gets {{= 1 =}} and *the* {{= −1 =}}, and the two parts add up to the score everywhere. In the second head both tokens get {{= 0 =}}: nearby *moon* scores {{= 1 =}} more than the sum of the parts, and far away {{= 1 =}} less. What is left over in this way is the **interaction** of position and token. This is an analysis of variance.

In a real head tokens count as often as they occur in texts, with frequency $f_t$, and sources as much as they are attended to:

$$
\begin{aligned}
\log \text{pos}_i &= g_i \cdot \bar x + c_i - \log Z , \\
\log \text{content}(t) &= \bar g \cdot (x_t - \bar x) , \\
\delta(i, t) &= (g_i - \bar g) \cdot (x_t - \bar x) , \\
\text{with } \bar x &= \sum_t f_t\, x_t , \quad \bar g = \sum_i \text{pos}_i\, g_i .
\end{aligned}
$$ (eq-fam-means)

The kernel is the row of a text that has the average token everywhere. The interaction $\delta$ is how much more a token is liked at one distance than at others. (Learned positions are part of $x_t$, so there $\bar x$ depends on the source.)
"""


# %%
def parts(layer, mean):
    """Kernel and log content of every head: a mean over tokens, and a mean over sources."""
    of_mean = einsum(layer.qk_direction, mean, "head i d, i d -> head i") + layer.qk_offset
    kernels = of_mean.softmax(-1)  # head source
    g_bar = einsum(kernels, layer.qk_direction, "head i, head i d -> head d")
    x_t = cx.layer_norm(layer.E + layer.position_offset[layer.n], layer.readout.eps)
    return kernels, einsum(g_bar, x_t - mean[layer.n], "head d, t d -> head t")


for one in twins.values():  # the package does the same
    kernels, log_content = parts(one.exact, one.split.mean)
    assert torch.allclose(kernels, one.split.kernels, atol=1e-4)
    assert torch.allclose(log_content, one.split.log_content, atol=1e-2)

# %% [markdown]
r"""
<span id="turn-it"></span>Choose a kind of positions and a head. On the left is its kernel. On the right are three tokens, each against the average token, by distance: level lines are content alone, and whatever bends them is interaction.
"""

# %% tags=["hide-input"]
h = worst["rotary"]
usual = (rotary.split.frequency > 1e-4).nonzero()[:, 0]
ends = usual[rotary.split.log_content[h, usual].argsort()][[*range(6), *range(-6, 0)]]
figure, ((left, right),) = cb.figures.panels(1, 2, height=3.0, width=8.6)
left.plot(np.arange(1, n), rotary.split.kernels[h].flip(-1)[1:n])
left.set(yscale="log", xlabel="distance back", ylabel="pos", title=f"rotary, head {h}: kernel")
words = [ascii(rotary.model.tokenizer.decode([t])) for t in ends.tolist()]
right.barh(range(12), rotary.split.log_content[h, ends], color=np.repeat(["C1", "C0"], 6))
right.set_yticks(range(12), words, family="monospace", fontsize=8, parse_math=False)
right.set(xlabel="log content (nats)", title="content")
picture = cb.figures.picture(
    figure,
    "13.2",
    f"The two parts of head {h} of the rotary twin: a kernel over {cx.effective_tokens(rotary.split.kernels)[h]:.0f} effective tokens, and the contents of the frequent tokens that it likes least and most. The interactive view draws every head of the four twins.",
    f"A kernel that falls with the distance, and bars for tokens, from {words[0]} to {words[-1]}.",
)
splits = {kind: one.split for kind, one in twins.items() if one.fixed.n == n}
splits |= {MODEL: own.split} if own.fixed.n == n else {}
cv.Positions(splits, kind=[*splits].index("rotary"), head=h, picture=picture)

# %% [markdown]
r"""
## How well does it work?

We rebuild the rows of texts that the split has not seen, and measure which share of a row's attention lies elsewhere than in the model (the total variation distance, TV, of [chapter 2](02_keys)). The rivals are the split's own parts, position alone and content alone. The table has the share of the attention in the wrong place, stable heads by their share of the variance.
"""


# %%
def misplaced(one):
    """TV of rows rebuilt from both parts, from position alone and content alone."""
    found = []
    for x in one.x.split(32):
        true, (position, content) = one.exact.rows(x), one.split.factors(x)
        rebuilt = [logs.softmax(-1) for logs in (position + content, position, content)]
        found.append(torch.stack([cx.total_variation(true, rows) for rows in rebuilt]))
    return torch.cat(found, 1)[..., one.heads].numpy()  # kind text head


all_of_them = twins | {MODEL: own}
tv = {kind: misplaced(one) for kind, one in all_of_them.items()}

# %% tags=["hide-input", "nbval-check-output"]
REAL = {"smollm2": ("SmolLM2", "rotary"), "qwen": ("Qwen", "rotary"), "minilm": ("MiniLM", "learned")}  # fmt: skip
kept = json.loads(cb.evidence("split.json").read_text())
table = {f"{kind} (twin)": tv[kind].mean(1) @ one.share for kind, one in twins.items()}
table[f"learned ({MODEL})"] = tv[MODEL].mean(1) @ own.share
for name, (called, kind) in REAL.items():
    share = np.array(kept[name]["share"]) / sum(kept[name]["share"])
    table[f"{kind} ({called})"] = np.array(list(kept[name]["TV"].values())) @ share
table = pd.DataFrame(table, index=["split", "position", "content"]).T
table.map("{:.1%}".format).rename_axis("positions")

# %% [markdown]
r"""
With ALiBi and with no positions the split makes no error, because $g_i$ is the same for all sources. {{?exact}} With learned positions the error is small: a position changes LayerNorm's scale, and so it interacts with the token a little. {{?own_is_small}} ([Chapter 2](02_keys) has {{keys.split}} for `mini`, by Equation 1 and over all positions.) In the rotary twin the error is larger, and in the two rotary models that people use larger still, {{smollm2}} in SmolLM2 and {{qwen}} in Qwen, which is {{least_times}} to {{most_times}} times the error of the learned twin. {{?order}} (These are stable heads, which in Qwen hold only {{real_model.share_qwen}} of what varies between texts. Over all heads, each by its share, the split puts {{all_smollm2}} in the wrong place in SmolLM2, where a narrow head has {{worst_smollm2}}, and {{all_qwen}} in Qwen. {{?narrow_is_worst}} The last three rows are kept from runs of the models of [chapter 8](08_real_model).)

## Where does the rotary error come from?

Perhaps we chose the two parts badly? Ours are the least-squares fit that weighs the scores by the kernel and by how often tokens occur. But what counts is attention, so we also fit that: the two parts whose rows are nearest to those of half A's texts, by cross-entropy. On half B this leaves {{fit_twin}} of our error in the twin, {{fit_smollm2}} in SmolLM2 and {{fit_qwen}} in Qwen. {{?near_best}} (At least {{= 80% =}} was fixed in advance.) Even on the texts of half A themselves, which it has seen, it leaves {{fit_least}} or more. {{?mostly_interaction}} So about three quarters of the error or more is interaction, which no such fit removes, and this must come from the turning.

Why, then, is there any content at all, if a head turns its query by another angle for every distance? Rotary positions divide query and key into **planes** of two numbers each, {{= 16 =}} for a head of the twin. Plane $k$ turns by the angle $\theta_k$ with each token: one radian in the first plane, a few ten-thousandths in the last. In the mean over sources, what turns by $\theta$ is multiplied by

$$
\varphi(\theta) \;=\; \sum_i \text{pos}_i\, e^{\mathrm{i}\, \theta (n - i)} ,
$$ (eq-fam-turn)

the Fourier transform of the kernel. A plane that hardly turns within the kernel's reach keeps its size in the mean over positions, so it is content. A plane that goes round many times cancels, so all that it adds is interaction. So a broad head can have content only in its slow planes. Scores add up over planes, and we can take them apart:
"""

# %%
W_K = rotary.model.blocks[0].attn.W_K.detach()  # head d_model d_head
width = W_K.shape[-1] // 2  # plane k: entries k and k + width of a query
g = rotary.exact.qk_direction  # head source d_model
turned = g @ torch.linalg.pinv(W_K).mT  # head source d_head: the query, turned
pairs = ([k, k + width] for k in range(width))
of_plane = torch.stack([turned[..., two] @ W_K[..., two].mT for two in pairs])
assert torch.allclose(of_plane.sum(0), g, atol=1e-3)  # plane head source d_model

theta = rotary.model.cfg.rotary_base ** (-np.arange(width) / width)  # radians a token
slow = theta * n < np.pi  # less than half a circle within n tokens
often, E = rotary.split.occurring
x_t = cx.layer_norm(E, rotary.split.readout.eps) - rotary.split.mean[n]  # token d_model
covariance = einsum(often, x_t, x_t, "t, t d, t e -> d e")


def variances(g, kernels=rotary.split.kernels, covariance=covariance):
    """Over tokens, of the scores that g gives, and of their mean, the content: each `head`."""
    g_bar = einsum(kernels, g, "head i, head i d -> head d")
    scores = einsum(g @ covariance, g, kernels, "head i d, head i d, head i -> head")
    return scores, einsum(g_bar @ covariance, g_bar, "head d, head d -> head")


scores, content = (torch.stack(v) for v in zip(*map(variances, of_plane), strict=True))


# %% tags=["hide-cell"] mystnb={"code_prompt_show": "The same in layers that are not trained"}
def untrained(seed):
    """The share of the slow planes, by head, in a layer of normal weights of the same spread."""
    draw = torch.Generator().manual_seed(seed)
    of = (rotary.exact.E, rotary.model.blocks[0].attn.W_Q.detach(), W_K)
    E, W_Q, keys = (torch.randn(w.shape, generator=draw) * w.std() for w in of)
    x_t = cx.layer_norm(E, rotary.split.readout.eps)
    q, x_t = x_t[rotary.fixed.token] @ W_Q, x_t[rotary.split.frequency > 0]
    x_t = x_t - often @ x_t
    angle = torch.outer(torch.arange(n, -1, -1), torch.from_numpy(theta).float())  # source plane
    a, b = q[:, None, :width], q[:, None, width:]
    turned = torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)
    g = torch.stack(
        [turned[..., [k, k + width]] @ keys[..., [k, k + width]].mT for k in range(width)]
    )
    spread = torch.stack([variances(of, covariance=(often[:, None] * x_t).T @ x_t)[0] for of in g])
    return spread[slow].sum(0) / spread.sum(0)


by_chance = torch.cat([untrained(seed) for seed in range(25)]).numpy()

# %% tags=["hide-input"]
remains, of_all = ((v / scores.sum(0))[:, rotary.heads].mean(1) for v in (content, scores))
figure, ((axis,),) = cb.figures.panels(height=2.6, width=5.6)
axis.bar(np.arange(width), remains)
axis.bar(np.arange(width), of_all - remains, bottom=remains, hatch="//", color="C1")
axis.axvline(float((~slow).sum()) - 0.5, color=cb.figures.INK, lw=1, ls=":")
axis.text(0.03, 0.9, "content", color="C0", transform=axis.transAxes)
axis.text(0.03, 0.8, "interaction", color="C1", transform=axis.transAxes)
axis.set(xlabel="plane, from fast to slow", ylabel="share of the variance")
axis.set_xticks(range(0, width, 3))
cb.figures.picture(
    figure,
    "13.3",
    "The variance over tokens of each plane's scores, mean of the rotary twin's stable heads. Planes right of the dotted line turn by less than half a circle within the text.",
    "Bars by plane: " + ", ".join(f"{k} {v:.2f}" for k, v in enumerate(of_all.tolist())) + ".",
)

# %% [markdown]
r"""
Training has mainly used the slow planes of the twin, as the post expected: in the median stable head they hold {{slow_share}} of the variance of the scores, and in layers with random weights {{slow_chance}}. {{?slow_planes}} {{?trained_slow}} That is why content survives. But of the hatched variance in Figure 13.3, which is interaction, {{in_between}} lies in the four planes around the dotted line, slow enough to be used and fast enough to turn. {{?between}} Without the fast planes {{kept_variance}} of the interaction's variance is still there. As a standard deviation, which the condition was about, that is {{kept_by_slow}}, above one half. {{?not_the_fast}} And in {{over_quarter}} of the {{rotary_stable}} stable heads its standard deviation is more than a quarter of that of the token's own part, where we had expected less. {{?quarter}}

So two tables are too few for a rotary head. [Chapter 10](10_whole_neuron) adds pairs of two more, one of positions and one of tokens, whose product is added to the score. (Its planes of interaction are not planes of rotation.) Others describe the same entanglement {cite}`gopalakrishnan2025decoupling,gu2025unpacking`.

## Is stability learned?

Do trained contents make heads stable? They make them less so. We keep a head's kernel and permute its contents, so that *moon* gets that of *because*: in {{above}} of {{broad}} broad heads of nine models most permuted denominators vary *less* than the trained one. {{?topic}} Contents follow the topic of a text, and that moves denominators. But a broad kernel alone does not suffice: {{loose}} of these heads are not stable, and they stay unstable with their contents permuted, as the others stay stable. {{?kernel_and_size}}

## What can go wrong

A head that looks for one kind of token at one distance is all interaction, and no split will do. $f_t$ and $\bar x$ come from texts, so on other texts the line between kernel and content moves.

## Where this leaves us

The method does not need positions that are added. It needs a score that depends on position and token alone, and heads in which it is nearly a sum. After the first layer a key also holds something of the rest of the text, and no score is a function of one token any more. What is left of the split there is the question of [chapter 14](14_depth).

## Exercises

1. *Predict, then run.* Take the most and the least liked token of each panel of Figure 13.1. By how many nats does the gap between their scores change from distance {{= 5 =}} to distance {{far}}, in each of the twins?
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The gaps at both distances"}
far_back = min(200, n - 1)
gaps = {k: [float(v[0, d - 1] - v[2, d - 1]) for d in (5, far_back)] for k, v in curves.items()}
pd.DataFrame(gaps, pd.Index([5, far_back], name="distance")).round(2)

# %% [markdown]
r"""
2. *Prove.* A rotary head has the kernel $\text{pos}_i \propto \rho^{\,n - i}$. Find $\lvert \varphi(\theta) \rvert$ for a long text. Up to which angle does at least half of a plane survive, for a kernel with $N$ effective tokens?

```{admonition} Solutions
:class: dropdown

1. With ALiBi and without positions it does not change at all: $g_i$ is the same for every $i$. With learned positions it changes as LayerNorm's scale does. With rotary positions it changes as the planes turn that tell the two tokens apart; which way depends on the tokens.
2. $\varphi(\theta) = (1 - \rho) / (1 - \rho e^{\mathrm{i}\theta})$, so for slow planes $\lvert \varphi \rvert^2 \approx 1 / (1 + (\theta \tau)^2)$ with $\tau = \sqrt\rho / (1 - \rho)$, which is about $N / 2$. Half survives while $\theta \tau \le \sqrt 3$: up to $\theta \approx 3.5 / N$, about half a circle within $N$ tokens.
```

## Evidence

**Other seeds.** Two further trainings of each twin are kept as numbers: how many heads are stable, and the attention that the split puts in the wrong place in the middle one of them.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Two other seeds of each twin"}
def middle(tv, drawn=slice(None)):
    """The middle stable head's TV of rows rebuilt from both parts, over the texts drawn."""
    return float(np.median(tv[0, drawn].mean(0)))


SEEDS, CALLED = cb.evidence("seeds.json"), {"seed": "learned", "rotary": "rotary", "alibi": "ALiBi", "none": "none"}  # fmt: skip
if RUNS:
    others = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
    for folder in sorted(Path(RUNS).glob("*-[12]-100")):
        if folder.name.split("-")[0] in CALLED:
            one, told = studied(str(folder)), json.loads((folder / "run.json").read_text())
            told |= {
                "stable": int(one.study.head_table["stable"].sum()),
                "TV": round(middle(misplaced(one)), 4),
            }
            others[folder.name.removesuffix("-100")] = told
    SEEDS.write_text(json.dumps(others, sort_keys=True, indent=1) + "\n")

seeds = pd.DataFrame(json.loads(SEEDS.read_text())).T
seeds["kind"] = seeds.index.str.split("-").str[0].map(CALLED)
most_learned = max(seeds["TV"][seeds["kind"] == "learned"].max(), middle(tv["learned"]))
rough = seeds["TV"][seeds["kind"] == "rotary"].min() > most_learned
seeds[["kind", "stable", "TV"]]

# %% [markdown]
r"""
**Permuted contents.** There are {{= 200 =}} permutations for each head. In the other heads half of them vary less, and half more. {{?topic}} No head becomes stable or unstable when its contents are permuted. {{?kernel_and_size}}

**What was fixed in advance.** We wrote the conditions down before the twins were measured for this page (an earlier form of it had seen some of the numbers), but for that on untrained heads, which a reader had asked for. The last one decides little: the {{loose}} heads that are not stable meet it, too. {{?free}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The conditions, and what became of each"}
g_slow, g_all = of_plane[slow].sum(0), of_plane.sum(0)
left_over = [np.subtract(*map(np.asarray, variances(v)))[rotary.heads] for v in (g_slow, g_all)]
kept_by_slow = float(np.median(np.sqrt(left_over[0] / left_over[1])))
kept_variance = float(np.median(left_over[0] / left_over[1]))
turns = np.exp(1j * theta[:, None] * np.arange(n, -1, -1))  # plane source
on_slow, on_fast = (variances(of_plane[on].sum(0))[0][rotary.heads] for on in (slow, ~slow))
by_slow = float(np.median(on_slow / (on_slow + on_fast)))
phi = np.abs(turns @ rotary.split.kernels.double().numpy().T)[:, rotary.heads]  # plane head
off_phi = np.abs((content / scores).sqrt()[:, rotary.heads].numpy() - phi).max()
slopes = torch.tensor(2.0 ** -np.arange(1, alibi.fixed.n_heads + 1))[:, None]
by_slopes = cx.effective_tokens((-slopes * torch.arange(n, -1, -1)).softmax(-1))
off_slopes = float((cx.effective_tokens(alibi.split.kernels) / by_slopes - 1).abs().max())
cvs = {k: twins[k].study.heads.table["coefficient of variation"][twins[k].heads].median() for k in ("ALiBi", "learned")}  # fmt: skip
alike = cvs["ALiBi"] / cvs["learned"]
dealt = [of["dealt"] for name, of in json.loads(cb.evidence("controls.json").read_text()).items() if name != "version"]  # fmt: skip
below, trained = (np.concatenate([of[k] for of in dealt]) for k in ("draws below", "trained"))
conditions = {
    "learned: interaction below a quarter of the content": (f"{learned.left.max():.0%} at most", learned.left.max() < 0.25),
    "rotary: interaction below a quarter of the content": (f"{rotary.left.max():.0%} at most", rotary.left.max() < 0.25),
    "rotary: without the fast planes, half of it is left or less": (f"{kept_by_slow:.0%}", kept_by_slow <= 0.5),
    "rotary: the Fourier transform says to within 0.1 what survives of a plane": (f"{off_phi:.2f}", off_phi < 0.1),
    "rotary: more attention misplaced than with learned positions, in every seed": (f"{seeds['TV'][seeds['kind'] == 'rotary'].min():.3f} against {most_learned:.3f}", rough),
    "ALiBi: kernels as wide as its slopes say, to within 1%": (f"{off_slopes:.1%}", off_slopes < 0.01),
    "ALiBi: denominators vary as with learned positions, within a factor of 1.5": (f"{alike:.2f}", 1 / 1.5 < alike < 1.5),
    "rotary: the slow planes hold more than in 95% of untrained heads": (f"{by_slow:.0%} against {np.quantile(by_chance, 0.95):.0%}", by_slow > np.quantile(by_chance, 0.95)),
    "nine models: half of the permuted heads vary less than the trained one": (f"{below.min():.0%} or more", (below >= 0.5).all()),
}  # fmt: skip
pd.DataFrame(conditions, ["found", "met"]).T

# %% [markdown]
r"""
**The published claims.** They are about positions, and judged on the twins. The first decides little: with ALiBi slopes that are set before training make half of the heads broad, and the others narrow. (A summary of the paper asks whether ALiBi has *similar stable heads* {cite}`gibson2025decomposing`.) Intervals are over documents of half B.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
def less_neat(drawn=slice(None)):
    """TV of the middle stable head, rotary less learned, over the texts drawn."""
    return middle(tv["rotary"], drawn) - middle(tv["learned"], drawn)


stable = alibi.study.head_table["stable"]
cb.ledger(
    own.model,
    cb.Claim("similar_elsewhere", "stable heads among all of the ALiBi twin", float(stable.mean())),
    cb.Claim("rotary_slow", f"share of the slow planes, {slow.sum()} of {width}, in the rotary twin's scores, middle stable head", by_slow),
    cb.Claim("rotary_less_neat", "TV of rebuilt rows, middle stable head, rotary twin less learned", less_neat(), cb.by_document(less_neat, rotary.B, 199), digits=3),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
rival = table[["position", "content"]].min(axis=1)
alone = {name: table.loc[f"rotary ({name})", "split"] for name in ("SmolLM2", "Qwen")}
own_split = table.loc[f"learned ({MODEL})", "split"]
hatched = of_all - remains
line = int((~slow).sum())
permuted = np.concatenate([np.array(of["dealt"])[:, 1] for of in dealt])
max_cv = rotary.study.max_cv
is_stable = trained < max_cv
best = json.loads(cb.evidence("best_split.json").read_text())
fits = {called: best[name] for name, called in {"mini-rotary": "twin", "smollm2": "smollm2", "qwen": "qwen"}.items()}  # fmt: skip


def shared(of, kind, half, heads):
    """The error of a split or a fit of the attention, each head by its share of the variance."""
    return np.average(np.array(of["TV"][kind][half])[heads], weights=np.array(of["share"])[heads])


fit_least = min(shared(of, "fit", "A", of["stable"]) / shared(of, "ours", "A", of["stable"]) for of in fits.values())  # fmt: skip
ours_smollm2 = fits["smollm2"]["TV"]["ours"]["B"]
times = sorted([table.loc["rotary (twin)", "split"] / table.loc["learned (twin)", "split"], *(v / own_split for v in alone.values())])  # fmt: skip
cb.facts(
    "families",
    model=MODEL.rpartition("/")[2], smollm2=cb.fact(alone["SmolLM2"], ".0%"),
    qwen=cb.fact(alone["Qwen"], ".0%"),
    smollm2_rival=cb.fact(rival["rotary (SmolLM2)"], ".0%"),
    **{f"fit_{name}": cb.fact(of["kept"]["stable"][0], ".0%") for name, of in fits.items()},
    near_best=min(of["kept"]["stable"][1] for of in fits.values()) >= 0.8,
    fit_least=cb.fact(fit_least, ".0%", holds=fit_least > 0.5), mostly_interaction=fit_least > 0.75 - cb.ABOUT / 2,
    **{f"all_{name}": cb.fact(shared(of, "ours", "B", [*range(len(of["share"]))]), ".0%") for name, of in fits.items() if name != "twin"},
    worst_smollm2=cb.fact(max(ours_smollm2), ".0%"),
    narrow_is_worst=int(np.argmax(ours_smollm2)) not in fits["smollm2"]["stable"],
    slow_chance=cb.fact(float(np.median(by_chance)), ".0%"), trained_slow=by_slow > np.quantile(by_chance, 0.95),
    least_times=cb.fact(round(times[0]), "words"), most_times=cb.fact(round(times[-1]), "words"),
    exact=table.loc[["ALiBi (twin)", "none (twin)"], "split"].max() < 1e-3,
    survives=table.loc[["ALiBi (twin)", "none (twin)"], "split"].max() < 1e-3 and all(table.loc[row, "split"] < rival[row] for row in table.index if "rotary" in row),
    both_parts=min(rival[f"rotary ({name})"] / v for name, v in alone.items()) > 1.5,
    order=table.loc["learned (twin)", "split"] < table.loc["rotary (twin)", "split"] < min(alone.values()),
    slow_planes=by_slow > cb.MOST,
    slow_share=cb.fact(by_slow, ".0%"),
    in_between=cb.fact(hatched[line - 2 : line + 2].sum() / hatched.sum(), ".0%"),
    between=hatched[line - 2 : line + 2].sum() > cb.MOST * hatched.sum(),
    broad=len(trained),
    free=(below >= 0.5).all(),
    loose=cb.fact(int((~is_stable).sum()), "words"),
    above=int((below > 0.5).sum()),
    topic=below.min() == 0.5 and (below > 0.5).mean() > cb.NEARLY_ALL and np.median(trained / permuted) > 1 + cb.ABOUT,
    kernel_and_size=((permuted < max_cv) == is_stable).all() and len(trained) > is_stable.sum(),
    far=far_back,
    over_quarter=cb.fact(int((rotary.left > 0.25).sum()), "words"),
    rotary_stable=cb.fact(len(rotary.heads), "words"),
    quarter=learned.left.max() < 0.25 < rotary.left.max(),
    asked=cb.fact(len(conditions), "words"), kept_by_slow=cb.fact(kept_by_slow, ".0%"),
    kept_variance=cb.fact(kept_variance, ".0%"),
    not_the_fast=[k for k, (_, met) in conditions.items() if not met] == list(conditions)[1:3],
    own_is_small=max(own_split, table.loc["learned (twin)", "split"]) < cb.ABOUT / 2,
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

Kernel, content, denominator, circuit and the figures on GPT-2 are from {cite:t}`gibson2025decomposing`, the remarks on rotary positions from the earlier post {cite}`gibson2025contextual`, which points to {cite:t}`barbero2025round`. That rotary positions entangle what a token is with where it is, is also the subject of {cite:t}`gopalakrishnan2025decoupling` and of {cite:t}`gu2025unpacking`. Rotary positions are from {cite:t}`su2021roformer`, ALiBi from {cite:t}`press2022train`, biases by range of distance from {cite:t}`raffel2020exploring`. The twins, the derivative, the two means and their remainder, {eq}`eq-fam-turn` and the planes' contents are worked out here. The hooks are those of {cite:t}`nanda2022transformerlens`.
"""
