"""How good a circuit is: correlation, unexplained variance, and what each approximation costs
(Gibson 2025, section on evaluation; chapter 8).

    FVU = sum (approx - truth)^2 / sum (truth - mean truth)^2
        = offset^2 + (spread - r)^2 + (1 - r^2)

offset is the mean error and spread the standard deviation of the approximation, both in standard
deviations of the truth: three ways of being wrong that add up.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor

from ctxlib.circuit import (
    ContextualCircuit,
    SelfNormalisedCircuit,
    check_neurons,
    resid_mid,
    seen_tokens,
    shared_kernel,
    stream,
    true_contribution,
    true_outputs,
)
from ctxlib.keys import positional_keys
from ctxlib.texts import AnyText, Reading, Stream, batches
from ctxlib.weights import LayerWeights, layer_norm, layer_norm_scale

Circuit = ContextualCircuit | SelfNormalisedCircuit
ROUNDING = 1e-13  # of numbers and their means, relative to them, in float64
LOST = 3  # how often a batch is sent out again after a cluster lost it

# ---------------------------------------------------------------- r and FVU from running sums


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, means and centred products of an approximation and a truth, one number a neuron, in
    float64: all that r and FVU need. Adding two joins their texts (Chan's formula), so the texts
    themselves need not be kept.

    >>> truth = torch.tensor([[0.0], [1.0], [2.0], [5.0]])
    >>> guess = truth / 2
    >>> parts = cx.Moments.of(guess[:2], truth[:2]) + cx.Moments.of(guess[2:], truth[2:])
    >>> whole = cx.Moments.of(guess, truth)
    >>> whole.count, torch.allclose(whole.at, parts.at)
    (tensor(4), True)
    """

    count: Int[Tensor, ""]
    mean_a: Float[Tensor, " neuron"]
    mean_t: Float[Tensor, " neuron"]
    aa: Float[Tensor, " neuron"]
    tt: Float[Tensor, " neuron"]
    at: Float[Tensor, " neuron"]

    @classmethod
    def of(
        cls, approx: Float[Tensor, "text neuron"], truth: Float[Tensor, "text neuron"]
    ) -> Moments:
        """The moments of some texts; those of more texts are added to them.

        >>> truth = torch.tensor([[0.0], [1.0], [2.0]])
        >>> cx.Moments.of(truth / 2, truth).mean_t
        tensor([1.], dtype=torch.float64)
        """
        a, t = approx.cpu().double(), truth.cpu().double()
        mean_a, mean_t = a.mean(0), t.mean(0)
        a, t = a - mean_a, t - mean_t
        count = torch.tensor(len(a))
        return cls(count, mean_a, mean_t, (a * a).sum(0), (t * t).sum(0), (a * t).sum(0))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = other.count.double() / count  # two integers would give a float32
        a, t = other.mean_a - self.mean_a, other.mean_t - self.mean_t
        between = self.count * share
        return Moments(
            count,
            self.mean_a + share * a,
            self.mean_t + share * t,
            self.aa + other.aa + between * a * a,
            self.tt + other.tt + between * t * t,
            self.at + other.at + between * a * t,
        )

    def table(self, neurons: Sequence[int]) -> pd.DataFrame:
        """One row a neuron: `r`, `fvu`, and its three parts `from offset`, `from spread`,
        `from shape`, then `offset` and `spread` themselves and the standard deviation `sd` of the
        truth. NaN where the truth does not vary; where only the approximation does not, r alone
        is NaN and counts as 0 in the parts.

        >>> truth = torch.tensor([[0.0], [1.0], [2.0]])
        >>> cx.Moments.of(0.8 * truth, truth).table([0])[["r", "fvu", "spread"]].round(2)
                  r  fvu  spread
        neuron
        0       1.0  0.1     0.8
        """
        varied_a, varied_t = self.varied(self.aa, self.mean_a), self.varied(self.tt, self.mean_t)
        sd = (self.tt / self.count).sqrt()
        r = torch.where(varied_a, self.at / (self.aa * self.tt).sqrt(), 0)
        offset = (self.mean_a - self.mean_t) / sd
        spread = torch.where(varied_a, (self.aa / self.tt).sqrt(), 0)
        parts = {"from offset": offset**2, "from spread": (spread - r) ** 2, "from shape": 1 - r**2}
        columns = {"r": torch.where(varied_a, r, torch.nan)}
        columns |= {"fvu": torch.stack(list(parts.values())).sum(0), **parts}
        columns |= {"offset": offset, "spread": spread}
        known = {k: torch.where(varied_t, v, torch.nan).numpy() for k, v in columns.items()}
        index = pd.Index(list(neurons), name="neuron")
        return pd.DataFrame({**known, "sd": torch.where(varied_t, sd, 0).numpy()}, index=index)

    def varied(
        self, squares: Float[Tensor, " neuron"], mean: Float[Tensor, " neuron"]
    ) -> Bool[Tensor, " neuron"]:
        """Where a quantity varies by more than the rounding of its own mean, or is not a number."""
        return ~(squares <= self.count * (ROUNDING * mean) ** 2)


