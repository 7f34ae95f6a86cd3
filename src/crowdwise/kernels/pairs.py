"""The bipartite graph of items and annotators, for methods that send messages along its edges.

An edge is a *pair*: one annotator and one item, with all votes of that annotator on that item. Two
votes of a pair are no two edges: they share both ends, and between two edges a message would come
straight back. What a pair's votes are, up to the names of the classes that the model does not tell
apart, is its *pattern*; likelihoods are computed once per pattern.

States of a pair's item, as the pair sees them: with `by_class` all K classes; otherwise the classes
it voted for (one, save for repeats) and all others together, so that memory has no factor K.

Symbols
-------
pair : index p of P pairs, sorted by item and annotator
state : index j of J states; the last one is "any other class" where states are not the classes
counts_c : [C, K or J - 1]   weight of the votes for each class (or voted state), per pattern
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from crowdwise.kernels.numerics import log_floored, segment_sum
from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = [
    "Pairs",
    "find_pairs",
    "log_dot",
    "pairs_of",
    "row_max",
    "row_softmax",
    "row_sum",
    "scores_of",
    "state_mass",
    "state_rows",
]


# Patterns beyond the plain ones (one vote) that get a matrix product of their own.
_MOST_COMMON = 32
_SHORT = 8
_BLOCK = 1 << 20


class Pairs(NamedTuple):
    """Pairs of annotators and items; `state` is empty where the states are the classes."""

    item: Integers
    annotator: Integers
    of_vote: Integers
    state: Integers
    pattern: Integers
    counts: Floats
    common: int
    n_states: int
    by_annotator: Integers


def pairs_of(item: Integers, annotator: Integers, label: Integers, weight: Floats, n_classes: int, by_class: bool) -> Pairs:
    """Gather votes, sorted by item, annotator and label, into pairs."""
    new_pair = _changes(item, annotator)
    first = np.flatnonzero(new_pair)
    of_vote = np.cumsum(new_pair) - 1
    new_cell = new_pair | _changes(label)
    cell_pair, cell_label = of_vote[new_cell], label[new_cell].astype(np.int64)
    cell_weight = segment_sum(np.cumsum(new_cell) - 1, weight if len(weight) else None, len(cell_pair))
    n_pairs = len(first)
    cells = np.bincount(cell_pair, minlength=n_pairs)
    plain = (cells == 1) & (segment_sum(cell_pair, cell_weight, n_pairs) == 1)
    rare = np.flatnonzero(~plain)
    if by_class:
        state = np.empty((n_pairs, 0), np.int64)
        slot, width = cell_label, n_classes
        known = np.eye(n_classes)
        pattern = label[first].astype(np.int64)
    else:
        width = int(cells.max(initial=1))
        slot = np.arange(len(cell_pair)) - (np.cumsum(cells) - cells)[cell_pair]
        state = np.full((n_pairs, width), -1, np.int64)
        state[cell_pair, slot] = cell_label
        known = np.eye(1, width)
        pattern = np.zeros(n_pairs, np.int64)
    row = np.full(n_pairs, -1, np.int64)
    row[rare] = np.arange(len(rare))
    count_rare = np.zeros((len(rare), width))
    inside = row[cell_pair] >= 0
    count_rare[row[cell_pair[inside]], slot[inside]] = cell_weight[inside]
    distinct, code, times = np.unique(count_rare, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-times, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    pattern[rare] = len(known) + rank[code.reshape(-1)]
    return Pairs(
        item=item[first].astype(np.int64),
        annotator=annotator[first].astype(np.int64),
        of_vote=of_vote,
        state=state,
        pattern=pattern,
        counts=np.concatenate([known, distinct[order]]),
        common=len(known) + min(len(order), _MOST_COMMON),
        n_states=width if by_class else width + 1,
        by_annotator=np.argsort(annotator[first], kind="stable"),
    )


def find_pairs(item: Integers, annotator: Integers, known_item: Integers, known_annotator: Integers) -> Integers:
    """Position of every pair among known ones, sorted by item and annotator; -1 where absent."""
    if len(known_item) == 0:
        return np.full(len(item), -1, np.int64)
    width = int(max(known_annotator.max(), annotator.max(initial=0))) + 1
    key, wanted = known_item * width + known_annotator, item * width + annotator
    at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.where((key[at] == wanted) & (item >= 0) & (annotator >= 0), at, -1)


def state_mass(pairs: Pairs, posterior: Floats) -> Floats:
    """Posterior probability of every state of every pair, [P, J]."""
    if pairs.state.shape[1] == 0:
        return np.asarray(posterior[pairs.item])
    mass = np.empty((len(pairs.item), pairs.n_states))
    block = max(_BLOCK // posterior.shape[1], 1)
    for start in range(0, len(mass), block):
        part = slice(start, start + block)
        rest = posterior[pairs.item[part]]
        row, slot = np.nonzero(pairs.state[part] >= 0)
        voted = pairs.state[part][row, slot]
        mass[part] = 0.0
        mass[start + row, slot] = rest[row, voted]
        # Summed, not one minus the others: the rest may be far below rounding of one.
        rest[row, voted] = 0.0
        mass[part, -1] = row_sum(rest)
    return mass


def state_rows(pairs: Pairs, index: Integers, value_pj: Floats, n_classes: int) -> Floats:
    """Values by state spread over the classes, for the pairs at `index`, [len(index), K]."""
    if pairs.state.shape[1] == 0:
        return np.array(value_pj[index])
    rows = np.repeat(value_pj[index, -1:], n_classes, axis=1)
    at, slot = np.nonzero(pairs.state[index] >= 0)
    rows[at, pairs.state[index][at, slot]] = value_pj[index[at], slot]
    return rows


def scores_of(pairs: Pairs, value_pj: Floats, n_items: int, n_classes: int) -> Floats:
    """Sum of the pairs' values over each item's pairs, by class, [N, K]."""
    if pairs.state.shape[1] == 0:
        sums = [segment_sum(pairs.item, value_pj[:, k], n_items) for k in range(n_classes)]
        return np.stack(sums, axis=1)
    base = segment_sum(pairs.item, value_pj[:, -1], n_items)
    row, slot = np.nonzero(pairs.state >= 0)
    cell = pairs.item[row] * n_classes + pairs.state[row, slot]
    bonus = value_pj[row, slot] - value_pj[row, -1]
    return base[:, None] + segment_sum(cell, bonus, n_items * n_classes).reshape(n_items, n_classes)


def row_softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Softmax of every row, in place, and the log-normalisers."""
    top = row_max(scores) if scores.shape[1] else np.zeros(len(scores))
    scores -= top[:, None]
    np.exp(scores, out=scores)
    total = row_sum(scores)
    scores /= total[:, None]
    return scores, top + np.log(total)


def log_dot(weight_pj: Floats, log_value_pj: Floats) -> Floats:
    """log sum_j weight_j exp(log_value_j) of every row."""
    top = row_max(log_value_pj)
    return np.asarray(top + log_floored(row_sum(weight_pj * np.exp(log_value_pj - top[:, None]))))


def row_max(rows: Floats) -> Floats:
    """Largest entry of every row; column by column where rows are short, which numpy reduces one by one."""
    if rows.shape[1] > _SHORT:
        return np.asarray(rows.max(axis=1))
    return np.asarray(reduce(np.maximum, rows.T))


def row_sum(rows: Floats) -> Floats:
    """Sum of every row, as `row_max`."""
    if rows.shape[1] > _SHORT or rows.shape[1] == 0:
        return np.asarray(rows.sum(axis=1))
    return np.asarray(reduce(np.add, rows.T))


def _changes(*columns: Integers) -> Flags:
    """Where a vote differs from the one before it in any column; the first always does."""
    changed = np.ones(len(columns[0]), bool)
    if len(changed):
        changed[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return changed
