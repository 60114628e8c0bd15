"""Find context-sensitive neurons: those that single tokens of the surrounding text can move far
(Gibson 2025, section on neurons; chapter 6).

    top[j] = mean of the largest contribution[t, j] - mean over t of contribution[t, j]

The weights say which tokens move a neuron; labelled texts then say what it is about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy import stats
from torch import Tensor

from ctxlib.checks import as_index, as_indices, check_kind
from ctxlib.circuit import ContextualCircuit
from ctxlib.texts.batching import progress
from ctxlib.texts.vocabulary import decode_tokens

LARGEST = 20  #: tokens that `top` averages over
STANDS_OUT = 2.0  #: a neuron whose `top` is this many robust deviations above the median one
CHUNK = 256  # neurons at a time: bounds the memory, changes no result

# ---------------------------------------------------------------- which neurons


class NoNeuron(ValueError):
    """Raised by `find_neurons` if no neuron passes.

    >>> issubclass(cx.neurons.NoNeuron, ValueError)
    True
    """


def find_neurons(
    circuit: ContextualCircuit, threshold: float | None = None, at_least: int = 0
) -> pd.DataFrame:
    """Return the neurons with `top[j] > threshold`, one row each, largest first.

    Columns: `top`, in units of the pre-activation; `z`, by how many robust standard deviations
    (1.48 median absolute deviations) it lies above the median neuron; `mean`, the contribution of
    an average token; `top tokens` and `bottom tokens`. All tokens count except glitch tokens
    (`ctxlib.texts.untrained_tokens`), and `LARGEST` is K of chapter 6.

    The unit of `top` is one model's own, so a threshold does not carry over to another model. The
    default is a rule that does: two robust standard deviations above the median neuron. The
    threshold is in `.attrs`. If fewer than `at_least` neurons pass, the largest of the others fill
    the table up; their `top` is below the threshold. Raises NoNeuron, a ValueError, if the table
    would be empty, and ValueError for a negative number.

    >>> found = cx.find_neurons(circuit)
    >>> found["top"].is_monotonic_decreasing, bool(found["top"].min() > found.attrs["threshold"])
    (True, True)
    >>> {len(tokens) for tokens in found["top tokens"]} == {cx.neurons.LARGEST}
    True
    """
    if as_index("at_least", at_least) < 0:
        raise ValueError(f"at_least={at_least}: give 0 or more")
    tops, means, top, bottom = extreme_tokens(circuit)
    z = robust_z(tops)
    order = tops.argsort(descending=True, stable=True)
    passed = z > STANDS_OUT if threshold is None else tops > check_kind(threshold, "a number")
    if not (passed.any() or at_least):
        bar = f"z above {STANDS_OUT:g}" if threshold is None else f"a top above {threshold:g}"
        raise NoNeuron(
            f"no neuron has {bar}: the largest top of {len(tops)} neurons is {tops.max():.2f}, "
            f"the median one {tops.quantile(0.5):.2f}; give a lower threshold"
        )
    if threshold is None:  # midway between the last that passes and the first that fails
        middle, below = tops.quantile(0.5), tops[~passed] if not passed.all() else tops
        deviation = 1.4826 * (tops - middle).abs().quantile(0.5)
        smallest = tops[passed].min() if passed.any() else middle + STANDS_OUT * deviation
        threshold = float((smallest + below.max().clamp(max=smallest)) / 2)
    passed[order[:at_least]] = True
    chosen = order[passed[order]]
    table = pd.DataFrame(
        {
            "top": tops[chosen].tolist(),
            "z": z[chosen].tolist(),
            "mean": means[chosen].tolist(),
            "top tokens": [decode_tokens(circuit.fixed, row) for row in top[chosen].tolist()],
            "bottom tokens": [decode_tokens(circuit.fixed, row) for row in bottom[chosen].tolist()],
        },
        index=pd.Index(chosen.tolist(), name="neuron"),
    )
    table.attrs["threshold"] = threshold
    return table


def extreme_tokens(circuit: ContextualCircuit) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return for every neuron `top`, the contribution of an average token, and the ids of the
    tokens with the largest and with the smallest contributions, the most extreme first, glitch
    tokens left out.

    >>> top, mean, largest, smallest = cx.neurons.extreme_tokens(circuit)
    >>> contribution = circuit.contribution_to([298])[0]
    >>> torch.isclose(contribution[largest[298]].mean() - mean[298], top[298]).item()
    True
    """
    fixed = check_kind(circuit, "a ContextualCircuit").fixed
    ids = (~fixed.decomposition.untrained).nonzero()[:, 0]
    kept, count = min(LARGEST, len(ids)), fixed.n_neurons

    def of_some(start: int) -> tuple[Tensor, ...]:
        contribution = circuit.contribution_to(slice(start, start + CHUNK))
        contribution = contribution if len(ids) == fixed.d_vocab else contribution[:, ids]
        best, worst = (contribution.topk(kept, largest=up) for up in (True, False))
        mean = contribution.mean(1)
        return best.values.mean(1) - mean, mean, ids[best.indices], ids[worst.indices]

    parts = map(of_some, progress(range(0, count, CHUNK), "finding neurons", "chunk"))
    tops, means, largest, smallest = map(torch.cat, zip(*parts, strict=True))
    return tops, means, largest, smallest


