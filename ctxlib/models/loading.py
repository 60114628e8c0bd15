"""Load a model by one function, wherever it lies, and compare what comes out with its own code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

import gguf
import torch
import transformers
from IPython.utils.capture import capture_output
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge.generalized_components import NormalizationBridge
from transformer_lens.model_bridge.sources import detect_tokenizer_bos_eos
from transformer_lens.weight_processing import ProcessWeights
from transformers.modeling_utils import local_torch_dtype
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from ctxlib.checks import as_index
from ctxlib.models import gguf_files
from ctxlib.models.places import MINI, locate, twins
from ctxlib.models.receipt import (
    Receipt,
    check_alone,
    check_unread,
    files_of,
    positions_of,
    vocabulary_of,
)
from ctxlib.texts.vocabulary import begin_token, check_ids_apart, reads_as

WITHIN_NATS = 1e-2  # folding changes log probabilities by its rounding only

READ = {
    "dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True,
    "output_loading_info": True, "ignore_mismatched_sizes": True,  # they are reported, all of them
}  # fmt: skip

#: Where transformers keeps an encoder's first layer: the block; in it queries, keys and values, the
#: way out of the heads, the norm behind them, the way into the MLP.
ENCODERS = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "camembert"),
        "encoder.layer.0 attention.self.query attention.self.key attention.self.value "
        "attention.output.dense attention.output.LayerNorm intermediate.dense",
    ),
    "distilbert": "transformer.layer.0 attention.q_lin attention.k_lin attention.v_lin "
    "attention.out_lin sa_layer_norm ffn.lin1",
    "mpnet": "encoder.layer.0 attention.attn.q attention.attn.k attention.attn.v attention.attn.o "
    "attention.LayerNorm intermediate.dense",
}
ROTARY_ENCODERS = ("modernbert",)  #: the positions of these turn queries and keys
PARALLEL = ("codegen", "cohere", "cohere2", "gptj", "phi")  # whose configurations do not say it


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
    receipt: Receipt | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises TypeError: there is nothing that could be predicted."""
        raise TypeError(
            f"{self.cfg.model_name} is an encoder, which has no next token: no logits, loss or "
            "cache here; run `.original_model` for its hidden states"
        )

    run_with_cache = run_with_hooks = generate = __call__


def load(
    name: str | os.PathLike | transformers.PreTrainedModel,
    device: str | torch.device | None = None,
    layers: int | str | None = None,
    tokenizer: Any = None,
) -> TransformerBridge | Encoder:
    """Load a model in TransformerLens's compatibility mode: LayerNorm folded, residual stream
    centred.

    `name` is "mini", one of its twins ("mini-rotary"; `cx.models.twins()` says which), a local
    folder in Hugging Face layout, a GGUF file, a hub name ("gpt2", "someone/some-gpt2"), or a real
    model that `make models` has fetched (`cx.models.real_models()`). Value biases stay with their
    heads, so that a head's output is all its own. Only safetensors and GGUF are read, in float32,
    and no code that comes with a model is run. Before anything is downloaded, a line says what and
    whereto. An encoder whose positions are learned and added (`cx.models.loading.ENCODERS`), or
    ModernBERT, comes as an `Encoder`, as transformers runs it. A model of transformers in memory is
    copied, and needs its `tokenizer` beside it.

    `model.receipt` says what was read of which files, what was left, and which token begins a text
    (`cx.models.receipt`). The model is folded: the hidden states of `model.original_model` are no
    longer the checkpoint's, though its logits are.

    With `layers` only the first so many are kept: a large model's first layer takes the memory of
    one layer, and seconds. "first" keeps as many as it takes until neurons read the first heads:
    two where attention and MLP of a layer are parallel, and else one.

    The model computes on `device`, by default on a CUDA GPU where there is one and else on the CPU;
    it takes tokens from anywhere. What ctxlib reads from it, weights and activations, is handed
    back on the CPU; what you read yourself (`model(...)`, `run_with_cache`) lies on the device.

    What comes out is compared with the model's own code on a few tokens. Raises ValueError for a
    name that is none of these, for a device that is not there, for layers that the model lacks, for
    damaged or incomplete weights, for tensors that nobody takes in layers that are read, for an
    adapter beside the model, for a tokenizer that is not its file's, and for a model that
    TransformerLens computes wrongly; OSError for a hub that is out of reach; TypeError for a model
    in memory without its tokenizer.

    >>> model = cx.load("mini")
    >>> model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_model, model.cfg.n_ctx
    (4, 8, 256, 512)
    >>> cx.load("mini", layers=1).cfg.n_layers
    1
    """
    place = device_for(device)
    # TransformerLens reads a tokenizer again, a GGUF file's from this folder; draws leave no trace.
    # New tensors are in single precision, whatever the session's default is.
    single = local_torch_dtype(torch.float32)
    with TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]), single:
        if isinstance(name, torch.nn.Module):
            return checked(in_memory(name, tokenizer, layers), place)
        source = locate(str(name))
        words = str(MINI) if str(name) in twins() else source  # a twin has mini's tokens
        return checked(read(source, words, layers, Path(folder)), place)


