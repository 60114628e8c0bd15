# %% [markdown]
r"""
# What does the first layer see?

**The first layer of a language model sees only single tokens and their positions; its heads average over them, and that average already gives away what a text is about.** {{?gives_away}} Take a text of natural science and a text about anything else: in {{auc}} of such pairs, the average pushes a certain neuron higher on the text of science, and it does so nearly as often when the tokens of every text are shuffled. {{?order}} A uniform average ranks texts as well but gets the amounts wrong: it moves the neuron only half as much. {{?half}}

How can an average know what a text is about? Here are three texts that our model has never seen: a textbook of astronomy, a statute and a piece of Python. Each is cut after the same number of tokens and ends with the same word, *the*. The table shows what attention adds to our neuron, number {{neuron}}, at that word, and what it adds when the tokens before are shuffled:
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
pages = fixed.prepare(three)  # text source
both = torch.stack([pages, shuffled(pages)], 1).flatten(0, 1)  # each text, and then shuffled
on_three = fixed.exact_summary(both, heads)[:, neuron]
end_of_shuffled = decoded(both[1][-10:])
pd.DataFrame(
    {
        "ends": ["".join(decoded(text[-9:])) for text in both],
        "adds": [cb.in_prose(float(v), "+.1f") for v in on_three],
    },
    index=[name for t in three for name in (t.domain, "shuffled")],
)

# %% [markdown]
r"""
The last word is the same, so what tells the texts apart must come from the words before it, and in a transformer only attention can bring that along. {{?differ}} Nobody could read the shuffled pages, and yet the neuron still tells them apart. What do the heads need, then?

We begin with the first layer because everything that its heads can know can be written down. Neuron {{neuron}} will stay with us until [chapter 6](06_neurons), which tells how to find it: it is the {{neurons.place}} of all neurons by how far single tokens can push it.

Our model, mini, is a GPT-2 {cite}`radford2019language` in pocket size: {{= 4 =}} layers of {{= 8 =}} heads and a residual stream of {{= 256 =}} numbers. We trained it for this book on textbooks, statutes, novels, recipes and code. Of four ways of training, we kept the one with the lowest loss.

## An average by hand

Suppose, with made-up numbers, that a head can look at three tokens: BOS, which marks the beginning of every text, *moon*, and *the*, from which it looks. This last token is called the **query token**. The head shares out its attention as in the first line below. Each token also has a *value*, the number that it would pass on to our neuron.

{{= | | BOS | moon | the | sum |
|---|---|---|---|---|
| attention | 0.05 | 0.60 | 0.35 | 1 |
| value | 0 | 2 | −1 | |
| product | 0 | 1.20 | −0.35 | **0.85** | =}}

The head adds {{= 0.85 =}} to the neuron, an average of the values, weighted by attention. That is all a head ever does. One half of it, *query and key*, makes the first line; the other, *output and value*, makes the second. Neither depends on the other: *moon* has the value {{= 2 =}} however much attention it gets.

## What stands at a position

The model looks up two vectors for the token $x_i$ at position $i$, one in the table of token embeddings and one in the table of position embeddings. It adds them:

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

This puts every $r$ on one sphere. In code, a small $\epsilon$ keeps the divisor above zero:
"""

# %%
x = fixed.prepare([study.example])[0]  # the text of astronomy: token ids 0 ... n
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

The numbers $a_{n,0}, \dots, a_{n,n}$ are positive and sum to one. We call them the attention row of the head, and $W_Q W_K^{\mathsf T}$ its QK circuit. For all heads at once:
"""

# %%
q = einsum(on_sphere[n], weights.W_Q, "d, head d k -> head k") + weights.b_Q
key = einsum(on_sphere, weights.W_K, "i d, head d k -> head i k") + weights.b_K[:, None]
scores = einsum(q, key, "head k, head i k -> head i") / weights.d_head**0.5
row = scores.softmax(-1)  # head source

# %% [markdown]
r"""
How far back do these rows reach? Below, a curve that is steep on the right is a head that looks at its neighbours, and a straight one looks everywhere alike.
"""

# %% tags=["hide-input"]
influential = sorted(study.head_variance_share.nlargest(2).index)
passage = next((k for k, p in enumerate(study.passages) if p.domain == DOMAINS[0]), 0)
attention = cx.attention_rows(weights, study.passages[passage].tokens, n)
within = pd.DataFrame(attention.flip(-1).cumsum(-1).T.numpy()).add_prefix("head ")
figure, ((axis,),) = cb.figures.panels(height=2.8, width=7.5)
within.plot(ax=axis, lw=0.8, xlabel="tokens back, n − i", ylabel="attention within")
for h in influential:
    axis.lines[h].set_linewidth(2)
