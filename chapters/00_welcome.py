# %% [markdown]
r"""
# A neuron that notices British spelling

**A language model notices British spelling in its first layer, and its weights, with word counts and one page of prose, are enough to predict roughly by how much.** {{?noticed}} At the words that the British and the American version of one paragraph have in common, two attention heads push a certain neuron higher in the British one, by {{more}} on average. We predict {{more_predicted}}; with other pages of prose we would have predicted {{page_least}} to {{page_most}}, always upwards. {{?luck}} In ordinary documents the effect is far smaller than what else moves the neuron, so it cannot tell you where a text is from. {{?thin}}

Here is the paragraph. The colour of a word shows what two attention heads of Qwen2.5-Coder, a language model with {{= 1.5 =}} billion parameters, are adding to the neuron when they have read that far: blue raises the neuron, orange lowers it. The strip below the word is our prediction. Click into either text and change a word, say *grey* to *gray*. The averages below count all words. (Once you change a word, both texts show the prediction alone, since Qwen does not run in your browser.)
"""

# %% tags=["setup", "remove-input", "remove-output"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters", "remove-input"]
# The model that the chapters run on: to see GPT-2 in its place, set MODEL = "gpt2".
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 250  # how many texts of the collection are read for heads, frequencies and cards

# %% tags=["remove-input"]
import json
import re
from collections import Counter
from difflib import SequenceMatcher
from html import escape

import numpy as np
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

NEURON = 6419  # found in chapter 9
FULL = 0.5  # has the full shade

kept = json.loads(
    cb.evidence("welcome.json").read_text()
)  # what Qwen's own heads add, token by token
fixed = cx.fix_query("qwen")
qwen = cx.study(
    fixed, cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), TEXTS), or_all=True
)
circuit, heads = qwen.circuit, list(qwen.heads)
kernels, content = (t[heads] for t in (fixed.decomposition.kernels, fixed.decomposition.content))
values = fixed.decomposition.values(heads)
adds = torch.einsum("vhd,hd->hv", values, circuit.readout[:, :, NEURON])  # head vocab


def so_far(amounts):
    """Amounts of tokens, summed up to each token of a text as if it ended there, each times the
    weight of its position: head source."""
    until = range(1, amounts.shape[1] + 1)
    return torch.stack([(kernels[:, -m:] * amounts[:, :m]).sum(1) for m in until], 1)


denominators = so_far(content[:, circuit.calibration])


def predicted(x, divided_by=denominators):
    """What the heads add to the neuron at each token of a text: fixed amounts, summed so far."""
    return (so_far(content[:, x] * adds[:, x]) / divided_by[:, : len(x)]).sum(0)


both = []
for name, text in zip(("British spelling", "American spelling"), kept["texts"], strict=True):
    ids = torch.tensor(text["ids"])
    words = [fixed.tokenizer.decode([t]) for t in text["ids"][1:]]
    truth, gate = (torch.tensor(text[k])[1:] for k in ("model", "gate"))
    both.append((name, words, truth, predicted(ids)[1:], gate))

# %% tags=["remove-input"]
INKS = [tuple(int(ink[i : i + 2], 16) for i in (1, 3, 5)) for ink in cb.figures.COLORS[:2]]


def shaded(text, model, ours, more=""):
    """A word on a ground for the model, over a strip for the prediction; blue above zero, orange
    below; both numbers show under a pointer."""
    word, strip = (
        f"rgba{(*INKS[int(v < 0)], round(most * min(abs(v) / FULL, 1), 2))}"
        for v, most in ((model, 0.6), (ours, 1))
    )
    style = f"padding:.1em 0 .42em;background:linear-gradient({word} calc(100% - .36em),transparent 0),linear-gradient(transparent calc(100% - .28em),{strip} 0);{more}"
    numbers = f"model {cb.in_prose(model, '+.2f')}, prediction {cb.in_prose(ours, '+.2f')}"
    return f'<span style="{style}" title="{numbers}">{escape(text)}</span>'


