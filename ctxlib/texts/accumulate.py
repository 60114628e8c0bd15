"""Accumulate sums over texts, batch by batch: with a checkpoint, for what outgrows one sitting, or
on a Dask cluster, for what outgrows one machine. `cx.evaluate` uses it.

The checkpoint is our own code: a cache of calls (joblib) would recognise only a whole call, but
here the texts may grow, are compared with those that were done, and only new ones are computed.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import islice
from operator import call
from pathlib import Path
from typing import Any, TypeVar

from jaxtyping import Int
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ctxlib.checks import as_path, check_kind
from ctxlib.texts.batching import check_texts
from ctxlib.texts.documents import refusing
from ctxlib.texts.streams import Stream
from ctxlib.texts.text import AnyText

T = TypeVar("T")
Tokens = Int[Tensor, "text source"]
Sums = Any  # a dataclass of tensors that can be added; its `count` is that of its texts
Measure = Any  # a dataclass that makes `batches` of texts and, called with one, the sums over it


@dataclass(frozen=True)
class Progress:
    """How many of the texts are done: a digest of all of them in order, that of all but the last,
    and where the last one begins, as JSON, for a stream.
    """

    all: str
    before: str
    place: str

    def after(self, tokens: Tokens, place: str = "") -> Progress:
        """Return the progress with these texts done as well."""
        progress = self
        for text in tokens:
            digest = hashlib.sha256(progress.all.encode() + text.numpy().tobytes()).hexdigest()
            progress = Progress(digest, progress.all, place)
        return progress


NOTHING = Progress("", "", "")
Batch = tuple[Tokens, Progress]  # tokens, and the progress once they are done


def accumulate(
    measure: Measure, nothing: Sums, texts: Iterable[AnyText], checkpoint: Any, client: Any
) -> Sums:
    """Return the sums over all texts, `nothing` if there are none: those in the checkpoint and,
    batch by batch in order, those of the texts that are not in it yet. Each batch is in the file as
    soon as it is done. Errors as in `cx.evaluate`.
    """
    file = None if checkpoint is None else as_path(checkpoint)
    if file and (file.is_dir() or not file.parent.is_dir()):
        raise ValueError(f"checkpoint={str(checkpoint)!r}: name a file in a folder that is there")
    owner = owner_of(measure) if file else ""
    sums, progress = (
        load_checkpoint(file, owner, nothing) if file and file.exists() else (nothing, NOTHING)
    )
    todo = unread(measure, texts, int(sums.count), progress, file)
    here = ((measure(tokens), progress) for tokens, progress in todo)
    for more, progress in here if client is None else on_cluster(client, measure, todo):
        sums += more
        if file:
            save(file, owner, sums, progress)
    return sums


# ---------------------------------------------------------------- on a cluster


def on_cluster(
    client: Any, measure: Measure, todo: Iterable[Batch]
) -> Iterator[tuple[Sums, Progress]]:
    """Yield every batch's sums from a Dask cluster, a few ahead of what is asked for, in order, so
    that sums are rounded as they are without a cluster. If the texts end in an error, results that
    are under way come first.

    The measure is a task of its own rather than scattered data: what a lost worker held, a measure
    or a batch, Dask computes again, as often as `distributed.scheduler.allowed-failures` says.
    """
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        shared = check_kind(client, "a client").submit(copy, without_tokenizer(measure), pure=False)
    sent = (
        (client.submit(call, shared, tokens, pure=False), progress) for tokens, progress in todo
    )
    for future, progress in ahead(sent, 2 * max(1, sum(client.nthreads().values()))):
        yield future.result(), progress


def without_tokenizer(thing: Any) -> Any:
    """Return a circuit, and what it is made of, without tokenizers: workers get token ids."""
    if not hasattr(thing, "__dataclass_fields__"):
        return thing
    parts = {f.name: without_tokenizer(getattr(thing, f.name)) for f in fields(thing)}
    return replace(thing, **{k: None if k == "tokenizer" else v for k, v in parts.items()})


def ahead(items: Iterable[T], count: int) -> Iterator[T]:
    """Yield the items, of which `count` are made before the first is yielded. An error is raised
    after those that were made before it.
    """
    made: deque[T] = deque()
    try:
        for item in items:
            made.append(item)
            if len(made) == count:
                yield made.popleft()
    except Exception:
        yield from made
        raise
    yield from made


# ---------------------------------------------------------------- checkpoints


def load_checkpoint(file: Path, owner: str, kind: Sums) -> tuple[Sums, Progress]:
    """Return what is in a checkpoint; raise ValueError if it is none, or belongs to another
    evaluation.
    """
    with refusing(f"{file} is not a checkpoint of an evaluation: "), safe_open(file, "pt") as found:
        sums = type(kind)(*(found.get_tensor(f.name) for f in fields(kind)))
        words = found.metadata()
        whose, progress = words.pop("owner"), Progress(**words)
    if whose != owner:
        raise ValueError(
            f"{file} belongs to another circuit or other neurons: name another file, or delete it"
        )
    return sums, progress


def save(file: Path, owner: str, sums: Sums, progress: Progress) -> None:
    """Write next to the old file and then take its place: an interruption leaves one whole."""
    beside = file.with_name(file.name + ".part")
    save_file({**vars(sums)}, beside, {"owner": owner, **vars(progress)})
    beside.replace(file)


def unread(
    measure: Measure, texts: Iterable[AnyText], left: int, done: Progress, file: Path | None
) -> Iterator[Batch]:
    """Yield the batches after the `left` texts that are done, each with the progress once it is
    done too. Raises ValueError unless the texts that are done are the same as then.

    A stream begins with the last text done, if that was one of the same source; other texts begin
    with the first.
    """
    check_texts(texts)
    reading: Any = iter(texts)
    progress, place = NOTHING, json.loads(done.place or "{}")
    if isinstance(texts, Stream) and place.get("of") == texts.identity and left <= len(texts):
        reading, progress, left = texts.reading(place), Progress(done.before, "", ""), 1
    for tokens in measure.batches(islice(reading, left)):
        progress, left = progress.after(tokens), left - len(tokens)
    if left > 0:
        raise ValueError(f"{file} holds {left} more texts than are given: name another file")
    if progress.all != done.all:
        raise ValueError(f"{file} was made with other texts: name another file")
    for tokens in measure.batches(reading):
        mark = json.dumps(reading.place) if isinstance(texts, Stream) else ""
        progress = progress.after(tokens, mark)
        yield tokens, progress


def owner_of(measure: Measure) -> str:
    """Return a digest of all that a circuit is made of, to which a checkpoint belongs. It leaves
    out the tokenizer, since the texts' ids are known.
    """

    def as_json(part: Any) -> Any:  # what JSON does not know by itself
        if is_dataclass(part):
            return {f.name: getattr(part, f.name) for f in fields(part) if f.name != "tokenizer"}
        if isinstance(part, Tensor):
            return hashlib.sha256(part.cpu().contiguous().numpy().tobytes()).hexdigest()
        return repr(part)

    return hashlib.sha256(json.dumps(measure, default=as_json).encode()).hexdigest()
