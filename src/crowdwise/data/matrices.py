"""Votes in a matrix, items x annotators, in and out; and what may be none."""

from __future__ import annotations

import warnings
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
from crowdwise.errors import DataWarning, InputError
from crowdwise.kernels.types import Array, Flags

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

__all__ = ["dense_matrix", "matrix_votes", "seem_counts"]

# Rows by which variances can be compared.
_ROWS = 20


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
    if missing is None and present.all():
        present = ~_minus_ones(flat, classes)
    if not present.any():
        raise InputError(
            "the matrix holds no votes; name the marker of absent votes with missing=... (Snorkel and CrowdLayer files use -1)"
        )
    n, a = np.nonzero(present.reshape(cells.shape))
    labels = tidy(flat.filter(pl.Series(present)))
    item_ids, annotator_ids = vocabulary_series(items, "item ids"), vocabulary_series(annotators, "annotator ids")
    codes, class_ids = label_codes(labels, classes, Where("the matrix"))
    return n, a, codes, vocabulary_array(item_ids), vocabulary_array(annotator_ids), class_ids


def seem_counts(values: Any) -> bool:
    """Whether whole numbers, [rows, columns], may be votes per class: some are 0, and columns do not rise together.

    Rows of zeros, where nobody voted, are looked through if the sums of the other rows vary much less than independent columns
    would make them, which takes some rows to see: annotators who all say class 0 of some items leave such rows too.
    """
    if values.shape[0] < 2 or values.shape[1] < 2 or np.isnan(values).any():
        return False
    if (values < 0).any() or (values != np.floor(values)).any() or values.max() <= 1 or values.min() > 0:
        return False
    silent = values.sum(axis=1) == 0
    if silent.any():
        values = values[~silent]
        if len(values) < _ROWS or 2 * values.sum(axis=1).var() > values.var(axis=0).sum():
            return False
    moving = values[:, values.std(axis=0) > 0]
    if moving.shape[1] < 2:
        return False
    together = np.corrcoef(moving, rowvar=False)
    return bool((together.sum() - moving.shape[1]) <= 0)


def _minus_ones(labels: pl.Series, classes: Sequence[Any] | None) -> Flags:
    """Cells with -1 where it means no vote, as in files: beside two or more whole numbers from 0 up, if no cell is empty.

    -1 beside 0 and 1 may be three classes, and is refused unless most cells hold it. `classes` decide where they are given.
    """
    absent = np.zeros(len(labels), bool)
    if not labels.dtype.is_integer() or (classes is not None and any(str(name) == "-1" for name in classes)):
        return absent
    absent = (labels == -1).to_numpy()
    others = labels.filter(labels != -1).unique()
    if not absent.any() or len(others) < 2 or (others < 0).any():
        return np.zeros(len(labels), bool)
    if classes is None:
        if set(others) == {0, 1} and 2 * absent.sum() < len(labels):
            raise InputError(
                "the matrix holds -1, 0 and 1, and -1 may be a class or no vote. If it is no vote: "
                "Annotations.from_matrix(..., missing=-1); if it is a class: Annotations.from_matrix(..., classes=[-1, 0, 1])"
            )
        warnings.warn(
            f"-1 is taken for no vote, in {absent.sum():,} of {len(labels):,} cells (missing=-1 says so; as a class, name it "
            "in classes=...)",
            DataWarning,
            stacklevel=4,
        )
    return absent


def dense_matrix(votes: Annotations, missing: Any) -> Array:
    """Labels of the votes, [N, A], as objects; see `Annotations.to_matrix`."""
    repeated = votes.pair[1:] == votes.pair[:-1]
    if repeated.any():
        e = int(np.flatnonzero(repeated)[0])
        raise InputError(
            f"annotator {votes.annotators[votes.annotator[e]]!r} labelled item {votes.items[votes.item[e]]!r} "
            "more than once; a matrix holds one vote per cell (use to_frame)"
        )
    cells = np.full((votes.n_items, votes.n_annotators), missing, dtype=object)
    cells[votes.item, votes.annotator] = votes.classes[votes.label]
    return cells
