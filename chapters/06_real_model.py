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
# One minute with a real model
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To put GPT-2 itself into the table's last row, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
MODELS = None  # real models to run for what is kept: make evidence CHAPTER=06_real_model

# Fixed before these models were run for this page, and not changed afterwards:
SEEN = 250  # texts of the collection that told the stored layers how common tokens are
TEXTS = 400  # texts of the documents after these: half A chooses heads and labels, half B judges
MANY = 100  # neurons that are judged: those that single tokens can move farthest
FEW = 20  # the first of them, shown whole
PAGES = 20  # other pages to calibrate on: texts of half A, drawn with SEED
THIRD = 3  # what each approximation costs is of every third text of half B
DRAWS = 1000  # sets of FEW other neurons, or of random mixtures of all
SEED = 0

# %% tags=["hide-input"]
import json
import math
import time
import unicodedata
from collections import Counter

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
REAL = {"qwen": "Qwen", "smollm2": "SmolLM2", "minilm": "MiniLM"}
KEPT = cx.models.DATA / "evidence" / "real.json"


def texts_for(reader):
    """The texts, in a model's own tokens: of documents that its stored layer has not seen."""
    seen, fresh = set(), []
    for k, text in enumerate(cx.texts.held_out_stream(reader, None, None)):
        if k < SEEN:
            seen.add(text.document)
        elif text.document not in seen and len(fresh) < TEXTS:
            fresh.append(text)
        elif len(fresh) == TEXTS:
            break
    return fresh


def studied(at):
    """The study of a first layer, and all the texts: heads and their spread are half A's."""
    texts = texts_for(cx.texts.Reader(at.tokenizer, at.length, at.d_vocab))
    return cx.study(at, [text for text in texts if text.half == "A"], or_all=True), texts


# %% tags=["hide-input"]
def truth_of(name):
    """What is kept of a real model, as tensors and as facts, from the model itself."""
    passes, began = [], time.perf_counter()
    model = cx.load(name, layers=1)
    encoder = isinstance(model, cx.models.Encoder)
    first = model.original_model.encoder.layer[0] if encoder else model.blocks[0].attn
    first.register_forward_pre_hook(lambda *_: passes.append(1))
    loaded = time.perf_counter()
    reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
    common = list(cx.texts.held_out_stream(reader, SEEN, None))
    at = cx.destination(model, common, 128 if encoder else 256)
    study, texts = studied(at)
    circuit, split = study.circuit, time.perf_counter()
    top = cx.find_neurons(circuit, threshold=-math.inf)["top"]
    found, x = time.perf_counter(), at.placed(texts)
    parts = [
        (at.layer.inside(few), at.scale(few, at.outputs(few))[:, 0],
         cx.total_variation(at.layer.rows(few), at.split.rows(few)))
        for few in x.split(32)
    ]  # fmt: skip
    inside, scale, tv = (torch.cat(part) for part in zip(*parts, strict=True))
    on_B = [text for text in texts if text.half == "B"]
    strongest = top.index[:MANY].tolist()
    budget = cx.evaluation.error_budget(circuit, on_B[::THIRD], strongest)[["r", "fvu"]]
    every = {
        how: cx.evaluate(one, on_B)[["r", "fvu"]].median().round(4).to_dict()
        for how, one in {"one page": circuit, "own": circuit.self_normalised()}.items()
    }
    real = cx.models.real_models()[name]
    source = next(f for f in real["files"] if f.endswith((".gguf", ".safetensors")))
    tensors = {
        "inside": inside[:, study.heads].half().contiguous(),  # text head d_head
        "scale": scale,
        "tv": tv.median(0).values,
        "top": top.sort_index().to_numpy("float32", copy=True),
    }
    facts = {
        "source": source,
        "sha256": real["files"][source],
        "n": at.n,
        "heads": list(study.heads),
        "calibrating": study.calibrating.name,
        "all neurons": every,
        "budget": [[made, item, *row] for (made, item), row in budget.round(4).T.items()],
        "seconds": {"load": loaded - began, "split": split - loaded, "find": found - split},
        "passes": len(passes),
        "bytes": (cx.models.kept_folder(name) / source).stat().st_size,
    }
    facts["seconds"] = {what: round(took, 1) for what, took in facts["seconds"].items()}
    return {k: torch.as_tensor(v) for k, v in tensors.items()}, facts, texts


