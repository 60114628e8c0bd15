"""The notebooks are their chapters, the build keeps what it has, and a changed claim is found."""

import re
import shutil
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import build_book
import files
import filling
import jupytext
import nbformat
import packing
import pytest
import stamps
import tables
import torch
from by_hand import draw_texts
from command import ROOT
from test_publish import ADDRESS

import ctxlib as cx

CHAPTERS = sorted((ROOT / "chapters").glob("*.py"))
REAL = {"08_real_model", "09_british"}  # pages on real models, which have no view of their own
WHOLE = [c for c in CHAPTERS if "01" <= c.stem < "A" and c.stem not in REAL]
TEMPLATE = ROOT / "chapters" / "template" / "NN_slug.py"  # what a new chapter begins from


SOURCES = {chapter: jupytext.read(chapter) for chapter in (*CHAPTERS, TEMPLATE)}


def tagged(notebook, *tags):
    return [c for c in notebook.cells if {*tags} & {*c.metadata.get("tags", ())}]


def prose(source):
    return "\n".join(c.source for c in source.cells if c.cell_type == "markdown")


@pytest.mark.parametrize("chapter", [*WHOLE, TEMPLATE], ids=lambda c: c.stem)
def test_a_chapter_has_the_parts_of_the_house_style(chapter):
    source = SOURCES[chapter]
    stations = ["Exercises", "Evidence", "Where this comes from"]
    assert re.findall(rf"(?m)^## ({'|'.join(stations)})$", prose(source)) == stations
    first = next(c for c in source.cells if c.cell_type == "code")
    assert tagged(source, "setup") == [first]
    (parameters,) = tagged(source, "parameters")
    assert 'MODEL = "gpt2"' in parameters.source, "it shows how to read GPT-2 itself"
    ledgers = [c for c in tagged(source, "nbval-check-output") if "cb.ledger(" in c.source]
    assert len(ledgers) <= 1 and ("cb.Claim" in chapter.read_text("utf-8")) == bool(ledgers)
    numbers = re.findall(r"picture\(\s*\w+,\s*f?\"([^\"]+)\"", chapter.read_text("utf-8"))
    number = chapter.stem.partition("_")[0].removeprefix("0")  # as readers see it
    astray = [given for given in numbers if not re.fullmatch(rf"{number}\.\d+", given)]
    assert numbers and not astray, f"a figure here is called {number}.1, {number}.2 and so on"


#: Where the main line of a page ends; the title page has no exercises.
END = re.compile(r"(?m)^## (?:Exercises|Evidence)$")


def main_line(source):
    """The code cells of a page in front of exercises and evidence."""
    ends = [bool(END.search(c.source)) for c in source.cells]
    return [c for c in source.cells[: ends.index(True)] if c.cell_type == "code"]


#: What may be folded on a main line without being counted.
SET_APART = re.compile(r"(?m)^import |cb\.facts\(|figures\.|\bcv\.|^MODEL = ")


def plumbing_and_ideas(code):
    """The cells of a main line that are folded, those set apart left out, and those in view."""
    folded = [c for c in code if {"hide-input", "hide-cell"} & {*c.metadata.get("tags", ())}]
    return [c for c in folded if not SET_APART.search(c.source)], [
        c for c in code if c not in folded
    ]


def lines_of_code(cell):
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") for line in cell.source.splitlines()
    )


def test_every_chapter_stands_wherever_readers_look_for_it():
    listed = [name for name, _ in tables.LISTED.findall((ROOT / "_toc.yml").read_text("utf-8"))]
    assert sorted(listed) == sorted(c.stem for c in CHAPTERS if c.stem >= "01"), "_toc.yml"
    for file, text in tables.filled().items():
        assert text == file.read_text("utf-8"), f"{file.name}: make execute writes it"
    assert next(iter(tables.filled().values())).count(".ipynb)") == len(listed)


def lead(notebook):
    """The sentences between the title and the first code cell, without markup."""
    text = notebook.cells[0].source.partition("\n")[2]
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("*", "").replace("`", "")
    return re.split(r"(?<=[.!?])\s+", " ".join(text.split()))


