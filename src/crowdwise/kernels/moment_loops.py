"""Compiled loops over cells of co-occurrences, sorted by their left row. Imported only where there are enough cells for it."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["add_products", "composite_pass"]

# Sums over classes may be taken in any order, which is what lets them run in vector registers.
compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})

_FLOOR = 1e-300


@compiled
def composite_pass(
    start: int, stop: int, row_ptr: Integers, right: Integers, count: Floats, table: Floats, scaled: Floats, sums: Floats
) -> float:
    """For cells of the rows start:stop, weight = count / sum_k table[left, k] scaled[right, k], add weight times the other
    end's row of the table to both ends of `sums`; return the sum of count log(model).
    """
    n_classes = table.shape[1]
    own, mine = np.empty(n_classes), np.empty(n_classes)
    value = 0.0
    for i in range(start, stop):
        for k in range(n_classes):
            own[k], mine[k] = table[i, k], 0.0
        for c in range(row_ptr[i], row_ptr[i + 1]):
            j = right[c]
            model = 0.0
            for k in range(n_classes):
                model += own[k] * scaled[j, k]
            model = max(model, _FLOOR)
            value += count[c] * math.log(model)
            weight = count[c] / model
            for k in range(n_classes):
                mine[k] += weight * table[j, k]
                sums[j, k] += weight * own[k]
        for k in range(n_classes):
            sums[i, k] += mine[k]
    return value


@compiled
def add_products(start: int, stop: int, row_ptr: Integers, right: Integers, value: Floats, table: Floats, sums: Floats) -> None:
    """Add value times the other end's row of the table to both ends of every cell: a symmetric matrix times the table."""
    width = table.shape[1]
    mine = np.empty(width)
    for i in range(start, stop):
        mine[:] = 0.0
        for c in range(row_ptr[i], row_ptr[i + 1]):
            j = right[c]
            for k in range(width):
                mine[k] += value[c] * table[j, k]
                sums[j, k] += value[c] * table[i, k]
        for k in range(width):
            sums[i, k] += mine[k]
