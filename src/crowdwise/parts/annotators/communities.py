"""Annotators in communities: confusion rows are drawn around those of the annotator's community.

a is in community m with probability h_m, and then R_a[k] ~ Dir(eta_m[k]). The posterior keeps the two
together: q(m) q(R | m) with q(R_a | m) = Dir(eta_m + C_a) and q(a in m) proportional to h_m DM(C_a | eta_m),
DM the Dirichlet-multinomial likelihood of the expected counts. eta_m climbs sum_a rho_am log DM(C_a | eta_m) by
Minka's fixed point, under a Gamma prior with its mode at eta0.

Symbols
-------
counts_alk : [A, L, K]  expected counts C plus earlier answers
rho_am : [A, M]         posterior of the memberships; empty before the first update
eta_mlk : [M, L, K]     Dirichlet parameters of the communities
h_m : [M]               shares of the communities
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.clustering import log_softmax_rows, soft_clusters
from crowdwise.kernels.gamma import digamma, log_gamma
from crowdwise.kernels.numerics import expected_log, log_floored
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import counts_of, infer_by_table, table_log_lik

__all__ = ["CommunityConfusion", "log_evidence"]


# Inside this interval digammas keep their digits; Minka's surrogate is unimodal, so clipping never lowers it.
_LOWEST, _HIGHEST = 1e-3, 1e4
_FIRST_STEPS, _STEPS = 20, 3


@storable
@dataclass(frozen=True, eq=False)
class CommunityConfusion:
    """Dirichlet communities with soft memberships; `earlier_alk` are earlier answers."""

    earlier_alk: Floats
    eta0_lk: Floats
    trust: float
    counts_alk: Floats
    rho_am: Floats
    eta_mlk: Floats
    h_m: Floats

    @classmethod
    def start(cls, earlier_alk: Floats, eta0_lk: Floats, n_communities: int, trust: float) -> CommunityConfusion:
        """Before any data: equal communities, no memberships."""
        return cls(
            earlier_alk,
            eta0_lk,
            trust,
            earlier_alk,
            np.empty((0, n_communities)),
            np.repeat(eta0_lk[None], n_communities, axis=0),
            np.full(n_communities, 1 / n_communities),
        )

    def update(self, votes: Annotations, posterior: Floats) -> CommunityConfusion:
        """Memberships (at first from k-means), then shares and Dirichlet parameters of the communities."""
        counts = counts_of(votes, posterior) + self.earlier_alk
        first = len(self.rho_am) == 0
        if first:
            rho = soft_clusters(counts, len(self.h_m))
        else:
            rho = np.exp(log_softmax_rows(log_evidence(counts, self.eta_mlk) + log_floored(self.h_m)))
        eta = np.stack(
            [
                self._fit_community(counts, rho[:, m], self.eta_mlk[m], _FIRST_STEPS if first else _STEPS)
                for m in range(rho.shape[1])
            ]
        )
        return replace(self, counts_alk=counts, rho_am=rho, eta_mlk=eta, h_m=rho.mean(axis=0))

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step over the labels with E[log R]."""
        return infer_by_table(votes, np.exp(self._expected_log()), log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """E[log R] of each vote, [len(index), K]."""
        return table_log_lik(votes, index, self._expected_log())

    def penalty(self) -> float:
        """KL of memberships and confusion rows, minus the log-likelihood of earlier answers and the log prior of eta."""
        memberships = (self.rho_am * (log_floored(self.rho_am) - log_floored(self.h_m))).sum()
        # KL(Dir(eta + C) || Dir(eta)) = sum C E[log R] - log DM(C | eta)
        rows = -(self.rho_am * log_evidence(self.counts_alk, self.eta_mlk)).sum()
        rows += ((self.counts_alk - self.earlier_alk) * self._expected_log()).sum()
        prior = self.trust * (self.eta0_lk * np.log(self.eta_mlk) - self.eta_mlk).sum()
        return float(memberships + rows - prior)

    def aligned(self, index: Integers, item_index: Integers) -> CommunityConfusion:
        """Reorder; an annotator never seen is in each community by its share."""
        none = np.zeros((1, *self.earlier_alk.shape[1:]))
        return replace(
            self,
            earlier_alk=np.concatenate([self.earlier_alk, none])[index],
            counts_alk=np.concatenate([self.counts_alk, none])[index],
            rho_am=np.concatenate([self.rho_am, self.h_m[None]])[index],
        )

    def confusion(self) -> Floats:
        """Posterior mean, [A, K, L]."""
        mean = np.zeros(self.counts_alk.shape)
        for m, eta in enumerate(self.eta_mlk):
            beta = self.counts_alk + eta
            mean += self.rho_am[:, m, None, None] * beta / beta.sum(axis=1, keepdims=True)
        return mean.transpose(0, 2, 1)

    def concentration(self) -> Floats:
        """Mean Dirichlet parameters over the communities, [A, K, L]: a summary of the mixture."""
        return np.asarray(self.counts_alk + np.einsum("am,mlk->alk", self.rho_am, self.eta_mlk)).transpose(0, 2, 1)

    def _expected_log(self) -> Floats:
        """E[log R], [A, L, K]: the mean over communities of Dirichlet expectations."""
        table = np.zeros(self.counts_alk.shape)
        for m, eta in enumerate(self.eta_mlk):
            table += self.rho_am[:, m, None, None] * expected_log(self.counts_alk + eta, 1)
        return table

    def _fit_community(self, counts: Floats, rho_a: Floats, eta: Floats, steps: int) -> Floats:
        """Minka's fixed point for one community, [L, K]; every step climbs."""
        total = counts.sum(axis=1)
        for _ in range(steps):
            size = eta.sum(axis=0)
            gain = eta * np.einsum("a,alk->lk", rho_a, digamma(counts + eta) - digamma(eta))
            cost = rho_a @ (digamma(total + size) - digamma(size))
            eta = np.clip((gain + self.trust * self.eta0_lk) / (cost + self.trust), _LOWEST, _HIGHEST)
        return np.asarray(eta)


def log_evidence(counts_alk: Floats, eta_mlk: Floats) -> Floats:
    """log DM(C_a | eta_m), summed over true classes, [A, M]."""
    total = counts_alk.sum(axis=1)
    columns = []
    for eta in eta_mlk:
        size = eta.sum(axis=0)
        rows = (log_gamma(counts_alk + eta) - log_gamma(eta)).sum(axis=(1, 2))
        columns.append(rows - (log_gamma(total + size) - log_gamma(size)).sum(axis=1))
    return np.stack(columns, axis=1)
