"""What is published, the bounds it is judged by, and the sentences that a run bears out."""

import math
import re
import tomllib
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command import ROOT
from hypothesis import given
from hypothesis import strategies as st

import ctxbook as cb

FIGURES = cb.published_figures()
SOURCES = (
    "Gibson 2025", "Gibson 2025b", "Neo et al. 2024", "Elhage 2021", "Ba 2016", "Gurnee 2024"
)  # fmt: skip
WRITTEN = [*sorted((ROOT / "chapters").glob("*.py")), ROOT / "chapters" / "template" / "NN_slug.py"]

numbers = st.floats(-1e3, 1e3)
intervals = st.tuples(numbers, numbers).map(sorted).map(tuple)


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize("figure", FIGURES.values(), ids=list(FIGURES))
def test_a_figure_has_words_a_source_a_bound_and_a_reason(figure):
    assert figure.quotation and len(figure.quotation.split()) <= 10
    assert figure.source.split(",")[0] in SOURCES
    assert -math.inf < figure.at_least or figure.at_most < math.inf
    assert figure.at_least <= figure.at_most
    assert figure.reason or figure.value, "a reason, wherever the source sets no tolerance"
    numbers = re.findall(r"[\d.]*\d", figure.quotation)
    assert set(re.findall(r"[\d.]*\d", figure.value)) <= set(numbers), "it has the source's number"
    if not figure.reason:  # printed digits stand for half a unit of the last
        printed = Decimal(figure.value)
        half = Decimal(5).scaleb(printed.as_tuple().exponent - 1)
        assert figure.at_least in (-math.inf, float(printed - half))
        assert figure.at_most in (math.inf, float(printed + half))
    if figure.value.startswith("~"):  # about: a factor of one and a half
        number, *whole = (float(v) for v in figure.value.strip("~").split(" of "))
        number /= whole[0] if whole else 1
        for bound, expected in ((figure.at_least, number / 1.5), (figure.at_most, number * 1.5)):
            assert math.isinf(bound) or bound == float(f"{expected:.3g}")


def test_every_figure_is_judged_somewhere_and_no_ledger_has_one_or_a_bound_of_its_own():
    named = set()
    for chapter in WRITTEN:
        code = chapter.read_text("utf-8")
        assert not re.search(r"\bat_(least|most)=", code), chapter.name
        named |= {*re.findall(r'cb\.Claim\(\s*"(\w+)"', code)}
    assert named == set(FIGURES)


def test_no_line_that_was_ever_judged_is_missing():
    """A withdrawn line comes back, and a new one is entered."""
    ever = tomllib.loads((ROOT / "tests" / "judged.toml").read_text("utf-8"))
    assert set(ever["names"]) == set(FIGURES)
    assert set(ever["joined"].values()) <= set(FIGURES) and not {*ever["joined"]} & {*FIGURES}


# ---------------------------------------------------------------- verdicts


@given(numbers, st.none() | intervals, intervals, st.sampled_from(["l", "h", "lh"]))
def test_the_number_decides_unless_a_bound_is_in_its_interval(here, interval, bounds, sides):
    """The ends of the bound belong to it."""
    low = bounds[0] if "l" in sides else -math.inf
    high = bounds[1] if "h" in sides else math.inf
    verdict = cb.Published("x", "q", "s", at_least=low, at_most=high).verdict
    decided = "holds" if low <= here <= high else "does not hold"
    inside = interval and any(interval[0] < bound < interval[1] for bound in (low, high))
    assert verdict(here, interval) == ("undecided" if inside else decided)
    assert verdict(here) == verdict(here, (math.nan, math.nan)) == decided
    assert verdict(math.nan, interval) == "untestable"
    assert {verdict(bound) for bound in bounds} == {"holds"}


# ---------------------------------------------------------------- claims and ledgers


