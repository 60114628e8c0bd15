"""Ship what `train_mini.py` has trained: `mini`, with its card, and its twins.

    python tools/evidence/ship_mini.py --corpus path/to/corpus --work build/runs

`mini` goes whole into the package. Of a twin go the embeddings and the first layer, which is what
the book reads of it, into `data/twins/`, outside the package; `ctxlib/data/twins.toml` lists their
files with checksums, so that `cx.load("mini-rotary")` finds them in a clone and fetches them
elsewhere. Every model is float16, in the format of the family that has its kind of positions: GPT-2
for learned ones and none, GPT-NeoX for rotary ones, MPT for ALiBi.

Then `make execute`, `make book` and `make test`; read the ledgers, and commit model and notebooks
together. The held-out texts are chosen again (`held_out_texts.py`) if the corpus, the
tokenizer or Python has changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import train_mini as tm
import transformers
from command import ROOT, command
from einops import rearrange
from files import digest, filled_in
from files import replace as write
from safetensors.torch import load_file
from torch import Tensor

MINI, TWINS = ROOT / "ctxlib" / "data" / "mini", ROOT / "data" / "twins"
LISTING = ROOT / "ctxlib" / "data" / "twins.toml"
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SHIPPED = TABLES["twins"]  # the twins that ship

# ---------------------------------------------------------------- formats


def as_model(
    state: dict[str, Tensor], recipe: tm.Recipe, layers: int | None = None
) -> transformers.PreTrainedModel:
    """Trained weights, under their GPT-2 names, as a model of the family that has their kind of
    positions; the first `layers` of it, or all.
    """
    recipe = replace(recipe, n_layer=layers or recipe.n_layer)
    state = renamed(state, TABLES["names"].get(recipe.positions))
    if recipe.positions == "rotary":
        neox = of_family(
            "gpt_neox", recipe,
            max_position_embeddings=recipe.n_ctx, intermediate_size=4 * recipe.n_embd,
            hidden_act="gelu_new", use_parallel_residual=False, attention_bias=True,
            rope_parameters={
                "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0,
            },
        )  # fmt: skip
        return filled(neox, by_head(state, recipe.n_head))
    if recipe.positions == "alibi":
        own = {"max_seq_len": recipe.n_ctx, "attn_config": {"alibi": True}, "no_bias": True}
        return filled(of_family("mpt", recipe, **own), state)
    return filled(tm.new_model(recipe), state)


def of_family(kind: str, recipe: tm.Recipe, **own: Any) -> transformers.PreTrainedModel:
    """A model of another family than GPT-2, of a recipe's sizes and of what is its family's own."""
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=recipe.vocab, hidden_size=recipe.n_embd,
        num_hidden_layers=recipe.n_layer, num_attention_heads=recipe.n_head,
        bos_token_id=tm.BOS, eos_token_id=tm.BOS, tie_word_embeddings=True, use_cache=False, **own,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config)


def renamed(state: dict[str, Tensor], names: dict[str, str] | None) -> dict[str, Tensor]:
    """Weights under another family's names; the matrices of layers, which GPT-2 stores input
    first, are transposed. Without names they are as they were.
    """
    if names is None:
        return state
    found = {}
    for name, weight in state.items():
        turn = weight.ndim == 2 and ".h." in name
        for ours, theirs in names.items():
            name = name.replace(f"{ours}.", f"{theirs}.")
        found[name] = weight.T if turn else weight
    return found


def by_head(state: dict[str, Tensor], heads: int) -> dict[str, Tensor]:
    """GPT-2 holds the queries of all heads, then keys, values; GPT-NeoX a head's at a time."""
    return {
        name: rearrange(fused, "(qkv h e) ... -> (h qkv e) ...", qkv=3, h=heads)
        if "query_key_value" in name
        else fused
        for name, fused in state.items()
    }


def filled(
    model: transformers.PreTrainedModel, state: dict[str, Tensor]
) -> transformers.PreTrainedModel:
    """The model with these weights; the unembedding is tied, and layers beyond its own stay out.
    A weight that it lacks is an error.
    """
    kept = model.load_state_dict({k: v.float() for k, v in state.items()}, strict=False)
    if absent := set(kept.missing_keys) - {"lm_head.weight", "embed_out.weight"}:
        raise ValueError(f"no weights for {', '.join(sorted(absent))}")
    model.tie_weights()
    return model


