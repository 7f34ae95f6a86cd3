"""Exact intervals of a share: Clopper and Pearson's, from the quantiles of a Beta distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.kernels.types import Floats

__all__ = ["share_interval", "upper_bound"]


def share_interval(hits: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Ends of the interval that covers the true share with at least `level`; 0 and 1 where n is 0.

    Examples
    --------
    >>> low, high = share_interval(0, 10)
    >>> float(low), round(float(high), 4)  # 1 - 0.025 ** (1 / 10)
    (0.0, 0.3085)
    """
    from scipy.special import betaincinv

    hits, n = np.broadcast_arrays(np.asarray(hits, float), np.asarray(n, float))
    tail = (1 - level) / 2
    misses = n - hits
    low = np.where(hits <= 0, 0.0, betaincinv(np.maximum(hits, 1e-12), misses + 1, tail))
    high = np.where(misses <= 0, 1.0, betaincinv(hits + 1, np.maximum(misses, 1e-12), 1 - tail))
    return low, high


def upper_bound(hits: ArrayLike, n: ArrayLike, level: float = 0.95) -> Floats:
    """Bound that lies above the true share with at least `level` (one-sided).

    Examples
    --------
    >>> round(float(upper_bound(0, 59)), 4)  # 1 - 0.05 ** (1 / 59)
    0.0495
    """
    return share_interval(hits, n, 2 * level - 1)[1]
