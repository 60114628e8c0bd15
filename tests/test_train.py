"""The training tool: a batch is a function of (seed, step), so a killed run loses nothing."""

import json
import os
import re
import signal
import subprocess
import sys
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

TINY = tm.Recipe(
    n_layer=1, n_embd=16, n_head=2, n_ctx=16, vocab=300, tokens=16 * 2 * 300, batch=2, rate=1e-2
)
RUN = "adamw-1e-3"  # options change what it is


def fill(work: Path, recipe: tm.Recipe) -> None:
    """Token streams and a tokenizer, as `prepare` would have left them."""
    work.mkdir(parents=True, exist_ok=True)
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


def arguments(work: Path, recipe: tm.Recipe = TINY) -> list[str]:
    options = [w for k, v in asdict(recipe).items() for w in (f"--{k.replace('_', '-')}", str(v))]
    paths = ["--corpus", str(work), "--work", str(work)]
    plain = ["--no-compile", "--no-bf16", "--device", "cpu", "--save-every", "20"]
    return [RUN, *paths, *plain, *options]


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


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path, optimizer, capsys):
    short = replace(TINY, tokens=TINY.batch * TINY.n_ctx * 30, optimizer=optimizer)
    for name in ("a", "b"):
        fill(tmp_path / name, short)
    killed = subprocess.run(
        [sys.executable, "-c", DEADLY, *arguments(tmp_path / "b", short)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "b" / RUN / "result.json").exists(), "it was killed before the end"
    for name in "ab":
        assert tm.main(arguments(tmp_path / name, short)) == 0
        assert ("resumed at step" in capsys.readouterr().out) == (name == "b")
    one, other = ((tmp_path / n / RUN / "at-100.safetensors").read_bytes() for n in "ab")
    assert one == other


def test_what_is_trained_is_not_trained_again(tmp_path, capsys):
    fill(tmp_path, TINY)
    short = replace(TINY, tokens=16 * 2 * 3)
    assert tm.main(arguments(tmp_path, short)) == 0
    first = capsys.readouterr().out
    weights = tmp_path / RUN / "at-100.safetensors"
    written = weights.stat().st_mtime_ns
    assert tm.main(arguments(tmp_path, short)) == 0
    assert capsys.readouterr().out == first, "the same table"
    assert weights.stat().st_mtime_ns == written
    assert re.search(rf"^\| {RUN} \| 96 \| \d+\.\d{{4}} \|", first, flags=re.MULTILINE)


def test_a_batch_depends_on_the_step_alone(tmp_path):
    fill(tmp_path / "w", TINY)
    streams = {n: np.load(tmp_path / "w" / f"{n}.train.npy") for n in ("digits", "letters")}
    first, again = (tm.draw_batch(streams, TINY, 7) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, tm.draw_batch(streams, TINY, 8))
    assert torch.equal(first, tm.draw_batch(streams, replace(TINY, seed=1, steady=1.0), 7))
    assert (first[:, 0] == tm.BOS).all(), "every window starts with BOS"
    assert first.shape == (TINY.batch, TINY.n_ctx + 1)
    counted = {"low": np.arange(1, 500), "high": np.arange(1000, 1500)}
    rows = tm.draw_batch(counted, replace(TINY, batch=32), 0)
    assert (rows[:, 2:] - rows[:, 1:-1] == 1).all(), "a window is consecutive in one domain"


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


def test_a_run_that_ended_elsewhere_is_on_record_for_its_recipe_alone(tmp_path, monkeypatch):
    result = {"run": RUN, "recipe": asdict(TINY), "tokens": 9}
    monkeypatch.setattr(tm, "RECORD", tmp_path / "runs.json")
    assert tm.ended(RUN, TINY, tmp_path) is None
    tm.RECORD.write_text(json.dumps([result]))
    assert tm.ended(RUN, TINY, tmp_path) == result
    assert tm.ended(RUN, replace(TINY, rate=1.0), tmp_path) is None
    assert tm.ended("base", TINY, tmp_path) is None
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "result.json").write_text(json.dumps(result | {"tokens": 10}))
    assert tm.ended(RUN, TINY, tmp_path)["tokens"] == 10, "what lies here comes first"


def test_weights_are_kept_on_the_way(tmp_path):
    fill(tmp_path, TINY)
    assert tm.main(arguments(tmp_path)) == 0
    kept = sorted(tmp_path.glob(f"{RUN}/at-*.safetensors"))
    assert [f.stem for f in kept] == ["at-001", "at-003", "at-010", "at-030", "at-100"]
    embeddings = [load_file(f)["transformer.wte.weight"] for f in kept]
    assert all(not torch.equal(a, b) for a, b in pairwise(embeddings))


