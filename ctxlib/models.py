"""One door for every model:
the embedded `mini`, a local folder, or a name on the Hugging Face hub.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants, try_to_load_from_cache
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

DATA = Path(__file__).parent / "data"  #: what comes with the package: `mini`, texts, kept evidence
MINI = DATA / "mini"
TWINS = DATA.parent.parent / "twins"  # in a clone; they are not part of the package
ADDRESS = "https://github.com/context-from-weights/context-from-weights/raw/main/twins"

AGREES = 1e-2  # nats: folding changes log probabilities by its rounding only

# Hub names whose first layer adds a learned position to a token embedding and normalises the sum.
KNOWN = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2")


def load(name: str | os.PathLike, device: str | torch.device | None = None) -> TransformerBridge:
    """A model in TransformerLens's compatibility mode: LayerNorm folded, residual stream centred.

    `name` is "mini", one of its twins ("mini-rotary"; `cx.models.twins()` says which), a local
    folder in Hugging Face layout, or a hub name ("gpt2", "someone/some-gpt2"). Value biases stay
    with their heads, so that a head's output is all its own. Only safetensors are read, and no
    code that comes with a model is run. Before anything is downloaded, a line says what and
    whereto.

    The model computes on `device`, by default on a CUDA GPU where there is one and else on the CPU;
    it takes tokens from anywhere. What ctxlib reads from it, weights and activations, is handed
    back on the CPU; what you read yourself (`model(...)`, `run_with_cache`) lies on the device.

    What comes out is held against the model's own code on a few tokens. Raises ValueError for a
    name that is neither, for a device that is not there, for damaged or incomplete weights, and for
    a model that TransformerLens computes wrongly; OSError for a hub that is out of reach.

    >>> model = cx.load("mini")
    >>> model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_model, model.cfg.n_ctx
    (4, 8, 256, 512)
    """
    place = device_for(device)
    source = locate(str(name))
    transformers_logging.disable_progress_bar()
    try:
        hf_model, report = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=torch.float32,
            attn_implementation="eager",
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported below, all of them
            trust_remote_code=False,
        )
        words = MINI if str(name) in twins() else source  # a twin has mini's tokens
        tokenizer = AutoTokenizer.from_pretrained(words, trust_remote_code=False)
    except Exception as error:  # safetensors and the hub raise classes of their own
        if isinstance(error, OSError) and not Path(source).is_dir():
            raise OSError(
                f"{source} is no folder here and not in the cache, and the Hugging Face hub did "
                f"not give it: {first_line(error)}. Check the name and the connection, or download "
                'it elsewhere and pass the folder; "mini" needs no network.'
            ) from error
        if "Unrecognized configuration class" in str(error):
            raise ValueError(
                f"{source} is not a decoder: encoder-decoders such as T5 and encoders are not read "
                "here; chapter 10, What if positions are elsewhere?, treats T5's kind of positions"
            ) from error
        raise ValueError(
            f"the model in {source} cannot be read: {first_line(error)}; fetch or export it again"
        ) from error
    absent = sorted(report["missing_keys"])
    wrong = sorted(str(key[0]) for key in report.get("mismatched_keys", ()))
    if absent or wrong:
        raise ValueError(
            f"the weights in {source} do not fit its config.json: "
            f"{len(absent)} tensors are missing and {len(wrong)} have another shape "
            f"(first: {(absent + wrong)[0]}); fetch or export them again"
        )
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError(f"{source} holds no tokenizer: add its tokenizer.json")
    if not getattr(hf_model.config, "scale_attn_weights", True):
        raise ValueError(
            f"{source} does not scale its attention scores, which TransformerLens cannot do"
        )
    probe = torch.arange(min(8, len(tokenizer)))[None]
    with torch.inference_mode():
        expected = hf_model.eval()(probe).logits.log_softmax(-1)
    if not expected.isfinite().all():
        raise ValueError(
            f"{source} computes values that are not finite: its weights are damaged; "
            "fetch or export them again"
        )
    hf_model.register_forward_pre_hook(bring_tokens, with_kwargs=True)
    try:
        hf_model.to(place)  # the bridge leaves a model that it is given where it is
        model = TransformerBridge.boot_transformers(
            source, hf_model=hf_model, tokenizer=tokenizer, device=place
        )
        model.enable_compatibility_mode(disable_warnings=True, fold_value_biases=False)
        computed = model(probe).log_softmax(-1).cpu()
    except RuntimeError as error:
        raise ValueError(f"TransformerLens cannot run {source}: {first_line(error)}") from error
    if not (computed - expected).abs().max() < AGREES:
        raise ValueError(
            f"TransformerLens does not compute what {source} computes "
            f"(log probabilities differ by {(computed - expected).abs().max():.1g}): "
            "this kind of model cannot be read here"
        )
    return model.requires_grad_(False)


def device_for(device: str | torch.device | None = None) -> torch.device:
    """The device that is asked for; by default the GPU where there is one, else the CPU.

    Apple's GPUs have to be asked for by name ("mps"). ValueError for a device that is not there.

    >>> cx.models.device_for("cpu")
    device(type='cpu')
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=device).device  # with its number, "cuda:0"
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"no device {str(device)!r} here ({first_line(error)}); "
            "leave device out to take a GPU where there is one"
        ) from error


