"""Streams: texts of several sources in turn, read as they are needed, from any place on.

This is our own code because `datasets.interleave_datasets` reads ahead in every source and
tokenises that again when it is resumed, and a file read by a generator is read again from its first
byte. The state of a data set itself, `state_dict`, is what `documents.row_documents` keeps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ctxlib.texts.text import Reader, Text

Spot = tuple[Any, int, int]  # where a document begins, how many of its texts come before, and
START: Spot = (None, 0, 0)  # how many of its source's: where a text begins; all of it fits in JSON
Spotted = Iterator[tuple[Text, Spot]]  # texts, each with its own


@dataclass(frozen=True, eq=False)
class Stream:
    """Texts that are read as they are needed, in an order that does not change; made by `stream`.
    `name` says where they come from. A stream can replace a list of texts wherever they are read in
    turn.

    >>> texts = cx.texts.stream(weights, count=100)
    >>> cx.softmax_denominators(fixed, texts).shape
    torch.Size([100, 8])
    """

    reader: Reader
    count: int
    name: str
    sources: Sequence[Callable[[Spot], Spotted]]  # the texts of each from a spot on
    half: str | None = None

    def __iter__(self) -> StreamReading:
        return self.reading()

    def __len__(self) -> int:
        return self.count

    @property
    def identity(self) -> str:
        """Return what a place belongs to: the source, the half and the length of a text."""
        half = f", half {self.half}" if self.half else ""
        return f"{self.name}{half}, {self.reader.n_ctx} tokens"

    def reading(self, place: dict[str, Any] | None = None) -> StreamReading:
        """Return an iterator from the beginning, or from the `place` of an earlier one of the same
        texts: it starts with the text that came last there, and tokenises none before it. Raises
        ValueError for a place in other texts, and for one after the last.

        >>> texts = cx.texts.stream(weights, count=100)
        >>> first = texts.reading()
        >>> next(first).name, next(first).name
        ('astronomy-01.1', 'bible-kjv-01.1')
        >>> next(texts.reading(first.place)).name
        'bible-kjv-01.1'
        """
        turns = [(k, START) for k in range(len(self.sources))]
        place = place or {"of": self.identity, "given": 0, "turns": turns}
        if place["of"] != self.identity:
            raise ValueError(f"a place in {place['of']}, but these are {self.identity}")
        if place["given"] >= self.count:
            raise ValueError(f"a place after {place['given']} texts: these are {self.count}")
        return StreamReading(self, place)


class StreamReading(Iterator[Text]):
    """An iterator over a stream: one text of each source in turn.

    `place` is where the last text begins, for `Stream.reading`; it can be saved as JSON.

    >>> reading = iter(cx.texts.stream(weights, count=3))
    >>> text = next(reading)
    >>> reading.given, len(reading), reading.place["given"]
    (1, 3, 0)
    """

    def __init__(self, texts: Stream, place: dict[str, Any]):
        self.texts, self.place, self.given = texts, place, place["given"]
        # whose turn it is: the number of a source, where it goes on, its texts from there
        self.turns = deque((k, spot, texts.sources[k](spot)) for k, spot in place["turns"])

    def __len__(self) -> int:
        return self.texts.count

    def __next__(self) -> Text:
        if self.given == self.texts.count:
            raise StopIteration
        while self.turns:
            k, _, found = self.turns.popleft()
            for text, spot in found:
                if self.texts.half in (None, text.half):
                    turns = [(k, spot), *((other, begin) for other, begin, _ in self.turns)]
                    self.place = {"of": self.texts.identity, "given": self.given, "turns": turns}
                    where, before, number = spot
                    self.turns.append((k, (where, before + 1, number + 1), found))
                    self.given += 1
                    return text
        raise ValueError(
            f"{self.texts.name} holds {self.given} texts of {self.texts.reader.n_ctx} tokens, "
            f"fewer than the {self.texts.count} asked for; shorter documents do not count"
        )
