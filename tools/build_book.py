"""Check the book, execute its chapters, build its site: what stands behind `make book`.

    python tools/build_book.py book    [--model mini]     check, then site; of another model,
                                       [--chapter NAME]   execute, then site; no site of one chapter
    python tools/build_book.py check   [--chapter NAME]   run the committed notebooks of book/ and
                                                          compare (nbval); writes none of them
    python tools/build_book.py execute [--model mini]     chapters/*.py  ->  book/*.ipynb
                                       [--chapter NAME]   that one only
    python tools/build_book.py site    [--model mini]     book/          ->  _build/html,
                                                                             warnings are errors
    python tools/build_book.py pages                      the sites that are built, together
                                                          ->  _build/pages

What was executed, checked or built is not done again until something that it could read has changed
(`stamps`): the chapter itself, the package, its pins. A notebook is executed under a temporary name
and takes its place only when it is whole, so a chapter that fails and a build that is interrupted
leave the old one. Any model but `mini` makes another edition of the book, in
`_build/editions/<model>/`.

`execute` also fills the prose of the pages with the facts of their notebooks (`filling`), which
needs no kernel: a chapter of which the prose alone has changed is not run again.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import hashlib
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import filling
import jupytext
import nbformat
import publishing
import sheets
import stamps
import warm
import yaml
from command import ROOT, command, gib
from files import digest, filled_in, replace
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from tqdm import tqdm
from traitlets.config import Config

import ctxbook as cb
from ctxviews import bundle

CHAPTERS = ROOT / "chapters"
BUILD = ROOT / "_build"
TOOLS = Path(__file__).resolve().parent
# what a site is built from, with the files beside them
SITE = ("book", "ctxlib", "ctxbook", "ctxviews", "tools")
KERNELS = min(2, os.cpu_count() or 1)  # of `mini` that run at a time; of other models one
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
SANITIZE = TOOLS.parent / "tests" / "nbval_sanitize.cfg"  # what may differ between two runs
NBVAL = ["-p", "nbval.plugin", "--nbval-lax", "--maxfail=5", "--color=no"]
NBVAL += ["-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-q", "--tb=short"]
NBVAL += [f"--nbval-sanitize-with={SANITIZE}"]
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}  # but those named here
STOP = threading.Event()  # set when the build is interrupted: no kernel begins another cell
#: What ctxlib raises for a model without W_pos, and chapter 16 for one on which no head is active.
ELSEWHERE = ("NoPositionEmbeddings", "TooFewPrompts")
REAL = ("smollm2", "qwen")  # models beside `mini` that explorer and reader compute with
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # colours
# the theme's own scripts in a page; * stands for a name
INLINE = re.compile(
    "|".join(
        re.escape(code.strip()).replace(r"\*", r"[\w/.-]+")
        for code in tomllib.loads((TOOLS / "inline.toml").read_text(encoding="utf-8"))["allowed"]
    )
)
ADDRESS = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]["html_baseurl"]
METADATA = {  # of every notebook, in place of a header in every chapter
    "jupytext": {"text_representation": {"extension": ".py", "format_name": "percent"}},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def home(model: str) -> Path:
    """The folder that an edition is built from: the repository itself for `mini`."""
    slug = re.sub(r"\W+", "-", called(model)).strip("-")
    return ROOT if model == "mini" else BUILD / "editions" / slug


def called(model: str) -> str:
    """A model's name: that of its folder, wherever it lies, or what the hub calls it."""
    place = Path(model).expanduser()
    return place.resolve().name if place.is_dir() else model


# ---------------------------------------------------------------- executing


