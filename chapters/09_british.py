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
# Is there a British neuron?

**A gate of Qwen hears British English: it met 9 of the 10 conditions about hearing that were set before; the tenth, about words that are no spelling, it misses.**
British spelling adds to the gate of neuron 6419 16 times the spread of random words, where random words take the largest of 8960 gates to 5 in 300 draws; in families that were not used to find it, 14 times.
To hear is not to use: what the neuron writes hardly moves, and set to its values under American spelling it costs nothing of what Qwen expects, for late heads read the spelling off the words themselves.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the contrast on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
TEXTS = 250  # how many texts of the collection are read for heads and frequencies
MODELS = None  # real models that are run for what is kept: make evidence CHAPTER=09_british

# %% tags=["hide-input"]
import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch

import ctxbook as cb
import ctxlib as cx
from ctxbook import keep_rows

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
REAL = ["qwen", "smollm2"]  # their stored layers
NAMES = {"qwen": "Qwen", "smollm2": "SmolLM2", MODEL: MODEL}


def study_of(name):
    """A model's first layer and its circuit, of a stored layer or of the model itself."""
    if name not in REAL:
        return cx.study(cx.load(name), TEXTS, or_all=True)
    fixed = cx.fix_query(name)
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), TEXTS)
    return cx.study(fixed, texts, or_all=True)


studies = {name: study_of(name) for name in NAMES}
pd.DataFrame(
    {
        "stable heads": [f"{s.heads} of {s.fixed.n_heads}" for s in studies.values()],
        "neurons": [s.fixed.n_neurons for s in studies.values()],
        "destination": [s.n for s in studies.values()],
    },
    index=pd.Index(NAMES.values(), name="model"),
)

# %% [markdown]
r"""
The paper's showpiece is a neuron of GPT-2 small that tells Commonwealth from American English {cite}`gibson2025decomposing`; the post names two, 300 and 704 {cite}`gibson2025contextual`. This chapter asks Qwen2.5-Coder-1.5B-Instruct, then SmolLM2-135M-Instruct, and `mini` as the contrast. Of Qwen and SmolLM2 it has 4-bit weights; both are instruct models, and Qwen was trained on code. A first look had seen such a neuron in Qwen, so all that follows was set down before it was run, in `ctxbook/data/dialect.toml`: halves, controls, bars. Each answer has its bar beside it in the [last table](sec-bri-verdict).

## Columns

The circuit ([chapter 5](05_circuit)) adds up numbers that are known before any text is read: token $t$ adds $\text{contribution}[t, j]$ to neuron $j$. So a word $w$, in one piece or several, adds the sum over its pieces, and what British spelling adds in a family of words $f$ (*colour, colours, discoloured*) is

$$
\begin{gathered}
\text{said}_j(w) = \sum_{t \in w} \text{contribution}[t, j] , \\
d_{f,j} = \operatorname{mean}_{(b, a) \in f} \big( \text{said}_j(b) - \text{said}_j(a) \big) , \qquad
z_j = \frac{\bar d_j - \operatorname{mean} \bar d^0_j}{\operatorname{sd} \bar d^0_j} ,
\end{gathered}
$$ (eq-bri-columns)

where $\bar d_j$ is the mean over families, and $\bar d^0_j$ the same with random words in the place of every form. Random means: one of the 80 words nearest to it in frequency, token number, norm, length and plural, of as many pieces (three where there are more). A family is for *discovery* or for *judging* by a hash of its name. Discovery reads forms of one piece only. Pairs of more pieces judge as well, and these nobody had looked at.
"""

# %%
ASKED = cb.spelling.dialect()  # what was set beforehand
BAR = ASKED["conditions"]
PAIR = cb.spelling.pair_of()  # form -> (British, American)
families = cb.spelling.families()  # name -> pairs
probes = {
    name: cb.SpellingProbe(study.circuit, study.texts, BAR["like"], BAR["draws"])
    for name, study in studies.items()
}

# %% tags=["hide-input"]
GROUPS = {
    "discovery": ("discovery", True),
    "judging": ("judging", True),
    "judging, more pieces": ("judging", False),
}
columns = {}  # name -> group -> (pairs by family, d, z, null)
found = {}  # name -> its neurons, strongest first
for name, probe in probes.items():
    one = {form: len(ids) == 1 for form, ids in zip(PAIR, probe.pieces(PAIR), strict=True)}
    columns[name] = {}
    for group, (which, single) in GROUPS.items():
        chosen = {
            f: [pair for pair in pairs if all(one[w] for w in pair) == single]
            for f, pairs in families.items()
            if cb.spelling.half(f) == which
        }
        chosen = {f: pairs for f, pairs in chosen.items() if pairs}
        columns[name][group] = (chosen, *probe.z_scores(chosen.values()))
    found[name] = np.argsort(-np.abs(columns[name]["discovery"][2]), kind="stable")[:2].tolist()


def sign(name, j):
    return np.sign(columns[name]["discovery"][2][j])


def by_luck(name, group, j=None):
    """How often a draw reaches the z that was found: of the largest of all neurons, or of one, in
    the direction found."""
    _, _, z, null = columns[name][group]
    if j is None:
        return float((np.abs(null).max(1) >= np.abs(z).max()).mean())
    return float((sign(name, j) * null[:, j] >= sign(name, j) * z[j]).mean())


def agree(name, group, j):
    """The share of the families that point the way found."""
    return float((sign(name, j) * columns[name][group][1][:, j] > 0).mean())


def against(name, j):
    """Rules with two families or more in the judging half whose mean points the other way."""
    rows = [
        (f.split()[0], d[j])
        for group in list(GROUPS)[1:]
        for f, d in zip(*columns[name][group][:2], strict=True)
    ]
    mean = pd.DataFrame(rows).groupby(0)[1].agg(["mean", "size"])
    return mean.index[(mean["size"] > 1) & (sign(name, j) * mean["mean"] < 0)].tolist()


