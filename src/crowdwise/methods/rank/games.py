"""Comparisons by pair: how often each side won, which items can be compared at all, and whether scores exist."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.comparisons import Comparisons
from crowdwise.errors import DataWarning, InputError
from crowdwise.kernels.types import Floats

__all__ = ["Floats", "Games", "as_comparisons", "check_connected", "sums"]


def sums(index: NDArray[Any], values: Any, n: int) -> Floats:
    """Add up the values that have the same index, [n]."""
    found: Floats = np.bincount(index, values, n).astype(np.float64, copy=False)
    return found


@dataclass(frozen=True, eq=False)
class Games:
    """The comparisons of every pair that met, M pairs in all, summed over votes with their weights.

    Attributes
    ----------
    low, high : [M]
        Codes of the two items, low < high.
    wins_low, wins_high, ties : [M]
        Weight of the votes for each, and for neither.
    n_items : int
        Number of items, N, those never compared among them.
    pair : [E]
        Which pair each vote is about.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    wins_low: Floats
    wins_high: Floats
    ties: Floats
    n_items: int
    pair: NDArray[np.int64]

    @classmethod
    def of(cls, votes: Comparisons) -> Games:
        """Count the votes of every pair."""
        low = np.minimum(votes.first, votes.second).astype(np.int64)
        high = np.maximum(votes.first, votes.second).astype(np.int64)
        keys, pair = np.unique(low * votes.n_items + high, return_inverse=True)
        # 1 where the item of the lower code won, whichever side it stood on.
        direction = np.where(votes.first < votes.second, votes.outcome, -votes.outcome)

        for_side = votes.weights * np.where(direction == 0, 0.0, votes.degrees)
        for_other = votes.weights * np.where(direction == 0, 0.0, 1 - votes.degrees)

        def won(side: int) -> Floats:
            return sums(pair, np.where(direction == side, for_side, for_other), len(keys))

        ends = np.divmod(keys, max(votes.n_items, 1))
        ties = sums(pair, votes.weights * (direction == 0), len(keys))
        return cls(*ends, won(1), won(-1), ties, votes.n_items, pair)

    @property
    def n_pairs(self) -> int:
        """Number of pairs that met, M."""
        return len(self.low)

    def difference(self, score: Floats) -> Floats:
        """Score of the low item minus that of the high one, [M]."""
        found: Floats = score[self.low] - score[self.high]
        return found

    def gather(self, values: Floats) -> Floats:
        """Add values of pairs, [M], to their low items and subtract them from their high ones, [N]."""
        return sums(self.low, values, self.n_items) - sums(self.high, values, self.n_items)

    def spread(self, of_low: Floats, of_high: Floats) -> Floats:
        """Add one value of each pair to its low item and another to its high one, [N]."""
        return sums(self.low, of_low, self.n_items) + sums(self.high, of_high, self.n_items)

    @cached_property
    def neighbours(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """The graph by item, as CSR: where the rows begin, [N + 1], the other items, [2M], and the pairs, [2M]."""
        rows = np.concatenate([self.low, self.high])
        order = np.argsort(rows, kind="stable")
        begin = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n_items))])
        others = np.concatenate([self.high, self.low])[order]
        return begin.astype(np.int32), others.astype(np.int32), order % max(self.n_pairs, 1)

    def with_wins(self, wins_low: Floats, wins_high: Floats) -> Games:
        """The same pairs with other wins, [M] each, and no ties; what is known of the graph is kept."""
        made = Games(self.low, self.high, wins_low, wins_high, np.zeros(self.n_pairs), self.n_items, self.pair)
        vars(made).update(component=self.component, neighbours=self.neighbours)
        return made

    @cached_property
    def component(self) -> NDArray[np.int64]:
        """Part of the graph of comparisons that each item is in, [N]; the largest part is 0."""
        return _ordered(self._parts(np.ones(self.n_pairs, bool), np.ones(self.n_pairs, bool), "weak"))

    @cached_property
    def strong(self) -> NDArray[np.int64]:
        """The same where a way must lead from loser to winner in both directions, [N]; ties lead both ways."""
        return _ordered(self._parts(self.wins_low + self.ties > 0, self.wins_high + self.ties > 0, "strong"))

    def _parts(self, up: NDArray[np.bool_], down: NDArray[np.bool_], connection: str) -> NDArray[np.int64]:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        rows = np.concatenate([self.high[up], self.low[down]])
        columns = np.concatenate([self.low[up], self.high[down]])
        graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(self.n_items, self.n_items)).tocsr()
        labels: NDArray[np.int64] = connected_components(graph, directed=True, connection=connection)[1].astype(np.int64)
        return labels


def _ordered(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the parts from the largest to the smallest, equal ones in the order of their first items."""
    names, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    order = np.lexsort((first, -sizes))
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    found: NDArray[np.int64] = place[np.searchsorted(names, labels)]
    return found


def as_comparisons(votes: Any) -> Comparisons:
    """Take `Comparisons`, or make them of a frame, and put them in order; refuse none at all."""
    made = votes if isinstance(votes, Comparisons) else Comparisons.from_frame(votes)
    if not made.n_votes or not made.weights.any():
        raise InputError("there are no comparisons; give at least one row with a winner and a weight above 0")
    return made.in_order()


def check_connected(games: Games, items: NDArray[Any], prior: float) -> None:
    """Refuse data on which scores are infinite; warn where they are not comparable.

    Without a prior, scores exist where every item of a part can be reached from every other by a chain of wins (Ford 1957).
    """
    met = np.zeros(games.n_items, bool)
    met[games.low] = met[games.high] = True
    if not prior:
        parts = games.strong
        split = np.flatnonzero(parts[games.low] != parts[games.high])
        if len(split):
            one, other = (items[side[split[:1]]].tolist()[0] for side in (games.low, games.high))
            raise InputError(
                f"without a prior some scores are infinite: no chain of wins leads both ways between items such as {one!r} and "
                f"{other!r} ({len(np.unique(parts[met])):,} groups that only win or only lose against each other); "
                "set prior above 0 (0.1 is the default), or collect comparisons between the groups"
            )
    n_parts = len(np.unique(games.component[met]))
    if n_parts > 1:
        sizes = np.sort(np.bincount(games.component[met]))[::-1]
        some = ", ".join(f"{size:,}" for size in sizes[:3].tolist()) + (", ..." if n_parts > 3 else "")
        warnings.warn(
            f"the comparisons fall into {n_parts:,} parts that never met (of {some} items): scores compare items within a part "
            "only, see the column component; compare some items across parts to join them",
            DataWarning,
            stacklevel=3,
        )
