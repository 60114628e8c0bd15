"""What the tools have in common: the repository and the package in it, and how they end."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for ctxlib, from wherever a tool is called


def gib(usage: resource.struct_rusage) -> float:
    """The most memory that a process held at once: the system counts KiB, or on a Mac bytes."""
    return usage.ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


Main = Callable[[list[str] | None], int | None]


def command(name: str, status: int = 2) -> Callable[[Main], Callable[..., int]]:
    """Let what cannot be done, a ValueError or an OSError, be one clear line for the person who
    called, and this exit status; an interruption is 130, and nothing returned is success.
    """

    def ended(main: Main) -> Callable[..., int]:
        @wraps(main)
        def wrapped(argv: list[str] | None = None) -> int:
            try:
                return main(argv) or 0
            except (ValueError, OSError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return status
            except KeyboardInterrupt:
                message = "interrupted; the same command goes on with what is not finished"
                print(f"{name}: {message}", file=sys.stderr)
                return 130

        return wrapped

    return ended
