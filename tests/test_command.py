"""One command from a model to its neurons: what it prints, what it writes, how it refuses."""

import base64
import re
from collections import Counter
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from kinds import KINDS, PARALLEL, VARIANTS
from sklearn.metrics import roc_auc_score
from store_layers import save_layer
from viewing import header

import ctxlib as cx
from ctxviews.command import main, neurons
from ctxviews.report import CENTERED, OWN, quality, verdict

FILES = {"neurons.csv", "labels.csv", "explorer.html", "receipt.txt"}
SEA, CODE = "the colour of the water at the harbour", "def area(width): return width"


@pytest.fixture
def write_texts(tmp_path):
    """A function that writes files of a label, each with some repetitions of a text."""

    def write(label, text, lengths):
        folder = tmp_path / "texts" / label
        folder.mkdir(parents=True)
        for k, length in enumerate(lengths):
            (folder / f"{k}.txt").write_text(f"{text} {k} " * length)
        return tmp_path / "texts"

    return write


@pytest.fixture
def two_labels(write_texts):
    write_texts("sea", SEA, [60] * 12)
    return write_texts("code", CODE, [60] * 12)


@pytest.fixture
def ran(tmp_path, capsys):
    """A function that runs the command, and gives what it said and its tables."""

    def run(*words, code=0):
        capsys.readouterr()
        assert main([*map(str, words), "--out", str(tmp_path / "out")]) == code
        read = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in ("neurons", "labels"))
        return capsys.readouterr().out, *read

    return run


def packed_in(page):
    """What the layer that a page holds says of itself."""
    (layer,) = re.findall(r'id="ctx-layer">([^<]+)<', page.read_text(encoding="utf-8"))
    return header(base64.b64decode(layer))