if MODELS:
    held, told, names = {}, {}, None
    for name in MODELS:
        tensors, told[name], texts = truth_of(name)
        held |= {f"{name}.{key}": tensor for key, tensor in tensors.items()}
        assert names in (None, [text.name for text in texts]), "the same texts in every model"
        names = [text.name for text in texts]
        print(name, told[name])
    save_file(held, KEPT.with_suffix(".safetensors"))
    KEPT.write_text(json.dumps({"texts": names, "models": told}, indent=1) + "\n")
kept, of_model = json.loads(KEPT.read_text()), load_file(KEPT.with_suffix(".safetensors"))


# %% tags=["hide-input"]
class First:
    """A first layer on the texts: its study, what its heads really add, and how it is held."""

    def __init__(self, at, held=None):
        self.at, (self.study, texts) = at, studied(at)
        self.roster, self.heads = self.study.roster, list(self.study.heads)
        self.circuit, self.x = self.study.circuit, at.placed(texts)
        half = np.array([text.half for text in texts])
        self.A, self.B = (torch.from_numpy(np.flatnonzero(half == h)) for h in "AB")
        self.on_B = [texts[i] for i in self.B]
        self.domain = np.array([text.domain for text in texts])
        self.share = cx.denominators.speaks(at, [texts[i] for i in self.A])
        if held is None:  # the model itself is at hand
            self.truth = torch.cat([at.truth(x, self.heads) for x in self.x.split(64)])
            self.scale = torch.cat([at.scale(x, at.outputs(x))[:, 0] for x in self.x.split(64)])
            rows = at.true_layer().rows, at.split.rows
            tv = [cx.total_variation(*(row(x) for row in rows)) for x in self.x.split(64)]
            self.tv = torch.cat(tv).median(0).values
            top = cx.find_neurons(self.circuit, threshold=-math.inf)["top"].sort_index()
            self.top = torch.tensor(top.to_numpy())
        else:  # what the heads gathered is kept, and W_O, W_in and its scale make it a truth
            self.tv, self.top, self.scale = held["tv"], held["top"], held["scale"]
            W_O = at.readout.W_O[self.heads].flatten(0, 1)
            stream = held["inside"].float().flatten(1) @ W_O
            self.truth = stream @ at.readout.W_in / self.scale[:, None]
        self.J = self.top.argsort(descending=True, stable=True)[:MANY].tolist()
        self.denominators = at.denominators(self.x)[:, self.heads]  # text head
        by_token = self.circuit.weighted_values.flatten(1)
        gathered = torch.stack([self.circuit.kernel @ by_token[x] for x in self.x])
        self.inside = gathered.unflatten(1, (len(self.heads), -1))  # text head d_head, one page's
        better = self.circuit.self_normalised()
        self.own = torch.cat([better.summary(x) for x in self.x[self.B].split(64)])

    def told(self, inside, neurons=None, scale=1.0):
        """What the neurons are told by what the heads gathered: text neuron."""
        readout = self.circuit.readout[..., slice(None) if neurons is None else neurons]
        return inside.flatten(1) @ readout.flatten(0, 1) / scale

    def on_page(self, text):
        """How far each head, with the scale, would be off had this text calibrated."""
        scale = self.at.scale(self.x[text], self.at.rebuilt_outputs(self.x[text]))
        return self.circuit.denominators / self.denominators[text] * self.circuit.scale / scale

    def over_heads(self, values):
        """Mean over the stable heads, weighted by who speaks."""
        weight = self.share[self.heads]
        return float(np.asarray(values)[self.heads] @ weight / weight.sum())


