"""Votes in a matrix, items x annotators, in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.encode import (
    Where,
    label_codes,
    missing_mask,
    series_of,
    tidy,
    to_polars,
    vocabulary_array,
    vocabulary_series,
)
from crowdwise.errors import InputError
from crowdwise.kernels.types import Array

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

__all__ = ["dense_matrix", "matrix_votes"]


def matrix_votes(
    matrix: Any,
    missing: Any,
    items: Sequence[Any] | None,
    annotators: Sequence[Any] | None,
    classes: Sequence[Any] | None,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Codes of the votes in a matrix, and vocabularies, as `Annotations.from_codes` takes them."""
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
    item_ids, annotator_ids = vocabulary_series(items, "item ids"), vocabulary_series(annotators, "annotator ids")
    codes, class_ids = label_codes(labels, classes, Where("the matrix"))
    return n, a, codes, vocabulary_array(item_ids), vocabulary_array(annotator_ids), class_ids


def dense_matrix(votes: Annotations, missing: Any) -> Array:
    """Labels of the votes, [N, A], as objects; see `Annotations.to_matrix`."""
    repeated = (votes.item[1:] == votes.item[:-1]) & (votes.annotator[1:] == votes.annotator[:-1])
    if repeated.any():
        e = int(np.flatnonzero(repeated)[0])
        raise InputError(
            f"annotator {votes.annotators[votes.annotator[e]]!r} labelled item {votes.items[votes.item[e]]!r} "
            "more than once; a matrix holds one vote per cell (use to_frame)"
        )
    cells = np.full((votes.n_items, votes.n_annotators), missing, dtype=object)
    cells[votes.item, votes.annotator] = votes.classes[votes.label]
    return cells
