"""The known faults find their pieces; and the tool separates the caught ones from the rest."""

import subprocess

import pytest
from command import ROOT
from mutants import FAULTS, Fault, caught_by

CODE = "def less(a, b):\n    return a < b\n\n\ndef more(a, b):\n    return a > b\n"
TEST = """import toy


def test_less():
    assert not toy.less(1, 1)


def test_wrong():
    assert toy.more(1, 1)
"""
TOYS = {  # what finds the piece, the tests, what becomes of it
    "caught": ("(<) b", "less", None, "test_toy.py::test_less"),
    "survives": ("(>) b", "less", AssertionError, "1 passed, 1 deselected"),
    "fails anyway": ("(<) b", "wrong", ValueError, "no tests that pass"),
    "no test": ("(<) b", "nothing", ValueError, "no tests that pass"),
    "gone": ("(==) b", "less", ValueError, "its piece 0 times"),
    "twice": ("([<>]) b", "less", ValueError, "its piece 2 times"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_piece_of_a_known_fault_is_there_once(fault):
    fault.of(ROOT)


@pytest.mark.parametrize("name", TOYS)
def test_a_fault_is_caught_or_survives_or_is_stale(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "toy.py").write_text(CODE)
    (tmp_path / "test_toy.py").write_text(TEST)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    find, word, refused, verdict = TOYS[name]
    fault = Fault(name, "toy.py", find, r"\1= b", f"test_toy.py -k {word}")
    if refused:
        with pytest.raises(refused, match=verdict):
            caught_by(fault, tmp_path)
    else:
        assert caught_by(fault, tmp_path) == verdict
    assert (tmp_path / "toy.py").read_text() == CODE, "the tree itself stays whole"
