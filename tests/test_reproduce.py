"""The published figures against a model: what is collected, what is judged, and what is printed."""

import json
import os
import re
import subprocess
import tomllib
from types import SimpleNamespace
from unittest.mock import create_autospec

import nbformat
import numpy as np
import pandas as pd
import pytest
import reproduce as tool
import torch
from command import ROOT
from IPython.core.formatters import DisplayFormatter

import ctxbook as cb
import ctxlib as cx

GPT2_SMALL = ROOT.parent / "shared" / "gpt2-small" / "layer0-attention.safetensors"

CODE = "cb.ledger(model)"


def texts(count, tokens):
    return [SimpleNamespace(tokens=torch.zeros(tokens))] * count


@pytest.fixture
def as_gpt2_small(tiny, mini, monkeypatch):
    """The toy passes for GPT-2 small, and has as many texts, as long, as were published on."""
    monkeypatch.setattr(cx, "load", lambda _: mini)
    monkeypatch.setattr("ctxbook.ledgers.GPT2_SMALL", cb.known_by(tiny))
    read = create_autospec(cx.texts.collection, return_value=texts(1000, 257))
    monkeypatch.setattr(cx.texts, "collection", read)


@pytest.fixture
def write(repository):
    """A function that writes a book of one notebook a ledger."""

    def notebooks(**ledgers):
        for name, data in ledgers.items():
            (repository / "chapters" / f"{name}.py").touch()
            kept = {tool.LEDGER: data} if data else {}
            shown = nbformat.v4.new_output("execute_result", {"text/plain": "..."}, metadata=kept)
            cells = [nbformat.v4.new_code_cell(CODE, outputs=[shown])]
            notebook = nbformat.v4.new_notebook(cells=cells)
            nbformat.write(notebook, repository / "book" / f"{name}.ipynb")

    return notebooks


def tv(model, here):
    return cb.ledger(model, cb.Claim("tv", "median TV", here)).attrs


# ---------------------------------------------------------------- what a chapter keeps


def test_a_ledger_is_collected_from_the_output_that_shows_it(tiny, tiny_folder, write, capsys):
    """It looks like any table, and has its rows as data."""
    claims = [cb.Claim("tv", "median TV", 0.2, (0.1, 0.3))]
    claims.append(cb.Claim("rotary_slow", "share", 0.1))  # missed, but not by GPT-2 small
    table = cb.ledger(tiny, *claims)
    shown = DisplayFormatter().format
    (ours, beside), (plain, _) = map(shown, (table, pd.DataFrame(table)))
    assert ours == plain
    kept = json.loads(json.dumps(beside[tool.LEDGER]))
    assert kept["first layer"] == cb.known_by(tiny)[0]
    assert str(tiny_folder) not in json.dumps(kept) and os.sep not in json.dumps(kept["texts"])
    assert kept["versions"]["ctxlib"] == cx.__version__
    write(**{"04_a": kept})
    assert tool.main([]) == 0
    output = capsys.readouterr().out
    assert "0.20 [0.10, 0.30]" in output and "ANOTHER MODEL; DOES NOT HOLD HERE." in output
    assert max(map(len, output.splitlines())) <= tool.WIDTH


# ---------------------------------------------------------------- judging


@pytest.mark.parametrize(("here", "code"), [(0.06, 0), (0.2, 1), (float("nan"), 0)])
def test_the_exit_code_is_whether_gpt2_misses_one(tiny, as_gpt2_small, write, capsys, here, code):
    write(**{"02_keys": tv(tiny, here)})
    assert tool.main([]) == code
    assert ("DOES NOT HOLD." in capsys.readouterr().out) == bool(code)


def test_other_texts_are_no_ground_for_a_verdict(tiny, as_gpt2_small, write):
    """Where they are too few, or too short, or both; a figure without texts is judged anyway."""
    claims = (cb.Claim(id, id, 9.0) for id in ("tv", "median_r", "typical_norm"))
    write(**{"02_keys": cb.ledger(tiny, *claims).attrs})

    def verdicts(count, tokens):
        cx.texts.collection.return_value = texts(count, tokens)
        return {row["id"]: row["verdict"] for row in tool.collected("mini").rows}

    missed, other = "does not hold", "other texts"
    assert verdicts(1000, 257) == {"tv": missed, "typical_norm": missed, "median_r": "holds"}
    assert verdicts(999, 257) == {"tv": missed, "typical_norm": missed, "median_r": other}
    assert verdicts(1000, 256) == {"tv": other, "typical_norm": missed, "median_r": other}


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (None, "03_b.ipynb shows a ledger without its data"),
        ({"first layer": "another", "rows": []}, "are of different models"),
        ("gone", "has no 03_b.ipynb"),
    ],
)
def test_what_cannot_be_collected_is_one_line_with_what_to_do(
    tiny, write, repository, refused, second, error
):
    write(**{"02_a": tv(tiny, 0.1)} | ({} if second == "gone" else {"03_b": second}))
    (repository / "chapters" / "03_b.py").touch()
    line = refused(tool.main)
    assert line.startswith("reproduce: ")
    assert error in line and "run `make execute MODEL=mini` first" in line


# ---------------------------------------------------------------- GPT-2's kernels, for a page


def test_the_stored_kernels_come_with_their_provenance_only():
    """What they are is compared in chapter 3."""
    with np.load(tool.KERNELS, allow_pickle=False) as stored:
        assert set(stored) == {"kernels", "n", "C", "source", "sha256"}
        assert stored["kernels"].shape == (12, 501)
    assert tool.KERNELS.stat().st_size < 20_000


