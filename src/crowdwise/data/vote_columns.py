"""Votes for classes from a frame or from arrays, as codes with their vocabularies."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from crowdwise.data.coding import checked_weights, id_codes, label_codes
from crowdwise.data.encode import (
    Where,
    find_column,
    missing_mask,
    series_of,
    tidy,
    to_polars,
)
from crowdwise.errors import DataWarning, InputError
from crowdwise.kernels.types import Array, Floats

__all__ = ["VoteCodes", "array_columns", "coded_votes", "frame_columns"]

_MISSING_WORDS = {"nan", "na", "n/a", "null", "none", "<na>", "nil"}
Columns = tuple[pl.Series, pl.Series, pl.Series, pl.Series | None]


class VoteCodes(NamedTuple):
    """Votes in any order, as `Annotations.from_codes` takes them."""

    item: Array
    annotator: Array
    label: Array
    items: Array
    annotators: Array
    classes: Array
    weight: Floats | None = None
    n_missing: int = 0


def frame_columns(
    frame: Any, item: str | None, annotator: str | None, label: str | None, weight: str | None, where: Where
) -> Columns:
    """Columns of the items, the annotators, the labels and, where named, the weights of a frame."""
    table = to_polars(frame)
    given = {"item": item, "annotator": annotator, "label": label}
    names = [find_column(table, role, name, where) for role, name in given.items()]
    if len(set(names)) < 3:
        raise InputError(f"{where.source}: item, annotator and label must be three different columns, got {names}")
    weights = None if weight is None else table[find_column(table, "weight", weight, where)]
    return table[names[0]], table[names[1]], table[names[2]], weights


def array_columns(item: Any, annotator: Any, label: Any, weight: Any) -> Columns:
    """Columns of sequences, which must have one length."""
    columns = [series_of(values) for values in (item, annotator, label)]
    if len({len(column) for column in columns}) > 1:
        sizes = ", ".join(str(len(column)) for column in columns)
        raise InputError(f"item, annotator and label must have one length, got {sizes}")
    weights = None if weight is None else series_of(weight)
    if weights is not None and len(weights) != len(columns[0]):
        raise InputError(f"{len(weights)} weights for {len(columns[0])} votes; give one weight per vote")
    return columns[0], columns[1], columns[2], weights


def coded_votes(
    columns: Columns,
    where: Where,
    classes: Sequence[Any] | None,
    items: Sequence[Any] | None,
    annotators: Sequence[Any] | None,
    missing: Iterable[Any],
) -> VoteCodes:
    """Encode columns; rows whose label is missing are dropped and counted, whoever and whatever they name stays known."""
    item, annotator, label, weight = columns
    if len(item) == 0 and items is None:
        raise InputError(f"{where.source}: no rows; expected one row per vote with an item, an annotator and a label")
    item_codes, item_ids = id_codes(item, items, "item", where)
    annotator_codes, annotator_ids = id_codes(annotator, annotators, "annotator", where)
    label = tidy(label)
    absent = missing_mask(label, missing)
    present = (~absent).to_numpy()
    # Integers that shared a column with text markers ("?") are still integers.
    marked = int(absent.sum()) > label.null_count()
    kept = _as_integers(label.filter(~absent)) if marked else label.filter(~absent)
    codes, class_ids = label_codes(kept, classes, where, np.flatnonzero(present))
    if classes is None:
        _warn_of_missing_words(class_ids, where)
    weights = None if weight is None else checked_weights(weight, where)[present]
    ids = (item_ids, annotator_ids, class_ids)
    return VoteCodes(item_codes[present], annotator_codes[present], codes, *ids, weights, int(len(present) - present.sum()))


def _warn_of_missing_words(classes: Array, where: Where) -> None:
    """Warn of classes called NaN, NA, null, ...: in a text file these usually mean "no answer"."""
    words = [c for c in classes.tolist() if isinstance(c, str) and c.strip().lower() in _MISSING_WORDS]
    if words:
        warnings.warn(
            f"{where.source}: {', '.join(map(repr, words))} counts as a class; if it means a missing answer, "
            f"say so with missing=... or --missing {words[0]}",
            DataWarning,
            stacklevel=5,
        )


def _as_integers(labels: pl.Series) -> pl.Series:
    """Turn text that consists of plain integers into integers; leave anything else alone."""
    if labels.dtype != pl.String or not labels.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all():
        return labels
    return labels.cast(pl.Int64)
