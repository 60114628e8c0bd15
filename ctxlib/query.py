"""One door: heads asked by one token at one destination, of any model (chapters 3 to 13).

    row_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

`cx.fix_query` makes it once, and heads, families, denominators, circuit, neurons, evaluation,
studies and views take it. It holds what approximates (`split`) and what is true (`layer`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor
from transformers.activations import ACT2FN

from ctxlib import decompose
from ctxlib.exact import ExactLayer, ExactFromWeights
from ctxlib.decompose import LayerNormDecomposition, Readout, Decomposition, Texts
from ctxlib.texts.batching import batches, check_texts, joined
from ctxlib.texts.sources import collection
from ctxlib.texts.text import AnyText, Reader, token_ids
from ctxlib.weights import (
    LayerWeights,
    check_chosen,
    has_positions,
    layer_norm,
    layer_norm_scale,
)

TEXTS = 200  # of the book's, where it is only asked how common tokens are
FAR = 256  # a destination in contexts that are longer than any page

Outputs = Float[Tensor, "*text head d_model"]
Neurons = Float[Tensor, "*text neuron"]
Batches = Iterator[Int[Tensor, "text source"]]


@dataclass(frozen=True, eq=False)
class FixedQuery:
    """The heads of a first layer, asked by one token at one place. Make one with
    `cx.fix_query`.

    `split` approximates: kernels, content, values. `layer` is the truth: rows, and what is inside
    the heads; None where only the approximation is there, as in a stored layer. `reader` is what
    texts are given to. `x` stands for one text or a stack of them.

    >>> fixed = cx.fix_query(weights, n=256)
    >>> fixed.n, fixed.length, fixed.n_heads, fixed.n_neurons, fixed.d_vocab
    (256, 257, 8, 1024, 8192)
    """

    split: Decomposition
    layer: ExactLayer | None
    reader: Reader

    # ------------------------------------------------------------ what it knows

    @property
    def n(self) -> int:
        """The destination's position."""
        return self.decomposition.n

    @property
    def token(self) -> int:
        """The id of the token that asks there; ValueError where none does."""
        if self.decomposition.token is None:
            raise ValueError("no token asks at this destination, and this needs one")
        return self.decomposition.token

    @property
    def length(self) -> int:
        """How many tokens of a text are read: n + 1, or in an encoder 2n."""
        return self.decomposition.length

    @property
    def tokenizer(self) -> Any:
        return self.reader.tokenizer

    @property
    def n_ctx(self) -> int:
        return self.reader.n_ctx

    @property
    def d_vocab(self) -> int:
        return self.reader.d_vocab

    @property
    def readout(self) -> Readout:
        """How what is inside the heads reaches the neurons."""
        return self.decomposition.readout

    @property
    def n_heads(self) -> int:
        return len(self.decomposition.kernels)

    @property
    def n_neurons(self) -> int:
        return self.readout.W_in.shape[1]

    # ------------------------------------------------------------ texts

    def read(self, texts: Iterable[AnyText], doing: str) -> Batches:
        """The tokens that are read of texts, a batch at a time, `token` in place of their own at n;
        with a bar named after what is being done. Raises ValueError for texts that are too short
        and for ids outside the vocabulary.
        """
        return batches(self.reader, texts, self.decomposition.n, self.token, doing, self.decomposition.length)

    def crop(self, texts: Iterable[AnyText]) -> Int[Tensor, "text source"]:
        """All of these texts as they are read, with `token` at n. Raises ValueError for a text that
        is too short and for no texts.

        >>> cx.fix_query(weights, n=99).prepare(passages).shape
        torch.Size([72, 100])
        """
        return joined(self.read(texts, "reading"))

    # ------------------------------------------------------------ what follows

    def denominators(self, x: Texts) -> Float[Tensor, "*text head"]:
        """`denom = sum_i pos_i content(x_i)`, in an arbitrary unit, one for each head. Raises
        ValueError where that is beyond the range of the tensors' precision.

        >>> fixed = cx.fix_query(weights, n=256)
        >>> denoms = cx.softmax_denominators(fixed, passages)
        >>> torch.allclose(fixed.denominators(fixed.prepare(passages)), denoms)
        True
        """
        likes = self.decomposition.content[:, self.decomposition.seen(x)]
        denoms = einsum(likes, self.decomposition.kernels, "head ... source, head source -> ... head")
        in_range = ((denoms > 0) & denoms.isfinite()).view(-1, len(likes)).all(0)
        if not in_range.all():
            beyond = ", ".join(map(str, (~in_range).nonzero()[:, 0].tolist()))
            raise ValueError(
                f"denominators of head {beyond} are beyond the range of {denoms.dtype}, so large "
                "are their scores; float64 holds more: weights.to(torch.float64)"
            )
        return denoms

    def outputs(self, x: Texts) -> Outputs:
        """What every head writes to the residual stream at n, exact. What a destination does not
        see is not read. Raises ValueError for texts that are too short, for ids outside the
        vocabulary, and where there is no truth.

        >>> fixed = cx.fix_query(weights, n=99)
        >>> fixed.head_outputs(tokens).shape
        torch.Size([8, 256])
        >>> torch.equal(fixed.head_outputs(tokens), fixed.apply_W_O(fixed.exact.z(tokens)))
        True
        """
        return self.apply_W_O(self.require_exact().inside(x))

    def approx_head_outputs(self, x: Texts) -> Outputs:
        """The same from kernels, content and the text's own denominators."""
        return self.apply_W_O(self.decomposition.z(x, self.decomposition.rows(x)))

    def written(self, z: Float[Tensor, "*text head d_head"]) -> Outputs:
        """`z W_O`: from the inside of each head to the residual stream."""
        return einsum(z, self.readout.W_O, "... head d, head d d_model -> ... head d_model")

    def require_exact(self) -> ExactLayer:
        """The truth, or a ValueError where there is none."""
        if self.layer is None:
            raise ValueError(
                "a stored layer approximates: it has no exact rows; make the destination of the "
                "model itself for what the heads really do"
            )
        return self.layer

    def resid_mid(self, x: Texts, outputs: Outputs) -> Float[Tensor, "*text d_model"]:
        """The residual stream that the MLP reads at n, with these outputs of the heads in it.

        >>> fixed = cx.fix_query(weights, n=99)
        >>> resid = fixed.resid_mid(tokens, fixed.head_outputs(tokens))
        >>> _, cache = model.run_with_cache(tokens[None, :100], stop_at_layer=1, device="cpu")
        >>> torch.allclose(resid, cache["blocks.0.hook_resid_mid"][0, 99], atol=1e-3)
        True
        """
        return self.readout.resid_without_heads(self.decomposition.seen(x)[..., self.decomposition.n]) + outputs.sum(-2)

    def scale(self, x: Texts, outputs: Outputs) -> Float[Tensor, "*text 1"]:
        """`s(x)`, what LayerNorm 2 divides by at n."""
        return layer_norm_scale(self.resid_mid(x, outputs), self.readout.eps)

    def to_neurons(self, x: Texts, outputs: Outputs, heads: Sequence[int]) -> Neurons:
        """`sum_{h in heads} (output of h at n) . W_in / s(x)`: what chosen heads add to each
        neuron's pre-activation. Raises ValueError for heads that do not exist.

        >>> fixed, x = cx.fix_query(weights, n=256), tokens[:257]
        >>> added = fixed.to_neurons(x, fixed.head_outputs(x), heads)
        >>> torch.equal(added, fixed.exact_summary(tokens, heads))
        True
        """
        heads = check_chosen("head", heads, self.n_heads)
        return outputs[..., heads, :].sum(-2) @ self.readout.W_in / self.scale(x, outputs)

    def truth(self, x: Texts, heads: Sequence[int]) -> Neurons:
        """What the chosen heads add to each neuron's pre-activation at n, exact:
        `sum_{h in heads} (output of head h at n) . W_in[:, j] / s(x)`, with the text's own
        LayerNorm-2 scale s(x). This is what a summary is held against (chapter 5). Raises
        ValueError for heads that do not exist, for weights without the MLP, and as `outputs` does.

        >>> fixed = cx.fix_query(weights, n=256)
        >>> fixed.exact_summary(tokens, heads).shape
        torch.Size([1024])
        >>> one_by_one = sum(fixed.exact_summary(tokens, [head]) for head in heads)
        >>> torch.allclose(fixed.exact_summary(tokens, heads), one_by_one, atol=1e-3)
        True
        """
        return self.to_neurons(x, self.outputs(x), heads)

    def mlp(self, x: Texts) -> dict[str, Neurons]:
        """What the MLP makes of a text at n, exact, by name: `pre` and `post` the activation
        function, or of a gated MLP `gate`, `up` and their `product`, act(gate) times up.

        >>> list(cx.fix_query(weights, n=256).mlp(tokens))
        ['pre', 'post']
        """
        readout, stream = self.readout, self.resid_mid(x, self.outputs(x))
        read = layer_norm(stream, readout.eps)
        driven = {name: read @ W + b for name, (W, b) in readout.inputs.items()}
        first, *up = driven.values()
        active = ACT2FN[readout.act_fn](first)
        return driven | ({"product": active * up[0]} if up else {"post": active})


