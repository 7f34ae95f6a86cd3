"""MACE's annotators: honest with probability theta_a, otherwise answering from an own habit.

P(observed l | true k) = theta_a 1[l = k] + (1 - theta_a) xi_a[l], with Beta and Dirichlet posteriors
for theta and xi (variational Bayes). The honesty of a single vote is summed out exactly, so a vote
adds one number to every class and another to the class it names.

Symbols
-------
honest_a : [A, 2]   Beta parameters of (honest, spamming)
habit_al : [A, L]   Dirichlet parameters of the spamming answers
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
    FittedToCounts,
    WithoutPosterior,
    infer_by_votes,
    taken,
    voted_log_lik,
    voted_mass,
)

__all__ = ["Spammer"]


@storable
@dataclass(frozen=True, eq=False)
class Spammer(FittedToCounts, WithoutPosterior):
    """Variational posterior over honesty and habits of every annotator."""

    shapes: ClassVar[dict[str, str]] = {"honest0": "ao", "habit0": "al", "honest_a": "ao"}
    honest0: Floats
    habit0: Floats
    honest_a: Floats
    habit_al: Floats

    @classmethod
    def start(cls, honest0: Floats, habit0: Floats) -> Spammer:
        """Before any data: the priors, [A, 2] and [A, L]."""
        return cls(honest0, habit0, honest0, habit0)

    def statistics(self, votes: Annotations, posterior: Floats) -> tuple[Floats, ...]:
        """Expected right answers, and answers, by label, two of [A, L].

        Honesty given a right vote depends on (annotator, label) only, so votes can be summed by row first.
        """
        shape = self.habit_al.shape
        return voted_mass(votes, posterior, votes.row, shape[0] * shape[1]).reshape(shape), votes.answers

    def conditioned(self, statistics: tuple[Floats, ...]) -> Spammer:
        """Condition on the counts of all votes.

        Given that a vote equals the label, it was honest with probability
        exp(E log theta) / (exp(E log theta) + exp(E log (1 - theta) + E log xi_l)); otherwise never.
        """
        voted, given = statistics
        log_honest, log_spam = self._log_terms()
        trusted = voted * np.exp(log_honest - np.logaddexp(log_honest, log_spam))
        honest, habit = trusted.sum(axis=1), np.maximum(given - trusted, 0.0)
        return replace(
            self,
            honest_a=self.honest0 + np.column_stack([honest, habit.sum(axis=1)]),
            habit_al=self.habit0 + habit,
        )

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step over labels and honesty together."""
        base, bonus = self._evidence()
        return infer_by_votes(votes, base, bonus, log_prior, known, posterior, votes.row)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote, [len(index), K]."""
        base, bonus = self._evidence()
        row = votes.row[index]
        return voted_log_lik(votes, index, base[row], bonus[row])

    def penalty(self) -> float:
        """KL of honesty and habits from their priors."""
        return dirichlet_kl(self.honest_a, self.honest0, 1) + dirichlet_kl(self.habit_al, self.habit0, 1)

    def aligned(self, index: Integers, item_index: Integers) -> Spammer:
        """Reorder; an annotator never seen has the mean prior."""
        honest0, habit0 = self.honest0.mean(axis=0), self.habit0.mean(axis=0)
        return replace(
            self,
            honest0=taken(self.honest0, index, honest0),
            habit0=taken(self.habit0, index, habit0),
            honest_a=taken(self.honest_a, index, honest0),
            habit_al=taken(self.habit_al, index, habit0),
        )

    @property
    def honesty(self) -> Floats:
        """Posterior mean of theta, [A]."""
        return np.asarray(self.honest_a[:, 0] / self.honest_a.sum(axis=1))

    def confusion(self) -> Floats:
        """Posterior mean of the mixture, [A, K, L]."""
        habit = self.habit_al / self.habit_al.sum(axis=1, keepdims=True)
        theta = self.honesty[:, None, None]
        return np.asarray(theta * np.eye(habit.shape[1]) + (1 - theta) * habit[:, None, :])

    def _log_terms(self) -> tuple[Floats, Floats]:
        """E log theta, [A, 1], and E log (1 - theta) + E log xi, [A, L]."""
        log_theta = expected_log(self.honest_a, 1)
        return log_theta[:, :1], log_theta[:, 1:] + expected_log(self.habit_al, 1)

    def _evidence(self) -> tuple[Floats, Floats]:
        """Per row of (annotator, label): evidence for every class, and what the voted class gets beyond it."""
        log_honest, log_spam = self._log_terms()
        return log_spam.ravel(), (np.logaddexp(log_honest, log_spam) - log_spam).ravel()
