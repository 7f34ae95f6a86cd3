"""Isotonic calibration: any increasing map from the probability of a class to how often it is true.

Two classes: one map for the second. More: one map per class against the rest, and rows divided by their sum. Maps are
step-like and take many known items (a few hundred) before they beat a temperature.

Notes
-----
Values are kept at least 1 / (M + 2) away from 0 and 1, for M known items: that nobody was wrong among M does not show
that nobody can be. Between known probabilities the map is linear, as scikit-learn's.

References
----------
Zadrozny and Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.kernels.types import Floats
from crowdwise.trust.calibration.base import ProbabilityMap, known_of

__all__ = ["Isotonic"]


@dataclass(frozen=True, eq=False)
class Isotonic(ProbabilityMap):
    """One increasing map per class (for two classes: of the second), as fitted scikit-learn regressions."""

    maps: tuple[Any, ...]
    margin: float

    @classmethod
    def fit(cls, probability: ArrayLike, truth: ArrayLike) -> Isotonic:
        """Fit to known classes: probability [N, K], truth [N] with -1 where unknown."""
        from sklearn.isotonic import IsotonicRegression

        q_mk, z_m = known_of(probability, truth)
        n_classes = q_mk.shape[1]
        classes = [1] if n_classes == 2 else range(n_classes)
        maps = tuple(
            IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip").fit(q_mk[:, k], z_m == k)
            for k in classes
        )
        return cls(maps, 1 / (len(z_m) + 2))

    def apply(self, probability: ArrayLike) -> Floats:
        """Calibrated probabilities, [N, K]."""
        q_nk = np.asarray(probability, float)
        if len(q_nk) == 0 or q_nk.shape[1] < 2:
            return q_nk.copy()
        columns = range(q_nk.shape[1]) if len(self.maps) > 1 else [1]
        raw = np.stack([fitted.predict(q_nk[:, k]) for fitted, k in zip(self.maps, columns, strict=True)], axis=1)
        if len(self.maps) == 1:
            raw = np.concatenate([1 - raw, raw], axis=1)
        raw = np.clip(raw, self.margin / (q_nk.shape[1] - 1), 1 - self.margin)
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))
