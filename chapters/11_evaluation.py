# %% [markdown]
r"""
# How accurate is it, and what limits it?

**The circuit often gets the amounts wrong: with our calibration text, the mean of a text's domain is a better guess in two of four models.** {{?loses_to_domain}} In stable heads, the limit is not the split of scores into position and content, but two shortcuts: the constants of one page, and values read as if at the query. {{?equation_1}} In our small model `{{model}}`, another page and other texts may leave between {{any_low}} and {{any_high}} of the median neuron's variance unexplained. It ranks texts well, {{?ranks}} but so does that of a layer of random weights, even better ($r$ = {{r_blank}}). {{?blank_passes}}

In each model we predict what the stable heads add to the hundred neurons that single tokens can move farthest, and compare this with what the model computes. The table has the median correlation $r$ and the median share of the variance that is left unexplained (FVU). Two rivals stand beside the circuit. One is given only the domain of a text, such as law, and guesses the mean of other texts of that domain. The other averages the tokens' values uniformly, without kernel and content. A *line* is a slope and an offset for each neuron, fitted on other texts. An *untrained* layer has random weights in `{{model}}`; in the others, it has the entries of each of its heads' matrices permuted, which leaves Qwen no stable head ([chapter 8](08_real_model)).
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the query token
NEURONS = 100  # how many are judged: those that single tokens can move farthest
NEURON = 496  # the neuron that the first six chapters follow

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, texts and the model"}
import json

import numpy as np
import pandas as pd
import torch
from einops import einsum

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv
from ctxlib.weights import layer_norm_scale

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN)
passages, n, heads, circuit = study.passages, study.n, study.heads, study.circuit
followed = min(NEURON, weights.n_neurons - 1)
half_B = cb.halves(study.texts)[1]
own = torch.stack([text.tokens[: n + 1] for text in half_B[::2]])  # with their own tokens at n
kind = np.array([text.domain for text in half_B])
controls, lines, constants, kept_shares, law, shuffled = (  # of real models and of mini
    json.loads(cb.evidence(f"{name}.json").read_text())
    for name in ("controls", "lines", "constants", "shares", "one_page", "untrained")
)
NAMES = {MODEL: MODEL.rpartition("/")[2], "qwen": "Qwen", "smollm2": "SmolLM2", "minilm": "MiniLM"}
REAL = [*NAMES][1:]
print(f"{study}\ncalibrated on {study.calibration_text.name}; judged on {len(half_B)} texts")


def judged(study):
    """A layer's strongest neurons, half B, what the heads add there, what the circuit says, and how
    good that and each rival is."""
    fixed, circuit, halves = study.fixed, study.circuit, cb.halves(study.texts)
    J = cx.find_neurons(circuit, threshold=-np.inf).index[:NEURONS].tolist()  # farthest first
    x = [fixed.prepare(half) for half in halves]  # text source
    truth = [fixed.exact_summary(part, study.heads)[:, J] for part in x]  # text neuron
    said = [circuit.summary(part)[:, J] for part in x]
    average = [cb.uniform_average(circuit, part, J) for part in x]
    guesses = {
        "circuit": said[1],
        "uniform average": average[1],
        "domain mean": cb.domain_mean(truth[0], [text.domain for text in halves[0]], kind),
        "circuit, line": cb.with_a_line(*said, truth[0]),
        "uniform average, line": cb.with_a_line(*average, truth[0]),
    }
    fits = {k: cx.evaluation.r_and_fvu(guess, truth[1], kind) for k, guess in guesses.items()}
    return J, x[1], truth[1], said[1], pd.DataFrame(fits).T


J, x_B, true_B, summary_B, fits = judged(study)
blank = cx.study(cb.nulls.untrained(weights), study.texts, TOKEN)
BLANK = {m: f"{m}, untrained" for m in NAMES}
layers = {MODEL: fits, BLANK[MODEL]: judged(blank)[-1]}
for m in REAL:  # kept
    for called, of in ((m, controls[m]["readings"]), (BLANK[m], shuffled[m]["untrained"])):
        layers[called] = pd.DataFrame(of["contribution"]).T
        for r in ("r", "r within domains"):
            layers[called][r] = layers[called][r].str[0]  # of an estimate
    for guess, fvu in lines[m]["with a line"].items():
        layers[m].loc[f"{guess}, line", "FVU"] = fvu
SCORES = {  # of which guess, and which
    "r": ("circuit", "r"),
    "r of a uniform average": ("uniform average", "r"),
    "r within domains": ("circuit", "r within domains"),
    "r within domains, uniform average": ("uniform average", "r within domains"),
    "FVU": ("circuit", "FVU"),
    "FVU of the domain's mean": ("domain mean", "FVU"),
    "FVU with a line": ("circuit, line", "FVU"),
    "FVU of a uniform average with a line": ("uniform average, line", "FVU"),
}
board = {
    m: {row: of.loc[at] for row, at in SCORES.items() if at[0] in of.index}
    for m, of in layers.items()
}
board = pd.DataFrame(board).astype(float)
blanks = board[[*BLANK.values()]].set_axis([*NAMES], axis=1)
shown = pd.concat([board[[*NAMES]], blanks.iloc[2:5].rename(index="{}, untrained".format)])
carried = {MODEL: study.head_variance_share[heads].sum()} | {m: lines[m]["share"] for m in REAL}

# %% tags=["hide-input", "nbval-check-output"]
shares = pd.DataFrame({"variance that these heads carry": carried}).T.map("{:.0%}".format)
shown = (shown.round(2) + 0).map(lambda v: f"{v:.2f}" if v < 100 else "over 100")
pd.concat([shares, shown]).rename(columns=NAMES).rename_axis("medians")

# %% [markdown]
r"""
Most of what heads add depends on the subject of a text, and any average of its tokens gives the subject away. So we also take $r$ *within* domains, where each domain's mean is subtracted on both sides, and what is left is the difference between one recipe and the next. There the circuit is ahead of the uniform average in all four models, in `{{model}}` with {{within}} against {{within_even}}. {{?ahead_within}}

