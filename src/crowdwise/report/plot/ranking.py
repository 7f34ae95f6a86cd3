"""A ranking as a picture: scores with their intervals, best first."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from crowdwise.methods.rank.result import Ranking
from crowdwise.report.plot.axes import label_of
from crowdwise.report.plot.figure_file import figure_file

__all__ = ["save_plot"]


def save_plot(ranking: Ranking, path: str | PathLike[str], most: int = 40) -> int:
    """Draw the best items, at most `most` of them, and return how many were drawn."""
    frame = ranking.by_rank()
    shown = frame.head(most)
    n_shown = shown.height
    with figure_file(path, (6.0, 1.2 + 0.24 * n_shown), dpi=120) as figure:
        axes: Any = figure.subplots()
        places = np.arange(n_shown)
        score = shown["score"].to_numpy()
        known = shown["lower"].is_not_null().to_numpy()
        lower, upper = (shown[end].fill_null(np.nan).to_numpy() for end in ("lower", "upper"))
        axes.hlines(places[known], lower[known], upper[known], color="#8791a0", linewidth=2)
        axes.plot(score, places, "o", color="#0072b2", markersize=5)
        names = [label_of(item) for item in shown["item"].to_list()]
        axes.set_yticks(places, names, fontsize=8)
        axes.set_ylim(n_shown - 0.5, -0.5)
        interval = f", {ranking.level:.0%} intervals" if known.any() else ""
        axes.set_xlabel(f"score{interval}")
        more = f"the best {n_shown} of {frame.height:,} items" if frame.height > n_shown else f"{frame.height} items"
        axes.set_title(f"{ranking.method}: {more}", fontsize=10)
        axes.grid(axis="x", color="#e4e7eb")
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    return n_shown
