"""A label prior with one row per item: what a classifier says before the votes are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Flags, Floats

__all__ = ["RowPrior"]


@storable
@dataclass(frozen=True, eq=False)
class RowPrior:
    """Log class probabilities of every item, [N, K]; fixed."""

    #: What the prior is called beside the votes, where a label is explained.
    said_by: ClassVar[str] = "classifier"
    log_nk: Floats

    @property
    def informed(self) -> Flags:
        """Items of which it says more than class shares: all, [N]."""
        return np.ones(len(self.log_nk), bool)

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
