"""The notebooks are their chapters, the build keeps what it has, and a changed claim is found."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import jupytext
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import address
import build_book
import stamps

CHAPTERS = sorted((ROOT / "chapters").glob("*.py"))
NUMBERED = [c for c in CHAPTERS if c.stem[:2].isdigit() and not c.stem.startswith("00")]
APPENDICES = [c for c in CHAPTERS if not c.stem[:2].isdigit()]
TEMPLATE = ROOT / "chapters" / "template" / "NN_slug.py"  # what a new chapter begins from


def tagged(notebook, tag):
    return [c for c in notebook.cells if tag in c.metadata.get("tags", ())]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.stem)
def test_the_committed_notebook_is_its_chapter_executed(chapter):
    assert build_book.refusals(chapter) == []
    notebook = nbformat.read(build_book.committed(chapter), as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not [o for o in cell.outputs if o.get("name") == "stderr"], (
                "no warnings on the page"
            )


@pytest.mark.parametrize("chapter", [*NUMBERED, TEMPLATE], ids=lambda c: c.stem)
def test_a_chapter_has_the_parts_of_the_house_style(chapter):
    source = jupytext.read(chapter)
    prose = "\n".join(c.source for c in source.cells if c.cell_type == "markdown")
    assert source.cells[0].source.splitlines()[0].endswith("?"), "its title is a question"
    stations = ["## Turn it", "## Claims", "## What you may now assume", "## Exercises"]
    stations.append("## Where this comes from")
    assert [h for h in stations if h not in prose] == []
    assert [len(tagged(source, t)) for t in ("setup", "parameters")] == [1, 1]
    first_code = next(c for c in source.cells if c.cell_type == "code")
    assert "setup" in first_code.metadata.tags
    (parameters,) = tagged(source, "parameters")
    assert 'MODEL = "gpt2"' in parameters.source, "it says how to read GPT-2 itself"
    ledgers = [c for c in tagged(source, "nbval-check-output") if "claims.ledger" in c.source]
    assert len(ledgers) == 1, "one ledger, and it is compared"


@pytest.mark.parametrize("chapter", [*NUMBERED, *APPENDICES], ids=lambda c: c.stem)
def test_a_chapter_stands_wherever_readers_look_for_it(chapter):
    title = jupytext.read(chapter).cells[0].source.splitlines()[0].removeprefix("# ")
    name = chapter.stem
    number = name.partition("_")[0].removeprefix("0")
    kind = "Appendix" if chapter in APPENDICES else "Chapter"
    notebook = f"{address.forms(address.address())[1]}/blob/main/book/{name}.ipynb"
    lines = {
        "_toc.yml": f"- file: book/{name}",
        "chapters/00_welcome.py": f"| [{kind} {number}]({name}) | {title} |",
        "README.md": f"| {number} | {title} | [open](https://{notebook}) |",
    }
    absent = [
        f"{file} lacks the line: {line}"
        for file, line in lines.items()
        if not any(
            written.strip().startswith(line)
            for written in (ROOT / file).read_text("utf-8").splitlines()
        )
    ]
    assert not absent, "\n".join(absent)


@pytest.mark.parametrize("chapter", [*NUMBERED, TEMPLATE], ids=lambda c: c.stem)
def test_figures_bear_the_number_of_their_chapter(chapter):
    numbers = re.findall(r"picture\(\s*\w+,\s*f?\"([^\"]+)\"", chapter.read_text("utf-8"))
    number = chapter.stem.partition("_")[0].removeprefix("0")
    astray = [given for given in numbers if not re.fullmatch(rf"{number}\.\d+", given)]
    assert numbers and not astray, f"a figure here is called {number}.1, {number}.2 and so on"


def lead(notebook):
    """The sentences between the title and the first code cell, without markup."""
    text = notebook.cells[0].source.partition("\n")[2]
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("*", "").replace("`", "")
    return re.split(r"(?<=[.!?])\s+", " ".join(text.split()))


# a number that a run finds, and not part of a name such as GPT-2, T5, Equation 1 or chapter 3
RESULT = re.compile(r"(?<![\w-])(?<!Equation )(?<!hapter )\d")


def unfounded(notebook):
    """Sentences of its answer that have a number, a source's apart, and that no finding says."""
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    found = {o.data.get("text/plain") for o in outputs if "data" in o}
    own = [s for s in lead(notebook) if RESULT.search(s) and "{cite" not in s]
    return [s for s in own if s not in found]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.stem)
