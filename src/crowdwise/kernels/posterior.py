"""Small operations on a posterior over labels, [N, K]."""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["below_ceiling", "clamp", "expected_rank", "harden", "median_class"]


def below_ceiling(log_prob: Floats, ceiling: float) -> Floats:
    """Bound every probability from above and share the excess evenly among the classes still below, [N, K].

    Takes and returns logs. `ceiling` is at least 1 / K; at most K passes, because each fills a class up.
    """
    n_classes = log_prob.shape[1]
    if ceiling >= 1 or n_classes == 1:
        return log_prob
    prob = np.exp(log_prob)
    for _ in range(n_classes):
        over = prob > ceiling
        if not over.any():
            break
        prob[over] = ceiling
        free = prob < ceiling
        excess = np.maximum(1 - prob.sum(axis=1, keepdims=True), 0)
        prob += np.where(free, excess / np.maximum(free.sum(axis=1, keepdims=True), 1), 0)
    return np.asarray(np.log(np.maximum(prob, 1e-300)))


def clamp(posterior: Floats, known: Array) -> None:
    """Set the rows of items whose label is given to that label, in place."""
    if len(known):
        given = np.flatnonzero(known >= 0)
        posterior[given] = 0.0
        posterior[given, known[given]] = 1.0


def harden(posterior: Floats) -> Floats:
    """All mass on the highest entry of each row (the lowest index among equals)."""
    hard = np.zeros_like(posterior)
    hard[np.arange(len(posterior)), posterior.argmax(axis=1)] = 1.0
    return hard


def expected_rank(posterior: Floats) -> Floats:
    """Mean of the class code, of ordered classes counted from 1, [N]."""
    return np.asarray(posterior @ np.arange(1, posterior.shape[1] + 1))


def median_class(posterior: Floats) -> Integers:
    """The first ordered class up to which half of the probability lies, [N]: the least expected number of steps off."""
    # A tie must not be decided by rounding.
    return np.asarray((np.cumsum(posterior, axis=1)[:, :-1] < 0.5 - 1e-9).sum(axis=1))
