"""Do the tests catch what matters? Known faults, put in one at a time.

    python tools/mutants.py [NAME ...]    all of the faults, or those named
                            [-j 2]        so many at a time
                            [--whole]     ask the whole suite, not the tests that a fault names
                            [--list]      what there is, and whether it still fits

Each fault is one line of the code, wrong in a way that has happened or could: a sign, an index, a
refusal that refuses no more. It is put into a copy of the tracked files, and the tests that should
notice are run there. Every fault has to make one of them fail. Before that, the same tests have to
pass on a copy without any fault.

Ends with 1 if a fault survives, or if it is stale: its line is no longer there once, or its tests
are none. A line that was rewritten on purpose takes its fault with it, to wherever the same mistake
could be made now. How a line is indented does not matter.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 900  # seconds for the tests of one fault
WHOLE = 7200  # and for the whole suite
CAUGHT, SURVIVED, STALE = "caught", "SURVIVED", "STALE"


@dataclass(frozen=True)
class Fault:
    """One wrong line. `before` and `after` are lines of `file` without their indentation; `tests`
    are what pytest is given: files, and `-k` with words. `site`: the tests build the site first.
    """

    name: str
    file: str
    before: str
    after: str
    tests: str
    site: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: `by` is the test that failed first, or the reason."""

    fault: Fault
    result: str
    by: str
    seconds: float = 0.0


# ---------------------------------------------------------------- the faults

