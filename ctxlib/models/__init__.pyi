from . import (
    receipt,
)
from .loading import (
    Encoder,
    device_for,
    load,
    quiet,
    read,
    reading,
)
from .places import (
    MINI,
    locate,
    real_models,
    twin,
    twins,
)

__all__ = [
    "MINI",
    "Encoder",
    "device_for",
    "load",
    "locate",
    "quiet",
    "read",
    "reading",
    "real_models",
    "receipt",
    "twin",
    "twins",
]
