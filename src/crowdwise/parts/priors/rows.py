"""A label prior with one row per item: what a classifier says before the votes are seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Floats

__all__ = ["RowPrior"]


@storable
@dataclass(frozen=True, eq=False)
class RowPrior:
    """Log class probabilities of every item, [N, K]; fixed."""

    log_nk: Floats

    @property
    def probability(self) -> Floats:
        """Mean over the items, [K]: the class shares that the classifier expects."""
        n_classes = self.log_nk.shape[1]
        return np.exp(self.log_nk).mean(axis=0) if len(self.log_nk) else np.full(n_classes, 1 / n_classes)

    def log_prob(self) -> Floats:
        """[N, K]."""
        return self.log_nk

    def update(self, posterior: Floats) -> RowPrior:
        """Return itself: the classifier is trained elsewhere."""
        return self

    def penalty(self) -> float:
        """None."""
        return 0.0