FAULTS = (
    # -------------------------------------------------------------- the package
    Fault(
        "weights: LayerNorm without epsilon",
        "ctxlib/weights.py",
        'return (reduce(v**2, "... d_model -> ... 1", "mean") + eps).sqrt()',
        'return reduce(v**2, "... d_model -> ... 1", "mean").sqrt()',
        "tests/test_weights.py",
    ),
    Fault(
        "weights: a folded bias dropped",
        "ctxlib/weights.py",
        "return folded - folded.mean(dim=0, keepdim=True), bias @ W + b",
        "return folded - folded.mean(dim=0, keepdim=True), b",
        "tests/test_weights.py",
    ),
    Fault(
        "keys: the causal mask off by one",
        "ctxlib/keys.py",
        "return torch.ones(n, n, dtype=torch.bool, device=device).triu(1)",
        "return torch.ones(n, n, dtype=torch.bool, device=device).triu(2)",
        "tests/test_keys.py",
    ),
    Fault(
        "keys: total variation without the half",
        "ctxlib/keys.py",
        "return (a - b).abs().sum(-1) / 2",
        "return (a - b).abs().sum(-1)",
        "tests/test_keys.py -k total_variation",
    ),
    Fault(
        "kernels: half of the mass by <= for <",
        "ctxlib/kernels.py",
        "return (rows.flip(-1).cumsum(-1) < 0.5).sum(-1)",
        "return (rows.flip(-1).cumsum(-1) <= 0.5).sum(-1)",
        "tests/test_kernels.py -k half",
    ),
    Fault(
        "denominators: a variance with the wrong ddof",
        "ctxlib/denominators.py",
        "variances = torch.stack([g.var(0, correction=0) for g in groups])",
        "variances = torch.stack([g.var(0, correction=1) for g in groups])",
        "tests/test_denominators.py -k between",
    ),
    Fault(
        "texts: the text's own token left at n",
        "ctxlib/texts.py",
        "yield torch.stack([torch.cat([t[:needed], *last]) for t in part])",
        "yield torch.stack([torch.cat([t[: n + 1], *last])[: n + 1] for t in part])",
        "tests/test_denominators.py -k loops",
    ),
    Fault(
        "texts: BOS missing in front of later windows",
        "ctxlib/texts.py",
        "tokens = torch.cat([body[:1], piece])",
        "tokens = torch.cat([body[:1] if place == 0 else piece[:1], piece])",
        "tests/test_texts.py -k window",
    ),
    Fault(
        "circuit: the shared kernel not renormalised",
        "ctxlib/circuit.py",
        "return middle / middle.sum(-1, keepdim=True)",
        "return middle",
        "tests/test_circuit.py -k loops",
    ),
    Fault(
        "circuit: W_O of the wrong heads",
        "ctxlib/circuit.py",
        "return self.weights.W_O[list(self.heads)] @ W_in / self.scale",
        "return self.weights.W_O[: len(self.heads)] @ W_in / self.scale",
        "tests/test_circuit.py -k loops",
    ),
    Fault(
        "causal: content and kernel exchanged",
        "ctxlib/decoders/causal.py",
        "content, position = split_scores(weights, tokens, q, circuit.C)",
        "position, content = split_scores(weights, tokens, q, circuit.C)",
        "tests/test_causal.py -k loops",
    ),
    Fault(
        "neurons: the wrong end of the contributions",
        "ctxlib/neurons.py",
        "best, worst = (contribution.topk(largest, dim=0, largest=up) for up in (True, False))",
        "worst, best = (contribution.topk(largest, dim=0, largest=up) for up in (True, False))",
        "tests/test_neurons.py -k loops",
    ),
    Fault(
        "empirical: heads that share values in the wrong order",
        "ctxlib/empirical.py",
        'W_V=repeat(W_V, "kv d_model d_head -> (kv shared) d_model d_head", shared=shared),',
        'W_V=repeat(W_V, "kv d_model d_head -> (shared kv) d_model d_head", shared=shared),',
        "tests/test_families.py -k 'rows or outputs'",
    ),
    Fault(
        "evaluation: FVU over the wrong variance",
        "ctxlib/evaluation.py",
        "sd = (self.tt / self.count).sqrt()",
        "sd = (self.aa / self.count).sqrt()",
        "tests/test_evaluation.py -k moments",
    ),
    Fault(
        "evaluation: a resumed run skips a batch",
        "ctxlib/evaluation.py",
        "if skipped < len(tokens):",
        "if skipped == 0:",
        "tests/test_evaluation.py -k 'killed or added or batches'",
    ),
    Fault(
        "evaluation: a checkpoint written in its place",
        "ctxlib/evaluation.py",
        'beside = self.file.with_name(self.file.name + ".part")',
        "beside = self.file",
        "tests/test_evaluation.py -k kill",
    ),
    Fault(
        "lookups: the wrong layer's weights",
        "ctxlib/decoders/lookups.py",
        "return (model.blocks[layer].mlp.W_out.detach() @ adapter.unembedding(model)).cpu()",
        "return (model.blocks[0].mlp.W_out.detach() @ adapter.unembedding(model)).cpu()",
        "tests/test_lookups.py -k congruence",
    ),
    Fault(
        "adapter: the own heads of a parallel layer feed its neurons",
        "ctxlib/decoders/adapter.py",
        'return range(layer + (not getattr(model.cfg, "parallel_attn_mlp", False)))',
        "return range(layer + 1)",
        "tests/test_lookups.py -k untouched",
    ),
    Fault(
        "explain: a seed ignored",
        "ctxlib/decoders/explain.py",
        "list(zip(texts, kinds, strict=True)), test_size=0.5, stratify=kinds, random_state=seed",
        "list(zip(texts, kinds, strict=True)), test_size=0.5, stratify=kinds, random_state=0",
        "tests/test_explain.py -k split",
    ),
    Fault(
        "chat: a key quoted by the endpoint is shown",
        "ctxlib/chat.py",
        'line = " ".join(sendable(said).replace(self.client.api_key, "[key]").split())',
        'line = " ".join(sendable(said).split())',
        "tests/test_chat.py -k key",
    ),
    Fault(
        "models: what is computed wrongly is not refused",
        "ctxlib/models.py",
        "if not (computed - expected).abs().max() < AGREES:",
        "if (computed - expected).isnan().any():",
        "tests/test_models.py -k wrongly",
    ),
    Fault(
        "claims: a verdict inverted",
        "ctxlib/claims.py",
        'return "holds" if self.at_least <= here <= self.at_most else "does not hold"',
        'return "does not hold" if self.at_least <= here <= self.at_most else "holds"',
        "tests/test_claims.py",
    ),
    Fault(
        "plots: no alternative text",
        "ctxlib/plots.py",
        """f'<div role="img" aria-label="{label}">{self.svg}</div>'""",
        """f"<div>{self.svg}</div>{label[:0]}\"""",
        "tests/test_pages.py",
    ),
    # -------------------------------------------------------------- views, in Python
    Fault(
        "views: a state that breaks out of its place",
        "ctxlib/widgets/views.py",
        "state = html.escape(written, quote=True)",
        "state = html.escape(written, quote=False)",
        "tests/test_widgets.py -k break_out",
    ),
    Fault(
        "views: a state unchecked",
        "ctxlib/widgets/views.py",
        "if 0 <= value < size:",
        "if 0 <= value <= size:",
        "tests/test_widgets.py -k refuse",
    ),
    Fault(
        "record: BOS and destination among what is drawn",
        "ctxlib/widgets/record.py",
        "inner, kernel = values[..., 1:-1], kernels[:, 1:-1]",
        "inner, kernel = values, kernels",
        "tests/test_view_denominators.py -k record",
    ),
    # -------------------------------------------------------------- views, in the browser
    Fault(
        "circuit.js: the finer int8 level with the wrong sign",
        "ctxlib/widgets/circuit.js",
        "for (let k = 0; k < d; k++) out[fine[r] * d + k] += W_E_fine[r * d + k];",
        "for (let k = 0; k < d; k++) out[fine[r] * d + k] -= W_E_fine[r * d + k];",
        "tests/test_engine.py -k triples",
    ),
    Fault(
        "tokenizer.js: merges out of order",
        "ctxlib/widgets/tokenizer.js",
        "for (const changed of [Math.max(previous[at], 0), at, right]) update(changed);",
        "for (const changed of [at, right]) update(changed);",
        "tests/test_tokenizer.py -k pieces",
    ),
    Fault(
        "parts.js: what an address says is not checked",
        "ctxlib/widgets/parts.js",
        "if (test(value)) return value;",
        "if (test(value) || value !== undefined) return value;",
        "tests/test_view_rows.py -k nonsense",
    ),
    Fault(
        "plot.js: a drawing without a text",
        "ctxlib/widgets/plot.js",
        'drawn("svg", { class: "ctx-chart", ...sized, role: "img", "aria-label": alt })',
        'drawn("svg", { class: "ctx-chart", ...sized, role: "img" })',
        "tests/test_view_kernels.py -k reader_out",
    ),
    Fault(
        "static.js: a heading's address taken for a state",
        "ctxlib/widgets/static.js",
        'if (!hash || hash.includes("=")) this.take(addressedState(state, hash));',
        "this.take(addressedState(state, hash));",
        "tests/test_view_neurons.py -k heading",
    ),
    Fault(
        "rows.js: C doubled",
        "ctxlib/widgets/rows.js",
        "const rebuilt = layer.rebuiltRow(head, ids, n, layer.C * 2 ** octaves);",
        "const rebuilt = layer.rebuiltRow(head, ids, n, 2 * layer.C * 2 ** octaves);",
        "tests/test_view_rows.py -k ctxlib",
    ),
    Fault(
        "kernels.js: a slider not written to the address",
        "ctxlib/widgets/kernels.js",
        "onInput: (n) => turn(model, { n }),",
        'onInput: (n) => model.set("n", n),',
        "tests/test_view_kernels.py -k keyboard",
    ),
    Fault(
        "denominators.js: the wrong end of the level",
        "ctxlib/widgets/denominators.js",
        "const beyond = (/** @type {number} */ epsilon) => "
        "TAILS[bound](epsilon, facts) > 1 - level;",
        "const beyond = (/** @type {number} */ epsilon) => TAILS[bound](epsilon, facts) > level;",
        "tests/test_view_denominators.py -k bands",
    ),
    Fault(
        "neurons.js: the threshold ignored",
        "ctxlib/widgets/neurons.js",
        "const theta = now.threshold || ranking.rule;",
        "const theta = ranking.rule;",
        "tests/test_view_neurons.py -k threshold",
    ),
    Fault(
        "reader.js: BOS left out",
        "ctxlib/widgets/reader.js",
        "const ids = [layer.bos, ...read.map(({ id }) => id)];",
        "const ids = read.map(({ id }) => id);",
        "tests/test_view_reader.py -k numbers",
    ),
    Fault(
        "lookups.js: a sign",
        "ctxlib/widgets/lookups.js",
        "prompt.heads.map((term, k) => term - neuron.usual.heads[k]);",
        "prompt.heads.map((term, k) => term + neuron.usual.heads[k]);",
        "tests/test_view_lookups.py -k 'rise or account'",
    ),
    # -------------------------------------------------------------- tools and site
    Fault(
        "train_mini: a resumed run skips a batch",
        "tools/train_mini.py",
        'return int(facts["step"]), float(facts["seconds"])',
        'return int(facts["step"]) + 1, float(facts["seconds"])',
        "tests/test_train.py -k killed",
    ),
    Fault(
        "train_mini: a seed ignored",
        "tools/train_mini.py",
        "torch.manual_seed(recipe.seed)",
        "torch.manual_seed(0)",
        "tests/test_train.py -k seed",
    ),
    Fault(
        "ship_mini: heads of a fused matrix in the wrong order",
        "tools/ship_mini.py",
        'return rearrange(fused, "... (qkv h e) -> (h qkv e) ...", qkv=3, h=recipe.n_head)',
        'return rearrange(fused, "... (qkv h e) -> (qkv h e) ...", qkv=3, h=recipe.n_head)',
        "tests/test_twins.py -k shipped_format",
    ),
    Fault(
        "models: a twin's checksum not compared",
        "ctxlib/models.py",
        "if place.exists() and hashlib.sha256(place.read_bytes()).hexdigest() == known:",
        "if place.exists():",
        "tests/test_twins.py -k fetched_once",
    ),
    Fault(
        "reproduce: provenance not compared",
        "tools/reproduce.py",
        'if before["provenance"] != given:',
        'if before["provenance"].keys() != given.keys():',
        "tests/test_reproduce.py -k provenance",
    ),
    Fault(
        "publishing: a name not escaped",
        "tools/publishing.py",
        """shown = ", ".join([f"<b>{html.escape(model)}</b>", *links])""",
        """shown = ", ".join([f"<b>{model}</b>", *links])""",
        "tests/test_publish.py -k every_edition",
    ),
    Fault(
        "release: another tag is not refused",
        "tools/release.py",
        'if tag is not None and tag != f"v{version}":',
        'if tag is not None and version not in f"v{version}":',
        "tests/test_publish.py -k release",
    ),
    Fault(
        "build_book: a page loads from another host",
        "tools/build_book.py",
        '<link rel="icon" href="_static/logo.svg">',
        '<link rel="icon" href="https://example.org/logo.svg">',
        "tests/test_site.py -k host",
        site=True,
    ),
    Fault(
        "build_book: pages are not sealed",
        "tools/build_book.py",
        "finished = hint(seal(lighten(plain if views else without_views(plain))))",
        "finished = hint(lighten(plain if views else without_views(plain)))",
        "tests/test_site.py -k host",
        site=True,
    ),
)


