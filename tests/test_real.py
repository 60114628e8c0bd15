"""Real models against transformers' own forward pass; what two pages keep of heads against the
package's own terms and hooks, of a model whose logits `cx.load` holds against that pass.

They are left out where `make models` has not fetched them.
"""

import json
import re
import tomllib
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, lru_cache
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from command import ROOT
from files import digest
from kinds import Case
from safetensors.torch import load_file
from store_layers import save_layer
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

import ctxbook as cb
import ctxlib as cx
from ctxbook.kept import EVIDENCE
from ctxlib.files import kept_folder
from ctxlib.models import locate, read
from ctxlib.models.places import twin_files

DECODERS = ["smollm2", pytest.param("qwen", marks=pytest.mark.nightly)]
N = 128


def there(name):
    if not kept_folder(name).is_dir():
        pytest.skip(f"{name} is not here: make models NAME={name} fetches it")


def kept_of(name, file):
    """What the book keeps of a real model, which is here and of the same files."""
    there(name)
    kept = json.loads(cb.evidence(f"{file}.json").read_text("utf-8"))
    kept = kept.get("models", kept).get(name, kept)
    sums = {*re.findall("[0-9a-f]{64}", json.dumps(kept))}
    assert sums and sums <= {*cx.models.real_models()[name]["files"].values()}
    return kept


OF_RUNS = {"dose", "seeds", "training"}  # of mini and its twins
OF_NONE = {"toy"}  # trained where it is measured


def test_what_is_kept_says_which_weights_it_is_about():
    """Of a real model they are the files that are fetched, whether or not it is here: it can be
    computed again from what it was computed of. So are `mini`, a twin, and conditions that were
    fixed in advance and have not changed since.
    """
    conditions = (ROOT / "tools" / "evidence").glob("*.toml")
    known = {digest(file) for file in (cx.models.MINI / "model.safetensors", *conditions)}
    known |= {sum for of in cx.models.real_models().values() for sum in of["files"].values()}
    known |= {sum for of in twin_files().values() for sum in of.values()}
    files = {file.stem: file for file in sorted(EVIDENCE.glob("*.json"))}
    assert files.keys() > OF_RUNS | OF_NONE
    for stem in files.keys() - OF_NONE:
        file = files[stem]
        held = json.loads(file.read_text("utf-8"))
        held.pop("corpus", None)  # documents that are nobody's weights
        sums = {*re.findall("[0-9a-f]{64}", json.dumps(held))}
        assert sums and (file.stem in OF_RUNS or sums <= known), file.stem


@lru_cache(maxsize=2)
def loaded(name):
    """The first layer, as the package loads it."""
    there(name)
    return cx.load(name, layers=1)


@lru_cache(maxsize=2)
def its_own(name, layers=1):
    """The model as transformers has it, and its tokenizer."""
    with TemporaryDirectory() as folder:
        found = read(locate(name), locate(name), layers, Path(folder))
        return found.hf_model, found.tokenizer


@contextmanager
def recorded(**modules):
    """What goes into each of these modules and what comes out, whenever they are run."""
    held = {name: [] for name in modules}
    hooks = [
        module.register_forward_hook(lambda m, i, o, name=name: held[name].append((i[0], o)))
        for name, module in modules.items()
    ]
    with torch.inference_mode():
        yield held
    for hook in hooks:
        hook.remove()


KIND = {"smollm2": "Llama", "qwen": "Qwen2", "minilm": "BERT"}


def computed(name, x, dtype=torch.float32):
    """What transformers computes in the first layer at N: rows, and what goes in and out of its
    parts.
    """
    case = Case(KIND[name], None)
    model = deepcopy(its_own(name)[0])
    if hasattr(model, "lm_head"):  # what comes of one layer is no text, and takes long
        model.lm_head = torch.nn.Identity()
    case.plain = model.to(dtype).requires_grad_(False)
    held, out = case.run(x)
    parts = {part: [v[:, N] for v in both] for (part, layer), both in held.items() if layer == 0}
    return out.attentions[0][:, :, N], parts


def close(ours, theirs, relative):
    assert (ours - theirs).abs().max() <= relative * theirs.abs().max()


@pytest.fixture(scope="module")
def query_of():
    """A function that fixes a query of a real model at N, once, and gives it with its texts."""

    @cache
    def fix(name):
        model = loaded(name)
        texts = cx.texts.collection(cx.texts.Reader.of(model, 2 * N + 1), 44)
        return cx.fix_query(model, texts, n=N), texts

    return fix