@dataclass(frozen=True)
class Read:
    """A model as transformers has read it, its file's kind of numbers, what it left unread, and the
    files; a model in memory has none, even if it was read from some.
    """

    source: str
    hf_model: Any
    tokenizer: Any
    dtype: str
    left: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def checked(found: Read, place: torch.device) -> TransformerBridge | Encoder:
    """Return what `load` gives of a model that transformers has read, with its receipt.

    Raises ValueError if it does not compute what that does on a few tokens, or cannot be read.
    """
    source, hf_model, tokenizer = found.source, found.hf_model, found.tokenizer
    begin, why = begin_token(tokenizer, hf_model.config)
    probe = torch.arange(min(8, len(tokenizer)))[None]
    with reading(source), torch.inference_mode():  # its sizes may not fit one another
        expected = hf_model.eval()(probe)[0].log_softmax(-1)
    if not expected.isfinite().all():
        raise ValueError(
            f"{source} computes values that are not finite: its weights are damaged, "
            "or its code keeps a buffer that no file holds; fetch or export them again"
        )
    hf_model.register_forward_pre_hook(bring_tokens, with_kwargs=True)
    hf_model.requires_grad_(False).to(place)  # the bridge leaves a model where it is
    encoder = is_encoder(hf_model.config, source)
    skipped = first_position(hf_model) if encoder else 0
    first = "no token: give ids" if begin is None else f"{tokenizer.decode([begin])!r} ({why})"
    receipt = Receipt(
        source, found.files, found.dtype, len([*hf_model.parameters()]), found.left,
        positions_of(hf_model.config, skipped), first,
        vocabulary_of(tokenizer, hf_model.config.vocab_size),
    )  # fmt: skip
    if encoder:
        return Encoder(hf_model, tokenizer, sizes(hf_model, source, place), receipt)
    if begin not in (None, tokenizer.bos_token_id):
        tokenizer.bos_token = tokenizer.convert_ids_to_tokens(begin)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.bos_token
    spare = deepcopy(tokenizer)
    spare.bos_token = None  # with one, TransformerLens would read it again from where it was saved
    try:
        model = TransformerBridge.boot_transformers(
            source, hf_model=hf_model, tokenizer=spare, device=place
        )
        set_eps(model)
        fold(model)
        # its own property would read the tokenizer again, and add a token where none begins a text
        model._tokenizer, model.cfg.default_prepend_bos = tokenizer, begin is not None
        model.cfg.tokenizer_prepends_bos, _ = detect_tokenizer_bos_eos(tokenizer)
        computed = model(probe).log_softmax(-1).cpu()
    except BaseException as error:  # of any class, also for a kind that it does not know
        if is_of_python(error):
            raise
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
    model.receipt = receipt
    return model.requires_grad_(False)


def in_memory(hf_model: Any, tokenizer: Any, layers: int | str | None) -> Read:
    """Return a copy of a model of transformers in single precision.

    Raises TypeError for another kind of model, or if there is no tokenizer; ValueError for
    `layers`.
    """
    if not isinstance(hf_model, transformers.PreTrainedModel) or tokenizer is None:
        raise TypeError(
            f"a {type(hf_model).__name__} in memory: give a model of transformers and its "
            "tokenizer, cx.load(model, tokenizer=tokenizer)"
        )
    if layers is not None:
        raise ValueError("layers is for files: a model in memory is taken whole")
    check_ids_apart(tokenizer)
    source = hf_model.config.name_or_path or "a model in memory"
    encoder = is_encoder(hf_model.config, source)
    copied = deepcopy(hf_model.base_model if encoder else hf_model).float()
    copied.set_attn_implementation("eager")
    dtype = str(hf_model.dtype).removeprefix("torch.")
    return Read(source, copied, deepcopy(tokenizer), dtype)


