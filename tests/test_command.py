"""One command from a model to its neurons: what it prints, what it writes, how it refuses."""

import re

import pandas as pd
import pytest
from store_layers import save_layer

import ctxlib as cx
from ctxlib.__main__ import main, neurons


def test_a_models_neurons_in_one_command(tmp_path, capsys):
    """A table of heads, a table that pandas reads, and a page that loads nothing from elsewhere."""
    assert main(["mini", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "stable heads [0, 1, 2, 3, 4, 5, 6, 7] of 8" in output
    assert re.search(r"coefficient of variation\s+stable\s+variance share", output)
    assert "median r" in output and "one page's amounts carry" in output
    assert (tmp_path / "neurons.csv").read_bytes().startswith(b"\xef\xbb\xbf"), "as Excel needs"
    table = pd.read_csv(tmp_path / "neurons.csv", index_col="neuron")
    assert len(table) >= 100 and table["top"].is_monotonic_decreasing
    assert {"label", "auc", "r", "fvu", "top tokens"} <= set(table)
    assert table["r self-normalised"].median() > table["r"].median() > 0.8
    page = (tmp_path / "explorer.html").read_text(encoding="utf-8")
    assert "<title>mini</title>" in page and not re.search(r'(?:src|href)="?https?:', page)


@pytest.mark.parametrize("kind", ["GPT-2", "NeoX, parallel", "Llama", "stored layer"])
def test_ones_own_folders_are_the_labels(tmp_path, capsys, of_kind, tiny_weights, kind):
    sea, code = "the colour of the water at the harbour", "def area(width): return width"
    for label, text in (("sea", sea), ("code", code)):
        folder = tmp_path / "texts" / label
        folder.mkdir(parents=True)
        for k in range(12):
            (folder / f"{k}.txt").write_text(f"{text} {k} " * 60)
    if alone := kind == "stored layer":
        model = save_layer(cx.fix_query(tiny_weights), tmp_path / "kept.safetensors.zst")
    else:
        model = of_kind(kind).folder
    arguments = [str(model), "--texts", str(tmp_path / "texts"), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    table, output = pd.read_csv(tmp_path / "out" / "neurons.csv"), capsys.readouterr().out
    assert set(table["label"]) <= {"sea", "code"}
    assert ("fvu" not in table) == ("nothing exact" in output) == alone
    assert "texts of 2 domains" in output and "held-out" not in output, "it may have read them"


def test_neurons_are_judged_on_texts_that_gave_no_label(mini):
    study = cx.study(mini, texts=60)
    found = neurons(study)
    of = {half: [t for t in study.texts if t.half == half] for half in "AB"}
    fvu = {half: cx.evaluate(study.circuit, of[half], found.index)["fvu"] for half in "AB"}
    assert found["fvu"].tolist() == pytest.approx(fvu["B"].tolist())
    assert found["fvu"].tolist() != pytest.approx(fvu["A"].tolist())
    two = cx.study(mini, [of["A"][0], of["B"][0]], or_all=True)
    assert neurons(two)["fvu"].notna().all(), "where a half has one alone, all are"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no model called 'nowhere'"),
        (["mini", "--texts", "nowhere"], "'nowhere' is no folder"),
        (["mini", "--texts", ""], "'' is no folder"),
        (["there.safetensors"], "there.safetensors"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments, message, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert re.search(f"^ctxlib: .*{message}", refused(main, *arguments, code=1))


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("end", "damage", "message"),
    [
        (".zst", lambda held: held[: len(held) // 2], "no stored layer, or a damaged one"),
        (".zst", lambda held: b"none" + held[4:], "no stored layer, or a damaged one"),
        ("", lambda held: held.replace(b"version 1", b"version 0"), "of another version"),
    ],
)
def test_a_damaged_file_or_another_version_is_refused(end, damage, message, circuit, tmp_path):
    file = circuit.save(tmp_path / f"circuit.safetensors{end}")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=message):
        cx.fix_query(file)
    with pytest.raises(OSError, match=r"no file '.*nowhere.safetensors': .*use cx\.load"):
        cx.fix_query(tmp_path / "nowhere.safetensors")


def test_a_file_comes_before_what_the_repository_has_by_that_name(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_layer(here, tmp_path / "qwen")
    assert cx.fix_query("qwen").n == here.n
