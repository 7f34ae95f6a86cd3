"""Coupled non-negative factorisation of all pairwise moments, as EM on their composite likelihood.

    maximise  sum_{a < b} sum_ij C_ab[i, j] log sum_k d_k R_a[k, i] R_b[k, j]

which is min sum N_ab KL(M_ab || R_a' D R_b) over distributions. With weight_ab,ij = C_ab[i, j] / model,

    R_a[k, i] proportional to R_a[k, i] d_k sum_{b, j} weight_ab,ij R_b[k, j]
    d_k       proportional to sum of the same over a and i

is its EM step: closed form, no step size, never worse. Only cells that occurred enter: O(cells K).
"""

from __future__ import annotations

import numpy as np

from crowdwise.engines.moments import Cooccurrence, Estimate, others_table
from crowdwise.engines.separable import multi_spa
from crowdwise.kernels.numerics import COMPILED_FROM, FLOOR, in_ranges, log_floored, ratio
from crowdwise.kernels.types import Floats

__all__ = ["best_start", "composite_em", "composite_step"]


def composite_em(
    moments: Cooccurrence, table: Floats, shares: Floats, max_iter: int, tol: float
) -> tuple[Floats, Floats, list[float], bool]:
    """Run EM from a table [A L, K] and class shares [K]; return both, the objective per step and whether it settled.

    The objective is per meeting; `tol` bounds its last gain.
    """
    trace: list[float] = []
    for _ in range(max_iter):
        table, shares, value = composite_step(moments, table, shares)
        trace.append(value)
        if len(trace) > 1 and trace[-1] - trace[-2] <= tol:
            return table, shares, trace, True
    return table, shares, trace, False


def composite_step(moments: Cooccurrence, table: Floats, shares: Floats) -> tuple[Floats, Floats, float]:
    """One EM step; the value returned is that of the parameters given."""
    n_annotators, n_classes = moments.count_al.shape
    scaled = table * shares
    total = max(float(moments.count_c.sum()), 1e-300)
    if len(moments.count_c) < COMPILED_FROM:
        model = np.einsum("ck,ck->c", table[moments.left], scaled[moments.right])
        value = float((moments.count_c * log_floored(model)).sum()) / total
        counts = scaled * (moments.both_ways(moments.count_c / np.maximum(model, FLOOR)) @ table)
    else:
        from crowdwise.kernels.moment_loops import composite_pass

        arrays = (moments.row_ptr, moments.right, moments.count_c, np.ascontiguousarray(table), scaled)

        def run(start: int, stop: int) -> tuple[float, Floats]:
            sums = np.zeros(table.shape)
            return composite_pass(start, stop, *arrays, sums), sums

        parts = in_ranges(moments.row_ptr, run)
        value = sum(part for part, _ in parts) / total
        counts = scaled * sum(sums for _, sums in parts)
    mass = counts.reshape(n_annotators, n_classes, n_classes).sum(axis=1)
    # Annotators or classes that carry no mass keep their rows.
    rows = np.repeat(mass, n_classes, axis=0)
    table = ratio(counts, rows, table)
    shares = mass.sum(axis=0) / max(float(mass.sum()), 1e-300)
    return table, shares, value


def best_start(moments: Cooccurrence, steps: int = 20) -> Estimate:
    """The better of two starts after a few EM steps: successive projection, and the others' labels as truth.

    The first does not need a trustworthy majority, the second works with few meetings.
    """
    n_classes = moments.n_classes
    starts = [others_table(moments)]
    corners = multi_spa(moments)
    if corners.seen.any():
        flat = starts[0][0].reshape(corners.annotators.shape)
        table = np.where(corners.seen[:, None, None], corners.annotators, flat)
        # A zero could never become positive again.
        table, shares = np.maximum(table, 1e-7), np.maximum(corners.shares, 1e-7)
        starts.append(((table / table.sum(axis=1, keepdims=True)).reshape(-1, n_classes), shares / shares.sum()))
    runs = [composite_em(moments, *start, max_iter=steps, tol=1e-12) for start in starts]
    table, shares, trace, settled = max(runs, key=lambda run: run[2][-1])
    seen = moments.met_a > 0
    return Estimate(table.reshape(-1, n_classes, n_classes), shares, seen, len(trace), settled)
