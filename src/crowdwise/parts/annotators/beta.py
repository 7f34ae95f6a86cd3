"""Annotators with one accuracy, or one per true class, under Beta posteriors (variational Bayes).

    w_ac ~ Beta(right + expected right answers, wrong + expected wrong answers)
    evidence of a vote: E log w for the class it names, E log (1 - w) - log (K - 1) for every other

where c is the true class, or the same for all (one-coin). Wrong answers are uniform over the K - 1
other classes.

Symbols
-------
prior_acr, beta_acr : [A, C, 2]   Beta parameters of (right, wrong); C is 1 (one-coin) or K
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import dirichlet_kl, expected_log
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import (
    counts_of,
    infer_by_table,
    infer_by_votes,
    table_log_lik,
    taken,
    voted_log_lik,
    voted_mass,
)

__all__ = ["BetaAccuracy"]


@storable
@dataclass(frozen=True, eq=False)
class BetaAccuracy:
    """Beta posteriors of accuracies; with one accuracy for all classes a step costs O(E)."""

    prior_acr: Floats
    beta_acr: Floats
    n_classes: int
    expects_logs: ClassVar[bool] = True

    @classmethod
    def start(cls, prior_acr: Floats, n_classes: int) -> BetaAccuracy:
        """Before any data: the prior."""
        return cls(prior_acr, prior_acr, n_classes)

    def update(self, votes: Annotations, posterior: Floats) -> BetaAccuracy:
        """Condition on expected right and wrong answers."""
        if self.n_classes == 1:
            # With one class every vote is right, whatever w says.
            return self
        if self.prior_acr.shape[1] == 1:
            right = voted_mass(votes, posterior, votes.annotator, votes.n_annotators)[:, None]
            total = votes.weight_per_annotator[:, None]
        else:
            counts = counts_of(votes, posterior)
            right, total = np.einsum("akk->ak", counts), counts.sum(axis=1)
        return replace(self, beta_acr=self.prior_acr + np.stack([right, np.maximum(total - right, 0.0)], axis=2))

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step with E[log w] in the place of log w."""
        hit, miss = self._evidence()
        if hit.shape[1] > 1:
            return infer_by_table(votes, np.exp(_table(hit, miss)), log_prior, known, posterior)
        who = votes.annotator
        return infer_by_votes(votes, miss[who, 0], (hit - miss)[who, 0], log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote, [len(index), K]."""
        hit, miss = self._evidence()
        if hit.shape[1] > 1:
            return table_log_lik(votes, index, _table(hit, miss))
        who = votes.annotator[index]
        return voted_log_lik(votes, index, miss[who, 0], (hit - miss)[who, 0])

    def penalty(self) -> float:
        """KL of every accuracy from its prior."""
        return dirichlet_kl(self.beta_acr, self.prior_acr, 2)

    def aligned(self, index: Integers, item_index: Integers) -> BetaAccuracy:
        """Reorder; an annotator never seen has the mean prior."""
        prior, beta = (taken(rows, index, self.prior_acr.mean(axis=0)) for rows in (self.prior_acr, self.beta_acr))
        return replace(self, prior_acr=prior, beta_acr=beta)

    def confusion(self) -> Floats:
        """Posterior mean, [A, K, L]."""
        rows = self.concentration()
        return np.asarray(rows / rows.sum(axis=2, keepdims=True))

    def concentration(self) -> Floats:
        """Dirichlet rows whose diagonal has the Beta posterior, [A, K, L]."""
        n_classes = self.n_classes
        right, wrong = (np.repeat(part, n_classes // part.shape[1], axis=1) for part in np.moveaxis(self.beta_acr, 2, 0))
        return _table(right, wrong / max(n_classes - 1, 1)).transpose(0, 2, 1)

    def _evidence(self) -> tuple[Floats, Floats]:
        """Expected log-probabilities of a vote for the true class and for any single other, [A, C] each."""
        if self.n_classes == 1:
            zeros = np.zeros(self.prior_acr.shape[:2])
            return zeros, zeros
        log_w = expected_log(self.beta_acr, 2)
        return log_w[:, :, 0], log_w[:, :, 1] - np.log(self.n_classes - 1)


def _table(right_ak: Floats, wrong_ak: Floats) -> Floats:
    """[A, L, K] with `right` on the diagonal and `wrong` of the true class beside it."""
    diagonal = np.eye(right_ak.shape[1], dtype=bool)
    return np.where(diagonal, right_ak[:, None, :], wrong_ak[:, None, :])