axis.plot([0, n], [1 / (n + 1), 1], ":", color=cb.figures.INK, lw=1)
axis.set(xlim=(n, 0), ylim=(0, 1))
axis.legend(fontsize=8, ncols=2)
cb.figures.picture(
    figure,
    "1.1",
    f"How much of its attention each head gives to the nearest tokens, in {study.passages[passage].name} from position {n}; the query token is at the right. Broad lines: the two heads that contribute most. Dotted: uniform attention.",
    f"Curves that rise to the left. Half of the attention lies within so many tokens: {cb.figures.by_head((within < 0.5).sum(), 'd')}.",
)

# %% [markdown]
r"""
On average over {{unseen}} texts, no head gives the last ten tokens more than {{near}} of its attention, where uniform attention would give them {{near_uniform}}. {{?broad}}

## What it passes on: the OV circuit

The values are as simple as the keys. Each is a linear function of what is at its position, and the head averages them:

$$
\begin{gathered}
v_i = \text{LN}(r_i)\, W_V + b_V, \\
\text{out}_h(n) = \sum_{i \le n} a_{n,i} \, v_i \, W_O .
\end{gathered}
$$ (eq-ov)

$W_V W_O$ is the OV circuit. The layer adds up its heads, and adds the sum to the stream. The neurons of the MLP read the stream through a LayerNorm of their own, folded like the first, so it divides the stream by one number $s$. If $w$ are the input weights of our neuron, the token at position $i$ therefore adds $a_{n,i}\, v_i\, W_O\, w / s$ to it, summed over heads.
"""

# %%
value = einsum(on_sphere, weights.W_V, "i d, head d k -> head i k") + weights.b_V[:, None]
out = einsum(row, value, weights.W_O, "head i, head i k, head k d -> head d")
layer = out.sum(0) + weights.b_O

w = weights.W_in[:, neuron]  # d_model
s = ((r[n] + layer).square().mean() + weights.eps).sqrt()
adds = einsum(row, value, weights.W_O, w, "head i, head i k, head k d, d -> i") / s

# %% tags=["hide-input"]
cb.figures.shaded_text(
    decoded(x[1:]),
    adds[1:].clamp(-0.1, 0.1),
    f"<b>Figure 1.2.</b> What each token of “{study.example.subject}” adds to neuron {neuron} at the last word, through all heads. Blue tokens raise the neuron, orange ones lower it. The shade is full from 0.1 on, so that far tokens show; the largest amount is {adds.abs().max():.2f}.",
)

# %% [markdown]
r"""
*Science* and *chemical* raise the neuron, while *market* and *ideas* lower it. {{?helpers}} In this text a few near words supply most of the sum: of {{total}} in all, the last *planets* and the last *solar*, both among the last ten tokens, add {{two_words}}. {{?two_words_lead}} The same *planets*, two hundred tokens earlier, adds only {{earlier_adds}}. {{?fades}} Always? Shuffled, this text has neither near its end, and many far words do together what the two did. {{?far_do_it}}

Which heads matter? Suppose that on two texts one head adds {{= 0 =}} and {{= 2 =}} to a neuron, and another {{= 0 =}} and {{= 1 =}}. The first varies twice as much, so it has four times the variance, and we say that four fifths of the variance are its share. In general, if head $h$ adds $a_{h,j}$ to neuron $j$, its **variance share** is

$$
\text{share}_h = \frac{\sum_j \operatorname{Var}(a_{h,j})}{\sum_{h'} \sum_j \operatorname{Var}(a_{h',j})} ,
$$ (eq-variance-share)

with variances over texts. (What heads add by rising together belongs to no single head and is left out.) Heads {{influential}} have nearly all of it, {{influential_share}}. {{?two_heads}} From here on, averages over heads are weighted by variance share.

## How much does the average give away?

We split our texts into two halves that share no document. On one half the neuron itself chooses: of {{all_domains}} domains it is highest, on average, in astronomy, in physics and chemistry, and in biology and medicine, the natural sciences. {{?sciences}} We judge on the {{unseen}} texts of the other half.
"""

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "What the heads add, to these texts and to the same shuffled"}
judged = fixed.prepare(unseen)  # text source
rows = fixed.exact.rows(judged)  # text head source: `row`, of every text
domain_seen, domain = (np.array([text.domain for text in half]) for half in (seen, unseen))
chosen_on = fixed.exact_summary(fixed.prepare(seen), heads)[:, neuron].numpy()
highest = pd.Series(chosen_on).groupby(domain_seen).mean().nlargest(3).index.tolist()
science = np.isin(domain, highest)

