"""Symmetric non-negative factorisation of the matrix of all pairwise moments, missing blocks imputed.

    X = [M_ab] = H H',  H_a = R_a' D^(1/2) >= 0      ([A L, A L], rank K)

1. Diagonal blocks are unknown and pairs that never met are missing: fill them from the present rank-K
   fit, take the K leading eigenpairs, repeat (weighted low-rank approximation). Observed blocks enter
   with weight w_ab in (0, 1], by their meetings. X is never formed: with G_b = H_b' V_b,
   X V = (w M) V - H (w G) + H (H' V), in O(cells K + pairs K^2).
2. U = scaled eigenvectors equals H up to a rotation Q. Find it by turns: H <- max(U Q, 0), Q <- the
   orthonormal matrix nearest to U' H.
"""

from __future__ import annotations

import numpy as np

from crowdwise.engines.moments import Cooccurrence, Estimate, class_shares
from crowdwise.kernels.cooccurrence import distributions
from crowdwise.kernels.types import Floats

__all__ = ["low_rank_factor", "nonnegative_rotation", "symmetric_estimate"]


def symmetric_estimate(moments: Cooccurrence, start: Estimate, max_iter: int, tol: float) -> Estimate:
    """Factorise from a start whose classes are in one order; the result keeps that order."""
    n_annotators, n_classes = moments.count_al.shape
    factor = start.annotators.reshape(-1, n_classes) * np.sqrt(start.shares)
    factor, rounds, settled = low_rank_factor(moments, factor, max_iter, tol)
    turned = nonnegative_rotation(factor, start.annotators.reshape(-1, n_classes) * np.sqrt(start.shares))
    table = distributions(turned.reshape(n_annotators, n_classes, n_classes), 1)
    return Estimate(table, class_shares(table, moments, start.seen), start.seen, rounds, settled)


def low_rank_factor(moments: Cooccurrence, factor: Floats, max_iter: int, tol: float) -> tuple[Floats, int, bool]:
    """Scaled leading eigenvectors of the completed moment matrix, [A L, K], up to rotation; rounds; whether it settled."""
    n_annotators, n_classes = moments.count_al.shape
    # In proportion to meetings, as least squares asks; the busiest pairs share full weight, because one
    # extreme pair would push all other weights, and with them the rate of convergence, towards zero.
    weight_p = np.minimum(moments.met_p / np.quantile(moments.met_p, 0.99), 1.0)
    observed = moments.both_ways(moments.count_c * (weight_p / moments.met_p)[moments.pair_of_cell])
    weight = moments.between(weight_p)

    def completed(v: Floats) -> Floats:
        inner = np.einsum("alk,alm->akm", *(m.reshape(n_annotators, n_classes, -1) for m in (factor, v)))
        inner = (weight @ inner.reshape(n_annotators, -1)).reshape(n_annotators, n_classes, -1)
        model = np.einsum("alk,akm->alm", factor.reshape(n_annotators, n_classes, -1), inner)
        return np.asarray(observed @ v - model.reshape(v.shape) + factor @ (factor.T @ v))

    basis = np.linalg.qr(factor)[0]
    previous = np.zeros(n_classes)
    for iteration in range(1, max_iter + 1):
        image = completed(basis)
        basis = np.linalg.qr(image)[0]
        small = basis.T @ completed(basis)
        values, vectors = np.linalg.eigh((small + small.T) / 2)
        values = np.maximum(values, 1e-12)
        factor = (basis @ vectors) * np.sqrt(values)
        if np.abs(values - previous).max() <= tol * values.max():
            return factor, iteration, True
        previous = values
    return factor, max_iter, False


def nonnegative_rotation(factor: Floats, target: Floats, steps: int = 2000) -> Floats:
    """Rotate `factor` into the non-negative orthant, starting from the rotation nearest to `target`."""
    rotation = _nearest(factor.T @ target)
    for _ in range(steps):
        turned = factor @ rotation
        new = _nearest(factor.T @ np.maximum(turned, 0.0))
        if np.abs(new - rotation).max() < 1e-12:
            break
        rotation = new
    return np.maximum(factor @ rotation, 0.0)


def _nearest(matrix: Floats) -> Floats:
    """The orthonormal matrix nearest to `matrix`."""
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)
