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
# Which head wakes this neuron?

**On the book's own model it is seldom one head, and the MLPs do more than all heads together.** Some neurons push one token well ahead of all others. Chosen by their weights alone, they are loudest where that token has become likelier, by far more than for random neurons and their tokens; but few of these tokens become likely.
A different head wins on different prompts, and what the heads bring comes from earlier tokens, not from the present one. Silence the head that the attribution names, or three such heads together, and the token's loss cannot be told from zero. Silence the neuron alone, and its token loses more than a random neuron's favourite does.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub: any decoder
MARGIN = 0.05  # how far the best congruence lies above the second, both ways, relative to itself
SIZES = None  # next-token neurons (and as many random ones), prompts of each, those of them on which heads are silenced, texts searched; None: by the model's size
READ = 48  # tokens of each text
USUAL = 100  # random places, against which everything is measured
TEAM = 3  # heads that are silenced together
MEANS = 64  # texts behind mean-ablation

# %% [markdown]
r"""
Conditions of the second edition's measurement, written before it is made, and not moved afterwards. Texts are held-out windows, a peak is a neuron's largest pre-activation in a text, BOS left out, one a text, the 20 largest.

- A neuron *predicts* its token, the one that it is most congruent with, if P of the token is one half or more in the mean over its 20 peaks in half A. All such neurons are taken, up to 24 with the largest P. Random neurons: as many from the same layers, among those that do not. Everything after the choice is judged on half B.
- The weights alone do not find them: of equally many neurons with the largest congruence fewer than half predict.
- The heads bring less than half of the rise: the upper end of the 95% interval over neurons is below one half. The same share is given for the heads of the first layer.
- Which heads wake a neuron is the same in both halves: the correlation of a neuron's profile of heads (rise, half A against half B) is larger than with profiles of other neurons of its layer, permutation test, p < 0.01.
- It is the same beyond the maximum: the profile at the peaks against that in each tenth of its activations, correlation above one half.
- The strongest head is the one with the largest mean rise in half A. Its silence costs the token P: bounds of `loss_is_there` and `loss_is_small`. It costs more than for random neurons: permutation of the labels within layers, p < 0.05; undecided otherwise.
- The neuron alone: the same permutation test.
"""

# %% tags=["hide-input", "nbval-check-output"]
import einops
import numpy as np
import pandas as pd
import torch

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
n_layers, n_heads, d_mlp = model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_mlp
large = sum(p.numel() for p in model.parameters()) > 50_000_000
NEURONS, PROMPTS, ABLATED, TEXTS = SIZES or ((8, 10, 4, 120) if large else (16, 20, 8, 480))
reader = cx.texts.Reader.of(model, min(READ, model.cfg.n_ctx))
texts = [t.tokens for t in cx.texts.collection(reader, TEXTS)]
READ = min(len(t) for t in texts)
texts = [t[:READ] for t in texts]
layers = [k for k in range(n_layers) if cx.decoders.feeding(model, k)][-5:]  # that heads feed
print(f"{n_layers} layers of {n_heads} heads and {d_mlp} neurons, {model.cfg.d_vocab} tokens")
print(f"neurons of layers {layers[0]} to {layers[-1]}; {len(texts)} texts of {READ} tokens")

# %% [markdown]
r"""
## A neuron with one word to say

From here on the model may be any decoder, and a neuron may sit in any layer. Until now a neuron was known by what wakes it. It can also be known by what it does. When neuron $j$ of some layer is active, it adds its output weights $w_\text{out}^j$ to the residual stream, once for every unit of its activation. What reaches the end of the model is read there by the unembedding $W_U$, one column for each token. So one unit of the neuron's activation adds

$$
c_j(t) \;=\; w_\text{out}^j \cdot W_U[:, t]
$$ (eq-look-congruence)

to the logit of token $t$, but for the last LayerNorm, which divides all of it by one number. (Its gain is folded into $W_U$.) This is the neuron's **congruence** with the token. It leaves out what later layers make of the neuron, and for a whole layer it costs one matrix product.

The publication calls neurons of the last five layers with large congruence **next-token neurons** {cite}`neo2024interpreting`. This book asks for more: the association must be **clean**, in both directions. Of all tokens, $t$ is the one that the neuron raises most; and of all neurons searched, $j$ is the one that raises $t$ most. How much is that worth? Suppose the congruences of $N$ neurons with $V$ tokens were drawn independently from one continuous distribution. An entry of the table shares its row and column with $N + V - 2$ others, so it is the largest of both with probability $1 / (N + V - 1)$. There are $N V$ entries:

$$
\text{clean pairs by chance} \;=\; \frac{N\,V}{N + V - 1} .
$$ (eq-look-chance)
"""


# %%
def congruences(layer, neuron):  # -> vocab
    """What one unit of a neuron's activation adds to each logit; cx.decoders.congruence, one row of it."""
    return (model.blocks[layer].mlp.W_out[neuron] @ model.W_U).cpu()


table = cx.decoders.next_token_neurons(model, layers)  # the clean pairs, the most congruent first
N, V = len(layers) * d_mlp, model.cfg.d_vocab
by_chance = N * V / (N + V - 1)
margin = table[["over_tokens", "over_neurons"]].min(axis=1) / table["congruence"]

# %% tags=["nbval-check-output"]
print(f"neurons {N}, tokens {V}: clean pairs {len(table)}, by chance {by_chance:.0f}")
print(f"with a margin of {MARGIN:.0%} both ways: {int((margin > MARGIN).sum())}")

# %% [markdown]
r"""
There are fewer clean pairs than chance would give, so being clean is no distinction: somebody has to be first. The count is below chance because congruences are not independent. A token with a long column of $W_U$ is the favourite of many neurons, and can be clean with one only. What does distinguish a neuron is that the first is *well* ahead of the second, on both sides. So a margin is asked for, relative to the congruence itself, and of the pairs that have it the most congruent are taken. A neuron that nothing
turns on in the first texts of the collection is passed over. For every neuron so chosen, one of the same layer is drawn at random among those that are in no clean pair. These **random neurons** go through everything that follows, each with the token that it is most congruent with.
"""

# %%
most = torch.full((len(layers), d_mlp), -torch.inf)  # each neuron's largest pre-activation
names = [f"blocks.{k}.mlp.hook_pre" for k in layers]
for part in torch.stack(texts[:MEANS]).split(4):
    _, cache = model.run_with_cache(part, names_filter=names, stop_at_layer=layers[-1] + 1)
    here = torch.stack([cache[name][:, 1:].amax((0, 1)).cpu() for name in names])  # BOS is out
    most = torch.maximum(most, here)

asleep = {(layers[i], j) for i, j in torch.nonzero(most <= 0).tolist()}
clean = list(zip(table["layer"].tolist(), table["neuron"].tolist(), strict=True))
taken = [*clean, *asleep]
can = np.array([place not in asleep for place in clean])
good = table[can & (margin > MARGIN)]
good = (good if len(good) > 1 else table[can]).head(NEURONS)  # a tiny model may have none
said = list(zip(good["layer"].tolist(), good["neuron"].tolist(), strict=True))
drawn = []
for k in layers:
    if wanted := sum(layer == k for layer, _ in said):
        drawn += cx.decoders.random_neurons(model, wanted, [k], exclude=taken, seed=k)
places = [*said, *drawn]  # (layer, neuron)
is_next = np.arange(len(places)) < len(said)
tokens = [int(congruences(k, j).argmax()) for k, j in places]

