"""Parts of building `Annotations`: columns to checked codes, matrices to columns, votes to sorted order.

Errors name the row and the fix; see `crowdwise.data.encode` for the vocabularies underneath.
"""

from __future__ import annotations

import warnings
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
    to_polars,
    vocabulary_array,
    vocabulary_series,
)
from crowdwise.errors import DataWarning, InputError, did_you_mean, listed

__all__ = [
    "as_integers",
    "checked_weights",
    "id_codes",
    "label_codes",
    "matrix_votes",
    "sorted_votes",
    "union",
    "warn_of_missing_words",
]

_MISSING_WORDS = {"nan", "na", "n/a", "null", "none", "<na>", "nil"}


def id_codes(column: pl.Series, given: Sequence[Any] | None, what: str, where: Where) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode item or annotator ids; a missing id is an error that names its row."""
    column = tidy(column)
    absent = missing_mask(column, ())
    if absent.any():
        row = int(absent.arg_true()[0])
        raise InputError(f"{where.row(row)}: the {what} id is missing; remove the row or fill it in")
    if given is None:
        return encode(column)
    vocabulary = vocabulary_series(given, f"{what} ids")
    codes = codes_of(column, vocabulary)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where.row(row)}: {what} {column[row]!r} is not among the given {what}s")
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


def warn_of_missing_words(classes: NDArray[Any], where: Where) -> None:
    """Warn of classes called NaN, NA, null, ...: in a text file these usually mean "no answer"."""
    words = [c for c in classes.tolist() if isinstance(c, str) and c.strip().lower() in _MISSING_WORDS]
    if words:
        warnings.warn(
            f"{where.source}: {', '.join(map(repr, words))} counts as a class; if it means a missing answer, "
            f"say so with missing=... or --missing {words[0]}",
            DataWarning,
            stacklevel=4,
        )


def as_integers(labels: pl.Series) -> pl.Series:
    """Turn text that consists of plain integers into integers; leave anything else alone."""
    if labels.dtype != pl.String or not labels.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all():
        return labels
    return labels.cast(pl.Int64)


def checked_weights(weight: pl.Series, where: Where) -> NDArray[np.float64]:
    """Weights as floats; anything but a finite number >= 0 is an error that names its row."""
    values = np.array(weight.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"{where.row(row)}: weight {weight[row]!r} is not a finite number >= 0")
    return values


def matrix_votes(
    matrix: Any, missing: Any, items: Sequence[Any] | None, annotators: Sequence[Any] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], pl.Series, pl.Series, pl.Series]:
    """Item and annotator positions and the labels of the votes in a matrix, and both sides' ids."""
    if hasattr(matrix, "column_names"):
        matrix = to_polars(matrix)
    if items is None and hasattr(matrix, "index") and hasattr(matrix, "columns"):
        items = list(matrix.index)
    if annotators is None and hasattr(matrix, "columns"):
        annotators = list(matrix.columns)
    if isinstance(matrix, np.ma.MaskedArray):
        mask, matrix = np.ma.getmaskarray(matrix), matrix.data.astype(object)
        matrix[mask] = None
    # Lists become objects: numpy would turn a NaN beside text into the text "nan".
    cells = np.array(matrix, dtype=object) if isinstance(matrix, list | tuple) else np.asarray(matrix)
    if cells.ndim != 2:
        raise InputError(f"a vote matrix has two axes, items x annotators; this one has shape {cells.shape}")
    n_items, n_annotators = cells.shape
    items = range(n_items) if items is None else items
    annotators = range(n_annotators) if annotators is None else annotators
    if (len(items), len(annotators)) != cells.shape:
        raise InputError(f"matrix of shape {cells.shape} with {len(items)} item ids and {len(annotators)} annotator ids")
    flat = tidy(series_of(cells.ravel()))
    present = (~missing_mask(flat, () if missing is None else missing)).to_numpy()
    if not present.any():
        raise InputError(
            "the matrix holds no votes; name the marker of absent votes with missing=... (Snorkel and CrowdLayer files use -1)"
        )
    n, a = np.nonzero(present.reshape(cells.shape))
    labels = tidy(flat.filter(pl.Series(present)))
    return n, a, labels, vocabulary_series(items, "item ids"), vocabulary_series(annotators, "annotator ids")


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
