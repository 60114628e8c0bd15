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
from command import gib
from page import as_lines, put
from tqdm import tqdm

from ctxlib.files import kept_folder

MODELS = {"mini": (15, None), "smollm2": (15, None), "minilm": (30, None), "qwen": (60, 5)}
RUNS = 3  # of every command: the worst counts
TIMES = 5  # processes that begin, in turn
IMPORT, BRIDGE = "import transformer_lens", "import transformer_lens.model_bridge"
LOAD = 'import ctxlib as cx; cx.load("mini")'
COSTS = Path(__file__).parents[1] / "data" / "stored" / "costs.json"
PAGE = """## One command

`python -m ctxlib MODEL` reads a model's first layer and writes a page and a table of its neurons.
This is what it takes on two cores, in a new process: the slowest of {runs} runs, with the limit
that we had set in brackets, and the quickest; the most memory that the process held; and the size
of the page. It reads 500 of the texts of the book.

{commands}

{missed}

Measured on {machine}.

```{{admonition}} In detail: how long the package takes to begin, and what stored layers lose
:class: dropdown

Loading `mini` in a new process takes {ratio:.2f} times as long as `import transformer_lens` alone
(medians of {times} each, in turn), where we had wanted at most 1.3. It takes {over_bridge:.2f}
times as long as importing `transformer_lens.model_bridge`, the part with which any model is loaded.

The book reads real models from **stored layers**, which keep values in 8 bits. How much does this
lose? Each neuron's summaries of 250 texts are correlated with those of the full weights, and so is
its column, what every token adds to it. The table has by how much these correlations fall short of
1 in the worst neuron (kept on 23 November 2026 in `data/stored/costs.json`). {found}

{stored}
```
"""


def measured(command: list[str]) -> tuple[float, float]:
    """Seconds and GiB of a command in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"door: {' '.join(command)} failed")
    return time.perf_counter() - start, gib(usage)


def commands() -> pd.DataFrame:
    """Of every model that is here: seconds and memory, the worst of the runs and the quickest."""
    rows = {}
    there = [name for name in MODELS if name == "mini" or kept_folder(name).is_dir()]
    for name in tqdm(there, "models"):
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, "-m", "ctxlib", name, "--out", out]
            seconds, memory = zip(*(measured(command) for _ in range(RUNS)), strict=True)
            page = (Path(out) / "explorer.html").stat().st_size / 1e6
        rows[name] = {
            "seconds": max(seconds),
            "quickest": min(seconds),
            "GiB": max(memory),
            "page, MB": page,
        }
    return pd.DataFrame(rows).T


def beginning() -> tuple[float, float]:
    """How much longer it takes to have `mini` than to import TransformerLens, and its bridge."""
    taken: dict[str, list[float]] = {IMPORT: [], BRIDGE: [], LOAD: []}
    for _ in tqdm(range(TIMES), "beginning"):
        for code, seconds in taken.items():
            seconds.append(measured([sys.executable, "-c", code])[0])
    imported, bridge, loaded = (statistics.median(seconds) for seconds in taken.values())
    return loaded / imported, loaded / bridge


def kept() -> tuple[str, str]:
    """What stored layers lose: whether the first hundred neurons are found again, and the table."""
    costs = json.loads(COSTS.read_text())
    rows = [["stored layer", "MB", "summaries, 1 - r", "columns, 1 - r"]]
    for name, cost in costs.items():
        lost = [f"{1 - cost[f'{what}, worst r']:.5f}" for what in ("summaries", "columns")]
        rows.append([name, f"{cost['megabytes']}", *lost])
    missed = [cost["of the first hundred not found, ties apart"] for cost in costs.values()]
    found = (
        f"Of the first hundred neurons up to {max(missed):.1f} are not found again, ties apart."
        if any(missed)
        else "All of the first hundred neurons are found again, ties apart."
    )
    return found, as_lines(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="what one command costs")
    parser.add_argument("--page", type=Path, help="add the tables to this page as well")
    page = parser.parse_args().page
    table, (ratio, over_bridge) = commands(), beginning()
    rows, missed = [["model", "seconds", "quickest", "GiB", "page, MB"]], []
    for name, row in table.iterrows():
        most, memory = MODELS[str(name)]
        limit = f" ({memory})" if memory else ""
        times = [f"{row['seconds']:.0f} ({most})", f"{row['quickest']:.0f}"]
        rows.append([str(name), *times, f"{row['GiB']:.1f}{limit}", f"{row['page, MB']:.1f}"])
        if row["seconds"] > most or (memory and row["GiB"] > memory):
            missed.append(f"`{name}`")
    limits = (
        f"Over its limit: {', '.join(missed)}."
        if missed
        else "All commands are within their limits."
    )
    found, stored = kept()
    words = {
        "runs": RUNS,
        "commands": as_lines(rows),
        "missed": limits,
        "ratio": ratio,
        "over_bridge": over_bridge,
        "times": TIMES,
        "found": found,
        "stored": stored,
    }
    text = PAGE.format(machine=machine(), **words)
    print(text)
    if page:
        *others, longest = sorted(table["seconds"])
        lead = (
            f"**On your model:** from its file to a page that you can open takes {longest:.0f} "
            f"seconds and {table['GiB'].max():.1f} GiB for the largest model that we tried, with "
            f"1.5 billion parameters, and at most {max(others):.0f} seconds for the others. "
            f"{len(missed)} of {len(table)} models exceed a limit that we had set."
        )
        put(page, text, lead if others else "")


if __name__ == "__main__":
    main()
