"""Answers from files and to files: tables, matrices and the exports of labelling platforms."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
