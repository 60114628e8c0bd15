"""What `tools/evidence` keeps of first layers: the law for one page, the controls, the null of
Naive Bayes, training runs, local heads, the open rows and the first pages, on few texts.
"""

import json
from itertools import permutations

import bayes_rows
import controls
import first_pages
import local
import numpy as np
import one_page
import open_rows
import pytest
import real_models
import torch
import toy
import training
from evidence import rounded
from first_layers import first_layer, keep

import ctxbook as cb
import ctxlib as cx


@pytest.fixture(scope="module")
def mini():
    return first_layer("mini", 60)


# ---------------------------------------------------------------- first layers


def test_a_first_layer_adds_what_the_model_itself_adds(mini):
    """By the run of the model: activations, and the sum of its heads over the neurons."""
    model, n = cx.load("mini"), mini.study.fixed.n
    names = ["blocks.0.mlp.hook_pre", "blocks.0.mlp.hook_post"]
    _, cache = model.run_with_cache(mini.x[:4], names_filter=names)
    for kept, name in zip(("pre", "post"), names, strict=True):
        torch.testing.assert_close(mini.mlp[kept][:4], cache[name][:, n], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(
        mini.truth[:4], mini.study.fixed.exact_summary(mini.x[:4], mini.heads), atol=1e-3, rtol=1e-3
    )


def test_what_is_kept_is_not_measured_again(tmp_path):
    file, asked = tmp_path / "kept.json", []

    def measure(name):
        asked.append(name)
        return {"value": 1 / 3}

    for names, version in ((["mini"], "1"), (["mini", "mini-base"], "1"), (["mini"], "2")):
        kept = keep(file, names, measure, version)
    assert asked == ["mini", "mini-base", "mini"] and kept["mini"]["value"] == 0.3333
    assert rounded({"a": np.float32(1.23456)}) == {"a": 1.235}


def test_the_lines_about_a_real_model_are_those_that_its_stored_layer_gives():
    """Kept, and read again without the model; r is that of the kept gatherings, by numpy."""
    lines = real_models.lines_of("minilm")
    kept = json.loads(cb.evidence("rows.json").read_text())["lines"]["08_real_model"]
    assert {line: row["MiniLM"] for line, row in kept.items()} == lines
    layer, _, order = real_models.stored("minilm")
    B, J = layer.halves[1], order[:100]
    summary, truth = layer.study.circuit.summary(layer.x[B])[:, J], layer.truth[B][:, J]
    pairs = zip(summary.T.numpy(), truth.T.numpy(), strict=True)
    r = np.median([np.corrcoef(*pair)[0, 1] for pair in pairs])
    assert lines["r, 100 strongest"].startswith(f"{r:.2f}")


# ---------------------------------------------------------------- the law for one page


def test_the_law_is_exact_where_errors_know_nothing_of_the_text():
    """Every error of a domain with every text of it, and two heads: the law is the FVU itself."""
    draw = torch.Generator().manual_seed(0)
    e, u, domains = [], [], []
    for domain in range(2):
        few = 0.2 * torch.randn(30, 2, generator=draw, dtype=torch.double) + 0.1 + 0.2 * domain
        added = torch.randn(2, 40, 5, generator=draw, dtype=torch.double) + 1 + 3 * domain
        e.append(few.repeat_interleave(40, 0))
        u.append(added.repeat(1, 30, 1))
        domains += [domain] * 1200
    alone = one_page.measured(e[0], u[0])[1]
    torch.testing.assert_close(one_page.law(e[0], u[0]), alone)
    both = torch.cat(e), torch.cat(u, 1)
    heads, neurons = one_page.measured(*both)
    torch.testing.assert_close(one_page.law(*both, np.array(domains)), neurons)
    torch.testing.assert_close(one_page.law_of_heads(*both, np.array(domains)), heads)
    assert (one_page.law(*both) / neurons - 1).abs().min() > 0.05
    alike, total = e[0][:, :1].expand(-1, 2), u[0].sum(0)
    c2 = total.mean(0).square() / total.var(0, correction=0)
    by_hand = alike[:, 0].square().mean() * (c2 + 1)
    torch.testing.assert_close(one_page.law(alike, u[0]), by_hand)


def test_a_layers_law_and_what_is_measured(mini):
    facts = one_page.measured_of(mini)
    heads, A, circuit = facts["heads"], mini.halves[0], mini.study.circuit
    u = (mini.z[A, mini.heads[0]] / mini.scale[A, None]) @ circuit.fixed.readout.W_O[mini.heads[0]]
    u = (u @ circuit.fixed.readout.W_in).double()
    own = circuit.fixed.denominators(mini.x[A])[:, mini.heads[0]] / circuit.denominators[0]
    e = (own * mini.scale[A] / circuit.scale - 1).double()[:, None]
    by_hand = (e * u).square().sum() / (u - u.mean(0)).square().sum()
    assert facts["on A"]["heads"][0] == pytest.approx(float(by_hand), rel=1e-3)
    assert heads["head"] == mini.heads and len(heads["measured"]) == len(mini.heads)
    by_evaluate = cx.evaluate(
        mini.study.circuit, [mini.texts[i] for i in mini.halves[1]], mini.strongest
    )
    assert facts["remedy"]["circuit"]["FVU"].value == pytest.approx(
        by_evaluate["fvu"].median(), rel=0.02
    )
    assert one_page.agreement(torch.ones(3), torch.tensor([1.0, 1.4, 2.0]))[
        "close"
    ] == pytest.approx(2 / 3)


# ---------------------------------------------------------------- controls


def test_rivals_and_readings(mini):
    """A domain's mean is of half A, and within domains nothing of it is left."""
    (A, B), domains = mini.halves, mini.domains
    means = cb.domain_mean(mini.truth[A], domains[A], domains[B])
    first = A[domains[A] == domains[B[0]]]
    torch.testing.assert_close(means[0], mini.truth[first].mean(0))
    assert controls.less_domain(means, domains[B]).abs().max() < 1e-4
    draw = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
    assert controls.independent(draw) == pytest.approx(4, rel=0.05)
    assert controls.independent(draw[:, :1].expand(-1, 4)) == pytest.approx(1)


def test_the_weights_of_heads_are_permuted_and_no_others():
    model = cx.load("mini", layers=1)
    before = {name: W.clone() for name, W in model.original_model.named_parameters()}
    controls.permute_heads(model)
    for name, W in model.original_model.named_parameters():
        assert torch.equal(W, before[name]) != (".attn." in name), name
        assert torch.equal(W.flatten().sort()[0], before[name].flatten().sort()[0])


def test_dealt_contents_leave_the_kernel_and_take_the_topic(mini, monkeypatch):
    monkeypatch.setitem(controls.PLAN["dealt"], "draws", 6)
    facts = controls.dealt(mini)
    fixed = mini.study.fixed
    denominators = fixed.denominators(mini.x)[:, facts["heads"]]
    torch.testing.assert_close(
        torch.tensor(facts["trained"]), denominators.std(0) / denominators.mean(0),
        rtol=1e-3, atol=1e-5,
    )  # fmt: skip
    assert all(low <= middle <= high for low, middle, high in facts["dealt"])


def test_the_share_of_the_stable_heads_is_that_of_what_they_add(mini):
    """By the variance of every neuron's input, over the texts of half A."""
    A, readout = mini.halves[0], mini.study.fixed.readout
    added = readout.outputs(mini.z[A]) / mini.scale[A, None, None] @ readout.W_in
    by_head = added.var(0).sum(-1)
    facts = controls.lines_of(mini)
    assert facts["share"] == pytest.approx(float(by_head[mini.heads].sum() / by_head.sum()), 1e-3)
    assert 0 < facts["with a line"]["circuit"] < facts["with a line"]["uniform average"] < 1


def test_the_share_of_an_approximation_is_the_mean_over_all_orders(mini):
    """By hand, from errors that agree with the error budget."""
    circuit, few, J = mini.study.circuit, mini.texts[:12], mini.strongest[:3]
    errors, truth = cb.shares.squared_errors(circuit, circuit.fixed.prepare(few), J)
    fvu = (errors.mean(-2) / truth.var(0, correction=0)).median(-1).values.double()
    budget = cx.evaluation.error_budget(circuit, few, J)["fvu"]
    added = dict.fromkeys(cb.shares.MADE, 0.0)
    for order in permutations(range(5)):
        made = [0] * 5
        for k in order:
            added[cb.shares.MADE[k]] -= float(fvu[tuple(made)]) / 120
            made[k] = 1
            added[cb.shares.MADE[k]] += float(fvu[tuple(made)]) / 120
    for k, name in enumerate(cb.shares.MADE):
        alone, others = np.eye(5, dtype=int)[k], 1 - np.eye(5, dtype=int)[k]
        assert float(fvu[tuple(alone)]) == pytest.approx(budget["only"][name], rel=1e-3)
        assert float(fvu[tuple(others)]) == pytest.approx(budget["without"][name], rel=1e-3)
    shares = cb.shares.error_shares(circuit, few, J, draws=9)
    by_hand = {name: of / budget["all"].item() for name, of in added.items()}
    assert {k: v.value for k, v in shares.items() if k != "lead"} == pytest.approx(
        by_hand, rel=1e-3
    )
    first, second = sorted(by_hand.values())[:-3:-1]
    assert shares["lead"].value == pytest.approx(first - second, rel=1e-3)


def test_the_split_is_held_against_its_parts(mini):
    """By hand: rows from the kernel alone are the same for all texts."""
    facts, fixed = controls.split_of(mini), mini.study.fixed
    x = mini.x[mini.halves[1]]
    true, kernels = fixed.exact.rows(x)[:, mini.heads], fixed.decomposition.kernels[mini.heads]
    by_hand = (true - kernels).abs().sum(-1).mean(0) / 2
    torch.testing.assert_close(torch.tensor(facts["TV"]["position"]), by_hand, rtol=0.02, atol=2e-3)
    assert all(both < min(alone) for both, *alone in zip(*facts["TV"].values(), strict=True)), (
        "of each head"
    )
    assert sum(facts["share"]) <= 1 + 1e-6 and len(facts["share"]) == len(mini.heads)


# ---------------------------------------------------------------- appendix B


def test_rows_of_naive_bayes_are_the_pages():
    facts = bayes_rows.rows_of(count=120, draws=2)
    rows = facts["rows"]
    assert rows["an untrained layer"] < rows["100 neurons"] < (1, 1)
    assert 0 < facts["p"] <= 1


# ---------------------------------------------------------------- appendices E and F


def test_neurons_that_are_turned_match_as_neurons_of_turned_columns():
    draw = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 300, 6, generator=draw, dtype=torch.double)
    share, turns = torch.full((300,), 1 / 300).double(), training.rotations(6, 2)
    mixed = training.mixtures(*training.covariances(a, b, share), turns)
    for Q, of in zip(turns, mixed, strict=True):
        by_hand = np.corrcoef(a.T, (b @ Q).T)[:6, 6:].max(1)
        np.testing.assert_allclose(of, by_hand)
    own = training.match(*training.covariances(a, a[:, [3, 0, 1, 5, 4, 2]], share))
    torch.testing.assert_close(own, torch.ones(6).double())


