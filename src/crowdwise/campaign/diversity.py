"""Items with high scores that are far from each other."""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["diverse_order"]


def diverse_order(features: Array, score: Floats, n_wanted: int) -> Integers:
    """Positions of items in the order to ask them: each has the largest (score x distance to those before).

    Distances are in standardised features, O(n_wanted n D). Scores count by their ratio, so that items of nearly the same score
    compete by their distance alone, and an item with a score of zero is asked after all others, whatever its place.
    """
    if not len(score):
        return np.empty(0, np.int64)
    rows = features.reshape(len(features), -1).astype(float)
    sd = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(sd > 0, sd, 1)
    length = np.einsum("nd,nd->n", rows, rows)
    # Scores of items start at zero, or at worst below.
    value = score - min(score.min(), 0.0)
    value = value + 1e-9 * (value.max() or 1.0)
    chosen = [int(np.argmax(value))]
    nearest = np.full(len(rows), np.inf)
    for _ in range(min(n_wanted, len(rows)) - 1):
        last = chosen[-1]
        away = length + length[last] - 2 * (rows @ rows[last])
        # What rounding leaves between equal rows is no distance.
        away[away < 1e-12 * (length + length[last])] = 0
        nearest = np.minimum(nearest, away)
        score = value * np.sqrt(nearest)
        # Duplicates of what was chosen have no distance left; they go in the order of their scores.
        score[chosen] = -np.inf
        best = int(np.argmax(score))
        if score[best] <= 0:
            rest = np.setdiff1d(np.arange(len(rows)), chosen)
            chosen += rest[np.argsort(-value[rest], kind="stable")].tolist()
            break
        chosen.append(best)
    return np.array(chosen[:n_wanted], np.int64)
