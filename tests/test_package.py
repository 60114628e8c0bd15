"""The packages as pip installs them: whole, small, typed, in ranges, at work far from their source;
and what imports what.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from graphlib import TopologicalSorter
from inspect import get_annotations
from pathlib import Path
from pkgutil import resolve_name

import nbformat
import pytest
from command import ROOT
from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_publish import PROJECT

PACKAGES = ("ctxlib", "ctxviews", "ctxbook")
OF_NPM = {"node_modules", "package.json", "package-lock.json", "jsconfig.json"}
PARTS = PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()
NEEDED = [Requirement(line) for part in PARTS for line in part]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built in a copy; nothing is downloaded, for the build backend is that of this environment."""
    folder, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    for name in PACKAGES:
        unwanted = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    (folder / "data").mkdir()
    (folder / "data" / "kept.json").write_text("[]")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(out), str(folder)], check=True, cwd=out)
    (wheel,) = out.glob("ctxlib-*.whl")
    return wheel


def test_the_wheel_is_the_packages_with_their_licences_and_nothing_else(wheel):
    """Not the repository's `data`, nor what npm needs."""
    files = (f for name in PACKAGES for f in (ROOT / name).rglob("*") if f.is_file())
    files = (f for f in files if f.suffix != ".pyc" and not OF_NPM & {*f.parts})
    package = {f.relative_to(ROOT).as_posix(): f.read_bytes() for f in files}
    with zipfile.ZipFile(wheel) as archive:
        held = {n: archive.read(n) for n in archive.namelist() if ".dist-info/" not in n}
        licences = {n.partition("/licenses/")[2] for n in archive.namelist()}
    assert held.keys() == package.keys() and held == package
    assert {f"{name}/py.typed" for name in PACKAGES} <= held.keys()
    assert {"ctxlib/data/mini/model.safetensors", "ctxviews/engine/circuit.js"} <= held.keys()
    assert {"LICENSE", "NOTICE", "ctxlib/data/texts/CREDITS.md"} <= licences
    assert wheel.stat().st_size <= 16 * 2**20


def test_the_package_requires_ranges():
    assert [need for need in NEEDED if {s.operator for s in need.specifier} != {">="}] == []


@pytest.mark.parametrize("pins", ["requirements.txt", "tools/colab.txt"])
def test_the_ranges_admit_what_is_pinned_for_the_book_and_what_colab_brings(pins):
    lines = [line.partition("#")[0].strip() for line in (ROOT / pins).read_text().splitlines()]
    required, held = {canonicalize_name(r.name): r.specifier for r in NEEDED}, set()
    for pin in map(Requirement, filter(None, lines)):  # some have one for each Python
        (exact,), name = pin.specifier, canonicalize_name(pin.name)
        assert exact.operator == "=="
        if name in required:
            assert required[name].contains(exact.version), f"{name}{required[name]} excludes {pin}"
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
import ctxbook as cb
import ctxlib as cx
import ctxviews as cv
weights = cx.LayerWeights.of(cx.load("mini"))
bundled = len(cv.NeuronExplorer._esm) > 10_000
passages = cx.texts.passages(weights)
print(cx.__file__, weights.n_ctx, len(passages), bundled, cb.published("tv").value)
"""
    # -I: neither the working folder nor PYTHONPATH
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=elsewhere, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    file, n_ctx, passages, bundled, published = done.stdout.split()
    assert Path(file) == target / "ctxlib" / "__init__.py"
    assert int(passages) == len(list((ROOT / "ctxlib" / "data" / "passages").glob("*.txt")))
    assert (int(n_ctx) > 0, bundled, published) == (True, "True", "~0.05")


@pytest.mark.parametrize("page, fetched", [("E_training", "twins"), ("00_welcome", "stored")])
def test_a_page_runs_in_colab_with_what_the_package_fetches(page, fetched, wheel, tmp_path):
    """From the wheel alone; the address of the repository is that of its files here."""
    shutil.unpack_archive(wheel, tmp_path / "packages", "zip")
    start = tmp_path / "ipython" / "profile_default" / "startup" / "address.py"
    start.parent.mkdir(parents=True)
    start.write_text(f"import ctxlib.files; ctxlib.files.ADDRESS = {ROOT.as_uri()!r}")
    here = {"PYTHONPATH": str(tmp_path / "packages"), "IPYTHONDIR": str(tmp_path / "ipython")}
    notebook = nbformat.read(ROOT / "book" / f"{page}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3")
    client.execute(cwd=str(tmp_path), env=os.environ | here | {"TORCH_HOME": str(tmp_path)})
    assert any((tmp_path / "hub" / "ctxlib" / "data" / fetched).iterdir())


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
    parts = r"content_component|positional_component|positional_shift|\w+_scale|\w+_keys|split_\w+"
    calls = rf"W_pos\[n\]|cx\.decompose\.({parts})\("
    texts = {re.match(r"0?(\w+?)_", f.name)[1]: f.read_text() for f in ROOT.glob("chapters/*.py")}
    kinds = [calls, r"decomposition\.(content|log_content|values)\b"]
    write, read = ({name for name in texts if re.search(kind, texts[name])} for kind in kinds)
    assert [{*re.findall(r"\b[\dA-Z]+\b", part)} for part in named] == [write, read - write]


# ---------------------------------------------------------------- what imports what

MAY_IMPORT = {"ctxlib": {"ctxlib"}, "ctxviews": {"ctxlib", "ctxviews"}, "ctxbook": {*PACKAGES}}
# of imports within ctxlib
ORDER = """checks files texts models weights decompose exact adapter query additive planes store
fix heads denominators circuit neurons evaluation studies lookups"""
LATE = {"dask", "datasets", "openai", "pydantic"}  # optional, or slow to import

SOURCES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for name in PACKAGES
    for file in (ROOT / name).rglob("*.py")
    if not OF_NPM & {*file.parts}
}
TREES = {name: ast.parse(file.read_text("utf-8")) for name, file in SOURCES.items()}


def nodes(tree):
    """All of a tree but what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes(node)


def imported(tree):
    """Modules that are imported, and the names that each import binds."""
    for node in nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                whole = of + alias.name
                yield (of.strip(".") if of and whole not in TREES else whole), alias


NEEDS = {name: {module for module, _ in imported(tree)} & {*TREES} for name, tree in TREES.items()}


def test_a_package_imports_only_what_it_stands_on():
    """The command alone, which makes a page of what ctxlib finds, is called from below."""
    for name, needs in NEEDS.items():
        package, more = name.split(".")[0], {"ctxviews"} if name == "ctxlib.__main__" else set()
        assert {n.split(".")[0] for n in needs} <= MAY_IMPORT[package] | more, name


def test_modules_stand_in_one_order_without_a_circle():
    TopologicalSorter(NEEDS).prepare()  # or it names the circle
    ranks = {f"ctxlib.{name}": rank for rank, name in enumerate(ORDER.split())}
    placed = {name: ranks.get(".".join(name.split(".")[:2])) for name in TREES}
    unplaced = {name for name, rank in placed.items() if rank is None}
    assert {n for n in unplaced if n.startswith("ctxlib")} == {"ctxlib", "ctxlib.__main__"}
    for name in placed.keys() - unplaced:
        for needed in NEEDS[name]:
            alike = name.count(".") == needed.count(".") == 2  # of one subpackage
            assert placed[needed] < placed[name] + alike, f"{name} imports {needed}"


def test_functions_import_only_what_is_optional_or_slow():
    for name, tree in TREES.items():
        functions = [n for n in nodes(tree) if isinstance(n, ast.FunctionDef)]
        late = {module.split(".")[0] for body in functions for module, _ in imported(body)}
        assert late <= LATE, name


def test_no_module_reads_the_private_names_of_another():
    def private(name):
        return name.startswith("_") and not name.startswith("__")

    for name, tree in TREES.items():
        own = [(module, alias) for module, alias in imported(tree) if module in TREES]
        assert not [alias.name for _, alias in own if private(alias.name)], name
        held = {alias.asname or alias.name for _, alias in own}
        read = (n for n in nodes(tree) if isinstance(n, ast.Attribute) and private(n.attr))
        assert not [ast.unparse(n) for n in read if ast.unparse(n.value) in held], name
