"""Sums over texts, batch by batch: over more than one sitting reads, kept in a checkpoint, or over
more than one machine reads, on a Dask cluster. `cx.evaluate` comes here.

The checkpoint is kept by hand: a cache of calls (joblib) would know a whole call again, where here
the texts may grow, are held against those that were done, and only new ones are computed.
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
from typing import Any, Protocol, TypeVar

from jaxtyping import Int
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ctxlib.texts.batching import check_texts
from ctxlib.texts.documents import refusing
from ctxlib.texts.streams import Stream
from ctxlib.texts.text import AnyText

T = TypeVar("T")
Tokens = Int[Tensor, "text source"]
Sums = Any  # a dataclass of tensors that can be added; its `count` is that of its texts


class Measure(Protocol):
    """A dataclass that makes batches of texts and gives the sums over one."""

    def batches(self, texts: Iterable[AnyText]) -> Iterator[Tokens]: ...
    def __call__(self, tokens: Tokens) -> Sums: ...


@dataclass(frozen=True)
class Mark:
    """How far the texts are done: a digest of all of them in order, that of all but the last, and
    where the last one begins, as JSON, if the texts can say it.
    """

    all: str
    before: str
    place: str

    def behind(self, tokens: Tokens, place: str = "") -> Mark:
        """The mark with these texts done as well."""
        mark = self
        for text in tokens:
            digest = hashlib.sha256(mark.all.encode() + text.numpy().tobytes()).hexdigest()
            mark = Mark(digest, mark.all, place)
        return mark


NOTHING = Mark("", "", "")
Batch = tuple[Tokens, Mark]  # tokens, and how far the texts are with them


def summed(
    measure: Measure, nothing: Sums, texts: Iterable[AnyText], checkpoint: Any, client: Any
) -> Sums:
    """The sums over all texts, `nothing` where there are none: those in the checkpoint and, batch
    by batch in order, those of the texts that are not in it yet. Each batch is in the file as soon
    as it is done. Refuses what `cx.evaluate` says.
    """
    file = None if checkpoint is None else Path(checkpoint).expanduser()
    if file and (file.is_dir() or not file.parent.is_dir()):
        raise ValueError(f"checkpoint={str(checkpoint)!r}: name a file in a folder that is there")
    owner = owner_of(measure) if file else ""
    sums, mark = held(file, owner, nothing) if file and file.exists() else (nothing, NOTHING)
    todo = unread(measure, texts, int(sums.count), mark, file)
    here = ((measure(tokens), mark) for tokens, mark in todo)
    for more, mark in on_cluster(client, measure, todo) if client else here:
        sums += more
        if file:
            keep(file, owner, sums, mark)
    return sums


# ---------------------------------------------------------------- on a cluster


def on_cluster(client: Any, measure: Measure, todo: Iterable[Batch]) -> Iterator[tuple[Sums, Mark]]:
    """Every batch on a Dask cluster, a few ahead of what is asked for; results come in order, so
    that sums are rounded as they are here. Where the texts end in an error, what is on its way
    comes in first.

    The measure is a task of its own rather than scattered data: what a lost worker held, a measure
    or a batch, Dask makes again, as often as its `distributed.scheduler.allowed-failures` say.
    """
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        shared = client.submit(copy, without_tokenizer(measure), pure=False)
    sent = ((client.submit(call, shared, tokens, pure=False), mark) for tokens, mark in todo)
    for future, mark in ahead(sent, 2 * max(1, sum(client.nthreads().values()))):
        yield future.result(), mark


def without_tokenizer(thing: Any) -> Any:
    """A circuit, and what it is made of, as it travels to a worker: that sees ids only."""
    if not hasattr(thing, "__dataclass_fields__"):
        return thing
    parts = {f.name: without_tokenizer(getattr(thing, f.name)) for f in fields(thing)}
    return replace(thing, **{k: None if k == "tokenizer" else v for k, v in parts.items()})


def ahead(items: Iterable[T], count: int) -> Iterator[T]:
    """The items, of which `count` are made before the first is given. Where they end in an error,
    it is raised behind those that were made.
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


# ---------------------------------------------------------------- kept through kills


def held(file: Path, owner: str, kind: Sums) -> tuple[Sums, Mark]:
    """What is in a checkpoint; ValueError where that is something else."""
    with refusing(f"{file} is not a checkpoint of an evaluation: "), safe_open(file, "pt") as found:
        sums = type(kind)(*(found.get_tensor(f.name) for f in fields(kind)))
        words = found.metadata()
        whose, mark = words.pop("owner"), Mark(**words)
    if whose != owner:
        raise ValueError(
            f"{file} belongs to another circuit or other neurons: name another file, or delete it"
        )
    return sums, mark


def keep(file: Path, owner: str, sums: Sums, mark: Mark) -> None:
    """Written beside the old file and then put in its place: a kill leaves a whole one."""
    beside = file.with_name(file.name + ".part")
    save_file({**vars(sums)}, beside, {"owner": owner, **vars(mark)})
    beside.replace(file)


def unread(
    measure: Measure, texts: Iterable[AnyText], left: int, done: Mark, file: Path | None
) -> Iterator[Batch]:
    """The batches behind the `left` texts that are done, each with how far the texts are with it;
    those that are must be the same as then.

    A stream begins with the last text done, if that was one of the same source; other texts begin
    with the first.
    """
    check_texts(texts)
    reading: Any = iter(texts)
    mark, place = NOTHING, json.loads(done.place or "{}")
    if isinstance(texts, Stream) and place.get("of") == texts.identity and left <= len(texts):
        reading, mark, left = texts.reading(place), Mark(done.before, "", ""), 1
    for tokens in measure.batches(islice(reading, left)):
        mark, left = mark.behind(tokens), left - len(tokens)
    if left > 0:
        raise ValueError(f"{file} holds {left} texts more than are given: name another file")
    if mark.all != done.all:
        raise ValueError(f"{file} was made with other texts: name another file")
    for tokens in measure.batches(reading):
        mark = mark.behind(tokens, json.dumps(reading.place) if isinstance(texts, Stream) else "")
        yield tokens, mark


def owner_of(measure: Measure) -> str:
    """What a checkpoint belongs to, in 64 hexadecimal digits: all that a circuit is made of, but
    the tokenizer, for the texts' ids are known.
    """

    def told(part: Any) -> Any:  # what JSON does not know by itself
        if is_dataclass(part):
            return {f.name: getattr(part, f.name) for f in fields(part) if f.name != "tokenizer"}
        if isinstance(part, Tensor):
            return hashlib.sha256(part.cpu().contiguous().numpy().tobytes()).hexdigest()
        return repr(part)

    return hashlib.sha256(json.dumps(measure, default=told).encode()).hexdigest()
