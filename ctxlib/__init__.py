"""Context from Weights: find the neurons that react to what a text is about,
from a model's weights.

Data flows one way: models -> weights -> split and layer -> place -> denominators -> circuit ->
neurons -> evaluation (ARCHITECTURE.md). What takes any decoder is in decoders: first layers with
other positions, look-ups, what happens in the forward pass.
`import ctxlib as cx`; what the stub beside this file lists is loaded when it is first used.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
__version__ = "0.2.0"
