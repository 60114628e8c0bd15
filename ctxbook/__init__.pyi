from . import (
    figures,
    ledgers,
    nulls,
    spelling,
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
    WIDER,
    Estimate,
    by_document,
    half_masks,
    halves,
    median_over_neurons,
    with_interval,
)
from .interventions import (
    InterventionRun,
    domain_mean,
    exact_bos_z,
    first_windows,
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
    tally,
)
from .prose import (
    ABOUT,
    ALMOST_EXACTLY,
    FACTS,
    MOST,
    NEARLY_ALL,
    Fact,
    Facts,
    committed,
    fact,
    facts,
    in_prose,
)
from .spelling import (
    SpellingProbe,
)

__all__ = [
    "ABOUT",
    "ALMOST_EXACTLY",
    "DATA",
    "FACTS",
    "GPT2_SMALL",
    "LEDGER",
    "MOST",
    "NEARLY_ALL",
    "WIDER",
    "Claim",
    "Estimate",
    "Fact",
    "Facts",
    "Finding",
    "InterventionRun",
    "Published",
    "SpellingProbe",
    "by_document",
    "committed",
    "evidence",
    "fact",
    "facts",
    "figures",
    "finding",
    "fingerprint",
    "half_masks",
    "halves",
    "in_prose",
    "keep_rows",
    "known_by",
    "ledger",
    "ledgers",
    "listed",
    "median_over_neurons",
    "nulls",
    "on_real",
    "over",
    "published",
    "published_figures",
    "spelling",
    "tally",
    "with_interval",
]
