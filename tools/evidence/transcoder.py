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
- At work: a unit is *on* at the 1% of half A's tokens at which its input is largest, or on half B
  above that bound; of latents also where TopK has them at work. The rate at which it is on in a
  text, by its domain's AUC.
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
from files import digest
from files import replace as write
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import normalize
from tqdm import tqdm

import ctxbook as cb
import ctxlib as cx

OUT = ROOT / "data" / "evidence" / "transcoder.json"
LATENTS, K, STEPS, RATE, EVERY = 2048, 16, 900, 1e-3, 20
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
        state = {i: {s: held[f"{s}/{n}"] for s in ("step_", "exp_avg", "exp_avg_sq")} for i, n in enumerate(names)}  # fmt: skip
    if first < steps:
        parameters = [W[n].requires_grad_() for n in names]
        adam = torch.optim.Adam(parameters, RATE, betas=(0.9, 0.99))
        if state:
            for i, p in enumerate(parameters):
                adam.state[p] = {s.removesuffix("_") if s == "step_" else s: v for s, v in state[i].items()}  # fmt: skip
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
                    kept |= {f"step_/{n}": now["step"], f"exp_avg/{n}": now["exp_avg"], f"exp_avg_sq/{n}": now["exp_avg_sq"]}  # fmt: skip
                tm.save_whole(kept | {"step": torch.tensor(step + 1)}, file, {})
    return {n: v.detach() for n, v in W.items()} | {"size": size}