def execute(model: str, name: str | None = None) -> None:
    """Bring every notebook of an edition up to date, or that of one chapter.

    Raises ValueError when a chapter fails; for a chapter that is not there; and for `mini` on other
    texts than its own: its notebooks are the book.
    """
    chapters = named(name)
    if model == "mini":
        refuse_other_texts()
    book, kept = home(model) / "book", home(model) / "_build" / "stamps"

    def bring(chapter: Path) -> None:
        start, notebook = time.monotonic(), book / f"{chapter.stem}.ipynb"
        source, stamp = jupytext.read(chapter), kept / f"{chapter.stem}.executed"
        given = inputs(model, *package()) | {"code": of_code(source)}
        if stamps.holds(stamp, given | {"ran": ran(notebook)}):
            print(f"{chapter.name}: unchanged")
            return
        from ctxlib.models import locate  # only here, for its import takes seconds

        locate(model)
        replace(notebook, nbformat.writes(run(source, chapter, model)))
        stamps.keep(stamp, given | {"ran": ran(notebook)})
        took = time.monotonic() - start
        peak = gib(resource.getrusage(resource.RUSAGE_CHILDREN))
        said = f"executed in {took:.0f} s, at most {peak:.1f} GiB so far"
        print(f"{chapter.name}: {said}", flush=True)

    try:
        side_by_side(bring, chapters, KERNELS if model == "mini" else 1)
    finally:
        fill(model)


def of_code(notebook: nbformat.NotebookNode) -> list[tuple[str, dict[str, Any]]]:
    """What of a chapter is run: the source and the metadata of its code."""
    return [(c.source, c.metadata) for c in notebook.cells if c.cell_type == "code"]


def ran(notebook: Path) -> str:
    """A sum over the code of a notebook and its outputs, of which prose is no part; empty where
    there is no notebook.
    """
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except (OSError, ValueError):
        return ""
    code = [(c.source, c.outputs, c.execution_count) for c in cells if c.cell_type == "code"]
    return hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()


def side_by_side(do: Callable[[Path], None], files: list[Path], most: int) -> None:
    """Do something with every file, so many at a time, in their order. The first failure is raised
    when those before it are done, and then nothing more is begun.
    """
    STOP.clear()
    with ThreadPoolExecutor(most) as pool:
        try:
            list(pool.map(do, files))  # which calls off what is left after a failure
        except KeyboardInterrupt:
            STOP.set()
            raise


def refuse_other_texts() -> None:
    """ValueError where `mini` would not read the texts that it brings."""
    if os.environ.get("CTX_TEXTS"):
        raise ValueError(
            "CTX_TEXTS is set, and the book on mini holds what it found in the texts that it "
            "brings: unset CTX_TEXTS, or name a model"
        )


def named(name: str | None = None) -> list[Path]:
    """The chapter of this name ("05_circuit"), or all of them; ValueError for another name."""
    chapters = sorted(CHAPTERS.glob("*.py"))
    chosen = [chapter for chapter in chapters if name in (None, chapter.stem)]
    if not chosen:
        there = ", ".join(chapter.stem for chapter in chapters)
        raise ValueError(f"no chapter {name!r}; there are {there}")
    return chosen


def package() -> list[Path]:
    """What a kernel may read of the repository: the package, without the scripts and styles that
    browsers alone read, and its pins. Twins and stored layers are known there by their sums. The
    committed facts are not among it: no output that is kept depends on them.
    """
    packages = [ROOT / name for name in ("ctxlib", "ctxbook", "ctxviews", "data/evidence")]
    read = [f for p in packages for f in stamps.below(p) if f.suffix not in (".js", ".css")]
    read = [file for file in read if file != facts_file(ROOT)]
    return [*read, ROOT / "requirements.txt", ROOT / "constraints.txt"]


