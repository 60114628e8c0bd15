"""Read one layer's weights off a model, folded and centred.

LayerNorm subtracts a mean, divides by a scale, multiplies by a gain and adds a bias. Centring
everything that writes to the residual stream removes the mean for good, and gain and bias are
folded into the matrices that read from it. What is left of LayerNorm is a projection onto the
sphere of radius sqrt(d_model) (chapter 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.checks import as_index, check_ids, check_index, check_kind, check_tokens, crop
from ctxlib.models.loading import ENCODERS, Encoder, device_for, first_position
from ctxlib.texts.vocabulary import token_id

NO_MLP = "these weights came without the MLP (mlp.c_fc, ln_2), and this needs it"
PROBED = 8  # tokens on which weights are compared with their model
AGREES = 1e-3  # by how much they, or sums of terms, may differ from it, relative to its size
OF_A_LAYER = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "W_in", "b_in")


def layer_norm(v: Float[Tensor, "*batch d_model"], eps: float) -> Float[Tensor, "*batch d_model"]:
    """Apply LayerNorm after folding and centring: `sqrt(d_model) v / |v|`, with the model's epsilon
    (chapter 1). `v` has mean zero already, so `mean(v**2)` is its variance.

    >>> cx.layer_norm(torch.tensor([3.0, -3.0]), eps=0.0)
    tensor([ 1., -1.])
    """
    return v / layer_norm_scale(v, eps)


def layer_norm_scale(v: Float[Tensor, "*batch d_model"], eps: float) -> Float[Tensor, "*batch 1"]:
    """Return what LayerNorm divides by: `sqrt(|v|^2 / d_model + eps)`.

    >>> cx.weights.layer_norm_scale(torch.tensor([3.0, -4.0, 1.0, 0.0]), eps=0.0).round(decimals=2)
    tensor([2.5500])
    """
    variance = check_kind(v, "a tensor").square().mean(-1, keepdim=True)
    return (variance + check_kind(eps, "a number")).sqrt()


class NoPositionEmbeddings(ValueError):
    """Raised by `LayerWeights.of` for a model that adds no positions to its residual stream:
    rotary, ALiBi, relative ones. The message says what works without them (chapter 13).

    >>> issubclass(cx.weights.NoPositionEmbeddings, ValueError)
    True
    """


@dataclass(frozen=True, eq=False, repr=False)
class LayerWeights:
    """Folded and centred weights of one attention layer and of the MLP behind it.

    `W_E`, `W_in` and `b_in` may be None where a checkpoint comes without token embeddings or MLP;
    the functions that need them say so. `attn_scale` divides the scores: `sqrt(d_head)` in GPT-2.
    In an encoder (BERT) a query attends to `both_sides`, and because its LayerNorm stands behind
    the embeddings, the residual stream that the heads add to is normalised as well: gain and bias
    of that norm are folded into the matrices that read it, and kept in `skip_gain` and `skip_bias`.
    MPNet adds to its scores a bias for each distance, `score_bias`. RoBERTa and MPNet give no
    position to the token `padding`, which no text may hold (-1: none).
    `n_heads`, `d_model`, `d_head`, `n_ctx`, `d_vocab` and `n_neurons` are the sizes. Raises
    ValueError for values that are not finite.

    >>> weights.n_heads, weights.d_model, weights.d_head, weights.n_ctx, weights.n_neurons
    (8, 256, 32, 512, 1024)
    >>> weights.W_Q.shape
    torch.Size([8, 256, 32])
    """

    W_E: Float[Tensor, "vocab d_model"] | None
    W_pos: Float[Tensor, "n_ctx d_model"]
    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "head d_model d_head"]
    W_V: Float[Tensor, "head d_model d_head"]
    W_O: Float[Tensor, "head d_head d_model"]
    b_Q: Float[Tensor, "head d_head"]
    b_K: Float[Tensor, "head d_head"]
    b_V: Float[Tensor, "head d_head"]
    b_O: Float[Tensor, " d_model"]
    W_in: Float[Tensor, "d_model neuron"] | None
    b_in: Float[Tensor, " neuron"] | None
    layer: int
    eps: float
    attn_scale: float
    tokenizer: Any = None
    act_fn: str = "gelu_new"
    both_sides: bool = False
    skip_gain: Float[Tensor, " d_model"] | None = None
    skip_bias: Float[Tensor, " d_model"] | None = None
    score_bias: Float[Tensor, "head n_ctx n_ctx"] | None = None
    padding: int = -1

    # ------------------------------------------------------------ constructors

    @classmethod
    def of(cls, model: Any, layer: int = 0) -> LayerWeights:
        """Read the weights of one layer of a model loaded with `cx.load`, on the CPU wherever the
        model is (`to` moves them); of an encoder, those of its first layer.

        They are compared with what the model computes on a few tokens. Raises ValueError if the
        model has no such layer, if it is not in compatibility mode, if weights are not finite, and
        if heads or MLP read anything but the normalised residual stream; NoPositionEmbeddings for a
        model without learned absolute positions.

        >>> second = cx.LayerWeights.of(model, layer=1)
        >>> second.layer, second.n_heads
        (1, 8)
        """
        cfg = check_kind(model, "a model").cfg
        if not has_positions(model):
            kind = cfg.positional_embedding_type.replace("standard", "computed")
            raise NoPositionEmbeddings(
                f"{cfg.model_name} has {kind} positions and adds no table of them to the residual "
                "stream, so there is no W_pos to split its keys by; cx.fix_query(model) splits its "
                "scores additively (chapter 13, Does the split survive other kinds of positions?), "
                "and chapters 15 and 14 go on with the model itself"
            )
        if isinstance(model, Encoder):
            return cls.of_encoder(model, layer)
        check_layer(model, layer)
        tensors = {"W_E": model.W_E, "W_pos": model.W_pos}
        for name in OF_A_LAYER:
            block, by_head = model.blocks[layer], name in ("b_Q", "b_K", "b_V")
            own = getattr(block.mlp if name.endswith("_in") else block.attn, name)
            if own is None:  # a matrix without biases (Galactica)
                W = tensors[f"W{name[1:]}"]
                own = torch.zeros_like(W[:, 0] if by_head else W.flatten(0, -2)[0])
            tensors[name] = own.clone(memory_format=torch.contiguous_format)
        for name in ("W_K", "W_V", "b_K", "b_V"):  # in some models, heads share them
            shared = len(tensors["W_Q"]) // len(tensors[name])
            tensors[name] = tensors[name].repeat_interleave(shared, dim=0)
        weights = cls(
            **{name: tensor.detach().cpu() for name, tensor in tensors.items()},
            layer=layer,
            eps=cfg.eps,
            attn_scale=score_divisor(model.original_model.config, cfg.d_head, layer),
            tokenizer=model.tokenizer,
            act_fn=cfg.act_fn,
        )
        weights.check(model)
        return weights

    @classmethod
    def of_encoder(cls, encoder: Encoder, layer: int = 0) -> LayerWeights:
        """Read the weights of the first layer of an encoder with learned positions. LayerNorm comes
        after the embeddings and after attention, so heads and MLP read a normalised stream as in a
        decoder, and Equation 1 holds unchanged: the parts are read under GPT-2's names.
        """
        check_index("layer", layer, 1)
        bert = encoder.original_model
        there = {name: t.float().cpu() for name, t in bert.state_dict().items()}
        block, *places = ENCODERS[bert.config.model_type].split()
        *of_heads, out, norm, into = (f"{block}.{place}" for place in places)
        names = {
            "ln_1": ["embeddings.LayerNorm"],
            "attn.c_attn": of_heads,
            "attn.c_proj": [out],
            "ln_2": [norm],
            "mlp.c_fc": [into],
        }
        state = {  # GPT-2's matrices take their input first
            f"h.0.{name}.{kind}": torch.cat([there[f"{part}.{kind}"] for part in parts]).t()
            for name, parts in names.items()
            for kind in ("weight", "bias")
        }
        words, wpe, kinds = (
            there.get(f"embeddings.{kind}_embeddings.weight", torch.zeros(1, 1))
            for kind in ("word", "position", "token_type")  # DistilBERT has no types
        )
        first, score_bias = first_position(bert), None
        state |= {"wte.weight": words + kinds[0], "wpe.weight": wpe[first:]}
        if bert.config.model_type == "mpnet":
            text = torch.empty(1, encoder.cfg.n_ctx, device=bert.device)
            score_bias = bert.encoder.compute_position_bias(text)[0].cpu()
        weights = replace(
            cls.from_state_dict(state, encoder.cfg.n_heads, eps=encoder.cfg.eps),
            tokenizer=encoder.tokenizer,
            act_fn=getattr(bert.config, "hidden_act", None) or bert.config.activation,
            both_sides=True,
            skip_gain=state["h.0.ln_1.weight"],
            skip_bias=state["h.0.ln_1.bias"],
            score_bias=score_bias,
            padding=first - 1,
        )
        weights.check_encoder(bert, into)
        return weights

    def check_encoder(self, bert: Any, into: str) -> None:
        """Raise ValueError unless the module `into`, the first of the encoder's MLP, gives the
        pre-activations that follow from these weights.
        """
        probe = torch.arange(min(PROBED, self.d_vocab, self.n_ctx))
        probe = probe[probe != self.padding]
        n = len(probe) - 1
        ((_, own),) = passed(bert, probe[None], [bert.get_submodule(into)])
        q, keys = self.queries(probe)[:, n], self.keys(probe)
        scores = einsum(q, keys, "head d, head pos d -> head pos")
        rows = (scores / self.attn_scale + self.position_bias(n, n + 1)).softmax(-1)
        by_token, rest = self.resid_without_heads(n)
        added = einsum(rows, self.values(probe), self.W_O, "head pos, head pos d, head d m -> m")
        resid = by_token[probe[n]] + rest + added
        ours, own = self.pre_activations(resid), own[0, n].cpu()
        if not (ours - own).abs().max() <= AGREES * own.abs().max():
            raise ValueError(
                "the first layer of this encoder does not compute what follows from its weights: "
                "they alone would be wrong for this model"
            )

    def check(self, model: Any) -> None:
        """Raise ValueError unless heads and MLP of the model read the normalised residual stream
        through these weights, which in the first layer is a token plus its position.
        """
        block, of_heads = f"blocks.{self.layer}.", ("attn.hook_q", "attn.hook_k", "attn.hook_v")
        names = [block + n for n in ("hook_resid_pre", *of_heads, "hook_resid_mid", "mlp.hook_pre")]
        probe = torch.arange(min(PROBED, self.d_vocab, self.n_ctx))[None]
        pre, *qkv, mid, mlp = (t[0] for t in activations(model, probe, names, self.layer + 1))
        maps = ((self.W_Q, self.b_Q), (self.W_K, self.b_K), (self.W_V, self.b_V))
        pairs = [(self.pre_activations(mid), mlp)]
        if self.layer == 0:
            pairs.append((self.embeddings()[probe[0]] + self.W_pos[: probe.shape[1]], pre))
        for (W, b), own in zip(maps, qkv, strict=True):
            shared = self.n_heads // own.shape[1]
            own = repeat(own, "pos kv d_head -> (kv shared) pos d_head", shared=shared)
            pairs.append((project(layer_norm(pre, self.eps), W, b), own))
        if not all((ours - own).abs().max() <= AGREES * own.abs().max() for ours, own in pairs):
            raise ValueError(
                f"heads or MLP of layer {self.layer} read something else than the normalised "
                "residual stream (norms after them, normalised keys, ...): their weights alone "
                "would be wrong for this model"
            )

    @classmethod
    def from_state_dict(
        cls,
        state: Mapping[str, Tensor],
        n_heads: int,
        layer: int = 0,
        eps: float = 1e-5,
    ) -> LayerWeights:
        """Fold and centre a GPT-2 state dict under its Hugging Face names, with or without
        `transformer.` in front.

        Token embeddings (`wte.weight`) and MLP (`mlp.c_fc`) may be missing; `dataclasses.replace`
        gives the weights a tokenizer. Raises ValueError if attention weights or positions are
        missing, if `n_heads` does not divide `d_model`, and if weights are not finite.

        >>> from safetensors.torch import load_file
        >>> state = load_file(cx.models.MINI / "model.safetensors")
        >>> same = cx.LayerWeights.from_state_dict(state, n_heads=8)
        >>> torch.allclose(same.W_K, weights.W_K, atol=1e-3)
        True
        """
        tensors = {
            name.removeprefix("transformer."): t if t.dtype == torch.float64 else t.float()
            for name, t in check_kind(state, "a state dict").items()  # half is for storage only
        }
        needed, mlp = (
            [f"h.{layer}.{part}.{kind}" for part in parts for kind in ("weight", "bias")]
            for parts in (("ln_1", "attn.c_attn", "attn.c_proj"), ("ln_2", "mlp.c_fc"))
        )
        missing = [name for name in ("wpe.weight", *needed) if name not in tensors]
        if missing:
            raise ValueError(
                f"not a GPT-2 state dict for layer {layer}: {', '.join(missing)} missing"
            )
        *attention, W_O, b_O = (tensors[name] for name in needed)
        d_model = len(W_O)
        if as_index("n_heads", n_heads) < 1 or d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")
        by_head = "... (qkv head d_head) -> qkv head ... d_head"
        W_QKV, b_QKV = (rearrange(t, by_head, qkv=3, head=n_heads) for t in fold(*attention))
        W_O = center(rearrange(W_O, "(head d_head) d -> head d_head d", head=n_heads))
        has_mlp = tensors.keys() >= {*mlp}
        of_mlp = fold(*(tensors[name] for name in mlp)) if has_mlp else (None, None)
        of_a_layer = (*W_QKV, W_O, *b_QKV, center(b_O), *of_mlp)
        return cls(
            **dict(zip(OF_A_LAYER, of_a_layer, strict=True)),
            W_E=center(tensors["wte.weight"]) if "wte.weight" in tensors else None,
            W_pos=center(tensors["wpe.weight"]),
            layer=layer,
            eps=eps,
            attn_scale=(d_model // n_heads) ** 0.5,
        )

    def __post_init__(self) -> None:
        broken = [name for name, t in self.tensors().items() if not t.isfinite().all()]
        if broken:
            raise ValueError(
                f"{', '.join(broken)} of layer {self.layer}: values that are not finite; "
                "the checkpoint is damaged"
            )

    def __repr__(self) -> str:
        sizes = f"n_heads={self.n_heads}, d_model={self.d_model}, d_head={self.d_head}"
        return f"LayerWeights(layer={self.layer}, {sizes}, n_ctx={self.n_ctx})"

    def tensors(self) -> dict[str, Any]:
        """Return the tensors that the layer has, by name."""
        return {name: t for name, t in vars(self).items() if isinstance(t, Tensor)}

    # ------------------------------------------------------------ sizes

    @property
    def n_heads(self) -> int:
        return self.W_Q.shape[0]

    @property
    def d_model(self) -> int:
        return self.W_Q.shape[1]

    @property
    def d_head(self) -> int:
        return self.W_Q.shape[2]

    @property
    def n_ctx(self) -> int:
        return self.W_pos.shape[0]

    @property
    def d_vocab(self) -> int:
        return self.embeddings().shape[0]

    @property
    def n_neurons(self) -> int:
        return self.mlp_input()[0].shape[1]

    def to(
        self, dtype: torch.dtype | None = None, device: str | torch.device | None = None
    ) -> LayerWeights:
        """Return the same weights in another precision (tests compare in float64) or on another
        device. Raises ValueError for a precision below float32: content is an exponential.

        What follows from weights is computed on their device: `weights.to(device="cuda")` lets a
        GPU calibrate a circuit and evaluate it on a million texts. Texts may be on any device, and
        tables are pandas.

        >>> weights.to(torch.float64).W_K.dtype
        torch.float64
        >>> weights.to(device="cpu").W_K.device
        device(type='cpu')
        """
        if dtype not in (None, torch.float32, torch.float64):
            raise ValueError(f"{dtype}: choose torch.float32 or torch.float64")
        device = None if device is None else device_for(device)
        moved = {name: t.to(device=device, dtype=dtype) for name, t in self.tensors().items()}
        return replace(self, **moved)

    # ------------------------------------------------------------ from tokens to heads

    def token_id(self, token: str | int) -> int:
        """Return the id of a token given as text (`" the"`) or as an id. Raises ValueError if the
        text is not exactly one token.

        >>> weights.token_id(" the"), weights.token_id(7)
        (262, 7)
        >>> weights.token_id(" nebulae")
        Traceback (most recent call last):
            ...
        ValueError: ' nebulae' is 4 tokens in this vocabulary; choose a text that is exactly one
        """
        return token_id(token, self.tokenizer, self.d_vocab)

    def typical_norm(self, C: float | None = None) -> float:
        """Return C, which replaces `|W_E[x_i]|` in Equation 1: by default the median norm of a
        centred token embedding.

        Raises ValueError if C is not a positive number, and if none is given and there are no
        embeddings.

        >>> weights.typical_norm() > 0, weights.typical_norm(3.5)
        (True, 3.5)
        """
        C = self.embeddings().norm(dim=-1).median().item() if C is None else C
        several = getattr(C, "ndim", 0) > 0 or not hasattr(C, "__float__")
        if several or isinstance(C, bool) or not 0 < C < math.inf:
            raise ValueError(f"C={C}: the typical norm of a token embedding is a positive number")
        return C

    def embeddings(
        self, tokens: Int[Tensor, "*any"] | None = None
    ) -> Float[Tensor, "*any_or_vocab d_model"]:
        """Return W_E, or its rows of these tokens; raise ValueError if these weights came without
        it, and for ids outside the vocabulary.

        >>> weights.embeddings().shape
        torch.Size([8192, 256])
        """
        if self.W_E is None:
            raise ValueError(
                "weights without token embeddings (wte.weight): this needs them, or else C"
            )
        if tokens is None:
            return self.W_E
        return self.W_E[check_ids(tokens, len(self.W_E)).to(self.W_E.device)]

    def normalized_resid(
        self, tokens: Int[Tensor, "*text pos"], n: int | None = None
    ) -> Float[Tensor, "*text source d_model"]:
        """Return `LN(W_E[x_i] + W_pos[i])`, which queries, keys and values are read from: for a
        whole text, or with `n` for the positions that n can attend to, of one text or a stack.

        Errors as in `sources`; ValueError for a layer other than the first, where the residual
        stream is no longer a function of token and position.

        >>> weights.normalized_resid(tokens).square().mean(-1)[:3].round(decimals=2)
        tensor([1., 1., 1.])
        >>> all_of_it, part = weights.normalized_resid(tokens), weights.normalized_resid(tokens, 99)
        >>> torch.allclose(part, all_of_it[:100], atol=1e-4)
        True
        """
        x = self.sources(tokens, n)
        return layer_norm(self.embeddings()[x] + self.W_pos[: x.shape[-1]], self.eps)

    def sources(
        self, tokens: Int[Tensor, "*text pos"], n: int | None = None
    ) -> Int[Tensor, "*text source"]:
        """Return the tokens that the query position n can attend to, by default those of one whole
        text, on the device of the weights.

        Raises ValueError for a text with more tokens than the model has positions, for n outside
        the text, and for ids outside the vocabulary.

        >>> weights.sources(tokens, n=99).shape
        torch.Size([100])
        """
        check_tokens(tokens)
        length = tokens.shape[-1]
        if n is None:
            if tokens.ndim != 1 or not 0 < length <= self.n_ctx:
                raise ValueError(f"tokens {[*tokens.shape]}: give one text of 1 to {self.n_ctx}")
            n = length - 1
        self.position(n)
        check_index("position", n, length)
        return self.crop(tokens, n, length)

    def crop(
        self, tokens: Int[Tensor, "*text pos"], n: int, length: int | None = None
    ) -> Int[Tensor, "*text source"]:
        """Return the tokens that n attends to in texts of `length` tokens, on the device of the
        weights. Raises ValueError for shorter texts, for ids outside the vocabulary, and for the
        padding token, behind which a text's positions would be others.

        >>> weights.crop(tokens, n=99).shape
        torch.Size([100])
        """
        x = crop(tokens, self.n_sources(n, length), self.d_vocab, n).to(self.W_pos.device)
        if (x == self.padding).any():
            raise ValueError(
                f"a text holds token {self.padding}, the padding, which this model gives no "
                "position: leave it out"
            )
        return x

    def position_bias(
        self, n: int | slice, length: int
    ) -> Float[Tensor, "head *dest source"] | float:
        """Return what distances add to the scores of a query at n, or of several: 0 in most models.

        >>> weights.position_bias(99, length=100)
        0.0
        """
        return 0.0 if self.score_bias is None else self.score_bias[:, n, :length]

    def n_sources(self, n: int, length: int | None = None) -> int:
        """Return how many positions the query position n can attend to: n + 1, or in an encoder all
        of a text of `length` tokens, by default 2n, of which n is the middle.

        >>> weights.n_sources(256)
        257
        """
        if not self.both_sides:
            return as_index("position", n) + 1
        length = min(max(2 * n, n + 1), self.n_ctx) if length is None else length
        check_index("position", length - 1, self.n_ctx)
        return length

    def resid_without_heads(
        self, n: int
    ) -> tuple[Float[Tensor, "vocab d_model"], Float[Tensor, " d_model"]]:
        """Return the residual stream that the MLP reads at n, without the heads' outputs, in two
        summands: a row for each token that may be at position n, and what is the same for all.

        >>> by_token, rest = weights.resid_without_heads(n=99)
        >>> by_token.shape, rest.shape
        (torch.Size([8192, 256]), torch.Size([256]))
        """
        own, here = self.embeddings(), self.position(n)
        if self.skip_gain is None or self.skip_bias is None:
            return own, here + self.b_O
        skipped = layer_norm(own + here, self.eps) * self.skip_gain + self.skip_bias
        return center(skipped), self.b_O

    def position(self, n: int) -> Float[Tensor, " d_model"]:
        """Return `W_pos[n]`; raise ValueError if n is not a position of the model, or if the layer
        is not the first.
        """
        if self.layer != 0:
            raise ValueError(
                f"layer {self.layer}: only what enters layer 0 is a token plus a position embedding"
            )
        check_index("position", n, self.n_ctx)
        return self.W_pos[n]

    def queries(self, tokens: Int[Tensor, " pos"]) -> Float[Tensor, "head pos d_head"]:
        """Return the queries `q_i = LN(W_E[x_i] + W_pos[i]) W_Q + b_Q`.

        >>> weights.queries(tokens).shape
        torch.Size([8, 512, 32])
        """
        return project(self.normalized_resid(tokens), self.W_Q, self.b_Q)

    def keys(self, tokens: Int[Tensor, " pos"]) -> Float[Tensor, "head pos d_head"]:
        """Return the keys `key_i = LN(W_E[x_i] + W_pos[i]) W_K + b_K`.

        >>> q, k = weights.queries(tokens), weights.keys(tokens)
        >>> scores = k[4, :100] @ q[4, 99] / weights.attn_scale
        >>> torch.allclose(scores, cx.decompose.exact_scores(weights, tokens, n=99)[4], atol=1e-3)
        True
        """
        return project(self.normalized_resid(tokens), self.W_K, self.b_K)

    def values(self, tokens: Int[Tensor, " pos"]) -> Float[Tensor, "head pos d_head"]:
        """Return the values `v_i = LN(W_E[x_i] + W_pos[i]) W_V + b_V`.

        >>> row = cx.attention_rows(weights, tokens, n=99)[4]
        >>> (row @ weights.values(tokens)[4, :100]).shape
        torch.Size([32])
        """
        return project(self.normalized_resid(tokens), self.W_V, self.b_V)

    def mlp_input(self) -> tuple[Float[Tensor, "d_model neuron"], Float[Tensor, " neuron"]]:
        """Return W_in and b_in; raise ValueError if these weights came without them.

        >>> W_in, b_in = weights.mlp_input()
        >>> W_in.shape, b_in.shape
        (torch.Size([256, 1024]), torch.Size([1024]))
        """
        if self.W_in is None or self.b_in is None:
            raise ValueError(NO_MLP)
        return self.W_in, self.b_in

    def pre_activations(
        self, resid_mid: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch neuron"]:
        """Return the MLP's pre-activations from the centred residual stream after attention:
        `LN(r) W_in + b_in`.

        >>> here = cx.fix_query(weights, n=99)
        >>> resid = here.resid_mid(tokens, here.head_outputs(tokens))
        >>> weights.pre_activations(resid).shape
        torch.Size([1024])
        """
        W_in, b_in = self.mlp_input()
        return layer_norm(check_kind(resid_mid, "a tensor", len(W_in)), self.eps) @ W_in + b_in


# ---------------------------------------------------------------- the model itself


def activations(
    model: Any, x: Int[Tensor, "text pos"], names: Sequence[str], layers: int
) -> list[Tensor]:
    """Return what is at the named hooks of the first so many layers, on the CPU."""
    _, cache = model.run_with_cache(x, names_filter=[*names], stop_at_layer=layers)
    return [cache[name].cpu() for name in names]


def passed(model: Any, x: Int[Tensor, "text pos"], modules: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return what a model of transformers gives to each of these parts of it, in the order in which
    they run, and what each returns.
    """
    held: list[tuple[Any, Any]] = []

    def keep(part: Any, given: Any, out: Any) -> None:
        held.append((given, out))

    hooks = [part.register_forward_hook(keep) for part in modules]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return held