both = (fixed.exact_summary(texts, heads).numpy() for texts in (judged, shuffled(judged)))
as_is, as_shuffled = (of[:, neuron] for of in both)

# %% tags=["hide-input"]
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
    "1.3",
    f"A dot is a text, a stroke the mean of its domain; blue are the natural sciences. {len(unseen)} unseen texts, all ending in ' the'.",
    f"Rows of dots, a domain each. Means from {by_domain.iloc[0]:.2f} ({by_domain.index[0]}) to {by_domain.iloc[-1]:.2f} ({by_domain.index[-1]}); the highest three: {', '.join(by_domain.index[-3:])}.",
)

# %% [markdown]
r"""
The three natural sciences stand apart from the other domains: a text of theirs is above a text of another in {{auc}} of all pairs. {{?gives_away}} What does the average need? We take away order, the last ten tokens, attention and in the end positions.
"""

# %%
# what the OV circuits make of a vector, for the neuron
ov = einsum(weights.W_V, weights.W_O, w, "head d k, head k e, e -> head d") / s
bias = einsum(weights.b_V, weights.W_O, w, "head k, head k e, e -> head") / s
values = (
    einsum(fixed.exact.normalized_resid(judged), ov, "text i d, head d -> text head i")
    + bias[:, None]
)
embedding = weights.W_E[judged]  # text source d
words = (embedding / embedding.norm(dim=-1, keepdim=True)).mean(1)
added = {
    "the heads as they are": as_is,
    "every text shuffled": as_shuffled,
    "without the last ten tokens": (rows * values)[..., :-10].sum((1, 2)),
    "values averaged uniformly": values.mean(-1).sum(1),
    "words alone, through the OV circuits": einsum(words, ov, "text d, head d -> text"),
    "words alone, without the heads": words @ w,
}

# %% [markdown]
r"""
Is the order of the texts right (pairs in order)? Is the pattern right, up to a scale (squared correlation with the first line)? And is the scale right (standard deviation, in units of the first line's)?

| what reaches the neuron | pairs in order | variance explained | size |
| --- | --- | --- | --- |
| what the heads add | {{auc}} | {{= 100% =}} | {{= 1 =}} |
| the same, every text shuffled | {{auc_shuffled}} | {{fit_shuffled}} | {{size_shuffled}} |
| the same, without what the last ten tokens add | {{auc_far}} | {{fit_far}} | {{size_far}} |
| the values, averaged uniformly | {{auc_uniform}} | {{fit_uniform}} | {{size_uniform}} |
| words alone: the mean of their embeddings, through the OV circuits | {{auc_words}} | {{fit_words}} | |
| the same mean without the heads | {{auc_embedding}} | {{fit_embedding}} | |

To tell science from the rest, the heads need neither grammar nor order. {{?order}} Nor do they need the last few words, which counted for so much in one text. {{?far_suffices}} They do not even need attention or positions, for a plain mean of the embeddings ranks the texts just as well. {{?words_suffice}} But this mean has to go through the OV circuits, which turn words of science into the direction that the neuron reads. {{?values}} To these heads, then, a text is a bag of words: each word has a value of its own, and attention decides how heavily it counts.

Why then should we care where a head looks? Because attention decides the amounts. With uniform attention, even the best rescaling leaves {{missed}} of the variance unexplained. Without rescaling it is {{left}}, because uniform attention moves the neuron only half as much as the model does. {{?half}}

## What can go wrong

**The neuron is not about planets alone.** Astronomy is above other texts in {{auc_astronomy}} of pairs, less than the three sciences together. {{?not_alone}} Nor does it merely recognise English: among English texts alone, {{auc_english}} of pairs are in order. {{?in_english}}

**Not every first layer averages.** Three heads of GPT-2 small look only at the last few tokens and join pieces of words {cite}`gibson2025contextual`. In Qwen, a model that people use, the {{qwen_heads}} heads that the method fits contribute only {{qwen_share}} of the variance ([chapter 8](08_real_model)).

**The equations are those of one kind of model.** They hold where a learned position is added to each token. Rotary positions never enter the stream ([chapter 13](13_families)), and in later layers the stream also holds what earlier layers wrote ([chapter 14](14_depth)).

## Where this leaves us

To predict the amounts, we have to predict attention. A score depends on a token *and* on its position, and if the two could be pulled apart, we could put each into a table. They are added, so this should be easy. Why isn't it? [Chapter 2](02_keys) finds out.
"""

