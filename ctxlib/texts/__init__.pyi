from .batching import (
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
    begin_token,
    decode_tokens,
    is_byte_level,
    text_tokens,
    token_id,
    untrained_tokens,
    without_token,
)

__all__ = [
    "PASSAGES",
    "Reader",
    "Stream",
    "StreamReading",
    "Text",
    "all_tokens",
    "begin_token",
    "collection",
    "decode_tokens",
    "document_hash",
    "encode",
    "held_out_stream",
    "is_byte_level",
    "labeled",
    "passages",
    "prepare_batches",
    "progress",
    "stream",
    "text_tokens",
    "token_id",
    "token_ids",
    "untrained_tokens",
    "windows",
    "without_token",
]
