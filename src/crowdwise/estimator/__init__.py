"""The contract of every method: settings, registry, outcomes, storage, and decisions by what mistakes cost."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
