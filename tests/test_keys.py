"""Equation 1: where it is exact, that every way to compute it agrees, and what is refused of all
that follows from it.
"""

from dataclasses import replace
from functools import partial

import by_hand
import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError, jaxtyped
from torch.nn.functional import pad

import ctxlib as cx

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
near = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)  # float32

shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 999),
        "n_heads": st.integers(1, 4),
        "d_head": st.integers(2, 5),
        "n_ctx": st.integers(6, 12),
        "vocab": st.integers(2, 20),
    }
)
norms = st.floats(0.1, 30)


def some_tokens(weights, count=6):
    return torch.arange(count) * 7 % len(weights.W_E)


# ---------------------------------------------------------------- Equation 1


@given(shapes, norms)
def test_a_rebuilt_key_has_two_halves_and_is_exact_at_the_destination(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    q, keys = weights.queries(tokens), weights.keys(tokens)
    for n in range(len(tokens)):
        ask = q[:, None, n] / weights.attn_scale
        rebuilt = cx.content_keys(weights, n, tokens[: n + 1]) + cx.positional_keys(weights, n, C)
        same(rebuilt[:, n] + weights.b_K, keys[:, n])
        same(cx.split.rebuilt_scores(weights, tokens, n, C), (ask @ rebuilt.mT)[:, 0])
        same(cx.split.exact_scores(weights, tokens, n), (ask @ keys[:, : n + 1].mT)[:, 0])


@given(shapes, norms)
def test_a_rebuilt_row_is_exact_where_all_positions_are_alike(make_weights, sizes, C):
    weights = make_weights(**sizes)
    weights = replace(weights, W_pos=weights.W_pos[:1].expand_as(weights.W_pos))
    tokens = some_tokens(weights)
    same(cx.rebuilt_pattern(weights, tokens, C), cx.attention_pattern(weights, tokens))
    assert not cx.positional_keys(weights, 4, C).any()


def equation_1_by_hand(weights, tokens, n, C):
    rows = [by_hand.rebuilt_row(weights, h, tokens.tolist(), n, C) for h in range(weights.n_heads)]
    return torch.tensor(rows, dtype=torch.float64)


@given(shapes, norms)
def test_rebuilt_rows_are_equation_1_written_as_loops(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    for n in (0, 1, 5):
        same(cx.rebuilt_rows(weights, tokens, n, C), equation_1_by_hand(weights, tokens, n, C))


def test_equation_1_holds_for_a_loaded_model_with_its_typical_norm(precise, tiny_tokens):
    rows = equation_1_by_hand(precise, tiny_tokens, 20, precise.typical_norm())
    same(cx.rebuilt_rows(precise, tiny_tokens, 20), rows)
    same(cx.rebuilt_pattern(precise, tiny_tokens)[:, 20, :21], rows)


# ---------------------------------------------------------------- one row, every row


@given(shapes, norms)
def test_patterns_hold_the_row_of_every_destination_and_nothing_behind(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    for pattern, rows in (
        (cx.attention_pattern(weights, tokens), cx.attention_rows),
        (cx.rebuilt_pattern(weights, tokens, C), partial(cx.rebuilt_rows, C=C)),
    ):
        for n in range(6):
            same(pattern[:, n], pad(rows(weights, tokens, n), (0, 5 - n)))


@pytest.mark.parametrize("name", ["tiny", "mini"])
def test_patterns_are_the_models_and_those_of_single_rows_in_float32(request, name):
    model, tokens = map(request.getfixturevalue, (name, f"{name}_tokens"))
    weights = cx.LayerWeights.of(model)
    with torch.inference_mode():
        _, cache = model.run_with_cache(tokens[None])
    pattern, rebuilt = cx.attention_pattern(weights, tokens), cx.rebuilt_pattern(weights, tokens)
    near(pattern, cache["blocks.0.attn.hook_pattern"][0])
    for n in range(0, len(tokens), 5):
        near(pattern[:, n, : n + 1], cx.attention_rows(weights, tokens, n))
        near(rebuilt[:, n, : n + 1], cx.rebuilt_rows(weights, tokens, n))


@pytest.mark.parametrize("rows", [cx.attention_rows, cx.rebuilt_rows])
def test_rows_of_a_stack_are_those_of_its_texts_up_to_the_destination(
    tiny_weights, tiny_tokens, rows
):
    assert torch.equal(
        rows(tiny_weights, tiny_tokens, 12), rows(tiny_weights, tiny_tokens[:13], 12)
    )
    stack = torch.stack([tiny_tokens, tiny_tokens.flip(0)])
    one_by_one = torch.stack([rows(tiny_weights, x, 12) for x in stack])
    torch.testing.assert_close(rows(tiny_weights, stack, 12), one_by_one)


def test_content_keys_cover_the_vocabulary_in_its_order(tiny_weights):
    chosen = torch.tensor([7, 0, 299, 7])
    whole = cx.content_keys(tiny_weights, 5)
    assert whole.shape == (3, 300, 8)
    near(cx.content_keys(tiny_weights, 5, chosen), whole[:, chosen])


def test_equation_1_is_a_good_approximation_in_the_embedded_model(mini_weights, mini_tokens):
    apart = cx.total_variation(
        cx.attention_pattern(mini_weights, mini_tokens),
        cx.rebuilt_pattern(mini_weights, mini_tokens),
    )
    assert apart.mean() < 0.1


rows_of_four = st.lists(st.floats(1e-3, 1), min_size=4, max_size=4).map(
    lambda x: torch.tensor(x).double().softmax(-1)
)


@given(rows_of_four, rows_of_four)
def test_total_variation_is_the_attention_that_has_to_move_either_way(a, b):
    """So it is 0 from a row to itself, at most 1, and no smaller by a detour."""
    apart = cx.total_variation(a, b)
    same(apart, (a - b).clamp(min=0).sum())
    assert apart == cx.total_variation(b, a)


# ---------------------------------------------------------------- what is refused

TEXT, NONE = torch.arange(32), torch.tensor([], dtype=torch.long)
# all that is asked of weights w: text x, destination n, the token there, and C
ASKED = {
    "content_keys": lambda w, x, n, token, C: cx.content_keys(w, n, x),
    "positional_keys": lambda w, x, n, token, C: cx.positional_keys(w, n, C),
    "exact_scores": lambda w, x, n, token, C: cx.split.exact_scores(w, x, n),
    "rebuilt_scores": lambda w, x, n, token, C: cx.split.rebuilt_scores(w, x, n, C),
    "attention_rows": lambda w, x, n, token, C: cx.attention_rows(w, x, n),
    "rebuilt_rows": lambda w, x, n, token, C: cx.rebuilt_rows(w, x, n, C),
    "attention_pattern": lambda w, x, n, token, C: cx.attention_pattern(w, x),
    "rebuilt_pattern": lambda w, x, n, token, C: cx.rebuilt_pattern(w, x, C),
    "positional_kernels": lambda w, x, n, token, C: cx.positional_kernels(w, n, token, C),
    "positional_scores": lambda w, x, n, token, C: cx.split.positional_scores(w, n, token, C),
    "destination_query": lambda w, x, n, token, C: cx.split.destination_query(w, n, token, C),
    "families": lambda w, x, n, token, C: cx.families(w, n, token, C),
    "content_scores": lambda w, x, n, token, C: cx.content_scores(w, n, token, x),
    "copy_preference": lambda w, x, n, token, C: cx.split.copy_preference(w, n, x),
}
KEYS, ROWS, PATTERNS, KERNELS, SCORES = (
    tuple(ASKED)[part] for part in (slice(2), slice(2, 6), slice(6, 8), slice(8, 12), slice(12, 14))
)
OF_TEXTS = {*ROWS, *PATTERNS, "content_keys", *SCORES}
WITH_C = {"positional_keys", "rebuilt_scores", "rebuilt_rows", "rebuilt_pattern"}
AT_N, BY_TOKEN = {*ASKED} - {*PATTERNS}, {*KERNELS, "content_scores"}
REFUSED = [  # what is wrong, who is asked, and what is said
    *(({"n": n}, AT_N, "positions 0 to 31") for n in (-1, 32)),
    ({"x": TEXT[:5]}, ROWS, "positions 0 to 4"),
    *(({"C": C}, WITH_C, "positive") for C in (0.0, -2.0, float("nan"))),
    *(({"C": C, "token": None}, KERNELS, "positive") for C in (0.0, -2.0, float("nan"))),
    *(({"C": C}, {"positional_kernels"}, "positive") for C in (0.0, -2.0, float("nan"))),
    ({"layer": 1}, ASKED, "layer 1"),
    *(({"x": torch.tensor([*range(5), t, 6])}, OF_TEXTS, "ids 0 to 299") for t in (-1, 300)),
    ({"x": torch.zeros(33, dtype=torch.long)}, PATTERNS, "1 to 32 tokens"),
    ({"token": " bagpipes"}, BY_TOKEN, "exactly one"),
    *(({"token": token}, BY_TOKEN, "ids 0 to 299") for token in (-1, 300)),
    ({"W_E": None, "C": 3.0, "token": 3}, BY_TOKEN, "without token embeddings"),
    ({"W_E": None, "token": None}, KERNELS, r"\bC\b"),
    *(
        ({"x": x}, {"copy_preference"}, "at least two different")
        for x in (NONE, TEXT[4:5], TEXT[[4, 4]])
    ),
]


@pytest.mark.parametrize(
    ("wrong", "name", "said"),
    [(wrong, name, said) for wrong, names, said in REFUSED for name in sorted(names)],
    ids=str,
)
def test_what_makes_no_sense_is_refused(tiny_weights, wrong, name, said):
    right = {"x": TEXT, "n": 5, "token": 7, "C": None}
    ASKED[name](tiny_weights, **right)
    changed = {k: v for k, v in wrong.items() if k not in right}
    with pytest.raises(ValueError, match=said):
        asked = right | {k: v for k, v in wrong.items() if k in right}
        ASKED[name](replace(tiny_weights, **changed), **asked)


def test_shapes_are_what_the_annotations_say(tiny_weights, tiny_tokens):
    w, tokens = tiny_weights, tiny_tokens
    row, kernels = cx.attention_rows(w, tokens, 9), cx.positional_kernels(w, 9)
    calls = [
        (cx.content_keys, (w, 9)),
        (cx.positional_keys, (w, 9)),
        (cx.split.exact_scores, (w, tokens, 9)),
        (cx.split.rebuilt_scores, (w, tokens, 9)),
        (cx.attention_rows, (w, tokens, 9)),
        (cx.rebuilt_rows, (w, tokens, 9)),
        (cx.attention_pattern, (w, tokens)),
        (cx.rebuilt_pattern, (w, tokens)),
        (cx.total_variation, (row, row)),
        (cx.positional_kernels, (w, 9)),
        (cx.effective_tokens, (row,)),
        (cx.split.destination_query, (w, 9)),
        (cx.split.positional_scores, (w, 9)),
        (cx.content_scores, (w, 9)),
        (cx.content_scores, (w, 9, " the", torch.tensor([1, 2]))),
        (cx.split.half_mass, (kernels,)),
        (cx.split.half_mass, (kernels[0],)),
        (cx.split.by_distance, (kernels, 4)),
        (cx.split.copy_preference, (w, 9)),
        (cx.families, (w, 9)),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
    with pytest.raises(TypeCheckError):
        jaxtyped(cx.total_variation, typechecker=beartype)(row, row[:, 1:])