def test_base_is_what_was_kept_of_it():
    kept = json.loads(cb.evidence("training.json").read_text())["models"]["base-100"]
    found = training.describe(cx.load("mini-base"))
    assert found["effective tokens"] == kept["effective tokens"]
    assert [found[k] for k in ("TV", "r")] == pytest.approx(
        [kept[k] for k in ("TV", "r")], abs=2e-3
    )
    forecast = json.loads(cb.evidence("dose.json").read_text())["base"]
    dosed = training.dose(cx.load("mini-base"))
    assert dosed["Equation 1"]["TV"] == pytest.approx(forecast["Equation 1"]["TV"], abs=1e-3)
    assert dosed["forecast"]["TV"] == pytest.approx(forecast["forecast"]["TV"], abs=1e-3)


def test_pairs_have_kinds_and_a_head_that_knows_them_wins():
    kinds = {
        (" gal", "axy"): "split word", (" New", " York"): "name", (" of", " the"): "common words",
        (" red", " moon"): "other words", (" moon", ","): "mark", (" 19", "84"): "number",
        ("\n", " moon"): None,
    }  # fmt: skip
    assert {p: local.kind_of(*p, {" of", " the"}) for p in kinds} == kinds
    entry = torch.randn(2, 40, 40, generator=torch.Generator().manual_seed(0))
    entry[1] += 10 * torch.eye(40)
    wins, drawn = local.paired(entry, np.zeros((40, 40), bool))
    assert wins[1].mean() == 1 and abs(float(wins[0].mean()) - 0.5) < 0.15
    assert drawn.shape == (1000, 2) and abs(drawn.mean() - 0.5) < 0.01


