# %% [markdown]
r"""
# The whole method in a hundred lines

**The whole method fits into a hundred lines of plain PyTorch, and they give the same numbers as the package.** {{?agrees}} The program reads a checkpoint, chooses heads on half of a collection of texts, calibrates on one page of prose, and lists the neurons that single tokens can move farthest. What it predicts for unseen texts has a median correlation of {{r}} with the model. The amounts are wrong, with {{fvu}} of the variance unexplained, until each neuron gets a slope and an offset, fitted on other texts. {{?fvu}} {{?mended}}

Six chapters have taken an attention head apart. If we had to rebuild the method from memory, on another machine, with nothing but a checkpoint and some texts, what would we write? This page is that program. It has no classes and no hidden state, and the method in it uses neither `ctxlib` nor TransformerLens: the package only finds the files, and turns texts into token ids and back. It takes seven steps, each under its heading, with the equations that it needs. Change it, run it on GPT-2: `MODEL = "gpt2"` is the only word that differs. (We have run it on files of GPT-2's shape, but not on GPT-2: its weights could not be reached from where this book is made.)
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the page on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a folder with a checkpoint of GPT-2's kind, or "gpt2" from the hub
TOKEN = " the"  # the query token
TEXTS = 1000  # how many texts of the collection are read

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "How the texts become token ids"}
import pandas as pd

import ctxbook as cb
import ctxlib as cx

model = cx.load(MODEL, layers=1)  # for its tokenizer, and to compare with at the end
weights = cx.LayerWeights.of(model)  # refused where positions are not added, as GPT-2's are
study = cx.study(weights, TEXTS, TOKEN, or_all=True)
as_ids = study.fixed.prepare  # ids of texts up to position n, with the query token there
pages, half_A, half_B = map(as_ids, (study.prose, *cb.halves(study.texts)))
checkpoint = {file.name: file for file in model.receipt.files}
planets = model.tokenizer.encode(" planets", add_special_tokens=False)[-1]

# %% [markdown]
r"""
The folded cells above find the checkpoint's files and turn texts into token ids. `pages` are the pages of plain prose, and `half_A` and `half_B` are two halves of a collection of texts that share no document. Each has a row of ids per text, with the query token at the last position, $n$. `planets` is the id of that token, which we follow through the program.

## Read the weights

We read the tensors of the first layer, and fold each LayerNorm's gain and bias into the weights that follow, as in [chapter 1](01_first_layer). What is left of LayerNorm, $\text{LN}$ in {eq}`eq-layernorm`, is a division by a scale.
"""

# %%
import json

import torch
from einops import einsum, rearrange
from safetensors.torch import load_file

torch.set_printoptions(precision=2, sci_mode=False)

config = json.loads(checkpoint["config.json"].read_text())
tensors = load_file(checkpoint["model.safetensors"])
state = {name.removeprefix("transformer."): t.float() for name, t in tensors.items()}
n_heads, d_model, eps = config["n_head"], config["n_embd"], config["layer_norm_epsilon"]


def center(W):
    return W - W.mean(-1, keepdim=True)


def scale(v):
    return (v.square().mean(-1, keepdim=True) + eps).sqrt()


def LN(v):
    return v / scale(v)


def fold(norm, layer):
    gain, bias = state[f"h.0.{norm}.weight"], state[f"h.0.{norm}.bias"]
    W, b = state[f"h.0.{layer}.weight"], state[f"h.0.{layer}.bias"]
    return gain[:, None] * W, bias @ W + b


W_E, W_pos = center(state["wte.weight"]), center(state["wpe.weight"])
W_QKV, b_QKV = fold("ln_1", "attn.c_attn")
W_Q, W_K, W_V = rearrange(W_QKV, "d (qkv head k) -> qkv head d k", qkv=3, head=n_heads)
b_Q, _, b_V = rearrange(b_QKV, "(qkv head k) -> qkv head k", qkv=3, head=n_heads)
W_O = rearrange(center(state["h.0.attn.c_proj.weight"]), "(head k) d -> head k d", head=n_heads)
b_O = center(state["h.0.attn.c_proj.bias"])
W_in, _ = fold("ln_2", "mlp.c_fc")  # the bias is the same for every text

n_heads, W_E.shape, W_K.shape, W_in.shape

# %% [markdown]
r"""
## Split the scores into position and content

