"""Numerics shared by every method: logs with one floor, softmax in place, Dirichlet expectations, generators from seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.errors import SettingError
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = [
    "best_class",
    "dirichlet_kl",
    "expected_log",
    "generator",
    "log_floored",
    "log_sigmoid",
    "moved",
    "segment_sum",
    "softmax_into",
]


# The one floor of the library: log(0) becomes about -690, small enough never to win against a
# possible class, finite so that 0 * log(0) is 0. `loops._FLOOR` is the same number.
FLOOR = 1e-300


def log_floored(values: Floats) -> Floats:
    """Elementwise log with zeros raised to the floor."""
    return np.asarray(np.log(np.maximum(values, FLOOR)))


def softmax_into(scores: Floats, known: Array, posterior: Floats) -> tuple[float, float]:
    """Write softmax(scores) into `posterior` row by row; return (sum of log-normalisers, sum of changes).

    The change of a row is half the sum of the absolute differences of its entries: the share of probability that moved.
    """
    if len(known):
        given = np.flatnonzero(known >= 0)
        kept = scores[given, known[given]]
        scores[given] = -np.inf
        scores[given, known[given]] = kept
    top = scores.max(axis=1, initial=-np.inf)
    scores -= top[:, None]
    np.exp(scores, out=scores)
    total = scores.sum(axis=1)
    scores /= total[:, None]
    change = moved(scores, posterior)
    posterior[:] = scores
    return float(top.sum() + np.log(total).sum()), change


def moved(after: Floats, before: Floats) -> float:
    """Sum over rows of the share of probability that moved: half the sum of the absolute differences."""
    return 0.5 * float(np.abs(after - before).sum())


def expected_log(parameters: Floats, axis: int) -> Floats:
    """E[log p] under Dirichlets whose parameters lie along `axis`."""
    from scipy.special import digamma

    return np.asarray(digamma(parameters) - digamma(parameters.sum(axis=axis, keepdims=True)))


def dirichlet_kl(parameters: Floats, prior: Floats, axis: int) -> float:
    """Sum of KL(Dir(parameters) || Dir(prior)) over all Dirichlets whose parameters lie along `axis`."""
    from scipy.special import gammaln

    prior = np.broadcast_to(prior, parameters.shape)
    kl = (gammaln(parameters.sum(axis=axis)) - gammaln(prior.sum(axis=axis))).sum()
    kl -= (gammaln(parameters) - gammaln(prior)).sum()
    kl += ((parameters - prior) * expected_log(parameters, axis)).sum()
    return float(kl)


def generator(random_state: Any) -> np.random.Generator:
    """A generator of random numbers from the setting `random_state`: None or a whole number >= 0."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise SettingError(f"random_state must be None or a whole number >= 0; got {random_state!r}") from None


def segment_sum(index: Array, values: Floats | None, size: int) -> Floats:
    """Sum of `values` (ones if None) over equal entries of `index`, [size]."""
    return np.bincount(index, weights=values, minlength=size).astype(np.float64, copy=False)


def log_sigmoid(x: Floats) -> Floats:
    """log(1 / (1 + exp(-x))) without overflow."""
    return np.asarray(-np.logaddexp(0.0, -x))


def best_class(posterior: Floats, prior: Floats) -> Integers:
    """The tie rule: highest posterior, then highest class prior, then lowest index.

    Entries within 1e-9 of the top count as tied: a tie must not be decided by rounding.
    """
    top = posterior.max(axis=1, keepdims=True, initial=0.0)
    tied = posterior >= top - 1e-9
    rounded = np.round(np.asarray(prior, float), 9)
    return np.asarray(np.where(tied, rounded, -1.0).argmax(axis=1))
