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
# Which head wakes this neuron?

**Usually no one head: what moves it comes mostly straight from earlier MLPs.**
Some neurons come near to predicting one token. Where they are loudest, how much of the rise of their activation does each head bring?
On texts where it was not chosen, the strongest head brings 4% in the middle neuron of SmolLM2, a tenth or more in 8 of 24, and in 0 of 24 random neurons.
These random neurons are unmatched, mostly with pieces of words as tokens, and the tenth was set after SmolLM2's numbers; on mini such heads are no commoner in these neurons than in random ones or ones with the same tokens.
Whether the token needs it is open: when the head is silent, the mean fall of the token's log P cannot be told from zero, on either model (on mini that of P can).
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub: any decoder
READ = 96  # tokens of each text
SIZES = None  # texts; next-token neurons, and as many random ones; None: by the model's size
PEAKS, ABLATED = 20, 4  # peaks of a neuron, and those of them at which something is silenced
LIKELY = 0.5  # a neuron predicts its token if P at its peaks is this or more
SHARES = (0.0, 0.1, 0.2, 0.4, 0.8)  # of a planted neuron's input weights, turned to its head
LOUD = 4  # times as long as they were: a plant's output weights
MODELS = None  # real models that are run for what is kept: make evidence CHAPTER=15_lookups

# %% tags=["hide-input"]
# Conditions of what will be said about SmolLM2 and about plants: set before any of it was measured,
# and not moved; how a plant is made was changed on mini, as the page says. SmolLM2 reads as many texts as mini; half A chooses, half B counts. A gated neuron has
# two sides, for gate times up may have either sign. An interval is the wider of two: documents
# redrawn, neurons of one token redrawn.
# one head: of a next-token neuron's peaks its commonest winner takes more than this, and more than
# of a random neuron's (p below 0.05)
MOST = 0.5
# loss: silence of the strongest head costs the token something, and more than a random neuron's
# together: silence of the three strongest costs more than the sum of what each costs alone
# way: more than half of what the strongest head's silence costs goes through the neuron
# plants: 24 heads and as many later neurons, drawn; a share of the neuron's input weights is turned
# to what the head says most, and its output to its token. Where plants bring half of the rise, four
# in five must be found: the strongest head in both halves. Where fewer than half of them are, the
# model's own neurons may have heads of that size without our seeing them

# %% tags=["hide-input", "nbval-check-output"]
import json
from functools import partial
from types import SimpleNamespace

import einops
import numpy as np
import pandas as pd
import torch
from transformers.activations import ACT2FN

import ctxbook as cb
import ctxlib as cx
import ctxviews as cv

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
torch.set_grad_enabled(False)
model = cx.load(MODEL)
n_layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
large = sum(p.numel() for p in model.parameters()) > 50_000_000
SIZES = SIZES or ((100, 8) if large else (240, 24))


def texts_of(model, count):
    """Held-out texts of both halves, `text pos` each, and their documents."""
    texts = cx.texts.collection(cx.texts.Reader.of(model, min(READ, model.cfg.n_ctx)), count)
    length = min(READ, *(len(text.tokens) for text in texts))
    halves = [text.half or "AB"[i % 2] for i, text in enumerate(texts)]
    of = {h: [t for t, mine in zip(texts, halves, strict=True) if mine == h] for h in "AB"}
    return {h: (torch.stack([t.tokens[:length] for t in some]), some) for h, some in of.items()}


halves = texts_of(model, SIZES[0])
A, B = (halves[half][0] for half in "AB")
pd.DataFrame(
    {
        "layers": n_layers,
        "heads a layer": n_heads,
        "texts, half A": len(A),
        "texts, half B": len(B),
        "tokens of each": A.shape[1],
    },
    index=[MODEL],
)

# %% [markdown]
r"""
So far a neuron was known by what wakes it. It can also be known by what it says. Written into the stream, its output weights $w_\text{out}^j$ meet the unembedding $W_U$ at the end, one column a token. One unit of activation adds

$$
c_j(t) \;=\; w_\text{out}^j \cdot W_U[:, t]
$$ (eq-look-congruence)

to the logit of $t$, but for the last LayerNorm, which divides everything by one number. This is the **congruence** of neuron and token {cite}`neo2024interpreting`; the token with the largest one is the neuron's **token**. A gated neuron multiplies its gate by a second reading, *up*, and the product may have either sign. So it has two sides, each with its token. The questions are that paper's, on real texts: half A of the held-out documents chooses, half B judges. They are asked of `mini`, here in the page, and of SmolLM2, of thirty layers ([chapter 8](08_real_model)), whose answers are kept with the book.

## Does a neuron predict its token?

In each text a neuron has one **peak**, the place where it is most active (BOS left out). At its 20 largest peaks in half A the next token ought to be its own. If its mean probability there, P, is one half or more, the neuron *predicts* its token. The last five layers are asked (of `mini`, all four).
"""


# %% tags=["hide-input"]
def spoken(model, layer):
    """Each neuron's token, `side neuron`, and its congruence. A gated neuron has two sides: where
    gate times up is negative it raises the token that it lowers otherwise."""
    scores = cx.lookups.congruence(model, layer)
    both = [scores, -scores] if len(cx.adapter.mlp_inputs(model, layer)) > 1 else [scores]
    return [torch.stack(v) for v in zip(*((s.argmax(1), s.amax(1)) for s in both), strict=True)]


def peaks(model, layers, tokens, part):
    """The largest activation of every neuron in each text, and log P of its token there:
    `text layer side neuron` both."""
    hooks = [f"blocks.{k}.mlp.hook_post" for k in layers]
    logits, cache = model.run_with_cache(part, names_filter=hooks)
    post = torch.stack([cache[name].cpu() for name in hooks], 2)[:, 1:]  # text pos layer neuron
    post = torch.stack([post, -post][: tokens.shape[1]], 3)
    best, end = post.max(1)
    rows = torch.arange(len(part))[:, None, None, None]
    return best, logits.log_softmax(-1).cpu()[rows, end + 1, tokens]


def chosen(model, halves, count):
    """All sides of the neurons of the last five layers, their P in both halves; as places `layer
    side neuron`, those that come nearest to predicting, as many random ones, and, where there are
    so many, others with the same tokens."""
    layers = [k for k in range(model.cfg.n_layers) if cx.adapter.upstream_layers(model, k)][-5:]
    tokens, size = (torch.stack(v) for v in zip(*(spoken(model, k) for k in layers), strict=True))
    P = {}
    for half, (x, _) in halves.items():
        found = [peaks(model, layers, tokens, some) for some in x.split(8)]
        best, log_p = (torch.cat(v) for v in zip(*found, strict=True))
        loudest, which = best.topk(min(PEAKS, len(x)), dim=0)
        P[half] = log_p.gather(0, which).exp().mean(0)  # layer side neuron
        P[half][loudest[-1] <= 0] = 0  # hardly anything wakes these
    index = torch.stack(torch.meshgrid(*map(torch.arange, P["A"].shape), indexing="ij"), -1)
    said = index.flatten(0, 2)[P["A"].flatten().topk(count).indices].tolist()
    awake, rng = P["A"] > 0, np.random.default_rng(0)
    drawn = []
    for k in sorted({k for k, *_ in said}):
        pool = [
            (k, *fixed) for fixed in torch.nonzero(awake[k]).tolist() if [k, *fixed] not in said
        ]
        wanted = sum(layer == k for layer, *_ in said)
        drawn += [pool[i] for i in rng.choice(len(pool), wanted, replace=False)]
    alike, own = [], [int(tokens[tuple(fixed)]) for fixed in said]
    for t in sorted(set(own)):
        pool = [
            fixed for fixed in torch.nonzero((tokens == t) & awake).tolist() if fixed not in said
        ]
        alike += [pool[i] for i in rng.permutation(len(pool))[: own.count(t)]]

    def those(places, **facts):
        return SimpleNamespace(
            tokens=torch.stack([tokens[tuple(fixed)] for fixed in places]),
            places=[(layers[k], j) for k, _, j in places],
            side=torch.tensor([1 - 2 * s for _, s, _ in places]),
            **facts,
        )

    places = sorted([*map(tuple, said), *drawn])
    return those(
        places,
        P=P,
        size=size,
        P_of={h: torch.stack([P[h][fixed] for fixed in places]).numpy() for h in P},
        is_next=np.array([list(fixed) in said for fixed in places]),
        same_tokens=those(alike) if alike else None,
    )