def evaluate(
    circuit: Circuit,
    texts: Iterable[AnyText],
    neurons: Sequence[int] | None = None,
    own_token: bool = False,
    checkpoint: str | os.PathLike | None = None,
    client: Any = None,
) -> pd.DataFrame:
    """Hold a circuit's summaries against the truth on texts: one row a neuron, with `r`, `fvu` and
    what the error is made of (`Moments.table`); `.attrs["texts"]` says how many were read.

    Every text has `circuit.token` put in place of its own at n, as in calibration; `own_token`
    leaves it alone. All neurons by default. Texts are read in batches, so any iterable will do
    and memory does not grow with their number; a bar shows the progress.

    `checkpoint` names a file that keeps what was done: called again after a kill, with the same
    circuit and texts, the evaluation goes on where it stopped, and with more texts it adds them.
    Texts of a `cx.texts.stream` that are done are not even read again. `client`, a
    `dask.distributed.Client`, does the work on a cluster with the same result, a few batches at a
    time; what a lost worker held is computed again. Raises ValueError for fewer than two texts,
    for neurons that do not exist, for a checkpoint of another circuit or other texts, and as
    `true_contribution` does; what was done before an error stays in the checkpoint.

    >>> table = cx.evaluate(circuit, passages, neurons=[463, 449])
    >>> table[["r", "fvu"]].round(2)
               r   fvu
    neuron
    463     0.97  0.45
    449     0.98  0.64
    >>> better = cx.evaluate(circuit.self_normalised(), passages, neurons=[463, 449])
    >>> better[["r", "fvu"]].round(2)
              r  fvu
    neuron
    463     1.0  0.0
    449     1.0  0.0
    """
    weights = circuit.weights
    chosen = check_neurons(weights, range(weights.n_neurons) if neurons is None else neurons)
    book = Checkpoint(None if checkpoint is None else Path(checkpoint), circuit, chosen, own_token)
    work = Compare(without_tokenizer(circuit), tuple(chosen))
    token = None if own_token else circuit.token
    given = book.reading(texts) if isinstance(texts, Stream) else texts
    todo = book.unread(lambda part: batches(weights, part, circuit.n, token, "evaluation"), given)
    for moments, mark in on_cluster(client, work, todo) if client else here(work, todo):
        book.add(moments, mark)
    moments = enough(book.moments)
    table = moments.table(chosen)
    table.attrs["texts"] = int(moments.count)
    return table


@dataclass(frozen=True, eq=False)
class Compare:
    """One batch of texts: the circuit against the truth."""

    circuit: Circuit
    neurons: tuple[int, ...]

    def __call__(self, tokens: Int[Tensor, "text source"]) -> Moments:
        c = self.circuit
        with torch.inference_mode():
            truth = true_contribution(c.weights, tokens, c.heads, c.n)
            return Moments.of(c.summary(tokens)[:, self.neurons], truth[:, self.neurons])


# ---------------------------------------------------------------- here, or on a cluster


@dataclass(frozen=True)
class Mark:
    """How far the texts are done: a digest of all of them in order, that of all but the last, and
    where the last one begins, as JSON, if the texts can say it.
    """

    all: str = ""
    before: str = ""
    place: str = ""


Batch = tuple[Int[Tensor, "text source"], Mark]  # tokens, and how far the texts are with them


def here(work: Compare, todo: Iterable[Batch]) -> Iterator[tuple[Moments, Mark]]:
    """Every batch in turn, in this process."""
    for tokens, mark in todo:
        yield work(tokens), mark


