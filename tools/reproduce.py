"""The published figures, held against a model: what stands behind `make reproduce`.

    python tools/reproduce.py --model gpt2       # what the chapters found: its edition's ledgers
    python tools/reproduce.py --page book/reproduction.md    # those of the book, as its page
    python tools/reproduce.py --kernels FILE     # writes the kernels of GPT-2 small for chapter 3

The chapters measure, `ctxbook.ledger` keeps what they found with their notebooks, and this
collects it: the notebooks of `book/` for `mini`, those of `_build/editions/` for another model.
What is published, by whom, and the bound within which it counts as met stand in
`ctxbook/data/published.toml`. Ends with 1 if the model is GPT-2 small and a figure is missed.

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
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import build_book
import files
import filling
import numpy as np
from command import command
from safetensors.torch import load_file

import ctxbook as cb
import ctxlib as cx

LEDGER = cb.LEDGER
WIDTH = 100
REAL = ["Qwen", "SmolLM2", "MiniLM"]
KERNELS = cb.DATA / "gpt2-kernels.npz"
N, C, HEADS = 500, 3.5, 12  # N as in the paper's Figure 2; C, a typical token norm, is the book's
NEAR = 0.05  # of the bound: a miss by no more is a near one; set before any miss was sized
BECAME = re.compile(  # in a table of conditions: met, or any other verdict
    r"<td>(?:[^<]*: )?(?:(True|yes|holds)|False|no|fails|undecided|untestable)</td>"
    r"|: (?:(met)|\*\*not met\*\*) \|"
)
HASHED = ("wpe.weight", "h.0.attn.c_attn.weight")
OUTCOMES = {  # of a claim that counts, the worst first, and what the page calls it
    "does not hold": "do not hold",
    "depends": "depend on the measure",
    "undecided": "are undecided",
    "other texts": "want more texts, or longer ones",
    "holds": "hold",
}
SUBJECTS = {  # the first published figure of each, as they stand in the file
    "folding_is_algebra": "keys and positions",
    "kernel_shapes": "kernels",
    "stable_heads": "denominators",
    "one_text": "calibration",
    "bag_length": "the circuit",
    "neurons_at_theta": "neurons",
    "deeper_positional": "deeper layers",
    "next_token_neurons": "look-ups and explanations",
    "universal_neurons": "other trainings and positions",
}
ASIDE = {  # why claims are not counted with the others, in the order of the page
    "of GPT-2 small's own kernels": "were tried on GPT-2 small itself",
    "of mini's twins": "were tried on twins of `mini`",
    "deciding little": "were tried by a test that decides little",
    "untestable here": "cannot be asked of this model",
    "decided by algebra": "could not come out otherwise",
}


@dataclass(frozen=True)
class Run:
    """What was found on one model: its ledgers, as `ctxbook.ledger` keeps them, and their
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
            if "cb.ledger(" in "".join(cell["source"]) and cell.get("outputs"):
                beside = [output.get("metadata", {}) for output in cell["outputs"]]
                kept = [metadata[LEDGER] for metadata in beside if LEDGER in metadata]
                if not kept:
                    raise ValueError(f"{file.name} shows a ledger without its data: {again}")
                ledgers[chapter.stem] = kept[0]
    if len({kept["first layer"] for kept in ledgers.values()}) != 1:
        what = "are of different models" if ledgers else "hold no ledger"
        raise ValueError(f"the notebooks of the edition of {name} {what}: {again}")
    rows = [row | {"in": c} for c, kept in ledgers.items() for row in kept["rows"]]
    rows.sort(key=lambda row: [*cb.published_figures()].index(row["id"]))
    run = Run(name, list(ledgers.values()), rows)
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
        row if cb.published(row["id"]).texts <= there else row | {"verdict": "other texts"}
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
        figure = cb.published(row["id"])
        line = f"{row['this run']}, {row['verdict'].upper()}. {figure.statement}; "
        why = figure.reason or "half a unit of the last digit printed"
        line += f"{row['claim']}; holds if {figure.condition} ({why}). {row['in']}."
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="    ")
    counts = Counter(row["verdict"] for row in run.rows)
    return "\n".join([*lines, ", ".join(f"{verdict} {k}" for verdict, k in counts.most_common())])


