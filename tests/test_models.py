"""One door: what it opens, and its errors."""

import json
import os
import pickle
import shutil
from pathlib import Path
from unittest.mock import Mock

import build_book
import gguf
import nbformat
import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import constants
from kinds import GROUPED, SIZES, drawn
from safetensors.torch import load_file, save_file
from transformer_lens.model_bridge import TransformerBridge
from transformers.utils import logging as transformers_logging

import ctxlib as cx
from ctxlib import models
from ctxlib.models.gguf_files import by_rows

WEIGHTS = "model.safetensors"
WPE = "transformer.wpe.weight"
PARTS = ("ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
BLOCK = [f"transformer.h.1.{part}.{kind}" for part in PARTS for kind in ("weight", "bias")]


@pytest.fixture
def broken(tiny_folder, tmp_path):
    """A copy of a good folder, to be damaged."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def rewrite(folder, change):
    """Save the folder's tensors again after `change` has had its way with them."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def lacking(*names):
    """A change that leaves these tensors out."""
    return lambda folder: rewrite(folder, lambda tensors: [tensors.pop(name) for name in names])


def spoilt(name):
    """A change that leaves one value of a tensor not finite."""
    return lambda folder: rewrite(folder, lambda t: t[name].view(-1)[5:6].fill_(float("nan")))


def written(name, content):
    """A change that puts something else into a file, or what is made of what it holds."""

    def change(folder):
        file = folder / name
        file.write_bytes(content(file.read_bytes()) if callable(content) else content)

    return change


SHARES = (0.999, 0.5, 0.01)


def first(share):
    return lambda held: held[: int(share * len(held))]


def over_another(held):
    """What a GGUF file holds, with the offset of a tensor as zero: after name, sizes and kind."""
    at = held.index(name := b"output_norm.weight") + len(name) + 4 + 8 + 4
    return held[:at] + bytes(8) + held[at + 8 :]


# ---------------------------------------------------------------- what it opens


@pytest.mark.parametrize("kind", ["GPT-2", "Bloom", "GPT-Neo", "OPT", "MPT", "Llama", "Qwen2"])
def test_the_first_layers_alone_compute_what_they_compute_in_the_whole(of_kind, kind, capfd):
    case, name, tokens = of_kind(kind), "blocks.1.hook_resid_post", torch.arange(20)[None]
    whole = case.model.run_with_cache(tokens, names_filter=name)[1]
    capfd.readouterr()
    cut = cx.load(case.folder, layers=2)
    assert capfd.readouterr() == ("", "")
    assert cut.cfg.n_layers == len(cut.blocks) == 2
    assert torch.equal(cut.run_with_cache(tokens, names_filter=name)[1][name], whole[name])


def test_what_lies_in_other_layers_is_not_read(broken):
    spoilt(BLOCK[8])(broken)
    lacking(BLOCK[4])(broken)
    for few in (1, "first"):
        assert cx.load(broken, layers=few).cfg.n_layers == 1


def test_the_unembedding_is_centred_unless_logits_are_capped(tiny, make_folder):
    assert tiny.W_U.mean(-1).abs().max() < 1e-6 and tiny.b_U.mean().abs() < 1e-6
    gemma = cx.load(make_folder(drawn("gemma2", **GROUPED, head_dim=6), seed=3))
    assert gemma.W_U.mean(-1).abs().max() > 1e-3


# ---------------------------------------------------------------- GGUF files


@pytest.mark.parametrize("layers", [None, 1])
def test_a_gguf_file_is_the_model_that_it_was_made_of(llama, tmp_path, layers, capfd, monkeypatch):
    folder, file = llama()
    alone = Path(shutil.copy(file, tmp_path))  # no config, no tokenizer beside it
    beside = ("adapter_config.json", "config.json", "tokenizer_config.json")
    for name in beside:
        (tmp_path / name).write_bytes(b"nobody may read this")
    monkeypatch.chdir(tmp_path)
    expected, model = cx.load(folder, layers=layers), cx.load(alone.name, layers=layers)
    assert capfd.readouterr() == ("", "")
    assert model.cfg.n_layers == expected.cfg.n_layers == (layers or 3)
    tokens = torch.arange(30)[None]
    torch.testing.assert_close(model(tokens), expected(tokens), atol=1e-4, rtol=1e-4)
    for text in ("the colour of the sky", "  def area(width):\n\treturn 12"):
        assert model.tokenizer(text).input_ids == expected.tokenizer(text).input_ids
    assert model.tokenizer.bos_token_id == 0
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([*beside, "llama.gguf"])


def test_a_large_tensor_is_unpacked_as_gguf_unpacks_it():
    kind, drawn = gguf.GGMLQuantizationType.Q8_0, np.random.default_rng(0).normal(size=(9000, 64))
    data = gguf.quants.quantize(drawn.astype(np.float32), kind)
    assert np.array_equal(by_rows(data, kind), gguf.dequantize(data, kind))


def test_a_notebook_keeps_no_bars_of_what_was_loaded(llama):
    """Transformers shows one for every GGUF file, by way of widgets."""
    code = f"import ctxlib as cx; cx.load({str(llama()[1])!r}).cfg.n_layers"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    (cell,) = build_book.run(notebook, Path("loading.py"), "mini").cells
    assert [output.output_type for output in cell.outputs] == ["execute_result"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not GGUF at all, but long enough", "GGUF magic"),
        *((first(share), "cannot be read") for share in (0, *SHARES)),
        (lambda held: held.replace(b"llama", b"lemma"), "architecture lemma is not supported"),
        (over_another, r"tensor output_norm\.weight lies over another"),
    ],
)
def test_a_damaged_or_unknown_gguf_file_is_one_clear_line(llama, tmp_path, content, message):
    file = Path(shutil.copy(llama()[1], tmp_path / "bad.gguf"))
    written(file.name, content)(tmp_path)
    pattern = rf"the model in .*bad\.gguf cannot be read: .*{message}|{message}"
    with pytest.raises(ValueError, match=pattern) as caught:
        cx.load(file, layers=1)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- encoders


