"""Context from Weights: find the neurons that react to what a text is about,
from a model's weights.

The package has two halves (ARCHITECTURE.md). What computes, in which data flow one way: models ->
weights -> split and layer -> place -> denominators -> circuit -> neurons -> evaluation, with texts,
nulls, scale, stored, and decoders for what takes any decoder: first layers with other positions,
look-ups, what happens in the forward pass. And what makes pages of it, which the first half never
imports: studies, claims, plots, decoders.explain, chat, widgets, the command in __main__.
`import ctxlib as cx`; what the stub beside this file lists is loaded when it is first used.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
__version__ = "0.2.0"