def page(run: Run) -> str:
    """What was found on a model as a page of the book: by subject, each with the worst first."""
    if not run.studied:  # the page has what is of real models in columns of its own
        run = replace(run, rows=[row for row in run.rows if row["in"] != "08_real_model"])
    real, beside = ([], []) if run.studied else (REAL, on_real_models(run))
    claims = by_claim(
        row | {"apart": apart(row), "missed": miss(row), "void": void(row)} for row in run.rows
    )
    counted = [claim for claim in claims if not claim[0]["apart"]]
    counted.sort(key=lambda claim: ([*OUTCOMES].index(kind(claim)), -max(map(miss, claim))))
    about: dict[str, list[Claim]] = {}
    for claim in counted:
        about.setdefault(subject(claim), []).append(claim)
    least = sorted(about.items(), key=lambda of: tally(of[1])["holds"] / len(of[1]))
    missed = [max(map(miss, claim)) for claim in counted if kind(claim) == "does not hold"]
    numbers = [kind(claim) for claim in counted if is_number(claim[0])]
    aside = {why: [claim for claim in claims if claim[0]["apart"] == why] for why in ASIDE}
    known = build_book.known_facts(build_book.home(run.model))
    filled = files.filled_in(
        "reproduction.md", fixed=fixed(run.model, known),
        run=run, real=real, beside=beside, published=cb.published, aside=aside,
        titles={"aside": ASIDE, "outcomes": OUTCOMES}, about=least, kinds=tally(counted),
        tally=tally, figures=cb.published_figures().values(), plain=plain, came=came,
        short=short, miss=miss, kind=kind, near=sum(size <= NEAR for size in missed),
        far=sum(size > 1 for size in missed), limit=NEAR, judged=len(counted), tried=len(claims),
        numbers=len(numbers), numbers_held=numbers.count("holds"),
        kindly=sum("holds" in verdicts(claim) for claim in counted),
        our_word=sum(any(short(row["in"]) in {*"12345B"} for row in claim) for claim in counted),
        now={row["id"]: row for row in run.rows},
    )  # fmt: skip
    return filling.in_place(re.sub(r"\n{3,}", "\n\n", filled), known)


def fixed(model: str, known: filling.Known) -> list[dict[str, Any]]:
    """What pages fixed in advance (`conditions.toml`), with how many conditions there are and how
    many were met: facts of the page, or the first verdict of each line of its tables.
    """
    rows = tomllib.loads((files.TOOLS / "conditions.toml").read_text(encoding="utf-8"))["page"]
    for row in rows:
        facts = known.get(filling.page_of(row["chapter"]), {})
        came = [facts[name]["holds"] for name in row.get("met", ()) if name in facts]
        came += [not facts[name]["holds"] for name in row.get("not met", ()) if name in facts]
        told = row.get("told")
        if told and facts.get(told["fact"], {}).get("holds"):
            came += [k < told["met"] for k in range(told["fixed"])]
        notebook = build_book.home(model) / "book" / f"{row['chapter']}.ipynb"
        for cell in json.loads(notebook.read_text("utf-8"))["cells"] if notebook.exists() else ():
            lines = cell["source"] if cell["cell_type"] == "markdown" else []
            if re.search("ondition|fixed", str(cell["metadata"].get("mystnb"))):
                shown = [*chain(*(out["data"].get("text/html", ()) for out in cell["outputs"]))]
                lines = "".join(shown).split("<tr")
            came += [bool(found[1] or found[2]) for found in map(BECAME.search, lines) if found]
        row |= {"fixed": len(came), "met": sum(came)}
    return [row for row in rows if row["fixed"]]


Claim = list[dict[str, Any]]  # the rows that measure one published number, or one sentence


def by_claim(rows: Iterable[dict[str, Any]]) -> list[Claim]:
    """The rows, those of one claim together, in the order of the published figures."""
    claims: dict[tuple[str, str, str], Claim] = {}
    for row in rows:
        figure = cb.published(row["id"])
        said = figure.value or figure.quotation
        claims.setdefault((row["apart"], figure.source[:12], said), []).append(row)
    return list(claims.values())


