"""Rows of features beside answers: which row is which item."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.encode import codes_of, series_of, tidy
from crowdwise.errors import InputError
from crowdwise.kernels.types import Array, Integers

__all__ = ["row_positions"]


def row_positions(known: Array, n_rows: int, items: Any) -> Integers:
    """The row of every item with answers, [N].

    Parameters
    ----------
    known : [N]
        Ids of the items with answers.
    items : sequence or None
        Ids of the rows; left out, rows are in the order of `known`.
    """
    if items is None:
        if n_rows != len(known):
            raise InputError(f"{n_rows:,} rows of features and {len(known):,} items; give the ids of the rows: items=...")
        return np.arange(n_rows)
    ids = tidy(series_of(items))
    if len(ids) != n_rows:
        raise InputError(f"{n_rows:,} rows of features and {len(ids):,} ids; give one id per row")
    codes = codes_of(tidy(series_of(known)), ids)
    if (codes < 0).any():
        lost = known[codes < 0]
        raise InputError(f"no features of {len(lost):,} items with answers, such as {lost.tolist()[0]!r}; add their rows")
    return codes.astype(np.int64)
