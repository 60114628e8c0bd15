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
# Does the model use it?

**Yes: the next word hangs on what the heads gather, a circuit can stand in for them, and much of what they give can be had from one vector a domain.**
In place of the stable heads the self-normalised circuit repairs 81% [67%, 87%] of the damage that silencing them does.
The paper's circuit does more damage than silence in 13 of 17 domains, and repairs 62% [35%, 76%] once its mean is put right.
One vector a domain, made from other texts, gives back 77% [53%, 88%] of what silence costs late in a text, and 96% in other languages.
The neurons of chapter 7 carry 55% [34%, 79%] of a vector's gain by themselves, but only 22% [12%, 48%] of it is lost when they are held.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
HEADS = None  # a list of heads, or None for those that chapter 4 calls stable
STEADY = 0.3  # a head whose denominator strays by less than this, relative to its mean, is stable
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the circuit's token at the destination
PROSE = ("american", "british", "travel")  # the domains that count as plain prose
READS = None  # passages of a domain, tokens of each, tokens where a direction is added; None: as the model's size allows
MEANS = 64  # texts of the collection behind mean-ablation

# %% tags=["hide-input", "nbval-check-output"]
from itertools import pairwise

import einops
import numpy as np
import pandas as pd
import torch

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
study = cx.study(cx.load(MODEL), TEXTS, TOKEN, HEADS, STEADY, PROSE)
model, weights, passages, texts = study.model, study.weights, study.passages, study.texts
n, heads, domains, names = study.n, study.heads, study.domains, study.names
prose, calibrating, circuit = study.prose, study.calibrating, study.circuit
self_normalised = circuit.self_normalised()
large = sum(p.numel() for p in model.parameters()) > 50_000_000
per_domain, READ, STEER = READS or ((1, 65, 32) if large else (2, 129, 48))  # what takes the time
chosen = [int(i) for name in names for i in np.flatnonzero(domains == name)[:per_domain]]
READ, STEER = min(READ, study.length), min(STEER, study.length)
reading = torch.stack([passages[i].tokens[:READ] for i in chosen])  # text pos
of = domains[chosen]  # the domain of each
print(f"{study}, calibrated on {calibrating.name}")
print(f"the whole model reads {len(chosen)} of the passages, {READ} tokens each")

# %% [markdown]
r"""
## From agreement to use

[Chapter 8](08_evaluation) held two circuits against the truth: the paper's, with the constants of one calibration text, and the self-normalised one, which takes its denominators from the text that it reads. Both agree with the heads to some degree, measured by a correlation or by the variance left unexplained. Agreement is not use. Perhaps the rest of the model lives on just the part of the heads' output that the circuit
misses; perhaps it does not listen to these heads at all, and then any error would do. The earlier post leaves the question open: if later layers average the noise of the approximation away, the approximation is a *good substitute*; if they make use of the exact activations, it leaves too much unexplained {cite}`gibson2025contextual`.

The model itself can answer. Let it read a text, take out what the stable heads have gathered, put in what a circuit says they gathered, and let everything behind it go on: the MLP, the later layers, the prediction. A circuit so far spoke about one destination, $n$, and a model reads all of them at once, so it has to be written down for every destination of a text. Let $z_n^h$ be what head $h$
has gathered at destination $n$ before $W_O$, a vector of $d_\text{head}$ numbers; the layer writes $\sum_h z_n^h W_O^h + b_O$. For the paper's circuit, whose heads are $H$,

$$
\begin{aligned}
\hat z_n^h \;&=\; \frac{1}{\text{denom}_n^h} \sum_{i \le n} \text{pos}_{n,i}\;\text{content}_n^h(x_i)\; \hat v_{n,i}^h , \\
\hat v_{n,i}^h \;&=\; \text{LN}\bigl(W_E[x_i] + W_\text{pos}[n]\bigr)\, W_V^h + b_V^h ,
\end{aligned}
$$ (eq-cau-z)

with one kernel $\text{pos}_n$ for all of $H$, the query of `TOKEN` in kernel and content whatever stands at $n$, and for each $n$ the denominator of the calibration text at that position. The self-normalised circuit has the text's own query and denominators, a kernel for each head, and positional values, which chapter 8 adds. In code:
"""

# %%
x = passages[chosen[0]].tokens[: n + 1]
q = cx.decoders.queries_of(weights, circuit.token, n + 1)  # head dest d_head
content, position = cx.split.split_scores(weights, x, q, circuit.C)  # head dest source
pos = cx.shared_kernel(cx.split.causal_softmax(position[heads]))  # dest source
denom_cal = cx.decoders.denominators_along(weights, calibrating, TOKEN)  # head dest

here = weights.embeddings()[x] + weights.W_pos[n]  # every source as if it stood at n
value = cx.layer_norm(here, weights.eps) @ weights.W_V[heads] + weights.b_V[heads, None]
row = pos[n] * content[heads, n].exp() / denom_cal[heads, n, None]  # head source
z_n = einops.einsum(row, value, "head source, head source d_head -> head d_head")

# %% tags=["nbval-check-output"]
z = cx.decoders.circuit_z(circuit, x, denom_cal)  # dest head d_head
z_self = cx.decoders.self_normalised_z(circuit, x)
z_true = cx.decoders.mean_z(model, [x], len(x))  # the mean over one text is the text's own


def to_neurons(z):
    """What is inside the heads at n, taken to the MLP's neurons."""
    out = einops.einsum(z, weights.W_O[heads], "head d_head, head d_head d_model -> d_model")
    return out @ weights.mlp_input()[0]


def same(a, b):
    """Equal up to rounding, measured against the larger entries."""
    return bool((a - b).abs().max() < 1e-3 * b.abs().max())


print("same as cx.decoders.circuit_z at n:", same(z_n, z[n]))
print(
    "at n this is the paper's summary:", same(to_neurons(z[n]) / circuit.scale, circuit.summary(x))
)
print("and the self-normalised outputs:", end=" ")
print(
    same(
        to_neurons(z_self[n]),
        self_normalised.at.rebuilt_outputs(x)[heads].sum(0) @ weights.mlp_input()[0],
    )
)
untouched = cx.decoders.token_losses(model, x[None])
put_back = cx.decoders.replace_z(0, heads, z_true[:, heads])
print("the heads' own z, put back, changes nothing:", end=" ")
print(same(cx.decoders.token_losses(model, x[None], [put_back]), untouched))

# %% [markdown]
r"""
Four checks before anything is concluded. The formula is what the package computes; at the destination $n$ it is the summary of [chapter 6](06_circuit), neuron by neuron, and the self-normalised one that of chapter 8; and the machinery of the intervention is transparent, for a head that gets its own $z$ back makes no difference.

## What a change costs

Let $p_n$ be the model's distribution for the token after position $n$, and $\tilde p_n$ the one after an intervention. Two numbers tell them apart, both in nats. The first is the **rise of the loss** on the token that did come,

$$
\Delta_n \;=\; \log p_n(x_{n+1}) - \log \tilde p_n(x_{n+1}) ,
$$ (eq-cau-loss)

which says what the intervention costs on this text. It may be negative at any one place, by luck, and even on average, if the model was led astray by what has been taken from it. The second does not ask what came:

$$
\text{KL}_n \;=\; \sum_t p_n(t) \log \frac{p_n(t)}{\tilde p_n(t)} \;\ge\; 0 .
$$ (eq-cau-kl)

This is the **Kullback-Leibler divergence**, and by comparing the two equations it is the rise of the loss that is to be expected if the next token is drawn from $p_n$ itself: the cost on a text of which the model has the right idea. It has no luck in it, and is never negative.

A cost means little without a scale. The scale here is **mean-ablation**: the stable heads get their own mean over other texts, position by position, so that they say nothing about the text; *silence*, for short. A circuit's cost, divided by that cost, is the share that it fails to repair:

$$
\text{repaired} \;=\; 1 - \frac{\operatorname{mean} \text{KL}\;\text{with the circuit}}{\operatorname{mean} \text{KL}\;\text{with mean-ablation}} .
$$ (eq-cau-repaired)

Both means are taken over the positions of a passage, then over passages and domains, so that every domain counts alike. The share is 1 for a perfect stand-in and 0 for one that is no better than silence, and it has no lower bound. One more condition will be useful. Mean-ablation is right on average over the texts that it was made from, by construction, which a circuit that was calibrated on a single text is not. So the paper's circuit is run a second time with its **mean put right**: at each position its mean over the same texts is exchanged for that of the heads. All of what it then says about a text is still its own.
"""


