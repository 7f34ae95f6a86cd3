"""The gain of the best question of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.campaign.remaining import Remaining, block_size

if TYPE_CHECKING:
    from crowdwise.campaign.policies import Policy
    from crowdwise.campaign.state import State

__all__ = ["best_gain"]


def best_gain(state: State, policy: Policy, enough: float = np.inf) -> float:
    """Score of the best question that may be asked, over all items and annotators; -inf if there is none.

    Pairs are scored some at a time, items in the order of their own scores. The search ends at the first block with a score
    of `enough`. Where the policy is `bounded`, so that no pair gains more than its item's own score per unit of cost, it also
    ends where no item left can beat the best, or reach `enough`.
    """
    pool, remaining = state.pool, Remaining(state)
    cheapest = remaining.cheapest()
    if not np.isfinite(cheapest):
        return -np.inf
    score = np.asarray(policy.items(state), float)
    order = np.argsort(-score, kind="stable")
    order = order[remaining.room[pool.items[order]] > 0]
    most = score / cheapest if getattr(policy, "bounded", False) else np.full(len(score), np.inf)
    floor = enough if np.isfinite(enough) else -np.inf
    best, start, step = -np.inf, 0, 1
    while start < len(order):
        if best > -np.inf and (best >= enough or most[order[start]] < max(best, floor)):
            break
        scores = remaining.scores(policy, pool.items[order[start : start + step]])
        best = max(best, float(scores.max(initial=-np.inf)))
        # Small blocks first: they often decide.
        start, step = start + step, min(4 * step, block_size(state))
    return best
