"""Annotators who cheat, copy, depend on each other or change: detectors over (Result, Annotations).

`check` is the check of the command line in one call. The others are modules: one per detector, each with a function
`score(result, ...)`, and what is done about groups (`dependence` finds them in the votes alone).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
