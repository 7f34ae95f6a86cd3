"""Compiled loops for P(vote is right) = sigmoid(ability x easiness): `logistic` calls them where a problem pays for it.

Each works on the items ``start:stop`` and releases the GIL. What costs is exp(-|s|) of every vote, s = ability x easiness; the
rest follows from it. So votes are gathered, a few hundred at a time, and their exponentials are taken in vector registers.
Logarithms of 1 + exp(-|s|) would cost as much: unweighted votes multiply these factors, each between 1 and 2, and one
logarithm is taken of many.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["ability_terms", "climb_easiness", "exponentials", "infer_logistic"]

# Sums may be taken in any order, which is what lets them run in vector registers; but not where digits are rounded on purpose.
in_order = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})

# A product of factors of at most 2 is folded into a sum of logarithms above this.
_LARGE = 1e290
# Items and votes in view at a time (an item with more votes comes alone): what is gathered stays in the nearest cache.
_ITEMS, _VOTES = 64, 512

# Below this, exp is taken as zero. Adding _ROUND leaves the nearest whole number in the last bits of a sum.
_LOWEST, _ROUND = -708.0, 1.5 * 2.0**52
# log(2) in two parts, of which the first has few digits, so that whole multiples of it are exact.
_LOG2, _LOG2_HIGH, _LOG2_LOW = math.log(2), 6.93147180369123816490e-01, 1.90821492927058770002e-10
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1 / math.factorial(power) for power in range(2, 14))


@in_order
def exponentials(size: int, x: Floats, out: Floats) -> None:
    """Write exp of the first `size` numbers, each at most 709; `x` is overwritten. Numbers do not depend on each other.

    exp(x) = 2^k exp(r) with k whole and |r| <= log(2) / 2, where 13 terms of the series are exact to the last digit.
    """
    for i in range(size):
        nothing = x[i] < _LOWEST
        shifted = _ROUND if nothing else x[i] * (1 / _LOG2) + _ROUND
        k = shifted - _ROUND
        r = (x[i] - k * _LOG2_HIGH) - k * _LOG2_LOW
        high = _C8 + r * (_C9 + r * (_C10 + r * (_C11 + r * (_C12 + r * _C13))))
        value = 1.0 + r * (1.0 + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * (_C6 + r * (_C7 + r * high)))))))
        out[i] = 0.0 if nothing else value
        x[i] = shifted
    # 2^k: k is added to the exponent of the number.
    bits, whole = out.view(np.int64), x.view(np.int64)
    for i in range(size):
        bits[i] += whole[i] << 52


@compiled
def _room(start: int, stop: int, item_ptr: Integers) -> int:
    """Votes that must fit: a few hundred, or those of the largest item."""
    largest = _VOTES
    for n in range(start, stop):
        largest = max(largest, item_ptr[n + 1] - item_ptr[n])
    return largest


@compiled
def _last_in_view(first: int, stop: int, item_ptr: Integers) -> int:
    """Items first:last are looked at together."""
    last = first + 1
    while last < stop and last - first < _ITEMS and item_ptr[last + 1] - item_ptr[first] <= _VOTES:
        last += 1
    return last


@compiled
def _gather(
    first: int, last: int, item_ptr: Integers, annotator: Integers, ability: Floats, easiness: Floats, view: Floats
) -> int:
    """Write s and exp(-|s|) of the votes on the items first:last into the first rows of `view`; return how many there are."""
    begin = item_ptr[first]
    for n in range(first, last):
        for e in range(item_ptr[n], item_ptr[n + 1]):
            view[0, e - begin] = ability[annotator[e]] * easiness[n]
    size = int(item_ptr[last] - begin)
    for i in range(size):
        view[2, i] = -abs(view[0, i])
    exponentials(size, view[2], view[1])
    return size


@compiled
def _sigmoids(size: int, view: Floats) -> None:
    """Write sigmoid(s) of the votes in view into its last row."""
    for i in range(size):
        view[2, i] = (1.0 if view[0, i] >= 0 else view[1, i]) / (1.0 + view[1, i])


@compiled
def _all_wrong(begin: int, size: int, weight: Floats, log_others: float, view: Floats) -> float:
    """Sum of log sigmoid(-s) - log_others of the votes in view, of which the first is `begin`."""
    value = 0.0
    if len(weight):
        for i in range(size):
            value -= weight[begin + i] * (max(view[0, i], 0.0) + math.log1p(view[1, i]) + log_others)
        return value
    for start in range(0, size, _VOTES):
        product = 1.0
        for i in range(start, min(start + _VOTES, size)):
            value -= max(view[0, i], 0.0)
            product *= 1.0 + view[1, i]
        value -= math.log(product)
    return value - size * log_others


@compiled
def ability_terms(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    easiness: Floats,
    sums: Floats,
) -> None:
    """Add each vote's value, slope and curvature by its annotator's ability to `sums`, [A, 4].

    Of values, the logarithm of the last column, which starts at one, is still to be subtracted.
    """
    view = np.empty((3, _room(start, stop, item_ptr)))
    first = start
    while first < stop:
        last = _last_in_view(first, stop, item_ptr)
        _sigmoids(_gather(first, last, item_ptr, annotator, ability, easiness, view), view)
        for n in range(first, last):
            scale = easiness[n]
            for e in range(item_ptr[n], item_ptr[n + 1]):
                i = e - item_ptr[first]
                a, rho = annotator[e], posterior[n, label[e]]
                s, sigma = view[0, i], view[2, i]
                value = (s if s < 0 else 0.0) - (1 - rho) * s
                if len(weight):
                    w = weight[e]
                    sums[a, 0] += w * (value - math.log1p(view[1, i]))
                    sums[a, 1] += w * (rho - sigma) * scale
                    sums[a, 2] += w * sigma * (1 - sigma) * scale * scale
                else:
                    sums[a, 0] += value
                    sums[a, 1] += (rho - sigma) * scale
                    sums[a, 2] += sigma * (1 - sigma) * scale * scale
                    sums[a, 3] *= 1.0 + view[1, i]
                    if sums[a, 3] > _LARGE:
                        sums[a, 0] -= math.log(sums[a, 3])
                        sums[a, 3] = 1.0
        first = last


@compiled
def _easiness_terms(
    n: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    b: float,
    centre: float,
) -> tuple[float, float, float]:
    """Value, slope and negative curvature by the log-easiness b of item n, with its N(centre, 1) prior."""
    easiness = math.exp(b)
    value, slope, curve, product = 0.0, 0.0, 0.0, 1.0
    for e in range(item_ptr[n], item_ptr[n + 1]):
        rho = posterior[n, label[e]]
        s = ability[annotator[e]] * easiness
        decay = math.exp(-abs(s))
        sigma = (1.0 if s >= 0 else decay) / (1.0 + decay)
        own = (s if s < 0 else 0.0) - (1 - rho) * s
        if len(weight):
            w = weight[e]
            value += w * (own - math.log1p(decay))
            slope += w * (rho - sigma) * s
            curve += w * sigma * (1 - sigma) * s * s
        else:
            value += own
            slope += (rho - sigma) * s
            curve += sigma * (1 - sigma) * s * s
            product *= 1.0 + decay
            if product > _LARGE:
                value -= math.log(product)
                product = 1.0
    # The exact curvature where it is the larger: Gauss-Newton alone overshoots on items whose votes look wrong, and
    # circles around the top there.
    curve += 1.0 + max(-slope, 0.0)
    return value - math.log(product) - 0.5 * (b - centre) ** 2, slope + centre - b, curve


@compiled
def _climb_item(
    n: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    b: float,
    centre: float,
    most_steps: int,
) -> float:
    """Where the Newton steps of `logistic.climb` lead on the log-easiness b of item n."""
    for _ in range(most_steps):
        value, slope, curve = _easiness_terms(n, item_ptr, annotator, label, weight, posterior, ability, b, centre)
        enough = value - 1e-12 * (1 + abs(value))
        wanted = slope / curve
        step = min(max(wanted, -1.0), 1.0)
        for attempt in range(3):
            after, _, _ = _easiness_terms(n, item_ptr, annotator, label, weight, posterior, ability, b + step, centre)
            if after >= enough:
                break
            step *= 0.25 if attempt < 2 else 0.0
        b += step
        if abs(wanted) <= 1:
            break
    return b


@compiled
def climb_easiness(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    easiness: Floats,
    centre: float,
    most_steps: int,
    log_easiness: Floats,
) -> None:
    """Newton steps on the log-easiness of each item, in place: `logistic.climb`, item by item.

    A step d = slope / curve climbs for sure if the curvature is nowhere on its way above twice `curve`; then values need not be
    known. With S the sum of the votes' w sigma (1 - sigma) s^2, M = max(-slope of the votes, 0), curve = 1 + S + M, and m the
    largest |s| of the item: on a way of |d| <= 1/8, S grows at most by the factor f = exp(|d| (2 + 1.1 m)), and M to at most
    exp(|d|) (M + |d| f S). With |d| (8 + 3 m) <= 1, f is below 1.45, and the curvature at most 1 + 1.14 M + 1.66 S.
    """
    view = np.empty((3, _room(start, stop, item_ptr)))
    first = start
    while first < stop:
        last = _last_in_view(first, stop, item_ptr)
        _sigmoids(_gather(first, last, item_ptr, annotator, ability, easiness, view), view)
        for n in range(first, last):
            b, slope, curve, largest = log_easiness[n], 0.0, 0.0, 0.0
            for e in range(item_ptr[n], item_ptr[n + 1]):
                i = e - item_ptr[first]
                s, sigma = view[0, i], view[2, i]
                w = weight[e] if len(weight) else 1.0
                slope += w * (posterior[n, label[e]] - sigma) * s
                curve += w * sigma * (1 - sigma) * s * s
                largest = max(largest, abs(s))
            step = (slope + centre - b) / (curve + 1.0 + max(-slope, 0.0))
            if abs(step) * (8 + 3 * largest) <= 1:
                log_easiness[n] = b + step
            else:
                log_easiness[n] = _climb_item(n, item_ptr, annotator, label, weight, posterior, ability, b, centre, most_steps)
        first = last


@compiled
def infer_logistic(
    start: int,
    stop: int,
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    ability: Floats,
    easiness: Floats,
    log_others: float,
    log_prior: Floats,
    known: Integers,
    posterior: Floats,
) -> tuple[float, float]:
    """Posterior of each item: a vote adds s + log_others to its class, and log sigmoid(-s) - log_others to the evidence."""
    n_classes, flat = posterior.shape[1], posterior.reshape(-1)
    view = np.empty((3, _room(start, stop, item_ptr)))
    scores, likely = np.empty(_ITEMS * n_classes), np.empty(_ITEMS * n_classes)
    evidence, change = 0.0, 0.0
    first = start
    while first < stop:
        last = _last_in_view(first, stop, item_ptr)
        size = _gather(first, last, item_ptr, annotator, ability, easiness, view)
        evidence += _all_wrong(item_ptr[first], size, weight, log_others, view)
        for n in range(first, last):
            at, row = (n - first) * n_classes, n if log_prior.shape[0] > 1 else 0
            for k in range(n_classes):
                scores[at + k] = log_prior[row, k] if len(known) == 0 or known[n] < 0 or known[n] == k else -np.inf
            for e in range(item_ptr[n], item_ptr[n + 1]):
                w = weight[e] if len(weight) else 1.0
                scores[at + label[e]] += w * (view[0, e - item_ptr[first]] + log_others)
            top = -np.inf
            for k in range(n_classes):
                top = max(top, scores[at + k])
            for k in range(n_classes):
                scores[at + k] -= top
            evidence += top
        exponentials((last - first) * n_classes, scores, likely)
        # Sums of at most K each: their product is far from overflowing.
        product = 1.0
        for n in range(first, last):
            at, total = (n - first) * n_classes, 0.0
            for k in range(n_classes):
                total += likely[at + k]
            product *= total
            for k in range(n_classes):
                likely[at + k] /= total
        evidence += math.log(product)
        for i in range((last - first) * n_classes):
            change += 0.5 * abs(likely[i] - flat[first * n_classes + i])
            flat[first * n_classes + i] = likely[i]
        first = last
    return evidence, change
