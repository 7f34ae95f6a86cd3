"""Compare candidates on the same held-out votes, and take the first in rank that is not clearly worse than the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.kernels.types import Floats

__all__ = ["Row", "frame_of", "paired", "simplest", "stacking_weights"]


_ROUNDS, _SMALLEST_STEP = 500, 1e-7


@dataclass
class Row:
    """One candidate.

    Attributes
    ----------
    rank : int
        Of candidates that are about as good, the one with the lowest is taken.
    terms : [H] or None
        Score of everything that was held out, such as the log-probability of a vote; None where it was not measured.
    note : str
        Why it was not measured, or is not eligible.
    """

    method: str
    rank: int = 0
    terms: Floats | None = None
    seconds: float = 0.0
    note: str = ""
    eligible: bool = True

    def give_up(self, note: str) -> None:
        """Leave the comparison."""
        self.note, self.eligible = note, False


def paired(best: Floats, other: Floats, cluster: NDArray[np.int64]) -> tuple[float, float]:
    """Mean of best - other, and its standard error with the terms of a cluster (the votes of an item) kept together.

    Parameters
    ----------
    best, other : [H]
    cluster : [H]
        Item of every term.
    """
    difference = best - other
    mean = float(difference.mean())
    per_cluster = np.bincount(cluster, difference - mean)
    used = int((np.bincount(cluster) > 0).sum())
    correction = used / max(used - 1, 1)
    return mean, float(np.sqrt(correction * (per_cluster**2).sum()) / len(difference))


def simplest(rows: Sequence[Row], cluster: NDArray[np.int64], standard_errors: float = 1.0) -> tuple[int, int]:
    """Positions of the chosen and of the best row.

    Of those whose mean is within so many standard errors of the best one's, the one with the lowest rank; of several such, the
    best.
    """
    measured = {k: row.terms for k, row in enumerate(rows) if row.eligible and row.terms is not None}
    mean = {k: float(log_prob.mean()) for k, log_prob in measured.items()}
    best = max(measured, key=lambda k: (mean[k], -rows[k].rank))
    near = [best]
    for k, log_prob in measured.items():
        behind, error = paired(measured[best], log_prob, cluster)
        if behind <= standard_errors * error:
            near.append(k)
    return min(near, key=lambda k: (rows[k].rank, -mean[k])), best


def frame_of(rows: Sequence[Row], cluster: NDArray[np.int64] | None = None) -> pl.DataFrame:
    """The table of a choice: method, score, difference from the best, its standard error, seconds, note."""
    import polars as pl

    measured = [row.terms for row in rows if row.terms is not None and row.eligible]
    best = max(measured, key=lambda log_prob: float(log_prob.mean())) if measured else None
    columns: dict[str, list[float | None]] = {"score": [], "difference": [], "se": []}
    for row in rows:
        found: tuple[float | None, float | None, float | None] = (None, None, None)
        if row.terms is not None and best is not None and cluster is not None:
            found = (float(row.terms.mean()), *paired(best, row.terms, cluster))
        for column, value in zip(columns.values(), found, strict=True):
            column.append(value)
    return pl.DataFrame(
        {"method": [row.method for row in rows]}
        | columns
        | {"seconds": [row.seconds for row in rows], "note": [row.note for row in rows]},
        schema_overrides=dict.fromkeys(columns, pl.Float64),
    )


def stacking_weights(log_prob: Floats) -> Floats:
    """Weights of the convex combination that predicts held-out votes best, [M], by EM.

    Parameters
    ----------
    log_prob : [M, H]
        Log-probability of every held-out vote by every candidate.
    """
    chance = np.exp(log_prob - log_prob.max(axis=0))
    weight = np.full(len(chance), 1 / len(chance))
    for _ in range(_ROUNDS):
        share = weight[:, None] * chance
        new = (share / share.sum(axis=0)).mean(axis=1)
        moved = float(np.abs(new - weight).max())
        weight = new
        if moved < _SMALLEST_STEP:
            break
    return np.asarray(weight)
