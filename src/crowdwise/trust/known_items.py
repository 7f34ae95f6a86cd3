"""The items whose true class is known, checked, and the classes that a posterior chooses for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import InputError
from crowdwise.kernels.types import Floats, Integers

__all__ = ["TIE", "chosen_classes", "known_items"]

# Probabilities closer than this are one value: equal votes summed in another order differ by less.
TIE = 1e-9


def known_items(posterior: ArrayLike, truth: ArrayLike) -> tuple[Floats, Integers]:
    """Check both arrays and keep the items whose class is known."""
    q_nk, z_n = np.asarray(posterior, float), np.asarray(truth)
    if q_nk.ndim != 2 or q_nk.shape[1] == 0:
        raise InputError(f"posterior must have shape [N, K] with K >= 1, got {q_nk.shape}")
    if z_n.shape != q_nk.shape[:1]:
        raise InputError(f"truth must hold one class code per item: expected shape {q_nk.shape[:1]}, got {z_n.shape}")
    if z_n.size and z_n.dtype.kind not in "iu":
        raise InputError(
            f"truth must be integer class codes, -1 where unknown, got {z_n.dtype}; encode labels with votes.with_gold"
        )
    z_n = z_n.astype(np.int64)
    outside = np.flatnonzero((z_n < -1) | (z_n >= q_nk.shape[1]))
    if len(outside):
        n = int(outside[0])
        raise InputError(f"truth of item {n} is {z_n[n]}; codes go from 0 to {q_nk.shape[1] - 1}, or -1 for unknown")
    # Single precision sums a hundred classes to within 1e-5 of one.
    bad = np.flatnonzero(~((q_nk >= 0).all(axis=1) & (np.abs(q_nk.sum(axis=1) - 1) < 1e-4)))
    if len(bad):
        raise InputError(f"row {int(bad[0])} of the posterior is not a distribution: it must be >= 0 and sum to one")
    known = z_n >= 0
    return q_nk[known], z_n[known]


def chosen_classes(q_nk: Floats) -> Floats:
    """Return 1/m at the m classes tied for the highest probability, zero elsewhere, [N, K]."""
    best_nk = q_nk >= q_nk.max(axis=1, keepdims=True) - TIE
    return np.asarray(best_nk / best_nk.sum(axis=1, keepdims=True))
