"""Train `mini`, the model that ships with the book, and its twins.

    python tools/evidence/train_mini.py --corpus path/to/corpus             # what is missing
    python tools/evidence/train_mini.py --corpus path/to/corpus base rotary # these

The corpus is a folder with `train/` and `valid/`, one `<domain>.txt.xz` (or `.txt`) per domain,
documents separated by a line that holds only `<|endoftext|>`. The standard library of the running
Python joins as the domain `python`. The stages, in the order in which data flows:

    documents -> one token stream per domain
              -> windows -> optimiser -> weights, and bits per byte on held-out text

`RUNS` names every run. Batches are a function of the step alone, so all runs read the same text in
the same order, and one that is killed goes on from its last checkpoint with the batches that it
would have seen. Checkpoints are safetensors, written whole or not at all. The tokenizer is the one
that ships with `mini`. Where PyTorch finds no compiler, TORCH_COMPILE_DISABLE=1 trains without; it
takes longer. In the end one table says what every run has read, learned and taken; no run
is chosen by anything else than that: the four trials decide the optimiser and its rate by bits per
byte on held-out text, and within 1% the simpler one is taken; `mini` is that recipe on more text;
each twin differs from `base` in what it is named for and in nothing else. Bounds of published
figures stand in `ctxbook/data/published.toml` before a model is measured, and are not moved after.

Progress is kept in `build/runs/`, a folder a run; what has ended is not trained again. A
`MANIFEST.json` in the corpus gives the sources and licences for the model card: use only material
whose licence lets the model be given away.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import platform
import re
import sys
import sysconfig
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from command import ROOT, command
from files import replace as write
from files import whole
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import AttentionInterface, GPT2Config, GPT2LMHeadModel

RECORD = ROOT / "data" / "twins" / "runs.json"  # of runs that have ended
WORDS = ROOT / "ctxlib" / "data" / "mini" / "tokenizer.json"
SEPARATOR = "<|endoftext|>"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SAVE_EVERY = 250  # steps between checkpoints
BOS = 0  # the tokenizer's first and only special token is the separator
SPLITS = ("train", "valid")
POSITIONS = ("learned", "rotary", "alibi", "none")
KEPT = (0.01, 0.03, 0.1, 0.3, 1.0)  # fractions of a run after which its weights are kept


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run learns; stored with its checkpoint and in the card.

    `seed` decides the weights that it starts from and nothing else.
    """

    n_layer: int = 4
    n_embd: int = 256
    n_head: int = 8
    n_ctx: int = 512
    vocab: int = 8192
    tokens: int = 10_000_000
    batch: int = 8  # windows of n_ctx tokens a step
    optimizer: str = "adamw"  # or "muon": that for the matrices of the layers, AdamW for the rest
    rate: float = 1e-3
    warmup: float = 0.02  # fraction of the steps
    final: float = 0.02  # the rate at the end, as a fraction of `rate`
    decay: float = 0.1
    clip: float = 1.0
    eps: float = 1e-5  # of AdamW
    power: float = 0.7  # domains are drawn in proportion to size ** power
    seed: int = 0
    positions: str = "learned"  # one of POSITIONS
    steady: float = 0.0  # weight of the variance of the first LayerNorm's log scale in the loss

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / (self.batch * self.n_ctx))

    @property
    def kept(self) -> dict[int, float]:
        """The steps after which weights are kept, and the fraction of the run that each is."""
        return {max(1, round(fraction * self.steps)): fraction for fraction in KEPT}

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine down to `final * rate`."""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return self.rate * (step + 1) / warm
        done = (step - warm) / max(1, self.steps - warm)
        return self.rate * (self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * done)))


# The optimiser and its rate are settled by held-out bits per byte alone; within 1% the simpler.
TRIALS = {
    "adamw-1e-3": Recipe(rate=1e-3),
    "adamw-2e-3": Recipe(rate=2e-3),
    "adamw-4e-3": Recipe(rate=4e-3),
    "muon-2e-3": Recipe(optimizer="muon", rate=2e-3),
}
CHOSEN = TRIALS["muon-2e-3"]  # 1.7605 bits per byte; AdamW 1.9526, 2.0157, 1.9898
TWIN_RUNS = {  # architecture, text, its order and the number of tokens are the same
    "base": CHOSEN,
    "seed-1": replace(CHOSEN, seed=1),
    "seed-2": replace(CHOSEN, seed=2),
    "steady-1": replace(CHOSEN, steady=1.0),
    "steady-3": replace(CHOSEN, steady=3.0),
} | {
    f"{kind}-{seed}".removesuffix("-0"): replace(CHOSEN, positions=kind, seed=seed)
    for seed in (0, 1, 2)
    for kind in ("rotary", "alibi", "none")
}
RUNS = TRIALS | {"mini": replace(CHOSEN, tokens=50_000_000)} | TWIN_RUNS


# ---------------------------------------------------------------- documents


def read_documents(file: Path) -> list[str]:
    """The documents of one domain's file, in order."""
    raw = file.read_bytes()
    raw = lzma.decompress(raw) if file.suffix == ".xz" else raw
    parts = raw.decode("utf-8").split(f"\n{SEPARATOR}\n")
    return [part.strip("\n") for part in parts if part.strip()]