def r_and_fvu(guess, true):
    """Medians over neurons of r and FVU, as a statistic of the texts that are drawn."""
    centre = true.mean(0)
    p, q = guess - centre, true - centre
    parts = p, q, p * p, q * q, p * q

    def of_drawn(drawn):
        weight = torch.bincount(torch.as_tensor(drawn), minlength=len(p)).float()
        P, Q, PP, QQ, PQ = (weight @ part / weight.sum() for part in parts)
        vp, vq, both = PP - P * P, QQ - Q * Q, PQ - P * Q
        each = torch.stack([both / (vp * vq).sqrt(), (PP + QQ - 2 * PQ) / vq])
        return each.quantile(0.5, dim=1).numpy()

    return of_drawn


def interval(guess, true, texts, draws=199):
    """Both, and their 95% intervals had other documents been read."""
    statistic = r_and_fvu(guess, true)
    ends = [cx.claims.by_document(lambda d, k=k: statistic(d)[k], texts, draws) for k in (0, 1)]
    return statistic(np.arange(len(true))), np.array(ends)


def held_against(first):
    """r and FVU on half B, with one page's constants and with the text's own, each with an
    interval: had other documents been read, or other pages calibrated, whichever is wider.
    """
    J, B = first.J, first.B
    all_of_B, true, inside = np.arange(len(B)), first.truth[B], first.inside[B]
    (r, fvu), ends = interval(first.told(inside, J), true[:, J], first.on_B)
    pages = np.random.default_rng(SEED).choice(first.A.numpy(), PAGES, replace=False)
    by_page = [
        r_and_fvu(first.told(inside * first.on_page(page)[:, None], J), true[:, J])(all_of_B)
        for page in pages
    ]
    over_pages = np.quantile(by_page, [0.025, 0.975], axis=0).T
    wider = np.where(np.ptp(over_pages, axis=1) > np.ptp(ends, axis=1), *(over_pages.T, ends.T)).T
    (own_r, own_fvu), own_ends = interval(first.own[:, J], true[:, J], first.on_B)
    return {
        "r": (r, wider[0]),
        "FVU": (fvu, wider[1]),
        "own r": (own_r, own_ends[0]),
        "own FVU": (own_fvu, own_ends[1]),
        "of all": r_and_fvu(first.told(inside), true)(all_of_B),
        "own of all": r_and_fvu(first.own, true)(all_of_B),
        "pages": over_pages,
    }


def of_stored(name):
    """A real model: its stored layer, and what is kept of its truth."""
    held = {key.partition(".")[2]: v for key, v in of_model.items() if key.startswith(name + ".")}
    return First(cx.destination(name), held)


# %% [markdown]
r"""
INTRO

## Who speaks?
"""

# %%
qwen = of_stored("qwen")
at, heads, circuit = qwen.at, qwen.heads, qwen.circuit  # stable by half A; one page of prose
summary = circuit.summary(qwen.x[qwen.B])  # text neuron, and no model is run

# %% tags=["hide-input", "nbval-check-output"]
local = qwen.roster.index[qwen.roster["effective tokens"] < 40].tolist()
stable_share = float(qwen.share[heads].sum())
display(
    qwen.roster.assign(**{"who speaks": qwen.share.map("{:.0%}".format)}),
    cx.claims.finding(
        f"{len(heads)} of Qwen's {at.n_heads} heads are stable, {cx.claims.listed(heads)}, and {stable_share:.0%} of what differs between texts is theirs; {len(local)} heads reach over fewer than 40 tokens.",
        holds=bool(len(local) > at.n_heads / 2 and len(heads) < at.n_heads / 2),
    ),
)

# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(width=6.4, height=3.2)
for head, row in qwen.roster.iterrows():
    axis.plot(
        row["effective tokens"], row["relative spread"], "o" if row["stable"] else "s",
        ms=4 + 30 * qwen.share[head] ** 0.5, color=f"C{int(not row['stable'])}", alpha=0.6,
    )  # fmt: skip
    place = row["effective tokens"], row["relative spread"]
    axis.annotate(str(head), place, ha="center", va="center", fontsize=8)
