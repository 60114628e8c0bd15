# %% [markdown]
r"""
# What does the first layer see?

**The first layer of a language model sees only single tokens and their positions; its heads average over them, and that average can already give away what a text is about.** {{?gives_away}} Take a text of natural science and a text about anything else: in {{auc}} of such pairs, the average pushes a certain neuron higher on the text of science, and it does so nearly as often when the tokens of every text are shuffled. {{?order}} A uniform average ranks texts as well but gets the amounts wrong: it moves the neuron only half as much. {{?half}}

How can an average know what a text is about? Here are three texts that our model has never seen: a textbook of astronomy, a statute and a piece of Python. Each has the same length and ends with the same word, *the*. The table shows what attention adds to our neuron, number {{neuron}}, at that word, in the text as it is and with its tokens shuffled:
"""

# %% tags=["hide-cell", "setup"] mystnb={"code_prompt_show": "Install the package, in Colab"}
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "hide-cell"] mystnb={"code_prompt_show": "Run this page on another model"}
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 1000  # how many held-out texts are read
TOKEN = " the"  # the query token, at the end of every text
NEURON = 496  # the neuron that the first six chapters follow
DOMAINS = ("astronomy", "law", "python")  # the three texts

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Imports, the model and the texts"}
import numpy as np
import pandas as pd
import torch
from einops import einsum
from transformers import AutoModelForCausalLM

import ctxbook as cb
import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
heads = range(weights.n_heads)
study = cx.study(weights, TEXTS, TOKEN, heads)
influential = sorted(study.head_variance_share.nlargest(2).index)
fixed, n = study.fixed, study.n
neuron = min(NEURON, weights.n_neurons - 1)
seen, unseen = cb.halves(study.texts)  # to choose on, and to judge on


def shuffled(texts):
    """The same texts, what stands between BOS and the last token in a random order."""
    order = torch.from_numpy(cb.nulls.permuted(np.arange(1, n), len(texts)))
    return torch.cat([texts[:, :1], texts.gather(1, order), texts[:, n:]], 1)


def decoded(ids):
    return list(map(str, cx.texts.decode_tokens(weights, ids.tolist())))


# %% tags=["hide-input"]
three = [next((t for t in unseen if t.domain == d), unseen[0]) for d in DOMAINS]
texts = fixed.prepare(three)  # text source
both = torch.stack([texts, shuffled(texts)], 1).flatten(0, 1)  # each text, and then shuffled
on_three = fixed.exact_summary(both, heads)[:, neuron]
end_of_shuffled = decoded(both[1][-10:])
pd.DataFrame(
    {
        "its last words": ["".join(decoded(text[-9:])) for text in both],
        "added to the neuron": [cb.in_prose(float(v), "+.1f") for v in on_three],
    },
    index=[name for t in three for name in (t.domain, "shuffled")],
)