# %%
def log_probs(x, hooks=()):  # pos -> pos vocab
    """What the model expects after every position of one text."""
    return model.run_with_hooks(x[None], fwd_hooks=list(hooks))[0].log_softmax(-1).cpu()


def cost(x, before, after):  # pos, pos vocab, pos vocab -> 2 pos-1
    """Rise of the loss and KL divergence at every position of one text, in nats."""
    rise = (before - after)[:-1].gather(-1, x[1:, None])[:, 0]
    divergence = (before.exp() * (before - after)).sum(-1)[:-1]
    return torch.stack([rise, divergence])


collected = [t.tokens[:READ] for t in texts[:MEANS]]
means = cx.decoders.mean_z(model, collected, READ)  # pos head d_head
said = torch.stack([cx.decoders.circuit_z(circuit, x, denom_cal) for x in collected])
off = said.mean(0) - means[:, heads]

STAND_INS = {
    "mean-ablation": lambda x: means[:, heads],
    "paper's circuit": lambda x: cx.decoders.circuit_z(circuit, x, denom_cal),
    "its mean put right": lambda x: cx.decoders.circuit_z(circuit, x, denom_cal) - off,
    "self-normalised circuit": lambda x: cx.decoders.self_normalised_z(circuit, x),
}
costs = {name: [] for name in STAND_INS}
as_it_is = []  # the untouched loss
for x in reading:
    before = log_probs(x)
    as_it_is.append(-before[:-1].gather(-1, x[1:, None])[:, 0])
    for name, stand_in in STAND_INS.items():
        after = log_probs(x, [cx.decoders.replace_z(0, heads, stand_in(x))])
        costs[name].append(cost(x, before, after))
rise, kl = ({k: torch.stack(v)[:, m] for k, v in costs.items()} for m in (0, 1))  # text pos-1
as_it_is = torch.stack(as_it_is)


# %% tags=["hide-input"]
def by_domain(values):  # text ... -> domain
    """The mean of each domain's passages."""
    return np.array([float(values[torch.tensor(of == name)].mean()) for name in names])


def span(values):
    """Mean over domains and its 95% interval, which needs two of them."""
    v = np.asarray(values, dtype=float)
    v = v[~np.isnan(v)]
    middle = float(v.mean()) if v.size else float("nan")
    return cx.decoders.interval(v) if v.size > 1 else (middle, float("nan"), float("nan"))


def in_words(values, digits=2, sign=""):
    """Mean over domains [its interval]."""
    mean, low, high = (round(v, digits) + 0.0 for v in span(values))  # no minus before a zero
    return f"{mean:{sign}.{digits}f} [{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"


def share(numerator, denominator, draws=2000):
    """1 - mean / mean over domains, and its middle 95% when domains are drawn again."""
    a, b = np.asarray(numerator), np.asarray(denominator)
    picks = np.random.default_rng(0).integers(len(a), size=(draws, len(a)))
    again = 1 - a[picks].mean(1) / b[picks].mean(1)
    return (float(1 - a.mean() / b.mean()), *(float(np.quantile(again, q)) for q in (0.025, 0.975)))


NONE = (float("nan"),) * 3


def repaired(numerator, denominator):
    """A share with its interval; none of what is no loss."""
    return share(numerator, denominator) if np.mean(denominator) > 0 else NONE


def percent(numerator, denominator):
    """The same in words; no share of what is not a loss."""
    if not np.mean(denominator) > 0:
        return ""
    mean, low, high = (round(100 * v) + 0 for v in share(numerator, denominator))
    return f"{mean}% [{low}, {high}]"


def signed(value, digits=2):
    """A number with its sign, and no minus in front of a zero."""
    return f"{round(float(value), digits) + 0.0:+.{digits}f}"


MARKS = "osD^vP*X"


def look(k):
    """Colour and marker of the k-th condition."""
    return {"color": cx.plots.COLOURS[k % 8], "marker": MARKS[k % len(MARKS)]}


def dots(axis, row, values, k, **options):
    """A mean over domains with its interval, as a marker on a line."""
    mean, low, high = span(values)
    axis.plot([low, high], [row, row], color=cx.plots.COLOURS[k % 8], lw=1.6)
    axis.plot(mean, row, ls="", ms=7, **look(k), **options)


figure, (axes,) = cx.plots.panels(1, 2, height=2.4, sharey=True)
for axis, measure, title in ((axes[0], rise, "Rise of the loss"), (axes[1], kl, "KL divergence")):
    for k, name in enumerate(STAND_INS):
        dots(axis, k, by_domain(measure[name]), k)
    axis.axvline(0, color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="nats a token", title=title)
axes[0].set_yticks(range(len(STAND_INS)), STAND_INS)
axes[0].invert_yaxis()
cx.plots.picture(
    figure,
    "9.1",
    f"What it costs to replace what the stable heads gathered, at every destination of "
    f"{len(reading)} passages: mean over {len(names)} domains and its 95% interval.",
    "Two dot plots with intervals. Rise of the loss: "
    + ", ".join(f"{k} {by_domain(v).mean():.3f}" for k, v in rise.items())
    + "; KL divergence: "
    + ", ".join(f"{k} {by_domain(v).mean():.3f}" for k, v in kl.items())
    + ".",
)

# %% tags=["nbval-check-output"]
silence = by_domain(kl["mean-ablation"])
print(f"untouched loss: {by_domain(as_it_is).mean():.1f} nats a token")
pd.DataFrame(
    {
        "rise of the loss": [in_words(by_domain(v)) for v in rise.values()],
        "KL": [in_words(by_domain(v)) for v in kl.values()],
        "repaired": ["", *(percent(by_domain(kl[k]), silence) for k in list(kl)[1:])],
        "repaired, by the loss": [
            "",
            *(percent(by_domain(rise[k]), by_domain(rise["mean-ablation"])) for k in list(kl)[1:]),
        ],
        "domains with less KL than silence": [
            "",
            *(f"{(by_domain(kl[k]) < silence).sum()} of {len(names)}" for k in list(kl)[1:]),
        ],
    },
    index=pd.Index(STAND_INS, name="in place of the heads"),
)


# %% tags=["hide-input", "nbval-check-output"]
def ends(triple, form=".0%"):
    """A number and its interval in words."""
    mean, low, high = (format(v + 0.0, form) for v in triple)
    return f"{mean} [{low}, {high}]"


mended = share(by_domain(kl["its mean put right"]), silence)
by_itself = share(by_domain(kl["self-normalised circuit"]), silence)
worse_in = int((by_domain(kl["paper's circuit"]) > silence).sum())
display(
    cx.claims.finding(
        f"In place of the stable heads the self-normalised circuit repairs {ends(by_itself)} of the damage that silencing them does.",
        holds=by_itself[1] > 0.5 and by_itself[2] < 1,
    ),
    cx.claims.finding(
        f"The paper's circuit does more damage than silence in {worse_in} of {len(names)} domains, and repairs {ends(mended)} once its mean is put right.",
        holds=worse_in > len(names) / 2 and mended[1] > 0,
    ),
)

