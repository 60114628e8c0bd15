"""What chapter 8 shows of real models: `data/evidence/real.json`, `real.safetensors`, and the lines
about them that other pages quote (`rows.json`).

    python tools/evidence/real_models.py          # names of models choose; --rows: the lines alone

Of each model that `make models` has fetched: what its stable heads gather in each text, and
LayerNorm's scale, from which comes what they add to every neuron; TV by head; how far tokens move
each neuron; and r and FVU with each approximation made alone. The lines compare the
circuit of the stored layer with that, but for the FVU, which is the model's own (`one_page.py`).
Intervals are those had other documents been read or other texts calibrated, whichever is wider.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from command import command
from first_layers import REAL, STRONGEST, FirstLayer, first_layer, texts_for
from safetensors.torch import load_file, save_file
from torch import Tensor

import ctxbook as cb
import ctxlib as cx

KEPT = cb.evidence("real.json")
NAMES = dict(zip(REAL, ("Qwen", "SmolLM2", "MiniLM"), strict=True))
THIRD = 3  # each approximation is made on every third text of half B
PAGES, SEED, DRAWS = 20, 0, 199  # other texts that calibrate, and draws of documents
LINES = {
    "heads stable": "share_stable",
    "TV": "tv",
    f"r, {STRONGEST} strongest": "median_r",
    f"FVU, {STRONGEST} strongest": "median_fvu",
}


# ---------------------------------------------------------------- from the models


def kept_of(name: str) -> tuple[dict[str, Tensor], dict[str, Any], list[str]]:
    """Return what is kept of a model, tensors and facts, and the names of its texts."""
    layer = first_layer(name)
    study, fixed, heads = layer.study, layer.study.fixed, layer.heads
    on_B = [layer.texts[i] for i in layer.halves[1]]
    circuit, exact = study.circuit, fixed.require_exact()
    tv = [
        cx.total_variation(exact.rows(few), fixed.decomposition.rows(few))
        for few in layer.x.split(32)
    ]
    top = cx.find_neurons(circuit, threshold=-math.inf)["top"].sort_index()
    budget = cx.evaluation.error_budget(circuit, on_B[::THIRD], layer.strongest)[["r", "fvu"]]
    files = cx.models.real_models()[name]["files"]
    source = next(f for f in files if f.endswith((".gguf", ".safetensors")))
    tensors = {
        "inside": layer.z[:, heads].half().contiguous(),  # text head d_head
        "scale": layer.scale,
        "tv": torch.cat(tv).median(0).values,
        "top": torch.tensor(top.to_numpy("float32", copy=True)),
    }
    facts = {
        "source": source, "sha256": files[source], "n": fixed.n, "heads": heads,
        "calibrating": study.calibration_text.name,
        "budget": [[made, item, *row] for (made, item), row in budget.round(4).T.items()],
    }  # fmt: skip
    return tensors, facts, [text.name for text in layer.texts]


def keep_models(names: list[str]) -> None:
    """Run these models, and keep what is kept of them beside the others."""
    file = KEPT.with_suffix(".safetensors")
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"models": {}}
    held = load_file(file) if file.exists() else {}
    for name in names:
        tensors, facts, texts = kept_of(name)
        if texts != kept.setdefault("texts", texts):
            raise ValueError(f"{name} reads other texts than those that are kept")
        held |= {f"{name}.{key}": tensor for key, tensor in tensors.items()}
        kept["models"][name] = facts
    save_file(held, file)
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


# ---------------------------------------------------------------- lines, from the stored layers


def stored(name: str) -> tuple[FirstLayer, Tensor, Tensor]:
    """Return a stored layer on the texts with what is kept of the model: what its stable heads
    gather and LayerNorm's scale (`z` of other heads is zero), TV by head, and the neurons' order.
    """
    every = load_file(KEPT.with_suffix(".safetensors"))
    held = {k.removeprefix(f"{name}."): v for k, v in every.items() if k.startswith(f"{name}.")}
    fixed = cx.fix_query(name)
    _, texts = texts_for(cx.texts.Reader.of(fixed, fixed.length))
    study = cx.study(fixed, cb.halves(texts)[0], or_all=True)
    z = torch.zeros(len(texts), fixed.n_heads, held["inside"].shape[-1])
    z[:, list(study.heads)] = held["inside"].float()
    layer = FirstLayer(name, study, texts, fixed.prepare(texts), z, held["scale"], {})
    return layer, held["tv"], held["top"].argsort(descending=True, stable=True)


def both(guess: Tensor, true: Tensor) -> dict[str, Callable[[np.ndarray], float]]:
    """Return the medians of r and FVU over neurons, as functions of the texts drawn."""
    return {of: cb.median_over_neurons(of, guess, true) for of in ("r", "fvu")}


def lines_of(name: str) -> dict[str, str]:
    """Return the lines about a model."""
    layer, tv, order = stored(name)
    study, (A, B), heads = layer.study, layer.halves, layer.heads
    fixed, circuit, J = study.fixed, study.circuit, order[:STRONGEST].tolist()
    on_B, x, truth = [layer.texts[i] for i in B], layer.x, layer.truth
    everything, true = np.arange(len(B)), truth[B]
    texts_A = [layer.texts[i] for i in A]
    share = cx.denominators.head_variance_share(fixed, texts_A[::2])

    def over_heads(values: Any) -> float:
        weight = share[heads]
        return float(np.asarray(values)[heads] @ weight / weight.sum())

    def said(z: Tensor, neurons: Any = slice(None)) -> Tensor:
        return z.flatten(1) @ circuit.readout[..., neurons].flatten(0, 1)

    z = circuit.z(x)
    own = circuit.self_normalized().summary(x[B])
    drawn = x[np.random.default_rng(SEED).choice(A, PAGES, replace=False)]
    scale = fixed.scale(drawn, fixed.approx_head_outputs(drawn))
    pages = circuit.denominators / fixed.denominators(drawn)[:, heads] * circuit.scale / scale
    by_page = [
        [f(everything) for f in both(said(z[B] * page[:, None], J), true[:, J]).values()]
        for page in pages
    ]
    with_page = {}
    for k, (of, f) in enumerate(both(said(z[B], J), true[:, J]).items()):
        ends = np.quantile([row[k] for row in by_page], [0.025, 0.975])
        documents = cb.with_interval(f, on_B, DRAWS)
        wider = np.ptp(ends) > documents.high - documents.low
        with_page[of] = documents._replace(low=ends[0], high=ends[1]) if wider else documents
    off = torch.zeros(fixed.n_heads)
    denominators = fixed.denominators(x)[:, heads]
    off[heads] = (denominators[B] / circuit.denominators - 1).abs().mean(0)
    r_all = both(said(z[B]), true)["r"](everything)
    of_own = [cb.with_interval(f, on_B, DRAWS) for f in both(own[:, J], true[:, J]).values()]
    label, again = (
        cx.label_neurons(v, layer.domains[half], range(v.shape[1]))["label"].to_numpy()[J]
        for v, half in ((said(z[A]), A), (true, B))
    )
    controls, lines, law = (
        json.loads(cb.evidence(f"{f}.json").read_text()) for f in ("controls", "lines", "one_page")
    )
    fvu = law[name]["remedy"]["circuit"]  # with LayerNorm's own scale on the calibration text
    with_page["fvu"] = with_page["fvu"]._replace(value=fvu["FVU"][0])
    readings, carried = controls[name]["readings"], lines[name]["share"]  # of the heads themselves
    table = study.head_table
    return {
        "heads stable": f"{len(heads)} of {fixed.n_heads}",
        "heads by family": ", ".join(f"{v} {k}" for k, v in table["family"].value_counts().items()),
        "their share": f"{carried:.0%}",
        "effective tokens": f"{over_heads(table['effective tokens']):.0f}",
        "spread": f"{over_heads(table['coefficient of variation']):.2f}",
        "TV": f"{over_heads(tv):.3f}",
        "error of one page": f"{over_heads(off):.0%}",
        f"r, {STRONGEST} strongest": shown(*with_page["r"][:3]),
        "r with the pre-activation": shown(*readings["pre-activation"]["circuit"]["r"][:3]),
        "r with the activation": shown(*readings["activation"]["circuit"]["r"][:3]),
        "r of an even bag": shown(
            both(cb.uniform_average(circuit, x[B], J), true[:, J])["r"](everything)
        ),
        f"FVU, {STRONGEST} strongest": shown(*with_page["fvu"][:3]),
        "r, all": shown(r_all),
        "FVU, all": shown(fvu["FVU of all"]),
        "r, self-normalised": shown(*of_own[0][:3], digits=3),
        "FVU, self-normalised": shown(*of_own[1][:3], digits=3),
        "labels agree": f"{(label == again).mean():.0%}",
    }


def shown(*estimate: float, digits: int = 2) -> str:
    """Return a number, with its interval."""
    number, *ends = (f"{v:.{digits if v < 10 else 0}f}" for v in estimate)
    return f"{number} [{', '.join(ends)}]" if ends else number


@command("real models")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=REAL)
    parser.add_argument("--rows", action="store_true", help="the lines alone: no model is run")
    args = parser.parse_args(argv)
    if not args.rows:
        keep_models(args.models)
    table = pd.DataFrame({NAMES[name]: lines_of(name) for name in NAMES})
    printed = {line: cb.published(figure).value for line, figure in LINES.items()}
    table["GPT-2 small, published"] = pd.Series(printed).reindex(table.index, fill_value="")
    cb.keep_rows("08_real_model", table)


if __name__ == "__main__":
    sys.exit(main())