# %% tags=["hide-input"]
figure, (panels,) = cb.figures.panels(1, len(REAL), height=3.2, width=7.0)
for axis, name in zip(panels, REAL, strict=True):
    z_first, z_again = (columns[name][group][2] for group in list(GROUPS)[:2])
    limit = np.quantile(np.abs(columns[name]["discovery"][3]).max(1), 1 - BAR["columns"])
    axis.plot(z_first, z_again, ".", ms=2, color=cb.figures.COLORS[0], rasterized=True)
    for j in found[name]:
        axis.plot(z_first[j], z_again[j], "o", color=cb.figures.COLORS[1])
        side = "right" if z_first[j] > 0 else "left"
        beside = (-6 if side == "right" else 6, -3)
        axis.annotate(str(j), (z_first[j], z_again[j]), beside, textcoords="offset points", ha=side)
    for side in (-limit, limit):
        axis.axvline(side, color=cb.figures.INK, lw=0.7, ls=":")
    axis.set(xlabel="z, discovery", ylabel="z, judging", title=NAMES[name])
cb.figures.picture(
    figure,
    "9.1",
    "What British spelling adds to each neuron, by the families that discover and by those that judge, of one piece each. Dotted: what the largest of all neurons reaches in 1% of the draws of random words.",
    "Two clouds of dots. "
    + "; ".join(
        f"{NAMES[name]}: the farthest is neuron {found[name][0]} at {columns[name]['discovery'][2][found[name][0]]:.1f} and {columns[name]['judging'][2][found[name][0]]:.1f}"
        for name in REAL
    )
    + ".",
)

# %% tags=["hide-input", "nbval-check-output"]
rows = {}
for name, pair in found.items():
    column = probes[name].values @ probes[name].readout[:, pair]
    for k, j in enumerate(pair):
        pushing = (column[:, k] * sign(name, j)).topk(10).indices.tolist()
        zs = {f"z, {group}": round(float(columns[name][group][2][j]), 0) for group in GROUPS}
        share = {
            "families that agree": f"{agree(name, 'judging', j):.0%}, {agree(name, 'judging, more pieces', j):.0%}"
        }
        rows[NAMES[name], j] = (
            zs
            | share
            | {"its tokens": ", ".join(cx.texts.decode_tokens(studies[name].fixed, pushing))}
        )
pd.DataFrame(rows).T.rename_axis(["model", "neuron"])

# %% tags=["hide-input", "nbval-check-output"]
Q = "qwen"
J = found[Q][0]
most = {group: float(np.abs(columns[Q][group][3]).max()) for group in GROUPS}
z = {name: {g: float(c[2][found[name][0]]) for g, c in columns[name].items()} for name in NAMES}
mixed = torch.randn(
    studies[Q].fixed.n_neurons, len(probes[Q].values.T), generator=torch.manual_seed(0)
)
spread = torch.linalg.cholesky(probes[Q].readout.double() @ probes[Q].readout.double().T).float()
discovered = columns[Q]["discovery"][0].values()
z_mixed = float(np.abs(probes[Q].z_scores(discovered, spread @ mixed.T)[1]).max())
display(
    cb.finding(
        f"British spelling adds to the gate of neuron {J} {z[Q]['discovery']:.0f} times the spread of random words, where random words take the largest of {len(columns[Q]['discovery'][2])} gates to {most['discovery']:.0f} in {BAR['draws']} draws; in families that were not used to find it, {z[Q]['judging']:.0f} times.",
        holds=by_luck(Q, "discovery") <= BAR["columns"]
        and by_luck(Q, "judging", J) <= BAR["again"],
    ),
    cb.finding(
        f"In pairs of several pieces, which nobody had looked at, it is {z[Q]['judging, more pieces']:.0f} times, and {agree(Q, 'judging, more pieces', J):.0%} of these {len(columns[Q]['judging, more pieces'][0])} families agree.",
        holds=agree(Q, "judging, more pieces", J) >= BAR["families"],
    ),
    cb.finding(
        f"The whole layer hears some of it, for the best of as many random mixtures of its gates reaches {z_mixed:.0f}; this one hears more.",
        holds=z_mixed < z[Q]["discovery"] / 1.5,
    ),
    cb.finding(
        f"SmolLM2 has no such neuron: its best, {found['smollm2'][0]}, reaches {z['smollm2']['discovery']:.0f} and {z['smollm2']['judging']:.0f} with words of one piece, but only {agree('smollm2', 'judging, more pieces', found['smollm2'][0]):.0%} of the families of several pieces agree.",
        holds=agree("smollm2", "judging, more pieces", found["smollm2"][0]) < BAR["families"],
    ),
    cb.finding(
        f"Of mini's vocabulary too few of these words are one piece to discover anything, and its column below says little: {cb.listed(len(columns[MODEL][g][0]) for g in GROUPS)} families in the three groups.",
        holds=len(columns[MODEL]["discovery"][0]) < 5,  # then the ledger judges none of its neurons
        otherwise=f"On this model the best neuron reaches {z[MODEL]['discovery']:.0f}.",
    ),
)

# %% [markdown]
r"""
## Words that are no spelling

A neuron that hears *our* and *ise* hears letters. One that hears Britain hears the rest as well: *lorry* where Americans say *truck*, and places and offices. Two lists ask that, and none of the first look's words is in them. AUC is the chance that a British word adds more than an American one. Then five other registers, found by one half of the words of a list and judged by the other.
"""

