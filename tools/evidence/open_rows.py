"""Three open questions, asked of models at hand: `data/evidence/open_rows.json`.

    python tools/evidence/open_rows.py            # what is missing; names of questions choose

Fixed before it was run:

words. Is there a neuron of Qwen's first layer for war, climate, Pokémon, conspiracy? A neuron's
score for a list is the probability that a word of the list adds more to it than another word of the
texts does (an AUC). The neuron is chosen by every second word of the list and judged by the others.
There is one if the AUC of judging is above that of 95% of random lists of as many words of the
texts, each with a neuron chosen in the same way.

positions. In each layer of `mini`, how much of the variance of a neuron's pre-activation over texts
and positions (half a context and later left out: 1 to 256) does position explain? A neuron is
positional if it is half. The null permutes positions within each text.

languages. LAPE calls a neuron one of a language where its probability of being active has a low
entropy over languages (Tang et al. 2024): the 1% of lowest entropy, among those whose largest
probability is above the 95th percentile of all probabilities. Are they among the 100 neurons that
single tokens move farthest? They are if more of them are than in 95% of random sets of 100 neurons.
The gates of Qwen's first layer at every position, on texts in English, French, German, Spanish.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import command
from evidence import provenance, rounded
from first_layers import STRONGEST, keep, texts_for
from jaxtyping import Float
from scipy.stats import hypergeom
from torch import Tensor
from tqdm.auto import tqdm

import ctxbook as cb
import ctxlib as cx
from ctxlib.texts.text import Reader

VERSION = "1"
LISTS = {
    "war": "war battle army soldiers troops enemy weapons military invasion combat siege guns",
    "climate": "climate warming carbon emissions temperature greenhouse glaciers drought weather "
    "atmosphere ocean fossil",
    "Pokémon": "Pokemon Pikachu Nintendo trainer evolve battles creatures Ash Red Blue catch game",
    "conspiracy": "conspiracy secret truth hidden coverup elite agenda government plot CIA "
    "propaganda lies",
}
OTHERS, RANDOM_LISTS, LIMIT = 4000, 200, 0.05
HALF, LAPE_SHARE, LAPE_PERCENTILE = 0.5, 0.01, 0.95
LANGUAGES = {
    "English": "encyclopedic",
    "French": "french",
    "German": "german",
    "Spanish": "spanish",
}
EACH = 12  # texts of a language

Ranks = Float[Tensor, "neuron word"]


def aucs(ranks: Ranks, chosen: Tensor) -> Float[Tensor, " neuron"]:
    """Return for every neuron the probability that a chosen word adds more than another one."""
    n, rest = len(chosen), ranks.shape[1] - len(chosen)
    return (ranks[:, chosen].sum(1) - n * (n + 1) / 2) / (n * rest)


def found_for(ranks: Ranks, chosen: Tensor) -> tuple[int, float]:
    """Return the neuron that every second word chooses, and its AUC for the others."""
    best = int(aucs(ranks, chosen[::2]).argmax())
    return best, float(aucs(ranks[best : best + 1], chosen[1::2]))


def words_of(model: str, lists: dict[str, str] = LISTS) -> dict[str, Any]:
    """Return of each list the neuron that is chosen, its judging AUC, and what chance reaches."""
    fixed = cx.fix_query(model)
    _, texts = texts_for(Reader.of(fixed, fixed.length))
    circuit = cx.study(fixed, cb.halves(texts)[0], or_all=True).circuit
    tokens, dice = {}, np.random.default_rng(0)
    for name, words in lists.items():
        ids = [
            fixed.tokenizer.encode(f" {word}", add_special_tokens=False) for word in words.split()
        ]
        tokens[name] = [one[0] for one in ids if len(one) == 1]
    x = fixed.prepare(texts)
    counts = x.flatten().bincount(minlength=fixed.d_vocab)
    strings = cx.texts.decode_tokens(fixed, range(fixed.d_vocab))
    ordinary = [t for t in (counts >= 3).nonzero()[:, 0].tolist() if strings[t][1:].isalpha()
                and strings[t].startswith(" ")]  # fmt: skip
    own = sorted({t for some in tokens.values() for t in some})
    others = [t for t in ordinary if t not in own]
    pool = own + dice.permutation(others)[:OTHERS].tolist()
    place = {t: k for k, t in enumerate(pool)}
    parts = []
    for start in tqdm(range(0, fixed.n_neurons, 512), "contributions"):
        columns = circuit.weighted_values[pool].flatten(1)
        read = circuit.readout[..., start : start + 512].flatten(0, 1)
        parts.append((columns @ read).T.argsort(1).argsort(1).float() + 1)
    ranks, kept = torch.cat(parts), {}
    for name, ids in tokens.items():
        chosen = torch.tensor([place[t] for t in ids])
        neuron, auc = found_for(ranks, chosen)
        free = np.arange(len(own), len(pool))
        random = (dice.choice(free, len(ids), replace=False) for _ in range(RANDOM_LISTS))
        drawn = [found_for(ranks, torch.from_numpy(some))[1] for some in random]
        top = circuit.contribution_to([neuron])[0, pool].topk(10).indices.tolist()
        p = cb.nulls.p_value(auc, drawn)
        kept[name] = {
            "words": [strings[t] for t in ids],
            "neuron": neuron,
            "AUC": auc,
            "p": p,
            "random lists": np.quantile(drawn, [0.025, 0.5, 0.975]).tolist(),
            "top words": [strings[pool[k]] for k in top],
            "there is one": p < LIMIT,
        }
    return kept


class Positional:
    """The share of each neuron's variance that lies between the means of positions, from sums over
    positions that are taken once."""

    def __init__(self, pre: Float[Tensor, "text pos neuron"]):
        self.pre, self.mean, self.square = pre, pre.mean(1), pre.square().mean(1)

    def share(self, often: Float[Tensor, " text"]) -> Float[Tensor, " neuron"]:
        """Return it with each text counted so often, weights that sum to one."""
        by_position = torch.tensordot(often, self.pre, 1)
        return by_position.var(0, correction=0) / (often @ self.square - (often @ self.mean) ** 2)

    def of_drawn(self, drawn: np.ndarray) -> float:
        """Return how many of the neurons are positional, on the texts that are drawn."""
        counts = np.bincount(drawn, minlength=len(self.pre)) / len(drawn)
        return float((self.share(torch.from_numpy(counts).float()) > HALF).float().mean())


def positions_of(name: str, count: int = 200) -> dict[str, Any]:
    """Return of every layer how many neurons are positional, and with positions permuted."""
    model, dice = cx.load(name), torch.Generator().manual_seed(0)
    texts = cx.texts.collection(Reader.of(model, 257), count)
    x = torch.stack([text.tokens[:257] for text in texts])
    kept = {}
    for layer in range(model.cfg.n_layers):
        hook = f"blocks.{layer}.mlp.hook_pre"
        runs = [model.run_with_cache(few, names_filter=[hook])[1][hook] for few in x.split(16)]
        pre = torch.cat(runs)[:, 1:].detach()
        of, once = Positional(pre), torch.full((len(pre),), 1 / len(pre))
        share = of.share(once)
        deal = torch.rand(pre.shape[:2], generator=dice).argsort(1)
        dealt = torch.stack([one[order] for one, order in zip(pre, deal, strict=True)])
        null = Positional(dealt).share(once)
        drawn = cb.with_interval(of.of_drawn, texts, 99)
        kept[f"layer {layer}"] = {
            "median": float(share.median()),
            "largest": float(share.max()),
            "positional": drawn,
            "null, largest": float(null.max()),
        }
    return kept


def languages_of(name: str, each: int = EACH) -> dict[str, Any]:
    """Return how many of LAPE's language neurons are among the strongest, and by chance."""
    model = cx.load(name, layers=1)
    fixed = cx.fix_query(name)
    _, texts = texts_for(Reader.of(fixed, fixed.length))
    circuit = cx.study(fixed, cb.halves(texts)[0], or_all=True).circuit
    strongest = cx.find_neurons(circuit, threshold=-math.inf).index[:STRONGEST].tolist()
    probability = []
    for domain in tqdm(LANGUAGES.values(), "languages"):
        some = torch.stack([t.tokens[:257] for t in texts if t.domain == domain][:each])
        hook = "blocks.0.mlp.hook_pre"
        gates = [model.run_with_cache(few[None], names_filter=[hook])[1][hook] for few in some]
        probability.append((torch.cat(gates)[:, 1:] > 0).float().mean((0, 1)))
    p = torch.stack(probability)  # language neuron
    share = p / p.sum(0).clamp(min=1e-9)
    entropy = -(share * share.clamp(min=1e-9).log()).sum(0)
    active = p.amax(0) > p.flatten().quantile(LAPE_PERCENTILE)
    count = round(LAPE_SHARE * p.shape[1])
    lape = entropy.masked_fill(~active, math.inf).argsort()[:count].tolist()
    both = sorted(set(lape) & set(strongest))
    chance = float(hypergeom.sf(len(both) - 1, p.shape[1], count, len(strongest)))
    names = list(LANGUAGES)
    of = {n: sum(int(p[:, j].argmax()) == k for j in lape) for k, n in enumerate(names)}
    return {"neurons": count, "of a language": of, "among the strongest": both,
            "by chance": count * len(strongest) / p.shape[1], "p": chance,
            "entropy, median and lowest": [float(entropy.median()), float(entropy[lape[0]])],
            "most even": math.log(len(names)), "are among": chance < LIMIT}  # fmt: skip


QUESTIONS: dict[str, tuple[Callable[..., dict[str, Any]], str]] = {
    "words": (words_of, "qwen"),
    "positions": (positions_of, "mini"),
    "languages": (languages_of, "qwen"),
}


@command("open_rows")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("questions", nargs="*", default=list(QUESTIONS))
    parser.add_argument("--file", type=Path, default=cb.evidence("open_rows.json"))
    args = parser.parse_args(argv)

    def measure(question: str) -> dict[str, Any]:
        ask, name = QUESTIONS[question]
        return ask(name) | provenance(name)

    kept = keep(args.file, args.questions, measure, VERSION)
    print(rounded(kept, 3))


if __name__ == "__main__":
    sys.exit(main())
