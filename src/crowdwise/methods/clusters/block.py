"""The mixed-membership block model of observed pairs, by EM.

Model      both items of pair p draw a cluster from their memberships f; linked if equal, so P(link) = f_i . f_j
           annotator a says "same" with probability hit_a if linked, false_alarm_a if not
E-step     Z_p = H_p f_i.f_j + G_p (1 - f_i.f_j), with H and G the probabilities of the pair's answers
M-step     f_ik proportional to f_ik sum over the pairs of i of (H_p f_jk + G_p sum_{l != k} f_jl) / Z_p + spread / K

1 - f_i.f_j is summed over different clusters and never subtracted. Cost per iteration: O(P K + E); sums over pairs are two
products of a sparse matrix, whose pattern is made once.

Symbols
-------
f_ik : [N, K]      memberships; rows sum to one
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from crowdwise.engines.loop import Progress, Round, loop
from crowdwise.kernels.numerics import ratio
from crowdwise.kernels.types import Floats
from crowdwise.methods.clusters.pairs import Pairs, Rates

__all__ = ["BlockFit", "fit_blocks", "links", "log_likelihood", "one_cluster_each"]


@dataclass(frozen=True, eq=False)
class BlockFit:
    """Memberships and annotators, with the objective after every iteration."""

    membership: Floats
    rates: Rates
    trace: Floats
    converged: bool
    n_iter: int


def links(membership: Floats, pairs: Pairs) -> tuple[Floats, Floats]:
    """Probability that each pair is linked, and that it is not, [P] each."""
    others = _others(membership)
    first = membership[pairs.i]
    return np.einsum("pk,pk->p", first, membership[pairs.j]), np.einsum("pk,pk->p", first, others[pairs.j])


def log_likelihood(membership: Floats, rates: Rates, pairs: Pairs) -> Floats:
    """Log-probability of the answers on every pair, [P]."""
    return _combined(*rates.evidence(pairs), *links(membership, pairs))[0]


def fit_blocks(
    pairs: Pairs, start: Floats, rates: Rates, *, spread: float, max_iter: int, tol: float, progress: Progress | None = None
) -> BlockFit:
    """Run EM from memberships `start`, [N, K]; `spread` pseudo-pairs per item are shared among the clusters."""
    add = _Adder(pairs)
    f = np.maximum(start, 1e-9)
    f /= f.sum(axis=1, keepdims=True)
    pseudo = spread / f.shape[1]

    def step(before: tuple[Floats, Rates]) -> tuple[tuple[Floats, Rates], Round]:
        f, rates = before
        log_lik, linked, over_h, over_g = _combined(*rates.evidence(pairs), *links(f, pairs))
        objective = float(log_lik.sum()) + pseudo * float(np.log(np.maximum(f, 1e-300)).sum()) - rates.penalty()
        mass = f * (add(over_h) @ f + add(over_g) @ _others(f)) + pseudo
        total = mass.sum(axis=1, keepdims=True)
        # Items that nobody was asked about keep what they have.
        after = ratio(mass, total, f)
        # Memberships are mixed here and end in one cluster: the objective alone decides when they have settled.
        return (after, rates.update(pairs, linked)), Round(0.0, {"objective": objective})

    run = loop(step, (f, rates.update(pairs, links(f, pairs)[0])), max_iter=max_iter, tol=tol, progress=progress)
    return BlockFit(*run.state, run.trace["objective"], run.converged, run.n_iter)


def one_cluster_each(pairs: Pairs, fit: BlockFit, *, max_iter: int, tol: float) -> BlockFit:
    """Continue from mixed memberships with the model in which an item is in one cluster for all its pairs; mean field.

        log q_ik = log share_k + sum over the pairs of i of q_jk (log H_p - log G_p) + const

    Mixed memberships take part of the annotators' errors for mixture, which makes hit rates too high. All items move at
    once and by half, because full steps can swap neighbours back and forth.
    """
    add = _Adder(pairs)
    q, rates = fit.membership, fit.rates
    log_q = np.log(np.maximum(q, 1e-12))
    for _ in range(max_iter):
        log_h, log_g = rates.evidence(pairs)
        share = (q.sum(axis=0) + 1) / (len(q) + q.shape[1])
        log_q = 0.5 * log_q + 0.5 * (np.log(share) + add(log_h - log_g) @ q)
        log_q -= log_q.max(axis=1, keepdims=True)
        after = np.exp(log_q)
        after /= after.sum(axis=1, keepdims=True)
        change, q = float(np.abs(after - q).max(initial=0.0)), after
        rates = rates.update(pairs, links(q, pairs)[0])
        if change <= tol:
            break
    return replace(fit, membership=q, rates=rates)


def _others(f: Floats) -> Floats:
    """Sum over all other clusters, [N, K], without a difference that would cancel."""
    return f @ (1 - np.eye(f.shape[1]))


def _combined(log_h: Floats, log_g: Floats, same: Floats, different: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Log Z, the probability of the link, H / Z and G / Z, [P] each."""
    top = np.maximum(log_h, log_g)
    h, g = np.exp(log_h - top), np.exp(log_g - top)
    z = np.maximum(h * same + g * different, 1e-300)
    return top + np.log(z), h * same / z, h / z, g / z


class _Adder:
    """Symmetric sparse matrices [N, N] with given values on the pairs."""

    def __init__(self, pairs: Pairs) -> None:
        rows, columns = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
        self.order = np.lexsort((columns, rows))
        self.columns = columns[self.order]
        self.pointer = np.searchsorted(rows[self.order], np.arange(pairs.n_items + 1))
        self.shape = (pairs.n_items, pairs.n_items)

    def __call__(self, values: Floats) -> csr_array:
        return csr_array((np.concatenate([values, values])[self.order], self.columns, self.pointer), shape=self.shape)