# %% tags=["hide-input", "nbval-check-output"]
PAIRS = [pair.split() for pair in ASKED["vocabulary"]["pairs"]]
LISTS = {
    "vocabulary": [sorted(set(w)) for w in zip(*PAIRS, strict=True)],
    "matters": [ASKED["matters"][side].split() for side in ("british", "american")],
}


def heard(name, words):
    """AUC of every neuron, in the direction found, between the words of two sides."""
    ours, theirs = words
    said = (probes[name].sums([*ours, *theirs]) @ probes[name].readout[:, found[name]]).numpy()
    said = said * [sign(name, j) for j in found[name]]
    inside = np.arange(len(said)) < len(ours)
    luck = cx.neurons.auc(said, cb.nulls.permuted(inside, 1000))
    auc = cx.neurons.auc(said, inside)
    return auc, (luck >= auc).mean(0)


def drawn_again(name):
    """The vocabulary's AUC with its interval: its pairs drawn again, those that begin alike together
    where that is wider."""
    column = probes[name].readout[:, found[name][0]] * float(sign(name, found[name][0]))
    ours, theirs = ((probes[name].sums(side) @ column).numpy() for side in zip(*PAIRS, strict=True))
    units = [SimpleNamespace(document=b, domain=b.rstrip("s")[:4]) for b, _ in PAIRS]

    def of_pairs(drawn):
        inside = np.repeat([True, False], len(drawn))
        return cx.neurons.auc(np.concatenate([ours[drawn], theirs[drawn]])[:, None], inside).item()

    return cb.with_interval(of_pairs, units, units=cb.WIDER)


told = {name: {what: heard(name, words) for what, words in LISTS.items()} for name in NAMES}
registers = {}
for register, words in ASKED["registers"].items():
    for name in NAMES:
        first, again = (
            probes[name].z_scores(
                [[(w, None)] for w in words.split() if cb.spelling.half(w) == which]
            )
            for which in ("discovery", "judging")
        )
        best = int(first[1].argmax())
        p = float((again[2][:, best] >= again[1][best]).mean())
        registers[register, NAMES[name]] = best, first[1][best], again[1][best], p
table = pd.DataFrame(
    registers, index=["neuron", "z, discovery", "z, judging", "reached by luck"]
).T.rename_axis(["register", "model"])
table.round(2).round({"z, discovery": 0, "z, judging": 0}).add(0.0).astype({"neuron": int})

# %% tags=["hide-input", "nbval-check-output"]
words_auc, matters_auc = (told[Q][what][0][0] for what in LISTS)
ends = drawn_again(Q).ends
passed = {
    n: [r for r in ASKED["registers"] if registers[r, NAMES[n]][3] <= BAR["again"]] for n in NAMES
}
display(
    cb.finding(
        f"It hears British words that are no spelling, AUC {words_auc:.3f}, which luck reaches in {told[Q]['vocabulary'][1][0]:.1%} of deals. That misses the bar of {BAR['vocabulary']:.2f}. (An interval over pairs of words, asked afterwards, is [{ends[0]:.2f}, {ends[1]:.2f}].)",
        holds=ends[0] < words_auc < BAR["vocabulary"] < ends[1],
    ),
    cb.finding(
        f"It hears Britain itself: British places and offices against American ones, AUC {matters_auc:.2f}.",
        holds=matters_auc > 0.9,
    ),
    cb.finding(
        f"Of the five other registers Qwen has a neuron for {len(passed[Q])}: {cb.listed(passed[Q])}; SmolLM2 for {len(passed['smollm2'])}.",
        holds=len(passed[Q]) > len(passed["smollm2"]),
    ),
)

# %% [markdown]
r"""
Lists cannot part dialect from subject: *Parliament* is British in any spelling. Texts can, if nothing but their spelling is changed.

## Whole documents, respelled

Held-out English documents with at least two words of the table were written in both spellings, and the model's own first layer read them: no approximation. Only tokens that are alike in both count, behind the first such word, so what differs at them is what heads brought from elsewhere. A gated neuron is a product, $\text{act}(\text{gate}) \cdot \text{up}$; the circuit speaks of the gate, so gate, up and product are told apart. Documents that were British as found and those that were American are judged apart: that is the two by two of subject and spelling. (These runs are kept: `make evidence`.)
"""

# %% tags=["hide-input"]
KEPT = cb.evidence("british.json")


def crop(tokenizer, parts):
    """The ids, and of each token at which character of what is alike it ends; -1 in a word."""
    got = tokenizer(
        "".join(p for p, _ in parts), return_offsets_mapping=True, add_special_tokens=False
    )
    alike = np.concatenate([np.full(len(p), same) for p, same in parts])
    number = alike.cumsum()
    ends = [int(number[b - 1]) if alike[a:b].all() else -1 for a, b in got["offset_mapping"]]
    return got["input_ids"], ends


class Heard(torch.nn.Module):
    """In the place of an MLP: keeps what that would read."""

    def forward(self, x):
        self.x = x[0]
        return x


def first_layer(name):
    """What the model's own first MLP reads of a text, at every token, and its gate and up."""
    model = cx.load(name, layers=1).original_model.model
    mlp, model.layers[0].mlp = model.layers[0].mlp, (heard := Heard())

    @torch.no_grad()
    def reads(ids):
        model(torch.tensor([ids]))
        return heard.x

    return reads, mlp.gate_proj.weight.detach().T, mlp.up_proj.weight.detach().T