def test_a_models_neurons_in_one_command(tmp_path, capsys):
    """A table of heads, a table that pandas reads, and a page that loads nothing from elsewhere."""
    assert main(["mini", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "stable heads [0, 1, 2, 3, 4, 5, 6, 7] of 8" in said
    assert re.search(r"coefficient of variation\s+stable\s+variance share", said)
    assert "ranks texts well but gets the scale wrong (r 0.97, FVU 0.4" in said
    assert "90 of the 1024 neurons of layer 0's MLP are found; the next 10 are listed" in said
    assert (tmp_path / "neurons.csv").read_bytes().startswith(b"\xef\xbb\xbf"), "as Excel asks"
    table = pd.read_csv(tmp_path / "neurons.csv", index_col="neuron")
    assert len(table) >= 100 and table["top"].is_monotonic_decreasing
    assert {"label", "auc", "r", "fvu", "top tokens"} <= set(table)
    assert table["r self-normalised"].median() > table["r"].median() > 0.8
    page = (tmp_path / "explorer.html").read_text(encoding="utf-8")
    assert "<title>mini</title>" in page and not re.search(r'(?:src|href)="?https?:', page)


@pytest.mark.parametrize("kind", ["GPT-2", "NeoX, parallel", "Llama", "MPNet", "stored layer"])
def test_ones_own_folders_are_the_labels(tmp_path, ran, two_labels, of_kind, tiny_weights, kind):
    """Of the tables and of the page, and of what calibrates."""
    if alone := kind == "stored layer":
        model = save_layer(cx.fix_query(tiny_weights), tmp_path / "kept.safetensors.zst")
    else:
        model = of_kind(kind).folder
    said, table, labels = ran(model, "--texts", two_labels)
    assert set(table["label"]) <= {"sea", "code"} == set(labels["label"])
    page = packed_in(tmp_path / "out" / "explorer.html")
    assert {passage["domain"] for passage in page["passages"]} == {"sea", "code"}
    assert set(table["calibration text"]) == {page["calibration"]["name"]}
    assert page["calibration"]["name"] in {passage["name"] for passage in page["passages"]}
    assert ("fvu" not in table) == ("nothing exact" in said) == alone
    assert "texts of 2 domains" in said and "held-out" not in said, "it may have read them"


def test_neurons_are_judged_on_texts_that_gave_no_label(mini):
    study = cx.study(mini, texts=60)
    found, _ = neurons(study)
    of = {half: [t for t in study.texts if t.half == half] for half in "AB"}
    fvu = {half: cx.evaluate(study.circuit, of[half], found.index)["fvu"] for half in "AB"}
    assert found["fvu"].tolist() == pytest.approx(fvu["B"].tolist())
    assert found["fvu"].tolist() != pytest.approx(fvu["A"].tolist())
    two = cx.study(mini, [of["A"][0], of["B"][0]], or_all=True)
    assert neurons(two)[0]["fvu"].notna().all(), "where a half has one alone, all are"


def test_texts_of_all_labels_are_judged(mini, monkeypatch):
    """In whatever order they come, and of a label with few texts all of them."""
    texts = sorted(cx.texts.collection(mini, 200), key=lambda text: text.domain)
    few = [t for t in texts if t.domain != "law"] + [t for t in texts if t.domain == "law"][:4]
    judged, evaluate = [], cx.evaluate
    monkeypatch.setattr("ctxviews.command.JUDGED", 44)

    def noted(circuit, texts, neurons, client):
        judged.append(texts)
        return evaluate(circuit, texts, neurons, client=client)

    monkeypatch.setattr(cx, "evaluate", noted)
    neurons(cx.study(mini, few))
    count = Counter(text.domain for text in judged[0])
    of_law = sum(text.half == "B" for text in few if text.domain == "law")
    assert len(count) == 22 and count["law"] == of_law < 3 and max(count.values()) <= 3
    assert {text.half for text in judged[0]} == {"B"} and judged[0] == judged[1]


def test_labels_are_learned_on_one_half_and_judged_on_the_other(mini):
    """By hand: the best neuron of a label, and what a neuron's label is worth."""
    study = cx.study(mini, texts=110)
    found, labels = neurons(study)
    told = study.circuit.summary(study.fixed.prepare(study.texts)).double().numpy()
    half, domain = (
        np.array([getattr(t, name) for t in study.texts]) for name in ("half", "domain")
    )

    def auc(which, label, neuron):
        return roc_auc_score(domain[half == which] == label, told[half == which, neuron])

    for neuron, row in found.iloc[::9].iterrows():
        assert row["auc"] == pytest.approx(auc("B", row["label"], neuron), abs=1e-6)
    assert set(labels.index) == set(domain) and (labels.groupby(level=0).size() == 5).all()
    for label in ("law", "german", "cooking"):
        best = labels.loc[label].iloc[0]
        every = {neuron: auc("A", label, neuron) for neuron in found.index}
        assert every[best["neuron"]] == pytest.approx(max(every.values()))
        assert best["auc"] == pytest.approx(auc("B", label, best["neuron"]), abs=1e-6)
        assert best["top tokens"] == found["top tokens"][best["neuron"]]


def test_what_no_half_can_tell_of_a_label_is_said(ran, write_texts, of_kind):
    """One file a label: its windows are in both halves, so no label is lost."""
    of = {"sea": [60, 60], "code": [90], "once": [2], "never": [1]}
    for label, lengths in of.items():
        text = CODE if label == "code" else SEA
        folder = write_texts(label, text, lengths)
    said, _, labels = ran(of_kind("Llama").folder, "--texts", folder)
    assert set(labels["label"]) == {"sea", "code"} and labels["auc"].notna().all()
    assert "never: all files are shorter than a text" in said
    assert "once: not learned, because half A has fewer than two texts" in said
    assert "code: judged on other texts of the one document" in said
    said, _, labels = ran(of_kind("Llama").folder, "--texts", folder / "sea")
    assert list(labels["label"]) and "0, 1: judged on other texts" in said


@pytest.mark.parametrize("kind", [*KINDS, *VARIANTS])
def test_models_of_every_kind_run_and_whose_neurons_they_are_is_said(
    tmp_path, ran, two_labels, of_kind, kind, monkeypatch
):
    """Of parallel models, the second layer's: in print, table, page and repr, and of a file."""
    layer, load = int(kind in PARALLEL), Mock(wraps=cx.load)
    monkeypatch.setattr(cx, "load", load)
    said, table, labels = ran(of_kind(kind).folder, "--texts", two_labels)
    load.assert_called_once()
    assert f"neurons of layer {layer}'s MLP are found" in said
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    receipt = (tmp_path / "out" / "receipt.txt").read_text(encoding="utf-8")
    assert receipt.splitlines()[0] in said and "  model.safetensors" in receipt
    assert table[["r", "fvu", "auc"]].notna().all(axis=None) and len(labels)
    assert set(table["layer"]) == set(labels["layer"]) == {layer}
    assert packed_in(tmp_path / "out" / "explorer.html")["layer"] == layer
    model = of_kind(kind).model
    fixed = cx.fix_query(model, [torch.arange(k, k + 32) for k in (1, 2, 3)], n=20)
    kept = cx.fix_query(save_layer(fixed, tmp_path / "kept.safetensors"))
    for of in (fixed, kept):
        assert of.mlp_layer == layer and f"neurons of layer {layer}," in repr(of)


def test_neurons_that_only_fill_the_list_are_marked_and_count_in_no_median(mini):
    study = cx.study(mini, texts=60)
    found, _ = neurons(study)
    out = found[found["found"]]
    assert out.index.tolist() == cx.find_neurons(study.circuit).index.tolist()
    assert len(found) == 100 > len(out)
    padded = found.assign(r=found["r"].where(found["found"], -1))
    padded.attrs = found.attrs
    assert verdict(padded) == verdict(found) and f"{len(out)} neurons that are found" in verdict(
        found
    )
    above, _ = neurons(study, threshold=30.0)
    assert above["found"].tolist() == (above["top"] > 30).tolist()
    none, _ = neurons(study, threshold=1e6)
    assert not none["found"].any() and "for none is found" in verdict(none)


@pytest.mark.parametrize(
    ("r", "fvu", "says", "good"),
    [
        (0.97, 0.08, "ranks texts well and gets the scale right (r 0.97, FVU 0.08)", True),
        (0.97, 0.45, "ranks texts well but gets the scale wrong (r 0.97, FVU 0.45)", False),
        (0.92, 0.20, "ranks texts well and gets the scale right", True),  # a line would leave 0.15
        (0.80, 0.40, "ranks texts roughly and gets the scale right", False),
        (0.80, 0.60, "ranks texts roughly but gets the scale wrong", False),
        (0.50, 0.80, "hardly ranks texts as the model does", False),
        (float("nan"), float("nan"), "hardly ranks texts as the model does", False),
    ],
)
def test_a_verdict_tells_ranks_from_scales(r, fvu, says, good):
    said, both = quality(pd.Series([r, r, -1.0])[:2], pd.Series([fvu] * 2))
    assert says in said and both == good


@pytest.mark.parametrize(
    ("one", "centred", "own", "advice"),
    [
        (0.05, 0.05, 0.05, "One calibration text is enough."),
        (0.45, 0.05, 0.05, "Use circuit.centered(), with the constants of that text"),
        (0.45, 0.45, 0.05, "Use the self-normalised circuit"),
        (0.45, 0.45, 0.45, "Trust neither's amounts"),
    ],
)
def test_the_advice_is_the_circuit_that_is_good_enough(one, centred, own, advice):
    found = pd.DataFrame({"found": [True], "r": 0.98, "fvu": one})
    for kind, fvu in ((CENTERED, centred), (OWN, own)):
        found[[f"r{kind}", f"fvu{kind}"]] = 0.98, fvu
    found.attrs["texts"] = 2
    assert verdict(found).splitlines()[-1].startswith(advice)


def test_what_can_be_chosen_is_in_the_tables(tmp_path, ran, two_labels, of_kind):
    """Position, token, heads, calibration text; and no file is left half written."""
    (tmp_path / "plain.txt").write_text(f"{CODE} and {SEA} " * 9)
    asked = ["--n", 12, "--token", "d", "--heads", "2,0", "--calibrate", tmp_path / "plain.txt"]
    model = of_kind("GPT-2").folder
    said, table, labels = ran(model, "--texts", two_labels, *asked, "--threshold", 1e-9)
    assert "query token 'd' at n = 12; heads [2, 0] of 3" in said
    assert table["found"].all(), "above a billionth"
    facts = {"model": str(model), "layer": 0, "n": 12, "token": "d", "heads": "2 0"}
    facts |= {"calibration text": str(tmp_path / "plain.txt")}
    for of in (table, labels):
        assert {name: set(of[name]) for name in facts} == {k: {v} for k, v in facts.items()}
    page = (tmp_path / "out" / "explorer.html").read_text(encoding="utf-8")
    assert '"threshold": 1e-09' in page
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES


def test_an_error_leaves_the_old_files_whole(tmp_path, ran, two_labels, of_kind, monkeypatch):
    model = of_kind("Llama").folder
    ran(model, "--texts", two_labels)
    before = {file: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    monkeypatch.setattr("ctxviews.command.page", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main([str(model), "--texts", str(two_labels), "--n", "9", "--out", str(tmp_path / "out")])
    assert before == {file: file.read_bytes() for file in (tmp_path / "out").iterdir()}


def test_a_cluster_judges_as_this_machine_does(ran, two_labels, of_kind, refused):
    import distributed

    asked = [of_kind("GPT-2").folder, "--texts", two_labels]
    kind = {"n_workers": 1, "processes": False, "threads_per_worker": 1}
    quiet = {"dashboard_address": None, "silence_logs": "CRITICAL"}
    quiet |= {"protocol": "tcp", "host": "127.0.0.1"}
    here = ran(*asked)[1]
    with distributed.LocalCluster(**kind, **quiet) as cluster:
        there = ran(*asked, "--dask", cluster.scheduler_address)[1]
    pd.testing.assert_frame_equal(there, here)
    with distributed.LocalCluster(**kind | {"n_workers": 0}, **quiet) as cluster:
        said = refused(main, *asked, "--dask", cluster.scheduler_address, code=1)
    assert "has no workers" in said


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["nowhere"], "no model called 'nowhere'"),
        (["mini", "--n", "600"], "--n 600: choose 2 to 511"),
        (["mini", "--n", "1"], "--n 1: choose 2 to 511"),
        (["mini", "--token", "two words"], "'two words'"),
        (["mini", "--heads", "9"], "head 9: there are heads 0 to 7"),
        (["mini", "--calibrate", "nowhere.txt"], "no file 'nowhere.txt'"),
        (["mini", "--calibrate", "too short a text"], "a text of .* tokens to calibrate on"),
        (["there.safetensors", "--n", "5"], "leave out --n and --token"),
        (["mini", "--dask", "tcp://127.0.0.1:9"], "no Dask scheduler answers at tcp://127.0.0.1:9"),
        (["mini", "--dask", "nonsense://"], "no Dask scheduler answers at nonsense://"),
        (["mini", "--texts", "nowhere"], "'nowhere' is no folder"),
        (["mini", "--texts", ""], "'' is no folder"),
        (["there.safetensors"], "there.safetensors"),
    ],
)
def test_what_cannot_be_done_is_one_line(asked, says, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ctxviews.command.ANSWERS", "1s")
    assert re.search(f"^ctxlib: .*{says}", refused(main, *asked, code=1))


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("end", "damage", "says"),
    [
        (".zst", lambda held: held[: len(held) // 2], "no stored layer, or a damaged one"),
        (".zst", lambda held: b"none" + held[4:], "no stored layer, or a damaged one"),
        ("", lambda held: held.replace(b"version 1", b"version 0"), "of another version"),
    ],
)
def test_a_damaged_file_or_another_version_is_refused(end, damage, says, circuit, tmp_path):
    file = circuit.save(tmp_path / f"circuit.safetensors{end}")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=says):
        cx.fix_query(file)
    with pytest.raises(OSError, match=r"no file '.*nowhere.safetensors': .*use cx\.load"):
        cx.fix_query(tmp_path / "nowhere.safetensors")


def test_a_file_comes_before_what_the_repository_has_by_that_name(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_layer(here, tmp_path / "qwen")
    assert cx.fix_query("qwen").n == here.n
