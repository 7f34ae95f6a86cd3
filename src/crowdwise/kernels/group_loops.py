"""Compiled loops of annotators in groups: votes sorted by item and group. Imported only where there are enough votes for it.

Symbols
-------
item_ptr : [N + 1]   pairs of an item and a group, by item
pair_ptr : [P + 1]   votes, by pair
group_p : [P]        group of every pair; the last one, J, holds those without a group
log_pi : [A L, C]    log P(observed l | what the group saw, c)
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["count_groups", "score_groups"]

# Sums over classes may be taken in any order, which is what lets them run in vector registers.
compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})

_FLOOR = 1e-300


@compiled
def _log_lambda(first: int, last: int, row: Integers, weight: Floats, log_pi: Floats, sums: Floats) -> float:
    """Log-probability of the votes of a pair given what its group saw, [C]; return the largest."""
    sums[:] = 0.0
    for e in range(first, last):
        w = weight[e] if len(weight) else 1.0
        for c in range(len(sums)):
            sums[c] += w * log_pi[row[e], c]
    top = sums[0]
    for c in range(1, len(sums)):
        top = max(top, sums[c])
    return float(top)


@compiled
def score_groups(
    start: int,
    stop: int,
    item_ptr: Integers,
    pair_ptr: Integers,
    group_p: Integers,
    row: Integers,
    weight: Floats,
    log_pi: Floats,
    xi_jkc: Floats,
    scores: Floats,
) -> None:
    """Add log mu of the pairs of every item to its row of `scores`, [N, K]."""
    n_groups, n_classes = len(xi_jkc) - 1, scores.shape[1]
    sums = np.empty(n_classes)
    for n in range(start, stop):
        for p in range(item_ptr[n], item_ptr[n + 1]):
            top = _log_lambda(pair_ptr[p], pair_ptr[p + 1], row, weight, log_pi, sums)
            j = group_p[p]
            if j == n_groups:
                for k in range(n_classes):
                    scores[n, k] += sums[k]
                continue
            for c in range(n_classes):
                sums[c] = math.exp(sums[c] - top)
            for k in range(n_classes):
                mu = 0.0
                for c in range(n_classes):
                    mu += xi_jkc[j, k, c] * sums[c]
                scores[n, k] += top + math.log(max(mu, _FLOOR))


@compiled
def count_groups(
    start: int,
    stop: int,
    item_ptr: Integers,
    pair_ptr: Integers,
    group_p: Integers,
    row: Integers,
    weight: Floats,
    log_pi: Floats,
    xi_jkc: Floats,
    posterior: Floats,
    counts: Floats,
    counts_jkc: Floats,
    pooled: Floats,
) -> None:
    """Expected counts of members [A L, C], of groups [J + 1, K, C] and of all by the true class [L, K]."""
    n_groups, n_classes = len(xi_jkc) - 1, posterior.shape[1]
    sums, seen = np.empty(n_classes), np.empty(n_classes)
    for n in range(start, stop):
        for p in range(item_ptr[n], item_ptr[n + 1]):
            j = group_p[p]
            if j == n_groups:
                seen[:] = posterior[n]
            else:
                top = _log_lambda(pair_ptr[p], pair_ptr[p + 1], row, weight, log_pi, sums)
                for c in range(n_classes):
                    sums[c], seen[c] = math.exp(sums[c] - top), 0.0
                for k in range(n_classes):
                    mu = 0.0
                    for c in range(n_classes):
                        mu += xi_jkc[j, k, c] * sums[c]
                    share = posterior[n, k] / mu if mu > 0 else posterior[n, k]
                    for c in range(n_classes):
                        both = share * xi_jkc[j, k, c] * sums[c]
                        seen[c] += both
                        counts_jkc[j, k, c] += both
            for e in range(pair_ptr[p], pair_ptr[p + 1]):
                w = weight[e] if len(weight) else 1.0
                label = row[e] % n_classes
                for c in range(n_classes):
                    counts[row[e], c] += w * seen[c]
                    pooled[label, c] += w * posterior[n, c]