def inputs(model: str, *read: Path) -> dict[str, Any]:
    """What outputs depend on: these files, and what is not the repository's."""
    texts = os.environ.get("CTX_TEXTS", "")
    own = []
    for place in filter(None, (model, texts)):
        path = Path(place).expanduser()
        for file in [path] if path.is_file() else sorted(path.glob("*")):
            own.append(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    held = stamps.digests(ROOT, read)
    return {"python": python, "model": model, "texts": texts, "own": own, "files": held}


def run(notebook: nbformat.NotebookNode, chapter: Path, model: str) -> nbformat.NotebookNode:
    """Execute every cell, up to the first that needs position embeddings which the model does not
    have. ValueError names the cell that fails and the reason.
    """
    set_model(notebook, model)
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    bar = tqdm(total=len(code), desc=chapter.stem, unit="cell", leave=False)

    def go_on(**_: Any) -> None:
        if STOP.is_set():
            raise ValueError(f"{chapter.name}: interrupted")

    with tempfile.TemporaryDirectory(prefix="book-") as sockets, bar:
        # Sockets in a folder of our own, not TCP: nobody else can read what a kernel sends.
        transport = {"transport": "ipc", "ip": str(Path(sockets) / "kernel")}
        client = NotebookClient(
            notebook,
            timeout=900,
            kernel_name="python3",
            coalesce_streams=True,  # whether a busy machine prints in one piece or in two
            on_cell_start=go_on,
            on_cell_executed=lambda **_: bar.update(),
            config=Config({"KernelManager": transport}),
        )
        threads = ONE_THREAD if model == "mini" else {}
        try:
            client.execute(cwd=str(ROOT), env=os.environ | {"PYTHONPATH": str(ROOT)} | threads)
        except (CellExecutionError, DeadKernelError) as error:
            number = client.code_cells_executed
            cell = notebook.cells[code[number - 1]]
            name, said = getattr(error, "ename", ""), getattr(error, "evalue", "")
            if name in ELSEWHERE:
                cell.outputs, cell.execution_count = [], None
                tqdm.write(f"{chapter.name}: {said.partition(',')[0]}; kept as text")
            else:
                what = f"{name}: {said}".splitlines()[0] if name else "the kernel died"
                first = next(line for line in cell.source.splitlines() if line.strip())
                place = f"{chapter.relative_to(ROOT)}, code cell {number} ({first!r})"
                raise ValueError(f"{place}: {what}") from error
    set_model(notebook, called(model))  # a folder of this machine is nobody else's
    return tidy(notebook, chapter.stem)


def set_model(notebook: nbformat.NotebookNode, model: str) -> None:
    """Let a chapter's parameter MODEL name this model."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            line = f"MODEL = {json.dumps(model)}".replace("\\", r"\\")
            cell.source = re.sub(r"^MODEL = .*?(?=\s+#|$)", line, cell.source, count=1, flags=re.M)


def tidy(notebook: nbformat.NotebookNode, stem: str) -> nbformat.NotebookNode:
    """Remove what differs between two runs that found the same: times, random names, a kernel's
    widgets; and what a table of facts says of prose with other numbers, for the prose gets these.
    Say where a model was left.
    """
    notebook.metadata.pop("widgets", None)
    notebook.metadata |= METADATA
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                output["data"].pop(WIDGET_VIEW, None)
            if kept := output.get("metadata", {}).get(cb.FACTS):
                shown = cb.Facts({name: cb.Fact(**fact) for name, fact in kept})
                output["data"] = {"text/plain": repr(shown), "text/html": shown._repr_html_()}
    code = ((i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    left = next((i for i, cell in code if cell.execution_count is None), None)
    if left is not None:
        said_there = nbformat.v4.new_markdown_cell(filled_in("not_here.md").strip())
        notebook.cells.insert(left, said_there)
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"{stem}-{index:02d}".replace("_", "-")
    return notebook


# ---------------------------------------------------------------- filling


def fill(model: str) -> None:
    """Fill the prose of every page of an edition with the facts of its notebooks. A notebook that
    was made from other code stays as it is.
    """
    base, made, sources = home(model), {}, {}
    for chapter in named():
        page, notebook = filling.page_of(chapter.stem), base / "book" / f"{chapter.stem}.ipynb"
        if ran(notebook):
            made[page] = notebook, nbformat.read(notebook, as_version=4)
            sources[page] = jupytext.read(chapter)
            set_model(sources[page], called(model))
    raw = {page: found_in(notebook) for page, (_, notebook) in made.items()}
    known = {page: filling.with_begins(raw, page, of.cells) for page, of in sources.items()}
    known = known if base == ROOT else filling.beside(known_facts(ROOT), known)
    replace(facts_file(base), filling.written(known))
    for page, (file, notebook) in made.items():
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        if of_code(sources[page]) == of_code(notebook):
            filled = with_facts(sources[page], file.stem, known).cells
            notebook.cells = [code.pop(0) if c.cell_type == "code" else c for c in filled]
            replace(file, nbformat.writes(tidy(notebook, file.stem)))
    fill_in_place(base)


def facts_file(base: Path) -> Path:
    """The facts of the pages of an edition. Those of the committed book come with the package."""
    return ROOT / "ctxbook" / "data" / "facts.json" if base == ROOT else base / "facts.json"


def known_facts(base: Path) -> filling.Known:
    """The facts of an edition, as they were filled in last."""
    file = facts_file(base)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def plain_pages(base: Path) -> list[Path]:
    """The pages of an edition that have no notebook, and README.md."""
    return [*sorted(base.glob("book/*.md")), *base.glob("README.md")]


def fill_in_place(base: Path) -> None:
    """Fill the pages that have no notebook."""
    known = known_facts(base)
    for page in plain_pages(base):
        replace(page, filling.in_place(page.read_text(encoding="utf-8"), known))


def found_in(notebook: nbformat.NotebookNode) -> dict[str, dict[str, Any]]:
    """The facts that a notebook has found. ValueError where two have one name."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    found = [fact for of in outputs for fact in of.get("metadata", {}).get(cb.FACTS, ())]
    names = [name for name, _ in found]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"a page has two facts of one name: {', '.join(sorted(doubled))}")
    return dict(found)