# %% tags=["hide-input"]
cb.figures.path(
    ["token", "place", "row", "value"],
    "The whole way from a token to a neuron, with the parts that this chapter was about. The next four chapters explain the others.",
)

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* Take away the positions. What happens to the attention on the last ten tokens, and to the pairs in order? Write down two guesses, then open the cell.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Without positions"}
from dataclasses import replace

blind = cx.fix_query(replace(weights, W_pos=0 * weights.W_pos), n=n, token=TOKEN)
blind_rows = blind.exact.rows(judged)[..., -10:].sum(-1).mean(0)  # head
blind_added = blind.exact_summary(judged, heads)[:, [neuron]].numpy()
blind_auc = float(cx.neurons.auc(blind_added, science)[0])
cb.facts(
    "first_layer",
    blind_least=cb.fact(blind_rows.min(), ".0%"),
    blind_most=cb.fact(blind_rows.max(), ".0%"),
    blind_auc=cb.fact(blind_auc, ".0%", holds=blind_auc > cb.NEARLY_ALL),
)

# %% [markdown]
r"""
2. *Fill in.* Write the attention row of one head, from its query, its keys and $d_\text{head}$, without looking up.
"""


# %%
def my_row(q, key, d_head):
    """The attention row over the sources of key."""
    return ...


# %% tags=["hide-input", "nbval-check-output"]
mine = my_row(q[0], key[0], weights.d_head)
if mine is ...:
    print("not yet")
else:
    print("right" if torch.allclose(torch.as_tensor(mine), row[0], atol=1e-5) else "not the row")

# %% [markdown]
r"""
3. *Show.* The keys' bias $b_K$ has no influence on the row in {eq}`eq-qk`. Has $b_Q$?

```{admonition} Solutions
:class: dropdown

1. A row then depends on tokens alone, so the last ten get {{blind_least}} to {{blind_most}}, about what uniform attention gives them. {{Blind_auc}} of the pairs stay in order, since the words are still there.
2. `torch.softmax(key @ q / d_head**0.5, dim=-1)`.
3. $b_K$ adds $q_n \cdot b_K / \sqrt{d_\text{head}}$ to every score of the row, and the softmax divides it out again. $b_Q$ adds $b_Q \cdot \text{key}_i / \sqrt{d_\text{head}}$, which depends on $i$, so it stays.
```

## Evidence

The card of `mini`, `ctxlib/data/mini/README.md`, has its recipe and the sources of its text.

**The numbers in the text**, as they were computed, with the conditions that its words rest on. Drawing the unseen documents again gives the {{auc}} of pairs in order a {{= 95% =}} interval from {{auc_low}} to {{auc_high}}.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
spelled, total = decoded(x), float(adds.sum())
leading = adds.abs().topk(2).indices.tolist()
copies = (x == x[leading[0]]).nonzero()[:, 0].tolist()  # of the strongest token
words = " science", " chemical", " market", " ideas"  # two that raise the neuron, two that lower it
raises = [adds[spelled.index(word)] > 0 if word in spelled else None for word in words]
names = ("heads", "shuffled", "far", "uniform", "words", "embedding")
of = pd.DataFrame(dict(zip(names, map(np.asarray, added.values()), strict=True)))
auc = pd.Series(cx.neurons.auc(of.to_numpy(), science), of.columns)
fit, size = of.corr()["heads"] ** 2, of.std() / of["heads"].std()
left = ((of["uniform"] - as_is) ** 2).mean() / as_is.var()
english = np.array([text.dialect.startswith("en") for text in unseen])
auc_english = float(cx.neurons.auc(as_is[english, None], science[english])[0])
sure = cb.with_interval(lambda i: cx.neurons.auc(as_is[i, None], science[i])[0], unseen)
astronomy = float(cx.neurons.auc(as_is[:, None], domain == "astronomy")[0])
nearest = rows[..., -10:].sum(-1).mean(0)  # head: attention to the last ten tokens
near = np.ceil(100 * float(nearest.max())) / 100  # "no more than" bears no rounding down
share = study.head_variance_share[influential].sum()
real = cb.on_real("heads stable", "their share")["Qwen"]
percents = {"auc": auc["heads"], "auc_low": sure.low, "auc_high": sure.high}
percents |= {f"auc_{k}": auc[k] for k in names[1:]} | {f"fit_{k}": fit[k] for k in names[1:]}
percents |= {"auc_astronomy": astronomy, "auc_english": auc_english, "left": left, "near": near}
percents |= {"near_uniform": 10 / (n + 1), "influential_share": share, "missed": 1 - fit["uniform"]}
cb.facts(
    "first_layer",
    neuron=neuron,
    unseen=len(unseen),
    all_domains=len(set(domain)),
    influential=cb.listed(influential),
    **{name: cb.fact(v, ".0%") for name, v in percents.items()},
    **{f"size_{k}": cb.fact(size[k], ".2f") for k in names[1:4]},
    total=cb.fact(total, ".2f"),
    two_words=cb.fact(adds[leading].sum(), ".2f"),
    earlier_adds=cb.fact(adds[copies[0]], ".2f"),
    qwen_heads=cb.fact(int(real["heads stable"].split()[0]), "words"),
    qwen_share=real["their share"],
    gives_away=auc["heads"] > cb.NEARLY_ALL,
    sciences=set(highest) == {"astronomy", "physics-chemistry", "biology-medicine"},
    far_do_it=float(on_three[1]) > 0.9 * float(on_three[0])
    and not {" planets", " solar"} & {*end_of_shuffled},
    order=abs(auc["heads"] - auc["shuffled"]) < 0.05,
    words_suffice=abs(auc["heads"] - auc["words"]) < 0.05,
    far_suffices=abs(auc["heads"] - auc["far"]) < 0.01,
    values=auc["embedding"] < (auc["heads"] + 0.5) / 2,
    not_alone=astronomy < auc["heads"],
    half=abs(2 * size["uniform"] - 1) < cb.ABOUT and left > 2 * (1 - fit["uniform"]),
    in_english=auc_english > cb.NEARLY_ALL,
    differ=on_three[:2].min() > 0 > on_three[2:].max(),
    broad=near < 0.5,
    two_words_lead=[spelled[i] for i in leading] == [" planets", " solar"]
    and min(leading) > n - 10
    and float(adds[leading].sum()) > cb.MOST * total,
    helpers=raises == [True, True, False, False],
    fades=copies[-1] == leading[0]
    and adds[copies[0]] < adds[copies[-1]] / 4
    and abs((copies[-1] - copies[0]) / 200 - 1) < cb.ABOUT,
    two_heads=share > cb.NEARLY_ALL,
)

# %% [markdown]
r"""
**Do the equations say what the model does?** Residual stream, attention rows and the output of the layer, computed from the weights, agree with TransformerLens' hooks to within {{= 0.0001 =}}. {{?agrees}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Are these the model's own numbers?"}
with torch.inference_mode():
    _, cache = model.run_with_cache(x[None], stop_at_layer=1, device="cpu")
