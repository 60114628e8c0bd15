# %% [markdown]
r"""
# How much of its attention does a head give to the first token?

**A small part, but far more than to any other single token.** At position {{n}} no head gives the first token more than {{most}} of its attention. {{?small}} Averaged over the second half of a text, the head that favours it most still gives it {{largest}} times what uniform attention would, and the one that favours it least {{least}} times. {{?larger}}

Every text that the model reads begins with the same token, BOS. A head's attention must sum to one, so what it does not spend on words that matter has to go somewhere. Is this where it goes?
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
DOMAINS = ["travel", "law", "python"]  # the passages that are read

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Imports, the model and its texts"}
import einops
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

model = cx.load(MODEL)
weights = cx.LayerWeights.of(model, layer=0)
passages = cx.texts.passages(weights, domains=DOMAINS)
LENGTH = min(len(p.tokens) for p in passages)
n = LENGTH // 2
print(f"{weights.n_heads} heads; {len(passages)} passages; the query is at position {n}")

# %% [markdown]
r"""
## The share of one token

BOS is at position 0, so a head with its query at position $n$ gives it the first entry of its attention row,

$$
a_{n,0} \;=\; \frac{\exp(q_n \cdot \text{key}_0 / \sqrt{d_\text{head}})}{\sum_{i \le n} \exp(q_n \cdot \text{key}_i / \sqrt{d_\text{head}})} .
$$ (eq-slug-share)

Uniform attention would give it $1 / (n + 1)$. Suppose that BOS scores $2$ and each of $9$ other tokens $0$. Then it gets $e^2 / (e^2 + 9) = 0.45$, more than four times the uniform tenth. In code, for every head and passage:
"""

# %%
tokens = torch.stack([p.tokens[: n + 1] for p in passages])  # text source
q = torch.stack([weights.queries(x)[:, n] for x in tokens])  # text head d_head
key = torch.stack([weights.keys(x) for x in tokens])  # text head source d_head

score = einops.einsum(q, key, "text head d_head, text head source d_head -> text head source")
share = (score / weights.attn_scale).softmax(-1)[..., 0]  # text head

# %% tags=["hide-input"]
mean, low, high = share.mean(0), share.amin(0), share.amax(0)  # head
heads, uniform = range(weights.n_heads), 1 / (n + 1)
figure, ((axis,),) = cb.figures.panels(height=2.8, width=6.5)
axis.bar(heads, mean)
axis.vlines(heads, low, high, color=cb.figures.INK, lw=1)
axis.axhline(uniform, color=cb.figures.INK, lw=1, ls=":")
axis.set(xlabel="head", ylabel="share of the first token", xticks=heads)
cb.figures.picture(
    figure,
    "NN.1",
    f"What each head gives to the first token from position {n}: the mean over {len(passages)} passages (bar) and their range (line). Dotted: uniform attention.",
    "A bar for each head. Mean share: "
    + ", ".join(f"head {h} {mean[h]:.2%}" for h in heads)
    + f". Uniform attention would give {uniform:.2%}.",
)

# %% [markdown]
r"""
The line on a bar is the range over passages, so it shows how much the share depends on the text. In no head does the mean reach an eighth. {{?small}}

## Along the text

