"""What was published, what this run found, and whether it holds: the ledger at the end of a
chapter, whose bounds are those of `data/published.toml`, and the findings in its prose.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import os
import platform
import tomllib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.stats import DegenerateDataWarning, bootstrap

from ctxlib import __version__
from ctxlib.models import DATA, real_models
from ctxlib.texts.text import Text
from ctxlib.weights import LayerWeights, has_positions

#: How GPT-2 small (openai-community/gpt2) is known: `fingerprint` of its first layer, its layers,
#: and its vocabulary.
GPT2_SMALL = ("596801a75f568cf77e95654693a35a45b3a6fc61d19e10ae4c373cea7b38c9c5", 12, 50257)


def fingerprint(weights: LayerWeights) -> str:
    """Which layer this is, whatever it is called: sha256 of its shape and of the norms, to two
    decimals, of every position embedding and of every head's matrices and biases, folded and
    centred. Two decimals bear the rounding of different ways of folding.

    >>> cx.claims.fingerprint(weights) == cx.claims.fingerprint(cx.LayerWeights.of(model, layer=1))
    False
    """
    heads = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V")
    norms = [weights.W_pos.double().norm(dim=-1)]
    norms += [getattr(weights, name).double().flatten(1).norm(dim=-1) for name in heads]
    digits = " ".join(f"{v:.2f}" for v in torch.cat(norms).tolist())
    shape = (weights.n_ctx, weights.d_model, weights.n_heads)
    return hashlib.sha256(f"{shape} {digits}".encode()).hexdigest()


def known_by(model: Any) -> tuple[str | None, int, int]:
    """What tells a model from another: `fingerprint` of its first layer (None without learned
    positions), its layers, and its vocabulary.

    >>> cx.claims.known_by(model)[1:] == (model.cfg.n_layers, model.cfg.d_vocab)
    True
    """
    first = fingerprint(LayerWeights.of(model, layer=0)) if has_positions(model) else None
    return first, model.cfg.n_layers, model.cfg.d_vocab


def over(
    values: ArrayLike,
    chosen: Sequence[int] | Sequence[bool],
    summary: Callable[[np.ndarray], float],
) -> float:
    """A summary of a number over the chosen heads, by their indices or by True and False;
    NaN where there are none, so that a claim about them is untestable.

    >>> cx.claims.over([1.0, 2.0, 6.0], [1, 2], max), cx.claims.over([1.0, 2.0, 6.0], [], max)
    (6.0, nan)
    """
    picked = np.asarray(values)[np.asarray(chosen, dtype=None if len(chosen) else int)]
    return float(summary(picked)) if len(picked) else math.nan


def by_document(
    statistic: Callable[[np.ndarray], float],
    texts: Sequence[Text],
    draws: int = 999,
    unit: str = "document",
) -> tuple[float, float]:
    """The 95% interval of `statistic` when other documents had been read: documents are drawn with
    replacement, each with all of its texts (percentile bootstrap, Efron and Tibshirani 1993).
    `statistic` gets the indices of the texts drawn, with repeats, as an array. A text without a
    document counts as one of its own. The same draws every time. Where a draw gives a statistic
    that is not a number, the interval is not one either. `unit="domain"` draws whole domains.

    >>> texts = cx.texts.collection(weights, 100)
    >>> of_python = np.array([text.domain == "python" for text in texts])
    >>> low, high = cx.claims.by_document(lambda drawn: of_python[drawn].mean(), texts)
    >>> low < of_python.mean() < high
    np.True_
    """
    units = [getattr(text, unit) or text.name for text in texts]
    member = np.unique(units, return_inverse=True)[1]
    of_unit = [np.flatnonzero(member == u) for u in range(member.max() + 1)]

    def redrawn(chosen: np.ndarray) -> float:
        return float(statistic(np.concatenate([of_unit[u] for u in chosen])))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        drawn = bootstrap(
            (np.arange(len(of_unit)),), redrawn, n_resamples=draws,
            vectorized=False, method="percentile", random_state=0,
        )  # fmt: skip
    low, high = drawn.confidence_interval
    return float(low), float(high)


def widest(
    statistic: Callable[[np.ndarray], float], texts: Sequence[Text], draws: int = 999
) -> tuple[float, float, str]:
    """The wider of two 95% intervals, and what was drawn again for it: documents, or whole domains,
    where texts of one domain are alike in what is measured. A domain alone cannot be drawn again.

    >>> texts = cx.texts.collection(weights, 100)
    >>> of_python = np.array([text.domain == "python" for text in texts])
    >>> *_, unit = cx.claims.widest(lambda drawn: of_python[drawn].mean(), texts)
    >>> unit
    'domain'
    """
    units = ["document", "domain"] if len({text.domain for text in texts}) > 1 else ["document"]
    ends = [(*by_document(statistic, texts, draws, unit), unit) for unit in units]
    return max(ends, key=lambda interval: interval[1] - interval[0])


def listed(items: Iterable[object]) -> str:
    """Items as a sentence has them; "none" where there are none.

    >>> cx.claims.listed([0, 5, 7]), cx.claims.listed(["law"]), cx.claims.listed([])
    ('0, 5 and 7', 'law', 'none')
    """
    *most, last = [str(item) for item in items] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True)
class Published:
    """A published figure and the bound within which a run bears it out: a table of
    `data/published.toml`. Bounds are committed before the book's model is measured, and not moved.

    >>> figure = cx.claims.published("median_r")
    >>> figure.value, figure.condition, figure.statement
    ('0.9485', 'at least 0.94845', 'median r 0.9485 over 1000 texts (Gibson 2025)')
    """

    id: str
    quotation: str  # what is stated, in a few words, with the source's own number
    source: str
    value: str = ""  # that number as printed, if the source gives one
    at_least: float = -math.inf
    at_most: float = math.inf
    reason: str = ""  # why there, where the source sets no tolerance
    about_gpt2: bool = False  # GPT-2 small alone can bear it out
    texts: int = 0  # over how many texts of half a context or more it was found; 0: over none
    real: str = ""  # the line that real models have of it (`on_real`)
    algebra: bool = False  # decides it: no run could come out otherwise

    @property
    def statement(self) -> str:
        """What is published, and by whom.

        >>> cx.claims.published("kernels_alike").statement
        'kernels quite similar (Gibson 2025b)'
        """
        return f"{self.quotation} ({self.source})"

    @property
    def condition(self) -> str:
        """The bound in words.

        >>> cx.claims.published("bag_length").condition
        '33.3 to 75'
        """
        low, high = f"{self.at_least:g}", f"{self.at_most:g}"
        if self.at_least == -math.inf:
            return f"at most {high}"
        return f"at least {low}" if self.at_most == math.inf else f"{low} to {high}"

    def verdict(self, here: float, interval: tuple[float, float] | None = None) -> str:
        """One of *holds*, *does not hold*, *undecided*, and, for a number that a model does not
        have (NaN), *untestable*.

        Without an interval the number decides: it holds within the bound, its ends included. A
        figure is undecided exactly when its 95% interval has a bound strictly inside, that is
        low < bound < high for `at_least` or for `at_most`; of two bounds one is enough. An
        interval that only touches a bound decides, and so does one with an end that is NaN, which
        counts as none.

        >>> figure = cx.claims.published("loss_is_there")  # at least 0
        >>> [figure.verdict(0.05, ends) for ends in (None, (-0.01, 0.12), (0, 0.1))]
        ['holds', 'undecided', 'holds']
        """
        if math.isnan(here):
            return "untestable"
        if interval and any(interval[0] < b < interval[1] for b in (self.at_least, self.at_most)):
            return "undecided"
        return "holds" if self.at_least <= here <= self.at_most else "does not hold"


@cache
def figures() -> dict[str, Published]:
    """Every published figure by its id, as `data/published.toml` has them.

    >>> cx.claims.figures()["tv"].at_most
    0.075
    """
    with (DATA / "published.toml").open("rb") as file:
        return {id: Published(id, **facts) for id, facts in tomllib.load(file).items()}


def published(id: str) -> Published:
    """The published figure of this id; ValueError for one that is not there.

    >>> cx.claims.published("median_fvu").at_most
    0.14265
    """
    if id not in figures():
        raise ValueError(f"no published figure {id!r} in ctxlib/data/published.toml")
    return figures()[id]


@dataclass(frozen=True)
class Claim:
    """A published figure, named by its id, held against a number of this run.

    `measured` says what was measured, `here` is the number (NaN where a model has none), and
    `interval` its 95% interval by resampling documents. `on_gpt2`: it was measured on GPT-2 small
    itself, whatever the model of the run. Raises ValueError for an id that is not there and for an
    interval whose ends are exchanged.

    >>> claim = cx.claims.Claim("tv", "median TV of the stable heads", 0.06, (0.05, 0.08))
    >>> claim.shown, claim.verdict
    ('0.06 [0.05, 0.08]', 'undecided')
    """

    id: str
    measured: str
    here: float
    interval: tuple[float, float] | None = None
    digits: int = 2
    on_gpt2: bool = False

    def __post_init__(self) -> None:
        published(self.id)
        if self.interval and self.interval[0] > self.interval[1]:
            raise ValueError(f"interval {self.interval} of {self.id!r}: give its lower end first")

    @property
    def verdict(self) -> str:
        """What the bound says of the number and its interval; see `Published.verdict`.

        >>> cx.claims.Claim("tv", "median TV", float("nan")).verdict
        'untestable'
        """
        return published(self.id).verdict(self.here, self.interval)

    @property
    def shown(self) -> str:
        """The number and its interval, as the ledger shows them.

        >>> cx.claims.Claim("loss_is_there", "loss of P", 0.054, digits=3).shown
        '0.054'
        """
        if math.isnan(self.here):
            return "–"
        number, *ends = (
            f"{round(v, self.digits) + 0.0:.{self.digits}f}"  # no minus before a zero
            for v in (self.here, *(self.interval or ()))
        )
        return f"{number} [{', '.join(ends)}]" if ends and "nan" not in ends else number


LEDGER = "application/vnd.ctxlib.ledger+json"  # what its data are called in a notebook
KEPT = ["id", "claim", "this run", "verdict"]  # of each row


class Ledger(pd.DataFrame):
    """A table whose `attrs` a notebook keeps beside what it shows, as metadata of that output. On a
    page the lines that could come out either way stand first; those that algebra decides, and those
    that this model cannot be asked, are folded below.
    """

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {LEDGER: self.attrs}

    def _repr_html_(self) -> str:
        ids = [self.attrs["rows"][line - 1]["id"] for line in self.index]
        decided = np.array([published(id).algebra for id in ids], dtype=bool)
        aside = decided | self["verdict"].str.contains("untestable").to_numpy(dtype=bool)
        if not aside.any():
            return super()._repr_html_()
        shown, folded = (pd.DataFrame(self.loc[of])._repr_html_() for of in (~aside, aside))
        counts = {"decided by algebra": decided.sum(), "untestable here": (aside & ~decided).sum()}
        words = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        fold = f"<details><summary>{words}</summary>{folded}</details>"
        return fold if aside.all() else shown + fold


def ledger(model: Any, *claims: Claim) -> pd.DataFrame:
    """One row a claim: what was measured, what is published, this run, what would count as
    holding, verdict.

    A figure that GPT-2 small alone can bear out is judged on GPT-2 small only; on another model
    the verdict says that it is one, and whether the same holds there. The same rows lie in
    `attrs`, under the figures' ids and with where they come from: a notebook keeps them, unseen,
    and `make reproduce` collects them.

    >>> claim = cx.claims.Claim("heads_add", "sum of heads less output", 0.0)
    >>> table = cx.claims.ledger(model, claim)
    >>> table["verdict"].item(), table.attrs["rows"][0]["id"]
    ('holds', 'heads_add')
    """
    layer = known_by(model)
    studied = layer == GPT2_SMALL
    rows = [
        {
            "claim": c.measured,
            "published": figure.statement,
            "this run": c.shown,
            "holds if": figure.condition,
            "verdict": c.verdict
            if studied or c.on_gpt2 or not figure.about_gpt2
            else f"another model; {c.verdict} here",
        }
        for c, figure in ((c, published(c.id)) for c in claims)
    ]
    table = Ledger(rows, index=range(1, len(rows) + 1))
    texts = os.environ.get("CTX_TEXTS")
    table.attrs = {
        "first layer": layer[0],
        "is GPT-2 small": studied,
        "revision": getattr(model.original_model.config, "_commit_hash", None),
        "texts": Path(texts).name if texts else "held-out documents",
        "versions": {"python": platform.python_version(), "ctxlib": __version__}
        | {name: version(name).partition("+")[0] for name in ("numpy", "torch", "transformers")},
        "rows": table.assign(id=[c.id for c in claims])[KEPT].to_dict("records"),
    }
    return table


# ---------------------------------------------------------------- real models beside the book's

ROWS = DATA / "evidence" / "rows.json"


def on_real(*lines: str) -> pd.DataFrame:
    """What chapters 6 and 7 found of real models, line by line, as it is kept: the other chapters
    show the line that is about their question.

    Raises KeyError for a line that is not kept.

    >>> cx.claims.on_real("TV").loc["TV", "GPT-2 small, published"]
    '~0.05'
    """
    kept = json.loads(ROWS.read_text(encoding="utf-8"))["lines"]
    known = {line: row for of_page in kept.values() for line, row in of_page.items()}
    return pd.DataFrame([known[line] for line in lines], index=list(lines)).fillna("")


def keep_rows(chapter: str, table: pd.DataFrame) -> None:
    """Keep a chapter's lines about real models, and whose weights they are about; for
    `make evidence`.
    """
    kept = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.exists() else {"lines": {}}
    lines = {line: {k: v for k, v in row.items() if v} for line, row in table.T.items()}
    kept["lines"] = kept["lines"] | {chapter: lines}
    files = {name: [*model["files"].values()] for name, model in real_models().items()}
    ROWS.write_text(json.dumps(kept | {"sha256": files}, indent=1) + "\n", encoding="utf-8")


OTHERWISE = "Here it is otherwise: "  # how a finding begins that does not hold


@dataclass(frozen=True)
class Finding:
    """A sentence as a page shows it: prose, with nothing in it read as markup.

    >>> cx.claims.Finding("r < 1")._repr_html_()
    '<p>r &lt; 1</p>'
    """

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.text, quote=False)}</p>"


def finding(sentence: str, holds: bool, otherwise: str | None = None) -> Finding:
    """A sentence about this run, and whether it is true of it: `holds` is a condition that says
    what the words say. Where it fails, the page shows "Here it is otherwise: " and `otherwise`, or
    the sentence with its numbers; the build refuses a committed book that holds such a line.

    Raises ValueError where `holds` is no boolean.

    >>> cx.claims.finding("Two heads are stable.", holds=True)
    Two heads are stable.
    >>> cx.claims.finding("Two heads are stable.", holds=False, otherwise="none is stable.")
    Here it is otherwise: none is stable.
    """
    if not isinstance(holds, (bool, np.bool_)):
        raise ValueError(
            f"holds={holds!r} of the finding {sentence!r} is no boolean: give a condition, "
            "such as share > 0.9, and bool(...) of a tensor"
        )
    return Finding(sentence if holds else OTHERWISE + (otherwise or sentence))