# ---------------------------------------------------------------- the door


def fix_query(
    of: Any,
    texts: Sequence[AnyText] | None = None,
    n: int | None = None,
    token: str | int | None = " the",
    C: float | None = None,
) -> FixedQuery:
    """Heads asked by `token` at n, of a model loaded with `cx.load`, of `LayerWeights`, or of a
    stored layer.

    Equation 1 where learned positions are added to embeddings, in decoders and encoders; C is its
    typical norm of a token embedding, by default the median one. The split by two means elsewhere
    (chapter 11): there `texts` say how common tokens are, by default some of the book's. n is by
    default the middle of the context, where the paper calibrates, or 256 where no context is
    learned; but the end of the shortest of the texts where that comes first, in an encoder its
    middle. `token=None` asks without a token, of weights that came without embeddings. A stored
    layer knows all of this.

    Raises TypeError for what `of` knows already: n, token, C or texts of a stored layer, C or no
    token for a split that has none; ValueError for an n that the
    model does not have, for a `token` that is not exactly one, and as `LayerWeights.of` or
    `cx.fit_additive` do.

    >>> fixed = cx.fix_query(model)
    >>> fixed.n, fixed.tokenizer.decode([fixed.token]), fixed.decomposition.C == weights.typical_norm()
    (256, ' the', True)
    """
    if isinstance(of, FixedQuery):
        raise TypeError("this is a destination already: it has its own n, token, C and texts")
    if isinstance(of, str | os.PathLike):
        from ctxlib.store import opened  # which comes here

        if (texts, n, token, C) != (None, None, " the", None):
            raise TypeError("a stored layer knows its n, token, C and texts: give none of them")
        return opened(of)
    if not isinstance(of, LayerWeights) and not has_positions(of):
        from ctxlib.additive import fit_additive  # which comes here

        if C is not None or token is None:
            raise TypeError("C, and no token, are Equation 1's: this model adds no positions")
        reader = Reader.of(of)
        texts = collection(reader, TEXTS) if texts is None else texts
        if n is None:
            check_texts(texts)
            n = min([FAR, reader.n_ctx - 1, *(len(token_ids(text, reader)) - 1 for text in texts)])
        return fit_additive(of, texts, n, token)
    weights = of if isinstance(of, LayerWeights) else LayerWeights.of(of)
    if n is None:
        n = weights.n_ctx // 2
        if texts is not None:
            check_texts(texts)
            shortest = min([weights.n_ctx, *(len(token_ids(text, weights)) for text in texts)])
            n = min(n, shortest // 2 if weights.both_sides else shortest - 1)
    d_vocab = 0 if weights.W_E is None else weights.d_vocab
    reader = Reader(weights.tokenizer, weights.n_ctx, d_vocab)
    approximate = LayerNormDecomposition.of(weights, n, token, C)
    return FixedQuery(approximate, ExactFromWeights(weights, approximate.n), reader)


# ---------------------------------------------------------------- families


def families(fixed: FixedQuery) -> pd.DataFrame:
    """What kind of head each one is, and why: one row a head (paper, Figure 2; chapter 3).

    The kernel decides between local, slowly decaying, uniform and remote; among the heads that are
    not local, a strong preference for copies of the destination makes a duplicate-token head. The
    nats for a copy come from `copy_preference`, where there are weights with embeddings; where they
    are not known, the kernel decides alone.

    >>> table = cx.families(cx.fix_query(weights, n=256))
    >>> len(table), list(table)[-2:]
    (8, ['family', 'because'])
    >>> kinds = {"local", "slowly decaying", "uniform", "remote", "duplicate-token"}
    >>> set(table["family"]) <= kinds
    True
    >>> set(cx.families(cx.fit_additive(model, passages))["family"]) <= kinds
    True
    """
    copies = None
    if isinstance(fixed.decomposition, LayerNormDecomposition) and fixed.decomposition.weights.W_E is not None:
        copies = split.copy_preference(fixed.decomposition.weights, fixed.n)
    return split.family_table(fixed.decomposition.kernels, fixed.n, copies)
