"""A small transcoder on the first MLP of `mini`: are its latents features that neurons are not?

    python tools/evidence/transcoder.py --corpus path/to/corpus --work build/transcoder

It reads what the MLP reads, writes what it writes, and of its 2,048 latents 16 are at work at a
token (TopK, Gao et al. 2024; Dunefsky et al. 2024). It is trained on the text that `mini` was
trained on, goes on from its last checkpoint, and what comes of it goes to
`data/evidence/transcoder.json`.

Set before any of it was measured. A *unit* is a neuron, a random mixture of neurons, or a latent
that is alive (at work at one in 100,000 tokens of half A or more); its direction is its column of
input weights. Texts are the book's 1,000 held-out ones: half A chooses, half B judges.

- It counts as trained if it leaves at most 0.3 of the variance of the MLP's output unexplained on
  half B, and if in the MLP's place it gives back at least 0.8 of what the mean output costs (loss).
  If not, the rest decides little, and says so.
- From weights, 1: a unit's 20 tokens of largest contribution give each text a score, the kernel's
  weight on them. The label is the domain of the largest mean score in half A. Latents' columns are
  better readable if their median AUC on half B exceeds that of neurons and that of mixtures, each
  difference with a 95% interval over documents above 0.
- From weights, 2: the same of the whole summary in place of the 20 tokens.
- At work: a unit is *on* where its input is above a bound that 1% of half A's tokens exceed (every
  eighth is read for it); of latents also where TopK has them at work. The rate at which it is on in
  a text, by its domain's AUC.
- Finer: of the variance over windows of that rate within domains, the share that two windows of one
  document have in common. Latents have the finer features if their median exceeds that of neurons
  and that of mixtures, intervals over documents above 0. Effective domains and effective tokens
  (exp of the entropy) of where a unit is on are shown beside it and decide nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
import train_mini as tm
from command import ROOT, command
from evidence import rounded
from files import digest
from files import replace as write
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import normalize
from tqdm import tqdm

import ctxbook as cb
import ctxlib as cx

OUT = ROOT / "data" / "evidence" / "transcoder.json"
LATENTS, K, STEPS, RATE, EVERY = 2048, 16, 720, 1e-3, 20
AUX, DEAD = 64, 300_000  # dead latents that rebuild what is left, and tokens without work till then
READ, WRITE = "blocks.0.mlp.hook_in", "blocks.0.hook_mlp_out"
Weights = dict[str, Tensor]

# ---------------------------------------------------------------- training


def fresh(d: int, latents: int, mean: Tensor) -> Weights:
    """Random latents: input and output directions of length one."""
    chance = torch.Generator().manual_seed(0)
    W_in, W_out = (torch.randn(latents, d, generator=chance) for _ in range(2))
    return {
        "W_in": normalize(W_in, dim=1).T.contiguous(),
        "b_in": torch.zeros(latents),
        "W_out": normalize(W_out, dim=1),
        "b_out": mean.clone(),
        "idle": torch.zeros(latents),  # tokens since each was last at work
    }


def at_work(W: Weights, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The inputs of all latents, and their outputs, of which k at each token are not zero."""
    pre = x @ W["W_in"] + W["b_in"]
    top = pre.topk(k, dim=-1)
    return pre, torch.zeros_like(pre).scatter(-1, top.indices, top.values.relu())


def step_loss(W: Weights, x: Tensor, y: Tensor, k: int) -> Tensor:
    """The share of the variance that is left, and a little for what the dead could still explain;
    counts idle tokens.
    """
    pre, post = at_work(W, x, k)
    missing, whole = y - post @ W["W_out"] - W["b_out"], (y - y.mean(0)).square().sum()
    loss = missing.square().sum() / whole
    with torch.no_grad():
        W["idle"] += len(x)
        W["idle"][(post > 0).any(0)] = 0
        dead = (W["idle"] > DEAD).nonzero()[:, 0]
    if len(dead) > AUX:
        top = pre[:, dead].topk(AUX, dim=-1)
        rest = torch.zeros_like(pre[:, dead]).scatter(-1, top.indices, top.values.relu())
        left = missing.detach() - rest @ W["W_out"][dead]
        loss = loss + left.square().sum() / missing.detach().square().sum() / 32
    return loss