def column(name, words, truth, ours, _):
    """A text, and its means."""
    spans = map(shaded, words, truth.tolist(), ours.tolist())
    means = [cb.in_prose(float(v.mean()), "+.2f") for v in (truth, ours)]
    return f'<div style="flex:1 1 20em"><b>{name}</b><p style="line-height:2.2;margin:0">{"".join(spans)}</p><small>on average: model {means[0]}, prediction {means[1]}</small></div>'


KEY = "padding-inline:.4em;margin-right:.5em"
key = shaded("word: what the model adds", FULL / 2, 0, KEY)
key += shaded("strip: what we predict", 0, FULL, KEY)
for v in (-FULL, -FULL / 2, FULL / 2, FULL):
    key += shaded(cb.in_prose(v, "+.2f"), v, v, KEY)
alt = "The same paragraph in two spellings. " + "; ".join(
    f"{name}: the model adds {truth.mean():+.2f} on average, the prediction is {ours.mean():+.2f}"
    for name, _, truth, ours, _ in both
)
picture = cv.picture.Picture(
    '<figure style="margin:0"><div style="display:flex;flex-wrap:wrap;gap:0 1.5em">'
    f'{"".join(column(*side) for side in both)}</div><p style="line-height:2">{key}</p></figure>',
    alt,
)
cv.Spellings(circuit, NEURON, [side[:4] for side in both], FULL, picture)

# %% [markdown]
r"""
The two versions differ in {{differ}} words. Look at the words that are the same in both: at every one of them, once a first word has differed, the British version pushes the neuron higher. {{?every}} So the neuron does not just recognise *colour*. By the time the model reaches *visitors*, the neuron still reflects how earlier words were spelled.

On average over these words, the model's two heads add {{more}} more to the neuron in the British version. {{?farther}} That we predict the same two digits is luck: other pages of prose predict {{page_least}} to {{page_most}}. Word by word, the correlation of prediction and model is {{r}}.

Is {{more}} much? We packed this paragraph with words that the two spellings write differently. In ordinary documents such words are {{rarer}} times rarer, and the neuron moves less. The table gives averages over the words that both versions share, and counts all heads, not only our two. Its last column divides by a standard deviation: how much the neuron's average input varies between English documents.

| | British spelling adds | in standard deviations |
| --- | --- | --- |
| this packed paragraph | {{gate}} | {{in_sd}} |
| ordinary documents | {{document_gate}} | {{document_in_sd}} |

In ordinary documents, then, spelling moves the neuron far less than other differences do, such as their subjects. {{?thin}} Over a collection of English texts, our prediction is no higher for British texts than for American ones. {{?no_higher}} [Chapter 9](09_british) follows the neuron through ordinary documents, and asks whether the model makes any use of it.

We did not find this neuron by searching millions of texts for the ones that excite it. We computed, from the weights, word counts and one page of prose, what every token of the vocabulary adds to every neuron; then we read British words and American words off that table, and compared.

## How can a table know what attention will do?

Attention mixes what all the words of a text bring, and how heavily it weighs each word depends on all the others. Three facts let us say, before there is a text, what each word would add to its result.

**The first layer sees only tokens and positions.** When a word arrives there, the model has not yet read anything into it: *bank* is the same vector beside a river and beside a loan. So all that a head can do is to take a weighted average, over the words so far, of vectors that depend on a word and its position only ([chapter 1](01_first_layer)).

**The weight of a word is nearly a product.** The score that a head gives to an earlier word is, to a good approximation, one number for its position plus one for the word itself ([chapter 2](02_keys)). The softmax turns the sum into a product and divides it by the sum of all these products, so that word $i$ gets the weight

$$
\text{weight}_i \;\approx\; \frac{\text{position}_i \times \text{content}_i}{\text{denominator}} .
$$

Both factors can be looked up; [chapter 3](03_kernels) draws them. The text as a whole comes in only through the denominator.

**In some heads the denominator varies little.** It is a sum over many words, and if a head looks far back, the particular words average out. In the two heads above, its standard deviation from text to text is at most {{spread}} of its mean. {{?stable}} So we measure it on one page of prose (a British one), once for every length that a text can have, and use these numbers for all texts ([chapter 4](04_denominators)). With that approximation, a word's contribution no longer depends on its neighbours. For a given last word, the *query*, each word adds a fixed amount to each neuron; to predict what a text does, we weigh these amounts by position and add ([chapter 5](05_circuit)).

Here is one word of the paragraph, in both spellings, as one head weighs it at the last word. The **value** is what the head would add if it attended to this word alone; the denominator, {{denominator}} at both lengths, is the average content of that page of prose. (The positions differ because the British text is one token longer.) {{?longer}}

| | position | content | value | position × content × value / denominator |
| --- | --- | --- | --- | --- |
| *colours* | {{pos_british}} | {{content_british}} | {{value_british}} | {{adds_british}} |
| *colors* | {{pos_american}} | {{content_american}} | {{value_american}} | {{adds_american}} |

Both spellings get {{weight}} of the attention. What tells them apart is the value, positive for one and negative for the other. {{?opposed}} Thirteen such words add up. {{?thirteen}}

Sorting all words by what they add to a neuron then hints at what the neuron responds to ([chapter 6](06_neurons)). The method is Alex Gibson's, who published it for GPT-2 small {cite}`gibson2025decomposing`.

It has a limit: it covers only **stable heads**, those that look far back and whose denominator varies by less than {{limit}} from text to text. Most heads of Qwen's first layer are not stable, and the two above account for less than a tenth of what differs between texts in the neurons' input. {{?small_share}} Over the texts behind this page, two of the layer's {{all_heads}} heads are stable; over those of chapter 8 a third is, too. {{?two_pass}} {{?third_head}} [Chapter 10](10_whole_neuron) includes all heads.

## Six neurons to open

Each card opens the [explorer](explorer), where you can see every word that moves the neuron, type your own, and switch heads off. A card lists the words of our texts that raise its neuron most, without variants of the same word; the British card lists words whose British spelling adds most over the American one. (Over the whole vocabulary rarer tokens come first, as [chapter 6](06_neurons) shows.)
"""