def on_cluster(client: Any, work: Compare, todo: Iterable[Batch]) -> Iterator[tuple[Moments, Mark]]:
    """Every batch on a Dask cluster, a few ahead of what is asked for; results come in order, so
    that sums are rounded as they are here. A batch that the cluster lost is sent out again, with
    the circuit, since the worker that held that may be the one that died. Where the texts end in
    an error, what is on its way comes in first.
    """
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    ahead = 2 * max(1, sum(client.nthreads().values()))
    shared = client.scatter(work, broadcast=True, hash=False)
    flying: deque[tuple[Any, Batch]] = deque()

    def send(batch: Batch) -> tuple[Any, Batch]:
        return client.submit(run, shared, batch[0].numpy(), pure=False), batch

    def land() -> tuple[Moments, Mark]:
        nonlocal shared
        future, batch = flying.popleft()
        for attempt in range(LOST + 1):
            try:
                return future.result(), batch[1]
            except (KilledWorker, CancelledError, CommClosedError):
                if attempt == LOST:
                    raise
                shared = client.scatter(work, broadcast=True, hash=False)
                future, _ = send(batch)
        raise AssertionError  # the loop returns or raises

    trouble: list[Exception] = []
    for batch in until(trouble, todo):
        flying.append(send(batch))
        if len(flying) >= ahead:
            yield land()
    while flying:
        yield land()
    if trouble:
        raise trouble[0]


def until(trouble: list[Exception], todo: Iterable[Batch]) -> Iterator[Batch]:
    """The batches up to the first error, which is put into the list."""
    try:
        yield from todo
    except Exception as error:  # not lost: it is raised when all is home
        trouble.append(error)


def run(work: Compare, tokens: np.ndarray) -> Moments:
    """One batch, on a worker."""
    return work(torch.from_numpy(tokens))


def without_tokenizer(circuit: Circuit) -> Circuit:
    """The circuit as it travels to a worker, which sees ids only."""

    def bare(paper: ContextualCircuit) -> ContextualCircuit:
        return replace(paper, weights=replace(paper.weights, tokenizer=None))

    if isinstance(circuit, SelfNormalisedCircuit):
        return replace(circuit, circuit=bare(circuit.circuit))
    return bare(circuit)


class Checkpoint:
    """The sums over all texts so far, kept in a file if there is one."""

    def __init__(self, file: Path | None, circuit: Circuit, neurons: list[int], own_token: bool):
        self.file, self.mark = file, Mark()
        self.moments: Moments | None = None
        self.what = fingerprint(circuit, neurons, own_token) if file else ""
        if file and file.exists():
            self.read(file)

    def read(self, file: Path) -> None:
        try:
            held = load_file(file)
            words = {
                name: bytes(held.pop(name).tolist()).decode()
                for name in ("what", *(f.name for f in fields(Mark)))
            }
            what, mark, moments = words.pop("what"), Mark(**words), Moments(**held)
        except Exception as error:  # safetensors raises classes of its own
            raise ValueError(f"{file} is not a checkpoint of an evaluation: {error}") from error
        if what != self.what:
            raise ValueError(
                f"{file} belongs to another circuit, other neurons or another own_token: "
                "name another file, or delete it"
            )
        self.moments, self.mark = moments, mark

    @property
    def done(self) -> int:
        """How many texts are in the sums."""
        return 0 if self.moments is None else int(self.moments.count)

    def reading(self, texts: Stream) -> Reading:
        """The texts from the last one done on, if that was one of the same source; else all."""
        self.check_none_missing(self.done - len(texts))
        place = json.loads(self.mark.place or "null")
        return texts.reading(place if place and place["of"] == texts.identity else None)

    def unread(
        self,
        read: Callable[[Iterable[Any]], Iterator[Int[Tensor, "text source"]]],
        texts: Iterable[Any],
    ) -> Iterator[Batch]:
        """The batches that are not in the sums yet, each with how far the texts are with it; those
        that are must be the same as then. Texts that begin late begin with the last one done.
        """
        given = texts if isinstance(texts, Reading) else None
        left, digest = self.done, ""
        if given and given.given:
            ((last,),) = read(islice(given, 1))  # by itself: batches are cut where they were then
            left, digest = 0, link(self.mark.before, last)
            self.check_same(digest)
        for tokens in read(texts):
            skipped = min(left, len(tokens))
            for row in tokens:
                before, digest = digest, link(digest, row)
                left -= 1
                if left == 0:
                    self.check_same(digest)
            left = max(left, 0)
            if skipped < len(tokens):
                place = json.dumps(given.place) if given else ""
                yield tokens[skipped:], Mark(digest, before, place)
        self.check_none_missing(left)

    def check_same(self, digest: str) -> None:
        if digest != self.mark.all:
            raise ValueError(f"{self.file} was made with other texts: name another file")

    def check_none_missing(self, texts: int) -> None:
        if texts > 0:
            raise ValueError(
                f"{self.file} holds {texts} texts more than are given: name another file"
            )

    def add(self, moments: Moments, mark: Mark) -> None:
        self.moments = moments if self.moments is None else self.moments + moments
        self.mark = mark
        self.write()

    def write(self) -> None:
        """Write beside the old file, then put it in place: a kill leaves a whole one."""
        if self.file is None or self.moments is None:
            return
        tensors = {f.name: getattr(self.moments, f.name) for f in fields(Moments)}
        tensors |= {
            name: torch.tensor(list(text.encode()), dtype=torch.uint8)
            for name, text in {"what": self.what, **vars(self.mark)}.items()
        }
        beside = self.file.with_name(self.file.name + ".part")
        save_file(tensors, beside)
        beside.replace(self.file)


