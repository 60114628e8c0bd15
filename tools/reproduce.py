"""The published figures, held against a model: what stands behind `make reproduce`.

    python tools/reproduce.py --model gpt2       # what the chapters found: its edition's ledgers
    python tools/reproduce.py --page book/reproduction.md    # those of the book, as its page
    python tools/reproduce.py --kernels FILE     # writes the kernels of GPT-2 small for chapter 3

The chapters measure, `ctxlib.claims.ledger` keeps what they found with their notebooks, and this
collects it: the notebooks of `book/` for `mini`, those of `_build/editions/` for another model.
What is published, by whom, and the bound within which it counts as met stand in
`ctxlib/data/published.toml`. Ends with 1 if the model is GPT-2 small and a figure is missed.

Kernels need position embeddings and the first attention alone. Chapter 3 has those of GPT-2 small
in a file of the package, a result, and no weight with them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import build_book
import files
import numpy as np
from command import command
from safetensors.torch import load_file

import ctxlib as cx

LEDGER = cx.claims.LEDGER
WIDTH = 100
REAL = ["Qwen", "SmolLM2", "MiniLM"]
KERNELS = cx.models.DATA / "gpt2-kernels.npz"
N, C, HEADS = 500, 3.5, 12  # N as in the paper's Figure 2; C, a typical token norm, is the book's
HASHED = ("wpe.weight", "h.0.attn.c_attn.weight")


@dataclass(frozen=True)
class Run:
    """What was found on one model: its ledgers, as `ctxlib.claims.ledger` keeps them, and their
    rows, each with its chapter, in the order of the published figures.
    """

    model: str
    ledgers: list[dict[str, Any]]
    rows: list[dict[str, str]]

    @property
    def studied(self) -> bool:
        """Whether it is GPT-2 small, by its weights."""
        return all(kept["is GPT-2 small"] for kept in self.ledgers)


# ---------------------------------------------------------------- the edition of a model


def collected(model: str) -> Run:
    """What the chapters found on a model. ValueError, with what to do, where a notebook is missing
    or older than its ledger's data, and where notebooks are of different models.
    """
    name = build_book.called(model)
    again = f"run `make execute MODEL={model}` first"
    ledgers = {}
    for chapter in build_book.named():
        file = build_book.home(model) / "book" / f"{chapter.stem}.ipynb"
        if not file.exists():
            raise ValueError(f"the edition of {name} has no {file.name}: {again}")
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if "cx.claims.ledger(" in "".join(cell["source"]) and cell.get("outputs"):
                beside = [output.get("metadata", {}) for output in cell["outputs"]]
                kept = [metadata[LEDGER] for metadata in beside if LEDGER in metadata]
                if not kept:
                    raise ValueError(f"{file.name} shows a ledger without its data: {again}")
                ledgers[chapter.stem] = kept[0]
    if len({kept["first layer"] for kept in ledgers.values()}) != 1:
        what = "are of different models" if ledgers else "hold no ledger"
        raise ValueError(f"the notebooks of the edition of {name} {what}: {again}")
    order = list(cx.claims.figures())
    rows = [row | {"in": c} for c, kept in ledgers.items() for row in kept["rows"]]
    run = Run(name, list(ledgers.values()), sorted(rows, key=lambda row: order.index(row["id"])))
    return judged_on_its_texts(run, model) if run.studied else run


def judged_on_its_texts(run: Run, model: str) -> Run:
    """The run without a verdict on what was published over more texts than there are, or over
    texts that fill half of the context, which these do not.
    """
    weights = cx.LayerWeights.of(cx.load(model))
    texts = cx.texts.collection(weights, 1000)
    shortest = min(len(text.tokens) for text in texts)
    there = len(texts) if shortest > weights.n_ctx // 2 else 0
    judged = [
        row if cx.claims.published(row["id"]).texts <= there else row | {"verdict": "other texts"}
        for row in run.rows
    ]
    return replace(run, rows=judged)


# ---------------------------------------------------------------- the kernels of GPT-2


def kernels_of(checkpoint: Path) -> dict[str, Any]:
    """The kernels of GPT-2 small (`head source`), the query being the one without a token, and
    where they come from: the checkpoint, or the part of it with `wpe` and the attention of layer 0.
    """
    state = {k.removeprefix("transformer."): v for k, v in load_file(checkpoint).items()}
    weights = cx.LayerWeights.from_state_dict(state, n_heads=HEADS)
    digest = hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in HASHED))
    return {
        "kernels": cx.positional_kernels(weights, N, token=None, C=C).numpy().astype(np.float16),
        "n": N,
        "C": C,
        "source": "openai-community/gpt2, layer 0: wpe, ln_1 and attn.c_attn; "
        "query without a token (ctxlib.positional_kernels, token=None)",
        "sha256": f"{digest.hexdigest()} of {', '.join(HASHED)}, float32",
    }


# ---------------------------------------------------------------- showing


def table(run: Run) -> str:
    """All rows on `WIDTH` columns, and how many have which verdict."""
    lines = []
    for row in run.rows:
        figure = cx.claims.published(row["id"])
        told = f"{row['this run']}, {row['verdict'].upper()}. {figure.statement}; "
        told += f"{row['claim']}; holds if {bound(figure)}. {row['in']}."
        lines += textwrap.wrap(told, WIDTH, subsequent_indent="    ")
    counts = Counter(row["verdict"] for row in run.rows)
    return "\n".join([*lines, ", ".join(f"{verdict} {k}" for verdict, k in counts.most_common())])


def bound(figure: cx.claims.Published) -> str:
    """The bound, and why it is there."""
    return f"{figure.condition} ({figure.reason or 'half a unit of the last digit printed'})"


def page(run: Run) -> str:
    """What was found on a model as a page of the book."""
    figures, published = cx.claims.figures().values(), cx.claims.published
    real = [] if run.studied else REAL
    if real:
        run = beside_real(run)
    return files.filled_in(
        "reproduction.md",
        run=run, real=real, figures=figures, published=published,
        plain=plain, count=count, apart=apart,
    )  # fmt: skip


def beside_real(run: Run) -> Run:
    """The run without the lines of the pages on real models, which stand in columns of their own
    beside the first line about the same figure.
    """
    seen, rows = set(), []
    for row in run.rows:
        if row["in"] == "06_real_model":
            continue
        line = "" if row["id"] in seen else cx.claims.published(row["id"]).real
        kept = cx.claims.on_real(line).loc[line] if line else {}
        rows.append(row | {name: kept.get(name, "") for name in REAL})
        seen.add(row["id"])
    return replace(run, rows=rows)


def apart(row: dict[str, Any]) -> str:
    """Why a line is not counted with the others; nothing where it is."""
    if row["claim"].startswith("GPT-2 small:"):
        return "of GPT-2 small's own kernels"
    return cx.claims.published(row["id"]).apart(row["verdict"])


def count(run: Run) -> str:
    """How many lines came out how, of those that could come out either way."""
    why = Counter(apart(row) for row in run.rows)
    told = (row["verdict"].removeprefix("another model; ") for row in run.rows if not apart(row))
    counts = Counter(verdict.removesuffix(" here") for verdict in told)
    stand = ", ".join(f"{number} {kind}" for kind, number in why.items() if kind)
    listed = ", ".join(f"{verdict} {number}" for verdict, number in counts.most_common())
    return f"Of {why.total()} lines these stand apart: {stand}. Of the other {why['']}: {listed}."


def plain(text: str) -> str:
    """Without what Markdown would take for its own."""
    text = re.sub(r"([|*_\[\]~$])", r"\\\1", text)
    return re.sub(r"' \w+'", r"`\g<0>`", text)  # a token is code, or its quotation marks would turn


@command("reproduce")
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="mini", help="a folder, or a name on the hub")
    parser.add_argument("--page", type=Path, help="write a page of the book, too")
    parser.add_argument("--kernels", type=Path, metavar="FILE", help="the checkpoint; nothing else")
    args = parser.parse_args(argv)
    if args.kernels:
        np.savez_compressed(KERNELS, **kernels_of(args.kernels))
        return 0
    run = collected(args.model)
    print(table(run))
    if args.page:
        files.replace(args.page, page(run))
    return int(run.studied and any(row["verdict"] == "does not hold" for row in run.rows))


if __name__ == "__main__":
    sys.exit(main())
