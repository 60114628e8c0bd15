"""Train `mini`, the model that ships with the book.

    python tools/train_mini.py --corpus path/to/corpus

The corpus is a folder with `train/` and `valid/`, one `<domain>.txt.xz` (or `.txt`) per domain,
documents separated by a line that holds only `<|endoftext|>`. The standard library of the running
Python joins as the domain `python`. The stages, in the order in which data flows:

    documents -> tokenizer -> one token stream per domain
              -> windows -> AdamW -> a Hugging Face folder

Everything random is a function of `(seed, step)`, so a run that is killed goes on from its last
checkpoint (`--resume`) with the batches that it would have seen. Checkpoints are safetensors,
written whole or not at all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tqdm import tqdm
from transformers import AttentionInterface, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

SEPARATOR = "<|endoftext|>"
BOS = 0  # the tokenizer's first and only special token is the separator
SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what the run learns;
    stored in the checkpoint and in the model card.
    """

    n_layer: int = 4
    n_embd: int = 256
    n_head: int = 8
    n_ctx: int = 512
    vocab: int = 8192
    tokens: int = 50_000_000
    batch: int = 8  # windows of n_ctx tokens a step
    rate: float = 1e-3
    warmup: float = 0.02  # fraction of the steps
    final: float = 0.02  # the rate at the end, as a fraction of `rate`
    decay: float = 0.1
    clip: float = 1.0
    eps: float = 1e-5  # of AdamW
    power: float = 0.7  # domains are drawn in proportion to size ** power
    seed: int = 0
    start: str = ""  # a folder with a trained model to go on from, instead of random weights
    sinusoids: float = 0.4  # norm of the sinusoids that position embeddings start as; 0: random
    local: int = 3  # first-layer heads that start as local ones
    steady: float = 0.0  # weight of the variance of the first LayerNorm's log scale in the loss

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / (self.batch * self.n_ctx))

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine down to `final * rate`."""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return self.rate * (step + 1) / warm
        done = (step - warm) / max(1, self.steps - warm)
        return self.rate * (self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * done)))


# ---------------------------------------------------------------- documents


def read_documents(file: Path) -> list[str]:
    """The documents of one domain's file, in order."""
    raw = file.read_bytes()
    raw = lzma.decompress(raw) if file.suffix == ".xz" else raw
    parts = raw.decode("utf-8").split(f"\n{SEPARATOR}\n")
    return [part.strip("\n") for part in parts if part.strip()]


def python_documents() -> dict[str, list[str]]:
    """The standard library without its tests;
    the last 2% of the characters in hash order are held out.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    skip = {"test", "tests", "site-packages", "idle_test", "lib2to3", "__pycache__", "encodings"}
    texts = []
    for file in sorted(root.rglob("*.py")):
        if not skip.intersection(file.relative_to(root).parts):
            try:
                texts.append(file.read_text("utf-8").strip("\n"))
            except UnicodeDecodeError:
                continue  # the library keeps a few files in other encodings on purpose
    texts = sorted({t for t in texts if t}, key=lambda t: hashlib.sha256(t.encode()).digest())
    ends = np.cumsum([len(t) for t in texts])
    first_valid = int(np.searchsorted(ends, 0.98 * ends[-1]))
    return {"train": texts[:first_valid], "valid": texts[first_valid:]}


def read_corpus(corpus: Path) -> dict[str, dict[str, list[str]]]:
    """`{domain: {"train": documents, "valid": documents}}`;
    one clear error for a missing or empty corpus.
    """
    if not (corpus / "train").is_dir():
        raise ValueError(
            f"no corpus at {corpus}: "
            "expected a folder with train/ and valid/, each holding <domain>.txt.xz"
        )
    files = sorted(f for f in (corpus / "train").iterdir() if f.name.endswith((".txt", ".txt.xz")))
    domains: dict[str, dict[str, list[str]]] = {}
    for file in files:
        held_out = corpus / "valid" / file.name
        if not held_out.exists():
            raise ValueError(
                f"{file.name} is in {corpus}/train but not in {corpus}/valid: "
                "every domain needs both"
            )
        pair = {"train": read_documents(file), "valid": read_documents(held_out)}
        if all(pair.values()):
            domains[file.name.split(".")[0]] = pair
    if not domains:
        raise ValueError(
            f"the corpus at {corpus} is empty: no train/<domain>.txt.xz there holds any text"
        )
    return domains | {"python": python_documents()}


# ---------------------------------------------------------------- tokens


def train_tokenizer(
    domains: dict[str, dict[str, list[str]]], vocab: int, cap: int = 3_000_000
) -> Tokenizer:
    """Byte-level BPE; each domain adds at most `cap` characters,
    so that none owns the vocabulary.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[SEPARATOR],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )

    def sample() -> Iterator[str]:
        for pair in domains.values():
            room = cap
            for document in pair["train"]:
                if room <= 0:
                    break
                yield document[:room]
                room -= len(document)

    tokenizer.train_from_iterator(sample(), trainer)
    if tokenizer.get_vocab_size() != vocab:
        raise ValueError(
            f"the corpus supports {tokenizer.get_vocab_size()} tokens only; "
            "ask for --vocab of that size or less"
        )
    return tokenizer


