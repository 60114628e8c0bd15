"""The method by loops: one text, one head, one source and one token at a time. Tests compare
the package with it. `w` are folded weights, in float64, of a decoder or an encoder; a text is a
list of ids.
"""

import math
import statistics
from dataclasses import replace
from types import SimpleNamespace

import torch
from hypothesis import strategies as st

import ctxlib as cx

seeds = st.integers(0, 999)


def same(found, expected):
    """In float64, a number of either kind or a list of them."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def draw(*shape, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def draw_texts(count, length, vocab, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (count, length), generator=source)


def draw_text(length, seed=0):
    """BOS and tokens of the toy vocabulary."""
    source = torch.Generator().manual_seed(seed)
    return torch.cat([torch.tensor([0]), torch.randint(1, 300, (length - 1,), generator=source)])


# ---------------------------------------------------------------- small blocks


@st.composite
def cases(draw_from, encoders=True):
    """Sizes of a block, whether it is an encoder's, what scores are divided by, heads in any order,
    a position, a query token, C, and three texts.
    """
    n_heads, n_ctx, vocab = (draw_from(st.integers(*r)) for r in ((1, 4), (2, 7), (2, 9)))
    sizes = {"seed": draw_from(seeds), "n_heads": n_heads, "n_ctx": n_ctx, "vocab": vocab}
    return SimpleNamespace(
        sizes=sizes
        | {"d_head": draw_from(st.integers(2, 4)), "d_mlp": draw_from(st.integers(1, 5))},
        both_sides=encoders and draw_from(st.booleans()),
        divisor=draw_from(st.floats(0.5, 3)),
        heads=draw_from(st.permutations(range(n_heads)))[: draw_from(st.integers(1, n_heads))],
        n=draw_from(st.integers(0, n_ctx - 1)),
        token=draw_from(st.integers(0, vocab - 1)),
        C=draw_from(st.floats(0.3, 20)),
        texts=draw_texts(3, n_ctx, vocab, draw_from(seeds)),
    )


def block_of(make_weights, case):
    w = replace(make_weights(**case.sizes), attn_scale=case.divisor)
    return as_encoder(w) if case.both_sides else w


def as_encoder(w):
    """The same block with sources on both sides, behind a norm of its own, and with a bias for each
    distance.
    """
    (gain, bias), far = draw(2, w.d_model, seed=9), draw(w.n_heads, w.n_ctx, w.n_ctx, seed=8)
    return replace(w, both_sides=True, skip_gain=1 + gain, skip_bias=bias, score_bias=far)


def fix(weights, case):
    """The fixed query of a case."""
    return cx.fix_query(weights, n=case.n, token=case.token, C=case.C)


def calibrated(make_weights, case):
    """The circuit of a case, from its first text."""
    fixed = fix(block_of(make_weights, case), case)
    return cx.ContextualCircuit.calibrate(fixed, case.texts[0], case.heads)


# ---------------------------------------------------------------- pieces


def n_sources(w, n):
    """How many tokens n attends to: up to n, or in an encoder twice as many."""
    return min(max(2 * n, n + 1), w.n_ctx) if w.both_sides else n + 1


def crop(w, text, n, token):
    """The tokens that n attends to, with the query token in place of the text's own."""
    return [*text[:n], token, *text[n + 1 : n_sources(w, n)]]


def scale(w, v):
    return ((v @ v) / w.d_model + w.eps).sqrt()


def content_component(w, t, i):
    """The normalised residual stream of token t at position i."""
    v = w.W_E[t] + w.W_pos[i]
    return v / scale(w, v)


def positional_component(w, i, n, C):
    """What position i adds to that, compared with position n."""
    return w.d_model**0.5 * (w.W_pos[i] - w.W_pos[n]) / math.hypot(w.W_pos[i].norm(), C)


def query(w, h, x):
    return x @ w.W_Q[h] + w.b_Q[h]


def score(w, h, q, x):
    """The score of a source with this residual stream x; b_K, which changes no row, is left out."""
    return float(q @ (x @ w.W_K[h])) / w.attn_scale


def distance(w, h, n, i):
    """What the distance from n to i adds to a score."""
    return float(w.score_bias[h, n, i]) if w.both_sides else 0.0


def value(w, h, x):
    return x @ w.W_V[h] + w.b_V[h]


def softmax(scores):
    exps = [math.exp(s) for s in scores]
    return [e / sum(exps) for e in exps]


def kernel(w, h, q, n, C):
    return softmax(
        [
            score(w, h, q, positional_component(w, i, n, C)) + distance(w, h, n, i)
            for i in range(n_sources(w, n))
        ]
    )


def content(w, h, q, n, t):
    return math.exp(score(w, h, q, content_component(w, t, n)))


def denominator(w, h, text, n, token, C):
    q = query(w, h, content_component(w, token, n))
    contents = [content(w, h, q, n, t) for t in crop(w, text, n, token)]
    return weighted(kernel(w, h, q, n, C), contents)


def approx_resid(w, text, n, C):
    """The residual stream of the sources, by Equation 1."""
    return [
        content_component(w, t, n) + positional_component(w, i, n, C)
        for i, t in enumerate(text[: n_sources(w, n)])
    ]


def approx_row(w, h, text, n, C):
    q = query(w, h, content_component(w, text[n], n))
    resid = approx_resid(w, text, n, C)
    return softmax([score(w, h, q, x) + distance(w, h, n, i) for i, x in enumerate(resid)])


def shared(kernels):
    """The renormalised median of the heads' kernels."""
    medians = [statistics.median(column) for column in zip(*kernels, strict=True)]
    return [m / sum(medians) for m in medians]


def weighted(row, vectors):
    return sum(a * v for a, v in zip(row, vectors, strict=True))


# ---------------------------------------------------------------- exactly


def normalized_resid(w, text, n):
    """The residual stream of the sources."""
    return [content_component(w, t, i) for i, t in enumerate(text[: n_sources(w, n)])]


def row(w, h, text, n):
    x = normalized_resid(w, text, n)
    q = query(w, h, x[n])
    keys = [v @ w.W_K[h] + w.b_K[h] for v in x]
    return softmax([float(q @ k) / w.attn_scale + distance(w, h, n, i) for i, k in enumerate(keys)])


def head_outputs(w, text, n):
    """What each head writes at n."""
    x = normalized_resid(w, text, n)
    outputs = [
        weighted(row(w, h, text, n), [value(w, h, v) for v in x]) @ w.W_O[h]
        for h in range(w.n_heads)
    ]
    return torch.stack(outputs)


def resid_mid(w, text, n, outputs):
    """The residual stream between attention and MLP."""
    without_heads = w.W_E[text[n]] + w.W_pos[n]
    if w.both_sides:  # it was normalised, with gain and bias, and is centred
        without_heads = content_component(w, text[n], n) * w.skip_gain + w.skip_bias
        without_heads = without_heads - without_heads.mean()
    return without_heads + sum(outputs) + w.b_O


def neurons(w, text, heads, n, outputs):
    """What the heads add to every neuron at n, and its pre-activation, given all heads' outputs."""
    stream = resid_mid(w, text, n, outputs)
    s = scale(w, stream)
    return sum(outputs[h] for h in heads) @ w.W_in / s, stream / s @ w.W_in + w.b_in


def exact_summary(w, text, heads, n):
    return neurons(w, text, heads, n, head_outputs(w, text, n))[0]
