"""Ship what `tools/train_mini.py` has trained: `mini`, with its card, and its twins.

    python tools/ship_mini.py --corpus path/to/corpus --work build/runs

`mini` goes whole into the package. Of a twin go the embeddings and the first layer, which is what
the book reads of it, into `twins/`, outside the package; `ctxlib/data/twins.toml` lists their files
with checksums, so that `cx.load("mini-rotary")` finds them in a clone and fetches them elsewhere.
Every model is float16, in the format of the family that has its kind of positions: GPT-2 for
learned ones and none, GPT-NeoX for rotary ones, MPT for ALiBi.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path

from einops import rearrange
from files import replace
from safetensors.torch import load_file
from torch import Tensor
from train_mini import (
    BOS,
    RECORD,
    RUNS,
    SEPARATOR,
    TRIALS,
    TWIN_RUNS,
    Recipe,
    ended,
    folder_of,
    mean,
    table,
)
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    MptConfig,
    MptForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

ROOT = Path(__file__).resolve().parent.parent
MINI, TWINS = ROOT / "ctxlib" / "data" / "mini", ROOT / "twins"
LISTING = ROOT / "ctxlib" / "data" / "twins.toml"
SHIPPED = {  # the twins that ship, by the names of their runs
    "mini-base": ("base", "learned positions: what the other twins are compared with"),
    "mini-rotary": ("rotary", "rotary positions over the whole head, and no others"),
    "mini-alibi": ("alibi", "ALiBi, and no other positions; no biases, and the exact GELU"),
    "mini-none": ("none", "no positions but the causal mask: W_pos is zero"),
}
FIRST_EDITION = "mini-first-edition"
CARD = Path(__file__).with_name("card.md")

# ---------------------------------------------------------------- formats


def as_model(
    state: dict[str, Tensor], recipe: Recipe, layers: int | None = None
) -> PreTrainedModel:
    """Trained weights, under their GPT-2 names, as a model of the family that has their kind of
    positions; the first `layers` of it, or all.
    """
    kept = recipe.n_layer if layers is None else layers
    family = {"rotary": as_neox, "alibi": as_mpt}.get(recipe.positions, as_gpt2)
    return family(state, recipe, kept).eval()


def as_gpt2(state: dict[str, Tensor], recipe: Recipe, layers: int) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=recipe.vocab, n_positions=recipe.n_ctx,
        n_embd=recipe.n_embd, n_layer=layers, n_head=recipe.n_head,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=BOS, eos_token_id=BOS, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    return filled(GPT2LMHeadModel(config), state)


def as_neox(state: dict[str, Tensor], recipe: Recipe, layers: int) -> GPTNeoXForCausalLM:
    config = GPTNeoXConfig(
        vocab_size=recipe.vocab, max_position_embeddings=recipe.n_ctx,
        hidden_size=recipe.n_embd, intermediate_size=4 * recipe.n_embd,
        num_hidden_layers=layers, num_attention_heads=recipe.n_head,
        hidden_act="gelu_new", use_parallel_residual=False, attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0},
        bos_token_id=BOS, eos_token_id=BOS, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip

    def by_head(fused: Tensor) -> Tensor:
        """GPT-2 holds the queries of all heads, then keys, values; GPT-NeoX a head's at a time."""
        return rearrange(fused, "... (qkv h e) -> (h qkv e) ...", qkv=3, h=recipe.n_head)

    renamed = {
        "gpt_neox.embed_in.weight": state["transformer.wte.weight"],
        **both(state, "transformer.ln_f", "gpt_neox.final_layer_norm"),
    }
    for i in range(layers):
        old, new = f"transformer.h.{i}", f"gpt_neox.layers.{i}"
        renamed |= both(state, f"{old}.ln_1", f"{new}.input_layernorm")
        renamed |= both(state, f"{old}.ln_2", f"{new}.post_attention_layernorm")
        for kind in ("weight", "bias"):
            fused = state[f"{old}.attn.c_attn.{kind}"]
            renamed[f"{new}.attention.query_key_value.{kind}"] = by_head(fused)
        for one, other in (
            ("attn.c_proj", "attention.dense"),
            ("mlp.c_fc", "mlp.dense_h_to_4h"),
            ("mlp.c_proj", "mlp.dense_4h_to_h"),
        ):
            renamed |= both(state, f"{old}.{one}", f"{new}.{other}")
    return filled(GPTNeoXForCausalLM(config), renamed)


