"""Estimated numbers with their intervals, and the annotators behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.errors import InputError
from crowdwise.report.plot.axes import GOOD, INK, RULE, WEAK, axes_of, label_of
from crowdwise.report.plot.figure_file import figure_file

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.methods.ratings.result import Estimates

__all__ = ["annotator_errors", "estimates", "save_estimates"]

# More names than these could not be read.
_MOST_NAMES = 40


def estimates(result: Estimates, dimension: int = 0, *, level: float = 0.95, most: int = 60, ax: Any = None) -> Any:
    """Draw items in order of their estimates, with intervals, and the answers as dots; at most `most`, at even distances."""
    ax = axes_of(ax, (7.0, 4.0))
    low, high = (side[:, dimension] for side in result.interval(level))
    middle = result.estimate[:, dimension]
    order = np.argsort(middle, kind="stable")
    order = order[np.isfinite(middle[order])]
    if not len(order):
        raise InputError("there is no estimate to draw")
    order = order[np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).astype(int))]
    place = np.full(result.votes.n_items, -1)
    place[order] = np.arange(len(order))
    shown = place[result.votes.item]
    ax.plot(shown[shown >= 0], result.votes.value[shown >= 0, dimension], ".", color=RULE, markersize=3, label="answers")
    spans = [middle[order] - low[order], high[order] - middle[order]]
    ax.errorbar(
        np.arange(len(order)),
        middle[order],
        spans,
        fmt="o",
        color=GOOD,
        markersize=3,
        linewidth=1,
        label=f"estimate, {100 * level:g}%",
    )
    if len(order) <= _MOST_NAMES:
        ax.set_xticks(range(len(order)), [label_of(result.votes.items[n], 14) for n in order], rotation=90, fontsize=6)
    else:
        ax.set_xticks([])
    ax.set_xlabel(f"items by estimate ({len(order)} of {result.votes.n_items})")
    ax.set_ylabel(label_of(result.votes.names[dimension]))
    # Estimates rise to the right, so the upper left is free.
    ax.legend(fontsize=7, frameon=False, loc="upper left")
    return ax


def annotator_errors(result: Estimates, dimension: int = 0, *, most: int = 30, ax: Any = None) -> Any:
    """Draw annotators with most answers: bias as a dot, noise as a bar around it."""
    ax = axes_of(ax, (4.0, 4.0))
    chosen = np.argsort(-result.votes.votes_per_annotator, kind="stable")[:most]
    chosen = chosen[np.argsort(result.noise[chosen, dimension], kind="stable")][::-1]
    place = np.arange(len(chosen))
    ax.axvline(0, color=RULE, linewidth=0.8)
    ax.errorbar(
        result.bias[chosen, dimension],
        place,
        xerr=result.noise[chosen, dimension],
        fmt="o",
        color=INK,
        ecolor=WEAK,
        markersize=3,
    )
    ax.set_yticks(place, [label_of(result.votes.annotators[a], 14) for a in chosen], fontsize=6)
    ax.set_xlabel("bias, and noise as a bar")
    return ax


def save_estimates(result: Estimates, path: str | PathLike[str], *, level: float = 0.95) -> None:
    """Draw estimates and annotators of every dimension into a file, whole or not at all."""
    rows = result.votes.n_dimensions
    with figure_file(path, (11, 4 * rows)) as figure:
        panels = figure.subplots(rows, 2, squeeze=False, width_ratios=(2, 1))
        for k in range(rows):
            estimates(result, k, level=level, ax=panels[k, 0])
            annotator_errors(result, k, ax=panels[k, 1])
