"""The package as pip installs it: whole, small, typed, in ranges, at work far from its source."""

import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import nbformat
import pytest
import try_colab
from command import ROOT
from packaging.requirements import Requirement

MB = 2**20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return try_colab.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel):
    (installed,) = distributions(path=[str(wheel)])
    return installed.metadata


@pytest.fixture(scope="module")
def needed(metadata):
    return [Requirement(line) for line in metadata.get_all("Requires-Dist")]


def belongs():
    """Every file of the package, by its path in the repository."""
    files = (f for f in (ROOT / "ctxlib").rglob("*") if f.is_file())
    return {f.relative_to(ROOT).as_posix() for f in files if "__pycache__" not in f.parts}


def test_the_wheel_is_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        held = {n for n in archive.namelist() if ".dist-info/" not in n}
        assert held == belongs()
        for name in held:
            assert archive.read(name) == (ROOT / name).read_bytes()
    assert {"ctxlib/py.typed", "ctxlib/data/mini/model.safetensors"} <= held
    assert wheel.stat().st_size <= 16 * MB


def test_the_source_distribution_holds_what_the_wheel_is_built_from(wheel):
    """The wheel was built from it alone."""
    (source,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    assert belongs() | {"pyproject.toml", "README.md", "LICENSE", "NOTICE"} <= names
    assert source.stat().st_size <= 16 * MB


def test_the_package_asks_for_ranges(metadata, needed):
    assert metadata["Name"] == "ctxlib"
    assert metadata["License-Expression"].startswith("MIT AND CC-BY-4.0")
    licences = {"LICENSE", "NOTICE", "ctxlib/data/texts/CREDITS.md"}
    assert licences <= {*metadata.get_all("License-File")}
    assert metadata["Description"].startswith("<img"), "the README describes it"
    for requirement in needed:
        assert {s.operator for s in requirement.specifier} == {">="}, f"{requirement} is no range"


@pytest.mark.parametrize("pins", ["requirements.txt", "tools/colab.txt"])
def test_the_ranges_admit_what_is_pinned_for_the_book_and_what_colab_brings(needed, pins):
    lines = [line.partition("#")[0].strip() for line in (ROOT / pins).read_text().splitlines()]
    asked, held = {r.name.replace("-", "_"): r.specifier for r in needed}, set()
    for pin in map(Requirement, filter(None, lines)):  # some have one for each Python
        (exact,), name = pin.specifier, pin.name.replace("-", "_")
        assert exact.operator == "=="
        if name in asked:
            assert asked[name].contains(exact.version), f"{name}{asked[name]} excludes {pin}"
            held.add(name)
    assert len(held) >= 10


def test_installed_it_works_far_from_its_source(wheel, tmp_path):
    target, elsewhere = tmp_path / "packages", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, cwd=elsewhere)
    script = f"""
import sys
assert not any(p.startswith({str(ROOT)!r}) and "site-packages" not in p for p in sys.path)
sys.path.insert(0, {str(target)!r})
import ctxlib as cx
weights = cx.LayerWeights.of(cx.load("mini"))
view = cx.widgets.NeuronExplorer(weights)
print(cx.__file__, weights.n_ctx, len(cx.texts.passages(weights)), len(view._esm) > 10_000)
"""
    # -I: neither the working folder nor PYTHONPATH
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=elsewhere, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    file, n_ctx, passages, bundled = done.stdout.split()
    assert Path(file) == target / "ctxlib" / "__init__.py"
    assert int(passages) == len(list((ROOT / "ctxlib" / "data" / "passages").glob("*.txt")))
    assert int(n_ctx) > 0 and bundled == "True"


# ---------------------------------------------------------------- trying it as Colab would


def cell(*pieces, tags=("nbval-check-output",)):
    made = nbformat.v4.new_code_cell("1", metadata={"tags": list(tags)})
    made.outputs = [nbformat.v4.new_output("stream", name="stdout", text=p) for p in pieces]
    return made


def test_a_trial_names_the_checked_lines_that_differ():
    book, same, other = (
        nbformat.v4.new_notebook(cells=[cell(*pieces), cell(unchecked, tags=())])
        for pieces, unchecked in (
            (["a 1\nb -0.0\n"], "c"),
            (["a ", "1\nb 0.0\n"], "other"),  # a line that came in two pieces is the same line
            (["a 2\nb 0.0\n"], "c"),
        )
    )
    assert list(try_colab.differences(same, book)) == []
    assert list(try_colab.differences(other, book)) == ["cell 0: -a 1", "cell 0: +a 2"]


def test_a_trial_that_cannot_be_made_is_one_clear_line(capsys):
    assert try_colab.main(["12_none"]) == 1
    errors = capsys.readouterr().err
    assert "no chapter '12_none'; there are 00_welcome" in errors
    assert len(errors.strip().splitlines()) == 1
