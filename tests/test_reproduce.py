"""The published figures against a model: what is judged, what is kept, and what is said."""

import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import ctxlib as cx

ROOT = Path(__file__).resolve().parent.parent
GPT2_SMALL = ROOT.parent / "shared" / "gpt2-small"
sys.path.insert(0, str(ROOT / "tools"))
import reproduce as tool

KEYS = [f.key for f in tool.FIGURES]
POSITIONAL = KEYS[: KEYS.index("norm_scale")]
LOOKUPS = ["opposite", "loss_is_there", "loss_is_small", "several_heads"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Results of a test stay with it, and no collection or date comes from outside."""
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.delenv("CTX_TEXTS", raising=False)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture(scope="module")
def subject(mini, mini_weights):
    return tool.Subject("mini", mini_weights, mini, count=30)


@pytest.fixture
def toy(tiny, tiny_weights):
    """A fresh one each time: what it has computed would hide what a test changes."""
    return tool.Subject("toy", tiny_weights, tiny, count=8)


@pytest.fixture
def as_gpt2_small(tiny_weights, tiny, monkeypatch):
    """The toy passes for GPT-2 small."""
    known = (cx.claims.fingerprint(tiny_weights), tiny.cfg.n_layers, tiny.cfg.d_vocab)
    monkeypatch.setattr(cx.claims, "GPT2_SMALL", known)


@pytest.fixture
def three_heads(as_gpt2_small, monkeypatch):
    """The toy has three heads, which stand for the published ones."""
    for name, heads in (("SIX", [0, 1]), ("LOCAL", [2])):
        monkeypatch.setattr(tool, name, heads)


@pytest.fixture
def part(tiny_folder, tmp_path):
    """A folder with the positional half of the toy's first layer."""
    names = "wpe.weight", *(f"h.0.{n}." for n in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2"))
    state = load_file(tiny_folder / "model.safetensors")
    kept = {k.removeprefix("transformer."): v for k, v in state.items()}
    folder = tmp_path / "part"
    folder.mkdir()
    save_file(
        {k: v.clone() for k, v in kept.items() if k.startswith(names)},
        folder / "layer0-attention.safetensors",
    )
    (folder / "config.json").write_text('{"n_head": 3}')
    return folder


def figure(measure, key="k", at_least=-math.inf, at_most=math.inf, **facts):
    published = cx.claims.Published(key, "1", "somebody", "", at_least, at_most, "it is so")
    made = {"name": "a figure", "chapter": 2, "protocol": "As it is.", "measure": measure}
    return tool.Figure(published, **made | facts)


def only(monkeypatch, *figures):
    monkeypatch.setattr(tool, "FIGURES", list(figures))


def found(value):
    return lambda subject: tool.Found(value, str(value))


def refuse(sentence):
    def measure(subject):
        raise ValueError(sentence)

    return measure


# ---------------------------------------------------------------- the list of figures


def test_every_published_figure_is_there():
    published = " ".join(f.stated for f in tool.FIGURES)
    for said in ("0.05", "0.9485", "0.1426", "~100", "300", "704", "1621", "1710", "3 4 7", "1 5"):
        assert said in published
    sources = {f.published.source.split(",")[0] for f in tool.FIGURES}
    assert sources == {"Gibson 2025", "Gibson 2025b", "Neo et al. 2024"}
    assert len(set(KEYS)) == len(KEYS)


@pytest.mark.parametrize("f", tool.FIGURES, ids=KEYS)
def test_each_has_a_protocol_and_fits_its_columns(f):
    assert f.protocol.endswith(".") and f.name
    assert len(f.name) < 39 and len(f.stated) < 23
    assert list((Path(__file__).parent.parent / "chapters").glob(f"{f.chapter:02}_*.py"))


# ---------------------------------------------------------------- rows against direct calls


def row(key, subject):
    (f,) = [f for f in tool.FIGURES if f.key == key]
    return f.measure(subject)


def test_r_and_fvu_are_those_of_the_package(subject, mini_weights):
    texts = cx.texts.collection(mini_weights, 30)
    heads = list(cx.stable_heads(mini_weights, texts, 256))
    text = cx.middle_text(mini_weights, texts, heads, 256)
    circuit = cx.ContextualCircuit.calibrate(mini_weights, text, heads, 256)
    neurons = cx.find_neurons(circuit).index
    table = cx.evaluate(circuit, texts, neurons)
    assert row("median_r", subject).judged == pytest.approx(table["r"].median(), abs=1e-4)
    assert row("median_fvu", subject).judged == pytest.approx(table["fvu"].median(), abs=1e-4)
    assert row("median_r", subject).difference == f"{table['r'].median() - 0.9485:+.4f}"
    tops = cx.find_neurons(circuit, threshold=5.0)
    assert row("neurons_at_theta", subject).judged == len(tops) / subject.model.cfg.d_mlp


def test_kernel_rows_are_those_of_the_package(subject, mini_weights):
    w = mini_weights
    table = cx.families(w, 500)
    local = table.index[table["family"] == "local"].tolist()
    assert row("local_heads", subject).shown == " ".join(map(str, local))
    assert row("duplicate_heads", subject).shown == " ".join(
        map(str, table.index[table["family"] == "duplicate-token"])
    )
    slow = table.index[table["family"] == "slowly decaying"].tolist()
    slow = subject.shaped("slowly decaying") or slow
    shared = cx.shared_kernel(cx.positional_kernels(w, 500, None)[slow])
    half = float(cx.effective_tokens(shared)) / 2
    assert row("bag_length", subject).judged == pytest.approx(half)


def test_tv_and_spread_are_those_of_the_package(subject, mini_weights):
    w, texts, heads = mini_weights, subject.texts, subject.heads
    one = texts[0].tokens
    apart = cx.total_variation(cx.attention_pattern(w, one), cx.rebuilt_pattern(w, one))
    assert row("tv", subject).judged == pytest.approx(float(apart[heads].median()), rel=0.3)
    denoms = cx.softmax_denominators(w, texts, 256)[:, heads]
    spread = float((denoms.std(0) / denoms.mean(0)).max())
    assert row("spread_at_half", subject).judged == pytest.approx(spread)
    content = cx.content_scores(w, 3, " the", one[:1]).exp() * cx.positional_kernels(w, 3)[:, :1]
    share = (content[:, 0] / cx.softmax_denominators(w, texts, 3)).mean(0)[heads]
    places, _, shares = subject.along
    torch.testing.assert_close(shares[places.index(3)], share)


def test_neurons_of_another_model_are_its_own(subject):
    auc = subject.apart("scripture", None)
    best = max(float(auc[j]) for j in subject.found)
    said = row("neuron_1710", subject)
    j = int(said.shown.partition(":")[0])
    assert j in subject.found and float(auc[j]) == said.judged == best
    domains, values = subject.on_passages
    high, low = (values[domains == d, j] for d in ("british", "american"))
    by_hand = np.mean([[float(a > b) for b in low] for a in high])
    assert float(subject.apart("british", "american")[j]) == pytest.approx(by_hand)


def test_a_published_neuron_is_taken_from_gpt2_small_only(toy, as_gpt2_small):
    assert toy.is_gpt2_small
    assert toy.neuron(7, torch.zeros(40)) == 7 and toy.heads == tool.SIX


def test_lookups_name_a_head_for_each_neuron(tiny, monkeypatch):
    for name, count in (("FOLLOWED", 3), ("PROMPTS", 3), ("USUAL", 6)):
        monkeypatch.setattr(tool, name, count)
    texts = [torch.randint(1, 300, (32,), generator=torch.Generator().manual_seed(k))
             for k in range(12)]  # fmt: skip
    seen = tool.follow(tiny, [torch.cat([torch.tensor([0]), t[1:]]) for t in texts])
    assert len(seen.strongest) == len(seen.winners) == len(seen.lost) == 3
    assert all(0 <= int(h[0]) < 2 and 0 <= int(h[2]) < 3 for h in seen.strongest)
    assert np.isfinite(seen.lost).all() and min(seen.winners) >= 1


# ---------------------------------------------------------------- judging


@pytest.mark.parametrize(
    ("value", "verdict"), [(1.0, "met"), (3.0, "missed"), (math.nan, "not computed")]
)
def test_gpt2_small_is_judged(toy, as_gpt2_small, value, verdict):
    said = tool.measured(figure(found(value), at_least=0, at_most=2), toy)
    assert said["verdict"] == verdict


def test_another_model_is_not(toy):
    said = tool.measured(figure(found(3.0), at_most=2), toy)
    assert said["verdict"] == "another model" and said["measured"] == "3.0"


def test_other_texts_are_no_ground_for_a_verdict(toy, as_gpt2_small):
    said = tool.measured(figure(found(3.0), at_most=2, texts=1000), toy)
    assert said["verdict"] == "other texts" and said["note"] == "8 texts in place of 1000"
    assert tool.measured(figure(found(1.0), at_most=2, texts=8), toy)["verdict"] == "met"


def test_texts_that_end_too_soon_are_other_texts(toy, as_gpt2_small):
    toy.texts = [replace(t, tokens=t.tokens[:10]) for t in toy.texts]
    said = tool.measured(figure(found(1.0), at_most=2, texts=1), toy)
    assert said["verdict"] == "other texts" and "before position 16" in said["note"]


def test_what_cannot_be_computed_says_why(toy):
    said = tool.measured(figure(refuse("needs a moon")), toy)
    assert (said["verdict"], said["measured"], said["judged"]) == ("not computed", "–", None)
    assert said["note"] == "needs a moon"


def test_an_interval_that_contains_the_bound_decides_nothing(toy, as_gpt2_small):
    wide = lambda subject: tool.Found(1.0, "1", interval=(-0.5, 2.5))  # noqa: E731
    assert tool.measured(figure(wide, at_least=0), toy)["verdict"] == "undecided"
    assert tool.measured(figure(wide, at_least=-1), toy)["verdict"] == "met"


def test_heads_and_numbers_beside_published_ones(toy, as_gpt2_small):
    same = tool.same_heads([2, 0, 7], [0, 2, 5], toy)
    assert (same.judged, same.shown, same.difference) == (2, "0 2 7", "+7 −5")
    assert tool.same_heads([1], [1], toy).difference == "none"
    number = tool.number(0.948449, 0.9485, 4)
    assert (number.judged, number.shown, number.difference) == (0.948449, "0.9484", "-0.0001")


# ---------------------------------------------------------------- who is GPT-2 small


def test_the_fingerprint_is_the_same_both_ways_in(tiny_folder, tiny_weights):
    state = load_file(tiny_folder / "model.safetensors")
    other = cx.LayerWeights.from_state_dict(state, n_heads=3)
    assert cx.claims.fingerprint(other) == cx.claims.fingerprint(tiny_weights)


def test_a_name_or_a_size_does_not_make_gpt2_small(tiny, tiny_weights, as_gpt2_small, monkeypatch):
    changed = replace(tiny_weights, W_V=tiny_weights.W_V * 1.05)
    assert tool.Subject("a", tiny_weights, tiny).is_gpt2_small
    assert not tool.Subject("gpt2", changed, tiny).is_gpt2_small
    monkeypatch.setattr(cx.claims, "GPT2_SMALL", (cx.claims.GPT2_SMALL[0], 12, tiny.cfg.d_vocab))
    assert not tool.Subject("gpt2", tiny_weights, tiny).is_gpt2_small
    assert tool.Subject("part", tiny_weights).is_gpt2_small


# ---------------------------------------------------------------- a part of a layer


def test_a_part_is_judged_as_far_as_it_goes(part, three_heads, tmp_path):
    assert tool.main(["--positional", str(part), "--out", str(tmp_path / "r.json")]) in (0, 1)
    for key, said in tool.held(tmp_path / "r.json")["rows"].items():
        if key in POSITIONAL:
            assert said["verdict"] in ("met", "missed"), key
        else:
            assert said["verdict"] == "not computed"
            words = "whole model" if key in LOOKUPS else "token embeddings"
            assert words in said["note"] and "\n" not in said["note"]


def test_a_part_of_an_unknown_model_has_no_C(part, tmp_path):
    assert tool.main(["--positional", str(part), "--out", str(tmp_path / "r.json")]) == 0
    rows = tool.held(tmp_path / "r.json")["rows"]
    assert {r["verdict"] for r in rows.values()} == {"not computed"}


@pytest.mark.skipif(not GPT2_SMALL.exists(), reason="GPT-2 small's weights are not at hand")
def test_gpt2_small_itself_is_judged_by_its_positions(tmp_path):
    code = tool.main(["--positional", str(GPT2_SMALL), "--out", str(tmp_path / "r.json")])
    held = tool.held(tmp_path / "r.json")
    assert held["provenance"]["is GPT-2 small"]
    assert [k for k in KEYS if held["rows"][k]["verdict"] == "met"] == POSITIONAL and code == 0


# ---------------------------------------------------------------- the results file


def test_a_run_that_was_killed_goes_on(toy, tmp_path, monkeypatch):
    calls = []

    def measure(subject):
        calls.append(1)
        return tool.Found(1.0, "1")

    def killed(subject):
        raise KeyboardInterrupt

    file = tmp_path / "deep" / "results.json"
    first, second = figure(measure, "first"), figure(killed, "second")
    only(monkeypatch, first, second)
    with pytest.raises(KeyboardInterrupt):
        tool.reproduce(toy, file)
    assert list(tool.held(file)["rows"]) == ["first"]
    only(monkeypatch, first, replace(second, measure=measure))
    assert set(tool.reproduce(toy, file)["rows"]) == {"first", "second"}
    assert len(calls) == 2
    again = file.read_text()
    tool.reproduce(toy, file)
    assert file.read_text() == again and len(calls) == 2
    assert list(file.parent.iterdir()) == [file]  # nothing is left beside it


def test_other_provenance_begins_anew(toy, tiny, tiny_weights, tmp_path, monkeypatch, capsys):
    only(monkeypatch, figure(found(1.0)))
    tool.reproduce(toy, tmp_path / "r.json")
    only(monkeypatch, figure(found(2.0)))
    fewer = tool.Subject("toy", tiny_weights, tiny, count=4)
    assert tool.reproduce(fewer, tmp_path / "r.json")["rows"]["k"]["measured"] == "2.0"
    assert "anew" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": 1}', '{"schema": 99, "rows": {}}'])
def test_a_damaged_file_is_one_line_and_stays(part, damage, tmp_path, capsys):
    file = tmp_path / "r.json"
    file.write_text(damage)
    assert tool.main(["--positional", str(part), "--out", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("reproduce: ") and said.count("\n") == 1 and "r.json" in said
    assert file.read_text() == damage


def test_provenance_has_no_path(toy, tmp_path, monkeypatch):
    only(monkeypatch, figure(found(1.0)))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    tool.reproduce(toy, tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    held = json.loads(text)
    assert str(tmp_path) not in text and str(ROOT) not in text
    assert held["date"] == "1970-01-01" and held["schema"] == tool.SCHEMA
    assert held["provenance"]["texts"]["count"] == 8
    assert text == json.dumps(held, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (9.0, 1)])
def test_the_exit_code_says_whether_one_was_missed(
    tiny_folder, as_gpt2_small, tmp_path, monkeypatch, capsys, value, code
):
    only(monkeypatch, figure(found(0.0), key="a", at_most=2), figure(found(value), at_most=2))
    argv = ["--model", str(tiny_folder), "--count", "4"]
    assert tool.main(argv) == code
    said = capsys.readouterr().out
    assert ("MISSED" in said) == bool(code) and "MET" in said
    assert max(map(len, said.splitlines())) <= tool.WIDTH
    assert list((tmp_path / "_build" / "reproduce").glob("*.json"))


def test_another_model_ends_well(tiny_folder, monkeypatch):
    only(monkeypatch, figure(found(9.0), at_most=2))
    assert tool.main(["--model", str(tiny_folder), "--count", "4"]) == 0


@pytest.mark.parametrize(
    "argv",
    [
        ["--model", "no such model"],
        ["--model", "mini", "--count", "1"],
        ["--model", "mini", "--texts", "none.txt", "--count", "4"],
        ["--positional", "nowhere"],
    ],
)
def test_errors_are_one_line(argv, capsys, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    assert tool.main(argv) == 2
    said = capsys.readouterr().err
    assert said.startswith("reproduce: ") and said.count("\n") == 1


def test_damaged_weights_and_dates_are_one_line(part, capsys, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    assert tool.main(["--positional", str(part)]) == 2
    (part / "config.json").write_text("{}")
    assert tool.main(["--positional", str(part)]) == 2
    (part / "layer0-attention.safetensors").write_bytes(b"nothing")
    assert tool.main(["--positional", str(part)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [w in line for w, line in zip(("EPOCH", "n_head", "read"), said, strict=True)] == [1] * 3


def test_the_page_shows_results_and_their_origin(part, three_heads, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "chapters", tmp_path / "chapters")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    page, file = tmp_path / "page.md", tmp_path / "r.json"
    argv = ["--positional", str(part), "--out", str(file), "--page", str(page), "--also", str(file)]
    tool.main(argv)
    first = page.read_text()
    assert all(f"**{tool.escaped(f.name)}**" in first for f in tool.FIGURES)
    assert "| date | 1970-01-01 |" in first and str(tmp_path) not in first
    assert "(02_keys)" in first and "The weights are those of GPT-2 small." in first
    tool.main(argv)
    assert page.read_text() == first


def test_the_page_in_the_book_has_every_figure():
    text = (ROOT / "book" / "reproduction.md").read_text()
    assert all(f"| {tool.escaped(f.name)} |" in text for f in tool.FIGURES)
    assert "another model" in text
