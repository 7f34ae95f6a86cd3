"""Put the columns of a table on one footing, and turn weights for scaled columns back into weights for the table as it is.

Dense columns are centred and divided by their standard deviation. Sparse tables stay sparse: they are divided by one
number, because a scale per column would blow up the columns that are nearly empty (rare words, as a rule).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Floats

__all__ = ["Scaling", "principal_axes"]


# Columns up to which the covariance is decomposed exactly.
_EXACT_UP_TO = 2000
# Of the subspace iteration: columns beyond those asked for, and rounds.
_SPARE, _ROUNDS = 10, 6


@storable
@dataclass(frozen=True, eq=False)
class Scaling:
    """Scaled column d is (x_d - center_d) / scale_d."""

    center: Floats
    scale: Floats

    @classmethod
    def of(cls, table: Any) -> Scaling:
        """Learn from a table, [N, D]."""
        if hasattr(table, "tocsr"):
            mean = np.asarray(table.mean(axis=0), float).ravel()
            square = np.asarray(table.multiply(table).mean(axis=0), float).ravel()
            common = np.sqrt(max(float((square - mean**2).mean()), 0.0))
            return cls(np.zeros(len(mean)), np.full(len(mean), common if common > 0 else 1.0))
        center = table.mean(axis=0, dtype=np.float64)
        scale = table.std(axis=0, dtype=np.float64)
        # A column that holds one number may deviate from its mean by rounding; it must not be blown up.
        return cls(center, np.where(scale > 1e-10 * np.abs(center), scale, 1.0))

    def apply(self, table: Any) -> Any:
        """Scale the columns of the kind of table that this was learned from, [N, D]."""
        if hasattr(table, "tocsr"):
            return table.tocsr().astype(np.float64) / self.scale[0]
        scaled = np.subtract(table, self.center, dtype=np.float64)
        scaled /= self.scale
        return scaled

    def raw_weights(self, weights: Floats) -> Floats:
        """Weights [D + 1, ...] (the last row the intercept) that give on the table what these give on scaled columns."""
        raw = weights[:-1] / self.scale[:, None]
        return np.vstack([raw, weights[-1:] - self.center @ raw])


def principal_axes(table: Any, at_most: int) -> tuple[Floats, Floats, Floats]:
    """Principal axes [D, R] of a table, the variances along them [R] (largest first), and its column means [D].

    Exact up to 2000 dense columns; else by subspace iteration, which never makes a sparse table dense.
    """
    n_rows, n_columns = table.shape
    mean = np.asarray(table.mean(axis=0), float).ravel()
    rank = max(min(at_most, n_columns, n_rows), 1)
    if not hasattr(table, "tocsr") and n_columns <= _EXACT_UP_TO:
        centred = table - mean
        variance, axes = np.linalg.eigh(centred.T @ centred / n_rows)
        return axes[:, ::-1][:, :rank], np.maximum(variance[::-1][:rank], 0.0), mean
    # Any start will do that is not orthogonal to an axis; always the same one makes fits repeatable.
    axes = np.random.default_rng(0).standard_normal((n_columns, min(rank + _SPARE, n_columns)))
    for _ in range(_ROUNDS):
        scores = table @ axes - mean @ axes
        axes = np.linalg.qr(table.T @ scores - np.outer(mean, scores.sum(axis=0)))[0]
    scores = table @ axes - mean @ axes
    _, singular, turn = np.linalg.svd(scores, full_matrices=False)
    return axes @ turn[:rank].T, singular[:rank] ** 2 / n_rows, mean
