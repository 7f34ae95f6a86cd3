"""A label prior over latent states: every class splits into subtypes with shares of their own.

State s = k G + m is subtype m of class k, with prior probability d_k pi_km; pi_k ~ Dir(a / G, ..., a / G).

Symbols
-------
eta_km : [K, G]   Dirichlet parameters of the subtypes' shares within each class
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.kernels.numerics import dirichlet_kl, expected_log
from crowdwise.kernels.types import Array, Flags, Floats
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
    eta_km: Floats
    silent: Flags
    known: Array

    @property
    def probability(self) -> Floats:
        """Class shares, [K]."""
        return self.marginals.probability

    def log_prob(self) -> Floats:
        """log d_k + E[log pi_km] of every state, [1 or N, K G]."""
        return states_log_prior(self.marginals.log_prob(), expected_log(self.eta_km, 1), self.silent, self.known)

    def update(self, posterior: Floats) -> Subtypes:
        """Fit class shares and condition subtype shares on a posterior of the states, [N, K G]."""
        n_classes, n_subtypes = self.eta_km.shape
        xi_nkm = posterior.reshape(-1, n_classes, n_subtypes)
        eta_km = self.eta0 + xi_nkm[~self.silent].sum(axis=0)
        return replace(self, marginals=self.marginals.update(xi_nkm.sum(axis=2)), eta_km=eta_km)

    def penalty(self) -> float:
        """Minus the log prior of the class shares, plus the KL of the subtype shares."""
        return self.marginals.penalty() + dirichlet_kl(self.eta_km, np.asarray(self.eta0), 1)
