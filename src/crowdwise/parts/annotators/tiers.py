"""Two communities of annotators, each with a Dirichlet around which its members scatter.

Annotator a is of community g with probability tau_g; row k of a member is Dirichlet(M_g[k, :]). Every update takes
memberships from the Dirichlet-multinomial likelihood of the counts, then one of Minka's steps for M:

    R_ag    proportional to tau_g DM(C_a | M_g)
    tau_g   = (sum_a R_ag + 1) / (A + G)
    M_gkl  <- M_gkl sum_a R_ag [psi(C_akl + M_gkl) - psi(M_gkl)] / sum_a R_ag [psi(C_ak. + M_gk.) - psi(M_gk.)]

The evidence of a vote is the mean over communities of E[log pi]. The first update sets M: the pooled errors of all around
diagonals at quantiles of the annotators' agreement with the votes, so that the communities are a better and a worse half.
Differs from `crowdwise.parts.annotators.communities` in its start and in having no prior for M.

Symbols
-------
counts_alk : [A, L, K]   expected counts, with earlier answers
member_ag : [A, G]       R
centre_glk : [G, L, K]   M; empty before the first update
share_g : [G]            tau
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.gamma import digamma
from crowdwise.kernels.numerics import expected_log
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.communities import log_evidence
from crowdwise.parts.annotators.model import FittedToConfusion, taken, taken_unless_shared

__all__ = ["Tiers"]

_WEAKEST, _STRONGEST = 1e-3, 1e3
# Agreement that a community may start with.
_LOWEST, _HIGHEST = 0.2, 0.95


@storable
@dataclass(frozen=True, eq=False)
class Tiers(FittedToConfusion):
    """Communities of annotators that start as quantiles of agreement."""

    earlier_alk: Floats
    counts_alk: Floats
    member_ag: Floats
    centre_glk: Floats
    share_g: Floats

    @classmethod
    def start(cls, earlier_alk: Floats, n_annotators: int, n_tiers: int = 2) -> Tiers:
        """Before any data."""
        n_classes = earlier_alk.shape[1]
        return cls(
            earlier_alk,
            np.broadcast_to(earlier_alk, (n_annotators, n_classes, n_classes)),
            np.full((n_annotators, n_tiers), 1 / n_tiers),
            np.empty((0, n_classes, n_classes)),
            np.full(n_tiers, 1 / n_tiers),
        )

    def conditioned(self, statistics: tuple[Floats, ...]) -> Tiers:
        """Memberships, shares and (but for the first time) one step of the centres."""
        counts = statistics[0] + self.earlier_alk
        first = len(self.centre_glk) == 0
        n_tiers = len(self.share_g)
        centre = _first_centres(counts, n_tiers) if first else self.centre_glk
        score = np.log(self.share_g) + log_evidence(counts, centre)
        member = np.exp(score - score.max(axis=1, keepdims=True, initial=-np.inf))
        member /= member.sum(axis=1, keepdims=True)
        share = (member.sum(axis=0) + 1) / (len(counts) + n_tiers)
        if not first:
            centre = np.stack([_step(counts, member[:, g], centre[g]) for g in range(n_tiers)])
        return replace(self, counts_alk=counts, member_ag=member, centre_glk=centre, share_g=share)

    def penalty(self) -> float:
        """None: this part serves where no bound is followed."""
        return 0.0

    def aligned(self, index: Integers, item_index: Integers) -> Tiers:
        """Reorder; an annotator never seen is in each community by its share."""
        return replace(
            self,
            earlier_alk=taken_unless_shared(self.earlier_alk, index),
            counts_alk=taken(self.counts_alk, index, 0.0),
            member_ag=taken(self.member_ag, index, self.share_g),
        )

    def confusion(self) -> Floats:
        """Posterior mean, [A, K, L]."""
        mean = np.zeros(self.counts_alk.shape)
        for g, centre in enumerate(self.centre_glk):
            beta = self.counts_alk + centre
            mean += self.member_ag[:, g, None, None] * beta / beta.sum(axis=1, keepdims=True)
        return mean.transpose(0, 2, 1)

    def concentration(self) -> Floats:
        """Mean Dirichlet parameters over the communities, [A, K, L]: a summary of the mixture."""
        return np.asarray(self.counts_alk + np.einsum("ag,glk->alk", self.member_ag, self.centre_glk)).transpose(0, 2, 1)

    def log_table(self) -> Floats:
        """E[log pi], [A, L, K]: the mean over communities of Dirichlet expectations."""
        table = np.zeros(self.counts_alk.shape)
        for g, centre in enumerate(self.centre_glk):
            table += self.member_ag[:, g, None, None] * expected_log(self.counts_alk + centre, 1)
        return table


def _first_centres(counts_alk: Floats, n_tiers: int) -> Floats:
    """Pooled errors around diagonals at quantiles of agreement, [G, L, K]; K + 2 votes strong."""
    n_classes = counts_alk.shape[1]
    eye = np.eye(n_classes)
    pooled = counts_alk.sum(axis=0) + 1 / n_classes
    wrong = pooled / pooled.sum(axis=0) * (1 - eye)
    wrong = wrong / np.maximum(wrong.sum(axis=0), 1e-300)
    agreement = np.einsum("akk->a", counts_alk) / np.maximum(counts_alk.sum(axis=(1, 2)), 1)
    at = (np.arange(n_tiers) + 0.5) / n_tiers
    right = np.quantile(agreement, at) if len(agreement) else np.full(n_tiers, 0.5)
    right = np.clip(right, _LOWEST, _HIGHEST)[:, None, None]
    return np.asarray((n_classes + 2) * ((1 - right) * wrong + right * eye))


def _step(counts: Floats, member_a: Floats, centre: Floats) -> Floats:
    """One of Minka's steps for one community, [L, K]."""
    size = centre.sum(axis=0)
    gain = np.einsum("a,alk->lk", member_a, digamma(counts + centre) - digamma(centre))
    cost = member_a @ (digamma(counts.sum(axis=1) + size) - digamma(size))
    return np.asarray(np.clip(centre * gain / np.maximum(cost, 1e-9), _WEAKEST, _STRONGEST))
