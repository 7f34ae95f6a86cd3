"""Confidence that can be believed: how far it is off, ways to correct it, label sets with coverage, and what to review."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