def with_facts(source: Any, stem: str, known: filling.Known) -> Any:
    """A chapter with its prose filled. A link that sets a view leads to the page of the site: in a
    notebook no view follows the address.
    """
    there = f"{ADDRESS}book/{stem}.html"
    for cell in source.cells:
        if cell.cell_type == "markdown":
            text = filling.filled(cell.source, filling.page_of(stem), known)
            cell.source = re.sub(r'href="(?=#\w+\.\w+=)', f'href="{there}', text)
    return source


# ---------------------------------------------------------------- checking


def check(name: str | None = None) -> None:
    """Run the committed notebooks again, or that of one chapter, and compare with nbval. Writes no
    notebook.

    Raises ValueError for notebooks that are not to be committed as they are, and where a checked
    output comes out differently: all such chapters are run, and reported, first.
    """
    chapters = named(name)
    refuse_other_texts()
    refused = [words for chapter in chapters for words in refusals(chapter)]
    refused += [words for page in plain_pages(ROOT) for words in refusals_in_place(page)]
    if refused:
        raise ValueError("\n".join(["the committed notebooks are not the book:", *refused]))
    differing: list[str] = []
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | ONE_THREAD
    if not name:
        print(f"Checking {len(chapters)} notebooks, {KERNELS} at a time: usually 4 minutes")

    def compare(chapter: Path) -> None:
        start, notebook = time.monotonic(), committed(chapter)
        stamp = BUILD / "stamps" / f"{chapter.stem}.checked"
        given = inputs("mini", *package(), SANITIZE) | {"by": NBVAL, "ran": ran(notebook)}
        if stamps.holds(stamp, given):
            print(f"{notebook.name}: unchanged since it was checked")
            return
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *NBVAL, *begun, f"--rootdir={ROOT}", notebook],
            env=environment | NO_PLUGINS | {"JUPYTER_PATH": folder},
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            differing.append(chapter.stem)
            said = ESCAPES.sub("", done.stdout + done.stderr)
            print(f"{notebook.name} comes out otherwise (cells from 0):\n{said}", flush=True)
            return
        stamps.keep(stamp, given)
        print(f"{notebook.name}: checked in {time.monotonic() - start:.0f} s", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="book-") as folder,
        warm.kernels(Path(folder), environment, len(chapters)) as begun,
    ):
        side_by_side(compare, chapters, KERNELS)
    if differing:
        raise ValueError(
            "other outputs than committed: " + ", ".join(sorted(differing)) + "; see above. "
            "Where the new ones are right, `make execute CHAPTER=...` writes them into the notebook"
        )