class Uncopied(TorchFunctionMode):
    """In this thread and while it lasts, `clone` gives the tensor itself."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func is Tensor.clone else func(*args, **(kwargs or {}))


def fold(model: TransformerBridge) -> None:
    """Fold LayerNorm into the weights and centre them, as TransformerLens does by default; value
    biases stay.

    It clones all weights before each step, and then puts new ones in their place. Without these
    clones the command holds 0.8 GiB less for Qwen; the unembedding is centred by itself, once its
    folded weights alone are left.
    """
    options = {"disable_warnings": True, "fold_value_biases": False, "center_unembed": False}
    with quiet(), Uncopied():  # of some kinds it leaves the norms, and `mlp_inputs` folds them
        model.enable_compatibility_mode(**options)
        if (model.cfg.output_logits_soft_cap or 0) > 0:  # capped logits may not be shifted
            return
        weights = {k: v for k, v in model.state_dict().items() if k.startswith("unembed.")}
        centered = ProcessWeights.center_unembed(weights, model.cfg, model.adapter)
        part = {"unembed": model.real_components["unembed"]}
        ProcessWeights.distribute_weights_to_components(centered, part)


def set_eps(model: TransformerBridge) -> None:
    """Give every norm the epsilon of the model's own: configurations have it by many names, of
    which TransformerLens reads some (not StarCoder 2's).
    """
    for norm in (part for part in model.modules() if isinstance(part, NormalizationBridge)):
        own = norm.original_component
        eps = getattr(own, "eps", getattr(own, "variance_epsilon", model.cfg.eps))
        norm.config.eps = model.cfg.eps = eps


def has_heads_and_neurons(block: Any) -> bool:
    """Say whether TransformerLens knows the weights that heads and neurons read and write with."""
    try:
        weights = (block.attn.W_V, block.attn.W_O, block.mlp.W_in, block.mlp.W_out)
    except (AttributeError, NotImplementedError):
        return False
    return [weight.ndim for weight in weights] == [3, 3, 2, 2]


def first_position(encoder: Any) -> int:
    """Return the row of an encoder's table of positions that a text begins at: in RoBERTa's kind
    the rows up to the padding token's id are not a text's.
    """
    return getattr(encoder.embeddings, "padding_idx", -1) + 1


def sizes(encoder: Any, source: str, place: torch.device) -> SimpleNamespace:
    """Return what TransformerLens's `cfg` would say of an encoder."""
    config, positions = encoder.config, encoder.config.max_position_embeddings
    return SimpleNamespace(
        model_name=source, n_layers=config.num_hidden_layers, n_heads=config.num_attention_heads,
        d_model=config.hidden_size, d_head=config.hidden_size // config.num_attention_heads,
        d_vocab=config.vocab_size, n_ctx=positions - first_position(encoder),
        eps=next(part.eps for part in encoder.modules() if isinstance(part, torch.nn.LayerNorm)),
        positional_embedding_type="rotary" if config.model_type in ROTARY_ENCODERS else "standard",
        device=str(place),
    )  # fmt: skip


def read(source: str, words: str, layers: int | str | None, folder: Path) -> Read:
    """Return a model as transformers runs it, its first `layers` or all, and the tokenizer that
    lies in `words`; a GGUF file's is written to `folder` first.

    Raises ValueError for what is damaged, incomplete, not read to its end, or of a kind that cannot
    be read.
    """
    check_alone(source)
    options: dict[str, Any] = {"trust_remote_code": False}
    where, held, first = source, None, isinstance(layers, str) and layers == "first"
    with reading(source):
        if source.endswith(".gguf"):
            where = words = str(folder)  # beside the file itself transformers would read others
            held, options["gguf_file"] = gguf_files.opened(source), os.path.abspath(source)
            most = 2 if first else layers
            if isinstance(most, int) and most > 0:
                file = gguf_files.first_layers(held, most, folder / "first.gguf")
                options["gguf_file"] = str(file)
        config = transformers.AutoConfig.from_pretrained(where, **options)
    if held:
        gguf_files.check_positions(held, source)
    if layers is not None:
        there = config.num_hidden_layers
        layers = min(there, 1 + is_parallel(config)) if first else layers
        if not 0 < as_index("layers", layers) <= there:
            raise ValueError(
                f"layers={layers}: {source} has {there}; give 1 to {there}, or leave it out for all"
            )
        config.num_hidden_layers = layers
        if kinds := getattr(config, "layer_types", None):
            config.layer_types = kinds[:layers]
    kind: Any = transformers.AutoModelForCausalLM
    if is_encoder(config, source):
        kind = transformers.AutoModel
        if config.model_type not in ("distilbert", *ROTARY_ENCODERS):  # which never have one
            options["add_pooling_layer"] = False
    # transformers takes it from there
    with reading(source), patch.object(gguf, "dequantize", gguf_files.by_rows):
        hf_model, report = kind.from_pretrained(where, config=config, **READ, **options)
        if held:  # AutoTokenizer would read all of the file's words twice
            fast = transformers.PreTrainedTokenizerFast
            fast.from_pretrained(where, gguf_file=os.path.abspath(source)).save_pretrained(folder)
        tokenizer = tokenizer_in(words)
        dtype = str(config.dtype or torch.float32).removeprefix("torch.")
        unread = report["unexpected_keys"]
        if held:
            state, depth = hf_model.state_dict(), config.num_hidden_layers
            dtype, unread = gguf_files.unread_tensors(held, state, depth)
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
    left = check_unread(source, unread, config.num_hidden_layers)
    return Read(source, hf_model, tokenizer, dtype, left, files_of(source))


def tokenizer_in(words: str) -> Any:
    """Return the tokenizer that lies in a folder or under a hub's name, as its tokenizer.json has
    it: a class of transformers may build another one of the same words.

    Raises ValueError if there is none that gives the tokens of the file, each its own id.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(words, trust_remote_code=False)
    check_ids_apart(tokenizer)
    file = next((f for f in files_of(words) if f.name == "tokenizer.json"), None)
    if file is None or reads_as(tokenizer, file):
        return tokenizer
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(words)
    if not reads_as(tokenizer, file):
        raise ValueError("transformers does not give the tokens that its tokenizer.json gives")
    return tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the bars and warnings of transformers off the screen and out of a notebook's outputs.

    >>> with cx.models.quiet():
    ...     model.original_model.config.save_pretrained("tiny")
    """
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        with capture_output(stdout=False):
            yield
    finally:
        transformers_logging.set_verbosity(before)


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Re-raise whatever stops a model from being read as one line: OSError if it cannot be found,
    ValueError if it cannot be read. Other output is hidden.
    """
    try:
        with quiet():
            yield
    except BaseException as error:  # safetensors, GGUF and the hub raise classes of their own
        if is_of_python(error):
            raise
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


def is_parallel(config: Any) -> bool:
    """Say whether attention and MLP of a layer read the same stream."""
    said = getattr(config, "use_parallel_residual", getattr(config, "parallel_attn", None))
    return config.model_type in PARALLEL if said is None else said


def is_encoder(config: Any, source: str) -> bool:
    """Say whether this is one of the `ENCODERS`, whose positions are learned and added, or of the
    `ROTARY_ENCODERS`.

    Raises ValueError for any other encoder, and for encoder-decoders.
    """
    positions = getattr(config, "position_embedding_type", "absolute")
    both = getattr(config, "is_encoder_decoder", False)
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if not both and (not masked or getattr(config, "is_decoder", False)):
        return False
    known = (*ENCODERS, *ROTARY_ENCODERS)
    if both or config.model_type not in known or positions != "absolute":
        raise ValueError(
            f"{source} is not a decoder but of the kind {config.model_type}: encoder-decoders such "
            f"as T5 are not read here, and of encoders only {', '.join(known)}, with absolute or "
            "rotary positions"
        )
    return True


def device_for(device: str | torch.device | None = None) -> torch.device:
    """Return the device that is asked for, by default the GPU where there is one, else the CPU.

    Apple's GPUs have to be asked for by name ("mps"). Raises ValueError for a device that is not
    there.

    >>> cx.models.device_for("cpu")
    device(type='cpu')
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=device).device  # with its number, "cuda:0"
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise ValueError(
            f"no device {str(device)!r} here; give 'cpu', 'cuda', 'cuda:1' or 'mps', whichever "
            "is there, or leave device out to take a GPU where there is one"
        ) from error


def bring_tokens(model: torch.nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Bring what a model is given to where its weights lie, before it runs."""
    place = next(model.parameters()).device
    tensors = {k: v.to(place) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    return tuple(a.to(place) if isinstance(a, torch.Tensor) else a for a in args), tensors


def is_of_python(error: BaseException) -> bool:
    """Say whether this stops the program, as Ctrl-C does; a tokenizer's panic is no Exception."""
    return not isinstance(error, Exception) and "Panic" not in type(error).__name__


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, with the next where it only announces that."""
    first, *others = str(error).strip().split("\n")
    return " ".join([first, *others[: first.endswith(":")]]).rstrip(".") or type(error).__name__
