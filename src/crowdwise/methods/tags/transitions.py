"""How tags follow each other: first tag and transitions as a point (EM) or with Dirichlet rows (variational Bayes).

Symbols
-------
table_jk : [K + 1, K]   tag k after tag j; the last row is the first tag of a sequence
allowed : [K + 1, K]    what may be; the rest has no parameter and probability 0
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from crowdwise.kernels.chains import Messages
from crowdwise.kernels.numerics import dirichlet_kl, expected_log, log_floored, ratio
from crowdwise.kernels.types import Flags, Floats

__all__ = ["DirichletTransitions", "TransitionModel", "Transitions", "counted"]


class TransitionModel(Protocol):
    """What the engine asks of transitions."""

    def weights(self) -> tuple[Floats, Floats]:
        """Weights of the first tag, [K], and of transitions, [K, K]."""

    def tilt(self, evidence: Floats) -> Floats:
        """The evidence of votes, [N, K], times what else is known of every token."""

    def update(self, counts: Floats, posterior: Floats) -> TransitionModel:
        """Fit to expected counts, [K + 1, K], and to the posterior of every token, [N, K]."""

    def penalty(self) -> float:
        """What the model subtracts from the bound."""

    def probability(self) -> Floats:
        """The point estimate, [K + 1, K]."""


def counted(messages: Messages) -> Floats:
    """Expected transitions and, in the last row, first tags."""
    return np.vstack([messages.pairs_jk, messages.first_k])


@dataclass(frozen=True, eq=False)
class Transitions:
    """A point: proportional to expected counts plus a pseudo-count where allowed (a MAP step)."""

    allowed: Flags
    pseudo_count: float
    table_jk: Floats

    @classmethod
    def start(cls, allowed: Flags, pseudo_count: float) -> Transitions:
        """Before any data: everything allowed is equally likely."""
        return cls(allowed, pseudo_count, allowed / allowed.sum(axis=1, keepdims=True))

    def tilt(self, evidence: Floats) -> Floats:
        """Nothing else is known."""
        return evidence

    def update(self, counts: Floats, posterior: Floats) -> Transitions:
        """Normalise the rows."""
        mass = np.where(self.allowed, counts + self.pseudo_count, 0.0)
        total = mass.sum(axis=1, keepdims=True)
        return replace(self, table_jk=ratio(mass, total, self.table_jk))

    def weights(self) -> tuple[Floats, Floats]:
        """The probabilities."""
        return self.table_jk[-1], self.table_jk[:-1]

    def penalty(self) -> float:
        """Minus the log-density of Dirichlet(1 + pseudo-count) rows, up to its constant."""
        return float(-self.pseudo_count * log_floored(self.table_jk[self.allowed]).sum())

    def probability(self) -> Floats:
        """The probabilities."""
        return self.table_jk


@dataclass(frozen=True, eq=False)
class DirichletTransitions:
    """Dirichlet rows over what is allowed: alpha = alpha0 + expected counts."""

    allowed: Flags
    alpha0: float
    alpha_jk: Floats

    @classmethod
    def start(cls, allowed: Flags, alpha0: float) -> DirichletTransitions:
        """Before any data: the prior."""
        return cls(allowed, alpha0, np.where(allowed, alpha0, 0.0))

    def tilt(self, evidence: Floats) -> Floats:
        """Nothing else is known."""
        return evidence

    def update(self, counts: Floats, posterior: Floats) -> DirichletTransitions:
        """Condition the rows on expected counts."""
        return replace(self, alpha_jk=np.where(self.allowed, self.alpha0 + counts, 0.0))

    def weights(self) -> tuple[Floats, Floats]:
        """exp E log of the probabilities."""
        table = np.zeros_like(self.alpha_jk)
        for row, allowed in enumerate(self.allowed):
            table[row, allowed] = np.exp(expected_log(self.alpha_jk[row, allowed], 0))
        return table[-1], table[:-1]

    def penalty(self) -> float:
        """KL of every row from its prior."""
        rows = [self.alpha_jk[row, allowed] for row, allowed in enumerate(self.allowed)]
        return sum(dirichlet_kl(row, np.full(len(row), self.alpha0), 0) for row in rows)

    def probability(self) -> Floats:
        """Posterior mean."""
        return np.asarray(self.alpha_jk / self.alpha_jk.sum(axis=1, keepdims=True))