@pytest.mark.parametrize("family", ["BertModel", "BertForMaskedLM", "RobertaForMaskedLM"])
def test_an_encoder_comes_as_transformers_runs_it(make_folder, family):
    made = getattr(transformers, family)
    folder = make_folder(made(made.config_class(**SIZES)), seed=3)
    encoder, tokens = cx.load(folder), torch.arange(9)[None]
    plain = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    found = encoder.original_model(tokens, output_attentions=True)
    assert torch.equal(found.last_hidden_state, plain(tokens).last_hidden_state)
    assert len(found.attentions) == encoder.cfg.n_layers == 3
    assert encoder.cfg.positional_embedding_type == "standard"
    assert not any(p.requires_grad for p in encoder.original_model.parameters())
    assert encoder.tokenizer.bos_token == "<|endoftext|>"
    first = cx.load(folder, layers=1)
    assert len(first.original_model.encoder.layer) == first.cfg.n_layers == 1
    for call in (encoder, encoder.run_with_cache, encoder.generate):
        with pytest.raises(TypeError, match="is an encoder, which has no next token"):
            call(tokens)


# ---------------------------------------------------------------- real models


def test_a_real_model_that_nobody_has_fetched_is_named_with_the_ways_to_it(tmp_path, monkeypatch):
    """Those that are here are loaded by their names in `test_real`."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    for name, real in models.real_models().items():
        message = f"{name} is not in .*`make models NAME={name}`.* or load '{real['hub']}'"
        with pytest.raises(OSError, match=message):
            cx.load(name)
        assert all(len(known) == 64 for known in (*real["files"].values(), *real["parts"]))


# ---------------------------------------------------------------- what it refuses


def pickled(folder):
    """Weights that would have to be unpickled, which leaves a trace."""

    class Payload:
        def __reduce__(self):
            return Path.touch, (folder / "opened",)

    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))


def own_code(folder):
    """Classes of the model's own, about which a library may prompt the user."""
    code = f"from pathlib import Path\nPath({str(folder / 'opened')!r}).touch()\n"
    for module in ("configuration_own", "modeling_own"):
        (folder / f"{module}.py").write_text(code)
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "own", "auto_map": own}))


def without(pattern):
    return lambda folder: [file.unlink() for file in folder.glob(pattern)]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *((without(files), r"no config\.json") for files in ("config.json", "*")),
        *(
            (written("config.json", content), "cannot be read")
            for content in (b"", b"{", b"[]", b'{"model_type": "nonsense"}')
        ),
        (written("config.json", lambda f: f.replace(b": 24,", b": [],")), "expected int, got"),
        (without(WEIGHTS), "cannot be read"),
        *(
            (written(WEIGHTS, content), "cannot be read")
            for content in (b"", b"not safetensors at all", bytes(4096), *map(first, SHARES))
        ),
        (without("token*"), "holds no tokenizer: add its"),
        *((lacking(name), rf"1 tensors are missing.*{name}") for name in (BLOCK[4], BLOCK[1])),
        (lacking("transformer.wte.weight"), "tensors are missing"),
        (lacking(*BLOCK), "12 tensors are missing"),
        (
            lambda f: rewrite(f, lambda t: t.update({WPE: t[WPE][:16].clone()})),
            f"another shape.*{WPE}",
        ),
        *((spoilt(name), "values that are not finite") for name in (WPE, BLOCK[8])),
        (pickled, "cannot be read.*safetensors"),
        (own_code, "cannot be read"),
    ],
)
def test_a_damaged_folder_is_refused_and_nothing_in_it_is_run(broken, monkeypatch, damage, message):
    """And the user is not prompted."""
    prompted = Mock(return_value="n")
    monkeypatch.setattr("builtins.input", prompted)
    damage(broken)
    with pytest.raises(ValueError, match=message):
        cx.load(broken)
    assert not (broken / "opened").exists()
    prompted.assert_not_called()


