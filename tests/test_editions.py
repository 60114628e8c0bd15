"""The book on a model that it has never seen: every chapter runs, and the site is built.

The model has GPT-2's vocabulary, context and number of heads and is small otherwise; one of full
size takes twenty minutes and is run by `make editions`. Its weights are random, so what
such an edition finds means nothing. That it states this, and what it cannot show, is tested here.
"""

import json
import os
import re
import signal
import subprocess
import sys

import build_book
import editions
import nbformat
import pytest
from command import ROOT

import ctxbook as cb

CHAPTERS = sorted(c.stem for c in (ROOT / "chapters").glob("*.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    shape = {"n_embd": 96, "n_head": 12, "n_layer": 2}
    place = tmp_path_factory.mktemp("models") / "toy"
    return editions.random_model(place, editions.tokenizer(), **shape)


@pytest.fixture(scope="module")
def edition(folder, tmp_path_factory):
    """An edition made from nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_book, "BUILD", tmp_path_factory.mktemp("editions"))
        for step in ("execute", "site"):
            assert build_book.main([step, "--model", str(folder)]) == 0
        return build_book.home(str(folder))


@pytest.mark.nightly
def test_every_chapter_runs_and_claims_about_gpt2_small_are_not_judged(edition, folder):
    about = {f.id for f in cb.published_figures().values() if f.about_gpt2}
    notebooks = sorted(edition.glob("book/*.ipynb"))
    assert [file.stem for file in notebooks] == CHAPTERS
    for file in notebooks:
        for cell in nbformat.read(file, as_version=4).cells:
            if "parameters" in cell.metadata.get("tags", ()) and "MODEL = " in cell.source:
                assert f"MODEL = {json.dumps(folder.name)}" in cell.source
            for output in cell.get("outputs", ()):
                assert output.output_type != "error"
                assert output.get("name") != "stderr", output.text
            named = re.findall(r'claims\.Claim\(\s*"(\w+)"', cell.source)
            if cell.get("execution_count") and about.intersection(named):
                assert "another model" in cell.outputs[0].data["text/plain"], file.stem


@pytest.mark.nightly
def test_its_site_is_whole_and_the_book_is_left_alone(edition):
    html = edition / "_build" / "html"
    listed = re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text())
    assert all((html / f"{name}.html").exists() for name in listed)
    assert len([*html.glob("_static/at-*/data/layer.bin")]) == 1
    pages = [page.read_text(encoding="utf-8") for page in html.glob("book/*.html")]
    assert not any("colab.research" in page for page in pages), "it would open mini's notebook"
    committed = nbformat.read(ROOT / "book" / "01_first_layer.ipynb", as_version=4)
    assert any('MODEL = "mini"' in c.source for c in committed.cells)


# ---------------------------------------------------------------- a kill

#: `build_book` on the repository that is named first. (A fork would keep locks of threads here.)
IN_ANOTHER_PROCESS = """
import pathlib, sys, build_book
build_book.ROOT = root = pathlib.Path(sys.argv.pop(1))
build_book.CHAPTERS, build_book.BUILD = root / "chapters", root / "_build"
build_book.main(sys.argv[1:])
"""


def test_it_goes_on_at_the_chapter_that_was_killed(repository, tiny_folder, capsys):
    harmless = "# %%\n1\n"
    deadly = """# %%
import os, signal
for process in (os.getppid(), os.getpid()):  # the build, and then the kernel
    os.kill(process, signal.SIGKILL)
"""
    first, second = (repository / "chapters" / name for name in ("01_a.py", "02_b.py"))
    first.write_text(harmless)
    second.write_text(deadly)
    arguments = ["execute", "--model", str(tiny_folder)]
    build = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(repository), *arguments]
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run(build, env=os.environ | paths).returncode == -signal.SIGKILL
    home = build_book.home(str(tiny_folder))
    assert [f.name for f in sorted(home.glob("book/*"))] == ["01_a.ipynb"]

    second.write_text(harmless)
    assert build_book.main(arguments) == 0
    lines = re.findall(r"(\d\d_\w)\.py: (unchanged|executed)", capsys.readouterr().out)
    assert lines == [("01_a", "unchanged"), ("02_b", "executed")]
