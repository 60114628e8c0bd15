"""Heads asked by one token at one destination: what families, stable heads, circuit and truth have
in common, whatever the model's positions (chapters 3 to 12).

    row_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

`FromWeights` is read off the weights of a first layer with learned positions (Equation 1);
`FirstLayer`, in `ctxlib.decoders.from_model`, is asked of a model of any position scheme.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from ctxlib import split
from ctxlib.split import Rows, Texts
from ctxlib.texts import AnyText, batches
from ctxlib.weights import LayerWeights, check_chosen, layer_norm_scale

Batches = Iterator[Int[Tensor, "text source"]]
Outputs = Float[Tensor, "*text head d_model"]
Stream = Float[Tensor, "*text d_model"]
Neurons = Float[Tensor, "*text neuron"]

# ---------------------------------------------------------------- what is asked of it


class Destination(ABC):
    """The heads of a first layer, asked by `token` at n; the base of `FromWeights` and
    `FirstLayer`.

    `x` stands for one text or a stack of them, of which the tokens 0 ... n are read. `W_in` reads
    the residual stream `resid_mid`, behind LayerNorm with `eps`.

    >>> here = cx.destination.asked_by(weights, n=256)
    >>> here.kernels.shape, here.content.shape, here.values([3, 4]).shape
    (torch.Size([8, 257]), torch.Size([8, 8192]), torch.Size([8192, 2, 32]))
    """

    n: int
    token: Any
    n_ctx: int
    eps: float
    tokenizer: Any
    weights: LayerWeights  # and C, the typical norm of a token embedding: where weights gave it
    C: float
    W_O: Float[Tensor, "head d_head d_model"]
    W_in: Float[Tensor, "d_model neuron"]
    #: `pos_i`: the row where content is the same everywhere
    kernels: Float[Tensor, "head source"]
    #: `log content(t)` in nats; only differences between tokens of one head mean anything
    content: Float[Tensor, "head vocab"]

    @abstractmethod
    def seen(self, x: Texts) -> Int[Tensor, "*text source"]:
        """The tokens 0 ... n; ValueError where they are not there or not in the vocabulary."""

    @abstractmethod
    def embeddings(self) -> Float[Tensor, "vocab d_model"]:
        """What each token brings into the first layer."""

    @abstractmethod
    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        """The value, b_V included, that each token would have at the destination's position."""

    @abstractmethod
    def outputs(self, x: Texts) -> Outputs:
        """What every head writes to the residual stream at n, exact. What comes after n is not
        seen. Raises ValueError for texts that are too short and for ids outside the vocabulary.

        >>> outputs = cx.destination.asked_by(weights, n=99).outputs(tokens)
        >>> outputs.shape
        torch.Size([8, 256])
        >>> outputs.norm(dim=-1).argmax().item()  # the head that writes most
        2
        """

    @abstractmethod
    def rebuilt_outputs(self, x: Texts) -> Outputs:
        """The same from kernels, content and the text's own denominators."""

    @abstractmethod
    def resid_mid(self, x: Texts, outputs: Outputs) -> Stream:
        """The residual stream that the MLP reads at n, with these outputs of the heads in it.

        >>> here = cx.destination.asked_by(weights, n=99)
        >>> resid = here.resid_mid(tokens, here.outputs(tokens))
        >>> _, cache = model.run_with_cache(tokens[None, :100], stop_at_layer=1, device="cpu")
        >>> torch.allclose(resid, cache["blocks.0.hook_resid_mid"][0, 99], atol=1e-3)
        True
        """

    # ------------------------------------------------------------ what follows

    n_heads = property(lambda self: self.W_O.shape[0])
    n_neurons = property(lambda self: self.W_in.shape[1])
    d_vocab = property(lambda self: self.embeddings().shape[0])
    device = property(lambda self: self.W_O.device)

    def read(self, texts: Iterable[AnyText], doing: str, own_token: bool = False) -> Batches:
        """The tokens 0 ... n of texts, a batch at a time, `token` in place of their own at n
        unless `own_token`; with a bar named after what is being done. Raises ValueError for texts
        that are too short and for ids outside the vocabulary.
        """
        return batches(self, texts, self.n, None if own_token else self.token, doing)

    def denominators(self, x: Texts) -> Float[Tensor, "*text head"]:
        """`denom = sum_i pos_i content(x_i)`, in an arbitrary unit, one for each head. Raises
        ValueError where that is beyond the range of the tensors' precision.

        >>> here = cx.destination.asked_by(weights, n=256)
        >>> x = cx.texts.at(weights, passages, n=256)
        >>> torch.allclose(here.denominators(x), cx.softmax_denominators(weights, passages))
        True
        """
        likes = self.likes[:, self.seen(x)]
        denoms = einsum(likes, self.kernels, "head ... source, head source -> ... head")
        held = ((denoms > 0) & denoms.isfinite()).view(-1, self.n_heads).all(0)
        if not held.all():
            beyond = ", ".join(map(str, (~held).nonzero()[:, 0].tolist()))
            raise ValueError(
                f"denominators of head {beyond} are beyond the range of {denoms.dtype}, so large "
                "are their scores; float64 holds more: weights.to(torch.float64)"
            )
        return denoms

    @cached_property
    def likes(self) -> Float[Tensor, "head vocab"]:
        """`content(t)` itself."""
        return self.content.exp()

    def rebuilt_rows(self, x: Texts) -> Rows:
        """`pos_i content(x_i) / denom`: the attention rows from the two factors.

        >>> layer = cx.FirstLayer.of(model, passages)
        >>> (x,) = layer.placed(passages[:1])
        >>> cx.total_variation(layer.rows(x), layer.rebuilt_rows(x)).median() < 0.1
        tensor(True)
        """
        content = self.content.T[self.seen(x)].mT  # in logarithms nothing overflows
        return (content + self.kernels.log()).softmax(-1)

    def scale(self, x: Texts, outputs: Outputs) -> Float[Tensor, "*text 1"]:
        """`s(x)`, what LayerNorm 2 divides by at n."""
        return layer_norm_scale(self.resid_mid(x, outputs), self.eps)

    def to_neurons(self, x: Texts, outputs: Outputs, heads: Sequence[int]) -> Neurons:
        """`sum_{h in heads} (output of h at n) . W_in / s(x)`: what chosen heads add to each
        neuron's pre-activation.

        >>> here, x = cx.destination.asked_by(weights, n=256), tokens[:257]
        >>> added = here.to_neurons(x, here.outputs(x), heads)
        >>> torch.equal(added, cx.true_contribution(weights, tokens, heads, n=256))
        True
        """
        return outputs[..., list(heads), :].sum(-2) @ self.W_in / self.scale(x, outputs)

    def truth(self, x: Texts, heads: Sequence[int]) -> Neurons:
        """What the heads really add; what a summary is held against.

        >>> layer = cx.FirstLayer.of(model, passages[:2])
        >>> (x,) = layer.placed(passages[:1])
        >>> truth = cx.true_contribution(weights, x, heads, n=256)
        >>> torch.allclose(layer.truth(x, heads), truth, atol=1e-3)
        True
        """
        return self.to_neurons(x, self.outputs(x), check_chosen("head", heads, self.n_heads))


