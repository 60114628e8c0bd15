"""How long the book takes on a model that it has never seen, and how much memory.

    python benchmarks/editions.py                        # prints the page
    python benchmarks/editions.py --page book/costs.md    # and writes it to a page of the book

Makes a folder in Hugging Face layout with random weights of GPT-2 small's shape, and executes every
chapter on it, as `make book MODEL=...` does. Ends with an error if a chapter crashes or takes more
than its share. Chapters that were executed stay, so a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import torch
from circuit import machine
from page import put
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import ctxlib as cx

ROOT = Path(__file__).resolve().parent.parent
END = "<|endoftext|>"
VOCABULARY, CONTEXT = 50257, 1024
GPT2_SMALL = {"n_embd": 768, "n_head": 12, "n_layer": 12}
MODEL = ROOT / "_build" / "random-models" / "GPT-2-small"
MOST_SECONDS, MOST_GIB = 300, 8  # a chapter, on two cores
EXECUTED = re.compile(r"^(\w+)\.py: executed in (\d+) s, at most ([\d.]+) GiB", re.MULTILINE)
PAGE = """## The book on other models

```
make book MODEL=gpt2          # or gpt2-medium, distilgpt2, a folder in Hugging Face layout
```

makes an **edition**: it executes every chapter on that model and builds a site in
`_build/editions/`. For random weights of GPT-2 small's shape, an edition of {chapters} pages took
{together} seconds. Its slowest page, `{longest}`, took {most} seconds, and the most that a page
held was {memory:.1f} GiB. We had set limits of {limits}. The trained GPT-2 was
never run here, because its weights could not be fetched.

Measured on {machine}.
"""


def tokenizer(size: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `size` tokens: what the book's passages teach, and then pairs drawn at
    random; the end-of-text mark comes last, and is BOS as well, as in GPT-2.
    """
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1, initial_alphabet=alphabet, show_progress=False
    )
    passages = sorted(cx.texts.PASSAGES.glob("*.txt"))
    learner.train_from_iterator((file.read_text("utf-8") for file in passages), trainer)
    learnt = json.loads(learner.to_str())["model"]
    vocab, merges = learnt["vocab"], [tuple(pair) for pair in learnt["merges"]]
    pieces, draw = list(vocab), random.Random(0)
    while len(vocab) < size - 1:
        pair = (draw.choice(pieces), draw.choice(pieces))
        if "".join(pair) not in vocab:
            vocab["".join(pair)] = len(vocab)
            merges.append(pair)
    vocab[END] = len(vocab)
    whole = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    whole.add_special_tokens([END])
    return PreTrainedTokenizerFast(
        tokenizer_object=whole, bos_token=END, eos_token=END, unk_token=END
    )


def random_model(place: Path, words: PreTrainedTokenizerFast, **shape: int) -> Path:
    """A folder with a GPT-2 of that shape, its weights as they are before training."""
    torch.manual_seed(0)
    end = len(words) - 1
    config = GPT2Config(
        vocab_size=len(words), n_positions=CONTEXT, bos_token_id=end, eos_token_id=end, **shape
    )
    GPT2LMHeadModel(config).save_pretrained(place)
    words.save_pretrained(place)
    return place


def execute(folder: Path, log: Path) -> tuple[dict[str, int], float]:
    """Seconds by chapter, and the GiB that the largest of them held.

    Raises RuntimeError for a chapter that crashes.
    """
    command = [sys.executable, "tools/build_book.py", "execute", "--model", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    with log.open("a") as file:  # of every run, where it took several
        file.write(done.stdout)
    if done.returncode:
        raise RuntimeError("the edition was not finished; see above")
    there = {chapter.stem for chapter in (ROOT / "chapters").glob("*.py")}  # the log has older ones
    found = [line for line in EXECUTED.findall(log.read_text()) if line[0] in there]
    return {name: int(s) for name, s, _ in found}, max(float(gib) for *_, gib in found)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", type=Path)
    args = parser.parse_args(argv)
    if not (MODEL / "tokenizer.json").exists():
        random_model(MODEL, tokenizer(), **GPT2_SMALL)
    seconds, memory = execute(MODEL, MODEL.with_suffix(".log"))
    longest = max(seconds, key=lambda name: seconds[name])
    page = PAGE.format(
        chapters=len(seconds), together=sum(seconds.values()),
        longest=longest, most=seconds[longest], memory=memory,
        limits=f"{MOST_SECONDS} seconds and {MOST_GIB} GiB a chapter", machine=machine(),
    )  # fmt: skip
    print(page)
    if args.page:
        put(args.page, page)
    return int(max(seconds.values()) > MOST_SECONDS or memory > MOST_GIB)


if __name__ == "__main__":
    sys.exit(main())
