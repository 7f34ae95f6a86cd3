"""From scores to assignments: the best pairs that capacities, costs and earlier votes allow.

Items are shortlisted by their own score; only for these are pairs scored, some at a time, so memory never grows with
items x annotators. Pairs are taken greedily. Where all good annotators of an item are used up, the item is scored again
with those left. Where an item may have several questions, each gains what those before it are expected to leave (see
`crowdwise.campaign.lookahead`).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import polars as pl

from crowdwise.campaign.diversity import diverse_order
from crowdwise.campaign.policies import Policy, State, policy_of, stage_of
from crowdwise.campaign.remaining import Remaining
from crowdwise.data.encode import series_of
from crowdwise.errors import SettingError
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["Assignments", "suggest"]


# Items per question that are scored in pairs: the best by their own score.
_SHORTLIST = 4


@dataclass(frozen=True, eq=False)
class Assignments:
    """Questions: item and annotator by position, its score by the policy, and its cost."""

    item: Integers
    annotator: Integers
    score: Floats
    cost: Floats
    state: State

    def __len__(self) -> int:
        return len(self.item)

    def frame(self) -> pl.DataFrame:
        """A row per question, best first; those that explore come last and have no score."""
        import polars as pl

        votes = self.state.votes
        return pl.DataFrame(
            {
                "item": series_of(votes.items)[self.item],
                "annotator": series_of(votes.annotators)[self.annotator],
                "score": pl.Series(self.score, dtype=pl.Float64).fill_nan(None),
                "cost": self.cost,
            }
        )


def suggest(state: State, policy: Any, budget: float, *, explore: float = 0.05, diverse: bool = True) -> Assignments:
    """The questions to ask next.

    Parameters
    ----------
    state : State
        A fitted model and the pool.
    policy : str or Policy
        See `crowdwise.campaign.policies`.
    budget : float
        What the questions may cost together; with costs of one, their number.
    explore : float
        Share of the questions about random items to random annotators: they keep estimates honest where the policy
        does not look.
    diverse : bool
        Where there are features, choose items that differ from each other instead of asking about near-duplicates.
    """
    if not 0 < budget < np.inf:
        raise SettingError(f"budget must be a number above 0; got {budget!r}")
    if not 0 <= explore <= 1:
        raise SettingError(f"explore is a share from 0 to 1; got {explore!r}")
    chosen, taken = stage_of(policy_of(policy), state), _Taken(state)
    if explore:
        taken.fill(policy_of("random+random"), min(taken.share_of(explore, budget), budget), diverse=False)
        taken.explored = len(taken.item)
    taken.fill(chosen, budget, diverse=diverse)
    return taken.assignments()


class _Taken:
    """Questions so far, and what they leave."""

    def __init__(self, state: State) -> None:
        self.state, self.remaining, self.explored = state, Remaining(state), 0
        self.item: list[int] = []
        self.annotator: list[int] = []
        self.score: list[float] = []

    def share_of(self, explore: float, budget: float) -> float:
        """The part of the budget to explore with, in whole questions: at random where the share of a batch is less than one."""
        price = self.remaining.cheapest()
        if not np.isfinite(price):
            return 0.0
        wanted = explore * budget / price
        return price * (int(wanted) + int(self.state.rng.random() < wanted - int(wanted)))

    def fill(self, policy: Policy, limit: float, diverse: bool) -> None:
        """Ask until the limit is spent, what was asked before included, or nobody is left to ask."""
        state, pool, remaining = self.state, self.state.pool, self.remaining
        if not remaining.affordable(limit):
            return
        score = np.asarray(policy.items(state), float)
        if remaining.lookahead is not None:
            score = remaining.lookahead.discounted(score, pool.items)
        # Items that lack votes come first, those that lack most at the front.
        lack = remaining.lack[pool.items]
        order = np.lexsort((-score, -lack)) if lack.any() else np.argsort(-score, kind="stable")
        order = order[remaining.room[pool.items[order]] > 0]
        start, n_wanted = 0, _SHORTLIST * max(int(limit / remaining.cheapest()), 1)
        while start < len(order) and remaining.affordable(limit):
            chosen = order[start : start + n_wanted]
            start += n_wanted
            parts = [chosen]
            if diverse and state.features is not None and not lack[chosen].any():
                n_needed = min(int((limit - remaining.spent) / remaining.cheapest()) + 1, len(chosen))
                first = diverse_order(_dense(state.features[pool.items[chosen]]), score[chosen], n_needed)
                # The others are asked only where the annotators of the first are used up.
                parts = [chosen[first], np.delete(chosen, first)]
            for part in parts:
                # Diverse items have their own order, in which the value falls as the score does.
                value = score[part] if len(parts) == 1 else np.sort(score[part])[::-1]
                self._take(policy, pool.items[part], value, limit)

    def _take(self, policy: Policy, items: Integers, value: Floats, limit: float) -> None:
        """Greedily, the best pairs of a short list; again with the annotators left while something was taken."""
        while len(items) and self.remaining.affordable(limit):
            before = len(self.item)
            self._pass(policy, items, value, limit)
            if len(self.item) == before:
                return
            open_still = self.remaining.room[items] > 0
            items, value = items[open_still], value[open_still]

    def _pass(self, policy: Policy, items: Integers, value: Floats, limit: float) -> None:
        """Ask the best question of all these items until none is left with the annotators that were kept."""
        remaining = self.remaining
        who, scores = remaining.best(policy, items)
        place = np.zeros(len(items), np.int64)
        now = value.copy()

        def entry(i: int) -> tuple[float, float, int]:
            # Joint scores compare across items; else the items have their value, and pairs theirs within an item.
            return -remaining.lack[items[i]], -(scores[i, place[i]] if policy.joint else now[i]), i

        queue = [entry(i) for i in range(len(items)) if who.shape[1]]
        heapify(queue)
        while queue and remaining.affordable(limit):
            i = heappop(queue)[2]
            item, first = int(items[i]), place[i]
            while place[i] < who.shape[1] and not remaining.fits(item, int(who[i, place[i]]), limit):
                place[i] += 1
            if remaining.room[item] <= 0 or place[i] == who.shape[1] or not np.isfinite(scores[i, place[i]]):
                continue
            if policy.joint and place[i] > first:
                # With the next best annotator, the item may no longer be the best.
                heappush(queue, entry(i))
                continue
            self._ask(item, int(who[i, place[i]]), float(scores[i, place[i]]))
            if remaining.room[item] <= 0 or remaining.lookahead is None:
                continue
            if policy.joint:
                again = remaining.best(policy, items[i : i + 1])
                who[i], scores[i], place[i] = again[0][0], again[1][0], 0
            else:
                now[i] = value[i] - (1 - remaining.lookahead.share(item)) * abs(value[i])
                place[i] += 1
            heappush(queue, entry(i))

    def _ask(self, item: int, annotator: int, score: float) -> None:
        self.remaining.take(item, annotator)
        self.item.append(item)
        self.annotator.append(annotator)
        self.score.append(score)

    def assignments(self) -> Assignments:
        """The policy's questions first, then those asked for the sake of honesty."""
        order = np.r_[np.arange(self.explored, len(self.item)), np.arange(self.explored)].astype(np.int64)
        item, annotator = np.array(self.item, np.int64)[order], np.array(self.annotator, np.int64)[order]
        # What was drawn at random has no score that could be compared.
        score = np.array([np.nan] * self.explored + self.score[self.explored :])[order]
        return Assignments(item, annotator, score, self.state.pool.cost[annotator], self.state)


def _dense(rows: Any) -> Array:
    """Rows of features as an array; they are few."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
