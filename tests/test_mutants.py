"""The tool that puts faults in: on a toy tree it tells those that are caught from the others."""

import doctest
import subprocess

import mutants
import pytest
from mutants import Fault

CODE = "def less(a, b):\n    return a < b\n\n\ndef more(a, b):\n    return a > b\n"
TEST = "import toy\n\n\ndef test_less():\n    assert not toy.less(1, 1)\n"
LESS = Fault("less", "toy.py", "return a < b", "return a <= b", "test_toy.py -k less")
MORE = Fault("more", "toy.py", "return a > b", "return a >= b", "test_toy.py")
GONE = Fault("gone", "toy.py", "return a == b", "return a != b", "test_toy.py")
NONE = Fault("none", "toy.py", "return a < b", "return a <= b", "test_toy.py -k nothing")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository of one module; its test asks one of two functions, and needs no plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "toy.py").write_text(CODE)
    (tmp_path / "test_toy.py").write_text(TEST)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_fault_is_caught_or_survives_or_is_stale(tree, capsys):
    assert mutants.main([], [LESS, MORE, GONE, NONE], tree) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {row[0]: (row[1], row[-1]) for row in rows}
    assert found["less"] == ("caught", "test_toy.py::test_less")
    assert found["more"] == ("SURVIVED", "test_toy.py")
    assert found["gone"][0] == found["none"][0] == "STALE"
    assert (tree / "toy.py").read_text() == CODE, "the tree itself stays whole"


def test_it_ends_well_where_every_fault_is_caught(tree):
    assert mutants.main(["le"], [LESS, MORE], tree) == 0


def test_nothing_is_tried_where_tests_fail_without_a_fault(tree, capsys):
    (tree / "toy.py").write_text(CODE.replace("a < b", "a <= b"))
    assert mutants.main([], [MORE], tree) == 1
    said = capsys.readouterr()
    assert "without any fault" in said.err
    assert said.out == ""


def test_a_line_that_is_there_twice_is_stale(tree):
    (tree / "toy.py").write_text(CODE + CODE)
    with pytest.raises(mutants.Stale, match="2 times"):
        mutants.faulty(LESS, tree)


def test_all_tests_together_are_each_files_own():
    failed, tried = doctest.testmod(mutants)
    assert tried and not failed
