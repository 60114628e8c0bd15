"""British spelling in real models (chapter 9): `data/evidence/british.json`, what their own runs on
respelled documents give, `british-facts.json`, what is read off that, and `changes.json`, what
other consistent changes of the same documents do to the neuron (`british.toml` has them, and was
committed before they were run).

    python tools/evidence/british.py             # names of models choose; --facts: read it again
    python tools/evidence/british.py --changes   # of Qwen; and so --predicted

Held-out documents in both spellings: the gate, the up and the product of both discovered neurons,
at the tokens that are alike. Of Qwen also use: the log odds of the next word's two spellings, with
parts of the model as in the other context. The facts: how far British spelling moves each part, in
nats of its own unit and in its spread over the documents of half B; how many fall; its t and its
rank among all neurons by the size of t. The null for "it moves one way in so many documents" is all
neurons of the layer: of each part, how many neurons move so many documents of half B one way. Fixed
before it was counted: neuron 6419 stands out by its gate if at most 1% of the other neurons move
their gate one way in as large a share of the documents.

Fixed when only contexts had been redrawn, before sentences were: what a part carries of the shift
gets its interval from both, contexts and sentences drawn anew, each by itself, in every draw.
Neuron 6419, both neurons or the forty work against the preference, as the page says, only if this
interval lies below zero, the neuron is used only if it lies above the bound of `dialect.toml`, and
a loss of 1% could have been seen only if half the interval's width is below that.

`predicted.json`: what weights say of whole documents. For both spellings of each document of half
B, page 0's prediction (the stable heads, and the page of prose that calibrates there) stands beside
what the same heads add in the model, and beside the gate, at the tokens behind the first respelled
word that are alike, up to position n, where the calibration text ends. Fixed before it was run: the
prediction holds if, over documents,

- its mean move is within a factor of 2 of the model's heads' (other calibration texts move the
  paragraph of page 0 by about as much),
- it has their sign in at least 90% of the documents, and
- it correlates with their move by at least 0.7 (half of the variance), and more than the share of
  the tokens so far that are respelled does.

Kept without a condition: the share of the gate's move that goes through these heads, the
correlation over all neurons of the discovering z with the gate's mean move, in standard deviations
over documents, and how well gate and prediction tell British from American documents as found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from command import ROOT, command
from einops import einsum
from evidence import kept, provenance
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AutoModelForCausalLM

import ctxbook as cb
import ctxlib as cx
from ctxlib.weights import passed

EVIDENCE = ROOT / "data" / "evidence"
KEPT = cb.evidence("british.json")
ASKED = cb.spelling.dialect()  # what was fixed beforehand
BAR = ASKED["conditions"]
PAIR = cb.spelling.pair_of()  # form -> (British, American)
REAL = ("qwen", "smollm2")
TEXTS = 250  # of the collection, for heads and frequencies, as in chapter 9
RANDOM_DOCUMENTS = 24  # the first of the judging half, for random words
PARTS = ("gate", "up", "product")
SPELLING = "British spelling"  # among consistent changes
Ids = Int[Tensor, " token"]
Gathered = Float[Tensor, "token head d_head"]


# ---------------------------------------------------------------- the runs


def probe_of(name):
    """What words add to a real model's neurons, by its stored layer."""
    fixed = cx.fix_query(name)
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), TEXTS)
    circuit = cx.study(fixed, texts, or_all=True).circuit
    return cb.SpellingProbe(circuit, texts, BAR["like"], BAR["draws"])


def english(fixed, least=0, **half):
    """The English texts of the collection, or of a half, with so many words of the table."""
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, 512), **half)
    few = [t for t in texts if t.dialect.startswith("en")]
    return [t for t in few if len(cb.spelling.matches(t.source)) >= least]


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


