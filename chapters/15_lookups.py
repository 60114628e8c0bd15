# %% [markdown]
r"""
# How much of a neuron's activation does one head bring?

**Most neurons of SmolLM2, a small language model, that predict a token are not driven directly by one head: in the median of {{smol_keep}} such neurons the strongest head brings {{pred_median}} of the rise of the activation.** {{?not_driven}} It has been proposed that single heads drive them {cite}`neo2024interpreting`. But one head brings a tenth or more in only {{pred_tenth}} of them, not demonstrably more than among controls with the same tokens. {{?no_more_than_others}} We find most planted heads of that size if they act directly, and none that acts through the first MLP. {{?power}} {{?relay_unseen}}

Take neuron {{comma_neuron}} of layer {{comma_layer}} of SmolLM2, which has {{= 135 =}} million parameters. (Layers, heads and neurons are counted from {{= 0 =}}.) It raises the comma: where it is most active, in texts that it was not chosen on, a comma follows with probability {{comma_p}}. {{?comma}} By then, {{comma_heads}} heads and {{comma_layer}} MLPs have written into the stream that it reads. How much of its rise would you expect from the head that matters most? It is {{comma_share}}. The figure shows this number for all neurons that predict a token, and for others, in SmolLM2 and in our small model `mini`.
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub: any decoder
TEXTS = 240  # how many held-out texts are read
READ = 96  # tokens of each
NEURONS = 24  # next-token neurons, and as many random ones

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, the model, and what is kept of both models"}
import json

import numpy as np
import pandas as pd
import torch
from einops import einsum
from scipy import stats

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
torch.set_grad_enabled(False)
model = cx.load(MODEL)
n_layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
kept = json.loads(cb.evidence("lookups.json").read_text())  # tools/evidence/lookups.py
BOTH = {"SmolLM2": kept["smollm2"], "mini": kept["mini"]}
GROUPS = ("by P", "like those by P", "by congruence", "like those by congruence", "random")
PREDICT = ("those that predict", "like those that predict")
SHOWN = {PREDICT[0]: PREDICT[0], PREDICT[1]: "others with the same tokens", "random": "random"}
group_of = {(m, g): (BOTH[m]["groups"] | BOTH[m]["predicting"])[g] for m in BOTH for g in (*GROUPS, *PREDICT)}  # fmt: skip
share_of = {key: np.array(of["share"]) for key, of in group_of.items()}
tenth_of = {key: int((share >= 0.1).sum()) for key, share in share_of.items()}

# %% tags=["hide-input"]
figure, (axes,) = cb.figures.panels(1, 2, width=8.4, height=2.3, sharey=True)
for axis, name in zip(axes, BOTH, strict=True):
    for row, group in enumerate(SHOWN):
        share, color = share_of[name, group], cb.figures.COLORS[bool(row)]
        wobble = np.random.default_rng(0).uniform(-0.2, 0.2, len(share))
        axis.plot(share, row + wobble, "o", ms=4, alpha=0.6, color=color)
        axis.plot(np.median(share), row, "|", ms=20, mew=2.5, color=cb.figures.INK)
    axis.axvline(0.1, color=cb.figures.INK, lw=0.8, ls="--")
    axis.set(title=name, xlabel="share of the rise, strongest head", xlim=(-0.16, 0.56))
    axis.xaxis.set_major_formatter(lambda v, _: f"{v:.0%}")
axes[0].set_yticks(range(len(SHOWN)), SHOWN.values())
axes[0].invert_yaxis()
cb.figures.picture(
    figure,
    "15.1",
    "Each dot is a neuron: how much of its rise comes from one head, the one that is strongest in half A, counted in half B. The bar is the median neuron, the dashed line a tenth. Blue: neurons that predict their token in both halves of the texts. Orange: controls with the same tokens, and random neurons.",
    "Six rows of dots. Medians: " + "; ".join(f"{m}, {g}, {np.median(v):.0%}, a tenth or more in {tenth_of[m, g]} of {len(v)}" for (m, g), v in share_of.items() if g in SHOWN) + ".",
)  # fmt: skip

# %% [markdown]
r"""
## Which neurons predict a token?

