"""What takes any decoder, as `cx.load` gives it, and not the weights of a first layer: neurons
that predict a token, the heads that wake them, hooks that change a run, explanations of heads
(chapters 10 to 14). Loaded when it is first used.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
