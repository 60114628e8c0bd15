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
# What do local heads do?

LEAD
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To ask a model of your own, name it here and run all cells again: MODEL = "gpt2", for one.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub: any decoder
TEXTS = 1000  # how many held-out texts the pairs of tokens are taken from
TOKEN = " the"  # the token at the destination of the roster
PAIRS = 1500  # pairs of a kind, at most; as many tokens for copies and suppression
MODELS = None  # real models that are run for what is kept: make evidence CHAPTER=F_local

# %% tags=["hide-input"]
# Conditions of what is said about Qwen and SmolLM2, set before either was measured. A head is
# chosen on half A; what is said of it is measured on pairs of half B that half A does not have.
AT_LEAST = 0.75  # detokenisation: the best local head prefers the true first piece of a split word
# to that of another one this often, and more than 99% of random pairings do in any local head
APART = 0.05  # it is local heads that know pairs: the middle one does so by this much oftener than
# the middle broad head
SORTS = 0.5  # heads know different kinds of pairs: what is left of the table of heads and kinds
# without its margins correlates this much from half to half, and beyond 95% of reordered tables
PMI = 0.3  # a larger entry is a better known pair: rank correlation of entry and pointwise mutual
# information, best local head
SURE, STILL = 0.9, 0.85  # how large an entry makes a pair known: from the size on where 9 in 10 are
# true on half A, 85% are on half B
COPY = 2.0  # nats: no local head looks for copies, as the families of chapter 3 have it
LOWERS = 0.25  # suppression: a head of the first layer makes a token less likely than another, on
# the direct path, in three of four tokens, in both halves; and the whole model agrees if without
# the head the token that it looks at most gains more than another of the same text, interval above 0
DISTANCES = (1, 2, 4, 8, 16, 32, 64)

# %% tags=["hide-input", "nbval-check-output"]
import json
import math
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from einops import einsum, repeat
from scipy import stats

import ctxlib as cx

torch.set_grad_enabled(False)


# %%
def turned(k, theta, distance):
    """Keys as a rotary query sees them from `distance` further on."""
    (a, b), angle = k.chunk(2, dim=-1), -distance * theta
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


