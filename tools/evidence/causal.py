"""What is put in place of heads, beside what chapter 12 computes: `data/evidence/causal.json`.

    python tools/evidence/causal.py mini

Documents of half B are read, heads of the first layer silenced by a mean over half A. Kept of both
models: the loss that vectors of a domain give back, beside vectors as long and corrections of the
predictions, in the second half of the early tokens. Of `mini`: the stand-ins farther on, at n, and
at one position alone; what the near-copy's mean error over half A costs; BOS by its own key alone.
Of SmolLM2: each head, silenced alone. Fixed in advance:

- *Negative control*: a domain's vector gives back more of what silence of SmolLM2's stable heads
  costs in English than of what silence of its local head does.
- *Jointly*: silence of its stable heads costs more than the sum of what each costs alone.
- *Prior*: the vector gives back more in English than log odds of the domain's word frequencies, at
  the weight that is best on half A, in both models.
- *Rest*: without its constant part the vector gives back half of what it does whole, in both.
- *BOS*: read by its own key, it repairs a tenth of what the self-normalised circuit leaves, in the
  second half of the early tokens, all kinds of text.

Fixed later, when the other stand-ins had been seen and before the repaired circuit was put in (the
paper's circuit with the mean denominators of the texts behind the mean, and with what positions add
to values, as in chapter 11), of English and by the lower end of each interval:

- *Repaired, at home*: at n it repairs half of the damage of silence.
- *Repaired, everywhere*: over the early tokens it does less damage than silence.
- *Repaired, alone*: at n alone it does less damage than silence there.
- *Centred*: with each head's constant of the calibration text (chapter 8) it repairs more, at n and
  over the early tokens.

Fixed last, when all else had been seen and before the near-copy (the self-normalised circuit with
BOS read exactly) was put in at n alone, again of English and by the lower end of its interval:

- *Near-copy, alone*: at n alone it repairs half of the damage of silence there. If it does not, the
  test at one position fails a near-copy, too, and says little about the circuits.

Fixed when positions 48 to 96 had been judged by KL and by the loss, and before positions 97 to 255
were, of English, the repaired circuit and the vector of the domain paired:

- *Both windows*: in each window the vector is the mean of half A at the very positions judged. That
  neither is ahead is overturned where the interval of the difference of their shares leaves zero
  out; that the circuit stands in for the heads in part, where the lower end of its share is not
  above zero. If that depends on the window or on the measure, the page's lead says so. (No other
  whole model with learned positions is at hand; SmolLM2's are rotary.)

Fixed when both windows had been judged, and before the vector was put in at n:

- *At n*: with the vector that is the mean from position 97 on, at every position, neither it nor
  the repaired circuit is ahead at n, by the damage: the interval of the difference holds zero.

Fixed when that had failed, the circuit being ahead, and before a vector made at n was put in:

- *Made at n*: the vector is the mean of half A at n, with the query token there. It is added at
  every position, and, in a second run, where a text has that token (at n it always has), with the
  vector from position 97 on elsewhere. The repaired circuit is ahead at n if the lower end of the
  difference of the shares, of the damage, is above zero against both. If not, the page's lead says
  that the vector was behind there for where it had been made. The rise of the loss is judged in the
  same way, at positions 97 to 255 where the text itself has the token (none came after that at n).

Fixed after all this, when a referee had missed the simplest rival, and before any of it was put in;
of English, by the damage, in both windows and at n, the repaired circuit paired with each:

- *Uniform*: the tokens' values averaged evenly, with what positions add to values on average; and
  the same with each source weighted by its content, over the mean of such denominators. Kernel and
  content do causal work if the repaired circuit undoes a tenth more than the uniform average, the
  lower end of the difference above 0.1 in all three places; they do not if the upper end is below
  that in all three. The kernel does if the circuit is ahead of content alone, each lower end above
  zero.
- *Mean errors out*: each stand-in less the mean of its error over the texts behind the mean,
  position by position. At n alone the near-copy then repairs half of the damage of silence, and the
  repaired circuit does less damage than silence (lower ends). The page's lead says what comes out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from command import ROOT
from einops import einsum, rearrange
from evidence import keeping
from jaxtyping import Float
from torch import Tensor

import ctxbook as cb
import ctxlib as cx
from ctxlib.decompose import causal_softmax, split_scores, split_values
from ctxlib.lookups.causal import queries_along, require_equation_1

OUT = ROOT / "data" / "evidence" / "causal.json"
READ, MEANS = 97, 88  # tokens of a text; texts behind a mean
EACH = {"mini": 3, "smollm2": 2}  # documents of a domain that are read
FIT = 2  # documents of half A that fit a weight
PSEUDO = 1000  # tokens of the whole half's frequencies that each domain's own are mixed with
EARLY = torch.tensor([*range(3, READ - 1, 4), READ - 1])
SECOND = EARLY[EARLY >= READ // 2]
WEIGHTS = np.linspace(0, 1.5, 16)  # of the log odds
STAND_INS = (
    "paper's circuit",
    "self-normalised circuit",
    "the same, BOS read exactly",
    "repaired circuit",
    "centred, repaired circuit",
    "uniform average",
    "content alone",
)
NEAR_COPY, REPAIRED, UNIFORM = STAND_INS[2], STAND_INS[3], STAND_INS[5]
Vectors = Float[Tensor, "text d_model"]


# ---------------------------------------------------------------- one vector a domain


def message(z: Float[Tensor, "text pos head d"], W_O: Float[Tensor, "head d d_model"]) -> Vectors:
    """Return what heads write in the second half of the early tokens, mean over positions."""
    return einsum(z[:, READ // 2 : READ].mean(1), W_O, "t h d, h d m -> t m")


def as_long_as(g: Vectors, other: Vectors) -> Vectors:
    """Return vectors of the direction of `other` and the length of `g`."""
    return other * g.norm(dim=1, keepdim=True) / other.norm(dim=1, keepdim=True)


def vectors(
    written_A: Vectors, of_A: pd.DataFrame, written_B: Vectors, of_B: pd.DataFrame
) -> dict[str, Vectors]:
    """Return a vector of each sort for each text of half B. One that is alone of its kind has no
    other domain: what is drawn for it is not to be shown.
    """
    middle, drawn = written_A.mean(0), np.random.default_rng(0)
    domains, kinds = (of_B[column].to_numpy() for column in ("domain", "kind"))
    own = cb.domain_mean(written_A, of_A["domain"], domains) - middle
    pools = [
        np.flatnonzero((kinds == k) & (domains != d)) for k, d in zip(kinds, domains, strict=True)
    ]
    others = [int(drawn.choice(rows if len(rows) else len(own))) for rows in pools]
    random = torch.from_numpy(drawn.standard_normal(own.shape)).to(own)
    return {
        "its domain's": own,
        "its own text's": written_B - middle,
        "another domain's": as_long_as(own, own[others]),
        "random": as_long_as(own, random - random.mean(1, keepdim=True)),
    }


def log_odds(texts: Sequence[Any], d_vocab: int) -> dict[str, Tensor]:
    """Return the log odds of each domain's word frequencies against those of all texts."""
    counts = {text.domain: torch.zeros(d_vocab) for text in texts}
    for text in texts:
        counts[text.domain] += torch.bincount(text.tokens, minlength=d_vocab)
    p = torch.stack([*counts.values()]).sum(0) + 1
    p = p / p.sum()
    mixed = {d: (own + PSEUDO * p) / (own.sum() + PSEUDO) for d, own in counts.items()}
    return {d: own.log() - p.log() for d, own in mixed.items()}


