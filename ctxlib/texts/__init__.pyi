from .batching import (
    fixed,
    batches,
    progress,
)
from .documents import (
    document_hash,
)
from .sources import (
    PASSAGES,
    collection,
    held_out_stream,
    labeled,
    passages,
    stream,
)
from .streams import (
    Stream,
    StreamReading,
)
from .text import (
    Reader,
    Reads,
    Text,
    all_tokens,
    encode,
    token_ids,
    windows,
)

__all__ = [
    "PASSAGES",
    "Reader",
    "Reads",
    "Stream",
    "StreamReading",
    "Text",
    "all_tokens",
    "at",
    "batches",
    "collection",
    "document_hash",
    "encode",
    "held_out_stream",
    "labelled",
    "passages",
    "progress",
    "stream",
    "token_ids",
    "windows",
]
