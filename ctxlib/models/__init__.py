"""Open a model: where it lies (`places`), what transformers reads of it and how it is folded and
checked (`loading`), and what was read of which files (`receipt`).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
