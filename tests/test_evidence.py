"""Kept data: a chapter computes it from training runs, and it lies whole in the repository."""

import json
from types import SimpleNamespace

import best_split
import british
import by_hand
import causal
import constants
import deeper_mini
import evidence
import lookups
import numpy as np
import pandas as pd
import pytest
import read_planes
import resample
import semantic
import special
import torch
import transcoder
from command import ROOT
from ship_mini import MINI
from transformers import AutoModelForCausalLM

import ctxbook as cb
import ctxlib as cx


@pytest.mark.parametrize("name", ["RUNS", "MODELS"])
def test_a_chapter_is_run_with_the_folder_that_it_needs(name, tmp_path):
    chapter = tmp_path / "Z_new.py"
    chapter.write_text(
        f'# %%\n{name} = None  # a folder\ndisplay({name})\nopen({name} + "/seen", "w").close()\n'
    )
    evidence.compute(chapter, {"RUNS": str(tmp_path), "MODELS": str(tmp_path)})
    assert (tmp_path / "seen").exists()
    with pytest.raises(ValueError, match=f"Z_new.py needs {name}"):
        evidence.compute(chapter, {"RUNS": None, "MODELS": None})


def test_a_chapter_that_is_not_there_or_keeps_nothing_is_one_clear_line(tmp_path, refused):
    (tmp_path / "Z_new.py").write_text("# %%\nRUN = None\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no parameter RUNS = None or MODELS = None"):
        evidence.compute(tmp_path / "Z_new.py", {"RUNS": str(tmp_path), "MODELS": str(tmp_path)})
    refused(evidence.main, "nowhere", "--work", tmp_path)


# ---------------------------------------------------------------- scripts that keep results


@pytest.fixture(scope="module")
def model():
    return cx.load("mini")


def test_what_is_kept_is_rounded_and_leaves_the_rest(tmp_path):
    file = tmp_path / "kept.json"
    evidence.kept(file, "mini", {"a": 1 / 3, "b": [2, 12345.678]})
    evidence.kept(file, "smollm2", {"a": 1})
    held = json.loads(file.read_text())
    assert held == {"mini": {"a": 0.3333, "b": [2, 12350.0]}, "smollm2": {"a": 1}}
    made = iter([[1], [2]])
    assert [evidence.resumed(tmp_path / "x.json", lambda: next(made)) for _ in range(2)] == [
        [1],
        [1],
    ]


@torch.no_grad()
def test_a_silent_neuron_is_one_whose_output_weights_are_gone(model):
    """As transformers has it; a mean of zero."""
    tokens, neurons = torch.stack([p.tokens[:40] for p in cx.texts.passages(model)[:2]]), [7, 300]
    hook = special.silence(torch.eye(1024)[:, neurons], torch.zeros(1024))
    ours = model.run_with_hooks(tokens, fwd_hooks=[hook]).log_softmax(-1)
    theirs = AutoModelForCausalLM.from_pretrained(MINI, dtype=torch.float32).eval()
    theirs.transformer.h[0].mlp.c_proj.weight[neurons] = 0
    assert torch.allclose(ours, theirs(tokens).logits.log_softmax(-1), atol=1e-3)


def test_a_control_has_the_label_and_is_near_and_none_comes_twice():
    own = {"label": np.array(["law", "war"]), "spread": np.zeros(2), "norm": np.zeros(2)}
    label, spread = np.array(["law", "law", "war", "war"]), np.array([0.1, 3.0, 2.0, 0.2])
    pool = {"label": label, "spread": spread, "norm": np.zeros(4)}
    assert special.matched(own, pool, [0, 1], "spread", 2).tolist() == [[0, 3], [1, 2]]


def test_the_spread_of_a_mixture_is_that_of_its_activation(model):
    texts = cx.texts.collection(cx.texts.Reader.of(model, 200), 6)
    with torch.no_grad():
        seen = special.activations(model, texts)
        _, cache = model.run_with_cache(torch.stack([t.tokens[:192] for t in texts]))
    U = special.pool_of(np.arange(1024), 3, 1024)
    W_out = model.blocks[0].mlp.W_out.detach()
    facts = special.facts_of(U, seen, W_out, np.array([t.domain for t in texts]))
    along = cache["blocks.0.mlp.hook_post"][:, 64:] @ U  # text pos mixture
    assert np.allclose(np.exp(facts["spread"]), along.mean(1).std(0), rtol=1e-3)
    assert np.allclose(np.exp(facts["tokens"]), along.flatten(0, 1).std(0), rtol=1e-2)