def encode_stream(tokenizer: Tokenizer, documents: list[str]) -> np.ndarray:
    """One domain's documents as one stream of uint16, the separator before each."""
    ids = [
        i
        for e in tokenizer.encode_batch_fast(documents, add_special_tokens=False)
        for i in (BOS, *e.ids)
    ]
    return np.array(ids, dtype=np.uint16)


def prepare(corpus: Path, work: Path, recipe: Recipe) -> dict[str, dict[str, np.ndarray]]:
    """Tokenizer and streams, made once and kept in `work`."""
    listing = work / "streams.json"
    if not listing.exists():
        domains = read_corpus(corpus)
        print(f"{len(domains)} domains; training the tokenizer", flush=True)
        tokenizer = train_tokenizer(domains, recipe.vocab)
        tokenizer.save(str(work / "tokenizer.json"))
        for name, pair in tqdm(domains.items(), desc="encode", unit="domain"):
            for split in SPLITS:
                np.save(work / f"{name}.{split}.npy", encode_stream(tokenizer, pair[split]))
        write_whole(listing, json.dumps(sorted(domains)).encode())
    names = json.loads(listing.read_text())
    return {
        name: {split: np.load(work / f"{name}.{split}.npy") for split in SPLITS} for name in names
    }


def draw_batch(streams: dict[str, np.ndarray], recipe: Recipe, step: int) -> torch.Tensor:
    """`Int[Tensor, "batch n_ctx+1"]`: BOS and then consecutive tokens of one domain;
    a pure function of (seed, step).
    """
    rng = np.random.default_rng((recipe.seed, step))
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


def blockwise_causal_attention(module, query, key, value, attention_mask, block: int = 128, **_):
    """Causal attention over unpadded windows, a block of queries at a time
    (`batch head pos d_head`).

    Each block sees only the keys that it may attend to; on a CPU, compiled, this trains a sixth
    faster than the fused kernel, whose backward pass is slow there. `module` and `attention_mask`
    are the library's calling convention.
    """
    scaled = query * query.shape[-1] ** -0.5
    future = torch.full((block, block), float("-inf"), dtype=query.dtype, device=query.device).triu(
        1
    )
    outputs = []
    for start in range(0, query.shape[2], block):
        end = min(start + block, query.shape[2])
        size = end - start
        scores = scaled[:, :, start:end] @ key[:, :, :end].transpose(-1, -2)
        scores = torch.cat(
            [scores[..., :start], scores[..., start:] + future[:size, :size]], dim=-1
        )
        outputs.append(scores.float().softmax(-1).to(value.dtype) @ value[:, :, :end])
    return torch.cat(outputs, dim=2).transpose(1, 2), None


AttentionInterface.register("blockwise_causal", blockwise_causal_attention)


