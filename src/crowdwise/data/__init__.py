"""Answers of every kind, known answers, agreement, simulated crowds and the sets that come with the package."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
