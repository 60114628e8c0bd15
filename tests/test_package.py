"""The package as pip installs it: whole, small, typed, in ranges, at work far from its source."""

import email
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest
import try_colab
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
MB = 2**20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return try_colab.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


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


def test_the_package_asks_for_ranges(metadata):
    assert metadata["Name"] == "ctxlib"
    assert metadata["License-Expression"].startswith("MIT AND CC-BY-4.0")
    assert {"LICENSE", "NOTICE", "ctxlib/data/texts/CREDITS.md"} <= {
        *metadata.get_all("License-File")
    }
    assert metadata.get_payload().startswith("<img"), "the README describes it"
    for requirement in needed(metadata):
        assert {s.operator for s in requirement.specifier} == {">="}, f"{requirement} is no range"


@pytest.mark.parametrize("pins", ["requirements.txt", "tools/colab.txt"])
def test_the_ranges_admit_what_is_pinned_for_the_book_and_what_colab_brings(metadata, pins):
    lines = [line.partition("#")[0].strip() for line in (ROOT / pins).read_text().splitlines()]
    fixed = {}  # some have one for each Python
    for pin in map(Requirement, filter(None, lines)):
        (exact,) = pin.specifier
        assert exact.operator == "=="
        fixed.setdefault(pin.name.replace("-", "_"), []).append(exact.version)
    asked = [r for r in needed(metadata) if r.name.replace("-", "_") in fixed]
    assert len(asked) >= 10
    for requirement in asked:
        for version in fixed[requirement.name.replace("-", "_")]:
            assert requirement.specifier.contains(version), f"{requirement} excludes {version}"


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
    assert int(n_ctx) > 0
    assert int(passages) == len(list((ROOT / "ctxlib" / "data" / "passages").glob("*.txt")))
    assert bundled == "True"


# ---------------------------------------------------------------- trying it as Colab would


def cell(*lines, tags=("nbval-check-output",)):
    made = nbformat.v4.new_code_cell("1", metadata={"tags": list(tags)})
    text = "".join(f"{line}\n" for line in lines)
    made.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
    return made


def test_a_trial_names_the_checked_lines_that_differ():
    book = nbformat.v4.new_notebook(cells=[cell("a 1", "b -0.0"), cell("c", tags=())])
    same = nbformat.v4.new_notebook(cells=[cell("a 1", "b 0.0"), cell("other", tags=())])
    other = nbformat.v4.new_notebook(cells=[cell("a 2", "b 0.0"), cell("c", tags=())])
    assert list(try_colab.differences(same, book)) == []
    assert list(try_colab.differences(other, book)) == ["cell 0: -a 1", "cell 0: +a 2"]


def test_a_line_that_came_in_two_pieces_is_the_same_line():
    book = nbformat.v4.new_notebook(cells=[cell("a: 1")])
    pieces = nbformat.v4.new_notebook(cells=[cell("a: 1")])
    pieces.cells[0].outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("a: ", "1\n")
    ]
    assert list(try_colab.differences(pieces, book)) == []


def test_a_trial_that_cannot_be_made_is_one_clear_line(capsys):
    assert try_colab.main(["12_none"]) == 1
    errors = capsys.readouterr().err
    assert "no chapter '12_none'; there are 00_welcome" in errors
    assert len(errors.strip().splitlines()) == 1
