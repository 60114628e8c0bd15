"""Pack a model's first layer into a file with which a page computes the contextual circuit.

The file is a safetensors file under gzip, whose checksum and length show whether all of it arrived;
what is not a tensor is JSON in its metadata. Token embeddings are int8 with one float32 step a row,
rounded so that the error lies where the heads hardly look (`levels`), and less the middle of their
column, modulo 256: small numbers compress better. For the most frequent tokens a second int8 holds
what the rounding left, in 16ths of a step. (The stored layers' codec, a step for each row and a
spread for each column, gives larger errors here: it takes no account of the heads.) The other
matrices are float16 where that is close enough (`compact`), those on the values' path rounded for
their inputs (`value_path`); the biases are float32. All positions of the model are kept, so that a
page can put the query wherever a typed text ends. The ranking of the neurons at the usual query
comes from full weights, so that a page that opens with it need not compute it.

A site has the same in several files (`parts_of_layer`): one that a page opens with, which draws
kernels, and rows of a few tokens; all other tokens; and what neurons are computed with.
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
from safetensors.numpy import save
from tokenizers import Tokenizer
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
from ctxlib.texts.vocabulary import begin_token, text_tokens
from ctxlib.weights import LayerWeights, layer_norm

FORMAT, PART, VERSION = "ctxlib layer", "ctxlib layer part", 3
QUERY_TOKENS = (" the", " of", " and", " to", " a", " in", ",", ".", " ", "the")
DAMPING = 0.05  # of the metric of rounding errors: no direction may be free
BLOCK = 64  # columns that are rounded before later ones compensate
FINE, FINER = 400, 16  # tokens with a second level, and how many of those a step has
RANKED = 2**24  # numbers in a page's table of tokens by neurons
NAMED = 8  # tokens of a neuron that a page names
MATRICES = ("W_pos", "W_Q", "W_K")
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)  # the words that its tokenizer.json splits
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
NFC = {"type": "NFC"}
# how SentencePiece's BPE marks spaces
SPACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
IN_FRONT = {"type": "Prepend", "prepend": "▁"}
AT_SPACE = {
    "type": "Split",
    "pattern": {"String": " "},
    "behavior": "MergedWithPrevious",
    "invert": False,
}
SAMPLES = (
    "The cat's 12 hats,  1st of 3456!",
    " In front\n\nand behind ",
    "naïve Ærøskøbing, 文脈 and 👩‍🚀",
    "def area(w, h):\n    return w * h\t# <s>[CLS]<|endoftext|>",
    "",
)  # that a tokenizer and its tokenizer.json must read alike
BIASES = ("b_Q", "b_V", "b_O", "b_in")  # b_K drops out of the softmax
RANKING = ("ranking_top", "ranking_mean", "ranking_tokens")  # from `extreme_tokens`
OF_NEURONS = (
    "W_V",
    "W_O",
    "W_in",
    "b_V",
    "b_O",
    "b_in",
    "means",
    *RANKING,
)  # what neurons are computed with


def packed_layer(
    weights: LayerWeights, texts: Sequence[Text] | None = None, name: str = ""
) -> bytes:
    """Return the file's bytes, the same ones on every call.

    `texts` decide which heads are stable and which tokens are frequent, by default the thousand of
    `cx.texts.collection`; `name` is what a page calls the model. Raises ValueError for weights
    without token embeddings, MLP or tokenizer, for layers other than the first, and for a
    vocabulary that holds none of `QUERY_TOKENS`.
    """
    header, arrays = of_layer(weights, texts, name)
    return packed(header, arrays | of_tokens(arrays, np.arange(weights.d_vocab)))


def parts_of_layer(
    weights: LayerWeights,
    texts: Sequence[Text] | None = None,
    name: str = "",
    opening: Iterable[int] = (0,),
) -> dict[str, bytes]:
    """Return the same as several files by their names: layer.bin, which a page opens with and which
    has the tokens of these labelled passages up to the query position, and the query tokens; and in
    a folder with a digest in its name all other tokens, and what neurons are computed with.

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
    """Return what a page needs of some tokens, in the order of their ids."""
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
    """Return the header and the tensors."""
    weights = weights.to(device="cpu")
    labeled = passages(weights)
    read = collection(weights) if texts is None else list(texts)
    n = min(weights.n_ctx // 2, min(len(t.tokens) for t in [*labeled, *read]) - 1)
    queries = [fix_query(weights, n=n, token=token) for token in query_tokens(weights)]
    fixed = queries[0]
    untrained = fixed.decomposition.untrained
    stable = stable_or_none(fixed, read)
    prose = [p for p in labeled if p.domain in PROSE] or labeled
    chosen = stable or range(weights.n_heads)
    typical = most_typical_text(fixed, prose, chosen)
    counted = (~untrained).nonzero()[:, 0]
    circuits = [calibrated(query, typical) for query in queries]
    values = fixed.decomposition.values(range(weights.n_heads))[counted]
    means, places = rank_tokens(circuits, counted, lambda h: values[:, h])
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
        "calibration": {"name": typical.name, "ids": typical.tokens.tolist()},
        "families": described(families(fixed)),
        "passages": [{"name": p.name, "domain": p.domain, "title": p.subject} for p in labeled],
        "untrained": untrained.nonzero()[:, 0].tolist(),
        **spelt,
    }
    ids = np.uint16 if weights.d_vocab <= 2**16 else np.uint32
    top, mean, largest, _ = extreme_tokens(ContextualCircuit.calibrate(fixed, typical, chosen))
    ranking = (top.numpy(), compact(mean.numpy()), largest[:, :NAMED].numpy().astype(ids))
    arrays = {
        **embeddings(
            weights,
            error_metric(weights, circuits),
            most_frequent([*labeled, *read], weights.d_vocab),
        ),
        **{name: compact(getattr(weights, name).numpy()) for name in MATRICES},
        **value_path(weights, n),
        **{name: getattr(weights, name).numpy().astype(np.float32) for name in BIASES},
        "means": means.numpy().astype(np.float32),
        "ranked": flags(weights.d_vocab, best_ranked(places, counted, RANKED // weights.n_neurons)),
        "passage_ids": torch.cat([p.tokens for p in labeled]).numpy().astype(ids),
        "passage_ends": np.cumsum([len(p.tokens) for p in labeled]).astype(np.uint32),
        "merges": joins.astype(ids),
        **dict(zip(RANKING, ranking, strict=True)),
    }
    return header, arrays


# ---------------------------------------------------------------- the header


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
        "act_fn": weights.act_fn,
    }


def described(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the table of `cx.families` as records, under the page's names."""
    names = {
        "effective tokens": "effectiveTokens",
        "half-mass distance": "halfMass",
        "TV to uniform": "unevenness",
        "nats for a copy": "copyPreference",
    }
    defined = table.astype(object).where(table.notna(), None)  # JSON has no NaN
    return defined.rename(columns=names).to_dict("records")


def query_tokens(weights: LayerWeights) -> list[int]:
    """Return the ids of the query tokens that the vocabulary has, the most usual one first."""
    if weights.tokenizer is None:
        raise ValueError("these weights came without a tokenizer, and a page needs its vocabulary")
    spelt = [weights.tokenizer.encode(text, add_special_tokens=False) for text in QUERY_TOKENS]
    ids = [encoded[0] for encoded in spelt if len(encoded) == 1]
    if not ids:
        raise ValueError(f"none of {', '.join(map(repr, QUERY_TOKENS))} is one token of the model")
    return list(dict.fromkeys(ids))


def stable_or_none(fixed: FixedQuery, texts: Sequence[Text]) -> list[int]:
    """Return the stable heads, perhaps none: a page lets readers choose others."""
    table = head_table(fixed, texts)
    return table.index[table["stable"]].tolist()


def calibrated(fixed: FixedQuery, text: Text) -> ContextualCircuit:
    """Return the circuit of all heads for this query, calibrated on a text."""
    return ContextualCircuit.calibrate(fixed, text, range(fixed.n_heads))


def spelling(tokenizer: Any, d_vocab: int) -> tuple[dict[str, Any], np.ndarray]:
    """Return the vocabulary in the order of the ids ("" for ids without a token), the first token
    of every text, and what a page needs to tokenise text as the model does (`typed`), if it can;
    and the merges: the pairs of tokens that BPE joins, by rank, none where a page needs none.
    """
    names = {number: token for token, number in tokenizer.get_vocab().items()}
    vocab = [names.get(number, "") for number in range(d_vocab)]
    facts = {"bos": begin_token(tokenizer)[0], "vocab": vocab, "byte_level": False}
    if getattr(tokenizer, "is_fast", False):
        source = tokenizer.backend_tokenizer.to_str()
        spec = json.loads(source)
        how = typed(spec)
        if how and largest_typed(spec) < d_vocab and reads_alike(tokenizer, source):
            return facts | how, merges(spec["model"])
    return facts, np.zeros((0, 2), dtype=np.int64)


def largest_typed(spec: dict[str, Any]) -> int:
    """Return the largest id of a token that a typed text may become."""
    usual = [token["id"] for token in spec["added_tokens"] if not token["special"]]
    return max([*spec["model"]["vocab"].values(), *usual])


def reads_alike(tokenizer: Any, source: str) -> bool:
    """Return whether a tokenizer does nothing beyond what its tokenizer.json says."""
    own = Tokenizer.from_str(source)
    own.no_padding()
    own.no_truncation()
    own.encode_special_tokens = True  # a text is plain text
    return all(
        text_tokens(tokenizer, text) == own.encode(text, add_special_tokens=False).ids
        for text in SAMPLES
    )


def typed(spec: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a page is told to tokenise text as a tokenizer.json says, None if it cannot:
    whether letters are bytes, how texts become words if not as GPT-2's (`words_of`), tokens that
    are found in a text before it is split, and how many are the model's own if there are others.
    """
    words, model, all_added = words_of(spec), spec["model"], spec["added_tokens"]
    usual = [token for token in all_added if not token["special"]]
    late = {token["normalized"] for token in usual}  # found behind the normalizer
    if (
        words is None
        or len(late) > 1
        or any(token[k] for token in usual for k in ("single_word", "lstrip", "rstrip"))
    ):
        return None
    if late == {True} and spec["normalizer"]:
        if words.split()[-1] != "nfc" or not all(token["content"].isascii() for token in usual):
            return None
        words += " late"
    facts: dict[str, Any] = {"byte_level": not words.startswith(("pieces", "wordpiece"))}
    facts |= {"words": words} if words != "gpt2" else {}
    if usual:  # special ones are spelt out, but none of these is found inside one
        found = [token for token in all_added if token["normalized"] in late]
        found.sort(key=lambda token: -len(token["content"]))
        facts["added"] = [[token["content"], token["special"]] for token in found]
    if any(token["content"] not in model["vocab"] for token in all_added):
        facts["own"] = len(model["vocab"])
        if sorted(model["vocab"].values()) != [*range(facts["own"])]:
            return None
    return facts


def words_of(spec: dict[str, Any]) -> str | None:
    """Return how a tokenizer.json reads text, by the name that `splitting.js` has for it: the kind
    of words, and what else is done; None if pages cannot do it.
    """
    model, normalizer, before = spec["model"], spec["normalizer"], spec["pre_tokenizer"]
    if model["type"] == "WordPiece":
        return wordpiece(model, normalizer or {}, before)
    if (
        model["type"] != "BPE"
        or model.get("dropout")
        or any(model.get(k) for k in ("continuing_subword_prefix", "end_of_word_suffix"))
    ):
        return None
    if model.get("byte_fallback"):
        known = model["vocab"].keys() >= {f"<0x{byte:02X}>" for byte in range(256)}
        words = pieces(normalizer, before) if known else None
    elif normalizer in (None, NFC) and model.get("unk_token") is None:
        words = byte_level(before or {})
    else:
        words = None
    if words is None:
        return None
    return words + " whole" * bool(model.get("ignore_merges")) + " nfc" * (normalizer == NFC)


def wordpiece(
    model: dict[str, Any], normalizer: dict[str, Any], before: dict[str, Any] | None
) -> str | None:
    """Return how BERT's WordPiece reads text: "wordpiece", and what becomes of a text first."""
    facts = [model[k] for k in ("continuing_subword_prefix", "max_input_chars_per_word")]
    if (
        before != {"type": "BertPreTokenizer"}
        or normalizer.get("type") != "BertNormalizer"
        or [*facts, model["unk_token"]] != ["##", 100, "[UNK]"]
        or "[UNK]" not in model["vocab"]
    ):
        return None
    lower, strip = normalizer["lowercase"], normalizer["strip_accents"]
    does = {
        "clean": normalizer["clean_text"],
        "ideographs": normalizer["handle_chinese_chars"],
        "strip": lower if strip is None else strip,
        "lower": lower,
    }
    return " ".join(["wordpiece", *(name for name, done in does.items() if done)])


def pieces(normalizer: dict[str, Any] | None, before: dict[str, Any] | None) -> str | None:
    """Return how SentencePiece's BPE reads text: "pieces", where a space is put in front ("prepend"
    even if there is one), and "split" if each begins a word.
    """
    if normalizer == {"type": "Sequence", "normalizers": [IN_FRONT, SPACE]} and before is None:
        return "pieces prepend"
    if normalizer == SPACE and before in (None, AT_SPACE):  # where no space is left
        return "pieces"
    scheme, split = [(before or {}).get(k) for k in ("prepend_scheme", "split")]
    meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    if normalizer is not None or before != meta or scheme not in ("first", "always", "never"):
        return None
    return "pieces" + f" {scheme}" * (scheme != "never") + " split" * bool(split)


def byte_level(before: dict[str, Any]) -> str | None:
    """Return the kind of words that a pre-tokenizer of byte-level BPE makes."""
    *first, last = before.get("pretokenizers", [before])
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return None
    kinds = {
        ((), True): "gpt2",
        (("Digits", True), True): "digits",
        (("Split", QWEN2, "Isolated", False), False): "qwen2",
        (("Split", LLAMA3, "Isolated", False), False): "llama3",
    }
    return kinds.get((tuple(v for part in first for v in flat(part)), last["use_regex"]))


def flat(part: dict[str, Any]) -> list[Any]:
    """Return the values of a pre-tokenizer's settings, flattened."""
    return [
        v for value in part.values() for v in (flat(value) if isinstance(value, dict) else [value])
    ]


# ---------------------------------------------------------------- which tokens a page ranks


def rank_tokens(
    circuits: Sequence[ContextualCircuit],
    counted: Int[Tensor, " token"],
    of_head: Callable[[int], Float[Tensor, "token d_head"]],
) -> tuple[Float[Tensor, "circuit head d_head"], Int[Tensor, " token"]]:
    """Return what an average token adds to z of each head, per unit of kernel, and each token's
    best rank among those that move the residual stream farthest through one head, in any of the
    circuits. `of_head` returns a head's values of the counted tokens.
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


def best_ranked(
    places: Int[Tensor, " token"], counted: Int[Tensor, " token"], most: int
) -> Int[Tensor, " token"]:
    """Return the `most` counted tokens with the best ranks."""
    return counted[places.argsort(stable=True)[:most]]


def flags(d_vocab: int, tokens: Int[Tensor, " token"]) -> np.ndarray:
    """Return 1 for these tokens and 0 for the others: long runs, which compress well."""
    chosen = torch.zeros(d_vocab, dtype=torch.int8)
    chosen[tokens] = 1
    return chosen.numpy()


# ---------------------------------------------------------------- the tensors


def most_frequent(texts: Sequence[Text], vocab: int) -> np.ndarray:
    """Return the `FINE` most frequent tokens, in the order of their ids."""
    counts = np.bincount(np.concatenate([t.tokens.numpy() for t in texts]), minlength=vocab)
    return np.sort(np.argsort(-counts, kind="stable")[:FINE])


def error_metric(weights: LayerWeights, circuits: Sequence[ContextualCircuit]) -> np.ndarray:
    """Return a matrix M such that an error e in W_E costs about `e M e`.

    The error changes what a head adds to the neurons by `e W_V W_O W_in`, and the score through the
    query, which multiplies all that the head adds. All heads have equal weight.
    """
    fixed, W_in = circuits[0].fixed, weights.mlp_input()[0].double()
    values = fixed.decomposition.values(range(weights.n_heads)).double()
    queries = torch.stack([fixed_query(weights, fixed.n, c.fixed.token) for c in circuits])
    direction = einsum(queries, weights.W_K, "dest head e, head d e -> head dest d").double()
    total = torch.zeros(weights.d_model, weights.d_model, dtype=torch.double)
    for h in range(weights.n_heads):
        readout = weights.W_O[h].double() @ W_in
        through = weights.W_V[h].double() @ readout
        drive = ((values[:, h] @ (readout @ readout.T)) * values[:, h]).sum(-1).mean()
        score = direction[h] / weights.attn_scale
        cost = through @ through.T + drive * score.T @ score / len(score)
        total += cost / cost.trace()
    return (total / weights.n_heads + DAMPING * torch.eye(len(total)) / len(total)).numpy()


def levels(
    scaled: np.ndarray, metric: np.ndarray, rounding: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Round `scaled` column by column; later columns compensate for the rounding of earlier ones,
    as far as they can (GPTQ, arXiv 2210.17323).

    Rounding number by number keeps the page's error bound at the usual n as well, but exceeds it
    about five times as often on `mini` for texts of other lengths and for single tokens.
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
    """Return W_E as levels and steps, with a second, `FINER` times finer level for the tokens
    `fine`.
    """
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


def value_path(weights: LayerWeights, n: int) -> dict[str, np.ndarray]:
    """Return W_V, W_O and W_in, each rounded for its typical input: tokens at position n, their z,
    and the heads' outputs. Much of that is the same for all tokens, and an error there would be
    repeated for every token of a text. With 512 levels to either side they would compress to two
    thirds, and the summaries of `mini` would be wrong by up to 8% of their range.
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
    """Return W in float16, with its errors where x is small (`levels`); float32 as in `compact`."""
    if (close := compact(W.numpy())).dtype != np.float16:
        return close
    metric = (x.mT @ x).double().numpy()
    metric = metric / metric.trace() + DAMPING * np.eye(len(metric)) / len(metric)
    return levels(W.T.double().numpy(), metric, lambda c: c.astype(np.float16)).T.astype(np.float16)


def compact(W: np.ndarray) -> np.ndarray:
    """Return W in float16, or in float32 if float16 overflows or is coarser than a thousandth of
    the largest entry.
    """
    with np.errstate(over="ignore"):
        half = W.astype(np.float16)
    close = np.abs(half.astype(np.float32) - W).max() <= 1e-3 * np.abs(W).max()
    return half if close else W.astype(np.float32)


def merges(model: dict[str, Any]) -> np.ndarray:
    """Return the merges of a tokenizer.json as pairs of ids; a WordPiece has none."""
    listed = model.get("merges", [])
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in listed]
    ids = [[model["vocab"][token] for token in pair] for pair in pairs]
    return np.array(ids, dtype=np.int64).reshape(-1, 2)


# ---------------------------------------------------------------- the file


def packed(header: dict[str, Any], arrays: dict[str, np.ndarray], level: int = 9) -> bytes:
    """Return header and arrays as one safetensors file under gzip, at this level of compression.

    A float16 array becomes uint8, all low bytes before all high ones, which compresses better.
    """
    head = {"format": FORMAT, "version": VERSION} | header
    text = json.dumps(head, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    tensors = {
        name: np.ascontiguousarray(a.reshape(-1, 1).view(np.uint8).T.reshape(2, *a.shape))
        if a.dtype == np.float16
        else np.ascontiguousarray(a)
        for name, a in arrays.items()
    }
    return gzip.compress(save(tensors, {"header": text}), level, mtime=0)
