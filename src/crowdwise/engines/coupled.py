"""Coupled least squares on pairwise and sampled third moments, rows kept on the simplex by ADMM.

    min  sum_p w_p |M_ab - R_a' D R_b|^2 + sum_t w_t |T_abc - sum_k d_k r_ak (x) r_bk (x) r_ck|^2

For one annotator this is a quadratic in its table A_a = R_a' [L, K]: tr(A G A') - 2 tr(V' A) with

    G = D [sum_b w R_b R_b' + sum_bc w (R_b R_b') * (R_c R_c')] D,   V = [sum_b w M_ab R_b' + sum_bc w T(., R_b, R_c)] D

All annotators take their step at once from the same others, halfway (parallel updates of products
overshoot; half a step contracts), then the class shares theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines.moments import Estimate
from crowdwise.kernels.cooccurrence import simplex_projection
from crowdwise.kernels.types import Floats

if TYPE_CHECKING:
    from crowdwise.engines.moments import Cooccurrence
    from crowdwise.engines.triples import Triples

__all__ = ["coupled_estimate"]


_INNER = 10


def coupled_estimate(moments: Cooccurrence, triples: Triples, start: Estimate, max_iter: int, tol: float) -> Estimate:
    """Refine a start whose classes are in one order; `tol` bounds the last change of an entry."""
    n_annotators, n_classes = moments.count_al.shape
    weight_p = moments.met_p / moments.met_p.sum()
    pair_share = moments.count_c / moments.met_p.sum()
    partners = moments.between(weight_p)
    weight_t = triples.met / max(float(triples.met.sum()), 1e-300)
    tensor = triples.count / np.maximum(triples.met, 1e-300)[:, None, None, None] * weight_t[:, None, None, None]
    ends = [_sums(n_annotators, triples.ends[:, place]) for place in range(3)]
    table, shares = start.annotators.copy(), start.shares.copy()
    dual = np.zeros_like(table)
    change = np.inf
    n_iter = 0
    while n_iter < max_iter and change >= tol:
        n_iter += 1
        gram = np.einsum("alk,alm->akm", table, table)
        around = (partners @ gram.reshape(n_annotators, -1)).reshape(gram.shape)
        g = around.copy()
        v = moments.times(pair_share, table.reshape(-1, n_classes)).reshape(table.shape)
        of = [table[triples.ends[:, place]] for place in range(3)]
        grams = [gram[triples.ends[:, place]] for place in range(3)]
        for place, (b, c) in enumerate(((1, 2), (0, 2), (0, 1))):
            g += (ends[place] @ (weight_t[:, None, None] * grams[b] * grams[c]).reshape(-1, n_classes**2)).reshape(g.shape)
            rest = "".join("xyz"[i] for i in range(3) if i != place)
            path = f"txyz,t{rest[0]}k,t{rest[1]}k->t{'xyz'[place]}k"
            part = np.einsum(path, tensor, of[b], of[c], optimize=True).reshape(-1, n_classes**2)
            v += (ends[place] @ part).reshape(v.shape)
        best, dual = _simplex_rows(g * np.outer(shares, shares), v * shares, table, dual)
        best_shares = _shares(table, v, gram, around, grams, weight_t, of, tensor)
        change = max(float(np.abs(best - table).max(initial=0.0)), float(np.abs(best_shares - shares).max()))
        table, shares = 0.5 * (table + best), 0.5 * (shares + best_shares)
    return Estimate(table, shares, start.seen, n_iter, change < tol)


def _simplex_rows(g: Floats, v: Floats, table: Floats, dual: Floats) -> tuple[Floats, Floats]:
    """ADMM for min tr(A G A') - 2 tr(V' A) with every column of A (a row of R) on the simplex; batched over annotators."""
    n_classes = g.shape[1]
    rho = np.maximum(np.einsum("akk->a", g) / n_classes, 1e-12)[:, None, None]
    inverse = np.linalg.inv(g + rho * np.eye(n_classes)).transpose(0, 2, 1)
    # Rows of R side by side, as the projection reads them.
    v, projected, dual = (np.ascontiguousarray(part.transpose(0, 2, 1)) for part in (v, table, dual))
    for _ in range(_INNER):
        free = inverse @ (v + rho * (projected + dual))
        projected = simplex_projection(free - dual)
        dual = dual + projected - free
    return projected.transpose(0, 2, 1), dual.transpose(0, 2, 1)


def _shares(
    table: Floats, v: Floats, gram: Floats, around: Floats, grams: list[Floats], weight_t: Floats, of: list[Floats],
    tensor: Floats,
) -> Floats:  # fmt: skip
    """Class shares given the tables: least squares on all pairs and triples, projected onto the simplex."""
    n_classes = table.shape[2]
    # Every pair is met from both its ends, every triple from all three.
    left = 0.5 * np.einsum("akm,akm->km", gram, around)
    triple_left = np.einsum("t,tkm,tkm,tkm->km", weight_t, *grams) if len(weight_t) else np.zeros_like(left)
    triple_right = np.einsum("txyz,txk,tyk,tzk->k", tensor, *of, optimize=True) if len(weight_t) else np.zeros(n_classes)
    pair_right = 0.5 * (np.einsum("alk,alk->k", table, v) - 3 * triple_right)
    system = left + triple_left
    solution = np.linalg.solve(system + 1e-10 * np.trace(system) * np.eye(n_classes), pair_right + triple_right)
    return simplex_projection(solution)


def _sums(size: int, index: Any) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((np.ones(len(index)), (index, np.arange(len(index)))), shape=(size, len(index)))
