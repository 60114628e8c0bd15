"""The contextual circuit: what the stable heads together add to every neuron (Gibson 2025;
chapters 5 and 11).

    summary_j(x) = sum_i pos_i contribution[x_i, j]

One calibration text supplies the softmax denominators and the scale of the second LayerNorm; the
rest is algebra on the weights. The self-normalised circuit takes both from the text that it reads,
since they are sums over its tokens as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib import store
from ctxlib.checks import as_path, check_chosen, check_kind
from ctxlib.decompose import weighted_sum
from ctxlib.query import FixedQuery
from ctxlib.texts.text import AnyText

CALIBRATED = ("calibration", "kernel", "denominators", "constant")  # tensors beside its query's
SCALES = ("scale", "scale_of_heads")  # and its numbers

# ---------------------------------------------------------------- the paper's circuit


def shared_kernel(kernels: Float[Tensor, "head *dest source"]) -> Float[Tensor, "*dest source"]:
    """Return one kernel for all heads: their median at each source (for an even number of heads the
    mean of the two middle ones), renormalised to sum to 1.

    >>> cx.shared_kernel(torch.tensor([[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]]))
    tensor([0.2000, 0.8000])
    """
    # torch.quantile refuses large tensors
    ordered = check_kind(kernels, "a tensor", None).sort(0).values
    median = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return median / median.sum(-1, keepdim=True)


@dataclass(frozen=True, eq=False, repr=False)
class ContextualCircuit:
    """The circuit of the chosen heads for a fixed query, calibrated on one text (paper; chapter 5).

    `kernel` is shared by all heads, `denominators` has one number a head, and `scale` is that of
    LayerNorm 2, times `scale_of_heads` of a norm behind the heads. `calibration` holds the tokens
    that they come from, with the query token at n; `constant` is None but in a circuit that
    `centered` returns. Make one with `ContextualCircuit.calibrate`; `save` keeps it in a file.

    >>> circuit = cx.ContextualCircuit.calibrate(fixed, passages[0], heads)
    >>> circuit.fixed.n, circuit.kernel.shape
    (256, torch.Size([257]))
    >>> circuit.heads == tuple(heads), circuit.denominators.shape == (len(heads),)
    (True, True)
    """

    fixed: FixedQuery
    heads: tuple[int, ...]
    calibration: Int[Tensor, " source"]
    kernel: Float[Tensor, " source"]
    denominators: Float[Tensor, " head"]
    scale: float
    scale_of_heads: float = 1.0
    constant: Float[Tensor, "head d_head"] | None = None

    @classmethod
    def calibrate(
        cls,
        fixed: FixedQuery,
        text: AnyText,
        heads: Sequence[int],
    ) -> ContextualCircuit:
        """Take denominators and scale from one text, with the query token in place of its own at n.
        For a stored layer the scale is that of the approximate outputs.

        Raises ValueError for a text with fewer than n tokens, for heads that do not exist, and for
        weights that came without token embeddings or MLP; TypeError for anything but a fixed query.

        >>> earlier = cx.fix_query(weights, n=200)
        >>> other = cx.ContextualCircuit.calibrate(earlier, passages[0], heads)
        >>> other.fixed.n, len(other.calibration)
        (200, 201)
        >>> additive = cx.fit_additive(model, passages)
        >>> same = cx.ContextualCircuit.calibrate(additive, passages[0], heads)
        >>> torch.cosine_similarity(same.contribution, circuit.contribution).min() > 0.9
        tensor(True)
        """
        heads = check_chosen("head", heads, check_kind(fixed, "a fixed query").n_heads)
        fixed.readout.first()  # weights without an MLP say so before a text is read
        (calibration,) = fixed.prepare([text], "calibration")
        z = fixed.best_z(calibration)
        scale_of_heads = fixed.readout.scale_of_heads(z).item()
        return cls(
            fixed=fixed,
            heads=tuple(heads),
            calibration=calibration,
            kernel=shared_kernel(fixed.decomposition.kernels[heads]),
            denominators=fixed.denominators(calibration)[heads],
            scale=fixed.scale(calibration, fixed.readout.outputs(z)).item() * scale_of_heads,
            scale_of_heads=scale_of_heads,
        )

    def centered(self) -> ContextualCircuit:
        """Return the circuit that takes each head's constant from the calibration text (chapter 8):
        a token adds `content_h(t) / denom_h (v_h(t) - constant_h) + constant_h`, the constant being
        the mean of the values that the head gathers there, weighted by kernel and content.

        A borrowed denominator that is too small or too large then scales only what differs from
        that text. It mends models whose heads add nearly the same to every text (SmolLM2), and
        stays one number a token and neuron.

        >>> better = circuit.centered()
        >>> x = circuit.calibration
        >>> torch.allclose(better.summary(x), circuit.summary(x), rtol=0.1, atol=0.1)
        True
        """
        approx, heads = self.fixed.decomposition, list(self.heads)
        weight = self.kernel * approx.content[heads][:, self.calibration]  # head source
        values = approx.values(heads)[self.calibration]
        gathered = einsum(weight, values, "head source, source head d_head -> head d_head")
        return replace(self, constant=gathered / weight.sum(-1, keepdim=True))

    @cached_property
    def weighted_values(self) -> Float[Tensor, "vocab head d_head"]:
        """Return `content_h(t) / denom_h (LN(W_E[t] + W_pos[n]) W_V^h + b_V^h)`: what a token adds
        to z of each head, per unit of kernel. In a `centered` circuit the constant stays as it is.

        >>> circuit.weighted_values.shape == (weights.d_vocab, len(heads), weights.d_head)
        True
        """
        approx = self.fixed.decomposition
        content = approx.content[list(self.heads)] / self.denominators[:, None]
        constant = 0.0 if self.constant is None else self.constant
        # in place: for a large vocabulary a copy would show
        values = approx.values(self.heads).sub_(constant)
        return values.mul_(rearrange(content, "head t -> t head 1")).add_(constant)

    @cached_property
    def readout(self) -> Float[Tensor, "head d_head neuron"]:
        """Return `W_O^h W_in / s`: the map from z of a head to the neurons.

        >>> z = circuit.weighted_values[262]  # of token 262
        >>> added = (z[:, None] @ circuit.readout).sum(0)[0]
        >>> torch.allclose(added, circuit.contribution[262], atol=1e-3)
        True
        """
        readout = self.fixed.readout
        return readout.W_O[list(self.heads)] @ readout.W_in / self.scale

    @cached_property
    def contribution(self) -> Float[Tensor, "vocab neuron"]:
        """Return `contribution[t, j] = ext(t) . W_in[:, j] / s`: what token t adds to the
        pre-activation of neuron j, per unit of kernel. These are vocab times d_mlp numbers,
        computed once; where they are too many, `contribution_to` gives the columns of some neurons.

        >>> circuit.contribution.shape
        torch.Size([8192, 1024])
        >>> strongest = circuit.contribution[:, 463].topk(4).indices
        >>> len(cx.texts.decode_tokens(weights, strongest.tolist()))
        4
        """
        return einsum(self.weighted_values, self.readout, "t head d_head, head d_head j -> t j")

    def contribution_to(self, neurons: Sequence[int] | slice) -> Float[Tensor, "neuron vocab"]:
        """Return the columns of `contribution` for these neurons, as rows.

        Raises ValueError for neurons that do not exist.

        >>> column = circuit.contribution_to([463])
        >>> torch.allclose(column[0], circuit.contribution[:, 463], atol=1e-4)
        True
        """
        if not isinstance(neurons, slice):
            neurons = check_chosen("neuron", neurons, self.fixed.n_neurons)
        by_neuron = rearrange(self.readout[..., neurons], "head d_head j -> j (head d_head)")
        return by_neuron @ rearrange(self.weighted_values, "t head d_head -> (head d_head) t")

    def extended_embedding(self) -> Float[Tensor, "vocab d_model"]:
        """Return `ext(t) = sum_h content_h(t) / denom_h (LN(W_E[t] + W_pos[n]) W_V^h + b_V^h)
        W_O^h`: what every token adds to the residual stream, per unit of kernel.

        >>> ext = circuit.extended_embedding()[tokens[:5]]
        >>> W_in = fixed.readout.W_in
        >>> torch.allclose(ext @ W_in / circuit.scale, circuit.contribution[tokens[:5]], atol=1e-3)
        True
        """
        W_O = self.fixed.readout.W_O[list(self.heads)]
        return einsum(self.weighted_values, W_O, "t head d_head, head d_head d_model -> t d_model")

    def z(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text head d_head"]:
        """Return what each of the circuit's heads gathers in one text or a stack, with the shared
        kernel and the calibration text's denominators. Raises ValueError for texts that are too
        short.

        >>> summary = torch.tensordot(circuit.z(tokens), circuit.readout, dims=2)
        >>> torch.allclose(summary, circuit.summary(tokens), atol=1e-3)
        True
        """
        x = self.fixed.decomposition.sources(tokens)
        by_token = rearrange(self.weighted_values, "vocab head d_head -> vocab (head d_head)")
        z = weighted_sum(by_token, x, self.kernel.expand(x.shape))
        return z.unflatten(-1, self.readout.shape[:2])

    def summary(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """Return `sum_i pos_i contribution[x_i, j]` of one text or a stack: the circuit's
        approximation of what its heads add to each neuron's pre-activation at n.

        The kernel-weighted mean is taken inside the heads, before it meets the neurons, so the
        contribution matrix is not needed. Raises ValueError for texts that are too short.

        >>> stack = torch.stack([text.tokens for text in passages])
        >>> summary = circuit.summary(stack)[:, 463]
        >>> exact = fixed.exact_summary(stack, heads)[:, 463]
        >>> 0.5 < torch.corrcoef(torch.stack([summary, exact]))[0, 1] <= 1
        tensor(True)
        """
        readout = rearrange(self.readout, "head d_head neuron -> (head d_head) neuron")
        return self.z(tokens).flatten(-2) @ readout

    def pre_activations(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """Return the whole pre-activation at n, with every other head attending to position n only,
        as the earlier post treats them (Gibson 2025b), and the calibrated scale:
        `summary + (W_E[x_n] + W_pos[n] + b_O + sum_{h not in heads} v_n^h W_O^h) W_in / s + b_in`.

        >>> ours = circuit.pre_activations(tokens)
        >>> _, cache = model.run_with_cache(tokens[None], stop_at_layer=1, device="cpu")
        >>> exact = cache["blocks.0.mlp.hook_pre"][0, fixed.n]
        >>> 0 < torch.corrcoef(torch.stack([ours, exact]))[0, 1] <= 1
        tensor(True)
        """
        readout, approx = self.fixed.readout, self.fixed.decomposition
        x_n = approx.sources(tokens)[..., self.fixed.n]
        others = [h for h in range(self.fixed.n_heads) if h not in self.heads]
        v, W_O = approx.values(others)[x_n], readout.W_O[others]
        from_others = einsum(v, W_O, "... head d, head d d_model -> ... d_model")
        rest = readout.resid_without_heads(x_n) * self.scale_of_heads + from_others
        return self.summary(tokens) + rest @ readout.W_in / self.scale + readout.b_in

    def save(self, file: str | Path) -> Path:
        """Save the circuit in a safetensors file, without its model and compressed if the name ends
        in .zst. Returns the path.

        >>> again = cx.ContextualCircuit.load(circuit.save("circuit.safetensors"))
        >>> x = fixed.prepare(passages[:2])
        >>> torch.allclose(again.summary(x), circuit.summary(x), atol=1e-4)
        True
        """
        tensors, facts = store.pack(self.fixed)
        own = {name: getattr(self, name) for name in CALIBRATED}
        tensors |= {name: tensor for name, tensor in own.items() if tensor is not None}
        facts |= {name: getattr(self, name) for name in ("heads", *SCALES)}
        return store.write(as_path(file), tensors, facts)

    @classmethod
    def load(cls, file: str | Path) -> ContextualCircuit:
        """Load a circuit that was saved. It holds no exact layer, so `cx.evaluate` needs a circuit
        of the model itself.

        Errors as for a stored layer, and ValueError for one that was saved without a circuit.

        >>> saved = circuit.save("circuit.safetensors.zst")
        >>> cx.ContextualCircuit.load(saved).heads == circuit.heads
        True
        """
        tensors, facts = store.read(as_path(file))
        if "heads" not in facts:
            raise ValueError(f"{file} is a stored layer without a circuit: cx.fix_query opens it")
        own: dict[str, Any] = {name: tensors[name] for name in CALIBRATED if name in tensors}
        own |= {name: facts[name] for name in SCALES if name in facts}
        return cls(store.unpack(tensors, facts), tuple(facts["heads"]), **own)

    def self_normalized(self) -> SelfNormalizedCircuit:
        """Return the circuit that takes denominators and scale from the text it reads (chapter 11).

        >>> circuit.self_normalized().heads == circuit.heads
        True
        """
        return SelfNormalizedCircuit(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(heads={list(self.heads)}, {self.fixed})"


# ---------------------------------------------------------------- a better one


@dataclass(frozen=True, eq=False, repr=False)
class SelfNormalizedCircuit:
    """A circuit whose denominators and scale are the text's own (chapter 11).

    Keys and values are both split as in Equation 1, into a content and a positional component:

        a_i ~ softmax_i(q_n . (E[n, x_i] + P[n, i]) / attn_scale)
        out_h ~ sum_i a_i (E_V[n, x_i] + P_V[n, i] + b_V) W_O

    so a head's output is a ratio of two sums over the text's tokens, numerator and denominator,
    each with its own kernel. Doing so for all heads rebuilds the residual stream, and with it the
    scale of LayerNorm 2. Made by `ContextualCircuit.self_normalized`.

    >>> better = circuit.self_normalized()
    >>> exact = fixed.exact_summary(tokens, heads)
    >>> plain, own = ((c.summary(tokens) - exact).square().mean() for c in (circuit, better))
    >>> bool(own < plain)
    True
    """

    circuit: ContextualCircuit

    @property
    def fixed(self) -> FixedQuery:
        return self.circuit.fixed

    @property
    def heads(self) -> tuple[int, ...]:
        return self.circuit.heads

    def summary(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """Return what the circuit's heads add to each neuron's pre-activation at n, in one text or
        a stack. Errors as in `ContextualCircuit.summary`.

        >>> better = circuit.self_normalized()
        >>> summary = better.summary(torch.stack([text.tokens for text in passages[:4]]))
        >>> summary.shape
        torch.Size([4, 1024])
        """
        approx, readout = self.fixed.decomposition, self.fixed.readout
        x = approx.sources(tokens)
        z = approx.approx_z(x)
        resid = readout.resid_without_heads(x[..., self.fixed.n])
        behind = readout.scale_of_heads(z)
        resid = resid + z.flatten(-2) @ readout.W_O.flatten(0, 1) / behind
        # the chosen heads reach the neurons in one product, divided by the calibrated scale
        added = z[..., list(self.heads), :].flatten(-2) @ self.circuit.readout.flatten(0, 1)
        return added * (self.circuit.scale / (readout.scale(resid) * behind))

    def pre_activations(self, tokens: Int[Tensor, "*text pos"]) -> Float[Tensor, "*text neuron"]:
        """Return the whole pre-activation at n, from the approximate outputs of all heads.

        >>> ours = circuit.self_normalized().pre_activations(tokens)
        >>> _, cache = model.run_with_cache(tokens[None], stop_at_layer=1, device="cpu")
        >>> exact = cache["blocks.0.mlp.hook_pre"][0, fixed.n]
        >>> 0.9 < torch.corrcoef(torch.stack([ours, exact]))[0, 1] <= 1
        tensor(True)
        """
        readout, outputs = self.fixed.readout, self.fixed.approx_head_outputs(tokens)
        resid = self.fixed.resid_mid(tokens, outputs)
        return resid / readout.scale(resid) @ readout.W_in + readout.b_in

    __repr__ = ContextualCircuit.__repr__
