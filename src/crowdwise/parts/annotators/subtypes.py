"""Annotators who answer by the subtype of an item: the read-out of a fit over more states than classes.

P(observed l | class k, subtype m) = v_akml with Dirichlet rows, as in `DirichletConfusion` with K G
states; this part sums the subtypes out again, so that the rest of the library sees K classes.

Symbols
-------
beta_als : [A, L, K G]   Dirichlet parameters of v; state s = k G + m
eta_km : [K, G]          Dirichlet parameters of the subtypes' shares within each class
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import dirichlet_kl, expected_log, overwrite
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import DirichletConfusion, counts_of, infer_by_table
from crowdwise.parts.annotators.states import states_log_lik
from crowdwise.parts.priors.subtypes import states_log_prior

__all__ = ["SubtypeConfusion"]


@storable
@dataclass(frozen=True, eq=False)
class SubtypeConfusion:
    """Dirichlet confusion rows per annotator, class and subtype, with the subtypes' shares."""

    prior_als: Floats
    beta_als: Floats
    eta0: float
    eta_km: Floats

    def update(self, votes: Annotations, posterior: Floats) -> SubtypeConfusion:
        """Condition on a posterior of the classes, [N, K], with the subtypes inferred from the present values."""
        xi = self._states(votes, np.log(np.maximum(posterior, 1e-300)), np.empty(0, np.int16))[0]
        eta_km = self.eta0 + xi[votes.weight_per_item > 0].sum(axis=0).reshape(self.eta_km.shape)
        return replace(self, beta_als=self.prior_als + counts_of(votes, xi), eta_km=eta_km)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Infer states, then add the subtypes of each class."""
        xi, evidence = self._states(votes, log_prior, known)
        q_nk = xi.reshape(len(xi), *self.eta_km.shape).sum(axis=2)
        return evidence, overwrite(posterior, q_nk, known)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote for every class, given the other votes on its item, [len(index), K]."""
        return states_log_lik(votes, index, expected_log(self.beta_als, 1), expected_log(self.eta_km, 1))

    def penalty(self) -> float:
        """KL of every confusion row and of the subtypes' shares from their priors."""
        subtypes = dirichlet_kl(self.eta_km, np.asarray(self.eta0), 1)
        return DirichletConfusion(self.prior_als, self.beta_als).penalty() + subtypes

    def aligned(self, index: Integers, item_index: Integers) -> SubtypeConfusion:
        """Reorder; an annotator never seen has the prior."""
        states = DirichletConfusion(self.prior_als, self.beta_als).aligned(index, item_index)
        return replace(self, prior_als=states.prior_alk, beta_als=states.beta_alk)

    def confusion(self) -> Floats:
        """Posterior mean over subtypes, [A, K, L]."""
        mean_als = self.beta_als / self.beta_als.sum(axis=1, keepdims=True)
        return self._over_subtypes(mean_als)

    def concentration(self) -> Floats:
        """Dirichlet parameters whose mean is `confusion()` and whose weight is that of the class's votes, [A, K, L]."""
        prior = self._over_subtypes(np.broadcast_to(self.prior_als, self.beta_als.shape)).sum(axis=2)
        n_annotators, n_labels, _ = self.beta_als.shape
        counts = (self.beta_als - self.prior_als).reshape(n_annotators, n_labels, *self.eta_km.shape).sum(axis=(1, 3))
        return np.asarray(self.confusion() * (prior + counts)[:, :, None])

    def _over_subtypes(self, values_als: Floats) -> Floats:
        """Mean over the subtypes of each class by their shares, [A, K, L]."""
        pi_km = self.eta_km / self.eta_km.sum(axis=1, keepdims=True)
        by_subtype = values_als.reshape(*values_als.shape[:2], *self.eta_km.shape)
        return np.asarray(np.einsum("alkm,km->akl", by_subtype, pi_km))

    def _states(self, votes: Annotations, log_prior: Floats, known: Integers) -> tuple[Floats, float]:
        """Posterior of the states, [N, K G], and the log-evidence."""
        silent = votes.weight_per_item == 0
        xi = np.zeros((votes.n_items, self.eta_km.size))
        log_states = states_log_prior(log_prior, expected_log(self.eta_km, 1), silent, known)
        evidence, _ = infer_by_table(votes, np.exp(expected_log(self.beta_als, 1)), log_states, np.empty(0, np.int16), xi)
        return xi, evidence
