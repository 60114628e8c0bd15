"""Peaks of neurons, what brings them, and what their tokens lose, against transformers alone."""

import numpy as np
import pytest
import torch
from by_hand import draw_texts
from ship_mini import MINI
from transformers import AutoModelForCausalLM

import ctxbook as cb
from ctxbook.peaks import Candidates, Half, LookedUp, Neurons

PLACES, TOKENS = [(3, 5), (1, 800), (3, 77), (0, 9)], torch.tensor([11, 400, 7, 5000])
NEURONS = Neurons(PLACES, torch.ones(4, dtype=torch.int64), TOKENS)  # not in the order of layers


@pytest.fixture(scope="module")
def halves(mini):
    return cb.peaks.halves_of(mini, 44, 24)


@pytest.fixture(scope="module")
def found(mini, halves):
    with torch.no_grad():
        return LookedUp.of(mini, halves, NEURONS)


@pytest.fixture(scope="module")
def saved():
    return AutoModelForCausalLM.from_pretrained(MINI, dtype=torch.float32).eval()


@torch.no_grad()
def run(saved, tokens, changes=()):
    """Log-probabilities of the next token, and what enters each part: by transformers, with some of
    that changed on its way in.
    """
    seen, hooks = {}, []
    for k, block in enumerate(saved.transformer.h):
        for name, module in (("z", block.attn.c_proj), ("post", block.mlp.c_proj)):

            def keep(module, given, at=(k, name)):
                own = given[0].clone()
                for place, change in changes:
                    if place == at:
                        change(own)
                seen[at] = own
                return (own,)

            hooks.append(module.register_forward_pre_hook(keep))
    log_P = saved(tokens).logits.log_softmax(-1)
    for hook in hooks:
        hook.remove()
    return log_P, seen


def test_a_peak_is_the_models_own_and_so_is_the_chance_of_the_token(found, halves, saved):
    x = halves["B"].tokens
    log_P, seen = run(saved, x)
    for q, ((k, j), token) in enumerate(zip(PLACES, TOKENS.tolist(), strict=True)):
        largest, end = seen[k, "post"][:, 1:, j].max(1)
        order = largest.argsort(descending=True)[:20]
        assert torch.allclose(found.in_B.post[:, q], largest[order], atol=1e-3)
        assert found.in_B.text[:5, q].tolist() == order[:5].tolist()
        expected = log_P[found.in_B.text[:, q], found.in_B.end[:, q], token]
        assert torch.allclose(found.in_B.log_P[:, q], expected, atol=1e-3)
        assert (found.in_B.end[:5, q] == end[order[:5]] + 1).all()


def test_every_order_of_the_neurons_gives_the_same(found, mini, halves):
    """Attributed layer by layer, they come back as they were given."""
    order = [2, 0, 3, 1]
    other = Neurons([PLACES[q] for q in order], NEURONS.side, TOKENS[order])
    with torch.no_grad():
        again = LookedUp.of(mini, halves, other)
    for name, rise in found.rise.items():
        assert torch.allclose(again.rise[name], rise[:, order], atol=1e-5), name
    assert torch.allclose(again.share, found.share[order], atol=1e-5)
    assert (found.rise["heads"][:, 3, 1:] == 0).all(), "no later layer feeds the first"


def test_rises_add_up_to_the_models_own_activations(found, halves, saved):
    seen = run(saved, halves["B"].tokens)[1]
    total = found.rise["heads"].sum((2, 3)) + sum(found.rise[n] for n in cb.peaks.PARTS[1:])
    for q, (k, j) in enumerate(PLACES):
        post = seen[k, "post"][:, :, j]
        at = post[found.in_B.text[:, q], found.in_B.end[:, q]]
        usual = float(cb.peaks.activation(found.model, cb.peaks.inputs_of(found.in_B.usual))[q])
        assert torch.allclose(total[:, q], at - usual, atol=1e-3)


@pytest.mark.parametrize("kind", ["Llama", "GPT-J"])
def test_rises_of_other_kinds_add_up_too(of_kind, kind):
    """Of gated neurons, and of layers whose MLP does not read its own heads."""
    model, texts = of_kind(kind).model, draw_texts(12, 16, 300)
    halves = {h: Half(torch.stack([*texts[k::2]]), np.arange(6)) for k, h in enumerate("AB")}
    with torch.no_grad():
        found = LookedUp.of(
            model, halves, Neurons([(2, 1), (1, 3)], torch.tensor([1, -1]), TOKENS[:2] % 300)
        )
    total = found.rise["heads"].sum((2, 3)) + sum(found.rise[n] for n in cb.peaks.PARTS[1:])
    assert torch.allclose(total, found.rise["all"], atol=1e-3)


def test_silence_costs_what_it_costs_in_transformers(found, halves, saved, mini):
    """A head at its mean over half A, and a neuron held."""
    d, mean = mini.cfg.d_head, run(saved, halves["A"].tokens)[1]
    strongest = found.profile_A.argmax(1).tolist()
    alone, held = found.fall(found.heads(slice(0, 1))), found.fall(held=found.in_B.post + 1)
    for q, ((k, j), token) in enumerate(zip(PLACES, TOKENS.tolist(), strict=True)):
        layer, head = divmod(strongest[q], mini.cfg.n_heads)
        of = slice(d * head, d * head + d)
        prompt = found.prompt(q, 0)

        def silent(own, at=(layer, "z"), of=of):
            own[..., of] = mean[at][:, : own.shape[1], of].mean(0)

        def louder(own, j=j):
            own[:, -1, j] += 1

        before = run(saved, prompt[None])[0][0, -1, token]
        for change, cost in (((layer, "z"), silent), alone), (((k, "post"), louder), held):
            after = run(saved, prompt[None], [change])[0][0, -1, token]
            assert float(cost[0, q]) == pytest.approx(float(before - after), abs=2e-3)


def test_groups_do_not_overlap_and_are_alike_in_token():
    rng = np.random.default_rng(0)
    tokens = torch.from_numpy(rng.integers(3, size=(2, 1, 60)))
    size, P = (torch.from_numpy(rng.random((2, 1, 60))) for _ in range(2))
    groups = cb.peaks.groups_of(Candidates([0, 1], tokens, size, {"A": P}), 24)
    by_size = size.flatten().topk(24).indices.tolist()
    assert [k * 60 + j for k, _, j in groups["by congruence"]] == by_size
    taken = {*groups["by P"], *groups["by congruence"]}
    for one, other in zip(groups["by P"], groups["like those by P"], strict=True):
        assert other is None or (other not in taken and tokens[one] == tokens[other])
    layers = [sorted(k for k, *_ in groups[name]) for name in ("by P", "random")]
    assert layers[0] == layers[1] and not {*groups["random"]} & {*groups["by P"]}


def test_an_interval_is_of_neurons_with_one_token_where_they_are_alike():
    """Four neurons of each of ten tokens, alike but for the token: documents tell nothing."""
    values = np.tile(np.repeat(np.random.default_rng(0).standard_normal(10), 4), (5, 1))
    documents = np.arange(200).reshape(5, 40).astype(str)
    found = cb.peaks.over_peaks(values, documents, np.repeat(np.arange(10).astype(str), 4))
    assert found.unit == "domain" and found.low < found.value < found.high
    assert found.value == pytest.approx(values.mean())
    assert cb.peaks.over_peaks(2 * values, documents, ["a"] * 40, values).value == pytest.approx(2)