What does a neuron write? Its output weights $w_\text{out}^j$ enter the residual stream, and at the end they meet the unembedding $W_U$. So one unit of activation adds

$$
c_j(t) = w_\text{out}^j \cdot W_U[:, t]
$$ (eq-look-congruence)

to the logit of the token $t$, up to the scale of the last LayerNorm. This is the **congruence** of neuron and token, and we call the token with the largest one *its* token. (A gated neuron multiplies two readings; the product may have either sign, and each side has its own token.)

But such a neuron may never be active where its token comes next. So we ask what happens. In each text of half A we find the neuron's **peak**, the position where it is most active, and $P$ is the mean probability of its token at its {{peaks}} largest peaks. A neuron **predicts** its token if $P$ is one half or more on half A, and again on half B, which has other documents. (This rule alone decides which are taken. It was fixed when those of the last five layers had been studied, and the others had not.) Of the {{smol_sides}} sides in all layers of SmolLM2 {{smol_on_A}} reach that on half A, and {{smol_keep}} on both halves; of `mini`'s {{mini_sides}} only {{mini_keep}}, too few to judge. {{?mini_too_few}} SmolLM2's predict {{pred_tokens}} and a few others, which is easy. For each one there is a control, the one with the same token whose $P$ is nearest of those that do not reach one half.
"""

# %%
halves = cb.peaks.halves_of(model, TEXTS, READ)
sides = cb.peaks.candidates(model, halves)  # of the last layers: token, congruence, and P
groups = cb.peaks.groups_of(sides, NEURONS)  # the largest P, the largest congruence, and controls

# %% [markdown]
r"""
## What brings an activation about?

The number that a neuron reads is a sum, because the stream is one. Suppose that three parts feed it. A part that is always there drives nothing, so what counts is the difference between a peak and the mean over all positions:

{{= | | MLPs | head *a* | head *b* | sum |
|---|---|---|---|---|
| usually | 1.0 | 0.4 | −0.2 | 1.2 |
| at the peak | 3.0 | 0.9 | −0.3 | 3.6 |
| rise | 2.0 | 0.5 | −0.1 | 2.4 |
| share of the rise | 83% | 21% | −4% | 100% | =}}

Here head *a* brings a fifth of the rise. In a model with LayerNorm, all parts are divided by one scale $s$. Let $e$ be the neuron's input weights, with LayerNorm's gain folded in. At the last token $n$ of a prompt, head $i$ of layer $k$ then contributes

$$
\begin{aligned}
A_{ik} &= \frac{h_{ik} \cdot e}{s} \\
&= \sum_{u \le n} a_{n,u}\, \frac{v_u W_O \cdot e}{s} ,
\end{aligned}
$$ (eq-look-terms)

where $h_{ik}$ is what the head writes. The second line says from which source tokens $u$ it comes. This is the publication's head attribution, divided by $s$ so that all parts, MLPs, embedding and biases included, add up to what the neuron reads.

An activation $f$ is not a linear function of what the neuron reads, and a gated neuron reads two numbers. So we move them along the straight way $x(\tau)$ from their usual values to those at the peak, and give each part its portion of the climb:

$$
\text{rise}_c = \Delta_c \cdot \int_0^1 \nabla f \bigl( x(\tau) \bigr)\, d\tau .
$$ (eq-look-rise)