# %% [markdown]
r"""
The last word is the same, so what tells the texts apart must come from the words before it, and in a transformer only attention can bring that along. {{?differ}} Nobody could read the shuffled texts, and yet the neuron still tells them apart.

We begin with the first layer because all that its heads can know can be written down. We follow neuron {{neuron}} to [chapter 6](06_neurons), which shows how we found it. And we follow one word: *planets* stands in the text of astronomy twice, {{back_near}} tokens before the last word and {{back_far}} tokens before it. Which of the two adds more to the neuron, and how many times as much? Guess.

Our model, mini, is a GPT-2 {cite}`radford2019language` in pocket size: {{= 4 =}} layers of {{= 8 =}} heads and a residual stream of {{= 256 =}} numbers. We trained it for this book on textbooks, statutes, novels, recipes and code.

## An average by hand

Suppose, with made-up numbers, that a head can look at three tokens: BOS, which marks the beginning of every text, *moon*, and the **query token** *the*, from which it looks. The head shares out its attention as in the first line below. Each token also has a *value*, the number that it would pass on to our neuron.

{{= | | BOS | moon | the | sum |
|---|---|---|---|---|
| attention | 0.05 | 0.60 | 0.35 | 1 |
| value | 0 | 2 | −1 | |
| product | 0 | 1.20 | −0.35 | **0.85** | =}}

The head adds {{= 0.85 =}} to the neuron, an average of the values, weighted by attention. That is all a head ever does. One half of it, *query and key*, makes the first line; the other, *output and value*, makes the second. Neither depends on the other: *moon* has the value {{= 2 =}} however much attention it gets.

## What stands at a position

The model looks up two vectors for the token $x_i$ at position $i$, one in the table of token embeddings and one in the table of position embeddings. It adds them, so the two *planets* begin with the same first vector and differ in the second:

$$
r_i \;=\; W_E[x_i] + W_\text{pos}[i] .
$$ (eq-residual)

This sum is the beginning of the residual stream, from which every layer reads and to which it adds {cite}`elhage2021framework`.

Before a head reads $r_i$, **LayerNorm** changes it in four steps {cite}`ba2016layernorm`: it subtracts the mean of the entries, divides by their standard deviation, multiplies by a gain and adds a bias. Three of these steps can be done before there is any text:

- *The mean.* The mean of a sum is the sum of the means, so we subtract it from every row of both tables. They are now *centred*.
- *Gain and bias.* A matrix product follows, so we multiply both into the matrix. They are now *folded*.

Only the division is left. The mean is zero, so the standard deviation is $\lvert r \rvert / \sqrt{d_\text{model}}$, and LayerNorm is a change of length:

$$
\text{LN}(r) \;=\; \sqrt{d_\text{model}}\;\frac{r}{\lvert r \rvert} ,
$$ (eq-layernorm)

This puts every $r$ on one sphere. In code, where `x` are the token ids of the text of astronomy, `n` is the position of its last word, and a small $\epsilon$ keeps the divisor above zero:
"""

# %%
x = texts[0]  # token ids 0 ... n
r = weights.W_E[x] + weights.W_pos[: n + 1]  # source d_model
on_sphere = r / (r.square().mean(-1, keepdim=True) + weights.eps).sqrt()

# %% [markdown]
r"""
The factor $1 / \lvert r \rvert$ is the only place where a token and its position meet other than by addition, and it is the subject of [chapter 2](02_keys).

## Where a head looks: the QK circuit

A head makes a **query** from the query token, which stands at position $n$, and a **key** from every position $i \le n$ that it can look at, called a **source**. The products of query and keys, the **scores**, become attention:

$$
\begin{gathered}
q_n = \text{LN}(r_n)\,W_Q + b_Q, \\
\text{key}_i = \text{LN}(r_i)\,W_K + b_K, \\
a_{n,i} = \mathop{\text{softmax}}_{i \le n} \left( \frac{q_n \cdot \text{key}_i}{\sqrt{d_\text{head}}} \right).
\end{gathered}
$$ (eq-qk)

The numbers $a_{n,0}, \dots, a_{n,n}$ sum to one. We call them the attention row of the head, and $W_Q W_K^{\mathsf T}$ its QK circuit.
"""

# %%
q = einsum(on_sphere[n], weights.W_Q, "d, head d k -> head k") + weights.b_Q
key = einsum(on_sphere, weights.W_K, "i d, head d k -> head i k") + weights.b_K[:, None]
scores = einsum(q, key, "head k, head i k -> head i") / weights.d_head**0.5
row = scores.softmax(-1)  # head source

# %% [markdown]
r"""
Take head {{top}}. Its query, made from *the*, fits the key of the near *planets* much better than that of the far one, although the token is the same: the near one gets {{attention_near}} of the attention, and the far one {{attention_far}}. That is a lot for one word: on average over {{unseen}} texts, no head gives the last *ten* tokens together more than {{near}}. {{?broad}}

## What it passes on: the OV circuit

The values are as simple as the keys. Each is a linear function of what is at its position, and the head averages them:

$$
\begin{gathered}
v_i = \text{LN}(r_i)\, W_V + b_V, \\
\text{out}_h(n) = \sum_{i \le n} a_{n,i} \, v_i \, W_O .
\end{gathered}
$$ (eq-ov)

$W_V W_O$ is the OV circuit. The layer adds up its heads, and adds the sum to the stream. The neurons of the MLP read the stream through a LayerNorm of their own, folded like the first, so it divides the stream by one number $s$. If $w$ are the input weights of our neuron, the token at position $i$ therefore adds $a_{n,i}\, v_i\, W_O\, w / s$ to it, summed over heads. This is attention times value, as by hand:
"""