def has_positions(model: Any) -> bool:
    """Return whether a model adds a table of positions to its residual stream, as Equation 1 needs.

    >>> from ctxlib.weights import has_positions
    >>> has_positions(model)
    True
    """
    standard = check_kind(model, "a model").cfg.positional_embedding_type == "standard"
    return standard and (isinstance(model, Encoder) or getattr(model, "W_pos", None) is not None)


def check_layer(model: Any, layer: int) -> None:
    """Raise ValueError for a model that is not folded, that keeps the value biases of its heads in
    b_O or may do so (cx.load leaves them), or does not have the layer; TypeError for anything but a
    decoder.
    """
    folded = getattr(check_kind(model, "a decoder"), "compatibility_mode", True)
    check_index("layer", layer, model.cfg.n_layers)
    b_V, b_O = (getattr(model.blocks[layer].attn, name, None) for name in ("b_V", "b_O"))
    emptied = b_V is not None and b_O is not None and bool(b_O.any() and not b_V.any())
    emptied = emptied and not hasattr(model, "receipt")  # cx.load gives one, and folds none
    if emptied or not folded:  # the bridge does not say what it has folded
        what = "has its value biases folded into b_O" if emptied else "is not folded"
        raise ValueError(
            f"the model {what}: load it with cx.load, "
            "or boot it and call model.enable_compatibility_mode(fold_value_biases=False)"
        )


