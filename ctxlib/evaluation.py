"""Compare a circuit with the exact layer: correlation, fraction of variance unexplained (FVU), and
what each approximation costs (Gibson 2025, section on evaluation; chapters 5 and 11).

    FVU = sum (approx - truth)^2 / sum (truth - mean truth)^2
        = offset^2 + (spread - r)^2 + (1 - r^2)

`offset` is the mean error and `spread` the standard deviation of the approximation, both in
standard deviations of the truth: three ways of being wrong that add up.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.checks import as_indices, check_chosen, check_kind
from ctxlib.circuit import ContextualCircuit, SelfNormalizedCircuit, shared_kernel
from ctxlib.decompose import Entries
from ctxlib.texts.accumulate import accumulate
from ctxlib.texts.text import AnyText

Circuit = ContextualCircuit | SelfNormalizedCircuit
ROUNDING = 1e-13  # of numbers and their means, relative to them, in float64

# ---------------------------------------------------------------- r and FVU from running sums


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, means and centred products of an approximation (0) and the truth (1), for each neuron,
    in float64: all that r and FVU need. Adding two joins their texts (Chan's formula), so the texts
    themselves need not be kept.

    >>> truth = torch.tensor([[0.0], [1.0], [2.0], [5.0]])
    >>> guess = truth / 2
    >>> of = cx.evaluation.Moments.of
    >>> whole, parts = of(guess, truth), of(guess[:2], truth[:2]) + of(guess[2:], truth[2:])
    >>> whole.count, torch.allclose(whole.products, parts.products)
    (tensor(4), True)
    """

    count: Int[Tensor, ""]
    means: Float[Tensor, "2 neuron"]
    products: Float[Tensor, "2 2 neuron"]

    @classmethod
    def of(
        cls, approx: Float[Tensor, "text neuron"], truth: Float[Tensor, "text neuron"]
    ) -> Moments:
        """Return the moments of some texts. Raises ValueError for arguments of different shapes.

        >>> truth = torch.tensor([[0.0], [1.0], [2.0]])
        >>> cx.evaluation.Moments.of(truth / 2, truth).means[1]
        tensor([1.], dtype=torch.float64)
        """
        if check_kind(approx, "a tensor").shape != check_kind(truth, "a tensor").shape:
            raise ValueError(f"{[*approx.shape]} and {[*truth.shape]}: give one shape twice")
        both = torch.stack([approx.cpu().double(), truth.cpu().double()], dim=1)  # text 2 neuron
        apart = both - both.mean(0)
        products = (apart[:, :, None] * apart[:, None]).sum(0)
        return cls(torch.tensor(len(both), device="cpu"), both.mean(0), products)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = other.count.double() / count  # two integers would give a float32
        apart = other.means - self.means
        between = self.count * share * apart[:, None] * apart
        products = self.products + other.products + between
        return Moments(count, self.means + share * apart, products)

    def table(self, neurons: Sequence[int]) -> pd.DataFrame:
        """Return one row a neuron: `r`, `fvu`, and its three parts `from offset`, `from spread`,
        `from shape`, then `offset` and `spread` themselves and the standard deviation `sd` of the
        truth. All are NaN if the truth does not vary; if only the approximation does not, r alone
        is NaN and counts as 0 in the parts. Raises ValueError for fewer than two texts.

        >>> truth = torch.tensor([[0.0], [1.0], [2.0]])
        >>> cx.evaluation.Moments.of(0.8 * truth, truth).table([0])[["r", "fvu", "spread"]].round(2)
                  r  fvu  spread
        neuron
        0       1.0  0.1     0.8
        """
        if self.count < 2:
            raise ValueError("r needs at least two texts")
        squares = self.products.diagonal().T  # 2 neuron
        # by more than the rounding of its own mean, or no number
        varied_a, varied_t = ~(squares <= self.count * (ROUNDING * self.means) ** 2)
        aa, tt = squares
        sd = (tt / self.count).sqrt()
        r = torch.where(varied_a, self.products[0, 1] / (aa * tt).sqrt(), 0)
        offset = (self.means[0] - self.means[1]) / sd
        spread = torch.where(varied_a, (aa / tt).sqrt(), 0)
        parts = {"from offset": offset**2, "from spread": (spread - r) ** 2, "from shape": 1 - r**2}
        columns = {"r": torch.where(varied_a, r, torch.nan), "fvu": sum(parts.values()), **parts}
        columns |= {"offset": offset, "spread": spread, "sd": torch.where(varied_t, sd, 0)}
        index = pd.Index(as_indices("neuron", neurons), name="neuron")
        if len(index) != len(sd):
            raise ValueError(f"{len(index)} neurons for the moments of {len(sd)}: name each")
        table = pd.DataFrame(columns, index=index)
        table.loc[~varied_t.numpy(), table.columns != "sd"] = np.nan
        return table


with torch.device("cpu"):  # on which all moments are, whatever a reader's default is
    NO_TEXTS = Moments(torch.tensor(0), torch.zeros(2, 1).double(), torch.zeros(2, 2, 1).double())


