"""Weights of items, for classes of unequal size."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats

__all__ = ["item_weights"]


def item_weights(class_weight: Any, votes: Annotations, posterior: Floats) -> Floats | None:
    """Weight of every item, [N], one on average; None where all are alike.

    Parameters
    ----------
    class_weight
        None, "balanced" (every class weighs the same), or class -> weight.
    posterior : [N, K]
        Probability of the classes, by which an item has a part in the weight of each.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise _refused(class_weight)
        weight = len(posterior) / (votes.n_classes * np.maximum(posterior.sum(axis=0), 1e-12))
    else:
        weight = _given(class_weight, votes)
    # Not quite zero, or the weight of a vote could not be separated from that of its item.
    item_weight = np.maximum(posterior @ weight, 1e-9)
    # One on average: heads that weigh the items against a prior take them for so many items.
    return np.asarray(item_weight / item_weight.mean())


def _given(class_weight: Any, votes: Annotations) -> Floats:
    """The user's weights in the order of the classes, [K]."""
    try:
        given = dict(class_weight)
    except (TypeError, ValueError):
        raise _refused(class_weight) from None
    missing = [c for c in votes.classes.tolist() if c not in given]
    if missing:
        raise SettingError(f"class_weight lacks the class {missing[0]!r}")
    weight = np.array([float(given[c]) for c in votes.classes.tolist()])
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise SettingError(f"class_weight must hold finite weights >= 0, one of them above; got {class_weight!r}")
    return weight


def _refused(class_weight: Any) -> SettingError:
    return SettingError(f'class_weight must be None, "balanced" or class -> weight; got {class_weight!r}')
