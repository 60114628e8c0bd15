"""The tool that puts faults in: on a toy tree it tells those that are caught from the others."""

import re
import subprocess

import mutants
from mutants import Fault

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
    "less": ("return (a < b)", "return a <= b", "less", "caught", "test_toy.py::test_less"),
    "more": ("return a > b", "return a >= b", "less", "SURVIVED", "1 passed, 1 deselected"),
    "anyway": (
        "return (a < b)",
        "return a <= b",
        "wrong",
        "STALE",
        "no tests that pass without it",
    ),
    "none": (
        "return (a < b)",
        "return a <= b",
        "nothing",
        "STALE",
        "no tests that pass without it",
    ),
    "gone": ("return a == b", "", "less", "STALE", "toy.py: the piece is there 0 times"),
    "laid out": ("a<b", "a <= b", "less", "caught", "test_toy.py::test_less"),
    "part of a word": ("eturn a < b", "", "less", "STALE", "toy.py: the piece is there 0 times"),
    "twice": ("# both", "", "less", "STALE", "toy.py: the piece is there 2 times"),
}


def test_a_fault_is_caught_or_survives_or_is_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "toy.py").write_text(CODE)
    (tmp_path / "test_toy.py").write_text(TEST)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    faults = [
        Fault(name, "toy.py", before, after, f"test_toy.py -k {word}")
        for name, (before, after, word, *_) in FAULTS.items()
    ]
    assert mutants.main([], faults, tmp_path) == 1
    said = capsys.readouterr().out
    for name, (*_, result, told) in FAULTS.items():
        found = re.search(rf"(?m)^{name} +{result} +\d+ s  (.*(?:\n.*)?)$", said)
        assert told in found[1]
    assert (tmp_path / "toy.py").read_text() == CODE, "the tree itself stays whole"
    assert mutants.main(["le"], faults, tmp_path) == 0