def committed(chapter: Path) -> Path:
    """The notebook of a chapter, as the repository holds it."""
    return ROOT / "book" / f"{chapter.stem}.ipynb"


def refusals(chapter: Path) -> list[str]:
    """Why the notebook of a chapter cannot stand in the book, before it is run: a line each."""
    made = committed(chapter)
    execute = f"run `make execute CHAPTER={chapter.stem}`"
    if not made.exists():
        return [f"  {chapter.stem}: it has no notebook: {execute}"]
    notebook, source = nbformat.read(made, as_version=4), jupytext.read(chapter)
    page, known = filling.page_of(chapter.stem), known_facts(ROOT)
    own = filling.with_begins(known | {page: found_in(notebook)}, page, source.cells)
    found = []
    if own != known.get(page, {}):
        found.append(f"  {chapter.stem}: {facts_file(ROOT).name} has other facts: {execute}")
    if filling.uses_facts(source.cells):
        wrong = filling.faults(source.cells, page, known | {page: own}, used_anywhere())
        found += [f"  {chapter.stem}: {words}" for words in wrong]
    if parts(with_facts(source, chapter.stem, known)) != parts(notebook):
        found.append(f"  {chapter.stem}: {made.name} was made from another source: {execute}")
        return found
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, start=1):
        if cell.execution_count is None:
            found.append(f"  {chapter.stem}: code cell {count} was not run: {execute}")
        if any(output.output_type == "error" for output in cell.outputs):
            found.append(f"  {chapter.stem}: code cell {count} ends with an error: {execute}")
    return found


def used_anywhere() -> set[str]:
    """The facts that stand in the text of any page."""
    pages = [*plain_pages(ROOT), *named()]
    return {f for p in pages for f in filling.used(p.read_text("utf-8"), filling.page_of(p.stem))}


def refusals_in_place(page: Path) -> list[str]:
    """Why a page without a notebook cannot stand in the book: a line each."""
    text, known = page.read_text(encoding="utf-8"), known_facts(ROOT)
    missing = [f for f in sorted(filling.used(text)) if not filling.looked_up(f, "", known)]
    found = [f"  {page.name}: there is no fact {name}" for name in missing]
    stale = [f"  {page.name}: its facts are stale: run `make execute`"]
    return found + stale * (filling.in_place(text, known) != text)


def parts(notebook: nbformat.NotebookNode) -> list[tuple[str, str, tuple[str, ...]]]:
    """What a chapter and its notebook have in common: kind, source and tags of every cell."""
    cells = notebook.cells
    return [(c.cell_type, c.source, tuple(c.metadata.get("tags", ()))) for c in cells]


# ---------------------------------------------------------------- the site


