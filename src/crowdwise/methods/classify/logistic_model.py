"""A linear classifier with softmax probabilities: what logistic regression and Gaussian classes leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.parts.priors.logistic import log_softmax

__all__ = ["LogisticModel"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """p(z = k | x) = softmax(x . w_k + b_k); `weights` is [D + 1, K], for features as they are given, b the last row."""

    weights: Floats

    def log_prob(self, features: Any) -> Floats:
        """[N, K]."""
        return log_softmax(np.asarray(features @ self.weights[:-1] + self.weights[-1]))

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The weights."""
        return {"weights": self.weights}, {"kind": "logistic"}

    @classmethod
    def from_state(cls, arrays: dict[str, Any], plain: dict[str, Any]) -> LogisticModel:
        """Rebuild from what `state` gave."""
        return cls(np.asarray(arrays["weights"], float))