# %% [markdown]
r"""
The unit of the intervals is the domain, since passages of one domain are not independent: Student's $t$ for a mean, the bootstrap over domains for a share. They speak about domains like these and are rough where a few domains carry most of a cost, as they do for ablation. The self-normalised circuit loses little of what the prediction on these texts needs; that loss is largest at the first few positions, as the next section but one shows. The paper's circuit is one formula with one token at the destination and one text's constants, asked at all destinations of all texts. On average it does more harm than silence, an average with an interval that still holds zero; by domains the verdict is clear. Most of the harm is no more than a wrong mean, as the row below says.
The last column keeps the average honest: silence costs much in a few domains, and there even the paper's circuit is worth having. The average also depends on how much of each passage is read, `READ`, for a reason to be seen below: the cost of the circuit is not spread evenly over a text.

## Are these heads special?

The circuit has a right to constant denominators only because its heads hold still. So it should fail elsewhere. Other heads of the layer would be the test, in groups as large as the stable one, each with a circuit and a calibration text of its own; `mini` has none, for all of its heads are stable. So take the stable heads one at a time, from the steadiest denominator to the least steady, and run the experiment again for each alone, on one passage of each domain.
"""

# %%
others = (
    np.random.default_rng(0)
    .permutation([h for h in range(weights.n_heads) if h not in heads])
    .tolist()
)
size = len(heads)
dealt = [sorted(others[k : k + size]) for k in range(0, len(others), size)]
by_spread = sorted(heads, key=lambda h: study.roster["relative spread"][h])
rivals = [g for g in dealt if len(g) == size or len(dealt) == 1] or [[h] for h in by_spread]
groups = [heads, *rivals]
own_circuits = []
for group in groups:
    text = cx.denominators.middle_text(weights, prose, group, n, TOKEN)
    own = cx.ContextualCircuit.calibrate(weights, text, group, n, TOKEN)
    own_circuits.append((own, cx.decoders.denominators_along(weights, text, TOKEN)))

TRIO = ("mean-ablation", "paper's circuit", "self-normalised circuit")
firsts = [int(np.flatnonzero(of == name)[0]) for name in names]  # one passage of each domain
by_group = np.zeros((len(groups), 3, len(names)))  # KL
by_group[0] = torch.stack([kl[k][firsts].mean(-1) for k in TRIO])  # the stable heads, from above
for column, i in enumerate(firsts):
    x = reading[i]
    before = log_probs(x)
    for row in range(1, len(groups)):
        own, constants = own_circuits[row]
        in_place = (
            means[:, groups[row]],
            cx.decoders.circuit_z(own, x, constants),
            cx.decoders.self_normalised_z(own, x),
        )
        for k, z in enumerate(in_place):
            after = log_probs(x, [cx.decoders.replace_z(0, groups[row], z)])
            by_group[row, k, column] = cost(x, before, after)[1].mean()

# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(height=1.2 + 0.42 * len(groups), width=7.5)
for row, found in enumerate(by_group):
    for column, k in enumerate((0, 1, 3)):
        axis.plot(
            found[column],
            [row + 0.22 * (column - 1)] * len(names),
            ls="",
            ms=3,
            alpha=0.4,
            **look(k),
        )
        axis.plot(
            found[column].mean(),
            row + 0.22 * (column - 1),
            ls="",
            ms=8,
            label=TRIO[column] if row == 0 else None,
            **look(k),
        )
axis.set_xscale("log")
axis.set_yticks(
    range(len(groups)),
    [
        f"head{'s' * (len(g) > 1)} {', '.join(map(str, g))}" + (" (stable)" if g == heads else "")
        for g in groups
    ],
)
axis.invert_yaxis()
axis.set_xlabel("KL divergence (nats a token, log scale)")
axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
cx.plots.picture(
    figure,
    "9.2",
    f"The same three stand-ins for the stable heads and for {'groups of other heads' if others else 'each of them alone'}, each with "
    "a circuit of its own. Large: mean over domains; small: the domains, one passage each.",
    "A dot plot, one row a group. "
    + "; ".join(
        f"head{'s' * (len(g) > 1)} {', '.join(map(str, g))}: ablation {f[0].mean():.3f}, paper's circuit "
        f"{f[1].mean():.3f}, self-normalised {f[2].mean():.4f}"
        for g, f in zip(groups, by_group, strict=True)
    )
    + ".",
)

# %% tags=["nbval-check-output"]
pd.DataFrame(
    {
        "mean-ablation, KL": [f"{f[0].mean():.3f}" for f in by_group],
        "paper's circuit repairs": [percent(f[1], f[0]) for f in by_group],
        "self-normalised circuit repairs": [percent(f[2], f[0]) for f in by_group],
    },
    index=pd.Index([", ".join(map(str, g)) for g in groups], name="heads"),
).assign(**{"relative spread": [f"{max(study.roster['relative spread'][g]):.2f}" for g in groups]})

# %% tags=["hide-input", "nbval-check-output"]
if not others and len(heads) > 1:
    worth = [float(f[0].mean()) for f in by_group]
    by_paper = [share(f[1], f[0]) for f in by_group]
    harm = [k for k in range(1, len(groups)) if by_paper[k][2] < 0]  # of the whole interval
    most = 1 + int(np.argmax(worth[1:]))
    theirs = float(sum(by_group[k][1].mean() for k in harm))
    display(
        cx.claims.finding(
            f"Alone, head {groups[most][0]} is worth most to the model, a KL of {worth[most]:.2f}, and its circuit repairs {ends(by_paper[most])}.",
            holds=by_paper[most][1] > 0.5,
        ),
        cx.claims.finding(
            f"Alone, the circuit of each of the {len(harm)} heads with the steadiest denominators costs more than silence: {theirs:.2f} nats added up, where the circuit of all heads together costs {float(by_group[0][1].mean()):.2f}.",
            holds=bool(
                harm == list(range(1, len(harm) + 1)) and theirs > by_group[0][1].mean() / 2
            ),
        ),
    )
elif others:
    elsewhere = max(share(f[1], f[0])[2] for f in by_group[1:])
    display(
        cx.claims.finding(
            f"Made of another group of heads the paper's circuit repairs nothing: {elsewhere:.0%} at the upper end of the best group.",
            holds=elsewhere < 0,
        )
    )

# %% [markdown]
r"""
The first row is the stable heads together, on the same passages as the others. The rest contradicts what one would expect: the steadiest heads are those for which the circuit does harm. They hardly matter to the model, so that any error outweighs what there is to repair, and the circuit has errors of its own beside the constants: values read at the destination, another token's query, and Equation 1. The constants can hardly be what is wrong, for these denominators are the steadiest; [chapter 8](08_evaluation) points to the values. For three of these heads even the self-normalised circuit costs more than silence, and it has no error but Equation 1 ({eq}`eq-split`), in keys and in values; in the keys of these heads most of that error is BOS ([chapter 2](02_keys)). The two heads that say most in [chapter 6](06_circuit), 0 and 7, have the least steady denominators, and the model misses head 7 by far the most: a steady denominator is no sign that a head matters. That constants fail for heads that are not stable at all, the published condition, cannot be seen on this model.

## Where on the page?

The circuit was built for one place: far inside a text, with `TOKEN` at the destination. It was then asked everywhere. Split the cost by where it arises.
"""

# %% tags=["hide-input"]
edges = [e for e in (0, 2, 4, 8, 16, 32, 64, 128, 256, 512) if e < READ - 1] + [READ - 1]
centres = [(a + b - 1) / 2 + 1 for a, b in pairwise(edges)]
figure, (axes,) = cx.plots.panels(1, 2, height=3.0)
for axis, measure, title in ((axes[0], rise, "Rise of the loss"), (axes[1], kl, "KL divergence")):
    for k, (name, values) in enumerate(measure.items()):
        axis.plot(
            centres,
            [by_domain(values[:, a:b]).mean() for a, b in pairwise(edges)],
            ms=5,
            label=name,
            **look(k),
        )
    axis.axhline(0, color=cx.plots.INK, lw=1, ls=":")
    axis.set_xscale("log")
    axis.set_xticks([1, 10, 100], ["1", "10", "100"])
    axis.set(xlabel="tokens read, BOS included", title=title)