def outputs_of(notebook):
    """What a notebook shows; nothing in it failed or warned."""
    nbformat.validate(notebook)
    outputs = [o for c in notebook.cells for o in c.get("outputs", ())]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    return outputs


AVERAGE = r"(average|mean|median|middle)"
AVERAGED = re.compile(rf"{AVERAGE}( \w+)? heads?\b|{AVERAGE} (over|of)( \w+){{0,2}} heads?\b")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.stem)
def test_an_average_over_heads_in_an_answer_is_weighted_by_variance_share_or_names_them(chapter):
    """The least influential heads are the easy ones: a plain mean makes any answer too good."""
    leads = [s for s in lead(SOURCES[chapter]) if AVERAGED.search(s)]
    assert [s for s in leads if not re.search(r"variance share|\bheads? \d", s)] == []


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.stem)
def test_the_committed_notebook_is_its_chapter_executed_and_found_the_numbers_it_states(chapter):
    assert build_book.refusals(chapter) == []
    outputs_of(nbformat.read(build_book.committed(chapter), as_version=4))


@pytest.mark.parametrize("chapter", SOURCES, ids=lambda c: c.stem)
def test_a_chapter_keeps_to_its_budget_and_every_cell_that_prints_is_compared(chapter):
    """Words outside of folds, tables and formulas, figures, code cells in view, sections."""
    words, code = END.split(prose(SOURCES[chapter]))[0], main_line(SOURCES[chapter])
    sections = re.findall(r"(?m)^## ", words)
    formulas = r"(?s)\$\$.*?\$\$", r"\$[^$\n]*\$"
    for left_out in (r"(?s)```+\{.*?```+", *formulas, r"(?m)^\|.*$", filling.CONDITION):
        words = re.sub(left_out, " ", words)
    words = re.sub(r"\{term\}`([^`<]+)[^`]*`", r"\1", words)  # a link has the words that are read
    words = re.findall(r"[A-Za-z][\w'’-]*", re.sub(r"\]\([^)]*\)|`[^`]*`", " x ", words))
    figures = sum(len(re.findall(r"figures\.(?:picture|shaded_text)\(", c.source)) for c in code)
    hidden = tagged(SOURCES[chapter], "hide-input", "hide-cell", "setup")
    spent = len(words), figures, len(code) - len(hidden), len(sections)
    folded, open_code = (sum(map(lines_of_code, cells)) for cells in plumbing_and_ideas(code))
    assert folded <= 2 * open_code or chapter.stem == "00_welcome", (folded, open_code)
    five = chapter.stem == "04_denominators"  # which has two figures of the paper and the bounds
    assert all(map(int.__le__, spent, (1500, 4 + five, 20, 9))), spent
    compared = tagged(SOURCES[chapter], "nbval-check-output", "setup")
    every = [c for c in SOURCES[chapter].cells if c.cell_type == "code"]
    assert [c.source for c in every if "print(" in c.source and c not in compared] == []


def test_chapter_11_writes_out_the_self_normalised_circuit(mini_weights):
    source = next(s for c, s in SOURCES.items() if c.stem == "11_evaluation")
    (imports,) = (c.source for c in source.cells if "import ctxlib" in c.source)
    (cell,) = (c.source for c in source.cells if c.source.startswith("x = own[0]"))
    imports, heads = imports.partition("\npd.")[0], [0, 2, 5]
    fixed = cx.fix_query(mini_weights, n=60)
    text = draw_texts(1, 61, fixed.d_vocab)
    there = {"own": text, "weights": mini_weights, "n": fixed.n, "heads": heads}
    exec(f"{imports}\n{cell}", there)
    circuit = cx.ContextualCircuit.calibrate(fixed, text[0], heads)
    torch.testing.assert_close(there["summary"], circuit.self_normalized().summary(text[0]))


