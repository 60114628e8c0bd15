"""The training tool: a batch is a function of (seed, step), so a killed run loses nothing."""

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import train_mini as tm
from safetensors.torch import load_file

TINY = tm.Recipe(n_layer=1, n_embd=16, n_head=2, n_ctx=16, vocab=300, batch=2, rate=1e-2)


@pytest.fixture
def work(tmp_path, monkeypatch, toy_tokenizer):
    """A function that prepares a folder and the tool for a run of this recipe, named tiny; it hands
    back the arguments.
    """

    def prepared(recipe, name="work"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        rng = np.random.default_rng(0)
        for domain in ("letters", "digits"):
            for split, size in (("train", 2000), ("valid", 400)):
                stream = rng.zipf(1.3, size=size) % (recipe.vocab - 1) + 1
                np.save(folder / f"{domain}.{split}.npy", stream.astype(np.uint16))
        toy_tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
        kept = {"corpus": str(folder), "domains": ["digits", "letters"]}
        (folder / "streams.json").write_text(json.dumps(kept))
        monkeypatch.setattr(tm, "RUNS", {"tiny": recipe})
        monkeypatch.setattr(tm, "SAVE_EVERY", 20)
        monkeypatch.setattr(torch, "compile", lambda step: step)
        return ["tiny", "--corpus", str(folder), "--work", str(folder)]

    return prepared


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_killed_run_goes_on_to_the_same_weights_which_are_kept_on_the_way_and_not_trained_again(
    tmp_path, work, monkeypatch, optimizer, capsys, refused
):
    """Killed as soon as it has kept its progress for the first time."""
    short = replace(TINY, tokens=TINY.batch * TINY.n_ctx * 100, optimizer=optimizer)
    arguments, save = {name: work(short, name) for name in "ab"}, tm.save_checkpoint

    def killed(*args):
        save(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tm, "save_checkpoint", killed)
        assert tm.main(arguments["b"]) == 130
    assert not (tmp_path / "b" / "tiny" / "result.json").exists(), "it was killed before the end"
    ended = []
    for name in "aab":
        assert tm.main(arguments[name]) == 0
        output = capsys.readouterr().out
        assert ("resumed at step" in output) == (name == "b")
        assert re.search(r"^\| tiny \| 3,200 \| \d+\.\d{4} \|", output, flags=re.MULTILINE)
        kept = sorted((tmp_path / name / "tiny").glob("at-*.safetensors"))
        assert [f.stem for f in kept] == ["at-001", "at-003", "at-010", "at-030", "at-100"]
        ended.append((output, [f.stat().st_mtime_ns for f in kept], [f.read_bytes() for f in kept]))
    one, again, other = ended
    assert one == again, "the same table, of what was not trained again"
    assert one[-1] == other[-1]
    embeddings = [load_file(f)["transformer.wte.weight"] for f in kept]
    assert all(not torch.equal(a, b) for a, b in pairwise(embeddings))
    work(replace(short, rate=1.0))
    (tmp_path / "b" / "tiny" / "result.json").unlink()
    assert "another recipe" in refused(tm.main, *arguments["b"])


def test_a_batch_depends_on_the_step_alone_and_draws_domains_by_a_power_of_their_size():
    counted = {"low": np.arange(1, 500), "high": np.arange(1000, 9000)}
    recipe = replace(TINY, batch=4000, power=0.5)
    first, again = (tm.draw_batch(counted, recipe, 7) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, tm.draw_batch(counted, recipe, 8))
    assert torch.equal(first, tm.draw_batch(counted, replace(recipe, seed=1, steady=1.0), 7))
    assert (first[:, 0] == tm.BOS).all(), "every window starts with BOS"
    assert first.shape == (4000, TINY.n_ctx + 1)
    assert (first[:, 2:] - first[:, 1:-1] == 1).all(), "a window is consecutive in one domain"
    share = (first[:, 1] >= 1000).float().mean().item()
    assert share == pytest.approx(0.8, abs=0.03)  # sqrt(16) : 1


def test_blockwise_attention_is_attention():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 50, 8)
    ours, _ = tm.blockwise_causal_attention(None, q, k, v, None, block=16)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(ours, theirs.transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_bits_per_byte_are_nats_over_ln_2_over_the_bytes_of_the_text(toy_tokenizer):
    """By hand, for one domain, in float64."""
    tokenizer, text = toy_tokenizer.backend_tokenizer, "wörter und été"
    ids = tm.encode_stream(tokenizer, [text] * 40)
    sizes = tm.bytes_of(tokenizer)
    assert sizes[ids].sum() == 40 * len(text.encode())
    found = tm.held_out(tm.new_model(TINY).eval(), {"t": {"valid": ids}}, sizes)
    windows = torch.from_numpy(ids.astype(int)[: len(ids) // 16 * 16]).view(-1, 16)
    rows = torch.cat([torch.full((len(windows), 1), tm.BOS), windows], dim=1)
    log_p = tm.new_model(TINY).double().eval()(input_ids=rows[:, :-1]).logits.log_softmax(-1)
    nats = -log_p.gather(-1, windows[..., None]).sum().item()
    assert found["nats"]["t"] == pytest.approx(nats / windows.numel(), rel=1e-5)
    assert found["bits"]["t"] == pytest.approx(nats / np.log(2) / sizes[windows.flatten()].sum())


def test_only_positions_and_seed_differ_before_training():
    made = {kind: tm.new_model(replace(TINY, positions=kind)) for kind in tm.POSITIONS}
    learned = dict(made["learned"].named_parameters())
    for kind in ("rotary", "alibi", "none"):
        for name, p in made[kind].named_parameters():
            position = name == "transformer.wpe.weight"
            assert torch.equal(p, torch.zeros_like(p) if position else learned[name])
            frozen = position or (kind == "alibi" and name.endswith("bias"))
            assert p.requires_grad != frozen
    wte = [tm.new_model(replace(TINY, seed=s)).transformer.wte.weight for s in (0, 1)]
    assert torch.equal(wte[0], learned["transformer.wte.weight"])
    assert not torch.equal(*wte)


def test_runs_of_one_recipe_are_one_run():
    assert tm.folder_of("base") in tm.TRIALS
    assert {replace(r, seed=0, positions="learned", steady=0.0) for r in tm.TWIN_RUNS.values()} == {
        tm.CHOSEN
    }, "twins differ in what they are named for and in nothing else"


@pytest.mark.parametrize(
    ("run", "files", "message"),
    [
        ("tiny", {}, "no corpus at"),
        ("tiny", {"train/law.txt": "", "valid/law.txt": ""}, "is empty"),
        ("tiny", {"train/law.txt": "text"}, "not in .*valid"),
        ("nobody", {}, "no run nobody; there are tiny"),
    ],
)
def test_what_cannot_be_trained_is_one_clear_line(
    tmp_path, monkeypatch, refused, run, files, message
):
    monkeypatch.setattr(tm, "RUNS", {"tiny": TINY})
    folder = tmp_path / "corpus"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    line = refused(tm.main, run, "--corpus", folder, "--work", tmp_path / "work")
    assert re.search(message, line)


def test_a_corpus_becomes_streams_with_the_separator_before_each_document(tmp_path, monkeypatch):
    monkeypatch.setattr(tm, "python_documents", lambda: {split: ["pass"] for split in tm.SPLITS})
    for split in tm.SPLITS:
        (tmp_path / split).mkdir()
        (tmp_path / split / "law.txt").write_text("one\ntwo\n<|endoftext|>\nthree\n")
    assert tm.read_documents(tmp_path / "train" / "law.txt") == ["one\ntwo", "three"]
    streams = tm.prepare(tmp_path, tmp_path / "work")
    words = tm.Tokenizer.from_file(str(tmp_path / "work" / "tokenizer.json"))
    stream = streams["law"]["train"].tolist()
    text = words.decode(stream, skip_special_tokens=False)
    assert text == "<|endoftext|>one\ntwo<|endoftext|>three"
    again = tm.prepare(tmp_path / "gone", tmp_path / "work")
    assert again.keys() == {"law", "python"} and again["law"]["valid"].tolist() == stream
    (tmp_path / "other" / "train").mkdir(parents=True)
    with pytest.raises(ValueError, match=f"holds the streams of {tmp_path}: name another --work"):
        tm.prepare(tmp_path / "other", tmp_path / "work")