Here $\Delta_c$ is the part's own difference. These rises add up to that of the activation. (The method is called integrated gradients {cite}`sundararajan2017axiomatic`.) The strongest head is chosen on half A, and its share is taken on half B:
"""

# %%
places = [p for group in ("by P", "random") for p in groups[group]]
found = cb.peaks.LookedUp.of(model, halves, sides.neurons(places))
strongest = found.profile_A.argmax(1)  # neuron: the head with the largest rise in half A
brought = found.profile[range(len(places)), strongest]  # what it brings in half B
share = brought / found.rise["all"].mean(0)

# %% [markdown]
r"""
Run here on `{{model}}`, these lines give its random neurons of Figure 15.1. {{?same}} And the neurons of SmolLM2 that predict their token? The strongest head brings {{pred_median}} of their rise in the median. In {{pred_tenth}} of the {{smol_keep}} it brings a tenth or more, and in {{like_tenth}} of as many controls (p = {{p_tenth}}); in random neurons it never does. {{?random_none}} We had required that it does so in more than half of them, and demonstrably more often than among the controls; neither is so. {{?not_driven}} {{?no_more_than_others}}

What brings the rise, if not one head? MLPs bring {{pred_mlps}} of it, and all heads together {{pred_heads}}. {{?mlps_lead}} This is credit for the last step only: MLPs in turn read what heads have written.

Or is it a different head in different texts, as the source says? Then a mean over peaks hides them. So we take at each peak the head that brings most there, and the median of its share over a neuron's peaks. It is a tenth or more in {{largest_tenth}} of the {{smol_keep}}, and in {{largest_like}} of the controls. {{?not_here_and_there}}

## Would we have seen a look-up?

To find out, we plant some. We draw a head for each of the random neurons. Each head also writes its main signal, the direction in which its output varies most, into a part of the stream that hardly anything else uses, and we turn a share of the neuron's input weights there. Then we count how often the planted head comes out strongest in both halves.
"""

# %% tags=["hide-input", "nbval-check-output"]
BANDS = {"below 5%": (-9, 0.05), "5% to 10%": (0.05, 0.1), "10% to 25%": (0.1, 0.25), "25% or more": (0.25, 9)}  # fmt: skip
pairs = {m: [(b, both) for v in of["plants"].values() for b, (_, both) in zip(v["brings"], v["found"], strict=True)] for m, of in BOTH.items()}  # fmt: skip
hits = {m: {band: [both for b, both in of if low <= b < high] for band, (low, high) in BANDS.items()} for m, of in pairs.items()}  # fmt: skip
harder = {m: {kind: [both for v in rows.values() for b, (_, both) in zip(v["brings"], v["found"], strict=True) if b >= 0.1] for kind, rows in of["harder"].items()} for m, of in BOTH.items()}  # fmt: skip
rows = {m: hits[m] | {f"10% or more, {k}": v for k, v in harder[m].items()} for m in BOTH}
pd.DataFrame(
    {m: {row: f"{sum(v)} of {len(v)}" for row, v in of.items()} for m, of in rows.items()}
).rename_axis("it brings, of the rise")

# %% [markdown]
r"""
We find most of the look-ups that bring a tenth of the rise, and nearly all that bring a quarter. {{?power}} For the share that we report it is enough that the planted head is the strongest in half A: so it is with {{smol_seen}} of SmolLM2's plants that bring a tenth or more, and {{mini_seen}} of `mini`'s. {{?seen_in_A}} Of those that bring less than a twentieth we find hardly any. {{?weak}}

These plants are easy, one head's main signal on a straight path. So we made two harder kinds, seen if we find more than half of those that bring a tenth. Look-ups split over two heads are seen. {{?two_seen}} Those that a head of the first layer makes by way of one neuron of the first MLP are not: we never find one, because the credit for the last step goes to the MLP. {{?relay_unseen}} So what we say of single heads is about direct look-ups alone.

## Does the token need the head?

The prediction need not depend on a head that brings part of the rise. We silence the strongest head: at every position, what it computes is replaced by its mean over half A, as in [chapter 12](12_causal). If the token had the probability $P$ before and $P_H$ without the head, its log probability falls by

