"""What is published: editions beside each other, one address, one version, the book on one page."""

import os
import re
import shutil
import subprocess
import tomllib

import address
import build_book
import files
import publishing
import pytest
import yaml
from command import ROOT
from viewing import opened

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = PROJECT["urls"]["Repository"]
EDITION = "_build/editions/gpt2/_build/html/index.html"


def test_what_workflows_run_is_there_and_nothing_that_people_type_is_run():
    files = (ROOT / ".github" / "workflows").glob("*.yml")
    runs = re.findall(r"(?m)^ *-? *run: (.*)", "\n".join(f.read_text("utf-8") for f in files))
    targets = {target for run in runs for target in re.findall(r"^make (?:--silent )?(\w+)", run)}
    assert targets and targets <= {
        *re.findall(r"(?m)^(\w+):", (ROOT / "Makefile").read_text("utf-8"))
    }
    assert not [run for run in runs if "${{" in run], "it reaches a command by its environment"


# The GitHub CLI, of a repository whose releases are folders, as a function of bash
GH = """() { (
set -e
cd "$RELEASES"
case "$1 $2" in
"release list") [ ! -e offline ] || exit 1; ls ;;
"release view") [ -d "$3" ] ;;
"release create")
  mkdir "$3"
  for given in "${@:4}"; do if [ -f "$given" ]; then cp "$given" "$3"; fi; done
  ;;
"release upload") cp "${@:4:$#-4}" "$3" ;;
"release download") cp "$3"/*.tar.gz "$7" ;;
esac
) }"""


def test_an_edition_is_kept_from_one_run_to_the_next_or_the_deployment_stops(tmp_path):
    releases = tmp_path / "releases"
    releases.mkdir()

    def run(step, machine, content=None, gh=GH):
        """As a fresh machine would, one that has built `content` as its edition."""
        script = tmp_path / machine / ".ci" / "editions"
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / ".ci" / "editions", script)
        if content is not None:
            (tmp_path / machine / EDITION).parent.mkdir(parents=True)
            (tmp_path / machine / EDITION).write_text(content)
        given = os.environ | {"RELEASES": str(releases), "BASH_FUNC_gh%%": gh}
        done = subprocess.run(["bash", str(script), step], env=given, capture_output=True)
        return done.returncode, done.stdout.decode()

    assert run("keep", "failed", "", GH.replace('mkdir "$3"', "exit 1"))[0] != 0
    none = (0, "editions: none is kept\n")
    assert run("fetch", "first") == none, "no release stands there without an edition"
    for content in ("old", "new"):
        assert run("keep", content, content)[0] == 0
    assert run("fetch", "later") == (0, "editions: gpt2\n")
    assert (tmp_path / "later" / EDITION).read_text() == "new"
    (releases / "offline").touch()
    assert run("fetch", "first")[0] != 0
    assert run("keep", "first")[0] != 0, "nothing is built"


# ---------------------------------------------------------------- editions together


def site_of(folder, model):
    """The least that is a site."""
    page = folder / "book" / "00_welcome.html"
    page.parent.mkdir(parents=True)
    page.write_text(files.filled_in("byline.html", edition=model, to=str, whole="whole"))
    (folder / "index.html").write_text(model)
    return folder


def test_every_edition_leads_to_every_other(tmp_path):
    names = {"": "mini", "gpt2": "gpt2", "a-b": "a & b"}
    sites = {name: site_of(tmp_path / f"site{name}", model) for name, model in names.items()}
    out = tmp_path / "pages"
    publishing.assemble(sites, out)
    publishing.assemble(sites, out)  # over what is there
    for name, own in names.items():
        page = out / name / "book" / "00_welcome.html"
        assert f"<b>{own.replace('&', '&amp;')}</b>" in page.read_text(), "a name is no markup"
        links = re.findall(r'<a href="([^"]+)">([^<]+)</a>', page.read_text().partition(" · ")[0])
        led = {(page.parent / to).resolve(): label for to, label in links}
        assert led == {
            (out / other / "book" / "00_welcome.html").resolve(): model.replace("&", "&amp;")
            for other, model in names.items()
            if other != name
        }
        assert page.read_text().count("</b>") == 1 and "</a> · <a" in page.read_text()
    assert not list(tmp_path.glob("*.part"))
    built = (sites[""] / "book" / "00_welcome.html").read_text()
    assert "<!-- run on: mini -->" in built, "sites stay as built"
    publishing.assemble({"": sites[""]}, out)
    alone = (out / "book" / "00_welcome.html").read_text()
    assert alone == built, "a book without others needs no name"


