"""Class shares that differ by the group of the item: one Dirichlet posterior each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.storable import storable, within
from crowdwise.kernels.numerics import dirichlet_kl, expected_log
from crowdwise.kernels.types import Array, Floats

__all__ = ["GroupMarginals"]


@storable
@dataclass(frozen=True, eq=False)
class GroupMarginals:
    """alpha_s = alpha0 + sum of q_n over the items n of group s.

    Attributes
    ----------
    alpha0 : [K]
    alpha : [G, K]
    group_n : [N]
        Group of every item.
    """

    shapes: ClassVar[dict[str, str]] = {"alpha0": "k", "alpha": "gk"}
    alpha0: Floats
    alpha: Floats
    group_n: Array

    @classmethod
    def start(cls, alpha0: Floats, group_n: Array, n_groups: int) -> GroupMarginals:
        """Before any label: the prior in every group."""
        return cls(alpha0, np.repeat(alpha0[None], n_groups, axis=0), group_n)

    def fits(self, votes: Any) -> bool:
        """Whether indices read from a file stay within their arrays."""
        return within(self.group_n, -1, len(self.alpha))

    @property
    def shares(self) -> Floats:
        """Posterior mean of the class shares of each group, [G, K]."""
        return np.asarray(self.alpha / self.alpha.sum(axis=1, keepdims=True))

    @property
    def probability(self) -> Floats:
        """Class shares over all items, [K]."""
        if not len(self.group_n):
            return np.asarray(self.alpha0 / self.alpha0.sum())
        size = np.bincount(self.group_n, minlength=len(self.alpha))
        return np.asarray(size @ self.shares / size.sum())

    def log_prob(self) -> Floats:
        """E[log share] of every item's group, [N, K]."""
        return np.asarray(expected_log(self.alpha, 1)[self.group_n])

    def update(self, posterior: Floats) -> GroupMarginals:
        """Condition on a posterior of the labels, [N, K]."""
        mass = np.stack([np.bincount(self.group_n, column, len(self.alpha)) for column in posterior.T], axis=1)
        return replace(self, alpha=self.alpha0 + mass)

    def penalty(self) -> float:
        """KL of every group's Dirichlet from the prior."""
        return dirichlet_kl(self.alpha, self.alpha0, 1)