$$
D(H) = \operatorname*{mean}_{\text{peaks}} \bigl( \log P - \log P_H \bigr) .
$$ (eq-look-loss)

The strongest heads are those of half A, and the peaks are the {{silenced}} largest of half B:
"""


# %% tags=["nbval-check-output"]
def nats(name, group, kind):  # by how much log P falls: the mean over a group and its interval
    of = group_of[name, group]
    return cb.peaks.over_peaks(of["fall"][kind], of["documents"], of["token"])


D = {key: nats(*key, "strongest") for key in group_of}
pd.DataFrame(
    {m: {words: f"{D[m, g]:+.2f}" for g, words in SHOWN.items()} for m in BOTH}
).rename_axis("D, in nats")

# %% [markdown]
r"""
For the neurons that predict their token, silence of the head costs {{cost}} nats: something, but not demonstrably more than for the controls (p = {{p_cost}}), which we had required. {{?cost_like_others}} Holding the neuron itself at its usual value costs {{cost_neuron}}. So the tokens do depend on these neurons a little, and on the strongest head hardly.

## Turn it

Choose a neuron of `{{model}}`, one of its prompts and heads. The text shows from which tokens a head's part comes, the second line of {eq}`eq-look-terms`. Try a head of layer {{= 0 =}}.
"""

# %% tags=["hide-input"]
rng, of_B = np.random.default_rng(0), halves["B"].tokens
cuts = zip(of_B[::2], rng.integers(2, READ, len(of_B)), strict=False)
ordinary = cx.lookups.read_prompts(model, [x[:end] for x, end in cuts])


def recorded(q, count=4):
    """One neuron of the view: its parts at peaks and usually, and what each head gets from where."""
    (layer, neuron), shown = found.neurons.places[q], [found.prompt(q, p) for p in range(count)]
    terms, usually = (cx.lookups.attribution(model, layer, neuron, of) for of in (shown, ordinary))
    W_O, _ = cx.lookups.layers.output_weights(model, layer)
    e = cx.lookups.layers.input_weights(model, layer)[0][:, neuron].cpu()
    ids, last = cx.lookups.hooks.pad(model, shown)
    hooks = [f"blocks.{k}.attn.hook_{w}" for k in range(len(W_O)) for w in ("pattern", "v")]
    _, cache = model.run_with_cache(ids, names_filter=hooks, stop_at_layer=layer + 1)
    a, v = (cb.peaks.stacked(model, cache, w, len(W_O)) for w in "av")
    said = einsum(v, W_O @ e, "p k u i d, k i d -> p k i u") / terms.scale[:, None, None, None]
    token, chance = int(found.neurons.tokens[q]), found.in_B.log_P[:, q].exp()
    label = f"{layer}.{neuron} {cb.figures.visible(model.tokenizer.decode([token]))}"
    group = "next-token neurons" if q < NEURONS else "random neurons"
    sources = a[range(len(ids)), :, :, last] * said
    shown_as = cv.looked_up(model, label, group, token, shown, terms, usually, sources, chance)
    return shown_as, terms, usually


example = next((q for q in range(NEURONS) if found.neurons.places[q][0] == n_layers - 1), 0)
listed = [example, *(q for q in range(8) if q != example), *range(NEURONS, NEURONS + 3)]
records, terms_of, usual_of = zip(*map(recorded, listed), strict=True)
terms = terms_of[0]
moved = (terms.heads[0] - usual_of[0].heads.mean(0)).flatten()
best = moved.topk(10).indices.tolist()
names = ["{}.{}".format(*divmod(h, n_heads)) for h in best]
figure, ((axis,),) = cb.figures.panels(1, 1, width=6, height=2.8)
axis.barh(names, moved[best])
axis.invert_yaxis()
axis.set(xlabel="more than usually, at the largest peak", ylabel="head (layer.number)")
picture = cb.figures.picture(
    figure,
    "15.2",
    f"Neuron {records[0]['label'].replace('<', '&lt;')} of {MODEL} at its largest peak in half B: the ten heads that add most beyond what they usually add.",
    "Bar chart. " + ", ".join(f"head {h} {float(v):.2f}" for h, v in zip(names[:3], moved[best[:3]], strict=True)) + ".",
)  # fmt: skip
cv.LookUps(cv.look_up_record(model, records), picture=picture)

# %% [markdown]
r"""
## What can go wrong

