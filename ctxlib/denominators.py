"""Softmax denominators: what the content of a text does to a head's normalisation, and why it
does so little (paper, Figures 3 and 4; chapters 4 and 5).

    a_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

A denominator is a mean of `content` over the text, weighted by the head's kernel. Three questions,
in order: what it is, how far it should stray from its expectation, and what follows for the choice
of heads and of a calibration text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import pandas as pd
import torch
from einops import einsum, rearrange, reduce
from jaxtyping import Float, Int
from scipy.cluster import hierarchy
from torch import Tensor

from ctxlib.destination import Destination, asked_by, check_heads, families
from ctxlib.split import BROAD, content_scores, destination_query, positional_scores
from ctxlib.texts import AnyText, Text, batches
from ctxlib.weights import LayerWeights

STEADY = 0.3  #: a relative standard deviation over texts below this: the denominator holds still

# ---------------------------------------------------------------- what a denominator is


def softmax_denominators(
    place: LayerWeights | Destination,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
    C: float | None = None,
) -> Float[Tensor, "text head"]:
    """`denom_h = sum_i pos_{n,i} content_n(x_i)` of every text, with x_n replaced by `token`.

    `place` is a destination, or weights with n (by default `n_ctx // 2`, where the paper
    calibrates), token and C. Texts are read in batches, so any iterable will do, and of each no
    more is kept than a number for each head; a bar shows the progress of what takes longer than a
    second. The unit is arbitrary, one for each head: only ratios between texts mean anything.
    Raises ValueError for a text with fewer than n tokens, for no text at all, for ids outside the
    vocabulary, for a head whose denominators are beyond the range of the weights' precision, and
    as `positional_kernels` does.

    >>> denoms = cx.softmax_denominators(weights, passages)
    >>> denoms.shape
    torch.Size([72, 8])
    >>> (denoms.std(0) / denoms.mean(0)).round(decimals=2)
    tensor([0.1100, 0.6700, 0.5600, 0.2300, 0.1900, 0.4900, 0.2700, 0.2800])
    """
    at = asked_by(place, n, token, C)
    return torch.cat(some([at.denominators(x) for x in at.read(texts, "denominators")]))


def exact_denominators(
    weights: LayerWeights,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
    C: float | None = None,
) -> Float[Tensor, "text head"]:
    """The same, from the model's own scores in place of Equation 1:
    `sum_i exp(q_n . (key_i - b_K)) / sum_i exp(q_n . P[n, i])`, scores divided by `attn_scale`.

    In the unit of `softmax_denominators`, so that the two can be compared text by text. Errors as
    there.

    >>> split = cx.softmax_denominators(weights, passages[:4])[:, heads]
    >>> exact = cx.exact_denominators(weights, passages[:4])[:, heads]
    >>> (split / exact).round(decimals=2)
    tensor([[0.9900, 0.9800],
            [0.9400, 0.9700],
            [0.9400, 0.9600],
            [0.9800, 0.9700]])
    """
    n = destination(weights, n)
    unit = positional_scores(weights, n, token, C).logsumexp(-1)
    q = destination_query(weights, n, token) / weights.attn_scale  # the same in every text
    parts = []
    for batch in batches(weights, texts, n, token, "denominators"):
        rows = []
        for tokens in batch:
            keys = weights.keys(tokens) - weights.b_K[:, None]
            own = einsum(q, keys, "head d_head, head source d_head -> head source")
            rows.append((own.logsumexp(-1) - unit).exp())
        parts.append(torch.stack(rows))
    return torch.cat(some(parts))


def content_values(
    weights: LayerWeights,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
) -> Float[Tensor, "head text source"]:
    """`content_n(x_i)` of every source of every text, x_n replaced by `token`: what the random
    model of chapter 4 draws. All of it is kept, so a thousand texts are enough. Errors as in
    `softmax_denominators`.

    >>> cx.content_values(weights, passages[:4], n=256).shape
    torch.Size([8, 4, 257])
    """
    parts = list(content_batches(weights, texts, destination(weights, n), token))
    return torch.cat(some(parts), dim=1)


# ---------------------------------------------------------------- how far it should stray


def iid_variance(
    variance: Float[Tensor, "*head"], kernel: Float[Tensor, "*head source"]
) -> Float[Tensor, "*head"]:
    """`Var sum_i pos_i X_i = sigma^2 sum_i pos_i^2` for independent X_i of one variance.

    >>> cx.iid_variance(torch.tensor(8.0), torch.full((4,), 0.25))
    tensor(2.)
    """
    return variance * kernel.square().sum(-1)


def autocovariance(
    values: Float[Tensor, "*head text source"],
) -> Float[Tensor, "*head lag"]:
    """`gamma(k) = mean of (X_i - mu)(X_{i+k} - mu)` over all pairs of all texts, mu the mean of
    all values; lags 0 to the last.

    Lag 0 is the variance. Where texts differ in their mean, gamma does not fall to zero but to
    the variance of those means. By Fourier transform, padded so that no pair wraps around.

    >>> cx.autocovariance(torch.tensor([[1.0, -1.0, 1.0, -1.0]])).round(decimals=3)
    tensor([ 1., -1.,  1., -1.])
    """
    length = values.shape[-1]
    centred = values - values.mean((-2, -1), keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * length).abs().square().mean(-2)
    pairs = torch.arange(length, 0, -1, dtype=values.dtype, device=values.device)
    return torch.fft.irfft(spectrum, n=2 * length)[..., :length] / pairs


def correlated_variance(
    gamma: Float[Tensor, "*head lag"], kernel: Float[Tensor, "*head source"]
) -> Float[Tensor, "*head"]:
    """`Var sum_i pos_i X_i = sum_{i,k} pos_i pos_k gamma(|i - k|)` for a stationary process.

    With white noise this is `iid_variance`; with a constant gamma, gamma times the square of the
    kernel's sum. Raises ValueError for fewer lags than the kernel has sources.

    >>> kernel = torch.full((4,), 0.25)
    >>> cx.correlated_variance(torch.tensor([8.0, 0.0, 0.0, 0.0]), kernel)
    tensor(2.)
    >>> cx.correlated_variance(torch.full((4,), 8.0), kernel)
    tensor(8.)
    """
    length = kernel.shape[-1]
    if gamma.shape[-1] < length:
        raise ValueError(f"{gamma.shape[-1]} lags for a kernel of {length} sources: give as many")
    overlap = torch.fft.irfft(torch.fft.rfft(kernel, n=2 * length).abs().square(), n=2 * length)
    weight = 2 * overlap[..., :length]  # both orders of a pair ...
    weight[..., 0] /= 2  # ... and i = k once
    return (weight * gamma[..., :length]).sum(-1)


def variance_account(
    values: Float[Tensor, "head text source"], kernels: Float[Tensor, "head source"]
) -> pd.DataFrame:
    """The variance of the denominators over texts, term by term: one row a head.

    `values` as from `content_values`, `kernels` at the same destination. With tau^2 the level
    that the autocovariance keeps at lags beyond half of the text, the stationary model gives

        independent   (gamma(0) - tau^2) sum_i pos_i^2
        neighbours    sum_{i != k} pos_i pos_k (gamma(|i - k|) - tau^2)
        topic         tau^2 (sum_i pos_i)^2

    which add up to "model"; "measured" is the variance of the denominators themselves. Position 0
    (BOS) and the destination are the same in every text and count in none of them. All five are
    relative to the squared mean of the denominator. Raises ValueError for fewer than two texts and
    for fewer than two sources between BOS and the destination.

    >>> values = cx.content_values(weights, passages, n=256)
    >>> kernels = cx.positional_kernels(weights, n=256)
    >>> cx.variance_account(values, kernels).loc[heads].round(3)
          independent  neighbours  topic  model  measured
    head
    3           0.036       0.003  0.003  0.041     0.052
    4           0.010       0.003  0.023  0.036     0.035
    """
    if values.shape[1] < 2 or values.shape[2] < 4:
        raise ValueError(
            f"{values.shape[1]} texts of {values.shape[2]} sources: "
            "a variance over texts needs at least two texts, and n at least 3"
        )
    denoms = einsum(values, kernels, "head text source, head source -> head text")
    inner, kernel = values[..., 1:-1], kernels[..., 1:-1]
    gamma = autocovariance(inner)
    lags = torch.arange(gamma.shape[-1], device=gamma.device)
    late = lags >= len(lags) // 2
    pairs = (len(lags) - lags)[late].to(gamma.dtype)
    topic = (gamma[:, late] * pairs).sum(-1) / pairs.sum()
    mean = denoms.mean(-1)
    independent = iid_variance(gamma[:, 0] - topic, kernel)
    model = correlated_variance(gamma, kernel)
    shared = topic * kernel.sum(-1) ** 2
    columns = {
        "independent": independent,
        "neighbours": model - independent - shared,
        "topic": shared,
        "model": model,
        "measured": denoms.var(-1),
    }
    table = pd.DataFrame({name: (v / mean**2).tolist() for name, v in columns.items()})
    table.index.name = "head"
    return table


def between_and_within(
    values: Float[Tensor, "text head"], labels: Sequence[Hashable]
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """The law of total variance: the variance of the label's means, and the mean of the variances
    inside the labels, both weighted by the number of texts; they add up to the variance of all.

    >>> cx.between_and_within(torch.tensor([[0.0], [2.0], [4.0], [6.0]]), ["a", "a", "b", "b"])
    (tensor([4.]), tensor([1.]))
    """
    codes, names = numbered(labels, len(values))
    groups = [values[codes == code] for code in range(len(names))]
    texts = values.new_tensor([len(g) for g in groups])
    means = torch.stack([g.mean(0) for g in groups])
    variances = torch.stack([g.var(0, correction=0) for g in groups])
    between = texts @ (means - values.mean(0)) ** 2 / len(values)
    return between, texts @ variances / len(values)


# ---------------------------------------------------------------- how far it can stray


def chebyshev(
    variance: Float[Tensor, "*head"],
    kernel: Float[Tensor, "*head source"],
    epsilon: Float[Tensor, "*head"],
) -> Float[Tensor, "*head"]:
    """`P(|sum_i pos_i X_i - mu| >= epsilon) <= sigma^2 sum_i pos_i^2 / epsilon^2`,
    for independent X_i of variance sigma^2; at most 1.

    >>> kernel = torch.full((100,), 0.01)
    >>> cx.chebyshev(torch.tensor(1.0), kernel, epsilon=torch.tensor(0.5))
    tensor(0.0400)
    """
    return (iid_variance(variance, kernel) / epsilon**2).clamp(max=1)


def hoeffding(
    width: Float[Tensor, "*head"],
    kernel: Float[Tensor, "*head source"],
    epsilon: Float[Tensor, "*head"],
) -> Float[Tensor, "*head"]:
    """`P(|sum_i pos_i X_i - mu| >= epsilon) <= 2 exp(-2 epsilon^2 / (width^2 sum_i pos_i^2))`,
    for independent X_i in an interval of this width; at most 1.

    >>> kernel = torch.full((100,), 0.01)
    >>> cx.hoeffding(torch.tensor(1.0), kernel, epsilon=torch.tensor(0.15))
    tensor(0.0222)
    """
    exponent = 2 * epsilon**2 / (width**2 * kernel.square().sum(-1))
    return (2 * (-exponent).exp()).clamp(max=1)


def bernstein(
    variance: Float[Tensor, "*head"],
    largest: Float[Tensor, "*head"],
    kernel: Float[Tensor, "*head source"],
    epsilon: Float[Tensor, "*head"],
) -> Float[Tensor, "*head"]:
    """`P(|sum_i pos_i X_i - mu| >= epsilon)
    <= 2 exp(-epsilon^2 / (2 sigma^2 sum_i pos_i^2 + 2/3 max_i pos_i largest epsilon))`,
    for independent X_i of variance sigma^2 with `|X_i - mu| <= largest`; at most 1.

    >>> kernel = torch.full((100,), 0.01)
    >>> cx.bernstein(torch.tensor(0.1), torch.tensor(1.0), kernel, epsilon=torch.tensor(0.15))
    tensor(0.0011)
    """
    steps = 2 / 3 * kernel.max(-1).values * largest * epsilon
    exponent = epsilon**2 / (2 * iid_variance(variance, kernel) + steps)
    return (2 * (-exponent).exp()).clamp(max=1)


# ---------------------------------------------------------------- which heads hold still


class StableHeads(list[int]):
    """A list of heads that carries the table which explains the choice, one row a head.

    >>> heads = cx.stable_heads(weights, passages)
    >>> heads, len(heads.table)
    ([3, 4], 8)
    """

    def __init__(self, heads: Iterable[int], table: pd.DataFrame):
        super().__init__(heads)
        self.table = table


def stable_heads(
    place: LayerWeights | Destination,
    texts: Iterable[AnyText],
    n: int | None = None,
    token: str | int = " the",
    broad: float = BROAD,
    steady: float = STEADY,
    copies: Float[Tensor, " head"] | None = None,
) -> StableHeads:
    """The heads whose denominators hold still: a kernel spread over more than `broad` effective
    tokens, and denominators whose standard deviation over `texts` is below `steady` times their
    mean. The table is in `.table` of what is returned.

    `place` is a destination, or weights with n (by default `n_ctx // 2`) and token; `copies` as in
    `families`. Raises ValueError when no head qualifies, for fewer than two texts, and as
    `softmax_denominators` does.

    >>> heads = cx.stable_heads(weights, passages)
    >>> heads
    [3, 4]
    >>> heads.table.loc[0, "why not"]
    'kernel over 1.8 tokens only'
    >>> cx.stable_heads(cx.FirstLayer.of(model, passages), passages)
    [3, 4]
    """
    at = asked_by(place, n, token)
    denoms = softmax_denominators(at, texts)
    if len(denoms) < 2:
        raise ValueError("one text has no spread: give at least two")
    table = families(at, copies=copies).drop(columns="because")
    table["relative spread"] = (denoms.std(0) / denoms.mean(0)).tolist()
    reasons = []
    for spread, strays in zip(table["effective tokens"], table["relative spread"], strict=True):
        narrow = f"kernel over {spread:.1f} tokens only" if spread <= broad else ""
        restless = "" if strays < steady else f"denominator strays by {strays:.0%}"
        reasons.append("; ".join(filter(None, (narrow, restless))))
    table["stable"] = [not reason for reason in reasons]
    table["why not"] = reasons
    if not table["stable"].any():
        wide = table.loc[table["effective tokens"] > broad, "relative spread"]
        closest = f"; the steadiest of the {len(wide)} broad ones strays by {wide.min():.0%}"
        raise ValueError(
            f"no head has a kernel over more than {broad:g} tokens and a denominator that strays "
            f"by less than {steady:.0%}{closest if len(wide) else ''}"
        )
    return StableHeads(table.index[table["stable"]].tolist(), table)


# ---------------------------------------------------------------- what a wrong one costs


def calibration_error(
    calibrated: Float[Tensor, "calibration head"], denoms: Float[Tensor, "text head"]
) -> Float[Tensor, "calibration text head"]:
    """`denom / calibrated - 1`: by what fraction a head's output comes out too large when it is
    divided by the denominator of a calibration text in place of the text's own.

    >>> calibrated, denoms = torch.tensor([[2.0]]), torch.tensor([[1.0], [3.0]])
    >>> cx.calibration_error(calibrated, denoms)
    tensor([[[-0.5000],
             [ 0.5000]]])
    """
    return rearrange(denoms, "text head -> 1 text head") / calibrated[:, None] - 1


def middle_text(
    place: LayerWeights | Destination,
    texts: Iterable[Text],
    heads: Sequence[int],
    n: int | None = None,
    token: str | int = " the",
) -> Text:
    """The text to calibrate on: the one whose log denominators lie nearest to their mean over the
    texts, on average over the heads (chapter 5). They are gone through twice: ValueError for an
    iterator, which can be only once. Other errors as in `softmax_denominators`.

    >>> cx.middle_text(weights, passages, heads).name
    'economics-4'
    """
    if isinstance(texts, Iterator):
        raise ValueError("texts that can be read only once: give a list or a cx.texts.stream")
    logs = softmax_denominators(place, texts, n, token)[:, check_heads(place, heads)].log()
    middle = int((logs - logs.mean(0)).abs().mean(1).argmin())
    return next(islice(texts, middle, None))


def cross_calibration(denoms: Float[Tensor, "text head"], labels: Sequence[str]) -> pd.DataFrame:
    """Calibrate on the row, test on the column: the mean absolute `calibration_error` over heads
    and pairs of different texts, label by label.

    Raises ValueError when there is no label for each text, and when a label has one text only,
    which could not be tested on its own label.

    >>> texts = [text for text in passages if text.domain in ("astronomy", "python")]
    >>> denoms = cx.softmax_denominators(weights, texts)[:, heads]
    >>> cx.cross_calibration(denoms, [text.domain for text in texts]).round(2)
               astronomy  python
    astronomy       0.21    0.53
    python          0.50    0.16
    """
    codes, names = numbered(labels, len(denoms))
    counts = codes.bincount()
    if counts.min() < 2:
        raise ValueError(f"label {names[counts.argmin()]!r} has one text: give each at least two")
    error = reduce(calibration_error(denoms, denoms).abs(), "row column head -> row column", "mean")
    member = torch.nn.functional.one_hot(codes).to(error)
    pairs = torch.outer(member.sum(0), member.sum(0)) - torch.diag(member.sum(0))
    table = (member.T @ error @ member / pairs).cpu().numpy()
    return pd.DataFrame(table, index=names, columns=names)


def cluster_texts(denoms: Float[Tensor, "text head"], clusters: int) -> Int[np.ndarray, " text"]:
    """Texts whose denominators are alike, by Ward's method on their logarithms, each head scaled
    to unit variance; clusters are numbered from 0 in the order in which they first appear.

    Raises ValueError for fewer texts than clusters and for fewer than one cluster.

    >>> denoms = torch.tensor([[1.0, 2.0], [1.1, 2.1], [9.0, 0.5], [8.0, 0.4]])
    >>> cx.cluster_texts(denoms, clusters=2).tolist()
    [0, 0, 1, 1]
    """
    if not 1 <= clusters <= len(denoms):
        raise ValueError(f"{clusters} clusters of {len(denoms)} texts: choose 1 to {len(denoms)}")
    log = denoms.cpu().double().log()
    spread = log.std(0, correction=0)
    points = ((log - log.mean(0)) / spread.where(spread > 0, 1)).numpy()
    if len(points) == 1:
        return np.zeros(1, dtype=int)
    labels = hierarchy.fcluster(hierarchy.ward(points), clusters, criterion="maxclust")
    return pd.factorize(labels)[0]


# ---------------------------------------------------------------- reading texts


def destination(weights: LayerWeights, n: int | None) -> int:
    return weights.n_ctx // 2 if n is None else n


def content_batches(
    weights: LayerWeights,
    texts: Iterable[AnyText],
    n: int,
    token: str | int,
) -> Iterator[Float[Tensor, "head text source"]]:
    """`content_n(x_i)` of the texts of each batch; the vocabulary is weighed once."""
    content = content_scores(weights, n, token).exp()
    for batch in batches(weights, texts, n, token, "denominators"):
        yield content[:, batch]


def numbered(labels: Sequence[Hashable], texts: int) -> tuple[Int[Tensor, " text"], list[Hashable]]:
    """Each text's label as a number, in the order in which labels first appear, and the labels."""
    if len(labels) != texts or not texts:
        raise ValueError(f"{len(labels)} labels for {texts} texts: give one for each")
    names = list(dict.fromkeys(labels))
    return torch.tensor([names.index(label) for label in labels]), names


def some(parts: list[Tensor]) -> list[Tensor]:
    """The parts, if there are any."""
    if not parts:
        raise ValueError("no texts: give at least one")
    return parts