look = chosen(model, halves, SIZES[1])

# %% [markdown]
r"""
Too few neurons pass that bound, as will be seen. So the **next-token neurons** of this page are the 24 with the largest P in half A, whether they reach the bound or not. As many **random neurons** of the same layers go through everything beside them, each with its own token.

## What an activation is made of

The stream that a layer's MLP reads at the last token $n$ is a sum: the embedding $x_0$ (with the position), what each earlier MLP wrote, $m_k$, and what each head $i$ of each layer $k$ up to the neuron's own, $l$, wrote, $h_{ik}$, with the biases $b_{O,k}$. LayerNorm divides it by its scale $s$. With $e$ the weights that a neuron reads it with (LayerNorm's gain folded in) and $b$ its bias, the number that it reads is

$$
\begin{aligned}
\text{pre} \;&=\; b + \frac{1}{s} \Bigl( x_0 + \sum_{k < l} m_k + \sum_{k \le l} b_{O,k} \Bigr) \cdot e + \sum_{k \le l} \sum_i A_{ik} , \\
A_{ik} \;&=\; \frac{h_{ik} \cdot e}{s} \;=\; \sum_{u \le n} a_{n,u}\; \frac{v_u W_O \cdot e}{s} .
\end{aligned}
$$ (eq-look-terms)

$A_{ik}$ is the paper's head attribution, divided by LayerNorm's scale so that the terms add up; the last sum says from which sources $u$ it comes, with attention $a_{n,u}$ and values $v_u$. What comes from $u = n$, the token at hand, is no look-up, and BOS is the same in every text. The rest is context.

A term that is always there wakes nobody. So what counts is how any term $c$, a head's or another, differs at a peak from its mean over all places, $\Delta_c$. A gated neuron has two such sums, gate and up, whose product is the activation $f$. Let both go the straight way $x(\tau)$ from their means to the peak, and give each term its part of the climb:

$$
\text{rise}_c \;=\; \Delta_c \cdot \int_0^1 \nabla f \bigl( x(\tau) \bigr) \, d\tau , \qquad \sum_c \text{rise}_c \;=\; f(x(1)) - f(x(0)) .
$$ (eq-look-rise)

This is the method of integrated gradients {cite}`sundararajan2017axiomatic`; with one input every term keeps its plain share of the sum.
"""


# %% tags=["hide-input"]
HOOKS = {"a": "attn.hook_pattern", "v": "attn.hook_v", "z": "attn.hook_z"}
HOOKS |= {"h": "hook_attn_out", "m": "hook_mlp_out", "post": "mlp.hook_post"}
PARTS = ("heads", "MLPs", "embedding", "bias")
NO_LOGITS = {"logits_to_keep": 1}  # where they are not asked, of the last token alone


