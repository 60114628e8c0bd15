"""Sample the book's 1000 texts from `mini`:
512 tokens each, from BOS, at temperature 1, with fixed seeds.

    python tools/sample_texts.py

They are in-distribution by construction and belong to nobody else. The separator is suppressed
after the first token, so that each text is one document. Written to `ctxlib/data/samples.npz`
as uint16.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm
from transformers import GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from ctxlib.models import MINI
from ctxlib.texts import SAMPLES

BOS = 0


@torch.inference_mode()
def sample(model: GPT2LMHeadModel, count: int, length: int, seed: int) -> np.ndarray:
    """`count length` token ids; a pure function of the model and the seed."""
    torch.manual_seed(seed)
    start = torch.full((count, 1), BOS)
    return model.generate(
        start,
        attention_mask=torch.ones_like(start),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_new_tokens=length - 1,
        max_new_tokens=length - 1,
        suppress_tokens=[BOS],
        pad_token_id=BOS,
        use_cache=True,
    ).numpy()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=50)
    args = parser.parse_args()
    model = GPT2LMHeadModel.from_pretrained(MINI, dtype=torch.float32).eval()
    sizes = [min(args.batch, args.count - done) for done in range(0, args.count, args.batch)]
    length = model.config.n_positions
    parts = [
        sample(model, size, length, seed)
        for seed, size in enumerate(tqdm(sizes, desc="sample", unit="batch"))
    ]
    tokens = np.concatenate(parts).astype(np.uint16)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, tokens=tokens, vocab=np.array(model.config.vocab_size))
    part = SAMPLES.with_name(SAMPLES.name + ".part")
    part.write_bytes(buffer.getvalue())
    os.replace(part, SAMPLES)
    megabytes = SAMPLES.stat().st_size / 1e6
    print(f"{len(tokens)} texts of {length} tokens in {SAMPLES.name}, {megabytes:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