# ---------------------------------------------------------------- what ships


def trained(work: Path, run: str) -> tuple[dict[str, Tensor], dict]:
    """The last weights of a run that has ended, under their GPT-2 names, and its result."""
    folder = work / tm.folder_of(run)
    result = json.loads((folder / "result.json").read_text())
    return load_file(folder / "at-100.safetensors"), result


def recipe_of(result: dict) -> tm.Recipe:
    return tm.Recipe(**result["recipe"])


def save_half(model: transformers.PreTrainedModel, out: Path) -> None:
    """A Hugging Face folder of float16 safetensors, whole or not at all."""
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    model.half().save_pretrained(part, safe_serialization=True)
    (part / "generation_config.json").unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    for file in part.iterdir():
        file.replace(out / file.name)
    part.rmdir()


def save_tokenizer(words: Path, n_ctx: int, out: Path) -> None:
    marks = dict.fromkeys(("bos_token", "eos_token", "unk_token"), tm.SEPARATOR)
    transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(words), model_max_length=n_ctx, **marks
    ).save_pretrained(out)


def listing(names: list[str]) -> str:
    """`ctxlib/data/twins.toml`: what each twin is, and its files with sha256."""
    lines = ["# Made by tools/evidence/ship_mini.py: the twins of mini, their files with sha256."]
    for name in names:
        lines += ["", f"[{name}]", f"what = {json.dumps(SHIPPED[name]['what'])}"]
        for file in sorted((TWINS / name).iterdir()):
            lines.append(f'"{file.name}" = "{digest(file)}"')
    return "\n".join(lines) + "\n"


def ship_twins(work: Path) -> list[str]:
    """The first layers of the twins that are trained; the names of those that are there now."""
    for name, twin in SHIPPED.items():
        run = twin.get("run")
        if run and (work / tm.folder_of(run) / "result.json").exists():
            state, result = trained(work, run)
            save_half(as_model(state, recipe_of(result), layers=1), TWINS / name)
    there = [name for name in SHIPPED if (TWINS / name).is_dir()]
    write(LISTING, listing(there))
    return there


# ---------------------------------------------------------------- the card


def card(corpus: Path, result: dict, trials: list[dict], twins: list[dict], sha256: str) -> str:
    """The model card, in the order in which things happened: `card.md`, filled in. Sources
    and licences are those of the corpus manifest, where there is one.
    """
    recipe, manifest = recipe_of(result), corpus / "MANIFEST.json"
    return filled_in(
        "card.md",
        domains=json.loads(manifest.read_text())["domains"] if manifest.exists() else {},
        as_json=json.dumps(asdict(recipe), indent=2), version=sys.version.split()[0],
        recipe=recipe, result=result, trials=trials, twins=twins, sha256=sha256,
        table=tm.table, mean=tm.mean, BOS=tm.BOS, SEPARATOR=tm.SEPARATOR,
    )  # fmt: skip


def results_of(work: Path, runs: Iterable[str]) -> list[dict]:
    """The results of these runs, as far as they have ended, under the names that are asked for."""
    found = ((run, tm.ended(tm.folder_of(run), tm.RUNS[run], work)) for run in runs)
    return [result | {"run": run} for run, result in found if result]


@command("ship_mini")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="the folder it was trained on")
    parser.add_argument("--work", type=Path, default=Path("build/runs"), help="of train_mini.py")
    args = parser.parse_args(argv)
    print("twins:", ", ".join(ship_twins(args.work)) or "none")
    known = results_of(args.work, dict.fromkeys(map(tm.folder_of, tm.RUNS)))
    write(tm.RECORD, json.dumps(known, indent=1))
    if (args.work / "mini" / "result.json").exists():
        state, result = trained(args.work, "mini")
        save_half(as_model(state, recipe_of(result)), MINI)
        save_tokenizer(args.work / "tokenizer.json", result["recipe"]["n_ctx"], MINI)
        trials, twins = (results_of(args.work, runs) for runs in (tm.TRIALS, tm.TWIN_RUNS))
        text = card(args.corpus, result, trials, twins, digest(MINI / "model.safetensors"))
        write(MINI / "README.md", text)
        print(f"mini: {tm.mean(result['bits']):.4f} bits per byte")


if __name__ == "__main__":
    sys.exit(main())