def of_layers(model, cache, w, count):
    """What one of the hooks has seen in each layer, `text layer pos ...`; shared values repeated."""
    seen = torch.stack([cache[f"blocks.{k}.{HOOKS[w]}"].cpu() for k in range(count)], 1)
    return seen.repeat_interleave(model.cfg.n_heads // seen.shape[3], 3) if w == "v" else seen


def terms(model, seen, layer, neurons):
    """The parts of what some neurons of a layer read, at every place: `text pos neuron ... input`,
    with one input, or two, gate and up."""
    W, b = zip(*cx.adapter.mlp_inputs(model, layer).values(), strict=True)
    e = torch.stack([w[:, neurons].cpu() for w in W], -1)  # d_model neuron input
    W_O, b_O = cx.lookups.layers.output_weights(model, layer)  # layer head d d_model; biases summed
    count = len(W_O)
    a, v, z, h = (seen[w][:, :count] for w in "avzh")  # h with its bias
    x_0, m = seen["x_0"], seen["m"][:, :layer].sum(1)
    s = cx.lookups.layers.norm_scale(model, x_0 + m + h.sum(1))[..., None, None]  # text pos 1 1
    to = einops.einsum(W_O, e, "k i d m, m j q -> k i d j q")
    said = einops.einsum(v, to, "t k u i d, k i d j q -> t k i u j q")  # v_u W_O . e
    heads = einops.einsum(z, to, "t k n i d, k i d j q -> t n j k i q") / s[..., None, None]
    own = einops.einsum(a.diagonal(dim1=-2, dim2=-1), said, "t k i n, t k i n j q -> t n j q") / s
    bos = einops.einsum(a[..., 0], said[..., 0, :, :], "t k i n, t k i j q -> t n j q") / s
    missing = (0, 0, 0, 0, 0, model.cfg.n_layers - count)  # layers that come too late add nothing
    return {
        "heads": torch.nn.functional.pad(heads, missing),
        "MLPs": einops.einsum(m, e, "t n m, m j q -> t n j q") / s,
        "embedding": einops.einsum(x_0, e, "t n m, m j q -> t n j q") / s,
        "bias": torch.stack([v[neurons].cpu() for v in b], -1) + einops.einsum(b_O, e, "m, m j q -> j q") / s,
        "own": own,
        "BOS": bos,
        "scale": s[..., 0].expand(*s.shape[:2], len(neurons)),
    }  # fmt: skip


def log_P_next(model, stream):
    """Of every token as the next one: `place d_model -> place vocab`."""
    return cx.lookups.layers.logits(model, stream).log_softmax(-1)


def read(model, look, x):
    """Each neuron's peak in each text: where, how loud, log P of its token, its terms there
    (`text neuron ...`); the mean of the terms over all places; inside all heads, the mean over texts;
    the stream behind the last layer.
    """
    by_layer = {}
    for k, j in look.places:
        by_layer.setdefault(k, []).append(j)
    n_layers = model.cfg.n_layers
    names = [f"blocks.{k}.{hook}" for k in range(n_layers) for hook in HOOKS.values()]
    first, last = "blocks.0.hook_resid_pre", f"blocks.{n_layers - 1}.hook_resid_post"
    there, stream, usual, z, weight = [], [], {}, 0.0, 1 / len(x)
    for part in x.split(8):
        _, cache = model.run_with_cache(part, names_filter=[first, *names, last], **NO_LOGITS)
        seen = {w: of_layers(model, cache, w, n_layers) for w in "avzhm"}
        seen["x_0"] = cache[first].cpu()
        found = [terms(model, seen, k, js) for k, js in by_layer.items()]
        found = {name: torch.cat([f[name] for f in found], 2) for name in found[0]}
        post = [cache[f"blocks.{k}.mlp.hook_post"].cpu()[..., js] for k, js in by_layer.items()]
        post = torch.cat(post, -1)  # text pos neuron
        end = (post[:, 1:] * look.side).argmax(1) + 1  # text neuron
        rows, each = torch.arange(len(part))[:, None], torch.arange(len(look.places))
        found["post"] = post
        there.append({name: v[rows, end, each] for name, v in found.items()} | {"end": end})
        for name, v in found.items():
            usual[name] = usual.get(name, 0) + weight * v[:, 1:].mean(1).sum(0)
        z = z + weight * seen["z"].sum(0)
        stream.append(cache[last].cpu())
    there = {name: torch.cat([t[name] for t in there]) for name in there[0]}
    order = (there["post"] * look.side).topk(min(PEAKS, len(x)), 0).indices  # peak neuron
    there = {name: v[order, each] for name, v in there.items()}
    stream = torch.cat(stream)
    fixed = zip(order, there["end"], strict=True)
    there["log P"] = torch.stack(
        [log_P_next(model, stream[t, n])[each, look.tokens] for t, n in fixed]
    )
    return SimpleNamespace(there=there, usual=usual, text=order, z=z, stream=stream)


# %% tags=["hide-input"]
def activation(model, inputs):
    """`act(pre)`, or of a gated neuron `act(gate) up`: `... input -> ...`."""
    act = ACT2FN[cx.adapter.act_fn(model)]
    return act(inputs[..., 0]) * (inputs[..., 1] if inputs.shape[-1] > 1 else 1)


def rises(model, look, found):
    """What every part adds on the straight way from the usual inputs to those at a peak: `peak
    neuron ...`; they sum to the rise of the activation."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    start, end = (
        sum(v[n].flatten(v[n].ndim - 3, -2).sum(-2) if n == "heads" else v[n] for n in PARTS)
        for v in (found.usual, found.there)
    )  # neuron input; peak neuron input
    slope = torch.zeros_like(end)
    with torch.enable_grad():
        for t, w in zip((nodes + 1) / 2, weights / 2, strict=True):
            way = (start + t * (end - start)).requires_grad_()
            total = activation(model, way).sum()
            slope += float(w) * torch.autograd.grad(total, way)[0]
    added = {}
    for name in (*PARTS, "own", "BOS"):
        moved = found.there[name] - found.usual[name]  # peak neuron ... input
        to = slope[:, :, None, None] if name == "heads" else slope
        signed = (moved * to).sum(-1)
        added[name] = signed * look.side.reshape(-1, *[1] * (signed.ndim - 2))
    before = activation(model, start)
    added["all"] = (found.there["post"] - before) * look.side
    return added


# %% tags=["hide-input"]
def fall(model, look, x, found, middle, heads=None, neurons=None):
    """By how much the token's log P falls at the loudest peaks, `peak neuron`: heads silenced
    (`neuron layer head`, True where silent), neurons held (`peak neuron`)."""
    count, n_layers = min(ABLATED, len(found.text)), model.cfg.n_layers
    rows = [(p, q) for q in range(len(look.places)) for p in range(count)]
    prompts = [x[found.text[p, q], : found.there["end"][p, q] + 1] for p, q in rows]
    fell, by_length = torch.zeros(count, len(look.places)), np.argsort([len(p) for p in prompts])
    last = f"blocks.{n_layers - 1}.hook_resid_post"
    for some in np.array_split(by_length, -(-len(rows) // 16)):
        ids, end = cx.lookups.hooks.pad(model, [prompts[r] for r in some])
        fixed = [rows[r] for r in some]
        hooks = []
        if heads is not None:
            quiet = torch.stack([heads[q] for _, q in fixed])  # row layer head

            def silence(own, hook, quiet=quiet, ids=ids):
                k = int(hook.name.split(".")[1])
                mean = middle[k][: ids.shape[1]].to(own)
                return torch.where(quiet[:, None, k, :, None].to(own.device), mean[None], own)

            hooks += [(f"blocks.{k}.attn.hook_z", silence) for k in range(n_layers) if quiet[:, k].any()]  # fmt: skip
        if neurons is not None:

            def hold(own, hook, fixed=fixed, end=end):
                k, own = int(hook.name.split(".")[1]), own.clone()
                for r, (p, q) in enumerate(fixed):
                    if look.places[q][0] == k:
                        own[r, end[r], look.places[q][1]] = neurons[p, q]
                return own

            hooks += [(f"blocks.{k}.mlp.hook_post", hold) for k in {k for k, _ in look.places}]
        with model.hooks(fwd_hooks=hooks):
            _, cache = model.run_with_cache(ids, names_filter=[last], **NO_LOGITS)
        log_p = log_P_next(model, cache[last].cpu()[range(len(some)), end])
        for r, (p, q) in enumerate(fixed):
            fell[p, q] = found.there["log P"][p, q] - log_p[r, look.tokens[q]]
    return fell


def only(model, heads):
    """`neuron layer head`: these heads of each neuron, counted through all layers."""
    n_heads = model.cfg.n_heads
    mask = torch.zeros(len(heads), model.cfg.n_layers * n_heads, dtype=torch.bool)
    for q, some in enumerate(heads):
        mask[q, list(some)] = True
    return mask.unflatten(1, (-1, n_heads))


def looked_up(model, halves, look):
    """Where the peaks are and who brings the rise there: of half A the profile, of half B all."""
    (A, _), (B, texts_B) = halves["A"], halves["B"]
    in_A, in_B = read(model, look, A), read(model, look, B)
    rise = rises(model, look, in_B)
    profile_A = rises(model, look, in_A)["heads"].mean(0).flatten(1)  # neuron head
    names = np.array([text.document or text.name for text in texts_B])
    return SimpleNamespace(
        in_A=in_A, in_B=in_B, rise=rise, profile_A=profile_A,
        profile=rise["heads"].mean(0).flatten(1), documents=names[in_B.text],
    )  # fmt: skip


SILENT = {  # of the heads that are strongest in half A, those that are silenced
    "the strongest head": slice(0, 1),
    "the second": slice(1, 2),
    "the third": slice(2, 3),
    "all three": slice(0, 3),
}


def ranked(model, found, some):
    """`neuron layer head`: those of these ranks in half A."""
    return only(model, found.profile_A.argsort(1, descending=True)[:, some].tolist())


def costs(model, halves, look, found):
    """What silence costs in half B: `peak neuron`, of heads, of the neuron, and of the strongest
    head by way of the neuron."""
    lost = partial(fall, model, look, halves["B"][0], found.in_B, found.in_A.z)
    heads = {name: ranked(model, found, some) for name, some in SILENT.items()}
    cost = {name: lost(mask) for name, mask in heads.items()}
    held = lost(heads["the strongest head"], found.in_B.there["post"])
    cost["through the neuron"] = cost["the strongest head"] - held
    cost["the neuron"] = lost(None, found.in_A.usual["post"].expand_as(held))
    cost["heads of layer 0"] = lost(only(model, [range(model.cfg.n_heads)] * len(look.places)))
    return cost


def kept_of(model, halves, look, found):
    """What is kept of it: numbers alone."""
    heads = found.rise["heads"]  # peak neuron layer head
    cost, decode = costs(model, halves, look, found), model.tokenizer.decode
    P_usually = [
        log_P_next(model, r)[:, look.tokens].exp().mean(0) for r in found.in_B.stream[:, 1:]
    ]
    return {
        "asked": int(look.P["A"].numel()),
        "predict": [int((look.P["A"] >= LIKELY).sum()), int(((look.P["A"] >= LIKELY) & (look.P["B"] >= LIKELY)).sum())],
        "rank": float(pd.Series(look.size.flatten()).corr(pd.Series(look.P["A"].flatten()), method="spearman")),
        "by weights": int((look.P["A"].flatten()[look.size.flatten().topk(int(look.is_next.sum())).indices] >= LIKELY).sum()),
        "places": [[*fixed, int(s)] for fixed, s in zip(look.places, look.side, strict=True)],
        "token": [decode([int(t)]) for t in look.tokens],
        "next": look.is_next.tolist(),
        "P": [look.P_of[h].tolist() for h in "AB"],
        "P usually": torch.stack(P_usually).mean(0).tolist(),
        "documents": found.documents.tolist(),
        "rise": {
            "all": found.rise["all"].tolist(), "heads": heads.sum((2, 3)).tolist(), "heads of layer 0": heads[:, :, 0].sum(-1).tolist(),
            **{n: found.rise[n].tolist() for n in ("MLPs", "own", "BOS")},
        },
        "profile": [v.tolist() for v in (found.profile_A, found.profile)],
        "winners": heads.flatten(2).argmax(2).tolist(),
        "cost": {name: v.tolist() for name, v in cost.items()},
    }  # fmt: skip


found = looked_up(model, halves, look)
alike = look.same_tokens and looked_up(model, halves, look.same_tokens)

total = sum(found.rise[n].flatten(2).sum(2) if n == "heads" else found.rise[n] for n in PARTS)
near = 1e-3 * float(found.rise["all"].abs().max())
assert torch.allclose(total, found.rise["all"], atol=near)  # rises add up to the activation's

# %% tags=["hide-input"]
KEPT = cb.evidence("lookups.json")


def rounded(facts):
    return json.loads(json.dumps(facts), parse_float=lambda v: float(f"{float(v):.4g}"))


def along_of(model, x, heads, layer):
    """For each head (layer, head) what it says most, inside it, as a unit of `d_head` times the
    spread of it; for each the direction of the stream in front of a layer's MLP in which least is
    said; the spread of the stream a direction; and the stream, `place d_model`."""
    inside, mid = {k: f"blocks.{k}.attn.hook_z" for k, _ in heads}, f"blocks.{layer}.hook_resid_mid"
    seen = {name: [] for name in (*inside.values(), mid)}
    for part in x.split(8):
        _, cache = model.run_with_cache(part, names_filter=list(seen), **NO_LOGITS)
        for name, v in seen.items():
            v.append(cache[name].cpu()[:, 1:].flatten(0, 1))
    r = torch.cat(seen[mid])
    r = cx.adapter.centered(model, r - r.mean(0))
    quiet = torch.linalg.eigh((r.T @ r).double())[1].T.to(r)
    quiet = (
        quiet[quiet.sum(1).abs() < 1e-3 * len(quiet)]
        if model.cfg.normalization_type.startswith("LN")
        else quiet
    )
    said = []
    for k, i in heads:
        z = torch.cat(seen[inside[k]])[:, i]
        z = z - z.mean(0)
        u = torch.linalg.eigh(z.T @ z)[1][:, -1]
        said.append(u * torch.sign(((z @ u) ** 3).mean()) / (z @ u).std())
    return said, quiet[: len(heads)], float(r.std()), r


def planted(model, look, heads, plan, share):
    """Heads that also say what they say most where nobody else says much, as loud as the stream is
    in a direction; neurons of `look` with a share of their input weights turned there, and their
    output turned to their tokens. What was there before."""
    said, quiet, loud, stream = plan
    W_U, before = cx.lookups.layers.unembedding(model), []

    def put(place, new):
        before.append((place, place.clone()))
        place.copy_(new)

    for (k, j), t, (of, i), u, d in zip(look.places, look.tokens, heads, said, quiet, strict=True):
        mlp, W_O = model.blocks[k].mlp, model.blocks[of].attn.W_O.data[i]
        put(W_O, W_O.cpu() + loud * torch.outer(u, d))
        for W in (mlp.W_in, mlp.W_gate):
            if W is not None:
                e = W.data[:, j]
                own = e.cpu()
                put(e, (1 - share) * own + share * (stream @ own).std() / loud * d)
        out, to = mlp.W_out.data[j], W_U[:, t]
        put(out, LOUD * out.norm().cpu() * to / to.norm())
    return before


def power(model, halves, look, count, silence, seed=0):
    """Plants at every share: how many are found, how much of the rise they bring, and, where that
    is asked, what their strongest heads' silence costs."""
    rng, n_heads = np.random.default_rng(seed), model.cfg.n_heads
    random = np.flatnonzero(~look.is_next)[:count]
    places = [look.places[q] for q in random]
    heads = [
        (int(rng.integers(1, k)) if k > 1 else 0, int(rng.integers(n_heads))) for k, _ in places
    ]
    plan = along_of(model, halves["A"][0], heads, model.cfg.n_layers - 1)
    there = SimpleNamespace(
        places=places,
        side=torch.ones(len(places), dtype=torch.int64),
        tokens=look.tokens[random],
        is_next=np.ones(len(places), bool),
    )
    kept = {}
    for share in SHARES:
        before = planted(model, there, heads, plan, share)
        try:
            found, cost = looked_up(model, halves, there), {}
            if silence:
                name, B = "the strongest head", halves["B"][0]
                heads_A = ranked(model, found, SILENT[name])
                cost[name] = fall(model, there, B, found.in_B, found.in_A.z, heads_A)
        finally:
            for place, old in reversed(before):
                place.copy_(old)
        true = [k * n_heads + i for k, i in heads]
        A, B = (v.argmax(1).tolist() for v in (found.profile_A, found.profile))
        brings = found.profile[range(len(true)), true] / found.rise["all"].mean(0)
        kept[str(share)] = {
            "found": [[a == t, a == b == t] for a, b, t in zip(A, B, true, strict=True)],
            "brings": brings.tolist(),
            "documents": found.documents[:ABLATED].tolist(),
            "cost": {name: v.tolist() for name, v in cost.items()},
        }
    return kept


if MODELS and "smollm2" in MODELS:
    other = cx.load("smollm2")
    theirs = texts_of(other, 240)
    fixed = chosen(other, theirs, 24)
    facts = kept_of(other, theirs, fixed, looked_up(other, theirs, fixed)) | {
        "plants": power(other, theirs, fixed, 24, silence=True)
    }
    facts |= {"files": cx.models.real_models()["smollm2"]["files"]}
    KEPT.write_text(json.dumps(rounded(facts)) + "\n")
    del other
here = kept_of(model, halves, look, found)
if not large:  # half the chapter's time
    here["plants"] = power(model, halves, look, SIZES[1], silence=False)
there = json.loads(KEPT.read_text())
BOTH = {"SmolLM2": there, MODEL: rounded(here)}

# %% tags=["hide-input", "nbval-check-output"]
SMOL, MINE = BOTH.values()
display(
    cb.finding(
        f"Of the {SMOL['asked']:,} sides of SmolLM2's last neurons {SMOL['predict'][0]} predict their token on half A, and {SMOL['predict'][1]} of these on half B, where nothing was chosen; of the {MINE['asked']:,} neurons of {MODEL} {MINE['predict'][0]} and {MINE['predict'][1]}.",
        holds=all(0 < k["predict"][1] < k["predict"][0] < 0.01 * k["asked"] for k in BOTH.values()),
    ),
    cb.finding(
        f"On SmolLM2 weights alone find none of them: the 24 of largest congruence hold {SMOL['by weights']} of these {SMOL['predict'][0]}, and on {MODEL} {MINE['by weights']} of {MINE['predict'][0]}; the rank correlation of congruence with P is {SMOL['rank']:.2f} and {MINE['rank']:.2f}.",
        holds=SMOL["by weights"] == 0 and max(MINE["rank"], SMOL["rank"]) < 0.5,
    ),
)  # fmt: skip

# %% tags=["hide-input", "nbval-check-output"]
of_next = sorted(np.flatnonzero(SMOL["next"]), key=lambda x: -SMOL["P"][0][x])
per_layer = 9  # heads of SmolLM2


def named(kept, x):
    k, j, side = kept["places"][x]
    return f"{k}.{j}{'−' if side < 0 else ''} {cb.figures.visible(kept['token'][x])}"


rows = [
    (
        named(SMOL, x),
        f"{SMOL['P'][0][x]:.2f}",
        f"{SMOL['P'][1][x]:.2f}",
        f"{SMOL['P usually'][x]:.3f}",
        *("{}.{}".format(*divmod(int(np.argmax(SMOL["profile"][half][x])), per_layer)) for half in (0, 1)),
    )
    for x in of_next[:8]
]  # fmt: skip
columns = ["the first 8 of SmolLM2", "P, half A", "P, half B", "P everywhere", "strongest head, half A", "half B"]  # fmt: skip
pd.DataFrame(rows, columns=columns).set_index(columns[0])

# %% [markdown]
r"""
A neuron or head is written *layer.number*, − marks a neuron's negative side, ␣ is a space, ↵ a new line; *P everywhere* is a mean over all places. P is lower in half B for most: neurons chosen for a large number owe part of it to luck. The next-token neurons' tokens are punctuation, digits and small words; those of random neurons are mostly pieces of words, with P near zero.

## Who brings the rise?

Brackets hold 95% intervals, the wider of two: documents of half B drawn again, and neurons drawn again, those of one token together. p comes from exchanging next-token and random neurons within layers.
"""


# %% tags=["hide-input"]
def over(kept, part, whole=None, mask=None):
    """The mean over a group's neurons of a number at their peaks (or of its share in another), and
    the wider interval."""
    mask = np.array(kept["next"]) if mask is None else mask
    part = np.array(part)[:, mask]
    whole = np.ones_like(part) if whole is None else np.array(whole)[: len(part), mask]
    documents = np.array(kept["documents"])[: len(part), mask]
    token = np.broadcast_to(np.array(kept["token"])[mask], part.shape)
    x = np.broadcast_to(np.arange(part.shape[1]), part.shape).ravel()
    entries = [
        SimpleNamespace(document=d, domain=t, name=d)
        for d, t in zip(documents.ravel(), token.ravel(), strict=True)
    ]
    v, w = part.ravel(), whole.ravel()

    def statistic(drawn):
        top, bottom, times = (np.bincount(x[drawn], u) for u in (v[drawn], w[drawn], None))
        return (top[times > 0] / bottom[times > 0]).mean()

    return cb.with_interval(statistic, entries, units=cb.WIDER)  # a token's neurons: a domain


def apart(kept, part, draws=1999):
    """p of the difference between the groups, whichever is larger."""
    rng, v, is_next = np.random.default_rng(0), np.array(part).mean(0), np.array(kept["next"])
    layer = np.array([k for k, *_ in kept["places"]])

    def gap(order):
        return abs(v[order[is_next]].mean() - v[order[~is_next]].mean())

    shuffled = [gap(np.lexsort((rng.random(len(v)), layer))) for _ in range(draws)]
    return (1 + np.sum(np.array(shuffled) >= gap(np.arange(len(v))) - 1e-9)) / (draws + 1)


def ends(estimate, form=".0%"):
    return f"{estimate:{form}}".replace("−", "-")


WHO = ("heads of layer 0", "heads", "MLPs")
share = {name: {who: over(kept, kept["rise"][who], kept["rise"]["all"]) for who in WHO} for name, kept in BOTH.items()}  # fmt: skip
share_random = {name: {who: over(kept, kept["rise"][who], kept["rise"]["all"], ~np.array(kept["next"])) for who in WHO} for name, kept in BOTH.items()}  # fmt: skip
figure, (axes,) = cb.figures.panels(1, 2, width=8.6, height=2.2, sharey=True)
for axis, name in zip(axes, BOTH, strict=True):
    for q, group in enumerate((share, share_random)):
        middle, low, high = np.array([v[:3] for v in group[name].values()]).T
        fixed = np.arange(len(WHO)) + 0.24 * q - 0.12
        axis.hlines(fixed, low, high, color=cb.figures.COLORS[q])
        label = ("next-token neurons", "random neurons")[q]
        axis.plot(middle, fixed, "os"[q], ms=5, color=cb.figures.COLORS[q], label=label)
    axis.axvline(0, color=cb.figures.INK, lw=1, ls=":")
    axis.set(title=name, xlabel="share of the rise at the peaks")
axes[0].set_yticks(range(len(WHO)), ["heads of layer 0", "all heads", "MLPs before it"])
axes[0].invert_yaxis()
axes[1].legend(fontsize=8)
cb.figures.picture(
    figure,
    "15.1",
    "Who brings a neuron's rise at its peaks in half B, with 95% intervals.",
    "Two dot plots. "
    + "; ".join(f"{name}, {who}: {ends(v)}" for name, of in share.items() for who, v in of.items())
    + ".",
)

# %% tags=["hide-input", "nbval-check-output"]
commonest = {}
for name, kept in BOTH.items():
    winners = np.array(kept["winners"])  # peak neuron
    commonest[name] = np.array([np.bincount(w).max() / len(w) for w in winners.T])
takes = {name: [v[np.array(BOTH[name]["next"]) == group].mean() for group in (True, False)] for name, v in commonest.items()}  # fmt: skip
p_takes = {name: apart(BOTH[name], v[None]) for name, v in commonest.items()}
(s, m), (s_random, m_random) = share.values(), share_random.values()
alone = {}  # of half A's strongest head, its share of half B's rise
recurs = {}  # and whether it is the strongest there


def strongest(profile_A, profile, whole):
    top, of_B, whole = np.argmax(profile_A, 1), np.array(profile), np.array(whole)
    return of_B[range(len(top)), top] / whole.mean(0), top == of_B.argmax(1)


for name, kept in BOTH.items():
    alone[name], recurs[name] = strongest(*kept["profile"], kept["rise"]["all"])
tenth = {name: [(v >= 0.1) & (np.array(BOTH[name]["next"]) == group) for group in (True, False)] for name, v in alone.items()}  # fmt: skip
rest = {name: np.array(BOTH[name]["next"]) & ~of[0] for name, of in tenth.items()}
middle_of = {name: np.median(v[BOTH[name]["next"]]) for name, v in alone.items()}


of_alike = (v.numpy() for v in (alike.profile_A, alike.profile, alike.rise["all"])) if alike else ()
same = strongest(*of_alike)[0] if alike else np.array([])


def with_tenth(name):
    return f"a tenth or more in {tenth[name][0].sum()} of {sum(BOTH[name]['next'])}, and in {tenth[name][1].sum()} of {sum(~np.array(BOTH[name]['next']))} random neurons"


display(
    cb.finding(
        f"At the loudest peaks of the 24 neurons that come nearest to predicting their token, MLPs bring {s['MLPs'][0]:.0%} of the rise on SmolLM2 and all heads {s['heads'][0]:.0%} (of random neurons {s_random['MLPs'][0]:.0%} and {s_random['heads'][0]:.0%}); on {MODEL} {m['MLPs'][0]:.0%} and {m['heads'][0]:.0%} ({m_random['MLPs'][0]:.0%} and {m_random['heads'][0]:.0%}).",
        holds=min(s["MLPs"][1] - s["heads"][2], m["MLPs"][1] - m["heads"][2]) > 0,
    ),
    cb.finding(
        f"On texts where it was not chosen, the strongest head brings {middle_of['SmolLM2']:.0%} in the middle neuron of SmolLM2, {with_tenth('SmolLM2')}.",
        holds=bool(middle_of["SmolLM2"] < 0.1 and apart(SMOL, (alone["SmolLM2"] >= 0.1)[None]) < 0.05),
    ),
    cb.finding(
        f"On {MODEL} it brings {middle_of[MODEL]:.0%} in the middle neuron, {with_tenth(MODEL)}; of {len(same)} neurons with the same tokens, drawn later, it does in {(same >= 0.1).sum()}.",
        holds=bool(min(tenth[MODEL][1].sum(), (same >= 0.1).sum()) >= tenth[MODEL][0].sum() and middle_of[MODEL] < 0.1),
    ),
    cb.finding(
        f"On SmolLM2 the head that most often has the largest rise has it at {takes['SmolLM2'][0]:.0%} of a next-token neuron's peaks and {takes['SmolLM2'][1]:.0%} of a random neuron's (p = {p_takes['SmolLM2']:.3f}); on {MODEL} {takes[MODEL][0]:.0%} and {takes[MODEL][1]:.0%} (p = {p_takes[MODEL]:.2f}).",
        holds=bool(takes["SmolLM2"][0] < MOST and p_takes["SmolLM2"] < 0.05 <= p_takes[MODEL]),
    ),
    cb.finding(
        f"Half A's strongest head is half B's, too, in {(recurs['SmolLM2'] & tenth['SmolLM2'][0]).sum()} of these {tenth['SmolLM2'][0].sum()} neurons of SmolLM2, and in {(recurs['SmolLM2'] & rest['SmolLM2']).sum()} of the other {rest['SmolLM2'].sum()}; on {MODEL} in {(recurs[MODEL] & tenth[MODEL][0]).sum()} of {tenth[MODEL][0].sum()} and {(recurs[MODEL] & rest[MODEL]).sum()} of {rest[MODEL].sum()}.",
        holds=bool(recurs["SmolLM2"][tenth["SmolLM2"][0]].all()),
    ),
)  # fmt: skip

# %% [markdown]
r"""
This is credit for the last step: an MLP can only work on what embedding and heads have brought it. The bound of a tenth was set after SmolLM2's numbers were known, before `mini`'s were counted; one of SmolLM2's neurons only just reaches it. A head with a large share in half B is likely to be the strongest there.

## Would we have seen it? Planted look-ups

What would a true look-up look like in these numbers? Look-ups are **planted**: 24 heads are drawn, and as many later neurons (on SmolLM2 never a head of layer 0 or of the neuron's own layer, where some of the table's heads are). Each head also writes what it says most (the direction in which it varies most) into a direction of the stream that hardly anybody uses, as loud as the stream is in a direction on average. A share of each neuron's input weights is turned there, and its output, four times as loud, to its token. All 24 are planted at once, and the same steps are run as above, at five shares.
"""

# %% tags=["hide-input"]
figure, (axes,) = cb.figures.panels(1, 2, width=8.6, height=2.8, sharey=True)
grown = {}
for axis, (name, kept) in zip(axes, BOTH.items(), strict=True):
    plants = kept.get("plants", {})
    shares = [float(v) for v in plants]
    hit = [np.mean([both for _, both in v["found"]]) for v in plants.values()]
    brings = [np.median(v["brings"]) for v in plants.values()]
    grown[name] = dict(zip(shares, zip(hit, brings, strict=True), strict=True))
    axis.plot(shares, hit, "o-", color=cb.figures.COLORS[0], label="found in both halves")
    axis.plot(shares, brings, "s--", color=cb.figures.COLORS[1], label="share of the rise that it brings (median)")  # fmt: skip
    axis.set(title=name, xlabel="share of the input weights that is planted", ylim=(-0.05, 1.05))
axes[0].set_ylabel("share, of 24 plants or of the rise")
axes[0].legend(fontsize=8)
cb.figures.picture(
    figure,
    "15.2",
    "Planted look-ups: how many are found (the planted head is the strongest in both halves), and how much of the rise they bring.",
    "Two line charts. "
    + "; ".join(f"{name}, {x:g} planted: {h:.2f} found, {b:.2f} of the rise" for name, of in grown.items() for x, (h, b) in of.items())
    + ".",
)  # fmt: skip

# %% tags=["hide-input", "nbval-check-output"]
BANDS = {"below 2%": (-9, 0.02), "2% to 5%": (0.02, 0.05), "5% to a tenth": (0.05, 0.1), "a tenth to a quarter": (0.1, 0.25), "a quarter or more": (0.25, 9)}  # fmt: skip
tens, halves_of = {}, []  # how often a plant is found, by what its head brings; and of half or more
for name, kept in BOTH.items():
    pairs = [(b, both) for v in kept.get("plants", {}).values() for b, (_, both) in zip(v["brings"], v["found"], strict=True)]  # fmt: skip
    brought, hit = np.array(pairs or [(np.nan, 0)]).T
    tens[name] = {band: hit[(low <= brought) & (brought < high)] for band, (low, high) in BANDS.items()}  # fmt: skip
    halves_of += hit[brought >= 0.5].tolist()
of_middle = [next((band for band, (low, high) in BANDS.items() if low <= v < high), "below 2%") for v in middle_of.values()]  # fmt: skip
counted = {name: {band: f"{int(v.sum())} of {len(v)}" for band, v in of.items()} for name, of in tens.items()}  # fmt: skip
weak = [of[band] for of, band in zip(counted.values(), of_middle, strict=True)]
display(
    pd.DataFrame(counted).rename_axis("of the rise, a planted head brings"),
    cb.finding(
        f"Planted heads that bring as much as the middle neuron's are found in both halves in {weak[0]} cases on SmolLM2 ({of_middle[0]}) and in {weak[1]} on {MODEL} ({of_middle[1]}); those that bring a quarter or more in {' and '.join(of['a quarter or more'] for of in counted.values())}.",
        holds=all(2 * of[band].sum() < len(of[band]) and 2 * of["a quarter or more"].sum() > len(of["a quarter or more"]) for of, band in zip(tens.values(), of_middle, strict=True)),
    ),
    cb.finding(
        f"A fifth of the input weights turned to a head brings {' and '.join(f'{of[0.2][1]:.0%}' for of in grown.values() if of)} of the rise in the middle plant of {' and '.join(name for name, of in grown.items() if of)}.",
        holds=all(of[0.2][1] < 0.1 for of in grown.values() if of),
    ),
)  # fmt: skip

# %% [markdown]
r"""
So a small share does not mean that a neuron hardly reads a head. The bands below a tenth were set after SmolLM2's counts were known.

## Take the heads out

Would the neuron's token be less likely if the head had said nothing? Silence: at every position, what is inside the head before $W_O$ is replaced by its mean over half A at that position, as in [chapter 12](12_causal). With $P_H$ the token's probability when the heads $H$ are silent, its log P falls by

$$
D(H) \;=\; \text{mean over peaks of } \bigl( \log P - \log P_H \bigr) .
$$ (eq-look-loss)

The strongest heads are those of half A, the fall is that of half B, at each neuron's 4 loudest peaks. What goes *through the neuron* is the fall less the one that is left when the neuron is held where it was.
"""

# %% tags=["hide-input", "nbval-check-output"]
silenced = {name: {what: np.array(v) for what, v in kept["cost"].items()} for name, kept in BOTH.items()}  # fmt: skip
for of in silenced.values():
    singly = [of[w] for w in ("the strongest head", "the second", "the third")]
    of["together, over the sum"] = of["all three"] - sum(singly)
D = {name: {what: over(BOTH[name], v) for what, v in of.items()} for name, of in silenced.items()}
D_random = {name: {what: over(BOTH[name], v, mask=~np.array(BOTH[name]["next"])) for what, v in of.items()} for name, of in silenced.items()}  # fmt: skip
pd.DataFrame(  # by name: the two models keep their silences in different orders
    {
        (name, group): {what: ends(of[name][what], "+.2f") for what in D["SmolLM2"] if what not in ("the second", "the third", "together, over the sum")}
        for name in BOTH
        for group, of in (("next-token", D), ("random", D_random))
    }
).rename_axis("D, in nats, half B")  # fmt: skip

# %% tags=["hide-input"]
figure, (axes,) = cb.figures.panels(1, 2, width=8, height=3.2, sharey=True)
falls = {name: of["the strongest head"].mean(0) for name, of in silenced.items()}
for axis, (name, kept) in zip(axes, BOTH.items(), strict=True):
    for q, group in enumerate(("next-token neurons", "random neurons")):
        mask = np.array(kept["next"]) ^ bool(q)
        axis.plot(alone[name][mask], falls[name][mask], "os"[q], ms=5, label=group, color=cb.figures.COLORS[q], alpha=0.7)  # fmt: skip
    axis.axvline(0.1, color=cb.figures.INK, lw=0.8, ls="--")
    axis.axhline(0, color=cb.figures.INK, lw=0.8, ls=":")
    axis.set(title=name, xlabel="share of the rise, its strongest head")
least = int(falls["SmolLM2"].argmin())
axes[0].annotate("{}.{} ".format(*SMOL["places"][least]), (alone["SmolLM2"][least], falls["SmolLM2"][least]), ha="right")  # fmt: skip
axes[0].set_ylabel("fall of log P without it")
axes[1].legend(fontsize=8)
cb.figures.picture(
    figure,
    "15.3",
    "Neuron by neuron: what its strongest head brings, and by how much its token's log P falls when that head is silent. Dashed: a tenth.",
    "Two scatter plots. "
    + "; ".join(f"{name}, falls of next-token neurons from {min(v[BOTH[name]['next']]):.2f} to {max(v[BOTH[name]['next']]):.2f}" for name, v in falls.items())
    + f". The lowest of SmolLM2 has a share of {alone['SmolLM2'][least]:.0%}.",
)  # fmt: skip

# %% tags=["hide-input", "nbval-check-output"]
strongest_D = {name: of["the strongest head"] for name, of in D.items()}
cut = {}
for planted_share, of in SMOL["plants"].items():
    each = np.arange(len(of["brings"])).astype(str)
    plants = {"documents": of["documents"], "token": each, "next": np.ones(len(each), bool)}
    cut[planted_share] = over(plants, of["cost"]["the strongest head"])
of_next_ones = {name: v[BOTH[name]["next"]] for name, v in falls.items()}
without = np.delete(falls["SmolLM2"], least)[np.delete(SMOL["next"], least)].mean()
display(
    cb.finding(
        "When the strongest head is silent, log P falls "
        + "; ".join(f"on {name} by {ends(strongest_D[name], '+.2f')} nats, median {np.median(v):+.2f}, above zero in {(v > 0).sum()} of {len(v)} neurons" for name, v in of_next_ones.items())
        + ".",
        holds=all(low < 0 < high for _, low, high, _ in strongest_D.values()),
    ),
    cb.finding(
        f"On SmolLM2 one neuron, {named(SMOL, least)}, has {falls['SmolLM2'][least]:+.2f}, though its head brings the most, {alone['SmolLM2'][least]:.0%}; without it, left out after the fact, the mean is {without:+.2f}.",
        holds=bool(SMOL["next"][least] and alone["SmolLM2"].argmax() == least and without > 0),
    ),
    cb.finding(
        f"By way of the neuron that silence does cost the token something, {ends(D['SmolLM2']['through the neuron'], '.2f')} nats on SmolLM2 and {ends(D[MODEL]['through the neuron'], '.2f')} on {MODEL}; in random neurons no less, {D_random['SmolLM2']['through the neuron'][0]:.2f} and {D_random[MODEL]['through the neuron'][0]:.2f}.",
        holds=all(of["through the neuron"][1] > 0 for of in D.values()),
    ),
    cb.finding(
        f"In planted neurons of SmolLM2 silence of half A's strongest head, planted or not, costs {ends(cut['0.8'], '.1f')} nats at a planted share of 0.8, and {ends(cut['0.0'], '.1f')} with nothing planted.",
        holds=cut["0.8"][1] > cut["0.0"][2],
    ),
)  # fmt: skip

# %% [markdown]
r"""
Where P is low, log P falls easily, so random neurons are a weak control here. What takes a silent head's place was not tested. Planted neurons are louder: their nats do not compare with the table's.

## What breaks it

- **The next-token neurons say punctuation and small words.** Neurons that predict rarer ones may differ.
- **Silence is not neutral.** A mean is a message as well, and one that hardly any text sends.
- **Congruence sees one step.** Later layers can take back what a neuron says.

## Turn it

Choose a neuron, one of its prompts and heads: the text shows how their terms, the last sum of {eq}`eq-look-terms`, split over the tokens. A rise is a term less its mean, so the tokens need not add up to it. Try a head of layer 0 in a neuron of layer 3, and then the strongest.
"""


# %% tags=["hide-input"]
HOOK_NAMES = [f"blocks.{k}.{hook}" for k in range(n_layers) for hook in HOOKS.values()]
peak, usual = found.in_B.there, found.in_B.usual
order = [x for x in np.argsort(-look.P_of["A"]) if look.is_next[x]]


def prompt(x, p):
    """The text up to a peak in half B."""
    return B[found.in_B.text[p, x], : peak["end"][p, x] + 1]


def from_each(x, shown):
    """What each head gets from each token of some prompts: `prompt layer head source`."""
    k, j = look.places[x]
    ids, last = cx.lookups.hooks.pad(model, shown)
    W_O, _ = cx.lookups.layers.output_weights(model, k)
    to = W_O @ cx.lookups.layers.input_weights(model, k)[0][:, j].cpu()  # layer head d
    _, cache = model.run_with_cache(ids, names_filter=HOOK_NAMES, stop_at_layer=k + 1)
    a, v = (of_layers(model, cache, w, len(W_O)) for w in "av")
    said = einops.einsum(v, to, "p k u i d, k i d -> p k i u")
    return a[range(len(ids)), :, :, last] * said / peak["scale"][: len(ids), x, None, None, None]


def recorded(x, count=4):
    """One neuron of the view, and the first that it reads: its gate, where it has one."""
    (k, j), shown = look.places[x], [prompt(x, p) for p in range(min(count, len(found.in_B.text)))]
    n_upstream = len(cx.adapter.upstream_layers(model, k))
    fixed, usually = (
        cx.lookups.Attribution(
            k, j, v["heads"][..., x, :n_upstream, :, 0], v["MLPs"][..., x, :1],
            *(v[name][..., x, 0] for name in ("embedding", "bias")), v["scale"][..., x],
            sum(v[n][..., x, 0] for n in PARTS[1:]) + v["heads"][..., x, :, :, 0].sum((-1, -2)),
        )
        for v in (peak, {n: v[None] for n, v in usual.items()})
    )  # fmt: skip
    group = "next-token neurons" if look.is_next[x] else "random neurons"
    of_token = (int(look.tokens[x]), shown, fixed, usually, from_each(x, shown))
    label = f"{k}.{j} {cb.figures.visible(here['token'][x])}"
    return cv.looked_up(model, label, group, *of_token, peak["log P"][:, x].exp())


example = next((x for x in order if look.places[x][0] == n_layers - 1), order[0])
listed = [example, *(x for x in order[:8] if x != example), *np.flatnonzero(~look.is_next)[:3].tolist()]  # fmt: skip
record = cv.look_up_record(model, [recorded(x) for x in listed])
name_of = [f"{h // n_heads}.{h % n_heads}" for h in range(n_layers * n_heads)]
brought = found.rise["heads"][0, example].flatten()
figure, ((axis,),) = cb.figures.panels(1, 1, width=6, height=2.8)
best_heads = brought.topk(min(10, len(brought))).indices.tolist()
axis.barh([name_of[h] for h in best_heads], brought[best_heads])
axis.invert_yaxis()
axis.set(xlabel="rise by this head", ylabel="head")
picture = cb.figures.picture(
    figure,
    "15.4",
    f"Neuron {named(here, example).replace('<', '&lt;')} at its loudest peak in half B: the heads with the largest rises.",
    "Bar chart. "
    + ", ".join(f"{name_of[h]} {float(brought[h]):.2f}" for h in best_heads[:3])
    + ".",
)
cv.LookUps(record, picture=picture)

# %% [markdown]
"""
## Claims

The publication says what follows in words; *half* is this book's reading where a share is asked for. The lines are of the model of this page.
"""

# %% tags=["hide-input", "nbval-check-output"]
log_P = peak["log P"].mean(0).numpy() - np.log(np.array(here["P usually"]))
is_next = look.is_next
of_heads, own, bos = (np.array(here["rise"][part]) for part in ("heads", "own", "BOS"))
from_earlier = of_heads - own - bos
earlier, at_random = (over(here, from_earlier, of_heads, mask=m) for m in (is_next, ~is_next))
more = over(here, (log_P - log_P[~is_next].mean())[None])
whole_P = peak["log P"][:ABLATED].exp().numpy()
fell_P = over(here, whole_P * (1 - np.exp(-np.array(here["cost"]["the strongest head"]))))
winners = np.array(here["winners"])  # peak neuron
more_than_one = (winners != winners[0]).any(0)[None].astype(float)
several, of_random = over(here, more_than_one), over(here, more_than_one, mask=~is_next)
whole = D[MODEL]["the strongest head"]
through = cb.Estimate(np.nan)  # no share of a loss that may be zero
if whole[1] > 0:
    through = over(here, here["cost"]["through the neuron"], here["cost"]["the strongest head"])
claims = [
    cb.Claim("next_token_neurons", "rise of log P at the peaks, less that of random neurons (nats)", *more.for_claim, digits=1),
    cb.Claim("heads_know_contexts", f"share of the heads' rise that comes from earlier tokens (in random neurons {at_random[0]:.2f})", *earlier.for_claim),
    cb.Claim("several_heads", f"share of the neurons with more than one winning head (of random ones {of_random[0]:.2f})", *several.for_claim),
    cb.Claim("loss_is_there", "fall of P when the strongest head is silenced", *fell_P.for_claim),
    cb.Claim("heads_wake_neurons", "share of the head's effect on the token that goes through the neuron", *through.for_claim),
]  # fmt: skip
cb.ledger(model, *claims)

# %% [markdown]
r"""
The rise of log P is helped by the choice: these neurons were taken for P, the random ones were not. Earlier tokens can bring more than all, where the token at hand takes some away. The fall is in P, where peaks with a likely token weigh most: there silence has a cost. In log P, as above, the same cannot be told from zero, so the last line, a share of it, is untestable.
"""


# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What became of the conditions that were set beforehand?"}
def verdict(low, high, bound=0.0):
    """Holds above the bound, fails below, undecided around it."""
    return "holds" if low > bound else "fails" if high < bound else "undecided"


of_D = D["SmolLM2"]
lost = verdict(*strongest_D["SmolLM2"].ends)
met = {
    "one head takes more than half of the peaks, and more than of random neurons'": "holds" if takes["SmolLM2"][0] > MOST and p_takes["SmolLM2"] < 0.05 else "fails",
    "loss: silence of the strongest head costs the token something, and more than a random neuron's": lost if lost != "holds" or apart(SMOL, SMOL["cost"]["the strongest head"]) < 0.05 else "fails",
    f"together: three heads cost more than the sum of each ({ends(of_D['together, over the sum'], '+.2f')})": verdict(*of_D["together, over the sum"].ends),
    "way: more than half of that loss goes through the neuron": "untestable" if lost != "holds" else verdict(*of_D["through the neuron"].ends, 0.5 * of_D["the strongest head"][0]),
    "plants: four in five found where they bring half of the rise": "holds, nearly forced: in half B, where the share is taken, such a head can hardly fail to be the strongest. (Tried on mini first and dropped: three plants that turned the neuron alone; in none did the median head bring a tenth.)" if np.mean(halves_of) >= 0.8 else "fails",
}  # fmt: skip
pd.DataFrame({"": met}).rename_axis("set beforehand, of SmolLM2")

# %% [markdown]
r"""
## What you may now assume

Most of these neurons have no head that brings a tenth of their rise by itself; where one does, it is the same head in other texts. Neither that their tokens need that head, nor that a small share means few weights, follows.

Whether a sentence can say when such a head is active is the question of [chapter 16](16_explanations).

## Exercises

1. *Fill in.* One head's term on one prompt, {eq}`eq-look-terms`, from the head's `z` (`d_head`), its `W_O`, the neuron's `e` and the scale `s`.
"""


# %%
def term(z, W_O, e, s):
    return ...


# %% tags=["hide-input", "nbval-check-output"]
its_layer, j = look.places[example]
reading = cx.lookups.read_prompts(model, [prompt(example, 0)], its_layer + 1)
W_O, _ = cx.lookups.layers.output_weights(model, its_layer)
e = cx.lookups.layers.input_weights(model, its_layer)[0][:, j].cpu()
mine = term(reading.z[0, 0, 0], W_O[0, 0], e, peak["scale"][0, example])
if mine is ...:
    print("not yet")
else:
    right = torch.allclose(mine, peak["heads"][0, example, 0, 0, 0], atol=near)
    print("right" if right else "not this")

# %% [markdown]
r"""
2. *Predict, then run.* Set `LIKELY = 0.1` and run the chapter again. How many neurons predict now, what do they say, and how many of them keep it in half B?
3. *Prove.* In {eq}`eq-look-terms` let one head's output be multiplied by $\kappa \to \infty$. What becomes of its own term, and of all others? Why does the silence of a head that writes nothing along $e$ still move the neuron?

```{admonition} Solutions
:class: dropdown

1. `return z @ W_O @ e / s`
2. Some tens, of new lines, punctuation and small words; P is lower in half B for most.
3. $s$ grows like $\kappa\, s(h)$. The head's own term tends to $h \cdot e / s(h)$, and all others vanish, though nothing about them has changed. A head with $h \cdot e = 0$ still fills the stream: without it $s$ falls, and every other term grows.
```

## Where this comes from

Congruence, next-token neurons, peaks, head attribution, random neurons and the ablation of a head are from {cite:t}`neo2024interpreting`; integrated gradients from {cite:t}`sundararajan2017axiomatic`; reading a model as a sum in a residual stream from {cite:t}`elhage2021framework`. The choice by P on half the texts, LayerNorm in the terms, sides, the rise of a gated neuron, plants and the silence of several heads are worked out here.
"""