def test_other_constants_are_those_of_circuits_calibrated_on_them(model):
    """One page's and each text's own, held against circuits with these constants."""
    circuit = cx.study(model, 100).circuit
    J, texts = [7, 300], cx.texts.collection(model, 60)
    x_A, x_B = (circuit.fixed.prepare(half) for half in (texts[:40], texts[40:]))
    made = constants.by_constants(circuit, x_A, x_B, J)
    page, factor = made["one page"]
    assert torch.allclose(page, circuit.summary(x_B)[:, J], atol=1e-4) and (factor == 1).all()
    own, _ = made["its own"]
    for k in range(3):
        calibrated = cx.ContextualCircuit.calibrate(circuit.fixed, texts[40 + k], circuit.heads)
        assert torch.allclose(own[k], calibrated.summary(x_B[[k]])[0, J], atol=1e-3)
    truth = circuit.fixed.exact_summary(x_B, circuit.heads)[:, J]
    of = constants.circuits(circuit, x_A, x_B, truth, texts[40:], J)
    assert len(of["left"]) == 5 and of["left"]["own"].value < 0.1 < of["left"]["one page"].value
    assert all(row["one page"] > of["left"]["own"].value for row in of["by page"])
    for kind, (typical, low, high) in of["any page"].items():
        pages = [row[kind] for row in of["by page"]]
        assert typical == np.median(pages) and low < np.quantile(pages, 0.1) < max(pages) < high
    more = {k: of["left"][k].value - v.value for k, v in of["more than the least"].items()}
    assert [*more.values()] == pytest.approx(
        [min(of["left"][k].value for k in [*of["left"]][:3])] * 2
    )


def test_a_vector_is_as_long_as_its_control_and_corrections_are_what_they_say(model):
    texts = cx.texts.collection(model, 60)
    of = cb.first_windows(texts, 2)
    written = torch.randn(len(of), 16, generator=torch.Generator().manual_seed(0))
    made = causal.vectors(written, of, written, of)
    lengths = {name: g.norm(dim=1) for name, g in made.items() if name != "its own text's"}
    assert all(torch.allclose(v, lengths["random"], rtol=1e-4) for v in lengths.values())
    first = torch.tensor((of["domain"] == of["domain"][0]).tolist())
    mean = written[first].mean(0) - written.mean(0)
    assert torch.allclose(made["its domain's"][0], mean, atol=1e-6)
    odds = causal.log_odds(texts, 8192)
    assert all(odds[text.domain][text.tokens[text.tokens > 0]].mean() > -1 for text in texts)


def test_two_texts_of_what_is_kept_of_mini_come_out_again(model):
    """Beyond the early tokens and at n."""
    kept = json.loads((ROOT / "data" / "evidence" / "causal.json").read_text())["mini"]
    study = cx.study(model, 1000)
    A, B = cb.halves(cx.texts.collection(model, 1000))
    table = cb.first_windows(B, causal.EACH["mini"])
    read = table["text"].tolist()
    assert [text.document for text in read] == [document for document, *_ in kept["texts"]]
    the = torch.tensor([study.fixed.token])
    meant = [torch.cat([text.tokens[: study.n], the]) for text in A[: causal.MEANS]]
    silent = cx.lookups.mean_z(model, meant, study.n + 1)[:, study.heads]
    few = [0, len(read) - 1]
    mended, off = causal.without_mean_errors(study, meant[:1], silent)  # of one text
    there = torch.stack([of(meant[0]) for of in mended.values()])
    assert torch.allclose(there, silent.expand_as(there), atol=1e-4)
    again = causal.farther_on(model, study, [read[k] for k in few], silent, off, mended)
    for name in (causal.STAND_INS[0], causal.STAND_INS[2], causal.STAND_INS[3]):
        for what in ("silence", name):
            there = [kept["beyond"][f"alone: {name}"][what][k] for k in few]
            assert np.allclose(again[f"alone: {name}"][what], there, rtol=0.02, atol=2e-3), name
    for name, of in causal.later_on(model, study, A, table.iloc[few], silent, {}).items():
        for where, values in of.items():
            there = [kept["later on"][name][where][k] for k in few]
            assert np.allclose(values, there, rtol=0.02, atol=2e-3), (name, where)


