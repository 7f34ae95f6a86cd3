"""Fit a symmetric rank-one matrix to some of its off-diagonal entries: value_ab = s_a s_b.

The moments of one-coin annotators and the covariances of two-class annotators have this form. Both
fits below repeat "solve for every s_a given the others", all at once; averaging old and new values
(a step of one half) turns the oscillation of such parallel updates into contraction.

Symbols
-------
first, second, value, weight : [P]    pairs, the entry observed for each, and how well it is known
s : [A]
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.cooccurrence import trimmed_mean
from crowdwise.kernels.numerics import ratio, segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["least_squares", "orient", "robust"]


def least_squares(
    first: Integers, second: Integers, value: Floats, weight: Floats, n: int, low: float, high: float, max_iter: int = 500
) -> tuple[Floats, int, bool]:
    """Minimise sum_ab weight (value - s_a s_b)^2 with low <= s <= high; return s, rounds and whether it settled."""
    mine, other = np.concatenate([first, second]), np.concatenate([second, first])
    value, weight = np.tile(value, 2), np.tile(weight, 2)
    s = np.clip(_leading(first, second, value[: len(first)], weight[: len(first)], n), low, high)
    for iteration in range(1, max_iter + 1):
        top = segment_sum(mine, weight * value * s[other], n)
        bottom = segment_sum(mine, weight * s[other] ** 2, n)
        best = np.clip(ratio(top, bottom, 0.0), low, high)
        change = float(np.abs(best - s).max(initial=0.0))
        s = 0.5 * (s + best)
        if change < 1e-10:
            return s, iteration, True
    return s, max_iter, False


def robust(
    first: Integers,
    second: Integers,
    value: Floats,
    weight: Floats,
    n: int,
    trim: float,
    low: float,
    high: float,
    max_iter: int = 100,
) -> tuple[Floats, int, bool]:
    """Like `least_squares`, each s_a being a trimmed mean of value_ab / s_b: a minority of partners may lie.

    Signs start from the leading eigenvector of the matrix of signs. The ratios keep theirs, because
    absolute values of thin pairs would be noise of one sign.
    """
    mine, other = np.concatenate([first, second]), np.concatenate([second, first])
    signs = np.where(_leading(first, second, np.sign(value), weight, n) < 0, -1.0, 1.0)
    value, weight = np.tile(value, 2), np.tile(weight, 2)
    cut, active = _share_to_cut(mine, weight, n, trim), np.unique(mine)
    s = signs * np.sqrt(np.nan_to_num(trimmed_mean(mine, np.abs(value), weight, n, cut)))
    for iteration in range(1, max_iter + 1):
        # A ratio to a partner near chance is noise, hence the weights of least squares, s_b^2; but no
        # partner weighs more than a typical one, or colluders, who look infallible, had the last word.
        typical = max(float(np.median(np.abs(s[active]))), 1e-3) if len(active) else 1.0
        divisor = np.where(s[other] < 0, -1.0, 1.0) * np.maximum(np.abs(s[other]), 1e-3)
        best = trimmed_mean(mine, value / divisor, weight * np.minimum((divisor / typical) ** 2, 1.0), n, cut)
        best = np.clip(np.nan_to_num(best), low, high)
        change = float(np.abs(best - s).max(initial=0.0))
        s = 0.5 * (s + best)
        if change < 1e-8:
            return s, iteration, True
    return s, max_iter, False


def _share_to_cut(mine: Integers, weight: Floats, n: int, trim: float) -> Floats:
    """Share of the weight to cut at each end, [n]: at most `trim`, and as the paper at most degree / 2 - 1 partners.

    With two partners left in the middle, two annotators could settle on each other and only their
    product would be fixed. Where pairs met a few times their values are few and far apart, and a
    trimmed mean of them is biased, so trimming fades with the meetings per pair.
    """
    degree = np.maximum(segment_sum(mine, None, n), 1.0)
    per_pair = segment_sum(mine, weight, n) / degree
    most = np.maximum(np.floor(degree / 2) - 1, 0.0) / degree
    return np.asarray(np.minimum(trim, most) * per_pair / (per_pair + 5))


def orient(s: Floats, component: Integers, total: Floats) -> Floats:
    """Choose the sign of each connected component so that its annotators are better than chance.

    By heads, not by votes (see `crowdwise.engines.permutation`): annotators count whose |s| exceeds
    two standard errors, about 1 / sqrt(votes). A tie is broken by the sum over votes.
    """
    sure = s**2 * total > 4
    pieces = int(component.max(initial=-1)) + 1
    heads = segment_sum(component, np.where(sure, np.sign(s), 0.0), pieces)
    sign = np.where(heads != 0, heads, segment_sum(component, total * s, pieces))
    return np.where(sign[component] < 0, -s, s)


def _leading(first: Integers, second: Integers, value: Floats, weight: Floats, n: int) -> Floats:
    """Signed start: the leading eigenvector of the weighted values, scaled to reproduce them in each component.

    Rows and columns are divided by the roots of their weights, so that a large or busy cluster of
    annotators does not draw the whole vector to itself; each connected component has its own.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    ends = np.concatenate([first, second]), np.concatenate([second, first])
    degree = np.maximum(segment_sum(ends[0], np.tile(weight, 2), n), 1e-300)
    scaled = weight * value / np.sqrt(degree[first] * degree[second])
    matrix = csr_matrix((np.tile(scaled, 2), ends), shape=(n, n))
    pieces, component = connected_components(matrix, directed=False)
    vector = np.ones(n)
    for _ in range(300):
        # No eigenvalue lies below -1, so adding the identity keeps the wanted end of the spectrum on top.
        new = matrix @ vector + vector
        new /= np.sqrt(segment_sum(component, new**2, pieces))[component]
        if np.abs(new - vector).max() < 1e-9:
            break
        vector = new
    vector = vector / np.sqrt(degree)
    product = vector[first] * vector[second]
    top = segment_sum(component[first], weight * product * value, pieces)
    bottom = segment_sum(component[first], weight * product**2, pieces)
    return np.asarray(vector * np.sqrt(np.maximum(top, 0.0) / np.where(bottom > 0, bottom, 1.0))[component])