def documents_of(name, neurons):
    """Held-out documents in both spellings, and between: means over the tokens that are alike."""
    reads, gate, up = first_layer(name)
    tokenizer = studies[name].fixed.tokenizer
    reader = cx.texts.Reader.of(studies[name].fixed, 512)
    begin = [int(studies[name].passages[0].tokens[0])]
    probe, rng, rows, moves, typical = probes[name], np.random.default_rng(0), [], [], []
    sizes = dict(zip(PAIR, map(len, probe.pieces(PAIR)), strict=True))
    by_size = defaultdict(list)
    for word in probe.counts:
        if word.islower() and word not in PAIR:
            by_size[len(probe.pieces([word])[0])].append(word)

    def seen(source, form_of, behind):
        """At the tokens behind a place that are alike in all spellings: token d_model."""
        ids, ends = crop(tokenizer, cb.spelling.respelled(source, form_of))
        x = reads(begin + ids)[len(begin) :]
        return {end: x[k] for k, end in enumerate(ends) if end > behind}

    def mean_of(versions, of=slice(None)):
        alike = sorted(set.intersection(*map(set, versions)))
        x = torch.stack([torch.stack([v[k] for k in alike]) for v in versions])
        g, u = x @ gate[:, of], x @ up[:, of]
        both = torch.nn.functional.silu(g) * u
        return torch.stack([g, u, both]).mean(2), len(alike)  # (gate up product) version neuron

    english = [
        t
        for t in cx.texts.collection(reader)
        if t.dialect.startswith("en") and len(cb.spelling.matches(t.source)) >= BAR["least"]
    ]
    for t in cx.texts.progress(english, f"{NAMES[name]}: documents"):
        found, first = cb.spelling.matches(t.source), cb.spelling.matches(t.source)[0].start()
        order = (rng.permutation(len(found)) / len(found)).tolist()
        turn = dict(zip([m.start() for m in found], order, strict=True))

        def dosed(share, turn=turn):
            return lambda word: PAIR[word.group()][turn[word.start()] >= share]

        doses = BAR["doses"] if t.half == "B" else [0.0, 1.0]
        versions = [seen(t.source, dosed(share), first) for share in doses]
        if not set.intersection(*map(set, versions)):
            continue
        (whole, places) = mean_of([versions[0], versions[-1]])
        moves.append((t.half, t.document, whole[:, 1] - whole[:, 0]))
        typical.append(whole[2, 0].abs())
        told = mean_of(versions, neurons)[0].round(decimals=5)
        row = {"text": t.name, "document": t.document, "half": t.half, "words": len(found)}
        row["British as found"] = np.mean([PAIR[m.group()][0] == m.group() for m in found]).round(3)
        row |= {"places": places, "told": told.tolist()}
        if t.half == "B" and sum("random" in r for r in rows) < RANDOM_DOCUMENTS:
            row["random"] = []
            for _ in range(BAR["random_words"]):
                forms = {
                    f: rng.choice(by_size[min(sizes[f], 3)]) for m in found for f in PAIR[m.group()]
                }
                two = [
                    seen(t.source, lambda m, k=k, to=forms: to[PAIR[m.group()][k]], first)
                    for k in (1, 0)
                ]
                one, other = mean_of(two, neurons)[0].unbind(1)
                row["random"].append((other - one).tolist())
        rows.append(row)
    ranks = {}
    for half_ in "AB":
        d = pd.DataFrame(
            {k: m.flatten().numpy() for k, (h, _, m) in enumerate(moves) if h == half_}
        ).T
        of = [document for h, document, _ in moves if h == half_]
        d = d.groupby(np.array(of)).mean()
        t_all = (d.mean() / d.std() * len(d) ** 0.5).abs().to_numpy().reshape(3, -1)
        ranks[half_] = [[int((row > row[j]).sum()) + 1 for row in t_all] for j in neurons]
    product = torch.stack([m[2] for h, _, m in moves if h == "A"])
    sizes_of = torch.stack(typical).mean(0)
    return {"neurons": neurons, "documents": rows, "rank of |t|": ranks}, product.mean(0), sizes_of


RANDOM_DOCUMENTS = 24  # the first of the judging half, for random words


def contexts_of(tokenizer, texts, begin):
    """Of each document the window with the most words that can be respelled token by token: how
    many, the text, and both spellings as ids."""
    size = {f: len(tokenizer.encode(f" {f}", add_special_tokens=False)) for f in PAIR}
    found, length = {}, BAR["context"] - len(begin)

    def spelled(source, side):
        def one(m):
            pair = PAIR[m.group()]
            return pair[side] if size[pair[0]] == size[pair[1]] else m.group()

        return crop(tokenizer, cb.spelling.respelled(source, one))[0]

    for t in texts:
        british, american = (spelled(t.source, side) for side in (0, 1))
        if len(british) != len(american) or len(american) < length:
            continue
        differ = [k for k, (b, a) in enumerate(zip(british, american, strict=True)) if b != a]
        starts = [max(0, min(k - 2, len(american) - length)) for k in differ]
        most = max(((sum(s <= k < s + length for k in differ), -s) for s in starts), default=(0, 0))
        if most[0] >= BAR["held"] and most[0] > found.get(t.document, (0,))[0]:
            cut = slice(-most[1], -most[1] + length)
            found[t.document] = (most[0], t, begin + american[cut], begin + british[cut])
    return sorted(found.values(), key=lambda one: (-one[0], one[1].name))[: BAR["contexts"]]