def test_a_sentence_of_the_answer_that_has_a_number_is_a_finding(chapter):
    assert unfounded(nbformat.read(build_book.committed(chapter), as_version=4)) == []


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.stem)
def test_a_chapter_keeps_to_its_budget(chapter):
    """2,500 words outside of folds, tables and formulas, 6 figures, 20 code cells in view."""
    cells = jupytext.read(chapter).cells
    prose = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    for left_out in (r"(?s)```+\{.*?```+", r"(?s)\$\$.*?\$\$", r"(?m)^\|.*$", r"\$[^$\n]*\$"):
        prose = re.sub(left_out, " ", prose)
    words = re.findall(r"[A-Za-z][\w'’-]*", re.sub(r"\]\([^)]*\)|`[^`]*`", " x ", prose))
    code = [c for c in cells if c.cell_type == "code"]
    figures = sum(len(re.findall(r"plots\.(?:picture|ShadedText)\(", c.source)) for c in code)
    in_view = [
        c
        for c in code
        if not {"hide-input", "hide-cell", "setup"} & set(c.metadata.get("tags", ()))
    ]
    assert (len(words) <= 2500, figures <= 6, len(in_view) <= 20) == (True, True, True), (
        len(words), figures, len(in_view)
    )  # fmt: skip


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
    if which == "mini":
        assert unfounded(finished) == []


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

    for write in ("write_text", "write_bytes"):
        monkeypatch.setattr(Path, write, full)
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


def test_two_are_done_at_a_time_and_none_is_begun_after_a_failure():
    both, done = threading.Barrier(2), []
    build_book.side_by_side(lambda _: both.wait(), [Path(name) for name in "abcd"], 2)

    def fail(file):
        done.append(file)
        raise build_book.BuildError("a chapter fails")

    with pytest.raises(build_book.BuildError, match="a chapter fails"):
        build_book.side_by_side(fail, [Path(name) for name in "abcd"], 1)
    assert done == [Path("a")]


def test_a_site_is_built_once_and_again_when_a_page_changes(tmp_path, monkeypatch):
    house(tmp_path, monkeypatch, "# %%\n1\n")
    built = []

    def build(model, base):
        built.append(model)
        page = base / "_build" / "html" / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("a site")
        if len(built) == 2:
            raise build_book.BuildError("a warning")
        return page

    monkeypatch.setattr(build_book, "build_site", build)
    for _ in range(2):
        assert build_book.site("mini").read_text() == "a site"
    assert built == ["mini"]
    (tmp_path / "book" / "new.md").write_text("# A page\n")
    with pytest.raises(build_book.BuildError):
        build_book.site("mini")
    build_book.site("mini")
    assert len(built) == 3, "one that failed is built again"
    (tmp_path / "ctxlib" / "__pycache__").mkdir()
    (tmp_path / "ctxlib" / "__pycache__" / "x.pyc").touch()
    build_book.site("mini")
    assert len(built) == 3, "what a site is not built from changes nothing"


# ---------------------------------------------------------------- the guard

CHECKED = '# %% tags=["nbval-check-output"]\n'


@pytest.fixture
def book(tmp_path, monkeypatch, capsys):
    """A repository with one chapter and the notebook that `execute` makes of it, and a function
    that checks it: its exit status, and what it says.
    """
    body = f"# %%\nimport read\n\n{CHECKED}a = read.tv()\nprint(f'TV {{a:.2f}}')\n"
    notebook = house(tmp_path, monkeypatch, body)
    (tmp_path / "read.py").write_text("def tv():\n    return 0.01\n")
    (tmp_path / "other.py").write_text("# nobody reads this\n")
    assert build_book.main(["execute"]) == 0

    def check(*options, step="check"):
        capsys.readouterr()
        before = notebook.read_bytes()
        status = build_book.main([step, *options])
        assert notebook.read_bytes() == before, "checking writes no notebook"
        said = capsys.readouterr()
        return status, said.out + said.err

    return SimpleNamespace(root=tmp_path, notebook=notebook, check=check)


