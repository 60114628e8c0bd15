"""When does one calibration text suffice? A law for the FVU that borrowed denominators leave, and
how well it predicts every head and neuron of nine first layers: `data/evidence/one_page.json`.

    python tools/evidence/one_page.py            # what is missing; names of models choose

The law. A head truly adds u(x) to a neuron: a constant, the same in every text, and what varies,
u(x) = a + d(x) with the mean of d zero. With a denominator and a LayerNorm scale borrowed from the
calibration text it adds (1 + e(x)) u(x), where

    1 + e(x) = denom(x) / denom' * s(x) / s'.

The error is e (a + d). If e does not depend on d, its mean square is E[e^2] (a^2 + E[d^2]), so

    FVU = sigma^2 (c^2 + 1),    sigma^2 = E[e^2],    c = a / sd(d).

One page suffices where sigma is small beside 1 / sqrt(c^2 + 1). sigma is a root mean square about
zero: it holds how far the page itself is from a typical text.

A neuron reads several heads, whose errors go together. With a_h and d_h what head h adds to it and
E_hk = E[e_h e_k], the same step gives

    FVU = sum_hk E_hk (a_h a_k + cov(d_h, d_k)) / var(sum_h d_h),

which is sigma^2 (c^2 + 1) again where all heads err alike. For a head, squares are summed over the
layer's neurons. The short form takes for sigma^2 the mean of E_hh, weighted by variance share.

Errors and contributions may both follow the domain of a text. If e does not depend on d within a
domain g, which holds a share p_g of the texts, then with u_h = a_h + d_h

    FVU = sum_g p_g sum_hk E_g[e_h e_k] E_g[u_h u_k] / var(sum_h d_h).

What is predicted is computed from half A, what is measured from half B; `one_page.toml` says what
counts as agreement, and was committed before this was run. `on A` is what half A itself measures,
where errors that know something of the text are all that can be wrong with the law.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import command
from einops import einsum
from evidence import provenance
from first_layers import FirstLayer, first_layer, keep
from jaxtyping import Float
from torch import Tensor

import ctxbook as cb
import ctxlib as cx

PLAN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
VERSION = "2"
DRAWS = 99  # of documents of half B, for the interval of a median ratio
QUANTILES = np.linspace(0, 1, 101)

ByHead = Float[Tensor, "text head d_head"]


def errors(layer: FirstLayer, denominators: Tensor, scale: float) -> Float[Tensor, "text head"]:
    """Return e of every text and stable head, where these constants are borrowed."""
    of = layer.study.fixed
    own = torch.cat([of.denominators(few)[:, layer.heads] for few in layer.x.split(64)])
    return own / denominators * layer.scale[:, None] / scale - 1


class Law:
    """The law for a layer's stable heads and neurons, from some of its texts.

    `inside` is what each head gathers in each text, divided by the text's own LayerNorm scale, and
    `read` the map from there to the neurons.
    """

    def __init__(self, inside: ByHead, read: Float[Tensor, "head d_head neuron"]):
        inside, read = inside.double(), read.double()
        self.read, mean = read, inside.mean(0)
        apart = inside - mean
        self.constant = einsum(mean, read, "h d, h d j -> h j")
        cov = einsum(apart, apart, "t h d, t k e -> h k d e") / len(inside)
        half = einsum(cov, read, "h k d e, k e j -> h k d j")
        self.cov = einsum(half, read, "h k d j, h d j -> h k j")

    @property
    def variance(self) -> Float[Tensor, " neuron"]:
        return self.cov.sum((0, 1))

    def of_heads(self, e: Float[Tensor, "text head"]) -> tuple[Tensor, Tensor]:
        """Return sigma and c of every head."""
        spread = self.cov.diagonal().sum(0)  # head: over neurons
        return e.double().square().mean(0).sqrt(), (self.constant.square().sum(1) / spread).sqrt()

    def of_neurons(self, e: Float[Tensor, "text head"]) -> Float[Tensor, " neuron"]:
        """Return the FVU of every neuron by the law for several heads."""
        E = e.double().T @ e.double() / len(e)
        moment = self.cov + self.constant[:, None] * self.constant
        return einsum(E, moment, "h k, h k j -> j") / self.variance

    def short(self, e: Float[Tensor, "text head"], share: Tensor) -> Float[Tensor, " neuron"]:
        """Return the FVU of every neuron with one sigma for all heads."""
        sigma2 = (e.double().square().mean(0) * share).sum() / share.sum()
        return sigma2 * (self.constant.sum(0).square() / self.variance + 1)


def fvu(error: Tensor, truth: Tensor) -> Tensor:
    """Return the FVU of the last dimension's neurons, texts being the first."""
    return error.double().square().mean(0) / truth.double().var(0, correction=0)


