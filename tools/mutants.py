"""Do the tests catch what matters? Known faults, put in one at a time.

    python tools/mutants.py               all of the faults
    python tools/mutants.py -k nulls      those with this word in their names, as pytest chooses
    python tools/mutants.py -n 2          so many at a time

Each fault of `tools/mutants.toml` makes a piece of the code wrong in a way that has happened or
could: a sign, an index, a mean that is not taken. In a copy of the tracked files, the tests that
should notice are run first as it is, and have to pass; then with the fault, and one has to fail.
Trying a fault is a test itself, so that pytest reports how it went. Where a piece is rewritten on
purpose, its fault goes along, to wherever the same mistake could be made now.

By hand and not by mutmut, which changes operators of Python all over and runs the suite for each:
these are mistakes of meaning, some in JavaScript, and each names the tests that should notice.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import ROOT

LIMIT = 900  # seconds for the tests of one fault
OPTIONS = ["-x", "-q", "--tb=line", "-rfE", "-p", "no:cacheprovider"]


@dataclass(frozen=True)
class Fault:
    """What `find`, a regular expression, finds in `file` is replaced by `put`; `tests` are what
    pytest is given to notice it.
    """

    name: str
    file: str
    find: str
    put: str
    tests: str

    def of(self, root: Path) -> str:
        """Return the text of the file below `root` with the fault in it. Raises ValueError unless
        its piece is there once.
        """
        text = (root / self.file).read_text(encoding="utf-8")
        wrong, places = re.subn(self.find, self.put, text, flags=re.MULTILINE)
        if places != 1:
            raise ValueError(f"{self.name}: {self.file} has its piece {places} times, not once")
        return wrong


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAULTS = [Fault(name, **facts) for name, facts in TABLE.items()]


def caught_by(fault: Fault, root: Path) -> str:
    """Return the test that catches a fault. Raises AssertionError where it survives, ValueError
    where its piece is not there once or its tests do not pass without it.
    """
    wrong = fault.of(root)
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as place:
        tree = Path(place) / "tree"
        tree.mkdir()
        tracked = 'git ls-files -z | tar -cf - --null -T - | tar -xf - -C "$0"'
        subprocess.run(["sh", "-c", tracked, tree], cwd=root, check=True, stderr=subprocess.DEVNULL)

        def tested() -> tuple[int, str]:
            words = [sys.executable, "-m", "pytest", *OPTIONS, *shlex.split(fault.tests)]
            environment = os.environ | {"PYTHONPATH": str(tree), "TMPDIR": place}
            done = subprocess.run(
                words, cwd=tree, env=environment, timeout=LIMIT, capture_output=True, text=True
            )
            return done.returncode, done.stdout

        status, output = tested()
        if status:
            raise ValueError(f"no tests that pass without it: {output.strip()[-300:]}")
        (tree / fault.file).write_text(wrong, encoding="utf-8", newline="")
        status, output = tested()
        failed = re.search(r"^(?:FAILED|ERROR) (\S+::\w+)", output, re.MULTILINE)
        assert status == 1 and failed, f"pytest ended with {status}: {output.strip()[-300:]}"
        return failed[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_is_caught(fault: Fault) -> None:
    print(f"caught by {caught_by(fault, ROOT)}")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-rP", "--tb=line", "--durations=0", *sys.argv[1:]]))
