"""Engine 2: networks and heads, trained by gradient."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["callbacks"])