def python_files() -> dict[str, str]:
    """The files of the standard library without its tests, by their place in it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    skip = {"test", "tests", "site-packages", "idle_test", "lib2to3", "__pycache__", "encodings"}
    files = {}
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root)
        if not skip.intersection(place.parts):
            with suppress(UnicodeDecodeError):  # a few are in other encodings on purpose
                files[place.as_posix()] = file.read_text("utf-8").strip("\n")
    return files


def python_documents() -> dict[str, list[str]]:
    """These files, each once; the last 2% of the characters in hash order are held out."""
    different = set(filter(None, python_files().values()))
    texts = sorted(different, key=lambda t: hashlib.sha256(t.encode()).digest())
    ends = np.cumsum([len(t) for t in texts])
    first_valid = int(np.searchsorted(ends, 0.98 * ends[-1]))
    return {"train": texts[:first_valid], "valid": texts[first_valid:]}


def read_corpus(corpus: Path) -> dict[str, dict[str, list[str]]]:
    """`{domain: {"train": documents, "valid": documents}}`;
    one clear error for a missing or empty corpus.
    """
    if not (corpus / "train").is_dir():
        raise ValueError(f"no corpus at {corpus}: expected train/ and valid/ with <domain>.txt.xz")
    domains: dict[str, dict[str, list[str]]] = {}
    for file in sorted(f for end in ("txt", "txt.xz") for f in corpus.glob(f"train/*.{end}")):
        places = {split: corpus / split / file.name for split in SPLITS}
        if not places["valid"].exists():
            raise ValueError(f"{file.name} is not in {corpus}/valid: every domain needs both")
        pair = {split: read_documents(place) for split, place in places.items()}
        if all(pair.values()):
            domains[file.name.split(".")[0]] = pair
    if not domains:
        raise ValueError(f"the corpus at {corpus} is empty: no <domain>.txt.xz holds any text")
    return domains | {"python": python_documents()}


# ---------------------------------------------------------------- tokens


def encode_stream(tokenizer: Tokenizer, documents: list[str]) -> np.ndarray:
    """One domain's documents as one stream of uint16, the separator before each."""
    encoded = tokenizer.encode_batch_fast(documents, add_special_tokens=False)
    return np.array([i for e in encoded for i in (BOS, *e.ids)], dtype=np.uint16)


def prepare(corpus: Path, work: Path) -> dict[str, dict[str, np.ndarray]]:
    """The streams of every domain, made once and kept in `work`, the tokenizer beside them.
    ValueError where those that are kept are another corpus's.
    """
    listing = work / "streams.json"
    if not listing.exists():
        domains = read_corpus(corpus)
        work.mkdir(parents=True, exist_ok=True)
        tokenizer = Tokenizer.from_file(str(WORDS))
        tokenizer.save(str(work / "tokenizer.json"))
        for name, pair in tqdm(domains.items(), desc="encode", unit="domain"):
            for split in SPLITS:
                np.save(work / f"{name}.{split}.npy", encode_stream(tokenizer, pair[split]))
        write(listing, json.dumps({"corpus": str(corpus.resolve()), "domains": sorted(domains)}))
    kept = json.loads(listing.read_text())
    if (corpus / "train").is_dir() and kept["corpus"] != str(corpus.resolve()):
        raise ValueError(f"{work} holds the streams of {kept['corpus']}: name another --work")
    return {
        name: {split: np.load(work / f"{name}.{split}.npy") for split in SPLITS}
        for name in kept["domains"]
    }


def bytes_of(tokenizer: Tokenizer) -> np.ndarray:
    """How many bytes of text each token stands for: a character of a byte-level token is a byte,
    and the separator stands for none.
    """
    words = {number: word for word, number in tokenizer.get_vocab().items()}
    return np.array([0 if i == BOS else len(words[i]) for i in range(len(words))])


