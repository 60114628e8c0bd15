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
# What if positions are not in the residual stream?

**Then the method has less to approximate, not more.** A first layer can be asked for the two halves of a score: one derivative a head tells what every source is asked for, and two means split that into where and what. With ALiBi and T5 positions nothing is left over, with rotary ones a remainder that can be measured before any row is rebuilt, and values need no approximation; this is algebra, and no such model is run on this page. On the book's own model, with positions that are learned, the same steps give back what the weights gave. Kernels asked of the model are nearly those of the weights: TV of at most 0.05. Both circuits find nearly the same neurons: 100% of those found by either. BOS alone makes up more than a third of the TV of Equation 1: leave it out, and TV falls by 53%.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on another model, name it here and run all cells again: MODEL = "gpt2", for one.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub: any decoder
READ = 512  # tokens of each text, where the model reads as many
TEXTS = 128  # how many held-out texts of the collection are read beside the passages
ROWS = 24  # passages whose attention rows are rebuilt
TOKEN = " the"  # the token at the destination
PROSE = ("american", "british", "travel")  # the domains that count as plain prose

# %% tags=["hide-input"]
# Conditions of what is said about the twins, set before they were measured for this page. (An
# earlier form of the chapter had seen: stable heads 8, 8, 4, 8 of 8 for learned, rotary, ALiBi, no
# positions; r .98, .96, .98, .98; FVU .31, .14, .12, .15; TV .062 with rotary, 0 with ALiBi.)
SHARE = 0.5  # stable heads form: at least half of the layer, as in GPT-2 (6 of 12)
ALIKE = 1.5  # ALiBi's stable heads are similar if they spread as those with learned positions do:
# the medians of the relative spreads lie within this factor (the book's reading of "about")
SLOPES = 0.01  # ALiBi's effective tokens are those that its slopes alone give: within 1%
EXACT = 1e-3  # nats: an interaction that algebra says is zero (ALiBi, none); rounding only
NEAT = 0.25  # interaction over content, in each stable head: below it position counts as a factor
# of its own; the first form of this chapter used the same bound on another model
KEPT = 0.9  # content is known by slow planes if it correlates so with itself, fast ones off, in
# each stable head; and if slow ones off leave less than half of its standard deviation
FAST = 0.5  # interaction belongs to fast planes: with them off less than half of it is left, median
PHI = 0.1  # what survives of a plane is what the kernel's Fourier transform says: median difference
ENOUGH = 0.2  # one page is enough (chapter 5): mean error over stable heads and half B
MET_R, MET_FVU = 0.94845, 0.14265  # the published figures' bounds, as in published.toml
OWN = 1e-6  # with the text's own constants the circuit is exact without positions in the stream
# (ALiBi, none): FVU of rounding; and with rotary positions the interaction costs less than
# calibration does: FVU with own constants is less than half of that with one page's
VALUES = 0.5  # learned positions lose to none by their values if values read where they stand
# take away at least this share of the difference between the two FVUs

# %% tags=["hide-input", "nbval-check-output"]
import einops
import numpy as np
import pandas as pd
import torch

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
reader = cx.texts.Reader.of(model, min(READ, model.cfg.n_ctx))
passages = cx.texts.passages(reader)
texts = cx.texts.collection(reader, TEXTS)
n = min(len(t.tokens) for t in [*passages, *texts]) // 2
THE = model.tokenizer.encode(TOKEN, add_special_tokens=False)
TOKEN = TOKEN if len(THE) == 1 else int(passages[0].tokens[1])  # a vocabulary without it
positions = model.cfg.positional_embedding_type
learned = positions == "standard"
weights = cx.LayerWeights.of(model) if learned else None  # to compare with, where there are any
print(
    f"{MODEL if len(MODEL) < 40 else 'this model'}: {positions} positions, {model.cfg.n_heads} heads"
)
print(f"{len(passages)} passages and {len(texts)} texts; n = {n}")