def given_back(run, quiet, vectors, of, odds, fit, of_fit) -> dict[str, Any]:
    """Return the rise of the loss, a number a text, in silence and with what is put in place of the
    heads. `fit`, texts of half A, fit the log odds' weight and a vector's constant part.
    """
    before = run.loss(run.log_probs, run.rows).mean(1)

    def rises(g=None, shifts=(None,)):
        found = [[] for _ in shifts]
        for some in run.rows.split(11):
            add = [] if g is None else [cx.lookups.add_direction(0, g[some])]
            after = run.log_probs_with([quiet, *add], some)
            for of_shift, shift in zip(found, shifts, strict=True):
                of_shift.append(run.loss(after, some, shift).mean(1))
        return [torch.cat(of_shift) - before for of_shift in found]

    def by_domain(values, domains):
        return torch.stack([values[d] for d in domains])

    own = vectors["its domain's"]
    of_domain, odds_fit = dict(zip(of, own, strict=True)), by_domain(odds, of_fit)
    pushed = torch.stack([of_domain.get(d, torch.zeros_like(own[0])) for d in of_fit])
    without, with_it = (
        torch.cat([fit.log_probs_with([quiet, *add(some)], some) for some in fit.rows.split(11)])
        for add in (lambda rows: [], lambda rows: [cx.lookups.add_direction(0, pushed[rows])])
    )
    tried = [float(fit.loss(without, fit.rows, float(w) * odds_fit).mean()) for w in WEIGHTS]
    weight, moved = float(WEIGHTS[np.argmin(tried)]), (with_it - without)[:, :-1].mean(1)
    constant = cb.domain_mean(moved, of_fit, of)
    none, by_odds, by_constant = rises(shifts=[None, weight * by_domain(odds, of), constant])
    by_own, less = rises(own, [None, -constant])
    given = {"none": none}
    given |= {name: by_own if g is own else rises(g)[0] for name, g in vectors.items()}
    given |= {"log odds at the logits": by_odds, "constant part at the logits": by_constant}
    given["its domain's, less that part"] = less
    return {"weight": weight, "given": {k: v.tolist() for k, v in given.items()}}


