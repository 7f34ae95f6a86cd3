"""Reliability diagrams (needs matplotlib: the extra "report")."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from crowdwise.report.plot.figure_file import figure_file
from crowdwise.trust.calibration.curves import Reliability

__all__ = ["draw_reliability", "plot_reliability"]

# Colours that readers with any colour vision can distinguish.
_STYLES = (("#d55e00", "o"), ("#0072b2", "s"), ("#009e73", "^"))


def draw_reliability(axes: Any, curves: Mapping[str, Reliability]) -> Any:
    """Draw accuracy over confidence with its interval, bin by bin, onto matplotlib axes; return them."""
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", label="exact")
    left = bottom = 1.0
    for (name, curve), (colour, marker) in zip(curves.items(), _STYLES, strict=False):
        span = [curve.accuracy - curve.low, curve.high - curve.accuracy]
        label = f"{name}: ECE {curve.ece:.3f}".replace("$", r"\$")
        axes.errorbar(
            curve.confidence, curve.accuracy, span, color=colour, marker=marker, markersize=4, linewidth=1, label=label
        )
        left, bottom = min(left, float(curve.confidence.min(initial=1.0))), min(bottom, float(curve.low.min(initial=1.0)))
    axes.set(xlabel="confidence", ylabel="share of right labels")
    axes.set(xlim=(max(left - 0.03, 0), 1.01), ylim=(max(bottom - 0.03, 0), 1.01))
    axes.legend(loc="lower right", fontsize=8)
    return axes


def plot_reliability(curves: Mapping[str, Reliability], path: str | PathLike[str]) -> None:
    """Draw up to three curves into a file, whole or not at all."""
    with figure_file(path, (5, 5)) as figure:
        draw_reliability(figure.subplots(), curves)