We had agreed in advance that a score detects training if an untrained layer scores worse. The correlation does not in `{{model}}`, within domains either ({{r_blank_within}}, where the uniform average has {{r_blank_even}}), {{?blank_passes}} nor in SmolLM2. The plain FVU does in all models but SmolLM2. {{?blank_real}} But by it the mean of the text's domain is a better guess in SmolLM2 and, with this page, in `{{model}}`. {{?loses_to_domain}}

## Three ways of being wrong

Suppose a neuron gets $1$, $2$ and $3$ on three texts, and we predict $2.5$, $3$ and $3.5$. The order is right, so $r = 1$. But the predictions are too high by $1$ on average, and they vary half as much as the truth. The fraction of variance unexplained (FVU) is the mean squared error over the variance of the truth. It splits into three parts:

$$
\text{FVU} = \underbrace{\text{offset}^2}_{\text{offset}} + \underbrace{(\text{spread} - r)^2}_{\text{slope}} + \underbrace{1 - r^2}_{\text{order}} .
$$ (eq-eval-parts)

The offset is the mean error, and the spread the standard deviation of the predictions, both in standard deviations of the truth:
"""


# %% tags=["nbval-check-output"]
def parts(approx, truth):
    """The FVU of one neuron in three parts: offset, slope, order."""
    r = np.corrcoef(approx, truth)[0, 1]
    offset = (approx.mean() - truth.mean()) / truth.std()
    spread = approx.std() / truth.std()
    return np.array([offset**2, (spread - r) ** 2, 1 - r**2])


parts(np.array([2.5, 3, 3.5]), np.array([1, 2, 3])).round(2)

# %% [markdown]
r"""
The offset is six times as costly as the slope, and together they make an FVU of $1.75$: worse than saying $2$ each time. Yet one straight line per neuron mends both. Forecasters split their errors in this way {cite}`murphy1988skill`.

A line fitted on half A does so on half B. {{?line_is_order}} It helps the rival, too, and how good a circuit looks depends on its rival {cite}`miller2024faithfulness`. Our condition, fixed in advance: with a line each, the circuit must leave less than {{= 0.8 =}} of what the uniform average leaves. It does in `{{model}}` ({{page_line}} against {{even_line}}) and Qwen. MiniLM, with its good correlation and FVU, fails it, and in SmolLM2 the average does better. {{?worth_more}}

## A circuit that borrows nothing

A denominator is a sum over the tokens of the text, like the numerator above it. We need not borrow it from a page: let each head be a ratio of two sums over the same text, with its own kernel again, and with what positions add to values:

$$
\begin{aligned}
\text{out}_h(n) &\approx \frac{\sum_{i \le n} w_i \; v_i}{\sum_{i \le n} w_i}\; W_O^h , \\
w_i &= \text{pos}^h_i\; \text{content}_h(x_i) , \\
v_i &= E_V^h[n, x_i] + P_V^h[n, i] + b_V^h .
\end{aligned}
$$ (eq-eval-ratio)

