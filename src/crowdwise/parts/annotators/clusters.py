"""Annotators in clusters: all members of a cluster share one confusion matrix.

P(observed l | true k, annotator a in cluster j) = pi_jkl, a in cluster j with probability tau_j. Labels
and memberships are inferred by mean field, so a vote counts with sum_j rho_aj log pi_jkl.

Symbols
-------
rho_aj : [A, J]      posterior of the memberships; empty before the first update
pi_jlk : [J, L, K]   P(observed l | true k) in cluster j
tau_j : [J]          shares of the clusters
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.clustering import log_softmax_rows, soft_clusters
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import ByTable, WithoutPosterior, counts_of, normalised, taken

__all__ = ["ClusterConfusion"]


@storable
@dataclass(frozen=True, eq=False)
class ClusterConfusion(ByTable, WithoutPosterior):
    """Confusion matrices of clusters as points, with soft memberships; `earlier_alk` are earlier answers."""

    earlier_alk: Floats
    smoothing: float
    rho_aj: Floats
    pi_jlk: Floats
    tau_j: Floats

    @classmethod
    def start(cls, earlier_alk: Floats, n_clusters: int, smoothing: float) -> ClusterConfusion:
        """Before any data: equal clusters, no memberships."""
        n_classes = earlier_alk.shape[1]
        uniform = np.full((n_clusters, n_classes, n_classes), 1 / n_classes)
        return cls(earlier_alk, smoothing, np.empty((0, n_clusters)), uniform, np.full(n_clusters, 1 / n_clusters))

    def update(self, votes: Annotations, posterior: Floats) -> ClusterConfusion:
        """Memberships (at first from k-means), then the clusters' confusion matrices and shares."""
        counts = counts_of(votes, posterior) + self.earlier_alk
        if len(self.rho_aj):
            scores = np.einsum("alk,jlk->aj", counts, log_floored(self.pi_jlk), optimize=True) + log_floored(self.tau_j)
            rho = np.exp(log_softmax_rows(scores))
        else:
            rho = soft_clusters(counts, len(self.tau_j))
        pooled = np.einsum("aj,alk->jlk", rho, counts, optimize=True) + self.smoothing
        # One memory order, so that a saved and reopened part gives the same bits.
        return replace(
            self, rho_aj=np.ascontiguousarray(rho), pi_jlk=np.ascontiguousarray(normalised(pooled)), tau_j=rho.mean(axis=0)
        )

    def penalty(self) -> float:
        """KL of the memberships, minus the log-likelihood of pseudo-votes and of earlier answers."""
        kl = (self.rho_aj * (log_floored(self.rho_aj) - log_floored(self.tau_j))).sum()
        smooth = self.smoothing * log_floored(self.pi_jlk).sum()
        return float(kl - smooth - (self.earlier_alk * self.log_table()).sum())

    def aligned(self, index: Integers, item_index: Integers) -> ClusterConfusion:
        """Reorder; an annotator never seen is in each cluster by its share."""
        return replace(self, earlier_alk=taken(self.earlier_alk, index, 0.0), rho_aj=taken(self.rho_aj, index, self.tau_j))

    def confusion(self) -> Floats:
        """Mean over clusters by membership, [A, K, L]."""
        return np.asarray(np.einsum("aj,jlk->akl", self.rho_aj, self.pi_jlk))

    def log_table(self) -> Floats:
        """Mean over clusters by membership of log pi, [A, L, K]."""
        return np.asarray(np.einsum("aj,jlk->alk", self.rho_aj, log_floored(self.pi_jlk)))
