"""What checked labels say about the confidence of this crowd: its exponent, and how far single classes are off.

Votes on one item share mistakes, so the posterior of the model is tempered by the number of votes of the item:

    q_nk ~ exp(log model_nk / L_n^gamma + beta_k),   gamma ~ N(mean, sd^2),   beta_k ~ N(0, 0.5^2)

gamma runs over a grid. For every value the intercepts beta are those of highest posterior, and the grid is weighted by the
likelihood of the checked labels times the priors (Laplace). Classes with fewer than ten checked items keep beta = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.numerics import log_floored, softmax
from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["PRIOR_MEAN", "PRIOR_SD", "Exponent", "update_exponent"]

# From 35 real sets with known labels; the sd is that between sets.
PRIOR_MEAN, PRIOR_SD = 0.55, 0.2
INTERCEPT_SD, ENOUGH = 0.5, 10
_GRID = np.linspace(-0.2, 1.4, 65)


@dataclass(frozen=True, eq=False)
class Exponent:
    """The confidence of all items after some labels were checked.

    Attributes
    ----------
    posterior : [N, K]
        Tempered by the exponent, averaged over what is known of it.
    mean, sd : float
        Of the exponent.
    intercept : [K]
        Mean of beta; 0 for classes with few checks.
    """

    posterior: Floats
    mean: float
    sd: float
    intercept: Floats


def update_exponent(
    model_posterior: Floats,
    n_votes: Floats | Integers,
    item: Integers,
    truth: Integers,
    *,
    mean: float = PRIOR_MEAN,
    sd: float = PRIOR_SD,
) -> Exponent:
    """Update the exponent of the confidence by checked labels.

    Parameters
    ----------
    model_posterior : [N, K]
        As the model gives it, before any tempering.
    n_votes : [N]
        Votes on every item, or their weight.
    item, truth : [T]
        Codes of the checked items, and of their true classes.
    mean, sd : float
        What is known of the exponent before.
    """
    log_q, n_votes = log_floored(np.asarray(model_posterior, float)), np.maximum(np.asarray(n_votes, float), 1)
    item, truth = np.asarray(item, np.int64), np.asarray(truth, np.int64)
    free = np.bincount(truth, minlength=log_q.shape[1]) >= ENOUGH
    # One class alone has nothing to be compared with: intercepts are relative.
    free = free if free.sum() > 1 or (free.any() and log_q.shape[1] > 1) else np.zeros_like(free)
    score, shift = np.empty(len(_GRID)), np.zeros((len(_GRID), log_q.shape[1]))
    for g, gamma in enumerate(_GRID.tolist()):
        tempered = log_q[item] / (n_votes[item] ** gamma)[:, None]
        shift[g], score[g] = _best_intercepts(tempered, truth, free)
    score -= 0.5 * ((_GRID - mean) / sd) ** 2
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    center = float(weight @ _GRID)
    posterior = np.zeros(log_q.shape)
    for g in np.flatnonzero(weight > 1e-4 * weight.max()).tolist():
        posterior += weight[g] * softmax(log_q / (n_votes ** _GRID[g])[:, None] + shift[g])
    posterior /= posterior.sum(axis=1, keepdims=True)
    spread = float(np.sqrt(weight @ (_GRID - center) ** 2))
    return Exponent(posterior, center, spread, np.asarray(weight @ shift))


def _best_intercepts(tempered: Floats, truth: Integers, free: Flags) -> tuple[Floats, float]:
    """Intercepts of highest posterior for one exponent, and the log of the integral over them (Laplace)."""
    beta, classes = np.zeros(tempered.shape[1]), np.flatnonzero(free)
    seen = np.bincount(truth, minlength=tempered.shape[1])[classes]
    hessian = np.eye(len(classes)) / INTERCEPT_SD**2
    for _ in range(25 if len(classes) else 0):
        q = softmax(tempered + beta)[:, classes]
        slope = seen - q.sum(axis=0) - beta[classes] / INTERCEPT_SD**2
        hessian = np.diag(q.sum(axis=0)) - q.T @ q + np.eye(len(classes)) / INTERCEPT_SD**2
        step = np.linalg.solve(hessian, slope)
        # The objective is concave; a step of at most one keeps Newton from jumping over the top.
        beta[classes] += step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    log_q = log_floored(softmax(tempered + beta))
    fit = float(log_q[np.arange(len(truth)), truth].sum()) - 0.5 * float((beta**2).sum()) / INTERCEPT_SD**2
    volume = float(np.linalg.slogdet(hessian * INTERCEPT_SD**2)[1]) if len(classes) else 0.0
    return beta, fit - 0.5 * volume
