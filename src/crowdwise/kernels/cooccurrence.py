"""How often two annotators gave which labels to the same item: sparse counts, and small array helpers of the moment methods.

Symbols
-------
row : [E]                      annotator * K + label of each vote
left, right, count : [C]       cells: rows a K + i and b K + j (a < b) and the weight of their meetings
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from crowdwise.kernels.numerics import ratio
from crowdwise.kernels.types import Floats, Integers

__all__ = ["distinct", "distributions", "pair_cells", "simplex_projection", "trimmed_mean"]


# Products of one sparse multiplication: about 200 MB at its peak.
_EVENTS_PER_CHUNK = 4_000_000


def pair_cells(
    item_ptr: Integers, row: Integers, weight: Floats, n_rows: int, n_classes: int
) -> tuple[Integers, Integers, Floats]:
    """Count labels given to the same items by pairs of different annotators: cells (left, right, count), sorted.

    The upper part of Y' Y without the diagonal blocks, Y [N, A K] being the (weighted) counts of
    labels; in chunks of items, so that memory stays near that of the result. O(sum_n votes_n^2).
    """
    from scipy.sparse import csr_matrix

    data = np.ones(len(row)) if len(weight) == 0 else weight
    # Copied, because repeated votes are added up in place.
    table = csr_matrix((data, row, item_ptr), shape=(len(item_ptr) - 1, n_rows), copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    events = np.concatenate([[0], np.cumsum(np.diff(table.indptr).astype(float) ** 2)])
    cuts = np.unique(np.searchsorted(events, np.arange(_EVENTS_PER_CHUNK, events[-1], _EVENTS_PER_CHUNK)))
    bounds = np.unique([0, *cuts.tolist(), table.shape[0]])
    total = csr_matrix((n_rows, n_rows))
    for start, stop in pairwise(bounds):
        part = table[start:stop]
        cells = (part.T @ part).tocoo()
        upper = cells.row // n_classes < cells.col // n_classes
        shape = (n_rows, n_rows)
        total = total + csr_matrix((cells.data[upper], (cells.row[upper], cells.col[upper])), shape=shape)
    total.sort_indices()
    total = total.tocoo()
    return total.row.astype(np.int64), total.col.astype(np.int64), np.asarray(total.data, float)


def distinct(code: Integers, size: int) -> tuple[Integers, Integers]:
    """The distinct ones of codes below `size`, sorted, and the place of each code among them."""
    if size > 4 * len(code):
        found, place = np.unique(code, return_inverse=True)
        return found, place.reshape(-1)
    # Counting is several times as fast as sorting.
    present = np.zeros(size, bool)
    present[code] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[code]


def distributions(values: Floats, axis: int) -> Floats:
    """Clip below at zero and divide by the sum along `axis`; where nothing is left, uniform."""
    positive = np.maximum(values, 0.0)
    total = positive.sum(axis=axis, keepdims=True)
    return ratio(positive, total, 1 / values.shape[axis])


def simplex_projection(values: Floats) -> Floats:
    """Nearest distribution to every vector along the last axis, in Euclidean distance (sort and threshold)."""
    total, threshold = np.zeros(values.shape[:-1]), np.full(values.shape[:-1], np.inf)
    # From the largest entry on: the threshold is that of the last place where an entry exceeds it.
    for number, entry in enumerate(np.moveaxis(np.sort(values, axis=-1), -1, 0)[::-1], 1):
        total = total + entry
        excess = (total - 1) / number
        threshold = np.where((entry > excess) | (number == 1), excess, threshold)
    return np.asarray(np.maximum(values - threshold[..., None], 0.0))


def trimmed_mean(group: Integers, values: Floats, weight: Floats, size: int, trim: float | Floats) -> Floats:
    """Weighted mean per group after cutting a share (one for all or one each) of the weight at both ends; NaN without any."""
    order = np.lexsort((values, group))
    group, values, weight = group[order], values[order], weight[order]
    total = np.bincount(group, weights=weight, minlength=size)
    stop = np.cumsum(weight)
    begin = np.concatenate([[0.0], np.cumsum(total)[:-1]])
    scale = np.where(total > 0, total, 1.0)[group]
    high = (stop - begin[group]) / scale
    cut = np.broadcast_to(trim, size)[group]
    kept = np.maximum(np.minimum(high, 1 - cut) - np.maximum(high - weight / scale, cut), 0.0)
    mass = np.bincount(group, weights=kept, minlength=size)
    mean = np.bincount(group, weights=kept * values, minlength=size)
    return np.asarray(ratio(mean, mass, np.nan))
