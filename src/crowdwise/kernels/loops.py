"""Compiled loops of belief propagation and of heads with a matrix per annotator. Imported only where a problem pays for it.

They release the GIL and are serial inside, hence the same to the bit run after run.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = [
    "add_rows",
    "send_messages",
    "voted_scores",
    "voted_slopes",
]

# As in `crowdwise.kernels.nodes`: products of so many factors cannot underflow where each is above the bound.
_AT_ONCE, _SAFE_FACTOR = 8, 1e-30
# Exponentials of scores below this can be summed in single precision as they are.
_SAFE_SCORE = 60.0
# Sums may be taken in any order here, which is what lets them run in vector registers.
_vectorised = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})


@_vectorised
def _factor_into(factor: Floats, table: Floats, incoming: Floats) -> int:
    """sum_j incoming_j table_j at every node; return how many are too small for products."""
    for s in range(len(factor)):
        factor[s] = incoming[0] * table[0, s]
    for j in range(1, len(table)):
        for s in range(len(factor)):
            factor[s] += incoming[j] * table[j, s]
    # Counted, not compared with the smallest so far: counts run in vector registers.
    small = 0
    for s in range(len(factor)):
        small += factor[s] < _SAFE_FACTOR
    return small


@_vectorised
def send_messages(
    first: Integers,
    pattern: Integers,
    incoming: Floats,
    likelihood: Floats,
    in_logs: Flags,
    weight: Floats,
    log_total: Floats,
    message: Floats,
) -> bool:
    """A round of annotators who share a rule, one after another, so that all of one stays in the cache.

    Pairs are sorted by annotator and cut by `first` [U + 1]; `likelihood` [C, J, S] by pattern. `weight` [U, S] holds the
    nodes' weights before the votes and then after them, normalised: as logs where `in_logs` says so (always, for annotators
    of more than eight pairs). Writes the logs of what it divided by, [U], and the messages [P, J]. False where a factor is
    too small for products.
    """
    n_states, n_nodes = likelihood.shape[1], likelihood.shape[2]
    held, product, post, cavity = np.empty((_AT_ONCE, n_nodes)), np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)
    for u in range(len(first) - 1):
        n_pairs = first[u + 1] - first[u]
        row = weight[u]
        product[:] = 1.0
        for i in range(n_pairs):
            p = first[u] + i
            factor = held[i % _AT_ONCE]
            if _factor_into(factor, likelihood[pattern[p]], incoming[p]):
                return False
            for s in range(n_nodes):
                product[s] *= factor[s]
            if in_logs[u] and (i % _AT_ONCE == _AT_ONCE - 1 or i + 1 == n_pairs):
                # A logarithm costs as much as many products: take one per few pairs.
                for s in range(n_nodes):
                    row[s] += math.log(product[s])
                    product[s] = 1.0
        top, total = 0.0, 0.0
        if in_logs[u]:
            top = row[0]
            for s in range(1, n_nodes):
                top = max(top, row[s])
            for s in range(n_nodes):
                post[s] = math.exp(row[s] - top)
                total += post[s]
            for s in range(n_nodes):
                row[s] -= top + math.log(total)
        else:
            for s in range(n_nodes):
                post[s] = row[s] * product[s]
                total += post[s]
            for s in range(n_nodes):
                row[s] = post[s] / total
        log_total[u] = top + math.log(total)
        for i in range(n_pairs):
            p = first[u] + i
            table, factor = likelihood[pattern[p]], held[i % _AT_ONCE]
            if n_pairs > _AT_ONCE:
                _factor_into(factor, table, incoming[p])
            mass = 0.0
            for s in range(n_nodes):
                cavity[s] = post[s] / factor[s]
                mass += cavity[s]
            for j in range(n_states):
                value = 0.0
                for s in range(n_nodes):
                    value += cavity[s] * table[j, s]
                message[p, j] = value / mass
    return True


@_vectorised
def _bound(rows: Floats) -> float:
    """The largest Euclidean norm of a row."""
    most = 0.0
    for i in range(len(rows)):
        total = rows.dtype.type(0)
        for j in range(rows.shape[1]):
            total += rows[i, j] * rows[i, j]
        most = max(most, total)
    return math.sqrt(most)


@_vectorised
def voted_scores(f: Floats, matrices: Floats, position: Integers, entry: Integers, scores: Floats, voted: Floats) -> None:
    """f[position] @ matrices[annotator] of every vote, less its largest entry if some may be large; and the label's entry."""
    n_classes, n_labels = matrices.shape[1], matrices.shape[2]
    large = _bound(f) * _bound(matrices.reshape(len(matrices), -1)) > _SAFE_SCORE
    for e in range(len(entry)):
        a = entry[e] // n_labels
        row, matrix, own = f[position[e]], matrices[a], scores[e]
        for j in range(n_labels):
            own[j] = row[0] * matrix[0, j]
        for k in range(1, n_classes):
            for j in range(n_labels):
                own[j] += row[k] * matrix[k, j]
        if large:
            top = own[0]
            for j in range(1, n_labels):
                top = max(top, own[j])
            for j in range(n_labels):
                own[j] -= top
        voted[e] = own[entry[e] - a * n_labels]


@_vectorised
def add_rows(rows: Floats, total: Floats) -> None:
    """Sum every row."""
    for e in range(len(rows)):
        total[e] = rows[e, 0]
        for j in range(1, rows.shape[1]):
            total[e] += rows[e, j]


@_vectorised
def voted_slopes(
    f: Floats, matrices: Floats, position: Integers, entry: Integers, share: Floats, total: Floats, grad: Floats
) -> tuple[Floats, Floats]:
    """Slopes of log(share[label] / total) times `grad`, by f and by the matrices; share = exp(scores)."""
    n_classes, n_labels = matrices.shape[1], matrices.shape[2]
    by_row, by_matrix = np.zeros_like(f), np.zeros_like(matrices)
    each = np.empty(n_labels, f.dtype)
    for e in range(len(entry)):
        a, n = entry[e] // n_labels, position[e]
        scale = grad[e] / total[e]
        for j in range(n_labels):
            each[j] = -scale * share[e, j]
        each[entry[e] - a * n_labels] += grad[e]
        matrix, slope = matrices[a], by_matrix[a]
        for k in range(n_classes):
            summed = by_row[n, k]
            for j in range(n_labels):
                summed += each[j] * matrix[k, j]
                slope[k, j] += f[n, k] * each[j]
            by_row[n, k] = summed
    return by_row, by_matrix