def test_what_cannot_be_brought_together_is_one_clear_line(repository, tmp_path, refused):
    line = "book: there is no site in _build/html: run `make book` first"
    assert refused(build_book.main, "pages", code=1) == line
    site_of(tmp_path / "_build" / "html", "mini")
    assert build_book.main(["pages"]) == 0
    before = sorted((tmp_path / "_build" / "pages").rglob("*"))
    clash = site_of(tmp_path / "_build" / "editions" / "book" / "_build" / "html", "book")
    assert "an edition cannot be called 'book'" in refused(build_book.main, "pages", code=1)
    clash.parent.parent.rename(tmp_path / "_build" / "editions" / "x")
    (tmp_path / "_build/editions/x/_build/html/book/00_welcome.html").write_text("<h1>old</h1>")
    assert "names no edition: build it again" in refused(build_book.main, "pages", code=1)
    assert sorted((tmp_path / "_build" / "pages").rglob("*")) == before, "what was there stays"


# ---------------------------------------------------------------- downloads


@pytest.mark.parametrize("notebook", sorted((ROOT / "book").glob("*.ipynb")), ids=lambda f: f.stem)
def test_a_page_gives_its_executed_notebook_and_the_whole_book(html, notebook):
    page = html / "book" / f"{notebook.stem}.html"
    menu = page.read_text(encoding="utf-8").partition("dropdown-download-buttons")[2]
    menu = menu.partition("</ul>")[0]
    given, whole = re.findall(r'href="([^"]+)"', menu)
    assert (page.parent / given).resolve().read_bytes() == notebook.read_bytes()
    assert (page.parent / whole).resolve() == (html / f"{publishing.WHOLE}.html").resolve()
    assert "window.print()" in menu


def test_a_name_that_one_page_alone_has_stays_as_it_is():
    whole = publishing.joined({"a": '<h2 id="x">A</h2>', "b": '<a href="a.html#x">A</a>'})
    assert 'id="x"' in whole and 'href="#x"' in whole


