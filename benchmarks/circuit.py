"""What the circuit costs, as ratios in one run: the contribution matrix against the bare matrix
products that it needs, its memory against the bytes of the result, a text's summary against the
model's own pass to layer 1, and how all of it grows.

    python benchmarks/circuit.py                     # prints the table
    python benchmarks/circuit.py --page book/costs.md    # and writes it to a page of the book

Both `mini` and a model of GPT-2 small's shape with random weights are measured. Ways that are
compared are timed in turns, and the best of several rounds counts, so that other work on the
machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import math
import multiprocessing
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path

import pandas as pd
import torch
from page import as_lines, put
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ctxlib as cx

ROUNDS = 7
MANY = 20  # short ways are timed that many times over
GPT2_SMALL = {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_head": 12, "n_layer": 2}
SIX = [0, 2, 6, 8, 9, 10]  # as many heads as the paper combines in GPT-2 small
MADE = "texts after which making it has paid"
EXACT, ALONE = "the exact heads, ms a text", "the circuit, ms a text"
BATCHED = "the circuit in a batch of 64, ms a text"
SLOWER = "the exact heads, over the circuit"
FAST, OWN = "all with the circuit's token at n", "each with its own token at n"
OVER_EXACT = {token: f"self-normalised, over the exact heads, {token}" for token in (FAST, OWN)}
OVER_CIRCUIT = {token: f"self-normalised, over the circuit, {token}" for token in (FAST, OWN)}
MATRIX = "contribution matrix, "
DETAILS = ("over", "growth")  # what stands in the second table
PAGE = """## One text

How long does the circuit take to read one text, beside the heads that it stands for? We compare the
two on `mini` and on two layers of the shape of GPT-2 small with random weights ({shape}). Both give
the summaries of all neurons. A *batch* is a number of texts that are computed in one call. Making a
circuit means calibrating it on one text and building its tables.

{table}

{sentence}

The exact heads need all heads of the layer, for the scale of LayerNorm 2, and the circuit its own
only. The texts are tokens drawn evenly from the vocabulary, so that every source reads another row
of the tables. The contribution matrix shows neurons, and no summary needs it.

```{{admonition}} In detail: ratios of times in one run
:class: dropdown

{details}

*X, over Y* is the time of X divided by that of Y in the same run. *Bare products* are the matrix
products that the contribution matrix cannot do without; its memory is the peak above what was held
before. TransformerLens' `run_with_cache(stop_at_layer=1)` does more than the others, since it makes
the layer's MLP, and copies, for every position. *Growth* is the factor in time for each doubling:
two would be linear, and less means that a part is done once.
```

Measured on {machine}.
"""


# ---------------------------------------------------------------- instruments


def seconds(ways: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """The best time of each way, taken in turns; each is warmed up once."""
    best = dict.fromkeys(ways, float("inf"))
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_bytes(way: Callable[[], object]) -> int:
    """By how much the process grows at most while `way` runs (Linux: the high-water mark)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free memory that the heap keeps would not count as grown
    Path("/proc/self/clear_refs").write_text("5")  # the mark starts again from here
    before = status("VmRSS")
    result = way()
    peak = status("VmHWM") - before
    del result
    return peak


def status(field: str) -> int:
    """A line of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def machine() -> str:
    """The date, processor, cores, memory and versions, in words."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in facts if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{date.today():%-d %B %Y}: {names[0] if names else platform.machine()}, "
        f"{os.cpu_count()} cores, {memory:.0f} GiB; "
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads"
    )


def random_gpt2_small() -> cx.models.TransformerBridge:
    """GPT-2 small's shape, random weights; two layers, since nothing here goes further."""
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        GPT2LMHeadModel(GPT2Config(**GPT2_SMALL)).save_pretrained(folder)
        for file in cx.models.MINI.glob("tokenizer*"):  # any will do: the texts are ids
            shutil.copy(file, folder)
        return cx.load(folder)


# ---------------------------------------------------------------- what is compared


