"""A simulated crowd with its fit, and tables of checks filled in with the truth."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.simulate import simulate
from crowdwise.estimator.outcome import Result
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.trust.audit.strata import Strata


@cache
def crowd(n_items: int = 400, seed: int = 0) -> tuple[Result, dict[Any, Any]]:
    drawn = simulate(n_items, 20, 3, 5, "one-coin", options={"one-coin": {"a": 6, "b": 3}}, random_state=seed)
    return DawidSkene().fit(drawn.votes).result_, dict(drawn.gold)


def filled(frame: pl.DataFrame, gold: dict[Any, Any], first: int | None = None) -> pl.DataFrame:
    """The table with true labels of the first rows, or of all."""
    truth = [gold[item] for item in frame["item"]]
    return frame.with_columns(pl.Series("true label", truth[:first] + [None] * (len(truth) - len(truth[:first]))))


def strata(sizes: list[int], error: list[float] | None = None) -> Strata:
    """Bands of these sizes, one stratum each."""
    n = len(sizes)
    stratum = np.repeat(np.arange(n), sizes)
    return Strata(
        np.arange(sum(sizes)), stratum, np.linspace(0.99, 0.5, n), np.arange(n), np.array(sizes), np.ones(n),
        np.array(error or [0.05] * n),
    )  # fmt: skip