def link(digest: str, text: Int[Tensor, " source"]) -> str:
    """The digest of some texts and one more."""
    return hashlib.sha256(digest.encode() + text.numpy().tobytes()).hexdigest()


def fingerprint(circuit: Circuit, neurons: list[int], own_token: bool) -> str:
    """What a checkpoint belongs to, in 64 hexadecimal digits."""
    offsets = circuit.offsets if isinstance(circuit, SelfNormalisedCircuit) else None
    paper = circuit.circuit if isinstance(circuit, SelfNormalisedCircuit) else circuit
    weights = paper.weights
    held = [offsets, *(getattr(o, f.name) for o in (paper, weights) for f in fields(o))]
    digest = hashlib.sha256(repr((neurons, own_token, paper.heads)).encode())
    for item in held:
        if isinstance(item, Tensor):
            digest.update(item.cpu().contiguous().numpy().tobytes())
        elif isinstance(item, int | float):
            digest.update(repr(item).encode())
    return digest.hexdigest()


# ---------------------------------------------------------------- what each approximation costs

#: The six approximations of the paper's circuit, each with what it means.
APPROXIMATIONS = {
    "keys": "Equation 1 in place of the keys",
    "values": "values as if every source stood at n",
    "kernel": "one kernel for all heads",
    "denominators": "denominators of the calibration text",
    "token": "the circuit's token in place of x_n",
    "scale": "LayerNorm-2 scale of the calibration text",
}


def approximated(
    circuit: ContextualCircuit, tokens: Int[Tensor, "text pos"], made: Iterable[str]
) -> Float[Tensor, "text neuron"]:
    """What the circuit's heads add to each neuron at n, with only the approximations named in
    `made` (keys of `APPROXIMATIONS`) and everything else exact.

    With none this is `true_contribution`, with all of them the circuit's own summary of the text
    with its token at n. In between, a row of head h is `kernel_i content_h(x_i) / denom_h`:

    - keys: content from E[n, x_i], or else whatever the exact score holds beside the kernel;
    - kernel: the median of the heads' kernels, or each head's own;
    - denominators: those of the calibration text, or the sum of the row's own numerators;
    - token: the query of `circuit.token`, or of the text's own token, for all of the above;
      with it, `circuit.token` is also what stands at source n;
    - values: of x_i at position n, or where it stands;
    - scale: of the calibration text, or the text's own.

    Raises ValueError for an approximation that is not one of the six, and as `true_contribution`.

    >>> list(cx.APPROXIMATIONS)
    ['keys', 'values', 'kernel', 'denominators', 'token', 'scale']
    >>> exact = cx.approximated(circuit, tokens[None], made=())
    >>> truth = cx.true_contribution(weights, tokens[None], heads, circuit.n)
    >>> torch.allclose(exact, truth, atol=1e-3)
    True
    """
    made = set(made)
    if unknown := made - APPROXIMATIONS.keys():
        raise ValueError(f"no approximation called {unknown}; there are {list(APPROXIMATIONS)}")
    w, n = circuit.weights, circuit.n
    x = seen_tokens(w, tokens, n)
    added = approximated_output(circuit, x, made) @ w.mlp_input()[0]
    if "scale" in made:
        return added / circuit.scale
    return added / layer_norm_scale(resid_mid(w, x, n, true_outputs(w, x, n)), w.eps)


