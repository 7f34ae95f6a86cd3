"""When one machine, or its memory, is not enough: votes in shards, fitted out of core or on Ray, with the same answers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
