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
VERSION = "3"

ByHead = Float[Tensor, "head text neuron"]
Errors = Float[Tensor, "text head"]


def errors(layer: FirstLayer, denominators: Tensor, scale: float) -> Errors:
    """Return e of every text and stable head, where these constants are borrowed."""
    of = layer.study.fixed
    own = torch.cat([of.denominators(few)[:, layer.heads] for few in layer.x.split(64)])
    return (own / denominators * layer.scale[:, None] / scale - 1).double()


def contributions(layer: FirstLayer, texts: np.ndarray) -> ByHead:
    """Return what each stable head adds to each neuron in these texts."""
    readout = layer.study.fixed.readout
    read = readout.W_O[layer.heads] @ readout.W_in
    inside = layer.z[texts][:, layer.heads] / layer.scale[texts, None, None]
    return einsum(inside, read, "t h d, h d j -> h t j").double()


def law(e: Errors, u: ByHead, domains: np.ndarray | None = None) -> Float[Tensor, " neuron"]:
    """Return the FVU of every neuron by the law for several heads, in each domain apart if any."""
    groups = np.zeros(len(e)) if domains is None else domains
    total = torch.zeros(u.shape[-1], dtype=u.dtype)
    for here in (groups == of for of in np.unique(groups)):
        E = e[here].T @ e[here] / here.sum()
        total += (einsum(E, u[:, here], "h k, k t j -> h t j") * u[:, here]).sum((0, 1))
    return total / len(e) / u.sum(0).var(0, correction=0)


def law_of_heads(e: Errors, u: ByHead, domains: np.ndarray) -> Float[Tensor, " head"]:
    """Return the FVU of every head by the law in each domain apart, squares summed over neurons."""
    total = torch.zeros(len(u), dtype=u.dtype)
    for here in (domains == of for of in np.unique(domains)):
        total += e[here].square().mean(0) * u[:, here].square().sum((1, 2))
    return total / variance_of_heads(u)


def variance_of_heads(u: ByHead) -> Float[Tensor, " head"]:
    """Return each head's squared distance from its mean over texts, summed over the neurons."""
    return (u - u.mean(1, keepdim=True)).square().sum((1, 2))


def fvu(error: Tensor, truth: Tensor) -> Tensor:
    """Return the FVU of the last dimension's neurons, texts being the first."""
    return error.double().square().mean(0) / truth.double().var(0, correction=0)


def measured(e: Errors, u: ByHead) -> tuple[Tensor, Tensor]:
    """Return the FVU of every head and of every neuron where heads err by these."""
    wrong = e.T[..., None] * u
    return wrong.square().sum((1, 2)) / variance_of_heads(u), fvu(wrong.sum(0), u.sum(0))


def agreement(predicted: Tensor, found: Tensor) -> dict[str, Any]:
    """Return how predicted and measured compare, and whether the set bounds are met."""
    ratio = (predicted / found)[found > 0].numpy()
    close = float((np.abs(np.log(ratio)) <= np.log(PLAN["factor"])).mean())
    middle = float(np.median(ratio))
    holds = close >= PLAN["share"] and PLAN["median"][0] <= middle <= PLAN["median"][1]
    return {"close": close, "median ratio": middle, "holds": holds, "of": len(ratio)}


def measured_of(layer: FirstLayer) -> dict[str, Any]:
    """Return what the law predicts of a layer from half A, and what either half measures."""
    study, circuit, (A, B), J = layer.study, layer.study.circuit, layer.halves, layer.strongest
    u_A, u_B = (contributions(layer, half) for half in (A, B))
    e = errors(layer, circuit.denominators, circuit.scale)
    (heads_A, neurons_A), (heads_B, neurons_B) = measured(e[A], u_A), measured(e[B], u_B)

    mean, variance = u_A.mean(1), u_A.sum(0).var(0, correction=0)
    sigma2 = e[A].square().mean(0)
    c2 = len(A) * mean.square().sum(1) / variance_of_heads(u_A)
    share = torch.tensor(study.head_variance_share[layer.heads].to_numpy())
    several = law(e[A], u_A)
    forms = {
        "neurons": several,
        "short": (sigma2 * share).sum() / share.sum() * (mean.sum(0).square() / variance + 1),
        "by domain": law(e[A], u_A, layer.domains[A]),
        "in random groups": law(e[A], u_A, draw().permutation(layer.domains[A])),
    }
    compared = {form: agreement(predicted, neurons_B) for form, predicted in forms.items()}
    readout = study.fixed.readout
    kernelled = circuit.z(layer.x[A]) / (1 + e[A, :, None]).float() / circuit.scale
    read = readout.W_O[layer.heads] @ readout.W_in
    with_own = einsum(kernelled, read, "t h d, h d j -> t j")
    own = torch.cat([circuit.summary(few) for few in layer.x[B].split(64)])
    whole = several + fvu(with_own - u_A.sum(0), u_A.sum(0))
    compared["whole"] = agreement(whole, fvu(own - u_B.sum(0), u_B.sum(0)))

    pages = []
    for page in draw().choice(A, PLAN["pages"], replace=False):
        made = cx.ContextualCircuit.calibrate(study.fixed, layer.texts[page], layer.heads)
        of_page = errors(layer, made.denominators, made.scale)
        found = law(of_page[A], u_A[..., J]), measured(of_page[B], u_B[..., J])[1]
        pages.append([float(v.median()) for v in found])
    order = several.argsort()
    sample = order[np.linspace(0, len(order) - 1, min(200, len(order))).astype(int)]
    return {
        "page": study.calibration_text.name,
        "heads": {
            "head": layer.heads,
            "sigma": sigma2.sqrt().tolist(),
            "predicted": (sigma2 * (c2 + 1)).tolist(),
            "by domain": law_of_heads(e[A], u_A, layer.domains[A]).tolist(),
            "measured": heads_B.tolist(),
        },
        "neurons": compared,
        "sample": {
            "neuron": sample.tolist(),
            "predicted": several[sample].tolist(),
            "by domain": forms["by domain"][sample].tolist(),
            "measured": neurons_B[sample].tolist(),
        },
        "pages": np.array(pages).T.tolist(),
        "constant over spread": float((mean.sum(0).abs() / variance.sqrt())[J].median()),
        "remedy": remedy(layer),
        "on A": {
            "heads": heads_A.tolist(),
            "neurons": {form: agreement(predicted, neurons_A) for form, predicted in forms.items()},
            "as half B": agreement(neurons_A, neurons_B),
        },
    }


def draw() -> np.random.Generator:
    return np.random.default_rng(PLAN["seed"])


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


@command("one_page")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=PLAN["models"])
    parser.add_argument("--file", type=Path, default=cb.evidence("one_page.json"))
    args = parser.parse_args(argv)

    def measure(name: str) -> dict[str, Any]:
        return measured_of(first_layer(name, PLAN["texts"])) | provenance(name)

    keep(args.file, args.models, measure, VERSION)


if __name__ == "__main__":
    sys.exit(main())
