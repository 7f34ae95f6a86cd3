"""Learning curves: what accuracy so many votes buy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import to_polars
from crowdwise.data.gold import encode_gold
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, SettingError
from crowdwise.estimator.registry import make
from crowdwise.report.plot.axes import axes_of, label_of
from crowdwise.trust.heldout import random_places
from crowdwise.trust.metrics import accuracy

__all__ = ["accuracy_by_votes", "learning_curve"]


def accuracy_by_votes(
    votes: Annotations,
    truth: Any,
    method: str = "dawid-skene",
    *,
    per_item: Sequence[int] = (1, 2, 3, 5),
    repeats: int = 5,
    random_state: int = 0,
    **settings: Any,
) -> pl.DataFrame:
    """Fit to so many random votes of every item and measure the accuracy: n_votes, accuracy, low, high (of the repeats).

    An item with fewer votes keeps all of them, so the last rows are those of the whole where few items have more.
    """
    if repeats < 1 or min(per_item, default=0) < 1:
        raise SettingError(f"per_item and repeats must be at least 1; got {list(per_item)} and {repeats}")
    truth_n = encode_gold(votes, truth)
    rng = np.random.default_rng(random_state)
    rows = []
    for most in per_item:
        found, sizes = [], []
        for _ in range(repeats):
            part = votes.take_votes(random_places(votes, rng) < most)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", DataWarning)
                found.append(accuracy(make(method, **settings).fit(part).posterior_, truth_n))
            sizes.append(part.n_votes)
        rows.append((float(np.mean(sizes)), float(np.mean(found)), min(found), max(found)))
    return pl.DataFrame(rows, schema=["n_votes", "accuracy", "low", "high"], orient="row")


def learning_curve(curves: Mapping[str, Any] | Any, *, x: str = "n_votes", y: str = "accuracy", ax: Any = None) -> Any:
    """Draw accuracy against votes, a line per curve; columns `low` and `high`, where a frame has them, become a band.

    Parameters
    ----------
    curves : frame, or mapping of name -> frame
        As `accuracy_by_votes` returns them, or a campaign's history.
    x, y : str
        The columns to draw.

    Returns
    -------
    axes
    """
    given = curves if isinstance(curves, Mapping) else {"": curves}
    if not given:
        raise InputError("there is no curve to draw")
    ax = axes_of(ax, (5.2, 3.6))
    for name, curve in given.items():
        frame = to_polars(curve)
        absent = [column for column in (x, y) if column not in frame.columns]
        if absent:
            raise InputError(f"the curve {name!r} has no column {absent[0]!r}; it has {', '.join(frame.columns)}")
        frame = frame.sort(x)
        # Of a label that begins with an underscore there is nothing in a legend.
        label = " " * str(name).startswith("_") + label_of(name, 60) if name else None
        (line,) = ax.plot(frame[x].to_numpy(), frame[y].to_numpy(), marker="o", markersize=4, label=label)
        if {"low", "high"} <= set(frame.columns):
            band = (frame[x].to_numpy(), frame["low"].to_numpy(), frame["high"].to_numpy())
            ax.fill_between(*band, color=line.get_color(), alpha=0.2, linewidth=0)
    ax.set(xlabel=x.replace("_", " "), ylabel=y.replace("_", " "))
    if any(given):
        ax.legend(frameon=False, fontsize=8)
    return ax
