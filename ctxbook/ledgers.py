"""The ledger at the end of a chapter: published claims beside what the run found."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from ctxbook.bounds import APART, Claim, published
from ctxbook.kept import evidence
from ctxlib import __version__
from ctxlib.models import real_models
from ctxlib.weights import LayerWeights, has_positions

#: How GPT-2 small (openai-community/gpt2) is known: `fingerprint` of its first layer, its layers,
#: and its vocabulary.
GPT2_SMALL = ("596801a75f568cf77e95654693a35a45b3a6fc61d19e10ae4c373cea7b38c9c5", 12, 50257)


def fingerprint(weights: LayerWeights) -> str:
    """Return a fingerprint of a layer: the SHA-256 of its shape and of the norms, to two decimals,
    of every position embedding and of every head's matrices and biases, folded and centred. Two
    decimals allow for the rounding of different ways of folding.

    >>> cb.fingerprint(weights) == cb.fingerprint(cx.LayerWeights.of(model, layer=1))
    False
    """
    heads = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V")
    norms = [weights.W_pos.double().norm(dim=-1)]
    norms += [getattr(weights, name).double().flatten(1).norm(dim=-1) for name in heads]
    digits = " ".join(f"{v:.2f}" for v in torch.cat(norms).tolist())
    shape = (weights.n_ctx, weights.d_model, weights.n_heads)
    return hashlib.sha256(f"{shape} {digits}".encode()).hexdigest()


def known_by(model: Any) -> tuple[str | None, int, int]:
    """Return what identifies a model: the `fingerprint` of its first layer (None without learned
    positions), its number of layers, and the size of its vocabulary.

    >>> cb.known_by(model)[1:] == (model.cfg.n_layers, model.cfg.d_vocab)
    True
    """
    first = fingerprint(LayerWeights.of(model, layer=0)) if has_positions(model) else None
    return first, model.cfg.n_layers, model.cfg.d_vocab


LEDGER = "application/vnd.ctxlib.ledger+json"  # what its data are called in a notebook
KEPT = ["id", "claim", "this run", "verdict"]  # of each row


class Ledger(pd.DataFrame):
    """A table whose `attrs` a notebook keeps beside what it shows, as metadata of that output. On a
    page the lines that could come out either way stand first; those that algebra decides, that
    decide little, and that this model cannot be asked, are folded below.
    """

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {LEDGER: self.attrs}

    def _repr_html_(self) -> str:
        ids = [self.attrs["rows"][line - 1]["id"] for line in self.index]
        why = [published(id).apart(v) for id, v in zip(ids, self["verdict"], strict=True)]
        aside = np.array(why, dtype=bool)
        if not aside.any():
            return super()._repr_html_()
        shown, folded = (pd.DataFrame(self.loc[of])._repr_html_() for of in (~aside, aside))
        words = ", ".join(f"{why.count(kind)} {kind}" for kind in APART if kind in why)
        fold = f"<details><summary>{words}</summary>{folded}</details>"
        return fold if aside.all() else shown + fold


def ledger(model: Any, *claims: Claim) -> pd.DataFrame:
    """One row a claim: what was measured, what is published, this run, what would count as
    holding, verdict.

    A figure that GPT-2 small alone can bear out is judged on GPT-2 small only; on another model
    the verdict says that it is one, and whether the same holds there. The same rows lie in
    `attrs`, under the figures' ids and with where they come from: a notebook keeps them, unseen,
    and `make reproduce` collects them.

    >>> claim = cb.Claim("heads_add", "sum of heads less output", 0.0)
    >>> table = cb.ledger(model, claim)
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


def over(
    values: ArrayLike,
    chosen: Sequence[int] | Sequence[bool],
    summary: Callable[[np.ndarray], float],
) -> float:
    """Return a summary of a number over the chosen heads, given by index or by True and False; NaN
    if none is chosen, so that a claim about them is untestable.

    >>> cb.over([1.0, 2.0, 6.0], [1, 2], max), cb.over([1.0, 2.0, 6.0], [], max)
    (6.0, nan)
    """
    picked = np.asarray(values)[np.asarray(chosen, dtype=None if len(chosen) else int)]
    return float(summary(picked)) if len(picked) else math.nan


def on_real(*lines: str) -> pd.DataFrame:
    """Return kept lines about real models, from chapters 8 and 9 and appendix F, for chapters that
    ask the same question. Raises KeyError for a line that is not kept.

    >>> cb.on_real("TV").loc["TV", "GPT-2 small, published"]
    '~0.05'
    """
    kept = json.loads(evidence("rows.json").read_text(encoding="utf-8"))["lines"]
    known = {line: row for of_page in kept.values() for line, row in of_page.items()}
    return pd.DataFrame([known[line] for line in lines], index=list(lines)).fillna("")


def keep_rows(chapter: str, table: pd.DataFrame) -> None:
    """Keep a chapter's lines about real models and their weights' sums, for `make evidence`."""
    file = evidence("rows.json")
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"lines": {}}
    lines = {line: {k: v for k, v in row.items() if v} for line, row in table.T.items()}
    kept["lines"] = kept["lines"] | {chapter: lines}
    files = {name: [*model["files"].values()] for name, model in real_models().items()}
    file.write_text(json.dumps(kept | {"sha256": files}, indent=1) + "\n", encoding="utf-8")
