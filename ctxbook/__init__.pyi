from . import (
    figures,
    ledgers,
    nulls,
)
from .bounds import (
    Claim,
    Published,
    published,
    published_figures,
)
from .findings import (
    Finding,
    finding,
    listed,
    over,
)
from .intervals import (
    by_document,
    widest,
)
from .kept import (
    DATA,
    evidence,
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
    "DATA",
    "GPT2_SMALL",
    "LEDGER",
    "Claim",
    "Finding",
    "Published",
    "by_document",
    "evidence",
    "figures",
    "finding",
    "fingerprint",
    "keep_rows",
    "known_by",
    "ledger",
    "ledgers",
    "listed",
    "nulls",
    "on_real",
    "over",
    "published",
    "published_figures",
    "widest",
]
