"""How well two clusterings agree, whatever the clusters are called."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import InputError
from crowdwise.kernels.types import Floats

__all__ = ["hungarian_accuracy", "normalised_mutual_information"]


def hungarian_accuracy(found: ArrayLike, truth: ArrayLike) -> float:
    """Share of items in the right cluster under the best one-to-one match of clusters and classes.

    Examples
    --------
    >>> hungarian_accuracy([1, 1, 2, 2], ["a", "a", "b", "a"])
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    table = _table(found, truth)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / table.sum())


def normalised_mutual_information(found: ArrayLike, truth: ArrayLike) -> float:
    """Mutual information over the mean of the two entropies: 1 for equal clusterings, about 0 for unrelated ones.

    Examples
    --------
    >>> normalised_mutual_information([1, 1, 2, 2], ["b", "b", "a", "a"])
    1.0
    """
    joint = _table(found, truth)
    joint = joint / joint.sum()
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    mean = (_entropy(rows) + _entropy(columns)) / 2
    if mean == 0:
        return 1.0
    return float(min(max((_entropy(rows) + _entropy(columns) - _entropy(joint.ravel())) / mean, 0.0), 1.0))


def _table(found: ArrayLike, truth: ArrayLike) -> Floats:
    a, b = np.asarray(found), np.asarray(truth)
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise InputError(f"two clusterings of the same items are needed; got shapes {a.shape} and {b.shape}")
    rows, columns = np.unique(a, return_inverse=True)[1], np.unique(b, return_inverse=True)[1]
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1.0)
    return table


def _entropy(share: Floats) -> float:
    positive = share[share > 0]
    return float(-(positive * np.log(positive)).sum())