# ---------------------------------------------------------------- from the weights


@dataclass(frozen=True, eq=False)
class FromWeights(Destination):
    """A destination as the weights of a first layer show it, by Equation 1. Make one with
    `asked_by`.

    `token` is None for the query without a token, of weights that came without embeddings; then
    there are kernels, and nothing that tokens are needed for. `C` is the typical norm of a token
    embedding. Texts may have their own token at n.

    >>> here = cx.destination.asked_by(weights, n=100, token=" of")
    >>> here.n, here.token, here.kernels.shape
    (100, 284, torch.Size([8, 101]))
    """

    weights: LayerWeights
    n: int
    token: int | None
    C: float

    n_ctx = property(lambda self: self.weights.n_ctx)
    eps = property(lambda self: self.weights.eps)
    tokenizer = property(lambda self: self.weights.tokenizer)
    W_O = property(lambda self: self.weights.W_O)
    W_in = property(lambda self: self.weights.mlp_input()[0])

    def seen(self, tokens: Texts) -> Int[Tensor, "*text source"]:
        return self.weights.seen(tokens, self.n)

    def embeddings(self) -> Float[Tensor, "vocab d_model"]:
        return self.weights.embeddings()

    @cached_property
    def kernels(self) -> Float[Tensor, "head source"]:  # type: ignore[override]
        return split.positional_kernels(self.weights, self.n, self.token, self.C)

    @cached_property
    def content(self) -> Float[Tensor, "head vocab"]:  # type: ignore[override]
        if self.token is None:
            raise ValueError("content needs a token at the destination, and token is None")
        return split.content_scores(self.weights, self.n, self.token)

    def values(self, heads: Sequence[int]) -> Float[Tensor, "vocab head d_head"]:
        chosen = list(heads)
        W_V = rearrange(self.weights.W_V[chosen], "head d_model d_head -> d_model (head d_head)")
        values = split.what(self.weights, W_V, self.n).unflatten(-1, (len(chosen), -1))
        return values.add_(self.weights.b_V[chosen])

    @cached_property
    def all_values(self) -> tuple[Tensor, Float[Tensor, "head source d_head"]]:
        """`E_V[n, t] + b_V`, as `values`, and `P_V[n, i]` of all heads."""
        return self.values(range(self.n_heads)), self.shift @ self.weights.W_V

    @cached_property
    def shift(self) -> Float[Tensor, "source d_model"]:
        """`positional_shift`: a summary of many texts asks for it once."""
        return split.positional_shift(self.weights, self.n, self.C)

    def outputs(self, x: Texts) -> Outputs:
        # the query meets W_K and the row meets the sources before W_V: no key and no value is ever
        # formed, which at one destination saves a factor of d_head
        x = self.weights.normalised(x, self.n)
        ask = split.asked(self.weights, split.queries_of(self.weights, x[..., self.n, :]))
        seen = (ask @ x.mT).softmax(-1) @ x
        W_V, into = self.weights.W_V, "... head d_model, head d_model d_head -> ... head d_head"
        return written(self.W_O, einsum(seen, W_V, into) + self.weights.b_V)

    def rebuilt_rows(self, x: Texts) -> Rows:
        x_n = self.seen(x)[..., -1]
        if self.token is not None and (x_n == torch.tensor(self.token)).all():
            return super().rebuilt_rows(x)
        return split.rebuilt_scores(self.weights, x, self.n, shift=self.shift).softmax(-1)

    def rebuilt_outputs(self, x: Texts) -> Outputs:
        rows, (by_token, by_source) = self.rebuilt_rows(x), self.all_values
        heads = torch.arange(self.n_heads, device=rows.device)[:, None]
        entry = x[..., None, : self.n + 1].to(rows.device) * self.n_heads + heads
        z = weighted_sum(by_token.flatten(0, 1), entry, rows)
        z = z + einsum(rows, by_source, "... head source, head source d_head -> ... head d_head")
        return written(self.W_O, z)

    def resid_mid(self, x: Texts, outputs: Outputs) -> Stream:
        here = self.embeddings()[self.seen(x)[..., self.n]] + self.weights.W_pos[self.n]
        return here + outputs.sum(-2) + self.weights.b_O