def approximated_output(
    circuit: ContextualCircuit, x: Int[Tensor, "text source"], made: set[str]
) -> Float[Tensor, "text d_model"]:
    """What the circuit's heads write at n, with the approximations in `made`."""
    w, n, heads = circuit.weights, circuit.n, list(circuit.heads)
    if "token" in made:
        x = torch.cat([x[:, :-1], torch.full_like(x[:, -1:], circuit.token)], dim=1)

    q = layer_norm(w.embeddings()[x[:, n]] + w.W_pos[n], w.eps)
    q = einsum(q, w.W_Q[heads], "text d_model, head d_model d_head -> text head d_head")
    q = (q + w.b_Q[heads]) / w.attn_scale
    where = positional_keys(w, n, circuit.C)[heads]
    positional = einsum(q, where, "text head d_head, head source d_head -> text head source")
    kernels = positional.log_softmax(-1)  # rows are products: in logarithms nothing underflows

    def content(x: Int[Tensor, "text source"]) -> Float[Tensor, "text head source"]:
        if "keys" in made:
            return asked(w, heads, q, layer_norm(w.embeddings()[x] + w.W_pos[n], w.eps))
        return asked(w, heads, q, layer_norm(stream(w, x, n), w.eps)) - positional

    said = content(x)
    numerators = kernels + said
    if "denominators" in made:
        # the calibration text, with the same token at n and the same query
        calibration = (kernels + content(circuit.calibration[None]))[..., :-1]
        denominators = torch.logaddexp(
            calibration.logsumexp(-1, keepdim=True), numerators[..., -1:]
        )
    if "kernel" in made:
        shared = shared_kernel(rearrange(kernels.exp(), "text head source -> head text source"))
        numerators = shared.log()[:, None] + said
    if "denominators" not in made:
        denominators = numerators.logsumexp(-1, keepdim=True)
    rows = (numerators - denominators).exp()

    at = w.embeddings()[x] + (w.W_pos[n] if "values" in made else w.W_pos[: n + 1])
    seen = rows @ layer_norm(at, w.eps)  # text head d_model
    z = einsum(seen, w.W_V[heads], "text head d_model, head d_model d_head -> text head d_head")
    z = z + rows.sum(-1, keepdim=True) * w.b_V[heads]
    return einsum(z, w.W_O[heads], "text head d_head, head d_head d_model -> text d_model")


def asked(
    weights: LayerWeights,
    heads: list[int],
    q: Float[Tensor, "text head d_head"],
    x: Float[Tensor, "text source d_model"],
) -> Float[Tensor, "text head source"]:
    """`q . x W_K`, the query first: no key is formed."""
    query = einsum(
        q, weights.W_K[heads], "text head d_head, head d_model d_head -> text head d_model"
    )
    return einsum(query, x, "text head d_model, text source d_model -> text head source")


def error_budget(
    circuit: ContextualCircuit,
    texts: Iterable[AnyText],
    neurons: Sequence[int] | None = None,
    own_token: bool = False,
) -> pd.DataFrame:
    """What each approximation of the circuit costs: one row a set of approximations, medians over
    neurons of `r`, `fvu` and its three parts.

    First none and all; then all but one ("without"), which shows what mending it alone would
    gain; then one alone ("only"), which shows what it costs when everything else is exact.
    `own_token` as in `evaluate`; without it there is no approximation of the token. With it,
    "all" has the circuit's token at source n too, where a summary keeps the text's own. Errors as
    there.

    >>> budget = cx.error_budget(circuit, passages[::6], neurons=[463, 449])
    >>> budget["fvu"]["without"].round(2)
    approximation
    keys            0.46
    values          0.21
    kernel          0.50
    denominators    0.40
    scale           0.41
    Name: fvu, dtype: float64
    """
    weights = circuit.weights
    chosen = check_neurons(weights, range(weights.n_neurons) if neurons is None else neurons)
    W_in = weights.mlp_input()[0][:, chosen]
    names = [name for name in APPROXIMATIONS if own_token or name != "token"]
    rows: dict[tuple[str, str], set[str]] = {("none", ""): set(), ("all", ""): set(names)}
    rows |= {("without", name): set(names) - {name} for name in names}
    rows |= {("only", name): {name} for name in names}
    sums: dict[tuple[str, str], Moments] = {}
    token = None if own_token else circuit.token
    for batch in batches(weights, texts, circuit.n, token, "error budget"):
        outputs = true_outputs(weights, batch, circuit.n)
        own = layer_norm_scale(resid_mid(weights, batch, circuit.n, outputs), weights.eps)
        truth = outputs[:, list(circuit.heads)].sum(1) @ W_in / own
        for row, made in rows.items():
            s = circuit.scale if "scale" in made else own
            new = Moments.of(approximated_output(circuit, batch, made) @ W_in / s, truth)
            sums[row] = sums[row] + new if row in sums else new
    columns = ["r", "fvu", "from offset", "from spread", "from shape"]
    medians = [enough(sums.get(row)).table(chosen)[columns].median() for row in rows]
    index = pd.MultiIndex.from_tuples(rows, names=["made", "approximation"])
    return pd.DataFrame(medians, index=index)


def enough(moments: Moments | None) -> Moments:
    """The moments, if they hold at least two texts."""
    if moments is None or moments.count < 2:
        raise ValueError("r needs at least two texts")
    return moments
