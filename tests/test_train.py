"""The training tool: a batch is a function of (seed, step), so a killed run loses nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import train_mini as tm

import ctxlib as cx

TINY = tm.Recipe(
    n_layer=1, n_embd=16, n_head=2, n_ctx=16, vocab=300, tokens=16 * 2 * 300, batch=2, rate=1e-2
)


def fill(work: Path, recipe: tm.Recipe) -> None:
    """Token streams and a tokenizer, as `prepare` would have left them."""
    work.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("letters", "digits"):
        for split in tm.SPLITS:
            stream = rng.zipf(1.3, size=2000 if split == "train" else 400) % (recipe.vocab - 1) + 1
            np.save(work / f"{name}.{split}.npy", stream.astype(np.uint16))
    text = [" ".join(f"word{i} {i * 7919}" for i in range(3000))]
    tm.train_tokenizer({"text": {"train": text, "valid": text}}, recipe.vocab).save(
        str(work / "tokenizer.json")
    )
    (work / "streams.json").write_text(json.dumps(["digits", "letters"]))


def arguments(work: Path, out: Path, *more: str, recipe: tm.Recipe = TINY) -> list[str]:
    options = [w for k, v in asdict(recipe).items() for w in (f"--{k.replace('_', '-')}", str(v))]
    paths = ["--corpus", str(work), "--work", str(work), "--out", str(out)]
    return [
        *paths,
        "--no-compile",
        "--no-bf16",
        "--device",
        "cpu",
        "--save-every",
        "20",
        *options,
        *more,
    ]


def tool(*args: str, **options) -> subprocess.Popen:
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tools/train_mini.py"), *args],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


# The training tool, killed as soon as it has kept its progress for the first time.
DEADLY = """
import os, signal, sys
import train_mini as tm
save = tm.save_checkpoint
def killed(*args):
    save(*args)
    os.kill(os.getpid(), signal.SIGKILL)
