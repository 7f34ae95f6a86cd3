"""Are confidences what they say: the reliability diagram, and the histogram of confidences."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.gold import encode_gold
from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.report.plot.axes import GOOD, INK, axes_of
from crowdwise.report.plot.calibration import draw_reliability
from crowdwise.trust.calibration import curves

__all__ = ["confidence_histogram", "reliability"]


def reliability(result: Result, truth: Any, *, n_bins: int = 10, ax: Any = None) -> Any:
    """Draw the share of right labels against confidence; points on the diagonal mean what they say.

    Items given to the fit as gold are left out: their confidence is one because it was given.

    Parameters
    ----------
    truth : mapping, frame, Series or sequence
        True labels of all or some items, in any shape that ``fit(votes, gold)`` takes.

    Returns
    -------
    axes
    """
    truth_n = np.where(result.votes.is_known, -1, encode_gold(result.votes, truth))
    if not (truth_n >= 0).any():
        raise InputError("the truth names no item of these votes that was not given to the fit; check the item ids")
    curve = curves.reliability(result.posterior, truth_n, n_bins, n_resamples=200)
    return draw_reliability(axes_of(ax, (4.4, 4.2)), {result.method: curve})


def confidence_histogram(result: Result, *, n_bins: int = 20, ax: Any = None) -> Any:
    """Draw how many labels have which posterior probability; items given as gold are left out."""
    sure = result.confidence[~result.votes.is_known]
    ax = axes_of(ax, (5.0, 3.0))
    # Shares such as 4/5 may come out a rounding error below their bin.
    ax.hist(np.minimum(sure + 1e-9, 1.0), bins=n_bins, range=(0, 1), color=GOOD, edgecolor="white", linewidth=0.5)
    ax.axvline(1 / max(result.votes.n_classes, 1), color=INK, linestyle="--", linewidth=1)
    ax.set(xlim=(0, 1), xlabel="confidence of the label (dashed: a blind guess)", ylabel="items")
    return ax
