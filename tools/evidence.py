"""Compute what chapters show of training runs that do not ship: `make evidence WORK=folder`.

    python tools/evidence.py F_training --work build/runs

Every checkpoint that `tools/train_mini.py` kept becomes a folder that `cx.load` reads, such as
`seed-1-030` for seed 1 after 30% of its training. Then the chapter is run with its parameter RUNS
naming them, and writes what it finds to `ctxlib/data/evidence/`, which is committed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import jupytext
from safetensors.torch import load_file
from ship_mini import as_model, digest, recipe_of, save_half, save_tokenizer
from tqdm.auto import tqdm
from train_mini import RUNS, TWIN_RUNS, folder_of

ROOT = Path(__file__).resolve().parent.parent
LEARNED = [name for name in ("mini", *TWIN_RUNS) if RUNS[name].positions == "learned"]
sys.path.insert(0, str(ROOT))  # for the chapters


def export(work: Path, out: Path) -> None:
    """Every checkpoint of the runs with learned positions, whole, as a folder; with its sha256."""
    ended = [name for name in LEARNED if (work / folder_of(name) / "result.json").exists()]
    for name in tqdm(ended, "models", unit="run"):
        folder = work / folder_of(name)
        result = json.loads((folder / "result.json").read_text())
        for checkpoint in sorted(folder.glob("at-*.safetensors")):
            place = out / f"{name}-{checkpoint.stem.removeprefix('at-')}"
            facts = {"sha256": digest(checkpoint), "tokens": result["tokens"]}
            told = place / "run.json"
            if told.exists() and json.loads(told.read_text()) == facts:
                continue
            recipe = recipe_of(result)
            save_half(as_model(load_file(checkpoint), recipe), place)
            save_tokenizer(work / "tokenizer.json", recipe.n_ctx, place)
            told.write_text(json.dumps(facts))


def compute(chapter: Path, models: Path) -> None:
    """Run the code of a chapter in this process, with RUNS naming the folder of models.

    Raises ValueError for a chapter without that parameter.
    """
    cells = [c.source for c in jupytext.read(chapter).cells if c.cell_type == "code"]
    code, found = re.subn(r"^RUNS = None", f"RUNS = {str(models)!r}", "\n".join(cells), flags=re.M)
    if found != 1:
        raise ValueError(f"{chapter.name} has no parameter RUNS = None")
    exec(compile(code, chapter, "exec"), {"__name__": "__main__"})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="+", help="such as F_training")
    parser.add_argument("--work", type=Path, default=Path("build/runs"), help="of train_mini.py")
    args = parser.parse_args(argv)
    try:
        export(args.work, args.work / "models")
        for chapter in args.chapters:
            compute(ROOT / "chapters" / f"{chapter}.py", args.work / "models")
    except (ValueError, FileNotFoundError) as error:
        print(f"evidence: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
