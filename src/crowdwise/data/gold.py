"""Known true labels of some items, from any shape a user keeps them in."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.encode import Where, codes_of, find_column, missing_mask, series_of, tidy, to_polars, translate
from crowdwise.errors import DataWarning, InputError, did_you_mean, listed

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from crowdwise.data.annotations import Annotations

__all__ = [
    "TRUE_LABEL",
    "UNCLEAR",
    "GoldConflict",
    "GoldDecides",
    "decided_by_gold",
    "encode_gold",
    "gold_columns",
    "joined_gold",
]

# The column into which people write true labels, and what they write where nobody can tell.
TRUE_LABEL = "true label"
UNCLEAR = "?"


class GoldConflict(InputError):
    """Gold gives one item two labels; perhaps the items are others."""


class GoldDecides(DataWarning):
    """Gold in a file decides most labels of a fit, so that its votes decide few."""


def decided_by_gold(votes: Annotations, instead: str) -> str:
    """What to say where gold in a file decides most labels, with what to do `instead` to measure; nothing elsewhere."""
    if 2 * votes.n_gold <= votes.n_items:
        return ""
    decides = f"gold in the file decides {votes.n_gold:,} of {votes.n_items:,} labels"
    return f"{decides}; to measure the votes against it instead, {instead}"


def gold_columns(gold: Any) -> tuple[pl.Series, pl.Series] | None:
    """Items and labels of a mapping, a frame or a Series; None for anything that does not name its items."""
    if isinstance(gold, Mapping) and not any(isinstance(v, list | tuple | np.ndarray) for v in gold.values()):
        return series_of(list(gold)), series_of(list(gold.values()))
    if hasattr(gold, "columns") or isinstance(gold, Mapping):
        frame = to_polars(gold)
        item, label = (frame[find_column(frame, role, None, Where("gold"))] for role in ("item", "truth"))
        return item, label
    if hasattr(gold, "index") and hasattr(gold, "to_numpy"):
        return series_of(gold.index), series_of(gold.to_numpy())
    return None


def encode_gold(votes: Annotations, gold: Any) -> NDArray[np.int16]:
    """Return the class code of every item, [N], -1 where unknown.

    Parameters
    ----------
    votes : Annotations
    gold : mapping, frame, Series or sequence
        ``{item: label}``, a frame with an item and a label column, a pandas Series indexed by
        item, or N labels in the order of ``votes.items`` with None or NaN where unknown.

    Examples
    --------
    >>> from crowdwise.data.annotations import Annotations
    >>> votes = Annotations.from_arrays(["a", "b", "c"], ["x", "x", "y"], ["cat", "dog", "cat"])
    >>> encode_gold(votes, {"b": "dog", "c": "cat"}).tolist()
    [-1, 1, 0]
    """
    if not hasattr(gold, "__len__"):
        raise InputError(f"gold must be a mapping item -> label, a frame or one label per item, got {type(gold).__name__}")
    columns = gold_columns(gold)
    if columns is None:
        if len(gold) != votes.n_items:
            raise InputError(
                f"gold has {len(gold)} labels for {votes.n_items} items; give one per item, or a mapping item -> label"
            )
        columns = series_of(votes.items), series_of(gold)
    item, label = map(tidy, columns)
    known = (~missing_mask(label, ())).to_numpy()
    # A bootstrap sample of items repeats ids: look gold up by distinct id, then copy it to each repeat.
    everyone = tidy(series_of(votes.items))
    distinct = everyone.unique(maintain_order=True)
    position = codes_of(item, distinct)
    codes = codes_of(label, tidy(series_of(votes.classes)))
    outside = np.flatnonzero(known & (codes < 0) & (position >= 0))
    if len(outside):
        text = str(label[int(outside[0])])
        classes = [str(c) for c in votes.classes]
        raise InputError(
            f"gold label {text!r} of item {item[int(outside[0])]!r} is not among the classes {listed(classes)}"
            f"{did_you_mean(text, classes)} (name every class with classes=... or --classes)"
        )
    absent = int((known & (position < 0)).sum())
    if absent:
        warnings.warn(f"{absent} gold labels are of items without votes and were ignored", DataWarning, stacklevel=3)
    use = known & (position >= 0)
    encoded = np.full(max(len(distinct), 1), -1, np.int16)
    encoded[position[use]] = codes[use]
    conflict = np.flatnonzero(use & (encoded[np.maximum(position, 0)] != codes))
    if len(conflict):
        raise GoldConflict(f"gold gives item {item[int(conflict[0])]!r} two different labels")
    return encoded[codes_of(everyone, distinct)]


def joined_gold(parts: Sequence[Annotations], items: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int16] | None:
    """Gold of several sets of votes for the union of their items and classes; a later part's word stands."""
    if all(part.gold is None for part in parts):
        return None
    gold = np.full(len(items), -1, np.int16)
    for part in parts:
        if part.gold is not None:
            known = np.flatnonzero(part.gold >= 0)
            gold[translate(part.items, items)[known]] = translate(part.classes, classes)[part.gold[known]]
    return gold
