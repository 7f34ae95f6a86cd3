"""A linear classifier with softmax probabilities: what logistic regression and Gaussian classes leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Floats
from crowdwise.parts.priors.logistic import log_softmax

__all__ = ["LogisticModel"]


@storable
@dataclass(frozen=True, eq=False)
class LogisticModel:
    """p(z = k | x) = softmax(x . w_k + b_k); `weights` is [D + 1, K], for features as they are given, b the last row."""

    weights: Floats

    def log_prob(self, features: Any) -> Floats:
        """[N, K]."""
        return log_softmax(np.asarray(features @ self.weights[:-1] + self.weights[-1]))
