"""Values beside rows of features: which row is which item."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from crowdwise.data.encode import codes_of, series_of, tidy, vocabulary_array
from crowdwise.data.ratings import Ratings
from crowdwise.errors import InputError

__all__ = ["aligned", "checked_features"]


def checked_features(X: Any, n_features: int | None = None) -> Any:
    """Rows of finite numbers, `n_features` each: a two-dimensional array, or a sparse matrix in CSR form."""
    rows = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
    if n_features is not None and rows.ndim == 2 and rows.shape[1] != n_features:
        raise InputError(f"rows of {rows.shape[1]} features, and the model was fitted to {n_features}; give the same columns")
    if hasattr(rows, "tocsr"):
        return rows
    if rows.ndim != 2 or not rows.size:
        raise InputError(f"features have a row per item and at least one column, [N, M]; these have shape {rows.shape}")
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise InputError(f"features row {row}, column {column}: not a finite number; fill it in or leave the row out")
    return rows


def aligned(values: Ratings, n_rows: int, items: Any = None) -> Ratings:
    """The values with one item per row of features, in the rows' order.

    Parameters
    ----------
    values : Ratings
    n_rows : int
    items : sequence, optional
        Ids of the rows; without them rows are in the order of ``values.items``.
    """
    if items is None:
        if n_rows != values.n_items:
            raise InputError(f"{n_rows} rows of features for {values.n_items} items; give the ids of the rows with items=...")
        return values
    rows = tidy(series_of(items))
    if len(rows) != n_rows or rows.n_unique() != n_rows:
        raise InputError(f"{len(rows)} ids, {rows.n_unique()} of them different, for {n_rows} rows of features; give one each")
    position = codes_of(tidy(series_of(values.items)), rows)
    lost = np.flatnonzero((position < 0) & (values.votes_per_item > 0))
    if len(lost):
        raise InputError(f"{len(lost)} items with values have no row of features, such as {values.items[lost[0]]!r}; add them")
    item = position[values.item]
    order = np.argsort(item, kind="stable")
    return replace(
        values,
        item_ptr=np.searchsorted(item[order], np.arange(n_rows + 1)).astype(np.int64),
        annotator=values.annotator[order],
        value=values.value[order],
        weight=None if values.weight is None else values.weight[order],
        items=vocabulary_array(rows),
    )
