"""One command from a model to its context-sensitive neurons: python -m ctxlib MODEL.

Prints the heads with their share of the variance, the neurons that are found, the best neuron of
each label, and how well the circuit predicts them. Writes all of it as tables, and a page that
explores the neurons in any browser.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

import ctxlib as cx
from ctxlib.studies import PROSE, Study
from ctxviews.labels import label_notes, learnable, learned_and_judged, one_text, some
from ctxviews.pagefile import page
from ctxviews.report import CENTERED, OWN, report

READ = 257  # tokens of a text, BOS and the query token included, where --n does not say
TEXTS = 500  # of the book's: labels of 22 domains
JUDGED, SHOWN = 128, 96  # texts for r and FVU, and on the page; one of each label at least
LISTED, BEST = 100, 5  # neurons at least, and neurons of each label
JUDGE = " on B"  # ends the columns of what half A chose
ANSWERS = "10s"  # how long a Dask scheduler has to answer


def numbers(given: str) -> list[int]:
    """Return whole numbers that stand between commas."""
    return [int(number) for number in given.split(",")]


def number(given: str) -> float:
    """Return a number that is neither infinite nor NaN. Raises ValueError for any other."""
    if not isfinite(value := float(given)):
        raise ValueError(given)
    return value


def arguments() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    layer = "It reads a model's first layer: only there is the stream a token and its position."
    about = str(__doc__).split("\n")[0]
    parser = argparse.ArgumentParser("ctxlib", description=about, epilog=layer)
    add = parser.add_argument
    add("model", help="mini, a folder, a GGUF file, a hub name, a stored layer")
    add("--texts", metavar="FOLDER", help="your own .txt files; each subfolder is a label")
    add(
        "--out", metavar="FOLDER", type=Path, default=Path(), help="where to write; here by default"
    )
    add("--n", type=int, help="position of the query; by default 256, or less in a short context")
    add("--token", help="query token, with its space; by default ' the'")
    add("--heads", metavar="0,2,5", type=numbers, help="heads of the circuit, not the stable ones")
    add("--calibrate", metavar="FILE_OR_TEXT", help="text to calibrate on, at least n tokens long; "
        "by default the most typical of your texts, or of the book's prose")  # fmt: skip
    add("--threshold", metavar="TOP", type=number, help="neurons with a larger top are found; by "
        "default those two robust standard deviations above the median neuron")  # fmt: skip
    add("--dask", metavar="ADDRESS", help="Dask cluster for r and FVU, as tcp://10.0.0.1:8786")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command. Errors that a user can mend are one line, and the exit code is 1."""
    options = arguments().parse_args(argv)
    if isinstance(sys.stdout, TextIOWrapper):  # not every console has all letters
        sys.stdout.reconfigure(errors="replace")
    try:
        with cluster(options.dask) if options.dask else nullcontext() as client:
            print(run(options, client))
    except (ValueError, OSError) as error:
        print("ctxlib:", *str(error).split(), file=sys.stderr)  # one line, whatever names hold
        return 1
    return 0


def run(options: argparse.Namespace, client: Any = None) -> str:
    """Write two tables, the page and the model's receipt to a folder; return the report."""
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    of, length = open_model(options)
    study, receipt = build_study(options, of, length), getattr(of, "receipt", None)
    found, labels = neurons(study, options.threshold, client)
    facts = {"model": options.model, **provenance(study)}
    with TemporaryDirectory(dir=out) as new:  # whole files take the place of the old ones
        for name, table in (("neurons.csv", found), ("labels.csv", labels)):
            table.assign(**facts).to_csv(Path(new, name), encoding="utf-8-sig")
        file, title = Path(new, "explorer.html"), Path(options.model).name
        page(study, file, title, threshold=options.threshold or 0)
        if receipt:  # a stored layer has none
            sums = "".join(f"{sha256}  {name}\n" for name, sha256 in receipt.sums.items())
            Path(new, "receipt.txt").write_text(f"{receipt}\n{sums}", encoding="utf-8")
        files = [str(file.replace(out / file.name)) for file in sorted(Path(new).iterdir())]
    said = report(study, found, labels, label_notes(study.texts, options.texts))
    return "\n".join((*([f"{receipt}\n"] if receipt else []), said, "", *files))


# ---------------------------------------------------------------- what is studied


