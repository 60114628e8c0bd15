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
# How much of its attention does a head give to the first token?

**A small part, though a larger one than an even share.** At position {{n}} no head gives the first token more than {{most}} of its attention. {{?small}} But the head that favours it most gives it {{largest}} even shares, and the one that favours it least {{least}}. {{?larger}}
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
DOMAINS = ["travel", "law", "python"]  # the passages that are read

# %% tags=["hide-input", "nbval-check-output"]
import einops
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model, layer=0)
passages = cx.texts.passages(weights, domains=DOMAINS)
LENGTH = min(len(p.tokens) for p in passages)
n = LENGTH // 2
print(f"{weights.n_heads} heads; {len(passages)} passages; destination n = {n}")

# %% [markdown]
r"""
## A share of a row

Every text starts with BOS, at position 0. A head at destination $n$ gives it the first entry of its attention row,

$$
a_{n,0} \;=\; \frac{\exp(q_n \cdot \text{key}_0 / \sqrt{d_\text{head}})}{\sum_{i \le n} \exp(q_n \cdot \text{key}_i / \sqrt{d_\text{head}})} ,
$$ (eq-slug-share)

and would give it $1 / (n + 1)$, an **even share**, if all $n + 1$ sources counted the same. A row sums to one, so a head that finds nothing to attend to must leave its weight somewhere, and every text begins with the same token. In code, for every head and passage:
"""

# %%
tokens = torch.stack([p.tokens[: n + 1] for p in passages])  # text source
q = torch.stack([weights.queries(x)[:, n] for x in tokens])  # text head d_head
key = torch.stack([weights.keys(x) for x in tokens])  # text head source d_head

score = einops.einsum(q, key, "text head d_head, text head source d_head -> text head source")
share = (score / weights.attn_scale).softmax(-1)[..., 0]  # text head
even = 1 / (n + 1)

# %% tags=["nbval-check-output"]
_, cache = model.run_with_cache(tokens, names_filter="blocks.0.attn.hook_pattern")
true_share = cache["blocks.0.attn.hook_pattern"][:, :, n, 0].cpu()  # off the model's own hook
print(f"same as the model's: {torch.allclose(share, true_share, rtol=1e-2)}")

# %% tags=["hide-input"]
mean, low, high = share.mean(0), share.amin(0), share.amax(0)  # head
heads = range(weights.n_heads)
figure, ((axis,),) = cb.figures.panels(height=2.8, width=6.5)
axis.bar(heads, mean)
axis.vlines(heads, low, high, color=cb.figures.INK, lw=1)
axis.axhline(even, color=cb.figures.INK, lw=1, ls=":")
axis.set(xlabel="head", ylabel="share of the first token", xticks=heads)
cb.figures.picture(
    figure,
    "NN.1",
    f"What each head gives to the first token at position {n}: mean over {len(passages)} passages (bar) and their range (line). Dotted, an even share.",
    "A bar for each head. Mean share: "
    + ", ".join(f"head {h} {mean[h]:.2%}" for h in heads)
    + f". An even share is {even:.2%}.",
)

# %% [markdown]
r"""
At position {{n}} the first token takes less than an eighth of every head's attention: {{most}} at most. {{?small}} The line on a bar is the range over passages, so it shows how much depends on the text.

## Along the text

One row is the answer to one question, asked by the token that happens to stand at $n$. So take all destinations in turn, each against its own even share, and average over those in the second half of the text:
"""

# %%
along = torch.stack(
    [cx.decompose.attention_pattern(weights, p.tokens[:LENGTH])[..., 0] for p in passages]
).mean(0)  # head dest
more_than_half = (along[:, 1:] > 0.5).sum(1)  # head: at how many destinations after the first
even_shares = (along * torch.arange(1, LENGTH + 1))[:, n:].mean(1)  # head

# %% tags=["nbval-check-output"]
table = {
    "more than half at": [f"{d} destinations" for d in more_than_half.tolist()],
    "even shares, second half": [f"{e:.1f}" for e in even_shares.tolist()],
}
pd.DataFrame(table).rename_axis("head")

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
cb.facts(
    "slug",
    n=n,
    most=cb.fact(mean.max(), ".1%"),
    small=mean.max() < 1 / 8,
    largest=cb.fact(even_shares.max(), ".0f"),
    least=cb.fact(even_shares.min(), ".1f"),
    larger=even_shares.max() > 10 > 2 > even_shares.min() > 1,
)