def test_lines_of_local_heads_are_those_that_are_kept():
    kept, rows = (json.loads(cb.evidence(f"{n}.json").read_text()) for n in ("local", "rows"))
    found = {k: {m: v for m, v in row.items() if v} for k, row in local.lines_of(kept).T.items()}
    assert found == rows["lines"]["F_local"]
    assert local.judged(kept) == kept["conditions"]


# ---------------------------------------------------------------- open rows


def test_a_list_chooses_its_neuron_by_half_its_words():
    """Planted: neuron 3 ranks the list's words first."""
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(20, 100, generator=draw)
    values[3, :8] += 10
    ranks = values.argsort(1).argsort(1).float() + 1
    neuron, auc = open_rows.found_for(ranks, torch.arange(8))
    assert neuron == 3 and auc > 0.95
    by_hand = (values[5, :8, None] > values[5, 8:]).float().mean()
    assert float(open_rows.aucs(ranks, torch.arange(8))[5]) == pytest.approx(float(by_hand))


def test_what_position_explains_is_all_or_nothing_and_by_hand():
    draw = torch.Generator().manual_seed(0)
    place, text = torch.arange(5.0)[None, :, None], torch.randn(400, 5, 1, generator=draw)
    for pre, share in ((place.expand(7, 5, 1), 1), (text, 0), (place + text, 2 / 3)):
        of = open_rows.Positional(pre)
        found = of.share(torch.full((len(pre),), 1 / len(pre)))
        by_hand = pre.mean(0).var(0, correction=0) / pre.flatten(0, 1).var(0, correction=0)
        assert found.item() == pytest.approx(share, abs=0.02)
        torch.testing.assert_close(found, by_hand)
        assert of.of_drawn(np.arange(len(pre))) == (share > 0.5)