def robust_z(values: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return the distance from the median in robust standard deviations, 1.4826 median absolute
    ones; for normally distributed values this is the ordinary standard score.

    >>> cx.neurons.robust_z(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0])).round(decimals=1)
    tensor([-1.3000, -0.7000,  0.0000,  0.7000, 65.4000])
    """
    far = values - check_kind(values, "a tensor").quantile(0.5)
    # not scipy's median_abs_deviation: chapter 6 and the engine use 1.4826
    # where most values are alike the deviation is zero: the median itself still scores zero
    return torch.where(far == 0, far, far / (1.4826 * far.abs().quantile(0.5)))


# ---------------------------------------------------------------- what they respond to


def label_neurons(
    values: Float[Tensor, "text neuron"],
    labels: Sequence[Hashable],
    neurons: Sequence[int],
) -> pd.DataFrame:
    """Return the label of text that each neuron responds to most, one row a neuron.

    `values` is any measure of the neurons on the texts: a summary, the exact contribution, the
    pre-activation. `label` is the label whose mean lies farthest above that of all other texts;
    `difference` is how far, in the unit of `values`; `auc` is the probability that a text of the
    label has a larger value than another text. Raises ValueError for values that are not finite,
    and unless there is a label for each text, two labels at least, and two texts with each.

    >>> summaries = circuit.summary(torch.stack([text.tokens for text in passages]))
    >>> labels = [text.domain for text in passages]
    >>> table = cx.label_neurons(summaries[:, [298, 973]], labels, neurons=[298, 973])
    >>> set(table["label"]) <= set(labels), table["auc"].between(0, 1).all()
    (True, np.True_)
    """
    scores = label_scores(values, labels, neurons)
    counts = Counter(map(str, labels))
    if len(counts) < 2 or min(counts.values()) < 2:
        raise ValueError("labels need at least two names with two texts each")
    best = scores["difference"].groupby("neuron", sort=False).idxmax()
    return scores.loc[best].reset_index("label")


def label_scores(
    values: Float[Tensor, "text neuron"],
    labels: Sequence[Hashable],
    neurons: Sequence[int],
) -> pd.DataFrame:
    """Return how well every neuron tells the texts of every label from all others, one row a label
    and neuron, with `difference` and `auc` as in `label_neurons`. A label that all texts have gets
    NaN. Raises ValueError unless there is a label for each text and all values are finite.

    >>> summaries = circuit.summary(torch.stack([text.tokens for text in passages]))
    >>> labels = [text.domain for text in passages]
    >>> scores = cx.neurons.label_scores(summaries[:, [298, 973]], labels, neurons=[298, 973])
    >>> scores.loc["python"].columns.tolist(), scores.loc["python"].index.tolist()
    (['difference', 'auc'], [298, 973])
    """
    y = np.asarray(check_kind(values, "a tensor").cpu().double())
    neurons = as_indices("neuron", neurons)
    if y.shape != (len(check_kind(labels, "a list")), len(neurons)):
        raise ValueError(f"{len(labels)} labels and {len(neurons)} neurons for values {y.shape}")
    if not np.isfinite(y).all():
        raise ValueError("values that are not finite: leave out the texts that they are of")
    names, member = np.unique(np.array([str(label) for label in labels]), return_inverse=True)
    counts = np.bincount(member)
    inside = member == np.arange(len(names))[:, None]  # label text
    with np.errstate(invalid="ignore"):
        rest = ~inside @ y / (len(y) - counts)[:, None]
    apart = inside @ y / counts[:, None] - rest  # label neuron
    rows = pd.MultiIndex.from_product([names, neurons], names=["label", "neuron"])
    columns = {"difference": apart.ravel(), "auc": auc(y, inside).ravel()}
    return pd.DataFrame(columns, index=rows)


def auc(
    values: Float[np.ndarray, "text neuron"], inside: Bool[np.ndarray, "*label text"]
) -> Float[np.ndarray, "*label neuron"]:
    """Return the area under the ROC curve: the probability that a text inside has a larger value
    than one outside, ties counted half (the Mann-Whitney statistic over the number of pairs).
    `inside` is one mask, or one a label. NaN if no text is inside, or every one.

    >>> values = circuit.summary(torch.stack([text.tokens for text in passages])).numpy()
    >>> domains = np.array([text.domain for text in passages])
    >>> auc = cx.neurons.auc(values[:, [298, 973]], domains == "python")
    >>> np.allclose(auc, 1 - cx.neurons.auc(-values[:, [298, 973]], domains == "python"))
    True
    """
    count = check_kind(inside, "an array").sum(-1, keepdims=True)
    if check_kind(values, "an array").shape[:1] != inside.shape[-1:] or values.ndim < 2:
        raise ValueError(f"values {values.shape} for texts {inside.shape}: give one for each")
    ranks = stats.rankdata(values, axis=0)
    above = inside @ ranks - count * (count + 1) / 2
    with np.errstate(invalid="ignore"):
        return above / (count * (inside.shape[-1] - count))
