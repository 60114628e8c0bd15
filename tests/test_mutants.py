"""The tool that puts faults in: on a toy tree it tells those that are caught from the others."""

import subprocess

import mutants
import pytest
from command import ROOT
from mutants import Fault

CODE = "def less(a, b):\n    return a < b\n\n\ndef more(a, b):\n    return a > b\n"
TEST = """import toy


def test_less():
    assert not toy.less(1, 1)


def test_wrong():
    assert toy.more(1, 1)
"""
LESS = Fault("less", "toy.py", "return a < b", "return a <= b", "test_toy.py -k less")
FAULTS = {
    LESS: ("caught", "test_toy.py::test_less"),
    Fault("more", "toy.py", "return a > b", "return a >= b", "test_toy.py -k less"): (
        "SURVIVED", "test_toy.py -k less",
    ),
    Fault("anyway", "toy.py", "return a < b", "return a <= b", "test_toy.py -k wrong"): (
        "SURVIVED", "test_toy.py::test_wrong fails without it as well",
    ),
    Fault("gone", "toy.py", "return a == b", "", "test_toy.py"): (
        "STALE", "toy.py: the line is there 0 times",
    ),
    Fault("none", "toy.py", "return a < b", "return a <= b", "test_toy.py -k nothing"): (
        "STALE", "no such tests: test_toy.py -k nothing",
    ),
}  # fmt: skip


def test_a_fault_is_caught_or_survives_or_is_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "toy.py").write_text(CODE)
    (tmp_path / "test_toy.py").write_text(TEST)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert mutants.main([], list(FAULTS), tmp_path) == 1
    said = capsys.readouterr().out
    for fault, (result, by) in FAULTS.items():
        (line,) = [line for line in said.splitlines() if line.startswith(f"{fault.name} ")]
        assert line.split()[1] == result and line.endswith(f" s  {by}")
    assert (tmp_path / "toy.py").read_text() == CODE, "the tree itself stays whole"
    assert mutants.main(["le"], list(FAULTS), tmp_path) == 0
    (tmp_path / "toy.py").write_text(CODE + CODE)
    with pytest.raises(mutants.Stale, match="2 times"):
        mutants.faulty(LESS, tmp_path)


@pytest.mark.parametrize("fault", mutants.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_the_table_fits_the_code(fault):
    assert mutants.faulty(fault, ROOT) != (ROOT / fault.file).read_text(encoding="utf-8")