axis.axvline(40, color=cx.plots.INK, lw=0.8, ls=":")
axis.axhline(cx.denominators.STEADY, color=cx.plots.INK, lw=0.8, ls=":")
axis.set(xscale="log", xlabel="effective tokens", ylabel="spread of the denominator")
cx.plots.picture(
    figure,
    "6.1",
    "Qwen's heads, by number; a mark's area is the share that a head has of what is said. A head is stable (round) to the right of one dotted line and below the other.",
    f"Twelve heads by effective tokens and spread of their denominators: stable are {cx.claims.listed(heads)}.",
)

# %% [markdown]
r"""
CALIBRATES

## One page calibrates
"""

# %% tags=["hide-input", "nbval-check-output"]
held = {"qwen": held_against(qwen)}


def shown(value, ends=None, digits=2):
    """A number, with its interval."""
    return f"{value:.{digits}f}" + (f" [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]" if ends is not None else "")


q = held["qwen"]
r, fvu = q["r"][0], q["FVU"][0]
published_r, published_fvu = (float(cx.claims.published(f"median_{of}").value) for of in ("r", "fvu"))
own_r, own_fvu = q["own r"][0], q["own FVU"][0]
compared = pd.DataFrame(
    {
        f"{MANY} strongest: r": [shown(*q["r"]), shown(*q["own r"], 3), ""],
        "FVU": [shown(*q["FVU"]), shown(*q["own FVU"], 3), ""],
        f"all {at.n_neurons}: r": [shown(q["of all"][0]), shown(q["own of all"][0], None, 3), published_r],
        "FVU ": [shown(q["of all"][1]), shown(q["own of all"][1], None, 3), published_fvu],
    },
    index=["one page", "self-normalised", "GPT-2 small, one page, published"],
)
display(
    compared,
    cx.claims.finding(
        f"With one page of prose Qwen's circuit reaches r = {r:.2f} with what the heads really add, in the median of the {MANY} strongest neurons, and leaves {fvu:.0%} of the variance unexplained; published for GPT-2 small are {published_r:.2f} and {published_fvu:.0%}.",
        holds=bool(abs(r - published_r) < 0.03),
    ),
    cx.claims.finding(
        f"With the text's own denominators and scale, which are sums over its tokens as well, r is {own_r:.3f} and {own_fvu:.1%} is left.",
        holds=bool(own_r > 0.97 and own_fvu < 0.06),
    ),
)

# %% tags=["hide-input"]
true_B, J = qwen.truth[qwen.B], qwen.J
kinds = {"one page": summary, "self-normalised": qwen.own}
figure, (axes,) = cx.plots.panels(1, 2, width=8.6, height=2.6)
for k, (name, guess) in enumerate(kinds.items()):
    table = cx.evaluation.Moments.of(guess, true_B).table(range(at.n_neurons))
    for axis, of, bins in zip(axes, ("r", "fvu"), (np.linspace(0.7, 1, 61), np.linspace(0, 0.6, 61)), strict=True):
        axis.hist(table[of].clip(bins[0], bins[-1]), bins, color=f"C{k}", alpha=0.5, label=name)
        axis.plot(table[of].iloc[J].clip(bins[0], bins[-1]), np.full(MANY, -60 * (k + 1)), "|", color=f"C{k}", ms=6)
for axis, of, value in zip(axes, ("r", "FVU"), (published_r, published_fvu), strict=True):
    axis.axvline(value, color=cx.plots.INK, lw=1, ls="--")
    axis.set(xlabel=of, ylabel="neurons")
axes[0].legend(fontsize=8, loc="upper left")
cx.plots.picture(
    figure,
    "6.2",
    f"All {at.n_neurons} neurons of Qwen's first layer on half B; the {MANY} strongest are the ticks below. Dashed: what is published for GPT-2 small. What lies beyond an end is counted there.",
    f"Histograms of r and FVU over neurons: medians {q['of all'][0]:.2f} and {q['of all'][1]:.2f} with one page, {q['own of all'][0]:.3f} and {q['own of all'][1]:.3f} self-normalised.",
)

# %% [markdown]
r"""
SHELVES0

## The shelves
"""


