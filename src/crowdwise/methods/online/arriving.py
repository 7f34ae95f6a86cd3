"""What an update is given: votes, perhaps none, and gold labels of old and new items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import Where, find_column, series_of, tidy, to_polars, vocabulary_array
from crowdwise.data.gold import encode_gold
from crowdwise.errors import InputError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.estimator.carry import positions
from crowdwise.kernels.types import Array, Integers

if TYPE_CHECKING:
    from crowdwise.methods.online.state import State

__all__ = ["arriving_votes", "known_classes", "without_votes"]


def arriving_votes(votes: Any, classes: Array) -> Annotations:
    """Votes in any usual form; a frame without rows is an update without votes."""
    if (hasattr(votes, "columns") or isinstance(votes, dict)) and to_polars(votes).height == 0:
        return without_votes(classes)
    return as_annotations(votes)


def without_votes(classes: Array, items: Array | None = None) -> Annotations:
    """No votes, on these items if any, with these classes."""
    none: Array = np.empty(0, object)
    items = none if items is None else items
    empty = np.empty(0, np.int32)
    return Annotations(np.zeros(len(items) + 1, np.int64), empty, empty.astype(np.int16), items, none, classes)


def known_classes(gold: Any, state: State, arriving: Annotations, classes: Array) -> tuple[Array, Integers]:
    """Ids and class codes of the gold labels whose items are known by now; the others are warned of."""
    if isinstance(gold, Mapping) and not any(isinstance(value, list | tuple | np.ndarray) for value in gold.values()):
        named = series_of(list(gold))
    elif hasattr(gold, "columns") or isinstance(gold, Mapping):
        frame = to_polars(gold)
        named = frame[find_column(frame, "item", None, Where("gold"))]
    elif hasattr(gold, "index") and hasattr(gold, "to_numpy"):
        named = series_of(gold.index)
    else:
        raise InputError("gold of an update must name its items: give a mapping item -> label, a frame or a Series")
    ids = vocabulary_array(tidy(named).unique(maintain_order=True).drop_nulls())
    there = (state.items.find(ids) >= 0) | (positions(ids, arriving.items) >= 0)
    codes = encode_gold(without_votes(classes, ids[there]), gold)
    return ids[there][codes >= 0], codes[codes >= 0]
