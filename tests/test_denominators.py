"""Denominators: what they are, how far they stray, and what is chosen because of it."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from beartype import beartype
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped

import ctxlib as cx

same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
near = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # float32

DRAWS = 4000
shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 999),
        "n_heads": st.integers(1, 3),
        "d_head": st.integers(2, 5),
        "n_ctx": st.integers(6, 12),
        "vocab": st.integers(2, 20),
    }
)
seeds, norms = st.integers(0, 999), st.floats(0.1, 30)
READERS = [cx.softmax_denominators, cx.exact_denominators, cx.content_values]
both = pytest.mark.parametrize("measure", READERS[:2])
every = pytest.mark.parametrize("measure", READERS)


def draw(*shape, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def draw_kernel(*shape, seed=0):
    return draw(*shape, seed=seed).softmax(-1)


def draw_texts(count, length, vocab, seed=0):
    source = torch.Generator().manual_seed(seed)
    return list(torch.randint(0, vocab, (count, length), generator=source))


def flat(weights):
    """The same weights with one position vector everywhere: only content tells tokens apart."""
    return replace(weights, W_pos=weights.W_pos[:1].expand_as(weights.W_pos))


@pytest.fixture(scope="module")
def precise(tiny_weights):
    return tiny_weights.to(torch.float64)


@pytest.fixture(scope="module")
def drawn():
    """Five texts that fill the context of `tiny`."""
    return draw_texts(5, 32, 300)


# ---------------------------------------------------------------- against loops


def factors_by_hand(weights, text, n, token, C):
    """For each head and source: exp of the score of content, of position, and of both at once."""
    d, tokens = weights.d_model, [*text[:n].tolist(), token]

    def norm(v):
        return v / ((v @ v) / d + weights.eps).sqrt()

    heads = []
    for h in range(weights.n_heads):
        q = norm(weights.W_E[token] + weights.W_pos[n]) @ weights.W_Q[h] + weights.b_Q[h]
        rows = []
        for i, t in enumerate(tokens):
            here, there = weights.W_pos[i], weights.W_pos[n]
            scale = (here @ here + C**2) ** 0.5
            keys = (
                norm(weights.W_E[t] + there),
                d**0.5 * (here - there) / scale,
                norm(weights.W_E[t] + here),
            )
            rows.append(
                [math.exp(q @ (key @ weights.W_K[h]) / weights.d_head**0.5) for key in keys]
            )
        heads.append(rows)
    return heads


@given(shapes, norms, st.integers(0, 1))
def test_denominators_are_the_loops(make_weights, sizes, C, token):
    weights = make_weights(**sizes)
    texts = draw_texts(2, 6, sizes["vocab"])
    for n in (0, 1, 5):
        by_hand = []
        for text in texts:
            heads = factors_by_hand(weights, text, n, token, C)
            by_hand.append([sum(c * p for c, p, _ in h) / sum(p for _, p, _ in h) for h in heads])
        same(
            cx.softmax_denominators(weights, texts, n, token, C),
            torch.tensor(by_hand, dtype=torch.float64),
        )


@given(shapes, norms, st.integers(0, 1))
def test_exact_denominators_are_the_loops(make_weights, sizes, C, token):
    weights = make_weights(**sizes)
    texts = draw_texts(2, 6, sizes["vocab"])
    for n in (0, 1, 5):
        by_hand = []
        for text in texts:
            heads = factors_by_hand(weights, text, n, token, C)
            by_hand.append([sum(e for _, _, e in h) / sum(p for _, p, _ in h) for h in heads])
        same(
            cx.exact_denominators(weights, texts, n, token, C),
            torch.tensor(by_hand, dtype=torch.float64),
        )


@given(shapes)
def test_content_values_are_the_loops(make_weights, sizes):
    weights = make_weights(**sizes)
    texts = draw_texts(2, 6, sizes["vocab"])
    values = cx.content_values(weights, texts, 4, 1)
    assert values.shape == (sizes["n_heads"], 2, 5)
    for number, text in enumerate(texts):
        heads = factors_by_hand(weights, text, 4, 1, C=1.0)
        by_hand = [[c for c, _, _ in h] for h in heads]
        same(values[:, number], torch.tensor(by_hand, dtype=torch.float64))


def test_the_destination_is_in_the_middle_and_C_typical_unless_they_are_given(precise, drawn):
    for measure in READERS[:2]:
        asked = measure(precise, drawn, 16, " the", precise.typical_norm())
        assert torch.equal(measure(precise, drawn), asked)
    assert torch.equal(cx.content_values(precise, drawn), cx.content_values(precise, drawn, 16))


# ---------------------------------------------------------------- against the model


def with_the(weights, text, n):
    """The text as the denominators read it: " the" at n."""
    return torch.cat([text[:n], torch.tensor([weights.token_id(" the")]), text[n + 1 :]])


@pytest.mark.parametrize("n", [0, 7, 31])
def test_kernel_times_content_over_denominator_is_the_rebuilt_row(precise, drawn, n):
    kernels = cx.positional_kernels(precise, n)
    values, denoms = (
        cx.content_values(precise, drawn, n),
        cx.softmax_denominators(precise, drawn, n),
    )
    for number, text in enumerate(drawn):
        row = kernels * values[:, number] / denoms[number][:, None]
        same(row, cx.rebuilt_rows(precise, with_the(precise, text, n), n))


@pytest.mark.parametrize("n", [0, 7, 31])
def test_exact_denominators_give_the_attention_row_of_the_model(tiny, precise, drawn, n):
    replaced = torch.stack([with_the(precise, text, n) for text in drawn])
    with torch.inference_mode():
        _, cache = tiny.run_with_cache(replaced)
    patterns = cache["blocks.0.attn.hook_pattern"][:, :, n, : n + 1]
    position = cx.split.positional_scores(precise, n).exp().sum(-1)
    denoms = cx.exact_denominators(precise, drawn, n)
    for text, denom, pattern in zip(replaced, denoms, patterns, strict=True):
        q = precise.queries(text)[:, n]
        from_bias = (q * precise.b_K).sum(-1, keepdim=True) / precise.attn_scale
        scores = cx.exact_scores(precise, text, n) - from_bias
        near((scores.exp() / (denom * position)[:, None]).float(), pattern)


@given(shapes, norms)
def test_both_denominators_agree_where_all_positions_are_alike(make_weights, sizes, C):
    weights = flat(make_weights(**sizes))
    texts = draw_texts(2, 6, sizes["vocab"])
    same(
        cx.softmax_denominators(weights, texts, 5, 1, C),
        cx.exact_denominators(weights, texts, 5, 1, C),
    )


def test_a_denominator_is_the_plain_mean_of_content_where_all_positions_are_alike(precise, drawn):
    weights = flat(precise)
    same(
        cx.softmax_denominators(weights, drawn, 9), cx.content_values(weights, drawn, 9).mean(-1).T
    )


def test_both_denominators_are_near_each_other_in_the_embedded_model(mini_weights, mini_tokens):
    rebuilt = cx.softmax_denominators(mini_weights, [mini_tokens], 90)
    exact = cx.exact_denominators(mini_weights, [mini_tokens], 90)
    assert (rebuilt / exact - 1).abs().median() < 0.1


# ---------------------------------------------------------------- what does not matter


@every
def test_what_stands_at_the_destination_and_behind_it_does_not_matter(precise, drawn, measure):
    others = [torch.cat([text[:12], text[12:].flip(0)]) for text in drawn]
    whole = measure(precise, drawn, 12)
    assert torch.equal(measure(precise, others, 12), whole)
    assert torch.equal(measure(precise, [text[:12] for text in drawn], 12), whole)


@every
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_size_of_a_batch_does_not_matter(monkeypatch, precise, drawn, measure, size):
    whole = measure(precise, drawn, 12)
    monkeypatch.setattr(cx.texts, "BATCH", size)
    same(measure(precise, drawn, 12), whole)


@every
def test_texts_come_as_a_list_a_generator_or_a_tensor(precise, drawn, measure):
    from_list = measure(precise, drawn, 12)
    assert torch.equal(measure(precise, (text for text in drawn), 12), from_list)
    assert torch.equal(measure(precise, torch.stack(drawn), 12), from_list)


@every
def test_labelled_texts_count_like_their_tokens(precise, drawn, measure):
    labelled = [cx.texts.Text(str(i), "", "", "", "", tokens) for i, tokens in enumerate(drawn)]
    assert torch.equal(measure(precise, labelled, 12), measure(precise, drawn, 12))


@both
def test_every_text_has_a_denominator_of_its_own(precise, drawn, measure):
    one_by_one = torch.cat([measure(precise, [text], 12) for text in drawn])
    same(measure(precise, drawn, 12), one_by_one)


@both
def test_b_K_changes_no_denominator(precise, drawn, measure):
    other = replace(precise, b_K=precise.b_K + 3)
    same(measure(other, drawn, 12), measure(precise, drawn, 12))


def test_the_order_of_the_words_does_not_matter_where_all_positions_are_alike(precise, drawn):
    other_way = [text[:12].flip(0) for text in drawn]
    same(
        cx.softmax_denominators(flat(precise), other_way, 12),
        cx.softmax_denominators(flat(precise), drawn, 12),
    )


# ---------------------------------------------------------------- bounds, by simulation


@st.composite
def draws_of_a_sum(draw_from):
    """Values with probabilities, a kernel, and `DRAWS` seeded draws of `sum_i pos_i X_i`."""
    values = torch.tensor(
        draw_from(st.lists(st.floats(0, 10), min_size=2, max_size=4)), dtype=torch.float64
    )
    likely = torch.tensor(
        draw_from(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values))),
        dtype=torch.float64,
    )
    scores = draw_from(st.lists(st.floats(-3, 3), min_size=1, max_size=20))
    kernel = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    p = likely / likely.sum()
    source = torch.Generator().manual_seed(draw_from(seeds))
    chosen = torch.multinomial(p, DRAWS * len(kernel), replacement=True, generator=source)
    sums = values[chosen].view(DRAWS, len(kernel)) @ kernel
    return values, p, kernel, sums


def moments(values, p):
    mean = (p * values).sum()
    variance = (p * (values - mean) ** 2).sum()
    return mean, variance, values.max() - values.min(), (values - mean).abs().max()


@given(draws_of_a_sum(), st.floats(0.05, 5))
def test_no_bound_is_exceeded(sample, epsilon):
    values, p, kernel, sums = sample
    mean, variance, width, largest = moments(values, p)
    epsilon = torch.tensor(epsilon, dtype=torch.float64)
    seen = ((sums - mean).abs() >= epsilon).double().mean()
    for bound in (
        cx.chebyshev(variance, kernel, epsilon),
        cx.hoeffding(width, kernel, epsilon),
        cx.bernstein(variance, largest, kernel, epsilon),
    ):
        standard_error = (bound * (1 - bound) / DRAWS).sqrt()
        assert seen <= bound + 4 * standard_error + 2e-3


@given(draws_of_a_sum())
def test_the_independent_variance_is_the_simulated_one(sample):
    values, p, kernel, sums = sample
    mean, variance, _, _ = moments(values, p)
    squares = (sums - mean) ** 2
    standard_error = squares.std() / DRAWS**0.5
    apart = (squares.mean() - cx.iid_variance(variance, kernel)).abs()
    assert apart <= 6 * standard_error + 1e-12


@given(st.floats(0.01, 10), st.floats(0.01, 10), st.lists(st.floats(-3, 3), min_size=1))
def test_bounds_are_at_most_1_and_fall_as_epsilon_grows(variance, width, scores):
    kernel = torch.tensor(scores, dtype=torch.float64).softmax(-1).expand(30, -1)
    epsilon = torch.linspace(0.01, 20, 30, dtype=torch.float64)
    variance, width = (torch.full_like(epsilon, x) for x in (variance, width))
    for bound in (
        cx.chebyshev(variance, kernel, epsilon),
        cx.hoeffding(width, kernel, epsilon),
        cx.bernstein(variance, width, kernel, epsilon),
    ):
        assert (bound >= 0).all() and (bound <= 1).all()
        assert (bound.diff() <= 0).all()


def test_the_three_bounds_by_hand():
    kernel = torch.full((100,), 0.01, dtype=torch.float64)
    one, tenth = (torch.tensor(x, dtype=torch.float64) for x in (1.0, 0.1))
    assert cx.chebyshev(tenth, kernel, tenth).item() == pytest.approx(0.1)
    assert cx.hoeffding(one, kernel, tenth).item() == pytest.approx(2 * math.exp(-2))
    denominator = 2 * 0.1 / 100 + 2 / 3 * 0.01 * 0.1
    assert cx.bernstein(tenth, one, kernel, tenth).item() == pytest.approx(
        2 * math.exp(-0.01 / denominator)
    )


@given(st.integers(1, 300), st.floats(0.1, 50), st.floats(0.01, 0.5))
def test_bernstein_is_below_hoeffding_where_the_variance_is_far_below_the_width(length, w, share):
    kernel = torch.full((length,), 1 / length, dtype=torch.float64)
    width = torch.tensor(w, dtype=torch.float64)
    variance, epsilon = (0.02 * width) ** 2, share * width
    sharp = cx.bernstein(variance, width, kernel, epsilon)
    blunt = cx.hoeffding(width, kernel, epsilon)
    assert sharp < blunt or sharp == blunt == 1


def test_bernstein_is_below_chebyshev_far_out():
    kernel = torch.full((300,), 1 / 300, dtype=torch.float64)
    variance, largest, epsilon = torch.tensor([1.0, 10.0, 1.0], dtype=torch.float64)
    assert cx.bernstein(variance, largest, kernel, epsilon) < cx.chebyshev(
        variance, kernel, epsilon
    )


def test_each_head_has_its_own_bound():
    kernels, (a, b) = draw_kernel(3, 9), torch.rand(2, 3, dtype=torch.float64) + 0.5
    for bound in (
        cx.chebyshev,
        cx.hoeffding,
        lambda variance, kernel, epsilon: cx.bernstein(variance, 2 * variance, kernel, epsilon),
    ):
        together = bound(a, kernels, b)
        assert together.shape == (3,)
        same(together, torch.stack([bound(a[h], kernels[h], b[h]) for h in range(3)]))


# ---------------------------------------------------------------- autocovariance


@given(seeds, st.integers(1, 4), st.integers(1, 9))
def test_autocovariance_is_the_loops(seed, count, length):
    values = 3 + draw(count, length, seed=seed)
    mean, by_hand = values.mean(), []
    for lag in range(length):
        products = [
            (text[i] - mean) * (text[i + lag] - mean)
            for text in values
            for i in range(length - lag)
        ]
        by_hand.append(sum(products) / len(products))
    same(cx.autocovariance(values), torch.stack(by_hand))


@given(seeds)
def test_autocovariance_at_lag_0_is_the_variance_of_all_values(seed):
    values = draw(3, 4, 7, seed=seed)
    same(cx.autocovariance(values)[:, 0], values.flatten(1).var(-1, correction=0))


def test_each_head_has_its_own_autocovariance():
    values = draw(3, 4, 7) * torch.tensor([1.0, 2.0, 3.0])[:, None, None]
    same(cx.autocovariance(values), torch.stack([cx.autocovariance(v) for v in values]))


def test_a_shift_of_all_values_changes_no_autocovariance():
    values = draw(4, 7)
    same(cx.autocovariance(values + 5), cx.autocovariance(values))


@given(seeds, st.integers(1, 9))
def test_the_correlated_variance_is_the_double_sum(seed, length):
    gamma, kernel = draw(length, seed=seed), draw_kernel(length, seed=seed + 1)
    by_hand = sum(
        kernel[i] * kernel[k] * gamma[abs(i - k)] for i in range(length) for k in range(length)
    )
    same(cx.correlated_variance(gamma, kernel), by_hand)


@given(seeds, st.integers(1, 9), st.floats(0, 10))
def test_white_noise_has_the_independent_variance(seed, length, variance):
    kernel = draw_kernel(length, seed=seed)
    gamma = torch.zeros(length, dtype=torch.float64)
    gamma[0] = variance
    same(cx.correlated_variance(gamma, kernel), cx.iid_variance(gamma[0], kernel))


@given(seeds, st.integers(1, 9), st.floats(0, 10))
def test_a_constant_covariance_counts_with_the_square_of_the_kernels_sum(seed, length, level):
    kernel = 0.7 * draw_kernel(length, seed=seed)
    gamma = torch.full((length,), level, dtype=torch.float64)
    same(cx.correlated_variance(gamma, kernel), gamma[0] * 0.49)


def test_each_head_has_its_own_correlated_variance():
    gamma, kernels = draw(3, 9), draw_kernel(3, 9)
    one_by_one = [cx.correlated_variance(g, k) for g, k in zip(gamma, kernels, strict=True)]
    same(cx.correlated_variance(gamma, kernels), torch.stack(one_by_one))


def test_more_lags_than_sources_do_no_harm():
    gamma, kernel = draw(12), draw_kernel(9)
    same(cx.correlated_variance(gamma, kernel), cx.correlated_variance(gamma[:9], kernel))


def autoregressive(noise, rho=0.8):
    steps = [noise[:, 0]]
    for i in range(1, noise.shape[1]):
        steps.append(rho * steps[-1] + (1 - rho**2) ** 0.5 * noise[:, i])
    return torch.stack(steps, dim=1), rho ** torch.arange(noise.shape[1])


def moving_average(noise):
    values = noise[:, 2:] + noise[:, 1:-1] + noise[:, :-2]
    gamma = torch.zeros(values.shape[1])
    gamma[:3] = torch.tensor([3.0, 2.0, 1.0])
    return values, gamma


def offset_of_a_text(noise):
    values = noise[:, :-1] + 0.5 * noise[:, -1:]
    gamma = torch.full((values.shape[1],), 0.25)
    gamma[0] = 1.25
    return values, gamma


processes = pytest.mark.parametrize("process", [autoregressive, moving_average, offset_of_a_text])


@processes
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_correlated_variance_is_the_simulated_one(process, seed):
    values, gamma = process(draw(DRAWS, 40, seed=seed))
    kernel = draw_kernel(values.shape[1], seed=seed + 10)
    known = cx.correlated_variance(gamma.double(), kernel)
    standard_error = known * (2 / DRAWS) ** 0.5
    assert ((values @ kernel).var() - known).abs() <= 4 * standard_error


@processes
def test_autocovariance_finds_that_of_a_known_process(process):
    values, gamma = process(draw(DRAWS, 40))
    apart = (cx.autocovariance(values) - gamma).abs() / gamma[0]
    assert apart.max() < 0.1
    assert apart[:5].max() < 0.03


# ---------------------------------------------------------------- the account of a variance

SIGMA = torch.tensor([2.0, 1.0], dtype=torch.float64)
TAU = torch.tensor([1.0, 0.2], dtype=torch.float64)


def texts_with_a_topic(seed=0):
    """Values of two heads: 10, noise of variance sigma^2, an offset of each text of variance
    tau^2; the first and the last value are the same in every text.
    """
    noise = SIGMA[:, None, None] * draw(2, DRAWS, 40, seed=seed)
    values = 10 + noise + TAU[:, None, None] * draw(2, DRAWS, 1, seed=seed + 1)
    values[..., 0], values[..., -1] = 30, 5
    return values, draw_kernel(2, 40, seed=seed + 2)


def in_the_unit_of_the_values(table, values, kernels):
    mean = (values * kernels[:, None]).sum(-1).mean(-1)
    return {name: torch.tensor(table[name].to_numpy()) * mean**2 for name in table}


@given(seeds, st.integers(2, 5), st.integers(4, 12))
def test_the_terms_of_the_account_add_up_to_the_model(seed, count, length):
    values, kernels = 5 + draw(2, count, length, seed=seed), draw_kernel(2, length, seed=seed)
    table = cx.variance_account(values, kernels)
    total = table["independent"] + table["neighbours"] + table["topic"]
    assert table["model"].to_numpy() == pytest.approx(total.to_numpy(), abs=1e-9)


@given(seeds)
def test_measured_is_the_variance_of_the_denominators(seed):
    values, kernels = 5 + draw(2, 6, 9, seed=seed), draw_kernel(2, 9, seed=seed)
    denoms = (values * kernels[:, None]).sum(-1)
    expected = (denoms.std(-1) / denoms.mean(-1)) ** 2
    measured = cx.variance_account(values, kernels)["measured"].to_numpy()
    assert measured == pytest.approx(expected.numpy())


@pytest.mark.parametrize("seed", [0, 10])
def test_the_account_finds_the_noise_and_the_topic_that_were_put_in(seed):
    values, kernels = texts_with_a_topic(seed)
    found = in_the_unit_of_the_values(cx.variance_account(values, kernels), values, kernels)
    inner = kernels[:, 1:-1]
    torch.testing.assert_close(
        found["independent"], SIGMA**2 * inner.square().sum(-1), rtol=0.03, atol=0
    )
    torch.testing.assert_close(found["topic"], TAU**2 * inner.sum(-1) ** 2, rtol=0.2, atol=0)
    assert (found["neighbours"].abs() < 0.05 * found["model"]).all()


@pytest.mark.parametrize("seed", [0, 10])
def test_the_model_agrees_with_what_is_measured_on_stationary_texts(seed):
    table = cx.variance_account(*texts_with_a_topic(seed))
    assert table["measured"].to_numpy() == pytest.approx(table["model"].to_numpy(), rel=0.1)


def test_neighbours_count_where_they_are_alike():
    values, gamma = autoregressive(draw(DRAWS, 60), rho=0.6)
    kernel = draw_kernel(1, 60, seed=3)
    values[:, 0] = values[:, -1] = 0
    table = cx.variance_account(10 + values[None], kernel)
    found = in_the_unit_of_the_values(table, 10 + values[None], kernel)
    inner = kernel[0, 1:-1]
    expected = cx.correlated_variance(gamma[:58], inner) - cx.iid_variance(gamma[0], inner)
    assert found["neighbours"].item() == pytest.approx(expected.item(), rel=0.2)
    assert abs(found["topic"].item()) < 0.03


def test_what_all_texts_share_at_both_ends_counts_in_no_term():
    values, kernels = texts_with_a_topic()
    other = values.clone()
    other[..., 0], other[..., -1] = 2, 50
    one = in_the_unit_of_the_values(cx.variance_account(values, kernels), values, kernels)
    two = in_the_unit_of_the_values(cx.variance_account(other, kernels), other, kernels)
    for name in one:
        same(one[name], two[name])


def test_the_account_has_a_row_for_every_head_of_a_model(precise, drawn):
    values = cx.content_values(precise, drawn, 12)
    table = cx.variance_account(values, cx.positional_kernels(precise, 12))
    assert table.index.name == "head"
    assert table.index.tolist() == [0, 1, 2]
    assert list(table) == ["independent", "neighbours", "topic", "model", "measured"]
    denoms = cx.softmax_denominators(precise, drawn, 12)
    expected = (denoms.std(0) / denoms.mean(0)) ** 2
    assert table["measured"].to_numpy() == pytest.approx(expected.numpy())


# ---------------------------------------------------------------- between labels and within


@given(st.lists(st.tuples(st.floats(-9, 9), st.sampled_from("abc")), min_size=1, max_size=12))
def test_between_and_within_add_up_to_the_variance(pairs):
    values = torch.tensor([value for value, _ in pairs], dtype=torch.float64)
    between, within = cx.between_and_within(values, [label for _, label in pairs])
    same(between + within, values.var(correction=0))
    assert between >= 0 and within >= 0


def test_between_and_within_by_hand():
    between, within = cx.between_and_within(torch.tensor([0.0, 9.0, 3.0]), ["a", "b", "a"])
    assert between.item() == 12.5  # (2 (1.5 - 4)^2 + (9 - 4)^2) / 3
    assert within.item() == 1.5


def test_between_and_within_are_found_head_by_head():
    values = draw(6, 3)
    between, within = cx.between_and_within(values, list("abcabc"))
    assert between.shape == within.shape == (3,)
    for h in range(3):
        alone = cx.between_and_within(values[:, h], list("abcabc"))
        same((between[h], within[h]), alone)


def test_one_label_leaves_nothing_between_and_a_label_for_each_text_nothing_within():
    values = draw(5)
    assert cx.between_and_within(values, ["a"] * 5)[0] == 0
    assert cx.between_and_within(values, range(5))[1] == 0


def test_labels_may_be_anything_that_can_be_hashed():
    values = torch.tensor([0.0, 2.0, 4.0, 6.0])
    for a, b in ((1, 2), (True, False), (("en", "GB"), ("en", "US"))):
        between, within = cx.between_and_within(values, [a, a, b, b])
        assert (between, within) == (4, 1)


def test_labels_for_other_texts_are_refused():
    with pytest.raises(ValueError, match="3 labels for 4 texts"):
        cx.between_and_within(torch.ones(4), ["a", "b", "c"])


# ---------------------------------------------------------------- which heads hold still


def halfway(numbers):
    """Thresholds with one, two, ... of the numbers below them."""
    ordered = sorted(numbers)
    return [(a + b) / 2 for a, b in pairwise(ordered)]


@pytest.fixture(scope="module")
def measured(precise, drawn):
    """Effective tokens and relative spread of every head of `tiny` at n = 20."""
    denoms = cx.softmax_denominators(precise, drawn, 20)
    spread = cx.effective_tokens(cx.positional_kernels(precise, 20))
    return spread.tolist(), (denoms.std(0) / denoms.mean(0)).tolist()


def test_all_heads_hold_still_where_positions_are_alike_and_so_are_the_words(precise, drawn):
    text = drawn[0]
    texts = [torch.cat([text[:20].roll(k), text[20:]]) for k in range(4)]
    heads = cx.stable_heads(flat(precise), texts, 20, broad=10)
    assert heads == [0, 1, 2]
    assert heads.table["effective tokens"].tolist() == pytest.approx([21] * 3)
    assert heads.table["relative spread"].tolist() == pytest.approx([0] * 3, abs=1e-12)


def test_heads_that_stray_are_left_out(precise, drawn, measured):
    _, strays = measured
    for steady in halfway(strays):
        heads = cx.stable_heads(precise, drawn, 20, broad=0, steady=steady)
        assert heads == [h for h in range(3) if strays[h] < steady]


def test_heads_with_a_narrow_kernel_are_left_out(precise, drawn, measured):
    spread, _ = measured
    for broad in halfway(spread):
        heads = cx.stable_heads(precise, drawn, 20, broad=broad, steady=math.inf)
        assert heads == [h for h in range(3) if spread[h] > broad]


def test_the_table_carries_what_the_choice_rests_on(precise, drawn, measured):
    heads = cx.stable_heads(precise, drawn, 20, broad=0, steady=halfway(measured[1])[0])
    assert isinstance(heads, list)
    assert heads.table.index.name == "head"
    assert heads.table["effective tokens"].tolist() == pytest.approx(measured[0])
    assert heads.table["relative spread"].tolist() == pytest.approx(measured[1])
    assert heads.table["family"].tolist() == cx.families(precise, 20)["family"].tolist()
    assert heads.table.index[heads.table["stable"]].tolist() == heads


def test_the_table_says_why_a_head_was_not_chosen(precise, drawn, measured):
    spread, strays = measured
    broad, steady = halfway(spread)[0], halfway(strays)[1]
    heads = cx.stable_heads(precise, drawn, 20, broad=broad, steady=steady)
    for h, why in enumerate(heads.table["why not"]):
        assert (f"kernel over {spread[h]:.1f} tokens" in why) == (spread[h] <= broad)
        assert (f"strays by {strays[h]:.0%}" in why) == (strays[h] >= steady)
        assert (why == "") == (h in heads)


def test_both_reasons_are_named_where_both_hold(precise, drawn, measured):
    spread, strays = measured
    flattened = replace(precise, W_Q=precise.W_Q.clone(), b_Q=precise.b_Q.clone())
    flattened.W_Q[0] = 0
    flattened.b_Q[0] = 0
    heads = cx.stable_heads(flattened, drawn, 20, broad=20.5, steady=1e-6)
    assert heads == [0]
    assert heads.table["why not"][0] == ""
    for h in (1, 2):
        assert heads.table["why not"][h] == (
            f"kernel over {spread[h]:.1f} tokens only; denominator strays by {strays[h]:.0%}"
        )


def test_denominators_beyond_the_range_of_their_precision_are_refused(tiny_weights, drawn):
    loud = replace(tiny_weights, W_Q=3000 * tiny_weights.W_Q, b_Q=3000 * tiny_weights.b_Q)
    with pytest.raises(ValueError, match=r"denominators of head .* are beyond .*float32"):
        cx.softmax_denominators(loud, drawn, 20)
    with pytest.raises(ValueError, match="beyond the range"):
        cx.stable_heads(loud, drawn, 20, broad=0, steady=math.inf)


def test_a_head_whose_spread_is_unknown_is_not_stable(precise, drawn, monkeypatch):
    denoms = cx.softmax_denominators(precise, drawn, 20)
    denoms[:, 1] = math.nan
    monkeypatch.setattr(cx.denominators, "softmax_denominators", lambda *_: denoms)
    assert cx.stable_heads(precise, drawn, 20, broad=0, steady=10.0) == [0, 2]


def test_texts_for_stable_heads_may_come_from_a_generator(precise, drawn):
    stream = (text for text in drawn)
    assert cx.stable_heads(precise, stream, broad=0, steady=math.inf) == [0, 1, 2]


def test_no_stable_head_at_all_is_an_error_that_says_how_near_it_was(precise, drawn, measured):
    with pytest.raises(ValueError, match=f"no head.*broad ones strays by {min(measured[1]):.0%}"):
        cx.stable_heads(precise, drawn, 20, broad=0, steady=0.0)
    with pytest.raises(ValueError, match="no head has a kernel over more than 40 tokens"):
        cx.stable_heads(precise, drawn, 20, steady=math.inf)


def test_one_text_shows_no_stable_head(precise, drawn):
    with pytest.raises(ValueError, match="at least two"):
        cx.stable_heads(precise, drawn[:1], 20, broad=0)


def test_no_text_shows_no_stable_head(precise):
    with pytest.raises(ValueError, match="no texts"):
        cx.stable_heads(precise, [], 20)


@pytest.mark.parametrize("chosen", [[0], [2, 0], (0, 1, 2), torch.tensor([1, 2]), np.array([1])])
def test_heads_that_exist_come_back_as_a_list(tiny_weights, chosen):
    heads = cx.destination.check_heads(tiny_weights, chosen)
    assert heads == [int(h) for h in chosen]
    assert {type(h) for h in heads} == {int}


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        ([], "no heads"),
        ([0, 3], "heads 0 to 2"),
        ([-1, 1], "heads 0 to 2"),
        ([1, 0, 1], "there twice"),
    ],
)
def test_heads_that_make_no_choice_are_refused(tiny_weights, heads, says):
    with pytest.raises(ValueError, match=says):
        cx.destination.check_heads(tiny_weights, heads)


# ---------------------------------------------------------------- what a wrong one costs


def positive(*shape, seed=0):
    return draw(*shape, seed=seed).exp()


def test_calibration_error_is_the_loops():
    calibrated, denoms = positive(3, 2), positive(4, 2, seed=1)
    error = cx.calibration_error(calibrated, denoms)
    assert error.shape == (3, 4, 2)
    for c in range(3):
        for t in range(4):
            for h in range(2):
                same(error[c, t, h], denoms[t, h] / calibrated[c, h] - 1)


def test_a_text_calibrated_on_itself_has_no_error():
    denoms = positive(4, 2)
    assert not cx.calibration_error(denoms, denoms).diagonal().any()


@given(seeds, st.permutations(list("aaabbcc")))
def test_cross_calibration_is_the_loops_over_different_texts(seed, labels):
    denoms = positive(7, 3, seed=seed)
    table = cx.cross_calibration(denoms, labels)
    for row in "abc":
        for column in "abc":
            errors = [
                abs(denoms[t, h] / denoms[c, h] - 1)
                for c in range(7)
                for t in range(7)
                for h in range(3)
                if c != t and labels[c] == row and labels[t] == column
            ]
            expected = float(sum(errors) / len(errors))
            assert table.loc[row, column] == pytest.approx(expected)


def test_cross_calibration_names_labels_in_the_order_of_their_texts():
    table = cx.cross_calibration(positive(4, 2), ["war", "law", "war", "law"])
    assert table.index.tolist() == table.columns.tolist() == ["war", "law"]


def test_cross_calibration_refuses_labels_for_other_texts():
    with pytest.raises(ValueError, match="3 labels for 4 texts"):
        cx.cross_calibration(positive(4, 2), ["a", "a", "b"])


def test_cross_calibration_refuses_a_label_with_one_text():
    with pytest.raises(ValueError, match="label 'b' has one text"):
        cx.cross_calibration(positive(3, 2), ["a", "b", "a"])


GROUPS = [0, 1, 0, 2, 2, 1, 0, 1]
CENTRES = torch.tensor([[0.0, 5.0], [5.0, 0.0], [-5.0, -5.0]], dtype=torch.float64)


def grouped(seed):
    return (CENTRES[GROUPS] + 0.1 * draw(len(GROUPS), 2, seed=seed)).exp()


@given(seeds)
def test_clusters_are_the_groups_in_the_order_of_their_appearance(seed):
    assert cx.cluster_texts(grouped(seed), 3).tolist() == GROUPS


def test_the_unit_of_a_head_changes_no_cluster():
    scaled = grouped(0) * torch.tensor([1e-3, 1e3])
    assert cx.cluster_texts(scaled, 3).tolist() == GROUPS


def test_one_cluster_holds_all_texts_and_as_many_as_texts_hold_one_each():
    assert cx.cluster_texts(grouped(0), 1).tolist() == [0] * 8
    assert cx.cluster_texts(grouped(0), 8).tolist() == list(range(8))


def test_one_text_is_one_cluster():
    assert cx.cluster_texts(positive(1, 2), 1).tolist() == [0]


def test_a_head_with_one_denominator_for_all_texts_separates_none():
    denoms = torch.cat([grouped(0), torch.ones(len(GROUPS), 1)], dim=1)
    assert cx.cluster_texts(denoms, 3).tolist() == GROUPS


@pytest.mark.parametrize("clusters", [0, -1, 9])
def test_a_number_of_clusters_out_of_range_is_refused(clusters):
    with pytest.raises(ValueError, match=f"{clusters} clusters of 8 texts: choose 1 to 8"):
        cx.cluster_texts(grouped(0), clusters)


# ---------------------------------------------------------------- what is refused


@every
def test_a_text_of_n_tokens_is_long_enough_and_a_shorter_one_is_refused(precise, drawn, measure):
    measure(precise, [drawn[0][:12]], 12)
    with pytest.raises(ValueError, match="a text of 11 tokens is too short for the destination 12"):
        measure(precise, [drawn[0], drawn[1][:11]], 12)


@every
@pytest.mark.parametrize("texts", [[], iter([]), torch.zeros(0, 32, dtype=torch.long)])
def test_no_text_is_refused(precise, measure, texts):
    with pytest.raises(ValueError, match="no texts"):
        measure(precise, texts, 12)


@every
@pytest.mark.parametrize("token", [" bagpipes", 300, -1])
def test_what_is_not_one_token_of_the_vocabulary_is_refused(precise, drawn, measure, token):
    with pytest.raises(ValueError, match=r"exactly one|ids 0 to 299"):
        measure(precise, drawn, 12, token)


@every
@pytest.mark.parametrize("stranger", [-1, 300])
def test_texts_outside_the_vocabulary_are_refused(precise, drawn, measure, stranger):
    text = drawn[0].clone()
    text[3] = stranger
    with pytest.raises(ValueError, match="ids 0 to 299"):
        measure(precise, [text], 12)


@every
@pytest.mark.parametrize("n", [-1, 32])
def test_a_position_that_the_model_lacks_is_refused(precise, drawn, measure, n):
    with pytest.raises(ValueError, match="positions 0 to 31"):
        measure(precise, drawn, n)


@every
def test_a_later_layer_is_refused(tiny, drawn, measure):
    with pytest.raises(ValueError, match="layer 1"):
        measure(cx.LayerWeights.of(tiny, layer=1), drawn, 12)


@every
def test_weights_without_embeddings_are_refused(precise, drawn, measure):
    with pytest.raises(ValueError, match="without token embeddings"):
        measure(replace(precise, W_E=None), drawn, 12)


@both
@pytest.mark.parametrize("C", [0.0, -2.0, float("nan")])
def test_a_C_that_is_no_norm_is_refused(precise, drawn, measure, C):
    with pytest.raises(ValueError, match="positive"):
        measure(precise, drawn, 12, " the", C)


@pytest.mark.parametrize("n", [-1, 32])
def test_stable_heads_refuse_what_denominators_refuse(tiny, precise, drawn, n):
    with pytest.raises(ValueError, match="positions 0 to 31"):
        cx.stable_heads(precise, drawn, n)
    with pytest.raises(ValueError, match="exactly one"):
        cx.stable_heads(precise, drawn, 12, " bagpipes")
    with pytest.raises(ValueError, match="layer 1"):
        cx.stable_heads(cx.LayerWeights.of(tiny, layer=1), drawn, 12)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(precise, drawn):
    values, kernels = cx.content_values(precise, drawn, 12), cx.positional_kernels(precise, 12)
    denoms = cx.softmax_denominators(precise, drawn, 12)
    gamma, ones = cx.autocovariance(values), torch.ones(3, dtype=torch.float64)
    labels = list("aabba")
    calls = [
        *((measure, (precise, drawn, 12)) for measure in READERS),
        (cx.iid_variance, (ones, kernels)),
        (cx.autocovariance, (values,)),
        (cx.correlated_variance, (gamma, kernels)),
        (cx.variance_account, (values, kernels)),
        (cx.between_and_within, (denoms, labels)),
        (cx.chebyshev, (ones, kernels, ones)),
        (cx.hoeffding, (ones, kernels, ones)),
        (cx.bernstein, (ones, ones, kernels, ones)),
        (cx.stable_heads, (precise, drawn, 12, " the", 0.0, 9.0)),
        (cx.destination.check_heads, (precise, [0, 1])),
        (cx.calibration_error, (denoms, denoms)),
        (cx.cross_calibration, (denoms, labels)),
        (cx.cluster_texts, (denoms, 2)),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