# ---------------------------------------------------------------- mini: what stands in for heads


def at_one_position(run, z, heads) -> list[float]:
    """Return the KL at the last position when z (`text head d_head`) is put in there alone."""

    def change(rows):
        def hook(own, hook):
            own = own.clone()
            own[:, -1, heads] = z[rows].to(own)
            return own

        return [("blocks.0.attn.hook_z", hook)]

    return run.effect(change).kl[:, -1].tolist()


def even_weights(circuit, tokens: Tensor) -> Float[Tensor, "head pos source"]:
    """Return the contents of all sources, divided by how many there are."""
    split = require_equation_1(circuit.fixed)
    q = queries_along(split.weights, circuit.fixed.token, len(tokens))
    content, _ = split_scores(split.weights, tokens, q, split.C)
    return causal_softmax(torch.zeros_like(content)) * content.exp().tril()


def even_z(circuit, tokens: Tensor, denom: Tensor | None = None) -> Float[Tensor, "pos chosen d"]:
    """Return the mean of all values up to each position, with what positions add; with mean
    denominators, values are weighted by content.
    """
    split, heads = require_equation_1(circuit.fixed), list(circuit.heads)
    rows = even = causal_softmax(torch.zeros(len(heads), len(tokens), len(tokens)))
    if denom is not None:
        rows = even_weights(circuit, tokens)[heads] / denom[heads, : len(tokens), None]
    z, _ = split_values(split.weights, tokens, rows, heads)
    _, by_position = split_values(split.weights, tokens, even, heads, split.C)
    return rearrange(z + by_position, "h n e -> n h e")


