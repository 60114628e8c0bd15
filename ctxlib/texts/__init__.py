"""Labelled, tokenised texts:
the book's own passages, held-out documents of many domains, and anybody's files.

A text is a 1-D tensor of token ids that starts with BOS;
a `Text` carries it together with what it is.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
