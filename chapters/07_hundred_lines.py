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
# The whole method in a hundred lines

**Everything so far fits into a hundred lines of plain PyTorch, and they give the same numbers as the package.** {{?agrees}} They read a checkpoint and one page of prose, name {{found}} neurons that respond to context, and predict what {{texts}} unseen texts add to them with a median correlation of {{r}}.

Six chapters have taken an attention head apart. If we had to rebuild the method from memory, on another machine, with nothing but a checkpoint, what would we write? This page is that program. It has no classes and no hidden state, and the method in it uses neither `ctxlib` nor TransformerLens: the package only finds the files, and turns texts into token ids and back. Change it, run it on GPT-2: `MODEL = "gpt2"` is the only word that differs.
"""

# %% tags=["hide-cell", "setup"]
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
study = cx.study(model, TEXTS, TOKEN, or_all=True)
as_ids = study.fixed.prepare  # ids of texts up to position n, with the query token there
pages, half_A, half_B = map(as_ids, (study.prose, *cb.halves(study.texts)))
checkpoint = {file.name: file for file in model.receipt.files}

# %% [markdown]
r"""
The folded cells above find the checkpoint's files and turn texts into token ids. `pages` are the pages of plain prose, and `half_A` and `half_B` are two halves of a collection of texts that share no document. Each has a row of ids per text, with the query token at the last position, $n$.

## Read the weights

We read the tensors of the first layer, and fold each LayerNorm's gain and bias into the weights behind it, as in [chapter 1](01_first_layer). What is left of LayerNorm is a division by a scale.
"""

# %%
import json

import torch
from einops import einsum, rearrange
from safetensors.torch import load_file

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
W_in, b_in = fold("ln_2", "mlp.c_fc")

# %% [markdown]
r"""
## Split the scores into position and content

With the query fixed, a head scores every source along one direction of the residual stream. Equation 1 of [chapter 2](02_keys) splits what lies along it into a part that depends on the position and a part that depends on the token, and [chapter 3](03_kernels) turns these into the two factors of an attention row.
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

# %% [markdown]
r"""
## Find the stable heads

A head is stable if its kernel covers many tokens and its denominator hardly varies between texts ([chapter 4](04_denominators)). The thresholds are the book's conventions. We look at half A only, because half B will be the judge.
"""

# %%
BROAD, MAX_CV = 40, 0.3


def denominators(x):
    return einsum(pos, content[:, x], "head source, head text source -> text head")


effective_tokens = 1 / pos.square().sum(-1)  # head
denoms = denominators(half_A)
heads = ((effective_tokens > BROAD) & (denoms.std(0) / denoms.mean(0) < MAX_CV)).nonzero()[:, 0]
assert len(heads), "no head of this checkpoint is stable"

# %% [markdown]
r"""
## Calibrate on one page

We take the page of prose whose denominators are most typical, and measure two things on it: the denominators, and the scale of the second LayerNorm. For the scale we need what the heads write in truth, so we also write down the exact layer. We will use it once more, as the judge.
"""


# %%
def exact_outputs(x):  # text source -> text head d
    resid = LN(W_E[x] + W_pos[: n + 1])
    rows = (resid @ direction.T).softmax(1)  # text source head
    mixed = einsum(rows, resid, "text source head, text source d -> text head d")
    z = einsum(mixed, W_V, "text head d, head d k -> text head k") + b_V
    return einsum(z, W_O, "text head k, head k d -> text head d")


def mlp_scale(outputs):
    return scale(W_E[the] + W_pos[n] + b_O + outputs.sum(1))


logs = denominators(pages)[:, heads].log()
page = pages[(logs - logs.mean(0)).abs().mean(1).argmin()][None]
denom, s = denominators(page)[0, heads], mlp_scale(exact_outputs(page))

# %% [markdown]
r"""
## One number per token and neuron

Now nothing depends on a text any more, so we multiply it all out, as in [chapter 5](05_circuit): content over denominator, times the value, through $W_O$ into the neurons. All heads share the median kernel.
"""

# %%
kernel = pos[heads].quantile(0.5, dim=0)
kernel = kernel / kernel.sum()
values = einsum(token_at_n, W_V[heads], "t d, head d k -> head t k") + b_V[heads][:, None]
weighted = (content[heads] / denom[:, None])[..., None] * values
ext = einsum(weighted, W_O[heads], "head t k, head k d -> t d")
contribution = ext @ W_in / s  # vocab neuron

