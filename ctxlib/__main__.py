"""One command from a model to its context-sensitive neurons: python -m ctxlib MODEL.

Prints the heads with their share of the variance, and writes the neurons that stand out, with their
tokens, labels and how well the circuit predicts them, and a page that explores them in any browser.
"""

from __future__ import annotations

import argparse
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ctxlib as cx
import ctxviews as cv
from ctxlib.studies import Study

READ = 257  # tokens of a text, BOS and the query token included
TEXTS = 500  # of the book's: labels of 22 domains
JUDGED = 128  # texts that r and FVU are computed on
LISTED = 100  # neurons at least
OWN = " self-normalised"
POOR = 0.5  # an FVU above which a circuit gets the scale wrong


def main(argv: list[str] | None = None) -> int:
    """Run the command. Errors that a user can mend are one line, and the exit code is 1."""
    parser = argparse.ArgumentParser("ctxlib", description=__doc__.split("\n")[0])
    parser.add_argument("model", help="mini, a folder, a GGUF file, a hub name, a stored layer")
    parser.add_argument("--texts", metavar="FOLDER", help=".txt files; subfolders are labels")
    parser.add_argument("--out", metavar="FOLDER", default=".", type=Path, help="by default here")
    options = parser.parse_args(argv)
    if isinstance(sys.stdout, TextIOWrapper):  # not every console has all letters
        sys.stdout.reconfigure(errors="replace")
    try:
        print(run(options.model, options.texts, options.out))
    except (ValueError, OSError) as error:
        print(f"ctxlib: {error}", file=sys.stderr)
        return 1
    return 0


def run(model: str, folder: str | None, out: Path) -> str:
    """Write `neurons.csv` and `explorer.html` to a folder; return the report."""
    out.mkdir(parents=True, exist_ok=True)
    study = build_study(model, folder)
    heads = study.head_table.assign(**{"variance share": study.head_variance_share.round(2)})
    found = neurons(study)
    found.to_csv(out / "neurons.csv", encoding="utf-8-sig")
    cv.page(study, out / "explorer.html", title=Path(model).name)
    return "\n\n".join(
        (
            str(study),
            heads.rename_axis("head").to_string(),
            f"calibrated on {study.calibration_text.name}; "
            f"{len(found)} of {study.fixed.n_neurons} neurons",
            display_table(found.head(10)).to_string(),
            verdict(found),
            f"{out / 'neurons.csv'}\n{out / 'explorer.html'}",
        )
    )


def build_study(model: str, folder: str | None) -> Study:
    """Return the study of a model's first layer, or of a stored one, on the book's texts or on the
    .txt files of a folder.
    """
    of: Any
    if Path(model).name.endswith((".safetensors", ".safetensors.zst")):
        of = cx.fix_query(model)
        most = of.length
    else:
        of = cx.load(model, layers=1)
        if not cx.adapter.upstream_layers(of, 0):  # parallel: the second MLP reads the first heads
            of = cx.load(model, layers=2)
        most = min(READ, of.cfg.n_ctx)
    reader = cx.texts.Reader.of(of, most)
    if folder is None:
        return cx.study(of, cx.texts.collection(reader, TEXTS), or_all=True)
    return cx.study(of, cx.texts.labeled(reader, folder), or_all=True)


def neurons(study: Study) -> pd.DataFrame:
    """Return the neurons that stand out by their weights, a hundred at least, with their label on
    the texts of half A and, if there is an exact layer, r and FVU on those of half B.
    """
    found = cx.find_neurons(study.circuit, at_least=LISTED)
    halves = [[t for t in study.texts if t.half == half] for half in "AB"]
    A, B = halves if len(halves[1]) > 1 else (study.texts[::2], study.texts)
    _, of = np.unique([t.domain for t in A], return_inverse=True)
    enough = [t for t, many in zip(A, np.bincount(of)[of] > 1, strict=True) if many]
    if len({t.domain for t in enough}) > 1:
        summaries = study.circuit.summary(study.fixed.prepare(enough))[:, found.index.tolist()]
        labels = cx.label_neurons(summaries, [t.domain for t in enough], found.index)
        found = found.join(labels[["label", "auc"]])
    if study.fixed.exact is not None:
        better = study.circuit.self_normalized()
        for circuit, suffix in ((study.circuit, ""), (better, OWN)):
            scores = cx.evaluate(circuit, B[:JUDGED], found.index)[["r", "fvu"]]
            found = found.join(scores.add_suffix(suffix))
    return found


def display_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the table that fit on a line."""
    words = [" ".join(str(token).strip() for token in row[:6]) for row in found["top tokens"]]
    columns = [name for name in ("top", "label", "r", "fvu") if name in found]
    return found[columns].round(2).assign(tokens=words)


def verdict(found: pd.DataFrame) -> str:
    """Return in a line how well the circuit predicts this model, and which circuit to trust."""
    if "fvu" not in found:
        return "a stored layer holds an approximation: there is nothing exact to compare it with"
    r, fvu, own_r, own_fvu = found[[c + s for s in ("", OWN) for c in ("r", "fvu")]].median()
    advice = "do not carry: trust the text's own" if fvu > POOR else "carry"
    return (
        f"median r {r:.3f} and FVU {fvu:.3f} with one page's denominators, {own_r:.3f} and "
        f"{own_fvu:.3f} with the text's own (self-normalised): one page's amounts {advice}"
    )


if __name__ == "__main__":
    sys.exit(main())