# %% tags=["hide-input"]
GROUPS = {"next-token neurons": is_next, "random neurons": ~is_next}
LOOK = {
    "next-token neurons": {"color": cx.plots.COLOURS[0], "marker": "o"},
    "random neurons": {"color": cx.plots.COLOURS[1], "marker": "s"},
}


def show(ids):
    """Tokens in a row; ␣ is a space, ↵ a new line, and other invisible characters are escaped."""
    marks = {" ": "␣", "\n": "↵"}
    text = model.tokenizer.decode(list(map(int, ids)))
    return "".join(marks.get(c, c if c.isprintable() else ascii(c)[1:-1]) for c in text)


def ending(ids, length=30):
    """The end of a prompt, without BOS."""
    text = show(ids[1:][-length:])
    return text if len(text) <= length else "…" + text[1 - length :]


def label(x):
    """Layer and neuron, and its token."""
    return f"{places[x][0]}.{places[x][1]} {show([tokens[x]])}"


def span(values):
    """Mean and its 95% interval, which needs two values."""
    v = np.asarray(values, dtype=float)
    v = v[~np.isnan(v)]
    middle = float(v.mean()) if v.size else float("nan")
    return cx.decoders.interval(v) if v.size > 1 else (middle, float("nan"), float("nan"))


def in_words(values, digits=1, sign=""):
    """Mean [its interval]."""
    mean, low, high = (round(v, digits) + 0.0 for v in span(values))  # no minus before a zero
    if np.isnan(mean):
        return "none"
    return f"{mean:{sign}.{digits}f} [{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"


def dots(axis, rows):
    """Mean and interval of each group for every row of numbers, one a neuron."""
    for y, values in enumerate(rows.values()):
        for q, (name, mask) in enumerate(GROUPS.items()):
            mean, low, high = span(values[mask])
            at = y + 0.24 * q - 0.12
            axis.plot([low, high], [at, at], color=LOOK[name]["color"])
            axis.plot(mean, at, ls="", ms=6, label=name if y == 0 else None, **LOOK[name])
    axis.axvline(0, color=cx.plots.INK, lw=1, ls=":")
    axis.set_yticks(range(len(rows)), rows)
    axis.set_ylim(len(rows) - 0.5, -0.5)


# %% [markdown]
r"""
For each neuron the texts are now searched for the places where its **pre-activation**, the number that goes into the activation function (of a gated MLP, the gate's), is largest: one place a text, the texts with the largest ones, and each text is cut off there. What is left is a prompt that ends at a **peak**. What is usual is measured at a set of random places, the same for all neurons.
"""

# %%
prompts = cx.decoders.top_prompts(model, texts, places, PROMPTS)
usual = cx.decoders.random_prompts(texts, min(USUAL, len(texts)))  # nothing was chosen for these

log_p = [  # of each neuron's token, at the end of each of its prompts
    cx.decoders.outcome(model, *place, p.tokens, t).log_probability
    for place, p, t in zip(places, prompts, tokens, strict=True)
]
ids, last = cx.decoders.pad(model, usual)
usual_log_p = torch.cat(
    [
        model(part)[torch.arange(len(part)), end].log_softmax(-1)[:, tokens].cpu()
        for part, end in zip(ids.split(4), last.split(4), strict=True)
    ]
)  # place neuron
rise_of_log = np.array([float(v.mean()) for v in log_p]) - usual_log_p.mean(0).numpy()
p_peak = np.array([float(v.exp().mean()) for v in log_p])
p_usual = usual_log_p.exp().mean(0).numpy()
clear = int((p_peak - p_usual)[is_next].argmax())

# %% tags=["hide-input"]
(k, j), t = places[clear], tokens[clear]
over_tokens = congruences(k, j).sort(descending=True)
over_neurons = torch.cat([model.blocks[i].mlp.W_out @ model.W_U[:, t] for i in layers])
over_neurons = over_neurons.cpu().sort(descending=True)
first_tokens = [show([i]) for i in over_tokens.indices[:5].tolist()]
first_neurons = [f"{layers[i // d_mlp]}.{i % d_mlp}" for i in over_neurons.indices[:5].tolist()]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.0, sharey=True)
for axis, found, names in ((left, over_tokens, first_tokens), (right, over_neurons, first_neurons)):
    rank = np.arange(len(found.values)) + 1
    axis.plot(rank, found.values, color=cx.plots.COLOURS[0])
    axis.plot(rank[:5], found.values[:5], "o", ms=4, color=cx.plots.COLOURS[1])
    words = "\n".join(f"{r}: {name}" for r, name in zip(rank, names, strict=False))
    at = {"transform": axis.transAxes, "ha": "right", "va": "top"}
    axis.text(0.98, 0.97, words, fontsize=8, parse_math=False, **at)
    axis.axhline(0, color=cx.plots.INK, lw=1, ls=":")
    axis.set_xscale("log")
left.set(xlabel="rank of the token", ylabel="congruence (logit)", title=f"Neuron {k}.{j}: tokens")
right.set(xlabel="rank of the neuron")
right.set_title(f"Token “{show([t])}”: neurons", parse_math=False)
cx.plots.picture(
    figure,
    "12.1",
    f"Congruence of one next-token neuron with all tokens (left) and of its token with all neurons "
    f"of layers {layers[0]} to {layers[-1]} (right), in order; the first five by name (dots).",
    f"Two falling curves. Neuron {k}.{j}: first token {first_tokens[0]} at "
    f"{float(over_tokens.values[0]):.2f}, second at {float(over_tokens.values[1]):.2f}, median "
    f"{float(over_tokens.values.median()):.2f}. Its token: first neuron "
    f"{float(over_neurons.values[0]):.2f}, second {float(over_neurons.values[1]):.2f}, median "
    f"{float(over_neurons.values.median()):.2f}.",
)

# %% [markdown]
r"""
Figure 12.1 shows the two rankings behind one pair. Its neuron is not typical: it is the next-token neuron with the largest gain of probability at its peaks, and is kept as the example below. Both curves start with a step, which is what the margin asks for, and then fall through zero or near it: most tokens are pushed a little, up or down, and most neurons push this token a little.

## Does it predict its word?

At a peak the neuron speaks as loudly as it ever does, and the next token ought to be its own. A neuron is written as its layer and its number in the layer, a head likewise; ␣ is a space, ↵ a new line, � a piece of a character.
"""

# %% tags=["hide-input"]
shown = min(4, *(len(p) for p in prompts))
pd.DataFrame(
    {
        "congruence": good["congruence"].map("{:.2f}".format).tolist(),
        "prompts that activate it most (their ends)": [
            " · ".join(ending(ids, 18) for ids in prompts[x].tokens[:shown])
            for x in range(len(said))
        ],
        "P of its token": [f"{p:.3f}" for p in p_peak[is_next]],
        "usually": [f"{p:.4f}" for p in p_usual[is_next]],
    },
    index=pd.Index([label(x) for x in range(len(said))], name="next-token neuron"),
)

# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(width=5.6, height=3.4)
for name, mask in GROUPS.items():
    axis.plot(p_usual[mask], p_peak[mask], ls="", ms=5, label=name, **LOOK[name])