@pytest.mark.parametrize("name", [*DECODERS, "minilm"])
def test_the_exact_layer_is_what_transformers_computes(query_of, name):
    fixed, texts = query_of(name)
    x = fixed.prepare(texts[:4])
    rows, parts = computed(name, x)
    exact, _ = computed(name, x, torch.float64)
    rounding = (rows - exact).abs().amax((0, 2))  # some of Qwen's scores are above a thousand
    off = (fixed.exact.rows(x) - exact).abs().amax((0, 2))
    assert (off < (2 * rounding).clamp_min(1e-5)).all()
    heads = parts["out_of_heads"][0].unflatten(-1, (fixed.n_heads, -1))
    close(fixed.exact.z(x), heads, 1e-4)
    written = torch.einsum("thd,hdm->thm", heads, fixed.readout.W_O)
    close(fixed.head_outputs(x), written, 1e-4)
    first, *_, last = fixed.mlp(x).values()
    close(first, parts["into"][1], 1e-3)
    close(last, parts["out_of"][0], 1e-3)


@pytest.mark.parametrize("name", [*DECODERS, "minilm"])
def test_a_real_model_has_neurons(query_of, name):
    """The whole method, with the default study of a few texts."""
    fixed, texts = query_of(name)
    study = cx.study(fixed, texts, or_all=True)
    better = study.circuit.self_normalized()
    scores = cx.evaluate(better, texts, range(100))
    assert scores["r"].median() > 0.9
    assert scores["fvu"].median() < 0.4
    assert set(study.heads) < set(range(fixed.n_heads)), (
        "a real model has heads that are not stable"
    )
    share = cx.denominators.head_variance_share(fixed, texts)
    assert share.sum() == pytest.approx(1) and (share >= 0).all()


@pytest.mark.parametrize("name", ["smollm2", "minilm"])
def test_a_stored_layer_is_its_model_in_8_bits(query_of, name, tmp_path):
    fixed, texts = query_of(name)
    study = cx.study(fixed, texts, or_all=True)
    kept = cx.fix_query(save_layer(fixed, tmp_path / f"{name}.safetensors", texts, model=name))
    assert torch.equal(kept.decomposition.kernels, fixed.decomposition.kernels)
    again = cx.ContextualCircuit.calibrate(kept, study.calibration_text, study.heads)
    x = fixed.prepare(texts)
    pair = [circuit.summary(x) for circuit in (again, study.circuit)]
    r = cx.evaluation.Moments.of(*pair).table(range(fixed.n_neurons))["r"]
    assert r.median() > 0.999 and r.quantile(0.01) > 0.99
    with pytest.raises(ValueError, match="no exact rows"):
        kept.head_outputs(x)


@pytest.mark.parametrize("name", ["smollm2", "minilm"])
def test_what_the_page_of_real_models_keeps_is_what_they_compute(name):
    """A sample, and that the page finds the same texts and heads without the model."""
    facts, held = kept_of(name, "real"), load_file(cb.evidence("real.safetensors"))
    kept = json.loads(cb.evidence("real.json").read_text("utf-8"))
    model = loaded(name)
    length = 2 * facts["n"] if name == "minilm" else facts["n"] + 1
    texts = {t.name: t for t in cx.texts.collection(cx.texts.Reader.of(model, length))}
    chosen = [texts[t] for t in kept["texts"]]
    fixed = cx.fix_query(model, chosen[:8], facts["n"])
    x = fixed.prepare(chosen[:8])
    close(held[f"{name}.inside"][:8].float(), fixed.exact.z(x)[:, facts["heads"]], 1e-2)
    close(held[f"{name}.scale"][:8], fixed.scale(x, fixed.head_outputs(x))[:, 0], 1e-2)
    study = cx.study(cx.fix_query(name), [t for t in chosen if t.half == "A"])
    assert study.heads == facts["heads"] and study.calibration_text.name == facts["calibrating"]