def asked_by(
    place: LayerWeights | Destination,
    n: int | None = None,
    token: str | int | None = " the",
    C: float | None = None,
) -> Destination:
    """The destination that is given, or that of weights at n, by default the middle of the context,
    where the paper calibrates; C is by default the median norm of W_E.

    Raises ValueError for a `token` that is not exactly one, and for weights without embeddings
    where C is not given.

    >>> here = cx.destination.asked_by(weights)
    >>> here.n, round(here.C, 1), cx.destination.asked_by(here) is here
    (256, 1.1, True)
    """
    if isinstance(place, Destination):
        return place
    n = place.n_ctx // 2 if n is None else n
    number = None if token is None else place.token_id(token)
    return FromWeights(place, n, number, place.typical_norm(C))


# ---------------------------------------------------------------- the truth, from the weights


def true_contribution(
    weights: LayerWeights, tokens: Texts, heads: Sequence[int], n: int
) -> Neurons:
    """What the chosen heads add to each neuron's pre-activation at destination n, exact:
    `sum_{h in heads} (output of h at n) . W_in[:, j] / s(x)`, with the text's own LayerNorm-2
    scale s(x). This is what a summary is held against (chapter 6).

    `tokens` is one text or a stack of them, each with more than n tokens. Raises ValueError for
    heads that do not exist, for weights without the MLP, for texts that are too short, for ids
    outside the vocabulary and for layers other than the first.

    >>> truth = cx.true_contribution(weights, tokens, heads, n=256)
    >>> truth.shape
    torch.Size([1024])
    >>> truth.topk(3).indices  # the neurons that this text drives most
    tensor([149, 836, 369])
    """
    return FromWeights(weights, n, token=None, C=1.0).truth(tokens, heads)  # needs no kernels


