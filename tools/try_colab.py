"""Run the chapters' notebooks where Colab's versions are: what `make colab` ends with.

    python tools/try_colab.py build/colab [NAME ...]

The folder holds the environment that `make colab` makes, `runtime`, and what it had fetched, `hub`.
Every notebook of the book, or the named ones, is run there top to bottom, in a copy. The outcome is
a line for each: how long it took, and whether the outputs that the book checks come out at these
versions; below it, what nbval says of those that do not. A notebook in which a cell fails makes the
exit status 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from pathlib import Path

import build_book
from command import command

OTHERWISE = ": Cell outputs differ"  # what nbval says of a cell that ran


def tried(notebook: Path, runtime: Path, work: Path) -> bool:
    """Runs a notebook of the book and says how it went; whether every cell ran."""
    alone = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    place, alone["TORCH_HOME"] = Path(shutil.copy(notebook, work)), str(work)
    start = time.monotonic()
    status, said = build_book.rerun(
        runtime / "bin" / "python", place, work, alone, "--maxfail=0", "-rN"
    )
    seconds = time.monotonic() - start
    failed = re.findall(r"(?m)^(\d+) failed", said)
    differs = status == 1 and failed == [str(said.count(OTHERWISE))]
    ran = differs or status == 0
    outcome = f"{notebook.stem}: {'ran' if ran else 'FAILED'} in {seconds:.0f} s, checked outputs"
    print(outcome, f"come out otherwise:\n{said}" if status else "agree", flush=True)
    return ran


@command("colab", status=1)
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path, help="what `make colab` has made")
    parser.add_argument("names", nargs="*", metavar="NAME", help="chapters such as 02_keys")
    args = parser.parse_args(argv)
    chapters = [chapter for name in args.names or [None] for chapter in build_book.named(name)]
    work = args.work.resolve()
    trials = {c.stem: tried(build_book.committed(c), work / "runtime", work) for c in chapters}
    if failed := [stem for stem, ran in trials.items() if not ran]:
        raise ValueError(f"{len(failed)} failed: {', '.join(failed)}")


if __name__ == "__main__":
    sys.exit(main())
