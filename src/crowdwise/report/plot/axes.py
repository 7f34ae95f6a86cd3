"""Axes to draw on: the caller's, or new ones; matplotlib is imported when something is drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdwise.data.markup import clean
from crowdwise.errors import InputError, MissingExtraError

__all__ = ["GOOD", "INK", "RULE", "WEAK", "WRONG", "axes_of", "grid_of", "label_of"]

# The Okabe-Ito palette, as on the pages.
GOOD, WRONG, WEAK, INK, RULE = "#0072b2", "#d55e00", "#e69f00", "#1f2933", "#8791a0"


def axes_of(ax: Any = None, size: tuple[float, float] = (5.0, 4.0)) -> Any:
    """Return `ax`, or the axes of a new figure."""
    return _pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def grid_of(n: int, axes: Any = None, columns: int = 4, panel: float = 2.3) -> Any:
    """Return n axes, [n]: the first of `axes`, or those of a new figure in rows of `columns`."""
    if axes is not None:
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) < n:
            raise InputError(f"{n} panels need {n} axes; got {len(given)}")
        return given[:n]
    columns = max(min(columns, n), 1)
    rows = max(math.ceil(n / columns), 1)
    panels = _pyplot().subplots(rows, columns, figsize=(panel * columns, panel * rows), layout="constrained", squeeze=False)[1]
    for spare in panels.ravel()[n:]:
        spare.set_axis_off()
    return panels.ravel()[:n]


def label_of(value: Any, limit: int = 24) -> str:
    """Return an id or a class as a short line; a dollar sign would start a formula."""
    return clean(value, limit).replace("$", r"\$")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as problem:
        raise MissingExtraError('plots need matplotlib: pip install "crowdwise[report]"') from problem
    return pyplot