# %% [markdown]
r"""
## What a score may depend on

[Chapter 2](02_keys) split a key with the help of $W_\text{pos}$, the position that is *added* to a token. Most models since do not add one. **Rotary** positions turn query and key against each other, by an angle that grows with their distance {cite}`su2021roformer`. **ALiBi** takes from every score a number that grows with the distance {cite}`press2022train`, and T5 adds one that is learned for each range of distances {cite}`raffel2020exploring`. The stream that enters the
first layer is then $W_E[x_i]$ alone.

One thing remains as it was. What a first-layer key is read from, $\text{LN}(W_E[x_i])$, knows its own token and nothing else of the text. So the score of a source depends on *what stands there* and on *where it stands*; and as keys are linear in what they are read from, and turning is linear too,

$$
\text{score}(i, t) \;=\; g_i \cdot x_t + c_i
$$ (eq-fam-score)

for a token $t$ at source $i$, with a vector $g_i$ and a number $c_i$ for each source and head, once the destination and its token are fixed. (The letter $x_t$ stands for the normalised embedding of $t$ from here on.) How $g$ and $c$ look tells the families apart:

| positions | $g_i$ | $c_i$ | $x_t$ |
| --- | --- | --- | --- |
| rotary | the query, turned by the distance $n - i$ | the same for all $i$, or nearly | token alone |
| ALiBi | the query, the same for all $i$ | falls in a straight line | token alone |
| T5 | the query, the same for all $i$ | one number for each range of distances | token alone |
| learned, added | the query, the same for all $i$ | the same for all $i$ | token and position |

There is no need to know which. $g_i$ is the derivative of the score by what the key at $i$ is read from, the query held still, so it can be asked of the model itself: one run with its hooks, one derivative for each head.
"""

# %%
every = [*passages, *texts]
layer = cx.FirstLayer.of(model, every, n, TOKEN)  # asks the model, and checks what it says
stack = layer.placed(every)  # "text source": the first n tokens and then TOKEN

x = layer.normalised(stack[:ROWS])  # text source d_model
score = einops.einsum(x, layer.asked, "text i d, head i d -> text head i") + layer.alone
rows = score.softmax(-1)  # by the equation above

# %% tags=["nbval-check-output"]
true_rows = cx.decoders.true_rows(model, stack[:ROWS])  # off the model's own hooks
added = layer.where.norm(dim=-1).mean() / layer.E.norm(dim=-1).mean()
turned = torch.cosine_similarity(layer.asked[:, :-1], layer.asked[:, -1:], dim=-1)
print(f"same rows as the model's: {torch.allclose(rows, true_rows, atol=1e-3)}")
print(f"what a position adds to the stream, relative to a token: {float(added):.2f}")
print(f"cosine of g at the destination with g elsewhere, lowest: {float(turned.min()):.2f}")

# %% [markdown]
r"""
The first line is a check of {eq}`eq-fam-score` on texts that were not asked about; it needs no approximation. The other two lines say which row of the table the model belongs to: whether a position is added to the stream, and whether what a source is asked for changes with its place.

## Two means

[Chapter 3](03_kernels) wrote a score as a sum of *where* and *what*, from the two halves of a key. Without the halves, take the best sum that there is. Statisticians meet the same table, one factor down, one across, in the **analysis of variance**: average over tokens to see what the place does, then average what is left over places to see what the token does. Tokens count as often as they occur in texts, $f_t$, and sources as much as they are looked at:

$$
\begin{aligned}
\log \text{pos}_i \;&=\; \sum_t f_t\, \text{score}(i, t) - \log Z \;=\; g_i \cdot \bar x + c_i - \log Z , \\
\log \text{content}(t) \;&=\; \sum_i \text{pos}_i \bigl( \text{score}(i, t) - g_i \cdot \bar x - c_i \bigr) \;=\; \bar g \cdot (x_t - \bar x) , \\
\bar x \;&=\; \sum_t f_t\, x_t , \qquad \bar g \;=\; \sum_i \text{pos}_i\, g_i .
\end{aligned}
$$ (eq-fam-means)

Among all sums of a function of the place and a function of the token these two come closest to the score, in squares weighted by $\text{pos}_i f_t$ (Exercise 1). The kernel is the attention row of a text in which the average token stands everywhere, or, said with products, the *geometric* mean over tokens of what a source gets. The content needs no text either: $\bar g$ is one vector for each head, what the average source is asked for. Where positions *are* in the stream, $x_t$ is read at the destination, as in chapter 2, and $\bar x$ at each source. And
the unit that a denominator lacked in [chapter 4](04_denominators) comes for nothing: $\sum_t f_t \log \text{content}(t) = 0$.
"""

# %%
p = einops.einsum(layer.asked, layer.mean, "head i d, i d -> head i") + layer.alone
kernels = p.softmax(-1)  # head source
g_bar = einops.einsum(kernels, layer.asked, "head i, head i d -> head d")
here = cx.layer_norm(layer.E[stack[:ROWS]] + layer.where[n], layer.eps)  # tokens read at n
log_content = einops.einsum(g_bar, here - layer.mean[n], "head d, text i d -> text head i")

# %% tags=["nbval-check-output"]
same = [
    torch.allclose(kernels, layer.kernels, atol=1e-5),
    torch.allclose(g_bar, layer.asked_on_average, atol=1e-3),
]
print(f"same as layer.kernels and layer.asked_on_average: {all(same)}")
by_weights = cx.positional_kernels(weights, n, TOKEN) if learned else None
if learned:
    own = cx.total_variation(kernels, by_weights)
    apart = (layer.content - cx.content_scores(weights, n, TOKEN)).std(1)
    print(f"TV to the kernels of chapter 3, from the weights: largest {float(own.max()):.2f}")
    print(
        f"content scores less those of chapter 3, up to a constant: {float(apart.max()):.2f} nats"
    )
