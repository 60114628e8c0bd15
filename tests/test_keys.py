"""Equation 1: where it is exact, what it leaves alone, and that every way to compute it agrees."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError, jaxtyped

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


def flat(weights):
    """The same weights with one position vector everywhere: nothing left for P to say."""
    return replace(weights, W_pos=weights.W_pos[:1].expand_as(weights.W_pos))


# ---------------------------------------------------------------- where Equation 1 is exact


@given(shapes, norms)
def test_a_rebuilt_key_is_exact_at_the_destination(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    for n in range(len(tokens)):
        split = (
            cx.content_keys(weights, n, tokens[n : n + 1])[:, 0]
            + cx.positional_keys(weights, n, C)[:, n]
        )
        same(split + weights.b_K, weights.keys(tokens)[:, n])


@given(shapes, norms)
def test_a_rebuilt_score_is_exact_at_the_destination(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    n = len(tokens) - 1
    without_b_K = replace(weights, b_K=torch.zeros_like(weights.b_K))
    same(
        cx.split.rebuilt_scores(weights, tokens, n, C)[:, n],
        cx.split.exact_scores(without_b_K, tokens, n)[:, n],
    )


@given(shapes, norms)
def test_a_rebuilt_row_is_exact_where_all_positions_are_alike(make_weights, sizes, C):
    weights = flat(make_weights(**sizes))
    tokens = some_tokens(weights)
    same(cx.rebuilt_pattern(weights, tokens, C), cx.attention_pattern(weights, tokens))
    assert not cx.positional_keys(weights, 4, C).any()


def test_a_rebuilt_row_is_exact_for_a_text_of_one_token(tiny_weights):
    rows = cx.rebuilt_rows(tiny_weights, torch.tensor([0]), 0)
    assert torch.equal(rows, torch.ones(3, 1))


def test_rebuilt_rows_are_not_exact_elsewhere(tiny_weights, tiny_tokens):
    true, rebuilt = (f(tiny_weights, tiny_tokens, 31) for f in (cx.attention_rows, cx.rebuilt_rows))
    assert (cx.total_variation(true, rebuilt) > 0.01).all()


# ---------------------------------------------------------------- against loops


def equation_1_by_hand(weights, tokens, n, C):
    """The row of every head at n, one token and one head at a time, as Equation 1 is printed."""
    d, rows = weights.d_model, []

    def norm(v):
        return v / ((v @ v) / d + weights.eps).sqrt()

    for h in range(weights.n_heads):
        q = norm(weights.W_E[tokens[n]] + weights.W_pos[n]) @ weights.W_Q[h] + weights.b_Q[h]
        exps = []
        for i in range(n + 1):
            content = norm(weights.W_E[tokens[i]] + weights.W_pos[n]) @ weights.W_K[h]
            shift = (weights.W_pos[i] - weights.W_pos[n]) @ weights.W_K[h]
            position = d**0.5 * shift / (weights.W_pos[i] @ weights.W_pos[i] + C**2) ** 0.5
            exps.append(torch.exp(q @ (content + position) / weights.d_head**0.5))
        rows.append(torch.stack(exps) / sum(exps))
    return torch.stack(rows)


@given(shapes, norms)
def test_rebuilt_rows_are_equation_1_written_as_loops(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    for n in (0, 1, 5):
        same(cx.rebuilt_rows(weights, tokens, n, C), equation_1_by_hand(weights, tokens, n, C))


def test_equation_1_by_loops_holds_for_a_loaded_model(tiny_weights, tiny_tokens):
    weights = tiny_weights.to(torch.float64)
    C = weights.typical_norm()
    same(cx.rebuilt_rows(weights, tiny_tokens, 20), equation_1_by_hand(weights, tiny_tokens, 20, C))


# ---------------------------------------------------------------- one row, every row


@given(shapes, norms)
def test_the_rebuilt_pattern_holds_the_rebuilt_row_of_every_destination(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    pattern = cx.rebuilt_pattern(weights, tokens, C)
    for n in range(len(tokens)):
        same(pattern[:, n, : n + 1], cx.rebuilt_rows(weights, tokens, n, C))


@given(shapes)
def test_the_attention_pattern_holds_the_row_of_every_destination(make_weights, sizes):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    pattern = cx.attention_pattern(weights, tokens)
    for n in range(len(tokens)):
        same(pattern[:, n, : n + 1], cx.attention_rows(weights, tokens, n))


@pytest.mark.parametrize("name", ["tiny", "mini"])
def test_rows_and_patterns_agree_in_float32_on_a_loaded_model(request, name):
    weights, tokens = (
        request.getfixturevalue(f"{name}_weights"),
        request.getfixturevalue(f"{name}_tokens"),
    )
    pattern, rebuilt = cx.attention_pattern(weights, tokens), cx.rebuilt_pattern(weights, tokens)
    for n in range(0, len(tokens), 5):
        near(pattern[:, n, : n + 1], cx.attention_rows(weights, tokens, n))
        near(rebuilt[:, n, : n + 1], cx.rebuilt_rows(weights, tokens, n))


@pytest.mark.parametrize("name", ["tiny", "mini"])
def test_the_attention_pattern_is_the_models(request, name):
    model, tokens = request.getfixturevalue(name), request.getfixturevalue(f"{name}_tokens")
    with torch.inference_mode():
        _, cache = model.run_with_cache(tokens[None])
    near(
        cx.attention_pattern(cx.LayerWeights.of(model), tokens),
        cache["blocks.0.attn.hook_pattern"][0],
    )


@pytest.mark.parametrize("pattern", [cx.attention_pattern, cx.rebuilt_pattern])
def test_a_pattern_sees_no_source_behind_its_destination(tiny_weights, tiny_tokens, pattern):
    assert not pattern(tiny_weights, tiny_tokens).triu(1).any()


@pytest.mark.parametrize("rows", [cx.attention_rows, cx.rebuilt_rows])
def test_what_follows_the_destination_does_not_matter(tiny_weights, tiny_tokens, rows):
    assert torch.equal(
        rows(tiny_weights, tiny_tokens, 12), rows(tiny_weights, tiny_tokens[:13], 12)
    )


@pytest.mark.parametrize("rows", [cx.attention_rows, cx.rebuilt_rows])
def test_rows_of_a_stack_are_those_of_its_texts(tiny_weights, tiny_tokens, rows):
    stack = torch.stack([tiny_tokens, tiny_tokens.flip(0)])
    one_by_one = torch.stack([rows(tiny_weights, x, 12) for x in stack])
    torch.testing.assert_close(rows(tiny_weights, stack, 12), one_by_one)


# ---------------------------------------------------------------- what rows have in common


@given(shapes, norms)
def test_rows_sum_to_one_and_are_not_negative(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    for pattern in (cx.attention_pattern(weights, tokens), cx.rebuilt_pattern(weights, tokens, C)):
        same(pattern.sum(-1), torch.ones(sizes["n_heads"], 6, dtype=torch.float64))
        assert (pattern >= 0).all()


@given(shapes, norms)
def test_b_K_changes_no_row(make_weights, sizes, C):
    weights = make_weights(**sizes)
    tokens = some_tokens(weights)
    other = replace(weights, b_K=10 * torch.ones_like(weights.b_K))
    same(cx.attention_pattern(other, tokens), cx.attention_pattern(weights, tokens))
    same(cx.rebuilt_pattern(other, tokens, C), cx.rebuilt_pattern(weights, tokens, C))


def test_b_K_adds_one_number_to_all_scores_of_a_row(tiny_weights, tiny_tokens):
    bare = replace(tiny_weights, b_K=torch.zeros_like(tiny_weights.b_K))
    shift = cx.split.exact_scores(tiny_weights, tiny_tokens, 20) - cx.split.exact_scores(
        bare, tiny_tokens, 20
    )
    q = tiny_weights.queries(tiny_tokens)[:, 20]
    near(shift, ((q * tiny_weights.b_K).sum(-1) / tiny_weights.attn_scale)[:, None].expand(-1, 21))


def test_C_is_the_typical_norm_unless_it_is_given(tiny_weights, tiny_tokens):
    C = tiny_weights.typical_norm()
    for rebuild in (cx.rebuilt_rows, cx.split.rebuilt_scores):
        assert torch.equal(
            rebuild(tiny_weights, tiny_tokens, 9), rebuild(tiny_weights, tiny_tokens, 9, C)
        )
    assert torch.equal(
        cx.rebuilt_pattern(tiny_weights, tiny_tokens),
        cx.rebuilt_pattern(tiny_weights, tiny_tokens, C),
    )


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


# ---------------------------------------------------------------- total variation

rows_of_four = st.lists(st.floats(1e-3, 1), min_size=4, max_size=4).map(
    lambda x: torch.tensor(x).double().softmax(-1)
)


@given(rows_of_four, rows_of_four)
def test_total_variation_lies_between_0_and_1_and_is_symmetric(a, b):
    apart = cx.total_variation(a, b)
    assert 0 <= apart <= 1
    assert apart == cx.total_variation(b, a)


@given(rows_of_four, rows_of_four, rows_of_four)
def test_total_variation_by_a_detour_is_no_smaller(a, b, c):
    assert cx.total_variation(a, c) <= cx.total_variation(a, b) + cx.total_variation(b, c) + 1e-12


@given(rows_of_four)
def test_a_row_has_no_total_variation_from_itself(a):
    assert cx.total_variation(a, a) == 0


@given(rows_of_four, rows_of_four)
def test_total_variation_is_the_attention_that_has_to_move(a, b):
    same(cx.total_variation(a, b), (a - b).clamp(min=0).sum())


def test_rows_that_share_no_source_are_1_apart():
    assert cx.total_variation(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])) == 1


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("n", [-1, 32])
def test_a_position_that_the_model_lacks_is_refused(tiny_weights, tiny_tokens, n):
    for call in (
        lambda: cx.content_keys(tiny_weights, n),
        lambda: cx.positional_keys(tiny_weights, n),
        lambda: cx.split.exact_scores(tiny_weights, tiny_tokens, n),
        lambda: cx.split.rebuilt_scores(tiny_weights, tiny_tokens, n),
        lambda: cx.attention_rows(tiny_weights, tiny_tokens, n),
        lambda: cx.rebuilt_rows(tiny_weights, tiny_tokens, n),
    ):
        with pytest.raises(ValueError, match="positions 0 to 31"):
            call()


@pytest.mark.parametrize(
    "rows", [cx.attention_rows, cx.rebuilt_rows, cx.split.exact_scores, cx.split.rebuilt_scores]
)
def test_a_destination_outside_the_text_is_refused(tiny_weights, tiny_tokens, rows):
    with pytest.raises(ValueError, match="positions 0 to 9"):
        rows(tiny_weights, tiny_tokens[:10], 10)


@pytest.mark.parametrize("C", [0.0, -1.0, float("nan")])
def test_a_C_that_is_no_norm_is_refused(tiny_weights, tiny_tokens, C):
    for call in (
        lambda: cx.positional_keys(tiny_weights, 5, C),
        lambda: cx.rebuilt_rows(tiny_weights, tiny_tokens, 5, C),
        lambda: cx.rebuilt_pattern(tiny_weights, tiny_tokens, C),
    ):
        with pytest.raises(ValueError, match="positive"):
            call()


def test_a_later_layer_is_refused(tiny, tiny_tokens):
    later = cx.LayerWeights.of(tiny, layer=1)
    for call in (
        lambda: cx.attention_rows(later, tiny_tokens, 5),
        lambda: cx.rebuilt_rows(later, tiny_tokens, 5),
        lambda: cx.attention_pattern(later, tiny_tokens),
        lambda: cx.rebuilt_pattern(later, tiny_tokens),
    ):
        with pytest.raises(ValueError, match="layer 1"):
            call()


@pytest.mark.parametrize("half", [cx.content_keys, cx.positional_keys])
def test_half_a_key_of_a_later_layer_is_refused(tiny, half):
    with pytest.raises(ValueError, match="layer 1"):
        half(cx.LayerWeights.of(tiny, layer=1), 5)


@pytest.mark.parametrize("stranger", [300, -1])
def test_tokens_outside_the_vocabulary_are_refused(tiny_weights, stranger):
    tokens = torch.tensor([0, 5, stranger, 7])
    for call in (
        lambda: cx.attention_rows(tiny_weights, tokens, 3),
        lambda: cx.rebuilt_rows(tiny_weights, tokens, 3),
        lambda: cx.attention_pattern(tiny_weights, tokens),
        lambda: cx.rebuilt_pattern(tiny_weights, tokens),
    ):
        with pytest.raises(ValueError, match="ids 0 to 299"):
            call()


@pytest.mark.parametrize("stranger", [300, -1])
def test_content_keys_of_tokens_outside_the_vocabulary_are_refused(tiny_weights, stranger):
    with pytest.raises(ValueError, match="ids 0 to 299"):
        cx.content_keys(tiny_weights, 3, torch.tensor([0, stranger]))


@pytest.mark.parametrize("pattern", [cx.attention_pattern, cx.rebuilt_pattern])
def test_more_tokens_than_the_model_reads_are_refused(tiny_weights, pattern):
    with pytest.raises(ValueError, match="1 to 32 tokens"):
        pattern(tiny_weights, torch.zeros(33, dtype=torch.long))


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(tiny_weights, tiny_tokens):
    w, tokens = tiny_weights, tiny_tokens
    row = cx.attention_rows(w, tokens, 9)
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
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
    with pytest.raises(TypeCheckError):
        jaxtyped(cx.total_variation, typechecker=beartype)(row, row[:, 1:])