Of {{asked}} conditions {{held}} hold, both about plants (one nearly forced, one set with its numbers in view); {{failed}} fail, {{open}} are undecided, and {{untestable}} cannot be tested. {{?only_plants}}

Neurons that predict rarer tokens may differ. Congruence looks one step ahead, and later layers can take back what a neuron writes. Silence is not neutral either: hardly any text has a head's mean.

## Where this leaves us

We looked for single heads behind the neurons that predict a token, and what we found is what neurons with the same tokens have, too. MLPs together bring most of the rise; we did not ask whether a single one does, nor which heads feed it, and a look-up by way of an MLP would have escaped us. [Chapter 16](16_explanations) asks whether a simple rule can say when a head is active.

## Exercises

1. *Prove.* In {eq}`eq-look-terms` let one head's output be multiplied by $\kappa \to \infty$. What becomes of its own term, and of all others? Why does the silence of a head that writes nothing along $e$ still move the neuron?

```{admonition} Solutions
:class: dropdown

1. $s$ grows like $\kappa\, s(h)$. The head's own term tends to $h \cdot e / s(h)$, and all others vanish, though nothing about them has changed. A head with $h \cdot e = 0$ still fills the stream: without it $s$ falls, and every other term grows.
```

## Evidence

SmolLM2 reads as many texts as `mini`; its results and those of the groups are kept with the book (`tools/evidence/lookups.py` makes them again). What is about `{{model}}` alone is computed here.

**Two earlier choices.** This page was first written about {{count}} neurons with the largest $P$ on half A, and as many with the largest congruence, the publication's choice. A choice works, we had fixed in advance, if half of its neurons have a $P$ of one half or more on half B. In SmolLM2 {{smol_predict}} of those by $P$ do, and of those by congruence {{smol_congruent}}, so neither works. {{?both_fail}} The two groups of a choice are compared by permutation; one head was to bring a tenth or more of the mean rise more often among the chosen (p below {{= 0.05 =}}), which chance can make. {{?no_mark}} The next p is that of the difference in the cost of silence; where it is small, in SmolLM2, the controls need their head more. {{?controls_more}} The last column asks for a single path, from the head through the neuron to the token: the head's part of the neuron's input is put at its mean, and log P falls by so many nats.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Two earlier choices, and neurons of the same tokens"}
def p_apart(one, other):
    """How often chance makes two groups' means as different."""
    test = stats.permutation_test(
        (one, other), lambda a, b, axis: a.mean(axis) - b.mean(axis), n_resamples=1999, rng=0
    )
    return float(test.pvalue)


def compared(m, chosen, matched):
    """Those of a group that have one like them, beside these: the p of a tenth and of the cost."""
    of, costs = group_of[m, matched]["of"], [np.mean(group_of[m, g]["fall"]["strongest"], 0) for g in (chosen, matched)]  # fmt: skip
    own, other = share_of[m, chosen][of] >= 0.1, share_of[m, matched] >= 0.1
    return own, other, p_apart(own * 1.0, other * 1.0), p_apart(costs[0][of], costs[1])