axes[0].set_ylabel("nats a token")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
start = {k: by_domain(v[:, : edges[3]]).mean() for k, v in kl.items()}
late = {k: by_domain(v[:, READ // 2 :]).mean() for k, v in kl.items()}
cx.plots.picture(
    figure,
    "9.3",
    "The cost along the text, mean over domains, in stretches that double as far as the text goes.",
    f"Two panels of four curves. KL over the first {edges[3]} positions: "
    + ", ".join(f"{k} {v:.3f}" for k, v in start.items())
    + "; over the second half: "
    + ", ".join(f"{k} {v:.3f}" for k, v in late.items())
    + ".",
)

# %% tags=["nbval-check-output"]
token = weights.token_id(TOKEN)
second = torch.arange(READ - 1) >= READ // 2
at_token = (reading[:, :-1] == token) & second  # text pos
enough = [name for name in names if at_token[torch.tensor(of == name)].sum() >= 5]


def at_home(values):
    """By domain: the mean over late destinations that hold the circuit's token, if there are 5."""
    mine = {name: torch.tensor(of == name) for name in enough}
    return np.array([float(values[m][at_token[m]].mean()) for m in mine.values()])


home = {k: at_home(v) for k, v in kl.items()}
later = {k: by_domain(v[:, READ // 2 :]) for k, v in kl.items()}
counted = int(at_token[torch.from_numpy(np.isin(of, enough))].sum())
print(f"late destinations that hold {TOKEN!r}: {counted}, in {len(enough)} domains with 5 or more")
pd.DataFrame(
    {
        "second half of the text, KL": [in_words(v) for v in later.values()],
        "repaired": ["", *(percent(later[k], later["mean-ablation"]) for k in list(later)[1:])],
        f"and {TOKEN!r} at the destination, KL": [in_words(v) for v in home.values()],
        "repaired there": [
            "",
            *(percent(home[k], home["mean-ablation"]) if enough else "" for k in list(home)[1:]),
        ],
    },
    index=pd.Index(STAND_INS, name="in place of the heads"),
)

# %% [markdown]
r"""
The circuits are at their worst in the first few positions. There a denominator is an average over a handful of tokens, one of them `TOKEN` in place of the text's own (at the very first position in place of BOS), so one text's constants say little about another's ([chapter 4](04_denominators)); and a text that has not begun has no context to sum up. Further on, the curve of the paper's circuit comes down, though not to that of the self-normalised one, and that of ablation stays up: what it takes away is missed late as much as early.

The right half of the table is the circuit's home ground: late in the text, at destinations that hold the very token that its query is for. These are its own terms, and the share repaired there is the fairest answer to whether the published approximation is a good substitute: with the constants of one text it repairs nothing there, with its mean put right three quarters. Two reservations: only domains with five such destinations or more are counted, so texts in which `TOKEN` is rare, those in other languages first, are not heard; and the heads have been replaced at all earlier positions too, where later layers look back. What the mended mean gains is, once more, the part of the error that does not depend on the text.

## Which texts need these heads?

Average costs hide where the heads matter. By domain:
"""

# %% tags=["hide-input"]
need = by_domain(rise["mean-ablation"])
order = np.argsort(-need)
figure, (axes,) = cx.plots.panels(1, 2, height=0.9 + 0.26 * len(names), sharey=True)
for axis, measure, title in ((axes[0], rise, "Rise of the loss"), (axes[1], kl, "KL divergence")):
    for k, (name, values) in enumerate(measure.items()):
        if name == "its mean put right":
            continue
        axis.plot(by_domain(values)[order], range(len(names)), ls="", ms=6, label=name, **look(k))
    axis.axvline(0, color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="nats a token", title=title)
axes[0].set_yticks(range(len(names)), [names[i] for i in order])
axes[0].invert_yaxis()
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
cx.plots.picture(
    figure,
    "9.4",
    f"The cost by domain, mean over {per_domain} passages each, most needed first.",
    "Two dot plots, a row for each domain. Rise of the loss under mean-ablation: "
    + ", ".join(f"{names[i]} {signed(need[i])}" for i in order)
    + ".",
)

# %% tags=["nbval-check-output"]
KINDS = ("English prose", "other English", "other languages", "code")


def kind(name):
    """Which of the four kinds a domain is."""
    dialect = next(p.dialect for p in passages if p.domain == name)
    if dialect == "python":
        return "code"
    if not dialect.startswith("en"):
        return "other languages"
    return "English prose" if name in PROSE else "other English"


kinds = np.array([kind(name) for name in names])
present = [k for k in KINDS if k in kinds]
pd.DataFrame(
    {
        "domains": [int((kinds == k).sum()) for k in present],
        "untouched loss": [f"{by_domain(as_it_is)[kinds == k].mean():.1f}" for k in present],
        **{
            f"{name}: loss, KL": [
                f"{signed(by_domain(rise[name])[kinds == k].mean())}, "
                f"{by_domain(kl[name])[kinds == k].mean():.2f}"
                for k in present
            ]
            for name in TRIO
        },
    },
    index=pd.Index(present, name="kind of text"),
)

# %% [markdown]
r"""
The heads matter most for what is not English prose: without a context the prediction is one for the common kind, and only the context says that this text is something else. Rows at the top are the domains with the largest rise without the context. In English prose the rise is smaller than the KL: the heads change the prediction without improving it much.

The paper's circuit is worth its noise in the rows at the top, other languages first. In a domain for which the heads hardly matter, nothing can be repaired, and any error of the circuit is a loss.

## Which tokens?

Here is one passage, shaded by how much each token's loss rises when the stable heads fall silent: of the English passages that were read, the one with the largest rise.
"""

# %% tags=["hide-input"]
english = [k for k, i in enumerate(chosen) if passages[i].dialect.startswith("en")]
dearest = max(english or range(len(chosen)), key=lambda k: float(rise["mean-ablation"][k].mean()))
shown = min(READ, 129)
at_stake = rise["mean-ablation"][dearest, : shown - 1]
pieces = [weights.tokenizer.decode([t]) for t in reading[dearest].tolist()]
cx.plots.ShadedText(
    pieces[1:shown],
    at_stake,
    f"<b>Figure 9.5.</b> {passages[chosen[dearest]].name}: tokens with a loss that rises (blue) or "
    f"falls (orange) under mean-ablation of the stable heads. Strongest shade: "
    f"{float(at_stake.abs().max()):.1f} nats; mean {float(at_stake.mean()):+.2f}; the largest are those of "
    + ", ".join(repr(pieces[1 + k]) for k in at_stake.argsort(descending=True)[:8].tolist())
    + ".",
)

# %% tags=["nbval-check-output"]
whole = at_stake.sort(descending=True).values
rises = whole.clamp(min=0)
tenth = -(-len(whole) // 10)
print(
    f"{passages[chosen[dearest]].name}: tokens with a loss that rises {(whole > 0).float().mean():.0%}"
)
print(
    f"share of all rises that falls on the tenth that rises most: {rises[:tenth].sum() / rises.sum():.0%}"
)

# %% [markdown]
r"""
A context is of use to few tokens at a time. The second line says how uneven it is: with rises spread evenly it would print 10%. Among the most strongly shaded tokens are the words of scripture, ` unto`, ` shall` and the ending `eth`; beside them stand tokens that rise or fall for no visible reason. Single tokens are noisy; the shading shows where to look, and proves nothing by itself.

## A context without its text

If all that matters is what kind of text it is, then the text should be replaceable by the kind. Let $\text{out}(x)$ be what the stable heads write at $n$ in passage $x$, exactly and together, and take the **direction** of a domain $D$ to be

$$
g_D \;=\; \operatorname*{mean}_{x \in D}\, \text{out}(x) \;-\; \operatorname*{mean}_{x}\, \text{out}(x) .
$$ (eq-cau-direction)

A passage that serves as a test is left out of both means, so that a direction never contains the text it is tried on. **Steering** adds $\alpha\, g_D$ to what the layer writes at every position of some text, with a strength $\alpha$. What should happen to a neuron $j$ of the same layer follows from the weights, since between the two there is only a LayerNorm of scale $s$:

$$
\text{change of neuron } j \;\approx\; \alpha\; g_D \cdot W_\text{in}[:, j] \,/\, s .
$$ (eq-cau-neurons)
"""

# %%
stack = torch.stack([p.tokens[: n + 1] for p in passages])  # text source
written = cx.destination.true_outputs(weights, stack, n)[:, heads].sum(1)  # text d_model


def directions(written, without=None):  # text d_model -> domain d_model
    """The direction of every domain, one passage left out."""
    rest = np.arange(len(written)) != without
    of_domain = torch.stack([written[(domains == name) & rest].mean(0) for name in names])
    return of_domain - written[rest].mean(0)


def steer(direction):  # ... d_model
    """A hook that adds a direction to what the first attention layer writes, everywhere."""
    return cx.decoders.add_direction(0, direction)


def pre_activations(x, hooks=()):  # text pos -> text pos neuron
    """Those of the first MLP, as the model computes them."""
    seen = []

    def keep(own, hook):
        seen.append(own.cpu())

    model.run_with_hooks(x, fwd_hooks=[*hooks, ("blocks.0.mlp.hook_pre", keep)], stop_at_layer=1)
    return seen[0]


every = directions(written)  # domain d_model
featured = names.index(passages[chosen[dearest]].domain)
g = every[featured]
predicted = g @ weights.mlp_input()[0] / circuit.scale  # neuron
x = reading[:, :STEER]
measured = (pre_activations(x, [steer(g)]) - pre_activations(x)).mean((0, 1))

# %% tags=["hide-input"]
try:
    found = cx.find_neurons(circuit).index.tolist()
except ValueError:  # none stands out
    found = []
figure, ((axis,),) = cx.plots.panels(height=3.4, width=6.0)
is_found = np.isin(np.arange(weights.n_neurons), found)
for mask, label, k in ((~is_found, "other neurons", 7), (is_found, "those of chapter 7", 1)):
    axis.plot(predicted[mask], measured[mask], ls="", ms=3.5, label=label, **look(k))
reach = torch.stack([predicted.min(), predicted.max()])
axis.plot(reach, reach, color=cx.plots.INK, lw=1, ls=":", label="as predicted")
axis.set(xlabel="predicted from the weights", ylabel="measured in the model")
axis.set_title(f"Pre-activations, steered to {names[featured]}")
axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
as_foretold = float(np.corrcoef(predicted, measured)[0, 1])
slope = float((measured @ predicted) / (predicted @ predicted))
cx.plots.picture(
    figure,
    "9.6",
    f"What the direction of <i>{names[featured]}</i> does to the neurons of the first MLP: "
    f"change of the pre-activation, predicted and measured (mean over {STEER} positions of "
    f"{len(reading)} passages of all domains), one point a neuron.",
    f"A scatter plot of {weights.n_neurons} neurons along a line: correlation {as_foretold:.3f}, "
    f"slope {slope:.2f}.",
)

# %% tags=["nbval-check-output"]
print(f"correlation {as_foretold:.2f}, slope {slope:.1f}")
if found:
    size_of = predicted.abs()
    ratio = float(size_of[is_found].mean() / size_of[~is_found].mean())
    print(f"the {len(found)} neurons of chapter 7 are moved {ratio:.1f} times as far as the others")
else:
    print("no neuron stands out by the rule of chapter 7")

# %% [markdown]
r"""
This is a test of the wiring more than a discovery: the prediction is the algebra of [chapter 6](06_circuit). The correlation says that direction, hook and weights fit together. The slope need not be one, because $s$ was measured at one destination of one text: other places have other scales, and the direction itself adds to them. The second line is the beginning of a question to which the chapter comes back: the neurons of [chapter 7](07_neurons) were chosen because single tokens can move them far; this domain moves them far as well.

## One vector in place of a text

Now the experiment. The first tokens of each passage are read with the stable heads silenced, so that whatever long context they carried is gone, and one domain's direction is added, the same vector at every position. Each passage gets each direction in turn, its own domain's and all the others. If a direction carries its domain, its own should lower the loss and a foreign one should not.
"""

# %%
silenced = [cx.decoders.replace_z(0, heads, means[:, heads])]
short = reading[:, :STEER]
G = torch.stack([directions(written, i) for i in chosen])  # text domain d_model
mine = torch.tensor([names.index(d) for d in of])
rows = torch.arange(len(short))
own_g = G[rows, mine]  # text d_model

nothing = torch.cat([cx.decoders.token_losses(model, x, silenced) for x in short.split(4)])
each = [
    cx.decoders.token_losses(model, x.expand(len(names), -1), [*silenced, steer(g)])
    for x, g in zip(short, G, strict=True)
]
gained = (torch.stack(each) - nothing[:, None]).mean(-1)  # text direction, rise of the loss

# %%
with_own = gained[rows, mine]  # text
with_others = (gained.sum(1) - with_own) / (len(names) - 1)
best = gained.argmin(1) == mine
rank = (gained < with_own[:, None]).sum(1) + 1
damage = (nothing - as_it_is[:, : STEER - 1]).mean(-1)

# %% tags=["hide-input"]
table = np.stack([by_domain(gained[:, k]) for k in range(len(names))], axis=1)[order][:, order]
top = max(float(np.quantile(np.abs(table), 0.95)), 1e-6)  # lest a few cells take all the colours
figure, ((axis,),) = cx.plots.panels(height=5.6, width=7.0)
image = axis.imshow(table, cmap="PuOr_r", vmin=-top, vmax=top)
axis.set_xticks(range(len(names)), [names[i] for i in order], rotation=90)
axis.set_yticks(range(len(names)), [names[i] for i in order])
axis.set(xlabel="direction added", ylabel="domain of the text")
axis.grid(False)
lowest = table.argmin(1)
for row, column in enumerate(lowest):
    dark = abs(table[row, column]) > 0.5 * top
    ring = {"mfc": "none", "mec": "white" if dark else "black", "mew": 1.3}
    axis.plot(column, row, ls="", marker="o", ms=6, **ring)
figure.colorbar(image, ax=axis, label="rise of the loss (nats a token)", extend="both")
on = int((lowest == np.arange(len(names))).sum())
cx.plots.picture(
    figure,
    "9.7",
    f"The stable heads silenced and one domain's direction added, strength 1: rise of the loss "
    f"over the first {STEER} tokens against silence alone; purple is a gain. A ring marks the best "
    "direction of a row. Domains in the order of Figure 9.4.",
    f"A heat map of {len(names)} by {len(names)} domains. The diagonal averages "
    f"{signed(np.diag(table).mean())}, the rest "
    f"{signed(table[~np.eye(len(names), dtype=bool)].mean())}; in {on} rows the best direction is on "
    "the diagonal.",
)

# %% tags=["nbval-check-output"]
gap = by_domain(with_own - with_others)
print(f"rise of the loss by silence alone: {in_words(by_domain(damage), sign='+')}")
print(
    f"with its own domain's direction:   {in_words(by_domain(with_own), sign='+')}, on top of that"
)
print(f"with another's, on average:        {in_words(by_domain(with_others), sign='+')}")
print(f"difference of own and other:       {in_words(gap, sign='+')}")
print(
    f"domains in which their own direction lowers the loss: {(by_domain(with_own) < 0).sum()}",
    end=" ",
)
print(f"of {len(names)}; in which it does better than the others' average: {(gap < 0).sum()}")
print(
    f"passages for which their own direction is the best of {len(names)}: {in_words(by_domain(best.float()))}"
)
print(f"(chance {1 / len(names):.2f}); median rank of their own: {rank.float().quantile(0.5):.0f}")

# %% tags=["hide-input", "nbval-check-output"]
rightly = [v * len(names) for v in span(by_domain(best.float()))]
cx.claims.finding(
    f"A passage's own direction of {len(names)} is the best one more often than by chance: {ends(rightly, '.1f')} times as often.",
    holds=rightly[1] > 1,
)

# %% [markdown]
r"""
The first line is what it costs to silence the heads, the second what one constant vector gives back; they cancel, so the vector makes up for the heads, on average over these tokens. (Where in the text it does so is the next question: it knows the domain from the first token on, and the heads did not.) The diagonal of the heat map is purple, and the rows that were at the top of Figure 9.4 are those with most to regain, and most to lose from a wrong direction. Whole columns tell how loudly a direction speaks: a loud one harms texts that are not its own. A direction is not a label. It is the part of a domain
that its texts share, and domains share parts as well.

The direction was never told which tokens to favour. It is an average of what the heads wrote in a few *other* passages at one late position, used here in texts that have hardly begun. Whatever in it was particular to those passages has been averaged down; what it gains, it gains at other positions and in other texts. There are few passages in each domain, so rows of the heat map are rough; the lines below it have intervals over domains, and a few domains with large effects stretch them.
"""

# %%
STRENGTHS = (0.25, 0.5, 1, 2, 4)
rng = np.random.default_rng(0)
foreign = torch.tensor([int(rng.choice([k for k in range(len(names)) if k != m])) for m in mine])


def steered(direction, hooks=(), tokens=short):  # text d_model -> text pos-1, losses
    """Every text with a direction of its own."""
    pairs = zip(tokens.split(4), direction.split(4), strict=True)
    return torch.cat([cx.decoders.token_losses(model, x, [*hooks, steer(g)]) for x, g in pairs])


curves = {
    label: [(steered(a * d, silenced) - nothing).mean(-1) for a in STRENGTHS]
    for label, d in (("own domain", own_g), ("another, drawn at random", G[rows, foreign]))
}
longer = steered(own_g, silenced, reading) - as_it_is  # against the untouched model
on_top = steered(own_g) - as_it_is[:, : STEER - 1]  # with the heads at work

# %%
extended = circuit.extended_embedding()  # vocab d_model
by_paper = einops.einsum(
    circuit.kernel, extended[stack], "source, text source d_model -> text d_model"
)
by_self = self_normalised.at.rebuilt_outputs(stack)[:, heads].sum(1)
versions = {"the heads": written, "paper's circuit": by_paper, "self-normalised circuit": by_self}
alike, with_version = {}, {}
for name, output in versions.items():
    own = torch.stack([directions(output, i) for i in chosen])[rows, mine]
    alike[name] = torch.cosine_similarity(own, own_g, dim=-1)
    with_version[name] = (steered(own, silenced) - nothing).mean(-1)

# %% tags=["hide-input"]
figure, ((left, right),) = cx.plots.panels(1, 2, height=3.9)
for k, (label, curve) in enumerate(curves.items()):
    spans = np.array([span(by_domain(c)) for c in curve])
    left.fill_between(STRENGTHS, spans[:, 1], spans[:, 2], color=cx.plots.COLOURS[k], alpha=0.15)
    left.plot(STRENGTHS, spans[:, 0], ms=5, label=label, **look(k))
left.axhline(0, color=cx.plots.INK, lw=1, ls=":")
left.set_xscale("log", base=2)
left.set_xticks(STRENGTHS, [f"{a:g}" for a in STRENGTHS])
left.minorticks_off()
left.set(xlabel="strength α", ylabel="rise of the loss (nats a token)", title="Against silence")
shapes = {
    "silenced": rise["mean-ablation"],
    "silenced, own direction": longer,
    "heads at work, own direction": on_top,
}
for k, (label, values) in enumerate(shapes.items()):
    steps = [(a, b) for a, b in pairwise(edges) if b <= values.shape[1] or a < values.shape[1]]
    right.plot(
        [(a + min(b, values.shape[1]) - 1) / 2 + 1 for a, b in steps],
        [by_domain(values[:, a:b]).mean() for a, b in steps],
        ms=5,
        label=label,
        **look((0, 3, 4)[k]),
    )
right.axhline(0, color=cx.plots.INK, lw=1, ls=":")
right.set_xscale("log")
right.set_xticks([1, 10, 100], ["1", "10", "100"])
right.set(xlabel="tokens read, BOS included", title="Against the untouched model")
left.legend(loc="upper left", bbox_to_anchor=(0, -0.22))
right.legend(loc="upper left", bbox_to_anchor=(0, -0.22))
beyond = READ // 2
cx.plots.picture(
    figure,
    "9.8",
    f"Left: the stable heads silenced and a direction added, by strength; rise of the loss over "
    f"{STEER} tokens against silence, mean over domains with its 95% interval. Right: along the "
    "text, strength 1, against the model as it is.",
    "Two panels. Own direction by strength "
    + ", ".join(
        f"{a:g}: {signed(by_domain(c).mean())}"
        for a, c in zip(STRENGTHS, curves["own domain"], strict=True)
    )
    + "; another's "
    + ", ".join(
        f"{a:g}: {signed(by_domain(c).mean())}"
        for a, c in zip(STRENGTHS, curves["another, drawn at random"], strict=True)
    )
    + f". Against the untouched model from position {beyond + 1} on: silenced "
    f"{signed(by_domain(rise['mean-ablation'][:, beyond:]).mean())}, with its own direction "
    f"{signed(by_domain(longer[:, beyond:]).mean())}.",
)

# %% tags=["nbval-check-output"]
early = slice(0, min(8, STEER - 1))
print("against the untouched model, own direction in the place of the heads:")
print(f"  first {early.stop} positions: {in_words(by_domain(longer[:, early]), sign='+')}")
print(
    f"  from position {beyond + 1} on:  {in_words(by_domain(longer[:, beyond:]), sign='+')}", end=""
)
print(f"; silence alone {in_words(by_domain(rise['mean-ablation'][:, beyond:]), sign='+')}")
print("with the heads at work, own direction on top:")
print(f"  first {early.stop} positions: {in_words(by_domain(on_top[:, early]), sign='+')}")
print(f"  all {STEER - 1} positions:   {in_words(by_domain(on_top), sign='+')}")
pd.DataFrame(
    {
        "cosine with the heads' own, median": [f"{v.quantile(0.5):.2f}" for v in alike.values()],
        "lowest": [f"{v.min():.1f}" for v in alike.values()],
        "rise of the loss": [in_words(by_domain(v), sign="+") for v in with_version.values()],
    },
    index=pd.Index(versions, name="direction made from"),
)

# %% tags=["hide-input", "nbval-check-output"]
whole_gain = -by_domain(with_own)  # of the whole direction
lost_of_paper = repaired(-by_domain(with_version["paper's circuit"]), whole_gain)
kept_by_paper = [1 - lost_of_paper[k] for k in (0, 2, 1)]
cx.claims.finding(
    f"Directions from the paper's circuit gain at least nine tenths of what those from the heads gain: {ends(kept_by_paper)}.",
    holds=kept_by_paper[1] >= 0.9,
)

# %% tags=["nbval-check-output"]
late_by_kind = {
    "untouched loss": by_domain(as_it_is[:, beyond:]),
    "silence": by_domain(rise["mean-ablation"][:, beyond:]),
    "own direction": by_domain(longer[:, beyond:]),
}
pd.DataFrame(
    {
        "domains": [int((kinds == k).sum()) for k in present],
        **{
            f"{name}, from position {beyond + 1} on": [
                f"{round(float(v[kinds == k].mean()), 2) + 0.0:.2f}" for k in present
            ]
            for name, v in late_by_kind.items()
        },
    },
    index=pd.Index(present, name="kind of text"),
)

# %% tags=["hide-input", "nbval-check-output"]
_, quiet, with_vector = late_by_kind.values()
given_back = share(with_vector, quiet)
abroad = kinds == "other languages"
cx.claims.finding(
    f"One vector a domain, made from other texts, gives back {ends(given_back)} of what silence costs late in a text, and {1 - with_vector[abroad].mean() / quiet[abroad].mean():.0%} in other languages.",
    holds=bool(given_back[1] > 0.5 and with_vector[abroad].mean() < 0.1 * quiet[abroad].mean()),
) if abroad.any() else None

# %% [markdown]
r"""
On the left, what a foreign direction costs grows with its strength, while the passage's own has an optimum near 1: the direction speaks about as loudly as the heads did. Far beyond it LayerNorm is filled by the direction and the token is forgotten. On the right, below zero means better than the model as it is, which is no miracle. At the beginning of a text the model cannot know the domain, and the direction tells it.
That advantage is spent as soon as the text has told as much. The end of the curves is what counts: how far the silenced model with its direction still lies above the untouched one, against silence alone.

The last table divides that end by kind of text. Its two right-hand columns are rises of the loss. In other languages the first is large and the second small: **what the model takes from these heads there is what the domain has in common**, whatever else they write. What stays in the last column is what the vector does not make up for, above all what they tell of the single text beyond its domain; it is much the same for all kinds. (A loss is a sum: a vector that knows the domain better than the heads did may pay for something else that they told.) In English prose it makes up for half: such domains lie in the middle of all others, and their direction has little to say.

The table before makes the same directions from the circuits, without any attention row of the model's. In {eq}`eq-cau-direction` whatever error all texts share cancels, and what is noise in a single text averages down. That is how the paper's circuit can be worse than silence text by text and still give directions that do as well as the real ones. The post would have later layers do the averaging; here it is done over texts, outside the model. The column *lowest* says how far it fails where it fails most.

## Which words?

A direction can be read without any text: give the model BOS and `TOKEN`, silence the heads, and ask which next tokens gain most log-probability from each domain's direction, now made from all of its passages. No row is left out and none was chosen.
"""

# %% tags=["hide-input"]
prompt = torch.tensor([weights.tokenizer.bos_token_id, token])
usable = ~cx.neurons.untrained_tokens(weights)


def likelier(direction, count=8):  # d_model -> tokens, nats
    """The tokens that gain most log-probability after the prompt."""
    plain = log_probs(prompt, silenced)[-1]
    up = log_probs(prompt, [*silenced, steer(direction)])[-1] - plain
    up = up.where(usable, torch.tensor(float("-inf")))
    best = up.topk(min(count, int(usable.sum())))
    return [weights.tokenizer.decode([t]) for t in best.indices.tolist()], best.values


gains = [likelier(g) for g in every]
pd.DataFrame(
    {
        "tokens that gain most": [", ".join(repr(w) for w in words) for words, _ in gains],
        "nats, first": [f"{float(v[0]):.1f}" for _, v in gains],
        "last": [f"{float(v[-1]):.1f}" for _, v in gains],
    },
    index=pd.Index(names, name="direction"),
)

# %% [markdown]
r"""
Rows of a pronounced subject read like its vocabulary, though nothing but an average of head outputs was added. Rows of languages other than English hold fragments, perhaps because an English word in the prompt cannot be taken back. Rows of weak directions, American and British prose first, hold whatever is nearest, and read into them one finds anything.

## Through which neurons?

Chapter 7 called the neurons that these heads can move far *context-sensitive*. Do they carry the context on? What a layer's attention writes reaches the rest of the model by two ways: through the neurons of the same layer, and past them, in the residual stream, where every later layer can read it directly. Either can be cut.

To **hold** a set of neurons, steer as before but fix the pre-activations of the set at their unsteered values, position by position: what is lost of the gain is what no other way makes up for. To steer the set **alone**, leave the stream as it was and give only these neurons their steered values: what is left of the gain the set can carry by itself. Beside the neurons of chapter 7 stand as many of the others, drawn at random; as many as there are of those that the direction moves most, by {eq}`eq-cau-neurons`, whether chapter 7 found them or not; and all neurons of the layer.
"""

# %%
moves = (own_g @ weights.mlp_input()[0]).abs()  # text neuron
ids = torch.arange(weights.n_neurons)
count = max(len(found), 1)
among = np.flatnonzero(~is_found)
drawn = [rng.choice(among, min(count, len(among)), replace=False) for _ in range(2)]
SETS = {
    "those of chapter 7": torch.isin(ids, torch.tensor(found, dtype=torch.long)).expand(
        len(short), -1
    ),
    "as many at random": torch.isin(ids, torch.from_numpy(drawn[0])).expand(len(short), -1),
    "as many at random, again": torch.isin(ids, torch.from_numpy(drawn[1])).expand(len(short), -1),
    "as many, moved most": moves >= moves.topk(count).values[:, -1:],
    "all of the layer": torch.ones(len(short), len(ids), dtype=torch.bool),
}  # text neuron


def put(values, members):  # text pos neuron, text neuron
    """A hook that fixes the pre-activations of a set of neurons."""

    def hook(own, hook):
        return torch.where(members[:, None].to(own.device), values.to(own.device), own)

    return "blocks.0.mlp.hook_pre", hook


held, alone = ({name: [] for name in SETS} for _ in range(2))
for k in torch.arange(len(short)).split(4):
    x, add = short[k], steer(own_g[k])
    still, moved = pre_activations(x, silenced), pre_activations(x, [*silenced, add])
    for name, members in SETS.items():
        for kept, hooks in (
            (held, [add, put(still, members[k])]),
            (alone, [put(moved, members[k])]),
        ):
            loss = cx.decoders.token_losses(model, x, [*silenced, *hooks])
            kept[name].append((loss - nothing[k]).mean(-1))
held, alone = ({k: torch.cat(v) for k, v in kept.items()} for kept in (held, alone))

# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, height=2.8, sharey=True, sharex=True)
for axis, kept, title in (
    (axes[0], held, "Steered, the set held"),
    (axes[1], alone, "The set alone"),
):
    for row, values in enumerate(kept.values()):
        dots(axis, row, by_domain(values), (1, 7, 7, 2, 0)[row])
    axis.axvline(by_domain(with_own).mean(), color=cx.plots.INK, lw=1, ls="--")
    axis.axvline(0, color=cx.plots.INK, lw=1, ls=":")
    axis.set(xlabel="rise of the loss (nats a token)", title=title)
axes[0].set_yticks(range(len(SETS)), SETS)
axes[0].invert_yaxis()
cx.plots.picture(
    figure,
    "9.9",
    f"The own direction with a set of neurons held (left), and given to the set alone (right); "
    f"sets of {count} of {len(ids)} neurons but for the last row. Dashed: the whole direction. "
    "Mean over domains with its 95% interval.",
    f"Two dot plots; the whole direction gives {signed(by_domain(with_own).mean(), 3)}. Held: "
    + ", ".join(f"{k} {signed(by_domain(v).mean(), 3)}" for k, v in held.items())
    + "; alone: "
    + ", ".join(f"{k} {signed(by_domain(v).mean(), 3)}" for k, v in alone.items())
    + ".",
)

# %% tags=["nbval-check-output"]
through = {k: percent(-by_domain(v), whole_gain) for k, v in held.items()}
by_itself = {k: percent(whole_gain + by_domain(v), whole_gain) for k, v in alone.items()}
pd.DataFrame(
    {"lost when held": through, "left when alone": by_itself},
).rename_axis("share of the gain, neurons")

# %% tags=["hide-input", "nbval-check-output"]
lost = by_domain(held["those of chapter 7"]) - by_domain(
    (held["as many at random"] + held["as many at random, again"]) / 2
)
alone_left, random_left = (
    share(whole_gain + by_domain(alone[k]), whole_gain)
    for k in ("those of chapter 7", "as many at random")
)
held_lost = repaired(-by_domain(held["those of chapter 7"]), whole_gain)
display(
    cx.claims.finding(
        f"The neurons of chapter 7 carry {ends(alone_left)} of a vector's gain by themselves, but only {ends(held_lost)} of it is lost when they are held.",
        holds=held_lost[2] < 0.5 and alone_left[1] > 2 * random_left[0],
    ),
    cx.claims.finding(
        f"Holding the {len(found)} neurons of chapter 7 costs {ends(span(lost), '.3f')} nats more than holding as many at random.",
        holds=span(lost)[1] > 0,
    ),
) if found else None

# %% [markdown]
r"""
The last row divides the traffic. Its first number is what the way past the layer's MLP cannot make up for, its second what the way through the MLP can do by itself; what the MLP carries has no sharper answer than these two. All of it goes through the MLP. Within it the neurons of chapter 7 carry far more of the context than as many others; held, they cost far less than all, so they are not *the* carriers but the easiest to name. The fourth row shows what a list of the same length can do that is made for each direction; it is no upper bound, since a neuron that is moved far need not matter.
The two columns do not agree, since two ways can stand in for one another (Exercise 4).

So a context-sensitive neuron is a good place to *read* what a model knows about a text, and that is what the paper uses it for. It does not follow that it is where the model keeps it.

## What breaks it

- **A text that has just begun, and perhaps a token that is not the circuit's.** The paper's circuit speaks for one token far inside a text. Figure 9.3 shows what the place costs; for the token compare the halves of its table, with an eye on the domains that the right one lacks.
- **Means over few texts.** Mean-ablation and the mended mean rest on the texts of the collection, whose mix is not that of the passages. Another collection moves the zero from which both are measured. (A direction is measured from a third, the mean of the passages.)
- **Strength.** Beyond its optimum a direction is no longer a message but a disturbance, and a loss that rises says nothing about what the direction means.
- **The loss looks at averages.** A head that matters for one token in a thousand costs next to nothing here. KL is the stricter judge, and it, too, is a mean.
- **Domains are not draws.** The intervals treat the domains as a sample of all domains. They were chosen for this book, some to be unlike the rest, and the passages are few. Nor are they quite independent: the directions of each are tried on all others. And every interval takes the heads, the calibration text and the collection as given.

## Turn it

Choose a domain and a strength, and whether the stable heads are silenced: the tokens that gain most after BOS and `TOKEN`, and what the direction does to the neurons. The controls are live in Jupyter and Colab (the rocket above); on this page you see their first setting.
"""


# %% tags=["hide-input"]
def draw(domain, strength, heads_are):
    hooks = silenced if heads_are == "silenced" else []
    direction = strength * every[names.index(domain)]
    up = log_probs(prompt, [*hooks, steer(direction)])[-1] - log_probs(prompt, hooks)[-1]
    best = up.where(usable, torch.tensor(float("-inf"))).topk(min(12, int(usable.sum())))
    words = [ascii(weights.tokenizer.decode([t])) for t in best.indices.tolist()]
    change = direction @ weights.mlp_input()[0] / circuit.scale  # neuron
    most = change.abs().topk(min(12, len(change))).indices.tolist()
    figure, ((left, right),) = cx.plots.panels(1, 2, height=3.4)
    left.barh(range(len(words)), best.values, color=cx.plots.COLOURS[2])
    left.set_yticks(range(len(words)), words, family="monospace", parse_math=False)
    left.set(xlabel="gain of log-probability (nats)", title="Tokens that follow")
    right.barh(
        range(len(most)),
        change[most],
        color=[cx.plots.COLOURS[1 if is_found[j] else 7] for j in most],
    )
    right.set_yticks(range(len(most)), [str(j) for j in most])
    right.set(xlabel="change of the pre-activation", ylabel="neuron", title="Neurons moved most")
    for axis in (left, right):
        axis.invert_yaxis()
    return cx.plots.picture(
        figure,
        "9.10",
        f"The direction of <i>{domain}</i> at strength {strength:g}, stable heads {heads_are}. "
        "Neurons of chapter 7 in orange.",
        f"Two bar charts. Tokens that gain most: {', '.join(words[:6])}; neurons moved most: "
        f"{', '.join(str(j) for j in most[:6])}.",
    )


cx.widgets.Turnable(
    draw,
    domain=cx.widgets.choice("direction", names, names[featured]),
    strength=cx.widgets.slider("strength", 0.25, 4, 1, step=0.25),
    heads_are=cx.widgets.choice("the heads", ["silenced", "at work"], "silenced"),
)

# %% [markdown]
"""
## Claims

Every number in the third column was computed above, in this run. Neither the paper nor the post has a causal experiment: what they say is in words, and the conditions are this book's reading of it, *half* where a share is asked for. Brackets hold 95% intervals over domains; a line whose interval contains its condition is undecided.
"""


# %% tags=["hide-input", "nbval-check-output"]
everywhere = repaired(by_domain(kl["paper's circuit"]), silence)
late = repaired(home["paper's circuit"], home["mean-ablation"]) if enough else NONE
apart = span(gap)
cx.claims.ledger(
    model,
    cx.claims.Claim(
        "good_substitute",
        "paper's circuit at every destination: share of the damage repaired (KL)",
        everywhere[0],
        everywhere[1:],
    ),
    cx.claims.Claim(
        "good_substitute",
        f"the same late in the text, {TOKEN!r} at the destination",
        late[0],
        late[1:],
    ),
    cx.claims.Claim(
        "contexts_separate", "own domain's direction less another's (nats)", apart[0], apart[1:]
    ),
)


# %% [markdown]
r"""
## Exercises

1. Show that the expectation of {eq}`eq-cau-loss` under $x_{n+1} \sim p_n$ is {eq}`eq-cau-kl`, and that the latter is never negative. On a set of texts the mean rise of the loss is far below the mean KL. What does that say about $p_n$ there?
2. Among all constants that one may put in the place of a head's output $z$ at a position, which has the least mean squared error? Show that a stand-in with an FVU above 1 is worse than that constant by this measure, however well it correlates. Which of the three parts of the FVU in {eq}`eq-eval-parts` does *its mean put right* remove?
3. Add $\alpha g$ to a residual stream $r$ before a LayerNorm. Show that the pre-activations tend to a limit as $\alpha \to \infty$, and find it. What does that say about the left panel of Figure 9.8?
4. A gain is a function $f(a, b)$ of what goes through the neurons, $a$, and past them, $b$, each 0 or 1. In terms of $f$, what are the share lost when the neurons are held and the share left when they are alone? When are they equal, and when is the first smaller?

```{admonition} Solutions
:class: dropdown

1. $\sum_t p_n(t) \bigl( \log p_n(t) - \log \tilde p_n(t) \bigr)$ is {eq}`eq-cau-kl` as it stands. Since $\log u \le u - 1$, its negative is at most $\sum_t p_n(t) \bigl( \tilde p_n(t) / p_n(t) - 1 \bigr) = 0$. If the rise is far below the KL, texts do not bear out what the heads made the model expect: where $p_n$ and $\tilde p_n$ differ, the truth is not nearer to $p_n$ by as much as $p_n$ says.
2. The mean of $\lvert z - c \rvert^2$ is $\operatorname{mean} \lvert z - \bar z \rvert^2 + \lvert \bar z - c \rvert^2$, least at $c = \bar z$, and its value there is the denominator of the FVU. So FVU > 1 means a larger squared error than that of the mean, and the correlation does not enter, since neither an offset nor a wrong scale changes it. Putting the mean right removes the part from the offset, on the texts that the mean was taken over. What the loss makes of a squared error is another matter.
3. With $r$ and $g$ centred and $g \ne 0$, $\text{LN}(r + \alpha g) = (r + \alpha g) / s(r + \alpha g)$, and $s(r + \alpha g) / \alpha \to \lvert g \rvert / \sqrt{d_\text{model}}$. So $\text{LN}(r + \alpha g) \to \sqrt{d_\text{model}}\; g / \lvert g \rvert$ and the pre-activations to $\sqrt{d_\text{model}}\; g \, W_\text{in} / \lvert g \rvert + b_\text{in}$, whatever the token. Every position then says the same, the domain's own direction as much as another's, so in the end the loss can be expected to rise on both curves.
4. Held: $a = 0$, so what is lost is $1 - f(0, 1) / f(1, 1)$, with $f(0, 0) = 0$. Alone: $f(1, 0) / f(1, 1)$. They are equal if $f(1, 1) = f(0, 1) + f(1, 0)$, when the two ways add up. For $f(1, 1) > 0$ the first is smaller when $f(1, 1) < f(0, 1) + f(1, 0)$: each way can do part of the other's work, so that cutting one is made up for.
```

## Where this comes from

The question is the earlier post's, which asks whether later layers would notice the noise of the approximation {cite}`gibson2025contextual`; the circuit is that of {cite:t}`gibson2025decomposing`, and neither source intervenes in the model. Reading a model as additions to a residual stream, on which mean-ablation and directions rest, follows {cite:t}`elhage2021framework`; both are common practice. The hooks are those of {cite:t}`nanda2022transformerlens`.
The circuit at every destination, the mended mean, and what these tools say about domains and about the traffic through and past the neurons are worked out here.
"""