# %%
value = einsum(on_sphere, weights.W_V, "i d, head d k -> head i k") + weights.b_V[:, None]
out = einsum(row, value, weights.W_O, "head i, head i k, head k d -> head d")
layer = out.sum(0) + weights.b_O

w = weights.W_in[:, neuron]  # d_model
s = ((r[n] + layer).square().mean() + weights.eps).sqrt()
of_neuron = einsum(value, weights.W_O, w, "head i k, head k d, d -> head i") / s
adds = row * of_neuron  # head source

# %% [markdown]
r"""
So, of *planets*:

| *planets* | near | far |
|---|---|---|
| attention of head {{top}} | {{attention_near}} | {{attention_far}} |
| value in head {{top}} | {{value_near}} | {{value_far}} |
| product: what head {{top}} adds | {{product_near}} | {{product_far}} |
| what all heads add | **{{adds_near}}** | **{{adds_far}}** |

So the near one adds {{ratio}} times as much as the far one. The values are nearly the same, because the word is. {{?same_value}} What differs is the attention: head {{top}} gives the near one {{times}} times as much. (The other heads add little, but beside the far one's {{product_far}} that counts, hence only {{ratio}} times over all heads.) {{?attention_decides}} Here is the whole text:
"""

# %% tags=["hide-input"]
cb.figures.shaded_text(
    decoded(x[1:]),
    adds.sum(0)[1:].clamp(-0.1, 0.1),
    f"<b>Figure 1.1.</b> What each token of “{three[0].subject}” adds to neuron {neuron} at the last word, through all heads. Blue tokens raise the neuron, orange ones lower it. The shade is full from 0.1 on, so that far tokens show; the largest amount is {adds.sum(0).abs().max():.2f}.",
)

# %% [markdown]
r"""
*Science* and *chemical* raise the neuron, while *market* and *ideas* lower it. {{?helpers}} A few near words supply most of the sum: of {{total}} in all, the last *planets* and the last *solar* add {{two_words}}. {{?two_words_lead}} In the shuffled text neither is near the end; there, many far words together add as much. {{?far_do_it}}

Some heads matter more than others. If head $h$ adds $u_{h,j}$ to neuron $j$ on a text, its **variance share** is

$$
\text{share}_h = \frac{\sum_j \operatorname{Var}(u_{h,j})}{\sum_{h'} \sum_j \operatorname{Var}(u_{h',j})} ,
$$ (eq-variance-share)

with variances over texts. (Covariances between heads are left out.) Heads {{influential}} have nearly all of it, {{influential_share}}. {{?two_heads}} From here on, averages over heads are weighted by variance share.

## How much does the average give away?

We split our texts into two halves that share no document. On one half we look for the three domains where the neuron is highest: of {{all_domains}} these are astronomy, physics and chemistry, and biology and medicine, which we call the natural sciences. {{?sciences}} We judge on the {{unseen}} texts of the other half.
"""

# %% tags=["hide-input"]
judged = fixed.prepare(unseen)  # text source
rows = fixed.exact.rows(judged)  # text head source: `row`, of every text
domain_seen, domain = (np.array([text.domain for text in half]) for half in (seen, unseen))
chosen_on = fixed.exact_summary(fixed.prepare(seen), heads)[:, neuron].numpy()
highest = pd.Series(chosen_on).groupby(domain_seen).mean().nlargest(3).index.tolist()
science = np.isin(domain, highest)

both = (fixed.exact_summary(texts, heads).numpy() for texts in (judged, shuffled(judged)))
as_is, as_shuffled = (of[:, neuron] for of in both)
by_domain = pd.Series(as_is).groupby(domain).mean().sort_values()
at = by_domain.index.get_indexer(domain)  # the line of a text
figure, ((axis,),) = cb.figures.panels(height=4.6, width=7.5)
for some, color in ((science, cb.figures.COLORS[0]), (~science, cb.figures.COLORS[7])):
    axis.plot(as_is[some], at[some], ".", ms=5, alpha=0.6, color=color)
axis.plot(by_domain, range(len(by_domain)), "|", ms=13, mew=2, color=cb.figures.INK)
axis.set_yticks(range(len(by_domain)), by_domain.index)
axis.set(xlabel=f"what the heads add to neuron {neuron} at the last word")
cb.figures.picture(
    figure,
    "1.2",
    f"A dot is a text, a stroke the mean of its domain; blue are the natural sciences. {len(unseen)} unseen texts, all ending in ' the'.",
    f"Rows of dots, a domain each. Means from {by_domain.iloc[0]:.2f} ({by_domain.index[0]}) to {by_domain.iloc[-1]:.2f} ({by_domain.index[-1]}); the highest three: {', '.join(by_domain.index[-3:])}.",
)

