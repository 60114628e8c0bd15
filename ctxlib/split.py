"""Equation 1: a key split into what the token is and where it stands, and what follows for a row of
attention: a positional kernel times content.

    key_i = LN(W_E[x_i] + W_pos[i]) W_K                                                 exact
          ~ LN(W_E[x_i] + W_pos[n]) W_K                                                 E[n, x_i]
          + sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)          P[n, i]

(Gibson 2025, Equation 1 and Figure 2; chapters 2 and 3.) The factor sqrt(d_model) that the paper
divides out is kept inside E and P here, so that `q_n . E[n, t] / attn_scale` is a score. b_K adds
`q_n . b_K` to every source of a row; the softmax removes it, so E and P leave it out.

The split is one of the normalised residual stream, so it holds for every linear map behind it:
`what` and `where` are its two halves in the eyes of any map: to keys, to values, to scores.
"""

from __future__ import annotations

import pandas as pd
import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.weights import LayerWeights, check_ids, layer_norm, project

Texts = Int[Tensor, "*text pos"]  # one or a stack
Rows = Float[Tensor, "*text head source"]
Pattern = Float[Tensor, "head dest source"]
Queries = Float[Tensor, "*any head d_head"]
Asked = Float[Tensor, "*any head d_model"]
Tokens = Int[Tensor, " token"] | None  # the whole vocabulary

LOCAL = 15.0  #: fewer effective tokens than this: a local head
BROAD = 40.0  #: more effective tokens than this: a broad head
EVEN = 1 / 3  #: total variation distance to an even row below this: a uniform head
COPIES = 2.0  #: nats: a copy of the destination gets e^2, some seven times, what other tokens get

# ---------------------------------------------------------------- the two halves


def what(
    weights: LayerWeights,
    M: Float[Tensor, "*any d_model out"],
    n: int,
    tokens: Int[Tensor, "*text token"] | None = None,
) -> Float[Tensor, "*any token out"]:
    """`LN(W_E[t] + W_pos[n]) M`: what a linear map behind LayerNorm reads of token t where it would
    stand at the destination.

    `tokens` are the ids t, the whole vocabulary by default, or a stack of texts, each with a map of
    its own. LayerNorm's scale is applied behind the product, so that of a vocabulary no second
    copy is made. Raises ValueError for a position that the model does not have.

    >>> seen = cx.split.what(weights, weights.W_K, n=99, tokens=tokens[:5])
    >>> there = cx.layer_norm(weights.W_E[tokens[:5]] + weights.W_pos[99], weights.eps)
    >>> torch.allclose(seen, there @ weights.W_K, atol=1e-3)
    True
    """
    here, W_E = weights.position(n), weights.embeddings()
    chosen = W_E if tokens is None else W_E[check_ids(tokens, len(W_E)).to(W_E.device)]
    seen = (chosen @ M).add_(here[None] @ M)
    return seen.div_(content_scale(weights, n, tokens)[..., None])


def where(
    weights: LayerWeights, M: Float[Tensor, "*any d_model out"], n: int, C: float | None = None
) -> Float[Tensor, "*any source out"]:
    """`positional_shift M`: what standing at i in place of n adds, in the eyes of the same map;
    zero at i = n. Errors as there.

    >>> P_V = cx.split.where(weights, weights.W_V, n=99)  # of values
    >>> P_V.shape, P_V[:, 99].abs().max().item()
    (torch.Size([8, 100, 32]), 0.0)
    """
    return positional_shift(weights, n, C) @ M


def positional_shift(
    weights: LayerWeights, n: int, C: float | None = None
) -> Float[Tensor, "source d_model"]:
    """`sqrt(d_model) (W_pos[i] - W_pos[n]) / sqrt(|W_pos[i]|^2 + C^2)` for i = 0 ... n: what a
    position adds to a normalised residual.

    `C` defaults to the median norm of a token embedding. Raises ValueError for a position that the
    model does not have and for a C that is not positive.

    >>> cx.split.positional_shift(weights, n=99).shape
    torch.Size([100, 256])
    """
    here = weights.position(n)
    return (weights.W_pos[: n + 1] - here) / shared_scale(weights, C)[: n + 1, None]