# %% tags=["hide-input", "nbval-check-output"]
def script(token):
    """The script that most letters of a token are in; code or signs where there is no word."""
    letters = [c for c in token if c.isalpha()]
    inside = token.strip()
    if not letters or set(inside) & set("_(){}[]<>;=/\\.#$@|:") or any(
        a.islower() and b.isupper() for a, b in zip(inside, inside[1:], strict=False)
    ):  # fmt: skip
        return "code or signs"
    names = Counter(unicodedata.name(c, "?").split()[0].title() for c in letters)
    return {"Cjk": "Han"}.get(names.most_common(1)[0][0], names.most_common(1)[0][0])


def loudest(first, neurons, most=cx.neurons.LARGEST):
    """The tokens that push each neuron up most, and how far: `top`."""
    columns = first.circuit.contribution_to(neurons)
    best = columns.masked_fill(first.at.split.untrained, -math.inf).topk(most)
    return [cx.neurons.spelled(first.at, row) for row in best.indices.tolist()]


def judged(values_A, values_B, first):
    """Labels by half A, of half B, and the AUC on half B of the label of half A; by neuron."""
    names, here = np.unique(first.domain, return_inverse=True)
    A, B = ((here[part] == np.arange(len(names))[:, None]) for part in (first.A, first.B))
    label = cx.label_neurons(values_A, first.domain[first.A], range(values_A.shape[1]))["label"]
    again = cx.label_neurons(values_B, first.domain[first.B], range(values_B.shape[1]))["label"]
    aucs = cx.neurons.auc(values_B.double().numpy(), B)  # label neuron
    return label, again, aucs[np.searchsorted(names, label), np.arange(len(label))]


summary_A = qwen.told(qwen.inside[qwen.A])
label, again, auc = judged(summary_A, true_B, qwen)
words = loudest(qwen, J[:FEW])
scripts = [Counter(map(script, row)) for row in words]
shelves = pd.DataFrame(
    {
        "label": label[J[:FEW]].tolist(),
        "AUC on half B": [f"{auc[j]:.2f}" for j in J[:FEW]],
        "tokens": [" ".join(w.strip() for w in row[:9]) for row in words],
        "scripts of the first twenty": [
            ", ".join(f"{s} {c}" for s, c in sorted(found.items(), key=lambda i: (-i[1], i[0])))
            for found in scripts
        ],
    },
    index=pd.Index(J[:FEW], name="neuron"),
)
shelves

