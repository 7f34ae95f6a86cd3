"""How many labels are right, of all and of single classes: an estimate and an interval that holds at any look.

The estimate is the mean of the rates of `crowdwise.trust.audit.rates`. The interval inverts the bets of
`crowdwise.trust.audit.bets`: it holds every number of wrong labels against which neither those who bet on fewer nor those who
bet on more have reached 2 / alpha. It is right whatever the estimate, to which it is widened should that lie outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.audit.bets import start_bets

__all__ = ["Estimate", "estimate_right", "most_wrong", "wrong_interval"]

_POINTS = 17


@dataclass(frozen=True)
class Estimate:
    """The share of right labels of a set of items, and the ends of its interval."""

    share: float
    low: float
    high: float
    n_items: int
    n_checked: int
    n_wrong: int


def estimate_right(
    size: Integers, weight: Floats, error: Floats, stratum: Integers, wrong: Flags, *, rate: Floats, alpha: float = 0.05
) -> Estimate:
    """Estimate the share of right labels.

    Parameters
    ----------
    size, weight, error : [H]
        Of each stratum: items, weight of an item when drawing, expected share of wrong labels.
    stratum, wrong : [T]
        Of the drawn items in order.
    rate : [P]
        Chance of each item that its label is wrong, after the checks.
    """
    n_items, wrong = int(size.sum()), np.asarray(wrong, bool)
    low, high = wrong_interval(size, weight, error, stratum, wrong, alpha=alpha)
    total = float(rate.sum())
    # A wider interval holds as well; an estimate that was moved into it would no longer add up with the others.
    share, least, most = (1 - errors / max(n_items, 1) for errors in (total, max(high, total), min(low, total)))
    return Estimate(share, least, most, n_items, len(stratum), int(wrong.sum()))


def wrong_interval(
    size: Integers, weight: Floats, error: Floats, stratum: Integers, wrong: Flags, *, alpha: float = 0.05
) -> tuple[int, int]:
    """Fewest and most wrong labels that the draws leave possible at level 1 - alpha, at any look."""
    n_items, right = int(size.sum()), ~np.asarray(wrong, bool)
    bound = -np.log(alpha / 2)
    most = _largest_possible(size, weight, error, stratum, ~right, bound)
    least = n_items - _largest_possible(size, weight, 1 - error, stratum, right, bound)
    # Both hold with probability 1 - alpha; should they contradict each other, all that is sure is what was seen.
    return (least, most) if least <= most else (int((~right).sum()), n_items - int(right.sum()))


def most_wrong(size: Integers, weight: Floats, error: Floats, stratum: Integers, wrong: Flags, *, alpha: float = 0.05) -> int:
    """Most wrong labels that the draws leave possible: more than these with probability alpha at most, at any look."""
    return _largest_possible(size, weight, error, stratum, np.asarray(wrong, bool), -np.log(alpha))


def _largest_possible(size: Integers, weight: Floats, error: Floats, stratum: Integers, hit: Flags, bound: float) -> int:
    """The largest number of hits among all items that the bets on fewer have not rejected."""
    seen, n_items = int(hit.sum()), int(size.sum())
    # Known: at least those seen, at most those plus all unchecked.
    low, high = seen, n_items - (len(hit) - seen) + 1
    while high - low > 1:
        total = np.unique(np.linspace(low, high, min(_POINTS, high - low + 1)).astype(np.int64))[1:-1]
        _, path = start_bets(np.ones((len(total), len(size)), bool), weight, size, error, total).after(stratum, hit)
        possible = np.flatnonzero(path.max(axis=0) < bound)
        last = int(possible[-1]) if len(possible) else -1
        low, high = (int(total[last]) if last >= 0 else low), (int(total[last + 1]) if last + 1 < len(total) else high)
    return low
