"""Columns to checked codes, votes to sorted order, several vocabularies to one.

Errors name the row and the fix; see `crowdwise.data.encode` for the vocabularies underneath.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import (
    Where,
    as_text,
    codes_of,
    encode,
    missing_mask,
    series_of,
    tidy,
    vocabulary_array,
    vocabulary_series,
)
from crowdwise.errors import InputError, did_you_mean, listed

__all__ = ["checked_weights", "id_codes", "label_codes", "recoded_classes", "sorted_votes", "union"]


def id_codes(
    column: pl.Series, given: Sequence[Any] | None, what: str, where: Where, *, n_rows: int | None = None
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode item or annotator ids; a missing id is an error that names its row.

    With `n_rows`, the column is several of the table's columns, of so many rows each, one below the other.
    """
    column = tidy(column)
    n_rows = n_rows or max(len(column), 1)
    absent = missing_mask(column, ())
    if absent.any():
        row = int(absent.arg_true()[0]) % n_rows
        raise InputError(f"{where.row(row)}: the {what} id is missing; remove the row or fill it in")
    if given is None:
        return encode(column)
    vocabulary = vocabulary_series(given, f"{what} ids")
    codes = codes_of(column, vocabulary)
    if (codes < 0).any():
        at = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where.row(at % n_rows)}: {what} {column[at]!r} is not among the given {what}s")
    return codes, vocabulary_array(vocabulary)


def label_codes(
    labels: pl.Series, classes: Sequence[Any] | None, where: Where, rows: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode labels against the given classes, or against those that occur."""
    if classes is None:
        if len(labels) == 0:
            raise InputError(
                f"{where.source}: every label is missing, so no class is known; name them with classes=... or --classes"
            )
        return encode(labels)
    vocabulary = vocabulary_series(classes, "classes")
    codes = codes_of(labels, vocabulary)
    if (codes < 0).any():
        index = int(np.flatnonzero(codes < 0)[0])
        row = index if rows is None else int(rows[index])
        known = [str(c) for c in vocabulary.to_list()]
        raise InputError(
            f"{where.row(row)}: label {str(labels[index])!r} is not among the classes {listed(known)}"
            + did_you_mean(str(labels[index]), known)
        )
    return codes, vocabulary_array(vocabulary)


def recoded_classes(
    classes: NDArray[Any], given: Sequence[Any], used: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """The new code of every class, and the given classes; one that is in use and not given is an error."""
    wanted = vocabulary_series(given, "classes")
    new = codes_of(tidy(series_of(classes)), wanted)
    lost = [str(c) for c in classes[(new < 0) & used]]
    if lost:
        raise InputError(f"labels {lost} occur in the votes or in gold but are not among the classes {wanted.to_list()}")
    return new, vocabulary_array(wanted)


def checked_weights(weight: pl.Series, where: Where) -> NDArray[np.float64]:
    """Weights as floats; anything but a finite number >= 0 is an error that names its row."""
    values = np.array(weight.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"{where.row(row)}: weight {weight[row]!r} is not a finite number >= 0")
    return values


def sorted_votes(
    item: NDArray[Any],
    annotator: NDArray[Any],
    label: NDArray[Any],
    weight: NDArray[np.float64] | None,
    sizes: tuple[int, int, int],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int16], NDArray[np.float64] | None]:
    """Sort votes by item, annotator and label; return item_ptr, annotator, label and weight."""
    n_items, n_annotators, n_classes = sizes[0], max(sizes[1], 1), max(sizes[2], 1)
    if n_classes > np.iinfo(np.int16).max:
        raise InputError(f"{n_classes} different labels: these look like values, not classes (the limit is 32767)")
    if n_items * n_annotators * n_classes >= 2**63 or n_annotators * n_classes >= 2**31:
        raise InputError(f"{n_items} items x {n_annotators} annotators x {n_classes} classes exceed 64-bit codes")
    # One sortable key per vote; sorting keys themselves is several times faster than an argsort.
    key = (item.astype(np.int64) * n_annotators + annotator) * n_classes + label
    if weight is None:
        key.sort()
    else:
        order = np.lexsort((weight, key))
        key, weight = key[order], np.ascontiguousarray(weight[order])
    pair = key // n_classes
    item_ptr = np.searchsorted(pair, np.arange(n_items + 1, dtype=np.int64) * n_annotators).astype(np.int64)
    return item_ptr, (pair % n_annotators).astype(np.int32), (key - pair * n_classes).astype(np.int16), weight


def union(vocabularies: list[NDArray[Any]], sort: bool) -> NDArray[Any]:
    """Union of vocabularies: the first one's order, or sorted as `encode` does."""
    series = [tidy(series_of(vocabulary)) for vocabulary in vocabularies if len(vocabulary)]
    if len({part.dtype for part in series}) > 1:
        series = [as_text(part) for part in series]
    union = pl.concat(series).unique(maintain_order=True) if series else pl.Series([], dtype=pl.String)
    return vocabulary_array(union.sort() if sort else union)
