"""Do the tests catch what matters? Known faults, put in one at a time.

    python tools/mutants.py                 all of the faults
    python tools/mutants.py -k LayerNorm    those with this word in their names, as pytest chooses
    python tools/mutants.py -n 2            so many at a time

The faults stand in `tools/mutants.toml`. Each is a piece of the code, wrong in a way that has
happened or could: a sign, an index, a refusal that refuses no more. In a copy of the tracked files,
the tests that should notice are run first as it is, and have to pass; then with the fault, and one
has to fail. Trying a fault is a test itself, so that pytest tells how it went.

One fails if a fault survives, or if it is stale: its piece is no longer there once, which is said
at once and of all of them, or its tests do not pass without it, or are none. A piece that was
rewritten on purpose takes its fault with it, to wherever the same mistake could be made now. Spaces
and line breaks do not matter.

By hand and not by mutmut, which changes operators of Python all over and runs the suite for each:
these are mistakes of meaning, some in JavaScript, and each names the tests that should notice.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import ROOT

LIMIT = 900  # seconds for the tests of one fault


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

    def of(self, root: Path) -> str:
        """The text of the file below `root`, with the fault in it; ValueError unless its piece is
        there once.
        """
        text = (root / self.file).read_text(encoding="utf-8")
        words = map(re.escape, re.findall(r"\w+|[^\w\s]", self.before))
        piece = r"(?<!\w)" + r"\s*".join(words) + r"(?!\w)"
        wrong, places = re.subn(piece, lambda found: self.after, text)
        if places != 1:
            raise ValueError(f"{self.file}: the piece is there {places} times")
        return wrong


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


def caught_by(fault: Fault, root: Path) -> str:
    """The test that catches a fault. AssertionError where it survives, ValueError where it is stale
    or where its tests do not pass without it.
    """
    wrong = fault.of(root)
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as place:
        tree = Path(place) / "tree"
        tree.mkdir()
        tracked = 'git ls-files -z | tar -cf - --null -T - | tar -xf - -C "$0"'
        subprocess.run(["sh", "-c", tracked, tree], cwd=root, check=True, stderr=subprocess.DEVNULL)
        status, output = pytest_in(tree, fault.tests)
        if status:
            raise ValueError(f"no tests that pass without it: {output.strip()[-300:]}")
        (tree / fault.file).write_text(wrong, encoding="utf-8", newline="")
        status, output = pytest_in(tree, fault.tests)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+::\w+)", output, re.MULTILINE)
        assert status == 1 and failed, f"pytest ended with {status}: {output.strip()[-300:]}"
        return failed[1]


# ---------------------------------------------------------------- as tests

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@each_fault
def test_its_piece_is_there_once(fault: Fault) -> None:
    fault.of(ROOT)


@each_fault
def test_it_is_caught(fault: Fault) -> None:
    print(f"caught by {caught_by(fault, ROOT)}")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-rP", "--tb=line", "--durations=0", *sys.argv[1:]]))
