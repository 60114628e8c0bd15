"""The published figures against a model: what is collected, what is judged, and what is said."""

import json
import os
import re
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
from safetensors.torch import load_file, save_file

import ctxlib as cx

GPT2_SMALL = ROOT.parent / "shared" / "gpt2-small"

CODE = "cx.claims.ledger(model)"


def texts(count, tokens):
    return [SimpleNamespace(tokens=torch.zeros(tokens))] * count


@pytest.fixture
def as_gpt2_small(tiny, mini, monkeypatch):
    """The toy passes for GPT-2 small, and has as many texts, as long, as were published on."""
    monkeypatch.setattr(cx, "load", lambda _: mini)
    monkeypatch.setattr("ctxlib.claims.ledgers.GPT2_SMALL", cx.claims.known_by(tiny))
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
    return cx.claims.ledger(model, cx.claims.Claim("tv", "median TV", here)).attrs


@pytest.fixture
def part(tiny_folder, tmp_path, monkeypatch):
    """A folder with the positional half of the toy's first layer, which has three heads."""
    for name, value in {"HEADS": 3, "N": 20, "SIX": [0, 1], "LOCAL": [2]}.items():
        monkeypatch.setattr(tool, name, value)
    names = "wpe.weight", *(f"h.0.{n}." for n in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2"))
    state = load_file(tiny_folder / "model.safetensors")
    kept = {k.removeprefix("transformer."): v for k, v in state.items()}
    folder = tmp_path / "part"
    folder.mkdir()
    save_file(
        {k: v.clone() for k, v in kept.items() if k.startswith(names)}, folder / "a.safetensors"
    )
    return folder


# ---------------------------------------------------------------- what a chapter keeps


def test_a_ledger_is_collected_from_the_output_that_shows_it(tiny, tiny_folder, write, capsys):
    """It looks like any table, and has its rows as data."""
    table = cx.claims.ledger(tiny, cx.claims.Claim("tv", "median TV", 0.2, (0.1, 0.3)))
    shown = DisplayFormatter().format
    (ours, beside), (plain, _) = map(shown, (table, pd.DataFrame(table)))
    assert ours == plain
    kept = json.loads(json.dumps(beside[tool.LEDGER]))
    assert kept["first layer"] == cx.claims.known_by(tiny)[0]
    assert str(tiny_folder) not in json.dumps(kept) and os.sep not in json.dumps(kept["texts"])
    assert kept["versions"]["ctxlib"] == cx.__version__
    write(**{"04_a": kept})
    assert tool.main([]) == 0
    said = capsys.readouterr().out
    assert "0.20 [0.10, 0.30]" in said and "ANOTHER MODEL; DOES NOT HOLD HERE." in said
    assert max(map(len, said.splitlines())) <= tool.WIDTH


# ---------------------------------------------------------------- judging


@pytest.mark.parametrize(("here", "code"), [(0.06, 0), (0.2, 1), (float("nan"), 0)])
def test_the_exit_code_says_whether_gpt2_misses_one(tiny, as_gpt2_small, write, capsys, here, code):
    write(**{"02_keys": tv(tiny, here)})
    assert tool.main([]) == code
    assert ("DOES NOT HOLD." in capsys.readouterr().out) == bool(code)


def test_other_texts_are_no_ground_for_a_verdict(tiny, as_gpt2_small, write):
    """Where they are too few, or too short, or both; a figure without texts is judged anyway."""
    claims = (cx.claims.Claim(id, id, 9.0) for id in ("tv", "median_r", "typical_norm"))
    write(**{"02_keys": cx.claims.ledger(tiny, *claims).attrs})

    def verdicts(count, tokens):
        cx.texts.collection.return_value = texts(count, tokens)
        return {row["id"]: row["verdict"] for row in tool.collected("mini").rows}

    missed, other = "does not hold", "other texts"
    assert verdicts(1000, 257) == {"tv": missed, "typical_norm": missed, "median_r": "holds"}
    assert verdicts(999, 257) == {"tv": missed, "typical_norm": missed, "median_r": other}
    assert verdicts(1000, 256) == {"tv": other, "typical_norm": missed, "median_r": other}


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (None, "03_b.ipynb shows a ledger without its data"),
        ({"first layer": "another", "rows": []}, "are of different models"),
        ("gone", "has no 03_b.ipynb"),
    ],
)
def test_what_cannot_be_collected_is_one_line_with_what_to_do(
    tiny, write, repository, refused, second, said
):
    write(**{"02_a": tv(tiny, 0.1)} | ({} if second == "gone" else {"03_b": second}))
    (repository / "chapters" / "03_b.py").touch()
    told = refused(tool.main)
    assert told.startswith("reproduce: ")
    assert said in told and "run `make execute MODEL=mini` first" in told


# ---------------------------------------------------------------- a part of a layer


def test_a_part_is_measured_without_texts(part, as_gpt2_small, capsys):
    assert tool.main(["--positional", str(part)]) in (0, 1)
    rows = {row["id"]: row for row in tool.positional(part).rows}
    assert len(rows) == 5 and {r["verdict"] for r in rows.values()} <= {"holds", "does not hold"}
    weights = tool.read(part)[1]
    shared = cx.shared_kernel(cx.positional_kernels(weights, 20, None, tool.C)[[0, 1]])
    assert rows["bag_length"]["this run"] == f"{float(cx.effective_tokens(shared)) / 2:.0f}"


