"""What many texts cost, as ratios in one run: memory and time as their number grows, what going on
after a kill saves, and, when asked, a million of them with a kill in the middle, in one process and
on a cluster that loses a worker.

    python benchmarks/texts.py                               # prints the table
    python benchmarks/texts.py --page book/costs.md      # and adds it to a page of the book
    python benchmarks/texts.py --count 1000000               # one long run, killed and resumed

The model is a toy, for the cost of a text is not what is measured; texts are read from files,
one plain and one compressed, and tokenised.
"""

from __future__ import annotations

import argparse
import lzma
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from circuit import machine, peak_bytes
from page import as_lines, put
from safetensors.torch import load

import ctxlib as cx

COUNTS = [1_000, 10_000, 100_000]
N_CTX, D_MODEL, HEADS, N, THE = 32, 24, 3, 20, 300
WORDS = 800  # of a document
PAGE = """## Many texts

`cx.texts.stream` reads texts one after another. So memory should not grow with their number, and a
text should take as long whatever their number. The table has the time a text takes (processor
seconds of all threads), over that in the first row, which also bears what is done once, and by how
much the process grows meanwhile, at most. The model is a toy, and a text has {n_ctx} tokens.

{table}

Denominators are kept, a number for each text and head, so their memory must grow in the end. An
evaluation that is finished and asked for again takes {again} of the time of the first, because it
is read from its checkpoint.

We read a million such texts once, by hand (`benchmarks/texts.py --count 1000000`, 29 November 2026;
these numbers are typed). One process was killed half-way and went on from its checkpoint: the
second half took 130 s, and it held at most 591 MiB. A local Dask cluster of two workers lost one
half-way, and another took its place. It was done after 430 s, on two cores that were busy with
other work as well, its workers held at most 526 MiB, and its table is that of the one process to
the last digit. On one machine a cluster saves no time, because one process uses both cores.

On a GPU, an NVIDIA H100, `cx.evaluate` read 13,600 texts of 512 tokens a second on `mini` (26
November 2026, by hand, torch 2.11.0; typed too). On 2,000 texts, no number of its table differs
from the CPU's by more than 0.0006.

Measured on {machine}.
"""


# ---------------------------------------------------------------- a toy, and texts for it


def toy() -> cx.LayerWeights:
    """A first layer with random weights, in the vocabulary of `mini`."""
    source = torch.Generator().manual_seed(0)
    tokenizer = cx.LayerWeights.of(cx.load("mini")).tokenizer
    sizes = {
        "wte.weight": (len(tokenizer), D_MODEL),
        "wpe.weight": (N_CTX, D_MODEL),
        "h.0.ln_1.weight": (D_MODEL,),
        "h.0.ln_1.bias": (D_MODEL,),
        "h.0.attn.c_attn.weight": (D_MODEL, 3 * D_MODEL),
        "h.0.attn.c_attn.bias": (3 * D_MODEL,),
        "h.0.attn.c_proj.weight": (D_MODEL, D_MODEL),
        "h.0.attn.c_proj.bias": (D_MODEL,),
        "h.0.ln_2.weight": (D_MODEL,),
        "h.0.ln_2.bias": (D_MODEL,),
        "h.0.mlp.c_fc.weight": (D_MODEL, 4 * D_MODEL),
        "h.0.mlp.c_fc.bias": (4 * D_MODEL,),
    }
    state = {name: 0.3 * torch.randn(*size, generator=source) for name, size in sizes.items()}
    return replace(cx.LayerWeights.from_state_dict(state, HEADS), tokenizer=tokenizer)


