"""Compiled loops of `crowdwise.kernels.potts`: sweeps over the items of a graph, one after another.

Each loop works on the items ``order[start:stop]``, which are whole components, and releases the GIL, so that the caller can run
several ranges in threads. Inside, an item sees what the items before it have just become: that is what keeps a sweep of mean
field from lowering its bound, and makes a sweep forth and back over a chain exact.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np

from crowdwise.kernels.types import Floats, Integers
from crowdwise.kernels.vote_loops import compiled

__all__ = ["belief_field", "belief_sweep", "mean_field", "mean_field_sweep"]


@compiled
def _normalise(scores: Floats, row: Floats) -> float:
    """Write the softmax of the scores into the row; return the share of it that moved."""
    n_classes = len(scores)
    top = scores[0]
    for k in range(1, n_classes):
        top = max(top, scores[k])
    total = 0.0
    for k in range(n_classes):
        scores[k] = math.exp(scores[k] - top)
        total += scores[k]
    change = 0.0
    for k in range(n_classes):
        value = scores[k] / total
        change += abs(value - row[k])
        row[k] = value
    return 0.5 * change


@compiled
def mean_field_sweep(
    start: int,
    stop: int,
    order: Integers,
    ptr: Integers,
    neighbour: Integers,
    weight: Floats,
    scores_nk: Floats,
    coupling: float,
    posterior: Floats,
) -> float:
    """Set every item to its best given all others, forth and back; return the sum over items of the shares that moved."""
    n_classes = posterior.shape[1]
    scores, change = np.empty(n_classes), 0.0
    for turn in range(2):
        for i in range(start, stop):
            n = order[i] if turn == 0 else order[start + stop - 1 - i]
            for k in range(n_classes):
                scores[k] = scores_nk[n, k]
            for j in range(ptr[n], ptr[n + 1]):
                strength = coupling * weight[j]
                for k in range(n_classes):
                    scores[k] += strength * posterior[neighbour[j], k]
            change += _normalise(scores, posterior[n])
    return change


@compiled
def mean_field(
    start: int,
    stop: int,
    order: Integers,
    ptr: Integers,
    neighbour: Integers,
    weight: Floats,
    coupling: float,
    posterior: Floats,
    slope: Floats,
) -> None:
    """What the neighbours of every item say of it per unit of coupling, less what they say because of the item itself."""
    n_classes = posterior.shape[1]
    without = np.empty(n_classes)
    for i in range(start, stop):
        n = order[i]
        for k in range(n_classes):
            slope[n, k] = 0.0
        for j in range(ptr[n], ptr[n + 1]):
            m, total = neighbour[j], 0.0
            for k in range(n_classes):
                without[k] = posterior[m, k] * math.exp(-coupling * weight[j] * posterior[n, k])
                total += without[k]
            for k in range(n_classes):
                slope[n, k] += weight[j] * without[k] / total


@compiled
def belief_sweep(
    start: int,
    stop: int,
    order: Integers,
    ptr: Integers,
    reverse: Integers,
    weight: Floats,
    scores_nk: Floats,
    coupling: float,
    cavity: Floats,
    posterior: Floats,
) -> float:
    """Send the messages of every item, forth and back; return the sum over items of the shares that moved.

    Row j of `cavity`, of item n towards its j-th neighbour, is what n would be without that neighbour.
    """
    n_classes, most = posterior.shape[1], 0
    for i in range(start, stop):
        most = max(most, ptr[order[i] + 1] - ptr[order[i]])
    incoming, total, scores, change = np.empty((most, n_classes)), np.empty(n_classes), np.empty(n_classes), 0.0
    for turn in range(2):
        for i in range(start, stop):
            n = order[i] if turn == 0 else order[start + stop - 1 - i]
            first = ptr[n]
            for k in range(n_classes):
                total[k] = scores_nk[n, k]
            for j in range(first, ptr[n + 1]):
                growth = math.expm1(coupling * weight[j])
                for k in range(n_classes):
                    incoming[j - first, k] = math.log1p(growth * cavity[reverse[j], k])
                    total[k] += incoming[j - first, k]
            for k in range(n_classes):
                scores[k] = total[k]
            change += _normalise(scores, posterior[n])
            for j in range(first, ptr[n + 1]):
                for k in range(n_classes):
                    scores[k] = total[k] - incoming[j - first, k]
                _normalise(scores, cavity[j])
    return change


@compiled
def belief_field(
    start: int,
    stop: int,
    order: Integers,
    ptr: Integers,
    reverse: Integers,
    weight: Floats,
    coupling: float,
    cavity: Floats,
    field: Floats,
    slope: Floats,
) -> None:
    """What the neighbours' messages say of every item, and its derivative by the coupling with these messages."""
    n_classes = field.shape[1]
    for i in range(start, stop):
        n = order[i]
        for k in range(n_classes):
            field[n, k], slope[n, k] = 0.0, 0.0
        for j in range(ptr[n], ptr[n + 1]):
            growth = math.expm1(coupling * weight[j])
            for k in range(n_classes):
                share = growth * cavity[reverse[j], k]
                field[n, k] += math.log1p(share)
                slope[n, k] += weight[j] * (share + cavity[reverse[j], k]) / (1 + share)