@torch.no_grad()
def use_of(name, neurons, moved, size):
    """The log odds of the British form behind contexts in both spellings, and behind the British
    one with parts of the model as in the American one."""
    file = Path(cx.models.locate(name))
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    layers, tokenizer = model.model.layers, studies[name].fixed.tokenizer
    down, o_proj = layers[0].mlp.down_proj, layers[0].self_attn.o_proj
    writes = down.weight.norm(dim=0)
    forty = (moved.abs() * writes).argsort(descending=True).tolist()[: BAR["forty"]]
    typical = (size * writes).log()
    others = []
    for j in forty:
        far = (typical - typical[j]).abs()
        far[forty + others] = torch.inf
        others.append(int(far.argmin()))
    begin = [int(studies[name].passages[0].tokens[0])]
    reader = cx.texts.Reader.of(studies[name].fixed, 512)
    texts = [t for t in cx.texts.collection(reader, half="B") if t.dialect.startswith("en")]

    def ids(string):
        return tokenizer.encode(string, add_special_tokens=False)

    asked = [
        (pair.split(), ids("\n\n" + sentence), [ids(f" {f}") for f in pair.split()])
        for pair, sentence in ASKED["use"].items()
    ]
    asked = [one for one in asked if all(len(f) == 1 for f in one[2])]
    # every sentence follows the context alone: one row, in which sentences do not see each other
    C, sizes = BAR["context"], [len(of) for _, of, _ in asked]
    total, ends = C + sum(sizes), C - 1 + np.cumsum(sizes)
    owner = torch.tensor([0] * C + [k + 1 for k, of in enumerate(sizes) for _ in range(of)])
    seen = torch.ones(total, total).tril().bool() & ((owner == owner[:, None]) | (owner == 0))
    mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
    place = torch.tensor([[*range(C), *(C + k for of in sizes for k in range(of))]])
    forms = torch.tensor([[f[0] for f in both] for *_, both in asked])  # sentence form

    def odds(context, hooks=()):
        """Log odds at the end of every sentence. A hook: a module, whether it is what the module is
        given, and what becomes of it."""
        handles = [
            m.register_forward_pre_hook(lambda m, a, do=do: (do(a[0]), *a[1:]))
            if given
            else m.register_forward_hook(
                lambda m, a, o, do=do: (do(o[0]), *o[1:]) if isinstance(o, tuple) else do(o)
            )
            for m, given, do in hooks
        ]
        row = torch.tensor([context + [k for _, of, _ in asked for k in of]])
        try:
            x = model.model(row, position_ids=place, attention_mask=mask, use_cache=False)
        finally:
            for handle in handles:
                handle.remove()
        logits = model.lm_head(x.last_hidden_state[0, torch.from_numpy(ends)])
        return (logits.gather(1, forms[:, :1]) - logits.gather(1, forms[:, 1:]))[:, 0]

    kept, held = [], {}

    def keep(part):
        return lambda x: held.setdefault(part, x.clone())

    def put(part, where=None, some=None):
        def do(x):
            x = x.clone()
            if some is not None:
                x[..., some] = held[part][..., some]
            elif where is not None:
                x[:, where] = held[part][:, where]
            else:
                x = held[part]
            return x

        return do

    after = range(0, len(layers) - 3, 4)
    parts = {"post": (down, True), "z": (o_proj, True), "attention": (layers[0].self_attn, False)}
    parts |= {"MLP": (layers[0].mlp, False)} | {k: (layers[k], False) for k in after}
    d_head = o_proj.weight.shape[1] // studies[name].fixed.n_heads
    inside = [h * d_head + k for h in studies[name].heads for k in range(d_head)]
    contexts = contexts_of(tokenizer, texts, begin)
    for words, t, american, british in cx.texts.progress(contexts, f"{NAMES[name]}: use"):
        held.clear()
        said = {"American": odds(american, [(*fixed, keep(part)) for part, fixed in parts.items()])}
        said["British"] = odds(british)
        own = [k for k in range(C) if american[k] != british[k]]
        elsewhere = [k for k in range(total) if k not in own]
        as_american = {
            "neuron": ("post", None, neurons[:1]),
            "neurons": ("post", None, neurons),
            "forty": ("post", None, forty),
            "forty others": ("post", None, others),
            "stable heads": ("z", None, inside),
            "attention elsewhere": ("attention", elsewhere, None),
            "MLP elsewhere": ("MLP", elsewhere, None),
            "MLP": ("MLP", None, None),
            "stream elsewhere": (0, elsewhere, None),
        } | {f"words after layer {k + 1}": (k, own, None) for k in after}
        for what, (part, where, some) in as_american.items():
            said[what] = odds(british, [(*parts[part], put(part, where, some))])
        in_it = {
            cb.spelling.family(PAIR[m.group()])
            for m in cb.spelling.matches(tokenizer.decode(american))
        }
        row = {"text": t.name, "document": t.document, "words": words, "families": sorted(in_it)}
        kept.append(row | {"odds": {k: v.tolist() for k, v in said.items()}})
    of = [cb.spelling.family(tuple(pair)) for pair, *_ in asked]
    return {"families": of, "contexts": kept, "forty": forty, "others": others}


# %% tags=["hide-input"]
if MODELS:
    from transformers import AutoModelForCausalLM

    kept = {}
    for name in [name for name in MODELS if name in REAL]:
        file, sum_of = next(iter(cx.models.real_models()[name]["files"].items()))
        read, moved, size = documents_of(name, found[name])
        kept[name] = {"file": file, "sha256": sum_of} | read
        KEPT.write_text(json.dumps(kept) + "\n")
        if name == REAL[0]:
            kept[name]["use"] = use_of(name, found[name], moved, size)
    KEPT.write_text(json.dumps(kept) + "\n")
kept = json.loads(KEPT.read_text())

# %% tags=["hide-input"]
of = {}  # name -> part -> document -> difference, for the strongest neuron
for name in kept:
    rows = pd.DataFrame(kept[name]["documents"])
    for k, part in enumerate(("gate", "up", "product")):
        rows[part] = [
            (told_[k][-1][0] - told_[k][0][0]) * sign(name, found[name][0])
            for told_ in rows["told"]
        ]
        rows[f"{part}, American"] = [told_[k][0][0] for told_ in rows["told"]]
    of[name] = rows