$E_V^h$ and $P_V^h$ are the two halves of Equation 1, for values. In code we split the normalised residual stream, and run the layer on the split:
"""

# %%
x = own[0]
at_n = cx.layer_norm(weights.W_E[x] + weights.W_pos[n], weights.eps)  # source d_model: what it is
seen = at_n + cx.decompose.positional_shift(weights, n)  # and its position: Equation 1

q = einsum(at_n[n], weights.W_Q, "d, head d e -> head e") + weights.b_Q
scores = einsum(q, weights.W_K, seen, "head e, head d e, source d -> head source")
rows = (scores / weights.attn_scale).softmax(-1)
z = einsum(rows, seen, weights.W_V, "head source, source d, head d e -> head e") + weights.b_V
out = einsum(z, weights.W_O, "head e, head e d -> head d")

stream = weights.W_E[x[n]] + weights.W_pos[n] + out.sum(0) + weights.b_O
s = layer_norm_scale(stream, weights.eps)
summary = out[heads].sum(0) @ weights.mlp_input()[0] / s  # neuron

# %% [markdown]
r"""
In the package this is `circuit.self_normalized()`, the *self-normalised circuit*; the paper does not have it. It is the first layer itself with one equation in place of the exact residual stream, so its error is that of this split of scores alone: Equation 1 in `{{model}}` and MiniLM, and the least-squares split of [chapter 13](13_families) in Qwen and SmolLM2.

## Which circuit should you use?

