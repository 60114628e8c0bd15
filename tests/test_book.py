"""The notebooks are their chapters, the build keeps what it has, and a changed claim is found."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jupytext
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import address
import build_book

CHAPTERS = sorted((ROOT / "chapters").glob("*.py"))
NUMBERED = [c for c in CHAPTERS if not c.stem.startswith("00")]
TEMPLATE = ROOT / "chapters" / "template" / "NN_slug.py"  # what a new chapter begins from


def tagged(notebook, tag):
    return [c for c in notebook.cells if tag in c.metadata.get("tags", ())]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.stem)
def test_the_committed_notebook_is_its_chapter_executed(chapter):
    source = jupytext.read(chapter)
    made = ROOT / "book" / f"{chapter.stem}.ipynb"
    assert made.exists(), f"run `make execute CHAPTER={chapter.stem}` and commit {made.name}"
    notebook = nbformat.read(made, as_version=4)
    nbformat.validate(notebook)
    assert [c.source for c in notebook.cells] == [c.source for c in source.cells], (
        f"{made.name} was made from another source: run `make execute CHAPTER={chapter.stem}`"
    )
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count, "every cell was run"
            assert not [o for o in cell.outputs if o.output_type == "error"]
            assert not [o for o in cell.outputs if o.get("name") == "stderr"], (
                "no warnings on the page"
            )


@pytest.mark.parametrize("chapter", [*NUMBERED, TEMPLATE], ids=lambda c: c.stem)
def test_a_chapter_has_the_parts_of_the_house_style(chapter):
    source = jupytext.read(chapter)
    prose = "\n".join(c.source for c in source.cells if c.cell_type == "markdown")
    assert source.cells[0].source.splitlines()[0].endswith("?"), "its title is a question"
    for heading in ("## Turn it", "## Claims", "## Exercises", "## Where this comes from"):
        assert heading in prose
    assert [len(tagged(source, t)) for t in ("setup", "parameters")] == [1, 1]
    first_code = next(c for c in source.cells if c.cell_type == "code")
    assert "setup" in first_code.metadata.tags
    (parameters,) = tagged(source, "parameters")
    assert 'MODEL = "gpt2"' in parameters.source, "it says how to read GPT-2 itself"
    ledgers = [c for c in tagged(source, "nbval-check-output") if "claims.ledger" in c.source]
    assert len(ledgers) == 1, "one ledger, and it is compared"


@pytest.mark.parametrize("chapter", NUMBERED, ids=lambda c: c.stem)
def test_a_chapter_stands_wherever_readers_look_for_it(chapter):
    title = jupytext.read(chapter).cells[0].source.splitlines()[0].removeprefix("# ")
    number, name = int(chapter.stem[:2]), chapter.stem
    notebook = f"{address.forms(address.address())[1]}/blob/main/book/{name}.ipynb"
    lines = {
        "_toc.yml": f"- file: book/{name}",
        "chapters/00_welcome.py": f"| [Chapter {number}]({name}) | {title} |",
        "README.md": f"| {number} | {title} | [open](https://{notebook}) |",
    }
    absent = [
        f"{file} lacks the line: {line}"
        for file, line in lines.items()
        if line
        not in [written.strip() for written in (ROOT / file).read_text("utf-8").splitlines()]
    ]
    assert not absent, "\n".join(absent)


@pytest.mark.parametrize("chapter", [*NUMBERED, TEMPLATE], ids=lambda c: c.stem)
def test_figures_bear_the_number_of_their_chapter(chapter):
    numbers = re.findall(r"picture\(\s*\w+,\s*f?\"([^\"]+)\"", chapter.read_text("utf-8"))
    number = chapter.stem.partition("_")[0].removeprefix("0")
    astray = [given for given in numbers if not re.fullmatch(rf"{number}\.\d+", given)]
    assert numbers and not astray, f"a figure here is called {number}.1, {number}.2 and so on"


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("chapter", [*CHAPTERS, TEMPLATE], ids=lambda c: c.stem)
def test_the_setup_cell_installs_the_package_only_where_it_is_missing(chapter, there, monkeypatch):
    (setup,) = tagged(jupytext.read(chapter), "setup")
    assert len(setup.source.splitlines()) <= 3
    assert not setup.source.startswith("%"), "it is Python, which ruff reads"
    calls = []
    shell = SimpleNamespace(run_line_magic=lambda *call: calls.append(call))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if there else None)
    exec(setup.source, {"get_ipython": lambda: shell})
    address = re.search(r"(?m)^ *repository_url: (\S+)", (ROOT / "_config.yml").read_text())[1]
    assert calls == ([] if there else [("pip", f"install -q git+{address}")])


def test_every_cell_that_prints_is_compared():
    for chapter in (*CHAPTERS, TEMPLATE):
        for cell in jupytext.read(chapter).cells:
            if (
                cell.cell_type == "code"
                and "print(" in cell.source
                and "setup" not in cell.metadata.get("tags", ())
            ):
                assert "nbval-check-output" in cell.metadata.get("tags", ()), cell.source


@pytest.mark.parametrize("which", ["mini", "another model"])
def test_the_template_runs_as_it_stands(which, tiny_folder):
    model = which if which == "mini" else str(tiny_folder)
    finished = build_book.run(jupytext.read(TEMPLATE), TEMPLATE, model)
    nbformat.validate(finished)
    outputs = [o for c in finished.cells for o in c.get("outputs", ())]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    assert "same as the model's: True\n" in [o.get("text") for o in outputs]
    pages = [o.data["text/html"] for o in outputs if "text/html" in o.get("data", {})]
    assert len([p for p in pages if "Figure NN." in p and "aria-label=" in p]) == 2
    assert len([p for p in pages if "verdict" in p]) == 1


# ---------------------------------------------------------------- the build loses nothing


def house(tmp_path, monkeypatch, body):
    """A repository with one chapter, whose notebook was made before and is to be kept."""
    for name in ("chapters", "book", "ctxlib"):
        (tmp_path / name).mkdir()
    (tmp_path / "requirements.txt").write_text("")
    (tmp_path / "chapters" / "01_x.py").write_text(body)
    (tmp_path / "book" / "01_x.ipynb").write_text("as it was")
    monkeypatch.setattr(build_book, "ROOT", tmp_path)
    monkeypatch.setattr(build_book, "CHAPTERS", tmp_path / "chapters")
    monkeypatch.setattr(build_book, "BUILD", tmp_path / "_build")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "book" / "01_x.ipynb"


def test_a_failing_chapter_names_its_cell_and_leaves_the_notebook(tmp_path, monkeypatch, capsys):
    notebook = house(tmp_path, monkeypatch, "# %%\na = 1\n\n# %%\nb = a / 0\n")
    assert build_book.main(["execute"]) == 1
    errors = capsys.readouterr().err
    assert "01_x.py, code cell 2 ('b = a / 0'): ZeroDivisionError: division by zero" in errors
    assert notebook.read_text() == "as it was"
    assert sorted(p.name for p in notebook.parent.iterdir()) == ["01_x.ipynb"], (
        "nothing half-written is left"
    )


def test_a_chapter_is_executed_once_and_again_when_it_changes(tmp_path, monkeypatch, capsys):
    notebook = house(tmp_path, monkeypatch, "# %%\nprint(6 * 7)\n")
    assert build_book.main(["execute"]) == 0
    assert "42" in notebook.read_text()
    first = notebook.stat().st_mtime_ns
    capsys.readouterr()
    assert build_book.main(["execute"]) == 0
    assert "01_x.py: unchanged" in capsys.readouterr().out
    assert notebook.stat().st_mtime_ns == first
    (tmp_path / "chapters" / "01_x.py").write_text("# %%\nprint(6 * 8)\n")
    assert build_book.main(["execute"]) == 0
    assert "48" in notebook.read_text()


def test_one_chapter_alone_can_be_executed(tmp_path, monkeypatch, capsys):
    kept = house(tmp_path, monkeypatch, "# %%\na = 1 / 0\n")
    (tmp_path / "chapters" / "02_y.py").write_text("# %%\nprint(6 * 7)\n")
    assert build_book.main(["execute", "--chapter", "02_y"]) == 0
    assert "42" in kept.with_name("02_y.ipynb").read_text()
    assert kept.read_text() == "as it was"
    assert build_book.main(["execute", "--chapter", "2"]) == 1
    assert "no chapter '2'; there are 01_x, 02_y" in capsys.readouterr().err


def test_another_edition_goes_elsewhere_and_says_which_model(tmp_path, monkeypatch):
    notebook = house(
        tmp_path,
        monkeypatch,
        '# %% tags=["parameters"]\nMODEL = "mini"  # which\n\n# %%\nprint(MODEL)\n',
    )
    model = tmp_path / "my model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    assert build_book.main(["execute", "--model", str(model)]) == 0
    assert notebook.read_text() == "as it was"
    (edition,) = (tmp_path / "_build" / "editions").rglob("01_x.ipynb")
    cells = nbformat.read(edition, as_version=4).cells
    assert cells[0].source == 'MODEL = "my model"  # which', "no folder of this machine"
    assert cells[1].outputs[0].text.strip() == str(model)
    assert edition.parent.parent.name == "my-model"


def test_texts_of_ones_own_make_no_chapter_of_the_book(tmp_path, monkeypatch, capsys):
    notebook = house(tmp_path, monkeypatch, "# %%\n1\n")
    monkeypatch.setenv("CTX_TEXTS", str(tmp_path))
    assert build_book.main(["execute"]) == 1
    assert "CTX_TEXTS is set" in capsys.readouterr().err
    assert notebook.read_text() == "as it was"


def test_an_edition_on_other_texts_is_another_one(tmp_path, monkeypatch, capsys):
    house(tmp_path, monkeypatch, "# %%\n1\n")
    model, own = tmp_path / "model", tmp_path / "texts"
    for folder in (model, own):
        folder.mkdir()
    (model / "config.json").write_text("{}")
    (own / "a.txt").write_text("some words")

    def outcome():
        assert build_book.main(["execute", "--model", str(model)]) == 0
        return capsys.readouterr().out.split()[1]

    assert [outcome(), outcome()] == ["executed", "unchanged"]
    monkeypatch.setenv("CTX_TEXTS", str(own))
    assert [outcome(), outcome()] == ["executed", "unchanged"]
    (own / "a.txt").write_text("other words, and more")
    assert [outcome(), outcome()] == ["executed", "unchanged"]


def test_an_unknown_model_is_one_clear_line(tmp_path, monkeypatch, capsys):
    house(tmp_path, monkeypatch, "# %%\n1\n")
    assert build_book.main(["execute", "--model", "gtp2"]) == 1
    errors = capsys.readouterr().err
    assert len(errors.strip().splitlines()) == 1
    assert "did you mean gpt2" in errors


def test_a_full_disk_is_one_clear_line(tmp_path, monkeypatch, capsys):
    notebook = house(tmp_path, monkeypatch, "# %%\n1\n")

    def full(self, *_, **__):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)
    assert build_book.main(["execute"]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("book:")]
    assert len(errors) == 1
    assert "No space left on device" in errors[0]
    assert notebook.read_text() == "as it was"


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path, monkeypatch, capsys):
    house(tmp_path, monkeypatch, "# %%\n1\n")
    monkeypatch.setattr(os, "access", lambda *_: False)  # file modes do not stop a superuser
    assert build_book.main(["execute"]) == 1
    assert "book: cannot write to" in capsys.readouterr().err


# ---------------------------------------------------------------- a changed claim is found


@pytest.mark.parametrize(("stored", "passes"), [("TV 0.01", True), ("TV 0.02", False)])
def test_a_notebook_whose_claim_changed_fails(tmp_path, stored, passes):
    cell = nbformat.v4.new_code_cell(
        'print("TV 0.01")', metadata={"tags": ["nbval-check-output"]}, execution_count=1
    )
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=stored + "\n")]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbformat.write(notebook, tmp_path / "n.ipynb")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(ROOT),
        str(tmp_path / "n.ipynb"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode == 0) is passes, done.stdout + done.stderr
