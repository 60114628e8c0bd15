"""The view of attention to the nearest tokens shows what ctxlib computes."""

import re

import pytest
from shown import readings
from viewing import header, settled

import ctxlib as cx

OWN = "The colour of the theatre, and a word or two about the harbour at dusk"


@pytest.mark.parametrize(("passage", "n"), [(0, 256), (30, 1), (30, 40), (71, 511), (OWN, None)])
def test_shares_and_the_path_are_ctxlibs(visit, circuit_of, packed_mini, mini_weights, passage, n):
    page = visit(f"#passage={passage}&n={n}" if n else "", "attention")
    if n is None:
        page.get_by_role("textbox", name="Or a text of your own").fill(OWN)
        page.wait_for_url("**text=The%20colour**")
        settled(page)
        tokens = cx.texts.encode(mini_weights, OWN)
        n = len(tokens) - 1
    else:
        tokens = cx.texts.passages(mini_weights)[passage].tokens
    within = cx.attention_rows(mini_weights, tokens, n).flip(-1).cumsum(-1)  # head, back
    handle = page.get_by_role("slider", name="Read how much attention")
    for text, back in zip(readings(handle, "Home", "ArrowRight", "End"), (0, 1, n), strict=True):
        assert text.startswith(f"Within {back} back")
        shares = [float(share) / 100 for share in re.findall(r" (\d+)%", text)]
        assert shares == pytest.approx(within[:, back].tolist(), abs=0.016)
    half = [int(back) for back in re.findall(r"half within (\d+)", page.inner_text(".ctx-legend"))]
    for head, back in enumerate(half):  # weights are rounded
        assert within[head, back] > 0.49
        assert back == 0 or within[head, back - 1] < 0.51

    # the path leads to the neuron that the text excites most
    circuit = circuit_of(header(packed_mini)["stable"], n)
    (summaries,) = circuit.summary(circuit.fixed.prepare(tokens[None]))
    neuron = int(page.locator(".ctx-path-value").last.text_content().split(":")[0])
    assert float(summaries[neuron]) > float(summaries.max()) - 0.02
    summary = float(re.search(r"summary \+([\d.]+)", page.locator(".ctx-view").inner_text())[1])
    assert summary == pytest.approx(float(summaries[neuron]), abs=0.03)