# %% tags=["remove-input"]
CARDS = {  # its title: the model, and a domain of the collection
    "Planets": (MODEL, "astronomy"),
    "Recipes": (MODEL, "cooking"),
    "Courts": ("qwen", "law"),
    "Scripture": ("qwen", "bible-kjv"),
    "Proofs": ("qwen", "mathematics"),
}
studies = {MODEL: cx.study(cx.load(MODEL), TEXTS, or_all=True), "qwen": qwen}
MIXTURES = 1000  # how many random mixtures of neurons (chapter 6) are tried in the same way


def best(summaries, there, halves):
    """The neuron that texts of a subject raise most on half A, and its AUC on half B."""
    A, B = halves
    neuron = int((summaries[A & there].mean(0) - summaries[A & ~there].mean(0)).argmax())
    return neuron, float(cx.neurons.auc(summaries[B][:, [neuron]].numpy(), there[B])[0])


found, of_mixtures = {}, []  # title: model, neuron, AUC on half B; AUC of the best mixtures
for title, (model, domain) in CARDS.items():
    texts, of = studies[model].texts, studies[model].circuit
    tokens, halves = of.fixed.prepare(texts), cb.half_masks(texts)
    there = np.array([text.domain == domain for text in texts])
    found[title] = model, *best(of.summary(tokens), there, halves)
    mixed = cb.nulls.mixtures(of.fixed.readout.W_in, count=MIXTURES)
    mixed = of.fixed.readout.W_O[list(of.heads)].flatten(0, 1) @ mixed
    of_mixtures.append(best(of.z(tokens).flatten(1) @ mixed, there, halves)[1])
found["British spelling"] = "qwen", NEURON, None


def words_of(model, neuron):
    """Words by what they add to a neuron, of the texts' words that are one token."""
    of, texts = studies[model].circuit, studies[model].texts
    counts = Counter(re.findall("[A-Za-z]{3,}", " ".join(text.source for text in texts)))
    order = of.contribution_to([neuron])[0].argsort(descending=True)[:1000].tolist()
    tokens = [t for t in cx.texts.decode_tokens(of.fixed, order) if counts[t.strip()] > 1]
    return [t.strip() for t in tokens if t[0] == " "]