tm.save_checkpoint = killed
tm.main(sys.argv[1:])
"""


def test_a_run_that_is_killed_early_goes_on_to_the_same_weights(tmp_path):
    """As the next one, with a few steps, and but one process to wait for."""
    short = replace(TINY, tokens=TINY.batch * TINY.n_ctx * 30)
    for name in ("a", "b"):
        fill(tmp_path / name, short)
    killed = subprocess.run(
        [
            *(sys.executable, "-c", DEADLY),
            *arguments(tmp_path / "b", tmp_path / "killed", recipe=short),
        ],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "killed").exists(), "it was killed before the end"
    assert tm.main(arguments(tmp_path / "a", tmp_path / "whole", recipe=short)) == 0
    resumed = arguments(tmp_path / "b", tmp_path / "killed", "--resume", recipe=short)
    assert tm.main(resumed) == 0
    one, other = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "killed"))
    assert one == other


@pytest.mark.nightly
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path):
    fill(tmp_path / "a", TINY)
    fill(tmp_path / "b", TINY)
    whole = tool(*arguments(tmp_path / "a", tmp_path / "whole"), stdout=subprocess.DEVNULL)
    killed = tool(*arguments(tmp_path / "b", tmp_path / "killed"), stdout=subprocess.DEVNULL)
    checkpoint = tmp_path / "b" / "checkpoint.safetensors"
    while not checkpoint.exists():
        assert killed.poll() is None, killed.stderr.read()
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "killed").exists(), "it was killed before the end"

    resumed = tool(
        *arguments(tmp_path / "b", tmp_path / "killed", "--resume"), stdout=subprocess.PIPE
    )
    output, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    assert "resumed at step" in output
    whole.communicate()
    assert whole.returncode == 0
    one, other = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "killed"))
    assert one == other


def test_a_batch_depends_on_seed_and_step_alone(tmp_path):
    fill(tmp_path / "w", TINY)
    streams = {n: np.load(tmp_path / "w" / f"{n}.train.npy") for n in ("digits", "letters")}
    first, again = (tm.draw_batch(streams, TINY, 7) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, tm.draw_batch(streams, TINY, 8))
    assert not torch.equal(first, tm.draw_batch(streams, replace(TINY, seed=1), 7))
    assert (first[:, 0] == tm.BOS).all(), "every window starts with BOS"
    assert first.shape == (TINY.batch, TINY.n_ctx + 1)


def test_a_window_is_consecutive_in_one_domain():
    streams = {
        "low": np.arange(1, 500, dtype=np.uint16),
        "high": np.arange(1000, 1500, dtype=np.uint16),
    }
    for row in tm.draw_batch(streams, replace(TINY, batch=32), 0):
        assert (row[2:] - row[1:-1] == 1).all()


def test_domains_are_drawn_in_proportion_to_a_power_of_their_size():
    streams = {"small": np.ones(1000, dtype=np.uint16), "large": np.full(16000, 2, dtype=np.uint16)}
    batch = tm.draw_batch(streams, replace(TINY, batch=4000, power=0.5), 0)
    assert (batch[:, 1] == 2).float().mean().item() == pytest.approx(0.8, abs=0.03)  # sqrt(16) : 1


def test_the_rate_warms_up_and_falls():
    recipe = tm.Recipe()
    rates = [recipe.rate_at(s) for s in range(recipe.steps)]
    peak = int(np.argmax(rates))
    assert max(rates) == pytest.approx(recipe.rate)
    assert all(a < b for a, b in pairwise(rates[: peak + 1]))
    assert all(a >= b for a, b in pairwise(rates[peak:]))
    assert rates[-1] == pytest.approx(recipe.rate * recipe.final, rel=0.01)


def test_blockwise_attention_is_attention():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 50, 8)
    ours, _ = tm.blockwise_causal_attention(None, q, k, v, None, block=16)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(
        1, 2
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_positions_start_as_waves_that_tell_near_from_far():
    recipe = replace(TINY, n_ctx=128, n_embd=64, n_head=2, sinusoids=0.6)
    rows = tm.new_model(recipe).transformer.wpe.weight.detach()
    torch.testing.assert_close(rows.norm(dim=1), torch.full((128,), 0.6))
    likeness = rows[64] @ rows[[64, 63, 60, 40, 0]].T
    assert (likeness.diff() < 0).all()
    assert likeness[2] < 0.8 * likeness[0]


def test_the_first_heads_start_as_local_ones(tmp_path):
    recipe = tm.Recipe(vocab=300, n_layer=1)
    model = tm.new_model(recipe)
    weights = cx.LayerWeights.from_state_dict(model.state_dict(), recipe.n_head)
    kernels = cx.positional_kernels(weights, 400, token=7)
    assert (cx.effective_tokens(kernels)[: recipe.local] < 15).all()
    assert (cx.effective_tokens(kernels)[recipe.local :] > 100).all()
    assert (400 - kernels[:2].argmax(-1)).tolist() == [1, 2], "how far back they look"


def test_moving_the_origin_changes_no_probability():
    model = tm.new_model(TINY)
    model.transformer.wte.weight.data += 0.3
    windows = torch.randint(0, 300, (4, 16), generator=torch.Generator().manual_seed(0))
    before = model(windows).logits.log_softmax(-1)
    streams = {"a": np.arange(1, 200, dtype=np.uint16), "b": np.arange(100, 300, dtype=np.uint16)}
    tm.centre_tokens(model, streams, replace(TINY, power=1.0))
    torch.testing.assert_close(model(windows).logits.log_softmax(-1), before, atol=1e-5, rtol=1e-5)
    tokens = torch.tensor(np.concatenate(list(streams.values())).astype(np.int64))
    mean = model.transformer.wte.weight[tokens].mean(0)
    torch.testing.assert_close(mean, torch.zeros(16), atol=1e-6, rtol=0)


def test_a_phase_goes_on_from_a_trained_model_and_says_so(tmp_path):
    fill(tmp_path / "w", TINY)
    one, two = tmp_path / "one", tmp_path / "two"
    first = arguments(tmp_path / "w", one, "--stop", "5")
    assert tm.main(first) == 0
    second = replace(TINY, start=str(one), sinusoids=0.0, rate=1e-9, tokens=TINY.batch * TINY.n_ctx)
    (tmp_path / "w" / "checkpoint.safetensors").unlink()
    assert tm.main(arguments(tmp_path / "w", two, recipe=second)) == 0
    history = json.loads((two / "phases.json").read_text())
    assert [p["steps"] for p in history] == [5, 1]
    assert [p["tokens"] for p in history] == [5 * 32, 32]
    card = (two / "README.md").read_text()
    assert f"{6 * 32:,} tokens in 2 phase(s)" in card
    weights = [load_file(f / "model.safetensors") for f in (one, two)]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], atol=1e-3, rtol=1e-3)


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    model = tm.new_model(TINY)
    optimizer = tm.new_optimizer(model, TINY)
    tm.loss_of(model, torch.randint(0, 300, (2, 17))).backward()
    optimizer.step()
    tm.save_checkpoint(tmp_path / "c.safetensors", model, optimizer, TINY, 1, 0.0)
    with pytest.raises(ValueError, match="another recipe"):
        tm.load_checkpoint(tmp_path / "c.safetensors", model, optimizer, replace(TINY, rate=1.0))


def corpus(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        split, domain = name.split("_", 1)
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / f"{domain}.txt").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no corpus at"),
        ({"train_law": "", "valid_law": ""}, "is empty"),
        ({"train_law": "text"}, "not in .*valid"),
    ],
)
def test_a_missing_or_empty_corpus_is_one_clear_line(tmp_path, capsys, files, says):
    folder = corpus(tmp_path / "corpus", **files)
    assert tm.main(["--corpus", str(folder), "--work", str(tmp_path / "work")]) == 2
    errors = capsys.readouterr().err
    assert len(errors.strip().splitlines()) == 1
    assert re.search(says, errors)


def test_documents_are_split_at_the_separator(tmp_path):
    file = tmp_path / "law.txt"
    file.write_text("one\ntwo\n<|endoftext|>\nthree\n")
    assert tm.read_documents(file) == ["one\ntwo", "three"]
