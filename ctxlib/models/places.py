"""Where models lie: the embedded `mini` and its twins, a local folder, a GGUF file, a name on the
Hugging Face hub, and the real models that `make models` fetches.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from huggingface_hub import constants, try_to_load_from_cache

from ctxlib.checks import as_path, check_kind
from ctxlib.files import DATA, kept_folder, repository_file

MINI = DATA / "mini"  #: the folder of the embedded model

# Hub names whose first layer adds a learned position to a token embedding and normalises the sum.
KNOWN = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2")


def locate(name: str) -> str:
    """Return the folder, GGUF file or hub name behind `name`; print a line if it will be
    downloaded.

    Raises ValueError for an unknown name, OSError for a real model that nobody has fetched.

    >>> cx.models.locate("mini") == str(cx.models.MINI)
    True
    """
    if check_kind(name, "a string") == "mini":
        return str(MINI)
    if name in twins():
        return str(twin(name))
    if name in real_models():
        return str(real_model(name))
    folder = as_path(name)
    if folder.is_file() and folder.suffix == ".gguf":
        return str(folder)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ValueError(
                f"{name} holds no config.json: "
                "expected a folder in Hugging Face layout (config, tokenizer, safetensors)"
            )
        return os.path.join(os.curdir, folder)  # a bare word may be a model of TransformerLens's
    if name not in KNOWN and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        hubs = {real["hub"].split("/")[1]: real["hub"] for real in real_models().values()}
        names = ("mini", *twins(), *KNOWN, *real_models(), *hubs)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        known = f"known names: mini, {', '.join((*KNOWN, *real_models()))}"
        meant = " or ".join(str(hubs.get(other, other)) for other in near)
        hint = f"did you mean {meant}?" if near else known
        raise ValueError(f"no model called {name!r}, and no such folder or GGUF file; {hint}")
    if not cached(name):
        print(
            f"{name} is no folder here and not in the cache: "
            f"downloading it from the Hugging Face hub to {constants.HF_HUB_CACHE}",
            flush=True,
        )
    return name


def twins() -> dict[str, str]:
    """Return the twins of `mini`, models trained like it on the same text in the same order, with
    what each differs in. Their embeddings and first layers are kept.

    >>> cx.models.twins()["mini-first-edition"].split(":")[0]
    "the first edition's model"
    """
    return {name: facts["what"] for name, facts in twin_files().items()}


@cache
def twin_files() -> dict[str, dict[str, str]]:
    """Return of every twin `what` it is and the sha256 of each of its files."""
    return tomllib.loads((DATA / "twins.toml").read_text(encoding="utf-8"))


def twin(name: str) -> Path:
    """Return the folder of a twin, its files fetched as by `repository_file`, with its errors."""
    for file, sha256 in twin_files()[name].items():
        if file != "what":
            place = repository_file(f"data/twins/{name}/{file}", sha256)
    return place.parent


@cache
def real_models() -> dict[str, dict[str, Any]]:
    """Return of every real model that `make models` fetches `what` it is, its name on the `hub`,
    its `licence`, the sums of its `files`, and the `package` with a version that holds it.

    >>> cx.models.real_models()["minilm"]["hub"]
    'sentence-transformers/all-MiniLM-L6-v2'
    """
    return tomllib.loads((DATA / "models.toml").read_text(encoding="utf-8"))


def real_model(name: str) -> Path:
    """Return the GGUF file or the folder of a real model, whose sums were compared when its files
    were put there.

    Raises OSError if it has not been fetched.
    """
    folder, real = kept_folder(name), real_models()[name]
    files = [folder / file for file in real["files"]]
    if not all(file.exists() for file in files):
        raise OSError(
            f"{name} is not in {folder}: run `make models NAME={name}` in a clone of the "
            f"repository, or load {real['hub']!r} from the Hugging Face hub"
        )
    return files[0] if len(files) == 1 else folder


def cached(name: str) -> bool:
    """Say whether nothing is left to fetch: config, tokenizer, weights in one file or several."""

    def here(*files: str) -> bool:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)

    weights = here("model.safetensors", "model.safetensors.index.json")
    return weights and here("config.json") and here("tokenizer.json", "vocab.json")
