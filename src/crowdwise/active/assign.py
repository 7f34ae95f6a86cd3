"""From scores to assignments: the best pairs that capacities, costs and earlier votes allow.

Items are shortlisted by their own score; only for these are pairs scored, some at a time, so memory never grows with
items x annotators. Pairs are taken greedily. Where all good annotators of an item are used up, the item is scored again
with those left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.active.diversity import spread_out
from crowdwise.active.policies import Policy, State, policy_of
from crowdwise.encode import series_of
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Assignments", "suggest"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Items per question that are scored in pairs: the best by their own score.
_SHORTLIST = 4
# Best annotators kept of every item of the short list.
_KEPT = 64
# Pairs scored at once.
_BLOCK = 4_000_000
# Scores closer than this share are equal.
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Assignments:
    """Questions: item and annotator by position, what each is worth to the policy, and what it costs."""

    item: Integers
    annotator: Integers
    score: Floats
    cost: Floats
    state: State

    def __len__(self) -> int:
        return len(self.item)

    def frame(self) -> pl.DataFrame:
        """A row per question, best first."""
        import polars as pl

        votes = self.state.votes
        return pl.DataFrame(
            {
                "item": series_of(votes.items)[self.item],
                "annotator": series_of(votes.annotators)[self.annotator],
                "score": self.score,
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
        See `crowdwise.active.policies`.
    budget : float
        What the questions may cost together; with costs of one, their number.
    explore : float
        Share of the questions about random items to random annotators: they keep estimates honest where the policy
        does not look.
    diverse : bool
        Where there are features, spread the items out instead of asking about near-duplicates.
    """
    if not 0 < budget < np.inf:
        raise SettingError(f"budget must be a number above 0; got {budget!r}")
    if not 0 <= explore <= 1:
        raise SettingError(f"explore is a share from 0 to 1; got {explore!r}")
    chosen, taken = policy_of(policy), _Taken(state)
    if explore:
        taken.fill(policy_of("random+random"), min(taken.share_of(explore, budget), budget), diverse=False)
        taken.explored = len(taken.item)
    taken.fill(chosen, budget, diverse=diverse)
    return taken.assignments()