def content_scale(
    weights: LayerWeights,
    n: int | Int[Tensor, " dest"],
    tokens: Int[Tensor, "*text token"] | None = None,
) -> Float[Tensor, "*dest_or_text token"]:
    """`sqrt(|W_E[t] + W_pos[n]|^2 / d_model + eps)`: LayerNorm's scale for token t at one
    destination, or for one text at several; from the three products, so that the sum itself need
    not be formed.

    >>> scale = cx.split.content_scale(weights, n=99, tokens=tokens[:5])
    >>> own = cx.weights.layer_norm_scale(weights.W_E[tokens[:5]] + weights.W_pos[99], weights.eps)
    >>> torch.allclose(scale, own[:, 0], atol=1e-3)
    True
    """
    here, W_E = weights.W_pos[n], weights.embeddings()
    W_E = W_E if tokens is None else W_E[tokens.to(W_E.device)]
    both = (here[..., None, :] @ W_E.mT)[..., 0, :]
    squared = torch.linalg.vector_norm(W_E, dim=-1).square() + 2 * both
    return ((squared + here.square().sum(-1, keepdim=True)) / W_E.shape[-1] + weights.eps).sqrt()


def shared_scale(weights: LayerWeights, C: float | None = None) -> Float[Tensor, " n_ctx"]:
    """`sqrt(|W_pos[i]|^2 + C^2) / sqrt(d_model)`: LayerNorm's scale at position i
    for a token of typical norm.

    >>> stream = weights.W_E[tokens] + weights.W_pos
    >>> exact = cx.weights.layer_norm_scale(stream, weights.eps)[:, 0]
    >>> (exact / cx.split.shared_scale(weights)).mean().round(decimals=1)
    tensor(0.8000)
    """
    C = weights.typical_norm(C)
    return ((weights.W_pos.square().sum(-1) + C**2) / weights.d_model).sqrt()


def content_keys(
    weights: LayerWeights, n: int, tokens: Tokens = None
) -> Float[Tensor, "head token d_head"]:
    """`E[n, t] = LN(W_E[t] + W_pos[n]) W_K`: the key that token t would have
    at the destination's position.

    `tokens` are the ids t, the whole vocabulary by default. Raises ValueError for a position that
    the model does not have.

    >>> E = cx.content_keys(weights, n=99, tokens=tokens[:100])
    >>> E.shape
    torch.Size([8, 100, 32])
    """
    return what(weights, weights.W_K, n, tokens)


def positional_keys(
    weights: LayerWeights, n: int, C: float | None = None
) -> Float[Tensor, "head source d_head"]:
    """`P[n, i] = sqrt(d_model) (W_pos[i] - W_pos[n]) W_K / sqrt(|W_pos[i]|^2 + C^2)`
    for i = 0 ... n; zero at i = n. Errors as in `where`.

    >>> P = cx.positional_keys(weights, n=99)
    >>> P.shape, P[:, 99].abs().max().item()
    (torch.Size([8, 100, 32]), 0.0)
    """
    return where(weights, weights.W_K, n, C)


# ---------------------------------------------------------------- the two factors of a row