class Stale(Exception):
    """A fault that does not fit the code any more; says why."""


# ---------------------------------------------------------------- putting one in


def faulty(source: str, fault: Fault) -> str:
    """The text of the fault's file with the fault in it; Stale unless its line is there once."""
    lines = source.split("\n")
    places = [i for i, line in enumerate(lines) if line.strip() == fault.before]
    if len(places) != 1:
        found = f"is there {len(places)} times" if places else "is not there"
        raise Stale(f"{fault.file}: the line {found}")
    (place,) = places
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    return "\n".join([*lines[:place], indent + fault.after, *lines[place + 1 :]])


def put_in(fault: Fault, tree: Path) -> None:
    """The fault in its file under this folder; Stale where it does not fit."""
    file = tree / fault.file
    if not file.exists():
        raise Stale(f"there is no {fault.file}")
    file.write_text(faulty(file.read_text(encoding="utf-8"), fault), encoding="utf-8", newline="")


def copied(root: Path, tree: Path) -> None:
    """The tracked files of a repository as they are now, in a folder of their own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True)
    if listed.returncode:
        raise SystemExit("mutants: this needs a clone of the repository, to know its files")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, tree / name)


# ---------------------------------------------------------------- asking the tests


def pytest_in(tree: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
    """Exit status and output of pytest in a copy, up to the first test that fails; None where the
    time was up. Nothing that it started is left behind.
    """
    aside = tree.parent / "tmp"
    aside.mkdir(exist_ok=True)
    options = ["-x", "-q", "--tb=line", "-rfE", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "TMPDIR": str(aside)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, output


def judged(fault: Fault, status: int | None, output: str) -> tuple[str, str]:
    """Result and reason, from how pytest ended."""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", output, re.MULTILINE)
    if status == 1 and failed:
        return CAUGHT, failed[1]
    if status == 0 and re.search(r"\b\d+ passed", output):
        return SURVIVED, fault.tests or "the whole suite"
    if status == 0:
        return SURVIVED, "all of its tests were left out here"
    if status is None:
        return SURVIVED, "the time was up"
    if status in (4, 5):
        return STALE, f"no such tests: {fault.tests}"
    said = [line for line in output.splitlines() if line.strip()]
    return SURVIVED, f"pytest ended with {status}: {said[-1] if said else 'nothing said'}"


def tried(fault: Fault, root: Path, whole: bool = False) -> Verdict:
    """What the tests say of one fault."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as place:
        tree = Path(place) / "tree"
        copied(root, tree)
        try:
            put_in(fault, tree)
        except Stale as error:
            return Verdict(fault, STALE, str(error))
        asked = [] if whole else shlex.split(fault.tests)
        status, output = pytest_in(tree, asked, LIMIT if asked else WHOLE)
    return Verdict(fault, *judged(fault, status, output), time.monotonic() - begun)


