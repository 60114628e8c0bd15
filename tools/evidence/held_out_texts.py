"""Choose the book's 1000 texts from documents that `mini` is not trained on.

    python tools/evidence/held_out_texts.py --corpus path/to/corpus

The corpus is the one of `train_mini.py`, with its `MANIFEST.json`; its `valid/` and the held
out part of `python` give the texts. Each document is cut, from its beginning, into full windows:
stretches that begin and end between words and whose first 511 tokens, in the vocabulary of `mini`,
are theirs alone. A window that shares a run of 64 tokens with any training document is skipped.
The rest is taken in turns: the first window of every document, then the second, as many as make
the domains equal. The documents of a domain, in the order of their SHA-256, go to half A and half B
in turns.

Written to `ctxlib/data/texts/`: `<domain>.jsonl.xz`, a text a line; `index.json`, which says of
every document what it is and how the choice was checked; in `CREDITS.md`, a table for each domain.
What stands above the first of these, and `LICENCES.md`, is written by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import platform
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from command import command
from files import digest, filled_in, replace
from numpy.lib.stride_tricks import sliding_window_view
from tokenizers import Tokenizer
from tqdm import tqdm
from train_mini import encode_stream, python_files, read_corpus

from ctxlib.models import MINI
from ctxlib.texts.documents import document_hash
from ctxlib.texts.sources import HELD_OUT

LENGTH = 511  # tokens of a window; BOS comes in front of them
RUN = 64  # tokens in a row that no text may share with the training documents
BASE = 0x9E3779B97F4A7C15  # odd, so that no power of it vanishes modulo 2 ** 64
TITLE = 80  # characters of a document's first line that are kept
FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class Window(NamedTuple):
    """A stretch of a document: its place there from 1 on, its text, its first tokens."""

    number: int
    text: str
    ids: np.ndarray


# ---------------------------------------------------------------- windows


def windows(tokenizer: Tokenizer, document: str, length: int = LENGTH) -> Iterator[Window]:
    """The full windows of a document, one behind the other.

    Each begins and ends where the tokenizer splits words, which no merge crosses, so that its text
    by itself gives the tokens that it has in the document.
    """
    whole = tokenizer.encode(document, add_special_tokens=False)
    ids, words = np.array(whole.ids, dtype=np.uint16), [*whole.word_ids, None]
    begin, number = 0, 1
    while begin + length <= len(ids):
        for end in range(begin + length, len(words)):
            if words[end] == words[end - 1]:
                continue
            text = document[whole.offsets[begin][0] : whole.offsets[end - 1][1]]
            if tokenizer.encode(text, add_special_tokens=False).ids == whole.ids[begin:end]:
                break  # where it is not, white space before the cut goes with what follows it
        else:
            raise ValueError(f"no text gives the tokens of a window again: {text[:40]!r}")
        yield Window(number, text, ids[begin : begin + length])
        begin, number = end, number + 1


# ---------------------------------------------------------------- the check


def run_hashes(ids: np.ndarray, run: int = RUN) -> np.ndarray:
    """A polynomial modulo 2^64 for every run of tokens; equal runs have equal ones."""
    powers = np.array([pow(BASE, k, 2**64) for k in range(run)], dtype=np.uint64)
    return sliding_window_view(ids.astype(np.uint64), run) @ powers


def seen(
    texts: Iterable[np.ndarray], streams: Iterable[np.ndarray], run: int = RUN
) -> Iterator[bool]:
    """Whether a run of each text is in one of the streams. Two runs that have one hash by chance
    are taken for the same: a text may be left out that need not be, and none kept that must not.
    """
    hashes = [run_hashes(ids, run) for ids in texts]
    wanted = np.unique(np.concatenate(hashes))
    there = np.concatenate([np.intersect1d(wanted, run_hashes(s, run)) for s in streams])
    return (bool(np.isin(own, there).any()) for own in hashes)


# ---------------------------------------------------------------- the choice


def choose(
    domains: dict[str, dict[str, list[str]]],
    tokenizer: Tokenizer,
    total: int = 1000,
    length: int = LENGTH,
) -> tuple[dict[str, Any], dict[str, list[dict]]]:
    """What was checked and which documents there are, for the index; the texts of each domain.

    Raises ValueError for a domain without its share of windows that are not in the training
    documents, or without two documents that have one.
    """
    rows = [
        (domain, source, *window)
        for domain, pair in tqdm(domains.items(), desc="cut", unit="domain", disable=None)
        for source in sorted(pair["valid"], key=document_hash)
        for window in windows(tokenizer, source, length)
    ]
    cut = pd.DataFrame(rows, columns=["domain", "source", "window", "text", "ids"])
    streams = {
        domain: encode_stream(tokenizer, pair["train"])
        for domain, pair in tqdm(domains.items(), desc="check", unit="domain", disable=None)
    }
    elsewhere = np.fromiter(seen(cut["ids"], streams.values()), dtype=bool)
    skipped = cut["domain"][elsewhere].value_counts(sort=False)
    facts, texts = {}, {}
    for rank, domain in enumerate(domains):
        clean = cut[~elsewhere & (cut["domain"] == domain)]
        number, sources = clean["source"].factorize()
        clean = clean.assign(document=number + 1, turn=clean.groupby("source").cumcount())
        share = total // len(domains) + (rank < total % len(domains))
        taken = clean.sort_values(["turn", "document"])[:share]
        if len(taken) < share or len(sources) < 2:
            raise ValueError(
                f"{domain}: {len(taken)} windows of {length} tokens in {len(sources)} documents "
                f"that share no run with the training documents, but it takes {share} in at least 2"
            )
        texts[domain] = taken[["document", "window", "text"]].to_dict("records")
        facts[domain] = [
            {"number": k, "sha256": document_hash(source), "half": "BA"[k % 2]}
            | {"title": title(source), "texts": count}
            for k, source in enumerate(sources, 1)
            if (count := int((taken["document"] == k).sum()))
        ]
    checked = {
        "what": f"no run of {RUN} tokens of any text is in a training document",
        "windows": len(cut),
        "skipped": int(skipped.sum()),
        "skipped by domain": skipped.to_dict(),
        "training tokens": sum(map(len, streams.values())),
        "training streams": {
            domain: {"tokens": len(ids), "sha256": hashlib.sha256(ids.tobytes()).hexdigest()}
            for domain, ids in streams.items()
        },
    }
    return {"checked": checked, "domains": facts}, texts


def title(document: str) -> str:
    """A document's first line, which is its heading where it has one; long ones are cut."""
    line = document.partition("\n")[0].strip()
    return line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"


