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
from functools import cached_property

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.clustering import log_softmax_rows, soft_clusters
from crowdwise.kernels.gamma import digamma, log_gamma
from crowdwise.kernels.numerics import expected_log, in_ranges, log_floored
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import FittedToConfusion, counts_of, taken

__all__ = ["CommunityConfusion", "log_evidence"]


# Inside this interval digammas keep their digits; Minka's surrogate is unimodal, so clipping never lowers it.
_LOWEST, _HIGHEST = 1e-3, 1e4
_FIRST_STEPS = 20
# A long step is at most this many times as long as two steps; by judgement.
_FARTHEST = 50.0
# Annotators times entries of all communities from which compiled loops pay for being loaded.
_COMPILED_FROM = 10_000


@storable
@dataclass(frozen=True, eq=False)
class CommunityConfusion(FittedToConfusion):
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

    def statistics(self, votes: Annotations, posterior: Floats) -> tuple[Floats, ...]:
        """Expected confusion counts, [A, L, K]."""
        return (counts_of(votes, posterior),)

    def conditioned(self, statistics: tuple[Floats, ...]) -> CommunityConfusion:
        """Memberships (at first from k-means), then shares and Dirichlet parameters of the communities."""
        counts = statistics[0] + self.earlier_alk
        first = len(self.rho_am) == 0
        if first:
            rho = soft_clusters(counts, len(self.h_m))
        else:
            rho = np.exp(log_softmax_rows(_evidence(counts, self.eta_mlk) + log_floored(self.h_m)))
        eta = self.eta_mlk
        if first:
            for _ in range(_FIRST_STEPS):
                eta = self._step(counts, rho, eta)
        else:
            eta = self._long_step(counts, rho, eta)
        return replace(self, counts_alk=counts, rho_am=rho, eta_mlk=eta, h_m=rho.mean(axis=0))

    def log_table(self) -> Floats:
        """E[log R], [A, L, K]."""
        return self._rows[0]

    def penalty(self) -> float:
        """KL of memberships and confusion rows, minus the log-likelihood of earlier answers and the log prior of eta."""
        memberships = (self.rho_am * (log_floored(self.rho_am) - log_floored(self.h_m))).sum()
        # KL(Dir(eta + C) || Dir(eta)) = sum C E[log R] - log DM(C | eta)
        table, evidence = self._rows
        rows = ((self.counts_alk - self.earlier_alk) * table).sum() - evidence
        prior = self.trust * (self.eta0_lk * np.log(self.eta_mlk) - self.eta_mlk).sum()
        return float(memberships + rows - prior)

    def aligned(self, index: Integers, item_index: Integers) -> CommunityConfusion:
        """Reorder; an annotator never seen is in each community by its share."""
        return replace(
            self,
            earlier_alk=taken(self.earlier_alk, index, 0.0),
            counts_alk=taken(self.counts_alk, index, 0.0),
            rho_am=taken(self.rho_am, index, self.h_m),
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

    def _step(self, counts: Floats, rho: Floats, eta: Floats) -> Floats:
        """A step of Minka's fixed point; it climbs."""
        gain, cost = _gains(counts, rho, eta)
        return np.clip((eta * gain + self.trust * self.eta0_lk) / (cost[:, None] + self.trust), _LOWEST, _HIGHEST)

    def _long_step(self, counts: Floats, rho: Floats, eta: Floats) -> Floats:
        """Two steps, and for each community a third one from where the first two point (SQUAREM), if that is higher.

        The steps alone creep: how much alike the members of a community are changes by a few percent of its way in each.
        """
        one = self._step(counts, rho, eta)
        two = self._step(counts, rho, one)
        way = np.log(one / eta)
        bend = np.log(two / one) - way
        size, turn = ((part**2).sum(axis=1, keepdims=True) for part in (way, bend))
        times = np.clip(np.sqrt(size / np.maximum(turn, 1e-300)), 1.0, _FARTHEST)
        far = np.clip(eta * np.exp(np.clip(2 * times * way + times**2 * bend, -1.0, 1.0)), _LOWEST, _HIGHEST)
        far = self._step(counts, rho, far)
        higher = self._objective(counts, rho, far) >= self._objective(counts, rho, two)
        return np.where(higher[:, None, None], far, two)

    def _objective(self, counts: Floats, rho: Floats, eta: Floats) -> Floats:
        """What the parameters of each community climb, [M]."""
        prior = self.trust * (self.eta0_lk * np.log(eta) - eta).sum(axis=(1, 2))
        return np.asarray((rho * _evidence(counts, eta)).sum(axis=0) + prior)

    @cached_property
    def _rows(self) -> tuple[Floats, float]:
        """E[log R], [A, L, K], the mean over communities of Dirichlet expectations; and the sum of rho log DM(C_a | eta_m)."""
        table, counts, eta = np.zeros(self.counts_alk.shape), self.counts_alk, self.eta_mlk
        if _compiled(counts, eta):
            from crowdwise.kernels.community_loops import community_rows

            rho = np.ascontiguousarray(self.rho_am)
            return table, sum(
                in_ranges(_work(counts, eta), lambda start, stop: community_rows(start, stop, counts, rho, eta, table))
            )
        for m, own in enumerate(eta):
            table += self.rho_am[:, m, None, None] * expected_log(counts + own, 1)
        return table, float((self.rho_am * log_evidence(counts, eta)).sum())


def _compiled(counts_alk: Floats, eta_mlk: Floats) -> bool:
    return counts_alk.size * len(eta_mlk) >= _COMPILED_FROM


def _evidence(counts_alk: Floats, eta_mlk: Floats) -> Floats:
    """`log_evidence`, in compiled loops where these pay."""
    if not _compiled(counts_alk, eta_mlk):
        return log_evidence(counts_alk, eta_mlk)
    from crowdwise.kernels.community_loops import evidence_of_communities

    found = np.empty((len(counts_alk), len(eta_mlk)))
    in_ranges(_work(counts_alk, eta_mlk), lambda start, stop: evidence_of_communities(start, stop, counts_alk, eta_mlk, found))
    return found


def _work(counts_alk: Floats, eta_mlk: Floats) -> Integers:
    """Terms before every annotator, by which annotators are divided among threads, [A + 1]."""
    return np.arange(len(counts_alk) + 1) * eta_mlk.size


def _gains(counts: Floats, rho: Floats, eta_mlk: Floats) -> tuple[Floats, Floats]:
    """Of Minka's fixed point for every community: sum_a rho (psi(C + eta) - psi(eta)), [M, L, K]; of sums over labels, [M, K].

    Every step with their ratio climbs.
    """
    if _compiled(counts, eta_mlk):
        from crowdwise.kernels.community_loops import add_gains

        def add(start: int, stop: int) -> tuple[Floats, Floats]:
            sums = np.zeros(eta_mlk.shape), np.zeros((len(eta_mlk), eta_mlk.shape[2]))
            add_gains(start, stop, counts, rho, eta_mlk, *sums)
            return sums

        gain, cost = (np.asarray(sum(part)) for part in zip(*in_ranges(_work(counts, eta_mlk), add), strict=True))
        return gain, cost
    total, size = counts.sum(axis=1), eta_mlk.sum(axis=1)
    gains = [np.einsum("a,alk->lk", rho[:, m], digamma(counts + eta) - digamma(eta)) for m, eta in enumerate(eta_mlk)]
    costs = [rho[:, m] @ (digamma(total + own) - digamma(own)) for m, own in enumerate(size)]
    return np.stack(gains), np.stack(costs)


def log_evidence(counts_alk: Floats, eta_mlk: Floats) -> Floats:
    """log DM(C_a | eta_m), summed over true classes, [A, M]."""
    total = counts_alk.sum(axis=1)
    columns = []
    for eta in eta_mlk:
        size = eta.sum(axis=0)
        rows = (log_gamma(counts_alk + eta) - log_gamma(eta)).sum(axis=(1, 2))
        columns.append(rows - (log_gamma(total + size) - log_gamma(size)).sum(axis=1))
    return np.stack(columns, axis=1)
