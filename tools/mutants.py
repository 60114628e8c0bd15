"""Do the tests catch what matters? Known faults, put in one at a time.

    python tools/mutants.py [NAME ...]    all of the faults, or those whose names begin so
                            [-j 2]        so many at a time

The faults stand in `tools/mutants.toml`. Each is a piece of the code, wrong in a way that has
happened or could: a sign, an index, a refusal that refuses no more. In a copy of the tracked files,
the tests that should notice are run first as it is, and have to pass; then with the fault, and one
has to fail.

Ends with 1 if a fault survives, or if it is stale: its piece is no longer there once, which is said
at once and of all of them, or its tests do not pass without it, or are none. A piece that was
rewritten on purpose takes its fault with it, to wherever the same mistake could be made now. Spaces
and line breaks do not matter.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from command import ROOT

LIMIT = 900  # seconds for the tests of one fault
CAUGHT, SURVIVED, STALE = "caught", "SURVIVED", "STALE"


@dataclass(frozen=True)
class Fault:
    """One wrong piece. `before` and `after` are code of `file`, however it is laid out; `tests` are
    what pytest is given: files, and `-k` with words.
    """

    name: str
    file: str
    before: str
    after: str
    tests: str

    def put_in(self, text: str) -> str:
        """The text of the file with the fault in it; ValueError unless its piece is there once."""
        words = map(re.escape, re.findall(r"\w+|[^\w\s]", self.before))
        piece = r"(?<!\w)" + r"\s*".join(words) + r"(?!\w)"
        wrong, places = re.subn(piece, lambda found: self.after, text)
        if places != 1:
            raise ValueError(f"{self.file}: the piece is there {places} times")
        return wrong

    def of(self, root: Path) -> str:
        """The text of the file below `root`, with the fault in it."""
        return self.put_in((root / self.file).read_text(encoding="utf-8"))


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAULTS = tuple(Fault(name, **facts) for name, facts in TABLE.items())


def pytest_in(tree: Path, tests: str) -> tuple[int, str]:
    """Exit status and output of pytest in a copy, up to the first test that fails; negative where
    the time was up. Nothing that it started is left behind.
    """
    options = ["-x", "-q", "--tb=line", "-rfE", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *shlex.split(tests)],
        cwd=tree, env=os.environ | {"PYTHONPATH": str(tree), "TMPDIR": str(tree.parent)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            output = "the time was up"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output


def tried(fault: Fault, root: Path) -> tuple[str, str]:
    """What became of a fault, and the test that caught it, or the reason."""
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as place:
        tree = Path(place) / "tree"
        tree.mkdir()
        tracked = 'git ls-files -z | tar -c --null -T - | tar -x -C "$0"'
        subprocess.run(["sh", "-c", tracked, tree], cwd=root, check=True, stderr=subprocess.DEVNULL)
        status, output = pytest_in(tree, fault.tests)
        if status:
            return STALE, f"no tests that pass without it: {output.strip()[-300:]}"
        (tree / fault.file).write_text(fault.of(tree), encoding="utf-8", newline="")
        status, output = pytest_in(tree, fault.tests)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+::\w+)", output, re.MULTILINE)
        if status == 1 and failed:
            return CAUGHT, failed[1]
        return SURVIVED, f"pytest ended with {status}: {output.strip()[-300:]}"


# ---------------------------------------------------------------- saying so


def misfit(fault: Fault, root: Path) -> str:
    """Why a fault cannot be put in; nothing where it can."""
    try:
        fault.of(root)
    except (ValueError, OSError) as error:
        return str(error)
    return ""


def told(fault: Fault, root: Path) -> bool:
    """Try a fault and say what became of it; whether it was caught."""
    begun = time.monotonic()
    result, by = tried(fault, root)
    say(fault, result, time.monotonic() - begun, by)
    return result == CAUGHT


def say(fault: Fault, result: str, seconds: float, by: str) -> None:
    print(f"{fault.name:<64}  {result:<8}  {seconds:4.0f} s  {by}", flush=True)


def main(
    arguments: Sequence[str] | None = None, faults: Sequence[Fault] = FAULTS, root: Path = ROOT
) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="how the names of some faults begin")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="so many at a time")
    options = parser.parse_args(arguments)
    for name in options.names:
        if not any(fault.name.startswith(name) for fault in faults):
            parser.error(f"no fault {name!r}; there are {', '.join(f.name for f in faults)}")
    chosen = [f for f in faults if not options.names or f.name.startswith(tuple(options.names))]
    misfits = {fault: reason for fault in chosen if (reason := misfit(fault, root))}
    for fault, reason in misfits.items():
        say(fault, STALE, 0, reason)
    with ThreadPoolExecutor(options.j) as pool:
        fitting = (fault for fault in chosen if fault not in misfits)
        caught = sum(pool.map(lambda fault: told(fault, root), fitting))
    print(f"{caught} of {len(chosen)} faults were caught")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