def score_divisor(config: Any, d_head: int, layer: int) -> float:
    """Return what attention scores are divided by: `sqrt(d_head)` in GPT-2, 1 in GPT-Neo. It comes
    from the checkpoint's own configuration: the bridge's `use_attn_scale` is always True.
    """
    if config.model_type == "gpt_neo":
        if config.attention_layers[layer] == "local":
            raise ValueError(f"layer {layer} of this GPT-Neo sees a window only: choose another")
        return 1.0
    by_layer = getattr(config, "scale_attn_by_inverse_layer_idx", False)
    return d_head**0.5 * (layer + 1 if by_layer else 1)


def center(W: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """Subtract the mean over d_model from what writes to the stream; LayerNorm ignores it."""
    return check_kind(W, "a tensor") - W.mean(dim=-1, keepdim=True)


def fold(
    gain: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    W: Float[Tensor, "d_model out"],
    b: Float[Tensor, " out"],
) -> tuple[Float[Tensor, "d_model out"], Float[Tensor, " out"]]:
    """Fold a LayerNorm's gain and bias into the linear map after it, and centre the result.

    `(g * x + c) W + b = x (g * W) + (c W + b)`. Subtracting from each column of `g * W` its mean
    changes nothing, because x has mean zero.
    """
    folded = gain[:, None] * W
    return folded - folded.mean(dim=0, keepdim=True), bias @ W + b


def project(
    x: Float[Tensor, "pos d_model"],
    W: Float[Tensor, "head d_model d_head"],
    b: Float[Tensor, "head d_head"],
) -> Float[Tensor, "head pos d_head"]:
    """Apply one linear map per head."""
    return einsum(x, W, "pos d_model, head d_model d_head -> head pos d_head") + b[:, None]