rows, p_tenth, p_cost, reach = {}, {}, {}, {}
for m in BOTH:
    for chosen in ("by P", "by congruence"):
        own, other, p_tenth[m, chosen], p_cost[m, chosen] = compared(
            m, chosen, f"like those {chosen}"
        )
        reach[m, chosen] = int((np.array(group_of[m, chosen]["P"]["B"]) >= 0.5).sum())
        rows[f"{m}, {chosen}"] = {
            "P of a half": f"{reach[m, chosen]} of {NEURONS}",
            "a tenth or more": f"{own.sum()} of {len(own)}",
            "same tokens": f"{other.sum()} of {len(own)}",
            "p": f"{p_tenth[m, chosen]:.2f}",
            "p of the cost": f"{p_cost[m, chosen]:.2f}",
            "path (nats)": f"{nats(m, chosen, 'path'):.2f}",
        }
pd.DataFrame(rows).T

# %% [markdown]
r"""
**What was fixed in advance.** Five conditions were set before SmolLM2 was measured. Three were about one head: it wins most of a next-token neuron's peaks, and more of them than of a random neuron's; its silence costs the token something, and more than a random neuron's; and most of that goes through the neuron. A fourth was that three heads cost more together than one by one, and a fifth that at least four in five plants are found where they bring half of the rise. The sixth, about different heads, was set after all of these and for both models. The last three are about the neurons that predict their token; they were set after a reading, when those of the last five layers had been studied and the others had not, and for models with ten or more; that on plants was set with its numbers in view. In SmolLM2, though not in `mini`, one head wins more of a chosen neuron's peaks than of a random one's, but not the most of them, as the first asks. {{?comes_back}}
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What became of these conditions?"}
judged = BOTH["SmolLM2"]["judged"]
conditions = pd.DataFrame(judged["conditions"], index=["SmolLM2", "verdict"]).T
largest = {m: [np.array(of["groups"][g]["largest"]) for g in ("by P", "random")] for m, of in BOTH.items()}  # fmt: skip
tenths = {m: [int((of >= 0.1).sum()) for of in both] for m, both in largest.items()}
p_largest = {m: p_apart(*both) for m, both in largest.items()}
drives = all(tenths[m][0] > cb.MOST * NEURONS and p_largest[m] < 0.05 for m in BOTH)
conditions.loc["a single head at each peak"] = (f"{tenths['SmolLM2'][0]} of {NEURONS}, random {tenths['SmolLM2'][1]}", "holds" if drives else "fails")  # fmt: skip
predict, beside = (group_of["SmolLM2", g] for g in PREDICT)
own, other, p_own, p_own_cost = compared("SmolLM2", *PREDICT)
cost_own, cost_other = (D["SmolLM2", g] for g in PREDICT)
seen = {m: [a for v in of["plants"].values() for b, (a, _) in zip(v["brings"], v["found"], strict=True) if b >= 0.1] for m, of in BOTH.items()}  # fmt: skip
many = tenth_of["SmolLM2", PREDICT[0]] > cb.MOST * len(predict["share"])
needed = cost_own.low > 0 and cost_own.value > cost_other.value and p_own_cost < 0.05
for name, found_there, met in (
    ("those that predict: one head brings a tenth", f"{own.sum()} of {len(own)}, others {other.sum()} (p = {p_own:.2f})", many and p_own < 0.05),
    ("those that predict: the token needs it", f"{cost_own:+.2f} nats, others {cost_other.value:+.2f} (p = {p_own_cost:.2f})", needed),
    ("planted heads of a tenth are half A's strongest", cb.listed([f"{sum(v)} of {len(v)}" for v in seen.values()]), min(map(np.mean, seen.values())) > 0.5),
):  # fmt: skip
    conditions.loc[name] = (found_there, "holds" if met else "fails")
conditions

# %% [markdown]
r"""
That plants are found is nearly forced, because a head that brings half of the rise can hardly fail to be the strongest. And what goes through the neuron, though it is above zero, is a share of a cost that may be none.