# %% [markdown]
r"""
A text of the natural sciences is above a text of another domain in {{auc}} of all pairs. {{?gives_away}} What does the average need for this? We take things away, one after another:
"""

# %% tags=["hide-input"]
# what the OV circuits make of a vector, for the neuron
ov = einsum(weights.W_V, weights.W_O, w, "head d k, head k e, e -> head d") / s
bias = einsum(weights.b_V, weights.W_O, w, "head k, head k e, e -> head") / s
values = einsum(fixed.exact.normalized_resid(judged), ov, "text i d, head d -> text head i")
values = values + bias[:, None]
embedding = weights.W_E[judged]  # text source d
words = (embedding / embedding.norm(dim=-1, keepdim=True)).mean(1)
added = {
    "the heads as they are": as_is,
    "every text shuffled": as_shuffled,
    "without the last ten tokens": (rows * values)[..., :-10].sum((1, 2)),
    "attention made uniform": values.mean(-1).sum(1),
    "mean word, through OV": einsum(words, ov, "text d, head d -> text"),
    "mean word, without heads": words @ w,
}
of = pd.DataFrame({name: np.asarray(amounts) for name, amounts in added.items()})
auc = pd.Series(cx.neurons.auc(of.to_numpy(), science), of.columns)
fit = of.corr().iloc[0] ** 2  # after the best rescaling
figure, axes = cb.figures.panels(1, 2, height=2.4, width=6, sharey=True)
bars = pd.DataFrame({"pairs in order": auc, "variance explained": fit})[::-1].plot.barh(
    ax=axes[0], subplots=True, legend=False, width=0.8, grid=False, xlim=(0, 1.3), xticks=()
)
for axis in bars:
    axis.bar_label(axis.containers[0], fmt="{:.0%}", padding=3)
bars[0].axvline(0.5, color=cb.figures.INK, lw=1, ls=":")
cb.figures.picture(
    figure,
    "1.3",
    "What the average needs. Left: pairs of a text of science and another text that are in the right order; dotted, what chance gives. Right: how much of the heads’ effect on the neuron is explained, after the best rescaling. The mean word is the average of a text’s token embeddings.",
    "Bars. " + "; ".join(f"{name}: {auc[name]:.0%} and {fit[name]:.0%}" for name in added),
)

# %% [markdown]
r"""
To tell science from the rest, the heads need neither grammar nor order. {{?order}} Nor do they need the last words. {{?far_suffices}} They do not even need attention or positions, for a plain mean of the embeddings ranks the texts just as well. {{?words_suffice}} But this mean has to go through the OV circuits, which turn words of science into the direction that the neuron reads. {{?values}} To these heads, then, a text is nearly a bag of words: each word has a value of its own, and attention decides how heavily it counts.

So it still matters where a head looks. Uniform attention moves the neuron only half as far, around another mean: as it stands it leaves {{left}} of the neuron's variance unexplained, and {{rescaled}} after the best rescaling. {{?half}}

## What can go wrong

**The neuron is not about planets alone,** though we call it the neuron of planets. Astronomy is above other texts in {{auc_astronomy}} of pairs, less than the three sciences together. {{?not_alone}} Nor does it merely recognise English: among English texts alone, {{auc_english}} of pairs are in order. {{?in_english}}

**Not every first layer averages.** Three heads of GPT-2 small look only at the last few tokens and join pieces of words {cite}`gibson2025contextual`. In Qwen, the heads that the method fits contribute only {{qwen_share}} of the variance ([chapter 8](08_real_model)).

**The equations are those of one kind of model.** They hold where a learned position is added to each token. Rotary positions never enter the stream ([chapter 13](13_families)), and in later layers the stream also holds what earlier layers wrote ([chapter 14](14_depth)).

## Where this leaves us

The two *planets* have nearly the same value, and how much each adds is decided by the attention that it gets. {{?same_value}} So to predict the amounts, we have to predict attention. A score depends on a token *and* on its position, and if the two could be pulled apart, we could put each into a table. They are added, so this should be easy. Why isn't it? [Chapter 2](02_keys) finds out.
"""

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* Take away the positions. What happens to the attention on the last ten tokens, and to the pairs in order? Write down two guesses, then open the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Without positions"}
from dataclasses import replace