# %% [markdown]
r"""
## Find the neurons

A neuron is context-sensitive if some tokens move it much farther than others do ([chapter 6](06_neurons)). We compare the mean of its largest contributions with the mean over the vocabulary, and keep the neurons that lie two robust standard deviations above the median neuron. We leave out tokens that training never showed. Some bytes cannot occur in UTF-8 text, so their embeddings were never trained; a token whose embedding lies among theirs was not trained either.
"""

# %%
vocab = json.loads(checkpoint["tokenizer.json"].read_text())["model"]["vocab"]
never = torch.tensor([vocab[chr(byte)] for byte in (0xC0, 0xC1, *range(0xF5, 0x100))])
unit = W_E[never] / W_E[never].norm(dim=-1, keepdim=True)
own = torch.cosine_similarity(unit, unit.sum(0) - unit, dim=-1)
like_them = torch.cosine_similarity(W_E, unit.sum(0), dim=-1)
trained = like_them < own.min().clamp(min=0.5)
trained[never] = False
trained[max(vocab.values()) + 1 :] = False  # rows that pad the table

largest = contribution[trained].topk(20, dim=0)
top = largest.values.mean(0) - contribution[trained].mean(0)
far = top - top.quantile(0.5)
found = (far / (1.4826 * far.abs().quantile(0.5)) > 2).nonzero()[:, 0]
found = found[top[found].argsort(descending=True)]

# %% [markdown]
r"""
## Compare with the model

The circuit's prediction for a text is a mean of contributions, weighted by the kernel. The truth is what the same heads add to the neuron when the layer runs.
"""

# %%
approx = torch.stack([kernel @ contribution[x][:, found] for x in half_B])  # text neuron
outputs = exact_outputs(half_B)
truth = outputs[:, heads].sum(1) @ W_in[:, found] / mlp_scale(outputs)

a, t = approx - approx.mean(0), truth - truth.mean(0)
r = (a * t).sum(0) / (a.square().sum(0) * t.square().sum(0)).sqrt()
FVU = (approx - truth).square().sum(0) / t.square().sum(0)

# %% tags=["nbval-check-output"]
strongest = trained.nonzero()[:, 0][largest.indices[:6, found]].T.tolist()
tokens = [" ".join(model.tokenizer.decode([t]).strip() for t in row) for row in strongest]
numbers = {"top": top[found], "r": r, "FVU": FVU}
columns = {name: of.double().numpy() for name, of in numbers.items()} | {"tokens": tokens}
table = pd.DataFrame(columns, index=pd.Index(found.tolist(), name="neuron"))
table.head(10).round({"top": 1, "r": 3, "FVU": 2})

# %% tags=["hide-input"]
shown = 496 if 496 in table.index else int(table.index[0])
there, guessed = (of[:, table.index.get_loc(shown)].numpy() for of in (truth, approx))
kinds = [text.domain for text in cb.halves(study.texts)[1]]
label = cx.label_neurons(torch.from_numpy(there)[:, None], kinds, [shown])["label"].iloc[0]
inside = pd.Series(kinds).eq(label).to_numpy()
figure, ((axis,),) = cb.figures.panels(height=3.4, width=5.2)
blue, orange, *_ = cb.figures.COLORS
for of, color in ((~inside, "0.65"), (inside, blue)):
    axis.scatter(there[of], guessed[of], s=9, color=color)
ends = there.min(), there.max()
axis.plot(ends, ends, color=orange, lw=1.2)
last = (guessed * inside).argmax()
spot = {"textcoords": "offset points", "ha": "right", "fontsize": 9}
axis.annotate("equal", (ends[1], ends[1]), xytext=(4, -16), color=orange, **spot)
axis.annotate(label, (there[last], guessed[last]), xytext=(-10, -1), color=blue, **spot)
axis.set(xlabel="what the heads add, in the model", ylabel="predicted from the tables")
cb.figures.picture(
    figure,
    "7.1",
    f"Neuron {shown} on the texts of half B, one dot a text. The dots rise together, so prediction and truth agree but for the scale; they leave the line, so the amounts are wrong.",
    f"A cloud of {len(kinds)} dots along a rising curve; those labelled {label} lie at its upper end.",
)

