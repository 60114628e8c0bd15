"""The view of attention to the nearest tokens shows what ctxlib computes."""

import re

import pytest
import torch
from shown import cells, number, readings
from viewing import settled

import ctxlib as cx

NEURON = 0  # unless a page names another
OWN = "The colour of the theatre, and a word or two about the harbour at dusk"


@pytest.mark.parametrize(("passage", "n"), [(0, 256), (30, 1), (30, 40), (71, 511), (OWN, None)])
def test_shares_and_what_a_token_adds_are_ctxlibs(visit, mini_weights, passage, n):
    page = visit(f"#passage={passage}&n={n}" if n else "", "attention")
    if n is None:
        page.get_by_role("textbox", name="Or a text of your own").fill(OWN)
        page.get_by_text("typed here").or_(page.get_by_text(" dusk")).first.wait_for()
        settled(page)
        assert "text=" not in page.url  # what is typed stays in the page
        tokens = cx.texts.encode(mini_weights, OWN)
        n = len(tokens) - 1
    else:
        tokens = cx.texts.passages(mini_weights)[passage].tokens
    within = cx.attention_rows(mini_weights, tokens, n).flip(-1).cumsum(-1)  # head, back
    handle = page.get_by_role("slider", name="Read how much attention")
    for text, back in zip(readings(handle, "Home", "ArrowLeft", "End"), (0, 1, n), strict=True):
        assert text.startswith(f"Within {back} back")
        shares = [float(share) / 100 for share in re.findall(r" (\d+)%", text)]
        assert shares == pytest.approx(within[:, back].tolist(), abs=0.016)
    half = [int(back) for back in re.findall(r"half within (\d+)", page.inner_text(".ctx-legend"))]
    for head, back in enumerate(half):  # weights are rounded
        assert within[head, back] > 0.49
        assert back == 0 or within[head, back - 1] < 0.51

    # attention times value, of the token that adds most
    r = mini_weights.W_E[tokens[: n + 1]] + mini_weights.W_pos[: n + 1]
    x = r / (r.square().mean(-1, keepdim=True) + mini_weights.eps).sqrt()
    value = torch.einsum("id,hdk->hik", x, mini_weights.W_V) + mini_weights.b_V[:, None]
    rows = cx.attention_rows(mini_weights, tokens, n)
    written = torch.einsum("hi,hik,hkd->d", rows, value, mini_weights.W_O) + mini_weights.b_O
    s = ((r[n] + written).square().mean() + mini_weights.eps).sqrt()
    value = torch.einsum("hik,hkd,d->hi", value, mini_weights.W_O, mini_weights.W_in[:, NEURON]) / s
    adds = (rows * value).sum(0)
    caption = page.locator(".ctx-quiet").first.inner_text()
    assert f"neuron {NEURON}" in caption
    together = [number(found) for found in re.findall(r"[+−]\d+\.\d+", caption)[:2]]
    assert together == pytest.approx([float(adds.sum()), float(adds[0])], abs=0.03)
    shown = [[cell.strip() for cell in row] for row in cells(page, ".ctx-figures tbody tr")]
    at = int(page.locator(".ctx-token.ctx-at").get_attribute("data-place")) + 1
    assert adds[at].abs() > adds[1:].abs().max() - 0.02
    for head, (_, attention, of_head, product) in enumerate(shown[:-1]):
        assert number(attention) == pytest.approx(float(rows[head, at]), abs=0.003)
        assert number(of_head) == pytest.approx(float(value[head, at]), abs=0.05)
        assert number(product) == pytest.approx(float(rows[head, at] * value[head, at]), abs=0.01)
    assert number(shown[-1][-1]) == pytest.approx(float(adds[at]), abs=0.02)
