from .batching import (
    prepare,
    prepare_batches,
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
    Text,
    all_tokens,
    encode,
    token_ids,
    windows,
)
from .vocabulary import (
    decode_tokens,
    token_id,
    untrained_tokens,
)

__all__ = [
    "PASSAGES",
    "Reader",
    "Stream",
    "StreamReading",
    "Text",
    "all_tokens",
    "collection",
    "decode_tokens",
    "document_hash",
    "encode",
    "held_out_stream",
    "labeled",
    "passages",
    "prepare",
    "prepare_batches",
    "progress",
    "stream",
    "token_id",
    "token_ids",
    "untrained_tokens",
    "windows",
]