# ---------------------------------------------------------------- what is written


def sources(manifest: dict, domain: str) -> list[dict]:
    """Where a domain comes from, as the manifest says."""
    if domain == "python":
        titles = [f"Python {platform.python_version()}, its standard library"]
        return [FACTS["python"] | {"titles": titles}]
    if domain not in manifest["domains"]:
        raise ValueError(f"MANIFEST.json has no sources for {domain}, so nobody can be credited")
    return manifest["domains"][domain]["sources"]


@command("held_out_texts")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train/ and valid/")
    parser.add_argument("--out", type=Path, default=HELD_OUT, help="where the texts go")
    parser.add_argument("--count", type=int, default=1000, help="texts of all domains together")
    args = parser.parse_args(argv)
    tokenizer = Tokenizer.from_file(str(MINI / "tokenizer.json"))
    domains = dict(sorted(read_corpus(args.corpus).items()))
    manifest = json.loads((args.corpus / "MANIFEST.json").read_text("utf-8"))
    head, *_ = (HELD_OUT / "CREDITS.md").read_text("utf-8").partition("## ")
    origins = {domain: sources(manifest, domain) for domain in domains}
    page = head + filled_in("credits.md", origins=origins)
    chosen, texts = choose(domains, tokenizer, args.count)
    files = {document_hash(text): place for place, text in reversed(python_files().items())}
    for document in chosen["domains"].get("python", []):
        document["title"] = files[document["sha256"]]
    index = {
        "made by": "tools/evidence/held_out_texts.py",
        "texts": args.count,
        "tokens of a text": LENGTH + 1,
        "tokenizer": digest(MINI / "tokenizer.json"),
        "python": platform.python_version(),
        "halves": "the documents of a domain in the order of their sha256, A and B in turns",
        "checked": chosen["checked"],
        "domains": {
            domain: {
                "dialect": FACTS["dialects"].get(domain, "en"),
                "sources": [source["source"] for source in origins[domain]],
                "documents": documents,
            }
            for domain, documents in chosen["domains"].items()
        },
    }
    args.out.mkdir(parents=True, exist_ok=True)
    for old in args.out.glob("*.jsonl.xz"):
        old.unlink()
    for domain, rows in texts.items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        replace(args.out / f"{domain}.jsonl.xz", lzma.compress(lines.encode(), preset=9))
    replace(args.out / "index.json", json.dumps(index, indent=1, ensure_ascii=False) + "\n")
    replace(args.out / "CREDITS.md", page)
    passed = "{skipped} of {windows} windows skipped for a run that is in a training document"
    print(f"{args.count} texts of {len(texts)} domains;", passed.format_map(chosen["checked"]))


if __name__ == "__main__":
    sys.exit(main())
