"""A label prior that reads features: softmax regression, refitted a little in every round.

    p(z_n = k) proportional to exp(x_n . w_k + b_k)
    update     a few steps up  sum_nk q_nk log p(z_n = k) - l2 / 2 |w|^2,  from the present weights

The steps are conjugate gradients, scaled by the curvature of every column, with a Newton step along the line. Targets
change little between rounds, so directions carry over from one round to the next; one step per round then does what several
L-BFGS steps do that start afresh, at a tenth of the cost. A step that does not climb is not taken, so the bound of
`alternate` never falls (generalised EM).

Columns are scaled inside; the intercepts b are not penalised. On K > 2 classes, l2 is 1 / C of scikit-learn's regression;
two classes have two columns of weights, which halves the penalty: 2 / C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.kernels.types import Floats
from crowdwise.parts.priors.scaling import Scaling

__all__ = ["LogisticPrior", "log_softmax", "softmax_slope"]


# Prior variance of a logit on scaled columns. Held-out votes of six real sets put the best one between 1 and 30.
_LOGIT_VARIANCE = 3.0
# Curvature below which a direction counts as flat: a step divided by it would leave the finite numbers.
_FLAT = 1e-100
# Curvature of log p by a logit is p (1 - p) <= 1/4; only its ratio between columns matters.
_CURVATURE = 0.25
_SHORTEN, _MOST_TRIES = 0.3, 6


@dataclass(frozen=True, eq=False)
class LogisticPrior:
    """Softmax regression on the items' features.

    Attributes
    ----------
    table : [N, D]
        Scaled features, dense or CSR.
    weights : [D + 1, K]
        For the scaled features; the last row is the intercept.
    log_nk : [N, K]
        Log class probabilities under these weights.
    bend : [D + 1]
        Curvature of every column, up to a factor.
    steps : int
        Steps per update.
    earlier : pair of [D + 1, K] or None
        Slope and direction of the last step.
    """

    table: Any
    scaling: Scaling
    weights: Floats
    log_nk: Floats
    bend: Floats
    l2: float
    steps: int
    earlier: tuple[Floats, Floats] | None = None

    @classmethod
    def start(cls, features: Any, n_classes: int, *, l2: float | None = None, steps: int = 1) -> LogisticPrior:
        """Before any data: all classes alike. Without `l2`, a third of the number of columns."""
        scaling = Scaling.of(features)
        table = scaling.apply(features)
        n_items, n_columns = table.shape
        strength = n_columns / _LOGIT_VARIANCE if l2 is None else float(l2)
        squares = table.multiply(table).sum(axis=0) if hasattr(table, "tocsr") else np.einsum("nd,nd->d", table, table)
        # A column of zeros has no curvature, and no slope either.
        bend = np.append(np.maximum(_CURVATURE * np.asarray(squares).ravel() + strength, 1e-12), _CURVATURE * n_items)
        flat = np.full((n_items, n_classes), -np.log(n_classes))
        return cls(table, scaling, np.zeros((n_columns + 1, n_classes)), flat, bend, strength, steps)

    @property
    def probability(self) -> Floats:
        """Mean prediction, [K]."""
        return np.asarray(np.exp(self.log_nk).mean(axis=0))

    @property
    def raw_weights(self) -> Floats:
        """Weights for the features as they were given, [D + 1, K]."""
        return self.scaling.raw_weights(self.weights)

    def log_prob(self) -> Floats:
        """[N, K]."""
        return self.log_nk

    def update(self, posterior: Floats) -> LogisticPrior:
        """Climb a few steps towards the regression on soft targets, [N, K]."""
        prior = self
        value = prior._value(posterior)
        for _ in range(self.steps):
            slope, direction, along = prior._direction(posterior)
            length = _newton_length(slope, direction, along, np.exp(prior.log_nk), self.l2)
            for _ in range(_MOST_TRIES):
                weights = prior.weights + length * direction
                tried = replace(
                    prior,
                    weights=weights,
                    log_nk=log_softmax(prior.log_nk + length * along),
                    earlier=(slope, direction),
                )
                gain = tried._value(posterior) - value
                if gain >= 0:
                    break
                length *= _SHORTEN
            else:
                return prior
            prior, value = tried, value + gain
            if gain <= 1e-12 * abs(value):
                break
        return prior

    def penalty(self) -> float:
        """The L2 term."""
        return float(self.l2 / 2 * (self.weights[:-1] ** 2).sum())

    def _value(self, target: Floats) -> float:
        return float(np.vdot(target, self.log_nk)) - self.penalty()

    def _direction(self, target: Floats) -> tuple[Floats, Floats, Floats]:
        """Slope and direction [D + 1, K], and what a step of length one adds to the logits, [N, K]."""
        slope = softmax_slope(self.table, target, self.weights, self.log_nk, self.l2)
        direction = scaled = slope / self.bend[:, None]
        if self.earlier is not None:
            last, before = self.earlier
            # Polak-Ribiere; below zero it has lost its way and starts again.
            turn = float(np.vdot(slope - last, scaled)) / max(float(np.vdot(last, last / self.bend[:, None])), 1e-300)
            conjugate = scaled + max(turn, 0.0) * before
            if np.vdot(conjugate, slope) > 0:
                direction = conjugate
        return slope, direction, np.asarray(self.table @ direction[:-1] + direction[-1])


def softmax_slope(table: Any, target: Floats, weights: Floats, log_nk: Floats, l2: float) -> Floats:
    """Slope of  sum_nk target_nk log p_nk - l2 / 2 |w|^2  by the weights, [D + 1, K]; rows of targets sum to one."""
    excess = target - np.exp(log_nk)
    slope = np.empty_like(weights)
    # This order of the factors reads the table along its rows.
    slope[:-1] = np.asarray(excess.T @ table).T
    slope[:-1] -= l2 * weights[:-1]
    slope[-1] = excess.sum(axis=0)
    return slope


def log_softmax(scores: Floats) -> Floats:
    """Log class probabilities from scores, [N, K]; overwrites them."""
    scores -= scores.max(axis=1, keepdims=True, initial=-np.inf)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores


def _newton_length(slope: Floats, direction: Floats, along: Floats, p_nk: Floats, l2: float) -> float:
    """Where the parabola through the present point along `direction` has its top."""
    pushed = p_nk * along
    mean = pushed.sum(axis=1)
    curve = np.vdot(pushed, along) - mean @ mean + l2 * (direction[:-1] ** 2).sum()
    return float(np.vdot(slope, direction) / curve) if curve > _FLAT else 1.0