def test_a_notebook_that_comes_out_as_committed_is_checked_once(book):
    status, said = book.check()
    assert status == 0 and "01_x.ipynb: checked in" in said
    status, said = book.check()
    assert status == 0 and "1 of 1 notebooks: checked, unchanged since" in said
    (book.root / "other.py").write_text("# nor this\n")
    (book.root / "book" / "another.md").write_text("a page\n")
    assert "checked in" not in book.check()[1], "what it does not read changes nothing"
    (book.root / "read.py").write_text("# a comment\ndef tv():\n    return 0.01\n")
    assert "checked in" in book.check("--chapter", "01_x")[1]


def test_a_notebook_whose_claim_was_altered_fails(book, monkeypatch):
    def no_site(model):
        raise AssertionError("no site is built of it")

    monkeypatch.setattr(build_book, "site", no_site)
    book.notebook.write_text(book.notebook.read_text().replace("TV 0.01", "TV 0.02"))
    for step in ("check", "book", "check"):  # a failure is no stamp
        status, said = book.check(step=step)
        assert status == 1
        assert "01_x.ipynb::Cell 1" in said and "a = read.tv()" in said, "nbval counts from 0"
        assert r"'TV 0.02\n' == 'TV 0.01\n'" in said


def test_a_changed_formula_is_found(book):
    assert book.check()[0] == 0
    (book.root / "read.py").write_text("def tv():\n    return 0.03\n")
    status, said = book.check()
    assert status == 1
    assert r"'TV 0.01\n' == 'TV 0.03\n'" in said
    (book.root / "read.py").write_text("def tv():\n    raise OSError('no such formula')\n")
    status, said = book.check()
    assert status == 1 and "OSError: no such formula" in said


def test_a_notebook_of_another_source_is_named_with_the_command(book):
    chapter = book.root / "chapters" / "01_x.py"
    chapter.write_text(chapter.read_text().replace("TV", "total variation"))
    status, said = book.check()
    assert status == 1 and "make execute CHAPTER=01_x" in said and "checked in" not in said
    chapter.write_text(chapter.read_text().replace("total variation", "TV"))
    assert book.check()[0] == 0
    chapter.write_text(chapter.read_text().replace(CHECKED, "# %%\n"))
    assert book.check()[0] == 1, "nor may a notebook compare less than its chapter"


def test_a_cell_that_was_not_run_is_refused(book):
    notebook = nbformat.read(book.notebook, as_version=4)
    notebook.cells[1].execution_count, notebook.cells[1].outputs = None, []
    nbformat.write(notebook, book.notebook)
    status, said = book.check()
    assert status == 1 and "code cell 2 was not run" in said


def test_what_was_executed_or_checked_on_other_texts_is_refused(book, monkeypatch):
    monkeypatch.setenv("CTX_TEXTS", str(book.root))
    status, said = book.check()
    assert status == 1 and "CTX_TEXTS is set" in said


def test_a_file_that_changes_while_it_is_read_leaves_no_stamp(tmp_path):
    read, stamp = tmp_path / "read", tmp_path / "stamp"
    read.write_text("as it was")
    assert stamps.keep(stamp, tmp_path, [read], {}, since=read.stat().st_mtime)
    assert stamps.holds(stamp, tmp_path, {})
    assert not stamps.keep(stamp, tmp_path, [read], {}, since=read.stat().st_mtime - 1)
    assert not stamps.holds(stamp, tmp_path, {})


@pytest.mark.parametrize("content", ["", "{", "[]", '{"facts": {}}', '{"facts": {}, "read": 3}'])
def test_a_damaged_stamp_is_none(tmp_path, content):
    (tmp_path / "stamp").write_text(content)
    assert not stamps.holds(tmp_path / "stamp", tmp_path, {})


def test_everything_that_a_process_reads_is_noted():
    """What Python opens, and what compiled code opens for `mini`."""
    script = (
        "from transformers import AutoModelForCausalLM; "
        "from tokenizers import Tokenizer; import ctxlib as cx; mini = str(cx.models.MINI); "
        "AutoModelForCausalLM.from_pretrained(mini); Tokenizer.from_file(mini + '/tokenizer.json')"
    )
    with stamps.watched(ROOT) as (environment, reads):
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
        found = {str(place.relative_to(ROOT)) for place in reads()}
    assert done.returncode == 0, done.stderr
    mini = {f"ctxlib/data/mini/{f}" for f in ("config.json", "model.safetensors", "tokenizer.json")}
    assert mini | {"ctxlib/__init__.py"} <= found
    assert not [name for name in found if name.startswith((".", "_build"))]
    assert not {"tests/test_book.py", "ctxlib/data/mini/README.md"} & found