def additive_rows(texts=400, sources=24, tokens=6):
    """Rows of two heads whose scores are a part of the position and one of the token."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(tokens, (texts, sources), generator=draw)
    p, c = (torch.randn(2, k, generator=draw) for k in (sources, tokens))
    return x, (p + c[:, x].transpose(0, 1)).softmax(-1)


def test_tables_explain_scores_that_are_a_sum_and_a_rest_by_place_is_common():
    x, rows = additive_rows()
    run = {"0.attn.hook_pattern": rows}
    tables = deeper_mini.two_means(run, x, 0, 6)
    position, token, rest = deeper_mini.shares(deeper_mini.left_over(tables, run, x, 0))
    assert (rest < 0.01).all() and torch.allclose(position + token + rest, torch.ones(2))
    near = (torch.arange(x.shape[1]) > 12) * (x == 0)  # one token is liked nearby
    moved = {"0.attn.hook_pattern": (rows.log() + 2.0 * near[:, None]).softmax(-1)}
    domains = [f"{k % 3}" for k in range(len(x))]
    tables = deeper_mini.two_means(moved, x, 0, 6)
    rest = deeper_mini.shares(deeper_mini.left_over(tables, moved, x, 0))[2]
    assert (rest > 0.02).all()
    left = deeper_mini.rest_of(tables, moved, x, 0)[2]
    assert deeper_mini.in_common(left, tables[0], x, domains) > 0.5


def test_the_fit_of_the_attention_finds_a_sum_and_leaves_what_no_text_has():
    x, rows = additive_rows()
    start = torch.zeros(2, 24), torch.ones(2, 7)
    a, b = best_split.fitted(rows, x, start)
    assert cx.total_variation(rows, (a + b[:, x].transpose(0, 1)).softmax(-1)).max() < 5e-3
    assert torch.equal(b[:, 6], start[1][:, 6])


def test_an_even_average_is_that_of_the_values(circuit, drawn):
    text, split = drawn[0][:7], circuit.fixed.decomposition
    own = causal.even_weights(circuit, text).sum(-1)
    even, weighted = causal.even_z(circuit, text), causal.even_z(circuit, text, own)
    torch.testing.assert_close(weighted[0], even[0])  # BOS alone
    for n in range(len(text)):
        resid = by_hand.approx_resid(split.weights, text[: n + 1].tolist(), n, split.C)
        for k, h in enumerate(circuit.heads):
            values = torch.stack([by_hand.value(split.weights, h, x) for x in resid])
            torch.testing.assert_close(even[n, k], values.mean(0), rtol=1e-5, atol=1e-6)


def test_another_text_is_of_another_domain_or_of_the_same():
    of_A, of_B = np.array(["law", "war", "law", "sea"]), np.array(["law", "war"])
    other, same = (resample.drawn_texts(of_B, of_A, kind, 20) for kind in resample.KINDS)
    assert (of_A[other] != of_B).all() and (of_A[same] == of_B).all()
    assert {*same[:, 0]} == {0, 2}


@torch.no_grad()
def test_a_path_is_patched_where_the_terms_are_the_models_own(monkeypatch):
    """Every neuron of every group, and its path, for the terms give the model's activations."""
    monkeypatch.setattr(lookups, "COUNT", 2)
    monkeypatch.setattr(lookups, "TEXTS", {"mini": 44})
    monkeypatch.setattr(lookups, "SHARES", (0.0, 0.8))
    monkeypatch.setattr(lookups, "DRAWS", {})
    facts = lookups.measure("mini")
    for name, group in facts["groups"].items():
        path = np.array(group["fall"].get("path", [[1.0]]))
        assert np.isfinite(path).all() and (abs(path) > 0).all(), name
        assert {len(group[key]) for key in ("places", "token", "share", "of")} == {len(group["of"])}
    assert len(facts["groups"]["by P"]["winners"]) == 20
    assert len(facts["judged"]["conditions"]) == 5
    assert {len(of["brings"]) for of in facts["plants"].values()} == {2}


