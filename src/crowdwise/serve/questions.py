"""What to ask whoever asks for a question: a list of items ranked by the policy, and leases on what was handed out.

The list is made again as votes come; for the items at its front the policy scores every annotator. Whoever asks gets the best
item of it that they have not answered and that nobody else is answering now. Annotators whom the last fit did not know get
items in the order of the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

import numpy as np

from crowdwise.campaign.answers import Answers, Rows
from crowdwise.campaign.policies import policy_of, stage_of
from crowdwise.campaign.pool import Pool
from crowdwise.campaign.state import State
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.serve.live import Live
from crowdwise.serve.settings import Settings

__all__ = ["Desk"]

# Items in the list, and those at its front for which annotators are scored.
_LISTED, _SCORED = 8_192, 512
_ENDLESS = 2**40
# Ends of leases that are kept although most of them were answered.
_STALE = 10_000


class Desk:
    """The list and the leases; used by one thread at a time but for `plan`, which replaces the list in one step."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._policy = settings.questions, policy_of(settings.questions.policy)
        self.most = self._settings.most or _ENDLESS
        # By item and by annotator, the time in microseconds at which a question that was handed out is open to others.
        self.leases: dict[str, dict[str, int]] = {}
        self.held: dict[str, dict[str, int]] = {}
        self._list = _List.empty()
        self.n_plans = self._n_asked = 0
        self._ends: list[tuple[int, str, str]] = []

    # -- leases --------------------------------------------------------------------------------

    def lease(self, item: str, annotator: str, expires: int) -> None:
        """Hand a question out."""
        self.release(item, annotator)
        self.leases.setdefault(item, {})[annotator] = expires
        self.held.setdefault(annotator, {})[item] = expires
        heappush(self._ends, (expires, item, annotator))
        if len(self._ends) > _STALE and len(self._ends) > 4 * sum(map(len, self.held.values())):
            # Most have been answered long before their time is over.
            self._ends = sorted((until, item, who) for item, book in self.leases.items() for who, until in book.items())

    def release(self, item: str, annotator: str) -> None:
        """Take a question back, answered or not."""
        for book, first, second in ((self.leases, item, annotator), (self.held, annotator, item)):
            inner = book.get(first)
            if inner is not None:
                inner.pop(second, None)
                if not inner:
                    book.pop(first, None)

    def expire(self, now: int) -> None:
        """Take back what was not answered in time."""
        while self._ends and self._ends[0][0] <= now:
            until, item, annotator = heappop(self._ends)
            # Another lease may have followed.
            if self.leases.get(item, {}).get(annotator) == until:
                self.release(item, annotator)

    def open_for(self, annotator: str, now: int) -> list[str]:
        """Questions that somebody has open."""
        return [item for item, until in self.held.get(annotator, {}).items() if until > now]

    # -- the list ------------------------------------------------------------------------------

    @property
    def order(self) -> Integers:
        """Positions of items that may be asked about, the best first."""
        return self._list.order

    def candidates(self, live: Live, annotator: str, now: int) -> Iterator[str]:
        """Items to ask somebody about, the best first; what they have answered is not looked up."""
        self.expire(now)
        self._n_asked += 1
        rng = np.random.default_rng([self._settings.seed, 1, self._n_asked])
        for part in self._list.order_for(annotator, rng, self._settings.explore):
            room = np.where(live.truth[part] < 0, np.minimum(self._settings.per_item, self.most - live.n_votes[part]), 0)
            for position, left in zip(part[room > 0].tolist(), room[room > 0].tolist(), strict=True):
                item = live.names[position]
                if left > len(self.leases.get(item, ())):
                    yield item

    def plan(self, live: Live, costs: dict[str, float]) -> None:
        """Rank the items as they are now."""
        with live.lock:
            room = np.minimum(self._settings.per_item, self.most - live.n_votes)
            room = np.where(live.truth >= 0, 0, room)
            lack = np.maximum(self._settings.least - live.n_votes, 0)
            posterior, fit, place = live.posterior.copy(), live.fit, live.place
        for item, book in list(self.leases.items()):
            position = live.index.get(item, len(room))
            if position < len(room):
                room[position] -= len(book)
                lack[position] = max(lack[position] - len(book), 0)
        self.n_plans += 1
        rng = np.random.default_rng([self._settings.seed, 0, self.n_plans])
        if fit is None or fit.concentration is None:
            self._list = _ranked(rng.random(len(room)), lack, room > 0)
            return
        result = fit.result
        cost = np.array([costs.get(name, 1.0) for name in result.votes.annotators.tolist()])
        answers = Answers(result, None, None)
        vars(answers)["rows"] = Rows(fit.concentration)
        pool = Pool(np.arange(len(place)), np.full(len(cost), _ENDLESS), cost)
        state = State(result, pool, rng, supposed=posterior[place], known=answers)
        policy = stage_of(self._policy, state)
        # Items that came after the fit: nothing is known of them.
        score = np.full(len(room), np.inf)
        score[place] = policy.items(state)
        made = _ranked(score, lack, room > 0)
        codes = np.full(len(room), -1)
        codes[place] = np.arange(len(place))
        front = made.order[:_SCORED]
        known = front[codes[front] >= 0]
        pairs = policy.pairs(replace(state, supposed=posterior[known]), codes[known]) if len(known) and len(cost) else None
        self._list = made.scored(known, pairs, result.votes.annotators.tolist())


class _List:
    """Positions of items, best first, what each lacks of the least number of votes, and scores of annotators at the front."""

    def __init__(self, order: Integers, lack: Integers, scores: Floats | None, column: dict[str, int]) -> None:
        self.order, self._lack, self._scores, self._column = order, lack, scores, column

    @classmethod
    def empty(cls) -> _List:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), None, {})

    def scored(self, known: Integers, pairs: Any, annotators: list[str]) -> _List:
        """With scores of some of the items at the front, [n, A]."""
        if pairs is None:
            return self
        scores = np.full((min(_SCORED, len(self.order)), pairs.shape[1]), np.inf)
        scores[np.isin(self.order[:_SCORED], known)] = pairs
        return _List(self.order, self._lack, scores, {name: a for a, name in enumerate(annotators)})

    def order_for(self, annotator: str, rng: np.random.Generator, explore: float) -> Iterator[Integers]:
        """The order for one annotator, part by part; at random with the probability `explore`."""
        if rng.random() < explore:
            yield rng.permutation(self.order)
            return
        column = self._column.get(annotator)
        n_front = 0
        if self._scores is not None and column is not None:
            n_front = len(self._scores)
            yield self.order[:n_front][np.lexsort((-self._scores[:, column], -self._lack[:n_front]))]
        for start in range(n_front, len(self.order), _SCORED):
            yield self.order[start : start + _SCORED]


def _ranked(score: Floats, lack: Integers, free: Flags) -> _List:
    """Items that may be asked about: those that lack most votes first, then by score."""
    positions = np.flatnonzero(free)
    order = positions[np.lexsort((-score[positions], -lack[positions]))][:_LISTED]
    return _List(order, lack[order], None, {})
