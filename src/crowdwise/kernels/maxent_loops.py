"""Compiled loops of minimax entropy over votes sorted by item. Imported only when a problem is large enough to pay for it.

exp(sigma + tau) is a product of two factors, one per annotator and one per item: no exponential is taken per vote. Where an
item surely is not of a class, its confusion there is zero.

Symbols
-------
factor_alk : [A, L, K]   exp(sigma - its largest entry over l)
tau_nlk : [N, L, K]      confusion of items
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["add_expected", "climb_items", "infer_maxent"]

# Sums over l may be taken in any order, which is what lets them run in vector registers.
compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})

# A class of less probability moves no confusion by more than rounding does.
_NOTHING = 1e-16
# Ratios are multiplied up to here before a logarithm is taken of them.
_SMALL = 1e-200


@compiled
def _factor(tau_lk: Floats, k: int, factor: Floats) -> None:
    """exp(tau - its largest entry) of one class, [L]."""
    top = tau_lk[0, k]
    flat = True
    for j in range(1, len(factor)):
        flat &= tau_lk[j, k] == top
        top = max(top, tau_lk[j, k])
    for j in range(len(factor)):
        factor[j] = 1.0 if flat else math.exp(tau_lk[j, k] - top)


@compiled
def _factors_of(tau_lk: Floats, column: Floats, factor_lk: Floats) -> None:
    """exp(tau - its largest entry) of all classes, [L, K]."""
    for k in range(len(column)):
        _factor(tau_lk, k, column)
        for j in range(len(column)):
            factor_lk[j, k] = column[j]


@compiled
def _add_expected(own: Floats, factor_lk: Floats, mass: Floats, total: Floats, expected: Floats) -> None:
    """Add mass_k P(l | k) of a vote, [L, K]."""
    n_classes = len(mass)
    for k in range(n_classes):
        total[k] = own[0, k] * factor_lk[0, k]
    for j in range(1, n_classes):
        for k in range(n_classes):
            total[k] += own[j, k] * factor_lk[j, k]
    for k in range(n_classes):
        total[k] = mass[k] / total[k]
    for j in range(n_classes):
        for k in range(n_classes):
            expected[j, k] += total[k] * own[j, k] * factor_lk[j, k]


@compiled
def add_expected(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    factor_alk: Floats,
    tau_nlk: Floats,
    posterior: Floats,
    voted_alk: Floats,
    expected_alk: Floats,
) -> None:
    """Add q_nk to the label that each vote has, and q_nk P(l | k) to all labels, of its annotator."""
    n_classes = posterior.shape[1]
    column, total, mass = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    factor_lk = np.empty((n_classes, n_classes))
    for n in range(start, stop):
        _factors_of(tau_nlk[n], column, factor_lk)
        for e in range(item_ptr[n], item_ptr[n + 1]):
            a = annotator[e]
            for k in range(n_classes):
                mass[k] = posterior[n, k] * (weight[e] if len(weight) else 1.0)
                voted_alk[a, label[e], k] += mass[k]
            _add_expected(factor_alk[a], factor_lk, mass, total, expected_alk[a])


@compiled
def climb_items(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    factor_alk: Floats,
    tau_nlk: Floats,
    posterior: Floats,
    penalty: float,
    gentle: bool,
    climbed_nlk: Floats,
) -> None:
    """The step of `crowdwise.parts.annotators.maxent` on every item's confusion; `climbed_nlk` is zero before."""
    n_classes = posterior.shape[1]
    column, total, mass = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    shape = (n_classes, n_classes)
    factor_lk, voted, expected = np.empty(shape), np.empty(shape), np.empty(shape)
    for n in range(start, stop):
        _factors_of(tau_nlk[n], column, factor_lk)
        voted[:] = 0.0
        expected[:] = 0.0
        for e in range(item_ptr[n], item_ptr[n + 1]):
            for k in range(n_classes):
                mass[k] = posterior[n, k] * (weight[e] if len(weight) else 1.0)
                voted[label[e], k] += mass[k]
            _add_expected(factor_alk[annotator[e]], factor_lk, mass, total, expected)
        for k in range(n_classes):
            if posterior[n, k] > _NOTHING and item_ptr[n] < item_ptr[n + 1]:
                _climb(tau_nlk[n], voted, expected, k, penalty, gentle, column, climbed_nlk[n])


@compiled
def _climb(
    tau_lk: Floats, voted: Floats, expected: Floats, k: int, penalty: float, gentle: bool, step: Floats, climbed_lk: Floats
) -> None:
    """One class of one item."""
    n_classes = len(step)
    along, room, total = 0.0, 0.0, 0.0
    for j in range(n_classes):
        total += expected[j, k]
    for j in range(n_classes):
        curve = (0.5 * total if gentle else expected[j, k]) + penalty
        step[j] = (voted[j, k] - expected[j, k] - penalty * tau_lk[j, k]) / curve
        along += expected[j, k] * step[j]
        room += penalty * expected[j, k] / curve
    low, high, mean = np.inf, -np.inf, 0.0
    for j in range(n_classes):
        if room > 0 and not gentle:
            step[j] += expected[j, k] / (expected[j, k] + penalty) * along / room
        low, high = min(low, step[j]), max(high, step[j])
    width = high - low
    length = math.log1p(width) / width if width > 0 and not gentle else 1.0
    for j in range(n_classes):
        step[j] = tau_lk[j, k] + length * step[j]
        mean += step[j] / n_classes
    for j in range(n_classes):
        climbed_lk[j, k] = step[j] - mean


@compiled
def infer_maxent(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    factor_alk: Floats,
    tau_nlk: Floats,
    scores: Floats,
) -> None:
    """Add log P(vote | k), weighted, of all votes of every item to its row of `scores`, [N, K]."""
    n_classes = scores.shape[1]
    factor, factor_lk = np.empty(n_classes), np.empty((n_classes, n_classes))
    total, ratio = np.empty(n_classes), np.empty(n_classes)
    for n in range(start, stop):
        _factors_of(tau_nlk[n], factor, factor_lk)
        ratio[:] = 1.0
        for e in range(item_ptr[n], item_ptr[n + 1]):
            own, voted = factor_alk[annotator[e]], label[e]
            for k in range(n_classes):
                total[k] = own[0, k] * factor_lk[0, k]
            for j in range(1, n_classes):
                for k in range(n_classes):
                    total[k] += own[j, k] * factor_lk[j, k]
            if len(weight):
                for k in range(n_classes):
                    scores[n, k] += weight[e] * math.log(own[voted, k] * factor_lk[voted, k] / total[k])
                continue
            least = 1.0
            for k in range(n_classes):
                ratio[k] *= own[voted, k] * factor_lk[voted, k] / total[k]
                least = min(least, ratio[k])
            if least < _SMALL:
                for k in range(n_classes):
                    scores[n, k] += math.log(ratio[k])
                    ratio[k] = 1.0
        for k in range(n_classes):
            scores[n, k] += math.log(ratio[k])
