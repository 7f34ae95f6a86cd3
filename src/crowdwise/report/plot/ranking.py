"""A ranking as a picture: scores with their intervals, best first."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from crowdwise.data.markup import clean
from crowdwise.errors import InputError, MissingExtraError
from crowdwise.io.atomic import replacing
from crowdwise.methods.rank.result import Ranking

__all__ = ["SUFFIXES", "save_plot"]

SUFFIXES = (".png", ".pdf", ".svg")


def save_plot(ranking: Ranking, path: str | PathLike[str], most: int = 40) -> int:
    """Draw the best items, at most `most` of them, and return how many were drawn."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtraError('plots need matplotlib: pip install "crowdwise[report]"') from problem
    if not str(path).lower().endswith(SUFFIXES):
        raise InputError(f"{path}: a plot ends in {', '.join(SUFFIXES)}")
    frame = ranking.by_rank()
    shown = frame.head(most)
    n_shown = shown.height
    figure = Figure(figsize=(6.0, 1.2 + 0.24 * n_shown), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    places = np.arange(n_shown)
    score = shown["score"].to_numpy()
    known = shown["lower"].is_not_null().to_numpy()
    lower, upper = (shown[end].fill_null(np.nan).to_numpy() for end in ("lower", "upper"))
    axes.hlines(places[known], lower[known], upper[known], color="#8791a0", linewidth=2)
    axes.plot(score, places, "o", color="#0072b2", markersize=5)
    # Dollar signs would start a formula.
    names = [clean(item, 24).replace("$", r"\$") for item in shown["item"].to_list()]
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
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120)
    return n_shown