@pytest.mark.parametrize("there", [True, False])
def test_the_setup_cell_installs_the_package_only_where_it_is_missing(there, monkeypatch):
    (setup,) = {tagged(source, "setup")[0].source for source in SOURCES.values()}
    assert len(setup.splitlines()) <= 3
    assert not setup.startswith("%"), "it is Python, which ruff reads"
    calls = []
    shell = SimpleNamespace(run_line_magic=lambda *call: calls.append(call))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if there else None)
    exec(setup, {"get_ipython": lambda: shell})
    assert calls == ([] if there else [("pip", f"install -q git+{ADDRESS}")])


def test_the_template_runs_as_it_stands():
    finished = build_book.run(deepcopy(SOURCES[TEMPLATE]), TEMPLATE, "mini")
    outputs = outputs_of(finished)
    assert "same as the model's: True\n" in [o.get("text") for o in outputs]
    pages = [o.data["text/html"] for o in outputs if "text/html" in o.get("data", {})]
    assert len([p for p in pages if "Figure NN." in p and "aria-label=" in p]) == 2
    assert len([p for p in pages if "verdict" in p]) == 1
    known = {"slug": build_book.found_in(finished)}
    uses = filling.used(prose(SOURCES[TEMPLATE]), "slug")
    assert [*filling.faults(SOURCES[TEMPLATE].cells, "slug", known, uses)] == []


# ---------------------------------------------------------------- the build loses nothing


@pytest.fixture
def house(repository):
    """A function that puts one chapter into a repository, with a notebook that was made before."""

    def build(body):
        (repository / "chapters" / "01_x.py").write_text(body)
        notebook = repository / "book" / "01_x.ipynb"
        notebook.write_text("as it was")
        return notebook

    return build


FULL = Mock(side_effect=OSError(28, "No space left on device"))


@pytest.mark.parametrize(
    ("arguments", "change", "message"),
    [
        ([], None, r"01_x.py, code cell 2 \('b = a / 0'\): ZeroDivisionError: division by zero"),
        (["--chapter", "2"], None, "no chapter '2'; there are 01_x"),
        (["--model", "gtp2"], None, "did you mean gpt2"),
        ([], lambda patch: patch.setenv("CTX_TEXTS", "texts"), "CTX_TEXTS is set"),
        ([], lambda patch: patch.setattr(Path, "write_bytes", FULL), "No space left on device"),
    ],
    ids=["failing", "chapter", "model", "texts", "disk"],
)
def test_what_cannot_be_executed_leaves_the_notebook(
    house, monkeypatch, refused, arguments, change, message
):
    notebook = house("# %%\na = 1\n" + ("" if change else "\n# %%\nb = a / 0\n"))
    with monkeypatch.context() as patch:
        if change:
            change(patch)
        output = refused(build_book.main, "execute", *arguments, code=1)
    assert re.search(f"^book: .*{message}", output)
    assert notebook.read_text() == "as it was"
    assert list(notebook.parent.iterdir()) == [notebook], "nothing half-written is left"


@pytest.mark.parametrize(
    "arguments", ["check --model gpt2", "site --chapter 1", "pages --chapter 1"]
)
def test_what_does_not_go_together_is_refused(repository, capsys, arguments):
    with pytest.raises(SystemExit):
        build_book.main(arguments.split())
    output = capsys.readouterr().err
    assert re.search("which is mini's, can be checked|--chapter does not go with", output)


def test_a_chapter_is_executed_once_and_alone_when_it_changes(house, tmp_path):
    notebook = house("# %%\nprint(6 * 7)\n")
    assert build_book.main(["execute"]) == 0
    first = notebook.stat().st_mtime_ns
    assert "42" in notebook.read_text()
    assert build_book.main(["execute"]) == 0 and notebook.stat().st_mtime_ns == first
    (tmp_path / "chapters" / "01_x.py").write_text("# %%\nprint(6 * 8)\n")
    (tmp_path / "chapters" / "02_y.py").write_text("# %%\na = 1 / 0\n")
    assert build_book.main(["execute", "--chapter", "01_x"]) == 0
    assert "48" in notebook.read_text() and not notebook.with_name("02_y.ipynb").exists()