def write(folder: Path, count: int) -> None:
    """Files with documents for that many texts, a little more: a word is a token at least."""
    words = cx.texts.passages(cx.texts.Reader.of(cx.load("mini")))[0].source.split()
    source = np.random.default_rng(0)
    with (
        (folder / "plain.txt").open("w", encoding="utf-8") as plain,
        lzma.open(folder / "packed.txt.xz", "wt", encoding="utf-8", preset=0) as packed,
    ):
        for number in range(count * (N_CTX - 1) // (WORDS - N_CTX) + 2):
            document = " ".join(source.choice(words, WORDS))
            (packed if number % 2 else plain).write(f"{document}\n<|endoftext|>\n")


def calibrated(weights: cx.LayerWeights, texts: cx.texts.Stream) -> cx.ContextualCircuit:
    fixed = cx.fix_query(weights, n=N, token=THE)
    return cx.ContextualCircuit.calibrate(fixed, next(iter(texts)), [0, 1])


# ---------------------------------------------------------------- as their number grows


def growing(folder: Path, weights: cx.LayerWeights) -> tuple[pd.DataFrame, float]:
    """Seconds a text, and by how many MiB the process grows, by number and measure; the share of
    the time that a second evaluation takes.
    """
    write(folder, COUNTS[-1])
    circuit = calibrated(weights, cx.texts.stream(weights, 1, folder))
    rows = {}
    for count in [COUNTS[0], *COUNTS]:  # the first time is to warm up
        texts = cx.texts.stream(weights, count, folder)
        ways: dict[str, Callable[[], object]] = {
            "evaluate": lambda texts=texts: cx.evaluate(circuit, texts),
            "denominators": lambda texts=texts: cx.softmax_denominators(circuit.fixed, texts),
        }
        rows[count] = {}
        for name, way in ways.items():
            start = time.process_time()
            grown = peak_bytes(way) / 2**20
            rows[count][f"{name}, time per text"] = (time.process_time() - start) / count
            rows[count][f"{name}, MiB"] = grown
    texts, file = cx.texts.stream(weights, COUNTS[1], folder), folder / "sums"
    spent = []
    for _ in range(2):
        start = time.process_time()
        cx.evaluate(circuit, texts, checkpoint=file)
        spent.append(time.process_time() - start)
    return pd.DataFrame(rows).T, spent[1] / spent[0]


# ---------------------------------------------------------------- one long run


def long(folder: Path, count: int, workers: int) -> None:
    """Evaluate so many texts in a process that is killed half-way, then in another that goes on;
    then on a cluster; prints time, memory and whether the tables agree.
    """
    write(folder, count)
    start = multiprocessing.get_context("spawn").Process
    first = start(target=part, args=(folder, count, 0, "here"))
    first.start()
    while first.is_alive() and done(folder / "here") < count // 2:
        time.sleep(0.2)
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    print(f"killed behind {done(folder / 'here')} texts, exit code {first.exitcode}", flush=True)
    for name, size in (("here", 0), ("cluster", workers)):
        if name == "here" or size:
            process = start(target=part, args=(folder, count, size, name))
            process.start()
            process.join()
    if workers:
        tables = [pd.read_parquet(folder / f"{name}.table") for name in ("here", "cluster")]
        apart = (tables[0] - tables[1]).abs().max().max()
        print(f"largest difference between the two tables: {apart:.1e}")


def part(folder: Path, count: int, workers: int, name: str) -> None:
    """What one process does."""
    weights = toy()
    texts = cx.texts.stream(weights, count, folder)
    circuit, client = calibrated(weights, texts), None
    if workers:
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        client = Client(cluster)
        threading.Thread(target=lose_a_worker, args=(client, folder / name, count)).start()
    before = peak_here()
    start = time.perf_counter()
    table = cx.evaluate(circuit, texts, checkpoint=folder / name, client=client)
    peak = peak_here()
    print(
        f"{name}: {table.attrs['texts']} texts done, {time.perf_counter() - start:.0f} s, peak "
        f"{peak / 1024:.0f} MiB, {(peak - before) / 1024:.0f} more than before",
        flush=True,
    )
    if client:
        held = ", ".join(f"{kilobytes / 1024:.0f}" for kilobytes in client.run(peak_here).values())
        print(f"peak of the workers that are left: {held} MiB", flush=True)
    table.to_parquet(folder / f"{name}.table")


def peak_here() -> int:
    """The most that this process held, in KiB. getrusage may give what its parent held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def lose_a_worker(client: Any, checkpoint: Path, count: int) -> None:
    """Kill one worker half-way; its nanny starts another."""
    while done(checkpoint) < count // 2:
        time.sleep(0.2)
    lost, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    print(f"killed the worker {lost} behind {done(checkpoint)} texts", flush=True)


def done(checkpoint: Path) -> int:
    """How many texts are in a checkpoint."""
    if not checkpoint.exists():
        return 0
    return int(load(checkpoint.read_bytes())["count"])  # in one go: it may be replaced meanwhile


def main() -> None:
    parser = argparse.ArgumentParser(description="what many texts cost, as ratios")
    parser.add_argument("--page", type=Path, help="add the table to this page as well")
    parser.add_argument("--count", type=int, help="one run with so many texts, killed half-way")
    parser.add_argument("--workers", type=int, default=2, help="of the cluster; 0 leaves it out")
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as name:
        if arguments.count:
            long(Path(name), arguments.count, arguments.workers)
            return
        table, again = growing(Path(name), toy())
    spent = [column for column in table if column.endswith("time per text")]
    table[spent] /= table[spent].iloc[0]
    print(table.round(2).to_string(), f"\nasked again: {again:.1%} of the time")
    if arguments.page:
        rows = [["texts", *table]]
        forms = ["{:.2f}" if column in spent else "{:.0f}" for column in table]
        rows += [[f"{n:,}", *map(str.format, forms, row)] for n, row in table.iterrows()]
        lines = as_lines(rows)
        words = {"n_ctx": N_CTX, "table": lines, "machine": machine()}
        put(arguments.page, PAGE.format(**words, again=f"{again:.1%}"))


if __name__ == "__main__":
    main()