With the query fixed, a head's score {eq}`eq-qk` is a dot product of the source with one vector, in which the query and the key weights are already multiplied. The code calls it `direction`; it saves us the keys. Equation 1 of [chapter 2](02_keys), {eq}`eq-split`, splits the dot product into a part for the position and a part for the token. Exponentiated, as in [chapter 3](03_kernels), they become the kernel `pos` {eq}`eq-kernel-pos` and the `content` {eq}`eq-kernel-content`; a token's attention is their product, divided by a denominator. The last line shows how many times as much each head looks for *planets* as for BOS.
"""

# %%
n, the = pages.shape[1] - 1, pages[0, -1]
q = einsum(LN(W_E[the] + W_pos[n]), W_Q, "d, head d k -> head k") + b_Q
direction = einsum(q, W_K, "head k, head d k -> head d") / W_K.shape[-1] ** 0.5

C = W_E.norm(dim=-1).median()  # the typical length of a token
length = (W_pos[: n + 1].square().sum(-1, keepdim=True) + C**2).sqrt()
shift = d_model**0.5 * (W_pos[: n + 1] - W_pos[n]) / length
pos = (direction @ shift.T).softmax(-1)  # head source

token_at_n = LN(W_E + W_pos[n])  # vocab d
content = (direction @ token_at_n.T).exp()  # head vocab

content[:, planets] / content[:, pages[0, 0]]

# %% [markdown]
r"""
## Find the stable heads

A stable head has a kernel that covers many effective tokens {eq}`eq-kernel-effective`, and its denominator, the sum over the text of `pos` times `content` {eq}`eq-denom`, varies by less than {{= 30% =}} between texts ([chapter 4](04_denominators)). The thresholds are the book's conventions. We look at half A only, because half B will be the judge. In `mini` all eight heads are stable. {{?all_stable}}
"""

# %%
BROAD, MAX_CV = 40, 0.3


def denominators(x):
    return einsum(pos, content[:, x], "head source, head text source -> text head")


effective_tokens = 1 / pos.square().sum(-1)  # head
denoms = denominators(half_A)
heads = ((effective_tokens > BROAD) & (denoms.std(0) / denoms.mean(0) < MAX_CV)).nonzero()[:, 0]
assert len(heads), "no head of this checkpoint is stable"
heads.tolist()

# %% [markdown]
r"""
## Calibrate on one page

Of our pages of prose we take the one whose denominators are nearest to the average page of prose. We measure two things on it: the denominators, and the scale of the second LayerNorm. For the scale we need what the heads write in truth, so we also write down the exact layer. We will use it once more, as the judge. The last line divides the page's denominators by the means over half A. Where the ratio is below one, the circuit will write too much.
"""


# %%
def exact_outputs(x):  # text source -> text head d
    resid = LN(W_E[x] + W_pos[: n + 1])
    rows = (resid @ direction.T).softmax(1)  # text source head
    mixed = einsum(rows, resid, "text source head, text source d -> text head d")
    averages = einsum(mixed, W_V, "text head d, head d k -> text head k") + b_V
    return einsum(averages, W_O, "text head k, head k d -> text head d")


def mlp_scale(outputs):
    return scale(W_E[the] + W_pos[n] + b_O + outputs.sum(1))


logs = denominators(pages)[:, heads].log()
page = pages[(logs - logs.mean(0)).abs().mean(1).argmin()][None]
denom, s = denominators(page)[0, heads], mlp_scale(exact_outputs(page))

denom / denoms[:, heads].mean(0)

# %% [markdown]
r"""
## One number per token and neuron