def fvu_of_heads(wrong: Tensor, by_head: Tensor) -> Tensor:
    """Return the FVU of every head, `head text neuron`, with squares summed over neurons."""
    pairs = zip(wrong.double(), by_head.double(), strict=True)
    return torch.stack([w.square().sum() / (u - u.mean(0)).square().sum() for w, u in pairs])


def on_half_A(layer: FirstLayer) -> dict[str, Any]:
    """Return what half A itself measures where the law is computed from it: the FVU of every head,
    how the law agrees with that of the neurons, and the median FVU of other calibration pages."""
    study, heads, (A, _) = layer.study, layer.heads, layer.halves
    fixed, circuit = study.fixed, study.circuit
    read = fixed.readout.W_O[heads] @ fixed.readout.W_in
    inside = layer.z[A][:, heads] / layer.scale[A, None, None]
    by_head = einsum(inside, read, "t h d, h d j -> h t j")
    truth, e = by_head.sum(0), errors(layer, circuit.denominators, circuit.scale)[A]
    wrong = e.T[..., None] * by_head
    several, measured = Law(inside, read).of_neurons(e), fvu(wrong.sum(0), truth)
    J, pages = layer.strongest, []
    for page in np.random.default_rng(PLAN["seed"]).choice(A, PLAN["pages"], replace=False):
        made = cx.ContextualCircuit.calibrate(fixed, layer.texts[page], heads)
        borrowed = errors(layer, made.denominators, made.scale)[A]
        of_page = einsum(borrowed, by_head[..., J], "t h, h t j -> t j")
        pages.append(float(fvu(of_page, truth[:, J]).median()))
    seen = measured > 0
    return {
        "heads": fvu_of_heads(wrong, by_head).tolist(),
        "neurons": agreement(several[seen], measured[seen]),
        "pages": pages,
    }


def agreement(predicted: Tensor, measured: Tensor) -> dict[str, Any]:
    """Return how predicted and measured compare, and whether the set bounds are met."""
    ratio = (predicted / measured).numpy()
    close = float((np.abs(np.log(ratio)) <= np.log(PLAN["factor"])).mean())
    middle = float(np.median(ratio))
    holds = close >= PLAN["share"] and PLAN["median"][0] <= middle <= PLAN["median"][1]
    r = np.corrcoef(np.log(predicted.numpy()), np.log(measured.numpy()))[0, 1]
    return {"close": close, "median ratio": middle, "r of logs": float(r), "holds": holds,
            "of": len(ratio)}  # fmt: skip