def test_an_edition_is_of_its_model_and_its_texts(house, tmp_path, monkeypatch, capsys):
    notebook = house('# %% tags=["parameters"]\nMODEL = "mini"  # which\n\n# %%\nprint(MODEL)\n')
    model, own = tmp_path / "my model", tmp_path / "texts"
    for folder in (model, own):
        folder.mkdir()
    (model / "config.json").write_text("{}")
    (own / "a.txt").write_text("some words")

    def outcome():
        assert build_book.main(["execute", "--model", str(model)]) == 0
        return capsys.readouterr().out.split()[1]

    assert [outcome(), outcome()] == ["executed", "unchanged"]
    (edition,) = (tmp_path / "_build" / "editions").rglob("01_x.ipynb")
    cells = nbformat.read(edition, as_version=4).cells
    assert cells[0].source == 'MODEL = "my model"  # which', "no folder of this machine"
    assert cells[1].outputs[0].text.strip() == str(model)
    assert edition.parent.parent.name == "my-model"
    monkeypatch.setenv("CTX_TEXTS", str(own))
    assert [outcome(), outcome()] == ["executed", "unchanged"]
    for file, content in ((own / "a.txt", "same words"), (model / "w", "other weights")):
        file.write_text(content)
        assert [outcome(), outcome()] == ["executed", "unchanged"]
    assert notebook.read_text() == "as it was"


def test_a_site_is_built_once_and_again_when_a_page_changes(repository, monkeypatch):
    page = repository / "_build" / "html" / "index.html"
    built = Mock(side_effect=lambda *_: files.replace(page, "a site"))
    monkeypatch.setattr(build_book, "build_site", built)
    assert build_book.site("mini") == build_book.site("mini") == page
    assert built.call_count == 1
    (repository / "book" / "new.md").write_text("# A page\n")
    built.side_effect = [ValueError("a warning"), None]
    with pytest.raises(ValueError):
        build_book.site("mini")
    assert build_book.site("mini") == build_book.site("mini")  # one that failed is built again
    assert built.call_count == 3


# ---------------------------------------------------------------- the guard

CHECKED = '# %% tags=["nbval-check-output"]\n'


@pytest.fixture
def book(house, tmp_path, capsys):
    """A repository with one chapter and the notebook that `execute` makes of it, and a function
    that checks it: its exit status, and what it prints.
    """
    body = f"# %%\nfrom ctxlib import read\n\n{CHECKED}a = read.tv()\nprint(f'TV {{a:.2f}}')\n"
    notebook = house(body)
    (tmp_path / "ctxlib" / "read.py").write_text("def tv():\n    return 0.01\n")
    (tmp_path / "other.py").write_text("# nobody reads this\n")
    assert build_book.main(["execute"]) == 0

    def check(*options, step="check"):
        capsys.readouterr()
        before = notebook.read_bytes()
        status = build_book.main([step, *options])
        assert notebook.read_bytes() == before, "checking writes no notebook"
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return SimpleNamespace(root=tmp_path, notebook=notebook, check=check)


def test_a_notebook_is_checked_once_and_a_changed_formula_is_found(book):
    status, output = book.check()
    assert status == 0 and "01_x.ipynb: checked in" in output
    status, output = book.check()
    assert status == 0 and "01_x.ipynb: unchanged" in output
    (book.root / "other.py").write_text("# nor this\n")
    (book.root / "book" / "another.md").write_text("a page\n")
    assert "checked in" not in book.check()[1], "what it does not read changes nothing"
    for formula, expected, found in (
        ("# a comment\n    return 0.01", 0, "checked in"),
        ("return 0.03", 1, r"'TV 0\.01\\n' == 'TV 0\.03\\n'"),
    ):
        (book.root / "ctxlib" / "read.py").write_text(f"def tv():\n    {formula}\n")
        status, output = book.check("--chapter", "01_x")
        assert status == expected and re.search(found, output)


