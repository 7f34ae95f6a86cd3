"""Compare candidates on the same held-out votes, and take the simplest that is not clearly worse than the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.kernels.types import Floats

__all__ = ["Row", "drop_renamed", "frame_of", "paired", "renamed", "simplest", "stacking_weights"]


_ROUNDS, _SMALLEST_STEP = 500, 1e-7
# Says which class is which.
_REFERENCE = "majority"
# Share of the votes on which a candidate must overrule majority vote to be asked what for.
_OFTEN = 0.1
# Share of the votes that must agree more under other names.
_RENAMED = 0.01


@dataclass
class Row:
    """One candidate.

    Attributes
    ----------
    parameters : int
        Numbers that it learns of each annotator: fewer is simpler.
    labels : [H] or None
        Its label of the item of every held-out term, from the fit without that term.
    log_prob : [H] or None
        Log-probability of every held-out term; None where it was not measured.
    note : str
        Why it was not measured, or is not eligible.
    """

    method: str
    parameters: int = 0
    labels: NDArray[np.int16] | None = None
    log_prob: Floats | None = None
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

    Of those whose mean is within so many standard errors of the best one's, the one with the fewest parameters; of equally
    simple ones, the best.
    """
    measured = {k: row.log_prob for k, row in enumerate(rows) if row.eligible and row.log_prob is not None}
    mean = {k: float(log_prob.mean()) for k, log_prob in measured.items()}
    best = max(measured, key=lambda k: (mean[k], -rows[k].parameters))
    near = [best]
    for k, log_prob in measured.items():
        behind, error = paired(measured[best], log_prob, cluster)
        if behind <= standard_errors * error:
            near.append(k)
    return min(near, key=lambda k: (rows[k].parameters, -mean[k])), best


def drop_renamed(rows: Sequence[Row], n_classes: int) -> None:
    """Leave out candidates whose classes are majority vote's under other names, or that overrule it for nothing.

    Votes are predicted no worse by labels whose names are swapped, so that only majority vote says which class is which.
    Where a candidate overrules it often, held-out votes must be predicted better there.
    """
    reference = next((row for row in rows if row.method == _REFERENCE and row.labels is not None), None)
    if reference is None or reference.labels is None or reference.log_prob is None:
        return
    for row in rows:
        if row is reference or not row.eligible or row.labels is None or row.log_prob is None:
            continue
        overruled = row.labels != reference.labels
        share = float(overruled.mean())
        if renamed(reference.labels, row.labels, n_classes):
            row.give_up("left out: its classes look renamed beside majority vote")
        elif share > _OFTEN and (row.log_prob - reference.log_prob)[overruled].mean() <= 0:
            row.give_up(f"left out: overrules majority vote on {share:.0%} of the votes and does not predict those better")


def renamed(reference: NDArray[np.int16], labels: NDArray[np.int16], n_classes: int) -> bool:
    """Whether other names of the classes would make `labels` agree with `reference` clearly more often."""
    from scipy.optimize import linear_sum_assignment

    table = np.bincount(labels.astype(np.int64) * n_classes + reference, minlength=n_classes**2).reshape(n_classes, n_classes)
    gain = table[linear_sum_assignment(-table)].sum() - np.trace(table)
    return bool(gain > _RENAMED * len(labels))


def frame_of(rows: Sequence[Row], cluster: NDArray[np.int64] | None = None) -> pl.DataFrame:
    """The table of a choice: method, score, difference from the best, its standard error, seconds, note."""
    import polars as pl

    measured = [row.log_prob for row in rows if row.log_prob is not None and row.eligible]
    best = max(measured, key=lambda log_prob: float(log_prob.mean())) if measured else None
    columns: dict[str, list[float | None]] = {"score": [], "difference": [], "se": []}
    for row in rows:
        found: tuple[float | None, float | None, float | None] = (None, None, None)
        if row.log_prob is not None and best is not None and cluster is not None:
            found = (float(row.log_prob.mean()), *paired(best, row.log_prob, cluster))
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