def test_bits_per_byte_are_nats_over_ln_2_over_the_bytes_of_the_text():
    """By hand, for one domain, in float64."""
    tokenizer = tm.train_tokenizer({"t": {"train": ["wörter und wörter, été " * 50]}}, 270)
    ids = tm.encode_stream(tokenizer, ["wörter und été"] * 40)
    sizes = tm.bytes_of(tokenizer)
    assert sizes[ids].sum() == 40 * len("wörter und été".encode())
    recipe = replace(TINY, vocab=270)
    model = tm.new_model(recipe).eval()
    found = tm.held_out(model, {"t": {"valid": ids}}, sizes, "cpu")
    nats, count, size = 0.0, 0, 0
    exact = tm.new_model(recipe).double().eval()
    for start in range(0, len(ids) - recipe.n_ctx + 1, recipe.n_ctx):
        window = torch.tensor([tm.BOS, *ids[start : start + recipe.n_ctx].tolist()])[None]
        log_p = exact(input_ids=window[:, :-1]).logits.log_softmax(-1)
        nats -= log_p.gather(-1, window[:, 1:, None]).sum().item()
        count += recipe.n_ctx
        size += len(tokenizer.decode(window[0, 1:].tolist(), skip_special_tokens=True).encode())
    assert found["nats"]["t"] == pytest.approx(nats / count, rel=1e-5)
    # a window may begin or end inside a letter, which cannot be decoded
    assert found["bits"]["t"] == pytest.approx(nats / np.log(2) / sizes[ids[:count]].sum())
    assert abs(size - sizes[ids[:count]].sum()) < 0.05 * size


def test_only_the_positions_differ_between_kinds_before_training():
    made = {kind: tm.new_model(replace(TINY, positions=kind)) for kind in tm.POSITIONS}
    learned = dict(made["learned"].named_parameters())
    for kind in ("rotary", "alibi", "none"):
        for name, p in made[kind].named_parameters():
            position = name == "transformer.wpe.weight"
            assert torch.equal(p, torch.zeros_like(p) if position else learned[name])
            frozen = position or (kind == "alibi" and name.endswith("bias"))
            assert p.requires_grad != frozen


def test_a_seed_decides_where_training_starts():
    first, again, other = (
        tm.new_model(replace(TINY, seed=seed)).transformer.wte.weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("kind", tm.POSITIONS)
def test_every_kind_is_causal_and_sees_positions_as_it_should(kind):
    recipe = replace(TINY, positions=kind, n_embd=32)
    model = tm.new_model(recipe).eval()
    for p in model.parameters():
        p.data += 0.2 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    if kind != "learned":
        model.transformer.wpe.weight.data.zero_()
    ids = torch.randint(1, 300, (1, 16), generator=torch.Generator().manual_seed(2))
    logits = model(input_ids=ids).logits
    later = ids.clone()
    later[0, 10:] = 7
    torch.testing.assert_close(model(input_ids=later).logits[:, :10], logits[:, :10])
    swapped = ids[:, [0, 2, 1, *range(3, 16)]]  # a bag of tokens, where there are no positions
    moved = (model(input_ids=swapped).logits - logits)[0, -1].abs().max() > 1e-4
    assert moved == (kind != "none")


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="learned, rotary, alibi, none"):
        tm.new_model(replace(TINY, positions="t5"))
    with pytest.raises(ValueError, match="adamw or muon"):
        tm.new_optimizers(tm.new_model(TINY), replace(TINY, optimizer="sgd"))
    assert tm.main(["nobody", "--corpus", "."]) == 2


def test_runs_of_one_recipe_are_one_run():
    assert tm.folder_of("base") in tm.TRIALS
    assert {replace(r, seed=0, positions="learned", steady=0.0) for r in tm.TWIN_RUNS.values()} == {
        tm.CHOSEN
    }, "twins differ in what they are named for and in nothing else"
    assert tm.RUNS["mini"].tokens >= 50_000_000


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    model = tm.new_model(TINY)
    optimizers = tm.new_optimizers(model, TINY)
    tm.loss_of(model, torch.randint(0, 300, (2, 17))).backward()
    optimizers[0].step()
    tm.save_checkpoint(tmp_path / "c.safetensors", model, optimizers, TINY, 1, 0.0)
    with pytest.raises(ValueError, match="another recipe"):
        tm.load_checkpoint(tmp_path / "c.safetensors", model, optimizers, replace(TINY, rate=1.0))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no corpus at"),
        ({"train/law.txt": "", "valid/law.txt": ""}, "is empty"),
        ({"train/law.txt": "text"}, "not in .*valid"),
    ],
)
def test_a_missing_or_empty_corpus_is_one_clear_line(tmp_path, capsys, files, says):
    folder = tmp_path / "corpus"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    not_on_record = ["mini", "--tokens", "96"]
    arguments = ["--corpus", str(folder), "--work", str(tmp_path / "work"), *not_on_record]
    assert tm.main(arguments) == 2
    errors = capsys.readouterr().err
    assert len(errors.strip().splitlines()) == 1
    assert re.search(says, errors)


def test_documents_are_split_at_the_separator(tmp_path):
    file = tmp_path / "law.txt"
    file.write_text("one\ntwo\n<|endoftext|>\nthree\n")
    assert tm.read_documents(file) == ["one\ntwo", "three"]