def build_study(options: argparse.Namespace, of: Any, length: int) -> Study:
    """Return the study of a model's first layer, or of a stored one, on the book's texts or on a
    folder's: some of half A are then on the page, and the most typical of them calibrates.
    """
    reader, folder, given = cx.texts.Reader.of(of, length), options.texts, options.calibrate
    own = None if folder is None else cx.texts.labeled(reader, folder)
    return cx.study(
        of,
        own or cx.texts.collection(reader, TEXTS),
        options.token or " the",
        options.heads,
        prose=() if own else PROSE,
        or_all=True,
        n=options.n,
        labeled=own and some(learned_and_judged(own)[0], SHOWN),
        calibration=None if given is None else one_text(reader, given),
    )


def open_model(options: argparse.Namespace) -> tuple[Any, int]:
    """Return a model, with as many layers as its first heads need, or a stored layer's fixed query,
    and the number of tokens to read of a text.
    """
    name, n = options.model, options.n
    if name.endswith((".safetensors", ".safetensors.zst")):
        if n is not None or options.token:
            raise ValueError("a stored layer has its n and its token: leave out --n and --token")
        return (fixed := cx.fix_query(name)), fixed.length
    model = cx.load(name, layers="first")
    most, both = model.cfg.n_ctx, isinstance(model, cx.models.Encoder)
    length = min(READ, most) if n is None else 2 * n if both else n + 1
    if not 3 <= length <= most:
        raise ValueError(f"--n {n}: choose 2 to {most // 2 if both else most - 1}")
    return model, length


def provenance(study: Study) -> dict[str, Any]:
    """Return what the numbers of a table depend on, by column."""
    return {
        "layer": study.fixed.mlp_layer,
        "n": study.n,
        "token": cx.texts.decode_tokens(study.fixed, [study.fixed.token])[0],
        "heads": " ".join(map(str, study.heads)),
        "calibration text": study.calibration_text.name,
    }


# ---------------------------------------------------------------- neurons and labels


def neurons(
    study: Study, threshold: float | None = None, client: Any = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the neurons that are found by their weights, and the next ones up to a hundred, with
    the label that half A gives them and, on half B, its AUC and, if there is an exact layer, r and
    FVU; and the best of them for each label.
    """
    found = cx.find_neurons(study.circuit, threshold, at_least=LISTED)
    found.insert(2, "found", found["top"] > found.attrs["threshold"])
    scores = label_scores(study, found.index)
    if len(scores):
        label = scores["difference"].unstack("label").idxmax(axis=1)[found.index]
        rows = pd.MultiIndex.from_arrays([label, label.index])
        found = found.assign(label=label, auc=scores[f"auc{JUDGE}"].reindex(rows).to_numpy())
    if study.fixed.exact is not None:
        texts = some(learned_and_judged(study.texts)[1], JUDGED)
        one = study.circuit
        for circuit, suffix in (one, ""), (one.centered(), CENTERED), (one.self_normalized(), OWN):
            of = cx.evaluate(circuit, texts, found.index, client=client)[["r", "fvu"]]
            found = found.join(of.add_suffix(suffix))
        found.attrs["texts"] = len(texts)
    return found, best_neurons(scores, found)


def label_scores(study: Study, index: pd.Index) -> pd.DataFrame:
    """Return how well each of these neurons tells each label on half A, and on half B; an empty
    table where half A has fewer than two labels with two texts.
    """
    A, B = learned_and_judged(study.texts)
    A, tables = learnable(A), []
    if len({text.domain for text in A}) < 2:
        return pd.DataFrame()
    for texts in (A, B):
        summaries = study.circuit.summary(study.fixed.prepare(texts))[:, index.tolist()]
        labels = [text.domain for text in texts]
        tables.append(cx.neurons.label_scores(summaries, labels, index))
    return tables[0].join(tables[1].add_suffix(JUDGE))


def best_neurons(scores: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the neurons with the largest AUC for each label on half A, and their AUC on half B."""
    if scores.empty:
        return pd.DataFrame(columns=["neuron", "auc"], index=pd.Index([], name="label"))
    best = scores["auc"].groupby("label", group_keys=False).nlargest(BEST).index
    table = scores.reindex(best)[[f"auc{JUDGE}", f"difference{JUDGE}"]]
    table.columns = ["auc", "difference"]
    return table.join(found[["found", "top tokens"]], on="neuron").reset_index("neuron")


# ---------------------------------------------------------------- on a cluster


def cluster(address: str) -> Any:
    """Return a client of the Dask scheduler at an address. Raises ValueError if the package
    distributed is missing, if no scheduler answers, and if it has no workers.
    """
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise ValueError("a Dask cluster needs a package: pip install distributed") from error
    try:
        client = Client(address, timeout=ANSWERS)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}") from error
    if not client.nthreads():
        client.close()
        raise ValueError(f"the Dask scheduler at {address} has no workers: start one first")
    return client
