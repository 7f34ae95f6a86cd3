"""A label prior that reads features: softmax regression, refitted a little in every round.

    p(z_n = k) proportional to exp(x_n . w_k + b_k)
    update     a few L-BFGS steps up  sum_nk q_nk log p(z_n = k) - l2 / 2 |w|^2,  from the present weights

A step that does not climb is not taken, so the bound of `alternate` never falls (generalised EM). Columns are scaled
inside; the intercepts b are not penalised. On K classes, l2 is 1 / C of scikit-learn's multinomial regression; two
classes have two columns of weights, which halves the penalty: 2 / C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.priors.scaling import Scaling

__all__ = ["LogisticPrior", "log_softmax", "softmax_objective"]

Floats = NDArray[np.float64]

# Prior variance of a logit: with scaled columns and l2 = D / 10, logits of +-3 are ordinary and +-10 rare.
_LOGIT_VARIANCE = 10.0


@dataclass(frozen=True, eq=False)
class LogisticPrior:
    """Softmax regression on the items' features.

    Attributes
    ----------
    table : [N, D]
        Scaled features, dense or CSR.
    weights : [D + 1, K]
        For the scaled features; the last row is the intercept.
    steps : int
        L-BFGS iterations per update.
    """

    table: Any
    scaling: Scaling
    weights: Floats
    l2: float
    steps: int

    @classmethod
    def start(cls, features: Any, n_classes: int, *, l2: float | None = None, steps: int = 3) -> LogisticPrior:
        """Before any data: all classes alike. Without `l2`, a tenth of the number of columns."""
        scaling = Scaling.of(features)
        n_columns = features.shape[1]
        strength = n_columns / _LOGIT_VARIANCE if l2 is None else float(l2)
        return cls(scaling.apply(features), scaling, np.zeros((n_columns + 1, n_classes)), strength, steps)

    @property
    def probability(self) -> Floats:
        """Mean prediction, [K]."""
        return np.asarray(np.exp(self.log_prob()).mean(axis=0))

    @property
    def raw_weights(self) -> Floats:
        """Weights for the features as they were given, [D + 1, K]."""
        return self.scaling.raw_weights(self.weights)

    def log_prob(self) -> Floats:
        """[N, K]."""
        return log_softmax(self.table @ self.weights[:-1] + self.weights[-1])

    def update(self, posterior: Floats) -> LogisticPrior:
        """Climb a few steps towards the regression on soft targets, [N, K]."""
        if not len(posterior):
            return self
        # Imported here: `aggregate` on votes alone must not wait for scipy's optimisers.
        from scipy.optimize import minimize

        shape = self.weights.shape
        lowest = np.inf
        best = start = self.weights.ravel()

        def objective(flat: Floats) -> tuple[float, Floats]:
            nonlocal lowest, best
            value, slope = softmax_objective(self.table, posterior, flat.reshape(shape), self.l2)
            if value < lowest:
                lowest, best = value, flat.copy()
            return value, slope.ravel()

        minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": self.steps, "ftol": 1e-13, "gtol": 1e-8})
        return replace(self, weights=best.reshape(shape))

    def penalty(self) -> float:
        """The L2 term."""
        return float(self.l2 / 2 * (self.weights[:-1] ** 2).sum())


def softmax_objective(table: Any, target: Floats, weights: Floats, l2: float) -> tuple[float, Floats]:
    """Cross-entropy with soft targets [N, K] plus the L2 term, and its slope, [D + 1, K]."""
    log_prob = log_softmax(table @ weights[:-1] + weights[-1])
    value = float(l2 / 2 * (weights[:-1] ** 2).sum() - np.vdot(target, log_prob))
    excess = np.exp(log_prob, out=log_prob)
    excess *= target.sum(axis=1, keepdims=True)
    excess -= target
    slope = np.empty_like(weights)
    slope[:-1] = table.T @ excess
    slope[:-1] += l2 * weights[:-1]
    slope[-1] = excess.sum(axis=0)
    return value, slope


def log_softmax(scores: Floats) -> Floats:
    """Log class probabilities from scores, [N, K]; overwrites them."""
    scores -= scores.max(axis=1, keepdims=True, initial=-np.inf)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores
