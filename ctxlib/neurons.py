"""Context-sensitive neurons: those that single tokens of the surrounding text can move far
(Gibson 2025, section on neurons; chapter 7).

    top[j] = mean of the largest contribution[t, j] - mean over t of contribution[t, j]

Which tokens move a neuron comes from the weights; what the neuron is about is then read off
labelled texts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy import stats
from torch import Tensor

from ctxlib.circuit import ContextualCircuit
from ctxlib.destination import Destination
from ctxlib.weights import LayerWeights

LARGEST = 20  #: tokens that `top` averages over
STANDS_OUT = 2.0  #: a neuron whose `top` is this many robust deviations above the median one
NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))  # bytes that no UTF-8 text contains: they print, and
# byte-level vocabularies write what prints as itself
CHUNK = 256  # neurons at a time: bounds the memory, changes no result

# ---------------------------------------------------------------- tokens that were never trained


def untrained_tokens(weights: LayerWeights | Destination) -> Bool[Tensor, " vocab"]:
    """Glitch tokens: those whose embeddings lie where only never-trained ones do.

    A byte-level vocabulary holds thirteen bytes that no UTF-8 text contains, so no training text
    did either. A token counts as untrained when its embedding is at least as close (by cosine) to
    their mean as the farthest of them is to the mean of the other twelve, and at least 0.5 close.
    The thirteen themselves always count. Where the vocabulary does not hold them, or there is no
    tokenizer to ask, no token counts.

    >>> flags = cx.neurons.untrained_tokens(weights)
    >>> flags.shape, bool(flags[weights.token_id(" the")])
    (torch.Size([8192]), False)
    """
    W_E = weights.embeddings()
    vocabulary = weights.tokenizer.get_vocab() if weights.tokenizer else {}
    never = [vocabulary[chr(byte)] for byte in NEVER if chr(byte) in vocabulary]
    flags = torch.zeros(len(W_E), dtype=torch.bool, device=W_E.device)
    flags[never] = True
    if len(never) < 2:
        return flags
    unit = torch.nn.functional.normalize(W_E, dim=-1)
    total = unit[never].sum(0)
    own = torch.cosine_similarity(unit[never], total - unit[never], dim=-1)
    return flags | (torch.cosine_similarity(unit, total[None], dim=-1) >= own.min().clamp(min=0.5))


# ---------------------------------------------------------------- which neurons


def find_neurons(circuit: ContextualCircuit, threshold: float | None = None) -> pd.DataFrame:
    """The neurons with `top[j] > threshold`, one row each, largest first.

    Columns: `top`, in units of the pre-activation; `z`, how many robust standard deviations (1.48
    median absolute deviations) it lies above the median neuron; `mean`, the contribution of an
    average token; `top tokens` and `bottom tokens`. All tokens count but `untrained_tokens`, and
    `LARGEST` is K of chapter 7.

    The unit of `top` is one model's own, so a threshold does not carry over to another. The
    default is a rule that does: two robust standard deviations above the median neuron.
    `threshold` is kept in `.attrs`. Raises ValueError when no neuron passes.

    >>> found = cx.find_neurons(circuit)
    >>> found.index[:3].tolist(), len(found) > 50
    ([174, 849, 298], True)
    >>> found.loc[298, "top tokens"][:4]
    ['Ingredients', 'Directions', ' slic', 'atoes']
    """
    ids = (~untrained_tokens(circuit.at)).nonzero()[:, 0]
    largest = min(LARGEST, len(ids))

    def outermost(part: Float[Tensor, "vocab neuron"]) -> tuple[Tensor, ...]:
        contribution = part[ids]
        best, worst = (contribution.topk(largest, dim=0, largest=up) for up in (True, False))
        mean = contribution.mean(0)
        return best.values.mean(0) - mean, mean, ids[best.indices].T, ids[worst.indices].T

    parts = map(outermost, circuit.contribution.split(CHUNK, dim=1))
    tops, means, top, bottom = map(torch.cat, zip(*parts, strict=True))
    z = robust_z(tops)
    passed = z > STANDS_OUT if threshold is None else tops > threshold
    if not passed.any():
        bar = f"z above {STANDS_OUT:g}" if threshold is None else f"a top above {threshold:g}"
        raise ValueError(
            f"no neuron has {bar}: the largest top of {len(tops)} neurons is {tops.max():.2f}, "
            f"the median one {tops.quantile(0.5):.2f}; give a lower threshold"
        )
    if threshold is None:  # half-way to the next one, so that rounding passes nobody
        threshold = float((tops[passed].min() + tops[~passed].max()) / 2)
    order = tops.argsort(descending=True, stable=True)
    chosen = order[passed[order]]
    table = pd.DataFrame(
        {
            "top": tops[chosen].tolist(),
            "z": z[chosen].tolist(),
            "mean": means[chosen].tolist(),
            "top tokens": [spelled(circuit.at, row) for row in top[chosen].tolist()],
            "bottom tokens": [spelled(circuit.at, row) for row in bottom[chosen].tolist()],
        },
        index=pd.Index(chosen.tolist(), name="neuron"),
    )
    table.attrs["threshold"] = threshold
    return table


def robust_z(values: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Distance from the median in robust standard deviations, 1.4826 median absolute ones; for
    normal numbers the ordinary standard score.

    >>> cx.neurons.robust_z(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0])).round(decimals=1)
    tensor([-1.3000, -0.7000,  0.0000,  0.7000, 65.4000])
    """
    far = values - values.quantile(0.5)
    # where most values are alike the spread is zero: the median itself still scores zero
    return torch.where(far == 0, far, far / (1.4826 * far.abs().quantile(0.5)))