**The publication's sentences.** They are in words, and *half* is this book's reading where a share is meant. The lines are about `{{model}}`. The rise of log P is helped by the choice, for these neurons were taken for $P$. The cost of silence is above zero in P and undecided in log P, so its share that goes through the neuron is untestable.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger: published claims, judged"}
tokens, is_next = found.neurons.tokens, np.arange(len(places)) < NEURONS
usually = [
    cx.lookups.layers.logits(model, leaves).softmax(-1)[:, tokens].mean(0)
    for leaves in found.in_B.stream[:, 1:]
]
usually = torch.stack(usually).mean(0)  # neuron: P over all positions
rise_of_log_P = (found.in_B.log_P.mean(0) - usually.log()).numpy()[None]
all_heads = found.rise["heads"].sum((2, 3))
from_earlier = all_heads - found.rise["own"] - found.rise["BOS"]
winners = found.rise["heads"].flatten(2).argmax(2)  # peak neuron
several = (winners != winners[0]).any(0)[None].double()
heads = found.heads(slice(0, 1))
cost = found.fall(heads)
in_P = found.in_B.log_P[: len(cost)].exp() * (1 - (-cost).exp())
by_way = cost - found.fall(heads, found.in_B.post)


def over(part, whole=None, mask=is_next):
    """A mean over next-token neurons, or over others, and the wider interval."""
    part, whole = (None if v is None else np.asarray(v)[:, mask] for v in (part, whole))
    return cb.peaks.over_peaks(part, found.documents[:, mask], tokens[mask].tolist(), whole)


