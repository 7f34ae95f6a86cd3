"""Compiled loops over pairs of answers on one item and over pairs of annotators. Imported only for votes that pay for it.

They are serial inside, hence the same to the bit run after run.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["count_meetings", "meeting_keys", "products", "rank_one"]

# Sums over pairs may be taken in any order, which is what lets them run in vector registers.
compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})


@compiled
def count_meetings(item_ptr: Integers, annotator: Integers, label: Integers, size: int, table: Integers) -> None:
    """Add 2^32 for every meeting of two annotators, and one where they agree, to their cell of a table [size * size]."""
    for n in range(len(item_ptr) - 1):
        for i in range(item_ptr[n], item_ptr[n + 1]):
            row, own = annotator[i] * size, label[i]
            for j in range(i + 1, item_ptr[n + 1]):
                table[row + annotator[j]] += 4_294_967_296 + (label[j] == own)


@compiled
def meeting_keys(item_ptr: Integers, annotator: Integers, label: Integers, size: int, key: Integers) -> None:
    """Write one number for every meeting, 2 (a * size + b), and one more where they agree."""
    at = 0
    for n in range(len(item_ptr) - 1):
        for i in range(item_ptr[n], item_ptr[n + 1]):
            row, own = annotator[i] * size, label[i]
            for j in range(i + 1, item_ptr[n + 1]):
                key[at] = 2 * (row + annotator[j]) + (label[j] == own)
                at += 1


@compiled
def products(first: Integers, second: Integers, table: Floats, result: Floats) -> None:
    """Write the scalar product of the rows of every pair."""
    for p in range(len(first)):
        total = 0.0
        for c in range(table.shape[1]):
            total += table[first[p], c] * table[second[p], c]
        result[p] = total


@compiled
def rank_one(
    first: Integers,
    second: Integers,
    value: Floats,
    sampling: Floats,
    pseudo: float,
    lowest: float,
    far: float,
    rounds: int,
    least_rounds: int,
    least_step: float,
    misfit: float,
    u: Floats,
) -> float:
    """The rounds of `crowdwise.engines.independence` over pairs sorted by `first`: overwrite u_a, return the misfit.

    `pseudo` are the pseudo-meetings with an average annotator over the mean variance of one meeting.
    """
    n_pairs, size = len(first), len(u)
    excess, up, down, degree = np.empty(n_pairs), np.empty(size), np.empty(size), np.empty(size)
    for p in range(n_pairs):
        excess[p] = value[p] - u[first[p]] * u[second[p]]
    for done in range(rounds):
        up[:], down[:], degree[:] = 0.0, 0.0, 0.0
        for p in range(n_pairs):
            a, b, above = first[p], second[p], max(excess[p], 0.0) / far
            # Beyond `far` standard deviations z the weight is (far / z)^2 / variance, which is far^2 / excess^2.
            w = 1.0 / max(sampling[p] + misfit, above * above)
            ua, ub, ws = u[a], u[b], w * value[p]
            up[a] += ws * ub
            down[a] += w * ub * ub
            degree[a] += w
            up[b] += ws * ua
            down[b] += w * ua * ua
            degree[b] += w
        total, heavy = 0.0, 0.0
        for a in range(size):
            total += (degree[a] + 1e-9) * u[a]
            heavy += degree[a] + 1e-9
        average, step = total / heavy, 0.0
        prior = pseudo * average * average
        for a in range(size):
            fitted = min(max((up[a] + prior * average) / max(down[a] + prior, 1e-12), lowest), 1.0)
            step = max(step, abs(fitted - u[a]))
            u[a] = 0.5 * u[a] + 0.5 * fitted
        top, bottom, below = 0.0, 0.0, False
        for p in range(n_pairs):
            e = value[p] - u[first[p]] * u[second[p]]
            excess[p] = e
            if e < 0:
                precision = 1.0 / (sampling[p] + misfit + 1e-6)
                top += (e * e - sampling[p]) * precision * precision
                bottom += precision * precision
                below = True
        if below:
            misfit = 0.5 * misfit + 0.5 * max(top / bottom, 0.0)
        if step < least_step and done > least_rounds:
            break
    return misfit