def kind(claim: Claim) -> str:
    """What came out of a claim, where its rows agree."""
    found = verdicts(claim)
    return found.pop() if len(found) == 1 else "depends"


def verdicts(claim: Claim) -> set[str]:
    """What its measurements say, without those that are void."""
    return {came(row["verdict"]) for row in claim if not void(row)}


def void(row: dict[str, Any]) -> bool:
    """Whether the chapter says that a measurement tests nothing."""
    return "(void" in row.get("claim", "")


def is_number(row: dict[str, str]) -> bool:
    """Whether what is published is a number that GPT-2 small has, and no statement in words."""
    figure = cb.published(row["id"])
    return figure.about_gpt2 and bool(figure.value)


def subject(claim: Claim) -> str:
    """What a claim is about."""
    order = [*cb.published_figures()]
    return [of for id, of in SUBJECTS.items() if order.index(id) <= order.index(claim[0]["id"])][-1]


def tally(claims: list[Claim]) -> dict[str, int]:
    """How many claims came out in which way."""
    return {outcome: [*map(kind, claims)].count(outcome) for outcome in OUTCOMES}


def miss(row: dict[str, str]) -> float:
    """By how much a result misses its bound, as a share of the bound; 0 within it, or void.

    >>> miss({"id": "tv", "this run": "0.15 [0.12, 0.18]"})  # at most 0.075
    1.0
    """
    figure, here = cb.published(row["id"]), row["this run"].partition(" ")[0]
    if here == "–" or void(row) or figure.at_least <= float(here) <= figure.at_most:
        return 0.0
    bound = figure.at_least if float(here) < figure.at_least else figure.at_most
    return abs(float(here) - bound) / abs(bound) if bound else float("inf")


def came(verdict: str) -> str:
    """A verdict without the words that say of which model it is.

    >>> came("another model; holds here")
    'holds'
    """
    return re.sub(".*; | here$", "", verdict)


def on_real_models(run: Run) -> list[dict[str, Any]]:
    """Of the figures that were measured on real models, the model's outcome, and of each of these
    what was found, and its verdict.
    """
    lines: dict[str, Claim] = {}
    for row in run.rows:
        if cb.published(row["id"]).real:
            lines.setdefault(row["id"], []).append(row)
    found = {id: cb.on_real(cb.published(id).real).iloc[0] for id in lines}
    return [
        {"id": id, run.model: kind(rows)}
        | {name: (of, judged(id, of)) for name, of in found[id].items() if of}
        for id, rows in lines.items()
    ]


def judged(id: str, shown: str) -> str:
    """The verdict on a number of a real model as it is shown; none on a count of conditions.

    >>> judged("share_stable", "3 of 12"), judged("keywords_explain", "40% [28%, 52%]")
    ('does not hold', 'undecided')
    """
    if "conditions" in shown:  # the bound, one neuron, would be met by any count but none
        return ""
    here, *ends = (float(v) for v in re.findall(r"-?[\d.]+", shown))
    unit = 0.01 if "%" in shown else 1 / ends.pop() if " of " in shown else 1
    interval = (ends[0] * unit, ends[1] * unit) if ends else None
    return cb.published(id).verdict(here * unit, interval)


def short(chapter: str) -> str:
    """Its number or letter."""
    return chapter.partition("_")[0].lstrip("0")


def apart(row: dict[str, Any]) -> str:
    """Why a line is not counted with the others; nothing where it is."""
    marks = {"GPT-2 small:": "of GPT-2 small's own kernels", " twin": "of mini's twins"}
    other = next((why for mark, why in marks.items() if mark in row["claim"]), "")
    return other or cb.published(row["id"]).apart(row["verdict"])


def plain(text: str) -> str:
    """Without what Markdown would take for its own."""
    token = r"' \w+'"  # is code, or its quotation marks would turn
    return re.sub(token, r"`\g<0>`", re.sub(r"([|*_\[\]~$])", r"\\\1", text))


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
