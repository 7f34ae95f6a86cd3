"""Successive projection: rows of a confusion matrix as the corners of the cloud of its co-label columns.

The columns of M_ab, scaled to sum to one, are mixtures of the rows of R_a; the column of a label
that b uses for one class only is exactly that row. Among all columns of an annotator, K times the
one farthest from the span of those already picked is taken.

Thin columns are noise with far corners, so partners are pooled first: for each label, partners in
order of how purely they use it are merged until a column holds `min_count` meetings. A merged column
is still a mixture of the rows, and merging like with like keeps pure columns pure.
"""

from __future__ import annotations

import numpy as np

from crowdwise.engines.moments import Cooccurrence, Estimate, class_shares
from crowdwise.engines.permutation import align_rows
from crowdwise.kernels.cooccurrence import distinct
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats

__all__ = ["multi_spa", "pooled_columns", "successive_projection"]


# Columns per annotator and label; more partners than this are pooled.
_COLUMNS = 48


def multi_spa(moments: Cooccurrence, nearest: int = 5) -> Estimate:
    """Rows of every annotator's confusion matrix by successive projection, in one order, with class shares."""
    columns, mass = pooled_columns(moments, max(20.0, 5.0 * moments.n_classes))
    # A sliver of an annotator's meetings has no place among its corners.
    mass = np.where(mass >= 0.002 * mass.sum(axis=1, keepdims=True), mass, 0.0)
    seen = (mass > 0).sum(axis=1) >= moments.n_classes
    rows = successive_projection(columns, mass, nearest)
    table = align_rows(rows.transpose(0, 2, 1), moments, seen)
    return Estimate(table, class_shares(table, moments, seen), seen)


def pooled_columns(moments: Cooccurrence, min_count: float) -> tuple[Floats, Floats]:
    """Scaled columns of every annotator, [A, C, L], and the meetings behind each, [A, C] (zero where there is none)."""
    n_annotators, n_classes = moments.count_al.shape
    left, right, count, n_rows = moments.left, moments.right, moments.count_c, n_annotators * n_classes
    # Cells are seen from their left end, then from their right one: getting memory for both at once would cost the most.
    who, other = left // n_classes, right // n_classes
    said, answered = left - who * n_classes, right - other * n_classes
    # Purity of label j of annotator b: how often the others said j, too, where b did.
    equal = said == answered
    agree = sum(segment_sum(mine[equal], count[equal], n_rows) for mine in (left, right))
    purity = agree / np.maximum(sum(segment_sum(mine, count, n_rows) for mine in (left, right)), 1e-300)
    # One column per (annotator a, label j, partner b), in order of purity within (a, j).
    keys = (who * n_classes + answered) * n_annotators + other, (other * n_classes + said) * n_annotators + who
    code, place_of_key = distinct(np.concatenate(keys), n_rows * n_annotators)
    column_of_cell = place_of_key[: len(count)], place_of_key[len(count) :]
    owner, label, partner = code // (n_classes * n_annotators), code // n_annotators % n_classes, code % n_annotators
    size = np.asarray(sum(segment_sum(column, count, len(code)) for column in column_of_cell))
    slot = owner * n_classes + label
    # Ranks of the annotators within each label turn three keys into one, which needs no comparing where codes are dense.
    by_label = np.argsort(-purity.reshape(n_annotators, n_classes).T, axis=1, kind="stable")
    rank = np.empty_like(by_label)
    np.put_along_axis(rank, by_label, np.arange(n_annotators)[None], axis=1)
    order = np.empty(len(code), np.int64)
    order[distinct(slot * n_annotators + rank[label, partner], n_annotators * n_classes * n_annotators)[1]] = np.arange(
        len(code)
    )
    total = segment_sum(slot, size, n_annotators * n_classes)
    before = np.cumsum(size[order]) - size[order] - (np.cumsum(total) - total)[slot[order]]
    enough = np.maximum(min_count, total / _COLUMNS)[slot[order]]
    part = np.empty(len(code), np.int64)
    # What is left at the end of a label joins its last full column.
    last = np.maximum(np.floor(total[slot[order]] / enough) - 1, 0)
    part[order] = np.minimum(np.minimum(np.floor(before / enough), last), _COLUMNS - 1)
    place = slot * _COLUMNS + part
    columns = np.zeros(n_rows * _COLUMNS * n_classes)
    for column, own in zip(column_of_cell, (said, answered), strict=True):
        columns += segment_sum(place[column] * n_classes + own, count, len(columns))
    columns = columns.reshape(n_annotators, n_classes * _COLUMNS, n_classes)
    mass = columns.sum(axis=2)
    mass[mass < min_count] = 0.0
    return columns / np.maximum(columns.sum(axis=2, keepdims=True), 1e-300), mass


def successive_projection(columns: Floats, mass: Floats, nearest: int) -> Floats:
    """Pick K corners of each annotator's cloud of columns, [A, K, L].

    Each pick is replaced by the mean of those of its `nearest` columns that lie within sampling
    error of it, weighted by their meetings: a single column is noisier than a corner need be.
    """
    n_annotators, _, n_classes = columns.shape
    everyone = np.arange(n_annotators)
    left = np.where(mass[:, :, None] > 0, columns, 0.0)
    variance = (1 - (columns**2).sum(axis=2)) / np.maximum(mass, 1.0)
    picks = np.empty((n_annotators, n_classes, n_classes))
    for k in range(n_classes):
        norm = (left**2).sum(axis=2)
        best = np.where(mass > 0, norm, -1.0).argmax(axis=1)
        distance = ((columns - columns[everyone, best][:, None]) ** 2).sum(axis=2)
        distance = np.where(mass > 0, distance, np.inf)
        near = np.argsort(distance, axis=1, kind="stable")[:, :nearest]
        weight = np.take_along_axis(mass, near, axis=1)
        error = np.take_along_axis(variance, near, axis=1) + variance[everyone, best][:, None]
        weight = np.where(np.take_along_axis(distance, near, axis=1) <= error, weight, 0.0)
        weight[:, 0] = np.maximum(weight[:, 0], 1e-300)
        picks[:, k] = np.einsum("ac,acl->al", weight, columns[everyone[:, None], near]) / weight.sum(axis=1)[:, None]
        direction = left[everyone, best]
        direction = direction / np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-12)
        left -= np.einsum("acl,al->ac", left, direction)[:, :, None] * direction[:, None, :]
    return picks
