"""One door: what it opens, and what it says when it does not."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, OPTConfig, OPTForCausalLM

import ctxlib as cx
from ctxlib import models

WEIGHTS = "model.safetensors"


@pytest.fixture
def broken(tiny_folder, tmp_path):
    """A copy of a good folder, to be damaged."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def rewrite(folder, change):
    """Save the folder's tensors again after `change` has had its way with them."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


# ---------------------------------------------------------------- what it opens


def test_a_folder_is_given_as_path_or_as_text(tiny_folder, tiny):
    for model in (cx.load(tiny_folder), cx.load(str(tiny_folder))):
        assert torch.equal(model.W_E, tiny.W_E)


def test_a_loaded_model_predicts_what_the_saved_one_predicts(tiny_folder, tiny, tiny_tokens):
    saved = AutoModelForCausalLM.from_pretrained(tiny_folder)
    with torch.inference_mode():
        expected = saved(tiny_tokens[None]).logits.log_softmax(-1)
        torch.testing.assert_close(
            tiny(tiny_tokens[None]).log_softmax(-1), expected, rtol=1e-4, atol=1e-4
        )


def test_a_model_in_half_precision_on_disk_is_loaded_in_single(mini):
    assert {p.dtype for p in mini.parameters()} == {torch.float32}


def test_a_loaded_model_is_folded_and_asks_for_no_gradients(tiny):
    assert tiny.compatibility_mode
    assert not tiny.training
    assert not any(p.requires_grad for p in tiny.parameters())


def test_the_embedded_model_has_the_architecture_of_the_book(mini, mini_weights):
    assert (mini.cfg.n_layers, mini_weights.n_heads, mini_weights.d_model, mini_weights.n_ctx) == (
        4,
        8,
        256,
        512,
    )
    assert mini_weights.W_E.shape[0] == 8192
    assert mini_weights.tokenizer.bos_token_id == 0


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gtp2", "gpt2"),
        ("gpt2-medum", "gpt2-medium"),
        ("distilgpt", "distilgpt2"),
        ("minni", "mini"),
        ("Mini", "mini"),
    ],
)
def test_an_unknown_name_gets_the_near_ones(name, meant):
    with pytest.raises(ValueError, match=rf"{name}.*did you mean .*\b{meant}\b"):
        cx.load(name)


def test_a_name_like_no_other_gets_the_known_ones():
    with pytest.raises(ValueError, match="known names: mini, gpt2, gpt2-medium"):
        cx.load("zzzz")


@pytest.mark.parametrize(
    "name", ["./not/here", "/not/here", "~/not-here", "a/b/c", "not/here/", "./gpt2"]
)
def test_a_path_that_does_not_exist_is_not_taken_for_a_hub_name(name, capsys):
    with pytest.raises(ValueError, match="no such folder"):
        cx.load(name)
    assert "downloading" not in capsys.readouterr().out


# ---------------------------------------------------------------- damaged folders


def test_a_folder_without_config_is_refused(broken):
    (broken / "config.json").unlink()
    with pytest.raises(ValueError, match=r"no config\.json"):
        cx.load(broken)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        cx.load(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model_type": "nonsense"}'])
def test_a_config_that_makes_no_sense_is_refused(broken, content):
    (broken / "config.json").write_text(content)
    with pytest.raises(ValueError, match="cannot be read"):
        cx.load(broken)


def test_a_folder_without_weights_is_refused(broken):
    (broken / WEIGHTS).unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        cx.load(broken)


def test_a_folder_without_a_tokenizer_is_refused(broken):
    for file in broken.glob("token*"):
        file.unlink()
    with pytest.raises(ValueError, match="tokenizer"):
        cx.load(broken)


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", bytes(4096)])
def test_weights_that_are_something_else_are_refused(broken, content):
    (broken / WEIGHTS).write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read"):
        cx.load(broken)


@pytest.mark.parametrize("kept", [0.999, 0.5, 0.01])
def test_truncated_weights_are_refused(broken, kept):
    whole = (broken / WEIGHTS).read_bytes()
    (broken / WEIGHTS).write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(ValueError, match="cannot be read"):
        cx.load(broken)


@pytest.mark.parametrize(
    "name", ["transformer.h.1.attn.c_attn.weight", "transformer.h.0.ln_1.bias"]
)
def test_a_missing_tensor_is_named(broken, name):
    rewrite(broken, lambda tensors: tensors.pop(name))
    with pytest.raises(ValueError, match=rf"1 tensors are missing.*{name}"):
        cx.load(broken)


def test_missing_token_embeddings_are_refused(broken):
    rewrite(broken, lambda tensors: tensors.pop("transformer.wte.weight"))
    with pytest.raises(ValueError, match="tensors are missing"):
        cx.load(broken)


def test_all_missing_tensors_are_counted(broken):
    rewrite(broken, lambda tensors: [tensors.pop(n) for n in list(tensors) if ".h.1." in n])
    with pytest.raises(ValueError, match="12 tensors are missing"):
        cx.load(broken)


def test_a_tensor_of_another_shape_is_named(broken):
    name = "transformer.wpe.weight"
    rewrite(broken, lambda tensors: tensors.update({name: tensors[name][:16].clone()}))
    with pytest.raises(ValueError, match=rf"another shape.*{name}"):
        cx.load(broken)


def test_weights_that_are_not_finite_are_refused(broken):
    rewrite(broken, lambda tensors: tensors["transformer.wpe.weight"][3].fill_(float("nan")))
    with pytest.raises(ValueError, match="not finite"):
        cx.LayerWeights.of(cx.load(broken))


def test_weights_that_are_not_finite_are_found_in_any_layer(broken):
    name = "transformer.h.1.mlp.c_fc.weight"
    rewrite(broken, lambda tensors: tensors[name].view(-1)[5:6].fill_(float("nan")))
    with pytest.raises(ValueError, match="values that are not finite"):
        cx.load(broken)


OPT = {"vocab_size": 300, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
OPT |= {"ffn_dim": 40, "max_position_embeddings": 32, "pad_token_id": 1}


@pytest.mark.parametrize(
    ("oddity", "said"),
    [
        ({"word_embed_proj_dim": 12}, "does not compute what"),
        ({"word_embed_proj_dim": 24, "do_layer_norm_before": False}, "cannot run"),
    ],
)
def test_a_model_that_would_be_computed_wrongly_is_refused(make_folder, oddity, said):
    folder = make_folder(OPTForCausalLM(OPTConfig(**OPT, **oddity)), seed=3)
    with pytest.raises(ValueError, match=f"TransformerLens {said}"):
        cx.load(folder)


# ---------------------------------------------------------------- nothing a model brings is run


class Payload:
    """What runs when it is unpickled, and leaves a trace."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def test_a_folder_with_pickled_weights_only_is_refused_unopened(broken, tmp_path):
    trace = tmp_path / "opened"
    (broken / WEIGHTS).unlink()
    (broken / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(trace)))
    with pytest.raises(ValueError, match=r"cannot be read.*safetensors"):
        cx.load(broken)
    assert not trace.exists()