@pytest.mark.skipif(not GPT2_SMALL.exists(), reason="GPT-2 small's weights are not at hand")
def test_the_stored_kernels_are_those_of_gpt2_small_itself(tmp_path, monkeypatch):
    stored = np.load(tool.KERNELS, allow_pickle=False)
    monkeypatch.setattr(tool, "KERNELS", tmp_path / "again.npz")
    assert tool.main(["--kernels", str(GPT2_SMALL)]) == 0
    again = np.load(tool.KERNELS, allow_pickle=False)
    np.testing.assert_allclose(again["kernels"], stored["kernels"], atol=1e-4)
    assert [str(again[k]) for k in ("n", "C", "source", "sha256")] == [
        str(stored[k]) for k in ("n", "C", "source", "sha256")
    ]


# ---------------------------------------------------------------- the page


def test_the_page_shows_every_figure_and_its_origin(tiny, as_gpt2_small, write, tmp_path):
    write(**{"02_keys": tv(tiny, 0.06)})
    file = tmp_path / "page.md"
    assert tool.main(["--page", str(file)]) == 0
    output = file.read_text()
    for figure in cb.published_figures().values():
        asked = figure.id == "tv"
        assert tool.plain(figure.plain if asked else figure.statement) in output
    assert "Bound: at most 0.075 | **holds**<br>0.06 ([2](02_keys)) |" in output
    assert str(tmp_path) not in output
    assert f"ctxlib {cx.__version__}" in output and "held-out documents" in output


def test_the_page_in_the_book_is_what_its_notebooks_say(mini):
    """And they are of the model that ships: a fingerprint is the same for good."""
    run = tool.collected("mini")
    assert run.ledgers[0]["first layer"] == cb.known_by(mini)[0]
    assert tool.page(run) == (ROOT / "book" / "reproduction.md").read_text("utf-8")


@pytest.mark.parametrize(("here", "kind"), [(0.2, "depends"), (0.04, "holds")])
def test_the_measurements_of_a_claim_stand_together(tiny, write, here, kind):
    """A claim has one row; its verdict is that in which they agree, if they do."""
    wide, narrow = (
        cb.ledger(tiny, cb.Claim("tv", what, of, (of - off, of + off))).attrs
        for what, of, off in (("typical TV", here, 0.02), ("worst TV", 0.06, 0.01))
    )
    write(**{"02_keys": narrow, "13_families": wide})
    page = tool.page(tool.collected("mini"))
    _, row = re.findall(r"(?m)^\| An attention row .*$", page)  # and one beside real models
    outcome, first, second = row.removesuffix(" |").split("<br>")
    assert outcome.endswith(f"Bound: at most 0.075 | **{kind}**")
    assert "0.06 [" in first.replace("\\", "") and "([2](02_keys)), worst TV" in first
    assert f"{here:.2f} " in second and "([13](13_families)), typical TV" in second
    assert second.startswith("does not hold, by 167%: ") == (here == 0.2)
    assert "another model;" not in page and "agrees best, 1 of 1 hold" in page
    assert (
        f"| **all** | **0** | **{int(here == 0.2)}** | **0** | **{int(here != 0.2)}** | **1** |"
        in page
    )


def test_a_void_measurement_is_shown_and_decides_nothing(tiny, write):
    """Neither the outcome nor the size of a miss."""
    found = {"all": 0.3, "later": 0.4, "one (void: a copy fails)": 0.6}
    claims = (cb.Claim("good_substitute", what, here) for what, here in found.items())
    write(**{"12_a": cb.ledger(tiny, *claims).attrs})
    page = tool.page(tool.collected("mini"))
    (row,) = re.findall(r"(?m)^\| The circuit may be a good .*$", page)
    assert "0.60" in row
    assert "**does not hold, by 20% to 40% (the void test is left out)**<br>" in row


def test_the_page_opens_with_one_sentence_and_counts_that_add_up(tiny, write):
    figures = {
        "tv": 0.2,
        "tv_alike": 1.0,
        "norm_scale": 1.0,
        "orthogonal": 9.0,
        "heads_add": 0.0,
        "weak_linear": 0.5,
    }
    write(**{"02_a": cb.ledger(tiny, *(cb.Claim(id, id, v) for id, v in figures.items())).attrs})
    page = tool.page(tool.collected("mini"))
    sentence = page.split("\n")[2]
    assert "Of 3 that we tried on another model, `mini`, 2 hold, 1 do not, 0 depend" in sentence
    assert "### 2 that were tried by a test that decides little" in page
    assert "it is 3 strictly and 3 leniently, of 5." in page
    assert "| **all** | **1** | **0** | **0** | **2** | **3** |" in page
    about = page.partition("### Keys and positions")[2].partition("\n#")[0]
    outcomes = re.findall(r"\*\*(does not hold|holds)", about)
    assert outcomes == ["does not hold", "holds", "holds"], "the worst first"


def test_every_figure_is_about_something():
    """The subjects follow one another as the figures do, and each begins with one of them."""
    figures = [*cb.published_figures()]
    first = [figures.index(id) for id in tool.SUBJECTS]
    assert first == sorted(first) and first[0] == 0


def test_conditions_were_committed_when_the_page_says():
    """The first and the last of their commits, where the repository has its history."""
    for row in tomllib.loads((ROOT / "tools" / "conditions.toml").read_text("utf-8"))["page"]:
        given = ["show", "-s", "--format=%ad", "--date=format:%-d %B %Y", *row["commits"]]
        done = subprocess.run(["git", *given], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            pytest.skip("no history")
        first, *_, last = done.stdout.splitlines() * 2
        assert row["days"].startswith(first.split()[0]) and last in row["days"]