def draw_batch(streams: dict[str, np.ndarray], recipe: Recipe, step: int) -> torch.Tensor:
    """`Int[Tensor, "batch n_ctx+1"]`: BOS and then consecutive tokens of one domain. A function of
    the step alone, so that every run reads the same.
    """
    rng = np.random.default_rng((0, step))
    names = list(streams)
    weight = np.array([len(streams[n]) for n in names], dtype=np.float64) ** recipe.power
    windows = np.zeros((recipe.batch, recipe.n_ctx + 1), dtype=np.int64)
    for row, which in zip(
        windows, rng.choice(len(names), recipe.batch, p=weight / weight.sum()), strict=True
    ):
        stream = streams[names[which]]
        start = rng.integers(0, max(1, len(stream) - recipe.n_ctx))
        piece = stream[start : start + recipe.n_ctx]
        row[0], row[1 : 1 + len(piece)] = BOS, piece
    return torch.from_numpy(windows)


# ---------------------------------------------------------------- the model


def blockwise_causal_attention(
    module, query, key, value, attention_mask, positions: str = "learned", block: int = 128, **_
):
    """Causal attention over unpadded windows, a block of queries at a time
    (`batch head pos d_head`).

    Each block sees only the keys that it may attend to; on a CPU, compiled, this trains a sixth
    faster than the fused kernel, whose backward pass is slow there. `positions` that are not in
    the residual stream enter here: rotary ones turn queries and keys, ALiBi adds to a score its
    head's slope times how far back the source is. `module` and `attention_mask` are the library's
    calling convention.
    """
    place = torch.arange(query.shape[2], device=query.device)
    if positions == "rotary":
        query, key = turned(query, place), turned(key, place)
    scaled = query * query.shape[-1] ** -0.5
    back = place - place[:, None]  # how far a source is from a destination, 0 or less
    bias = torch.zeros_like(back).to(query)
    if positions == "alibi":
        heads = query.shape[1]  # a power of two; the slopes are those of Press et al. 2022
        bias = back * (2.0 ** (-8 * torch.arange(1, heads + 1) / heads)).to(query)[:, None, None]
    bias = bias.masked_fill(back > 0, float("-inf"))
    outputs = []
    for start in range(0, len(place), block):
        part, seen = slice(start, start + block), slice(start + block)
        scores = scaled[:, :, part] @ key[:, :, seen].transpose(-1, -2) + bias[..., part, seen]
        outputs.append(scores.float().softmax(-1).to(value.dtype) @ value[:, :, seen])
    return torch.cat(outputs, dim=2).transpose(1, 2), None