# %% tags=["hide-cell", "nbval-check-output"]
fixed, own_heads = study.fixed, heads.tolist()
circuit = cx.ContextualCircuit.calibrate(fixed, page[0], own_heads)
theirs = cx.find_neurons(circuit)
judged = cx.evaluate(circuit, half_B, theirs.index)
of_entries = float((circuit.contribution - contribution).abs().max() / contribution.abs().max())
apart = {a: (judged[a] - table[b]).abs() for a, b in (("r", "r"), ("fvu", "FVU"))}
of_r, of_FVU = apart["r"].max(), (apart["fvu"] / table["FVU"].clip(lower=1)).max()
same = {*theirs.index} == {*table.index}
low_r, middle_FVU = table["r"].quantile(0.1), table["FVU"].median()
cb.facts(
    "hundred_lines",
    agrees=cb.fact(holds=same and max(of_entries, of_r, of_FVU) < 1e-4),
    found=len(table),
    texts=len(half_B),
    r=cb.fact(table["r"].median(), holds=table["r"].median() > cb.ALMOST_EXACTLY),
    fvu=cb.fact(middle_FVU, ".0%", holds=middle_FVU > 0.3),
    low_r=cb.fact(low_r, holds=low_r > 0.9),
    first=cb.fact(int(table.index[0])),
    ranks=cb.fact(holds=table["r"].iloc[0] > cb.ALMOST_EXACTLY and table["FVU"].iloc[0] > 0.3),
)

# %% [markdown]
r"""
Take neuron {{first}}. Its tokens were read off the weights; its correlation and its FVU were measured on texts that the method had not seen. The prediction rises and falls almost exactly with the truth, and it gets the amounts wrong. {{?ranks}} The same is true of the others. Nine in ten of the neurons have a correlation above {{low_r}}, while in the median neuron {{fvu}} of the variance stays unexplained. {{?low_r}} {{?fvu}} Most of this error is one wrong length per head, as Exercise 1 shows; [chapter 11](11_evaluation) takes the rest apart.

## What the program leaves out

The package does the same arithmetic; what it adds is care. It reads other architectures, among them models with rotary positions, where Equation 1 has no positions to split. It checks that the layer it has read computes what the model computes, and it refuses a file that it would read wrongly. It streams a million texts through constant memory. None of this changes the idea, which is all on this page.

## Exercises

1. *Predict, then run.* Take the denominators from each text instead of from the page. Will the median FVU rise or fall, and what happens to the correlation? Write down a guess, then open the cell.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What do the text's own denominators do?"}
def own_denominators(x):  # one text: source -> neuron
    content_of_text = content[heads][:, x] / denominators(x[None])[0, heads, None]
    in_heads = einsum(pos[heads] * content_of_text, values[:, x], "h i, h i k -> h k")
    return einsum(in_heads, W_O[heads], "h k, h k d -> d") @ W_in[:, found] / s[0]


own_approx = torch.stack([own_denominators(x) for x in half_B])
a = own_approx - own_approx.mean(0)
r_own = (a * t).sum(0) / (a.square().sum(0) * t.square().sum(0)).sqrt()
FVU_own = (own_approx - truth).square().sum(0) / t.square().sum(0)
medians = {"r": [r.median(), r_own.median()], "FVU": [FVU.median(), FVU_own.median()]}
pd.DataFrame(medians, index=["page", "own"]).astype(float).round(3)

# %% [markdown]
r"""
2. *Fill in.* In one line, from `kernel` and `contribution`: what does the circuit predict for all neurons on the first text of half B?
"""

# %%
mine = ...  # one number a neuron

# %% tags=["hide-input", "nbval-check-output"]
if mine is ...:
    print("not yet")
else:
    print("right" if torch.allclose(mine[found], approx[0], atol=1e-4) else "not this")

# %% [markdown]
r"""
3. *Explain.* The program throws the keys' bias away: it is the `_` between `b_Q` and `b_V`. Why does no attention row change?

```{admonition} Solutions
:class: dropdown

1. The FVU falls a great deal, since most of the error was one wrong length per head, and the correlation rises a little.
2. `mine = kernel @ contribution[half_B[0]]`
3. It adds the same number, $q_n \cdot b_K / \sqrt{d_\text{head}}$, to every score of a row, and the softmax divides it out again.
```

## Evidence

The first cell compares the program with the package entry by entry; the numbers above rest on it. The second gives the same table for every neuron that was found.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "How far is the program from the package?"}
checks = {
    "contributions, relative to the largest": of_entries < 1e-4,
    "correlations": of_r < 1e-4,
    "fractions of variance unexplained": of_FVU < 1e-4,
    "the neurons": same,
}
pd.Series(checks, name="equal to a ten-thousandth").map({True: "yes", False: "no"}).to_frame()

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "All neurons that were found"}
table.drop(columns="tokens").round({"top": 1, "r": 3, "FVU": 2})

# %% [markdown]
r"""
## Where this comes from

The method is that of {cite:t}`gibson2025decomposing`, in the order in which chapters 1 to 6 explain it. The rule for tokens that were never trained, the most typical page and the two robust standard deviations are this book's choices.
"""
