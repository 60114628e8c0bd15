"""Read activations off a model's hooks at the last token of texts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ctxlib.checks import as_index, check_ids, check_kind, check_tokens
from ctxlib.texts.batching import batched, check_texts, progress
from ctxlib.texts.text import AnyText, Reader, token_ids
from ctxlib.weights import activations

TEXTS_AT_A_TIME = 4  # small batches stay in the processor's cache; changes no result


def at_last_token(
    model: Any,
    prompts: Sequence[AnyText],
    names: Sequence[str],
    stop_at_layer: int,
) -> dict[str, Tensor]:
    """Return the activations at the named hooks (all of shape `text pos ...`) at the last token of
    each prompt, `"prompt ..."`.

    Raises ValueError for no prompts, and as `pad` does.

    >>> name, prompts = "blocks.1.mlp.hook_pre", [tokens[:20], tokens[:30]]
    >>> cx.lookups.hooks.at_last_token(model, prompts, [name], stop_at_layer=2)[name].shape
    torch.Size([2, 1024])
    """
    check_kind(model, "a decoder")
    check_texts(prompts)
    if not len(prompts):
        raise ValueError("no prompts: give at least one")
    if unknown := {*check_kind(names, "a list")} - model.hook_dict.keys():
        raise ValueError(f"hooks {sorted(map(str, unknown))}: this model has none of these names")
    as_index("layer", stop_at_layer)
    reader = Reader.of(model)
    read = [token_ids(prompt, reader) for prompt in prompts]
    by_length = sorted(range(len(read)), key=lambda i: len(read[i]))
    alike = (list(group) for _, group in groupby(by_length, key=lambda i: len(read[i])))
    # batches of one length: a hook that sets the last position would set the padding otherwise
    batches, parts = [batch for group in alike for batch in batched(group, TEXTS_AT_A_TIME)], []
    for batch in progress(batches, "reading prompts", "batch"):
        ids, _ = pad(model, [read[i] for i in batch])
        parts.append([found[:, -1] for found in activations(model, ids, names, stop_at_layer)])
    order = torch.tensor(by_length).argsort()
    by_name = zip(names, zip(*parts, strict=True), strict=True)
    return {name: torch.cat(found)[order] for name, found in by_name}


def pad(
    model: Any, texts: Sequence[Int[Tensor, " _pos"]]
) -> tuple[Int[Tensor, "text pos"], Int[Tensor, " text"]]:
    """Return texts of different lengths as one batch, padded at their ends, which a causal model
    does not attend to from inside them; and the index of each one's last token.

    Raises ValueError for an empty text, one longer than the model's context, and unknown ids.

    >>> ids, last = cx.lookups.hooks.pad(model, [tokens[:30], tokens[:20]])
    >>> ids.shape, last
    (torch.Size([2, 30]), tensor([29, 19]))
    """
    n_ctx = check_kind(model, "a decoder").cfg.n_ctx
    check_texts(texts)
    for ids in texts:
        check_tokens(ids)
        if ids.ndim != 1 or not 2 <= len(ids) <= n_ctx:
            raise ValueError(
                f"a text of shape {tuple(ids.shape)}: expected BOS and 1 to {n_ctx - 1} tokens"
            )
        check_ids(ids, model.cfg.d_vocab)
    if not len(texts):
        raise ValueError("no texts: give at least one")
    padded = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    return padded, torch.tensor([len(ids) - 1 for ids in texts])