def bring_tokens(model: torch.nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """A hook that brings what a model is given to where its weights lie."""
    place = next(model.parameters()).device
    tensors = {k: v.to(place) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    return tuple(a.to(place) if isinstance(a, torch.Tensor) else a for a in args), tensors


def locate(name: str) -> str:
    """The folder or hub name behind `name`; says so when it will be downloaded.

    ValueError for an unknown name.

    >>> cx.models.locate("mini") == str(cx.models.MINI)
    True
    """
    if name == "mini":
        return str(MINI)
    if name in twins():
        return str(twin(name))
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ValueError(
                f"{name} holds no config.json: "
                "expected a folder in Hugging Face layout (config, tokenizer, safetensors)"
            )
        return str(folder)
    if name not in KNOWN and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        near = difflib.get_close_matches(name, ("mini", *twins(), *KNOWN), n=3, cutoff=0.5)
        known = f"known names: mini, {', '.join(KNOWN)}"
        hint = f"did you mean {' or '.join(near)}?" if near else known
        raise ValueError(f"no model called {name!r}, and no such folder; {hint}")
    if not cached(name):
        print(
            f"{name} is no folder here and not in the cache: "
            f"downloading it from the Hugging Face hub to {constants.HF_HUB_CACHE}",
            flush=True,
        )
    return name


def twins() -> dict[str, str]:
    """The twins of `mini`, and what each is: its embeddings and first layer, trained on the same
    text in the same order.

    >>> cx.models.twins()["mini-first-edition"].split(":")[0]
    "the first edition's model"
    """
    return {name: facts["what"] for name, facts in twin_files().items()}


@cache
def twin_files() -> dict[str, dict[str, str]]:
    """Of every twin, `what` it is and the sha256 of each of its files."""
    return tomllib.loads((DATA / "twins.toml").read_text(encoding="utf-8"))


def twin(name: str) -> Path:
    """The folder of a twin: in a clone its own, elsewhere one in the cache, to which its files are
    fetched from the repository's address the first time, and a line says so. A file that is not
    the one that was shipped is fetched again.

    Raises OSError for an address that is out of reach, ValueError for what comes damaged.
    """
    files = {file: known for file, known in twin_files()[name].items() if file != "what"}
    folder = TWINS / name
    if not folder.is_dir():
        folder = Path(torch.hub.get_dir()) / "ctxlib" / name
        folder.mkdir(parents=True, exist_ok=True)
    for file, known in files.items():
        place, url = folder / file, f"{ADDRESS}/{name}/{file}"
        if place.exists() and hashlib.sha256(place.read_bytes()).hexdigest() == known:
            continue
        print(f"{name} is not here yet: downloading {url} to {folder}", flush=True)
        try:
            torch.hub.download_url_to_file(url, str(place), hash_prefix=known, progress=False)
        except OSError as error:
            raise OSError(
                f"{url} is out of reach ({first_line(error)}); {name} lies in a clone of the "
                "repository as well"
            ) from error
        except RuntimeError as error:
            raise ValueError(f"what came from {url} is damaged: {first_line(error)}") from error
    return folder


def cached(name: str) -> bool:
    """Whether nothing is left to fetch: config, tokenizer, weights in one file or several."""

    def here(*files: str) -> bool:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)

    weights = here("model.safetensors", "model.safetensors.index.json")
    return weights and here("config.json") and here("tokenizer.json", "vocab.json")


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
