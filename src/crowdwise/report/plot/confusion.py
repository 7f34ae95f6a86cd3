"""Confusion matrices as small multiples, with the interval of every entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats, Integers
from crowdwise.report.plot.axes import grid_of, label_of

__all__ = ["confusions"]

# With more classes, numbers could not be read; with more still, names neither.
_MOST_NUMBERS, _MOST_NAMES = 5, 12


def confusions(
    result: Result, annotators: Sequence[Any] | None = None, *, most: int = 12, level: float = 0.95, axes: Any = None
) -> Any:
    """Draw P(label | true class) of annotators, a panel each: the estimate in percent, below it its central interval.

    Parameters
    ----------
    annotators : sequence, optional
        Whom to draw, in this order; by default those with most votes.
    most : int
        Panels at most.
    level : float
        Of the intervals.
    axes : array of axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    array of axes
    """
    votes, chosen = result.votes, _chosen(result, annotators)[:most]
    if not len(chosen):
        raise InputError("there is no annotator to draw")
    panels = grid_of(len(chosen), axes, panel=max(2.3, 0.62 * min(votes.n_classes, _MOST_NUMBERS)))
    low, high = result.confusion_interval(level)
    names = [label_of(name, 12) for name in votes.classes] if votes.n_classes <= _MOST_NAMES else []
    for panel, a in zip(panels, chosen.tolist(), strict=True):
        matrix = result.confusion[a]
        panel.imshow(matrix, vmin=0, vmax=1, cmap="Blues")
        panel.set_title(f"{label_of(votes.annotators[a])} ({votes.votes_per_annotator[a]})", fontsize=8)
        panel.set_xticks(range(len(names)), names, fontsize=6, rotation=90)
        panel.set_yticks(range(len(names)), names, fontsize=6)
        if votes.n_classes <= _MOST_NUMBERS:
            _write(panel, matrix, low[a], high[a])
    panels[0].set_xlabel("label given", fontsize=7)
    panels[0].set_ylabel("true class", fontsize=7)
    return panels


def _chosen(result: Result, annotators: Sequence[Any] | None) -> Integers:
    votes = result.votes
    if annotators is None:
        order = np.argsort(-votes.votes_per_annotator, kind="stable")
        return np.asarray(order[votes.votes_per_annotator[order] > 0])
    # One by one: together they come in the order of the votes.
    return np.array([votes.positions([name], "annotator")[0] for name in annotators], np.int64)


def _write(panel: Any, matrix: Floats, low: Floats, high: Floats) -> None:
    for k, l in np.ndindex(matrix.shape):
        ink = "white" if matrix[k, l] > 0.55 else "black"
        panel.text(l, k - 0.08, f"{100 * matrix[k, l]:.0f}", ha="center", va="center", fontsize=8, color=ink)
        span = f"{100 * low[k, l]:.0f} to {100 * high[k, l]:.0f}"
        panel.text(l, k + 0.27, span, ha="center", va="center", fontsize=5.5, color=ink)