Now nothing depends on a text any more, so we multiply it all out, as in [chapter 5](05_circuit): content over denominator, times the value, through $W_O$ into the neurons ({eq}`eq-cir-ext` and {eq}`eq-cir-contribution`). All heads share the median kernel {eq}`eq-cir-kernel`. Which neurons does *planets* raise most?
"""

# %%
kernel = pos[heads].quantile(0.5, dim=0)
kernel = kernel / kernel.sum()
values = einsum(token_at_n, W_V[heads], "t d, head d k -> head t k") + b_V[heads][:, None]
weighted = (content[heads] / denom[:, None])[..., None] * values
ext = einsum(weighted, W_O[heads], "head t k, head k d -> t d")
contribution = ext @ W_in / s  # vocab neuron

contribution[planets].topk(5)

# %% [markdown]
r"""
## Find the neurons

For each neuron, we compare the mean of its largest contributions with the mean over the vocabulary {eq}`eq-neu-top`, and keep the neurons that lie two robust standard deviations above the median neuron {eq}`eq-neu-z`. [Chapter 6](06_neurons) found that random mixtures of neurons pass as well, so the list is a place to start reading, and no evidence that its neurons are units. (`trained`, in the folded cell, leaves glitch tokens out, as chapter 6 does: those that training hardly ever showed to the model.)
"""

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Which tokens were never trained?"}
# No checkpoint says so, but bytes that UTF-8 forbids never occur, and what training left alone
# lies close together: we leave out whatever is as close to these bytes as the farthest of them.
vocab = json.loads(checkpoint["tokenizer.json"].read_text())["model"]["vocab"]
never = torch.tensor([vocab[chr(byte)] for byte in (0xC0, 0xC1, *range(0xF5, 0x100))])
unit = W_E[never] / W_E[never].norm(dim=-1, keepdim=True)
own = torch.cosine_similarity(unit, unit.sum(0) - unit, dim=-1)
like_them = torch.cosine_similarity(W_E, unit.sum(0), dim=-1)
trained = like_them < own.min().clamp(min=0.5)
trained[never] = False
trained[max(vocab.values()) + 1 :] = False  # rows that pad the table

# %%
largest = contribution[trained].topk(20, dim=0)
top = largest.values.mean(0) - contribution[trained].mean(0)
far = top - top.quantile(0.5)
found = (far / (1.4826 * far.abs().quantile(0.5)) > 2).nonzero()[:, 0]
found = found[top[found].argsort(descending=True)]

len(found), found[:5].tolist()

# %% [markdown]
r"""
## Compare with the model

The circuit's prediction for a text is the summary {eq}`eq-cir-summary`, a mean of contributions weighted by the kernel. The truth is what the same heads add to the neuron when the layer runs. We compare them on the {{texts}} texts of half B, by their correlation and by the fraction of variance unexplained (FVU), which is zero for a perfect prediction and one for a constant that hits the mean.
"""


# %%
def predict(x):  # text source -> text neuron
    return torch.stack([kernel @ contribution[text][:, found] for text in x])


def added(x):  # by the model's heads
    outputs = exact_outputs(x)
    return outputs[:, heads].sum(1) @ W_in[:, found] / mlp_scale(outputs)


def r_and_FVU(approx, truth):
    a, t = approx - approx.mean(0), truth - truth.mean(0)
    r = (a * t).sum(0) / (a.square().sum(0) * t.square().sum(0)).sqrt()
    return r, (approx - truth).square().sum(0) / t.square().sum(0)


approx, truth = predict(half_B), added(half_B)  # text neuron
r, FVU = r_and_FVU(approx, truth)

# %% tags=["nbval-check-output"]
strongest = trained.nonzero()[:, 0][largest.indices[:6, found]].T.tolist()
tokens = [" ".join(model.tokenizer.decode([t]).strip() for t in row) for row in strongest]
numbers = {"top": top[found], "r": r, "FVU": FVU}
columns = {name: of.double().numpy() for name, of in numbers.items()} | {"tokens": tokens}
table = pd.DataFrame(columns, index=pd.Index(found.tolist(), name="neuron"))
table.head().round({"top": 1, "r": 3, "FVU": 2})

# %% tags=["hide-input"]
figure, ((axis,),) = cb.figures.panels(height=3.0, width=5.6)
axis.plot(table["r"], table["FVU"], ".", ms=6, alpha=0.6)
for k, neuron in enumerate(table.index[:3]):
    at, away = (table["r"][neuron], table["FVU"][neuron]), (0.84, 0.9 - 0.1 * k)
    line = {"arrowstyle": "-", "lw": 0.7, "color": "C1"}
    axis.annotate(str(neuron), at, away, textcoords="axes fraction", color="C1", arrowprops=line)
    axis.plot(*at, "o", ms=6, color="C1")
axis.axhline(1, color=cb.figures.INK, lw=0.8, ls=":")
axis.set(xlabel="r", ylabel="FVU")
cb.figures.picture(
    figure,
    "7.1",
    f"A dot per neuron: the correlation of its prediction with the truth, and the share of variance that the prediction leaves unexplained. Above the dotted line a constant would do better. Named are the first {cb.in_prose(3, 'words')} of the table.",
    f"Scatter plot of {len(table)} neurons: r from {table['r'].min():.2f} to {table['r'].max():.2f}, FVU from {table['FVU'].min():.2f} to {table['FVU'].max():.2f}.",
)

# %% [markdown]
r"""
All predictions rise and fall with the truth: nine in ten of the neurons have a correlation above {{low_r}}. {{?low_r}} The amounts are another matter. In neuron {{first}}, which responds to bacteria and patients, almost nothing of the variance is explained, in neuron {{second}} most of it, and in {{useless}} of the {{found}} neurons the prediction does worse than a constant would. {{?amounts}} A high correlation does not guarantee right amounts: it ignores slope and offset, and there the error lies. (The median FVU is {{fvu}} here and {{circuit.fvu}} in [chapter 5](05_circuit), which took ten neurons more. {{?ten_more}})

