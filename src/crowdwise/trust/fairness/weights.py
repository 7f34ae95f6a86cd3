"""Weights for training under which class and group are independent (Kamiran and Calders 2012).

    w[s, k] = P(s) P(k) / P(s, k)

P(s, k) is the share of items of group s and class k; with soft labels, of their probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.errors import InputError
from crowdwise.kernels.numerics import ratio
from crowdwise.kernels.types import Floats

__all__ = ["parity_weights"]


def parity_weights(labels: Any, groups: Any) -> Floats:
    """Weight of every item for a classifier that takes sample weights.

    Parameters
    ----------
    labels : [N] or [N, K]
        Labels, or class probabilities.
    groups : [N]
        Groups of the same items, or `Groups`.

    Returns
    -------
    [N] for labels; [N, K] for probabilities, the weight of an item as each class: fit to (item, class) with sample weight
    ``probability * weight``.

    Examples
    --------
    >>> parity_weights([1, 1, 1, 0], ["x", "x", "y", "y"]).round(3).tolist()
    [0.75, 0.75, 1.5, 0.5]
    """
    group = np.asarray(getattr(groups, "codes", groups))
    given = np.asarray(labels)
    if given.ndim not in (1, 2) or group.shape != given.shape[:1]:
        raise InputError(f"give one group per label: got shapes {given.shape} and {group.shape}")
    codes = np.unique(group, return_inverse=True)[1].ravel()
    if given.ndim == 1:
        of_class = np.unique(given, return_inverse=True)[1].ravel()
        q_nk = np.eye(of_class.max(initial=-1) + 1)[of_class]
    else:
        q_nk = given.astype(float)
        if not ((q_nk >= 0).all() and np.allclose(q_nk.sum(axis=1), 1, atol=1e-4)):
            raise InputError("probabilities must be >= 0 and sum to one in every row")
    joint = np.stack([np.bincount(codes, column) for column in q_nk.T], axis=1) / max(len(codes), 1)
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    # A class that a group does not have: nothing to weigh.
    weight = ratio(independent, joint, 0.0)[codes]
    return np.asarray(weight if given.ndim == 2 else weight[np.arange(len(codes)), of_class])
