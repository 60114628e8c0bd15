"""What a reader turns.

A view (`Rows`, `Kernels`, `Denominators`, `NeuronExplorer`, `LiveReader`, `Positions`, `LookUps`)
computes in the browser: in Jupyter, Colab and VS Code it is an object whose traits can be read, set
and observed; on a built page the same ES module runs without a kernel. `Turnable` computes in
Python and needs nothing but ipywidgets.

    view = cx.widgets.NeuronExplorer(weights, heads=[3, 4])
    view.observe(lambda change: print(change.new), names="neuron")
    view.threshold = 4
"""

from ctxlib.widgets.layerfile import packed_layer
from ctxlib.widgets.plain import Turnable, choice, slider
from ctxlib.widgets.record import look_up_record, looked_up
from ctxlib.widgets.views import (
    Denominators,
    Kernels,
    LiveReader,
    LookUps,
    NeuronExplorer,
    Positions,
    Rows,
)

__all__ = [
    "Denominators",
    "Kernels",
    "LiveReader",
    "LookUps",
    "NeuronExplorer",
    "Positions",
    "Rows",
    "Turnable",
    "choice",
    "look_up_record",
    "looked_up",
    "packed_layer",
    "slider",
]
