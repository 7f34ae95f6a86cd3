"""A label prior over latent states: every class splits into subtypes with shares of their own.

Subtype m of class k has prior probability d_k pi_km; pi_k ~ Dir(a / G, ..., a / G). A state is a subtype, or several of a class
that are equal: subtypes without any mass, which most are before long, need to be computed once.

Symbols
-------
class_s, times_s : [S]   class of a state, and how many equal subtypes it stands for
mass_s : [S]             posterior mass of the state on items with votes
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Array, Flags, Floats, Integers
from crowdwise.parts.priors.anchored import Anchored
from crowdwise.parts.priors.marginals import Marginals

__all__ = ["Subtypes", "states_log_prior"]


def states_log_prior(log_prior: Floats, log_pi_km: Floats, silent: Flags, known: Array) -> Floats:
    """Log prior of the states, [1 or N, K G], from that of the classes, [1 or N, K].

    Items without votes (`silent`) say nothing of subtypes: their states share the class's prior
    evenly, so that they end at the class prior exactly. States of other classes than a `known` one are impossible.
    """
    n_classes, n_subtypes = log_pi_km.shape
    states = (log_prior[:, :, None] + log_pi_km).reshape(len(log_prior), -1)
    if not silent.any() and not len(known):
        return states
    states = np.array(np.broadcast_to(states, (len(silent), states.shape[1])))
    states[silent] = np.repeat(np.broadcast_to(log_prior, (len(silent), n_classes))[silent], n_subtypes, axis=1) - np.log(
        n_subtypes
    )
    if len(known):
        other = known[:, None] != np.repeat(np.arange(n_classes), n_subtypes)
        states[other & (known >= 0)[:, None]] = -np.inf
    return states


@dataclass(frozen=True, eq=False)
class Subtypes:
    """Class shares (a point) times subtype shares with Dirichlet posteriors."""

    marginals: Marginals | Anchored
    eta0: float
    class_s: Integers
    times_s: Floats
    mass_s: Floats
    silent: Flags
    known: Array

    @property
    def probability(self) -> Floats:
        """Class shares, [K]."""
        return self.marginals.probability

    @property
    def eta_s(self) -> Floats:
        """Dirichlet parameter of each subtype of a state, [S]."""
        return self.eta0 + self.mass_s / self.times_s

    def log_rows(self) -> tuple[Floats, Floats]:
        """Log prior of the states of an item with votes, and of one without, which says nothing of subtypes, [S] each."""
        from scipy.special import digamma

        log_d = self.marginals.log_prob()[0][self.class_s] + np.log(self.times_s)
        log_pi = digamma(self.eta_s) - digamma(self._by_class(self.times_s * self.eta_s))[self.class_s]
        return log_d + log_pi, log_d - np.log(self._by_class(self.times_s))[self.class_s]

    def log_prob(self) -> Floats:
        """Log prior of the states of every item, [1 or N, S]; states of other classes than a `known` one are impossible."""
        voted, even = self.log_rows()
        if not self.silent.any() and not len(self.known):
            return voted[None]
        rows = np.where(self.silent[:, None], even, voted)
        if len(self.known):
            rows[(self.known[:, None] != self.class_s) & (self.known >= 0)[:, None]] = -np.inf
        return rows

    def conditioned(self, mass: Floats) -> Subtypes:
        """Fit class shares and condition subtype shares on the mass of the states on items with votes and without, [2, S]."""
        return replace(self, marginals=self.marginals.conditioned(self._by_class(mass.sum(axis=0))), mass_s=mass[0])

    def penalty(self) -> float:
        """Minus the log prior of the class shares, plus the KL of the subtype shares."""
        from scipy.special import digamma, gammaln

        total, count = self._by_class(self.times_s * self.eta_s), self._by_class(self.times_s)
        kl = (gammaln(total) - gammaln(count * self.eta0)).sum()
        kl -= (self.times_s * (gammaln(self.eta_s) - gammaln(self.eta0))).sum()
        kl += (self.mass_s * (digamma(self.eta_s) - digamma(total)[self.class_s])).sum()
        return self.marginals.penalty() + float(kl)

    def _by_class(self, values_s: Floats) -> Floats:
        return segment_sum(self.class_s, values_s, int(self.class_s.max(initial=-1)) + 1)
