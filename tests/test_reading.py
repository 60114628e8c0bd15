"""How texts are read, and which are refused: the same for a decoder and an encoder with learned
positions, and for a model that is read through its hooks.
"""

import re
import weakref
from functools import partial

import pandas as pd
import pytest
import torch
from by_hand import as_encoder, draw_text, draw_texts

import ctxlib as cx

N, THE, HEADS = 12, 262, [2, 0]
TEXTS = [draw_text(32, seed) for seed in range(9)]


@pytest.fixture(scope="module", params=["decoder", "encoder", "additive"])
def circuit(request, precise, of_kind):
    """A circuit for a fixed query of each kind."""
    if request.param == "additive":
        fixed = cx.fix_query(of_kind("Llama").model, TEXTS, N, THE)
    else:
        weights = precise if request.param == "decoder" else as_encoder(precise)
        fixed = cx.fix_query(weights, n=N, token=THE)
    return cx.ContextualCircuit.calibrate(fixed, TEXTS[0], HEADS)


# ---------------------------------------------------------------- those that read a text

READERS = {
    "exact rows": lambda c: c.fixed.exact.rows,
    "exact outputs": lambda c: c.fixed.head_outputs,
    "exact summary": lambda c: partial(c.fixed.exact_summary, heads=c.heads),
    "denominators": lambda c: c.fixed.denominators,
    "mlp": lambda c: lambda x: torch.cat([*c.fixed.mlp(x).values()], dim=-1),
    "rows": lambda c: c.fixed.decomposition.rows,
    "outputs": lambda c: c.fixed.approx_head_outputs,
    "summary": lambda c: c.summary,
    "pre-activations": lambda c: c.pre_activations,
    "self-normalised summary": lambda c: c.self_normalized().summary,
    "self-normalised pre-activations": lambda c: c.self_normalized().pre_activations,
}


@pytest.fixture(params=READERS)
def read(request, circuit):
    return READERS[request.param](circuit)


def test_a_text_stands_alone_or_in_a_stack_and_may_go_on(circuit, read):
    """Tokens behind the sources of n do not count."""
    x, near = (
        circuit.fixed.prepare(TEXTS),
        partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5),
    )
    together = read(x)
    near(torch.stack([read(text) for text in x]), together)
    near(read(x[:4].view(2, 2, -1)), together[:4].unflatten(0, (2, 2)))
    assert torch.equal(read(torch.cat([x, x.flip(0)], dim=1)), together)


def test_reading_changes_neither_the_layer_nor_the_circuit(circuit, read):
    """Steps that save memory work in place: on what they made themselves."""
    parts = (
        circuit,
        circuit.fixed.decomposition,
        circuit.fixed.exact,
        getattr(circuit.fixed.exact, "weights", None),
    )
    parts = filter(None, parts)
    held = [v for part in parts for v in vars(part).values() if isinstance(v, torch.Tensor)]
    before, x = [v.clone() for v in held], circuit.fixed.prepare(TEXTS)
    once = read(x)
    assert all(map(torch.equal, held, before))
    assert torch.equal(read(x), once)


def test_a_text_that_is_too_short_or_has_strange_ids_is_refused(circuit, read):
    x = circuit.fixed.prepare(TEXTS)
    length = circuit.fixed.length
    for short in (length - 1, N):
        message = f"a text of {short} tokens is too short: position {N} attends to {length}"
        with pytest.raises(ValueError, match=message):
            read(x[:, :short])
    for stranger in (-1, 300):
        x[1, 3] = stranger
        with pytest.raises(ValueError, match="there are token ids 0 to 299"):
            read(x)


@pytest.mark.parametrize("circuit", ["additive"], indirect=True)
def test_another_token_at_n_is_refused_where_the_exact_layer_is_of_one(circuit, read):
    x = circuit.fixed.prepare(TEXTS)
    x[:, N] += 1
    said = rf"at position {N} is not the query token, {THE}, .*: fixed\.prepare\(\[text\]\) puts"
    with pytest.raises(ValueError, match=said):
        read(x)


# ---------------------------------------------------------------- those that take many texts

TAKERS = {
    "prepare": lambda c, texts: c.fixed.prepare(texts),
    "stable heads": lambda c, texts: cx.stable_heads(c.fixed, texts),
    "denominators": lambda c, texts: cx.softmax_denominators(c.fixed, texts),
    "head table": lambda c, texts: cx.denominators.head_table(c.fixed, texts),
    "most typical text": lambda c, texts: c.fixed.prepare(
        [cx.denominators.most_typical_text(c.fixed, texts, HEADS)]
    ),
    "evaluation": cx.evaluate,
    "budget": cx.evaluation.error_budget,
}
LABELLED = cx.texts.Text("a", "war", "en-GB", "war", "", TEXTS[0])
STRANGE = [torch.cat([TEXTS[0][:5], torch.tensor([id]), TEXTS[0][6:]]) for id in (-1, 300)]
NO_TEXTS = {
    "put it in brackets": (TEXTS[0], LABELLED, "a text"),
    "where a list of texts is expected": (None,),
    f"a text of {N - 1} tokens is too short for position {N}": ([TEXTS[0], TEXTS[1][:11]],),
    "there are token ids 0 to 299": [[TEXTS[0], text] for text in STRANGE],
}
NONE = [], iter([]), torch.zeros(0, 32, dtype=torch.int64)


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_what_is_no_list_of_readable_texts_is_refused(circuit, take):
    for message, several in NO_TEXTS.items():
        for texts in several:
            with pytest.raises(ValueError, match=re.escape(message)):
                take(circuit, texts)


@pytest.mark.parametrize("name", TAKERS)
def test_no_text_or_too_few_are_refused(circuit, name):
    """Of one there is no spread."""
    for texts in NONE:
        with pytest.raises(ValueError, match=r"no texts|at least two|only once"):
            TAKERS[name](circuit, texts)
    if name in ("stable heads", "head table", "evaluation", "budget"):
        with pytest.raises(ValueError, match="at least two"):
            TAKERS[name](circuit, TEXTS[:1])


class Watched:
    """Texts made one at a time, and how many of them were alive at most."""

    def __init__(self, count):
        self.count, self.alive, self.most = count, weakref.WeakSet(), 0

    def __iter__(self):
        for tokens in draw_texts(self.count, 32, 300):
            self.alive.add(text := cx.texts.Text("", "", "", "", "", tokens))
            self.most = max(self.most, len(self.alive))
            yield text


@pytest.mark.parametrize("circuit", ["decoder"], indirect=True)
@pytest.mark.parametrize("name", [*TAKERS][2:])
def test_texts_come_in_any_form_and_no_more_are_alive_than_a_batch(circuit, name, monkeypatch):
    """A text of n tokens is long enough where the query token replaces its own."""
    stack, watched = draw_texts(40, 32, 300), Watched(40)
    whole = pd.DataFrame(TAKERS[name](circuit, stack))
    monkeypatch.setattr("ctxlib.texts.batching.BATCH", 8)
    for texts in (watched, [text[:N] for text in stack]):
        pd.testing.assert_frame_equal(pd.DataFrame(TAKERS[name](circuit, texts)), whole, rtol=1e-9)
    assert watched.most <= 2 * 8 + 1