def test_a_row_has_what_was_measured_and_what_is_published(tiny):
    claims = (
        cb.Claim("heads_add", "the sum", 0.00012, digits=4),
        cb.Claim("loss_is_there", "loss", 0.05, (-0.004, 0.1)),
        cb.Claim("tv", "TV", math.nan),
    )
    table = cb.ledger(tiny, *claims)
    assert list(table) == ["claim", "published", "this run", "holds if", "verdict"]
    assert table.loc[1].tolist() == [
        "the sum", "the heads of a layer add (Elhage 2021)",
        "0.0001", "at most 0.0001", "does not hold",
    ]  # fmt: skip
    assert table.loc[2, "this run"] == "0.05 [0.00, 0.10]", "no minus before a zero"
    assert table["verdict"].tolist()[1:] == [
        "another model; undecided here",
        "another model; untestable here",
    ]
    assert table.loc[3, "this run"] == "–"
    with pytest.raises(ValueError, match=r"no published figure 'median_R' in .*published\.toml"):
        cb.Claim("median_R", "", 1.0)
    with pytest.raises(ValueError, match="give its lower end first"):
        cb.Claim("tv", "TV", 0.05, (0.06, 0.04))


def test_what_could_not_come_out_otherwise_is_folded_and_called_so(tiny):
    ids = {"heads_add": 0.0, "tv": math.nan, "tv_alike": 0.5, "orthogonal": 9.0, "weak_linear": 0.5}
    table = cb.ledger(tiny, *(cb.Claim(id, id, here) for id, here in ids.items()))
    shown, folded = table._repr_html_().split("<details>")
    counts = "1 decided by algebra, 2 deciding little, 1 untestable here"
    assert f"<summary>{counts}</summary>" in folded
    for id in ids:
        statement = cb.published(id).statement[:40]  # longer ones are cut
        assert (statement in shown, statement in folded) == (id == "tv_alike", id != "tv_alike")
        assert id in repr(table), "the whole table, as text"
    judged = table.loc[[3]]
    assert judged._repr_html_() == pd.DataFrame(judged)._repr_html_(), "nothing to fold"


def test_a_figure_about_gpt2_small_is_judged_on_gpt2_small_only(tiny, monkeypatch):
    def verdicts():
        claims = [cb.Claim("tv", "TV", 0.04, on_gpt2=there) for there in (False, True)]
        claims.append(cb.Claim("heads_add", "the sum", 0.0))
        return cb.ledger(tiny, *claims)["verdict"].tolist()

    assert verdicts() == ["another model; holds here", "holds", "holds"]
    monkeypatch.setattr("ctxbook.ledgers.GPT2_SMALL", cb.known_by(tiny))
    assert verdicts() == ["holds"] * 3


def test_lines_about_real_models_are_kept_beside_those_of_other_chapters(tmp_path, monkeypatch):
    """And a chapter's own in place of what it had before."""
    monkeypatch.setattr("ctxbook.kept.EVIDENCE", tmp_path)
    for chapter, line, value in (("06", "gone", "0"), ("07", "r", "0.9"), ("06", "TV", "0.1")):
        lines = pd.DataFrame({"Qwen": [value], "MiniLM": [""]}, index=[line])
        cb.keep_rows(chapter, lines)
    kept = cb.on_real("TV", "r")
    assert kept.to_dict("index") == {"TV": {"Qwen": "0.1"}, "r": {"Qwen": "0.9"}}
    with pytest.raises(KeyError, match="gone"):
        cb.on_real("gone")


# ---------------------------------------------------------------- documents


def texts_of(*documents):
    return [SimpleNamespace(document=d, name=str(i)) for i, d in enumerate(documents)]


def test_more_windows_of_the_same_documents_make_no_interval_narrower():
    values = np.random.default_rng(0).normal(size=20)
    names = [f"document {d:02}" for d in range(20)]
    once = cb.by_document(lambda drawn: values[drawn].mean(), texts_of(*names))
    windows = cb.by_document(lambda i: values[i // 5].mean(), texts_of(*np.repeat(names, 5)))
    loose = cb.by_document(lambda i: values[i // 5].mean(), texts_of(*[""] * 100))
    assert windows == pytest.approx(once)
    assert once[1] - once[0] > 1.5 * (loose[1] - loose[0])
    exact = 1.96 * values.std() / 20**0.5
    assert once[1] - once[0] == pytest.approx(2 * exact, rel=0.15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("value", "documents"), [(float("nan"), "abc"), (1.0, "aa"), (1.0, "")])
def test_what_is_no_number_or_of_one_document_has_no_interval_and_no_warning(value, documents):
    interval = cb.by_document(lambda drawn: value, texts_of(*documents))
    assert np.isnan(interval).all()
