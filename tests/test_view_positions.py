"""The view of chapter 13: its numbers are those of the model."""

import copy
import re

import numpy as np
import pytest
import torch
from shown import check
from viewing import view_page, whole

import ctxlib as cx
import ctxviews as cv

N, TOKEN = 256, " the"


def scores_by_hook(model, token, places):
    """What the model's own scores at n are for this token at each of these places, `place head`;
    everything else in the text stays.
    """
    (the,) = model.tokenizer.encode(TOKEN, add_special_tokens=False)
    text = torch.tensor([model.tokenizer.bos_token_id, *[300] * (N - 1), the])
    found = []
    for place in places:
        changed = text.clone()
        changed[place] = token
        name = "blocks.0.attn.hook_attn_scores"
        with torch.inference_mode():
            _, cache = model.run_with_cache(changed[None], names_filter=name, stop_at_layer=1)
        found.append(cache[name][0, :, N, place])
    return torch.stack(found)


def test_what_tokens_get_beyond_one_another_is_what_the_model_gives_them(views, twins):
    record, passages = (
        views["positions"].record,
        cx.texts.passages(cx.texts.Reader.of(twins["learned"])),
    )
    assert {0, N}.isdisjoint(record["distances"]), "neither the destination nor BOS"
    decode = twins["learned"].tokenizer.decode
    read = {decode([t]) for passage in passages for t in passage.tokens[:N].tolist()}
    picked = [0, 5, 40, len(record["distances"]) - 1]
    places = [N - record["distances"][i] for i in picked]
    for kind, model in zip(record["kinds"], twins.values(), strict=True):
        tokens = kind["heads"][0]["tokens"]
        assert {t["token"] for head in kind["heads"] for t in head["tokens"]} <= read
        ids = [model.tokenizer.encode(t["token"], add_special_tokens=False)[0] for t in tokens]
        own = np.stack([scores_by_hook(model, t, places)[:, 0] for t in ids])
        more = np.array([t["more"] for t in tokens])[:, picked]
        np.testing.assert_allclose(more - more[2], own - own[2], atol=0.02)


def test_the_record_refuses_what_cannot_be_shown_side_by_side(twins, mini_weights):
    texts = cx.texts.passages(mini_weights)[:2]
    apart = {n: cx.fit_additive(twins["rotary"], texts, n, TOKEN) for n in (N, 100)}
    for wrong in ({}, apart):
        with pytest.raises(ValueError, match="give at least one, all with the same n"):
            cv.Positions(wrong)


def test_the_page_shows_the_record(visit, views):
    for k, head in enumerate(views["positions"].record["kinds"][1]["heads"]):
        page = visit(f"#kind=1&head={k}", "positions")
        words = page.get_by_text(f"Head {k}, positions rotary").inner_text()
        pattern = r"covers (\S+) tokens.* by (\S+) nats .*, by (\S+) with .* by (\S+) with"
        names = ("effective", "where", "what", "interaction")
        check(re.search(pattern, words).groups(), [head[name] for name in names])


def test_a_head_that_a_model_lacks_falls_back(visit, views, view_folder):
    state = copy.deepcopy(whole(views["positions"])) | {"head": 2}
    del state["record"]["kinds"][0]["heads"][3:]
    view_page(view_folder, ("positions", state), name="few-heads")
    page = visit("#kind=0&head=7", "few-heads")
    page.get_by_text("Head 2, positions learned").wait_for()
    assert page.locator("fieldset").nth(1).get_by_role("radio").count() == 3
