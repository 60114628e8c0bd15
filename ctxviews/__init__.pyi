from .layerfile import packed_layer
from .pagefile import page
from .record import look_up_record, looked_up
from .turnable import Turnable, choice, slider
from .views import (
    Denominators,
    Kernels,
    LiveReader,
    LookUps,
    NeuronExplorer,
    Positions,
    Rows,
    Spellings,
)

__all__ = [
    "Denominators",
    "Kernels",
    "LiveReader",
    "LookUps",
    "NeuronExplorer",
    "Positions",
    "Rows",
    "Spellings",
    "Turnable",
    "choice",
    "look_up_record",
    "looked_up",
    "packed_layer",
    "page",
    "slider",
]
