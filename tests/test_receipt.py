"""What is read of a model's files, and what may not be left: no number is wrong in silence."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from gguf import RopeScalingType
from kinds import GROUPED, KINDS, LLAMA, VARIANTS, as_gguf, drawn
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, normalizers

import ctxlib as cx

WEIGHTS = "model.safetensors"
TEXT = "The colour of the sky."


@pytest.fixture
def copied(make_folder, tmp_path):
    """A function that copies a model's folder, to be changed."""

    def copy(kind="GPT-2", **options):
        folder = make_folder(KINDS[kind].make(**options), seed=3)
        return Path(shutil.copytree(folder, tmp_path / "model"))

    return copy


def change(folder, name, **facts):
    """Change what a JSON file says; None takes a fact away."""
    file = folder / name
    held = json.loads(file.read_text()) | facts
    file.write_text(json.dumps({k: v for k, v in held.items() if v is not None}))


def add(folder, name, tensor):
    tensors = load_file(folder / WEIGHTS)
    save_file(tensors | {name: tensor}, folder / WEIGHTS, metadata={"format": "pt"})


# ---------------------------------------------------------------- tensors


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("GPT-2", "transformer.h.{}.attn.c_attn.gate"),
        ("Llama", "model.layers.{}.self_attn.q_proj.bias"),
        ("Qwen2", "model.layers.{}.self_attn.q_norm.weight"),
    ],
)
def test_a_tensor_that_nobody_takes_in_a_layer_that_is_read_is_refused(copied, kind, part):
    folder = copied(kind)
    add(folder, part.format(2), torch.ones(24))
    cut = cx.load(folder, layers=2)
    assert part.format(2) in cut.receipt.left
    with pytest.raises(ValueError, match=rf"1 tensors in layers that are read.*{part.format(2)}"):
        cx.load(folder)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (lambda w: w.add_tensor("blk.0.attn_q.bias", np.ones(32, "f4")), r"blk\.0\.attn_q\.bias"),
        (lambda w: w.add_tensor("blk.0.attn_q_norm.weight", np.ones(8, "f4")), "attn_q_norm"),
        (lambda w: w.add_tensor("rope_freqs.weight", np.arange(4, dtype="f4")), r"scaled \(rope_"),
        (
            lambda w: w.add_rope_scaling_type(RopeScalingType.YARN),
            r"scaled \(yarn",
        ),
        (lambda w: w.add_tensor("rope_freqs.weight", np.ones(4, "f4")), None),
        (lambda w: w.add_tensor("blk.2.attn_q.bias", np.ones(32, "f4")), None),
    ],
)
def test_what_a_gguf_file_holds_is_used_or_refused(make_folder, tmp_path, more, says):
    file = as_gguf(make_folder(LLAMA(), seed=3), tmp_path / "llama.gguf", more)
    if says is None:
        model = cx.load(file, layers=2)
        assert model.receipt.dtype == "F32, Q8_0" and model.receipt.files == (file,)
    else:
        with pytest.raises(ValueError, match=says):
            cx.load(file, layers=2)


def test_an_adapter_beside_a_model_is_refused(copied):
    folder = copied()
    change(folder, "config.json")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"an adapter beside the model \(adapter_config.json\)"):
        cx.load(folder)


# ---------------------------------------------------------------- the token that begins a text


SPECIAL = "<|im_end|>"


def instruct(folder, **facts):
    """A tokenizer whose EOS ends a turn, and that names no BOS."""
    own = Tokenizer.from_file(str(folder / "tokenizer.json"))
    own.add_special_tokens([SPECIAL])
    own.save(str(folder / "tokenizer.json"))
    change(folder, "tokenizer_config.json", bos_token=None, eos_token=SPECIAL, unk_token=None)
    change(folder, "config.json", **facts)


@pytest.mark.parametrize(
    ("named", "why"), [(0, "the configuration's BOS"), (None, "what parts documents")]
)
def test_an_instruct_models_eos_begins_no_text(copied, named, why):
    folder = copied("Llama", vocab_size=301)
    instruct(folder, bos_token_id=named)
    model = cx.load(folder)
    ids = cx.texts.encode(model, TEXT).tolist()
    assert ids[0] == 0 != model.tokenizer.eos_token_id
    assert model.receipt.begin == f"'<|endoftext|>' ({why})"
    assert model.to_tokens(TEXT)[0].tolist() == ids


@pytest.mark.parametrize("kind", ["GPT-2", "NeoX, parallel", "Bloom", "Qwen2", "OPT"])
def test_a_text_is_read_in_one_way(of_kind, kind):
    model = of_kind(kind).model
    assert model.to_tokens(TEXT)[0].tolist() == cx.texts.encode(model, TEXT).tolist()


