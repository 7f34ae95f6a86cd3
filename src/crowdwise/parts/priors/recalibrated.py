"""A label prior from what a classifier says of items that it has not seen, corrected until it can be believed.

    p(z_n = k) = (1 - e) softmax_k(t log(f_nk / m_k) + log rho_k) + e rho_k,      m = mean of f over the items
    update     rho between the shares of the votes and of the posterior q (`Anchored`); then
               max over t, e of  sum_nk q_nk log p(z_n = k) + log prior,   by L-BFGS from the present values

`t` is a temperature, below 1 for a classifier too sure of itself, above 1 for one too modest. It acts on what the classifier
says beyond its class shares m, which count once, as rho; learned freely, shares of a weak crowd and confusion rows would drift
together. `e` is the share of items of which the classifier knows nothing: a forest or a few neighbours say 0 of what they have
not seen, and a temperature alone would have to drown all else to make up for it. The priors count for about one item: log t is
standard normal, and `e` has Jeffreys' Beta(1/2, 1/2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Floats
from crowdwise.parts.priors.anchored import Anchored
from crowdwise.parts.priors.logistic import log_softmax

__all__ = ["Correction", "Recalibrated", "expected_loss"]

# Steps of an update; the next one starts where it ended.
_MOST_STEPS = 50


@storable
@dataclass(frozen=True, eq=False)
class Correction:
    """What makes probabilities of a classifier credible: log t, the log-odds of e, log m [K] and log rho [K]."""

    log_slope: float
    log_odds: float
    log_mean: Floats
    log_shares: Floats

    def apply(self, log_f: Floats) -> Floats:
        """Log class probabilities from those of a classifier, [N, K]."""
        believed = log_softmax(np.exp(self.log_slope) * (log_f - self.log_mean) + self.log_shares)
        unbelieved = self.log_shares - np.logaddexp(0, -self.log_odds)
        return np.asarray(np.logaddexp(believed - np.logaddexp(0, self.log_odds), unbelieved))


@dataclass(frozen=True, eq=False)
class Recalibrated:
    """Log class probabilities of a classifier, [N, K], their correction, and the class shares in it."""

    log_f: Floats
    correction: Correction
    shares: Anchored

    @classmethod
    def start(cls, log_f: Floats, shares: Anchored) -> Recalibrated:
        """The classifier is taken at its word, but for one item of all."""
        odds = -float(np.log(max(len(log_f), 1)))
        return cls(log_f, Correction(0.0, odds, np.zeros(log_f.shape[1]), np.log(shares.probability)), shares).of(log_f)

    def of(self, log_f: Floats) -> Recalibrated:
        """The same of other probabilities."""
        mean = np.exp(log_f).mean(axis=0) if len(log_f) else np.ones(log_f.shape[1])
        return replace(self, log_f=log_f, correction=replace(self.correction, log_mean=np.log(mean)))

    @property
    def probability(self) -> Floats:
        """Mean over the items, [K]."""
        return np.asarray(np.exp(self.log_prob()).mean(axis=0))

    def log_prob(self) -> Floats:
        """[N, K]."""
        return self.correction.apply(self.log_f)

    def update(self, posterior: Floats) -> Recalibrated:
        """Fit shares and correction to a posterior of the labels, [N, K]."""
        from scipy.optimize import minimize

        shares = self.shares.update(posterior)
        before = replace(self.correction, log_shares=np.log(shares.probability))
        given = (self.log_f - before.log_mean, before.log_shares, posterior)
        at = np.array([before.log_slope, before.log_odds])
        done = minimize(expected_loss, at, given, "L-BFGS-B", jac=True, options={"maxiter": _MOST_STEPS})
        best = done.x if done.fun <= expected_loss(at, *given)[0] else at
        return replace(self, shares=shares, correction=replace(before, log_slope=float(best[0]), log_odds=float(best[1])))

    def penalty(self) -> float:
        """Minus the log prior of t and e, up to its constant."""
        return _penalty(np.array([self.correction.log_slope, self.correction.log_odds]))[0]


def expected_loss(at: Any, said: Floats, log_shares: Floats, target: Floats) -> tuple[float, Floats]:
    """Minus the expected log-likelihood and the log prior, and its slope by log t and the log-odds of e.

    `said` is log(f / m), [N, K]; `target` the posterior of the labels, [N, K].
    """
    slope, unsure, shares = np.exp(at[0]), 1 / (1 + np.exp(-at[1])), np.exp(log_shares)
    believed = np.exp(log_softmax(slope * said + log_shares))
    mixed = (1 - unsure) * believed + unsure * shares
    ratio = target / mixed
    by_score = (1 - unsure) * believed * (ratio - (ratio * believed).sum(axis=1, keepdims=True))
    by_odds = unsure * (1 - unsure) * (ratio * (shares - believed)).sum()
    lost, pull = _penalty(at)
    return lost - float(np.vdot(target, np.log(mixed))), pull - np.array([slope * np.vdot(by_score, said), by_odds])


def _penalty(at: Any) -> tuple[float, Floats]:
    """Minus the log prior of log t and the log-odds of e, and its slope."""
    log_slope, odds = at
    # Jeffreys' density of e, as one of its log-odds, is (e (1 - e)) ** 1/2.
    value = log_slope**2 / 2 + (np.logaddexp(0, odds) + np.logaddexp(0, -odds)) / 2
    return float(value), np.array([log_slope, 1 / (1 + np.exp(-odds)) - 0.5])