def british_words():
    """British forms by how much more than the American ones they add to the neuron."""
    column = circuit.contribution_to([NEURON])[0]

    def added(word):
        return float(column[fixed.tokenizer.encode(f" {word}", add_special_tokens=False)].sum())

    pairs = set(cb.spelling.pair_of().values())
    return [b for b, a in sorted(pairs, key=lambda pair: added(pair[1]) - added(pair[0]))]


def four_of(words):
    """The first four words that do not begin like one before them."""
    begins = {}
    for word in words:
        begins.setdefault(word.lower()[:4], word)
    return [*begins.values()][:4]


def card(title, model, neuron, auc):
    """A card, which is a link."""
    state = f"neuron={neuron}" if model == MODEL else f"model={model}&amp;neuron={neuron}"
    of = "Qwen" if model == "qwen" else model
    words = four_of(words_of(model, neuron) if auc else british_words())
    style = "display:block;padding:.5em .7em;border:1px solid #8888;border-radius:.4em;text-decoration:none;color:inherit"
    return f'<a style="{style}" href="explorer.html#{state}"><b style="color:var(--pst-color-link,#0072B2)">{title}</b><br><small>{of}, neuron {neuron}</small><br>{" · ".join(map(escape, words))}</a>'


grid = "overflow-x:auto;display:grid;grid-template-columns:repeat(auto-fit,minmax(13em,1fr));gap:.7em;margin:1em 0"
cards = "".join(card(title, *of) for title, of in found.items())
alt = "; ".join(
    f"{title}: {model}, neuron {neuron}" + (f", AUC {auc:.2f} on half B" if auc else "")
    for title, (model, neuron, auc) in found.items()
)
cv.picture.Picture(
    f'<figure class="picture" style="margin:0"><div style="{grid}">{cards}</div></figure>', alt
)

