"""What ships of the twins: first layers that compute what training computed, found by name."""

import json
import shutil
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import evidence
import pytest
import ship_mini
import torch
import train_mini as tm

import ctxlib as cx
from ctxlib import files, models
from ctxlib.store import stored_layer

TWINS = files.CLONE / "data" / "twins"
NAME = "mini-first-edition"
TINY = tm.Recipe(n_layer=2, n_embd=32, n_head=4, n_ctx=32, vocab=300)


@pytest.mark.parametrize("kind", tm.POSITIONS)
def test_a_shipped_format_computes_what_was_trained(kind):
    recipe = replace(TINY, positions=kind)
    model = tm.new_model(recipe).eval()
    for p in model.parameters():
        if p.requires_grad:
            p.data += 0.2 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    state = {name: p.detach() for name, p in model.named_parameters()}
    ids = torch.randint(1, 300, (2, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(input_ids=ids, output_hidden_states=True)
        whole = ship_mini.as_model(state, recipe)(input_ids=ids).logits
        first = ship_mini.as_model(state, recipe, layers=1)(input_ids=ids).logits
    torch.testing.assert_close(whole, expected.logits, atol=1e-4, rtol=1e-4)
    after_one = model.transformer.ln_f(expected.hidden_states[1])
    torch.testing.assert_close(first, after_one @ model.lm_head.weight.T, atol=1e-4, rtol=1e-4)


def test_what_is_trained_ships_with_its_card_and_its_record_and_is_read_by_chapters(
    tmp_path, monkeypatch
):
    """From a work folder in which two runs have ended."""
    work = tmp_path / "work"
    small = {"n_layer": 2, "n_embd": 32, "n_head": 4}
    monkeypatch.setattr(tm, "RUNS", {run: replace(r, **small) for run, r in tm.RUNS.items()})
    for name in ("mini", "rotary"):
        state = {k: v.detach().half() for k, v in tm.new_model(tm.RUNS[name]).named_parameters()}
        tm.save_whole(state, work / name / "at-100.safetensors", {})
        result = {"run": name, "recipe": asdict(tm.RUNS[name]), "tokens": 1000, "minutes": 3}
        result |= {"machine": "an abacus", "nats": {"law": 3.0}, "bits": {"law": 1.25}}
        (work / name / "result.json").write_text(json.dumps(result))
    shutil.copy(models.MINI / "tokenizer.json", work)
    for place, name in {"MINI": "mini", "TWINS": "twins", "LISTING": "twins.toml"}.items():
        monkeypatch.setattr(ship_mini, place, tmp_path / name)
    monkeypatch.setattr(tm, "RECORD", tmp_path / "runs.json")
    assert ship_mini.main(["--corpus", str(tmp_path), "--work", str(work)]) == 0
    model = cx.load(tmp_path / "mini")
    assert (model.cfg.n_layers, model.tokenizer.bos_token_id) == (2, 0)
    card = (tmp_path / "mini" / "README.md").read_text()
    assert ship_mini.digest(tmp_path / "mini" / "model.safetensors") in card
    assert "| mini | 1,000 | 1.2500 | 3.000 | 3 | an abacus |" in card
    twins = tomllib.loads((tmp_path / "twins.toml").read_text())
    assert list(twins) == ["mini-rotary"]
    file = tmp_path / "twins" / "mini-rotary" / "model.safetensors"
    assert twins["mini-rotary"]["model.safetensors"] == ship_mini.digest(file)
    record = json.loads((tmp_path / "runs.json").read_text())
    assert [r["run"] for r in record] == ["mini", "rotary"]
    evidence.export(work, tmp_path / "models")
    again = cx.load(tmp_path / "models" / "mini-100")
    assert torch.equal(again.W_pos, model.W_pos)
    W_pos = tm.new_model(tm.RUNS["mini"]).transformer.wpe.weight.detach()
    assert torch.allclose(model.W_pos.cpu(), W_pos - W_pos.mean(-1, keepdim=True), atol=2e-3)
    facts = json.loads((tmp_path / "models" / "rotary-100" / "run.json").read_text())
    assert facts["tokens"] == 1000


@pytest.mark.parametrize("name", models.twins())
def test_a_twin_loads_by_its_name_and_has_minis_tokens(name, mini):
    model = cx.load(name)
    assert model.cfg.n_layers == 1
    assert model.cfg.d_vocab == mini.cfg.d_vocab
    assert model.tokenizer.get_vocab() == mini.tokenizer.get_vocab()
    kinds = {"mini-rotary": "rotary", "mini-alibi": "alibi"}
    assert model.cfg.positional_embedding_type == kinds.get(name, "standard")


def test_the_listing_is_what_lies_there():
    there = {f.name: "" for f in TWINS.iterdir() if f.is_dir()}
    assert there.keys() == models.twins().keys()
    assert ship_mini.listing(models.twins()) == ship_mini.LISTING.read_text()


@pytest.fixture
def address(tmp_path, monkeypatch):
    """No clone: a twin's files come from its address, which is this folder."""
    folder = shutil.copytree(TWINS / NAME, tmp_path / "address" / "data" / "twins" / NAME)
    monkeypatch.setattr(files, "ADDRESS", folder.parents[2].as_uri())
    monkeypatch.setattr(files, "CLONE", tmp_path / "nowhere")
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "cache"))
    return folder


def test_a_twin_is_fetched_once_and_held_against_its_checksum(address, capsys):
    def fetched():
        return models.twin(NAME), capsys.readouterr().out.count("downloading")

    folder, count = fetched()
    assert count == 2
    assert fetched() == (folder, 0), "it is there now"
    (folder / "config.json").write_text("{}")
    assert fetched() == (folder, 1), "what was damaged is fetched again"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda file: file.write_bytes(b"something else"), ValueError, rf"{NAME}/.* is damaged"),
        (Path.unlink, OSError, r"out of reach .* clone"),
    ],
)
def test_what_comes_damaged_or_not_at_all_is_one_clear_line(address, change, error, message):
    change(address / "config.json")
    with pytest.raises(error, match=message) as caught:
        models.twin(NAME)
    assert "\n" not in str(caught.value)
    assert not (Path(torch.hub.get_dir()) / "ctxlib/twins" / NAME / "config.json").exists()


def test_a_stored_layer_is_found_by_its_name_without_a_clone(address, monkeypatch, capsys):
    source = TWINS.parent / "stored" / "smollm2.safetensors.zst"
    (address.parents[1] / "stored").mkdir()
    shutil.copy(source, address.parents[1] / "stored")
    assert stored_layer("smollm2").read_bytes() == source.read_bytes()
    assert "downloading" in capsys.readouterr().out
    (address.parents[1] / "stored" / source.name).unlink()
    assert cx.fix_query("smollm2").n == 256, "kept"
    with pytest.raises(OSError, match=r"qwen.* out of reach .* clone .*take the hub's model"):
        cx.fix_query("qwen")
