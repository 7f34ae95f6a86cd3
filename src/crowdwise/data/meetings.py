"""Who met whom on an item, and agreed: counts of votes, and of every pair of annotators.

Of all votes together, three sparse counts in O(E log E) time and O(E) memory for E votes:

    c_nk   votes for class k on item n,          m_n = sum_k c_nk
    g_na   votes by annotator a on item n
    t_nak  votes by annotator a for class k on item n

    pairs_n  = m_n^2 - sum_a g_na^2              ordered pairs of votes by two different annotators
    agree_n  = sum_k c_nk^2 - sum_ak t_nak^2     those of them that agree

Two votes of one annotator on one item are not a pair: repeating oneself is consistency, not agreement with others. Weights of
votes are ignored.

Of pairs of annotators, one answer per (item, annotator): repeated votes are one answer, the weighted shares of their labels, so
that statistics of pairs do not change when a weight is written as repeats. Memory grows with pairs that met; items are walked
through in chunks, never items x annotators.

Symbols
-------
share_cl : [C, L]       labels of every answer; rows sum to one
agree, expected : [P]   summed over the items that both annotators of a pair answered
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kernels.types import Array, Flags, Floats, Integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdwise.data.annotations import Annotations

__all__ = ["MOST_MEETINGS", "Pairs", "SingleAnswers", "VoteCounts", "agreements", "answers_of", "count_votes"]
__all__ += ["label_counts", "n_meetings", "pair_sums", "pairwise_agreement", "sampled"]


# Pairs of answers on one item beyond which a look at pairs of annotators takes a sample of the items: some seconds.
MOST_MEETINGS = 4_000_000
# Pairs handled at a time: some tens of megabytes of working arrays.
_CHUNK = 2**19
# Entries of a table of all pairs of annotators that is small enough to hold: 1,448 annotators.
_DENSE = 2**21


def pairwise_agreement(votes: Annotations) -> float:
    """Return the share of agreeing pairs among all pairs of votes on the same item.

    Pairs are pooled over items, so an item with many votes counts for more; see the module's
    notes for repeated votes. NaN when no item has votes of two annotators.

    Examples
    --------
    >>> from crowdwise.data.annotations import Annotations
    >>> votes = Annotations.from_matrix([["cat", "cat", "dog"], ["dog", "dog", None]])
    >>> pairwise_agreement(votes)
    0.5
    """
    counts = count_votes(votes)
    pairs = float(counts.pairs.sum())
    return float(counts.agree.sum()) / pairs if pairs else float("nan")


@dataclass(frozen=True)
class VoteCounts:
    """Counts of votes: non-zero c_nk and t_nak as parallel arrays; pairs_n and agree_n, [N].

    `pair` numbers the (item, annotator) pairs that have votes; `pair_item` is the item of each.
    """

    item: NDArray[np.int64]
    label: NDArray[np.int64]
    votes: NDArray[np.int64]
    own_pair: NDArray[np.int64]
    own_label: NDArray[np.int16]
    own_votes: NDArray[np.int64]
    pair_item: NDArray[np.int32]
    pairs: NDArray[np.int64]
    agree: NDArray[np.int64]


def count_votes(votes: Annotations) -> VoteCounts:
    """Count votes by item; of distributions, the most probable class."""
    votes = votes.hardened()
    n_items, n_classes = votes.n_items, max(votes.n_classes, 1)
    key, count = np.unique(votes.item.astype(np.int64) * n_classes + votes.label, return_counts=True)
    item, label = np.divmod(key, n_classes)
    # Votes are sorted by item, annotator and label: a change marks the next pair, the next triple.
    new_pair = np.ones(votes.n_votes, bool)
    new_pair[1:] = (votes.item[1:] != votes.item[:-1]) | (votes.annotator[1:] != votes.annotator[:-1])
    new_own = new_pair.copy()
    new_own[1:] |= votes.label[1:] != votes.label[:-1]
    pair = np.cumsum(new_pair) - 1
    pair_item = votes.item[new_pair]
    own_votes = np.diff(np.flatnonzero(new_own), append=votes.n_votes)
    pairs = votes.votes_per_item**2 - _sum_by(pair_item, np.bincount(pair) ** 2, n_items)
    agree = _sum_by(item, count**2, n_items) - _sum_by(votes.item[new_own], own_votes**2, n_items)
    return VoteCounts(item, label, count, pair[new_own], votes.label[new_own], own_votes, pair_item, pairs, agree)


def _sum_by(segment: NDArray[Any], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    # bincount adds in floats, which is exact for integers below 2^53.
    return np.bincount(segment, values, minlength=size).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SingleAnswers:
    """One answer per (item, annotator) that has weight, sorted by item and annotator."""

    item: Integers
    annotator: Integers
    #: The label of every answer, [C]; or shares of labels, [C, L], where votes were repeated.
    given: Array
    n_annotators: int
    n_classes: int
    #: Summed weight of the votes behind every answer, [C].
    weight: Floats
    #: Whether there are so many votes that compiled loops are loaded anyway.
    compiled: bool = False

    def at(self, index: Integers | Flags) -> SingleAnswers:
        """The answers at these positions, in their order."""
        return replace(
            self,
            item=self.item[index],
            annotator=self.annotator[index],
            given=self.given[index],
            weight=self.weight[index],
        )

    def by(self, annotators: Integers) -> SingleAnswers:
        """The answers of these annotators, in their order."""
        order, start = self._by_annotator
        return self.at(np.sort(np.concatenate([order[start[a] : start[a + 1]] for a in annotators.tolist()])))

    @cached_property
    def _by_annotator(self) -> tuple[Integers, Integers]:
        """Positions of the answers sorted by annotator, and where each annotator's start."""
        count, size = np.bincount(self.annotator, minlength=self.n_annotators), max(len(self.annotator), 1)
        # One sortable key per answer; sorting keys themselves is several times faster than an argsort.
        return np.sort(self.annotator * size + np.arange(len(self.annotator))) % size, np.concatenate([[0], np.cumsum(count)])

    @property
    def single(self) -> bool:
        """Whether every answer is one label."""
        return self.given.ndim == 1

    @cached_property
    def share_cl(self) -> Floats:
        """Labels of every answer; rows sum to one, [C, L]."""
        return np.eye(self.n_classes).take(self.given, axis=0) if self.single else self.given

    def label_sums(self, cell: Integers, n_cells: int) -> Floats:
        """Answers by cell and label, of the cell of every answer, [n_cells, L]."""
        size, n_classes = n_cells * self.n_classes, self.n_classes
        if self.single:
            return _summed(cell * n_classes + self.given, None, size).reshape(n_cells, n_classes)
        index = cell[:, None] * n_classes + np.arange(n_classes)
        return _summed(index.ravel(), self.given.ravel(), size).reshape(n_cells, n_classes)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of annotators who met, first < second, with their items in common and summed statistics [P, S]."""

    first: Integers
    second: Integers
    n_items: Floats
    sums: Floats


def answers_of(votes: Annotations) -> SingleAnswers:
    """Collapse votes to one answer per (item, annotator); votes without weight are no answers."""
    return _collapsed(votes, slice(None) if votes.weight is None else np.flatnonzero(votes.weight > 0))


def _collapsed(votes: Annotations, kept: Integers | slice) -> SingleAnswers:
    """The answers that these votes make, in their order."""
    from crowdwise.kernels.numerics import COMPILED_FROM

    item, annotator = votes.item[kept].astype(np.int64), votes.annotator[kept].astype(np.int64)
    label, compiled = votes.label[kept], votes.n_votes >= COMPILED_FROM
    weight = np.ones(len(item)) if votes.weight is None else votes.weight[kept]
    sizes = votes.n_annotators, votes.n_classes
    new = np.ones(len(item), bool)
    new[1:] = (item[1:] != item[:-1]) | (annotator[1:] != annotator[:-1])
    if new.all():
        return SingleAnswers(item, annotator, label, *sizes, weight, compiled)
    cell, n_cells = np.cumsum(new) - 1, int(new.sum())
    share = _summed(cell * votes.n_classes + label, weight, n_cells * votes.n_classes)
    share_cl = share.reshape(n_cells, votes.n_classes)
    total = share_cl.sum(axis=1)
    share_cl /= total[:, None]
    one = share_cl.max(axis=1, initial=0.0).min(initial=1.0) == 1
    given = share_cl.argmax(axis=1).astype(label.dtype) if one else share_cl
    return SingleAnswers(item[new], annotator[new], given, *sizes, total, compiled)


def n_meetings(votes: Annotations) -> int:
    """Pairs of votes on one item."""
    size = votes.votes_per_item
    return int((size * (size - 1)).sum()) // 2


def sampled(votes: Annotations, most: int) -> SingleAnswers:
    """The answers on all items, or on as many items as have `most` pairs of votes, drawn with a fixed seed.

    Items with more votes than the root of `most` first lose votes by the same draw, so that one item cannot take all.
    """
    if n_meetings(votes) <= most:
        return answers_of(votes)
    rng = np.random.default_rng(0)
    size, largest = votes.votes_per_item, max(int(most**0.5), 2)
    kept = np.ones(votes.n_votes, bool) if votes.weight is None else votes.weight > 0
    if size.max() > largest:
        shuffled = np.lexsort((rng.random(votes.n_votes), votes.item))
        kept[shuffled] &= np.arange(votes.n_votes) - np.repeat(votes.item_ptr[:-1], size) < largest
        size = np.minimum(size, largest)
    order = rng.permutation(len(size))
    drawn = np.zeros(len(size), bool)
    drawn[order[np.cumsum((size * (size - 1) // 2)[order]) <= most]] = True
    return _collapsed(votes, np.flatnonzero(np.repeat(drawn, votes.votes_per_item) & kept))


def pair_sums(answers: SingleAnswers, statistics: Callable[[Integers, Integers], Floats], width: int) -> Pairs:
    """Sum ``statistics(first answers, second answers) -> [pairs, width]`` over the common items of every pair."""
    n = answers.n_annotators
    if n * n <= _DENSE:
        return _dense_sums(answers, statistics, width)
    keys: list[Integers] = []
    totals: list[Floats] = []
    held = 0
    for first, second in _pairs_of_answers(answers.item):
        pair = answers.annotator[first] * n + answers.annotator[second]
        key, index = np.unique(pair, return_inverse=True)
        keys.append(key)
        totals.append(np.stack([_summed(index, column, len(key)) for column in (None, *statistics(first, second).T)]))
        held += len(key)
        # Pairs meet again in later chunks; merging now and then keeps one row for each.
        if held > 8 * _CHUNK and len(keys) > 1:
            keys, totals = _merged(keys, totals)
            held = len(keys[0])
    if not keys:
        none = np.empty(0, np.int64)
        return Pairs(none, none, np.empty(0), np.empty((0, width)))
    (key,), (total,) = _merged(keys, totals)
    return Pairs(key // n, key % n, total[0], total[1:].T)


def label_counts(answers: SingleAnswers, n_items: int) -> Floats:
    """Answers of everybody by item and label, [N, L]."""
    return answers.label_sums(answers.item, n_items)


def agreements(answers: SingleAnswers) -> Pairs:
    """Common items and agreements of every pair that met; of repeated and soft votes the expected agreements."""
    if not answers.single:
        share = answers.given
        return pair_sums(answers, lambda i, j: np.einsum("pl,pl->p", share[i], share[j])[:, None], 1)
    label, n = answers.given, answers.n_annotators
    size = np.bincount(answers.item)
    met = int((size * (size - 1)).sum()) // 2
    # A table of all pairs that has many more cells than there are meetings takes longer than sorting these.
    dense = n * n <= min(_DENSE, 8 * met)
    if answers.compiled:
        return _compiled_agreements(answers, size, met, dense)
    if dense:
        return _dense_sums(answers, lambda i, j: (label[i] == label[j]).astype(float)[:, None], 1)
    # One number says who met and whether they agreed, so that plain sorting counts both.
    keys = [
        2 * (answers.annotator[i] * n + answers.annotator[j]) + (label[i] == label[j])
        for i, j in _pairs_of_answers(answers.item)
    ]
    return _counted(np.concatenate([np.empty(0, np.int64), *keys]), n)


def _compiled_agreements(answers: SingleAnswers, size: Integers, met: int, dense: bool) -> Pairs:
    from crowdwise.kernels.meeting_loops import count_meetings, meeting_keys
    from crowdwise.kernels.numerics import of_type

    n = answers.n_annotators
    item_ptr, who = of_type(np.int64, np.concatenate([[0], np.cumsum(size)])), of_type(np.int64, answers.annotator)
    label = of_type(np.int16, answers.given)
    if not dense:
        key = np.empty(met, np.int64)
        meeting_keys(item_ptr, who, label, n, key)
        return _counted(key, n)
    table = np.zeros(n * n, np.int64)
    count_meetings(item_ptr, who, label, n, table)
    pair = np.flatnonzero(table)
    both = table[pair]
    return Pairs(pair // n, pair % n, (both >> 32).astype(float), (both & 0xFFFFFFFF).astype(float)[:, None])


def _counted(key: Integers, n: int) -> Pairs:
    """Pairs by their meetings, numbered 2 (a * n + b), and one more where they agreed."""
    key.sort()
    pair = key >> 1
    start = np.flatnonzero(np.diff(pair, prepend=-1))
    met = np.diff(np.append(start, len(pair)))
    agreed = np.diff(np.append(0, np.cumsum(key & 1)[np.append(start[1:], len(pair)) - 1])) if len(pair) else met
    return Pairs(pair[start] // n, pair[start] % n, met.astype(float), agreed.astype(float)[:, None])


def _dense_sums(answers: SingleAnswers, statistics: Callable[[Integers, Integers], Floats], width: int) -> Pairs:
    """The same for few annotators: sums into a table of all pairs, without sorting."""
    n = answers.n_annotators
    total = np.zeros((width + 1, n * n))
    for first, second in _pairs_of_answers(answers.item):
        pair = answers.annotator[first] * n + answers.annotator[second]
        values = statistics(first, second)
        total[0] += _summed(pair, None, n * n)
        for s in range(width):
            total[s + 1] += _summed(pair, values[:, s], n * n)
    met = np.flatnonzero(total[0])
    return Pairs(met // n, met % n, total[0, met], total[1:, met].T)


def _merged(keys: list[Integers], totals: list[Floats]) -> tuple[list[Integers], list[Floats]]:
    """One row of every key; one statistic after the other, so that no second table of all is held."""
    key, index = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.empty((len(totals[0]), len(key)))
    for s in range(len(total)):
        total[s] = _summed(index, np.concatenate([part[s] for part in totals]), len(key))
    return [key], [total]


def _pairs_of_answers(item: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Positions of every two answers on one item, a chunk of answers at a time."""
    n = len(item)
    # Every answer pairs with those after it, up to the end of its item.
    end = np.searchsorted(item, item, side="right")
    partners = end - np.arange(n) - 1
    total = np.concatenate([[0], np.cumsum(partners)])
    start = 0
    while start < n:
        stop = max(int(np.searchsorted(total, total[start] + _CHUNK, side="right")) - 1, start + 1)
        counts = partners[start:stop]
        first = np.repeat(np.arange(start, stop), counts)
        offset = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        if len(first):
            yield first, first + 1 + offset
        start = stop


def _summed(index: Integers, values: Floats | None, size: int) -> Floats:
    # `kernels.numerics.segment_sum`, whose module a count of votes need not load.
    return np.bincount(index, values, minlength=size).astype(np.float64, copy=False)