else:
    print("no position embeddings: nothing from the weights to compare with")

# %% tags=["hide-input"]
spread = cx.effective_tokens(kernels)
figure, axes = cx.plots.head_panels(layer.n_heads, sharex=True)
back = np.arange(1, n)  # without BOS and the destination
for head, axis in enumerate(axes.flat[: layer.n_heads]):
    axis.plot(back, kernels[head].flip(-1)[1:n], lw=1.4, label="asked of the model")
    if learned:
        axis.plot(
            back,
            by_weights[head].flip(-1)[1:n],
            lw=1.2,
            ls=":",
            color=cx.plots.INK,
            label="from W_pos",
        )
    axis.set(title=f"head {head}: {spread[head]:.0f} tokens", yscale="log")
for axis in axes[-1]:
    axis.set_xlabel("distance back")
for axis in axes[:, 0]:
    axis.set_ylabel("pos")
if learned:
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
cx.plots.picture(
    figure,
    "10.1",
    f"Empirical kernels at n = {n}: the row that each head would have over average tokens, without BOS and the destination"
    + (
        ", beside the kernel that Equation 1 takes from the position embeddings (dotted)"
        if learned
        else ""
    )
    + ". Above each panel its effective tokens.",
    "A falling or level curve for each head. Effective tokens: "
    + ", ".join(f"head {h} {s:.0f}" for h, s in enumerate(spread.tolist()))
    + (f". Largest TV to the kernels from the weights {float(own.max()):.2f}." if learned else "."),
)

# %% [markdown]
r"""
Solid and dotted lines come by different roads. The dotted one knows $W_\text{pos}$ and puts one typical norm $C$ in the place of every token's own. The solid one has never seen $W_\text{pos}$, but has heard every token at every place. Where they part, trust the solid one: it is the average itself.

## What is left over

The two means leave an **interaction**, the part of a score that is neither where nor what but both together:

$$
\delta(i, t) \;=\; (g_i - \bar g) \cdot (x_t - \bar x), \qquad
\sigma_\delta^2 \;=\; \sum_{i,t} \text{pos}_i\, f_t\, \delta(i, t)^2 .
$$ (eq-fam-left)

For ALiBi and T5 it is zero, since $g_i$ is the same everywhere: there the factorisation of an attention row is no approximation at all. For learned positions it is the little that a position changes LayerNorm's scale. For rotary positions it is what turning does. And it says beforehand how good rebuilt rows are going to be. A row $a$ whose scores are off by $\delta$ diverges from the true one by $\tfrac12 \operatorname{Var}_a(\delta)$ to second order. A row weighs a source by pos times content, $\sigma_\delta^2$ by pos alone and by how common its token is, so the two agree on average over texts where contents are even, and where loud tokens interact more than others the row is off by more. Up to that the divergence is $\tfrac12 \sigma_\delta^2$; by Pinsker's inequality $\text{TV} \le \sqrt{\text{KL} / 2}$,

$$
\text{TV} \;\lesssim\; \tfrac12\, \sigma_\delta .
$$ (eq-fam-pinsker)
"""

# %%
shares = log_content + kernels.log()  # text head source
rebuilt = shares.softmax(-1)  # pos content / denom
TV = cx.total_variation(true_rows, rebuilt).mean(0)  # head


def beyond_bos(rows):
    """Rows over all sources but the first, which holds BOS in every text."""
    return rows[..., 1:] / rows[..., 1:].sum(-1, keepdim=True)


TV_beyond = cx.total_variation(beyond_bos(true_rows), beyond_bos(rebuilt)).mean(0)

# %% tags=["nbval-check-output"]
account = cx.decoders.decomposition(layer)  # standard deviations in nats; kept
shown = account.map("{:.2f}".format)
shown["TV of rebuilt rows"] = [f"{v:.2f}" for v in TV]
if learned:
    equation_1 = torch.stack([cx.rebuilt_rows(weights, text, n) for text in stack[:ROWS]])
    TV_1 = cx.total_variation(true_rows, equation_1).mean(0)
    TV_1_beyond = cx.total_variation(beyond_bos(true_rows), beyond_bos(equation_1)).mean(0)
    shown["TV by Equation 1"] = [f"{v:.2f}" for v in TV_1]
shown["the first, without BOS"] = [f"{v:.2f}" for v in TV_beyond]
if learned:
    shown["the second, without BOS"] = [f"{v:.2f}" for v in TV_1_beyond]
shown

