"""A fixed query: the heads of a first layer with one query token at one position.

    row_i ~ pos_i content(x_i) / denom,    denom = sum_i pos_i content(x_i)

All kernels, contents and denominators are relative to it. `FixedQuery` holds the approximation
(`decomposition`) beside the exact layer (`exact`); `cx.fix_query` makes one (chapters 3 to 15).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor
from transformers.activations import ACT2FN

from ctxlib.checks import check_chosen, check_kind
from ctxlib.decompose import Decomposition, Readout, Texts
from ctxlib.exact import ExactLayer, Z
from ctxlib.texts.batching import joined, prepare_batches
from ctxlib.texts.text import AnyText, Reader

Outputs = Float[Tensor, "*text head d_model"]
Neurons = Float[Tensor, "*text neuron"]


@dataclass(frozen=True, eq=False, repr=False)
class FixedQuery:
    """The heads of a first layer with one query token at one position. Make one with
    `cx.fix_query`.

    `decomposition` approximates them by kernels, content and values. `exact` computes their rows
    and z exactly; it is None for a stored layer, which holds the approximation alone. `reader`
    turns texts into tokens. `x` stands for the tokens of one text or of a stack of texts, of which
    the first `length` are read; `prepare` makes such a stack.

    >>> fixed = cx.fix_query(weights, n=256)
    >>> fixed
    FixedQuery(token ' the' at n=256, 8 heads, 1024 neurons of layer 0, LayerNormDecomposition)
    >>> fixed.n, fixed.length, fixed.n_heads, fixed.n_neurons, fixed.d_vocab
    (256, 257, 8, 1024, 8192)
    """

    decomposition: Decomposition
    exact: ExactLayer | None
    reader: Reader

    # ------------------------------------------------------------ sizes

    @property
    def n(self) -> int:
        """The position of the query."""
        return self.decomposition.n

    @property
    def token(self) -> int:
        """The id of the query token; raises ValueError if the query is one without a token."""
        if self.decomposition.token is None:
            raise ValueError("this query has no token, and this needs one")
        return self.decomposition.token

    @property
    def length(self) -> int:
        """The number of tokens that the query attends to: n + 1, or in an encoder 2n."""
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
        """The path from inside the heads to the neurons."""
        return self.decomposition.readout

    @property
    def n_heads(self) -> int:
        return len(self.decomposition.kernels)

    @property
    def n_neurons(self) -> int:
        return self.readout.W_in.shape[1]

    @property
    def mlp_layer(self) -> int:
        """The layer whose MLP the neurons belong to, the first that reads these heads' outputs: 0,
        or 1 where attention and MLP of a layer are parallel (NeoX, GPT-J, Phi, Falcon, Cohere).

        >>> cx.fix_query(weights).mlp_layer
        0
        """
        known: Any = self.exact or self.decomposition
        return known.reads

    def __repr__(self) -> str:
        token, read = self.decomposition.token, self.tokenizer
        word = token if token is None or read is None else read.decode([token])
        of = f"{self.n_neurons} neurons of layer {self.mlp_layer}"
        neurons = of if self.readout.inputs else "no MLP"
        kind = type(self.decomposition).__name__
        return f"FixedQuery(token {word!r} at n={self.n}, {self.n_heads} heads, {neurons}, {kind})"

    # ------------------------------------------------------------ texts

    def prepare_batches(
        self, texts: Iterable[AnyText], desc: str = "texts"
    ) -> Iterator[Int[Tensor, "text source"]]:
        """Yield the tokens that the query attends to, the query token in place of the text's own at
        n, a batch of texts at a time, under a progress bar called `desc`.

        Raises ValueError for texts that are too short and for ids outside the vocabulary.
        """
        return prepare_batches(self.reader, texts, self.n, self.token, self.length, desc)

    def prepare(self, texts: Iterable[AnyText], desc: str = "texts") -> Int[Tensor, "text source"]:
        """Return all batches of `prepare_batches` as one tensor. Raises ValueError for no texts.

        >>> cx.fix_query(weights, n=99).prepare(passages).shape
        torch.Size([72, 100])
        """
        return joined(self.prepare_batches(texts, desc))

    # ------------------------------------------------------------ from texts to neurons

    def denominators(self, x: Texts) -> Float[Tensor, "*text head"]:
        """Return `denom = sum_i pos_i content(x_i)` of every head, in an arbitrary unit for each.

        Raises ValueError if one is beyond the range of the tensors' precision.

        >>> fixed = cx.fix_query(weights, n=256)
        >>> denoms = cx.softmax_denominators(fixed, passages)
        >>> torch.allclose(fixed.denominators(fixed.prepare(passages)), denoms)
        True
        """
        approx = self.decomposition
        content = approx.content[:, approx.sources(x)]
        denoms = einsum(content, approx.kernels, "head ... source, head source -> ... head")
        in_range = ((denoms > 0) & denoms.isfinite()).view(-1, len(content)).all(0)
        if not in_range.all():
            beyond = ", ".join(map(str, (~in_range).nonzero()[:, 0].tolist()))
            raise ValueError(
                f"denominators of head {beyond} are beyond the range of {denoms.dtype}, because "
                "their scores are so large; use weights.to(torch.float64)"
            )
        return denoms

    def head_outputs(self, x: Texts) -> Outputs:
        """Return what every head writes to the residual stream at n, exactly.

        Raises ValueError for texts that are too short, for ids outside the vocabulary, and for a
        stored layer.

        >>> fixed = cx.fix_query(weights, n=99)
        >>> fixed.head_outputs(tokens).shape
        torch.Size([8, 256])
        """
        return self.readout.outputs(self.require_exact().z(x))

    def approx_head_outputs(self, x: Texts) -> Outputs:
        """Return the same from kernels, content and the text's own denominators."""
        return self.readout.outputs(self.decomposition.approx_z(x))

    def best_z(self, x: Texts) -> Z:
        """Return the exact z of every head, or for a stored layer the approximate one."""
        return self.exact.z(x) if self.exact else self.decomposition.approx_z(x)

    def require_exact(self) -> ExactLayer:
        """Return the exact layer; raise ValueError if there is none."""
        if self.exact is None:
            raise ValueError("a stored layer has no exact rows: fix a query of the model itself")
        return self.exact

    def resid_mid(self, x: Texts, outputs: Outputs) -> Float[Tensor, "*text d_model"]:
        """Return the residual stream that the MLP reads at n, given the heads' outputs.

        >>> fixed = cx.fix_query(weights, n=99)
        >>> resid = fixed.resid_mid(tokens, fixed.head_outputs(tokens))
        >>> _, cache = model.run_with_cache(tokens[None, :100], stop_at_layer=1, device="cpu")
        >>> torch.allclose(resid, cache["blocks.0.hook_resid_mid"][0, 99], atol=1e-3)
        True
        """
        x_n = self.decomposition.sources(x)[..., self.n]
        check_kind(outputs, "a tensor", *self.readout.W_O.shape[::2])
        return self.readout.resid_without_heads(x_n) + outputs.sum(-2)

    def scale(self, x: Texts, outputs: Outputs) -> Float[Tensor, "*text 1"]:
        """Return `s(x)`, the number that LayerNorm 2 divides by at n."""
        return self.readout.scale(self.resid_mid(x, outputs))

    def to_neurons(self, x: Texts, outputs: Outputs, heads: Sequence[int]) -> Neurons:
        """Return `sum_{h in heads} (output of h at n) . W_in / s(x)`: what the chosen heads add to
        each neuron's pre-activation. Raises ValueError for heads that do not exist.

        >>> fixed, x = cx.fix_query(weights, n=256), tokens[:257]
        >>> added = fixed.to_neurons(x, fixed.head_outputs(x), heads)
        >>> torch.equal(added, fixed.exact_summary(tokens, heads))
        True
        """
        heads = check_chosen("head", heads, self.n_heads)
        scale = self.scale(x, outputs)
        return outputs[..., heads, :].sum(-2) @ self.readout.W_in / scale

    def exact_summary(self, x: Texts, heads: Sequence[int]) -> Neurons:
        """Return what the chosen heads add to each neuron's pre-activation at n, exactly:
        `sum_{h in heads} (output of head h at n) . W_in[:, j] / s(x)`, with the text's own
        LayerNorm-2 scale s(x). A circuit's `summary` approximates this (chapter 5).

        Raises ValueError for heads that do not exist, for weights without the MLP, and as
        `head_outputs` does.

        >>> fixed = cx.fix_query(weights, n=256)
        >>> fixed.exact_summary(tokens, heads).shape
        torch.Size([1024])
        >>> one_by_one = sum(fixed.exact_summary(tokens, [head]) for head in heads)
        >>> torch.allclose(fixed.exact_summary(tokens, heads), one_by_one, atol=1e-3)
        True
        """
        return self.to_neurons(x, self.head_outputs(x), heads)

    def mlp(self, x: Texts, outputs: Outputs | None = None) -> dict[str, Neurons]:
        """Return the MLP's activations at n by name: `pre` and `post` the activation function, or
        of a gated MLP `gate`, `up` and their `product`, act(gate) times up. They are exact if the
        heads' outputs are, as those that are taken by default.

        >>> fixed = cx.fix_query(weights, n=256)
        >>> list(fixed.mlp(tokens))
        ['pre', 'post']
        >>> approx = fixed.mlp(tokens, fixed.approx_head_outputs(tokens))["post"]
        >>> torch.corrcoef(torch.stack([approx, fixed.mlp(tokens)["post"]]))[0, 1] > 0.9
        tensor(True)
        """
        outputs = self.head_outputs(x) if outputs is None else outputs
        readout, stream = self.readout, self.resid_mid(x, outputs)
        resid = stream / readout.scale(stream)
        inputs = {name: resid @ W + b for name, (W, b) in readout.inputs.items()}
        first, *up = inputs.values()
        active = ACT2FN[readout.act_fn](first)
        return inputs | ({"product": active * up[0]} if up else {"post": active})
