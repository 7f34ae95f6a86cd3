"""A label prior of items that depend on each other: what neighbours on a graph say of every item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["PottsField"]


@storable
@dataclass(frozen=True, eq=False)
class PottsField:
    """Log class probabilities of every item before its own votes, [N, K], with what they came from.

    Attributes
    ----------
    log_nk : [N, K]
        Shares and neighbours together; rows of probabilities sum to one.
    shares : Marginals or Anchored
        Class shares of an item without neighbours.
    coupling : float
        Log-odds that an edge of weight one adds to the class of the neighbour; 0 where edges say nothing.
    association : float
        Standard deviations by which neighbours are more alike than any two items, before anything was coupled.
    mean_k : [K] or None
        Mean over all items, where `log_nk` is of some of them only.
    """

    said_by: ClassVar[str] = "neighbours"
    log_nk: Floats
    shares: Any
    coupling: float
    association: float
    mean_k: Floats | None = None

    @property
    def probability(self) -> Floats:
        """Mean over the items, [K]."""
        if self.coupling == 0 or not len(self.log_nk):
            return np.asarray(self.shares.probability)
        if self.mean_k is not None:
            return self.mean_k
        return np.asarray(np.exp(self.log_nk).mean(axis=0))

    @property
    def informed(self) -> Flags:
        """Items of which it says more than the class shares, [N]."""
        return np.asarray(np.ptp(self.log_nk - self.shares.log_prob(), axis=1) > 1e-9)

    def log_prob(self) -> Floats:
        """[N, K]."""
        return self.log_nk

    def aligned(self, item_index: Integers) -> Floats:
        """`log_prob` of other items, by their positions in the fit; -1 stands for one that was not there, [n, K]."""
        return np.concatenate([self.log_nk, self.shares.log_prob()])[item_index]

    def update(self, posterior: Floats) -> PottsField:
        """Return itself: it is fitted together with the posterior (`crowdwise.engines.potts`)."""
        return self

    def penalty(self) -> float:
        """That of the shares."""
        return float(self.shares.penalty())
