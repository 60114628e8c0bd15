"""Do the tests catch what matters? Known faults, put in one at a time.

    python tools/mutants.py [NAME ...]    all of the faults, or those named
                            [-j 2]        so many at a time
                            [--whole]     ask the whole suite, not the tests that a fault names
                            [--list]      what there is, and whether it still fits

The faults stand in `tools/mutants.toml`. Each is one line of the code, wrong in a way that has
happened or could: a sign, an index, a refusal that refuses no more. It is put into a copy of the
tracked files, and the tests that should notice are run there. Every fault has to make one of them
fail. Before that, the same tests have to pass on a copy without any fault.

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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 900  # seconds for the tests of one fault
WHOLE = 7200  # and for the whole suite
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


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: `by` is the test that failed first, or the reason."""

    fault: Fault
    result: str
    by: str
    seconds: float = 0.0


FAULTS = tuple(
    Fault(name, **facts)
    for name, facts in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
)


class Stale(Exception):
    """A fault that does not fit the code any more; says why."""


# ---------------------------------------------------------------- putting one in


def faulty(fault: Fault, tree: Path) -> str:
    """The text of a fault's file with the fault in it; Stale unless its line is there once."""
    file = tree / fault.file
    lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
    places = [i for i, line in enumerate(lines) if line.strip() == fault.before]
    if len(places) != 1:
        raise Stale(f"{fault.file}: the line is there {len(places)} times")
    (place,) = places
    indent = lines[place].partition(fault.before)[0]
    return "\n".join([*lines[:place], indent + fault.after, *lines[place + 1 :]])


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of the tracked files of a repository as they are now, for as long as it is needed."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True)
    if names.returncode:
        raise SystemExit("mutants: this needs a clone of the repository, to know its files")
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as place:
        tree = Path(place) / "tree"
        for name in filter(None, names.stdout.decode().split("\0")):
            if (root / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, tree / name)
        yield tree


# ---------------------------------------------------------------- asking the tests


def pytest_in(tree: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
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
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, output


def judged(fault: Fault, status: int | None, output: str) -> tuple[str, str]:
    """Result and reason, from how pytest ended."""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", output, re.MULTILINE)
    if status == 1 and failed:
        return CAUGHT, failed[1]
    if status == 0 and re.search(r"\b\d+ passed", output):
        return SURVIVED, fault.tests or "the whole suite"
    if status == 0:
        return SURVIVED, "all of its tests were left out here"
    if status is None:
        return SURVIVED, "the time was up"
    if status in (4, 5):
        return STALE, f"no such tests: {fault.tests}"
    said = [line for line in output.splitlines() if line.strip()]
    return SURVIVED, f"pytest ended with {status}: {said[-1] if said else 'nothing said'}"


def tried(fault: Fault, root: Path, whole: bool = False) -> Verdict:
    """What the tests say of one fault."""
    begun = time.monotonic()
    with copied(root) as tree:
        try:
            wrong = faulty(fault, tree)
        except Stale as error:
            return Verdict(fault, STALE, str(error))
        (tree / fault.file).write_text(wrong, encoding="utf-8", newline="")
        asked = [] if whole else shlex.split(fault.tests)
        status, output = pytest_in(tree, asked, LIMIT if asked else WHOLE)
    return Verdict(fault, *judged(fault, status, output), time.monotonic() - begun)


def union(faults: Iterable[Fault]) -> list[str]:
    """What pytest is given for the tests of all these faults together: words go with the name of
    their file, since alone they would choose tests of other files as well.

    >>> a, b = (Fault("", "", "", "", tests) for tests in ("test_a.py -k 'x or y'", "test_b.py"))
    >>> union([a, b])
    ['test_a.py', 'test_b.py', '-k', '(test_a and (x or y)) or test_b']
    """
    files: dict[str, None] = {}
    words: dict[str, None] = {}
    for fault in faults:
        if not fault.tests:
            return []
        before, _, expression = fault.tests.partition(" -k ")
        files |= dict.fromkeys(shlex.split(before))
        for name in (Path(file).stem for file in shlex.split(before)):
            also = [f"({name} and ({word}))" for word in shlex.split(expression)]
            words |= dict.fromkeys(also or [name])
    return [*files, "-k", " or ".join(words)]


def sound(faults: Sequence[Fault], root: Path, whole: bool = False) -> str:
    """What the tests of these faults say of the code without any; nothing if they pass."""
    with copied(root) as tree:
        status, output = pytest_in(tree, [] if whole else union(faults), WHOLE)
    return "" if status == 0 else output[-3000:] or "the time was up"


# ---------------------------------------------------------------- saying so


def line(verdict: Verdict) -> str:
    """A verdict, in the columns of a table."""
    took = f"{verdict.seconds:.0f} s" if verdict.seconds else ""
    return f"{verdict.fault.name:<56}  {verdict.result:<8}  {took:>5}  {verdict.by}"


def chosen(faults: Sequence[Fault], names: Sequence[str]) -> list[Fault]:
    """The faults whose names begin with one of these, or all; those that build the site last.
    ValueError for a name that none begins with.
    """
    for name in names:
        if not any(fault.name.startswith(name) for fault in faults):
            known = ", ".join(fault.name for fault in faults)
            raise ValueError(f"no fault {name!r}; there are {known}")
    found = [f for f in faults if not names or f.name.startswith(tuple(names))]
    return sorted(found, key=lambda fault: fault.site)


def fitting(fault: Fault, root: Path) -> Verdict:
    """Whether a fault still fits the code, as far as the code alone can say."""
    try:
        faulty(fault, root)
    except Stale as error:
        return Verdict(fault, STALE, str(error))
    return Verdict(fault, "", f"{fault.file}, by {fault.tests}")


def main(
    arguments: Sequence[str] | None = None, faults: Sequence[Fault] = FAULTS, root: Path = ROOT
) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="how the names of some faults begin")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="so many at a time")
    parser.add_argument("--whole", action="store_true", help="ask the whole suite")
    parser.add_argument("--list", action="store_true", help="show the faults and run nothing")
    options = parser.parse_args(arguments)
    try:
        todo = [fitting(fault, root) for fault in chosen(faults, options.names)]
    except ValueError as error:
        parser.error(str(error))
    fit = [verdict.fault for verdict in todo if verdict.result != STALE]
    if options.list:
        print("\n".join(map(line, todo)))
        return int(len(fit) < len(todo))
    if fit and (wrong := sound(fit, root, options.whole)):
        print(f"{wrong}\nmutants: without any fault the tests have to pass", file=sys.stderr)
        return 1
    caught = 0
    with ThreadPoolExecutor(max(1, options.j)) as pool:
        for verdict in pool.map(lambda v: tried(v.fault, root, options.whole), todo):
            print(line(verdict), flush=True)
            caught += verdict.result == CAUGHT
    print(f"{caught} of {len(todo)} faults were caught")
    return int(caught < len(todo))


if __name__ == "__main__":
    sys.exit(main())