blind = cx.fix_query(replace(weights, W_pos=0 * weights.W_pos), n=n, token=TOKEN)
blind_rows = blind.exact.rows(judged)[..., -10:].sum(-1).mean(0)  # head
blind_auc = cx.neurons.auc(blind.exact_summary(judged, heads)[:, [neuron]].numpy(), science)
print(f"pairs in order: {blind_auc[0]:.0%}. Attention on the last ten tokens:")
pd.DataFrame({"attention": blind_rows}).map("{:.0%}".format).rename_axis("head").T

# %% [markdown]
r"""
2. *By hand.* Make attention uniform in the table of *moon*. What does the head add then? And what if *moon* stands there twice, with half of its attention each time?
3. *Show.* The keys' bias $b_K$ has no influence on the row in {eq}`eq-qk`. Has $b_Q$?

```{admonition} Solutions
:class: dropdown

1. A row then depends on tokens alone, so the last ten get {{blind_least}} to {{blind_most}}, about what uniform attention gives them. {{Blind_auc}} of the pairs stay in order, since the words are still there.
2. A third of each value is $(0 + 2 - 1) / 3 = 0.33$, the same sign but less than half of {{= 0.85 =}}. Two moons with $0.30$ each add $0.30 \times 2$ twice, which is what one did.
3. $b_K$ adds $q_n \cdot b_K / \sqrt{d_\text{head}}$ to every score of the row, and the softmax divides it out again. $b_Q$ adds $b_Q \cdot \text{key}_i / \sqrt{d_\text{head}}$, which depends on $i$, so it stays.
```

## Evidence

The card of `mini`, `ctxlib/data/mini/README.md`, has its recipe and the sources of its text.

**The numbers in the text**, as they were computed, with the conditions that its words rest on. Drawing the unseen documents again gives the {{auc}} of pairs in order a {{= 95% =}} interval from {{auc_low}} to {{auc_high}}.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
spelled, total = decoded(x), adds.sum(0)  # source
far, *_, near = [i for i, token in enumerate(spelled) if token == " planets"] * 2 or (n, n)
top, leading = influential[0], total.abs().topk(2).indices.tolist()
steps = {"attention": row[top], "value": of_neuron[top], "product": adds[top], "adds": total}
thread = {f"{k}_{at}": v[i] for k, v in steps.items() for at, i in (("near", near), ("far", far))}
words = " science", " chemical", " market", " ideas"  # two that raise the neuron, two that lower it
raises = [total[spelled.index(word)] > 0 if word in spelled else None for word in words]
uniform = of["attention made uniform"]
left = ((uniform - as_is) ** 2).mean() / as_is.var()
english = np.array([text.dialect.startswith("en") for text in unseen])
auc_english = float(cx.neurons.auc(as_is[english, None], science[english])[0])
sure = cb.with_interval(lambda i: cx.neurons.auc(as_is[i, None], science[i])[0], unseen)
astronomy = float(cx.neurons.auc(as_is[:, None], domain == "astronomy")[0])
nearest = rows[..., -10:].sum(-1).mean(0)  # head: attention to the last ten tokens
most = np.ceil(100 * float(nearest.max())) / 100  # "no more than" bears no rounding down
share = study.head_variance_share[influential].sum()
ranked, *others, bare = auc  # shuffled, without the last ten, uniform, the mean word through OV
percents = {"auc": ranked, "auc_low": sure.low, "auc_high": sure.high, "auc_astronomy": astronomy}
percents |= {"auc_english": auc_english, "left": left, "near": most, "rescaled": 1 - fit.iloc[3]}
percents |= {"influential_share": share, "blind_auc": blind_auc[0]}
percents |= {"blind_least": blind_rows.min(), "blind_most": blind_rows.max()}
with torch.inference_mode():
    _, cache = model.run_with_cache(x[None], stop_at_layer=1, device="cpu")
output = float((layer - cache["blocks.0.hook_attn_out"][0, n]).abs().max())
errors = {
    "residual stream": (r - cache["blocks.0.hook_resid_pre"][0]).abs().max(),
    "attention rows": (row - cache["blocks.0.attn.hook_pattern"][0, :, n]).abs().max(),
    "what tokens add to the neuron": (adds.sum() - fixed.exact_summary(x, heads)[neuron]).abs(),
}
cb.facts(
    "first_layer",
    neuron=neuron,
    unseen=len(unseen),
    all_domains=len(set(domain)),
    influential=cb.listed(influential),
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    top=top,
    back_near=n - near,
    back_far=n - far,
    **{
        k: cb.fact(v, {"attention": ".1%", "value": ".2f"}.get(k.split("_")[0], ".3f"))
        for k, v in thread.items()
    },
    ratio=cb.fact(thread["adds_near"] / thread["adds_far"], ".0f"),
    times=cb.fact(thread["attention_near"] / thread["attention_far"], ".0f"),
    total=cb.fact(total.sum(), ".2f"),
    two_words=cb.fact(total[leading].sum(), ".2f"),
    qwen_share=cb.on_real("their share")["Qwen"].item(),
    agrees=max(output, *map(float, errors.values())) < 1e-4,
    gives_away=ranked > cb.NEARLY_ALL,
    same_value=abs(thread["value_far"] / thread["value_near"] - 1) < cb.ABOUT,
    attention_decides=thread["product_near"] > cb.NEARLY_ALL * thread["adds_near"],
    sciences=set(highest) == {"astronomy", "physics-chemistry", "biology-medicine"},
    far_do_it=float(on_three[1]) > 0.9 * float(on_three[0])
    and not {" planets", " solar"} & {*end_of_shuffled},
    order=abs(ranked - others[0]) < 0.05,
    far_suffices=abs(ranked - others[1]) < 0.01,
    words_suffice=abs(ranked - others[3]) < 0.05,
    values=bare < (ranked + 0.5) / 2,
    not_alone=astronomy < ranked,
    half=abs(2 * uniform.std() / as_is.std(ddof=1) - 1) < cb.ABOUT
    and left > 2 * (1 - fit["attention made uniform"]),
    in_english=auc_english > cb.NEARLY_ALL,
    differ=on_three[:2].min() > 0 > on_three[2:].max(),
    broad=most < 0.5,
    two_words_lead=[spelled[i] for i in leading] == [" planets", " solar"]
    and min(leading) > n - 10
    and total[leading].sum() > cb.MOST * total.sum(),
    helpers=raises == [True, True, False, False],
    two_heads=share > cb.NEARLY_ALL,
)

# %% [markdown]
r"""
**Do the equations say what the model does?** Residual stream, attention rows and the output of the layer, computed from the weights, agree with TransformerLens' hooks to within {{= 0.0001 =}}. {{?agrees}}

