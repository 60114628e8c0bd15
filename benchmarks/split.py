"""What the whole-text form of Equation 1 saves, and what a text costs, as ratios in one run.

    python benchmarks/split.py

Each line compares two ways to the same tensor, timed alternately on the same texts; the best of
several rounds counts, so that other work on the machine disturbs both alike.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ctxlib as cx

ROUNDS = 5


def seconds(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The best time of each way, taken in turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    torch.set_grad_enabled(False)
    model = cx.load("mini")
    weights = cx.LayerWeights.of(model)
    tokens = cx.texts.passages(weights, domains=["physics"])[0].tokens
    some = range(31, len(tokens), 32)
    share = len(tokens) / len(some)  # the loop runs over every 32nd destination only

    time_of = seconds(
        {
            "rebuilt_pattern, all destinations": lambda: cx.split.rebuilt_pattern(weights, tokens),
            "rebuilt_rows, every 32nd": lambda: [cx.rebuilt_rows(weights, tokens, n) for n in some],
            "attention_pattern": lambda: cx.split.attention_pattern(weights, tokens),
            "the model's own forward pass": lambda: model(tokens[None]),
        }
    )
    whole, loop, exact, forward = time_of.values()
    pattern = weights.n_heads * len(tokens) ** 2 * 4
    used = sum(w.nbytes for w in (weights.W_E, weights.W_pos, weights.W_K))
    print(
        f"rebuilding every row at once against one by one: {loop * share / whole:.0f} times faster"
    )
    print(f"rebuilding against the exact pattern:            {whole / exact:.1f} times the time")
    print(f"rebuilding against a forward pass:               {whole / forward:.1f} times the time")
    print(f"memory of a pattern against the weights used:    {pattern / used:.1f} times")


if __name__ == "__main__":
    main()
