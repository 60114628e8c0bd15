"""What training runs give: `data/evidence/training.json` and `dose.json`, for appendix E.

    python tools/evidence/training.py --work build/runs
    python tools/evidence/training.py --work build/runs --counted path/to/corpus    # counts alone

Three runs of `train_mini.py` share all but the seed (`base` is seed 0), at five ages; `mini` read
five times as much. First layers in a few numbers, neurons matched with those of another run and
with random mixtures of them, the map of domains, and two runs with a loss term that holds the scale
steady (the dose).

Fixed before it was run: another seed's neurons are found again if the median neuron's match exceeds
that of every one of 20 rotations; the map is there at 1% if it agrees with base's end by more than
0.9 in all three seeds, and not there if it does by no more than words alone in any; a forecast is
good within a factor of 1.5 at every dose. Fixed before the page measured it: the map needs no
attention if what a uniform average of the tokens' values adds, of base or of `mini`, agrees with
base's map by at least 0.9, and by at most 0.05 less than what the heads of `mini` add; attention
makes the map if both agree by less than 0.9. Fixed before the text was counted, when all else was
known: the map belongs to the corpus if vectors of one of two counts agree with it by at least 0.95,
and is learned beyond such counts if both stay below 0.9. What became of these is on the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import command
from evidence import export, rounded
from files import replace
from jaxtyping import Float
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn.functional import normalize
from tqdm.auto import tqdm
from train_mini import prepare

import ctxbook as cb
import ctxlib as cx
from ctxlib.weights import layer_norm_scale

SEEDS, AGES = ("base", "seed-1", "seed-2"), (1, 3, 10, 30, 100)  # ages in % of training
DOSES = ("base", "steady-1", "steady-3")
TEXTS, FEWER, TOKEN = 500, 200, " the"
BINS = np.linspace(0, 1, 41)
TURNS = 20  # rotations that mix the other run's neurons

Columns = Float[Tensor, "row neuron"]  # rows are tokens or texts


def every_head(model: Any) -> list[int]:
    return list(range(model.cfg.n_heads))


def describe(model: Any) -> dict[str, Any]:
    """Return a first layer in a few numbers; all heads are asked, stable or not."""
    weights = cx.LayerWeights.of(model)
    own = cx.study(weights, TEXTS, TOKEN, heads=every_head(model))
    n, x = own.n, own.fixed.prepare(own.texts[::5])
    tv = cx.total_variation(cx.attention_rows(weights, x, n), cx.approx_rows(weights, x, n))
    truth = own.fixed.exact_summary(x, every_head(model))
    r = cx.evaluation.Moments.of(own.circuit.summary(x), truth).table(range(truth.shape[1]))["r"]
    return {
        "effective tokens": sorted(own.head_table["effective tokens"].tolist()),
        "spread": sorted(own.head_table["coefficient of variation"].tolist()),
        "stable": int(own.head_table["stable"].sum()),
        "TV": round(float(tv.median(-1).values.median()), 3),
        "r": round(float(r.median()), 3),
    }


# ---------------------------------------------------------------- neurons and domains


def covariances(a: Columns, b: Columns, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return `neuron neuron` of a with a, a with b, b with b."""
    a, b = ((v.double() - weight @ v.double()) * weight.sqrt()[:, None] for v in (a, b))
    return a.T @ a, a.T @ b, b.T @ b


def match(aa: Tensor, ab: Tensor, bb: Tensor) -> Tensor:
    """Return each neuron's highest correlation with a neuron of the other model."""
    return (ab / (aa.diagonal()[:, None] * bb.diagonal()).sqrt()).max(1).values


def mixtures(aa: Tensor, ab: Tensor, bb: Tensor, turns: Tensor) -> Float[Tensor, "turn neuron"]:
    """Return the same where a rotation mixes the other model's neurons."""
    return torch.stack([match(aa, ab @ Q, Q.T @ bb @ Q) for Q in turns])


def rotations(size: int, draws: int) -> Tensor:
    dice = torch.Generator().manual_seed(0)
    drawn = torch.randn(draws, size, size, generator=dice, dtype=torch.double)
    return torch.stack([torch.linalg.qr(v).Q for v in drawn])


