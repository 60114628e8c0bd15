"""What a change of a model does to its predictions (chapter 12): hooks make the change, those of
`cx.lookups` or your own. Which documents are read, and what is put in place of heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.circuit import ContextualCircuit, shared_kernel
from ctxlib.decompose import causal_softmax, split_scores, split_values
from ctxlib.lookups.causal import Hook, circuit_z, queries_along, require_equation_1
from ctxlib.texts.text import Text

Change = Callable[[Int[Tensor, " text"]], Sequence[Hook]]  # the hooks for these rows of a run
BATCH = 11  # texts whose log-probabilities are computed at a time
KINDS = ("English", "other languages", "code")

# ---------------------------------------------------------------- what is read


def first_windows(texts: Sequence[Text], each: int) -> pd.DataFrame:
    """Return the first windows of so many documents of each domain, twice as many of one that is
    alone of its kind: a row a `text`, with its `domain`, `kind` (of `KINDS`) and `document`.

    >>> table = cb.first_windows(passages, 1)
    >>> table["kind"].value_counts().to_dict()
    {'English': 13, 'other languages': 3, 'code': 2}
    """

    def kind(text: Text) -> str:
        return KINDS[2 if text.dialect == "python" else not text.dialect.startswith("en")]

    facts = [(text, text.domain, kind(text), text.document or text.name) for text in texts]
    table = pd.DataFrame(facts, columns=["text", "domain", "kind", "document"])
    table = table.drop_duplicates("document")
    lone = table.groupby("kind")["domain"].transform("nunique") == 1
    return table[table.groupby("domain").cumcount() < each * (1 + lone)].reset_index(drop=True)


def exact_bos_z(
    circuit: ContextualCircuit, tokens: Int[Tensor, " pos"], value: bool = True
) -> Float[Tensor, "pos chosen d_head"]:
    """Return `cx.lookups.self_normalized_z`, but with the first token's own key, and its own value
    unless `value` is False.

    >>> cb.exact_bos_z(circuit, tokens[:40]).shape == (40, len(heads), weights.d_head)
    True
    """
    split = require_equation_1(circuit.fixed)
    weights, heads, q = split.weights, list(circuit.heads), split.weights.queries(tokens)
    bos = weights.normalized_resid(tokens[:1])[0]
    content, position = split_scores(weights, tokens, q, split.C)
    scores = content + position
    scores[..., 0] = einsum(q, bos @ weights.W_K, "h n e, h e -> h n") / weights.attn_scale
    rows = causal_softmax(scores[heads])
    others = rows.clone()
    others[..., 0] *= not value
    by_content, by_position = split_values(weights, tokens, others, heads, split.C)
    v = (bos @ weights.W_V + weights.b_V)[heads]
    z = by_content + by_position + value * rows[..., :1] * v[:, None]
    return rearrange(z, "h n e -> n h e")


def repaired_z(
    circuit: ContextualCircuit,
    tokens: Int[Tensor, " pos"],
    denominators: Float[Tensor, "head pos"],
    centered: bool = False,
) -> Float[Tensor, "pos chosen d_head"]:
    """Return `cx.lookups.circuit_z`, and what each head's own kernel adds by the positions of
    values, the same for every text (chapter 11). `denominators` are means over texts; `centered`
    takes each head's constant from the calibration text (chapter 8).

    >>> along = cx.lookups.denominators_along(fixed, circuit.calibration)
    >>> z = cb.repaired_z(circuit, tokens[:40], along)
    >>> z.shape == (40, len(heads), weights.d_head)
    True
    >>> page = circuit.calibration[:40]  # with its own denominators there is nothing to center
    >>> plain, too = (cb.repaired_z(circuit, page, along, centered=v) for v in (False, True))
    >>> torch.allclose(plain[-1], too[-1], rtol=0.2, atol=0.2)
    True
    """
    split = require_equation_1(circuit.fixed)
    heads, q = list(circuit.heads), queries_along(split.weights, circuit.fixed.token, len(tokens))

    def weights_of(x: Tensor) -> tuple[Tensor, Tensor]:
        content, position = split_scores(split.weights, x, q, split.C)
        kernels = causal_softmax(position[heads])
        return kernels, (shared_kernel(kernels) * content[heads].exp().tril()).sum(-1)

    kernels, weight = weights_of(tokens)
    _, by_position = split_values(split.weights, tokens, kernels, heads, split.C)
    z = circuit_z(circuit, tokens, denominators) + rearrange(by_position, "h n e -> n h e")
    if centered:
        page, borrowed = circuit.calibration[: len(tokens)], denominators[heads, : len(tokens)]
        constant = (
            circuit_z(circuit, page, denominators) * (borrowed / weights_of(page)[1]).T[..., None]
        )
        z = z + constant * (1 - weight / borrowed).T[..., None]
    return z


# ---------------------------------------------------------------- what a change does


@dataclass(frozen=True, eq=False)
class Effect:
    """What a change does to predictions: the `rise` of the loss and the `kl` divergence from the
    model as it is, in nats, and `size`, the variance over the vocabulary of the changes of
    log-probability.
    """

    rise: Float[Tensor, "text pos-1"]
    kl: Float[Tensor, "text pos"]
    size: Float[Tensor, "text pos"]


@dataclass(frozen=True, eq=False)
class InterventionRun:
    """Texts that a model reads while something in it is changed, judged at some positions. Make one
    with `of`.

    >>> run = cb.InterventionRun.of(model, passages[:2], torch.tensor([3, 7, 11]))
    >>> run.log_probs.shape == (2, 3, model.cfg.d_vocab)
    True
    >>> bool((run.effect(lambda rows: []).kl == 0).all())
    True
    """

    model: Any
    tokens: Int[Tensor, "text source"]
    positions: Int[Tensor, " pos"]
    targets: Int[Tensor, "text pos-1"]  # the tokens that follow all positions but the last

    @classmethod
    def of(
        cls,
        model: Any,
        texts: Sequence[Text],
        positions: Int[Tensor, " pos"],
        last: int | None = None,
    ) -> InterventionRun:
        """Return a run of texts as far as the last position, where the token `last`, if given,
        takes the place of a text's own. `positions` are in rising order.

        Raises ValueError for a text that is shorter.

        >>> cb.InterventionRun.of(model, passages[:2], torch.tensor([3, 7, 11])).tokens.shape
        torch.Size([2, 12])
        """
        length = int(positions[-1]) + 1
        if (shortest := min(len(text.tokens) for text in texts)) < length:
            raise ValueError(f"a text of {shortest} tokens, where {length} are read: leave it out")
        tokens = torch.stack([text.tokens[:length] for text in texts])
        targets = tokens[:, positions[:-1] + 1]
        if last is not None:
            tokens[:, -1] = last
        return cls(model, tokens, positions, targets)

    @property
    def rows(self) -> Int[Tensor, " text"]:
        """Return the indices of all texts."""
        return torch.arange(len(self.tokens))

    @cached_property
    def log_probs(self) -> Float[Tensor, "text pos vocab"]:
        """Return the log-probabilities of the next token, without a change."""
        return torch.cat([self.log_probs_with([], rows) for rows in self.rows.split(BATCH)])

    def log_probs_with(
        self, hooks: Sequence[Hook], rows: Int[Tensor, " text"]
    ) -> Float[Tensor, "text pos vocab"]:
        """Return the log-probabilities of the next token in some of the texts, hooks in place. The
        last MLP and the unembedding compute at the judged positions alone.
        """
        last = f"blocks.{self.model.cfg.n_layers - 1}.mlp.hook_"

        def put_back(own: Tensor, hook: Any) -> Tensor:  # in a text of zeros
            whole = own.new_zeros(len(own), self.tokens.shape[1], own.shape[-1])
            whole[:, self.positions] = own
            return whole

        def select(own: Tensor, hook: Any) -> Tensor:
            return own[:, self.positions]

        cropped = [("unembed.hook_in", select), (last + "in", select), (last + "out", put_back)]
        logits = self.model.run_with_hooks(self.tokens[rows], fwd_hooks=[*hooks, *cropped])
        return logits.log_softmax(-1).cpu()

    def first_layer(self, part: str, hooks: Sequence[Hook] = ()) -> Float[Tensor, "text source *d"]:
        """Return what a part of the first layer, such as `attn.hook_z`, computes in every text.

        >>> run = cb.InterventionRun.of(model, passages[:2], torch.tensor([3, 7, 11]))
        >>> run.first_layer("attn.hook_z").shape == (2, 12, model.cfg.n_heads, model.cfg.d_head)
        True
        """
        found: list[Tensor] = []
        keep = (f"blocks.0.{part}", lambda own, hook: found.append(own.cpu()))
        for some in self.tokens.split(32):
            self.model.run_with_hooks(some, fwd_hooks=[*hooks, keep], stop_at_layer=1)
        return torch.cat(found)

    def loss(
        self,
        log_probs: Float[Tensor, "text pos vocab"],
        rows: Int[Tensor, " text"],
        shift: Float[Tensor, "all_texts vocab"] | None = None,
    ) -> Float[Tensor, "text pos-1"]:
        """Return the loss of the target tokens in some of the texts, in nats; a text's `shift` is
        added to its log-probabilities at all positions.
        """
        log_probs = log_probs[:, :-1]
        if shift is not None:
            log_probs = (log_probs + shift[rows, None]).log_softmax(-1)
        return -log_probs.gather(-1, self.targets[rows, :, None])[..., 0]

    def effect(self, change: Change, rows: Int[Tensor, " text"] | None = None) -> Effect:
        """Return what a change does in all texts, or in some of them."""
        found = []
        for some in (self.rows if rows is None else rows).split(BATCH):
            before, after = self.log_probs[some], self.log_probs_with(change(some), some)
            rise, fall = self.loss(after, some) - self.loss(before, some), before - after
            found.append((rise, (before.exp() * fall).sum(-1), fall.var(-1)))
        return Effect(*map(torch.cat, zip(*found, strict=True)))
