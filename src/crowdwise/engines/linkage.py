"""Average linkage of annotators by the agreement that skill leaves unexplained.

Of two clusters, over the pairs between them that met, with weights w = 1 / variance and excess x = s - u_a u_b,

    z = sum w x / sqrt(sum w),   relative = sum w x / sum w (1 - u_a u_b),   closeness = relative (1 - 1 / z)   where z > 2

The closest two are merged until none is close enough. Pairs that never met count for nothing, so that sparse crowds can be
linked through those who did. Only annotators with a pair above z = 2 take part, at most 1200 of them: the table is dense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.types import Floats, Integers

if TYPE_CHECKING:
    from crowdwise.engines.independence import Agreement, Background

__all__ = ["EDGE", "EXCESS", "linked"]


# Standard deviations of agreement that skill leaves unexplained, from which on two are linked.
EDGE = 2.0
# The least excess of agreement that counts, as a share of what is possible.
EXCESS = 0.2
_LARGEST = 1200


def linked(pairs: Agreement, background: Background, least: float) -> list[Integers]:
    """Clusters of two or more annotators, merged while their closeness is at least `least`; members sorted."""
    excess = pairs.beyond - background.explained
    who = _taking_part(pairs, pairs.ratio(background.explained, background.variance))
    if len(who) == 0:
        return []
    position = np.full(pairs.n_annotators, -1)
    position[who] = np.arange(len(who))
    first, second = position[pairs.first], position[pairs.second]
    kept = (first >= 0) & (second >= 0)
    i, j, weight = first[kept], second[kept], 1 / background.variance[kept]
    sums = np.zeros((3, len(who), len(who)))
    room = np.maximum(1 - background.explained[kept], 0.05)
    for table, values in zip(sums, (weight, weight * excess[kept], weight * room), strict=True):
        table[i, j] = table[j, i] = values
    return [np.sort(who[members]) for members in _merged(sums, least)]


def _taking_part(pairs: Agreement, z: Floats) -> Integers:
    """Annotators with an edge; the strongest, where there are too many."""
    tied = z > EDGE
    who = np.unique(np.concatenate([pairs.first[tied], pairs.second[tied]]))
    if len(who) <= _LARGEST:
        return who
    top = np.zeros(pairs.n_annotators)
    np.maximum.at(top, pairs.first, z)
    np.maximum.at(top, pairs.second, z)
    return np.sort(np.argsort(-top, kind="stable")[:_LARGEST])


def _merged(sums: Floats, least: float) -> list[list[int]]:
    """Merge the closest two rows of the tables (weight, excess, room) again and again; clusters of two or more."""
    size = sums.shape[1]
    close = _closeness(*sums)
    members = [[row] for row in range(size)]
    # The best partner of every row, so that a merge looks at rows it has changed and not at the whole table.
    partner = close.argmax(axis=1)
    best = close[np.arange(size), partner]
    while True:
        i = int(best.argmax())
        if not best[i] >= least:
            return [found for found in members if len(found) > 1]
        j = int(partner[i])
        sums[:, i] += sums[:, j]
        sums[:, i, i] = 0
        sums[:, :, i] = sums[:, i]
        sums[:, j] = sums[:, :, j] = 0
        members[i] += members[j]
        members[j] = []
        close[i] = close[:, i] = _closeness(*sums[:, i])
        close[j] = close[:, j] = -np.inf
        nearer = (close[:, i] > best) | ((close[:, i] == best) & (i < partner))
        partner[nearer], best[nearer] = i, close[nearer, i]
        for row in np.flatnonzero((~nearer & ((partner == i) | (partner == j))) | (np.arange(size) == i)):
            partner[row] = close[row].argmax()
            best[row] = close[row, partner[row]]
        best[j] = -np.inf


def _closeness(weight: Floats, excess: Floats, room: Floats) -> Floats:
    z = np.where(weight > 0, excess / np.sqrt(np.maximum(weight, 1e-12)), -np.inf)
    relative = excess / np.maximum(room, 1e-12)
    return np.where(z > EDGE, relative * (1 - 1 / np.maximum(z, 1e-9)), -np.inf)