@torch.no_grad()
def in_and_out(model, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """What the first MLP reads and writes at every token but BOS: `text pos d_model` both."""
    _, cache = model.run_with_cache(tokens, names_filter=[READ, WRITE], stop_at_layer=1)
    return cache[READ][:, 1:].clone(), cache[WRITE][:, 1:].clone()


def train(model, batches, work: Path, latents=LATENTS, k=K, steps=STEPS) -> Weights:
    """Train from the last checkpoint to the end; `batches(step)` gives `text pos`."""
    file = work / "transcoder.safetensors"
    x, y = in_and_out(model, batches(0))
    size = y.var().sqrt()
    W, state, first = fresh(x.shape[-1], latents, y.mean((0, 1)) / size), None, 0
    names = ("W_in", "b_in", "W_out", "b_out")
    if file.exists():
        held = load_file(file)
        W, size, first = {n: held[n] for n in W}, held["size"], int(held["step"])
        state = {
            i: {s: held[f"{s}/{n}"] for s in ("step_", "exp_avg", "exp_avg_sq")}
            for i, n in enumerate(names)
        }
    if first < steps:
        parameters = [W[n].requires_grad_() for n in names]
        adam = torch.optim.Adam(parameters, RATE, betas=(0.9, 0.99))
        if state:
            for i, p in enumerate(parameters):
                adam.state[p] = {
                    s.removesuffix("_") if s == "step_" else s: v for s, v in state[i].items()
                }
        for step in (bar := tqdm(range(first, steps), "transcoder", steps, initial=first)):
            for group in adam.param_groups:  # warm-up, then a straight line down in the last third
                group["lr"] = RATE * min(1, (step + 1) / 50, 3 * (steps - step) / steps)
            x, y = (v.flatten(0, 1) for v in in_and_out(model, batches(step)))
            loss = step_loss(W, x, y / size, k)
            adam.zero_grad()
            loss.backward()
            adam.step()
            with torch.no_grad():
                W["W_out"].copy_(normalize(W["W_out"], dim=1))
            if (step + 1) % EVERY == 0 or step + 1 == steps:
                bar.set_postfix(left=f"{loss.item():.3f}", dead=int((W["idle"] > DEAD).sum()))
                kept = {n: v.detach() for n, v in W.items()} | {"size": size}
                for n, p in zip(names, parameters, strict=True):
                    now = adam.state[p]
                    kept |= {
                        f"step_/{n}": now["step"],
                        f"exp_avg/{n}": now["exp_avg"],
                        f"exp_avg_sq/{n}": now["exp_avg_sq"],
                    }
                tm.save_whole(kept | {"step": torch.tensor(step + 1)}, file, {})
    return {n: v.detach() for n, v in W.items()} | {"size": size}


# ---------------------------------------------------------------- does it do the MLP's work?


def quality(model, W: Weights, k: int, texts, mean: Tensor) -> dict[str, float]:
    """What it leaves of the output's variance, and of the loss that the mean output costs."""
    tokens = torch.stack([text.tokens for text in texts])
    missing, whole = 0.0, 0.0
    losses: dict[str, list[Tensor]] = {"own": [], "mean": [], "transcoder": []}
    for some in tqdm(tokens.split(8), "quality", leave=False):
        x, y = in_and_out(model, some)
        ours = (at_work(W, x, k)[1] @ W["W_out"] + W["b_out"]) * W["size"]
        missing += float((y - ours).square().sum())
        whole += float((y - mean).square().sum())
        for name, put in (("own", y), ("mean", mean.expand_as(y)), ("transcoder", ours)):

            def replaced(own, hook, put=put):
                return torch.cat([own[:, :1], put.to(own)], dim=1)

            losses[name].append(cx.lookups.token_losses(model, some, [(WRITE, replaced)])[:, 1:])
    own, silent, put_in = (float(torch.cat(v).mean()) for v in losses.values())
    return {
        "FVU": missing / whole,
        "loss": own,
        "loss, mean output": silent,
        "loss, transcoder": put_in,
        "given back": (silent - put_in) / (silent - own),
    }


# ---------------------------------------------------------------- units


def label_auc(values: Tensor, domains: np.ndarray, A: np.ndarray, B: np.ndarray):
    """The label of each unit, chosen on half A, and a function from texts of half B, drawn, to its
    AUC there.
    """
    names = np.unique(domains)
    inside = domains == names[:, None]
    in_A = torch.from_numpy(inside[:, A].astype(np.float32))
    totals, count = in_A @ values[A], in_A.sum(1, keepdim=True)
    lean = totals / count - (values[A].sum(0) - totals) / (len(A) - count)
    label = lean.argmax(0).numpy()
    judged, inside = values[B].numpy(), inside[:, B]

    def of_drawn(drawn: np.ndarray) -> np.ndarray:
        areas = cx.neurons.auc(judged[drawn], inside[:, drawn])
        return areas[label, np.arange(len(label))]

    return names[label], of_drawn


def in_common(rates: Tensor, domains: np.ndarray, pairs: np.ndarray):
    """Of the variance within domains, the share that two windows of one document have in common:
    a function from pairs, drawn, to a number a unit.
    """
    both = rates[pairs.ravel()].unflatten(0, (-1, 2)).double()  # pair window unit
    for domain in np.unique(domains[pairs[:, 0]]):
        rows = domains[pairs[:, 0]] == domain
        both[rows] -= both[rows].mean((0, 1))

    def of_drawn(drawn: np.ndarray) -> np.ndarray:
        one, two = both[drawn].unbind(1)
        shared, all_of_it = (one * two).sum(0), (one.square() + two.square()).sum(0) / 2
        return (shared / all_of_it.where(all_of_it > 0, torch.nan)).numpy()

    return of_drawn


def effective(counts: Tensor) -> np.ndarray:
    """exp of the entropy of each column of counts."""
    p = counts / counts.sum(0).clamp(min=1)
    return (-(p * p.clamp(min=1e-12).log()).sum(0)).exp().numpy()


def where_on(on: Tensor, text: Tensor, token: Tensor, n_texts: int, vocab: int):
    """How often units are on in each text, and at each token: `text unit`, `vocab unit`."""
    by_text = torch.zeros(n_texts, on.shape[1]).index_add_(0, text, on)
    return by_text, torch.zeros(vocab, on.shape[1]).index_add_(0, token, on)


def measured(model, W: Weights, k: int, study) -> dict:
    """Latents against neurons and mixtures, as the head of this file says."""
    texts, circuit = study.texts, study.circuit
    A, B = (np.flatnonzero(mask) for mask in cb.half_masks(texts))
    domains = np.array([text.domain for text in texts])
    tokens = torch.stack([text.tokens for text in texts])
    parts = [in_and_out(model, some) for some in tqdm(tokens.split(16), "reading", leave=False)]
    x, y = (torch.cat(v) for v in zip(*parts, strict=True))
    mean = y[A].mean((0, 1))
    n_texts, length = x.shape[:2]
    x, token = x.flatten(0, 1), tokens[:, 1:].flatten()
    text = torch.arange(n_texts).repeat_interleave(length)
    in_A = torch.from_numpy(np.isin(np.arange(n_texts), A))[text]
    W_in = study.fixed.readout.W_in
    vocab = len(circuit.weighted_values)

    busy = [
        where_on((at_work(W, some, k)[1] > 0).float(), of, t, n_texts, vocab)
        for some, of, t in zip(
            tqdm(x.split(8192), "latents", leave=False),
            text.split(8192),
            token.split(8192),
            strict=True,
        )
    ]
    by_text, by_token = (sum(v) for v in zip(*busy, strict=True))
    alive = (by_text[A].sum(0) >= 1e-5 * int(in_A.sum())).nonzero()[:, 0]
    units = {"neurons": W_in, "mixtures": cb.nulls.mixtures(W_in), "latents": W["W_in"][:, alive]}

    ext = circuit.extended_embedding() / circuit.scale
    sources = study.fixed.prepare(texts)
    bag = torch.zeros(n_texts, vocab).scatter_add_(
        1, sources, circuit.kernel.expand(len(sources), -1)
    )
    usable = ~study.fixed.decomposition.untrained
    own = {}  # name: measure: values
    for name, D in units.items():
        contribution = (ext @ D).masked_fill(~usable[:, None], -torch.inf)
        top = contribution.topk(20, dim=0).indices
        chosen = torch.zeros(vocab, D.shape[1]).scatter_(0, top, 1.0)
        rates, in_domains, in_tokens = [], [], []
        for some in tqdm(D.split(256, dim=1), name, leave=False):
            reads = x @ some
            bound = reads[in_A][::8].T.contiguous().quantile(0.99, dim=1)
            rate, spelled = where_on((reads > bound).float(), text, token, n_texts, vocab)
            rates.append(rate)
            in_tokens.append(effective(spelled))
            in_domains.append(
                effective(
                    torch.stack([rate[B][domains[B] == d].sum(0) for d in np.unique(domains)])
                )
            )
        own[name] = {
            "20 tokens": bag @ chosen,
            "summary": bag @ ext @ D,
            "on": torch.cat(rates, 1),
            "far": contribution.topk(20, dim=0).values.mean(0) - (ext @ D)[usable].mean(0),
            "effective domains": np.concatenate(in_domains),
            "effective tokens": np.concatenate(in_tokens),
        }
    own["latents"]["at work"] = by_text[:, alive]
    of_B = [texts[i] for i in B]
    windows: dict[str, list[int]] = {}
    for i in B.tolist():
        windows.setdefault(texts[i].document or texts[i].name, []).append(i)
    pairs = np.array([rows[:2] for rows in windows.values() if len(rows) > 1])
    of_pairs = [texts[i] for i in pairs[:, 0]]

    def compared(of, entries, draws=99):
        """Medians, and how far that of latents lies above the others, with intervals."""
        every = np.arange(len(entries))
        out: dict = {name: float(np.nanmedian(f(every))) for name, f in of.items()}
        for name in ("neurons", "mixtures"):
            apart = lambda d, n=name: np.nanmedian(of["latents"](d)) - np.nanmedian(of[n](d))  # noqa: E731
            out[f"latents less {name}"] = [*cb.with_interval(apart, entries, draws)[:3]]
        return out

    result: dict = {
        "alive": len(alive),
        "quality": quality(model, W, k, of_B[:: max(1, len(of_B) // 96)], mean),
        "pairs of windows": len(pairs),
    }
    for measure in tqdm(("20 tokens", "summary", "on"), "measures"):
        of = {name: label_auc(v[measure], domains, A, B) for name, v in own.items()}
        result[f"AUC, {measure}"] = compared({n: f for n, (_, f) in of.items()}, of_B)
        every = np.arange(len(B))
        far = {n: v["far"].topk(min(100, len(v["far"]))).indices.numpy() for n, v in own.items()}
        result[f"AUC, {measure}, the 100 moved farthest"] = {
            n: float(np.median(f(every)[far[n]])) for n, (_, f) in of.items()
        }
        result[f"labels, {measure}"] = {n: len(np.unique(label)) for n, (label, _) in of.items()}
    _, busy_auc = label_auc(own["latents"]["at work"], domains, A, B)
    result["AUC, at work"] = float(np.nanmedian(busy_auc(np.arange(len(B)))))
    result["in common"] = compared(
        {n: in_common(v["on"], domains, pairs) for n, v in own.items()}, of_pairs
    )
    of_work = in_common(own["latents"]["at work"], domains, pairs)(np.arange(len(pairs)))
    result["in common, at work"] = float(np.nanmedian(of_work))
    for measure in ("effective domains", "effective tokens"):
        result[measure] = {n: float(np.median(v[measure])) for n, v in own.items()}
    result["effective tokens, at work"] = float(np.median(effective(by_token[:, alive])))
    return result


@command("transcoder")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="what `mini` was trained on")
    parser.add_argument("--work", type=Path, default=Path("build/transcoder"))
    args = parser.parse_args(argv)
    model, recipe = cx.load("mini"), tm.RUNS["mini"]
    streams = tm.prepare(args.corpus, args.work / "streams")
    training = {domain: pair["train"] for domain, pair in streams.items()}
    W = train(model, lambda step: tm.draw_batch(training, recipe, step)[:, :-1], args.work)
    torch.set_grad_enabled(False)
    facts = {
        "files": {
            "model.safetensors": digest(ROOT / "ctxlib" / "data" / "mini" / "model.safetensors")
        },
        "latents": LATENTS,
        "at work at a token": K,
        "tokens": STEPS * recipe.batch * (recipe.n_ctx - 1),
        "result": measured(model, W, K, cx.study(model, 1000)),
    }
    write(OUT, json.dumps(rounded(facts), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
