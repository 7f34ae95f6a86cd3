"""Numbers from columns, and the known values of some items."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.columns import ColumnSource, column_source
from crowdwise.data.encode import Where, as_text, codes_of, decimal_points, find_column, means_missing, series_of, tidy
from crowdwise.errors import DataWarning, InputError
from crowdwise.kernels.types import Array, Flags, Floats

__all__ = ["known_columns", "known_values", "numbers"]

# Variances square a value: beyond this they leave the numbers that computers have.
LARGEST = 1e100


def known_values(gold: Any, items: Array, names: tuple[str, ...]) -> Floats:
    """Known values of the items, [N, D], NaN where unknown; see `Ratings.known`."""
    found = np.full((len(items), len(names)), np.nan)
    if gold is None:
        return found
    if isinstance(gold, Mapping) and not {"item", *names} <= set(gold):
        ids, columns = series_of(list(gold)), _transposed(list(gold.values()), len(names))
        value, absent = numbers(columns, names, Where("gold"))
    else:
        ids, value, absent = known_columns(column_source(gold, "gold"), names)
    position = codes_of(tidy(ids), tidy(series_of(items)))
    strangers = int(((position < 0) & ~absent).sum())
    if strangers:
        warnings.warn(f"{strangers} gold values are of items without values and were ignored", DataWarning, stacklevel=4)
    use = np.flatnonzero((position >= 0) & ~absent)
    found[position[use]] = value[use]
    conflict = use[(found[position[use]] != value[use]).any(axis=1)]
    if len(conflict):
        raise InputError(f"gold gives item {ids[int(conflict[0])]!r} two different values")
    return found


def known_columns(source: ColumnSource, names: tuple[str, ...]) -> tuple[pl.Series, Floats, Flags]:
    """Items of a table of known values, the numbers, [rows, D], and which rows have none.

    Several dimensions are found by their names; a single one also under the usual names of known answers.
    """
    known = pl.DataFrame(schema=dict.fromkeys(source.names, pl.String))
    where = Where(source.name)
    item = find_column(known, "item", None, where)
    alone = len(names) == 1 and names[0] not in source.names
    columns = [find_column(known, "truth", None if alone else name, where) for name in names]
    table, rows = source.fetch(list(dict.fromkeys([item, *columns])))
    return table[item], *numbers([table[name] for name in columns], names, rows)


def numbers(columns: Sequence[pl.Series], names: Sequence[str], where: Where) -> tuple[Floats, Flags]:
    """Columns as floats, [E, D], and which rows lack a value; what is no finite number is an error that names its row."""
    values, missing = [], []
    for name, column in zip(names, columns, strict=True):
        text = as_text(column) if column.dtype == pl.String or not column.dtype.is_numeric() else None
        if text is None:
            # NaN in a column of numbers is how frames say that there is none.
            number = column.cast(pl.Float64).fill_nan(None)
            absent = number.is_null()
        else:
            text = _without_percent(decimal_points(text.str.strip_chars()))
            number, absent = text.cast(pl.Float64, strict=False), text.is_null() | text.eq("").fill_null(True)
            # "n/a" is no answer; "nan" is what a computation left that failed, and is refused.
            words = text.filter(number.is_null() & ~absent).unique().to_list()
            absent |= text.is_in([word for word in words if means_missing(word)]).fill_null(False)
        found = np.array(number.fill_null(np.nan).to_numpy(), np.float64)
        bad = np.flatnonzero(~(np.abs(found) <= LARGEST) & ~absent.to_numpy())
        if len(bad):
            row = int(bad[0])
            why = f"is beyond {LARGEST:g}" if np.isfinite(found[row]) else "is no finite number"
            raise InputError(
                f"{where.row(row)}: the {name} {str(column[row])!r:.60} {why};"
                " correct it, or leave the cell empty where there is no answer"
            )
        values.append(found)
        missing.append(absent.to_numpy())
    n = len(columns[0])
    return np.stack(values, axis=1).reshape(n, len(columns)), np.any(missing, axis=0).reshape(n)


def _without_percent(text: pl.Series) -> pl.Series:
    """Numbers of percents without their sign, where all have it: then there is one unit."""
    given = text.filter(text.str.contains(r"^[+-]?[\d.]")).drop_nulls()
    return text.str.replace(r"\s*%$", "") if len(given) and given.str.ends_with("%").all() else text


def _transposed(rows: list[Any], n: int) -> list[pl.Series]:
    """Columns of values that come one row per item."""
    cells = [list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in rows]
    wrong = next((row for row in cells if len(row) != n), None)
    if wrong is not None:
        raise InputError(f"a gold value has {len(wrong)} numbers, and values here have {n}")
    return [series_of([row[k] for row in cells]) for k in range(n)]