# %% tags=["hide-input"]
def first_layer(model, texts):
    """What the first layer's heads ask and are asked, of any token at any distance."""
    n = min(len(text.tokens) for text in texts) // 2
    whole = len(model.tokenizer.encode(TOKEN, add_special_tokens=False)) == 1
    at = cx.decoders.two_means(model, texts[:64], n, TOKEN if whole else int(texts[0].tokens[1]))
    layer, attn = at.layer, model.blocks[0].attn
    W_Q, W_K, b_Q = (
        None if W is None else W.detach().cpu() for W in (attn.W_Q, attn.W_K, attn.b_Q)
    )
    W_K = repeat(W_K, "kv m d -> (kv shared) m d", shared=len(W_Q) // len(W_K))
    rotary = layer.positions == "rotary"
    theta = model.original_model.model.rotary_emb.inv_freq.cpu() if rotary else None

    def read(tokens, distance):
        return cx.layer_norm(layer.E[tokens] + layer.where[n - distance], layer.readout.eps)

    def queries(tokens):
        q = einsum(read(tokens, 0), W_Q, "t m, h m d -> h t d")
        return q if b_Q is None else q + b_Q[:, None]

    def keys(tokens, distance):
        k = einsum(read(tokens, distance), W_K, "t m, h m d -> h t d")
        return turned(k, theta, distance) if rotary else k

    token, scale = torch.tensor([at.token]), math.sqrt(W_K.shape[-1])
    for distance in (1, 20):  # as the model itself asks
        some = torch.arange(50, 150)
        ours = einsum(queries(token), keys(some, distance), "h a d, h t d -> h t") / scale
        asked = layer.asked[:, n - distance] @ read(some, distance).T
        off = (ours - ours.mean(1, keepdim=True)) - (asked - asked.mean(1, keepdim=True))
        assert off.abs().max() < 1e-2, "keys and queries are not the model's"
    return SimpleNamespace(
        model=model, at=at, n=n, queries=queries, keys=keys, scale=scale, read=read
    )


def entries(of, seconds, firsts, distance):
    """`head second first`: how much more a token is liked than its margins say, in nats."""
    q, k = of.queries(seconds), of.keys(firsts, distance)
    q = q - of.mean_q
    k = k - einsum(of.keys(of.used, distance), of.share, "h t d, t -> h d")[:, None]
    return einsum(q, k, "h a d, h b d -> h a b") / of.scale


# %% tags=["hide-input"]
def kind_of(first, second, common):
    """The kind of a pair by how its pieces are written, or None."""
    word = {piece: piece[0] in " Ġ" and piece[1:].isalpha() for piece in (first, second) if piece}
    if not first or not second or first not in word or second not in word:
        return None
    if second.isalpha() and first[-1].isalpha():
        return "split word"
    if first.strip().isdigit() and second.isdigit():
        return "number"
    if not any(c.isalnum() or c.isspace() for c in second):
        return "mark"
    if not (word[first] and word[second]):
        return None
    if first[1].isupper() and second[1].isupper():
        return "name"
    return "common words" if {first, second} <= common else "other words"


KINDS = ["split word", "name", "other words", "common words", "number", "mark"]


def pairs_in(texts, spelled, common):
    """Pairs side by side: how often, in how many documents, and of what kind."""
    often, documents = Counter(), {}
    for text in texts:
        ids = text.tokens[1:].tolist()
        for pair in pairwise(ids):
            often[pair] += 1
            documents.setdefault(pair, set()).add(text.document)
    rows = [
        (*pair, count, kind_of(spelled[pair[0]], spelled[pair[1]], common))
        for pair, count in often.items()
        if len(documents[pair]) > 1
    ]
    return pd.DataFrame(rows, columns=["first", "second", "count", "kind"]).dropna()


def paired(entry, there):
    """How often the true partner has more than another; the same of 1000 random pairings.

    `entry` is `head second first`, true pairs on its diagonal; `there` says which of the others
    stand side by side somewhere.
    """
    true, other = entry.diagonal(dim1=1, dim2=2)[..., None], ~torch.as_tensor(there)
    other.fill_diagonal_(False)
    wins = ((true > entry) & other).sum(-1) / other.sum(-1)  # head pair
    ranks = entry.argsort(-1).argsort(-1) / (entry.shape[-1] - 1)
    chance, rows = np.random.default_rng(0), torch.arange(entry.shape[1])
    drawn = [ranks[:, rows, chance.permutation(len(rows))].mean(1) for _ in range(1000)]
    return wins, torch.stack(drawn).numpy()  # draw head


def interval(values):
    """The 95% interval of a mean, pairs drawn again."""
    chance = np.random.default_rng(0)
    drawn = [values[chance.integers(len(values), size=len(values))].mean() for _ in range(999)]
    return [float(v) for v in np.quantile(drawn, (0.025, 0.975))]


# %% tags=["hide-input"]
def look(model):
    """All that this page asks of the first layer of a model."""
    reader = cx.texts.Reader.of(model, min(512, model.cfg.n_ctx))
    texts = cx.texts.collection(reader, TEXTS)
    halves = {half: [text for text in texts if text.half == half] for half in "AB"}
    if not all(halves.values()):  # texts of your own, without halves
        halves = {"A": texts[::2], "B": texts[1::2]}
    of = first_layer(model, halves["A"])
    flat = {half: torch.cat([t.tokens[1:] for t in of_half]) for half, of_half in halves.items()}
    counts = flat["A"].bincount(minlength=model.cfg.d_vocab)
    of.used = counts.nonzero()[:, 0]
    of.share = counts[of.used] / counts.sum()
    of.mean_q = einsum(of.queries(of.used), of.share, "h t d, t -> h d")[:, None]
    spelled = [model.tokenizer.decode([t]) for t in range(model.cfg.d_vocab)]
    words = [t for t in counts.argsort(descending=True).tolist() if spelled[t][:1] == " " and spelled[t][1:].isalpha()]  # fmt: skip
    common = {spelled[t] for t in words[:100]}
    seen = {half: pairs_in(of_half, spelled, common) for half, of_half in halves.items()}
    known = [a * model.cfg.d_vocab + b for a, b in seen["A"][["first", "second"]].to_numpy()]
    table = seen["B"]["first"] * model.cfg.d_vocab + seen["B"]["second"]
    seen["B"] = seen["B"][~table.isin(known)]  # pairs that half A does not have
    everywhere = np.unique(torch.cat([t[:-1] * model.cfg.d_vocab + t[1:] for t in flat.values()]))
    roster = cx.denominators.roster(of.at, halves["A"][:64])
    facts = {
        "tokens": sum(len(t) for t in flat.values()),
        "kernel": of.at.split.kernels[:, [-1, -2]].T.tolist(),  # on itself, on the token before
        "roster": roster[["effective tokens", "family"]].to_dict("list"),
        "kinds": {}, "null": {}, "many": {}, "interval": {}, "known": {},
    }  # fmt: skip
    local = [h for h, family in enumerate(facts["roster"]["family"]) if family == "local"]
    facts["local"] = local
    kept = {}
    for half, table in seen.items():
        for kind in KINDS:
            some = table[table["kind"] == kind]
            some = some.sample(min(PAIRS, len(some)), random_state=0)
            if len(some) < 50:
                continue
            first, second = (torch.tensor(some[k].to_numpy()) for k in ("first", "second"))
            numbers = first[None] * model.cfg.d_vocab + second[:, None]
            there = np.isin(numbers, everywhere)
            if there.mean(1).max() > 0.9:  # digits: all of them stand side by side
                continue
            entry = entries(of, second, first, 1)
            wins, drawn = paired(entry, there)
            at = f"{kind}, {half}"
            facts["kinds"][at], facts["many"][at] = wins.mean(1).tolist(), len(some)
            facts["interval"][at] = [interval(w.numpy()) for w in wins]
            among = local or list(range(len(wins)))
            facts["null"][at] = drawn[:, among].max(1).tolist()
            kept[kind, half] = some, entry
    facts["known"] = knowing(kept, flat, model.cfg.d_vocab)
    facts["copies"] = copying(of, flat["A"])
    facts["suppression"] = suppressing(of, counts)
    return facts, of, halves


def knowing(kept, flat, d_vocab):
    """Entries of pairs of words and of pieces: against PMI, and true pairs against shuffled."""
    told, chance = {}, np.random.default_rng(0)
    often = torch.cat(list(flat.values())).bincount(minlength=d_vocab).double().numpy()
    for half in "AB":
        parts = [kept[kind, half] for kind in KINDS[:3] if (kind, half) in kept]
        true, other, pmi, sizes = [], [], [], []
        size = len(flat[half])
        for some, entry in parts:
            true.append(entry.diagonal(dim1=1, dim2=2))
            other.append(entry[:, torch.arange(len(some)), chance.permutation(len(some))])
            a, b = (often[some[k]] / often.sum() for k in ("first", "second"))
            pmi.append(np.log(some["count"] / size / (a * b)))
            sizes.append(np.stack([a, b]))
        true, other = torch.cat(true, 1).numpy(), torch.cat(other, 1).numpy()
        pmi, sizes = np.concatenate(pmi), np.concatenate(sizes, 1)
        told[half] = {
            "PMI": [float(stats.spearmanr(e, pmi).statistic) for e in true],
            "given both tokens": [given(e, pmi, sizes) for e in true],
            "true": np.quantile(true, np.linspace(0, 1, 201), axis=1).T.tolist(),
            "other": np.quantile(other, np.linspace(0, 1, 201), axis=1).T.tolist(),
            "pairs": len(pmi),
        }  # fmt: skip
    return told


def given(entry, pmi, often):
    """The rank correlation of entry and PMI with the counts of both tokens held still."""
    ranks = [stats.rankdata(v) for v in (entry, pmi, *often)]
    fixed = np.stack([np.ones(len(pmi)), *ranks[2:]], 1)
    left = [v - fixed @ np.linalg.lstsq(fixed, v, rcond=None)[0] for v in ranks[:2]]
    return float(np.corrcoef(*left)[0, 1])


def copying(of, flat):
    """`head distance`: by how many nats a head likes a copy of the token that asks, as often as
    tokens occur.
    """
    drawn = flat[np.random.default_rng(0).integers(len(flat), size=PAIRS)]
    diagonals = [entries(of, drawn, drawn, d) for d in DISTANCES if d < of.n]
    return torch.stack([e.diagonal(dim1=1, dim2=2).mean(1) for e in diagonals], 1).tolist()


def suppressing(of, counts):
    """For each half of the commoner tokens, `head`: how often a token that is looked at makes
    itself likelier than it makes another, on the direct path; and 1000 random pairings.
    """
    W_U, told = cx.decoders.adapter.unembedding(of.model).detach().cpu(), {}
    W_V, W_O = of.at.layer.W_V, of.at.layer.readout.W_O
    usual = counts.argsort(descending=True, stable=True)[: 2 * PAIRS]
    for half, some in zip("AB", (usual[::2], usual[1::2]), strict=True):
        told_by = einsum(of.read(some, 0), W_V, W_O, "t m, h m d, h d e -> h t e")
        effect = einsum(told_by, W_U[:, some], "h t e, e u -> h t u")
        effect = effect - effect.mean(1, keepdim=True)  # what it says whatever it looks at
        wins, drawn = paired(effect, np.zeros(effect.shape[1:], bool))
        told[half] = {"itself": wins.mean(1).tolist(), "null": [drawn.min(1).tolist(), drawn.max(1).tolist()]}  # fmt: skip
    return told


# %% tags=["hide-input"]
def without(model, head, texts, length=128):
    """`text`: by how many nats a token gains when a head is silent, where the head looked at it
    most, and the same of a token of the same text that it hardly looks at; means over positions.
    """
    names, z_of = ("blocks.0.attn.hook_z", "blocks.0.attn.hook_pattern"), {}
    rows, chance = torch.stack([text.tokens[:length] for text in texts]), np.random.default_rng(0)
    told = []

    def silent(z, hook):
        z = z.clone()
        z[:, :, head] = z_of["mean"]
        return z

    caches = [model.run_with_cache(row[None], names_filter=list(names)) for row in rows]
    z_of["mean"] = torch.stack([c[names[0]][0, :, head].mean(0) for _, c in caches]).mean(0)
    for row, (logits, cache) in zip(rows, caches, strict=True):
        quiet = model.run_with_hooks(row[None], fwd_hooks=[(names[0], silent)])
        gain = (quiet.log_softmax(-1) - logits.log_softmax(-1))[0]
        pattern = cache[names[1]][0, head]
        places = torch.arange(8, length)
        most = pattern[places, 1:].argmax(-1) + 1
        least = torch.tensor([int(chance.choice([i for i in range(1, m) if pattern[m, i] < 0.5 / m] or [1])) for m in places.tolist()])  # fmt: skip
        told.append([float(gain[places, row[which]].mean()) for which in (most, least)])
    return told


KEPT = cx.models.DATA / "evidence" / "local.json"
if MODELS:
    told = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in cx.texts.progress(
        [m for m in MODELS if m in ("qwen", "smollm2")], "asking", "model"
    ):
        facts, of, halves = look(cx.load(name, layers=1))
        facts["files"] = cx.models.real_models()[name]["files"]
        if name == "smollm2":
            model = cx.load(name)
            by_half = {h: np.array(v["itself"]) for h, v in facts["suppression"].items()}
            facts["silenced"] = {
                str(head): without(model, int(head), halves["B"][::12][:40])
                for head in (by_half["A"].argmin(), by_half["A"].argmax())
            }
        told[name] = json.loads(json.dumps(facts), parse_float=lambda v: round(float(v), 4))
        KEPT.write_text(json.dumps(told) + "\n")
