"""The tool that puts faults in: on a toy tree it tells those that are caught from the others."""

import subprocess

import pytest
from mutants import Fault, caught_by

CODE = """def less(a, b):
    # both
    return (
        a < b
    )


def more(a, b):
    # both
    return a > b
"""
TEST = """import toy


def test_less():
    assert not toy.less(1, 1)


def test_wrong():
    assert toy.more(1, 1)
"""
FAULTS = {  # the piece, the wrong one, the tests, what becomes of it
    "less": ("return (a < b)", "return a <= b", "less", None, "test_toy.py::test_less"),
    "more": ("return a > b", "return a >= b", "less", AssertionError, "1 passed, 1 deselected"),
    "anyway": ("return (a < b)", "return a <= b", "wrong", ValueError, "no tests that pass"),
    "none": ("return (a < b)", "return a <= b", "nothing", ValueError, "no tests that pass"),
    "gone": ("return a == b", "", "less", ValueError, "toy.py: the piece is there 0 times"),
    "part of a word": ("eturn a < b", "", "less", ValueError, "toy.py: the piece is there 0 times"),
    "twice": ("# both", "", "less", ValueError, "toy.py: the piece is there 2 times"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_or_survives_or_is_stale(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "toy.py").write_text(CODE)
    (tmp_path / "test_toy.py").write_text(TEST)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    before, after, word, refused, told = FAULTS[name]
    fault = Fault(name, "toy.py", before, after, f"test_toy.py -k {word}")
    if refused:
        with pytest.raises(refused, match=told):
            caught_by(fault, tmp_path)
    else:
        assert caught_by(fault, tmp_path) == told
    assert (tmp_path / "toy.py").read_text() == CODE, "the tree itself stays whole"
