"""Annotators whose confusion matrix is one of a few, or of many draws: a weight on each (mean field).

    log rho_as = log omega_s + sum_kl C_akl log R_s[k, l] + const,   evidence of a vote l for k: sum_s rho_as log R_s[k, l]

Any prior over confusion matrices can be given this way, by its atoms or by draws from it.

Symbols
-------
table_slk : [S, L, K]   P(observed l | true k) of atom s
log_prior_as, log_post_as : [A, S]   weights of the atoms before and after the votes, each row summing to one
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.pairs import row_softmax
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import ByTable, counts_of, taken

__all__ = ["AtomMixture", "matched_concentration"]


# A posterior on one atom has no variance; as a Dirichlet it is a very strong one.
_MOST_CERTAIN = 1e6
_LEAST_CERTAIN = 1e-3


@storable
@dataclass(frozen=True, eq=False)
class AtomMixture(ByTable):
    """Variational weights of the atoms for every annotator."""

    table_slk: Floats
    log_weight: Floats
    log_prior_as: Floats
    log_post_as: Floats
    expects_logs: ClassVar[bool] = True

    @classmethod
    def start(cls, table_slk: Floats, log_weight: Floats, history_alk: Floats | None, n_annotators: int) -> AtomMixture:
        """Before these votes: the weights, conditioned on earlier answers."""
        log_prior = np.tile(log_weight, (n_annotators, 1))
        if history_alk is not None:
            log_prior = _normalised(log_prior + _log_lik(history_alk, table_slk))
        return cls(table_slk, log_weight, log_prior, log_prior)

    def update(self, votes: Annotations, posterior: Floats) -> AtomMixture:
        """Weigh the atoms by the expected log-likelihood of the votes."""
        log_lik_as = _log_lik(counts_of(votes, posterior), self.table_slk)
        return replace(self, log_post_as=_normalised(self.log_prior_as + log_lik_as))

    def log_table(self) -> Floats:
        """E[log R], [A, L, K]."""
        return np.tensordot(np.exp(self.log_post_as), log_floored(self.table_slk), axes=1)

    def penalty(self) -> float:
        """KL of the weights from their prior."""
        return float((np.exp(self.log_post_as) * (self.log_post_as - self.log_prior_as)).sum())

    def aligned(self, index: Integers, item_index: Integers) -> AtomMixture:
        """Reorder; an annotator never seen has the prior weights."""
        prior, post = (taken(weights, index, self.log_weight) for weights in (self.log_prior_as, self.log_post_as))
        return replace(self, log_prior_as=prior, log_post_as=post)

    def confusion(self) -> Floats:
        """Posterior mean, [A, K, L]."""
        return np.tensordot(np.exp(self.log_post_as), self.table_slk, axes=1).transpose(0, 2, 1)

    def concentration(self) -> Floats:
        """Dirichlet rows with the posterior's mean and its variance of the right answer, [A, K, L]."""
        right_sk = np.einsum("skk->sk", self.table_slk)
        square = np.exp(self.log_post_as) @ right_sk**2
        return matched_concentration(self.confusion(), square)


def matched_concentration(mean_akl: Floats, square_ak: Floats) -> Floats:
    """Dirichlet parameters with these means and this second moment of the diagonal, [A, K, L]."""
    right = np.einsum("akk->ak", mean_akl)
    variance = np.maximum(square_ak - right**2, 1e-300)
    total = np.clip(right * (1 - right) / variance - 1, _LEAST_CERTAIN, _MOST_CERTAIN)
    return np.asarray(mean_akl * total[:, :, None])


def _log_lik(counts_alk: Floats, table_slk: Floats) -> Floats:
    """Sum of counts times log-probabilities, [A, S]."""
    return np.asarray(counts_alk.reshape(len(counts_alk), -1) @ log_floored(table_slk).reshape(len(table_slk), -1).T)


def _normalised(log_weight_as: Floats) -> Floats:
    _, log_total = row_softmax(log_weight_as.copy())
    return np.asarray(log_weight_as - log_total[:, None])