def test_a_folder_without_tokenizer_is_named_whatever_its_kind(make_folder):
    folder = make_folder(drawn("llama", **GROUPED))
    without("token*")(folder)
    with pytest.raises(ValueError, match=r"holds no tokenizer: add its tokenizer\.json$"):
        cx.load(folder)


def test_what_is_computed_a_little_otherwise_is_refused(tiny_folder, monkeypatch):
    """By less than a tenth of a nat, and where tokens look at one another alone."""
    fold = TransformerBridge.enable_compatibility_mode

    def wrongly(model, **options):
        fold(model, **options)
        model.blocks[1].attn.W_Q.data.mul_(1.02)

    monkeypatch.setattr(TransformerBridge, "enable_compatibility_mode", wrongly)
    with pytest.raises(ValueError, match=r"does not compute what .* differ by 0\.0\d\)"):
        cx.load(tiny_folder)


def test_the_libraries_print_afterwards_what_they_printed_before(tiny_folder, broken):
    before, state = transformers_logging.get_verbosity(), torch.random.get_rng_state()
    transformers_logging.set_verbosity_info()
    transformers_logging.enable_progress_bar()
    lacking(BLOCK[4])(broken)
    try:
        cx.load(tiny_folder)
        with pytest.raises(ValueError, match="missing"):
            cx.load(broken)
        assert transformers_logging.get_verbosity() == transformers_logging.INFO
        assert transformers_logging.is_progress_bar_enabled()
        assert torch.equal(torch.random.get_rng_state(), state)
    finally:
        transformers_logging.set_verbosity(before)
        transformers_logging.disable_progress_bar()


def test_a_folder_is_no_model_of_that_name(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "neox").symlink_to(tiny_folder)
    assert cx.load("neox").cfg.model_name == os.path.join(".", "neox")


# ---------------------------------------------------------------- the hub


def test_a_hub_out_of_reach_is_an_error_with_advice_after_a_line(capsys, monkeypatch):
    """The line is there before anything is downloaded."""
    printed, fetch = [], transformers.AutoConfig.from_pretrained

    def noting(*args, **options):
        printed.append(capsys.readouterr().out)
        return fetch(*args, **options)

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", noting)
    advice = r"no-such-gpt2 is no folder here .*pass the folder; \"mini\" needs no network"
    with pytest.raises(OSError, match=advice):
        cx.load("nobody/no-such-gpt2")
    assert "no-such-gpt2 is no folder here and not in the cache: downloading it" in printed[0]
    assert constants.HF_HUB_CACHE in printed[0]


@pytest.fixture
def snapshot(tmp_path, tiny_folder, monkeypatch):
    """What the hub's own cache holds once a model has been fetched."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--someone--some-gpt2"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return Path(shutil.copytree(tiny_folder, repository / "snapshots" / commit))


def test_a_model_in_the_cache_is_loaded_by_its_hub_name_in_silence(
    snapshot, tmp_path, tiny_weights, capfd
):
    before = sorted(tmp_path.rglob("*"))
    weights = cx.LayerWeights.of(cx.load("someone/some-gpt2"))
    assert torch.equal(weights.W_K, tiny_weights.W_K)
    assert capfd.readouterr() == ("", "")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("file", "instead", "lacks"),
    [
        (WEIGHTS, f"{WEIGHTS}.index.json", False),  # it lists the files with the weights
        ("config.json", "none", True),
        ("tokenizer.json", "none", True),
    ],
)
def test_a_download_is_announced_where_something_is_left_to_fetch(
    snapshot, capsys, file, instead, lacks
):
    (snapshot / file).rename(snapshot / instead)
    assert models.locate("someone/some-gpt2") == "someone/some-gpt2"
    assert ("downloading" in capsys.readouterr().out) == lacks
