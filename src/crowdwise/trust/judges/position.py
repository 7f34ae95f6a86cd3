"""Does a judge favour a place? Pairs that were asked in both orders show it, whichever of the two is better.

In stratum i, a pair of answers to one question, x stood first n1 times and won a share p1 of them; it stood second n2 times
and won a share p2. Without a favoured place both are equal. The advantage of the first place is their difference, averaged
with Mantel and Haenszel's weights; their test asks whether it is chance:

    advantage = sum_i w_i (p1_i - p2_i) / sum_i w_i,                w_i = n1 n2 / n,  n = n1 + n2
    z = sum_i w_i (p1_i - p2_i) / sqrt(sum_i w_i p_i (1 - p_i) n / (n - 1)),   p_i the share of both orders together

With one verdict per order z is McNemar's (b - c) / sqrt(b + c), of the pairs in which the first, or the second, won twice. In
the noisy Bradley-Terry model (``rank --method noisy-bt``) the advantage is (1 - g)(2 c - 1): how often a judge does not look,
times how much more often it then says "first".

References
----------
Mantel and Haenszel (1959), Journal of the National Cancer Institute 22.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["Position", "position_bias"]


@dataclass(frozen=True, eq=False)
class Position:
    """Per judge, [A] each.

    Attributes
    ----------
    first_share : share of verdicts for what stood first, ties a half
    n_swapped : strata asked in both orders
    consistency : share of these in which both orders prefer the same; NaN without any
    advantage, p_value : how much more often something wins for standing first, and the chance of that; NaN without any
    """

    first_share: Floats
    n_swapped: Integers
    consistency: Floats
    advantage: Floats
    p_value: Floats


def position_bias(judge: Integers, pair: Integers, in_order: Flags, chose_first: Floats, n_judges: int) -> Position:
    """Compare verdicts between the two orders of every pair.

    Parameters
    ----------
    judge, pair : [E]
        Codes of who judged, and of what: two answers to one question, in either order.
    in_order : [E]
        Whether the two stood in the pair's own order.
    chose_first : [E]
        1 for what stood first, 0 for the other, a half for a tie, a probability for a degree.
    """
    n_votes = segment_sum(judge, None, n_judges)
    with np.errstate(invalid="ignore"):
        first_share = segment_sum(judge, chose_first, n_judges) / n_votes
    key, cell = np.unique(judge * (int(pair.max(initial=0)) + 1) + pair, return_inverse=True)
    who = key // (int(pair.max(initial=0)) + 1)
    won = np.where(in_order, chose_first, 1 - chose_first)
    n1, n2 = (segment_sum(cell[kept], None, len(key)) for kept in (in_order, ~in_order))
    w1, w2 = (segment_sum(cell[kept], won[kept], len(key)) for kept in (in_order, ~in_order))
    both = (n1 > 0) & (n2 > 0)
    who, n1, n2, w1, w2 = who[both], n1[both], n2[both], w1[both], w2[both]
    n, share = n1 + n2, (w1 + w2) / (n1 + n2)
    weight, gap = n1 * n2 / n, w1 / n1 - w2 / n2
    total, top = segment_sum(who, weight, n_judges), segment_sum(who, weight * gap, n_judges)
    variance = segment_sum(who, weight * share * (1 - share) * n / (n - 1), n_judges)
    swapped = segment_sum(who, None, n_judges)
    same = segment_sum(who, ((w1 / n1 - 0.5) * (w2 / n2 - 0.5) > 0) | ((w1 / n1 == 0.5) & (w2 / n2 == 0.5)), n_judges)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(variance > 0, top / np.sqrt(variance), np.where(top == 0, 0.0, np.inf))
        p_value = np.array([math.erfc(abs(value) / math.sqrt(2)) for value in z.tolist()])
        known = swapped > 0
        return Position(
            first_share,
            swapped.astype(np.int64),
            np.where(known, same / swapped, np.nan),
            np.where(known, top / total, np.nan),
            np.where(known, p_value, np.nan),
        )