def test_other_weights_and_damaged_ones_are_one_line(part, tmp_path, refused):
    file = part / "a.safetensors"
    said = []
    for change in (lambda: None, lambda: file.write_bytes(b"nothing"), file.unlink):
        change()
        said.append(refused(tool.main, "--positional", part))
    words = ("does not hold the first layer of GPT-2 small", "cannot be read", "no .safetensors")
    assert [word in line for word, line in zip(words, said, strict=True)] == [True] * 3
    refused(tool.main, "--positional", tmp_path / "none.safetensors")


# ---------------------------------------------------------------- GPT-2's kernels, for a page

KERNELS = cx.models.DATA / "gpt2-kernels.npz"
# this book's own: family: head: effective tokens, how far back half of the mass reaches; rounded
REFERENCE = {
    "slowly decaying": {
        0: (113, 36), 1: (121, 40), 2: (133, 42), 6: (102, 32), 8: (90, 28), 9: (102, 33),
        10: (97, 31),
    },
    "local": {3: (5.6, 1), 4: (8.9, 3), 7: (7.1, 2)},
    "uniform": {5: (31, 311), 11: (322, 269)},
}  # fmt: skip


def test_the_stored_kernels_are_those_of_before_with_their_provenance_only():
    with np.load(KERNELS, allow_pickle=False) as stored:
        assert set(stored) == {"kernels", "n", "C", "source", "sha256"}
        assert "openai-community/gpt2" in str(stored["source"])
        kernels = stored["kernels"].astype(np.float32)
    assert KERNELS.stat().st_size < 20_000
    assert kernels.shape == (12, 501) and (kernels >= 0).all()
    assert (abs(kernels.sum(-1) - 1) < 1e-3).all()
    table = cx.split.family_table(torch.tensor(kernels))
    for family, heads in REFERENCE.items():
        for head, (spread, half) in heads.items():
            rounding = 0.06 if spread < 10 else 0.6
            assert table.loc[head, "effective tokens"] == pytest.approx(spread, abs=rounding)
            assert table.loc[head, "half of the mass within"] == half
            assert table.loc[head, "family"] == family


@pytest.mark.skipif(not GPT2_SMALL.exists(), reason="GPT-2 small's weights are not at hand")
def test_gpt2_small_itself_holds_by_its_positions_and_has_the_stored_kernels(tmp_path, capsys):
    file = tmp_path / "again.npz"
    assert tool.main(["--positional", str(GPT2_SMALL), "--kernels", str(file)]) == 0
    said = capsys.readouterr().out
    assert re.findall(r"(?m)^(\S+), HOLDS\.", said) == ["3", "6", "0", "0.83", "52"]
    assert said.endswith("\nholds 5\n")
    with np.load(file, allow_pickle=False) as again, np.load(KERNELS, allow_pickle=False) as stored:
        assert str(again["sha256"]) == str(stored["sha256"])
        np.testing.assert_allclose(again["kernels"], stored["kernels"], atol=1e-4)


# ---------------------------------------------------------------- the page


def test_the_page_shows_every_figure_and_its_origin(tiny, part, as_gpt2_small, write, tmp_path):
    write(**{"02_keys": tv(tiny, 0.06)})
    file = tmp_path / "page.md"
    argv = ["--model", "mini", "--positional", str(part), "--page", str(file)]
    tool.main(argv)
    first = file.read_text()
    for figure in cx.claims.figures().values():
        assert tool.plain(figure.statement) in first
    assert "| median TV ([2](02_keys)) | 0.06 | at most 0.075 | holds |" in first
    assert str(tmp_path) not in first and "The weights are those of GPT-2 small" in first
    assert f"ctxlib {cx.__version__}" in first and "held-out documents" in first
    tool.main(argv)
    assert file.read_text() == first


def test_the_page_in_the_book_is_what_its_notebooks_say():
    text = (ROOT / "book" / "reproduction.md").read_text(encoding="utf-8")
    rows = [
        line
        for line in tool.page(tool.collected("mini")).splitlines()
        if line[:2] == "| " and "](" in line
    ]
    own = [line for line in rows if "GPT-2 small:" in line]  # in a table with what a part says
    rows = [line for line in rows if line not in own]
    assert len(rows) > 40 and "\n".join(rows) in text
    assert own and all(line.replace("|  |  |  ", "") in text for line in own)


def test_a_published_number_has_one_line_that_of_the_widest_interval(tiny, write):
    wide, narrow = (
        cx.claims.ledger(tiny, cx.claims.Claim("tv", what, here, (here - off, here + off))).attrs
        for what, here, off in (("typical TV", 0.2, 0.1), ("worst TV", 0.06, 0.01))
    )
    write(**{"02_keys": narrow, "11_families": wide})
    (row,) = re.findall(r".* TV; also .*", tool.page(tool.collected("mini")))
    assert "typical TV; also 0.06 \\[0.05, 0.07\\]: holds here ([11](11_families))" in row
