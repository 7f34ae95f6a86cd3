"""How a model is fitted: the loop, shards, gradients, moments."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
