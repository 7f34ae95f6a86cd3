"""Compiled loop over items whose votes confusion may not explain. Imported only where there are enough votes for it."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["outlier_loss"]


# Products of this many factors, none below the smallest share of 0.01, stay far from the smallest double.
_AT_ONCE = 64
_vectorised = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})


@_vectorised
def _masses(position: Integers, weight: Floats, item_weight: Floats) -> tuple[float, float]:
    """Weight of all votes, and of all items that have any."""
    votes, items = 0.0, 0.0
    for e in range(len(position)):
        votes += weight[e]
        if e == 0 or position[e] != position[e - 1]:
            items += item_weight[position[e]]
    return max(votes, 1e-12), max(items, 1e-12)


@_vectorised
def outlier_loss(
    log_s: Floats,
    position: Integers,
    weight: Floats,
    item_weight: Floats,
    grid: Floats,
    strength: float,
    power: float,
    zeta: float,
    spread: float,
) -> tuple[float, float, Floats]:
    """Loss at the best outlier share of every item, the shares' mean, and the slope of the loss by `log_s`, [E].

    Parameters
    ----------
    log_s : [E]
        Log-probability of every vote by confusion alone.
    position : [E]
        The item of every vote; ascending.
    weight, item_weight : [E] and [B]
        Weight of every vote, which includes that of its item.
    grid : [G]
        Shares to choose from.
    spread : float
        |e|^2 of a vote raised by one.
    """
    n_votes, n_shares = len(log_s), len(grid)
    slope = np.zeros_like(log_s)
    gain, product, factor = np.empty(n_shares), np.empty(n_shares), np.empty(n_shares)
    vote_mass, item_mass = _masses(position, weight, item_weight)
    per_item = strength * vote_mass / item_mass
    surprise, sparsity, shares = 0.0, 0.0, 0.0
    first = 0
    while first < n_votes:
        n, stop, size = position[first], first, 0.0
        inverse = 1 / max(item_weight[n], 1e-30)
        gain[:], product[:] = 0.0, 1.0
        while stop < n_votes and position[stop] == n:
            # The slope's place holds the vote's probability until its item is done.
            slope[stop] = math.exp(log_s[stop])
            missing, own = 1.0 - slope[stop], weight[stop] * inverse
            size += own * missing * missing
            for g in range(n_shares):
                factor[g] = 1 - missing * (1 - grid[g])
            if own == 1.0:
                for g in range(n_shares):
                    product[g] *= factor[g]
            else:
                for g in range(n_shares):
                    gain[g] += own * math.log(factor[g])
            stop += 1
            if (stop - first) % _AT_ONCE == 0:
                for g in range(n_shares):
                    gain[g] += math.log(product[g])
                    product[g] = 1.0
        size *= spread
        best, least = 0, np.inf
        for g in range(n_shares):
            cost = per_item * (size * grid[g] * grid[g] + zeta) ** (power / 2) - gain[g] - math.log(product[g])
            if cost < least:
                best, least = g, cost
        omega, mass = grid[best], item_weight[n]
        shares += mass * omega
        norm = omega * omega * size + zeta
        sparsity += mass * norm ** (power / 2)
        # By the probability of a vote, up to what the vote adds itself.
        pull = strength * mass / item_mass * power * norm ** (power / 2 - 1) * omega * omega * spread * inverse
        for e in range(first, stop):
            s = slope[e]
            p = s + omega * (1.0 - s)
            surprise -= weight[e] * math.log(p)
            slope[e] = -s * weight[e] * ((1 - omega) / (p * vote_mass) + pull * (1.0 - s))
        first = stop
    return surprise / vote_mass + strength * sparsity / item_mass, shares / item_mass, slope
