"""What was published, what this run found, and whether it holds: the ledger at the end of a
chapter, whose bounds are those of `data/published.toml`, and the findings in its prose.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