errors = {
    "residual stream": (r - cache["blocks.0.hook_resid_pre"][0]).abs().max(),
    "attention rows": (row - cache["blocks.0.attn.hook_pattern"][0, :, n]).abs().max(),
    "output of the layer": (layer - cache["blocks.0.hook_attn_out"][0, n]).abs().max(),
    "what tokens add to the neuron": (adds.sum() - fixed.exact_summary(x, heads)[neuron]).abs(),
}
cb.facts("first_layer", agrees=max(map(float, errors.values())) < 1e-4)

# %% [markdown]
r"""
**The ledger.** These three lines are algebra, and no run could decide them otherwise. The first compares rows with those of the checkpoint as it is stored, with nothing folded.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Published claims, judged"}
exactly = {"dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True}
with cx.models.quiet():
    stored = AutoModelForCausalLM.from_pretrained(cx.models.locate(MODEL), **exactly)
with torch.inference_mode():
    stored_rows = stored(pages, output_attentions=True).attentions[0][:, :, n]  # text head source
folded = torch.stack([cx.attention_rows(weights, text, n) for text in pages])
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
        float(errors["output of the layer"]),
        digits=4,
    ),
    cb.Claim("layernorm_length", "length after LayerNorm over sqrt(d_model), smallest", shortest),
)

# %% [markdown]
r"""
## Where this comes from

The picture of a residual stream with QK and OV circuits is that of {cite:t}`elhage2021framework`; the model has the architecture of GPT-2 {cite}`radford2019language` and is read with TransformerLens {cite}`nanda2022transformerlens`. That first-layer heads fall into kinds, and that the broad ones carry context, is the observation of {cite:t}`gibson2025contextual` from which this book sets out. Neuron {{neuron}} and what drives it are this book's.
"""