def over_documents(values, documents):
    """The mean over documents, its 95% interval, and the means."""
    means = pd.Series(np.asarray(values)).groupby(np.asarray(documents)).mean().to_numpy()
    half_width = 1.96 * means.std(ddof=1) / len(means) ** 0.5
    return means.mean(), means.mean() - half_width, means.mean() + half_width, means


def heard_in(name):
    """The judging half's documents: all, by side, by dose, and under random words."""
    rows = of[name][of[name]["half"] == "B"]
    side = np.where(rows["British as found"] > 0.5, "British", "American")
    to = sign(name, found[name][0])
    doses = np.array([np.array(t)[0, :, 0] - t[0][0][0] for t in rows["told"]]) * to
    drawn = rows["random"].map(lambda r: isinstance(r, list))
    random = np.array(rows["random"][drawn].tolist())[:, :, 0, 0].mean(0)
    return {
        "rows": rows,
        "gate": over_documents(rows["gate"], rows["document"]),
        "product": over_documents(rows["product"], rows["document"]),
        "side": {
            w: over_documents(*(rows[k][side == w] for k in ("gate", "document"))) for w in SIDES
        },
        "dose": [over_documents(c, rows["document"])[:3] for c in doses.T],
        "random": float(np.abs(random).max()),
        "in those": float(rows["gate"][drawn].mean()),
    }


SIDES = "American", "British"
documents = {name: heard_in(name) for name in kept}
judged, gate, product, by_side, dose = (
    documents[Q][k] for k in ("rows", "gate", "product", "side", "dose")
)
figure, ((left, right),) = cb.figures.panels(1, 2, height=2.8, width=7.0)
for k, (which, told_by) in enumerate(by_side.items()):
    means = np.sort(told_by[3])
    left.plot(
        means,
        np.linspace(0, 1, len(means)),
        label=f"{which} documents ({len(means)})",
        color=cb.figures.COLORS[k],
    )
left.axvline(0, color=cb.figures.INK, lw=0.7)
left.set(
    xlabel=f"gate of neuron {J}, British less American spelling", ylabel="share of documents below"
)
left.legend(fontsize=8)
right.errorbar(
    BAR["doses"],
    [m for m, *_ in dose],
    yerr=[[m - low for m, low, _ in dose], [high - m for m, _, high in dose]],
    marker="o",
    color=cb.figures.COLORS[0],
)
right.set(xlabel="share of the words respelled", ylabel="gate, less American spelling")
cb.figures.picture(
    figure,
    "9.2",
    f"Left: what British spelling does to the gate of neuron {J} in {judged['document'].nunique()} documents of the judging half. Right: how it grows with the share of the words, mean and 95% interval over documents.",
    f"Left, two rising lines, nearly all right of zero. Right, a line that rises from 0 to {dose[-1][0]:.3f}.",
)

# %% tags=["hide-input", "nbval-check-output"]
spread_of = {
    part: judged.groupby("document")[f"{part}, American"].mean().std()
    for part in ("gate", "product")
}
at_random, in_those = documents[Q]["random"], documents[Q]["in those"]
above = float((gate[3] > 0).mean())
words = judged["words"].mean()
display(
    cb.finding(
        f"In {above:.0%} of {len(gate[3])} documents of the judging half the gate is higher where the spelling is British, at tokens that are alike in both.",
        holds=above >= BAR["documents"],
    ),
    cb.finding(
        f"It is so in documents that were American as found, +{by_side['American'][0]:.3f} [{by_side['American'][1]:.3f}, {by_side['American'][2]:.3f}], and in those that were British, +{by_side['British'][0]:.3f} [{by_side['British'][1]:.3f}, {by_side['British'][2]:.3f}].",
        holds=min(s[1] for s in by_side.values()) > 0,
    ),
    cb.finding(
        f"It grows with every quarter of the words, to {gate[0] / spread_of['gate']:.2f} of the gate's spread over documents, by {words:.1f} words in {judged['places'].mean():.0f} tokens.",
        holds=bool((np.diff([m for m, *_ in dose]) > 0).all()),
    ),
    cb.finding(
        f"Random words in their place move it by {at_random:.3f} at most in {BAR['random_words']} draws, where spelling moves it by {in_those:.3f} in the same {len(judged['random'].dropna())} texts.",
        holds=bool(at_random < in_those),
    ),
    cb.finding(
        f"The neuron is silent about it: its product moves by {product[0] / spread_of['product']:+.2f} of its spread over documents, for the up half falls while the gate rises.",
        holds=abs(product[0] / spread_of["product"]) < gate[0] / spread_of["gate"] / 2,
        otherwise=f"Its product moves by {product[0] / spread_of['product']:+.2f} of its spread over documents.",
    ),
)

# %% [markdown]
r"""
## Is it used?

Let the next word have two spellings: *The sky that morning was a dull*, and then *grey* or *gray*? Behind a British context the log odds of the British form are higher than behind an American one, and the difference is the *shift*. Contexts hold at least three respelled words, each of as many tokens in both forms, so both stand in line, token by token. Then the model reads the British context with one part of itself as it was in the American one, and the share of the shift that is lost is what this part carries. Where the context holds a word of the asked family, copying it would do; those cases are kept apart.
"""

# %% tags=["hide-input"]
use = kept[Q]["use"]
rows = [
    {"context": c["text"], "copied": f in c["families"], **{k: v[i] for k, v in c["odds"].items()}}
    for c in use["contexts"]
    for i, f in enumerate(use["families"])
]
rows = pd.DataFrame(rows)
free = rows[~rows["copied"]]
shift = free["British"] - free["American"]


