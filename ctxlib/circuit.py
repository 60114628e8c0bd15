"""The contextual circuit: what the stable heads together tell every neuron about a text
(Gibson 2025; chapters 6 and 8).

    summary_j(x) = sum_i pos_i contribution[x_i, j]

One calibration text supplies the softmax denominators and the scale of the second LayerNorm; the
rest is algebra on the weights. The self-normalised circuit takes both from the text that it reads:
they are sums over its tokens as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from ctxlib.denominators import check_heads, destination, softmax_denominators
from ctxlib.kernels import content_scores, positional_kernels
from ctxlib.keys import (
    check_destination,
    content_keys,
    content_scale,
    positional_keys,
    positional_shift,
)
from ctxlib.texts import AnyText, batches
from ctxlib.weights import LayerWeights, check_tokens, layer_norm, layer_norm_scale

# ---------------------------------------------------------------- the truth at one destination


def true_outputs(
    weights: LayerWeights, tokens: Int[Tensor, "*text pos"], n: int
) -> Float[Tensor, "*text head d_model"]:
    """What every head writes to the residual stream at destination n, exact.

    `tokens` is one text or a stack of them, each with more than n tokens; what comes after n is
    not seen. The query meets W_K and the row meets the sources before W_V, so that no key and no
    value is ever formed: at one destination that saves a factor of d_head. Raises ValueError for
    texts that are too short, for ids outside the vocabulary and for layers other than the first.

    >>> outputs = cx.true_outputs(weights, tokens, n=99)
    >>> outputs.shape
    torch.Size([8, 256])
    >>> outputs.norm(dim=-1).argmax().item()  # the head that writes most
    2
    """
    x = layer_norm(stream(weights, tokens, n), weights.eps)
    q = einsum(x[..., n, :], weights.W_Q, "... d_model, head d_model d_head -> ... head d_head")
    asked = einsum(
        q + weights.b_Q, weights.W_K, "... head d_head, head d_model d_head -> ... head d_model"
    )
    scores = einsum(asked, x, "... head d_model, ... source d_model -> ... head source")
    rows = (scores / weights.attn_scale).softmax(-1)
    seen = einsum(rows, x, "... head source, ... source d_model -> ... head d_model")
    z = einsum(seen, weights.W_V, "... head d_model, head d_model d_head -> ... head d_head")
    return written(weights, z + weights.b_V)


def resid_mid(
    weights: LayerWeights,
    tokens: Int[Tensor, "*text pos"],
    n: int,
    outputs: Float[Tensor, "*text head d_model"],
) -> Float[Tensor, "*text d_model"]:
    """The residual stream between attention and MLP at destination n: `W_E[x_n] + W_pos[n]`, the
    outputs of all heads, and b_O. Errors as in `true_outputs`.

    >>> outputs = cx.true_outputs(weights, tokens, n=99)
    >>> resid = cx.resid_mid(weights, tokens, 99, outputs)
    >>> _, cache = model.run_with_cache(tokens[None, :100], stop_at_layer=1, device="cpu")
    >>> torch.allclose(resid, cache["blocks.0.hook_resid_mid"][0, 99], atol=1e-3)
    True
    """
    here = weights.embeddings()[seen_tokens(weights, tokens, n)[..., n]] + weights.W_pos[n]
    return here + outputs.sum(-2) + weights.b_O


def true_contribution(
    weights: LayerWeights, tokens: Int[Tensor, "*text pos"], heads: Sequence[int], n: int
) -> Float[Tensor, "*text neuron"]:
    """What the chosen heads add to each neuron's pre-activation at destination n, exact:
    `sum_{h in heads} (output of h at n) . W_in[:, j] / s(x)`, with the text's own LayerNorm-2
    scale s(x). This is what a summary is held against (chapter 6).

    Raises ValueError for heads that do not exist, for weights without the MLP, and as
    `true_outputs` does.

    >>> truth = cx.true_contribution(weights, tokens, heads, n=256)
    >>> truth.shape
    torch.Size([1024])
    >>> truth.topk(3).indices  # the neurons that this text drives most
    tensor([826,   1, 454])
    """
    heads = check_heads(weights, heads)
    W_in, _ = weights.mlp_input()
    outputs = true_outputs(weights, tokens, n)
    s = layer_norm_scale(resid_mid(weights, tokens, n, outputs), weights.eps)
    return outputs[..., heads, :].sum(-2) @ W_in / s


# ---------------------------------------------------------------- the paper's circuit


def shared_kernel(kernels: Float[Tensor, "head *dest source"]) -> Float[Tensor, "*dest source"]:
    """One kernel for all heads: the median over heads at each source, renormalised
    (the mean of the two middle ones for an even number of heads).

    >>> cx.shared_kernel(torch.tensor([[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]]))
    tensor([0.2000, 0.8000])
    """
    ordered = kernels.sort(0).values  # torch.quantile refuses large tensors
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return middle / middle.sum(-1, keepdim=True)


@dataclass(frozen=True, eq=False)
class ContextualCircuit:
    """The circuit of the chosen heads at destination n, calibrated on one text (paper; chapter 6).

    `kernel` is shared by all heads, `denominators` has one number a head, and `scale` is that of
    LayerNorm 2; `calibration` keeps the tokens that the last two come from, `token` at n included.
    Make one with `ContextualCircuit.calibrate`.

    >>> circuit = cx.ContextualCircuit.calibrate(weights, passages[0], heads)
    >>> circuit.heads, circuit.n, circuit.kernel.shape, circuit.denominators.shape
    ((3, 4), 256, torch.Size([257]), torch.Size([2]))
    """

    weights: LayerWeights
    heads: tuple[int, ...]
    n: int
    token: int
    C: float
    calibration: Int[Tensor, " source"]
    kernel: Float[Tensor, " source"]
    denominators: Float[Tensor, " head"]
    scale: float

    @classmethod
    def calibrate(
        cls,
        weights: LayerWeights,
        text: AnyText,
        heads: Sequence[int],
        n: int | None = None,
        token: str | int = " the",
        C: float | None = None,
    ) -> ContextualCircuit:
        """Read denominators and scale off one text, with `token` in place of its own at n.

        n defaults to `n_ctx // 2`, C to the typical norm of a token embedding. Raises ValueError
        for a text with fewer than n tokens, for a `token` that is not exactly one, for heads that
        do not exist, and for weights that came without token embeddings or MLP.

        >>> python = cx.texts.passages(weights, domains=["python"])[0]
        >>> other = cx.ContextualCircuit.calibrate(weights, python, heads, n=200)
        >>> other.n, len(other.calibration)
        (200, 201)
        """
        heads = check_heads(weights, heads)
        weights.mlp_input()
        n = destination(weights, n)
        C = weights.typical_norm() if C is None else C
        number = weights.token_id(token)
        (calibration,) = next(batches(weights, [text], n, number, "calibration"))
        outputs = true_outputs(weights, calibration, n)
        s = layer_norm_scale(resid_mid(weights, calibration, n, outputs), weights.eps)
        return cls(
            weights=weights,
            heads=tuple(heads),
            n=n,
            token=number,
            C=C,
            calibration=calibration,
            kernel=shared_kernel(positional_kernels(weights, n, number, C)[heads]),
            denominators=softmax_denominators(weights, [calibration], n, number, C)[0, heads],
            scale=s.item(),
        )

    @cached_property
    def weighted_values(self) -> Float[Tensor, "vocab head d_head"]:
        """`content_h(t) / denom_h (LN(W_E[t] + W_pos[n]) W_V^h + b_V^h)`: what a token puts into
        each head, per unit of kernel.

        >>> circuit.weighted_values.shape
        torch.Size([8192, 2, 32])
        """
        content = content_scores(self.weights, self.n, self.token)[list(self.heads)].exp()
        values = values_here(self.weights, self.n, self.heads)
        weight = rearrange(content / self.denominators[:, None], "head vocab -> vocab head 1")
        return values.mul_(weight)  # in place: for a large vocabulary a copy would show

    @cached_property
    def readout(self) -> Float[Tensor, "head d_head neuron"]:
        """`W_O^h W_in / s`: from the inside of a head to the neurons.

        >>> inside = circuit.weighted_values[262]  # what token 262 puts into each head
        >>> torch.allclose(
        ...     (inside[:, None] @ circuit.readout).sum(0)[0], circuit.contribution[262], atol=1e-3
        ... )
        True
        """
        W_in, _ = self.weights.mlp_input()
        return self.weights.W_O[list(self.heads)] @ W_in / self.scale

    @cached_property
    def contribution(self) -> Float[Tensor, "vocab neuron"]:
        """`contribution[t, j] = ext(t) . W_in[:, j] / s`: what token t adds to the pre-activation
        of neuron j, per unit of kernel. vocab times d_mlp numbers; computed once.

        >>> strongest = circuit.contribution[:, 463].topk(4).indices
        >>> cx.neurons.spelled(weights, strongest.tolist())
        ['Mode', 'Directions', 'Ingredients', ' stewpan']
        """
        return einsum(
            self.weighted_values,
            self.readout,
            "vocab head d_head, head d_head neuron -> vocab neuron",
        )

    def extended_embedding(
        self, tokens: Int[Tensor, " token"] | None = None
    ) -> Float[Tensor, "token d_model"]:
        """`ext(t) = sum_h content_h(t) / denom_h (LN(W_E[t] + W_pos[n]) W_V^h + b_V^h) W_O^h`:
        what a token adds to the residual stream, per unit of kernel; all tokens by default.

        >>> ext = circuit.extended_embedding(tokens[:5])
        >>> W_in, _ = weights.mlp_input()
        >>> torch.allclose(ext @ W_in / circuit.scale, circuit.contribution[tokens[:5]], atol=1e-3)
        True
        """
        chosen = (
            self.weighted_values
            if tokens is None
            else self.weighted_values[check_tokens(self.weights, tokens)]
        )
        W_O = self.weights.W_O[list(self.heads)]
        return einsum(chosen, W_O, "token head d_head, head d_head d_model -> token d_model")

    def summary(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """`sum_i pos_i contribution[x_i, j]` of one text or a stack of them: what the heads add to
        each neuron's pre-activation at n, with the calibrated constants.

        The kernel-weighted mean is taken inside the heads, before it meets the neurons, so the
        contribution matrix is not needed. Raises ValueError for texts of n tokens or fewer.

        >>> stack = torch.stack([text.tokens for text in passages])
        >>> summary = circuit.summary(stack)[:, 463]
        >>> truth = cx.true_contribution(weights, stack, heads, circuit.n)[:, 463]
        >>> torch.corrcoef(torch.stack([summary, truth]))[0, 1].round(decimals=2)
        tensor(0.9200)
        """
        x = seen_tokens(self.weights, tokens, self.n)
        bags = x.reshape(-1, self.n + 1)
        z = embedding_bag(  # the mean over sources without a copy of what is averaged
            bags,
            rearrange(self.weighted_values, "vocab head d_head -> vocab (head d_head)"),
            per_sample_weights=self.kernel.expand(bags.shape),
            mode="sum",
        )
        summaries = z @ rearrange(self.readout, "head d_head neuron -> (head d_head) neuron")
        return summaries.view(*x.shape[:-1], -1)

    def by_source(
        self, tokens: Int[Tensor, " pos"], neurons: Sequence[int]
    ) -> Float[Tensor, "source neuron"]:
        """The terms of the summary, one a source: `pos_i contribution[x_i, j]` for the chosen
        neurons. Errors as in `summary`, for several texts, and for neurons that do not exist.

        >>> terms = circuit.by_source(tokens, neurons=[463, 449])
        >>> terms.shape
        torch.Size([257, 2])
        >>> torch.allclose(terms.sum(0), circuit.summary(tokens)[[463, 449]], atol=1e-3)
        True
        """
        chosen = check_neurons(self.weights, neurons)
        x = self.weights.check_text(seen_tokens(self.weights, tokens, self.n))
        return einsum(
            self.kernel,
            self.weighted_values[x],
            self.readout[..., chosen],
            "source, source head d_head, head d_head neuron -> source neuron",
        )

    def pre_activations(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """The whole pre-activation at n, with every other head attending to the destination only,
        as the earlier post treats them (Gibson 2025b), and the calibrated scale:
        `summary + (W_E[x_n] + W_pos[n] + b_O + sum_{h not in heads} v_n^h W_O^h) W_in / s + b_in`.

        >>> ours = circuit.pre_activations(tokens)
        >>> _, cache = model.run_with_cache(tokens[None], stop_at_layer=1, device="cpu")
        >>> exact = cache["blocks.0.mlp.hook_pre"][0, circuit.n]
        >>> torch.corrcoef(torch.stack([ours, exact]))[0, 1].round(decimals=1)
        tensor(0.7000)
        """
        x_n = seen_tokens(self.weights, tokens, self.n)[..., self.n]
        here = self.weights.embeddings()[x_n] + self.weights.W_pos[self.n]
        others = [h for h in range(self.weights.n_heads) if h not in self.heads]
        v = layer_norm(here, self.weights.eps)[..., None, None, :] @ self.weights.W_V[others]
        alone = einsum(
            v[..., 0, :] + self.weights.b_V[others],
            self.weights.W_O[others],
            "... head d_head, head d_head d_model -> ... d_model",
        )
        W_in, b_in = self.weights.mlp_input()
        rest = (here + alone + self.weights.b_O) @ W_in / self.scale
        return self.summary(tokens) + rest + b_in

    def self_normalised(self, texts: Iterable[AnyText] = ()) -> SelfNormalisedCircuit:
        """The circuit that takes denominators and scale from the text that it reads (chapter 8).

        With texts, what is left of its mean error over them is taken off every neuron. They are
        read as they are, with their own tokens at n, in batches: memory does not grow with their
        number. Errors as in `true_contribution`.

        >>> circuit.self_normalised().offsets.abs().max().item()
        0.0
        >>> circuit.self_normalised(passages[:8]).offsets.shape  # its mean error over these texts
        torch.Size([1024])
        """
        plain = SelfNormalisedCircuit(self, torch.zeros_like(self.weights.mlp_input()[1]))
        total, count = torch.zeros(plain.offsets.shape, dtype=torch.float64), 0
        for batch in batches(self.weights, texts, self.n, None, "offsets"):
            truth = true_contribution(self.weights, batch, self.heads, self.n)
            total += (truth - plain.summary(batch)).sum(0).cpu()  # float64 is not on every device
            count += len(batch)
        return SelfNormalisedCircuit(self, (total / max(count, 1)).to(plain.offsets))


# ---------------------------------------------------------------- a better one


@dataclass(frozen=True, eq=False)
class SelfNormalisedCircuit:
    """A circuit whose denominators and scale are the text's own (chapter 8).

    Keys and values are both split as in Equation 1, into what a token is and where it stands:

        a_i ~ softmax_i(q_n . (E[n, x_i] + P[n, i]) / attn_scale)
        out_h ~ sum_i a_i (E_V[n, x_i] + P_V[n, i] + b_V) W_O

    so a head's output is a ratio of two sums over the text's tokens, numerator and denominator,
    each with its own kernel. Doing so for all heads rebuilds the residual stream, and with it the
    scale of LayerNorm 2. `offsets` is added to every summary. Made by
    `ContextualCircuit.self_normalised`.

    >>> better = circuit.self_normalised()
    >>> truth = cx.true_contribution(weights, tokens, heads, circuit.n)
    >>> plain, own = ((c.summary(tokens) - truth).square().mean() for c in (circuit, better))
    >>> bool(own < plain)
    True
    """

    circuit: ContextualCircuit
    offsets: Float[Tensor, " neuron"]

    @property
    def weights(self) -> LayerWeights:
        return self.circuit.weights

    @property
    def heads(self) -> tuple[int, ...]:
        return self.circuit.heads

    @property
    def n(self) -> int:
        return self.circuit.n

    @property
    def token(self) -> int:
        return self.circuit.token

    @cached_property
    def keys_here(self) -> Float[Tensor, "vocab head d_head"]:
        """`E[n, t]`, laid out by token."""
        return rearrange(
            content_keys(self.weights, self.n), "head t d_head -> t head d_head"
        ).contiguous()

    @cached_property
    def values_here(self) -> Float[Tensor, "vocab head d_head"]:
        """`E_V[n, t] + b_V`: the value that token t would have at the destination's position."""
        return values_here(self.weights, self.n, range(self.weights.n_heads))

    @cached_property
    def positional_keys(self) -> Float[Tensor, "head source d_head"]:
        """`P[n, i]`."""
        return positional_keys(self.weights, self.n, self.circuit.C)

    @cached_property
    def positional_values(self) -> Float[Tensor, "head source d_head"]:
        """`P_V[n, i]`."""
        return positional_values(self.weights, self.n, self.circuit.C)

    def rows(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text head source"]:
        """The attention rows of all heads at n, as Equation 1 gives them for the text's own token
        there. Errors as in `ContextualCircuit.summary`.

        >>> rows = circuit.self_normalised().rows(tokens)
        >>> torch.allclose(rows, cx.rebuilt_rows(weights, tokens, circuit.n), atol=1e-4)
        True
        """
        x = seen_tokens(self.weights, tokens, self.n)
        here = layer_norm(
            self.weights.embeddings()[x[..., self.n]] + self.weights.W_pos[self.n], self.weights.eps
        )
        q = einsum(here, self.weights.W_Q, "... d_model, head d_model d_head -> ... head d_head")
        q = q + self.weights.b_Q
        what = einsum(
            q, self.keys_here[x], "... head d_head, ... source head d_head -> ... head source"
        )
        where = einsum(
            q, self.positional_keys, "... head d_head, head source d_head -> ... head source"
        )
        return ((what + where) / self.weights.attn_scale).softmax(-1)

    def outputs(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text head d_model"]:
        """What every head of the layer writes at n: numerator over denominator.

        >>> rebuilt = circuit.self_normalised().outputs(tokens)[4]
        >>> exact = cx.true_outputs(weights, tokens, circuit.n)[4]
        >>> torch.cosine_similarity(rebuilt, exact, dim=0).round(decimals=2)
        tensor(1.)
        """
        x = seen_tokens(self.weights, tokens, self.n)
        rows = self.rows(tokens)
        what = einsum(
            rows, self.values_here[x], "... head source, ... source head d_head -> ... head d_head"
        )
        where = einsum(
            rows, self.positional_values, "... head source, head source d_head -> ... head d_head"
        )
        return written(self.weights, what + where)

    def summary(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """What the circuit's heads add to each neuron's pre-activation at n, in one text or a
        stack of them. Errors as in `ContextualCircuit.summary`.

        >>> better = circuit.self_normalised()
        >>> summary = better.summary(torch.stack([text.tokens for text in passages[:4]]))
        >>> summary.shape
        torch.Size([4, 1024])
        """
        outputs = self.outputs(tokens)
        s = layer_norm_scale(resid_mid(self.weights, tokens, self.n, outputs), self.weights.eps)
        W_in, _ = self.weights.mlp_input()
        return outputs[..., list(self.heads), :].sum(-2) @ W_in / s + self.offsets

    def pre_activations(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """The whole pre-activation at n, from the rebuilt outputs of all heads.

        >>> ours = circuit.self_normalised().pre_activations(tokens)
        >>> _, cache = model.run_with_cache(tokens[None], stop_at_layer=1, device="cpu")
        >>> exact = cache["blocks.0.mlp.hook_pre"][0, circuit.n]
        >>> torch.corrcoef(torch.stack([ours, exact]))[0, 1].round(decimals=2)
        tensor(1.)
        """
        rebuilt = resid_mid(self.weights, tokens, self.n, self.outputs(tokens))
        return self.weights.pre_activations(rebuilt) + self.offsets


# ---------------------------------------------------------------- the pieces


def values_here(
    weights: LayerWeights, n: int, heads: Sequence[int]
) -> Float[Tensor, "vocab head d_head"]:
    """`LN(W_E[t] + W_pos[n]) W_V + b_V` of the whole vocabulary: the value that each token would
    have at the destination's position.
    """
    chosen = list(heads)
    W_V = rearrange(weights.W_V[chosen], "head d_model d_head -> d_model (head d_head)")
    # LayerNorm's scale is applied behind the product: no second vocabulary in memory
    values = (weights.embeddings() @ W_V).add_(weights.W_pos[n] @ W_V)
    values.div_(content_scale(weights, n)[:, None])
    by_head = rearrange(values, "vocab (head d_head) -> vocab head d_head", head=len(chosen))
    return by_head.add_(weights.b_V[chosen])


def positional_values(
    weights: LayerWeights, n: int, C: float | None = None
) -> Float[Tensor, "head source d_head"]:
    """`P_V[n, i] = sqrt(d_model) (W_pos[i] - W_pos[n]) W_V / sqrt(|W_pos[i]|^2 + C^2)`
    for i = 0 ... n: `positional_keys` with W_V for W_K. Errors as there.

    >>> cx.positional_values(weights, n=256).shape
    torch.Size([8, 257, 32])
    """
    shift = positional_shift(weights, n, C)
    return einsum(shift, weights.W_V, "source d_model, head d_model d_head -> head source d_head")


def written(
    weights: LayerWeights, z: Float[Tensor, "*text head d_head"]
) -> Float[Tensor, "*text head d_model"]:
    """`z W_O`: from the inside of each head to the residual stream."""
    return einsum(z, weights.W_O, "... head d_head, head d_head d_model -> ... head d_model")


def stream(
    weights: LayerWeights, tokens: Int[Tensor, "*text pos"], n: int
) -> Float[Tensor, "*text source d_model"]:
    """`W_E[x_i] + W_pos[i]` for i = 0 ... n."""
    x = seen_tokens(weights, tokens, n)
    return weights.embeddings()[x] + weights.W_pos[: n + 1]


def seen_tokens(
    weights: LayerWeights, tokens: Int[Tensor, "*text pos"], n: int
) -> Int[Tensor, "*text source"]:
    """The tokens 0 ... n, if they are there and in the vocabulary."""
    check_destination(weights, tokens, n)
    return check_tokens(weights, tokens[..., : n + 1])


def check_neurons(weights: LayerWeights, neurons: Iterable[int]) -> list[int]:
    """The neurons as a list, if there are any and each exists; ValueError otherwise."""
    chosen, size = [int(j) for j in neurons], weights.n_neurons
    if not chosen:
        raise ValueError("no neurons: choose at least one")
    if min(chosen) < 0 or max(chosen) >= size:
        wrong = next(j for j in chosen if not 0 <= j < size)
        raise ValueError(f"neuron {wrong}: this layer has neurons 0 to {size - 1}")
    return chosen
