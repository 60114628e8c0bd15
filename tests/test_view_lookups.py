"""The view of look-ups: its record against ctxlib's terms, and what the page shows against both."""

import copy
from itertools import pairwise

import pytest
import torch
from shown import adds, cells, check, each, fragment, named, readings
from viewing import PHONE, settled, view_page, whole

from ctxviews import looked_up, record

# ---------------------------------------------------------------- the record


def test_only_the_heads_that_move_most_are_listed(tiny, attributed, monkeypatch):
    monkeypatch.setattr(record, "LISTED", 2)
    prompts, found = attributed
    neuron = looked_up(tiny, "", "", 0, prompts, *found[0], torch.ones(3))
    terms, usually, sources = found[0]
    usual = usually.heads.flatten(1).mean(0)
    moved = (terms.heads.flatten(1) - usual).abs().amax(0)
    heads = sorted(moved.argsort(descending=True)[:2].tolist())
    assert neuron["heads"] == heads
    assert neuron["usual"]["heads"] == pytest.approx(usual[heads].tolist(), abs=1e-4)
    for prompt, pre, of in zip(neuron["prompts"], terms.pre_activation, sources, strict=True):
        others = sum(prompt[part] for part in ("bias", "embedding", "mlps", "rest"))
        listed = of.flatten(0, 1)[heads, : len(prompt["tokens"])].flatten()
        assert prompt["sources"] == pytest.approx((1000 * listed).tolist(), abs=0.501)
        assert len(prompt["heads"]) == 2
        assert others + sum(prompt["heads"]) == pytest.approx(float(pre), abs=1e-3)


def test_as_many_prompts_as_were_attributed(tiny, attributed):
    prompts, found = attributed
    with pytest.raises(ValueError, match="4 prompts: give one at least, and no more"):
        looked_up(tiny, "", "", 0, [*prompts, prompts[0]], *found[0], torch.ones(4))


# ---------------------------------------------------------------- the page


def ticked(page):
    return each(page.locator("input[type=checkbox]:checked"), "Number(e.value)")


@pytest.mark.parametrize(
    ("x", "p", "heads", "name"),
    [
        (0, 0, [4], "head 1.1"),
        (0, 2, [0, 1, 5], "heads 0.0, 0.1, 1.2"),
        (0, 1, [*range(6)], "6 chosen heads"),
        (1, 1, [0, 2], "heads 0.0, 0.2"),
    ],
)
def test_account_and_tokens_are_ctxlibs(visit, attributed, look_ups, x, p, heads, name):
    page = visit(fragment(neuron=x, prompt=p, heads=heads), "lookups")
    terms, usually, sources = attributed[1][x]
    all_heads, means = terms.heads[p].flatten(), usually.heads.mean(0).flatten()
    others = [h for h in range(len(means)) if h not in heads]
    expected = {
        "bias": (terms.bias[p], usually.bias.mean()),
        "embedding": (terms.embedding[p], usually.embedding.mean()),
        "earlier MLPs": (terms.mlps[p].sum(), usually.mlps.sum(1).mean()),
        "all other heads": (all_heads[others].sum(), means[others].sum()),
        name: (all_heads[heads].sum(), means[heads].sum()),
        "pre-activation": (terms.pre_activation[p], usually.pre_activation.mean()),
    }
    rows = cells(page.locator("table").nth(0))
    assert [row[0] for row in rows] == list(expected)
    for (_, here, _, usual, rise), truth in zip(rows, expected.values(), strict=True):
        check([here, usual, rise], [*truth, truth[0] - truth[1]], 0.001)
    tokens = look_ups["neurons"][x]["prompts"][p]["tokens"]
    brought = sources[p].flatten(0, 1)[heads, : len(tokens)].sum(0)
    walk = ["Home"] + ["ArrowRight"] * (len(tokens) - 1)
    for u, text in enumerate(readings(page.get_by_label("Read a token"), *walk)):
        assert text.startswith(f"“{named(tokens[u])}”: ") or not named(tokens[u]).isprintable()
        check(adds([text]), brought[u], 0.001 + 0.0005 * len(heads))  # each is rounded
        assert page.locator(".ctx-at").get_attribute("data-place") == str(u)


def test_the_bars_of_the_account_follow_one_another(visit):
    page = visit("#prompt=2&heads=0,1", "lookups")
    bars = page.locator("table").nth(0).locator(".ctx-lookups-bar")
    ends = each(bars, "((box) => [box.left, box.right])(e.getBoundingClientRect())")
    for before, after in pairwise(ends[:5]):
        assert min(abs(a - b) for a in before for b in after) < 1.5
    assert any(abs(a - b) < 1.5 for a in ends[4] for b in ends[5])


@pytest.mark.parametrize("p", range(3))
def test_the_head_with_the_largest_rise_is_chosen_and_every_box_has_its_rise(visit, attributed, p):
    page = visit(f"#prompt={p}", "lookups")
    terms, usually, _ = attributed[1][0]
    rises = (terms.heads[p] - usually.heads.mean(0)).flatten()
    assert ticked(page) == [int(rises.argmax())]
    check(page.locator(".ctx-chip small").all_inner_texts(), rises, 0.006)


def test_the_last_head_taken_away_brings_back_the_largest_rise(visit):
    page = visit("#heads=3", "lookups")
    page.press("input[value='3']", "Space")
    page.wait_for_url(lambda url: "#" not in url)
    strongest = ticked(settled(page))
    page.press(f"input[value='{strongest[0]}']", "Space")
    assert ticked(settled(page)) == strongest and len(strongest) == 1


def test_heads_that_a_neuron_does_not_have_fall_back(visit):
    page = visit("#neuron=1&heads=4", "lookups")
    assert page.locator("select").first.input_value() == "1"
    assert ticked(page)[0] < 3


def test_a_phone_need_not_scroll_sideways_with_many_heads(visit, view_folder, views):
    """As a larger model's are: scattered."""
    heads, state = [*range(0, 144, 5)], copy.deepcopy(whole(views["lookups"]))
    state["record"]["nHeads"] = 12
    for neuron in state["record"]["neurons"]:
        neuron["heads"] = heads
        for terms in (neuron["usual"], *neuron["prompts"]):
            terms["heads"] = [0.01 * h for h in heads]
            terms["sources"] = [1] * len(heads) * len(terms.get("tokens", ()))
    view_page(view_folder, ("lookups", state), name="many-look-ups")
    page = visit(name="many-look-ups")
    page.set_viewport_size(PHONE)
    page.get_by_role("button", name="all heads").click()
    assert settled(page).evaluate("document.documentElement.scrollWidth") == PHONE["width"]