def destination_query(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head d_head"]:
    """`q_n` of `token` at destination n, the same in every text.

    `token=None` is the query without a token, for checkpoints that come without embeddings:
    `sqrt(d_model) W_pos[n] / sqrt(|W_pos[n]|^2 + C^2)` in place of the normalised residual.
    Errors as in `positional_kernels`.

    >>> cx.split.destination_query(weights, n=256, token=" of").shape
    torch.Size([8, 32])
    """
    here = weights.position(n)
    if token is None:
        return queries_of(weights, here / shared_scale(weights, C)[n])
    own = weights.embeddings()[weights.token_id(token)]
    return queries_of(weights, layer_norm(own + here, weights.eps))


def queries_of(weights: LayerWeights, x: Float[Tensor, "*any d_model"]) -> Queries:
    """`x W_Q + b_Q` of any normalised residuals.

    >>> q = cx.split.queries_of(weights, weights.normalised(tokens)[99])
    >>> torch.allclose(q, weights.queries(tokens)[:, 99], atol=1e-4)
    True
    """
    q = einsum(x, weights.W_Q, "... d_model, head d_model d_head -> ... head d_head")
    return q + weights.b_Q


def asked(weights: LayerWeights, q: Queries) -> Asked:
    """`q W_K^T / attn_scale`: what heads with these queries ask the normalised residual for. The
    query meets W_K first, so that to score sources no key is formed.

    >>> ask = cx.split.asked(weights, weights.queries(tokens)[:, 99])
    >>> rows = (ask @ weights.normalised(tokens[:100]).T).softmax(-1)
    >>> torch.allclose(rows, cx.attention_rows(weights, tokens, n=99), atol=1e-4)
    True
    """
    ask = einsum(q, weights.W_K, "... head d_head, head d_model d_head -> ... head d_model")
    return ask / weights.attn_scale


def asked_there(
    weights: LayerWeights, x_n: Int[Tensor, "*text"], n: int
) -> Float[Tensor, "*text head d_model"]:
    """`asked` by the tokens that stand at n.

    >>> ask = cx.split.asked_there(weights, tokens[99], n=99)
    >>> torch.allclose(ask, cx.split.asked(weights, weights.queries(tokens)[:, 99]), atol=1e-4)
    True
    """
    here = weights.embeddings()[x_n] + weights.W_pos[n]
    return asked(weights, queries_of(weights, layer_norm(here, weights.eps)))


def positional_kernels(
    weights: LayerWeights, n: int, token: str | int | None = " the", C: float | None = None
) -> Float[Tensor, "head source"]:
    """`pos_{n,i} = softmax_i(q_n . P[n, i] / attn_scale)` for i = 0 ... n,
    with `token` at destination n.

    `token=None` is the query without a token, for checkpoints that come without embeddings;
    C must then be given. Raises ValueError for a position that the model does not have and for a
    text that is not one token.

    >>> kernels = cx.positional_kernels(weights, n=256)
    >>> kernels.shape
    torch.Size([8, 257])
    >>> cx.effective_tokens(kernels).round()
    tensor([126., 215., 214., 204., 198., 215., 229., 249.])
    """
    ask = asked(weights, destination_query(weights, n, token, C))
    return where(weights, ask.mT, n, C).mT.softmax(-1)


def content_scores(
    weights: LayerWeights,
    n: int,
    token: str | int = " the",
    tokens: Tokens = None,
) -> Float[Tensor, "head token"]:
    """`log content_n(t) = q_n . E[n, t] / attn_scale`: how a head with `token` at destination n
    weighs every token t, in nats (chapter 3).

    `tokens` are the ids t, the whole vocabulary by default. Only differences between tokens of
    one head mean anything. Errors as in `positional_kernels`.

    >>> scores = cx.content_scores(weights, n=256)
    >>> cx.neurons.spelled(weights, scores[4].topk(4).indices.tolist())
    ['<|endoftext|>', 'Ingredients', 'female', ' Summary']
    """
    ask = asked(weights, destination_query(weights, n, token))
    return what(weights, ask.mT, n, tokens).mT


# ---------------------------------------------------------------- one row


def exact_scores(weights: LayerWeights, tokens: Texts, n: int) -> Rows:
    """`q_n . key_i / attn_scale` for i = 0 ... n, b_K included, of one text or a stack of them.
    Errors as in `LayerWeights.normalised`.

    >>> scores = cx.split.exact_scores(weights, tokens, n=99)
    >>> scores.shape
    torch.Size([8, 100])
    >>> torch.allclose(scores.softmax(-1), cx.attention_rows(weights, tokens, n=99))
    True
    """
    x = weights.normalised(tokens, n)
    q = queries_of(weights, x[..., n, :])
    from_bias = (q * weights.b_K).sum(-1, keepdim=True) / weights.attn_scale
    return asked(weights, q) @ x.mT + from_bias


def rebuilt_scores(
    weights: LayerWeights,
    tokens: Texts,
    n: int,
    C: float | None = None,
    shift: Float[Tensor, "source d_model"] | None = None,
) -> Rows:
    """`q_n . (E[n, x_i] + P[n, i]) / attn_scale` for i = 0 ... n: Equation 1 in place of the key,
    of one text or a stack of them. `shift` is `positional_shift` for C, where it is at hand. Errors
    as in `exact_scores` and `positional_shift`.

    >>> exact = cx.split.exact_scores(weights, tokens, n=99)
    >>> rebuilt = cx.split.rebuilt_scores(weights, tokens, n=99)
    >>> torch.corrcoef(torch.stack([exact[4], rebuilt[4]]))[0, 1].round(decimals=2)
    tensor(0.9900)
    """
    x = weights.seen(tokens, n)
    ask = asked_there(weights, x[..., n], n).mT
    shift = positional_shift(weights, n, C) if shift is None else shift
    return (what(weights, ask, n, x) + shift @ ask).mT


def attention_rows(weights: LayerWeights, tokens: Texts, n: int) -> Rows:
    """The attention row of every head at destination n, exact;
    each row sums to 1 over the sources 0 ... n.

    Raises ValueError for n outside the text, for layers other than the first, and for tokens that
    do not fit the model.

    >>> rows = cx.attention_rows(weights, tokens, n=99)
    >>> rows.shape
    torch.Size([8, 100])
    >>> rows.argmax(-1)  # where each head looks most
    tensor([93,  0,  0,  0,  0,  0,  0,  4])
    """
    return exact_scores(weights, tokens, n).softmax(-1)


def rebuilt_rows(weights: LayerWeights, tokens: Texts, n: int, C: float | None = None) -> Rows:
    """The attention rows that Equation 1 gives at destination n.

    Errors as in `attention_rows` and `positional_keys`.

    >>> exact = cx.attention_rows(weights, tokens, n=99)
    >>> rebuilt = cx.rebuilt_rows(weights, tokens, n=99)
    >>> cx.total_variation(exact, rebuilt).round(decimals=2)
    tensor([0.0400, 0.0600, 0.0900, 0.0900, 0.1400, 0.0300, 0.0100, 0.0100])
    """
    return rebuilt_scores(weights, tokens, n, C).softmax(-1)


# ---------------------------------------------------------------- every row of a text at once


def attention_pattern(weights: LayerWeights, tokens: Int[Tensor, " pos"]) -> Pattern:
    """`attention_rows` at every destination; zero above the diagonal.

    >>> pattern = cx.attention_pattern(weights, tokens)
    >>> pattern.shape
    torch.Size([8, 512, 512])
    >>> rows = cx.attention_rows(weights, tokens, n=99)
    >>> torch.allclose(pattern[:, 99, :100], rows, atol=1e-4)
    True
    """
    scores = weights.queries(tokens) @ weights.keys(tokens).mT  # head dest source
    return causal_softmax(scores / weights.attn_scale)


def rebuilt_pattern(
    weights: LayerWeights, tokens: Int[Tensor, " pos"], C: float | None = None
) -> Pattern:
    """`rebuilt_rows` at every destination, in three matrix products instead of one per
    destination.

    >>> pair = cx.attention_pattern(weights, tokens), cx.rebuilt_pattern(weights, tokens)
    >>> cx.total_variation(*pair).mean(-1).round(decimals=2)
    tensor([0.0700, 0.0800, 0.0700, 0.0800, 0.1100, 0.0700, 0.0300, 0.0200])
    """
    content, position = split_scores(weights, tokens, weights.queries(tokens), C)
    return causal_softmax(content + position)


def split_scores(
    weights: LayerWeights,
    tokens: Int[Tensor, " pos"],
    q: Float[Tensor, "head pos d_head"],
    C: float | None = None,
) -> tuple[Pattern, Pattern]:
    """`q_n . E[n, x_i] / attn_scale` and `q_n . P[n, i] / attn_scale` for all destinations n and
    sources i of a text, with any query at each destination.

    Both halves of the key are linear in `W_E[x_i]`, `W_pos[i]` and `W_pos[n]` up to a scale that
    depends on the pair (n, i), so the query meets the two projections once and the scales are
    applied to the scores. What lies above the diagonal means nothing. Errors as in
    `LayerWeights.normalised`.

    >>> q = weights.queries(tokens)
    >>> content, position = cx.split.split_scores(weights, tokens, q)
    >>> rows = cx.split.causal_softmax(content + position)
    >>> torch.allclose(rows, cx.rebuilt_pattern(weights, tokens), atol=1e-4)
    True
    """
    tokens = weights.check_text(tokens)
    W_E, W_pos = weights.embeddings()[tokens], weights.W_pos[: len(tokens)]
    q_what, q_where = (q @ (x @ weights.W_K).mT for x in (W_E, W_pos))  # head dest source
    q_here = q_where.diagonal(dim1=1, dim2=2)[..., None]  # q_n . W_pos[n] W_K
    scale = content_scale(weights, torch.arange(len(tokens)), tokens)
    content = (q_what + q_here) / (scale * weights.attn_scale)
    position = (q_where - q_here) / (shared_scale(weights, C)[: len(tokens)] * weights.attn_scale)
    return content, position


def causal_softmax(scores: Pattern) -> Pattern:
    """Softmax over the sources that a destination may see.

    >>> cx.split.causal_softmax(torch.zeros(1, 3, 3))
    tensor([[[1.0000, 0.0000, 0.0000],
             [0.5000, 0.5000, 0.0000],
             [0.3333, 0.3333, 0.3333]]])
    """
    future = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1)