# %% [markdown]
r"""
We chose five of these neurons on half of our texts: for each subject, the neuron that it raises most by our prediction. [Chapter 9](09_british) explains the sixth. On the other half, each of the five ranks a text of its subject above another text at least {{auc}} of the time. {{?separate}} The best of {{mixtures}} random mixtures of neurons, chosen in the same way, comes near, with at least {{mixed_auc}}. {{?mixtures_below}} So a good label is weak evidence that a neuron is a unit of its own, that it sorts texts better than a direction drawn at random; [chapter 6](06_neurons) tests this in mini.

## How to read this book

**In ten minutes:** play with the paragraph above, open a card or two, and read the bold answer that opens each chapter.

**In an afternoon:** read chapters 1 to 6 in order. They build the method on a model that is small enough to look at whole, each from three tokens by hand to a real text; chapter 7 is the whole of it in a hundred lines of code. Then read chapters 8 to 10, where it meets models that people use.

**For your research:** chapters 11 to 16 and the appendices say how accurate the method is, whether the model uses what it finds, and what becomes of other architectures and deeper layers. What was checked in detail is folded away under *Evidence* at the end of a chapter, with a **ledger** that puts each published claim beside what we found; [Reproduction](reproduction) collects them. You can run the method on [a model of your own](own_model) with one command.

**What you need:** linear algebra, a little probability, and to have met a transformer before. [Notation](notation) explains the symbols and the [glossary](glossary) the words. Nothing has to be installed to read; to run a chapter, open it in Colab with the rocket at its top, where `MODEL = "gpt2"` in the first cells runs it on GPT-2 itself.

**The models:** `{{model}}` is a pocket-size GPT-2 that we trained for this book, and most chapters are taught on it; Qwen2.5-Coder-1.5B is an instruction-tuned model trained largely on code; SmolLM2-135M is a small chat model, in which the published circuit fails ([chapter 8](08_real_model)); MiniLM compares sentences, and keeps positions the way GPT-2 does. None of them was tuned to suit the method. Qwen and SmolLM2 are read from {{= 4 =}}-bit weights.

Each number in the text is computed by the chapter that states it, or read from a run that we keep, and checked when the book is built. Where a test was fixed before it was run, the chapter says so; everything else is an observation.

## Evidence

**How the demonstration is computed.** Kernel, content and value come from Qwen's weights; since its positions are rotary, the first two are means over tokens, each as frequent as in our texts ([chapter 13](13_families)). The denominators and the scale of the second LayerNorm come from one page of prose, which is British: the most typical of the {{pages}} pages of plain prose among this book's passages ([chapter 4](04_denominators)). For a text of $m$ tokens we use the denominators of that page's first $m$ tokens, placed right before the query. The model's own numbers are kept from one run of Qwen's first layer (`tools/evidence/first_pages.py`, which also has the paragraph: we wrote that before we looked at the neuron).

**Heads and mixtures.** The denominator of a third head varies by {{third}}, just above the limit. We had predicted that the best mixtures would reach {{= 90% =}}; they reach {{mixed_auc}}.

**How far apart are the two texts?** The table gives the difference at the shared words, for the demonstration and for variants of it. With the denominators of the text itself the prediction follows the model more closely, but they cannot be known before there is a text. {{?closer}} With other pages of prose it is mostly too large, and higher under British spelling at every token. {{?luck}} All heads of the model together move the neuron more than the two do. {{?all_more}}
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "British less American, and variants"}
# at the tokens that both have, behind the first word that differs
blocks = SequenceMatcher(None, *(side[1] for side in both), autojunk=False).get_matching_blocks()
pairs = [(i + k, j + k) for i, j, size in blocks for k in range(size) if i + k > 1]
two = [torch.tensor(text["ids"]) for text in kept["texts"]]
versions = {
    "two heads, model": [side[2] for side in both],
    "two heads, prediction": [side[3] for side in both],
    "two heads, the text's own denominators": [
        predicted(x, so_far(content[:, x]))[1:] for x in two
    ],
    "all heads, model: the whole neuron before its activation": [side[4] for side in both],
}
plain = [page for page in qwen.passages if page.domain in qwen.plain]
for page in plain:  # in place of the one that calibrates
    of = cx.ContextualCircuit.calibrate(fixed, fixed.prepare([page])[0], heads)
    by_page = so_far(content[:, of.calibration]) * of.scale / circuit.scale
    versions[page.name] = [predicted(x, by_page)[1:] for x in two]
rows = {}
for name, (one, other) in versions.items():
    more = torch.stack([one[i] - other[j] for i, j in pairs])
    r = np.corrcoef(torch.cat([one, other]), torch.cat(versions["two heads, model"]))[0, 1]
    rows[name] = float(more.mean()), int((more > 0).sum()), float(r)
apart = pd.DataFrame(rows, index=["more", "higher at", "r along the texts"]).T
print(f"{len(pairs)} shared tokens")
apart.round(2)

# %% [markdown]
"""
**Does the neuron say where a text is from?** It responds to subjects as well, so at the end of English texts of the collection the prediction is no higher in British ones than in American ones. {{?no_higher}} Only two spellings of one text can be compared.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "English texts of the collection"}
english = [text for text in qwen.texts if text.dialect[:2] == "en"]
ends = torch.stack([predicted(x)[-1] for x in fixed.prepare(english)]).numpy()
at_end = pd.Series(ends).groupby([text.dialect for text in english])
at_end.agg(["count", "mean", "std"]).round(2)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "The numbers in the text"}
documents = pd.DataFrame(json.loads(cb.evidence("british.json").read_text())["qwen"]["documents"])
documents = documents[documents["half"] == "B"]
gates = pd.DataFrame([[of[0][k][0] for k in (0, -1)] for of in documents["told"]])
american, british = (gates[k].groupby(documents["document"].tolist()).mean() for k in gates)
document_gate, documents_sd = float((british - american).mean()), float(american.std())
document_words, document_tokens = (float(documents[k].mean()) for k in ("words", "places"))
colour = [fixed.tokenizer.encode(w, add_special_tokens=False)[0] for w in (" colours", " colors")]
differ = [a != b for a, b in zip(*("".join(side[1]).split() for side in both), strict=True)]
rarer = (sum(differ) / len(both[0][1])) / (document_words / document_tokens)
more, higher = apart["more"].tolist(), apart["higher at"].tolist()
seen = [(text["ids"].index(t), t) for text, t in zip(kept["texts"], colour, strict=True)]
at = [
    (
        kernels[0, i - len(text["ids"])],
        content[0, t],
        adds[0, t],
        denominators[0, len(text["ids"]) - 1],
    )
    for (i, t), text in zip(seen, kept["texts"], strict=True)
]  # position, content, value, denominator
shares = [float(p * c / d) for p, c, _, d in at]
pages = apart.loc[[page.name for page in plain], "more"]
spread = float(qwen.head_table.loc[heads, "coefficient of variation"].max())
varies = qwen.head_table.query("family != 'local'")["coefficient of variation"].sort_values()
third = float(varies.iloc[2])
auc = min(auc for *_, auc in found.values() if auc is not None)
every = min(higher[:2]) == len(pairs)
cb.facts(
    "welcome",
    model=MODEL,
    differ=cb.fact(sum(differ)),
    more=cb.fact(more[0], ".2f"),
    more_predicted=cb.fact(more[1], ".2f"),
    every=every,
    denominator=cb.fact(at[0][3], ".2f", holds=abs(at[0][3] - at[1][3]) < 0.01),
    **{
        f"{name}_{side}": cb.fact(v, form)
        for side, (p, c, v, d) in zip(("british", "american"), at, strict=True)
        for name, v, form in (
            ("pos", p, ".4f"),
            ("content", c, ".2f"),
            ("value", v, "+.2f"),
            ("adds", p * c * v / d, "+.3f"),
        )
    },
    weight=cb.fact(shares[0], ".0%", holds=f"{shares[0]:.0%}" == f"{shares[1]:.0%}"),
    opposed=at[0][2] > 0 > at[1][2],
    longer=len(both[0][1]) == len(both[1][1]) + 1,
    thirteen=sum(differ) == 13,
    in_sd=cb.fact(more[3] / documents_sd, ".1f"),
    document_in_sd=cb.fact(document_gate / documents_sd, ".2f"),
    pages=len(plain),
    page_least=cb.fact(pages.min(), ".2f"),
    page_most=cb.fact(pages.max(), ".2f"),
    luck=apart.loc[pages.index, "higher at"].min() == len(pairs)
    and (pages > more[0]).mean() > cb.MOST,
    r=cb.fact(apart["r along the texts"].iloc[1], ".2f"),
    noticed=every and abs(more[1] / more[0] - 1) < cb.ABOUT and kept["heads"] == heads,
    rarer=cb.fact(rarer, ".0f"),
    document_gate=cb.fact(document_gate, ".3f"),
    gate=cb.fact(more[3], ".2f"),
    thin=min(more[3], rarer - 1, document_gate) > 0 and 2 * document_gate < documents_sd < more[3],
    spread=cb.fact(spread, ".0%"),
    stable=spread < qwen.max_cv,
    farther=0 < float(both[0][2].mean() - both[1][2].mean()) - more[0] < cb.ABOUT,
    two_pass=len(heads) == 2,
    third=cb.fact(third, ".0%"),
    limit=cb.fact(qwen.max_cv, ".0%"),
    third_head=sorted(varies.index[:2]) == sorted(heads)
    and 0 < third - qwen.max_cv < 0.05
    and cb.on_real("heads stable")["Qwen"].item().startswith("3 "),
    all_heads=cb.fact(fixed.n_heads, "words"),
    small_share=qwen.head_variance_share[heads].sum() < 1 - cb.NEARLY_ALL,
    closer=bool(apart["r along the texts"].iloc[2] > apart["r along the texts"].iloc[1]),
    all_more=more[3] > more[0],
    no_higher=at_end.mean()["en-GB"] <= at_end.mean()["en-US"],
    auc=cb.fact(np.floor(100 * auc) / 100, ".0%"),  # "at least"
    separate=auc > cb.NEARLY_ALL,
    mixtures=cb.fact(MIXTURES, ","),
    mixed_auc=cb.fact(np.floor(100 * min(of_mixtures)) / 100, ".0%"),
    mixtures_below=0.5 < min(of_mixtures) < auc and not min(of_mixtures) > cb.NEARLY_ALL,
)

# %% [markdown]
"""
## Where this comes from

The method and its derivations are those of *Decomposing Attention To Find Context-Sensitive Neurons* {cite}`gibson2025decomposing`. Chapters 15 and 16 follow *Interpreting Context Look-ups in Transformers* {cite}`neo2024interpreting`. The worked steps, the code, the model `mini` and the texts are the book's own.
"""
