"""What a model shows of the paper's effect, in one table: a column a model.

    python tools/witness.py mini mini-first-edition folder/of/another

Heads and the calibration text are chosen on half A of the held-out texts (and the passages of plain
prose); every number that judges them is measured on half B, ' the' at n = n_ctx / 2. Medians are
over the 100 neurons of largest `top`. "Within domains" is r after each domain's mean is taken off
both sides; the mean of the domain leaves the text itself out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ctxlib as cx

TOKEN, FAR, NEURONS, ENOUGH = " the", 486, 100, 0.2
Summaries = Float[Tensor, "text neuron"]


def fit(approx: Summaries, truth: Summaries) -> tuple[float, float]:
    """Median r and median FVU over neurons."""
    moments = cx.Moments.of(approx, truth)
    table = moments.table(range(truth.shape[1]))
    return float(table["r"].median()), float(table["fvu"].median())


def less_domain(values: Summaries, domain: np.ndarray) -> Summaries:
    """The values less the mean of their domain."""
    return values - domain_mean(values, domain)


def domain_mean(values: Summaries, domain: np.ndarray, leave_out: bool = False) -> Summaries:
    """Each text's domain's mean, the text itself left out or not."""
    same = torch.from_numpy(domain[:, None] == domain).to(values)
    if leave_out:
        same.fill_diagonal_(0)
    return same @ values / same.sum(1, keepdim=True)


def batched(function: Callable[[Tensor], Tensor], x: Tensor, size: int = 64) -> Tensor:
    return torch.cat([function(part) for part in x.split(size)])


def witness(name: str) -> dict[str, str]:
    """One column: the name of a number, and the number in words."""
    model = cx.load(name)
    weights = cx.LayerWeights.of(model, layer=0)
    n = weights.n_ctx // 2
    chosen_on, judged_on = (cx.texts.collection(weights, half=half) for half in "AB")
    domain = np.array([text.domain for text in judged_on])
    prose = cx.texts.passages(weights, domains=cx.studies.PROSE)
    spread = cx.effective_tokens(cx.positional_kernels(weights, FAR, TOKEN))
    stable = cx.stable_heads(weights, chosen_on, n, TOKEN)
    page = cx.denominators.middle_text(weights, prose, stable, n, TOKEN)

    distance = torch.cat(
        [
            cx.total_variation(
                cx.attention_pattern(weights, text.tokens),
                cx.rebuilt_pattern(weights, text.tokens),
            )
            for text in judged_on[:: len(judged_on) // 44]
        ],
        dim=1,
    )  # head dest
    denoms = cx.softmax_denominators(weights, judged_on, n, TOKEN)  # text head
    of_prose, own = (
        cx.softmax_denominators(weights, texts, n, TOKEN)[:, stable] for texts in (prose, chosen_on)
    )
    one_page, draws = (  # what a text costs that calibrates: chapter 5
        (denoms[:, stable] / one[:, None] - 1).abs().mean((1, 2)) for one in (of_prose, own)
    )

    circuit = cx.ContextualCircuit.calibrate(weights, page, stable, n, TOKEN)
    neurons = cx.find_neurons(circuit, threshold=-np.inf).index[:NEURONS].tolist()
    x = cx.texts.at(weights, judged_on, n, TOKEN)
    truth = batched(lambda part: cx.true_contribution(weights, part, stable, n)[:, neurons], x)
    whole = batched(lambda part: whole_neuron(weights, part, n)[:, neurons], x)
    normalised = circuit.self_normalised(chosen_on)
    paper = batched(lambda part: circuit.summary(part)[:, neurons], x)
    own_text = batched(lambda part: normalised.summary(part)[:, neurons], x)

    rows = {
        "effective tokens, n = 486": " ".join(f"{v:.0f}" for v in spread),
        "TV, median": " ".join(f"{v:.3f}" for v in distance.median(1).values),
        "denominators, sd over mean": " ".join(f"{v:.2f}" for v in denoms.std(0) / denoms.mean(0)),
        "stable heads": f"{len(stable)} of {weights.n_heads}: {list(stable)}",
        "calibration text": page.name,
        "one page of prose calibrates: median error": f"{one_page.median():.2f}",
        f"draws of one text within {ENOUGH}": f"{(draws <= ENOUGH).float().mean():.0%}",
        "r against the whole pre-activation": f"{fit(paper, whole)[0]:.3f}",
        "self-normalised: r / FVU": "{:.3f} / {:.3f}".format(*fit(own_text, truth)),
    }
    for said, approx in baselines(circuit, x, neurons, paper).items():
        r, fvu = fit(approx, truth)
        within, _ = fit(less_domain(approx, domain), less_domain(truth, domain))
        rows[f"{said}: r / FVU / r within domains"] = f"{r:.3f} / {fvu:.3f} / {within:.3f}"
    r, fvu = fit(domain_mean(truth, domain, leave_out=True), truth)
    rows["mean of the domain, leave one out: r / FVU"] = f"{r:.3f} / {fvu:.3f}"
    return rows


def whole_neuron(weights: cx.LayerWeights, x: Tensor, n: int) -> Summaries:
    """The exact pre-activation of every neuron at n."""
    W_in, b_in = weights.mlp_input()
    resid = cx.destination.resid_mid(weights, x, n, cx.destination.true_outputs(weights, x, n))
    return cx.layer_norm(resid, weights.eps) @ W_in + b_in


def baselines(
    circuit: cx.ContextualCircuit, x: Tensor, neurons: list[int], paper: Summaries
) -> dict[str, Summaries]:
    """The circuit, and what is left of it without its kernel, without content, without both."""
    contribution = circuit.contribution[:, neurons]  # vocab neuron
    ones = contribution_of_values(circuit, neurons)
    even = torch.full_like(circuit.kernel, 1 / len(circuit.kernel))

    def bag(kernel: Tensor, of: Tensor) -> Summaries:
        return batched(
            lambda part: einsum(kernel, of[part], "source, text source neuron -> text neuron"), x
        )

    return {
        "the circuit": paper,
        "uniform bag of its contributions": bag(even, contribution),
        "kernel only (content = 1)": bag(circuit.kernel, ones),
        "uniform, content = 1": bag(even, ones),
    }


def contribution_of_values(
    circuit: cx.ContextualCircuit, neurons: list[int]
) -> Float[Tensor, "vocab neuron"]:
    """What a token's values say to a neuron where every content is its head's denominator."""
    weights, heads = circuit.weights, list(circuit.heads)
    there = cx.layer_norm(weights.embeddings() + weights.W_pos[circuit.n], weights.eps)
    v = einsum(there, weights.W_V[heads], "t d_model, h d_model d_head -> t h d_head")
    v = v + weights.b_V[heads]
    W_in, _ = weights.mlp_input()
    return (
        einsum(
            v, weights.W_O[heads], W_in[:, neurons],
            "t h d_head, h d_head d_model, d_model neuron -> t neuron",
        )
        / circuit.scale
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="names or folders")
    names = parser.parse_args().models
    table = pd.DataFrame({Path(name).name: witness(name) for name in names})
    print("| | " + " | ".join(table.columns) + " |\n" + "| --- " * (len(names) + 1) + "|")
    for said, row in table.iterrows():
        print(f"| {said} | " + " | ".join(row) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
