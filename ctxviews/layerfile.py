"""A model's first layer as one file, with which a page computes the contextual circuit.

The file is gzip, so that its checksum and length are gzip's own. Inside, little-endian:

    uint32   length of the header
    header   JSON, padded with spaces to a multiple of 8
    tensors  each at a multiple of 8, counted from the header's end

The header says which tensors there are (name, type, shape, offset). Token embeddings are int8 with
one float32 step a row, rounded so that what is lost lies where the heads hardly look (`levels`),
and less the middle of their column, modulo 256: small numbers pack better. For the tokens that most
of a text consists of, a second int8 says what the rounding left, in 16ths of a step. The other
matrices are float16 where that is close enough (`compact`), those that values pass rounded for what
they meet (`read_by_heads`), all low bytes before all high ones, which packs better; the biases are
float32. All positions of the model are kept, so that a page can place the destination wherever a
typed text ends. How the stable heads rank the neurons at the usual destination is told, of full
weights, so that a page that opens with them need not work it out.

A site has the same in several files (`parts_of_layer`): one that a page opens with, which draws
kernels, and rows of a few tokens; all other tokens; and what neurons are told with.
`engine/packed.js` reads it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from ctxlib.circuit import ContextualCircuit
from ctxlib.decompose import fixed_query
from ctxlib.denominators import head_table, most_typical_text
from ctxlib.fix import fix_query
from ctxlib.heads import families
from ctxlib.neurons import LARGEST, extreme_tokens
from ctxlib.query import FixedQuery
from ctxlib.studies import PROSE
from ctxlib.texts.sources import collection, passages
from ctxlib.texts.text import Text
from ctxlib.weights import LayerWeights, layer_norm

FORMAT, PART, VERSION = "ctxlib layer", "ctxlib layer part", 1
DESTINATIONS = (" the", " of", " and", " to", " a", " in", ",", ".", " ", "the")
DAMPING = 0.05  # of the metric of rounding errors: no direction is free
BLOCK = 64  # columns that are rounded before the ones behind them hear of it
FINE, FINER = 400, 16  # tokens with a second level, and how many of those a step has
RANKED = 2**24  # numbers in a page's table of tokens by neurons
NAMED = 8  # tokens of a neuron that a page names beside it
MATRICES = ("W_pos", "W_Q", "W_K")
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)  # the words that its tokenizer.json splits
BIASES = ("b_Q", "b_V", "b_O")  # b_K drops out of the softmax
RANKING = ("told_top", "told_mean", "told_tokens")  # what `extreme_tokens` says of every neuron
OF_NEURONS = ("W_V", "W_O", "W_in", "b_V", "b_O", "means", *RANKING)  # what neurons are told with


def packed_layer(
    weights: LayerWeights, texts: Sequence[Text] | None = None, name: str = ""
) -> bytes:
    """The file's bytes; the same ones on every call.

    `texts` say which heads are stable and which tokens are usual, by default the thousand of
    `cx.texts.collection`; `name` is what a page calls the model. Raises ValueError for weights
    without token embeddings, MLP or tokenizer, for layers other than the first, and for a
    vocabulary that holds none of `DESTINATIONS`.
    """
    header, arrays = of_layer(weights, texts, name)
    return packed(header, arrays | of_tokens(arrays, np.arange(weights.d_vocab)))


def parts_of_layer(
    weights: LayerWeights,
    texts: Sequence[Text] | None = None,
    name: str = "",
    opening: Iterable[int] = (0,),
) -> dict[str, bytes]:
    """The same as files by their names: layer.bin, with which a page opens and which has the tokens
    of these labelled passages up to the destination, and those that ask there; and in a folder that
    has a digest of all in its name the other tokens, and what neurons are told with.

    >>> from ctxviews.layerfile import parts_of_layer
    >>> [file.rpartition("/")[2] for file in parts_of_layer(weights, passages)]
    ['layer.bin', 'tokens.bin', 'neurons.bin']
    """
    header, arrays = of_layer(weights, texts, name)
    folder = folder_of("layer", arrays)
    labeled = passages(weights)
    read = [labeled[k].tokens[: header["n"] + 1].numpy() for k in opening]
    here = np.unique(np.concatenate([*read, [query["id"] for query in header["destinations"]]]))
    rest = np.setdiff1d(np.arange(weights.d_vocab), here)
    first = {name: array for name, array in arrays.items() if name not in OF_NEURONS}
    of_neurons = {name: arrays[name] for name in OF_NEURONS}
    return {
        "layer.bin": packed(header | {"folder": folder}, first | of_tokens(arrays, here)),
        f"{folder}/tokens.bin": packed({"format": PART}, of_tokens(arrays, rest)),
        f"{folder}/neurons.bin": packed({"format": PART}, of_neurons),
    }


def folder_of(name: str, arrays: dict[str, np.ndarray]) -> str:
    """The folder of a layer's further parts: another layer's is another."""
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays.values()))
    return f"{name}-{digest.hexdigest()[:8]}"


def of_tokens(
    arrays: dict[str, np.ndarray], some: Int[np.ndarray, " token"]
) -> dict[str, np.ndarray]:
    """What a page knows of some tokens, in the order of their ids."""
    finer = np.isin(arrays["fine"], some)
    return {
        "W_E": arrays["W_E"][some],
        "W_E_step": arrays["W_E_step"][some],
        "middle": arrays["middle"],
        "fine": arrays["fine"][finer],
        "W_E_fine": arrays["W_E_fine"][finer],
        "here": flags(len(arrays["W_E"]), torch.from_numpy(some)),
    }


def of_layer(
    weights: LayerWeights, texts: Sequence[Text] | None, name: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header, and the tensors."""
    weights = weights.to(device="cpu")
    labeled = passages(weights)
    read = collection(weights) if texts is None else list(texts)
    n = min(weights.n_ctx // 2, min(len(t.tokens) for t in [*labeled, *read]) - 1)
    all_at = [fix_query(weights, n=n, token=token) for token in destinations(weights)]
    untrained = all_at[0].decomposition.untrained
    stable = max_cv(all_at[0], read)
    prose = [p for p in labeled if p.domain in PROSE] or labeled
    chosen = stable or range(weights.n_heads)
    middle = most_typical_text(all_at[0], prose, chosen)
    counted = (~untrained).nonzero()[:, 0]
    circuits = [calibrated(fixed, middle) for fixed in all_at]
    values = all_at[0].decomposition.values(range(weights.n_heads))[counted]
    means, places = seen_by_heads(circuits, counted, lambda h: values[:, h])
    spelt, joins = spelling(weights.tokenizer, weights.d_vocab)
    header = {
        "model": name,
        **sizes(weights),
        "n": n,
        "largest": LARGEST,
        "finer": FINER,
        "stable": stable,
        "destinations": [
            {"id": c.fixed.token, "denominators": c.denominators.tolist(), "scale": c.scale}
            for c in circuits
        ],
        "calibration": {"name": middle.name, "ids": middle.tokens.tolist()},
        "families": described(families(all_at[0])),
        "passages": [{"name": p.name, "domain": p.domain, "title": p.subject} for p in labeled],
        "untrained": untrained.nonzero()[:, 0].tolist(),
        **spelt,
    }
    ids = np.uint16 if weights.d_vocab <= 2**16 else np.uint32
    top, mean, largest, _ = extreme_tokens(ContextualCircuit.calibrate(all_at[0], middle, chosen))
    ranking = (top.numpy(), compact(mean.numpy()), largest[:, :NAMED].numpy().astype(ids))
    arrays = {
        **embeddings(weights, heeded(weights, circuits), usual([*labeled, *read], weights.d_vocab)),
        **{name: compact(getattr(weights, name).numpy()) for name in MATRICES},
        **read_by_heads(weights, n),
        **{name: getattr(weights, name).numpy().astype(np.float32) for name in BIASES},
        "means": means.numpy().astype(np.float32),
        "ranked": flags(weights.d_vocab, farthest(places, counted, RANKED // weights.n_neurons)),
        "passage_ids": torch.cat([p.tokens for p in labeled]).numpy().astype(ids),
        "passage_ends": np.cumsum([len(p.tokens) for p in labeled]).astype(np.uint32),
        "merges": joins.astype(ids),
        **dict(zip(RANKING, ranking, strict=True)),
    }
    return header, arrays


# ---------------------------------------------------------------- what the header says


def sizes(weights: LayerWeights) -> dict[str, Any]:
    return {
        "layer": weights.layer,
        "vocab_size": weights.d_vocab,
        "d_model": weights.d_model,
        "heads": weights.n_heads,
        "d_head": weights.d_head,
        "neurons": weights.n_neurons,
        "positions": weights.n_ctx,
        "eps": weights.eps,
        "C": weights.typical_norm(),
        "attn_scale": weights.attn_scale,
    }


def described(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The families of `cx.families`, one a head, under the page's names."""
    names = {
        "effective tokens": "effectiveTokens",
        "half-mass distance": "halfMass",
        "TV to uniform": "unevenness",
        "nats for a copy": "copyPreference",
    }
    known = table.astype(object).where(table.notna(), None)  # JSON has no NaN
    return known.rename(columns=names).to_dict("records")


def destinations(weights: LayerWeights) -> list[int]:
    """The ids of the destination tokens that the vocabulary has, the most usual one first."""
    if weights.tokenizer is None:
        raise ValueError("these weights came without a tokenizer, and a page needs its vocabulary")
    spelt = [weights.tokenizer.encode(text, add_special_tokens=False) for text in DESTINATIONS]
    ids = [encoded[0] for encoded in spelt if len(encoded) == 1]
    if not ids:
        raise ValueError(f"none of {', '.join(map(repr, DESTINATIONS))} is one token of the model")
    return list(dict.fromkeys(ids))


def max_cv(fixed: FixedQuery, texts: Sequence[Text]) -> list[int]:
    """The stable heads; none where no head holds still: a page lets readers choose others."""
    table = head_table(fixed, texts)
    return table.index[table["stable"]].tolist()


def calibrated(fixed: FixedQuery, text: Text) -> ContextualCircuit:
    """What the calibration text gives all heads at this destination."""
    return ContextualCircuit.calibrate(fixed, text, range(fixed.n_heads))


def spelling(tokenizer: Any, d_vocab: int) -> tuple[dict[str, Any], np.ndarray]:
    """The vocabulary in the order of the ids ("" for ids that no token has), the first token of
    every text, whether merges are all that it takes to read text, and if words are other than
    GPT-2's, which; and the merges: the pairs of tokens that byte-pair encoding joins, by rank, none
    for other tokenizers.
    """
    names = {number: token for token, number in tokenizer.get_vocab().items()}
    bos = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    vocab = [names.get(number, "") for number in range(d_vocab)]
    spec = None
    if getattr(tokenizer, "is_fast", False):
        spec = json.loads(tokenizer.backend_tokenizer.to_str())
    words = byte_level(spec)
    other = {"words": words} if words not in (None, "gpt2") else {}
    said = {"bos": bos, "vocab": vocab, "byte_level": words is not None} | other
    return said, merges(spec["model"]) if spec and words else np.zeros((0, 2), dtype=np.int64)


def byte_level(spec: dict[str, Any] | None) -> str | None:
    """What words are, where a tokenizer.json is of a byte-pair encoding that `tokenizer.js` can do:
    GPT-2's, those with "digits" one by one, or "qwen2"'s, with " nfc" behind it where texts are
    composed first; else None.
    """
    if spec is None:
        return None
    model, normalizer = spec["model"], spec["normalizer"]
    words = words_of(spec["pre_tokenizer"] or {})
    if (
        words is None
        or normalizer not in (None, {"type": "NFC"})
        or model["type"] != "BPE"
        or model.get("ignore_merges")
        or model.get("unk_token") is not None
        or any(model.get(k) for k in ("continuing_subword_prefix", "end_of_word_suffix"))
    ):
        return None
    return f"{words} nfc" if normalizer else words


def words_of(before: dict[str, Any]) -> str | None:
    """The kind of words that a pre-tokenizer makes, if the pages have it."""
    *first, last = before.get("pretokenizers", [before])
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return None
    kinds = {
        ((), True): "gpt2",
        (("Digits", True), True): "digits",
        (("Split", QWEN2, "Isolated", False), False): "qwen2",
    }
    return kinds.get((tuple(v for part in first for v in flat(part)), last["use_regex"]))


def flat(part: dict[str, Any]) -> list[Any]:
    """What a pre-tokenizer is told, one by one."""
    return [
        v for value in part.values() for v in (flat(value) if isinstance(value, dict) else [value])
    ]


# ---------------------------------------------------------------- which tokens a page ranks


def seen_by_heads(
    circuits: Sequence[ContextualCircuit],
    counted: Int[Tensor, " token"],
    of_head: Callable[[int], Float[Tensor, "token d_head"]],
) -> tuple[Float[Tensor, "circuit head d_head"], Int[Tensor, " token"]]:
    """What an average token puts into each head, per unit of kernel, and each token's best place
    among those that move the residual stream farthest through one head, in any of the circuits.
    `of_head` gives a head's values of the counted tokens.
    """
    means, places = [], torch.full((len(counted),), len(counted))
    for h, W_O in enumerate(circuits[0].fixed.readout.W_O):
        values = of_head(h)
        # |z W_O|^2 = z W_O W_O^T z^T: no d_model numbers a token
        norms = ((values @ (W_O @ W_O.mT)) * values).sum(-1).sqrt()
        weights = [c.fixed.decomposition.content[h, counted] / c.denominators[h] for c in circuits]
        means.append(torch.stack([weight @ values / len(counted) for weight in weights]))
        for weight in weights:
            falling = (weight * norms).argsort(descending=True, stable=True)
            places = torch.minimum(places, falling.argsort())
    return torch.stack(means, dim=1), places


def farthest(
    places: Int[Tensor, " token"], counted: Int[Tensor, " token"], most: int
) -> Int[Tensor, " token"]:
    """The counted tokens with the best places, `most` of them."""
    return counted[places.argsort(stable=True)[:most]]


def flags(d_vocab: int, tokens: Int[Tensor, " token"]) -> np.ndarray:
    """1 for these tokens and 0 for the others: long runs, which pack well."""
    chosen = torch.zeros(d_vocab, dtype=torch.int8)
    chosen[tokens] = 1
    return chosen.numpy()


# ---------------------------------------------------------------- the tensors


def usual(texts: Sequence[Text], vocab: int) -> np.ndarray:
    """The tokens that are met most often, in the order of their ids."""
    counts = np.bincount(np.concatenate([t.tokens.numpy() for t in texts]), minlength=vocab)
    return np.sort(np.argsort(-counts, kind="stable")[:FINE])


def heeded(weights: LayerWeights, circuits: Sequence[ContextualCircuit]) -> np.ndarray:
    """How much an error in W_E matters, as a matrix M: the error e costs about `e M e`.

    It moves what the neurons get through a head, by `e W_V W_O W_in`, and the score, by the
    destination's query, which multiplies all that the neurons get. Heads count alike.
    """
    fixed, W_in = circuits[0].fixed, weights.mlp_input()[0].double()
    values = fixed.decomposition.values(range(weights.n_heads)).double()
    queries = torch.stack([fixed_query(weights, fixed.n, c.fixed.token) for c in circuits])
    asked = einsum(queries, weights.W_K, "dest head e, head d e -> head dest d").double()
    total = torch.zeros(weights.d_model, weights.d_model, dtype=torch.double)
    for h in range(weights.n_heads):
        readout = weights.W_O[h].double() @ W_in
        through = weights.W_V[h].double() @ readout
        drive = ((values[:, h] @ (readout @ readout.T)) * values[:, h]).sum(-1).mean()
        score = asked[h] / weights.attn_scale
        cost = through @ through.T + drive * score.T @ score / len(score)
        total += cost / cost.trace()
    return (total / weights.n_heads + DAMPING * torch.eye(len(total)) / len(total)).numpy()


def levels(
    scaled: np.ndarray, metric: np.ndarray, rounding: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """`scaled`, rounded column by column; the columns behind make up for what a column's rounding
    costs, as far as they can (the method of GPTQ, arXiv 2210.17323).

    By hand and not number by number: that keeps the page's bound at the usual n as well, but with
    `mini`, for texts of other lengths and for single tokens, leaves it about five times as often.
    """
    weight = np.linalg.cholesky(np.linalg.inv(metric)).T
    left, out = scaled.copy(), np.zeros_like(scaled)
    for start in range(0, len(metric), BLOCK):
        block = slice(start, start + BLOCK)
        errors = np.zeros_like(left[:, block])
        for i, k in enumerate(range(start, min(start + BLOCK, len(metric)))):
            out[:, k] = rounding(left[:, k])
            errors[:, i] = (left[:, k] - out[:, k]) / weight[k, k]
            left[:, k:][:, : BLOCK - i] -= errors[:, i, None] * weight[k, k : start + BLOCK]
        left[:, start + BLOCK :] -= errors @ weight[block, start + BLOCK :]
    return out


def embeddings(
    weights: LayerWeights, metric: np.ndarray, fine: np.ndarray
) -> dict[str, np.ndarray]:
    """W_E in levels and steps: a second, `FINER` times finer level for the tokens `fine`."""
    W_E = weights.embeddings().double().numpy()
    steps = (np.abs(W_E).max(1) / 127).astype(np.float32)
    scaled = W_E / np.where(steps > 0, steps, 1)[:, None]
    rounded = levels(scaled, metric, lambda column: np.rint(column).clip(-127, 127))
    left = np.rint(FINER * (scaled - rounded)[fine]).clip(-127, 127)
    middle = np.rint(rounded.mean(0))
    return {
        "W_E": (rounded - middle).astype(np.int16).astype(np.int8),
        "W_E_step": steps,
        "middle": middle.astype(np.int8),
        "fine": fine.astype(np.uint32),
        "W_E_fine": left.astype(np.int8),
    }


def read_by_heads(weights: LayerWeights, n: int) -> dict[str, np.ndarray]:
    """W_V, W_O and W_in, rounded for what comes into each of them: tokens at destination n,
    what they put into a head, and what each head writes. Most of that is the same for all tokens;
    an error there would be made again for every token of a text. In 512 levels to either side they
    would pack to two thirds, and the summaries of `mini` be off by up to 8% of their range.
    """
    x = layer_norm(weights.embeddings() + weights.W_pos[n], weights.eps)
    z = x @ weights.W_V + weights.b_V[:, None]  # head token d_head
    written = z @ weights.W_O  # head token d_model
    written = written / written.square().mean((1, 2), keepdim=True).sqrt()  # heads count alike
    return {
        "W_V": np.stack([rounded_for(x, W) for W in weights.W_V]),
        "W_O": np.stack([rounded_for(*pair) for pair in zip(z, weights.W_O, strict=True)]),
        "W_in": rounded_for(written.flatten(0, 1), weights.mlp_input()[0]),
    }


def rounded_for(x: Float[Tensor, "token here"], W: Float[Tensor, "here there"]) -> np.ndarray:
    """W in float16, with its errors where x is small (`levels`); float32 as in `compact`."""
    if (close := compact(W.numpy())).dtype != np.float16:
        return close
    metric = (x.mT @ x).double().numpy()
    metric = metric / metric.trace() + DAMPING * np.eye(len(metric)) / len(metric)
    return levels(W.T.double().numpy(), metric, lambda c: c.astype(np.float16)).T.astype(np.float16)


def compact(W: np.ndarray) -> np.ndarray:
    """float16; float32 where float16 overflows or is coarser than a thousandth of the largest
    entry.
    """
    with np.errstate(over="ignore"):
        half = W.astype(np.float16)
    close = np.abs(half.astype(np.float32) - W).max() <= 1e-3 * np.abs(W).max()
    return half if close else W.astype(np.float32)


def merges(model: dict[str, Any]) -> np.ndarray:
    """The merges of a tokenizer.json, as ids."""
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    ids = [[model["vocab"][token] for token in pair] for pair in pairs]
    return np.array(ids, dtype=np.int64).reshape(-1, 2)


# ---------------------------------------------------------------- the file


def packed(header: dict[str, Any], arrays: dict[str, np.ndarray], level: int = 9) -> bytes:
    """Header and arrays as one gzip file, of this level."""
    body, entries = bytearray(), []
    for name, array in arrays.items():
        entry = {"name": name, "type": array.dtype.name, "shape": array.shape, "offset": len(body)}
        entries.append(entry)
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if array.dtype == np.float16:
            little = little.reshape(-1).view(np.uint8).reshape(-1, 2).T
        body += little.tobytes()
        body += bytes(-len(body) % 8)
    whole = {"format": FORMAT, "version": VERSION} | header | {"tensors": entries}
    text = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * ((-len(text) - 4) % 8)  # with the four bytes in front, tensors are aligned
    content = len(text).to_bytes(4, "little") + text + bytes(body)
    return gzip.compress(content, level, mtime=0)