def turned(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Rotary positions over the whole head, base 10,000, the halves of a head paired, as GPT-NeoX
    has them (Su et al. 2021). `batch head pos d_head`.
    """
    half = x.shape[-1] // 2
    frequency = 10_000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = place[:, None] * frequency
    cosine, sine = angle.cos().to(x), angle.sin().to(x)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


for _kind in POSITIONS:
    AttentionInterface.register(
        f"blockwise_{_kind}", partial(blockwise_causal_attention, positions=_kind)
    )


def new_model(recipe: Recipe) -> GPT2LMHeadModel:
    """GPT-2 with random weights, the same for every kind of positions.

    Where positions are not learned, W_pos is zero and stays so. The kind of model that carries
    ALiBi, MPT, has no biases and the exact GELU; there biases are zero and stay so.
    """
    config = GPT2Config(
        vocab_size=recipe.vocab, n_positions=recipe.n_ctx,
        n_embd=recipe.n_embd, n_layer=recipe.n_layer, n_head=recipe.n_head,
        activation_function="gelu" if recipe.positions == "alibi" else "gelu_new",
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=BOS, eos_token_id=BOS, pad_token_id=None,
        tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    config._attn_implementation = f"blockwise_{recipe.positions}"
    torch.manual_seed(recipe.seed)
    model = GPT2LMHeadModel(config)
    if recipe.positions != "learned":
        model.transformer.wpe.requires_grad_(False).weight.zero_()
    if recipe.positions == "alibi":
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # zero from the start
                parameter.requires_grad_(False)
    return model


def new_optimizers(model: GPT2LMHeadModel, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """AdamW for everything; or Muon for the matrices of the layers and AdamW for what is left:
    embeddings, biases and gains. Muon's steps are scaled to be as large as AdamW's.
    """
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [(p, recipe.optimizer == "muon" and ".h." in n) for n, p in trained if p.ndim == 2]
    groups = [
        {"params": [p for p, ours in matrices if not ours], "weight_decay": recipe.decay},
        {"params": [p for _, p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, recipe.rate, betas=(0.9, 0.95), eps=recipe.eps, fused=True)
    if recipe.optimizer != "muon":
        return [adamw]
    hidden = [p for p, ours in matrices if ours]
    muon = torch.optim.Muon(
        hidden, recipe.rate, weight_decay=recipe.decay, adjust_lr_fn="match_rms_adamw"
    )
    return [adamw, muon]


def loss_of(model, windows: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Next-token cross-entropy in nats: its mean, or its sum."""
    logits = model(input_ids=windows[:, :-1]).logits
    return F.cross_entropy(
        logits.flatten(0, 1).float(), windows[:, 1:].flatten(), reduction=reduction
    )


def training_loss(model, windows: torch.Tensor, steady: float) -> torch.Tensor:
    """The cross-entropy, and `steady` times the variance of log s, the scale of the first
    LayerNorm over the tokens of the batch but BOS.

    In GPT-2 small that scale is all but constant (0.15 to 0.175). A small model has no reason to
    make it so; `steady` asks for it, as the dose of an experiment.
    """
    loss = loss_of(model, windows)
    if steady:
        ids = windows[:, 1:-1]
        embeddings = model.transformer.wte(ids) + model.transformer.wpe.weight[1 : ids.shape[1] + 1]
        loss = loss + steady * embeddings.var(-1).log().div(2).var()
    return loss


@torch.no_grad()
def held_out(
    model, streams: Mapping[str, Mapping[str, np.ndarray]], sizes: np.ndarray
) -> dict[str, dict[str, float]]:
    """`{"nats": a token, "bits": a byte}`, each by domain, over all full windows of the held-out
    streams. A domain's bits per byte are its total nats / ln 2 / its bytes of text; predicting a
    separator costs, and counts for no bytes.
    """
    n_ctx = model.config.n_positions
    nats, bits = {}, {}
    for name, pair in tqdm(streams.items(), desc="held out", unit="domain", leave=False):
        stream = pair["valid"].astype(np.int64)
        stream = stream[: len(stream) // n_ctx * n_ctx]
        rows = F.pad(torch.from_numpy(stream).view(-1, n_ctx), (1, 0), value=BOS).to(model.device)
        total = sum(loss_of(model, part, "sum").item() for part in rows.split(8))
        nats[name] = total / len(stream)
        bits[name] = total / math.log(2) / int(sizes[stream].sum())
    return {"nats": nats, "bits": bits}


# ---------------------------------------------------------------- checkpoints


def save_whole(tensors: dict[str, torch.Tensor], path: Path, facts: dict[str, str]) -> None:
    """Tensors in a file that is there whole or not at all."""
    with whole(path) as part:
        save_file({k: v.cpu().contiguous() for k, v in tensors.items()}, part, metadata=facts)


def save_checkpoint(
    path: Path, model, optimizers, recipe: Recipe, step: int, seconds: float
) -> None:
    tensors = {f"weight/{name}": p.detach() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        for optimizer in optimizers:
            for key, value in optimizer.state.get(p, {}).items():
                tensors[f"{key}/{name}"] = value
    facts = {"step": str(step), "seconds": f"{seconds:.1f}", "recipe": json.dumps(asdict(recipe))}
    save_whole(tensors, path, facts)


def load_checkpoint(path: Path, model, optimizers, recipe: Recipe) -> tuple[int, float]:
    """Fill model and optimisers in place; the step to go on from and the seconds spent so far."""
    with safe_open(path, framework="pt") as file:
        facts = file.metadata()
        if json.loads(facts["recipe"]) != asdict(recipe):
            raise ValueError(f"{path} was made with another recipe; choose another --work")
        states: dict[str, dict[str, torch.Tensor]] = {}
        for key in list(file.keys()):
            kind, name = key.split("/", 1)
            states.setdefault(name, {})[kind] = file.get_tensor(key)
    for name, p in model.named_parameters():
        state = states[name]
        with torch.no_grad():
            p.copy_(state.pop("weight"))
        for optimizer in optimizers:
            if any(p is q for group in optimizer.param_groups for q in group["params"]):
                optimizer.state[p] = {
                    k: v if k == "step" else v.to(p.device) for k, v in state.items()
                }
    return int(facts["step"]), float(facts["seconds"])


# ---------------------------------------------------------------- a run


def machine() -> str:
    """What it was trained on, in words."""
    if DEVICE == "cuda":
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    names = re.findall(r"(?m)^model name\s*: (.*)", info.read_text()) if info.exists() else []
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, threads: {torch.get_num_threads()}"


def train(name: str, recipe: Recipe, streams, work: Path) -> dict:
    """One run, from its last checkpoint where there is one, to its end; its result, which also
    lies in its folder. Weights are kept, as float16, at the fractions `KEPT`.
    """
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    training = {domain: pair["train"] for domain, pair in streams.items()}
    model = new_model(recipe).to(DEVICE)
    optimizers = new_optimizers(model, recipe)
    checkpoint, first, before = folder / "checkpoint.safetensors", 0, 0.0
    if checkpoint.exists():
        first, before = load_checkpoint(checkpoint, model, optimizers, recipe)
        print(f"{name}: resumed at step {first:,}", flush=True)
    step_loss = torch.compile(training_loss)
    autocast = torch.autocast(DEVICE, dtype=torch.bfloat16)

    start, smooth = time.monotonic(), None
    each = recipe.batch * recipe.n_ctx  # tokens a step
    bar = tqdm(None, name, recipe.steps * each, initial=first * each, unit="token", unit_scale=True)
    for step in range(first, recipe.steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate_at(step)
        windows = draw_batch(training, recipe, step).to(DEVICE)
        with autocast:
            loss = step_loss(model, windows, recipe.steady)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        bar.set_postfix_str(f"loss {smooth:.3f}", refresh=False)
        bar.update(each)
        done, spent = step + 1, before + time.monotonic() - start
        if done in recipe.kept:
            half = {k: v.detach().half() for k, v in model.named_parameters()}
            percent = f"{100 * recipe.kept[done]:03.0f}"
            save_whole(half, folder / f"at-{percent}.safetensors", {"step": str(done)})
        if done % SAVE_EVERY == 0 or done == recipe.steps:
            save_checkpoint(checkpoint, model, optimizers, recipe, done, spent)

    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    with autocast:
        losses = held_out(model, streams, bytes_of(tokenizer))
    result = {
        "run": name,
        "recipe": asdict(recipe),
        "tokens": recipe.steps * each,
        "minutes": round((before + time.monotonic() - start) / 60),
        "machine": machine(),
        **losses,
    }
    write(folder / "result.json", json.dumps(result, indent=1))
    return result


def mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)


def table(results: list[dict]) -> str:
    """One Markdown row a run: tokens, bits per byte and nats per token (means over domains),
    minutes, machine.
    """
    rows = [
        "| run | tokens | bits per byte | nats a token | minutes | machine |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| {r['run']} | {r['tokens']:,} | {mean(r['bits']):.4f} | {mean(r['nats']):.3f} "
        f"| {r['minutes']} | {r['machine']} |"
        for r in results
    ]
    return "\n".join(rows)


def folder_of(name: str) -> str:
    """Runs with the same recipe are one run, under the name that stands first."""
    return next(other for other, recipe in RUNS.items() if recipe == RUNS[name])


def ended(name: str, recipe: Recipe, work: Path) -> dict | None:
    """The result of a run of this recipe that has ended, here or before the record was shipped."""
    here = work / name / "result.json"
    found = [json.loads(here.read_text())] if here.exists() else []
    found += json.loads(RECORD.read_text()) if RECORD.exists() else []
    return next((r for r in found if (r["run"], r["recipe"]) == (name, asdict(recipe))), None)


@command("train_mini")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="*", metavar="run", help=f"of {', '.join(RUNS)}; or all")
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train/ and valid/")
    parser.add_argument("--work", type=Path, default=Path("build/runs"), help="what is made of it")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.runs if name not in RUNS]:
        raise ValueError(f"no run {', '.join(unknown)}; there are {', '.join(RUNS)}")
    names = dict.fromkeys(map(folder_of, args.runs or RUNS))
    results = {name: ended(name, RUNS[name], args.work) for name in names}
    missing = [name for name, result in results.items() if result is None]
    streams = prepare(args.corpus, args.work) if missing else {}
    for name in missing:
        results[name] = train(name, RUNS[name], streams, args.work)
    print(table([result for result in results.values() if result]))


if __name__ == "__main__":
    sys.exit(main())
