"""Does a judge prefer the longer of two? A logistic slope per doubling of length, with its standard error.

    logit P(the first is preferred) = place + slope log2(length_first / length_second)  [+ truth (2 t - 1)]

t says whether the first is truly the better one, where that is known: the slope is then what length adds to it. Fitted with
Firth's penalty, half the log-determinant of the information, which has no knob and keeps slopes finite where a judge always
prefers the longer. Verdicts on one pair, as in both orders, are no independent ones: the standard error is the larger of the
model's and of the one that sums over pairs first. Longer answers may be better ones: without the truth, compare with the slope
of people on the same pairs.

References
----------
Firth (1993), Biometrika 80.
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.judges.cells import row_sums

__all__ = ["firth", "length_slopes"]

_ROUNDS, _STILL, _LONGEST_STEP = 100, 1e-8, 2.0


def length_slopes(
    judge: Integers, pair: Integers, doublings: Floats, chose_first: Floats, n_judges: int, truth: Floats | None = None
) -> tuple[Floats, Floats]:
    """Slope of every judge per doubling of length, and its standard error, [A] each; NaN where lengths never differ.

    Parameters
    ----------
    judge, pair : [E]
        Codes of who judged, and of what.
    doublings : [E]
        log2 of the first's length over the second's; NaN where a length is not known.
    chose_first, truth : [E]
        The verdict and what is right: 1 for the first, 0 for the second, anything between; NaN where not known.
    """
    slope, error = np.full((2, n_judges), np.nan)
    given = np.isfinite(doublings) & np.isfinite(chose_first) & (True if truth is None else np.isfinite(truth))
    order = np.flatnonzero(given)[np.argsort(judge[given], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(judge[order])) + 1) if len(order) else ():
        a = judge[rows[0]]
        columns = [np.ones(len(rows)), doublings[rows]] + ([] if truth is None else [2 * truth[rows] - 1])
        design = np.column_stack(columns)
        if np.linalg.matrix_rank(design) < design.shape[1]:
            # Nothing varies but the place, or length goes with the truth throughout.
            continue
        found, covariance = firth(design, chose_first[rows])
        slope[a], error[a] = (
            found[1],
            np.sqrt(max(covariance[1, 1], _by_pair(design, chose_first[rows], found, covariance, pair[rows]))),
        )
    return slope, error


def _by_pair(design: Floats, share: Floats, beta: Floats, covariance: Floats, pair: Integers) -> float:
    """Variance of the slope where verdicts on one pair go together: the sandwich of scores summed by pair."""
    residual = share - 1 / (1 + np.exp(-design @ beta))
    codes = np.unique(pair, return_inverse=True)[1]
    score = row_sums(design * residual[:, None], codes, int(codes.max()) + 1)
    wide = covariance @ (score.T @ score) @ covariance
    return float(wide[1, 1] * len(score) / max(len(score) - 1, 1))


def firth(design: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Coefficients of a logistic regression with Firth's penalty, [D], and their covariance, [D, D]."""
    beta = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        chance = 1 / (1 + np.exp(-design @ beta))
        weight = chance * (1 - chance)
        covariance = np.linalg.inv(design.T @ (weight[:, None] * design))
        leverage = weight * np.einsum("nd,de,ne->n", design, covariance, design)
        step = covariance @ (design.T @ (share - chance + leverage * (0.5 - chance)))
        # Far from the solution Newton's step may overshoot.
        step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        beta = beta + step
        if np.abs(step).max() < _STILL:
            break
    return np.asarray(beta), np.asarray(covariance, np.float64)