way = over(by_way, cost) if over(cost).low > 0 else cb.Estimate(np.nan)  # no share of nothing
cb.ledger(
    model,
    cb.Claim("next_token_neurons", "rise of log P at the peaks, less that of random neurons (nats)", *over(rise_of_log_P - rise_of_log_P[:, ~is_next].mean()).for_claim, digits=1),
    cb.Claim("heads_know_contexts", f"share of the heads' rise that comes from earlier tokens (in random neurons {over(from_earlier, all_heads, ~is_next)[0]:.2f})", *over(from_earlier, all_heads).for_claim),
    cb.Claim("several_heads", f"share of the neurons with more than one winning head (of random ones {over(several, mask=~is_next)[0]:.2f})", *over(several).for_claim),
    cb.Claim("loss_is_there", "fall of P when the strongest head is silenced", *over(in_P).for_claim),
    cb.Claim("loss_is_there", "fall of log P, in nats", *over(cost).for_claim),
    cb.Claim("heads_wake_neurons", "share of the head's effect on the token that goes through the neuron", *way.for_claim),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
first = predict["places"].index([27, 734, -1])  # the comma
layer, neuron, _ = predict["places"][first]
random_mini, shares = group_of["mini", "random"], share_of["SmolLM2", PREDICT[0]]
verdicts, wins = conditions["verdict"].value_counts(), judged["wins"]
both = {band: np.concatenate([hit[band] for hit in hits.values()]) for band in BANDS}  # models
rise = {k: np.mean(v, 0) for k, v in predict["rise"].items()}  # neuron
parts = {k: (rise[k] / rise["all"]).mean() for k in ("MLPs", "heads")}
kept_both = {m: len(share_of[m, PREDICT[0]]) for m in BOTH}
largest_tenth = [int((np.array(group_of["SmolLM2", g]["largest"]) >= 0.1).sum()) for g in PREDICT]
tokens_of, words = pd.Series(predict["token"]).value_counts(), {"\n": "a new line", ",": "a comma"}
cb.facts(
    "lookups",
    model=MODEL.rpartition("/")[2], count=NEURONS, peaks=cb.peaks.PEAKS,
    silenced=cb.fact(cb.peaks.SILENCED, "words"),
    asked=cb.fact(len(conditions), "words"),
    random_none=tenth_of["SmolLM2", "random"] == 0,
    only_plants=conditions.index[conditions["verdict"] == "holds"].str.contains("plant").all(),
    held=cb.fact(verdicts["holds"], "words"), failed=cb.fact(verdicts["fails"], "words"),
    open=cb.fact(verdicts["undecided"], "words"),
    untestable=cb.fact(verdicts["untestable"], "words"),
    smol_sides=BOTH["SmolLM2"]["predicting"]["sides"], smol_on_A=BOTH["SmolLM2"]["predicting"]["on A"],
    smol_keep=kept_both["SmolLM2"], mini_sides=BOTH["mini"]["predicting"]["sides"],
    mini_keep=cb.fact(kept_both["mini"], "words"), mini_too_few=kept_both["mini"] < 10 <= kept_both["SmolLM2"],
    pred_median=cb.fact(np.median(shares), ".0%"), pred_tenth=tenth_of["SmolLM2", PREDICT[0]],
    like_tenth=tenth_of["SmolLM2", PREDICT[1]], p_tenth=cb.fact(p_own),
    pred_mlps=cb.fact(parts["MLPs"], ".0%"), pred_heads=cb.fact(parts["heads"], ".0%"),
    mlps_lead=parts["MLPs"] > cb.MOST,
    largest_tenth=largest_tenth[0], largest_like=largest_tenth[1],
    cost=f"{cost_own:.2f}", cost_neuron=f"{nats('SmolLM2', PREDICT[0], 'neuron'):.2f}",
    cost_like_others=cost_own.low > 0 and p_own_cost > 0.05,
    not_driven=not many and np.median(shares) < 0.1, no_more_than_others=p_own > 0.05,
    not_here_and_there=largest_tenth[0] < min(largest_tenth[1], cb.MOST * len(shares)),
    pred_tokens=", ".join(words.get(t, f"*{t.strip()}*") for t in tokens_of.index[:4]), p_cost=cb.fact(p_own_cost),
    **{f"{short}_seen": f"{sum(seen[m])} of {len(seen[m])}" for short, m in (("smol", "SmolLM2"), ("mini", "mini"))},
    seen_in_A=min(map(np.mean, seen.values())) > cb.MOST,
    no_mark=min(p_tenth.values()) > 0.05,
    both_fail=max(reach.values()) < cb.MOST * NEURONS,
    comma_layer=layer, comma_neuron=neuron,
    comma_p=cb.fact(predict["P"]["B"][first]), comma_heads=9 * (layer + 1),
    comma_share=cb.fact(shares[first], ".0%"),
    comma=predict["token"][first] == "," and predict["P"]["B"][first] > cb.MOST,
    same=MODEL != "mini" or np.abs(share[NEURONS:].numpy() - random_mini["share"]).max() < 1e-3,
    smol_congruent=cb.fact(reach["SmolLM2", "by congruence"], "words") if reach["SmolLM2", "by congruence"] else "none",
    smol_predict=cb.fact(reach["SmolLM2", "by P"], "words"),
    comes_back=wins[2] < 0.05 < BOTH["mini"]["judged"]["wins"][2] and wins[1] < wins[0] < cb.MOST,
    power=np.mean(both["25% or more"]) > cb.NEARLY_ALL and np.mean(both["10% to 25%"]) > cb.MOST,
    two_seen=all(np.mean(of["two heads"]) > cb.MOST for of in harder.values()),
    relay_unseen=not any(sum(of["by way of the first MLP"]) for of in harder.values()),
    weak=np.mean(both["below 5%"]) < 1 - cb.NEARLY_ALL,
    controls_more=D["SmolLM2", "like those by P"].low > 0 > D["SmolLM2", "by P"].value,
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

Congruence, next-token neurons, peaks, head attribution, random neurons and the ablation of a head are from {cite:t}`neo2024interpreting`, integrated gradients from {cite:t}`sundararajan2017axiomatic`, and reading a model as a sum in a residual stream from {cite:t}`elhage2021framework`. Choosing by $P$ on half of the texts, controls with the same token, LayerNorm in the terms, sides, the rise of a gated neuron and planted look-ups are this book's.
"""
