"""Plots of a fit as functions: matplotlib axes in, axes out (the extra "report").

`confusions`, `reliability`, `confidence_histogram`, `annotator_map` and `learning_curve` draw, and of numbers `estimates` and
`annotator_errors`; the numbers behind them, `annotator_positions` and `accuracy_by_votes`, need no matplotlib.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
