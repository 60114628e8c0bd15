"""One door: what it opens, and what it says when it does not."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from kinds import OPT, drawn
from safetensors.torch import load_file, save_file

import ctxlib as cx
from ctxlib import models

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
    """A change that puts something else into a file; part of itself where a share is given."""

    def change(folder):
        file = folder / name
        held = file.read_bytes()
        file.write_bytes(
            content if isinstance(content, bytes) else held[: int(content * len(held))]
        )

    return change


# ---------------------------------------------------------------- what it opens


def test_a_loaded_model_is_folded_and_only_read(tiny_folder, tiny):
    for model in (tiny, cx.load(str(tiny_folder))):
        assert model.compatibility_mode and not model.training
        assert not any(p.requires_grad for p in model.parameters())


# ---------------------------------------------------------------- what it refuses


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gtp2", r"did you mean .*\bgpt2\b"),
        ("Mini", r"did you mean .*\bmini\b"),
        ("mini-first-edtion", r"did you mean .*\bmini-first-edition\b"),
        ("zzzz", "known names: mini, gpt2, gpt2-medium"),
        *((path, "no such folder") for path in ("./not/here", "/not/here", "~/not-here")),
        *((path, "no such folder") for path in ("a/b/c", "not/here/", "./gpt2")),
    ],
)
def test_a_name_that_is_none_is_not_looked_for_on_the_hub(name, says, capsys):
    with pytest.raises(ValueError, match=f"no model called '{name}'.*{says}"):
        cx.load(name)
    assert "downloading" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / "config.json").unlink(), r"no config\.json"),
        (lambda f: [file.unlink() for file in f.iterdir()], r"no config\.json"),
        *(
            (written("config.json", content), "cannot be read")
            for content in (b"", b"{", b"[]", b'{"model_type": "nonsense"}')
        ),
        (lambda f: (f / WEIGHTS).unlink(), "cannot be read"),
        *(
            (written(WEIGHTS, content), "cannot be read")
            for content in (b"", b"not safetensors at all", bytes(4096), 0.999, 0.5, 0.01)
        ),
        (lambda f: [file.unlink() for file in f.glob("token*")], "tokenizer"),
        *((lacking(name), rf"1 tensors are missing.*{name}") for name in (BLOCK[4], BLOCK[1])),
        (lacking("transformer.wte.weight"), "tensors are missing"),
        (lacking(*BLOCK), "12 tensors are missing"),
        (
            lambda f: rewrite(f, lambda t: t.update({WPE: t[WPE][:16].clone()})),
            f"another shape.*{WPE}",
        ),
        *((spoilt(name), "values that are not finite") for name in (WPE, BLOCK[8])),
    ],
)
def test_a_damaged_folder_is_refused(broken, damage, says):
    damage(broken)
    with pytest.raises(ValueError, match=says):
        cx.load(broken)


@pytest.mark.parametrize(
    ("architecture", "options", "said"),
    [
        ("opt", OPT | {"word_embed_proj_dim": 12}, "TransformerLens does not compute what"),
        ("opt", OPT | {"do_layer_norm_before": False}, "TransformerLens cannot run"),
        ("gpt2", {"scale_attn_weights": False}, "does not scale its attention scores"),
    ],
)
def test_a_model_that_would_be_computed_wrongly_is_refused(
    make_folder, architecture, options, said
):
    with pytest.raises(ValueError, match=said):
        cx.load(make_folder(drawn(architecture, **options), seed=3))


# ---------------------------------------------------------------- nothing a model brings is run


def pickled(folder, trace):
    """Weights that would have to be unpickled, which leaves a trace."""

    class Payload:
        def __reduce__(self):
            return Path.touch, (trace,)

    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))


def own_code(folder, trace):
    """Classes of the model's own, which a library may ask whether to run."""
    for module in ("configuration_own", "modeling_own"):
        code = f"from pathlib import Path\nPath({str(trace)!r}).touch()\n"
        (folder / f"{module}.py").write_text(code)
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "own", "auto_map": own}))


@pytest.mark.parametrize(
    ("brought", "says"), [(pickled, "cannot be read.*safetensors"), (own_code, "cannot be read")]
)
def test_what_comes_with_a_model_is_refused_unopened(broken, tmp_path, monkeypatch, brought, says):
    brought(broken, tmp_path / "opened")
    questions = []
    monkeypatch.setattr("builtins.input", lambda text="": questions.append(text) or "n")
    with pytest.raises(ValueError, match=says):
        cx.load(broken)
    assert not (tmp_path / "opened").exists()
    assert not questions


# ---------------------------------------------------------------- the hub


def test_a_hub_out_of_reach_is_an_error_with_advice_after_a_line(capsys, monkeypatch):
    """The line is there before anything is downloaded."""
    printed, fetch = [], models.AutoModelForCausalLM.from_pretrained

    def noting(*args, **options):
        printed.append(capsys.readouterr().out)
        return fetch(*args, **options)

    monkeypatch.setattr(models.AutoModelForCausalLM, "from_pretrained", noting)
    advice = r"no-such-gpt2 is no folder here .*pass the folder; \"mini\" needs no network"
    with pytest.raises(OSError, match=advice):
        cx.load("nobody/no-such-gpt2")
    assert "no-such-gpt2 is no folder here and not in the cache: downloading it" in printed[0]
    assert constants.HF_HUB_CACHE in printed[0]


def fake_cache(home, folder):
    """What the hub's own cache looks like once a model has been fetched; returns the snapshot."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = home / "hub" / "models--someone--some-gpt2"
    snapshot = Path(shutil.copytree(folder, repository / "snapshots" / commit))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return snapshot


def test_a_model_in_the_cache_is_loaded_by_its_hub_name_in_silence(
    tmp_path, tiny_folder, tiny_weights, monkeypatch, capfd
):
    fake_cache(tmp_path, tiny_folder)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    weights = cx.LayerWeights.of(cx.load("someone/some-gpt2"))
    assert torch.equal(weights.W_K, tiny_weights.W_K)
    assert capfd.readouterr() == ("", "")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("file", "instead", "lacks"),
    [
        (WEIGHTS, f"{WEIGHTS}.index.json", False),  # it says which files the weights are in
        ("config.json", "none", True),
        ("tokenizer.json", "none", True),
    ],
)
def test_a_download_is_announced_where_something_is_left_to_fetch(
    tmp_path, tiny_folder, monkeypatch, capsys, file, instead, lacks
):
    snapshot = fake_cache(tmp_path, tiny_folder)
    (snapshot / file).rename(snapshot / instead)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("mini", str(tiny_folder)):
        models.locate(name)
    assert capsys.readouterr().out == ""
    assert models.locate("someone/some-gpt2") == "someone/some-gpt2"
    assert ("downloading" in capsys.readouterr().out) == lacks