def test_the_whole_book_holds_every_page_that_is_read_through(html):
    whole = (html / f"{publishing.WHOLE}.html").read_text(encoding="utf-8")
    pages = publishing.listed(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    assert {"book/00_welcome", "book/16_explanations", "book/glossary"} <= set(pages)
    assert not {"book/explorer", "book/api"} & set(pages)
    assert re.findall(r'<div class="joined" id="page-([^"]+)"', whole) == [
        page.removeprefix("book/") for page in pages
    ]
    parts = ("details", "div", "section")
    assert all(whole.count(f"<{part}") == whole.count(f"</{part}>") for part in parts)
    names = re.findall(r'\sid="([^"]+)"', whole)
    assert len(names) == len(set(names))
    assert len(set(re.findall(r'\shref="#([^"]+)"', whole))) > 100, "links within it"
    own = [(html / f"{page}.html").read_text("utf-8").count("<figure") for page in pages]
    assert whole.count("<figure") == sum(own) > 40 and "dropdown admonition" in whole, (
        "solutions stay"
    )
    formulas, set_ = (whole.count(f'class="{kind}"') for kind in ("math", "katex-mathml"))
    assert 500 < formulas <= set_ and "katex-error" not in whole
    assert f"Version {PROJECT['version']}, run on the model mini." in whole


def test_the_whole_book_is_printed_whole(site, browser):
    """A short page in its place: what is skipped on a screen depends on the style alone."""
    with opened(browser, viewport={"width": 1440, "height": 900}) as page:
        page.goto(f"{site}/book/notation.html")
        part = page.locator(".bd-article > section > section").first
        wrapped = "Object.assign(document.createElement('div'), { className: 'joined' })"
        part.evaluate(f"(e) => e.closest('article').appendChild({wrapped}).append(e.parentElement)")
        part = page.locator(".joined > section > section").first
        shown = "(e) => getComputedStyle(e).contentVisibility"
        skipped = part.evaluate(shown)
        page.emulate_media(media="print")
        assert (skipped, part.evaluate(shown)) == ("auto", "visible")


# ---------------------------------------------------------------- one address


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A function that reads the files with the address, of a repository that has only these."""
    listed = ["git", "grep", "-lI", "github", "*.md", "*.cff", "*.yml", "*.toml", "*.py", "*.ipynb"]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    names = [name for name in done.stdout.splitlines() if not name.startswith("tests/")]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(address, "ROOT", tmp_path)
    return lambda: {name: (tmp_path / name).read_text("utf-8") for name in names}


def test_every_place_names_one_address(copy):
    before = r"git\+|git clone |^repository-code: |repository_url: |^ADDRESS = \"|^Repository = \""
    named = re.compile(rf"(?m)(?:{before})(https?://[\w./-]+)")
    urls = named.findall("\n".join(copy().values()))
    assert len(urls) > 40 and {url.removesuffix("/raw/main") for url in urls} == {ADDRESS}


@pytest.mark.parametrize(
    "new", [f"{ADDRESS}-2", f"{ADDRESS}.two", "https://github.com/Else/a.book-2"]
)
def test_a_move_reaches_every_file_and_may_be_interrupted(copy, tmp_path, new):
    before = copy()
    assert address.main([f"{new}.git"]) == 0
    after = copy()
    assert len([name for name in before if before[name] != after[name]]) >= 25
    old = re.compile(rf"(?:{'|'.join(address.forms(ADDRESS))})(?![\w-]|\.\w)")
    assert [name for name in after if old.search(after[name])] == []
    for name in ("README.md", "pyproject.toml"):  # it was stopped before these
        (tmp_path / name).write_text(before[name], encoding="utf-8")
    address.main([new])
    assert copy() == after, "nothing is left to do"
    address.main([ADDRESS])
    assert copy() == before, "and back, to the letter"


@pytest.mark.parametrize("url", ["github.com/a/b", "https://github.com/a", "https://a.org/b/c", ""])
def test_what_is_no_address_is_one_clear_line_and_changes_nothing(copy, refused, url):
    before = copy()
    line = f'address: "{url}" is no repository: give one like https://github.com/owner/name'
    assert refused(address.main, url) == line
    assert copy() == before


# ---------------------------------------------------------------- one version, one way to cite


def called(*words):
    """What `make` prints, in the environment as it is."""
    command = ["make", "--silent", "--old-file=.venv/.ready", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


ENTRY = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
SAID = r"^  (?:version|note) +=? *\{(?:Version |.*ctxlib )?(\d+\.\d+\.\d+)"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("ctxlib/__init__.py", r'^__version__ = "(.*)"$'),
        ("CITATION.cff", r'^version: "(.*)"$'),
        ("CHANGELOG.md", r"\A(?s:.*?)^## \[(\d.*?)\]"),  # the first entry
        ("README.md", SAID),
        ("book/citation.md", SAID),
    ],
)
def test_every_place_names_one_version(name, place):
    versions = re.findall(place, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(versions) == {PROJECT["version"]}


def test_the_one_version_has_notes_of_its_own_and_the_date_of_the_citation():
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["date-released"]
    dates = dict(ENTRY.findall(log))
    assert dates[PROJECT["version"]] == str(cited)
    for version, day in dates.items():
        notes = called("notes", f"VERSION={version}").stdout
        assert notes.strip() and f"## [{version}] - {day}\n{notes}" in log
        assert not re.search(r"^(## |\[\d)", notes, re.MULTILINE), "the other entries' are theirs"


def test_another_tag_is_refused():
    done = called("release", "TAG=v9.9.9")
    assert done.returncode
    assert done.stderr.splitlines()[0] == f"release: v9.9.9 is no tag of {PROJECT['version']}"


def entries(text):
    """The BibTeX entries of a page, as fields."""
    return {
        name: dict(re.findall(r"^  (\w+) += \{+(.*?)\}+,$", body, re.MULTILINE)) | {"type": kind}
        for kind, name, body in re.findall(r"^@(\w+)\{([^,]+),\n(.*?)^\}", text, re.M | re.S)
    }


def test_what_is_to_be_cited_is_what_the_citation_file_has():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (author,) = (a["name"] for a in cited["authors"])
    page = entries((ROOT / "book" / "citation.md").read_text(encoding="utf-8"))
    readme = entries((ROOT / "README.md").read_text(encoding="utf-8"))
    own = {name: e for name, e in (page | readme).items() if "url" in e}
    assert {"contextfromweights2026", "ctxlib2026", "mini2026"} <= set(own)
    for name, entry in own.items():
        assert entry["author"] == author
        assert cited["title"] in entry["title"]
        assert entry["year"] == str(cited["date-released"])[:4]
        assert entry["url"] == cited["repository-code"]
        assert entry.get("license", cited["license"]) == cited["license"]
        assert cited["version"] in entry.get("version", entry.get("note", "")), name


def test_both_papers_are_cited_as_the_bibliography_lists_them():
    listed = entries((ROOT / "book" / "references.bib").read_text(encoding="utf-8"))
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    papers = [cited for cited in references if cited["type"] != "data"]  # the texts stand there too
    for name, cited in zip(("gibson2025decomposing", "neo2024interpreting"), papers, strict=True):
        paper = listed[name]
        authors = " and ".join(f"{a['family-names']}, {a['given-names']}" for a in cited["authors"])
        assert (cited["title"], cited["url"], str(cited["year"]), authors) == (
            re.sub("[{}]", "", paper["title"]), paper["url"], paper["year"], paper["author"],
        )  # fmt: skip
    readme = entries((ROOT / "README.md").read_text(encoding="utf-8"))["gibson2025decomposing"]
    assert readme.items() <= listed["gibson2025decomposing"].items()