class _Taken:
    """Questions so far, and what they leave."""

    def __init__(self, state: State) -> None:
        self.state, self.spent, self.explored = state, 0.0, 0
        votes, pool = state.votes, state.pool
        self.left = pool.capacity.copy()
        waiting = np.bincount(pool.open_item, minlength=votes.n_items)
        self.lack = np.maximum(pool.least - votes.votes_per_item - waiting, 0)
        self.room = np.minimum(pool.per_item, pool.most - votes.votes_per_item) - waiting
        if pool.allowed is not None:
            self.room = np.minimum(self.room, _unasked(state))
        self.item: list[int] = []
        self.annotator: list[int] = []
        self.score: list[float] = []
        # By item, who is being asked: now or before.
        self.asked: dict[int, set[int]] = {}
        for item, annotator in zip(pool.open_item.tolist(), pool.open_annotator.tolist(), strict=True):
            self.asked.setdefault(item, set()).add(annotator)

    def share_of(self, explore: float, budget: float) -> float:
        """The part of the budget to explore with, in whole questions: at random where the share of a batch is less than one."""
        price = self._cheapest()
        if not np.isfinite(price):
            return 0.0
        wanted = explore * budget / price
        return price * (int(wanted) + int(self.state.rng.random() < wanted - int(wanted)))

    def fill(self, policy: Policy, limit: float, diverse: bool) -> None:
        """Ask until the limit is spent, what was asked before included, or nobody is left to ask."""
        state, pool = self.state, self.state.pool
        if not self._affordable(limit):
            return
        worth = np.asarray(policy.items(state), float)
        # Items that lack votes come first, those that lack most at the front.
        lack = self.lack[pool.items]
        order = np.lexsort((-worth, -lack))
        order = order[self.room[pool.items[order]] > 0]
        start, n_wanted = 0, _SHORTLIST * max(int(limit / self._cheapest()), 1)
        while start < len(order) and self._affordable(limit):
            chosen = order[start : start + n_wanted]
            start += n_wanted
            parts = [chosen]
            if diverse and state.features is not None and not lack[chosen].any():
                n_needed = min(int((limit - self.spent) / self._cheapest()) + 1, len(chosen))
                first = spread_out(_dense(state.features[pool.items[chosen]]), worth[chosen], n_needed)
                # The others are asked only where the annotators of the first are used up.
                parts = [chosen[first], np.delete(chosen, first)]
            for part in parts:
                self._take(policy, pool.items[part], limit)

    def _take(self, policy: Policy, items: Integers, limit: float) -> None:
        """Greedily, the best pairs of a short list; again with the annotators left while something was taken."""
        while len(items) and self._affordable(limit):
            before = len(self.item)
            who, scores = self._best(policy, items)
            place = np.repeat(np.arange(len(items)), who.shape[1])
            flat, each = who.ravel(), scores.ravel()
            order = np.flatnonzero(np.isfinite(each))
            if policy.joint:
                # Joint scores compare across items; else the items have their order, and pairs theirs within an item.
                order = order[np.lexsort((-each[order], -self.lack[items[place[order]]]))]
            for e in order.tolist():
                self._ask(int(items[place[e]]), int(flat[e]), float(each[e]), limit)
            if len(self.item) == before:
                return
            items = items[self.room[items] > 0]

    def _cheapest(self) -> float:
        """Price of the cheapest annotator who can still answer."""
        return float(self.state.pool.cost[self.left > 0].min(initial=np.inf))

    def _affordable(self, limit: float) -> bool:
        return self.spent + self._cheapest() <= limit + 1e-9

    def _best(self, policy: Policy, items: Integers) -> tuple[Integers, Floats]:
        """The best annotators of every item and their scores, [n, T] each, best first; -inf for who cannot be asked."""
        state = self.state
        n_annotators = state.votes.n_annotators
        n_kept = min(_KEPT, n_annotators)
        who, best = np.empty((len(items), n_kept), np.int64), np.empty((len(items), n_kept))
        step = max(1, _BLOCK // (n_annotators * max(state.votes.n_classes, 1)))
        for start in range(0, len(items), step):
            here = items[start : start + step]
            scores = np.array(policy.pairs(state, here), float)
            scores[:, self.left <= 0] = -np.inf
            self._forbid(scores, here)
            # Equals, up to rounding, are taken at random: else a crowd of which nothing is known would be one annotator.
            known = scores[np.isfinite(scores)]
            scale = float(np.abs(known).max(initial=0)) or 1.0
            scores += _TIE * scale * state.rng.random(scores.shape, dtype=np.float32)
            top = np.tile(np.arange(n_annotators), (len(here), 1))
            if n_kept < n_annotators:
                top = np.argpartition(-scores, n_kept - 1, axis=1)[:, :n_kept]
            kept = np.take_along_axis(scores, top, 1)
            rank = np.argsort(-kept, axis=1, kind="stable")
            who[start : start + step] = np.take_along_axis(top, rank, 1)
            best[start : start + step] = np.take_along_axis(kept, rank, 1)
        return who, best

    def _forbid(self, scores: Floats, items: Integers) -> None:
        """Nobody is asked what they have answered, are being asked now, or may not be asked."""
        votes, pool = self.state.votes, self.state.pool
        if pool.allowed is not None:
            row, entry = _entries(pool.allowed[0], items)
            barred = np.ones(scores.shape, bool)
            barred[row, pool.allowed[1][entry]] = False
            scores[barred] = -np.inf
        if not pool.repeats:
            row, entry = _entries(votes.item_ptr, items)
            scores[row, votes.annotator[entry]] = -np.inf
        for row_, item in enumerate(items.tolist()):
            if item in self.asked:
                scores[row_, list(self.asked[item])] = -np.inf

    def _ask(self, item: int, annotator: int, score: float, limit: float) -> None:
        cost = float(self.state.pool.cost[annotator])
        if self.room[item] <= 0 or self.left[annotator] <= 0 or self.spent + cost > limit + 1e-9:
            return
        self.asked.setdefault(item, set()).add(annotator)
        self.room[item] -= 1
        self.lack[item] = max(self.lack[item] - 1, 0)
        self.left[annotator] -= 1
        self.spent += cost
        self.item.append(item)
        self.annotator.append(annotator)
        self.score.append(score)

    def assignments(self) -> Assignments:
        """The policy's questions first, then those asked for the sake of honesty."""
        order = np.r_[np.arange(self.explored, len(self.item)), np.arange(self.explored)].astype(np.int64)
        item, annotator = np.array(self.item, np.int64)[order], np.array(self.annotator, np.int64)[order]
        return Assignments(item, annotator, np.array(self.score)[order], self.state.pool.cost[annotator], self.state)


def _entries(pointer: Integers, items: Integers) -> tuple[Integers, Integers]:
    """Row (position in `items`) and index of every entry of these items in a list sorted by item."""
    first, count = pointer[items], pointer[items + 1] - pointer[items]
    row = np.repeat(np.arange(len(items)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]


def _unasked(state: State) -> Integers:
    """Allowed pairs of every item that nobody has answered yet, [N]."""
    votes, pool = state.votes, state.pool
    assert pool.allowed is not None
    pointer, annotator = pool.allowed
    counts = np.diff(pointer)
    if pool.repeats:
        return np.asarray(counts)
    keys = np.repeat(np.arange(votes.n_items), counts) * votes.n_annotators + annotator
    told = np.isin(keys, votes.item.astype(np.int64) * votes.n_annotators + votes.annotator)
    return np.asarray(counts - np.bincount(keys[told] // max(votes.n_annotators, 1), minlength=votes.n_items))


def _dense(rows: Any) -> NDArray[Any]:
    """Rows of features as an array; they are few."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
