"""Do the tests catch what matters? Known faults, put in one at a time.

    python tools/mutants.py [NAME ...]    all of the faults, or those whose names begin so
                            [-j 2]        so many at a time

The faults stand in `tools/mutants.toml`. Each is one line of the code, wrong in a way that has
happened or could: a sign, an index, a refusal that refuses no more. It is put into a copy of the
tracked files, and the tests that should notice are run there. Every fault has to make one of them
fail, one that passes when the fault is taken out again.

Ends with 1 if a fault survives, or if it is stale: its line is no longer there once, or its tests
are none. A line that was rewritten on purpose takes its fault with it, to wherever the same mistake
could be made now. How a line is indented does not matter.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 900  # seconds for the tests of one fault
CAUGHT, SURVIVED, STALE = "caught", "SURVIVED", "STALE"


@dataclass(frozen=True)
class Fault:
    """One wrong line. `before` and `after` are lines of `file` without their indentation; `tests`
    are what pytest is given: files, and `-k` with words. `site`: the tests build the site first.
    """

    name: str
    file: str
    before: str
    after: str
    tests: str
    site: bool = False


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAULTS = tuple(Fault(name, **facts) for name, facts in TABLE.items())


class Stale(Exception):
    """A fault that does not fit the code any more; says why."""


# ---------------------------------------------------------------- putting one in


def faulty(fault: Fault, tree: Path) -> str:
    """The text of a fault's file with the fault in it; Stale unless its line is there once."""
    file = tree / fault.file
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = re.compile(rf"^([ \t]*){re.escape(fault.before)}[ \t]*$", re.MULTILINE)
    wrong, places = line.subn(lambda found: found[1] + fault.after, text)
    if places != 1:
        raise Stale(f"{fault.file}: the line is there {places} times")
    return wrong


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of the tracked files of a repository as they are now, for as long as it is needed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as place:
        tree = Path(place) / "tree"
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (root / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, tree / name)
        yield tree


# ---------------------------------------------------------------- asking the tests


def pytest_in(tree: Path, *arguments: str) -> tuple[int | None, str]:
    """Exit status and output of pytest in a copy, up to the first test that fails; None where the
    time was up. Nothing that it started is left behind.
    """
    aside = tree.parent / "tmp"
    aside.mkdir(exist_ok=True)
    options = ["-x", "-q", "--tb=line", "-rfE", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "TMPDIR": str(aside)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, output


def tried(fault: Fault, root: Path) -> tuple[str, str]:
    """What became of a fault, and the test that caught it, or the reason."""
    with copied(root) as tree:
        file = tree / fault.file
        try:
            wrong = faulty(fault, tree)
        except Stale as error:
            return STALE, str(error)
        right = file.read_bytes()
        file.write_text(wrong, encoding="utf-8", newline="")
        status, output = pytest_in(tree, *shlex.split(fault.tests))
        failed = re.search(r"^(?:FAILED|ERROR) (\S+::\w+)", output, re.MULTILINE)
        if status == 1 and failed:
            file.write_bytes(right)
            if pytest_in(tree, failed[1])[0] == 0:
                return CAUGHT, failed[1]
            return SURVIVED, f"{failed[1]} fails without it as well"
    if status in (4, 5):
        return STALE, f"no such tests: {fault.tests}"
    if status == 0:
        passed = re.search(r"\b\d+ passed", output)
        return SURVIVED, fault.tests if passed else "all of its tests were left out here"
    return SURVIVED, f"pytest ended with {status}: {output.strip()[-300:]}"


# ---------------------------------------------------------------- saying so


def told(fault: Fault, root: Path) -> bool:
    """Try a fault and say what became of it; whether it was caught."""
    begun = time.monotonic()
    result, by = tried(fault, root)
    print(f"{fault.name:<56}  {result:<8}  {time.monotonic() - begun:4.0f} s  {by}", flush=True)
    return result == CAUGHT


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
    chosen.sort(key=lambda fault: fault.site)  # those that build the site come last
    with ThreadPoolExecutor(options.j) as pool:
        caught = sum(pool.map(lambda fault: told(fault, root), chosen))
    print(f"{caught} of {len(chosen)} faults were caught")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
