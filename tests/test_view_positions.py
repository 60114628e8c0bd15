"""The view of chapter 10: its numbers are those of the model."""

import copy

import numpy as np
import pytest
import torch
from viewing import TWINS, printed, served, settled, view_page, watched, whole

import ctxlib as cx

N, TOKEN = 256, " the"


@pytest.fixture(scope="module")
def models():
    return {name: cx.load(twin) for name, twin in TWINS.items()}


@pytest.fixture(scope="module")
def layers(models, mini_weights):
    texts = cx.texts.passages(mini_weights)
    return {name: cx.FirstLayer.of(model, texts, N, TOKEN) for name, model in models.items()}


@pytest.fixture(scope="module")
def view(layers):
    return cx.widgets.Positions(layers, kind=1, head=2)


def scores_by_hook(model, layer, token, places):
    """What the model's own scores at n are for this token at each of these places, `place head`;
    everything else in the text stays.
    """
    text = torch.full((layer.n + 1,), 300)
    text[0], text[-1] = model.tokenizer.bos_token_id, layer.token
    found = []
    for place in places:
        changed = text.clone()
        changed[place] = token
        name = "blocks.0.attn.hook_attn_scores"
        with torch.inference_mode():
            _, cache = model.run_with_cache(changed[None], names_filter=name, stop_at_layer=1)
        found.append(cache[name][0, :, layer.n, place])
    return torch.stack(found)


def test_what_tokens_get_beyond_one_another_is_what_the_model_gives_them(view, models, layers):
    for kind, (name, layer) in zip(view.record["kinds"], layers.items(), strict=True):
        tokens, distances = kind["heads"][0]["tokens"], view.record["distances"]
        picked = [0, 5, 40, len(distances) - 1]
        ids = [
            models[name].tokenizer.encode(t["token"], add_special_tokens=False)[0] for t in tokens
        ]
        places = [N - distances[i] for i in picked]
        own = [scores_by_hook(models[name], layer, t, places)[:, 0].numpy() for t in ids]
        more = np.array([t["more"] for t in tokens])[:, picked]
        np.testing.assert_allclose(more[0] - more[2], own[0] - own[2], atol=0.02)
        np.testing.assert_allclose(more[1] - more[2], own[1] - own[2], atol=0.02)


def test_a_level_line_is_no_interaction(view):
    """ALiBi's tokens get the same at every distance, rotary's do not, and the table says so."""
    bend = {
        kind["name"]: np.array(
            [[np.ptp(t["more"]) for t in head["tokens"]] for head in kind["heads"]]
        )
        for kind in view.record["kinds"]
    }
    both = {k["name"]: [h["interaction"] for h in k["heads"]] for k in view.record["kinds"]}
    assert bend["ALiBi"].max() < 0.01 and max(both["ALiBi"]) < 0.01
    assert bend["rotary"].min(1).max() > 0.1 and max(both["rotary"]) > 0.1


def test_the_record_refuses_what_cannot_be_shown_side_by_side(layers, models, mini_weights):
    elsewhere = cx.FirstLayer.of(models["rotary"], cx.texts.passages(mini_weights), 100, TOKEN)
    for wrong in ({}, layers | {"other": elsewhere}):
        with pytest.raises(ValueError, match="give one at least, all asked at one n"):
            cx.widgets.Positions(wrong)


def test_the_page_shows_the_record_and_a_model_of_fewer_heads(view, browser, tmp_path):
    few = copy.deepcopy(view.record)
    few["kinds"][0]["heads"] = few["kinds"][0]["heads"][:3]
    state = whole(view)
    view_page(tmp_path, ("positions", state))
    view_page(tmp_path, ("positions", state | {"record": few}), name="few")
    with served(tmp_path) as address:
        page = watched(browser.new_page())
        page.goto(f"{address}/index.html")
        rows = settled(page).locator(".ctx-positions-heads tbody tr")
        for row, head in zip(rows.all(), view.record["kinds"][1]["heads"], strict=True):
            cells = row.locator(".ctx-number").all_inner_texts()
            names = ("effective", "where", "what", "interaction")
            for (value, rounding), name in zip(map(printed, cells), names, strict=True):
                assert abs(value - head[name]) <= rounding * 1.01
        page.goto(f"{address}/few.html#kind=0&head=7")
        settled(page).get_by_text("Head 2, positions learned").wait_for()
        assert page.locator("fieldset").nth(1).get_by_role("radio").count() == 3
        assert not (page.said or page.failed or page.elsewhere)
        page.close()