def r_and_fvu(
    guess: Float[Tensor, "text neuron"],
    truth: Float[Tensor, "text neuron"],
    domains: Sequence[str],
) -> pd.Series:
    """Return `r`, `r within domains` (with each domain's mean subtracted from both sides) and
    `FVU`, medians over the neurons.

    Raises ValueError for shapes that differ, and unless there is one domain for each text.

    >>> stack = torch.stack([text.tokens for text in passages])
    >>> truth = fixed.exact_summary(stack, heads)[:, [298, 973]]
    >>> guess = circuit.summary(stack)[:, [298, 973]]
    >>> domains = [text.domain for text in passages]
    >>> list(cx.evaluation.r_and_fvu(guess, truth, domains).index)
    ['r', 'r within domains', 'FVU']
    >>> cx.evaluation.r_and_fvu(truth, truth, domains).round(2).tolist()
    [1.0, 1.0, 0.0]
    """
    if len(check_kind(domains, "a list")) != len(check_kind(truth, "a tensor", None, None)):
        raise ValueError(f"{len(domains)} domains for {len(truth)} texts: give one for each")
    names = np.array(domains)
    same = torch.from_numpy(names[:, None] == names).to(truth)
    inside = (v - same @ v / same.sum(1, keepdim=True) for v in (guess, truth))
    pairs, neurons = ((guess, truth), inside), range(truth.shape[1])
    whole, within = (Moments.of(*pair).table(neurons).median() for pair in pairs)
    return pd.Series({"r": whole["r"], "r within domains": within["r"], "FVU": whole["fvu"]})


def evaluate(
    circuit: Circuit,
    texts: Iterable[AnyText],
    neurons: Sequence[int] | None = None,
    checkpoint: str | os.PathLike | None = None,
    client: Any = None,
) -> pd.DataFrame:
    """Compare a circuit's summaries with the exact ones on texts: one row a neuron, with `r`, `fvu`
    and the parts of the error (`Moments.table`); `.attrs["texts"]` is the number of texts.

    Every text has the query token in place of its own at n, as in calibration. All neurons are
    compared by default. Texts are read in batches, so any iterable will do and memory does not grow
    with their number.

    `checkpoint` names a file that keeps the sums: called again after an interruption, with the same
    circuit and texts, the evaluation continues where it stopped, and with more texts it adds them.
    Texts of a `cx.texts.stream` that are done are not read again. `client`, a
    `dask.distributed.Client`, does the work on a cluster with the same result, a few batches at a
    time; batches of a lost worker are computed again.

    Raises ValueError for fewer than two texts, for neurons that do not exist, for a checkpoint of
    another circuit or other texts, and as `FixedQuery.exact_summary` does; what was done before an
    error stays in the checkpoint.

    >>> table = cx.evaluate(circuit, passages, neurons=[298, 973])
    >>> list(table), table.index.tolist()
    (['r', 'fvu', 'from offset', 'from spread', 'from shape', 'offset', 'spread', 'sd'], [298, 973])
    >>> better = cx.evaluate(circuit.self_normalized(), passages, neurons=[298, 973])
    >>> better["fvu"].median() < table["fvu"].median()
    np.True_
    """
    chosen = check_chosen("neuron", neurons, check_kind(circuit, "a circuit").fixed.n_neurons)
    comparison = Comparison(circuit, tuple(chosen))
    moments = accumulate(comparison, NO_TEXTS, texts, checkpoint, client)
    table = moments.table(chosen)
    table.attrs["texts"] = int(moments.count)
    return table


@dataclass(frozen=True, eq=False)
class Comparison:
    """A circuit compared with the exact layer, batch by batch."""

    circuit: Circuit
    neurons: tuple[int, ...]

    def batches(self, texts: Iterable[AnyText]) -> Iterator[Int[Tensor, "text source"]]:
        return self.circuit.fixed.prepare_batches(texts, "evaluation")

    def __call__(self, tokens: Int[Tensor, "text source"]) -> Moments:
        c = self.circuit
        with torch.no_grad():  # the circuit's cached tensors may be differentiated later
            exact = c.fixed.exact_summary(tokens, c.heads)
            return Moments.of(c.summary(tokens)[:, self.neurons], exact[:, self.neurons])


# ---------------------------------------------------------------- what each approximation costs

#: The six approximations of the paper's circuit, and what each means.
APPROXIMATIONS = {
    "keys": "Equation 1 in place of the keys",
    "values": "values as if every source stood at n",
    "kernel": "one kernel for all heads",
    "denominators": "denominators of the calibration text",
    "token": "the circuit's token at n, as query and source",
    "scale": "LayerNorm-2 scale of the calibration text",
}


