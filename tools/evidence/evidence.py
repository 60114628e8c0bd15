"""Compute what chapters show of what does not ship, training runs and real models: `make evidence`.

    python tools/evidence/evidence.py 13_families --work build/runs
    python tools/evidence/evidence.py 09_british

A chapter is run with its parameter RUNS naming the folder, and MODELS naming the real models that
`make models` has fetched, as far as they are here, and writes what it finds to
`data/evidence/`, which is committed. In the folder of runs every checkpoint that
`train_mini.py` kept is a model that `cx.load` reads: `seed-1-030` is seed 1 after 30% of its
training.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jupytext
import torch
from command import ROOT, command
from files import digest, replace
from IPython.display import display
from safetensors.torch import load_file
from ship_mini import as_model, recipe_of, save_half, save_tokenizer
from tqdm.auto import tqdm
from train_mini import TWIN_RUNS, folder_of

from ctxlib.files import kept_folder
from ctxlib.models import MINI, real_models
from ctxlib.models.places import twin_files


def export(work: Path, out: Path) -> None:
    """Every checkpoint of `mini` and the twins, whole, as a folder; with its sha256."""
    ended = [
        name for name in ("mini", *TWIN_RUNS) if (work / folder_of(name) / "result.json").exists()
    ]
    for name in tqdm(ended, "models", unit="run"):
        folder = work / folder_of(name)
        result = json.loads((folder / "result.json").read_text())
        for checkpoint in sorted(folder.glob("at-*.safetensors")):
            place = out / f"{name}-{checkpoint.stem.removeprefix('at-')}"
            facts = {"sha256": digest(checkpoint), "tokens": result["tokens"]}
            record = place / "run.json"
            if record.exists() and json.loads(record.read_text()) == facts:
                continue
            recipe = recipe_of(result)
            save_half(as_model(load_file(checkpoint), recipe), place)
            save_tokenizer(work / "tokenizer.json", recipe.n_ctx, place)
            record.write_text(json.dumps(facts))


def compute(chapter: Path, given: Mapping[str, Sequence[str] | None]) -> None:
    """Run the code of a chapter in this process, with its parameters naming these: folders, or real
    models that are here.

    Raises ValueError for a chapter without such a parameter, and where none of its own is given.
    """
    code = "\n".join(c.source for c in jupytext.read(chapter).cells if c.cell_type == "code")
    needed = re.findall(rf"(?m)^({'|'.join(given)}) = None", code)
    if not needed:
        raise ValueError(f"{chapter.name} has no parameter {' = None or '.join(given)} = None")
    if not any(given[name] for name in needed):
        raise ValueError(f"{chapter.name} needs {' or '.join(needed)}")
    for name in needed:
        code = re.sub(rf"(?m)^{name} = None", f"{name} = {given[name]!r}", code)
    exec(compile(code, chapter, "exec"), {"__name__": "__main__", "display": display})


def resumed(file: Path, make: Callable[..., Any], *given: Any) -> Any:
    """What `file` holds, or else what `make` makes of what is given, which it then holds."""
    if not file.exists():
        replace(file, json.dumps(make(*given)))
    return json.loads(file.read_text())


def rounded(facts: Any, digits: int = 4) -> Any:
    """Facts as JSON has them, their numbers to so many significant digits."""
    held = json.dumps(facts, default=float)
    return json.loads(held, parse_float=lambda v: float(f"{float(v):.{digits}g}"))


def provenance(name: str) -> dict[str, Any]:
    """What tells which weights a model has: the sums of its files, or of those of `mini` or a twin
    that hold them.
    """
    weights = "model.safetensors"
    if name == "mini":
        return {"files": {weights: digest(MINI / weights)}}
    if name in twin_files():
        return {"files": {weights: twin_files()[name][weights]}}
    return {"files": real_models()[name]["files"]}


def kept(file: Path, name: str, facts: dict[str, Any]) -> None:
    """Put rounded facts under a name into a kept file, the others as they were."""
    held = json.loads(file.read_text()) if file.exists() else {}
    replace(file, json.dumps(held | {name: rounded(facts)}) + "\n")


def keeping(
    called: str, said: str, out: Path, names: Iterable[str], measure: Callable[[str], dict]
) -> Callable[..., int]:
    """Return the command of a script: for each of the names that it is given, by default for all,
    keep what is measured, with the weights that it was measured on.
    """

    @command(called)
    @torch.no_grad()
    def main(argv: list[str] | None = None) -> None:
        parser = argparse.ArgumentParser(description=said.partition("\n")[0])
        parser.add_argument("names", nargs="*", default=[*names], help=", ".join(names))
        parser.add_argument("--file", type=Path, default=out)
        args = parser.parse_args(argv)
        for name in args.names:
            kept(args.file, name, provenance(name) | measure(name))

    return main


@command("evidence")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="+", help="such as 13_families")
    parser.add_argument("--work", type=Path, default=Path("build/runs"), help="of train_mini.py")
    args = parser.parse_args(argv)
    export(args.work, args.work / "models")
    here = [name for name in real_models() if kept_folder(name).is_dir()]
    runs = args.work / "models"
    given = {"RUNS": str(runs) if runs.is_dir() else None, "MODELS": here}
    for chapter in args.chapters:
        compute(ROOT / "chapters" / f"{chapter}.py", given)


if __name__ == "__main__":
    sys.exit(main())