def measure(model, heads: list[int], token: int) -> dict[str, str]:
    """One column of the table."""
    weights = cx.LayerWeights.of(model)
    n = weights.n_ctx // 2
    source = torch.Generator().manual_seed(0)
    texts = torch.randint(1, len(weights.embeddings()), (64, weights.n_ctx), generator=source)
    text = texts[0]

    def calibrated(heads: list[int], n: int) -> cx.ContextualCircuit:
        fixed = cx.fix_query(weights, n=n, token=token)
        return cx.ContextualCircuit.calibrate(fixed, text, heads)

    circuit = calibrated(heads, n)
    own = circuit.self_normalized()
    placed = text.clone()
    placed[n] = token

    W_V = weights.W_V[heads].permute(1, 0, 2).reshape(weights.d_model, -1).contiguous()
    values = circuit.weighted_values.flatten(1)
    readout = circuit.readout.flatten(0, 1)

    def matrix() -> torch.Tensor:
        return replace(circuit).contribution  # a copy has nothing cached

    def bare() -> tuple[torch.Tensor, torch.Tensor]:
        return weights.embeddings() @ W_V, values @ readout

    def made() -> object:  # with its tables, which the first summary needs
        return calibrated(heads, n).summary(text)

    memory = peak_bytes(matrix)  # before anything is timed: a heap that was used is used again
    built = seconds({"matrix": matrix, "bare": bare, "made": made})
    result = len(values) * weights.n_neurons * values.element_size()

    def cached() -> object:
        return model.run_with_cache(text[None, : n + 1], stop_at_layer=1)

    def often(way: Callable[[], object]) -> Callable[[], object]:
        return lambda: [way() for _ in range(MANY)]

    ways = seconds(
        {
            "cache": cached,
            "summary": often(lambda: circuit.summary(text)),
            "own": often(lambda: own.summary(text)),
            "placed": often(lambda: own.summary(placed)),
            "exact": often(lambda: circuit.fixed.exact_summary(text, heads)),
            "exact, placed": often(lambda: circuit.fixed.exact_summary(placed, heads)),
            "stack": lambda: circuit.summary(texts),
        }
    )
    summary, exact = ways["summary"], ways["exact"]

    def growth(few: Callable[[], object], many: Callable[[], object], times: float) -> str:
        """The factor per doubling, `many` being so many times as much as `few`."""
        taken = seconds({"few": often(few), "many": often(many)})
        return f"{(taken['many'] / taken['few']) ** (1 / math.log2(times)):.1f}"

    nearer, single = calibrated(heads, n // 8), calibrated(heads[:1], n)
    for c in (nearer, single):
        c.summary(text)  # what is computed once is not what is timed
    return {
        "heads of the circuit": f"{len(heads)} of {weights.n_heads}",
        "query position n": str(n),
        MATRIX + "MB": f"{result / 1e6:.0f}",
        MATRIX + "ms": f"{1000 * built['matrix']:.0f}",
        MATRIX + "time over bare products": f"{built['matrix'] / built['bare']:.2f}",
        MATRIX + "peak memory over its bytes": f"{memory / result:.2f}",
        EXACT: f"{1000 * exact / MANY:.2f}",
        ALONE: f"{1000 * summary / MANY:.2f}",
        BATCHED: f"{1000 * ways['stack'] / 64:.3f}",
        SLOWER: f"{exact / summary:.1f}",
        "making the circuit, ms": f"{1000 * built['made']:.0f}",
        MADE: f"{MANY * built['made'] / (exact - summary):.0f}",
        OVER_CIRCUIT[FAST]: f"{ways['placed'] / summary:.1f}",
        OVER_CIRCUIT[OWN]: f"{ways['own'] / summary:.1f}",
        OVER_EXACT[FAST]: f"{ways['placed'] / ways['exact, placed']:.2f}",
        OVER_EXACT[OWN]: f"{ways['own'] / exact:.2f}",
        "run_with_cache, over the circuit": f"{MANY * ways['cache'] / summary:.0f}",
        "growth, from 8 to 64 texts": growth(
            lambda: circuit.summary(texts[:8]), lambda: circuit.summary(texts), 8
        ),
        "growth, from n/8 to n": growth(
            lambda: nearer.summary(texts), lambda: circuit.summary(texts), 8
        ),
        "growth, from one head to all chosen": growth(
            lambda: single.summary(texts), lambda: circuit.summary(texts), len(heads)
        ),
    }


def between(numbers: Iterable[str]) -> str:
    """From the least to the most."""
    least, *_, most = sorted(numbers, key=float)
    return " to ".join(dict.fromkeys((least, most)))


def opening(table: pd.DataFrame) -> str:
    """The line of the page's head."""
    return (
        f"**For many texts:** the circuit reads one {between(table.loc[SLOWER])} times as fast as "
        f"the exact heads do, if both read one at a time (we did not time the exact heads in "
        f"batches), and saves the time it takes to make it after {between(table.loc[MADE])} texts. "
        f"The self-normalised circuit saves less or nothing: it takes "
        f"{between(table.loc[[*OVER_EXACT.values()]].stack())} times as long as the exact heads, "
        f"and {between(table.loc[[*OVER_CIRCUIT.values()]].stack())} times as long as the plain "
        f"circuit, where we had wanted at most 2."
    )


def sentence_of(table: pd.DataFrame) -> str:
    """The tables' sentences on making a circuit, on batches, and on the self-normalised one."""

    def times(line: str) -> str:
        return f"{between(table.loc[line])} times"

    batched = table.loc[BATCHED].astype(float) / table.loc[ALONE].astype(float)
    return (
        f"So the exact heads take {times(SLOWER)} as long as the circuit, and after "
        f"{between(table.loc[MADE])} texts, read one at a time, the circuit has saved the time it "
        f"took to make it. In a batch it takes {between(batched.map('{:.1f}'.format))} times as "
        f"long for each text as alone; we did not time the exact heads in batches. The "
        f"self-normalised circuit, which computes each text's own denominators and needs all heads "
        f"for that, saves less or nothing: it takes {times(OVER_EXACT[FAST])} as long as the "
        f"exact heads if all texts get the circuit's token at n, and {times(OVER_EXACT[OWN])} with "
        f"each text's own token, because then no table serves two texts. It takes "
        f"{times(OVER_CIRCUIT[FAST])} as long as the paper's circuit in the first case and "
        f"{times(OVER_CIRCUIT[OWN])} in the second, where we had wanted at most 2."
    )


def section(table: pd.DataFrame, described: str) -> str:
    """The section of the page."""
    g = GPT2_SMALL
    shape = f"{g['vocab_size']} x {g['n_embd']}, {g['n_head']} heads, context {g['n_positions']}"
    aside = table.index.str.contains("|".join(DETAILS))
    tables = (
        as_lines([["", *of.columns], *([name, *cells] for name, cells in of.iterrows())])
        for of in (table[~aside], table[aside])
    )
    shown, details = tables
    return PAGE.format(
        shape=shape, table=shown, details=details, sentence=sentence_of(table), machine=described
    )


def of_mini() -> dict[str, str]:
    """The column of `mini` and its stable heads."""
    torch.set_grad_enabled(False)
    model = cx.load("mini")
    weights = cx.LayerWeights.of(model)
    stable = cx.stable_heads(cx.fix_query(weights), cx.texts.collection(weights, 200))
    return measure(model, list(stable), weights.token_id(" the"))


def of_random_gpt2_small() -> dict[str, str]:
    """The column of the random model."""
    torch.set_grad_enabled(False)
    return measure(random_gpt2_small(), SIX, 262)


def main() -> None:
    parser = argparse.ArgumentParser(description="what the circuit costs, as ratios")
    parser.add_argument("--page", type=Path, help="write the table to this page as well")
    page = parser.parse_args().page
    columns = {}
    for name, column in {"mini": of_mini, "random GPT-2 small": of_random_gpt2_small}.items():
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as new:
            columns[name] = new.submit(column).result()
    table = pd.DataFrame(columns)
    table.index.name = "what"
    print(table.to_string())
    if page:
        put(page, section(table, machine()), opening(table))


if __name__ == "__main__":
    main()