def test_without_a_special_token_none_is_invented(copied):
    """Though there are rows for more tokens."""
    folder = copied("Llama", vocab_size=320)
    own = json.loads((folder / "tokenizer.json").read_text())
    own["added_tokens"] = []
    del own["model"]["vocab"]["<|endoftext|>"]
    (folder / "tokenizer.json").write_text(json.dumps(own))
    marks = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"))
    change(folder, "tokenizer_config.json", **marks)
    model = cx.load(folder)
    assert len(model.tokenizer) == 299 and "21 of them without a token" in model.receipt.vocabulary
    with pytest.raises(ValueError, match="no BOS, CLS or EOS token"):
        cx.texts.encode(model, TEXT)
    assert model.receipt.begin.startswith("no token")


def test_a_text_that_quotes_a_special_token_is_read_as_written(tiny):
    ids = cx.texts.encode(tiny, "the <|endoftext|> mark").tolist()
    assert ids.count(0) == 1 and tiny.tokenizer.decode(ids[1:]) == "the <|endoftext|> mark"


# ---------------------------------------------------------------- the tokenizer


@pytest.mark.parametrize("kind", ["LlamaTokenizer", "GPT2Tokenizer", "Qwen2Tokenizer", None])
@pytest.mark.parametrize("lower", [True, False])
def test_the_tokens_are_those_of_the_models_tokenizer_file(copied, kind, lower):
    folder = copied("Llama")
    own = Tokenizer.from_file(str(folder / "tokenizer.json"))
    own.normalizer = normalizers.Lowercase() if lower else normalizers.NFD()
    own.save(str(folder / "tokenizer.json"))
    change(folder, "tokenizer_config.json", tokenizer_class=kind)
    for text in ("The COLOUR", " naïve  and\n", "e\u0301"):
        ids = cx.texts.encode(cx.load(folder, layers=1), text)[1:].tolist()
        assert ids == own.encode(text, add_special_tokens=False).ids


# ---------------------------------------------------------------- from memory


def test_a_model_in_memory_is_taken_as_its_folder_is(make_folder):
    folder = make_folder(drawn("llama", **GROUPED), seed=3)
    own = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    before = {name: tensor.clone() for name, tensor in own.state_dict().items()}
    model, tokens = cx.load(own, tokenizer=words), torch.arange(9)[None]
    assert model.receipt.dtype == "bfloat16" and model(tokens).dtype == torch.float32
    torch.testing.assert_close(model(tokens), cx.load(folder)(tokens), atol=0.1, rtol=0.1)
    assert all(torch.equal(before[name], t) for name, t in own.state_dict().items())
    own.config.name_or_path = ""  # as a model has that was never saved
    found = cx.load(own, tokenizer=words).receipt
    assert (found.source, found.files, model.receipt.files) == ("a model in memory", (), ())
    with pytest.raises(TypeError, match=r"cx\.load\(model, tokenizer=tokenizer\)"):
        cx.load(own)


def test_a_tokenizer_in_memory_need_never_have_been_saved(tiny_folder):
    own = transformers.AutoModelForCausalLM.from_pretrained(tiny_folder)
    saved = transformers.AutoTokenizer.from_pretrained(tiny_folder)
    begins = {"bos_token": saved.bos_token}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=saved.backend_tokenizer, **begins)
    model = cx.load(own, tokenizer=fast)
    text = "the cat and the dog"
    assert cx.texts.encode(model, text).equal(cx.texts.encode(cx.load(tiny_folder), text))


def test_two_words_with_one_id_are_refused(copied):
    """A copy of such a tokenizer would lose one of them."""
    folder = copied("GPT-2")
    spec = json.loads((folder / "tokenizer.json").read_text())
    words = spec["model"]["vocab"]
    first, second = [*words][40:42]
    words[second] = words[first]
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match=f"have the same id, {words[first]}"):
        cx.load(folder)
    own = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with pytest.raises(ValueError, match=f"have the same id, {words[first]}"):
        cx.load(own, tokenizer=transformers.AutoTokenizer.from_pretrained(folder))


def test_an_encoder_in_memory_may_have_a_head(toy_tokenizer):
    """RoBERTa's table has rows that no text reaches."""
    config = VARIANTS["RoBERTa"].make().config
    config.name_or_path = "a/toy"
    model = cx.load(transformers.RobertaForMaskedLM(config), tokenizer=toy_tokenizer)
    assert model.cfg.n_ctx == cx.LayerWeights.of(model).n_ctx == 32
    assert model.receipt.positions.endswith("32 of them")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("ModernBERT", "rotary, theta 160000.0, a window of 64 tokens in some layers"),
        ("Gemma 2", "rotary, theta 10000.0, a window of 8 tokens in some layers"),
        ("Gemma 3", "rotary, theta 10000.0, a window of 8 tokens"),
        ("Llama", "rotary, theta 10000.0"),
    ],
)
def test_a_receipt_says_the_first_layers_positions(of_kind, kind, says):
    assert of_kind(kind).model.receipt.positions == says


def test_a_session_in_double_precision_loads_a_model_in_single(tiny_folder):
    torch.set_default_dtype(torch.float64)
    try:
        assert cx.load(tiny_folder).W_E.dtype == torch.float32
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
