"""What the tools have in common: the repository and the package in it, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for ctxlib, from wherever a tool is called

Main = Callable[[list[str] | None], int | None]


def command(name: str, status: int = 2) -> Callable[[Main], Callable[..., int]]:
    """Let what cannot be done, a ValueError or an OSError, be one clear line for the person who
    called, and this exit status; an interruption is 130, and nothing returned is success.
    """

    def ended(main: Main) -> Callable[..., int]:
        @wraps(main)
        def told(argv: list[str] | None = None) -> int:
            try:
                return main(argv) or 0
            except (ValueError, OSError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return status
            except KeyboardInterrupt:
                said = "interrupted; the same command goes on with what is not finished"
                print(f"{name}: {said}", file=sys.stderr)
                return 130

        return told

    return ended