# ---------------------------------------------------------------- how far apart, how spread


def total_variation(
    a: Float[Tensor, "*batch source"], b: Float[Tensor, "*batch source"]
) -> Float[Tensor, "*batch"]:
    """`TV = 1/2 sum_i |a_i - b_i|`, the share of the attention that one row has elsewhere
    than the other: 0 to 1.

    >>> cx.total_variation(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
    tensor(0.5000)
    """
    return (a - b).abs().sum(-1) / 2


def effective_tokens(rows: Float[Tensor, "*head source"]) -> Float[Tensor, "*head"]:
    """`1 / sum_i pos_i^2`: over how many tokens a row is spread; k for a row that is even over k.

    >>> cx.effective_tokens(torch.tensor([0.25, 0.25, 0.25, 0.25]))
    tensor(4.)
    """
    return 1 / rows.square().sum(-1)


def half_mass(rows: Float[Tensor, "*head source"]) -> Int[Tensor, "*head"]:
    """How far back from the destination half of a row's mass reaches: the smallest d with
    `sum_{i >= n - d} pos_i >= 1/2`, in tokens.

    >>> cx.split.half_mass(torch.tensor([0.1, 0.3, 0.4, 0.2]))
    tensor(1)
    """
    return (rows.flip(-1).cumsum(-1) < 0.5).sum(-1)


