"""What a reader turns.

A view (`Rows`, `Kernels`, `Denominators`, `NeuronExplorer`, `LiveReader`, `Positions`,
`LookUps`, `Spellings`) computes in the browser: in Jupyter, Colab and VS Code it is an object whose
traits can be read, set and observed; on a built page the same ES module runs without a kernel.
`Turnable` computes in Python and needs nothing but ipywidgets.

    view = cv.NeuronExplorer(weights, heads=[3, 4])
    view.observe(lambda change: print(change.new), names="neuron")
    view.threshold = 4

`NeuronExplorer` and `LiveReader` take a study or a destination of any model as well, and `page`
writes both into one file that needs no server.

Each is loaded when it is first used.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
