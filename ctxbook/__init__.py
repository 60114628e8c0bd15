"""What the pages of the book share, and a user of the method does not need: published figures and
their bounds, the ledger, sentences with conditions, intervals, nulls, probes and interventions, the
house style of figures, and the evidence that is kept of real models (`import ctxbook as cb`).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
