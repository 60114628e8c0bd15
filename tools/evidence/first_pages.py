"""Run real models for what pages 0 and 2 show of them: `data/evidence/welcome.json`, `keys.json`.

    python tools/evidence/first_pages.py            # Qwen and MiniLM, as far as they are here

Page 0: what two heads of Qwen's first layer add to a neuron at each token of a paragraph in two
spellings. The paragraph was written, with words of the table of spellings, before the neuron was
looked at on it. Page 2: how far four guesses are from the attention of MiniLM's heads.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from command import command
from einops import einsum
from files import replace

import ctxbook as cb
import ctxlib as cx
from ctxlib.files import kept_folder
from ctxlib.weights import passed

PARAGRAPH = (
    "The grey harbour was quiet. A neighbour who had travelled all night described its colours, "
    "the smell of mould, the theatre with its catalogue of plays. He apologised for his humour, "
    "and we realised that the centre of the town had not been organised for visitors."
)
NEURON, TEXTS = 6419, 250  # found in chapter 9; of the collection, to choose heads by


def spelled(side: int) -> str:
    """Return the paragraph in British (0) or American (1) spelling."""
    pair_of = cb.spelling.pair_of()
    parts = cb.spelling.respelled(PARAGRAPH, lambda word: pair_of[word.group()][side])
    return "".join(part for part, _ in parts)


def welcome() -> dict[str, Any]:
    """Return what Qwen's stable heads add to the neuron at each token of both texts, and the whole
    neuron before its activation.
    """
    fixed = cx.fix_query("qwen")
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, fixed.length), TEXTS)
    study = cx.study(fixed, texts, or_all=True)
    heads, model = list(study.heads), cx.load("qwen", layers=1).original_model.model
    layer = model.layers[0]
    parts = layer.self_attn.o_proj, layer.post_attention_layernorm  # in the order they run
    gate, gain = layer.mlp.gate_proj.weight[NEURON], layer.post_attention_layernorm.weight
    into = (layer.self_attn.o_proj.weight.T @ (gain * gate)).unflatten(0, (fixed.n_heads, -1))
    sides = []
    for side in (0, 1):
        own = fixed.tokenizer.encode(spelled(side), add_special_tokens=False)
        ids = [int(study.passages[0].tokens[0]), *own]
        ((z,), _), ((mid,), read) = passed(model, torch.tensor([ids]), parts)
        z = z[0].unflatten(-1, (fixed.n_heads, -1))[:, heads]
        added = einsum(z, into[heads], "token head d, head d -> token")
        added = added / (mid[0].square().mean(-1) + fixed.readout.eps).sqrt()
        whole = (read[0] @ gate).tolist()
        sides.append({"ids": ids, "model": added.tolist(), "gate": whole})
    file, sha256 = next(iter(cx.models.real_models()["qwen"]["files"].items()))
    kept = {"file": file, "sha256": sha256, "neuron": NEURON, "heads": heads}
    return kept | {"scale": study.circuit.scale, "texts": sides}


def guesses(name: str, n: int = 128, many: int = 200) -> dict[str, Any]:
    """Return the TV of four guesses to the true rows at n, a list of heads each, for the median
    text: uniform attention, kernel, content, Equation 1; and the heads' variance shares.
    """
    model = cx.load(name, layers=1)
    texts = cx.texts.collection(cx.texts.Reader.of(model, 2 * n), many)
    fixed = cx.fix_query(model, texts, n)
    parts = []
    for few in fixed.prepare(texts).split(25):
        exact = fixed.require_exact().rows(few)
        content = fixed.decomposition.content[:, few].transpose(0, 1)
        rows = (
            torch.full_like(exact, 1 / exact.shape[-1]),
            fixed.decomposition.kernels.expand_as(exact),
            content / content.sum(-1, keepdim=True),
            fixed.decomposition.rows(few),
        )
        parts.append(torch.stack([cx.total_variation(exact, guess) for guess in rows]))
    medians = torch.cat(parts, 1).quantile(0.5, dim=1)
    return {
        "n": n,
        "texts": len(texts),
        "share": cx.denominators.head_variance_share(fixed, texts[::2]).round(4).tolist(),
        "TV": [[round(v, 4) for v in row.tolist()] for row in medians],
    }


@command("first_pages")
def main(argv: list[str] | None = None) -> None:
    torch.set_grad_enabled(False)
    if kept_folder("qwen").is_dir():
        replace(cb.evidence("welcome.json"), json.dumps(welcome()) + "\n")
    if kept_folder("minilm").is_dir():
        files = cx.models.real_models()["minilm"]["files"]
        source = next(file for file in files if file.endswith("safetensors"))
        made = {"source": source, "sha256": files[source]} | guesses("minilm")
        replace(cb.evidence("keys.json"), json.dumps(made) + "\n")


if __name__ == "__main__":
    sys.exit(main())
