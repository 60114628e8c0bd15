"""What `tools/evidence` keeps of first layers: the law for one page, the controls, the null of
Naive Bayes and the open rows, on few texts.
"""

import bayes_rows
import controls
import numpy as np
import one_page
import open_rows
import pytest
import torch
from einops import einsum
from evidence import rounded
from first_layers import first_layer, keep

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


# ---------------------------------------------------------------- the law for one page


def test_the_law_is_exact_where_errors_know_nothing_of_the_text():
    """Every error with every text, and two heads: the law is the FVU itself."""
    draw = torch.Generator().manual_seed(0)
    inside = torch.randn(40, 2, 3, generator=draw, dtype=torch.double) + 1
    read = torch.randn(2, 3, 5, generator=draw, dtype=torch.double)
    e = 0.2 * torch.randn(30, 2, generator=draw, dtype=torch.double) + 0.1
    u = einsum(inside, read, "t h d, h d j -> t h j")
    error = einsum(e, u, "s h, t h j -> s t j").flatten(0, 1)
    by_hand = error.square().mean(0) / u.sum(1).var(0, correction=0)
    law = one_page.Law(inside, read)
    torch.testing.assert_close(law.of_neurons(e), by_hand)
    alike = e[:, :1].expand(-1, 2)
    sigma, c = alike[:, 0].square().mean(), law.constant.sum(0) / law.variance.sqrt()
    torch.testing.assert_close(law.of_neurons(alike), sigma * (c**2 + 1))
    torch.testing.assert_close(law.short(alike, torch.ones(2)), sigma * (c**2 + 1))


def test_a_layers_law_and_what_is_measured(mini):
    facts = one_page.measured_of(mini)
    heads = facts["heads"]
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
    assert one_page.verdicts({"mini": rounded(facts)})["heads"]["of"] == len(mini.heads)


# ---------------------------------------------------------------- controls


def test_rivals_and_readings(mini):
    """A domain's mean is of half A, and within domains nothing of it is left."""
    (A, B), domains = mini.halves, mini.domains
    means = controls.domain_means(mini.truth, domains, A, B)
    first = A[domains[A] == domains[B[0]]]
    torch.testing.assert_close(means[0], mini.truth[first].mean(0))
    assert controls.less_domain(means, domains[B]).abs().max() < 1e-4
    draw = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
    assert controls.independent(draw) == pytest.approx(4, rel=0.05)
    assert controls.independent(draw[:, :1].expand(-1, 4)) == pytest.approx(1)


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


def test_rows_of_naive_bayes_are_the_pages(monkeypatch):
    monkeypatch.setattr(bayes_rows, "DRAWS", 2)
    facts = bayes_rows.rows_of(count=120, draws=2)
    rows = facts["rows"]
    assert rows["all neurons"]["rows"] == rows["as many mixtures"]["rows"] == 1024
    assert rows["an untrained layer"]["r"].value < rows["100 neurons"]["r"].value < 1
    assert 0 < facts["p"] <= 1


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