## Mend the amounts

So we give each neuron a slope and an offset, the line that fits half A best:
"""

# %%
approx_A, truth_A = predict(half_A), added(half_A)
centred = approx_A - approx_A.mean(0)
slope = (centred * truth_A).sum(0) / centred.square().sum(0)
mended = slope * (approx - approx_A.mean(0)) + truth_A.mean(0)

# %% [markdown]
r"""
The median FVU falls to {{mended}}. {{?mended}} That of neuron {{first}} falls to {{first_mended}}. Here it is again, on six texts of half B:
"""

# %% tags=["nbval-check-output"]
three = {"predicted": approx, "with the line": mended, "added by the model": truth}
pd.DataFrame({name: of[:6, 0].double().numpy() for name, of in three.items()}).round(2)

# %% [markdown]
r"""
The line needs the truth for half A, so the model has to run. Exercise 1 repairs the denominators without it, and [chapter 11](11_evaluation) takes the rest apart.

## What the program leaves out

The package does the same arithmetic; what it adds is care. It reads other architectures, among them models with rotary positions, where Equation 1 has no positions to split. It checks that the layer it has read computes what the model computes, and it refuses a file that it would read wrongly. It streams a million texts through constant memory. None of this changes the idea, which is all on this page.

## Exercises

1. *Predict, then run.* Take the denominators from each text instead of from the page. How much of the median FVU will be left? And if each head also keeps its own kernel? Write down two guesses, then open the cell.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What do the text's own denominators do?"}
def repaired(x, kernels):  # one text, kernels head source: neuron
    by_head = content[heads][:, x] / denominators(x[None])[0, heads, None]
    in_heads = einsum(kernels * by_head, values[:, x], "h i, h i k -> h k")
    return einsum(in_heads, W_O[heads], "h k, h k d -> d") @ W_in[:, found] / s[0]


shared = kernel.expand(len(heads), -1)
rows = {
    "the circuit": approx,
    "own denominators": torch.stack([repaired(x, shared) for x in half_B]),
    "own denominators and kernels": torch.stack([repaired(x, pos[heads]) for x in half_B]),
}
fits = {name: [float(v.median()) for v in r_and_FVU(of, truth)] for name, of in rows.items()}
medians = pd.DataFrame(fits, index=["r", "FVU"]).T
medians.round(3)

# %% [markdown]
r"""
2. *Fill in* the offset of [chapter 5](05_circuit): what positions other than $n$ would add to the values. In keys, the position is `shift @ W_K`; in values it is `shift @ W_V`. By how much does the median FVU fall?
"""

# %%
offset = ...  # one number a neuron, from kernel, shift, W_V, W_O, W_in and s

