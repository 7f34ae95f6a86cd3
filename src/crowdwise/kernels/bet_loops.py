"""Bets on draws from strata without replacement, one draw after the other; `crowdwise.trust.audit.bets` has the equations."""

from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["follow_draws", "next_payoffs"]

# No fast maths: the sum of r must not exceed mu by a reordered sum.
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")

# Range of log D, and steps of the bisection between two ends that are at most 0.4 apart.
_WIDEST, _STEPS = 25.0, 12


@compiled
def follow_draws(
    member: Flags,
    weight: Floats,
    remaining: Integers,
    wrong_left: Floats,
    expected: Floats,
    log_wealth: Floats,
    stratum: Integers,
    wrong: Flags,
) -> Floats:
    """Log-wealth of all bettors after each draw, [T + 1, J]; `remaining`, `wrong_left` and `log_wealth` move along."""
    n_bettors, n_sets = log_wealth.shape
    near = np.zeros((n_bettors, n_sets))
    path = np.empty((len(stratum) + 1, n_sets))
    for j in range(n_sets):
        path[0, j] = _total(log_wealth, j, wrong_left[j], _count(member, remaining, j))
    for t in range(len(stratum)):
        h = stratum[t]
        for j in range(n_sets):
            path[t + 1, j] = path[t, j]
            if member[j, h]:
                everyone, mass = _count(member, remaining, j), _mass(member, remaining, weight, j)
                for s in range(n_bettors):
                    near[s, j] = _log_strength(
                        expected[s, j], member[j], weight, remaining, wrong_left[j], everyone, mass, near[s, j]
                    )
                    r = _reference(expected[s, j, h], near[s, j], weight[h] * everyone / mass)
                    p = expected[s, j, h]
                    log_wealth[s, j] += math.log(p) - math.log(r) if wrong[t] else math.log1p(-p) - math.log1p(-r)
                if wrong[t]:
                    wrong_left[j] -= 1
                path[t + 1, j] = _total(log_wealth, j, wrong_left[j], everyone - 1)
        remaining[h] -= 1
    return path


@compiled
def next_payoffs(
    member: Flags, weight: Floats, remaining: Integers, wrong_left: Floats, expected: Floats
) -> tuple[Floats, Floats]:
    """Log-payoffs of the next draw from each stratum, if the label is right and if it is wrong, [S, J, H]."""
    n_bettors, n_sets, n_strata = expected.shape
    right, wrong = np.zeros(expected.shape), np.zeros(expected.shape)
    for j in range(n_sets):
        everyone, mass = _count(member, remaining, j), _mass(member, remaining, weight, j)
        for s in range(n_bettors):
            at = _log_strength(expected[s, j], member[j], weight, remaining, wrong_left[j], everyone, mass, 0.0)
            for h in range(n_strata):
                if member[j, h] and remaining[h] > 0:
                    p = expected[s, j, h]
                    r = _reference(p, at, weight[h] * everyone / mass)
                    right[s, j, h] = math.log1p(-p) - math.log1p(-r)
                    wrong[s, j, h] = math.log(p) - math.log(r)
    return right, wrong


@compiled
def _count(member: Flags, remaining: Integers, j: int) -> float:
    total = 0.0
    for h in range(len(remaining)):
        if member[j, h]:
            total += remaining[h]
    return total


@compiled
def _mass(member: Flags, remaining: Integers, weight: Floats, j: int) -> float:
    total = 0.0
    for h in range(len(remaining)):
        if member[j, h]:
            total += remaining[h] * weight[h]
    return total


@compiled
def _total(log_wealth: Floats, j: int, wrong_left: float, everyone: float) -> float:
    """Log of all bettors' wealth; infinite where H0 is impossible, minus infinity where it surely holds."""
    if wrong_left <= 0:
        return -np.inf
    if wrong_left > everyone:
        return np.inf
    best = log_wealth[:, j].max()
    return float(best + math.log(np.exp(log_wealth[:, j] - best).sum()))


@compiled
def _log_strength(
    p: Floats, member: Flags, weight: Floats, remaining: Integers, mu: float, everyone: float, mass: float, near: float
) -> float:
    """The largest log D with sum R r <= mu, by bisection around `near`; minus infinity where nothing is to be bet."""
    if mu <= 0 or mu >= everyone or _sum_of_references(p, member, weight, remaining, everyone, mass, -np.inf) >= mu:
        return -np.inf
    near = near if math.isfinite(near) else 0.0
    # The lower end always keeps sum R r <= mu, so that the payoff is fair however few steps are taken.
    low, high, width = near - 0.2, near + 0.2, 0.4
    while _sum_of_references(p, member, weight, remaining, everyone, mass, low) > mu:
        low, high, width = low - width, low, 2 * width
        if low < -_WIDEST:
            return -np.inf
    width = 0.4
    while _sum_of_references(p, member, weight, remaining, everyone, mass, high) <= mu:
        low, high, width = high, high + width, 2 * width
        if high > _WIDEST:
            return low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _sum_of_references(p, member, weight, remaining, everyone, mass, middle) <= mu:
            low = middle
        else:
            high = middle
    return low


@compiled
def _sum_of_references(
    p: Floats, member: Flags, weight: Floats, remaining: Integers, everyone: float, mass: float, at: float
) -> float:
    total = 0.0
    for h in range(len(p)):
        if member[h] and remaining[h] > 0:
            total += remaining[h] * _reference(p[h], at, weight[h] * everyone / mass)
    return total


@compiled
def _reference(p: float, log_strength: float, relative: float) -> float:
    """The r in [p, 1) with (r - p) / (r (1 - r)) = D / s; `relative` is s times the number of items of the set."""
    if log_strength == -np.inf:
        return p
    strength = math.exp(log_strength) / relative
    rest = 1 - strength
    root = math.sqrt(rest * rest + 4 * strength * p)
    # Two forms of one root; each loses no digits on its side.
    r = 2 * p / (root + rest) if rest > 0 else (root - rest) / (2 * strength)
    return min(max(r, p), 1 - 1e-15)
