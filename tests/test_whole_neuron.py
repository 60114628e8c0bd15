"""Whole neurons from tables: what is kept is computed again, and rivals and scores are what they
are called.
"""

import json

import last_ten
import numpy as np
import pytest
import torch
import whole_neuron
from by_hand import draw_texts
from deeper_scores import Layer
from whole_neuron import GIVEN, KEPT, Query, Steps, Texts, scored, table

import ctxlib as cx


@pytest.fixture(scope="module")
def query():
    model = cx.load("mini")
    return Query(model, Texts.of(model, None, most=12), " the", 60)


def test_a_kept_number_of_mini_comes_out_again():
    """Margins alone on half B, which need no text to fit on."""
    (kept, *_) = json.loads(KEPT.read_text())["models"]["mini"]["queries"]
    assert (kept["token"], kept["n"]) == (" the", 256)
    model = cx.load("mini")
    texts = cx.texts.collection(model, GIVEN["judged"]["half_B"], half="B")
    fixed = cx.fix_query(model, n=256)
    x, domains = fixed.prepare(texts), np.array([text.domain for text in texts])
    guess = fixed.mlp(x, fixed.approx_head_outputs(x))
    found = scored(guess, fixed.mlp(x), domains, torch.arange(3))
    for name, column in (("pre", "r"), ("post", "within"), ("post", "fvu")):
        theirs = kept["judged"]["half B"]["steps"]["margins"][name][column]
        np.testing.assert_allclose(found[name][column], theirs, atol=2e-4)


def test_scores_are_those_of_the_package(query):
    x = query.fixed.prepare(query.texts.judged["half B"])
    domains = np.array([text.domain for text in query.texts.judged["half B"]])
    pair = query.fixed.mlp(x, query.outputs(x, 1))["post"], query.fixed.mlp(x)["post"]
    ours = table(*pair, domains)
    whole = cx.evaluation.Moments.of(*pair).table(range(len(ours)))
    np.testing.assert_allclose(ours[["r", "fvu"]], whole[["r", "fvu"]], atol=1e-6, rtol=1e-5)


def test_more_of_the_tables_is_nearer_and_exact_rows_leave_the_values(query):
    x = query.fixed.prepare(query.texts.judged["half B"])
    truth = query.fixed.mlp(x)["post"]
    off = {
        name: float((query.fixed.mlp(x, out)["post"] - truth).square().mean())
        for name, out in query.steps(x)
    }
    assert [*off][:2] == ["own", "local"] and [*off][-1] == "exact rows"
    assert off["own"] > off["margins"] > off["planes 2"] and off["exact rows"] > 0


def test_a_neuron_that_is_followed_is_the_models_own(monkeypatch):
    model, few = cx.load("mini"), Texts.of(cx.load("mini"), None, most=12)
    monkeypatch.setattr(Texts, "of", lambda *_: few)
    kept = whole_neuron.followed("mini", 496, None)
    x = cx.fix_query(model, n=kept["n"]).prepare(few.judged["half B"])
    _, cache = model.run_with_cache(x, names_filter="blocks.0.mlp.hook_post", stop_at_layer=1)
    own = cache["blocks.0.mlp.hook_post"][:, -1, 496].cpu()
    np.testing.assert_allclose(kept["values"]["model"]["post"], own, rtol=1e-3, atol=1e-4)
    off = {
        step: np.abs(own - torch.tensor(kept["values"][step]["post"])).mean()
        for step in ("margins", "planes 2")
    }
    assert off["planes 2"] < off["margins"]
    assert sum(kept["share"]) == pytest.approx(1, abs=1e-3)


def test_the_rival_of_full_rank_is_the_exact_rows(query):
    x = query.fixed.prepare(query.texts.judged["half B"])
    exact, even = query.fixed.exact.rows(x), torch.full((query.fixed.d_vocab,), 1e-4)
    ones = torch.ones_like(query.fixed.decomposition.kernels)
    far, near = (
        cx.total_variation(exact, query.truncated(x, ones, even, rank)).max() for rank in (1, 24)
    )
    assert near < 2e-3 < far


def test_steps_of_levels_lose_less_the_more_there_are():
    column = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0)) * 3 + 7
    lost = [float((Steps.of(column, n).round(column) - column).square().mean()) for n in (2, 4, 16)]
    # of a Gaussian in the best even steps (Max 1960)
    np.testing.assert_allclose(np.array(lost) / 9, [0.3634, 0.1188, 0.01154], rtol=0.08)


def test_keys_in_many_levels_and_turned_keys_are_the_models_own(of_kind, monkeypatch):
    model = of_kind("Llama").model
    drawn = draw_texts(60, 32, 300)
    texts = [cx.texts.Text(str(i), "a", "", "", "", x) for i, x in enumerate(drawn)]
    monkeypatch.setitem(GIVEN["counted"], "moved", 5)
    monkeypatch.setattr(whole_neuron, "USUAL", 1)
    query = Query(model, Texts(texts, texts, {"half B": texts}), 5, 20)
    x = query.fixed.prepare(texts)
    exact = query.fixed.exact.rows(x)
    torch.testing.assert_close(query.from_keys(x, 2**14), exact, atol=1e-3, rtol=0)
    _, cache = model.run_with_cache(x, names_filter="blocks.1.attn.hook_in", stop_at_layer=2)
    _, rows = model.run_with_cache(x, names_filter="blocks.1.attn.hook_pattern", stop_at_layer=2)
    stream = cache["blocks.1.attn.hook_in"]
    scores = Layer.of(model, 1).scores(stream, stream)
    theirs = rows["blocks.1.attn.hook_pattern"][:, :, -1]
    torch.testing.assert_close(scores.softmax(-1), theirs, atol=1e-4, rtol=0)


def test_the_last_tokens_leave_nothing_where_they_are_all_tokens(of_kind):
    drawn = draw_texts(60, 32, 300)
    texts = [cx.texts.Text(str(i), "a", "", "", "", x) for i, x in enumerate(drawn)]
    given, counts = Texts(texts, texts, {"B": texts}), (1, 4, 21)
    for of in last_ten.last_tokens(of_kind("Llama").model, given, 5, 20, counts).values():
        assert (of[4]["texts"], of[4]["count"]) == ("B", 60)
        assert of[21]["fvu"] < 1e-6 < min(of[1]["fvu"], of[4]["fvu"])
    assert of[4]["fvu"] < of[1]["fvu"] < 1.1, "with true weights"


def test_an_unknown_model_is_one_clear_line(refused):
    refused(whole_neuron.main, "gpt9")
