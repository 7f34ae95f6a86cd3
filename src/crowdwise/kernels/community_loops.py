"""Compiled loops over annotators in communities: Dirichlet-multinomial rows. Imported only where there are enough for it.

Symbols
-------
counts_alk : [A, L, K]   expected counts
eta_mlk : [M, L, K]      Dirichlet parameters of the communities
rho_am : [A, M]          memberships; what is less than rounding is left out
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numba
import numpy as np

from crowdwise.kernels.state_loops import psi_and_log_gamma
from crowdwise.kernels.types import Floats

__all__ = ["add_gains", "community_rows", "evidence_of_communities"]

compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})

_NOTHING = 1e-17


@compiled
def _prior_terms(eta_mlk: Floats, terms: Floats, totals: Floats) -> None:
    """Psi and log-gamma of all parameters, [2, M, L, K]; their sums over labels, and psi and log-gamma of these, [3, M, K]."""
    for m in range(eta_mlk.shape[0]):
        for k in range(eta_mlk.shape[2]):
            total = 0.0
            for j in range(eta_mlk.shape[1]):
                terms[0, m, j, k], terms[1, m, j, k] = psi_and_log_gamma(eta_mlk[m, j, k])
                total += eta_mlk[m, j, k]
            totals[0, m, k] = total
            totals[1, m, k], totals[2, m, k] = psi_and_log_gamma(total)


@compiled
def evidence_of_communities(start: int, stop: int, counts_alk: Floats, eta_mlk: Floats, evidence_am: Floats) -> None:
    """log DM(C_a | eta_m), summed over true classes, of the annotators start:stop."""
    n_communities, n_labels, n_classes = eta_mlk.shape
    terms, totals = np.empty((2, *eta_mlk.shape)), np.empty((3, n_communities, n_classes))
    _prior_terms(eta_mlk, terms, totals)
    for a in range(start, stop):
        for m in range(n_communities):
            value = 0.0
            for k in range(n_classes):
                total = 0.0
                for j in range(n_labels):
                    own = counts_alk[a, j, k]
                    total += own
                    if own > 0:
                        value += psi_and_log_gamma(own + eta_mlk[m, j, k])[1] - terms[1, m, j, k]
                if total > 0:
                    value -= psi_and_log_gamma(total + totals[0, m, k])[1] - totals[2, m, k]
            evidence_am[a, m] = value


@compiled
def add_gains(
    start: int, stop: int, counts_alk: Floats, rho_am: Floats, eta_mlk: Floats, gain_mlk: Floats, cost_mk: Floats
) -> None:
    """Add rho (psi(C + eta) - psi(eta)) and the same of the sums over labels: what Minka's step divides."""
    n_communities, n_labels, n_classes = eta_mlk.shape
    terms, totals = np.empty((2, *eta_mlk.shape)), np.empty((3, n_communities, n_classes))
    _prior_terms(eta_mlk, terms, totals)
    for a in range(start, stop):
        for m in range(n_communities):
            rho = rho_am[a, m]
            if rho < _NOTHING:
                continue
            for k in range(n_classes):
                total = 0.0
                for j in range(n_labels):
                    own = counts_alk[a, j, k]
                    total += own
                    if own > 0:
                        gain_mlk[m, j, k] += rho * (psi_and_log_gamma(own + eta_mlk[m, j, k])[0] - terms[0, m, j, k])
                if total > 0:
                    cost_mk[m, k] += rho * (psi_and_log_gamma(total + totals[0, m, k])[0] - totals[1, m, k])


@compiled
def community_rows(start: int, stop: int, counts_alk: Floats, rho_am: Floats, eta_mlk: Floats, table_alk: Floats) -> float:
    """Write E[log R] of the annotators start:stop; return the sum of rho log DM(C_a | eta_m). `table_alk` is zero before."""
    n_communities, n_labels, n_classes = eta_mlk.shape
    terms, totals = np.empty((2, *eta_mlk.shape)), np.empty((3, n_communities, n_classes))
    _prior_terms(eta_mlk, terms, totals)
    evidence = 0.0
    for a in range(start, stop):
        for m in range(n_communities):
            rho = rho_am[a, m]
            if rho < _NOTHING:
                continue
            for k in range(n_classes):
                total = 0.0
                for j in range(n_labels):
                    total += counts_alk[a, j, k]
                psi_total, log_gamma = psi_and_log_gamma(total + totals[0, m, k])
                value = totals[2, m, k] - log_gamma
                for j in range(n_labels):
                    psi, log_gamma = psi_and_log_gamma(counts_alk[a, j, k] + eta_mlk[m, j, k])
                    table_alk[a, j, k] += rho * (psi - psi_total)
                    value += log_gamma - terms[1, m, j, k]
                evidence += rho * value
    return evidence
