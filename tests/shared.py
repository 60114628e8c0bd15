"""Models at toy size, made on the spot: GPT-2's architecture, every parameter random."""

import os
import re
from functools import cache
from unittest.mock import Mock

# Before anything imports huggingface_hub: no test may reach a network.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.pop("CTX_TEXTS", None)  # nor texts from outside
# Results are held against each other on the CPU; test_device.py needs a GPU where one is shown.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import build_book
import pytest
import torch
from by_hand import draw_text, draw_texts
from hypothesis import settings
from kinds import KINDS, LLAMA, VARIANTS, Case, as_gguf
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from transformer_lens.model_bridge import TransformerBridge
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

pytest.register_assert_rewrite("viewing", "shown")  # what a page was blamed for is shown
from viewing import *  # noqa: F403  its fixtures

import ctxlib as cx
import ctxviews as cv
from ctxviews import packed_layer

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=30
)
settings.load_profile("repeatable")
transformers_logging.disable_progress_bar()

BOS = "<|endoftext|>"
SENTENCES = [
    "the colour of the water at the harbour is the colour of the sky",
    "the doctor gave the patient the tablets and the nurse took the temperature",
    "the telescope on the hill saw the planet and the moon of the planet",
    "def area(width, height): return width * height",
]
TINY = {
    "vocab_size": 300,
    "n_positions": 32,
    "n_embd": 24,
    "n_head": 3,
    "n_layer": 2,
    "n_inner": 40,
}


def pytest_collection_modifyitems(items):
    """Marks what needs a browser or the built site."""
    for item in items:
        if {"browser", "html"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker("site")


def randomise(model, seed):
    """Every parameter at random, gains and biases too, at a scale that makes attention uneven."""
    source = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = 0.3 * torch.randn(p.shape, generator=source)
        gain = p.ndim == 1 and name.endswith("weight")
        embedding = name.endswith(("wte.weight", "wpe.weight"))
        mean = 1.0 if gain else 0.2 if embedding else 0.0  # 0.2: for centring to remove
        p.data = noise + mean
    return model


@pytest.fixture(scope="session")
def toy_tokenizer():
    """A byte-level BPE of 300 tokens; the end-of-text mark has id 0 and is BOS as well."""
    trained, marks = ByteLevelBPETokenizer(), {"special_tokens": [BOS], "show_progress": False}
    trained.train_from_iterator(SENTENCES, 300, min_frequency=0, **marks)
    tokenizer = Tokenizer.from_str(trained.to_str())
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=BOS, unk_token=BOS
    )


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory, toy_tokenizer):
    """A function that saves a random model in Hugging Face layout and returns its folder."""

    def make(model=None, seed=0, **config):
        if model is None:
            model = GPT2LMHeadModel(GPT2Config(**TINY | config, bos_token_id=0, eos_token_id=0))
        folder = tmp_path_factory.mktemp("model")
        randomise(model, seed).save_pretrained(folder)
        toy_tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_folder(make_folder):
    return make_folder()


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    return cx.load(tiny_folder, device="cpu")


@pytest.fixture(scope="session")
def unfolded(tiny_folder):
    """The same model as TransformerLens boots it."""
    return TransformerBridge.boot_transformers(str(tiny_folder), device="cpu")


@pytest.fixture(scope="session")
def tiny_weights(tiny):
    return cx.LayerWeights.of(tiny)


@pytest.fixture(scope="session")
def tiny_tokens():
    """As many as `tiny` reads."""
    return draw_text(32, seed=5)


@pytest.fixture(scope="session")
def precise(tiny_weights):
    return tiny_weights.to(torch.float64)


@pytest.fixture(scope="session")
def drawn():
    """Five texts that fill the context of `tiny`."""
    return draw_texts(5, 32, 300)


@pytest.fixture(scope="session")
def here(precise):
    """A query in the midst of those texts, its token " the"."""
    return cx.fix_query(precise, n=20)


@pytest.fixture(scope="session")
def circuit(here, drawn):
    return cx.ContextualCircuit.calibrate(here, drawn[0], [2, 0])


@pytest.fixture(scope="session")
def mini():
    return cx.load("mini")


@pytest.fixture(scope="session")
def mini_weights(mini):
    return cx.LayerWeights.of(mini)


@pytest.fixture(scope="session")
def packed_mini(mini_weights):
    """mini's first layer, as pages load it."""
    return packed_layer(mini_weights, name="mini")


@pytest.fixture(scope="session")
def mini_view(mini_weights, packed_mini):
    """A function that makes a view of mini's first layer; to pack that once is enough."""

    def make(kind, **state):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ctxviews.views.packed_layer", lambda weights, name: packed_mini)
            view = getattr(cv, kind)(mini_weights, **state)
            assert view.prepared.data  # now, and not when a notebook asks for it
            return view

    return make


@pytest.fixture(scope="session")
def make_state():
    """A function that draws a state dict of one GPT-2 block, in float64."""

    def make(seed=0, n_heads=2, d_head=4, n_ctx=12, vocab=20, d_mlp=10):
        sizes = {"n_embd": n_heads * d_head, "n_head": n_heads, "n_layer": 1, "n_inner": d_mlp}
        sizes |= {"vocab_size": vocab, "n_positions": n_ctx, "bos_token_id": 0, "eos_token_id": 0}
        return randomise(GPT2Model(GPT2Config(**sizes)), seed).double().state_dict()

    return make


@pytest.fixture(scope="session")
def make_weights(make_state):
    """A function that draws the folded weights of one block, in float64."""

    def make(seed=0, n_heads=2, **sizes):
        return cx.LayerWeights.from_state_dict(make_state(seed, n_heads, **sizes), n_heads)

    return make


@pytest.fixture(scope="session")
def of_kind(make_folder):
    """A function that makes a random model of a kind, once."""
    made = KINDS | VARIANTS
    return cache(lambda kind: Case(kind, make_folder(made[kind].make(), seed=3)))


@pytest.fixture
def tokenised(monkeypatch):
    """What tokenises documents, noting which."""
    noting = Mock(wraps=cx.texts.all_tokens)
    monkeypatch.setattr("ctxlib.texts.text.all_tokens", noting)
    return noting


@pytest.fixture(scope="session")
def llama(make_folder):
    """A function that makes a Llama from a seed, in both formats: its folder and its GGUF file."""

    @cache
    def make(seed=3):
        folder = make_folder(LLAMA(), seed=seed)
        return folder, as_gguf(folder, folder / "llama.gguf")

    return make


@pytest.fixture(scope="session")
def html():
    """The folder of the site that `make book` built, or builds now where something has changed:
    with warnings as errors, by one worker, while the other waits.
    """
    return build_book.site("mini").parent


@pytest.fixture
def refused(capsys):
    """A function that calls a tool for what cannot be done, and returns the line that it prints."""

    def called(main, *words, code=2):
        capsys.readouterr()
        assert main([*map(str, words)]) == code
        *_, line = capsys.readouterr().err.splitlines()  # behind bars of what was done before
        assert re.match(r"\w+: ", line), "it is the whole of it"
        return line

    return called


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty repository, which is the one that `build_book` works on."""
    for name in ("chapters", "book", "ctxlib"):
        (tmp_path / name).mkdir()
    for name, place in (("ROOT", ""), ("CHAPTERS", "chapters"), ("BUILD", "_build")):
        monkeypatch.setattr(build_book, name, tmp_path / place)
    return tmp_path
