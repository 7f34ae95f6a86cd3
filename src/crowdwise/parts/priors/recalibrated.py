"""A label prior from what a classifier says of items that it has not seen, corrected until it can be believed.

    p(z_n = k) = (1 - e) softmax_k(t log f_nk + b_k) + e / K
    update     max over t, b, e of  sum_nk q_nk log p(z_n = k) + log prior,   by L-BFGS from the present values

`t` is a temperature (below 1 for a classifier too sure of itself, above 1 for one too modest), `b` corrects class shares, and
`e` is the share of items of which the classifier knows nothing: a forest or a few neighbours say 0 of what they have not seen,
and a temperature alone would have to drown all else to make up for it. The priors count as one item or less: log t is standard
normal, one pseudo-item is divided evenly among the classes (a class that nobody believes in keeps a finite `b`), and `e` has
Jeffreys' Beta(1/2, 1/2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.kernels.types import Floats
from crowdwise.parts.priors.logistic import log_softmax

__all__ = ["Recalibrated", "recalibrated"]

# Steps of an update; the next one starts where it ended.
_MOST_STEPS = 50


def recalibrated(log_f: Floats, log_slope: float, bias: Floats, log_odds: float) -> Floats:
    """Log class probabilities, [N, K], from those of a classifier; `log_slope` is log t, `log_odds` are those of e."""
    believed = np.exp(log_softmax(np.exp(log_slope) * log_f + bias))
    unsure = 1 / (1 + np.exp(-log_odds))
    return np.asarray(np.log((1 - unsure) * believed + unsure / log_f.shape[1]))


@dataclass(frozen=True, eq=False)
class Recalibrated:
    """Log class probabilities of a classifier, [N, K], and their correction."""

    log_f: Floats
    log_slope: float
    bias: Floats
    log_odds: float

    @classmethod
    def start(cls, log_f: Floats) -> Recalibrated:
        """Taken at its word, but for one item in as many as there are."""
        return cls(log_f, 0.0, np.zeros(log_f.shape[1]), -float(np.log(max(len(log_f), 1))))

    def of(self, log_f: Floats) -> Recalibrated:
        """The same correction of other probabilities."""
        return replace(self, log_f=log_f)

    @property
    def probability(self) -> Floats:
        """Mean over the items, [K]."""
        return np.asarray(np.exp(self.log_prob()).mean(axis=0))

    def log_prob(self) -> Floats:
        """[N, K]."""
        return recalibrated(self.log_f, self.log_slope, self.bias, self.log_odds)

    def update(self, posterior: Floats) -> Recalibrated:
        """Fit the correction to a posterior of the labels, [N, K]."""
        from scipy.optimize import minimize

        at = np.concatenate([[self.log_slope, self.log_odds], self.bias])
        done = minimize(_loss, at, (self.log_f, posterior), "L-BFGS-B", jac=True, options={"maxiter": _MOST_STEPS})
        if not done.fun <= _loss(at, self.log_f, posterior)[0]:
            return self
        # Adding to all of them changes nothing.
        bias = done.x[2:] - done.x[2:].mean()
        return replace(self, log_slope=float(done.x[0]), log_odds=float(done.x[1]), bias=bias)

    def penalty(self) -> float:
        """Minus the log prior, up to its constant."""
        return _penalty(np.concatenate([[self.log_slope, self.log_odds], self.bias]))[0]


def _loss(at: Floats, log_f: Floats, target: Floats) -> tuple[float, Floats]:
    """Minus the expected log-likelihood and the log prior, and its slope by log t, the log-odds of e, and b."""
    slope, odds, bias = np.exp(at[0]), at[1], at[2:]
    believed = np.exp(log_softmax(slope * log_f + bias))
    unsure, even = 1 / (1 + np.exp(-odds)), 1 / log_f.shape[1]
    mixed = (1 - unsure) * believed + unsure * even
    share = target / mixed
    by_score = (1 - unsure) * believed * (share - (share * believed).sum(axis=1, keepdims=True))
    by_odds = unsure * (1 - unsure) * (share * (even - believed)).sum()
    lost, pull = _penalty(at)
    climb = np.concatenate([[slope * np.vdot(by_score, log_f), by_odds], by_score.sum(axis=0)])
    return lost - float(np.vdot(target, np.log(mixed))), pull - climb


def _penalty(at: Any) -> tuple[float, Floats]:
    """Minus the log prior, and its slope."""
    log_slope, odds, bias = at[0], at[1], at[2:]
    log_share = log_softmax(bias[None].copy())[0]
    # Jeffreys' density of e as one of its log-odds: (e (1 - e)) ** 1/2.
    value = log_slope**2 / 2 + (np.logaddexp(0, odds) + np.logaddexp(0, -odds)) / 2 - log_share.mean()
    unsure = 1 / (1 + np.exp(-odds))
    return float(value), np.concatenate([[log_slope, unsure - 0.5], np.exp(log_share) - 1 / len(bias)])