def test_what_chapter_2_keeps_of_rows_is_what_the_model_does():
    kept = kept_of("minilm", "keys")
    assert kept["n"] == N
    model = loaded("minilm")
    texts = cx.texts.collection(cx.texts.Reader.of(model, 2 * N), kept["texts"])
    fixed = cx.fix_query(model, n=N)
    apart = [
        cx.total_variation(computed("minilm", x)[0], fixed.decomposition.rows(x))
        for x in fixed.prepare(texts).split(25)
    ]
    medians = torch.cat(apart).quantile(0.5, dim=0).float()
    torch.testing.assert_close(medians, torch.tensor(kept["TV"][3]), atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("name", ["qwen", "smollm2", "minilm"])
def test_what_ships_says_where_it_comes_from(name):
    facts, loaded = cx.models.real_models()[name], cx.fix_query(name).decomposition.facts
    assert loaded["sha256"] in facts["files"].values() and loaded["licence"] == facts["licence"]


@pytest.mark.parametrize("name", DECODERS)
def test_what_chapter_9_keeps_of_a_document_is_what_the_model_does(name):
    kept = kept_of(name, "british")
    row = next(row for row in kept["documents"] if row["half"] == "A")
    fixed = cx.fix_query(name)
    texts = cx.texts.collection(cx.texts.Reader.of(fixed, 512), half="A")
    source = next(text.source for text in texts if text.name == row["text"])
    table = tomllib.loads((cb.DATA / "spelling.toml").read_text("utf-8"))
    pairs = {form: pair.split() for of in table.values() for pair in of for form in pair.split()}
    pieces = re.split(r"((?<![A-Za-z'-])[a-z]+(?![A-Za-z']))", source)  # every other one a word
    first = sum(map(len, takewhile(lambda piece: piece not in pairs, pieces)))
    model, gates = its_own(name)[0].model, []
    for side in (1, 0):  # American, British
        forms = [pairs[piece][side] if piece in pairs else piece for piece in pieces]
        shared = [np.full(len(form), p not in pairs) for p, form in zip(pieces, forms, strict=True)]
        shared, written = np.concatenate(shared), "".join(forms)
        got = fixed.tokenizer(written, return_offsets_mapping=True, add_special_tokens=False)
        with recorded(gate=model.layers[0].mlp.gate_proj) as held:
            model(torch.tensor([[int(texts[0].tokens[0]), *got["input_ids"]]]))
        gate = held["gate"][0][1][0, 1:, kept["neurons"]]
        ends = {
            shared[:end].sum(): gate[k]  # how many characters of both lie before it
            for k, (begin, end) in enumerate(got["offset_mapping"])
            if shared[begin:end].all()
        }
        gates.append({end: value for end, value in ends.items() if end > first})
    both = sorted(gates[0].keys() & gates[1].keys())
    means = torch.stack([torch.stack([of[end] for end in both]).mean(0) for of in gates])
    assert len(both) == row["places"]
    torch.testing.assert_close(means, torch.tensor(row["told"][0]), atol=1e-3, rtol=1e-3)


def test_what_the_chapters_say_of_real_models_is_what_these_pages_show():
    kept = json.loads(cb.evidence("rows.json").read_text("utf-8"))["lines"]
    for chapter, lines in kept.items():
        cells = json.loads((ROOT / "book" / f"{chapter}.ipynb").read_text("utf-8"))["cells"]
        shown = json.dumps([cell.get("outputs") for cell in cells], ensure_ascii=False)
        for line, row in lines.items():
            for model, value in row.items():
                met = value.partition(" of ")[0] if chapter == "09_british" else value
                assert met in shown, f"{line} of {model} is not what {chapter} shows"


@pytest.mark.nightly
def test_what_the_title_page_keeps_is_what_the_model_does():
    """What heads add to the gate at every token, and the gate, after the words so far."""
    kept, model = kept_of("qwen", "welcome"), loaded("qwen")
    for text in kept["texts"]:
        x = torch.tensor(text["ids"])
        so_far = [x[: m + 1] for m in range(1, len(x))]
        terms = cx.lookups.attribution(model, 0, kept["neuron"], so_far)
        added = terms.heads[:, 0, kept["heads"]].sum(1)
        for ours, which in ((added, "model"), (terms.pre_activation, "gate")):
            torch.testing.assert_close(ours, torch.tensor(text[which][1:]), atol=2e-3, rtol=1e-3)


@pytest.mark.nightly  # nothing but the kept numbers, a whole model's, can change it
def test_what_chapter_12_keeps_of_silence_is_what_the_model_does():
    """Two texts, with the stable heads' mean put in."""
    kept = kept_of("smollm2", "causal")
    texts = cx.texts.collection(cx.texts.Reader.of(cx.fix_query("smollm2"), 512), 1000)
    firsts = {text.document: text for text in reversed(texts)}
    x = torch.stack([firsts[document].tokens[:97] for document, *_ in kept["texts"][:2]])
    stable = [int(h) for h, facts in kept["roster"].items() if facts["stable"]]
    model = cx.load("smollm2")
    middle = cx.lookups.mean_z(model, [t for t in firsts.values() if t.half == "A"], 97)
    silence = cx.lookups.replace_z(0, stable, middle[:, stable])
    after, before = (cx.lookups.token_losses(model, x, hooks) for hooks in ([silence], []))
    rise = (after - before)[:, 51:96:4].mean(1)
    ours = torch.tensor([kept["given"]["none"][k] for k in range(2)])
    torch.testing.assert_close(rise, ours, atol=2e-3, rtol=1e-2)


@pytest.mark.nightly  # as in chapter 12
def test_what_chapter_15_keeps_of_peaks_is_what_the_model_does():
    """The largest peaks of two neurons of half A and what the model predicts there, by the modules
    of transformers."""
    kept = kept_of("smollm2", "lookups")["groups"]["by P"]  # the largest P first
    texts = cx.texts.collection(cx.texts.Reader.of(cx.fix_query("smollm2"), 96), 240)
    x = torch.stack([t.tokens[:96] for t in texts if t.half == "A"])
    model, tokenizer = its_own("smollm2", None)
    places = dict(enumerate(kept["places"][:2]))
    downs = {str(k): model.model.layers[k].mlp.down_proj for k, *_ in places.values()}
    with recorded(**downs) as held:
        for part in x.split(8):
            model.model(part)
        acts = {k: torch.cat([given for given, _ in held[k]]) for k in downs}
        for q, (layer, neuron, side) in places.items():
            activation = side * acts[str(layer)][:, 1:, neuron]
            loudest, end = activation.max(1)
            rows = loudest.topk(20).indices
            last = model.model(x[rows]).last_hidden_state[range(20), end[rows] + 1]
            predicted = model.lm_head(last).softmax(-1)[:, tokenizer.encode(kept["token"][q])[-1]]
            ours = torch.tensor(kept["P"]["A"][q])
            torch.testing.assert_close(predicted.mean(), ours, atol=2e-3, rtol=0)


def test_what_chapter_11_keeps_of_one_page_is_what_evaluation_finds():
    kept = kept_of("minilm", "constants")
    model = loaded("minilm")
    texts = cx.texts.collection(cx.texts.Reader.of(model, 512), 500)
    A, B = ([text for text in texts if text.half == half] for half in "AB")
    circuit = cx.study(cx.fix_query(model, A, N), A, or_all=True).circuit
    J = cx.find_neurons(circuit, threshold=float("-inf")).index[:100].tolist()
    scores = cx.evaluate(circuit, B, J).median()
    assert scores["r"] == pytest.approx(kept["r"], abs=2e-3)
    assert scores["fvu"] == pytest.approx(kept["FVU"]["one page"], abs=2e-3)


def test_what_appendix_f_keeps_of_copies_is_what_the_model_does():
    """Entries at two distances, from queries and keys that transformers' own modules make and
    turn.
    """
    kept = kept_of("smollm2", "local")
    texts = cx.texts.collection(cx.texts.Reader.of(cx.fix_query("smollm2"), 512), 1000)
    flat = torch.cat([text.tokens[1:] for text in texts if text.half == "A"])
    model, _ = its_own("smollm2")
    layer, used = model.model.layers[0], flat.unique()
    share = flat.bincount()[used] / len(flat)
    drawn = flat[np.random.default_rng(0).integers(len(flat), size=1500)]
    with torch.inference_mode():
        x = layer.input_layernorm(model.model.embed_tokens(used))
        q, k = layer.self_attn.q_proj(x), layer.self_attn.k_proj(x)
        q, k = (v.unflatten(-1, (-1, layer.self_attn.head_dim)) for v in (q, k))
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        q, k = (v - torch.einsum("t,thd->hd", share, v) for v in (q, k))
        fixed = torch.searchsorted(used, drawn)
        for place, distance in ((0, 1), (4, 16)):
            angles = model.model.rotary_emb(x, torch.full((1, len(fixed)), distance))
            queries = q[fixed].transpose(0, 1)[None]
            turned, _ = apply_rotary_pos_emb(queries, queries, *angles)
            entry = (turned[0].transpose(0, 1) * k[fixed]).sum(-1).mean(0) / k.shape[-1] ** 0.5
            found = torch.tensor([line[place] for line in kept["copies"]])
            torch.testing.assert_close(entry, found, atol=2e-2, rtol=1e-2)
