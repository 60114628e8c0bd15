"""Context look-ups: which heads drive a neuron that predicts a token, whether the model uses what
the circuit computes, and whether a sentence can predict a head (chapters 12 to 16). Everything here
takes a model from `cx.load`: any decoder, any layer, any kind of positions.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