# %% tags=["hide-input", "nbval-check-output"]
if offset is ...:
    print("not yet")
else:
    print(f"the median FVU is {r_and_FVU(approx + offset[found], truth)[1].median():.0%}")

# %% [markdown]
r"""
3. *Port it.* In a model of Llama's kind a norm does not subtract the mean and has no bias (RMSNorm). Which functions of the first cell change, and why can the rest of that cell stay? What does not carry over at all?

```{admonition} Solutions
:class: dropdown

1. With its own denominators, a text leaves {{own_denominators}} of the variance unexplained, and with the heads' own kernels as well {{own_kernels}}. {{?each_helps}} What is left then comes from the values, and a line per neuron would remove nearly all of it, since the correlation is {{own_r}}. {{?own_r}}
2. `offset = einsum(kernel @ shift, W_V[heads], W_O[heads], W_in, "d, head d k, head k m, m j -> j") / s[0]`. The median FVU falls to {{with_offset}}. {{?with_offset}}
3. `center` returns `W` as it is, and `fold` has no bias to pass on; `scale` is the root of the mean square already. Equation 1 does not carry over, because such models rotate queries and keys in place of adding `W_pos`. [Chapter 13](13_families) splits their scores in another way.
```

## Evidence

The cell compares the program with the package. That they agree means: both find the same neurons, and contributions (relative to the largest), correlations and FVU are equal to a ten-thousandth.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
fixed, own_heads = study.fixed, heads.tolist()
circuit = cx.ContextualCircuit.calibrate(fixed, page[0], own_heads)
theirs = cx.find_neurons(circuit)
judged = cx.evaluate(circuit, half_B, theirs.index)
of_entries = float((circuit.contribution - contribution).abs().max() / contribution.abs().max())
of_r = (judged["r"] - table["r"]).abs().max()
of_FVU = ((judged["fvu"] - table["FVU"]).abs() / table["FVU"].clip(lower=1)).max()
same = {*theirs.index} == {*table.index}
low_r, middle_FVU = table["r"].quantile(0.1), table["FVU"].median()
of_mended = r_and_FVU(mended, truth)[1]  # FVU, neuron
fvu_mended = float(of_mended.median())
of_values = einsum(kernel @ shift, W_V[heads], W_O[heads], W_in, "d, h d k, h k m, m j -> j") / s[0]
fvu_offset = float(r_and_FVU(approx + of_values[found], truth)[1].median())
cb.facts(
    "hundred_lines",
    agrees=cb.fact(holds=same and max(of_entries, of_r, of_FVU) < 1e-4),
    found=len(table),
    texts=len(half_B),
    r=cb.fact(table["r"].median(), holds=table["r"].median() > cb.ALMOST_EXACTLY),
    fvu=cb.fact(middle_FVU, ".0%", holds=middle_FVU > 0.3),
    low_r=cb.fact(low_r, holds=low_r > 0.9),
    mended=cb.fact(fvu_mended, ".0%", holds=fvu_mended < cb.ABOUT),
    with_offset=cb.fact(fvu_offset, ".0%", holds=fvu_offset < 0.6 * middle_FVU),
    all_stable=len(heads) == n_heads,
    ten_more=len(table) == 90,
    useless=int((table["FVU"] > 1).sum()),
    own_denominators=cb.fact(medians["FVU"].iloc[1], ".0%"),
    own_kernels=cb.fact(medians["FVU"].iloc[2], ".0%"),
    each_helps=medians["FVU"].is_monotonic_decreasing,
    own_r=cb.fact(medians["r"].iloc[2], ".3f", holds=medians["r"].iloc[2] > 0.99),
    first=str(table.index[0]),
    first_mended=cb.fact(of_mended[0], ".0%"),
    second=str(table.index[1]),
    amounts=table["FVU"].iloc[0] > cb.NEARLY_ALL and table["FVU"].iloc[1] < 1 - cb.MOST,
)

# %% [markdown]
r"""
## Where this comes from

The method is that of {cite:t}`gibson2025decomposing`, in the order in which chapters 1 to 6 explain it. The rule for tokens that were never trained, the choice among pages of prose and the two robust standard deviations are this book's choices.
"""
