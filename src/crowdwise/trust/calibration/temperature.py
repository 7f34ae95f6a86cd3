"""Temperature: one number for how much too sure all probabilities are.

    q_nk(T) = q_nk^(1/T) / sum_j q_nj^(1/T)

T > 1 makes every row flatter, T < 1 sharper; the order of the classes stays. With known classes T is the minimum of

    -sum_n log q_n,z(n)(T) + (log T)^2 / 2

where the second term (log T is standard normal) keeps a handful of right labels from sending T to zero. The first is
convex in 1/T, so there is one minimum.

References
----------
Guo et al. (2017), On calibration of modern neural networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import SettingError
from crowdwise.kernels.numerics import log_floored, tempered
from crowdwise.kernels.types import Floats
from crowdwise.trust.calibration.base import ProbabilityMap, known_of

__all__ = ["Temperature"]


# Temperatures beyond these leave the probabilities all but uniform, or all but certain.
LEAST, MOST = 0.05, 100.0


@dataclass(frozen=True)
class Temperature(ProbabilityMap):
    """Divide log-probabilities by `value`.

    Examples
    --------
    >>> Temperature(2.0).apply([[0.9, 0.1]]).round(4).tolist()  # 3 to 1, where it was 9 to 1
    [[0.75, 0.25]]
    """

    value: float

    def __post_init__(self) -> None:
        if not (self.value > 0 and np.isfinite(self.value)):
            raise SettingError(f"a temperature must be above 0; got {self.value!r}")

    @classmethod
    def fit(cls, probability: ArrayLike, truth: ArrayLike) -> Temperature:
        """Choose the temperature by known classes.

        Parameters
        ----------
        probability : [N, K]
            Rows of probabilities.
        truth : [N]
            Class codes, -1 where unknown.
        """
        from scipy.optimize import minimize_scalar

        q_mk, z_m = known_of(probability, truth)
        log_mk = log_floored(q_mk)
        own = log_mk[np.arange(len(z_m)), z_m][:, None]

        def objective(log_temperature: float) -> float:
            # -log q_z(T) = log sum_k exp((log q_k - log q_z) / T), without ever taking the log of a tiny probability.
            gap = (log_mk - own) / np.exp(log_temperature)
            top = gap.max(axis=1)
            loss = top + np.log(np.exp(gap - top[:, None]).sum(axis=1))
            return float(loss.sum() + log_temperature**2 / 2)

        found = minimize_scalar(objective, bounds=(np.log(LEAST), np.log(MOST)), method="bounded", options={"xatol": 1e-4})
        return cls(float(np.exp(found.x)))

    def apply(self, probability: ArrayLike) -> Floats:
        """Tempered probabilities, [N, K]."""
        return tempered(np.asarray(probability, float), self.value)
