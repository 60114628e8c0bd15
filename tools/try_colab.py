"""Run the chapters' notebooks as a fresh Colab runtime would: what stands behind `make colab`.

    python tools/try_colab.py [--python python3.12] [NAME ...]

makes a clean virtual environment outside the repository with the versions that Colab brings along
(tools/colab.txt), installs the wheel of this package into it as pip would in Colab, names what pip
replaced in doing so, and runs every notebook, or the named ones, top to bottom in a folder of its
own. Each is made from its chapter, so a chapter can be tried before the book is executed. The
outcome is a line for each notebook: how long it took, and which of the outputs that the book
checks came out differently at these versions. A notebook that fails makes the exit status 1.

Everything is made in a temporary folder and removed; PyPI's torch brings several GB.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import build_book
import jupytext
import nbformat
from command import ROOT, command
from nbval.plugin import get_sanitize_patterns

VERSIONS = ROOT / "tools" / "colab.txt"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")  # what a build needs
SHOWN = ("text/plain", "text/html")  # of an output, as far as it is text


def build_wheel(out: Path) -> Path:
    """Builds the wheel in a copy, by way of the source distribution, and returns its path.

    The source distribution stays beside it. Nothing is downloaded; the build backend is the
    one of this environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in SOURCES:
            shutil.copy(ROOT / name, copy)
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "ctxlib", copy / "ctxlib", ignore=unwanted)
        call = "from setuptools import build_meta as b; import sys; b.build_sdist(sys.argv[1])"
        run([sys.executable, "-c", call, str(out)], copy)
    (source,) = out.glob("ctxlib-*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run([*pip, "--wheel-dir", str(out), str(source)], out)
    (wheel,) = out.glob("ctxlib-*.whl")
    return wheel


def run(command: Sequence[str], cwd: Path) -> str:
    """What a command prints; ValueError with the end of it when it fails."""
    alone = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    alone |= {"TORCH_HOME": str(cwd)}
    done = subprocess.run(command, cwd=cwd, env=alone, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-3000:]
        raise ValueError(f"{' '.join(command)} failed:\n{said}")
    return done.stdout


# ---------------------------------------------------------------- the environment


def runtime(python: str, work: Path) -> Path:
    """The folder of an environment like a Colab runtime's."""
    home = work / "runtime"
    run([python, "-m", "venv", str(home)], work)
    pip(home, "install", "--upgrade", "pip")
    pip(home, "install", "--no-compile", "--requirement", str(VERSIONS))
    return home


def pip(home: Path, *arguments: str) -> str:
    return run([str(home / "bin" / "python"), "-m", "pip", *arguments], home)


def installed(home: Path) -> dict[str, str]:
    """The version of every package of an environment."""
    lines = pip(home, "list", "--format", "freeze").split()
    return dict(line.split("==", 1) for line in lines)


def install(wheel: Path, home: Path) -> list[str]:
    """Installs the wheel as pip does in Colab, free to replace what is there; says what it did."""
    before = installed(home)
    pip(home, "install", str(wheel))
    after = installed(home)
    return [f"{n} {before[n]} by {after[n]}" for n in before if after.get(n) != before[n]]


# ---------------------------------------------------------------- the notebooks


def tried(chapter: Path, home: Path, work: Path) -> tuple[float, list[str]]:
    """Seconds that a chapter's notebook took, and the differences from the book's outputs."""
    file = work / f"{chapter.stem}.ipynb"
    nbformat.write(jupytext.read(chapter), file)
    start = time.monotonic()
    run([str(home / "bin" / "jupyter-execute"), "--inplace", "--timeout=1800", str(file)], work)
    seconds = time.monotonic() - start
    now, book = (nbformat.read(f, as_version=4) for f in (file, ROOT / "book" / file.name))
    return seconds, list(differences(now, book))


def differences(notebook: nbformat.NotebookNode, book: nbformat.NotebookNode) -> Iterator[str]:
    """The lines by which checked outputs differ from the book's, each after its cell's number."""
    for number, (now, then) in enumerate(zip(notebook.cells, book.cells, strict=True)):
        if "nbval-check-output" in now.metadata.get("tags", ()):
            for line in difflib.unified_diff(said(then), said(now), n=0, lineterm=""):
                if line[:3] not in ("---", "+++", "@@ "):
                    yield f"cell {number}: {line}"


def said(cell: nbformat.NotebookNode) -> list[str]:
    """The lines of a cell's outputs, less what may differ between two honest runs."""
    parts: list[str] = []
    for output in cell.outputs:
        if output.output_type == "stream":  # a line may come in two of them
            parts.append(output.text)
        else:
            data = output.get("data", {})
            parts += [f"\n{data[kind]}\n" for kind in SHOWN if data.get(kind)]
    text = "".join(parts)
    for regex, same in get_sanitize_patterns(build_book.SANITIZE.read_text("utf-8")):
        text = re.sub(regex, same, text)
    return text.splitlines()


def trial(python: str, work: Path, chapters: Sequence[Path]) -> None:
    """The whole of it, told line by line."""
    wheel = build_wheel(work)
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MB", flush=True)
    home = runtime(python, work)
    shutil.copytree(ROOT / "twins", work / "hub" / "ctxlib")  # as if they had been fetched
    replaced = install(wheel, home)
    versions = installed(home)
    shown = ("numpy", "pandas", "torch", "transformers", "ipywidgets", "ipykernel")
    print(", ".join(f"{n} {versions[n]}" for n in shown))
    print(f"replaced by pip: {', '.join(replaced) or 'nothing'}", flush=True)
    failed = []
    for chapter in chapters:
        try:
            seconds, found = tried(chapter, home, work)
        except ValueError as error:
            failed.append(chapter.stem)
            print(f"{chapter.stem}: FAILED; {error}", flush=True)
            continue
        outcome = f"{len(found)} lines differ" if found else "checked outputs agree"
        print(f"{chapter.stem}: ran in {seconds:.0f} s, {outcome}")
        print("".join(f"    {line[:200]}\n" for line in found), end="", flush=True)
    if failed:
        raise ValueError(f"{len(failed)} failed: {', '.join(failed)}")


@command("colab", status=1)
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="chapters such as 02_keys")
    parser.add_argument("--python", default=sys.executable, help="whose version is tried")
    options = parser.parse_args(argv)
    named = options.names or [None]
    chapters = [chapter for name in named for chapter in build_book.named(name)]
    with tempfile.TemporaryDirectory(prefix="colab-") as work:
        trial(options.python, Path(work), chapters)


if __name__ == "__main__":
    sys.exit(main())
