"""What views compute with: the files in a site's `_static/data`, of an edition's own model and, for
explorer and reader, of real ones, with their neurons by label.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import ctxbook as cb
import ctxlib as cx
from ctxlib.query import FixedQuery
from ctxlib.studies import Study
from ctxviews.fixedfile import parts_of_destination
from ctxviews.layerfile import parts_of_layer
from ctxviews.neuronfile import packed_neuron

OPENING = (6,)  # labelled passages: the one that the views of chapters 1 and 2 open with
AT_ONCE = 256  # neurons whose columns are held
NAMED = 5  # tokens of a neuron


def packed(what: str, model: str, title: str) -> dict[str, bytes] | None:
    """The `layer` of a model that a page calls by its title, the `neuron` of the title page, or a
    real model: files by their names.
    """
    torch.set_num_threads(1)  # sums in one order: the same bytes on every run
    match what:
        case "layer":
            return of_edition(model, title)
        case "neuron":
            return {"neuron.bin": welcome_neuron()}
    return of_real_model(what)


def of_edition(model: str, title: str) -> dict[str, bytes] | None:
    """What pages need to compute the contextual circuit of a model's first layer
    (`ctxviews/layerfile.py`); None for a model without position embeddings.
    """
    try:
        weights = cx.LayerWeights.of(cx.load(model))
    except cx.weights.NoPositionEmbeddings as error:  # the build goes on without
        print(f"no views of {model}: {error}")
        return None
    texts = cx.texts.collection(weights, 1000)
    return parts_of_layer(weights, texts, title, OPENING)


def welcome_neuron() -> bytes:
    """What the title page's view computes with, from a stored layer (`neuronfile.py`)."""
    kept = json.loads((cb.evidence("welcome.json")).read_text(encoding="utf-8"))
    study = cx.study(cx.fix_query("qwen"), 1, heads=kept["heads"])  # calibrated on a passage
    return packed_neuron(study.circuit, kept["neuron"])


def of_real_model(name: str) -> dict[str, bytes]:
    """All files of a model. Texts that are too short for the destination of its stored layer are
    left out of its study.
    """
    fixed = cx.fix_query(name)
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length))
    study = cx.study(
        fixed, [text for text in texts if len(text.tokens) >= fixed.length], or_all=True
    )
    table = labeled(study).round(3).to_csv().encode()
    return parts_of_destination(study, name) | {f"{name}.csv": table}


def labeled(study: Study) -> pd.DataFrame:
    """Every neuron's label, from half A of the texts, what it is worth on half B, what one in
    twenty mixtures with the same label exceeds (*null*), its top, and the tokens that drive it:
    chapter 6's table, with mixtures of the neurons' summaries.
    """
    circuit, tokens = study.circuit, study.fixed.prepare(study.texts)
    domains = np.array([text.domain for text in study.texts])
    half = np.array([text.half for text in study.texts])
    names = np.unique(domains)
    inside = domains[half == "B"] == names[:, None]

    def judged(summaries: Tensor) -> pd.DataFrame:
        directions = range(summaries.shape[1])
        table = cx.label_neurons(summaries[half == "A"], domains[half == "A"], directions)
        every = cx.neurons.auc(summaries[half == "B"].double().numpy(), inside)
        return table.assign(auc=every[np.searchsorted(names, table["label"]), directions])

    summaries = circuit.summary(tokens)
    neurons, mixed = judged(summaries), judged(cb.nulls.mixtures(summaries))
    null = mixed.groupby("label")["auc"].quantile(0.95)
    found = cx.find_neurons(circuit, threshold=-np.inf).sort_index()
    drivers = driving(circuit, tokens[half == "A"], domains[half == "A"], neurons["label"])
    return neurons.assign(
        null=neurons["label"].map(null),
        top=found["top"],
        by_drive=[" ".join(shown(study.fixed, ids)) for ids in drivers],
    ).sort_values("top", ascending=False)


def shown(fixed: FixedQuery, ids: list[int]) -> list[str]:
    return [cb.figures.visible(str(token)) for token in cx.texts.decode_tokens(fixed, ids)]


def driving(
    circuit: cx.ContextualCircuit, tokens: Tensor, domains: np.ndarray, labels: pd.Series
) -> list[list[int]]:
    """The tokens that a neuron's label rests on most, as in chapter 6: what a token contributes,
    from what an average one does, times how much oftener texts of the label have it.
    """
    counts = torch.stack(
        [text.bincount(minlength=circuit.fixed.d_vocab) for text in tokens]
    ).float()
    often = counts / counts.sum(1, keepdim=True)
    usual = often.mean(0)
    gaps = {
        name: often[domains == name].mean(0) - often[domains != name].mean(0)
        for name in np.unique(domains)
    }
    drivers = []
    for some in np.array_split(labels.index, -(-len(labels) // AT_ONCE)):
        columns = circuit.contribution_to(some.tolist())
        gap = torch.stack([gaps[name] for name in labels[some]])
        drive = (columns - (columns @ usual)[:, None]) * gap
        drivers += drive.topk(NAMED).indices.tolist()
    return drivers