def union(faults: Iterable[Fault]) -> list[str]:
    """What pytest is given for the tests of all these faults together: words go with the name of
    their file, since alone they would choose tests of other files as well.

    >>> a, b = (Fault("", "", "", "", tests) for tests in ("test_a.py -k 'x or y'", "test_b.py"))
    >>> union([a, b])
    ['test_a.py', 'test_b.py', '-k', '(test_a and (x or y)) or test_b']
    """
    files: dict[str, None] = {}
    words: dict[str, None] = {}
    for fault in faults:
        if not fault.tests:
            return []
        before, _, expression = fault.tests.partition(" -k ")
        files |= dict.fromkeys(shlex.split(before))
        for name in (Path(file).stem for file in shlex.split(before)):
            also = [f"({name} and ({word}))" for word in shlex.split(expression)]
            words |= dict.fromkeys(also or [name])
    return [*files, "-k", " or ".join(words)]


def sound(faults: Sequence[Fault], root: Path, whole: bool = False) -> str:
    """What the tests of these faults say of the code without any; nothing if they pass."""
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as place:
        tree = Path(place) / "tree"
        copied(root, tree)
        status, output = pytest_in(tree, [] if whole else union(faults), WHOLE)
    return "" if status == 0 else output[-3000:] or "the time was up"