@torch.no_grad()
@pytest.mark.parametrize("heads", [[(1, 2)], [(1, 2), (2, 5)], [(0, 2)]], ids=["one", "two", "MLP"])
def test_a_plant_is_there_while_it_is_planted_and_gone_afterwards(model, heads):
    """The heads then write along a direction of its own, and the neuron reads it, or what a neuron
    of the first MLP hands on of it; so their silence takes much of its rise.
    """
    halves = cb.peaks.halves_of(model, 44, 24)
    x = halves["A"].tokens
    of = cb.peaks.Neurons([(3, 5)], torch.ones(1, dtype=torch.int64), torch.tensor([11]))
    relay = ([7], x) if heads[0][0] == 0 else ()
    plan = lookups.loudest(model, x, [heads], 3)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    told, read = plan[1][0], plan[1][1 if relay else 0]

    def along():
        written = [(model.blocks[k].attn.W_O[i] @ told).norm() for k, i in heads]
        return torch.stack([*written, model.blocks[3].mlp.W_in[:, 5] @ read])

    was = along()
    with lookups.planted(model, of, [heads], plan, 0.8, relay):
        assert (along() > 2 * was.abs()).all()
        found = cb.peaks.LookedUp.of(model, halves, of)
        assert lookups.taken(found, [heads]) > 0.1
        direct = found.profile[0, [8 * k + i for k, i in heads]].sum() / found.rise["all"].mean()
        assert (direct < 0.1) == bool(relay)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_what_became_of_the_conditions_is_what_is_kept():
    kept = json.loads((ROOT / "data" / "evidence" / "lookups.json").read_text())["smollm2"]
    found = lookups.judged(kept["groups"], kept["plants"])
    assert evidence.rounded(found) == kept["judged"]


def test_a_classifier_of_meanings_finds_what_the_embeddings_hold():
    near = {"cat": [1.0, 0.0], "dog": [0.9, 0.1], "law": [0.0, 1.0], "tax": [0.1, 0.9]}
    split = cx.lookups.explain.Prompts(("cat",), ("law",), ("dog",), ("tax",))
    found = semantic.by_meaning(lambda prompts: np.array([near[p] for p in prompts]), split)
    assert found == {"score": 1.0, "auc": 1.0}


def test_a_transcoder_goes_on_where_it_stopped(model, tmp_path, monkeypatch):
    texts = torch.stack([t.tokens[:32] for t in cx.texts.collection(model, 8)])
    args = {"latents": 64, "k": 4, "steps": 4}
    whole = transcoder.train(model, lambda step: texts[step::4], tmp_path / "whole", **args)

    def broken(step):
        if step == 3:
            raise KeyboardInterrupt
        return texts[step::4]

    monkeypatch.setattr(transcoder, "EVERY", 1)
    with pytest.raises(KeyboardInterrupt):
        transcoder.train(model, broken, tmp_path / "parts", **args)
    parts = transcoder.train(model, lambda step: texts[step::4], tmp_path / "parts", **args)
    assert all(torch.allclose(whole[n], parts[n], atol=1e-6) for n in whole)
    x, _ = transcoder.in_and_out(model, texts[:1])
    assert torch.allclose(x.std(-1, correction=0), torch.tensor(1.0), atol=1e-2)  # past LayerNorm
    assert ((transcoder.at_work(whole, x, 4)[1] > 0).sum(-1) <= 4).all()


def test_windows_of_a_document_have_in_common_what_was_put_in():
    rng = np.random.default_rng(0)
    own, noise = rng.standard_normal((400, 1, 1)), rng.standard_normal((400, 2, 2))
    rates = torch.from_numpy((noise + own * [0, 3]).reshape(800, 2))
    pairs, domains = np.arange(800).reshape(-1, 2), np.repeat(["a", "b"], 400)
    found = transcoder.in_common(rates, domains, pairs)(np.arange(400))
    assert abs(found[0]) < 0.15 and abs(found[1] - 0.9) < 0.05


def test_british_facts_are_those_of_the_kept_documents():
    """The referee's reading of neuron 5549: its product falls in 99 of 100 documents."""
    held = json.loads((ROOT / "data" / "evidence" / "british.json").read_text())["qwen"]
    found = british.of_neurons(held)["5549 product"]
    by_document = {}
    for row in held["documents"]:
        if row["half"] == "B":
            first, *_, last = row["told"][2]
            by_document.setdefault(row["document"], []).append(last[1] - first[1])
    moved = [np.mean(v) for v in by_document.values()]
    assert np.isclose(found["moved"][0], np.mean(moved)) and found["documents"] == len(moved)
    assert found["falls in"] == np.mean(np.array(moved) < 0) and found["rank of |t|"]["B"] == 15


def test_the_prediction_at_n_is_the_circuits_with_every_heads_own_kernel(model):
    circuit = cx.study(model, 100).circuit
    split, heads, x = circuit.fixed.decomposition, list(circuit.heads), circuit.calibration
    weight = split.kernels[heads] * split.content[heads][:, x] / circuit.denominators[:, None]
    by_hand = torch.einsum("hi,ihd->hd", weight, split.values(heads)[x])
    assert torch.allclose(british.predicted_z(circuit)(x)[-1], by_hand, atol=1e-4)