def site(model: str) -> Path:
    """Build an edition's site with warnings as errors, unless it stands there as it would be built
    now; returns its first page. Two builds at once wait for each other.
    """
    base = home(model)
    stamp, page = base / "_build" / "stamps" / "site", base / "_build" / "html" / "index.html"
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with stamp.with_name("site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if base != ROOT:
            lay_out(base)
        given = inputs(model, *sources(base))
        if not stamps.holds(stamp, given, [page]):
            stamp.unlink(missing_ok=True)
            build_site(model, base)
            stamps.keep(stamp, given, [page])
    return page


def lay_out(base: Path) -> None:
    """Give the notebooks of another edition the pages around them."""
    for name in ("_toc.yml", "CITATION.cff", "CHANGELOG.md"):
        shutil.copy(ROOT / name, base / name)
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    # Colab opens what the repository holds, which is mini's notebook; this one is downloaded.
    config["sphinx"]["config"]["html_theme_options"].pop("launch_buttons", None)
    for address in ("html_baseurl", "ogp_site_url"):  # as `pages` lays them out
        config["sphinx"]["config"][address] += f"{base.name}/"
    (base / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    pages = shutil.ignore_patterns("*.ipynb", "*.part")
    shutil.copytree(ROOT / "book", base / "book", dirs_exist_ok=True, ignore=pages)
    fill_in_place(base)


def sources(base: Path) -> list[Path]:
    """All that a site is built from."""
    beside = [file for file in ROOT.iterdir() if file.suffix in (".yml", ".cff", ".md", ".txt")]
    folders = {*(ROOT / name for name in SITE), base / "book"}
    return [*beside, *(file for folder in folders for file in stamps.below(folder))]


def build_site(model: str, base: Path) -> None:
    """Build the site of an edition whose pages are there."""
    for name in re.findall(r"book/((?:\d\d|[A-Z])_\w+)", (base / "_toc.yml").read_text()):
        if not (base / "book" / f"{name}.ipynb").exists():
            again = f"run `make execute CHAPTER={name}` first"
            raise ValueError(f"book/{name}.ipynb is not there: {again}")
    real = REAL if base == ROOT else ()
    html = base / "_build" / "html"
    shutil.rmtree(html, ignore_errors=True)  # what Sphinx has read it keeps elsewhere
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(base)]
    # the reference imports the package, and the extensions are among the tools
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{TOOLS}"}
    command += ["-W", "-n", "--keep-going", "-q"]
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as sphinx:
        data = [packed(model, what) for what in ("layer", "neuron", *real)]
        said, _ = sphinx.communicate()
    if sphinx.returncode:
        sys.stderr.write(said[-12000:])
        raise ValueError("the site was not built; the warnings above are errors")
    # in place of Jupyter Book's redirection, which has neither language nor title nor icon
    shutil.copy(TOOLS / "front.html", html / "index.html")
    shutil.copy(TOOLS / "offline.js", html)
    lead_on(html / "book")
    pages = {page: page.read_text(encoding="utf-8") for page in html.rglob("*.html")}
    new = html / "_static" / "at"
    (new / "views" / "views").mkdir(parents=True)
    (html / "_static" / "views").mkdir()
    shutil.copy(bundle.HERE / "views.css", html / "_static" / "views")
    modules = {"page.js": bundle.plain(bundle.HERE / "page.js")}
    for view in {*re.findall(r'<div data-view="(\w+)"', "".join(pages.values()))}:
        modules[f"views/{view}.js"] = bundle.bundled(f"views/{view}.js")
    for name, module in modules.items():
        (new / "views" / name).write_text(module, encoding="utf-8")
    theme = html / "_static" / "scripts" / "pydata-sphinx-theme.js"
    theme.write_text(MEASURING.sub("", theme.read_text(encoding="utf-8")), encoding="utf-8")
    sheet = sheets.one_sheet(html / "_static", new, pages.values())
    (new / "book.css").write_text(sheet, encoding="utf-8")
    for folder in data:
        shutil.copytree(folder, new / "data", dirs_exist_ok=True)
    if views := (new / "data" / "layer.bin").exists():
        (new / "data" / "neurons.csv").write_bytes(labelled_neurons(html))
    here = named_for_its_content(new)
    for page, shown in pages.items():
        shown = shown.replace(f'href="{ADDRESS}book/{page.name}#', 'href="#')
        shown = shown if views else LAYER_VIEW.sub(NO_VIEW, shown)
        shown = shown if real else re.sub(r" data-models='[^']*'", "", shown)
        page.write_text(seal(hint(shown, here)), encoding="utf-8")


def named_for_its_content(folder: Path) -> str:
    """Gives a folder with the modules and data of views the name of what is in it, so that a page
    finds those that it was built with, whatever else a browser still keeps; returns the name.
    """
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    held = "".join(f"{file.relative_to(folder)} {digest(file)}\n" for file in files)
    name = f"at-{hashlib.sha256(held.encode()).hexdigest()[:10]}"
    folder.rename(folder.with_name(name))
    return name


def lead_on(pages: Path) -> None:
    """Write, under each old address of a page that has another name now (`moved.toml`), a page that
    leads to it; with a script, the query and the fragment of the address go along.
    """
    for old, new in tomllib.loads((TOOLS / "moved.toml").read_text(encoding="utf-8")).items():
        root = "../" * (1 + old.count("/"))
        replace(pages / f"{old}.html", filled_in("moved.html", to=f"{new}.html", root=root))


def packed(model: str, what: str) -> Path:
    """A folder in an edition's `_build` with files that views compute with, if the model gives any:
    made anew when the model, the package or what packs them has changed.
    """
    place, stamp = (home(model) / "_build" / kind / what for kind in ("packed", "stamps"))
    place.mkdir(parents=True, exist_ok=True)
    given = inputs(model, *package(), TOOLS / "packing.py")
    if not stamps.holds(stamp, given, place.rglob("*")):
        import packing  # only here, for its imports take seconds

        made = packing.packed(what, model, called(model)) or {}
        shutil.rmtree(place)
        place.mkdir()
        for name, content in made.items():
            replace(place / name, content)
        stamps.keep(stamp, given, place.rglob("*"))
    return place


def labelled_neurons(html: Path) -> bytes:
    """Chapter 6's table of neurons, which its page holds as a link; empty where it holds none."""
    page = (html / "book" / "06_neurons.html").read_text(encoding="utf-8")
    link = re.search(r'download="neurons\.csv" href="data:text/csv;[^"]*base64,([\w+/]+=*)"', page)
    return base64.b64decode(link[1]) if link else b""


# A view that computes with the packed layer; those of chapters 0, 13 and 15 have their own numbers.
LAYER_VIEW = re.compile(
    r'<div data-view="(?!lookups"|positions"|spellings")\w+"[^>]*>.*?</div>', re.DOTALL
)
NO_VIEW = (
    "<p>This view computes with position embeddings, which this model does not have; "
    '<a href="13_families.html">chapter 13</a> treats it.</p>'
)


#: In a page's head: whether its address leads to the view, or holds what the view shows.
LED_TO_VIEW = "if (/=|^#turn-it$/.test(location.hash))"


FONTS = ("source-serif-4", "source-sans-3")
FONT = (
    '<link rel="preload" as="font" type="font/woff2" crossorigin '
    'href="{}fonts/{}-latin-wght-normal.woff2">'
)
# With this the theme lays out the whole of a page, to measure its boxes, when it is there and after
# every change in it; `book.js` measures those that come into sight.
MEASURING = re.compile(r',"complete"===document\.readyState\?(\w)\(\):\w+\.\w+\("load",\1\)')
#: What a page sets of the theme's options, which are what they would be anyway.
OPTIONS = re.compile(r"\s*<script>DOCUMENTATION_OPTIONS\.[^<]*</script>")


def hint(page: str, here: str) -> str:
    """A page that finds sheet, modules and data in the folder `here` and waits for no script, and
    whose head names its letters, the module of its view, and first of all the layer, where a reader
    has come for the view. In a chapter the view is one part of the page, and its layer is requested
    if the address leads to it.
    """
    page = OPTIONS.sub("", page).replace("<script src=", "<script defer src=")
    if sheet := sheets.LINK.search(page):  # its letters come along
        one = f'\n  <link rel="stylesheet" href="{sheet[1]}{here}/book.css">'
        page = page[: sheet.start()] + one + sheets.LINK.sub("", page[sheet.end() :])
        links = "".join(FONT.format(sheet[1], name) for name in FONTS)
        page = page.replace("<title>", f"{links}<title>", 1)
    page = re.sub(r"_static/(views|data)/", rf"_static/{here}/\1/", page)
    view = re.search(r'<div data-view="(\w+)"[^>]*>', page)
    if view is None:
        return page
    module = f'    <link rel="modulepreload" href="../_static/{here}/views/views/{view[1]}.js">\n'
    needed = bundle.linked(f"views/{view[1]}.js")
    if bundle.HERE / "ui/source.js" in needed and "&quot;file&quot;" not in view[0]:
        place = f"../_static/{here}/data/layer.bin"
        layer = f'<link rel="preload" as="fetch" crossorigin href="{place}">'
        if " data-addressed" not in view[0]:
            layer = f"<script>{LED_TO_VIEW} document.write('{layer}');</script>"
        page = page.replace("<title>", f"{layer}<title>", 1)
    return page.replace("</head>", f"{module}  </head>", 1)


def seal(page: str) -> str:
    """A page that can load nothing from another host and run nothing but what was built into it.

    A Content-Security-Policy in its head names the host itself and, by their fingerprints, the
    theme's own inline scripts. Raises ValueError for one that `inline.toml` does not know. It names
    no next page: Firefox would fetch it at once, and warn that the policy forbids it.
    """
    page = re.sub(r'\n *<link rel="next"[^>]*>', "", page)
    inline = re.findall(r"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", page, re.DOTALL)
    inline += [unescape(code) for code in re.findall(r'\son[a-z]+="([^"]*)"', page)]
    inline.append("window.print()")  # of other pages, which a search parses to quote them
    for code in inline:
        if not INLINE.fullmatch(code.strip()):
            raise ValueError(
                f"an inline script that tools/inline.toml does not know: {code[:90]!r}"
            )
    digests = {hashlib.sha256(code.encode()).digest() for code in inline}
    allowed = sorted(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src 'self' 'unsafe-hashes' {' '.join(allowed)}; "
        "style-src 'self' 'unsafe-inline'; "  # equations and figures bring their own
        "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'self'; "
        "form-action 'self'"
    )
    return page.replace(
        "<head>", f'<head>\n    <meta http-equiv="Content-Security-Policy" content="{policy}">', 1
    )


# ---------------------------------------------------------------- what is published


def pages() -> Path:
    """Bring the sites that are built together, `mini` on top; returns the folder."""
    sites = {"": BUILD / "html"} | {
        site.parent.parent.name: site for site in BUILD.glob("editions/*/_build/html")
    }
    if not (sites[""] / "index.html").exists():
        raise ValueError("there is no site in _build/html: run `make book` first")
    publishing.assemble(sites, BUILD / "pages")
    for name, built in sorted(sites.items()):
        print(f"/{name}: {built.relative_to(ROOT)}")
    return BUILD / "pages"


@command("book", status=1)
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=("book", "check", "execute", "site", "pages"))
    parser.add_argument("--model", default="mini", help="what cx.load takes")
    parser.add_argument("--chapter", help="this one only, such as 05_circuit")
    args = parser.parse_args(argv)
    if args.chapter and args.step not in ("book", "check", "execute"):
        parser.error(f"--chapter does not go with {args.step}, which takes the whole book")
    if args.step == "check" and args.model != "mini":
        parser.error("only the committed book, which is mini's, can be checked")
    if args.step == "execute" or (args.step == "book" and args.model != "mini"):
        execute(args.model, args.chapter)
    elif args.step in ("check", "book"):
        check(args.chapter)
    if args.step == "pages":
        print(f"Ready to be published: {pages()}")
    elif args.step == "site" or (args.step == "book" and not args.chapter):
        print("Building the site: usually a minute", flush=True)
        page = os.path.relpath(site(args.model))
        print(f"The book is at {page}: open it in a browser, or read it by `make serve`")


if __name__ == "__main__":
    sys.exit(main())
