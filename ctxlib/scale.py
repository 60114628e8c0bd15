"""More texts than one sitting or one machine reads: an evaluation that is kept in a checkpoint, or
done by a Dask cluster. `cx.evaluate` comes here when it is given `checkpoint=` or `client=`.
"""

from __future__ import annotations

import hashlib
import json
import os
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

from ctxlib.evaluation import NO_TEXTS, Comparison, Moments
from ctxlib.texts import AnyText, Stream, check_listed

T = TypeVar("T")


@dataclass(frozen=True)
class Mark:
    """How far the texts are done: a digest of all of them in order, that of all but the last, and
    where the last one begins, as JSON, if the texts can say it.
    """

    all: str
    before: str
    place: str

    def behind(self, tokens: Int[Tensor, "text source"], place: str = "") -> Mark:
        """The mark with these texts done as well."""
        mark = self
        for text in tokens:
            digest = hashlib.sha256(mark.all.encode() + text.numpy().tobytes()).hexdigest()
            mark = Mark(digest, mark.all, place)
        return mark


NOTHING = Mark("", "", "")
Batch = tuple[Int[Tensor, "text source"], Mark]  # tokens, and how far the texts are with them


def summed(
    comparison: Comparison,
    texts: Iterable[AnyText],
    file: str | os.PathLike | None = None,
    client: Any = None,
) -> Moments:
    """The moments of all texts: those in the checkpoint `file` and, batch by batch in order, those
    of the texts that are not in it yet. Each batch is in the file as soon as it is done. Refuses
    what `cx.evaluate` says.
    """
    checkpoint = Checkpoint(None if file is None else Path(file), comparison)
    todo = checkpoint.unread(texts)
    here = ((comparison(tokens), mark) for tokens, mark in todo)
    for moments, mark in on_cluster(client, comparison, todo) if client else here:
        checkpoint.add(moments, mark)
    return checkpoint.moments


# ---------------------------------------------------------------- on a cluster


def on_cluster(
    client: Any, comparison: Comparison, todo: Iterable[Batch]
) -> Iterator[tuple[Moments, Mark]]:
    """Every batch on a Dask cluster, a few ahead of what is asked for; results come in order, so
    that sums are rounded as they are here. Where the texts end in an error, what is on its way
    comes in first.

    The circuit is a task of its own rather than scattered data: what a lost worker held, a circuit
    or a batch, Dask makes again, as often as its `distributed.scheduler.allowed-failures` say.
    """
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        shared = client.submit(copy, without_tokenizer(comparison), pure=False)
    sent = ((client.submit(call, shared, tokens, pure=False), mark) for tokens, mark in todo)
    for future, mark in ahead(sent, 2 * max(1, sum(client.nthreads().values()))):
        yield future.result(), mark


def without_tokenizer(thing: Any) -> Any:
    """A circuit, and what it is made of, as it travels to a worker: that sees ids only."""
    if not hasattr(thing, "__dataclass_fields__"):
        return thing
    names = [f.name for f in fields(thing)]
    held = {k: None if k == "tokenizer" else without_tokenizer(getattr(thing, k)) for k in names}
    return replace(thing, **held)


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


class Checkpoint:
    """The sums over all texts so far, kept in a file if there is one."""

    def __init__(self, file: Path | None, comparison: Comparison):
        self.file, self.comparison = file, comparison
        self.mark, self.moments = NOTHING, NO_TEXTS
        self.owner = fingerprint(comparison) if file else ""
        if file and file.exists():
            self.moments, self.mark = self.held(file)

    def held(self, file: Path) -> tuple[Moments, Mark]:
        try:
            with safe_open(file, "pt") as tensors:
                moments = Moments(*(tensors.get_tensor(f.name) for f in fields(Moments)))
                words = tensors.metadata()
            owner, mark = words.pop("owner"), Mark(**words)
        except Exception as error:  # safetensors raises classes of its own
            raise ValueError(f"{file} is not a checkpoint of an evaluation: {error}") from error
        if owner != self.owner:
            raise ValueError(
                f"{file} belongs to another circuit, other neurons or another own_token: "
                "name another file, or delete it"
            )
        return moments, mark

    def add(self, moments: Moments, mark: Mark) -> None:
        """A batch. Written beside the old file and then put in its place: a kill leaves a whole
        one.
        """
        self.moments, self.mark = self.moments + moments, mark
        if self.file is None:
            return
        beside = self.file.with_name(self.file.name + ".part")
        save_file(vars(self.moments), beside, {"owner": self.owner, **vars(mark)})
        beside.replace(self.file)

    def unread(self, texts: Iterable[AnyText]) -> Iterator[Batch]:
        """The batches that are not in the sums yet, each with how far the texts are with it; those
        that are must be the same as then.

        A stream begins with the last text done, if that was one of the same source; other texts
        begin with the first.
        """
        check_listed(texts)
        reading: Any = iter(texts)
        mark, left = NOTHING, int(self.moments.count)
        place = json.loads(self.mark.place or "{}")
        if isinstance(texts, Stream) and place.get("of") == texts.identity and left <= len(texts):
            reading, mark, left = texts.reading(place), Mark(self.mark.before, "", ""), 1
        for tokens in self.comparison.batches(islice(reading, left)):
            mark, left = mark.behind(tokens), left - len(tokens)
        if left > 0:
            raise ValueError(
                f"{self.file} holds {left} texts more than are given: name another file"
            )
        if mark.all != self.mark.all:
            raise ValueError(f"{self.file} was made with other texts: name another file")
        for tokens in self.comparison.batches(reading):
            place = json.dumps(reading.place) if isinstance(texts, Stream) else ""
            mark = mark.behind(tokens, place)
            yield tokens, mark


def fingerprint(thing: Any) -> str:
    """What a checkpoint belongs to, in 64 hexadecimal digits: all that a circuit is made of, but
    the tokenizer, for the texts' ids are known.
    """
    if is_dataclass(thing):
        names = [f.name for f in fields(thing) if f.name != "tokenizer"]
        held = "".join(fingerprint(getattr(thing, name)) for name in names).encode()
    elif isinstance(thing, Tensor):
        held = thing.cpu().contiguous().numpy().tobytes()
    else:
        held = repr(thing).encode()
    return hashlib.sha256(held).hexdigest()