low = min(p_usual.min(), p_peak.min())
axis.plot([low, 1], [low, 1], color=cx.plots.INK, lw=1, ls=":")
axis.set(xscale="log", yscale="log", xlabel="P of its token, usually", ylabel="P at its peaks")
figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
cx.plots.picture(
    figure,
    "12.2",
    f"Probability of the token that each neuron is most congruent with: mean over the prompts that "
    f"activate it most, against the mean over {len(usual)} random places. Dotted: no change.",
    "A scatter plot. "
    + "; ".join(
        f"{name}: mean P {p_peak[m].mean():.3f} at the peaks, {p_usual[m].mean():.4f} usually, "
        f"largest {p_peak[m].max():.2f}, above the line {(p_peak > p_usual)[m].sum()} of {m.sum()}"
        for name, m in GROUPS.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
beats = float((rise_of_log[is_next] > rise_of_log[~is_next].max()).mean())
print(f"next-token neurons {int(is_next.sum())}, random neurons {int((~is_next).sum())}")
print(f"next-token neurons whose log P rises more than for any random one: {beats:.0%}")
print(f"next-token neurons whose token has P > 0.5 at the peaks: {(p_peak[is_next] > 0.5).sum()}")
pd.DataFrame(
    {
        name: {
            "rise of log P at the peaks (nats)": in_words(rise_of_log[m], sign="+"),
            "P at the peaks, mean": f"{p_peak[m].mean():.2f}",
            "P at the peaks, median": f"{np.median(p_peak[m]):.2f}",
            "P usually, mean": f"{p_usual[m].mean():.3f}",
        }
        for name, m in GROUPS.items()
    }
)

# %% [markdown]
r"""
Two questions are answered here, and they must be kept apart. *Does the token become likelier?* In Figure 12.2 every point above the dotted line is a token that is likelier at the peaks. The first row of the table has the mean over neurons, of $\log P$, where large probabilities weigh less than in a mean of P: the interval of the next-token neurons lies above zero and clear of that of the random ones, so a product of weights has told something about texts. *Does the model predict it?* Of one neuron yes, of the others hardly: the mean of P is several times the median, for a few neurons make the mean. A neuron that is wholly devoted to one token is a small voice among thousands: it makes a rare continuation less rare. So congruence is a promise about the direction and none about the size.

## The terms of a pre-activation

Who wakes it? The stream $r$ that the layer's MLP reads at the last token is a sum. Its parts are the embedding $x_0$ (with the position, where the model adds one); what the MLP of every earlier layer $k$ has written, $m_k$; and what every head $i$ of every layer $k$ up to the neuron's own, $l$, has written there, $h_{ik}$, with the bias $b_{O,k}$ of that layer's attention. LayerNorm centres $r$ and divides by its scale $s$. Let $e$ be the neuron's input weights, with the gain of LayerNorm folded in (they are centred as well, so the centring need not be written), and $b$ its bias. A sum that is divided by one number is still a sum:

$$
\begin{aligned}
\text{pre} \;&=\; \Bigl(b + \sum_{k \le l} \frac{b_{O,k} \cdot e}{s}\Bigr) + \frac{x_0 \cdot e}{s} + \sum_{k < l} \frac{m_k \cdot e}{s} + \sum_{k \le l} \sum_i A_{ik} , \\
A_{ik} \;&=\; \frac{\langle h_{ik},\, e \rangle}{s} .
\end{aligned}
$$ (eq-look-terms)

$A_{ik}$ is the published **head attribution** {cite}`neo2024interpreting`, here with LayerNorm in it. Without the division the terms do not add up to anything that the neuron sees, and prompts with a large stream count for more. With it they add up exactly, but a question has been put aside: $s$ depends on all terms, and in a term it is taken as it stands, **frozen**. (In a model whose attention and MLP stand side by side, $k < l$ for the heads as well. A model with RMSNorm does not centre.)
"""


# %%
def input_weights(layer, neuron):
    """e and b of a neuron; of a gated one, those of its gate."""
    W_in, b_in = cx.decoders.input_weights(model, layer)
    return W_in[:, neuron].cpu(), b_in[neuron].cpu()


def parts_of_stream(read, layer):
    """Embedding, MLPs, heads and biases: together, what the MLP of a layer reads."""
    W_O, b_O = cx.decoders.output_weights(model, layer)  # of the heads that come before its neurons
    z = read.z[:, : len(W_O)]
    h = einops.einsum(
        z, W_O, "prompt layer head d, layer head d d_model -> prompt layer head d_model"
    )
    return read.embedding, read.mlp_out[:, :layer].sum(1), h, b_O


at_peak = [
    cx.decoders.read_prompts(model, p.tokens, k + 1)
    for (k, _), p in zip(places, prompts, strict=True)
]
x_0, m, h, b_O = parts_of_stream(at_peak[clear], places[clear][0])
s = cx.decoders.norm_scale(model, x_0 + m + h.sum((1, 2)) + b_O)  # prompt
e, b = input_weights(*places[clear])
A = h @ e / s[:, None, None]  # prompt layer head
pre = (b + b_O @ e / s) + x_0 @ e / s + m @ e / s + A.sum((1, 2))

# %% tags=["nbval-check-output"]
at_usual = cx.decoders.read_prompts(model, usual, layers[-1] + 1)  # read once, for all neurons
terms = [
    cx.decoders.attribution(model, *place, r) for place, r in zip(places, at_peak, strict=True)
]
usually = [cx.decoders.attribution(model, *place, at_usual) for place in places]
same = torch.allclose(pre, terms[clear].pre_activation, atol=1e-3)
print("the terms add up to the model's own pre-activation:", same)
print("and are those of cx.decoders.attribution:", torch.allclose(A, terms[clear].heads, atol=1e-3))

# %%
PARTS = ("heads", "MLPs", "embedding", "bias")


def parts(a):  # terms -> prompt part
    return torch.stack([a.heads.sum((1, 2)), a.mlps.sum(1), a.embedding, a.bias], 1)


raised = np.array(
    [(parts(a).mean(0) - parts(b).mean(0)).numpy() for a, b in zip(terms, usually, strict=True)]
)  # neuron part
# %% tags=["nbval-check-output"]
of_heads = raised[:, 0] / raised.sum(1)  # share of the rise
pd.DataFrame(
    {
        name: {
            **{f"{p}: rise": in_words(raised[m, q], sign="+") for q, p in enumerate(PARTS)},
            "share of the heads": in_words(100 * of_heads[m], 0) + " %",
        }
        for name, m in GROUPS.items()
    }
)

# %% [markdown]
r"""
The part of a term that is always there wakes nobody. So the table shows each part *less its mean over random places*, its **rise**, as a mean over neurons. The bias hardly has one, since only the scale moves it. The MLPs do more of the waking than the heads. The published method attributes to heads alone, and the last row says which share that covers. In the first layer no MLP comes before, and heads and embedding share it all. Of course an MLP only works on what heads and embedding have brought it. A head that acts through an earlier MLP is credited with nothing here. The experiment below counts that too.

Random neurons, drawn from the same layers, show nearly the same division: it is a fact about layers, and not about predicting.

## The picture: head by prompt

Take the terms of the heads one by one, and of each only the rise. Call the head with the largest rise on a prompt its **winner**. Figure 12.3 has two neurons. Left is the example. Right is the next-token neuron whose prompts agree least on the winner: the one for which the head that is strongest on average falls short of each prompt's own winner by most.
"""


# %%
rises = [
    a.heads - b.heads.mean(0) for a, b in zip(terms, usually, strict=True)
]  # prompt layer head


def shortfall(x):
    """By how much the head that is best on average falls short of the winners."""
    rise = rises[x].flatten(1)  # prompt head
    return float((rise.amax(1) - rise[:, rise.mean(0).argmax()]).mean())


others = [x for x in np.flatnonzero(is_next).tolist() if x != clear]
divided = max(others, key=shortfall, default=clear)


def name_of(h):
    """Layer and number of a head, all heads counted through."""
    return f"{h // n_heads}.{h % n_heads}"


def winners(x):
    return rises[x].flatten(1).argmax(1).tolist()


# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, height=6.4, width=9.6)
for axis, x in zip(axes, (clear, divided), strict=True):
    values = rises[x].flatten(1)  # prompt head
    columns = sorted(values.abs().amax(0).topk(min(12, values.shape[1])).indices.tolist())
    top = max(float(values.abs().max()), 1e-6)
    image = axis.imshow(values[:, columns], cmap="PuOr_r", vmin=-top, vmax=top, aspect="auto")
    won = [(columns.index(h), p) for p, h in enumerate(winners(x)) if h in columns]
    axis.plot(*zip(*won, strict=True), "o", ms=4, mfc="none", color=cx.plots.COLOURS[2])
    axis.set_xticks(range(len(columns)), [name_of(h) for h in columns], rotation=90, fontsize=8)
    ends = [ending(ids, 18) for ids in prompts[x].tokens]
    axis.set_yticks(range(len(ends)), ends, family="monospace", fontsize=10, parse_math=False)
    axis.grid(False)
    axis.set_xlabel("head")
    axis.set_title(label(x), parse_math=False)
    figure.colorbar(image, ax=axis, location="bottom", shrink=0.8, aspect=30, label="rise")
axes[1].yaxis.tick_right()
cx.plots.picture(
    figure,
    "12.3",
    "Head by prompt for two next-token neurons, the example and the one whose prompts agree least: "
    "each head's term less its mean over random places. The heads with the largest entries, in "
    "order of layer; circles are the winners. Each panel has colours of its own.",
    "Two heat maps. "
    + " ".join(
        f"{label(x)}, {len(rises[x])} prompts, winners: "
        + ", ".join(f"{name_of(h)} on {winners(x).count(h)}" for h in sorted(set(winners(x))))
        + "."
        for x in (clear, divided)
    ),
)

# %% [markdown]
r"""
Orange entries wake the neuron and purple ones quiet it. A dark orange column is a head that wakes the neuron on every prompt, and more than it would elsewhere. The circles stand in many columns, on the right as on the left. The claim to be tested is that different heads catch different uses of the token {cite}`neo2024interpreting`. So prompts with their circles in one column should have something in common that the others lack. One picture, chosen because it is divided, cannot settle it; the count over all neurons comes next.

## What did it look up?

A head is easier to believe in when one knows where it looks. And a head's output is an average over sources, so its term has sources too. With attention $a_{n,u}$ from the last token $n$ to the token $u$, and values $v_u$,

$$
A_{ik} \;=\; \sum_{u \le n} a_{n,u}\; \frac{\langle v_u W_O,\, e \rangle}{s} ,
$$ (eq-look-sources)

where $a$, $v$ and $W_O$ are those of head $i$ in layer $k$. What it gets from the last token itself, $u = n$, is no look-up. From BOS, $u = 0$, which is the same in every text, it gets at most a constant times its attention. The rest is from earlier tokens, and that is context.
"""


# %%
def attended(prompts, top):
    """Attention from the last token, and values, of all heads of the first layers."""
    ids, last = cx.decoders.pad(model, prompts)
    names = [f"blocks.{k}.attn.hook_{w}" for w in ("pattern", "v") for k in range(top)]
    _, cache = model.run_with_cache(ids, names_filter=names, stop_at_layer=top, device="cpu")
    a = torch.stack([cache[name][torch.arange(len(ids)), :, last] for name in names[:top]], 1)
    v = torch.stack([cache[name] for name in names[top:]], 1)  # prompt layer source head d_head
    v = v.repeat_interleave(n_heads // v.shape[3], dim=3)  # heads may share their values
    return a, v, last  # a: prompt layer head source


def by_source(a, v, layer, neuron):  # -> prompt layer head source, not yet divided
    e, _ = input_weights(layer, neuron)
    to = cx.decoders.output_weights(model, layer)[0] @ e  # layer head d_head
    v, a = v[:, : len(to)], a[:, : len(to)]
    return a * einops.einsum(
        v, to, "prompt layer source head d, layer head d -> prompt layer head source"
    )


def from_where(got, last):
    """The last token's part, that of BOS, that of all between: prompt part, over all heads."""
    total = got.sum((1, 2))  # prompt source
    own = total.gather(1, last[:, None])[:, 0]
    return torch.stack([own, total[:, 0], total.sum(1) - own - total[:, 0]], 1)


few = usual[: USUAL // 2]
a, v, last = attended(few, len(cx.decoders.feeding(model, layers[-1])))
from_usual = [
    from_where(by_source(a, v, *place) / b.scale[: len(few), None, None, None], last).mean(0)
    for place, b in zip(places, usually, strict=True)
]
where = torch.arange(len(last))
KINDS = {"own token": a[where, :, :, last], "previous": a[where, :, :, last - 1], "BOS": a[..., 0]}
looks = torch.stack([x[last > 1].mean(0) for x in KINDS.values()], -1).flatten(0, 1)  # head kind

sources, from_parts = [], []
for (k, j), p, b, was in zip(places, prompts, terms, from_usual, strict=True):
    a, v, last = attended(p.tokens[:ABLATED], len(cx.decoders.feeding(model, k)))
    sources.append(by_source(a, v, k, j) / b.scale[:ABLATED, None, None, None])
    from_parts.append((from_where(sources[-1], last).mean(0) - was).numpy())
from_parts = np.array(from_parts)  # neuron, own BOS earlier


# %% tags=["hide-input"]
def kind_of(h):
    """Where a head looks at random places: what gets over a third of its attention."""
    share, kind = looks[h].max(0)
    return f"{list(KINDS)[kind]} ({share:.0%})" if share > 1 / 3 else "spread"


won = {name: [h for x in np.flatnonzero(m) for h in winners(x)] for name, m in GROUPS.items()}
frequent = {h: [w.count(h) / len(w) for w in won.values()] for w in won.values() for h in w}
frequent = {h: v for h, v in sorted(frequent.items(), key=lambda v: -v[1][0]) if max(v) >= 0.02}
pd.DataFrame(
    [[kind_of(h), *(f"{v:.0%}" for v in shares)] for h, shares in frequent.items()],
    index=pd.Index([name_of(h) for h in frequent], name="head"),
    columns=["looks at", "winner, next-token neurons", "winner, random neurons"],
)

# %% tags=["nbval-check-output"]
agree = np.array(
    [max(map(winners(x).count, winners(x))) / len(rises[x]) for x in range(len(places))]
)
same = torch.allclose(sources[clear].sum(-1), terms[clear].heads[:ABLATED], atol=1e-3)
print("the sources add up to the terms:", same)
pd.DataFrame(
    {
        name: {
            "share of the prompts with the commonest winner": in_words(agree[m]),
            **{
                f"rise of the heads, from {part}": in_words(from_parts[m, q], sign="+")
                for q, part in enumerate(("the last token", "BOS", "earlier tokens"))
            },
        }
        for name, m in GROUPS.items()
    }
)

# %% [markdown]
r"""
The first table lists the heads that win on at least 2% of the prompts of either group, and where they look from random places: at the *own token*, at the *previous* one, at *BOS*, or at none of these with more than a third of the attention. Heads that look at their own token carry no context: what they say about the last token, the embedding could say as well. The heads that win for next-token neurons are by and large those that win for random ones: winning is a matter of the head more than of the neuron.

The second table, over all neurons, asks the published question in its first row: if heads divided the uses of a token among them, the commonest winner of a next-token neuron should take *fewer* of its prompts than that of a random neuron, which has no token to divide. It takes as many. Its last row is the look-up proper: what the heads bring from earlier tokens to the place where the neuron peaks, beyond what they bring anywhere. The row of the last token is the heads' echo. (BOS can count although it says nothing: a head that turns away from it, or to it, changes what it writes. These three rows use the prompts on which heads are silenced below, and half of the random places, so they add up to the rise of the heads only nearly.)

## Take the head out

An attribution is arithmetic on one forward pass. Would the neuron be less awake if the head had said nothing? Let $z$, what is inside the head before $W_O$, be replaced at every position by its mean $\bar z$ over other texts at that position, as in [chapter 9](09_causal). Let $\delta = (z - \bar z)\, W_O$ be what this takes from the stream at the last token. Three losses of the neuron can be computed:

$$
\begin{aligned}
\text{frozen} \;&=\; \frac{\delta \cdot e}{s(r)} , \\
\text{released} \;&=\; \frac{r \cdot e}{s(r)} - \frac{(r - \delta) \cdot e}{s(r - \delta)} , \\
\text{whole} \;&=\; \text{pre} - \text{pre in the model with the head silenced} .
\end{aligned}
$$ (eq-look-three)

The first keeps the scale and is nearly the rise, which has another mean in the place of $\bar z$: one over random places of all positions. The second lets the scale follow. The third lets everything follow that lies between the head and the neuron: all later heads and MLPs that read the head. For each neuron, the heads with the largest mean rise are silenced one at a time, then all of these together, its **team**; as a control, one of its other heads at random. (A neuron with too few heads has a smaller team, or no control.)
"""

# %%
means = torch.stack(
    [cx.decoders.mean_z(model, texts[:MEANS], READ, layer=k) for k in range(layers[-1] + 1)],
    1,
)  # pos layer head d_head
rng = np.random.default_rng(0)


def silence(heads):
    """Hooks that silence heads, counted through all layers."""
    by_layer = {}
    for h in heads:
        by_layer.setdefault(h // n_heads, []).append(h % n_heads)
    return [cx.decoders.replace_z(k, hs, means[:, k, hs]) for k, hs in by_layer.items()]


def drops(x, heads):
    """What silence takes from a neuron, from the log of its token's probability, and from that."""
    ids, before = prompts[x].tokens[:ABLATED], log_p[x][:ABLATED]
    after = cx.decoders.outcome(model, *places[x], ids, tokens[x], hooks=silence(heads))
    pre = terms[x].pre_activation[:ABLATED] - after.pre_activation
    lost = [pre, before - after.log_probability, before.exp() - after.probability]
    return torch.stack(lost).mean(1)  # quantity


ranked = [rise[:ABLATED].mean(0).flatten().argsort(descending=True).tolist() for rise in rises]
teams = [r[:TEAM] for r in ranked]
controls = [[int(rng.choice(r[TEAM:]))] if len(r) > TEAM else [] for r in ranked]
NOT = torch.full((3,), torch.nan)
single = torch.stack(
    [
        torch.stack([drops(x, [h]) for h in team] + [NOT] * (TEAM - len(team)))
        for x, team in enumerate(teams)
    ]
)  # neuron member quantity
joint = torch.stack([drops(x, team) for x, team in enumerate(teams)])  # neuron quantity
control = torch.stack([drops(x, h) if h else NOT for x, h in enumerate(controls)])


# %%
def without(x, h):
    """Frozen and released: what the neuron loses with a head, by arithmetic alone."""
    k, i = divmod(h, n_heads)
    e, _ = input_weights(*places[x])
    x_0, m, heads, b_O = parts_of_stream(at_peak[x], places[x][0])
    r = (x_0 + m + heads.sum((1, 2)) + b_O)[:ABLATED]
    here = torch.tensor([len(ids) - 1 for ids in prompts[x].tokens[:ABLATED]])
    delta = (at_peak[x].z[:ABLATED, k, i] - means[here, k, i]) @ model.blocks[k].attn.W_O[i].cpu()
    s, s_without = cx.decoders.norm_scale(model, r), cx.decoders.norm_scale(model, r - delta)
    frozen = delta @ e / s
    released = r @ e / s - (r - delta) @ e / s_without
    return float(frozen.mean()), float(released.mean())


points = []
for x, (team, other) in enumerate(zip(teams, controls, strict=True)):
    for h, found in zip([*team, *other], [*single[x, : len(team)], control[x]], strict=False):
        rise = float(rises[x][:ABLATED].flatten(1)[:, h].mean())
        points.append((is_next[x], rise, *without(x, h), float(found[0])))
points = pd.DataFrame(points, columns=["next", "rise", "frozen", "released", "whole"])

# %% tags=["hide-input"]
WAYS = ("frozen", "released", "whole")
enough = len(points) > 2
r_of = {w: np.corrcoef(points["rise"], points[w])[0, 1] if enough else np.nan for w in WAYS}
figure, (axes,) = cx.plots.panels(1, 3, height=2.9, sharex=True, sharey=True)
for axis, way in zip(axes, WAYS, strict=True):
    for name, mask in (("next-token neurons", points["next"]), ("random neurons", ~points["next"])):
        x, y = points["rise"][mask], points[way][mask]
        axis.plot(x, y, ls="", ms=4, label=name, alpha=0.8, **LOOK[name])
    ends = [points["rise"].min(), points["rise"].max()]
    axis.plot(ends, ends, color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="rise of the head's term", title=way.capitalize())
    text = f"mean {points[way].mean():.2f}\nr = {r_of[way]:.2f}"
    axis.text(0.04, 0.95, text, transform=axis.transAxes, va="top", fontsize=8)
axes[0].set_ylabel("loss of pre-activation")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
cx.plots.picture(
    figure,
    "12.4",
    f"What the attribution says and what the neuron loses when the head is silenced: mean "
    f"over {ABLATED} prompts, one point for each of {len(points)} pairs of a neuron and a head. "
    f"The dotted line is equality. Mean rise: {points['rise'].mean():.2f}.",
    "Three scatter plots. "
    + "; ".join(
        f"{way}: r {r:.3f}, mean {points[way].mean():.2f} for a mean rise of "
        f"{points['rise'].mean():.2f}"
        for way, r in r_of.items()
    )
    + ".",
)

# %% [markdown]
r"""
From the left: how much the choice of the mean matters, then the scale, then the rest of the model. Freezing the scale is not a small sin: once the scale follows, the mean loss is a third smaller, for a head that wakes a neuron also makes up some of the stream, and its absence lets all other terms count for more. The third panel is the real distance between attribution and intervention. There the heads do somewhat more again than with the scale alone released: they are read by MLPs and heads in between, and those terms were booked to *them*. Attribution orders
heads well, and measures them roughly.

The pairs are not independent: each neuron gives several, and they share heads. So $r$ is a description and has no interval.

## Does the token care?

The neuron is not the end of the story; its token is. Let $P$ be the probability of the neuron's token behind a prompt, and $P_H$ the same with the heads of the set $H$ silenced. The loss, in nats, is

$$
D(H) \;=\; \text{mean over prompts of } \bigl( \log P - \log P_H \bigr) ,
$$ (eq-look-loss)

one number a neuron. It is taken for each head of the team, for the team together, and for another head at random.
"""

# %% tags=["hide-input"]
ROWS = {f"head {m + 1} of the team": single[:, m] for m in range(TEAM)}
ROWS |= {"sum of these": single.nansum(1), "the team together": joint, "another head": control}
figure, (axes,) = cx.plots.panels(1, 2, height=3.0, sharey=True)
for axis, quantity, title in ((axes[0], 0, "The neuron"), (axes[1], 1, "Its token")):
    dots(axis, {name: v[:, quantity] for name, v in ROWS.items()})
    axis.set_title(title)
axes[0].set_xlabel("loss of pre-activation")
axes[1].set_xlabel("loss of log P (nats)")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
cx.plots.picture(
    figure,
    "12.5",
    f"What silencing costs a neuron and its token, mean over neurons of the mean over {ABLATED} "
    "prompts, with its 95% interval over neurons.",
    "Two dot plots; loss of log P. "
    + "; ".join(
        f"{row}: next-token neurons {in_words(v[is_next, 1], 2)}, random ones "
        f"{in_words(v[~is_next, 1], 2)}"
        for row, v in ROWS.items()
    )
    + ".",
)


# %% tags=["nbval-check-output"]
def typical(logs):
    """Geometric mean of P over prompts and neurons, with the interval of the mean of log P."""
    mean, low, high = 1e4 * np.exp(span(logs))
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


log_before = torch.stack([v[:ABLATED].mean() for v in log_p])
pd.DataFrame(
    {
        name: {
            "10,000 P, geometric mean: before": typical(log_before[m]),
            "with the strongest head silenced": typical(log_before[m] - single[m, 0, 1]),
            "with the team silenced": typical(log_before[m] - joint[m, 1]),
            "loss of log P, strongest head (nats)": in_words(single[m, 0, 1], sign="+"),
            "loss of log P, team": in_words(joint[m, 1], sign="+"),
            "loss of log P, another head": in_words(control[m, 1], sign="+"),
            "loss of P itself, strongest head": in_words(single[m, 0, 2], 2, "+"),
            "loss of P itself, team": in_words(joint[m, 2], 2, "+"),
        }
        for name, m in GROUPS.items()
    }
)

# %% [markdown]
r"""
The published ablation finds that the token's probability falls, significantly but by little {cite}`neo2024interpreting`. Figure 12.5 has the losses on the log scale, for the neuron on the left and for its token on the right. Three comparisons decide whether the published finding holds. Is the interval of *loss of log P, strongest head* above zero for next-token neurons? Is it above that of the random ones, for which the strongest head is silenced as well, often the same one? And is *another head* near zero for both? With all three, the attribution would point at a head that matters for this token and not at a head that matters for everything. Here the first two are not met, and *another head* is near zero: on these neurons the published finding is neither borne out nor refuted.
A probability that was small cannot lose much. So look at the log to see a cause, and at P itself to see whether it matters; there, a few tokens can make the whole mean, and then its interval is wide.

The intervals are over neurons. The prompts of one neuron are averaged first, for they are not independent. The intervals treat these neurons as draws from neurons like them, and take the texts, the prompts and the choice of heads as given. Neurons that share a strongest head are not quite independent either, so the intervals are, if anything, too narrow. The heads were chosen on the prompts on which they are then silenced, for what they write to the neuron; what that does to the token had no part in the choice.

## Alone or together?

Do heads that serve one token work independently or together? The question is open in the publication; it gives the thought that other heads, active in the same contexts, may be why single ones matter little {cite}`neo2024interpreting`. With the losses $D$ of {eq}`eq-look-loss`, take

$$
I \;=\; D(\text{team}) \;-\; \sum_{h \in \text{team}} D(\{h\}) .
$$ (eq-look-interaction)

For heads that work independently, in the sense that losses of $\log P$ add, $I = 0$. Where heads **back each other up**, each one alone is missed little, because the others still do the work, and all of them together are missed by more than the sum: $I > 0$. Where they work **in a chain**, or undo one another, the second loss adds little to the first, and $I < 0$. The same difference can be taken for the pre-activation. For the frozen terms there is no $I$ at all: they add. Whatever is found comes from LayerNorm, from what lies between, and, for the token, from everything behind.
"""

# %% tags=["nbval-check-output"]
interaction = joint - single.nansum(1)  # neuron quantity
one_layer = np.mean([len({h // n_heads for h in team}) == 1 for team in teams])
print(f"teams whose heads all sit in one layer: {one_layer:.0%}")
pd.DataFrame(
    {
        name: {
            f"{what}: {row}": in_words(values[m, q], sign="+")
            for q, what in enumerate(("pre-activation", "log P"))
            for row, values in (
                ("sum of single losses", single.nansum(1)),
                ("together", joint),
                ("difference I", interaction),
            )
        }
        | {"neurons with I > 0 for log P": f"{(interaction[m, 1] > 0).sum()} of {m.sum()}"}
        for name, m in GROUPS.items()
    }
)

# %% [markdown]
r"""
An interval of $I$ that lies above zero says that the heads of a team back each other up, for the neuron or for the token; one that includes zero does not say that they are independent, only that this run cannot tell. For the tokens it cannot tell, of next-token neurons or of random ones. Heads of one layer cannot see each other, so in the teams of one layer no member can step in when another falls silent. Their cover would be passive: what reads them is served by any of them, and only when all are silent is it missed.

## Through the neuron or past it?

Where the strongest head's silence lowers the token's probability, does it work through the neuron that pointed to the head? Two interventions separate the ways, as they did in [chapter 9](09_causal). **Hold** the neuron: silence the head, but set the neuron's activation at the last token to what it was before. Whatever the token still loses has gone past the neuron. And **silence the neuron** alone: leave the head, and set the neuron's activation to its mean over random places.

$$
\text{through} \;=\; \frac{D(\text{head}) - D(\text{head}, \text{neuron held})}{D(\text{head})} .
$$ (eq-look-through)

Means over neurons are taken above and below before dividing, since single losses can be near zero. Where the interval of $D(\text{head})$ itself includes zero, there is nothing to take a share of. The share's interval comes from drawing the neurons again, with replacement.
"""


# %%
def activation(x, of):
    """What a neuron says at the end of prompts, behind its activation function."""
    (k, j), name = places[x], f"blocks.{places[x][0]}.mlp.hook_post"
    return cx.decoders.at_last_token(model, of, [name], k + 1)[name][:, j]


def at_fixed(x, values, heads=()):
    """Loss of log P with the neuron's activation fixed at the end of each prompt."""
    ids, last = cx.decoders.pad(model, prompts[x].tokens[:ABLATED])
    (k, j), rows = places[x], torch.arange(len(ids))

    def fix(post, hook):  # prompt pos neuron; for prompts of one length, cx.decoders.hold_neuron
        post = post.clone()
        post[rows, last, j] = values.to(post.device)
        return post

    hooks = [*silence(heads), (f"blocks.{k}.mlp.hook_post", fix)]
    after = model.run_with_hooks(ids, fwd_hooks=hooks)[rows, last].log_softmax(-1).cpu()
    return float((log_p[x][: len(ids)] - after[:, tokens[x]]).mean())


head_lost = single[is_next, 0, 1].numpy()
held = np.array(
    [
        at_fixed(x, activation(x, prompts[x].tokens[:ABLATED]), teams[x][:1])
        for x in np.flatnonzero(is_next)
    ]
)
names = [f"blocks.{k}.mlp.hook_post" for k in layers]
post = cx.decoders.at_last_token(model, usual, names, layers[-1] + 1)
always = [post[f"blocks.{k}.mlp.hook_post"][:, j].mean() for k, j in places]
alone = np.array([at_fixed(x, v) for x, v in enumerate(always)])


def through(whole, past, draws=2000):
    """The share that goes through, and its middle 95% when neurons are drawn again; none where
    the whole is not clearly above zero."""
    if not span(whole)[1] > 0:
        return (float("nan"),) * 3
    picks = np.random.default_rng(0).integers(len(whole), size=(draws, len(whole)))
    again = 1 - past[picks].mean(1) / whole[picks].mean(1)
    return float(1 - past.mean() / whole.mean()), *np.quantile(again, [0.025, 0.975]).tolist()


# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(width=6.8, height=1.2 + 0.2 * max(len(said), 8))
order, rows = np.argsort(-head_lost), np.arange(len(said))
axis.hlines(rows, held[order], head_lost[order], color=cx.plots.COLOURS[7], lw=1)
for values, mark, colour, name in (
    (head_lost, "o", 0, "strongest head silenced"),
    (held, "s", 1, "and the neuron held"),
    (alone[is_next], "^", 2, "neuron alone silenced"),
):
    face = "none" if mark == "s" else cx.plots.COLOURS[colour]
    axis.plot(values[order], rows, mark, ms=5, mfc=face, color=cx.plots.COLOURS[colour], label=name)
axis.set_yticks(rows, [label(x) for x in order], fontsize=8, parse_math=False)
axis.invert_yaxis()
axis.axvline(0, color=cx.plots.INK, lw=1, ls=":")
axis.set(xlabel="loss of log P (nats)", title="Next-token neurons and their tokens")
figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
cx.plots.picture(
    figure,
    "12.6",
    "What the token of each next-token neuron loses when the strongest head is silenced, when the "
    "neuron is held at the same time, and when the neuron alone is set to its usual value.",
    f"Dot plot of {len(said)} neurons, mean loss: head silenced {in_words(head_lost, 2)}, neuron "
    f"held {in_words(held, 2)}, neuron alone {in_words(alone[is_next], 2)}; smallest and largest "
    f"with the head silenced {head_lost.min():.1f} and {head_lost.max():.1f}, with the neuron "
    f"alone {alone[is_next].min():.1f} and {alone[is_next].max():.1f}.",
)

# %% tags=["nbval-check-output"]
part, low, high = (100 * v for v in through(head_lost, held))
if np.isnan(part):
    print("the strongest head's effect on the token is not clearly above zero: no share of it")
else:
    print("of the strongest head's effect on the token, through the neuron:", end=" ")
    print(f"{part:.0f}% [{low:.0f}, {high:.0f}]")
pd.DataFrame(
    {
        "loss of log P (nats)": {
            "strongest head silenced": in_words(head_lost, sign="+"),
            "the same without the largest loss": in_words(np.sort(head_lost)[:-1], sign="+"),
            "and the neuron held": in_words(held, sign="+"),
            "difference: through the neuron": in_words(head_lost - held, sign="+"),
            "neuron alone silenced": in_words(alone[is_next], sign="+"),
            "neuron alone silenced, random neurons": in_words(alone[~is_next], sign="+"),
            "rise at the peaks, next-token neurons": in_words(rise_of_log[is_next], sign="+"),
            "rise at the peaks, random neurons": in_words(rise_of_log[~is_next], sign="+"),
        }
    }
)

# %% [markdown]
r"""
In Figure 12.6 the line between circle and square is what goes through the neuron; a square on the dotted line says that nothing goes past it. The second row of the table shows how much of the mean is the work of one neuron. As the head's own effect on the token cannot be told from zero, there is no share to print. The row of the difference is safer, for it divides by nothing: an interval above zero says that part of the effect goes through the neuron. Squares left of the dotted line are tokens for which the other ways work against the neuron.

The rows of the neuron alone test the name *next-token neuron* itself, and no head has a part in it. One activation is set to its usual value, at one place. The token loses: the weights have told what the neuron does to the prediction. This is a cause, and it is there while the probability stays small. The random neurons push as well. Each of them has a token that it is most congruent with, and that token loses too, about half as much: any loud neuron pushes its favourite. What sets the next-token neurons apart more is the company they keep. Their rise, in the last rows, is a multiple of the loss: the rest of the model leans towards the same token at these places.

## What breaks it

- **The peaks are extreme.** Everything here holds where a neuron is loudest. At middling activations other heads may be at work; the publication names this limit, too.
- **Largest is not needed.** Attribution names the head with the largest rise even if none matters. The random neurons have a strongest head like all others.
- **Silence is not neutral.** The mean of a head is a message as well, one that hardly any text sends. A head that looks at its own token, put to its mean, leaves every later layer with a token half known, for which no attribution to one neuron can account.
- **One collection.** On other texts the same neurons may have other peaks. Without a collection of your own these texts are held-out documents of 22 domains, each cut to its first tokens.
- **Congruence sees one step.** Later layers can take back what a neuron pushes, or say it louder; only behind the last layer nobody can.
- **Gated MLPs.** There a pre-activation is the gate's, and a second branch decides the sign of what goes through. A neuron can be wide open and push its token *down*; these prompts are then chosen by the wrong number.
- **Few neurons of one model.** They are its most congruent ones, and not a sample of all that predict.
"""

# %% [markdown]
r"""
## Turn it

Choose a neuron, one of its prompts, and heads: each bears its rise on this prompt, and a click on a layer takes all of its heads. The text shows what the chosen heads bring the neuron from each token, {eq}`eq-look-sources` added up over them. The first table is {eq}`eq-look-terms`, with every part beginning where the last one ended; the second says what would be left of the pre-activation without the chosen terms, with the scale frozen as everywhere above, and what the activation function would make of it.
"""


# %% tags=["hide-input"]
def draw(x, p, count=10):
    """The largest rises on a prompt, and what the strongest head gets from its last tokens."""
    ids, rise = prompts[x].tokens[p], rises[x][p].flatten()
    best = rise.topk(min(count, len(rise)))
    h = int(best.indices[0])
    from_each = sources[x][p].flatten(0, 1)[h, : len(ids)][-14:]
    words = [show([t]) for t in ids[-14:].tolist()]
    words = [w if len(w) <= 12 else w[:5] + "…" + w[-6:] for w in words]
    names = [f"{name_of(i)} {kind_of(i).partition(' (')[0]}" for i in best.indices.tolist()]
    figure, ((left, right),) = cx.plots.panels(1, 2, height=3.4)
    for axis, values, labels in ((left, best.values, names), (right, from_each, words)):
        signs = [cx.plots.COLOURS[0 if v >= 0 else 1] for v in values.tolist()]
        axis.barh(range(len(values)), values, color=signs)
        axis.set_yticks(range(len(labels)), labels, parse_math=False)
        axis.axvline(0, color=cx.plots.INK, lw=1, ls=":")
        axis.invert_yaxis()
    left.set(xlabel="rise of the term", title="Heads on this prompt")
    right.set(xlabel="part of the term", title=f"What head {name_of(h)} gets from")
    first = zip(names[:3], best.values[:3].tolist(), strict=False)
    return cx.plots.picture(
        figure,
        "12.7",
        f"Neuron {label(x).replace('<', '&lt;')}, prompt {p + 1}, pre-activation "
        f"{float(terms[x].pre_activation[p]):.1f}; P of its token {float(log_p[x][p].exp()):.3f}.",
        "Two bar charts. Largest rises: "
        + ", ".join(f"{name} {v:.2f}" for name, v in first)
        + f". Head {name_of(h)} gets most from “{words[int(from_each.argmax())]}”, "
        f"{float(from_each.max()):.2f}.",
    )


SHOWN, OTHERS = 5, NEURONS // 2  # prompts of each neuron; how many of the random neurons
listed = [*range(len(said)), *range(len(said), len(places))[:OTHERS]]
record = cx.widgets.look_up_record(
    model,
    [
        cx.widgets.looked_up(
            model,
            label(x),
            list(GROUPS)[int(not is_next[x])],
            tokens[x],
            prompts[x].tokens[: min(SHOWN, len(sources[x]))],
            terms[x],
            usually[x],
            sources[x],
            log_p[x].exp(),
        )
        for x in listed
    ],
    looks=[kind_of(h) for h in range(len(looks))],
)
cx.widgets.LookUps(record, neuron=listed.index(divided), picture=draw(divided, 0))

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. The publication states what follows in words. The conditions are this book's reading, *half* where a share is asked for. Brackets hold 95% intervals over neurons; a line whose interval contains its condition is undecided. What this book asks of its own accord is said in sentences below the ledger. A number close to its condition is not to be leaned on: while this chapter was made, other numbers of texts and of prompts turned such lines, among them those of the strongest head, of the share through the neuron and of the neuron alone. Differences between the groups take the neurons in pairs, each next-token neuron with a random one of the same layer.
"""


# %% tags=["hide-input", "nbval-check-output"]
def paired(v):
    """Next-token neurons less random ones of the same layer, as interval."""
    by_layer = sorted(range(len(said)), key=lambda x: places[x][0])  # as the random ones are
    return span(v[is_next][by_layer] - v[~is_next])


earlier = through(from_parts[is_next].sum(1), from_parts[is_next, :2].sum(1))
rise, fall = paired(rise_of_log), span(single[is_next, 0, 2])
by_neuron = through(head_lost, held)
cx.claims.ledger(
    model,
    cx.claims.Claim(
        "next_token_neurons",
        "rise of log P at the peaks, less that of random neurons (nats)",
        rise[0],
        rise[1:],
        digits=1,
    ),
    cx.claims.Claim(
        "heads_know_contexts",
        "share of the heads' rise that comes from earlier tokens",
        earlier[0],
        earlier[1:],
    ),
    cx.claims.Claim(
        "several_heads",
        "share of the neurons on whose prompts more than one head wins",
        float((agree[is_next] < 1).mean()),
    ),
    cx.claims.Claim(
        "loss_is_there", "loss of P when the strongest head is silenced", fall[0], fall[1:]
    ),
    cx.claims.Claim("loss_is_small", "the same", fall[0], fall[1:]),
    cx.claims.Claim(
        "heads_wake_neurons",
        "share of the head's effect on the token that goes through the neuron",
        by_neuron[0],
        by_neuron[1:],
    ),
)


# %% tags=["hide-input", "nbval-check-output"]
def ends(triple, form="+.1f"):
    """A number and its interval in words."""
    mean, low, high = (format(v + 0.0, form) for v in triple)
    return f"{mean} [{low}, {high}]"


by_heads, winner = span(of_heads[is_next]), paired(agree)
strongest, team = paired(single[:, 0, 1].numpy()), span(interaction[is_next, 1])
lonely = paired(alone)
display(
    cx.claims.finding(
        f"Less than half of a next-token neuron's rise comes from the heads, though attribution is to heads alone: {ends(by_heads, '.0%')}.",
        holds=by_heads[2] < 0.5,
    ),
    cx.claims.finding(
        f"Prompts of a next-token neuron do not agree clearly less on the winner than those of a random one: the commonest winner's share is {ends(winner, '+.0%')} larger.",
        holds=winner[2] >= 0,
    ),
    cx.claims.finding(
        f"Whether silencing the strongest head costs a next-token neuron's token more log P than a random neuron's is not settled: {ends(strongest)} nats.",
        holds=strongest[1] <= 0 <= strongest[2],
    ),
    cx.claims.finding(
        f"Whether silencing the team costs more log P than its heads cost one by one is not settled: {ends(team)} nats more.",
        holds=team[1] <= 0 <= team[2],
    ),
    cx.claims.finding(
        f"Silencing the neuron alone costs its token more log P than where the neuron is a random one: {ends(lonely)} nats.",
        holds=lonely[1] > 0,
    ),
)

# %% [markdown]
r"""
The publication studies models of the GPT-2 and Pythia families. Where a line does not hold, this model and these texts have failed to bear it out; that is a smaller thing than a refutation. Whether a sentence can say when a head is active is the question of [chapter 13](13_explanations).

## Exercises

1. Derive {eq}`eq-look-chance`. Then let every token have a length, so that the congruence of neuron $j$ with token $t$ is $\lambda_t\, g_{jt}$ with independent standard normal $g$ and very different $\lambda_t > 0$. Why does the number of clean pairs fall?
2. In {eq}`eq-look-terms`, let one head's output be multiplied by a large number. What happens to its own term, and to the terms of all others? What does *released* give in {eq}`eq-look-three` for a head with $\delta \cdot e = 0$?
3. Two heads write the same vector, and the neuron's token gains $f(y)$ when $y$ of them speak, with $f(0) = 0$. Find $I$ of {eq}`eq-look-interaction` for this team of two. For which $f$ is it positive? Give one for which the attribution of both heads is large and each single loss is zero.
4. A neuron of the last layer has activation $\alpha$ above its usual one, and the last LayerNorm has scale $s_f$. By how much does this raise the *logit* of its token, if the scale is frozen? Why does $\log P$ change by less, and when by almost as much?

```{admonition} Solutions
:class: dropdown

1. Row and column of an entry hold $N + V - 1$ different entries, all equally likely to be the largest, so the entry is first in both with probability $1 / (N + V - 1)$; add up over $N V$ entries. With very different $\lambda_t$, nearly all neurons have their best token among the few with the largest $\lambda_t$. A token is in at most one clean pair, so there are hardly more clean pairs than such tokens.
2. With the factor $\kappa \to \infty$, $s$ grows like $\kappa\, s(h)$, so the head's own term tends to $\langle h, e \rangle / s(h)$ and all other terms that $s$ divides to zero, though nothing about those parts has changed. If $\delta \cdot e = 0$, *frozen* is zero and *released* is $(r \cdot e) \bigl( 1 / s(r) - 1 / s(r - \delta) \bigr)$: a head that says nothing to a neuron still turns it down by filling the stream, or up by emptying it, where $r \cdot e > 0$.
3. $D(\text{team}) = f(2)$ and each single loss is $f(2) - f(1)$, so $I = 2 f(1) - f(2)$. It is positive if $f(1) > f(2) / 2$, which a strictly concave $f$ ensures: saturation. With $f(1) = f(2) > 0$ the single losses are zero and $I = f(2)$, though both heads write, and both are credited.
4. By $\alpha\, c_j(t) / s_f$, with $c_j(t)$ from {eq}`eq-look-congruence`. $\log P$ is the logit less the log of the sum of all exponentials, and the sum contains the token itself, as well as other tokens that the neuron moves. If those others cancel, and the logit rises by $g$ from a probability $P_0$, then $\log P$ rises by $g - \log(1 - P_0 + P_0 e^{g})$: almost $g$ while $P_0 e^{g}$ is small, and almost nothing when $P_0$ is near one.
```

## Where this comes from

Congruence, next-token neurons, the prompts cut off at the peak, the attribution of a neuron to heads, random neurons as a baseline, the ablation of a head and the question about co-operation are from {cite:t}`neo2024interpreting`. What chance gives, the clean pairs and their margin, LayerNorm in the terms, the rise over random places, the sources of a term, the released scale, the interaction and the held neuron are worked out here. Reading a model as a sum in a residual stream follows {cite:t}`elhage2021framework`; the hooks are those of {cite:t}`nanda2022transformerlens`.
"""
