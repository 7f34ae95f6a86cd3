"""What capacities, prices, earlier votes and the questions asked so far leave to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.campaign.lookahead import Lookahead
from crowdwise.kernels.numerics import in_ranges
from crowdwise.kernels.types import Floats, Integers

if TYPE_CHECKING:
    from crowdwise.campaign.policies import Policy, State

__all__ = ["Remaining", "block_size"]


# Pairs scored at once.
_BLOCK = 4_000_000
# Best annotators kept of an item.
_KEPT = 64
# Scores closer than this share are equal.
_TIE = 1e-12


def block_size(state: State) -> int:
    """Items whose pairs are scored at once: memory never grows with items x annotators."""
    n_classes = max(state.votes.n_classes, 1)
    entries = n_classes**2 if state.answers.by_item == "confusion_of" else n_classes
    return max(1, _BLOCK // max(state.votes.n_annotators * entries, 1))


class Remaining:
    """Counts that fall as questions are asked.

    Attributes
    ----------
    left : [A]
        Answers that every annotator can still give.
    lack, room : [N]
        Votes that an item lacks of `least`, and questions that may still be asked about it.
    asked : dict
        By item, who is being asked: now or before.
    lookahead : Lookahead or None
        What their answers are expected to leave; None where an item has one question at a time.
    """

    def __init__(self, state: State) -> None:
        votes, pool = state.votes, state.pool
        self.state, self.spent, self.left = state, 0.0, pool.capacity.copy()
        self._cheapest: float | None = None
        waiting = np.bincount(pool.open_item, minlength=votes.n_items)
        self.lack = np.maximum(pool.least - votes.votes_per_item - waiting, 0)
        self.room = np.minimum(pool.per_item, pool.most - votes.votes_per_item) - waiting
        if pool.allowed is not None:
            self.room = np.minimum(self.room, _unasked(state))
        self.asked: dict[int, list[int]] = {}
        for item, annotator in zip(pool.open_item.tolist(), pool.open_annotator.tolist(), strict=True):
            self.asked.setdefault(item, []).append(annotator)
        self.lookahead = Lookahead(state) if pool.per_item > 1 else None

    def cheapest(self) -> float:
        """Price of the cheapest annotator who can still answer; infinite if there is none."""
        if self._cheapest is None:
            self._cheapest = float(self.state.pool.cost[self.left > 0].min(initial=np.inf))
        return self._cheapest

    def affordable(self, limit: float) -> bool:
        """Whether anybody can be asked for what the limit leaves."""
        return self.spent + self.cheapest() <= limit + 1e-9

    def fits(self, item: int, annotator: int, limit: float) -> bool:
        """Whether this question can be asked now; who has answered it before is not looked up (see `scores`)."""
        price = float(self.state.pool.cost[annotator])
        return bool(self.room[item] > 0 and self.left[annotator] > 0 and self.spent + price <= limit + 1e-9)

    def take(self, item: int, annotator: int) -> None:
        """A question is asked."""
        if self.lookahead is not None:
            self.lookahead.ask(item, annotator)
        self.asked.setdefault(item, []).append(annotator)
        self.room[item] -= 1
        self.lack[item] = max(self.lack[item] - 1, 0)
        self.left[annotator] -= 1
        if self.left[annotator] <= 0:
            self._cheapest = None
        self.spent += float(self.state.pool.cost[annotator])

    def best(self, policy: Policy, items: Integers) -> tuple[Integers, Floats]:
        """The best annotators of every item and their scores, [n, T] each, best first; -inf for who cannot be asked."""
        state = self.state
        n_annotators = state.votes.n_annotators
        n_kept = min(_KEPT, n_annotators)
        who, best = np.empty((len(items), n_kept), np.int64), np.empty((len(items), n_kept))
        step = block_size(state)
        for start in range(0, len(items), step):
            here = items[start : start + step]
            scores = self.scores(policy, here)
            # Equals, up to rounding, are taken at random: else a crowd of which nothing is known would be one annotator.
            known = scores[np.isfinite(scores)]
            scale = float(np.abs(known).max(initial=0)) or 1.0
            scores += _TIE * scale * state.rng.random(scores.shape, dtype=np.float32)
            who[start : start + step], best[start : start + step] = _highest(scores, n_kept)
        return who, best

    def scores(self, policy: Policy, items: Integers) -> Floats:
        """The policy's scores of these items with every annotator, [n, A]; -inf for who cannot be asked."""
        scores = np.array(policy.pairs(self.state, items), float)
        if self.lookahead is not None and policy.joint:
            for row, item in enumerate(items.tolist()):
                if item in self.lookahead:
                    scores[row] = self.lookahead.pairs(policy, item)
        self.forbid(scores, items)
        return scores

    def forbid(self, scores: Floats, items: Integers) -> None:
        """Nobody is asked what they have answered, are being asked now, or may not be asked, nor beyond their capacity."""
        votes, pool = self.state.votes, self.state.pool
        scores[:, self.left <= 0] = -np.inf
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
                scores[row_, self.asked[item]] = -np.inf


def _entries(pointer: Integers, items: Integers) -> tuple[Integers, Integers]:
    """Row (position in `items`) and index of every entry of these items in a list sorted by item."""
    first, count = pointer[items], pointer[items + 1] - pointer[items]
    row = np.repeat(np.arange(len(items)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]


def _highest(scores: Floats, n_kept: int) -> tuple[Integers, Floats]:
    """Columns of the highest scores of every row, highest first, and the scores, [n, T] each."""
    n_columns = scores.shape[1]
    who, best = np.empty((len(scores), n_kept), np.int64), np.empty((len(scores), n_kept))

    def fill(first: int, last: int) -> None:
        part = scores[first:last]
        top = np.tile(np.arange(n_columns), (len(part), 1))
        if n_kept < n_columns:
            top = np.argpartition(-part, n_kept - 1, axis=1)[:, :n_kept]
        kept = np.take_along_axis(part, top, 1)
        rank = np.argsort(-kept, axis=1, kind="stable")
        who[first:last], best[first:last] = np.take_along_axis(top, rank, 1), np.take_along_axis(kept, rank, 1)

    in_ranges(np.arange(len(scores) + 1) * n_columns, fill)
    return who, best


def _unasked(state: State) -> Integers:
    """Allowed pairs of every item that nobody has answered yet, [N]."""
    votes, pool = state.votes, state.pool
    assert pool.allowed is not None
    pointer, annotator = pool.allowed
    counts = np.diff(pointer)
    if pool.repeats:
        return np.asarray(counts)
    keys = np.repeat(np.arange(votes.n_items), counts) * votes.n_annotators + annotator
    answered = np.isin(keys, votes.pair)
    return np.asarray(counts - np.bincount(keys[answered] // max(votes.n_annotators, 1), minlength=votes.n_items))