def lost(what, of=None):
    """The share of the shift that is lost, and its interval over contexts."""
    of = free if of is None else of
    mean = of.drop(columns="copied").groupby("context").mean()
    down, all_of = (mean["British"] - mean[k] for k in (what, "American"))
    rng = np.random.default_rng(0)
    draws = rng.integers(len(mean), size=(2000, len(mean)))
    again = down.to_numpy()[draws].sum(1) / all_of.to_numpy()[draws].sum(1)
    return down.sum() / all_of.sum(), *np.quantile(again, [0.025, 0.975])


PARTS = {
    "neuron": f"neuron {J}",
    "neurons": f"neurons {found[Q][0]} and {found[Q][1]}",
    "forty": "the forty that move most",
    "forty others": "forty others of like size",
    "stable heads": "the stable heads",
    "MLP": "the first MLP, at every token",
    "stream elsewhere": "all after layer 1, but at the words",
} | {
    k: f"the words themselves, after layer {k.split()[-1]}"
    for k in rows
    if k.startswith("words after")
}
shares = {part: lost(part) for part in PARTS}
figure, ((axis,),) = cb.figures.panels(height=3.6, width=6.0)
for k, (share, low, high) in enumerate(shares.values()):
    axis.plot([low, high], [k, k], color=cb.figures.COLORS[0])
    axis.plot(share, k, "o", color=cb.figures.COLORS[0])
axis.axvline(0, color=cb.figures.INK, lw=0.7)
axis.set_yticks(range(len(PARTS)), PARTS.values())
axis.set(xlabel="share of the shift that is lost", ylim=(len(PARTS) - 0.5, -0.5))
cb.figures.picture(
    figure,
    "9.3",
    f"What carries the shift: a part of Qwen is as in the American context, all else reads the British one. {len(use['contexts'])} contexts, {len(use['families'])} sentences, 95% intervals over contexts.",
    "Dots with intervals: " + "; ".join(f"{PARTS[k]} {s[0]:.0%}" for k, s in shares.items()) + ".",
)

# %% tags=["hide-input", "nbval-check-output"]
words_after = [k for k in PARTS if k.startswith("words after")]
copied = rows[rows["copied"]]
display(
    cb.finding(
        f"British spelling of the context raises the log odds of the next word's British form by {shift.mean():.1f} nats, in {(free.groupby('context')['British'].mean() > free.groupby('context')['American'].mean()).sum()} of {free['context'].nunique()} contexts.",
        holds=shift.mean() > 0,
    ),
    cb.finding(
        f"Neuron {J} is not used for it: as in the American context it costs {shares['neuron'][0]:.1%} of the shift [{shares['neuron'][1]:.1%}, {shares['neuron'][2]:.1%}], where {BAR['used']:.0%} was asked; below zero it works against the shift.",
        holds=shares["neuron"][1] <= BAR["used"],
    ),
    cb.finding(
        f"Nor are the forty neurons that move most, {shares['forty'][0]:.1%}, nor anything that the first layer puts elsewhere than at the words, {shares['stream elsewhere'][0]:.1%}.",
        holds=max(shares["forty"][1], shares["stream elsewhere"][1]) <= BAR["used"],
    ),
    cb.finding(
        f"The stable heads have a part in it: as in the American context they cost {shares['stable heads'][0]:.1%} of the shift [{shares['stable heads'][1]:.1%}, {shares['stable heads'][2]:.1%}].",
        holds=shares["stable heads"][1] > BAR["used"],
    ),
    cb.finding(
        f"The words carry it themselves: as in the American context after layer 1 they cost {shares[words_after[0]][0]:.0%} of it, and still {shares[words_after[-1]][0]:.0%} after layer {words_after[-1].split()[-1]} of 28, so late heads read it off them.",
        holds=shares[words_after[0]][1] > 0.9 and shares[words_after[-1]][1] > 0.3,
    ),
    cb.finding(
        f"Where the context holds the asked word's family the shift is {(copied['British'] - copied['American']).mean():.1f} nats ({len(copied)} cases).",
        holds=len(copied) > 0,
    ),
)

# %% [markdown]
r"""
So a gate of the first layer rises wherever the text is spelled the British way, by a part of its spread between documents, and the prediction of spelling asks the words instead.

(sec-bri-verdict)=
## What was set before, and what came of it
"""

# %% tags=["hide-input", "nbval-check-output"]
S = "smollm2"


def verdicts(name):
    """Each condition: what was found, and whether it was met."""
    j = found[name][0]
    auc, p = (v[0] for v in told[name]["vocabulary"])
    again = [by_luck(name, g, j) for g in list(GROUPS)[1:]]
    agrees = [agree(name, g, j) for g in list(GROUPS)[1:]]
    wrong, luck = against(name, j), by_luck(name, "discovery")
    yield "columns", f"{luck:.3f}", luck <= BAR["columns"]
    yield "again", f"{again[0]:.3f}, {again[1]:.3f}", max(again) <= BAR["again"]
    yield "families", f"{agrees[0]:.0%}, {agrees[1]:.0%}", min(agrees) >= BAR["families"]
    yield "rules", f"{len(wrong)}", len(wrong) <= BAR["rules"]
    yield "vocabulary", f"{auc:.3f}", auc >= BAR["vocabulary"]
    yield "by_luck", f"{p:.3f}", p <= BAR["by_luck"]
    if name in documents:
        heard, share = documents[name], float((documents[name]["gate"][3] > 0).mean())
        lows = [round(low, 3) + 0.0 for _, low, *_ in heard["side"].values()]
        yield "documents", f"{share:.0%}", share >= BAR["documents"]
        grown = np.diff([m for m, *_ in heard["dose"]])
        yield "doses", f"{(grown > 0).sum()} of {len(grown)}", bool((grown > 0).all())
        yield "sides", f"from {lows[0]:.3f}, {lows[1]:.3f}", min(lows) > 0
        yield "random_words", f"{heard['random']:.3f}", heard["random"] < heard["in those"]