# %% tags=["hide-input", "nbval-check-output"]
mixed = sum(sum(s != "code or signs" for s in found) > 1 for found in scripts)
han = sum(found["Han"] > 0 for found in scripts)
good = int((auc[J[:FEW]] > 0.9).sum())
agree = float((label[J] == again[J]).mean())
chance = sum((label[J] == d).mean() * (again[J] == d).mean() for d in set(label[J]))
display(
    cx.claims.finding(
        f"{mixed} of the first {FEW} neurons have words of two scripts or more among their {cx.neurons.LARGEST} loudest tokens, {han} of them Chinese ones.",
        holds=bool(mixed > FEW / 2),
    ),
    cx.claims.finding(
        f"The label that half A gives to a neuron is the one that half B gives to what the heads really add, in {agree:.0%} of the {MANY} strongest neurons; labels dealt anew would agree in {chance:.0%}.",
        holds=bool(agree > 2 * chance),
    ),
    cx.claims.finding(
        f"For {good} of the {FEW} that label tells its texts of half B from the others with an AUC above 0.9.",
        holds=bool(good > FEW / 2),
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
chance_of = np.random.default_rng(SEED)
norms = at.readout.W_in.norm(dim=0).numpy()
others = np.setdiff1d(np.arange(at.n_neurons), J[:FEW])
near = [others[np.abs(norms[others] - norms[j]).argsort()[:50]] for j in J[:FEW]]
mixing = torch.from_numpy(chance_of.standard_normal((at.n_neurons, 2000))).float()
mixing = mixing / mixing.norm(dim=0)
*_, auc_mixed = judged(summary_A @ mixing, true_B @ mixing, qwen)
nulls = {
    "any twenty": [np.median(auc[chance_of.choice(others, FEW, False)]) for _ in range(DRAWS)],
    "of like norm": [np.median(auc[[chance_of.choice(row) for row in near]]) for _ in range(DRAWS)],
    "mixtures": [np.median(chance_of.choice(auc_mixed, FEW, False)) for _ in range(DRAWS)],
}
found_auc = float(np.median(auc[J[:FEW]]))
beaten = {name: float((np.array(draws) >= found_auc).mean()) for name, draws in nulls.items()}
display(
    pd.DataFrame(
        {
            "median AUC on half B": [shown(found_auc)]
            + [shown(np.median(v), np.quantile(v, [0.025, 0.975])) for v in nulls.values()],
            "as good as the twenty": ["", *(f"{share:.1%}" for share in beaten.values())],
        },
        index=[f"the first {FEW}", *nulls],
    ),
    cx.claims.finding(
        f"NULLS {found_auc:.2f} {beaten}",
        holds=True,
    ),
)

# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(width=6.4, height=2.4)
bins = np.linspace(0.5, 1, 101)
for k, (name, draws) in enumerate(nulls.items()):
    axis.hist(draws, bins, color=f"C{k + 1}", alpha=0.5, label=name)
axis.axvline(found_auc, color="C0", lw=2, label=f"the first {FEW}")
axis.set(xlabel="median AUC on half B", ylabel=f"draws of {FEW}")
axis.legend(fontsize=8)
cx.plots.picture(
    figure,
    "6.3",
    f"How well the label of half A tells texts of half B apart: the first {FEW} neurons of Qwen and {DRAWS} sets of as many others.",
    f"Histograms: any twenty {np.median(nulls['any twenty']):.2f}, of like norm {np.median(nulls['of like norm']):.2f}, mixtures {np.median(nulls['mixtures']):.2f}; the first {FEW} {found_auc:.2f}.",
)

# %% [markdown]
r"""
TABLE0

## The same table for five models
"""

# %% tags=["hide-input"]
layers = {"Qwen": qwen} | {REAL[name]: of_stored(name) for name in REAL if name != "qwen"}
model = cx.load(MODEL)
reader = cx.texts.Reader.of(model, min(257, model.cfg.n_ctx))
n = reader.n_ctx // 2 if isinstance(model, cx.models.Encoder) else reader.n_ctx - 1
common = list(cx.texts.held_out_stream(reader, SEEN, None))
layers[MODEL] = First(cx.destination(model, common, n))

# %% tags=["hide-input", "nbval-check-output"]
held = {name: held.get(name.lower()) or held_against(first) for name, first in layers.items()}


def row(name, first):
    """What the table says of a model."""
    told, heads = held[name], first.heads
    off = (first.denominators[first.B] / first.circuit.denominators - 1).abs().mean(0)
    of_heads = pd.Series(off.tolist(), heads).reindex(range(first.at.n_heads), fill_value=0.0)
    if name == "Qwen":
        labels = label, again
    else:
        labels = judged(first.told(first.inside[first.A]), first.truth[first.B], first)[:2]
    of_A, of_B = (np.asarray(one)[first.J] for one in labels)
    facts = first.roster
    return {
        "heads stable": f"{len(heads)} of {first.at.n_heads}",
        "their share": f"{first.share[heads].sum():.0%}",
        "effective tokens": f"{first.over_heads(facts['effective tokens']):.0f}",
        "spread": f"{first.over_heads(facts['relative spread']):.2f}",
        "TV": f"{first.over_heads(first.tv):.3f}",
        "error of one page": f"{first.over_heads(of_heads):.0%}",
        f"r, {MANY} strongest": shown(*told["r"]),
        f"FVU, {MANY} strongest": shown(*told["FVU"]),
        "r, all": shown(told["of all"][0]),
        "FVU, all": shown(told["of all"][1]),
        "r, self-normalised": shown(*told["own r"], 3),
        "FVU, self-normalised": shown(*told["own FVU"], 3),
        "labels agree": f"{(of_A == of_B).mean():.0%}",
    }


table = pd.DataFrame({name: row(name, first) for name, first in layers.items()})
lines = {"heads stable": "share_stable", "TV": "tv", "r, all": "median_r", "FVU, all": "median_fvu"}
printed = {line: cx.claims.published(figure).value for line, figure in lines.items()}
table["GPT-2 small, published"] = pd.Series(printed).reindex(table.index, fill_value="")
table

# %% tags=["hide-input", "nbval-check-output"]
FINDINGS_OF_TABLE = 0

# %% tags=["hide-input"]
figure, (axes,) = cx.plots.panels(1, 2, width=8.6, height=2.6, sharey=True)
for axis, of, value in zip(axes, ("r", "FVU"), (published_r, published_fvu), strict=True):
    for k, (kind, key) in enumerate({"one page": of, "self-normalised": f"own {of}"}.items()):
        for place, told in enumerate(held.values()):
            axis.plot(told[key][1], [-place - 0.2 * k] * 2, color=f"C{k}", lw=2)
            axis.plot(told[key][0], -place - 0.2 * k, "os"[k], color=f"C{k}", label=None if place else kind)
    axis.axvline(value, color=cx.plots.INK, lw=1, ls="--")
    axis.set(xlabel=of)
axes[1].set(xscale="log")
axes[0].set_yticks(-np.arange(len(held)), list(held))
axes[0].legend(fontsize=8, loc="lower left")
cx.plots.picture(
    figure,
    "6.4",
    f"The median of the {MANY} strongest neurons on half B, with its interval. Dashed: published for GPT-2 small.",
    "; ".join(f"{name}: r {told['r'][0]:.2f}, FVU {told['FVU'][0]:.2f}, self-normalised {told['own r'][0]:.3f} and {told['own FVU'][0]:.3f}" for name, told in held.items()),
)

# %% [markdown]
r"""
SMOL0

## Why does one page fail SmolLM2?

ASKED

$$
\frac{\sum_i \text{pos}_i\, \text{content}(x_i)\, v(x_i)}{\text{denom}'}
\;=\; (1 + \epsilon) \bigl( \bar v + \delta(x) \bigr) , \qquad
\epsilon = \frac{\text{denom}(x)}{\text{denom}'} - 1 ,
$$ (eq-real-constant)

CONSTANT
"""


# %%
def from_the_page(first):
    """What the heads gather in every text, off the page; and what varies, by the circuit."""
    likes = first.circuit.at.split.likes[first.heads] / first.circuit.denominators[:, None]
    length = torch.stack([likes[:, x] @ first.circuit.kernel for x in first.x])  # text head: 1 + ε
    page = first.at.placed([first.study.calibrating])[0]
    gathered = first.circuit.kernel @ first.circuit.weighted_values.flatten(1)[page]
    always = gathered.unflatten(0, (len(first.heads), -1))
    always = always / (likes[:, page] @ first.circuit.kernel)[:, None]  # head d_head
    return first.inside - (length - 1)[..., None] * always


# %% tags=["hide-input", "nbval-check-output"]
def asked(first):
    """FVU of the strongest neurons on half B, one piece of the page's circuit replaced at a time."""
    J, B, inside = first.J, first.B, first.inside[first.B]
    own = (first.circuit.denominators / first.denominators[B])[..., None]  # text head 1
    mean = first.circuit.denominators / first.denominators[first.A].mean(0)
    scale = (first.scale[B] / first.circuit.scale)[:, None]

    def left(inside, scale=1.0):
        true = first.truth[B][:, J]
        return float(r_and_fvu(first.told(inside, J, scale), true)(np.arange(len(B)))[1])

    alone = [torch.arange(len(first.heads)) == k for k in range(len(first.heads))]
    return {
        "one page, as it is": left(inside),
        "the text's own scale": left(inside, scale),
        "denominators: the mean of half A": left(inside * mean[:, None]),
        "denominators: the text's own in one head, the best": min(
            left(torch.where(one[:, None], inside * own, inside)) for one in alone
        ),
        "denominators: the text's own": left(inside * own),
        "both the text's own": left(inside * own, scale),
        "the constant from the page": left(from_the_page(first)[B]),
    }


asks = pd.DataFrame({name: asked(first) for name, first in layers.items()})
smol = layers["SmolLM2"]
budget = {(made, item): fvu for made, item, _, fvu in kept["models"]["smollm2"]["budget"]}
larger = {}
for name, first in layers.items():
    true = first.truth[first.B][:, first.J]
    larger[name] = float((true.mean(0).abs() / true.std(0)).quantile(0.5))
as_it_is, *_, from_page = asks["SmolLM2"]
display(
    asks.map("{:.2f}".format).rename_axis("FVU, the strongest neurons on half B"),
    pd.Series(larger).map("{:.1f}".format).to_frame("constant over spread").T,
    cx.claims.finding("ASK", holds=True),
)

# %% tags=["hide-input"]
figure, ((axis,),) = cx.plots.panels(width=7.4, height=2.8)
axis.barh(-np.arange(len(asks)), asks["SmolLM2"], color="C0", height=0.6, label="SmolLM2")
for k, name in enumerate([name for name in asks if name != "SmolLM2"]):
    axis.plot(asks[name], -np.arange(len(asks)), "^sD"[k], color=f"C{k + 1}", ms=5, label=name)
axis.set_yticks(-np.arange(len(asks)), asks.index)
axis.set(xscale="log", xlabel="FVU")
axis.axvline(1, color=cx.plots.INK, lw=0.8, ls=":")
axis.legend(fontsize=8)
cx.plots.picture(
    figure,
    "6.5",
    "What is left unexplained when one piece of the page's circuit is replaced. At the dotted line nothing is explained.",
    "FVU of SmolLM2: " + ", ".join(f"{name} {value:.2f}" for name, value in asks["SmolLM2"].items()),
)

# %% [markdown]
r"""
## What breaks it

BREAKS

## What it costs
"""

# %% tags=["hide-input", "nbval-check-output"]
costs = pd.DataFrame(
    {
        REAL[name]: {
            "file of the model, MB": f"{facts['bytes'] / 1e6:.0f}",
            "stored layer, MB": f"{cx.models.stored_layer(name).stat().st_size / 1e6:.0f}",
            "seconds to load its first layer": f"{facts['seconds']['load']:.0f}",
            "to split it": f"{facts['seconds']['split']:.0f}",
            "to find its neurons": f"{facts['seconds']['find']:.0f}",
            "forward passes of that layer": facts["passes"],
            "the same, for this page": 0,
        }
        for name, facts in kept["models"].items()
    }
)
costs

# %% [markdown]
r"""
COSTS

## Claims
"""

# %% tags=["hide-input", "nbval-check-output"]
known = cx.claims.known_by(model) == cx.claims.GPT2_SMALL  # judged by its own edition, not Qwen's
here = {
    "tv": qwen.over_heads(qwen.tv),
    "share_stable": len(heads) / at.n_heads,
    "median_r": r,
    "median_fvu": fvu,
}
here = {id: math.nan if known else float(value) for id, value in here.items()}
cx.claims.ledger(
    model,
    cx.claims.Claim("tv", "Qwen: TV of the stable heads, weighted by who speaks", here["tv"]),
    cx.claims.Claim("share_stable", "Qwen: share of its heads that is stable", here["share_stable"]),
    cx.claims.Claim(
        "median_r", f"Qwen: r over half B, median of {MANY} neurons", here["median_r"], tuple(q["r"][1])
    ),
    cx.claims.Claim(
        "median_fvu", f"Qwen: FVU over half B, median of {MANY} neurons", here["median_fvu"], tuple(q["FVU"][1])
    ),
)

# %% [markdown]
r"""
LEDGERTEXT

## What you may now assume
"""

# %% tags=["hide-input", "nbval-check-output"]
ASSUME = 0

# %% [markdown]
r"""
EXERCISES
"""