**The ledger.** These three lines are algebra, and no run could decide them otherwise. The first compares rows with those of the checkpoint as it is stored, with nothing folded.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Published claims, judged"}
exactly = {"dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True}
with cx.models.quiet():
    stored = AutoModelForCausalLM.from_pretrained(cx.models.locate(MODEL), **exactly)
with torch.inference_mode():
    stored_rows = stored(texts, output_attentions=True).attentions[0][:, :, n]  # text head source
folded = torch.stack([cx.attention_rows(weights, text, n) for text in texts])
shortest = float(cx.layer_norm(r, weights.eps).norm(dim=-1).min() / weights.d_model**0.5)
cb.ledger(
    model,
    cb.Claim(
        "folding_is_algebra",
        "folded rows minus the stored model's, largest difference",
        float((folded - stored_rows).abs().max()),
        digits=4,
    ),
    cb.Claim(
        "heads_add",
        "heads plus bias minus the layer's output, largest difference",
        output,
        digits=4,
    ),
    cb.Claim("layernorm_length", "length after LayerNorm over sqrt(d_model), smallest", shortest),
)

# %% [markdown]
r"""
## Where this comes from

The picture of a residual stream with QK and OV circuits is that of {cite:t}`elhage2021framework`; the model has the architecture of GPT-2 {cite}`radford2019language` and is read with TransformerLens {cite}`nanda2022transformerlens`. That first-layer heads fall into kinds, and that the broad ones carry context, is the observation of {cite:t}`gibson2025contextual` from which this book sets out. Neuron {{neuron}} and what drives it are this book's.
"""
