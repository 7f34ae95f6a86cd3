"""Dirichlet calibration: a linear map of log-probabilities, pulled towards a temperature.

    q'_n = softmax((I + D) x_n + b),   x_n = log q_n / T

T is the temperature of `crowdwise.trust.calibration.temperature`; D [K, K] and b [K] minimise the log-loss of the known items
plus (l2 / 2) (|D|^2 + |b|^2). With l2 -> infinity this is temperature scaling, so that little gold does little harm.

Notes
-----
Kull et al. regularise the off-diagonal of W = I + D and b, and leave the diagonal free; starting from the tempered
probabilities the whole of D can be small, which makes one strength serve for sharp posteriors and for flat ones.
x is floored at log 1e-12: beyond that the linear map would follow a few extreme rows. The problem is convex.

References
----------
Kull et al. (2019), Beyond temperature scaling: obtaining well-calibrated multiclass probabilities with Dirichlet
calibration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import SettingError
from crowdwise.kernels.numerics import log_softmax
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.calibration.base import ProbabilityMap, known_of
from crowdwise.trust.calibration.temperature import Temperature

__all__ = ["Dirichlet"]


_FLOOR = 1e-12
# From the strongest: the first of equal losses is taken.
_STRENGTHS = (1000.0, 100.0, 10.0, 1.0)


@dataclass(frozen=True, eq=False)
class Dirichlet(ProbabilityMap):
    """Softmax of a linear map of tempered log-probabilities; `matrix` is I + D, [K, K], `offset` b, [K].

    Examples
    --------
    >>> swap = Dirichlet(1.0, np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))
    >>> swap.apply([[0.9, 0.1]]).round(4).tolist()
    [[0.1, 0.9]]
    """

    temperature: float
    matrix: Floats
    offset: Floats

    @classmethod
    def fit(cls, probability: ArrayLike, truth: ArrayLike, l2: float | None = None) -> Dirichlet:
        """Fit to known classes: probability [N, K], truth [N] with -1 where unknown.

        `l2` is the pull towards plain temperature scaling; by default the best of a few in cross-validation.
        """
        if l2 is not None and not l2 > 0:
            raise SettingError(f"l2 must be above 0, or few known labels are fitted exactly; got {l2!r}")
        q_mk, z_m = known_of(probability, truth)
        temperature = Temperature.fit(q_mk, z_m).value
        x_mk = _features(q_mk, temperature)
        matrix, offset = _fitted(x_mk, z_m, _chosen_l2(x_mk, z_m) if l2 is None else l2)
        return cls(temperature, matrix, offset)

    def apply(self, probability: ArrayLike) -> Floats:
        """Calibrated probabilities, [N, K]."""
        scores = _features(np.asarray(probability, float), self.temperature) @ self.matrix.T + self.offset
        return np.exp(log_softmax(scores))


def _features(q_nk: Floats, temperature: float) -> Floats:
    return np.asarray(np.log(np.maximum(Temperature(temperature).apply(q_nk), _FLOOR)))


def _fitted(x_mk: Floats, z_m: Integers, l2: float) -> tuple[Floats, Floats]:
    """I + D and b at the minimum."""
    from scipy.optimize import minimize

    n_classes = x_mk.shape[1]
    hit_mk = np.eye(n_classes)[z_m]

    def objective(theta: Floats) -> tuple[float, Floats]:
        change, offset = theta[:-n_classes].reshape(n_classes, n_classes), theta[-n_classes:]
        log_q = log_softmax(x_mk + x_mk @ change.T + offset)
        residual = np.exp(log_q) - hit_mk
        slope = np.concatenate([(residual.T @ x_mk).ravel(), residual.sum(axis=0)]) + l2 * theta
        return float(-(hit_mk * log_q).sum() + l2 / 2 * (theta**2).sum()), slope

    start = np.zeros(n_classes * (n_classes + 1))
    theta = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return np.eye(n_classes) + theta[:-n_classes].reshape(n_classes, n_classes), theta[-n_classes:]


def _chosen_l2(x_mk: Floats, z_m: Integers) -> float:
    """The strength with the least log-loss in three-fold cross-validation; the strongest, where that makes no difference."""
    fold = np.random.default_rng(0).permutation(len(z_m)) % 3
    loss = np.zeros(len(_STRENGTHS))
    for number in range(3):
        held = fold == number
        if not held.any() or held.all():
            continue
        for place, l2 in enumerate(_STRENGTHS):
            matrix, offset = _fitted(x_mk[~held], z_m[~held], l2)
            loss[place] -= log_softmax(x_mk[held] @ matrix.T + offset)[np.arange(held.sum()), z_m[held]].sum()
    return _STRENGTHS[int(loss.argmin())]