def approx_summary(
    circuit: ContextualCircuit, tokens: Int[Tensor, "text pos"], made: Collection[str]
) -> Float[Tensor, "text neuron"]:
    """Return what the circuit's heads add to each neuron at n, with only the approximations named
    in `made` (keys of `APPROXIMATIONS`) and everything else exact.

    With none this is `FixedQuery.exact_summary`, with all of them the circuit's own summary of the
    text with its query token at n. In between, a row of head h is
    `kernel_i content_h(x_i) / denom_h`:

    - keys: content from E[n, x_i], or else whatever the exact score has beside the kernel;
    - kernel: the median of the heads' kernels, or each head's own;
    - denominators: those of the calibration text, or the sum of the row's own numerators;
    - token: the query of the circuit's token, or of the text's own, for all of the above; with it,
      that token is also at source n;
    - values: of x_i at position n, or at its own position;
    - scale: of the calibration text, or the text's own.

    Raises ValueError for an approximation that is not one of the six, for a centred circuit, and as
    `FixedQuery.exact_summary` does.

    >>> list(cx.evaluation.APPROXIMATIONS)
    ['keys', 'values', 'kernel', 'denominators', 'token', 'scale']
    >>> none = cx.evaluation.approx_summary(circuit, tokens[None], made=())
    >>> torch.allclose(none, fixed.exact_summary(tokens[None], heads), atol=1e-3)
    True
    """
    if check_kind(circuit, "a ContextualCircuit").constant is not None:
        raise ValueError("a centred circuit is not one of the six approximations alone: give the "
                         "circuit that it was made of")  # fmt: skip
    if unknown := {*check_kind(made, "a list")} - APPROXIMATIONS.keys():
        raise ValueError(f"no approximation called {unknown}; there are {list(APPROXIMATIONS)}")
    fixed, approx, heads = circuit.fixed, circuit.fixed.decomposition, list(circuit.heads)
    exact, x = fixed.require_exact(), approx.sources(tokens)
    scale: Any = circuit.scale
    if "scale" not in made:
        z = exact.z(x)
        scale = fixed.scale(x, fixed.readout.outputs(z)) * fixed.readout.scale_of_heads(z)
    if "token" in made:
        x = x.clone()
        x[:, fixed.n] = fixed.token

    def log_factors(x: Int[Tensor, "text source"]) -> tuple[Entries, Entries]:
        """Return log pos_i, and the rest of each score: log content, or whatever is exact."""
        positional, content = approx.factors(x)
        return positional, content if "keys" in made else exact.scores(x) - positional

    positional, rest = log_factors(x)
    kernels = positional.log_softmax(-1)  # rows are products: as logarithms nothing underflows
    numerators = summed = kernels + rest
    if "kernel" in made:
        chosen = rearrange(kernels[:, heads].exp(), "text head source -> head text source")
        numerators = summed = shared_kernel(chosen).log()[:, None] + rest
    if "denominators" in made:  # of the calibration text, with the same token and query at n
        calibration = circuit.calibration.repeat(len(x), 1).to(x.device)
        calibration[:, fixed.n] = x[:, fixed.n]
        summed = kernels + log_factors(calibration)[1]
    rows = (numerators - summed.logsumexp(-1, keepdim=True)).exp()
    z = exact.z_from_pattern(rows, exact.normalized_resid(x, at_n="values" in made))[:, heads]
    W_O = fixed.readout.W_O[heads]
    out = einsum(z, W_O, "text head d_head, head d_head d_model -> text d_model")
    return out @ fixed.readout.W_in / scale


def error_budget(
    circuit: ContextualCircuit,
    texts: Iterable[AnyText],
    neurons: Sequence[int] | None = None,
) -> pd.DataFrame:
    """Return what each approximation of the circuit costs: one row a set of approximations, medians
    over neurons of `r`, `fvu` and its three parts.

    The first rows make none and all of them; then all but one ("without"), which shows what
    repairing it alone would gain; then one alone ("only"), which shows what it costs when
    everything else is exact. As in `evaluate` the query token is in every text, so that nothing of
    it is approximated. Errors as there, and TypeError for another circuit than the paper's.

    >>> budget = cx.evaluation.error_budget(circuit, passages[::6], neurons=[298, 973])
    >>> list(budget["fvu"]["without"].index)
    ['keys', 'values', 'kernel', 'denominators', 'scale']
    >>> bool(budget.loc[("none", ""), "fvu"] < 1e-6 <= budget["fvu"]["only"].min())
    True
    """
    fixed = check_kind(circuit, "a ContextualCircuit").fixed
    chosen = check_chosen("neuron", neurons, fixed.n_neurons)
    names = [name for name in APPROXIMATIONS if name != "token"]
    rows: dict[tuple[str, str], set[str]] = {("none", ""): set(), ("all", ""): set(names)}
    rows |= {("without", name): set(names) - {name} for name in names}
    rows |= {("only", name): {name} for name in names}
    sums = dict.fromkeys(rows, NO_TEXTS)
    for x in fixed.prepare_batches(texts, "error budget"):
        exact = fixed.exact_summary(x, circuit.heads)[:, chosen]
        for row, made in rows.items():
            sums[row] += Moments.of(approx_summary(circuit, x, made)[:, chosen], exact)
    columns = ["r", "fvu", "from offset", "from spread", "from shape"]
    medians = [moments.table(chosen)[columns].median() for moments in sums.values()]
    index = pd.MultiIndex.from_tuples(rows, names=["made", "approximation"])
    return pd.DataFrame(medians, index=index)
