"""Whether a set of annotators agrees more than skill explains: a test over items, and its confirmation by outsiders.

Test           T = sum over pairs inside and their common items of (1[same answer] - e_ab),  e_ab = p_a . p_b + scale u_a u_b
               variance: that over items, at least the model's, plus (n_ab scale)^2 tau^2 of every pair
Confirmation   the same excess given what those outside answered: the class with two thirds of their votes, or else the
               leading class in a stratum of its own. Honest agreement on easy items leaves nothing there.

Sums over the pairs of an item are differences of squares, (|sum_a f_a|^2 - sum_a |f_a|^2) / 2, so that no items x members
table is built; dropping a member touches the items that it answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.data.meetings import SingleAnswers
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats, Integers

if TYPE_CHECKING:
    from crowdwise.engines.independence import Agreement, Background

__all__ = ["Trial", "confirmed_excess"]


class Trial:
    """The test of a set of annotators that shrinks member by member.

    `members` are those still inside; `ratio` is T over its standard deviation, `excess` is T over the most that it could be.
    """

    def __init__(self, answers: SingleAnswers, pairs: Agreement, background: Background, members: Integers) -> None:
        self.members = members
        self._answers, self._pairs, self._skill = answers, pairs, background.skill
        # (excess, common items, most possible excess, variance by the model, variance by the misfit) by pair, [5, M, M]
        self._tables = _pair_tables(pairs, background, members)
        self._rows = self._tables.sum(axis=2)
        self._items: _Items | None = None

    @property
    def by_member(self) -> Floats:
        """Mean excess agreement of every member with the others, [M]."""
        return np.asarray(self._rows[0] / np.maximum(self._rows[1], 1))

    @property
    def excess(self) -> float:
        """Excess agreement as a share of what is possible."""
        total = self._rows.sum(axis=1) / 2
        return float(total[0] / max(total[2], 1e-9))

    @property
    def most_ratio(self) -> float:
        """What `ratio` is at most: the variance over items can only lower it."""
        total, _, _, model, misfit = self._rows.sum(axis=1) / 2
        return float(total / np.sqrt(model + misfit + 1e-9)) if total > 0 else 0.0

    @property
    def ratio(self) -> float:
        """T over its standard deviation; 0 where there is no excess."""
        total, _, _, model, misfit = self._rows.sum(axis=1) / 2
        if total <= 0:
            return 0.0
        if self._items is None:
            expected_al = np.column_stack([self._pairs.own_al, np.sqrt(self._pairs.scale) * self._skill])
            self._items = _Items(self._answers, expected_al, self.members)
        over_items = self._items.variance(total)
        return float(total / np.sqrt(max(over_items, model) + misfit + 1e-9))

    def drop(self, index: int) -> None:
        """Leave out the member at this position."""
        if self._items is not None:
            self._items.drop(int(self.members[index]))
        self._rows = np.delete(self._rows - self._tables[:, :, index], index, axis=1)
        self._tables = np.delete(np.delete(self._tables, index, axis=1), index, axis=2)
        self.members = np.delete(self.members, index)


class _Items:
    """Excess agreements inside a set of annotators by item."""

    def __init__(self, answers: SingleAnswers, expected_al: Floats, members: Integers) -> None:
        chosen = answers.by(members)
        _, self._item = np.unique(chosen.item, return_inverse=True)
        order = np.argsort(chosen.annotator, kind="stable")
        size = np.bincount(chosen.annotator, minlength=answers.n_annotators)[members]
        self._votes = dict(zip(members.tolist(), np.split(order, np.cumsum(size)[:-1]), strict=True))
        self._share, self._expected = chosen.share_cl, expected_al[chosen.annotator]
        self._own = (self._share**2).sum(axis=1) - (self._expected**2).sum(axis=1)
        n = int(self._item.max(initial=-1)) + 1
        self._same, self._alike = chosen.label_sums(self._item, n), _sum_rows(self._item, self._expected, n)
        self._single, self._present = segment_sum(self._item, self._own, n), segment_sum(self._item, None, n)
        self._by_item = self._excess_at(slice(None))

    def variance(self, total: float) -> float:
        """The variance of their sum, which is `total`, over items."""
        return float(self._by_item @ self._by_item - total**2 / np.count_nonzero(self._present > 0.5))

    def drop(self, member: int) -> None:
        """Leave out the answers of a member."""
        gone = self._votes[member]
        touched = self._item[gone]
        self._same[touched] -= self._share[gone]
        self._alike[touched] -= self._expected[gone]
        self._single[touched] -= self._own[gone]
        self._present[touched] -= 1
        self._by_item[touched] = self._excess_at(touched)

    def _excess_at(self, items: Integers | slice) -> Floats:
        both = (self._same[items] ** 2).sum(axis=1) - (self._alike[items] ** 2).sum(axis=1)
        return np.asarray((both - self._single[items]) / 2)


def confirmed_excess(answers: SingleAnswers, counts_nl: Floats, members: Integers) -> float:
    """Excess agreement inside as a share of what is possible, given the leading class of those outside.

    `counts_nl` are those of `crowdwise.data.meetings.label_counts`. With fewer than five items that outsiders answered,
    nothing contradicts the excess, and it is 1.
    """
    chosen = answers.by(members)
    n_classes = chosen.n_classes
    items, row = np.unique(chosen.item, return_inverse=True)
    inside = chosen.label_sums(row, len(items))
    outside = counts_nl[items] - inside
    total, top = outside.sum(axis=1), outside.max(axis=1)
    stratum = outside.argmax(axis=1) + n_classes * (top < 2 / 3 * total)
    heard = total > 1e-9
    if heard.sum() < 5:
        return 1.0
    chosen, row = chosen.at(heard[row]), row[heard[row]]
    cell, of_answer = np.unique(chosen.annotator * (2 * n_classes) + stratum[row], return_inverse=True)
    habit = chosen.label_sums(of_answer, len(cell))
    base = chosen.share_cl.sum(axis=0) + 0.5
    habit = (habit + base / base.sum()) / (habit.sum(axis=1, keepdims=True) + 1)
    expected = habit[of_answer]

    def over_pairs(values: Floats) -> float:
        return float((_sum_rows(row, values, len(items)) ** 2).sum() - (values**2).sum()) / 2

    meetings = over_pairs(np.ones((len(row), 1)))
    by_habit = over_pairs(expected)
    return (over_pairs(chosen.share_cl) - by_habit) / max(meetings - by_habit, 1e-9)


def _pair_tables(pairs: Agreement, background: Background, members: Integers) -> Floats:
    """Statistics of the pairs among the members, symmetric, [5, M, M]; zero for those who never met."""
    size, scale = len(members), pairs.scale
    i, j = np.triu_indices(size, 1)
    wanted = members[i] * pairs.n_annotators + members[j]
    at = np.minimum(np.searchsorted(pairs.key, wanted), len(pairs.key) - 1)
    met = pairs.key[at] == wanted
    i, j, at = i[met], j[met], at[met]
    n = pairs.n[at]
    expected = pairs.chance[at] + scale * background.explained[at]
    bounded = np.clip(expected, 0.02, 0.98)
    tables = np.zeros((5, size, size))
    values = (
        pairs.agree[at] - n * expected,
        n,
        n * np.maximum(1 - expected, 0.02),
        n * bounded * (1 - bounded),
        (n * scale) ** 2 * background.misfit,
    )
    for table, value in zip(tables, values, strict=True):
        table[i, j] = table[j, i] = value
    return tables


def _sum_rows(index: Integers, values: Floats, size: int) -> Floats:
    return np.column_stack([segment_sum(index, column, size) for column in values.T])