This was one position. Now we move the query along the text. In Jupyter or Colab (the rocket above) you can choose another head, and see how its share falls:
"""

# %%
along = torch.stack(
    [cx.decompose.attention_pattern(weights, p.tokens[:LENGTH])[..., 0] for p in passages]
).mean(0)  # head dest
times_uniform = (along * torch.arange(1, LENGTH + 1))[:, n:].mean(1)  # head


# %% tags=["hide-input"]
def draw(head):
    """The first token's share from every position, and that of uniform attention."""
    curve, places = along[int(head), 1:], torch.arange(1, LENGTH)
    figure, ((axis,),) = cb.figures.panels(height=2.8, width=6.5)
    axis.plot(places, curve)
    axis.plot(places, 1 / (places + 1), color=cb.figures.INK, lw=1, ls=":")
    axis.annotate(f"head {head}", (1, curve[0]), (4, 4), textcoords="offset points", color="C0")
    axis.annotate("uniform", (1, 1 / 2), (4, -12), textcoords="offset points")
    axis.set(xscale="log", yscale="log", xlabel="position n", ylabel="share of the first token")
    return cb.figures.picture(
        figure,
        "NN.2",
        f"Head {head}: mean share of the first token over {len(passages)} passages, by the position of the query. Dotted: uniform attention.",
        f"A curve along the text, from {curve[0]:.1%} at position 1 to {curve[-1]:.1%} at position {LENGTH - 1}, where uniform attention would give {1 / LENGTH:.1%}.",
    )


cv.Turnable(draw, head=cv.choice("head", [str(h) for h in heads], str(int(times_uniform.argmax()))))

# %% [markdown]
r"""
## What can go wrong

A share is no effect. What a head takes from BOS is the same vector in all texts, so by itself it tells the layers behind nothing about a text. And a mean over positions hides how far the share swings from token to token: the query $q_n$ in {eq}`eq-slug-share` changes, and so does the competition.

## Where this leaves us

The first token takes a small part of a row, though a large one for a single token. What it does to the softmax denominator of a head is told in [chapter 4](04_denominators).

## Exercises

1. *Predict, then run.* Will the share be larger or smaller at twice the position? Set `n = LENGTH - 1` in the first cell and look at Figure NN.1 again.
2. *Fill in.* Write the share of the first token from the scores of a row, with the softmax spelled out. The cell below compares.
3. *Show it.* A head gives BOS the score $s$ and every other source the score $0$. From which $n$ on is $a_{n,0}$ below one half?
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

1. Smaller, because more tokens compete. As a multiple of uniform attention it hardly changes.
2. `row[0].exp() / row.exp().sum()`.
3. $a_{n,0} = e^s / (e^s + n)$, which is below one half from $n > e^s$ on.
```

## Evidence

**Our shares against the model's**, which we read off its own hook.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Are these the model's own shares?"}
_, cache = model.run_with_cache(tokens, names_filter="blocks.0.attn.hook_pattern")
true_share = cache["blocks.0.attn.hook_pattern"][:, :, n, 0].cpu()
print(f"same as the model's: {torch.allclose(share, true_share, rtol=1e-2)}")

# %% [markdown]
r"""
**Head by head**: from how many positions the first token gets more than half of the attention, and how many times what uniform attention would give it, in the second half of the texts.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The share along the text, head by head"}
more_than_half = (along[:, 1:] > 0.5).sum(1)  # head
table = {
    "positions with more than half": more_than_half.tolist(),
    "times uniform": [f"{times:.1f}" for times in times_uniform.tolist()],
}
pd.DataFrame(table).rename_axis("head")

# %% [markdown]
r"""
**The ledger**: published claims, judged on this model.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The ledger"}
cb.ledger(
    model,
    cb.Claim(
        "inflated",
        "positions from which the first token gets more than a tenth, middle head",
        float((along[:, 1:] > 0.1).sum(1).float().quantile(0.5)),
        digits=0,
    ),
)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
cb.facts(
    "slug",
    n=n,
    most=cb.fact(mean.max(), ".1%"),
    small=mean.max() < 1 / 8,
    largest=cb.fact(times_uniform.max(), ".0f"),
    least=cb.fact(times_uniform.min(), ".1f"),
    larger=times_uniform.max() > 10 > 2 > times_uniform.min() > 1,
)

# %% [markdown]
r"""
## Where this comes from

Attention is that of {cite:t}`vaswani2017attention`; that the first token weighs on the first positions of a text is reported by {cite:t}`gibson2025contextual`. The hooks are those of {cite:t}`nanda2022transformerlens`.
"""