def as_mpt(state: dict[str, Tensor], recipe: Recipe, layers: int) -> MptForCausalLM:
    config = MptConfig(
        vocab_size=recipe.vocab, max_seq_len=recipe.n_ctx,
        d_model=recipe.n_embd, n_layers=layers, n_heads=recipe.n_head,
        attn_config={"alibi": True}, no_bias=True,
        bos_token_id=BOS, eos_token_id=BOS, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    renamed = {
        "transformer.wte.weight": state["transformer.wte.weight"],
        "transformer.norm_f.weight": state["transformer.ln_f.weight"],
    }
    for i in range(layers):
        old, new = f"transformer.h.{i}", f"transformer.blocks.{i}"
        renamed |= {
            f"{new}.norm_1.weight": state[f"{old}.ln_1.weight"],
            f"{new}.norm_2.weight": state[f"{old}.ln_2.weight"],
            f"{new}.attn.Wqkv.weight": state[f"{old}.attn.c_attn.weight"].T,
            f"{new}.attn.out_proj.weight": state[f"{old}.attn.c_proj.weight"].T,
            f"{new}.ffn.up_proj.weight": state[f"{old}.mlp.c_fc.weight"].T,
            f"{new}.ffn.down_proj.weight": state[f"{old}.mlp.c_proj.weight"].T,
        }
    return filled(MptForCausalLM(config), renamed)


def both(state: dict[str, Tensor], old: str, new: str) -> dict[str, Tensor]:
    """Weight and bias under another name; matrices transposed, as GPT-2 stores them input first."""
    weight = state[f"{old}.weight"]
    return {
        f"{new}.weight": weight.T if weight.ndim == 2 else weight,
        f"{new}.bias": state[f"{old}.bias"],
    }


def filled(model: PreTrainedModel, state: dict[str, Tensor]) -> PreTrainedModel:
    """The model with these weights; the unembedding is tied, and layers beyond its own stay out.
    A weight that it lacks is an error.
    """
    own = model.state_dict()
    model.load_state_dict({k: v.float() for k, v in state.items() if k in own}, strict=False)
    absent = {k for k in own if k not in state} - {"lm_head.weight", "embed_out.weight"}
    if absent:
        raise ValueError(f"no weights for {', '.join(sorted(absent))}")
    model.tie_weights()
    return model


# ---------------------------------------------------------------- what ships


def trained(work: Path, run: str) -> tuple[dict[str, Tensor], dict]:
    """A run's last weights, under their GPT-2 names, and its result."""
    folder = work / folder_of(run)
    result = folder / "result.json"
    if not result.exists():
        raise ValueError(f"{run} is not trained to its end in {work}: run tools/train_mini.py")
    return load_file(folder / "at-100.safetensors"), json.loads(result.read_text())


def recipe_of(result: dict) -> Recipe:
    return Recipe(**{f.name: result["recipe"][f.name] for f in fields(Recipe)})


def save_half(model: PreTrainedModel, out: Path) -> None:
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
    marks = dict.fromkeys(("bos_token", "eos_token", "unk_token"), SEPARATOR)
    PreTrainedTokenizerFast(
        tokenizer_file=str(words), model_max_length=n_ctx, **marks
    ).save_pretrained(out)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def listing(names: dict[str, str]) -> str:
    """`ctxlib/data/twins.toml`: what each twin is, and its files with sha256."""
    lines = ["# Made by tools/ship_mini.py: the twins of mini, their files with sha256."]
    for name, what in names.items():
        lines += ["", f"[{name}]", f"what = {json.dumps(what)}"]
        for file in sorted((TWINS / name).iterdir()):
            lines.append(f'"{file.name}" = "{digest(file)}"')
    return "\n".join(lines) + "\n"


def ship_twins(work: Path, first_edition: Path | None) -> list[str]:
    """The first layers of the twins that are trained, and of the first edition's model where its
    folder is given; the names of those that are there now.
    """
    for name, (run, _) in SHIPPED.items():
        if (work / folder_of(run) / "result.json").exists():
            state, result = trained(work, run)
            save_half(as_model(state, recipe_of(result), layers=1), TWINS / name)
    if first_edition:
        config = json.loads((first_edition / "config.json").read_text())
        sizes = {"n_layer": 1, "n_ctx": config["n_positions"], "vocab": config["vocab_size"]}
        same = {name: config[name] for name in ("n_embd", "n_head")}
        state = load_file(first_edition / "model.safetensors")
        save_half(as_model(state, Recipe(**sizes, **same)), TWINS / FIRST_EDITION)
    what = {name: said for name, (_, said) in SHIPPED.items()}
    what[FIRST_EDITION] = (
        "the first edition's model: local heads built in by hand, and a loss that kept the scale "
        "of the first LayerNorm steady; the contrast"
    )
    there = {name: said for name, said in what.items() if (TWINS / name).is_dir()}
    replace(LISTING, listing(there))
    return list(there)


# ---------------------------------------------------------------- the card


def data_table(corpus: Path) -> list[str]:
    """One Markdown row a domain with its licences, from the corpus manifest where there is one."""
    manifest = corpus / "MANIFEST.json"
    if not manifest.exists():
        return ["The corpus came without a manifest: its sources and licences are not known here."]
    domains = json.loads(manifest.read_text())["domains"]
    licences = " ".join(s["licence"] for entry in domains.values() for s in entry["sources"])
    credits = {  # what these licences ask to be said
        "OpenStax": "OpenStax books: Rice University, CC BY 4.0.",
        "OGL 3.0": "Contains public sector information licensed under the Open Government Licence "
        "v3.0.",
    }
    owed = " ".join(said for name, said in credits.items() if name in licences)
    rows = [owed, ""] if owed else []
    rows += ["| domain | sources | licences |", "| --- | --- | --- |"]
    for name, entry in domains.items():
        origins = sorted({s["origin"] for s in entry["sources"]})
        more = f" and {len(origins) - 4} more" if len(origins) > 4 else ""
        terms = "; ".join(sorted({s["licence"] for s in entry["sources"]}))
        rows.append(f"| {name} | {', '.join(origins[:4])}{more} | {terms} |")
    version = sys.version.split()[0]
    rows.append(
        f"| python | the standard library of Python {version}, without its tests | PSF-2.0 |"
    )
    return rows


def card(corpus: Path, result: dict, trials: list[dict], twins: list[dict], sha256: str) -> str:
    """The model card, in the order in which things happened: `tools/card.md`, filled in."""
    recipe = recipe_of(result)
    held_out = [f"| {k} | {v:.4f} | {result['nats'][k]:.3f} |" for k, v in result["bits"].items()]
    return CARD.read_text(encoding="utf-8").format(
        recipe=recipe,
        as_json=json.dumps(asdict(recipe), indent=2),
        trials=table(trials),
        run=table([result]),
        held_out="\n".join(held_out),
        bits=mean(result["bits"]),
        nats=mean(result["nats"]),
        twins=table(twins),
        data="\n".join(data_table(corpus)),
        sha256=sha256,
        BOS=BOS,
        SEPARATOR=SEPARATOR,
    )


def results_of(work: Path, runs: Iterable[str]) -> list[dict]:
    """The results of these runs, as far as they have ended, under the names that are asked for."""
    found = ((run, ended(folder_of(run), RUNS[run], work)) for run in runs)
    return [result | {"run": run} for run, result in found if result]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="the folder it was trained on")
    parser.add_argument("--work", type=Path, default=Path("build/runs"), help="of train_mini.py")
    parser.add_argument("--first-edition", type=Path, help="folder of that model, to be a twin")
    args = parser.parse_args(argv)
    try:
        print("twins:", ", ".join(ship_twins(args.work, args.first_edition)) or "none")
        known = results_of(args.work, dict.fromkeys(map(folder_of, RUNS)))
        replace(RECORD, json.dumps(known, indent=1))
        if (args.work / "mini" / "result.json").exists():
            state, result = trained(args.work, "mini")
            save_half(as_model(state, recipe_of(result)), MINI)
            save_tokenizer(args.work / "tokenizer.json", result["recipe"]["n_ctx"], MINI)
            trials, twins = (results_of(args.work, runs) for runs in (TRIALS, TWIN_RUNS))
            text = card(args.corpus, result, trials, twins, digest(MINI / "model.safetensors"))
            replace(MINI / "README.md", text)
            print(f"mini: {mean(result['bits']):.4f} bits per byte")
    except ValueError as error:
        print(f"ship_mini: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