# ---------------------------------------------------------------- the first pages


def test_the_paragraph_of_the_title_page_is_the_one_that_is_kept():
    tokenizer = cx.fix_query("qwen").tokenizer
    for side, text in enumerate(json.loads(cb.evidence("welcome.json").read_text())["texts"]):
        ids = tokenizer.encode(first_pages.spelled(side), add_special_tokens=False)
        assert ids == text["ids"][1:]


def test_the_last_guess_of_rows_is_equation_1():
    kept = first_pages.guesses("mini", n=40, many=8)
    weights = cx.LayerWeights.of(cx.load("mini"))
    fixed = cx.fix_query(weights, n=40)
    x = fixed.prepare(cx.texts.collection(cx.texts.Reader.of(weights, 80), 8))
    rows = (read(weights, x, 40) for read in (cx.attention_rows, cx.approx_rows))
    expected = cx.total_variation(*rows).quantile(0.5, dim=0)
    assert kept["TV"][3] == pytest.approx(expected.tolist(), abs=1e-3)
    assert sum(kept["share"]) == pytest.approx(1, abs=1e-3)


# ---------------------------------------------------------------- the toy of appendix D


def test_the_toy_has_three_planted_pairs_and_comes_out_again():
    """Each context's tokens add up to one, and one training gives the cosines that are kept."""
    p = toy.frequencies()
    torch.testing.assert_close(p.sum(1), torch.ones(toy.CONTEXTS).double())
    shared = (p[:, None, : -toy.COMMON] * p[:, : -toy.COMMON]).sum(-1)[tuple(toy.PAIRS)] > 0
    assert shared.tolist() == toy.PLANTED.tolist() and toy.PLANTED.sum() == 3
    kept = json.loads(cb.evidence("toy.json").read_text())["16, seed 0"]
    again = toy.measure(16, 0)
    assert np.allclose(again["cosines"], kept["cosines"], atol=0.05)
    assert again["two subjects ahead"] == pytest.approx(kept["two subjects ahead"], abs=0.05)
