"""One command from a model to its neurons: python -m ctxlib MODEL.

Prints the heads and who speaks, and writes the neurons that stand out, with their tokens, labels
and how well the circuit predicts them, and a page that explores them all in any browser.
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
from ctxlib.studies import Study

READ = 257  # tokens of a text, BOS and the destination's included
TEXTS = 500  # of the book's: labels of 22 domains
JUDGED = 128  # texts that r and FVU are of
LISTED = 100  # neurons at least
OWN = " self-normalised"
SPREAD_OUT = 0.5  # an FVU above which the amounts of a circuit say little


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
        print(explored(options.model, options.texts, options.out))
    except (ValueError, OSError) as error:
        print(f"ctxlib: {error}", file=sys.stderr)
        return 1
    return 0


def explored(model: str, folder: str | None, out: Path) -> str:
    """Write `neurons.csv` and `explorer.html` to a folder; what there is to say, as text."""
    out.mkdir(parents=True, exist_ok=True)
    study = studied(model, folder)
    head_table = study.head_table.assign(share=study.head_variance_share.round(2))
    found = neurons(study)
    found.to_csv(out / "neurons.csv", encoding="utf-8-sig")
    cv.page(study, out / "explorer.html", title=Path(model).name)
    return "\n\n".join(
        (
            str(study),
            head_table.rename_axis("head").to_string(),
            f"calibrated on {study.calibration_text.name}; {len(found)} of {study.fixed.n_neurons} neurons",
            shown(found.head(10)).to_string(),
            trusted(found),
            f"{out / 'neurons.csv'}\n{out / 'explorer.html'}",
        )
    )


def studied(model: str, folder: str | None) -> Study:
    """The study of a model's first layer, or of a stored one, on the book's texts or one's own."""
    of: Any
    if Path(model).name.endswith((".safetensors", ".safetensors.zst")):
        of = cx.fix_query(model)
        most = of.length
    else:
        of = cx.load(model, layers=1)
        if not cx.adapter.upstream_layers(of, 0):  # side by side: the second MLP hears the first heads
            of = cx.load(model, layers=2)
        most = min(READ, of.cfg.n_ctx)
    reader = cx.texts.Reader.of(of, most)
    if folder is None:
        return cx.study(of, cx.texts.collection(reader, TEXTS), or_all=True)
    return cx.study(of, cx.texts.labeled(reader, folder), or_all=True)


def neurons(study: Study) -> pd.DataFrame:
    """The neurons that stand out by their weights, a hundred at least, with the label that texts of
    half A give them and, where there is a truth, r and FVU on those of half B.
    """
    found = cx.find_neurons(study.circuit, at_least=LISTED)
    halves = [[t for t in study.texts if t.half == half] for half in "AB"]
    A, B = halves if len(halves[1]) > 1 else (study.texts[::2], study.texts)
    _, of = np.unique([t.domain for t in A], return_inverse=True)
    enough = [t for t, many in zip(A, np.bincount(of)[of] > 1, strict=True) if many]
    if len({t.domain for t in enough}) > 1:
        sums = study.circuit.summary(study.fixed.prepare(enough))[:, found.index.tolist()]
        labels = cx.label_neurons(sums, [t.domain for t in enough], found.index)
        found = found.join(labels[["label", "auc"]])
    if study.fixed.exact is not None:
        better = study.circuit.self_normalized()
        for circuit, suffix in ((study.circuit, ""), (better, OWN)):
            scores = cx.evaluate(circuit, B[:JUDGED], found.index)[["r", "fvu"]]
            found = found.join(scores.add_suffix(suffix))
    return found


def shown(found: pd.DataFrame) -> pd.DataFrame:
    """What of the table fits on a line."""
    words = [" ".join(str(token).strip() for token in row[:6]) for row in found["top tokens"]]
    columns = [name for name in ("top", "label", "r", "fvu") if name in found]
    return found[columns].round(2).assign(tokens=words)


def trusted(found: pd.DataFrame) -> str:
    """Which circuit to trust on this model, in a line."""
    if "fvu" not in found:
        return "no truth to hold the circuit against: a stored layer approximates"
    r, fvu, own_r, own_fvu = found[[c + s for s in ("", OWN) for c in ("r", "fvu")]].median()
    says = "do not carry: trust the text's own" if fvu > SPREAD_OUT else "carry"
    return (
        f"median r {r:.3f} and FVU {fvu:.3f} with one page's denominators, {own_r:.3f} and "
        f"{own_fvu:.3f} with the text's own (self-normalised): one page's amounts {says}"
    )


if __name__ == "__main__":
    sys.exit(main())