answers = {
    NAMES[name]: {k: f"{v}: {'yes' if ok else 'no'}" for k, v, ok in verdicts(name)}
    for name in NAMES
}
ASKS = {
    "columns": "columns: discovery, by luck",
    "again": "judging, by luck: one piece, more",
    "families": "families that agree: one piece, more",
    "rules": "rules that point the other way",
    "vocabulary": "words that are no spelling: AUC",
    "by_luck": "reached by luck",
    "documents": "documents respelled: share that rises",
    "doses": "grows with every dose",
    "sides": "in American and in British documents",
    "random_words": "random words move it less",
    "used": "used: share of the shift",
}
answers[NAMES[Q]]["used"] = (
    f"{shares['neuron'][0]:.1%}: {'yes' if shares['neuron'][1] > BAR['used'] else 'no'}"
)
table = pd.DataFrame(answers).fillna("not asked")
table.insert(0, "bar", [str(BAR[k]) for k in table.index])
table.rename(ASKS).rename_axis("condition")

# %% tags=["hide-input", "nbval-check-output"]
hears = {k: v.endswith("yes") for k, v in answers["Qwen"].items() if k != "used"}
cb.finding(
    f"A gate of Qwen hears British English: it met {sum(hears.values())} of the {len(hears)} conditions about hearing that were set before; the tenth, about words that are no spelling, it misses.",
    holds=[k for k, ok in hears.items() if not ok] == ["vocabulary"] and len(hears) == 10,
)

# %% tags=["hide-input"]
if MODELS is not None:
    parts = {"stable heads": "the stable heads", words_after[0]: "the words themselves, layer 1"}
    parts |= {words_after[-1]: f"the words themselves, layer {words_after[-1].split()[-1]}"}
    carried = {
        f"spelling of the next word: {what}": f"{shares[part][0]:.0%}"
        for part, what in parts.items()
    }
    lines = pd.DataFrame({NAMES[Q]: carried})
    asked = [[ok for *_, ok in verdicts(name)] for name in REAL]
    met = [f"{sum(ok)} of {len(ok)} conditions" for ok in asked]
    lines.loc["a British neuron meets", [NAMES[name] for name in REAL]] = met
    keep_rows("09_british", lines.fillna(""))

# %% [markdown]
r"""
## What breaks it

- **Spelling is not dialect.** Documents were respelled, not rewritten; the two lists of words speak for the rest, and there subject and dialect are one.
- **A gate is half a neuron.** Read by its gate the neuron hears; what it writes hardly changes. A column of the circuit says nothing of the other half.
- **Selected by words of one piece**, for only these have a column of their own. The several-piece words share pieces (*ise*, *our*) with each other; that a rule points the same way is one fact, not forty. And z grows with the number of families: a larger one is surer, not stronger.
- **Newspapers and old books** have their own registers here, and Britain's are among them; the lists of words do not part a British newspaper from British English, and only the respelled documents do. Its loudest tokens name no dialect: most are rare.
- **4-bit weights**; another training may have put it elsewhere.

## Claims
"""

# %% tags=["hide-input", "nbval-check-output"]
TELL = f"{MODEL}: neurons that tell British from American spelling in all three groups of families"
heard_by = columns[MODEL]
limit = np.quantile(np.abs(heard_by["discovery"][3]).max(1), 1 - BAR["columns"])
passing = [
    j
    for j in np.flatnonzero(np.abs(heard_by["discovery"][2]) > limit)
    if all(
        np.sign(heard_by["discovery"][2][j]) * heard_by[g][2][j] > limit for g in list(GROUPS)[1:]
    )
]
few = len(heard_by["discovery"][0]) < 5  # families: too few to discover anything
many = float("nan") if few else float(len(passing))
claims = [cb.Claim("commonwealth_neuron", TELL, many, digits=0)]
NAMED = [300, 704] if studies[MODEL].fixed.n_neurons == 3072 else []  # GPT-2 small's numbers
model = cx.load(MODEL)
if NAMED:
    MORE = "share of families with more in British spelling"
    share = (heard_by["judging, more pieces"][1] > 0).mean(0)
    cosine = torch.cosine_similarity(*model.blocks[0].mlp.W_out[NAMED].detach().cpu(), dim=0)
    claims += [
        cb.Claim("neuron_300", f"neuron 300: {MORE}", float(share[300])),
        cb.Claim("neuron_704", f"neuron 704: {MORE}", float(share[704])),
        cb.Claim("opposite", "neurons 300 and 704: cosine of what they write", float(cosine)),
    ]
cb.ledger(model, *claims)

# %% [markdown]
r"""
## What you may now assume

- A column read from weights can be asked a question that was set beforehand, and can answer no.
- Qwen's gate 6419 rises with British spelling, in words and documents that did not choose it.
- To know is not to use: here the prediction of spelling takes another way.

## Exercises

1. **Predict, then run.** Which of Qwen's other neurons would you expect among the ten farthest in Figure 9.1, and in which direction? Look at their tokens (`probes["qwen"].values @ probes["qwen"].readout[:, j]`).
2. **Break this.** Swap the British and the American forms of half of the discovery families, chosen at random. What becomes of the largest $z$?

```{admonition} Solutions
:class: dropdown

1. Neurons that fall: those for American matters, or for registers without Britain. The list is long, for spelling moves most neurons a little.
2. It falls to what the draws reach: the families no longer share a sign.
```

## Where this comes from

The neuron for Commonwealth English is from {cite:t}`gibson2025decomposing`; numbers 300 and 704 from {cite:t}`gibson2025contextual`. The table of spellings, the conditions, documents, and the test of use are this book's.
"""