def test_a_notebook_that_is_not_its_chapter_run_is_refused(book, monkeypatch):
    def refused(message, *, step="check"):
        status, output = book.check(step=step)
        assert status == 1 and re.search(message, output) and "checked in" not in output

    def no_site(model):
        raise AssertionError("no site is built of it")

    monkeypatch.setattr(build_book, "site", no_site)
    chapter = book.root / "chapters" / "01_x.py"
    written, whole = chapter.read_text(), book.notebook.read_text()
    chapter.write_text(written.replace("TV", "total variation"))
    refused("make execute CHAPTER=01_x")
    chapter.write_text(written.replace(CHECKED, "# %%\n"))
    refused("01_x")  # nor may a notebook compare less than its chapter
    chapter.write_text(written)
    with monkeypatch.context() as patch:
        patch.setenv("CTX_TEXTS", str(book.root))
        refused("CTX_TEXTS is set")
    book.notebook.write_text(whole.replace("TV 0.01", "TV 0.02"))
    cell = r"01_x\.ipynb::Cell 1"  # nbval counts from 0
    for step in ("check", "book"):  # a failure is no stamp
        refused(rf"(?s){cell}.*a = read\.tv\(\).*'TV 0\.02\\n' == 'TV 0\.01\\n'", step=step)
    notebook = nbformat.reads(whole, as_version=4)
    notebook.cells[1].outputs[-1] = nbformat.v4.new_output("error", ename="E", traceback=[])
    nbformat.write(notebook, book.notebook)
    refused("code cell 2 ends with an error")
    notebook.cells[1].execution_count, notebook.cells[1].outputs = None, []
    nbformat.write(notebook, book.notebook)
    refused("code cell 2 was not run")


def test_what_pages_compute_with_is_packed_anew_when_its_packing_changes(tmp_path, monkeypatch):
    made = Mock(side_effect=lambda *_: {"layer.bin": b"numbers"})
    monkeypatch.setattr(packing, "packed", made)
    monkeypatch.setattr(build_book, "home", lambda model: tmp_path)
    monkeypatch.setattr(build_book, "TOOLS", tmp_path)
    for source, times in (("one", 1), ("one", 1), ("another", 2)):
        (tmp_path / "packing.py").write_text(source)
        build_book.packed("mini", "layer")
        assert made.call_count == times


@pytest.mark.parametrize("page", ["00_welcome", "11_evaluation", "F_local"])
def test_no_site_is_built_without_a_notebook_of_its_contents(tmp_path, page):
    (tmp_path / "_toc.yml").write_text(f"root: book/{page}\n")
    with pytest.raises(ValueError, match=rf"{page}\.ipynb is not there: run .*CHAPTER={page}"):
        build_book.build_site("mini", tmp_path)


def test_what_is_hidden_or_built_is_no_source(tmp_path):
    for name in ("a.py", ".hidden/b.py", "in/.c.py", "in/__pycache__/d.py", "in/_build/e.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert stamps.below(tmp_path) == [tmp_path / "a.py"]


def test_a_folder_is_named_for_what_its_files_hold(tmp_path):
    names = []
    for file, content in (("a.js", "1"), ("a.js", "2"), ("b.js", "1"), ("a.js", "1")):
        (tmp_path / "at").mkdir()
        (tmp_path / "at" / file).write_text(content)
        names.append(build_book.named_for_its_content(tmp_path / "at"))
        shutil.rmtree(tmp_path / names[-1])
    assert len(set(names)) == 3 and names[0] == names[3]


def test_all_that_a_kernel_may_read_is_held_but_no_script_that_browsers_alone_read(monkeypatch):
    held = build_book.inputs("gpt2", *build_book.package())["files"]
    mini = {f"ctxlib/data/mini/{name}" for name in ("config.json", "model.safetensors")}
    known = {"ctxlib/data/stored.json", "ctxlib/data/twins.toml", "requirements.txt"}
    assert mini | known | {"ctxlib/decompose.py"} <= held.keys()
    assert not [n for n in held if n.endswith(".js")]
    before = build_book.inputs("gpt2")
    monkeypatch.setattr("platform.python_version", lambda: "3.0.0")
    assert build_book.inputs("gpt2") != before, "another Python may compute otherwise"
