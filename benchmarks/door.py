"""What one command costs: seconds and memory of `python -m ctxlib MODEL`, how long the package
takes to begin, and what a stored layer loses.

    python benchmarks/door.py                               # prints the tables
    python benchmarks/door.py --page book/costs.md      # and adds them to a page of the book

Real models are measured where `make models` has fetched them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from circuit import machine
from page import as_lines, put
from tqdm import tqdm

from ctxlib.models import kept_folder

MODELS = {"mini": (15, None), "smollm2": (30, None), "minilm": (30, None), "qwen": (90, 6)}
TIMES = 5  # processes that begin, in turn
IMPORT, LOAD = "import transformer_lens", 'import ctxlib as cx; cx.load("mini")'
COSTS = Path(__file__).parents[1] / "stored" / "costs.json"
PAGE = """## One command

`python -m ctxlib MODEL` in a new process, from reading the file to the page and the table, on two
cores; in brackets the limit that this project set itself. Memory is the most that the process held.

{commands}

{missed}

`cx.load("mini")` in a new process takes {ratio:.2f} times as long as `import transformer_lens`
(the median of {times} of each, in turn; at most 1.3 was wanted). Nearly all of it is the import of
transformers' models.

A stored layer keeps values in 8 bits. Against the full weights, over 250 of the book's texts: the
correlation of each neuron's summaries and of its column over the vocabulary, and how many of the
first hundred neurons are not found again.

{stored}

Machine: {machine}.
"""


def measured(command: list[str]) -> tuple[float, float]:
    """Seconds and GiB of a command in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"door: {' '.join(command)} failed")
    return time.perf_counter() - start, usage.ru_maxrss / 2**20


def commands() -> pd.DataFrame:
    """Of every model that is here: seconds and memory."""
    rows = {}
    there = [name for name in MODELS if name == "mini" or kept_folder(name).is_dir()]
    for name in tqdm(there, "models"):
        with tempfile.TemporaryDirectory() as out:
            seconds, memory = measured([sys.executable, "-m", "ctxlib", name, "--out", out])
            page = (Path(out) / "explorer.html").stat().st_size / 1e6
        rows[name] = {"seconds": seconds, "GiB": memory, "page, MB": page}
    return pd.DataFrame(rows).T


def beginning() -> float:
    """How much longer it takes to have `mini` than to import TransformerLens."""
    taken: dict[str, list[float]] = {IMPORT: [], LOAD: []}
    for _ in tqdm(range(TIMES), "beginning"):
        for code, seconds in taken.items():
            seconds.append(measured([sys.executable, "-c", code])[0])
    imported, loaded = (statistics.median(seconds) for seconds in taken.values())
    return loaded / imported


def main() -> None:
    parser = argparse.ArgumentParser(description="what one command costs")
    parser.add_argument("--page", type=Path, help="add the tables to this page as well")
    page = parser.parse_args().page
    table, ratio = commands(), beginning()
    rows, missed = [["model", "seconds", "GiB", "page, MB"]], []
    for name, row in table.iterrows():
        most, memory = MODELS[str(name)]
        limit = f" ({memory})" if memory else ""
        cells = [f"{row['seconds']:.0f} ({most})", f"{row['GiB']:.1f}{limit}"]
        rows.append([str(name), *cells, f"{row['page, MB']:.1f}"])
        if row["seconds"] > most or (memory and row["GiB"] > memory):
            missed.append(f"`{name}`")
    said = (
        f"Over its limit: {', '.join(missed)}."
        if missed
        else "All commands are within their limits."
    )
    costs = json.loads(COSTS.read_text()) if COSTS.exists() else {}
    names = list(next(iter(costs.values()), {}))
    lost = [["stored layer", *names], *([k, *map(str, v.values())] for k, v in costs.items())]
    told = {
        "commands": as_lines(rows),
        "missed": said,
        "ratio": ratio,
        "times": TIMES,
        "stored": as_lines(lost),
    }
    text = PAGE.format(machine=machine(), **told)
    print(text)
    if page:
        put(page, text)


if __name__ == "__main__":
    main()