# %% [markdown]
r"""
The first three columns are the analysis of variance, in nats: how much scores move with the place, with the token, and with both in a way that no sum can follow. **Kept** is $\lvert \bar g \rvert$ over the root mean square of $\lvert g_i \rvert$: how much of the query survives the mean over sources.

The last columns ask the same of all sources but one. BOS stands at source 0 in every text, and nothing else ever does. The means take the two apart, the average token at source 0 and BOS at an average source, and multiply what they find; but what a loud position does to the one token that stands there is interaction through and through. Equation 1 reads BOS at the destination and errs in the same direction.

For a rotary head this last number has a meaning of its own. Its query and keys live in planes, and plane $k$ turns by an angle $\theta_k$ a token, the first ones fast, the last ones slowly. In the mean over sources each plane is multiplied by

$$
\varphi(\theta) \;=\; \sum_i \text{pos}_i\, e^{\mathrm{i}\, \theta (n - i)} ,
$$ (eq-fam-turn)

the kernel's Fourier transform. A kernel that is spread over many tokens keeps what turns by much less than one full circle within its reach, and cancels the rest. *So a broad rotary head knows the content of a text by its slow planes only*, and what it holds in the fast ones is interaction: a preference for a token at a certain distance. Figure 10.2 shows the factor for the kernels at hand; for a model without rotary positions it answers what would be left if it had them.
"""

# %% tags=["hide-input"]
theta = np.geomspace(1e-4, np.pi, 200)
distance = np.arange(n, -1, -1)
turns = np.abs(kernels.double().numpy() @ np.exp(1j * distance[:, None] * theta))  # head angle
broad = [h for h in range(layer.n_heads) if spread[h] > cx.split.BROAD]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.2)
half_sigma = account["interaction"].to_numpy() / 2
for head in range(layer.n_heads):
    colour = cx.plots.head_style(head)["color"]
    left.plot(half_sigma[head], TV[head], "o", ms=5, color=colour)
    left.plot(half_sigma[head], TV_beyond[head], "o", ms=5, color=colour, mfc="none")
cx.plots.number_points(left, half_sigma.tolist(), TV.tolist())
top = 1.15 * max(float(TV.max()), float(half_sigma.max()), 1e-3)
left.plot([0, top], [0, top], color=cx.plots.INK, lw=1, ls=":")
left.set(
    xlabel="half the interaction (nats)", ylabel="TV of rebuilt rows", title="Expected and found"
)
for head in broad or range(layer.n_heads):
    right.plot(theta, turns[head], lw=1.3, label=f"head {head}", **cx.plots.head_style(head))
