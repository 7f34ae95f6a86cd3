"""Class shares that stay near the shares of the votes.

    rho_k proportional to sqrt(v_k n_k),   v_k = 1 + sum_n (share of class k among the votes on n),   n_k = 1 + sum_n q_nk

v is fixed by the votes, n is learned: the geometric mean of what votes say and what the model makes of them. Learned freely,
shares and confusion rows drift together, and a rare class ends as a class of "hard items"; kept even, every unbalanced set
suffers. There is no density of which this is the maximum, so the bound of a fit with it may fall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.types import Floats

__all__ = ["Anchored"]


@storable
@dataclass(frozen=True, eq=False)
class Anchored:
    """Class shares between those of the votes (`anchor`, v_k) and those of the posterior (`mass`, n_k)."""

    shapes: ClassVar[dict[str, str]] = {"anchor": "k", "mass": "k"}
    anchor: Floats
    mass: Floats

    @classmethod
    def start(cls, shares: Floats) -> Anchored:
        """From the vote shares of items, summed, [K]."""
        return cls(1 + shares, 1 + shares)

    @property
    def probability(self) -> Floats:
        """The class shares, [K]."""
        root = np.sqrt(self.anchor * self.mass)
        return np.asarray(root / root.sum())

    def log_prob(self) -> Floats:
        """Log class shares, [1, K]."""
        return np.asarray(np.log(self.probability))[None, :]

    def update(self, posterior: Floats) -> Anchored:
        """Learn from a posterior, [N, K]."""
        return self.conditioned(posterior.sum(axis=0))

    def conditioned(self, mass: Floats) -> Anchored:
        """Learn from a posterior summed over items, [K]."""
        return replace(self, mass=1 + mass)

    def penalty(self) -> float:
        """None: see above."""
        return 0.0
