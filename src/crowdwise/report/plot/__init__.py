"""Plots of a fit as functions: matplotlib axes in, axes out (the extra "report").

`confusions`, `reliability`, `confidence_histogram`, `annotator_map` and `learning_curve` draw, and of numbers `estimates` and
`annotator_errors`; the numbers behind them, `annotator_positions` and `accuracy_by_votes`, need no matplotlib.
"""

from __future__ import annotations

from crowdwise.report.plot.annotators import annotator_map, annotator_positions
from crowdwise.report.plot.confusion import confusions
from crowdwise.report.plot.curves import accuracy_by_votes, learning_curve
from crowdwise.report.plot.numbers import annotator_errors, estimates
from crowdwise.report.plot.trust import confidence_histogram, reliability

__all__ = [
    "accuracy_by_votes",
    "annotator_errors",
    "annotator_map",
    "annotator_positions",
    "confidence_histogram",
    "confusions",
    "estimates",
    "learning_curve",
    "reliability",
]