def test_code_that_comes_with_a_model_is_refused_without_a_question(broken, tmp_path, monkeypatch):
    trace = tmp_path / "opened"
    for module in ("configuration_own", "modeling_own"):
        (broken / f"{module}.py").write_text(
            f"from pathlib import Path\nPath({str(trace)!r}).touch()\n"
        )
    config = json.loads((broken / "config.json").read_text())
    own = {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
    (broken / "config.json").write_text(json.dumps(config | {"model_type": "own", "auto_map": own}))
    questions = []
    monkeypatch.setattr("builtins.input", lambda text="": questions.append(text) or "n")
    with pytest.raises(ValueError, match="cannot be read"):
        cx.load(broken)
    assert not trace.exists()
    assert not questions


# ---------------------------------------------------------------- the hub


def test_a_hub_out_of_reach_is_an_error_with_advice(capsys):
    advice = r"no-such-gpt2 is no folder here .*pass the folder; \"mini\" needs no network"
    with pytest.raises(OSError, match=advice):
        cx.load("nobody/no-such-gpt2")
    assert "downloading" in capsys.readouterr().out


def test_a_line_is_printed_before_anything_is_downloaded(capsys, monkeypatch):
    printed = []

    def refuse(*_, **__):
        printed.append(capsys.readouterr().out)
        raise OSError("no network")

    monkeypatch.setattr(models.AutoModelForCausalLM, "from_pretrained", refuse)
    with pytest.raises(OSError, match="no network"):
        cx.load("nobody/no-such-gpt2")
    assert "no-such-gpt2 is no folder here and not in the cache: downloading it" in printed[0]
    assert constants.HF_HUB_CACHE in printed[0]


def fake_cache(home, folder, name="someone/some-gpt2"):
    """What the hub's own cache looks like once a model has been fetched; returns the snapshot."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = home / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = Path(shutil.copytree(folder, repository / "snapshots" / commit))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return snapshot


LOAD_BY_HUB_NAME = """
import sys
import numpy as np
import ctxlib as cx
weights = cx.LayerWeights.of(cx.load("someone/some-gpt2"))
np.save(sys.argv[1], cx.positional_kernels(weights, 20).numpy())
"""


def test_a_model_in_the_cache_is_loaded_by_its_hub_name_in_silence(
    tmp_path, tiny_folder, tiny_weights, monkeypatch
):
    fake_cache(tmp_path, tiny_folder)
    before = sorted(f.relative_to(tmp_path) for f in (tmp_path / "hub").rglob("*") if f.is_file())
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", LOAD_BY_HUB_NAME, str(tmp_path / "kernels.npy")],
        cwd=Path(cx.__file__).parents[1], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "download" not in (done.stdout + done.stderr).lower()
    np.testing.assert_array_equal(
        np.load(tmp_path / "kernels.npy"), cx.positional_kernels(tiny_weights, 20).numpy()
    )
    after = sorted(f.relative_to(tmp_path) for f in (tmp_path / "hub").rglob("*") if f.is_file())
    assert after == before


def test_a_cached_model_in_several_files_is_not_announced_as_a_download(
    tmp_path, tiny_folder, monkeypatch, capsys
):
    snapshot = fake_cache(tmp_path, tiny_folder)
    (snapshot / WEIGHTS).rename(snapshot / "model-00001-of-00001.safetensors")
    (snapshot / "model.safetensors.index.json").write_text('{"metadata": {}, "weight_map": {}}')
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert models.locate("someone/some-gpt2") == "someone/some-gpt2"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("absent", ["config.json", "tokenizer.json"])
def test_what_a_cached_model_still_lacks_is_announced(
    tmp_path, tiny_folder, monkeypatch, capsys, absent
):
    (fake_cache(tmp_path, tiny_folder) / absent).unlink()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    models.locate("someone/some-gpt2")
    assert "downloading" in capsys.readouterr().out


def test_the_embedded_model_and_folders_are_not_announced(tiny_folder, capsys):
    for name in ("mini", str(tiny_folder)):
        models.locate(name)
    assert capsys.readouterr().out == ""