# %% [markdown]
r"""
In the second half of the texts, the head that favours the first token most gives it {{largest}} even shares, and the one that favours it least {{least}}. {{?larger}}

## What breaks it

- **A share is no effect.** What a head takes from BOS is a constant of the model, the same in all texts; only how much of it is taken differs.
- **A mean over destinations hides them.** The share swings from token to token, as the figure below shows: it is the question that changes, $q_n$ in {eq}`eq-slug-share`, and the competition.

In Jupyter or Colab (the rocket above) the head can be chosen: see how its share falls along the text.
"""


# %% tags=["hide-input"]
def draw(head):
    """The first token's share at every destination, and an even one."""
    curve, places = along[int(head), 1:], torch.arange(1, LENGTH)
    figure, ((axis,),) = cb.figures.panels(height=2.8, width=6.5)
    axis.plot(places, curve, label=f"head {head}")
    axis.plot(places, 1 / (places + 1), color=cb.figures.INK, lw=1, ls=":", label="even")
    axis.set(xscale="log", yscale="log", xlabel="position n", ylabel="share of the first token")
    axis.legend()
    return cb.figures.picture(
        figure,
        "NN.2",
        f"Head {head}: mean share of the first token over {len(passages)} passages, by destination.",
        f"A curve along the text, from {curve[0]:.1%} at position 1 to {curve[-1]:.1%} at position {LENGTH - 1}, where an even share is {1 / LENGTH:.1%}.",
    )


cv.Turnable(draw, head=cv.choice("head", [str(h) for h in heads], str(int(even_shares.argmax()))))

# %% [markdown]
"""
## Claims

The numbers in the third column were computed above, in this run.
"""

# %% tags=["hide-input", "nbval-check-output"]
cb.ledger(
    model,
    cb.Claim(
        "inflated",
        "destinations at which the first token gets more than a tenth, middle head",
        float((along[:, 1:] > 0.1).sum(1).float().quantile(0.5)),
        digits=0,
    ),
)

# %% [markdown]
r"""
## What you may now assume

- Behind the first few tokens the first one takes a small part of a row, though a large one for a single token: see Figure NN.1 and the table.
- How large differs by head more than by text; Figure NN.1 has the range.
- It says nothing of what the head does with it.

## Exercises

1. *Predict, then run.* Will the share be larger or smaller at twice the position? Set `n = LENGTH - 1` in the first cell and look at Figure NN.1 again.
2. *Fill in.* Write the share of the first token from the scores of a row, with the softmax spelled out. The cell below compares.
3. *Break this.* Find a passage of `DOMAINS` at which a head gives the first token no more than an even share at position $n$. What stands there?
4. *Show it.* A head gives BOS the score $s$ and every other source the score $0$. From which $n$ on is $a_{n,0}$ below one half?
"""


# %%
def first_share(row):
    """The share of the first source of one row of scores: your attempt."""
    return ...


# %% tags=["hide-input", "nbval-check-output"]
answer = first_share(score[0, 0] / weights.attn_scale)
right = isinstance(answer, torch.Tensor) and torch.allclose(answer, share[0, 0])
print("right" if right else "not yet")

# %% [markdown]
r"""
```{admonition} Solutions
:class: dropdown

1. Smaller: the competition grows with $n$. In even shares it hardly changes.
2. `row[0].exp() / row.exp().sum()`.
3. Look at `share.argmin(0)`: which passage is it, for each head?
4. $a_{n,0} = e^s / (e^s + n)$, which is below one half from $n > e^s$ on.
```

## Where this comes from

Attention is that of {cite:t}`vaswani2017attention`; that the first token weighs on the first positions of a text is reported by {cite:t}`gibson2025contextual` and treated in [chapter 4](04_denominators). The hooks are those of {cite:t}`nanda2022transformerlens`.
"""