def measured_of(layer: FirstLayer) -> dict[str, Any]:
    """Return what the law predicts of a layer from half A, and what half B measures."""
    study, heads, (A, B) = layer.study, layer.heads, layer.halves
    fixed, circuit, readout = study.fixed, study.circuit, study.fixed.readout
    read = readout.W_O[heads] @ readout.W_in
    inside = layer.z[:, heads] / layer.scale[:, None, None]
    e = errors(layer, circuit.denominators, circuit.scale)
    law, share = Law(inside[A], read), torch.tensor(study.head_variance_share[heads].to_numpy())

    by_head = einsum(inside[B], read, "t h d, h d j -> h t j")
    wrong = e[B].T[..., None] * by_head
    of_heads = fvu_of_heads(wrong, by_head)
    truth, alone = by_head.sum(0), wrong.sum(0)
    sigma, c = law.of_heads(e[A])
    several, short = law.of_neurons(e[A]), law.short(e[A], share)

    own = torch.cat([circuit.summary(few) for few in layer.x.split(64)])
    kernelled = circuit.z(layer.x)
    true_A = einsum(inside[A], read, "t h d, h d j -> t j")
    with_own = einsum(
        kernelled[A] / (1 + e[A])[..., None] / circuit.scale, read, "t h d, h d j -> t j"
    )
    whole = several + fvu(with_own - true_A, true_A)
    compared = {
        "neurons": (several, fvu(alone, truth)),
        "short": (short, fvu(alone, truth)),
        "whole": (whole, fvu(own[B] - truth, truth)),
    }
    compared = {k: (p[v > 0], v[v > 0]) for k, (p, v) in compared.items()}
    on_B = [layer.texts[i] for i in B]
    squares = alone.double().square(), truth.double(), truth.double().square()

    def median_ratio(drawn: np.ndarray) -> float:
        often = torch.from_numpy(np.bincount(drawn, minlength=len(B)) / len(drawn))
        error, mean, square = (often @ part for part in squares)
        return float((several / (error / (square - mean**2))).median())

    J = layer.strongest
    drawn = np.random.default_rng(PLAN["seed"]).choice(A, PLAN["pages"], replace=False)
    pages = []
    for page in drawn:
        made = cx.ContextualCircuit.calibrate(fixed, layer.texts[page], heads)
        borrowed = errors(layer, made.denominators, made.scale)
        errs = einsum(borrowed[B], by_head[..., J], "t h, h t j -> t j")
        pages.append([law.of_neurons(borrowed[A])[J].median(), fvu(errs, truth[:, J]).median()])
    order = several.argsort()
    sample = order[np.linspace(0, len(order) - 1, min(200, len(order))).astype(int)]
    return {
        "page": study.calibration_text.name,
        "heads": {"head": heads, "sigma": sigma.tolist(), "c": c.tolist(),
                  "predicted": (sigma**2 * (c**2 + 1)).tolist(), "measured": of_heads.tolist()},
        "neurons": {
            k: agreement(*pair)
            | {f"{side} quantiles": np.quantile(v.numpy(), QUANTILES).tolist()
               for side, v in zip(("predicted", "measured"), pair, strict=True)}
            for k, pair in compared.items()
        },
        "ratio": cb.with_interval(median_ratio, on_B, DRAWS, cb.WIDER),
        "sample": {"neuron": sample.tolist(), "predicted": several[sample].tolist(),
                   "measured": fvu(alone, truth)[sample].tolist()},
        "pages": np.array(pages).T.tolist(),
        "constant over spread": float(
            (law.constant.sum(0).abs() / law.variance.sqrt())[J].median()
        ),
        "remedy": remedy(layer),
        "on A": on_half_A(layer),
    }  # fmt: skip


def remedy(layer: FirstLayer) -> dict[str, Any]:
    """Return r and FVU on half B of the circuit, the centred one and the self-normalised one, for
    the strongest neurons with intervals over documents, and FVU for all."""
    circuit, (_, B) = layer.study.circuit, layer.halves
    J, truth, on_B = layer.strongest, layer.truth[B], [layer.texts[i] for i in B]
    kinds: dict[str, Any] = {
        "circuit": circuit,
        "centred": circuit.centered(),
        "own": circuit.self_normalized(),
    }
    kept: dict[str, Any] = {}
    for kind, one in kinds.items():
        guess = torch.cat([one.summary(few) for few in layer.x[B].split(32)])
        of_all = cb.median_over_neurons("fvu", guess, truth)(np.arange(len(B)))
        both = (cb.median_over_neurons(of, guess[:, J], truth[:, J]) for of in ("r", "fvu"))
        r, left = (cb.with_interval(of, on_B, 199, cb.WIDER) for of in both)
        kept[kind] = {"r": r, "FVU": left, "FVU of all": of_all}
    return kept


def verdicts(kept: dict[str, Any]) -> dict[str, Any]:
    """Return what the comparisons that were set come to."""
    models = [kept[name] for name in PLAN["models"] if name in kept]
    pooled = {
        "heads": [[v for m in models for v in m["heads"][k]] for k in ("predicted", "measured")],
        "pages": [[v for m in models for v in m["pages"][k]] for k in (0, 1)],
    }
    found = {k: agreement(*map(torch.tensor, pair)) for k, pair in pooled.items()}
    for kind in ("neurons", "short", "whole"):
        met = sum(m["neurons"][kind]["holds"] for m in models)
        found[kind] = {"models": met, "of": len(models), "holds": met >= 7}
    gain = {
        n: kept[n]["remedy"]["centred"]["FVU"][0] - kept[n]["remedy"]["circuit"]["FVU"][0]
        for n in PLAN["models"] if n in kept
    }  # fmt: skip
    worst = max((v for n, v in gain.items() if n != "smollm2"), default=0.0)
    found["remedy"] = {"gain": gain, "others": worst, "others hold": worst <= 0.05}
    return found


@command("one_page")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=PLAN["models"])
    parser.add_argument("--file", type=Path, default=cb.evidence("one_page.json"))
    args = parser.parse_args(argv)

    def measure(name: str) -> dict[str, Any]:
        return measured_of(first_layer(name, PLAN["texts"])) | provenance(name)

    kept = keep(args.file, args.models, measure, VERSION)
    for kind, found in verdicts(kept).items():
        print(kind, found)


if __name__ == "__main__":
    sys.exit(main())
