"""How long the book takes on models that it has never seen, and how much memory.

    python benchmarks/editions.py                        # prints the table
    python benchmarks/editions.py --page book/editions.md    # and writes it to a page of the book

Makes two folders in Hugging Face layout with random weights, one of GPT-2 small's shape and one
like GPT-2 medium with fewer layers, and executes every chapter on them, as `make book MODEL=...`
does. Ends with an error if a chapter crashes or takes more than its share. A model's chapters that
were executed stay, so a run that was interrupted goes on; `--work` says where.
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

import pandas as pd
import torch
from circuit import machine
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import ctxlib as cx

ROOT = Path(__file__).resolve().parent.parent
END = "<|endoftext|>"
VOCABULARY, CONTEXT = 50257, 1024
SHAPES = {
    "GPT-2 small": {"n_embd": 768, "n_head": 12, "n_layer": 12},
    "like GPT-2 medium": {"n_embd": 1024, "n_head": 16, "n_layer": 4},
}
MOST_SECONDS, MOST_GIB = 300, 8  # a chapter, on two cores
EXECUTED = re.compile(r"^(\w+)\.py: executed in (\d+) s, at most ([\d.]+) GiB", re.MULTILINE)
PAGE = """# The book on other models

```
make book MODEL=gpt2          # or gpt2-medium, distilgpt2, a folder in Hugging Face layout
```

makes an **edition**: every chapter executed on that model, and a site of its own, in
`_build/editions/`. The notebooks of `mini` stay as they are. A build that was stopped goes on at
the chapter that it was in. Chapters take the number of heads and layers, context, vocabulary,
which heads are stable and which neurons stand out from the model. What it does not have, they say
in a sentence; and a published claim about GPT-2 small is judged on GPT-2 small only.

What that costs, by `make editions`, which writes this page: seconds for each chapter, on models
with random weights, {vocabulary} tokens and a context of {context}. Random weights know nothing, so
these editions are about the cost alone.

{table}

{shapes}. The most that any of them held in memory at once: {memory}.

Machine: {machine}.
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


def execute(folder: Path, log: Path) -> tuple[pd.Series, float]:
    """Seconds by chapter, and the GiB that the largest of them held.

    Raises RuntimeError for a chapter that crashes.
    """
    command = [sys.executable, "tools/build_book.py", "execute", "--model", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    with log.open("a") as file:  # of every run, where it took several
        file.write(done.stdout)
    if done.returncode:
        raise RuntimeError(f"the edition of {folder.name} was not finished; see above")
    facts = {name: (int(s), float(gib)) for name, s, gib in EXECUTED.findall(log.read_text())}
    seconds = pd.Series({name: s for name, (s, _) in facts.items()})
    return seconds, max(gib for _, gib in facts.values())


def described(name: str, n_embd: int, n_head: int, n_layer: int) -> str:
    return f"{name}: {n_layer} layers, {n_head} heads, {n_embd} numbers a token"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", type=Path)
    parser.add_argument("--work", type=Path, default=ROOT / "_build" / "random-models")
    args = parser.parse_args(argv)
    words, columns, memory = None, {}, {}
    for name, shape in SHAPES.items():
        folder = args.work / name.replace(" ", "-")
        if not (folder / "tokenizer.json").exists():
            words = words or tokenizer()
            random_model(folder, words, **shape)
        columns[name], memory[name] = execute(folder, folder.with_suffix(".log"))
    table = pd.DataFrame(columns)
    table.loc["together"] = table.sum()
    print(table)
    print(memory)
    if args.page:
        rows = [["chapter", *table.columns], ["---", *["--:"] * len(table.columns)]]
        rows += [[str(name), *map(str, cells)] for name, cells in table.iterrows()]
        args.page.write_text(
            PAGE.format(
                vocabulary=VOCABULARY,
                context=CONTEXT,
                table="\n".join(f"| {' | '.join(row)} |" for row in rows),
                shapes="; ".join(described(name, **shape) for name, shape in SHAPES.items()),
                memory=", ".join(f"{gib:.1f} GiB on {name}" for name, gib in memory.items()),
                machine=machine(),
            ),
            encoding="utf-8",
        )
    return int(table.iloc[:-1].max(axis=None) > MOST_SECONDS or max(memory.values()) > MOST_GIB)


if __name__ == "__main__":
    sys.exit(main())