def spelled(weights: LayerWeights | Destination, ids: Sequence[int]) -> list[str] | list[int]:
    """Tokens as text, or as they are where there is no tokenizer.

    >>> cx.neurons.spelled(weights, [262, 7])
    [' the', "'"]
    """
    return list(ids) if weights.tokenizer is None else [weights.tokenizer.decode([t]) for t in ids]


# ---------------------------------------------------------------- what they are about


def label_neurons(
    values: Float[Tensor, "text neuron"],
    labels: Sequence[Hashable],
    neurons: Sequence[int],
) -> pd.DataFrame:
    """Which label of text each neuron answers to, one row a neuron.

    `values` is any measure of the neurons on the texts: a summary, the true contribution, the
    pre-activation. `label` is the label whose mean lies farthest above that of all other texts;
    `difference` is how far, in the unit of `values`; `auc` is the chance that a text of the label
    has the larger value than another. How sure that is, `cx.claims.by_document` says. Raises
    ValueError unless there is a label for each text, two labels at least, and two texts in each.

    >>> summaries = circuit.summary(torch.stack([text.tokens for text in passages]))
    >>> labels = [text.domain for text in passages]
    >>> table = cx.label_neurons(summaries[:, [298, 973]], labels, neurons=[298, 973])
    >>> table[["label", "difference", "auc"]].round(2)
              label  difference  auc
    neuron
    298     cooking        1.79  1.0
    973      python        3.42  1.0
    """
    y = np.asarray(values.cpu().double())
    if len(labels) != len(y) or y.shape[1] != len(neurons):
        raise ValueError(
            f"{len(labels)} labels and {len(neurons)} neurons for values of shape {y.shape}"
        )
    names, member = np.unique(np.array([str(label) for label in labels]), return_inverse=True)
    counts = np.bincount(member)
    if len(names) < 2 or counts.min() < 2:
        raise ValueError("labels need at least two names with two texts each")
    inside = member == np.arange(len(names))[:, None]  # label text
    rest = (len(y) - counts)[:, None]
    apart = inside @ y / counts[:, None] - ~inside @ y / rest  # label neuron
    best = apart.argmax(0)
    pick = best, np.arange(len(best))
    columns = {"label": names[best], "difference": apart[pick], "auc": auc(y, inside)[pick]}
    return pd.DataFrame(columns, index=pd.Index([int(j) for j in neurons], name="neuron"))


def auc(
    values: Float[np.ndarray, "text neuron"], inside: Bool[np.ndarray, "*label text"]
) -> Float[np.ndarray, "*label neuron"]:
    """The area under the curve: the chance that a text inside has the larger value than one
    outside, equal ones counted half (the statistic of Mann and Whitney, over the number of pairs).
    `inside` is one mask or one a label. NaN where no text is inside, or every one.

    >>> values = circuit.summary(torch.stack([text.tokens for text in passages])).numpy()
    >>> domains = np.array([text.domain for text in passages])
    >>> cx.neurons.auc(values[:, [298, 973]], domains == "python").round(2)
    array([0.15, 1.  ])
    """
    count = inside.sum(-1, keepdims=True)
    above = inside @ stats.rankdata(values, axis=0) - count * (count + 1) / 2
    with np.errstate(invalid="ignore"):
        return above / (count * (inside.shape[-1] - count))
