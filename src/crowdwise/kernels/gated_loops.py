"""Compiled loops over votes that several confusion matrices explain. Imported only where there are enough votes for it.

M components, [A, L, M, K] with columns that sum to one over the labels L; a vote reads the M x K numbers of its annotator
and label. No array has a row per vote and class.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["gated_slopes", "gated_votes", "normalise_labels"]


# The smallest probability of a vote: below it single-precision products of two probabilities become denormal.
_FLOOR = 1e-30
# Sums of exponentials between these have lost nothing that a probability above the floor could miss.
_SMALL, _LARGE = 1e-6, 1e30
# Sums may be taken in any order, which is what lets them run in vector registers; still the same to the bit run after run.
_vectorised = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})


@_vectorised
def normalise_labels(table: Floats, trace: Floats) -> bool:
    """Divide exponentials [A, L, M, K] by their sum over L, in place, and write the traces, [A, M].

    False where a sum came near the ends of single precision: the logits have to be taken closer to zero first.
    """
    n_annotators, n_labels, n_components, n_classes = table.shape
    flat = table.reshape(n_annotators, n_labels, n_components * n_classes)
    total = np.empty(flat.shape[2], table.dtype)
    for a in range(n_annotators):
        for j in range(len(total)):
            total[j] = flat[a, 0, j]
        for l in range(1, n_labels):
            for j in range(len(total)):
                total[j] += flat[a, l, j]
        # Counted, not left at once: counts run in vector registers.
        unsafe = 0
        for j in range(len(total)):
            unsafe += (total[j] < _SMALL) | (total[j] > _LARGE)
            total[j] = 1 / total[j]
        if unsafe:
            return False
        for l in range(n_labels):
            for j in range(len(total)):
                flat[a, l, j] *= total[j]
        for m in range(n_components):
            trace[a, m] = 0
            for k in range(n_classes):
                trace[a, m] += table[a, k, m, k]
    return True


@_vectorised
def _exp_rows(logits: Floats) -> Floats:
    """Exponentials of few numbers per row, the largest of which becomes one."""
    result = np.empty_like(logits)
    for n in range(len(logits)):
        top = logits[n, 0]
        for m in range(1, logits.shape[1]):
            top = max(top, logits[n, m])
        for m in range(logits.shape[1]):
            result[n, m] = math.exp(logits[n, m] - top)
    return result


@_vectorised
def gated_votes(
    f: Floats, table: Floats, trace: Floats, item_gate: Floats, own_gate: Floats, position: Integers, entry: Integers
) -> tuple[Floats, Floats, Floats, Floats]:
    """Per vote: shares of the components [E, M], its probability under each [E, M], and the mixtures of both and traces [E]."""
    n_labels, n_components, n_classes = table.shape[1:]
    rows = table.reshape(-1, n_components, n_classes)
    u, v = _exp_rows(item_gate), _exp_rows(own_gate)
    gate, explained = np.empty((len(entry), n_components), f.dtype), np.empty((len(entry), n_components), f.dtype)
    voted, traced = np.empty(len(entry), f.dtype), np.empty(len(entry), f.dtype)
    floor = f.dtype.type(_FLOOR)
    for e in range(len(entry)):
        n, a = position[e], entry[e] // n_labels
        own, row = f[n], rows[entry[e]]
        mass = f.dtype.type(0)
        for m in range(n_components):
            gate[e, m] = u[n, m] * v[a, m]
            mass += gate[e, m]
        mass = 1 / max(mass, floor)
        joint, mixed = f.dtype.type(0), f.dtype.type(0)
        for m in range(n_components):
            total = f.dtype.type(0)
            for k in range(n_classes):
                total += own[k] * row[m, k]
            share = gate[e, m] * mass
            gate[e, m] = share
            explained[e, m] = total
            joint += share * total
            mixed += share * trace[a, m]
        voted[e] = max(joint, floor)
        traced[e] = mixed
    return gate, explained, voted, traced


@_vectorised
def gated_slopes(
    f: Floats,
    table: Floats,
    trace: Floats,
    position: Integers,
    entry: Integers,
    gate: Floats,
    explained: Floats,
    voted: Floats,
    strength: float,
    grad: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Slopes of ``strength * traced - log(voted)`` times `grad`, by log f, the table's logits and both logits of the gate."""
    n_annotators, n_labels, n_components, n_classes = table.shape
    rows = table.reshape(-1, n_components, n_classes)
    by_f, by_table = np.zeros_like(f), np.zeros_like(table)
    by_item, by_own = np.zeros((len(f), n_components), f.dtype), np.zeros_like(trace)
    by_rows, by_trace = by_table.reshape(rows.shape), np.zeros_like(trace)
    weight = f.dtype.type(strength)
    for e in range(len(entry)):
        n, a = position[e], entry[e] // n_labels
        own, by_f_row, row, by_row = f[n], by_f[n], rows[entry[e]], by_rows[entry[e]]
        surprise, noise = grad[e] / voted[e], weight * grad[e]
        mean = f.dtype.type(0)
        for m in range(n_components):
            mean += gate[e, m] * (noise * trace[a, m] - surprise * explained[e, m])
        for m in range(n_components):
            slope = gate[e, m] * (noise * trace[a, m] - surprise * explained[e, m] - mean)
            by_item[n, m] += slope
            by_own[a, m] += slope
            by_trace[a, m] += noise * gate[e, m]
            each = -surprise * gate[e, m]
            for k in range(n_classes):
                by_f_row[k] += each * row[m, k]
                by_row[m, k] += each * own[k]
    for n in range(len(f)):
        for k in range(n_classes):
            by_f[n, k] *= f[n, k]
    flat, slopes = table.reshape(n_annotators, n_labels, -1), by_table.reshape(n_annotators, n_labels, -1)
    total = np.empty(flat.shape[2], f.dtype)
    for a in range(n_annotators):
        for m in range(n_components):
            for k in range(n_classes):
                by_table[a, k, m, k] += by_trace[a, m]
        for j in range(len(total)):
            total[j] = slopes[a, 0, j] * flat[a, 0, j]
        for l in range(1, n_labels):
            for j in range(len(total)):
                total[j] += slopes[a, l, j] * flat[a, l, j]
        for l in range(n_labels):
            for j in range(len(total)):
                slopes[a, l, j] = flat[a, l, j] * (slopes[a, l, j] - total[j])
    return by_f, by_table, by_item, by_own