def documents_of(name, probe):
    """Held-out documents in both spellings, and between: means over the tokens that are alike."""
    reads, gate, up = first_layer(name)
    fixed, neurons = probe.circuit.fixed, probe.found
    tokenizer = fixed.tokenizer
    begin = [int(cx.texts.passages(fixed)[0].tokens[0])]
    rng, rows, moves, typical = np.random.default_rng(0), [], [], []
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

    for t in cx.texts.progress(english(fixed, BAR["least"]), f"{name}: documents"):
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
        more = np.maximum((d > 0).sum(), (d < 0).sum()).to_numpy().reshape(3, -1)
        one_way = {  # of half B, the last
            "neurons that move so many documents one way": [
                np.bincount(row, minlength=len(d) + 1).tolist() for row in more
            ],
            "found": more[:, neurons].T.tolist(),
        }
    product = torch.stack([m[2] for h, _, m in moves if h == "A"])
    sizes_of = torch.stack(typical).mean(0)
    read = {"neurons": neurons, "documents": rows, "rank of |t|": ranks, "one way": one_way}
    return read, product.mean(0), sizes_of


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
def use_of(name, probe, moved, size):
    """The log odds of the British form behind contexts in both spellings, and behind the British
    one with parts of the model as in the American one."""
    file = Path(cx.models.locate(name))
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    fixed, neurons = probe.circuit.fixed, probe.found
    layers, tokenizer = model.model.layers, fixed.tokenizer
    down, o_proj = layers[0].mlp.down_proj, layers[0].self_attn.o_proj
    writes = down.weight.norm(dim=0)
    forty = (moved.abs() * writes).argsort(descending=True).tolist()[: BAR["forty"]]
    typical = (size * writes).log()
    others = []
    for j in forty:
        far = (typical - typical[j]).abs()
        far[forty + others] = torch.inf
        others.append(int(far.argmin()))
    begin = [int(cx.texts.passages(fixed)[0].tokens[0])]

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
    parts = {"post": (down, True), "z": (o_proj, True)}
    parts |= {"MLP": (layers[0].mlp, False)} | {k: (layers[k], False) for k in after}
    d_head = o_proj.weight.shape[1] // fixed.n_heads
    inside = [h * d_head + k for h in probe.circuit.heads for k in range(d_head)]
    contexts = contexts_of(tokenizer, english(fixed, half="B"), begin)
    for words, t, american, british in cx.texts.progress(contexts, f"{name}: use"):
        held.clear()
        said = {"American": odds(american, [(*where, keep(part)) for part, where in parts.items()])}
        said["British"] = odds(british)
        own = [k for k in range(C) if american[k] != british[k]]
        elsewhere = [k for k in range(total) if k not in own]
        as_american = {
            "neuron": ("post", None, neurons[:1]),
            "neurons": ("post", None, neurons),
            "forty": ("post", None, forty),
            "forty others": ("post", None, others),
            "stable heads": ("z", None, inside),
            "MLP elsewhere": ("MLP", elsewhere, None),
            "MLP": ("MLP", None, None),
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


def keep_runs(names):
    """Run these models, and keep what they give beside the others."""
    held = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in names:
        file, sum_of = next(iter(cx.models.real_models()[name]["files"].items()))
        probe = probe_of(name)
        read, moved, size = documents_of(name, probe)
        held[name] = {"file": file, "sha256": sum_of} | read
        if name == REAL[0]:
            held[name]["use"] = use_of(name, probe, moved, size)
        KEPT.write_text(json.dumps(held) + "\n")


# ---------------------------------------------------------------- other consistent changes

Place = tuple[int, int, str]  # the characters of a word, and what is put in its place


def places_of(text: str, found: list[Place], change: tuple[str, str] | None) -> list[Place]:
    """Return where a text is changed, as often as it has words of the table, near to these; without
    a change these places themselves.
    """
    if change is None:
        return found
    free = [
        (m.start(), m.end(), new)
        for m in cb.spelling.WORD.finditer(text)
        if m.group() not in PAIR and (new := re.sub(*change, m.group(), count=1)) != m.group()
    ]
    taken: list[Place] = []
    for start, *_ in found[: len(free)]:
        taken.append(free.pop(int(np.argmin([abs(at - start) for at, *_ in free]))))
    return sorted(taken)


def in_parts(text: str, places: list[Place], changed: bool) -> list[tuple[str, bool]]:
    """Return a text in parts, as it is or changed, each with whether it is alike in both."""
    parts, last = [], 0
    for start, end, new in places:
        parts += [(text[last:start], True), (new if changed else text[start:end], False)]
        last = end
    return [*parts, (text[last:], True)]


def changes_of(name: str) -> dict[str, Any]:
    """Return what British spelling and other consistent changes do to the gate of a model's neuron,
    and to that of each change's best neuron, chosen on half A: mean moves over documents of half B.
    """
    plan = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    changes: dict[str, Any] = {SPELLING: None} | plan["words"] | plan["misspelled"]
    probe = probe_of(name)
    (reads, gate, _), fixed, neuron = first_layer(name), probe.circuit.fixed, probe.found[0]
    begin = [int(cx.texts.passages(fixed)[0].tokens[0])]
    rows: list[dict[str, Any]] = []
    for t in cx.texts.progress(english(fixed, BAR["least"]), f"{name}: changes"):
        parts = cb.spelling.respelled(t.source, partial(form_of, 1))
        text = "".join(part for part, _ in parts)
        found = [(m.start(), m.end(), PAIR[m.group()][0]) for m in cb.spelling.matches(text)]
        before = reads(begin + crop(fixed.tokenizer, in_parts(text, [], False))[0])[len(begin) :]
        for called, change in changes.items():
            if not (places := places_of(text, found, change)):
                continue
            (_, old), (ids, new) = (
                crop(fixed.tokenizer, in_parts(text, places, changed)) for changed in (False, True)
            )
            after = reads(begin + ids)[len(begin) :]
            at = [{end: k for k, end in enumerate(ends)} for ends in (old, new)]
            alike = sorted(end for end in at[0].keys() & at[1].keys() if end > places[0][0])
            if alike:
                one, two = (
                    x[[of[end] for end in alike]].mean(0) @ gate
                    for x, of in zip((before, after), at, strict=True)
                )
                row = {"change": called, "half": t.half, "document": t.document}
                rows.append(row | {"places": len(places), "gate": one, "moved": two - one})
    return {"neuron": neuron, "changes": best_of(pd.DataFrame(rows), neuron)}


def best_of(rows: pd.DataFrame, neuron: int) -> dict[str, Any]:
    """Return for each change how far it moves the gate of a neuron on half B, and, in standard
    deviations over documents, that and the move of the neuron that half A chooses for it.
    """

    def by_document(of: str, called: str, half: str) -> pd.DataFrame:
        some = rows.query("change == @called and half == @half")
        values = pd.DataFrame(torch.stack([*some[of]]).numpy(), some["document"])
        return values.groupby(level=0, sort=False).mean()

    unit, out = by_document("gate", SPELLING, "A").std(), {}
    for called in rows["change"].unique():
        chosen, judged = (by_document("moved", called, half) for half in "AB")
        move = chosen.mean() / unit
        best = int(move.abs().idxmax())
        texts: list[Any] = [SimpleNamespace(document=key, name=key) for key in judged.index]

        def moved(values: pd.Series, texts: Any = texts) -> list[float]:
            return [*cb.with_interval(partial(mean_of, values.to_numpy()), texts)[:3]]

        out[called] = {
            "documents": len(judged),
            "places": float(rows.query("change == @called and half == 'B'")["places"].mean()),
            "moved": moved(judged[neuron]),
            "in spreads": moved(judged[neuron] / unit[neuron]),
            "best": best,
            "best in spreads": moved(judged[best] / unit[best] * np.sign(move[best])),
        }
    return out


# ---------------------------------------------------------------- prediction beside measurement


def predicted_z(circuit: cx.ContextualCircuit) -> Callable[[Ids], Gathered]:
    """Return what page 0 predicts that each head gathers at each token of a text of at most n + 1,
    as if the query stood there.
    """
    split, heads, n = circuit.fixed.decomposition, list(circuit.heads), circuit.fixed.n
    back = torch.arange(n + 1)[:, None] - torch.arange(n + 1)  # token source
    kernel = split.kernels[heads][:, n - back.clamp(min=0)] * (back >= 0)
    content, values = split.content[heads], split.values(heads)
    of_page = einsum(kernel, content[:, circuit.calibration], "h token i, h i -> token h")

    def gathered(x: Ids) -> Gathered:
        weight = kernel[:, : len(x), : len(x)] * content[:, None, x]
        z = einsum(weight, values[x], "h token i, i h d -> token h d")
        return z / of_page[: len(x), :, None]

    return gathered


def form_of(side: int, word: re.Match[str]) -> str:
    return PAIR[word.group()][side]


def beside_the_model(name: str) -> dict[str, Any]:
    """Return for documents of half B how far respelling moves the neuron by the prediction, by the
    same heads in the model, and by its gate; and these three in documents as found.
    """
    probe = probe_of(name)
    circuit, fixed, neuron = probe.circuit, probe.circuit.fixed, probe.found[0]
    model, heads = cx.load(name, layers=1).original_model.model, list(circuit.heads)
    layer, predict = model.layers[0], predicted_z(circuit)
    parts = layer.self_attn.o_proj, layer.post_attention_layernorm  # in the order they run
    gate = layer.mlp.gate_proj.weight.detach().T
    write = layer.self_attn.o_proj.weight.detach().T.unflatten(0, (fixed.n_heads, -1))[heads]
    into = write.flatten(0, 1) @ (parts[1].weight.detach()[:, None] * gate)
    maps = circuit.readout.flatten(0, 1), into, gate  # of the three, to neurons
    layer.mlp = torch.nn.Identity()
    begin = [int(cx.texts.passages(fixed)[0].tokens[0])]

    def read(spelled: list[tuple[str, bool]]) -> tuple[dict[int, Tensor], dict[int, float]]:
        """By where a token ends, what the three read at it, and the share respelled so far."""
        ids, ends = crop(fixed.tokenizer, spelled)
        x = torch.tensor((begin + ids)[: fixed.n + 1])
        ((z,), _), ((mid,), out) = passed(model, x[None], parts)
        z = z[0].unflatten(-1, (fixed.n_heads, -1))[:, heads].flatten(1)
        scale = (mid[0].square().mean(-1, keepdim=True) + fixed.readout.eps).sqrt()
        rows = torch.cat([predict(x).flatten(1), z / scale, out[0]], 1)[1:]
        ends = ends[: len(rows)]
        so_far = (np.array(ends) < 0).cumsum() / np.arange(2, len(ends) + 2)
        return dict(zip(ends, rows, strict=True)), dict(zip(ends, so_far, strict=True))

    def to_neurons(mean: Tensor) -> Tensor:
        """What the three add to every neuron."""
        each = mean.split([len(of) for of in maps])
        return torch.stack([one @ of for one, of in zip(each, maps, strict=True)])

    rows, moves, sizes = [], [], []
    for t in cx.texts.progress(english(fixed, half="B"), f"{name}: prediction"):
        found = to_neurons(torch.stack([*read([(t.source, True)])[0].values()]).mean(0))
        row: dict[str, Any] = {"document": t.document, "dialect": t.dialect, "domain": t.domain}
        rows.append(row | {"found": found[:, neuron].tolist()})
        if len(words := cb.spelling.matches(t.source)) < BAR["least"]:
            continue
        (one, _), (two, dose) = (
            read(cb.spelling.respelled(t.source, partial(form_of, side))) for side in (0, 1)
        )
        alike = [end for end in one.keys() & two.keys() if end > words[0].start()]
        if alike:
            british, american = (
                to_neurons(torch.stack([of[end] for end in alike]).mean(0)) for of in (one, two)
            )
            rows[-1] |= {"moved": (british - american)[:, neuron].tolist()}
            rows[-1]["share"] = float(np.mean([dose[end] for end in alike]))
            moves.append(british - american)
            sizes.append(american[-1])
    mean, spread = torch.stack(moves).mean(0).numpy(), torch.stack(sizes).std(0).numpy()
    of_z = np.corrcoef(probe.columns["discovery"].z, mean[-1] / spread)[0, 1]
    over = {"z": of_z, "predicted move": np.corrcoef(mean[0], mean[1])[0, 1]}
    return {"neuron": neuron, "heads": heads, "texts": rows, "over neurons": over}


# ---------------------------------------------------------------- what is read off them


def mean_of(values: np.ndarray, drawn: np.ndarray) -> float:
    return values[drawn].mean()


def of_neurons(own: dict) -> dict:
    """Each neuron's parts, over the documents of half B."""
    table = pd.DataFrame(own["documents"]).query("half == 'B'")
    told = np.array(
        [[[v[i][k] for k in (0, -1)] for i in range(len(PARTS))] for v in table["told"]]
    )
    out: dict = {}
    for q, neuron in enumerate(own["neurons"]):
        for i, part in enumerate(PARTS):
            both = pd.DataFrame(told[:, i, :, q], columns=["American", "British"])
            both = both.groupby(table["document"].to_numpy()).mean()
            moved = both["British"] - both["American"]
            texts: list[Any] = [SimpleNamespace(document=name, name=name) for name in both.index]
            ends = cb.with_interval(partial(mean_of, moved.to_numpy()), texts)
            out[f"{neuron} {part}"] = {
                "documents": len(moved),
                "moved": [*ends[:3]],
                "in spreads over documents": float(moved.mean() / both["American"].std()),
                "falls in": float((moved < 0).mean()),
                "t": float(moved.mean() / moved.std() * len(moved) ** 0.5),
                "rank of |t|": {half: own["rank of |t|"][half][q][i] for half in "AB"},
            }
    return out


@command("british")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=REAL)
    parser.add_argument("--facts", action="store_true", help="read what is kept: no model is run")
    parser.add_argument("--changes", action="store_true", help="other changes, and nothing else")
    parser.add_argument("--predicted", action="store_true", help="the prediction, likewise")
    args = parser.parse_args(argv)
    others = {"changes": changes_of, "predicted": beside_the_model}
    if chosen := [of for of in others if getattr(args, of)]:
        with torch.no_grad():
            for of in chosen:
                facts = provenance(REAL[0]) | others[of](REAL[0])
                kept(cb.evidence(f"{of}.json"), REAL[0], facts)
        return
    if not args.facts:
        keep_runs(args.models)
    out = EVIDENCE / "british-facts.json"
    for name, own in json.loads(KEPT.read_text()).items():
        facts = {"file": own["file"], "sha256": own["sha256"], "neurons": of_neurons(own)}
        kept(out, name, facts)


if __name__ == "__main__":
    sys.exit(main())
