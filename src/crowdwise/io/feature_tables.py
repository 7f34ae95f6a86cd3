"""Tables of features: an id and columns of numbers, or of lists of numbers, per row."""

from __future__ import annotations

import numpy as np
import polars as pl

from crowdwise.data.encode import ALIASES, integers, tidy, vocabulary_array
from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.source import Places, Source, Table
from crowdwise.kernels.types import Array

__all__ = ["checked_ids", "not_finite", "read_feature_table"]


def read_feature_table(source: Source, item: str | None) -> tuple[Array, Array | None, list[str]]:
    """Return the numbers [N, D], the ids of the rows (None where the table has none) and the names of the columns."""
    names = source.columns
    id_name = _id_column(names, item, source.name)
    table = source.table(names)
    if table.frame.height == 0:
        raise InputError(f"{source.name}: no rows; expected one per item")
    items = None
    if id_name is not None:
        ids = integers(table.frame[id_name]) if source.kind == "delimited" else table.frame[id_name]
        items = checked_ids(tidy(ids), table.where, f"id in column {id_name!r}")
    columns = [name for name in names if name != id_name]
    if "" in columns:
        raise InputError(
            f"{source.name}: the first column has no name; if it is an index, write the table without it "
            "(pandas: to_csv(..., index=False)), else name it"
        )
    if not columns:
        raise InputError(f"{source.name}: no column of features beside {id_name!r}")
    parts: list[Array] = []
    labels: list[str] = []
    for name in columns:
        part = _numbers(table, name)
        parts.append(part)
        labels += [name] if part.ndim == 1 else [f"{name}[{d}]" for d in range(part.shape[1])]
    return _side_by_side(parts), items, labels


def checked_ids(ids: pl.Series, where: Places, what: str) -> Array:
    """Return ids as an array; a missing or repeated one is named."""
    absent = ids.is_null() | (ids == "" if ids.dtype == pl.String else ids.is_null())
    if absent.any():
        raise InputError(f"{where.row(int(absent.arg_true()[0]))}: the {what} is missing; every row of features needs one")
    repeated = ~ids.is_first_distinct()
    if repeated.any():
        row = int(repeated.arg_true()[0])
        raise InputError(
            f"{where.row(row)}: the {what} occurs for the second time, {ids[row]!r}; features have one row per item"
        )
    return vocabulary_array(ids)


def not_finite(place: str, counted: str = "") -> InputError:
    """The error for a number that no method can use."""
    counted = counted and f" ({counted})"
    return InputError(f"{place}{counted}: NaN or infinity; fill it in or drop the item")


def _id_column(names: list[str], item: str | None, source: str) -> str | None:
    """The column of the ids by the names that votes use, or called id; None where there is none."""
    if item is not None:
        if item not in names:
            raise InputError(f"{source}: no column {item!r}; found {listed(map(repr, names))}{did_you_mean(item, names)}")
        return item
    plain = {name: "".join(c for c in name.lower() if c.isalnum()) for name in names}
    for known in (("item",), ALIASES["item"], ("id",)):
        found = [name for name in names if plain[name] in known]
        if len(found) > 1:
            raise InputError(
                f"{source}: several columns could be the item: {listed(map(repr, found))}. "
                "Name it: item=... in Python, --features-item NAME on the command line"
            )
        if found:
            return found[0]
    # The index of a data frame has no name.
    return names[0] if names[:1] == [""] else None


def _numbers(table: Table, name: str) -> Array:
    """A column as numbers, [N], or a column of lists as [N, D]; the first cell that is none is named."""
    series, where = table.frame[name], table.where
    if series.dtype.is_nested():
        return _embedding(series, name, where)
    if series.dtype == pl.String:
        series = series.str.strip_chars().replace("", None)
        cast = series.cast(pl.Float64, strict=False)
        wrong = cast.is_null() & series.is_not_null()
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise InputError(
                f"{where.row(row)}: {series[row]!r} in column {name!r} is not a number; "
                "encode text as numbers or remove the column (the ids' column: --features-item NAME)"
            )
        series = cast
    elif not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        raise InputError(f"{where.source}: column {name!r} holds {series.dtype}, not numbers; encode it or remove the column")
    if series.null_count():
        raise InputError(
            f"{where.row(int(series.is_null().arg_true()[0]))}: column {name!r} is empty; fill it in or drop the item"
        )
    values = series.cast(pl.Float32 if series.dtype == pl.Float32 else pl.Float64).to_numpy()
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise not_finite(f"{where.row(int(bad[0]))}, column {name!r}")
    return values


def _embedding(series: pl.Series, name: str, where: Places) -> Array:
    """A column of lists of numbers of one length, [N, D]."""
    lists = series.arr.to_list() if isinstance(series.dtype, pl.Array) else series
    if not isinstance(lists.dtype, pl.List) or not lists.dtype.inner.is_numeric():
        raise InputError(f"{where.source}: column {name!r} holds {series.dtype}, not numbers; encode it or remove the column")
    sizes = lists.list.len().fill_null(0)
    width = max(int(sizes[0]), 1)
    odd = sizes != width
    if odd.any():
        row = int(odd.arg_true()[0])
        raise InputError(f"{where.row(row)}: {sizes[row]} numbers in column {name!r}; every row needs the {width} of the first")
    flat = lists.explode()
    if flat.null_count():
        row = int(flat.is_null().arg_true()[0]) // width
        raise InputError(f"{where.row(row)}: column {name!r} has an empty entry; fill it in or drop the item")
    values = flat.cast(pl.Float32 if flat.dtype == pl.Float32 else pl.Float64).to_numpy().reshape(len(lists), width)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise not_finite(f"{where.row(int(bad[0]))}, column {name!r}")
    return values


def _side_by_side(parts: list[Array]) -> Array:
    small = all(part.dtype == np.float32 for part in parts)
    width = sum(1 if part.ndim == 1 else part.shape[1] for part in parts)
    X = np.empty((len(parts[0]), width), np.float32 if small else np.float64)
    start = 0
    for part in parts:
        stop = start + (1 if part.ndim == 1 else part.shape[1])
        X[:, start:stop] = part.reshape(len(part), -1)
        start = stop
    return X