If all tokens of a text share its denominators, we can no longer say what a token adds *before there is a text*. The table of one number per token, and with it the search for neurons in [chapter 6](06_neurons), exists only with fixed constants. Here is the median FVU of five circuits, on the texts of the first table. Three have a table of tokens: the *paper's*, with the constants of one page; one with the *mean constants* of half A and, where positions are added to tokens, with *position patterns*, what positions add to the values on average; and the [*centred* circuit](08_real_model), which takes from one page what each head adds in every text. Two need the text itself: that with *its own constants*, denominators and LayerNorm scale, and the *self-normalised* one. Intervals redraw documents or domains, and where there is a page, that as well, from {{= 20 =}} other texts, of which the number is the median. The last row counts with how many of these the same table is least.
"""

# %% tags=["hide-input", "nbval-check-output"]
CIRCUITS = {
    "one page": "the paper's",
    "half A, patterns": "mean constants, patterns",
    "centred": "centred",
    "its own": "the text's own constants",
    "own": "self-normalised",
}
five = pd.DataFrame({m: constants[m]["circuits"]["left"] for m in ("mini", *REAL)}).loc[[*CIRCUITS]]
five = five.map(lambda kept: cb.Estimate(*kept))
values = five.map(lambda of: of.value).astype(float)
contest = {  # of the tables of tokens, with other calibration texts
    m: pd.DataFrame(constants[m]["circuits"]["by page"]).assign(**{"half A, patterns": fixed})
    for m, fixed in values.loc["half A, patterns"].items()
}
least = {m: int((of.idxmin(axis=1) == values[m][:3].idxmin()).sum()) for m, of in contest.items()}
any_page = pd.DataFrame({m: constants[m]["circuits"]["any page"] for m in contest})
any_page = any_page.map(lambda kept: cb.Estimate(*kept))
shown = pd.concat([any_page, five.iloc[[1, 3, 4]]]).loc[[*CIRCUITS]]
shown = shown.map("{:.2f}".format).rename(CIRCUITS)
for one in any_page.index:
    shown.loc[f"{CIRCUITS[one]}, our page"] = values.loc[one].map("{:.2f}".format)
shown.loc["same table is least"] = pd.Series(least).map("{} of 20".format)
shown.rename(columns=NAMES)

# %% [markdown]
r"""
To *find* neurons, you need a table. By a rule fixed in advance, it is mean constants and patterns in `mini` and MiniLM, and the centred circuit in Qwen and SmolLM2, which have the least FVU on our page. {{?which}} They had to have it with at least {{= 19 =}} of {{= 20 =}} other texts. In Qwen this fails ({{least_qwen}}); there mean constants are least with {{least_half_A}}. {{?least_three}} So, after the failure, we advise mean constants there too. In SmolLM2 no table is good: the centred one leaves {{centred_ours}} with our page (the domain's mean {{domain_smol}}, a uniform average with a line {{even_smol}}).

For the *amounts* in a text that you have, take the self-normalised circuit. It leaves {{own_most}} of the variance in SmolLM2, and {{own_qwen}} or less in the other three (over all neurons, {{own_all}} or less in all four). So most of what the circuit gets wrong comes from what it fixes, the constants of one page and the positions of values. {{?equation_1}} {{?own_not_enough}}

<span id="turn-it"></span>Here are both circuits on two texts as they grow, beside what the model computes, for neuron {{neuron}}, which responds to planets ([chapter 1](01_first_layer)). Type over the texts.
"""

# %% tags=["hide-input"]
code = next((p for p in passages if p.domain == "python"), passages[0])
shown = [weights.tokenizer.decode(text.tokens[1:161]) for text in (study.example, code)]
kinds = {"one page": circuit, "self-normalised": circuit.self_normalized()}
figure, ((axis,),) = cb.figures.panels(height=3.0, width=5.5)
t = study.fixed.exact_summary(own[:60], heads)[:, followed]
for k, (mark, (name, by)) in enumerate(zip("o.", kinds.items(), strict=True)):
    axis.plot(by.summary(own[:60])[:, followed], t, mark, ms=4, alpha=0.7)
    axis.text(0.03, 0.9 - 0.1 * k, name, color=f"C{k}", transform=axis.transAxes)
axis.axline((float(t.mean()),) * 2, slope=1, color=cb.figures.INK, lw=1, ls=":")
axis.set(xlabel="predicted", ylabel="in the model", title=f"neuron {followed}")
picture = cb.figures.picture(
    figure,
    "11.1",
    f"Neuron {followed} on {len(t)} texts of half B, a mark a text and circuit. On the dotted line a prediction is right.",
    f"Dots along a diagonal: neuron {followed} by both circuits and in the model.",
)
cv.LiveReader(
    weights, picture=picture, heads=list(heads), neuron=followed, text=shown[0], other=shown[1]
)

# %% [markdown]
r"""
## Which approximation costs what?

The paper's circuit makes five approximations ([chapter 5](05_circuit)): Equation 1 (in rotary models the split of chapter 13) in place of the keys, values as if every token were at position $n$, one kernel for all heads, the denominators of one page, and its LayerNorm scale. Errors can cancel. Say that one is off by $+3$ and another by $-2$. Alone they cost $9$ and $4$, but together $1$, so repairing the second makes things worse. A fair account makes them one after another, and takes the mean over all orders of what each adds, its **Shapley value** {cite}`shapley1953value`. The first adds $9$, or $1 - 4 = -3$ if it comes second: $3$ in the mean. The second adds $4$ or $1 - 9 = -8$, so $-2$. In code each approximation has an axis, without it ({{= 0 =}}) and with it ({{= 1 =}}):
"""

# %% tags=["nbval-check-output"]
cb.shares.shapley(np.array([[0, 4], [9, 1]]))

# %% [markdown]
r"""
For our five we make all {{= 32 =}} subsets, and divide by the FVU with all five. The last row counts with how many of {{= 20 =}} other calibration texts the same share is the largest.
"""

# %% tags=["hide-input", "nbval-check-output"]
shares = {MODEL: cb.shares.error_shares(circuit, half_B[::2], J)}
shares |= {m: {k: cb.Estimate(*v) for k, v in kept_shares[m]["shares"].items()} for m in REAL}
costs = pd.DataFrame(shares).map(lambda of: of.value).loc[[*cb.shares.MADE]]  # of which; model
of_pages = {m: np.array(kept_shares[m]["by page"]) for m in NAMES if m in kept_shares}
same_first = {m: int((of.argmax(1) == costs[m].argmax()).sum()) for m, of in of_pages.items()}
table = pd.DataFrame(shares).map("{:.0%}".format).rename({"lead": "largest less next"})
table.loc["values", ["qwen", "smollm2"]] = "–"  # rotary positions are in no value
table.loc["same is largest"] = pd.Series(same_first).map("{} of 20".format)
table.rename(columns=NAMES)

# %% [markdown]
r"""
In Qwen and SmolLM2 the borrowed denominators make {{qwen_denominators}} and {{smol_denominators}} of the error. {{?denominators_first}} Values and denominators together make {{minilm_two}} of the error in MiniLM and {{mini_two}} in `{{model}}`. Values lead in both, but our condition for calling that certain fails (see Evidence). {{?values_first}}

For the stable heads, this split (*keys*) is not the main limit, for with our page its share stays below a fifth. {{?keys_small}} {{?keys_sign}} For whole neurons, with each text's own denominators, it is all that is left ([chapter 10](10_whole_neuron)).

## What can go wrong

**Another page.** The page decides how wrong the amounts are. With {{= 20 =}} other texts, the paper's circuit leaves between {{least_fvu}} and {{most_fvu}} of the variance in `{{model}}`, typically {{typical_mini}}; our own page, which no result chose, leaves {{fvu}}, more than most. {{?own_page}}

**The heads are not the neuron.** All of this is about what the stable heads add. With a neuron's output, the circuit correlates by {{post_r}} in `{{model}}` and by {{qwen_post}} in Qwen. The paper's median is {{= 0.9485 =}}; if its *neuron activations* are outputs, and not what heads add to them, none of our four models reaches it.

## Where this leaves us

What limits the circuit of the stable heads is mainly the constants of one page and the positions of values, and not the split of scores. For amounts, take better constants than one page's, or the text's own. Of nine conditions fixed in advance, two are met, and seven fail in at least one model that they are about (see Evidence). {{?keys_small}} {{?as_said}} {{?denominators_first}} But even a perfect description of what heads add would not tell whether the model uses it. [Chapter 12](12_causal) puts the circuit into the model and asks.

## Exercises

1. *Predict, then run.* The summaries of half B are permuted at random among the texts of the same domain. What becomes of $r$, and of $r$ within domains?
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What came out?"}
rng, places = np.random.default_rng(0), pd.Series(range(len(kind)))
mates = places.groupby(kind).transform(rng.permutation).tolist()
cx.evaluation.r_and_fvu(summary_B[mates], true_B, kind)[["r", "r within domains"]].round(2)

# %% [markdown]
r"""
```{admonition} Solutions
:class: dropdown

1. $r$ falls below that of the domain's mean, since the permuted summaries bring in the variation of other texts. Within domains nothing is left.
```

## Evidence

**What was fixed in advance.** Three conditions are told above: that a score detects training, that a line is worth less than kernel and content, and that the advised table is not due to one page. The other six follow.

**Which approximation costs most?** Before any share was computed we had required that the interval of the largest share's lead over the next lie above zero, and that the same one come first with at least {{= 19 =}} of {{= 20 =}} other texts of half A. Qwen and SmolLM2 meet both. MiniLM misses the second. So does `{{model}}`, and the first as well, for on the other texts of `tools/evidence/controls.py` the interval of its lead holds zero. {{?values_first}} That Equation 1 has less than a fifth is met in all four, though with two of the {{= 20 =}} texts its share in Qwen is a little more ({{qwen_most}} at most). {{?qwen_pages}}

**Other constants.** The median FVU of {{= 100 =}} neurons, stored (`tools/evidence/constants.py`) and, but for `mini`, measured on other texts than the tables above, so that *one page* differs from them. The constants are those of one page, the geometric mean of half A's, those of the nearest of four clusters of half A (texts of similar denominators), or each text's own; the last still has one kernel for all heads, and values as if every token were at position $n$. Where positions are added to tokens, *patterns* are what the heads' own positional patterns add to the values, $\sum_h \sum_i \text{pos}^h_i\, P_V^h[n, i]\, W_O^h$ {cite}`gibson2025contextual`.

The head of the script says what was fixed in advance. Patterns take away at least half of what exact values would in `mini` and MiniLM: met. Clusters leave less than {{= 0.8 =}} of what one set of constants does: met in SmolLM2 alone. (They start at random, and what they leave differs a little from run to run, which has not changed a verdict.) Patterns alone close the published gap (FVU at most {{= 0.1426 =}}): met in MiniLM, where there was hardly a gap, and not in `mini`. {{?as_said}} That a line is worth less than kernel and content was judged on these texts first, and came out as on the scoreboard. {{?worth_more}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "FVU with other constants"}
patterned = {m: {f"{k}, patterns": v for k, v in of.get("with patterns", {}).items()} for m, of in constants.items()}  # fmt: skip
every = {m: of["FVU"] | patterned[m] | {"exact values": of.get("exact values")} for m, of in constants.items()}  # fmt: skip
every = pd.DataFrame(every)[["mini", *REAL]].astype(float)
by_constants = every.rename(index={"its own": "each text's own"}, columns=NAMES)
by_constants.map(lambda v: "" if v != v else f"{v:.2f}")

# %% [markdown]
r"""
**The ledger.** All but the last line are about the neurons that [chapter 6](06_neurons) finds, so their median FVU is not that of the scoreboard. The interval of the median FVU holds {{= 95 =}} in {{= 100 =}} of the book's {{pages}} labelled passages, each of which calibrates in turn, the last line's draws passages, and the others are the wider of documents and domains.

Lines {{= 6 =}} and {{= 7 =}} read one sentence of the post in two ways: *were other heads and LayerNorm exact, the token at the destination would be the main source of error.* For each approximation alone (with the text's own token at $n$, so that the circuit's *the* is a sixth), line {{= 6 =}} counts what is lost of the order, $1 - r^2$, and line {{= 7 =}} the whole FVU. By order the token costs {{shape_all}} times what the costliest of the others does, by FVU {{added_all}} of the costliest, which is the values. So line {{= 7 =}} fails. Without the values, which the post corrects, it is undecided; but we thought of leaving them out when the number was known, so the line stands as it was first set.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
x_P = study.fixed.prepare(passages)
scales = circuit.scale / circuit.fixed.scale(x_P, circuit.fixed.head_outputs(x_P))  # page 1
factors = circuit.denominators / circuit.fixed.denominators(x_P)[:, heads] * scales  # page head


def by_pages(x):
    """Summaries with the constants of every passage: `page text neuron`."""
    says = einsum(circuit.z(x), circuit.readout[..., J], "t h e, h e j -> t h j")
    return einsum(says, factors, "t h j, p h -> p t j")


table = cx.find_neurons(circuit, threshold=-np.inf)
found = table.index[: int((table["z"] > cx.neurons.STANDS_OUT).sum()) or NEURONS].tolist()
each = {k: cx.evaluation.approx_summary(circuit, own, {k}) for k in cx.evaluation.APPROXIMATIONS}
true_own = study.fixed.exact_summary(own, heads)
few = slice(len(found)) if found == J[: len(found)] else slice(None)
median = cb.median_over_neurons
all_own = torch.stack([text.tokens[: n + 1] for text in half_B])
own_truth = torch.cat([study.fixed.exact_summary(part, heads)[:, J] for part in all_own.split(64)])
says = [circuit.fixed.mlp(part) for part in x_B.split(32)]
pre, post = (torch.cat([part[which] for part in says])[:, J] for which in (next(iter(says[0])), list(says[0])[-1]))  # fmt: skip
r = lambda a, t, draws: cb.with_interval(median("r", a[:, few], t[:, few]), half_B, draws, cb.WIDER)
r_post, r_own = r(summary_B, post, 199), r(circuit.summary(all_own)[:, J], own_truth, 299)
fvu_found = float(median("fvu", summary_B[:, few], true_B[:, few])(np.arange(len(x_B))))
by_page = [median("fvu", v[:, few], true_B[:, few])(np.arange(len(x_B))) for v in by_pages(x_B)]


def token_over(column, others):
    """What the query token costs over what the costliest of the others does."""
    cost = {k: median(column, each[k][:, found], true_own[:, found]) for k in ("token", *others)}
    over = lambda drawn: cost["token"](drawn) / max(cost[k](drawn) for k in others)
    return cb.with_interval(over, half_B[::2], 199, cb.WIDER)


true_P = study.fixed.exact_summary(x_P, heads)[:, J]
errors = ((by_pages(x_P) - true_P).square() / true_P.var(0, correction=0))[..., few]
dialect = np.array([page.dialect for page in passages])
foreign, prose = ~np.char.startswith(dialect, "en"), np.isin(study.domains, cx.studies.PROSE)
kind_of = np.select([dialect == "python", foreign, prose], ["code", "foreign", "prose"], "English")
apart = 1 - torch.eye(len(passages)).to(errors)  # a page is not tested on itself
member = torch.from_numpy(kind_of[:, None] == np.unique(kind_of)).to(errors)  # page kind


def matched_over_other(drawn):
    """Error with the kind of text matched over error with another, the median kind."""
    often = torch.from_numpy(np.bincount(drawn, minlength=len(passages))).to(errors)
    pairs = often[:, None] * often * apart
    total = einsum(member, pairs[..., None] * errors, member, "p a, p t j, t b -> a b j")
    table = (total / (member.T @ pairs @ member)[..., None]).nanquantile(0.5, dim=-1)
    other = table.masked_fill(torch.eye(len(table), dtype=torch.bool), torch.nan)
    return float((table.diagonal() / other.nanmean(0)).nanquantile(0.5))


OTHERS = "keys", "kernel", "denominators"
shape, added_all = (token_over(of, ("values", *OTHERS)) for of in ("from shape", "fvu"))
added = token_over("fvu", OTHERS)
of_kinds = cb.with_interval(matched_over_other, passages, 199)
cb.ledger(
    model,
    cb.Claim("median_r", f"paper's circuit, {TOKEN!r} at n: median r", *r(summary_B, true_B, 299).for_claim, 4),
    cb.Claim("median_r_pre", "the same, with the whole pre-activation", *r(summary_B, pre, 199).for_claim, 4),
    cb.Claim("median_r_post", "the same, with the activation", *r_post.for_claim, 4),
    cb.Claim("median_fvu", "the same: median FVU", fvu_found, tuple(np.quantile(by_page, [0.025, 0.975])), 4),
    cb.Claim("median_r", "paper's circuit, own token at n: median r", *r_own.for_claim, 4),
    cb.Claim("token_main_error", f"shape lost by {TOKEN!r} at n, over the largest other but LayerNorm 2", *shape.for_claim),
    cb.Claim("token_main_error", f"FVU added by {TOKEN!r} at n, over the largest other but LayerNorm 2", *added_all.for_claim),
    cb.Claim("own_domain", "error with the kind of text matched, over error with another, median kind", *of_kinds.for_claim),
)  # fmt: skip

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
r_of, within, here = fits["r"], fits["r within domains"], fits["FVU"]
by_line = pd.DataFrame({m: of["with a line"] for m, of in constants.items()})
worth = by_line.loc["circuit"] / by_line.loc["uniform average"]
again = board.loc["FVU with a line"] / board.loc["FVU of a uniform average with a line"]
mini_pages = contest["mini"]["one page"]
patterns = every.loc["one page, patterns"]
closes = (every.loc["one page"] - patterns) / (every.loc["one page"] - every.loc["exact values"])  # fmt: skip
activation = [controls[m]["readings"]["activation"]["circuit"]["r"][0] for m in ("mini", *REAL)]
in_two = costs.loc[["values", "denominators"]].sum()
own_left = values.loc["own"].sort_values()
worse = [v[1] > 0 for m in five for v in constants[m]["circuits"]["more than the least"].values()]
cb.facts(
    "evaluation",
    model=MODEL.rpartition("/")[2],
    neuron=f"{followed}",
    **{f"r_{k}": cb.fact(blanks.loc[f"r within domains{of}", MODEL]) for k, of in (("blank_within", ""), ("blank_even", ", uniform average"))},
    within=cb.fact(within["circuit"]),
    within_even=cb.fact(within["uniform average"]),
    ranks=r_of["circuit"] > cb.ALMOST_EXACTLY,
    fvu=cb.fact(here["circuit"], ".0%"),
    r_blank=cb.fact(blanks.loc["r", MODEL], ".3f"),
    blank_passes=(blanks > board[[*NAMES]])[MODEL][["r", "r of a uniform average", "r within domains", "FVU"]].all(),
    blank_real=[m for m in REAL if blanks.loc["r within domains", m] >= board.loc["r within domains", m]] == [m for m in REAL if blanks.loc["FVU", m] <= board.loc["FVU", m]] == ["smollm2"],
    loses_to_domain=[m for m in NAMES if board.loc["FVU", m] > board.loc["FVU of the domain's mean", m]] == [MODEL, "smollm2"],
    own_most=cb.fact(own_left.iloc[-1], ".0%"),
    own_qwen=cb.fact(own_left.iloc[-2], ".0%"),
    equation_1=[*own_left.index[-2:]] == ["qwen", "smollm2"] and (own_left < values.loc["one page", own_left.index] / 5).all(),
    even_line=cb.fact(here["uniform average, line"], ".0%"),
    page_line=cb.fact(here["circuit, line"], ".0%"),
    line_is_order=all(abs(here[f"{k}, line"] / (1 - r_of[k] ** 2) - 1) < cb.ABOUT for k in ("circuit", "uniform average")),
    worth_more=all([m for m in NAMES if of.get(m, 1) < 0.8] == [MODEL, "qwen"] and of["smollm2"] > 1 for of in (worth, again)) and board.loc["r", "smollm2"] < board.loc["r of a uniform average", "smollm2"],
    which=all(worse) and [*values.iloc[:3].idxmin()] == ["half A, patterns", "centred", "centred", "half A, patterns"] and (values.loc["one page"] - board.loc["FVU"].reindex(values.columns)).abs().max() < 1e-3,
    own_not_enough=(values.loc["own"] < values.loc["its own"] / 2).all(),
    ahead_within=(board.loc["r within domains"] > board.loc["r within domains, uniform average"] + 0.05)[[*NAMES]].all(),
    least_qwen=cb.fact(least["qwen"], "words"),
    least_half_A=cb.fact(int((winners := contest["qwen"].idxmin(axis=1).value_counts())["half A, patterns"]), "words"),
    least_three=[m for m, k in least.items() if k < 20] == ["qwen"] and winners.idxmax() == "half A, patterns",
    **{f"any_{k}": cb.fact(any_page.loc["one page", "mini"].ends[i], ".0%") for i, k in enumerate(("low", "high"))},
    centred_ours=cb.fact(values.loc["centred", "smollm2"], ".0%"),
    centred_smol=cb.fact(any_page.loc["centred", "smollm2"].value, ".0%"),
    **{f"{k}_smol": cb.fact(board.loc[of, "smollm2"], ".0%") for k, of in (("domain", "FVU of the domain's mean"), ("even", "FVU of a uniform average with a line"))},
    own_all=cb.fact(max(law[m]["remedy"]["own"]["FVU of all"] for m in NAMES if m in law), ".0%"),
    qwen_denominators=cb.fact(costs.loc["denominators", "qwen"], ".0%"),
    smol_denominators=cb.fact(costs.loc["denominators", "smollm2"], ".0%"),
    denominators_first=all(costs[m].idxmax() == "denominators" and shares[m]["lead"].low > 0 and same_first[m] >= 19 for m in ("qwen", "smollm2")),
    values_first=all([*costs[m].nlargest(2).index] == ["values", "denominators"] for m in (MODEL, "minilm")) and kept_shares["mini"]["shares"]["lead"][1] < 0 < min(shares[m]["lead"].low for m in (MODEL, "minilm")) and max(same_first[m] for m in ("mini", "minilm")) < 19,
    minilm_two=cb.fact(in_two["minilm"], ".0%"),
    mini_two=cb.fact(in_two[MODEL], ".0%"),
    keys_small=all(of["keys"].high < 0.2 for of in shares.values()),
    qwen_most=cb.fact(of_pages["qwen"][:, 0].max(), ".0%"),
    qwen_pages=int((of_pages["qwen"][:, 0] > 0.2).sum()) == 2 and of_pages["qwen"][:, 0].max() < 0.23,
    keys_sign=-0.01 < shares["minilm"]["keys"].high < 0 < shares[MODEL]["keys"].low and all(shares[m]["keys"].low < 0 < shares[m]["keys"].high for m in ("qwen", "smollm2")),
    shape_all=cb.fact(shape.value, ".1f", holds=shape.low > 1),
    added_all=cb.fact(added_all.value, ".0%", holds=added_all.value < added.value < 1 < added.high),
    pages=len(passages),
    least_fvu=cb.fact(mini_pages.min(), ".0%"),
    most_fvu=cb.fact(mini_pages.max(), ".0%"),
    typical_mini=cb.fact(any_page.loc["one page", "mini"].value, ".0%"),
    own_page=(any_page.loc["one page", "mini"].value < here["circuit"]) and (contest["minilm"]["one page"] > values.loc["one page", "minilm"]).mean() > cb.MOST,
    qwen_post=cb.fact(activation[1], holds=max(*activation, r_post.value) < 0.94845),
    post_r=cb.fact(r_post.value, holds=r_post.high < 0.9485 and abs(activation[1]) < 0.05),
    as_said=closes[["mini", "minilm"]].min() >= 0.5 and [m for m in constants if constants[m]["ratio"][2] < 0.8] == ["smollm2"] and patterns["minilm"] <= 0.14265 < patterns["mini"],
)  # fmt: skip

# %% [markdown]
r"""
## Where this comes from

The protocol, the medians and the advice on calibration texts are from {cite:t}`gibson2025decomposing`; positional patterns for values and the expectation about the token at the destination are from the earlier post {cite}`gibson2025contextual`. The shares of the error, the rivals and the self-normalised circuit are this book's.
"""