def stand_ins(study) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return what takes a text to the z that is put into the stable heads, by name."""
    circuit = study.circuit
    denom = cx.lookups.denominators_along(study.fixed, study.calibration_text)
    behind = [text.tokens[: study.n + 1] for text in cb.halves(study.texts)[0][:MEANS]]
    logs = [cx.lookups.denominators_along(study.fixed, t).log() for t in behind]
    mean = torch.stack(logs).mean(0).exp()
    even = torch.stack([even_weights(circuit, t).sum(-1).log() for t in behind]).mean(0).exp()
    made = (
        lambda t: cx.lookups.circuit_z(circuit, t, denom),
        lambda t: cx.lookups.self_normalized_z(circuit, t),
        lambda t: cb.exact_bos_z(circuit, t),
        lambda t: cb.repaired_z(circuit, t, mean),
        lambda t: cb.repaired_z(circuit, t, mean, centered=True),
        lambda t: even_z(circuit, t),
        lambda t: even_z(circuit, t, even),
    )
    return dict(zip(STAND_INS, made, strict=True))


def without_mean_errors(study, texts, silent) -> tuple[dict, Tensor]:
    """Return three stand-ins less their mean error over texts, and that of the near-copy."""
    in_place = stand_ins(study)
    off = {
        name: torch.stack([*map(in_place[name], texts)]).mean(0) - silent
        for name in (NEAR_COPY, REPAIRED, UNIFORM)
    }
    mended = {
        f"{name}, mean error out": lambda t, name=name, of=of: in_place[name](t) - of[: len(t)]
        for name, of in off.items()
    }
    return mended, off[NEAR_COPY]


def farther_on(model, study, texts, silent, off, mended) -> dict[str, Any]:
    """Return KLs at n alone, and what the near-copy's mean error `off` costs, added to the heads'
    own at one position and at every one.
    """
    n, heads, found = study.n, list(study.heads), {}
    in_place = {k: stand_ins(study)[k] for k in (STAND_INS[0], NEAR_COPY, REPAIRED)} | mended
    near = cb.InterventionRun.of(model, texts, EARLY)
    far = cb.InterventionRun.of(model, texts, torch.tensor([n]), study.fixed.token)

    for name, stand_in in in_place.items():
        here = torch.stack([stand_in(t)[n] for t in far.tokens])
        puts = {"silence": silent[n].expand_as(here), name: here}
        found[f"alone: {name}"] = {k: at_one_position(far, v, heads) for k, v in puts.items()}
    moved = near.first_layer("attn.hook_z")[:, :, heads] + off[:READ]
    every = near.effect(lambda rows: [cx.lookups.replace_z(0, heads, moved[rows])])
    found["mean error alone"] = {
        "every place": every.kl[:, -1].tolist(),
        "one place": at_one_position(near, moved[:, -1], heads),
    }
    return found


def later_on(model, study, A, table, silent, mended) -> dict[str, Any]:
    """Return what silence, each stand-in and the domain's vectors cost from position 97 on: KL and
    rise of the loss before n, KL at n (`home`) and the sum of the rises where the text has the
    query token (`query`), a number a text; and both in the first window (`near`, where vectors are
    not those made there).
    """
    n, heads, of_A = study.n, list(study.heads), cb.first_windows(A, len(A))
    every, token = torch.arange(int(SECOND[0]), n + 1), study.fixed.token
    run = cb.InterventionRun.of(model, table["text"], every, token)
    run_A = cb.InterventionRun.of(model, of_A["text"], torch.tensor([n]), token)
    z = run_A.first_layer("attn.hook_z")[:, READ:, heads]
    written = torch.stack([z[:, :-1].mean(1), z[:, -1]]).flatten(2)
    written = written @ study.fixed.readout.W_O[heads].flatten(0, 1)  # where, text, d_model
    g, at_n = (cb.domain_mean(of, of_A["domain"], table["domain"]) - of.mean(0) for of in written)
    by_query = torch.where((run.tokens == token)[..., None], at_n[:, None], g[:, None])
    quiet = cx.lookups.replace_z(0, heads, silent)

    def push(v):
        add = cx.lookups.add_direction
        if v.ndim == 2:  # the same at every position
            return run.effect(lambda rows: [quiet, add(0, v[rows])])
        hook = "blocks.0.hook_attn_out"
        return run.effect(lambda rows: [quiet, (hook, lambda own, hook: own + v[rows])])

    effects = {"silence": run.effect(lambda rows: [quiet])}
    vectors_of = {"": g, ", made at n": at_n, ", by query": by_query}
    effects |= {f"its domain's{how}": push(v) for how, v in vectors_of.items()}

    def with_it(stand_in):
        z = torch.stack([stand_in(text) for text in run.tokens])
        return run.effect(lambda rows: [cx.lookups.replace_z(0, heads, z[rows])])

    in_place = stand_ins(study) | mended
    effects |= {name: with_it(stand_in) for name, stand_in in in_place.items()}
    asks = (run.tokens[:, every[:-1]] == token) & (every[:-1] >= READ)
    near, window = (torch.isin(every, v) for v in (SECOND[:-1], torch.arange(READ + 2, n - 1, 4)))
    return {
        name: {
            "kl": of.kl[:, window].mean(1).tolist(),
            "rise": of.rise[:, window[:-1]].mean(1).tolist(),
            "home": of.kl[:, -1].tolist(),
            "query": (of.rise * asks).sum(1).tolist(),
            "near": of.kl[:, near].mean(1).tolist(),
            "near rise": of.rise[:, near[:-1]].mean(1).tolist(),
        }
        for name, of in effects.items()
    }


# ---------------------------------------------------------------- both


def measure(name: str) -> dict[str, Any]:
    model = cx.load(name)
    texts = cx.texts.collection(cx.texts.Reader.of(model, 512), 1000)
    A, B = cb.halves(texts)
    if name == "mini":
        study = cx.study(model, 1000)
    else:
        study = cx.study(cx.fix_query(model, A, 256), A, or_all=True)
    stable, roster = list(study.heads), study.head_table
    table, table_A = cb.first_windows(B, EACH[name]), cb.first_windows(A, len(A))
    few = cb.first_windows(A, FIT)
    judged = cb.InterventionRun.of(model, table["text"], SECOND)
    early_A = cb.InterventionRun.of(model, table_A["text"], EARLY)
    z, z_A = (run.first_layer("attn.hook_z") for run in (judged, early_A))
    W_O = cx.lookups.layers.output_weights(model, 0)[0][0].cpu()
    middle = z_A.mean(0)
    if name == "mini":
        the = torch.tensor([study.fixed.token])
        meant = [torch.cat([text.tokens[: study.n], the]) for text in A[:MEANS]]
        middle = cx.lookups.mean_z(model, meant, study.n + 1)

    def silent_with(heads):
        written_A, written = (message(v[:, :, heads], W_O[heads]) for v in (z_A, z))
        quiet = cx.lookups.replace_z(0, heads, middle[:READ, heads])
        return quiet, vectors(written_A, table_A, written, table)

    counted = [t for t in A if (t.document or t.name) not in set(few["document"])]
    fit = cb.InterventionRun.of(model, few["text"], SECOND)
    odds, of = log_odds(counted, model.cfg.d_vocab), table["domain"].tolist()
    facts = {"texts": table[["document", "domain", "kind"]].to_numpy().tolist()}
    quiet, vectors_of = silent_with(stable)
    facts |= given_back(judged, quiet, vectors_of, of, odds, fit, few["domain"].tolist())
    if name == "mini":
        silent, read = middle[:, stable], table["text"].tolist()
        run = cb.InterventionRun.of(model, read, EARLY)
        key = torch.stack([cb.exact_bos_z(study.circuit, t, value=False) for t in run.tokens])
        own = torch.stack([cx.lookups.self_normalized_z(study.circuit, t) for t in run.tokens])

        def kl(v):
            return run.effect(lambda rows: [cx.lookups.replace_z(0, stable, v[rows])]).kl

        by_key = {"key": kl(key), "neither": kl(own)}
        facts["BOS"] = {k: v[:, -len(SECOND) : -1].mean(1).tolist() for k, v in by_key.items()}
        mended, off = without_mean_errors(study, meant, silent)
        facts["later on"] = later_on(model, study, A, table, silent, mended)
        facts["beyond"] = farther_on(model, study, read, silent, off, mended)
        return facts
    columns = ["effective tokens", "coefficient of variation", "family", "stable"]
    sets = {f"head {h}": [h] for h in roster.index}
    sets |= {"all stable": stable, "all heads": list(roster.index)}

    def alone(heads):
        quiet, of_heads = silent_with(heads)
        add, own = cx.lookups.add_direction, of_heads["its domain's"]
        changes = (lambda rows: [quiet], lambda rows: [quiet, add(0, own[rows])])
        return [judged.effect(change).rise.mean(1).tolist() for change in changes]

    facts["roster"] = roster[columns].T.to_dict()
    return facts | {"silenced": {which: alone(heads) for which, heads in sets.items()}}


main = keeping("causal", __doc__, OUT, EACH, measure)


if __name__ == "__main__":
    sys.exit(main())