def new_model(recipe: Recipe, device: str = "cpu") -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=recipe.vocab, n_positions=recipe.n_ctx,
        n_embd=recipe.n_embd, n_layer=recipe.n_layer, n_head=recipe.n_head,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=BOS, eos_token_id=BOS, pad_token_id=None,
        tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    config._attn_implementation = "sdpa" if device == "cuda" else "blockwise_causal"
    torch.manual_seed(recipe.seed)
    if recipe.start:
        attention = config._attn_implementation
        model = GPT2LMHeadModel.from_pretrained(
            recipe.start, config=config, dtype=torch.float32, attn_implementation=attention
        )
    else:
        model = GPT2LMHeadModel(config)
        if recipe.sinusoids:
            place_positions(model, recipe)
    return model.to(device)


@torch.no_grad()
def place_positions(model: GPT2LMHeadModel, recipe: Recipe) -> None:
    """Position embeddings that are waves, and `local` first-layer heads that can read them.

    Positions that start at random have to be learned from one another, and a model this small
    leaves looking at the last few tokens to later layers. So it starts where larger models arrive:
    W_pos is waves of 4 to 4 n_ctx positions in a random basis, rows of equal norm, and head h
    compares some of these waves at the destination with the same waves `shift` positions earlier.
    In place; everything may change in training.
    """
    half = recipe.n_embd // 2
    frequency = 2 * torch.pi / (4 * recipe.n_ctx ** torch.linspace(0, 1, half))
    phase = torch.arange(recipe.n_ctx)[:, None] * frequency
    generator = torch.Generator().manual_seed(recipe.seed)
    basis, _ = torch.linalg.qr(torch.randn(recipe.n_embd, recipe.n_embd, generator=generator))
    sines, cosines = basis[:half], basis[half:]
    waves = phase.sin() @ sines + phase.cos() @ cosines
    model.transformer.wpe.weight.copy_(recipe.sinusoids * waves / half**0.5)

    d_head = recipe.n_embd // recipe.n_head
    W_Q, W_K, _ = model.transformer.h[0].attn.c_attn.weight.split(recipe.n_embd, dim=1)
    # the token before, the one before that, and a wider look at the last ten
    for h, (shift, first, spacing) in enumerate([(1, 0, 6), (2, 0, 6), (0, 32, 6)][: recipe.local]):
        own = first + spacing * torch.arange(d_head // 2)
        own = own[own < half]
        turn = (frequency[own] * shift)[:, None]
        query = torch.cat([sines[own], cosines[own]])
        key = torch.cat([
            turn.cos() * sines[own] + turn.sin() * cosines[own],
            turn.cos() * cosines[own] - turn.sin() * sines[own],
        ])  # fmt: skip
        columns = slice(h * d_head, h * d_head + len(query))
        W_Q[:, columns], W_K[:, columns] = 2 * query.T, 2 * key.T


def new_optimizer(model: GPT2LMHeadModel, recipe: Recipe) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": recipe.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.95), eps=recipe.eps, fused=True)


def loss_of(model, windows: torch.Tensor) -> torch.Tensor:
    """Mean next-token cross-entropy in nats."""
    logits = model(input_ids=windows[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())


def training_loss(model, windows: torch.Tensor, steady: float) -> torch.Tensor:
    """The cross-entropy, and `steady` times the variance of log s, the scale of the first
    LayerNorm over the tokens of the batch but BOS.

    In GPT-2 small that scale is all but constant (0.15 to 0.175). A small model has no reason to
    make it so, and is asked to.
    """
    loss = loss_of(model, windows)
    if steady:
        ids = windows[:, 1:-1]
        embeddings = model.transformer.wte(ids) + model.transformer.wpe.weight[1 : ids.shape[1] + 1]
        loss = loss + steady * embeddings.var(-1).log().div(2).var()
    return loss


@torch.no_grad()
def validation_losses(
    model, streams, recipe: Recipe, device: str, most: int = 64
) -> dict[str, float]:
    """Nats per token and domain, over consecutive windows of the held-out stream
    (at most `most` of them).
    """
    losses = {}
    for name, pair in streams.items():
        stream = torch.from_numpy(pair["valid"].astype(np.int64))
        rows = stream[: len(stream) // recipe.n_ctx * recipe.n_ctx].view(-1, recipe.n_ctx)[:most]
        rows = F.pad(rows, (1, 0), value=BOS).to(device)
        total = [loss_of(model, part).item() * len(part) for part in rows.split(8)]
        losses[name] = sum(total) / len(rows)
    return losses


# ---------------------------------------------------------------- checkpoints


def write_whole(path: Path, data: bytes) -> None:
    """Write to a temporary name beside the target, then rename: the target is never half a file."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def save_checkpoint(
    path: Path, model, optimizer, recipe: Recipe, step: int, seconds: float
) -> None:
    tensors: dict[str, torch.Tensor] = {}
    for name, p in model.named_parameters():
        state = optimizer.state[p]
        tensors |= {
            f"weight/{name}": p.detach(),
            **{f"{k}/{name}": state[k] for k in ("exp_avg", "exp_avg_sq", "step")},
        }
    temporary = path.with_name(path.name + ".part")
    facts = {"step": str(step), "seconds": f"{seconds:.1f}", "recipe": json.dumps(asdict(recipe))}
    save_file({k: v.cpu().contiguous() for k, v in tensors.items()}, temporary, metadata=facts)
    os.replace(temporary, path)


def load_checkpoint(path: Path, model, optimizer, recipe: Recipe) -> tuple[int, float]:
    """Fill model and optimizer in place; the step to go on from and the seconds spent so far."""
    with safe_open(path, framework="pt") as file:
        facts = file.metadata()
        if json.loads(facts["recipe"]) != asdict(recipe):
            raise ValueError(
                f"{path} was made with another recipe; drop --resume or choose another --work"
            )
        for name, p in model.named_parameters():
            with torch.no_grad():
                p.copy_(file.get_tensor(f"weight/{name}"))
            moments = {k: file.get_tensor(f"{k}/{name}") for k in ("exp_avg", "exp_avg_sq", "step")}
            optimizer.state[p] = {
                k: v.to(p.device) if k != "step" else v for k, v in moments.items()
            }
    return int(facts["step"]), float(facts["seconds"])


# ---------------------------------------------------------------- what ships


@torch.no_grad()
def centre_tokens(model: GPT2LMHeadModel, streams: dict[str, np.ndarray], recipe: Recipe) -> None:
    """Move the origin: token embeddings get mean zero over the tokens of a text, and position
    embeddings take that mean.

    The residual stream is their sum and does not notice. The logits of all tokens change by the
    same amount, because embeddings are tied, and the softmax does not notice. So the model is the
    same; but what is a token's and what is a position's has been told apart. In place.
    """
    counts = torch.zeros(recipe.vocab, dtype=torch.float64)
    for stream in streams.values():
        share = len(stream) ** (recipe.power - 1)  # as often as training draws its tokens
        counts += share * np.bincount(stream, minlength=recipe.vocab)
    token, position = model.transformer.wte.weight, model.transformer.wpe.weight
    mean = ((counts / counts.sum()).to(token) @ token).clone()
    token -= mean
    position += mean


def export(model, work: Path, out: Path) -> None:
    """A Hugging Face folder: float16 safetensors, config.json, tokenizer.json."""
    out.mkdir(parents=True, exist_ok=True)
    half = GPT2LMHeadModel(model.config)
    half.load_state_dict(model.state_dict())
    half.half().save_pretrained(out, safe_serialization=True)
    marks = dict.fromkeys(("bos_token", "eos_token", "unk_token"), SEPARATOR)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(work / "tokenizer.json"),
        model_max_length=model.config.n_positions,
        **marks,
    )
    tokenizer.save_pretrained(out)


def data_table(corpus: Path) -> list[str]:
    """One Markdown row a domain with its licences, from the corpus manifest where there is one."""
    manifest = corpus / "MANIFEST.json"
    if not manifest.exists():
        return ["The corpus came without a manifest: its sources and licences are not known here."]
    domains = json.loads(manifest.read_text())["domains"]
    licences = " ".join(s["licence"] for entry in domains.values() for s in entry["sources"])
    credits = {  # what these licences ask to be said
        "OpenStax": "OpenStax books: Rice University, CC BY 4.0.",
        "OGL 3.0": "Contains public sector information licensed under the Open Government Licence "
        "v3.0.",
    }
    owed = " ".join(said for name, said in credits.items() if name in licences)
    rows = [owed, ""] if owed else []
    rows += ["| domain | sources | licences |", "| --- | --- | --- |"]
    for name, entry in domains.items():
        origins = sorted({s["origin"] for s in entry["sources"]})
        shown = ", ".join(origins[:4]) + (
            f" and {len(origins) - 4} more" if len(origins) > 4 else ""
        )
        rows.append(
            f"| {name} | {shown} | {'; '.join(sorted({s['licence'] for s in entry['sources']}))} |"
        )
    version = sys.version.split()[0]
    rows.append(
        f"| python | the standard library of Python {version}, without its tests | PSF-2.0 |"
    )
    return rows


def phases(recipe: Recipe, steps: int, seconds: float, device: str) -> list[dict]:
    """What the model went through: the phases of the model that it started from, and this one."""
    before = Path(recipe.start) / "phases.json"
    own = {
        "recipe": asdict(recipe),
        "steps": steps,
        "tokens": steps * recipe.batch * recipe.n_ctx,
        "minutes": round(seconds / 60),
        "device": device,
    }
    return (json.loads(before.read_text()) if recipe.start and before.exists() else []) + [own]


def write_card(out: Path, corpus: Path, history: list[dict], losses: dict[str, float]) -> None:
    """The model card, and beside it the phases in a form that a next phase can read."""
    write_whole(out / "phases.json", json.dumps(history, indent=1).encode())
    recipe = Recipe(**history[-1]["recipe"])
    digest = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
    mean = sum(losses.values()) / len(losses)
    defaults = asdict(Recipe())
    told = []
    for number, phase in enumerate(history, start=1):
        changed = {k: v for k, v in phase["recipe"].items() if v != defaults[k] and k != "start"}
        own = ", ".join(f"{k} {v}" for k, v in changed.items())
        told.append(
            f"| {number} | {phase['tokens']:,} | {phase['steps']:,} | {phase['minutes']} "
            f"| {phase['device']} | {own or 'none'} |"
        )
    lines = [
        "---", "license: mit", "library_name: transformers", "language: [en, es, fr, de]", "---",
        "",
        "# mini", "",
        f"A GPT-2 at pocket size, for *Context from Weights*: {recipe.n_layer} layers, "
        f"d_model {recipe.n_embd}, {recipe.n_head} heads, n_ctx {recipe.n_ctx}, "
        f"byte-level BPE of {recipe.vocab} tokens, tied embeddings, no dropout. "
        f"Token {BOS} is `{SEPARATOR}`; every text starts with it.", "",
        "It exists so that every method of the book runs offline in seconds. "
        "It is no use as a writer.", "",
        "## Recipe", "",
        "AdamW (0.9, 0.95), bf16 autocast, linear warm-up and then a cosine; windows lie inside "
        "one domain and start with BOS, domains are drawn in proportion to a power of their size. "
        "Position embeddings start as sinusoids and not at random, and the query and key matrices "
        f"of {history[0]['recipe']['local']} first-layer heads start such that they look at the "
        "last few tokens: "
        "so small a model would otherwise leave that to later layers, and GPT-2 does not. "
        "What became of it is what training made of it. In the end the mean token embedding, over "
        "the tokens of the texts, is moved into the position embeddings, which changes neither the "
        "residual stream nor any probability. The option `steady` adds to the loss the variance of "
        "the first LayerNorm's log scale, which GPT-2 keeps nearly constant without being asked. "
        "Made by `tools/train_mini.py`, whose options are:", "",
        "```json", json.dumps(defaults, indent=2), "```", "",
        f"{sum(p['tokens'] for p in history):,} tokens in {len(history)} phase(s):", "",
        "| phase | tokens | steps | minutes | device | options that differ |",
        "| --- | --- | --- | --- | --- | --- |", *told, "",
        "## Held-out loss", "", f"Mean over domains: **{mean:.3f}** nats per token.", "",
        "| domain | nats per token |", "| --- | --- |",
        *[f"| {k} | {v:.3f} |" for k, v in losses.items()], "",
        "## Data", "",
        *data_table(corpus), "",
        "## Checksum", "", f"`model.safetensors` sha256 `{digest}`", "",
    ]  # fmt: skip
    write_whole(out / "README.md", "\n".join(lines).encode())


# ---------------------------------------------------------------- the run


def train(args: argparse.Namespace, recipe: Recipe) -> None:
    device = (
        args.device if args.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    )
    args.work.mkdir(parents=True, exist_ok=True)
    streams = prepare(args.corpus, args.work, recipe)
    training = {name: pair["train"] for name, pair in streams.items()}
    print(
        f"{sum(map(len, training.values())):,} training tokens; {recipe.steps:,} steps on {device}",
        flush=True,
    )

    model = new_model(recipe, device)
    optimizer = new_optimizer(model, recipe)
    checkpoint, first, before = args.work / "checkpoint.safetensors", 0, 0.0
    if args.resume and checkpoint.exists():
        first, before = load_checkpoint(checkpoint, model, optimizer, recipe)
        print(f"resumed at step {first:,}", flush=True)
    step_loss = torch.compile(training_loss) if args.compile else training_loss
    autocast = torch.autocast(device, dtype=torch.bfloat16, enabled=args.bf16)

    last = min(args.stop, recipe.steps)
    start, smooth = time.monotonic(), None
    bar = tqdm(
        range(first, last),
        initial=first,
        total=last,
        unit="step",
        mininterval=args.every,
    )
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate_at(step)
        windows = draw_batch(training, recipe, step).to(device)
        with autocast:
            loss = step_loss(model, windows, recipe.steady)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        speed = (step + 1 - first) * recipe.batch * recipe.n_ctx / (time.monotonic() - start)
        bar.set_postfix_str(f"loss {smooth:.3f}, {speed:,.0f} tokens/s", refresh=False)
        if (step + 1) % args.save_every == 0 or step + 1 == last:
            save_checkpoint(
                checkpoint, model, optimizer, recipe, step + 1, before + time.monotonic() - start
            )

    with autocast:
        losses = validation_losses(model, streams, recipe, device)
    model = model.cpu()
    centre_tokens(model, training, recipe)
    export(model, args.work, args.out)
    history = phases(recipe, last, before + time.monotonic() - start, device)
    write_card(args.out, args.corpus, history, losses)
    for name, value in losses.items():
        print(f"{name:24s} {value:.3f}")
    mean = sum(losses.values()) / len(losses)
    print(f"mean validation loss over {len(losses)} domains: {mean:.3f} nats; saved in {args.out}")


def parse(argv: list[str] | None = None) -> tuple[argparse.Namespace, Recipe]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train/ and valid/")
    parser.add_argument(
        "--work", type=Path, default=Path("build/mini"), help="tokens and checkpoints"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("ctxlib/data/mini"), help="where the trained model goes"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint in --work"
    )
    parser.add_argument("--save-every", type=int, default=250, help="steps between checkpoints")
    parser.add_argument(
        "--stop",
        type=int,
        default=sys.maxsize,
        help="end after this many steps; the rate goes by --tokens all the same",
    )
    parser.add_argument(
        "--every", type=float, default=1.0, help="seconds between updates of the progress bar"
    )
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    for name, default in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    args = parser.parse_args(argv)
    return args, Recipe(**{name: getattr(args, name) for name in asdict(Recipe())})


def main(argv: list[str] | None = None) -> int:
    try:
        train(*parse(argv))
    except ValueError as error:
        print(f"train_mini: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