def test_other_changes_are_made_near_the_words_of_the_table_and_as_often():
    text = "the gray sky and the sea met the land, in color, the end"
    found = [(m.start(), m.end(), "") for m in cb.spelling.matches(text)]
    places = british.places_of(text, found, ("^the$", "a"))
    assert [text[:start].count("the") for start, *_ in places] == [0, 3]
    parts = british.in_parts(text, places, changed=True)
    assert "".join(p for p, _ in parts) == "a gray sky and the sea met the land, in color, a end"
    assert [p for p, alike in parts if not alike] == ["a", "a"]
    assert british.places_of(text, found, ("gray", "grey")) == []  # a word of the table
    assert british.places_of(text, found, None) == found


def test_each_change_has_the_neuron_that_moves_farthest_on_half_a_judged_on_half_b():
    """In standard deviations over half A's documents under British spelling: 1, 2 and 1."""
    places = {"places": 2, "gate": 0.0}
    rows = [
        {"change": change, "half": half, "document": f"{half}{k}", **places}
        | {"gate": torch.tensor([1.0, 2, 1]) * sign, "moved": torch.tensor(moved)}
        for change, moved in ((british.SPELLING, [0.1, 0.3, 0.0]), ("the, a", [0.0, 0.1, -4.0]))
        for half in "AB"
        for k, sign in enumerate((-(0.5**0.5), 0.5**0.5))
    ]
    rows[-1]["moved"] = torch.tensor([0.0, 0.1, 2.0])  # of half B: -1 on average
    spelling, other = british.best_of(pd.DataFrame(rows), 0).values()
    assert (spelling["best"], other["best"]) == (1, 2)
    moves = [of[key][0] for of in (spelling, other) for key in ("in spreads", "best in spreads")]
    assert moves == pytest.approx([0.1, 0.15, 0.0, 1.0])


def test_a_line_fitted_on_half_a_mends_any_scale_and_offset(model):
    draw = torch.randn(2, 30, 4, generator=torch.Generator().manual_seed(0))
    truth = 3 * draw + torch.tensor([1.0, 2, 3, 4])
    assert torch.allclose(cb.with_a_line(draw[0], draw[1], truth[0]), truth[1], atol=1e-4)
    circuit = cx.study(model, 100).circuit
    A, B = map(circuit.fixed.prepare, cb.halves(cx.texts.collection(model, 60)))
    said = circuit.summary(A)[:, :4], circuit.summary(B)[:, :4]
    left = constants.with_a_line(circuit, (A, B), (2 * said[0] + 1, 2 * said[1] + 1), [0, 1, 2, 3])
    assert left["circuit"] < 1e-6 < left["uniform average"]


def test_sentences_are_scored_both_ways_and_with_what_they_were_written_from():
    """For labels that the last token gives, true and shuffled."""
    of = [tuple(f"{who} {verb}" for who in "ABCDEFGH") for verb in ("was", "is")]
    p = cx.lookups.explain.Prompts(of[0][:4], of[1][:4], of[0][4:], of[1][4:])
    case = SimpleNamespace(prompts=p, neuron=(1, 2), head=(0, 3), token="")
    read = SimpleNamespace(model=cx.load("mini"), texts=[])
    table = semantic.by_rules(read, [case])
    assert [table[k] for k in ("true, shown", "true, held out", "B to A")] == [[1.0]] * 3
    assert table["shuffled, held out"][0] < 1 and table["neuron"] == [[1, 2]]
    few = semantic.FewShot(cx.lookups.explain.RuleExplainer(read.model.tokenizer))
    sentence = few.explain(p.shown_active, p.shown_inactive)
    assert sentence.count("for example: …") == 8
    assert semantic.answered(few, p)["score"] == 0.5, "rules do not read examples"


def test_a_plane_is_read_by_its_ends_and_stretches():
    b, count = torch.arange(40.0).sub(20), torch.full((40,), 50)
    count[[0, 39]] = 3  # the outermost are rare
    low, high = read_planes.ends(b, count)
    assert low.tolist() == [*range(1, 9)] and high.tolist() == [*range(38, 30, -1)]
    a = torch.arange(257.0)
    assert read_planes.stretches(a) == [64.0, 175.5, 235.5, 251.5], "BOS and the query are in none"