class Ground:
    """The texts on which runs are compared."""

    def __init__(self) -> None:
        study = cx.study(cx.load("mini"), TEXTS, TOKEN)
        self.texts, self.n, self.length = study.texts, study.n, study.length
        self.x = study.fixed.prepare(study.texts)
        self.domain = np.array([text.domain for text in study.texts])
        often = self.x[:, 1:].flatten().bincount(minlength=study.fixed.d_vocab).double()
        even = torch.full((len(self.x),), 1 / len(self.x)).double()
        self.share = {"tokens": often / often.sum(), "texts": even}

    def added(self, model: Any) -> dict[str, Columns]:
        """Return what tokens add to neurons, and what the heads add in texts."""
        own = cx.study(model, 22, TOKEN, heads=every_head(model))
        fixed = cx.fix_query(model, n=self.n, token=TOKEN)
        truth = [fixed.exact_summary(x, every_head(model)) for x in self.x.split(100)]
        return {"tokens": own.circuit.contribution, "texts": torch.cat(truth)}

    def compare(self, a: dict[str, Columns], b: dict[str, Columns]) -> dict[str, Any]:
        """Return how well two models' neurons match, over tokens and over texts."""
        facts, turns = {}, rotations(a["texts"].shape[1], TURNS)
        for over, share in self.share.items():
            aa, ab, bb = C = covariances(a[over], b[over], share)
            best, mixed = match(*C), mixtures(*C, turns)
            facts[over] = {
                "match": np.histogram(best, BINS)[0].tolist(),
                "of mixtures": np.histogram(mixed[0], BINS)[0].tolist(),
                "median": round(float(best.median()), 2),
                "median of mixtures": round(float(mixed.median(1).values.max()), 2),
                "universal": round(float((best - mixed.mean(0) > 0.5).double().mean()), 3),
                "CKA": round(float(ab.square().sum() / (aa.norm() * bb.norm())), 2),
            }
        return facts

    def geometry(self, truth: Columns) -> np.ndarray:
        """Return the cosines of the domains' means."""
        names = sorted(set(self.domain))
        means = torch.stack(
            [truth[torch.from_numpy(self.domain == name)].mean(0) for name in names]
        )
        means = normalize(means - means.mean(0), dim=1)
        return (means @ means.T).double().numpy()

    def own_end(self, columns: dict[str, Columns], last: dict[str, Columns]) -> float:
        """Return the median neuron's correlation over tokens with what it will be at the end."""
        aa, ab, bb = covariances(columns["tokens"], last["tokens"], self.share["tokens"])
        r = ab.diagonal() / (aa.diagonal() * bb.diagonal()).sqrt()
        return round(float(r.nan_to_num().median()), 2)

    def universal(self, ends: list[dict[str, Columns]]) -> cb.Estimate:
        """Return the share of base's neurons that exceed mixtures by 0.5 in both other seeds."""
        turns = rotations(ends[0]["texts"].shape[1], 3)

        def of(drawn: np.ndarray) -> float:
            share = torch.full((len(drawn),), 1 / len(drawn)).double()
            pairs = [
                covariances(ends[0]["texts"][drawn], e["texts"][drawn], share) for e in ends[1:]
            ]
            more = [match(*C) - mixtures(*C, turns).mean(0) for C in pairs]
            return float((torch.stack(more).min(0).values > 0.5).double().mean())

        return cb.with_interval(of, self.texts, 99)


def agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Return the correlation of two geometries over pairs of domains."""
    pairs = np.triu_indices(len(a), 1)
    return float(np.corrcoef(a[pairs], b[pairs])[0, 1])


def congruence(a: np.ndarray, b: np.ndarray, draws: int = 1000) -> tuple[float, float]:
    """Return how two geometries agree, and the highest that relabelled ones do."""
    orders = cb.nulls.permuted(np.arange(len(a)), draws)
    return round(agreement(a, b), 2), round(max(agreement(a, b[np.ix_(o, o)]) for o in orders), 2)


def of_counts(corpus: Path, work: Path) -> dict[str, float]:
    """Return how well base's map agrees with those of two counts over half of every domain's
    training text, with 256 numbers a token, averaged over a text's tokens: LSA (log counts in
    windows of 512 tokens, times idf), and positive mutual information within four tokens.
    """
    ground, base = Ground(), cx.load("mini-base")
    size = base.cfg.d_vocab
    halves = [v["train"][: len(v["train"]) // 2] for v in prepare(corpus, work).values()]
    stream = np.concatenate(halves).astype(np.int64)
    windows = stream[: len(stream) // 512 * 512]
    at = np.arange(len(windows)) // 512, windows
    X = csr_matrix((np.ones(len(windows), np.float32), at), (at[0][-1] + 1, size))
    X.sum_duplicates()
    idf = np.log(X.shape[0] / (1 + np.bincount(X.indices, minlength=size)))
    _, S, V = randomized_svd(X._with_data(np.log1p(X.data) * idf[X.indices]), 256, random_state=0)
    vectors = {"LSA": V.T * S}
    near = np.full((size, size), 1e-9, np.float32)
    for k in range(1, 5):
        pairs = np.bincount(stream[:-k] * size + stream[k:], minlength=size**2)
        near += pairs.reshape(size, size) + pairs.reshape(size, size).T
    near *= near.sum() / near.sum(1, keepdims=True) / near.sum(1)
    U, S, _ = randomized_svd(np.log(near).clip(min=0), 256, random_state=0)
    vectors["PPMI"] = U * S**0.5
    of_base = ground.geometry(ground.added(base)["texts"])
    x = ground.x[:, 1:].numpy()
    maps = {k: ground.geometry(torch.from_numpy(v[x].mean(1))) for k, v in vectors.items()}
    return {name: round(agreement(of, of_base), 3) for name, of in maps.items()}


def loss(model: Any, texts: list[Any], length: int) -> float:
    """Return nats a token over a tenth of the texts."""
    with torch.inference_mode():
        lost = [model(t.tokens[None, :length], return_type="loss") for t in texts[::10]]
    return round(float(torch.stack(lost).mean()), 3)


def of_seeds(runs: Path) -> dict[str, Any]:
    ground, models, added = Ground(), {}, {}
    for name in tqdm((*SEEDS, "mini"), "describing"):
        for age in reversed(AGES):
            place = runs / f"{name}-{age:03d}"
            run = cx.load(place)
            added[place.name] = ground.added(run)
            facts = json.loads((place / "run.json").read_text())
            facts |= {"age": age, "loss": loss(run, ground.texts, ground.length), **describe(run)}
            facts["own end"] = ground.own_end(added[place.name], added[f"{name}-100"])
            models[place.name] = facts
    ends = [added[f"{name}-100"] for name in SEEDS]
    two = list(combinations(range(3), 2))
    pairs = {f"{SEEDS[i]}, {SEEDS[j]}": ground.compare(ends[i], ends[j]) for i, j in two}
    pairs["base, itself at 30%"] = ground.compare(ends[0], added["base-030"])
    shared = ground.universal(ends)
    maps = [ground.geometry(end["texts"]) for end in ends]
    young = [ground.geometry(added[f"{name}-001"]["texts"]) for name in SEEDS]
    at_1 = (
        [agreement(v, maps[0]) for v in young],
        [agreement(v, w) for v, w in combinations(young, 2)],
    )
    return {
        "models": models, "pairs": pairs,
        "universal": shared.value, "universal, interval": shared.ends,
        "domains": [congruence(maps[i], maps[j]) for i, j in two],
        "domains at 1%": np.round(at_1, 2).tolist(),
    }  # fmt: skip


# ---------------------------------------------------------------- the dose


def dose(model: Any) -> dict[str, Any]:
    """Return how far the scale spreads, what Equation 1 costs there, and the forecast: the true
    rows times exp(c u + p v), with u and v drawn as the lengths spread."""
    w = cx.LayerWeights.of(model)
    own = cx.study(w, FEWER, TOKEN, every_head(model))
    n, x = own.n, own.fixed.prepare(own.texts)
    assert w.W_E is not None  # for mypy: a run has its embeddings
    s = layer_norm_scale(w.W_E[x] + w.W_pos[: n + 1], w.eps)[..., 0]  # text source
    ask = cx.decompose.qk_direction_at(w, x[:, n], n)
    C = float(w.W_E[x[:, 1:n]].norm(dim=-1).median())  # of texts
    at_n, typical = cx.decompose.content_scale(w, n, x), cx.decompose.shared_scale(w, C)[: n + 1]
    c = cx.decompose.content_component(w, ask.mT, n, x).mT  # text head source
    p = cx.decompose.positional_component(w, ask.mT, n, C).mT
    exact = (c * at_n[:, None] + p * typical) / s[:, None]
    published = cx.decompose.approx_scores(w, x, n)
    dice = torch.Generator().manual_seed(0)
    u, v = (
        (s / other).log()[:, 1:n].std() * torch.randn(len(x), 1, n + 1, generator=dice)
        for other in (at_n, typical)
    )
    scores = {
        "Equation 1": published,
        "BOS by its own key": torch.cat([exact[..., :1], published[..., 1:]], -1),
        "both repairs": torch.cat([exact[..., :1], (c + p)[..., 1:]], -1),
        "forecast": exact + c * u + p * v,
    }
    facts = {
        "spread": s[:, 1:n].log().std(),
        "to BOS": exact.softmax(-1)[..., 0].mean(0).max(), "BOS longer": s[0, 0] / at_n[0, 0],
    }  # fmt: skip
    rows = {k: e.softmax(-1) for k, e in scores.items()}
    return rounded(facts | responses(own, x, exact.softmax(-1), rows), 5)


def responses(own: Any, x: Tensor, true: Tensor, rows: dict[str, Tensor]) -> dict[str, Any]:
    """Return TV of rows; r and FVU of the median neuron, by these rows with the rest as in truth,
    and of the circuit of all heads and the self-normalised one."""
    fixed, w = own.fixed, own.fixed.decomposition.weights
    seen, s = w.normalized_resid(x, own.n), fixed.scale(x, fixed.head_outputs(x))

    def added(rows: Tensor) -> Tensor:
        z = torch.einsum("thd,hde->the", rows @ seen, w.W_V) + w.b_V
        return torch.einsum("the,hed->td", z, w.W_O) @ fixed.readout.W_in / s

    def r_and_fvu(approx: Tensor) -> dict[str, float]:
        domains = [text.domain for text in own.texts]
        return dict(cx.evaluation.r_and_fvu(approx, truth, domains)[["r", "FVU"]])

    truth = added(true)
    facts: dict[str, Any] = {}
    for k, row in rows.items():
        of_head = cx.total_variation(true, row).median(0).values
        facts[k] = {"TV": of_head.mean(), "TV of heads": of_head.tolist(), **r_and_fvu(added(row))}
    facts["circuit"] = r_and_fvu(own.circuit.summary(x))
    facts["self-normalised"] = r_and_fvu(own.circuit.self_normalized().summary(x))
    return facts


def of_doses(runs: Path) -> dict[str, Any]:
    measured = {}
    for name in tqdm((*DOSES, *SEEDS[1:], "mini"), "measuring"):
        run, record = cx.load(runs / f"{name}-100"), runs / f"{name}-100" / "run.json"
        own = cx.study(run, FEWER, TOKEN, every_head(run))
        only = cx.evaluation.error_budget(own.circuit, own.texts).loc["only"]
        facts = json.loads(record.read_text()) | {"loss": loss(run, own.texts, own.length)}
        measured[name] = facts | dose(run) | {"only": rounded(only.T.to_dict(), 5)}
    return measured


@command("training")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("build/runs"), help="of train_mini.py")
    parser.add_argument("--counted", type=Path, help="the corpus of `mini`: counts alone")
    args = parser.parse_args(argv)
    if args.counted:
        file = cb.evidence("training.json")
        found = json.loads(file.read_text()) | {"counted": of_counts(args.counted, args.work)}
        replace(file, f"{json.dumps(found, indent=1)}\n")
        return
    export(args.work, args.work / "models")
    for name, facts in {"training": of_seeds, "dose": of_doses}.items():
        found = json.dumps(facts(args.work / "models"), indent=1)
        replace(cb.evidence(f"{name}.json"), f"{found}\n")


if __name__ == "__main__":
    sys.exit(main())