right.set(
    xscale="log",
    xlabel="angle a token, θ (radians)",
    ylabel="|φ(θ)|",
    title="What survives the mean",
)
right.legend(fontsize=8, ncols=1 + len(broad) // 8)
slow = [float(theta[turns[h] >= 0.5].max()) for h in broad]
cx.plots.picture(
    figure,
    "10.2",
    f"Left: how far rebuilt rows are from true ones over {ROWS} passages, against what the interaction says of them; rings, without BOS; dotted, the bound. "
    "Right: by how much the mean over a kernel shrinks what turns by θ a token"
    + (", for the broad heads" if broad else "")
    + ".",
    "Left, a point for each head: "
    + ", ".join(
        f"head {h} expected {half_sigma[h]:.2f}, found {TV[h]:.2f}, without BOS {TV_beyond[h]:.2f}"
        for h in range(layer.n_heads)
    )
    + ". Right, curves that fall from one towards zero as the angle grows; half survives up to "
    + (
        ", ".join(f"{s:.3f} radians (head {h})" for h, s in zip(broad, slow, strict=True))
        or "angles that differ by head"
    )
    + ".",
)

# %% [markdown]
r"""
A point near the dotted line has used up the bound, a point below has left some of it. The interaction is an average over tokens, each as often as it occurs, and of BOS at its one source it knows next to nothing: that is how four points lie well above the line while their rings lie below. (A ring well above it would say that second order is not enough for this head, or that a row's weight lies on other tokens than the average row's.)

## Which heads hold still?

From here on nothing needs to know where kernel and content come from. The denominator is $\sum_i \text{pos}_i\, \text{content}(x_i)$, now in a unit that means something: it is one in a text of average tokens. The heads are chosen by the rule of [chapter 4](04_denominators): a kernel over many tokens, and a denominator that strays little from text to text. For the families of [chapter 3](03_kernels) a text of copies of the destination token is held against a text of others.
"""

# %%
denoms = shares.logsumexp(-1).exp()  # of these passages, by the equation; text head

# %% tags=["nbval-check-output"]
same = torch.allclose(denoms, layer.denominators(stack[:ROWS]), rtol=1e-3)
print(f"same as layer.denominators: {same}")
copies = cx.decoders.copy_preference(model, layer, count=8)
try:
    heads = cx.stable_heads(layer, every, copies=copies)
    table, stable = heads.table, len(heads)
except ValueError as error:  # then the chapter goes on with the least restless, and says so
    table = cx.families(layer, copies=copies).drop(columns="because")
    found = layer.denominators(stack)
    table["relative spread"] = (found.std(0) / found.mean(0)).tolist()
    table["stable"] = table["relative spread"].rank(method="first") <= max(1, layer.n_heads // 4)
    table["why not"], stable = "", 0
    heads = table.index[table["stable"]].tolist()
    print(f"{error}; the chapter goes on with heads {heads}")
of_weights = cx.families(weights, n=n) if learned else None
display(
    table.assign(
        **{
            "effective tokens": table["effective tokens"].map("{:.0f}".format),
            "half of the mass within": table["half of the mass within"].map("{:.0f}".format),
            "TV to uniform": table["TV to uniform"].map("{:.2f}".format),
            "nats for a copy": table["nats for a copy"].map("{:.1f}".format),
            "relative spread": table["relative spread"].map("{:.0%}".format),
        }
    )
)
if learned:
    ratio = table["effective tokens"] / of_weights["effective tokens"]
    display(
        cx.claims.finding(
            f"Every head has the family here that its kernel from the weights has at this destination; its effective tokens are {ratio.min():.0%} to {ratio.max():.0%} of those.",
            holds=bool((table["family"] == of_weights["family"]).all()),
        )
    )

# %% [markdown]
r"""
## The same circuit

A head's value is read from $x_i$ as well. In the circuit of [chapter 6](06_circuit) it was taken *as if every source stood at the destination*; where positions are not in the stream that is no approximation (the finding below says what it is on the model of this page), and

$$
\begin{aligned}
\text{contribution}[j, t] \;&=\; \sum_{h \in H} \frac{\text{content}_h(t)}{\text{denom}_h}\, \bigl( x_t W_V^h + b_V^h \bigr)\, W_O^h \cdot \frac{W_\text{in}[:, j]}{s} , \\
\text{approx}_j \;&=\; \sum_i \text{pos}_i\, \text{contribution}[j, x_i]
\end{aligned}
$$ (eq-fam-circuit)

holds for every family. Three details differ between architectures. Where heads *share* keys and values, each has a copy of what it shares. In a *gated* MLP, $W_\text{in}$ is that of the gate, which the activation function sees. And where attention and MLP stand *side by side*, the first layer's MLP reads the stream without its own layer's heads, so there is no first-layer neuron that they could tell anything: their words reach the next layer's MLP, and $W_\text{in}$ and $s$ are taken from there.
"""

# %%
prose = [p for p in passages if p.domain in PROSE] or passages
log_denoms = layer.denominators(layer.placed(prose))[:, heads].log()
middle = prose[int((log_denoms - log_denoms.mean(0)).abs().mean(1).argmin())]
circuit = cx.ContextualCircuit.calibrate(layer, middle, heads)

t = int(stack[0, n // 2])  # any token
x_t = cx.layer_norm(layer.E[t] + layer.where[n], layer.eps)
ext = torch.zeros(layer.E.shape[1])
for k, h in enumerate(heads):
    weight = layer.content[h, t].exp() / circuit.denominators[k]
    ext += weight * (x_t @ layer.W_V[h] + layer.b_V[h]) @ layer.W_O[h]
contribution = ext @ layer.W_in / circuit.scale  # neuron

# %% tags=["nbval-check-output"]
size = float(circuit.contribution[t].abs().max())
print(
    "same as circuit.contribution:",
    torch.allclose(contribution, circuit.contribution[t], rtol=1e-3, atol=1e-4 * size),
)
where_it_stands = layer.normalised(stack[:ROWS])  # text source d_model
as_if_at_n = cx.layer_norm(layer.E[stack[:ROWS]] + layer.where[n], layer.eps)
true_values, taken = (
    einops.einsum(v, layer.W_V[heads], "text i d, head d e -> text head i e")
    + layer.b_V[heads][:, None]
    for v in (where_it_stands, as_if_at_n)
)
off = float(((taken - true_values).square().sum() / true_values.square().sum()).sqrt())
display(
    cx.claims.finding(
        f"Positions are in this stream, and so the values are not exact: taken as if every source stood at the destination, they are off by {off:.0%} of their length.",
        holds=off > 0.05,
    )
    if float(layer.where.abs().max()) > 0
    else cx.claims.finding(
        f"No position is in this stream, and so the values are exact: they are off by {off:.0%} of their length.",
        holds=off < 1e-4,
    )
)
print(
    f"calibration text: {middle.name}; heads {list(circuit.heads)}; neurons of layer {layer.reads}"
)
try:
    neurons = cx.find_neurons(circuit)
except ValueError as error:
    neurons = cx.find_neurons(circuit, threshold=float("-inf")).head(20)
    print(f"{error.args[0].partition(':')[0]}: the {len(neurons)} first are followed")
print(f"neurons followed: {len(neurons)} of {layer.n_neurons}")
if learned:
    paper = cx.ContextualCircuit.calibrate(weights, middle, heads, n, TOKEN)
    try:
        theirs = set(cx.find_neurons(paper).index)
        common = len(theirs & set(neurons.index)) / len(theirs | set(neurons.index))
    except ValueError:
        common = float("nan")
    print(f"the same as the circuit of chapter 6 finds, common over all: {common:.0%}")
else:
    common = float("nan")

# %% [markdown]
r"""
And the truth: what these heads really add to each neuron at the destination, text by text, with rows by {eq}`eq-fam-score` and the stream that the MLP reads there, exact (`cx.FirstLayer.of` held them against what the model computes).
"""

# %%
truth = torch.cat([layer.truth(part, heads) for part in stack.split(16)])  # text neuron
summary = circuit.summary(stack)
itself = torch.cat([circuit.self_normalised().summary(part) for part in stack.split(16)])

# %% tags=["nbval-check-output"]
J = neurons.index.tolist()
results = {
    "constants of one text": cx.Moments.of(summary, truth).table(range(layer.n_neurons)).loc[J],
    "constants of the text itself": cx.Moments.of(itself, truth)
    .table(range(layer.n_neurons))
    .loc[J],
}
if learned:
    by_chapter_6 = paper.summary(stack)
    results["chapter 6, from the weights"] = (
        cx.Moments.of(by_chapter_6, truth).table(range(layer.n_neurons)).loc[J]
    )
print(f"{len(stack)} texts, median over {len(J)} neurons")
pd.DataFrame(
    {
        name: {"r": f"{found['r'].median():.2f}", "FVU": f"{found['fvu'].median():.2f}"}
        for name, found in results.items()
    }
).T

# %% tags=["hide-input"]
j = J[0]
best = results["constants of one text"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.2)
for values, mark, name in ((summary, "o", "one text's constants"), (itself, "x", "its own")):
    left.plot(truth[:, j], values[:, j], mark, ms=3.5, alpha=0.6, label=name)
ends = [float(truth[:, j].min()), float(truth[:, j].max())]
left.plot(ends, ends, color=cx.plots.INK, lw=1, ls=":")
left.set(xlabel="truth", ylabel="summary", title=f"neuron {j}")
left.legend(fontsize=8)
right.plot(best["r"], best["fvu"].clip(1e-3), "o", ms=3.5, alpha=0.6, label="one text's constants")
other = results["constants of the text itself"]
right.plot(other["r"], other["fvu"].clip(1e-5), "x", ms=3.5, alpha=0.6, label="its own")
right.set(xlabel="r", ylabel="FVU", yscale="log", title=f"{len(J)} neurons")
cx.plots.picture(
    figure,
    "10.3",
    f"Summaries against the truth in {len(stack)} texts, for the neuron that single tokens move farthest (left), and how good they are for all that were found (right). Dotted: equal.",
    f"Left, two clouds along the diagonal for neuron {j}: r {best.loc[j, 'r']:.2f} with one text's constants, {other.loc[j, 'r']:.2f} with the text's own. "
    f"Right, correlation against unexplained variance: medians {best['r'].median():.2f} and {best['fvu'].median():.2f}, with own constants {other['r'].median():.2f} and {other['fvu'].median():.2f}.",
)

# %% [markdown]
r"""
Circles are the published method: denominators and scale of one calibration text. Crosses take both from the text that is read, as the better circuit of [chapter 8](08_evaluation) does, and each head keeps its own kernel. What separates crosses from the diagonal is the interaction {eq}`eq-fam-left` and nothing else (for learned positions, not even the values). What separates circles from crosses is calibration, and has nothing to do with positions.

What are these neurons about? The tokens that move them farthest:
"""

# %% tags=["hide-input"]
pd.DataFrame(
    {
        "largest contributions": [
            ", ".join(ascii(word) for word in neurons.loc[j, "top tokens"][:8]) for j in J[:8]
        ],
        "r": [f"{best.loc[j, 'r']:.2f}" for j in J[:8]],
    },
    index=pd.Index(J[:8], name="neuron"),
)

# %% [markdown]
r"""
## What breaks it

- **A taste for distances.** A rotary head that looks for one kind of token at one distance, the token before, say, is all interaction. The means see half of it at best; *kept* and the interaction give it away, and such a head is seldom broad.
- **Average tokens.** $f_t$ is taken from texts. On texts of another kind $\bar x$ moves, and the line between kernel and content moves with it; their product does not.
- **Queries.** $g_i$ belongs to one destination token at one destination. For rotary, ALiBi and T5 positions it depends on the distance only, so one destination stands for all, but for the beginning of a text.
- **Keys that are not linear.** Some models normalise keys, cap scores, or normalise what their heads write. {eq}`eq-fam-score` is then false, and `cx.FirstLayer.of` finds that out and refuses.
- **Side by side.** With parallel blocks the path from the first heads to the second layer's MLP is one of several: the second layer's own heads do not reach that MLP, but in the first layer the MLP has written as well. It saw no other token, so what it wrote is the same in all texts with the same destination token.
- **Encoders.** T5's own decoder listens to an encoder, too. Its positions are treated here, the model is not.
- **One layer.** Behind the first layer the stream knows the text, and no score is a function of one token.

## Turn it

Choose a head: on the left its kernel, on the right the tokens that it likes most and least, of those that occur in the texts. The controls are live in Jupyter and Colab (the rocket above); on this page you see their first setting.
"""


# %% tags=["hide-input"]
occurring = (layer.frequency > 1e-4).nonzero()[:, 0]


def draw(head):
    """A kernel and the ends of the content scores."""
    h = int(head)
    likes = layer.content[h, occurring]
    order = likes.argsort()
    ends = torch.cat([order[-8:], order[:8].flip(0)]) if len(order) > 16 else order.flip(0)
    ends = ends[likes[ends].argsort()]
    figure, ((left, right),) = cx.plots.panels(1, 2, height=3.6)
    left.plot(np.arange(1, n), kernels[h].flip(-1)[1:n], color=cx.plots.COLOURS[0])
    left.set(yscale="log", xlabel="distance back", ylabel="pos", title=f"head {h}: where")
    right.barh(
        range(len(ends)),
        likes[ends],
        color=[cx.plots.COLOURS[0 if v >= 0 else 1] for v in likes[ends]],
    )
    words = [ascii(model.tokenizer.decode([int(occurring[k])])) for k in ends]
    right.set_yticks(range(len(ends)), words, family="monospace", fontsize=8, parse_math=False)
    right.axvline(0, color=cx.plots.INK, lw=1, ls=":")
    right.set(xlabel="log content (nats)", title="what")
    return cx.plots.picture(
        figure,
        "10.4",
        f"Head {h}: {spread[h]:.0f} effective tokens; interaction {account.loc[h, 'interaction']:.2f} nats beside {account.loc[h, 'what']:.2f} of content.",
        f"Kernel of head {h} over the distance, and bars for the tokens it likes most, first {words[-1]}, and least, last {words[0]}.",
    )


cx.widgets.Turnable(
    draw,
    head=cx.widgets.choice("head", [str(h) for h in range(layer.n_heads)], str(heads[0])),
)

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. The published figures are for GPT-2 small, with learned positions; on another model they are a yardstick. Brackets hold 95% intervals, the texts drawn again by document; a line with its condition inside is undecided. What needs position embeddings to compare with is said below the ledger, where there are some.
"""

# %% tags=["hide-input", "nbval-check-output"]
tv_of_texts = cx.total_variation(true_rows, rebuilt)[:, heads].numpy()  # text head


def of_drawn(number):
    """The 95% interval of the median r or FVU when other documents had been read."""

    def median(drawn):
        i = torch.from_numpy(drawn)
        return cx.Moments.of(summary[i][:, J], truth[i][:, J]).table(J)[number].median()

    return cx.claims.by_document(median, every, 199)


cx.claims.ledger(
    model,
    cx.claims.Claim(
        "tv",
        "TV of rebuilt rows, middle one of the stable heads",
        cx.claims.over(TV, heads, np.median),
        cx.claims.by_document(lambda d: np.median(tv_of_texts[d].mean(0)), every[:ROWS], 499),
        digits=3,
    ),
    cx.claims.Claim("share_stable", "stable heads among all of the layer", stable / layer.n_heads),
    cx.claims.Claim(
        "median_r",
        "r of summary and truth, median found neuron",
        float(best["r"].median()),
        of_drawn("r"),
        digits=4,
    ),
    cx.claims.Claim(
        "median_fvu",
        "FVU of summary and truth, median found neuron",
        float(best["fvu"].median()),
        of_drawn("fvu"),
        digits=4,
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
mixed = cx.claims.over(account["interaction"] / account["what"], heads, np.max)
beyond = float((TV_beyond.numpy() / half_sigma)[half_sigma > 0.005].max(initial=0))
one_text, itself = float(best["fvu"].median()), float(other["fvu"].median())
sentences = [
    cx.claims.finding(
        f"In the stable heads position is a factor of its own: the interaction is at most {mixed:.2f} of the content, in standard deviations.",
        holds=mixed < 0.25,
    ),
    cx.claims.finding(
        f"Apart from BOS, the rows of no head are on average further off than half the interaction says, within a factor of 1.5: TV is at most {beyond:.1f} times it.",
        holds=beyond <= 1.5,
    ),
    cx.claims.finding(
        f"With the text's own constants in place of one text's, FVU falls by more than half: from {one_text:.3f} to {itself:.3f}.",
        holds=itself < one_text / 2,
    ),
]
if learned:
    nearer = float((TV_beyond - TV_1_beyond).mean())
    bos = 1 - cx.claims.over(TV_1_beyond, heads, np.mean) / cx.claims.over(TV_1, heads, np.mean)
    sentences += [
        cx.claims.finding(
            f"Kernels asked of the model are nearly those of the weights: TV of at most {float(own.max()):.2f}.",
            holds=bool(own.max() < 0.1),
        ),
        cx.claims.finding(
            f"Apart from BOS, rows are rebuilt no worse without W_pos than by Equation 1: the mean TV differs by {nearer:+.3f}.",
            holds=nearer <= 0,
        ),
        cx.claims.finding(
            f"BOS alone makes up more than a third of the TV of Equation 1: leave it out, and TV falls by {bos:.0%}.",
            holds=bos > 1 / 3,
        ),
        cx.claims.finding(
            f"Both circuits find nearly the same neurons: {common:.0%} of those found by either.",
            holds=common >= 0.9,
        ),
    ]
display(*sentences)

# %% [markdown]
r"""
## Exercises

1. Show that among all sums $p_i + c_t$ those of {eq}`eq-fam-means` make $\sum_{i,t} \text{pos}_i f_t \bigl( \text{score}(i, t) - p_i - c_t \bigr)^2$ smallest, and that the variance of the scores is the sum of the three squares in the table.
2. ALiBi takes $m (n - i)$ from every score. Find the effective tokens of the kernel for a long text. Which $m$ gives a head a hundred effective tokens?
3. A rotary head has the kernel $\text{pos}_i \propto \rho^{\,n - i}$. Find $\lvert \varphi(\theta) \rvert$ of {eq}`eq-fam-turn` for a long text. Up to which angle does at least half of a plane survive, for a kernel with $N$ effective tokens?
4. Under what condition on $x_t$ is the interaction of a rotary head zero even though $g_i$ turns? What would such a head's content be?

```{admonition} Solutions
:class: dropdown

1. The derivatives by $p_i$ and by $c_t$ vanish if $p_i = \sum_t f_t (\text{score} - c_t)$ and $c_t = \sum_i \text{pos}_i (\text{score} - p_i)$. With the constant that can be moved between the two fixed by $\sum_t f_t c_t = 0$, the first is {eq}`eq-fam-means`, and the second with it. The residual has mean zero over $t$ for every $i$ and over $i$ for every $t$, so the cross terms of the square vanish.
2. $\text{pos}_i \propto \rho^{\,n-i}$ with $\rho = e^{-m}$. Its sum of squares is $(1 - \rho)^2 / (1 - \rho^2)$, so the effective tokens are $(1 + \rho) / (1 - \rho) = \coth(m / 2) \approx 2 / m$: $m \approx 0.02$.
3. $\varphi(\theta) = (1 - \rho) \sum_k \rho^k e^{\mathrm{i} k \theta} = (1 - \rho) / (1 - \rho e^{\mathrm{i}\theta})$, so $\lvert \varphi \rvert^2 = (1 - \rho)^2 / \bigl( (1 - \rho)^2 + 2 \rho (1 - \cos\theta) \bigr)$. For slow planes this is $1 / (1 + (\theta \tau)^2)$ with $\tau = \sqrt\rho / (1 - \rho)$, which is about $N / 2$. Half survives while $\theta \tau \le \sqrt 3$: up to $\theta \approx 3.5 / N$, about half a circle within $N$ tokens.
4. If $x_t - \bar x$ is orthogonal to all $g_i - \bar g$, so that tokens differ only where nothing turns, for instance in dimensions that the rotation leaves alone (many models turn a part of each head only). Its content is then $g \cdot (x_t - \bar x)$ with the part of $g$ that does not turn, the same at all distances, as in ALiBi.
```

## Where this comes from

The factorisation into kernel, content and denominator, the circuit and the published figures are from {cite:t}`gibson2025decomposing`, who leaves other kinds of positions open. Rotary positions are from {cite:t}`su2021roformer`, ALiBi from {cite:t}`press2022train`, relative biases by range of distance from {cite:t}`raffel2020exploring`. Asking the layer by a derivative, the two means and their remainder, its bound on TV, the factor {eq}`eq-fam-turn` and the comparison with the weights are worked out here. The hooks are those of {cite:t}`nanda2022transformerlens`.
"""
