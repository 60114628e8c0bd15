"""The package as pip installs it: whole, small, typed, in ranges, at work far from its source."""

import re
import shutil
import subprocess
import sys
import zipfile
from inspect import get_annotations
from pathlib import Path
from pkgutil import resolve_name

import pytest
from command import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_publish import PROJECT

PARTS = PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()
NEEDED = [Requirement(line) for part in PARTS for line in part]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built in a copy; nothing is downloaded, for the build backend is that of this environment."""
    folder, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "ctxlib", folder / "ctxlib", ignore=unwanted)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(out), str(folder)], check=True, cwd=out)
    (wheel,) = out.glob("ctxlib-*.whl")
    return wheel


def test_the_wheel_is_the_package_with_its_licences_and_nothing_else(wheel):
    files = (f for f in (ROOT / "ctxlib").rglob("*") if f.is_file())
    package = {f.relative_to(ROOT).as_posix(): f.read_bytes() for f in files if f.suffix != ".pyc"}
    with zipfile.ZipFile(wheel) as archive:
        held = {n: archive.read(n) for n in archive.namelist() if ".dist-info/" not in n}
        licences = {n.partition("/licenses/")[2] for n in archive.namelist()}
    assert held.keys() == package.keys() and held == package
    assert {"ctxlib/py.typed", "ctxlib/data/mini/model.safetensors"} <= held.keys()
    assert {"LICENSE", "NOTICE", "ctxlib/data/texts/CREDITS.md"} <= licences
    assert wheel.stat().st_size <= 16 * 2**20


def test_the_package_asks_for_ranges():
    assert [need for need in NEEDED if {s.operator for s in need.specifier} != {">="}] == []


@pytest.mark.parametrize("pins", ["requirements.txt", "tools/colab.txt"])
def test_the_ranges_admit_what_is_pinned_for_the_book_and_what_colab_brings(pins):
    lines = [line.partition("#")[0].strip() for line in (ROOT / pins).read_text().splitlines()]
    asked, held = {canonicalize_name(r.name): r.specifier for r in NEEDED}, set()
    for pin in map(Requirement, filter(None, lines)):  # some have one for each Python
        (exact,), name = pin.specifier, canonicalize_name(pin.name)
        assert exact.operator == "=="
        if name in asked:
            assert asked[name].contains(exact.version), f"{name}{asked[name]} excludes {pin}"
            held.add(name)
    assert len(held) >= 10


def test_installed_it_works_far_from_its_source(wheel, tmp_path):
    target, elsewhere = tmp_path / "packages", tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.unpack_archive(wheel, target, "zip")  # which is all that pip does with it
    script = f"""
import sys
assert not any(p.startswith({str(ROOT)!r}) and "site-packages" not in p for p in sys.path)
sys.path.insert(0, {str(target)!r})
import ctxlib as cx
import ctxviews as cv
weights = cx.LayerWeights.of(cx.load("mini"))
bundled = len(cv.NeuronExplorer._esm) > 10_000
print(cx.__file__, weights.n_ctx, len(cx.texts.passages(weights)), bundled)
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


# ---------------------------------------------------------------- what stands on what

PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
NAMED = re.findall(r"`([\w./]*[./]\w*)`", PAGE)


@pytest.mark.parametrize("name", sorted({*NAMED}))
def test_what_the_architecture_names_is_there(name):
    """Files by their path, and names of the package, a dataclass's fields among them."""
    if not (ROOT / name).exists():
        owner, _, last = name.rpartition(".")
        found = resolve_name(f"ctxlib.{owner}")
        assert hasattr(found, last) or last in get_annotations(found)


def test_chapters_that_change_with_equation_1_are_named():
    """A chapter that only reads what Equation 1 gives is in the second list."""
    (named,) = re.findall(r"(?s)chapters ([^;]+), which write it out.*?; ([^;]+), which read", PAGE)
    calls = r"W_pos\[n\]|cx\.split\.(what|where|positional_shift|\w+_scale|\w+_keys|split_\w+)\("
    texts = {re.match(r"0?(\w+?)_", f.name)[1]: f.read_text() for f in ROOT.glob("chapters/*.py")}
    kinds = [calls, r"split\.(content|likes|values)\b"]
    write, read = ({name for name in texts if re.search(kind, texts[name])} for kind in kinds)
    assert [{*re.findall(r"\b[\dA-Z]+\b", part)} for part in named] == [write, read - write]


def test_what_computes_imports_nothing_that_makes_pages():
    pages = r"claims|plots|studies|chat|widgets|decoders(/|\.| import )explain"
    for file in (ROOT / "ctxlib").rglob("*.py"):
        if not re.match(rf"{pages}|__", file.relative_to(ROOT / "ctxlib").as_posix()):
            imported = rf"(?m)^ *(from ctxlib\.|import ctxlib\.|from ctxlib import )({pages})\b"
            assert not re.search(imported, file.read_text("utf-8")), file
