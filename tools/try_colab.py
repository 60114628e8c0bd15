"""Run the chapters' notebooks as a fresh Colab runtime would: what stands behind `make colab`.

    python tools/try_colab.py [--python python3.12] [NAME ...]

makes a clean virtual environment outside the repository with the versions that Colab brings along
(tools/colab.txt), installs the wheel of this package into it as pip would in Colab, names what pip
replaced in doing so, and runs every notebook of the book, or the named ones, top to bottom in a
folder of its own. The outcome is a line for each notebook: how long it took, and whether the
outputs that the book checks come out at these versions; below it, what nbval says of those that do
not. A notebook in which a cell fails makes the exit status 1.

Everything is made in a temporary folder and removed; PyPI's torch brings several GB.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import build_book
from command import ROOT, command

VERSIONS = ROOT / "tools" / "colab.txt"
OTHERWISE = ": Cell outputs differ"  # what nbval says of a cell that ran


def build_wheel(out: Path) -> Path:
    """Builds the wheel in a copy, and returns its path. Nothing is downloaded: the build backend is
    the one of this environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, folder)
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "ctxlib", Path(folder) / "ctxlib", ignore=unwanted)
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
        run([*pip, "--wheel-dir", str(out), folder], out)
    (wheel,) = out.glob("ctxlib-*.whl")
    return wheel


def run(command: Sequence[str], cwd: Path, failures: int = 0) -> tuple[int, str]:
    """How a command ends, and what it says; ValueError with the end of that for more than the exit
    status `failures`.
    """
    alone = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    alone |= {"TORCH_HOME": str(cwd), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=cwd, env=alone, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if not 0 <= done.returncode <= failures:
        raise ValueError(f"{' '.join(command)} failed:\n{said.strip()[-3000:]}")
    return done.returncode, said


# ---------------------------------------------------------------- the environment


def runtime(python: str, work: Path) -> Path:
    """The folder of an environment like a Colab runtime's, and nbval."""
    home = work / "runtime"
    run([python, "-m", "venv", str(home)], work)
    pip(home, "install", "--upgrade", "pip")
    nbval = f"nbval=={version('nbval')}"
    pip(home, "install", "--no-compile", "--requirement", str(VERSIONS), nbval)
    return home


def pip(home: Path, *arguments: str) -> str:
    return run([str(home / "bin" / "python"), "-m", "pip", *arguments], home)[1]


# ---------------------------------------------------------------- the notebooks


def tried(notebook: Path, home: Path, work: Path) -> bool:
    """Runs a notebook of the book and says how it went; whether every cell ran."""
    call = [str(home / "bin" / "python"), "-m", "pytest", *build_book.NBVAL, "--maxfail=0", "-rN"]
    call += [f"--nbval-sanitize-with={build_book.SANITIZE}", f"--rootdir={work}"]
    start = time.monotonic()
    differs, said = run([*call, str(shutil.copy(notebook, work))], work, failures=1)
    seconds = time.monotonic() - start
    failed = re.findall(r"(?m)^(\d+) failed", said)
    ran = not differs or failed == [str(said.count(OTHERWISE))]
    outcome = f"{notebook.stem}: {'ran' if ran else 'FAILED'} in {seconds:.0f} s, checked outputs"
    print(outcome, f"come out otherwise:\n{said}" if differs else "agree", flush=True)
    return ran


def trial(python: str, work: Path, notebooks: Sequence[Path]) -> None:
    """The whole of it, told line by line."""
    wheel = build_wheel(work)
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MB", flush=True)
    home = runtime(python, work)
    shutil.copytree(ROOT / "twins", work / "hub" / "ctxlib")  # as if they had been fetched
    replaced = re.findall(r"uninstalled (\S+)", pip(home, "install", str(wheel)))
    shown = "numpy|pandas|torch|transformers|ipywidgets|ipykernel"
    print(*re.findall(rf"(?m)^(?:{shown})==.*", pip(home, "freeze")))
    print(f"replaced by pip: {', '.join(replaced) or 'nothing'}", flush=True)
    if failed := [notebook.stem for notebook in notebooks if not tried(notebook, home, work)]:
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
        trial(options.python, Path(work), [build_book.committed(c) for c in chapters])


if __name__ == "__main__":
    sys.exit(main())
