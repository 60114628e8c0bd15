"""The texts of a command: which of them are learned on, judged on and shown, and what is said where
a label has too few.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from ctxlib.texts.documents import file_documents
from ctxlib.texts.sources import HALVES, labeled_files, text_of
from ctxlib.texts.text import Reader, Text


def in_turn(texts: Iterable[Text]) -> list[Text]:
    """Return the texts such that domains take turns, and within a domain its documents: the first
    few are then of all of them, in whatever order they were.

    >>> from ctxviews.labels import in_turn
    >>> texts = cx.texts.passages(weights, domains=["law", "travel"])
    >>> [text.name for text in in_turn(texts)[:4]]
    ['law-1', 'travel-1', 'law-2', 'travel-2']
    """
    for key in ("document", "domain"):
        groups: dict[str, list[Text]] = defaultdict(list)
        for text in texts:
            groups[getattr(text, key)].append(text)
        texts = [t for turn in zip_longest(*groups.values()) for t in turn if t is not None]
    return list(texts)


def some(texts: Sequence[Text], count: int) -> list[Text]:
    """Return the first `count` texts `in_turn`, one of each domain at least.

    >>> from ctxviews.labels import some
    >>> [text.name for text in some(cx.texts.passages(weights, domains=["law", "travel"]), 1)]
    ['law-1', 'travel-1']
    """
    return in_turn(texts)[: max(count, len({text.domain for text in texts}))]


def learned_and_judged(texts: Sequence[Text]) -> tuple[Sequence[Text], Sequence[Text]]:
    """Return the texts to learn on, half A, and those to judge on, half B: all of them twice if
    half B has fewer than two.

    >>> from ctxviews.labels import learned_and_judged
    >>> learned, judged = learned_and_judged(cx.texts.collection(weights, count=100))
    >>> {text.half for text in learned}, {text.half for text in judged}
    ({'A'}, {'B'})
    """
    A, B = ([text for text in texts if text.half == half] for half in HALVES)
    return (A, B) if len(B) > 1 else (texts, texts)


def learnable(texts: Sequence[Text]) -> list[Text]:
    """Return the texts of those domains that have two at least."""
    count = Counter(text.domain for text in texts)
    return [text for text in texts if count[text.domain] > 1]


def label_notes(texts: Sequence[Text], folder: str | os.PathLike | None = None) -> list[str]:
    """Return a line for each reason why some labels are not learned on half A or not judged on half
    B, of the texts or of the files in their folder.

    >>> from ctxviews.labels import label_notes
    >>> label_notes(cx.texts.collection(weights, count=100))
    []
    """
    A, B = learned_and_judged(texts)
    if A is B:
        return ["labels are learned and judged on the same texts: half B has fewer than two"]
    there, here, judged = ({text.domain for text in some} for some in (texts, learnable(A), B))
    both = {text.document for text in A} & {text.document for text in B}
    reasons = {
        "all files are shorter than a text (a smaller --n makes texts shorter)": (
            labeled_files(folder).keys() - there if folder else set()
        ),
        "not learned, because half A has fewer than two texts": there - here,
        "learned but not judged, because half B has no text": here - judged,
        "judged on other texts of the one document that it is learned on": (
            {text.domain for text in texts if text.document in both} & here
        ),
    }
    return [f"{', '.join(sorted(labels))}: {why}" for why, labels in reasons.items() if labels]


def one_text(reader: Reader, given: str) -> Text:
    """Return the beginning of the text that a file holds, or that is given itself, as long as the
    reader's context. Raises ValueError for a file that is not there, and for a shorter text.

    >>> from ctxviews.labels import one_text
    >>> one_text(cx.texts.Reader.of(model, 4), "The moon is far away.").tokens.shape
    torch.Size([4])
    """
    inside = given
    if os.path.isfile(given):  # False for what is too long for a name
        inside, _ = next(file_documents(Path(given)), ("", None))
    elif len(given.split()) < 2:
        raise ValueError(f"no file {given!r}: name one that holds a text, or give the text itself")
    text = text_of(reader, inside, name="your text" if inside is given else given)
    if len(text.tokens) < reader.n_ctx:
        raise ValueError(
            f"a text of {len(text.tokens)} tokens to calibrate on, and {reader.n_ctx} are needed: "
            "give a longer one, or choose an earlier position of the query"
        )
    return text