# ---------------------------------------------------------------- saying so


def table(verdicts: Sequence[Verdict]) -> str:
    """One line a fault."""
    times = [f"{v.seconds:.0f} s" if v.seconds else "" for v in verdicts]
    rows = [(v.fault.name, v.result, t, v.by) for v, t in zip(verdicts, times, strict=True)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True))
        for row in rows
    )


def chosen(faults: Sequence[Fault], names: Sequence[str]) -> list[Fault]:
    """The faults whose names begin with one of these, or all; those that build the site last.
    ValueError for a name that none begins with.
    """
    for name in names:
        if not any(fault.name.startswith(name) for fault in faults):
            known = ", ".join(fault.name for fault in faults)
            raise ValueError(f"no fault {name!r}; there are {known}")
    found = [f for f in faults if not names or f.name.startswith(tuple(names))]
    return sorted(found, key=lambda fault: fault.site)


def listed(faults: Sequence[Fault], root: Path) -> list[Verdict]:
    """The stale ones among these faults, as far as the code alone can say."""
    found = []
    for fault in faults:
        try:
            if not (root / fault.file).exists():
                raise Stale(f"there is no {fault.file}")
            faulty((root / fault.file).read_text(encoding="utf-8"), fault)
        except Stale as error:
            found.append(Verdict(fault, STALE, str(error)))
    return found


def main(
    arguments: Sequence[str] | None = None, faults: Sequence[Fault] = FAULTS, root: Path = ROOT
) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="how the names of some faults begin")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="so many at a time")
    parser.add_argument("--whole", action="store_true", help="ask the whole suite")
    parser.add_argument("--list", action="store_true", help="show the faults and run nothing")
    options = parser.parse_args(arguments)
    try:
        todo = chosen(faults, options.names)
    except ValueError as error:
        parser.error(str(error))
    stale = listed(todo, root)
    if options.list:
        said = {v.fault: v for v in stale}
        print(table([said.get(f, Verdict(f, "", f"{f.file}, by {f.tests}")) for f in todo]))
        return int(bool(stale))
    fitting = [f for f in todo if f not in {v.fault for v in stale}]
    if fitting and (wrong := sound(fitting, root, options.whole)):
        print(f"{wrong}\nmutants: without any fault the tests have to pass", file=sys.stderr)
        return 1
    verdicts = list(stale)
    with ThreadPoolExecutor(max(1, options.j)) as pool:
        for verdict in pool.map(lambda fault: tried(fault, root, options.whole), fitting):
            print(f"{verdict.fault.name}: {verdict.result}", file=sys.stderr, flush=True)
            verdicts.append(verdict)
    missed = [v for v in verdicts if v.result != CAUGHT]
    print(table(verdicts))
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} faults were caught")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