# ---------------------------------------------------------------- families


def copy_preference(weights: LayerWeights, n: int) -> Float[Tensor, " head"]:
    """By how many nats a head prefers a copy of the destination token to another token.

    The content score of t for the destination t, less the mean score of the other tokens for that
    destination, averaged over destinations: 256 tokens spread evenly over the vocabulary, without
    the first, serve as both. Raises ValueError for a position that the model does not have.

    >>> cx.split.copy_preference(weights, n=256).abs().max() < 0.2  # nats
    tensor(True)
    """
    W_E = weights.embeddings()
    tokens = torch.linspace(1, len(W_E) - 1, min(256, len(W_E) - 1)).long().unique()
    x = layer_norm(W_E[tokens] + weights.position(n), weights.eps)
    # head dest source
    scores = project(x, weights.W_Q, weights.b_Q) @ project(x, weights.W_K, weights.b_K).mT
    own = scores.diagonal(dim1=1, dim2=2)
    others = (scores.sum(-1) - own) / (len(tokens) - 1)
    return (own - others).mean(-1) / weights.attn_scale


def family_table(
    kernels: Float[Tensor, "head source"], copies: Float[Tensor, " head"] | None = None
) -> pd.DataFrame:
    """The table of `families` from kernels and `copies`, nats for a copy, where they are known.

    >>> cx.split.family_table(cx.positional_kernels(weights, n=256)).loc[2, "family"]
    'uniform'
    """
    copies = torch.full((len(kernels),), torch.nan) if copies is None else copies
    n = kernels.shape[1] - 1
    columns = {
        "effective tokens": effective_tokens(kernels),
        "half of the mass within": half_mass(kernels),
        "TV to uniform": total_variation(kernels, torch.full_like(kernels, 1 / (n + 1))),
        "nats for a copy": copies,
    }
    table = pd.DataFrame({name: values.tolist() for name, values in columns.items()})
    named = [family(a, b, c, d, n) for a, b, c, d in table.to_numpy().tolist()]
    table["family"], table["because"] = zip(*named, strict=True)
    table.index.name = "head"
    return table


def family(spread: float, half: float, uneven: float, copies: float, n: int) -> tuple[str, str]:
    """The family of one head and the reason in words.

    `spread` effective tokens, half of the mass within `half` tokens, `uneven` its TV to an even
    row, `copies` nats for a copy (NaN: unknown), destination n.

    >>> cx.split.family(113, 36, 0.56, 0.4, n=500)[0]
    'slowly decaying'
    >>> cx.split.family(31, 311, 0.19, float("nan"), n=500)
    ('uniform', '19% of the mass is elsewhere than in an even row')
    """
    if spread < LOCAL:
        return "local", f"spread over {spread:.1f} tokens, fewer than {LOCAL:.0f}"
    if copies > COPIES:
        return "duplicate-token", f"prefers a copy by {copies:.1f} nats, more than {COPIES:.0f}"
    if uneven < EVEN:
        return "uniform", f"{uneven:.0%} of the mass is elsewhere than in an even row"
    if half > n / 2:
        return "remote", f"half of the mass lies more than {n // 2} tokens back"
    return "slowly decaying", f"spread over {spread:.0f} tokens, half of the mass within {half:.0f}"