def written(
    W_O: Float[Tensor, "head d_head d_model"], z: Float[Tensor, "*text head d_head"]
) -> Outputs:
    """`z W_O`: from the inside of each head to the residual stream."""
    return einsum(z, W_O, "... head d_head, head d_head d_model -> ... head d_model")


def weighted_sum(
    table: Float[Tensor, "row out"],
    x: Int[Tensor, "*any source"],
    share: Float[Tensor, "*any source"],
) -> Float[Tensor, "*any out"]:
    """`sum_i share_i table[x_i]`, without a copy of what is summed.

    >>> ones, halves = torch.ones(3, 2), torch.tensor([0.5, 0.5])
    >>> cx.destination.weighted_sum(ones, torch.tensor([0, 2]), halves)
    tensor([1., 1.])
    """
    bags, shares = (v.reshape(-1, v.shape[-1]) for v in (x, share))
    sums = embedding_bag(bags, table, per_sample_weights=shares, mode="sum")
    return sums.view(*x.shape[:-1], -1)


# ---------------------------------------------------------------- families


def families(
    place: LayerWeights | Destination,
    n: int | None = None,
    token: str | int | None = " the",
    C: float | None = None,
) -> pd.DataFrame:
    """What kind of head each one is, and why: one row a head (paper, Figure 2; chapter 3).

    `place` is a destination, or weights with n (by default `n_ctx // 2`), token and C. The kernel
    decides between local, slowly decaying, uniform and remote; among the heads that are not local,
    a strong preference for copies of the destination makes a duplicate-token head. The nats for a
    copy come from `copy_preference`, where there are weights with embeddings; where they are not
    known, the kernel decides alone. Errors as in `positional_kernels`.

    >>> table = cx.families(weights, n=256)
    >>> table.loc[[0, 2, 4], "family"].tolist()
    ['slowly decaying', 'uniform', 'uniform']
    >>> table.loc[4, "because"]
    '8% of the mass is elsewhere than in an even row'
    >>> cx.families(cx.FirstLayer.of(model, passages)).loc[[0, 2], "family"].tolist()
    ['slowly decaying', 'uniform']
    """
    at = asked_by(place, n, token, C)
    copies = None
    if isinstance(at, FromWeights) and at.weights.W_E is not None:
        copies = split.copy_preference(at.weights, at.n)
    return split.family_table(at.kernels, copies)
