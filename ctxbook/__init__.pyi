from . import (
    ledgers,
)
from .bounds import (
    Claim,
    Published,
    figures,
    published,
)
from .findings import (
    Finding,
    by_document,
    finding,
    listed,
    over,
    widest,
)
from .ledgers import (
    GPT2_SMALL,
    LEDGER,
    fingerprint,
    keep_rows,
    known_by,
    ledger,
    on_real,
)

__all__ = [
    "GPT2_SMALL",
    "LEDGER",
    "Claim",
    "Finding",
    "Published",
    "by_document",
    "figures",
    "finding",
    "fingerprint",
    "keep_rows",
    "known_by",
    "ledger",
    "ledgers",
    "listed",
    "on_real",
    "over",
    "published",
    "widest",
]
